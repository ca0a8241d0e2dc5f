"""Matrices on the GPU: checked where they lie, never copied to the host.

A pattern derived from the caller's matrix (both triangles, edges of a mesh added, free rows, the analyzed pattern) has an index
map. This map has the position of each entry in the caller's matrix. The values of a later matrix are then one gather.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError, PatternMismatchError
from meshsolve.options import counted
from meshsolve.sparse.lists_cuda import MASK, compressed, distinct, find, keys_of, transposed
from meshsolve.sparse.matrix import LARGEST_SIZE, Csr, as_symmetric, only_upper


def as_csr_cuda(A, name="A"):
    """Return a square real matrix that lies on a GPU (a sparse one of CuPy, or a dense array) as :class:`Csr`, checked on the GPU.

    Raises
    ------
    InvalidInputError
        Not square, empty, complex, more than 2^31 - 2 rows, a bad row pointer or index, NaN or infinity.
    """
    xp = device.xp()
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"{name} must be square, got of shape {tuple(A.shape)}")
    n = int(A.shape[0])
    if not 0 < n <= LARGEST_SIZE:
        raise InvalidInputError(f"{name} has {counted(n, 'row')}; 1 to {LARGEST_SIZE} are supported")
    indptr, indices, data = _dense_parts(device.asarray(A)) if device.holds(A) else _sparse_parts(A)
    if data.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} must hold real numbers, got {data.dtype}")
    M = Csr(n, *map(xp.ascontiguousarray, (indptr, indices, data), (np.int64, np.int32, np.float64)))
    if is_any((M.indices < 0) | (M.indices >= n)):
        raise InvalidInputError(f"{name} has a column index outside 0..{n - 1}")
    if is_any(~xp.isfinite(M.data)):
        p = int(xp.argmin(xp.isfinite(M.data)))
        row = int(xp.searchsorted(M.indptr, xp.asarray([p]), side="right")[0]) - 1
        raise InvalidInputError(f"{name}: row {row}, column {int(M.indices[p])} holds {float(M.data[p])}")
    return M


def without_diagonal(pattern):
    """Return a pattern on the GPU without its diagonal entries."""
    keys = keys_of(pattern.indptr, pattern.indices)
    return Csr(pattern.n, *compressed(pattern.n, keys[keys != transposed(keys)]))


class Gather:
    """A pattern on the GPU, and for each entry its position in the values of a caller's matrix.

    Attributes
    ----------
    given : Csr
        Pattern of the caller's matrix, a copy.
    pattern : Csr
    take : (nnz,) int64 or None
        1 + the position of each entry, 0 if the caller's matrix has no such entry. None: the pattern is the given one.
    mirror : (take, mirror_take, pattern) or None
        Index maps of both triangles as the caller's matrix has them, for :meth:`check_symmetry`; None if one triangle counts.
    """

    def __init__(self, given, pattern, take=None, mirror=None):
        self.given, self.pattern, self.take, self.mirror = given, pattern, take, mirror
        self._within = self._split = None, None

    @classmethod
    def symmetric(cls, M, lower=False):
        """Return the Gather for both triangles of M, or with ``lower`` for the lower triangle and its mirror entries.

        Raises
        ------
        InvalidInputError
            ``lower``, and M has entries above its diagonal and none below.
        """
        xp = device.xp()
        given = Csr(M.n, M.indptr, M.indices.copy())        # the caller's index array may change later
        keys = keys_of(given.indptr, given.indices)
        if lower:
            half = keys[keys >= transposed(keys)]
            if len(half) <= M.n and len(half) < len(keys) and not is_any(half != transposed(half)):
                raise only_upper("A")
            both = distinct(xp.concatenate([half, transposed(half)]))
            return cls(given, Csr(M.n, *compressed(M.n, both)), 1 + find(keys, xp.maximum(both, transposed(both))))
        mirror = find(keys, transposed(keys))
        if not is_any(mirror < 0):                          # the pattern is symmetric
            return cls(given, given, None, (None, mirror, given))
        both = distinct(xp.concatenate([keys, transposed(keys)]))
        own, mirror = 1 + find(keys, both), 1 + find(keys, transposed(both))
        pattern = Csr(M.n, *compressed(M.n, both))
        return cls(given, pattern, xp.where(own > 0, own, mirror), (own, mirror, pattern))

    @property
    def keys(self):
        """Keys of the pattern, computed at each call."""
        return keys_of(self.pattern.indptr, self.pattern.indices)

    def take_of(self, entries):
        """Return ``take`` for these entries of the pattern."""
        return entries + 1 if self.take is None else self.take[entries]

    def values(self, data):
        """Return the values of the pattern from the values of the caller's matrix."""
        return data if self.take is None else _after_zero(data)[self.take]

    def joined(self, edges):
        """Return the Gather for the union with a symmetric pattern on the GPU."""
        own, n = self.keys, self.pattern.n
        both = distinct(device.xp().concatenate([own, keys_of(edges.indptr, edges.indices)]))
        if len(both) == len(own):
            return self
        return Gather(self.given, Csr(n, *compressed(n, both)), self._found(own, both), self.mirror)

    def within(self, pattern, constraint=None):
        """Return the Gather for an analyzed pattern on the GPU; see :meth:`meshsolve.sparse.matrix.Csr.within`. The last is kept."""
        if self._within[0] is not pattern:
            self._within = pattern, self if pattern.same_as(self.pattern) else self._moved(pattern, constraint)
        return self._within[1]

    def split(self, rows):
        """Return ``rows.split_pattern(self)``; the last is kept."""
        if self._split[0] is not rows:
            self._split = rows, rows.split_pattern(self)
        return self._split[1]

    def check_symmetry(self, M, name="A"):
        """Return the :class:`Doubt` of M, or None; raise NotSymmetricError as :func:`meshsolve.sparse.matrix.as_symmetric`.

        Nothing is checked if one triangle counts. A matrix with different mirror entries is checked on the host.
        """
        if self.mirror is None or len(M.data) == 0:
            return None
        own, mirror, _ = self.mirror
        values = M.data if own is None else _after_zero(M.data)
        if not is_any((values if own is None else values[own]) != values[mirror]):
            return None
        return as_symmetric(Csr(M.n, *map(device.to_host, (M.indptr, M.indices, M.data))).to_scipy(), name).doubt

    def _moved(self, pattern, constraint):
        xp, own, keys = device.xp(), self.keys, keys_of(pattern.indptr, pattern.indices)
        outside = find(keys, own) < 0
        if is_any(outside):
            row, column = _entry(own[xp.argmax(outside)])
            if constraint is not None:
                row, column = int(constraint.free[row]), int(constraint.free[column])
            raise PatternMismatchError.at(row, column)
        return Gather(self.given, pattern, self._found(own, keys))

    def _found(self, own, keys):
        """Return ``take`` for each key; 0 for keys that are not in ``own``."""
        xp, position = device.xp(), find(own, keys)
        return xp.where(position >= 0, self.take_of(xp.maximum(position, 0)), 0) if len(own) else xp.zeros(len(keys), np.int64)


