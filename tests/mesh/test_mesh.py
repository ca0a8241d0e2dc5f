"""Meshes: checks of arrays, copies, and connectivity compared with brute force."""

import pickle
import types

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from small_meshes import CORNERS, TETRAHEDRON, random_meshes

from meshsolve import PatchMesh, apps, datasets
from meshsolve.apps.viewer import Model
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, as_mesh, pattern_of
from meshsolve.operators import cotan_laplacian, mass_matrix
from meshsolve.sparse.matrix import Csr


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


@each("vertices, faces, words", [
    (np.zeros((3, 2)), [[0, 1, 2]], "(n, 3)"),
    (np.zeros(9), [[0, 1, 2]], "(n, 3)"),
    (np.zeros((0, 3)), np.zeros((0, 3), int), "at least one vertex"),
    (np.array([["a"] * 3] * 3), [[0, 1, 2]], "real numbers"),
    (CORNERS.astype(complex), [[0, 1, 2]], "real numbers"),
    (np.where(np.arange(12).reshape(4, 3) == 7, np.nan, CORNERS), [[0, 1, 2]], "vertex 2"),
    (np.where(np.arange(12).reshape(4, 3) == 11, -np.inf, CORNERS), [[0, 1, 2]], "vertex 3"),
    (CORNERS * 1e101, [[0, 1, 2]], "1e70"),
    (CORNERS, [[0, 1, 2], [0, 1, 4]], "face 1 refers to vertex 4"),
    (CORNERS, [[0, 1, -1]], "face 0 refers to vertex -1"),
    (CORNERS, np.array([[0, 1, 2 ** 32 + 2]]), "face 0 refers to vertex 4294967298"),
    (CORNERS, np.array([[0, 1, 2 ** 64 - 1]], np.uint64), "face 0 refers to vertex 18446744073709551615"),
    (CORNERS, [[0, 1]], "(m, 3)"),
    (CORNERS, [[0, 1, 2, 3]], "(m, 3)"),
    (CORNERS, [[0.5, 1, 2]], "integers"),
    (CORNERS, [[0.0, 1, 2]], "integers"),
    (CORNERS, [[True, False, True]], "integers"),
    (CORNERS, [[0, 1, 2], [0, 1]], "array"),
])
def test_refuses(vertices, faces, words):
    with pytest.raises(InvalidInputError) as error:
        Mesh(vertices, faces)
    assert words in str(error.value)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64, ">i4"])
def test_accepts_every_integer_type(dtype):
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
    with pytest.warns(MeshsolveWarning, match="^dropped 2 faces") as caught:
        mesh = Mesh(CORNERS, [[0, 0, 1], [0, 1, 2], [3, 1, 3]])
    assert mesh.faces.tolist() == [[0, 1, 2]] and caught[0].filename == __file__


def test_accepts_meshes_of_other_libraries():
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
    for wrong, words in (("scan.obj", "read files with load_mesh"), (CORNERS, "ndarray has no vertices and faces"), (None, "NoneType"),
                         (types.SimpleNamespace(vertices=CORNERS, faces=None), "faces must be"),
                         (types.SimpleNamespace(vertices=CORNERS, faces=[[0, 1, 9]]), "face 0 refers to vertex 9")):
        with pytest.raises(InvalidInputError, match=words):
            Mesh(wrong)
    with pytest.raises(InvalidInputError, match="vertices must be"):
        Mesh(box, box.faces)


def test_a_copy_has_positions_of_its_own():
    mesh = Mesh(CORNERS, TETRAHEDRON)
    edges, same = mesh.edges, mesh.copy()
    assert same.edges is edges and same.faces is mesh.faces and np.array_equal(same.vertices, CORNERS)
    same.vertices[0] = 9
    assert np.array_equal(mesh.vertices, CORNERS)
    mesh.vertices[1] = np.nan
    assert np.isnan(mesh.copy().vertices[1]).all() and np.array_equal(same.vertices[1], CORNERS[1])          # as it is: nothing is checked


def test_accepts_buffers_and_dlpack():
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
    neighbors = [graph.indices[graph.indptr[v]:graph.indptr[v + 1]].tolist() for v in range(n)]
    assert neighbors == [sorted({a + b - v for a, b in sides if v in (a, b)}) for v in range(n)]
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


def test_pattern_of_takes_matrices_and_patterns():
    pattern = pattern_of(np.array([[1.0, 2, 0], [0, 1, 0], [0, 3, 1]]))
    assert pattern.indptr.tolist() == [0, 1, 3, 4] and pattern.indices.tolist() == [1, 0, 2, 1]
    given_pattern = Csr(1, np.zeros(2, np.int64), np.zeros(0, np.int32))
    assert pattern_of(given_pattern) is given_pattern


# ---- changes


def test_assigned_arrays_are_checked():
    """With inconsistent arrays the C++ core would read out of bounds."""
    mesh = datasets.icosphere(1)
    before, faces = mesh.vertices.copy(), mesh.faces
    for wrong, words in ((before[:5], "vertices must have 42 rows as before, got 5"), (np.full_like(before, np.inf), "coordinates must be finite"), ("x", "real numbers")):
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
def test_vertices_changed_in_place_are_checked_when_used(bad, tmp_path):
    mesh = datasets.icosphere(2)
    area = mass_matrix(mesh).sum()
    mesh.vertices[:] *= 2                                               # as one does with trimesh and libigl
    assert mass_matrix(mesh).sum() == pytest.approx(4 * area)
    mesh.vertices[7, 1] = bad
    for use in (cotan_laplacian, mass_matrix, lambda m: cotan_laplacian(m, intrinsic_delaunay=True), apps.mcf, apps.smooth, Model,
                lambda m: apps.render(tmp_path / "m.png", m), lambda m: m.save(tmp_path / "m.ply"), datasets.constrained_smoothing):
        with pytest.raises(InvalidInputError, match="vertex 7 is at .*: coordinates must be finite"):
            use(mesh)
    assert list(tmp_path.iterdir()) == [] and PatchMesh(mesh).num_patches == 1              # not for functions without positions


def test_with_vertices_shares_connectivity():
    mesh = Mesh(CORNERS, TETRAHEDRON)
    edges = mesh.edges
    moved = mesh.with_vertices(CORNERS + 1)
    assert moved.edges is edges and np.array_equal(moved.vertices, CORNERS + 1) and np.array_equal(mesh.vertices, CORNERS)
    with pytest.raises(InvalidInputError):
        mesh.with_vertices(CORNERS[:3])
    with pytest.raises(InvalidInputError):
        mesh.with_vertices(CORNERS * np.nan)


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
