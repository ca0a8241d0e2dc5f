"""Host and GPU as values: :data:`HOST` and :data:`CUDA` have the same methods, and :func:`where` returns the place of an array.

A symmetric matrix of a user becomes a :class:`~meshsolve.sparse.matrix.Csr` on the host and a
:class:`~meshsolve.sparse.cuda.GatheredMatrix` on the GPU. Both have ``n``, ``pattern``, ``data``, ``csr()``, ``joined(edges)``,
``within(pattern)`` and ``gather``. A new backend implements the methods of :class:`Host`.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import device, foreign
from meshsolve.errors import InvalidInputError
from meshsolve.sparse.columns import as_array, as_complex, as_rhs, as_rhs_cuda, begin_rhs_cuda, checked_already
from meshsolve.sparse.cuda import Gather, GatheredMatrix, as_csr_cuda
from meshsolve.sparse.matrix import Csr, as_csr, as_symmetric, pattern_with_diagonal
from meshsolve.sparse.rows import Components, RowSplit
from meshsolve.sparse.rows_cuda import ComponentsCuda, RowSplitCuda
from meshsolve.types import Device

NEAR_TREE = 3.2         # entries per row, diagonal included, below which a matrix is nearly a tree: the matrix of a tree has 3
NO_TURN = contextlib.nullcontext()


class Host:
    """Main memory, and numpy's arrays."""

    name: Device = "cpu"
    xp: Any = np
    errors: Any = contextlib.nullcontext        # errors(what): translates errors of the GPU
    array = staticmethod(as_array)              # array(x, name): checked array in this place
    bring = staticmethod(device.to_host)        # bring(x): a numpy or CuPy array, copied to this place if needed
    joined = staticmethod(as_complex)           # joined(real, imaginary)
    dtype_of = staticmethod(foreign.dtype_of)   # dtype_of(out): dtype of an array in this place, else None
    rhs: Any = staticmethod(as_rhs)             # rhs(b, n, name="b"): (columns of a checked right-hand side in this place, its shape)
    row_split: Any = RowSplit                   # row_split(n, fixed): free and fixed rows
    components: Any = Components                # components(M, symmetric=True): connected components

    def symmetric(self, A, threads=1, lower=False, per_row=0, gather=None):
        """Return a symmetric matrix of any kind with both triangles stored, checked, in this place.

        Parameters
        ----------
        A : (n, n) matrix on the host or on the GPU
            A matrix on the GPU is not copied to the host for a result on the GPU.
        threads, lower, per_row
            As for :func:`~meshsolve.sparse.matrix.as_symmetric`.
        gather : Gather, optional
            That of an earlier matrix on the GPU. If A has the same pattern, no pattern is computed again.

        Raises
        ------
        InvalidInputError, OutOfMemoryError, NotSymmetricError
            As :func:`~meshsolve.sparse.matrix.as_symmetric`.
        """
        return as_symmetric(A, lower=lower, threads=threads, per_row=per_row)

    def symmetric_pattern(self, A, threads=1, lower=False, per_row=0):
        """Return the pattern of A + A^T with the stored diagonal entries of A, or with ``lower`` the matrix; see :meth:`symmetric`."""
        return as_symmetric(A, lower=True, threads=threads, per_row=per_row) if lower else pattern_with_diagonal(A, per_row, threads)

    def general(self, A):
        """Return a real square matrix of any kind as :class:`Csr`, checked, in this place."""
        return as_csr(A)

    def matrix(self, M):
        """Return a checked Csr in this place, without a copy if it is already in this place."""
        return M

    def unchecked(self, A, threads=1, lower=False):
        """Return (indptr, indices, data) of a matrix in this place before the checks of :meth:`symmetric`, or None.

        None: on the host, or if A must be converted first, or its symmetry is in doubt. A matrix on the host is checked before it is
        copied to the GPU.
        """

    def csr(self, data, indices, indptr, shape):
        """Return a sparse matrix of the library of this place."""
        return sp.csr_array((data, indices, indptr), shape=shape)

    def begin_rhs(self, b, n, late):
        """Return (columns of b, its shape, a function that raises if a value is not finite).

        With ``late`` the values on a GPU are checked by that function alone, after the work is queued.
        """
        return *self.rhs(b, n), checked_already

    def write(self, x, out):
        """Copy x to the caller's ``out``."""
        foreign.write(x, out)

    def turn(self, sharing):
        """Return the context in which solves run that share memory."""
        return NO_TURN

    def __reduce__(self):
        return _place, (self.name,)             # copies and pickles are the same object


