"""Minimum degree on the pattern of A^T A, for LU."""

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import meshsolve as ms
from meshsolve import _core
from meshsolve.order.methods import METHODS, Options
from meshsolve.sparse.matrix import Csr

RNG = np.random.default_rng(0)


def ordered(A):
    A = sp.csr_array(A)
    return METHODS["column_amd"].make(Csr(A.shape[0], A.indptr.astype(np.int64), A.indices.astype(np.int32)), Options())


def random(n, per_row, seed):
    rng = np.random.default_rng(seed)
    return sp.csr_array(sp.random_array((n, n), density=per_row / n, rng=rng) + 4 * sp.csr_array(sp.eye_array(n))[rng.permutation(n)])


def test_short_rows_give_minimum_degree_of_ata():
    """The order is that of the dense graph of A^T A, which joins all columns of a row."""
    A = random(300, 2, 1)
    dense = A.toarray() != 0
    assert np.array_equal(ordered(A).perm, ms.order.amd(sp.csr_array(dense.T.astype(float) @ dense)).perm)


def test_the_order_does_not_depend_on_that_of_the_rows():
    A = random(200, 3, 2)
    assert np.array_equal(ordered(A).perm, ordered(A[RNG.permutation(200)]).perm)


@pytest.mark.parametrize("A", [random(800, 3, 3), ms.datasets.rlc_mesh(25, 25)], ids=["random", "rlc_mesh"])
def test_the_fill_of_lu_is_about_that_of_colamd(A):
    A = sp.csc_array(A)
    F, reference = ms.lu(A, ordering="column_amd", engine="columns"), spla.splu(A, permc_spec="COLAMD")
    assert F.report.facts["ordering"] == "column_amd"
    assert F.nnz < 1.2 * (reference.L.nnz + reference.U.nnz - A.shape[0])
    b = A @ np.ones(A.shape[0])
    assert abs(F.solve(b) - 1).max() < 1e-8


@pytest.mark.parametrize("length", [40, 200, 3000])
def test_long_rows_cost_no_more_than_their_entries(monkeypatch, length):
    """Medium rows are vertices of the graph. Dense rows are left out, and their columns come last."""
    n, seen, amd = 3000, [], _core.amd
    A = sp.lil_array(sp.eye_array(n) + sp.eye_array(n, k=37))
    A[5, :length] = 1
    monkeypatch.setattr(_core, "amd", lambda indptr, indices, **options: seen.append(indices.size) or amd(indptr, indices, **options))
    perm = ordered(A).perm
    assert seen[0] <= 34 * A.nnz and seen[0] < 6 * n and np.array_equal(np.sort(perm), np.arange(n))
    assert (perm[-1] == 5) == (length == 3000)
    F = ms.lu(A, ordering="column_amd", engine="columns")
    assert F.nnz < 5 * A.nnz


def test_only_lu_accepts_it():
    with pytest.raises(ms.InvalidInputError, match="'column_amd' is for ms.lu only"):
        ms.cholesky(ms.datasets.grid2d(4, 4, boundary="dirichlet"), ordering="column_amd")
