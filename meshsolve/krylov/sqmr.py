"""SQMR: a quasi-minimal residual iteration for symmetric systems, definite or not, with any symmetric preconditioner.

One product with A and one with M an iteration, preconditioned from the right: then the quasi-residual bounds the residual of
A x = b itself, in the caller's norm, up to sqrt(k + 1). Before a column counts as converged b - A x is computed anew.
Source: Freund, Nachtigal 1995, "Software for simplified Lanczos and QMR algorithms", section 3 (doi
10.1016/0168-9274(95)00089-5); Freund 1997, "Preconditioning of symmetric, but highly indefinite linear systems".
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from meshsolve import _core, device
from meshsolve.errors import ConvergenceWarning
from meshsolve.foreign import is_sparse
from meshsolve.krylov import cg_cuda, sqmr_cuda
from meshsolve.krylov.blocks import as_matrix, blocks_of, checked_options, columns_out_of_range, preconditioner, unshifted
from meshsolve.krylov.info import CONVERGED, EXHAUSTED, TOO_LARGE, Info
from meshsolve.krylov.operator import multiply_dot, residual
from meshsolve.krylov.sqmr_rules import BROKE_DOWN, ORTHOGONAL, RESTARTS, STAGNATED
from meshsolve.options import counted, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Callback, Matrix

SLOW = "slow: the residual fell less than 10 times in {} iterations"


def sqmr(A: Matrix, b: ArrayLike, M: Any = None, x0: ArrayLike | None = None, rtol: float = 1e-8, atol: float = 0.0,
         maxiter: int | None = None, callback: Callback | None = None, threads: int | None = None) -> tuple[Array, Info]:
    """Solve A x = b for a symmetric A that need not be definite, by right-preconditioned SQMR.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind, or LinearOperator
        It may be singular where b lies in its range. Of an operator as in :func:`cg`.
    b : (n,) or (n, k)
        Columns are solved one after the other.
    M : (n, n) LinearOperator, factor or array, optional
        Approximate inverse of A, symmetric, such as :func:`meshsolve.ildl`'s; it may be indefinite too.
    x0 : array of b's shape, optional
        Start; default zero.
    rtol, atol : float
        Stop when ||b - A x|| <= max(rtol ||b||, atol), 2-norms, for each column.
    maxiter : int, optional
        Default 10,000.
    callback : callable, optional
        Called with the current x after each iteration.
    threads : int, optional
        Results do not depend on it.

    Where b lies on the GPU or M was made there, all columns are iterated there at once, and x lies where b does.

    Returns
    -------
    x : array of b's shape
        Where it did not converge, the best iterate whose residual was looked at.
    info : Info
        ``.converged``, ``.iterations``, ``.residuals`` (quasi-residuals over ||b||), ``.relative_residual`` (the true one),
        ``.reason``; (k,) arrays for a block, ``.converged`` is all of them.

    Raises
    ------
    InvalidInputError
        A is not square, b, M or x0 do not fit; a bad rtol, atol, maxiter or callback; NaN or infinity anywhere.
    NotSymmetricError
        ``.row`` and ``.column`` name the worst entry.

    Warns
    -----
    ConvergenceWarning
        A column did not reach its tolerance; ``info.reason`` says why.

    Notes
    -----
    O(nnz(A) + nnz(M) + n) an iteration. Source: Freund, Nachtigal 1995, section 3.

    Examples
    --------
    >>> import meshsolve as ms
    >>> A = ms.datasets.kkt(200, 80)
    >>> x, info = ms.sqmr(A, A.sum(axis=1), M=ms.ildl(A, fill_level=2))
    >>> info.converged and info.iterations < 50
    True
    """
    if is_sparse(b):
        return solve_sparse_once(A, b, lambda B: sqmr(A, B, M, x0, rtol, atol, maxiter, callback, threads))
    rtol, atol, maxiter = checked_options(rtol, atol, maxiter, callback)
    x, info = iterate(A, b, M, x0, rtol, atol, maxiter, callback, threads)
    if not info.converged:
        warn(f"sqmr: {worst(info)}", ConvergenceWarning)
    return x, info


def iterate(A, b, M, x0, rtol, atol, maxiter, callback=None, threads=None, patience=None):
    """:func:`sqmr` on checked options, without the warning; a column ends as slow where ``patience`` iterations win no factor 10.
    A may be a :class:`Csr` or :class:`DeviceCsr` that was found symmetric."""
    threads = thread_count(threads)
    on_device = device.holds(b) or getattr(M, "on_device", False)
    with device.errors("sqmr") if on_device else contextlib.nullcontext():
        matrix = as_matrix(A, on_device, threads)
        system = blocks_of(b, x0, matrix.n, on_device)
        if on_device:
            return _iterate_on_device(matrix, system, M, rtol, atol, maxiter, callback)
        return _iterate_here(matrix, system, x0 is None, M, rtol, atol, maxiter, callback, threads, patience)


def _iterate_here(matrix, system, zero_start, M, rtol, atol, maxiter, callback, threads, patience):
    """One column after the other."""
    B, X, shift, form = system
    if (shift != 1).any():
        X /= shift                                  # holds the answers
    precondition = preconditioner(M, matrix.n)
    report = Report(threads=threads, nnz_A=matrix.nnz)
    runs = []
    with report.phase("solve"):
        for c in range(B.shape[1]):
            start = None if zero_start else shift[c] * X[:, c]
            run = _Column(matrix, np.ascontiguousarray(B[:, c]), start, precondition, threads)
            tell = None
            if callback is not None:
                def tell(x, c=c):
                    X[:, c] = x / shift[c]
                    callback(form.deliver(X))
            run.iterate(rtol, atol * shift[c], maxiter, tell, patience)
            X[:, c] = 0 if run.x is None else run.x if shift[c] == 1 else unshifted(run.x, shift[c])     # callbacks wrote to it
            runs.append(run)
    return _outcome(X, runs, report, form)


def _iterate_on_device(matrix, system, M, rtol, atol, maxiter, callback):
    """All columns at once on the GPU; x lies where b does."""
    B, X, shift, form = system
    tell = None if callback is None else lambda X: callback(form.deliver(unshifted(X, shift)))
    run = sqmr_cuda.DeviceSolve(matrix, B, X, cg_cuda.preconditioner(M, matrix.n), getattr(M, "check_device", None))
    with run.report.phase("solve"):
        run.iterate(rtol, atol * shift, maxiter, tell)
    return _outcome(unshifted(run.X, shift), run.columns, run.report, form)


def _outcome(X, runs, report, form):
    """(x, info) of the columns X, which are in the scale of b."""
    for c in np.flatnonzero(columns_out_of_range(X)):
        runs[c].reason, runs[c].norm = TOO_LARGE, np.inf
    return form.deliver(X), _info(runs, report, scalar=form.is_vector and len(runs) == 1)


def worst(info):
    """What to say of the column that is farthest from its tolerance."""
    reason, relative, iterations = (np.atleast_1d(v) for v in (info.reason, info.relative_residual, info.iterations))
    failed = np.flatnonzero(reason != CONVERGED)
    c = failed[np.argmax(np.nan_to_num(relative[failed], nan=np.inf))]
    which = f"column {c} " if len(reason) > 1 else ""
    return f"{which}{reason[c]} (relative residual {relative[c]:.3g} after {counted(iterations[c], 'iteration')})"


def _info(runs, report, scalar):
    if scalar:
        run = runs[0]
        return Info("sqmr", run.reason == CONVERGED, run.iterations, run.norm / run.scale, run.residuals, run.reason, report)
    longest = max((len(run.residuals) for run in runs), default=0)
    padded = [run.residuals + run.residuals[-1:] * (longest - len(run.residuals)) for run in runs]
    return Info("sqmr", all(run.reason == CONVERGED for run in runs), np.array([run.iterations for run in runs], np.int64),
                np.array([run.norm / run.scale for run in runs]), [np.array(step) for step in zip(*padded, strict=True)],
                np.array([run.reason for run in runs], str), report)


class _Column:
    """One right-hand side. ``x``, None for zeros, and ``norm`` are the best iterate that was looked at and the norm of its residual;
    ``left`` is that residual until a sequence takes it to work on."""

    def __init__(self, matrix, b, x, precondition, threads):
        self.matrix, self.b, self.x, self.threads, self._apply = matrix, b, x, threads, precondition
        size = self._norm(b)            # numpy's would wake the threads of its BLAS, which then keep a core busy for a while
        self.scale = size if size > 0 else 1.0
        self.zero = size == 0
        self.iterations, self.residuals, self.reason = 0, [], EXHAUSTED

    def iterate(self, rtol, atol, maxiter, callback, patience):
        """Lanczos sequences from x, started anew after a breakdown or where the quasi-residual misleads."""
        if self.zero and self.x is not None:
            self.x = np.zeros_like(self.x)
        self.target = max(rtol * self.scale * (not self.zero), atol)
        if self.x is not None and self.x.any():
            self.left, self.norm = self._true_residual(self.x)
        else:
            self.left, self.norm = self.b.copy(), self.scale * (not self.zero)
        self.residuals.append(self.norm / self.scale)
        for _ in range(RESTARTS + 1):
            if self.norm <= self.target:
                self.reason = CONVERGED
                return
            before = self.norm
            self.reason = self._sequence(maxiter, callback, patience)
            if self.norm <= self.target:
                self.reason = CONVERGED
            if self.reason not in (BROKE_DOWN, STAGNATED) or self.norm > 0.5 * before:
                break
        if self.reason in (BROKE_DOWN, STAGNATED):
            self._correct()

    def _correct(self):
        """One step of refinement, from the best x and from zero, kept where its residual is less. Where b is not in the range of a
        singular A, an iteration mixes what cannot be solved into what a complete factor solves exactly."""
        for x in ([] if self.x is None else [self.x]) + [np.zeros_like(self.b)]:
            self._look(x + self._precondition(self._true_residual(x)[0]), "")
        if self.norm <= self.target:
            self.reason = CONVERGED

    def _sequence(self, maxiter, callback, patience):
        """Algorithm 3.1 of Freund and Nachtigal with M1 = I; returns why it ended."""
        x = np.zeros_like(self.b) if self.x is None else self.x.copy()
        r, tau = (self.left, self.norm) if self.left is not None else self._true_residual(x)
        d, theta, look, self.left = np.zeros_like(x), 0.0, self.target, None
        q = self._precondition(r).copy()
        rho, since = self._dot(r, q), len(self.residuals) - 1
        if self.iterations < maxiter and abs(rho) <= ORTHOGONAL * tau * np.sqrt(self._dot(q, q)) and self._step_aside(x, r, q):
            return BROKE_DOWN
        for _ in range(maxiter - self.iterations):
            t, sigma = self._multiply(q)
            if tau == 0 or rho == 0 or sigma == 0 or not np.isfinite(rho) or not np.isfinite(sigma):
                return self._look(x, BROKE_DOWN)
            alpha = rho / sigma
            with np.errstate(over="ignore", invalid="ignore"):          # as the test below finds
                before, theta = theta, np.sqrt(_core.sqmr_subtract(alpha, t, r, self.threads)) / tau
                c2 = 1 / (1 + theta * theta)
                tau, share, size = tau * (theta * np.sqrt(c2)), c2 * before * before, c2 * alpha
            if not np.isfinite(theta):
                return self._look(x, BROKE_DOWN)
            _core.sqmr_smooth(share, size, q, d, x, self.threads)
            self.iterations += 1
            self.residuals.append(tau / self.scale)
            if callback is not None:
                callback(x)
            if tau <= look:
                self._look(x, "")
                if self.norm <= self.target:
                    return CONVERGED
                if tau < 1e-3 * self.norm:
                    return STAGNATED
                look = 0.3 * tau
            if patience and len(self.residuals) - since > patience and tau > 0.1 * self.scale * self.residuals[-patience]:
                return self._look(x, SLOW.format(patience))
            u = self._precondition(r)
            after = self._dot(r, u)
            _core.krylov_direction(np.array([after / rho]), u, q, self.threads)
            rho = after
        return self._look(x, EXHAUSTED)

    def _step_aside(self, x, r, q):
        """From an x where no sequence begins, as its residual r and q = M^-1 r are orthogonal, along q to the least residual."""
        t = self._multiply(q)[0]
        before, squares = self.norm, self._dot(t, t)
        if not (squares > 0 and np.isfinite(squares)):
            return False
        self._look(x + self._dot(r, t) / squares * q, "")
        if self.norm > 0.5 * before:
            return False
        self.iterations += 1
        self.residuals.append(self.norm / self.scale)
        return True

    def _look(self, x, reason):
        """Keeps x where its true residual is the smallest so far."""
        left, norm = self._true_residual(x)
        if norm < self.norm:
            self.x, self.left, self.norm = x.copy(), left, norm
        return reason

    def _precondition(self, r):
        """M^-1 r, until the next call."""
        return self._apply(r[:, None]).reshape(-1)

    def _norm(self, v):
        return np.sqrt(self._dot(v, v))

    def _dot(self, u, v):
        product = np.empty(1)
        _core.krylov_dot(u, v, product, self.threads)
        return float(product[0])

    def _multiply(self, q):
        """A q and q . A q."""
        t = np.empty_like(q)
        return t, float(multiply_dot(self.matrix, q, t, self.threads)[0])

    def _true_residual(self, x):
        """b - A x and its norm."""
        r = np.empty_like(x)
        return r, float(np.sqrt(residual(self.matrix, self.b, x, r, self.threads)[0]))
