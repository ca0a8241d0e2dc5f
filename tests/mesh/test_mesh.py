"""Meshes: checks, connectivity against brute force, files of every format, broken files, whole-or-nothing writing."""

import contextlib
import csv
import gzip
import os
import pickle
import stat
import struct
import threading
import types

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsolve import PatchMesh, apps, datasets
from meshsolve.apps.viewer import Model
from meshsolve.arrays import Csr
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.files import written_whole
from meshsolve.mesh import Mesh, as_mesh, load_mesh, pattern_of
from meshsolve.mesh.files import merge_identical
from meshsolve.operators import cotan_laplacian, mass_matrix

TETRAHEDRON = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
CORNERS = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])


@st.composite
def random_meshes(draw):
    n = draw(st.integers(3, 12))
    corner = st.lists(st.integers(0, n - 1), min_size=3, max_size=3, unique=True)
    return n, np.array(draw(st.lists(corner, max_size=30)), np.int64).reshape(-1, 3)


def sides_of(faces):
    return [(min(t[c], t[(c + 1) % 3]), max(t[c], t[(c + 1) % 3])) for t in faces.tolist() for c in range(3)]


def is_manifold_by_hand(n, faces):
    sides = sides_of(faces)
    if any(sides.count(s) > 2 for s in set(sides)):
        return False
    for v in range(n):
        around = [set(t) for t in faces.tolist() if v in t]
        if around:
            fan, rest = [around[0]], around[1:]
            while grown := [t for t in rest if any(len(t & f) == 2 + (t == f) for f in fan)]:
                fan, rest = fan + grown, [t for t in rest if not any(t is g for g in grown)]
            if rest:
                return False
    return True


# ---- arrays in


@pytest.mark.parametrize("vertices, faces, words", [
    (np.zeros((3, 2)), [[0, 1, 2]], "(n, 3)"),
    (np.zeros(9), [[0, 1, 2]], "(n, 3)"),
    (np.zeros((0, 3)), np.zeros((0, 3), int), "at least one vertex"),
    (np.array([["a"] * 3] * 3), [[0, 1, 2]], "real numbers"),
    (CORNERS.astype(complex), [[0, 1, 2]], "real numbers"),
    (np.where(np.arange(12).reshape(4, 3) == 7, np.nan, CORNERS), [[0, 1, 2]], "vertex 2"),
    (np.where(np.arange(12).reshape(4, 3) == 11, -np.inf, CORNERS), [[0, 1, 2]], "vertex 3"),
    (CORNERS * 1e101, [[0, 1, 2]], "1e70"),
    (CORNERS, [[0, 1, 2], [0, 1, 4]], "face 1 names vertex 4"),
    (CORNERS, [[0, 1, -1]], "face 0 names vertex -1"),
    (CORNERS, np.array([[0, 1, 2 ** 32 + 2]]), "face 0 names vertex 4294967298"),
    (CORNERS, np.array([[0, 1, 2 ** 64 - 1]], np.uint64), "face 0 names vertex 18446744073709551615"),
    (CORNERS, [[0, 1]], "(m, 3)"),
    (CORNERS, [[0, 1, 2, 3]], "(m, 3)"),
    (CORNERS, [[0.5, 1, 2]], "integers"),
    (CORNERS, [[0.0, 1, 2]], "integers"),
    (CORNERS, [[True, False, True]], "integers"),
    (CORNERS, [[0, 1, 2], [0, 1]], "array"),
], ids=str)
def test_refuses(vertices, faces, words):
    with pytest.raises(InvalidInputError) as error:
        Mesh(vertices, faces)
    assert words in str(error.value)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, ">i4"])
def test_takes_every_integer_type(dtype):
    mesh = Mesh(CORNERS.astype(np.float32), np.asfortranarray(np.array(TETRAHEDRON, dtype)))
    assert mesh.vertices.dtype == np.float64 and mesh.vertices.flags.c_contiguous
    assert mesh.faces.dtype == np.int32 and mesh.faces.flags.c_contiguous and mesh.faces.tolist() == TETRAHEDRON


def test_the_callers_arrays_are_copied():
    x, t = CORNERS.copy(), np.array(TETRAHEDRON, np.int32)
    mesh = Mesh(x, t)
    x[0] = 9
    t[0] = 3
    assert np.array_equal(mesh.vertices, CORNERS) and mesh.faces.tolist() == TETRAHEDRON
    with pytest.raises(ValueError):
        mesh.faces[0, 0] = 1


def test_repeated_corners_are_dropped_and_counted():
    with pytest.warns(MeshsolveWarning, match="^2 faces") as caught:
        mesh = Mesh(CORNERS, [[0, 0, 1], [0, 1, 2], [3, 1, 3]])
    assert mesh.faces.tolist() == [[0, 1, 2]] and caught[0].filename == __file__


def test_takes_a_mesh_of_any_kind():
    trimesh = pytest.importorskip("trimesh")
    meshio = pytest.importorskip("meshio")
    box = trimesh.creation.box()
    parts = types.SimpleNamespace(vertices=CORNERS.tolist(), faces=TETRAHEDRON)
    cells = meshio.Mesh(CORNERS, [("triangle", np.array(TETRAHEDRON))])
    assert np.array_equal(Mesh(box).vertices, box.vertices) and np.array_equal(Mesh(box).faces, box.faces)
    for given_mesh in (parts, cells, Mesh(CORNERS, TETRAHEDRON)):
        mesh = Mesh(given_mesh)
        assert np.array_equal(mesh.vertices, CORNERS) and mesh.faces.tolist() == TETRAHEDRON
        assert mesh.vertices is not getattr(given_mesh, "vertices", None)
    for wrong, words in (("scan.obj", "load_mesh reads files"), (CORNERS, "a ndarray has no vertices and faces"), (None, "NoneType"),
                         (types.SimpleNamespace(vertices=CORNERS, faces=None), "faces have to be"),
                         (types.SimpleNamespace(vertices=CORNERS, faces=[[0, 1, 9]]), "face 0 names vertex 9")):
        with pytest.raises(InvalidInputError, match=words):
            Mesh(wrong)
    with pytest.raises(InvalidInputError, match="vertices have to be"):
        Mesh(box, box.faces)


