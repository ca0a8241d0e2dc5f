"""Symmetric indefinite systems: L D L^T factorization with pivots of one and two rows, complete or incomplete.

    K = ildl(A);  x, info = sqmr(A, b, M=K)          # K.L K.D K.L^T is (S A S)[perm][:, perm], S = diag(K.scale)

The driver reads in this order: scaling and pairs of rows by a matching, the choice between complete and incomplete, the
factorization. Sources: Duff and Pralet 2005 (matching); Duff and Reid 1983 (complete); Thuerck et al. 2018 (incomplete).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from meshsolve import _core, device, order
from meshsolve.errors import InvalidInputError, MeshsolveWarning, SingularMatrixError
from meshsolve.factor.base import Preconditioner, reciprocal_condition, values_in
from meshsolve.factor.ildl.incomplete import Choices, IncompleteCore, block_statistics, tiling
from meshsolve.factor.ldlt.certainty import has_undecided_sign
from meshsolve.factor.ldlt.complete import CompleteCore, slogdet_of
from meshsolve.factor.ldlt.planning import Findings, complete_plan, matching_and_findings, rescale
from meshsolve.factor.ldlt.residual import Residual
from meshsolve.factor.matching import symmetric_pairs
from meshsolve.factor.refine import refine
from meshsolve.factor.sharing import changes, reads, reads_in_turn
from meshsolve.memory import PER_ROW
from meshsolve.options import as_integer, as_number, counted, is_auto, one_of, storage_type, thread_count
from meshsolve.order.auto import dense_end
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import device_lengths, lengths, read_only
from meshsolve.sparse.matrix import Csr, as_symmetric
from meshsolve.sparse.places import place_for
from meshsolve.types import Array, ArrayLike, Matrix, Sparse

__all__ = ["IldlFactor", "blocks", "ildl"]

PIVOTING = ("auto", "static", "bunch-kaufman", "rook")
BLOCKING = ("auto", "BR", "RB", "none", "subtree")
FEW_NONZEROS = 20               # times those of tril(A): a complete factor of that size is taken
FEW_FLOPS = 5e9                 # so many operations are taken anyway: less than an iteration costs that has to be repeated
FLOPS_PER_ENTRY = 4e4           # ... or so many an entry of tril(A)
LARGEST_TILE = 32
OUTSIDE, ROUNDING = 1e-10, 1e4      # of the length of b, and of eps |x|: a larger residual of a complete factor is no rounding
ENOUGH, TARGET, STEPS = 1e-13, 1e-15, 2     # backward error that is not refined, what refinement aims at, steps at most
STALE = 20                      # powers of two by which rows may part in a scaling that was made for other values


class IldlFactor(Preconditioner):
    """``L @ D @ L.T`` = ``(S A S)[perm][:, perm]`` with S = diag(scale), exactly or nearly; ``K @ r`` applies its inverse.

    Made by :func:`meshsolve.ildl`. A symmetric operator, the preconditioner ``M=`` of :func:`meshsolve.sqmr`; where it is
    complete, ``K.solve(b)`` is the solution: in double precision refined, at most two steps, where its backward error is above
    1e-13, and with a warning where A is singular and b not in its range. Several threads may apply
    it at once; a refactorization beside them raises ``FactorInUseError``. It can be pickled and copied, which costs a numeric
    phase at the other end.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the row of A that was eliminated k-th.
    scale : (n,) float64
        Scaling by a maximum product matching: entries of S A S are at most 1 in modulus.
    inertia : (int, int, int)
        Numbers of positive, negative and zero eigenvalues of D: those of A if the factor is complete. An eigenvalue counts as zero if
        A is singular to within the rounding errors of its entries. A ``MeshsolveWarning`` says that the sign of one is not decided;
        ``report.facts["undecided_pivots"]`` counts pivots near zero.
    structural_rank : int
        Rows that a matching can give a nonzero each, of the first matrix: a ``refactor`` does not match anew.
    is_complete : bool
    on_device : bool
        It was made on the GPU and lies there; ``L``, ``D``, ``perm`` and ``scale`` are numpy's.
    nnz : int
        Nonzeros of L, diagonal included.
    report : Report
        Seconds per phase (``matching``, ``order``, ``symbolic``, ``numeric``, ``solve``), sizes, perturbed pivots, choices. On
        several threads matching and scaling run beside ordering and analysis: what of them these did not cover is ``matching``.
    """

    def __init__(self, matrix, pairs, core, report, dtype, lower=False, rescaled=None, was_chosen=False):
        super().__init__(matrix.n, np.float64)
        self._warns = was_chosen and core.kind != "complete"        # who asked for an incomplete factor knows what it solves
        self.storage, self._lower = np.dtype(dtype), bool(lower)
        self.report, self.structural_rank, self._matched_scale = report, pairs.rank, pairs.scale
        self._pattern, self._core, self._extracted = Csr(matrix.n, matrix.indptr, matrix.indices), core, None
        self._is_undecided = None                            # whether the sign of an eigenvalue is; known once it was asked for
        self._spread = np.inf                                # of the rows in the scaling for these values: found by the first run
        self._spread = self._run(matrix.data, rescaled)

    @property
    def _threads(self):
        return self.report.facts["threads"]

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    @changes
    def refactor(self, A: Matrix) -> IldlFactor:
        """Factor another matrix inside the pattern of A: matching, order and pattern of the factor stay, pivots are chosen anew, and
        where rows differ from those of A by many orders of magnitude, the scaling is.

        Parameters
        ----------
        A : (n, n) symmetric matrix of any kind
            Entries that are missing are zeros. Its lower triangle alone is read where the factor was made with ``lower=True``.

        Returns
        -------
        IldlFactor
            This factor.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the pattern: ``.row``, ``.column``.
        SingularMatrixError
            A has no nonzero. After any error the earlier factor is still there.
        FactorInUseError
            Another call uses this factor at this time.
        OutOfMemoryError
            Where there is no memory even to bring that back, it is lost, and solves say so until the next refactorization.
        """
        M = as_symmetric(A, lower=self._lower, threads=self._threads)
        if M.n != self.shape[0]:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {self.shape[0]}")
        _require_nonzero(M)
        self._run(values_in(self._pattern, M))
        return self

    def _run(self, data, rescaled=None):
        """Scale, unless that is done, and factor; returns by how many powers of two the rows part in the scaling of the matching."""
        with self.report.phase("numeric"):
            scale, scaled, spread = self._rescaled(data, self._matched_scale) if rescaled is None else rescaled
            if spread > self._spread + STALE:               # entries that count would vanish beside others
                M = Csr(self._pattern.n, self._pattern.indptr, self._pattern.indices, data)
                scale, scaled, _ = self._rescaled(data, symmetric_pairs(M, threads=self._threads).scale)
            now = {"scale": read_only(scale), "_scaled": scaled, "_extracted": None, "_is_undecided": None,
                   "_residual": Residual(self._pattern, scaled, scale, self._threads, self.on_device)}
            before = self._core.changes
            try:
                self._core.factor(scaled, scale)
            finally:
                if self._core.changes != before:            # Ctrl-C may come when all is done
                    self.__dict__.update(now)
        self.report.facts.pop("refinement_steps", None)
        self.report.facts.update(self._core.facts())
        return spread

    def _rescaled(self, data, scale):
        return rescale(self._pattern, data, scale, self.is_complete, self._threads)

    @reads
    def __getstate__(self):
        """The scaled matrix stands for its factor, which is made again: the same bits."""
        return super().__getstate__() | {"_extracted": None}

    def __setstate__(self, state):
        super().__setstate__(state)
        self.scale = read_only(self.scale)
        with self.report.phase("numeric"):
            self._core.factor(self._scaled, self.scale)

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, b: ArrayLike, out: Array | None = None) -> Array:
        if self._warns:
            warn('fill_level="auto" has made an incomplete factor, since the complete one is large: K.solve(b) is but an approximation. '
                 'ms.solve(A, b, method="ildl") and ms.sqmr(A, b, M=K) solve, and so does a factor of fill_level=None', MeshsolveWarning)
        return super().solve(b, out)

    solve.__doc__ = f"""{Preconditioner.solve.__doc__}
        Warns
        -----
        MeshsolveWarning
            The factor is incomplete, and ``fill_level="auto"`` has chosen that.
        """

    def _operate(self, b):
        return super().solve(b)

    @reads
    def apply_on_device(self, block: Array) -> Array:
        """The inverse applied to a C contiguous (n, k) float64 block on the GPU; a new block. Waits for nothing."""
        with self._turn():
            return self._core.apply_device(block)

    @reads
    def check_device(self) -> None:
        """Raise where a solve on the GPU has given up; waits for it."""
        with self._turn():
            self._core.check()

    @reads
    def apply_columns(self, columns: Array, out: Array | None = None) -> Array:
        """The inverse applied to ``columns``, an (n, k) float64 array of any strides; the result is C contiguous or ``out``."""
        with self._turn():
            return self._applied(columns, np.empty(columns.shape) if out is None else out)

    def _applied(self, columns, out):
        with self.report.phase("solve"):
            if columns.shape[1]:
                self._core.solve(self.scale, columns, out)
        return out

    def _checked_columns(self, columns):
        """As :meth:`apply_columns`, for who asks for a solution: refined where that is needed, with a warning where the factor is that of
        a singular matrix and b is not in its range. Iterations look at residuals themselves."""
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
                self._tell_of_range(*self._residual.scaled(x, columns))
        return x

    def _refined(self, columns, x, solve):
        """Each solution is measured, by a product with A: one that is good says nothing of the next, which may have weight in other
        rows. Rows of A may differ by decades, and pivots are chosen in the scaled matrix."""
        found = refine(self._residual, columns, x, solve, ENOUGH, TARGET, STEPS)
        self.report.facts["refinement_steps"] = found.steps
        return found.x

    def _tell_of_range(self, B, X, R):
        """Of the scaled system, whose entries are at most 1: rounding leaves residuals that are small beside its solution."""
        left, own, x = map(device_lengths if self.on_device else lengths, (R, B, X))
        if (left > OUTSIDE * own + ROUNDING * np.finfo(self.storage).eps * x).any():
            warn("b is not in the range of the singular matrix (K.inertia counts its zero eigenvalues): x leaves a residual",
                 MeshsolveWarning)

    # ---- what the factor knows ------------------------------------------------------------------------------------------

    @property
    def on_device(self) -> bool:
        return self._core.on_device

    @property
    def is_complete(self) -> bool:
        return self._core.kind == "complete"

    @property
    @reads_in_turn
    def inertia(self) -> tuple[int, int, int]:
        self.warn_if_undecided("inertia")
        return tuple(self._core.inertia)

    @reads_in_turn
    def warn_if_undecided(self, what: str) -> None:
        """Warn if rounding errors may have changed the sign of an eigenvalue; ``what`` begins the message."""
        if not self.is_complete:
            return
        if self._is_undecided is None:
            self._is_undecided = bool(self.report.facts["undecided_pivots"]) or not self._core.inertia[2] and has_undecided_sign(
                self._residual, self._solved_once, self.scale, np.finfo(self.storage).eps, self.on_device)
        if self._is_undecided:
            warn(f"{what}: the sign of an eigenvalue is not decided: A is singular to within a few rounding errors, and a pivot near zero "
                 "may be zero or have the other sign. Regularize A, for example by A + 1e-10 D with the expected signs in D",
                 MeshsolveWarning)

    def _solved_once(self, B):
        """A solve without refinement, where the factor lies."""
        if not self.on_device:
            return self._applied(np.ascontiguousarray(B), np.empty(B.shape))
        x = self._core.apply_device(B)
        self._core.check()
        return x

    @reads_in_turn
    def rcond(self) -> float:
        """Estimate of 1 / (||A||_1 ||A^-1||_1) by a few solves (Higham and Tisseur 2000), between 0 and 1.

        Raises
        ------
        InvalidInputError
            The factor is incomplete.
        """
        if not self.is_complete:
            raise InvalidInputError("an incomplete factor does not know the condition of A: fill_level=None makes a complete one")
        if self._core.inertia[2]:
            return 0.0

        def solve(B):
            return device.to_host(self._solved_once(device.to_device(B))) if self.on_device else self._solved_once(B)

        return reciprocal_condition(self._residual.norm, solve, solve, self.shape[0])

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
        """(sign, logabsdet) of A, as :func:`numpy.linalg.slogdet` returns them: (0.0, -inf) of a singular matrix. O(nnz).

        Raises
        ------
        InvalidInputError
            The factor is incomplete: its determinant is not that of A.
        """
        if not self.is_complete:
            raise InvalidInputError("an incomplete factor does not know the determinant of A: fill_level=None makes a complete one")
        self.warn_if_undecided("slogdet")
        sign, logabsdet = slogdet_of(self.D.diagonal(), self.D.diagonal(-1))
        return sign, logabsdet - 2 * float(np.log(self.scale).sum())

    @reads
    def _parts(self):
        if self._extracted is None:
            self._extracted = self._core.extract()
        return self._extracted


def ildl(A, fill_level="auto", droptol="auto", ordering="auto", blocking="auto", tile_size="auto", pivoting="auto", *,
         max_fill="auto", pairs=True, dtype=np.float64, threads=None, lower=False, device_name="cpu", analysed=None, foreseen=None):
    """The factor of a symmetric indefinite matrix; see :func:`meshsolve.ildl`. A may be a :class:`Csr` that was found symmetric, and
    ``analysed`` a :class:`Symbolic` of its pattern in an ``"auto"`` ordering that was made for another factor. A list ``foreseen`` gets
    the plan of the complete factor where this was counted and found too large: ``analysed`` for who makes it after all, if
    ``.is_of_rows``."""
    threads = thread_count(threads)
    choices = _choices(fill_level, droptol, blocking, tile_size, pivoting, max_fill, dtype)
    M = A if isinstance(A, Csr) else as_symmetric(A, lower=lower, threads=threads, per_row=PER_ROW["ildl"])
    there = _chosen_device(device_name, M.n, A, fill_level) == "cuda"
    if there and blocking == "auto" and choices.blocking == "RB":
        choices = replace(choices, blocking="subtree")      # a GPU waits for level sets, a CPU for entries
    _require_nonzero(M)
    M = Csr(M.n, M.indptr, M.indices.copy(), M.data)            # the caller's index array may change later
    ordering = ordering if isinstance(ordering, str) else order.resolve(ordering, Csr(M.n, M.indptr, M.indices, diagonal=True))
    report = Report(threads=threads, nnz_A=M.nnz)
    _core.keep_free_memory(M.nnz, threads)
    is_counted = fill_level is None or (is_auto(fill_level) and not _is_far_too_large(M, report))          # the complete factor is
    matched, found = matching_and_findings(M, pairs, ordering if is_counted and analysed is None else None, report, threads)
    if analysed is not None:
        found, analysed.matrix_pattern = Findings(analysed.ordering, analysed), Csr(M.n, M.indptr, M.indices)   # without that factor's tree
        if is_counted:
            report.merge(analysed.report)
            analysed.report.seconds = {}                    # told once, though several factors may take it over
    report.facts["structural_rank"] = matched.rank
    core = rescaled = None
    if is_counted:
        plan = complete_plan(M, matched, ordering, report, threads, np.inf if fill_level is None else _bounds(M)[0], found)
        core = _complete(M, plan, fill_level is None, report, choices, threads, there and device_name == "cuda")
        if core is None and foreseen is not None:
            plan.symbolic.report.seconds = {}                   # they are told here
            foreseen.append(plan)
        rescaled = found.rescaled if found is not None and core is not None else None
    found = None                                            # an analysis that was of no use takes no memory beside the factor
    if core is None:
        with report.phase("order"):
            ordering = "amd" if is_auto(ordering) else ordering
            tiles = tiling(matched, choices.blocking, choices.tile_size, ordering, threads)
        report.facts["ordering"] = tiles.ordering
        with report.phase("symbolic"):
            core = _device_core(M, tiles, choices) if there else IncompleteCore(M, tiles, choices, threads)
    report.facts["mode"] = core.kind
    return IldlFactor(M, matched, core, report, choices.dtype, lower, rescaled, was_chosen=is_auto(fill_level))


def _device_core(matrix, tiles, choices):
    from meshsolve.factor.ildl.incomplete_cuda import DeviceCore

    return DeviceCore(matrix, tiles, choices)


def _device_complete(plan, dtype):
    from meshsolve.factor.ldlt.complete_cuda import DeviceCompleteCore

    return DeviceCompleteCore(plan, dtype)


def blocks(A, tile_size=LARGEST_TILE, threads=None):
    """The block statistics of a symmetric matrix as a list, see :func:`meshsolve.factor.ildl.incomplete.block_statistics`."""
    threads, tile_size = thread_count(threads), as_integer(tile_size, "tile_size", 2, LARGEST_TILE)
    M = as_symmetric(A, threads=threads)
    _require_nonzero(M)
    return list(block_statistics(M, symmetric_pairs(M, threads=threads), tile_size, threads=threads))


# ---- choices --------------------------------------------------------------------------------------------------------------


def _chosen_device(name, n, A, fill_level):
    """"cpu" or "cuda"; a complete factor is made on the GPU only where that is asked for by name."""
    if fill_level is None and is_auto(name):
        return "cpu"
    return place_for(name, A, size=n)


def _choices(fill_level, droptol, blocking, tile_size, pivoting, max_fill, dtype):
    """Checked arguments with everything chosen that was left open."""
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
    blocking = ("none" if tile_size == 2 else "RB") if blocking == "auto" else blocking
    return Choices(level, droptol, max_fill, tile_size, blocking, "rook" if pivoting == "auto" else pivoting, storage_type(dtype))


def _complete(M, plan, asked, report, choices, threads, there):
    """The complete factor where it is asked for or small enough, else None. The matrix alone decides."""
    most_flops, few_nonzeros = _bounds(M)
    report.facts["nnz_A"] = M.nnz
    if not asked and plan.likely_flops > most_flops and plan.nnz > few_nonzeros:
        report.facts.update(complete_nnz=plan.nnz, complete_flops=plan.flops)
        return None
    with report.phase("symbolic"):
        return _device_complete(plan, choices.dtype) if there else CompleteCore(plan, choices.dtype, threads)


def _bounds(M):
    """(operations, nonzeros) up to either of which a complete factor is made."""
    half = (M.nnz + M.n) / 2
    return max(FEW_FLOPS, FLOPS_PER_ENTRY * half), FEW_NONZEROS * half


def _is_far_too_large(M, report):
    """Whether breadth-first searches tell that a complete factor is beyond both bounds: it is not even ordered then."""
    rows = dense_end(Csr(M.n, M.indptr, M.indices, diagonal=True))
    nnz, flops = rows**2 / 2, rows**3 / 3
    most_flops, few_nonzeros = _bounds(M)
    if flops <= most_flops or nnz <= few_nonzeros:
        return False
    report.facts.update(complete_nnz=int(nnz), complete_flops=flops)                # at the least
    return True


def _require_nonzero(M):
    if not (M.data[:64].any() or M.data.any()):             # mostly the first one is
        raise SingularMatrixError("A has no nonzero: no right-hand side but zero has a solution", 0)
