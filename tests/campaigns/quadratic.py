"""Attacks on quadratic programs: with known minima, against linprog and all active sets, without a point, without a minimum."""

import itertools

import numpy as np
import scipy.optimize
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed

LONG = np.longdouble


@attack("Quadratic", "Quadratic.minimize", quick=40)
def known_minimum(rng):
    """Units, scales of rows and unknowns, repeated rows, ties, no curvature, huge and equal bounds. Oracle: a primal-dual solution."""
    n, p, m = int(rng.integers(1, 12)), int(rng.integers(0, 8)), int(rng.integers(0, 4))
    B = sparse_integers(rng, int(rng.integers(0, n + 1)), n)
    C, E = sparse_integers(rng, p, n), sparse_integers(rng, m, n)
    if p > 1 and rng.random() < 0.3:
        C[1] = C[0] * rng.integers(1, 3)
    if m > 1 and rng.random() < 0.3:
        E[1] = -2 * E[0]
    x = rng.integers(-3, 4, n).astype(float)
    lower, upper, z = bounds_around(rng, x)
    row_lower, row_upper, w = bounds_around(rng, C @ x)
    y = rng.integers(-3, 4, m).astype(float)
    A = B.T @ B
    b = A @ x - C.T @ w - E.T @ y - z
    value = 0.5 * x @ A @ x - b @ x
    d, c, e = (2.0 ** np.round(np.log2(axes.spread(rng, k, 6))) for k in (n, p, m))         # units of unknowns and rows
    f = 2.0 ** np.round(np.log2(axes.unit(rng, 1e100)))                                     # of the objective
    t = 2.0 ** np.round(np.log2(axes.unit(rng, 1e30)))                                      # of all x
    s = t / d                                                                               # x in its units is s x
    scaled = {"A": A * np.outer(d, d) * f, "b": b * d * f * t, "C": C * c[:, None] * d, "row_lower": row_lower * c * t,
              "row_upper": row_upper * c * t, "E": E * e[:, None] * d, "beq": E @ x * e * t, "lower": lower * s, "upper": upper * s, "unit": float(s.max())}
    with well_posed("a constructed minimum"):
        got, info = solved(rng, scaled)
    assert info.converged, f"{info.reason}, residual {info.kkt_residual}, certificate {info.certificate}"
    check(scaled, got, info)
    u = got / s
    found = 0.5 * u @ A @ u - b @ u
    size = abs(b) @ np.maximum(abs(x), 1) + abs(w).sum() + abs(z).sum() + 1
    assert abs(found - value) <= 1e-7 * size, f"value {found}, right {value}"


@attack("Quadratic.minimize", quick=30)
def linear_programs(rng):
    """Degenerate rows of small integers, free unknowns, infeasible and unbounded ones. Oracle: HiGHS."""
    n, p, m = (int(rng.integers(k, top)) for k, top in ((1, 9), (0, 9), (0, 4)))
    C, E = sparse_integers(rng, p, n), sparse_integers(rng, m, n)
    low = rng.choice([-np.inf, 0, 0, -2], n)
    high = np.where(rng.random(n) < 0.5, np.inf, np.maximum(low, 0) + rng.integers(0, 4, n))
    row_lower, row_upper = rng.choice([-np.inf, -np.inf, -3, 0], p), rng.choice([0, 1, 4, np.inf], p)
    beq, b = E @ rng.integers(0, 3, n) + (rng.random() < 0.1), rng.integers(-2, 3, n).astype(float)
    finite_low, finite_high = np.isfinite(row_lower), np.isfinite(row_upper)
    rows = {"A_ub": np.vstack([C[finite_high], -C[finite_low]]) if p else None,
            "b_ub": np.r_[row_upper[finite_high], -row_lower[finite_low]] if p else None, "A_eq": E if m else None,
            "b_eq": beq if m else None, "bounds": np.stack([low, high], 1)}
    right = scipy.optimize.linprog(-b, **rows)
    problem = {"A": np.zeros((n, n)), "b": b, "C": C, "row_lower": row_lower, "row_upper": row_upper, "E": E, "beq": beq, "lower": low,
               "upper": high}
    try:
        x, info = solved(rng, problem)
    except ms.NotPositiveDefiniteError as error:
        check_direction(problem, error.direction)
        if right.status == 2:                               # may be said of both
            right = scipy.optimize.linprog(0 * b, **rows)
        assert right.status != 2, f"HiGHS: {right.status} {right.message}"
        return
    if info.certificate is not None:
        check_certificate(problem, info.certificate)
        assert right.status in (2, 4) and not info.converged
        return
    assert info.converged and right.status == 0, f"{info.reason} {info.kkt_residual}, HiGHS: {right.status} {right.message}"
    check(problem, x, info)
    assert abs(-b @ x - right.fun) <= 1e-7 * (1 + abs(right.fun)), f"value {-b @ x}, HiGHS {right.fun}"


