"""A factor of any square matrix: a drop-in replacement for scipy.sparse.linalg.factorized."""

from __future__ import annotations

import contextlib

import numpy as np

from meshsolve.api.definite import LOST, analyzed, cholesky, is_surely_indefinite
from meshsolve.api.factors import lu
from meshsolve.device import DEVICES
from meshsolve.errors import MeshsolveWarning, NotPositiveDefiniteError, NotSymmetricError, SingularMatrixError
from meshsolve.factor.cholesky import CholeskyFactor, Values
from meshsolve.factor.cholesky.values import System
from meshsolve.factor.ildl import IldlFactor, ildl
from meshsolve.factor.lu import LUFactor
from meshsolve.memory import PER_ROW
from meshsolve.options import one_of, thread_count
from meshsolve.report import warn, without_warnings
from meshsolve.sparse.matrix import as_symmetric, is_complex
from meshsolve.sparse.places import place_for
from meshsolve.types import Device, Matrix

RESIDUAL = 1e-6                 # residual of a known LU solution, relative to its right-hand side, above which a warning is given


def factorized(A: Matrix, *, device: Device = "auto", threads: int | None = None) -> CholeskyFactor | IldlFactor | LUFactor:
    """Factor A for many solves, with the factorization that fits A.

    A replacement of :func:`scipy.sparse.linalg.factorized`: ``solve = factorized(A); x = solve(b)``. The result also has
    ``solve``, ``refactor`` and ``report``, can be pickled, and accepts blocks of right-hand sides.

    Parameters
    ----------
    A : (n, n) matrix of any kind, real or complex
    device : {"auto", "cpu", "cuda"}
        As in :func:`cholesky` and :func:`lu`; LDL^T factors, and factors of complex matrices, are made on the host.
    threads : int, optional

    Returns
    -------
    CholeskyFactor, IldlFactor or LUFactor
        Cholesky if A is symmetric positive definite, complete LDL^T if it is symmetric otherwise, LU if it is complex or not
        symmetric: ``F.report.facts["method"]`` is ``"cholesky"``, ``"ldl"`` or ``"lu"``.

    Raises
    ------
    InvalidInputError
        A is not square, is empty, holds NaN or infinity; an unknown option.
    SingularMatrixError
        A is singular, exactly or to working precision: ``.index`` is a row or column involved, or -1. For Laplacians use
        ``cholesky(L, pin=True)``.
    OutOfMemoryError, DeviceUnavailableError

    Warns
    -----
    MeshsolveWarning
        An unsymmetric A is so nearly singular, or so badly scaled, that solutions leave residuals. Or a symmetric indefinite A is
        so nearly singular that the sign of an eigenvalue is uncertain.

    Notes
    -----
    Cost: that of the factorization, for LU also a solve with four right-hand sides. A symmetric matrix that is not positive
    definite also costs a part of a Cholesky factorization, but no second ordering. That part is skipped if a diagonal entry is
    not positive or the sum of all entries is negative.

    Examples
    --------
    >>> import meshsolve as ms
    >>> solve = ms.factorized([[0.0, 2.0], [2.0, 0.0]])
    >>> solve([2.0, 4.0]).tolist(), solve.report.facts["method"]
    ([2.0, 1.0], 'ldl')
    """
    method, F = _factor(A, device, threads)
    F.report.facts["method"] = method
    return F


def _factor(A, device, threads):
    if is_complex(A):
        one_of(device, "device", DEVICES)
        return "lu", _tried(lu(A, device="cpu", threads=threads))
    try:
        if place_for(device, A) == "cpu":
            threads = thread_count(threads)
            M = as_symmetric(A, threads=threads, per_row=PER_ROW["cholesky"])
            with without_warnings(MeshsolveWarning) if M.doubt else contextlib.nullcontext():
                return _factor_symmetric(M, threads)
        with without_warnings(MeshsolveWarning):
            return "cholesky", _definite(cholesky(A, device=device, threads=threads))
    except NotSymmetricError:
        pass
    except NotPositiveDefiniteError:
        with contextlib.suppress(NotSymmetricError):
            return "ldl", _regular(ildl(A, fill_level=None, threads=threads))
    return "lu", _tried(lu(A, device=device, threads=threads))          # outside the handlers, which keep failed factors alive


def _factor_symmetric(M, threads):
    """(method, factor) of a :class:`Csr` on the host; LDL^T reuses the analysis for Cholesky."""
    sym = None
    if not is_surely_indefinite(M, *M.row_sums(threads), threads):
        sym = analyzed(System(M, threads=threads), "auto", 0, threads, entry_bytes=8)
        try:
            return "cholesky", _definite(CholeskyFactor(sym, Values(M.n, sym, None, threads, doubt=M.doubt), M.data, threads=threads))
        except NotPositiveDefiniteError:
            pass
    return "ldl", _regular(ildl(M, fill_level=None, threads=threads, symbolic=sym))


def _definite(F):
    """F, or SingularMatrixError if it does not reproduce known solutions: rounding made its pivots positive.

    NotSymmetricError if the skew part of A changes solutions by more than rounding.
    """
    _require_symmetric(F)
    if not F.trial < LOST:
        raise SingularMatrixError("A is singular to working precision: its Cholesky factor does not reproduce known solutions; "
                                  "cholesky(A) returns it with a warning, cholesky(A, pin=True) solves Laplacians")
    return F


def _regular(K):
    """K, or SingularMatrixError if it has zero pivots; NotSymmetricError as :func:`_definite`."""
    _require_symmetric(K)
    zeros = K.report.facts["zero_pivots"]
    if zeros:
        index = int(K.perm[np.flatnonzero(abs(K.D).sum(axis=0) == 0)[0]])
        raise SingularMatrixError(
            f"A is singular: {zeros} zero pivot{'s' if zeros > 1 else ''} of its LDL^T factor, the first in row {index}. For a "
            "Laplacian use cholesky(A, pin=True), for other consistent systems ildl(A)", index)
    K.warn_if_undecided("factorized")
    return K


def _require_symmetric(F):
    if F.skew:
        raise NotSymmetricError(f"A is not symmetric: solutions of its symmetric part leave residuals of {F.skew:.1g} relative to b")


def _tried(F):
    """F, or SingularMatrixError if it does not reproduce a known solution; warns if that solution leaves a residual."""
    error, residual = F.trial()
    if not error < LOST:
        raise SingularMatrixError("A is singular to working precision: its LU factor does not reproduce known solutions; "
                                  "lu(A) returns it")
    if not residual < RESIDUAL:
        warn(f"a solution of entries about 1 leaves a residual of {residual:.1g} relative to its right-hand side: A is nearly "
             "singular, or its rows and columns differ by too many orders of magnitude", MeshsolveWarning)
    return F
