"""SQMR: compared with direct solves; reported residuals are true; singular and unsolvable systems end with a reason."""

import contextlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve import _core
from meshsolve.krylov.sqmr import iterate


def test_indefinite_systems_without_a_preconditioner():
    A = ms.datasets.helmholtz(12, 6)
    b = np.random.default_rng(0).standard_normal(144)
    x, info = ms.sqmr(A, b, rtol=1e-10, maxiter=1000)
    assert info.converged and np.allclose(x, spla.spsolve(sp.csc_array(A), b), rtol=1e-6, atol=1e-8)
    assert info.method == "sqmr" and len(info.residuals) == info.iterations + 1
    assert info.relative_residual == pytest.approx(np.linalg.norm(A @ x - b) / np.linalg.norm(b), rel=1e-3, abs=1e-15)


def test_blocks_are_columns():
    A = ms.datasets.kkt(100, 40)
    B = A @ np.random.default_rng(1).standard_normal((140, 3))
    B[:, 1] += 1e8 * A[:, [0]].toarray()[:, 0]             # takes fewer iterations
    K = ms.ildl(A, fill_level=1)
    X, info = ms.sqmr(A, B, M=K, rtol=1e-9)
    assert info.iterations.shape == (3,) and info.converged is True and info.residuals[0].shape == (3,)
    for c in range(3):
        x, one = ms.sqmr(A, B[:, c], M=K, rtol=1e-9)
        assert np.array_equal(x, X[:, c]) and one.iterations == info.iterations[c]
        history = [step[c] for step in info.residuals]      # the residual of a finished column is repeated
        assert history == one.residuals + one.residuals[-1:] * (len(history) - len(one.residuals))


def test_start_zero_and_complex():
    A = ms.datasets.stokes(6)
    K = ms.ildl(A)
    b = np.random.default_rng(2).standard_normal(A.shape[0])
    x, info = ms.sqmr(A, b, M=K)
    assert ms.sqmr(A, b, M=K, x0=x)[1].iterations == 0
    z, info = ms.sqmr(A, np.zeros_like(b), M=K)
    assert not z.any() and info.converged and info.iterations == 0 and info.residuals == [0]
    c, info = ms.sqmr(A, b + 2j * b, M=K)
    assert np.allclose(c, x + 2j * x)


def test_a_callback_does_not_change_the_answer():
    """Zero is the best iterate of this system: the last argument of the callback is worse."""
    A, M = np.diag([1.0, -1.0, 2.0]), np.array([[-8.0, 4.0, -6.0], [4.0, 6.0, 2.0], [-6.0, 2.0, 0.0]])
    with pytest.warns(ms.ConvergenceWarning):
        x, info = ms.sqmr(A, np.ones(3), M=M, maxiter=1)
        y, other = ms.sqmr(A, np.ones(3), M=M, maxiter=1, callback=lambda x: None)
    assert not x.any() and not y.any() and info.relative_residual == other.relative_residual == 1


def test_the_callback_gets_each_iterate():
    A, seen = ms.datasets.helmholtz(8, 7), []
    x, info = ms.sqmr(A, np.ones(64), callback=lambda x: seen.append(x.copy()), rtol=1e-6)
    assert len(seen) == info.iterations and seen[0].shape == (64,)


def test_convergence_is_checked():
    """With a preconditioner that loses digits ``converged`` is true only for a small true residual."""
    A = ms.datasets.kkt(400, 150, seed=3)
    b = A @ np.random.default_rng(3).standard_normal(550)
    x, info = ms.sqmr(A, b, M=ms.ildl(A, fill_level=1, droptol=0.1), rtol=1e-7, maxiter=3000)
    assert info.converged == (np.linalg.norm(A @ x - b) <= 1.0001e-7 * np.linalg.norm(b))


def test_singular_but_consistent():
    A = ms.datasets.grid2d(9, 9) - 2.0 * sp.eye_array(81)
    A = sp.csr_array(sp.block_diag([A, sp.csr_array((3, 3))]))
    b = A @ np.ones(84)
    x, info = ms.sqmr(A, b, rtol=1e-9)
    assert info.converged