@attack("Quadratic.minimize", quick=10)
def all_active_sets(rng):
    """Strictly convex with bounds on both sides of x and of rows; ties. Oracle: the best of all active sets."""
    n, p = int(rng.integers(1, 4)), int(rng.integers(0, 3))
    B, C = rng.integers(-3, 4, (n, n)).astype(float), rng.integers(-2, 3, (p, n)).astype(float)
    A, b = B @ B.T + np.eye(n), rng.integers(-6, 7, n).astype(float)
    G = np.vstack([np.eye(n), C])
    lower, upper = -rng.integers(0, 3, n + p).astype(float), rng.integers(0, 3, n + p).astype(float)
    best = np.inf
    for sides in itertools.product((-1, 0, 1), repeat=n + p):
        at = np.array(sides) != 0
        if at.sum() > n:
            continue
        K = np.block([[A, G[at].T], [G[at], np.zeros((at.sum(), at.sum()))]])
        x = np.linalg.lstsq(K, np.r_[b, np.where(np.array(sides) < 0, lower, upper)[at]], rcond=None)[0][:n]
        if (G @ x >= lower - 1e-9).all() and (G @ x <= upper + 1e-9).all():
            best = min(best, 0.5 * x @ A @ x - b @ x)
    problem = {"A": A, "b": b, "C": C, "row_lower": lower[n:], "row_upper": upper[n:], "E": np.zeros((0, n)), "beq": np.zeros(0),
               "lower": lower[:n], "upper": upper[:n]}
    with well_posed("x = 0 satisfies all bounds"):
        x, info = solved(rng, problem)
    assert info.converged, info.reason
    check(problem, x, info)
    assert abs(0.5 * x @ A @ x - b @ x - best) <= 1e-8 * (1 + abs(best)), f"value {0.5 * x @ A @ x - b @ x}, right {best}"


@attack("Quadratic.minimize", quick=20)
def no_point(rng):
    """Rows that a known combination refutes, in units and scales. Oracle: the certificate in extended precision."""
    n, p = int(rng.integers(1, 8)), int(rng.integers(1, 7))
    C = sparse_integers(rng, p, n)
    weights = rng.integers(-2, 3, p).astype(float)
    weights[0] = 1
    x = rng.integers(-2, 3, n).astype(float)
    of_x = -(C.T @ weights)
    lower, upper = (np.where(of_x * sign > 0, x, sign * rng.choice([1.0, np.inf], n) + x) for sign in (-1, 1))
    row_lower, row_upper = (np.where(weights * sign > 0, C @ x, sign * rng.choice([2.0, np.inf], p) + C @ x) for sign in (-1, 1))
    row_upper[0] -= 0.5                                      # one row less than the combination of all others allows
    row_lower[0] = min(row_lower[0], row_upper[0])
    c, d = 2.0 ** np.round(np.log2(axes.spread(rng, p, 8))), 2.0 ** np.round(np.log2(axes.spread(rng, n, 6)))
    B = sparse_integers(rng, n, n)
    problem = {"A": B.T @ B * np.outer(d, d), "b": rng.integers(-2, 3, n) * d, "C": C * c[:, None] * d, "row_lower": row_lower * c,
               "row_upper": row_upper * c, "E": np.zeros((0, n)), "beq": np.zeros(0), "lower": lower / d, "upper": upper / d}
    with well_posed("no point"):
        _, info = solved(rng, problem)
    assert not info.converged and info.certificate is not None, f"residual {info.kkt_residual}, {info.reason}"
    check_certificate(problem, info.certificate)


@attack("Quadratic.minimize", quick=20)
def no_minimum(rng):
    """A direction without curvature that bounds, rows and equalities leave open, in units. Oracle: the direction."""
    n, p, m = int(rng.integers(1, 8)), int(rng.integers(0, 5)), int(rng.integers(0, 3))
    d = rng.integers(-1, 2, n).astype(float)
    d[0] = 1
    def across(rows):
        return sparse_integers(rng, rows, n) @ (np.dot(d, d) * np.eye(n) - np.outer(d, d))
    B, E, C = across(n), across(m), sparse_integers(rng, p, n)
    b = rng.integers(-2, 3, n).astype(float)
    b += (1 - b @ d) * d / (d @ d) if b @ d <= 0 else 0
    x = rng.integers(-2, 3, n).astype(float)
    lower, upper = (np.where(d * sign > 0, sign * np.inf, sign * rng.choice([1.0, np.inf], n) + x) for sign in (-1, 1))
    row_lower, row_upper = (np.where((C @ d) * sign > 0, sign * np.inf, sign + C @ x) for sign in (-1, 1))
    f, t = (2.0 ** np.round(np.log2(axes.unit(rng, 1e100))) for _ in range(2))
    problem = {"A": B.T @ B * f, "b": b * f * t, "C": C, "row_lower": row_lower * t, "row_upper": row_upper * t, "E": E, "beq": E @ x * t,
               "lower": lower * t, "upper": upper * t}
    try:
        x, info = solved(rng, problem)
    except ms.NotPositiveDefiniteError as error:
        check_direction(problem, error.direction)
        return
    raise AssertionError(f"x = {x}, converged {info.converged}, {info.reason}, certificate {info.certificate}")


