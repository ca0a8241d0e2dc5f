"""The plan of the fronts engine on the GPU: launches of plan.cu. Host counterpart: ``_core.FrontPlan``, with the same integers.

The plan depends on the pattern and the pivots alone. The number of launches and array expressions does not depend on the matrix. The host
reads the sizes of the factor, and the cuts between the launches of a solve in blocks that read each other.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.device import launch_1d
from meshsolve.errors import InvalidInputError
from meshsolve.factor.fronts.tree_cuda import MOST_ENTRIES, offsets, relative_rows
from meshsolve.factor.lu.cuda import permutation_of
from meshsolve.options import counted
from meshsolve.sparse.lists_cuda import exclusive_scan, inverse
from meshsolve.sparse.matrix import Csr

K = device.kernels("factor/lu/fronts/plan.cu")
OUTSIDE = np.iinfo(np.int64).max                            # position of an entry above the diagonal blocks, as in plan.cu
LEVEL_BLOCKS_EACH = 4                                       # thread blocks of k_solve_levels for each multiprocessor
MOST_SCALARS = 2**32 - 1                                    # of a front: a position in it has 32 bits


class Fronts(NamedTuple):
    """The arrays of all fronts on the GPU, and their sizes on the host."""

    table: object               # (count, 13) int64: struct Front in fronts.cu
    size: object                # (count,) int64: scalars of each front
    relative: object            # (rows,) int32: local row in the parent of each row below the pivots
    source: object              # (nnz,) uint32: entries of A by fronts, the entries above the diagonal blocks last
    target: object              # (nnz,) uint32: their positions in the front
    scale: object               # (nnz,) float64
    scalars: int                # of all fronts
    updates: int                # scalars of the update matrices


class Outside(NamedTuple):
    """The entries above the diagonal blocks by columns, on the GPU."""

    ptr: object                 # (n + 1,) int64
    row: object                 # (m,) int32: positions of rows
    column: object              # (m,) int32: positions of columns
    source: object              # (m,) uint32: positions in the values of A
    scale: object               # (m,) float64


class FrontPlanCuda:
    """Where the fronts of a factor on the GPU have their entries.

    Parameters
    ----------
    M : Csr
        On the host; only its pattern is used.
    analysis : Analysis
    """

    def __init__(self, M, analysis):
        self._pattern, self._analysis = Csr(M.n, M.indptr, M.indices), analysis

    @cached_property
    def host(self):
        """The plan of the core, for L and U."""
        return _core.FrontPlan(self._analysis.symbolic.native, self._pattern.indptr, self._pattern.indices, *self._analysis.arrays())

    @cached_property
    def permutation(self):
        """Permutations and scalings on the GPU, see :func:`~meshsolve.factor.lu.cuda.permutation_of`."""
        return permutation_of(self._analysis)

    def off_diagonal(self):
        """Entries above the diagonal blocks by columns, on the GPU: (indptr, positions of rows, numbers of entries)."""
        return self.outside.ptr, self.outside.row, self.outside.source

    def levels_of_solve(self, transposed, above):
        """Return the level of the forward part of each front in a solve, then those of the backward parts, and a flag of a wait in vain.

        Levels are longest paths, (2 count,) int32 on the GPU. A part reads those of the children or of the parent, and the forward part
        those of the unknowns above the diagonal blocks: ``above``, see :func:`above_of`.
        """
        xp, a, forest = device.xp(), self._analysis.symbolic.analysis_on_device, self._analysis.symbolic.forest_on_device
        count = len(a.snode_parent)
        roots = xp.flatnonzero(a.snode_parent < 0).astype(np.int32)             # the last front of each diagonal block
        level, words = xp.full(2 * count, -1, np.int32), xp.zeros(2, np.int32)
        blocks = min(-(-2 * count // 8), LEVEL_BLOCKS_EACH * device.multiprocessors())
        device.launch(K.k_solve_levels, blocks, 256, 0,
                      (np.int32(count), np.int32(len(roots)), np.int32(transposed), roots, a.snode_parent, forest.child_ptr, forest.child,
                       a.first, *above[:2], level, words[:1], words[1:]))
        return level, words[1:]

    @cached_property
    def fronts(self):
        """The :class:`Fronts`. Reads once."""
        xp, symbolic, nnz = device.xp(), self._analysis.symbolic, self._pattern.nnz
        a, forest, (sizes, base, position, scale) = symbolic.analysis_on_device, symbolic.forest_on_device, self._placed
        count, totals = len(a.snode_parent), xp.zeros(3, np.uint64)
        entry = xp.argsort(position, kind="stable")
        position = position[entry]
        entry_ptr, (offset, most) = xp.searchsorted(position, base), offsets(sizes[3:], forest)
        source, target, sorted_scale = xp.empty(nnz, np.uint32), xp.empty(nnz, np.uint32), xp.empty(nnz, np.float64)
        launch_1d(K.k_sorted_entries, nnz, np.int64(nnz), np.int32(count), entry, position, scale, base, entry_ptr, source, target,
                  sorted_scale)
        table = xp.empty((count, 13), np.int64)
        launch_1d(K.k_table, count, np.int32(count), a.first, a.row_ptr, sizes, base, offset[0], most, forest.child_ptr, entry_ptr, table,
                  totals)
        scalars, updates, largest = device.to_host(totals).tolist()
        if largest > MOST_SCALARS:
            raise InvalidInputError(f"a front has {counted(largest, 'entry')}; at most {MOST_SCALARS:,} are supported")
        del self._placed                                    # frees memory of the size of A
        return Fronts(table, sizes[2], relative_rows(a), source, target, sorted_scale, scalars, updates)

    def by_height(self):
        """The forest of the fronts with ``levels - 1 - height`` in place of ``depth``: leaves are in the deepest level."""
        symbolic = self._analysis.symbolic
        parent, forest = symbolic.analysis_on_device.snode_parent, symbolic.forest_on_device
        height = device.xp().zeros(len(parent), np.int32)
        launch_1d(K.k_heights, len(parent), np.int32(len(parent)), parent, forest.child_ptr, height)
        return forest._replace(depth=np.int32(forest.levels - 1) - height)

    @cached_property
    def outside(self):
        """The entries above the diagonal blocks as :class:`Outside`."""
        xp, n, null = device.xp(), self._pattern.n, device.null
        if len(self._analysis.block_ptr) == 2:
            return Outside(xp.zeros(n + 1, np.int64), null(np.int32), null(np.int32), null(np.uint32), null(np.float64))
        pattern, (position, scale), at = self._pattern.uploaded(), self._placed[2:], self.permutation
        entry = xp.flatnonzero(position == OUTSIDE)
        column = inverse(at["columns"])[pattern.indices[entry]]
        order = xp.argsort(column, kind="stable")
        entry, column = entry[order], column[order]
        row = inverse(at["rows"])[xp.searchsorted(pattern.indptr, entry, side="right") - 1]
        ptr = xp.searchsorted(column, xp.arange(n + 1, dtype=column.dtype))
        return Outside(ptr.astype(np.int64), row, column, entry.astype(np.uint32), scale[entry])

    @cached_property
    def _placed(self):
        """Sizes of the fronts, begin of each front, positions and scales of the entries of A, on the GPU."""
        if self._pattern.nnz > MOST_ENTRIES:
            raise InvalidInputError(f"A has {counted(self._pattern.nnz, 'entry')}; at most {MOST_ENTRIES} are supported on the GPU")
        xp, pattern, a, at = device.xp(), self._pattern.uploaded(), self._analysis.symbolic.analysis_on_device, self.permutation
        count, n, block_ptr = np.int32(len(a.snode_parent)), np.int32(pattern.n), self._analysis.block_ptr
        block = np.repeat(np.arange(len(block_ptr) - 1, dtype=np.int32), np.diff(block_ptr)) if len(block_ptr) > 2 else None
        sizes, position = xp.empty((4, count), np.int64), xp.empty(pattern.nnz, np.int64)
        scale = xp.empty(pattern.nnz, np.float64)
        launch_1d(K.k_front_sizes, count, count, a.first, a.row_ptr, sizes)
        base = exclusive_scan(sizes[2])
        launch_1d(K.k_place_entries, n, n, count, pattern.indptr, pattern.indices, inverse(at["rows"]), inverse(at["columns"]),
                  device.null(np.int32) if block is None else device.to_device(block), at["rows_scale"], at["columns_scale"], a.first,
                  a.row_ptr, a.rows, sizes, base, position, scale)
        return sizes, base, position, scale


def above_of(outside, transposed):
    """Return (ptr, unknown, position of the value) of the entries above the diagonal blocks, by rows, or by columns if transposed."""
    xp, (ptr, row, column) = device.xp(), outside[:3]
    if len(row) == 0:
        return device.null(np.int64), device.null(np.int32), device.null(np.int64)
    if transposed:
        return ptr, row, xp.arange(len(row), dtype=np.int64)
    by_row = xp.argsort(row, kind="stable")
    row_ptr = xp.searchsorted(row[by_row], xp.arange(len(ptr), dtype=row.dtype))
    return row_ptr.astype(np.int64), column[by_row], by_row.astype(np.int64)