class Cuda(Host):
    """A GPU, and CuPy's arrays."""

    name: Device = "cuda"
    xp: Any = property(lambda self: device.xp())
    errors = staticmethod(device.errors)
    bring = staticmethod(device.to_device)
    rhs = staticmethod(as_rhs_cuda)
    matrix = staticmethod(Csr.uploaded)
    csr = staticmethod(device.csr)
    row_split = RowSplitCuda
    components = ComponentsCuda

    def symmetric(self, A, threads=1, lower=False, per_row=0, gather=None):
        source = self.general(A) if lower or on_device(A) else as_symmetric(A, threads=threads).uploaded()
        if gather is None or not gather.given.same_as(source):
            gather = Gather.symmetric(source, lower)
        doubt = gather.check_symmetry(source)
        return GatheredMatrix(gather, source, source.doubt or doubt)

    def symmetric_pattern(self, A, threads=1, lower=False, per_row=0):
        source = as_csr_cuda(A) if on_device(A) else as_csr(A, dtype=None).uploaded()
        return GatheredMatrix(Gather.symmetric(source, lower), source)

    def general(self, A):
        return as_csr_cuda(A) if on_device(A) else as_csr(A).uploaded()

    def unchecked(self, A, threads=1, lower=False):
        if not on_device(A):
            M = self.general(A) if lower else as_symmetric(A, threads=threads).uploaded()
            return (M.indptr, M.indices, M.data) if M.doubt is None else None
        if device.holds(A) or len(A.shape) != 2 or A.shape[0] != A.shape[1]:
            return None
        A = A.tocsr()
        return A.indptr, A.indices, A.data

    def array(self, x, name):
        return device.asarray(x)

    def joined(self, real, imaginary):
        return real + 1j * imaginary

    def dtype_of(self, out):
        return device.asarray(out).dtype if device.holds(out) else None

    def begin_rhs(self, b, n, late):
        return begin_rhs_cuda(b, n) if late else super().begin_rhs(b, n, late)

    def write(self, x, out):
        to = device.asarray(out) if device.holds(out) else None
        if to is None or to.shape != x.shape or to.dtype != x.dtype:
            raise InvalidInputError(f"out must be a writable array of shape {x.shape} and dtype {x.dtype} on the GPU, where b lies")
        to[...] = x

    def turn(self, sharing):
        return sharing.turn()


HOST, CUDA = Host(), Cuda()
PLACES: dict[str, Host] = {place.name: place for place in (HOST, CUDA)}


def where(x):
    """Return the place of an array."""
    return CUDA if device.holds(x) else HOST


def is_foreign(x):
    """Return True if scipy's operators would convert x or fail: x lies on the GPU, is sparse, or is traced without numbers."""
    return device.holds(x) or foreign.is_sparse(x) or foreign.is_traced(x)


def on_device(A):
    """Return True if a matrix, sparse or dense, or a vector lies on a GPU."""
    sparse = not sp.issparse(A) and hasattr(A, "nnz")       # a damaged matrix of scipy may fail to count its entries
    return device.holds(A) or (sparse and device.holds(getattr(A, "data", None)))


def place_for(name, *inputs, size=None):
    """Return ``"cpu"`` or ``"cuda"`` for an argument ``device``, see :func:`meshsolve.device.choose`.

    Parameters
    ----------
    name : {"auto", "cpu", "cuda"}
    inputs : matrices and vectors of the caller
    size : int, optional
        Rows; by default those of the first input.
    """
    size = next(iter(getattr(inputs[0], "shape", ())), 0) if size is None else size
    return device.choose(name, size, *(A if device.holds(A) else A.data for A in inputs if on_device(A)))


def place_of_factor(name, A, *rhs, size=None, lower=False):
    """As :func:`place_for`, for a matrix that will be ordered and factored.

    ``"auto"`` leaves a large near-tree to the host, unless a right-hand side lies on the GPU. Its elimination tree may have a tenth as
    many levels as rows. Each level is a launch on the GPU, and a microsecond on the host.
    """
    if isinstance(name, str) and name == "auto" and not any(map(on_device, rhs)) and _is_near_tree(A, lower):
        return "cpu"
    return place_for(name, A, *rhs, size=size)


def device_of_block(name, A, size):
    """Return the argument ``device`` for a block on the host of a matrix A of ``size`` rows; A decides if it lies on the GPU."""
    return place_for(name, A, size=size) if on_device(A) else name


def _place(name):
    return PLACES[name]


def _is_near_tree(A, lower):
    if isinstance(A, np.ndarray):               # not every dtype gives a view of its memory, as .data needs
        return False
    values, n = getattr(A, "data", None), next(iter(getattr(A, "shape", ())), 0)
    if getattr(getattr(values, "dtype", None), "kind", "O") == "O":         # dense, or lists of lists
        return False
    return n >= device.AUTO_SIZE and (2 * values.size - n if lower else values.size) < NEAR_TREE * n
