"""The vector operations of conjugate gradients on the host: sweeps of vectors.cpp, scalars in numpy."""

from __future__ import annotations

import numpy as np

from meshsolve import _core
from meshsolve.krylov.blocks import in_same_unit, preconditioner, reusing
from meshsolve.krylov.cg_rules import INDEFINITE, LOST_AT, SAVE_AT
from meshsolve.krylov.null_space import null_space_of
from meshsolve.krylov.operator import Operator, multiply_dot, residual, rounding_of
from meshsolve.sparse.columns import lengths
from meshsolve.sparse.matrix import Csr

RENUMBERED = 50_000                     # rows from which vectors leave the cache, so that the numbering of M may be faster
NEAR = 1 << 15                          # distance of two rows up to which their entries of a vector share the cache
TOGETHER, CACHED = 8, 1 << 16           # columns of a kernel call, and values of a block below which more columns run together


class HostVectors:
    """Columns that run together: blocks of n rows of k values, and the scalars of each column.

    An iteration on a few thousand rows takes as long as a dozen small operations of numpy. In nearly all iterations no column
    ends, needs a check or restarts: one comparison of the norms with bounds shows that there is nothing to decide.
    """

    look_every, centers_late = 1, False

    def __init__(self, matrix, B, X, precondition, null_space, threads):
        self.matrix, self.B, self.X, self._threads, self._precondition = matrix, B, X, threads, precondition
        k = B.shape[1]
        self.null_space = null_space if k else None
        self.R, self.P, self.Q = np.empty_like(B), np.empty_like(B), np.empty_like(B)
        self._flat = tuple(map(_flat, (self.R, self.P, self.Q, self.X)))
        self.iterations = np.zeros(k, np.int64)
        self._rho = self._broken = self._restarted = None

    def begin(self, size):
        """Compute R := B - A X; return its norms, which are ``size``, the norms of B, if X is zero."""
        self.X[:, size == 0] = 0
        if self.X.any():
            norm = self.centered_norms(self.R)
        else:
            self.R[...] = self.B
            norm = size.copy()
        self.saved = self.X.copy()
        return norm

    def direction(self, _):
        """P := M R + beta P."""
        Z, P, rho = self._precondition(self.R), self._flat[1], self._rho
        if rho is None:
            self.P[...] = Z
            self._rho = self._dot(Z)
            return
        self._rho = self._squares if Z is self.R and self._restarted is None else self._dot(Z)
        _core.krylov_direction(self._ratio(self._rho, rho, self._restarted), _flat(Z), P, self._threads)
        self._restarted = None

    def multiply(self, _):
        """Q := A P; find the columns in which r . M r or p . A p is not positive."""
        self._curvature = multiply_dot(self.matrix, self._flat[1], self._flat[2], self._threads)
        positive, self._broken = (self._curvature > 0) & (self._rho > 0), None
        if np.count_nonzero(positive) < len(positive):
            broken = self._run.active & ~positive
            self._broken = broken if broken.any() else None

    def step(self, _):
        """X := X + alpha P, R := R - alpha Q."""
        alpha, (R, P, Q, X) = self._ratio(self._rho, self._curvature, self._broken), self._flat
        self._squares = np.empty(len(alpha))
        _core.krylov_step(alpha, P, Q, X, R, self._squares, self._threads)
        self.norm = np.sqrt(self._squares)
        self.iterations += self._run.active

    def look(self, residuals):
        """Return (at_target, diverged, broken) columns, or None if there is nothing to decide."""
        norm, (low, high) = self.norm, self._bounds
        residuals.append(norm)
        if self._broken is None and np.count_nonzero((norm > low) & (norm <= high)) == len(low):
            return None
        run = self._run
        return norm <= run.target, ~(norm <= LOST_AT * run.saved_norm), np.zeros(len(norm), bool) if self._broken is None else self._broken

    def proceed(self, run):
        """Take over which columns are active, and the norms between which there is nothing to decide."""
        if self._broken is not None:                        # a column that ended before its step does not count it
            self.iterations -= self._broken & (run.reason == INDEFINITE)
        self._run = run
        self._bounds = (np.where(run.active, np.maximum(run.target, SAVE_AT * run.saved_norm), -np.inf),
                        np.where(run.active, LOST_AT * run.saved_norm, np.inf))

    def restart(self, columns):
        """Restart these columns from their true residual, which is in Q, without a previous direction."""
        self.copy_columns(self.R, self.Q, columns)
        self._restarted = columns

    def products(self):
        """(r . M r, |r| |M r|), and (p . A p, the scale of its rounding errors)."""
        size = lengths(self.R) * lengths(self._precondition(self.R))
        return (self._rho, size), (self._curvature, rounding_of(self.matrix, self.P))

    def centered(self, block):
        """A copy without the null space."""
        block = block.copy()
        self.null_space(block)
        return block

    def centered_norms(self, out):
        """Remove the null space from X; compute out := B - A X and return its norms."""
        if self.null_space is not None:
            self.null_space(self.X)
        return self.true_norms(self.X, out)

    checked_norms = centered_norms

    def true_norms(self, X, out):
        """Compute out := B - A X and return its norms."""
        return np.sqrt(residual(self.matrix, _flat(self.B), _flat(X), _flat(out), self._threads))

    def norms(self, block):
        """(k,) 2-norms of the columns."""
        return lengths(block)

    def copy_columns(self, to, block, columns):
        """Copy the columns of a mask."""
        to[:, columns] = block[:, columns]

    def _dot(self, Z):
        products = np.empty(Z.shape[1])
        _core.krylov_dot(self._flat[0], _flat(Z), products, self._threads)
        return products

    def _ratio(self, a, b, but):
        """a / b of each column that runs; 0 for other columns and those in ``but``."""
        run = self._run
        if but is None and run.running == len(a):
            return a / b
        return np.divide(a, b, out=np.zeros_like(a), where=run.active if but is None else run.active & ~but)