def test_a_copy_has_positions_of_its_own():
    mesh = Mesh(CORNERS, TETRAHEDRON)
    edges, same = mesh.edges, mesh.copy()
    assert same.edges is edges and same.faces is mesh.faces and np.array_equal(same.vertices, CORNERS)
    same.vertices[0] = 9
    assert np.array_equal(mesh.vertices, CORNERS)
    mesh.vertices[1] = np.nan
    assert np.isnan(mesh.copy().vertices[1]).all() and np.array_equal(same.vertices[1], CORNERS[1])          # as it is: nothing is checked


def test_takes_buffers_and_dlpack():
    class Tensor:
        def __init__(self, a):
            self.__dlpack__, self.__dlpack_device__ = a.__dlpack__, a.__dlpack_device__

    mesh = Mesh(Tensor(CORNERS), Tensor(np.array(TETRAHEDRON)))
    assert np.array_equal(mesh.vertices, CORNERS) and mesh.faces.tolist() == TETRAHEDRON


def test_no_faces_is_a_mesh():
    mesh = Mesh(CORNERS, [])
    assert mesh.edges.shape == (0, 2) and mesh.is_manifold and mesh.components.tolist() == [0, 1, 2, 3]


# ---- connectivity


@pytest.mark.native
@settings(max_examples=200, deadline=None)
@given(random_meshes())
def test_connectivity_against_brute_force(case):
    n, faces = case
    mesh = Mesh(np.zeros((n, 3)), faces)
    sides = sides_of(faces)
    assert [tuple(e) for e in mesh.edges.tolist()] == sorted(set(sides))
    assert [tuple(e) for e in mesh.edges[mesh.side_edges].reshape(-1, 2).tolist()] == sides
    assert mesh.edges.dtype == mesh.side_edges.dtype == mesh.components.dtype == np.int32
    assert mesh.is_manifold == is_manifold_by_hand(n, faces)
    for a, b in sides:
        assert mesh.components[a] == mesh.components[b]
    assert len(np.unique(mesh.components)) == mesh.components.max() + 1
    graph = pattern_of(mesh)
    neighbours = [graph.indices[graph.indptr[v]:graph.indptr[v + 1]].tolist() for v in range(n)]
    assert neighbours == [sorted({a + b - v for a, b in sides if v in (a, b)}) for v in range(n)]
    assert graph.indptr.dtype == np.int64 and graph.indices.dtype == np.int32


@pytest.mark.native
@pytest.mark.parametrize("faces, manifold", [
    (TETRAHEDRON, True), ([[0, 1, 2]], True), ([[0, 1, 2], [0, 1, 2]], True),
    ([[0, 1, 2], [0, 3, 1], [0, 1, 4]], False),                       # three faces at an edge
    ([[0, 1, 2], [0, 3, 4]], False),                                  # two fans at a vertex
    ([[0, 1, 2], [1, 0, 3]], True), ([[0, 1, 2], [0, 1, 3]], True),   # orientation does not matter
])
def test_is_manifold(faces, manifold):
    assert Mesh(np.zeros((5, 3)), faces).is_manifold is manifold


def test_a_fan_of_100_000_triangles():
    rim = np.arange(1, 100_001)
    mesh = Mesh(np.random.default_rng(0).random((100_001, 3)), np.stack([0 * rim, rim, np.roll(rim, -1)], axis=1))
    assert len(mesh.edges) == 200_000 and mesh.is_manifold and mesh.components.max() == 0
    (loop,) = mesh.boundary_loops()
    assert np.array_equal(loop, rim) and np.array_equal(mesh.boundary_vertices, rim)


# ---- boundary


def fans_by_hand(v, faces, edges):
    """Sets of numbers of faces around v that hang together across edges of two faces."""
    fans = [{f} for f, t in enumerate(faces) if v in t]
    for e, around in edges.items():
        if v in e and len(around) == 2:
            joined = [fan for fan in fans if fan & set(around)]
            fans = [fan for fan in fans if not fan & set(around)] + [set().union(*joined)]
    return fans


def loops_by_hand(faces):
    """Loops of the boundary, step by step: [(start, end, face), ...]; None where a fan has one end on it alone."""
    edges = {}
    for f, t in enumerate(faces):
        for c in range(3):
            edges.setdefault(frozenset((t[c], t[(c + 1) % 3])), []).append(f)
    sides = [(t[c], t[(c + 1) % 3], f) for f, t in enumerate(faces) for c in range(3) if len(edges[frozenset((t[c], t[(c + 1) % 3]))]) == 1]
    loops, left = [], list(sides)
    while left:
        loop = [left.pop(0)]
        while True:
            v, f = loop[-1][1], loop[-1][2]
            (fan,) = [fan for fan in fans_by_hand(v, faces, edges) if f in fan]
            ahead = [s for s in sides if v in s[:2] and s[2] in fan and {*s[:2]} != {*loop[-1][:2]}]
            if not ahead:
                return sides, None
            ((a, b, f),) = ahead
            if {a, b} == {*loop[0][:2]} and f == loop[0][2]:
                break
            left.remove((a, b, f))
            loop.append((a, b, f) if a == v else (b, a, f))
        loops.append(loop)
    return sides, loops


