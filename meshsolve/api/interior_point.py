"""One quadratic program with bounds and equalities: interior point steps on one pattern, then exact active bounds.

A step is a refactorization of A + D, where D is a nonnegative diagonal, and two solves, with equalities up to four.

Without equalities rows step apart: each takes the whole step, up to a share of its own distance to a bound. A bi-Laplacian has
active bounds with multipliers of all sizes. With one step length for all rows, each of them shortens some step of all the others:
weights of 20 handles on 50,000 vertices took 35 refactorizations a handle, and take 25. If the products of slacks and
multipliers no longer fall, all rows take one length.

Invariants: slacks ``sl``, ``su`` and multipliers ``zl``, ``zu`` are positive where a bound is finite, else 1 and 0.

Sources: Mehrotra 1992 (predictor-corrector); Gondzio 1996 (centrality corrections); Nocedal, Wright 2006 (chapter 16.6);
Hintermueller, Ito, Kunisch 2002 (active sets).
"""

from __future__ import annotations

import functools

import numpy as np

from meshsolve.errors import NotPositiveDefiniteError, SingularMatrixError
from meshsolve.report import Report

STEPS = 100             # of the interior point method; 10 to 40 are usual
ACTIVE_SETS = 30        # changes of the active set at the end
IDLE_SETS = 4           # changes in a row that do not lower a residual below tol, after which the set changes no more
IDLE_STEPS = 2          # interior point steps in a row that do not halve the residual: rounding errors are reached
SETTLED = 0.1           # residual relative to tol at which no further step is made
CORRECTIONS = 2         # centrality corrections of a step; each costs a solve, about a fifth of a refactorization
LONGER = 0.08           # by which a correction tries to lengthen a step
CENTRAL = 10.0          # largest ratio of a product of slack and multiplier to their target, and of the target to it, that is not corrected
CUT = 0.05              # smallest slack or multiplier relative to the one before, if rows step apart; 0.02 may not converge
NEARLY_WHOLE = 0.9      # common step length that is preferred to rows that step apart
STALLED = 0.9           # mean product relative to the one before, above which rows no longer step apart
TO_BOUNDARY = 0.995     # share of the way to the nearest bound that a step may go
ROUNDING = 1e-15        # gradient relative to |A| |x| that is rounding error
UNBOUNDED = 1e100       # multiplier over slack that no problem with a point inside its bounds reaches
NEAREST = 1e-17         # smallest slack relative to x: bounds may be met exactly in rounding
OPENED = 1e-9           # width of equal bounds for the interior point method, relative to their value


