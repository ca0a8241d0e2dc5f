"""Values of a matrix in the analysed pattern, wherever the matrix and the factor lie."""

from __future__ import annotations

from meshsolve import device
from meshsolve.arrays import as_csr, as_symmetric
from meshsolve.device.lists import keys_of
from meshsolve.device_arrays import Positions, as_device_csr, on_device, uploaded
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import values_in
from meshsolve.options import counted


class Values:
    """Brings the values of later matrices into the pattern of a factor on the host, with constrained rows left out.

    Parameters
    ----------
    n : int
        Rows of the whole matrix.
    symbolic : Symbolic
        Of the free rows; says whether the lower triangle alone is read.
    constraint : Fixed, Pinned or None
        Takes the coupling of each matrix.
    threads : int
        How many check a matrix.
    """

    place = "cpu"

    def __init__(self, n, symbolic, constraint=None, threads=1):
        self.n, self.symbolic, self.constraint, self.threads = n, symbolic, constraint, threads

    @property
    def nnz(self):
        return self.symbolic.matrix_pattern.nnz

    def of(self, A):
        """(nnz,) float64."""
        M = as_symmetric(A, lower=self.symbolic.lower, threads=self.threads)
        _check_size(M.n, self.n)
        pattern = self.symbolic.matrix_pattern
        if self.constraint is None:
            return values_in(pattern, M)
        return values_in(pattern, self.constraint.reduce(M, self.threads), self.constraint.free)


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
            _check_size(source.n, self.n)
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


def _check_size(given, n):
    if given != n:
        raise InvalidInputError(f"A has {counted(given, 'row')}, the analysis {n}")
