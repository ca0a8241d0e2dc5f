"""Distances by the heat method against closed forms, at any size, in any unit, for sets and for single sources."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve.apps.geodesics.slopes import Slopes

SPHERE = ms.datasets.icosphere(4)


def strip(nx, ny):
    """A flat grid of nx x ny vertices, unit squares cut in two."""
    x, y = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    k = np.arange(nx * ny).reshape(nx, ny)
    a, b, c, d = (part.ravel() for part in (k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]))
    return ms.Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))


def joined(*meshes):
    """One mesh of several, without common vertices."""
    first = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    return ms.Mesh(np.vstack([m.vertices for m in meshes]), np.vstack([m.faces + f for m, f in zip(meshes, first)]))


def angles(mesh, source):
    return np.arccos(np.clip(mesh.vertices @ source, -1, 1))


@pytest.mark.parametrize("unit", [1e-5, 1.0, 1e7])
def test_a_sphere_in_any_unit(unit):
    G = ms.apps.Geodesics(ms.Mesh(SPHERE.vertices * unit, SPHERE.faces))
    d, right = G.distance([7]), unit * angles(SPHERE, SPHERE.vertices[7])
    assert d[7] == 0 and (d >= 0).all() and abs(d - right).mean() < 0.02 * unit


def test_a_set_is_the_nearest_of_its_sources():
    G, sources = ms.apps.Geodesics(SPHERE), [0, 3, 100]
    d = G.distance(sources)
    right = np.min([angles(SPHERE, SPHERE.vertices[s]) for s in sources], axis=0)
    assert (d[sources] == 0).all() and abs(d - right).mean() < 0.04


@pytest.mark.parametrize("count", [1, 3, 40])
def test_each_source_has_a_column(count):
    """More than are solved together."""
    G, sources = ms.apps.Geodesics(SPHERE), np.arange(count) * 7
    each = G.each(sources)
    assert each.shape == (len(SPHERE.vertices), count) and (each[sources, range(count)] == 0).all()
    for k in {0, count - 1}:
        assert np.allclose(each[:, k], G.distance(sources[k]), atol=1e-9)


def test_each_set_has_a_column():
    """More sets than are solved for together; vertices, points in faces, and both."""
    G, faces = ms.apps.Geodesics(SPHERE), ([3, 50], [[0.2, 0.3, 0.5], [0, 1, 0]])
    sets = [[k, 2 * k, 3 * k + 1] for k in range(1, 20)]
    out = G.each(sets)
    assert out.shape == (len(SPHERE.vertices), 19)
    for k in (0, 15, 16, 18):
        assert np.allclose(out[:, k], G.distance(sets[k]), rtol=1e-12)
    mixed = G.each([np.array([7]), faces, (4, [1, 0, 0]), [7, 9]])
    for k, one in enumerate(([7], faces, (4, [1, 0, 0]), [7, 9])):
        assert np.allclose(mixed[:, k], G.distance(one), rtol=1e-12)
    for bad, message in (([[0], []], r"sources\[1\] must have at least one"), ([[0], [10**7]], r"sources\[1\]\[0\] must be a vertex number"),
                         ([[0], (0, [1, 1, 1])], r"point 0 of sources\[1\]")):
        with pytest.raises(ms.InvalidInputError, match=message):
            G.each(bad)


def test_points_in_faces():
    """The middle of a face, and a corner of one given as a point."""
    G, face = ms.apps.Geodesics(SPHERE), SPHERE.faces[10]
    middle = SPHERE.vertices[face].mean(axis=0)
    d = G.distance(([10], [[1 / 3, 1 / 3, 1 / 3]]))
    assert abs(d - angles(SPHERE, middle / np.linalg.norm(middle))).mean() < 0.03
    assert np.allclose(G.distance(([10], [[0, 1, 0]])), G.distance(face[1]), atol=1e-9)


def test_a_point_on_an_edge_is_the_same_in_both_faces():
    face, other = np.flatnonzero((SPHERE.side_edges == 40).any(axis=1))
    points = [(SPHERE.faces[f][:, None] == SPHERE.edges[40]) @ [0.25, 0.75] for f in (face, other)]
    G = ms.apps.Geodesics(SPHERE)
    assert np.allclose(G.distance(([face], [points[0]])), G.distance(([other], [points[1]])), atol=1e-12)


def test_long_meshes_do_not_underflow():
    mesh = strip(1500, 3)
    G = ms.apps.Geodesics(mesh)
    d, right = G.distance(0), np.hypot(*mesh.vertices[:, :2].T)
    assert abs(d - right).max() < 0.02 * right.max() and G.level > 0


def test_what_is_not_reached_is_infinite():
    """A component without a source, and a vertex without faces."""
    two = joined(SPHERE, ms.Mesh(SPHERE.vertices + 5, SPHERE.faces))
    n = len(SPHERE.vertices)
    mesh = ms.Mesh(np.vstack([two.vertices, [[50, 0, 0]]]), two.faces)
    G = ms.apps.Geodesics(mesh)
    d = G.distance([0])
    assert np.isfinite(d[:n]).all() and np.isinf(d[n:]).all()
    both = G.each([0, n + 4])
    assert np.isinf(both[n:, 0]).all() and np.isinf(both[:n, 1]).all() and np.isfinite(both[n:-1, 1]).all()
    assert np.isfinite(G.distance([0, n])[:-1]).all()


def test_boundaries_and_edges_of_three_faces():
    """Two strips that cross a third one at an edge."""
    flat = strip(30, 12)
    assert abs(ms.apps.Geodesics(flat).distance(0) - np.hypot(*flat.vertices[:, :2].T)).max() < 1.0
    fan = ms.Mesh([[0, 0, 0], [1, 0, 0], [0.5, 1, 0], [0.5, -1, 0], [0.5, 0, 1]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    d = ms.apps.Geodesics(fan).distance(0)
    assert d[0] == 0 and (d[1:] > 0).all() and np.isfinite(d).all()


def test_a_time_of_ones_own():
    smooth = ms.apps.Geodesics(SPHERE, t=0.1).distance(0)
    assert abs(smooth - angles(SPHERE, SPHERE.vertices[0])).max() < 0.5
    assert not np.allclose(smooth, ms.apps.Geodesics(SPHERE).distance(0), atol=1e-3)


def test_the_same_bits_on_any_number_of_threads():
    one, two = (ms.apps.Geodesics(SPHERE, threads=t).each([0, 9]) for t in (1, 2))
    assert np.array_equal(one, two)


def test_directions_and_their_divergence():
    """Against the matrices of the triangles, for heat that is nearly 0 in some columns; each face has one triangle on a closed surface."""
    bumpy = SPHERE.with_vertices(SPHERE.vertices * (1 + 0.1 * np.sin(5 * SPHERE.vertices[:, ::-1])))
    fan = ms.Mesh([[0, 0, 0], [1, 0, 0], [0.5, 1, 0.1], [0.5, -1, 0], [0.5, 0, 1.2]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    for mesh in (bumpy, strip(9, 6), fan):
        triangles = ms.operators.intrinsic_delaunay(mesh)
        u = np.random.default_rng(0).random((len(mesh.vertices), 13)) * 10.0 ** -np.arange(0, 260, 20)
        g = (triangles.gradient() @ u).reshape(2, -1, 13)
        g /= abs(g).max(axis=0)
        right = triangles.divergence() @ (g / np.sqrt((g * g).sum(axis=0))).reshape(-1, 13)
        slopes = Slopes(triangles, 1)
        assert abs(slopes(u) - right).max() < 1e-12 * max(1, abs(right).max())
        assert np.array_equal(slopes(u), Slopes(triangles, 3)(u))
        if mesh is bumpy:
            assert len(slopes._triangles[0]) == mesh.faces.size


@pytest.mark.parametrize(("sources", "message"), [
    ([], "at least one vertex"), ([-1], r"sources\[0\] must be"), ([0, 10**9], r"sources\[1\] must be"), ([0.5], "vertex numbers"), (np.array([[0, 1]]), "vertex numbers"),
    (([0], [[0.5, 0.5, 0.5]]), "point 0 of sources must lie"), (([0, 1], [[1, 0, 0], [2, -1, 0]]), "point 1 of sources must lie"), (([10**6], [[1, 0, 0]]), "point 0 of sources must lie"),
    (([0], [[np.nan, 1, 0]]), "point 0 of sources must lie"), (([], np.zeros((0, 3))), "must be")])
def test_bad_sources(sources, message):
    G = ms.apps.Geodesics(SPHERE)
    for call in (G.distance, G.each):
        with pytest.raises(ms.InvalidInputError, match=message):
            call(sources)


def test_bad_meshes():
    with pytest.raises(ms.InvalidInputError, match="face"):
        ms.apps.Geodesics(ms.Mesh(np.zeros((3, 3)), np.zeros((0, 3), int)))
    with pytest.raises(ms.InvalidInputError, match="t "):
        ms.apps.Geodesics(SPHERE, t=0)
    with pytest.raises(ms.InvalidInputError):
        ms.apps.Geodesics(sp.eye_array(4))
