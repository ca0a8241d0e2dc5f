"""Fixed and pinned rows on the device: the twin of `meshsolve.sparse.constraints`.

Patterns are cut down to their free rows as keys; right-hand sides, prescribed values and solutions stay on the device.
"""

from __future__ import annotations

import functools

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.device.reductions import is_any
from meshsolve.errors import InvalidInputError, PatternMismatchError
from meshsolve.factor.cholesky.cuda import S
from meshsolve.sparse.columns import device_lengths, finite_later
from meshsolve.sparse.constraints import ROW_SUM, Fixed, not_singular, tell_of_range
from meshsolve.sparse.cuda import Positions
from meshsolve.sparse.lists_cuda import MASK, bincount, compressed, exclusive_scan, total
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.product import residual, row_sums

K = device.kernels("factor/cholesky/components.cu")
CHUNK = 4096                        # rows that one block of k_sum_segments adds up


class DeviceConstraint:
    """What :class:`~meshsolve.sparse.constraints.Fixed` or ``Pinned`` does, for matrices and vectors on the device.

    Parameters
    ----------
    host : Fixed or None
        The fixed rows, as the caller names them.
    M : DeviceCsr
    positions : Positions
        Of M. Without ``host`` one row of each connected component is pinned; entries that are 0 in M join nothing.

    Attributes
    ----------
    coupling : (indptr, indices, data) or None
        The block of the last matrix that couples free rows to fixed ones.
    alone : bool
        Nothing but isolated rows is pinned: every unknown is 0.
    """

    def __init__(self, host, M, positions):
        xp, n = device.xp(), positions.pattern.n
        self._host, self.coupling, self.alone, self._n = host, None, False, n
        if host is None:
            linked = positions.keys[Positions.of(M, positions.take) != 0]
            component, self._rows = components(n, linked)
            self.alone = len(self._rows) == n
            self._component, self._segments = component, _Segments(component, len(self._rows))
            self._size = bincount(component, len(self._rows)).astype(np.float64)
        else:
            self._rows = device.to_device(host.rows)
        is_free = xp.ones(n, bool)
        is_free[self._rows] = self.alone                    # of isolated rows alone one stands for all
        self._free = xp.flatnonzero(is_free)[:1 if self.alone else None].astype(np.int32)

    @property
    def centers(self):
        return self._host is None

    @functools.cached_property
    def free(self):
        """The rows that are solved for, on the host."""
        return device.to_host(self._free)

    def restrict(self, ordering):
        """A permutation of all rows, an array or an Ordering, as one of the free rows."""
        if self.alone:
            return np.zeros(1, np.int32)
        host = self._host or Fixed(Csr(self._n, None, None), device.to_host(self._rows))
        return host.restrict(ordering)

    def reduce(self, positions):
        """(positions of the free block, (indptr, indices, take) of what couples it to fixed rows) of a matrix."""
        xp = device.xp()
        if self.alone:
            return _Block(1, xp.zeros(1, np.int64), xp.zeros(1, np.int64)), None
        place, number = (xp.full(positions.pattern.n, -1, np.int64) for _ in range(2))
        place[self._free], number[self._rows] = xp.arange(len(self._free)), xp.arange(len(self._rows))
        keys = positions.keys
        row, column = place[keys >> 32], keys & MASK
        inside = xp.flatnonzero((row >= 0) & (place[column] >= 0))
        block = _Block(len(self._free), row[inside] << 32 | place[column[inside]], positions.taken(inside))
        across = xp.flatnonzero((row >= 0) & (number[column] >= 0))
        indptr, _ = compressed(len(self._free), row[across] << 32)
        return block, (indptr, number[column[across]].astype(np.int32), positions.taken(across))

    def check(self, M, positions):
        """Raise where a row of a matrix to be pinned does not sum to 0, or an entry joins components that have a pin each."""
        if not self.centers:
            return
        xp, pattern = device.xp(), positions.pattern
        values = Positions.of(M, positions.take)
        sums, size = (row_sums(pattern.indptr, pattern.indices, values, magnitudes) for magnitudes in (False, True))
        off = xp.abs(sums) > ROW_SUM * size
        if is_any(off):
            row = int(xp.argmax(off))
            raise not_singular(row, float(sums[row]))
        if len(self._rows) == 1:
            return
        row, column = positions.keys >> 32, positions.keys & MASK
        joined = xp.flatnonzero((self._component[row] != self._component[column]) & (values != 0))
        if len(joined):
            raise PatternMismatchError.joining(int(row[joined[0]]), int(column[joined[0]]))

    def couple(self, M, across):
        """Take the coupling of a matrix by the positions that :meth:`reduce` gave."""
        if across is not None:
            indptr, indices, take = across
            self.coupling = indptr, indices, Positions.of(M, take)

    def solve(self, columns, fixed_values, solve_free):
        """As the host's: x with the prescribed values and (A x - b) zero in the free rows, or mean-free."""
        if self.centers:
            return self._solve_pinned(columns, fixed_values, solve_free)
        if fixed_values is None:
            return self._solve_fixed(columns, None, solve_free)
        values, check = self._values(fixed_values, columns.shape[1])
        x = self._solve_fixed(columns, values, solve_free)
        check()
        return x

    def _solve_fixed(self, columns, values, solve_free):
        rhs = columns[self._free]
        if values is not None:
            rhs = residual(*self.coupling, values, rhs)
        x = device.xp().empty_like(columns)
        x[self._rows] = 0.0 if values is None else values
        x[self._free] = solve_free(device.xp().ascontiguousarray(rhs))
        return x

    def _values(self, fixed_values, k):
        """Prescribed values as a (fixed rows, k) array on the device, and what raises where one that lay there is not finite."""
        if not device.holds(fixed_values):
            return device.to_device(np.ascontiguousarray(self._host.values(fixed_values, k))), lambda: None
        xp, given, rows = device.xp(), device.asarray(fixed_values), len(self._rows)
        if given.ndim and len(given) == self._n:                # of all rows
            given = given[self._rows]
        if given.dtype.kind not in "fiub" or given.shape not in ((), (rows,), (rows, k), (rows, 1)):
            raise InvalidInputError(
                f"fixed_values has to be ({rows},) or ({rows}, {k}) real numbers, not {given.shape} of {given.dtype}")
        given = given.reshape(-1, 1) if given.ndim < 2 else given
        check = finite_later(given, "fixed_values: row {} is not finite")
        return xp.ascontiguousarray(xp.broadcast_to(given, (rows, k)), np.float64), check

    def _solve_pinned(self, columns, fixed_values, solve_free):
        if fixed_values is not None:
            raise InvalidInputError("fixed_values goes with fixed=, not with pin=True")
        if columns.shape[1] == 0:
            return columns
        rhs, outside = self.center(columns)
        tell_of_range(outside, device_lengths(columns))
        if self.alone:
            return device.xp().zeros_like(columns)
        x = self._solve_fixed(rhs, None, solve_free)
        return x - self._means(x)[self._component]

    def center(self, columns):
        """Columns minus their component means, and the (k,) lengths of what was removed, on the host."""
        means = self._means(columns)
        return columns - means[self._component], device_lengths(means * device.xp().sqrt(self._size)[:, None])

    def _means(self, columns):
        """(components, k)."""
        return self._segments.sums(columns) / self._size[:, None]


