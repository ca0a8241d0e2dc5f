"""Matrices whose symmetry is in doubt: mirror entries differ by more than the rounding of a sum, but little relative to these entries.

Such a difference may be rounding, or all that two stiff entries leave of an unsymmetric matrix. Next to entries of 1e9 that nearly
cancel, a difference of 0.1 decides the solution. The entries alone do not show which it is. So the mean of both
triangles is factored, and its solutions are tried with the stored matrix: effect_of in factor/trial.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meshsolve.errors import MeshsolveWarning, NotSymmetricError
from meshsolve.report import warn

UNSYMMETRIC = "lu takes unsymmetric matrices; with lower=True cholesky and ildl read the lower triangle alone"
MANY_ROUNDINGS = 32 * np.finfo(np.float64).eps      # difference relative to mirror entries above which it is no rounding: check.hpp
ROUNDING = 1            # enum Doubt of check.hpp
ACCURATE = 1e-10        # largest effect of a skew part with which a matrix counts as symmetric where LU may be chosen: rtol of solve
TOLERATED = 1e-4        # the same where LU may not be chosen, or if rounding errors explain the skew part


@dataclass(frozen=True)
class Doubt:
    """A matrix that passes as symmetric with a doubt.

    Attributes
    ----------
    stored : Csr
        The matrix with the entries of the caller, on the host. Mirror entries may be missing.
    is_rounding : bool
        Mirror entries differ by no more than rounding errors of sums.
    """

    stored: Any
    is_rounding: bool

    @property
    def limit(self):
        """Largest effect with which the matrix counts as symmetric where LU may be chosen."""
        return TOLERATED if self.is_rounding else ACCURATE

    def reduced(self, rows):
        """Return the Doubt of the block of these rows, (m,) integers on the host."""
        block = self.stored.to_scipy()[rows][:, rows]
        return Doubt(type(self.stored)(len(rows), block.indptr.astype(np.int64), block.indices.astype(np.int32), block.data),
                     self.is_rounding)

    def skew(self):
        """Return A - A^T as a csr_array."""
        A = self.stored.to_scipy()
        return (A - A.T).tocsr()

    def judge(self, effect, row, column, free=None):
        """Return the effect that a factor must know, 0 up to :attr:`limit`, for the result of ``effect_of``.

        Raises NotSymmetricError if it is not tolerated; warns if rounding errors explain it. ``free``: the caller's numbers of the rows.
        """
        if not effect <= TOLERATED and not self.is_rounding:
            raise self._error(effect, row, column, free)
        if not effect <= TOLERATED:
            warn(f"mirror entries of A differ by rounding errors, which change solutions: those of the symmetric part leave residuals of "
                 f"{effect:.1g} relative to b. lu(A) solves with the entries as they are", MeshsolveWarning)
        return 0.0 if effect <= self.limit else effect

    def _error(self, effect, row, column, free):
        A = self.stored.to_scipy()
        gap = abs(A[row, column] - A[column, row])
        i, j = (row, column) if free is None else (int(free[row]), int(free[column]))
        return NotSymmetricError(
            f"A is not symmetric: the entry in row {i}, column {j} and its mirror entry differ by {gap:.3g}. That is little relative to "
            f"these entries, but solutions of the symmetric part leave residuals of {effect:.1g} relative to b. {UNSYMMETRIC}", i, j)


def not_symmetric(name, row, column, gap, allowed):
    """Return the error for one entry, which differs by ``gap`` from its mirror entry."""
    return NotSymmetricError(
        f"{name} is not symmetric: |{name}[{row}, {column}] - {name}[{column}, {row}]| = {gap:.3g}, where rounding of these entries and of "
        f"their rows explains {allowed:.1g}. {UNSYMMETRIC}", row, column)
