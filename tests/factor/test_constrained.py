"""Fixed rows and pins for LU, L D L^T, ParAC, conjugate gradients and `solve`, against dense answers and `cholesky`."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.constrained import ConstrainedIldl, ConstrainedLU

N, FIXED = 72, np.array([70, 3, 15])
FREE = np.setdiff1d(np.arange(N), FIXED)
VALUES = np.array([[1.0, 2], [3, 4], [5, 6]])
RHS = np.random.default_rng(0).standard_normal((N, 2))
INSIDE = RHS - RHS.mean(axis=0)


def unsymmetric(seed=0, kind=float):
    A = ms.datasets.grid2d(9, 8, boundary="dirichlet").copy()
    rng = np.random.default_rng(seed)
    A.data *= rng.uniform(0.8, 1.2, A.nnz)
    return sp.csr_array(A + 0.3j * A.T) if kind is complex else A


def indefinite(seed=0):
    return sp.csr_array(spd(grid(9, 8), seed) - 3.3 * sp.eye_array(N))


def condensed(A, b, values, fixed=FIXED):
    """Dense reference: eliminate rows and columns, with their coupling in the right-hand side, as scikit-fem's condense does."""
    D, free = A.toarray(), np.setdiff1d(np.arange(N), fixed)
    x = np.zeros(b.shape, np.result_type(D, b, values))
    x[fixed] = values
    x[free] = np.linalg.solve(D[np.ix_(free, free)], b[free] - D[np.ix_(free, fixed)] @ x[fixed])
    return x


def near(x, y, tolerance=1e-10):
    return x.shape == y.shape and abs(x - y).max() <= tolerance * abs(y).max()


@pytest.mark.parametrize("engine", ["fronts", "columns"])
@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_lu_eliminates_rows_and_columns(engine, kind, trans):
    A = unsymmetric(kind=kind)
    B = {"N": A, "T": A.T, "H": A.conj().T}[trans]
    F = ms.lu(A, fixed=FIXED, engine=engine)
    for values in (VALUES, VALUES * (1 + 2j)):
        assert near(F.solve(RHS, trans, fixed_values=values), condensed(B, RHS, values))
    assert near(F.solve(RHS[:, 0], trans), condensed(B, RHS[:, 0], 0.0))
    assert near(F.solve(RHS * 1j, trans, fixed_values=2.0), condensed(B, RHS * 1j, 2.0))


def test_the_factors_of_lu_are_those_of_the_free_block():
    A = unsymmetric()
    F = ms.lu(A, fixed=FIXED)
    B = (sp.diags_array(F.row_scale) @ A[FREE][:, FREE] @ sp.diags_array(F.col_scale)).toarray()
    at = np.zeros(N, int)
    at[FREE] = np.arange(len(FREE))
    assert abs(F.L @ F.U - B[at[F.row_perm]][:, at[F.col_perm]]).max() < 1e-12
    assert F.shape == (N, N) and np.array_equal(np.sort(F.col_perm), FREE) and 0 < F.rcond() < 1
    sign, log = np.linalg.slogdet(A[FREE][:, FREE].toarray())
    assert F.slogdet()[0] == sign and abs(F.slogdet()[1] - log) < 1e-9
    assert "n=72" in repr(F) and F.report.facts["nnz_A"] == A[FREE][:, FREE].nnz
    with pytest.raises(AttributeError, match="no attribute 'inertia'"):
        F.inertia  # noqa: B018


def test_the_operator_of_lu_and_its_transposes():
    F = ms.lu(unsymmetric(kind=complex), fixed=FIXED)
    P = F @ np.eye(N)
    assert np.array_equal(P[FIXED], np.zeros((3, N))) and np.array_equal(P[:, FIXED], np.zeros((N, 3)))
    assert near(F.T @ RHS, P.T @ RHS) and near(F.H @ RHS[:, 0], P.conj().T @ RHS[:, 0])


