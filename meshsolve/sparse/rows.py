"""Free and fixed rows of a matrix, and the connected components of its graph, on the host. Counterpart on the GPU: rows_cuda.py."""

from __future__ import annotations

import math

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.sparse.columns import as_array, as_complex, as_perm, checked_already, lengths
from meshsolve.sparse.matrix import Csr

SMALL = 1024            # free rows up to which the whole coupling is applied; finding the coupled rows would take longer
FEW = 16                # components up to which each is handled as a range of rows
FOLD = 512              # rows that are summed side by side, so that numpy adds long rows
UNEVEN = 1e4            # ratio of diagonal entries in a component above which its first row is not pinned
LONG_ROW = 256          # numbers in a row from which numpy is as fast along rows as along memory


class RowSplit:
    """The rows of an (n, n) matrix on the host, split into fixed and free ones.

    Parameters
    ----------
    n : int
    fixed : (k,) int32, distinct

    Attributes
    ----------
    free : (n - k,) int32, ascending
    position : (n,) int32
        Position of each row among the free ones, or -1 minus its position among the fixed ones.
    """

    def __init__(self, n, fixed):
        self.n, self.fixed = n, fixed
        is_free = np.ones(n, bool)
        is_free[fixed] = False
        self.free = np.flatnonzero(is_free).astype(np.int32)
        self.position = np.empty(n, np.int32)
        self.position[self.free] = np.arange(len(self.free))
        self.position[fixed] = -1 - np.arange(len(fixed))
        first, last = self.free[[0, -1]]
        self._range = slice(first, last + 1) if last - first < len(self.free) else None         # the free rows are a range
        if self._range is None:                         # as intp, the type that numpy would convert to at each use
            self._gather, self._source = self.free.astype(np.intp), np.maximum(self.position, 0).astype(np.intp)

    def restrict(self, ordering):
        """Return a permutation of all rows, an array or an Ordering, as a permutation of the free rows."""
        perm = as_perm(getattr(ordering, "perm", ordering), self.n, "ordering")
        position = self.position[perm]
        return position[position >= 0]

    def split(self, M, threads=1, both=False):
        """Return (free block as Csr, coupling of free rows to fixed ones as csr_array, the coupling of M^T or None).

        ``both``: M is not symmetric, and the coupling of its transpose is needed too.
        """
        block, coupling = self._parts(M, threads)
        coupling = sp.csr_array(coupling[::-1], shape=(len(self.free), len(self.fixed)))
        across = sp.csr_array(M.to_scipy()[self.fixed][:, self.free].T) if both else None
        return Csr(len(self.free), *block), coupling, across

    def values(self, fixed_values, k, dtype=np.float64):
        """Return prescribed values as a (len(fixed), k) array of ``dtype``, float64 or complex128, and a function that checks them.

        The values may be None (zeros), one number for all rows, one row for each fixed row, or n rows. Of n rows only those of
        ``fixed`` are read; at least one row is free, so the two forms cannot be confused.
        """
        fixed = len(self.fixed)
        if fixed_values is None:
            return np.zeros((fixed, k), dtype), checked_already
        if type(fixed_values) in (float, int) and abs(fixed_values) < math.inf:
            return np.full((fixed, k), float(fixed_values), dtype), checked_already
        given = as_array(fixed_values, "fixed_values")
        is_whole = check_shape_of_values(given, fixed, self.n, k, dtype)
        values = (given.take(self.fixed, axis=0) if is_whole else given).astype(dtype)
        values = values.reshape(-1, 1) if values.ndim < 2 else values
        if not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values).all(axis=1)))
            raise InvalidInputError(f"fixed_values: row {self.fixed[row] if is_whole else row} is not finite")
        return values if values.shape == (fixed, k) else np.broadcast_to(values, (fixed, k)), checked_already

    def near(self, coupling):
        """Return (rows, their part of a coupling) for the free rows that are coupled to fixed ones; all rows of a small matrix."""
        free, fixed = coupling.shape
        if free <= SMALL:
            return slice(None), coupling
        near = np.flatnonzero(np.diff(coupling.indptr))
        part = coupling.data, coupling.indices, coupling.indptr[np.append(near, free)]
        return near, sp.csr_array(part, shape=(len(near), fixed))

    def subtract(self, rhs, values, near):
        """Return ``rhs - coupling @ values``; ``near()`` returns the result of :meth:`near`. The right-hand side may be changed."""
        if not values.any():
            return rhs
        rows, coupling = near()
        rhs = rhs if self._range is None else rhs.copy(order="K")
        rhs[rows] -= coupling @ values
        return rhs

    def gathered(self, columns):
        """Return the free rows of a C or F contiguous block: a view if they are a range, else a new block in the same order."""
        if self._range is not None:
            return columns[self._range]
        return columns.take(self._gather, axis=0) if columns.flags.c_contiguous else columns.T.take(self._gather, axis=1).T

    def scattered(self, x, free, fixed):
        """Write the free and the fixed rows of a C or F contiguous block x, and return x."""
        if self._range is not None:
            x[self._range] = free
        elif x.flags.c_contiguous:                      # a gather takes half the time of a scatter
            free.take(self._source, axis=0, out=x, mode="clip")
        else:
            free.T.take(self._source, axis=1, out=x.T, mode="clip")
        x[self.fixed] = fixed
        return x

    def _parts(self, M, threads):
        """Return (indptr, indices, data) of the free block and of its coupling, real or complex."""
        if M.data.dtype.kind == "c":
            parts = [self._parts(Csr(M.n, M.indptr, M.indices, np.ascontiguousarray(part)), threads) for part in (M.data.real, M.data.imag)]
            return [(*real[:2], as_complex(real[2], imaginary[2])) for real, imaginary in zip(*parts, strict=True)]
        return _core.split(M.indptr, M.indices, M.data, self.free, self.position, threads)


