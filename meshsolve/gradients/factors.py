"""Factors of a sequence of matrices, as the steps of an optimization solve them: one analysis, then refactorizations.

The backward pass of a step needs the factor of its matrix again, maybe after other matrices: it is kept, or made again. Entries come as
(rows, columns, values) with duplicates; the plan that sums them is kept while the indices stay.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np

from meshsolve.api import cholesky, factorized, ildl, lu, parac
from meshsolve.errors import ConvergenceWarning, InvalidInputError, MeshsolveError
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.constrained import ConstrainedLU
from meshsolve.factor.lu import LUFactor
from meshsolve.krylov import cg
from meshsolve.operators import Assembly
from meshsolve.options import as_flag, one_of
from meshsolve.report import without_warnings
from meshsolve.types import Array

Method: TypeAlias = Literal["auto", "cholesky", "ldl", "lu", "cg"]
METHODS = ("auto", "cholesky", "ldl", "lu", "cg")
RTOL = 1e-12                # relative residual of solutions by iteration: gradients inherit their error


class Entries:
    """The entries of a square matrix: rows, columns (k,) integers, values (k,), duplicates summed. They must not change later."""

    def __init__(self, rows, columns, values, n):
        self.rows, self.columns, self.values, self.n = rows, columns, values, n

    def has_pattern_of(self, other):
        """True if the other entries have the same rows and columns in the same order."""
        return self.n == other.n and np.array_equal(self.rows, other.rows) and np.array_equal(self.columns, other.columns)

    def same_as(self, other):
        """True if all entries are equal."""
        return self is other or (self.has_pattern_of(other) and np.array_equal(self.values, other.values))


class Factors:
    """The factor of the last matrix of a sequence.

    Attributes
    ----------
    factor : CholeskyFactor, IldlFactor, LUFactor, Iteration or None
    factorizations, analyses : int
        Numeric phases so far, and those of them that began with an analysis.
    """

    def __init__(self, method="auto", threads=None, *, pin=False):
        self.method, self.threads, self.pin = one_of(method, "method", METHODS), threads, as_flag(pin, "pin")
        self.factor: Any = None
        self.factorizations = self.analyses = 0
        self._held: Entries | None = None                   # the matrix of ``factor``
        self._plan: tuple[Entries, Assembly] | None = None

    def of(self, entries):
        """Return the factor of a matrix."""
        if self._held is None or not self._held.same_as(entries):
            self._held, M = None, self._matrix(entries)
            self.factor = self._refactored(M) or self._made(M)
            self.factorizations += 1
            self._held = entries
        return self.factor

    def solve(self, entries, b, trans="N"):
        """Solve A x = b, A^T x = b (``"T"``) or A^H x = b (``"H"``); other factors than LU are of real symmetric matrices."""
        F = self.of(entries)
        return F.solve(b, trans=trans) if isinstance(F, (LUFactor, ConstrainedLU)) else F.solve(b)

    def cholesky(self, entries):
        """Return the factor of a matrix, which must be a Cholesky factor."""
        F = self.of(entries)
        if not isinstance(F, CholeskyFactor):
            raise InvalidInputError("logdet is of symmetric positive definite matrices, and this one was factored by "
                                    f'{type(F).__name__}: method="cholesky" reports what it lacks')
        return F

    def inverse_entries(self, entries):
        """Return the entries [j, i] of the inverse of a symmetric matrix for its entries [i, j]."""
        return np.asarray(self.cholesky(entries).selected_inverse()[entries.rows, entries.columns])

    def _matrix(self, entries):
        """The csr_array of the entries."""
        if self._plan is None or not self._plan[0].has_pattern_of(entries):
            self._plan = entries, Assembly(entries.rows, entries.columns, entries.n, self.threads)
        return self._plan[1](entries.values)

    def _refactored(self, M):
        """The factor with new values; None if it does not fit them or does not exist."""
        if self.factor is None or self.factor.shape != M.shape or np.dtype(self.factor.dtype).kind != M.dtype.kind:
            return None
        try:
            F = self.factor.refactor(M)
        except MeshsolveError:                              # another pattern, or no longer symmetric, definite, real
            return None
        singular = self.method == "auto" and getattr(F, "inertia", (0, 0, 0))[2]
        return None if singular else F

    def _made(self, M):
        self.analyses += 1
        if self.method == "cg":
            return Iteration(M, self.threads, self.pin)
        if self.method == "auto" and not self.pin:
            return factorized(M, device="cpu", threads=self.threads)
        if self.method == "ldl":
            return ildl(M, fill_level=None, pin=self.pin, device="cpu", threads=self.threads)
        make: Any = lu if self.method == "lu" else cholesky
        return make(M, pin=self.pin, device="cpu", threads=self.threads)


class Iteration:
    """Solves by conjugate gradients with an approximate factor (ParAC), with the methods of a factor that gradients use."""

    def __init__(self, M, threads, pin):
        self.shape, self.dtype, self._options = M.shape, M.dtype, {"threads": threads, "pin": pin}
        self._A, self._P = M, parac(M, **self._options)

    def refactor(self, M):
        """Return the same for another matrix."""
        return Iteration(M, **self._options)

    def solve(self, b: Array) -> Array:
        """Solve A x = b, or raise MeshsolveError if an iteration does not converge."""
        with without_warnings(ConvergenceWarning):
            x, info = cg(self._A, b, self._P, rtol=RTOL, **self._options)
        if not info.converged:
            raise MeshsolveError(f"cg: the relative residual is {np.max(info.relative_residual):.3g} after {np.max(info.iterations)} "
                                 f"iterations, above {RTOL:g}, and gradients would have this error. Use method=\"auto\", which factors")
        return x
