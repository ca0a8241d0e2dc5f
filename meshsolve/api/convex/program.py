"""One convex program in scaled units, and how far a point is from its conditions of optimality.

v = (x, G x) are the unknowns and the rows, with bounds ``lower`` and ``upper`` for both. Multipliers y belong to the rows, and the gradient
z = P x - b - G^T y to the bounds of x. Neither is negative at lower bounds, nor positive at upper ones.

Each residual is relative to the summands of its own row, so a row of another unit counts as much as the others. Where all summands of a
row nearly vanish, ``LEAST`` of the largest size is the unit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve.api.convex.scaling import power_of_two
from meshsolve.types import Array

LEAST = 1e-5            # smallest unit of a residual relative to that of the largest row: 1e-5 times tol is a rounding error
CURVED = 1e-3           # curvature relative to the largest from which b over curvature is a size of x
NONE = 1e20             # bounds beyond this multiple of the size of x count as none
TINY = np.finfo(float).tiny


class Residual(NamedTuple):
    """Largest violations: of bounds and rows, of the gradient, and products of gradient and slack, each relative to its row.

    ``gap`` is the sum of these products, relative to the summands of the primal and the dual objective.
    """

    primal: float
    dual: float
    complementary: float
    gap: float

    @property
    def worst(self):
        return max(self)


class Point(NamedTuple):
    """x (n,), multipliers y of the rows (p,), ``active`` (n + p,) int8 with -1 at lower and 1 at upper bounds, and the residual."""

    x: Array
    y: Array
    active: Array
    residual: Residual


class Program:
    """min 1/2 x^T P x - b^T x with lower <= (x, G x) <= upper, in units in which x and the matrices are about 1.

    Parameters
    ----------
    model : Model
    b, lower, upper : (n,), (n + p,), (n + p,) float64
        In the caller's units.
    sizes : (n + p,) float64, optional
        Of the summands that were moved into b and the bounds of the rows; default 0.

    Attributes
    ----------
    unit : float
        Of x, a power of two.
    slope : float
        Unit of the gradient.
    off : (n + p,) bool
        Unknowns with equal bounds, and rows that bound nothing.
    sides : (n,) int8
        Side of equal bounds, -1 or 1. An unknown with neither curvature nor rows lies at the bound to which b points.
    endless : int
        Such an unknown without that bound, -1 for no such unknown.
    ignored : int
        Bounds that count as none.
    """

    def __init__(self, model, b, lower, upper, sizes=None, presolve=True):
        self.model, n, self._given = model, model.n, (model, b, lower, upper, sizes)
        scale = np.r_[1 / model.columns, model.rows]
        b, lower, upper = b * model.columns * model.cost, lower * scale, upper * scale
        tight = model.presolve.tightened(lower, upper) if presolve else None
        self.is_presolved = tight is not None
        lower, upper, self.sources = tight or (lower, upper, np.full((2, n), -1))
        held = lower == upper                               # they say nothing about the size of the others
        counts = ~np.r_[held[:n] | model.presolve.idle & presolve, np.zeros(model.p, bool)]
        size, least = self._sizes(b, lower, upper, counts)
        with np.errstate(over="ignore"):
            far_below, far_above = (np.isfinite(x) & ~held & (s * x / size > NONE) for s, x in ((-1, lower), (1, upper)))
        self.ignored = int(far_below.sum() + far_above.sum())
        self.unit = power_of_two(size)
        self._least = min(least / self.unit, 1.0)
        with np.errstate(over="ignore"):
            self.b = b / self.unit
            self.lower, self.upper = np.where(far_below, -np.inf, lower) / self.unit, np.where(far_above, np.inf, upper) / self.unit
        moved = np.zeros(n + model.p) if sizes is None else sizes
        self.moved = np.r_[moved[:n] * model.columns * model.cost, moved[n:] * model.rows] / self.unit
        largest = max(abs(self.b[self.lower[:n] != self.upper[:n]]).max(initial=0), model.P_sizes.data.max(initial=0))
        self.slope = power_of_two(largest) if largest > 0 else 1.0
        self.sides, self.endless = np.full(n, -1, np.int8), -1
        if self.is_presolved:
            x, self.sides, self.endless = model.presolve.placed(b, self.lower[:n], self.upper[:n])
            placed = model.presolve.idle & np.isfinite(x)
            self.lower[:n][placed] = self.upper[:n][placed] = x[placed]
        self.equal = self.lower == self.upper
        self.has_lower, self.has_upper = np.isfinite(self.lower) & ~self.equal, np.isfinite(self.upper) & ~self.equal
        unbounded = ~np.isfinite(self.lower) & ~np.isfinite(self.upper)
        empty = model.G_sizes @ (~self.equal[:n]).astype(float) == 0
        self.off = np.r_[self.equal[:n], unbounded[n:] | empty]

    def plain(self):
        """The same program with all its rows."""
        return Program(*self._given, presolve=False) if self.is_presolved else self

    def finished(self, point):
        """The point with multipliers of the rows that presolve made bounds, and with all bounds that are active."""
        m, n = self.model, self.model.n
        gradient, y = m.gradient(point.x, point.y, self.b), point.y.copy()
        lower, upper = (point.x == self.lower[:n]) & (gradient > 0), (point.x == self.upper[:n]) & (gradient < 0)
        active = np.where(lower, -1, np.where(upper, 1, point.active[:n])).astype(np.int8)
        entry = np.zeros(m.p)
        entry[m.presolve.rows] = m.presolve.entries
        for source, at in zip(self.sources, (lower, upper), strict=True):
            k = np.flatnonzero((source >= 0) & at)
            y[source[k]] = gradient[k] / entry[source[k]]
            active[k] = 0                                   # of the bounds of x itself
        return point._replace(y=y, active=np.r_[active, point.active[n:]])

    def allowed(self, y):
        """Multipliers of rows without those whose bound is infinite."""
        n = self.model.n
        return np.where((y > 0) & ~np.isfinite(self.lower[n:]) | (y < 0) & ~np.isfinite(self.upper[n:]), 0, y)

    def reach(self, x):
        """Largest absolute value of the unknowns that are not bounded on both sides."""
        open_ = ~np.isfinite(self.lower[:self.model.n]) | ~np.isfinite(self.upper[:self.model.n])
        return float(abs(x[open_]).max(initial=0))

    def clipped(self, x):
        """x inside its bounds."""
        return np.clip(x, self.lower[:self.model.n], self.upper[:self.model.n])

    def residual(self, x, y):
        """The :class:`Residual` of x and the multipliers y of the rows, both in scaled units."""
        n, m = self.model.n, self.model
        least = LEAST * max(abs(x[~self.equal[:n]]).max(initial=0), self._least)
        v = np.r_[x, m.G @ x]
        unit_v = np.maximum(np.r_[abs(x), np.maximum(m.G_sizes @ abs(x), self.moved[n:])], least)
        below, above = self.lower - v, v - self.upper
        near = np.where(below > above, self.lower, self.upper)
        out = np.maximum(np.maximum(below, above), 0)
        primal = out / np.maximum(unit_v, np.where(np.isfinite(near), abs(near), 0))
        gradient = m.gradient(x, y, self.b)
        unit_x = np.maximum.reduce([abs(self.b), self.moved[:n], m.P_sizes @ abs(x), m.transposed_sizes @ abs(y)])
        unit_x = np.maximum(unit_x, LEAST * self.slope)
        unit_z = np.r_[unit_x, np.maximum(abs(y), LEAST * self.slope)]
        z = np.r_[gradient, y]
        bound = np.where(z > 0, self.lower, self.upper)
        held = np.isfinite(bound)
        dual = np.where(held, 0, abs(z) / unit_z)
        slack = np.where(held & ~self.equal, np.maximum(np.where(z > 0, v - self.lower, self.upper - v), 0), 0)
        shares = abs(z) / unit_z * np.minimum(slack / np.maximum(unit_v, np.where(held, abs(bound), 0)), 1)
        value = 0.5 * abs(x) @ (m.P_sizes @ abs(x)) + abs(self.b) @ abs(x) + abs(z) @ np.where(held, abs(bound), 0)
        value = max(value, LEAST * unit_x @ unit_v[:n], TINY)
        return Residual(*(float(part) for part in (primal.max(initial=0), dual.max(initial=0), shares.max(initial=0),
                                                   abs(z) @ slack / value)))

    def _sizes(self, b, lower, upper, counts):
        """(largest, least) size of x: at the minimum without bounds, or as bounds force it to be; else the smallest bound."""
        n, curvature = self.model.n, self.model.P.diagonal()
        peak, slopes = abs(self.model.P.data).max(initial=0), abs(b[counts[:n]])
        curved = counts[:n] & (curvature > CURVED * curvature.max(initial=0))
        own = (abs(b[curved]) / curvature[curved]).max(initial=0)
        forced = np.where(counts, np.maximum(np.maximum(lower, -upper), 0), 0)
        forced = forced[np.isfinite(forced)].max(initial=0)
        other = _smallest(np.r_[lower[counts], upper[counts]]) or _smallest(np.r_[lower, upper]) or 1.0
        return float(max(slopes.max(initial=0) / peak if peak > 0 else 0, forced) or other), float(max(own, forced) or other)


def _smallest(bounds):
    sizes = abs(bounds[np.isfinite(bounds) & (bounds != 0)])
    return float(sizes.min()) if len(sizes) else 0.0
