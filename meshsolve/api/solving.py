"""One call for one system: the method is chosen by what the matrix is. Here live the pairs of a factor and an iteration."""

from __future__ import annotations

import numpy as np

from meshsolve.api.definite import LOST, analyze, analyzed, cholesky, is_surely_indefinite
from meshsolve.api.escalation import solve_indefinite
from meshsolve.api.factors import lu
from meshsolve.device import asarray, errors, holds, on_cpu, scalar, to_device, to_host, xp
from meshsolve.errors import ConvergenceWarning, NotPositiveDefiniteError, NotSymmetricError, OutOfMemoryError
from meshsolve.factor import parac as _parac
from meshsolve.factor.base import SINGLE
from meshsolve.factor.cholesky import CholeskyFactor, Values
from meshsolve.factor.cholesky.values import HostSystem
from meshsolve.foreign import is_sparse
from meshsolve.krylov import Info
from meshsolve.krylov.cg_rules import OUTSIDE
from meshsolve.krylov.diagonal import Iterations, weight
from meshsolve.memory import PER_ROW
from meshsolve.options import as_number, one_of, thread_count
from meshsolve.order.auto import foreseen_dimension, is_scale_free
from meshsolve.order.nested import TooManyOperations
from meshsolve.report import warn, without_warnings
from meshsolve.sparse.columns import as_array, as_device_rhs, as_rhs, device_lengths, lengths
from meshsolve.sparse.constraints import (
    Pinned,
    checked,
    constraint_of,
    in_callers_numbers,
    solve_whole,
    takes_constants_to_zero,
    vanish,
    without_constraint,
)
from meshsolve.sparse.cuda import as_device_csr, uploaded
from meshsolve.sparse.matrix import Csr, as_csr, as_symmetric, is_complex
from meshsolve.sparse.places import on_device, place_for, place_of_factor
from meshsolve.sparse.product import residual, row_sums
from meshsolve.sparse.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Chosen, Device, Matrix

LARGE_FACTOR = 8e3          # operations of Cholesky per entry of A from which ParAC and its iterations are faster
WORTH_A_TRIAL = 12e3        # the same from which the diagonal is tried where A is no Laplacian: 20 iterations take 4 to 7 % of that time
COLUMN = 0.25               # time of the iterations for one more right-hand side beside all of ParAC for the first
SMALL = 5_000               # rows up to which Cholesky is not asked what it costs
UNSOLVED = 0.1              # relative residual of b without its means that shows a null space beyond constants, as of a free elastic body
PATIENCE = 50, 45           # iterations with the diagonal alone for which no factor is made, and how many more, shared by the columns:
                            # ParAC and its iterations take as long as 100 to 300 of them for one column, and 100 for each of many
ROUNDED = 1e-14             # relative residual that a good solution may have
BELOW_ROUNDING = "rtol is less than the rounding errors of a good solution, and b is solved"
ILL = "A is singular, badly scaled or badly conditioned, and b is solved as well as rounding allows"


