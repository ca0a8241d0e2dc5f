"""The pencil A x = lambda M x: what is checked, reduced and factored of it.

Rows that are zero in both matrices (vertices without faces) and fixed rows are left out. A - sigma M has one pattern for all shifts,
so the second factor is a refactorization.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.api.definite import cholesky
from meshsolve.api.factors import ildl
from meshsolve.eigen.basis import WIDTH
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.memory import PER_ROW
from meshsolve.report import without_warnings
from meshsolve.sparse.columns import as_indices, lengths, reduce_columns
from meshsolve.sparse.constraints import Pinned
from meshsolve.sparse.matrix import as_csr, as_symmetric
from meshsolve.sparse.places import PLACES
from meshsolve.sparse.product import residual
from meshsolve.sparse.rows import components

ATTEMPTS = 3            # shifts tried for a count: one that equals an eigenvalue is moved
MOVED = 1e-8            # by this fraction of the scale of the eigenvalues
ROUNDING = np.finfo(float).eps          # errors of eigenvalues relative to the largest entry of the factored matrix
SQUARES = 1e-280, 1e280         # range of sums of squares without overflow and loss of digits


class Pencil:
    """A and M on the rows that take part.

    Attributes
    ----------
    n : int
        Rows that take part.
    rows : (n,) int64, or None
        Their numbers; None where all do.
    A, M : csr_array
        On the union of both patterns: ``A.data - sigma * M.data`` are the values of A - sigma M.
    constants : int
        With ``pin``, the number of components: A takes their constants to 0.
    masses : (n,) float64, or None
        The diagonal of M where M is diagonal: ones without M.
    """

    def __init__(self, A, M, fixed, pin, place, threads):
        matrix = as_symmetric(A, threads=threads, per_row=PER_ROW["cholesky"])
        weights = sp.eye_array(matrix.n, format="csr") if M is None else _weights(M, matrix.n, threads)
        self.place, self.threads, self.size = PLACES[place], threads, matrix.n
        if pin:
            Pinned(matrix).require_singular(matrix, threads)
        A = matrix.to_scipy()
        keep = abs(A).sum(axis=1) + abs(weights).sum(axis=1) > 0
        if fixed is not None:
            keep[as_indices(fixed, matrix.n)] = False
        self.rows = None if keep.all() else np.flatnonzero(keep)
        if self.rows is not None:
            if len(self.rows) == 0:
                raise InvalidInputError("A and M must have a row that is not zero and not fixed, got none")
            A, weights = A[self.rows][:, self.rows], weights[self.rows][:, self.rows]
        self.n, self._definite, self._indefinite, self._congruent = A.shape[0], None, None, None
        self.constants = components(as_csr(A))[0] if pin else 0
        is_diagonal = np.array_equal(weights.indices, np.repeat(np.arange(self.n), np.diff(weights.indptr)))
        self.masses = self._checked_masses(weights.diagonal()) if is_diagonal else None
        self.A, self.M = _on_one_pattern(A, weights, self.masses)

    @property
    def has_masses(self):
        """True if every row has mass, so that eigenvectors are orthonormal where those of :meth:`operator` are."""
        return self.masses is None or self.masses.min() > 0

    def row(self, k):
        """The caller's number of row k."""
        return int(k if self.rows is None else self.rows[k])

    def shifted(self, sigma):
        """A - sigma M as a csr_array."""
        return sp.csr_array((self.A.data - sigma * self.M.data, self.A.indices, self.A.indptr), shape=(self.n, self.n))

    def scale(self):
        """A bound of the eigenvalues' order of magnitude: the largest entry of A's diagonal over the mean of M's."""
        mean = self.M.diagonal().mean()
        if not mean > 0:
            raise NotPositiveDefiniteError("M must be positive definite, the sum of its diagonal is not positive", column=self.row(0))
        return (abs(self.A.diagonal()).max() or abs(self.A.data).max(initial=0.0) or 1.0) / mean

    def resolution(self):
        """Eigenvalues that differ less are equal to rounding: a mesh with slivers has entries of A that are far larger than the rest."""
        masses = self.M.diagonal()
        heavy = masses > 0
        return ROUNDING * (abs(self.A.diagonal()[heavy]) / masses[heavy]).max(initial=0.0)

    def definite_factor(self, sigma):
        """The Cholesky factor of A - sigma M, for a shift below all eigenvalues; the next call replaces its values."""
        try:
            if self._definite is None:
                self._definite = cholesky(self._standard(sigma), threads=self.threads, device=self.place.name)
            else:
                self._definite.refactor(self._standard(sigma))
            return self._definite
        except NotPositiveDefiniteError as e:
            raise NotPositiveDefiniteError(
                f"A - sigma M must be positive definite for sigma = {sigma:.6g}, it is not in column {self.row(e.column)}\n"
                "- A has a negative eigenvalue: call eigsh with interval=(lo, hi), or sigma below it\n"
                "- M is not positive definite: it must be", column=self.row(e.column)) from e

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

    def below(self, sigma, step=1):
        """(number of eigenvalues below a shift, the shift, the factor): the inertia of A - sigma M, by Sylvester's law. A shift that
        equals an eigenvalue to rounding is moved a little, up or, if ``step`` is -1, down."""
        for attempt in range(ATTEMPTS):
            at = sigma + step * attempt * MOVED * max(abs(sigma), 1e-3 * self.scale())
            F = self.indefinite_factor(at)
            with without_warnings(MeshsolveWarning):
                _, negative, zero = F.inertia
            if zero == 0 and not F.is_undecided:
                return negative, at, F
        raise InvalidInputError(f"the number of eigenvalues below {sigma:.6g} is not decided in double precision; move this end of the "
                                "interval")

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

    def measured(self, w, X):
        """(4, k) on the host: of each column x of X the norms of A x - w M x and of x, the largest and the least entry."""
        if self.place.name == "cpu" and X.size:
            facts = np.empty((4, len(w)))
            _core.eigen_measure(self.A.indptr.astype(np.int64), self.A.indices.astype(np.int32), self.A.data,
                                self.M.data if self.masses is None else self.masses, w, X.ravel(), facts.ravel(), self.threads)
            if ((facts[:2] > SQUARES[0]) & (facts[:2] < SQUARES[1])).all():
                facts[:2] **= 0.5
                return facts
        found = [np.zeros((4, 0))]
        for first in range(0, len(w), WIDTH):
            part = slice(first, first + WIDTH)
            x = X[:, part].copy(order="C")
            left = self._subtracted(self.A, x, self.weighed(x) * self.place.bring(w[part]))
            found.append([lengths(left), lengths(x), *(device.to_host(reduce_columns(name, x)) for name in ("max", "min"))])
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

    def _checked_masses(self, masses):
        """The diagonal of M, which must not have a negative entry."""
        if masses.min() < 0:
            k = int(masses.argmin())
            raise NotPositiveDefiniteError(f"M must be positive definite: its diagonal entry in row {self.row(k)} is {masses[k]:.3g}",
                                           column=self.row(k))
        return masses

    def _subtracted(self, matrix, X, B):
        parts = [self.place.bring(part) for part in (matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)]
        return residual(*parts, X, B, threads=self.threads)


def _weights(M, n, threads):
    weights = as_symmetric(M, "M", threads=threads)
    if weights.n != n:
        raise InvalidInputError(f"M must have as many rows as A, {n}, got {weights.n}")
    return weights.to_scipy()


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
