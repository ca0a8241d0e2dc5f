"""SQMR: a quasi-minimal residual iteration for symmetric systems, definite or not, with any symmetric preconditioner.

One product with A and one with M an iteration, preconditioned from the right: then the quasi-residual bounds the residual of
A x = b itself, in the caller's norm, up to sqrt(k + 1). Before a column counts as converged b - A x is computed again.
Source: Freund, Nachtigal 1995, "Software for simplified Lanczos and QMR algorithms", section 3 (doi
10.1016/0168-9274(95)00089-5); Freund 1997, "Preconditioning of symmetric, but highly indefinite linear systems".
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

import numpy as np

from meshsolve import device
from meshsolve.errors import ConvergenceWarning
from meshsolve.foreign import is_sparse
from meshsolve.krylov import sqmr_cuda, sqmr_host
from meshsolve.krylov.blocks import as_matrix, blocks_of, checked_options, columns_out_of_range, unshifted
from meshsolve.krylov.info import CONVERGED, EXHAUSTED, TOO_LARGE, Info
from meshsolve.krylov.sqmr_rules import (
    ARRIVED,
    BROKE_DOWN,
    BROKEN,
    GO_ON,
    LOOK_AGAIN,
    MISLEADING,
    ORTHOGONAL,
    RESTARTS,
    SETTLED,
    SLOW,
    SPENT,
    STAGNATED,
)
from meshsolve.options import counted, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Callback, Matrix


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
    """:func:`sqmr` on checked options, without the warning; a column ends as slow where ``patience`` iterations gain no factor of 10.
    A may be a :class:`Csr` or :class:`DeviceCsr` that was found symmetric."""
    threads = thread_count(threads)
    on_device = device.holds(b) or getattr(M, "on_device", False)
    with device.errors("sqmr") if on_device else contextlib.nullcontext():
        matrix = as_matrix(A, on_device, threads)
        system = blocks_of(b, x0, matrix.n, on_device)
        report, k = Report(), len(system.shift)
        width, vectors = (sqmr_cuda if on_device else sqmr_host).start(matrix, system, M, threads, report)
        answers, runs = unshifted(system.X, system.shift), []
        with report.phase("solve"):
            for columns in (slice(c, c + width) for c in range(0, k, width)):
                put = partial(_put, answers, columns, system.shift)
                run = Iteration(vectors(columns))
                run.iterate(rtol, atol * system.shift[columns], maxiter,
                            None if callback is None else lambda X, put=put: callback(system.form.deliver(put(X))), patience)
                answers = put(run.X)
                runs += run.columns
        return _outcome(answers, runs, report, system.form)


def _put(answers, columns, shift, X):
    """``answers`` with these columns, in the scale of b: a new array where they are all."""
    if X.shape == answers.shape:
        return unshifted(X, shift)
    answers[:, columns] = unshifted(X, shift[columns])
    return answers


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


class Column:
    """What is known of one right-hand side."""

    def __init__(self, size, norm, target):
        self.scale, self.norm, self.target = size if size > 0 else 1.0, norm, target
        self.iterations, self.residuals, self.reason = 0, [norm / self.scale], EXHAUSTED
        self.sequences, self.began, self.first = 0, norm, 0

    def add(self, taus):
        """Iterations with these quasi-residuals."""
        self.iterations += len(taus)
        self.residuals += [float(tau) / self.scale for tau in taus]

    def ends(self, maxiter):
        """True if no new sequence begins. One begins at first, and after a breakdown if the last one was of use."""
        if self.norm <= self.target:
            self.reason = CONVERGED
        elif self.sequences == 0 or (self.reason in (BROKE_DOWN, STAGNATED) and self.norm <= 0.5 * self.began
                                     and self.sequences <= RESTARTS):
            self.sequences, self.began, self.first = self.sequences + 1, self.norm, len(self.residuals) - 1
            if self.iterations < maxiter:
                return False
            self.reason = EXHAUSTED
        return True

    def is_slow(self, patience):
        """True if the last ``patience`` iterations of a sequence gained less than a factor of 10."""
        seen = self.residuals
        return bool(patience) and len(seen) - 1 - self.first >= patience and seen[-1] > 0.1 * seen[-patience]


class Iteration:
    """SQMR on columns that run together.

    The vectors and the scalars of each column belong to ``vectors``, on the host (sqmr_host.py) or on the GPU (sqmr_cuda.py). What is
    decided here concerns columns that stop. ``vectors`` finds them after ``vectors.look_every`` iterations.
    """

    def __init__(self, vectors):
        self.vectors = vectors

    @property
    def X(self):
        """(n, k) the best iterates whose residuals were computed."""
        return self.vectors.X

    def iterate(self, rtol, atol, maxiter, callback, patience):
        """Run algorithm 3.1 of Freund and Nachtigal with M1 = I on all columns; ``atol`` is a (k,) array."""
        vectors = self.vectors
        self._begin(rtol, atol, maxiter)
        together = 1 if callback is not None else vectors.look_every
        while GO_ON in vectors.standing:
            for i in range(together):
                vectors.direction(i)                        # q := M r + beta q
                vectors.multiply(i)                         # t := A q, alpha
                vectors.subtract(i)                         # r -= alpha t, tau
                vectors.smooth()                            # d := old d + fresh q, x += d
            if vectors.record(self.columns) and callback is not None:
                callback(vectors.work)
            self._judge(maxiter, patience)
        self._correct([c for c, run in enumerate(self.columns) if run.reason in (BROKE_DOWN, STAGNATED)])

    def _begin(self, rtol, atol, maxiter):
        sizes = self.vectors.norms()
        norms = self.vectors.begin(sizes, maxiter)
        self.columns = [Column(size, norm, max(rtol * size, bound)) for size, norm, bound in zip(sizes, norms, atol, strict=True)]
        self._start([c for c, run in enumerate(self.columns) if not run.ends(maxiter)], maxiter)

    def _start(self, columns, maxiter):
        """Begin Lanczos sequences from the best iterates of these columns."""
        while columns:
            self.vectors.start(columns, [run.norm for run in self.columns], [run.target for run in self.columns])
            columns = [c for c in self._step_aside(columns) if not self.columns[c].ends(maxiter)]
        self.vectors.write()

    def _step_aside(self, columns):
        """Where r is orthogonal to M r no sequence begins: go along M r to the least residual. Returns the columns that gained by it."""
        vectors, gained = self.vectors, []
        norms = [run.norm for run in self.columns]
        products, lengths = vectors.angles()
        flat = [c for c in columns if abs(products[c]) <= ORTHOGONAL * norms[c] * lengths[c]]
        if not flat:
            return gained
        found = vectors.aside(flat)
        flat = [c for c in flat if found[c]]
        self._keep_best(vectors.candidate, flat)
        for c in flat:
            run = self.columns[c]
            if run.norm <= 0.5 * norms[c]:
                run.add([run.norm])
                run.reason, vectors.standing[c] = BROKE_DOWN, SETTLED
                vectors.moved(c)
                gained.append(c)
        return gained

    def _judge(self, maxiter, patience):
        """Compute true residuals of columns that stopped; they go on, start again or are settled."""
        vectors, again = self.vectors, []
        vectors.read()
        stopped = [c for c, run in enumerate(self.columns) if vectors.standing[c] in (ARRIVED, BROKEN, SPENT)
                   or (patience and vectors.standing[c] == GO_ON and run.is_slow(patience))]
        if not stopped:
            return
        self._keep_best(vectors.work, stopped)
        for c in stopped:
            run, standing, tau = self.columns[c], vectors.standing[c], vectors.tau[c]
            misled = standing == ARRIVED and run.norm > run.target and tau < MISLEADING * run.norm
            slow = standing != BROKEN and run.is_slow(patience)
            if standing == ARRIVED and run.norm > run.target and not misled and not slow and run.iterations < maxiter:
                vectors.standing[c], vectors.look[c] = GO_ON, LOOK_AGAIN * tau
                continue
            run.reason = BROKE_DOWN if standing == BROKEN else STAGNATED if misled else SLOW.format(patience) if slow else EXHAUSTED
            vectors.standing[c] = SETTLED
            if not run.ends(maxiter):
                again.append(c)
        self._start(again, maxiter)

    def _correct(self, columns):
        """One step of refinement, from the best iterates of these columns and from zero, kept where its residual is less. Where b is not
        in the range of a singular A, an iteration mixes what cannot be solved into what a complete factor solves exactly."""
        if columns:
            for X in self.vectors.corrected():
                self._keep_best(X, columns)
        for run in map(self.columns.__getitem__, columns):
            if run.norm <= run.target:
                run.reason = CONVERGED

    def _keep_best(self, X, columns):
        """Keep these columns of X where their true residuals are the smallest so far."""
        norms = self.vectors.keep_best(X, columns, [run.norm for run in self.columns])
        for c in columns:
            self.columns[c].norm = norms[c]
