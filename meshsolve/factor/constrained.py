"""Factors of matrices with fixed or pinned rows: a factor of the free rows with the interface of a factor of the whole matrix.

The solution x has ``x[fixed] = values``, and (A x - b) is zero in the free rows. Rows and columns of the fixed unknowns are left out, and
their coupling to the free ones moves to the right-hand side. With ``pin=True`` one row of each component is left out, and x has mean 0 on
each component.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.factor.base import Factor, as_narrow, deliver
from meshsolve.factor.sharing import changes, reads
from meshsolve.foreign import is_sparse
from meshsolve.options import counted, one_of
from meshsolve.report import without_warnings
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.constraints import in_callers_numbers, solve_whole
from meshsolve.sparse.matrix import as_csr, as_symmetric, is_complex
from meshsolve.sparse.places import where
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike, Matrix, Trans

PERMUTATIONS = ("perm", "row_perm", "col_perm")


class Constrained(Factor):
    """A factor of the free rows with the interface of a factor of the whole matrix.

    ``solve`` takes and returns all n rows, and ``F @ b`` solves with the value 0 in the fixed rows. Other attributes, such as ``L``,
    ``nnz``, ``rcond()`` and ``report``, belong to the block of the free rows. ``perm``, ``row_perm`` and ``col_perm`` have rows and
    columns of A. It can be pickled and copied.

    Attributes
    ----------
    free_factor : LUFactor, IluFactor, IldlFactor or ParacFactor
        The factor of the block, in the numbering of its rows.
    free : (m,) int32
        The rows of A in the block, ascending.
    """

    forwarded: tuple[str, ...] = ()

    def __init__(self, factor, constraint):
        super().__init__(constraint.n, factor.dtype)
        self.free_factor, self._constraint = factor, constraint

    def __getattr__(self, name: str) -> Any:
        if name not in self.forwarded:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        value = getattr(self.free_factor, name)
        return read_only(self.free[value]) if name in PERMUTATIONS else value

    def __dir__(self):
        return [*super().__dir__(), *self.forwarded]

    @property
    def free(self) -> np.ndarray:
        return read_only(self._constraint.free)

    def _solve(self, b, out, fixed_values, solve_free, solve=None):
        if is_sparse(b):
            return solve_sparse(b, self.shape[0], lambda B: self._solve(B, None, fixed_values, solve_free, solve), out,
                                at_once=fixed_values is not None)
        home = where(b)
        dtype = home.array(b, "b").dtype
        x = solve_whole(solve or self._constraint.solve, self.shape[0], b, fixed_values, solve_free, self.dtype.kind == "c")
        narrow = x if x.dtype.kind == "c" and dtype.kind != "c" else as_narrow(x, dtype, out, home)
        return deliver(narrow, x.shape, out, home)


class Refactored(Constrained):
    """A :class:`Constrained` factor with ``refactor``. A subclass has ``_checked(A)``, which returns the whole matrix as a Csr."""

    def factor_batch(self, values: ArrayLike, threads: int | None = None, keep: bool = True) -> Any:
        """Raise InvalidInputError: batches are of whole matrices."""
        raise InvalidInputError("factor_batch is of factors without fixed= and pin=: factor the free rows, A[free][:, free], or call "
                                "refactor for each matrix")

    @changes
    def refactor(self, A: Matrix) -> Any:
        """Factor another matrix whose pattern is inside that of A. The fixed rows, or the components with ``pin=True``, stay.

        Parameters
        ----------
        A : (n, n) matrix of any kind
            With all its rows; otherwise as for the ``refactor`` of :attr:`free_factor`.

        Returns
        -------
        This factor

        Raises
        ------
        PatternMismatchError, SingularMatrixError, InvalidInputError, OutOfMemoryError, FactorInUseError
            As for the ``refactor`` of :attr:`free_factor`, in the numbering of A. After any error the earlier factor is restored.
        NotLaplacianError
            With ``pin=True``: a row does not sum to 0.
        """
        M, constraint = self._checked(A), self._constraint
        if M.n != constraint.n:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {constraint.n}")
        before = constraint.couplings
        try:
            block = constraint.reduce(M)
            with in_callers_numbers(constraint.free):
                self.free_factor.refactor(block.stored.to_scipy())
        except BaseException:
            constraint.couplings = before
            raise
        return self


class ConstrainedGeneral(Constrained):
    """The factors of the free rows of a general matrix, whose solves take ``trans``."""

    @reads
    def solve(self, b: ArrayLike, trans: Trans = "N", out: Array | None = None, fixed_values: ArrayLike | None = None) -> Array:
        """Solve A x = b, A^T x = b or A^H x = b in the free rows.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
        trans, out
            As for ``free_factor.solve``.
        fixed_values : number, (len(fixed),) or (len(fixed), k), optional
            Values of the fixed rows in the order of ``fixed``, real or complex; zeros by default. Of (n,) or (n, k) values only the
            fixed rows are read.

        Returns
        -------
        x : array of b's shape
            As from ``free_factor.solve``; complex for complex values.

        Raises
        ------
        InvalidInputError, SingularMatrixError, FactorInUseError
            As ``free_factor.solve``; values of another shape, or ``fixed_values`` with ``pin=True``.

        Warns
        -----
        MeshsolveWarning
            With ``pin=True``: b is not in the range of A, and its means were removed.
        ConvergenceWarning
            As ``free_factor.solve``.
        """
        transposed = one_of(trans, "trans", ("N", "T", "H")) != "N"
        flip = np.conj if trans == "H" and self.dtype.kind == "c" else lambda v: v      # A^H x = b is the conjugate of A^T x = b

        def solve_all(columns, values, solve_free):
            values = None if values is None else flip(values)
            return flip(self._constraint.solve(flip(columns), values, solve_free, transposed))

        def solve_free(B):
            with in_callers_numbers(self.free):
                return self.free_factor.solve(B, trans="T" if transposed else "N")

        return self._solve(b, out, fixed_values, solve_free, solve_all)

    def _rmatvec(self, x):
        return self.solve(np.asarray(x).reshape(-1), trans="H")

    def _rmatmat(self, X):
        return self.solve(X, trans="H")


class ConstrainedLU(ConstrainedGeneral, Refactored):
    """The LU factors of the free rows of a matrix; made by :func:`meshsolve.lu` with ``fixed=`` or ``pin=True``."""

    forwarded = ("L", "U", "row_perm", "col_perm", "row_scale", "col_scale", "nnz", "levels", "engine", "precision", "threads", "report",
                 "slogdet", "rcond", "trial")

    def _checked(self, A):
        if is_complex(A) and self.dtype.kind != "c":
            raise InvalidInputError("A is complex, the factor of a real matrix: lu(A) makes one that takes both")
        return as_csr(A, dtype=np.complex128 if self.dtype.kind == "c" else np.float64)


class ConstrainedIlu(ConstrainedGeneral):
    """The incomplete LU factor of the free rows of a matrix; made by :func:`meshsolve.ilu` with ``fixed=`` or ``pin=True``."""

    forwarded = ("row_perm", "col_perm", "row_scale", "col_scale", "nnz", "report")

    @reads
    def _operate(self, b):
        with without_warnings(MeshsolveWarning):            # the residuals of an iteration may have means
            return self._solve(b, None, None, lambda B: self.free_factor @ B)


class ConstrainedPreconditioner(Constrained):
    """A symmetric factor of the free rows, exact or not; made by :func:`meshsolve.parac` with ``fixed=`` or ``pin=True``."""

    forwarded: tuple[str, ...] = ("G", "D", "perm", "nnz", "storage", "report")

    @reads
    def solve(self, b: ArrayLike, out: Array | None = None, fixed_values: ArrayLike | None = None) -> Array:
        """Solve A x = b in the free rows, approximately if the factor is incomplete.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
        out : array like the result, optional
        fixed_values : number, (len(fixed),) or (len(fixed), k), optional
            As for :meth:`ConstrainedLU.solve`.

        Returns
        -------
        x : array of b's shape, in the place of b

        Raises
        ------
        InvalidInputError, FactorInUseError
            As ``free_factor.solve``; values of another shape, or ``fixed_values`` with ``pin=True``.

        Warns
        -----
        MeshsolveWarning
            As ``free_factor.solve``; with ``pin=True`` also if b is not in the range of A.
        """
        return self._solve(b, out, fixed_values, self.free_factor.solve)

    @reads
    def _operate(self, b):
        with without_warnings(MeshsolveWarning):            # the residuals of an iteration may have means
            return self._solve(b, None, None, lambda B: self.free_factor @ B)

    def _adjoint(self):
        return self

    _transpose = _adjoint


class ConstrainedIldl(ConstrainedPreconditioner, Refactored):
    """The L D L^T factor of the free rows of a symmetric matrix; made by :func:`meshsolve.ildl` with ``fixed=`` or ``pin=True``."""

    forwarded = ("L", "D", "perm", "scale", "nnz", "inertia", "structural_rank", "is_complete", "storage", "report", "slogdet", "rcond",
                 "warn_if_undecided")

    def __init__(self, factor, constraint, lower):
        super().__init__(factor, constraint)
        self._lower = lower

    def _checked(self, A):
        return as_symmetric(A, lower=self._lower, threads=self.report.facts["threads"])
