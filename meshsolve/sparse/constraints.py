"""Constraints on the unknowns: prescribed values (Dirichlet), and one pin per connected component of a singular matrix.

Both cut the matrix down to its free rows and columns; what the caller sees keeps the caller's numbering.
"""

from __future__ import annotations

import contextlib
import math
import re

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, NotLaplacianError, PatternMismatchError
from meshsolve.options import as_flag
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array, as_complex, as_indices, as_perm, as_rhs, lengths
from meshsolve.sparse.matrix import Csr

EPS = np.finfo(np.float64).eps
OUTSIDE = 1e-10         # of the length of b: what lies outside the range of A and is no rounding
SAMPLE = 64             # rows of b whose largest entry is looked at before its length
SMALL = 1024            # rows of which numpy subtracts all in less time than it finds some
FEW = 16                # components that are gone through one by one
FOLD = 512              # rows that are added up side by side
WIDE = 256              # numbers in a row from which numpy goes through rows as fast as through memory
ROW_SUM = 1e-6          # beside the sum of moduli: what rounding leaves of a row that sums to 0, of float32 values as well


class Fixed:
    """Rows ``fixed`` have prescribed values; the others are solved for.

    Parameters
    ----------
    A : Csr
        The matrix, n rows.
    fixed : (k,) integers, distinct, or an (n,) boolean mask
    symmetric : bool
        False: systems with the transpose of the matrix are solved as well, which have another coupling.
    """

    alone = False                   # never is nothing left to solve for
    centers = False                 # solutions are what they are

    def __init__(self, A, fixed, name="fixed", symmetric=True):
        self.n, self._symmetric = A.n, symmetric
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
        first, last = self.free[[0, -1]]
        self._range = slice(first, last + 1) if last - first < len(self.free) else None         # where nothing fixed lies between
        if self._range is None:                         # numpy copies what is not intp at each use
            self._taken, self._source = self.free.astype(np.intp), np.maximum(self.place, 0).astype(np.intp)
        self.coupling = None

    def reduce(self, A, threads=1):
        """The free block of A as a Csr; the block that couples free rows to fixed ones is kept for the right-hand side."""
        block, coupling = self._split(A, threads)
        coupling = sp.csr_array(coupling[::-1], shape=(len(self.free), len(self.rows)))
        across = None if self._symmetric else sp.csr_array(A.to_scipy()[self.rows][:, self.free].T)
        self.couplings = coupling, across
        return Csr(len(self.free), *block)

    def _split(self, A, threads):
        """(indptr, indices, data) of the free block and of its coupling, real or complex."""
        if A.data.dtype.kind == "c":
            parts = [self._split(Csr(A.n, A.indptr, A.indices, np.ascontiguousarray(part)), threads) for part in (A.data.real, A.data.imag)]
            return [(*real[:2], as_complex(real[2], imaginary[2])) for real, imaginary in zip(*parts, strict=True)]
        return _core.split(A.indptr, A.indices, A.data, self.free, self.place, threads)

    def restrict(self, ordering):
        """A permutation of all rows, an array or an Ordering, as one of the free rows."""
        perm = as_perm(getattr(ordering, "perm", ordering), self.n, "ordering")
        place = self.place[perm]
        return place[place >= 0]

    def values(self, fixed_values, k, dtype=np.float64):
        """Prescribed values as a (len(rows), k) array of ``dtype``, float64 or complex128; zeros where none are given.

        One number is for all rows. Of what has n rows those of ``rows`` are taken and no others looked at: as one row at least is free,
        values for the fixed ones alone are never as many.
        """
        fixed = len(self.rows)
        if fixed_values is None:
            return np.zeros((fixed, k), dtype)
        if type(fixed_values) in (float, int) and abs(fixed_values) < math.inf:
            return np.full((fixed, k), float(fixed_values), dtype)
        given = as_array(fixed_values, "fixed_values")
        if given.dtype.kind not in ("fiub" if dtype == np.float64 else "fiubc"):
            raise InvalidInputError(f"fixed_values has to hold real numbers, not {given.dtype}")
        is_whole = given.ndim > 0 and len(given) == self.n
        values = (given.take(self.rows, axis=0) if is_whole else given).astype(dtype)
        values = values.reshape(-1, 1) if values.ndim < 2 else values
        if given.ndim > 0 and values.shape not in ((fixed, k), (fixed, 1)):
            raise InvalidInputError(f"fixed_values has to be ({fixed},) or ({fixed}, {k}), a row for each of fixed, or ({self.n},) or "
                                    f"({self.n}, {k}), of which those of fixed are taken, not {given.shape}")
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise InvalidInputError(f"fixed_values: row {self.rows[row] if is_whole else row} is not finite")
        return values if values.shape == (fixed, k) else np.broadcast_to(values, (fixed, k))

    def solve(self, columns, fixed_values, solve_free, transposed=False):
        """x with ``x[fixed] = values`` and (A x - b), or (A^T x - b) if ``transposed``, zero in the free rows."""
        if fixed_values is None:
            return self.place_in(np.empty_like(columns), solve_free(self.taken(columns)), 0.0)
        values = self.values(fixed_values, columns.shape[1], columns.dtype)
        rhs = self.taken(columns)
        if values.any():
            near, coupling = self._near(transposed and not self._symmetric)
            rhs = rhs if self._range is None else rhs.copy(order="K")
            rhs[near] -= coupling @ values
        return self.place_in(np.empty_like(columns), solve_free(rhs), values)

    def _near(self, transposed):
        """The free rows that are coupled to fixed ones, few of all as a rule, and their rows of the coupling; all of a small matrix."""
        if transposed not in self._coupled:             # threads that solve at once may all find it
            coupling = self.couplings[transposed]
            free, fixed = coupling.shape
            if free <= SMALL:
                self._coupled[transposed] = slice(None), coupling
            else:
                near = np.flatnonzero(np.diff(coupling.indptr))
                part = coupling.data, coupling.indices, coupling.indptr[np.append(near, free)]
                self._coupled[transposed] = near, sp.csr_array(part, shape=(len(near), fixed))
        return self._coupled[transposed]

    @property
    def couplings(self):
        """(coupling, the same block of the transpose or None where the matrix is symmetric) of the last matrix."""
        return self._couplings

    @couplings.setter
    def couplings(self, blocks):
        self._couplings, self._coupled = blocks, {}

    @property
    def coupling(self):
        """The block of the last matrix that couples free rows to fixed ones, a csr_array; None before there is one."""
        return self._couplings[0]

    @coupling.setter
    def coupling(self, block):
        self.couplings = block, None

    def taken(self, columns):
        """The free rows of a C or F contiguous block: the same memory where they are a range, else a new block in the same order."""
        if self._range is not None:
            return columns[self._range]
        return columns.take(self._taken, axis=0) if columns.flags.c_contiguous else columns.T.take(self._taken, axis=1).T

    def place_in(self, x, free, fixed):
        """x, C or F contiguous, with the rows ``free`` and ``fixed`` in their places."""
        if self._range is not None:
            x[self._range] = free
        elif x.flags.c_contiguous:                      # reading from anywhere takes half the time of writing to anywhere
            free.take(self._source, axis=0, out=x, mode="clip")
        else:
            free.T.take(self._source, axis=1, out=x.T, mode="clip")
        x[self.rows] = fixed
        return x


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


