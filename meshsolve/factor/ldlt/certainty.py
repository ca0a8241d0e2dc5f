"""Check whether a complete factor determines the signs of all eigenvalues.

The numeric phase compares small pivots with their rounding errors (small_pivots.hpp). Pivots that are not small may have errors as
well. One solve for a known solution shows them: its error is largest along the eigenvector whose eigenvalue is nearest to 0. So A times
the error, relative to the error, estimates that eigenvalue. Cost: one solve and two products with A.
"""

from __future__ import annotations

import numpy as np

from meshsolve.sparse.columns import lengths

UNDECIDED = 128         # eigenvalue of the scaled matrix below which its sign is uncertain, in units of rounding


def has_undecided_sign(residual, solve, scale, eps, place):
    """True if the estimated eigenvalue of S A S nearest to 0 is within rounding errors.

    Parameters
    ----------
    residual : Residual
    solve : callable of an (n, 1) array
        The factor without refinement, on its device.
    scale : (n,) float64
        Diagonal of S, on the host.
    eps : float
        Unit of rounding of the factor.
    place : Host or Cuda
        The device of the factor.
    """
    scale, zero = place.bring(scale[:, None]), place.bring(np.zeros((len(scale), 1)))
    known = place.bring(np.random.default_rng(0).integers(0, 2, (len(scale), 1)) * 2.0 - 1.0)

    def product(v):                                         # S A S v
        return -residual.scaled(scale * v, zero)[2]

    with np.errstate(all="ignore"):
        error = solve(product(known) / scale) / scale - known
        left, own = (float(lengths(v)[0]) for v in (product(error), error))
    return not left > UNDECIDED * eps * own if own != 0 else False
