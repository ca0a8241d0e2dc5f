"""Iterative refinement in the precision of the factor, stopped by the backward error.

Source: Skeel 1980, "Iterative refinement implies numerical stability for Gaussian elimination".
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Refined(NamedTuple):
    """A solution, its backward error, the corrections it took, and b - A x."""

    x: np.ndarray
    error: float
    steps: int
    residual: np.ndarray


def backward_error(norm, r, x, b):
    """||r|| / (||A|| ||x|| + ||b||), worst column, infinite for NaN, from ||A|| and the (k,) sizes of r = b - A x, x and b on the
    host: neither ||A|| ||x|| nor ||x|| / ||r|| has to be in the range of float64."""
    with np.errstate(all="ignore"):
        (m, power), (mx, power_x), (mr, power_r) = (np.frexp(size) for size in (min(norm, np.finfo(float).max), x, r))
        error = np.where(r == 0, 0.0, 1 / (np.ldexp(m * mx / mr, power + power_x - power_r) + b / r))
    return float(np.where(np.isfinite(r) & np.isfinite(x), error, np.inf).max(initial=0.0))


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
