"""Multifrontal Cholesky factorization of a symmetric positive definite matrix.

    F = cholesky(A);  F.solve(b);  F.refactor(A2)        # L @ L.T == A[perm][:, perm]

The driver reads in this order: values into the analysed pattern, numeric phase on the assembly tree, solves.
Sources: Liu 1992, "The multifrontal method for sparse matrix solution"; the ordering and the symbolic phase have their own.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve import _core
from meshsolve.arrays import as_symmetric, one_of, thread_count
from meshsolve.errors import InvalidInputError, NotPositiveDefiniteError, PatternMismatchError
from meshsolve.factor.base import Factor
from meshsolve.factor.cholesky.refine import refine
from meshsolve.factor.fronts import assembly_tree
from meshsolve.report import Report, ensure_memory

PRECISIONS = ("double", "single", "mixed")
SYSTEMS = ("A", "L", "Lt")


class CholeskyFactor(Factor):
    """The factor L of a symmetric positive definite matrix: ``L @ L.T == A[perm][:, perm]``.

    Made by :func:`meshsolve.cholesky` or ``Symbolic.factor``. Several threads may solve at once; a refactorization must
    not run beside a solve of the same factor. Where rows are fixed or pinned, A stands for the block of
    the free rows, and ``perm`` still names rows in the caller's numbering.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the row of A that became row k.
    nnz : int
        Nonzeros of L, diagonal included, without the zeros that relaxed supernodes store.
    flops : float
        Sum of the squared column counts of L.
    symbolic : Symbolic
        The analysis, to be used again with ``symbolic.factor(A2)``.
    report : Report
        Seconds per phase (``order``, ``symbolic``, ``numeric``, ``solve``), sizes, bytes.
    """

    def __init__(self, symbolic, pattern, data, *, constraint=None, n=None, precision="double", threads=None):
        one_of(precision, "precision", PRECISIONS)
        super().__init__(pattern.n if n is None else n, np.float32 if precision == "single" else np.float64)
        self.symbolic, self.precision, self.threads = symbolic, precision, thread_count(threads)
        self._pattern, self._constraint = pattern, constraint
        self.report = Report(threads=self.threads, nnz_A=pattern.nnz, nnz_L=symbolic.nnz, flops=symbolic.flops)
        self.report.merge(symbolic.report)
        self._tree = assembly_tree(symbolic, self.threads)
        scalar = 8 if precision == "double" else 4
        needed = scalar * (self._tree.panel_scalars + self._tree.work_scalars(self.threads))
        ensure_memory(needed, f"the factor ({symbolic.nnz:,} nonzeros)")
        self._factor = (_core.CholeskyDouble if precision == "double" else _core.CholeskySingle)(self._tree)
        self._run(data)

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    def refactor(self, A):
        """Factor another matrix inside the analysed pattern; the numeric phase alone runs.

        Parameters
        ----------
        A : (n, n) symmetric matrix of any kind
            Entries that are missing from the analysed pattern's point of view are zeros.

        Returns
        -------
        CholeskyFactor
            This factor, so that ``F.refactor(A2).solve(b)`` reads well.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analysed pattern.
        NotPositiveDefiniteError
            A pivot is not positive. After any error the earlier factor is still there and gives the same bits.
        """
        M = as_symmetric(A)
        if M.n != self.shape[0]:
            raise InvalidInputError(f"A has {M.n} rows, the factor {self.shape[0]}")
        if self._constraint is None:
            self._run(values_in(self._pattern, M))
            return self
        coupling = self._constraint.coupling
        try:
            block = self._constraint.reduce(M)
            self._run(values_in(self._pattern, block, self._constraint.free))
        except BaseException:
            self._constraint.coupling = coupling
            raise
        return self

    def _run(self, data):
        with self.report.phase("numeric"):
            failed = self._factor.factor(data, self.threads)
        if failed >= 0:
            raise self._not_positive_definite(failed, data)
        self._data = data.copy() if self.precision == "mixed" else None      # refinement needs A itself
        self.report.facts["bytes"] = self._factor.nbytes + self.symbolic.nbytes

    def _not_positive_definite(self, failed, data):
        column = int(self.perm[failed])
        row = int(self.symbolic.perm[failed])
        span = slice(self._pattern.indptr[row], self._pattern.indptr[row + 1])
        diagonal = data[span][self._pattern.indices[span] == row].sum()
        if diagonal > 0:
            causes = ("A may be a Laplacian, singular by construction: use pin=True, fix some rows (fixed=), or add a mass "
                      "term; or A is indefinite, and a Cholesky factorization does not exist")
        elif diagonal == 0:
            causes = "its diagonal entry is zero or missing (an isolated or unreferenced vertex?)"
        else:
            causes = "its diagonal entry is negative; for a negative definite matrix factor -A"
        return NotPositiveDefiniteError(
            f"A is not positive definite: the pivot of column {column} is not positive (diagonal entry {diagonal:.3g}); {causes}",
            column)

    # ---- solves ---------------------------------------------------------------------------------------------------------

    def solve(self, b, system="A", out=None, fixed_values=None):
        """Solve A x = b, or one of the triangular systems.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
            For ``system="L"`` and ``"Lt"`` in the permuted numbering: ``b[F.perm]``.
        system : {"A", "L", "Lt"}
            A x = b, L x = b, or L^T x = b.
        out : array like the result, optional
            Receives the result and is returned.
        fixed_values : (len(fixed),) or (len(fixed), k), optional
            Values of the fixed rows in the order of ``fixed``; zeros by default.

        Returns
        -------
        x : array of b's shape; float32 where b is, else float64 (complex128 for complex b)

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text, unknown system.
        """
        one_of(system, "system", SYSTEMS)
        if fixed_values is not None and self._constraint is None:
            raise InvalidInputError("fixed_values given, but the factor was made without fixed=")
        if system != "A":
            return self._solve_like(b, out, lambda B: self._native_solve(B, system), self._pattern.n)
        with self.report.phase("solve"):
            return self._solve_like(b, out, lambda B: self._solve_constrained(B, fixed_values), self.shape[0],
                                    lambda B: self._solve_constrained(B, None))      # fixed values are real

    def _solve_constrained(self, columns, fixed_values):
        if self._constraint is None:
            return self._solve_free(columns)
        return self._constraint.solve(columns, fixed_values, self._solve_free)

    def _solve_free(self, columns):
        if self.precision != "mixed":
            return self._native_solve(columns, "A")
        matrix = sp.csr_array((self._data, self._pattern.indices, self._pattern.indptr), shape=(self._pattern.n,) * 2)
        x, steps = refine(matrix, columns, lambda B: self._native_solve(B, "A"))
        self.report.facts["refinement_steps"] = steps
        return x

    def _native_solve(self, columns, system):
        x = np.empty_like(columns)
        if columns.shape[1]:
            self._factor.solve(system, columns, x, self.threads)
        return x

    def _adjoint(self):
        return self

    _transpose = _adjoint

    # ---- what the factor knows ------------------------------------------------------------------------------------------

    @property
    def perm(self):
        free = None if self._constraint is None else self._constraint.free
        return self.symbolic.perm if free is None else free[self.symbolic.perm]

    @property
    def nnz(self):
        return self.symbolic.nnz

    @property
    def flops(self):
        return self.symbolic.flops

    @property
    def L(self):
        """L as a csc_array, rows ascending, diagonal first: ``L @ L.T == A[perm][:, perm]``. O(nnz(L)), made at each call."""
        indptr, indices = self.symbolic.pattern()
        return sp.csc_array((self._factor.values_on(indptr, indices), indices, indptr), shape=(self._pattern.n,) * 2)

    def logdet(self):
        """Natural logarithm of the determinant of A (of the free block where rows are fixed or pinned)."""
        return float(2 * np.log(self._factor.diagonal()).sum())

    def rcond(self):
        """Estimate of 1 / (||A||_1 ||A^-1||_1) by a few solves (Higham and Tisseur 2000), between 0 and 1."""
        n = self._pattern.n
        solve = lambda B: self._native_solve(np.ascontiguousarray(B.reshape(n, -1), np.float64), "A").reshape(B.shape)  # noqa: E731
        inverse = spla.LinearOperator((n, n), matvec=solve, rmatvec=solve, matmat=solve, rmatmat=solve, dtype=np.float64)
        estimate = spla.onenormest(inverse) if n > 4 else np.abs(inverse @ np.eye(n)).sum(0).max()
        return float(min(1.0, 1.0 / (self._factor.norm1() * estimate)))


def values_in(pattern, M, names=None):
    """The values of M in ``pattern`` as (nnz,) float64, zeros where M has none.

    Raises
    ------
    PatternMismatchError
        M has an entry outside; ``names`` translates its row and column to the caller's numbering.
    """
    if _core.same_pattern(pattern.indptr, pattern.indices, M.indptr, M.indices):
        return M.data
    missing, data = _core.embed(pattern.indptr, pattern.indices, M.indptr, M.indices, M.data)
    if missing < 0:
        return data
    row, column = int(np.searchsorted(M.indptr, missing, side="right")) - 1, int(M.indices[missing])
    if names is not None:
        row, column = int(names[row]), int(names[column])
    raise PatternMismatchError(
        f"A has an entry at row {row}, column {column} that is not in the analysed pattern; analyse A anew", row, column)
