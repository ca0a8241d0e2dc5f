"""The pencil A x = lambda M x: what is checked, reduced and factored of it.

Rows that are zero in both matrices (vertices without faces) and fixed rows are left out. A - sigma M has one pattern for all shifts,
so the second factor is a refactorization.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.api.definite import cholesky
from meshsolve.api.factors import ildl
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.memory import PER_ROW
from meshsolve.report import without_warnings
from meshsolve.sparse.columns import as_indices
from meshsolve.sparse.constraints import Pinned
from meshsolve.sparse.matrix import as_csr, as_symmetric
from meshsolve.sparse.places import PLACES
from meshsolve.sparse.product import residual
from meshsolve.sparse.rows import components

ATTEMPTS = 3            # shifts tried for a count: one that equals an eigenvalue is moved
MOVED = 1e-8            # by this fraction of the scale of the eigenvalues


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
        self.n, self._definite, self._indefinite = A.shape[0], None, None
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

    def definite_factor(self, sigma):
        """The Cholesky factor of A - sigma M, for a shift below all eigenvalues; the next call replaces its values."""
        try:
            if self._definite is None:
                self._definite = cholesky(self.shifted(sigma), threads=self.threads, device=self.place.name)
            else:
                self._definite.refactor(self.shifted(sigma))
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
                self._indefinite = ildl(self.shifted(sigma), fill_level=None, threads=self.threads, device=self.place.name)
            else:
                self._indefinite.refactor(self.shifted(sigma))
        return self._indefinite

    def below(self, sigma):
        """(number of eigenvalues below a shift, the shift, the factor): the inertia of A - sigma M, by Sylvester's law. A shift that
        equals an eigenvalue to rounding is moved up a little."""
        for attempt in range(ATTEMPTS):
            at = sigma + attempt * MOVED * max(abs(sigma), 1e-3 * self.scale())
            F = self.indefinite_factor(at)
            with without_warnings(MeshsolveWarning):
                _, negative, zero = F.inertia
            if zero == 0 and not F.is_undecided:
                return negative, at, F
        raise InvalidInputError(f"the number of eigenvalues below {sigma:.6g} is not decided in double precision; move this end of the "
                                "interval")

    def operator(self, F):
        """Callable (n, 8) -> (n, 8): (A - sigma M)^-1 M, made symmetric by the roots of the masses where M is diagonal."""
        if self.masses is None:
            M = self.product(self.M)
            return lambda block: F.solve(M(block))
        roots, solve = self.roots(), self.solve(F)

        def apply(block):
            x = solve(roots * block)
            x *= roots
            return x

        return apply

    def solve(self, F):
        """Callable (n, 8) -> (n, 8) that applies the inverse of a factor without measuring residuals."""
        return F.apply_columns if F is self._indefinite and self.place.name == "cpu" else F.solve

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

    def vectors(self, F, Y, theta):
        """(n, k) eigenvectors of the pencil from those of :meth:`operator`; rows without mass by one more solve."""
        if self.masses is None:
            return Y
        if self.has_masses:
            Y /= self.roots()
            return Y
        Y *= self.roots()
        return F.solve(Y) / self.place.bring(theta)

    def product(self, matrix):
        """Callable (n, k) -> (n, k) where the factor lies: ``matrix``, A or M, times a block."""
        return lambda X: -self._subtracted(matrix, X, self.place.xp.zeros(X.shape))

    def residual(self, X, B):
        """B - A X."""
        return self._subtracted(self.A, X, B)

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