@settings(max_examples=300, deadline=None)
@given(random_meshes())
def test_boundary_against_a_walk(case):
    n, faces = case
    mesh = Mesh(np.zeros((n, 3)), faces)
    sides, loops = loops_by_hand(faces.tolist())
    assert mesh.boundary_edges.tolist() == [[a, b] for a, b, _ in sides] and mesh.boundary_edges.shape == (len(sides), 2)
    assert mesh.boundary_vertices.tolist() == sorted({v for s in sides for v in s[:2]})
    assert mesh.boundary_edges.dtype == mesh.boundary_vertices.dtype == np.int32
    if loops is None:
        with pytest.raises(InvalidInputError, match="does not close at vertex"):
            mesh.boundary_loops()
    else:
        assert [loop.tolist() for loop in mesh.boundary_loops()] == [[a for a, _, _ in loop] for loop in loops]


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32), st.floats(0, 0.5), st.booleans())
def test_loops_of_a_sphere_with_holes(seed, share, mixed):
    """With faces taken out at random many fans meet in single vertices; no edge has more than two faces, so every loop closes."""
    rng, sphere = np.random.default_rng(seed), datasets.icosphere(2)
    faces = sphere.faces[rng.random(len(sphere.faces)) >= share]
    if mixed:
        faces = np.where(rng.random((len(faces), 1)) < 0.5, faces[:, ::-1], faces)
    mesh = Mesh(sphere.vertices, faces)
    loops = mesh.boundary_loops()
    walked = np.concatenate([np.stack([loop, np.roll(loop, -1)], axis=1) for loop in loops] or [np.zeros((0, 2), int)])
    by_edge = (np.sort(walked, axis=1), np.sort(mesh.boundary_edges, axis=1)) if mixed else (walked, mesh.boundary_edges)
    assert sorted(by_edge[0].tolist()) == sorted(by_edge[1].tolist())             # each boundary edge once, in its direction
    assert all(len(loop) >= 3 and loop.dtype == np.int32 for loop in loops)
    assert [loop[:2].tolist() for loop in loops] == [e for e in mesh.boundary_edges.tolist() if e in [loop[:2].tolist() for loop in loops]]


