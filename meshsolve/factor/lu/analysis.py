"""Choose the pivots of an LU factorization: matching, block triangular form, ordering of each block, and the engine.

Sources: Duff and Koster 2001 (matching); Davis and Natarajan 2010, "KLU" (block form, partial pivoting on the diagonal of A).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from meshsolve import _core, device, order
from meshsolve.errors import SingularMatrixError
from meshsolve.factor.lu.fronts.plan_cuda import FrontPlanCuda
from meshsolve.factor.matching import block_triangular, maximum_product, require_finite_scales, require_full_rank
from meshsolve.factor.matching import cuda as matching_cuda
from meshsolve.factor.symbolic import Symbolic
from meshsolve.factor.symbolic.location import Location, location_of_analysis
from meshsolve.options import is_auto
from meshsolve.order.auto import is_scale_free
from meshsolve.order.nested import NEAR_TREE, SMALL
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import HOST

ND_OPERATIONS = 2e9                       # operations of the minimum degree factor from which nested dissection is tried as well
NEARLY_DENSE = 1 / 8                      # share of n^2 entries above which nested dissection finds no separators
MESH_LIKE = 24                            # multiplications per entry of the symmetric factor above which fronts are chosen at once
SURELY_MESH_LIKE = 2 * MESH_LIKE          # the same in a nested dissection, which may need twice the operations of minimum degree

# Seconds per operation, per entry, and per column or front on one thread: fitted to both engines on 35 circuits.
COLUMN_COST = (0.2e-9, 2.3e-9, 4.2e-9)
FRONT_COST = (0.03e-9, 2.2e-9, 22e-9)

# Sources of pivots, from cheap to safe: a matching of earlier values; a matching of these values; partial pivoting that keeps
# the diagonal as pivot if it is at least this fraction of the largest entry of its column.
STALE, MATCHED, LOOSE, STRICT = range(4)
THRESHOLDS = {LOOSE: 1e-3, STRICT: 0.1}
UNLIMITED = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Analysis:
    """Permutation and scaling of a matrix: ``B = (R A C)[rows][:, columns]`` is block upper triangular.

    Attributes
    ----------
    rows, columns : (n,) int32
        Old index of each new row and column.
    row_scale, col_scale : (n,) float64
        Diagonals of R and C, in the numbering of A.
    block_ptr : (blocks + 1,) int32
        First position of each diagonal block.
    symbolic : Symbolic
        Analysis of the symmetrized diagonal blocks, in the order of ``columns``.
    pivoted : bool
        True: partial pivoting chose the rows. Then ``symbolic`` holds the order of the columns, but not the pattern of the factor.
    """

    rows: np.ndarray
    columns: np.ndarray
    row_scale: np.ndarray
    col_scale: np.ndarray
    block_ptr: np.ndarray
    symbolic: Symbolic
    pivoted: bool = False

    def arrays(self):
        """Permutations, scalings and blocks in the order in which the core takes them."""
        return self.rows, self.columns, self.row_scale, self.col_scale, self.block_ptr


@dataclass(frozen=True, eq=False)
class Pivots:
    """The pivots of a matrix, and the engine that eliminates with them.

    Attributes
    ----------
    analysis : Analysis
    engine : {"fronts", "columns"}
    plan : _core.FrontPlan, FrontPlanCuda or _core.ColumnPlan
        What the engine computes from the pattern. None in a pickle.
    source : int
        STALE, MATCHED, LOOSE or STRICT.
    """

    analysis: Analysis
    engine: str
    plan: Any
    source: int

    @property
    def nnz(self):
        """Nonzeros of L and U with one diagonal, and the entries above the diagonal blocks."""
        symbolic = self.analysis.symbolic
        inside = 2 * symbolic.nnz - symbolic.n if self.engine == "fronts" else self.plan.scalars
        return inside + len(self.plan.off_diagonal()[1])

    @property
    def facts(self):
        """What a report says about the pivots."""
        symbolic = self.analysis.symbolic
        return {"blocks": len(self.analysis.block_ptr) - 1, "ordering": symbolic.ordering.method, "engine": self.engine,
                "nnz_L": self.nnz, "flops": 2 * symbolic.flops if self.engine == "fronts" else self.plan.flops}


class DiagonalBlocks(NamedTuple):
    """The diagonal blocks of a matrix M with row ``row_of[j]`` as row j; column j lies in block ``block[j]`` of ``count`` blocks."""

    M: Csr
    row_of: np.ndarray
    block: np.ndarray
    count: int                  # type: ignore[assignment]      # hides tuple.count

    def graph(self, place):
        """The symmetrized pattern of the blocks without its diagonal, in this place."""
        if place is HOST:
            return Csr(self.M.n, *_core.diagonal_blocks(self.M.indptr, self.M.indices, self.row_of, self.block))
        return matching_cuda.diagonal_blocks(Csr(self.M.n, self.M.indptr, self.M.indices).uploaded(), self.row_of, self.block)

    def columns(self):
        """The pattern of the blocks, on the host."""
        M, rows = self.M, np.diff(self.M.indptr)[self.row_of]
        A = Csr(M.n, M.indptr, M.indices).to_scipy()[self.row_of]
        kept = np.repeat(self.block, rows) == self.block[A.indices]
        indptr = np.append(0, np.cumsum(kept))[A.indptr]
        return Csr(M.n, indptr.astype(np.int64), A.indices[kept].astype(np.int32))


def matched_pivots(M, ordering, engine, report, threads, place=HOST):
    """The pivots of a maximum product matching, in a block triangular form, for a factor in ``place``.

    See :func:`meshsolve.lu` for the other arguments. The matching and the block form are sequential and run on the host.

    Raises
    ------
    SingularMatrixError
        A is structurally singular.
    """
    _core.keep_free_memory(M.nnz, threads)
    with report.phase("symbolic"):
        matching = maximum_product(M, threads)
        require_full_rank(M, matching)
        require_finite_scales(matching)
        blocks = DiagonalBlocks(M, matching.row_of, *block_triangular(M, matching.row_of))
    symbolic, where = _order(blocks, ordering, engine, report, threads, place)
    report.facts.update(where.facts)
    columns = np.array(symbolic.perm)
    block_ptr = np.zeros(blocks.count + 1, np.int32)
    np.cumsum(np.bincount(blocks.block, minlength=blocks.count), out=block_ptr[1:])
    analysis = Analysis(matching.row_of[columns], columns, matching.row_scale, matching.col_scale, block_ptr, symbolic)
    with report.phase("symbolic"):
        return Pivots(analysis, *_choose_engine(M, analysis, engine, place), MATCHED)


def next_pivots(M, pivots, ordering, engine, least, report, threads, place):
    """Pivots from the source after that of ``pivots``, for the values of M; ``least``: smallest pivot of partial pivoting."""
    if pivots.source == STALE:
        return matched_pivots(M, ordering, engine, report, threads, place)
    with report.phase("numeric"):
        analysis = _partially_pivoted(M, pivots.analysis, pivots.source + 1, least, ordering, report, threads)
        return Pivots(analysis, "columns", plan_of("columns", M, analysis), pivots.source + 1)


def plan_of(engine, M, analysis, place=HOST):
    """What an engine in ``place`` computes from the pattern: of ``"columns"`` the exact pattern of L and U, on the host."""
    if engine == "columns":
        return _core.ColumnPlan(M.indptr, M.indices, *analysis.arrays())
    if place is HOST:
        return _core.FrontPlan(analysis.symbolic.native, M.indptr, M.indices, *analysis.arrays())
    return FrontPlanCuda(M, analysis)


def _order(blocks, ordering, engine, report, threads, place):
    """(analysis in the ordering asked for, its Location), for a factor in ``place``.

    ``"auto"`` on the GPU is nested dissection, for meshes. On the host it is minimum degree, or nested dissection if that needs fewer
    operations.
    """
    where = location_of_analysis(blocks.M.n, place)
    if where.place is not HOST:
        symbolic, reason = _order_cuda(blocks, ordering, engine, report, threads, where.place)
        if symbolic is not None:
            return symbolic, where
        where = Location(HOST, reason)
    with report.phase("symbolic"):
        graph = blocks.graph(HOST)
    first = _symbolic(blocks, graph, "amd" if is_auto(ordering) else ordering, report, threads, HOST)
    hopeless = first.flops < ND_OPERATIONS or first.nnz > NEARLY_DENSE * graph.n**2
    if not is_auto(ordering) or hopeless or is_scale_free(graph):
        return first, where
    second = _symbolic(blocks, graph, "nd", report, threads, HOST)
    return second if second.flops < first.flops else first, where


def _order_cuda(blocks, ordering, engine, report, threads, place):
    """(analysis on the GPU, None), or (None, the reason for an analysis on the host): another engine or order is likely to be faster."""
    if engine == "columns":
        return None, 'engine "columns"'
    with report.phase("symbolic"):
        graph = blocks.graph(place)
    if not is_auto(ordering):
        return _symbolic(blocks, graph, ordering, report, threads, place), None
    if graph.n < SMALL or graph.nnz < NEAR_TREE * graph.n or is_scale_free(graph):
        return None, "small, nearly a tree, or scale-free: ordered by minimum degree"
    symbolic = _symbolic(blocks, graph, "nd", report, threads, place)
    if engine == "auto" and symbolic.flops <= SURELY_MESH_LIKE * symbolic.nnz:
        return None, 'few operations per entry: the engine "columns" may be faster'
    return symbolic, None


def _symbolic(blocks, graph, ordering, report, threads, place):
    chosen = order.resolve(ordering, graph, threads=threads, place=place.name, factor="lu", columns=blocks.columns)
    chosen = replace(chosen, perm=device.to_host(chosen.perm))
    perm, known = chosen.perm, chosen.elimination
    if blocks.count > 1:                                   # the blocks follow each other, each in its own order
        moved = np.argsort(blocks.block[perm], kind="stable")
        perm, known = perm[moved], known and known.moved(moved)
    symbolic = Symbolic.build(graph, perm, ordering=chosen, threads=threads, place=place.name, known=known)
    for part in (chosen.report, symbolic.report):
        for phase, seconds in part.seconds.items():
            report.add(phase, seconds)
    return symbolic


def _choose_engine(M, analysis, engine, place):
    """(engine, plan): what was asked for, or the engine with the smaller estimated time.

    The counts of the columns engine are exact and cost a symbolic factorization. If the symmetric factor has many operations
    per entry, fronts are chosen without them.
    """
    symbolic = analysis.symbolic
    if engine == "fronts" or (engine == "auto" and symbolic.flops > MESH_LIKE * symbolic.nnz):
        return "fronts", plan_of("fronts", M, analysis, place)
    columns = plan_of("columns", M, analysis)
    fronts = len(symbolic.supernodes) - 1
    stored = 2 * (symbolic.nbytes // 8)
    by_columns = np.dot(COLUMN_COST, (columns.flops, columns.scalars, M.n))
    by_fronts = np.dot(FRONT_COST, (2 * symbolic.flops, stored, fronts))
    if engine == "columns" or by_columns < by_fronts:
        return "columns", columns
    return "fronts", plan_of("fronts", M, analysis, place)


def _partially_pivoted(M, analysis, source, least, ordering, report, threads):
    """The analysis with pivot rows chosen by partial pivoting on the values of M.

    LOOSE tries the diagonal of A first, and gives it up if that fills more than the factor of the matching.

    Raises
    ------
    SingularMatrixError
        No entry above ``least`` is left in a column.
    """
    bases = [(analysis, UNLIMITED)]
    if source == LOOSE:
        bases.insert(0, (_on_own_diagonal(M, analysis, ordering, report, threads), analysis.symbolic.nnz))
    for base, most in bases:
        failed, rows = _core.pivot_rows(plan_of("columns", M, base), M.data, THRESHOLDS[source], least, most)
        if failed < 0:
            break
        if failed < M.n:
            column = int(base.columns[failed])
            raise SingularMatrixError(f"A is singular to working precision: no pivot is left in column {column}, which depends "
                                      "on other columns", column)
    return replace(base, rows=rows, pivoted=True)


def _on_own_diagonal(M, analysis, ordering, report, threads):
    """The analysis with the diagonal of A in place of the matching inside each block, if that fills less.

    Static pivots need a matching. It makes a symmetric pattern unsymmetric where the diagonal has zeros, and costs fill.
    Partial pivoting can do better with the diagonal of A, as KLU does. The scalings stay.
    """
    n, count = M.n, len(analysis.block_ptr) - 1
    block = np.repeat(np.arange(count, dtype=np.int32), np.diff(analysis.block_ptr))
    of_row, of_column = np.empty(n, np.int32), np.empty(n, np.int32)
    of_row[analysis.rows], of_column[analysis.columns] = block, block
    row_of = np.arange(n, dtype=np.int32)
    split = np.flatnonzero(of_row != of_column)             # row i and column i lie in different blocks: paired block by block
    row_of[split[np.argsort(of_column[split], kind="stable")]] = split[np.argsort(of_row[split], kind="stable")]
    symbolic, _ = _order(DiagonalBlocks(M, row_of, of_column, count), ordering, "columns", report, threads, HOST)
    if symbolic.flops >= analysis.symbolic.flops:
        return analysis
    columns = np.array(symbolic.perm)
    return replace(analysis, rows=row_of[columns], columns=columns, symbolic=symbolic)