def check_shape_of_values(given, fixed, n, k, dtype=np.float64):
    """Raise if an array cannot be the values of ``fixed`` of n rows in k columns; return True if it has a row for each of n."""
    if given.dtype.kind not in ("fiub" if dtype == np.float64 else "fiubc"):
        raise InvalidInputError(f"fixed_values must hold real numbers, got {given.dtype}")
    is_whole = given.ndim > 0 and len(given) == n
    shape = (fixed, *given.shape[1:]) if is_whole else given.shape
    if shape not in ((), (fixed,), (fixed, k), (fixed, 1)):
        raise InvalidInputError(f"fixed_values must be ({fixed},) or ({fixed}, {k}), a row for each of fixed, or ({n},) or "
                                f"({n}, {k}), of which the rows of fixed are read, got {tuple(given.shape)}")
    return is_whole


# ---- components -------------------------------------------------------------------------------------------------------


def components(M):
    """Return the number of connected components of a symmetric float64 Csr, and the (n,) int32 component of each row.

    Components are numbered by their first rows. Stored zeros connect nothing.
    """
    return _core.components(M.indptr, M.indices, M.data)


class Components:
    """Connected components of a matrix on the host, and means over them.

    Parameters
    ----------
    M : Csr
    symmetric : bool
        False: the components of the graph of |M| + |M|^T.

    Attributes
    ----------
    count : int
    component : (n,) int32
    size : (count,) float64
    pins : (count,)
        See :func:`pinned_rows`.
    """

    def __init__(self, M, symmetric=True):
        self.count, self.component = components(M if symmetric else _undirected(M))
        self.size = np.bincount(self.component, minlength=self.count).astype(np.float64)
        first = np.flatnonzero(np.diff(np.maximum.accumulate(self.component), prepend=-1))
        sizes = Csr(M.n, M.indptr, M.indices, abs(M.data)) if M.data.dtype.kind == "c" else M
        self.pins = pinned_rows(abs(sizes.diagonal_values()), self.component, first)
        are_ranges = self.count <= FEW and self.pins is first and np.count_nonzero(np.diff(self.component)) == self.count - 1
        bounds = [*first.tolist(), M.n]
        self._ranges = list(zip(bounds, bounds[1:])) if are_ranges else None
        zeros = np.flatnonzero(M.data == 0)         # the only entries between components; a later matrix may fill them
        row = np.searchsorted(M.indptr, zeros, side="right") - 1
        self._has_bridges = not symmetric or bool((self.component[row] != self.component[M.indices[zeros]]).any())

    def joined_by(self, M):
        """Return (row, column) of an entry of M that joins two components, or None.

        If the analyzed pattern has no entry between components, only the rows of pins can have one: all others must be inside the
        analyzed block.
        """
        if self.count == 1:
            return None
        rows = np.arange(M.n) if self._has_bridges else self.pins
        A = M.to_scipy() if self._has_bridges else M.to_scipy()[rows]
        own = np.repeat(self.component[rows], np.diff(A.indptr))
        joined = np.flatnonzero((self.component[A.indices] != own) & (A.data != 0))
        if len(joined) == 0:
            return None
        return int(rows[np.searchsorted(A.indptr, joined[0], side="right") - 1]), int(A.indices[joined[0]])

    def center(self, columns):
        """Return a new block, the columns minus their component means, and the (k,) lengths of the part that was removed."""
        if self._ranges is None or not (columns.flags.c_contiguous or columns.flags.f_contiguous):
            block = np.array(columns, np.float64, order="C")
            return block, subtract_means(block, self.component, self.size)
        block, means = np.empty_like(columns), np.empty((self.count, columns.shape[1]))
        for mean, (begin, end) in zip(means, self._ranges, strict=True):
            part = columns[begin:end]
            np.divide(sums_of_columns(part), end - begin, out=mean)
            subtract_row(part, mean, block[begin:end])
        return block, lengths_of_means(means, self.size)

    def centered(self, block, free, rows):
        """Return the mean-free solution whose free rows are ``free``, up to constants, and whose pins are 0; ``block`` is overwritten.

        ``rows``: the RowSplit with the pins as fixed rows.
        """
        if self._ranges is None:
            subtract_means(rows.scattered(block, free, 0.0), self.component, self.size)
            return block
        for j, (begin, end) in enumerate(self._ranges):     # the first row of each range is the pin, 0 before the mean is subtracted
            part = free[begin - j:end - j - 1]
            mean = sums_of_columns(part) / (end - begin)
            subtract_row(part, mean, block[begin + 1:end])
            block[begin] = 0.0 - mean
        return block


