"""The vector operations of SQMR on the GPU, for all columns at once: launches of sqmr.cu, whose kernels also decide when a column
stops.

The host enqueues LOOK_EVERY iterations and then reads the state of the columns. A column stops in the iteration in which the host
must compute its residual, so counts and results do not depend on LOOK_EVERY.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.krylov.blocks import in_same_unit
from meshsolve.krylov.cg_cuda import BLOCK, CudaBlocks, preconditioner
from meshsolve.krylov.cg_cuda import LOOK as LOOK_EVERY
from meshsolve.krylov.sqmr_rules import DONE, RUNNING

K = device.kernels("krylov/sqmr.cu")
RHO, BETA, STEP, THETA, TAU, OLD, FRESH, LOOK = range(8)                           # enum Scalar in sqmr.cu
DIRECTION, CURVATURE, RESIDUAL = range(3)                                          # `what` of k_quasi_decide


class CudaVectors(CudaBlocks):
    """All columns of a solve: (n, k) blocks on the GPU, and the scalars of each column.

    Attributes
    ----------
    X, work : (n, k)
        The best iterates whose residuals were computed, and the current iterates.
    status, tau, look : (k,) arrays on the host
        State of a column, its quasi-residual, and the quasi-residual at which to compute the true residual.
    """

    def __init__(self, matrix, B, X, precondition, check):
        super().__init__(matrix, B, X, precondition, check)
        xp, k = device.xp(), self.k
        self._r, self._q, self._t, self._d = (xp.zeros((self.n, k)) for _ in range(4))
        self._scalars, self._history = xp.zeros((8, k)), xp.zeros((LOOK_EVERY, k))
        self._starts, self._moves, self._counts = (xp.zeros(k, xp.int32) for _ in range(3))
        self._status = xp.full(k, DONE, xp.int32)
        self.status, self.tau, self.look = np.full(k, DONE, np.int32), np.zeros(k), np.zeros(k)

    def begin(self, sizes, maxiter):
        """Norms of B - A X, after setting columns of X to zero whose b is zero."""
        self._most = np.int32(maxiter)
        self.X *= device.to_device(np.where(np.array(sizes) == 0, 0.0, 1.0))
        self.work = self.X.copy()
        return self._residual(self.X)[1].tolist()

    def start(self, columns, norms, targets):
        """Begin sequences from these columns of X."""
        chosen, R = device.to_device(np.array(columns)), self._residual(self.X, norms=False)
        self.work[:, chosen], self._r[:, chosen], self._d[:, chosen] = self.X[:, chosen], R[:, chosen], 0.0
        self._scalars[THETA, chosen], self._starts[chosen] = 0.0, 1
        self._scalars[TAU, chosen] = device.to_device(np.array(norms)[columns])
        self.look[columns], self.status[columns] = np.array(targets)[columns], RUNNING
        self._scalars[LOOK, chosen], self._status[chosen] = device.to_device(self.look[columns]), RUNNING
        self._z = self._precondition(self._r)

    def angles(self):
        """(r . M r, |M r|) at the start of a sequence."""
        return self.dots(self._r, self._z), self.norms(self._z)

    def aside(self, columns):
        """Set ``candidate`` to the point on X + span(M r) with the smallest residual; True for columns in which it exists."""
        self._product(self._z, self._t)
        squares, products = self.dots(self._t, self._t), self.dots(self._r, self._t)
        found = np.isfinite(squares) & (squares > 0) & np.isin(np.arange(self.k), columns)
        step = np.where(found, products / np.where(found, squares, 1.0), 0.0)
        self.candidate = self.work + device.to_device(step) * self._z
        return found

    def settle(self, c, steps=0):
        """Stop a column, after ``steps`` more iterations."""
        self.status[c] = self._status[c] = DONE
        self._counts[c] += steps

    def run_on(self, c, look):
        """Continue a column until its quasi-residual is at most ``look``."""
        self.status[c] = self._status[c] = RUNNING
        self.look[c] = self._scalars[LOOK, c] = look

    def direction(self, i):
        """Compute q := M r + beta q."""
        Z, self._z = self._precondition(self._r) if self._z is None else self._z, None
        self._decide(DIRECTION, self._r, Z, i)
        self._sweep(K.k_quasi_direction, Z, self._q)

    def multiply(self, i):
        """Compute t := A q and the step rho / (q . t)."""
        self._product(self._q, self._t)
        self._decide(CURVATURE, self._q, self._t, i)

    def subtract(self, i):
        """Compute r := r - alpha t and the quasi-residual."""
        self._sweep(K.k_quasi_subtract, self._t, self._r)
        self._decide(RESIDUAL, self._r, self._r, i)

    def smooth(self):
        """Compute d := old d + fresh q, x := x + d."""
        self._sweep(K.k_quasi_smooth, self._q, self._d, self.work)

    def record(self, columns):
        """Read the state, and add the iterations since the last call to the columns; True if there are any."""
        self.check()
        self.status, scalars = device.to_host(self._status).copy(), device.to_host(self._scalars)
        self.tau, self.look = scalars[TAU], scalars[LOOK].copy()
        counts, history = device.to_host(self._counts), device.to_host(self._history)
        before = [run.iterations for run in columns]
        for c, run in enumerate(columns):
            run.add(history[:counts[c] - run.iterations, c])
        return before != counts.tolist()

    def keep_best(self, X, columns, norms):
        """Keep those of these columns of X whose true residuals are smaller than ``norms``; return the kept norms."""
        found, norms = self._residual(X)[1], list(norms)
        better = [c for c in columns if found[c] < norms[c]]
        for c in better:
            norms[c] = float(found[c])
        if better:
            self.copy_columns(self.X, X, np.isin(np.arange(self.k), better))
        return norms

    def corrected(self):
        """Yield the best iterates and zeros, each after one step of refinement."""
        for X in (self.X, device.xp().zeros_like(self.X)):
            yield X + self._precondition(self._residual(X, norms=False))

    def true_norms(self, X):
        """Norms of B - A X."""
        return self._residual(X)[1].tolist()

    def norms(self, block=None):
        """(k,) 2-norms of the columns of B or of another block, on the host."""
        return super().norms(self.B if block is None else block).tolist()

    def _sweep(self, kernel, *blocks):
        device.launch(kernel, device.grid_for(self.n * self.k, BLOCK), BLOCK, 0,
                      (np.int32(self.n), np.int32(self.k), self._scalars, self._moves, *blocks))

    def _decide(self, what, U, V, i):
        self._dot(U, V)
        device.launch(K.k_quasi_decide, self.k, BLOCK, 0,
                      (np.int32(what), np.int32(self.k), np.int32(self._num_parts), self._most, self._parts, self._scalars,
                       self._status, self._starts, self._moves, self._counts, self._history[i]))

    def _residual(self, X, norms=True):
        """B - A X, with the norms of its columns."""
        R = device.xp().empty_like(X)
        self._product(X, R)
        R = self.B - R
        return (R, super().norms(R)) if norms else R


def start(matrix, system, M, _, report):
    """As :func:`meshsolve.krylov.sqmr_host.start`: all columns run together."""
    report.facts.update(device="cuda", nnz_A=len(matrix.indices))
    precondition = in_same_unit(preconditioner(M, matrix.n), M, system.exponent)
    return max(len(system.shift), 1), lambda _: CudaVectors(matrix, system.B, system.X, precondition, getattr(M, "check_device", None))
