"""The vector operations of SQMR on the host, for one right-hand side: sweeps of vectors.cpp, scalars in Python."""

from __future__ import annotations

from math import isfinite, sqrt

import numpy as np

from meshsolve import _core
from meshsolve.krylov.blocks import in_same_unit, preconditioner
from meshsolve.krylov.operator import multiply_dot, residual
from meshsolve.krylov.sqmr_rules import AT_LIMIT, AT_TARGET, BROKEN, DONE, RUNNING


class HostVectors:
    """One column: vectors of n values, and lists of one scalar, with the interface of
    :class:`meshsolve.krylov.sqmr_cuda.CudaVectors`.

    Attributes
    ----------
    X, work : (n, 1)
        The best iterate whose residual was computed, and the current iterate.
    status, tau, look : lists of one
        State of the column, its quasi-residual, and the quasi-residual at which to compute the true residual.
    """

    look_every = 1

    def __init__(self, matrix, B, X, precondition, threads):
        self.matrix, self.X, self._precondition, self._threads = matrix, X, precondition, threads
        self._b, self._left, self._best = B.reshape(-1), None, None
        self.status, self.tau, self.look = [DONE], [0.0], [0.0]

    def begin(self, sizes, maxiter):
        """Norms of B - A X, which are ``sizes``, the norms of B, if X is zero."""
        self._steps, self._most = 0, maxiter
        if sizes[0] == 0:
            self.X[...] = 0
        if not self.X.any():
            self._left = self._b.copy()
            return sizes
        self._left, norm = self._residual(self.X.reshape(-1))
        return [norm]

    def start(self, columns, norms, targets):
        """Begin a sequence from X."""
        self.work, self._r, self._left = self.X.copy(), self._left, None
        self._x, self._d, self._q = self.work.reshape(-1), np.zeros(len(self._b)), np.empty(len(self._b))
        self._z = self._precondition(self._r[:, None])
        self.tau[0], self.look[0], self._theta, self._rho = norms[0], targets[0], 0.0, None
        self.status[0] = RUNNING

    def angles(self):
        """(r . M r, |M r|) at the start of a sequence."""
        z = self._z.reshape(-1)
        return [self._dot(self._r, z)], [sqrt(self._dot(z, z))]

    def aside(self, columns):
        """Set ``candidate`` to the point on X + span(M r) with the smallest residual; True if it exists."""
        z = self._z.reshape(-1)
        t = self._multiply(z)[0]
        squares = self._dot(t, t)
        if not (squares > 0 and isfinite(squares)):
            return [False]
        self.candidate = (self._x + self._dot(self._r, t) / squares * z)[:, None]
        return [True]

    def settle(self, c, steps=0):
        """Stop a column, after ``steps`` more iterations."""
        self.status[c] = DONE
        self._steps += steps

    def run_on(self, c, look):
        """Continue a column until its quasi-residual is at most ``look``."""
        self.status[c], self.look[c] = RUNNING, look

    def direction(self, _):
        """Compute q := M r + beta q."""
        z = self._precondition(self._r[:, None]) if self._z is None else self._z
        self._z, z, rho = None, z.reshape(-1), self._rho
        self._rho = self._dot(self._r, z)
        if rho is None:
            self._q[:] = z
        else:
            _core.krylov_direction(np.array([self._rho / rho]), z, self._q, self._threads)

    def multiply(self, _):
        """Compute t := A q and the step rho / (q . t)."""
        self._t, sigma = self._multiply(self._q)
        if self.tau[0] == 0 or self._rho == 0 or sigma == 0 or not isfinite(self._rho) or not isfinite(sigma):
            self.status[0] = BROKEN
        else:
            self._alpha = self._rho / sigma

    def subtract(self, _):
        """Compute r := r - alpha t and the quasi-residual."""
        if self.status[0] == BROKEN:
            return
        before, tau = self._theta, self.tau[0]
        theta = self._theta = sqrt(_core.sqmr_subtract(self._alpha, self._t, self._r, self._threads)) / tau
        if not isfinite(theta):
            self.status[0] = BROKEN
            return
        c2 = 1 / (1 + theta * theta)
        self.tau[0], self._old, self._fresh = tau * (theta * sqrt(c2)), c2 * before * before, c2 * self._alpha

    def smooth(self):
        """Compute d := old d + fresh q, x := x + d."""
        if self.status[0] == BROKEN:
            return
        _core.sqmr_smooth(self._old, self._fresh, self._q, self._d, self._x, self._threads)
        self._steps += 1
        if self.tau[0] <= self.look[0]:
            self.status[0] = AT_TARGET
        elif self._steps >= self._most:
            self.status[0] = AT_LIMIT

    def record(self, columns):
        """Add the iteration to the column; False if it broke down."""
        if self.status[0] == BROKEN:
            return False
        columns[0].add([self.tau[0]])
        return True

    def keep_best(self, X, columns, norms):
        """Keep X if its true residual is smaller than ``norms``; return the kept norms."""
        left, norm = self._residual(X.reshape(-1))
        if norm < norms[0]:
            self.X, self._left = X.copy(), left
            return [norm]
        return norms

    def corrected(self):
        """Yield the best iterate and zero, each after one step of refinement."""
        for X in ([self.X] if self.X.any() else []) + [np.zeros_like(self.X)]:
            yield X + self._precondition(self._residual(X.reshape(-1))[0][:, None])

    def true_norms(self, X):
        """Norms of B - A X."""
        return [self._residual(X.reshape(-1))[1]]

    def norms(self):
        """Norms of B. numpy's norm would start the threads of its BLAS, which then keep a core busy for a while."""
        return [sqrt(self._dot(self._b, self._b))]

    def _dot(self, u, v):
        product = np.empty(1)
        _core.krylov_dot(u, v, product, self._threads)
        return float(product[0])

    def _multiply(self, q):
        """A q and q . A q."""
        t = np.empty_like(q)
        return t, float(multiply_dot(self.matrix, q, t, self._threads)[0])

    def _residual(self, x):
        """b - A x and its norm."""
        r = np.empty_like(x)
        return r, sqrt(residual(self.matrix, self._b, x, r, self._threads)[0])


def start(matrix, system, M, threads, report):
    """Return (width, vectors): the number of columns that run together, and a function that returns the :class:`HostVectors` of a
    slice of columns."""
    B, X = system.B, system.X
    report.facts.update(threads=threads, nnz_A=matrix.nnz)
    precondition = in_same_unit(preconditioner(M, matrix.n), M, system.exponent)

    def vectors(columns):
        return HostVectors(matrix, *(np.ascontiguousarray(block[:, columns]) for block in (B, X)), precondition, threads)

    return 1, vectors