def test_boundary_of_known_meshes():
    closed = datasets.icosphere(1)
    assert closed.boundary_loops() == [] and closed.boundary_edges.shape == (0, 2) and closed.boundary_vertices.shape == (0,)
    assert Mesh(CORNERS, []).boundary_loops() == [] and Mesh(CORNERS, []).boundary_vertices.size == 0
    one = Mesh(CORNERS, [[2, 3, 0]])
    assert [loop.tolist() for loop in one.boundary_loops()] == [[2, 3, 0]] and one.boundary_vertices.tolist() == [0, 2, 3]
    bow = Mesh(np.zeros((5, 3)), [[0, 1, 2], [0, 3, 4]])                 # two fans at vertex 0
    assert [loop.tolist() for loop in bow.boundary_loops()] == [[0, 1, 2], [0, 3, 4]]
    strip = Mesh(np.zeros((5, 3)), [[k, (k + 1) % 5, (k + 2) % 5] for k in range(5)])          # a Moebius strip of five triangles
    (loop,) = strip.boundary_loops()
    assert sorted(loop.tolist()) == [0, 1, 2, 3, 4] and sorted((loop - np.roll(loop, 1)) % 5 % 3) in ([2] * 5, [0] * 5)
    book = Mesh(np.zeros((5, 3)), [[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    assert len(book.boundary_edges) == 6
    with pytest.raises(InvalidInputError, match="does not close at vertex [01]: it meets an edge of more than two faces"):
        book.boundary_loops()
    with pytest.raises(ValueError):
        book.boundary_edges[0, 0] = 1


def test_many_loops_take_one_walk():
    k = 100_000
    loops = Mesh(np.zeros((3 * k, 3)), np.arange(3 * k).reshape(k, 3)).boundary_loops()
    assert np.array_equal(np.array(loops), np.arange(3 * k).reshape(k, 3))


def test_moved_meshes_share_the_boundary():
    mesh = Mesh(CORNERS, TETRAHEDRON[:3])
    edges = mesh.boundary_edges
    assert mesh.with_vertices(2 * CORNERS).boundary_edges is edges and mesh.copy().boundary_edges is edges


def test_what_is_assigned_to_a_mesh_is_checked():
    """Arrays that do not belong together would be read beyond their ends by the C++ core."""
    mesh = datasets.icosphere(1)
    before, faces = mesh.vertices.copy(), mesh.faces
    for wrong, words in ((before[:5], "42 vertices are needed, not 5"), (np.full_like(before, np.inf), "coordinates have to be finite"), ("x", "real numbers")):
        with pytest.raises(InvalidInputError, match=words):
            mesh.vertices = wrong
    for name, value in (("faces", faces + 1000), ("faces", faces[:3]), ("edges", mesh.edges[:3])):
        with pytest.raises(AttributeError):
            setattr(mesh, name, value)
    assert np.array_equal(mesh.vertices, before) and mesh.faces is faces
    mesh.vertices = np.asfortranarray(2 * before, np.float32)
    assert mesh.vertices.dtype == np.float64 and mesh.vertices.flags.c_contiguous
    assert mass_matrix(mesh).sum() == pytest.approx(4 * mass_matrix(datasets.icosphere(1)).sum(), rel=1e-6)
    mesh.vertices += 1.0
    assert np.allclose(mesh.vertices, 2 * before + 1, atol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e71])
def test_what_was_changed_in_place_is_checked_where_it_is_used(bad, tmp_path):
    mesh = datasets.icosphere(2)
    area = mass_matrix(mesh).sum()
    mesh.vertices[:] *= 2                                               # as one does with trimesh and libigl
    assert mass_matrix(mesh).sum() == pytest.approx(4 * area)
    mesh.vertices[7, 1] = bad
    for use in (cotan_laplacian, mass_matrix, lambda m: cotan_laplacian(m, intrinsic_delaunay=True), apps.mcf, apps.smooth, Model,
                lambda m: apps.render(tmp_path / "m.png", m), lambda m: m.save(tmp_path / "m.ply"), datasets.constrained_smoothing):
        with pytest.raises(InvalidInputError, match="vertex 7 is at .*: coordinates have to be finite"):
            use(mesh)
    assert list(tmp_path.iterdir()) == [] and PatchMesh(mesh).num_patches == 1              # what has no positions asks for none


def test_with_vertices_shares_connectivity():
    mesh = Mesh(CORNERS, TETRAHEDRON)
    edges = mesh.edges
    moved = mesh.with_vertices(CORNERS + 1)
    assert moved.edges is edges and np.array_equal(moved.vertices, CORNERS + 1) and np.array_equal(mesh.vertices, CORNERS)
    with pytest.raises(InvalidInputError):
        mesh.with_vertices(CORNERS[:3])
    with pytest.raises(InvalidInputError):
        mesh.with_vertices(CORNERS * np.nan)


def test_pattern_of_takes_matrices_and_patterns():
    pattern = pattern_of(np.array([[1.0, 2, 0], [0, 1, 0], [0, 3, 1]]))
    assert pattern.indptr.tolist() == [0, 1, 3, 4] and pattern.indices.tolist() == [1, 0, 2, 1]
    given_pattern = Csr(1, np.zeros(2, np.int64), np.zeros(0, np.int32))
    assert pattern_of(given_pattern) is given_pattern


def test_pickle_and_trimesh():
    mesh = datasets.icosphere(1)
    again = pickle.loads(pickle.dumps(mesh))
    assert np.array_equal(again.vertices, mesh.vertices) and np.array_equal(again.edges, mesh.edges)
    back = Mesh.from_trimesh(mesh.to_trimesh())
    assert np.array_equal(back.vertices, mesh.vertices) and np.array_equal(back.faces, mesh.faces)
    assert as_mesh(mesh) is mesh and len(as_mesh(mesh.to_trimesh()).faces) == 80
    for wrong in (None, 3, "mesh.obj"):
        with pytest.raises(InvalidInputError):
            Mesh.from_trimesh(wrong)
        with pytest.raises(InvalidInputError):
            as_mesh(wrong)


# ---- OBJ


def read(tmp_path, text):
    path = tmp_path / "mesh.obj"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_mesh(path)


SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"


@pytest.mark.native
@pytest.mark.parametrize("text, faces", [
    (SQUARE + "f 1 2 3\n", [[0, 1, 2]]),
    (SQUARE + "f 1 2 3", [[0, 1, 2]]),
    (SQUARE + "f 1 2 3 4\n", [[0, 1, 2], [0, 2, 3]]),
    (SQUARE + "f 1/1 2/2 3/1\nf 1//1 3//2 4//3\nf 1/2/3 2/3/4 4/5/6\n", [[0, 1, 2], [0, 2, 3], [0, 1, 3]]),
    (SQUARE + "f -4 -3 -2\nf -4/-1/-1 -2/-1 -1\n", [[0, 1, 2], [0, 2, 3]]),
    ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf -3 -2 -1\nv 0 1 0\nf -4 -2 -1\n", [[0, 1, 2], [0, 2, 3]]),
    (SQUARE.replace("\n", "\r\n") + "f 1 2 3\r\n", [[0, 1, 2]]),
    (SQUARE.replace("\n", "\r") + "f 1 2 3\r", [[0, 1, 2]]),
    (SQUARE.replace("0 0 0", "0 0 0 0.5 0.25 1") + "f 1 2 3\n", [[0, 1, 2]]),
    (SQUARE.replace("0 0 0", "0 0 0 1.0") + "f 1 2 3\n", [[0, 1, 2]]),
    ("# head\n\n  " + SQUARE.replace("v ", "v\t") + "o one\ng a b\nf 1 2 3 # tail\ns off\no two\nusemtl m\\n\nf 1 3 4\n",
     [[0, 1, 2], [0, 2, 3]]),
    (SQUARE + "f 1 \\\n 2 3\nf 1 \\\r\n3 4\\\n\n", [[0, 1, 2], [0, 2, 3]]),
    ("# C:\\path\\\n" + SQUARE + "mtllib C:\\x.mtl\nvn 0 0 1\nvt 0 0\nvp 1\nl 1 2\np 1\nf 1 2 3\n", [[0, 1, 2]]),
    (b"\xef\xbb\xbf" + SQUARE.encode() + b"g \xfcml\xe4ut\nf 1 2 3\n", [[0, 1, 2]]),
    ("f 1 2 3\n" + SQUARE, [[0, 1, 2]]),
    (SQUARE.replace("1 1 0", "+1 1e0 0.0e-400") + "f +1 2 3\n", [[0, 1, 2]]),
])
def test_obj(tmp_path, text, faces):
    mesh = read(tmp_path, text)
    assert mesh.faces.tolist() == faces
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize("text, line, words", [
    ("v 0 0 0\nv 1 0 nan\nv 0 1 0\nf 1 2 3\n", 2, "'nan'"), ("v 0 0 inf\n", 1, "'inf'"), ("v 0 0 1e999\n", 1, "1e999"),
    ("v 0 0\n", 1, "three coordinates"), ("v\n", 1, "three coordinates"), ("v 0 x 0\n", 1, "'x' is not a number"),
    ("v 0 0 0x10\n", 1, "not a number"), ("v 0 0 1,5\n", 1, "not a number"), ("v 0 0 -\n", 1, "not a number"),
    (SQUARE + "f 1 2\n", 5, "three corners"), (SQUARE + "f 1 2 5\n", 5, "vertex index 5"),
    (SQUARE + "f 0 1 2\n", 5, "vertex index 0"),
    (SQUARE + "f 1 2 -5\n", 5, "vertex index -5"), (SQUARE + "f 1 2 3.5\n", 5, "'3.5'"), (SQUARE + "f 1 2 a/b\n", 5, "'a/b'"),
    (SQUARE + "f 1 2 99999999999999999999\n", 5, "corner"), (SQUARE + "f 1 2 4294967297\n", 5, "vertex index 4294967297"),
    (SQUARE + "f 1 \\\n2 \\\n9\n", 7, "vertex index 9"), (SQUARE + "\n\nf 1 2 3\nf 1 2 7\n# end\n", 8, "vertex index 7"),
    (b"\x00\x01binary\n", 1, "control"), (b"\x89PNG\r\n", 1, "no OBJ statement"), ("{\"json\": 1}\n", 1, "no OBJ statement"),
])
def test_obj_errors_name_the_line(tmp_path, text, line, words):
    with pytest.raises(InvalidInputError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'mesh.obj'}:{line}: ") and words in str(error.value)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", SQUARE, "f\n"[:0] + "v 0 0 0"])
