"""The pencil A x = lambda M x: its units, factors and products.

A - sigma M has one pattern for all shifts, so the second factor is a refactorization.
"""

from __future__ import annotations

import copy

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.api.definite import cholesky
from meshsolve.api.factors import ildl
from meshsolve.eigen.basis import WIDTH
from meshsolve.eigen.prepare import is_diagonal, is_dominant, rank_of_masses
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.report import without_warnings
from meshsolve.sparse.columns import reduce_columns
from meshsolve.sparse.matrix import as_csr
from meshsolve.sparse.places import PLACES
from meshsolve.sparse.product import residual
from meshsolve.sparse.rows import components

ROUNDING = np.finfo(float).eps
STEP = 1e3              # units of rounding of an eigenvalue by which a shift is moved off it
GROWTH = 16.0           # ratio of one move of a shift to the one before, until the inertia is decided
ATTEMPTS = 60           # moves at most
FEW = 1e3               # largest entry of A's diagonal over the mean of M's, relative to the median row, above which it stands for few rows
ORDINARY = 2.0**-200, 2.0**200      # median entries of A and M that need no other unit
UNEVEN = 1e6            # largest entry of a row over its mass, relative to the median row, above which rows count as uneven
ROW_SUM = 1e-13         # sum of a row relative to that of its absolute values, up to which it counts as 0
STEEP = 1e120           # largest entry of a row over its mass, relative to the median row, from which on the mass counts as 0
KEPT = 1e-13            # eigenvalues of a dense M, relative to the largest one after scaling, up to which they count as 0


