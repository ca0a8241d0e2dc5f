"""Solve one system once: the method is chosen by the kind of A. Here are the solvers that combine a factor and an iteration.

How ``"auto"`` chooses:

- A is complex or not symmetric: LU; GMRES with an incomplete factor if LU does not fit into memory.
- A has a diagonal entry that is not positive, or a negative sum of all entries: LDL^T.
- A is a graph's Laplacian, or has non-negative row sums: ParAC and conjugate gradients if Cholesky takes more than LARGE_FACTOR
  operations per entry of A and right-hand side, or if the graph has dense rows. The diagonal alone is the first preconditioner.
- Otherwise Cholesky, or conjugate gradients with the diagonal if a trial shows that these are faster
  (:mod:`meshsolve.krylov.diagonal`).
- Cholesky fails, or its factor does not reproduce known solutions: LDL^T.

A singular matrix whose rows sum to 0 is factored with a pin per component. All costs are counted in operations, so the choice
does not depend on the number of threads. Cost: that of the method, and a product with A for the residual. A trial that fails
takes up to an eighth of the time of the factor.
"""

from __future__ import annotations

import contextlib

import numpy as np

from meshsolve.api.definite import LOST, analyze, analyzed, cholesky, is_surely_indefinite
from meshsolve.api.escalation import solve_general, solve_indefinite
from meshsolve.api.factors import lu
from meshsolve.device import on_cpu, to_host
from meshsolve.errors import (
    ConvergenceWarning,
    InvalidInputError,
    MeshsolveWarning,
    NotPositiveDefiniteError,
    NotSymmetricError,
    OutOfMemoryError,
)
from meshsolve.factor import parac as _parac
from meshsolve.factor.base import SINGLE
from meshsolve.factor.cholesky import CholeskyFactor, HostFactor, Values
from meshsolve.factor.cholesky.disk import disk_engine
from meshsolve.factor.cholesky.values import System
from meshsolve.foreign import is_sparse
from meshsolve.krylov import Info
from meshsolve.krylov.cg_rules import OUTSIDE
from meshsolve.krylov.diagonal import Iterations, weight
from meshsolve.krylov.info import OUT_OF_RANGE
from meshsolve.memory import PER_ROW
from meshsolve.options import as_number, one_of, thread_count
from meshsolve.order.auto import estimated_dimension, is_scale_free
from meshsolve.order.nested import TooManyOperations
from meshsolve.report import warn, without_warnings
from meshsolve.sparse.columns import lengths
from meshsolve.sparse.constraints import (
    Pinned,
    checked,
    constraint_of,
    in_callers_numbers,
    solve_whole,
    vanish,
    without_constraint,
)
from meshsolve.sparse.matrix import Csr, as_csr, as_symmetric, is_complex
from meshsolve.sparse.places import CUDA, HOST, Host, device_of_block, place_of_factor, where
from meshsolve.sparse.sparse_rhs import solve_sparse_once
from meshsolve.types import Array, ArrayLike, Chosen, Device, Matrix, Memory, Path

LARGE_FACTOR = 8e3          # operations of Cholesky per entry of A from which ParAC and its iterations are faster
WORTH_A_TRIAL = 12e3        # the same from which the diagonal is tried for other matrices: 20 iterations take 4 to 7 %
COLUMN = 0.25               # time of the iterations for another right-hand side, relative to all of ParAC for the first
SMALL = 5_000               # rows up to which the operations of Cholesky are not counted
UNSOLVED = 0.1              # relative residual of b without its means that shows a null space larger than constants
METHODS = "auto", "cholesky", "lu", "ildl", "ilu", "parac"
ON_HOST = {"ildl": "SQMR with an incomplete factor runs", "ilu": "GMRES with an incomplete factor runs"}
GENERAL = "auto", "lu", "ilu"                               # methods that take unsymmetric matrices
PATIENCE = 50, 45           # iterations with the diagonal before a factor of ParAC, and more of them, shared by the columns. The
                            # factor and its iterations take as long as 100 to 300 for one column, and 100 for each of many.