def test_obj_without_faces(tmp_path, text):
    with pytest.raises(InvalidInputError, match="mesh.obj: the file holds"):
        read(tmp_path, text)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-1e70, 1e70)] * 3), min_size=3, max_size=8))
def test_obj_keeps_every_bit(points):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Mesh(points, [[0, 1, 2]]).save(folder + "/a.obj")
        assert np.array_equal(load_mesh(folder + "/a.obj").vertices, np.array(points))


@pytest.mark.native
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet="vf 0123.-/\\\n\r#e+nta", max_size=120))
def test_obj_reader_never_does_anything_but_read_or_refuse(content):
    import tempfile

    content = content if isinstance(content, bytes) else content.encode()
    with tempfile.NamedTemporaryFile(suffix=".obj") as f:
        f.write(content)
        f.flush()
        try:
            mesh = load_mesh(f.name)
        except InvalidInputError:
            return
        except MeshsolveWarning:
            return
        assert np.isfinite(mesh.vertices).all() and mesh.faces.max(initial=-1) < len(mesh.vertices)


# ---- PLY


PLY_TYPES = {"char": "b", "uchar": "B", "int16": "h", "uint": "I", "int": "i", "float": "f", "double": "d"}


def ply(tmp_path, how, *elements):
    """A file of elements (name, ["list uchar int vertex_indices", "float q", ...], rows); a list is a list in its row."""
    head, body = [f"ply\nformat {how} 1.0\ncomment made by hand\n"], []
    for name, properties, rows in elements:
        head.append(f"element {name} {len(rows)}\n" + "".join(f"property {p}\n" for p in properties))
        for row in rows:
            numbers = []
            for words, value in zip([p.split() for p in properties], row):
                numbers += [(words[1], len(value)), *[(words[2], v) for v in value]] if words[0] == "list" else [(words[0], value)]
            if how == "ascii":
                body.append(" ".join(f"{v:g}" for _, v in numbers).encode() + b"\n")
            else:
                order = ">" if "big" in how else "<"
                body += [struct.pack(order + PLY_TYPES[kind], v) for kind, v in numbers]
    path = tmp_path / "a.ply"
    path.write_bytes("".join(head).encode() + b"end_header\n" + b"".join(body))
    return path


PLY_FORMATS = ["ascii", "binary_little_endian", "binary_big_endian"]
POINTS = ("vertex", ["float x", "float y", "float z"], [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (9, 9, 9), (9, 9, 9)])
CORNER_LIST = "list uchar int vertex_indices"


@pytest.mark.native
@pytest.mark.parametrize("how", PLY_FORMATS)
@pytest.mark.parametrize("seam", [0.0, 0.25])
def test_texture_coordinates_of_corners_split_no_vertex(tmp_path, how, seam):
    """As MeshLab writes them; a seam gives a corner other coordinates in its second face."""
    rows = [((3, 1, 2), (1, 1, 1, 0, 0, 1), 0), ((0, 2, 1), (0, 0, seam, 1, 1, 0), 0)]
    mesh = load_mesh(ply(tmp_path, how, POINTS, ("face", [CORNER_LIST, "list uchar float texcoord", "int texnumber"], rows)))
    assert mesh.vertices.tolist() == [list(map(float, p)) for p in POINTS[2]] and mesh.faces.tolist() == [[3, 1, 2], [0, 2, 1]]


@pytest.mark.native
@pytest.mark.parametrize("how", PLY_FORMATS)
@pytest.mark.parametrize("count, item", [("uchar", "int"), ("int", "uint"), ("char", "int16")])
def test_polygons_of_a_ply_are_fanned_in_the_order_of_the_file(tmp_path, how, count, item):
    rows = [(7, (0, 1, 2)), (7, (1, 3, 2, 0)), (7, (0, 1, 3)), (7, (4, 3, 2, 1, 0))]
    edges = ("edge", ["int vertex1", "int vertex2"], [(0, 1)])
    path = ply(tmp_path, how, POINTS, edges, ("face", ["uchar red", f"list {count} {item} vertex_index"], rows))
    assert load_mesh(path).faces.tolist() == [[0, 1, 2], [1, 3, 2], [1, 2, 0], [0, 1, 3], [4, 3, 2], [4, 2, 1], [4, 1, 0]]


def test_the_axes_of_a_ply_may_stand_in_any_order(tmp_path):
    points = [(3, (7,), 1, 0, 2), (6, (), 4, 0, 5), (9, (1, 2), 7, 0, 8)]
    axes = ["float z", "list uchar int seen_by", "double x", "uchar red", "float y"]
    mesh = load_mesh(ply(tmp_path, "binary_big_endian", ("vertex", axes, points), ("face", [CORNER_LIST], [((0, 1, 2),)])))
    assert mesh.vertices.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]]


def test_numbers_of_a_ply_may_have_a_plus(tmp_path):
    path = ply(tmp_path, "ascii", POINTS, ("face", [CORNER_LIST], [((0, 1, 2),)]))
    path.write_bytes(path.read_bytes().replace(b"9 9 9", b"+9 +9e-1 +.5"))
    assert load_mesh(path).vertices[5].tolist() == [9, 0.9, 0.5]


@pytest.mark.parametrize("how", ["ascii", "binary_little_endian"])
def test_triangle_strips_are_taken_apart(tmp_path, how):
    strips = [((0, 1, 2, 3, -1, 4, 3, 2),), ((),), ((5, 4, 4, 3),), ((1, 2),)]            # 4, 4: a triangle without area joins
    path = ply(tmp_path, how, POINTS, ("tristrips", ["list int int vertex_indices"], strips))
    assert load_mesh(path).faces.tolist() == [[0, 1, 2], [2, 1, 3], [4, 3, 2]]


