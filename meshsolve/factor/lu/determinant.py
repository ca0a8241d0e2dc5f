"""The determinant of a matrix from its LU factors, as sign and logarithm: the number itself leaves the range of float64 soon."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


def slogdet(pivots, scales, perms):
    """(sign, logarithm of the modulus) of ``prod(pivots)`` / ``prod(scales)``, the sign turned by each odd permutation.

    Parameters
    ----------
    pivots : (n,) float64 or complex128
        The diagonal of U.
    scales, perms : lists of (n,) positive numbers and of (n,) permutations

    Returns
    -------
    sign : float or complex
        Of modulus 1, or 0.
    logabsdet : float
        -inf where a pivot is 0.
    """
    moduli = np.abs(pivots)
    if not moduli.all():
        return pivots.dtype.type(0).item(), -np.inf
    odd = sum(is_odd(perm) for perm in perms) % 2
    sign = np.prod(pivots / moduli) * (-1 if odd else 1)
    return (sign / abs(sign)).item(), float(np.log(moduli).sum() - sum(np.log(scale).sum() for scale in scales))


def is_odd(perm):
    """Whether an odd number of exchanges makes the (n,) permutation: a cycle of length k is made by k - 1."""
    n = len(perm)
    cycles = connected_components(sp.csr_array((np.ones(n, np.int8), perm, np.arange(n + 1)), shape=(n, n)), directed=False,
                                  return_labels=False)
    return (n - int(cycles)) % 2 == 1
