"""Solves with a sparse unit lower triangular factor on the GPU, by level sets: launches of levels.cu."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device.lists import rows_of

K = device.kernels("factor/trisolve/levels.cu")
BLOCK = 512
NARROW = 2048                           # threads of a level below which one block does it, and its narrow neighbours,
ALONE = 4 * NARROW                      # ... unless right-hand sides make it more than this: a launch costs less than so many rounds


class UnitLower:
    """G^-T D^+ G^-1 of a unit lower triangular G whose rows are numbered by level, arrays on the device.

    Parameters
    ----------
    ptr, rows, values : (n + 1) int64, (nnz) int32, (nnz) float64 or float32
        Columns of G without its diagonal, minus its entries.
    level_ptr : (levels + 1) int64, numpy
        First row of each level; a column's rows lie in later levels.
    inverse_d : (n) float64
    """

    def __init__(self, ptr, rows, values, level_ptr, inverse_d):
        xp = device.xp()
        self.inverse_d, self.level_ptr = inverse_d, device.to_device(level_ptr)
        self.kernel = K.k_levels_double if values.dtype == np.float64 else K.k_levels_float
        self.by_column = (ptr, rows, values)
        self.by_row = transposed(ptr, rows, values)
        counts, n = np.diff(level_ptr), len(ptr) - 1
        self.forward = _runs(counts, np.diff(device.to_host(self.by_row[0][self.level_ptr])))
        self.backward = _runs(counts, np.diff(device.to_host(ptr[self.level_ptr])))
        self.no_scale = xp.empty(0)
        self.nbytes = 2 * (rows.nbytes + values.nbytes + ptr.nbytes) + 8 * n

    def solve_pair(self, Y):
        """Y := G^-T D^+ G^-1 Y in place, for a C contiguous (n, k) block."""
        for first, end, lanes, threads in self.forward:
            self._launch(first, end, 1, lanes, threads, self.by_row, self.no_scale, Y)
        for first, end, lanes, threads in reversed(self.backward):
            self._launch(end - 1, first - 1, -1, lanes, threads, self.by_column, self.inverse_d, Y)

    def _launch(self, first, end, step, lanes, threads, matrix, scale, Y):
        _launch(self.kernel, first, end, step, self.level_ptr, lanes, threads, matrix, scale, Y)


class Rows:
    """A triangular system whose rows are sorted by level, with values that come later: row after row ``Y := scale Y + N Y``.

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
        """In place for a C contiguous (n, k) float64 block on the device; ``values`` are float64 or float32."""
        kernel = K.k_levels_double if values.dtype == np.float64 else K.k_levels_float
        for first, end, lanes, threads in self._runs:
            _launch(kernel, first, end, 1, self._level_ptr, lanes, threads, (self._ptr, self._columns, values), scale, Y)


def _launch(kernel, first, end, step, level_ptr, lanes, threads, matrix, scale, Y):
    k, many = Y.shape[1], abs(end - first) > 1
    if many and threads * k > ALONE:                        # with the lanes of the run: the sums are those of one right-hand side
        for level in range(first, end, step):
            _launch(kernel, level, level + step, step, level_ptr, lanes, threads, matrix, scale, Y)
        return
    device.launch(kernel, 1 if many else device.grid_for(threads * k, BLOCK), BLOCK, 0,
                  (np.int32(first), np.int32(end), np.int32(step), level_ptr, np.int32(k), np.int32(lanes), *matrix, scale, Y))


def transposed(ptr, rows, values):
    """The rows of a square matrix that is given by columns, or the other way round; ascending in each."""
    xp, n = device.xp(), len(ptr) - 1
    by_row = xp.argsort(rows, kind="stable")
    columns = rows_of(ptr, len(rows))[by_row]
    row_ptr = xp.searchsorted(rows[by_row], xp.arange(n + 1, dtype=rows.dtype), side="left").astype(xp.int64)
    return row_ptr, columns.astype(xp.int32), values[by_row]


def _runs(rows, entries):
    """(first level, end, threads per row, threads) of each launch; ``rows`` and ``entries`` are those of each level."""
    lanes = 1 << np.clip(np.ceil(np.log2(np.maximum(entries / np.maximum(rows, 1), 1) / 2)), 0, 5).astype(int)
    narrow = rows * lanes <= NARROW
    begins = np.flatnonzero(~(narrow & np.append(False, narrow[:-1])))
    ends = np.append(begins[1:], len(rows))
    return [(int(first), int(end), int(lanes[first:end].max()), int((rows * lanes)[first:end].max())) for first, end in zip(begins, ends)]
