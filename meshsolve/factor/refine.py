"""Iterative refinement in the precision of the factor, stopped by the backward error.

Source: Skeel 1980, "Iterative refinement implies numerical stability for Gaussian elimination".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core


class Refined(NamedTuple):
    """A solution, its backward error, the corrections it took, and b - A x."""

    x: np.ndarray
    error: float
    steps: int
    residual: np.ndarray


def backward_error(norm, r, x, b):
    """Return ||r|| / (||A|| ||x|| + ||b||), worst column, infinite for NaN, from ||A|| and the (k,) sizes of r = b - A x, x and b on the
    host: neither ||A|| ||x|| nor ||x|| / ||r|| must be in the range of float64."""
    return _core.backward_error(norm, *(np.ascontiguousarray(size, np.float64) for size in (r, x, b)))


def refine(residual, b, x, solve, enough, target, most):
    """Correct x, where its backward error is above ``enough``, by ``solve(b - A x)`` until it is at most ``target`` or no longer
    halves.

    Parameters
    ----------
    residual : callable of (x, b)
        ``b - A x`` and its backward error, where the arrays lie.
    b, x : (n, k) arrays of the factor's dtype
    solve : callable of an (n, k) array
    enough, target : float
    most : int
        Corrections at most.

    Returns
    -------
    Refined
    """
    r, error = residual(x, b)
    best = Refined(x, error, 0, r)
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
        best = Refined(x, error, step, r)
        if error > 0.5 * before:
            break
    return best
