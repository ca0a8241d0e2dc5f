"""Conjugate gradients with the diagonal alone, as long as a complete factor is foreseen to take longer.

A few iterations tell how many are left, and the graph of the patches what Cholesky would take, in a hundredth of its time:
neither is asked for more than it takes to decide. All is counted in operations, so that the answer is the same on any number of
threads.
"""

from __future__ import annotations

import numpy as np

from meshsolve.device import errors, holds, to_device, to_host
from meshsolve.errors import ConvergenceWarning, NotPositiveDefiniteError, OutOfMemoryError
from meshsolve.krylov.cg import iterate
from meshsolve.krylov.cg_rules import FORESEE, INDEFINITE, OUTSIDE, STAGNATED
from meshsolve.krylov.info import CONVERGED, Info
from meshsolve.options import counted
from meshsolve.order.auto import foreseen_dimension, is_scale_free
from meshsolve.order.nested import DEFAULT_PATCH, TooManyOperations, dissect
from meshsolve.order.simple import minimum_degree
from meshsolve.report import Report, warn, without_warnings
from meshsolve.sparse.columns import as_rhs
from meshsolve.sparse.cuda import uploaded
from meshsolve.sparse.matrix import Csr

ITERATION = 50              # operations of Cholesky that take as long as an iteration does for an entry of A
WITHIN = 0.5, 1.0           # of the time of the factor: where iterations are to converge, while that is foreseen and when it is counted
TRIED = 0.08                # the same: what they may take without hope, once it is counted
MANY = 4                    # real right-hand sides from which the first is tried alone: it costs little, and mostly tells of all
SLOWER = 2                  # times as many iterations foreseen as at the look before: the residual falls slower and slower