def sums_of_columns(x):
    """(k,) sums of the columns of a C or F contiguous (n, k) float64 array; a column has the same bits in any block.

    numpy adds rows to each other as fast as it reads them where they are long, so the first FOLD rows count as one, the next FOLD as
    the second; that keeps rounding small as well."""
    n, k = x.shape
    if n > 2 * FOLD:
        times, whole = n // FOLD, n - n % FOLD
        if x.flags.c_contiguous:
            folded = np.add.reduce(x[:whole].reshape(times, FOLD * k), axis=0).reshape(FOLD, k)
        else:
            folded = np.add.reduce(x.T[:, :whole].reshape(k, times, FOLD), axis=1).T
        folded[:n - whole] += x[whole:]
        x = folded
    return np.add.reduce(np.ascontiguousarray(x.T), axis=1)


def less_a_row(x, row, out):
    """out := the rows of a contiguous (n, k) block minus one of k numbers; several rows as one where they are short."""
    n, k = x.shape
    several = WIDE // k if 1 < k <= WIDE // 4 and x.flags.c_contiguous and out.flags.c_contiguous else 1
    whole = n - n % several
    if several > 1:
        wide = whole // several, several * k
        np.subtract(x[:whole].reshape(wide), np.tile(row, several), out=out[:whole].reshape(wide))
        x, out = x[whole:], out[whole:]
    np.subtract(x, row, out=out)


def take_means(block, component, size):
    """Takes from the columns of a C contiguous (n, k) float64 block, in place, their means over the components that the (n,) int32
    array numbers; returns the (k,) lengths of what is taken out. ``size``: (components,) float64."""
    if len(size) == 1:
        means = sums_of_columns(block)[None] / size
        less_a_row(block, means[0], block)
    else:
        means = _core.center(component, size, block.reshape(-1)).reshape(len(size), -1)
    return lengths_of_means(means, size)


def lengths_of_means(means, size):
    """(k,) 2-norms of the columns that are constant on components of ``size`` rows, with the (components, k) values ``means`` there."""
    if len(size) == 1:
        return abs(means[0]) * math.sqrt(size[0])
    return lengths(means * np.sqrt(size)[:, None])


