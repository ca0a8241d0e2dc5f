"""Sparse LU factorization with static pivots, made for refactorization: circuits, and everything mesh-like.

    F = lu(A);  F.solve(b);  F.refactor(A2);  F.solve(b, trans="T")

``F.L @ F.U == (diag(F.row_scale) @ A @ diag(F.col_scale))[F.row_perm][:, F.col_perm]``. Two engines do the numeric work:
dense fronts on the symmetrized pattern, and columns on the exact one. The driver reads in this order: front end
(:mod:`meshsolve.factor.lu.analysis`), numeric phase and what is made of its outcome, solves with refinement
(:mod:`meshsolve.factor.lu.solves`).
Sources: Duff and Koster 2001; Duff and Reid 1984; Davis and Natarajan 2010, "KLU"; He et al. 2015, "GLU"; Li and Demmel 1998,
"Making sparse Gaussian elimination scalable by static pivoting".
"""

from __future__ import annotations

import contextlib

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import irregular, reciprocal_condition, values_in
from meshsolve.factor.lu import analysis as front_end
from meshsolve.factor.lu.columns.cuda import DeviceColumns
from meshsolve.factor.lu.cuda import DeviceMatrix, DeviceValues
from meshsolve.factor.lu.determinant import slogdet
from meshsolve.factor.lu.fronts.cuda import DeviceFronts
from meshsolve.factor.lu.solves import GROWTH, MeasuredSolves
from meshsolve.factor.sharing import changes, reads_in_turn
from meshsolve.memory import ensure_memory
from meshsolve.options import counted, is_auto, one_of, thread_count
from meshsolve.report import Report, telling
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.matrix import Csr, as_csr, is_complex, narrow_ptr
from meshsolve.sparse.places import on_device
from meshsolve.types import Matrix, Sparse

PRECISIONS, ENGINES = ("double", "single", "mixed"), ("auto", "columns", "fronts")
THRESHOLD = 0.1                # of a column's largest entry, from which the diagonal stays pivot inside a front
TINY, BOOST = 1e-13, 1e-8      # of the scaled matrix: a static pivot that is smaller, and what it becomes


