"""Signed distances against closed forms: lines and circles in a plane, circles of latitude on a sphere, open and broken curves."""

import numpy as np
import pytest

import meshsolve as ms

SPHERE = ms.datasets.icosphere(3)
G = ms.apps.Geodesics(SPHERE)
TILT = np.array([[1, 0, 0], [0, np.cos(0.3), -np.sin(0.3)], [0, np.sin(0.3), np.cos(0.3)]])


def grid(n):
    """A flat grid of n x n vertices with unit squares cut in two."""
    x, y = np.meshgrid(np.arange(n), np.arange(n), indexing="ij")
    k = np.arange(n * n).reshape(n, n)
    a, b, c, d = (part.ravel() for part in (k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]))
    return ms.Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))


FLAT = grid(21)
PLANE = ms.apps.Geodesics(FLAT)
ROW = np.arange(21) * 21 + 10                       # y = 10, from left to right: positive above


def on_sphere(points):
    """Points (p, 3) near the sphere as (faces, barycentric)."""
    corners = SPHERE.vertices[SPHERE.faces].transpose(0, 2, 1)
    shares = np.linalg.solve(corners[None], points[:, None, :, None])[..., 0]
    face = shares.min(axis=2).argmax(axis=1)
    shares = np.maximum(shares[np.arange(len(points)), face], 0)
    return face, shares / shares.sum(axis=1, keepdims=True)


def circle(height, count=40):
    """A circle of constant latitude, eastward, around the tilted axis."""
    angle = np.linspace(0, 2 * np.pi, count)
    r = np.sqrt(1 - height**2)
    return np.stack([r * np.cos(angle), r * np.sin(angle), np.full(count, height)], axis=1) @ TILT.T


@pytest.mark.parametrize("level_set", ["zero", "each", None])
def test_a_line_in_a_plane(level_set):
    d = PLANE.signed_distance(ROW, level_set)
    assert np.allclose(d, FLAT.vertices[:, 1] - 10, atol=1e-5)
    assert np.allclose(PLANE.signed_distance(ROW[::-1], level_set), -d, atol=1e-9)
    if level_set == "zero":
        assert (d[ROW] == 0).all()


@pytest.mark.parametrize("level_set", ["zero", "each", None])
@pytest.mark.parametrize("height", [0.0, 0.5])
def test_circles_of_latitude(level_set, height):
    """The curve passes through faces and is given by few points."""
    d = G.signed_distance(on_sphere(circle(height)), level_set)
    right = np.arcsin(SPHERE.vertices @ TILT[:, 2]) - np.arcsin(height)
    assert abs(d - right).mean() < 0.012 and abs(d - right).max() < 0.06


def test_an_open_curve_has_the_same_signs_near_it():
    d, latitude = G.signed_distance(on_sphere(circle(0.0)[:20])), np.arcsin(SPHERE.vertices @ TILT[:, 2])
    near = (SPHERE.vertices @ TILT[:, 1] > 0.3) & (abs(latitude) < 0.4)
    assert near.sum() > 50 and abs(d - latitude)[near].max() < 0.1


def test_a_broken_curve():
    d = PLANE.signed_distance([list(ROW[:8]), list(ROW[12:])])
    assert abs(d - (FLAT.vertices[:, 1] - 10)).mean() < 0.15


@pytest.mark.parametrize("level_set", ["each", None])
def test_two_circles_in_a_plane(level_set):
    """Both counterclockwise: the distance is -r and a constant."""
    x = FLAT.vertices[:, :2] - 10
    r = np.linalg.norm(x, axis=1)

    def points(radius):
        angle = np.linspace(0, 2 * np.pi, 60)
        at = 10 + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1) + [0.013, 0.007]
        cell = np.floor(at).astype(int)
        u, v = (at - cell).T
        lower = u >= v
        face = cell[:, 0] * 20 + cell[:, 1] + np.where(lower, 0, 400)
        return face, np.where(lower[:, None], np.stack([1 - u, u - v, v], axis=1), np.stack([1 - v, u, v - u], axis=1))

    d = PLANE.signed_distance([points(3), points(8)], level_set)
    assert np.ptp((d + r)[r > 1]) < 0.7 and np.ptp((d + r)[(r > 3) & (r < 8)]) < 0.3


def test_other_components_are_infinite():
    mesh = ms.Mesh(np.vstack([FLAT.vertices, FLAT.vertices[:, ::-1] + 50, [[9, 9, 9]]]), np.vstack([FLAT.faces, FLAT.faces + 441]))
    for level_set in ("zero", "each", None):
        d = ms.apps.Geodesics(mesh).signed_distance(ROW, level_set)
        assert np.allclose(d[:441], FLAT.vertices[:, 1] - 10, atol=1e-5) and np.isinf(d[441:]).all()


