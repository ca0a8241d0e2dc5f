"""Matrices on the GPU: checked where they lie, never copied to the host.

What is made of a pattern (both triangles, the edges of a mesh, free rows, the analysed pattern) carries
along, in place of values, the position of each in the caller's matrix: new values are then one gather.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.device.reductions import is_any, max_of_rows
from meshsolve.errors import InvalidInputError, PatternMismatchError
from meshsolve.options import counted
from meshsolve.sparse.lists_cuda import MASK, compressed, distinct, find, keys_of, transposed
from meshsolve.sparse.matrix import LARGEST_SIZE, SYMMETRY_TOLERANCE, Csr, not_symmetric, upper_alone


class DeviceCsr(NamedTuple):
    """A square matrix in compressed rows on the device; indices ascend in each row, no duplicates."""

    n: int
    indptr: object              # int64
    indices: object             # int32
    data: object                # float64


def as_device_csr(A, name="A"):
    """A square real matrix that lies on a GPU (a sparse one of CuPy, or a dense array) as :class:`DeviceCsr`.

    Raises
    ------
    InvalidInputError
        Not square, empty, complex, more than 2^31 - 2 rows, a bad row pointer or index, NaN or infinity.
    """
    xp = device.xp()
    if len(A.shape) != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"{name} has to be square, not of shape {tuple(A.shape)}")
    n = int(A.shape[0])
    if not 0 < n <= LARGEST_SIZE:
        raise InvalidInputError(f"{name} has {counted(n, 'row')}; 1 to {LARGEST_SIZE} are supported")
    indptr, indices, data = _dense_parts(device.asarray(A)) if device.holds(A) else _sparse_parts(A)
    if data.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has to hold real numbers, not {data.dtype}")
    M = DeviceCsr(n, *map(xp.ascontiguousarray, (indptr, indices, data), (np.int64, np.int32, np.float64)))
    if is_any((M.indices < 0) | (M.indices >= n)):
        raise InvalidInputError(f"{name} has a column index outside 0..{n - 1}")
    if is_any(~xp.isfinite(M.data)):
        p = int(xp.argmin(xp.isfinite(M.data)))
        raise InvalidInputError(f"{name}: row {_row_of(M, p)}, column {int(M.indices[p])} holds {float(M.data[p])}")
    return M


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


def uploaded(M):
    """A checked :class:`Csr` as :class:`DeviceCsr`; arrays that lie on the GPU are not copied."""
    return DeviceCsr(M.n, *map(device.to_device, (M.indptr, M.indices, M.data)))


def uploaded_pattern(M):
    """The pattern of a :class:`Csr`, as one of device arrays."""
    return Csr(M.n, *map(device.to_device, (M.indptr, M.indices)))


def without_diagonal(pattern):
    """A pattern on the device as a graph."""
    keys = keys_of(pattern.indptr, pattern.indices)
    return Csr(pattern.n, *compressed(pattern.n, keys[keys != transposed(keys)]))


def symmetric_cuda(A, name="A"):
    """A symmetric matrix that lies on a GPU as :class:`DeviceCsr` with both triangles.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`meshsolve.sparse.matrix.as_symmetric`.
    """
    M = as_device_csr(A, name)
    positions = Positions(M)
    if positions.take is None:
        return M
    return DeviceCsr(M.n, positions.pattern.indptr, positions.pattern.indices, Positions.of(M, positions.take))


class Positions:
    """A symmetric matrix on the device as a pattern, and positions in place of its values.

    Parameters
    ----------
    M : DeviceCsr
    lower : bool
        Only the lower triangle of M counts.
    check : bool
        False where M is a pattern, which becomes that of M + M^T.

    Attributes
    ----------
    pattern : Csr of device arrays
        Both triangles.
    take : (nnz,) int64 or None
        1 + the position in ``M.data`` of each entry, 0 where M has none: see :meth:`of`. None: M has this pattern itself.

    Raises
    ------
    NotSymmetricError
        As :func:`meshsolve.sparse.matrix.as_symmetric`, from :meth:`check`.
    InvalidInputError
        ``lower``, and M has entries above its diagonal and none below.
    """

    def __init__(self, M, lower=False, check=True):
        xp = device.xp()
        self._given = self.pattern = Csr(M.n, M.indptr, M.indices.copy())      # the caller's index array may change later
        self.take = self._twin = None
        given = self.keys
        if lower:
            half = given[given >= transposed(given)]
            if len(half) <= M.n and len(half) < len(given) and not is_any(half != transposed(half)):
                raise upper_alone("A")
            both = self._take_keys(M.n, distinct(xp.concatenate([half, transposed(half)])))
            self.take = 1 + find(given, xp.maximum(both, transposed(both)))
            return
        twin = find(given, transposed(given))
        if not is_any(twin < 0):                            # the pattern is symmetric as it is
            self._twin = None, twin, self.pattern
        else:
            both = self._take_keys(M.n, distinct(xp.concatenate([given, transposed(given)])))
            here, twin = 1 + find(given, both), 1 + find(given, transposed(both))
            self.take, self._twin = xp.where(here > 0, here, twin), (here, twin, self.pattern)
        if check:
            self.check(M)

    @property
    def keys(self):
        """Those of the pattern, made anew."""
        return keys_of(self.pattern.indptr, self.pattern.indices)

    def taken(self, place):
        """``take`` of these entries."""
        return place + 1 if self.take is None else self.take[place]

    def _take_keys(self, n, keys):
        self.pattern = Csr(n, *compressed(n, keys))
        return keys

    def widen(self, pattern):
        """Join a symmetric pattern: entries that the matrix lacks are zeros."""
        own, n = self.keys, self.pattern.n
        both = distinct(device.xp().concatenate([own, keys_of(pattern.indptr, pattern.indices)]))
        if len(both) > len(own):
            self.take = self._found(own, both)
            self._take_keys(n, both)

    def within(self, keys, names=None):
        """``take`` for the entries of an analysed pattern, given by its keys.

        Raises
        ------
        PatternMismatchError
            This matrix has an entry outside; ``names`` translates its row and column to the caller's numbering.
        """
        xp, own = device.xp(), self.keys
        if len(keys) == len(own) and not is_any(keys != own):
            return self.take
        outside = find(keys, own) < 0
        if is_any(outside):
            raise PatternMismatchError.at(*_entry(own[xp.argmax(outside)], names))
        return self._found(own, keys)

    def _found(self, own, keys):
        """``take`` of each key, 0 for those that are not among its own."""
        xp, place = device.xp(), find(own, keys)
        return xp.where(place >= 0, self.taken(xp.maximum(place, 0)), 0) if len(own) else xp.zeros(len(keys), np.int64)

    def fits(self, M):
        """Whether another matrix has the same pattern."""
        given = self._given
        return (M.n, len(M.indices)) == (given.n, given.nnz) and not is_any(M.indptr != given.indptr) and not is_any(
            M.indices != given.indices)

    def check(self, M, name="A"):
        """Raise where M is not symmetric; nothing is asked of a matrix whose lower triangle alone counts."""
        if self._twin is None or len(M.data) == 0:
            return
        here, twin, pattern = self._twin
        xp = device.xp()
        values = M.data if here is None else _after_zero(M.data)
        values, twins = values if here is None else values[here], values[twin]
        if not is_any(values != twins):
            return
        keys, most = keys_of(pattern.indptr, pattern.indices), max_of_rows(pattern.indptr, values)
        gap, scale = xp.abs(values - twins), xp.minimum(most[keys >> 32], most[keys & MASK])
        excess = gap - SYMMETRY_TOLERANCE * scale
        if is_any(excess > 0):
            p = int(xp.argmax(excess / xp.maximum(scale, np.finfo(np.float64).tiny)))
            raise not_symmetric(name, *_entry(keys[p]), float(gap[p]), float(scale[p]))

    @staticmethod
    def of(M, take):
        """The values of M at such positions; zero where there is none."""
        return M.data if take is None else _after_zero(M.data)[take]


def _entry(key, names=None):
    """Row and column of an entry, on the host."""
    key = int(key)
    row, column = key >> 32, key & MASK
    return (row, column) if names is None else (int(names[row]), int(names[column]))


def _after_zero(data):
    xp = device.xp()
    return xp.concatenate([xp.zeros(1, np.float64), data])


def _row_of(M, p):
    xp = device.xp()
    return int(xp.searchsorted(M.indptr, xp.asarray([p]), side="right")[0]) - 1
