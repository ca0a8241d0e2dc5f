"""Accuracy of LU solves: precisions, backward errors, refinement, growth, badly scaled values, singular matrices."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from lu_matrices import ENGINES, backward_error, mesh, random_matrix

import meshsolve as ms
from meshsolve import _core
from meshsolve.sparse.matrix import as_csr
from meshsolve.sparse.product import measured_residual
from meshsolve.sparse.refine import backward_error as backward_error_of

# ---- precisions and backward errors -----------------------------------------------------------------------------------


@pytest.mark.native
def test_precisions():
    A = mesh(40, 40)
    b = np.random.default_rng(0).standard_normal(1600)
    single, mixed = ms.lu(A, precision="single"), ms.lu(A, precision="mixed")
    assert 1e-12 < backward_error(A, single.solve(b), b) < 1e-5 and single.dtype == np.float32
    assert backward_error(A, mixed.solve(b), b) < 1e-15 and mixed.report.facts["refinement_steps"] > 0
    assert ms.lu(A).solve(b.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("precision, bound", [("single", 1e-5), ("mixed", 1e-15)])
def test_single_and_mixed_precision_at_any_scale_of_b(precision, bound):
    A, b = mesh(9, 9), np.random.default_rng(0).standard_normal((81, 3)) * [1e200, 1e-60, 1e-290]
    F = ms.lu(A, precision=precision)
    for trans, M in (("N", A), ("T", A.T)):
        assert backward_error(M, F.solve(b, trans), b) < bound
    assert ms.lu(np.diag([2.0, 1.0]), precision=precision).solve([1e200, 1e190]).tolist() == pytest.approx([5e199, 1e190])


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_bad_factor_in_single_precision_is_noticed(trans):
    """With pivots of other values, solutions give a warning; with repivoting they are accurate."""
    A, b = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.5], [0.1, 0.2, 0.3]]), np.array([1.0, 3.0, 2.0])
    weak = np.where(np.eye(3), 1e-5 * A, A)
    with pytest.warns(ms.ConvergenceWarning, match="backward error"):
        ms.lu(A, precision="single", repivot=False).refactor(weak).solve(b, trans)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = ms.lu(A, precision="single").refactor(weak).solve(b, trans)
    assert backward_error(weak if trans == "N" else weak.T, x, b) < 1e-6


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_zero_right_hand_side_does_not_end_measuring(trans):
    """The first nonzero right-hand side is measured. A circuit at rest begins with zeros."""
    A, b = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([1.0, 3.0])
    F = ms.lu(A).refactor(np.where(np.eye(2), 1.5e-3 * A, A))
    F.solve(np.zeros((2, 3)), trans)
    assert F.report.facts["backward_error"] == 0
    F.solve(b, trans)
    assert F.report.facts["backward_error"] > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_every_solution_is_measured_after_large_growth(engine):
    """Diodes that begin to conduct: a unit vector is solved well, but ones only to 5 % without refinement."""
    A = np.array([[9.0, 3.0, 0.0, 3.0], [0.0, 9.0, 3.0, 0.0], [2e-8, 3e-8, 9.0, 0.0], [2.0, 2e-8, 1.0, 9e-8]])
    first = A.copy()
    first[[0, 2, 2, 3], [3, 1, 2, 3]] = 3e-17, 3e-17, 9e-17, 9e-17
    F = ms.lu(first, engine=engine).refactor(A)
    for b in (np.eye(4)[0], np.ones(4), np.arange(4.0)):
        assert backward_error(A, F.solve(b), b) < 1e-15


def test_solutions_near_the_end_of_the_range_are_refined():
    """||x|| / ||r|| overflows, which must not give an error of 0."""
    F = ms.lu([[0.7e-304]], precision="mixed")
    assert F.solve([1.0]) == pytest.approx([1 / 0.7e-304], rel=1e-15) and F.report.facts["refinement_steps"] > 0


@pytest.mark.parametrize("A, size", [([[0.7e-304]], 1e304), ([[1.7e308, 1.7e308], [0.0, 1.0]], 0.25)])
def test_backward_errors_at_the_ends_of_the_range(A, size):
    """In Python and in C++, also if ||A|| overflows."""
    S, x = sp.csr_array(A), np.full((len(A), 1), size)
    for transposed, M in ((False, S), (True, S.T)):
        b, r, near = M @ x, np.empty_like(x), x * (1 + 1e-8)
        error = _core.measured_residual(S.indptr.astype(np.int64), S.indices, S.data, transposed, near, b, r)
        with np.errstate(over="ignore"):
            norm = abs(M).sum(axis=1).max()
        assert 1e-9 < error < 1e-7 and error == pytest.approx(backward_error_of(norm, *(abs(v).max(axis=0) for v in (r, near, b))))


@pytest.mark.parametrize("complex_values", [False, True])
def test_residuals_of_transposed_systems(complex_values):
    A, rng = random_matrix(60, 0.2, 0, complex_values), np.random.default_rng(1)
    M, T = (as_csr(S, dtype=A.dtype) for S in (A, A.T))
    x, b = (rng.standard_normal((60, 3)).astype(A.dtype) for _ in range(2))
    (r, error), (expected, same) = measured_residual(M, True, x, b), measured_residual(T, False, x, b)
    assert np.allclose(r, expected, rtol=1e-12, atol=1e-12) and error == pytest.approx(same, rel=1e-12)
    assert error == pytest.approx(max(backward_error(T.to_scipy(), x[:, c], b[:, c]) for c in range(3)), rel=1e-12)


def test_solutions_that_overflow_are_errors():
    for A, row in ((np.diag([1.0, 1e-323, 1e300]), 1), (np.diag([5e-324, 1e-310, 1.0, 1e308]), 0)):
        for repivot in ("auto", False):                                 # the scaling overflows
            with pytest.raises(ms.SingularMatrixError, match=f"entries of row {row} overflow") as e:
                ms.lu(A, repivot=repivot)
            assert e.value.index == row
    F = ms.lu(np.diag([1e-200, 1.0, 1.0]), repivot=False)
    with pytest.warns(ms.ConvergenceWarning, match="leaves the range of float64, first in row 0"):
        F.solve([1e200, 1.0, 1.0])
    nothing, one = np.full((3, 1), np.nan), np.ones((3, 1))
    nothing[1:] = 1.0
    A = sp.csr_array(np.eye(3))
    for transposed in (False, True):
        parts = A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data
        assert _core.measured_residual(*parts, transposed, nothing, one, np.empty((3, 1))) == np.inf
        assert _core.measured_residual(*parts, transposed, np.hstack([nothing, one]), np.ones((3, 2)), np.empty((3, 2))) == np.inf


@pytest.mark.parametrize("engine", ENGINES)
def test_a_good_factor_is_measured_once(engine, monkeypatch):
    """A residual costs more than a solve, so only factors that need it are refined."""
    from meshsolve.factor.lu import host

    measured, residual = [], host.measured_residual
    monkeypatch.setattr(host, "measured_residual", lambda *args: measured.append(1) or residual(*args))
    A = mesh(30, 30)
    F, b = ms.lu(A, engine=engine), A @ np.ones(900)
    first = F.solve(b)
    assert len(measured) == 1 and F.report.facts["backward_error"] < 1e-13 and F.report.facts["refinement_steps"] == 0
    assert np.array_equal(F.solve(b), first) and len(measured) == 1
    F.refactor(A).solve(b)
    assert len(measured) == 2


def test_a_long_row_is_not_called_badly_conditioned():
    """A row of 200,000 entries, as of a supply net: its sum has larger rounding errors than the solution."""
    n = 200_000
    rows = np.concatenate([np.zeros(n - 1, int), np.arange(1, n), np.arange(n)])
    columns = np.concatenate([np.arange(1, n), np.zeros(n - 1, int), np.arange(n)])
    values = np.concatenate([np.full(2 * n - 2, -1.0), [n], np.full(n - 1, 2.0)])
    F = ms.lu(sp.csr_array((values, (rows, columns)), shape=(n, n)))
    F.solve(np.ones(n))
    assert F.report.facts["backward_error"] < 1e-13


# ---- growth and singular matrices -------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("skew", [False, True])
def test_growth_is_measured_over_all_of_u(engine, skew):
    """The growth is off the diagonal, or on it for the identity plus a skew matrix."""
    A = random_matrix(40, 0.3, 0)
    A = sp.csr_array(sp.eye_array(40) + 0.2 * (A - A.T)) if skew else A
    F = ms.lu(A, engine=engine)
    scaled = sp.diags_array(F.row_scale) @ A @ sp.diags_array(F.col_scale)
    assert F.report.facts["pivot_growth"] == pytest.approx(abs(scaled).max() / abs(F.U).max(), rel=1e-12)


def test_growth_that_costs_few_digits_costs_no_refinement():
    """Rows that are small relative to |x| have errors of 1e-11 with any factor. Refining them would triple the time of solves."""
    A = ms.datasets.power_grid(60, controlled=True)
    rng = np.random.default_rng(306)
    F = ms.lu(A)
    A.data = A.data * rng.uniform(0.9, 1.1, A.nnz)
    b = rng.standard_normal(A.shape[0])
    F.refactor(A)
    x = F.solve(b)
    assert F.report.facts["pivot_growth"] < 1e-3 and F.report.facts["refinement_steps"] == 0
    assert (abs(b - A @ x) <= 1e-10 * (abs(A) @ abs(x) + abs(b))).all()


def test_badly_scaled_matrices():
    A, rng = random_matrix(80, 0.1, 2, diagonal=2.0), np.random.default_rng(3)
    rows, columns = 10 ** rng.uniform(-60, 60, 80), 10 ** rng.uniform(-60, 60, 80)
    scaled = sp.csr_array(sp.diags_array(rows) @ A @ sp.diags_array(columns))
    x = ms.lu(scaled).solve(rows) * columns
    assert backward_error(A, x, np.ones(80)) < 1e-13


def test_numerically_singular_matrices_are_noticed():
    ones = np.ones((3, 3))
    for A in (ones, np.kron(np.eye(4), ones[:2, :2]), ms.datasets.grid2d(20, 20), ms.graph_laplacian(ms.datasets.icosphere(3))):
        for engine in ENGINES:
            with pytest.raises(ms.SingularMatrixError, match="no pivot is left") as caught:
                ms.lu(A, engine=engine)
            assert 0 <= caught.value.index < A.shape[0]


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("engine", ENGINES)
def test_solutions_of_a_numerically_singular_matrix_warn(engine, trans):
    """The backward error is small, because x is of the order of the inverse of the rounding errors."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((200, 200)), rng.standard_normal(200)
    A[-1] = A[:-1].sum(axis=0)
    F = ms.lu(A, engine=engine)
    with pytest.warns(ms.ConvergenceWarning, match="singular to working precision"):
        F.solve(b, trans=trans)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for good in (A + np.eye(200), np.outer(10.0 ** np.linspace(-12, 12, 200), np.ones(200)) * (A + np.eye(200))):
            F.refactor(good).solve(b, trans=trans)


@pytest.mark.parametrize("engine", ENGINES)
def test_perturbed_pivots_are_counted_on_every_thread(engine):
    A = mesh(100, 100)
    weak, rows = A.copy(), np.arange(5, 10_000, 311)
    for row in rows:
        weak.data[A.indptr[row]:A.indptr[row + 1]] *= 1e-30
    for threads in (1, 2, 3, 5, 8):
        F = ms.lu(A, engine=engine, repivot=False, threads=threads).refactor(weak)
        assert F.report.facts["perturbed_pivots"] == len(rows)
