"""The assembly tree on the GPU: one table of fronts, and the fronts of each launch.

The counterpart of tree.cpp and schedule.cpp; kernels read the table through fronts.cuh. Fronts of one depth run together, the deepest
first. All children of a front are then in the level before, and update matrices fit into two halves of one buffer. The tree is made
on the GPU, once for each analysis (tree_cuda.py). Its arrays are small compared with the panels. A factorization whose fronts store
more than a panel makes its own table and uses :func:`levels` for the schedule.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.device import MOST_ACROSS
from meshsolve.factor.fronts.plan import Plan, plan_of, workspace_of_device
from meshsolve.factor.fronts.tree_cuda import chosen_fronts, launch_order, positions, shape_of, table_of

C = device.kernels("factor/fronts/columns.cu")
PIVOT_BLOCK, TILE, ASSEMBLY_COLUMNS = 32, 64, 8             # as in tiles.cuh, lu/fronts/fronts.cu
DEEPEST, MOST_CHILDREN = 4000, 1 << 15                      # of a tree for which the GPU is faster
CLASSES = ((1024, 64), (2816, 128))                         # largest panel in scalars, threads of its block


class Limits(NamedTuple):
    """Sizes that decide how fronts are factored; fronts above ``small`` are factored by tiles."""

    tiny: int = 512             # scalars of a panel that a warp holds in shared memory
    small: int = 6016           # ... that a thread block holds: 47 of the 48 kB of every GPU
    dense: int = 384            # columns from which libraries are faster than tiles


LIMITS = Limits()


class Batch(NamedTuple):
    """Fronts of one launch."""

    fronts: object              # their numbers, int32 on the GPU
    count: int                  # type: ignore[assignment]      # hides tuple.count
    capacity: int               # scalars of the largest panel
    threads: int                # of a block
    per_warp: bool


class Step(NamedTuple):
    """One step by tiles: the columns from ``begin`` on of the first ``count`` fronts."""

    begin: int
    count: int                  # type: ignore[assignment]      # hides tuple.count
    rows: int                   # most rows below the step's columns
    columns: int                # most pivot columns after them
    updates: int                # most rows of an update matrix


class LargeFronts(NamedTuple):
    """Fronts that are factored by tiles, those with most pivots first."""

    fronts: object
    count: int                  # type: ignore[assignment]      # hides tuple.count
    steps: tuple
    updates: int                # rows of the largest update matrix


class Dense(NamedTuple):
    """A front whose products and triangular solves are calls of cuBLAS: offsets and sizes as in the table."""

    front: object               # its number, (1,) int32 on the GPU
    first: int
    panel: int
    leading: int
    update: int
    vector: int
    pivots: int
    height: int

    @property
    def updates(self):
        return self.height - self.pivots


@dataclass(frozen=True, eq=False)
class Level:
    """The fronts of one depth."""

    batches: tuple              # in shared memory; the fronts of one warp come first
    tiles: object               # (2 tiles,) int32: front and first column of each tile that k_assemble clears and assembles
    large: tuple                 # of LargeFronts, each as many as a grid has blocks in its second and third dimension
    dense: tuple
    libraries: tuple            # of LargeFronts: the dense fronts, for factorizations that take their pivots by tiles


@dataclass(frozen=True, eq=False)
class DeviceTree:
    """The arrays of an assembly tree that kernels read, on the GPU."""

    n: int
    count: int
    panel_scalars: int
    update_scalars: int
    table: object
    child: object
    parent: object
    depth: object               # of each front, int32
    relative: object
    rows: object
    perm: object
    entry_ptr: object
    entry_source: object
    entry_row: object
    plan: Plan                  # of the numeric phase
    boundary: int               # columns of the last front if it is not eliminated, as in a Schur complement, else 0

    @classmethod
    def build(cls, symbolic):
        """Make the tree of an analysis on the GPU. O(nnz(A) + rows of the supernodes) time and memory."""
        pattern, analysis, forest = symbolic.pattern_on_device, symbolic.analysis_on_device, symbolic.forest_on_device
        parent, pivots, rows = shape_of(analysis)
        plan, update = plan_of(parent.astype(np.int32), pivots, pivots + rows, workspace_of_device(), symbolic.boundary)
        table, (panels, _, _) = table_of(analysis, forest, update)
        relative, *entries = positions(pattern, analysis)
        return cls(pattern.n, len(table), panels, plan.update_scalars, table, forest.child, analysis.snode_parent, forest.depth, relative,
                   analysis.rows, analysis.perm, *entries, plan, symbolic.boundary)

    @property
    def entries(self):
        """The first arguments of the assembly kernels."""
        return self.table, self.child, self.relative, self.entry_ptr, self.entry_source, self.entry_row

    @cached_property
    def eliminated(self):
        """The tree without the front of the boundary, whose children become roots, for solves."""
        last, xp = self.count - 1, device.xp()
        parent = self.parent[:last]
        return replace(self, count=last, parent=xp.where(parent == last, np.int32(-1), parent))

    @property
    def nbytes(self):
        arrays = (*self.entries, self.rows, self.perm)
        return sum(array.nbytes for array in arrays)


def strides(B):
    """Strides of a 2-d array on the GPU in elements, as kernel arguments."""
    return tuple(np.int64(stride // B.itemsize) for stride in B.strides)


def to_columns(B, begin, count, width, Y, rows=None, position=None, scale=None):
    """Y(position[i], c) := scale[i] B(rows[i], begin + c) for ``count`` columns, zeros up to ``width``; without an array i, or unscaled."""
    sizes, (row, column) = (np.int32(len(B)), np.int32(count), np.int32(width)), strides(B)
    device.launch(C.of(Y.dtype).k_to_columns, device.grid_for(len(B) * width, 256), 256, 0,
                  (*_given(rows, position, scale), *sizes, B, begin * column, row, column, Y))


def from_columns(Y, X, begin, count, rows=None, position=None, scale=None, failed=None):
    """X(rows[i], begin + c) := scale[i] Y(position[i], c) for ``count`` columns, NaN if ``failed``, (1,) int32 on the GPU, is not 0."""
    sizes, (row, column) = (np.int32(len(X)), np.int32(count)), strides(X)
    device.launch(C.of(Y.dtype).k_from_columns, device.grid_for(len(X) * count, 256), 256, 0,
                  (*_given(rows, position, scale), device.null(np.int32) if failed is None else failed, *sizes, Y, X, begin * column, row,
                   column))


def column_major(array, offset, rows, columns, leading):
    """(rows, columns) of a flat array from ``offset`` on, columns ``leading`` apart."""
    return array[offset:offset + leading * columns].reshape(columns, leading).T[:rows]


def device_tree(symbolic):
    """Return the tree of an analysis on the GPU, made once and shared by all its factors."""
    tree = _trees.get(symbolic)
    if tree is None:
        tree = _trees[symbolic] = DeviceTree.build(symbolic)
    return tree


def suits(symbolic):
    """True if the GPU is faster with the tree of an analysis. A front waits for its children, and adds them one after the other. With
    small fronts, the CPU takes a microsecond for either."""
    forest = symbolic.forest_on_device
    return forest.levels <= DEEPEST and forest.most_children <= MOST_CHILDREN


_trees: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
LARGE, DENSE = len(CLASSES) + 2, len(CLASSES) + 3            # kinds of fronts: one warp, those of CLASSES, the largest block, ...


def levels(table, panel, forest, limits):
    """Sort the fronts of each depth by kind and size, and group them into launches; the deepest level first.

    Parameters
    ----------
    table : (count, 10 or more) int64 on the GPU
        Fronts; the first columns are COLUMNS.
    panel : (count,) int64 on the GPU
        Scalars of a front that are in shared memory while it is factored.
    forest : Forest
    limits : Limits

    Returns
    -------
    tuple of Level
    """
    bounds = limits.tiny, *(max(scalars, limits.tiny) for scalars, _ in CLASSES), limits.small
    order, cuts, largest = launch_order(table, panel, forest, bounds, limits.dense)
    is_large = np.zeros(cuts[-1, -1], bool)
    for cut in cuts:
        is_large[cut[LARGE]:cut[-1]] = True
    numbers, front = chosen_fronts(np.flatnonzero(is_large), order, table)
    tiles, tile_ptr = tiles_of(numbers, front["height"])
    out, at = [], 0
    for cut, capacity in zip(cuts, largest):
        tiled, dense = at + cut[DENSE] - cut[LARGE], at + cut[-1] - cut[LARGE]
        out.append(Level(
            _batches(order, cut, capacity), tiles[2 * tile_ptr[at]:2 * tile_ptr[dense]],
            _by_tiles(front, at, tiled, order[cut[LARGE]:cut[DENSE]]),
            tuple(_dense(front, k, order[cut[-1] - dense + k:][:1]) for k in range(tiled, dense)),
            _by_tiles(front, tiled, dense, order[cut[DENSE]:cut[-1]])))
        at = dense
    return tuple(out)


def tiles_of(numbers, height):
    """(front, first column) of every tile of columns of these fronts (numbers on the host), flat, on the GPU; begin of the tiles of
    each front."""
    count = -(-height // ASSEMBLY_COLUMNS)
    begin = np.zeros(len(count) + 1, np.int64)
    np.cumsum(count, out=begin[1:])
    tile = np.arange(begin[-1]) - np.repeat(begin[:-1], count)
    tiles = np.stack([np.repeat(numbers, count), ASSEMBLY_COLUMNS * tile], axis=1).astype(np.int32)
    return device.to_device(tiles.reshape(-1)), begin


def _given(rows, position, scale):
    """These arrays as kernel arguments: null for a missing array."""
    dtypes = np.int32, np.int32, np.float64
    return tuple(device.null(dtype) if array is None else array for array, dtype in zip((rows, position, scale), dtypes))


def _batches(order, cut, capacity):
    """Batches of the fronts in shared memory, one launch for each kind."""
    threads = (128, *(threads for _, threads in CLASSES), 256)
    return tuple(Batch(order[cut[k]:cut[k + 1]], int(cut[k + 1] - cut[k]), int(capacity[k]), threads[k], k == 0)
                 for k in range(LARGE) if cut[k] < cut[k + 1])


def _by_tiles(front, begin, end, fronts):
    """The large fronts ``begin`` to ``end - 1``, in parts of at most the size of a grid."""
    return tuple(_wide(front, k, min(k + MOST_ACROSS, end), fronts[k - begin:]) for k in range(begin, end, MOST_ACROSS))


def _wide(front, begin, end, fronts):
    """The steps of the large fronts ``begin`` to ``end - 1``, whose pivots descend."""
    pivots, height = front["pivots"][begin:end], front["height"][begin:end]
    steps = []
    for column in range(0, int(pivots[0]), PIVOT_BLOCK):
        count = int(np.searchsorted(-pivots, -column))
        stop = np.minimum(column + PIVOT_BLOCK, pivots[:count])
        most = height[:count] - stop, pivots[:count] - stop, (height - pivots)[:count]
        steps.append(Step(column, count, *(int(size.max()) for size in most)))
    return LargeFronts(fronts[:end - begin], end - begin, tuple(steps), int((height - pivots).max()))


def _dense(front, k, number):
    names = ("first", "panel", "leading", "update", "vector", "pivots", "height")
    return Dense(number, *(int(front[name][k]) for name in names))
