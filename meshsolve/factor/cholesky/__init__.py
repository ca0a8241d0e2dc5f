"""Multifrontal Cholesky factorization of a symmetric positive definite matrix.

    F = cholesky(A);  F.solve(b);  F.refactor(A2)        # L @ L.T == A[perm][:, perm]

Steps: values in the analyzed pattern (values.py), numeric phase on the assembly tree (numeric.py, host.py, cuda.py), solves.
Source: Liu 1992, "The multifrontal method for sparse matrix solution".
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.errors import InvalidInputError, NotPositiveDefiniteError, PatternMismatchError
from meshsolve.factor.base import Factor, reciprocal_condition, solve_near_one
from meshsolve.factor.cholesky.capture import Capturing
from meshsolve.factor.cholesky.host import HostFactor
from meshsolve.factor.cholesky.refine import refine, uneven_scale
from meshsolve.factor.cholesky.update import as_columns, coupled, free_part, require_sums
from meshsolve.factor.cholesky.values import Values
from meshsolve.factor.sharing import changes, reads, reads_in_turn
from meshsolve.foreign import is_sparse
from meshsolve.options import one_of, thread_count
from meshsolve.report import Report
from meshsolve.sparse.columns import as_indices, read_only
from meshsolve.sparse.constraints import parts_of_values
from meshsolve.sparse.matrix import narrow_ptr
from meshsolve.sparse.places import where
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike, Matrix, Sparse, System

__all__ = ["CholeskyFactor", "HostFactor", "Values"]

PRECISIONS = ("double", "single", "mixed")
SYSTEMS = ("A", "L", "Lt")


class CholeskyFactor(Capturing, Factor):
    """The factor L of a symmetric positive definite matrix: ``L @ L.T == A[perm][:, perm]``.

    Made by :func:`meshsolve.cholesky` or ``Symbolic.factor``. With ``device="cuda"`` it lies on the GPU: arrays of CuPy or DLPack are
    accepted, and CuPy arrays are returned, on the current stream. A solve waits for b, not for x. Several threads may solve at once.
    A refactorization during a solve of the same factor raises ``FactorInUseError``. The factor can be pickled and copied; the copy
    runs a numeric phase. With ``memory="disk"`` the panels of L lie in a temporary file, which is removed with the factor. If rows are
    fixed or pinned, A is the block of the free rows, and ``perm`` has rows in the caller's numbering.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the row of A that became row k.
    nnz : int
        Nonzeros of L, diagonal included, without the zeros that relaxed supernodes store.
    flops : float
        Sum of the squared column counts of L.
    symbolic : Symbolic
        The analysis, for other factors ``symbolic.factor(A2)``. If rows are fixed or pinned, it is the analysis of the free rows:
        A2 is then the block of the free rows alone, and its factor has no constraint.
    trial : float
        Error of the solutions of known systems with the first matrix, relative to their entries (rows scaled by the diagonal). It is
        0.0 if the pivots leave no doubt and nothing was solved, about 1 if the matrix is singular to working precision.
    report : Report
        Seconds per phase (``order``, ``symbolic``, ``numeric``, ``solve``), sizes, bytes. On disk also ``file_bytes``,
        ``written_bytes``, ``read_bytes``, and ``peak_bytes``: the memory of the numeric phase without the analysis, from above.
    """

    _checks_late = True
    _scale, _scale_is_known = None, False

    def __init__(self, symbolic, values, data, *, precision="double", threads=None, engine=HostFactor):
        """Factor ``data``, the values in the analyzed pattern, with the class ``engine``. ``values`` are the :class:`Values` of later
        matrices."""
        one_of(precision, "precision", PRECISIONS)
        super().__init__(values.n, np.float32 if precision == "single" else np.float64)
        self.symbolic, self.precision, self.threads = symbolic, precision, thread_count(threads)
        self._values, self._constraint, self._place = values, values.constraint, values.place.name
        self.report = Report(threads=self.threads, nnz_A=values.nnz, nnz_L=symbolic.nnz, flops=symbolic.flops)
        self.report.merge(symbolic.report)
        self.report.facts.update(threads=self.threads, device=self._place)           # those of the analysis may differ
        with self._errors("the Cholesky factorization"):
            self._begin(engine)
            self.report.facts.update(getattr(self._factor, "facts", {}))
            self._run(data)
            doubtful = precision != "mixed" and self._factor.may_be_singular()          # refinement warns by itself
            self.trial = self._try(data) if doubtful else 0.0

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    @changes
    def refactor(self, A: Matrix) -> CholeskyFactor:
        """Factor another matrix whose pattern is inside the analyzed one. Only the numeric phase runs.

        Parameters
        ----------
        A : (n, n) symmetric matrix of any kind
            Entries of the analyzed pattern that A lacks are zeros. Only its lower triangle is read if the factor was made with
            ``lower=True``.

        Returns
        -------
        CholeskyFactor
            This factor, so that ``F.refactor(A2).solve(b)`` reads well.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analyzed pattern.
        NotPositiveDefiniteError
            A pivot is not positive. After any error the earlier factor is restored with the same bits; after updates, up to rounding.
        FactorInUseError
            Another call uses this factor at this time.
        OutOfMemoryError
            If there is not enough memory to restore the earlier factor, it is lost. Solves raise an error until the next
            refactorization.
        """
        before, coupling = getattr(self._factor, "changes", 0), getattr(self._constraint, "coupling", None)      # the first checks a step
        try:
            with self._errors("the Cholesky factorization"):
                self._scale_is_known = False
                if not self._run_again(A):
                    self._run(self._values.of(A))
        except BaseException:                                   # Ctrl-C may come after the factorization
            if self._constraint is not None and getattr(self._factor, "changes", 0) == before:
                self._constraint.coupling = coupling
            raise
        if self._recorder is not None:
            self._recorder.note_refactor(A)
        return self

    @changes
    def update(self, C: ArrayLike | Sparse) -> CholeskyFactor:
        """Make this the factor of A + C C^T, for a C of few columns with few entries: weights on free vertices, stiffer edges, equations.

        Parameters
        ----------
        C : (n,) or (n, k), dense or sparse, real, on the host or on the GPU
            Rows in the caller's numbering. Any two rows with entries in one column must have an entry in the analyzed pattern.

        Returns
        -------
        CholeskyFactor
            This factor.

        Raises
        ------
        PatternMismatchError
            C C^T has an entry outside the analyzed pattern. The factor is unchanged, as after all errors of C.
        NotLaplacianError
            With ``pin=True``: a column of C does not sum to 0 on each component.
        InvalidInputError
            Wrong shape, NaN, infinity, complex; the factor lies on disk, ``backend="cudss"`` has it, or a capture is being recorded.
        FactorInUseError
            Another call uses this factor at this time.

        Notes
        -----
        For each column of C, O(entries of L in the columns on the paths from its rows to the roots of the elimination tree). One thread
        computes them, or one thread block of a GPU. For a mesh of n vertices these are about n entries, on the host a hundredth of the
        time of a ``refactor``. Rounding errors of many updates accumulate until the next ``refactor``. A weight may be arbitrarily large:
        the small entries of A are not lost, as they are in the sum A + C C^T. Copies, and a factor that is restored after an error, are
        computed from that sum and differ in rounding. Source: Gill, Golub, Murray, Saunders 1974, method C1; Davis and Hager 1999.
        """
        return self._rotate(C, down=False)

    @changes
    def downdate(self, C: ArrayLike | Sparse) -> CholeskyFactor:
        """Make this the factor of A - C C^T; see :meth:`update`.

        Raises
        ------
        NotPositiveDefiniteError
            A - C C^T is not positive definite to working precision. The factor of A is restored by a numeric phase. That fails if
            earlier updates had such large weights that A itself is not definite in rounding. Then the factor is lost, and solves
            raise an error until the next refactorization.
        """
        return self._rotate(C, down=True)

    def __getstate__(self):
        return super().__getstate__() | {"_scale": None, "_scale_is_known": False, "_recorder": None}

    # ---- solves ---------------------------------------------------------------------------------------------------------

    @reads
    def solve(self, b: ArrayLike, system: System = "A", out: Array | None = None, fixed_values: ArrayLike | None = None,
              wanted: ArrayLike | None = None) -> Array:
        """Solve A x = b, or one of the triangular systems.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
            For ``system="L"`` and ``"Lt"`` in the permuted numbering: ``b[F.perm]``.
        system : {"A", "L", "Lt"}
            A x = b, L x = b, or L^T x = b.
        out : array like the result, optional
            Receives the result and is returned.
        fixed_values : number, (len(fixed),) or (len(fixed), k), optional
            Values of the fixed rows in the order of ``fixed``, real or complex; zeros by default. Of (n,) or (n, k) values only the
            fixed rows are read.
        wanted : (w,) integers, one integer, or (n,) bool, optional
            Rows of x to compute, for ``system="A"`` of a factor on the host in double precision without ``pin=True``. The backward
            substitution visits only their ancestors in the elimination tree; the forward one of a b with few nonzeros, sparse or not,
            only those of its nonzeros. A few rows of a large mesh take a tenth of the time or less.

        Returns
        -------
        x : array of b's shape, with ``wanted`` its rows in that order
            float32 or complex64 where b is, else float64 (complex128 for complex b, or complex values of a real one)

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text, unknown system; rows in ``wanted`` out of range or repeated, or a factor for which
            it is not supported.
        FactorInUseError
            Another call is refactoring this factor.
        """
        rows = None if wanted is None else self._checked_rows(wanted, system)
        if type(system) is str and system == "A" and out is None and fixed_values is None and rows is None and self._settled():
            x = self._solve_vector(self._factor.solve_vector, b)
            if x is not None:
                return x
        one_of(system, "system", SYSTEMS)
        if fixed_values is not None and self._constraint is None:
            raise InvalidInputError("fixed_values given, but the factor was made without fixed=")
        if fixed_values is not None and system != "A":
            raise InvalidInputError(f'fixed_values goes with system="A": system={system!r} has the free rows only')
        with self._errors("the solve"):
            x = self._solve_any(b, system, out, fixed_values, rows)
        if self._recorder is not None:
            self._recorder.note_solve(b, out, fixed_values, system == "A" and rows is None)
        return x

    def in_range(self, b: Array) -> Array:
        """Return the part of a real (n,) or (n, k) array b that is solved for, in the place of b.

        With ``pin=True`` that is b without its means on the components, otherwise b.
        """
        if not getattr(self._constraint, "centers", False):
            return b
        home = where(b)
        columns = self._bring(home.array(b, "b").reshape(len(b), -1).astype(np.float64, copy=False))
        return home.bring(self._constraint.center(columns)[0]).reshape(b.shape)

    # ---- properties of the factor ---------------------------------------------------------------------------------------

    @property
    def perm(self) -> np.ndarray:
        free = None if self._constraint is None else self._constraint.free
        return self.symbolic.perm if free is None else read_only(free[self.symbolic.perm])

    @property
    def nnz(self) -> int:
        return self.symbolic.nnz

    @property
    def flops(self) -> float:
        return self.symbolic.flops

    @property
    @reads
    def L(self) -> Sparse:
        """L as a csc_array, rows ascending, diagonal first: ``L @ L.T == A[perm][:, perm]``. O(nnz(L)), a new array at each call."""
        indptr, indices = self.symbolic.pattern()
        return sp.csc_array((self._factor.values_on(indptr, indices), indices, narrow_ptr(indptr)), shape=(self.symbolic.n,) * 2)

    @reads
    def logdet(self) -> float:
        """Return the natural logarithm of the determinant of A, or of the free block if rows are fixed or pinned.

        With ``"single"`` and ``"mixed"`` precision it has the accuracy of float32.
        """
        return float(2 * self._factor.place.xp.log(self._factor.diagonal()).sum())

    def slogdet(self) -> tuple[float, float]:
        """Return (1.0, :meth:`logdet`), as the other factors and :func:`numpy.linalg.slogdet`."""
        return 1.0, self.logdet()

    def inverse_diagonal(self) -> Array:
        """Return the diagonal of A^-1 without its other entries.

        It has the variances of a Gaussian field with precision matrix A, leverages, and the trace of A^-1.

        Returns
        -------
        (n,) float64, on the GPU if the factor lies on it
            The diagonal of the operator that :meth:`solve` applies: 0 in rows of ``fixed=``; with ``pin=True`` the diagonal of the
            pseudoinverse. It has the accuracy of float32 if the factor is stored in float32.

        Raises
        ------
        InvalidInputError
            The factor lies on disk, or ``backend="cudss"`` has it.
        OutOfMemoryError

        Notes
        -----
        Two to four times the time of a ``refactor``, on all threads, and twice the memory of the factor in addition.
        Source: Takahashi, Fagan, Chin 1973; Erisman and Tinney 1975; on fronts: Campbell and Davis 1995.
        """
        return self._selected("inverse_diagonal")

    def selected_inverse(self) -> Sparse:
        """Return the entries of A^-1 where A has entries.

        They are the covariances of neighbors, and give the effective resistance ``Z[i, i] + Z[j, j] - 2 * Z[i, j]`` of every edge of a
        graph.

        Returns
        -------
        (n, n) csr_array, symmetric; of a factor on the GPU a csr_matrix of CuPy
            On the analyzed pattern, which may be larger than that of A. It has entries of the operator that :meth:`solve` applies, as
            :meth:`inverse_diagonal`: none in rows and columns of ``fixed=``; with ``pin=True`` those of the pseudoinverse.

        Raises
        ------
        InvalidInputError
            The factor lies on disk, or ``backend="cudss"`` has it.
        OutOfMemoryError

        Notes
        -----
        Cost and sources as :meth:`inverse_diagonal`.
        """
        return self._selected("selected_inverse")

    @reads_in_turn
    def rcond(self) -> float:
        """Return an estimate of 1 / (||A||_1 ||A^-1||_1), between 0 and 1, by a few solves (Higham and Tisseur 2000).

        With ``"single"`` and ``"mixed"`` precision the solves are those of the float32 factor, which resolves about 1e-8.
        """
        def solve(B):
            return device.to_host(self._factor.solve("A", self._bring(B)))

        return reciprocal_condition(self._factor.norm1(), solve, solve, self.symbolic.n)

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _rotate(self, C, down):
        if not hasattr(self._factor, "update"):
            raise InvalidInputError('a factor of backend="cudss" cannot be updated: refactor, or factor with backend="native"')
        if self._recorder is not None:
            raise InvalidInputError("capture() takes refactor(A) and solve(b, out=x): update the factor outside of its with block")
        columns = as_columns(C, self.shape[0])
        constraint, coupling = self._constraint, None
        if constraint is not None and constraint.alone:
            require_sums(columns, constraint)
        elif constraint is not None:
            columns, fixed = free_part(columns, constraint)
            if fixed.nnz:
                coupling = coupled(constraint, columns, fixed, down)
        before = self._factor.changes
        try:
            with self._errors("the update"), self.report.phase("update"):
                self._rotate_free(columns, down)
        finally:                                                # Ctrl-C may come after the update
            if coupling is not None and self._factor.changes > before:
                constraint.coupling = coupling
        return self

    def _rotate_free(self, columns, down):
        free = None if self._constraint is None else self._constraint.free
        if self._constraint is not None and self._constraint.alone:         # C is zero
            return
        self._scale_is_known = False
        try:
            definite = self._factor.update(columns, down)
        except PatternMismatchError as e:
            row, column = (e.row, e.column) if free is None else (int(free[e.row]), int(free[e.column]))
            raise PatternMismatchError.at(row, column, "C C^T") from None
        if not definite and down:
            raise NotPositiveDefiniteError("A - C C^T is not positive definite to working precision: this is still the factor of A")
        if not definite:
            raise InvalidInputError("A + C C^T is beyond the largest number: this is still the factor of A")

    @changes
    def _refactor_values(self, data):
        """:meth:`refactor` for finite values (nnz,) float64 on the host of a symmetric matrix in the analyzed pattern, without checks.

        For a factor without constraint.
        """
        with self._errors("the Cholesky factorization"):
            self._run(self._bring(data))
        return self

    @reads
    def _solve_entries(self, rows, columns, values, count):
        """Return A^-1 B, (n, count) in the place of the factor, for the sum B of ``values`` at (rows, columns), int32 on the host.

        For a factor in double precision without constraint, of the native backend. Columns of few entries take half of the time.
        """
        with self._turn(), self._errors("the solve"), self.report.phase("solve"):
            return self._factor.solve_entries(rows, columns, values, count)

    @reads
    def _solve_columns(self, columns, out):
        """Write A^-1 B for ``columns`` B to ``out``, both (n, k) in C order, unchecked; for a factor as in :meth:`_solve_entries`."""
        return self._counted(self._factor.solve("A", columns, out))

    def _solver(self, x, position):
        """Return a function ``solve(b)`` for many b (n, k) with the values of x (n, k) in the fixed rows, both float64 on the host.

        Row i of the matrix is row ``position[i]`` of b and x, (n,) int32. The function overwrites b, writes the other rows of x, and
        returns x. It does not check that b is finite. For a factor with ``fixed=``. Time: on the host in double precision that of the
        solve of the free rows alone.
        """
        if self.precision != "double" or not hasattr(self._factor, "solve_at"):
            def solve(b):
                x[position] = self.solve(b[position], fixed_values=x[position])
                return x
            return solve
        near, part = self._constraint.pulled(x[position])
        near, rows = position[near], position[self._constraint.free[self.symbolic.perm]]

        def solve_at(b):
            b[near] -= part
            self._solve_at(rows, b, x)
            return x

        return solve_at

    @reads
    def _solve_at(self, rows, b, x):
        self._factor.solve_at(rows, b, x)

    def _run(self, data):
        self._scale_is_known = False
        super()._run(data)

    def _row_scale(self):
        """Return the scale of the rows for refinement, computed at the first use after a change of the factor."""
        if not self._scale_is_known:
            self._scale, self._scale_is_known = uneven_scale(self._factor), True
        return self._scale

    def _solve_any(self, b, system, out, fixed_values, rows):
        if system != "A":
            return self._solve_like(b, out, lambda B: self._counted(self._factor.solve(system, B)), self.symbolic.n)
        if fixed_values is not None and is_sparse(b):       # one call: the values may have a column for each column of b
            return solve_sparse(b, self.shape[0], lambda B: self.solve(B, fixed_values=fixed_values, wanted=rows), out, at_once=True,
                                rows_of_result=None if rows is None else len(rows))
        b, values, imaginary = (b, None, None) if fixed_values is None else parts_of_values(b, fixed_values)
        with self.report.phase("solve"):
            return self._solve_like(b, out, lambda B: self._solve_constrained(B, values, rows), self.shape[0],
                                    lambda B: self._solve_constrained(B, imaginary, rows), None if rows is None else len(rows))

    def _checked_rows(self, wanted, system):
        """Return the rows to solve for, (w,) int32."""
        centers = getattr(self._constraint, "centers", False)           # means need all rows
        if system != "A" or self.precision != "double" or centers or not hasattr(self._factor, "solve_rows"):
            raise InvalidInputError('wanted= is for A x = b with a factor on the host in double precision, without pin=: pass '
                                    "F.solve(b, ...)[rows]")
        return as_indices(wanted, self.shape[0], "wanted")

    def _settled(self):
        """Return True if solutions of the core need no further step."""
        return self.precision == "double" and self._engine.takes_vectors and self._constraint is None

    def _counted(self, x):
        """Return x, after the report has the bytes that were read from the file of a factor on disk."""
        self.report.facts.update(getattr(self._factor, "traffic", {}))
        return x

    def _solve_constrained(self, columns, fixed_values, rows=None):
        """Return the solution, or its ``rows``."""
        if self._constraint is None:
            return self._counted(self._solve_free(columns) if rows is None else self._factor.solve_rows(columns, rows))
        self.check()                                            # a captured step may have another coupling
        if rows is None:
            return self._counted(self._constraint.solve(columns, fixed_values, self._solve_free))
        at = self._constraint.position[rows]
        free = np.ascontiguousarray(at[at >= 0], np.int32)

        def solve_some(B):
            x = np.zeros_like(B)
            x[free] = self._factor.solve_rows(B, free)
            return x

        return self._counted(self._constraint.solve(columns, fixed_values, solve_some)[rows])

    def _solve_free(self, columns):
        if self.precision == "double" or columns.shape[1] == 0:
            return self._factor.solve("A", columns)
        if self.precision == "single":
            return solve_near_one(lambda near: self._factor.solve("A", near), columns)
        x, steps = refine(self._factor, columns, self._row_scale())
        self.report.facts["refinement_steps"] = steps
        return x

    def _adjoint(self):
        return self

    _transpose = _adjoint

    @reads
    def _selected(self, entries):
        if not hasattr(self._factor, "inversion"):
            raise InvalidInputError('backend="cudss" does not compute entries of the inverse: factor with backend="native"')
        with self._errors("the selected inversion"), self.report.phase("inverse"):
            return getattr(self._factor.inversion, entries)(self._factor, self._constraint)
