"""Matrices that are summed again and again in the same places: finite elements, normal equations.

The pattern is found once; each later matrix is one pass over its values, keeps zeros, and fits the factor that the first one was
analysed for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.options import INT32_MAX, as_integer, counted, thread_count
from meshsolve.sparse.columns import as_array, read_only
from meshsolve.sparse.matrix import narrow_ptr
from meshsolve.types import ArrayLike, Matrix, Sparse


class Assembly:
    """A plan that sums contributions into a sparse matrix.

    What ``scipy.sparse.coo_array((values, (rows, columns))).tocsr()`` makes, again and again, in a fraction of its time: the places
    are sorted once. Zeros stay stored, so the pattern never changes.

    Parameters
    ----------
    rows, columns : (k,) integers
        Where each contribution goes; several may go to one place.
    shape : int or (int, int)
        Of the matrix; one number for a square one.
    threads : int, optional
        Default: every core, or ``MESHSOLVE_NUM_THREADS``. Sums do not depend on it.

    Attributes
    ----------
    shape : (int, int)
    nnz : int
        Stored entries of each matrix.

    Raises
    ------
    InvalidInputError
        Not integers, arrays of different lengths, a place outside the matrix, 2^31 contributions or more.

    Notes
    -----
    O(k log k) time once, O(k) for each matrix; 12 bytes a contribution and 20 an entry.

    Examples
    --------
    >>> import meshsolve as ms
    >>> plan = ms.operators.Assembly([0, 0, 1, 0], [0, 1, 1, 0], 2)
    >>> plan([1.0, 2.0, 3.0, 4.0]).toarray().tolist()
    [[5.0, 2.0], [0.0, 3.0]]
    """

    def __init__(self, rows: ArrayLike, columns: ArrayLike, shape: int | tuple[int, int], threads: int | None = None) -> None:
        self.shape, self._threads = _shape(shape), thread_count(threads)
        row, column = _places(rows, "rows", self.shape[0]), _places(columns, "columns", self.shape[1])
        if len(row) != len(column):
            raise InvalidInputError(f"rows and columns have to be as long as each other, not {len(row)} and {len(column)}")
        if len(row) > INT32_MAX:
            raise InvalidInputError(f"{len(row)} contributions are more than 2^31 - 1")
        self._count = len(row)
        self._given: tuple[int, ...] = (len(row),)
        place = row * self.shape[1] + column
        order = np.argsort(place, kind="stable")
        place = place[order]
        begin = np.flatnonzero(np.diff(place, prepend=-1))
        self._source, self._ptr = order.astype(np.int32), np.append(begin, len(order)).astype(np.int64)
        row, column = np.divmod(place[begin], self.shape[1])
        self._indices = read_only(column.astype(np.int32))
        self._indptr = read_only(narrow_ptr(np.searchsorted(row, np.arange(self.shape[0] + 1)).astype(np.int64)))

    @classmethod
    def of_elements(cls, dofs: ArrayLike, n: int, threads: int | None = None) -> Assembly:
        """The plan of a finite element matrix: element e adds an (m, m) block to the rows and columns ``dofs[e]``.

        Parameters
        ----------
        dofs : (e, m) integers
        n : int
            Rows of the matrix.

        Returns
        -------
        Assembly
            It takes (e, m, m) arrays.
        """
        given = as_array(dofs, "dofs")
        if given.ndim != 2:
            raise InvalidInputError(f"dofs has to be (elements, unknowns of one), not {given.shape}")
        count, m = given.shape
        made = cls(np.repeat(given, m, axis=1).ravel(), np.tile(given, (1, m)).ravel(), n, threads)
        made._given = (count, m, m)
        return made

    @property
    def nnz(self) -> int:
        return len(self._indices)

    def __call__(self, values: ArrayLike) -> Sparse:
        """The matrix of these contributions.

        Parameters
        ----------
        values : (k,) array, or (e, m, m) of a plan of elements, real or complex

        Returns
        -------
        csr_array of float64 or complex128
            Its index arrays are those of the plan and cannot be written to.

        Raises
        ------
        InvalidInputError
            Another shape, or no numbers.
        """
        given = as_array(values, "values")
        if given.shape != self._given or given.dtype.kind not in "fiubc":
            raise InvalidInputError(f"values has to be {self._given} numbers, not {given.shape} of {given.dtype}")
        dtype = np.complex128 if given.dtype.kind == "c" else np.float64
        flat = np.ascontiguousarray(given, dtype).reshape(-1).view(np.float64)
        data = _core.assemble(self._ptr, self._source, dtype().itemsize // 8, flat, self._threads)
        return _csr(data.view(dtype), self._indices, self._indptr, self.shape)

    def __repr__(self) -> str:
        return f"Assembly({self._count:,} contributions to {counted(self.nnz, 'entry')} of {self.shape[0]:,} x {self.shape[1]:,})"


class NormalEquations:
    """A plan for J^T D J, the matrix of least squares: Gauss-Newton steps, bundle adjustment, interior points.

    What ``J.T @ sp.diags_array(weights) @ J`` makes, in a fraction of its time and symmetric to the bit, for any later J of the same
    pattern. Every place where the product may have an entry is stored.

    Parameters
    ----------
    J : (m, n) sparse matrix of any format, or dense
        The first one; its pattern counts.
    threads : int, optional
        Default: every core, or ``MESHSOLVE_NUM_THREADS``. Results do not depend on it.

    Attributes
    ----------
    shape : (n, n)
    nnz : int
        Stored entries of each product.

    Raises
    ------
    InvalidInputError
        Not a matrix of real numbers.

    Notes
    -----
    O(sum of the squared lengths of the rows of J) time for each product, half of what the general one takes. Memory: that of J's
    pattern twice, of the product's twice, and n numbers for each thread.

    Examples
    --------
    >>> import meshsolve as ms
    >>> plan = ms.operators.NormalEquations([[1.0, 2.0], [0.0, 3.0]])
    >>> plan([[1.0, 2.0], [0.0, 3.0]], [1.0, 10.0]).toarray().tolist()
    [[1.0, 2.0], [2.0, 94.0]]
    """

    def __init__(self, J: Matrix, threads: int | None = None) -> None:
        J = _real_csr(J)
        self._threads, (self._rows, n) = thread_count(threads), J.shape
        ones = sp.csr_array((np.ones(J.nnz), J.indices, J.indptr), shape=J.shape)
        product = (ones.T @ ones).tocsr()
        product.sort_indices()
        columns = sp.csr_array((np.arange(J.nnz, dtype=np.float64), J.indices, J.indptr), shape=J.shape).tocsc()
        numbers = sp.csr_array((np.arange(product.nnz, dtype=np.float64), product.indices, product.indptr), shape=product.shape)
        self.shape = (n, n)
        self._indices, self._indptr = read_only(product.indices.astype(np.int32)), read_only(narrow_ptr(product.indptr))
        self._plan = (J.indptr.astype(np.int64), J.indices.astype(np.int32), columns.indptr.astype(np.int64),
                      columns.indices.astype(np.int32), columns.data.astype(np.int64), product.indptr.astype(np.int64),
                      self._indices, numbers.T.tocsr().data.astype(np.int64))

    @property
    def nnz(self) -> int:
        return len(self._indices)

    def __call__(self, J: Matrix, weights: ArrayLike | None = None) -> Sparse:
        """J^T D J.

        Parameters
        ----------
        J : (m, n) matrix of the pattern that was planned
            Entries that it lacks are zeros.
        weights : (m,) array, optional
            The diagonal of D, of any sign; ones by default.

        Returns
        -------
        (n, n) csr_array of float64
            Its index arrays are those of the plan and cannot be written to.

        Raises
        ------
        InvalidInputError
            Another shape, an entry outside the pattern that was planned, no real numbers.
        """
        values, weights = self._values(_real_csr(J)), self._weights(weights)
        data = _core.weigh_normal(*self._plan, values, weights, self._threads)
        return _csr(data, self._indices, self._indptr, self.shape)

    def _values(self, J):
        shape, (indptr, indices) = (self._rows, self.shape[1]), self._plan[:2]
        if J.shape != shape:
            raise InvalidInputError(f"J has to be {shape[0]} x {shape[1]}, not {J.shape[0]} x {J.shape[1]}")
        if J.indices.shape == indices.shape and np.array_equal(J.indptr, indptr) and np.array_equal(J.indices, indices):
            return np.ascontiguousarray(J.data, np.float64)
        known, keys = _keys(indptr, indices, shape), _keys(J.indptr, J.indices, shape)
        place = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        outside = known[place] != keys if len(known) else np.ones(len(keys), bool)
        if outside.any():
            row, column = np.divmod(keys[np.argmax(outside)], shape[1])
            raise InvalidInputError(f"J has an entry at row {row}, column {column} that the planned one has not")
        values = np.zeros(len(indices))
        values[place] = J.data
        return values

    def _weights(self, weights):
        if weights is None:
            return np.empty(0)
        given = as_array(weights, "weights")
        if given.shape != (self._rows,) or given.dtype.kind not in "fiub":
            raise InvalidInputError(f"weights has to be ({self._rows},) real numbers, not {given.shape} of {given.dtype}")
        return np.ascontiguousarray(given, np.float64)

    def __repr__(self) -> str:
        return (f"NormalEquations(J of {self._rows:,} x {self.shape[1]:,}, {counted(len(self._plan[1]), 'entry')}; "
                f"{self.nnz:,} of the product)")


def _shape(shape: Any) -> tuple[int, int]:
    rows, columns = shape if isinstance(shape, (tuple, list)) and len(shape) == 2 else (shape, shape)
    return as_integer(rows, "shape", 1, INT32_MAX), as_integer(columns, "shape", 1, INT32_MAX)


def _places(given, name, most):
    given = as_array(given, name)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
        raise InvalidInputError(f"{name} has to be a list of integers, not {given.shape} of {given.dtype}")
    given = given.astype(np.int64)
    outside = (given < 0) | (given >= most)
    if outside.any():
        k = int(np.argmax(outside))
        raise InvalidInputError(f"{name}[{k}] is {given[k]}, outside 0..{most - 1}")
    return given


def _real_csr(J):
    """J as a csr_array of sorted rows without duplicates; the caller's arrays where it is one."""
    if not sp.issparse(J):
        dense = as_array(J, "J")
        if dense.ndim != 2 or dense.dtype.kind not in "fiub":
            raise InvalidInputError(f"J has to be a matrix of real numbers, not {dense.shape} of {dense.dtype}")
        return sp.csr_array(dense)
    if J.ndim != 2 or J.dtype.kind not in "fiub":
        raise InvalidInputError(f"J has to be a matrix of real numbers, not {J.shape} of {J.dtype}")
    made = J.tocsr()
    if not made.has_canonical_format:
        made = made.copy() if made is J else made
        made.sum_duplicates()
    return made


def _keys(indptr, indices, shape):
    return np.repeat(np.arange(shape[0], dtype=np.int64), np.diff(indptr)) * shape[1] + indices


def _csr(data, indices, indptr, shape):
    A = sp.csr_array((data, indices, indptr), shape=shape)
    A.has_sorted_indices = A.has_canonical_format = True
    return A
