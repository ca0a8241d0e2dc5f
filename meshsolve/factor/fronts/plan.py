"""What the two launches of a numeric phase on the GPU do: leaf subtrees in shared memory, tiles of the fronts above them in a queue.

The plan follows from the assembly tree and from the shared memory of a thread block. It is made on the host, once for each analysis,
and is uploaded as two arrays. Sources: Liu 1992 (subtrees.hpp), and Hogg, Reid and Scott 2010, "Design of a multicore sparse Cholesky
factorization using DAGs" (tasks on the tiles of all fronts in one queue).

Update matrices are packed lower triangles. Roots of subtrees have memory of their own. Fronts of the queue use two halves of one
buffer, by parity of their depth: a front is stored after all tiles of the depth below have read their children.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core, device

TILE = 64                               # rows and columns of a tile, as in queue.cu
WARPS = 8                               # of a thread block; each has its part of the workspace while warps factor subtrees of their own
BLOCKS_EACH = 2                         # thread blocks per multiprocessor, for both kernels
STATIC_SHARED = 64                      # bytes that subtree.cu leaves free for static shared memory
TASK_FRONTS = 64                        # fronts from which a thread block takes no further subtree
QUEUE, BLOCK, WARP = range(3)           # owners of fronts, as in subtrees.hpp
NONE = np.iinfo(np.int32).max           # failed column, and exponent of the smallest pivot, before the first pivot
FAILED, LEAST, BITS, STALLED, TICKET, COUNTERS = range(6)           # words of the status, as in pivots.cuh
STALL = 1 << 17                         # bit of a wait in vain; none of the bits of check_cuda.py and capture.py


class Plan(NamedTuple):
    """Work of a numeric phase; arrays are int32 on the GPU."""

    subtree_tasks: object       # (4 blocks,) begin and end of the subtrees of warps, begin and end of the fronts of the block
    subtrees: object            # (2 subtrees,) first front and root of each subtree of a warp
    fronts: object              # fronts of thread blocks, in postorder
    panel_at: object            # (count,) begin of each panel in shared memory
    tiles: object               # (3 tiles,) number of the front in the queue, row and column of each tile, in the order of tickets
    queued: object              # (4 fronts,) front, index of its progress or -1, number of its parent or -1, depth
    tiles_of_depth: object      # tiles of the queue by depth
    initial: object             # status before a numeric phase: five numbers, and the counters of the queue
    numbers: tuple              # of blocks, tiles, queued fronts, depths: on the host
    workspace: tuple            # scalars of shared memory of a thread block and of a warp
    update_scalars: int


def workspace_of_device():
    """Return the scalars of shared memory of a thread block, such that BLOCKS_EACH are resident, and of a warp."""
    scalars = (device.shared_limit() // BLOCKS_EACH - STATIC_SHARED) // 8
    return scalars, scalars // WARPS


def plan_of(parent, pivots, height, workspace, boundary=0):
    """Plan the numeric phase of a tree.

    Parameters
    ----------
    parent : (count,) int32 on the host
        Parent of each front in postorder, -1 for a root.
    pivots, height : (count,) int64 on the host
        Columns and rows of each front.
    workspace : (int, int)
        Scalars of shared memory of a thread block and of a warp.
    boundary : int
        Columns of the last front if it is assembled and not eliminated, else 0.

    Returns
    -------
    Plan
    update : (count,) int64 on the GPU
        Begin of each update matrix in global memory, in scalars; ~begin if it is in shared memory.
    """
    rows = height - pivots
    size = rows * (rows + 1) // 2
    panel = height * pivots + pivots                        # with the diagonal of A
    of_block, of_warp = workspace
    if boundary:
        panel[-1] = of_block + 1                            # in the queue, whatever its size
    owner, is_root, panel_at, update_at, begin, depth = _core.leaf_subtrees(parent, panel, size, of_warp, of_block)
    fronts = np.flatnonzero(owner == BLOCK)
    roots = np.flatnonzero((owner == WARP) & (is_root == 1))
    tasks = _subtree_tasks(parent, owner, begin, panel, fronts, roots)
    queue = _Queue(parent, pivots, rows, depth, np.flatnonzero(owner == QUEUE), boundary > 0)
    offset, stored = np.where(update_at >= 0, ~update_at.astype(np.int64), 0), np.flatnonzero(is_root)
    offset[stored] = np.cumsum(size[stored]) - size[stored]
    offset[queue.fronts], halves = _two_halves(size[queue.fronts], queue.depth)
    offset[queue.fronts] += size[stored].sum()
    parts = tasks, np.stack([begin[roots], roots], axis=1), fronts, panel_at, queue.tiles, queue.table, queue.tiles_of_depth, queue.initial
    uploaded = device.to_device(np.concatenate([part.ravel().astype(np.int32) for part in parts]))
    ends = np.cumsum([part.size for part in parts]).tolist()
    numbers = len(tasks), len(queue.tiles), len(queue.fronts), len(queue.tiles_of_depth)
    return Plan(*(uploaded[end - part.size:end] for part, end in zip(parts, ends)), numbers, workspace,
                int(size[stored].sum()) + halves), device.to_device(offset)


def _subtree_tasks(parent, owner, begin, panel, fronts, roots):
    """Return the work of each thread block: successive subtrees below queued fronts, the most expensive first.

    ``fronts`` are those of thread blocks, ``roots`` those of the subtrees of warps.
    """
    tops = np.flatnonzero((owner != QUEUE) & ((parent < 0) | (owner[parent] == QUEUE)))
    size = tops + 1 - begin[tops]
    group = (np.cumsum(size) - size) // TASK_FRONTS
    first = np.flatnonzero(np.diff(group, prepend=-1))
    begin, end = begin[tops[first]], np.append(tops[first[1:] - 1], tops[-1:]) + 1
    cost = np.append(0, np.cumsum(panel))
    order = np.argsort(cost[begin] - cost[end], kind="stable")
    cuts = [np.searchsorted(numbers, edge) for numbers in (roots, fronts) for edge in (begin, end)]
    return np.stack(cuts, axis=1)[order]


class _Queue:
    """Tiles of the fronts above the subtrees. A tile is a block of rows by a block of columns; blocks are cut at the last pivot.

    The order of tickets is topological: deepest fronts first, then by columns, then from the diagonal on. So a tile waits only for
    tiles that a running thread block has claimed.
    """

    def __init__(self, parent, pivots, rows, depth, fronts, has_boundary):
        order = np.lexsort((-pivots[fronts], -depth[fronts]))
        self.fronts = fronts = fronts[order]
        self.depth = depth = depth[fronts]
        number = np.full(len(parent) + 1, -1)               # the last entry is the number of the parent of a root
        number[fronts] = np.arange(len(fronts))
        of_pivots, of_rows = -(-pivots[fronts] // TILE), -(-rows[fronts] // TILE)
        blocks, above = of_pivots + of_rows, number[parent[fronts]]
        progress = np.cumsum(blocks) - blocks
        if has_boundary:
            progress[fronts == len(parent) - 1] = -1        # assembled alone
        self.table = np.stack([fronts, progress, above, depth], axis=1)
        front, column = _expand(blocks)
        k, below = _expand(blocks[front] - column)
        front, column = front[k], column[k]
        order = np.lexsort((front, below, column, -depth[front]))
        self.tiles = np.stack([front, column + below, column], axis=1)[order]
        self.tiles_of_depth = np.bincount(depth[front], minlength=depth.max(initial=-1) + 2)
        remaining = np.zeros(len(fronts), np.int64)         # tiles of children's update matrices that are not stored yet
        np.add.at(remaining, above[above >= 0], (of_rows * (of_rows + 1) // 2)[above >= 0])
        self.initial = np.concatenate([[NONE, NONE, 0, 0, 0], remaining, np.zeros(len(self.tiles_of_depth) + blocks.sum(), np.int64)])


def _expand(count):
    """Return (k, 0), (k, 1), ... (k, count[k] - 1) for each k, as two arrays."""
    owner = np.repeat(np.arange(len(count)), count)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)


def _two_halves(size, depth):
    """Return offsets of blocks such that two successive depths never overlap, and the number of scalars; depths descend."""
    of_depth = np.bincount(depth, size, depth.max(initial=-1) + 1).astype(np.int64)
    even, odd = (int(of_depth[parity::2].max(initial=0)) for parity in (0, 1))
    before = np.cumsum(size) - size
    offset = before - before[np.searchsorted(-depth, -depth)]
    return offset + np.where(depth % 2 == 1, even, 0), even + odd