def test_breakdown_is_reported():
    A = sp.csr_array([[0.0, 1], [1, 0]])
    with pytest.warns(ms.ConvergenceWarning, match="broke down"):
        x, info = ms.sqmr(A, [1.0, 0.0])
    assert not info.converged and "broke down" in info.reason and info.relative_residual == 1.0
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        ms.sqmr(ms.datasets.helmholtz(20, 8), np.ones(400), maxiter=3)


@pytest.mark.parametrize("fill_level", [1, None])
def test_a_residual_orthogonal_to_the_preconditioned_one(fill_level):
    """b . A^-1 b = 0 and a nearly exact factor: no Lanczos sequence begins at zero. Constraints that a solution of energy 0
    fulfills give such right-hand sides. Their solution must not depend on the rounding of one product."""
    A = sp.diags_array(np.tile([1.0, -1.0, 3.0, -3.0], 20)).tocsr()
    b = np.ones(80)
    x, info = ms.sqmr(A, b, M=ms.ildl(A, fill_level=fill_level))
    assert info.converged and info.iterations == 1 and np.allclose(A @ x, b) and len(info.residuals) == 2
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        assert ms.sqmr(A, b, M=ms.ildl(A), maxiter=0)[1].iterations == 0


def test_a_sequence_that_broke_down_is_followed_by_another():
    A = sp.diags_array(np.tile([1.0, -2.0, 3.0, -4.0], 20)).tocsr()
    x, info = ms.sqmr(A, np.ones(80), M=sp.diags_array(np.sign(A.diagonal())), rtol=1e-10)
    assert info.converged and np.allclose(A @ x, 1)


@pytest.mark.parametrize("maxiter", [1, 2, 5, 8])
def test_the_residual_is_never_larger_than_at_the_start(maxiter):
    """The true residual of the eighth iterate is larger."""
    A, solution = ms.datasets.kkt(150, 60, seed=7), np.random.default_rng(5).standard_normal(210)
    K, x0 = ms.ildl(A, fill_level=0, droptol=0.3), solution + 1e-3 * np.sin(np.arange(210))
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        x, info = ms.sqmr(A, A @ solution, M=K, x0=x0, rtol=1e-12, maxiter=maxiter)
    assert info.relative_residual <= info.residuals[0]


@pytest.mark.parametrize("patience, reason", [(1, "slow: "), (5, "converged")])
def test_patience_ends_slow_columns_only(patience, reason):
    """The residual of this system falls ten times in about three iterations."""
    A = ms.datasets.kkt(400, 150, seed=3)
    x, info = iterate(A, A @ np.ones(550), ms.ildl(A, fill_level=1), None, 1e-10, 0.0, 100, patience=patience)
    assert reason in info.reason


def test_a_wrong_preconditioner_gives_true_residuals():
    A = ms.datasets.kkt(60, 20)
    M = sp.diags_array(np.r_[np.ones(40), -np.ones(40)])
    with pytest.warns(ms.ConvergenceWarning):
        x, info = ms.sqmr(A, np.ones(80), M=M, maxiter=30)
    assert info.relative_residual == pytest.approx(np.linalg.norm(A @ x - 1) / np.sqrt(80), rel=1e-6)


def test_the_same_bits_on_any_number_of_threads():
    A = ms.datasets.kkt(20000, 8000, seed=5)
    b = A @ np.ones(28000)
    K = ms.ildl(A, fill_level=1)
    one, many = (ms.sqmr(A, b, M=K, rtol=1e-5, threads=t) for t in (1, 3))
    assert np.array_equal(one[0], many[0]) and one[1].residuals == many[1].residuals


@pytest.mark.parametrize("steps", [1, 2])
def test_solve_escalates_and_reports_the_steps(monkeypatch, steps):
    """A coarse incomplete factor is followed by a finer one, and the report has each step."""
    from meshsolve.api import escalation

    A = ms.datasets.helmholtz(40, 15)
    b = A @ np.random.default_rng(4).standard_normal(1600)
    monkeypatch.setattr(escalation, "STEPS", ({"fill_level": 0, "droptol": 0.3},) * steps + ({"fill_level": None},))
    monkeypatch.setattr(escalation, "PATIENCE", 10)
    x, info = ms.solve(A, b, method="ildl", rtol=1e-9)
    taken = info.report.facts["steps_taken"].split("; ")
    assert info.converged and len(taken) == steps + 1 and taken[-1].startswith("complete") and info.method == "ildl"
    assert np.linalg.norm(A @ x - b) <= 1e-9 * np.linalg.norm(b)


