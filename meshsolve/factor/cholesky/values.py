"""Values of a matrix in the analysed pattern, wherever the matrix lies."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.arrays import as_symmetric
from meshsolve.device_arrays import Positions, as_device_csr, on_device
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import values_in


class Values:
    """Brings the values of later matrices to where the factor lies, in its pattern, with constrained rows left out.

    Parameters
    ----------
    n : int
        Rows of the whole matrix.
    pattern : Csr
        The analysed pattern, of the free rows.
    constraint : Fixed, Pinned, DeviceConstraint or None
        Takes the coupling of each matrix.
    place : {"cpu", "cuda"}
    """

    def __init__(self, n, pattern, constraint, place):
        self.n, self.pattern, self.constraint, self.place = n, pattern, constraint, place
        self._positions = self._take = None

    def __getstate__(self):
        """Without the place of the last matrix on the GPU: the next one is looked at anew."""
        return self.__dict__ | {"_positions": None, "_take": None}

    def of(self, A):
        """(nnz,) float64 in the place of the factor."""
        if self.place == "cuda" and on_device(A):
            with device.errors("the matrix"):
                return self._on_device(as_device_csr(A))
        M = as_symmetric(A)
        self._check_size(M.n)
        if self.constraint is None:
            data = values_in(self.pattern, M)
        else:
            data = values_in(self.pattern, self.constraint.reduce(M), self.constraint.free)
        return self.there(data)

    def there(self, data):
        """Host values in the place of the factor."""
        return device.to_device(data) if self.place == "cuda" else data

    def first(self, source, positions, reduced):
        """The values of the matrix that was analysed, from what the host made of its positions."""
        self._positions, self._take = positions, Positions.take(reduced.data)
        return self._gather(source)

    def _on_device(self, M):
        self._check_size(M.n)
        constraint = self.constraint
        if self._positions is None or not self._positions.fits(M):
            positions = Positions(M)
            reduced = positions.host if constraint is None else constraint.reduce_positions(positions.host, M)
            names = None if constraint is None else constraint.free
            self._take = Positions.take(values_in(self.pattern, reduced, names))
            self._positions = positions
        else:
            self._positions.check(M)
            if constraint is not None:
                constraint.take_coupling(M)
        return self._gather(M)

    def _gather(self, M):
        if self.constraint is not None and self.constraint.alone:
            return device.xp().ones(1, np.float64)
        return Positions.of(M, self._take)

    def _check_size(self, n):
        if n != self.n:
            raise InvalidInputError(f"A has {n} rows, the analysis {self.n}")
