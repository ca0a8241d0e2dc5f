"""Primal-dual interior point steps for a program with rows: predictor, corrector, centrality corrections.

The unknowns are v = (x, s), where s are the values of the rows; v stays inside its bounds, and G x = s holds at the end. A step solves
[P + D + r, G^T; G, -(W + r)] with D and W from slacks and multipliers and a regularization r that falls with the products. It moves the
point around which the regularization is centered, so it changes no solution: dependent rows and unknowns without curvature are allowed.

Invariants: slacks and multipliers are positive where a bound is finite, else 1 and 0.

Sources: Mehrotra 1992 (predictor-corrector); Gondzio 1996 (centrality corrections); Friedlander, Orban 2012 (regularization);
Schwan, Jiang, Kuhn, Jones 2023 (a proximal interior point method).
"""

from __future__ import annotations

import numpy as np

from meshsolve.api.convex.program import TINY, Point

STEPS = 200             # 10 to 40 are usual
SETTLED = 1e-2          # residual relative to tol at which no further step is made
NEAR = 1e-5             # residual at which the active set is likely to be the final one
IDLE = 15               # steps in a row without progress, after which rounding errors are reached or there is no minimum
PROGRESS = 0.7          # of a residual or the mean product, relative to the smallest before
ROUNDED = 1e-18         # below this in scaled units neither counts as progress
REGULAR = (1e-10, 1e-12), (1e-8, 1e-11)     # largest and smallest regularization, relative to the scaled matrices, of each attempt
RELIEF = 1e-2           # factor of the regularization if a whole step does not lower the residual of rows, or of the gradient
LEAST_RELIEF = 1e-10    # smallest product of such factors
PER_PRODUCT = 0.1       # regularization relative to the mean product of slacks and multipliers
INSIDE = 0.25           # largest distance of the first point from a bound, relative to the distance of both bounds
WHOLE = 0.9             # step length of a step that should lower residuals
TO_BOUNDARY = 0.99      # share of the way to the nearest bound that a step may go, at least
CORRECTIONS = 2         # centrality corrections of a step; each costs a solve
LONGER = 0.1            # by which a correction tries to lengthen a step
CENTRAL = 10.0          # largest ratio of a product of slack and multiplier to their target, and of the target to it, that is not corrected
NEAREST = 1e-18         # smallest slack relative to v
HOLDING = 1e-20, 1e25   # range of multiplier over slack
DIVERGED = 1e8          # size of x or of a multiplier in scaled units, above which there may be no point or no minimum


