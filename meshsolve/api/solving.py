"""One call for one system: the method is chosen by what the matrix is. Here live the pairs of a factor and an iteration."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve.api.definite import analyzed, cholesky
from meshsolve.api.escalation import solve_indefinite
from meshsolve.api.factors import lu
from meshsolve.arrays import as_array, as_csr, as_number, as_symmetric, is_complex, one_of
from meshsolve.errors import ConvergenceWarning, NotPositiveDefiniteError, NotSymmetricError
from meshsolve.factor import parac as _parac
from meshsolve.factor.cholesky import CholeskyFactor, Values
from meshsolve.krylov import Info, cg
from meshsolve.report import Report
from meshsolve.types import Array, ArrayLike, Chosen, Matrix

LARGE_FACTOR = 2e4          # operations of Cholesky per entry of A from which ParAC and its iterations are faster
SMALL = 20_000              # rows up to which Cholesky is not asked what it costs
PRECHECK, GAIN = 20, 1e4    # iterations with the diagonal alone, and the gain that makes a factor needless


def solve(A: Matrix, b: ArrayLike, method: Chosen = "auto", rtol: float = 1e-10, threads: int | None = None) -> tuple[Array,
          Info]:
    """Solve A x = b once, with the method that fits A.

    Parameters
    ----------
    A : (n, n) matrix of any kind
    b : (n,) or (n, k)
        One or several right-hand sides.
    method : {"auto", "cholesky", "lu", "ildl", "parac"}
        ``"parac"`` is conjugate gradients with :func:`parac`'s factor, or with the diagonal alone where twenty iterations show
        that it is good enough; A is a Laplacian or has non-negative row sums. ``"ildl"`` is SQMR with an incomplete factor where
        the complete one is large, and more factor where that is slow: ``info.report`` tells the steps. ``"auto"`` takes ParAC
        for Laplacians whose Cholesky factor would be large (3-D grids, social networks, anything with hubs), Cholesky for other
        positive definite matrices, LDL^T for other symmetric ones, and LU where A is not symmetric. A Laplacian is singular: b
        has to sum to 0 on each component, x has mean 0 there.
    rtol : float
        Relative residual at which ``info.converged`` is true.
    threads : int, optional

    Returns
    -------
    x : array of b's shape
    info : Info
        ``info.method`` says what was used, ``info.relative_residual`` how good the answer is (the worst column),
        ``info.report`` where the time went.

    Raises
    ------
    InvalidInputError
        A is not square, or b does not fit; an unknown ``method``, a bad ``rtol``.
    NotSymmetricError, NotPositiveDefiniteError, NotLaplacianError
        The method that was asked for does not take such a matrix.
    SingularMatrixError
        A is singular and not symmetric (``"auto"``), or singular (``"lu"``). Of ``"ildl"`` a matrix without any nonzero: others are
        solved where b is in their range, else ``info.converged`` is false.

    Warns
    -----
    ConvergenceWarning
        The iteration stopped before ``rtol``; x is its best iterate.

    Notes
    -----
    Cost as for :func:`cholesky` or :func:`lu`, and a product with A for the residual; or as for :func:`parac` and :func:`cg`,
    :func:`ildl` and :func:`meshsolve.sqmr`.
    """
    one_of(method, "method", ("auto", "cholesky", "lu", "ildl", "parac"))
    rtol = as_number(rtol, "rtol")
    if method == "parac":
        return _solve_parac(as_symmetric(A), b, rtol, threads)
    if method == "ildl":
        return solve_indefinite(A, b, rtol, threads)
    if method == "lu" or (method == "auto" and is_complex(A)):
        return _solve_lu(A, b, rtol, threads)
    try:
        M = as_symmetric(A)
        kind = "" if method == "cholesky" else _graph_kind(M)
        sym: Any = None if kind == "hubs" else analyzed(M, "auto", 0, threads)
        if kind == "hubs" or _too_large(kind, sym, M):
            return _solve_parac(M, b, rtol, threads)
        F = cholesky(M.to_scipy(), pin=True, device="cpu", threads=threads) if kind == "singular" else CholeskyFactor(
            sym, Values(M.n, sym.matrix_pattern, None, "cpu"), M.data, threads=threads)
    except (NotSymmetricError, NotPositiveDefiniteError) as e:
        if method == "cholesky":
            raise
        return _solve_lu(A, b, rtol, threads) if isinstance(e, NotSymmetricError) else solve_indefinite(A, b, rtol, threads)
    x = F.solve(b)
    residual = _relative_residual(M, x, as_array(b, "b"))
    return x, Info("cholesky", residual <= rtol, 0, residual, [residual], "direct", F.report)


def _solve_lu(A, b, rtol, threads):
    F = lu(A, threads=threads)
    x = F.solve(b)
    residual = _relative_residual(as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64), x, as_array(b, "b"))
    return x, Info("lu", residual <= rtol, 0, residual, [residual], "direct", F.report)


def prefers_parac(M, sym):
    """Whether ``method="auto"`` solves the symmetric :class:`Csr` M, analyzed as ``sym``, by conjugate gradients with ParAC."""
    kind = _graph_kind(M)
    return kind == "hubs" or _too_large(kind, sym, M)


def _too_large(kind, sym, M):
    return bool(kind) and sym.flops > LARGE_FACTOR * M.nnz


def _graph_kind(M):
    """What ParAC says of M: "" (not for it, or regular and small), "regular", "singular" (a Laplacian), or "hubs"."""
    kind = _parac.graph_kind(M)
    return "" if kind == "regular" and M.n <= SMALL else kind


def _solve_parac(M, b, rtol, threads):
    """Conjugate gradients with the diagonal if that converges at once, else with a factor."""
    report, A, k = Report(), M.to_scipy(), np.shape(b)[1] if np.ndim(b) == 2 else 1
    diagonal = A.diagonal()
    jacobi = spla.aslinearoperator(sp.diags_array(np.divide(1.0, diagonal, out=np.ones(M.n), where=diagonal > 0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        x, info = cg(A, b, M=jacobi, rtol=rtol, maxiter=PRECHECK, threads=threads)
    report.merge(info.report)
    needless = np.max(info.relative_residual, initial=0.0) <= 1 / GAIN
    if not info.converged:
        P = jacobi if needless else _parac.parac(M, rhs=max(k, 1), threads=threads)
        if not needless:
            report.merge(P.report)
        x, info = cg(A, b, M=P, x0=x, rtol=rtol, threads=threads)
        report.merge(info.report)
    worst = float(np.max(info.relative_residual, initial=0.0))
    reason = info.reason if isinstance(info.reason, str) else "; ".join(sorted(set(info.reason)))
    method = "parac" if report.facts["nnz_L"] else "jacobi"
    return x, Info(method, info.converged, int(np.max(info.iterations, initial=0)), worst, info.residuals, reason, report)


def _relative_residual(M, x, b):
    """||b - A x|| / ||b|| in the 2-norm, worst column."""
    b = b.astype(np.result_type(b.dtype, np.float64))          # half precision would overflow
    x, b = (v[:, None] if v.ndim == 1 else v for v in (x, b))
    norms = np.linalg.norm(b, axis=0)
    return float((np.linalg.norm(b - M.to_scipy() @ x, axis=0) / np.where(norms > 0, norms, 1)).max(initial=0.0))
