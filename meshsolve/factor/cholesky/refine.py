"""Iterative refinement of mixed precision: a factor in float32 gives solutions of float64 accuracy.

Source: Wilkinson 1963; the stopping rule is the normwise backward error of Rigal and Gaches 1967.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.errors import ConvergenceWarning
from meshsolve.factor import refine as iterative
from meshsolve.factor.base import solve_near_one
from meshsolve.report import warn
from meshsolve.sparse.columns import max_abs

MAX_STEPS = 20
UNEVEN = 1e6                    # times another is one diagonal entry: ||A|| ||x|| says nothing of most rows then


def refine(factor, b, scale=None, tolerance=2e-16):
    """Solve A x = b by corrections ``solve(b - A x)`` until the backward error no longer shrinks.

    Parameters
    ----------
    factor : HostFactor or DeviceFactor
        ``solve("A", b)`` is the approximate inverse, ``residual(x, b)`` is b - A x in float64, ``norm1()`` the norm of A.
    b : (n, k) float64, C or F contiguous, k > 0, where the factor lies
    scale : (n, 1) array, optional
        Of :func:`uneven_scale`.
    tolerance : float
        Backward error ||b - A x|| / (||A|| ||x|| + ||b||) (infinity norms, worst column) at which to stop; with a scale
        that of the scaled system.

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
    def sizes(v, power=0):
        """(k,) the largest moduli in the columns of v, scaled by that power of ``scale``."""
        with np.errstate(all="ignore"):
            return device.to_host(max_abs(v * scale if power > 0 else v / scale if power < 0 else v))

    solve = lambda B: solve_near_one(lambda near: factor.solve("A", near), B)
    if scale is None:
        norm, size_b, measure = factor.norm1(), sizes(b), lambda r, x: (sizes(r), sizes(x))
    else:                                                               # the norm of the scaled matrix is 1 to its longest row's length
        norm, size_b, measure = 1.0, sizes(b, -1), lambda r, x: (sizes(r, -1), sizes(x, 1))

    def residual(x, b):
        r = factor.residual(x, b)
        return r, iterative.backward_error(norm, *measure(r, x), size_b)

    found = iterative.refine(residual, b, solve(b), solve, tolerance, tolerance, MAX_STEPS)
    if not found.error < 1e-12 and np.isfinite(size_b).all():           # else it is b of which the caller is told
        warn(
            f"refinement stopped at a backward error of {found.error:.2g}: the matrix is too ill-conditioned for "
            'precision="mixed"; use precision="double"', ConvergenceWarning)
    return found.x, found.steps


def uneven_scale(factor):
    """(n, 1) square roots of the diagonal of A, by which small rows are not hidden behind others; None where its entries are near each
    other, or no matrix has been factored."""
    diagonal = factor.matrix_diagonal()
    if diagonal is None or len(diagonal) == 0 or not _largest(diagonal) > UNEVEN / _largest(1 / diagonal):
        return None
    return diagonal[:, None] ** 0.5


def _largest(v):
    """The largest modulus in an (n,) array, here or on the GPU."""
    return float(device.to_host(max_abs(v[:, None]))[0])
