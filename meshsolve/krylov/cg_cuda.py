"""The vector operations of conjugate gradients on the GPU: launches of vectors.cu, whose kernels also decide when a column stops.

The host enqueues LOOK iterations and then reads the state of the columns. A column stops in the iteration in which its residual
reaches the target, so counts and results do not depend on LOOK.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve import device
from meshsolve.device import MOST_ACROSS
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError
from meshsolve.krylov.blocks import in_same_unit
from meshsolve.krylov.cg_rules import LOST_AT, SUMS
from meshsolve.sparse.constraints import takes_constants_to_zero
from meshsolve.sparse.matrix import as_csr
from meshsolve.sparse.product import Product
from meshsolve.sparse.rows_cuda import ComponentsCuda

K = device.kernels("krylov/vectors.cu")
BLOCK = 256
MOST_PARTS = 264                        # largest number of thread blocks that share a sum: two per multiprocessor
TOGETHER = 4                            # columns of a sum per thread, as in vectors.cu
LOOK = 8                                # iterations between two reads of the state
RHO, CURVATURE, _, _, RESIDUAL, TARGET, SAVED = range(7)                           # enum Scalar in vectors.cu
RUNNING, AT_TARGET, DIVERGED, BROKEN, DONE = range(5)                                   # enum Status


class CudaBlocks:
    """Products, sums and norms of (n, k) blocks on the GPU, for iterations."""

    look_every = LOOK

    def __init__(self, matrix, B, X, precondition, check):
        self.n, self.k, self.B, self.X = matrix.n, B.shape[1], B, X
        self._product, self._precondition, self.check = Product(matrix), precondition, check or (lambda: None)
        self._num_parts = parts_of(self.n)
        self._parts = device.xp().empty(self._num_parts * self.k)

    def norms(self, block):
        """(k,) 2-norms of the columns, on the host."""
        return np.sqrt(self.dots(block, block))

    def dots(self, U, V):
        """(k,) dot products of columns, on the host."""
        self._dot(U, V)
        return device.to_host(self._parts).reshape(self.k, self._num_parts).sum(axis=1)

    def copy_columns(self, to, block, columns):
        """Copy the columns of a mask."""
        columns = device.to_device(np.flatnonzero(columns))
        to[:, columns] = block[:, columns]

    def _dot(self, U, V):
        """Parts of the dot products of columns."""
        dot(self.n, self.k, U, V, self._parts)


class CudaVectors(CudaBlocks):
    """All columns of a solve: (n, k) blocks, and the scalars of each column; as :class:`meshsolve.krylov.cg_host.HostVectors`."""

    def __init__(self, matrix, B, X, precondition, null_space, check):
        super().__init__(matrix, B, X, precondition, check)
        xp, k = device.xp(), self.k
        self.null_space = null_space if k else None
        self.centers_late = self.null_space is not None
        self.R, self.P, self.Q = (xp.zeros((self.n, k)) for _ in range(3))
        self._scalars, self._history = xp.zeros((7, k)), xp.zeros((LOOK, k))
        self._status, self._fresh, self._counts = xp.zeros(k, xp.int32), xp.ones(k, xp.int32), xp.zeros(k, xp.int32)
        self.iterations = np.zeros(k, np.int64)
        self._prepare()

    def begin(self, size):
        """Compute R := B - A X; return its norms."""
        self.X *= device.to_device(np.where(size == 0, 0.0, 1.0))
        norm = self.centered_norms(self.R)
        self.saved = self.X.copy()
        return norm

    def direction(self, i):
        """P := M R + beta P."""
        Z = self._precondition(self.R)
        self._decide(RHO, self.R, Z, i)
        self._direction(Z, self.P)

    def multiply(self, i):
        """Q := A P, alpha."""
        self._product(self.P, self.Q)
        self._decide(CURVATURE, self.P, self.Q, i)

    def step(self, i):
        """X += alpha P, R -= alpha Q."""
        self._step(self.X, self.R)
        self._decide(RESIDUAL, self.R, self.R, i)

    def look(self, residuals):
        """Return (at_target, diverged, broken) columns; waits for the GPU."""
        status, before = device.to_host(self._status), self.iterations
        self.norm, self.iterations = device.to_host(self._scalars[RESIDUAL]), device.to_host(self._counts).astype(np.int64)
        residuals.extend(device.to_host(self._history)[:max(int((self.iterations - before).max(initial=0)), 0)])
        return status == AT_TARGET, status == DIVERGED, status == BROKEN

    def proceed(self, run):
        """Send the decisions of the host to the GPU."""
        self._status[:] = device.to_device(np.where(run.active, RUNNING, DONE).astype(np.int32))
        self._scalars[SAVED], self._scalars[TARGET] = device.to_device(run.saved_norm), device.to_device(run.target)

    def restart(self, columns):
        """Restart these columns from their true residual, which is in Q, without a previous direction."""
        self.copy_columns(self.R, self.Q, columns)
        self._fresh[device.to_device(np.flatnonzero(columns))] = 1

    def products(self):
        """(r . M r, |r| |M r|), and (p . A p, the scale of its rounding errors)."""
        Z, P, sizes = self._precondition(self.R), abs(self.P), device.xp().empty_like(self.P)
        rho = self.dots(self.R, Z), self.norms(self.R) * self.norms(Z)
        self._product(P, sizes, abs(self._product.data))
        return rho, (self.dots(self.P, self.Q), self.dots(P, sizes))

    def centered(self, block):
        """A copy without the null space."""
        return self.null_space(block)

    def centered_norms(self, out):
        """Remove the null space from X; compute out := B - A X and return its norms."""
        if self.null_space is not None:
            self.X = self.null_space(self.X)
        return self.true_norms(self.X, out)

    def checked_norms(self, out):
        """The same without removing the null space, which happens once, at the end."""
        return self.true_norms(self.X, out)

    def true_norms(self, X, out):
        """Compute out := B - A X and return its norms; raise if a solve with M gave up."""
        self.check()
        self._product(X, out)
        out[...] = self.B - out
        return self.norms(out)

    def _prepare(self):
        """Prepare the launches of an iteration, whose arguments stay the same: checking them once saves most of the host's
        time."""
        size = (np.int32(self.n), np.int32(self.k))
        sweep = partial(device.prepared, grid=device.grid_for(self.n * self.k, BLOCK), block=BLOCK, shared=0)
        self._direction = sweep(K.k_direction, args=(*size, self._scalars))
        self._step = sweep(K.k_step, args=(*size, self._scalars, self.P, self.Q))
        self._sums = device.prepared(K.k_dot, dot_grid(self.n, self.k), BLOCK, 0, size)
        state = self._parts, self._scalars, self._status, self._fresh, self._counts
        self._decisions = [device.prepared(K.k_decide, self.k, BLOCK, 0, (
            np.int32(what), size[1], np.int32(self._num_parts), np.float64(LOST_AT), *state)) for what in range(RESIDUAL + 1)]

    def _decide(self, what, U, V, i):
        self._sums(U, V, self._parts)
        self._decisions[what](self._history[i])


def parts_of(n):
    """Thread blocks that share the sum of a column of n entries."""
    return device.grid_for(n, 4 * BLOCK, MOST_PARTS)


def dot(n, k, U, V, parts):
    """Compute partial dot products of the columns of two (n, k) blocks, ``parts_of(n)`` per column."""
    device.launch(K.k_dot, dot_grid(n, k), BLOCK, 0, (np.int32(n), np.int32(k), U, V, parts))


def dot_grid(n, k):
    return parts_of(n), min(-(-k // TOGETHER), MOST_ACROSS)


# ---- input ----------------------------------------------------------------------------------------------------------------


def start(matrix, system, M, _, report):
    """As :func:`meshsolve.krylov.cg_host.start`: all columns run together, in the caller's numbering."""
    report.facts.update(device="cuda", nnz_A=len(matrix.indices))
    precondition, projection = in_same_unit(preconditioner(M, matrix.n), M, system.exponent), null_space(matrix, M)

    def vectors(_):
        return CudaVectors(matrix, system.B, system.X, precondition, projection, getattr(M, "check_device", None))

    return max(system.B.shape[1], 1), vectors, lambda X: X


