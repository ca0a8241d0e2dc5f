"""Intake: what users hand over becomes checked arrays, and results go back in the form they came.

Everything that is converted is converted here, with range checks, because the C++ core takes exactly int64 row pointers,
int32 indices and float64 or float32 values and refuses the rest.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError, NotSymmetricError

INT32_MAX = np.iinfo(np.int32).max
SYMMETRY_TOLERANCE = 1e-10          # |A - A^T| <= this times max|A| passes


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
    """

    n: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray | None = None

    @property
    def nnz(self):
        return len(self.indices)


def thread_count(threads=None):
    """The number of threads to use: ``threads``, else ``MESHSOLVE_NUM_THREADS``, else the cores this process may use."""
    source, given = "threads", threads
    if given is None and os.environ.get("MESHSOLVE_NUM_THREADS"):
        source, given = "MESHSOLVE_NUM_THREADS", os.environ["MESHSOLVE_NUM_THREADS"]
    if given is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        count = int(given)
    except (TypeError, ValueError, OverflowError):
        count = 0
    if count < 1 or isinstance(given, (bool, float, np.bool_, np.floating)):
        raise InvalidInputError(f"{source} has to be a positive integer, not {given!r}")
    return min(count, 1024)


def as_csr(A, name="A", dtype=np.float64):
    """A square matrix of any kind as :class:`Csr`; duplicates are summed, explicit zeros stay.

    Parameters
    ----------
    A : (n, n) scipy sparse array or matrix of any format, dense array, or CuPy sparse matrix
    dtype : numpy dtype of the values, or None for the pattern alone

    Raises
    ------
    InvalidInputError
        Not a matrix, not square, empty, complex where real is needed, indices out of range, NaN or infinity (names the
        first row), more than 2^31 - 1 rows.
    """
    A = _as_scipy_csr(A, name)
    n = A.shape[0]
    if n == 0:
        raise InvalidInputError(f"{name} is empty: it has no rows")
    if n > INT32_MAX:
        raise InvalidInputError(f"{name} has {n} rows; at most {INT32_MAX} are supported")
    indptr, indices, data = _stored(A, name)
    indices = _narrow(indices, name)
    data = None if dtype is None else _values(data, name, dtype)
    state, row = _core.check_csr(indptr, indices, n)
    if state == "invalid":
        raise InvalidInputError(f"{name}: row {row} has a column index outside 0..{n - 1} or a bad row pointer")
    if state == "unsorted":
        indptr, indices, data = _sort(n, indptr, indices, data)
    if data is not None:
        bad = _core.first_not_finite(data.view(np.float64) if data.dtype.kind == "c" else data)
        if bad >= 0:
            bad = bad // 2 if data.dtype.kind == "c" else bad
            row = int(np.searchsorted(indptr, bad, side="right")) - 1
            raise InvalidInputError(f"{name}: row {row}, column {indices[bad]} holds {data[bad]}")
    return Csr(n, indptr, indices, data)


def as_symmetric(A, name="A", lower=False, dtype=np.float64):
    """A symmetric matrix as :class:`Csr` with both triangles stored.

    Parameters
    ----------
    lower : bool
        Only the lower triangle of A is read; the upper one may be missing or anything.

    Raises
    ------
    NotSymmetricError
        |A - A^T| > 1e-10 max|A| somewhere; ``.row`` and ``.column`` name the worst entry.
    """
    M = as_csr(A, name, dtype)
    if lower:
        return Csr(M.n, *_core.mirror_lower(M.indptr, M.indices, M.data))
    state, row, column, gap = _core.symmetry(M.indptr, M.indices, M.data)
    largest = float(np.abs(M.data).max(initial=0.0))
    if gap > SYMMETRY_TOLERANCE * largest:
        raise NotSymmetricError(
            f"{name} is not symmetric: |{name}[{row}, {column}] - {name}[{column}, {row}]| = {gap:.3g}, largest entry "
            f"{largest:.3g}. Pass lower=True where only the lower triangle is given; unsymmetric ones are not for this function",
            row, column)
    if state == "pattern":          # entries with a twin of no weight: give both triangles the same pattern
        half = sp.csr_array((M.data, M.indices, M.indptr), shape=(M.n, M.n))
        return as_csr((half + half.T) * 0.5, name, dtype)
    return M


def symmetric_pattern(A, name="A"):
    """The pattern of A + A^T without its diagonal, for orderings and patches, as :class:`Csr` without values."""
    M = as_csr(A, name, dtype=None)
    return Csr(M.n, *_core.symmetrize(M.indptr, M.indices))


def as_perm(perm, n, name="perm"):
    """A permutation of 0..n-1 as (n,) int32; names the first index that is missing or given twice."""
    given = as_array(perm, name)
    if given.shape != (n,) or given.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} has to be {n} integers, not shape {given.shape} of {given.dtype}")
    if given.min(initial=0) < 0 or given.max(initial=0) >= n:
        raise InvalidInputError(f"{name} has values outside 0..{n - 1}")
    given = np.ascontiguousarray(given, np.int32)
    count = np.bincount(given, minlength=n)
    if (count != 1).any():
        raise InvalidInputError(f"{name} is no permutation: {int(np.argmax(count != 1))} occurs {count[count != 1][0]} times")
    return given


