"""L D L^T factorization of symmetric indefinite matrices with pivots of one and two rows, complete or incomplete.

    K = ildl(A);  x, info = sqmr(A, b, M=K)          # K.L K.D K.L^T is (S A S)[perm][:, perm], S = diag(K.scale)

The driver reads in this order: scaling and pairs of rows by a matching, choice between complete and incomplete, factorization.
Sources: Duff and Pralet 2005 (matching); Duff and Reid 1983 (complete); Thuerck et al. 2018 (incomplete).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from meshsolve import _core, device, order
from meshsolve.errors import InvalidInputError, MeshsolveWarning, SingularMatrixError
from meshsolve.factor.base import Preconditioner, reciprocal_condition
from meshsolve.factor.ildl.batch import STALE, Batched
from meshsolve.factor.ildl.incomplete import Choices, IncompleteCore, block_statistics, tiling
from meshsolve.factor.ildl.incomplete_cuda import IncompleteCoreCuda
from meshsolve.factor.ldlt.certainty import has_undecided_sign
from meshsolve.factor.ldlt.complete import CompleteCore, slogdet_of
from meshsolve.factor.ldlt.complete_cuda import CompleteCoreCuda
from meshsolve.factor.ldlt.planning import Findings, complete_plan, matching_and_findings, rescale
from meshsolve.factor.ldlt.residual import ENOUGH, OUTSIDE, ROUNDING, STEPS, TARGET, Residual
from meshsolve.factor.matching import symmetric_pairs
from meshsolve.factor.sharing import changes, reads, reads_in_turn
from meshsolve.factor.symbolic.location import location_of_analysis
from meshsolve.memory import PER_ROW
from meshsolve.options import as_integer, as_number, is_auto, one_of, storage_type, thread_count
from meshsolve.order.auto import dense_end
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import lengths, read_only
from meshsolve.sparse.matrix import Csr, as_symmetric
from meshsolve.sparse.places import HOST, PLACES, place_for
from meshsolve.sparse.refine import refine
from meshsolve.types import Array, ArrayLike, Matrix, Sparse

__all__ = ["IldlFactor", "blocks", "ildl"]

PIVOTING = ("auto", "static", "bunch-kaufman", "rook")
BLOCKING = ("auto", "BR", "RB", "none", "subtree")
FEW_NONZEROS = 20               # nonzeros of a complete factor per nonzero of tril(A) up to which it is chosen,
FEW_FLOPS = 5e9                 # operations up to which it is chosen in any case: they take less time than an iteration that fails,
FLOPS_PER_ENTRY = 4e4           # or operations per entry of tril(A)
LARGEST_TILE = 32


@dataclass(eq=False)
class Numeric:
    """A scaled matrix and properties of its factor. It is replaced as a whole.

    Attributes
    ----------
    scale : (n,) float64
        Diagonal of S.
    scaled : (nnz,) float64
        Values of S A S.
    residual : Residual
    extracted : (perm, L, D), after the first access
    is_undecided : bool, after the first access
        True: rounding may have changed the sign of an eigenvalue.
    """

    scale: np.ndarray
    scaled: np.ndarray
    residual: Residual
    extracted: tuple | None = None
    is_undecided: bool | None = None

    def __setstate__(self, state):
        vars(self).update(state)
        self.scale = read_only(self.scale)                  # pickles do not keep the flag


class IldlFactor(Batched, Preconditioner):
    """``L @ D @ L.T`` = ``(S A S)[perm][:, perm]`` with S = diag(scale), exactly or nearly; ``K @ r`` applies its inverse.

    Made by :func:`meshsolve.ildl`. A symmetric operator, and the preconditioner ``M=`` of :func:`meshsolve.sqmr`. If the factor is
    complete, ``K.solve(b)`` is the solution. In double precision it is refined in at most two steps if its backward error is above
    1e-13. A warning says that A is singular and b not in its range. Several threads may apply a factor at once; a refactorization
    meanwhile raises ``FactorInUseError``. It can be pickled and copied; the copy repeats the numeric phase.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the row of A that was eliminated k-th.
    scale : (n,) float64
        Scaling by a maximum product matching: entries of S A S are at most 1 in absolute value.
    inertia : (int, int, int)
        Numbers of positive, negative and zero eigenvalues of D. They are those of A if the factor is complete. An eigenvalue counts as
        zero if A is singular to within the rounding errors of its entries. A ``MeshsolveWarning`` says that the sign of one is not
        decided; ``report.facts["undecided_pivots"]`` counts pivots near zero.
    structural_rank : int
        Structural rank of the first matrix; a ``refactor`` does not compute it again.
    is_complete : bool
    on_device : bool
        True: the factor lies on the GPU. ``L``, ``D``, ``perm`` and ``scale`` are numpy arrays all the same.
    nnz : int
        Nonzeros of L, diagonal included.
    report : Report
        Seconds per phase (``matching``, ``order``, ``symbolic``, ``numeric``, ``solve``), sizes, perturbed pivots, choices. On
        several threads matching and scaling run at the same time as ordering and analysis; ``matching`` is the time that they add.
    """

    def __init__(self, matrix, pairs, core, report, dtype, lower=False, rescaled=None, was_chosen=False):
        super().__init__(matrix.n, np.float64)
        self._warns = was_chosen and core.kind != "complete"        # the caller did not choose an incomplete factor
        self.storage, self._lower = np.dtype(dtype), bool(lower)
        self.report, self.structural_rank, self._matched_scale = report, pairs.rank, pairs.scale
        self._pattern, self._core = Csr(matrix.n, matrix.indptr, matrix.indices), core
        self._spread = np.inf                                # ratio of row sizes, from the first run
        self._spread = self._run(matrix.data, rescaled)

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    @changes
    def refactor(self, A: Matrix) -> IldlFactor:
        """Factor another matrix inside the pattern of A. Matching, ordering and the pattern of the factor stay; pivots are chosen again.

        The scaling stays as well, unless the sizes of rows now differ by many orders of magnitude.

        Parameters
        ----------
        A : (n, n) symmetric matrix of any kind
            Missing entries are zeros. With ``lower=True`` only the lower triangle is read.

        Returns
        -------
        IldlFactor
            This factor.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the pattern: ``.row``, ``.column``.
        SingularMatrixError
            A has no nonzero. After any error the earlier factor is restored.
        FactorInUseError
            Another call uses this factor.
        OutOfMemoryError
            If there is not even memory to restore the earlier factor, it is lost, and solves raise this until the next refactorization.
        """
        (data, doubt), before = self._within(A), self._numeric
        _require_nonzero(data)
        self._run(data)
        return self.settled(doubt, before)

    @reads
    def __getstate__(self):
        """Return the scaled matrix, from which the factor is computed again with the same bits."""
        return super().__getstate__() | {"_numeric": replace(self._numeric, extracted=None)}

    def __setstate__(self, state):
        super().__setstate__(state)
        read_only(self.scale)
        with self.report.phase("numeric"):
            self._core.factor(self._numeric.scaled, self.scale)

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, b: ArrayLike, out: Array | None = None) -> Array:
        if self._warns:
            warn('K.solve(b) is only an approximation: fill_level="auto" chose an incomplete factor, because the complete one is large. '
                 'Use ms.solve(A, b, method="ildl"), ms.sqmr(A, b, M=K), or a factor with fill_level=None', MeshsolveWarning)
        return super().solve(b, out)

    solve.__doc__ = f"""{Preconditioner.solve.__doc__}
        Warns
        -----
        MeshsolveWarning
            The factor is incomplete because of ``fill_level="auto"``.
        """

    @reads
    def apply_on_device(self, block: Array) -> Array:
        """Apply the inverse to a C contiguous (n, k) float64 block on the GPU; returns a new block. Does not wait for the GPU."""
        with self._turn():
            return self._core.apply_device(block)

    @reads
    def check_device(self) -> None:
        """Wait for the GPU, and raise if a solve on it has failed."""
        with self._turn():
            self._core.check()

    @reads
    def apply_columns(self, columns: Array, out: Array | None = None) -> Array:
        """Apply the inverse to ``columns``, an (n, k) float64 array of any strides; the result is C contiguous, or ``out``."""
        with self._turn():
            return self._applied(columns, np.empty(columns.shape) if out is None else out)

    # ---- properties of the factor ---------------------------------------------------------------------------------------

    @property
    def scale(self) -> np.ndarray:
        return self._numeric.scale

    @property
    def on_device(self) -> bool:
        return self._place != HOST.name

    @property
    def is_complete(self) -> bool:
        return self._core.kind == "complete"

    @property
    @reads_in_turn
    def inertia(self) -> tuple[int, int, int]:
        self.warn_if_undecided("inertia")
        return tuple(self._core.inertia)

    @property
    def is_undecided(self) -> bool:
        """True if rounding errors may have changed the sign of an eigenvalue. Read ``inertia`` first: it decides."""
        return bool(self._numeric.is_undecided)

    @reads_in_turn
    def warn_if_undecided(self, what: str) -> None:
        """Warn if rounding errors may have changed the sign of an eigenvalue; ``what`` begins the message."""
        if not self.is_complete:
            return
        now = self._numeric
        if now.is_undecided is None:
            now.is_undecided = bool(self.report.facts["undecided_pivots"]) or not self._core.inertia[2] and has_undecided_sign(
                now.residual, self._solved_once, self.scale, np.finfo(self.storage).eps, PLACES[self._place])
        if now.is_undecided:
            warn(f"{what}: the sign of an eigenvalue is not decided. A is singular to within a few rounding errors, and a pivot near zero "
                 "may be zero or have the other sign. Regularize A, for example by A + 1e-10 D with the expected signs in D",
                 MeshsolveWarning)

    @reads_in_turn
    def rcond(self) -> float:
        """Estimate of 1 / (||A||_1 ||A^-1||_1) by a few solves (Higham and Tisseur 2000), between 0 and 1.

        Raises
        ------
        InvalidInputError
            The factor is incomplete.
        """
        if not self.is_complete:
            raise InvalidInputError("the condition of A needs a complete factor. Make one with fill_level=None")
        if self._core.inertia[2]:
            return 0.0

        def solve(B):
            return device.to_host(self._solved_once(self._bring(B)))

        return reciprocal_condition(self._numeric.residual.norm, solve, solve, self.shape[0])

    @property
    def nnz(self) -> int:
        return self._core.nnz

    @property
    def perm(self) -> np.ndarray:
        return read_only(self._parts()[0])

    @property
    def L(self) -> Sparse:
        """The unit lower triangular factor as a csc_array with sorted rows, made at the first call. O(nnz)."""
        return self._parts()[1]

    @property
    def D(self) -> Sparse:
        """The block diagonal factor, blocks of one and two rows, as a csc_array."""
        return self._parts()[2]

    @reads_in_turn
    def slogdet(self) -> tuple[float, float]:
        """(sign, logabsdet) of A, as :func:`numpy.linalg.slogdet` returns them; (0.0, -inf) if A is singular. O(nnz).

        Raises
        ------
        InvalidInputError
            The factor is incomplete: its determinant is not that of A.
        """
        if not self.is_complete:
            raise InvalidInputError("the determinant of A needs a complete factor. Make one with fill_level=None")
        self.warn_if_undecided("slogdet")
        sign, logabsdet = slogdet_of(self.D.diagonal(), self.D.diagonal(-1))
        return sign, logabsdet - 2 * float(np.log(self.scale).sum())

    # ---- helpers --------------------------------------------------------------------------------------------------------

    @property
    def _threads(self):
        return self.report.facts["threads"]

    def _run(self, data, rescaled=None):
        """Scale the values ``data``, unless ``rescaled`` has them, and factor. Returns the ratio of row sizes as a power of two."""
        with self.report.phase("numeric"):
            scale, scaled, spread = self._rescaled(data, self._matched_scale) if rescaled is None else rescaled
            if spread > self._spread + STALE:               # with the old scaling pivots would vanish next to large rows
                M = Csr(self._pattern.n, self._pattern.indptr, self._pattern.indices, data)
                scale, scaled, _ = self._rescaled(data, symmetric_pairs(M, threads=self._threads).scale)
            now = Numeric(read_only(scale), scaled, Residual(self._pattern, scaled, scale, self._threads, self._place))
            before = self._core.changes
            try:
                self._core.factor(scaled, scale)
            finally:
                if self._core.changes != before:            # Ctrl-C may arrive after the core has finished
                    self._numeric = now
        self.report.facts.pop("refinement_steps", None)
        self.report.facts.update(self._core.facts())
        return spread

    def _rescaled(self, data, scale):
        return rescale(self._pattern, data, scale, self.is_complete, self._threads)

    def _operate(self, b):
        return super().solve(b)

    def _applied(self, columns, out):
        with self.report.phase("solve"):
            if columns.shape[1]:
                self._core.solve(self.scale, columns, out)
        return out

    def _checked_columns(self, columns):
        """As :meth:`apply_columns`, for solutions: refined if necessary. Warns if A is singular and b not in its range. Iterations measure
        residuals themselves."""
        return self._checked(columns, self._applied(columns, np.empty(columns.shape)), lambda r: self._applied(r, np.empty(r.shape)))

    def _checked_on_device(self, columns):
        with device.errors("the solve"):
            x = super()._checked_on_device(columns)
            return self._checked(columns, x, super()._checked_on_device)

    def _checked(self, columns, x, solve):
        if self.is_complete and columns.shape[1]:
            if self.storage == np.float64:
                x = self._refined(columns, x, solve)
            if self._core.inertia[2]:
                self._warn_if_outside_range(*self._numeric.residual.scaled(x, columns))
        return x

    def _refined(self, columns, x, solve):
        """Measure and refine each solution. A small error of one solution is no bound for the next, whose large entries may be in other
        rows. Rows of A may differ by decades, and pivots are chosen in the scaled matrix."""
        found = refine(self._numeric.residual, columns, x, solve, ENOUGH, TARGET, STEPS)
        self.report.facts["refinement_steps"] = found.steps
        return found.x

    def _warn_if_outside_range(self, B, X, R):
        """Warn if the residual is too large for rounding, in the scaled system, whose entries are at most 1."""
        left, own, x = map(lengths, (R, B, X))
        if (left > OUTSIDE * own + ROUNDING * np.finfo(self.storage).eps * x).any():
            warn("b is not in the range of the singular matrix (K.inertia counts its zero eigenvalues): A x differs from b",
                 MeshsolveWarning)

    @property
    def _place(self):
        return self._core.place

    def _solved_once(self, B):
        """A solve without refinement, on the device of the factor."""
        with self.report.phase("solve"):
            return self._core.solved(self.scale, B)

    @reads
    def _parts(self):
        now = self._numeric
        if now.extracted is None:
            now.extracted = self._core.extract()
        return now.extracted


def ildl(A, fill_level="auto", droptol="auto", ordering="auto", blocking="auto", tile_size="auto", pivoting="auto", *,
         max_fill="auto", pairs=True, dtype=np.float64, threads=None, lower=False, device_name="cpu", symbolic=None, too_large=None):
    """Factor a symmetric indefinite matrix; see :func:`meshsolve.ildl`.

    Parameters
    ----------
    A : matrix, or a Csr that is known to be symmetric
    symbolic : Symbolic, optional
        Analysis of the pattern of A in an ``"auto"`` ordering that was made for another factor.
    too_large : list, optional
        Receives the plan of the complete factor if that was analyzed and found too large. If the plan ``.is_of_rows``, its analysis
        serves as ``symbolic`` of a later call.
    """
    threads = thread_count(threads)
    choices = _choices(fill_level, droptol, blocking, tile_size, pivoting, max_fill, dtype)
    M = A if isinstance(A, Csr) else as_symmetric(A, lower=lower, threads=threads, per_row=PER_ROW["ildl"])
    place = "cpu" if fill_level is None and is_auto(device_name) else place_for(device_name, A, size=M.n)
    cores = CORES[place]
    complete = CORES["cpu"].complete if is_auto(device_name) else cores.complete      # on the GPU only on request
    where = location_of_analysis(M.n, PLACES[complete.place])
    choices = replace(choices, blocking=choices.blocking or cores.blocking)
    _require_nonzero(M.data)
    M = Csr(M.n, M.indptr, M.indices.copy(), M.data, doubt=M.doubt)            # the caller may change the index array later
    ordering = ordering if isinstance(ordering, str) else order.resolve(ordering, Csr(M.n, M.indptr, M.indices, diagonal=True))
    report = Report(threads=threads, nnz_A=M.nnz)
    _core.keep_free_memory(M.nnz, threads)
    is_counted = fill_level is None or (is_auto(fill_level) and not _is_far_too_large(M, report))          # the complete factor is
    with where.place.errors("the analysis"):
        early = ordering if is_counted and symbolic is None else None
        matched, found = matching_and_findings(M, pairs, early, report, threads, where.place)
    if symbolic is not None:
        found, symbolic.matrix_pattern = Findings(symbolic.ordering, symbolic), Csr(M.n, M.indptr, M.indices)   # without that factor's tree
        if is_counted:
            report.merge(symbolic.report)
            symbolic.report.seconds = {}                    # reported once, though several factors may use the analysis
    report.facts["structural_rank"] = matched.rank
    core = rescaled = None
    if is_counted:
        with where.place.errors("the analysis"):
            plan = complete_plan(M, matched, ordering, report, threads, np.inf if fill_level is None else _bounds(M)[0], found, where.place)
        report.facts.update(where.facts)
        core = _complete(M, plan, fill_level is None, report, choices, threads, complete)
        if core is None and too_large is not None:
            plan.symbolic.report.seconds = {}                   # they are in this report
            too_large.append(plan)
        rescaled = found.rescaled if found is not None and core is not None else None
    found = None                                            # frees an analysis that is not needed before the factor takes memory
    if core is None:
        with report.phase("order"):
            ordering = "amd" if is_auto(ordering) else ordering
            tiles = tiling(matched, choices.blocking, choices.tile_size, ordering, threads)
        report.facts["ordering"] = tiles.ordering
        with report.phase("symbolic"):
            core = cores.incomplete(M, tiles, choices, threads)
    report.facts["mode"] = core.kind
    return IldlFactor(M, matched, core, report, choices.dtype, lower, rescaled, is_auto(fill_level)).settled(M.doubt)


class Cores(NamedTuple):
    """The factors of one device, and the blocking for tiles of several rows that suits it."""

    complete: type
    incomplete: type
    blocking: str


CORES = {"cpu": Cores(CompleteCore, IncompleteCore, "RB"),                      # solves on the CPU are bound by the number of entries,
         "cuda": Cores(CompleteCoreCuda, IncompleteCoreCuda, "subtree")}        # on the GPU by the number of level sets


def blocks(A, tile_size=LARGEST_TILE, threads=None):
    """Return the block statistics of a symmetric matrix as a list, see :func:`meshsolve.factor.ildl.incomplete.block_statistics`."""
    threads, tile_size = thread_count(threads), as_integer(tile_size, "tile_size", 2, LARGEST_TILE)
    M = as_symmetric(A, threads=threads)
    _require_nonzero(M.data)
    return list(block_statistics(M, symmetric_pairs(M, threads=threads), tile_size, threads=threads))


# ---- choices --------------------------------------------------------------------------------------------------------------


def _choices(fill_level, droptol, blocking, tile_size, pivoting, max_fill, dtype):
    """The checked arguments, with a choice for each ``"auto"``; blocking is "" if the device decides."""
    one_of(blocking, "blocking", BLOCKING)
    one_of(pivoting, "pivoting", PIVOTING)
    level = 2 if fill_level is None or is_auto(fill_level) else as_integer(fill_level, "fill_level", 0)
    droptol = 1e-3 if is_auto(droptol) else as_number(droptol, "droptol")
    if is_auto(max_fill):
        max_fill = 8.0 if droptol > 0 else np.inf
    elif max_fill is None:
        max_fill = np.inf
    else:
        max_fill = as_number(max_fill, "max_fill", above=True)
    if is_auto(tile_size):
        tile_size = 8 if blocking == "BR" else 2
    tile_size = as_integer(tile_size, "tile_size", 2, LARGEST_TILE)
    blocking = ("none" if tile_size == 2 else "") if blocking == "auto" else blocking
    return Choices(level, droptol, max_fill, tile_size, blocking, "rook" if pivoting == "auto" else pivoting, storage_type(dtype))


def _complete(M, plan, is_requested, report, choices, threads, core):
    """The complete factor if it is requested or small enough, else None. The matrix alone decides."""
    most_flops, few_nonzeros = _bounds(M)
    report.facts["nnz_A"] = M.nnz
    if not is_requested and plan.likely_flops > most_flops and plan.nnz > few_nonzeros:
        report.facts.update(complete_nnz=plan.nnz, complete_flops=plan.flops)
        return None
    with report.phase("symbolic"):
        return core(plan, choices.dtype, threads)


def _bounds(M):
    """(operations, nonzeros) of a complete factor: it is chosen if it needs at most one of these numbers."""
    half = (M.nnz + M.n) / 2
    return max(FEW_FLOPS, FLOPS_PER_ENTRY * half), FEW_NONZEROS * half


def _is_far_too_large(M, report):
    """True if breadth-first searches show that a complete factor exceeds both bounds. Then it is not even ordered."""
    rows = dense_end(Csr(M.n, M.indptr, M.indices, diagonal=True))
    nnz, flops = rows**2 / 2, rows**3 / 3
    most_flops, few_nonzeros = _bounds(M)
    if flops <= most_flops or nnz <= few_nonzeros:
        return False
    report.facts.update(complete_nnz=int(nnz), complete_flops=flops)                # lower bounds
    return True


def _require_nonzero(data):
    if not (data[:64].any() or data.any()):             # the first test usually decides
        raise SingularMatrixError("A has no nonzero, so only b = 0 has a solution", 0)
