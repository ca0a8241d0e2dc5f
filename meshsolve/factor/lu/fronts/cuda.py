"""The fronts engine on the GPU: launches of fronts.cu and front_solve.cu, level by level. Twin of ``_core.FrontLuDouble``.

Fronts lie as on the CPU, so that what is read out of them goes through the C++ core.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.factor.fronts import cuda as fronts
from meshsolve.factor.fronts.tree_cuda import depths, offsets
from meshsolve.factor.lu.cuda import Rule, Seen, frame_of, outside_of, twin

K, S = device.kernels("factor/lu/fronts/fronts.cu"), device.kernels("factor/lu/fronts/solve.cu")
WIDTHS = (1, 4, 8)                                          # right-hand sides that one pass is compiled for
ROWS = 128                                                  # of a block of k_rows
LARGEST = 32                                                # blocks that look for the largest entry of a front


class Launch(NamedTuple):
    """Fronts whose forward or backward part runs together in a solve."""

    forward: bool
    batch: fronts.Batch


class DeviceFronts:
    """LU of fronts on the GPU.

    Parameters
    ----------
    plan : _core.FrontPlan
    analysis : Analysis
    dtype : {float64, float32}
        What the factor is stored in.
    """

    def __init__(self, plan, analysis, dtype):
        xp, self.dtype = device.xp(), np.dtype(dtype)
        self._suffix = "f64" if self.dtype == np.float64 else "f32"
        self._plan, self._native, parts = plan, analysis.symbolic.native, plan.arrays()
        self._n, self._vectors = len(self._native.perm), int(self._native.row_ptr[-1])
        depth = depths(device.to_device(np.array(self._native.snode_parent)))
        table, updates = _table(parts, self._native, depth)
        self._size, self._table = np.diff(parts["base"]), device.to_device(np.ascontiguousarray(table))
        self._levels = fronts.levels(self._table, device.to_device(self._size), depth, fronts.LIMITS)
        front = np.repeat(np.arange(len(self._size)), np.diff(parts["entry_ptr"]))
        by_target = np.lexsort((parts["target"], front))
        self._tree = tuple(device.to_device(parts[name]) for name in ("child", "relative"))
        self._entries = tuple(device.to_device(parts[name][by_target]) for name in ("source", "target", "scale"))
        (ptr, row, column), self._scatter = outside_of(plan, analysis)
        self._above = ptr, row, column
        self._frame = frame_of(analysis)
        self._rows = device.to_device(np.array(self._native.rows))
        self._panels = xp.zeros(int(parts["base"][-1]), self.dtype)
        self._updates, self._outside = xp.empty(updates, self.dtype), xp.empty(len(row), self.dtype)
        self._exchange, self._order, self._position = (xp.zeros(self._n, np.int32) for _ in range(3))
        self._seen, self._solves = Seen(), {}

    @property
    def nbytes(self):
        arrays = (self._panels, self._updates, self._outside, self._exchange, self._order, self._position, self._table,
                  self._rows, *self._tree, *self._entries, *self._frame.values())
        return sum(array.nbytes for array in arrays) + self._scatter.nbytes

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    def factor(self, data, threshold, tiny, boost, threads=1, undisturbed=False):
        """Factor the matrix with these values, (nnz,) float64 on the device: (replaced pivots, max |B|, max |U|)."""
        rule = Rule(threshold, tiny, boost)
        self._seen.clear()
        for level in self._levels:
            self._factor_level(level, data, rule)
        device.launch(K.k_positions, len(self._size), 64, 0, (self._table, self._order, self._position))
        self._scatter(data, self._outside)
        return self._seen.read()

    def _factor_level(self, level, data, rule):
        size, seen = self.dtype.itemsize, self._seen.array
        tree = self._table, *self._tree, *self._entries, data, self._panels, self._updates
        for batch in level.batches:
            groups = batch.threads // 32 if batch.per_warp else 1
            self._launch(K, "k_factor", -(-batch.count // groups), batch.threads, groups * batch.capacity * size,
                         (np.int32(batch.per_warp), batch.fronts, np.int32(batch.count), np.int32(batch.capacity), *tree,
                          *rule.all, self._exchange, self._order, seen))
        self._launch(K, "k_assemble", len(level.tiles) // 2, 256, 0, (level.tiles, *tree, self._order, seen))
        for wide in level.wide:
            self._factor_by_tiles(wide, rule)
            self._subtract(wide.fronts, wide.count, wide.updates, 0, wide.updates, 1, 0, 0)
        for wide in level.libraries:
            self._factor_by_tiles(wide, rule)
        for front in level.dense:
            self._update_by_library(front)

    def _factor_by_tiles(self, wide, rule):
        for step in wide.steps:
            begin, seen = np.int32(step.begin), self._seen.array
            room = min((step.columns + fronts.PIVOT_BLOCK) * fronts.PIVOT_BLOCK, device.shared_limit() // self.dtype.itemsize)
            self._launch(K, "k_panel", step.count, 256, room * self.dtype.itemsize,
                         (wide.fronts, self._table, self._panels, begin, np.int32(room), *rule.all, self._exchange, self._order,
                          seen))
            items = 2 * step.updates + step.begin + step.columns + fronts.PIVOT_BLOCK
            self._launch(K, "k_rows", (-(-items // ROWS), step.count), ROWS, 0,
                         (wide.fronts, self._table, self._panels, self._exchange, begin))
            self._subtract(wide.fronts, step.count, step.rows, step.updates, step.columns, 0, step.begin,
                           step.begin + fronts.PIVOT_BLOCK)
        self._launch(K, "k_largest", (LARGEST, wide.count), 256, 0, (wide.fronts, self._table, self._panels, self._seen.array))

    def _subtract(self, numbers, count, rows, more_rows, columns, of_update, begin, end):
        tiles = [-(-size // fronts.TILE) for size in (rows, more_rows, columns)]
        self._launch(K, "k_subtract", (tiles[0] + tiles[1], tiles[2], count), 256, 0,
                     (numbers, self._table, self._panels, self._updates, np.int32(of_update), np.int32(begin), np.int32(end)))

    def _update_by_library(self, front):
        w, u = front.pivots, front.updates
        if u == 0:
            return
        q, leading_q = front.panel + w * front.leading, _core.leading_dimension(u)
        below = self._panels[front.panel:q].reshape(w, front.leading).T[w:front.height]
        right = self._panels[q:q + w * leading_q].reshape(w, leading_q).T[:u]
        device.dense("gemm", self._updates[front.update:front.update + u * u].reshape(u, u).T, below, right, trans_a="N",
                     trans_b="T")

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, transposed, B, X, threads=1):
        """X := A^-1 B, or A^-T B, for (n, k) float64 arrays on the device, in C or F order."""
        xp, plan, k = device.xp(), self._solve_plan(transposed), B.shape[1]
        before, after = (None, self._position) if transposed else (self._position, None)
        enter, leave = ("columns", "rows") if transposed else ("rows", "columns")
        width = next(width for width in WIDTHS if width >= min(k, WIDTHS[-1]))
        Y, vectors = xp.empty(self._n * width, self.dtype), xp.empty(self._vectors * width, self.dtype)
        for begin in range(0, k, width):
            count = min(k - begin, width)
            fronts.to_columns(B, begin, count, width, Y, self._frame[enter], before, self._frame[enter + "_scale"])
            for launch in plan.launches:
                self._solve_batch(launch, plan, transposed, width, Y, vectors)
            fronts.from_columns(Y, X, begin, count, self._frame[leave], after, self._frame[leave + "_scale"])

    def _solve_batch(self, launch, plan, transposed, width, Y, vectors):
        batch = launch.batch
        groups = batch.threads // 32 if batch.per_warp else 1
        self._launch(S, "k_solve", -(-batch.count // groups), batch.threads, 0,
                     (np.int32(batch.per_warp), batch.fronts, np.int32(batch.count), np.int32(width), np.int32(launch.forward),
                      np.int32(transposed), self._table, *self._tree, self._rows, self._position, self._panels, *plan.above,
                      self._outside, np.int32(self._n), Y, vectors))

    def _solve_plan(self, transposed):
        if transposed not in self._solves:
            launches = _launches(*self._plan.steps(transposed), self._size)
            self._solves[transposed] = SolvePlan(launches, tuple(map(device.to_device, _above(*self._above, transposed))))
        return self._solves[transposed]

    # ---- what the factor knows ------------------------------------------------------------------------------------------

    def triangles(self):
        """The triangles as ``_core.FrontLuDouble.triangles`` gives them, on the host."""
        host = twin("FrontLu", self._plan, self.dtype)
        _core.load_fronts(host, *map(device.to_host, (self._panels, self._outside, self._exchange)))
        return host.triangles()

    def _launch(self, kernels, name, grid, block, shared, args):
        device.launch(getattr(kernels, f"{name}_{self._suffix}"), grid, block, shared, args)


class SolvePlan(NamedTuple):
    """What runs in a solve, and what stands above the diagonal blocks as it is read there."""

    launches: list
    above: tuple


def _table(parts, native, depth):
    """The (count, 13) int64 table of fronts, struct Front in fronts.cu, and how much room update matrices take."""
    pivots, rows = np.diff(native.first).astype(np.int64), np.diff(native.row_ptr)
    update, updates = offsets(device.to_device(rows * rows), depth)
    columns = (parts["base"][:-1], parts["leading_p"], device.to_host(update), native.row_ptr[:-1], native.row_ptr[:-1], native.first[:-1],
               pivots, pivots + rows, parts["child_ptr"][:-1], parts["child_ptr"][1:], parts["leading_q"], parts["entry_ptr"][:-1],
               parts["entry_ptr"][1:])
    return np.stack(columns, axis=1).astype(np.int64), updates


def _launches(forward, backward, size):
    """Fronts of one level together, those that a warp takes apart from those that take a block."""
    count = len(size)
    level, is_forward = np.concatenate([forward, backward]), np.arange(2 * count) < count
    front, large = np.tile(np.arange(count, dtype=np.int32), 2), np.tile(size > fronts.LIMITS.tiny, 2)
    order = np.lexsort((front, large, is_forward, level))
    keys = np.stack([level, is_forward, large])[:, order]
    cut = np.flatnonzero(np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)))
    numbers = device.to_device(front[order])
    return [Launch(bool(keys[1, a]), fronts.Batch(numbers[a:b], int(b - a), 0, 256 if keys[2, a] else 128, not keys[2, a]))
            for a, b in zip(cut, np.append(cut[1:], 2 * count))]


def _above(ptr, row, column, transposed):
    """(ptr, unknown, place of the value) of the entries above the diagonal blocks, by rows or transposed; empty without any."""
    if len(row) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64)
    if transposed:
        return ptr, row, np.arange(len(row), dtype=np.int64)
    by_row = np.argsort(row, kind="stable")
    row_ptr = np.searchsorted(row[by_row], np.arange(len(ptr), dtype=row.dtype), side="left").astype(np.int64)
    return row_ptr, column[by_row], by_row.astype(np.int64)