@pytest.mark.parametrize("elements, words", [
    ((POINTS, ("face", [CORNER_LIST], [((0, 1),)])), "face 0 has 2 corners"),
    ((POINTS, ("face", ["list uchar float vertex_indices"], [((0, 1, 1.5),)])), "1.5 is not the number of a vertex"),
    ((POINTS, ("face", ["list uchar int a", "list uchar int b"], [((0, 1, 2), (0, 1, 2))])), "one list named vertex_indices"),
    ((POINTS, ("face", ["int vertex_indices"], [(0,)])), "one list named vertex_indices"),
    ((POINTS,), "6 vertices and 0 faces"), ((POINTS, ("face", [CORNER_LIST], [])), "6 vertices and 0 faces"),
    ((("vertex", ["float x", "float y"], [(0, 0)]),), "no number z"),
    ((("vertex", ["float x", "float x", "float z"], [(0, 0, 0)]),), "two properties x"),
    ((POINTS, ("face", ["list uchar half vertex_indices"], [])), "'property list uchar half vertex_indices' is no line of a PLY header"),
], ids=str)
def test_a_ply_that_is_no_mesh_is_refused(tmp_path, elements, words):
    with pytest.raises(InvalidInputError, match="a.ply: ") as error:
        load_mesh(ply(tmp_path, "ascii", *elements))
    assert words in str(error.value)


@pytest.mark.parametrize("how, change, words", [
    ("ascii", (b"3 0 1 2", b"3 0 1 x2"), "line 17: 'x2' is not a number"), ("ascii", (b"3 0 1 2", b"3 0 1 2 5"), "goes on for 1 numbers"),
    ("ascii", (b"3 0 1 2", b"3 0 1"), "row 0 cannot be read"), ("ascii", (b"3 0 1 2", b"-3 0 1 2"), "row 0 cannot be read"),
    ("ascii", (b"3 0 1 2", b"3.5 0 1 2"), "row 0 cannot be read"),
    ("ascii", (b"face 1", b"face 99999999999999999999"), "announces 99999999999999999999 rows of face, but row 1 cannot be read"),
    ("binary_little_endian", (b"\2\0\0\0", b"\2\0\0\0\n"), "goes on for 1 bytes"),
    ("binary_little_endian", (b"binary", b"zipped"), "'format zipped_little_endian 1.0' is no line of a PLY header"),
    ("binary_little_endian", (b"end_header", b"end"), "no header"), ("ascii", (b"format ascii 1.0\n", b""), "no line 'format'"),
])
def test_a_damaged_ply_is_refused(tmp_path, how, change, words):
    path = ply(tmp_path, how, POINTS, ("face", [CORNER_LIST], [((0, 1, 2),)]))
    assert len(load_mesh(path).faces) == 1
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(InvalidInputError, match="a.ply: ") as error:
        load_mesh(path)
    assert words in str(error.value)


@pytest.mark.native
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLY_FORMATS), st.binary(max_size=120) | st.text(alphabet="0123.-\n e+nta", max_size=120))
def test_ply_reader_never_does_anything_but_read_or_refuse(how, body):
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = ply(pathlib.Path(folder), how, ("vertex", POINTS[1], POINTS[2][:2]), ("face", [CORNER_LIST, "list char double w"], []))
        head = path.read_bytes().replace(b"face 0", b"face 3")
        path.write_bytes(head + (body if isinstance(body, bytes) else body.encode()))
        try:
            mesh = load_mesh(path)
        except (InvalidInputError, MeshsolveWarning):
            return
        assert np.isfinite(mesh.vertices).all() and mesh.faces.max(initial=-1) < len(mesh.vertices)


# ---- the other formats


@pytest.mark.parametrize("change", [(b"0 0 0", b"0 0 0 # a"), (b"3 0 1 2", b"3 0 1 2 # b"), (b"OFF", b"# c\nOFF # d"), (b"3 1 0", b"3 1 0# e")])
def test_comments_in_an_off(tmp_path, change):
    (tmp_path / "a.off").write_bytes(b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n".replace(*change))
    mesh = load_mesh(tmp_path / "a.off")
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]] and mesh.faces.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("extension, bound", [("obj", 0), ("ply", 0), ("off", 0), ("stl", 1e-7), ("glb", 1e-7), ("obj.gz", 0),
                                              ("ply.gz", 0)])
def test_formats_keep_vertices_and_faces(tmp_path, extension, bound):
    sphere = datasets.icosphere(2)
    mesh = Mesh(np.concatenate([sphere.vertices, [[5, 5, 5]]]) / 3, sphere.faces)       # the last vertex is unreferenced
    path = tmp_path / f"mesh.{extension}"
    mesh.save(path)
    again = load_mesh(path)
    if extension == "stl":                    # a soup: order of appearance, no unreferenced vertices
        assert len(again.vertices) == len(sphere.vertices)
        assert np.abs(again.vertices[again.faces] - mesh.vertices[mesh.faces]).max() <= bound
    else:
        assert np.array_equal(again.faces, mesh.faces) and np.abs(again.vertices - mesh.vertices).max() <= bound
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("extension", ["obj", "ply", "off"])
@pytest.mark.parametrize("size", [1e-30, 1e-9, 1e30])
def test_formats_keep_meshes_of_any_size(tmp_path, extension, size):
    """A fixed number of digits behind the point makes one place of a small mesh."""
    sphere = datasets.icosphere(1)
    path = tmp_path / f"mesh.{extension}"
    Mesh(sphere.vertices * size / 3, sphere.faces).save(path)
    assert np.array_equal(load_mesh(path).vertices, sphere.vertices * size / 3)


@pytest.mark.parametrize("kind", ["ascii", "binary"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_a_trimesh_ply_cut_off_is_refused(tmp_path, kind, share):
    content = datasets.icosphere(2).to_trimesh().export(file_type="ply", encoding=kind)
    (tmp_path / "a.ply").write_bytes(content)
    assert len(load_mesh(tmp_path / "a.ply").faces) == 320
    (tmp_path / "a.ply").write_bytes(content[:int(share * len(content))])
    with pytest.raises(InvalidInputError, match="a.ply: "):
        load_mesh(tmp_path / "a.ply")


@pytest.mark.parametrize("extension", ["obj", "ply", "off", "stl", "glb", "ply.gz", "obj.gz"])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.5, 0.9])
def test_a_file_cut_off_is_refused(tmp_path, extension, share):
    path = tmp_path / f"mesh.{extension}"
    datasets.icosphere(2).save(path)
    content = path.read_bytes()
    cut = content[:int(share * len(content))]
    path.write_bytes(cut if extension != "obj" else cut[:cut.rindex(b" ") + 1])      # inside a line
    with pytest.raises(InvalidInputError) as error:
        load_mesh(path)
    assert str(error.value).startswith(str(path))


