"""The choice of ``ms.solve`` for positive definite matrices that are not Laplacians: a complete factor, or the diagonal alone."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve.api import solving
from meshsolve.krylov import blocks, diagonal
from meshsolve.krylov.cg_rules import FORESEE
from meshsolve.krylov.diagonal import Iterations, WhileFactorTakesLonger
from meshsolve.sparse.matrix import as_symmetric


def propagation(n=6000, a=0.9):
    """I - a D^-1/2 W D^-1/2 of a random graph: definite, with negative row sums."""
    ends = np.random.default_rng(0).integers(0, n, (2, 4 * n))
    W = sp.coo_array((np.ones(4 * n), ends), shape=(n, n)).tocsr()
    W = W + W.T
    scale = sp.diags_array(1 / np.sqrt(np.maximum(W.sum(axis=1), 1)))
    return sp.csr_array(sp.eye_array(n) - a * scale @ W @ scale)


def squared(m, shift=0.0):
    """The square of a 3-D grid: biharmonic, ill-conditioned, with a factor of many operations."""
    G = ms.datasets.grid3d(m, boundary="neumann" if shift else "dirichlet")
    return sp.csr_array(G @ G + shift * sp.eye_array(m**3))


EASY, HARD = propagation(), squared(22)


def rhs(A, k=None, seed=1):
    return np.random.default_rng(seed).standard_normal(A.shape[0] if k is None else (A.shape[0], k))


def relative(A, x, b):
    return np.max(np.linalg.norm(A @ x - b, axis=0) / np.linalg.norm(b, axis=0))


@pytest.fixture
def no_factor(monkeypatch):
    """Making a complete factor fails."""
    def refuse(*args, **options):
        raise AssertionError("a Cholesky factorization was made")
    monkeypatch.setattr(solving, "CholeskyFactor", refuse)


@pytest.fixture
def eager(monkeypatch):
    """Small factors count as large, and as slow."""
    for name in ("LARGE_FACTOR", "WORTH_A_TRIAL", "SMALL"):
        monkeypatch.setattr(solving, name, 1e-9)
    monkeypatch.setattr(diagonal, "ITERATION", 1e-6)


@pytest.mark.parametrize("columns", [None, 2, 5])
@pytest.mark.parametrize("make", [rhs, lambda A, k: rhs(A, k) * (1 - 2j)], ids=["real", "complex"])
def test_the_diagonal_is_used_if_it_converges_fast(no_factor, make, columns):
    """About 30 iterations suffice; a complete factor takes as long as 1000."""
    b = make(EASY, columns)
    x, info = ms.solve(EASY, b)
    assert info.method == "jacobi" and info.converged and info.reason == "converged" and x.shape == b.shape
    assert info.iterations < 60 and len(info.residuals) == info.iterations + 1
    assert relative(EASY, x, b) <= 1.01e-10 and info.relative_residual == pytest.approx(relative(EASY, x, b), rel=0.1)
    assert info.report.facts["steps_taken"].split("; ")[-1].startswith(f"diagonal: {info.iterations} iterations to ")
    assert info.report.facts["method"] == "jacobi"


@pytest.mark.parametrize("rtol", [1e-6, 1e-12])
def test_the_tolerance_is_that_of_the_caller(rtol):
    b = rhs(EASY)
    x, info = ms.solve(EASY, b, rtol=rtol)
    assert info.method == "jacobi" and 0.01 * rtol < relative(EASY, x, b) <= 1.01 * rtol


def test_an_unreachable_tolerance_takes_the_factor():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.ConvergenceWarning)
        info = ms.solve(EASY, rhs(EASY), rtol=1e-17)[1]
    assert info.method == "cholesky" and "complete factor" in info.report.facts["steps_taken"]


@pytest.mark.parametrize("b", [np.ones(22**3), rhs(HARD), HARD @ np.ones(22**3), rhs(HARD, 6)], ids=["ones", "random", "smooth", "columns"])
def test_slow_iterations_give_way_to_the_factor_soon(b):
    """After at most 60 iterations; the report has their time."""
    x, info = ms.solve(HARD, b)
    assert info.method == "cholesky" and info.converged and info.iterations == 0 and info.reason == "direct"
    assert info.relative_residual < 1e-10
    if b.ndim == 2:                                     # too many columns for iterations
        assert "steps_taken" not in info.report.facts
        return
    step, last = info.report.facts["steps_taken"].split("; ")
    assert last == "complete factor" and int(step.split()[1]) in (20, 40, 60) and info.report.seconds["trial"] > 0
    assert np.allclose(x, ms.solve(HARD, b, method="cholesky")[0], rtol=1e-6)


@pytest.mark.parametrize("A", [ms.cotan_laplacian(ms.datasets.icosphere(5)) + ms.mass_matrix(ms.datasets.icosphere(5)) - 1e-3 *
                               ms.mass_matrix(ms.datasets.icosphere(5)), squared(9), propagation(3000)],
                         ids=["a mesh", "a small volume", "some thousand rows"])
def test_small_factors_are_made_at_once(monkeypatch, A):
    def refuse(*args):
        raise AssertionError("iterations were tried")
    monkeypatch.setattr(Iterations, "try_diagonal", refuse)
    info = ms.solve(A, rhs(A))[1]
    assert info.method == "cholesky" and info.converged and "steps_taken" not in info.report.facts


def test_many_columns_take_a_factor():
    X, info = ms.solve(EASY, rhs(EASY, 150))
    assert info.method == "cholesky" and info.converged


def test_the_first_of_many_columns_is_tried_alone(eager, monkeypatch):
    """If it is slow, the other columns are not tried."""
    seen, iterate = [], diagonal.iterate

    def recorded(A, b, *args, **options):
        seen.append(b.shape)
        return iterate(A, b, *args, **options)

    monkeypatch.setattr(diagonal, "iterate", recorded)
    A = sp.csr_array(squared(9))
    assert ms.solve(A, rhs(A, 6))[1].method == "jacobi" and seen == [(729,), (729, 6)]
    seen.clear()
    monkeypatch.setattr(diagonal, "ITERATION", 1e9)
    info = ms.solve(A, rhs(A, 6))[1]
    assert info.method == "cholesky" and seen == [(729,)] and info.report.facts["steps_taken"].startswith("first column, diagonal: 20 ")


@pytest.mark.parametrize("threads", [2, 3])
def test_the_choice_does_not_depend_on_threads(threads):
    for A in (EASY, HARD):
        b = rhs(A)
        (x, one), (y, many) = (ms.solve(A, b, threads=t) for t in (1, threads))
        assert np.array_equal(x, y) and one.method == many.method and one.residuals == many.residuals
        assert one.report.facts["steps_taken"] == many.report.facts["steps_taken"]


def starved(*args, **options):
    raise ms.OutOfMemoryError("the factor needs 1 GiB")


@pytest.mark.parametrize("A", [HARD, ms.cotan_laplacian(ms.datasets.icosphere(4)), squared(6)], ids=["large", "singular", "small"])
def test_it_iterates_if_memory_is_too_small_for_a_factor(monkeypatch, A):
    """As for Laplacians; the report has the cause."""
    monkeypatch.setattr(solving, "CholeskyFactor", starved)
    b = A @ rhs(A)
    x, info = ms.solve(A, b)
    assert info.method in ("jacobi", "parac") and info.converged and relative(A, x, b) <= 1.01e-10
    if info.method == "jacobi" and "steps_taken" in info.report.facts:
        steps = info.report.facts["steps_taken"].split("; ")
        assert steps[-2] == "complete factor: the factor needs 1 GiB" and steps[-1].startswith("diagonal: ")
    with pytest.raises(ms.OutOfMemoryError, match="needs 1 GiB$"):
        ms.solve(A, b, method="cholesky")


def test_no_memory_and_no_convergence_is_an_error(monkeypatch):
    monkeypatch.setattr(solving, "CholeskyFactor", starved)
    monkeypatch.setattr(blocks, "MAXITER", 30)
    with pytest.raises(ms.OutOfMemoryError, match=r"needs 1 GiB; conjugate gradients with the diagonal took \d+ iterations to .*: maxiter reached"):
        ms.solve(HARD, rhs(HARD))


def test_no_memory_and_no_better_answer_is_a_warning(monkeypatch):
    """As for a factor that misses the tolerance by rounding alone."""
    monkeypatch.setattr(solving, "CholeskyFactor", starved)
    with pytest.warns(ms.ConvergenceWarning, match="want of memory .* stagnated"):
        x, info = ms.solve(EASY, rhs(EASY), rtol=1e-17)
    assert not info.converged and info.relative_residual == pytest.approx(relative(EASY, x, rhs(EASY)), rel=0.2) and info.relative_residual < 1e-14


def convection(n=9):
    """A symmetric grid with a flow along one axis, in three dimensions."""
    return sp.csr_array(ms.datasets.grid3d(n, boundary="dirichlet") + sp.diags_array(np.full(n**3 - 1, 0.4), offsets=1))


@pytest.mark.parametrize("kind", [float, complex])
def test_gmres_if_memory_is_too_small_for_lu(monkeypatch, kind):
    monkeypatch.setattr(solving, "lu", starved)
    A = convection().astype(kind) * (1 if kind is float else 1 + 1j)
    b = A @ np.ones((729, 2))
    x, info = ms.solve(A, b)
    assert info.method == "ilu" and info.converged and relative(A, x, b) <= 1.01e-10 and info.report.facts["method"] == "ilu"
    assert info.report.facts["steps_taken"].startswith("complete factor: the factor needs 1 GiB; droptol 0.001: ")
    assert np.allclose(ms.solve(A, b, fixed=[0], fixed_values=1.0)[0], 1)
    with pytest.raises(ms.OutOfMemoryError, match="needs 1 GiB$"):
        ms.solve(A, b, method="lu")


def test_no_memory_for_lu_and_no_convergence_is_an_error(monkeypatch):
    from meshsolve.api import escalation
    monkeypatch.setattr(solving, "lu", starved)
    monkeypatch.setattr(escalation, "LONGEST", 1)
    with pytest.raises(ms.OutOfMemoryError, match=r"needs 1 GiB; GMRES with incomplete factors: droptol 0.001: 1 iteration to .*; droptol 1e-08: 1 iter"):
        ms.solve(convection(), np.ones(729), rtol=1e-15)
    with pytest.warns(ms.ConvergenceWarning, match="not solved to 1e-15: droptol 0.001: 1 iteration"):
        x, info = ms.solve(convection(), np.ones(729), method="ilu", rtol=1e-15)
    assert not info.converged and info.relative_residual == pytest.approx(relative(convection(), x, np.ones(729)))


def test_the_first_incomplete_factor_may_have_a_zero_pivot(monkeypatch):
    from meshsolve.api import escalation

    def ilu(A, droptol=1e-3, **options):
        if droptol == 1e-3:
            raise ms.SingularMatrixError("a zero pivot")
        return ms.ilu(A, droptol, **options)

    monkeypatch.setattr(escalation, "ilu", ilu)
    x, info = ms.solve(convection(), np.ones(729), method="ilu")
    assert info.converged and info.report.facts["steps_taken"].startswith("a zero pivot; droptol 1e-05: ")
    with pytest.raises(ms.SingularMatrixError, match="droptol=1e-08"):
        ms.solve(np.ones((2, 2)), [1.0, 1.0], method="ilu")
    with pytest.raises(ms.SingularMatrixError, match="row 1 has no nonzero"):
        ms.solve([[1.0, 1], [0, 0]], [1.0, 1.0], method="ilu")


def test_a_matrix_of_too_many_rows_for_memory_is_refused(monkeypatch):
    from meshsolve import memory
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(ms.OutOfMemoryError, match="rows"):
        ms.solve(sp.eye_array(2_000_000), np.ones(2_000_000))


def test_negative_curvature_avoids_the_cholesky_attempt(no_factor, eager):
    """Conjugate gradients find out that a matrix with a positive diagonal and a positive sum is indefinite."""
    A = sp.lil_array(ms.datasets.grid2d(12, 9) + sp.eye_array(108))
    A[0, 107] = A[107, 0] = 40.0
    b = A @ np.arange(1.0, 109.0)
    x, info = ms.solve(A, b)
    assert info.method == "ildl" and info.converged and np.allclose(A @ x, b)
    assert info.report.facts["steps_taken"].startswith("diagonal: ")


def test_a_right_hand_side_out_of_range_gives_a_warning(eager):
    """For a singular matrix that is not a graph's; the part in the range is solved."""
    L = ms.datasets.grid2d(12, 9)
    A = sp.csr_array(L @ L)
    b = A @ rhs(A) + 1
    with pytest.warns(ms.ConvergenceWarning, match="not in the range"):
        x, info = ms.solve(A, b)
    assert info.method == "jacobi" and not info.converged and abs(x.mean()) < 1e-9
    assert relative(A, x, b) == pytest.approx(info.relative_residual) and np.allclose(A @ x, b - b.mean(), atol=1e-7 * abs(b).max())


