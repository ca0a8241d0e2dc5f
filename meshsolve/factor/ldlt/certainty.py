"""Whether a complete factor decides the signs of all eigenvalues.

The numeric phase compares small pivots with their rounding errors (small_pivots.hpp). Errors may also hide in pivots that are not small.
One solve for a known solution shows them: its error is largest along the eigenvector whose eigenvalue is nearest to 0, so A times the
error, relative to the error, estimates that eigenvalue. Cost: a solve and two products with A.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.sparse.columns import device_lengths, lengths

UNDECIDED = 128         # units of rounding: an eigenvalue of the scaled matrix below this many may have the other sign


def has_undecided_sign(residual, solve, scale, eps, on_device):
    """True if the eigenvalue of S A S nearest to 0, estimated, is within rounding errors.

    Parameters
    ----------
    residual : Residual
    solve : callable of an (n, 1) array
        The factor without refinement; arrays lie where the factor does.
    scale : (n,) float64
        Diagonal of S, on the host.
    eps : float
        Unit of rounding of the factor.
    on_device : bool
    """
    place, size = (device.to_device, device_lengths) if on_device else (np.asarray, lengths)
    scale, zero = place(scale[:, None]), place(np.zeros((len(scale), 1)))
    known = place(np.random.default_rng(0).integers(0, 2, (len(scale), 1)) * 2.0 - 1.0)

    def product(v):                                         # S A S v
        return -residual.scaled(scale * v, zero)[2]

    with np.errstate(all="ignore"):
        error = solve(product(known) / scale) / scale - known
        left, own = (float(np.ravel(device.to_host(size(v)) if on_device else size(v))[0]) for v in (product(error), error))
    return not left > UNDECIDED * eps * own if own != 0 else False
