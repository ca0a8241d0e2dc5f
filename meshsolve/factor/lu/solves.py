"""Solves with static pivots. The first solution after a factorization is measured, and refined or followed by other pivots if it is bad.

Sources: Skeel 1980, "Iterative refinement implies numerical stability for Gaussian elimination"; Li and Demmel 1998.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meshsolve import device
from meshsolve.errors import ConvergenceWarning, OutOfMemoryError
from meshsolve.factor.base import Factor, irregular, solve_complex, solve_near_one
from meshsolve.factor.lu.analysis import STRICT, Pivots
from meshsolve.factor.sharing import reads
from meshsolve.factor.trial import try_known_solutions
from meshsolve.options import one_of
from meshsolve.report import warn
from meshsolve.sparse.columns import max_abs
from meshsolve.sparse.refine import Refined, by_rows, componentwise, refine
from meshsolve.types import Array, ArrayLike, Trans

RISK, GROWTH = 1e3, 1e8         # max |U| / max |B| above which a factor is probed, and above which the probe measures row by row
UNBOUNDED = 1e6                 # growth above which each solution is measured: a good one does not bound the error of the next
WRONG = {"double": 1e-12, "mixed": 1e-12, "single": 1e-4}       # backward error after refinement above which other pivots are chosen
SUSPECT = 1e-6                  # residual relative to b above which known solutions are tried
LOST = 0.1                      # relative error of known solutions from which the matrix counts as singular in rounding
ROWS = 1e-10                    # componentwise backward error above which a factor with large growth needs refinement
STEPS = {"double": 2, "mixed": 20, "single": 0}                 # most steps of refinement
ENOUGH = 1e-13                  # backward error up to which a solution is not refined: a step costs two solves
ROUNDING = 1e-15                # target backward error of refinement


@dataclass
class Observed:
    """What solves have found out about one factor. The turns of the factor protect it.

    Attributes
    ----------
    sides : set of bool
        False and True: a solution with A, or with A^T, has been measured.
    needs_refinement : bool
    """

    needs_refinement: bool
    sides: set[bool] = field(default_factory=set)


@dataclass(frozen=True, eq=False)
class Numeric:
    """The factor of one matrix with everything that belongs to it. It is replaced as a whole, never changed.

    Attributes
    ----------
    data, spare : (nnz,) arrays
        Values of the matrix; memory for those of the next one.
    pivots : Pivots
    native : engine of the core or of the GPU
        None: an error came while the factor was being restored, and it is lost.
    unit : float
        Size of the scaled entries by which small pivots are judged.
    perturbed : int
    growth : float
        Pivot growth max |U| / max |B|, infinite if an entry is not finite.
    risk : float
        The growth, or max |U| if entries of the scaled matrix exceed 1: a row that has grown hides growth in other rows.
    observed : Observed
    """

    data: Any
    spare: Any
    pivots: Pivots
    native: Any
    unit: float
    perturbed: int
    growth: float
    risk: float
    observed: Observed


class MeasuredSolves(Factor):
    """The solves of an :class:`~meshsolve.factor.lu.LUFactor`, which has ``_numeric``, ``_backend`` and :meth:`_repivot`."""

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
        x : array of b's shape
            complex64 for a complex64 b, float32 for a float32 b and a real A, else float64 or complex128.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity, text, unknown ``trans``.
        SingularMatrixError
            The pivots do not fit, and partial pivoting finds none.
        FactorInUseError
            Another call is refactoring this factor.

        Warns
        -----
        ConvergenceWarning
            The backward error stays above 1e-12, with ``precision="single"`` above 1e-4. Or A is singular to working precision,
            and the residual of the first solve after a factorization is large relative to b.

        Notes
        -----
        The first solve after each factorization measures its backward error. So does the first solve with the transpose. An error
        above 1e-13 is refined, in this solve and in all later ones, in at most two steps (Skeel 1980). If it stays above 1e-12,
        other pivots are chosen. A factor of ``precision="single"`` is not refined; other pivots are chosen above 1e-4.

        A pivot growth above 1000 costs one more solve, whose solution has no small entry: b may vanish where the factor is bad.
        Solutions are then refined if the componentwise backward error is above 1e-10, because rows of a matrix may differ by decades.
        Above a growth of a million every solution is measured.
        """
        now = self._numeric                                         # one snapshot: another thread may choose other pivots
        if type(trans) is str and trans == "N" and out is None and self._backend.solves_vectors and self._is_settled(now):
            x = self._solve_vector(now.native.solve_vector, b)
            if x is not None:
                return x
        one_of(trans, "trans", ("N", "T", "H"))
        with self.report.phase("solve"), self._errors("the solve"):
            if self._backend.scalar.kind == "c":
                flip = np.conj if trans == "H" else lambda v: v              # A^H x = b is the conjugate of A^T x = b
                return solve_complex(b, self.shape[0], lambda B: flip(self._solve_columns(flip(B), trans != "N")), out)
            return self._solve_like(b, out, lambda B: self._solve_columns(B, trans != "N"), self.shape[0])

    @staticmethod
    def _is_settled(now, transposed=False):
        """True if solutions are returned without being measured."""
        return transposed in now.observed.sides and now.native is not None and not _measures_all(now)

    def _solve_columns(self, columns, transposed):
        now = self._numeric
        if columns.shape[1] == 0 or self._is_settled(now, transposed):
            return self._apply(columns, transposed, now)
        if transposed in now.observed.sides:                         # each solution is measured; other pivots are seldom needed
            found = self._refined(columns, transposed, now)
            if not self._is_rejected(found, now):
                return self._accepted(columns, transposed, found, now)
        with self._sharing.turn():                                   # one thread measures, the next ones use its result
            return self._measured(columns, transposed)

    def _measured(self, columns, transposed):
        """A solution whose measured error is small, with other pivots if necessary."""
        if self._is_settled(self._numeric, transposed):              # another thread has measured meanwhile
            return self._apply(columns, transposed, self._numeric)
        while True:
            self._probe(transposed)
            now = self._numeric
            found = self._refined(columns, transposed, now)
            if not self._is_rejected(found, now):
                return self._accepted(columns, transposed, found, now)
            self._repivot()

    def _accepted(self, columns, transposed, found, now):
        """The solution, refined row by row if the growth is large. Records what it shows about the factor."""
        observed = now.observed
        if not found.error <= WRONG[self.precision]:
            if np.isfinite(device.to_host(found.x)).all():               # else the range of float64 is too short: warn_out_of_range
                warn(f"the backward error of the solution is {found.error:.2g}: the matrix is too badly conditioned for its pivots",
                     ConvergenceWarning)
        elif transposed not in observed.sides:
            self._warn_if_singular(columns, transposed, found, now)
        found = self._refined_by_rows(columns, transposed, found, now)
        if columns.any():                                            # b = 0 shows nothing about the factor
            observed.sides.add(transposed)
        observed.needs_refinement = observed.needs_refinement or found.steps > 0
        return found.x

    def _warn_if_singular(self, columns, transposed, found, now):
        """Warn if A is singular in rounding. Then x is so large that the backward error is small, but known solutions are lost."""
        left, size = (device.to_host(max_abs(v)) for v in (found.residual, columns))
        if not (left > SUSPECT * size).any():
            return
        scale = (self.row_scale if transposed else self.col_scale)[:, None]
        facts = dict(self.report.facts)                              # those of the caller's solution

        def product(x):
            x = self._bring(x)
            return self._backend.measure(transposed, now.data)(-x, 0 * x)[0]

        trial = try_known_solutions(product, lambda b: self._refined_by_rows(b, transposed, self._refined(b, transposed, now), now).x,
                                    np.hstack([scale, scale, scale]), self._backend.scalar)
        self.report.facts.update({name: facts[name] for name in ("backward_error", "refinement_steps")})
        if not trial.error(scale) < LOST:
            worst = np.max(left / np.where(size > 0, size, 1))
            warn(f"A is singular to working precision: the factor does not reproduce known solutions, and b - A x is {worst:.2g} times as "
                 "large as b. x solves a nearby system; F.rcond() estimates the condition of A", ConvergenceWarning)

    def _refined_by_rows(self, columns, transposed, found, now):
        """The solution refined until the residual of each row is small relative to that row, if entries have grown.

        The largest row hides the residuals of others if rows differ by decades. Says nothing about the pivots: rows that are zero
        except for rounding keep their error.
        """
        if now.risk < RISK or STEPS[self.precision] == 0:
            return found
        measure = self._backend.measure(transposed, now.data)
        sizes = self._backend.measure(transposed, abs(now.data).astype(columns.dtype))
        size = abs(sizes(-abs(found.x).astype(columns.dtype), 0 * found.x)[0]) + abs(columns)
        enough = ROUNDING if now.observed.needs_refinement else ROWS
        better = refine(componentwise(measure, size), columns, found.x, lambda r: self._apply(r, transposed, now), enough, ROUNDING,
                        STEPS[self.precision])
        steps = found.steps + better.steps
        self.report.facts.update(refinement_steps=steps)
        return Refined(better.x, found.error, steps, better.residual)

    def _is_rejected(self, found, now):
        """True if other pivots must be chosen."""
        return not found.error <= WRONG[self.precision] and self._repivot_allowed and now.pivots.source < STRICT

    def _probe(self, transposed):
        """If entries have grown, solve once for an x whose scaled entries are all about 1, before the solve for b.

        A right-hand side does not show errors where it vanishes: zeros, or a unit vector in one block. Without growth the factor is
        good for every b, so most factors skip the probe. Above GROWTH each row counts by itself, because a large row hides the
        others. If the factor needs refinement or stays bad, all its solutions are measured.
        """
        while True:
            now = self._numeric
            observed = now.observed
            if now.risk < RISK or transposed in observed.sides or observed.needs_refinement:
                return
            scale = self.row_scale if transposed else self.col_scale
            x = self._bring((scale * irregular(len(scale)))[:, None].astype(self._backend.scalar))
            measure = self._backend.measure(transposed, now.data)
            b, _ = measure(-x, 0 * x)
            if not abs(b).max() < np.inf:                            # the scalings leave the range of float64
                observed.needs_refinement = True
                return
            if not now.risk < GROWTH:
                sizes = self._backend.measure(transposed, abs(now.data).astype(x.dtype))
                measure = by_rows(measure, sizes(-abs(x).astype(x.dtype), 0 * x)[0], x)
            found = self._refined(b, transposed, now, measure, WRONG[self.precision])
            if not self._is_rejected(found, now):
                observed.needs_refinement = found.steps > 0 or not found.error <= WRONG[self.precision]
                return
            self._repivot()

    def _refined(self, columns, transposed, now, measure=None, enough=ENOUGH):
        found = refine(measure or self._backend.measure(transposed, now.data), columns, self._apply(columns, transposed, now),
                       lambda r: self._apply(r, transposed, now), ROUNDING if now.observed.needs_refinement else enough, ROUNDING,
                       STEPS[self.precision])
        self.report.facts.update(backward_error=found.error, refinement_steps=found.steps)
        return found

    def _apply(self, columns, transposed, now):
        """The solution of the factor alone, without refinement."""
        if now.native is None:
            raise OutOfMemoryError("the factor is lost: memory ran out while the earlier factor was restored after an error. "
                                   "Call refactor() to make a new one")
        if self.precision == "double":
            return self._solved(now.native, columns, transposed)
        analysis = now.pivots.analysis
        scale = self._bring((analysis.col_scale if transposed else analysis.row_scale)[:, None])
        return solve_near_one(lambda near: self._solved(now.native, near, transposed), columns, scale)

    def _solved(self, native, columns, transposed):
        x = self._backend.empty_like(columns)
        if columns.shape[1]:
            native.solve(transposed, columns, x, self.threads)
        return x

    def _rmatvec(self, x):
        return self.solve(np.asarray(x).reshape(-1), trans="H")

    def _rmatmat(self, X):
        return self.solve(X, trans="H")


def _measures_all(now):
    """True if each solution must be measured: the factor needs refinement, or its growth does not bound the error."""
    return now.observed.needs_refinement or not now.risk < UNBOUNDED