def as_indices(idx, n, name="fixed"):
    """Distinct row numbers as a sorted (k,) int32 array together with the order they were given in.

    A boolean mask of length n is taken as well.
    """
    given = as_array(idx, name)
    if given.dtype == bool and given.shape == (n,):
        given = np.flatnonzero(given)
    given = given.astype(np.int64) if given.size == 0 else given
    if given.ndim != 1 or given.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} has to be a list of row numbers, not shape {given.shape} of {given.dtype}")
    if given.size and (given.min() < 0 or given.max() >= n):
        raise InvalidInputError(f"{name} has row numbers outside 0..{n - 1}")
    if len(np.unique(given)) != len(given):
        values, count = np.unique(given, return_counts=True)
        raise InvalidInputError(f"{name} names row {values[count > 1][0]} more than once")
    return given.astype(np.int32)


def as_rhs(b, n, name="b"):
    """A right-hand side as a fresh or borrowed (n, k) Fortran-ordered float64 array, and the shape it came in.

    Raises
    ------
    InvalidInputError
        Not (n,) or (n, k), not real numbers, NaN or infinity.
    """
    given = as_array(b, name)
    if given.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} has to hold real numbers, not {given.dtype}")
    if given.ndim not in (1, 2) or given.shape[0] != n:
        raise InvalidInputError(f"{name} has to be ({n},) or ({n}, k), not {given.shape}")
    columns = np.asfortranarray(given.reshape(n, -1) if given.ndim == 2 else given[:, None], np.float64)
    bad = _core.first_not_finite(columns.ravel(order="F"))
    if bad >= 0:
        raise InvalidInputError(f"{name}: row {bad % n} holds {columns[bad % n, bad // n]}")
    return columns, given.shape


def from_any(x):
    """A CPU array of anything that is one: numpy, DLPack (torch, jax), buffers; a CuPy array is copied to the host."""
    if hasattr(x, "__cuda_array_interface__"):
        return x.get() if hasattr(x, "get") else np.from_dlpack(x.cpu())
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__"):
        return np.from_dlpack(x)
    return np.asarray(x)


def as_array(x, name):
    """Anything that numpy or DLPack can read as a CPU array; an array with masked entries is none.

    Raises
    ------
    InvalidInputError
    """
    try:
        given = from_any(x)
    except Exception as e:                                  # whatever foreign array types raise
        raise InvalidInputError(f"{name} is not an array: {e}") from e
    if np.ma.is_masked(x):
        raise InvalidInputError(f"{name} has masked entries: fill them first")
    return given


def as_choice(value, name, known):
    """``value`` where it is one of the words ``known``."""
    if not isinstance(value, str) or value not in known:
        words = ", ".join(f'"{word}"' for word in known)
        raise InvalidInputError(f"{name} has to be one of {words}, not {value!r}")
    return value


def as_real(value, name, least=-np.inf, above=-np.inf):
    """``value`` as a finite float, at least ``least`` and greater than ``above``."""
    number = value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
    is_real = isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)
    if is_real and abs(number) <= sys.float_info.max and number >= least and number > above:
        return float(number)
    kind = "positive number" if above == 0 else f"number of at least {least:g}" if least > -np.inf else "finite number"
    raise InvalidInputError(f"{name} has to be a {kind}, not {value!r}")


def _as_scipy_csr(A, name):
    """A as a square scipy matrix in compressed rows whose arrays are still to be checked."""
    if hasattr(A, "get") and hasattr(A, "nnz") and not sp.issparse(A):      # cupyx.scipy.sparse
        A = A.get()
    if not sp.issparse(A):
        if isinstance(A, (str, bytes)) or A is None:
            raise InvalidInputError(f"{name} has to be a matrix, not {type(A).__name__}")
        A = as_array(A, name)
        if A.dtype.kind not in "fiubc":
            raise InvalidInputError(f"{name} has to hold numbers, not {A.dtype}")
    if A.ndim != 2:
        raise InvalidInputError(f"{name} has to be a 2-D matrix, not of shape {A.shape}")
    if A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"{name} has to be square, not {A.shape[0]} x {A.shape[1]}")
    if not sp.issparse(A):
        return sp.csr_array(A.astype(np.complex128 if A.dtype.kind == "c" else np.float64, copy=False))
    if A.format == "csr":
        return A
    _check_before_conversion(A, name)
    return sp.csr_array(A)


def _check_before_conversion(A, name):
    """scipy converts without looking: an index out of range would write outside its arrays."""
    try:
        if A.format == "coo":
            type(A)((A.data, A.coords), shape=A.shape)
        elif A.format == "csc":
            _check_compressed(A.indptr, A.indices, A.data, 1, A.shape)
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
        raise InvalidInputError(f"{name} has {len(indices)} column indices and {len(data)} values")
    indptr = np.ascontiguousarray(indptr, np.int64)
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
        raise InvalidInputError(f"{name} is complex; real matrices are needed here")
    with np.errstate(over="ignore"):                       # a longdouble out of range becomes an infinity and is refused
        return np.ascontiguousarray(data, dtype)


def _sort(n, indptr, indices, data):
    """Sorted rows with duplicates summed, in fresh arrays: the caller's stay as they are."""
    values = np.ones(len(indices), np.int8) if data is None else data.copy()
    M = sp.csr_array((values, indices.copy(), indptr.copy()), shape=(n, n))
    M.sum_duplicates()
    return M.indptr.astype(np.int64), M.indices.astype(np.int32), None if data is None else np.ascontiguousarray(M.data)
