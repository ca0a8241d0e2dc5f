"""Matrices whose symmetry is in doubt: mirror entries differ by more than the rounding of a sum, but little relative to these entries.

Such a difference may be rounding, or all that two stiff entries leave of an unsymmetric matrix. Next to entries of 1e9 that nearly
cancel, a difference of 0.1 decides the solution. The entries alone do not show which it is. So the mean of both
triangles is factored, and its solutions are tried with the stored matrix: effect_of in factor/trial.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meshsolve.errors import NotSymmetricError

UNSYMMETRIC = "lu takes unsymmetric matrices; with lower=True cholesky and ildl read the lower triangle alone"
ROUNDING = 32 * np.finfo(np.float64).eps        # largest difference relative to mirror entries without a doubt: kRoundingOfEntries
ACCURATE = 1e-10        # largest effect of a doubt with which a matrix counts as symmetric where LU may be chosen: rtol of solve
TOLERATED = 1e-4        # largest effect of a doubt with which a matrix counts as symmetric otherwise


@dataclass(frozen=True)
class Doubt:
    """A matrix that passes as symmetric with a doubt.

    Attributes
    ----------
    stored : Csr
        The matrix with the entries of the caller, on the host. Mirror entries may be missing.
    """

    stored: Any

    def reduced(self, rows):
        """Return the Doubt of the block of these rows, (m,) integers on the host."""
        block = self.stored.to_scipy()[rows][:, rows]
        return Doubt(type(self.stored)(len(rows), block.indptr.astype(np.int64), block.indices.astype(np.int32), block.data))

    def skew(self):
        """Return A - A^T as a csr_array."""
        A = self.stored.to_scipy()
        return (A - A.T).tocsr()

    def error(self, effect, row, column, free=None):
        """Return the error for the result of ``effect_of``. ``free``: the caller's numbers of the rows."""
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
