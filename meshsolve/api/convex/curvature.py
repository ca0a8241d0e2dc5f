"""Refuse quadratic functions that are not convex: a stationary point of such a function need not be a minimum."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.api.convex.scaling import scaled
from meshsolve.api.definite import cholesky
from meshsolve.errors import MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.report import without_warnings

SHIFT = 1e-10           # negative eigenvalue, relative to a diagonal of ones, that is a rounding error of the entries
DOMINANT = 1e-14        # rounding error of row sums, relative to the diagonal


def indefinite_row(A, device, threads):
    """A row of the symmetric csr_array A whose pivot is negative, -1 if A is positive semidefinite up to rounding.

    Diagonally dominant matrices and A = 0 need no factorization, others one Cholesky factorization.
    """
    diagonal, n = A.diagonal(), A.shape[0]
    rows = np.repeat(np.arange(n), np.diff(A.indptr))
    sums = np.bincount(rows, abs(A.data), n) - abs(diagonal)
    bad = (diagonal < 0) | (diagonal == 0) & (sums > 0)
    if bad.any():
        return int(bad.argmax())
    if (sums <= (1 + DOMINANT) * diagonal).all():
        return -1
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1))
    unit = sp.csr_array(scaled(A, scale, scale) + SHIFT * sp.eye_array(n))
    unit.data[~(abs(unit.data) <= 2)] = 2.0                 # larger entries are indefinite, and squares of the scales may overflow
    try:
        with without_warnings(MeshsolveWarning):
            cholesky(unit, device=device, threads=threads)
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