def test_long_meshes_do_not_underflow():
    x, y = np.meshgrid(np.arange(500.0), np.arange(2.0), indexing="ij")
    k = np.arange(998).reshape(499, 2)[:, 0]
    mesh = ms.Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.vstack([np.c_[k, k + 2, k + 3], np.c_[k, k + 3, k + 1]]))
    assert np.allclose(ms.apps.Geodesics(mesh).signed_distance([1, 0]), mesh.vertices[:, 0], atol=1e-5)


def test_units_and_threads():
    curve = on_sphere(circle(0.3))
    one = ms.apps.Geodesics(SPHERE, threads=1).signed_distance(curve)
    assert np.array_equal(one, ms.apps.Geodesics(SPHERE, threads=2).signed_distance(curve))
    for unit in (1e-6, 1e6):
        assert np.allclose(ms.apps.Geodesics(SPHERE.with_vertices(unit * SPHERE.vertices)).signed_distance(curve), unit * one, atol=1e-9 * unit)


def test_a_curve_through_every_vertex():
    mesh = ms.Mesh(np.eye(3), [[0, 1, 2]])
    assert ms.apps.Geodesics(mesh).signed_distance([0, 1, 2]).tolist() == [0, 0, 0]


NEXT = int(SPHERE.edges[SPHERE.edges[:, 0] == 0][0, 1])        # a neighbor of vertex 0


@pytest.mark.parametrize(("curve", "message"), [
    ([], "at least one vertex"), ([0], "curve must have at least two points"), ([0, 10**6], r"curve\[1\] must be a vertex"),
    ([0, 1], "vertex 0 to vertex 1, which no edge joins"), ([[0, NEXT], [0]], r"curve\[1\] must have at least two points"),
    ([3, 3], "must have a length"), (([0, 1], [[0.5, 0.5, 0.5], [1, 0, 0]]), "point 0 of curve must lie"), ([0.5, 1], "vertex numbers"),
    ([[0, NEXT], [NEXT, 0]], "cancel each other")])
def test_bad_curves(curve, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        G.signed_distance(curve)


def test_points_without_a_path_between_them():
    two = ms.Mesh(np.vstack([FLAT.vertices, FLAT.vertices + [30, 0, 0]]), np.vstack([FLAT.faces, FLAT.faces + 441]))
    with pytest.raises(ms.InvalidInputError, match="points 0 and 1 in faces 5 and 900, and no path"):
        ms.apps.Geodesics(two).signed_distance(([5, 900], [[0.2, 0.3, 0.5]] * 2))
    crossing = [1, 3, 900, 900], [[0.2, 0.3, 0.5]] * 4                             # the first step is along the surface
    with pytest.raises(ms.InvalidInputError, match="points 1 and 2 in faces 3 and 900, and no path"):
        ms.apps.Geodesics(two).signed_distance(crossing)
    with pytest.raises(ms.InvalidInputError, match="level_set must be one of"):
        PLANE.signed_distance(ROW, "mean")


@pytest.mark.parametrize("mesh", [
    ms.Mesh(1e-60 * SPHERE.vertices, SPHERE.faces), ms.Mesh(1e60 * SPHERE.vertices, SPHERE.faces),
    ms.Mesh([[0, 0, 0], [1, 0, 0], [0.5, 1, 0], [0.5, 0.9, 0.01]], [[0, 1, 2], [1, 0, 3]])], ids=["tiny", "huge", "folded"])
def test_extreme_meshes(mesh):
    """Every method returns finite numbers."""
    H, edge = ms.apps.Geodesics(mesh), mesh.edges[0]
    results = [H.signed_distance(edge, level_set) for level_set in ("zero", "each", None)]
    results += [H.transport(0, np.subtract(*mesh.vertices[edge])), H.log_map(0), H.log_map((0, [0.2, 0.3, 0.5]))]
    assert all(np.isfinite(result).all() for result in results)


def test_points_at_one_position():
    mesh = ms.Mesh([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    with pytest.raises(ms.InvalidInputError, match="must have a length: all of their points are at one position"):
        ms.apps.Geodesics(mesh).signed_distance([0, 1])
    with pytest.raises(ms.InvalidInputError, match="vertex 0 is in a component whose faces have no area"):
        ms.apps.Geodesics(ms.Mesh(np.zeros((4, 3)), mesh.faces)).signed_distance([0, 1])
