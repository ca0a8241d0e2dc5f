"""The determinant of a matrix from its LU factors, as sign and logarithm, because the number itself often overflows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


def slogdet(pivots, scales, perms):
    """(sign, logarithm of the absolute value) of ``prod(pivots) / prod(scales)``; each odd permutation changes the sign.

    Parameters
    ----------
    pivots : (n,) float64 or complex128
        The diagonal of U.
    scales, perms : lists of (n,) positive numbers and of (n,) permutations

    Returns
    -------
    sign : float or complex
        Of absolute value 1, or 0.
    logabsdet : float
        -inf if a pivot is 0.
    """
    sizes = np.abs(pivots)
    if not sizes.all():
        return pivots.dtype.type(0).item(), -np.inf
    odd = sum(is_odd(perm) for perm in perms) % 2
    sign = np.prod(pivots / sizes) * (-1 if odd else 1)
    return (sign / abs(sign)).item(), float(np.log(sizes).sum() - sum(np.log(scale).sum() for scale in scales))


def is_odd(perm):
    """True if the (n,) permutation is odd: a cycle of length k is k - 1 exchanges."""
    n = len(perm)
    cycles = connected_components(sp.csr_array((np.ones(n, np.int8), perm, np.arange(n + 1)), shape=(n, n)), directed=False,
                                  return_labels=False)
    return (n - int(cycles)) % 2 == 1
