"""Factors of a sequence of matrices, as the steps of an optimization solve them: one analysis, then refactorizations.

The backward pass of a step needs the factor of its matrix again, maybe after other matrices: it is kept, or made again. Entries come as
(rows, columns, values) with duplicates; the plan that sums them is kept while the indices stay. All arrays lie in one place, on the host
or on the GPU, and the factors lie there too.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Literal, TypeAlias

import numpy as np

from meshsolve.api import cholesky, factorized, ildl, lu, parac
from meshsolve.errors import ConvergenceWarning, InvalidInputError, MeshsolveError, SingularMatrixError
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.constrained import ConstrainedLU
from meshsolve.factor.lu import LUFactor
from meshsolve.gradients.patterns import pattern_of
from meshsolve.krylov import cg
from meshsolve.options import as_flag, one_of
from meshsolve.report import without_warnings
from meshsolve.sparse.places import where
from meshsolve.types import Array

Method: TypeAlias = Literal["auto", "cholesky", "ldl", "lu", "cg"]
METHODS = ("auto", "cholesky", "ldl", "lu", "cg")
RTOL = 1e-12                # relative residual of solutions by iteration: gradients inherit their error


class Entries:
    """The entries of a square matrix in the order of a :class:`~meshsolve.gradients.patterns.Pattern`, duplicates summed: values (k,), a
    copy."""

    def __init__(self, pattern, values):
        self.pattern, self.values = pattern, values

    def same_as(self, other):
        """True if all entries are equal."""
        return self is other or (self.pattern is other.pattern and self.pattern.same_values(self.values, other.values))


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
        self._pattern: Any = None                           # of the last matrix
        self._place: Any = None                             # of ``factor``

    def entries(self, rows, columns, values, n=None):
        """Return the :class:`Entries` of an (n, n) matrix, from arrays in one place that may change later.

        Without ``n`` it is one more than the largest index. Raises InvalidInputError for an index outside the matrix.
        """
        if self._pattern is None or not self._pattern.has(rows, columns, n):
            self._pattern = pattern_of(rows, columns, n, self.threads)
        return Entries(self._pattern, values.copy())

    def of(self, entries):
        """Return the factor of a matrix."""
        if self._held is None or not self._held.same_as(entries):
            self._held, M = None, entries.pattern.matrix(entries.values)
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
        return entries.pattern.taken_from(self.cholesky(entries).selected_inverse())

    def _refactored(self, M):
        """The factor with new values; None if it does not fit them or does not exist."""
        kind = M.shape, M.dtype.kind, where(M.data)
        if self.factor is None or (self.factor.shape, np.dtype(self.factor.dtype).kind, self._place) != kind:
            return None
        try:
            F = self.factor.refactor(M)
        except MeshsolveError:                              # another pattern, or no longer symmetric, definite, real
            return None
        unfit = self.method == "auto" and (getattr(F, "inertia", (0, 0, 0))[2] or getattr(F, "skew", 0.0))
        return None if unfit else F

    def _made(self, M):
        self.analyses += 1
        self._place = where(M.data)
        options = {"device": self._place.name, "threads": self.threads}
        if self.method == "cg":
            return Iteration(M, self.pin, options)
        if self.method == "auto" and not self.pin:
            return _regular(M, options)
        if self.method == "ldl":
            return ildl(M, fill_level=None, pin=self.pin, **options)
        make: Any = lu if self.method == "lu" else cholesky
        return make(M, pin=self.pin, **options)


class Iteration:
    """Solves by conjugate gradients with an approximate factor (ParAC), with the methods of a factor that gradients use."""

    def __init__(self, M, pin, options):
        self.shape, self.dtype, self._options = M.shape, M.dtype, (pin, options)
        self._A, self._P = M, parac(M, pin=pin, **options)

    def refactor(self, M):
        """Return the same for another matrix."""
        return Iteration(M, *self._options)

    def solve(self, b: Array) -> Array:
        """Solve A x = b, or raise MeshsolveError if an iteration does not converge."""
        pin, options = self._options
        with without_warnings(ConvergenceWarning):
            x, info = cg(self._A, b, self._P, rtol=RTOL, pin=pin, threads=options["threads"])
        if not info.converged:
            raise MeshsolveError(f"cg: the relative residual is {np.max(info.relative_residual):.3g} after {np.max(info.iterations)} "
                                 f"iterations, above {RTOL:g}, and gradients would have this error. Use method=\"auto\", which factors")
        return x


# ---- factors that functions of a compiled program share ---------------------------------------------------------------------


_lock = threading.Lock()                                    # such functions may run in several threads


@contextlib.contextmanager
def shared(method, threads, pin):
    """Return a context with the :class:`Factors` of all calls with these options, for one thread at a time."""
    with _lock:
        yield _factors(method, threads, pin)


@functools.cache
def _factors(method, threads, pin):
    """One analysis serves all later matrices of its pattern."""
    return Factors(method, threads, pin=pin)


def _regular(M, options):
    """The factor that :func:`meshsolve.factorized` chooses; its advice for a singular matrix becomes that for these calls."""
    try:
        return factorized(M, **options)
    except SingularMatrixError as e:
        fault = str(e).partition(". For a Laplacian")[0].partition(";")[0]
        raise SingularMatrixError(f"{fault}. Pass pin=True if A is a Laplacian, fixed= for rows with prescribed values, or method=\"ldl\" "
                                  "for another symmetric A with b in its range", e.index) from e
