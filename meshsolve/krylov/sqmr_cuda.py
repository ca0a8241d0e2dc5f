"""SQMR on the GPU: the iteration of sqmr.py on all columns at once, its decisions taken by the kernels of sqmr.cu.

The host enqueues iterations and looks at what became of the columns every few of them. A column stands still from the very
iteration in which the host has to look at it, so that counts and results do not depend on how often that is.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.krylov import cg_cuda
from meshsolve.krylov.info import CONVERGED, EXHAUSTED
from meshsolve.krylov.sqmr_rules import BROKE_DOWN, ORTHOGONAL, RESTARTS, STAGNATED
from meshsolve.report import Report
from meshsolve.sparse.product import Product

K = device.kernels("krylov/sqmr.cu")
BLOCK = cg_cuda.BLOCK
LOOK_AGAIN = 0.3                        # of the quasi-residual at which the true one was still too large
MISLEADING = 1e-3                       # of the true residual: below, the quasi-residual says nothing any more
GO_ON, ARRIVED, BROKEN, SPENT, SETTLED = range(5)                                  # enum Standing in sqmr.cu
RHO, BETA, STEP, THETA, TAU, OLD, FRESH, LOOK = range(8)                           # enum Scalar
DIRECTION, CURVATURE, RESIDUAL = range(3)                                          # `what` of k_quasi_decide


class Column:
    """What the host knows of one right-hand side; fields as in :class:`meshsolve.krylov.sqmr._Column`."""

    def __init__(self, size, norm, target):
        self.scale, self.norm, self.target = size if size > 0 else 1.0, norm, target
        self.iterations, self.residuals, self.reason = 0, [norm / self.scale], EXHAUSTED
        self.sequences, self.began = 0, norm

    def ends(self, maxiter):
        """Whether no new sequence begins: one begins at first, and after a breakdown where the last one was of use."""
        if self.norm <= self.target:
            self.reason = CONVERGED
        elif self.sequences == 0 or (self.reason in (BROKE_DOWN, STAGNATED) and self.norm <= 0.5 * self.began
                                     and self.sequences <= RESTARTS):
            self.sequences, self.began = self.sequences + 1, self.norm
            if self.iterations < maxiter:
                return False
            self.reason = EXHAUSTED
        return True


class DeviceSolve:
    """One solve: (n, k) blocks on the device, what is decided of each column after a look on the host."""

    def __init__(self, matrix, B, X, precondition, check):
        xp, k = device.xp(), B.shape[1]
        self.n, self.k, self.B, self.X = matrix.n, k, B, X
        self._multiply = Product(matrix)
        self.precondition, self.check = precondition, check
        self.report = Report(nnz_A=self._multiply.nnz, device="cuda")
        self.R, self.Q, self.T, self.D = (xp.zeros((self.n, k)) for _ in range(4))
        self.num_parts = cg_cuda.parts_of(self.n)
        self.parts = xp.empty(self.num_parts * k)
        self.scalars, self.history = xp.zeros((8, k)), xp.zeros((cg_cuda.LOOK, k))
        self.standing, self.starts, self.moves, self.counts = (xp.zeros(k, xp.int32) for _ in range(4))

    def iterate(self, rtol, atol, maxiter, callback):
        """Algorithm 3.1 of Freund and Nachtigal on all columns that are still running, a few iterations at a time; ``atol``: (k,)."""
        self._begin(rtol, atol)
        standing = np.full(self.k, SETTLED, np.int32)
        self._start([c for c, run in enumerate(self.columns) if not run.ends(maxiter)], standing)
        together = 1 if callback is not None else cg_cuda.LOOK
        while (standing == GO_ON).any():
            for i in range(together):
                self._one_iteration(i, maxiter)
            moved = self._count()
            if callback is not None and moved:
                callback(self.work)
            standing = self._judge(maxiter)
        self._correct([c for c, run in enumerate(self.columns) if run.reason in (BROKE_DOWN, STAGNATED)])

    # ---- the parts ----------------------------------------------------------------------------------------------------------

    def _one_iteration(self, i, maxiter):
        Z = self.precondition(self.R)
        self._decide(DIRECTION, self.R, Z, i, maxiter)
        self._sweep(K.k_quasi_direction, Z, self.Q)
        self._multiply(self.Q, self.T)
        self._decide(CURVATURE, self.Q, self.T, i, maxiter)
        self._sweep(K.k_quasi_subtract, self.T, self.R)
        self._decide(RESIDUAL, self.R, self.R, i, maxiter)
        self._sweep(K.k_quasi_smooth, self.Q, self.D, self.work)

    def _sweep(self, kernel, *blocks):
        device.launch(kernel, device.grid_for(self.n * self.k, BLOCK), BLOCK, 0,
                      (np.int32(self.n), np.int32(self.k), self.scalars, self.moves, *blocks))

    def _dot(self, U, V):
        cg_cuda.dot(self.n, self.k, U, V, self.parts)

    def _decide(self, what, U, V, i, maxiter):
        self._dot(U, V)
        device.launch(K.k_quasi_decide, self.k, BLOCK, 0,
                      (np.int32(what), np.int32(self.k), np.int32(self.num_parts), np.int32(maxiter), self.parts, self.scalars,
                       self.standing, self.starts, self.moves, self.counts, self.history[i]))

    def _products(self, U, V):
        """Dot products of the columns, on the host."""
        self._dot(U, V)
        return device.to_host(self.parts).reshape(self.k, self.num_parts).sum(axis=1)

    def _norms(self, block):
        """2-norms of the columns, on the host."""
        return np.sqrt(self._products(block, block))

    def _true_residual(self, X):
        """B - A X, and the norms of its columns."""
        R = device.xp().empty_like(X)
        self._multiply(X, R)
        R = self.B - R
        return R, self._norms(R)

    # ---- what the host decides ----------------------------------------------------------------------------------------------

    def _begin(self, rtol, atol):
        size = self._norms(self.B)
        self.X *= device.to_device(np.where(size == 0, 0.0, 1.0))
        norm = self._true_residual(self.X)[1]
        self.columns = [Column(float(s), float(r), max(rtol * float(s), float(a))) for s, r, a in zip(size, norm, atol, strict=True)]
        self.work = self.X.copy()                           # the iterates; X keeps the best that were looked at

    def _start(self, columns, standing):
        """New sequences from the best iterates of these columns; tells the device who stands how."""
        columns = self._step_aside(columns)
        if columns:
            here = device.to_device(np.array(columns))
            R, norm = self._true_residual(self.X)
            self.work[:, here], self.R[:, here], self.D[:, here] = self.X[:, here], R[:, here], 0.0
            self.scalars[THETA, here], self.starts[here] = 0.0, 1
            self.scalars[TAU, here] = device.to_device(norm[columns])
            self.scalars[LOOK, here] = device.to_device(np.array([self.columns[c].target for c in columns]))
            standing[columns] = GO_ON
        self.standing[:] = device.to_device(standing)

    def _step_aside(self, columns):
        """Columns whose residual r is orthogonal to M^-1 r go along that to the least residual. Returns who is not there yet."""
        if not columns:
            return []
        R, norm = self._true_residual(self.X)
        Z = self.precondition(R).copy()
        flat = np.abs(self._products(R, Z)) <= ORTHOGONAL * norm * self._norms(Z)
        flat &= np.isin(np.arange(self.k), columns)
        if not flat.any():
            return columns
        T = device.xp().empty_like(Z)
        self._multiply(Z, T)
        squares = self._products(T, T)
        flat &= np.isfinite(squares) & (squares > 0)
        step = np.where(flat, self._products(R, T) / np.where(flat, squares, 1.0), 0.0)
        X = self.X + device.to_device(step) * Z
        reached = self._true_residual(X)[1]
        for c in np.flatnonzero(flat & (reached <= 0.5 * norm)):
            run = self.columns[c]
            self.X[:, c], run.norm = X[:, c], float(reached[c])
            run.iterations += 1
            self.counts[c] += 1
            run.residuals.append(run.norm / run.scale)
            if run.norm <= run.target:
                run.reason = CONVERGED
        return [c for c in columns if self.columns[c].reason != CONVERGED]

    def _count(self):
        """Takes over what the columns have done since the last look; whether any has moved."""
        if self.check is not None:
            self.check()
        counts, history = device.to_host(self.counts), device.to_host(self.history)
        before = [run.iterations for run in self.columns]
        for c, run in enumerate(self.columns):
            run.residuals.extend(float(tau) / run.scale for tau in history[:counts[c] - run.iterations, c])
            run.iterations = int(counts[c])
        return before != counts.tolist()

    def _judge(self, maxiter):
        """Columns that stopped are looked at, and go on, start anew or are settled. Returns who stands how."""
        standing, scalars, anew = device.to_host(self.standing), device.to_host(self.scalars), []
        stopped = [c for c in range(self.k) if standing[c] in (ARRIVED, BROKEN, SPENT)]
        if not stopped:
            return standing
        self._keep_best(stopped)
        for c in stopped:
            run, tau = self.columns[c], scalars[TAU, c]
            misled = standing[c] == ARRIVED and tau < MISLEADING * run.norm
            if standing[c] == ARRIVED and run.norm > run.target and not misled and run.iterations < maxiter:
                standing[c], scalars[LOOK, c] = GO_ON, LOOK_AGAIN * tau
                continue
            run.reason = BROKE_DOWN if standing[c] == BROKEN else STAGNATED if misled else EXHAUSTED
            standing[c] = SETTLED
            if not run.ends(maxiter):
                anew.append(c)
        self.scalars[LOOK] = device.to_device(scalars[LOOK])
        self._start(anew, standing)
        return standing

    def _correct(self, columns):
        """As on the CPU: one step of refinement, from the best iterates of these columns and from zero."""
        if not columns:
            return
        for start in (self.X, device.xp().zeros_like(self.X)):
            self.work = start + self.precondition(self._true_residual(start)[0])
            self._keep_best(columns)
        for run in map(self.columns.__getitem__, columns):
            if run.norm <= run.target:
                run.reason = CONVERGED

    def _keep_best(self, columns):
        """Keeps the iterates of these columns where their true residuals are the smallest so far."""
        norm = self._true_residual(self.work)[1]
        better = [c for c in columns if norm[c] < self.columns[c].norm]
        for c in better:
            self.columns[c].norm = float(norm[c])
        if better:
            here = device.to_device(np.array(better))
            self.X[:, here] = self.work[:, here]