class Iterations:
    """Conjugate gradients for M x = b, with one approximate inverse after the other, each from the x of the one before."""

    def __init__(self, M, b, rtol, threads, place):
        self.matrix, self.b, self.rtol, self.threads, self.place = M, b, rtol, threads, place
        self.report, self.iterations, self.residuals, self.steps = Report(), 0, [], []
        self.x = self.info = self._there = None

    def go_on(self, P, gives_up=None):
        """Iterates with P as the inverse, until :func:`iterate` ends."""
        if self._there is None:
            self._there = self._uploaded() if self.place == "cuda" else (self.matrix, self.b)
        A, b = self._there
        self.x, self.info = iterate(A, b, P, self.x, self.rtol, threads=self.threads, gives_up=gives_up)
        self.report.merge(self.info.report)
        self.iterations = self.iterations + self.info.iterations
        self.residuals += self.info.residuals[bool(self.residuals):]

    def try_diagonal(self, gives_up):
        """With the diagonal, quietly where that does not suffice."""
        P = inverse_diagonal(self.matrix, self.place, self.threads)
        with without_warnings(ConvergenceWarning):
            self.go_on(P, gives_up)
        self._account()
        if self.is_settled and not self.info.converged:
            self.go_on(P)                                # which says what else there is to say

    def solves_before(self, operations, count, columns):
        """Whether the diagonal suffices in less time than a factor takes; see :class:`WhileFactorTakesLonger` for the arguments.

        Raises
        ------
        NotPositiveDefiniteError
            It shows that no Cholesky factorization can succeed.
        """
        spent = Report()

        def timed():
            with spent.phase("analysis"):
                return count()

        rule = WhileFactorTakesLonger(self.matrix, operations, count and timed, columns, self.threads)
        is_solved = columns < MANY or self._solves_first(rule)
        is_solved = is_solved and self.solves_while(rule.gives_up)
        self.report.add("solve", -spent.seconds.get("analysis", 0.0))
        if is_solved:                                    # else the analysis tells itself
            for phase, seconds in spent.seconds.items():
                self.report.add(phase, seconds)
        return is_solved

    def _solves_first(self, rule):
        """Whether the diagonal suffices for the first column."""
        first = Iterations(self.matrix, self.b[:, 0], self.rtol, self.threads, self.place)
        is_solved = first.solves_while(rule.gives_up_on_first)
        self.steps += [f"first column, {step}" for step in first.steps]
        self.report.merge(first.report)
        return is_solved

    def solves_while(self, gives_up):
        """Whether the diagonal suffices before ``gives_up`` ends it; raises as :meth:`solves_before` does."""
        self.try_diagonal(gives_up)
        if INDEFINITE in np.atleast_1d(self.info.reason):
            raise NotPositiveDefiniteError("conjugate gradients found a direction p with p . A p < 0")
        if not self.is_settled:
            self._there = None                           # a factor may need the memory of the GPU
        return self.is_settled

    def without_factor(self, lacking):
        """(x, info) by the diagonal however long it takes, as no factor can be made: ``lacking`` says why.

        Raises
        ------
        OutOfMemoryError
            It does not converge either, nor to what rounding allows.

        Warns
        -----
        ConvergenceWarning
            Rounding allows no more, and would not with a factor.
        """
        self.steps.append(f"complete factor: {lacking}")
        with without_warnings(ConvergenceWarning):
            self.go_on(inverse_diagonal(self.matrix, self.place, self.threads))
        self._account()
        x, info = self.outcome()
        if not np.isin(self.info.reason, (CONVERGED, OUTSIDE, STAGNATED)).all():
            raise OutOfMemoryError(f"{lacking}; conjugate gradients with the diagonal took "
                                   f"{counted(info.iterations, 'iteration')} to a relative "
                                   f"residual of {info.relative_residual:.2g}: {info.reason}")
        if not info.converged:
            warn(f"solve: the relative residual {info.relative_residual:.3g} of conjugate gradients, for want of memory for a factor, "
                 f"is above rtol = {self.rtol:.3g}: {info.reason}", ConvergenceWarning)
        return x, info

    @property
    def is_settled(self):
        """Whether nothing is left to iterate for, as what is left of b is out of range where it has not converged."""
        return bool(np.isin(self.info.reason, (CONVERGED, OUTSIDE)).all())

    def outcome(self):
        """(x, info) where b lies."""
        info, facts = self.info, self.report.facts
        reason = info.reason if isinstance(info.reason, str) else "; ".join(sorted(set(info.reason)))
        method = "parac" if facts["nnz_L"] else "jacobi"
        if method == "jacobi":
            facts["steps_taken"] = "; ".join(self.steps)
        x = to_host(self.x) if self.place == "cuda" and not holds(self.b) else self.x
        iterations = int(np.max(self.iterations, initial=0))
        return x, Info(method, info.converged, iterations, _worst(info), self.residuals, reason, self.report, info.singular)

    def tell_first(self, report, then):
        """Puts the steps taken here, if any, before those that another report tells of; ``then`` where it tells of none."""
        if self.steps:
            report.facts["steps_taken"] = "; ".join([*self.steps, report.facts.get("steps_taken", then)])
            report.add("trial", sum(self.report.seconds.values()))

    def _uploaded(self):
        """Matrix and right-hand sides on the GPU."""
        b = self.b
        with errors("the matrix"):
            A = uploaded(self.matrix)
        if not holds(b):
            b = as_rhs(b, A.n, dtype=np.complex128 if b.dtype.kind == "c" else np.float64)[0].reshape(b.shape)
            with errors("the right-hand side"):
                b = to_device(b)
        return A, b

    def _account(self):
        self.steps.append(f"diagonal: {counted(np.max(self.info.iterations, initial=0), 'iteration')} to {_worst(self.info):.2g}")


def _worst(info):
    """The residual of the worst column; 0 where there is none."""
    return float(np.max(info.relative_residual, initial=0.0))


