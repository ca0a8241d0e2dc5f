"""Constraints on the unknowns: prescribed values (Dirichlet), and one pin per connected component of a singular matrix.

Both cut the matrix down to its free rows and columns. The caller keeps the numbering of the whole matrix. A constraint lies where its
matrix lies, on the host or on the GPU.
"""

from __future__ import annotations

import contextlib
import re

import numpy as np

from meshsolve import device
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, NotLaplacianError, PatternMismatchError
from meshsolve.options import as_flag
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array, as_indices, as_rhs, first_true, lengths
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import CUDA, HOST, where
from meshsolve.sparse.queued_cuda import FixedSolve, PinnedSolve

EPS = np.finfo(np.float64).eps
OUTSIDE = 1e-10         # part of b outside the range of A, relative to b, above which it is not rounding
SAMPLE = 64             # rows of b whose largest entry is compared before the length of b is computed
NOT_IN_RANGE = "b is not in the range of the singular matrix: its means on the components were removed"
ROW_SUM = 1e-6          # sum of a row relative to the sum of its absolute values, up to which it is 0 in rounding, of float32 values too


class Constraint:
    """A matrix whose rows are split into fixed rows and free rows, which are solved for.

    Attributes
    ----------
    n : int
        Rows of the whole matrix.
    rows : (k,) int32
        The fixed rows, on the host.
    free : (m,) int32
        The free rows, ascending, on the host.
    position : (n,) int32
        Position of each row among the free ones, or -1 minus its position among the fixed ones, on the host.
    alone : bool
        True if there is nothing to solve for.
    centers : bool
        True if means over the components are subtracted from solutions.
    couplings : tuple
        (coupling, coupling of the transpose or None) of the last matrix: its block of the free rows and fixed columns.
    """

    alone = centers = False

    def __init__(self, M, rows, symmetric, place):
        self.n, self.place, self._symmetric = M.n, place, symmetric
        self._split = place.row_split(M.n, rows)
        self.couplings = None, None

    @property
    def rows(self):
        return self._split.fixed

    @property
    def free(self):
        return self._split.free

    @property
    def position(self):
        return self._split.position

    @property
    def couplings(self):
        return self._couplings

    @couplings.setter
    def couplings(self, blocks):
        self._couplings, self._near = blocks, {}

    @property
    def coupling(self):
        """The first of :attr:`couplings`: a csr_array on the host, (indptr, indices, data) on the GPU, None before the first matrix."""
        return self._couplings[0]

    @coupling.setter
    def coupling(self, block):
        self.couplings = block, None

    def restrict(self, ordering):
        """Return a permutation of all rows, an array or an Ordering, as a permutation of the free rows."""
        return self._split.restrict(ordering)

    def reduce(self, M, threads=1):
        """Return the free block of M. Its coupling to the fixed rows is kept for right-hand sides."""
        block, *self.couplings = self._split.split(M, threads, not self._symmetric)
        return block if M.doubt is None else block.in_doubt(M.doubt.reduced(device.to_host(self.free)))

    def maps(self, gather):
        """Return (Gather of the free block, index map of its coupling) for :meth:`reduce` on the GPU."""
        inside, _, _, across = gather.split(self._split)
        return inside, across

    def coupling_pattern(self, gather):
        """Return indptr and indices of the coupling of a matrix on the GPU; its values are those of the second of :meth:`maps`."""
        return gather.split(self._split)[1:3]

    @property
    def component(self):
        """None: no component is pinned."""

    def _near_of(self, transposed):
        """Return the coupling as ``subtract`` takes it. Threads that solve at once may all compute it."""
        transposed = transposed and not self._symmetric
        if transposed not in self._near:
            self._near[transposed] = self._split.near(self._couplings[transposed])
        return self._near[transposed]