ROUNDED = 1e-14             # relative residual of a solution up to rounding errors
BELOW_ROUNDING = "rtol is less than the rounding errors of a good solution, and b is solved"
ILL = "A is singular, badly scaled or badly conditioned, and b is solved as well as rounding allows"


def solve(A: Matrix, b: ArrayLike, method: Chosen = "auto", rtol: float = 1e-10, threads: int | None = None,
          device: Device = "auto", *, fixed: ArrayLike | None = None, pin: bool = False,
          fixed_values: ArrayLike | None = None, memory: Memory = "ram", folder: Path | None = None) -> tuple[Array, Info]:
    """Solve A x = b once, with the method that fits A.

    Parameters
    ----------
    A : (n, n) matrix of any kind
    b : (n,) or (n, k)
    method : {"auto", "cholesky", "lu", "ildl", "ilu", "parac"}
        ``"auto"`` is described in :mod:`meshsolve.api.solving`. ``"ildl"`` is SQMR with an incomplete factor, which is refined if
        that is slow. ``"ilu"`` is GMRES with an incomplete factor, also of unsymmetric matrices. ``"parac"`` is conjugate
        gradients with the factor of :func:`parac`, or with the diagonal while that is faster.
    rtol : float
        Relative residual up to which ``info.converged`` is true.
    threads : int, optional
    device : {"auto", "cpu", "cuda"}
        ``"cuda"`` for Cholesky, real LU and ParAC. ``"auto"`` uses an available GPU if A or b lies on it, and from 100,000 rows on.
    fixed : (k,) integers, one integer, or (n,) bool, optional
        Unknowns with prescribed values (Dirichlet): their rows and columns are removed, and ``info`` describes the free rows.
    pin : bool
        For singular matrices whose rows and columns sum to 0: component means of b are removed with a warning, those of x are 0.
    fixed_values : number, (len(fixed),) or (len(fixed), k), optional
        Values in the order of ``fixed``, zeros by default. Of (n,) or (n, k) values the fixed rows are used.
    memory, folder : {"ram", "disk"}, path
        ``"disk"``: as in :func:`cholesky`, with method ``"auto"`` or ``"cholesky"``, for a definite A or a Laplacian.

    Returns
    -------
    x : array of b's shape, on the GPU if b is; float64, or complex128 if A or b is complex
    info : Info
        ``.method``, ``.relative_residual`` of the worst column, ``.report`` with the steps and their seconds. If ``.singular`` is
        true, x is one of many solutions, with mean 0 on each component if the rows of A sum to 0.

    Raises
    ------
    InvalidInputError
        A is not square; b or ``fixed_values`` does not fit; a bad option; bad rows in ``fixed``, or ``pin`` with it.
    NotSymmetricError, NotPositiveDefiniteError, NotLaplacianError
        A does not have the properties that ``method`` or ``pin=True`` requires.
    SingularMatrixError
        A is singular and LU was chosen; ``"ilu"``: no incomplete factor exists; ``"ildl"``: A has no nonzero.
    OutOfMemoryError
        A or its factor is larger than the available memory. ``"auto"`` then iterates, and raises this if that does not converge.

    Warns
    -----
    ConvergenceWarning
        The relative residual stays above ``rtol``; x is the best solution found, and ``info.reason`` has the cause.
    """
    one_of(method, "method", METHODS)
    if is_sparse(b):
        return solve_sparse_once(A, b, lambda B: solve(A, B, method, rtol, threads, device, fixed=fixed, pin=pin,
                                                       fixed_values=fixed_values, memory=memory, folder=folder))
    engine = _engine_on_disk(memory, folder, method, device)
    pin = checked(fixed, pin)
    if fixed is not None or pin:
        return _solve_constrained(A, _in_double(b), method, rtol, threads, device, fixed, pin, fixed_values, engine)
    without_constraint(fixed_values)
    return _solve(A, _in_double(b), method, as_number(rtol, "rtol"), thread_count(threads), device, engine)