class Pencil:
    """A and M on the rows that take part, in units in which their entries are near 1.

    Parameters
    ----------
    A, M : (n, n) csr_array
    numbers : (n,) int64, or None
        The caller's numbers of the rows.
    pin : bool
    place : str
        ``"cpu"`` or ``"cuda"``.
    threads : int

    Attributes
    ----------
    n : int
    rank : int
        Number of finite eigenvalues.
    unit, length : float
        The caller's eigenvalues are those of the pencil times ``unit``, and the caller's eigenvectors times ``length``.
    A, M : csr_array
        On the union of both patterns: ``A.data - sigma * M.data`` are the values of A - sigma M.
    sizes : (n,) float64
        Sums of the absolute values of the rows of A.
    typical, smooth : float
        The median of ``sizes`` over the masses; the same for a constant vector, if it is less.
    is_uneven : bool
        Some rows are far stiffer than the others, or have no mass, or M may be singular.
    constants : int
        With ``pin``, the number of components: A takes their constants to 0.
    masses : (n,) float64, or None
        The diagonal of M where M is diagonal: ones without M.
    """

    def __init__(self, A, M, numbers, pin, place, threads):
        self.numbers, self.place, self.threads = numbers, PLACES[place], threads
        self.n, self._definite, self._indefinite, self._congruent = A.shape[0], None, None, None
        self.constants = components(as_csr(A))[0] if pin else 0
        self.rank = rank_of_masses(M, self.row, threads)
        if is_diagonal(M):
            M = _without_steep(A, M)
            self.rank = int(np.count_nonzero(M.diagonal()))
        A, a = _in_units(A, 1)
        M, m = _in_units(M, 2)
        with np.errstate(over="ignore"):
            self.unit, self.length = float(np.ldexp(1.0, a - m)), float(np.ldexp(1.0, -m // 2))
        self.sizes = abs(A).sum(axis=1)
        self.masses = M.diagonal() if is_diagonal(M) else None
        self.typical, self.smooth = self._ratios(M.diagonal())
        self.is_uneven = self.rank < self.n or self.bound_of(M) > UNEVEN * self.typical or not is_dominant(M)
        self.A, self.M = _on_one_pattern(A, M, self.masses)

    def on_host(self):
        """The same pencil with its factors on the host."""
        other = copy.copy(self)
        other.place, other._definite, other._indefinite = PLACES["cpu"], None, None
        return other

    @property
    def has_masses(self):
        """True if every row has mass, so that eigenvectors are orthonormal where those of :meth:`operator` are."""
        return self.masses is None or self.masses.min() > 0

    def row(self, k):
        """The caller's number of row k."""
        return int(k if self.numbers is None else self.numbers[k])

    def shifted(self, sigma):
        """A - sigma M as a csr_array."""
        return sp.csr_array((self.A.data - sigma * self.M.data, self.A.indices, self.A.indptr), shape=(self.n, self.n))

    def scale(self):
        """The order of magnitude of the eigenvalues: the largest entry of A's diagonal over the mean of M's.

        If few rows have such a large entry, it is that of typical rows.
        """
        mean = self.M.diagonal().mean()
        largest = abs(self.A.diagonal()).max() or abs(self.A.data).max(initial=0.0) or 1.0
        return min(largest / mean, FEW * self.typical or np.inf) if mean > 0 else 1.0

    def bound(self):
        """A bound of the absolute values of the eigenvalues where M is diagonal, and their order of magnitude else."""
        return self.bound_of(self.M)

    def bound_of(self, M):
        """:meth:`bound` for the mass matrix M."""
        masses = M.diagonal()
        heavy = masses > 0
        return (self.sizes[heavy] / masses[heavy]).max(initial=self.typical)

    def step(self, sigma):
        """The first distance by which a shift is moved off an eigenvalue."""
        return STEP * ROUNDING * max(abs(sigma), self.smooth)

    def null_components(self, most):
        """(numbers, at most ``most``, of the connected components whose rows sum to 0 and have mass; (n,) component of each row)."""
        count, component = components(as_csr(self.A))
        is_off = abs(self.A.sum(axis=1)) > ROW_SUM * self.sizes
        masses = np.bincount(component, self.M.sum(axis=1), count)            # 1^T M 1 in each
        return np.flatnonzero((np.bincount(component, is_off, count) == 0) & (masses > 0))[:most], component

    def definite_factor(self, sigma):
        """The Cholesky factor of A - sigma M, for a shift below all eigenvalues; the next call replaces its values."""
        try:
            with without_warnings(MeshsolveWarning):        # near-singular factors: residuals and counts are measured
                if self._definite is None:
                    self._definite = cholesky(self._standard(sigma), threads=self.threads, device=self.place.name)
                else:
                    self._definite.refactor(self._standard(sigma))
            return self._definite
        except NotPositiveDefiniteError as e:
            raise NotPositiveDefiniteError(
                f"A - sigma M must be positive definite for sigma = {sigma * self.unit:.6g}, it is not in column {self.row(e.column)}\n"
                "- A has an eigenvalue below sigma: call eigsh with interval=(lo, hi), or sigma below it\n"
                "- M is singular, and A is not positive definite where M is 0", column=self.row(e.column)) from e

    def indefinite_factor(self, sigma):
        """The complete L D L^T factor of A - sigma M at any shift; the next call replaces its values."""
        with without_warnings(MeshsolveWarning):
            if self._indefinite is None:
                ordering = "auto" if self._definite is None else self._definite.perm
                self._indefinite = ildl(self._standard(sigma), fill_level=None, ordering=ordering, threads=self.threads,
                                        device=self.place.name)
            else:
                self._indefinite.refactor(self._standard(sigma))
        return self._indefinite

    def below(self, sigma, step, first=0.0, most=np.inf):
        """(number of eigenvalues below a shift, the shift, the factor): the inertia of A - sigma M, by Sylvester's law.

        The shift is moved by ``first`` in the direction of ``step``, 1 or -1, and further until rounding errors leave no doubt, but by
        at most ``most``.
        """
        moved = first
        for _ in range(ATTEMPTS):
            at = sigma + step * moved
            F = self.indefinite_factor(at)
            with without_warnings(MeshsolveWarning):
                _, negative, zero = F.inertia
            if zero == 0 and not F.is_undecided:
                return negative, at, F
            moved = max(GROWTH * moved, self.step(sigma))
            if moved > most:
                break
        raise InvalidInputError(f"the number of eigenvalues below {sigma * self.unit:.6g} is not decided in double precision; move this "
                                "end of the interval")

    def operator(self, F):
        """Callable (n, 8), out -> (n, 8): (A - sigma M)^-1 M, made symmetric by the roots of the masses where M is diagonal."""
        solve = self.solve(F)
        if self.masses is None:
            M = self.product(self.M)
            return lambda block, out: solve(M(block), out)
        if self.has_masses:                                 # the roots are in the factor
            return solve
        roots = self.roots()
        return lambda block, out: roots * solve(roots * block, out)

    def solve(self, F):
        """Callable (n, 8), out -> (n, 8) that applies the inverse of a factor without measuring residuals."""
        if self.place.name == "cpu":
            return F.apply_columns if F is self._indefinite else F._solve_columns
        return lambda block, out: F.solve(block, out=out)

    def weighed(self, block):
        """M times a block."""
        return self.product(self.M)(block) if self.masses is None else self.place.bring(self.masses[:, None]) * block

    def weigh(self):
        """Callable for the inner product of :meth:`operator`, or None where it is the plain one."""
        if self.masses is not None:
            return None
        return self.product(self.M)

    def roots(self):
        """(n, 1) square roots of the masses, where the factor lies."""
        return self.place.bring(np.sqrt(self.masses)[:, None])

    def row_scale(self):
        """(n,) factors of the rows of the eigenvectors of :meth:`operator` that make those of the pencil, except for rows without mass."""
        if self.masses is None:
            return np.ones(self.n)
        return self.masses ** (-0.5 if self.has_masses else 0.5)

    def completed(self, F, X, theta):
        """(n, k) eigenvectors of the pencil: rows without mass by one more solve."""
        return X if self.has_masses else F.solve(X) / self.place.bring(theta)

    def product(self, matrix):
        """Callable (n, k) -> (n, k) where the factor lies: ``matrix``, A or M, times a block."""
        return lambda X: -self._subtracted(matrix, X, self.place.xp.zeros(X.shape))

    def solved(self, F, B):
        """(n, k) (A - sigma M)^-1 B for a factor F of :meth:`definite_factor` or :meth:`indefinite_factor`."""
        if self.masses is None or not self.has_masses:
            return F.solve(B)
        scale = self.place.bring(self.row_scale()[:, None])
        return scale * F.solve(scale * B)

    def root(self):
        """(n, r) R with M = R R^T as a dense array on the host, in the rows of the factor, for small matrices."""
        if self.masses is not None:
            rows = np.flatnonzero(self.masses)
            R = np.zeros((self.n, len(rows)))
            R[rows, np.arange(len(rows))] = 1.0 if self.has_masses else np.sqrt(self.masses[rows])
            return R
        scale = np.sqrt(self.M.diagonal())
        scale[scale == 0] = 1
        values, U = scipy.linalg.eigh(self.M.toarray() / np.outer(scale, scale))
        kept = values > KEPT * self.n * values[-1]
        return scale[:, None] * U[:, kept] * np.sqrt(values[kept])

    def measured(self, weights, w, X):
        """(8, k) on the host: the facts of ``measure`` in basis.hpp for the pairs w, X, where row i of a residual has ``weights[i]``."""
        if self.place.name == "cpu" and X.size:
            facts = np.empty((8, len(w)))
            _core.eigen_measure(self.A.indptr.astype(np.int64), self.A.indices.astype(np.int32), self.A.data,
                                self.M.data if self.masses is None else self.masses, weights, w, X.ravel(), facts.ravel(), self.threads)
            return facts
        found, xp = [np.zeros((8, 0))], self.place.xp
        weights = self.place.bring(weights[:, None])
        for first in range(0, len(w), WIDTH):
            part = slice(first, first + WIDTH)
            x, values = X[:, part].copy(order="C"), self.place.bring(w[part])
            Ax, Mx = self.product(self.A)(x), self.weighed(x)
            sizes = self._sized(self.A, x)
            both = sizes + abs(values) * (self._sized(self.M, x) if self.masses is None else abs(Mx))
            rows = [weights * (Ax - values * Mx)**2, weights * Mx**2, weights * both**2, abs(x) * sizes, x * Ax, x * Mx]
            found.append([*(device.to_host(xp.sum(row, axis=0)) for row in rows),
                          *(device.to_host(reduce_columns(name, x)) for name in ("max", "min"))])
        return np.concatenate(found, axis=1)

    def _standard(self, sigma):
        """The matrix to factor: A - sigma M, with rows and columns divided by the roots of the masses if all are positive."""
        if not self.has_masses or self.masses is None:
            return self.shifted(sigma)
        if self._congruent is None:
            roots = np.sqrt(self.masses)
            self._congruent = self.A.data / (np.repeat(roots, np.diff(self.A.indptr)) * roots[self.A.indices]), 1.0 * (self.M.data > 0)
        A, identity = self._congruent
        return sp.csr_array((A - sigma * identity, self.A.indices, self.A.indptr), shape=self.A.shape)

    def _ratios(self, masses):
        """(the median of the sum of a row of |A| over its mass; the ratio of their sums over all rows, if it is less)."""
        used = (masses > 0) & (self.sizes > 0)
        if not used.any():
            return 0.0, 0.0
        with np.errstate(over="ignore"):
            typical = float(np.median(self.sizes[used] / masses[used]))
            return typical, min(typical, self.sizes.sum() / masses.sum())

    def _sized(self, matrix, X):
        """|matrix| |X|, (n, k)."""
        return -self._subtracted(matrix, abs(X), self.place.xp.zeros(X.shape), True)

    def _subtracted(self, matrix, X, B, magnitudes=False):
        parts = [self.place.bring(part) for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)]
        return residual(*parts, X, B, magnitudes=magnitudes, threads=self.threads)


def _without_steep(A, M):
    """A diagonal M with 0 instead of masses that are 0 compared with the others: the smallest normal number is an idiom for that."""
    sizes, masses = abs(A).sum(axis=1), M.diagonal()
    used = (masses > 0) & (sizes > 0)
    if not used.any():
        return M
    ratio = np.log(sizes[used]) - np.log(masses[used])
    total = np.log((sizes[used] / sizes.max()).sum()) + np.log(sizes.max()) - np.log((masses / masses.max()).sum()) - np.log(masses.max())
    steep = ratio > np.log(STEEP) + min(float(np.median(ratio)), total)
    if not steep.any():
        return M
    masses[np.flatnonzero(used)[steep]] = 0
    return sp.diags_array(masses, format="csr")


def _in_units(matrix, step):
    """(matrix divided by a power of two, its exponent, a multiple of ``step``): 0 unless entries are far from 1."""
    used = matrix.data[matrix.data != 0]
    median = float(np.median(abs(used))) if len(used) else 1.0
    if ORDINARY[0] < median < ORDINARY[1]:
        return matrix, 0
    exponent = int(np.frexp(median)[1]) // step * step
    half = exponent // 2
    data = np.ldexp(np.ldexp(matrix.data, -half), half - exponent)
    return sp.csr_array((data, matrix.indices, matrix.indptr), shape=matrix.shape), exponent


def _on_one_pattern(A, M, masses):
    """Both matrices as csr_arrays with the same rows and columns stored. ``masses``: the diagonal of M where M is diagonal, or None."""
    if masses is not None:
        diagonal = np.repeat(np.arange(len(masses)), np.diff(A.indptr)) == A.indices
        if np.count_nonzero(diagonal) == len(masses):
            data = np.zeros(A.nnz)
            data[diagonal] = masses
            return A, sp.csr_array((data, A.indices, A.indptr), shape=A.shape)
    A, M = A.tocoo(), M.tocoo()
    row, col = np.r_[A.row, M.row], np.r_[A.col, M.col]
    parts = [np.r_[A.data, np.zeros(M.nnz)], np.r_[np.zeros(A.nnz), M.data]]
    both = [sp.csr_array((data, (row, col)), shape=A.shape) for data in parts]
    for matrix in both:
        matrix.sum_duplicates()
    return both
