"""Transport, extension and the logarithmic map against closed forms in the plane and on the sphere."""

import numpy as np
import pytest

import meshsolve as ms

SPHERE = ms.datasets.icosphere(4)
G = ms.apps.Geodesics(SPHERE)


def grid(nx, ny):
    """A flat grid of unit squares cut in two."""
    x, y = np.meshgrid(np.arange(nx), np.arange(ny), indexing="ij")
    k = np.arange(nx * ny).reshape(nx, ny)
    a, b, c, d = (part.ravel() for part in (k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]))
    return ms.Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))


FLAT = grid(21, 17)
PLANE = ms.apps.Geodesics(FLAT)


def polar(source):
    """Exact (distance, angle in the frame of the source, unit vectors away from the source) on the sphere."""
    x, p = SPHERE.vertices, SPHERE.vertices[source]
    tangent = x - np.outer(x @ p, p)
    u, v = G.frames[source] @ tangent.T
    away = x * (x @ p)[:, None] - p
    return np.arccos(np.clip(x @ p, -1, 1)), np.arctan2(v, u), away / np.maximum(np.linalg.norm(away, axis=1), 1e-9)[:, None]


@pytest.mark.parametrize("source", [0, 77])
def test_transport_keeps_the_angle_to_the_meridian(source):
    d, angle, away = polar(source)
    out = G.transport(source, 2 * G.frames[source, 0])
    z = (out * away).sum(axis=1) + 1j * (out * np.cross(SPHERE.vertices, away)).sum(axis=1)
    error = np.angle(z * np.exp(1j * angle))[(d > 0.1) & (d < 3)]
    assert np.allclose(np.linalg.norm(out, axis=1), 2) and abs(error).max() < 0.03


def test_constant_vectors_stay_constant_in_a_plane():
    """Sources at corners, inside, in a face and on an edge; normal components have no effect."""
    assert abs(PLANE.transport([0, 100, 356], [[1, 2, 5]] * 3) - [1, 2, 0]).max() < 1e-9
    assert abs(PLANE.transport(([7, 30], [[0.2, 0.3, 0.5], [0.5, 0.5, 0]]), [[1, 2, 0]] * 2) - [1, 2, 0]).max() < 1e-9


def test_lengths_are_those_of_the_nearest_source():
    out = np.linalg.norm(PLANE.transport([8, 348], [[1, 0, 0], [0, 3, 0]]), axis=1)
    left = FLAT.vertices[:, 0] < 8
    assert np.allclose(out[left], 1, atol=0.1) and np.allclose(out[FLAT.vertices[:, 0] > 12], 3, atol=0.1)


def test_values_extend_to_the_nearest_source():
    values = np.array([[1.0, -5.0], [2.0, 7.0]])
    out = G.extend([0, 3], values)
    nearest = np.argmin(G.each([0, 3]), axis=1)
    clear = abs(np.subtract(*G.each([0, 3]).T)) > 0.5
    assert np.allclose(out[clear], values[nearest][clear], atol=0.15) and out.min() >= -5 and out.max() <= 7
    assert np.array_equal(G.extend([0, 3], values[:, 0]), out[:, 0])
    assert np.allclose(G.extend(([5], [[0.2, 0.3, 0.5]]), [4.0]), 4, rtol=1e-12)


@pytest.mark.parametrize("source", [0, 77])
def test_the_logarithmic_map_of_the_sphere(source):
    d, angle, _ = polar(source)
    out = G.log_map(source)
    z = (out[:, 0] + 1j * out[:, 1]) * np.exp(-1j * angle)
    inner = (d > 0.1) & (d < 3)
    assert abs(abs(z) - d).mean() < 0.02 and abs(np.angle(z[inner])).mean() < 0.01 and (out[source] == 0).all()


@pytest.mark.parametrize("source", [178, 0, 8, (100, [0.2, 0.3, 0.5]), (100, [0.5, 0.5, 0])], ids=str)
def test_the_logarithmic_map_of_the_plane(source):
    """x - x0 in the frame of the source: a vertex inside, at a corner and at the boundary, a point in a face and on an edge."""
    if isinstance(source, tuple):
        corners = FLAT.vertices[FLAT.faces[source[0]]]
        at, axis = source[1] @ corners, (corners[1] - corners[0]) / np.linalg.norm(corners[1] - corners[0])
        frame = np.stack([axis, np.cross([0, 0, 1], axis)])
    else:
        at, frame = FLAT.vertices[source], PLANE.frames[source]
    error = np.linalg.norm(PLANE.log_map(source) - (FLAT.vertices - at) @ frame.T, axis=1)
    assert error.mean() < 1.2                                               # sides are 1 and 1.4
    assert np.linalg.norm(PLANE.log_map(source, "affine") - (FLAT.vertices - at) @ frame.T, axis=1).max() < 1e-12


