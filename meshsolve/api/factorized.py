"""One factor for any square matrix: the drop-in for scipy.sparse.linalg.factorized."""

from __future__ import annotations

import numpy as np

from meshsolve.api.definite import LOST, analyzed, cholesky, is_surely_indefinite
from meshsolve.api.factors import lu
from meshsolve.device import DEVICES
from meshsolve.errors import MeshsolveWarning, NotPositiveDefiniteError, NotSymmetricError, SingularMatrixError
from meshsolve.factor.cholesky import CholeskyFactor, Values
from meshsolve.factor.cholesky.values import HostSystem
from meshsolve.factor.ildl import IldlFactor, ildl
from meshsolve.factor.lu import LUFactor
from meshsolve.memory import PER_ROW
from meshsolve.options import one_of, thread_count
from meshsolve.report import warn, without_warnings
from meshsolve.sparse.matrix import as_symmetric, is_complex
from meshsolve.sparse.places import place_for
from meshsolve.types import Device, Matrix

RESIDUAL = 1e-6                 # beside the right-hand side


def factorized(A: Matrix, *, device: Device = "auto", threads: int | None = None) -> CholeskyFactor | IldlFactor | LUFactor:
    """A factor of A to solve with many times; how it factors is decided by what A is.

    As :func:`scipy.sparse.linalg.factorized`, whose place it takes: ``solve = factorized(A); x = solve(b)``. What is returned is
    more than a function: it has ``solve``, ``refactor`` and ``report``, can be pickled, and takes blocks of right-hand sides.

    Parameters
    ----------
    A : (n, n) matrix of any kind, real or complex
    device : {"auto", "cpu", "cuda"}
        As in :func:`cholesky` and :func:`lu`; LDL^T factors, and those of complex matrices, are the CPU's.
    threads : int, optional
        Default: every core, or ``MESHSOLVE_NUM_THREADS``. Results do not depend on it.

    Returns
    -------
    CholeskyFactor, IldlFactor or LUFactor
        Cholesky where A is symmetric positive definite, complete LDL^T where it is symmetric otherwise, LU where it is not
        symmetric or complex: ``F.report.facts["method"]`` is ``"cholesky"``, ``"ldl"`` or ``"lu"``.

    Raises
    ------
    InvalidInputError
        A is not square, is empty, holds NaN or infinity; an unknown option.
    SingularMatrixError
        A is singular, be it in rounding: ``.index`` is a row or column where that shows, or -1. For Laplacians there is
        ``cholesky(L, pin=True)``.
    OutOfMemoryError, DeviceUnavailableError

    Warns
    -----
    MeshsolveWarning
        An unsymmetric A is so nearly singular, or so badly scaled, that solutions leave residuals. A symmetric indefinite A is so nearly
        singular that the sign of an eigenvalue is not decided.

    Notes
    -----
    Cost as for the factorization that is taken, and a solve with four right-hand sides where that is LU. A symmetric matrix that
    turns out not to be positive definite costs the part of a Cholesky factorization up to there as well, but not another ordering;
    one with an entry of the diagonal that is not positive, or with a negative sum of all entries, is seen at once.

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
            return _factor_symmetric(as_symmetric(A, threads=threads, per_row=PER_ROW["cholesky"]), threads)
        with without_warnings(MeshsolveWarning):
            return "cholesky", _definite(cholesky(A, device=device, threads=threads))
    except NotSymmetricError:
        return "lu", _tried(lu(A, device=device, threads=threads))
    except NotPositiveDefiniteError:
        return "ldl", _regular(ildl(A, fill_level=None, threads=threads))


def _factor_symmetric(M, threads):
    """Of a :class:`Csr` of the host; what was analysed for Cholesky serves LDL^T as well."""
    sym = None
    if not is_surely_indefinite(M, *M.row_sums(threads), threads):
        sym = analyzed(HostSystem(M, threads), "auto", 0, threads)
        try:
            return "cholesky", _definite(CholeskyFactor(sym, Values(M.n, sym, None, threads), M.data, threads=threads))
        except NotPositiveDefiniteError:
            pass
    return "ldl", _regular(ildl(M, fill_level=None, threads=threads, analysed=sym))


def _definite(F):
    """F, or SingularMatrixError where it does not bring back solutions that are known: rounding made its pivots positive."""
    if not F.trial < LOST:
        raise SingularMatrixError("A is singular in rounding: its Cholesky factor does not bring back solutions that are known; "
                                  "cholesky(A) keeps it, and with pin=True is for Laplacians")
    return F


def _regular(K):
    """K, or SingularMatrixError where it has pivots that are zero."""
    zeros = K.report.facts["zero_pivots"]
    if zeros:
        index = int(K.perm[np.flatnonzero(abs(K.D).sum(axis=0) == 0)[0]])
        raise SingularMatrixError(
            f"A is singular: {zeros} zero pivot{'s' if zeros > 1 else ''} of its LDL^T factor, the first in row {index}. For a "
            "Laplacian use cholesky(A, pin=True); ildl(A) solves what is consistent", index)
    K.warn_if_undecided("factorized")
    return K


def _tried(F):
    """F, or SingularMatrixError where it does not bring back a solution that is known; warns where such a one leaves a residual."""
    error, residual = F.trial()
    if not error < LOST:
        raise SingularMatrixError("A is singular in rounding: its LU factor does not bring back solutions that are known; lu(A) keeps it")
    if not residual < RESIDUAL:
        warn(f"a solution of entries about 1 leaves a residual of {residual:.1g} beside its right-hand side: A is nearly singular, or its "
             "rows and columns differ by too many orders of magnitude", MeshsolveWarning)
    return F
