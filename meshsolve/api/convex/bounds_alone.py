"""Bounds without rows: interior point steps on Cholesky factors of one pattern, then exact active bounds.

A step is a refactorization of A + D, where D is a nonnegative diagonal, and two solves.

Rows step apart: each takes the whole step, up to a share of its own distance to a bound. A bi-Laplacian has active bounds with
multipliers of all sizes. With one step length for all rows, each of them shortens some step of all the others: weights of 20 handles
on 50,000 vertices took 35 refactorizations a handle, and take 25. If the products of slacks and multipliers no longer fall, all rows
take one length.

Invariants: slacks ``sl``, ``su`` and multipliers ``zl``, ``zu`` are positive where a bound is finite, else 1 and 0.

Sources: Mehrotra 1992 (predictor-corrector); Gondzio 1996 (centrality corrections); Nocedal, Wright 2006 (chapter 16.6);
Hintermueller, Ito, Kunisch 2002 (active sets).
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp

from meshsolve.api.definite import cholesky
from meshsolve.errors import NotPositiveDefiniteError

STEPS = 100             # of the interior point method; 10 to 40 are usual
ACTIVE_SETS = 30        # changes of the active set at the end
IDLE_SETS = 4           # changes in a row that do not lower a residual below tol, after which the set changes no more
IDLE_STEPS = 2          # interior point steps in a row that do not halve the residual: rounding errors are reached
SETTLED = 0.1           # residual relative to tol at which the active set changes no more
CORRECTIONS = 2         # centrality corrections of a step; each costs a solve, about a fifth of a refactorization
LONGER = 0.08           # by which a correction tries to lengthen a step
CENTRAL = 10.0          # largest ratio of a product of slack and multiplier to their target, and of the target to it, that is not corrected
CUT = 0.05              # smallest slack or multiplier relative to the one before, if rows step apart; 0.02 may not converge
NEARLY_WHOLE = 0.9      # common step length that is preferred to rows that step apart
STALLED = 0.9           # mean product relative to the one before, above which rows no longer step apart
TO_BOUNDARY = 0.995     # share of the way to the nearest bound that a step may go
ROUNDING = 1e-15        # gradient relative to |A| |x| that is rounding error
UNBOUNDED = 1e100       # multiplier over slack that no problem with a minimum reaches
NEAREST = 1e-17         # smallest slack relative to x: bounds may be met exactly in rounding
OPENED = 1e-9           # width of equal bounds for the interior point method, relative to their value


class Shifted:
    """Cholesky factors of A + D, with one analysis.

    Attributes
    ----------
    block : csr_array
        A with its whole diagonal stored.
    factorizations : int
        Number so far.
    """

    def __init__(self, A, device, threads):
        self.block = _with_diagonal(A)
        self._device, self._threads, self.factorizations, self._factor, self._is_of_A = device, threads, 0, None, False
        self._rows = np.repeat(np.arange(A.shape[0]), np.diff(self.block.indptr))
        self._at = np.flatnonzero(self._rows == self.block.indices)
        self.diagonal = self.block.data[self._at]

    @functools.cached_property
    def magnitudes(self):
        return abs(self.block)

    def solver(self, added, active=None):
        """Callable that solves (A + diag(added)) x = f; ``active`` rows of x are f itself. The factor of A itself is kept."""
        of_A = active is None and np.ndim(added) == 0 and added == 0
        if of_A and self._is_of_A:
            return self._factor.solve
        data = self.block.data.copy()
        data[self._at] += added
        if active is not None and active.any():
            data[active[self._rows] | active[self.block.indices]] = 0
            data[self._at[active]] = 1
        H = sp.csr_array((data, self.block.indices, self.block.indptr), shape=self.block.shape)
        if self._factor is None:
            self._factor = cholesky(H, device=self._device, threads=self._threads)
        elif of_A:                                          # a refactorization would not warn that A is singular
            self._factor = self._factor.symbolic.factor(H, device=self._device, threads=self._threads)
        else:
            self._factor._refactor_values(data)
        self.factorizations += 1
        self._is_of_A = of_A
        return self._factor.solve


class BoundsAlone:
    """One minimization of 1/2 x^T A x - b^T x with bounds, in the caller's units.

    ``measure(x)`` is the residual that counts in the end, relative to each row; steps use one relative to the largest row.

    Attributes
    ----------
    x : (n,) float64
    active : (n,) int8
        -1 at lower bounds, 1 at upper bounds.
    """

    def __init__(self, shifted, b, lo, hi, measure):
        self.q, self.b, self.lo, self.hi, self._measure = shifted, b, lo, hi, measure
        self.has_lo, self.has_hi = np.isfinite(lo), np.isfinite(hi)
        self.x, self.active = np.zeros(len(b)), np.zeros(len(b), np.int8)

    def solve(self, tol, report):
        """True if a point was found. Its residual must be checked."""
        try:
            with report.phase("interior point"), np.errstate(over="ignore", invalid="ignore"):
                zl, zu = self._interior_point(tol)
            with report.phase("active set"), np.errstate(over="ignore", invalid="ignore"):
                self._active_set(zl, zu, tol)
        except NotPositiveDefiniteError:                    # no curvature, and bounds too far away to add some
            return False
        self.x = np.clip(self.x, self.lo, self.hi)          # an inactive bound may be passed by a rounding error
        return bool(np.isfinite(self.x).all())

    def _interior_point(self, tol):
        """(zl, zu) with x, by Mehrotra's predictor-corrector. Equal bounds are opened a little."""
        equal = self.has_lo & (self.lo == self.hi)
        gap = np.where(equal, OPENED * np.maximum(abs(np.where(equal, self.lo, 0)), 1), 0)
        self.x, zl, zu = self._start()
        best, idle = (np.inf, self.x, zl, zu), 0
        apart, last = True, np.inf
        unit = max(abs(self.b).max() / abs(self.q.diagonal).max(), np.finfo(float).tiny)        # of x, where bounds force it to 0
        for _ in range(STEPS):
            least = NEAREST * max(abs(self.x).max(), np.finfo(float).tiny)
            sl = np.where(self.has_lo, np.maximum(self.x - self.lo + gap, least), 1.0)
            su = np.where(self.has_hi, np.maximum(self.hi - self.x + gap, least), 1.0)
            dual = self._gradient() - zl + zu
            mu = self._mean_product(sl, su, zl, zu)
            if mu <= 0.1 * tol * self._scale() * max(abs(self.x).max(), unit):     # the active set can be read off
                left = self._residual(self._held(zl, zu))
                idle = idle + 1 if left >= 0.5 * best[0] and self._is_stationary(dual, tol) else 0
                best = (left, self.x, zl, zu) if left < best[0] else best
                if left <= tol or idle == IDLE_STEPS:
                    break
            with np.errstate(divide="ignore", over="ignore"):
                added = zl / sl + zu / su
            if not (added < UNBOUNDED).all():
                break
            apart, last = apart and mu < STALLED * last, mu
            newton = functools.partial(self._newton, self.q.solver(added), dual, sl, su, zl, zu)
            self.x, zl, zu = self._stepped(newton, sl, su, zl, zu, mu, gap, apart)
            if not np.isfinite(self.x).all():
                break
        if best[0] < np.inf:
            _, self.x, zl, zu = best
        return zl, zu

    def _start(self):
        """(x, zl, zu): the middle of two bounds, a unit inside of one, and multipliers of the mean size of the gradient."""
        lo, hi = np.where(self.has_lo, self.lo, 0), np.where(self.has_hi, self.hi, 0)
        both = self.has_lo & self.has_hi
        unit = (hi - lo)[both].max() / 2 if both.any() else max(1.0, abs(lo).max(), abs(hi).max())
        x = np.where(both, (lo + hi) / 2, np.where(self.has_lo, lo + unit, np.where(self.has_hi, hi - unit, 0.0)))
        size = max(abs(self.q.block @ x - self.b).mean(), np.finfo(float).tiny)
        return x, np.where(self.has_lo, size, 0.0), np.where(self.has_hi, size, 0.0)

    def _gradient(self):
        return self.q.block @ self.x - self.b

    def _mean_product(self, sl, su, zl, zu):
        """Mean product of slacks and multipliers."""
        return ((sl * zl)[self.has_lo].sum() + (su * zu)[self.has_hi].sum()) / (self.has_lo.sum() + self.has_hi.sum())

    def _scale(self):
        """Unit of the residuals that end the steps."""
        return max(abs(self.b).max(), abs(self.q.block @ self.x).max(), np.finfo(float).tiny)

    def _residual(self, active):
        """Largest violation of the optimality conditions, relative to the unit."""
        g = self._gradient()
        g = np.where(active < 0, np.minimum(g, 0), np.where(active > 0, np.maximum(g, 0), g))
        g[self.lo == self.hi] = 0                           # held whatever the sign of the multiplier is
        bound = np.where(active < 0, self.lo, np.where(active > 0, self.hi, self.x))
        outside = self._slack(np.maximum(np.maximum(self.lo - self.x, self.x - self.hi), abs(self.x - bound)))
        with np.errstate(over="ignore"):                    # b = 0 and A x = 0 while bounds are violated
            return float(max(abs(g).max() / self._scale(), outside.max() / self._scale()))

    def _slack(self, distance):
        """A distance to a bound in the unit of multipliers."""
        return distance * abs(self.q.diagonal)

    def _held(self, zl, zu):
        """(n,) int8: bounds whose multipliers are larger than the distances to them."""
        at_lower = self.has_lo & ((zl > self._slack(self.x - self.lo)) | (self.lo == self.hi))
        at_upper = self.has_hi & (zu > self._slack(self.hi - self.x)) & ~at_lower
        return at_upper.astype(np.int8) - at_lower

    def _is_stationary(self, dual, tol):
        """True if the gradient is small, or a rounding error."""
        return abs(dual).max() <= max(0.1 * tol * self._scale(), ROUNDING * (self.q.magnitudes @ abs(self.x)).max())

    def _newton(self, solve, dual, sl, su, zl, zu, cl, cu):
        """(dx, dzl, dzu): the step whose products of slack and multiplier become ``cl`` and ``cu``."""
        right = np.where(self.has_lo, cl / sl - zl, 0) - np.where(self.has_hi, cu / su - zu, 0) - dual
        if not np.isfinite(right).all():                    # the steps end
            return np.full(len(right), np.nan), zl, zu
        dx = solve(right)
        return dx, np.where(self.has_lo, (cl - zl * dx) / sl - zl, 0), np.where(self.has_hi, (cu + zu * dx) / su - zu, 0)

    def _stepped(self, newton, sl, su, zl, zu, mu, gap, apart):
        """(x, zl, zu) after a predictor and a corrector.

        If ``apart``, each row takes the whole step, but no slack or multiplier falls below the share ``CUT`` of itself. Otherwise all
        rows take the same share of a corrected step.
        """
        def cut(values, steps):
            return np.maximum(values + steps, CUT * values)
        dx, dzl, dzu = newton(0.0, 0.0)
        if apart:
            after = min(mu, self._mean_product(cut(sl, dx), cut(su, -dx), cut(zl, dzl), cut(zu, dzu)))
        else:
            a, d = self._lengths(sl, su, zl, zu, dx, dzl, dzu, 1.0)
            after = self._mean_product(sl + a * dx, su - a * dx, zl + d * dzl, zu + d * dzu)
        target = mu * (after / mu) ** 3
        products = target - dx * dzl, target + dx * dzu
        dx, dzl, dzu = newton(*products) if apart else self._centered(newton, sl, su, zl, zu, target, *products)
        a, d = self._lengths(sl, su, zl, zu, dx, dzl, dzu, TO_BOUNDARY)
        if apart and min(a, d) < NEARLY_WHOLE:
            x = np.clip(self.x + dx, self.lo - gap + CUT * sl, self.hi + gap - CUT * su)
            return x, cut(zl, dzl), cut(zu, dzu)
        return self.x + a * dx, zl + d * dzl, zu + d * dzu

    def _lengths(self, sl, su, zl, zu, dx, dzl, dzu, share):
        """(primal, dual) step lengths that keep slacks and multipliers positive."""
        def longest(values, steps, where):
            down = where & (steps < 0)
            return min(1.0, share * float((values[down] / -steps[down]).min(initial=np.inf)))
        return (min(longest(sl, dx, self.has_lo), longest(su, -dx, self.has_hi)),
                min(longest(zl, dzl, self.has_lo), longest(zu, dzu, self.has_hi)))

    def _centered(self, newton, sl, su, zl, zu, target, cl, cu):
        """The step (dx, dzl, dzu) for products ``cl`` and ``cu``, corrected while that makes it longer (Gondzio 1996, section 3).

        Products of slack and multiplier that would be far from ``target`` after a longer step shorten the following steps.
        """
        step = newton(cl, cu)
        for _ in range(CORRECTIONS):
            a, d = self._lengths(sl, su, zl, zu, *step, 1.0)
            if a + d > 2 - LONGER:
                break
            longer, dual = min(1.0, a + LONGER), min(1.0, d + LONGER)
            products = (sl + longer * step[0]) * (zl + dual * step[1]), (su - longer * step[0]) * (zu + dual * step[2])
            more = [np.maximum(np.clip(after, target / CENTRAL, target * CENTRAL) - after, -CENTRAL * target) for after in products]
            trial = newton(cl + more[0], cu + more[1])
            if sum(self._lengths(sl, su, zl, zu, *trial, 1.0)) < a + d + LONGER / 8:
                break
            step, cl, cu = trial, cl + more[0], cu + more[1]
        return step

    def _active_set(self, zl, zu, tol):
        """Meet bounds exactly that the multipliers hold. The set changes until all signs are right, or the residual is far below
        ``tol``. The interior point stays if that does not lower the residual."""
        active = self._held(zl, zu)
        best, idle = (self._worst(active), self.x, active), 0
        for _ in range(ACTIVE_SETS):
            try:
                self._solve_active(active)
            except NotPositiveDefiniteError:                # on the rows between their bounds: not unique
                break
            now = self._worst(active)
            best, idle = ((now, self.x, active), 0) if now < best[0] else (best, idle + 1)
            if best[0] <= SETTLED * tol or idle >= IDLE_SETS and best[0] <= tol:
                break
            g = self._gradient()
            lower = (self.has_lo & (self.x < self.lo)) | ((active < 0) & ((g > 0) | (self.lo == self.hi)))
            upper = (self.has_hi & (self.x > self.hi)) | ((active > 0) & (g < 0))
            before, active = active, (upper & ~lower).astype(np.int8) - lower
            if (active == before).all():
                break
        _, self.x, self.active = best

    def _worst(self, active):
        return max(self._residual(active), self._measure(np.clip(self.x, self.lo, self.hi)))

    def _solve_active(self, active):
        """x with the active rows at their bounds."""
        at = active != 0
        value = np.where(active < 0, self.lo, np.where(active > 0, self.hi, 0.0))
        right = np.where(at, value, self.b - self.q.block @ value)
        self.x = np.where(at, value, self.q.solver(0.0, at)(right))


def _with_diagonal(A):
    """A csr_array with its whole diagonal stored."""
    A = A.tocoo()
    n = A.shape[0]
    out = sp.csr_array((np.r_[A.data, np.zeros(n)], (np.r_[A.row, np.arange(n)], np.r_[A.col, np.arange(n)])), shape=A.shape)
    out.sum_duplicates()
    return out