@given(operations=st.floats(1, 1e12), columns=st.integers(1, 40), rates=st.lists(st.floats(-0.5, 3), min_size=1, max_size=400))
def test_iterations_never_take_longer_than_the_factor(operations, columns, rates):
    """For any history of the residual; less than a tenth of that time if convergence is never estimated in time."""
    M, left = as_symmetric(ms.datasets.grid2d(4, 4)), 10.0
    rule, done, hopeless = WhileFactorTakesLonger(M, operations, None, columns), 0, True
    factor = operations / (diagonal.ITERATION * M.nnz * diagonal.weight(columns))
    for rate in rates:
        done, left = done + FORESEE, left - rate
        estimate = FORESEE * left / rate if rate > 0 else np.inf
        hopeless = hopeless and done + estimate > factor
        if left <= 0 or rule.gives_up(done, lambda seen, estimate=estimate: estimate):
            break
    assert done <= max(FORESEE, factor + FORESEE)
    if hopeless and left > 0:
        assert done <= max(FORESEE, diagonal.TRIED * factor + FORESEE)


@given(truth=st.floats(1e3, 1e9), bounds=st.lists(st.floats(1, 1e9), min_size=1, max_size=12))
def test_no_estimate_is_made_twice(truth, bounds):
    """Bounds from earlier estimates decide without the graph of the patches."""
    M, estimated = as_symmetric(ms.datasets.grid2d(4, 4)), []

    def takes_more(pattern, operations, threads):
        estimated.append(operations)
        return truth > operations

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diagonal, "takes_more", takes_more)
        rule = WhileFactorTakesLonger(M, 500.0, lambda: truth)
        for operations in bounds:
            assert rule._takes(operations) == (operations <= 500 or operations < truth)
    yes, no = ([q for q in estimated if (q < truth) == answer] for answer in (True, False))
    assert yes == sorted(set(yes)) and no == sorted(set(no), reverse=True)


