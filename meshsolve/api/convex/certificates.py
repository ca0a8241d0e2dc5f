"""Proofs that a convex program has no point, or no minimum. Each is checked before it is returned.

No point: the least change u of the rows, min 1/2 |u|^2 with lower <= G x + u <= upper and x in its bounds, always exists. If u is not 0,
it is a Farkas certificate. No minimum: b is projected onto the directions without curvature that no bound stops. If the projection is not
0, it is a direction of descent. Both are convex programs, which the same method solves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from meshsolve.api.convex.model import Model
from meshsolve.api.convex.polish import polished
from meshsolve.api.convex.program import LEAST, Program
from meshsolve.api.convex.steps import InteriorPoint
from meshsolve.types import Array

TOL = 1e-10             # of the residuals of both projections
CHECKED = 1e-9          # largest error of a certificate or direction, relative to the summands of its own row
VIOLATED = 1e-10        # violation of a row, relative to its summands, that is no rounding error
FAR = 1e3               # size of x in scaled units at which the error of a certificate must not matter
ZERO = 1e-11            # entries relative to the largest that are rounding errors


@dataclass
class Certificate:
    """Weights of rows, equalities and bounds that no x satisfies together.

    For every x, ``rows @ (C @ x) + equalities @ (Aeq @ x) + bounds @ x`` is 0. If x satisfied all rows, equalities and bounds, it would be
    at most ``support``, which is negative.

    Attributes
    ----------
    rows : (p,) float64
        Of C: positive for ``row_upper``, negative for ``row_lower``.
    equalities : (m,) float64
    bounds : (n,) float64
        Positive for ``upper``, negative for ``lower``, any sign for a fixed row.
    support : float
        Sum of each weight times its bound, with weights whose largest absolute value is 1.
    """

    rows: Array
    equalities: Array
    bounds: Array
    support: float


def no_point(program):
    """(weights of the rows (p,), weights of the unknowns (n,)) in scaled units, or None: no certificate was found."""
    m, n, p = program.model, program.model.n, program.model.p
    if p == 0:
        return None
    model = Model(sp.csr_array(sp.block_diag([sp.csr_array((n, n)), sp.eye_array(p)])), sp.csr_array(sp.hstack([m.G, sp.eye_array(p)])),
                  m.threads, m.device)
    lower = np.r_[program.lower[:n], np.full(p, -np.inf), program.lower[n:]]
    upper = np.r_[program.upper[:n], np.full(p, np.inf), program.upper[n:]]
    point = _solved(model, np.zeros(n + p), lower, upper)
    m.factorizations += model.factorizations
    if point is None:
        return None
    x, u = point[:n], point[n:]
    size = np.maximum(m.G_sizes @ abs(x), LEAST * max(abs(x).max(), 1))
    violated = abs(u) > VIOLATED * np.maximum(size, abs(np.where(u > 0, program.lower[n:], program.upper[n:])))
    return _checked_certificate(program, -u) if violated.any() else None


def no_minimum(program):
    """A direction (n,) of descent without curvature that no bound stops, in scaled units, or None."""
    m, n = program.model, program.model.n
    model = Model(sp.csr_array(sp.eye_array(n)), sp.csr_array(sp.vstack([m.P, m.G])), m.threads, m.device)
    zeros = np.zeros(n)
    lower, upper = (np.where(np.isfinite(bound), 0.0, bound) for bound in (program.lower, program.upper))
    d = _solved(model, program.b / program.slope, np.r_[lower[:n], zeros, lower[n:]], np.r_[upper[:n], zeros, upper[n:]])
    m.factorizations += model.factorizations
    return None if d is None else _checked_direction(program, d)


def _solved(model, b, lower, upper):
    """x in the units of ``lower``, or None for no finite x."""
    program = Program(model, b, lower, upper)
    steps = InteriorPoint(program)
    steps.run(TOL, lambda: False, lambda point: False)
    if steps.best is None:
        return None
    return polished(program, steps.best, 0.0).x * model.columns * program.unit


def _checked_certificate(program, rows):
    m, n = program.model, program.model.n
    lower, upper = program.lower, program.upper
    largest = abs(rows).max(initial=0)
    if not 0 < largest < np.inf:
        return None
    rows = rows / largest
    rows = np.where((abs(rows) <= ZERO) | ~np.isfinite(np.where(rows > 0, upper[n:], lower[n:])), 0, rows)
    bounds = -(m.transposed @ rows)
    size = m.transposed_sizes @ abs(rows)
    free = ~np.isfinite(np.where(bounds > 0, upper[:n], lower[:n]))
    if (abs(bounds)[free] > CHECKED * size[free]).any():
        return None
    left, bounds = abs(bounds)[free].sum(), np.where(free, 0, bounds)
    weights = np.r_[bounds, rows]
    at = np.where(weights > 0, upper, lower)
    products = weights * np.where(weights != 0, at, 0)
    return (rows, bounds) if products.sum() < -max(CHECKED * abs(products).sum(), FAR * left) else None


def _checked_direction(program, d):
    m, n = program.model, program.model.n
    largest = abs(d).max(initial=0)
    if not 0 < largest < np.inf:
        return None
    d = d / largest
    d = np.where(abs(d) <= ZERO, 0, d)
    d = np.clip(d, np.where(np.isfinite(program.lower[:n]), 0, -np.inf), np.where(np.isfinite(program.upper[:n]), 0, np.inf))
    change, size = m.G @ d, np.maximum(m.G_sizes @ abs(d), LEAST)
    stopped = ((np.isfinite(program.lower[n:]) & (change < -CHECKED * size))
               | (np.isfinite(program.upper[n:]) & (change > CHECKED * size)))
    bent = abs(m.P @ d) > CHECKED * np.maximum(m.P_sizes @ abs(d), LEAST)
    gains = program.b * d
    return None if stopped.any() or bent.any() or gains.sum() <= CHECKED * abs(gains).sum() else d
