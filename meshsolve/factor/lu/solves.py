"""Solves with a factor whose pivots were chosen before the values were known: what the first solutions tell of it.

The first solution after each factorization is measured, and where it is bad, refined, or other pivots are chosen.
Sources: Skeel 1980, "Iterative refinement implies numerical stability for Gaussian elimination"; Li and Demmel 1998.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.errors import ConvergenceWarning, OutOfMemoryError
from meshsolve.factor.base import DOUBLE, Factor, as_narrow, deliver, irregular, solve_near_one
from meshsolve.factor.lu import analysis as front_end
from meshsolve.factor.lu.backward import beside_rows, by_rows, flat
from meshsolve.factor.refine import Refined, refine
from meshsolve.factor.sharing import reads
from meshsolve.foreign import is_sparse
from meshsolve.options import one_of
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array, as_rhs, max_abs
from meshsolve.sparse.product import measured_residual
from meshsolve.sparse.sparse_rhs import solve_sparse
from meshsolve.types import Array, ArrayLike, Trans

RISK, GROWTH = 1e3, 1e8        # max |U| / max |B| from which a factor is probed; from which that is done row by row
UNBOUNDED = 1e6                # ... from which every solution is measured: one that is good says nothing of the next
WRONG = {"double": 1e-12, "mixed": 1e-12, "single": 1e-4}       # backward error at which pivots are given up, after refinement
SUSPECT, LOST = 1e-6, 0.1     # residual relative to b from which known solutions are tried; their error for a matrix singular in rounding
ROWS = 1e-10                   # componentwise backward error from which a factor whose entries have grown needs refinement
STEPS = {"double": 2, "mixed": 20, "single": 0}                 # of refinement at most
ENOUGH, ROUNDING = 1e-13, 1e-15  # backward error that is not refined, which costs two solves more; and what refinement aims at


class MeasuredSolves(Factor):
    """The solves of an :class:`~meshsolve.factor.lu.LUFactor`, which has the factor, its matrix and :meth:`_repivot`."""

    @reads
    def solve(self, b: ArrayLike, trans: Trans = "N", out: Array | None = None) -> Array:
        """Solve A x = b, A^T x = b or A^H x = b.

        Parameters
        ----------
        b : (n,) or (n, k), real or complex
        trans : {"N", "T", "H"}
        out : array like the result, optional
            Receives the result and is returned.

        Returns
        -------
        x : array of b's shape; complex64 where b is, float32 where b is and A is real, else float64 or complex128

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text, unknown ``trans``.
        SingularMatrixError
            The pivots turn out not to fit, and partial pivoting finds none.
        FactorInUseError
            Another call is refactoring this factor.

        Warns
        -----
        ConvergenceWarning
            The backward error stays above 1e-12, with ``precision="single"`` above 1e-4. Or, of the first solve after each
            factorization, the residual is not small beside b, because A is singular to working precision.

        Notes
        -----
        The first solve after each factorization measures its backward error, and so does the first with the transpose. Where
        that is above 1e-13, this solve and all later ones are refined, at most two steps (Skeel 1980), and where it stays above
        1e-12, other pivots are chosen. A factor of ``precision="single"`` is not refined, and other pivots are chosen above 1e-4.
        Where entries have grown by more than 1000, a solution of the factor's own is measured as well, one solve more: b may have
        no weight where the factor is bad, and solutions are refined where the componentwise backward error is above 1e-10: rows of
        a matrix may differ by decades. From a growth of a million on every solution is measured.
        """
        factor = self._factor                                       # before what is known of it: a thread may choose other pivots
        if type(trans) is str and trans == "N" and out is None and self._settled():
            x = self._solve_vector(factor.solve_vector, b)
            if x is not None:
                return x
        one_of(trans, "trans", ("N", "T", "H"))
        with self.report.phase("solve"), self._errors("the solve"):
            if self._spare.dtype.kind == "c":
                return self._solve_complex(b, trans, out)
            return self._solve_like(b, out, lambda B: self._solve_columns(B, trans != "N"), self.shape[0])

    def _settled(self):
        """Whether the core's solutions with A are taken as they are."""
        return (False in self._seen and not self._is_lost and not self._measures_all() and self.precision == "double"
                and self._place == "cpu" and self._spare.dtype is DOUBLE)

    def _measures_all(self):
        """Whether one good solution says nothing of the next: a factor that needs refinement, or whose growth bounds no error."""
        return self._refine_always or not self._growth < UNBOUNDED

    def _solve_complex(self, b, trans, out):
        if is_sparse(b):
            return solve_sparse(b, self.shape[0], lambda B: self._solve_complex(B, trans, None), out)
        given = as_array(b, "b")
        columns, shape = as_rhs(given, self.shape[0], dtype=np.complex128)
        x = self._solve_columns(columns.conj() if trans == "H" else columns, trans != "N")
        x = x.conj() if trans == "H" else x
        return deliver(as_narrow(x, given.dtype, out) if given.dtype.kind == "c" else x, shape, out)

    def _solve_columns(self, columns, transposed):
        factor = self._factor
        if columns.shape[1] == 0 or (transposed in self._seen and not self._measures_all()):
            return self._apply(columns, transposed, factor)
        if transposed in self._seen:                                 # each solution is measured, and seldom another factor needed
            found = self._refined(columns, transposed)
            if not self._gives_up(found):
                return self._accepted(columns, transposed, found)
        with self._sharing.turn():                                   # what a thread finds out about the factor the next one knows
            return self._measured(columns, transposed)

    def _measured(self, columns, transposed):
        """A solution that says whether the pivots fit, after as many others as it takes."""
        if transposed in self._seen and not self._measures_all():    # by another thread, meanwhile
            return self._apply(columns, transposed, self._factor)
        self._probe(transposed)
        found = self._refined(columns, transposed)
        while self._gives_up(found):
            self._repivot(self._data)
            self._probe(transposed)
            found = self._refined(columns, transposed)
        return self._accepted(columns, transposed, found)

    def _accepted(self, columns, transposed, found):
        """The solution as it goes out, row by row where that counts; what it tells of the factor is remembered."""
        if not found.error <= WRONG[self.precision]:
            warn(f"the backward error of the solution is {found.error:.2g}: the matrix is too badly conditioned for its pivots",
                 ConvergenceWarning)
        elif transposed not in self._seen:
            self._tell_of_singular(columns, transposed, found)
        found = self._row_by_row(columns, transposed, found)
        if columns.any():                                            # zeros are solved by any factor
            self._seen.add(transposed)
        self._refine_always = self._refine_always or found.steps > 0
        return found.x

    def _tell_of_singular(self, columns, transposed, found):
        """The backward error is small where x is large enough, as of a singular matrix: then not even solutions that are known come
        back, beside the sizes that the scaling gives its entries."""
        left, size = (device.to_host(max_abs(v)) for v in (found.residual, columns))
        if not (left > SUSPECT * size).any():
            return
        scale = self.row_scale if transposed else self.col_scale
        known = self._bring((irregular(3 * len(scale)).reshape(-1, 3) * scale[:, None]).astype(self._spare.dtype))
        b = self._measure(transposed, self._data)(-known, 0 * known)[0]
        facts = dict(self.report.facts)                              # of the caller's solution, not of this one
        with np.errstate(all="ignore"):
            error = max_abs((self._row_by_row(b, transposed, self._refined(b, transposed)).x - known) / self._bring(scale[:, None]))
        self.report.facts.update({name: facts[name] for name in ("backward_error", "refinement_steps")})
        if not device.to_host(error).max() < LOST:
            worst = np.max(left / np.where(size > 0, size, 1))
            warn(f"A is singular to working precision: known solutions do not come back, and b - A x is {worst:.2g} times as large as b. "
                 "x solves a system near this one; F.rcond() estimates the condition of A", ConvergenceWarning)

    def _row_by_row(self, columns, transposed, found):
        """Where entries have grown, corrections until each row is solved beside its own size: the largest row of a matrix whose
        rows differ by decades hides what is left in the others. Says nothing of the pivots: rows of zeros but for rounding stay."""
        if self._growth < RISK or STEPS[self.precision] == 0:
            return found
        measure, sizes = self._measure(transposed, self._data), self._measure(transposed, abs(self._data).astype(columns.dtype))
        size = abs(sizes(-abs(found.x).astype(columns.dtype), 0 * found.x)[0]) + abs(columns)
        enough = ROUNDING if self._refine_always else ROWS
        better = refine(beside_rows(measure, size), columns, found.x, lambda r: self._apply(r, transposed), enough, ROUNDING,
                        STEPS[self.precision])
        steps = found.steps + better.steps
        self.report.facts.update(refinement_steps=steps)
        return Refined(better.x, found.error, steps, better.residual)

    def _gives_up(self, found):
        return not found.error <= WRONG[self.precision] and self._repivot_allowed and self._stage < front_end.STRICT

    def _probe(self, transposed):
        """Where entries have grown, solve once for an x whose scaled entries are all about 1, before anything is said about b.

        A right-hand side does not see what it has no weight in: zeros, or a unit vector in a block of its own. Where little has
        grown the factor is good for every b, so that most factors never come here; others pay one solve each. From GROWTH on
        each row counts by itself: a large one does not hide the others. A factor that needs refinement, or that stays bad, has
        all its solutions measured.
        """
        while not (self._growth < RISK or transposed in self._seen or self._refine_always):
            x = self._bring(flat(self.row_scale if transposed else self.col_scale).astype(self._spare.dtype))
            measure = self._measure(transposed, self._data)
            b, _ = measure(-x, 0 * x)
            if not abs(b).max() < np.inf:                            # the scalings leave the range of float64
                self._refine_always = True
                return
            if not self._growth < GROWTH:
                sizes = self._measure(transposed, abs(self._data).astype(x.dtype))
                measure = by_rows(measure, sizes(-abs(x).astype(x.dtype), 0 * x)[0], x)
            found = self._refined(b, transposed, measure, WRONG[self.precision])
            if not self._gives_up(found):
                self._refine_always = found.steps > 0 or not found.error <= WRONG[self.precision]
                return
            self._repivot(self._data)

    def _measure(self, transposed, data):
        """A function of (x, b): what x leaves over in the matrix with these values, and its backward error."""
        if self._place == "cuda":
            return self._matrix.measure(transposed, data)
        A = self._values(data)
        return lambda x, b: measured_residual(A, transposed, x, b)

    def _refined(self, columns, transposed, measure=None, enough=ENOUGH):
        found = refine(measure or self._measure(transposed, self._data), columns, self._apply(columns, transposed),
                       lambda r: self._apply(r, transposed), ROUNDING if self._refine_always else enough, ROUNDING,
                       STEPS[self.precision])
        self.report.facts.update(backward_error=found.error, refinement_steps=found.steps)
        return found

    def _apply(self, columns, transposed, factor=None):
        if self._is_lost:
            raise OutOfMemoryError("memory ran out while the earlier factor was brought back after an error, and it is lost: "
                                   "refactor() makes a new one")
        factor = factor or self._factor
        if self.precision == "double":
            return self._solved(factor, columns, transposed)
        scale = self._bring((self.col_scale if transposed else self.row_scale)[:, None])
        return solve_near_one(lambda near: self._solved(factor, near, transposed), columns, scale)

    def _solved(self, factor, columns, transposed):
        x = (device.xp() if self._place == "cuda" else np).empty_like(columns)
        if columns.shape[1]:
            factor.solve(transposed, columns, x, self.threads)
        return x

    def _rmatvec(self, x):
        return self.solve(np.asarray(x).reshape(-1), trans="H")

    def _rmatmat(self, X):
        return self.solve(X, trans="H")
