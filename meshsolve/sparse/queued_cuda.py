"""Solves with fixed or pinned rows on the GPU, in memory that exists: nothing is read or allocated, so a CUDA graph can record them.

Each has :meth:`queue`, with the numbers of :meth:`Fixed.solve` or :meth:`Pinned.solve` of constraints.py.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError
from meshsolve.sparse.columns import first_true
from meshsolve.sparse.product import residual

OUTSIDE_RANGE = 1 << 18                                     # bit of PinnedSolve: b is not in the range of the matrix


class FreeSolve:
    """A solve without constraint.

    Parameters
    ----------
    b, x : (n, k) float64 on the GPU, C contiguous
        Right-hand sides, and the memory of the solutions, which may be the same.
    """

    def __init__(self, b, x):
        self.b, self.x = b, x

    def queue(self, solve, coupling, bits, check):
        """Queue the solve.

        Parameters
        ----------
        solve : callable
            ``solve(B, X)`` queues X := A^-1 B for the free rows; X may be B.
        coupling : (indptr, indices, data) or None
            That of the matrix by then.
        bits : (1,) int32 on the GPU
            Receives OUTSIDE_RANGE.
        check : callable
            ``check(array)`` queues a test if all numbers are finite.
        """
        check(self.b)
        solve(self.b, self.x)

    def require_finite(self):
        """Raise InvalidInputError for the first value of the inputs that is not finite. Reads."""
        row = _first_not_finite(self.b)
        if row >= 0:
            raise InvalidInputError(f"b: row {row} holds a value that is not finite")


class FixedSolve(FreeSolve):
    """A solve with prescribed values.

    Parameters
    ----------
    rows : RowSplitCuda
    b, x : see :class:`FreeSolve`
    values : float64 on the GPU, or None for zeros
        As ``fixed_values`` of a solve; one number is (1, 1).
    """

    def __init__(self, rows, b, x, values):
        super().__init__(b, x)
        xp, k = device.xp(), b.shape[1]
        self._rows, self._given, self._rhs, self._values = rows, values, xp.empty((rows.free_count, k), np.float64), None
        if values is not None:
            self._values = xp.empty((rows.n - rows.free_count, k), np.float64)

    def queue(self, solve, coupling, bits, check):
        """As :meth:`FreeSolve.queue`."""
        check(self.b)
        rhs, values = self._rows.gathered(self.b, self._rhs), self._values
        if values is not None:
            check(self._rows.values_into(self._given, values))
            residual(*coupling, values, rhs, out=rhs)
        solve(rhs, rhs)
        self._rows.scattered(self.x, rhs, 0.0 if values is None else values)

    def require_finite(self):
        """As :meth:`FreeSolve.require_finite`."""
        super().require_finite()
        row = -1 if self._values is None else _first_not_finite(self._values)
        if row >= 0:
            raise InvalidInputError(f"fixed_values: the value of row {self._rows.fixed[row]} is not finite")


class PinnedSolve(FreeSolve):
    """A solve with one pin for each component, and solutions of mean 0.

    Parameters
    ----------
    rows : RowSplitCuda
    components : ComponentsCuda
    b, x : see :class:`FreeSolve`
    most_outside : float
        Part of b outside the range, relative to b, above which it is not rounding.
    """

    def __init__(self, rows, components, b, x, most_outside):
        super().__init__(b, x)
        k = b.shape[1]
        self._rows, self._components, self._most_outside = rows, components, most_outside
        self._rhs, self._spaces = device.xp().empty((rows.free_count, k), np.float64), [components.space(k) for _ in range(2)]

    def queue(self, solve, coupling, bits, check):
        """As :meth:`FreeSolve.queue`."""
        check(self.b)
        means, (b, x, rhs) = self._components, (self.b, self.x, self._rhs)
        sums, squares = (means.sums_into(b, space, is_square) for space, is_square in zip(self._spaces, (False, True)))
        means.check_range(sums, squares, self._most_outside, OUTSIDE_RANGE, bits)
        self._rows.gathered_less_means(b, means, sums, rhs)
        solve(rhs, rhs)
        self._rows.scattered(x, rhs, 0.0)
        means.less_means(x, means.sums_into(x, self._spaces[0]), out=x)


def _first_not_finite(block):
    return first_true(~device.xp().isfinite(block).all(axis=1))