def sparse_integers(rng, rows, columns):
    return np.where(rng.random((rows, columns)) < min(1, 3 / max(columns, 1)), rng.integers(-3, 4, (rows, columns)), 0).astype(float)


def bounds_around(rng, x):
    """(lower, upper, multipliers) with x at some of the bounds; multipliers are 0 at some of those (ties)."""
    n = len(x)
    side = rng.choice([-1, 0, 0, 1, 2], n)                   # 2: equal bounds
    far = rng.choice([1.0, 3.0, 1e6, 1e200, np.inf], (2, n))
    lower, upper = np.where((side == -1) | (side == 2), x, x - far[0]), np.where((side == 1) | (side == 2), x, x + far[1])
    sizes = rng.integers(0, 4, n)
    z = np.where(side == -1, sizes, np.where(side == 1, -sizes, np.where(side == 2, sizes - 1.5, 0)))
    return lower, upper, z


def solved(rng, problem):
    g = problem
    C = g["C"] if rng.random() < 0.5 else sp.csr_array(g["C"])
    quadratic = ms.Quadratic(axes.layout(rng, g["A"]), Aeq=g["E"] if len(g["E"]) or rng.random() < 0.5 else None, C=C)
    return quadratic.minimize(g["b"], beq=g["beq"], lower=g["lower"], upper=g["upper"], row_lower=g["row_lower"], row_upper=g["row_upper"])


def check(g, x, info, tol=1e-8):
    """The conditions of optimality in extended precision; each row relative to its own summands or to 1e-5 of the largest of x."""
    A, C, E = (np.asarray(g[k], LONG) for k in ("A", "C", "E"))
    assert (x >= g["lower"]).all() and (x <= g["upper"]).all(), "x is outside its bounds"
    for M, low, high, y, name in ((C, g["row_lower"], g["row_upper"], info.row_multipliers, "row"), (E, g["beq"], g["beq"], None, "equality")):
        v, size = M @ x, abs(M) @ abs(x)
        outside = np.maximum(np.maximum(low - v, v - high), 0)
        near = np.where(low - v > v - high, low, high)
        size = np.maximum(size, np.where(np.isfinite(near), abs(near), 0)) + 1e-4 * abs(M).max(axis=1, initial=0) * largest(g, x)
        assert (outside <= tol * size).all(), f"{name} {(outside / size).argmax()} is violated by {outside.max()}"
        if y is not None:
            assert not ((y > 0) & ~np.isfinite(low) | (y < 0) & ~np.isfinite(high)).any(), f"sign of a multiplier of a {name}"
    w, y, z = (np.asarray(v, LONG) for v in (info.row_multipliers, info.multipliers, info.bound_multipliers))
    left = A @ x - np.asarray(g["b"], LONG) - C.T @ w - E.T @ y - z
    size = abs(A) @ abs(x) + abs(g["b"]) + abs(C.T) @ abs(w) + abs(E.T) @ abs(y) + abs(z)
    share = np.maximum(np.asarray(abs(g["A"]).max(axis=1)), 0)
    assert (abs(left) <= tol * size + 1e-12 * share * largest(g, x) + 1e-12 * size.max(initial=0)).all(), f"gradient {left}"


def largest(g, x):
    """Size of x, or of x without bounds, where bounds force x to 0."""
    return max(abs(x).max(initial=0), g.get("unit", 1.0))


def check_certificate(g, proof, tol=1e-8):
    rows, equal, bounds = (np.asarray(v, LONG) for v in (proof.rows, proof.equalities, proof.bounds))
    C, E = np.asarray(g["C"], LONG), np.asarray(g["E"], LONG)
    left, size = C.T @ rows + E.T @ equal + bounds, abs(C.T) @ abs(rows) + abs(E.T) @ abs(equal) + abs(bounds)
    assert (abs(left) <= tol * size).all(), f"the combination is not 0: {left}"
    weights, low, high = np.r_[rows, equal, bounds], np.r_[g["row_lower"], g["beq"], g["lower"]], np.r_[g["row_upper"], g["beq"], g["upper"]]
    at = np.where(weights > 0, high, low)[weights != 0]
    total = (weights[weights != 0] * at).sum()
    assert np.isfinite(at).all() and total < 0 and np.isclose(float(total), proof.support, rtol=1e-6), f"support {total}, {proof.support}"


def check_direction(g, d, tol=1e-8):
    assert d is not None and np.isfinite(d).all() and d.shape == g["b"].shape and d @ g["b"] > 0, f"direction {d}"
    A, C, E = (np.asarray(g[k], LONG) for k in ("A", "C", "E"))
    assert not ((d < 0) & np.isfinite(g["lower"]) & (g["lower"] > -1e20) | (d > 0) & np.isfinite(g["upper"]) & (g["upper"] < 1e20)).any()
    for M, low, high in ((A, 0, 0), (E, 0, 0), (C, g["row_lower"], g["row_upper"])):
        v, size = M @ d, abs(M) @ abs(d)
        assert (np.where(np.isfinite(low), v >= -tol * size, True) & np.where(np.isfinite(high), v <= tol * size, True)).all()
