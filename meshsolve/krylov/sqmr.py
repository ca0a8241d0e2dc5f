"""SQMR: a quasi-minimal residual iteration for symmetric systems, definite or indefinite, with any symmetric preconditioner.

An iteration takes one product with A and one with M. The preconditioner is applied from the right. So the quasi-residual bounds
the 2-norm of the residual, up to a factor sqrt(k + 1) after k iterations. b - A x is recomputed before a column counts as
converged. Cost: O((nnz(A) + nnz(M) + n) k) an iteration. Source: Freund, Nachtigal 1995, "Software for simplified Lanczos and QMR
algorithms", section 3 (doi 10.1016/0168-9274(95)00089-5); Freund 1997, "Preconditioning of symmetric, but highly indefinite
linear systems".
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from meshsolve.errors import ConvergenceWarning
from meshsolve.foreign import is_sparse
from meshsolve.krylov import sqmr_cuda, sqmr_host
from meshsolve.krylov.blocks import as_matrix, blocks_of, checked_options, out_of_range, place_of, unshifted
from meshsolve.krylov.info import CONVERGED, EXHAUSTED, OUT_OF_RANGE, Info, info_of, worst
from meshsolve.krylov.sqmr_rules import (
    AT_LIMIT,
    AT_TARGET,
    BROKE_DOWN,
    BROKEN,
    LOOK_AGAIN,
    MISLEADING,
    ORTHOGONAL,
    RESTARTS,
    RUNNING,
    SLOW,
    STAGNATED,
)
from meshsolve.options import thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.places import CUDA, HOST
from meshsolve.sparse.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Callback, Matrix

BACKENDS: dict[Any, Any] = {HOST: sqmr_host, CUDA: sqmr_cuda}


def sqmr(A: Matrix, b: ArrayLike, M: Any = None, x0: ArrayLike | None = None, rtol: float = 1e-8, atol: float = 0.0,
         maxiter: int | None = None, callback: Callback | None = None, threads: int | None = None) -> tuple[Array, Info]:
    """Solve A x = b for a symmetric A that need not be definite, by right-preconditioned SQMR.

    Parameters
    ----------
    A : (n, n) symmetric matrix of any kind, or LinearOperator
        It may be singular if b lies in its range. For operators see :func:`cg`.
    b : (n,) or (n, k)
    M : (n, n) LinearOperator, factor or array, optional
        Symmetric approximate inverse of A, such as the factor of :func:`meshsolve.ildl`; it may be indefinite.
    x0 : array of b's shape, optional
        Start, zero by default.
    rtol, atol : float
        A column has converged if ||b - A x|| <= max(rtol ||b||, atol) in the 2-norm.
    maxiter : int, default 10,000
    callback : callable, optional
        Called with the current x after each iteration.
    threads : int, optional

    Returns
    -------
    x : array of b's shape, on the GPU if b is
        A column that did not converge holds the best iterate whose residual was computed.
    info : Info
        ``.residuals`` are quasi-residuals relative to ||b||. For a block ``.iterations``, ``.relative_residual`` (recomputed) and
        ``.reason`` are (k,) arrays, and ``.converged`` is true if all columns have.

    Raises
    ------
    InvalidInputError
        A is not square; b, M or x0 do not fit; a bad rtol, atol, maxiter or callback; NaN or infinity.
    NotSymmetricError
        ``.row`` and ``.column`` name the worst entry.

    Warns
    -----
    ConvergenceWarning
        A column did not reach its tolerance; ``info.reason`` has the cause.

    Notes
    -----
    O(nnz(A) + nnz(M) + n) an iteration. If b lies on the GPU or M was made on it, all columns run on it at once; on the host they
    run one after the other. Source: Freund, Nachtigal 1995, section 3.

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
    """:func:`sqmr` with checked options, without the warning. A may be a :class:`Csr` that was found
    symmetric. A column ends as slow if its residual does not fall 10 times in ``patience`` iterations."""
    threads, place = thread_count(threads), place_of(b, M)
    with place.errors("sqmr"):
        matrix, exponent = as_matrix(A, place, threads)
        system = blocks_of(b, x0, matrix.n, place, exponent)
        report, k = Report(), len(system.shift)
        width, vectors = BACKENDS[place].start(matrix, system, M, threads, report)
        answers, runs = unshifted(system.X, system.powers), []
        with report.phase("solve"):
            for columns in (slice(c, c + width) for c in range(0, k, width)):
                put = partial(_put, answers, columns, system.powers)
                run = Iteration(vectors(columns))
                run.iterate(rtol, atol * system.shift[columns], maxiter,
                            None if callback is None else lambda X, put=put: callback(system.form.deliver(put(X))), patience)
                run.judge_range(system.powers[columns])
                answers = put(run.X)
                runs += run.columns
        return system.form.deliver(answers), info_of("sqmr", runs, report, scalar=system.form.is_vector and len(runs) == 1)


