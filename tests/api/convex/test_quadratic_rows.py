"""Quadratic programs with rows: known minima, degenerate and badly scaled ones, proofs that there is no point or no minimum."""

import pickle
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from campaigns.quadratic import check, check_certificate, check_direction
from cases import each

import meshsolve as ms


def problem(A, b, C=None, row_lower=-np.inf, row_upper=np.inf, E=None, beq=0.0, lower=-np.inf, upper=np.inf):
    n = len(b)
    C, E = (np.zeros((0, n)) if M is None else np.atleast_2d(np.asarray(M, float)) for M in (C, E))
    def full(x, k):
        return np.broadcast_to(np.asarray(x, float), k).copy()
    return {"A": np.asarray(A, float), "b": np.asarray(b, float), "C": C, "row_lower": full(row_lower, len(C)), "E": E,
            "row_upper": full(row_upper, len(C)), "beq": full(beq, len(E)), "lower": full(lower, n), "upper": full(upper, n)}


def minimized(g):
    Q = ms.Quadratic(g["A"], Aeq=g["E"], C=sp.csr_array(g["C"]))
    return Q.minimize(g["b"], beq=g["beq"], lower=g["lower"], upper=g["upper"], row_lower=g["row_lower"], row_upper=g["row_upper"])


def right(g, value=None):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x, info = minimized(g)
    assert info.converged and info.kkt_residual <= 1e-9 and info.gap <= 1e-9
    check(g, x, info)
    if value is not None:
        assert 0.5 * x @ g["A"] @ x - g["b"] @ x == pytest.approx(value, rel=1e-7, abs=1e-7)
    return x, info


def hock_schittkowski_118():
    rows = np.zeros((17, 15))
    low, high = np.full(17, -7.0), np.tile([6.0, 7, 6], 5)[:12].tolist() + [np.inf] * 5
    for k in range(12):
        rows[k, k + 3], rows[k, k] = 1, -1
    for k in range(5):
        rows[12 + k, 3 * k:3 * k + 3] = 1
    low[12:] = 60, 50, 70, 85, 100
    return problem(np.diag(np.tile([2e-4, 2e-4, 3e-4], 5)), -np.tile([2.3, 1.7, 2.2], 5), rows, low, high,
                   lower=np.r_[8, 43, 3, np.zeros(12)], upper=np.r_[21, 57, 16, np.tile([90, 120, 60], 4)])


@each("g, value", [
    (problem([[4, 1], [1, 2]], [-1, -1], [[1, 1], [1, 0], [0, 1]], [1, 0, 0], [1, 0.7, 0.7]), 1.88),                # OSQP's demo
    (problem([[11, 0], [0, 0]], [-3, -4], [[-1, 0], [0, -1], [-1, -3], [2, 5], [3, 4]], -1e6, [0, 0, -15, 100, 80]), 20.0),
    (problem(np.diag([2e-2, 2]), [0, 0], [[10, -1]], 10, lower=[2, -50], upper=50), 0.04),                          # 21, without 100
    (problem([[4, 2, 2], [2, 4, 0], [2, 0, 2]], [8, 6, 4], [[-1, -1, -2]], -3, lower=0), 1 / 9 - 9),                # 35
    (problem(2 * np.outer([1, -1, 0, 0, 0], [1, -1, 0, 0, 0]) + 2 * np.outer([0, 1, 1, 0, 0], [0, 1, 1, 0, 0]) + np.diag([0, 0, 0, 2, 2]),
             [0, 4, 4, 2, 2], E=[[1, 3, 0, 0, 0], [0, 0, 1, 1, -2], [0, 1, 0, 0, -1]], beq=[4, 0, 0]), -6.0),       # 51
    (problem([[2, 0, -1, 0], [0, 1, 0, 0], [-1, 0, 2, 1], [0, 0, 1, 1]], [1, 3, -1, 1],
             [[-1, -2, -1, -1], [-3, -1, -2, 1], [0, 1, 4, 0]], [-5, -4, 1.5], lower=0), -4.681818181818),          # 76
    (problem(np.zeros((2, 2)), [3, 2], [[1, 1], [1, 3], [2, 2]], row_upper=[4, 6, 8], lower=0), -12.0),
    (hock_schittkowski_118(), 664.82045)])
