"""Sparse LU factorization with static pivots, made for refactorization: circuits and unsymmetric meshes.

    F = lu(A);  F.solve(b);  F.refactor(A2);  F.solve(b, trans="T")

``F.L @ F.U == (diag(F.row_scale) @ A @ diag(F.col_scale))[F.row_perm][:, F.col_perm]``. Two engines do the numeric work:
dense fronts on the symmetrized pattern, and columns on the exact one. The driver reads in this order: choice of the pivots
(:mod:`meshsolve.factor.lu.analysis`), numeric phase, solves with refinement (:mod:`meshsolve.factor.lu.solves`).

Sources: Duff and Koster 2001; Duff and Reid 1984; Davis and Natarajan 2010, "KLU"; He et al. 2015, "GLU"; Li and Demmel 1998,
"Making sparse Gaussian elimination scalable by static pivoting".
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from meshsolve import _core, device
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import reciprocal_condition
from meshsolve.factor.lu import analysis as front_end
from meshsolve.factor.lu.backend_cuda import CudaBackend
from meshsolve.factor.lu.batch import LUBatch
from meshsolve.factor.lu.determinant import slogdet
from meshsolve.factor.lu.host import HostBackend
from meshsolve.factor.lu.solves import GROWTH, MeasuredSolves, Numeric, Observed
from meshsolve.factor.lu.triangles import Triangles, core_arrays
from meshsolve.factor.sharing import Sharing, changes, reads, reads_in_turn
from meshsolve.factor.trial import try_known_solutions
from meshsolve.options import as_flag, is_auto, one_of, thread_count
from meshsolve.report import Report, progress_to
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import PLACES
from meshsolve.types import ArrayLike, Matrix, Sparse

__all__ = ["LUFactor", "levels_by"]

PRECISIONS, ENGINES = ("double", "single", "mixed"), ("auto", "columns", "fronts")
BACKENDS = {"cpu": HostBackend, "cuda": CudaBackend}
THRESHOLD = 0.1                # smallest diagonal pivot inside a front, relative to the largest entry of its column
TINY, PERTURBED_SIZE = 1e-13, 1e-8      # smallest static pivot of the scaled matrix, and the value that replaces a smaller one
TINY_SINGLE, PERTURBED_SIZE_SINGLE = 1e-6, 1e-4      # the same for factors in float32


class LUFactor(MeasuredSolves):
    """The factors of a square matrix, made by :func:`meshsolve.lu`.

    With ``device="cuda"`` the factors lie on the GPU. Matrices and right-hand sides may then be CuPy or numpy arrays; solutions are of the
    same kind as b. Several threads may solve at once, on a GPU if they share a stream. The first solve after a factorization measures it,
    and other solves wait for it. A refactorization during a solve of the same factor raises ``FactorInUseError``. A factor can be pickled
    and copied; the copy repeats the numeric phase.

    Attributes
    ----------
    row_perm, col_perm : (n,) int32
        ``row_perm[k]`` is the row of A that became row k of L, ``col_perm[k]`` the column that became column k of U.
    row_scale, col_scale : (n,) float64
        Scalings, in the numbering of A.
    nnz : int
        Nonzeros of L and U with one diagonal, without zeros that relaxed fronts store, and the entries above diagonal blocks.
    engine : str
        ``"fronts"`` or ``"columns"``.
    report : Report
        Phases ``order``, ``symbolic``, ``numeric``, ``solve``. Facts ``engine``, ``blocks``, ``pivot_growth`` (max |B| / max |U| of the
        scaled matrix B; 1 is best), ``perturbed_pivots``, ``repivoted`` (how often), ``backward_error`` of the first solve after each
        factorization, ``refinement_steps``.
    """

    def __init__(self, M, *, ordering="auto", engine="auto", repivot="auto", precision="double", place="cpu", threads=None):
        """``M`` is a :class:`Csr` of the host; ``place`` is the device of the factor."""
        one_of(precision, "precision", PRECISIONS)
        if repivot is not False and not is_auto(repivot):
            raise InvalidInputError(f'repivot must be "auto" or False, got {repivot!r}')
        if precision != "double" and M.data.dtype.kind == "c":
            raise InvalidInputError(f'complex matrices need precision="double", got {precision!r}')
        super().__init__(M.n, np.float32 if precision == "single" else M.data.dtype)
        self.threads, self.precision, self._repivot_allowed = thread_count(threads), precision, is_auto(repivot)
        self._place = place
        self.report = Report(threads=self.threads, nnz_A=M.nnz, repivoted=0, device=place)
        self._singular = min(4 * np.finfo(float).eps * M.n, TINY)       # smallest pivot of partial pivoting in the scaled matrix
        with self._errors("the analysis"):
            pivots = front_end.matched_pivots(M, ordering, one_of(engine, "engine", ENGINES), self.report, self.threads, PLACES[place])
        ordering = pivots.analysis.symbolic.ordering if callable(ordering) else ordering        # a function is called once
        self._options = ordering, engine
        pattern = Csr(M.n, M.indptr.copy(), M.indices.copy())           # the caller may change the arrays later
        with self._errors("the LU factorization"):
            self._backend = self._backend_of(pattern, M.data.dtype)
            data = self._backend.copied(M.data)
            self._factorize(data, self._backend.empty_like(data), pivots)

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    @changes
    def refactor(self, A: Matrix) -> LUFactor:
        """Factor another matrix inside the analyzed pattern. Only the numeric phase runs, with the same pivots.

        The pivots may not fit the new values: pivots vanish, or solutions have a large backward error. With ``repivot="auto"`` A is then
        matched and scaled again. If that is not enough, partial pivoting chooses the pivots, which costs as much as a new factorization.
        With ``repivot=False`` pivots and scalings stay. A common factor of all values changes nothing (with ``precision="single"`` if the
        scaled values stay in the range of float32).

        Parameters
        ----------
        A : (n, n) matrix of any kind, real or complex as the first one
            Entries of the analyzed pattern that A lacks are zeros.

        Returns
        -------
        LUFactor
            This factor, so that ``F.refactor(A2).solve(b)`` reads well.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analyzed pattern: ``.row``, ``.column``.
        SingularMatrixError
            ``.index`` is a row or column without a nonzero, or a column without a pivot. After any error the earlier factor
            is restored.
        OutOfMemoryError
            If there is not even memory to restore the earlier factor, it is lost, and solves raise this until the next refactorization.
        InvalidInputError
            Another size, complex values for a real factor, NaN or infinity.
        FactorInUseError
            Another call uses this factor.
        """
        before = self._numeric
        with self._errors("the LU factorization"):
            before.spare[:] = self._backend.values_of(A)
            try:
                self._factorize(before.spare, before.data, replace(before.pivots, source=front_end.STALE), before.native, before.unit)
            except BaseException:
                self._restore(before)
                raise
        return self

    @reads
    def factor_batch(self, values: ArrayLike, threads: int | None = None, *, keep: bool = True) -> LUBatch:
        """Factor many matrices in the analyzed pattern with the pivots and scalings of this factor, on the CPU.

        Parameters
        ----------
        values : (N, nnz) array, complex only for a complex factor
            A row for each matrix: its entries in the order of the analyzed pattern. That is ``A.data`` of the first matrix, if it is a
            csr_array with sorted indices and without duplicates; :meth:`values_of` makes the row of any other matrix.
        threads : int, optional
            Threads share the systems; each runs on one. Default: those of this factor.
        keep : bool
            False: factors are not kept, and each ``solve`` factors and solves the systems in one pass. That is faster for systems that are
            solved once, and takes no memory for factors. ``solve`` reads ``values`` then: do not change the array before.

        Returns
        -------
        LUBatch
            ``.solve(b)``, ``.refactor(values)``, ``.failed``, ``.alone``, ``.backward_error``.

        Raises
        ------
        InvalidInputError
            Wrong shape, no system, complex values for a real factor, text; values or factor on the GPU; ``precision`` is not ``"double"``.
        OutOfMemoryError
            All factors together do not fit.

        Notes
        -----
        The solution of a system has the bits of ``self.refactor(its matrix).solve(b)``. Choose a typical matrix for this factor. If the
        pivots do not fit a matrix, or its first solution needs refinement, it gets a factor of its own, as ``repivot`` says. ``.alone``
        lists such systems, and each costs as much as a single ``refactor``. A singular matrix, or one with NaN, fails alone. Later calls of
        ``refactor`` do not change the batch. O(N flops) time, O(N nnz(L + U)) memory.

        Examples
        --------
        >>> import numpy as np
        >>> import scipy.sparse as sp
        >>> import meshsolve as ms
        >>> A = sp.csr_array(np.array([[2.0, 1.0], [0.0, 4.0]]))
        >>> many = ms.lu(A).factor_batch(np.stack([A.data, 2 * A.data]))
        >>> many.solve(np.ones((2, 2))).tolist()
        [[0.375, 0.25], [0.1875, 0.125]]
        """
        if self._place != "cpu" or self.precision != "double":
            raise InvalidInputError('batches are factored on the CPU in double precision. Make the factor with device="cpu" and '
                                    f'precision="double", got "{self._place}" and "{self.precision}"')
        return LUBatch(self, values, self.threads if threads is None else thread_count(threads), as_flag(keep, "keep"))

    @reads
    def values_of(self, A: Matrix) -> np.ndarray:
        """Return the entries of A in the order of the analyzed pattern, (nnz,): a row for :meth:`factor_batch`.

        Entries that A lacks are zeros. O(nnz).

        Raises
        ------
        PatternMismatchError, InvalidInputError
            As :meth:`refactor`.
        """
        return np.array(device.to_host(self._backend.values_of(A)))

    @reads_in_turn
    def __getstate__(self):
        """Pattern, values and pivots, from which the factor is made again with the same bits."""
        now, backend = self._numeric, self._backend
        kept = replace(now, data=device.to_host(now.data), spare=None, pivots=replace(now.pivots, plan=None), native=None)
        return super().__getstate__() | {"_numeric": kept, "_backend": (backend.pattern, backend.scalar)}

    def __setstate__(self, state):
        super().__setstate__(state)
        kept = self._numeric
        with self._errors("the LU factorization"):
            self._backend = self._backend_of(*self._backend)
            plan = front_end.plan_of(self.engine, self._matrix_of(kept), kept.pivots.analysis, PLACES[self._place])
            data = self._backend.copied(kept.data)
            now, _ = self._factored(data, self._backend.empty_like(data), replace(kept.pivots, plan=plan), unit=kept.unit)
            self._numeric = replace(now, observed=kept.observed)

    # ---- properties of the factor ---------------------------------------------------------------------------------------

    @property
    def engine(self) -> str:
        return self._numeric.pivots.engine

    @property
    def row_scale(self) -> np.ndarray:
        return read_only(self._numeric.pivots.analysis.row_scale)

    @property
    def col_scale(self) -> np.ndarray:
        return read_only(self._numeric.pivots.analysis.col_scale)

    @property
    def col_perm(self) -> np.ndarray:
        return read_only(self._numeric.pivots.analysis.columns)

    @property
    @reads_in_turn
    def row_perm(self) -> np.ndarray:
        return read_only(self._triangles().row_perm(self._numeric.pivots.analysis))

    @property
    def nnz(self) -> int:
        return self._numeric.pivots.nnz

    @property
    @reads_in_turn
    def L(self) -> Sparse:
        """L, unit lower triangular, as a csc_array with sorted rows. Made at each call, O(nnz(L))."""
        return self._triangles().lower()

    @property
    @reads_in_turn
    def U(self) -> Sparse:
        """U, upper triangular, as a csr_array with sorted columns. Made at each call.

        Above its diagonal blocks U is the product of L^-1 with entries of A, which the solves do not need.
        """
        return self._upper(self._triangles())

    @property
    def levels(self) -> np.ndarray:
        """(n,) int32: longest-path levels of the right-looking elimination for the patterns of L and U.

        Columns of one level may be eliminated at the same time. Column k comes after column t < k if U[t, k] != 0 and column t of
        L reaches row k. It also does if L[k, t] != 0 and row t of U reaches column k. The rule of the GLU paper (He et al. 2015,
        Algorithm 4) leaves out the second half; :func:`levels_by` has it for comparison.
        """
        return levels_by(self, "exact")

    @reads_in_turn
    def slogdet(self) -> tuple[float | complex, float]:
        """(sign, logabsdet) of A, as :func:`numpy.linalg.slogdet` returns them. O(nnz(L) + nnz(U)) at each call.

        The determinant is that of the factors: if ``report`` counts perturbed pivots, that of a nearby matrix.
        """
        triangles, analysis = self._triangles(), self._numeric.pivots.analysis
        return slogdet(triangles.diagonal_blocks().diagonal(), (analysis.row_scale, analysis.col_scale),
                       (triangles.row_perm(analysis), analysis.columns))

    def trial(self) -> tuple[float, float]:
        """(error, residual) of the solutions of four systems with known solutions.

        ``error`` is the largest error relative to :attr:`col_scale`, for three solutions of about that size: around 1 if A is singular
        in rounding. ``residual`` is that of a solution with entries about 1, relative to its right-hand side.
        """
        A, scale = self._matrix_of(self._numeric).to_scipy(), self.col_scale[:, None]
        trial = try_known_solutions(lambda x: A @ x, self.solve, np.hstack([scale, scale, scale, np.ones_like(scale)]))
        with np.errstate(all="ignore"):
            residual = np.max(np.abs(A @ trial.found[:, 3] - trial.b[:, 3])) / np.max(np.abs(trial.b[:, 3]))
        return trial.error(scale, columns=3), float(residual)

    @reads_in_turn
    def rcond(self) -> float:
        """Estimate of 1 / (||A||_1 ||A^-1||_1) by a few solves (Higham and Tisseur 2000), between 0 and 1."""
        now = self._numeric
        norm = abs(self._matrix_of(now).to_scipy()).sum(axis=0).max()

        def apply(B, transposed):
            return device.to_host(self._apply(self._bring(B), transposed, now))

        return reciprocal_condition(norm, lambda B: apply(B, False), lambda B: apply(B.conj(), True).conj(), self.shape[0],
                                    self._backend.scalar)

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _backend_of(self, pattern, scalar):
        return BACKENDS[self._place](pattern, scalar, self.precision, self.threads)

    def _of_values(self, data, pivots, unit):
        """Return another factor, of the values ``data``: what :meth:`refactor` makes of a Numeric with these pivots and this unit."""
        other = object.__new__(type(self))
        vars(other).update(vars(self), _sharing=Sharing(), report=Report(threads=self.threads, repivoted=0, device=self._place))
        del other._numeric
        other._factorize(data, np.empty_like(data), replace(pivots, source=front_end.STALE), unit=unit)
        return other

    def _factorize(self, data, spare, pivots, native=None, unit=1.0):
        """Factor the values ``data`` with these pivots, or with others if they do not fit and other pivots are allowed."""
        now, fits = self._factored(data, spare, pivots, native, unit)
        self._replace(now if fits or not self._repivot_allowed else self._repivoted(now))

    def _replace(self, now):
        """Make ``now`` the factor, and report it."""
        facts, before = self.report.facts, getattr(self, "_numeric", None)
        facts.update({"perturbed_pivots": now.perturbed, "pivot_growth": 1 / now.growth if now.growth > 0 else 0.0})
        if before is None or now.pivots.plan is not before.pivots.plan:             # sizes do not change with the values
            facts.update(now.pivots.facts, bytes=now.native.nbytes)
        self._numeric = now

    def _factored(self, data, spare, pivots, native=None, unit=1.0, undisturbed=False):
        """(Numeric of the values ``data``, True if the pivots fit them).

        Small pivots are judged by the largest entry of the scaled matrix, which is known after the factorization. ``unit`` is the one
        of the earlier matrix. If pivots are too small for it, the factorization is repeated once with the right unit.
        """
        native = self._backend.native(pivots) if native is None else native
        perturbed, entry, largest = self._run(native, data, pivots, unit, undisturbed)
        if (perturbed or not largest < np.inf) and 0 < entry < np.inf and not 0.5 < entry / unit < 2:
            unit = entry
            perturbed, entry, largest = self._run(native, data, pivots, unit, undisturbed)
        growth = largest / entry if entry > 0 else np.inf
        now = Numeric(data, spare, pivots, native, unit, perturbed, growth, largest if entry > 1 else growth,
                      Observed(bool(perturbed) or self.precision == "mixed"))
        return now, not perturbed and growth < (GROWTH if self.precision == "single" else np.inf)

    def _run(self, native, data, pivots, unit, undisturbed):
        with self.report.phase("numeric"):
            return native.factor(data, *self._pivot_rule(pivots, unit), self.threads, undisturbed)

    def _pivot_rule(self, pivots, unit):
        """(Threshold inside fronts, smallest pivot, value that replaces a smaller one) for a matrix whose scaled entries have size unit."""
        tiny, perturbed_size = (TINY, PERTURBED_SIZE) if self.precision == "double" else (TINY_SINGLE, PERTURBED_SIZE_SINGLE)
        return THRESHOLD, (self._singular if pivots.analysis.pivoted else tiny) * unit, perturbed_size * unit

    def _repivoted(self, now):
        """A Numeric of the same values with pivots of the next sources, up to one that fits. Other threads may solve with ``now``."""
        M, fits = self._matrix_of(now), False
        while not fits and now.pivots.source < front_end.STRICT:
            pivots = front_end.next_pivots(M, now.pivots, *self._options, self._singular, self.report, self.threads, PLACES[self._place])
            now, fits = self._factored(now.data, now.spare, pivots)
        self.report.facts["repivoted"] += 1
        return now

    def _repivot(self):
        self._replace(self._repivoted(self._numeric))

    def _restore(self, before):
        """Factor the earlier values again, without calls of callables and signals. The error that led here is the one to raise."""
        self._numeric = replace(before, native=None)
        with contextlib.suppress(MemoryError), progress_to(None):
            now, _ = self._factored(before.data, before.spare, before.pivots, before.native, before.unit, undisturbed=True)
            self._numeric = replace(before, native=now.native)

    def _matrix_of(self, now):
        """The matrix of a Numeric, on the host."""
        P = self._backend.pattern
        return Csr(P.n, P.indptr, P.indices, device.to_host(now.data))

    def _triangles(self):
        return Triangles(*self._numeric.native.triangles())

    def _upper(self, triangles):
        now = self._numeric
        return triangles.upper(now.pivots, device.to_host(now.data))


@reads_in_turn
def levels_by(F, rule):
    """Levels of the columns of a factor by ``rule``.

    Parameters
    ----------
    F : LUFactor
    rule : {"exact", "relaxed", "upper"}
        ``"relaxed"`` is the rule of GLU 3.0 (Peng and Tan 2020): correct, with more levels. ``"upper"`` reads U alone (He et al. 2015):
        correct for left-looking updates, wrong for right-looking ones.

    Returns
    -------
    (n,) int32
    """
    one_of(rule, "rule", ("exact", "relaxed", "upper"))
    triangles = F._triangles()
    return _core.lu_levels(*core_arrays(triangles.lower())[:2], *core_arrays(F._upper(triangles))[:2], rule)
