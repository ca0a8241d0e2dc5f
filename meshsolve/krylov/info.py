"""The record of an iterative or direct solution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshsolve.options import counted
from meshsolve.report import Report

CONVERGED, EXHAUSTED = "converged", "maxiter reached"                   # reasons of both iterations
OUT_OF_RANGE = "the solution leaves the range of float64"


@dataclass(repr=False)
class Info:
    """How a solution was found.

    Attributes
    ----------
    method : str
        The method that solved the system, for example ``"cholesky"``.
    converged : bool
        True if all right-hand sides of a block have converged.
    iterations : int, or (k,) int64
        0 for a direct method; an array for an iteration on a block of k right-hand sides.
    relative_residual : float, or (k,) float64
        ||b - A x|| / ||b|| in the 2-norm, recomputed in float64; for a direct method the largest of all columns.
    residuals : list of float, or of (k,) float64
        The relative residual at the start and after each iteration.
    reason : str, or (k,) str
        Why the iteration stopped.
    report : Report
        Seconds of each phase, and sizes.
    singular : bool
        True if A was found to be singular: x is one of many solutions, with mean 0 on each component if A maps constants to 0.
        A direct method finds this; an iteration only if the rows of A sum to 0.
    """

    method: str
    converged: bool
    iterations: int | np.ndarray
    relative_residual: float | np.ndarray
    residuals: list[Any] = field(default_factory=list)
    reason: str | np.ndarray = ""
    report: Report = field(default_factory=Report)
    singular: bool = False

    def __repr__(self):
        """One line: for a block of right-hand sides the largest iteration count and residual; no history."""
        iterations, residual = (np.max(value, initial=0) for value in (self.iterations, self.relative_residual))
        reason = self.reason if isinstance(self.reason, str) else "; ".join(sorted(set(self.reason)))
        return (f"Info(method={self.method!r}, converged={self.converged}, iterations={iterations}, "
                f"relative_residual={residual:.3g}, reason={reason!r}{', singular=True' if self.singular else ''})")


def info_of(method, runs, report, scalar):
    """The :class:`Info` of columns that ran one after the other, each with ``reason``, ``iterations``, ``norm``, ``scale`` and
    ``residuals``; with ``scalar`` that of one column."""
    if scalar:
        run = runs[0]
        return Info(method, run.reason == CONVERGED, run.iterations, run.norm / run.scale, run.residuals, run.reason, report)
    longest = max((len(run.residuals) for run in runs), default=0)
    padded = [run.residuals + run.residuals[-1:] * (longest - len(run.residuals)) for run in runs]
    return Info(method, all(run.reason == CONVERGED for run in runs), np.array([run.iterations for run in runs], np.int64),
                np.array([run.norm / run.scale for run in runs]), [np.array(step) for step in zip(*padded, strict=True)],
                np.array([run.reason for run in runs], str), report)


def worst(info):
    """Describe the column that is farthest from its tolerance."""
    reason, relative, iterations = (np.atleast_1d(v) for v in (info.reason, info.relative_residual, info.iterations))
    failed = np.flatnonzero(reason != CONVERGED)
    c = failed[np.argmax(np.nan_to_num(relative[failed], nan=np.inf))]
    which = f"column {c} " if len(reason) > 1 else ""
    return f"{which}{reason[c]} (relative residual {relative[c]:.3g} after {counted(iterations[c], 'iteration')})"