def test_known_minima(g, value):
    right(g, value)


def assignment(n):
    """Costs of a doubly stochastic matrix with all its 2 n sums: dependent equalities, and a minimum at a degenerate corner."""
    cost = np.add.outer(np.arange(n), np.arange(n)) % n + np.random.default_rng(n).uniform(0, 0.1, (n, n))
    return problem(np.zeros((n * n, n * n)), -cost.ravel(), E=np.vstack((np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n)))),
                   beq=1.0, lower=0, upper=1)


def many_rows():
    """400 rows in 5 unknowns, nearly parallel in groups: x^T x with sums above a curve (as KSIP)."""
    t = np.linspace(0, 1, 400)[:, None] ** np.arange(5)
    return problem(np.eye(5), np.zeros(5), t, np.tan(t[:, 1]))


def nearly_flat(seed):
    """Rank 2 in 30 unknowns, one equality, bounds (portfolios, as PRIMAL and DUAL), with huge upper bounds."""
    B = np.random.default_rng(seed).standard_normal((2, 30))
    return problem(B.T @ B, 0.1 * B[0], E=np.ones((1, 30)), beq=1.0, lower=0, upper=np.where(np.arange(30) % 2, 1.0, 1e30))


def neighbors(n):
    """x_i + x_(i+1) + ... with dependent rows, as CVXQP."""
    rng = np.random.default_rng(n)
    B, C = (sp.random_array((m, n), density=3 / n, rng=rng).toarray() for m in (n, n // 2))
    return problem(B.T @ B, rng.standard_normal(n), np.vstack((C, C[:5])), -1, 1, lower=0.1, upper=10)


def badly_scaled():
    rng = np.random.default_rng(7)
    C, x = rng.integers(-2, 3, (8, 6)).astype(float), rng.integers(-2, 3, 6)
    d, c = 10.0 ** np.array([-6, 4, 0, 3, -2, 5]), 10.0 ** np.array([8, -8, 0, 3, -3, 6, 1, -9])
    return problem(np.diag(d**2), d, C * c[:, None] * d, (C @ x - 1) * c, (C @ x + 1) * c, lower=-9 / d, upper=9 / d)


@each("g", [assignment(4), assignment(7), many_rows(), nearly_flat(1), nearly_flat(2), neighbors(40), badly_scaled()])
def test_structures_of_hard_problems(g):
    x, _ = right(g)
    scipy = pytest.importorskip("scipy.optimize")
    if not g["A"].any():
        best = scipy.linprog(-g["b"], A_eq=g["E"], b_eq=g["beq"], bounds=(0, 1)).fun
        assert -g["b"] @ x == pytest.approx(best, rel=1e-8)


@each("unit", [1e-300, 1e-100, 1e-9, 1.0, 1e9, 1e100, 1e300])
def test_units(unit):
    """Of the objective, of x, and of one row of two."""
    A, b, C = np.array([[4.0, 1], [1, 2]]), np.array([-1.0, -1]), np.array([[1.0, 1], [1, 0]])
    for objective, x_unit, row in ((unit, 1.0, 1.0), (1.0, unit, 1.0), (1.0, 1.0, unit)):
        r = np.array([1.0, row])
        x, info = ms.Quadratic(A * objective, C=C * r[:, None]).minimize(b * objective * x_unit, row_lower=r * [1, 0] * x_unit,
                                                                         row_upper=r * [1, 0.2] * x_unit)
        assert info.converged and np.allclose(x / x_unit, [0.2, 0.8], rtol=1e-8)


def test_multipliers_of_rows_that_are_bounds():
    """A row with one entry acts as a bound; its multiplier is that of the row, not of x. Exact ties of both go to x or the row."""
    x, info = ms.Quadratic(np.eye(3), C=[[-2.0, 0, 0], [0, 1, 0]]).minimize([3, 3, 3], row_lower=[-2, -np.inf], row_upper=[np.inf, 5],
                                                                            lower=-1, upper=[7, 2, 9])
    assert x.tolist() == [1, 2, 3] and info.active.tolist() == [0, 1, 0]
    assert np.allclose(info.row_multipliers, [1, 0]) and np.allclose(info.bound_multipliers, [0, -1, 0])


@each("C, given, kept", [(np.zeros((0, 2)), {}, (0,)), (None, {}, (0,)), (np.ones((2, 2)), {}, (2,)),
                         (np.zeros((1, 2)), {"row_lower": -1.0, "row_upper": 0.0}, (1,)),
                         (np.ones((1, 2)), {"row_lower": -1e300, "row_upper": 1e300}, (1,))])
def test_rows_that_bound_nothing(C, given, kept):
    x, info = ms.Quadratic(np.eye(2), C=C).minimize([1.0, 2.0], **given)
    assert np.allclose(x, [1, 2]) and info.row_multipliers.shape == kept and info.converged
    assert info.ignored_bounds == (2 if len(given) and given["row_lower"] < -1e200 else 0)


@each("g", [
    problem(np.eye(2), [0, 0], [[1, 1]], row_upper=-1, lower=0), problem(np.eye(2), [1, 1], [[1, 1], [1, 1]], [-np.inf, 2], [1, np.inf]),
    problem(np.zeros((2, 2)), [1, 1], E=[[1, 1], [2, 2]], beq=[1, 2.001]), problem(np.eye(2), [1, 1], [[0, 0]], 1),
    problem(np.zeros((1, 1)), [1], [[1]], 2, lower=0, upper=1), problem(np.eye(2), [1, 1], [[1e9, 1e9]], row_upper=-1e9, lower=0),
    problem(np.diag([1, 0]), [1, 1], [[0, 1], [1, 0]], [-1, 3], lower=0, upper=[2, np.inf]),
    problem(np.eye(2), [1, 1], [[1, 1]], row_upper=2, lower=[1, 2], upper=[1, 2])])
def test_no_point(g):
    """The certificate is checked in extended precision."""
    with pytest.warns(ms.ConvergenceWarning, match="no point"):
        x, info = minimized(g)
    assert not info.converged and np.isfinite(x).all() and "certificate" in info.reason
    check_certificate(g, info.certificate)


def test_a_certificate_weighs_fixed_rows():
    Q = ms.Quadratic(np.eye(3), fixed=[1], C=[[1.0, 2, 0]])
    with pytest.warns(ms.ConvergenceWarning):
        _, info = Q.minimize(np.zeros((3, 2)), fixed_values=[[3, 0]], lower=0, row_upper=2)
    proof, none = info.certificate
    assert none is None and not info.converged and np.allclose(proof.rows @ [[1, 2, 0]] + proof.bounds, 0)
    assert proof.support == pytest.approx(2 * proof.rows[0] + 3 * proof.bounds[1]) and proof.support < 0


@each("g", [
    problem(np.diag([1, 0]), [1, 1], lower=0), problem(np.diag([1, 0]), [1, 1e-30], lower=0), problem(np.zeros((2, 2)), [2, 1], lower=0),
    problem(np.diag([1, 0, 0]), [1, 1, 1], E=[[0, 1, -1]]), problem(np.diag([1, 0, 0]), [1, 1, 1], [[0, 1, -1]], row_upper=0),
    problem(np.ones((2, 2)), [1, 2], lower=[-np.inf, 0]), problem([[1, -1], [-1, 1]], [1, 1]), problem([[0]], [1], lower=-1),
    problem(np.diag([1, 1, 1, 0]), np.ones(4), lower=0)])
def test_no_minimum(g):
    """The direction is checked in extended precision."""
    with pytest.raises(ms.NotPositiveDefiniteError, match="no minimum") as caught:
        minimized(g)
    check_direction(g, caught.value.direction)
    assert abs(caught.value.direction).max() == 1


def test_far_bounds_are_said():
    with pytest.raises(ms.NotPositiveDefiniteError, match="1 bound beyond 1e20"):
        ms.Quadratic(np.diag([1.0, 0])).minimize([1.0, 1.0], lower=0, upper=[1, 1e200])
    x, info = ms.Quadratic(np.eye(2)).minimize([1.0, 1.0], lower=-1e200, upper=[0.5, 1e25])
    assert np.allclose(x, [0.5, 1]) and info.ignored_bounds == 3
    x, info = ms.Quadratic(np.zeros((2, 2))).minimize([1.0, -1.0], lower=-1e200, upper=1e200)              # the only size of x
    assert x.tolist() == [1e200, -1e200] and info.ignored_bounds == 0


@each("A, b, options", [(np.diag([1.0, -1]), [0, 0], {}), (np.array([[0, 1.0], [1, 0]]), [0, 0], {}),
                        (np.array([[1, 2.0], [2, 1]]), [1, 1], {}), (np.diag([1.0, -1e-6]), [0, 0], {})])
def test_functions_that_are_not_convex(A, b, options):
    """Bounds on both sides do not help: a stationary point need not be a minimum."""
    with pytest.raises(ms.NotPositiveDefiniteError, match="positive semidefinite") as caught:
        ms.Quadratic(A).minimize(b, lower=0, upper=1)
    assert caught.value.column in (0, 1) and caught.value.direction is None


def test_a_function_that_is_convex_on_its_equalities():
    x, info = ms.Quadratic([[1.0, 3, 0], [3, 1, 0], [0, 0, 1]], Aeq=[[1, -1, 0]]).minimize([1, 1, 1], lower=0, upper=1)
    assert info.converged and np.allclose(x, [0.25, 0.25, 1])
    with pytest.raises(ms.NotPositiveDefiniteError, match="null space"):
        ms.Quadratic([[1.0, 3, 0], [3, 1, 0], [0, 0, 1]], Aeq=[[1, 1, 0]]).minimize([1, 1, 1], lower=0, upper=1)


def test_a_singular_matrix_without_bounds():
    """A Laplacian has a minimum if b is in its range, and else falls along the constants."""
    L = ms.datasets.grid2d(6, 5)
    b = np.arange(30.0) - 14.5
    x, info = ms.Quadratic(L).minimize(b)
    assert info.converged and np.allclose(L @ x, b) and abs(x).max() < 1e3
    with pytest.raises(ms.NotPositiveDefiniteError) as caught:
        ms.Quadratic(L).minimize(b + 0.01)
    assert np.allclose(caught.value.direction, 1)


def test_calls_share_the_analysis_and_the_factor():
    """Pickles and threads, which take turns."""
    g = neighbors(40)
    Q = ms.Quadratic(g["A"], C=g["C"])
    def run(Q, sign):
        return Q.minimize(sign * g["b"], lower=0.1, upper=10, row_lower=-1, row_upper=1)[0]
    first, second = run(Q, 1), run(Q, -1)
    assert np.array_equal(run(pickle.loads(pickle.dumps(Q)), 1), first) and np.array_equal(run(Q, 1), first)
    found = {}
    threads = [threading.Thread(target=lambda k=k: found.update({k: run(Q, 1 - 2 * (k % 2))})) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert all(np.array_equal(found[k], second if k % 2 else first) for k in range(4))
    plain = ms.Quadratic(np.eye(3))
    assert [plain.minimize(np.ones(3))[1].iterations for _ in range(2)] == [1, 0]


def test_threads_change_no_bit():
    g = neighbors(60)
    x, y = (ms.Quadratic(g["A"], C=g["C"], threads=k).minimize(g["b"], lower=0.1, upper=10, row_lower=-1, row_upper=1)[0] for k in (1, 2))
    assert np.array_equal(x, y)
