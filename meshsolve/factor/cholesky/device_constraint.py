"""Fixed and pinned rows on the device: the twin of `meshsolve.constraints`, on which it is built.

The host decides what is free and what couples to what; right-hand sides, prescribed values and solutions stay on the device.
"""

from __future__ import annotations

import warnings

import numpy as np

from meshsolve import device
from meshsolve.arrays import Csr
from meshsolve.constraints import Fixed
from meshsolve.device_arrays import Positions
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.factor.cholesky.cuda import S
from meshsolve.factor.fronts.cuda import residual

CHUNK = 4096                        # rows that one block of k_sum_segments adds up


class DeviceConstraint:
    """What :class:`~meshsolve.constraints.Fixed` or ``Pinned`` does, for arrays on the device.

    Parameters
    ----------
    host : Fixed or Pinned
    """

    def __init__(self, host):
        self.host = host
        self._pinned = not isinstance(host, Fixed)
        fixed = host.fixed if self._pinned else host
        self.alone = fixed is None
        self.coupling = self._take = None
        if not self.alone:
            self._rows, self._free = device.to_device(fixed.rows), device.to_device(fixed.free)
        if self._pinned:
            self._segments = _Segments(host.component, host.count)
            self._component, self._size = device.to_device(host.component), device.to_device(host.size)

    @property
    def free(self):
        return self.host.free

    def restrict(self, ordering):
        """As the host's."""
        return self.host.restrict(ordering)

    def reduce(self, A):
        """The free block of a host matrix; its coupling goes to the device."""
        block = self.host.reduce(A)
        if not self.alone:
            self.coupling = self._upload()
        return block

    def reduce_positions(self, positions, M):
        """The free block of a matrix on the device as positions on the host, and the coupling from the same matrix."""
        block = self.host.reduce(positions)
        if self.alone:                                     # the one entry of that block is 1, not a position
            return Csr(1, block.indptr, block.indices, np.zeros(1))
        indptr, indices, data = self._upload()
        self._take = indptr, indices, data.astype(np.int64)
        self.take_coupling(M)
        return block

    def take_coupling(self, M):
        """The coupling of another matrix with the pattern of the last ``reduce_positions``."""
        if self._take is not None:
            indptr, indices, take = self._take
            self.coupling = indptr, indices, Positions.of(M, take)

    def _upload(self):
        C = self.host.coupling
        return tuple(device.to_device(np.ascontiguousarray(part, dtype))
                     for part, dtype in ((C.indptr, np.int64), (C.indices, np.int32), (C.data, np.float64)))

    def solve(self, columns, fixed_values, solve_free):
        """As the host's: x with the prescribed values and (A x - b) zero in the free rows, or mean-free."""
        if self._pinned:
            return self._solve_pinned(columns, fixed_values, solve_free)
        values = None if fixed_values is None else self._values(fixed_values, columns.shape[1])
        return self._solve_fixed(columns, values, solve_free)

    def _solve_fixed(self, columns, values, solve_free):
        rhs = columns[self._free]
        if values is not None:
            rhs = residual(*self.coupling, values, rhs)
        x = device.xp().empty_like(columns)
        x[self._rows] = 0.0 if values is None else values
        x[self._free] = solve_free(device.xp().ascontiguousarray(rhs))
        return x

    def _values(self, fixed_values, k):
        """Prescribed values as a (fixed rows, k) array on the device."""
        if not device.holds(fixed_values):
            return device.to_device(np.ascontiguousarray(self.host.values(fixed_values, k)))
        given, rows = device.xp().asarray(fixed_values), len(self._rows)
        given = given[:, None] if given.ndim == 1 else given
        if given.dtype.kind not in "fiub" or given.shape not in ((rows, k), (rows, 1)):
            raise InvalidInputError(
                f"fixed_values has to be ({rows},) or ({rows}, {k}) real numbers, not {given.shape} of {given.dtype}")
        if not bool(device.xp().isfinite(given).all()):
            raise InvalidInputError("fixed_values holds a value that is not finite")
        return device.xp().ascontiguousarray(device.xp().broadcast_to(given, (rows, k)), np.float64)

    def _solve_pinned(self, columns, fixed_values, solve_free):
        if fixed_values is not None:
            raise InvalidInputError("fixed_values goes with fixed=, not with pin=True")
        if columns.shape[1] == 0:
            return columns
        rhs, removed = self._center(columns)
        largest = float(device.xp().abs(columns).max())
        if removed > 1e-8 * largest:
            warnings.warn(
                f"b is not in the range of the singular matrix: its mean on a component is {removed:.3g} (largest entry "
                f"{largest:.3g}). The mean was removed", MeshsolveWarning, stacklevel=5)
        if self.alone:
            return device.xp().zeros_like(columns)
        return self._center(self._solve_fixed(rhs, None, solve_free))[0]

    def _center(self, columns):
        """Columns minus their component means, and the largest mean removed."""
        means = self._segments.sums(columns) / self._size[:, None]
        return columns - means[self._component], float(device.xp().abs(means).max())


class _Segments:
    """Sums over the rows of each component, in two passes: rows to chunks, chunks to components."""

    def __init__(self, component, count):
        order = np.argsort(component, kind="stable").astype(np.int32)
        ptr = np.searchsorted(component[order], np.arange(count + 1))
        chunks = -(-np.diff(ptr) // CHUNK)
        first = np.zeros(count + 1, np.int64)
        np.cumsum(chunks, out=first[1:])
        within = np.arange(first[-1]) - np.repeat(first[:-1], chunks)
        begin = np.append(np.repeat(ptr[:-1], chunks) + CHUNK * within, len(component))
        self._order, self._begin, self._first = (device.to_device(np.ascontiguousarray(a, t)) for a, t in
                                                 ((order, np.int32), (begin, np.int64), (first, np.int64)))

    def sums(self, columns):
        """(components, k) sums of an (n, k) array."""
        xp, k = device.xp(), columns.shape[1]
        sums = xp.ascontiguousarray(columns)
        for ptr, order in ((self._begin, self._order), (self._first, xp.empty(0, np.int32))):
            rows, sums = sums, xp.empty((len(ptr) - 1, k), np.float64)
            device.launch(S.k_sum_segments, (len(ptr) - 1, k), 256, 0, (ptr, order, np.int32(k), rows, sums))
        return sums