def tell_of_range(outside, length):
    """Warn where what was taken out of a column of b, beside the column's length, is more than rounding; both (k,). The text has no
    numbers, so that it is shown once where a factor is applied again and again."""
    if (outside > OUTSIDE * length).any():
        warn("b is not in the range of the singular matrix: its means on the components were removed", MeshsolveWarning)


def is_far_inside(outside, columns):
    """Whether some rows of b are enough to see that nothing is to be told: an entry is no longer than its column."""
    return not (outside > OUTSIDE * np.maximum.reduce(abs(columns[::1 + len(columns) // SAMPLE]))).any()


class Pinned:
    """A singular matrix whose null space is constant on each connected component, such as a Laplacian.

    One row per component is left out; b is projected onto the range, the solution has mean 0 on each component.

    Raises
    ------
    NotLaplacianError
        A row does not sum to 0: another matrix would be solved than the one given.
    """

    centers = True                  # takes means off solutions

    def __init__(self, A, symmetric=True):
        self.n, self._symmetric = A.n, symmetric
        self.count, self.component = components(A if symmetric else _undirected(A))
        self.size = np.bincount(self.component, minlength=self.count).astype(np.float64)
        self._pins = np.flatnonzero(np.diff(np.maximum.accumulate(self.component), prepend=-1))   # their first rows
        self.alone = self.count == A.n              # nothing but isolated rows: every unknown is 0
        apart = self.count <= FEW and np.count_nonzero(np.diff(self.component)) == self.count - 1
        bounds = [*self._pins.tolist(), A.n]
        self._parts = list(zip(bounds, bounds[1:])) if apart else None      # where each is a range of rows
        self.fixed = None if self.alone else Fixed(A, self._pins, "pin", symmetric)
        zeros = np.flatnonzero(A.data == 0)         # no other entry lies between components, and a later matrix may fill these
        row = np.searchsorted(A.indptr, zeros, side="right") - 1
        self._has_bridges = not symmetric or bool((self.component[row] != self.component[A.indices[zeros]]).any())

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
        self.couplings = value, None

    @property
    def couplings(self):
        return (None, None) if self.alone else self.fixed.couplings

    @couplings.setter
    def couplings(self, value):
        if not self.alone:
            self.fixed.couplings = value

    def reduce(self, A, threads=1):
        """The block without the pinned rows."""
        self.require_singular(A, threads)
        self._require_apart(A)
        return Csr(1, np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, A.data.dtype)) if self.alone else self.fixed.reduce(A, threads)

    def require_singular(self, A, threads=1):
        """Raise if a row of A does not sum to 0, or a column of one that is not symmetric: b without its means is not in the range then."""
        for line, (sums, magnitudes) in zip(("row", "column"), _sums(A, self._symmetric, threads)):
            off = np.flatnonzero(np.abs(sums) > ROW_SUM * magnitudes)
            if len(off):
                raise not_singular(off[0], sums[off[0]], line)

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

    def solve(self, columns, fixed_values, solve_free, transposed=False):
        """The mean-free solution; warns where b is not in the range of the matrix. Of an unsymmetric matrix that is the range of its
        transpose as well."""
        if columns.dtype.kind == "c":                   # real and imaginary parts are columns side by side
            x = self.solve(_parts(columns), fixed_values, lambda B: _parts(solve_free(np.ascontiguousarray(B).view(np.complex128))))
            return x.view(np.complex128)
        block = self._in_range(columns, fixed_values)
        if self.alone:
            return np.zeros_like(columns)
        free = solve_free(self.fixed.taken(block))
        if self._parts is None:
            take_means(self.fixed.place_in(block, free, 0.0), self.component, self.size)
            return block
        for j, (begin, end) in enumerate(self._parts):      # x is 0 in the first row of each, the pin, until its mean is taken off
            part = free[begin - j:end - j - 1]
            mean = sums_of_columns(part) / (end - begin)
            less_a_row(part, mean, block[begin + 1:end])
            block[begin] = 0.0 - mean
        return block

    def solve_singular(self, columns, fixed_values, solve_all):
        """As :meth:`solve`, with a ``solve_all`` of all rows that takes the singular matrix."""
        if columns.dtype.kind == "c":
            x = self.solve_singular(_parts(columns), fixed_values, lambda B: _parts(solve_all(B.view(np.complex128))))
            return x.view(np.complex128)
        return self.center(solve_all(np.ascontiguousarray(self._in_range(columns, fixed_values))))[0]

    def _in_range(self, columns, fixed_values):
        """Columns minus their component means, a new block, with a warning if that is more than rounding."""
        if fixed_values is not None:
            raise InvalidInputError("fixed_values goes with fixed=, not with pin=True")
        block, outside = self.center(columns)
        if not is_far_inside(outside, columns):
            tell_of_range(outside, lengths(columns))
        return block

    def center(self, columns):
        """Columns minus their component means, a new block, and the (k,) lengths of what was removed."""
        if self._parts is None or not (columns.flags.c_contiguous or columns.flags.f_contiguous):
            block = np.array(columns, np.float64, order="C")
            return block, take_means(block, self.component, self.size)
        block, means = np.empty_like(columns), np.empty((self.count, columns.shape[1]))
        for mean, (begin, end) in zip(means, self._parts, strict=True):
            part = columns[begin:end]
            np.divide(sums_of_columns(part), end - begin, out=mean)
            less_a_row(part, mean, block[begin:end])
        return block, lengths_of_means(means, self.size)


def not_singular(row, total, line="row"):
    """The error of ``pin=True`` for a matrix whose row ``row``, or column, does not sum to 0."""
    return NotLaplacianError(
        f"{line} {row} of A sums to {total:.3g}, not to 0: pin=True is for Laplacians and other matrices that take constants to 0"
        + (". " if line == "row" else ", as their transposes do. ") + "Leave it out where A is regular", int(row))


def _parts(columns):
    """Complex columns as real ones, the imaginary part of each behind the real part; C contiguous."""
    return np.ascontiguousarray(columns).view(np.float64)


def _undirected(A):
    """A symmetric Csr with an entry that is not 0 for each such entry of the Csr A."""
    S = abs(A.to_scipy())
    S = sp.csr_array(S + S.T)
    S.sort_indices()
    return Csr(A.n, S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data)


def _sums(A, symmetric, threads):
    """(sums, sums of absolute values) of the rows of a Csr, and of the columns of one that is not symmetric."""
    if symmetric:
        return [A.row_sums(threads)]
    M, one = A.to_scipy(), np.ones(A.n)
    return [(B @ one, abs(B) @ one) for B in (M, M.T)]


# ---- the constraints of a call ----------------------------------------------------------------------------------------


def checked(fixed, pin):
    """``pin`` as a bool, once it is known that it goes with ``fixed``."""
    pin = as_flag(pin, "pin")
    if pin and fixed is not None:
        raise InvalidInputError("pin=True and fixed= exclude each other: fixed rows already make a Laplacian regular")
    if isinstance(fixed, (set, frozenset)):
        raise InvalidInputError("fixed has to be a list of row numbers, not a set: it has no order, which fixed_values= follows")
    return pin


def constraint_of(A, fixed, pin, symmetric=True):
    """The :class:`Fixed` or :class:`Pinned` of the Csr A for the arguments of these names, which are :func:`checked`; None without."""
    return Pinned(A, symmetric) if pin else None if fixed is None else Fixed(A, fixed, symmetric=symmetric)


def without_constraint(fixed_values):
    """Raise if there are prescribed values, for a call with neither ``fixed`` nor ``pin``."""
    if fixed_values is not None:
        raise InvalidInputError("fixed_values= needs fixed=, the rows that take these values")


def solve_whole(solve, n, b, fixed_values, solve_free, is_complex=False):
    """x of b's shape, where b lies, by ``solve``, a method of a constraint for n rows.

    Parameters
    ----------
    solve : callable
        ``solve(columns, fixed_values, solve_columns)``.
    b, fixed_values : arrays, on the host or on the GPU
        Complex ones make complex columns.
    solve_free : callable
        Called once with an array of b's number of dimensions where b lies.
    is_complex : bool
        True: columns are complex in any case.
    """
    there, given = device.holds(b), as_array(b, "b")
    values = None if fixed_values is None else as_array(fixed_values, "fixed_values")
    is_complex = is_complex or "c" in (given.dtype.kind, getattr(values, "dtype", given.dtype).kind)
    columns, shape = as_rhs(given, n, dtype=np.complex128 if is_complex else np.float64)

    def solve_columns(B):
        B = B if len(shape) == 2 else B[:, 0]
        x = solve_free(device.to_device(np.ascontiguousarray(B)) if there else B)
        return device.to_host(x).reshape(len(x), -1) if len(shape) == 2 else device.to_host(x)[:, None]

    x = solve(columns, values, solve_columns)
    x = x if len(shape) == 2 else x[:, 0]
    return device.to_device(x) if there else x


NUMBERED = re.compile(r"\b(row|column) (\d+)")


@contextlib.contextmanager
def in_callers_numbers(free):
    """Errors of work on the block of the rows ``free`` name rows and columns of the whole matrix."""
    try:
        yield
    except MeshsolveError as e:
        e.args = NUMBERED.sub(lambda found: f"{found[1]} {free[int(found[2])]}", str(e)),
        for name in ("row", "column", "index"):
            if getattr(e, name, -1) >= 0:
                setattr(e, name, int(free[getattr(e, name)]))
        raise