class InteriorPoint:
    """The steps for one :class:`meshsolve.api.convex.program.Program`.

    Attributes
    ----------
    best : Point
        The best point so far.
    """

    def __init__(self, program, attempt=0):
        self.program, self.model, self.n = program, program.model, program.model.n
        self.has_lower, self.has_upper = program.has_lower & ~program.off, program.has_upper & ~program.off
        self._count = self.has_lower.sum() + self.has_upper.sum()
        self._moves = ~(program.equal | program.off)                # rows and unknowns that are not held
        self._couples = bool(self.model.P.data.any())
        self.best, self._least, self._regularity = None, {}, REGULAR[attempt]
        self._relief, self._before, self._whole = np.ones(2), None, False

    def run(self, tol, on_divergence, on_nearness):
        """Step until the residual is far below ``tol`` or no longer falls.

        ``on_divergence()`` is called once if the iterates grow, ``on_nearness(point)`` once near a minimum; True ends the steps.
        """
        self._start()
        idle, asked, tried = 0, False, False
        for _ in range(STEPS):
            self._measure(tol)
            if self.best.residual.worst <= SETTLED * tol:
                break
            if self.best.residual.worst <= NEAR and not tried:
                tried = True
                if on_nearness(self.best):
                    break
            idle = 0 if self._has_progressed() else idle + 1
            size = max(abs(self.v).max(initial=0), abs(self.y).max(initial=0) / self.program.slope)
            if idle >= IDLE or not np.isfinite(size):
                break
            if size > DIVERGED and not asked:
                asked = True
                if on_divergence():
                    break
            self._step()

    def _start(self):
        """The minimum with a unit curvature toward the bounds, moved inside the bounds; multipliers of the size of the gradient.

        The matrix does not depend on the problem, so neither do the scaling and the pivots of later factors.
        """
        p, n, m = self.program, self.n, self.model
        anchor, unit = np.clip(0, p.lower, p.upper), 1.0 if self._couples else p.slope
        m.factor(np.ones(n), np.ones(m.p), np.zeros(n + m.p, bool))
        x, y = m.solve(p.b / unit + anchor[:n], anchor[n:])
        x, self.y = np.where(p.equal[:n], p.lower[:n], x), np.where(p.off[n:], 0, unit * y)
        v, slopes = np.r_[x, m.G @ x], np.r_[m.gradient(x, self.y, p.b), self.y]
        lower, upper = np.where(self.has_lower, p.lower, -np.inf), np.where(self.has_upper, p.upper, np.inf)
        outside = np.maximum(np.maximum(lower - v, v - upper), 0)
        gap = np.minimum(max(1.0, outside.max(initial=0)), INSIDE * (upper - lower))
        gap = np.where(np.isfinite(lower) | np.isfinite(upper), gap, 0)
        self.v = np.where(p.equal, p.lower, np.clip(v, lower + gap, upper - gap))
        size = max(p.slope, abs(slopes[self.has_lower | self.has_upper]).max(initial=0))
        self.zl = np.where(self.has_lower, np.maximum(slopes, 0) + size, 0.0)
        self.zu = np.where(self.has_upper, np.maximum(-slopes, 0) + size, 0.0)

    def _measure(self, tol):
        """Slacks, residuals and mean product at the current point; keep it if it is the best."""
        p, n, m = self.program, self.n, self.model
        nearest = NEAREST * np.maximum(abs(self.v), 1)
        self.sl = np.where(self.has_lower, np.maximum(self.v - p.lower, nearest), 1.0)
        self.su = np.where(self.has_upper, np.maximum(p.upper - self.v, nearest), 1.0)
        x = self.v[:n]
        self.primal = np.where(p.off[n:], 0, m.G @ x - self.v[n:])
        self.dual = np.r_[m.gradient(x, self.y, p.b), self.y] - self.zl + self.zu
        self.dual[p.off | np.r_[np.zeros(n, bool), p.equal[n:]]] = 0
        self.mean = self._mean_product(self.sl, self.su, self.zl, self.zu)
        x, y = p.clipped(x), np.where(p.equal[n:] | p.off[n:], self.y, (self.zl - self.zu)[n:])
        now = p.residual(x, y)
        if self.best is None or not now.worst >= self.best.residual.worst:
            lower, upper = self.has_lower & (self.zl > self.sl * p.slope), self.has_upper & (self.zu > self.su * p.slope)
            self.best = Point(x, y, upper.astype(np.int8) - (lower & ~upper), now)
        self._now = now
        sizes = np.array([abs(self.dual[:n]).max(), abs(self.primal).max(initial=0)])
        if self._whole:
            stays = (sizes > 0.5 * self._before) & (np.array([now.dual, now.primal]) > SETTLED * tol)
            self._relief = np.where(stays, np.maximum(RELIEF * self._relief, LEAST_RELIEF), self._relief)
        self._before = sizes

    def _has_progressed(self):
        """True if a residual or the mean product is clearly smaller than ever before."""
        found = False
        for name, value in (("worst", self._now.worst), ("mean", self.mean), ("primal", abs(self.primal).max(initial=0)),
                            ("dual", abs(self.dual).max(initial=0)), ("gap", self._now.gap)):
            if ROUNDED < value < PROGRESS * self._least.get(name, np.inf):
                self._least[name], found = value, True
        return found

    def _step(self):
        m, n = self.model, self.n
        self._hold = np.where(self._moves, self.zl / self.sl + self.zu / self.su, 0)
        slope = self.program.slope
        self._hold = np.where(self.has_lower | self.has_upper, np.clip(self._hold, HOLDING[0] * slope, HOLDING[1] * slope), self._hold)
        self._w = np.where(self._moves[n:], 1 / np.where(self._moves[n:], self._hold[n:], 1), 0)
        r, q = self._regular(self.mean)
        m.factor(self._hold[:n] + r, self._w + q, self.program.off)
        if not self._count:
            dv, dy, _, _ = self._newton(0.0, 0.0)
            self.v, self.y, self._whole = self.v + dv, self.y + dy, True
            return
        step = self._corrected(*self._predicted())
        a, d = self._lengths(step, max(TO_BOUNDARY, 1 - self.mean / slope))
        self._whole = min(a, d) > WHOLE
        self.v, self.y, self.zl, self.zu = self.v + a * step[0], self.y + d * step[1], self.zl + d * step[2], self.zu + d * step[3]

    def _regular(self, mean):
        """Regularization of unknowns and rows."""
        slope, (most, least) = self.program.slope, self._regularity
        r = max(least, min(most, PER_PRODUCT * mean / slope if self._count else 0.0))
        return r * slope * self._relief[0], r / slope * self._relief[1]

    def _predicted(self):
        """(target of the products, corrections of the lower and of the upper products), from a step without centering."""
        step = self._newton(0.0, 0.0)
        a, d = self._lengths(step, 1.0)
        dv, _, dzl, dzu = step
        after = self._mean_product(self.sl + a * dv, self.su - a * dv, self.zl + d * dzl, self.zu + d * dzu)
        target = self.mean * min(max(after / max(self.mean, TINY), 0.0), 1.0) ** 3
        return target, target - dv * dzl, target + dv * dzu

    def _corrected(self, target, cl, cu):
        """The step for products ``cl`` and ``cu``, corrected while that makes it longer (Gondzio 1996, section 3)."""
        step = self._newton(cl, cu)
        for _ in range(CORRECTIONS):
            a, d = self._lengths(step, 1.0)
            if a + d > 2 - LONGER:
                break
            longer, dual = min(1.0, a + LONGER), min(1.0, d + LONGER)
            products = (self.sl + longer * step[0]) * (self.zl + dual * step[2]), (self.su - longer * step[0]) * (self.zu + dual * step[3])
            more = [np.maximum(np.clip(q, target / CENTRAL, target * CENTRAL) - q, -CENTRAL * target) for q in products]
            trial = self._newton(cl + more[0], cu + more[1])
            if sum(self._lengths(trial, 1.0)) < a + d + LONGER / 8:
                break
            step, cl, cu = trial, cl + more[0], cu + more[1]
        return step

    def _newton(self, cl, cu):
        """(dv, dy, dzl, dzu): the step whose products of slack and multiplier become ``cl`` and ``cu``."""
        n, lower, upper = self.n, self.has_lower, self.has_upper
        right = np.where(lower, cl / self.sl - self.zl, 0) - np.where(upper, cu / self.su - self.zu, 0) - self.dual
        dx, dy = self.model.solve(right[:n], self._w * right[n:] - self.primal)
        dv = np.r_[dx, self._w * (right[n:] - dy)]
        return (dv, dy, np.where(lower, (cl - self.zl * dv) / self.sl - self.zl, 0),
                np.where(upper, (cu + self.zu * dv) / self.su - self.zu, 0))

    def _mean_product(self, sl, su, zl, zu):
        return ((sl * zl)[self.has_lower].sum() + (su * zu)[self.has_upper].sum()) / max(self._count, 1)

    def _lengths(self, step, share):
        """(primal, dual) step lengths that keep slacks and multipliers positive; one length if there is curvature."""
        def longest(values, change, where):
            down = where & (change < 0)
            return min(1.0, share * float((values[down] / -change[down]).min(initial=np.inf)))
        dv, _, dzl, dzu = step
        a = min(longest(self.sl, dv, self.has_lower), longest(self.su, -dv, self.has_upper))
        d = min(longest(self.zl, dzl, self.has_lower), longest(self.zu, dzu, self.has_upper))
        return (min(a, d),) * 2 if self._couples else (a, d)
