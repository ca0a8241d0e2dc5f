"""The front end of the LU factorization: matching, block triangular form, ordering of each block, choice of the engine."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from meshsolve import _core, order
from meshsolve.errors import SingularMatrixError
from meshsolve.factor.matching import block_triangular, maximum_product, require_full_rank
from meshsolve.factor.symbolic import Symbolic
from meshsolve.options import is_auto
from meshsolve.order.auto import is_scale_free
from meshsolve.sparse.matrix import Csr

ND_OPERATIONS = 2e9                       # from here on nested dissection is tried beside minimum degree,
NEARLY_DENSE = 1 / 8                      # of n^2: factors of as many entries leave it no separators to find
MESH_LIKE = 24                            # multiplications an entry of the symmetric factor: fronts without a second look

# Seconds of one thread, fitted to both engines on 35 circuits: an operation, an entry, a column or a front.
COLUMN_COST = (0.2e-9, 2.3e-9, 4.2e-9)
FRONT_COST = (0.03e-9, 2.2e-9, 22e-9)

# Where the pivots at hand come from: a matching of earlier values, one of these values, and partial pivoting that leaves the
# diagonal where it is at least this fraction of its column.
STALE, MATCHED, LOOSE, STRICT = range(4)
THRESHOLDS = {LOOSE: 1e-3, STRICT: 0.1}
EVERYTHING = np.iinfo(np.int64).max


@dataclass(eq=False)
class Analysis:
    """Where the matrix stands before its values are factored: ``B = (R A C)[rows][:, columns]``, block upper triangular.

    Attributes
    ----------
    rows, columns : (n,) int32
        Old index of each new row and column.
    row_scale, col_scale : (n,) float64
        R and C, in the numbering of A.
    block_ptr : (blocks + 1,) int32
        First position of each diagonal block.
    symbolic : Symbolic
        Of the symmetrized diagonal blocks, in the order of ``columns``.
    pivoted : bool
        The rows were chosen by partial pivoting; ``symbolic`` gives their order then and no longer their pattern.
    """

    rows: np.ndarray
    columns: np.ndarray
    row_scale: np.ndarray
    col_scale: np.ndarray
    block_ptr: np.ndarray
    symbolic: Symbolic
    pivoted: bool = False

    def frame(self):
        """The arrays that place A, in the order in which the core takes them."""
        return self.rows, self.columns, self.row_scale, self.col_scale, self.block_ptr


def analyze(M, ordering, report, threads):
    """Match, scale, cut into blocks and order; see :func:`meshsolve.lu` for the arguments.

    Raises
    ------
    SingularMatrixError
        A is structurally singular.
    """
    _core.keep_free_memory(M.nnz, threads)
    with report.phase("symbolic"):
        matching = maximum_product(M, threads)
        require_full_rank(M, matching)
        _require_finite_scales(matching)
        block, count = block_triangular(M, matching.row_of)
        graph = Csr(M.n, *_core.diagonal_blocks(M.indptr, M.indices, matching.row_of, block))
    symbolic = _order(M, matching.row_of, graph, ordering, block, count, report, threads)
    columns = np.array(symbolic.perm)
    block_ptr = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(block, minlength=count), out=block_ptr[1:])
    report.facts.update(blocks=count, ordering=symbolic.ordering.method)
    return Analysis(matching.row_of[columns], columns, matching.row_scale, matching.col_scale, block_ptr, symbolic)


def _require_finite_scales(matching):
    for what, scale in (("row", matching.row_scale), ("column", matching.col_scale)):
        beyond = np.flatnonzero(np.isinf(scale))
        if len(beyond):
            raise SingularMatrixError(f"A is singular to working precision: the entries of {what} {beyond[0]} are so small that their "
                                      "inverses are beyond the largest number (multiply A by a power of two if they are meant)",
                                      int(beyond[0]))


def _order(M, row_of, graph, ordering, block, count, report, threads):
    """Minimum degree, or what was asked for; nested dissection beside it where operations abound, and the better of the two."""
    def columns():
        return _diagonal_blocks(M, row_of, block)

    first = _symbolic(graph, "amd" if is_auto(ordering) else ordering, columns, block, count, report, threads)
    hopeless = first.flops < ND_OPERATIONS or first.nnz > NEARLY_DENSE * graph.n**2
    if not is_auto(ordering) or hopeless or is_scale_free(graph):
        return first
    second = _symbolic(graph, "nd", columns, block, count, report, threads)
    return second if second.flops < first.flops else first


def _diagonal_blocks(M, row_of, block):
    """The pattern of M with row ``row_of[j]`` as row j, without the entries outside the diagonal blocks."""
    rows = np.diff(M.indptr)[row_of]
    A = Csr(M.n, M.indptr, M.indices).to_scipy()[row_of]
    kept = np.repeat(block, rows) == block[A.indices]
    indptr = np.append(0, np.cumsum(kept))[A.indptr]
    return Csr(M.n, indptr.astype(np.int64), A.indices[kept].astype(np.int32))


def _symbolic(graph, ordering, columns, block, count, report, threads):
    chosen = order.resolve(ordering, graph, threads=threads, factor="lu", columns=columns)
    perm, known = chosen.perm, chosen.elimination
    if count > 1:                                          # blocks follow each other, each in its own order
        moved = np.argsort(block[perm], kind="stable")
        perm, known = perm[moved], known and known.moved(moved)
    symbolic = Symbolic.build(graph, perm, ordering=chosen, threads=threads, known=known)
    for part in (chosen.report, symbolic.report):
        for phase, seconds in part.seconds.items():
            report.add(phase, seconds)
    return symbolic


def front_plan(M, analysis):
    """The pattern's part of the fronts engine."""
    return _core.FrontPlan(analysis.symbolic.native, M.indptr, M.indices, *analysis.frame())