@pytest.mark.parametrize("options", [{}, {"fill_level": None}, {"lower": True}, {"ordering": np.arange(N)[::-1].copy()}])
def test_ildl_with_fixed_rows(options):
    A = indefinite()
    K = ms.ildl(sp.tril(A) if options.get("lower") else A, fixed=FIXED, **options)
    assert near(K.solve(RHS, fixed_values=VALUES), condensed(A, RHS, VALUES))
    assert near(K.solve(RHS, fixed_values=VALUES * 1j), condensed(A, RHS, VALUES * 1j))
    values = np.linalg.eigvalsh(A[FREE][:, FREE].toarray())
    assert K.inertia == ((values > 0).sum(), (values < 0).sum(), 0) and np.array_equal(np.sort(K.perm), FREE)
    assert near(K @ RHS, condensed(A, RHS, 0.0)) and near(K.T @ RHS, K @ RHS)
    B = indefinite(1)
    assert K.refactor(sp.tril(B) if options.get("lower") else B) is K
    assert near(K.solve(RHS, fixed_values=VALUES), condensed(B, RHS, VALUES))


def test_forms_of_fixed_and_orderings():
    A, mask = unsymmetric(), np.isin(np.arange(N), FIXED)
    perm = np.random.default_rng(1).permutation(N)
    F = ms.lu(A, perm, fixed=FIXED)
    whole = np.zeros(N)
    whole[FIXED] = VALUES[:, 0]
    assert near(F.solve(RHS[:, 0], fixed_values=whole), condensed(A, RHS[:, 0], VALUES[:, 0]))
    assert near(ms.lu(A, fixed=mask).solve(RHS[:, 0], fixed_values=whole[mask]), condensed(A, RHS[:, 0], VALUES[:, 0]))
    assert near(ms.lu(A, fixed=3).solve(RHS[:, 0], fixed_values=4), condensed(A, RHS[:, 0], 4.0, [3]))


def test_forms_of_b():
    A = unsymmetric()
    F, K = ms.lu(A, fixed=FIXED), ms.ildl(indefinite(), fixed=FIXED)
    for G in (F, K):
        expected = G.solve(RHS, fixed_values=VALUES)
        assert G.solve(RHS.astype(np.float32), fixed_values=VALUES).dtype == np.float32
        assert near(G.solve(np.asfortranarray(RHS), fixed_values=VALUES), expected, 1e-14)
        out = np.empty((N, 2))
        assert G.solve(RHS, out=out, fixed_values=VALUES) is out and np.array_equal(out, expected)
        sparse = G.solve(sp.csc_array(RHS), fixed_values=VALUES)
        assert sp.issparse(sparse) and near(sparse.toarray(), expected, 1e-14)
        assert G.solve(np.empty((N, 0))).shape == (N, 0)


@pytest.mark.parametrize("make", [ms.lu, ms.ildl])
def test_a_failed_refactorization_keeps_factor_and_coupling(make):
    A = spd(grid(9, 8), 1)
    F = make(A, fixed=FIXED)
    expected = F.solve(RHS, fixed_values=VALUES)
    outside = A.tolil()
    outside[60, 20] = outside[20, 60] = 1.0
    with pytest.raises(ms.PatternMismatchError, match="row 20, column 60") as caught:
        F.refactor(outside)
    assert (caught.value.row, caught.value.column) == (20, 60)
    with pytest.raises(ms.SingularMatrixError):
        F.refactor(0 * A)
    with pytest.raises(ms.InvalidInputError, match="A has 12 rows, the factor 72"):
        F.refactor(np.eye(12))
    assert np.array_equal(F.solve(RHS, fixed_values=VALUES), expected)
    assert near(F.refactor(2 * A).solve(RHS, fixed_values=VALUES), condensed(2 * A, RHS, VALUES))


@pytest.mark.parametrize("make", [ms.lu, ms.ildl, ms.parac])
def test_copies_and_pickles(make):
    F = make(ms.datasets.grid2d(9, 8), fixed=FIXED)
    expected = F.solve(RHS, fixed_values=VALUES)
    for other in (copy.copy(F), copy.deepcopy(F), pickle.loads(pickle.dumps(F))):
        assert type(other) is type(F) and np.array_equal(other.solve(RHS, fixed_values=VALUES), expected)


def test_errors_name_rows_of_the_whole_matrix():
    A = unsymmetric().tolil()
    A[40, FREE] = 0                                     # row 40 is coupled to fixed rows only
    A[40, 70] = 1.0
    with pytest.raises(ms.SingularMatrixError, match="row 40 ") as caught:
        ms.lu(A, fixed=FIXED)
    assert caught.value.index == 40
    L = ms.datasets.grid2d(9, 8).tolil()
    L[30, 30] -= 20
    with pytest.raises(ms.NotLaplacianError, match="row 30 ") as caught:
        ms.parac(L, fixed=FIXED)
    assert caught.value.row == 30
    with pytest.raises(ms.NotPositiveDefiniteError) as caught:
        ms.solve(L, RHS[:, 0], "cholesky", fixed=FIXED)
    assert caught.value.column in FREE and f"column {caught.value.column} " in str(caught.value)


