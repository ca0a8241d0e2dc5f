"""Iterative refinement in the precision of the factor, stopped by a backward error, and the backward errors to stop by.

Sources: Skeel 1980, "Iterative refinement implies numerical stability for Gaussian elimination"; Wilkinson 1963 (a factor in lower
precision); Rigal and Gaches 1967 (normwise backward error); Oettli and Prager 1964 (componentwise backward error).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.sparse.columns import max_abs
from meshsolve.sparse.places import where


class Refined(NamedTuple):
    """A solution, its backward error, the number of corrections, and b - A x."""

    x: np.ndarray
    error: float
    steps: int
    residual: np.ndarray


def refine(measure, b, x, solve, enough, target, most):
    """Correct x by ``solve(b - A x)`` until its backward error is at most ``target`` or no longer halves.

    Parameters
    ----------
    measure : callable of (x, b)
        Returns ``b - A x`` and a backward error.
    b, x : (n, k) arrays of the factor's dtype
    solve : callable of an (n, k) array
    enough : float
        Backward error up to which x is not corrected at all.
    target : float
    most : int
        Largest number of corrections.

    Returns
    -------
    Refined
    """
    r, error = measure(x, b)
    best = Refined(x, error, 0, r)
    if error <= enough:
        return best
    for step in range(1, most + 1):
        if best.error <= target:
            break
        before = best.error
        with np.errstate(all="ignore"):
            x = best.x + solve(r)
        r, error = measure(x, b)
        if not error < before:
            break
        best = Refined(x, error, step, r)
        if error > 0.5 * before:
            break
    return best


# ---- backward errors --------------------------------------------------------------------------------------------------


def backward_error(norm, r, x, b):
    """Return ||r|| / (||A|| ||x|| + ||b||), worst column, infinite for NaN.

    ``r``, ``x``, ``b``: (k,) norms of the columns of r = b - A x, x and b, on the host. Products and quotients of the norms may leave
    the range of float64.
    """
    return _core.backward_error(norm, *(np.ascontiguousarray(size, np.float64) for size in (r, x, b)))


def normwise(residual, norm, scale=None):
    """Return a ``measure`` with the normwise backward error in infinity norms.

    Parameters
    ----------
    residual : callable of (x, b)
        Returns b - A x.
    norm : float
        ||A||; with a scale, that of the scaled matrix.
    scale : (n, 1) array, optional
        S of the scaled system S^-1 A S^-1 (S x) = S^-1 b, in which small rows count as large ones do.
    """
    def measure(x, b):
        r = residual(x, b)
        with np.errstate(all="ignore"):
            columns = (r, x, b) if scale is None else (r / scale, x * scale, b / scale)
            sizes = where(r).xp.stack([max_abs(v) for v in columns])
        return r, backward_error(norm, *device.to_host(sizes))

    return measure


def by_rows(measure, size, x):
    """Return ``measure`` with the backward error of each row relative to its own size.

    ``size``, ``x``: (n, 1) arrays |A| |x|, and the solution.
    """
    return _with_error(measure, lambda now, r: float(abs(r / size).max()) / (1 + float(abs(now / x).max())))


def componentwise(measure, size):
    """Return ``measure`` with the componentwise backward error: residual rows relative to the rows of ``size``, |A| |x| + |b|."""
    return _with_error(measure, lambda now, r: float((abs(r) / (size + (size == 0))).max()))


def _with_error(measure, error_of):
    """Return ``measure`` with another error, a function of x and the residual; infinite for NaN."""
    def of(x, b):
        r, _ = measure(x, b)
        with np.errstate(all="ignore"):
            error = error_of(x, r)
        return r, error if np.isfinite(error) else np.inf

    return of