class Problem:
    """A x = b with checked options, factored on the host.

    Parameters
    ----------
    A : matrix of any kind
    b : (n,) or (n, k) array in double precision
    method, rtol, threads, device
        As in :func:`solve`.
    engine : DiskEngine, optional
        Where the factor lies; then the method is Cholesky.
    """

    place: Host = HOST

    def __init__(self, A, b, method, rtol, threads, device, engine=None):
        self.A, self.b, self.method, self.rtol, self.threads, self.device = A, self.reach(b), method, rtol, threads, device
        self.engine, self.auto = engine, method == "auto" and engine is None

    def solve(self):
        """(x, info) by the method that was chosen or fits A."""
        if self.method == "parac":
            return self.by_parac(as_symmetric(self.A, threads=self.threads, per_row=PER_ROW["cg"]))
        if self.method == "ildl":
            return self.by_ildl(self.A)
        if self.method == "ilu":
            return self.by_ilu()
        if self.method == "lu" or (self.auto and is_complex(self.A)):
            return self.by_lu()
        return self.by_kind()

    def by_kind(self):
        """As :meth:`by_symmetric`; by LU if ``"auto"`` and A is not symmetric, or a doubt of its symmetry leaves a residual."""
        if not self.auto:
            return self.by_symmetric(self.read_symmetric())
        x = info = None
        with contextlib.suppress(NotSymmetricError):
            M = self.read_symmetric()
            if M.doubt is None:
                return self.by_symmetric(M)
            with without_warnings(MeshsolveWarning):
                x, info = self.by_symmetric(M)
            if info.converged:
                return x, info
        general = self.by_lu()                              # outside the block, which keeps the failed objects alive
        return general if x is None or general[1].relative_residual <= info.relative_residual else (x, info)

    def by_symmetric(self, M):
        """Cholesky, ParAC or the diagonal; for ``"auto"`` another method if these fail. M: :meth:`read_symmetric`."""
        auto = self.auto
        kind = _graph_kind(M, self.threads) if auto else ""
        sums = self.row_sums(M) if kind in ("", "singular") else ()
        if kind == "singular" and not vanish(*sums):        # small diagonal entries were added to a Laplacian
            kind = ""
        if kind == "" and auto and is_surely_indefinite(M, *sums[1:], self.threads):
            return self.by_ildl(M)
        if kind == "hubs":
            return self.by_parac(M)
        pinned = kind == "singular" or kind == "" and vanish(*sums)
        F, symbolic, lacking, trial = None, None, "", Iterations(M, self.b, self.rtol, self.threads, self.place)
        try:
            _, factor, symbolic = self.analysis_or_trial(M, kind, pinned, trial)
            if factor is None:
                return self.by_parac(M) if kind else trial.outcome()
            F = factor()
        except OutOfMemoryError as e:
            if not auto:
                raise
            lacking = str(e)
        except NotPositiveDefiniteError:
            if not auto:
                raise
        if lacking:
            return self.by_parac(M) if kind else trial.without_factor(lacking)
        if auto and F is not None and not F.trial < LOST:   # pivots are positive by rounding: the solution may be meaningless
            F = None
        x, info = self.by_ildl(M, symbolic) if F is None else self.by_cholesky(F, M, pinned)
        trial.report_first(info.report, "complete factor")
        return x, info

    def analysis_or_trial(self, M, kind, pinned, trial):
        """As :meth:`analysis`; three times None if conjugate gradients are better, with a factor of the graph or with the
        diagonal, which is tried here."""
        made, columns = [], _columns(self.b)
        most = _most_operations(kind, M, columns) if self.auto else np.inf

        def count(most=np.inf):
            made.append(self.analysis(M, pinned, most))
            return made[0][0].flops

        try:
            known, exact = count(most), True
        except TooManyOperations:
            known, exact = most, False
        if exact and known <= (most if kind else WORTH_A_TRIAL / LARGE_FACTOR * most):
            return made[0]
        if kind or trial.solves_before(known, None if exact else count, columns):
            return None, None, None
        if not made:
            count()
        return made[0]

    def by_cholesky(self, F, M, pinned):
        """With the Cholesky factor F, ``pinned`` if A maps constants to 0; by L D L^T if ``"auto"`` and the null space is
        larger."""
        inside = _in_range(F, self.b) if pinned else self.b
        with without_warnings(ConvergenceWarning):          # the residual is measured
            (x, error), cause = self.corrected(F, M, F.solve(inside), pinned), ILL
        if pinned and not error <= self.rtol:
            rest = self.relative_residual(M, x, inside)
            if self.auto and rest > UNSOLVED and self.device != "cuda":
                return self.by_ildl(M)
            if rest <= self.rtol and _largest(self.b - inside) > 0.1 * self.rtol * _largest(self.b):
                cause = OUTSIDE
        return x, _direct("cholesky", error, self.rtol, F, x, cause, pinned)

    def by_lu(self):
        """With an LU factor."""
        M, lacking = self.read_general(), ""
        try:
            F = lu(self.A, threads=self.threads, device=self.place.name)
        except OutOfMemoryError as e:
            if not self.auto or self.device == "cuda":
                raise
            lacking = str(e)
        if lacking:                                         # outside the handler, which keeps the failed objects alive
            return self.by_ilu(lacking)
        with without_warnings(ConvergenceWarning):          # the residual is computed below
            x, error = self.corrected(F, M, F.solve(self.b))
        return x, _direct("lu", error, self.rtol, F, x)

    def by_ildl(self, A, symbolic=None):
        """With SQMR and L D L^T, on the host; ``symbolic`` is an analysis of A that was made for Cholesky."""
        on_cpu(self.device, ON_HOST["ildl"])
        return solve_indefinite(A, to_host(self.b), self.rtol, self.threads, symbolic)

    def by_ilu(self, cause=""):
        """With GMRES and incomplete LU, on the host; ``cause``: why there is no complete factor."""
        return solve_general(self.A, to_host(self.b), self.rtol, self.threads, cause)

    def by_parac(self, M):
        """Conjugate gradients with the diagonal while that is estimated to converge sooner, then with a factor of ParAC."""
        run, k = Iterations(M, self.b, self.rtol, self.threads, self.place), self.b.shape[1] if self.b.ndim == 2 else 1
        patience = PATIENCE[0] + PATIENCE[1] / max(k, 1)
        run.try_diagonal(lambda done, left: left() > patience)
        if not run.is_settled:
            P = _parac.parac(M, rhs=max(k, 1), threads=self.threads, device_name=self.place.name)
            run.report.merge(P.report)
            run.go_on(P)
        return run.outcome()

    def corrected(self, F, M, x, pinned=False):
        """(x, its relative residual), after a step of refinement on the host where that reduces a residual above rtol."""
        error = self.relative_residual(M, x, self.b)
        if self.place is HOST and not pinned and self.rtol < error < np.inf:
            y = x + F.solve(self.b - M.stored.to_scipy() @ x)
            better = self.relative_residual(M, y, self.b)
            x, error = (y, better) if better < error else (x, error)
        return x, error

    def relative_residual(self, M, x, b):
        """||b - A x|| / ||b|| in the 2-norm, worst column; M is A on the host, which is read only for a factor on the host."""
        left, size = self.norms(M, x, b)
        return float((left / np.where(size > 0, size, 1)).max(initial=0.0))

    # ---- work at the place of the factor --------------------------------------------------------------------------------------

    def reach(self, b):
        """b in memory that the methods can read."""
        return to_host(b)

    def read_symmetric(self):
        """A on the host as a :class:`Csr` with both triangles, after checking b; None if the host does not need it."""
        return _fitting(as_symmetric(self.A, threads=self.threads, per_row=PER_ROW["cg" if self.auto else "cholesky"]), self.b)

    def read_general(self):
        """The same for LU, real or complex."""
        dtype = np.complex128 if is_complex(self.A) else np.float64
        return _fitting(as_csr(self.A, dtype=dtype, per_row=PER_ROW["lu"], threads=self.threads), self.b)

    def row_sums(self, M):
        """(row pointers of A, sums of the rows, sums of absolute values)."""
        return M.indptr, *M.row_sums(self.threads)

    def analysis(self, M, pinned, most):
        """(the analysis for Cholesky, a function that factors, the analysis if LDL^T can use it); ``pinned`` if A maps constants
        to 0.

        Raises
        ------
        TooManyOperations
            More than ``most`` operations are estimated.
        """
        threads, constraint = self.threads, Pinned(M) if pinned else None
        free = M if constraint is None else constraint.reduce(M, threads)
        entry_bytes = 8 if self.engine in (None, HostFactor) else 0
        sym, data = analyzed(System(free, threads=threads), "auto", 0, threads, "fast", most / M.n, entry_bytes=entry_bytes), free.data
        values = Values(M.n, sym, constraint, threads, doubt=free.doubt)
        return sym, lambda: CholeskyFactor(sym, values, data, threads=threads, engine=self.engine or HostFactor), None if pinned else sym

    def norms(self, M, x, b):
        """(||b - A x||, ||b||) of each column."""
        if "c" in (M.data.dtype.kind, b.dtype.kind):
            R, B = (v.reshape(M.n, -1) for v in (b - M.stored.to_scipy() @ x, b))
            return tuple(np.hypot(lengths(v.real), lengths(v.imag)) for v in (R, B))
        B, X = (np.ascontiguousarray(v.reshape(M.n, -1), np.float64) for v in (b, x))
        return tuple(lengths(v) for v in (M.stored.residual(X, B, threads=self.threads), B))


