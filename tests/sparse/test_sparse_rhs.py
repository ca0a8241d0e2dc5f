"""Sparse right-hand sides have sparse solutions with every solver. Large ones are solved in blocks, too large ones refused."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import memory
from meshsolve.sparse import sparse_rhs

N = 30
A, L = ms.datasets.grid2d(6, 5, boundary="dirichlet"), ms.datasets.grid2d(6, 5)
U = sp.csr_array(A + 0.3 * sp.triu(A, 1))
SPARSE = sp.random_array((N, 7), density=0.1, rng=np.random.default_rng(0))
DENSE = SPARSE.toarray()
FACTORS = {
    "cholesky": lambda: ms.cholesky(A), "single": lambda: ms.cholesky(A, precision="single"), "mixed": lambda: ms.cholesky(A, precision="mixed"),
    "fixed": lambda: ms.cholesky(A, fixed=[1, 2]), "lu": lambda: ms.lu(U), "complex lu": lambda: ms.lu(U * 1j), "ildl": lambda: ms.ildl(A),
    "complete": lambda: ms.ildl(A, fill_level=None), "parac": lambda: ms.parac(A),
}


def same(x, y):
    assert sp.issparse(x) and x.shape == y.shape and x.dtype == y.dtype
    assert np.allclose(x.toarray(), y, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", FACTORS)
def test_factors(name):
    F = FACTORS[name]()
    x = F.solve(DENSE)
    for form in ("bsr", "coo", "csc", "csr", "dia", "dok", "lil"):
        y = F.solve(SPARSE.asformat(form))
        same(y, x)
        assert isinstance(y, sp.csc_array)
    for y in (F @ SPARSE, F(SPARSE), F.matmat(SPARSE)):
        same(y, x)
    assert isinstance(F.solve(sp.csr_matrix(SPARSE)), sp.csc_matrix)
    vector = sp.coo_array(DENSE[:, 0])
    for y in (F.solve(vector), F @ vector, F.matvec(vector)):
        same(y, F.solve(DENSE[:, 0]))
    same(F.solve(SPARSE[:, :0]), F.solve(DENSE[:, :0]))
    for dtype in (np.float32, np.complex128, bool):
        y = F.solve(SPARSE.astype(dtype))
        assert y.dtype == F.solve(DENSE.astype(dtype)).dtype and np.allclose(y.toarray(), F.solve(DENSE.astype(dtype)), rtol=1e-5, atol=1e-6)


def test_options_of_factors():
    F, fixed, lu = ms.cholesky(A), ms.cholesky(A, fixed=[1, 2]), ms.lu(U)
    for system in ("L", "Lt"):
        same(F.solve(SPARSE, system), F.solve(DENSE, system))
    for values in (np.arange(14.0).reshape(2, 7), [1.0, 2.0], [1j, 2.0]):
        same(fixed.solve(SPARSE, fixed_values=values), fixed.solve(DENSE, fixed_values=values))
    for trans in "TH":
        same(lu.solve(SPARSE, trans), lu.solve(DENSE, trans))
    S = ms.schur_complement(A, [3, 4])
    same(S.reduce(SPARSE), S.reduce(DENSE))
    same(S.expand(SPARSE, np.ones((2, 7))), S.expand(DENSE, np.ones((2, 7))))


@pytest.mark.parametrize("M", [A, U, L + sp.eye_array(N), A - 2 * sp.eye_array(N), A * 1j], ids=["definite", "unsymmetric", "graph", "indefinite", "complex"])
def test_solve(M):
    x, info = ms.solve(M, SPARSE)
    assert info.converged
    same(x, ms.solve(M, DENSE)[0])


@pytest.mark.parametrize("iteration", [ms.cg, ms.sqmr, ms.gmres])
def test_iterations(iteration):
    x, info = iteration(A, SPARSE, M=ms.parac(A))
    assert info.converged and len(info.iterations) == 7
    same(x, iteration(A, DENSE, M=ms.parac(A))[0])
    x, info = iteration(A, sp.coo_array(DENSE[:, 0]))
    assert info.converged and isinstance(info.iterations, int)
    same(x, iteration(A, DENSE[:, 0])[0])


def test_other_libraries():
    torch = pytest.importorskip("torch")
    same(ms.cholesky(A).solve(torch.from_numpy(DENSE).to_sparse()), ms.cholesky(A).solve(DENSE))


def test_entries_that_are_zero_are_not_stored():
    two = sp.csr_array(sp.block_diag([A, A]))
    b = sp.csc_array((np.ones(2), ([0, N], [0, 1])), shape=(2 * N, 2))
    x = ms.cholesky(two).solve(b)
    assert x.nnz == 2 * N and np.array_equal(np.diff(x.indptr), [N, N])


def test_large_ones_are_solved_in_blocks(monkeypatch):
    F, widths = ms.lu(U), []
    x, solve = F.solve(SPARSE), F._solve_columns
    monkeypatch.setattr(sparse_rhs, "BLOCK_BYTES", 3 * 8 * N)
    monkeypatch.setattr(F, "_solve_columns", lambda B, transposed: widths.append(B.shape[1]) or solve(B, transposed))
    same(F.solve(SPARSE), x.toarray())
    assert widths == [3, 3, 1]


def test_too_large_ones_are_refused_with_their_size(monkeypatch):
    F = ms.cholesky(A)
    monkeypatch.setattr(memory, "available_memory", lambda: 2**26)
    monkeypatch.setattr(sparse_rhs, "BLOCK_BYTES", 2**20)
    with pytest.raises(ms.OutOfMemoryError, match=r"a sparse b of 3,000,000 columns, about 30 nonzeros each, takes 2.01 GiB"):
        F.solve(sp.csc_array((np.ones(3_000_000), (np.zeros(3_000_000, int), np.arange(3_000_000))), shape=(N, 3_000_000)))
    with pytest.raises(ms.OutOfMemoryError, match=r"dense block of the sparse b, 30 rows and 3,000,000 of 3,000,000 columns, takes 1.34 GiB"):
        ms.solve(A, sp.csc_array((N, 3_000_000)))


def damaged(part, index, value):
    b = sp.csc_array(DENSE) if part == "csc" else sp.csr_array(DENSE)
    b.indices[index] = value
    return b


@pytest.mark.parametrize("b, says", [
    (SPARSE[:20], r"b must be \(30,\) or \(30, k\), got \(20, 7\)"), (damaged("csc", 2, 99), "outside 0..29"), (damaged("csr", 2, 99), "outside 0..6"),
    (sp.csr_array(np.where(np.arange(60).reshape(30, 2) == 6, np.nan, 0.0)), "b: row 3 holds nan"),
], ids=["shape", "csc", "csr", "nan"])
def test_bad_ones_are_refused(b, says):
    for solve in (ms.cholesky(A).solve, ms.lu(U).solve, lambda b: ms.solve(A, b), lambda b: ms.cg(A, b)):
        with pytest.raises(ms.InvalidInputError, match=says):
            solve(b)


def test_out_is_for_dense_ones():
    for F in (ms.cholesky(A), ms.cholesky(A, fixed=[1]), ms.lu(U), ms.lu(U * 1j), ms.ildl(A)):
        with pytest.raises(ms.InvalidInputError, match="out= is for a dense b"):
            F.solve(SPARSE, out=np.zeros((N, 7)))
