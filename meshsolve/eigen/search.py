"""Shift-invert searches: the smallest pairs, and all pairs of an interval in slices.

Many pairs converge in three quarters of the blocks if the shift lies amid them, where the L D L^T factor replaces Cholesky's. The
first blocks, with a shift below the spectrum, are a quadrature rule for the number of eigenvalues below any value. They also filter
the block from which the second search starts. The inertia gives the exact number, and so whether copies of multiple eigenvalues are
missing. Then the iteration is deflated and goes on.

Sources: Ericsson, Ruhe 1980 (shift-invert); Grimes, Lewis, Simon 1994 (counts, slices of the spectrum); Ubaru, Chen, Saad 2017
(stochastic Lanczos quadrature).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from meshsolve import device
from meshsolve.eigen import quality
from meshsolve.eigen.basis import BASES, WIDTH
from meshsolve.eigen.exhaustive import Exhaustive
from meshsolve.eigen.lanczos import Lanczos
from meshsolve.eigen.pencil import ROUNDING
from meshsolve.eigen.shift import JUDGED, amid, started
from meshsolve.errors import InvalidInputError
from meshsolve.memory import ensure_memory
from meshsolve.options import counted, is_auto
from meshsolve.report import Report

SLICE = 96              # pairs of an interval that one shift computes: orthogonalization grows with their square
COPIES = 8              # floors by which copies of a multiple eigenvalue differ while they are sought
UNCHANGED = 0.01        # part of the tolerance by which a value may change without another look at its residual
CLUSTER = 1e-6          # relative gap between eigenvalues below which they count as one cluster
COLUMNS = 2.75          # of a basis for each wanted pair: most searches end without a restart
SPARE = 10              # further blocks of a basis: few pairs, and clusters among them, need about as many
FASTEST, SLOWEST = 2.5, 1.4     # logarithms of residuals that a block is assumed to gain until it is known, and at least
PATIENCE = 0.85         # share of the blocks until convergence after which it is tested: residuals fall faster at the end
DEFLATIONS = 3          # that find no other values end a search: the count is then not that of the eigenvalues in double precision
AFTER = 4               # blocks after a deflation before convergence is tested
NEAR = 0.1              # distance from the shift, relative to it, that stands for the size of an eigenvalue near 0 while it is sought
FROM_AFAR = 1e-3        # the same for a shift that the caller gives
OWN = 0.8               # part of the tolerance for the residual relative to an eigenvalue itself, before vectors are computed
WIDE = 1e3              # ratio of the ends of an interval above which its middle is the geometric mean
CLOSE = 1e-5            # distance of a shift from an eigenvalue, relative to the interval, below which the shift is moved
HULL = 1e-3             # part of an interval that computed values may be wrong by, where some residuals are too large
MOST_STEPS = 1e3        # first moves of a shift that it may be moved by, if the interval is narrow
NARROW = 8              # first moves of a shift up to which an interval is narrow
SLICES = 3              # intervals that are tried for the smallest pairs of a spectrum of many orders of magnitude
QUADRATIC = 10.0        # errors of Ritz values relative to the squares of their residuals: gaps between eigenvalues are not known
WRONG = 1e-3            # residual of a vector that belongs to no eigenvalue
MANY = 4                # eigenvalues for each one that is 0 to rounding, below which those are many
DEPTH = 12              # times that an interval is divided because of residuals
ENDS = 16               # floors of an eigenvalue up to which it equals an end of an interval


class Found(NamedTuple):
    """Eigenpairs, by ascending value.

    Attributes
    ----------
    values : (k,) float64
    vectors : (n, k) float64, where the pencil lies
    quality : Quality
    proved : int or None
        Number of them that are proved to be all there are.
    is_complete : bool
        False: the iteration did not converge, or some are missing.
    size : float
        The size of the first eigenvalue that is not 0, if it is known: what floors of zeros are compared with.
    zeros : int
        Number of eigenvalues known to be 0 to rounding, those that are not wanted included, if they are many among all that are known.
    """

    values: np.ndarray
    vectors: Any
    quality: quality.Quality
    proved: int | None
    is_complete: bool
    size: float = 0.0
    zeros: int = 0


class Search:
    """What all parts of one call share: the pencil, the options, and what they count."""

    def __init__(self, pencil, tol, maxiter, seed, is_dense=False):
        self.pencil, self.tol, self.maxiter, self.seed, self.is_dense = pencil, tol, maxiter, seed, is_dense
        self._goal = tol / 4            # of residuals in the search: those of the returned vectors differ a little
        self.floor = ROUNDING * pencil.smooth           # differences of equal eigenvalues by rounding
        self.report = Report(threads=pencil.threads)
        self.iterations, self.shifts, self.is_undecided, self._definite_at = 0, [], False, None
        self.near = NEAR
        self.blocks_a_pair = 0          # that the limit grows by for each pair of an interval

    def lanczos(self, F, pairs, sigma, start=None):
        """An iteration with the factor F of A - sigma M and a basis for so many pairs, from a block (n, 8) or a random one."""
        pencil = self.pencil
        if self.is_dense:
            columns = 2 * pencil.n if pencil.masses is None else pencil.rank
            ensure_memory(16 * pencil.n * columns, f"a dense matrix of {counted(pencil.n, 'row')}")
            iteration = Exhaustive(pencil, F)
            self.iterations += iteration.solves
        else:
            capacity = min(int(COLUMNS * pairs) // WIDTH + SPARE, pencil.rank // WIDTH - 1)
            ensure_memory((capacity + 1) * WIDTH * 8 * pencil.n, f"a basis of {capacity * WIDTH} vectors")
            basis = BASES[pencil.place.name](pencil.n, capacity + 1, pencil.threads)
            iteration = Lanczos(pencil.operator(F), pencil.weigh(), basis, capacity, self.seed, start, pencil.is_uneven)
        iteration.sigma = sigma
        return iteration

    def factor(self, sigma):
        """The Cholesky factor of A - sigma M; it replaces the last one."""
        self.shifts.append(float(sigma * self.pencil.unit))
        self._definite_at = None
        with self.report.phase("factor"):
            F = self.pencil.definite_factor(sigma)
        self._definite_at = sigma, F
        return F

    def below(self, sigma, step=-1, first=0.0, most=np.inf):
        """(number of eigenvalues below the shift, the shift, its factor); see :meth:`Pencil.below`."""
        with self.report.phase("count"):
            count, at, F = self.pencil.below(sigma, step, first, most)
        self.shifts.append(float(at * self.pencil.unit))
        return count, at, F

    def pairs(self, iteration, ritz, numbers, F):
        """The :class:`Found` pairs of some Ritz pairs, with residuals repaired; not counted."""
        pencil, sigma = self.pencil, iteration.sigma
        values = ritz.values(sigma)
        numbers = numbers[np.argsort(values[numbers], kind="stable")]
        with self.report.phase("vectors"):
            X = iteration.vectors(ritz, numbers, pencil.row_scale())
            if not iteration.is_complete:
                X = pencil.completed(F, X, ritz.theta[numbers])
                X = X if pencil.has_masses else normalized(pencil, X)
            w = values[numbers]
            facts = quality.judged(pencil, self.tol, w, X)
            better = quality.values_of(w, sigma, ritz.theta, self.errors(iteration, ritz)[numbers], facts)
            changed = np.flatnonzero(abs(better - w) > UNCHANGED * np.maximum(self.tol * abs(w), facts.floors))
            if len(changed):
                facts.replace(changed, quality.judged(pencil, self.tol, better[changed], X.take(pencil.place.bring(changed), axis=1)))
            w = better
            near = [(sigma, F)] + ([self._definite_at] if self._definite_at and self._definite_at[1] is not F else [])
            w = quality.improved(pencil, self.tol, w, X, facts, near)
        with np.errstate(invalid="ignore"):
            errors = QUADRATIC * self.errors(iteration, ritz) * abs(ritz.values(sigma) - sigma)
        return in_order(pencil, Found(w, X, facts, None, True, *zeros_among(ritz.values(sigma), facts, errors)))

    def extend(self, iteration, blocks):
        """Take the first blocks of an iteration."""
        with self.report.phase("lanczos"):
            while iteration.blocks < min(blocks, iteration.capacity):
                self.step(iteration)

    def run(self, iteration, pairs, selected):
        """Iterate until ``selected(ritz)`` are all converged: (Ritz pairs, their numbers, whether they are)."""
        if self.is_dense:
            ritz = iteration.ritz()
            return ritz, selected(ritz), True
        check = max(pairs + max(WIDTH, pairs // 2), (iteration.kept + AFTER) * WIDTH if iteration.kept else 0)
        before = None
        with self.report.phase("lanczos"):
            while True:
                if iteration.dim >= check or iteration.is_full or self.iterations >= self.maxiter:
                    ritz = iteration.ritz()
                    numbers = selected(ritz)
                    goal = self.goal(iteration, ritz)
                    worst = self.residuals(iteration, ritz, goal)[numbers].max(initial=0) if len(numbers) >= pairs else np.inf
                    if worst <= goal or self.iterations >= self.maxiter:
                        return ritz, numbers, worst <= goal
                    now = iteration.blocks, np.log(min(worst, 1) / self._goal)
                    check = iteration.dim + _blocks_to_wait(before, now) * WIDTH
                    before = now
                    if iteration.is_full:
                        self._look(iteration, ritz, numbers[:WIDTH])
                        keep = min((pairs + WIDTH + (iteration.dim - pairs) // 3) // WIDTH, iteration.blocks - 1) * WIDTH
                        iteration.restart(ritz, _first(ritz, numbers)[:keep])
                        before = None
                self.step(iteration)

    def residuals(self, iteration, ritz, goal):
        """Residuals of the Ritz pairs to compare with the goal: relative to theta, and to the eigenvalue where it is not near 0."""
        values = ritz.values(iteration.sigma)
        with np.errstate(invalid="ignore"):
            distance = abs(values - iteration.sigma)
            size = np.maximum(np.maximum(abs(values), self.near * distance), self.floor / self.tol)
            return np.fmax(ritz.residuals, ritz.left * distance / size * (goal / (OWN * self.tol)))

    def step(self, iteration):
        """Extend an iteration by one block."""
        before = iteration.solves
        iteration.step()
        self.iterations += iteration.solves - before

    def deflate(self, iteration, ritz, wanted):
        """Keep the converged pairs, the wanted ones first, and go on with a random block."""
        order = _first(ritz, wanted)
        iteration.deflate(ritz, order[ritz.residuals[order] <= self.goal(iteration, ritz)][:iteration.dim - 2 * WIDTH])

    def goal(self, iteration, ritz):
        """The residual at which a pair counts as converged. After a restart it is at least the rounding error of the operator: copies of a
        multiple eigenvalue differ by it. Residuals of the returned vectors are measured in any case."""
        return max(self._goal, COPIES * self.floor * abs(ritz.theta[0]) if iteration.restarts else 0.0)

    def errors(self, iteration, ritz):
        """(dim,) relative errors of the values theta: squares of residuals, and what a deflation has left out."""
        return ritz.left**2 + (self._goal if iteration.is_deflated else 0.0)

    def _look(self, iteration, ritz, numbers):
        """Raise ``floor`` to that of the Ritz vectors with these numbers."""
        pencil = self.pencil
        if iteration.restarts or len(numbers) == 0:
            return
        X = iteration.vectors(ritz, numbers, pencil.row_scale())
        floors = quality.judged(pencil, self.tol, ritz.values(iteration.sigma)[numbers], X).floors
        self.floor = max(self.floor, floors[np.isfinite(floors)].max(initial=0.0))


def smallest(search, k, sigma, counted):
    """The k smallest pairs as :class:`Found`."""
    search.near = NEAR if is_auto(sigma) else FROM_AFAR
    F, sigma, iteration = started(search, k, sigma)
    lowest_shift = sigma                                    # A - sigma M is positive definite: no eigenvalue is smaller
    if counted:
        F, sigma, iteration = amid(search, k, F, sigma, iteration)

    def lowest(ritz):
        values = ritz.values(sigma)
        return np.argsort(np.where(values > lowest_shift, values, np.inf), kind="stable")[:min(k, np.count_nonzero(values > lowest_shift))]

    before, in_vain = np.zeros(0), 0
    while True:
        ritz, numbers, done = search.run(iteration, k, lowest)
        found = search.pairs(iteration, ritz, numbers, F)
        values = found.values
        finite = iteration.dim if search.is_dense else np.count_nonzero(found.quality.norms > 0)
        if done and finite < len(values) or search.is_dense and finite < k:
            raise InvalidInputError(f"k must be at most the number of finite eigenvalues, which is the rank of M, about {finite}")
        in_vain = in_vain + 1 if len(before) == len(values) and np.allclose(before, values, CLUSTER, search.floor) else 0
        before = values
        try:
            number, complete = _counted(search, found, sigma) if counted and done and len(values) else (None, done)
        except InvalidInputError:                           # rounding errors hide it, and so whether any value is missing
            number, complete, search.is_undecided = None, False, True
        if search.is_dense and (found.quality.residuals > search.tol).any():
            return _by_slices(search, found, k, lowest_shift)
        if complete or not done or search.is_dense or search.iterations >= search.maxiter or search.is_undecided or in_vain == DEFLATIONS:
            return found._replace(proved=number, is_complete=complete)
        if sigma > lowest_shift:
            F = search.pencil.indefinite_factor(sigma)      # the count has replaced its values
        search.deflate(iteration, ritz, numbers)


def in_interval(search, lo, hi, share):
    """All pairs with lo <= lambda < hi as :class:`Found`. Eigenvalues that equal an end to rounding count as equal.

    None if there are more than n / ``share`` pairs, which a dense method finds faster.
    """
    first, below_first, last, below_last = _ends(search, lo, hi)
    number = below_last - below_first
    if number > search.pencil.rank // share and not search.is_dense:
        return None
    search.maxiter += search.blocks_a_pair * number
    stack, parts = [(first, below_first, last, below_last, 0)], []
    while stack:
        a, below_a, b, below_b, depth = stack.pop()
        if below_a >= below_b:
            continue
        if below_b - below_a > SLICE and not search.is_dense:
            number, at, F = search.below(_middle(a, b))
            if a < at < b and number not in (below_a, below_b):
                stack += [(at, number, b, below_b, depth), (a, below_a, at, number, depth)]
                continue
            if a < at < b and b - a > CLUSTER * max(abs(a), abs(b)):
                stack.append((at, number, b, below_b, depth) if number == below_a else (a, below_a, at, number, depth))
                continue
        found = _slice(search, a, b, below_b - below_a)
        smaller = _divided(search, found, a, below_a, b, below_b, depth)
        if smaller:
            stack += smaller
        else:
            parts.append(found)
    return _within(search, parts, lo, hi)


def zeros_among(values, facts, errors=0.0):
    """(the smallest of some eigenvalues, with errors, that is not 0 to rounding, or 0.0; the number of those that are, if many)."""
    limit = quality.ZERO * facts.floors.max(initial=0.0)
    above = values[(values > limit + errors) & np.isfinite(values)]
    zeros = int(np.count_nonzero(abs(values) <= limit))
    return float(above.min()) if len(above) else 0.0, zeros if MANY * zeros > len(values) else 0


def in_order(pencil, found):
    """The same pairs by ascending value. Vectors change their places in the given array: few do, those of nearly equal values."""
    if (np.diff(found.values) >= 0).all():
        return found
    numbers = np.argsort(found.values, kind="stable")
    moved = np.flatnonzero(numbers != np.arange(len(numbers)))
    found.vectors[:, pencil.place.bring(moved)] = found.vectors[:, pencil.place.bring(numbers[moved])]
    return found._replace(values=found.values[numbers], quality=found.quality.of(numbers))


def chosen(pencil, found, numbers):
    """Some of the pairs, by ascending numbers or in another order."""
    if len(numbers) == len(found.values) and (np.diff(numbers) == 1).all():
        return found
    return found._replace(values=found.values[numbers], vectors=found.vectors.take(pencil.place.bring(numbers), axis=1),
                          quality=found.quality.of(numbers))


def joined(pencil, parts):
    """The pairs of several parts of the spectrum, none counted."""
    xp = pencil.place.xp
    if not parts:
        return Found(np.zeros(0), xp.zeros((pencil.n, 0)), quality.judged(pencil, 1.0, np.zeros(0), xp.zeros((pencil.n, 0))), 0, True)
    if len(parts) == 1:
        return parts[0]
    return in_order(pencil, Found(np.concatenate([part.values for part in parts]), xp.concatenate([part.vectors for part in parts], axis=1),
                                  quality.joined([part.quality for part in parts]), None, all(part.is_complete for part in parts)))


def normalized(pencil, X):
    """X with X^T M X = I, by Cholesky QR; columns without mass stay."""
    if X.shape[1] == 0:
        return X
    xp, M = pencil.place.xp, pencil.weighed
    squares = (X * M(X)).sum(axis=0)
    X = X / xp.sqrt(xp.where(squares > 0, squares, 1))
    G = device.to_host(X.T @ M(X))
    try:
        inverse = scipy.linalg.solve_triangular(np.linalg.cholesky((G + G.T) / 2), np.eye(len(G)), lower=True)
    except np.linalg.LinAlgError:                           # dependent columns: residuals and counts show it
        return X
    return X @ pencil.place.bring(np.ascontiguousarray(inverse.T))


def _blocks_to_wait(before, now):
    """Blocks until the next test of convergence. ``before``, ``now``: blocks and logarithm of the worst residual over the tolerance, of the
    test before (or None) and of this one. An even number, if it is not 1, makes no block orthogonal alone."""
    rate = FASTEST if before is None else max((before[1] - now[1]) / (now[0] - before[0]), SLOWEST)
    wait = int(min(PATIENCE * now[1] / rate, now[1] / SLOWEST))
    return max(wait - wait % 2, 1)


def _first(ritz, wanted):
    """The numbers of all Ritz pairs, the wanted ones first."""
    return np.r_[wanted, np.setdiff1d(np.arange(len(ritz.theta)), wanted)]


def _counted(search, found, sigma):
    """(number of values that are proved, or None; whether none is missing).

    The first count lies just above the last value. If that value has more copies than were asked for, another count lies just below its
    cluster, and the copies are any of the cluster. A count below the first value proves nothing.
    """
    values, floors = found.values, found.quality.floors
    margin = max(CLUSTER / 2 * max(abs(values[-1]), abs(sigma)), quality.ZERO * min(floors[-1], floors.max()))
    number = search.below(values[-1] + margin, 1)[0]
    if number == len(values):
        return number, True
    start = np.searchsorted(values, values[-1] - 2 * margin)
    while start and values[start] - values[start - 1] <= 2 * margin:
        start -= 1
    number = search.below(values[start] - margin, -1)[0]
    return len(values) if start and number == start else None, number == start


def _by_slices(search, found, k, lo):
    """The k smallest pairs of a spectrum that no single shift resolves, from an interval that holds them, else ``found``."""
    hi = max(2 * found.values[-1], abs(lo))
    for _ in range(SLICES):
        try:
            several = in_interval(search, lo, hi, 1)
        except InvalidInputError:
            return found
        if len(several.values) >= k:
            better = chosen(search.pencil, several, np.arange(k))
            is_better = better.quality.residuals.max() < found.quality.residuals.max()
            return better._replace(proved=k if several.is_complete else None) if is_better else found
        hi *= WIDE
    return found


def _ends(search, lo, hi):
    """(shift below lo, eigenvalues below it, shift near hi, eigenvalues below it). The second shift lies below hi if rounding errors are
    small, so that it equals hi; else above it, and each eigenvalue is compared with hi."""
    steps = [search.pencil.step(end) for end in (lo, hi)]
    most = max(hi - lo, MOST_STEPS * max(steps))
    below_first, first, _ = search.below(lo, -1, steps[0], most)
    below_last, last, _ = search.below(hi, -1, steps[1], most)
    if hi - last > 2 * steps[1] or hi - lo <= NARROW * max(steps):
        below_last, last, _ = search.below(hi, 1, hi - last, 2 * most)
    return first, below_first, last, below_last


def _middle(a, b):
    """A number between a and b: geometric mean if both have one sign and very different sizes."""
    if min(abs(a), abs(b)) * WIDE < max(abs(a), abs(b)) and a * b > 0:
        return np.sign(a) * np.sqrt(abs(a)) * np.sqrt(abs(b))
    return a + (b - a) / 2


def _slice(search, lo, hi, number):
    """The ``number`` pairs between lo and hi as :class:`Found`, around a shift near the middle."""
    at, F, iteration = _between(search, lo, hi, number)

    def inside(ritz):
        values = ritz.values(at)
        numbers = np.flatnonzero((values >= lo) & (values < hi))
        return numbers[:number] if len(numbers) >= number else np.arange(min(number + WIDTH, len(ritz.theta)))

    while True:
        ritz, _, done = search.run(iteration, number, inside)
        values = ritz.values(at)
        with np.errstate(invalid="ignore"):
            error = QUADRATIC * search.errors(iteration, ritz) * abs(values - at)              # Rayleigh quotients have less
        near = np.flatnonzero((values >= lo - error) & (values < hi + error) & (ritz.residuals <= WRONG))
        found = search.pairs(iteration, ritz, near, F)
        taken = np.flatnonzero((found.values >= lo) & (found.values < hi) & (found.quality.residuals <= max(search.tol, WRONG)))
        if len(taken) == number or search.is_dense or search.iterations >= search.maxiter:
            return chosen(search.pencil, found, taken)._replace(is_complete=done and len(taken) == number)
        search.deflate(iteration, ritz, near)


def _between(search, lo, hi, number):
    """(shift, its factor, an iteration) in the middle of an interval, but not at an eigenvalue: its errors would hide the others."""
    middle, width, best = _middle(lo, hi), hi - lo, None
    for part in (0.0, 0.37, -0.37, 0.71):
        aim = middle + part * min(middle - lo, hi - middle) / number
        try:
            _, at, F = search.below(aim, most=width / 4)
        except InvalidInputError:
            continue
        iteration = search.lanczos(F, number + WIDTH, at)
        search.extend(iteration, JUDGED)
        theta = abs(iteration.ritz().theta[:1])
        distance = 1 / theta[0] if len(theta) and theta[0] else np.inf
        if best is None or distance > best[0]:
            best = distance, at, F, iteration
        if best[0] > CLOSE * width:
            break
    if best is None:
        raise InvalidInputError(f"no shift between {lo * search.pencil.unit:.6g} and {hi * search.pencil.unit:.6g} is decided in double "
                                "precision; move the ends of the interval")
    _, at, F, iteration = best
    if F is not None and search.shifts[-1] != at * search.pencil.unit:
        F = search.pencil.indefinite_factor(at)             # later trials have replaced its values
    return at, F, iteration


def _divided(search, found, a, below_a, b, below_b, depth):
    """Smaller intervals for pairs of (a, b) with large residuals: the shift was too far from them. None if they do not help."""
    bad = found.values[found.quality.residuals > search.tol]
    if len(bad) == 0 or depth >= DEPTH or search.iterations >= search.maxiter:
        return None
    width = b - a
    inner = max(a, bad.min() - HULL * width), min(b, bad.max() + HULL * width)
    if inner[1] - inner[0] > width / 2:
        inner = a, _middle(a, b)
    try:
        cuts = [(a, below_a)]
        for at in inner:
            if a < at < b:
                number, at, _ = search.below(at, most=width / 8)
                if cuts[-1][0] < at < b:
                    cuts.append((at, number))
    except InvalidInputError:
        return None
    cuts.append((b, below_b))
    pieces = [(*first, *second, depth + 1) for first, second in zip(cuts, cuts[1:], strict=False)]
    return pieces if len(pieces) > 1 else None


def _within(search, parts, lo, hi):
    """The pairs in [lo, hi): an eigenvalue within a few of its floors from an end equals it, and one within them from 0 is 0."""
    found = joined(search.pencil, parts)
    floors = ENDS * found.quality.floors
    values = np.where(abs(found.values) <= floors, 0.0, found.values)
    below = [(values < end) & ((values == 0) | (values < end - floors - search.pencil.step(end))) for end in (lo, hi)]
    close = [(values != 0) & (abs(values - end) <= floors + search.pencil.step(end)) for end in (lo, hi)]
    if (close[0] & close[1]).any():
        unit, width = search.pencil.unit, 2 * (floors + search.pencil.step(hi))[close[0] & close[1]].min()
        raise InvalidInputError(f"interval ({lo * unit:.6g}, {hi * unit:.6g}) is narrower than the rounding errors of the eigenvalue "
                                f"{found.values[close[0] & close[1]][0] * unit:.6g} in it; give one wider than {width * unit:.1e}")
    inside = np.flatnonzero(~below[0] & below[1])
    if len(inside) < len(found.values):
        found = chosen(search.pencil, found, inside)
    return found._replace(proved=len(inside) if found.is_complete else None)
