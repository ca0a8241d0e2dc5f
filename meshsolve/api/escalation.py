"""Solve a system once by an iteration with an incomplete factor, which is refined as long as the iteration is slow.

:func:`solve_indefinite` is for symmetric systems, by SQMR with L D L^T, :func:`solve_general` for general ones, by GMRES with LU.

Steps of SQMR: the factor that :func:`meshsolve.ildl` chooses. If SQMR is slow with an incomplete one, the complete factor, if that takes
less time than two more incomplete factors. Otherwise twice a higher fill level and a smaller drop tolerance, then the complete
factor if it fits into memory. Each step starts from the x of the previous one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve.api.factors import ilu
from meshsolve.errors import ConvergenceWarning, MeshsolveWarning, OutOfMemoryError, SingularMatrixError
from meshsolve.factor.ildl import ildl
from meshsolve.krylov import Info
from meshsolve.krylov.blocks import as_start
from meshsolve.krylov.gmres import iterate as gmres_iterate
from meshsolve.krylov.info import CONVERGED, OUT_OF_RANGE
from meshsolve.krylov.sqmr import iterate
from meshsolve.memory import PER_ROW, ensure_memory
from meshsolve.options import counted, thread_count
from meshsolve.report import Report, warn, without_warnings
from meshsolve.sparse.columns import lengths
from meshsolve.sparse.matrix import Csr, as_symmetric

PATIENCE = 100                  # iterations in which the residual must fall ten times
LONGEST = 1000                  # largest number of iterations of a step
COMPLETE: dict[str, Any] = {"fill_level": None}
STEPS: tuple[dict[str, Any], ...] = ({}, {"fill_level": 4, "droptol": 1e-4}, {"fill_level": 8, "droptol": 1e-5}, COMPLETE)
GENERAL_STEPS: tuple[dict[str, Any], ...] = ({}, {"droptol": 1e-5, "max_fill": 20}, {"droptol": 1e-8, "max_fill": 40})
MOST_NULL_VECTORS = 16          # largest number of zero pivots for which a basis of the null space is made
NULL = 1e-10                    # largest entry of A times a null vector of length 1, relative to the largest entry of A
AFFORDABLE = 4e5                # operations per entry of A up to which the complete factor precedes higher levels


def solve_indefinite(A, b, rtol, threads=None, symbolic=None):
    """Solve A x = b for a symmetric A; ``info.reason`` and ``info.report`` have the steps.

    Parameters
    ----------
    A, b, rtol, threads
        As in :func:`meshsolve.solve`; A may be a :class:`Csr` that was found symmetric.
    symbolic : Symbolic, optional
        An analysis of A in an ``"auto"`` ordering, made for a Cholesky factorization.

    Returns
    -------
    x : array of b's shape
    info : Info

    Warns
    -----
    ConvergenceWarning
        The true residual stays above ``rtol``.
    MeshsolveWarning
        A is singular to within a few rounding errors, so that x may be one of many solutions.
    """
    x, best, taken, seconds, steps = None, None, [], {}, list(STEPS)
    if isinstance(A, Csr):
        ensure_memory(PER_ROW["ildl"] * A.n, f"A with its {counted(A.n, 'row')}")
    M = A if isinstance(A, Csr) else as_symmetric(A, threads=thread_count(threads), per_row=PER_ROW["ildl"])
    while steps:
        step, too_large = steps.pop(0), []
        try:
            K = ildl(M, threads=threads, symbolic=symbolic, too_large=too_large, **step)
        except (OutOfMemoryError, SingularMatrixError) as e:            # an incomplete factor may succeed
            if best is None:
                raise
            taken.append(str(e))
            continue
        y, info = iterate(M.stored, b, K, as_start(x), rtol, 0.0, LONGEST, threads=threads, patience=PATIENCE)
        taken.append(_step_taken(K, info))
        for phase, spent in (K.report.seconds | info.report.seconds).items():        # the solves of K are a part of the iteration
            seconds[phase] = seconds.get(phase, 0.0) + spent
        if best is None or _worst(info) <= _worst(best):
            x, best = y, info
            best.report = K.report
        if best.converged or K.is_complete or OUT_OF_RANGE in np.atleast_1d(info.reason):
            break
        for plan in too_large:
            symbolic = plan.symbolic if plan.is_of_rows else symbolic
            if plan.flops <= AFFORDABLE * M.nnz and COMPLETE in steps:
                steps.remove(COMPLETE)
                steps.insert(0, COMPLETE)
    zeros = K.report.facts["zero_pivots"] if K.is_complete and not best.converged else 0
    if 0 < zeros <= MOST_NULL_VECTORS:
        x, best = _least_squares(M, b, K, rtol, threads, taken, (x, best))
    if zeros and not best.converged:
        taken.append(f"A is singular: {counted(zeros, 'zero pivot')}")
    best.report.seconds = seconds
    best.report.facts["steps_taken"] = "; ".join(taken)
    return x, _outcome(K, best, rtol, CONVERGED if best.converged else "; ".join(taken))


def solve_general(A, b, rtol, threads, cause=""):
    """Solve A x = b for any square A by GMRES with incomplete LU factors; ``info.reason`` and ``info.report`` have the steps.

    Parameters
    ----------
    A, b, rtol, threads
        As in :func:`meshsolve.solve`.
    cause : str
        The message of an OutOfMemoryError of the complete factor.

    Returns
    -------
    x : array of b's shape; complex if A or b is
    info : Info

    Raises
    ------
    OutOfMemoryError
        There is a ``cause``, and the iteration does not converge either.
    SingularMatrixError
        A is structurally singular, or each incomplete factor has a zero pivot.

    Warns
    -----
    ConvergenceWarning
        The true residual stays above ``rtol``, and there is no ``cause``.
    """
    x, best, taken, report, failed = None, None, [f"complete factor: {cause}"] if cause else [], Report(), None
    for step in GENERAL_STEPS:
        try:
            K = ilu(A, threads=threads, **step)
        except (OutOfMemoryError, SingularMatrixError) as e:            # a smaller droptol may avoid a zero pivot
            if getattr(e, "index", -1) >= 0:
                raise
            failed, taken = e, [*taken, str(e)]
            continue
        y, info = gmres_iterate(A, b, K, as_start(x), rtol, 0.0, LONGEST, threads=threads, patience=PATIENCE)
        taken.append(f"droptol {K.report.facts['droptol']:g}: {_iterations(info)}{_lost(info)}")
        for part in (K.report, info.report):
            report.merge(part)
        if best is None or _worst(info) <= _worst(best):
            x, best = y, info
        if best.converged or OUT_OF_RANGE in np.atleast_1d(info.reason):
            break
    if best is None:
        raise failed
    if cause and not best.converged:
        raise OutOfMemoryError(f"{cause}; GMRES with incomplete factors: {'; '.join(taken[1:])}")
    report.facts["steps_taken"] = "; ".join(taken)
    if not best.converged:
        warn(f"the system is not solved to {rtol:g}: {report.facts['steps_taken']}", ConvergenceWarning)
    return x, Info("ilu", best.converged, int(np.max(best.iterations, initial=0)), _worst(best), best.residuals,
                   CONVERGED if best.converged else report.facts["steps_taken"], report)


def _outcome(K, best, rtol, reason):
    """The :class:`Info` of the last factor K and of the best solution; warns if that is inexact or not unique."""
    if not best.converged:
        warn(f"the system is not solved to {rtol:g}, or b is not in the range of A: {reason}", ConvergenceWarning)
    if K.is_complete and K.report.facts["undecided_pivots"]:
        warn("A is singular to within a few rounding errors: x may be one of many solutions (info.report counts undecided_pivots)",
             MeshsolveWarning)
    iterations = int(np.max(best.iterations, initial=0))
    singular = K.is_complete and K.report.facts["zero_pivots"] > 0
    return Info("ildl", best.converged, iterations, _worst(best), best.residuals, reason, best.report, singular)


def _least_squares(M, b, K, rtol, threads, taken, found):
    """(x, info) for the least-squares solution of minimal length of a singular system if that is better than ``found``, else
    ``found``.

    b is projected onto the range of A by a basis of the null space."""
    A, B = M.to_scipy(), b.reshape(M.n, -1)
    W = np.random.default_rng(0).standard_normal((M.n, K.report.facts["zero_pivots"]))
    with without_warnings(MeshsolveWarning):
        for _ in range(2):      # the part of W that a solve with A W does not reproduce is in the null space
            W = np.linalg.qr(W - K.apply_columns(np.ascontiguousarray(A @ W)))[0]
    if not abs(A @ W).max() <= NULL * abs(M.data).max():
        return found
    inside = (B - W @ (W.T @ B)).reshape(b.shape)
    y, info = iterate(M, inside, K, None, rtol, 0.0, LONGEST, threads=threads, patience=PATIENCE)
    y = (y.reshape(M.n, -1) - W @ (W.T @ y.reshape(M.n, -1))).reshape(b.shape)
    left, own = (np.hypot(lengths(v.real), lengths(v.imag)) for v in (B - A @ y.reshape(M.n, -1), B))
    residual = left / np.where(own > 0, own, 1)
    if not info.converged or not residual.max(initial=0.0) <= _worst(found[1]):
        return found
    taken.append(f"b has a part outside the range of A, of relative size {residual.max(initial=0.0):.2g}: "
                 "least-squares solution of minimal length")
    info.converged, info.report = False, found[1].report
    info.relative_residual = residual if b.ndim == 2 else float(residual[0])
    return y, info


def _step_taken(K, info):
    kind = "complete" if K.is_complete else "fill level {fill_level}, droptol {droptol:g}".format(**K.report.facts)
    return f"{kind}: {_iterations(info)}{_lost(info)}"


def _lost(info):
    return f", {OUT_OF_RANGE}" if OUT_OF_RANGE in np.atleast_1d(info.reason) else ""


def _iterations(info):
    return f"{counted(np.max(info.iterations, initial=0), 'iteration')} to {_worst(info):.2g}"


def _worst(info):
    """The largest residual of all columns; 0 without columns."""
    return float(np.max(info.relative_residual, initial=0.0))