def solve(A: Matrix, b: ArrayLike, method: Chosen = "auto", rtol: float = 1e-10, threads: int | None = None,
          device: Device = "auto", *, fixed: ArrayLike | None = None, pin: bool = False,
          fixed_values: ArrayLike | None = None) -> tuple[Array, Info]:
    """Solve A x = b once, with the method that fits A.

    Parameters
    ----------
    A : (n, n) matrix of any kind
    b : (n,) or (n, k)
        One or several right-hand sides.
    method : {"auto", "cholesky", "lu", "ildl", "parac"}
        ``"parac"`` is conjugate gradients with :func:`parac`'s factor, or with the diagonal alone where twenty iterations show
        that a factor would take longer; A is a Laplacian or has non-negative row sums. ``"ildl"`` is SQMR with an incomplete factor where
        the complete one is large, and more factor where that is slow: ``info.report`` tells the steps. ``"auto"`` takes ParAC
        for Laplacians whose Cholesky factor would be large (3-D grids, social networks, nearest neighbours in many dimensions) beside
        the number of right-hand sides, Cholesky for other positive definite matrices, LDL^T for other symmetric ones, and LU where A is not
        symmetric. Where the Cholesky factor of a matrix that is no Laplacian would be large, conjugate gradients with the diagonal are
        tried first, ``info.method`` ``"jacobi"``: see the notes. A Laplacian, or any definite matrix whose rows all sum to 0, is
        singular: x has mean 0 on each component, and where b does not sum to 0 there, ``info`` tells the residual that is left.
    rtol : float
        Relative residual at which ``info.converged`` is true.
    threads : int, optional
    device : {"auto", "cpu", "cuda"}
        ``"cuda"``: Cholesky, LU of real matrices and ParAC on the GPU; LDL^T here on the CPU only. ``"auto"`` takes a GPU that is
        there where A or b lies on it or A has at least 100,000 rows. x lies where b does.
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Unknowns with prescribed values (Dirichlet): rows and columns of A leave the system, and ``info`` is about the free rows.
    pin : bool
        For singular matrices whose rows and columns sum to 0, such as Laplacians: means of b on the components are taken out with a
        warning, and x has mean 0 on each.
    fixed_values : number, (len(fixed),) or (len(fixed), k), optional
        Values of the unknowns in the order of ``fixed``, zeros by default. Of (n,) or (n, k) values those of the fixed rows are taken.

    Returns
    -------
    x : array of b's shape; float64, or complex128 where A or b is complex
    info : Info
        ``info.method`` says what was used, ``info.relative_residual`` how good the answer is (the worst column),
        ``info.report`` where the time went. ``info.singular`` is True where A was found to be singular, and x is one of many solutions.

    Raises
    ------
    InvalidInputError
        A is not square, or b does not fit; an unknown ``method``, a bad ``rtol``; bad rows in ``fixed``, or ``pin`` with it; values that
        do not fit.
    NotSymmetricError, NotPositiveDefiniteError, NotLaplacianError
        The method that was asked for does not take such a matrix; or ``pin=True``, and a row or column does not sum to 0.
    SingularMatrixError
        A is singular and not symmetric (``"auto"``), or singular (``"lu"``). Of ``"ildl"`` a matrix without any nonzero: others are
        solved where b is in their range, else ``info.converged`` is false.
    OutOfMemoryError
        A or what its solution takes is larger than the memory that is available. ``"auto"`` iterates where a Cholesky factor would be
        too large, for as long as it takes, and raises this where that does not converge either.

    Warns
    -----
    ConvergenceWarning
        The relative residual stays above ``rtol``; x is the best there is, and ``info.reason`` tells more.

    Notes
    -----
    Cost as for :func:`cholesky` or :func:`lu`, and a product with A for the residual; or as for :func:`parac` and :func:`cg`,
    :func:`ildl` and :func:`meshsolve.sqmr`. The diagonal is tried where Cholesky takes more than 8,000 operations for an entry of A and
    a column: every 20 iterations it is foreseen how many are left, and the factor is made where all of them would take longer than it.
    Systems for which that was in vain lose up to a tenth of the time of the factor, a few an eighth. Operations are what counts, so the
    number of threads changes nothing. ``info.report`` tells the steps, and the seconds of a trial.
    """
    one_of(method, "method", ("auto", "cholesky", "lu", "ildl", "parac"))
    if is_sparse(b):
        return solve_sparse_once(A, b, lambda B: solve(A, B, method, rtol, threads, device, fixed=fixed, pin=pin,
                                                       fixed_values=fixed_values))
    b = _in_double(b)
    if fixed is not None or pin is not False:
        return _solve_constrained(A, b, method, rtol, threads, device, fixed, pin, fixed_values)
    without_constraint(fixed_values)
    rtol, threads = as_number(rtol, "rtol"), thread_count(threads)
    place = place_for(device, A, b) if on_device(b) else place_of_factor(device, A)
    if place == "cpu" and holds(b):
        x, info = solve(A, to_host(b), method, rtol, threads, "cpu")
        return to_device(x), info
    if method == "parac":
        x, info = _solve_parac(as_symmetric(A, threads=threads, per_row=PER_ROW["cg"]), b, rtol, threads, place)
    elif method == "ildl":
        x, info = _solve_ildl(A, b, rtol, threads, device)
    elif method == "lu" or (method == "auto" and is_complex(A)):
        x, info = _solve_lu(A, b, rtol, threads, device, place)
    else:
        x, info = _solve_symmetric(A, b, method, rtol, threads, device, place)
    info.report.facts["method"] = info.method
    if info.singular:
        info.report.facts["singular"] = True
    return x, info