def column_plan(M, analysis):
    """The pattern's part of the columns engine: the exact pattern of L and U for the pivots ``analysis.rows``."""
    return _core.ColumnPlan(M.indptr, M.indices, *analysis.frame())


def choose(M, analysis, engine):
    """(engine, plan): what was asked for, or the engine whose operations, entries and columns or fronts take less time.

    The counts of the columns engine are exact and cost a symbolic factorization; where the symmetric one has many
    operations an entry, fronts are taken at once.
    """
    symbolic = analysis.symbolic
    if engine == "fronts" or (engine == "auto" and symbolic.flops > MESH_LIKE * symbolic.nnz):
        return "fronts", front_plan(M, analysis)
    columns = column_plan(M, analysis)
    fronts = len(symbolic.supernodes) - 1
    stored = 2 * (symbolic.nbytes // 8)
    by_columns = np.dot(COLUMN_COST, (columns.flops, columns.scalars, M.n))
    by_fronts = np.dot(FRONT_COST, (2 * symbolic.flops, stored, fronts))
    if engine == "columns" or by_columns < by_fronts:
        return "columns", columns
    return "fronts", front_plan(M, analysis)


def repivoted(M, analysis, stage, least, ordering, report, threads):
    """The analysis with pivot rows chosen by partial pivoting on the values of M, from the order that fills less.

    At first the diagonal of A is tried in the place of the matching. That is given up where more fill comes of it than the
    matching foresees.

    Raises
    ------
    SingularMatrixError
        No entry above ``least`` is left in a column.
    """
    bases = [(analysis, EVERYTHING)]
    if stage == LOOSE:
        bases.insert(0, (_on_own_diagonal(M, analysis, ordering, report, threads), analysis.symbolic.nnz))
    for base, most in bases:
        failed, rows = _core.pivot_rows(column_plan(M, base), M.data, THRESHOLDS[stage], least, most)
        if failed < 0:
            break
        if failed < M.n:
            column = int(base.columns[failed])
            raise SingularMatrixError(f"A is singular to working precision: no pivot is left in column {column}; it depends "
                                      "on other columns", column)
    return replace(base, rows=rows, pivoted=True)


def _on_own_diagonal(M, analysis, ordering, report, threads):
    """The analysis with the diagonal of A in the place of the matching, inside each block; the one given where that fills less.

    A matching is needed where pivots are static. It makes a symmetric pattern unsymmetric where the diagonal has zeros, and
    that costs fill: partial pivoting can do better with the diagonal there is, as KLU does. The scalings stay.
    """
    n, count = M.n, len(analysis.block_ptr) - 1
    block = np.repeat(np.arange(count, dtype=np.int32), np.diff(analysis.block_ptr))
    of_row, of_column = np.empty(n, np.int32), np.empty(n, np.int32)
    of_row[analysis.rows], of_column[analysis.columns] = block, block
    row_of = np.arange(n, dtype=np.int32)
    apart = np.flatnonzero(of_row != of_column)             # their rows and columns are paired block by block
    row_of[apart[np.argsort(of_column[apart], kind="stable")]] = apart[np.argsort(of_row[apart], kind="stable")]
    graph = Csr(n, *_core.diagonal_blocks(M.indptr, M.indices, row_of, of_column))
    symbolic = _order(M, row_of, graph, ordering, of_column, count, report, threads)
    if symbolic.flops >= analysis.symbolic.flops:
        return analysis
    columns = np.array(symbolic.perm)
    return replace(analysis, rows=row_of[columns], columns=columns, symbolic=symbolic)
