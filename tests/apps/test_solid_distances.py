"""Distances in solids against closed forms: through the inside, around holes, from vertices and from points in cells."""

import numpy as np
import pytest
from scipy.spatial import Delaunay

import meshsolve as ms


def blocks(cubes, h=0.25):
    """Unit cubes at integer positions, in cells of size h that are each cut into six tetrahedra with right angles."""
    k = round(1 / h)
    at = np.array([np.add(np.multiply(cube, k), (i, j, l)) for cube in cubes for i in range(k) for j in range(k) for l in range(k)])
    paths = np.array([[0, 1, 3, 7], [0, 5, 1, 7], [0, 3, 2, 7], [0, 2, 6, 7], [0, 4, 5, 7], [0, 6, 4, 7]])
    corner = np.array([[c & 1, c >> 1 & 1, c >> 2] for c in range(8)])
    points, index = np.unique((at[:, None] + corner).reshape(-1, 3), axis=0, return_inverse=True)
    return ms.TetMesh(points * h, index.reshape(-1, 8)[:, paths].reshape(-1, 4), orient=True)


def ball(count=900):
    rng = np.random.default_rng(0)
    inside = rng.uniform(-1, 1, (count, 3))
    points = np.vstack([np.zeros((1, 3)), ms.datasets.icosphere(2).vertices, inside[np.linalg.norm(inside, axis=1) < 0.9]])
    return ms.TetMesh(points, Delaunay(points).simplices, orient=True)


BALL = ball()
BENT = blocks([(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (2, 1, 0)])          # a U: the way from one end to the other is around


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e6])
def test_a_ball_in_any_unit(unit):
    """A Delaunay triangulation with slivers: a third of its edges have negative weights."""
    d = ms.apps.Geodesics(ms.TetMesh(BALL.vertices * unit, BALL.cells)).distance(0)
    right = unit * np.linalg.norm(BALL.vertices, axis=1)
    assert d[0] == 0 and (d >= right * (1 - 1e-12)).all() and abs(d - right).mean() < 0.03 * unit


def test_the_way_through_the_inside_is_around_a_gap():
    """From one end of the U to the other: 3 along inner edges, 1 in a straight line."""
    end, other = (int(np.flatnonzero((BENT.vertices == at).all(axis=1))[0]) for at in ([1, 2, 0], [2, 2, 0]))
    d = ms.apps.Geodesics(BENT).distance(end)
    assert 2.9 < d[other] < 3.5                                 # 0.6 too long with cells twice as large, 0.3 with half


def test_points_in_cells_and_sets_are_sources():
    G = ms.apps.Geodesics(BENT)
    middle = ([7], [[0.25] * 4])
    center = BENT.vertices[BENT.cells[7]].mean(axis=0)
    d, near = G.distance(middle), np.linalg.norm(BENT.vertices - center, axis=1) < 1
    assert abs(d - np.linalg.norm(BENT.vertices - center, axis=1))[near].mean() < 0.12
    columns = G.each([[0, 3], middle])
    assert columns.shape == (len(BENT.vertices), 2) and (columns[[0, 3], 0] == 0).all() and np.allclose(columns[:, 1], d, atol=1e-9)
    assert np.allclose(G.each([0, 3]).min(axis=1)[[0, 3]], 0)


def test_components_and_unreferenced_vertices_are_infinitely_far_away():
    x = np.vstack([BENT.vertices, BENT.vertices + 10, [[50.0, 0, 0]]])
    n = len(BENT.vertices)
    d = ms.apps.Geodesics(ms.TetMesh(x, np.vstack([BENT.cells, BENT.cells + n]))).distance(n)
    assert np.isinf(d[:n]).all() and np.isinf(d[-1]) and np.isfinite(d[n:-1]).all() and d[n] == 0


def test_values_extend_through_a_solid():
    values = ms.apps.Geodesics(BENT).extend([0, len(BENT.vertices) - 1], [1.0, 3.0])
    assert values.min() >= 1 and values.max() <= 3 and values[0] < 1.1 and values[-1] > 2.9


def test_results_do_not_depend_on_threads():
    one, two = (ms.apps.Geodesics(BALL, threads=threads).each([0, 5, 9]) for threads in (1, 2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize(("ask", "error"), [
    (lambda G: G.signed_distance([0, 1]), "signed distances need a surface"), (lambda G: G.transport(0, [1, 0, 0]), "tangent vectors need a surface"),
    (lambda G: G.log_map(0), "tangent vectors need a surface"), (lambda G: G.frames, "need a surface, got a TetMesh"),
    (lambda G: G.distance([10**6]), "from 0 to"), (lambda G: G.distance(([0], [[1, 0, 0]])), r"cells \(p,\), barycentric \(p, 4\)"),
    (lambda G: G.distance(([0], [[1, 1, 0, 0]])), "must lie in a cell"), (lambda G: G.distance(([10**6], [[1, 0, 0, 0]])), "must lie in a cell below")])
def test_bad_input(ask, error):
    with pytest.raises(ms.InvalidInputError, match=error):
        ask(ms.apps.Geodesics(BENT))


def test_on_a_gpu_as_on_the_host(gpu):
    small = blocks([(0, 0, 0), (1, 0, 0)], h=0.5)
    host, found = (ms.apps.Geodesics(small, device=device).each([0, 4]) for device in ("cpu", "cuda"))
    assert np.allclose(host, found, atol=1e-9)
