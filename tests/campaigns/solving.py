"""Attacks on the calls that choose a method by themselves."""

import warnings

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


def problem(rng):
    """(B, row units r, column units c, x): A = r B c has the solution x / c, all of small integers and powers of two."""
    n = max(axes.size(rng), 1)
    kind = int(rng.integers(4))
    if kind == 0:
        B = axes.definite(rng, n)
    elif kind == 1:
        B, inertia = axes.symmetric(rng, n)
        if inertia[2]:
            B = B + 0.0 * B + np.diag((abs(B).sum(axis=1) == 0) * 1.0)
    elif kind == 2:
        B = axes.general(rng, n)
    else:
        B = axes.general(rng, n) * rng.choice([1, 1j])
    r = axes.powers(rng, n, 8)
    c = r if kind < 2 else axes.powers(rng, n, 8)
    u = 2.0 ** rng.integers(-150, 150)
    return B, u * r, c, rng.integers(-4, 5, n).astype(float)


@attack("solve", "factorized", "spsolve", quick=60)
def one_system(rng):
    """Definite, indefinite, singular, unsymmetric and complex systems, scaled rows. Oracle: exact solutions and residuals in long double."""
    B, r, c, x = problem(rng)
    singular = np.linalg.matrix_rank(B) < len(B)
    A = B * r[:, None] * c
    b = A @ (x / c)
    kappa = np.linalg.cond(B)
    rounding = np.finfo(float).eps * np.linalg.norm(abs(A) @ abs(x / c)) / max(np.linalg.norm(b), np.finfo(float).tiny)
    is_hard = singular or kappa > 1e9 or rounding > 1e-12   # of an exact solution that is rounded
    how = int(rng.integers(3))
    try:
        if how == 0:
            y, info = ms.solve(axes.layout(rng, A), b)
            right = bool(info.converged)
        elif how == 1:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ms.MeshsolveWarning)
                y, right = ms.spsolve(axes.layout(rng, A), b), True
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("error", ms.MeshsolveWarning)
                y, right = ms.factorized(axes.layout(rng, A)).solve(b), True
    except (ms.SingularMatrixError, ms.MeshsolveWarning) as e:
        assert is_hard, f"false alarm for a condition of {kappa:.2g}: {e}"
        return
    assert right or is_hard, f"not converged for a condition of {kappa:.2g}: {info.reason}"
    if right:
        assert np.isfinite(y).all(), "called right with numbers that are not finite"
        residual = axes.backward_error(B, y * c, b / r)
        assert residual < 1e-6, f"called right with a backward error of {residual:.2g}"
        if not singular and kappa < 1e8:
            assert abs(y * c - x).max() <= 1e-12 * kappa * max(abs(x).max(), 1), f"error {abs(y * c - x).max():.2g} with a condition of {kappa:.2g}"


@attack("solve")
def fixed_rows(rng):
    """Any share of rows prescribed, no free row, one free row. Oracle: dense LAPACK on the free block."""
    n = max(axes.size(rng), 1)
    B = axes.definite(rng, n)
    fixed = rng.permutation(n)[:int(rng.integers(1, max(n, 2)))]
    free = np.setdiff1d(np.arange(n), fixed)
    values = rng.integers(-3, 4, len(fixed)).astype(float)
    b = rng.integers(-4, 5, n).astype(float)
    y, info = ms.solve(axes.layout(rng, B), b, fixed=fixed, fixed_values=values)
    x = np.zeros(n)
    x[fixed] = values
    if len(free):
        x[free] = np.linalg.solve(B[np.ix_(free, free)], b[free] - B[np.ix_(free, fixed)] @ values)
    assert info.converged and abs(y - x).max() <= 1e-12 * np.linalg.cond(B) * max(abs(x).max(), 1), f"error {abs(y - x).max()}"


@attack("solve")
def singular_laplacians(rng):
    """Laplacians of several components with exact row sums; b inside the range or not. Oracle: sums over components, residuals."""
    n = max(axes.size(rng), 1)
    A = axes.laplacian(rng, n, int(rng.integers(1, 4)), float(rng.choice([0, 4, 10])))
    groups = sp.csgraph.connected_components(sp.csr_array(A))[1]
    b = A @ rng.integers(-4, 5, n).astype(float)
    outside = rng.random() < 0.3
    if outside:
        b[rng.integers(n)] += max(abs(b).max(), 1)
    y, info = ms.solve(sp.csr_array(A), b)
    if info.converged:
        means = np.bincount(groups, b) / np.bincount(groups)
        residual = axes.backward_error(A, y, b - means[groups])
        assert not outside, "converged although the components of b do not sum to zero"
        assert residual < 1e-3, f"converged with a backward error of {residual:.2g}"


@attack("scipy_solver", quick=15)
def inside_scipy(rng):
    """scipy's own calls inside the context. Oracle: scipy outside of it."""
    B, r, c, x = problem(rng)
    if np.linalg.cond(B) > 1e8:
        return
    A = sp.csc_array(B * (r / r.max() if rng.random() < 0.5 else 1) if not np.iscomplexobj(B) else B)
    if sp.linalg.norm(A) == 0 or np.linalg.cond(A.toarray()) > 1e10:
        return
    b = A @ x
    with well_posed("a system that scipy solves"), ms.scipy_solver():
        y, f = spla.spsolve(A, b), spla.factorized(A)
        z, lu = f(b), spla.splu(A)
    right = spla.spsolve(A, b)
    kappa = np.linalg.cond(A.toarray())
    for name, v in (("spsolve", y), ("factorized", z), ("splu", lu.solve(b))):
        assert abs(v - right).max() <= 1e-12 * kappa * max(abs(right).max(), 1), f"{name}: error {abs(v - right).max():.2g}, condition {kappa:.2g}"
