"""LU factors of many matrices with one pattern and the pivots of one factor, on the host.

    F = meshsolve.lu(A);  many = F.factor_batch(values);  many.solve(b);  many.refactor(values)        # values (N, nnz), b (N, n)

The solution of a system has the bits of ``F.refactor(its matrix).solve(b)``. A system that one plain factorization and solve satisfy
never enters Python. The conditions are those of :mod:`meshsolve.factor.lu.solves`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve import _core
from meshsolve.factor.base import irregular
from meshsolve.factor.lu.solves import ENOUGH, RISK, ROWS, SUSPECT, UNBOUNDED, WRONG
from meshsolve.factor.many import ALONE, SingleFactors
from meshsolve.memory import ensure_memory
from meshsolve.options import counted

LIMITS = ENOUGH, SUSPECT, WRONG["double"], ROWS
AT_ONCE = 4                             # systems that a thread factors together, at most
CORES: dict[str, Any] = {"f": _core.LuBatchDouble, "c": _core.LuBatchComplex}


class LUBatch(SingleFactors):
    """LU factors of N matrices with one pattern, made by :meth:`LUFactor.factor_batch`.

    Attributes
    ----------
    failed : (f,) int64
        Systems without a factor, ascending: singular, not finite, or not reached before Ctrl-C. Their solutions are NaN;
        :meth:`reason` says why. The first solve may find more.
    alone : (a,) int64
        Systems with a factor of their own, because the pivots of the analysis do not fit, entries grow by more than a million, or the
        first solution needs refinement. Each takes the time of a single ``refactor`` and ``solve``. The first solve may find more.
    backward_error : (N,) float64
        Normwise backward error of the first solution after each factorization, NaN without one.
    shape : tuple of int
        (N, n): number of systems, rows of each.
    report : Report
        Seconds of ``numeric`` and ``solve`` for all systems together.
    """

    _source = "F"

    def __init__(self, factor, values, threads, keep):
        """Factor ``values``, (N, nnz) in the pattern of ``factor``, with its pivots, on ``threads`` threads. ``keep``: the factors."""
        self._factor_of, now = factor, factor._numeric
        self._pivots, self._unit = now.pivots, now.unit
        scale = now.pivots.analysis.col_scale
        self._known = scale * irregular(len(scale))                 # the solution of a probe
        pattern, scalar = factor._backend.pattern, factor._backend.scalar
        super().__init__(pattern, values, scalar, threads, keep, nnz_L=self._pivots.nnz, engine=self._pivots.engine)

    @property
    def nbytes(self) -> int:
        """Bytes of all values and factors, without factors of single systems."""
        return self._nbytes

    @property
    def backward_error(self) -> np.ndarray:
        self._states()
        error = self._core.error()
        for i, factor in self._alone.items():
            error[i] = factor.report.facts.get("backward_error", np.nan)
        return error

    def _prepare(self, data):
        plan = self._pivots.plan
        count = len(data) if self._keeps else min(len(data), AT_ONCE * self.threads)
        held = self._scalar.itemsize * count * (self._keeps * self._pattern.nnz + plan.scalars + len(plan.off_diagonal()[1]))
        ensure_memory(held, f"the factors of {counted(len(data), 'system')} together")
        self._core = CORES[self._scalar.kind](plan, len(data), 0 if self._keeps else self.threads)
        self._nbytes = held if self._keeps else 0
        if self._keeps:
            self._values = np.empty_like(data)          # solves measure residuals

    def _factor(self, data):
        self._forget()
        with self.report.phase("numeric"):
            self._core.factor(data.reshape(-1), self._values.reshape(-1), self._rule(), self.threads)
            self._factor_those_alone()
        self.report.facts.update(bytes=self.nbytes, alone=len(self._alone))

    def _rule(self):
        return (*self._factor_of._pivot_rule(self._pivots, self._unit), RISK, UNBOUNDED)

    def _factor_alone(self, system):
        return self._factor_of._of_values(self._values[system].copy(), self._pivots, self._unit)

    def _solve_into(self, x, columns):
        if self._core.is_measured and not self._alone:
            self._core.solve(*self._problem(x, columns), LIMITS, self.threads)
            return
        with self._sharing.turn():                      # one thread measures
            self._core.solve(*self._problem(x, columns), LIMITS, self.threads)
            self._finish_those_alone(x, columns)

    def _factor_and_solve(self, data, x, columns):
        self._forget()
        self._core.factor_and_solve(*self._problem(x, columns), LIMITS, self._rule(), self.threads)
        self._finish_those_alone(x, columns)

    def _finish_those_alone(self, x, columns):
        if (self._core.state() == ALONE).any():
            self._factor_those_alone()
            self._solve_those_alone(columns, x)
        self.report.facts["alone"] = len(self._alone)

    def _problem(self, x, columns):
        P = self._pattern
        return P.indptr, P.indices, self._values.reshape(-1), self._known, columns.reshape(-1), x.reshape(-1)
