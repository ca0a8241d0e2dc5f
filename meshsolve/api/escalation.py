"""Symmetric indefinite systems solved once: an incomplete factor and SQMR where that is enough, and more factor where not.

The steps: the factor that :func:`meshsolve.ildl` chooses; where SQMR slows down on an incomplete one, the complete factor if it takes
less than two more incomplete ones would; else twice a higher fill level and a smaller drop tolerance, then the complete factor, if
it fits into memory. Each goes on from the x of the one before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve.arrays import Csr, as_symmetric
from meshsolve.errors import ConvergenceWarning, OutOfMemoryError, SingularMatrixError
from meshsolve.factor.ildl import ildl
from meshsolve.krylov import Info
from meshsolve.krylov.info import CONVERGED
from meshsolve.krylov.sqmr import iterate
from meshsolve.memory import PER_ROW, ensure_memory
from meshsolve.options import counted, thread_count
from meshsolve.report import warn

PATIENCE = 100                  # iterations in which the residual has to fall ten times
LONGEST = 1000                  # iterations of one step
COMPLETE: dict[str, Any] = {"fill_level": None}
STEPS: tuple[dict[str, Any], ...] = ({}, {"fill_level": 4, "droptol": 1e-4}, {"fill_level": 8, "droptol": 1e-5}, COMPLETE)
AFFORDABLE = 4e5                # operations an entry of A of a complete factor that comes before incomplete ones of higher levels


def solve_indefinite(A, b, rtol, threads=None, analysed=None):
    """Solve A x = b for a symmetric A; ``info.reason`` and ``info.report`` tell each step.

    Parameters
    ----------
    A, b, rtol, threads
        As in :func:`meshsolve.solve`; A may be a :class:`Csr` that was found symmetric.
    analysed : Symbolic, optional
        An analysis of A in an ``"auto"`` ordering, made before A turned out not to be definite.

    Returns
    -------
    x : array of b's shape
    info : Info

    Warns
    -----
    ConvergenceWarning
        The true residual stays above ``rtol``.
    """
    x, best, told, seconds, steps = None, None, [], {}, list(STEPS)
    if isinstance(A, Csr):
        ensure_memory(PER_ROW["ildl"] * A.n, f"A with its {counted(A.n, 'row')}")
    M = A if isinstance(A, Csr) else as_symmetric(A, threads=thread_count(threads), per_row=PER_ROW["ildl"])
    while steps:
        step, foreseen = steps.pop(0), []
        try:
            K = ildl(M, threads=threads, analysed=analysed, foreseen=foreseen, **step)
        except (OutOfMemoryError, SingularMatrixError) as e:            # an incomplete factor may not overflow where the complete one does
            if best is None:
                raise
            told.append(str(e))
            continue
        y, info = iterate(M, b, K, x, rtol, 0.0, LONGEST, threads=threads, patience=PATIENCE)
        told.append(_account(K, info))
        for phase, spent in (K.report.seconds | info.report.seconds).items():        # K's solves are a part of the iteration's
            seconds[phase] = seconds.get(phase, 0.0) + spent
        if best is None or _worst(info) <= _worst(best):
            x, best = y, info
            best.report = K.report
        if best.converged or K.is_complete:
            break
        for plan in foreseen:
            analysed = plan.symbolic if plan.is_of_rows else analysed
            if plan.flops <= AFFORDABLE * M.nnz and COMPLETE in steps:
                steps.remove(COMPLETE)
                steps.insert(0, COMPLETE)
    best.report.seconds = seconds
    best.report.facts["steps_taken"] = "; ".join(told)
    reason = CONVERGED if best.converged else "; ".join(told)
    if not best.converged:
        warn(f"the system is not solved to {rtol:g}, or b is not in the range of A: {reason}", ConvergenceWarning)
    iterations = int(np.max(best.iterations, initial=0))
    singular = K.is_complete and K.inertia[2] > 0
    return x, Info("ildl", best.converged, iterations, _worst(best), best.residuals, reason, best.report, singular)


def _account(K, info):
    kind = "complete" if K.is_complete else "fill level {fill_level}, droptol {droptol:g}".format(**K.report.facts)
    return f"{kind}: {counted(np.max(info.iterations, initial=0), 'iteration')} to {_worst(info):.2g}"


def _worst(info):
    """The residual of the worst column; 0 where there is none."""
    return float(np.max(info.relative_residual, initial=0.0))