class CudaProblem(Problem):
    """A x = b, factored on the GPU. A and b may lie on either side; A comes to the host only to choose a method."""

    place = CUDA

    def reach(self, b):
        return b

    def read_symmetric(self):
        return super().read_symmetric() if self.auto else None

    def read_general(self):
        return None

    def row_sums(self, M):
        if M is not None:
            return super().row_sums(M)
        M = CUDA.general(self.A)
        return M.indptr, *M.row_sums()

    def analysis(self, M, pinned, most):
        """As that of the host; ``most`` limits only graphs without separators."""
        if np.isfinite(most):                               # the Laplacian of a graph
            graph = Csr(M.n, M.indptr, M.indices, diagonal=True)
            if not is_scale_free(graph):
                estimated_dimension(graph, most / graph.n)
        options = {"threads": self.threads, "device": self.place.name}
        sym = analyze(self.A, **options)
        return sym, lambda: cholesky(self.A, pin=True, **options) if pinned else sym.factor(self.A, **options), None

    def norms(self, M, x, b):
        parts = 2 if b.dtype.kind == "c" else 1
        with CUDA.errors("the residual"):
            M = CUDA.general(self.A)
            x, b = (_real_columns(CUDA.bring(v), M.n) for v in (x, b))
            if b.shape[1] == 0:
                return np.empty(0), np.empty(0)
            left = M.residual(x, b)
            return tuple(np.hypot.reduce(lengths(v).reshape(parts, -1)) for v in (left, b))


