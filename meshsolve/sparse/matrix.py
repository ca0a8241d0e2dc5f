"""Matrices: what users hand over becomes a checked :class:`Csr`.

Everything that is converted is converted here, with range checks, because the C++ core takes exactly int64 row pointers,
int32 indices and float64 or float32 values and refuses the rest.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, foreign
from meshsolve.errors import InvalidInputError, NotSymmetricError
from meshsolve.memory import PER_ROW, ensure_rows
from meshsolve.options import INT32_MAX, as_flag, counted
from meshsolve.sparse.columns import as_array, from_any

LARGEST_SIZE = INT32_MAX - 1        # rows, vertices: n + 1 fits into 32 bits as well
SYMMETRY_TOLERANCE = 1e-10          # |A[i, j] - A[j, i]| <= this times the largest entries of row i and of row j passes
UNSYMMETRIC = "lu takes unsymmetric matrices; with lower=True cholesky and ildl read the lower triangle alone"


@dataclass(frozen=True)
class Csr:
    """A checked square matrix or pattern in compressed rows: indices ascending in each row, no duplicates.

    Attributes
    ----------
    n : int
        Rows and columns.
    indptr : (n + 1,) int64
    indices : (nnz,) int32
    data : (nnz,) float64 (or complex128) or None for a pattern
    diagonal : bool
        Of a pattern that is to be ordered: whether entries of the diagonal may be stored.
    """

    n: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray | None = None
    diagonal: bool = False

    @property
    def nnz(self):
        """Stored entries."""
        return len(self.indices)

    def graph(self):
        """The pattern without its diagonal; itself where none may be stored."""
        return Csr(self.n, *_core.drop_diagonal(self.indptr, self.indices)) if self.diagonal else self

    def diagonal_values(self, threads=1):
        """(n,) the diagonal of a matrix of float64, zero where nothing is stored."""
        return _core.diagonal(self.indptr, self.indices, self.data, threads)

    def row_sums(self, threads=1):
        """(n,) the sums of the rows of a matrix of float64, and (n,) those of their moduli."""
        return _core.row_sums(self.indptr, self.data, threads=threads)

    def same_as(self, M):
        """Whether the Csr M stores the same entries."""
        return _core.same_pattern(self.indptr, self.indices, M.indptr, M.indices)

    def to_scipy(self):
        """The (n, n) csr_array on the same arrays; a pattern gets ones of int8."""
        data = np.ones(self.nnz, np.int8) if self.data is None else self.data
        return sp.csr_array((data, self.indices, self.indptr), shape=(self.n, self.n))


def as_csr(A, name="A", dtype=np.float64, per_row=0, threads=1):
    """A square matrix of any kind as :class:`Csr`; duplicates are summed, explicit zeros stay.

    Parameters
    ----------
    A : (n, n) scipy sparse array or matrix of any format, dense array, or CuPy sparse matrix
    dtype : numpy dtype of the values, or None for the pattern alone
    per_row : int
        Bytes that the caller will take for each row, at the least: asked for before a matrix is looked at that has few entries
        and more rows than fit.
    threads : int
        How many check the entries.

    Raises
    ------
    OutOfMemoryError
        The rows alone take more than there is.
    InvalidInputError
        Not a matrix, not square, empty, complex where real is needed, indices out of range, NaN or infinity (names the
        first row), more than 2^31 - 2 rows.
    """
    A = _as_scipy_csr(A, name, per_row)
    n = A.shape[0]
    if n == 0:
        raise InvalidInputError(f"{name} is empty: it has no rows")
    indptr, indices, data = _stored(A, name)
    indices = _narrow(indices, name)
    data = None if dtype is None else _values(data, name, dtype)
    state, row = _core.check_csr(indptr, indices, n, threads)
    if state == "invalid":
        raise InvalidInputError(f"{name}: row {row} has a column index outside 0..{n - 1} or a bad row pointer")
    if state == "unsorted":
        indptr, indices, data = _sort(n, indptr, indices, data)
    if data is not None:
        bad = _core.first_not_finite(data.view(np.float64) if data.dtype.kind == "c" else data, threads)
        if bad >= 0:
            bad = bad // 2 if data.dtype.kind == "c" else bad
            row = int(np.searchsorted(indptr, bad, side="right")) - 1
            raise InvalidInputError(f"{name}: row {row}, column {indices[bad]} holds {data[bad]}")
    return Csr(n, indptr, indices, data)


def is_complex(A):
    """Whether a matrix of any kind holds complex numbers; what is no matrix does not."""
    kind = getattr(getattr(A, "dtype", None), "kind", None)
    if kind is None:
        with contextlib.suppress(Exception):
            known = foreign.as_known(A, "A")
            kind = (known if sp.issparse(known) else from_any(known)).dtype.kind
    return kind == "c"


def as_symmetric(A, name="A", lower=False, threads=1, per_row=0):
    """A symmetric matrix as :class:`Csr` with both triangles stored.

    Parameters
    ----------
    A : (n, n) matrix, see :func:`as_csr`
    lower : bool
        Only the lower triangle of A is read; the upper one may be missing or anything.
    threads : int
        How many check the entries and compare the triangles.
    per_row : int
        As for :func:`as_csr`.

    Raises
    ------
    InvalidInputError, OutOfMemoryError
        As :func:`as_csr`; with ``lower`` also where A has entries above its diagonal and none below.
    NotSymmetricError
        |A[i, j] - A[j, i]| > 1e-10 times the largest entry of row i or of row j; ``.row`` and ``.column`` name the worst.
    """
    M = as_csr(A, name, per_row=per_row, threads=threads)
    if as_flag(lower, "lower"):
        whole = Csr(M.n, *_core.mirror_lower(M.indptr, M.indices, M.data))
        if whole.nnz <= M.n and whole.nnz < M.nnz:
            _require_lower(M, whole, name)
        return whole
    state, row, column, gap, scale = _core.symmetry(M.indptr, M.indices, M.data, threads)
    if gap > SYMMETRY_TOLERANCE * scale:
        raise not_symmetric(name, row, column, gap, scale)
    return _with_twins(M) if state == "pattern" else M


def _with_twins(M):
    """(M + M^T) / 2 where entries of no weight lack their twins. A sum of two matrices would lose zeros that are stored on purpose, and
    overflow."""
    A = M.to_scipy().tocoo()
    both = sp.coo_array((np.tile(0.5 * A.data, 2), (np.append(A.row, A.col), np.append(A.col, A.row))), shape=A.shape).tocsr()
    return as_csr(both)


def _require_lower(M, whole, name):
    """Raise where ``whole``, made of the lower triangle of M, is but a diagonal: M was the other triangle."""
    if (whole.indices == np.repeat(np.arange(M.n), np.diff(whole.indptr))).all():
        raise upper_alone(name)


def upper_alone(name):
    """The error for ``lower=True`` of an upper triangle."""
    return InvalidInputError(f"lower=True reads the lower triangle of {name}, which has entries above its diagonal alone: give "
                             f"{name}.T, or both triangles without lower=True")


def not_symmetric(name, row, column, gap, scale):
    """The error for one entry; ``scale`` is the largest one of its row or of its column, the smaller of the two."""
    return NotSymmetricError(
        f"{name} is not symmetric: |{name}[{row}, {column}] - {name}[{column}, {row}]| = {gap:.3g}, where these rows have "
        f"entries of {scale:.3g}. {UNSYMMETRIC}", row, column)


def symmetric_pattern(A, name="A"):
    """The pattern of A + A^T without its diagonal, for orderings and patches, as :class:`Csr` without values."""
    M = as_csr(A, name, dtype=None, per_row=PER_ROW["pattern"])
    return Csr(M.n, *_core.symmetrize(M.indptr, M.indices))


def narrow_ptr(indptr):
    """Row or column pointers as int32 where they fit, the type of the indices: scipy would widen these else."""
    return indptr if indptr[-1] > INT32_MAX else indptr.astype(np.int32)


def _as_scipy_csr(A, name, per_row):
    """A as a square scipy matrix in compressed rows whose arrays are still to be checked."""
    if hasattr(A, "get") and hasattr(A, "nnz") and not sp.issparse(A):      # cupyx.scipy.sparse
        A = A.get()
    A = foreign.as_known(A, name)
    if not sp.issparse(A):
        if hasattr(A, "matvec"):
            raise InvalidInputError(f"{name} has to be a matrix with its entries, not {type(A).__name__}: cg and sqmr take an operator as "
                                    "A or as M, what orders or factors does not")
        if not _is_array_like(A):
            raise InvalidInputError(f"{name} has to be a matrix, not {type(A).__name__}{_hint_for(A)}")
        A = as_array(A, name)
        if A.dtype.kind not in "fiubc":
            raise InvalidInputError(f"{name} has to hold numbers, not {A.dtype}{foreign.hint_for_edges(A)}")
    if A.ndim != 2:
        raise InvalidInputError(f"{name} has to be a 2-D matrix, not of shape {A.shape}")
    if A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"{name} has to be square, not {A.shape[0]} x {A.shape[1]}{foreign.hint_for_edges(A)}")
    if A.shape[0] > LARGEST_SIZE:
        raise InvalidInputError(f"{name} has {counted(A.shape[0], 'row')}; at most {LARGEST_SIZE} are supported")
    if not sp.issparse(A):
        return sp.csr_array(A.astype(np.complex128 if A.dtype.kind == "c" else np.float64, copy=False))
    ensure_rows(A, name, per_row)
    if A.format == "csr":
        return A
    check_before_conversion(A, name)
    return sp.csr_array(A.astype(np.float64) if A.dtype.kind in "iub" else A)          # duplicates of small integers are summed here


def _hint_for(A):
    """What makes a matrix of an object that is none, as the end of a message."""
    if hasattr(A, "faces"):
        return ": cotan_laplacian or graph_laplacian makes one of a mesh"
    if isinstance(A, (dict, set, frozenset)) or hasattr(A, "__next__"):
        return f": {foreign.EDGES}"
    if callable(A):
        return ": cg and sqmr take scipy.sparse.linalg.LinearOperator((n, n), matvec=f) of a function f of a vector"
    return ""


def _is_array_like(A):
    """Whether A offers itself as an array, or is a list of rows: numpy would also take the vertices of a graph for one."""
    return isinstance(A, (list, tuple, memoryview)) or any(hasattr(A, f"__{name}__") for name in (
        "array", "array_interface", "cuda_array_interface", "dlpack"))


def check_before_conversion(A, name):
    """Raise if an index of a scipy sparse array is out of range: scipy would convert it and write outside its arrays."""
    try:
        if A.format == "coo":
            type(A)((A.data, A.coords), shape=A.shape)
        elif A.format == "csr":
            _check_compressed(A.indptr, A.indices, A.data, 1, A.shape)
        elif A.format == "csc":
            _check_compressed(A.indptr, A.indices, A.data, 1, A.shape[::-1])
        elif A.format == "bsr":
            _check_compressed(A.indptr, A.indices, A.data, 3, np.divide(A.shape, A.data.shape[1:]))
        elif A.format == "dia":
            type(A)((A.data, A.offsets), shape=A.shape)
        elif A.format == "lil" and [*map(len, A.rows)] != [*map(len, A.data)]:
            raise ValueError("a row has not as many column indices as values")
    except (ValueError, TypeError) as e:
        raise InvalidInputError(f"{name}: {e}") from e


def _check_compressed(indptr, indices, data, ndim, shape):
    """Columns or rows of blocks: ``shape`` counts the pointers' ranges and the values that indices may have."""
    if not indptr.ndim == indices.ndim == 1 or data.ndim != ndim or not {indptr.dtype.kind, indices.dtype.kind} <= {"i", "u"}:
        raise ValueError("indptr and indices have to be lists of integers, data numbers")
    if len(indptr) != shape[0] + 1 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any() or indptr[-1] > len(indices):
        raise ValueError("indptr does not ascend from 0 to the number of entries")
    if len(indices) != len(data) or (len(indices) and not 0 <= indices.min() <= indices.max() < shape[1]):
        raise ValueError(f"indices and data differ in length, or an index is outside 0..{shape[1] - 1:g}")


