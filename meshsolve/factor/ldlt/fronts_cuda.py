"""The complete factorization on the GPU: launches of complete.cu and complete_solve.cu, level by level.

Host counterpart: ``Complete`` in complete.hpp. The number of delayed columns is known after a level: the host reads three numbers per
level. If columns are delayed, their parents get separate panels, and the launches of the level of the parents are planned again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.device import MOST_ACROSS
from meshsolve.factor.fronts.cuda import CLASSES, LIMITS, TILE, Batch, column_major, from_columns, tiles_of, to_columns
from meshsolve.factor.fronts.tree_cuda import depths, leading_dimension, positions, table_of
from meshsolve.sparse.lists_cuda import bincount
from meshsolve.sparse.matrix import Csr

K, S = device.kernels("factor/ldlt/complete.cu"), device.kernels("factor/ldlt/complete_solve.cu")
NONE = np.iinfo(np.int32).max                               # no front has failed
BLOCK_COLUMNS, PANEL_THREADS, PERMUTED = 32, 512, 64        # columns of a panel; threads; columns of a block of k_permute
STATIC = 1024                                               # further bytes of shared memory of k_panel
PROGRESS = 8                                                # integers of struct Progress
SMALL, DOUBTFUL = {"d": 1e-5, "f": 1e-2}, {"d": 1e-9, "f": 1e-4}        # SmallPivot in ldl_pivot.hpp, PivotSizes in small_pivots.hpp
FAILED, DELAYED, FINISHED = range(3)                        # enum Flag in complete.cuh
WHOLE, BEFORE, AFTER = range(3)                             # enum Part in complete_solve.cu
WIDTHS = (1, 4, 8)                                          # right-hand sides that one pass is compiled for


class LargeFronts(NamedTuple):
    """Fronts that are factored by tiles, those with most columns first."""

    fronts: object              # their numbers, int32 on the GPU
    columns: np.ndarray         # number of columns of each front, on the host
    height: int                 # rows of the highest front
    updates: int                # rows of the largest update matrix


class Dense(NamedTuple):
    """A front of many columns: offsets in scalars, and ``vector`` in rows of right-hand sides."""

    front: int
    number: object              # its number, (1,) int32 on the GPU
    columns: int
    updates: int
    update: int
    vector: int


class Plan(NamedTuple):
    """The launches of one level."""

    fronts: object              # all its fronts, int32 on the GPU
    batches: tuple              # in shared memory; the fronts of one warp come first
    tiles: object               # (2 tiles,) int32: front and first column of each tile of k_assemble
    large: tuple                 # of LargeFronts
    dense: tuple                # of Dense: the large fronts whose products cuBLAS computes
    solved: tuple               # batches of a solve: all fronts except the dense ones


class Tree:
    """The assembly tree on the GPU, and on the host the sizes from which launches are planned.

    Parameters
    ----------
    symbolic : Symbolic
        Analysis of a pattern that contains that of the matrix.
    matrix : Csr
        The pattern of the matrix, both triangles, on the host.
    """

    def __init__(self, symbolic, matrix):
        analysis, native = symbolic.analysis_on_device, symbolic.native
        depth = depths(analysis.snode_parent)
        self.table, child, (self.panel_scalars, self.update_scalars, self.vector_rows) = table_of(analysis, depth)
        pattern = Csr(matrix.n, device.to_device(matrix.indptr), device.to_device(matrix.indices))
        relative, *entries = positions(pattern, analysis)
        self.entries = self.table, child, relative, *entries
        self.perm, self.rows, self.n = analysis.perm, analysis.rows, symbolic.n
        self.first, self.row_ptr = (np.asarray(part).astype(np.int64) for part in (native.first, native.row_ptr))
        self.parent, self.host_rows = np.asarray(native.snode_parent), np.asarray(native.rows)
        self.own, self.updates = np.diff(self.first), np.diff(self.row_ptr)
        self.count = len(self.own)
        depth = device.to_host(depth)
        by_depth = np.argsort(-depth, kind="stable")
        levels = np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1)
        self.plans = [self.plan(level, self.own[level]) for level in levels]
        self.levels = levels

    @property
    def nbytes(self):
        return sum(array.nbytes for array in (*self.entries, self.perm, self.rows))

    def plan(self, fronts, columns):
        """Plan the launches of these fronts, with these numbers of columns."""
        updates = self.updates[fronts]
        height = columns + updates
        size = columns * height
        kind = np.zeros(len(size), np.int64)
        for k, scalars in enumerate([LIMITS.tiny, *(max(scalars, LIMITS.tiny) for scalars, _ in CLASSES), LIMITS.small], 1):
            kind[size > scalars] = k
        threads = (128, *(threads for _, threads in CLASSES), 256)
        parts = [np.flatnonzero(kind == k) for k in range(len(threads))]
        batches = tuple(_batch(fronts, part, size, threads[k], k == 0) for k, part in enumerate(parts) if len(part))
        large = np.flatnonzero(kind == len(threads))
        large = large[np.argsort(-columns[large], kind="stable")]
        groups = [large[a:a + MOST_ACROSS] for a in range(0, len(large), MOST_ACROSS)]
        is_dense = (kind == len(threads)) & (columns >= LIMITS.dense)
        tiny, others = parts[0], np.flatnonzero((kind > 0) & ~is_dense)
        return Plan(_numbers(fronts), batches, tiles_of(fronts[large], height[large])[0],
                    tuple(LargeFronts(_numbers(fronts[g]), columns[g], int(height[g].max()), int(updates[g].max()))
                          for g in groups),
                    self._dense(fronts[is_dense], columns[is_dense]),
                    tuple(_batch(fronts, part, size, count, part is tiny)
                          for part, count in ((tiny, 128), (others, 256)) if len(part)))

    def _dense(self, fronts, columns):
        if len(fronts) == 0:
            return ()
        update, vector = device.to_host(self.table[_numbers(fronts)])[:, 2:4].T
        return tuple(Dense(int(s), _numbers(fronts[k:k + 1]), int(columns[k]), int(self.updates[s]), int(update[k]),
                           int(vector[k])) for k, s in enumerate(fronts))


class DeviceComplete:
    """L and D on the GPU.

    Parameters
    ----------
    tree : Tree
    dtype : {float64, float32}
        Storage type of the factor.
    rule : (float, float)
        Threshold of pivots, and the size below which a column of the scaled matrix is zero.
    strict_threshold : float
        Threshold of pivots for matrices with doubtful pivots.
    is_strict : bool
        Use the strict threshold from the first factorization on, see complete.hpp.
    """

    def __init__(self, tree, dtype, rule, strict_threshold, is_strict):
        xp = device.xp()
        self.tree, self.dtype, self.is_strict, self.changes, self.undecided = tree, np.dtype(dtype), is_strict, 0, 0
        self._threshold, self._tiny, self._strict_threshold = rule[0], rule[1], strict_threshold
        self._panels, self._updates = xp.empty(tree.panel_scalars, dtype), xp.empty(tree.update_scalars, dtype)
        self._late = xp.empty(0, dtype)                     # panels of fronts with delayed columns
        self._names, self._d, self._e = xp.empty(tree.n, np.int32), xp.empty(tree.n, dtype), xp.empty(tree.n, dtype)
        self._planned = xp.stack([tree.table[:, 0], tree.table[:, 1], tree.table[:, 5], tree.table[:, 6]], axis=1)
        self._planned_of = device.to_host(self._planned)
        self._pivots, self._data = xp.empty(tree.count, np.int32), None

    @property
    def nbytes(self):
        arrays = (self._panels, self._updates, self._late, self._names, self._d, self._e, self._planned, self._pivots, self._data)
        return self.tree.nbytes + sum(array.nbytes for array in arrays if array is not None)

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    def factor(self, data):
        """Factor the matrix with these scaled values, (nnz,) float64 on the GPU.

        Returns -1, or the new number of a column that is not finite after elimination: the smallest of the deepest such level. In
        this case, and after an exception, the earlier factor is restored.
        """
        try:
            failed = self._run(data)
        except BaseException:                               # Ctrl-C as well
            if self._data is not None:
                self._run(self._data)
            raise
        if failed < 0:
            self._data, self.changes = data, self.changes + 1
        elif self._data is not None:
            self._run(self._data)
        return failed

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, scale, B):
        """Return S (L D L^T)^-1 S B, a new block, for a C contiguous (n, k) float64 block on the GPU. ``scale`` is in the new numbering."""
        xp, tree, k = device.xp(), self.tree, B.shape[1]
        X, slots = xp.empty_like(B), self._ends[1]
        if k == 0:
            return X
        width = next(width for width in WIDTHS if width >= min(k, WIDTHS[-1]))
        Y, Z, vectors = (xp.empty(rows * width, self.dtype) for rows in (tree.n, slots, tree.vector_rows))
        for begin in range(0, k, width):
            count = min(k - begin, width)
            to_columns(B, begin, count, width, Y, tree.perm, scale=scale)
            for plan in self.plans:
                self._solve_level("k_forward", plan, width, Y, Z, vectors)
            for plan in reversed(self.plans):
                self._solve_level("k_backward", plan, width, Y, Z, vectors)
            from_columns(Y, X, begin, count, tree.perm, scale=scale)
        return X

    # ---- properties of the factor ---------------------------------------------------------------------------------------

    def nonzeros(self):
        """Nonzeros of L, with the unit diagonal."""
        xp, tree = device.xp(), self.tree
        count = xp.empty(tree.count, np.int64)
        self._launch(S, "k_count", tree.count, 128, 0,
                     (tree.table, self._panels, self._locations, self._late, self._names, self._d, self._e, self._pivots, count))
        return int(device.scalar(count.sum().reshape(1)))

    def wait(self):
        """Wait for the kernels launched so far."""
        device.scalar(self._flags[FAILED:FAILED + 1])

    def diagonal(self):
        """(front, position in it, d, e) of every pivot in the order of elimination, on the host."""
        locations, pivots = device.to_host(self._locations), device.to_host(self._pivots).astype(np.int64)
        front = np.repeat(np.arange(self.tree.count), pivots)
        position = np.arange(len(front)) - np.repeat(np.append(0, np.cumsum(pivots))[:-1], pivots)
        slot = locations[front, 2] + position
        return front, position, device.to_host(self._d)[slot].astype(np.float64), device.to_host(self._e)[slot].astype(np.float64)

    def extract(self):
        """(order, column, row, value, d, e) on the host: row, by new number, that is eliminated k-th; nonzeros of L by columns; D."""
        tree, names = self.tree, device.to_host(self._names)
        panel, leading, slot, columns = device.to_host(self._locations).T
        front, j, d, e = self.diagonal()
        order = names[slot[front] + j]
        length = (columns + tree.updates)[front] - j
        column = np.repeat(np.arange(tree.n), length)
        of = front[column]
        i = np.arange(len(column)) - np.repeat(np.append(0, np.cumsum(length))[:-1], length) + j[column]
        at = panel[of] + i + j[column] * leading[of]
        late = columns[of] > tree.own[of]
        value = np.empty(len(at), self.dtype)
        value[late], value[~late] = device.to_host(self._late)[at[late]], device.to_host(self._panels)[at[~late]]
        above = i < columns[of]
        row = np.empty(len(at), np.int32)
        row[above] = names[(slot[of] + i)[above]]
        row[~above] = tree.host_rows[(tree.row_ptr[of] + i - columns[of])[~above]]
        position = np.empty(tree.n, np.int32)
        position[order] = np.arange(tree.n, dtype=np.int32)
        kept = value != 0
        return order, column[kept], position[row[kept]], value[kept].astype(np.float64), d, e

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _run(self, data):
        """As ``Complete::factor``: factors again with the strict threshold if pivots are doubtful."""
        before = self.is_strict
        failed, doubtful = self._run_and_settle(data, before)
        if before or failed >= 0 or not doubtful:
            return failed
        try:
            if self._run_and_settle(data, True)[0] < 0:
                return -1
            self.is_strict = False
            failed = self._run_once(data, self._tiny)
            if failed < 0:
                self._settle()
            return failed
        except BaseException:
            self.is_strict = before
            raise

    def _run_and_settle(self, data, is_strict):
        """Return (-1 or the column that failed, True if a pivot is doubtful); see ``Complete::run_and_settle``."""
        self.is_strict, self.undecided = is_strict, 0
        failed = self._run_once(data, self._tiny)
        small, doubtful = (False, False) if failed >= 0 else self._sizes_of_pivots()
        if failed >= 0 or not small or (not is_strict and doubtful):
            return failed, doubtful
        tiny = self._settle()
        if tiny > self._tiny:
            failed = self._run_once(data, tiny)
            if failed < 0 and self._sizes_of_pivots()[0]:
                self._settle()
        return failed, doubtful

    def _sizes_of_pivots(self):
        """Return (True if a pivot is small but not zero, True if a 1x1 pivot is doubtful), as ``count_pivots``."""
        xp, begin, count = device.xp(), self._locations[:, 2], len(self._d)
        changes = bincount(begin, count + 1) - bincount(begin + self._pivots, count + 1)
        is_pivot, is_first = xp.cumsum(changes)[:count] > 0, self._e != 0
        is_second = xp.zeros_like(is_first)
        is_second[1:] = is_first[:-1]
        size = abs(self._d)
        size[:-1] = xp.where(is_first[:-1], xp.maximum(xp.maximum(size[:-1], size[1:]), abs(self._e[:-1])), size[:-1])
        starts, char = is_pivot & ~is_second, self.dtype.char
        small = (starts & (size < SMALL[char]) & (size > 0)).any()
        doubtful = (starts & ~is_first & ~(size >= DOUBTFUL[char])).any()
        return tuple(bool(found) for found in device.to_host(xp.stack([small, doubtful])))

    def _settle(self):
        """Set pivots to zero that are zero in rounding, see small_pivots.hpp. Returns the size of zero for another run, or 0."""
        xp, tree, samples = device.xp(), self.tree, _core.pivot_samples
        Z, vectors = (xp.empty(samples * rows, self.dtype) for rows in (self._ends[1], tree.vector_rows))
        row_magnitude = xp.zeros(tree.n, self.dtype)
        for plan in self.plans:
            self._solve_level("k_magnitudes", plan, 1, row_magnitude, Z, vectors)
        Y = xp.empty(samples * tree.n, self.dtype)
        self._launch(S, "k_samples", device.grid_for(len(Y), 256), 256, 0, (np.int64(tree.n), row_magnitude, Y))
        for plan in self.plans:
            self._solve_level("k_forward", plan, samples, Y, Z, vectors)
        settled = xp.empty((tree.count, 4), np.float64)
        everything = Batch(xp.empty(0, np.int32), 0, 0, 256, False)
        self._launch(S, "k_settle", device.grid_for(tree.count, 256), 256, 0,
                     (np.int32(tree.count), row_magnitude, settled, *self._solve_arguments(everything, samples, WHOLE, Y, Z, vectors)))
        settled = device.to_host(settled)
        self.undecided = int(settled[:, 0].sum())
        largest, least_other = settled[:, 1].max(initial=0.0), settled[:, 2].min(initial=np.inf)
        return _core.ldlt_size_of_zero(largest, least_other, bool(settled[:, 3].any()))

    @property
    def _rule(self):
        return np.float64(self._strict_threshold if self.is_strict else self._threshold), np.float64(self._size_of_zero)

    def _run_once(self, data, tiny):
        xp, tree, self._size_of_zero = device.xp(), self.tree, tiny
        self._locations, self._locations_of = self._planned.copy(), self._planned_of.copy()
        self._e.fill(0)
        self._flags = device.to_device(np.array([NONE, 0, 0], np.int32))
        self._progress = xp.zeros(PROGRESS * tree.count, np.int32)
        self.plans, self._dense_pivots, self._ends = [], {}, (0, tree.n)            # ends of `late` and of the slots
        received, self.delayed, self._finished = np.zeros(tree.count, np.int64), 0, 0
        for level, plan in zip(tree.levels, tree.plans):
            if received[level].any():
                plan = self._allocate_for(level, received[level])
            self.plans.append(plan)
            flags = self._factor_level(plan, data, np.int32(tree.parent[level[0]] < 0))
            if flags[FAILED] != NONE:
                return int(flags[FAILED])
            if flags[DELAYED] > self.delayed:
                self.delayed = int(flags[DELAYED])
                self._pass_delayed(level, plan, received)
        return -1

    def _pass_delayed(self, level, plan, received):
        """Add the columns that the fronts of a level delay to ``received`` of their parents."""
        left = self.tree.own[level] + received[level] - device.to_host(self._pivots[plan.fronts])
        has_parent = self.tree.parent[level] >= 0
        np.add.at(received, self.tree.parent[level[has_parent]], left[has_parent])

    def _allocate_for(self, level, received):
        """Plan a level whose fronts receive ``received`` delayed columns: they get separate storage."""
        tree, moved = self.tree, np.flatnonzero(received)
        columns = tree.own[level] + received
        columns_moved = columns[moved]
        leading = leading_dimension(columns_moved + tree.updates[level[moved]])
        panel = np.append(0, np.cumsum(columns_moved * leading)) + self._ends[0]
        slot = np.append(0, np.cumsum(columns_moved)) + self._ends[1]
        self._ends = int(panel[-1]), int(slot[-1])
        self._late = _grown(self._late, self._ends[0])
        self._names, self._d, self._e = (_grown(array, self._ends[1]) for array in (self._names, self._d, self._e))
        locations = np.stack([panel[:-1], leading, slot[:-1], columns_moved], axis=1)
        self._locations_of[level[moved]] = locations
        self._locations[_numbers(level[moved])] = device.to_device(locations)
        return tree.plan(level, columns)

    def _factor_level(self, plan, data, root):
        size = self.dtype.itemsize
        tree = (*self.tree.entries, data, self._panels, self._updates, self._locations, self._late, self._names, self._d, self._e,
                self._pivots, self._flags)
        for batch in plan.batches:
            groups = batch.threads // 32 if batch.per_warp else 1
            self._launch(K, "k_factor", -(-batch.count // groups), batch.threads, groups * batch.capacity * size,
                         (np.int32(batch.per_warp), batch.fronts, np.int32(batch.count), np.int32(batch.capacity), root, *tree,
                          *self._rule))
        self._launch(K, "k_assemble", len(plan.tiles) // 2, 256, 0, (plan.tiles, *tree))
        for large in plan.large:
            order = device.xp().empty(BLOCK_COLUMNS * len(large.columns), np.int32)
            for step in range(1, -(-int(large.columns[0]) // BLOCK_COLUMNS) + 1):
                count = int(np.searchsorted(-large.columns, -BLOCK_COLUMNS * (step - 1)))
                self._step(large, count, step, order, root, tree)
            self._finish(large, step, order, root, tree)
            dense = int((large.columns >= LIMITS.dense).sum())
            if large.updates:
                self._subtract(large.fronts[dense:], len(large.columns) - dense, (large.updates, large.updates), 0, 1, tree)
        for front in plan.dense:
            self._update_by_library(front, tree)
        return device.to_host(self._flags)

    def _finish(self, large, step, order, root, tree):
        """Further steps, if columns have failed and are tried again."""
        self._finished += len(large.columns)
        while device.to_host(self._flags)[FINISHED] < self._finished:
            for _ in range(2):
                step += 1
                self._step(large, len(large.columns), step, order, root, tree)

    def _step(self, large, count, step, order, root, tree):
        """Factor one panel of the first ``count`` fronts, and update the columns after it."""
        columns, number = int(large.columns[0]), np.int32(step)
        capacity = min(BLOCK_COLUMNS * large.height, (device.shared_limit() - STATIC) // self.dtype.itemsize)
        self._launch(K, "k_panel", count, PANEL_THREADS, capacity * self.dtype.itemsize,
                     (large.fronts, self._progress, order, number, root, np.int32(capacity), *tree, *self._rule))
        done, behind = min(columns, BLOCK_COLUMNS * (step - 1)), BLOCK_COLUMNS * step
        self._launch(K, "k_permute", (-(-done // PERMUTED), count), 256, 0, (large.fronts, self._progress, order, number, *tree))
        self._subtract(large.fronts, count, (large.height - behind, columns - behind), step, 0, tree)

    def _subtract(self, fronts, count, shape, step, of_update, tree):
        self._launch(K, "k_subtract", (*(max(1, -(-size // TILE)) for size in shape), count), 256, 0,
                     (fronts, self._progress, np.int32(step), np.int32(of_update), *tree))

    def _update_by_library(self, front, tree):
        """Subtract L D L^T of the pivots from the update matrix of a large front."""
        u, w = front.updates, front.columns
        if u == 0:
            return
        weighted = device.xp().empty(u * w, self.dtype)
        self._launch(K, "k_weigh", device.grid_for(u * w, 256), 256, 0, (front.number, weighted, *tree))
        C = column_major(self._updates, front.update, u, u, u)
        device.dense("gemm", C, self._panel(front)[w:w + u], column_major(weighted, 0, u, w, u), trans_a="N", trans_b="T")

    def _panel(self, front):
        """The panel of a large front as a column-major view."""
        panel, leading, _, columns = map(int, self._locations_of[front.front])
        array = self._late if columns > self.tree.own[front.front] else self._panels
        return column_major(array, panel, leading, columns, leading)

    def _solve_arguments(self, batch, width, part, Y, Z, vectors):
        table, child, relative = self.tree.entries[:3]
        return (np.int32(batch.per_warp), batch.fronts, np.int32(batch.count), np.int32(width), np.int32(part), table, child, relative,
                self.tree.rows, self._panels, self._locations, self._late, self._names, self._d, self._e, self._pivots,
                np.int64(self.tree.n), np.int64(self._ends[1]), Y, Z, vectors)

    def _solve_level(self, kernel, plan, width, Y, Z, vectors):
        def launch(batch, part):
            groups = batch.threads // 32 if batch.per_warp else 1
            self._launch(S, kernel, -(-batch.count // groups), batch.threads, 0,
                         self._solve_arguments(batch, width, part, Y, Z, vectors))

        for batch in plan.solved:
            launch(batch, WHOLE)
        for front in plan.dense:
            batch = Batch(front.number, 1, 0, 256, False)
            if kernel == "k_magnitudes":
                launch(batch, WHOLE)
                continue
            launch(batch, BEFORE)
            self._solve_by_library(front, kernel == "k_forward", width, Z, vectors)
            launch(batch, AFTER)

    def _solve_by_library(self, front, is_forward, width, Z, vectors):
        """Solve with the triangle of a large front, then update its delayed columns and the vector that it passes to its parent."""
        pivots, slot = self._pivots_of(front), int(self._locations_of[front.front, 2])
        panel, w, u = self._panel(front), front.columns, front.updates
        z = column_major(Z, 0, self._ends[1], width, self._ends[1])[slot:slot + w]
        y, diagonal = z[:pivots], panel[:pivots, :pivots]
        below = [(z[pivots:], panel[pivots:w, :pivots]),
                 (column_major(vectors, front.vector * width, u, width, u), panel[w:w + u, :pivots])]
        if pivots == 0:
            return
        if is_forward:
            device.dense("trsm", diagonal, y, side="L", trans="N")
        for rows, factor in below:
            if rows.shape[0]:
                given = (rows, factor, y) if is_forward else (y, factor, rows)
                device.dense("gemm", *given, trans_a="N" if is_forward else "T", trans_b="N")
        if not is_forward:
            device.dense("trsm", diagonal, y, side="L", trans="T")

    def _pivots_of(self, front):
        """Number of pivots of a large front, read once from the GPU."""
        if front.front not in self._dense_pivots:
            self._dense_pivots[front.front] = device.scalar(self._pivots[front.front:front.front + 1])
        return self._dense_pivots[front.front]

    def _launch(self, kernels, name, grid, block, shared, args):
        device.launch(getattr(kernels.of(self.dtype), name), grid, block, shared, args)


def _numbers(fronts):
    return device.to_device(fronts.astype(np.int32))


def _batch(fronts, part, size, threads, per_warp):
    """One launch, the largest fronts first."""
    part = part[np.argsort(-size[part], kind="stable")]
    return Batch(_numbers(fronts[part]), len(part), int(size[part[0]]), threads, per_warp)


def _grown(array, need):
    """Return the array, or a longer one that begins with it and ends with zeros."""
    if len(array) >= need:
        return array
    longer = device.xp().zeros(need + need // 4, array.dtype)
    longer[:len(array)] = array
    return longer
