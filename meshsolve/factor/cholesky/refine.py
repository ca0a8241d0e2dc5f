"""Mixed precision: a factor in float32 gives solutions of float64 accuracy."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.errors import ConvergenceWarning
from meshsolve.factor.base import solve_near_one
from meshsolve.report import warn
from meshsolve.sparse import refine as iterative
from meshsolve.sparse.columns import max_abs

MAX_STEPS = 20          # corrections of a solution
UNEVEN = 1e6            # ratio of diagonal entries above which ||A|| ||x|| is not meaningful for most rows
ACCURATE = 1e-12        # backward error above which a solution is not that of double precision


def refine(factor, b, scale=None, tolerance=2e-16):
    """Solve A x = b by corrections ``solve(b - A x)`` until the backward error no longer halves.

    Parameters
    ----------
    factor : HostFactor or DeviceFactor
        ``solve("A", b)`` is the approximate inverse, ``residual(x, b)`` is b - A x in float64, ``norm1()`` the norm of A.
    b : (n, k) float64, C or F contiguous, k > 0, in the place of the factor
    scale : (n, 1) array, optional
        From :func:`uneven_scale`.
    tolerance : float
        Backward error, of the scaled system if there is a scale, at which to stop.

    Returns
    -------
    x : (n, k) float64
    steps : int
        Number of corrections.

    Warns
    -----
    ConvergenceWarning
        The backward error stays above 1e-12: A is too ill-conditioned for a float32 factor.
    """
    def solve(B):
        return solve_near_one(lambda near: factor.solve("A", near), B)

    norm = factor.norm1() if scale is None else 1.0         # a scaled row is at most as long as it has entries
    measure = iterative.Normwise(factor.residual, norm, scale)
    found = iterative.refine(measure, b, solve(b), solve, tolerance, tolerance, MAX_STEPS, factor.corrections_ahead)
    if not found.error < ACCURATE and np.isfinite(device.to_host(max_abs(b))).all():        # other checks report a b that is not finite
        warn(
            f"refinement stopped at a backward error of {found.error:.2g}: the matrix is too ill-conditioned for "
            'precision="mixed"; use precision="double"', ConvergenceWarning)
    return found.x, found.steps


def uneven_scale(factor):
    """Return the square roots of the diagonal of A, (n, 1), if its entries differ by more than UNEVEN, otherwise None.

    Scaled by them, small rows are not hidden behind large ones. None also before the first factorization.
    """
    diagonal = factor.matrix_diagonal()
    if diagonal is None or len(diagonal) == 0 or not _largest(diagonal) > UNEVEN / _largest(1 / diagonal):
        return None
    return diagonal[:, None] ** 0.5


def _largest(v):
    """Return the largest absolute value in an (n,) array on the host or on the GPU."""
    return float(device.to_host(max_abs(v[:, None]))[0])