PROBLEMS: dict[str, type[Problem]] = {"cpu": Problem, "cuda": CudaProblem}


def prefers_parac(M, sym):
    """True if ``"auto"`` solves the symmetric :class:`Csr` M, analyzed as ``sym``, by conjugate gradients with ParAC."""
    kind = _graph_kind(M)
    return kind == "hubs" or kind != "" and sym.flops > _most_operations(kind, M)


def _engine_on_disk(memory, folder, method, device):
    """The :class:`DiskEngine` of ``memory="disk"``, or None."""
    if one_of(memory, "memory", ("ram", "disk")) == "disk" and method not in ("auto", "cholesky"):
        raise InvalidInputError(f'memory="disk" is for Cholesky factors: use method="cholesky" or "auto", got {method!r}')
    return disk_engine(memory, folder, device)


def _solve(A, b, method, rtol, threads, device, engine=None):
    device = "cpu" if engine is not None else device
    if method in ON_HOST:
        on_cpu(device, ON_HOST[method])
    if is_complex(A):
        on_cpu(device, "systems of complex matrices are solved")
        device = "cpu"
    x, info = PROBLEMS[place_of_factor(device, A, b)](A, b, method, rtol, threads, device, engine).solve()
    info.report.facts |= {"method": info.method} | ({"singular": True} if info.singular else {})
    return where(b).bring(x), info


