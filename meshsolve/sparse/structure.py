"""The arrays of a scipy sparse matrix, checked before scipy or the core reads them.

scipy's C++ code trusts pointers and indices: with damaged ones it reads and writes outside of its arrays. Every matrix of a user or
of a file passes :func:`checked` first. Only a square matrix in compressed rows needs no such pass, where
:func:`meshsolve.sparse.matrix.as_csr` checks the same in the core. Cost: O(n + nnz), a few passes over pointers and indices.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError

NUMBERS = "fiubc"               # kinds of dtypes that hold numbers


def checked(A: Any, name: str) -> Any:
    """Return a scipy sparse matrix of any format as one that scipy may convert: on the same arrays where they are valid.

    Parameters
    ----------
    A : sparse array or matrix of scipy
        With two dimensions, of any shape.
    name : str
        For messages.

    Returns
    -------
    sparse array or matrix
        Another object, so that flags of the given one, such as ``has_sorted_indices``, are not trusted. Values of float16 and of another
        byte order, which scipy cannot convert, are converted. A ``dok`` becomes a ``coo``, a ``lil`` a ``csr``.

    Raises
    ------
    InvalidInputError
        Not two dimensions, values that are no numbers, or an index outside the matrix. Pointers that do not ascend from 0 to the number
        of entries. Arrays of different lengths or of another type.
    """
    with _named(name):
        if len(A.shape) != 2:
            raise InvalidInputError(f"{name} must be a 2-D matrix, got of shape {A.shape}")
        return CHECKS.get(A.format, _converted)(A)


def as_column(b: Any, name: str) -> Any:
    """Return a sparse vector of scipy, (n,), as a checked matrix of one column, (n, 1)."""
    with _named(name):
        if b.format == "csr":
            row = sp.csr_array((1, b.shape[0]))
            row.indptr, row.indices, row.data = b.indptr, b.indices, b.data
            return checked(row, name).T
        if b.format not in ("coo", "dok"):
            raise ValueError(f"a {b.format} must have two dimensions")
        given = b if b.format == "coo" else b.tocoo()
        if len(given.coords) != 1:
            raise ValueError(f"a vector has one list of indices, not {len(given.coords)}")
        column = sp.coo_array((b.shape[0], 1))
        column.data, column.coords = given.data, (given.coords[0], np.zeros_like(given.coords[0]))
        return checked(column, name)


def rectangular(A: Any, name: str) -> sp.csr_array:
    """Return a scipy sparse matrix as a csr_array with sorted rows without duplicates; on the same arrays if it is one."""
    A = checked(A, name)
    made = sp.csr_array(A if A.format == "csr" or A.dtype.kind not in "iub" else A.astype(np.float64))
    if not made.has_canonical_format:
        made = made.copy()
        made.sum_duplicates()
    return made


@contextlib.contextmanager
def _named(name):
    """Translate errors about the arrays of a matrix."""
    try:
        yield
    except InvalidInputError:
        raise
    except (ValueError, TypeError, AttributeError, IndexError, OverflowError) as e:
        raise InvalidInputError(f"{name} is not a valid sparse matrix: {e}") from e


def _compressed(A):
    """Check compressed rows or columns, of numbers or of blocks, and return them without the unused memory after the last row."""
    indptr, indices, data = _integers(A.indptr, "indptr"), _integers(A.indices, "indices"), _values(A.data)
    rows, columns = A.shape if A.format != "csc" else A.shape[::-1]
    if A.format == "bsr":
        if data.ndim != 3 or 0 in data.shape[1:] or rows % data.shape[1] or columns % data.shape[2]:
            raise ValueError(f"blocks of shape {data.shape[1:]} do not fit a matrix of {rows} x {columns}")
        rows, columns = rows // data.shape[1], columns // data.shape[2]
    elif data.ndim != 1:
        raise ValueError("data must be a list of numbers")
    if len(indices) != len(data):
        raise ValueError(f"indices and data differ in length, {len(indices)} and {len(data)}")
    if len(indptr) != rows + 1 or indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any() or indptr[-1] > len(indices):
        raise ValueError("indptr does not ascend from 0 to the number of entries")
    used = int(indptr[-1])
    indices = indices[:used]
    if used and not 0 <= indices.min() <= indices.max() < columns:
        raise ValueError(f"an index is outside 0..{columns - 1}")
    return type(A)((data[:used], indices, indptr), shape=A.shape)


def _coordinates(A):
    coords, data = [_integers(x, "coords") for x in A.coords], _values(A.data)
    if len(coords) != 2 or data.ndim != 1 or {len(x) for x in coords} != {len(data)}:
        raise ValueError("row, column and data must be lists of one length")
    for index, size, what in zip(coords, A.shape, ("row", "column"), strict=True):
        if len(index) and index.min() < 0:
            raise ValueError(f"negative {what} index found: {index.min()}")
        if len(index) and index.max() >= size:
            raise ValueError(f"{what} index {index.max()} exceeds matrix dimension {size}")
    return type(A)((data, tuple(coords)), shape=A.shape)


def _diagonals(A):
    offsets, data = _integers(A.offsets, "offsets"), _values(A.data)
    if data.ndim != 2 or len(offsets) != len(data) or len(np.unique(offsets)) != len(offsets):
        raise ValueError("offsets must be distinct, one for each row of data")
    inside = (offsets > -A.shape[0]) & (offsets < A.shape[1])           # others hold nothing, and could overflow
    return type(A)((data, offsets) if inside.all() else (data[inside], offsets[inside]), shape=A.shape)


def _lists(A):
    """Check lists of rows; return a csr of the same kind, array or matrix."""
    rows, data = A.rows, A.data
    if len(rows) != A.shape[0] or [*map(len, rows)] != [*map(len, data)]:
        raise ValueError("a row has not as many column indices as values")
    count = np.fromiter(map(len, rows), np.int64, len(rows))
    indices = np.array([j for row in rows for j in row] or np.zeros(0, np.int64))
    values = np.array([x for row in data for x in row] or [], None if count.any() else A.dtype)
    kind = sp.csr_array if isinstance(A, sp.sparray) else sp.csr_matrix
    made = sp.csr_array((A.shape[0], A.shape[1]))
    made.indptr, made.indices, made.data = np.concatenate([[0], np.cumsum(count)]), indices, values
    return kind(_compressed(made))


def _converted(A):
    """Return the coo of a ``dok``, whose conversion is not native code, or of a format that is unknown here."""
    _values(np.zeros(0, A.dtype))
    return _coordinates(A.tocoo())


CHECKS = {"csr": _compressed, "csc": _compressed, "bsr": _compressed, "coo": _coordinates, "dia": _diagonals, "lil": _lists}


def _integers(x, what):
    x = np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x)
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise ValueError(f"{what} must be a list of integers")
    if x.dtype.kind == "u" and x.size and x.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{what} holds {x.max()}")
    return x if x.dtype in (np.int32, np.int64) and x.dtype.isnative else x.astype(np.int64)


def _values(x):
    x = np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x)
    if x.dtype.kind not in NUMBERS:
        raise ValueError(f"it must hold numbers, got {x.dtype}")
    if x.dtype == np.float16:
        return x.astype(np.float32)
    return x if x.dtype.isnative else x.astype(x.dtype.newbyteorder("="))
