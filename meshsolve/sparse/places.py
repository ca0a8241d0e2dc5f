"""Where arrays lie, as a value: :data:`HOST` and :data:`CUDA` have the same methods, and :func:`where` returns one of them."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import device, foreign
from meshsolve.errors import InvalidInputError
from meshsolve.sparse.columns import as_array, as_complex, as_device_rhs, as_rhs, begin_device_rhs, device_lengths, lengths
from meshsolve.sparse.cuda import as_device_csr, symmetric_cuda, uploaded
from meshsolve.sparse.matrix import as_csr, as_symmetric
from meshsolve.types import Device

NEAR_TREE = 3.2                     # entries a row, the diagonal's included: the matrix of a tree has 3
NO_TURN = contextlib.nullcontext()


def checked_already():
    """Nothing is left to check."""


class Host:
    """Main memory, and numpy's arrays."""

    name: Device = "cpu"
    xp = np
    errors: Any = contextlib.nullcontext        # errors(what): what catches errors of a library
    array = staticmethod(as_array)              # array(x, name): checked
    bring = staticmethod(device.to_host)        # bring(x): a numpy or CuPy array, from wherever it lies
    joined = staticmethod(as_complex)           # joined(real, imaginary)
    dtype_of = staticmethod(foreign.dtype_of)   # dtype_of(out): of an array of this place, else None
    rhs: Any = staticmethod(as_rhs)             # rhs(b, n, name): (columns of a checked right-hand side of this place, its shape)
    lengths: Any = staticmethod(lengths)        # lengths(x): (k,) 2-norms of the columns, on the host

    def symmetric(self, A, threads=1):
        """A symmetric matrix of any kind, checked, in this memory."""
        return as_symmetric(A, threads=threads)

    def general(self, A):
        """A real square matrix of any kind, checked, in this memory."""
        return as_csr(A)

    def matrix(self, M):
        """A checked matrix in this memory; no copy of what is already there."""
        return M

    def csr(self, data, indices, indptr, shape):
        """A sparse matrix of the library of this place."""
        return sp.csr_array((data, indices, indptr), shape=shape)

    def begin_rhs(self, b, n, late):
        """(columns of b, its shape, a function that raises where a value is not finite that was not checked yet); ``late``: on the GPU that
        may wait until the work is queued."""
        return *self.rhs(b, n), checked_already

    def write(self, x, out):
        """Copy x to the caller's ``out``."""
        foreign.write(x, out)

    def turn(self, sharing):
        """What solves that share memory pass one by one."""
        return NO_TURN


class Cuda(Host):
    """A GPU, and CuPy's arrays."""

    name: Device = "cuda"
    xp = property(lambda self: device.xp())
    errors = staticmethod(device.errors)
    bring = staticmethod(device.to_device)
    rhs = staticmethod(as_device_rhs)
    lengths = staticmethod(device_lengths)
    matrix = staticmethod(uploaded)
    csr = staticmethod(device.csr)

    def symmetric(self, A, threads=1):
        return symmetric_cuda(A) if on_device(A) else uploaded(as_symmetric(A, threads=threads))

    def general(self, A):
        return as_device_csr(A) if on_device(A) else uploaded(as_csr(A))

    def array(self, x, name):
        return device.asarray(x)

    def joined(self, real, imaginary):
        return real + 1j * imaginary

    def dtype_of(self, out):
        return device.asarray(out).dtype if device.holds(out) else None

    def begin_rhs(self, b, n, late):
        return begin_device_rhs(b, n) if late else super().begin_rhs(b, n, late)

    def write(self, x, out):
        to = device.asarray(out) if device.holds(out) else None
        if to is None or to.shape != x.shape or to.dtype != x.dtype:
            raise InvalidInputError(f"out has to be a writable array of shape {x.shape} and dtype {x.dtype}, where b lies: on the GPU")
        to[...] = x

    def turn(self, sharing):
        return sharing.turn()


HOST, CUDA = Host(), Cuda()
PLACES: dict[str, Host] = {place.name: place for place in (HOST, CUDA)}


def where(x):
    """The place of an array or matrix."""
    return CUDA if device.holds(x) else HOST


def is_foreign(x):
    """Whether scipy's operators would convert x or fail: it lies on the GPU, is sparse, or is traced without numbers."""
    return device.holds(x) or foreign.is_sparse(x) or foreign.is_traced(x)


def on_device(A):
    """Whether a matrix, sparse or dense, or a vector lies on a GPU."""
    sparse = not sp.issparse(A) and hasattr(A, "nnz")       # scipy's never do, and where damaged may fail to count their entries
    return device.holds(A) or (sparse and device.holds(getattr(A, "data", None)))


def place_for(name, *inputs, size=None):
    """``"cpu"`` or ``"cuda"`` for an argument ``device``, see :func:`meshsolve.device.choose`; the inputs are as the caller gave them,
    matrices or vectors. ``size``: rows, by default those of the first."""
    size = next(iter(getattr(inputs[0], "shape", ())), 0) if size is None else size
    return device.choose(name, size, *(A if device.holds(A) else A.data for A in inputs if on_device(A)))


def place_of_factor(name, A, *rhs, size=None, lower=False):
    """As :func:`place_for`, for a matrix that is to be ordered and factored. ``"auto"`` chooses the CPU for a large matrix that is
    nearly a tree, unless a right-hand side lies on the GPU. The elimination tree of such a matrix may have a tenth as many levels as
    rows. Each is a launch on the GPU, and a microsecond of the CPU."""
    if isinstance(name, str) and name == "auto" and not any(map(on_device, rhs)) and _is_near_tree(A, lower):
        return "cpu"
    return place_for(name, A, *rhs, size=size)


def device_of_block(name, A, size):
    """The argument ``device`` for a block on the host of a matrix A of ``size`` rows: decided by A if that lies on the GPU."""
    return place_for(name, A, size=size) if on_device(A) else name


def _is_near_tree(A, lower):
    if isinstance(A, np.ndarray):               # whose memory not every type gives a view of
        return False
    values, n = getattr(A, "data", None), next(iter(getattr(A, "shape", ())), 0)
    if getattr(getattr(values, "dtype", None), "kind", "O") == "O":         # dense, or lists of lists
        return False
    return n >= device.AUTO_SIZE and (2 * values.size - n if lower else values.size) < NEAR_TREE * n