class WhileFactorTakesLonger:
    """When conjugate gradients give way to a complete factor of A: its :meth:`gives_up` is for
    :func:`meshsolve.krylov.cg.iterate`.

    They go on while all iterations, those that are foreseen to be left among them, take less time than the factor, and that
    number does not double from one look to the next; or while those until the next look take less than 8 % of that time. While
    the time is only foreseen, which may be twice too long, half of it counts, and the 8 % do not; where that does not suffice A
    is analysed, which its factor needs as well, and iterations go on if the operations that were counted allow it.

    Parameters
    ----------
    M : Csr
        Symmetric, on the host.
    operations : float
        The factor is known to take more.
    count : callable or None
        Tells how many it takes, by the analysis; None where ``operations`` are what it takes.
    columns : int
        Real right-hand sides.
    threads : int
    """

    def __init__(self, M, operations, count=None, columns=1, threads=1):
        self._pattern, self._threads = Csr(M.n, M.indptr, M.indices, diagonal=True), threads
        self._known, self._refused, self._count = operations, np.inf if count else operations, count
        self._foreseen, self._alone, self._all = np.inf, ITERATION * M.nnz, ITERATION * M.nnz * weight(columns)

    def gives_up(self, done, left):
        """Whether iterations on all columns end after those that are ``done``; ``left`` foresees by the last ones how many are
        left."""
        return self._is_too_slow(done, left, self._all)

    def gives_up_on_first(self, done, left):
        """The same of iterations on one column, which tell how many all need."""
        return self._is_too_slow(done, left, self._alone)

    def _is_too_slow(self, done, left, iteration):
        before = self._foreseen if done > FORESEE else np.inf
        self._foreseen = done + left(max(FORESEE, done // 2))
        needed = self._foreseen * self._all if self._foreseen <= SLOWER * before else np.inf
        if needed < np.inf and self._takes(needed / WITHIN[0]):
            return False
        if self._count is not None:
            self._known = self._refused = self._count()
            self._count = None
        return self._known < min(needed / WITHIN[1], (done + FORESEE) * iteration / TRIED)

    def _takes(self, operations):
        """Whether the factor takes more operations than these; asked of the graph of the patches where that is not known yet."""
        if self._known < operations < self._refused:
            if takes_more(self._pattern, operations, self._threads):
                self._known = operations
            else:
                self._refused = operations
        return operations <= self._known


def weight(columns):
    """How long an iteration on so many right-hand sides takes beside one on a single one."""
    return (1 + columns) / 2


def takes_more(pattern, operations, threads):
    """Whether Cholesky is foreseen to take more operations than these, of a symmetric pattern on the host; nothing is ordered,
    but for graphs without separators, by minimum degree until it takes more."""
    most = operations / pattern.n
    try:
        if is_scale_free(pattern):
            return len(minimum_degree(pattern, operations)) < pattern.n
        foreseen_dimension(pattern, most)
        dissect(pattern.graph(), "fast", DEFAULT_PATCH, 0, threads, np.inf, most)
    except TooManyOperations:
        return True
    return False


def inverse_diagonal(M, place, threads):
    """The inverse of the diagonal of the :class:`Csr` M as an operator where the right-hand sides lie."""
    diagonal = M.diagonal_values(threads)
    inverse = np.divide(1.0, diagonal, out=np.ones(M.n), where=diagonal > 0)
    return DeviceDiagonal(inverse) if place == "cuda" else HostDiagonal(inverse)


class HostDiagonal:
    """A diagonal matrix as an operator on (n, k) blocks on the host."""

    def __init__(self, diagonal):
        self.shape, self._column, self.on_device = (len(diagonal), len(diagonal)), diagonal[:, None], False

    def apply_columns(self, R, out):
        return np.multiply(self._column, R, out=out)


class DeviceDiagonal:
    """The same on the GPU."""

    def __init__(self, diagonal):
        self.shape, self._column = (len(diagonal), len(diagonal)), to_device(diagonal[:, None])

    def __matmul__(self, B):
        return self._column * B