def _solve_constrained(A, b, method, rtol, threads, device, fixed, pin, fixed_values):
    """:func:`solve` for the free rows; rows and columns of errors are those of A."""
    pin, workers = checked(fixed, pin), thread_count(threads)
    if method in ("auto", "lu"):
        dtype = np.complex128 if is_complex(A) else np.float64
        M = as_csr(A, dtype=dtype, per_row=PER_ROW["cg" if method == "auto" else "lu"], threads=workers)
    else:
        M = as_symmetric(A, threads=workers, per_row=PER_ROW["cg"])
    place = place_for(device, A, size=M.n) if on_device(A) else device
    constraint = constraint_of(M, fixed, pin, symmetric=method not in ("auto", "lu"))
    block, found = constraint.reduce(M, workers).to_scipy(), []

    def solve_free(B):
        with in_callers_numbers(constraint.free):
            x, info = solve(block, B, method, rtol, threads, place)
        found.append(info)
        return x

    x = solve_whole(constraint.solve, M.n, b, fixed_values, solve_free, M.data.dtype.kind == "c")
    return x, found[0]


def _solve_symmetric(A, b, method, rtol, threads, device, place):
    """Cholesky, ParAC or the diagonal; or for ``"auto"`` what takes A where it turns out that these do not."""
    M, least, auto = None, PER_ROW["cg" if method == "auto" else "cholesky"], method == "auto"
    try:
        if auto or place == "cpu":
            M = _fitting(as_symmetric(A, threads=threads, per_row=least), b)
    except NotSymmetricError:
        if not auto:
            raise
    if auto and M is None:                               # out of the handler, which keeps what has failed
        return _solve_lu(A, b, rtol, threads, device, place)
    kind = _graph_kind(M, threads) if auto else ""
    sums = M.row_sums(threads) if kind == "" and M is not None else None
    if kind == "" and auto and is_surely_indefinite(M, *sums, threads):
        return _solve_ildl(M, b, rtol, threads, device)
    pinned = kind == "singular" or kind == "" and (_takes_constants_to_zero(A, threads) if sums is None else vanish(M.indptr, *sums))
    if kind == "hubs":
        return _solve_parac(M, b, rtol, threads, place)
    F, sym, lacking, trial = None, None, "", Iterations(M, b, rtol, threads, place)
    try:
        sym, factor = _analysis_or_trial(A, M, kind, pinned, trial, np.inf if not auto else _most_operations(kind, M, _columns(b)))
        if factor is None:
            return _solve_parac(M, b, rtol, threads, place) if kind else trial.outcome()
        F = factor()
    except OutOfMemoryError as e:
        if not auto:
            raise
        lacking = str(e)
    except NotPositiveDefiniteError:
        if not auto:
            raise
    if lacking:
        return _solve_parac(M, b, rtol, threads, place) if kind else trial.without_factor(lacking)
    if auto and F is not None and not F.trial < LOST:             # positive by rounding alone: solutions of any length
        F = None
    if F is None:
        x, info = _solve_ildl(M, b, rtol, threads, device, None if pinned or place == "cuda" else sym)
    else:
        x, info = _solve_factored(F, A, M, b, pinned, auto, rtol, threads, device, place)
    trial.tell_first(info.report, "complete factor")
    return x, info


def _analysis_or_trial(A, M, kind, pinned, trial, most):
    """The analysis for Cholesky and a function that factors; None for both where conjugate gradients, with a factor of the graph or
    with the diagonal, are better: what the diagonal alone can is tried here."""
    made = []

    def count(most=np.inf):
        made.append(_analysis(A, M, pinned, trial.threads, trial.place, most))
        return made[0][0].flops

    try:
        known, exact = count(most), True
    except TooManyOperations:
        known, exact = most, False
    if exact and known <= (most if kind else WORTH_A_TRIAL / LARGE_FACTOR * most):
        return made[0]
    if kind or trial.solves_before(known, None if exact else count, _columns(trial.b)):
        return None, None
    if not made:
        count()
    return made[0]


