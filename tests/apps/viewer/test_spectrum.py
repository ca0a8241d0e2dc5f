"""Eigenvectors compared with a dense solver and with spherical harmonics."""

import numpy as np
import pytest
import scipy.linalg

import meshsolve as ms
from meshsolve.apps.viewer.spectrum import eigenvectors
from meshsolve.datasets import icosphere, scan_like
from meshsolve.errors import InvalidInputError


@pytest.mark.parametrize("laplacian", ["graph", "cotan"])
@pytest.mark.parametrize("level", [2, 3])                               # dense, iterative
def test_values_and_vectors_are_those_of_a_dense_solver(laplacian, level):
    mesh = icosphere(level)
    mesh = mesh.with_vertices(mesh.vertices * [1.0, 1.4, 1.9])
    L = ms.graph_laplacian(mesh) if laplacian == "graph" else ms.cotan_laplacian(mesh)
    M = np.eye(len(mesh.vertices)) if laplacian == "graph" else ms.mass_matrix(mesh).toarray()
    values, vectors = scipy.linalg.eigh(L.toarray(), M, subset_by_index=[0, 8])
    got = eigenvectors(mesh, 8, laplacian)                           # of the graph: eigenspaces of 3 and of 5
    assert (got.iterations > 0) == (level == 3)
    assert got.values == pytest.approx(values[1:9], rel=1e-5)
    assert np.allclose(got.vectors.T @ M @ got.vectors, np.eye(8), atol=1e-6)
    assert np.linalg.norm(got.vectors.T @ M @ vectors[:, 1:9], axis=1) == pytest.approx(np.ones(8), abs=1e-2)
    assert got.residuals.max() < 0.1 and (np.abs(got.vectors.min(axis=0)) <= got.vectors.max(axis=0) + 1e-12).all()


def test_the_sphere_has_the_eigenvalues_of_spherical_harmonics():
    values = eigenvectors(icosphere(4), 8, "cotan").values
    assert values == pytest.approx([2] * 3 + [6] * 5, rel=0.01)


def test_the_largest_component_counts_alone():
    ball, small = icosphere(3), icosphere(1)
    n = len(small.vertices)
    both = ms.Mesh(np.r_[small.vertices, ball.vertices + 5], np.r_[small.faces, ball.faces + n])
    got = eigenvectors(both, 4)
    assert (got.vectors[:n] == 0).all() and got.values == pytest.approx(eigenvectors(ball, 4).values)


def test_collapsed_triangles_do_not_end_the_iteration_early():
    ball = icosphere(4)
    flat = ball.vertices.copy()
    around = np.unique(ball.faces[(ball.faces == 100).any(axis=1)])
    flat[around] = flat[100] + 1e-6 * (flat[around] - flat[100])        # masses of 1e-15, diagonals of 1e15
    values = eigenvectors(ball.with_vertices(flat), 3, "cotan").values
    assert values == pytest.approx([2] * 3, rel=0.01)


def test_the_seed_decides_alone():
    mesh = scan_like(1500)
    first, second = eigenvectors(mesh, 3), eigenvectors(mesh, 3, threads=1)
    assert np.allclose(first.vectors, second.vectors, atol=1e-8)


@pytest.mark.parametrize("options", [{"count": 0}, {"count": 12}, {"laplacian": "other"}, {"count": 2.0}])
def test_bad_input(options):
    with pytest.raises(InvalidInputError):
        eigenvectors(icosphere(0), **options)
    with pytest.raises(InvalidInputError, match="zero area"):
        eigenvectors(ms.Mesh(np.zeros((4, 3)), [[0, 1, 2], [1, 2, 3]]), 1, "cotan")