def _stored(A, name):
    """(indptr, indices, data) of a csr matrix: integers, lengths that fit, without the spare room behind the last row."""
    indptr, indices, data = (np.asarray(part) for part in (A.indptr, A.indices, A.data))
    if indptr.ndim != 1 or indices.ndim != 1 or data.ndim != 1 or indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise InvalidInputError(f"{name}: indptr and indices have to be lists of integers, data a list of numbers")
    if len(indices) != len(data):
        raise InvalidInputError(f"{name} has {len(indices)} column indices and {counted(len(data), 'value')}")
    indptr = np.array(indptr, np.int64)                    # never the caller's, who may change it later
    used = int(indptr[-1]) if len(indptr) else -1
    return (indptr, indices[:used], data[:used]) if 0 <= used <= len(indices) else (indptr, indices, data)


def _narrow(indices, name):
    if indices.dtype == np.int32:
        return np.ascontiguousarray(indices)
    if indices.size and (indices.min() < 0 or indices.max() > INT32_MAX):
        raise InvalidInputError(f"{name} has column indices outside 0..{INT32_MAX}")
    return np.ascontiguousarray(indices, np.int32)


def _values(data, name, dtype):
    if data.dtype.kind not in "fiubc":
        raise InvalidInputError(f"{name} has to hold numbers, not {data.dtype}")
    if data.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise InvalidInputError(f"{name} is complex; real matrices are needed here: lu takes complex ones")
    if data.dtype == dtype:
        return np.ascontiguousarray(data)
    with np.errstate(over="ignore"):                       # a longdouble out of range becomes an infinity and is refused
        return np.ascontiguousarray(data, dtype)


def _sort(n, indptr, indices, data):
    """Sorted rows with duplicates summed, in fresh arrays: the caller's stay as they are."""
    values = np.ones(len(indices), np.int8) if data is None else data.copy()
    M = sp.csr_array((values, indices.copy(), indptr.copy()), shape=(n, n))
    M.sum_duplicates()
    return M.indptr.astype(np.int64), M.indices.astype(np.int32), None if data is None else np.ascontiguousarray(M.data)
