"""The incomplete factorization on the GPU: one launch of rows.cu, and what it needs and leaves; twin of `Incomplete`.

Matching, order, tiles and the coarse pattern are the host's. The factor is that of the CPU: the same pivots, the same entries
kept, the same values.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import _core, device
from meshsolve.device.lists import last, running_sums

K = device.kernels("factor/ildl/rows.cu")
MOST_BLOCKS = 1056                      # eight a multiprocessor
BLOCK = 256                             # of kernels with a group of lanes for each tile
TRIMMED_TOGETHER = 8                    # rows of one task of trimming, as in rows.cu
WORDS_MOST = 1024                       # tiles of a block row whose bits lie in shared memory
NORM_PARTS = 8
PIVOTING = ("static", "bunch-kaufman", "rook")                                     # enum Pivoting in pivoting.hpp
(TICKET, PROGRESS, HALT, SPARE, NAMES, VALUES, PERTURBED, DROPPED, BEFORE) = range(9)               # enum State in rows.cuh
WORK, STATE_SIZE = 12, 13


@dataclass(frozen=True, eq=False)
class Columns:
    """L on the device, in the order of elimination; fields as in incomplete.hpp.

    Attributes
    ----------
    ptr, rows, minus : (n + 1) int64, (nnz) int32, (nnz) float64
        Columns of L without what lies in the diagonal tiles; minus the values.
    own, square : float64, (tiles + 1) int64
        Unit lower triangles of the diagonal tiles by columns, and where each begins.
    d, e : (n) float64
        D; ``e[k]`` is not 0 where k and k + 1 are one pivot.
    order : (n) int32
        New row eliminated k-th.
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
    """The pattern of a tiling on the device, and the memory of its factorizations.

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
        self.width = 1 << int(self.cap - 1).bit_length()
        self.words_room = min(-(-int(np.diff(ptr).max(initial=1)) // 32) * 32, WORDS_MOST)
        tile_of = np.repeat(np.arange(self.tiles, dtype=np.int32), size)
        square = np.append(0, np.cumsum(size.astype(np.int64) ** 2))
        self._pattern = tuple(map(device.to_device, (begin, tile_of, ptr, column, above_ptr, above, order, depth_ptr)))
        self._matrix = tuple(map(device.to_device, (indptr, indices)))
        self._square = device.to_device(square)
        self._own_size, self._nnz = int(square[-1]), len(indices)
        self._names = self._work = None
        self._first = {}

    @property
    def device_begin(self):
        """First row of each tile, on the device."""
        return self._pattern[0]

    @property
    def device_order(self):
        """(tiles by depth, first of each depth), on the device."""
        return self._pattern[-2:]

    @property
    def nbytes(self):
        """Of the pattern and the workspace, on the device."""
        kept = [*self._pattern, *self._matrix, *(self._names or ()), *([] if self._work is None else [self._work])]
        return sum(array.nbytes for array in kept)

    def factor(self, values, pivoting, droptol, max_fill):
        """The :class:`Columns` for these values; ``max_fill`` infinite: no budgets."""
        xp = device.xp()
        budgets = bool(np.isfinite(max_fill))
        tasks = self._tasks(budgets)
        own, d, e = xp.empty(self._own_size), xp.empty(self.n), xp.empty(self.n)
        order, keep = xp.empty(self.n, xp.int32), xp.full(self.tiles, -1, xp.int32)
        count, first = xp.zeros(self.tiles, xp.int32), [xp.zeros(self.tiles, xp.int64) for _ in range(2)]
        if self._names is None:
            self._first_room()
        state, stalled = xp.zeros(STATE_SIZE, xp.uint64), xp.zeros(1, xp.int32)
        finished, trimmed = xp.zeros(self.depths, xp.int32), xp.zeros(self.depths, xp.int32)
        values = device.to_device(values)
        while True:
            name, size, value = self._names
            self._launch((*self._matrix, values, *self._pattern, *tasks[:2], np.int32(len(tasks[0])), np.int32(self.cap),
                          np.int32(self.width), np.int32(self.words_room), np.int32(PIVOTING.index(pivoting)),
                          np.float64(droptol), np.float64(max_fill if budgets else -1), count, *first, name, size, value,
                          np.int64(len(name)), np.int64(len(value)), self._square, own, d, e, order, self._work, np.int64(len(self._work)),
                          finished, trimmed, keep, state, stalled))
            device.check_stall(stalled, "the factorization")
            reached = device.to_host(state)
            if not reached[HALT]:
                break
            state = device.to_device(self._go_on(reached, tasks[2], finished))
        return self._columns(count, first, own, d, e, order, int(reached[PERTURBED]), int(reached[DROPPED]))

    # ---- tasks, memory ----------------------------------------------------------------------------------------------------

    def _tasks(self, budgets):
        """(depth, item, first task of each depth): rows of a depth, then, with budgets, its tasks of trimming."""
        if budgets not in self._first:
            counts = np.diff(self.depth_ptr).astype(np.int64)
            trims = -(-counts // TRIMMED_TOGETHER) if budgets else 0 * counts
            first = np.append(0, np.cumsum(counts + trims))
            depth = np.repeat(np.arange(self.depths, dtype=np.int32), counts + trims)
            place = np.arange(first[-1]) - first[depth]
            rows = place < counts[depth]
            item = np.where(rows, self.depth_ptr[depth] + place, ~(place - counts[depth])).astype(np.int32)
            self._first[budgets] = device.to_device(depth), device.to_device(item), first
        return self._first[budgets]

    def _launch(self, args):
        shared = 8 * (2 * self.cap**2 + (5 + NORM_PARTS) * self.cap) + 4 * (2 * self.cap + 2 * self.words_room)
        widest = int(np.diff(self.depth_ptr).max())
        block = 64 if self.cap <= 4 else 128 if self.cap <= 16 else 256
        device.launch(K.k_factor_rows, min(widest, MOST_BLOCKS), block, shared, args)

    def _first_room(self):
        """Guesses: what is too small grows."""
        self._empty_names(2 * self._nnz // max(self.cap // 4, 1) + 64, 2 * self._nnz + 64)
        self._work = device.xp().empty(4 * self._nnz + 4096)

    def _empty_names(self, names, values):
        xp = device.xp()
        self._names = xp.empty(names, xp.int32), xp.empty(names), xp.empty(values)

    def _go_on(self, state, first_task, finished):
        """More room for what was full; the state that begins the depth at hand anew."""
        (name, size, value), used = self._names, state[BEFORE:BEFORE + 2].astype(np.int64)
        asked = state[NAMES:NAMES + 2].astype(np.int64)
        if asked[0] > len(name) or asked[1] > len(value):
            rooms = [_grown(room, int(need)) for room, need in zip((len(name), len(value)), asked, strict=True)]
            self._empty_names(*rooms)
            for new, old, count in zip(self._names, (name, size, value), used[[0, 0, 1]], strict=True):
                new[:count] = old[:count]
        if state[WORK] > len(self._work):
            room = _grown(len(self._work), int(state[WORK]))
            self._work = None                               # given back before more is asked for
            self._work = device.xp().empty(room)
        depth = int(state[PROGRESS]) // 2
        finished[depth] = 0
        state[NAMES:BEFORE] = state[BEFORE:WORK]
        state[TICKET], state[HALT], state[WORK] = first_task[depth], 0, 0
        return state

    def _columns(self, count, first, own, d, e, order, perturbed, dropped):
        xp = device.xp()
        begin, (name, _, value) = self._pattern[0], self._names
        length, place = xp.empty(self.n, xp.int64), xp.empty(self.n, xp.int32)
        grid = device.grid_for(self.tiles * self.width, BLOCK)
        sizes = np.int32(self.tiles), np.int32(self.width), begin, count
        device.launch(K.k_column_lengths, grid, BLOCK, 0, (*sizes, first[1], value, length))
        place[order] = xp.arange(self.n, dtype=xp.int32)
        ptr = running_sums(length)
        nnz = last(ptr)
        rows, minus = xp.empty(nnz, xp.int32), xp.empty(nnz)
        device.launch(K.k_fill_columns, grid, BLOCK, 0, (*sizes, *first, name, value, place, ptr, rows, minus))
        stored = int(device.scalar((count.astype(xp.int64) * xp.diff(begin)).sum().reshape(1)))
        return Columns(ptr, rows, minus, own, self._square, d, e, order, perturbed, dropped, stored)


def _grown(room, need):
    return max(room, need + need // 4) if need > room else room