class Fixed(Constraint):
    """Rows ``fixed`` have prescribed values; the others are solved for.

    Parameters
    ----------
    M : Csr or GatheredMatrix
        The matrix, n rows.
    fixed : (k,) integers, distinct, or an (n,) boolean mask
    symmetric : bool
        False: systems with the transpose of the matrix are solved too. They have another coupling.
    place : HOST or CUDA
        Where the matrix lies.
    """

    def __init__(self, M, fixed, name="fixed", symmetric=True, place=HOST):
        rows = as_indices(fixed, M.n, name)
        if len(rows) == 0:
            raise InvalidInputError(f"{name} is empty: leave it out if nothing is fixed")
        if len(rows) == M.n:
            raise InvalidInputError(f"{name} names every row: nothing is left to solve for")
        super().__init__(M, rows, symmetric, place)

    def solve(self, columns, fixed_values, solve_free, transposed=False):
        """Return x with ``x[fixed] = values`` and (A x - b), or (A^T x - b) if ``transposed``, zero in the free rows.

        Parameters
        ----------
        columns : (n, k) C or F contiguous array in the place of the matrix
        fixed_values : see :meth:`meshsolve.sparse.rows.RowSplit.values`
        solve_free : callable of the (m, k) right-hand side of the free block
        """
        x, rhs = self.place.xp.empty_like(columns), self._split.gathered(columns)
        if fixed_values is None:
            return self._split.scattered(x, solve_free(rhs), 0.0)
        values, check = self._split.values(fixed_values, columns.shape[1], columns.dtype)
        rhs = self._split.subtract(rhs, values, lambda: self._near_of(transposed))
        self._split.scattered(x, solve_free(rhs), values)
        check()
        return x

    def queued(self, b, x, values):
        """Return :meth:`solve` on the GPU for arrays that exist, as a :class:`FixedSolve`."""
        return FixedSolve(self._split, b, x, values)

    def pulled(self, x):
        """Return (rows, values) to subtract from a right-hand side for the fixed rows of x (n, k), on the host."""
        near, coupling = self._near_of(False)
        return self.free[near], coupling @ x[self.rows]

    def whole(self, free, fixed_values):
        """Return an (n, k) block on the host from its free rows and the prescribed values."""
        values, _ = self._split.values(fixed_values, free.shape[1], free.dtype)
        return self._split.scattered(np.empty((self.n, free.shape[1]), free.dtype), free, values)


