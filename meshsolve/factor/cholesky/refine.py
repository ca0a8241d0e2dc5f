"""Iterative refinement of mixed precision: a factor in float32 gives solutions of float64 accuracy.

Source: Wilkinson 1963; the stopping rule is the normwise backward error of Rigal and Gaches 1967.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.arrays import largest_moduli
from meshsolve.errors import ConvergenceWarning
from meshsolve.factor import refine as iterative
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
        Corrections in x.

    Warns
    -----
    ConvergenceWarning
        The backward error stays above 1e-12: A is too ill-conditioned for a float32 factor.
    """
    norm, size_b = factor.norm1(), device.to_host(largest_moduli(b))
    solve = lambda B: solve_near_one(lambda near: factor.solve("A", near), B)

    def residual(x, b):
        r = factor.residual(x, b)
        return r, iterative.backward_error(norm, *(device.to_host(largest_moduli(v)) for v in (r, x)), size_b)

    found = iterative.refine(residual, b, solve(b), solve, tolerance, tolerance, MAX_STEPS)
    if not found.error < 1e-12 and np.isfinite(size_b).all():           # else it is b of which the caller is told
        warn(
            f"refinement stopped at a backward error of {found.error:.2g}: the matrix is too ill-conditioned for "
            'precision="mixed"; use precision="double"', ConvergenceWarning)
    return found.x, found.steps