# ---- pins -------------------------------------------------------------------------------------------------------------


def circulation(seed=0, kind=float):
    """An unsymmetric A with zero row and column sums: a flow without divergence, in two interleaved components."""
    n = N // 2
    rng, ring = np.random.default_rng(seed), np.arange(n)
    A = sp.coo_array((np.ones(n), (ring, np.roll(ring, 1))), shape=(n, n)).tocsr() * rng.uniform(1, 2)
    A = A + ms.datasets.grid2d(6, 6)
    A = sp.csr_array(A - sp.diags_array(A.sum(axis=1)))
    both = sp.block_diag([A, 2.0 * A]).tocsr()
    mixed = np.arange(N).reshape(2, n).T.ravel()
    both = sp.csr_array(both[mixed][:, mixed])
    return sp.csr_array(both * (1 + 0.5j)) if kind is complex else both


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("trans", ["N", "T", "H"])
def test_lu_pins_each_component_of_an_unsymmetric_matrix(kind, trans):
    A = circulation(kind=kind)
    B = {"N": A, "T": A.T, "H": A.conj().T}[trans].toarray()
    b = RHS - np.stack([RHS[::2].mean(axis=0), RHS[1::2].mean(axis=0)])[np.arange(N) % 2]
    F = ms.lu(A, pin=True)
    x = F.solve(b, trans)
    assert near(x, np.linalg.pinv(B) @ b) and abs(x[::2].mean(axis=0)).max() < 1e-14 and abs(x[1::2].mean(axis=0)).max() < 1e-14
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        y = F.solve(b + 1.0, trans)
    assert near(y, x)
    assert near(F.refactor(3.0 * A).solve(b, trans), x / 3)


def test_pin_needs_zero_column_sums_and_equal_components():
    A = circulation().tolil()
    A[0, 2] += 1.0
    A[0, 0] -= 1.0
    with pytest.raises(ms.NotLaplacianError, match="column 0 of A sums to") as caught:
        ms.lu(A, pin=True)
    assert caught.value.row == 0
    L = sp.csr_array(sp.block_diag([ms.datasets.grid2d(6, 6)] * 2))
    joined = L.tolil()
    for i, j in ((0, 40), (40, 0)):
        joined[i, j] -= 1.0
        joined[i, i] += 1.0
    for make in (ms.lu, ms.ildl):
        with pytest.raises(ms.PatternMismatchError, match="joins two components"):
            make(L, pin=True).refactor(joined)


@pytest.mark.parametrize("make", [ms.cholesky, ms.lu, ms.ildl])
def test_pins_give_the_solution_of_the_pseudoinverse(make):
    L = ms.datasets.grid2d(9, 8)
    F = make(L, pin=True)
    assert near(F.solve(INSIDE), np.linalg.pinv(L.toarray()) @ INSIDE)
    with pytest.raises(ms.InvalidInputError, match="not with pin=True"):
        F.solve(INSIDE, fixed_values=1.0)


@pytest.mark.parametrize("make", [ms.lu, ms.ildl])
def test_isolated_rows_alone(make):
    F = make(sp.csr_array((N, N)), pin=True)
    assert not F.solve(np.zeros(N)).any()


# ---- one system -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["auto", "cholesky", "lu", "ildl", "parac"])
def test_solve_with_fixed_rows_and_pins(method):
    A, L = spd(grid(9, 8)), ms.datasets.grid2d(9, 8)
    x, info = ms.solve(A, RHS, method, fixed=FIXED, fixed_values=VALUES)
    assert info.converged and near(x, condensed(A, RHS, VALUES), 1e-8)
    x, info = ms.solve(A, RHS[:, 0], method, fixed=FIXED, fixed_values=VALUES[:, 0] * 1j)
    assert info.converged and x.dtype == complex and near(x, condensed(A, RHS[:, 0], VALUES[:, 0] * 1j), 1e-8)
    x, info = ms.solve(L, INSIDE, method, pin=True)
    assert info.converged and near(x, np.linalg.pinv(L.toarray()) @ INSIDE, 1e-8)


