"""Attacks on the iterations: conjugate gradients, GMRES, SQMR, and solve, which chooses."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed


@attack("cg", "gmres", "sqmr", "solve", "spsolve", quick=60)
def singular(rng):
    """Symmetric matrices of small integers, singular or not, in units 1e-300 to 1e300; b in the range, a null vector, or neither; exact
    ties r . M r = 0; preconditioners of zeros. Oracle: residuals in long double, the spectrum from LAPACK."""
    n = max(axes.size(rng, 12), 1)
    A = rng.integers(-1, 2, (n, n)).astype(float)
    how = rng.integers(4)
    A = [A + A.T, A @ A.T, np.diag(rng.choice([1.0, -1.0, 0.0], n)), laplacian(A)][how]
    w, V = np.linalg.eigh(A)
    null = V[:, abs(w) < 1e-9]
    b = [A @ rng.integers(-3, 4, n), null @ rng.integers(-2, 3, null.shape[1]), rng.integers(-3, 4, n).astype(float)][rng.integers(3)]
    u, v = axes.unit(rng), axes.unit(rng)
    M = preconditioner(rng, A)
    name = str(rng.choice(["cg", "gmres", "sqmr", "solve"]))
    options = {} if name == "solve" else {"M": M, "maxiter": 50}
    B = np.stack([b, A @ np.ones(n), b], axis=1)[:, :rng.integers(1, 4)] if rng.random() < 0.4 else b
    x, info = getattr(ms, name)(axes.layout(rng, A * u), B * v, **options)
    require_truth(A * u, B * v, x, info)


def laplacian(A):
    W = np.abs(np.triu(A, 1))
    W += W.T
    return np.diag(W.sum(axis=1)) - W


def preconditioner(rng, A):
    n = len(A)
    how = rng.integers(6)
    if how == 1:
        return np.zeros((n, n))
    if how == 2:
        return np.diag(rng.choice([0.0, 1.0, 2.0], n)) * axes.unit(rng)
    if how == 3:
        return np.linalg.pinv(A)
    if how == 4:
        return ms.ildl(A, fill_level=None)
    return None


def require_truth(A, b, x, info, rtol=1e-8):
    """The reported residual is the true one, and what is called converged has it small."""
    A, b, x = np.asarray(A, np.longdouble), np.asarray(b, np.longdouble).reshape(len(b), -1), np.asarray(x, np.longdouble).reshape(len(b), -1)
    said = np.atleast_1d(info.relative_residual)
    assert np.isfinite(np.asarray(said[np.atleast_1d(info.reason) == "converged"], float)).all()
    if info.converged:
        assert np.isfinite(x).all(), "converged, but x is not finite"
    for c in range(b.shape[1]):
        if not np.isfinite(x[:, c]).all():
            continue
        size = np.sqrt((b[:, c] ** 2).sum())
        r = b[:, c] - A @ x[:, c]
        true = float(np.sqrt((r ** 2).sum()) / (size if size else 1))
        given = said[c] if len(said) == b.shape[1] else said.max()
        rounding = float(np.sqrt(((abs(A) @ abs(x[:, c])) ** 2).sum()) / (size if size else 1)) * 1e-14
        if info.converged and size:
            assert true <= 1.01 * rtol + rounding, f"converged with a relative residual of {true}"
        if size and len(said) == b.shape[1] and true > 1e-10:
            assert abs(true - given) <= 0.01 * true + 1e-10 + rounding, f"column {c}: relative residual {true}, reported {given}"


@attack("cg", "gmres", "sqmr", quick=40)
def definite(rng):
    """Positive definite systems with rows of other scales, units 1e-300 to 1e300, starts x0 far away, blocks with columns of zeros. Oracle:
    the solution is of small integers."""
    n = max(axes.size(rng, 30), 1)
    G = np.where(rng.random((n, n)) < 2 / n, rng.integers(-2, 3, (n, n)), 0)
    A, x = G @ G.T + n * np.eye(n), rng.integers(-3, 4, (n, 2)).astype(float)
    x[:, 1] *= rng.integers(2)
    u, v = axes.unit(rng, 1e160), axes.unit(rng, 1e140)
    name = str(rng.choice(["cg", "gmres", "sqmr"]))
    B = (A @ x) * u * v
    x0 = rng.choice([0.0, 1.0, 1e10]) * rng.standard_normal(x.shape) * v if rng.random() < 0.5 else None
    with well_posed(f"{name} of a definite matrix of condition {np.linalg.cond(A):.3g} in the units {u:g}, {v:g}"):
        y, info = getattr(ms, name)(axes.layout(rng, A * u), B, x0=x0, rtol=1e-10)
    require_truth(A * u, B, y, info, 1e-10)
    assert info.converged, f"{name}: {info.reason}"
    assert abs(y - x * v).max() <= 1e-8 * np.linalg.cond(A) * v * max(abs(x).max(), 1)


@attack("cg", "gmres", "sqmr", quick=20)
def operators(rng):
    """LinearOperators, and wrong ones: results of another shape or dtype, NaN. Oracle: the same matrix with entries."""
    n = max(axes.size(rng, 20), 1)
    A = rng.integers(-2, 3, (n, n))
    A = A @ A.T + np.eye(n)
    how = rng.integers(5)
    product = [lambda x: A @ x, lambda x: A.astype(np.float32) @ x, lambda x: (A @ x)[:, None], lambda x: A @ x * np.nan, lambda x: (A @ x)[:-1]][how]
    name = str(rng.choice(["cg", "gmres", "sqmr"]))
    b = A @ rng.integers(-3, 4, n)
    x, info = getattr(ms, name)(sp.linalg.LinearOperator((n, n), matvec=product, dtype=float), b)
    assert how not in (3,) or not b.any(), "a product that is NaN was taken"
    require_truth(A, b, x, info)
