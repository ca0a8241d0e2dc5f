"""Matrices whose mirror entries differ by little relative to themselves, but not relative to what stiff entries leave."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from scipy.sparse.linalg import spsolve

import meshsolve as ms
from meshsolve import _core
from meshsolve.sparse import matrix


def pair(stiff, skew=0.05):
    """Two rows held together: x is about (1, 1) for b = (1, 1)."""
    return sp.csr_array([[stiff + 1, -stiff + skew], [-stiff - skew, stiff + 1]])


def glued(stiff, n=40, skew=0.02):
    """Two chains with convection, glued node by node."""
    chain = sp.diags_array([np.full(n - 1, -1 - skew), np.full(n, 2.1), np.full(n - 1, -1 + skew)], offsets=[-1, 0, 1])
    eye = sp.eye_array(n)
    return sp.csr_array(sp.block_diag([chain, chain]) + stiff * sp.block_array([[eye, -eye], [-eye, eye]]))


def noisy(noise, n=12, seed=0):
    """A symmetric positive definite matrix with a relative difference between mirror entries."""
    rng, A = np.random.default_rng(seed), sp.csr_array(ms.datasets.grid2d(n, n, boundary="dirichlet"))
    return sp.csr_array((A.data * (1 + noise * rng.uniform(-1, 1, A.nnz)), A.indices, A.indptr), shape=A.shape)


@pytest.mark.filterwarnings("ignore::meshsolve.ConvergenceWarning")         # the stiff entries allow a residual of 1e-7 and more
@each("A", [pair(1e9), pair(1e10), pair(1e11), glued(1e9), glued(1e10), glued(1e11)])
def test_solutions_are_those_of_the_stored_matrix(A):
    b = np.ones(A.shape[0])
    right = np.linalg.solve(A.toarray(), b)
    with ms.scipy_solver():
        inside = spsolve(sp.csc_array(A), b)
    for x in (ms.factorized(A).solve(b), ms.solve(A, b)[0], ms.spsolve(A, b), inside):
        assert abs(x - right).max() < 1e-4 * abs(right).max()
    assert ms.factorized(A).report.facts["method"] == "lu"
    S = ms.schur_complement(A, [0])
    assert abs(S.matrix[0, 0] - 1 / np.linalg.inv(A.toarray())[0, 0]) < 1e-4 * abs(S.matrix[0, 0])


def test_every_factor_of_symmetric_matrices_refuses_them():
    A, plain = pair(1e9), sp.csr_array([[2.0, -1], [-1, 2]])
    C, K = ms.cholesky(plain), ms.ildl(plain, fill_level=None)
    before, b = (C.solve([1.0, 2]), K.solve([1.0, 2])), np.array([1.0, 2])
    for call in (lambda: ms.cholesky(A), lambda: ms.ildl(A, fill_level=None), lambda: C.refactor(A), lambda: K.refactor(A),
                 lambda: ms.analyze(A).factor(A), lambda: ms.analyze(A).factor_batch(np.stack([A.data, A.data])),
                 lambda: K.factor_batch(A.data[None]), lambda: ms.solve(A, b, method="cholesky"), lambda: ms.cholesky(A, precision="mixed"),
                 lambda: ms.analyze(A).factor_batch(ms.analyze(A).values_of(A)[None]), lambda: K.factor_batch(K.values_of(A)[None])):
        with pytest.raises(ms.NotSymmetricError, match="solutions of the symmetric part leave residuals of 0.0") as e:
            call()
        assert {e.value.row, e.value.column} == {0, 1}
    assert (C.solve(b) == before[0]).all() and (K.solve(b) == before[1]).all()            # restored, the same bits


@pytest.mark.filterwarnings("ignore::meshsolve.ConvergenceWarning")
def test_rows_in_errors_are_those_of_the_whole_matrix():
    A = sp.csr_array(sp.block_diag([sp.eye_array(3), pair(1e9)]))
    for call in (lambda: ms.cholesky(A, fixed=[0, 1]), lambda: ms.ildl(A, fill_level=None, fixed=[0, 1]),
                 lambda: ms.solve(A, np.ones(5), method="cholesky", fixed=[0, 1])):
        with pytest.raises(ms.NotSymmetricError, match="row 4, column 3|row 3, column 4") as e:
            call()
        assert {e.value.row, e.value.column} == {3, 4}
    x, info = ms.solve(A, np.ones(5), fixed=[0, 1])
    assert np.allclose(x[2:], 1, rtol=1e-6) and info.method == "lu"
    F = ms.cholesky(sp.csr_array(sp.block_diag([sp.eye_array(3), [[2.0, -1], [-1, 2]]])), fixed=[0, 1])
    with pytest.raises(ms.NotSymmetricError):
        F.refactor(A)
    assert np.allclose(F.solve(np.ones(5)), [0, 0, 1, 1, 1])


@each("noise", [1e-16, 1e-15, 1e-14, 1e-12, 4e-11])
def test_noise_is_no_asymmetry(noise):
    A = noisy(noise)
    n = A.shape[0]
    b, right = np.ones(n), np.linalg.solve(A.toarray(), np.ones(n))
    for F in (ms.cholesky(A), ms.ildl(A, fill_level=None), ms.cholesky(ms.datasets.grid2d(12, 12, boundary="dirichlet")).refactor(A),
              ms.factorized(A), copy.copy(ms.cholesky(A)), pickle.loads(pickle.dumps(ms.cholesky(A)))):
        assert abs(F.solve(b) - right).max() <= 1e3 * (noise + 1e-15) * abs(right).max()
    assert ms.solve(A, b)[1].converged and ms.cg(A, b)[1].converged
    assert noise > 1e-14 or ms.factorized(A).report.facts["method"] == "cholesky"


def test_assembled_matrices_are_symmetric():
    """Sums of rank-one matrices with cancellation, added in another order on each side of the diagonal."""
    rng = np.random.default_rng(0)
    for scale in (1, 1e6, 1e-9):
        parts = rng.standard_normal((50, 20, 20)) * scale
        parts = parts @ parts.transpose(0, 2, 1)
        A = np.where(np.tri(20, dtype=bool), parts.sum(axis=0), parts[rng.permutation(50)].cumsum(axis=0)[-1])
        M = matrix.as_symmetric(A)
        assert not (A == A.T).all() and (M.doubt is None or M.doubt.is_rounding) and ms.cholesky(A).skew == 0
        assert ms.factorized(A).report.facts["method"] == "cholesky"


def test_rounding_that_changes_solutions_is_reported():
    """The skew part is 9 rounding errors of the stiff entries, and changes solutions of the chains by 2 %."""
    A = glued(1e13)
    b = np.ones(A.shape[0])
    right = np.linalg.solve(A.toarray(), b)
    assert matrix.as_symmetric(A).doubt.is_rounding
    for call in (lambda: ms.cholesky(A), lambda: ms.ildl(A, fill_level=None), lambda: ms.cholesky(sp.csr_array((A != 0) + 9.0 * sp.eye_array(len(b)))).refactor(A)):
        with pytest.warns(ms.MeshsolveWarning, match="mirror entries of A differ by rounding errors, which change solutions.*lu"):
            F = call()
        assert F.skew > 1e-3 and abs(F.solve(b) - right).max() < 0.1 * abs(right).max()
    F = ms.factorized(A)                                    # without a warning
    assert F.report.facts["method"] == "lu" and abs(F.solve(b) - right).max() < 1e-2 * abs(right).max()


def test_penalties_do_not_leave_a_doubt_of_ordinary_rows():
    A = sp.lil_array(ms.datasets.grid2d(10, 10, boundary="dirichlet"))
    A[0, 0] = 1e30
    A[5, 6] *= 1 + 1e-15
    assert matrix.as_symmetric(A).doubt is None
    A[5, 6] *= 1 + 1e-12
    assert matrix.as_symmetric(A).doubt is not None


def test_means_and_stored_entries():
    A = sp.csr_array([[4.0, 1 + 1e-12], [1.0, 4.0]])
    M = matrix.as_symmetric(A)
    assert (M.stored.to_scipy() != A).nnz == 0 and M.to_scipy().toarray()[0, 1] == M.to_scipy().toarray()[1, 0] == 1 + 5e-13
    state, doubt, *_ = _core.symmetry(M.indptr, M.indices, M.data, 1)
    assert state == "symmetric" and doubt == 0
    assert ms.eigsh(A, 1)[0] == pytest.approx(3 - 5e-13, abs=2e-15)


def test_on_the_gpu(cuda):
    plain = sp.csr_array([[2.0, -1], [-1, 2]])
    F = ms.cholesky(plain, device="cuda")
    with pytest.raises(ms.NotSymmetricError, match="symmetric part"):
        F.refactor(pair(1e9))
    assert np.allclose(np.asarray(F.solve(np.ones(2))), 1)
    with pytest.raises(ms.NotSymmetricError, match="symmetric part"):
        ms.cholesky(pair(1e9), device="cuda")
    x, info = ms.solve(pair(1e10), np.ones(2), device="cuda")
    assert info.method == "lu" and np.allclose(np.asarray(x), 1, rtol=1e-6)
    A = noisy(1e-12)
    x = ms.cholesky(noisy(0), device="cuda").refactor(A).solve(np.ones(A.shape[0]))
    assert np.allclose(np.asarray(x), np.linalg.solve(A.toarray(), np.ones(A.shape[0])), rtol=1e-9)


def test_torch_takes_lu():
    torch = pytest.importorskip("torch")
    C = sp.coo_array(pair(1e9))
    i, v = torch.tensor(np.stack(C.coords)).long(), torch.tensor(C.data, requires_grad=True)
    solver = ms.torch.Solver()
    for values, right in ((torch.tensor([2.0, -1, -1, 2], dtype=torch.float64), [1, 1]), (v, [1, 1])):
        assert np.allclose(solver((i, values), torch.ones(2, dtype=torch.float64)).detach(), right, rtol=1e-6)
    assert type(solver.factor).__name__ == "LUFactor"


@each("A", [ms.datasets.grid2d(30, 30), ms.datasets.grid3d(7), ms.graph_laplacian(ms.datasets.icosphere(2))])
def test_small_diagonals_on_exact_row_sums_make_laplacians_regular(A):
    n = A.shape[0]
    S = sp.csr_array(A + 1e-14 * sp.eye_array(n))
    right = n / S.sum()
    for x in (ms.cholesky(S).solve(np.ones(n)), ms.factorized(S).solve(np.ones(n))):
        assert np.allclose(x, right, rtol=0.2)
    with pytest.raises(ms.NotPositiveDefiniteError, match="sums to 0"):
        ms.cholesky(A)
    noise = sp.csr_array(A + sp.diags_array(1e-15 * np.random.default_rng(0).uniform(-1, 1, n)))
    with pytest.raises(ms.NotPositiveDefiniteError, match="sums to 0"):
        ms.cholesky(noise)
