"""Iterative refinement in the precision of the factor, stopped by the backward error.

Source: Skeel 1980, "Iterative refinement implies numerical stability for Gaussian elimination".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.factor.base import irregular


class Refined(NamedTuple):
    """A solution, its backward error, and the corrections it took."""

    x: np.ndarray
    error: float
    steps: int


def residual(A, transposed, x, b):
    """``b - A x`` (or with A^T), and ||b - A x|| / (||A|| ||x|| + ||b||) in infinity norms, worst column; infinite for NaN.

    Parameters
    ----------
    A : Csr
    transposed : bool
    x, b : (n, k) arrays of A's dtype

    Returns
    -------
    r : (n, k)
    error : float
    """
    r = np.empty_like(x)
    return r, _core.lu_residual(A.indptr, A.indices, A.data, transposed, x, b, r)


def backward_error(norm, r, x, b):
    """The twin of what :func:`residual` tells, from ||A|| and the (k,) sizes of r, x and b: neither ||A|| ||x|| nor ||x|| / ||r||
    has to be in the range of float64."""
    with np.errstate(all="ignore"):
        (m, power), (mx, power_x), (mr, power_r) = (np.frexp(size) for size in (min(norm, np.finfo(float).max), x, r))
        error = np.where(r == 0, 0.0, 1 / (np.ldexp(m * mx / mr, power + power_x - power_r) + b / r))
    return float(np.where(np.isfinite(r) & np.isfinite(x), error, np.inf).max(initial=0.0))


def flat(scale):
    """A solution with scaled entries of either sign between 1/2 and 1, as (n, 1)."""
    return (scale * irregular(len(scale)))[:, None]


def by_rows(measure, size, x):
    """``measure`` with the backward error of each row beside its own size, so that a large row does not hide the others.

    Parameters
    ----------
    measure : callable of (x, b)
        What :func:`residual` gives, where the arrays lie.
    size, x : (n, 1) arrays
        |A| |x|, and the solution.
    """
    def of(now, b):
        r, _ = measure(now, b)
        with np.errstate(all="ignore"):
            error = float(abs(r / size).max()) / (1 + float(abs(now / x).max()))
        return r, error if np.isfinite(error) else np.inf

    return of


def beside_rows(measure, size):
    """``measure`` with the componentwise backward error: each row of the residual beside its row of ``size``, |A| |x| + |b|."""
    def of(now, b):
        r, _ = measure(now, b)
        with np.errstate(all="ignore"):
            error = float((abs(r) / (size + (size == 0))).max())
        return r, error if np.isfinite(error) else np.inf

    return of


def refine(residual, b, x, solve, enough, target, most):
    """Correct x, where its backward error is above ``enough``, by ``solve(b - A x)`` until it is at most ``target`` or no longer
    halves.

    Parameters
    ----------
    residual : callable of (x, b)
        What :func:`residual` gives, where the arrays lie.
    b, x : (n, k) arrays of A's dtype
    solve : callable of an (n, k) array
    enough, target : float
    most : int
        Corrections at most.

    Returns
    -------
    Refined
    """
    r, error = residual(x, b)
    best = Refined(x, error, 0)
    if error <= enough:
        return best
    for step in range(1, most + 1):
        if best.error <= target:
            break
        before = best.error
        with np.errstate(all="ignore"):
            x = best.x + solve(r)
        r, error = residual(x, b)
        if not error < before:
            break
        best = Refined(x, error, step)
        if error > 0.5 * before:
            break
    return best
