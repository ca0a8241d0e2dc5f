"""ParAC in a given order on the GPU: the persistent kernel of ordered.cu.

The kernel halts when the factor is complete, a workspace is full, or a share of the work is done. The host then enlarges the workspace
and queues the vertices that are ready again, so that the next launch continues where the last one ended.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.errors import DeviceUnavailableError, OutOfMemoryError
from meshsolve.factor.parac.cuda import Columns
from meshsolve.options import counted
from meshsolve.sparse.lists_cuda import exclusive_scan, inverse, total

K = device.kernels("factor/parac/ordered.cu")
BLOCK = 256
BLOCKS_EACH = 3                         # thread blocks per multiprocessor
LIGHT = 64                              # most edges of a pivot that one warp eliminates
SHARED = BLOCK // 32 * (4 * LIGHT + 2) * 8          # bytes: struct Scratch for each warp
SHARE = 1 << 20                         # vertices eliminated per launch; the host can be interrupted between launches
MOST_POLLS = 4_000_000                    # polls, of about a microsecond, without an elimination that count as a stall,
POLLS_PER_EDGE = 4                    # and further polls for each sample of a pivot: a thread block sorts them twice
SLABS = 1 << 22                         # edges for which all slabs of scratch in global memory have space
LARGEST_TABLE, VACANT = 2**32 - 1, np.uint64(2**64 - 1)
HALT, HEAD, TAIL, ELIMINATED, COLUMNS, TABLE, NEED_TABLE, NEED_SCRATCH, LOST = 0, 16, 32, 48, 64, 80, 96, 97, 98      # enum State
COLUMNS_FULL, TABLE_FULL, SCRATCH_SMALL, STALLED = 4, 8, 16, 32                                           # enum Halt


def factor(graph, perm, samples, seed, dtype):
    """The :class:`Columns` of a ``_core.ParacGraph`` in the order ``perm``."""
    with device.errors("the factor"):
        return _Ordered(graph, perm, samples, seed).run(dtype)


class _Ordered:
    """The state of the factorization, by position in the order, and its driver."""

    def __init__(self, graph, perm, samples, seed):
        xp = device.xp()
        self.graph = ptr, to, _, ground = tuple(map(device.to_device, graph.arrays()[:4]))
        n = self.n = len(ptr) - 1
        self.samples, self.seed, self.floor = samples, np.uint64(seed), np.float64(graph.floor)
        self.order = device.to_device(perm)
        self.position = inverse(self.order)
        self.waits, self.later = xp.empty(n, xp.int32), xp.empty(n, xp.int32)
        device.launch(K.k_count_edges, device.grid_for(32 * n, BLOCK), BLOCK, 0,
                      (np.int32(n), np.int32(samples), ptr, to, ground, self.order, self.position, self.waits, self.later))
        self.fills, self.level = xp.zeros(n, xp.int32), xp.ones(n, xp.int32)
        self.queue = xp.empty(n, xp.int32)
        self.column_start, self.column_length = xp.empty(n, xp.int64), xp.full(n, -1, xp.int32)
        self.D = xp.empty(n)
        self.state, self.eliminated = xp.zeros(112, xp.uint64), 0
        self.grid = min(-(-n // (BLOCK // 32)), BLOCKS_EACH * device.multiprocessors())
        grounded = int(device.scalar((ground > 0).sum().reshape(1)))
        self._allocate(len(to), (len(to) // 2 + grounded) * samples)

    def run(self, dtype):
        """Launch the kernel until no vertex is left."""
        while True:
            self._queue_ready()
            self._launch()
            state = device.to_host(self.state).astype(np.int64)
            before, self.eliminated = self.eliminated, int(state[ELIMINATED])
            if self.eliminated == self.n:                   # even if a thread block timed out at the last pivot
                return self._collect(dtype, state)
            if state[HALT] & STALLED:
                self._fail()
            if not self._grow(state) and self.eliminated == before:
                self._fail()

    def _allocate(self, nnz, most_samples):
        """Allocate the workspace by estimates; arrays that are too small grow. An elimination adds fewer samples than it removes edges,
        so there are at most as many as the graph has copies of edges, and on meshes half as many. The table is filled to three quarters.
        """
        self._make_columns((nnz + self.n) * 5 // 4)
        self._make_table(most_samples + 64)
        self._make_slabs(1024)

    def _make_columns(self, capacity):
        xp = device.xp()
        self.column_row, self.column_value = xp.empty(capacity, xp.int32), xp.empty(capacity)

    def _make_table(self, capacity):
        xp = device.xp()
        if capacity > LARGEST_TABLE:
            raise OutOfMemoryError("more than 4 billion sampled edges at a time: the graph is too large")
        self.table, self.table_samples = xp.full(capacity, VACANT, xp.uint64), xp.empty(2 * capacity)        # struct Sample: 16 bytes

    def _make_slabs(self, edges):
        xp = device.xp()
        self.slab_capacity, count = edges + edges % 2, max(1, min(self.grid, SLABS // edges))
        self.slabs, self.slab_taken = xp.empty(count * (4 * self.slab_capacity + 2)), xp.zeros(count, xp.int32)

    def _fail(self):
        raise DeviceUnavailableError(
            f"the factor: {counted(self.n - self.eliminated, 'vertex')} are left and none can be eliminated (stalled); "
            'use device="cpu"')

    def _queue_ready(self):
        """Queue the vertices that wait for no other and are not eliminated, by position."""
        xp = device.xp()
        ready = xp.flatnonzero((self.waits == 0) & (self.column_length < 0))
        if len(ready) == 0:
            self._fail()
        self.queue.fill(-1)
        self.queue[:len(ready)] = ready.astype(xp.int32)
        self.state[HALT], self.state[HEAD], self.state[TAIL] = 0, 0, len(ready)

    def _launch(self):
        ptr, to, w, ground = self.graph
        most_polls = np.int64(MOST_POLLS + POLLS_PER_EDGE * len(self.table))
        device.launch(K.k_ordered, self.grid, BLOCK, SHARED,
                      (np.int32(self.n), np.int32(self.samples), self.seed, self.floor, np.uint64(self.eliminated + SHARE),
                       most_polls, self.state, ptr, to, w, ground, self.order, self.position, self.later,
                       self.waits, self.fills, self.level, self.queue, self.table, self.table_samples, np.int64(len(self.table)),
                       self.column_start, self.column_length, self.column_row, self.column_value, self.D,
                       np.int64(len(self.column_row)), self.slabs, self.slab_taken, np.int32(len(self.slab_taken)),
                       np.int32(self.slab_capacity)))

    def _grow(self, state):
        """Enlarge the workspace that halted the kernel. True if one was full."""
        if state[HALT] & COLUMNS_FULL:
            old, used = (self.column_row, self.column_value), min(int(state[COLUMNS]), len(self.column_row))
            self._make_columns(int(state[COLUMNS]) * 3 // 2)
            self.column_row[:used], self.column_value[:used] = old[0][:used], old[1][:used]
            self.state[COLUMNS] = used
        if state[HALT] & TABLE_FULL:
            old, old_samples = self.table, self.table_samples
            self._make_table(min(max(2 * len(old), 2 * int(state[NEED_TABLE])), LARGEST_TABLE))
            device.launch(K.k_rehash, device.grid_for(len(old), BLOCK), BLOCK, 0,
                          (np.int64(len(old)), old, old_samples, np.int64(len(self.table)), self.table, self.table_samples))
        if state[HALT] & SCRATCH_SMALL:
            self._make_slabs(int(state[NEED_SCRATCH]) * 3 // 2)
        return bool(state[HALT] & (COLUMNS_FULL | TABLE_FULL | SCRATCH_SMALL))

    def _collect(self, dtype, state):
        xp, n = device.xp(), self.n
        ptr = exclusive_scan(self.column_length)
        nnz = total(ptr)
        rows, values = xp.empty(nnz, xp.int32), xp.empty(nnz)
        device.launch(K.k_pack, device.grid_for(32 * n, BLOCK), BLOCK, 0,
                      (np.int32(n), self.column_start, self.column_row, self.column_value, ptr, rows, values))
        return Columns(ptr, rows, values.astype(dtype, copy=False), self.D, self.order, self.level,
                       int(device.scalar(self.level.max().reshape(1))), int(state[LOST]))
