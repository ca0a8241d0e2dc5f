"""The incomplete factor on the GPU as a preconditioner: launches of inverse.cu. Host counterpart: `Inverse` in incomplete.hpp."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.factor.trisolve import cuda as trisolve

K = device.kernels("factor/ildl/inverse.cu")
BLOCK = 256
MOST_BLOCKS = 1056                      # eight per multiprocessor
MOST_A_THREAD = 32                      # entries; in a depth with a longer row, up to a warp shares each sum


class Schedule:
    """The tasks of the thread blocks in a sweep: parts of wide depths, and runs of narrow depths.

    Parameters
    ----------
    rows : Rows
        The tiles by depth.
    entries : int
        Entries of L outside the tiles; they decide how many threads share the sum of a row.
    """

    def __init__(self, rows, entries):
        self.width = rows.width
        per_row = max(entries / rows.n, 1)
        self.lanes = 1 << int(np.clip(np.ceil(np.log2(per_row / 2)), 0, np.log2(max(min(32, BLOCK // self.width), 1))))
        self.together = max(BLOCK // (self.width * self.lanes), 1)
        counts = np.diff(rows.depth_ptr).astype(np.int64)
        narrow = counts <= self.together
        first = np.flatnonzero(~(narrow & np.append(False, narrow[:-1])))           # first depth of each run
        end = np.append(first[1:], rows.depths)
        parts = np.where(end - first > 1, 1, -(-counts[first] // self.together))
        run = np.repeat(np.arange(len(first)), parts)
        part = np.arange(len(run)) - np.append(0, np.cumsum(parts))[run]
        begin = rows.depth_ptr[first][run] + part * self.together
        stop = np.minimum(begin + self.together, rows.depth_ptr[first + 1][run])
        host = (run, first[run], end[run], begin, stop, parts)
        self.arrays = tuple(device.to_device(np.ascontiguousarray(values, np.int32)) for values in host)
        self.tasks, self.runs, self.grid = len(run), len(first), int(min(parts.max(), MOST_BLOCKS))
        self._begin, self._depth = rows.begin, np.empty(rows.tiles, np.int32)
        self._depth[rows.order] = np.repeat(np.arange(rows.depths), counts)

    def lanes_for(self, ptr):
        """(depths,) number of threads that share a sum, on the GPU, for rows of L with these pointers: more in a depth with long rows."""
        xp, lanes = device.xp(), np.full(self._depth.max() + 1, self.lanes, np.int32)
        entries = xp.diff(ptr)
        long = xp.flatnonzero(entries > MOST_A_THREAD * self.lanes)
        tile = np.searchsorted(self._begin, device.to_host(long), side="right") - 1
        needed = 1 << np.ceil(np.log2(device.to_host(entries[long]) / MOST_A_THREAD)).clip(0, 5).astype(np.int32)
        np.maximum.at(lanes, self._depth[tile], needed)
        return device.to_device(lanes)


class Inverse:
    """The operator S P (L D L^T)^-1 P^T S on the GPU.

    Parameters
    ----------
    rows : Rows
    columns : Columns
    row : (n) int32
        Row of the caller's matrix that is eliminated k-th, on the GPU.
    scale : (n) float64, on the GPU
    dtype : numpy dtype of the stored L
    """

    def __init__(self, rows, columns, row, scale, dtype):
        xp = device.xp()
        self.n, self.row, self.scale, self.begin = rows.n, row, scale, rows.device_begin
        self.order, self.depth_ptr = rows.device_order
        values = columns.minus.astype(dtype, copy=False)
        self._own, self._square = columns.own.astype(dtype, copy=False), columns.square
        self._by_column = (columns.ptr, columns.rows, values)
        self._by_row = trisolve.transposed(*self._by_column)
        self._kernel = K.of(np.dtype(dtype)).k_solve
        self._pivots = inverse_pivots(columns.d, columns.e)
        self.schedule = Schedule(rows, len(columns.rows))
        self._lanes_by_row = self.schedule.lanes_for(self._by_row[0])
        self._lanes_by_column = self.schedule.lanes_for(self._by_column[0])
        self._restart()
        arrays = (values, self._own, *self._by_row, columns.ptr, columns.rows, *self._pivots, row, scale)
        self.nbytes = sum(array.nbytes for array in arrays) + 16 * self.n
        self._space = xp.empty((2, 0))

    def apply(self, B):
        """Apply the operator to a C contiguous (n, k) float64 block; returns a new block, without waiting for the GPU."""
        xp, k = device.xp(), B.shape[1]
        if self._space.shape[1] != self.n * k:
            self._space = xp.empty((2, self.n * k))
        X, Y, Z = xp.empty_like(B), self._space[0], self._space[1]
        try:
            for forward in (True, False):
                self._sweep(forward, B, Y, Z, X)
        except BaseException:               # after an interrupt between the launches, the tickets of all later launches would be wrong
            self._restart()
            raise
        self._epoch += 1
        return X

    def check(self):
        """Raise if a sweep has stalled."""
        try:
            device.check_stall(self._stalled, "the preconditioner")
        except Exception:
            self._restart()
            raise

    def _restart(self):
        xp = device.xp()
        self._epoch, self._stalled = 0, xp.zeros(1, xp.int32)
        self._tickets, self._done = xp.zeros((2, 1), xp.uint64), xp.zeros((2, self.schedule.runs), xp.uint64)

    def _sweep(self, forward, B, Y, Z, X):
        S, way = self.schedule, 0 if forward else 1
        matrix, lanes = (self._by_row, self._lanes_by_row) if forward else (self._by_column, self._lanes_by_column)
        taken = self._epoch * (S.tasks + S.grid)            # each block has drawn one ticket more than it got tasks
        device.launch(self._kernel, S.grid, BLOCK, 12 * S.together * S.width + 4,
                      (np.int32(forward), self.begin, self.order, self.depth_ptr, *S.arrays, lanes, np.int32(S.tasks),
                       np.int32(S.width), np.int32(S.together), np.int32(B.shape[1]), np.int32(self.n), *matrix, self._square, self._own,
                       self.row, self.scale, *self._pivots, B, Y, Z, X, self._tickets[way], self._done[way],
                       np.uint64(taken), np.uint64(self._epoch), self._stalled))


def inverse_pivots(d, e):
    """(p, q, mate) with D^-1 x = p x + q x[k + mate], on the GPU; mate is 1, -1, or 0 for a pivot of one row."""
    xp, one, zero = device.xp(), device.xp().ones(1), device.xp().zeros(1)
    first, second = e != 0, xp.concatenate([zero, e[:-1]]) != 0
    off = xp.where(first, e, xp.where(second, xp.concatenate([zero, e[:-1]]), 1.0))
    other = xp.where(first, xp.concatenate([d[1:], one]), xp.where(second, xp.concatenate([one, d[:-1]]), 1.0))
    paired = first | second
    scaled = xp.where(paired, xp.where(first, d, other) / off * xp.where(first, other, d) - off, 1.0)
    p = xp.where(paired, other / off / scaled, 1 / xp.where(paired, 1.0, d))
    q = xp.where(paired, -1 / scaled, 0.0)
    mate = first.astype(xp.int8) - second.astype(xp.int8)
    return p, q, mate