@pytest.mark.parametrize("failure", [None, ms.OutOfMemoryError("the complete factor needs 1 GiB"), ms.SingularMatrixError("it overflowed", 0)])
def test_an_affordable_complete_factor_is_next(monkeypatch, failure):
    """It precedes incomplete factors of higher levels, unless memory is short or it overflows, and is not analyzed twice."""
    from meshsolve.api import escalation
    from meshsolve.factor import ildl as module

    given = []

    def recorded(*args, symbolic=None, fill_level="auto", **options):
        given.append((fill_level, symbolic))
        if failure and fill_level is None:
            raise failure
        return original(*args, symbolic=symbolic, fill_level=fill_level, **options)

    original = escalation.ildl
    for name, bound in (("FEW_FLOPS", 1e4), ("FLOPS_PER_ENTRY", 0), ("FEW_NONZEROS", 3)):
        monkeypatch.setattr(module, name, bound)
    monkeypatch.setattr(escalation, "ildl", recorded)
    monkeypatch.setattr(escalation, "PATIENCE", 3)
    A = ms.datasets.helmholtz(40, 15)
    b = A @ np.random.default_rng(4).standard_normal(1600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.ConvergenceWarning)
        x, info = ms.solve(A, b, method="ildl")
    assert [level for level, _ in given] == (["auto", None, 4, 8] if failure else ["auto", None]) and given[1][1] is not None
    assert failure or info.converged and np.linalg.norm(A @ x - b) <= 1e-10 * np.linalg.norm(b)


def test_only_a_first_factor_without_memory_is_an_error(monkeypatch):
    from meshsolve.api import escalation

    def starved(*args, fill_level="auto", **options):
        if fill_level is None:
            raise ms.OutOfMemoryError("the complete factor needs 1 GiB")
        return original(*args, fill_level=fill_level, **options)

    original = escalation.ildl
    A = ms.datasets.helmholtz(40, 15)
    monkeypatch.setattr(escalation, "ildl", starved)
    monkeypatch.setattr(escalation, "PATIENCE", 10)
    monkeypatch.setattr(escalation, "STEPS", ({"fill_level": 0, "droptol": 0.3}, {"fill_level": None}))
    with pytest.warns(ms.ConvergenceWarning, match="not solved to .*needs 1 GiB"):
        assert ms.solve(A, A @ np.ones(1600), method="ildl")[1].relative_residual < 1
    monkeypatch.setattr(escalation, "STEPS", ({"fill_level": None},))
    with pytest.raises(ms.OutOfMemoryError, match="needs 1 GiB"):
        ms.solve(A, A @ np.ones(1600), method="ildl")


def test_a_solution_beyond_float64_has_not_converged():
    with pytest.warns(ms.ConvergenceWarning, match="leaves the range of float64"):
        x, info = ms.sqmr(np.diag([-1e-300, 1.0]), np.array([1e300, 0.0]), M=ms.ildl(np.diag([-1e-300, 1.0]), fill_level=None))
    assert not info.converged and info.relative_residual == np.inf and np.isinf(x[0])


def test_solve_takes_it_for_symmetric_indefinite_matrices():
    A = ms.datasets.stokes(10)
    x, info = ms.solve(A, np.ones(A.shape[0]))
    assert info.method == "ildl" and info.converged


def test_an_inconsistent_system_is_not_called_solved():
    A = sp.csr_array(sp.block_diag([sp.coo_array([[0.0, 1], [1, 0]]), sp.coo_array([[1.0, 1], [1, 1]])]))
    with pytest.warns(ms.ConvergenceWarning, match="not in the range of A"):
        x, info = ms.solve(A, [1.0, 2, 1, -1], method="ildl")
    assert not info.converged and info.relative_residual > 0.1 and info.reason


