"""Repeated assembly of sparse matrices with a fixed pattern: finite elements, normal equations.

The pattern is computed once. Each later matrix takes one pass over its values. Zeros stay stored, so all matrices fit the factor
of the first one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, foreign
from meshsolve import device as gpu
from meshsolve.errors import InvalidInputError
from meshsolve.options import INT32_MAX, as_integer, counted, thread_count
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array, read_only
from meshsolve.sparse.matrix import narrow_ptr
from meshsolve.sparse.places import HOST, PLACES, where
from meshsolve.sparse.product import assembled
from meshsolve.sparse.structure import rectangular
from meshsolve.types import ArrayLike, Device, Matrix, Sparse


class Assembly(Sealed):
    """A plan that sums contributions into a sparse matrix of fixed pattern.

    Equivalent to ``scipy.sparse.coo_array((values, (rows, columns))).tocsr()`` in a fraction of the time, because the indices are
    sorted only once. Zeros stay stored, so the pattern never changes.

    Parameters
    ----------
    rows, columns : (k,) integers
        Row and column of each contribution. Contributions to the same entry are summed.
    shape : int or (int, int)
        Shape of the matrix; one number for a square matrix.
    threads : int, optional
        Default: ``MESHSOLVE_NUM_THREADS``, or all cores. Sums do not depend on it.
    device : {"cpu", "cuda", "auto"}
        On the GPU the matrices are CuPy csr_matrix, and each takes one kernel launch. ``"auto"`` is ``"cuda"`` from 100,000
        contributions on, if there is a GPU.

    Attributes
    ----------
    shape : (int, int)
    nnz : int
        Number of stored entries of each matrix.

    Raises
    ------
    InvalidInputError
        Not integers; arrays of different lengths; an index outside the matrix; 2^31 contributions or more.
    DeviceUnavailableError
        ``device="cuda"`` without a GPU.

    Notes
    -----
    O(k log k) time once, on the CPU; O(k) for each matrix. Memory: 12 bytes per contribution and 20 per entry.

    Examples
    --------
    >>> import meshsolve as ms
    >>> plan = ms.operators.Assembly([0, 0, 1, 0], [0, 1, 1, 0], 2)
    >>> plan([1.0, 2.0, 3.0, 4.0]).toarray().tolist()
    [[5.0, 2.0], [0.0, 3.0]]
    """

    def __init__(self, rows: ArrayLike, columns: ArrayLike, shape: int | tuple[int, int], threads: int | None = None,
                 device: Device = "cpu") -> None:
        self.shape, self._threads = _shape(shape), thread_count(threads)
        row, column = _indices_below(rows, "rows", self.shape[0]), _indices_below(columns, "columns", self.shape[1])
        if len(row) != len(column):
            raise InvalidInputError(f"rows and columns must have the same length, got {len(row)} and {len(column)}")
        if len(row) > INT32_MAX:
            raise InvalidInputError(f"got {len(row):,} contributions; at most 2^31 - 1 are supported")
        self._count, self._place = len(row), PLACES[gpu.choose(device, len(row))]
        self._given: tuple[int, ...] = (len(row),)
        key = row * self.shape[1] + column
        order = np.argsort(key, kind="stable")
        key = key[order]
        begin = np.flatnonzero(np.diff(key, prepend=-1))
        bring = self._place.bring
        self._source, self._ptr = bring(order.astype(np.int32)), bring(np.append(begin, len(order)).astype(np.int64))
        row, column = np.divmod(key[begin], self.shape[1])
        self._indices = bring(read_only(column.astype(np.int32)))
        self._indptr = bring(read_only(narrow_ptr(np.searchsorted(row, np.arange(self.shape[0] + 1)).astype(np.int64))))

    @classmethod
    def of_elements(cls, dofs: ArrayLike, n: int, threads: int | None = None, device: Device = "cpu") -> Assembly:
        """Make the plan of a finite element matrix: element e adds an (m, m) block to the rows and columns ``dofs[e]``.

        Parameters
        ----------
        dofs : (e, m) integers
        n : int
            Number of rows of the matrix.
        threads, device
            As for :class:`Assembly`.

        Returns
        -------
        Assembly
            To be called with arrays (e, m, m).
        """
        given = as_array(dofs, "dofs")
        if given.ndim != 2:
            raise InvalidInputError(f"dofs must be (elements, unknowns per element), got {given.shape}")
        count, m = given.shape
        made = cls(np.repeat(given, m, axis=1).ravel(), np.tile(given, (1, m)).ravel(), n, threads, device)
        made._given = (count, m, m)
        return made

    @property
    def nnz(self) -> int:
        return len(self._indices)

    def __call__(self, values: ArrayLike, out: Sparse | None = None) -> Sparse:
        """Sum the contributions into a matrix.

        Parameters
        ----------
        values : (k,) array, or (e, m, m) for a plan of elements, real or complex
        out : csr_array, optional
            A matrix of this plan, whose values are overwritten. On the GPU no memory is allocated then.

        Returns
        -------
        csr_array of float64 or complex128, or ``out``
            It shares the plan's index arrays, which are read-only. On the GPU a CuPy csr_matrix.

        Raises
        ------
        InvalidInputError
            Wrong shape, or not numbers; an ``out`` that is no matrix of this plan or of another type.
        """
        given = where(values).array(values, "values")
        if given.shape != self._given or given.dtype.kind not in "fiubc":
            raise InvalidInputError(f"values must be numbers of shape {self._given}, got {given.shape} of {given.dtype}")
        dtype, xp = np.dtype(np.complex128 if given.dtype.kind == "c" else np.float64), self._place.xp
        flat = xp.ascontiguousarray(self._place.bring(given), dtype).reshape(-1).view(np.float64)
        if out is None:
            out = self._matrix(xp.empty(self.nnz, dtype))
        else:
            self._check_out(out, dtype)
        self._sum(flat, out.data.view(np.float64), dtype.itemsize // 8)
        return out

    def __repr__(self) -> str:
        return f"Assembly({self._count:,} contributions to {counted(self.nnz, 'entry')} of {self.shape[0]:,} x {self.shape[1]:,})"

    def _matrix(self, data):
        """Return the matrix with these values. Its index arrays are those of the plan."""
        A = self._place.csr(data, self._indices, self._indptr, self.shape)
        A.has_sorted_indices = A.has_canonical_format = True
        return A

    def _check_out(self, out, dtype):
        """Raise if a caller's matrix has other index arrays than the plan, or values that cannot be overwritten."""
        parts = [getattr(out, name, None) for name in ("data", "indices")]
        if any(where(part) is not self._place or getattr(part, "shape", None) != (self.nnz,) for part in parts) or not (
                gpu.address(parts[1]) == gpu.address(self._indices) and parts[0].dtype == dtype and parts[0].flags.c_contiguous):
            raise InvalidInputError(f"out must be a {dtype} matrix that this plan has returned")

    def _sum(self, values, data, width):
        """Write the sums of the contributions; a number has ``width`` doubles in both arrays."""
        if self._place is HOST:
            _core.assemble(self._ptr, self._source, width, values, data, self._threads)
        else:
            assembled(self._ptr, self._source, values, width, data)


