"""Solves with a sparse unit lower triangular factor on the GPU: launches of dataflow.cu, or by level sets of levels.cu."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.device.reductions import is_any
from meshsolve.sparse.lists_cuda import rows_of

K = device.kernels("factor/trisolve/levels.cu")
DATAFLOW = device.kernels("factor/trisolve/dataflow.cu")
LONG = 4096                             # entries of a row from which thread blocks solve it, level by level: one warp would be too slow
SWEEP_BLOCK, BLOCKS_EACH = 256, 4       # threads of a block, and blocks of a multiprocessor, in a solve of one launch
BLOCK = 512
NARROW = 2048                           # threads of a level below which one thread block solves it and its narrow neighbors,
ALONE = 4 * NARROW                      # ... unless several right-hand sides need more threads than this: a launch then costs less


class UnitLower:
    """(G D G^T)^+ = G^-T D^+ G^-1 of a unit lower triangular G whose rows are numbered by level, with arrays on the GPU.

    Parameters
    ----------
    ptr, rows, values : (n + 1) int64, (nnz) int32, (nnz) float64 or float32
        Columns of G without its diagonal, minus its entries.
    level_ptr : (levels + 1) int64, numpy
        First row of each level; the rows of a column are in later levels.
    inverse_d : (n) float64
    position : (n) int32
        Row of right-hand sides and solutions that belongs to each row of G.
    """

    def __init__(self, ptr, rows, values, level_ptr, inverse_d, position):
        xp = device.xp()
        self.inverse_d, self.position = inverse_d, position
        by_row, by_column = transposed(ptr, rows, values), (ptr, rows, values)
        is_long = any(is_any(xp.diff(matrix[0]) > LONG) for matrix in (by_row, by_column))
        way = _ByLevels if is_long else _InOneLaunch
        self.forward, self.backward = (way(*matrix, level_ptr, step) for matrix, step in ((by_row, 1), (by_column, -1)))
        self._clear, self._stalled = DATAFLOW.of(values.dtype).k_clear, xp.zeros(1, xp.int32)
        self.nbytes = 2 * (rows.nbytes + values.nbytes + ptr.nbytes) + 12 * (len(ptr) - 1)

    def apply(self, B):
        """Return (G D G^T)^+ B, a new block, for a C contiguous (n, k) float64 block. Does not wait for the GPU."""
        xp = device.xp()
        X = xp.empty_like(B)
        if B.size == 0:
            return X
        work, tickets, none, here = xp.empty((2, *B.shape)), xp.empty(2, xp.uint64), xp.empty(0), xp.empty(0, xp.int32)
        launch_1d(self._clear, work.size, np.int64(work.size), work, tickets)
        self.forward.solve(none, B, self.position, work[0], none, here, tickets[:1], self._stalled)
        self.backward.solve(self.inverse_d, work[0], here, work[1], X, self.position, tickets[1:], self._stalled)
        return X

    def check(self):
        """Wait for the solve, and raise if it has stalled."""
        try:
            device.check_stall(self._stalled, "the preconditioner")
        finally:
            self._stalled[:] = 0


class Rows:
    """A triangular system whose rows are sorted by level, without its values: row after row ``Y := scale Y + N Y``.

    Parameters
    ----------
    level_ptr, ptr : (levels + 1) int64, (n + 1) int64, numpy
        First row of each level, first entry of each row.
    columns : (nnz) int32, numpy
        Rows of earlier levels.
    """

    def __init__(self, level_ptr, ptr, columns):
        self._runs = _runs(np.diff(level_ptr), np.diff(ptr[level_ptr]))
        self._level_ptr, self._ptr, self._columns = (device.to_device(a) for a in (level_ptr, ptr, columns))
        self.nbytes = level_ptr.nbytes + ptr.nbytes + columns.nbytes

    def solve(self, values, scale, Y):
        """Solve in place for a C contiguous (n, k) float64 block on the GPU; ``values`` are float64 or float32."""
        kernel = K.of(values.dtype).k_levels
        for first, end, lanes, threads in self._runs:
            _launch(kernel, first, end, 1, self._level_ptr, lanes, threads, (self._ptr, self._columns, values), scale, Y)


def transposed(ptr, rows, values):
    """The rows of a square matrix that is given by columns, or the other way round; ascending in each."""
    xp, n = device.xp(), len(ptr) - 1
    by_row = xp.argsort(rows, kind="stable")
    columns = rows_of(ptr, len(rows))[by_row]
    row_ptr = xp.searchsorted(rows[by_row], xp.arange(n + 1, dtype=rows.dtype), side="left").astype(xp.int64)
    return row_ptr, columns.astype(xp.int32), values[by_row]


class _InOneLaunch:
    """A sweep in one launch: each row waits for the values that it needs."""

    def __init__(self, ptr, columns, values, level_ptr, step):
        counts = np.diff(level_ptr)
        lanes = _lanes(counts, np.diff(device.to_host(ptr[device.to_device(level_ptr)])))
        together = 32 // lanes                              # rows of a task
        tasks = -(-counts // together)
        number = np.arange(tasks.sum()) - np.repeat(np.cumsum(tasks) - tasks, tasks)
        first = np.append(np.repeat(level_ptr[:-1], tasks) + number * np.repeat(together, tasks), level_ptr[-1])
        self._tasks = np.int32(len(number)), np.int32(step), *(
            device.to_device(a.astype(np.int32)) for a in (first, np.repeat(lanes, tasks)))
        self._matrix, self._count = (ptr, columns, values), len(number)
        self._kernel = DATAFLOW.of(values.dtype).k_sweep

    def solve(self, scale, B, place_b, Y, X, place_x, ticket, stalled):
        """Y := scale B + N Y, and X := Y unless X is empty. ``place_b`` and ``place_x`` are the rows of B and X, empty if as in Y."""
        k = B.shape[1]
        grid = min(device.grid_for(32 * self._count * k, SWEEP_BLOCK), BLOCKS_EACH * device.multiprocessors())
        device.launch(self._kernel, grid, SWEEP_BLOCK, 0,
                      (*self._tasks, *self._matrix, scale, np.int32(k), stalled, B, place_b, Y, X, place_x, ticket))


class _ByLevels:
    """A sweep with one launch per wide level, in which several warps share a long row."""

    def __init__(self, ptr, columns, values, level_ptr, step):
        self._matrix, self._level_ptr, self._step = (ptr, columns, values), device.to_device(level_ptr), step
        runs = _runs(np.diff(level_ptr), np.diff(device.to_host(ptr[self._level_ptr])))
        self._runs = [(first, end, *rest) if step > 0 else (end - 1, first - 1, *rest) for first, end, *rest in runs[::step]]
        self._kernel = K.of(values.dtype).k_levels

    def solve(self, scale, B, place_b, Y, X, place_x, ticket, stalled):
        """The same as :meth:`_InOneLaunch.solve`; ``ticket`` and ``stalled`` are not used."""
        Y[...] = B[place_b] if len(place_b) else B
        for first, end, lanes, threads in self._runs:
            _launch(self._kernel, first, end, self._step, self._level_ptr, lanes, threads, self._matrix, scale, Y)
        if X.size:
            X[place_x] = Y


def _launch(kernel, first, end, step, level_ptr, lanes, threads, matrix, scale, Y):
    k, many = Y.shape[1], abs(end - first) > 1
    if many and threads * k > ALONE:                        # with the lanes of the run: the sums are those of one right-hand side
        for level in range(first, end, step):
            _launch(kernel, level, level + step, step, level_ptr, lanes, threads, matrix, scale, Y)
        return
    device.launch(kernel, 1 if many else device.grid_for(threads * k, BLOCK), BLOCK, 0,
                  (np.int32(first), np.int32(end), np.int32(step), level_ptr, np.int32(k), np.int32(lanes), *matrix, scale, Y))


def _lanes(rows, entries):
    """Threads that share a row of each level, one for two entries of a mean row."""
    return 1 << np.clip(np.ceil(np.log2(np.maximum(entries / np.maximum(rows, 1), 1) / 2)), 0, 5).astype(int)


def _runs(rows, entries):
    """(first level, end, threads per row, threads) of each launch; ``rows`` and ``entries`` are those of each level."""
    lanes = _lanes(rows, entries)
    narrow = rows * lanes <= NARROW
    begins = np.flatnonzero(~(narrow & np.append(False, narrow[:-1])))
    ends = np.append(begins[1:], len(rows))
    return [(int(first), int(end), int(lanes[first:end].max()), int((rows * lanes)[first:end].max())) for first, end in zip(begins, ends)]
