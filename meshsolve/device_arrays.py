"""Intake of what lies on the GPU: checked where it is, never copied to the host but for the pattern of a matrix, once.

Twin of `meshsolve.arrays`. Orderings and the analysis want the pattern on the host; the values follow by positions: the host
carries, in place of values, the position of each in the caller's matrix through every step (meshes, constraints, the
analysed pattern), and the values are gathered on the device.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.arrays import LARGEST_SIZE, SYMMETRY_TOLERANCE, Csr
from meshsolve.errors import InvalidInputError, NotSymmetricError


class DeviceCsr(NamedTuple):
    """A square matrix in compressed rows on the device; indices ascend in each row, no duplicates."""

    n: int
    indptr: object              # int64
    indices: object             # int32
    data: object                # float64


def on_device(A):
    """Whether a matrix, sparse or dense, or a vector lies on a GPU."""
    sparse = not sp.issparse(A) and hasattr(A, "nnz")       # scipy's never do, and where damaged may fail to count their entries
    return device.holds(A) or (sparse and device.holds(getattr(A, "data", None)))


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
        raise InvalidInputError(f"{name} has {n} rows; 1 to {LARGEST_SIZE} are supported")
    indptr, indices, data = _dense_parts(xp.asarray(A)) if device.holds(A) else _sparse_parts(A)
    if data.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has to hold real numbers, not {data.dtype}")
    M = DeviceCsr(n, *map(xp.ascontiguousarray, (indptr, indices, data), (np.int64, np.int32, np.float64)))
    if len(M.indices) and not (int(M.indices.min()) >= 0 and int(M.indices.max()) < n):
        raise InvalidInputError(f"{name} has a column index outside 0..{n - 1}")
    if not bool(xp.isfinite(M.data).all()):
        p = int(xp.argmin(xp.isfinite(M.data)))
        raise InvalidInputError(f"{name}: row {_row_of(M, p)}, column {int(M.indices[p])} holds {float(M.data[p])}")
    return M


def _dense_parts(A):
    xp = device.xp()
    rows, columns = xp.nonzero(A)
    indptr = xp.zeros(A.shape[0] + 1, np.int64)
    indptr[1:] = xp.cumsum(xp.bincount(rows, minlength=A.shape[0]))
    return indptr, columns, A[rows, columns]


def _sparse_parts(A):
    A = A.tocsr()
    if not A.has_canonical_format:
        A = A.copy()
        A.sum_duplicates()
    used = int(A.indptr[-1])
    return A.indptr, A.indices[:used], A.data[:used]


def as_device_rhs(b, n, name="b"):
    """A right-hand side on the device as an (n, k) float64 array, C or F contiguous, and the shape it came in.

    Raises
    ------
    InvalidInputError
        Not (n,) or (n, k), not real numbers, NaN or infinity.
    """
    xp = device.xp()
    if b.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has to hold real numbers, not {b.dtype}")
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise InvalidInputError(f"{name} has to be ({n},) or ({n}, k), not {tuple(b.shape)}")
    columns = (b if b.ndim == 2 else b[:, None]).astype(np.float64, copy=False)
    if not (columns.flags.c_contiguous or columns.flags.f_contiguous):
        columns = xp.ascontiguousarray(columns)
    if columns.size and not bool(xp.isfinite(columns).all()):
        row = int(xp.argmin(xp.isfinite(columns).all(axis=1)))
        raise InvalidInputError(f"{name}: row {row} holds a value that is not finite")
    return columns, b.shape


class Positions:
    """A symmetric matrix on the device as the host sees it: its pattern, and positions in place of its values.

    Parameters
    ----------
    M : DeviceCsr
    lower : bool
        Only the lower triangle of M counts.

    Attributes
    ----------
    host : Csr
        Both triangles; the values are 1 + the position in ``M.data``. What the host makes of them goes to :meth:`of`.

    Raises
    ------
    NotSymmetricError
        As :func:`meshsolve.arrays.as_symmetric`, from :meth:`check`.
    """

    def __init__(self, M, lower=False):
        self._indptr, self._indices, self._twin = M.indptr, M.indices, None
        stored = Csr(M.n, device.to_host(M.indptr), device.to_host(M.indices), np.arange(1.0, len(M.indices) + 1))
        if lower:
            self.host = Csr(M.n, *_core.mirror_lower(stored.indptr, stored.indices, stored.data))
            return
        turned = stored.to_scipy().T.tocsr()
        turned = Csr(M.n, turned.indptr.astype(np.int64), turned.indices.astype(np.int32), turned.data)
        indptr, indices = _core.unite(stored.indptr, stored.indices, turned.indptr, turned.indices)
        here, twin = (_core.embed(indptr, indices, half.indptr, half.indices, half.data)[1] for half in (stored, turned))
        self.host = Csr(M.n, indptr, indices, np.where(here > 0, here, twin))
        self._twin = tuple(device.to_device(half.astype(np.int64)) for half in (here, twin))
        self.check(M)

    def fits(self, M):
        """Whether another matrix has the same pattern."""
        xp = device.xp()
        return len(M.indices) == len(self._indices) and bool(xp.array_equal(M.indptr, self._indptr)) and bool(
            xp.array_equal(M.indices, self._indices))

    def check(self, M, name="A"):
        """Raise where M is not symmetric; nothing is asked of a matrix whose lower triangle alone counts."""
        if self._twin is None or len(M.data) == 0:
            return
        xp, values = device.xp(), _after_zero(M.data)
        gap, largest = xp.abs(values[self._twin[0]] - values[self._twin[1]]), float(xp.abs(M.data).max())
        p = int(xp.argmax(gap))
        if float(gap[p]) > SYMMETRY_TOLERANCE * largest:
            row, column = int(np.searchsorted(self.host.indptr, p, side="right")) - 1, int(self.host.indices[p])
            raise NotSymmetricError(
                f"{name} is not symmetric: |{name}[{row}, {column}] - {name}[{column}, {row}]| = {float(gap[p]):.3g}, largest "
                f"entry {largest:.3g}. Pass lower=True where only the lower triangle is given; unsymmetric ones are not for this "
                "function",
                row, column)

    @staticmethod
    def take(data):
        """Positions that the host has moved about, as an index array on the device for :meth:`of`."""
        return device.to_device(data.astype(np.int64))

    @staticmethod
    def of(M, take):
        """The values of M at such positions; zero where there is none."""
        return _after_zero(M.data)[take]


def _after_zero(data):
    xp = device.xp()
    return xp.concatenate([xp.zeros(1, np.float64), data])


def _row_of(M, p):
    xp = device.xp()
    return int(xp.searchsorted(M.indptr, xp.asarray([p]), side="right")[0]) - 1
