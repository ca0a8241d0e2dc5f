"""Square matrices in compressed rows, on the host or on the GPU, and the checks of a matrix given by a user.

All conversions happen here, with range checks. The C++ core takes exactly int64 row pointers, int32 indices and float64 or
float32 values, and refuses anything else.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device, foreign
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError, PatternMismatchError
from meshsolve.memory import PER_ROW, ensure_rows
from meshsolve.options import INT32_MAX, as_flag, counted
from meshsolve.sparse import product
from meshsolve.sparse.columns import as_array, as_complex, from_any
from meshsolve.sparse.structure import checked
from meshsolve.sparse.symmetry import ROUNDING, Doubt, not_symmetric

LARGEST_SIZE = INT32_MAX - 1        # rows, vertices: n + 1 fits into 32 bits as well


@dataclass(frozen=True)
class Csr:
    """A checked square matrix or pattern in compressed rows: indices ascending in each row, no duplicates.

    Its arrays lie on the host or on the GPU, and so do the results of its methods.

    Attributes
    ----------
    n : int
        Rows and columns.
    indptr : (n + 1,) int64
    indices : (nnz,) int32
    data : (nnz,) float64 (or complex128 on the host), or None for a pattern
    diagonal : bool
        For a pattern that will be ordered: True if diagonal entries may be stored.
    doubt : Doubt or None
        Of a symmetric matrix whose stored entries are not quite symmetric.
    """

    n: int
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray | None = None
    diagonal: bool = False
    doubt: Doubt | None = None

    @property
    def nnz(self):
        """Number of stored entries."""
        return len(self.indices)

    @property
    def pattern(self):
        """The matrix itself, where its values are ignored; see :class:`meshsolve.sparse.cuda.GatheredMatrix`."""
        return self

    gather = None                   # the host gathers no values

    def csr(self):
        """Return the matrix itself; see :class:`meshsolve.sparse.cuda.GatheredMatrix`."""
        return self

    def uploaded(self):
        """Return the matrix or pattern with its arrays on the GPU; itself if they lie there already."""
        if device.holds(self.indices):
            return self
        arrays = (None if x is None else device.to_device(x) for x in (self.indptr, self.indices, self.data))
        return Csr(self.n, *arrays, self.diagonal, self.doubt)

    def in_doubt(self, doubt):
        """Return the matrix with another ``doubt``."""
        return replace(self, doubt=doubt)

    @property
    def stored(self):
        """The matrix with the entries that the caller's matrix has, which may be a little unsymmetric; in the same place."""
        if self.doubt is None:
            return self
        return self.doubt.stored.uploaded() if device.holds(self.indices) else self.doubt.stored

    def graph(self, threads=1):
        """Return the pattern without its diagonal, on the host; itself if no diagonal entry may be stored."""
        return Csr(self.n, *_core.drop_diagonal(self.indptr, self.indices, threads)) if self.diagonal else self

    def diagonal_values(self, threads=1):
        """Return the diagonal of a float64 matrix, (n,); zero where nothing is stored."""
        return product.matrix_diagonal(self.indptr, self.indices, self.data, threads)

    def row_sums(self, threads=1):
        """Return the row sums of a float64 matrix and the row sums of its absolute values, both (n,)."""
        return product.row_sums(self.indptr, self.indices, self.data, threads)

    def norm1(self):
        """Return the largest row sum of absolute values of a matrix on the GPU."""
        return product.norm1(self.indptr, self.indices, self.data)

    def residual(self, X, B, magnitudes=False, threads=1):
        """Return B - A X, or B - |A| X, for (n, k) arrays; see :func:`meshsolve.sparse.product.residual`."""
        return product.residual(self.indptr, self.indices, self.data, X, B, magnitudes, threads)

    def same_as(self, M):
        """Return True if the Csr M has the same pattern and lies in the same place."""
        if not device.holds(self.indices):
            return _core.same_pattern(self.indptr, self.indices, M.indptr, M.indices)
        if self.indptr is M.indptr and self.indices is M.indices:
            return True
        return (self.n, self.nnz) == (M.n, M.nnz) and not is_any(self.indptr != M.indptr) and not is_any(self.indices != M.indices)

    def within(self, pattern, constraint=None):
        """Return the values in an analyzed pattern, (nnz,), with zeros where this matrix has no entry.

        Parameters
        ----------
        pattern : Csr
        constraint : Fixed or Pinned, optional
            Constraint that left this block. Its free rows translate an error to the caller's numbering.

        Raises
        ------
        PatternMismatchError
            This matrix has an entry outside the pattern.
        """
        if pattern.same_as(self):
            return self.data
        if self.data.dtype.kind == "c":
            parts = [Csr(self.n, self.indptr, self.indices, np.ascontiguousarray(part)) for part in (self.data.real, self.data.imag)]
            return as_complex(*(part.within(pattern, constraint) for part in parts))
        missing, data = _core.embed(pattern.indptr, pattern.indices, self.indptr, self.indices, self.data)
        if missing < 0:
            return data
        row, column = int(np.searchsorted(self.indptr, missing, side="right")) - 1, int(self.indices[missing])
        if constraint is not None:
            row, column = int(constraint.free[row]), int(constraint.free[column])
        raise PatternMismatchError.at(row, column)

    def joined(self, edges):
        """Return the matrix with a stored entry, zero where it had none, for every edge of a symmetric pattern."""
        indptr, indices = _core.unite(self.indptr, self.indices, edges.indptr, edges.indices)
        if len(indices) == self.nnz:
            return self
        pattern = Csr(self.n, indptr, indices)
        return pattern if self.data is None else Csr(self.n, indptr, indices, self.within(pattern), doubt=self.doubt)

    def to_scipy(self):
        """Return the (n, n) csr_array on the same arrays; a pattern gets ones of int8."""
        data = np.ones(self.nnz, np.int8) if self.data is None else self.data
        return sp.csr_array((data, self.indices, self.indptr), shape=(self.n, self.n))