def test_an_off_file_of_polygons_cut_off_is_refused(tmp_path):
    """Polygons become several triangles: more of those than the header announces do not say that all were there."""
    places = [(i, j, 0) for i in range(6) for j in range(6)]
    rings = [(k, k + 6, k + 7, k + 1) for i in range(5) for k in range(6 * i, 6 * i + 5)]
    lines = ["OFF", f"{len(places)} {len(rings)} 0", *(" ".join(map(str, p)) for p in places), *(" ".join(map(str, (4, *ring))) for ring in rings)]
    path = tmp_path / "quads.off"
    path.write_text("\n".join(lines))
    assert len(load_mesh(path).faces) == 50
    path.write_bytes("\n".join(lines).encode()[:-11] + b"\xa0" + "\n".join(lines).encode()[-10:])      # a blank to some, no number
    with contextlib.suppress(InvalidInputError):
        load_mesh(path)
    for cut in ("\n".join(lines[:-3]), "\n".join(lines)[:-6]):
        path.write_text(cut)
        with pytest.raises(InvalidInputError, match="quads.off: "):
            load_mesh(path)


SOLID = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid a\n"


@pytest.mark.parametrize("cut", [5, 15, 30, 60])
def test_an_stl_text_of_several_solids_cut_off_is_refused(tmp_path, cut):
    text, path = SOLID + SOLID.replace("0 1 0", "0 0 5"), tmp_path / "two.stl"
    path.write_text(text)
    assert len(load_mesh(path).faces) == 2
    path.write_text(text[:-cut])
    with pytest.raises(InvalidInputError, match="two.stl: .* the file may be cut off"):
        load_mesh(path)


@pytest.mark.parametrize("left", [0, 83, 84, 133, -50, -1])
def test_a_binary_stl_that_is_cut_off_is_refused_by_its_length(tmp_path, left):
    path = tmp_path / "a.stl"
    datasets.icosphere(2).save(path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(InvalidInputError, match="a.stl: (the file is empty|neither the text|the header announces 320 triangles)"):
        load_mesh(path)


def test_what_stands_behind_the_triangles_of_a_binary_stl_is_passed_over(tmp_path):
    mesh = datasets.icosphere(2)
    mesh.save(tmp_path / "a.stl")
    (tmp_path / "b.stl").write_bytes((tmp_path / "a.stl").read_bytes() + b"\0 made by a scanner \xff")
    a, b = (load_mesh(tmp_path / name) for name in ("a.stl", "b.stl"))
    assert np.array_equal(a.vertices, b.vertices) and np.array_equal(a.faces, b.faces)


def test_names_in_an_stl_text_may_be_of_any_encoding(tmp_path):
    for encoding in ("latin-1", "utf-8", "utf-8-sig"):
        (tmp_path / "a.stl").write_bytes(SOLID.replace("solid a", "solid café").encode(encoding))
        assert len(load_mesh(tmp_path / "a.stl").faces) == 1


@pytest.mark.parametrize("name, content, says", [
    ("a.off", b"", "the file is empty"), ("a.glb", b" \n", "the file is empty"), ("a.off", b"8 6 0\n", "begins with OFF, not with '8 6 0"),
    ("a.off", b"OFF BINARY\n\0\0\0\4", "OFF BINARY is not read"), ("a.off", b"4OFF\n1 0 0\n0 0 0 2\n", "4OFF is not read"),
    ("a.off", b"nOFF\n3\n1 0 0\n0 0 0\n", "nOFF is not read"), ("a.gltf", b"{", "cannot be read as GLTF: Expecting"),
])
def test_what_is_wrong_with_a_file_is_said_in_its_own_words(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError) as caught:
        load_mesh(tmp_path / name)
    assert f"{name}: " in str(caught.value) and says in str(caught.value)


@pytest.mark.parametrize("header", ["OFF\n3 1 0", "COFF\n3 1 0", "NOFF\n3 1 0", "OFF 3 1 0", "\ufeffOFF\n3 1 0"])
def test_headers_of_an_off(tmp_path, header):
    more = {"C": " 255 0 0 255", "N": " 0 0 1"}.get(header[0], "")
    (tmp_path / "a.off").write_text(f"{header}\n0 0 0{more}\n1 0 0{more}\n0 1 0{more}\n3 0 1 2\n", encoding="utf-8")
    assert load_mesh(tmp_path / "a.off").faces.tolist() == [[0, 1, 2]]


@pytest.mark.skipif(os.name == "nt", reason="symbolic links are for administrators there")
def test_a_link_to_itself_is_no_place_to_write_to(tmp_path):
    (tmp_path / "loop.obj").symlink_to(tmp_path / "loop.obj")
    with pytest.raises(InvalidInputError, match="a symbolic link that leads to itself"):
        datasets.icosphere(1).save(tmp_path / "loop.obj")


def test_a_scene_is_one_mesh(tmp_path):
    import trimesh

    scene = trimesh.Scene([trimesh.creation.box(), trimesh.creation.box().apply_translation([3, 0, 0])])
    scene.export(tmp_path / "scene.glb")
    mesh = load_mesh(tmp_path / "scene.glb")
    assert len(mesh.faces) == 24 and mesh.vertices[:, 0].max() == pytest.approx(3.5)


@pytest.mark.parametrize("kind", ["ply", "off", "stl"])
def test_ascii_files(tmp_path, kind):
    import trimesh

    path = tmp_path / f"a.{kind}"
    square = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]], [[0, 1, 2], [0, 2, 3]], process=False)
    path.write_text({"ply": "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
                            "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
                            "0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n",
                     "off": "OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n",
                     "stl": square.export(file_type="stl_ascii")}[kind])
    mesh = load_mesh(path)
    assert len(mesh.vertices) == 4 and len(mesh.faces) == 2
    assert np.array_equal(np.sort(mesh.vertices[:, 0]), [0, 0, 1, 1])


