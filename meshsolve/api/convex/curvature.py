"""Refuse quadratic functions that are not convex: a stationary point of such a function need not be a minimum."""

from __future__ import annotations

import numpy as np

from meshsolve.errors import MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.report import without_warnings

SHIFT = 1e-10           # negative eigenvalue, relative to a diagonal of ones, that is a rounding error of the entries
DOMINANT = 1e-14        # rounding error of row sums, relative to the diagonal


def indefinite_row(shifted):
    """A row of a symmetric matrix whose pivot is negative, -1 if the matrix is positive semidefinite up to rounding.

    Diagonally dominant matrices and A = 0 need no factorization, others one of the :class:`Shifted` factors.
    """
    A, diagonal = shifted.block, shifted.diagonal
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    sums = np.bincount(rows, abs(A.data), A.shape[0]) - abs(diagonal)
    bad = (diagonal < 0) | (diagonal == 0) & (sums > 0)
    if bad.any():
        return int(bad.argmax())
    if (sums <= (1 + DOMINANT) * diagonal).all():
        return -1
    try:
        with without_warnings(MeshsolveWarning):
            shifted.solver(np.where(diagonal > 0, SHIFT * diagonal, 1.0))
    except NotPositiveDefiniteError as e:
        return int(e.column)
    return -1


def is_convex_on_equalities(program):
    """True if P is positive definite on the null space of the rows that are equalities: the inertia of one KKT matrix."""
    m, n, slope = program.model, program.model.n, program.slope
    off = program.off.copy()
    off[n:] |= ~program.equal[n:]
    m.factor(np.full(n, SHIFT * slope), np.full(m.p, SHIFT / slope), off)
    positive, negative, zero = m.inertia()
    return zero == 0 and negative == int((~off[n:]).sum())