class Problem:
    """One minimization on the free rows of a :class:`meshsolve.Quadratic`."""

    def __init__(self, quadratic, b, e, lo, hi):
        self.q, self.b, self.e, self.lo, self.hi = quadratic, b, e, lo, hi
        self.has_lo, self.has_hi = np.isfinite(lo), np.isfinite(hi)
        self.steps, self.report, self.x = 0, Report(threads=quadratic._threads), np.zeros(len(b))

    def solve(self, tol):
        """(multipliers of the equalities, active (n,) int8)."""
        free = np.zeros(len(self.b), np.int8)
        if not (self.has_lo | self.has_hi).any():
            self.x, self.y = self._solver(0.0)(self.b, self.e)
            return self.y, free
        with self.report.phase("interior point"):
            y, zl, zu = self._interior_point(tol)
        with self.report.phase("active set"):
            return self._active_set(y, zl, zu, tol)

    def gradient(self):
        return self.q._block @ self.x - self.b

    def scale(self):
        """What residuals are measured against."""
        return max(abs(self.b).max(), abs(self.q._block @ self.x).max(), np.finfo(float).tiny)

    def residual(self, active):
        """Largest violation of the optimality conditions, relative to :meth:`scale`."""
        E = self.q._constraints
        g = self.gradient() - E.T @ self.y
        g = np.where(active < 0, np.minimum(g, 0), np.where(active > 0, np.maximum(g, 0), g))
        g[self.lo == self.hi] = 0                           # held whatever the sign of the multiplier is
        bound = np.where(active < 0, self.lo, np.where(active > 0, self.hi, self.x))
        outside = self._slack(np.maximum(np.maximum(self.lo - self.x, self.x - self.hi), abs(self.x - bound)))
        diagonal = self.q._block.data[self.q._diagonal]
        unit = abs(self.b).max() / (abs(diagonal).max() or 1)         # of x where equalities force it to 0
        size = max(abs(self.e).max(initial=0), abs(self.x).max(), unit, np.finfo(float).tiny)
        off = abs(E @ self.x - self.e).max(initial=0) / size
        with np.errstate(over="ignore"):                    # b = 0 and A x = 0 while bounds are violated
            return float(max(abs(g).max() / self.scale(), outside.max() / self.scale(), off))

    def _solver(self, added, active=None):
        self.steps += 1
        return self.q._solver(added, active)

    def _start(self):
        """(x, zl, zu): the middle of two bounds, a unit inside of one, and multipliers of the mean size of the gradient."""
        lo, hi = np.where(self.has_lo, self.lo, 0), np.where(self.has_hi, self.hi, 0)
        both = self.has_lo & self.has_hi
        unit = (hi - lo)[both].max() / 2 if both.any() else max(1.0, abs(lo).max(), abs(hi).max())
        x = np.where(both, (lo + hi) / 2, np.where(self.has_lo, lo + unit, np.where(self.has_hi, hi - unit, 0.0)))
        size = max(abs(self.q._block @ x - self.b).mean(), np.finfo(float).tiny)
        return x, np.where(self.has_lo, size, 0.0), np.where(self.has_hi, size, 0.0)

    def _interior_point(self, tol):
        """(y, zl, zu) with x, by Mehrotra's predictor-corrector. Equal bounds are opened a little."""
        equal = self.has_lo & (self.lo == self.hi)
        gap = np.where(equal, OPENED * np.maximum(abs(np.where(equal, self.lo, 0)), 1), 0)
        self.x, zl, zu = self._start()
        y, best, idle = np.zeros(len(self.e)), (np.inf, self.x, None, None, None), 0
        apart, last = len(self.e) == 0, np.inf              # equalities couple all rows
        for _ in range(STEPS):
            least = NEAREST * max(abs(self.x).max(), np.finfo(float).tiny)
            sl = np.where(self.has_lo, np.maximum(self.x - self.lo + gap, least), 1.0)
            su = np.where(self.has_hi, np.maximum(self.hi - self.x + gap, least), 1.0)
            dual, primal = self.gradient() - self.q._constraints.T @ y - zl + zu, self.q._constraints @ self.x - self.e
            mu = self._mean_product(sl, su, zl, zu)
            if self._has_small_gaps(primal, mu, tol):
                self.y = y
                left = self.residual(self._held(zl, zu))
                idle = idle + 1 if left >= 0.5 * best[0] and self._is_stationary(dual, tol) else 0
                best = (left, self.x, y, zl, zu) if left < best[0] else best
                if left <= SETTLED * tol or idle == IDLE_STEPS:
                    break
            with np.errstate(divide="ignore", over="ignore"):
                added = zl / sl + zu / su
            if not (added < UNBOUNDED).all():               # no point inside: multipliers grow without bound
                break
            apart, last = apart and mu < STALLED * last, mu
            newton = functools.partial(self._newton, self._solver(added), dual, primal, sl, su, zl, zu)
            self.x, y, zl, zu = self._stepped(newton, y, sl, su, zl, zu, mu, gap, apart)
        if best[0] < np.inf:
            _, self.x, y, zl, zu = best
        return y, zl, zu

    def _stepped(self, newton, y, sl, su, zl, zu, mu, gap, apart):
        """(x, y, zl, zu) after a predictor and a corrector.

        If ``apart``, each row takes the whole step, but no slack or multiplier falls below the share ``CUT`` of itself. Otherwise all
        rows take the same share of a corrected step.
        """
        def cut(values, steps):
            return np.maximum(values + steps, CUT * values)
        dx, _, dzl, dzu = newton(0.0, 0.0)
        if apart:
            after = min(mu, self._mean_product(cut(sl, dx), cut(su, -dx), cut(zl, dzl), cut(zu, dzu)))
        else:
            a, d = self._lengths(sl, su, zl, zu, dx, dzl, dzu, 1.0)
            after = self._mean_product(sl + a * dx, su - a * dx, zl + d * dzl, zu + d * dzu)
        target = mu * (after / mu) ** 3
        products = target - dx * dzl, target + dx * dzu
        dx, dy, dzl, dzu = newton(*products) if apart else self._centered(newton, sl, su, zl, zu, target, *products)
        a, d = self._lengths(sl, su, zl, zu, dx, dzl, dzu, TO_BOUNDARY)
        if apart and min(a, d) < NEARLY_WHOLE:
            x = np.clip(self.x + dx, self.lo - gap + CUT * sl, self.hi + gap - CUT * su)
            return x, y, cut(zl, dzl), cut(zu, dzu)
        return self.x + a * dx, y + d * dy, zl + d * dzl, zu + d * dzu

    def _centered(self, newton, sl, su, zl, zu, target, cl, cu):
        """The step (dx, dy, dzl, dzu) for products ``cl`` and ``cu``, corrected while that makes it longer (Gondzio 1996, section 3).

        Products of slack and multiplier that would be far from ``target`` after a longer step shorten the following steps.
        """
        step = newton(cl, cu)
        for _ in range(CORRECTIONS):
            a, d = self._lengths(sl, su, zl, zu, step[0], *step[2:], 1.0)
            if a + d > 2 - LONGER:
                break
            longer, dual = min(1.0, a + LONGER), min(1.0, d + LONGER)
            products = (sl + longer * step[0]) * (zl + dual * step[2]), (su - longer * step[0]) * (zu + dual * step[3])
            more = [np.maximum(np.clip(after, target / CENTRAL, target * CENTRAL) - after, -CENTRAL * target) for after in products]
            trial = newton(cl + more[0], cu + more[1])
            if sum(self._lengths(sl, su, zl, zu, trial[0], *trial[2:], 1.0)) < a + d + LONGER / 8:
                break
            step, cl, cu = trial, cl + more[0], cu + more[1]
        return step

    def _mean_product(self, sl, su, zl, zu):
        """Mean product of slacks and multipliers."""
        return ((sl * zl)[self.has_lo].sum() + (su * zu)[self.has_hi].sum()) / (self.has_lo.sum() + self.has_hi.sum())

    def _has_small_gaps(self, primal, mu, tol):
        """True if products and equalities are small enough for the active set to be read off."""
        gap = 0.1 * tol * self.scale() * max(abs(self.x).max(), np.finfo(float).tiny)
        return mu <= gap and abs(primal).max(initial=0) <= tol * max(abs(self.e).max(initial=0), 1)

    def _is_stationary(self, dual, tol):
        """True if the gradient is small, or a rounding error."""
        return abs(dual).max() <= max(0.1 * tol * self.scale(), ROUNDING * (self.q._magnitudes @ abs(self.x)).max())

    def _newton(self, solve, dual, primal, sl, su, zl, zu, cl, cu):
        """(dx, dy, dzl, dzu): the step whose products of slack and multiplier become ``cl`` and ``cu``."""
        right = np.where(self.has_lo, cl / sl - zl, 0) - np.where(self.has_hi, cu / su - zu, 0)
        dx, dy = solve(right - dual, -primal)
        return dx, dy, np.where(self.has_lo, (cl - zl * dx) / sl - zl, 0), np.where(self.has_hi, (cu + zu * dx) / su - zu, 0)

    def _lengths(self, sl, su, zl, zu, dx, dzl, dzu, share):
        """(primal, dual) step lengths that keep slacks and multipliers positive."""
        def longest(values, steps, where):
            down = where & (steps < 0)
            return min(1.0, share * float((values[down] / -steps[down]).min(initial=np.inf)))
        a = min(longest(sl, dx, self.has_lo), longest(su, -dx, self.has_hi))
        d = min(longest(zl, dzl, self.has_lo), longest(zu, dzu, self.has_hi))
        return (min(a, d),) * 2 if len(self.e) else (a, d)

    def _active_set(self, y, zl, zu, tol):
        """(y, active). Bounds that the multipliers hold are met exactly. The set changes until all signs are right, or the residual is far
        below ``tol``. The interior point stays if that does not lower the residual."""
        active, self.y = self._held(zl, zu), y
        best, idle = (self.residual(active), self.x, y, active), 0
        for _ in range(ACTIVE_SETS):
            try:
                self._solve_active(active)
            except (SingularMatrixError, NotPositiveDefiniteError):        # on the rows between their bounds: not unique
                break
            now = self.residual(active)
            best, idle = ((now, self.x, self.y, active), 0) if now < best[0] else (best, idle + 1)
            if best[0] <= SETTLED * tol or idle >= IDLE_SETS and best[0] <= tol:
                break
            g = self.gradient() - self.q._constraints.T @ self.y
            lower = (self.has_lo & (self.x < self.lo)) | ((active < 0) & ((g > 0) | (self.lo == self.hi)))
            upper = (self.has_hi & (self.x > self.hi)) | ((active > 0) & (g < 0))
            before, active = active, (upper & ~lower).astype(np.int8) - lower
            if (active == before).all():
                break
        _, self.x, self.y, active = best
        return self.y, active

    def _held(self, zl, zu):
        """(n,) int8: bounds whose multipliers are larger than the distances to them."""
        at_lower = self.has_lo & ((zl > self._slack(self.x - self.lo)) | (self.lo == self.hi))
        at_upper = self.has_hi & (zu > self._slack(self.hi - self.x)) & ~at_lower
        return at_upper.astype(np.int8) - at_lower

    def _solve_active(self, active):
        """x and y with the active rows at their bounds."""
        at = active != 0
        value = np.where(active < 0, self.lo, np.where(active > 0, self.hi, 0.0))
        right = np.where(at, value, self.b - self.q._block @ value)
        x, self.y = self._solver(0.0, at)(right, self.e - self.q._constraints @ value)
        self.x = np.where(at, value, x)

    def _slack(self, distance):
        """A distance to a bound in the unit of multipliers."""
        return distance * abs(self.q._block.data[self.q._diagonal])
