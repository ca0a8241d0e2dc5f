"""The assembly tree, made on the GPU from an analysis on the GPU: table of fronts, positions, and the launches of each level.

The counterpart of tree.cpp, with the same integers. The number of launches and array expressions does not depend on the tree. The host
reads the totals, and the number of fronts and the largest panel for each level and kind of front. It also reads the table rows of
fronts that do not fit into shared memory.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.errors import InvalidInputError
from meshsolve.options import counted

K = device.kernels("factor/fronts/tree.cu")
MOST_ENTRIES = 2**32 - 1                                    # of A: a position in its values has 32 bits
KINDS = 6                                                   # of fronts in a launch order, as in tree.cu
# struct Front in fronts.cuh
COLUMNS = ("panel", "leading", "update", "vector", "rows", "first", "pivots", "height", "child_begin", "child_end")


def offsets(size, forest):
    """Return offsets of blocks such that two successive depths never overlap.

    Parameters
    ----------
    size : (kinds, count) int64 on the GPU
        Scalars of the blocks of each front.
    forest : Forest

    Returns
    -------
    offset : (kinds, count) int64 on the GPU
    most : (kinds, 2) uint64 on the GPU
        Scalars of the largest even and odd level; their sum is the total.
    """
    xp, (kinds, count) = device.xp(), size.shape
    order = xp.argsort(forest.depth, kind="stable")
    sums = xp.cumsum(size[:, order], dtype=np.int64)
    begin, most, offset = xp.empty(forest.levels, np.int32), xp.zeros((kinds, 2), np.uint64), xp.empty((kinds, count), np.int64)
    sizes = np.int32(kinds), np.int32(count)
    launch_1d(K.k_levels, forest.levels, *sizes, np.int32(forest.levels), forest.depth, order, sums, begin, most)
    launch_1d(K.k_offsets, count, *sizes, forest.depth, order, sums, begin, most, offset)
    return offset, most


def shape_of(analysis):
    """Return the parents, the pivots and the rows below them of all fronts, (3, count) int64 on the host. Reads once."""
    count = len(analysis.snode_parent)
    shape = device.xp().empty((3, count), np.int64)
    launch_1d(K.k_shape, count, np.int32(count), analysis.snode_parent, analysis.first, analysis.row_ptr, shape)
    return device.to_host(shape)


def table_of(analysis, forest, update=None):
    """Return the (count, 10) int64 table of fronts, and (scalars of panels, scalars of updates, rows of vectors). Reads once.

    ``update``: begin of each update matrix, (count,) int64 on the GPU. By default they are squares in two halves of a buffer.
    """
    xp, count = device.xp(), len(analysis.snode_parent)
    sizes, totals, table = xp.empty((4, count), np.int64), xp.empty(3, np.int64), xp.empty((count, len(COLUMNS)), np.int64)
    leading, panel, size = sizes[0], sizes[1], sizes[2:]
    launch_1d(K.k_front_sizes, count, np.int32(count), analysis.first, analysis.row_ptr, leading, panel, size)
    offset, most = offsets(size if update is None else size[1:], forest)
    launch_1d(K.k_table, count, np.int32(count), analysis.first, analysis.row_ptr, leading, xp.cumsum(panel),
              offset[0] if update is None else update, offset[-1], np.int32(len(most)), most, forest.child_ptr, table, totals)
    return table, tuple(device.to_host(totals).tolist())


def leading_dimension(height):
    """Return the leading dimension of panels of these heights, as in tree.cpp."""
    rounded = (height + 7) // 8 * 8
    return np.where(height < 64, height, rounded + 8 * (rounded % 64 == 0))


def positions(pattern, a):
    """(relative, entry_ptr, entry_source, entry_row) as in fronts.hpp, for a pattern and its analysis on the GPU. Does not wait.

    The last two have unused entries at their ends if the pattern lacks diagonal entries.
    """
    xp, n, nnz = device.xp(), np.int32(pattern.n), pattern.nnz
    if nnz > MOST_ENTRIES:
        raise InvalidInputError(f"A has {counted(nnz, 'entry')}; at most {MOST_ENTRIES} are supported on the GPU")
    size, most = xp.empty(n + 1, np.int32), (nnz + int(n)) // 2
    source, local = xp.empty(most, np.uint32), xp.empty(most, np.int32)
    matrix = pattern.indptr, pattern.indices, a.perm, a.iperm
    launch_1d(K.k_count_entries, n, n, *matrix, size)
    ptr = xp.cumsum(size, dtype=np.int64)
    launch_1d(K.k_place_entries, n, n, np.int32(len(a.snode_parent)), *matrix, a.first, a.row_ptr, a.rows, ptr, source, local)
    return relative_rows(a), ptr, source, local


def relative_rows(a):
    """Return the local row in the parent of each row below the pivots, (rows,) int32 on the GPU, for an analysis on the GPU."""
    relative, count = device.xp().empty(len(a.rows), np.int32), np.int32(len(a.snode_parent))
    device.launch(K.k_relative, device.grid_for(32 * count, 128), 128, 0, (count, a.snode_parent, a.first, a.row_ptr, a.rows, relative))
    return relative


def launch_order(table, panel, forest, bounds, least):
    """Sort the fronts by launch: the deepest level first, within a level by kind, within a kind the largest first. Reads once.

    Parameters
    ----------
    table : (count, 10 or more) int64 on the GPU
        Fronts; the first columns are COLUMNS.
    panel : (count,) int64 on the GPU
        Scalars of a front that are in shared memory while it is factored.
    forest : Forest
    bounds : sequence of four integers
        The kind of a front is the number of the last bound that its panel exceeds, counted from 1; 0 if there is no such bound.
    least : int
        Pivots from which a front of kind 4 is of kind 5.

    Returns
    -------
    order : (count,) int32 on the GPU
    cuts : (levels, 7) on the host
        Fronts ``order[cuts[l, k]:cuts[l, k + 1]]`` are of kind k.
    largest : (levels, 6) on the host
        Scalars of their largest panel.
    """
    xp, count, groups = device.xp(), len(panel), KINDS * forest.levels
    keys, order, cuts = xp.empty((2, count), np.int64), xp.empty(count, np.int32), xp.empty(2 * (groups + 1), np.int64)
    launch_1d(K.k_groups, count, np.int32(count), np.int32(table.shape[1]), np.int32(forest.levels), table, panel, forest.depth,
              *map(np.int64, bounds), np.int64(least), keys)
    launch_1d(K.k_cuts, max(count, groups + 1), np.int32(count), np.int32(groups), xp.lexsort(keys), keys[1], panel, order, cuts)
    cuts, largest = device.to_host(cuts).reshape(2, groups + 1)
    return order, np.lib.stride_tricks.sliding_window_view(cuts, KINDS + 1)[::KINDS], largest[:-1].reshape(-1, KINDS)


def chosen_fronts(position, order, table):
    """Return (numbers, {column of the table: values}) on the host of the fronts at these positions of an order, positions on the host."""
    width = table.shape[1]
    chosen = np.empty((0, width + 1), np.int64)
    if len(position):
        found = device.xp().empty((len(position), width + 1), np.int64)
        launch_1d(K.k_chosen, len(position), np.int32(len(position)), np.int32(width), device.to_device(position.astype(np.int32)), order,
                  table, found)
        chosen = device.to_host(found)
    return chosen[:, 0], dict(zip(COLUMNS, chosen.T[1:]))