def test_info_says_that_a_consistent_system_is_singular(monkeypatch):
    """By every method; a regular system is not reported as singular."""
    L = ms.datasets.grid2d(12, 9)
    two = sp.block_diag([L, L]).tocsr()
    K = sp.csr_array([[2.0, 0, 1, 1], [0, 3, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]])       # a repeated constraint
    for A, methods in ((L, ("auto", "cholesky", "ildl", "parac")), (two, ("auto", "parac")), (K, ("auto", "ildl"))):
        for method in methods:
            x, info = ms.solve(A, A @ rhs(A), method=method)
            assert info.converged and info.singular is True and "singular=True" in repr(info), (method, info)
            assert info.report.as_dict()["singular"] is True and "singular" in str(info.report)
    for A, method in ((sp.csr_array(L + sp.eye_array(108)), "auto"), (sp.csr_array(L - 0.9 * sp.eye_array(108)), "ildl"), (sp.triu(L + sp.eye_array(108)), "auto")):
        info = ms.solve(A, A @ rhs(A), method=method)[1]
        assert info.converged and info.singular is False and "singular" not in repr(info) + str(info.report)
    assert ms.cg(L, L @ rhs(L))[1].singular and not ms.cg(L + sp.eye_array(108), rhs(L))[1].singular
    monkeypatch.setattr(solving, "LARGE_FACTOR", 1e-9)
    assert ms.solve(sp.csr_array(L @ L), L @ rhs(L))[1].singular


def test_a_step_of_refinement_precedes_a_warning():
    """Rows of other scales, b small where they are large: many solutions of the factor alone miss rtol, fewer those of solve."""
    alone = refined = 0
    for seed in range(80):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(2, 12))
        B = rng.integers(-2, 3, (n, n)) + 3.0 * np.eye(n)
        if np.linalg.cond(B) > 1e3:
            continue
        rows, columns = 2.0 ** rng.integers(0, 26, n), 2.0 ** rng.integers(0, 12, n)
        x = np.round(np.linalg.solve(B, np.where(rows > 2.0**14, 0, rng.integers(-4, 5, n))) * np.linalg.det(B))
        A = B * rows[:, None] * columns
        b = A @ (x / columns)
        if not b.any():
            continue
        own = np.linalg.norm(b - A @ ms.lu(A).solve(b)) / np.linalg.norm(b)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.ConvergenceWarning)
            info = ms.solve(A, b, method="lu")[1]
        assert info.relative_residual <= max(own, 1e-10)
        alone, refined = alone + (own > 1e-10), refined + (not info.converged)
    assert alone and refined < alone