def _solve_factored(F, A, M, b, pinned, auto, rtol, threads, device, place):
    """With the Cholesky factor F, which is ``pinned`` where A takes constants to 0; by L D L^T where ``auto`` and A takes more to 0."""
    inside = _in_range(F, b) if pinned else b
    x = F.solve(inside)

    def measure(b):
        return _relative_residual(A, M, x, b, threads, place)

    residual, blame = measure(b), ILL
    if pinned and not residual <= rtol:
        rest = measure(inside)
        if auto and rest > UNSOLVED and device != "cuda":
            return _solve_ildl(M, b, rtol, threads, device)
        if rest <= rtol and _largest(b - inside) > 0.1 * rtol * _largest(b):
            blame = OUTSIDE
    return x, _direct("cholesky", residual, rtol, F, blame, pinned)


def _takes_constants_to_zero(A, threads):
    """Whether A does, which need not come to the host."""
    if not on_device(A):
        return takes_constants_to_zero(as_csr(A, threads=threads), threads)
    there = as_device_csr(A)
    return vanish(there.indptr, *(row_sums(there.indptr, there.indices, there.data, magnitudes) for magnitudes in (False, True)))


def _in_range(F, b):
    """b without the means on the components of a singular matrix."""
    return F.in_range(b.real) + 1j * F.in_range(b.imag) if b.dtype.kind == "c" else F.in_range(b)


def _largest(v):
    """The largest modulus in an array, here or on the GPU."""
    most = abs(v).max()
    return float(scalar(most.reshape(1)) if holds(v) else most)


def _fitting(M, b):
    """The :class:`Csr` M, once b is known to fit it: it is refused before M is factored."""
    if holds(b):
        _real_columns(b, M.n)
    else:
        as_rhs(b, M.n, dtype=np.complex128 if b.dtype.kind == "c" else np.float64)
    return M


def _in_double(b):
    """b as an array in double precision: its solution has the precision of b, and rounding it would spoil the residual."""
    given = asarray(b) if holds(b) else as_array(b, "b")
    return given.astype(np.result_type(given.dtype, np.float64)) if given.dtype in SINGLE else given


def _direct(method, residual, rtol, F, blame=ILL, singular=False):
    """What a direct method tells of its solution; one that misses ``rtol`` is warned of as an iteration's is."""
    solved = residual <= rtol
    if not solved:
        blame = BELOW_ROUNDING if residual <= ROUNDED else blame
        warn(f"solve: the relative residual {residual:.3g} of {method} is above rtol = {rtol:.3g}: {blame}", ConvergenceWarning)
    return Info(method, solved, 0, residual, [residual], "direct" if solved else blame, F.report, singular)


def _analysis(A, M, pinned, threads, place, most):
    """The analysis for Cholesky, and a function that factors; ``pinned`` where A takes constants to 0. ``TooManyOperations`` where more
    than ``most`` operations are foreseen, on the GPU only of graphs without separators."""
    if place == "cuda":
        if np.isfinite(most):                              # a graph's Laplacian
            graph = Csr(M.n, M.indptr, M.indices, diagonal=True)
            if not is_scale_free(graph):
                foreseen_dimension(graph, most / graph.n)
        sym = analyze(A, threads=threads, device=place)
        return sym, lambda: (cholesky(A, pin=True, device=place, threads=threads) if pinned else
                             sym.factor(A, threads=threads, device=place))
    constraint = Pinned(M) if pinned else None
    free = M if constraint is None else constraint.reduce(M, threads)
    sym, data = analyzed(HostSystem(free, threads), "auto", 0, threads, "fast", most / M.n), free.data      # for a factor that is used once
    return sym, lambda: CholeskyFactor(sym, Values(M.n, sym, constraint, threads), data, threads=threads)


