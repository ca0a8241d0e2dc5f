"""Conjugate gradients with the diagonal as preconditioner, as long as a complete factor is estimated to take longer.

The residuals of a few iterations give an estimate of the number that is left. The graph of the patches gives one of the
operations of Cholesky, in a hundredth of the time of an ordering. Each estimate is made only as precise as the decision requires.
All costs are counted in operations, so the decision does not depend on the number of threads.
"""

from __future__ import annotations

import numpy as np

from meshsolve.errors import ConvergenceWarning, NotPositiveDefiniteError, OutOfMemoryError
from meshsolve.krylov.blocks import as_start
from meshsolve.krylov.cg import iterate
from meshsolve.krylov.cg_rules import FORESEE, INDEFINITE, OUTSIDE, STAGNATED
from meshsolve.krylov.info import CONVERGED, OUT_OF_RANGE, Info
from meshsolve.options import counted
from meshsolve.order.auto import estimated_dimension, is_scale_free
from meshsolve.order.nested import DEFAULT_PATCH, TooManyOperations, dissect
from meshsolve.order.simple import minimum_degree
from meshsolve.report import Report, warn, without_warnings
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import CUDA

ITERATION = 50              # operations of Cholesky that take as long as an iteration does per entry of A
WITHIN = 0.5, 1.0           # largest time of all iterations relative to that of the factor, if the latter is estimated or counted
TRIED = 0.08                # largest time of slow iterations relative to that of the factor, if that is counted
MANY = 4                    # real right-hand sides from which the first one is tried alone: its rate is mostly that of all
SLOWER = 2                  # growth of the estimated number of iterations between two estimates above which the rate is falling


class Iterations:
    """Conjugate gradients for M x = b with several preconditioners in turn, each from the x of the previous one.

    Parameters
    ----------
    M : Csr
        On the host.
    b : (n,) or (n, k) array
        On the host or on the GPU.
    rtol : float
    threads : int
    place : HOST or CUDA
        Where to iterate.
    """

    def __init__(self, M, b, rtol, threads, place):
        self.matrix, self.b, self.rtol, self.threads, self.place = M, b, rtol, threads, place
        self.report, self.iterations, self.residuals, self.steps = Report(), 0, [], []
        self.x = self.info = self._placed = None

    def go_on(self, P, gives_up=None):
        """Iterate with P as approximate inverse, until :func:`iterate` ends."""
        if self._placed is None:
            with self.place.errors("the matrix"):
                self._placed = self.place.matrix(self.matrix.stored)
        self.x, self.info = iterate(self._placed, self.b, P, as_start(self.x), self.rtol, threads=self.threads, gives_up=gives_up)
        self.report.merge(self.info.report)
        self.iterations = self.iterations + self.info.iterations
        self.residuals += self.info.residuals[bool(self.residuals):]

    def try_diagonal(self, gives_up):
        """Iterate with the diagonal, without a warning if ``gives_up`` ends it."""
        P = inverse_diagonal(self.matrix, self.place, self.threads)
        with without_warnings(ConvergenceWarning):
            self.go_on(P, gives_up)
        self._add_step()
        if self.is_settled and not self.info.converged:
            self.go_on(P)                                # gives the warnings

    def solves_before(self, operations, count, columns):
        """True if the diagonal suffices in less time than a factor; see :class:`WhileFactorTakesLonger` for the arguments.

        Raises
        ------
        NotPositiveDefiniteError
            A direction of negative curvature: no Cholesky factorization can succeed.
        """
        spent = Report()

        def timed_count():
            with spent.phase("analysis"):
                return count()

        rule = WhileFactorTakesLonger(self.matrix, operations, count and timed_count, columns, self.threads)
        is_solved = columns < MANY or self._solves_first(rule)
        is_solved = is_solved and self.solves_while(rule.gives_up)
        self.report.add("solve", -spent.seconds.get("analysis", 0.0))
        if is_solved:                                    # otherwise the report of the factor has the analysis
            for phase, seconds in spent.seconds.items():
                self.report.add(phase, seconds)
        return is_solved

    def solves_while(self, gives_up):
        """True if the diagonal suffices before ``gives_up`` ends the iteration; raises as :meth:`solves_before` does."""
        self.try_diagonal(gives_up)
        if INDEFINITE in np.atleast_1d(self.info.reason):
            raise NotPositiveDefiniteError("conjugate gradients found a direction p with p . A p < 0")
        if not self.is_settled:
            self._placed = None                          # a factor may need the memory of the GPU
        return self.is_settled

    def without_factor(self, cause):
        """(x, info) with the diagonal and without a limit on time, if no factor can be made; ``cause`` is the message of that
        error.

        Raises
        ------
        OutOfMemoryError
            The iteration does not converge either, nor stagnate at rounding errors.

        Warns
        -----
        ConvergenceWarning
            The residual stagnates at rounding errors above ``rtol``; a factor would not reduce it.
        """
        self.steps.append(f"complete factor: {cause}")
        with without_warnings(ConvergenceWarning):
            self.go_on(inverse_diagonal(self.matrix, self.place, self.threads))
        self._add_step()
        x, info = self.outcome()
        if not np.isin(self.info.reason, (CONVERGED, OUTSIDE, OUT_OF_RANGE, STAGNATED)).all():
            raise OutOfMemoryError(f"{cause}; conjugate gradients with the diagonal took {counted(info.iterations, 'iteration')} to "
                                   f"a relative residual of {info.relative_residual:.2g}: {info.reason}")
        if not info.converged:
            warn(f"solve: the relative residual {info.relative_residual:.3g} of conjugate gradients, used for want of memory for "
                 f"a factor, is above rtol = {self.rtol:.3g}: {info.reason}", ConvergenceWarning)
        return x, info

    @property
    def is_settled(self):
        """True if all columns have converged, up to a part of b outside the range of A, or their solutions leave the range of float64."""
        return bool(np.isin(self.info.reason, (CONVERGED, OUTSIDE, OUT_OF_RANGE)).all())

    def outcome(self):
        """(x, info); x lies where b does."""
        info, facts = self.info, self.report.facts
        reason = info.reason if isinstance(info.reason, str) else "; ".join(sorted(set(info.reason)))
        method = "parac" if facts["nnz_L"] else "jacobi"
        if method == "jacobi":
            facts["steps_taken"] = "; ".join(self.steps)
        iterations = int(np.max(self.iterations, initial=0))
        return self.x, Info(method, info.converged, iterations, _worst(info), self.residuals, reason, self.report, info.singular)

    def report_first(self, report, then):
        """Prepend the steps of this object, if any, to those of another report, or to ``then`` if that has none."""
        if self.steps:
            report.facts["steps_taken"] = "; ".join([*self.steps, report.facts.get("steps_taken", then)])
            report.add("trial", sum(self.report.seconds.values()))

    def _solves_first(self, rule):
        """True if the diagonal suffices for the first column."""
        first = Iterations(self.matrix, self.b[:, 0], self.rtol, self.threads, self.place)
        is_solved = first.solves_while(rule.gives_up_on_first)
        self.steps += [f"first column, {step}" for step in first.steps]
        self.report.merge(first.report)
        return is_solved

    def _add_step(self):
        self.steps.append(f"diagonal: {counted(np.max(self.info.iterations, initial=0), 'iteration')} to {_worst(self.info):.2g}")


