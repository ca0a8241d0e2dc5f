"""The fronts engine on the GPU: launches of fronts.cu and solve.cu, level by level.

Host counterpart: ``_core.FrontLuDouble``. Fronts have the same layout on the CPU, so the C++ core extracts L and U from them.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.factor.fronts import cuda as fronts
from meshsolve.factor.fronts.tree_cuda import launch_order
from meshsolve.factor.lu.cuda import EngineCuda, PivotRule, Scatter, sides
from meshsolve.factor.lu.fronts.plan_cuda import above_of

K, S = device.kernels("factor/lu/fronts/fronts.cu"), device.kernels("factor/lu/fronts/solve.cu")
WIDTHS = (1, 4, 8)                                          # numbers of right-hand sides for which kernels are compiled
ROWS = 128                                                  # rows of a thread block of k_rows
LARGEST = 32                                                # thread blocks that search the largest entry of a front


class Launch(NamedTuple):
    """Fronts whose forward or backward part runs in one launch of a solve."""

    forward: bool
    batch: fronts.Batch


class FrontsCuda(EngineCuda):
    """LU of fronts on the GPU."""

    host_name = "FrontLu"

    def __init__(self, plan, analysis, dtype):
        outside = plan.outside
        super().__init__(plan, analysis, dtype, plan.permutation, (outside, Scatter(outside.source, outside.scale)))
        xp, forest, parts = device.xp(), analysis.symbolic.forest_on_device, plan.fronts
        self._table, self._size, self._rows, self._forest = parts.table, parts.size, analysis.symbolic.analysis_on_device.rows, forest
        self._n, self._vectors = analysis.symbolic.n, len(self._rows)
        self._levels = fronts.levels(self._table, self._size, forest, fronts.LIMITS)
        self._tree, self._entries = (forest.child, parts.relative), (parts.source, parts.target, parts.scale)
        self._panels, self._updates = xp.zeros(parts.scalars, self.dtype), xp.empty(parts.updates, self.dtype)
        self._exchange, self._order, self._position = (xp.zeros(self._n, np.int32) for _ in range(3))

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    def factor(self, data, threshold, tiny, perturbed_size, threads=1, undisturbed=False):
        """Factor the matrix with these values, (nnz,) float64 on the GPU: (perturbed pivots, max |B|, max |U|)."""
        rule = PivotRule(threshold, tiny, perturbed_size)
        self._counts.clear()
        for level in self._levels:
            self._factor_level(level, data, rule)
        self._launch(K, "k_positions", len(self._size), 64, 0, (self._table, self._order, self._position))
        self._scatter_outside(data, self._outside)
        return self._counts.read()

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, transposed, B, X, threads=1):
        """X := A^-1 B, or A^-T B, for (n, k) float64 arrays on the GPU, in C or F order."""
        xp, plan, k = device.xp(), self._solve_plan(transposed), B.shape[1]
        before, after = (None, self._position) if transposed else (self._position, None)
        enter, leave = sides(transposed)
        width = next(width for width in WIDTHS if width >= min(k, WIDTHS[-1]))
        Y, vectors = xp.empty(self._n * width, self.dtype), xp.empty(self._vectors * width, self.dtype)
        for begin in range(0, k, width):
            count = min(k - begin, width)
            fronts.to_columns(B, begin, count, width, Y, self._permutation[enter], before, self._permutation[enter + "_scale"])
            for launch in plan.launches:
                self._solve_batch(launch, plan, transposed, width, Y, vectors)
            fronts.from_columns(Y, X, begin, count, self._permutation[leave], after, self._permutation[leave + "_scale"])

    def triangles(self):
        """The triangles as ``_core.FrontLuDouble.triangles`` returns them, on the host."""
        host = self._host(self._plan.host)
        _core.load_fronts(host, *map(device.to_host, (self._panels, self._outside, self._exchange)))
        return host.triangles()

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _held(self):
        return (self._panels, self._updates, self._exchange, self._order, self._position, self._table, self._rows, *self._tree,
                *self._entries), ()

    def _factor_level(self, level, data, rule):
        size, counts = self.dtype.itemsize, self._counts.array
        tree = self._table, *self._tree, *self._entries, data, self._panels, self._updates
        for batch in level.batches:
            groups = batch.threads // 32 if batch.per_warp else 1
            self._launch(K, "k_factor", -(-batch.count // groups), batch.threads, groups * batch.capacity * size,
                         (np.int32(batch.per_warp), batch.fronts, np.int32(batch.count), np.int32(batch.capacity), *tree,
                          *rule.all, self._exchange, self._order, counts))
        self._launch(K, "k_assemble", len(level.tiles) // 2, 256, 0, (level.tiles, *tree, self._order, counts))
        for large in level.large:
            self._factor_by_tiles(large, rule)
            self._subtract(large.fronts, large.count, large.updates, 0, large.updates, 1, 0, 0)
        for large in level.libraries:
            self._factor_by_tiles(large, rule)
        for front in level.dense:
            self._update_by_library(front)

    def _factor_by_tiles(self, large, rule):
        for step in large.steps:
            begin, counts = np.int32(step.begin), self._counts.array
            capacity = min((step.columns + fronts.PIVOT_BLOCK) * fronts.PIVOT_BLOCK, device.shared_limit() // self.dtype.itemsize)
            self._launch(K, "k_panel", step.count, 256, capacity * self.dtype.itemsize,
                         (large.fronts, self._table, self._panels, begin, np.int32(capacity), *rule.all, self._exchange, self._order,
                          counts))
            items = 2 * step.updates + step.begin + step.columns + fronts.PIVOT_BLOCK
            self._launch(K, "k_rows", (-(-items // ROWS), step.count), ROWS, 0,
                         (large.fronts, self._table, self._panels, self._exchange, begin))
            self._subtract(large.fronts, step.count, step.rows, step.updates, step.columns, 0, step.begin,
                           step.begin + fronts.PIVOT_BLOCK)
        self._launch(K, "k_largest", (LARGEST, large.count), 256, 0, (large.fronts, self._table, self._panels, self._counts.array))

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

    def _solve_batch(self, launch, plan, transposed, width, Y, vectors):
        batch = launch.batch
        groups = batch.threads // 32 if batch.per_warp else 1
        self._launch(S, "k_solve", -(-batch.count // groups), batch.threads, 0,
                     (np.int32(batch.per_warp), batch.fronts, np.int32(batch.count), np.int32(width), np.int32(launch.forward),
                      np.int32(transposed), self._table, *self._tree, self._rows, self._position, self._panels, *plan.above,
                      self._outside, np.int32(self._n), Y, vectors))

    def _solve_plan(self, transposed):
        if transposed not in self._solves:
            above = above_of(self._above, transposed)
            launches = self._launches_of_trees if len(above[1]) == 0 else self._launches_of_blocks(transposed, above)
            self._solves[transposed] = SolvePlan(launches, above)
        return self._solves[transposed]

    @functools.cached_property
    def _launches_of_trees(self):
        """The launches of a solve if no diagonal block reads another: up the trees by height, and down by depth."""
        never = np.iinfo(np.int64).max
        bounds, launches = (fronts.LIMITS.tiny, never, never, never), []
        for is_forward, forest in ((True, self._plan.by_height()), (False, self._forest)):
            order, cuts, _ = launch_order(self._table, self._size, forest, bounds, 0)
            for cut in cuts if is_forward else cuts[::-1]:
                parts = (order[cut[0]:cut[1]], 128, True), (order[cut[1]:cut[-1]], 256, False)
                launches += [Launch(is_forward, fronts.Batch(part, len(part), 0, *kind)) for part, *kind in parts if len(part)]
        return launches

    def _launches_of_blocks(self, transposed, above):
        """The launches of a solve by level: fronts for one warp each, and fronts for one thread block each. Reads once."""
        xp, count = device.xp(), len(self._size)
        level, stalled = self._plan.levels_of_solve(transposed, above)
        part = xp.arange(2 * count, dtype=np.int32)
        front = part % np.int32(count)
        key = 4 * level.astype(np.int64) + 2 * (part < count) + (self._size > fronts.LIMITS.tiny)[front]
        order = xp.argsort(key, kind="stable")
        key = key[order]
        cut = xp.flatnonzero(xp.diff(key)) + 1
        found = device.to_host(xp.concatenate([cut, key[:1], key[cut], stalled.astype(np.int64)]))
        device.refuse_stall(int(found[-1]), "the levels of an LU solve")
        numbers, cuts, keys = front[order], [0, *found[:len(cut)].tolist(), 2 * count], found[len(cut):-1].tolist()
        return [Launch(bool(k & 2), fronts.Batch(numbers[a:b], b - a, 0, 256 if k & 1 else 128, not k & 1))
                for k, a, b in zip(keys, cuts[:-1], cuts[1:], strict=True)]


class SolvePlan(NamedTuple):
    """The launches of a solve, and the entries above the diagonal blocks in the order in which they are read."""

    launches: list
    above: tuple
