"""Conjugate gradients for symmetric positive (semi)definite systems, many right-hand sides at once.

The iteration of Hestenes and Stiefel 1952, preconditioned, column by column with common sweeps over memory. What it says of
itself is the true residual: before a column counts as converged b - A x is computed anew, and the iteration goes on from it
where it is still too large.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from meshsolve import _core, device
from meshsolve.arrays import Csr, lengths
from meshsolve.device_arrays import DeviceCsr, uploaded
from meshsolve.errors import ConvergenceWarning
from meshsolve.foreign import is_sparse
from meshsolve.krylov import cg_cuda
from meshsolve.krylov.blocks import as_matrix, blocks_of, checked_options, preconditioner, reusing, unshifted
from meshsolve.krylov.cg_rules import DIVERGED, INDEFINITE, LOST_AT, NEGATIVE, RUNNING, SAVE_AT, STAGNATED, TINY, Solve
from meshsolve.krylov.constrained import solve_constrained
from meshsolve.krylov.info import CONVERGED, EXHAUSTED, Info
from meshsolve.krylov.null_space import null_space_of
from meshsolve.krylov.operator import Operator, multiply_dot, residual, rounding_of
from meshsolve.options import thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.constraints import without_constraint
from meshsolve.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Callback, Matrix

RENUMBERED = 50_000                     # rows from which the vectors leave the cache: M's numbering may be worth having,
NEAR = 1 << 15                          # unless A's neighbours are so near: their entries of a vector are in the cache
TOGETHER, CACHED = 8, 1 << 16           # columns that run together: as the kernels take them, and more where the values of a block are few


def cg(A: Matrix, b: ArrayLike, M: Any = None, x0: ArrayLike | None = None, rtol: float = 1e-8, atol: float = 0.0,
       maxiter: int | None = None, callback: Callback | None = None, threads: int | None = None, *,
       fixed: ArrayLike | None = None, pin: bool = False, fixed_values: ArrayLike | None = None) -> tuple[Array, Info]:
    """Solve A x = b by preconditioned conjugate gradients.

    Parameters
    ----------
    A : (n, n) symmetric positive definite or semidefinite matrix of any kind, or LinearOperator
        Where the rows of a component sum to 0 (Laplacians), the mean of b on it is taken out, and x has mean 0 there. If b had
        a mean there, the relative residual tells it and ``info.converged`` is false. An operator has ``shape`` and ``matvec``, and
        ``matmat`` for blocks; its symmetry is not checked, and it works on the CPU.
    b : (n,) or (n, k)
    M : (n, n) LinearOperator, factor or array, optional
        Approximate inverse of A, symmetric positive definite, such as :func:`meshsolve.parac`'s.
    x0 : array of b's shape, optional
    rtol, atol : float
        Stop when ||b - A x|| <= max(rtol ||b||, atol), 2-norms, for each column.
    maxiter : int, default 10,000
    callback : callable, optional
        Called with the current x after each iteration.
    threads : int, optional
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Rows with prescribed values (Dirichlet), which leave the system with their columns; A has entries then. M has n rows, whose block
        of the free rows is applied, or the free rows alone. Residuals are relative to b minus what the prescribed values contribute.
    pin : bool
        For singular matrices that take constants to 0: means of b on the components are taken out with a warning, x has mean 0 on each.
    fixed_values : number, (len(fixed),) or (len(fixed), k), optional
        Values of the fixed rows in the order of ``fixed``, zeros by default. Of (n,) or (n, k) values those of the fixed rows are taken.

    Where b lies on the GPU or M was made there, everything runs there, and x lies where b does.

    Returns
    -------
    x : array of b's shape
        Where it did not converge, the best iterate, with a ConvergenceWarning.
    info : Info
        ``.converged``, ``.iterations``, ``.residuals``, ``.relative_residual`` (the true one), ``.reason``; (k,) arrays for a
        block, ``.converged`` is all of them.

    Raises
    ------
    InvalidInputError, NotSymmetricError (``.row``, ``.column``)
        A is not square or not symmetric; b, M, x0 or ``fixed_values`` do not fit; a bad option; NaN or infinity anywhere; bad rows in
        ``fixed``, or ``pin`` with it.
    NotLaplacianError
        ``pin=True``, and a row does not sum to 0: ``.row``.

    Notes
    -----
    An iteration reads A and M once and the vectors four times, O((nnz(A) + nnz(M) + n) k). From 50,000 rows on, a system whose
    neighbours lie far apart in memory is renumbered as the solves of a ParAC factor are, for the time of the call: a copy of A.
    The columns of a large block run eight at a time, unless a callback is to see all of them.
    Source: Hestenes, Stiefel 1952; Saad 2003, "Iterative methods for sparse linear systems", algorithm 9.1.

    Examples
    --------
    >>> import meshsolve as ms, numpy as np
    >>> L = ms.datasets.grid3d(10)
    >>> x, info = ms.cg(L, L @ np.arange(1000.0), M=ms.parac(L))
    >>> info.converged and info.iterations < 40
    True
    """
    def run(A, b, M, x0, callback):
        return iterate(A, b, M, x0, rtol, atol, maxiter, callback, threads)

    if is_sparse(b):
        return solve_sparse_once(A, b, lambda B: cg(A, B, M, x0, rtol, atol, maxiter, callback, threads, fixed=fixed, pin=pin,
                                                    fixed_values=fixed_values))
    if fixed is not None or pin is not False:
        return solve_constrained(run, A, b, M, x0, callback, threads, fixed, pin, fixed_values)
    without_constraint(fixed_values)
    return run(A, b, M, x0, callback)


def iterate(A, b, M, x0, rtol, atol=0.0, maxiter=None, callback=None, threads=None, gives_up=None):
    """:func:`cg` of an A that may be a :class:`Csr` or :class:`DeviceCsr` that was found symmetric. After every twentieth iteration it
    asks ``gives_up(done, left)`` whether to end as if ``maxiter`` were reached: ``left(seen)`` tells how many are foreseen to be left
    by the last ``seen``, without an argument by twenty."""
    rtol, atol, maxiter = checked_options(rtol, atol, maxiter, callback)
    threads = thread_count(threads)
    on_device = device.holds(b) or getattr(M, "on_device", False)
    errors = device.errors("cg") if on_device else contextlib.nullcontext()
    with errors:
        matrix = as_matrix(A, on_device, threads)
        system = blocks_of(b, x0, matrix.n, on_device)
        run, deliver = _start_on_device(matrix, system, M) if on_device else _start_here(matrix, system, M, threads)
        with run.report.phase("solve"):
            run.iterate(rtol, atol * system.shift, maxiter, None if callback is None else lambda X: callback(deliver(X)), gives_up)
        x = deliver(run.X)
    info = run.info(scalar=run.B.shape[1] == 1 and system.form.is_vector)
    if not info.converged:
        warn(f"cg: {run.worst()}", ConvergenceWarning)
    return x, info


def _start_here(matrix, system, M, threads):
    """The solve to run, and what brings its X into the form of b."""
    B, X, shift, form = system
    precondition, null_space = preconditioner(M, matrix.n), null_space_of(matrix, M, threads)
    report = Report(threads=threads, nnz_A=matrix.nnz)
    if not hasattr(M, "apply_inside") or M.on_device or matrix.n < RENUMBERED or isinstance(matrix, Operator) or not _scattered(matrix):
        run = _Runs(matrix, B, X, precondition, null_space, threads, report, shift)
        return run, lambda X: form.deliver(unshifted(X, shift))
    with report.phase("renumber"):
        place = M.places()
        matrix, B, X = _renumbered(matrix, place, threads), B.take(place, axis=0), X.take(place, axis=0)
    if null_space is not None and not M.connected:          # else a mean is a mean in any numbering
        null_space = _elsewhere(null_space, place)
    run = _Runs(matrix, B, X, reusing(M.apply_inside), null_space, threads, report, shift)
    return run, lambda X: form.deliver(_back(unshifted(X, shift), place))


def _start_on_device(matrix, system, M):
    """The same on the GPU; x lies where b does."""
    B, X, shift, form = system
    matrix = matrix if isinstance(matrix, DeviceCsr) else uploaded(matrix)
    precondition = cg_cuda.preconditioner(M, matrix.n)
    run = cg_cuda.DeviceSolve(matrix, B, X, precondition, cg_cuda.null_space(matrix, M), shift, getattr(M, "check_device", None))
    return run, lambda X: form.deliver(unshifted(X, shift))


class _Runs(Solve):
    """One solve of many columns, a few at a time: blocks of all of them would leave the cache between two sweeps."""

    def __init__(self, matrix, B, X, precondition, null_space, threads, report, shift):
        def some(columns):
            blocks = (np.ascontiguousarray(block[:, columns]) for block in (B, X))
            return _Run(matrix, *blocks, precondition, null_space, threads, report, shift[columns])

        self.B, self.X, self.report, self.shift, self.some, self.null_space = B, X, report, shift, some, null_space

    def iterate(self, rtol, atol, maxiter, callback, gives_up):
        """All columns at once only where a callback is to see all of them; the (k,) array atol belongs to them."""
        n, k = self.B.shape
        width = max(k, 1) if callback is not None else TOGETHER * max(CACHED // (TOGETHER * max(n, 1)), 1)
        told, histories = [], []
        for first in range(0, max(k, 1), width):
            columns = slice(first, first + width)
            run = self.some(columns)
            run.iterate(rtol, atol[columns], maxiter, callback, gives_up)
            self.X[:, columns] = run.X
            told.append((run.norm, run.scale, run.outside, run.reason, run.iterations))
            histories.append(run.residuals)
        self.norm, self.scale, self.outside, self.reason, self.iterations = map(np.concatenate, zip(*told, strict=True))
        self.residuals = _side_by_side(histories)


class _Run(Solve):
    """Columns that run together: blocks of n rows of k values, and what is known of each column.

    An iteration on a few thousand rows takes as long as a dozen small operations of numpy: where no column ends, is to be checked or
    starts anew, as in nearly all iterations, one comparison of the norms with ``bounds`` tells that there is nothing to decide.
    """

    def __init__(self, matrix, B, X, precondition, null_space, threads, report, shift):
        self.shift = shift
        self.matrix, self.B, self.X, self.threads, self.report = matrix, B, X, threads, report
        k = B.shape[1]
        self.precondition, self.null_space = precondition, null_space if k else None
        self.R, self.P, self.Q = np.empty_like(B), np.empty_like(B), np.empty_like(B)
        self._flat = tuple(map(_flat, (self.R, self.P, self.Q, self.X)))
        self.reason, self.active, self.running = np.full(k, RUNNING, object), np.ones(k, bool), k
        self.iterations, self.residuals = np.zeros(k, np.int64), []

    def iterate(self, rtol, atol, maxiter, callback, gives_up):
        """Algorithm 9.1 of Saad on all columns that are still running."""
        self._begin(rtol, atol)
        rho = self._first_direction() if self.running else None
        for done in range(maxiter):
            if not self.running or self._is_hopeless(done, gives_up):
                break
            curvature = self._multiply()
            broken = self._broken(rho, curvature)
            squares = self._step(self._ratio(rho, curvature, broken))
            self.iterations += self.active
            self.residuals.append(self.norm)
            if callback is not None:
                callback(self.X)
            restarted = self._judge(broken)
            if self.running:
                rho = self._search_direction(rho, squares, restarted)
        self._finish()

    # ---- the parts of an iteration ------------------------------------------------------------------------------------------

    def _begin(self, rtol, atol):
        size, self.outside = lengths(self.B), np.zeros(self.B.shape[1])
        self.scale, self.allowed = np.where(size > 0, size, 1.0), np.maximum(rtol * size, atol)
        if self.null_space is not None:
            self._to_the_range(rtol * size)
            size = lengths(self.B)
        self.X[:, size == 0] = 0
        if self.X.any():
            self.norm = self._last_residual(self.R)
        else:
            self.R[...] = self.B
            self.norm = size.copy()
        self.target = np.maximum(rtol * size, atol)
        self.truth = np.where(self.norm <= self.target, self.norm, np.inf)         # true residual when it was last looked at
        self.saved, self.saved_norm = self.X.copy(), self.norm.copy()
        self.residuals.append(self.norm)
        self._end(self.norm <= self.target, CONVERGED)
        self._set_bounds()

    def _to_the_range(self, allowed):
        """Takes component means out of b where they would keep the residual above what is ``allowed``.

        Means that are mere rounding stay: taken out, they would spoil the small entries of b where weights span many decades.
        """
        centered = self.B.copy()
        self.null_space(centered)
        outside = lengths(self.B - centered)
        if (outside > 0.01 * allowed).any():
            self.B, self.outside = centered, outside

    def _first_direction(self):
        """P := M R; returns R . M R for each column."""
        Z = self.precondition(self.R)
        self.P[...] = Z
        return self._dot(Z)

    def _search_direction(self, rho, squares, restarted):
        """P := M R + beta P; returns R . M R for each column, which is ``squares`` where R was not changed and there is no M."""
        Z, P = self.precondition(self.R), self._flat[1]
        new = squares if Z is self.R and restarted is None else self._dot(Z)
        _core.krylov_direction(self._ratio(new, rho, restarted), _flat(Z), P, self.threads)
        return new

    def _dot(self, Z):
        """R . Z for each column."""
        products = np.empty(Z.shape[1])
        _core.krylov_dot(self._flat[0], _flat(Z), products, self.threads)
        return products

    def _multiply(self):
        """Q := A P; returns P . A P for each column."""
        _, P, Q, _ = self._flat
        return multiply_dot(self.matrix, P, Q, self.threads)

    def _step(self, alpha):
        """X := X + alpha P, R := R - alpha Q; returns R . R for each column."""
        (R, P, Q, X), squares = self._flat, np.empty(len(alpha))
        _core.krylov_step(alpha, P, Q, X, R, squares, self.threads)
        self.norm = np.sqrt(squares)
        return squares

    def _ratio(self, a, b, but):
        """a / b for each column that runs, 0 for the others and for those in ``but``."""
        if but is None and self.running == len(a):
            return a / b
        return np.divide(a, b, out=np.zeros_like(a), where=self.active if but is None else self.active & ~but)

    def _judge(self, broken):
        """Columns that seem to have arrived, or that rounding has stopped, are checked; returns those that have to start again
        from their true residual, None where there are none."""
        low, high = self.bounds
        if broken is None and np.count_nonzero((self.norm > low) & (self.norm <= high)) == len(low):
            return None
        restarted = np.zeros(len(self.norm), bool)
        lost = self.active & ~(self.norm <= LOST_AT * self.saved_norm)
        if lost.any():
            self._end(lost, DIVERGED)
        arrived = self.active & (self.norm <= self.target)
        if broken is not None:
            arrived |= self.active & broken
        if arrived.any():
            true = self._last_residual(self.Q)
            self._end(arrived & (true <= 1.001 * self.target), CONVERGED)
            self._end(arrived & self.active & (true > 0.5 * self.truth), STAGNATED)
            restarted = arrived & self.active
            self.R[:, restarted] = self.Q[:, restarted]
            self.truth[arrived] = self.norm[arrived] = true[arrived]
            self.saved_norm[restarted] = np.maximum(self.saved_norm, true)[restarted]        # it was the recurrence's, which hides rounding
        better = self.active & (self.norm < SAVE_AT * self.saved_norm)
        if better.any():
            self.saved[:, better], self.saved_norm[better] = self.X[:, better], self.norm[better]
        self._set_bounds()
        return restarted if restarted.any() else None

    def _set_bounds(self):
        """Norms between which there is nothing to decide of a column; all norms of one that has ended."""
        self.bounds = (np.where(self.active, np.maximum(self.target, SAVE_AT * self.saved_norm), -np.inf),
                       np.where(self.active, LOST_AT * self.saved_norm, np.inf))

    def _broken(self, rho, curvature):
        """Columns that cannot go on from here, None where all can: what should be positive is not. Where that is more than rounding,
        they end."""
        positive = (curvature > 0) & (rho > 0)
        if np.count_nonzero(positive) == len(positive):
            return None
        broken = self.active & ~positive
        if not broken.any():
            return None
        products = lengths(self.R) * lengths(self.precondition(self.R))
        definite = (rho >= -NEGATIVE[0] * products - TINY) & (curvature >= -NEGATIVE[1] * rounding_of(self.matrix, self.P))
        self._end(broken & ~definite, INDEFINITE)
        return broken & self.active

    def _end(self, columns, reason):
        """Only here a column stops running: what does is asked for in each iteration."""
        self.reason[columns] = reason
        self.active = self.reason == RUNNING
        self.running = int(np.count_nonzero(self.active))

    def _finish(self):
        """Mean-free solutions, true residuals, and the best iterate of columns that did not converge."""
        self.reason[self.active] = EXHAUSTED
        failed = self.reason != CONVERGED
        if failed.any():
            now, before = self._true_residual(self.X, self.R), self._true_residual(self.saved, self.Q)
            worse = failed & ~(now <= before)
            self.X[:, worse] = self.saved[:, worse]
            self.truth = self._last_residual(self.R)
        self.norm = self.truth
        self._judge_range()
        self._judge_size()

    def _last_residual(self, out):
        """The true residual of the mean-free X, which the caller gets."""
        if self.null_space is not None:
            self.null_space(self.X)
        return self._true_residual(self.X, out)

    def _true_residual(self, X, out):
        return np.sqrt(residual(self.matrix, _flat(self.B), _flat(X), _flat(out), self.threads))


def _side_by_side(histories):
    """The histories of all columns as one: those that end early keep their last residual."""
    if len(histories) == 1:
        return histories[0]
    length = max(map(len, histories))
    return [np.concatenate([history[min(i, len(history) - 1)] for history in histories]) for i in range(length)]


# ---- numberings ---------------------------------------------------------------------------------------------------------


def _scattered(matrix):
    """Whether many neighbours lie far from each other, as some rows tell."""
    rows = np.linspace(0, matrix.n - 1, 1000).astype(np.int64)
    begin, count = matrix.indptr[rows], np.diff(matrix.indptr)[rows]
    entry = np.repeat(begin - np.cumsum(count) + count, count) + np.arange(count.sum())
    return np.mean(abs(matrix.indices[entry] - np.repeat(rows, count)) > NEAR) > 0.25


def _renumbered(matrix, place, threads):
    """The matrix with row and column place[q] as q."""
    indptr, indices, data = np.empty_like(matrix.indptr), np.empty_like(matrix.indices), np.empty_like(matrix.data)
    _core.krylov_renumber(matrix.indptr, matrix.indices, matrix.data, place, indptr, indices, data, threads)
    return Csr(matrix.n, indptr, indices, data)


def _back(block, place):
    """The block with row q as row place[q]."""
    there = np.empty_like(block)
    there[place] = block
    return there


def _elsewhere(null_space, place):
    """A function that changes a block in place, for a block whose row q is its row place[q]."""
    def change(block):
        there = _back(block, place)
        null_space(there)
        block[...] = there[place]
    return change


def _flat(block):
    return block.reshape(-1)