@given(seed=st.integers(0, 999), empty=st.integers(1, 3), k=st.integers(1, 3), indefinite=st.booleans())
def test_zero_rows_do_not_affect_other_rows(seed, empty, k, indefinite):
    """The solvable part of b is solved as exactly as by the complete factor itself."""
    rng = np.random.default_rng(seed)
    regular = sp.diags_array(rng.uniform(0.5, 2, 30) * (rng.choice([-1, 1], 30) if indefinite else 1))
    S = sp.block_diag([regular, sp.csr_array((empty, empty))], format="csr")
    S = sp.csr_array(S[order := rng.permutation(30 + empty)][:, order])
    whole, b = S.diagonal() != 0, rng.uniform(1, 2, (30 + empty, k))
    with pytest.warns(ms.ConvergenceWarning):
        x, info = ms.solve(S, b)
    assert not info.converged and np.allclose(x[whole], b[whole] / S.diagonal()[whole, None], rtol=1e-12)
    left = np.linalg.norm(b[~whole], axis=0) / np.linalg.norm(b, axis=0)
    assert info.relative_residual == pytest.approx(left.max(), rel=1e-12)


def test_a_diagonal_with_one_zero():
    with pytest.warns(ms.ConvergenceWarning):
        x, info = ms.solve(sp.diags_array(np.r_[np.ones(99), 0]), np.ones(100))
    assert np.array_equal(x[:99], np.ones(99)) and info.relative_residual == pytest.approx(0.1, rel=1e-14)