# ---- input and numberings ---------------------------------------------------------------------------------------------------


def start(matrix, system, M, threads, report):
    """Prepare a solve on the host.

    Returns
    -------
    width : int
        Number of columns that run together: wider blocks would leave the cache between two sweeps.
    vectors : callable
        Returns the :class:`HostVectors` of a slice of columns.
    back : callable
        Returns X in the caller's numbering.
    """
    B, X = system.B, system.X
    report.facts.update(threads=threads, nnz_A=matrix.nnz)
    precondition, null_space, back = preconditioner(M, matrix.n), null_space_of(matrix, M, threads), lambda X: X
    if _worth_renumbering(matrix, M):
        with report.phase("renumber"):
            position = M.positions()
            matrix, B, X = _renumbered(matrix, position, threads), B.take(position, axis=0), X.take(position, axis=0)
        precondition, back = reusing(M.apply_inside), lambda X: _back(X, position)
        if null_space is not None and not M.connected:      # a mean over all rows is the same in any numbering
            null_space = _renumbered_projection(null_space, position)

    precondition = in_same_unit(precondition, M, system.exponent)

    def vectors(columns):
        return HostVectors(matrix, *(np.ascontiguousarray(block[:, columns]) for block in (B, X)), precondition, null_space, threads)

    return TOGETHER * max(CACHED // (TOGETHER * max(matrix.n, 1)), 1), vectors, back


def _worth_renumbering(matrix, M):
    return hasattr(M, "apply_inside") and matrix.n >= RENUMBERED and not isinstance(matrix, Operator) and _scattered(matrix)


def _scattered(matrix):
    """True if many neighbors are far apart in memory, judging from a sample of rows."""
    rows = np.linspace(0, matrix.n - 1, 1000).astype(np.int64)
    begin, count = matrix.indptr[rows], np.diff(matrix.indptr)[rows]
    entry = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
    return np.mean(abs(matrix.indices[entry] - np.repeat(rows, count)) > NEAR) > 0.25


def _renumbered(matrix, position, threads):
    """The matrix whose row and column q are position[q] of the given one."""
    indptr, indices, data = np.empty_like(matrix.indptr), np.empty_like(matrix.indices), np.empty_like(matrix.data)
    _core.krylov_renumber(matrix.indptr, matrix.indices, matrix.data, position, indptr, indices, data, threads)
    return Csr(matrix.n, indptr, indices, data)


def _back(block, position):
    """The block whose row position[q] is row q of the given one."""
    out = np.empty_like(block)
    out[position] = block
    return out


def _renumbered_projection(null_space, position):
    """``null_space``, which changes a block in place, for a block whose row q is row position[q]."""
    def change(block):
        out = _back(block, position)
        null_space(out)
        block[...] = out[position]
    return change


def _flat(block):
    return block.reshape(-1)
