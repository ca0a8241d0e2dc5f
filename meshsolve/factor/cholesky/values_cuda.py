"""Systems to be analysed and factored on the GPU, and values of later matrices in their patterns. Counterpart: values.py.

A matrix of the GPU is never copied to the host; one of the host is checked there.
"""

from __future__ import annotations

from dataclasses import replace

from meshsolve import device
from meshsolve.factor.cholesky.device_constraint import DeviceConstraint
from meshsolve.factor.cholesky.values import check_size
from meshsolve.factor.fronts.cuda import device_tree, suits
from meshsolve.sparse.constraints import Fixed
from meshsolve.sparse.cuda import Positions, as_device_csr, uploaded, uploaded_pattern, without_diagonal
from meshsolve.sparse.lists_cuda import keys_of
from meshsolve.sparse.matrix import Csr, as_csr, as_symmetric
from meshsolve.sparse.places import on_device


class DeviceValues:
    """The same for a factor on the GPU: a later matrix of the same pattern is one gather.

    Parameters
    ----------
    n : int
        Rows of the whole matrix.
    pattern : Csr of device arrays
        The analysed pattern, of the free rows.
    constraint : DeviceConstraint or None
    lower : bool
        Only the lower triangle of a matrix is read.
    """

    place = "cuda"

    def __init__(self, n, pattern, constraint=None, lower=False):
        self.n, self.pattern, self.constraint, self.lower = n, pattern, constraint, lower
        self._positions = self._take = self._across = None

    def __getstate__(self):
        """Without the places of the last matrix: the next one is looked at anew."""
        return self.__dict__ | {"_positions": None, "_take": None, "_across": None}

    @property
    def nnz(self):
        return self.pattern.nnz

    def of(self, A):
        """(nnz,) float64 on the device, of a matrix that lies there or on the host."""
        M = None if on_device(A) else as_csr(A) if self.lower else as_symmetric(A)
        with device.errors("the matrix"):
            source = as_device_csr(A) if M is None else uploaded(M)
            check_size(source.n, self.n)
            if self._positions is not None and self._positions.fits(source):
                self._positions.check(source)
                return self._gather(source)
            return self._find(source, Positions(source, self.lower))

    def first(self, source, positions, reduced, across):
        """The values of the matrix that was analysed; ``reduced`` and ``across`` are what the constraint makes of its positions."""
        self._positions, self._take, self._across = positions, reduced.take, across
        return self._gather(source)

    def _find(self, source, positions):
        reduced, across, names = positions, None, None
        if self.constraint is not None:
            (reduced, across), names = self.constraint.reduce(positions), self.constraint.free
        take = reduced.within(keys_of(self.pattern.indptr, self.pattern.indices), names)       # or it raises
        self._positions, self._take, self._across = positions, take, across
        return self._gather(source)

    def _gather(self, M):
        if self.constraint is not None:
            self.constraint.check(M, self._positions)
            self.constraint.couple(M, self._across)
            if self.constraint.alone:
                return device.xp().ones(1)
        return Positions.of(M, self._take)


class DeviceSystem:
    """As `HostSystem`, on the GPU. ``pattern`` is a Csr of device arrays.

    Parameters
    ----------
    A : matrix of any kind
        As the caller gave it.
    source : DeviceCsr or Csr
        The matrix or pattern on the GPU.
    lower : bool
        Only the lower triangle counts.
    has_values : bool
    """

    place, constraint = "cuda", None
    errors = staticmethod(device.errors)

    def __init__(self, A, source, lower, has_values):
        self._given_there, self._source, self._lower = on_device(A), source, lower
        self._positions = self._reduced = Positions(source, lower, check=has_values)
        self._across, self.n = None, source.n

    @classmethod
    def of(cls, A, lower, threads, per_row):
        return cls(A, as_device_csr(A) if on_device(A) else uploaded(as_csr(A) if lower else as_symmetric(A)), lower, True)

    @classmethod
    def of_pattern(cls, A, lower, threads, per_row):
        return cls(A, as_device_csr(A) if on_device(A) else uploaded_pattern(as_csr(A, dtype=None)), lower, False)

    @staticmethod
    def values_of(symbolic, threads):
        return DeviceValues(symbolic.n, symbolic.pattern_on_device, lower=symbolic.lower)

    @property
    def pattern(self):
        return self._reduced.pattern

    def join(self, edges):
        self._positions.widen(uploaded_pattern(edges))

    def constrain(self, fixed, pin):
        if pin or fixed is not None:
            host = None if pin else Fixed(Csr(self.n, None, None), fixed)
            self.constraint = DeviceConstraint(host, self._source, self._positions)
            self._reduced, self._across = self.constraint.reduce(self._positions)

    def graph(self):
        return without_diagonal(self.pattern)

    def prepare(self, symbolic):
        """Make the tree where a GPU is worth it; else only a factorization that asks for the GPU makes it."""
        if suits(symbolic):
            device_tree(symbolic)

    def named(self, ordering):
        """Where the matrix was given."""
        return ordering if self._given_there else replace(ordering, perm=device.to_host(ordering.perm))

    def values(self, symbolic, refines):
        values = DeviceValues(self.n, self.pattern, self.constraint, symbolic.lower)
        return values, values.first(self._source, self._positions, self._reduced, self._across)