class Column:
    """State of one right-hand side."""

    def __init__(self, size, norm, target):
        self.scale, self.norm, self.target = size if size > 0 else 1.0, norm, target
        self.iterations, self.residuals, self.reason = 0, [norm / self.scale], EXHAUSTED
        self.sequences, self.began, self.first = 0, norm, 0

    def add(self, taus):
        """Count iterations with these quasi-residuals."""
        self.iterations += len(taus)
        self.residuals += [float(tau) / self.scale for tau in taus]

    def ends(self, maxiter):
        """True if no new sequence begins. One begins at the start, and after a breakdown if the last one halved the residual."""
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
        """True if the residual fell less than 10 times in the last ``patience`` iterations of a sequence."""
        seen = self.residuals
        return bool(patience) and len(seen) - 1 - self.first >= patience and seen[-1] > 0.1 * seen[-patience]


class Iteration:
    """SQMR on columns that run together.

    ``vectors`` holds the vectors and the scalars of each column, on the host (sqmr_host.py) or on the GPU (sqmr_cuda.py). This
    class decides about columns that stop, after every ``vectors.look_every`` iterations.
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
        while RUNNING in vectors.status:
            for i in range(together):
                vectors.direction(i)                        # q := M r + beta q
                vectors.multiply(i)                         # t := A q, alpha
                vectors.subtract(i)                         # r -= alpha t, tau
                vectors.smooth()                            # d := old d + fresh q, x += d
            if vectors.record(self.columns) and callback is not None:
                callback(vectors.work)
            self._decide(maxiter, patience)
        self._correct([c for c, run in enumerate(self.columns) if run.reason in (BROKE_DOWN, STAGNATED)])

    def judge_range(self, powers):
        """Columns whose solution leaves the range of float64 in the scale of the caller's b have not converged."""
        infinite, lost, X = out_of_range(self.X, powers)
        norms = None if X is None else self.vectors.true_norms(X)
        for c in np.flatnonzero(infinite | lost):
            run = self.columns[c]
            run.norm = np.inf if infinite[c] else norms[c]
            if run.norm > run.target:
                run.reason = OUT_OF_RANGE

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

    def _step_aside(self, columns):
        """No sequence begins if r is orthogonal to M r: go along M r to the smallest residual. Return the columns that gain by
        it."""
        vectors, gained = self.vectors, []
        norms = [run.norm for run in self.columns]
        products, lengths = vectors.angles()
        flat = [c for c in columns if abs(products[c]) <= ORTHOGONAL * norms[c] * lengths[c]]
        found = vectors.aside(flat) if flat else []
        flat = [c for c in flat if found[c]]
        if not flat:                                        # or A M r is zero: the sequence breaks down in its first step
            return gained
        self._keep_best(vectors.candidate, flat)
        for c in flat:
            run = self.columns[c]
            if run.norm <= 0.5 * norms[c]:
                run.add([run.norm])
                run.reason = BROKE_DOWN
                vectors.settle(c, steps=1)
                gained.append(c)
        return gained

    def _decide(self, maxiter, patience):
        """Compute true residuals of columns that stopped; they run on, restart or are settled."""
        vectors, again = self.vectors, []
        stopped = [c for c, run in enumerate(self.columns) if vectors.status[c] in (AT_TARGET, BROKEN, AT_LIMIT)
                   or (patience and vectors.status[c] == RUNNING and run.is_slow(patience))]
        if not stopped:
            return
        self._keep_best(vectors.work, stopped)
        for c in stopped:
            run, status, tau = self.columns[c], vectors.status[c], vectors.tau[c]
            misled = status == AT_TARGET and run.norm > run.target and tau < MISLEADING * run.norm
            slow = status != BROKEN and run.is_slow(patience)
            if status == AT_TARGET and run.norm > run.target and not misled and not slow and run.iterations < maxiter:
                vectors.run_on(c, LOOK_AGAIN * tau)
                continue
            run.reason = BROKE_DOWN if status == BROKEN else STAGNATED if misled else SLOW.format(patience) if slow else EXHAUSTED
            vectors.settle(c)
            if not run.ends(maxiter):
                again.append(c)
        self._start(again, maxiter)

    def _correct(self, columns):
        """One step of refinement from the best iterates of these columns and from zero, kept in columns whose residual falls.

        If b is not in the range of a singular A, the iteration spreads the unsolvable part; one solve with a complete factor does
        not."""
        if columns:
            for X in self.vectors.corrected():
                self._keep_best(X, columns)
        for run in map(self.columns.__getitem__, columns):
            if run.norm <= run.target:
                run.reason = CONVERGED

    def _keep_best(self, X, columns):
        """Keep those of these columns of X whose true residuals are the smallest so far."""
        norms = self.vectors.keep_best(X, columns, [run.norm for run in self.columns])
        for c in columns:
            self.columns[c].norm = norms[c]


def _put(answers, columns, powers, X):
    """``answers`` with these columns of X in the scale of b; a new array if X has all columns."""
    if X.shape == answers.shape:
        return unshifted(X, powers)
    answers[:, columns] = unshifted(X, powers[columns])
    return answers
