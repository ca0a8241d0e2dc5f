"""Solve one convex program: interior point steps, then exact active bounds; without success, a proof that there is no answer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from meshsolve.api.convex.certificates import no_minimum, no_point
from meshsolve.api.convex.polish import SETTLED, polished
from meshsolve.api.convex.program import Point
from meshsolve.api.convex.steps import DIVERGED, REGULAR, InteriorPoint

DOUBTED = 1e-2          # size of x in scaled units times tol, above which residuals relative to x prove no minimum
EARLY_SETS = 2          # active sets that are tried before the interior point method has ended


class Answer(NamedTuple):
    """The best point, and a proof: a certificate (weights of rows, of unknowns), or a direction (n,), or neither."""

    point: Point | None
    certificate: tuple[Any, Any] | None = None
    direction: Any = None


def solve(program, tol, report):
    """The :class:`Answer` for a :class:`meshsolve.api.convex.program.Program` whose function is convex."""
    search = _Search(program, tol, report)
    if program.endless >= 0 and search.has_proof() and search.answer(None).certificate is None:
        return search.answer(None)
    if not (program.has_lower | program.has_upper).any():
        with report.phase("active set"):
            point = polished(program, _first(program), 0.0)
        if search.accepts(point) or search.has_proof():
            return search.answer(point)
    best = None
    for attempt in range(len(REGULAR)):
        steps = InteriorPoint(program, attempt)
        with report.phase("interior point"):
            steps.run(tol, search.has_proof, search.is_exact)
        for point in search.exact or [steps.best] * (steps.best is not None):
            with report.phase("active set"):
                point = point if search.exact else polished(program, point, tol)
            best = point if best is None or point.residual.worst < best.residual.worst else best
        if best is not None and search.accepts(best) or search.has_proof():
            break
    return search.answer(best)


def farthest(tol):
    """Size of x in scaled units above which residuals relative to x do not exclude that the function falls without end."""
    return min(DIVERGED, DOUBTED / tol)


class _Search:
    """Looks for proofs at most once."""

    def __init__(self, program, tol, report):
        self._program, self._tol, self._report = program, tol, report
        self._asked, self._certificate, self._direction, self.exact = False, None, None, []

    def accepts(self, point):
        """True if the point is a minimum. Residuals are relative to x, so a point that is very far away must have no proof against it."""
        if not point.residual.worst <= self._tol:
            return False
        return self._program.reach(point.x) <= farthest(self._tol) or not self.has_proof()

    def is_exact(self, point):
        """True if the minimum has the active set of a point near it; it is then ``exact[0]``."""
        with self._report.phase("active set"):
            found = polished(self._program, point, self._tol, EARLY_SETS)
        self.exact = [found] if found.residual.worst <= SETTLED * self._tol else []
        return bool(self.exact)

    def has_proof(self):
        if not self._asked:
            self._asked = True
            with self._report.phase("certificate"):
                plain = self._program.plain()
                self._certificate = no_point(plain)
                self._direction = self._descent(plain) if self._certificate is None else None
        return self._certificate is not None or self._direction is not None

    def answer(self, point):
        return Answer(None if point is None else self._program.finished(point), self._certificate, self._direction)

    def _descent(self, plain):
        k, b = self._program.endless, plain.b
        return no_minimum(plain) if k < 0 else np.where(np.arange(len(b)) == k, np.sign(b), 0)


def _first(program):
    n, p = program.model.n, program.model.p
    x, y = np.where(program.equal[:n], program.lower[:n], 0.0), np.zeros(p)
    return Point(x, y, np.zeros(n + p, np.int8), program.residual(x, y))