def preconditioner(M, n):
    """M as a function that maps an (n, k) block on the GPU to another, C contiguous."""
    if M is None:
        return lambda R: R
    if getattr(M, "shape", None) != (n, n):
        raise InvalidInputError(f"M must be {n} x {n}, got {getattr(M, 'shape', M)}")
    if hasattr(M, "apply_on_device") and M.on_device:
        return M.apply_on_device
    if hasattr(M, "apply_columns"):
        raise InvalidInputError('b lies on the GPU, M on the host: make M with device="cuda"')
    if isinstance(M, spla.LinearOperator):
        raise InvalidInputError("b lies on the GPU, but M is an operator of scipy, with products on the host")
    if sp.issparse(M) or isinstance(M, np.ndarray):
        return _multiplied(Product(as_csr(M, "M")))
    return lambda R: device.xp().ascontiguousarray(M @ R).astype(np.float64, copy=False)


def null_space(matrix, M):
    """Return a function that returns a block without the null space of a :class:`Csr` on the GPU: that of M if it fits; None for a
    regular matrix."""
    if getattr(M, "on_device", False) and getattr(M, "null_components", 0) and _is_null(matrix, M.project_on_device):
        return M.project_on_device
    if not takes_constants_to_zero(matrix):
        return None
    components = ComponentsCuda(matrix)
    return lambda block: components.center(block)[0]


def _is_null(matrix, project):
    """True if the matrix maps the part of a block of ones to 0 that ``project`` removes: M may belong to another matrix."""
    ones = device.xp().ones((matrix.n, 1))
    constant = ones - project(ones)
    sums, absolute = (matrix.residual(constant, 0 * ones, magnitudes) for magnitudes in (False, True))
    return not is_any(~(abs(sums) <= SUMS * abs(absolute)))


def _multiplied(product):
    """A :class:`Product` as a function that returns a new block."""
    def apply(R):
        Z = device.xp().empty_like(R)
        product(R, Z)
        return Z

    return apply
