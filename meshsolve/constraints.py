"""Constraints on the unknowns: prescribed values (Dirichlet), and one pin per connected component of a singular matrix.

Both cut the matrix down to its free rows and columns; what the caller sees keeps the caller's numbering.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.arrays import Csr, as_array, as_indices, as_perm, lengths
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotLaplacianError, PatternMismatchError
from meshsolve.report import warn

EPS = np.finfo(np.float64).eps
OUTSIDE = 1e-10         # of the length of b: what lies outside the range of A and is no rounding
ROW_SUM = 1e-6          # beside the sum of moduli: what rounding leaves of a row that sums to 0, of float32 values as well


class Fixed:
    """Rows ``fixed`` have prescribed values; the others are solved for.

    Parameters
    ----------
    A : Csr
        The symmetric matrix, n rows.
    fixed : (k,) integers, distinct, or an (n,) boolean mask
    """

    alone = False                   # never is nothing left to solve for
    centers = False                 # solutions are what they are

    def __init__(self, A, fixed, name="fixed"):
        self.n = A.n
        self.rows = as_indices(fixed, A.n, name)
        if len(self.rows) == 0:
            raise InvalidInputError(f"{name} is empty: leave it out where nothing is fixed")
        is_free = np.ones(A.n, bool)
        is_free[self.rows] = False
        self.free = np.flatnonzero(is_free).astype(np.int32)
        if len(self.free) == 0:
            raise InvalidInputError(f"{name} names every row: nothing is left to solve for")
        self.place = np.empty(A.n, np.int32)            # number of each row among the free ones, or -1 minus that among the fixed
        self.place[self.free] = np.arange(len(self.free))
        self.place[self.rows] = -1 - np.arange(len(self.rows))
        self._source = np.where(self.place >= 0, self.place, len(self.free) - 1 - self.place).astype(np.intp)        # see solve()
        self.coupling = None

    def reduce(self, A, threads=1):
        """The free block of A as a Csr; the block that couples free rows to fixed ones is kept for the right-hand side."""
        block, coupling = _core.split(A.indptr, A.indices, A.data, self.free, self.place, threads)
        self.coupling = sp.csr_array(coupling[::-1], shape=(len(self.free), len(self.rows)))
        return Csr(len(self.free), *block)

    def restrict(self, ordering):
        """A permutation of all rows, an array or an Ordering, as one of the free rows."""
        perm = as_perm(getattr(ordering, "perm", ordering), self.n, "ordering")
        place = self.place[perm]
        return place[place >= 0]

    def values(self, fixed_values, k):
        """Prescribed values as a (len(rows), k) float64 array; zeros where none are given.

        One number is for all rows. Of what has n rows those of ``rows`` are taken and no others looked at: as one row at least is free,
        values for the fixed ones alone are never as many.
        """
        fixed = len(self.rows)
        if fixed_values is None:
            return np.zeros((fixed, k))
        given = as_array(fixed_values, "fixed_values")
        if given.dtype.kind not in "fiub":
            raise InvalidInputError(f"fixed_values has to hold real numbers, not {given.dtype}")
        is_whole = given.ndim > 0 and len(given) == self.n
        values = (given.take(self.rows, axis=0) if is_whole else given).astype(np.float64)
        values = values.reshape(-1, 1) if values.ndim < 2 else values
        if given.ndim > 0 and values.shape not in ((fixed, k), (fixed, 1)):
            raise InvalidInputError(f"fixed_values has to be ({fixed},) or ({fixed}, {k}), a row for each of fixed, or ({self.n},) or "
                                    f"({self.n}, {k}), of which those of fixed are taken, not {given.shape}")
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise InvalidInputError(f"fixed_values: row {self.rows[row] if is_whole else row} is not finite")
        return np.broadcast_to(values, (fixed, k))

    def solve(self, columns, fixed_values, solve_free):
        """x with ``x[fixed] = values`` and (A x - b) zero in the free rows."""
        values = self.values(fixed_values, columns.shape[1])
        rhs = columns.take(self.free, axis=0)
        if fixed_values is not None:
            rhs -= self.coupling @ values
        return np.concatenate([solve_free(rhs), values]).take(self._source, axis=0)        # half the time of two assignments


def parts_of_values(b, fixed_values):
    """b, complex where the prescribed values are, and the real and the imaginary part of these; None where they have none."""
    there = device.holds(fixed_values)
    given = device.asarray(fixed_values) if there else as_array(fixed_values, "fixed_values")
    if given.dtype.kind != "c":
        return b, fixed_values, None
    b = device.asarray(b) if device.holds(b) else as_array(b, "b")
    return b.astype(np.complex128) if b.dtype.kind in "fiub" else b, given.real, given.imag


def components(A):
    """How many connected components the symmetric :class:`Csr` A of float64 has, and the (n,) int32 number of each row's, by their
    first rows; stored zeros couple nothing."""
    return _core.components(A.indptr, A.indices, A.data)


def takes_constants_to_zero(A, threads=1):
    """Whether every row of the :class:`Csr` A sums to 0, but for rounding, as a Laplacian's do whatever the signs of its entries."""
    return vanish(A.indptr, *A.row_sums(threads))