@pytest.mark.parametrize("source", [0, 77, (100, [0.2, 0.3, 0.5])], ids=str)
def test_affine_heat_has_accurate_directions(source):
    """On the sphere, compared with the map by the gradient of the distance; lengths are accurate near the source only."""
    p = source[1] @ SPHERE.vertices[SPHERE.faces[source[0]]] if isinstance(source, tuple) else SPHERE.vertices[source]
    p = p / np.linalg.norm(p)
    x, (axis, _) = SPHERE.vertices, G._vectors.planes.face_frames[source[0]] if isinstance(source, tuple) else G.frames[source]
    axis = (axis - axis @ p * p) / np.linalg.norm(axis - axis @ p * p)
    d, tangent = np.arccos(np.clip(x @ p, -1, 1)), (x - np.outer(x @ p, p)) @ np.stack([axis, np.cross(p, axis)], axis=1) @ [1, 1j]
    affine, vector = (G.log_map(source, method) @ [1, 1j] for method in ("affine", "vector"))
    inner, near = (d > 0.1) & (d < 3), d < 1
    error, other = (abs(np.angle(z * tangent.conj()))[inner].mean() for z in (affine, vector))
    assert error < 0.002 and error < 0.5 * other and abs(abs(affine) - d)[near].mean() < 0.003 and abs(abs(affine) - d)[d < 3].mean() < 0.03


def test_finer_meshes_have_smaller_errors():
    errors = []
    for level in (3, 5):
        sphere = ms.datasets.icosphere(level)
        H, x = ms.apps.Geodesics(sphere), sphere.vertices
        d, tangent = np.arccos(np.clip(x @ x[0], -1, 1)), x - np.outer(x @ x[0], x[0])
        right = tangent @ H.frames[0].T * (d / np.maximum(np.sin(d), 1e-9))[:, None]
        errors.append(np.linalg.norm(H.log_map(0) - right, axis=1)[d < 3].mean())
    assert errors[1] < 0.6 * errors[0]


def test_other_components_are_nan():
    far = SPHERE.vertices[:12] + 9
    mesh = ms.Mesh(np.vstack([SPHERE.vertices, far]), np.vstack([SPHERE.faces, np.arange(9).reshape(3, 3) + len(SPHERE.vertices)]))
    H, n = ms.apps.Geodesics(mesh), len(SPHERE.vertices)
    for out in (H.transport(5, [1, 0, 0]), H.extend([5], [1]), H.log_map(5), H.log_map(5, "affine")):
        assert np.isnan(out[n:]).all() and np.isfinite(out[:n]).all()


def test_long_meshes_do_not_underflow():
    long = grid(900, 2)
    H = ms.apps.Geodesics(long)
    assert abs(H.transport(0, [1, 2, 0]) - [1, 2, 0]).max() < 1e-6 and H.level > 0
    assert abs(H.log_map(0, "affine") - long.vertices @ H.frames[0].T).max() < 1e-6


def test_the_same_bits_on_any_number_of_threads():
    one, two = (ms.apps.Geodesics(FLAT, threads=t) for t in (1, 2))
    assert np.array_equal(one.log_map(8), two.log_map(8)) and np.array_equal(one.log_map(8, "affine"), two.log_map(8, "affine"))
    assert np.array_equal(one.transport([0, 5], np.eye(3)[:2]), two.transport([0, 5], np.eye(3)[:2]))


@pytest.mark.parametrize(("call", "message"), [
    (lambda: G.transport([], np.zeros((0, 3))), "at least one vertex"), (lambda: G.transport([0, 1], [1, 0, 0]), r"vectors must be \(2, 3\)"),
    (lambda: G.transport([0, 1], [[1, 0, 0], [np.nan, 0, 0]]), r"vectors\[1\] must be finite"),
    (lambda: G.transport([10**9], [[1, 0, 0]]), r"sources\[0\] must be"), (lambda: G.extend([0, 1], [1.0]), r"values must be \(2,\)"),
    (lambda: G.extend([0, 1], [1.0, np.inf]), r"values\[1\] must be finite"), (lambda: G.extend([0], 3.0), "values must be"),
    (lambda: G.log_map([0, 1]), "must be one point, got 2"), (lambda: G.log_map((0, [0.5, 0.6, 0])), "point 0 of source must lie"),
    (lambda: G.log_map((0, [1, 0, 0], 3)), "a tuple of 3"), (lambda: G.log_map(0.5), "vertex numbers"),
    (lambda: G.log_map(0, "polar"), "method must be")])
def test_bad_input(call, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        call()