def test_solve_of_other_kinds_of_matrices():
    for A in (unsymmetric(), unsymmetric(kind=complex), indefinite()):
        x, info = ms.solve(A, RHS, fixed=FIXED, fixed_values=VALUES)
        assert info.converged and near(x, condensed(A, RHS, VALUES))
    x, info = ms.solve(unsymmetric(), sp.csc_array(RHS), fixed=FIXED, fixed_values=VALUES)
    assert near(x.toarray(), condensed(unsymmetric(), RHS, VALUES))
    with pytest.raises(ms.NotSymmetricError):
        ms.solve(unsymmetric(), RHS, "cholesky", fixed=FIXED)


def test_cg_with_fixed_rows_and_any_preconditioner():
    L = ms.datasets.grid2d(9, 8)
    expected = condensed(L, RHS, VALUES)
    inverse = np.diag(1 / L.diagonal())
    for M in (None, ms.parac(L, fixed=FIXED), ms.ildl(L, fixed=FIXED), ms.cholesky(L, fixed=FIXED), ms.parac(L[FREE][:, FREE]),
              inverse, sp.csr_array(inverse), inverse.tolist()):
        x, info = ms.cg(L, RHS, M=M, rtol=1e-12, fixed=FIXED, fixed_values=VALUES)
        assert info.converged and info.iterations.shape == (2,) and near(x, expected)
    few, many = (ms.cg(L, RHS, M=M, fixed=FIXED, fixed_values=VALUES)[1].iterations.max() for M in (ms.ildl(L, fixed=FIXED), None))
    assert few <= 2 < many
    x, info = ms.cg(L, RHS[:, 0], x0=expected[:, 0], fixed=FIXED, fixed_values=VALUES[:, 0])
    assert info.iterations == 0 and near(x, expected[:, 0])
    x, info = ms.cg(L, RHS * 1j, rtol=1e-12, fixed=FIXED, fixed_values=VALUES * 1j)
    assert near(x, expected * 1j)


def test_the_callback_of_cg_sees_all_rows():
    L, seen = ms.datasets.grid2d(9, 8), []
    x, _ = ms.cg(L, RHS[:, 0], fixed=FIXED, fixed_values=VALUES[:, 0], callback=lambda x: seen.append(x.copy()))
    assert all(y.shape == (N,) and np.array_equal(y[FIXED], VALUES[:, 0]) for y in seen) and np.array_equal(seen[-1], x)


def test_cg_with_a_pin():
    L = ms.datasets.grid2d(9, 8)
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        x, info = ms.cg(L, RHS, M=ms.parac(L), rtol=1e-12, pin=True)
    assert info.converged and near(x, np.linalg.pinv(L.toarray()) @ INSIDE) and abs(x.mean(axis=0)).max() < 1e-14
    x, info = ms.cg(L, INSIDE * 1j, M=ms.parac(L, pin=True), rtol=1e-12, pin=True)
    assert info.converged and near(x, np.linalg.pinv(L.toarray()) @ INSIDE * 1j)


def test_the_same_bits_on_any_number_of_threads():
    A, b = spd(grid(60, 50)), np.random.default_rng(0).standard_normal(3000)
    for make in (ms.lu, ms.ildl):
        one, two = (make(A, fixed=[5, 700], threads=t).solve(b, fixed_values=[1.0, 2.0]) for t in (1, 2))
        assert np.array_equal(one, two)


def test_on_the_gpu(cuda):
    A, L = spd(grid(9, 8)), ms.datasets.grid2d(9, 8)
    b, values = device.to_device(RHS), device.to_device(VALUES)
    F = ms.lu(A, fixed=FIXED, device="cuda")
    assert isinstance(F, ConstrainedLU) and F.report.facts["device"] == "cuda"
    x = F.solve(b, fixed_values=values)
    assert device.holds(x) and near(device.to_host(x), condensed(A, RHS, VALUES))
    assert near(F.solve(RHS, fixed_values=VALUES), condensed(A, RHS, VALUES))
    K = ms.ildl(A, fill_level=None, fixed=FIXED, device="cuda")
    assert isinstance(K, ConstrainedIldl) and near(device.to_host(K.solve(b, fixed_values=values)), condensed(A, RHS, VALUES))
    x, info = ms.cg(L, b, rtol=1e-12, fixed=FIXED, fixed_values=values)
    assert info.converged and device.holds(x) and near(device.to_host(x), condensed(L, RHS, VALUES))
    x, info = ms.solve(A, b, "cholesky", device="cuda", fixed=FIXED, fixed_values=values)
    assert device.holds(x) and near(device.to_host(x), condensed(A, RHS, VALUES))