def vanish(indptr, sums, moduli):
    """Whether the sums of all rows are 0 but for rounding, beside those of their moduli; arrays here or on the GPU."""
    return bool((abs(sums) <= 4 * EPS * (indptr[1:] - indptr[:-1] + 1) * moduli).all())


def take_means(block, component, size):
    """Takes from the columns of a C contiguous (n, k) float64 block, in place, their means over the components that the (n,) int32
    array numbers; returns the (k,) lengths of what is taken out. ``size``: (components,) float64."""
    means = _core.center(component, size, block.reshape(-1)).reshape(len(size), -1)
    return lengths(means * np.sqrt(size)[:, None])


def tell_of_range(outside, length):
    """Warn where what was taken out of a column of b, beside the column's length, is more than rounding; both (k,). The text has no
    numbers, so that it is shown once where a factor is applied again and again."""
    if (outside > OUTSIDE * length).any():
        warn("b is not in the range of the singular matrix: its means on the components were removed", MeshsolveWarning)


class Pinned:
    """A singular matrix whose null space is constant on each connected component, such as a Laplacian.

    One row per component is left out; b is projected onto the range, the solution has mean 0 on each component.

    Raises
    ------
    NotLaplacianError
        A row does not sum to 0: another matrix would be solved than the one given.
    """

    centers = True                  # takes means off solutions

    def __init__(self, A):
        self.n = A.n
        self.count, self.component = components(A)
        self.size = np.bincount(self.component, minlength=self.count).astype(np.float64)
        self._pins = np.flatnonzero(np.diff(np.maximum.accumulate(self.component), prepend=-1))   # their first rows
        self.alone = self.count == A.n              # nothing but isolated rows: every unknown is 0
        self.fixed = None if self.alone else Fixed(A, self._pins, "pin")
        zeros = np.flatnonzero(A.data == 0)         # no other entry lies between components, and a later matrix may fill these
        row = np.searchsorted(A.indptr, zeros, side="right") - 1
        self._has_bridges = bool((self.component[row] != self.component[A.indices[zeros]]).any())

    def restrict(self, ordering):
        """A permutation of all rows as one of the rows that are not pinned."""
        return np.zeros(1, np.int32) if self.alone else self.fixed.restrict(ordering)

    @property
    def free(self):
        return np.zeros(1, np.int32) if self.alone else self.fixed.free

    @property
    def rows(self):
        """The pins."""
        return self._pins

    @property
    def place(self):
        """As that of :class:`Fixed`, of the pins."""
        return self.fixed.place

    @property
    def coupling(self):
        return None if self.alone else self.fixed.coupling

    @coupling.setter
    def coupling(self, value):
        if not self.alone:
            self.fixed.coupling = value

    def reduce(self, A, threads=1):
        """The block without the pinned rows."""
        sums, moduli = A.row_sums(threads)
        off = np.flatnonzero(np.abs(sums) > ROW_SUM * moduli)
        if len(off):
            raise not_singular(off[0], sums[off[0]])
        self._require_apart(A)
        return Csr(1, np.array([0, 1]), np.zeros(1, np.int32), np.ones(1)) if self.alone else self.fixed.reduce(A, threads)

    def _require_apart(self, A):
        """Raise where an entry joins components, of whose pins one would not be solved for. Without bridges in the analysed pattern it
        can only be in the row of a pin: the others have to lie inside that."""
        if self.count == 1:
            return
        rows = np.arange(A.n) if self._has_bridges else self._pins
        M = A.to_scipy() if self._has_bridges else A.to_scipy()[rows]
        own = np.repeat(self.component[rows], np.diff(M.indptr))
        joined = np.flatnonzero((self.component[M.indices] != own) & (M.data != 0))
        if len(joined):
            row = int(rows[np.searchsorted(M.indptr, joined[0], side="right") - 1])
            raise PatternMismatchError.joining(row, int(M.indices[joined[0]]))

    def solve(self, columns, fixed_values, solve_free):
        """The mean-free solution; warns where b is not in the range of the matrix."""
        if fixed_values is not None:
            raise InvalidInputError("fixed_values goes with fixed=, not with pin=True")
        rhs, outside = self.center(columns)
        tell_of_range(outside, lengths(columns))
        if self.alone:
            return np.zeros_like(columns)
        x = self.fixed.solve(rhs, None, solve_free)
        take_means(x, self.component, self.size)
        return x

    def center(self, columns):
        """Columns minus their component means, and the (k,) lengths of what was removed."""
        block = np.array(columns, np.float64, order="C")
        return block, take_means(block, self.component, self.size)


def not_singular(row, total):
    """The error of ``pin=True`` for a matrix whose row ``row`` does not sum to 0."""
    return NotLaplacianError(
        f"row {row} of A sums to {total:.3g}, not to 0: pin=True is for Laplacians and other matrices that take constants to 0. "
        "Leave it out where A is regular", int(row))