class _Block(Positions):
    """Positions of a block of a matrix."""

    def __init__(self, n, keys, take):
        self._take_keys(n, keys)
        self.take = take


def components(n, keys):
    """(component of each vertex, least vertex of each component): int32, components in the order of these vertices."""
    xp = device.xp()
    root, changed = xp.arange(n, dtype=np.int32), xp.ones(1, np.int32)
    while device.scalar(changed):
        changed[:] = 0
        launch_1d(K.k_hook, len(keys), np.int64(len(keys)), keys, root, changed)
        launch_1d(K.k_shorten, n, np.int32(n), root)
    least = xp.flatnonzero(root == xp.arange(n, dtype=np.int32)).astype(np.int32)
    return xp.searchsorted(least, root).astype(np.int32), least


class _Segments:
    """Sums over the rows of each component, in two passes: rows to chunks, chunks to components."""

    def __init__(self, component, count):
        xp = device.xp()
        self._order = xp.argsort(component, kind="stable").astype(np.int32)
        ptr = xp.searchsorted(component[self._order], xp.arange(count + 1, dtype=component.dtype))
        self._first = exclusive_scan(-(-xp.diff(ptr) // CHUNK))
        chunk = xp.arange(total(self._first))
        segment = xp.searchsorted(self._first, chunk, side="right") - 1
        begin = ptr[segment] + CHUNK * (chunk - self._first[segment])
        self._begin = xp.append(begin, len(component)).astype(np.int64)

    def sums(self, columns):
        """(components, k) sums of an (n, k) array."""
        xp, k = device.xp(), columns.shape[1]
        sums = xp.ascontiguousarray(columns)
        for ptr, order in ((self._begin, self._order), (self._first, xp.empty(0, np.int32))):
            rows, sums = sums, xp.empty((len(ptr) - 1, k), np.float64)
            device.launch(S.k_sum_segments, (len(ptr) - 1, min(k, device.MOST_ACROSS)), 256, 0, (ptr, order, np.int32(k), rows, sums))
        return sums
