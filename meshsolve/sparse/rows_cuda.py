"""Free and fixed rows of a matrix, and the connected components of its graph, on the GPU. Counterpart on the host: rows.py.

A pattern is cut down to its free rows as keys. Right-hand sides, prescribed values and solutions stay on the GPU.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.device.reductions import is_any
from meshsolve.sparse.columns import check_finite_later, lengths
from meshsolve.sparse.cuda import Gather
from meshsolve.sparse.lists_cuda import MASK, bincount, compressed, exclusive_scan, keys_of, total
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.product import residual
from meshsolve.sparse.rows import RowSplit, check_shape_of_values, pinned_rows

K, R = device.kernels("sparse/components.cu"), device.kernels("sparse/rows.cu")
CHUNK = 4096                        # rows that one thread block of k_sum_segments sums


class RowSplitCuda:
    """As :class:`~meshsolve.sparse.rows.RowSplit`, for matrices and columns on the GPU.

    Parameters
    ----------
    n : int
    fixed : (k,) int32, distinct, on the host or on the GPU
    """

    def __init__(self, n, fixed):
        xp, self.n = device.xp(), n
        self._fixed_given, self._fixed = fixed, device.to_device(fixed)
        is_free = xp.ones(n, bool)
        is_free[self._fixed] = False
        self._free = xp.flatnonzero(is_free).astype(np.int32)
        self.free_count = len(self._free)

    @cached_property
    def free(self):
        """The free rows, on the host."""
        return device.to_host(self._free)

    @property
    def fixed(self):
        return self._host.fixed

    @property
    def position(self):
        return self._host.position

    def restrict(self, ordering):
        """As :meth:`RowSplit.restrict`; an Ordering on the GPU has its result on the GPU."""
        perm = getattr(ordering, "perm", None)
        if perm is None or not device.holds(perm) or len(perm) != self.n:
            return self._host.restrict(ordering)
        position = self._position[perm]
        return replace(ordering, perm=position[device.xp().flatnonzero(position >= 0)], tree=None, elimination=None)

    def split(self, M, threads=1, both=False):
        """Return (free block, coupling as (indptr, indices, data), None) of a symmetric GatheredMatrix."""
        return *M.split(self), None

    def split_pattern(self, gather):
        """Return (Gather of the free block, indptr and indices of the coupling, positions of its values in the caller's matrix)."""
        xp, keys, position = device.xp(), gather.keys, self._position.astype(np.int64)
        row, column = position[keys >> 32], position[keys & MASK]
        inside = xp.flatnonzero((row >= 0) & (column >= 0))
        pattern = Csr(len(self._free), *compressed(len(self._free), row[inside] << 32 | column[inside]))
        across = xp.flatnonzero((row >= 0) & (column < 0))
        indptr, _ = compressed(len(self._free), row[across] << 32)
        return (Gather(gather.given, pattern, gather.take_of(inside)), indptr, (-1 - column[across]).astype(np.int32),
                gather.take_of(across))

    def values(self, fixed_values, k, dtype=np.float64):
        """As :meth:`RowSplit.values`, for values on the host or on the GPU; the latter are checked by the function that is returned."""
        if not device.holds(fixed_values):
            values, check = self._host.values(fixed_values, k, dtype)
            return device.to_device(np.ascontiguousarray(values)), check
        xp, given, fixed = device.xp(), device.asarray(fixed_values), len(self._fixed)
        if check_shape_of_values(given, fixed, self.n, k):
            given = given[self._fixed]
        given = given.reshape(-1, 1) if given.ndim < 2 else given
        check = check_finite_later(given, "fixed_values: row {} is not finite")
        return xp.ascontiguousarray(xp.broadcast_to(given, (fixed, k)), np.float64), check

    def near(self, coupling):
        """Return the whole coupling."""
        return coupling

    def subtract(self, rhs, values, near):
        """Return ``rhs - coupling @ values`` in the memory of ``rhs``."""
        return residual(*near(), values, rhs, out=rhs)

    def gathered(self, columns, out=None):
        """Return the free rows of a block, C contiguous."""
        return take_rows(columns, self._free, out=out)

    def gathered_less_means(self, columns, components, sums, out):
        """Return the free rows of a block less the means over :class:`ComponentsCuda`, whose sums are given."""
        return components.less_means(columns, sums, self._free, out)

    def values_into(self, given, out):
        """Write prescribed values, an array of a shape that :meth:`values` takes, to ``out``, (len(fixed), k), and return it."""
        is_whole = given.ndim > 0 and len(given) == self.n
        if given.ndim < 2:
            given = given.reshape(-1, 1)
        return take_rows(given, self._fixed if is_whole else None, out=out)

    def scattered(self, x, free, fixed):
        """Write the free and the fixed rows of a block x, and return x. ``fixed``: (len(fixed), k), or 0.0."""
        xp, k = device.xp(), x.shape[1]
        fixed = device.null(np.float64) if isinstance(fixed, float) else fixed
        launch_1d(R.k_put_rows, x.size, np.int64(len(x)), np.int32(k), self._position, xp.ascontiguousarray(free), fixed, *_strides(x), x)
        return x

    @cached_property
    def _position(self):
        """As :attr:`RowSplit.position`, on the GPU."""
        xp = device.xp()
        position = xp.empty(self.n, np.int32)
        position[self._free] = xp.arange(len(self._free), dtype=np.int32)
        position[self._fixed] = -1 - xp.arange(len(self._fixed), dtype=np.int32)
        return position

    @cached_property
    def _host(self):
        return RowSplit(self.n, device.to_host(self._fixed_given))


class ComponentsCuda:
    """As :class:`~meshsolve.sparse.rows.Components`, for symmetric matrices and columns on the GPU.

    Parameters
    ----------
    M : Csr or GatheredMatrix
        Its pattern may be unsymmetric: the components are those of the undirected graph.
    """

    def __init__(self, M, symmetric=True):
        A = M.csr()
        self.component, first = components(A.n, keys_of(A.indptr, A.indices)[A.data != 0])
        self.pins = pinned_rows(abs(A.diagonal_values()), self.component, first, device.xp())
        self.count = len(self.pins)
        self._sums = SegmentSums(self.component, self.count)
        self.size = bincount(self.component, self.count).astype(np.float64)

    def joined_by(self, M):
        """As :meth:`Components.joined_by`."""
        if self.count == 1:
            return None
        keys = keys_of(M.indptr, M.indices)
        row, column = keys >> 32, keys & MASK
        joined = (self.component[row] != self.component[column]) & (M.data != 0)
        if not is_any(joined):
            return None
        first = int(device.xp().argmax(joined))
        return int(row[first]), int(column[first])

    def center(self, columns):
        """As :meth:`Components.center`; the lengths are on the host."""
        sums = self._sums(columns)
        return self.less_means(columns, sums), lengths(sums / device.xp().sqrt(self.size)[:, None])

    def centered(self, block, free, rows):
        """As :meth:`Components.centered`."""
        x = rows.scattered(block, free, 0.0)
        return self.less_means(x, self._sums(x), out=x)

    def means(self, columns):
        """Return the (count, k) means of an (n, k) array over the components."""
        return self._sums(columns) / self.size[:, None]

    def less_means(self, columns, sums, rows=None, out=None):
        """Return the rows ``rows`` of a block, or all, less the means of their components, C contiguous. ``sums``: see :meth:`sums_into`.

        ``out`` may be ``columns`` if that is C contiguous and all rows are taken.
        """
        return take_rows(columns, rows, self.component, self.size, sums, out)

    def space(self, k):
        """Allocate the memory of :meth:`sums_into` for k columns; its last array receives the sums."""
        return self._sums.space(k)

    def sums_into(self, columns, space, squares=False):
        """Return the (count, k) sums over the components of C contiguous columns, or of their squares, in :meth:`space`."""
        return self._sums(columns, space, squares)

    def check_range(self, sums, squares, most, bit, bits):
        """Set ``bit`` of ``bits``, (1,) int32, if the part of a column outside the range is longer than ``most`` times the column."""
        k = sums.shape[1]
        device.launch(R.k_check_range, min(k, device.MOST_ACROSS), 256, 0,
                      (np.int32(self.count), np.int32(k), self.size, sums, squares, np.float64(most), np.int32(bit), bits))


def components(n, keys):
    """Return (component of each vertex, smallest vertex of each component), int32, of the undirected graph with these keys.

    Components are in the order of their smallest vertices.
    """
    xp = device.xp()
    root, changed = xp.arange(n, dtype=np.int32), xp.ones(1, np.int32)
    while device.scalar(changed):
        changed[:] = 0
        launch_1d(K.k_hook, len(keys), np.int64(len(keys)), keys, root, changed)
        launch_1d(K.k_shorten, n, np.int32(n), root)
    least = xp.flatnonzero(root == xp.arange(n, dtype=np.int32)).astype(np.int32)
    return xp.searchsorted(least, root).astype(np.int32), least


class SegmentSums:
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

    def __call__(self, columns, space=None, squares=False):
        """Return the (components, k) sums of an (n, k) array, or of the squares of its numbers, in the last array of ``space``."""
        of_chunks, sums = self.space(columns.shape[1]) if space is None else space
        segment_sums(self._begin, device.xp().ascontiguousarray(columns), self._order, of_chunks, squares)
        return segment_sums(self._first, of_chunks, None, sums)

    def space(self, k):
        """Allocate the results of both passes for k columns."""
        return tuple(device.xp().empty((len(ptr) - 1, k), np.float64) for ptr in (self._begin, self._first))


def segment_sums(ptr, rows, order=None, sums=None, squares=False):
    """Return the (segments, k) sums of the rows ``order[ptr[s]]`` to ``order[ptr[s + 1] - 1]`` of a C contiguous (n, k) array.

    Without ``order`` the rows are ``ptr[s]`` to ``ptr[s + 1] - 1``. ``sums`` receives the result; ``squares``: of the squares of the
    numbers. The order of additions is fixed.
    """
    k = rows.shape[1]
    sums = device.xp().empty((len(ptr) - 1, k), np.float64) if sums is None else sums
    device.launch(K.k_sum_segments, (len(sums), min(k, device.MOST_ACROSS)), 256, 0,
                  (ptr, device.null(np.int32) if order is None else order, np.int32(k), np.int32(squares), rows, sums))
    return sums


def take_rows(columns, rows=None, component=None, size=None, sums=None, out=None):
    """Return the rows ``rows`` of a block, or all, C contiguous; less the means of their components if these are given.

    ``out`` may have more columns or rows than ``columns``, of which the only one is then repeated.
    """
    null = device.null
    if out is None:
        out = device.xp().empty((len(columns) if rows is None else len(rows), columns.shape[1]), np.float64)
    across, along = _strides(columns)
    if rows is None and len(columns) < len(out):
        across = np.int64(0)
    if columns.shape[1] < out.shape[1]:
        along = np.int64(0)
    means = (null(np.int32), null(np.float64), null(np.float64)) if component is None else (component, size, sums)
    launch_1d(R.k_take_rows, out.size, np.int64(len(out)), np.int32(out.shape[1]), null(np.int32) if rows is None else rows, across, along,
              columns, *means, out)
    return out


def _strides(block):
    """Return the strides of a block in numbers."""
    return tuple(np.int64(stride // block.itemsize) for stride in block.strides)