class Pinned(Constraint):
    """A singular matrix whose null space is constant on each connected component, such as a Laplacian.

    One row per component, the pin, is left out. b is projected onto the range, and the solution has mean 0 on each component.

    Parameters
    ----------
    M : Csr or GatheredMatrix
    symmetric : bool
        False: M is not symmetric.
    place : HOST or CUDA
        Where the matrix lies.
    """

    centers = True

    def __init__(self, M, symmetric=True, place=HOST):
        self.components = place.components(M, symmetric)
        self.alone = self.components.count == M.n               # isolated rows only: every unknown is 0
        super().__init__(M, self.components.pins[:0] if self.alone else self.components.pins, symmetric, place)

    @property
    def component(self):
        """(n,) int32 component of each row, in the place of the matrix."""
        return self.components.component

    @property
    def size(self):
        """(count,) float64 number of rows of each component, in the place of the matrix."""
        return self.components.size

    @property
    def free(self):
        return np.zeros(1, np.int32) if self.alone else self._split.free

    def restrict(self, ordering):
        """As :meth:`Constraint.restrict`; one row if all are isolated."""
        return np.zeros(1, np.int32) if self.alone else super().restrict(ordering)

    def reduce(self, M, threads=1):
        """Return the block without the pinned rows, or the 1 x 1 identity if all rows are isolated.

        Raises
        ------
        NotLaplacianError
            A row does not sum to 0: a matrix other than the given one would be solved.
        PatternMismatchError
            An entry joins components that have a pin each.
        """
        A = M.csr()
        self.require_singular(A, threads)
        joined = self.components.joined_by(A)
        if joined is not None:
            raise PatternMismatchError.joining(*joined)
        if not self.alone:
            return super().reduce(M, threads)
        one = Csr(1, np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, A.data.dtype))
        return one.uploaded() if self.place is CUDA else one

    def maps(self, gather):
        """As :meth:`Constraint.maps`; None if all rows are isolated."""
        return None if self.alone else super().maps(gather)

    def require_singular(self, M, threads=1):
        """Raise NotLaplacianError if a row of the Csr M does not sum to 0.

        The columns of an unsymmetric M must sum to 0 as well: otherwise b without its means is not in the range.
        """
        for line, (sums, magnitudes) in zip(("row", "column"), _sums(M, self._symmetric, threads)):
            off = first_true(abs(sums) > ROW_SUM * magnitudes)
            if off >= 0:
                raise not_singular(off, float(sums[off]), line)

    def solve(self, columns, fixed_values, solve_free, transposed=False):
        """Return the mean-free solution. Warns if b is not in the range of the matrix.

        The range of an unsymmetric matrix is the range of its transpose as well.
        """
        if columns.dtype.kind == "c":                   # real and imaginary parts are columns side by side
            x = self.solve(_parts(columns), fixed_values, lambda B: _parts(solve_free(np.ascontiguousarray(B).view(np.complex128))))
            return x.view(np.complex128)
        block = self._in_range(columns, fixed_values)
        if self.alone:
            return self.place.xp.zeros_like(columns)
        return self.components.centered(block, solve_free(self._split.gathered(block)), self._split)

    def queued(self, b, x, values):
        """Return :meth:`solve` on the GPU for arrays that exist, as a :class:`PinnedSolve`. There are no values."""
        return PinnedSolve(self._split, self.components, b, x, OUTSIDE)

    def solve_singular(self, columns, fixed_values, solve_all):
        """As :meth:`solve`, on the host, with a ``solve_all`` that solves the singular system of all rows."""
        if columns.dtype.kind == "c":
            x = self.solve_singular(_parts(columns), fixed_values, lambda B: _parts(solve_all(B.view(np.complex128))))
            return x.view(np.complex128)
        return self.center(solve_all(np.ascontiguousarray(self._in_range(columns, fixed_values))))[0]

    def center(self, columns):
        """Return a new block, the columns minus their component means, and the (k,) lengths of the part removed, on the host."""
        return self.components.center(columns)

    def _in_range(self, columns, fixed_values):
        """Return the columns minus their component means. Warns if these are more than rounding."""
        if fixed_values is not None:
            raise InvalidInputError("fixed_values goes with fixed=, not with pin=True")
        block, outside = self.center(columns)
        if self.place is not HOST or not _is_far_inside(outside, columns):
            warn_of_range(outside, lengths(columns))
        return block


def takes_constants_to_zero(M, threads=1):
    """Return True if every row of the Csr M sums to 0 in rounding, as for a Laplacian with entries of any sign."""
    return vanish(M.indptr, *M.row_sums(threads))


def vanish(indptr, sums, magnitudes):
    """Return True if all row sums are 0 in rounding, relative to the row sums of absolute values; arrays on the host or on the GPU.

    Sums that are all positive are no rounding errors, but those of a small diagonal matrix added to a Laplacian.
    """
    small = (abs(sums) <= 4 * EPS * (indptr[1:] - indptr[:-1] + 1) * magnitudes).all()
    return bool(small and not (sums > EPS * magnitudes).all())


def warn_of_range(outside, length):
    """Warn if the part removed from a column of b is more than rounding, relative to the length of the column; both (k,).

    The text has no numbers, so that it is shown once if a factor is applied many times.
    """
    if (outside > OUTSIDE * length).any():
        warn(NOT_IN_RANGE, MeshsolveWarning)


def not_singular(row, total, line="row"):
    """Return the error of ``pin=True`` for a matrix with a row, or column, that does not sum to 0."""
    return NotLaplacianError(
        f"{line} {row} of A sums to {total:.3g}, not to 0: pin=True is for Laplacians and other matrices that take constants to 0"
        + (". " if line == "row" else ", as their transposes do. ") + "Leave it out if A is regular", int(row))


# ---- the constraints of a call ----------------------------------------------------------------------------------------