class NormalEquations(Sealed):
    """A plan for J^T D J, the matrix of least-squares problems: Gauss-Newton steps, bundle adjustment, interior points.

    Equivalent to ``J.T @ sp.diags_array(weights) @ J`` in a fraction of the time for every later J of the same pattern. The
    result is bitwise symmetric, and its pattern is the structural product.

    Parameters
    ----------
    J : (m, n) sparse matrix of any format, or dense
        Its pattern is planned; its values are ignored.
    threads : int, optional
        Default: ``MESHSOLVE_NUM_THREADS``, or all cores. Results do not depend on it.

    Attributes
    ----------
    shape : (n, n)
    nnz : int
        Number of stored entries of each product.

    Raises
    ------
    InvalidInputError
        Not a matrix of real numbers.

    Notes
    -----
    O(sum of the squared row lengths of J) time per product, half the operations of a general product. Memory: twice the patterns
    of J and of the product, and n numbers per thread.

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
        """Compute J^T D J.

        Parameters
        ----------
        J : (m, n) matrix with the planned pattern
            Missing entries count as zeros.
        weights : (m,) array, optional
            Diagonal of D, of any sign; ones by default.

        Returns
        -------
        (n, n) csr_array of float64
            It shares the plan's index arrays, which are read-only.

        Raises
        ------
        InvalidInputError
            Wrong shape, an entry outside the planned pattern, or not real numbers.
        """
        values, weights = self._values(_real_csr(J)), self._weights(weights)
        data = _core.weigh_normal(*self._plan, values, weights, self._threads)
        A = sp.csr_array((data, self._indices, self._indptr), shape=self.shape)
        A.has_sorted_indices = A.has_canonical_format = True
        return A

    def __repr__(self) -> str:
        return (f"NormalEquations(J of {self._rows:,} x {self.shape[1]:,}, {counted(len(self._plan[1]), 'entry')}; "
                f"product with {self.nnz:,})")

    def _values(self, J):
        shape, (indptr, indices) = (self._rows, self.shape[1]), self._plan[:2]
        if J.shape != shape:
            raise InvalidInputError(f"J must be {shape[0]} x {shape[1]} as planned, got {J.shape[0]} x {J.shape[1]}")
        if J.indices.shape == indices.shape and np.array_equal(J.indptr, indptr) and np.array_equal(J.indices, indices):
            return np.ascontiguousarray(J.data, np.float64)
        known, keys = _keys(indptr, indices, shape), _keys(J.indptr, J.indices, shape)
        position = np.minimum(np.searchsorted(known, keys), max(len(known) - 1, 0))
        outside = known[position] != keys if len(known) else np.ones(len(keys), bool)
        if outside.any():
            row, column = np.divmod(keys[np.argmax(outside)], shape[1])
            raise InvalidInputError(f"J has an entry at row {row}, column {column} that is not in the planned pattern: make "
                                    "another NormalEquations(J), or plan with all entries that will occur")
        values = np.zeros(len(indices))
        values[position] = J.data
        return values

    def _weights(self, weights):
        if weights is None:
            return np.empty(0)
        given = as_array(weights, "weights")
        if given.shape != (self._rows,) or given.dtype.kind not in "fiub":
            raise InvalidInputError(f"weights must be ({self._rows},) real numbers, got {given.shape} of {given.dtype}")
        return np.ascontiguousarray(given, np.float64)


def _shape(shape: Any) -> tuple[int, int]:
    rows, columns = shape if isinstance(shape, (tuple, list)) and len(shape) == 2 else (shape, shape)
    return as_integer(rows, "shape", 1, INT32_MAX), as_integer(columns, "shape", 1, INT32_MAX)


def _indices_below(given, name, most):
    given = as_array(given, name)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size):
        raise InvalidInputError(f"{name} must be a 1-D array of integers, got {given.shape} of {given.dtype}")
    given = given.astype(np.int64)
    outside = (given < 0) | (given >= most)
    if outside.any():
        k = int(np.argmax(outside))
        raise InvalidInputError(f"{name}[{k}] is {given[k]}; it must be from 0 to {most - 1}")
    return given


def _real_csr(J):
    """Return J as a csr_array with sorted rows without duplicates. A canonical csr_array is not copied."""
    J = foreign.as_known(J, "J")
    J = J if sp.issparse(J) else as_array(J, "J")
    if J.ndim != 2 or J.dtype.kind not in "fiub":
        raise InvalidInputError(f"J must be a matrix of real numbers, got {J.shape} of {J.dtype}")
    return rectangular(J, "J") if sp.issparse(J) else sp.csr_array(J.astype(np.promote_types(J.dtype, np.float32)))


def _keys(indptr, indices, shape):
    return np.repeat(np.arange(shape[0], dtype=np.int64), np.diff(indptr)) * shape[1] + indices