class GatheredMatrix:
    """A matrix on the GPU whose values are gathered from a caller's matrix; counterpart of a symmetric :class:`Csr` on the host.

    Parameters
    ----------
    gather : Gather
    source : Csr
        The caller's matrix on the GPU.
    """

    def __init__(self, gather, source, doubt=None):
        self.gather, self._source, self.doubt = gather, source, doubt

    @property
    def n(self):
        return self.gather.pattern.n

    @property
    def pattern(self):
        """Its pattern, a Csr without values."""
        return self.gather.pattern

    @property
    def data(self):
        """(nnz,) values, gathered at each call."""
        return self.gather.values(self._source.data)

    def csr(self):
        """Return the matrix as :class:`Csr` with gathered values."""
        return Csr(self.n, self.pattern.indptr, self.pattern.indices, self.data, doubt=self.doubt)

    def in_doubt(self, doubt):
        """Return the matrix with another ``doubt``."""
        return GatheredMatrix(self.gather, self._source, doubt)

    def joined(self, edges):
        """As :meth:`meshsolve.sparse.matrix.Csr.joined`; the edges may lie on the host."""
        return GatheredMatrix(self.gather.joined(edges.uploaded()), self._source, self.doubt)

    def within(self, pattern, constraint=None):
        """As :meth:`meshsolve.sparse.matrix.Csr.within`."""
        return self.gather.within(pattern, constraint).values(self._source.data)

    def split(self, rows):
        """Return (block of the free rows, their coupling to the fixed rows as (indptr, indices, data)); ``rows``: RowSplitCuda."""
        inside, indptr, indices, across = self.gather.split(rows)
        return GatheredMatrix(inside, self._source), (indptr, indices, _after_zero(self._source.data)[across])


def _dense_parts(A):
    xp = device.xp()
    rows, columns = xp.nonzero(A)
    return xp.searchsorted(rows, xp.arange(A.shape[0] + 1)), columns, A[rows, columns]      # rows ascend


def _sparse_parts(A):
    A = A.tocsr()
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    used = int(A.indptr[-1])
    return A.indptr, A.indices[:used], A.data[:used]


def _entry(key):
    """Return row and column of an entry, on the host."""
    key = int(key)
    return key >> 32, key & MASK


def _after_zero(data):
    xp = device.xp()
    return xp.concatenate([xp.zeros(1, np.float64), data])
