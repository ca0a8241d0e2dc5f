"""Schur complements of matrices that are complex or not symmetric, against dense inverses."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from on_device import Sparse, to_cuda, to_numpy

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.lu import schur

N = 40
RNG = np.random.default_rng(0)
R, C = (sp.random_array((N, N), density=0.15, rng=RNG) + 4 * sp.eye_array(N) for _ in range(2))
ROWS = [7, 0, 21, 22, 3]
KINDS = {"unsymmetric": R, "complex": R + 0.3j * C, "complex symmetric": R + R.T + 1j * (C + C.T), "hermitian": R + R.T + 1j * (C - C.T),
         "imaginary": 1j * (R + R.T), "full": sp.csr_array(RNG.uniform(-1, 1, (N, N)))}
B = RNG.standard_normal((N, 3))


def dense(A, rows):
    """The inverse of the Schur complement is the block of the inverse on the rows."""
    return np.linalg.inv(np.linalg.inv(A.toarray())[np.ix_(rows, rows)])


@pytest.mark.parametrize("rows", [ROWS, [5], np.arange(N) % 3 == 0, np.arange(1, N)], ids=["some", "one", "mask", "all but one"])
@pytest.mark.parametrize("kind", KINDS)
def test_against_dense_inverses(kind, rows):
    A = sp.csr_array(KINDS[kind])
    S = ms.schur_complement(A, rows)
    assert np.array_equal(S.rows, np.flatnonzero(rows) if np.asarray(rows).dtype == bool else rows)
    assert S.matrix.dtype == A.dtype and np.allclose(S.matrix, dense(A, S.rows), rtol=1e-9, atol=1e-10)
    for b in (B, B[:, 0], B * (1 + 2j), B[:, :0]):
        x_K = np.linalg.solve(S.matrix, S.reduce(b))
        x = S.expand(b, x_K)
        assert x.shape == b.shape and np.allclose(A @ x, b, atol=1e-8) and np.array_equal(x[S.rows], x_K)


@pytest.mark.parametrize("kind", KINDS)
def test_refactor(kind):
    A = sp.csr_array(KINDS[kind])
    S = ms.schur_complement(A, ROWS)
    A2 = A.copy()
    A2.data = A2.data * np.linspace(1, 2, A.nnz)
    assert S.refactor(A2) is S and np.allclose(S.matrix, dense(A2, ROWS), rtol=1e-9, atol=1e-10)
    for G in (copy.copy(S), pickle.loads(pickle.dumps(S))):
        assert np.array_equal(G.matrix, S.matrix) and np.array_equal(G.reduce(B), S.reduce(B))
    assert np.array_equal(copy.copy(S).refactor(A).matrix, ms.schur_complement(A, ROWS).refactor(A).matrix)
    assert np.allclose(S.matrix, dense(A2, ROWS), rtol=1e-9, atol=1e-10)        # copies refactor independently


def test_orderings_formats_and_precision():
    A, reference = R, ms.schur_complement(R, ROWS).matrix
    for ordering in ("amd", "nd", "natural", np.arange(N)[::-1], ms.order.rcm(R)):
        assert np.allclose(ms.schur_complement(A, ROWS, ordering).matrix, reference, rtol=1e-10)
    for form in ("coo", "csc", "dok"):
        assert np.array_equal(ms.schur_complement(A.asformat(form), ROWS).matrix, reference)
    assert np.array_equal(ms.schur_complement(A.toarray(), ROWS, threads=1).matrix, ms.schur_complement(A.toarray(), ROWS, threads=3).matrix)
    S = ms.schur_complement(A, ROWS)
    assert S.reduce(B.astype(np.float32)).dtype == np.float32 and S.expand(B.astype(np.float32), np.ones((5, 3))).dtype == np.float32
    assert S.report.as_dict()["nnz_A"] == R.nnz and "unsymmetric" not in repr(S) and S.nnz > R.nnz


def test_columns_are_solved_in_blocks(monkeypatch):
    reference = ms.schur_complement(R, ROWS).matrix
    monkeypatch.setattr(schur, "BLOCK_BYTES", 2 * 8 * (N - 5))
    assert np.allclose(ms.schur_complement(R, ROWS).matrix, reference, rtol=1e-12)


def test_symmetric_matrices_give_a_cholesky_complement():
    L = ms.datasets.grid2d(8, 5)
    assert type(ms.schur_complement(L, ROWS)) is ms.SchurComplement
    with pytest.raises(ms.NotSymmetricError):
        ms.schur_complement(sp.csr_array(ms.datasets.icosphere(1).edges.shape[0] * sp.eye_array(42) + sp.triu(np.ones((42, 42)))), [0], mesh=ms.datasets.icosphere(1))


def test_errors_name_rows_of_a():
    A = sp.lil_array(R)
    A[9] = 0
    for M in (sp.csr_array(A), sp.csr_array(A * 1j)):
        with pytest.raises(ms.SingularMatrixError, match="block of A without rows is singular.*row or column 9 of A") as caught:
            ms.schur_complement(M, ROWS)
        assert caught.value.index == 9
    S = ms.schur_complement(R, ROWS)
    before = S.matrix
    free = np.argwhere(R.toarray() == 0)[5]
    for bad, error, says in ((R * 1j, ms.InvalidInputError, "complex"), (sp.eye_array(3), ms.InvalidInputError, "3 rows, the analysis 40"),
                             (sp.csr_array(A), ms.SingularMatrixError, "column 9"), (R * np.nan, ms.InvalidInputError, "holds nan"),
                             (R + sp.coo_array(([1.0], ([free[0]], [free[1]])), shape=(N, N)), ms.PatternMismatchError, f"row {free[0]}, column {free[1]}")):
        with pytest.raises(error, match=says):
            S.refactor(bad)
        assert np.array_equal(S.matrix, before) and np.allclose(S.expand(B, np.linalg.solve(before, S.reduce(B))), np.linalg.solve(R.toarray(), B))
    for call, says in ((lambda: S.reduce(B[:3]), r"b must be \(40,\)"), (lambda: S.expand(B, B), "x_K must be"), (lambda: S.expand(B, np.ones(5)), "one column for each"),
                       (lambda: S.reduce(B * np.nan), "b: row 0 holds nan"), (lambda: ms.schur_complement(R, []), "rows is empty"),
                       (lambda: ms.schur_complement(R, np.arange(N)), "has every row"), (lambda: ms.schur_complement(R * 1j, ROWS, lower=True), "complex")):
        with pytest.raises(ms.InvalidInputError, match=says):
            call()


def test_a_nearly_singular_block_gives_a_warning():
    A = np.random.default_rng(1).integers(-9, 9, (60, 60)).astype(float)
    A[59, 1:] = A[1:59, 1:].sum(axis=0)
    with pytest.warns(ms.MeshsolveWarning, match="singular to working precision"):
        ms.schur_complement(A, [0])


# ---- on the GPU -------------------------------------------------------------------------------------------------------------

def test_on_the_gpu(gpu):
    A, T = sp.csr_array(R), ms.schur_complement(R, ROWS)
    S = ms.schur_complement(A, ROWS, device="cuda")
    assert device.holds(S.matrix) and S.factor.report.facts["device"] == "cuda" == S.report.facts["device"]
    A2 = A.copy()
    A2.data = A2.data * np.linspace(1, 2, A.nnz)
    x_K = np.random.default_rng(1).standard_normal((5, 3))
    for M in (A, A2):
        for U in (S.refactor(M), pickle.loads(pickle.dumps(S)), copy.copy(S)):
            T.refactor(M)
            assert np.allclose(to_numpy(U.matrix), T.matrix, rtol=1e-11, atol=1e-12)
            for bring in (np.asarray, to_cuda):
                reduced, whole = U.reduce(bring(B)), U.expand(bring(B), bring(x_K))
                assert device.holds(whole) == device.holds(reduced) == (bring is to_cuda)
                assert np.allclose(to_numpy(reduced), T.reduce(B), atol=1e-11) and np.allclose(to_numpy(whole), T.expand(B, x_K), atol=1e-11)
            z = B + 1j * B[:, ::-1]
            assert np.allclose(U.reduce(z), T.reduce(z), atol=1e-11) and np.allclose(U.expand(z, x_K), T.expand(z, x_K), atol=1e-11)
    with pytest.raises(ms.SingularMatrixError):
        S.refactor(0 * A)
    assert np.allclose(to_numpy(S.matrix), T.matrix, rtol=1e-11, atol=1e-12) and np.allclose(S.reduce(B), T.reduce(B), atol=1e-11)


def test_blocks_on_the_gpu_and_matrices_that_lie_there(gpu, monkeypatch):
    monkeypatch.setattr(schur, "BLOCK_BYTES", 2 * 8 * (N - 5))
    S, T = ms.schur_complement(Sparse(R), ROWS), ms.schur_complement(R, ROWS)
    assert device.holds(S.matrix) and np.allclose(to_numpy(S.matrix), T.matrix, rtol=1e-11, atol=1e-12)
    S.matrix[:] = 0.0
    assert np.allclose(to_numpy(S.refactor(Sparse(2 * R)).matrix), 2 * T.matrix, rtol=1e-11, atol=1e-12)
    assert isinstance(ms.schur_complement(Sparse(R), ROWS, device="cpu").matrix, np.ndarray)
    with pytest.raises(ms.DeviceUnavailableError, match="Schur complements of complex matrices are formed on the CPU only"):
        ms.schur_complement(1j * R, ROWS, device="cuda")
