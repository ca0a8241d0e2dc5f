"""Polygons with k corners: k - 2 triangles inside, with the same orientation; self-intersections are counted."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsolve import _core, mass_matrix
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, load_mesh
from meshsolve.mesh.polygons import Polygons, triangulated

pytestmark = pytest.mark.native
ELL = np.array([[0, 0], [3, 0], [3, 1], [1, 1], [1, 3], [0, 3]], float)             # area 5
OUTER, HOLE = np.array([[0, 0], [4, 0], [4, 4], [0, 4]], float), np.array([[1, 1], [1, 2], [2, 2], [2, 1]], float)
KEYHOLE = np.vstack([OUTER, OUTER[:1], HOLE, HOLE[:1]])                             # area 15; a bridge from (0, 0) to (1, 1) and back


def areas(places, faces):
    """Signed areas of triangles in the plane."""
    u, v = places[faces[:, 1]] - places[faces[:, 0]], places[faces[:, 2]] - places[faces[:, 0]]
    return (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / 2


def shoelace(places):
    x, y = places.T
    return (x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2


def turned(seed):
    Q, R = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))
    return Q * np.sign(np.diag(R))


def cut(places, rotation=None, shift=0.0):
    """Triangulate a planar polygon rotated in space; returns its faces and whether it intersects itself."""
    space = np.c_[places, np.zeros(len(places))] + shift
    space = space if rotation is None else space @ rotation
    faces, crossing = _core.triangulate(space.reshape(-1), np.arange(len(places), dtype=np.int32), np.int32([len(places)]))
    return faces.reshape(-1, 3), crossing


def check_inside(places, rotation=None, shift=0.0):
    faces, crossing = cut(places, rotation, shift)
    sizes = areas(places, faces) * np.sign(shoelace(places))
    scale = abs(shoelace(places))
    assert crossing == 0 and len(faces) == len(places) - 2 and sizes.min() > -1e-9 * scale and np.isclose(sizes.sum(), scale)
    sides = {tuple(side) for face in faces.tolist() for side in zip(face, face[1:] + face[:1])}
    assert {(k, (k + 1) % len(places)) for k in range(len(places))} <= sides             # oriented as the polygon is
    return sizes


@pytest.mark.parametrize("places, area", [
    (ELL, 5), (KEYHOLE, 15), ([[0, 0], [2, 1], [0, 2], [1, 1]], 1), ([[0, 0], [1, 0], [2, 0], [2, 2], [0, 2]], 4), ([[0, 0], [1, 0], [2, 0], [1, 1], [0, 2], [0, 1]], 2),
    ([[0, 0], [1, 0], [1, 0], [1, 1], [0, 1]], 1), ([[0, 0], [2, 0], [2, 2], [2, 3], [2, 2], [0, 2]], 4), ([[0, 0], [2, 0], [2, 2], [1, 1], [2, 2], [0, 2]], 4),
    ([[0, 0], [4, 0], [4, 2], [3, 2], [3, 1], [2, 1], [2, 2], [1, 2], [1, 1], [0, 1]], 6), ([[0, 0], [1, 0], [1, 1], [2, 1], [2, 2], [1, 2], [1, 1], [0, 1]], 2),
    ([[0, 0], [0, 0], [1, 0], [0, 1]], 0.5),
])
def test_simple_polygons(places, area):
    places = np.array(places, float)
    for k in range(len(places)):
        for seed in range(4):
            for polygon in (np.roll(places, k, axis=0), np.roll(places, k, axis=0)[::-1]):
                sizes = check_inside(polygon, turned(seed), shift=10.0 * seed)
                assert np.isclose(sizes.sum(), area)


@pytest.mark.parametrize("places", [
    [[0, 0], [1, 1], [1, 0], [0, 1]], [[0, 0], [2, 2], [2, 0], [0, 3]], [[np.cos(4 * np.pi * k / 5), np.sin(4 * np.pi * k / 5)] for k in range(5)],
    [[0, 0], [2, 2], [2, 0], [1, 1], [0, 2]], [[0, 0], [4, 0], [4, 4], [1, 4], [1, -1], [0, -1]]], ids=["bow", "uneven bow", "star", "through a corner", "loop"])
def test_self_intersecting_polygons_are_found(places):
    places = np.array(places, float)
    for k in range(len(places)):
        for seed in range(4):
            faces, crossing = cut(np.roll(places, k, axis=0), turned(seed), shift=5.0 * seed)
            assert crossing == 1 and len(faces) == len(places) - 2


def spiral(n, turns, width):
    angle = np.linspace(0, 2 * np.pi * turns, n)
    radius = 3 + angle * 0
    ring = np.c_[np.cos(angle), np.sin(angle)]
    return np.vstack([ring * radius[:, None], (ring * (radius + width + 0.01 * angle)[:, None])[::-1]])[::-1]


@pytest.mark.parametrize("n", [30, 80, 150, 1000])
def test_a_spiral_strip_that_overlaps_itself(n):
    """All ears are valid, and only the test of its sides finds the intersection; above 200 corners by a sweep."""
    check_inside(spiral(n, 0.95, 1), turned(1))
    for turns in (1.03, 1.37, 2.21):
        assert cut(spiral(n, turns, 1), turned(1))[1] == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 300), st.integers(0, 10**6), st.booleans())
def test_star_shaped_polygons_with_and_without_crossings(n, seed, crossing):
    rng = np.random.default_rng(seed)
    angle = 2 * np.pi * (np.arange(n) + rng.uniform(-0.4, 0.4, n)) / n
    places = rng.uniform(0.5, 1.5, n)[:, None] * np.c_[np.cos(angle), np.sin(angle)]
    check_inside(places, turned(seed), shift=rng.normal(size=3))
    if crossing and n > 8:
        k, opposite = rng.integers(n), n // 2
        through = np.insert(places, k, -1.9 * places[(k + 1) % n] / np.linalg.norm(places[(k + 1) % n]), axis=0)       # a spike beyond the other side
        assert cut(through, turned(seed))[1] == 1 and opposite


@pytest.mark.parametrize("k", [3, 4, 5, 8, 100, 1000])
def test_convex_polygons_are_fanned_at_the_first_corner(k):
    angle = 2 * np.pi * np.arange(k) / k
    faces, _ = cut(np.c_[np.cos(angle), 2 * np.sin(angle)], turned(k), shift=3.0)
    assert faces.tolist() == [[0, i, i + 1] for i in range(1, k - 1)]


@pytest.mark.parametrize("size", [1e-60, 1e-9, 1, 1e60])
def test_polygons_of_any_size(size):
    sizes = areas(ELL, cut(ELL * size, turned(2))[0])
    assert sizes.min() > 0 and np.isclose(sizes.sum(), 5)


def test_degenerate_polygons_keep_their_corners():
    for places in ([[0, 0]] * 5, [[0, 0], [1, 1], [2, 2], [3, 3]], [[0, 0], [1, 0], [2, 0], [1, 0]], [[0, 0], [1, 0], [np.nan, 1], [0, 1]], [[0, 0], [np.inf, 0], [1, 1], [0, 1]],
                   [[-1e308, 0], [1e308, 0], [0, 1e308], [0, 1]]):
        faces, crossing = cut(np.array(places, float))
        assert faces.tolist() == [[0, i, i + 1] for i in range(1, len(places) - 1)] and crossing == 0


def test_a_folded_quadrilateral_is_cut_along_its_inner_diagonal():
    """Corner 3 is inside the triangle of the others, so the fan around corner 0 would fold over."""
    space = np.array([[0, 0, 0], [2, 0, 1], [0, 2, 0], [0.5, 0.5, 0.25]])
    for k in range(4):
        ring = np.roll(np.arange(4), k).astype(np.int32)
        faces, crossing = _core.triangulate(space.reshape(-1), ring, np.int32([4]))
        assert crossing == 0 and {frozenset(face) for face in faces.reshape(-1, 3).tolist()} == {frozenset([0, 1, 3]), frozenset([1, 2, 3])}


def test_many_holes_with_bridges():
    places = [[0, 0], [10, 0], [10, 10]]
    for x in range(9, 0, -1):
        places += [[x, 10], [x, 5], [x + 0.3, 4], [x - 0.3, 4], [x, 5], [x, 10]]
    check_inside(np.array([*places, [0, 10]]), turned(5))


def test_teeth_of_a_comb():
    for n in (50, 5000):
        k = np.arange(n)
        check_inside(np.vstack([np.c_[k, np.where(k % 2, 0, n / 2)], [[n, -5], [0, -5]]]), turned(3))


# ---- through files


RINGS = [[4, 3, 2, 1, 0, 5], [7, 8, 9, 10, 11, 6]] + [[i, (i + 1) % 6, (i + 1) % 6 + 6, i + 6] for i in range(6)]
PRISM = np.vstack([np.c_[ELL, np.zeros(6)], np.c_[ELL, np.ones(6)]])                # area 2 * 5 + 12


def written(folder, kind, places, rings):
    path = folder / f"a.{kind}"
    rows, corners = ["{:g} {:g} {:g}".format(*p) for p in places], [" ".join(map(str, [len(r), *r])) for r in rings]
    if kind == "obj":
        lines = [f"v {row}" for row in rows] + ["f " + " ".join(str(i + 1) for i in ring) for ring in rings]
    elif kind == "off":
        lines = ["OFF", f"{len(places)} {len(rings)} 0", *rows, *corners]
    else:
        lines = ["ply", "format ascii 1.0", f"element vertex {len(places)}", *[f"property float {axis}" for axis in "xyz"], f"element face {len(rings)}",
                 "property list uchar int vertex_indices", "end_header", *rows, *corners]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("kind", ["obj", "ply", "off"])
def test_a_prism_of_concave_polygons(tmp_path, kind):
    mesh = load_mesh(written(tmp_path, kind, PRISM, RINGS))
    assert mesh.vertices.tolist() == PRISM.tolist() and len(mesh.faces) == 20 and len(mesh.boundary_edges) == 0
    assert np.isclose(mass_matrix(mesh).sum(), 22)


@pytest.mark.parametrize("kind", ["obj", "ply", "off"])
def test_self_intersecting_polygons_give_a_warning(tmp_path, kind):
    bows = [[0, 1, 3, 2]] * 2                   # of a square 0 1 2 3
    path = written(tmp_path, kind, [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2, 3], *bows])
    with pytest.warns(MeshsolveWarning, match=f"a.{kind}: 2 polygons intersect themselves: their triangles overlap or lie outside"):
        assert len(load_mesh(path).faces) == 6
    path = written(tmp_path, kind, [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], bows[:1])
    with pytest.warns(MeshsolveWarning, match="1 polygon intersects itself: its"):
        load_mesh(path)


def test_polygons_of_meshio():
    meshio = pytest.importorskip("meshio")
    cells = [("polygon", np.array(RINGS[:2])), ("quad", np.array(RINGS[2:])), ("line", np.array([[0, 1]]))]
    mesh = Mesh.from_meshio(meshio.Mesh(PRISM, cells))
    assert len(mesh.boundary_edges) == 0 and np.isclose(mass_matrix(mesh).sum(), 22)


def test_a_polygon_with_a_missing_vertex():
    for corner in (-1, 6, 2**40):
        with pytest.raises(InvalidInputError, match=f"x: face 1 refers to vertex {corner}; the mesh has vertices 0..5"):
            triangulated(Polygons(np.zeros((6, 3)), np.array([0, 1, 2, 0, 1, 2, corner]), np.array([3, 4])), "x: ")
