"""The assembly tree on the GPU: one table of fronts, and what runs in which launch.

Twin of tree.cpp and schedule.cpp; the kernels' side is fronts.cuh. Fronts of one depth run together, the deepest first: the
children of a front are then all of the level before, and update matrices fit into two halves of one buffer. The tree is made
on the host, once for each analysis, and uploaded; its arrays are small beside the panels. Factorizations whose fronts hold more
than a panel make their own table, and take :func:`depths`, :func:`offsets` and :func:`levels` for what runs when.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.factor.fronts import assembly_tree

K = device.kernels("factor/fronts/residual.cu")
PIVOT_BLOCK, TILE, ASSEMBLY_COLUMNS = 32, 64, 8             # as in tiles.cuh, cholesky.cu, fronts.cu
CLASSES = ((1024, 64), (2816, 128))                         # scalars of a panel, threads of the block that holds it


class Limits(NamedTuple):
    """How the fronts are dealt out; what is above ``small`` goes by tiles."""

    tiny: int = 512             # scalars of a panel that a warp holds in shared memory
    small: int = 6016           # ... that a block holds: 47 of the 48 kB that every GPU gives
    dense: int = 384            # columns from which libraries are faster than tiles


LIMITS = Limits()


class Batch(NamedTuple):
    """Fronts of one launch."""

    fronts: object              # their numbers, int32 on the device
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


class Wide(NamedTuple):
    """Fronts that go by tiles, the widest first."""

    fronts: object
    count: int                  # type: ignore[assignment]      # hides tuple.count
    steps: tuple
    updates: int                # rows of the largest update matrix


class Dense(NamedTuple):
    """Where one front that libraries factor lies: offsets and sizes as in the table."""

    front: object               # its number, (1,) int32 on the device
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

    batches: tuple              # in shared memory, a warp's first
    tiles: object               # (2 tiles,) int32: front and first column of what k_assemble clears and assembles
    wide: Wide | None
    dense: tuple
    libraries: Wide | None      # the same fronts in steps
    solved: tuple               # batches for a solve: every front but the dense ones


@dataclass(frozen=True, eq=False)
class DeviceTree:
    """What the kernels read of an assembly tree, on the device, and its levels from the deepest to the roots."""

    n: int
    count: int
    panel_scalars: int
    update_scalars: int
    vector_rows: int            # of what is passed on in a solve
    table: object
    child: object
    relative: object
    rows: object
    perm: object
    entry_ptr: object
    entry_source: object
    entry_row: object
    levels: tuple

    @classmethod
    def build(cls, symbolic, threads=1):
        """The tree of an analysis, uploaded. O(nnz(A) + rows of the supernodes) time and memory, most of it on the host."""
        tree, analysis = assembly_tree(symbolic, threads), symbolic.native
        depth = depths(analysis.snode_parent)
        table, updates, vectors = _table(tree, analysis, depth)
        arrays = (table, tree.child, tree.relative, analysis.rows, analysis.perm, tree.entry_ptr, tree.entry_source,
                  tree.entry_row)
        return cls(len(analysis.perm), tree.count, tree.panel_scalars, updates, vectors,
                   *(device.to_device(np.ascontiguousarray(a)) for a in arrays), _levels_of(table, depth))

    @property
    def entries(self):
        """What the assembly kernels begin their arguments with."""
        return self.table, self.child, self.relative, self.entry_ptr, self.entry_source, self.entry_row

    @property
    def nbytes(self):
        arrays = (*self.entries, self.rows, self.perm)
        return sum(array.nbytes for array in arrays)


def residual(indptr, indices, data, X, B, magnitudes=False):
    """B - A X (or B - |A| X) for (n, k) float64 arrays on the device; A in compressed rows."""
    xp, (n, k) = device.xp(), B.shape
    X, B, R = xp.ascontiguousarray(X), xp.ascontiguousarray(B), xp.empty((n, k), np.float64)
    device.launch(K.k_residual, device.grid_for(n * k, 256), 256, 0,
                  (np.int32(n), np.int32(k), np.int32(magnitudes), indptr, indices, data, X, B, R))
    return R


# struct Front in fronts.cuh
COLUMNS = ("panel", "leading", "update", "vector", "rows", "first", "pivots", "height", "child_begin", "child_end")


def depths(parent):
    """Distance of each front from its root, by pointer doubling."""
    depth, above = (parent >= 0).astype(np.int64), parent.astype(np.int64)
    while (above >= 0).any():
        inside = above >= 0
        depth[inside] += depth[above[inside]]
        above = np.where(inside, above[np.maximum(above, 0)], -1)
    return depth


def _table(tree, analysis, depth):
    """The (count, 10) int64 table of fronts, and how much room update matrices and update vectors take."""
    pivots = np.diff(analysis.first).astype(np.int64)
    rows = np.diff(analysis.row_ptr)
    update, updates = offsets(rows * rows, depth)
    vector, vectors = offsets(rows, depth)
    leading = np.diff(tree.panel_ptr) // pivots
    columns = (tree.panel_ptr[:-1], leading, update, vector, analysis.row_ptr[:-1], analysis.first[:-1], pivots, pivots + rows,
               tree.child_ptr[:-1], tree.child_ptr[1:])
    return np.stack(columns, axis=1).astype(np.int64), updates, vectors


def offsets(size, depth):
    """Where blocks of these sizes lie so that two successive depths never overlap, and the room that takes."""
    order = np.argsort(depth, kind="stable")
    before = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size[order], out=before[1:])
    begin = np.searchsorted(depth[order], np.arange(depth.max() + 2))
    of_level = before[begin[1:]] - before[begin[:-1]]
    even, odd = int(of_level[::2].max(initial=0)), int(of_level[1::2].max(initial=0))
    offset = np.empty(len(size), np.int64)
    offset[order] = before[:-1] - before[begin[depth[order]]] + np.where(depth[order] % 2, even, 0)
    return offset, even + odd


def _levels_of(table, depth):
    front = dict(zip(COLUMNS, table.T))
    return levels(front, front["pivots"] * front["height"], depth, LIMITS)


def levels(front, panel, depth, limits):
    """The fronts of each depth by kind and size, and the launches that this makes; the deepest level first.

    Parameters
    ----------
    front : dict of (count,) arrays
        Columns of the table, by name.
    panel : (count,) int64
        Scalars of a front that lie in shared memory while it is factored.
    depth : (count,) int64
        From :func:`depths`.
    limits : Limits

    Returns
    -------
    tuple of Level
    """
    kind = (panel > limits.tiny).astype(np.int64)
    for k, (scalars, _) in enumerate(CLASSES, 1):
        kind[panel > max(scalars, limits.tiny)] = k + 1
    wide, dense = len(CLASSES) + 2, len(CLASSES) + 3
    kind[panel > limits.small] = wide
    kind[(panel > limits.small) & (front["pivots"] >= limits.dense)] = dense
    order = np.lexsort((-front["pivots"], kind, -depth)).astype(np.int32)
    cuts = np.searchsorted(-depth[order], -np.arange(depth.max(), -2, -1))
    parts = [order[a:b] for a, b in zip(cuts[:-1], cuts[1:])]
    return tuple(_level(front, part, kind[part], panel, wide, dense) for part in parts)


def _level(front, part, kind, panel, wide, dense):
    cut = np.searchsorted(kind, np.arange(dense + 2))
    on_device = device.to_device(part)

    def batch(begin, end, threads, per_warp=False):
        return Batch(on_device[begin:end], int(end - begin), int(panel[part[begin:end]].max()), threads, per_warp)

    threads = (128, *(threads for _, threads in CLASSES), 256)
    batches = tuple(batch(cut[k], cut[k + 1], threads[k], k == 0) for k in range(wide) if cut[k] < cut[k + 1])
    solved = [batch(0, cut[1], 128, True)] if cut[1] else []
    if cut[1] < cut[dense]:
        solved.append(batch(cut[1], cut[dense], 256))
    return Level(batches, device.to_device(_tiles(front, part[cut[wide]:])),
                 _wide(front, part[cut[wide]:cut[dense]], on_device[cut[wide]:cut[dense]]),
                 tuple(_dense(front, s, on_device[k:k + 1]) for k, s in enumerate(part) if kind[k] == dense),
                 _wide(front, part[cut[dense]:], on_device[cut[dense]:]), tuple(solved))


def _tiles(front, fronts):
    """(front, first column) of every tile of columns of these fronts, flat."""
    count = -(-front["height"][fronts] // ASSEMBLY_COLUMNS)
    begin = np.cumsum(count) - count
    tile = np.arange(count.sum()) - np.repeat(begin, count)
    return np.stack([np.repeat(fronts, count), ASSEMBLY_COLUMNS * tile], axis=1).astype(np.int32).reshape(-1)


def _wide(front, fronts, on_device):
    if len(fronts) == 0:
        return None
    pivots, height = front["pivots"][fronts], front["height"][fronts]          # pivots descend
    steps = []
    for begin in range(0, int(pivots[0]), PIVOT_BLOCK):
        count = int(np.searchsorted(-pivots, -begin))
        end = np.minimum(begin + PIVOT_BLOCK, pivots[:count])
        steps.append(Step(begin, count, *(int(most.max()) for most in (height[:count] - end, pivots[:count] - end,
                                                                       (height - pivots)[:count]))))
    return Wide(on_device, len(fronts), tuple(steps), int((height - pivots).max()))


def _dense(front, s, number):
    names = ("first", "panel", "leading", "update", "vector", "pivots", "height")
    return Dense(number, *(int(front[name][s]) for name in names))