class WhileFactorTakesLonger:
    """Rule that ends conjugate gradients in favor of a complete factor of A; :meth:`gives_up` is an argument of
    :func:`meshsolve.krylov.cg.iterate`.

    Iterations continue in two cases. Either all of them, including the estimated rest, take less time than the factor, and that
    number does not double between two estimates. Or the iterations up to the next estimate take less than 8 % of that time. The
    operations of the factor may be overestimated twofold: until they are counted, half of the time is the limit, and the second
    case does not apply. If that limit is passed, the analysis counts the operations, which the factor needs anyway.

    Parameters
    ----------
    M : Csr
        Symmetric, on the host.
    operations : float
        Lower bound of the operations of the factor; their number if ``count`` is None.
    count : callable or None
        Returns the number of operations, by the analysis.
    columns : int
        Real right-hand sides.
    threads : int
    """

    def __init__(self, M, operations, count=None, columns=1, threads=1):
        self._pattern, self._threads = Csr(M.n, M.indptr, M.indices, diagonal=True), threads
        self._known, self._refused, self._count = operations, np.inf if count else operations, count
        self._estimate, self._alone, self._all = np.inf, ITERATION * M.nnz, ITERATION * M.nnz * weight(columns)

    def gives_up(self, done, left):
        """True if iterations on all columns end after ``done``; ``left(seen)`` estimates the rest from the last ``seen``."""
        return self._is_too_slow(done, left, self._all)

    def gives_up_on_first(self, done, left):
        """The same for iterations on one column, whose number is that of all columns."""
        return self._is_too_slow(done, left, self._alone)

    def _is_too_slow(self, done, left, iteration):
        before = self._estimate if done > FORESEE else np.inf
        self._estimate = done + left(max(FORESEE, done // 2))
        needed = self._estimate * self._all if self._estimate <= SLOWER * before else np.inf
        if needed < np.inf and self._takes(needed / WITHIN[0]):
            return False
        if self._count is not None:
            self._known = self._refused = self._count()
            self._count = None
        return self._known < min(needed / WITHIN[1], (done + FORESEE) * iteration / TRIED)

    def _takes(self, operations):
        """True if the factor takes more operations than these; estimated by the graph of the patches if the bounds do not
        decide."""
        if self._known < operations < self._refused:
            if takes_more(self._pattern, operations, self._threads):
                self._known = operations
            else:
                self._refused = operations
        return operations <= self._known


def weight(columns):
    """Time of an iteration on this many right-hand sides relative to that on one."""
    return (1 + columns) / 2


def takes_more(pattern, operations, threads):
    """True if Cholesky is estimated to take more operations than these for a symmetric pattern on the host.

    Graphs without separators are ordered by minimum degree until that bound is passed; other graphs are not ordered."""
    most = operations / pattern.n
    try:
        if is_scale_free(pattern):
            return len(minimum_degree(pattern, operations)) < pattern.n
        estimated_dimension(pattern, most)
        dissect(pattern.graph(threads), "fast", DEFAULT_PATCH, 0, threads, np.inf, most)
    except TooManyOperations:
        return True
    return False


def inverse_diagonal(M, place, threads):
    """The inverse of the diagonal of the :class:`Csr` M as an operator at ``place``."""
    diagonal = M.diagonal_values(threads)
    return Diagonal(np.divide(1.0, diagonal, out=np.ones(M.n), where=diagonal > 0), place)


class Diagonal:
    """A diagonal matrix as an operator on (n, k) blocks at one place."""

    def __init__(self, diagonal, place):
        self.shape, self.on_device, self._column = (len(diagonal), len(diagonal)), place is CUDA, place.bring(diagonal[:, None])

    def apply_columns(self, R, out):
        return np.multiply(self._column, R, out=out)

    def apply_on_device(self, R):
        return self._column * R


def _worst(info):
    """The largest residual of all columns; 0 without columns."""
    return float(np.max(info.relative_residual, initial=0.0))