@given(seed=st.integers(0, 999))
def test_no_solution_is_worse_than_that_of_the_factor(seed):
    """Also if b is not in the range of a singular matrix."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    S = Q * np.r_[rng.uniform(0.5, 2, 16) * rng.choice([-1, 1], 16), np.zeros(4)] @ Q.T
    S, b = (S + S.T) / 2, rng.standard_normal(20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        K = ms.ildl(S, fill_level=None)
        own, (x, info) = K.solve(b), ms.sqmr(S, b, M=K)
        applied = K @ b
    assert not info.converged or info.relative_residual < 1e-8
    for answer in (own, applied):
        assert info.converged or np.linalg.norm(b - S @ x) <= 1.001 * np.linalg.norm(b - S @ answer)


@pytest.mark.parametrize("start", ["none", "zero", "near", "solution"])
def test_the_reported_residual_is_that_of_the_solution(start):
    """With an exact and a rough preconditioner, converged and ended early."""
    A, rng = ms.datasets.kkt(150, 60, seed=7), np.random.default_rng(5)
    solution = rng.standard_normal(210)
    b = A @ solution
    x0 = {"none": None, "zero": np.zeros(210), "near": solution + 1e-3 * rng.standard_normal(210), "solution": solution}[start]
    for level in (None, 0):
        for maxiter, converged in ((500, True), (1, start == "solution" or level is None)):
            with contextlib.nullcontext() if converged else pytest.warns(ms.ConvergenceWarning):
                x, info = ms.sqmr(A, b, M=ms.ildl(A, fill_level=level), x0=x0, rtol=1e-10, maxiter=maxiter)
            assert info.converged == converged
            assert info.relative_residual == pytest.approx(np.linalg.norm(b - A @ x) / np.linalg.norm(b), rel=1e-3, abs=1e-14)


def test_no_residual_is_computed_twice(monkeypatch):
    """The residual of zero is b; a sequence starts from the last computed residual; one is computed before convergence."""
    computed = []

    def residual(*args):
        computed.append(args[4].copy())
        return original(*args)

    original = _core.residual
    monkeypatch.setattr(_core, "residual", residual)
    A = ms.datasets.kkt(150, 60, seed=7)
    K, b = ms.ildl(A, fill_level=None), A @ np.arange(1.0, 211.0)
    x, info = ms.sqmr(A, b, M=K)
    assert info.iterations == 1 and len(computed) == 1
    ms.sqmr(A, b, M=K, x0=1.5 * x)
    assert len(computed) == 3


NULL = {"no M": lambda A: None, "complete M": lambda A: ms.ildl(A, fill_level=None), "M is 0": lambda A: sp.csr_array(A.shape),
        "M is tiny": lambda A: 1e-300 * np.eye(len(A)), "M is huge": lambda A: 1e300 * np.eye(len(A)),
        "M b is 0": lambda A: np.diag([1.0, 1.0, 0.0])}


@pytest.mark.filterwarnings("ignore")
@each("name, k", [(name, k) for name in NULL for k in (0, 1, 2)])
def test_null_vectors_have_no_direction(name, k):
    """b is a null vector of A, and M r or A M r is zero, or leaves the range of float64: x stays zero, and the reason is given."""
    A, b = np.diag([1.0, -1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    x, info = ms.sqmr(A, b if k == 0 else np.stack([b, A @ np.ones(3)], axis=1)[:, :k], M=NULL[name](A))
    assert not info.converged and "broke down" in np.ravel(info.reason)[0]
    assert np.abs(x.reshape(3, -1)[:, 0]).max() in (0, 1) and np.ravel(info.relative_residual)[0] == 1


@pytest.mark.filterwarnings("ignore")
def test_a_matrix_of_zeros():
    x, info = ms.sqmr(np.zeros((2, 2)), np.ones(2))
    assert not x.any() and not info.converged
    x, info = ms.solve(np.diag([1.0, -1.0, 0.0]), [0.0, 0.0, 1.0])
    assert not x.any() and not info.converged


@each("zeros", [1, 16, 17, 40])
def test_solve_says_that_a_matrix_is_singular(zeros):
    """Up to 16 null vectors get a least-squares solution; with more the cause is given."""
    A = sp.diags_array(np.r_[np.ones(30), -2.0, np.zeros(zeros)])
    with pytest.warns(ms.ConvergenceWarning, match=f"A is singular: {zeros} zero pivot"):
        x, info = ms.solve(A, np.ones(31 + zeros))
    assert not info.converged and info.singular and "A is singular" in info.reason


UNITS = (1e-300, 1e-200, 1e-120, 1.0, 1e120, 1e200, 1e300)


@each("solve", [ms.cg, ms.gmres, ms.sqmr, ms.solve])
@each("unit", UNITS)
def test_units_of_the_matrix(solve, unit):
    """Products r . A r leave the range of float64 without a scale: neither a false alarm nor another result than in the unit 1."""
    A = ms.datasets.grid2d(5, 5, boundary="dirichlet")
    b = A @ np.arange(1.0, 26.0)
    options = {} if solve is ms.solve else {"rtol": 1e-10, "M": None, "x0": np.full(25, 3.0)}
    x, info = solve(A, b, **options)
    for scale in (1.0, 1e-4, 1e4):
        if "x0" in options:
            options["x0"] = np.full(25, 3 * scale)
        y, other = solve(A * unit, b * unit * scale, **options)
        assert other.converged and np.allclose(y, np.arange(1, 26) * scale, rtol=1e-9) and np.max(abs(other.iterations - info.iterations)) <= 1
    M = ms.ildl(A * unit)
    if solve not in (ms.cg, ms.solve):
        y, other = solve(A * unit, b * unit, M=M)
        assert other.converged and np.allclose(y, np.arange(1, 26), rtol=1e-7)


@pytest.mark.filterwarnings("ignore")
@each("solve", [ms.cg, ms.gmres, ms.sqmr, ms.solve])
def test_solutions_that_underflow(solve):
    """x is 0 or has lost digits: not converged, with the true residual; exact tiny solutions are right."""
    A = ms.datasets.grid2d(4, 4, boundary="dirichlet")
    b = A @ np.arange(1.0, 17.0)
    x, info = solve(A * 1e100, b * 1e-299)
    assert not x.any() and not info.converged and info.relative_residual == 1 and "leaves the range" in info.reason
    x, info = solve(A * 1e100, b * 3e-223)                  # some digits
    assert not info.converged and 1e-6 < info.relative_residual < 1 and "leaves the range" in info.reason
    x, info = solve(np.diag([1.0, 2.0, 4.0]), [8e-320, 8e-320, 8e-320])
    assert info.converged and np.array_equal(x, np.array([8e-320, 8e-320, 8e-320]) / [1, 2, 4])
