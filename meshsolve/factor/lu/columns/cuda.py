"""The columns engine on the GPU: launches of columns.cu, right-looking over the exact levels.

Host counterpart: ``_core.ColumnLuDouble``. A solve treats both triangles and the entries above the diagonal blocks as one triangular
system by rows, and works by level sets (:class:`meshsolve.factor.trisolve.cuda.Rows`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.factor.fronts.cuda import strides
from meshsolve.factor.lu.cuda import EngineCuda, PivotRule, Scatter, sides
from meshsolve.factor.trisolve.cuda import Rows

K = device.kernels("factor/lu/columns/columns.cu")
NARROW_BLOCK, WIDE_BLOCK = 512, 256
NARROW = 2048                   # threads of a level up to which one thread block runs it, together with narrow neighboring levels
LONG, HEAVY = 64, 512           # entries of a step, and of all steps of a column, from which a thread block takes a column
BLOCKS = 256                    # thread blocks of a level below which its columns are cut into ranges of rows
CHUNK = 16                      # right-hand sides of one pass


class Shape(NamedTuple):
    """Levels [first, end) of one launch."""

    first: int
    end: int
    tasks: int
    lanes: int                  # threads per column; 0: whole thread blocks
    pieces: int                 # thread blocks per column


class ColumnsCuda(EngineCuda):
    """LU by columns on the GPU."""

    host_name = "ColumnLu"

    def __init__(self, plan, analysis, dtype):
        super().__init__(plan, analysis, dtype)
        xp, parts = device.xp(), plan.arrays()
        self._n = n = len(parts["l_ptr"]) - 1
        store = Storage(parts)
        level_ptr, tasks = _tasks(parts, store)
        self._shapes = _shapes(level_ptr, tasks, store)
        self._pattern = tuple(map(device.to_device, (store.ptr, store.diagonal, store.rows)))
        self._tasks = tuple(map(device.to_device, (level_ptr, tasks.column, tasks.ptr, tasks.step, tasks.at)))
        self._scatter = Scatter(parts["source"], parts["scale"], store.positions(parts["row"], parts["entry_ptr"]))
        self._values, self._inverse = xp.zeros(len(store.rows), self.dtype), xp.ones(n, self.dtype)
        self._fresh = set()                 # sides of the solves that hold the values of this factor
        self._lanes = _lanes(len(store.rows) / n)

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    def factor(self, data, threshold, tiny, perturbed_size, threads=1, undisturbed=False):
        """Factor the matrix with these values, (nnz,) float64 on the GPU: (perturbed pivots, max |B|, max |U|)."""
        rule = PivotRule(threshold, tiny, perturbed_size)
        self._counts.clear()
        self._fresh.clear()
        self._values.fill(0)
        self._scatter(data, self._values, self._counts)
        self._scatter_outside(data, self._outside)
        arguments = *self._pattern, *self._tasks, *rule.smallest, self._values
        for shape in self._shapes:
            self._update(shape, arguments)
        self._launch(K, "k_finish", device.grid_for(self._n * self._lanes, 256), 256, 0,
                     (np.int32(self._n), np.int32(self._lanes), *self._pattern[:2], *rule.smallest, self._values, self._inverse,
                      self._counts.array))
        return self._counts.read()

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, transposed, B, X, threads=1):
        """X := A^-1 B, or A^-T B, for (n, k) float64 arrays on the GPU, in C or F order."""
        xp, k, steps, permutation = device.xp(), B.shape[1], self._steps(transposed), self._permutation
        enter, leave = sides(transposed)
        for begin in range(0, k, CHUNK):
            count = min(k - begin, CHUNK)
            Y, sizes = xp.empty((2 * self._n, count)), (np.int32(self._n), np.int32(count), steps.position)
            grid = device.grid_for(self._n * count, 256)
            self._launch(K, "k_enter", grid, 256, 0, (*sizes, permutation[enter], permutation[enter + "_scale"], B,
                                                      np.int64(begin) * strides(B)[1], *strides(B), Y))
            steps.rows.solve(steps.values, steps.scales, Y)
            self._launch(K, "k_leave", grid, 256, 0, (*sizes, permutation[leave], permutation[leave + "_scale"], Y, X,
                                                      np.int64(begin) * strides(X)[1], *strides(X)))

    def triangles(self):
        """The triangles as ``_core.ColumnLuDouble.triangles`` returns them, on the host."""
        host = self._host(self._plan)
        _core.load_columns(host, device.to_host(self._values), device.to_host(self._outside))
        return host.triangles()

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _held(self):
        return (self._values, self._inverse, *self._pattern, *self._tasks), (self._scatter, *self._solves.values())

    def _update(self, shape, arguments):
        if shape.lanes == 0:
            self._launch(K, "k_update_wide", (shape.tasks, shape.pieces), WIDE_BLOCK, 0, (np.int32(shape.first), *arguments))
            return
        grid = 1 if shape.end - shape.first > 1 else device.grid_for(shape.tasks * shape.lanes, NARROW_BLOCK)
        self._launch(K, "k_update_narrow", grid, NARROW_BLOCK, 0,
                     (np.int32(shape.first), np.int32(shape.end), np.int32(shape.lanes), *arguments))

    def _steps(self, transposed):
        """The solve by rows with the values of this factor."""
        if transposed not in self._solves:
            self._solves[transposed] = Steps(self._plan.steps(transposed), self._n, transposed, self.dtype)
        steps = self._solves[transposed]
        if transposed not in self._fresh:
            count = len(steps.values)
            self._launch(K, "k_gather", device.grid_for(count, 256), 256, 0,
                         (np.int64(count), steps.source, steps.pivot, np.int64(len(self._values)), np.int64(len(self._outside)),
                          self._values, self._outside, self._inverse, steps.values))
            steps.set_scales(self._inverse)
            self._fresh.add(transposed)
        return steps


class Storage:
    """The storage of L and U: the entries of U, the pivot and the entries of L of each column, rows ascending."""

    def __init__(self, parts):
        n = len(parts["l_ptr"]) - 1
        self.ptr = parts["u_ptr"] + parts["l_ptr"] + np.arange(n + 1)
        upper, lower = np.diff(parts["u_ptr"]), np.diff(parts["l_ptr"])
        self.diagonal = self.ptr[:-1] + upper
        self.of_upper = np.arange(len(parts["u_row"])) + np.repeat(self.ptr[:-1] - parts["u_ptr"][:-1], upper)
        of_lower = np.arange(len(parts["l_row"])) + np.repeat(self.diagonal + 1 - parts["l_ptr"][:-1], lower)
        self.rows = np.empty(self.ptr[-1], np.int32)
        self.rows[self.of_upper], self.rows[of_lower] = parts["u_row"], parts["l_row"]
        self.rows[self.diagonal] = np.arange(n)

    def positions(self, row, entry_ptr):
        """The positions of these entries, given by columns."""
        n = len(self.diagonal)
        column = np.repeat(np.arange(n), np.diff(self.ptr)), np.repeat(np.arange(n), np.diff(entry_ptr))
        key = column[0] * n + self.rows, column[1] * n + row
        return np.searchsorted(key[0], key[1])


class Tasks(NamedTuple):
    """Columns that each level updates, with their steps and the positions of the multipliers U(step, column)."""

    column: np.ndarray          # (tasks,) int32
    ptr: np.ndarray             # (tasks + 1,) int64
    step: np.ndarray            # (pairs,) int32, ascending in each task
    at: np.ndarray              # (pairs,) int64


class Steps:
    """A solve by rows on the GPU."""

    def __init__(self, steps, n, transposed, dtype):
        level_ptr, ptr, column, source, pivot, position = steps
        xp = device.xp()
        self.rows = Rows(level_ptr, ptr, column)
        self.source, self.pivot, self.position = map(device.to_device, (source, pivot, position))
        self.values, self._n = xp.empty(len(source), dtype), n
        self.scales = xp.ones(2 * n if transposed else 0)   # factor of a row before the sum; empty: ones

    @property
    def nbytes(self):
        arrays = (self.source, self.pivot, self.position, self.values)
        return self.rows.nbytes + sum(array.nbytes for array in arrays)

    def set_scales(self, inverse):
        """Divide the rows of the first triangle by their pivots in a transposed solve."""
        if len(self.scales):
            self.scales[self.position[:self._n]] = inverse


def _tasks(parts, store):
    """(level_ptr, Tasks) by the exact levels, without the steps whose column of L is empty."""
    n, length = len(store.diagonal), np.diff(parts["l_ptr"])
    column = np.repeat(np.arange(n, dtype=np.int32), np.diff(parts["u_ptr"]))
    by_row = np.argsort(parts["u_row"], kind="stable")
    u_ptr = np.searchsorted(parts["u_row"][by_row], np.arange(n + 1)).astype(np.int64)
    level = _core.lu_levels(parts["l_ptr"], parts["l_row"], u_ptr, column[by_row], "exact")
    pairs = np.flatnonzero(length[parts["u_row"]] > 0)
    of_pair = level[parts["u_row"][pairs]]
    pairs = pairs[np.argsort(of_pair, kind="stable")]       # (level, column, step): columns and rows ascend already
    step, changed = parts["u_row"][pairs], column[pairs]
    of_pair = level[step]
    first = np.flatnonzero(np.append(True, (of_pair[1:] != of_pair[:-1]) | (changed[1:] != changed[:-1]))[:len(pairs)])
    levels = np.unique(of_pair[first])
    level_ptr = np.append(np.searchsorted(of_pair[first], levels), len(first)).astype(np.int64)
    return level_ptr, Tasks(changed[first], np.append(first, len(pairs)).astype(np.int64), step, store.of_upper[pairs])


def _shapes(level_ptr, tasks, store):
    """The launches of the numeric phase."""
    count = np.diff(level_ptr)
    if len(count) == 0:
        return []
    length = (store.ptr[1:] - store.diagonal - 1)[tasks.step]
    pair_ptr = tasks.ptr[level_ptr]
    entries = np.add.reduceat(length, pair_ptr[:-1])
    a_step, a_task = entries / np.diff(pair_ptr), entries / count
    longest = np.maximum.reduceat(np.diff(store.ptr)[tasks.column], level_ptr[:-1])
    wide = (a_step >= LONG) & (a_task >= HEAVY)
    lanes = _lanes(a_step)
    narrow = ~wide & (count * lanes <= NARROW)
    begins = np.flatnonzero(~(narrow & np.append(False, narrow[:-1])))
    pieces = np.maximum(np.minimum(BLOCKS // count, -(-longest // WIDE_BLOCK)), 1)
    return [Shape(int(a), int(b), int(count[a]), 0 if wide[a] else int(lanes[a:b].max()), int(pieces[a]))
            for a, b in zip(begins, np.append(begins[1:], len(count)))]


def _lanes(entries):
    """Threads for this number of entries: a power of two up to a warp."""
    lanes = 1 << np.clip(np.ceil(np.log2(np.maximum(entries, 1) / 2)), 0, 5).astype(int)
    return lanes if np.ndim(entries) else int(lanes)