def _solve_constrained(A, b, method, rtol, threads, device, fixed, pin, fixed_values, engine):
    """:func:`solve` for the free rows; rows and columns in errors are those of A."""
    pin, workers = checked(fixed, pin), thread_count(threads)
    if method in GENERAL:
        dtype = np.complex128 if is_complex(A) else np.float64
        M = as_csr(A, dtype=dtype, per_row=PER_ROW["lu" if method == "lu" else "cg"], threads=workers)
    else:
        M = as_symmetric(A, threads=workers, per_row=PER_ROW["cg"])
    device = device_of_block(device, A, M.n)
    constraint = constraint_of(M, fixed, pin, symmetric=method not in GENERAL)
    block, found = constraint.reduce(M, workers).stored.to_scipy(), []

    def solve_free(B):
        with in_callers_numbers(constraint.free):
            x, info = _solve(block, _in_double(B), method, as_number(rtol, "rtol"), workers, device, engine)
        found.append(info)
        return x

    x = solve_whole(constraint.solve, M.n, b, fixed_values, solve_free, M.data.dtype.kind == "c")
    return x, found[0]


def _most_operations(kind, M, columns=1):
    """Operations up to which Cholesky is faster for a matrix of this kind; iterations take longer for many columns."""
    if not kind and M.n <= SMALL:
        return np.inf
    return LARGE_FACTOR * M.nnz * (1 + COLUMN * max(columns - 1, 0) if kind else weight(columns))


def _columns(b):
    """Number of real right-hand sides in b."""
    return (b.shape[1] if b.ndim == 2 else 1) * (2 if b.dtype.kind == "c" else 1)


def _graph_kind(M, threads=1):
    """Kind of M for ParAC: "" (not suitable, or regular and small), "regular", "singular" (a Laplacian), or "hubs"."""
    kind = _parac.graph_kind(M, threads)
    return "" if kind == "regular" and M.n <= SMALL else kind


def _in_range(F, b):
    """b without its means on the components of a singular matrix."""
    return F.in_range(b.real) + 1j * F.in_range(b.imag) if b.dtype.kind == "c" else F.in_range(b)


def _largest(v):
    """Largest absolute value in an array of the host or the GPU."""
    return float(to_host(abs(v).reshape(-1).max(keepdims=True))[0])


def _fitting(M, b):
    """The :class:`Csr` M, after checking that b fits, which is cheaper than to find out when M is factored."""
    _real_columns(b, M.n)
    return M


def _real_columns(v, n):
    """Checked (n, k) columns of v in its own memory; for a complex v the real parts, then the imaginary parts."""
    place = where(v)
    if v.dtype.kind != "c":
        return place.rhs(v, n)[0]
    xp = place.xp
    return xp.concatenate([place.rhs(xp.ascontiguousarray(part), n)[0] for part in (v.real, v.imag)], axis=1)


def _in_double(b):
    """b as an array in double precision: rounding it to single precision would limit the residual."""
    given = where(b).array(b, "b")
    return given.astype(np.result_type(given.dtype, np.float64)) if given.dtype in SINGLE else given


def _direct(method, error, rtol, F, x, cause=ILL, singular=False):
    """The :class:`Info` of a direct method; warns if the relative residual ``error`` of x is above ``rtol``."""
    solved = error <= rtol
    if not solved:
        is_lost = cause == ILL and not np.finfo(np.float64).tiny <= _largest(x) < np.inf
        cause = BELOW_ROUNDING if error <= ROUNDED else OUT_OF_RANGE if is_lost else cause
        warn(f"solve: the relative residual {error:.3g} of {method} is above rtol = {rtol:.3g}: {cause}", ConvergenceWarning)
    return Info(method, solved, 0, error, [error], "direct" if solved else cause, F.report, singular)
