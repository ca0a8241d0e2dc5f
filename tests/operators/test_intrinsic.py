"""Intrinsic Delaunay triangles of the tufted cover: no negative weights on any mesh, D G = -L, the area of the surface."""

import warnings

import numpy as np
import pytest
from scipy.spatial import Delaunay

import meshsolve as ms
from meshsolve.operators import intrinsic_delaunay

pytestmark = pytest.mark.native


def random_sheet(stretch=1.0):
    points = np.random.default_rng(0).uniform(size=(200, 2))
    return ms.Mesh(np.c_[points * [1, stretch], np.zeros(200)], Delaunay(points).simplices)


def book():
    """Four triangles at one edge with different orientations."""
    angle = np.array([0.3, 1.2, 2.9, 4.4])
    x = np.concatenate([[[0, 0, 0], [0, 0, 1]], np.c_[np.cos(angle), np.sin(angle), 0.5 + 0 * angle]])
    return ms.Mesh(x, [[0, 1, 4], [1, 0, 2], [0, 1, 5], [0, 1, 3]])


def moebius(k=40):
    """A Moebius strip of thin triangles."""
    i = np.arange(k)
    t = 2 * np.pi * i / k
    x = np.stack([np.stack([(1 + s * 0.2 * np.cos(t / 2)) * np.cos(t), (1 + s * 0.2 * np.cos(t / 2)) * np.sin(t), s * 0.2 * np.sin(t / 2)], 1)
                  for s in (-1, 1)], 1).reshape(-1, 3)
    a, b = 2 * i, 2 * i + 1
    c, d = np.where(i == k - 1, 1, a + 2), np.where(i == k - 1, 0, a + 3)
    return ms.Mesh(x, np.concatenate([np.c_[a, b, c], np.c_[b, d, c]]))


MESHES = {"a sheet": random_sheet(), "a sheet of slivers": random_sheet(200.0), "a sphere": ms.datasets.icosphere(2), "a book": book(),
          "a Moebius band": moebius(), "one triangle": ms.Mesh([[0, 0, 0], [4, 0, 0], [2, 0.1, 0]], [[0, 1, 2]]),
          "unreferenced vertices": ms.Mesh(np.vander(np.arange(7.0), 3), [[1, 3, 4]]),
          "two bodies at one vertex": ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -3, 0.0]], [[0, 1, 2], [0, 3, 4]])}


@pytest.mark.parametrize("name", MESHES)
def test_no_weight_is_negative_and_the_operators_fit(name):
    mesh = MESHES[name]
    T = intrinsic_delaunay(mesh)
    L, G, D = T.laplacian(), T.gradient(), T.divergence()
    scale = abs(L).max()
    dense = L.toarray()
    assert (dense - np.diag(dense.diagonal())).max() <= 0 and abs(dense - dense.T).max() == 0 and abs(dense.sum(axis=1)).max() < 1e-12 * scale
    assert abs(D @ G + L).max() < 1e-10 * scale
    assert T.mass().sum() == pytest.approx(ms.mass_matrix(mesh).sum(), rel=2e-3)
    assert T.faces.shape == T.lengths.shape == (2 * len(mesh.faces), 3) and (T.lengths[:, :1] >= T.lengths).all()


def test_linear_functions_keep_their_gradient_across_flips():
    mesh = random_sheet(50.0)
    T, u = intrinsic_delaunay(mesh), mesh.vertices @ [0.3, -2.0, 0]
    area = ms.mass_matrix(mesh).sum()
    assert T.flips > 100 and u @ (T.laplacian() @ u) == pytest.approx(area * (0.3**2 + 2**2), rel=0.02)         # beyond the boundary it folds
    size = np.linalg.norm((T.gradient() @ u).reshape(2, -1), axis=0)
    assert np.median(size) == pytest.approx(np.hypot(0.3, 2), rel=1e-4)


def test_a_closed_mesh_has_the_laplacian_of_its_own_flips():
    sphere = ms.datasets.icosphere(2)
    mesh = sphere.with_vertices(sphere.vertices * [1, 0.1, 0.4])
    L = ms.cotan_laplacian(mesh, intrinsic_delaunay=True)
    assert abs(intrinsic_delaunay(mesh).laplacian() - L).max() < 1e-9 * abs(L).max()


def test_units_do_not_matter():
    mesh = random_sheet(30.0)
    L = intrinsic_delaunay(mesh).laplacian()
    for scale in (1e-9, 1e9):
        T = intrinsic_delaunay(mesh.with_vertices(scale * mesh.vertices))
        assert abs(T.laplacian() - L).max() < 1e-6 * abs(L).max() and T.mass().sum() == pytest.approx(scale**2 * 30 * 0.97, rel=0.03)


def test_pieces_without_extent_do_not_disturb_others():
    sheet = random_sheet()
    mesh = ms.Mesh(np.concatenate([sheet.vertices, np.ones((3, 3)), [[2, 2, 2], [2, 2, 2], [3, 2, 2]]]),
                   np.concatenate([sheet.faces, [[200, 201, 202], [203, 204, 205]]]))
    L = intrinsic_delaunay(mesh).laplacian()
    assert abs(L[:200][:, :200] - intrinsic_delaunay(sheet).laplacian()).max() < 1e-9 * abs(L[:200][:, :200]).max()
    assert L[200, 201] < 0 and L[203, 204] < 0 and L[204, 205] < 0 and np.isfinite(L.data).all()
    ms.cholesky(L, pin=True)                            # regular in every piece


def test_flips_that_are_stopped_are_reported(monkeypatch):
    monkeypatch.setattr("meshsolve.operators.intrinsic.MOST_FLIPS", 7)
    with pytest.warns(ms.MeshsolveWarning, match="stopped after 7 edge flips"):
        L = intrinsic_delaunay(random_sheet(50.0)).laplacian()
    assert (L - L.T).nnz == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        intrinsic_delaunay(book())


def test_no_face_is_refused():
    with pytest.raises(ms.InvalidInputError, match="no face"):
        intrinsic_delaunay(ms.Mesh(np.eye(3), np.empty((0, 3), int)))
