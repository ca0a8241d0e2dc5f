"""Saddle-point systems of meshes: inertia, minimized energies, solutions."""

import numpy as np
import pytest

import meshsolve as ms


def flat(n=9):
    """A grid of n x n vertices in the plane with small random displacements."""
    x, y = np.meshgrid(np.arange(n), np.arange(n))
    rng = np.random.default_rng(0)
    points = np.stack([x.ravel(), y.ravel(), np.zeros(n * n)], axis=1) + np.r_[0.2, 0.2, 0] * rng.uniform(-1, 1, (n * n, 3))
    i = (np.arange(n - 1)[:, None] * n + np.arange(n - 1)).ravel()
    return ms.Mesh(points, np.concatenate([np.stack([i, i + 1, i + n + 1], 1), np.stack([i, i + n + 1, i + n], 1)]))


@pytest.mark.parametrize("kind", ["length", "area"])
def test_constrained_smoothing(kind):
    mesh = ms.datasets.icosphere(2)
    A = ms.datasets.constrained_smoothing(mesh, 2.0, kind)
    n, m = 3 * len(mesh.vertices), A.shape[0] - 3 * len(mesh.vertices)
    assert m > 5 and abs(A - A.T).max() == 0
    assert ms.ildl(A, fill_level=None).inertia == (n, m, 0)
    parts = mesh.edges if kind == "length" else mesh.faces
    J, x, step = A[n:, :n], mesh.vertices.T.reshape(-1), 1e-6 * np.random.default_rng(1).standard_normal(n)

    def size(coordinates):
        corner = coordinates.reshape(3, -1).T[parts]
        if kind == "length":
            return np.linalg.norm(corner[:, 0] - corner[:, 1], axis=1)
        return 0.5 * np.linalg.norm(np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0]), axis=1)

    change = size(x + step) - size(x)                       # each row of J is the gradient of one of them
    assert np.abs((J @ step)[:, None] - change).min(axis=1).max() < 1e-9


def test_flat_meshes_map_conformally_to_themselves():
    mesh = flat()
    n = len(mesh.vertices)
    A = ms.datasets.conformal_map(mesh, share=0.05)
    energy = A[:2 * n, :2 * n].toarray()
    u, v = mesh.vertices[:, 0], mesh.vertices[:, 1]
    for map_ in (np.r_[u, v], np.r_[-v, u], np.r_[2 * u + v, 2 * v - u]):       # similarities
        assert abs(energy @ map_).max() < 1e-12
    assert np.linalg.eigvalsh(energy).min() > -1e-12
    held = A[2 * n:, :2 * n]
    b = np.r_[np.zeros(2 * n), held @ np.r_[u, v]]
    x, info = ms.solve(A, b, method="ildl")
    assert info.converged and np.allclose(x[:2 * n], np.r_[u, v], atol=1e-9)


def test_real_mesh(data_dir):
    mesh = ms.load_mesh(data_dir / "meshes" / "cow.obj")
    for A in (ms.datasets.constrained_smoothing(mesh), ms.datasets.conformal_map(mesh)):
        b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
        x, info = ms.solve(A, b, method="ildl", rtol=1e-8)
        assert info.converged


@pytest.mark.parametrize("call, says", [
    (lambda: ms.datasets.constrained_smoothing(ms.datasets.icosphere(0), kind="volume"), "kind must be one of"),
    (lambda: ms.datasets.constrained_smoothing(ms.Mesh(np.eye(3), np.zeros((0, 3), int))), "no edges to constrain"),
    (lambda: ms.datasets.conformal_map(ms.Mesh(np.zeros((1, 3)), np.zeros((0, 3), int))), "at least two vertices"),
    (lambda: ms.datasets.conformal_map(np.eye(3)), "Mesh"),
])
def test_bad_input(call, says):
    with pytest.raises(ms.InvalidInputError, match=says):
        call()
