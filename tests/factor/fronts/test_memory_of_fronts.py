"""Estimated workspace of a numeric phase in addition to the factor, for any number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve.factor.fronts import assembly_tree


def workspace(L, threads):
    """Bytes in addition to the panels, on the tree of minimum degree."""
    return 8 * assembly_tree(ms.analyze(L, ordering="amd"), 1).work_scalars(threads)


def test_update_matrices_between_tasks_are_freed_in_turn():
    """Dense rows give a long path of large fronts: their update matrices together would take a hundred times as much."""
    L = ms.datasets.preferential(6000, 3)
    one, two, many = (workspace(L, threads) for threads in (1, 2, 16))
    assert one < two < 4 * one and two < many < 16 * one


@pytest.mark.parametrize("seen", [3, 12])
def test_leaves_do_not_wait_for_the_end_of_a_chain(seen):
    """Bundle adjustment: cameras with few points each, or with so many that their rows are dense."""
    rng = np.random.default_rng(0)
    cameras, points = (400, 4000) if seen == 3 else (60, 4000)
    camera = np.sort((rng.integers(0, cameras, points)[:, None] + np.arange(seen)) % cameras, axis=1)
    J = sp.csr_array((np.ones(seen * points), (np.repeat(np.arange(points), seen), camera.ravel())), shape=(points, cameras))
    J = sp.hstack([sp.kron(J, np.ones((1, 6))), sp.eye_array(points)])
    A = J.T @ J
    every_leaf = points * (6 * seen) ** 2 / 2
    assert workspace(A, 1) < 8 * (0.6 * every_leaf + A.nnz)
    F = ms.cholesky(A + sp.eye_array(A.shape[0]), ordering="amd")
    assert np.abs(A @ F.solve(A.sum(axis=1)) + F.solve(A.sum(axis=1)) - A.sum(axis=1)).max() < 1e-9
