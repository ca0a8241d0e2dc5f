"""The assembly tree, made on the GPU from an analysis on the GPU: table of fronts, positions, and the launches of each level.

The counterpart of tree.cpp, with the same integers. Only launch sizes are copied to the host: the number of fronts and the largest
panel, for each level and kind of front. The host also reads the table rows of fronts that do not fit into shared memory.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError
from meshsolve.factor.symbolic.cuda import children
from meshsolve.options import counted
from meshsolve.sparse.lists_cuda import exclusive_scan, total

K = device.kernels("factor/fronts/tree.cu")
MOST_ENTRIES = 2**32 - 1                                    # of A: a position in its values has 32 bits
# struct Front in fronts.cuh
COLUMNS = ("panel", "leading", "update", "vector", "rows", "first", "pivots", "height", "child_begin", "child_end")


def depths(parent):
    """Distance of each front from its root, int64, by pointer doubling."""
    xp = device.xp()
    depth, above = (parent >= 0).astype(np.int64), parent.astype(np.int64)
    while is_any(above >= 0):
        up = xp.maximum(above, 0)
        depth, above = depth + xp.where(above >= 0, depth[up], 0), xp.where(above >= 0, above[up], -1)
    return depth


def offsets(size, depth):
    """Offsets of blocks of these sizes, such that two successive depths never overlap, and the total number of scalars."""
    xp, levels = device.xp(), int(depth.max()) + 1
    order = xp.argsort(depth, kind="stable")
    before = exclusive_scan(size[order])
    begin = xp.searchsorted(depth[order], xp.arange(levels + 1))
    of_level = device.to_host(before[begin[1:]] - before[begin[:-1]])
    even, odd = (int(of_level[parity::2].max(initial=0)) for parity in (0, 1))
    offset = xp.empty(len(size), np.int64)
    offset[order] = before[:-1] - before[begin[depth[order]]] + xp.where(depth[order] % 2 == 1, even, 0)
    return offset, even + odd


def table_of(analysis, depth, update=None):
    """The (count, 10) int64 table of fronts, their children, and the scalars of panels, updates and the rows of vectors.

    ``update``: begin of each update matrix and scalars of all; otherwise they are squares in two halves of a buffer.
    """
    xp, count = device.xp(), len(analysis.snode_parent)
    child, child_ptr = children(analysis.snode_parent)
    pivots, rows = xp.diff(analysis.first).astype(np.int64), xp.diff(analysis.row_ptr)
    leading = leading_dimension(pivots + rows)
    panel = exclusive_scan(pivots * leading)
    update, updates = offsets(rows * rows, depth) if update is None else update
    vector, vectors = offsets(rows, depth)
    columns = (panel[:-1], leading, update, vector, analysis.row_ptr[:-1], analysis.first[:-1].astype(np.int64), pivots, pivots + rows,
               child_ptr[:count], child_ptr[1:count + 1])
    return xp.ascontiguousarray(xp.stack(columns, axis=1)), child, (total(panel), updates, vectors)


def leading_dimension(height):
    """Leading dimension of panels of these heights as in tree.cpp, for arrays on the host or on the GPU."""
    xp, rounded = device.xp() if device.holds(height) else np, (height + 7) // 8 * 8
    return xp.where(height < 64, height, rounded + 8 * (rounded % 64 == 0))


def positions(pattern, a):
    """(relative, entry_ptr, entry_source, entry_row) as in fronts.hpp, for a pattern and its analysis on the GPU."""
    xp, n, count = device.xp(), pattern.n, len(a.snode_parent)
    if pattern.nnz > MOST_ENTRIES:
        raise InvalidInputError(f"A has {counted(pattern.nnz, 'entry')}; at most {MOST_ENTRIES} are supported on the GPU")
    relative = xp.empty(len(a.rows), np.int32)
    device.launch(K.k_relative, device.grid_for(32 * count, 128), 128, 0,
                  (np.int32(count), a.snode_parent, a.first, a.row_ptr, a.rows, relative))
    matrix, size = (np.int32(n), pattern.indptr, pattern.indices, a.perm, a.iperm), xp.empty(n, np.int32)
    launch_1d(K.k_count_entries, n, *matrix, size)
    ptr = exclusive_scan(size)
    source, local = xp.empty(total(ptr), np.uint32), xp.empty(total(ptr), np.int32)
    node = (xp.searchsorted(a.first, xp.arange(n, dtype=np.int32), side="right") - 1).astype(np.int32)
    launch_1d(K.k_place_entries, n, *matrix, node, a.first, a.row_ptr, a.rows, ptr, source, local)
    return relative, ptr, source, local


def launch_order(pivots, panel, depth, bounds):
    """Sort the fronts by launch: the deepest level first, within a level by kind, within a kind the largest first.

    Parameters
    ----------
    pivots, panel, depth : (count,) int64 on the GPU
    bounds : sequence of (scalars of the panel, least pivots)
        The kind of a front is the last one with a smaller panel and at most as many pivots; 0 if there is no such kind.

    Returns
    -------
    order : (count,) int32 on the GPU
    cuts : (levels, kinds + 1) on the host
        Fronts ``order[cuts[l, k]:cuts[l, k + 1]]`` are of kind k.
    largest : (levels, kinds) on the host
        Scalars of their largest panel.
    """
    xp, kinds = device.xp(), len(bounds) + 1
    kind = xp.zeros(len(panel), np.int64)
    for k, (scalars, least) in enumerate(bounds, 1):
        kind = xp.where((panel > scalars) & (pivots >= least), k, kind)
    levels = int(depth.max()) + 1
    group = (levels - 1 - depth) * kinds + kind
    size = xp.where(kind < kinds - 2, panel, pivots)        # steps by tiles need the fronts with most pivots first
    order = xp.lexsort(xp.stack([-size, group])).astype(np.int32)
    cuts = xp.searchsorted(group[order], xp.arange(levels * kinds + 1))
    largest = panel[order[xp.minimum(cuts[:-1], len(order) - 1)]]
    cuts, largest = device.to_host(cuts), device.to_host(largest).reshape(levels, kinds)
    return order, np.lib.stride_tricks.sliding_window_view(cuts, kinds + 1)[::kinds], largest