class LUFactor(MeasuredSolves):
    """The factors of a square matrix; made by :func:`meshsolve.lu`.

    With ``device="cuda"`` they lie on the GPU, where matrices and right-hand sides of CuPy are taken and CuPy's given back; those
    of numpy go there and come back. Several threads may solve at once, on a GPU if they share a stream; the first solve after each
    factorization, which measures it, has the others wait. A refactorization beside a solve of the same factor raises
    ``FactorInUseError``. It can be pickled and copied, which costs a numeric phase at the other end.

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
        Phases ``order``, ``symbolic``, ``numeric``, ``solve``; facts ``engine``, ``blocks``, ``pivot_growth`` (reciprocal: max of
        the scaled matrix over max of U, 1 is best), ``perturbed_pivots``, ``repivoted`` (how often), ``backward_error`` of
        the first solve after each factorization, ``refinement_steps``.
    """

    def __init__(self, M, *, ordering="auto", engine="auto", repivot="auto", precision="double", place="cpu", threads=None):
        """``M`` lies on the host; ``place`` is where it is factored."""
        one_of(precision, "precision", PRECISIONS)
        if repivot is not False and not is_auto(repivot):
            raise InvalidInputError(f'repivot has to be "auto" or False, not {repivot!r}')
        if precision != "double" and M.data.dtype.kind == "c":
            raise InvalidInputError('complex matrices are factored with precision="double" only')
        super().__init__(M.n, np.float32 if precision == "single" else M.data.dtype)
        self.threads, self.precision, self._repivot_allowed = thread_count(threads), precision, is_auto(repivot)
        self._place = place
        self.report = Report(threads=self.threads, nnz_A=M.nnz, repivoted=0, device=place)
        self._pattern = Csr(M.n, M.indptr.copy(), M.indices.copy())          # the caller's arrays may change later
        self._analysis = front_end.analyze(M, ordering, self.report, self.threads)
        with self.report.phase("symbolic"):
            self.engine, self._plan = front_end.choose(M, self._analysis, one_of(engine, "engine", ENGINES))
        self._singular = min(4 * np.finfo(float).eps * M.n, TINY)      # a column whose entries are all smaller has no pivot
        ordering = self._analysis.symbolic.ordering if callable(ordering) else ordering         # a function is called once
        self._asked, self._stage, self._unit, self._sized = (ordering, engine), front_end.MATCHED, 1.0, None
        self._refine_always, self._seen = False, set()
        with self._errors("the LU factorization"):
            self._hold(M.data)
            self._build()
            self._numeric(self._data)

    def _hold(self, data):
        """Copies of the values, and what brings later ones, where the factor lies."""
        on_gpu = self._place == "cuda"
        self._data = device.to_device(data) if on_gpu else data.copy()
        self._spare = self._data.copy()
        self._matrix = DeviceMatrix(self._pattern) if on_gpu else None
        self._there = DeviceValues(self._pattern) if on_gpu else None

    # ---- numeric phase --------------------------------------------------------------------------------------------------

    @changes
    def refactor(self, A: Matrix) -> LUFactor:
        """Factor another matrix inside the analysed pattern; the numeric phase alone runs, with the pivots there are.

        Where these pivots do not fit the new values (pivots that vanish, solutions with a large backward error), A is matched and
        scaled anew with ``repivot="auto"``, and pivots are chosen by its values where that is not enough: a factorization from
        scratch. With ``repivot=False`` pivots and scalings stay as they are. A common factor of all values changes nothing (in float32,
        where that holds the values once they are scaled as the first matrix was).

        Parameters
        ----------
        A : (n, n) matrix of any kind, real or complex as the first one
            Entries that are missing from the analysed pattern's point of view are zeros.

        Returns
        -------
        LUFactor
            This factor, so that ``F.refactor(A2).solve(b)`` reads well.

        Raises
        ------
        PatternMismatchError
            A has an entry outside the analysed pattern: ``.row``, ``.column``.
        SingularMatrixError
            ``.index`` is a row or column without a nonzero, or a column without a pivot. After any error the earlier factor is
            still there.
        OutOfMemoryError
            Where there is no memory even to bring that back, it is lost, and solves say so until the next refactorization.
        InvalidInputError
            Another size, complex values for a real factor, NaN or infinity.
        FactorInUseError
            Another call uses this factor at this time.
        """
        with self._errors("the LU factorization"):
            self._spare[:] = self._values_of(A)
            self._numeric(self._spare)
        self._data, self._spare = self._spare, self._data
        return self

    def _values_of(self, A):
        """The values of A in the analysed pattern. A csr matrix that has just this pattern is not checked a second time."""
        if self._place == "cuda":
            return self._there.of(A) if on_device(A) else device.to_device(self._host_values_of(A))
        return self._host_values_of(A)

    def _host_values_of(self, A):
        if sp.issparse(A) and A.format == "csr" and A.shape == self.shape and A.data.dtype == self._spare.dtype:
            alike = A.data.shape == A.indices.shape == self._spare.shape and A.indices.dtype == np.int32
            same = alike and _core.same_pattern(self._pattern.indptr, self._pattern.indices,
                                                np.ascontiguousarray(A.indptr, np.int64), np.ascontiguousarray(A.indices))
            if same and _core.first_not_finite(np.ascontiguousarray(A.data).view(np.float64)) < 0:
                return A.data
        if self._spare.dtype.kind != "c" and is_complex(A):
            raise InvalidInputError("A is complex, the factor of a real matrix: lu(A) makes one that takes both")
        M = as_csr(A, dtype=self._spare.dtype)
        if M.n != self.shape[0]:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {self.shape[0]}")
        return values_in(self._pattern, M)

    def _values(self, data):
        """The matrix with these values on the analysed pattern, on the host."""
        return Csr(self._pattern.n, self._pattern.indptr, self._pattern.indices, device.to_host(data))

    def _build(self):
        """The factor of the plan at hand, where it works."""
        if self._place == "cuda":
            kind = DeviceFronts if self.engine == "fronts" else DeviceColumns
            self._factor = kind(self._plan, self._analysis, np.float64 if self.precision == "double" else np.float32)
            return
        scalar = {"double": self._spare.itemsize, "single": 4, "mixed": 4}[self.precision]
        work = self._plan.work_scalars(self.threads) if self.engine == "fronts" else 2 * self._plan.scalars
        ensure_memory(scalar * (self._plan.scalars + work), f"the factor ({counted(self._plan.scalars, 'entry')})")
        kind = "Complex" if self._spare.dtype.kind == "c" else "Double" if self.precision == "double" else "Single"
        self._factor = getattr(_core, ("FrontLu" if self.engine == "fronts" else "ColumnLu") + kind)(self._plan)

    def _numeric(self, data):
        """Factor the values ``data``; what was there before comes back where that fails."""
        stage, unit, told = self._stage, self._unit, (self._refine_always, self._seen)
        try:
            if data is self._spare:                                  # a matching of earlier values
                self._stage = front_end.STALE
            if not self._factor_values(data) and self._repivot_allowed:
                self._repivot(data)
        except BaseException:
            self._stage, self._unit = stage, unit
            if data is self._spare:                                  # of a refactorization: the values before are still there
                self._restore()
                self._refine_always, self._seen = told
            raise

    def _restore(self):
        """Bring the earlier factor back, whatever callables and signals say; the error that is on its way is the one to tell of."""
        self._is_lost = True
        with contextlib.suppress(MemoryError), telling(None):
            self._factor_values(self._data, undisturbed=True)

    @reads_in_turn
    def __getstate__(self):
        """Pattern, values and pivots stand for the factor, which is made again from them: the same bits."""
        made_again = ("_factor", "_plan", "_spare", "_sized", "_matrix", "_there")
        kept = {name: value for name, value in super().__getstate__().items() if name not in made_again}
        return kept | {"_data": device.to_host(self._data)}

    def __setstate__(self, state):
        super().__setstate__(state)
        make = front_end.front_plan if self.engine == "fronts" else front_end.column_plan
        with self._errors("the LU factorization"):
            self._hold(self._data)
            self._sized = None
            self._plan = make(self._values(self._data), self._analysis)
            self._build()
            self._factor_values(self._data)
        self._refine_always, self._seen = state["_refine_always"], set(state["_seen"])

    def _factor_values(self, data, undisturbed=False):
        """Factor with the pivots at hand; False where these do not fit the values.

        What is a small pivot is measured by the largest entry of the scaled matrix, which is known after the factorization:
        the one before has to do, and where pivots then fail, the same is done once more with the right one.
        """
        boosted, entry, largest = self._factor_by(data, undisturbed)
        if (boosted or not largest < np.inf) and 0 < entry < np.inf and not 0.5 < entry / self._unit < 2:
            self._unit = entry
            boosted, entry, largest = self._factor_by(data, undisturbed)
        growth = largest / entry if entry > 0 else np.inf
        facts = self.report.facts
        facts["perturbed_pivots"], facts["pivot_growth"] = boosted, 1 / growth if growth > 0 else 0.0
        self._growth = largest if entry > 1 else growth              # a row that has become large hides what grows in others
        self._refine_always, self._seen = bool(boosted) or self.precision == "mixed", set()
        if self._sized is not self._factor:                          # sizes do not change with the values
            facts.update(engine=self.engine, nnz_L=self.nnz, flops=self._flops(), bytes=self._factor.nbytes)
            self._sized = self._factor
        return not boosted and growth < (GROWTH if self.precision == "single" else np.inf)

    def _factor_by(self, data, undisturbed):
        smallest = self._singular if self._analysis.pivoted else TINY if self.precision == "double" else 1e-6
        boost = BOOST if self.precision == "double" else 1e-4
        with self.report.phase("numeric"):
            found = self._factor.factor(data, THRESHOLD, smallest * self._unit, boost * self._unit, self.threads, undisturbed)
        self._is_lost = False
        return found

    def _repivot(self, data):
        """Go to the next stages of pivots for the values ``data``, up to one that fits. All is made on another object and taken over
        at once: other threads may be solving with what there is."""
        names = ["_factor", "_plan", "_analysis", "engine", "_stage", "_unit", "_sized", "_growth", "_seen", "_refine_always", "_is_lost"]
        made, facts = object.__new__(type(self)), dict(self.report.facts)
        made.__dict__.update(self.__dict__)
        try:
            M, fits = self._values(data), False
            while not fits and made._stage < front_end.STRICT:
                made._stage, made._unit = made._stage + 1, 1.0
                made._choose_pivots(M)
                made._build()
                fits = made._factor_values(data)
        except BaseException:
            self.report.facts = facts
            raise
        self.__dict__.update({name: made.__dict__[name] for name in names})
        self.report.facts["repivoted"] += 1

    def _choose_pivots(self, M):
        """Analysis, engine and plan of the stage at hand."""
        ordering, engine = self._asked
        if self._stage == front_end.MATCHED:
            self._analysis = front_end.analyze(M, ordering, self.report, self.threads)
            with self.report.phase("symbolic"):
                self.engine, self._plan = front_end.choose(M, self._analysis, engine)
            return
        with self.report.phase("numeric"):
            self._analysis = front_end.repivoted(M, self._analysis, self._stage, self._singular, ordering, self.report,
                                                 self.threads)
            self.engine, self._plan = "columns", front_end.column_plan(M, self._analysis)

    # ---- what the factor knows ------------------------------------------------------------------------------------------

    @property
    def row_scale(self) -> np.ndarray:
        return read_only(self._analysis.row_scale)

    @property
    def col_scale(self) -> np.ndarray:
        return read_only(self._analysis.col_scale)

    @property
    def col_perm(self) -> np.ndarray:
        return read_only(self._analysis.columns)

    @property
    @reads_in_turn
    def row_perm(self) -> np.ndarray:
        return read_only(self._row_perm(self._factor.triangles()))

    def _row_perm(self, parts):
        rows = np.empty_like(self._analysis.rows)
        rows[parts[6]] = self._analysis.rows
        return rows

    @property
    def nnz(self) -> int:
        inside = 2 * self._analysis.symbolic.nnz - self._pattern.n if self.engine == "fronts" else self._plan.scalars
        return inside + len(self._plan.outside()[1])

    def _flops(self):
        return 2 * self._analysis.symbolic.flops if self.engine == "fronts" else self._plan.flops

    @property
    @reads_in_turn
    def L(self) -> Sparse:
        """L, unit lower triangular, as a csc_array with sorted rows. Made at each call, O(nnz(L))."""
        return self._lower(self._factor.triangles())

    @property
    @reads_in_turn
    def U(self) -> Sparse:
        """U, upper triangular, as a csr_array with sorted columns. Made at each call.

        Above its diagonal blocks U is the product of L^-1 with the entries of A there, which the solves never need.
        """
        return self._upper(self._factor.triangles())

    def _lower(self, parts):
        L = sp.csc_array((parts[2], parts[1], narrow_ptr(parts[0])), shape=self.shape)
        L.sort_indices()
        return L

    def _upper(self, parts):
        inside = sp.csr_array((parts[5], parts[4], narrow_ptr(parts[3])), shape=self.shape)
        indptr, row, source = self._plan.outside()
        if len(row) == 0:
            inside.sort_indices()
            return inside
        L = self._lower(parts)
        above = sp.csc_array((device.to_host(self._data)[source], parts[6][row], indptr), shape=self.shape)
        at = np.empty_like(parts[6])
        at[parts[6]] = self._analysis.rows
        above = sp.csc_array(sp.diags_array(self.row_scale[at]) @ above @ sp.diags_array(self.col_scale[self.col_perm]))
        indptr, row, values = _core.lower_solve(*_core_arrays(L), *_core_arrays(above))
        U = sp.csr_array(inside + sp.csc_array((values, row, narrow_ptr(indptr)), shape=self.shape))
        U.sort_indices()
        return U

    @property
    def levels(self) -> np.ndarray:
        """(n,) int32: longest-path levels of the right-looking elimination for the patterns of L and U.

        Columns of one level may be eliminated at the same time. Column k comes after column t < k where U[t, k] != 0 and
        column t of L reaches row k, or where L[k, t] != 0 and row t of U reaches column k. The rule of the GLU paper (He et
        al. 2015, Algorithm 4) leaves out the second half; :func:`levels_by` has it for comparison.
        """
        return levels_by(self, "exact")

    @reads_in_turn
    def slogdet(self) -> tuple[float | complex, float]:
        """(sign, logabsdet) of A, as :func:`numpy.linalg.slogdet` returns them. O(nnz(L) + nnz(U)), found anew at each call.

        The determinant is that of the factors: where ``report`` counts perturbed pivots they are those of a matrix nearby.
        """
        parts = self._factor.triangles()
        pivots = sp.csr_array((parts[5], parts[4], parts[3]), shape=self.shape).diagonal()
        return slogdet(pivots, (self.row_scale, self.col_scale), (self._row_perm(parts), self.col_perm))

    def trial(self) -> tuple[float, float]:
        """What solves give back of solutions that are known: (error, residual), of four right-hand sides at once.

        ``error`` is the largest one beside :attr:`col_scale`, for three solutions whose entries are about that large: around 1 where
        A is singular in rounding. ``residual`` is that of a solution with entries about 1, beside its right-hand side.
        """
        A, scale = self._values(self._data).to_scipy(), self.col_scale
        known = irregular(4 * len(scale)).reshape(-1, 4)
        known[:, :3] *= scale[:, None]
        B = A @ known
        X = self.solve(B)
        with np.errstate(all="ignore"):
            error = np.max(np.abs(X - known)[:, :3] / scale[:, None])
            residual = np.max(np.abs(A @ X[:, 3] - B[:, 3])) / np.max(np.abs(B[:, 3]))
        return float(error), float(residual)

    @reads_in_turn
    def rcond(self) -> float:
        """Estimate of 1 / (||A||_1 ||A^-1||_1) by a few solves (Higham and Tisseur 2000), between 0 and 1."""
        norm = abs(self._values(self._data).to_scipy()).sum(axis=0).max()

        def apply(B, transposed):
            return device.to_host(self._apply(self._bring(B), transposed))

        return reciprocal_condition(norm, lambda B: apply(B, False), lambda B: apply(B.conj(), True).conj(), self._pattern.n,
                                    self._spare.dtype)


@reads_in_turn
def levels_by(F, rule):
    """Levels of the columns of a factor by ``rule``.

    Parameters
    ----------
    F : LUFactor
    rule : {"exact", "relaxed", "upper"}
        ``"relaxed"`` is GLU 3.0's (Peng and Tan 2020): right, with more levels. ``"upper"`` looks at U alone (He et al. 2015):
        right for left-looking updates, wrong for right-looking ones.

    Returns
    -------
    (n,) int32
    """
    one_of(rule, "rule", ("exact", "relaxed", "upper"))
    parts = F._factor.triangles()
    L, U = F._lower(parts), F._upper(parts)
    return _core.lu_levels(*_core_arrays(L)[:2], *_core_arrays(U)[:2], rule)


def _core_arrays(A):
    return A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data


__all__ = ["LUFactor", "levels_by"]