def test_merge_identical_is_by_first_appearance():
    x = np.array([[2.0, 0, 0], [1, 0, 0], [2, 0, -0.0], [0, 0, 0], [1, 0, 0]])
    vertices, faces = merge_identical(x, np.array([[0, 1, 3], [2, 4, 3]]))
    assert vertices.tolist() == [[2, 0, 0], [1, 0, 0], [0, 0, 0]] and faces.tolist() == [[0, 1, 2], [0, 1, 2]]


@pytest.mark.parametrize("name, words", [("missing.obj", "no such file"), ("mesh.xyz", "unknown mesh format"),
                                         ("mesh", "unknown")])
def test_load_refuses(tmp_path, name, words):
    with pytest.raises(InvalidInputError, match=words):
        load_mesh(tmp_path / name)
    with pytest.raises(InvalidInputError):
        load_mesh(7.5)


def test_a_bad_index_in_a_ply_names_the_file(tmp_path):
    datasets.icosphere(0).save(tmp_path / "a.ply")
    content = bytearray((tmp_path / "a.ply").read_bytes())
    content[-4:] = (99).to_bytes(4, "little")
    (tmp_path / "a.ply").write_bytes(content)
    with pytest.raises(InvalidInputError, match="a.ply: face 19 names vertex 99"):
        load_mesh(tmp_path / "a.ply")


def test_files_are_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "kept.txt"
    path.write_text("before")
    with pytest.raises(RuntimeError), written_whole(path) as part:
        part.write_text("half")
        raise RuntimeError
    assert path.read_text() == "before" and os.listdir(tmp_path) == ["kept.txt"]
    with written_whole(path) as part:
        part.write_text("after")
    assert path.read_text() == "after" and os.listdir(tmp_path) == ["kept.txt"]


def test_the_longest_name_can_be_written(tmp_path):
    """The temporary file's name was longer than the file system takes."""
    for path in (tmp_path / ("x" * 251 + ".obj"), tmp_path / ("\u20ac" * 83 + ".ply")):
        mesh = datasets.icosphere(0)
        mesh.save(path)
        assert (load_mesh(path).faces == mesh.faces).all()


@pytest.mark.parametrize("ending", ["stl", "glb"])
def test_single_precision_formats_say_where_they_end(tmp_path, ending):
    mesh = Mesh([[0, 0, 0], [1, 0, 0], [0, -1e39, 0]], [[0, 1, 2]])
    with pytest.raises(InvalidInputError, match="vertex 2 lies beyond 3.4e"):
        mesh.save(tmp_path / f"far.{ending}")
    assert os.listdir(tmp_path) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_no_file_to_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.mtx")
    with pytest.raises(InvalidInputError, match="a pipe or a device"):
        datasets.load_matrix(tmp_path / "pipe.mtx")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_gets_the_file_and_stays(tmp_path):
    """A file was put in its place; as root, in the place of /dev/null."""
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    with written_whole(pipe) as part:
        part.write_text("text")
    reader.join(10)
    assert got == ["text"] and stat.S_ISFIFO(pipe.stat().st_mode) and os.listdir(tmp_path) == ["pipe"]


def test_a_new_file_has_the_permissions_of_any_other(tmp_path, monkeypatch):
    """The process's mask was set to 0 for a moment to read it: another thread's new files were everybody's."""
    monkeypatch.setattr(os, "umask", None)
    (tmp_path / "other").touch()
    with written_whole(tmp_path / "mine") as part:
        part.write_text("text")
    assert (tmp_path / "mine").stat().st_mode == (tmp_path / "other").stat().st_mode
    for wrong in (tmp_path, tmp_path / ("x" * 300), tmp_path / "no" / "folder"):
        with pytest.raises(InvalidInputError, match="cannot be written"), written_whole(wrong) as part:
            part.write_text("text")
    assert sorted(os.listdir(tmp_path)) == ["mine", "other"]
    for read in (load_mesh, datasets.load_matrix, apps.circuit.read):
        with pytest.raises(InvalidInputError):
            read(tmp_path / ("x" * 300 + ".mtx"))


@pytest.mark.parametrize("name", ["mesh.gltf", "mesh.txt", "mesh", "no/such/folder/mesh.obj"])
def test_save_refuses(tmp_path, name):
    with pytest.raises(InvalidInputError):
        datasets.icosphere(0).save(tmp_path / name)
    assert os.listdir(tmp_path) == []


def test_real_meshes_keep_their_vertices_and_faces(data_dir):
    import warnings

    with open(data_dir / "INDEX.csv", newline="") as f:
        rows = [r for r in csv.DictReader(f) if r["file"].startswith("meshes/") and int(r["n"]) < 40_000]
    for row in rows:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MeshsolveWarning)
            mesh = load_mesh(data_dir / row["file"])
        assert len(mesh.vertices) == int(row["n"]), row["file"]
        assert int(row["nnz_or_faces"]) - 10 <= len(mesh.faces) <= int(row["nnz_or_faces"]), row["file"]
        unreferenced = len(mesh.vertices) - len(np.unique(mesh.faces))
        assert unreferenced == int(row["unreferenced_vertices"]), row["file"]
        if len(mesh.faces) == int(row["nnz_or_faces"]):
            assert np.count_nonzero(np.bincount(mesh.side_edges.ravel()) > 2) == int(row["nonmanifold_edges"]), row["file"]


def test_gzip_that_is_none(tmp_path):
    (tmp_path / "a.obj.gz").write_bytes(gzip.compress(SQUARE.encode())[:-9] + b"123456789")
    with pytest.raises(InvalidInputError, match="a.obj.gz"):
        load_mesh(tmp_path / "a.obj.gz")
