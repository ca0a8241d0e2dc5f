"""Checks of a later matrix on the GPU, in one kernel whose result is a word of bits: the host reads it when all work is queued.

The checks of :func:`~meshsolve.sparse.cuda.as_csr_cuda` and of :class:`~meshsolve.sparse.cuda.Gather` read a number after each step.
They name the entry at fault, and run only if a bit is set.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.sparse.product import lanes_for
from meshsolve.sparse.symmetry import MANY_ROUNDINGS

K = device.kernels("sparse/check.cu")
# enum Bit in check.cu
OTHER_PATTERN, NOT_FINITE, NOT_SYMMETRIC, VANISHES, TOO_LARGE, SIZABLE, OTHER_NULL_SPACE = (1 << bit for bit in range(7))
ANY_SIZE = np.inf, np.inf                                   # range of magnitudes without limits


class LaterMatrix:
    """A matrix on the GPU, not yet checked, that may have the pattern of an earlier one.

    Parameters
    ----------
    gather : Gather
        That of the earlier matrix, with its pattern.
    inside : Gather
        Index map from the matrix to the analyzed pattern.
    arrays : (indptr, indices, data)
        The matrix in compressed rows, of any dtypes.
    across : (coupled,) int64, optional
        Index map to the entries between free and fixed rows.
    component : (n,) int32, optional
        Components whose constants the matrix must take to 0.
    row_sum : float
        Sum of a row, relative to the sum of its absolute values, up to which it is 0 then.
    """

    def __init__(self, gather, inside, arrays, across=None, component=None, row_sum=0.0):
        self._gather, self._inside, self._arrays, self._across = gather, inside, arrays, across
        self._component, self._row_sum = component, row_sum

    @property
    def is_likely(self):
        """True if the sizes and dtypes are those of the earlier matrix, so that the kernel can read the arrays."""
        given, (indptr, indices, data) = self._gather.given, self._arrays
        return (indptr.dtype in (np.int32, np.int64) and indices.dtype == np.int32 and data.dtype == np.float64
                and len(indptr) == given.n + 1 and min(len(indices), len(data)) >= given.nnz
                and all(array.flags.c_contiguous for array in self._arrays))

    def check(self, values, coupling, watched, rounding, sizes, bits):
        """Write the values in the analyzed pattern, and set bits for what must be looked at.

        Parameters
        ----------
        values : (nnz,) float64, written
        coupling : (coupled,) float64 or None, written
        watched : (begin, entries)
            Positions of the entries of rows of the analyzed matrix that should not sum to 0, one row after the other; both int64.
        rounding : float
            Sum of a row, relative to the sum of its absolute values, up to which it is 0.
        sizes : (float, float)
            A magnitude above the first sets SIZABLE, one from the second on TOO_LARGE.
        bits : (1,) int32
            0 before the call.
        """
        null, given = device.null, self._gather.given
        indptr, indices, data = self._arrays
        pointers = (indptr, null(np.int64)) if indptr.dtype == np.int32 else (null(np.int32), indptr)
        own, mirror, _ = self._gather.mirror or (None, null(np.int64), None)
        begin, entries = watched
        rows, take, across = len(begin) - 1, self._inside.take, self._across
        items = max(given.n + 1, given.nnz, len(mirror), len(values), 32 * rows)
        device.launch_1d(
            K.k_check_later, items, np.int32(given.n), np.int64(given.nnz), given.indptr, given.indices, *pointers, indices, data,
            *map(np.float64, sizes), np.int64(len(mirror)), null(np.int64) if own is None else own, mirror, np.float64(MANY_ROUNDINGS),
            np.int32(rows), begin, entries, np.float64(rounding), np.int64(len(values)), null(np.int64) if take is None else take, values,
            np.int64(0 if across is None else len(across)), null(np.int64) if across is None else across,
            null(np.float64) if across is None else coupling, bits)
        if self._component is not None:
            self._check_null_space(data, bits)

    def _check_null_space(self, data, bits):
        pattern, take = self._gather.pattern, self._gather.take
        lanes = lanes_for(pattern.nnz, pattern.n)
        device.launch_1d(K.k_check_null_space, pattern.n * lanes, np.int32(pattern.n), np.int32(lanes), pattern.indptr, pattern.indices,
                         device.null(np.int64) if take is None else take, data, self._component, np.float64(self._row_sum), bits)
