"""Iterative refinement: a factor in float32 gives solutions of float64 accuracy.

Source: Wilkinson 1963; the stopping rule is the normwise backward error of Rigal and Gaches 1967.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.arrays import largest_moduli
from meshsolve.errors import ConvergenceWarning
from meshsolve.factor.base import solve_near_one
from meshsolve.report import warn

MAX_STEPS = 20


def refine(factor, b, tolerance=2e-16):
    """Solve A x = b by corrections ``solve(b - A x)`` until the backward error no longer shrinks.

    Parameters
    ----------
    factor : HostFactor or DeviceFactor
        ``solve("A", b)`` is the approximate inverse, ``residual(x, b)`` is b - A x in float64, ``norm1()`` the norm of A.
    b : (n, k) float64, C or F contiguous, k > 0, where the factor lies
    tolerance : float
        Backward error ||b - A x|| / (||A|| ||x|| + ||b||) (infinity norms, worst column) at which to stop.

    Returns
    -------
    x : (n, k) float64
    steps : int
        Corrections made.

    Warns
    -----
    ConvergenceWarning
        The backward error stays above 1e-12: A is too ill-conditioned for a float32 factor.
    """
    norm, size_b = factor.norm1(), device.to_host(largest_moduli(b))
    solve = lambda B: solve_near_one(lambda near: factor.solve("A", near), B)
    x = solve(b)
    best, previous, error = x, np.inf, np.inf
    for steps in range(MAX_STEPS + 1):                      # noqa: B007 (told below)
        r = factor.residual(x, b)
        with np.errstate(over="ignore", invalid="ignore"):  # told of below
            scale = norm * device.to_host(largest_moduli(x)) + size_b
            now = float((device.to_host(largest_moduli(r)) / (scale + (scale == 0))).max())
        if now < error:
            best, previous, error = x, error, now
        if error <= tolerance or now > 0.5 * previous or not np.isfinite(now):
            break
        x = x + solve(r)
    if not error < 1e-12 and np.isfinite(size_b).all():     # else it is b of which the caller is told
        warn(
            f"refinement stopped at a backward error of {error:.2g}: the matrix is too ill-conditioned for "
            'precision="mixed"; use precision="double"', ConvergenceWarning)
    return best, steps
