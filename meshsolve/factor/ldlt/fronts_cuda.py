"""The complete factorization on the GPU: launches of complete.cu and complete_solve.cu, level by level.

Host counterpart: ``Complete`` in complete.hpp. All levels are queued at once, and the flags are read at the end. If columns are
delayed, the matrix is factored again level by level, with a read for each. Parents of delayed columns get separate panels, and their
level is planned again.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.factor.fronts.cuda import TILE, Batch, column_major, from_columns, to_columns
from meshsolve.factor.fronts.tree_cuda import leading_dimension
from meshsolve.factor.ldlt.tree_cuda import device_numbers

K, S = device.kernels("factor/ldlt/complete.cu"), device.kernels("factor/ldlt/complete_solve.cu")
NONE = np.iinfo(np.int32).max                               # no front has failed
BLOCK_COLUMNS, PANEL_THREADS, PERMUTED = 32, 512, 64        # columns of a panel; threads; columns of a block of k_permute
STATIC = 1024                                               # further bytes of shared memory of k_panel
PROGRESS = 8                                                # integers of struct Progress
SMALL, DOUBTFUL = {"d": 1e-5, "f": 1e-2}, {"d": 1e-9, "f": 1e-4}        # SmallPivot in ldl_pivot.hpp, PivotSizes in small_pivots.hpp
FAILED, DELAYED, FINISHED = range(3)                        # enum Flag in complete.cuh
COUNTS = 8                                                  # flags after FAILED, with the counts of k_survey
WHOLE, BEFORE, AFTER = range(3)                             # enum Part in complete_solve.cu
WIDTHS = (1, 4, 8)                                          # right-hand sides that one pass is compiled for


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
        self._locations, self._progress = xp.empty_like(self._planned), xp.empty(PROGRESS * tree.count, np.int32)
        self._no_flags = device.to_device(np.array([NONE, *COUNTS * [0]], np.int32))
        self._flags, self._expects_delays = xp.empty_like(self._no_flags), False

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
        small, doubtful = (False, False) if failed >= 0 else self._sizes
        if failed >= 0 or not small or (not is_strict and doubtful):
            return failed, doubtful
        tiny = self._settle()
        if tiny > self._tiny:
            failed = self._run_once(data, tiny)
            if failed < 0 and self._sizes[0]:
                self._settle()
        return failed, doubtful

    def _survey(self):
        """Count the pivots of all fronts on the GPU, and read the flags with these counts. Returns the list of the flags."""
        self._flags[FINISHED + 1:] = self._no_flags[FINISHED + 1:]
        char = self.dtype.char
        self._launch(K, "k_survey", self.tree.count, 32, 0, (*self._arguments(), np.float64(SMALL[char]), np.float64(DOUBTFUL[char])))
        *flags, small, doubtful, positive, negative, zero, self.pairs = device.to_host(self._flags).tolist()
        self._sizes, self.inertia = (small > 0, doubtful > 0), (positive, negative, zero)
        return flags

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
        self._survey()
        self.undecided = int(settled[:, 0].sum())
        largest, least_other = settled[:, 1].max(initial=0.0), settled[:, 2].min(initial=np.inf)
        return _core.ldlt_size_of_zero(largest, least_other, bool(settled[:, 3].any()))

    @property
    def _rule(self):
        return np.float64(self._strict_threshold if self.is_strict else self._threshold), np.float64(self._size_of_zero)

    def _run_once(self, data, tiny):
        """Factor with this size of zero. Returns -1 or the column that failed.

        First all levels are queued as if no column is delayed, and the flags are read once. Delayed columns are not assembled then,
        and fronts of unfinished children are wrong, so such a matrix is factored level by level. Later matrices are too.
        """
        self._size_of_zero = tiny
        if not self._expects_delays:
            self._begin()
            for level, plan in zip(self.tree.levels, self.tree.plans):
                self.plans.append(plan)
                self._factor_level(level, plan, data)
            flags = self._survey()
            if flags == [NONE, 0, self._finished]:
                return -1
            self._expects_delays = flags[FAILED] == NONE
        failed = self._run_levels(data)
        if failed < 0:
            self._survey()
        return failed

    def _begin(self):
        """Reset the planned locations and the numbers of the last matrix."""
        self._locations[:], self._locations_of = self._planned, self._planned_of.copy()
        self._flags[:] = self._no_flags
        for array in (self._e, self._pivots, self._progress):
            array.fill(0)
        self.plans, self._dense_pivots, self._ends = [], {}, (0, self.tree.n)       # ends of `late` and of the slots
        self.delayed, self._finished = 0, 0

    def _run_levels(self, data):
        """Factor level by level: the columns that a level delays are read, and its parents planned again."""
        tree, received = self.tree, np.zeros(self.tree.count, np.int64)
        self._begin()
        for level, plan in zip(tree.levels, tree.plans):
            if received[level].any():
                plan = self._allocate_for(level, received[level])
            self.plans.append(plan)
            self._factor_level(level, plan, data, self._finish)
            flags = device.to_host(self._flags[:FINISHED + 1])
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
        self._locations[device_numbers(level[moved])] = device.to_device(locations)
        return tree.plan(level, columns)

    def _arguments(self, data=None):
        """Return the arguments of kernels that describe the tree; without data for kernels that do not read the matrix."""
        return (*self.tree.entries, device.null(np.float64) if data is None else data, self._panels, self._updates, self._locations,
                self._late, self._names, self._d, self._e, self._pivots, self._flags)

    def _factor_level(self, level, plan, data, finish=None):
        """Queue the fronts of a level; ``finish(large, step, order, root, tree)`` waits for large fronts that need further steps."""
        size, root, tree = self.dtype.itemsize, np.int32(self.tree.parent[level[0]] < 0), self._arguments(data)
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
            self._finished += len(large.columns)
            if finish is not None:
                finish(large, step, order, root, tree)
            if large.updates:
                self._subtract(large.fronts[large.dense:], len(large.columns) - large.dense, (large.updates, large.updates), 0, 1, tree)
        for front in plan.dense:
            self._update_by_library(front, tree)

    def _finish(self, large, step, order, root, tree):
        """Further steps, if columns have failed and are tried again."""
        while device.to_host(self._flags[:FINISHED + 1])[FINISHED] < self._finished:
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


def _grown(array, need):
    """Return the array, or a longer one that begins with it and ends with zeros."""
    if len(array) >= need:
        return array
    longer = device.xp().zeros(need + need // 4, array.dtype)
    longer[:len(array)] = array
    return longer