def _solve_lu(A, b, rtol, threads, device, place):
    M = None
    if place != "cuda" or is_complex(A):
        M = _fitting(as_csr(A, dtype=np.complex128 if is_complex(A) else np.float64, per_row=PER_ROW["lu"], threads=threads), b)
    F = lu(A, threads=threads, device=device if is_complex(A) else place)
    with without_warnings(ConvergenceWarning):              # of what is measured here as well
        x = F.solve(b)
    return x, _direct("lu", _relative_residual(A, M, x, b, threads, F.report.facts["device"]), rtol, F)


def _solve_ildl(A, b, rtol, threads, device, analysed=None):
    on_cpu(device, "SQMR with an incomplete factor runs")
    return solve_indefinite(A, b, rtol, threads, analysed)


def prefers_parac(M, sym):
    """Whether ``method="auto"`` solves the symmetric :class:`Csr` M, analyzed as ``sym``, by conjugate gradients with ParAC."""
    kind = _graph_kind(M)
    return kind == "hubs" or kind != "" and sym.flops > _most_operations(kind, M)


def _most_operations(kind, M, columns=1):
    """Operations up to which Cholesky takes a matrix of this kind: more where iterations would have many columns to solve for."""
    if not kind and M.n <= SMALL:
        return np.inf
    return LARGE_FACTOR * M.nnz * (1 + COLUMN * max(columns - 1, 0) if kind else weight(columns))


def _columns(b):
    """How many real right-hand sides b is."""
    return (b.shape[1] if b.ndim == 2 else 1) * (2 if b.dtype.kind == "c" else 1)


def _graph_kind(M, threads=1):
    """What ParAC says of M: "" (not for it, or regular and small), "regular", "singular" (a Laplacian), or "hubs"."""
    kind = _parac.graph_kind(M, threads)
    return "" if kind == "regular" and M.n <= SMALL else kind


def _solve_parac(M, b, rtol, threads, place):
    """Conjugate gradients with the diagonal while that is foreseen to converge sooner than with a factor, then with that."""
    run, k = Iterations(M, b, rtol, threads, place), b.shape[1] if b.ndim == 2 else 1
    patience = PATIENCE[0] + PATIENCE[1] / max(k, 1)
    run.try_diagonal(lambda done, left: left() > patience)
    if not run.is_settled:
        P = _parac.parac(M, rhs=max(k, 1), threads=threads, device_name=place)
        run.report.merge(P.report)
        run.go_on(P)
    return run.outcome()


def _relative_residual(A, M, x, b, threads, place):
    """||b - A x|| / ||b|| in the 2-norm, worst column, where the factor lies; M is A on the host, which the GPU does not need."""
    left, size = _lengths_cuda(A, x, b) if place == "cuda" else _lengths_host(M, x, b, threads)
    return float((left / np.where(size > 0, size, 1)).max(initial=0.0))


def _lengths_host(M, x, b, threads):
    """(||b - A x||, ||b||) of each column."""
    if "c" in (M.data.dtype.kind, b.dtype.kind):
        R, B = (v.reshape(M.n, -1) for v in (b - M.to_scipy() @ x, b))
        return tuple(np.hypot(lengths(v.real), lengths(v.imag)) for v in (R, B))
    B, X = (np.ascontiguousarray(v.reshape(M.n, -1), np.float64) for v in (b, x))
    return tuple(lengths(v) for v in (residual(M.indptr, M.indices, M.data, X, B, threads=threads), B))


def _lengths_cuda(A, x, b):
    """(||b - A x||, ||b||) of each column; A, x and b on the GPU, or uploaded."""
    parts = 2 if b.dtype.kind == "c" else 1
    with errors("the residual"):
        M = as_device_csr(A) if on_device(A) else uploaded(as_csr(A))
        x, b = (_real_columns(to_device(v), M.n) for v in (x, b))
        if b.shape[1] == 0:
            return np.empty(0), np.empty(0)
        left = residual(M.indptr, M.indices, M.data, x, b)
        return tuple(np.hypot.reduce(device_lengths(v).reshape(parts, -1)) for v in (left, b))


def _real_columns(v, n):
    """Columns on the GPU; of complex ones the real parts, then the imaginary ones."""
    if v.dtype.kind != "c":
        return as_device_rhs(v, n)[0]
    return xp().concatenate([as_device_rhs(xp().ascontiguousarray(part), n)[0] for part in (v.real, v.imag)], axis=1)
