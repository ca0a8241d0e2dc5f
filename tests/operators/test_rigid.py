"""Rotations of as-rigid-as-possible energies against the singular value decompositions of numpy."""

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.operators.rigid import FaceRotations, VertexRotations, alternate, side_weights

RNG = np.random.default_rng(0)
MESH = ms.datasets.icosphere(2)
TURN = np.linalg.qr(RNG.standard_normal((3, 3)))[0]
TURN *= np.sign(np.linalg.det(TURN))
NOISE = RNG.standard_normal(MESH.vertices.shape)


def matrices(turns):
    w, x, y, z = turns.T
    return np.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y), 2 * (x * y + w * z), 1 - 2 * (x * x + z * z),
                     2 * (y * z - w * x), 2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)], 1).reshape(-1, 3, 3)


def sides(x, faces):
    return [x[faces[:, (c + 1) % 3]] - x[faces[:, c]] for c in range(3)]


def corners_of(mesh, c, rims):
    """The corners whose energies have side c: all three, or its ends."""
    return mesh.faces.T if rims else mesh.faces.T[[c, (c + 1) % 3]]


def by_svd(mesh, x, rims=True):
    """(energy, (n, 3, 3) rotations) by definition."""
    w, S = side_weights(mesh), np.zeros((len(mesh.vertices), 3, 3))
    for c, (p, q) in enumerate(zip(sides(mesh.vertices, mesh.faces), sides(x, mesh.faces))):
        for corner in corners_of(mesh, c, rims):
            np.add.at(S, corner, w[:, c, None, None] * p[:, :, None] * q[:, None, :])
    U, _, V = np.linalg.svd(S)
    V[:, 2] *= np.sign(np.linalg.det(U @ V))[:, None]
    R = np.swapaxes(U @ V, 1, 2)
    energy = 0.0
    for c, (p, q) in enumerate(zip(sides(mesh.vertices, mesh.faces), sides(x, mesh.faces))):
        for corner in corners_of(mesh, c, rims):
            off = q - np.einsum("fij,fj->fi", R[corner], p)
            energy += (w[:, c] * (off * off).sum(axis=1)).sum() / (3 if rims else 2)
    return energy, R


@pytest.mark.parametrize("x", [MESH.vertices + 0.1 * NOISE, NOISE, MESH.vertices @ TURN.T + 0.01 * NOISE, MESH.vertices * [1, 1, -1],
                               MESH.vertices * [-1, -1, 1], MESH.vertices * [1, 1, 0], 1e-9 * NOISE, 1e9 * MESH.vertices,
                               MESH.vertices @ TURN.T + 1e-6 * NOISE],
                         ids=["noise", "wild", "turned", "mirrored", "half turn", "flattened", "tiny", "huge", "almost rigid"])
@pytest.mark.parametrize("rims", [True, False])
def test_rotations_are_those_of_the_svd(x, rims):
    R = VertexRotations(MESH, rims=rims)
    energy, right = by_svd(MESH, x, rims)
    assert np.isclose(R.fit(x), energy, rtol=1e-10) and abs(matrices(R.turns) - right).max() < 1e-10
    assert abs(np.linalg.norm(R.turns, axis=1) - 1).max() < 1e-15
    assert np.isclose(R.fit(np.asfortranarray(x)), energy, rtol=1e-10)                     # from the rotations of before


@pytest.mark.parametrize("rims", [True, False])
def test_the_pull_is_the_gradient_at_rest(rims):
    """L x - pull is half the gradient of the energy with the rotations held."""
    x, R = MESH.vertices + 0.1 * NOISE, VertexRotations(MESH, rims=rims)
    R.fit(x)
    turns, w, step, towards = matrices(R.turns), side_weights(MESH), 1e-5, RNG.standard_normal(x.shape)

    def energy(x):
        total = 0.0
        for c, (p, q) in enumerate(zip(sides(MESH.vertices, MESH.faces), sides(x, MESH.faces))):
            for corner in corners_of(MESH, c, rims):
                total += (w[:, c] * ((q - np.einsum("fij,fj->fi", turns[corner], p)) ** 2).sum(axis=1)).sum() / (3 if rims else 2)
        return total

    slope = (energy(x + step * towards) - energy(x - step * towards)) / (2 * step)
    assert np.isclose(2 * ((ms.cotan_laplacian(MESH) @ x - R.pull()) * towards).sum(), slope, rtol=1e-8)


def test_a_degenerate_neighborhood_keeps_its_last_rotation():
    R = VertexRotations(MESH)
    R.fit(MESH.vertices @ TURN.T)
    for x in (np.zeros_like(NOISE), MESH.vertices @ TURN.T * [1, 0, 0]):                 # rank 0 and 1
        R.fit(x)
        assert abs(matrices(R.turns) - TURN).max() < 1e-12


def test_degenerate_faces_and_vertices_without_faces():
    x = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 0], [5, 5, 5]], float)
    mesh = ms.Mesh(x, [[0, 1, 2], [0, 1, 3], [0, 4, 3]])
    R = VertexRotations(mesh)
    energy = R.fit(x @ TURN.T)
    assert energy < 1e-15 and np.isfinite(R.turns).all() and np.isfinite(R.pull()).all() and np.array_equal(R.turns[5], [1, 0, 0, 0])


@pytest.mark.native
def test_threads_do_not_change_bits():
    mesh = ms.datasets.icosphere(4)
    x = mesh.vertices + 0.05 * np.random.default_rng(1).standard_normal(mesh.vertices.shape)
    for kind, y, options in ((VertexRotations, x, {}), (VertexRotations, x, {"rims": False}), (FaceRotations, x[:, :2], {})):
        one, two = (kind(mesh, threads, **options) for threads in (1, 2))
        assert one.fit(y) == two.fit(y) and np.array_equal(one.turns, two.turns) and np.array_equal(one.pull(), two.pull())


def test_rotations_of_faces():
    """A plane map that turns all faces: each rotation leads from the frame of its face to the turned first side."""
    flat = ms.Mesh(np.c_[NOISE[:12, :2], np.zeros(12)], [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]])
    c, s = np.cos(2.0), np.sin(2.0)
    R = FaceRotations(flat)
    R.fit(flat.vertices[:, :2] @ np.array([[c, s], [-s, c]]))
    upward = np.cross(*sides(flat.vertices, flat.faces)[:2])[:, 2] > 0
    u = flat.vertices[flat.faces[:, 1], :2] - flat.vertices[flat.faces[:, 0], :2]
    u /= np.linalg.norm(u, axis=1, keepdims=True)                                           # the x axis of each face
    turned = np.stack([c * u[:, 0] - s * u[:, 1], s * u[:, 0] + c * u[:, 1]], 1)
    assert upward.any() and np.allclose(R.turns[upward], turned[upward])


def test_alternation_stops_at_an_energy_of_zero():
    x, energy, count = alternate(VertexRotations(MESH), lambda b: pytest.fail("no solve"), MESH.vertices @ TURN.T, 5, 0.0, 1e-24)
    assert count == 0 and energy < 1e-24