def checked(fixed, pin):
    """Return ``pin`` as a bool; raise if it is given together with ``fixed``."""
    pin = as_flag(pin, "pin")
    if pin and fixed is not None:
        raise InvalidInputError("pin=True and fixed= exclude each other: fixed rows already make a Laplacian regular")
    if isinstance(fixed, (set, frozenset)):
        raise InvalidInputError("fixed must be a list of row numbers, not a set: fixed_values= follows its order, and a set has none")
    return pin


def constraint_of(M, fixed, pin, symmetric=True, place=HOST):
    """Return the :class:`Fixed` or :class:`Pinned` of a matrix for :func:`checked` arguments, or None for no constraint."""
    if pin:
        return Pinned(M, symmetric, place)
    return None if fixed is None else Fixed(M, fixed, symmetric=symmetric, place=place)


def without_constraint(fixed_values):
    """Raise if there are prescribed values, for a call with neither ``fixed`` nor ``pin``."""
    if fixed_values is not None:
        raise InvalidInputError("fixed_values= needs fixed=, the rows that take these values")


def parts_of_values(b, fixed_values):
    """Return b, complex if the prescribed values are, and the real and the imaginary part of the values; None for real values."""
    given = where(fixed_values).array(fixed_values, "fixed_values")
    if given.dtype.kind != "c":
        return b, fixed_values, None
    b = where(b).array(b, "b")
    return b.astype(np.complex128) if b.dtype.kind in "fiub" else b, given.real, given.imag


def solve_whole(solve, n, b, fixed_values, solve_free, is_complex=False):
    """Return x in b's shape and place, computed on the host by ``solve``, a method of a constraint of n rows.

    Parameters
    ----------
    solve : callable
        ``solve(columns, fixed_values, solve_columns)``.
    b, fixed_values : arrays, on the host or on the GPU
        If one is complex, the columns are.
    solve_free : callable
        Called once, with an array in the place of b that has b's number of dimensions.
    is_complex : bool
        True: the columns are complex in any case.
    """
    home, given = where(b), as_array(b, "b")
    values = None if fixed_values is None else as_array(fixed_values, "fixed_values")
    is_complex = is_complex or "c" in (given.dtype.kind, getattr(values, "dtype", given.dtype).kind)
    columns, shape = as_rhs(given, n, dtype=np.complex128 if is_complex else np.float64)

    def solve_columns(B):
        x = device.to_host(solve_free(home.bring(np.ascontiguousarray(in_shape(B)) if home is CUDA else in_shape(B))))
        return x.reshape(len(x), -1) if len(shape) == 2 else x[:, None]

    def in_shape(X):
        return X if len(shape) == 2 else X[:, 0]

    return home.bring(in_shape(solve(columns, values, solve_columns)))


NUMBERED = re.compile(r"\b(row|column) (\d+)")


@contextlib.contextmanager
def in_callers_numbers(free):
    """Translate rows and columns in errors of the block of the rows ``free`` to the numbering of the whole matrix."""
    try:
        yield
    except MeshsolveError as e:
        e.args = NUMBERED.sub(lambda found: f"{found[1]} {free[int(found[2])]}", str(e)),
        for name in ("row", "column", "index"):
            if getattr(e, name, -1) >= 0:
                setattr(e, name, int(free[getattr(e, name)]))
        raise


# ---- helpers ------------------------------------------------------------------------------------------------------------


def _is_far_inside(outside, columns):
    """Return True if no warning is needed, judging from a sample of rows: no entry is larger than the length of its column."""
    return not (outside > OUTSIDE * np.maximum.reduce(abs(columns[::1 + len(columns) // SAMPLE]))).any()


def _parts(columns):
    """Return complex columns as real ones, C contiguous, each imaginary part next to its real part."""
    return np.ascontiguousarray(columns).view(np.float64)


def _sums(M, symmetric, threads):
    """Return [(sums, sums of absolute values)] of the rows of a Csr; those of the columns follow if it is not symmetric."""
    if symmetric:
        return [M.row_sums(threads)]
    A, one = M.to_scipy(), np.ones(M.n)
    return [(B @ one, abs(B) @ one) for B in (A, A.T)]
