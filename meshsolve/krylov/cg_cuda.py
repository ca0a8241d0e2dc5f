"""Conjugate gradients on the GPU: the iteration of cg.py with its decisions taken by the kernels of vectors.cu.

The host enqueues iterations and looks at what became of the columns every few of them. A column stops in the very iteration
in which its residual arrives, so that counts and results do not depend on how often the host looks.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from meshsolve import device
from meshsolve.device import MOST_ACROSS
from meshsolve.device.reductions import is_any
from meshsolve.device_arrays import Positions
from meshsolve.errors import InvalidInputError
from meshsolve.factor.cholesky.device_constraint import DeviceConstraint
from meshsolve.krylov.cg_rules import DIVERGED, FORESEE, INDEFINITE, NEGATIVE, RUNNING, SAVE_AT, STAGNATED, SUMS, TINY, Solve
from meshsolve.krylov.info import CONVERGED, EXHAUSTED
from meshsolve.report import Report
from meshsolve.sparse.constraints import vanish
from meshsolve.sparse.product import Product, residual, row_sums

K = device.kernels("krylov/vectors.cu")
BLOCK = 256
MOST_PARTS = 264                        # blocks of a sum: two a multiprocessor
TOGETHER = 4                            # columns of a sum that a thread takes, as in vectors.cu
LOOK = 8                                # iterations between two looks
RHO, CURVATURE, _, _, RESIDUAL, TARGET, SAVED = range(7)                           # enum Scalar in vectors.cu
GO_ON, ARRIVED, LOST, BROKEN, SETTLED = range(5)                                   # enum Standing


class DeviceSolve(Solve):
    """One solve: (n, k) blocks on the device, what is decided of each column on the host."""

    def __init__(self, matrix, B, X, precondition, null_space, shift, check=None):
        xp, k = device.xp(), B.shape[1]
        self.n, self.k, self.B, self.X, self.shift = matrix.n, k, B, X, shift
        self._multiply = Product(matrix)
        self.precondition, self.null_space, self._check = precondition, null_space if k else None, check
        self.report = Report(nnz_A=self._multiply.nnz, device="cuda")
        self.R, self.P, self.Q = (xp.zeros((self.n, k)) for _ in range(3))
        self.num_parts = parts_of(self.n)
        self.parts = xp.empty(self.num_parts * k)
        self.scalars, self.history = xp.zeros((7, k)), xp.zeros((LOOK, k))
        self.standing, self.fresh, self.counts = xp.zeros(k, xp.int32), xp.ones(k, xp.int32), xp.zeros(k, xp.int32)
        self.reason, self.iterations, self.residuals = np.full(k, RUNNING, object), np.zeros(k, np.int64), []
        self._prepare()

    def _prepare(self):
        """The launches of an iteration whose arguments stay the same: what is checked once takes the host a fraction of the time."""
        size = (np.int32(self.n), np.int32(self.k))
        sweep = partial(device.prepared, grid=device.grid_for(self.n * self.k, BLOCK), block=BLOCK, shared=0)
        self._direction = sweep(K.k_direction, args=(*size, self.scalars))
        self._step = sweep(K.k_step, args=(*size, self.scalars, self.P, self.Q))
        self._dot = device.prepared(K.k_dot, dot_grid(self.n, self.k), BLOCK, 0, size)
        state = self.parts, self.scalars, self.standing, self.fresh, self.counts
        self._decisions = [device.prepared(K.k_decide, self.k, BLOCK, 0, (np.int32(what), size[1], np.int32(self.num_parts), *state))
                           for what in range(RESIDUAL + 1)]

    @property
    def active(self):
        return self.reason == RUNNING

    def iterate(self, rtol, atol, maxiter, callback, gives_up):
        """Algorithm 9.1 of Saad on all columns that are still running, a few iterations at a time."""
        self._begin(rtol, atol)
        done = 0
        while done < maxiter and self.active.any() and not self._is_hopeless(done, gives_up):
            some = min(LOOK, maxiter - done, LOOK if gives_up is None else FORESEE - done % FORESEE)
            for i in range(some):
                self._one_iteration(i)
                if callback is not None:
                    callback(self.X)
            done += some
            self._look(some)
        self._finish()

    # ---- the parts ----------------------------------------------------------------------------------------------------------

    def _one_iteration(self, i):
        Z = self.precondition(self.R)
        self._decide(RHO, self.R, Z, i)
        self._direction(Z, self.P)
        self._multiply(self.P, self.Q)
        self._decide(CURVATURE, self.P, self.Q, i)
        self._step(self.X, self.R)
        self._decide(RESIDUAL, self.R, self.R, i)

    def _decide(self, what, U, V, i):
        self._dot(U, V, self.parts)
        self._decisions[what](self.history[i])

    def _begin(self, rtol, atol):
        size, self.outside = self._norms(self.B), np.zeros(self.k)
        self.scale, self.allowed = np.where(size > 0, size, 1.0), np.maximum(rtol * size, atol)
        if self.null_space is not None:
            self._to_the_range(rtol * size)
            self.X, size = self.null_space(self.X), self._norms(self.B)
        self.X *= device.to_device(np.where(size == 0, 0.0, 1.0))
        self.norm = self._true_residual(self.X, self.R)
        self.target = np.maximum(rtol * size, atol)
        self.truth = np.full(self.k, np.inf)
        self.saved, self.saved_norm = self.X.copy(), self.norm.copy()
        self.scalars[TARGET] = device.to_device(self.target)
        self.residuals.append(self.norm)
        self.reason[self.norm <= self.target] = CONVERGED
        self._tell()

    def _to_the_range(self, allowed):
        """As on the CPU: component means leave b where they would keep the residual too large."""
        centered = self.null_space(self.B)
        outside = self._norms(self.B - centered)
        if (outside > 0.01 * allowed).any():
            self.B, self.outside = centered, outside

    def _tell(self):
        """What the host has decided goes to the device."""
        self.standing[:] = device.to_device(np.where(self.active, GO_ON, SETTLED).astype(np.int32))
        self.scalars[SAVED] = device.to_device(self.saved_norm)

    def _look(self, some):
        """What became of the columns; those that have arrived are checked, and start again where the true residual is too large."""
        standing, before = device.to_host(self.standing), self.iterations.copy()
        self.norm, self.iterations = device.to_host(self.scalars[RESIDUAL]), device.to_host(self.counts).astype(np.int64)
        history = device.to_host(self.history)[:max(int((self.iterations - before).max(initial=0)), 0)]
        self.residuals.extend(history)
        self.reason[self.active & (standing == LOST)] = DIVERGED
        broken = self._broken(self.active & (standing == BROKEN))
        self._check_arrived(self.active & (broken | (standing == ARRIVED)))
        better = self.active & (self.norm < SAVE_AT * self.saved_norm)
        if better.any():
            columns = device.to_device(np.flatnonzero(better))
            self.saved[:, columns], self.saved_norm[better] = self.X[:, columns], self.norm[better]
        self._tell()

    def _broken(self, broken):
        """Of columns in which something that should be positive is not: those where that is rounding. The others end."""
        if not broken.any():
            return broken
        Z, P, moduli = self.precondition(self.R), abs(self.P), device.xp().empty_like(self.P)
        lengths, rho, curvature = self._norms(self.R) * self._norms(Z), self._dots(self.R, Z), self._dots(self.P, self.Q)
        self._multiply(P, moduli, abs(self._multiply.data))
        definite = (rho >= -NEGATIVE[0] * lengths - TINY) & (curvature >= -NEGATIVE[1] * self._dots(P, moduli))
        self.reason[broken & ~definite] = INDEFINITE
        return broken & self.active

    def _check_arrived(self, arrived):
        if not arrived.any():
            return
        true = self._true_residual(self.X, self.Q)
        self.reason[arrived & (true <= 1.001 * self.target)] = CONVERGED
        self.reason[arrived & self.active & (true > 0.5 * self.truth)] = STAGNATED
        restarted = arrived & self.active
        if restarted.any():
            columns = device.to_device(np.flatnonzero(restarted))
            self.R[:, columns] = self.Q[:, columns]
            self.fresh[columns] = 1
        self.truth[arrived] = self.norm[arrived] = true[arrived]
        self.saved_norm[restarted] = np.maximum(self.saved_norm, true)[restarted]        # it was the recurrence's, which hides rounding

    def _finish(self):
        """Mean-free solutions, true residuals, and the best iterate of columns that did not converge."""
        if self._check is not None:
            self._check()
        self.reason[self.active] = EXHAUSTED
        failed = self.reason != CONVERGED
        if failed.any():
            worse = failed & ~(self._true_residual(self.X, self.R) <= self._true_residual(self.saved, self.Q))
            self.X = device.xp().where(device.to_device(worse), self.saved, self.X)
        if self.null_space is not None:
            self.X = self.null_space(self.X)
        self.norm = self._true_residual(self.X, self.R)
        self._judge_range()
        self._judge_size()

    def _true_residual(self, X, out):
        self._multiply(X, out)
        out[...] = self.B - out
        return self._norms(out)

    def _norms(self, block):
        """2-norms of the columns, on the host."""
        return np.sqrt(self._dots(block, block))

    def _dots(self, U, V):
        """Dot products of columns, on the host."""
        dot(self.n, self.k, U, V, self.parts)
        return device.to_host(self.parts).reshape(self.k, self.num_parts).sum(axis=1)


def parts_of(n):
    """Blocks that share the sum of a column of n entries."""
    return device.grid_for(n, 4 * BLOCK, MOST_PARTS)


def dot(n, k, U, V, parts):
    """Parts of the dot products of the columns of two (n, k) blocks, ``parts_of(n)`` of each column."""
    device.launch(K.k_dot, dot_grid(n, k), BLOCK, 0, (np.int32(n), np.int32(k), U, V, parts))


def dot_grid(n, k):
    return parts_of(n), min(-(-k // TOGETHER), MOST_ACROSS)


# ---- intake ---------------------------------------------------------------------------------------------------------------


def preconditioner(M, n):
    """M as a function of an (n, k) block on the device that returns one, C contiguous."""
    if M is None:
        return lambda R: R
    if getattr(M, "shape", None) != (n, n):
        raise InvalidInputError(f"M has to be {n} x {n}, not {getattr(M, 'shape', M)}")
    if hasattr(M, "apply_on_device") and M.on_device:
        return M.apply_on_device
    if hasattr(M, "apply_columns"):
        raise InvalidInputError('b lies on the GPU and M on the CPU: make it with device="cuda"')
    return lambda R: device.xp().ascontiguousarray(M @ R).astype(np.float64, copy=False)


def null_space(matrix, M):
    """What gives a block without the null space of a :class:`DeviceCsr`, by M where that knows it; None for a regular matrix."""
    if getattr(M, "on_device", False) and getattr(M, "null_components", 0) and _is_null(matrix, M.project_on_device):
        return M.project_on_device
    sums, moduli = (row_sums(matrix.indptr, matrix.indices, matrix.data, magnitudes) for magnitudes in (False, True))
    if not vanish(matrix.indptr, sums, moduli):
        return None
    constants = DeviceConstraint(None, matrix, Positions(matrix, check=False))
    return lambda block: constants.center(block)[0]


def _is_null(matrix, project):
    """Whether the matrix takes to 0 what ``project`` takes out of a block of ones: M may be made from another matrix."""
    ones = device.xp().ones((matrix.n, 1))
    constant = ones - project(ones)
    sums, moduli = (residual(*matrix[1:], constant, 0 * ones, magnitudes) for magnitudes in (False, True))
    return not is_any(~(abs(sums) <= SUMS * abs(moduli)))
