"""The incomplete factorization on the GPU: one launch of rows.cu, with its input and output. Host counterpart: `Incomplete`.

Matching, order, tiles and the coarse pattern are computed on the host. Pivots, kept entries and values are the same as on the CPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import _core, device
from meshsolve.errors import InvalidInputError
from meshsolve.sparse.lists_cuda import exclusive_scan, total

K = device.kernels("factor/ildl/rows.cu")
AHEAD_THREADS = 512                     # threads per multiprocessor
BLOCK = 256                             # threads per block of kernels with a group of lanes for each tile
TRIMMED_TOGETHER = 8                    # rows of one task of trimming, as in rows.cu
WORDS_MOST = 1024                       # most tiles of a block row with its marks in shared memory
NORM_PARTS = 8
PIVOTING = ("static", "bunch-kaufman", "rook")                                     # enum Pivoting in pivoting.hpp
(TICKET, PROGRESS, HALT, SPARE, NAMES, VALUES, PERTURBED, DROPPED, WORK, STATE_SIZE) = range(10)     # enum State in rows.cuh
OWN_SHARED = 4096                       # bound on the static shared memory of the kernel, in bytes
PADDING = 8                             # padding of rows in shared memory, as in rows.cuh
MOST_TILES = 2**26 - 1                  # of up to 32 columns each: the name of a column has 32 bits
FEW_ROWS, MOST_ROWS = 8, 32             # smallest padded size of a tile, as in rows.cuh
CHUNK = 64                              # columns of a row above that are multiplied together, as in rows.cuh


@dataclass(frozen=True, eq=False)
class Columns:
    """L on the GPU, in the order of elimination; fields as in incomplete.hpp.

    Attributes
    ----------
    ptr, rows, minus : (n + 1) int64, (nnz) int32, (nnz) float64
        Columns of L without the entries in the diagonal tiles; minus the values.
    own, square : float64, (tiles + 1) int64
        Unit lower triangles of the diagonal tiles by columns, and the begin of each.
    d, e : (n) float64
        D; ``e[k]`` is not 0 if k and k + 1 are one pivot.
    order : (n) int32
        Row, in the new numbering, that is eliminated k-th.
    perturbed, dropped, stored : int
    """

    ptr: object
    rows: object
    minus: object
    own: object
    square: object
    d: object
    e: object
    order: object
    perturbed: int
    dropped: int
    stored: int


class Rows:
    """The pattern of a tiling on the GPU, and the memory of its factorizations.

    Parameters
    ----------
    begin : (tiles + 1) int32
    indptr, indices : the matrix in the order of the tiles, both triangles
    level : int
    """

    def __init__(self, begin, indptr, indices, level):
        ptr, column, above_ptr, above, order, depth_ptr = _core.ildl_level_pattern(begin, indptr, indices, level)
        self.begin, self.order, self.depth_ptr, self.blocks = begin, order, depth_ptr, len(column) + len(begin) - 1
        size = np.diff(begin)
        self.tiles, self.depths, self.n = len(size), len(depth_ptr) - 1, int(begin[-1])
        self.cap = int(size.max())
        if self.tiles > MOST_TILES:
            raise InvalidInputError(f"{self.tiles:,} tiles, but kernels number at most {MOST_TILES:,}: take a larger tile_size, or "
                                    'device="cpu"')
        self.width = 1 << int(self.cap - 1).bit_length()
        self.lead = FEW_ROWS if self.cap <= FEW_ROWS else MOST_ROWS
        self.block = 64 if self.cap <= 4 else 128 if self.cap <= 16 else 256
        self.words_capacity = min(-(-int(np.diff(ptr).max(initial=1)) // 32) * 32, WORDS_MOST)
        capacity = (device.shared_limit() - OWN_SHARED - self.shared(0)) // (8 * self.lead)
        self.round = min(max(capacity // 16 * 16, 16), self.block)
        tile_of = np.repeat(np.arange(self.tiles, dtype=np.int32), size)
        square = np.append(0, np.cumsum(size.astype(np.int64) ** 2))
        self._pattern = tuple(map(device.to_device, (begin, tile_of, ptr, column, above_ptr, above, order, depth_ptr)))
        self._matrix = tuple(map(device.to_device, (indptr, indices)))
        self._square = device.to_device(square)
        self._own_size, self._nnz = int(square[-1]), len(indices)
        self._names = self._work = None
        self._task_lists = {}

    @property
    def device_begin(self):
        """First row of each tile, on the GPU."""
        return self._pattern[0]

    @property
    def device_order(self):
        """(tiles by depth, first of each depth), on the GPU."""
        return self._pattern[-2:]

    @property
    def nbytes(self):
        """Bytes of the pattern and the workspace, on the GPU."""
        kept = [*self._pattern, *self._matrix, *(self._names or ()), *([] if self._work is None else [self._work])]
        return sum(array.nbytes for array in kept)

    def factor(self, values, pivoting, droptol, max_fill):
        """Return the :class:`Columns` for these values. There are no budgets if ``max_fill`` is infinite."""
        xp = device.xp()
        budgets = bool(np.isfinite(max_fill))
        tasks = self._tasks(budgets)
        own, d, e = xp.empty(self._own_size), xp.empty(self.n), xp.empty(self.n)
        order, keep = xp.empty(self.n, xp.int32), xp.full(self.tiles, -1, xp.int32)
        count, first = xp.zeros(self.tiles, xp.int32), [xp.zeros(self.tiles, xp.int64) for _ in range(2)]
        self._allocate()
        state, stalled = xp.zeros(STATE_SIZE, xp.uint64), xp.zeros(1, xp.int32)
        done, finished, trimmed = (xp.zeros(size, xp.int32) for size in (self.tiles, self.depths, self.depths))
        values = device.to_device(values)
        while True:
            name, size, value, scaled = self._names
            sizes = (len(tasks[0]), self.cap, self.lead, self.width, self.round, self.words_capacity, PIVOTING.index(pivoting))
            self._launch((*self._matrix, values, *self._pattern, *tasks, *map(np.int32, sizes), np.float64(droptol),
                          np.float64(max_fill if budgets else -1), count, *first, name, size, value, scaled, np.int64(len(name)),
                          np.int64(len(value)), self._square, own, d, e, order, self._work, np.int64(len(self._work)), done,
                          finished, trimmed, keep, state, stalled))
            device.check_stall(stalled, "the factorization")
            reached = device.to_host(state)
            if not reached[HALT]:
                break
            state = device.to_device(self._go_on(reached, trimmed))
        return self._columns(count, first, own, d, e, order, int(reached[PERTURBED]), int(reached[DROPPED]))

    def shared(self, columns):
        """Bytes of shared memory of a thread block with so many columns at a time: `Shared` in rows.cuh."""
        doubles = (2 * self.lead + 1 + 6 + NORM_PARTS + columns + PADDING) * self.lead
        return 8 * doubles + 4 * (4 * self.lead + 1 + CHUNK + 3 * self.words_capacity)

    # ---- tasks, memory ----------------------------------------------------------------------------------------------------

    def _tasks(self, budgets):
        """(depth, item) of all tasks: the rows of a depth, then, with budgets, its tasks of trimming."""
        if budgets not in self._task_lists:
            counts = np.diff(self.depth_ptr).astype(np.int64)
            trims = -(-counts // TRIMMED_TOGETHER) if budgets else 0 * counts
            first = np.append(0, np.cumsum(counts + trims))
            depth = np.repeat(np.arange(self.depths, dtype=np.int32), counts + trims)
            position = np.arange(first[-1]) - first[depth]
            rows = position < counts[depth]
            item = np.where(rows, self.depth_ptr[depth] + position, ~(position - counts[depth])).astype(np.int32)
            self._task_lists[budgets] = device.to_device(depth), device.to_device(item)
        return self._task_lists[budgets]

    def _launch(self, args):
        ahead = AHEAD_THREADS // self.block * device.multiprocessors()
        device.launch(K.k_factor_rows, min(self.tiles, ahead), self.block, self.shared(max(self.round, CHUNK)), args)

    def _allocate(self):
        """Allocate the pools by estimates; a pool that is too small grows."""
        if self._names is None:
            self._empty_names(2 * self._nnz // max(self.cap // 4, 1) + 64, 2 * self._nnz + 64)
        if self._work is None:
            self._work = device.xp().empty(4 * self._nnz + 4096)

    def _empty_names(self, names, values):
        xp = device.xp()
        self._names = xp.empty(names, xp.int32), xp.empty(names), xp.empty(values), xp.empty(values)

    def _go_on(self, state, trimmed):
        """Enlarge the arrays that were full; return the state that begins with the first missing row."""
        kept, needed = self._names, state[NAMES:NAMES + 2].astype(np.int64)
        capacities = len(kept[0]), len(kept[2])                  # names, values
        if (needed > capacities).any():
            capacities = [_grown(capacity, int(need)) for capacity, need in zip(capacities, needed, strict=True)]
            self._empty_names(*capacities)
            for new, old in zip(self._names, kept, strict=True):
                new[:len(old)] = old
        if state[WORK] > len(self._work):
            capacity = _grown(len(self._work), int(state[WORK]))
            self._work = None                               # freed before a larger array is allocated
            self._work = device.xp().empty(capacity)
        trimmed[int(state[PROGRESS]) // 2] = 0              # rows that have been trimmed stay as they are
        state[TICKET], state[HALT], state[WORK] = 0, 0, 0
        return state

    def _columns(self, count, first, own, d, e, order, perturbed, dropped):
        xp = device.xp()
        begin, (name, _, value, _) = self._pattern[0], self._names
        length, position = xp.empty(self.n, xp.int64), xp.empty(self.n, xp.int32)
        grid = device.grid_for(self.tiles * self.width, BLOCK)
        sizes = np.int32(self.tiles), np.int32(self.width), begin, count
        device.launch(K.k_column_lengths, grid, BLOCK, 0, (*sizes, first[1], value, length))
        position[order] = xp.arange(self.n, dtype=xp.int32)
        ptr = exclusive_scan(length)
        nnz = total(ptr)
        rows, minus = xp.empty(nnz, xp.int32), xp.empty(nnz)
        device.launch(K.k_fill_columns, grid, BLOCK, 0, (*sizes, *first, name, value, position, ptr, rows, minus))
        stored = int(device.scalar((count.astype(xp.int64) * xp.diff(begin)).sum().reshape(1)))
        return Columns(ptr, rows, minus, own, self._square, d, e, order, perturbed, dropped, stored)


def _grown(capacity, need):
    return max(capacity, need + need // 4) if need > capacity else capacity