# ---- matrices of a user -----------------------------------------------------------------------------------------------


def as_csr(A, name="A", dtype=np.float64, per_row=0, threads=1):
    """Check a square matrix of any kind and return it as :class:`Csr` on the host. Duplicates are summed, explicit zeros stay.

    Parameters
    ----------
    A : (n, n) scipy sparse array or matrix of any format, dense array, or CuPy sparse matrix
    dtype : numpy dtype of the values, or None for the pattern alone
    per_row : int
        Bytes that the caller will need per row, at least. This memory is checked before the entries are read: a matrix may have
        few entries and more rows than fit.
    threads : int
        Threads that check the entries.

    Raises
    ------
    OutOfMemoryError
        The rows alone need more memory than there is.
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
    """Return True if a matrix of any kind holds complex numbers; False for anything that is not a matrix."""
    kind = getattr(getattr(A, "dtype", None), "kind", None)
    if kind is None:
        with contextlib.suppress(Exception):
            known = foreign.as_known(A, "A")
            kind = (known if sp.issparse(known) else from_any(known)).dtype.kind
    return kind == "c"


def as_symmetric(A, name="A", lower=False, threads=1, per_row=0):
    """Check a symmetric matrix and return it as :class:`Csr` on the host with both triangles stored.

    Parameters
    ----------
    A : (n, n) matrix, see :func:`as_csr`
    lower : bool
        Only the lower triangle of A is read. The upper one may be missing or arbitrary.
    threads : int
        Threads that check the entries and compare the triangles.
    per_row : int
        As for :func:`as_csr`.

    Raises
    ------
    InvalidInputError, OutOfMemoryError
        As :func:`as_csr`; with ``lower`` also if A has entries above its diagonal and none below.
    NotSymmetricError
        |A[i, j] - A[j, i]| is more than 1e-10 of these entries plus 1e-13 of the largest entry of their rows; ``.row`` and ``.column``
        name the worst.

    Notes
    -----
    Where mirror entries differ by more than rounding the result has their means, and a :class:`Doubt` with the stored entries.
    """
    M = as_csr(A, name, per_row=per_row, threads=threads)
    if as_flag(lower, "lower"):
        whole = Csr(M.n, *_core.mirror_lower(M.indptr, M.indices, M.data))
        if whole.nnz <= M.n and whole.nnz < M.nnz:
            _require_lower(M, whole, name)
        return whole
    state, doubt, row, column, gap, allowed = _core.symmetry(M.indptr, M.indices, M.data, threads)
    if gap > allowed:
        raise not_symmetric(name, row, column, gap, allowed)
    if doubt:
        return _with_mirror_entries(M).in_doubt(Doubt(M, doubt == ROUNDING))
    return _with_mirror_entries(M) if state == "pattern" else M


def only_upper(name):
    """Return the error for ``lower=True`` with an upper triangle."""
    return InvalidInputError(f"lower=True reads the lower triangle of {name}, but {name} has entries above its diagonal only. Give "
                             f"{name}.T, or both triangles without lower=True")


def symmetric_pattern(A, name="A", threads=1):
    """Return the pattern of A + A^T without its diagonal, for orderings and patches, as :class:`Csr` without values."""
    M = as_csr(A, name, dtype=None, per_row=PER_ROW["pattern"], threads=threads)
    return Csr(M.n, *_core.symmetrize(M.indptr, M.indices, threads))


def pattern_with_diagonal(A, per_row=0, threads=1):
    """Return the pattern of A + A^T with the stored diagonal entries of A, as :class:`Csr` without values."""
    M = as_csr(A, dtype=None, per_row=per_row, threads=threads)
    if _core.symmetry(M.indptr, M.indices, None, threads)[0] == "symmetric":
        return M
    half = M.to_scipy()
    return as_csr(half + half.T, dtype=None)


def narrow_ptr(indptr):
    """Return row or column pointers as int32 if they fit. scipy would widen int32 indices to the type of int64 pointers."""
    return indptr if indptr[-1] > INT32_MAX else indptr.astype(np.int32)


def _with_mirror_entries(M):
    """Return (M + M^T) / 2, where mirror entries differ by little, or negligible entries have none.

    It is not formed as a sum of two matrices, which would lose zeros stored on purpose, and could overflow.
    """
    A = M.to_scipy().tocoo()
    both = sp.coo_array((np.tile(0.5 * A.data, 2), (np.append(A.row, A.col), np.append(A.col, A.row))), shape=A.shape).tocsr()
    return as_csr(both)


def _require_lower(M, whole, name):
    """Raise if ``whole``, made from the lower triangle of M, is diagonal: M is an upper triangle."""
    if (whole.indices == np.repeat(np.arange(M.n), np.diff(whole.indptr))).all():
        raise only_upper(name)


def _as_scipy_csr(A, name, per_row):
    """Return A as a square scipy matrix in compressed rows. Its arrays are not checked yet."""
    A = foreign.as_known(foreign.fetched(A), name)
    if not sp.issparse(A):
        if hasattr(A, "matvec"):
            raise InvalidInputError(f"{name} must be a matrix with its entries, got {type(A).__name__}: cg, sqmr and gmres take an "
                                    "operator as A or as M, orderings and factorizations do not")
        if not _is_array_like(A):
            raise InvalidInputError(f"{name} must be a matrix, got {type(A).__name__}{_hint_for(A)}")
        A = as_array(A, name)
        if A.dtype.kind not in "fiubc":
            raise InvalidInputError(f"{name} must hold numbers, got {A.dtype}{foreign.hint_for_edges(A)}")
    if A.ndim != 2:
        raise InvalidInputError(f"{name} must be a 2-D matrix, got of shape {A.shape}")
    if A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"{name} must be square, got {A.shape[0]} x {A.shape[1]}{foreign.hint_for_edges(A)}")
    if A.shape[0] > LARGEST_SIZE:
        raise InvalidInputError(f"{name} has {counted(A.shape[0], 'row')}; at most {LARGEST_SIZE} are supported")
    if not sp.issparse(A):
        return sp.csr_array(A.astype(np.complex128 if A.dtype.kind == "c" else np.float64, copy=False))
    ensure_rows(A, name, per_row)
    if A.format == "csr":
        return A
    A = checked(A, name)
    return sp.csr_array(A.astype(np.float64) if A.dtype.kind in "iub" else A)   # duplicates of small integers are summed in float64


def _hint_for(A):
    """Return the end of a message: the function that makes a matrix of an object of this kind."""
    if hasattr(A, "faces"):
        return ": cotan_laplacian or graph_laplacian makes one of a mesh"
    if hasattr(A, "vertices"):
        return ": cotan_laplacian makes one of it"
    if isinstance(A, (dict, set, frozenset)) or hasattr(A, "__next__"):
        return f": {foreign.EDGES}"
    if callable(A):
        return ": cg, sqmr and gmres take scipy.sparse.linalg.LinearOperator((n, n), matvec=f) of a function f of a vector"
    return ""


def _is_array_like(A):
    """Return True for a list of rows, or if A has an array interface. numpy would also convert the vertices of a graph."""
    return isinstance(A, (list, tuple, memoryview)) or any(hasattr(A, f"__{name}__") for name in (
        "array", "array_interface", "cuda_array_interface", "dlpack"))


def _stored(A, name):
    """Return (indptr, indices, data) of a csr matrix without the unused memory after its last row, with types and lengths checked."""
    indptr, indices, data = (np.asarray(part) for part in (A.indptr, A.indices, A.data))
    if indptr.ndim != 1 or indices.ndim != 1 or data.ndim != 1 or indptr.dtype.kind not in "iu" or indices.dtype.kind not in "iu":
        raise InvalidInputError(f"{name}: indptr and indices must be lists of integers, data a list of numbers")
    if len(indices) != len(data):
        raise InvalidInputError(f"{name} has {len(indices)} column indices and {counted(len(data), 'value')}")
    indptr = np.array(indptr, np.int64)                    # a copy: the caller may change its array later
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
        raise InvalidInputError(f"{name} must hold numbers, got {data.dtype}")
    if data.dtype.kind == "c" and np.dtype(dtype).kind != "c":
        raise InvalidInputError(f"{name} is complex, and this function takes real matrices only: lu takes complex ones")
    if data.dtype == dtype:
        return np.ascontiguousarray(data)
    with np.errstate(over="ignore"):                       # a longdouble out of range becomes infinite, which is refused
        return np.ascontiguousarray(data, dtype)


def _sort(n, indptr, indices, data):
    """Return sorted rows with duplicates summed, in new arrays."""
    values = np.ones(len(indices), np.int8) if data is None else data.copy()
    M = sp.csr_array((values, indices.copy(), indptr.copy()), shape=(n, n))
    M.sum_duplicates()
    return M.indptr.astype(np.int64), M.indices.astype(np.int32), None if data is None else np.ascontiguousarray(M.data)