def pinned_rows(diagonal, component, first, xp=np):
    """Return the row of each component that is left out: its first, or its largest if a first row is UNEVEN times smaller.

    The equation of a pinned row is minus the sum of all others of its component, and so is its rounding error. In a row of far
    smaller entries this error would be large.

    Parameters
    ----------
    diagonal : (n,) float64
        Absolute values of the diagonal.
    component : (n,) int32
    first : (count,) integers
        First row of each component.
    xp : numpy or cupy
    """
    if not len(first) or UNEVEN * float(diagonal[first].min()) >= float(diagonal.max()):
        return first
    order = xp.argsort(-diagonal, kind="stable")
    order = order[xp.argsort(component[order], kind="stable")]
    begin = xp.searchsorted(component[order], xp.arange(len(first), dtype=component.dtype))
    largest = order[begin].astype(first.dtype)
    uneven = UNEVEN * diagonal[first] < diagonal[largest]
    return xp.where(uneven, largest, first) if uneven.any() else first


def sums_of_columns(x):
    """Return the (k,) sums of the columns of a C or F contiguous (n, k) float64 array. A column has the same bits in any block.

    numpy adds rows as fast as it reads them if they are long. So the first FOLD rows form one long row, the next FOLD rows the
    second. This also keeps rounding small.
    """
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


def subtract_row(x, row, out):
    """out := each row of a contiguous (n, k) block minus a (k,) row. Short rows are handled several at a time."""
    n, k = x.shape
    several = LONG_ROW // k if 1 < k <= LONG_ROW // 4 and x.flags.c_contiguous and out.flags.c_contiguous else 1
    whole = n - n % several
    if several > 1:
        wide = whole // several, several * k
        np.subtract(x[:whole].reshape(wide), np.tile(row, several), out=out[:whole].reshape(wide))
        x, out = x[whole:], out[whole:]
    np.subtract(x, row, out=out)


def subtract_means(block, component, size):
    """Subtract from the columns of a C contiguous (n, k) float64 block, in place, their means over the components.

    ``component``: (n,) int32; ``size``: (components,) float64. Returns the (k,) lengths of the part that is removed.
    """
    if len(size) == 1:
        means = sums_of_columns(block)[None] / size
        subtract_row(block, means[0], block)
    else:
        means = _core.center(component, size, block.reshape(-1)).reshape(len(size), -1)
    return lengths_of_means(means, size)


def lengths_of_means(means, size):
    """Return the (k,) 2-norms of the columns that are constant on components of ``size`` rows, with the (components, k) values."""
    if len(size) == 1:
        return abs(means[0]) * math.sqrt(size[0])
    return lengths(means * np.sqrt(size)[:, None])


def _undirected(M):
    """Return a symmetric Csr with a nonzero entry for each nonzero entry of M and its mirror entry."""
    S = abs(M.to_scipy())
    S = sp.csr_array(S + S.T)
    S.sort_indices()
    return Csr(M.n, S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data)
