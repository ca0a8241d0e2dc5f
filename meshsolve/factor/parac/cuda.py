"""ParAC on the GPU: the rounds, launches of rounds.cu. The host looks at a few counters every few rounds, arrays stay.

A given order can be factored in rounds as well: its vertices are numbered by position, and a vertex is eliminated when no live
neighbor has a smaller number. The factor is that of the CPU, bit for bit. :func:`meshsolve.parac` uses the queue of
ordered_cuda.py for given orders, which does not visit all remaining vertices in every round.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import device
from meshsolve.errors import DeviceUnavailableError
from meshsolve.options import counted
from meshsolve.sparse.lists_cuda import exclusive_scan, inverse, total

K = device.kernels("factor/parac/rounds.cu")
BLOCK = 256
MOST_BLOCKS = 1056                      # eight a multiprocessor
SHARED = BLOCK // 32 * 5 * 64 * 8       # bytes: struct Scratch of 64 edges for each warp
ROUNDS_A_LOOK = 8                       # rounds between two looks at the counters
NARROW, WIDE = 512, 2048                # edges in a round below which one block goes on alone, and above which it stops ...
FEW = 2048                              # ... of vertices that it looks through as fast as a grid is launched
ROUNDS_ALONE = 256
SELECT, PLAN, ELIMINATE, GROW, SCATTER = PHASES = (K.k_select, K.k_plan, K.k_eliminate, K.k_grow_rows, K.k_scatter)
GO_ON, DONE, STALLED, FULL, ROWS_FULL = range(5)
(HALT, _, _, NEED, NEED_HEAVY, ROUND, LIVE, COLUMNS, _, _, NEED_COLUMNS, ROWS, LOST, WORK, _, _) = range(16)    # enum State in rounds.cu
USED, CAPACITY_OF, INCOMING, ROUND_OF = 0, 1, 5, 7                                                      # struct Vertex


@dataclass(frozen=True, eq=False)
class Columns:
    """G without its diagonal, by columns, on the GPU: the fields of `Columns` in parac.hpp, and the round of each column."""

    ptr: object                         # (n + 1) int64
    rows: object                        # (nnz) int32
    values: object                      # (nnz) minus the entries of G
    D: object                           # (n) float64
    perm: object                        # (n) int32
    round: object                       # (n) int32
    rounds: int
    lost: int


def factor(graph, perm, samples, seed, dtype):
    """The :class:`Columns` of a ``_core.ParacGraph``, in the order ``perm``, or with None in that of the rounds."""
    with device.errors("the factor"):
        return _Rounds(graph, perm, samples, seed).run(dtype)


class _Rounds:
    """The workspace and the driver: launches rounds, and enlarges the workspace when they halt for lack of it."""

    def __init__(self, graph, perm, samples, seed):
        xp = device.xp()
        ptr, to, w, ground, names = map(device.to_device, graph.arrays())
        n = self.n = len(ptr) - 1
        self.dynamic, self.samples = perm is None, samples
        self.seed, self.floor = np.uint64(seed), np.float64(graph.floor)
        place = xp.arange(n, dtype=xp.int32) if self.dynamic else device.to_device(perm)
        self.origin = names[place] if len(names) else place
        position = inverse(place)
        length = xp.diff(ptr)[place]
        if len(ground):
            length += samples * (ground[place] > 0)
        self.start = exclusive_scan(length + length // 2 + 4)
        used = total(self.start)
        self.rows_capacity = used + used // 2                   # the rest for rows that outgrow theirs
        self._empty_rows()
        self.vertex, self.key = xp.zeros((n, 8), xp.int32), xp.empty(n + 1, xp.uint64)
        device.launch(K.k_fill, device.grid_for(32 * n, BLOCK), BLOCK, 0,
                      (np.int32(n), np.int32(samples), ptr, to, w, ground, place, position, self.start, self.vertex,
                       self.to, self.w))
        device.launch(K.k_keys, device.grid_for(n + 1, BLOCK), BLOCK, 0,
                      (np.int32(n), np.int32(self.dynamic), self.seed, self.origin, self.vertex, self.key))
        self.live = xp.arange(n, dtype=xp.int32)
        self._allocate(len(to))
        self.chosen, self.reserved = xp.empty(n, xp.int32), xp.empty(n, xp.int64)
        self.column_start, self.column_length, self.D = xp.empty(n, xp.int64), xp.empty(n, xp.int32), xp.empty(n)
        self.state = xp.zeros(16, xp.uint64)
        self.state[LIVE], self.state[ROWS] = n, used

    def run(self, dtype):
        """Rounds until no vertex is left."""
        phase, alone = SELECT, False
        while True:
            state = device.to_host(self.state).astype(np.int64)
            if state[HALT] == DONE:
                return self._collect(dtype, state)
            if state[HALT] == STALLED:
                raise DeviceUnavailableError(
                    f"the factor: {counted(state[LIVE], 'vertex')} are left and none can be eliminated (stalled); use device=\"cpu\"")
            if state[HALT] == FULL:
                self._grow(state)
                phase = PLAN
            elif state[HALT] == ROWS_FULL:
                self._next_epoch()
                phase = GROW
            else:
                phase, alone = SELECT, 0 < state[WORK] <= NARROW and state[LIVE] <= FEW
                if 3 * state[LIVE] < 2 * len(self.live):
                    self._next_epoch()
            self.state[HALT] = GO_ON
            self._launch(phase, alone)

    def _allocate(self, nnz):
        """Guesses: what is too small grows."""
        xp = device.xp()
        self.column_row, self.column_value = xp.empty(2 * nnz, xp.int32), xp.empty(2 * nnz)
        self._allocate_samples(nnz // 2 * self.samples)
        self.scratch = xp.empty(0)

    def _empty_rows(self):
        xp = device.xp()
        self.to, self.w = xp.empty(self.rows_capacity, xp.int32), xp.empty(self.rows_capacity)

    def _allocate_samples(self, count):
        xp = device.xp()
        self.sample_ends, self.sample_w, self.touched = xp.empty(2 * count, xp.int32), xp.empty(count), xp.empty(count, xp.int32)

    def _launch(self, phase, alone):
        """The rest of a round from ``phase`` on, then rounds by one block or by all."""
        arguments = self._arguments()
        if phase != SELECT:
            self._launch_phases(PHASES[PHASES.index(phase):], arguments)
        if alone:
            device.launch(K.k_rounds, 1, BLOCK, SHARED, (np.int32(ROUNDS_ALONE), np.int32(WIDE), *arguments))
            return
        for _ in range(ROUNDS_A_LOOK):
            self._launch_phases((SELECT, ELIMINATE, GROW, SCATTER), arguments)

    def _launch_phases(self, some, arguments):
        live = max(len(self.live), 1)                       # the last block of `select` finds out that none is left
        for phase in some:
            grid = 1 if phase == PLAN else device.grid_for(live if phase == SELECT else 8 * live, BLOCK, MOST_BLOCKS)
            device.launch(phase, grid, BLOCK, SHARED if phase == ELIMINATE else 0, arguments)

    def _arguments(self):
        numbers = device.to_device(np.array(
            [self.n, self.samples, self.dynamic, len(self.live), len(self.column_row), len(self.sample_w),
             len(self.scratch) // 5, self.rows_capacity], np.int64))
        return (numbers, self.seed, self.floor, self.state, self.key, self.origin, self.vertex, self.start, self.to, self.w,
                self.live, self.chosen, self.touched, self.reserved, self.column_start, self.column_length, self.column_row,
                self.column_value, self.D, self.sample_ends, self.sample_w, self.scratch)

    # ---- a larger workspace --------------------------------------------------------------------------------------------------------

    def _grow(self, state):
        """Enlarge the workspace to 1.5 times the columns and samples of the current round."""
        xp = device.xp()
        columns = int(state[COLUMNS] + state[NEED_COLUMNS])
        if columns > len(self.column_row):
            size = columns + columns // 2
            for name in ("column_row", "column_value"):
                old = getattr(self, name)
                new = xp.empty(size, old.dtype)
                new[:int(state[COLUMNS])] = old[:int(state[COLUMNS])]
                setattr(self, name, new)
        if state[NEED] > len(self.sample_w):
            self._allocate_samples(int(state[NEED] + state[NEED] // 2))
        if 5 * state[NEED_HEAVY] > len(self.scratch):
            self.scratch = xp.empty(5 * int(state[NEED_HEAVY] + state[NEED_HEAVY] // 2))

    def _next_epoch(self):
        """Write the remaining graph to new rows close together, each with space for the waiting samples and some more."""
        xp = device.xp()
        self.live = xp.flatnonzero(self.key[:-1] != np.uint64(2**64 - 1)).astype(xp.int32)
        count = self.vertex[self.live, USED] + self.vertex[self.live, INCOMING]
        capacity = count + count // 2 + 4
        starts = exclusive_scan(capacity)
        used = total(starts)
        old_to, old_w, old_start = self.to, self.w, self.start.copy()
        self.rows_capacity = used + used // 2
        self._empty_rows()
        device.launch(K.k_rewrite, device.grid_for(32 * len(self.live), BLOCK), BLOCK, 0,
                      (self.live, np.int32(len(self.live)), self.key, old_start, old_to, old_w, starts, capacity, self.vertex, self.to,
                       self.w))
        self.start[self.live] = starts[:-1]
        self.state[ROWS] = used

    # ---- the factor -------------------------------------------------------------------------------------------------------

    def _collect(self, dtype, state):
        """Columns in the order of elimination, rows as positions."""
        xp, n = device.xp(), self.n
        if self.dynamic:
            order = xp.argsort(self.vertex[:, ROUND_OF], kind="stable").astype(xp.int32)
        else:
            order = xp.arange(n, dtype=xp.int32)
        ptr = exclusive_scan(self.column_length[order])
        nnz = total(ptr)
        rows, values = xp.empty(nnz, xp.int32), xp.empty(nnz)
        device.launch(K.k_collect, device.grid_for(32 * n, BLOCK), BLOCK, 0,
                      (np.int32(n), order, inverse(order), self.column_start, self.column_row, self.column_value, ptr, rows, values))
        return Columns(ptr, rows, values.astype(dtype, copy=False), self.D[order], self.origin[order],
                       self.vertex[order, ROUND_OF], int(state[ROUND]), int(state[LOST]))
