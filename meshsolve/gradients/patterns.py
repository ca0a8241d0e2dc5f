"""Patterns of the matrices of a sequence: sums of duplicates, and entries of the inverse, in the order of the caller's entries.

A pattern lies in the place of its index arrays, on the host or on the GPU. It is made once and serves all matrices with the same indices.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError
from meshsolve.operators import Assembly
from meshsolve.options import INT32_MAX, counted, thread_count
from meshsolve.sparse.lists_cuda import compressed, keys_of
from meshsolve.sparse.places import CUDA, where
from meshsolve.sparse.product import assembled, sampled_product

SAMPLE = 256                # values that are compared before all of them


def pattern_of(rows, columns, n, threads):
    """Return the pattern of these (k,) integers, which may change later; without ``n`` it is one more than the largest.

    Raises
    ------
    InvalidInputError
        An index outside the matrix.
    """
    kind = PatternCuda if where(rows) is CUDA else Pattern
    given = n
    least, most = kind.range_of(rows, columns) if len(rows) else (0, -1)
    n = most + 1 if n is None else n
    if not 0 <= least <= most + 1 <= n:
        raise InvalidInputError(f"indices has values outside 0..{n - 1}, the rows of " + ("A" if given is None else "b"))
    return kind(rows, columns, n, most + 1, threads)


class Pattern:
    """The rows and columns of the entries of an (n, n) matrix, (k,) integers on the host; see :func:`pattern_of`."""

    def __init__(self, rows, columns, n, spanned, threads):
        self.n, self._spanned, self._threads = n, spanned, thread_count(threads)
        self._given = rows.copy(), columns.copy()
        self._assembly = Assembly(rows, columns, n, threads)
        self.rows, self.columns = (part.astype(np.int32) for part in self._given)

    @staticmethod
    def range_of(rows, columns):
        """Return the smallest and the largest index."""
        return min(int(rows.min()), int(columns.min())), max(int(rows.max()), int(columns.max()))

    def has(self, rows, columns, n):
        """Return True if this is the pattern of these arrays."""
        n = self._spanned if n is None else n
        return n == self.n and where(rows) is where(self.rows) and self._equals(rows, columns)

    def matrix(self, values):
        """Return the matrix with these (k,) values, duplicates summed, a sparse matrix in the place of the pattern."""
        return self._assembly(values)

    def sampled(self, y, x):
        """Return -y_i x_j for the entries (i, j), (k,) float64, summed over the columns of real arrays (n,) or (n, m)."""
        return sampled_product(self.rows, self.columns, y, x, self._threads)

    def same_values(self, values, others):
        """Return True if two (k,) arrays of values are equal. The values of two steps mostly differ early."""
        return np.array_equal(values[:SAMPLE], others[:SAMPLE]) and np.array_equal(values, others)

    def taken_from(self, Z):
        """Return the entries of a symmetric sparse matrix, (k,), 0 where it has none."""
        return np.asarray(Z[self._given])

    def _equals(self, rows, columns):
        return all(np.array_equal(known, given) for known, given in zip(self._given, (rows, columns), strict=True))


class PatternCuda(Pattern):
    """As :class:`Pattern`, on the GPU. The host reads one number to compare patterns, and nothing to use one."""

    def __init__(self, rows, columns, n, spanned, threads):
        xp, count = device.xp(), len(rows)
        if count > INT32_MAX:
            raise InvalidInputError(f"got {counted(count, 'entry')}; at most 2^31 - 1 are supported")
        self.n, self._spanned = n, spanned
        self._given = rows.copy(), columns.copy()
        keys = rows.astype(np.int64) << 32 | columns.astype(np.int64)
        order = xp.argsort(keys, kind="stable")
        self._keys, self._source = keys, order.astype(np.int32)
        keys = keys[order]
        differs = xp.ones(count, bool)
        differs[1:] = keys[1:] != keys[:-1]
        first = xp.flatnonzero(differs)
        self._ptr = xp.append(first, count).astype(np.int64)
        indptr, self._indices = compressed(n, keys[first])
        self._indptr = indptr.astype(np.int32)
        self.rows, self.columns = (part.astype(np.int32) for part in self._given)

    @staticmethod
    def range_of(rows, columns):
        xp = device.xp()
        found = xp.stack([rows.min(), columns.min(), rows.max(), columns.max()])
        ends = device.to_host(found)
        return int(ends[:2].min()), int(ends[2:].max())

    def matrix(self, values):
        data = assembled(self._ptr, self._source, values.astype(np.float64))
        return device.csr(data, self._indices, self._indptr, (self.n, self.n))

    def sampled(self, y, x):
        return sampled_product(self.rows, self.columns, y, x)

    def taken_from(self, Z):
        xp = device.xp()
        known = keys_of(Z.indptr, Z.indices)
        place = xp.minimum(xp.searchsorted(known, self._keys), len(known) - 1)
        return xp.where(known[place] == self._keys, Z.data[place], 0.0)

    def same_values(self, values, others):
        return not is_any(values != others)

    def _equals(self, rows, columns):
        known = self._given
        return rows.shape == known[0].shape and not is_any((rows != known[0]) | (columns != known[1]))
