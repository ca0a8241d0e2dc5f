"""Active bounds and rows made exact: Newton steps on the active set of a point, while that lowers its residual.

The factor is slightly regularized, and each step starts at the residual of the last, so dependent rows do no harm, and of several minima
the nearest is found. Source: Stellato et al. 2020, "OSQP", section 5.2 (polishing), with changes of the active set.
"""

from __future__ import annotations

import numpy as np

from meshsolve.api.convex.program import Point

SETS = 8                # changes of the active set; one or two are usual
IDLE_SETS = 2           # changes in a row that do not lower the residual
REFINED = 4             # Newton steps on one set
REGULAR = 1e-11         # regularization relative to the scaled matrices
EXACT = 1e-14           # residual that is a rounding error
SETTLED = 1e-2          # residual relative to tol at which the set changes no more


def polished(program, start, tol, sets=SETS):
    """The best :class:`meshsolve.api.convex.program.Point` of the active sets that begin with that of ``start``, and ``start``."""
    best, active, idle, p = start, _with_equal(program, start.active), 0, program
    x, y = start.x, start.y
    for _ in range(sets):
        x, y = _on_set(p, x, y, active)
        if not (np.isfinite(x).all() and np.isfinite(y).all()):
            break
        inside, allowed = p.clipped(x), p.allowed(y)
        now = Point(inside, allowed, active, p.residual(inside, allowed))
        idle = 0 if now.residual.worst < best.residual.worst else idle + 1
        best = now if now.residual.worst <= best.residual.worst else best
        if best.residual.worst <= SETTLED * tol or idle == IDLE_SETS:
            break
        before, active = active, _changed(p, x, y, active)
        if (active == before).all():
            break
    return best._replace(active=_with_equal(program, best.active))


def _with_equal(program, active):
    sides = np.r_[program.sides, np.full(program.model.p, -1, np.int8)]
    return np.where(program.equal & ~active.astype(bool), sides, active).astype(np.int8)


def _on_set(program, x, y, active):
    """x and y with the active bounds and rows as equalities."""
    p, m, n = program, program.model, program.model.n
    at = active != 0
    value = np.where(active < 0, p.lower, np.where(active > 0, p.upper, 0.0))
    off = p.off.copy()
    off[:n] |= at[:n]
    off[n:] |= ~at[n:]
    x, y = np.where(at[:n], value[:n], x), np.where(off[n:], 0, y)
    m.factor(np.full(n, REGULAR * p.slope), np.full(m.p, REGULAR / p.slope), off)
    left = np.inf
    for _ in range(REFINED):
        dx, dy = m.solve(-m.gradient(x, y, p.b), value[n:] - m.G @ x)
        x, y = x + dx, y + dy
        last, left = left, max(abs(dx).max(initial=0), abs(dy).max(initial=0) / p.slope)
        if left <= EXACT or not left < last:
            break
    return x, y


def _changed(program, x, y, active):
    """The active set with violated bounds and rows, and without those whose multiplier has the wrong sign."""
    p, m = program, program.model
    v, z = np.r_[x, m.G @ x], np.r_[m.gradient(x, y, p.b), y]
    lower = ~p.equal & np.isfinite(p.lower) & ((v < p.lower) & (active == 0) | (active < 0) & (z >= 0))
    upper = ~p.equal & np.isfinite(p.upper) & ((v > p.upper) & (active == 0) | (active > 0) & (z <= 0)) & ~lower
    out = upper.astype(np.int8) - lower
    out[p.off & ~p.equal] = 0
    return _with_equal(p, out)
