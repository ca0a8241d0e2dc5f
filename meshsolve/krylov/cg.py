"""Conjugate gradients for symmetric positive (semi)definite systems, many right-hand sides at once, on the host and on the GPU.

The preconditioned iteration of Hestenes and Stiefel 1952. Columns have separate scalars and share sweeps over memory. Reported
residuals are true: b - A x is recomputed before a column counts as converged. A column above its tolerance restarts from it.
Cost: O((nnz(A) + nnz(M) + n) k) an iteration.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve.errors import ConvergenceWarning
from meshsolve.foreign import is_sparse
from meshsolve.krylov import cg_cuda, cg_host
from meshsolve.krylov.blocks import as_matrix, blocks_of, checked_options, place_of, unshifted
from meshsolve.krylov.cg_rules import DIVERGED, FORESEE, INDEFINITE, NEGATIVE, RUNNING, SAVE_AT, STAGNATED, TINY, Solve
from meshsolve.krylov.constrained import solve_constrained
from meshsolve.krylov.info import CONVERGED, EXHAUSTED, Info
from meshsolve.options import thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.constraints import checked, without_constraint
from meshsolve.sparse.places import CUDA, HOST
from meshsolve.sparse.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Callback, Matrix

BACKENDS: dict[Any, Any] = {HOST: cg_host, CUDA: cg_cuda}


def cg(A: Matrix, b: ArrayLike, M: Any = None, x0: ArrayLike | None = None, rtol: float = 1e-8, atol: float = 0.0,
       maxiter: int | None = None, callback: Callback | None = None, threads: int | None = None, *,
       fixed: ArrayLike | None = None, pin: bool = False, fixed_values: ArrayLike | None = None) -> tuple[Array, Info]:
    """Solve A x = b by preconditioned conjugate gradients.

    Parameters
    ----------
    A : (n, n) symmetric positive definite or semidefinite matrix of any kind, or LinearOperator
        If the rows of a component sum to 0 (Laplacians), the mean of b on it is removed, and x has mean 0 on it. The relative
        residual includes that mean. An operator has ``shape`` and ``matvec``, and ``matmat`` for blocks. It works on the host,
        and its symmetry is not checked.
    b : (n,) or (n, k)
    M : (n, n) LinearOperator, factor or array, optional
        Symmetric positive definite approximate inverse of A, such as the factor of :func:`meshsolve.parac`.
    x0 : array of b's shape, optional
    rtol, atol : float
        A column has converged if ||b - A x|| <= max(rtol ||b||, atol) in the 2-norm.
    maxiter : int, default 10,000
    callback : callable, optional: called with the current x after each iteration
    threads : int, optional
    fixed, pin, fixed_values
        As in :func:`meshsolve.solve`, for an A with entries. M has n rows, or those of the free rows. Residuals are relative to b
        minus the contribution of the prescribed values.

    Returns
    -------
    x : array of b's shape, on the GPU if b is; the best iterate of a column that did not converge, with a ConvergenceWarning
    info : Info
        For a block ``.iterations``, ``.relative_residual`` and ``.reason`` are (k,) arrays, and ``.converged`` is true if all
        columns have.

    Raises
    ------
    InvalidInputError, NotSymmetricError (``.row``, ``.column``), NotLaplacianError (``.row``, with ``pin=True``)
        A is not square or not symmetric; b, M, x0 or ``fixed_values`` do not fit; NaN or infinity; a bad option.

    Notes
    -----
    Runs on the GPU if b lies on it or M was made on it. An iteration reads A and M once and the vectors four times. From
    50,000 rows on, a system whose neighbors are far apart in memory runs in the numbering of a ParAC factor, on a copy of A.
    Columns of a large block run eight at a time, all together with a callback. Source: Hestenes, Stiefel 1952; Saad 2003,
    "Iterative methods for sparse linear systems".

    Examples
    --------
    >>> import meshsolve as ms, numpy as np
    >>> L = ms.datasets.grid3d(10)
    >>> x, info = ms.cg(L, L @ np.arange(1000.0), M=ms.parac(L))
    >>> info.converged and info.iterations < 40
    True
    """
    if is_sparse(b):
        return solve_sparse_once(A, b, lambda B: cg(A, B, M, x0, rtol, atol, maxiter, callback, threads, fixed=fixed, pin=pin,
                                                    fixed_values=fixed_values))
    pin = checked(fixed, pin)
    if fixed is not None or pin:
        return solve_constrained(lambda A, b, M, x0, callback: iterate(A, b, M, x0, rtol, atol, maxiter, callback, threads),
                                 A, b, M, x0, callback, threads, fixed, pin, fixed_values)
    without_constraint(fixed_values)
    return iterate(A, b, M, x0, rtol, atol, maxiter, callback, threads)


def iterate(A, b, M, x0, rtol, atol=0.0, maxiter=None, callback=None, threads=None, gives_up=None):
    """:func:`cg` for an A that may be a :class:`Csr` that was found symmetric.

    ``gives_up(done, left)`` is called after every 20 iterations. If it returns True, the iteration ends as if ``maxiter`` were
    reached. ``left(seen)`` estimates the number of iterations left from the last ``seen``, 20 by default.
    """
    rtol, atol, maxiter = checked_options(rtol, atol, maxiter, callback)
    threads, place = thread_count(threads), place_of(b, M)
    with place.errors("cg"):
        matrix, exponent = as_matrix(A, place, threads)
        system = blocks_of(b, x0, matrix.n, place, exponent)
        report, k = Report(), len(system.shift)
        width, vectors, back = BACKENDS[place].start(matrix, system, M, threads, report)
        together = callback is not None or k <= width       # a callback gets all columns
        if together:
            run: Solve = Iteration(vectors(slice(None)), system.powers, report)
        else:
            run = Parts(width, vectors, system.X, system.powers, report)

        def deliver(X):
            return system.form.deliver(unshifted(back(X), system.powers))

        with report.phase("solve"):
            run.iterate(rtol, atol * system.shift, maxiter, None if callback is None else lambda X: callback(deliver(X)), gives_up)
        x = deliver(run.X)
    info = run.info(scalar=k == 1 and system.form.is_vector)
    if not info.converged:
        warn(f"cg: {run.worst()}", ConvergenceWarning)
    return x, info


class Iteration(Solve):
    """Conjugate gradients on columns that run together.

    ``vectors`` holds the vectors P, Q, R, X and the scalars of each column, on the host (cg_host.py) or on the GPU (cg_cuda.py).
    This class decides about columns that stop or seem to have converged, after every ``vectors.look_every`` iterations.

    Parameters
    ----------
    vectors : HostVectors or CudaVectors
    powers : (k,) integers
        See :class:`~meshsolve.krylov.blocks.Blocks`.
    report : Report
    """

    def __init__(self, vectors, powers, report):
        self.vectors, self.powers, self.report, self.null_space = vectors, powers, report, vectors.null_space
        self.reason, self.residuals = np.full(len(powers), RUNNING, object), []
        self._end(self.reason != RUNNING, RUNNING)

    @property
    def X(self):
        """(n, k) the current iterates."""
        return self.vectors.X

    def iterate(self, rtol, atol, maxiter, callback, gives_up):
        """Run algorithm 9.1 of Saad on all columns; ``atol`` is a (k,) array."""
        vectors, done, every = self.vectors, 0, self.vectors.look_every
        self._begin(rtol, atol)
        while done < maxiter and self.running and not (gives_up and self._is_hopeless(done, gives_up)):
            together = 1 if every == 1 else min(every, maxiter - done, FORESEE - done % FORESEE if gives_up else maxiter)
            for i in range(together):
                vectors.direction(i)                        # P := M R + beta P
                vectors.multiply(i)                         # Q := A P, alpha
                vectors.step(i)                             # X += alpha P, R -= alpha Q
                if callback is not None:
                    callback(vectors.X)
            done += together
            found = vectors.look(self.residuals)
            self.norm = vectors.norm
            if found is not None:
                self._decide(*found)
        self._finish()
        self.norm, self.iterations = self.truth, vectors.iterations
        self._judge_range()
        self._judge_size()

    def _begin(self, rtol, atol):
        vectors = self.vectors
        size = vectors.norms(vectors.B)
        self.scale, self.allowed, self.outside = np.where(size > 0, size, 1.0), np.maximum(rtol * size, atol), np.zeros(len(size))
        if self.null_space is not None:
            self._to_range(rtol * size)
            size = vectors.norms(vectors.B)
        self.norm = vectors.begin(size)
        self.target = np.maximum(rtol * size, atol)
        self.truth = np.where(self.norm <= self.target, self.norm, np.inf)         # true residual when last computed
        self.saved_norm = self.norm.copy()
        self.residuals.append(self.norm)
        self._end(self.norm <= self.target, CONVERGED)
        vectors.proceed(self)

    def _to_range(self, allowed):
        """Remove component means from b that would keep the residual above ``allowed``.

        Means of the size of rounding errors stay: removing them would spoil small entries of b if weights span many decades.
        """
        centered = self.vectors.centered(self.vectors.B)
        outside = self.vectors.norms(self.vectors.B - centered)
        if (outside > 0.01 * allowed).any():
            self.vectors.B, self.outside = centered, outside

    def _decide(self, at_target, diverged, broken):
        """End columns, check columns that seem to have converged, and save iterates whose residual has fallen enough."""
        vectors = self.vectors
        if broken.any():
            broken = self._end_indefinite(broken & self.active)
        if diverged.any():
            self._end(diverged & self.active, DIVERGED)
        self._check(self.active & (at_target | broken))
        better = self.active & (self.norm < SAVE_AT * self.saved_norm)
        if better.any():
            vectors.copy_columns(vectors.saved, vectors.X, better)
            self.saved_norm[better] = self.norm[better]
        vectors.proceed(self)

    def _end_indefinite(self, broken):
        """End the ``broken`` columns in which r . M r or p . A p is negative beyond rounding; return the other ones."""
        (rho, size), (curvature, rounding) = self.vectors.products()
        definite = (rho >= -NEGATIVE[0] * size - TINY) & (curvature >= -NEGATIVE[1] * rounding)
        self._end(broken & ~definite, INDEFINITE)
        return broken & self.active

    def _check(self, at_target):
        """Compare true residuals with the target; columns above it restart from their true residual."""
        if not at_target.any():
            return
        true = self.vectors.checked_norms(self.vectors.Q)
        self._end(at_target & (true <= 1.001 * self.target), CONVERGED)
        self._end(at_target & self.active & (true > 0.5 * self.truth), STAGNATED)
        restarted = at_target & self.active
        if restarted.any():
            self.vectors.restart(restarted)
        self.truth[at_target] = self.norm[at_target] = true[at_target]
        self.saved_norm[restarted] = np.maximum(self.saved_norm, true)[restarted]  # the norm of the recurrence hides rounding

    def _finish(self):
        """Mean-free solutions, true residuals, and the best iterate of columns that did not converge."""
        vectors = self.vectors
        self._end(self.active, EXHAUSTED)
        failed = self.reason != CONVERGED
        if failed.any():
            now, before = vectors.true_norms(vectors.X, vectors.R), vectors.true_norms(vectors.saved, vectors.Q)
            vectors.copy_columns(vectors.X, vectors.saved, failed & ~(now <= before))
        if failed.any() or vectors.centers_late:
            self.truth = vectors.centered_norms(vectors.R)

    def _end(self, columns, reason):
        """Stop columns; no other method does."""
        self.reason[columns] = reason
        self.active = self.reason == RUNNING
        self.running = int(np.count_nonzero(self.active))


class Parts(Solve):
    """The iteration on many columns, ``width`` at a time."""

    def __init__(self, width, vectors, X, powers, report):
        self.width, self.vectors, self.X, self.powers, self.report = width, vectors, X, powers, report

    def iterate(self, rtol, atol, maxiter, callback, gives_up):
        """As :meth:`Iteration.iterate`."""
        found, histories = [], []
        for first in range(0, len(self.powers), self.width):
            columns = slice(first, first + self.width)
            run = Iteration(self.vectors(columns), self.powers[columns], self.report)
            run.iterate(rtol, atol[columns], maxiter, callback, gives_up)
            self.X[:, columns], self.null_space = run.X, run.null_space
            found.append((run.norm, run.scale, run.outside, run.reason, run.iterations))
            histories.append(run.residuals)
        self.norm, self.scale, self.outside, self.reason, self.iterations = map(np.concatenate, zip(*found, strict=True))
        length = max(map(len, histories))                   # columns that end early keep their last residual
        self.residuals = [np.concatenate([history[min(i, len(history) - 1)] for history in histories]) for i in range(length)]
