"""Shift-invert searches: the smallest pairs, and all pairs of an interval in slices.

Many pairs converge in three quarters of the blocks if the shift lies amid them, where the L D L^T factor replaces Cholesky's. The
first blocks, with a shift below the spectrum, are a quadrature rule for the number of eigenvalues below any value. They also filter
the block from which the second search starts. The inertia gives the exact number, and so whether copies of multiple eigenvalues are
missing. Then the iteration is deflated and goes on.

Sources: Ericsson, Ruhe 1980 (shift-invert); Grimes, Lewis, Simon 1994 (counts, slices of the spectrum); Ubaru, Chen, Saad 2017
(stochastic Lanczos quadrature).
"""

from __future__ import annotations

import numpy as np

from meshsolve.eigen.basis import BASES, WIDTH
from meshsolve.eigen.lanczos import Lanczos
from meshsolve.errors import InvalidInputError
from meshsolve.memory import ensure_memory
from meshsolve.options import is_auto
from meshsolve.report import Report

SLICE = 96              # pairs of an interval that one shift computes: orthogonalization grows with their square
CLUSTER = 1e-6          # relative gap between eigenvalues below which they count as one cluster
NEAR_ZERO = 1e-6        # first shift, relative to the largest entry of A's diagonal over the mean of M's
SHIFT_TO_FIRST = 0.1    # a better shift, relative to the first eigenvalue that is not 0
FAR = 100               # a first shift that is this many times too large or too small is replaced
JUDGED = 3              # blocks after which the first shift is judged
WARM_UP = 6             # blocks of the quadrature rule
COLUMNS = 2.75          # of a basis for each wanted pair: most searches end without a restart
SPARE = 10              # further blocks of a basis: few pairs, and clusters among them, need about as many
AMID = 24               # pairs from which on a shift amid them is considered
EFFORT = 5.0            # most operations of Cholesky's factorization for that, for each pair and nonzero of L: blocks then cost less
MIDDLE = 0.55           # share of the wanted eigenvalues below such a shift
GAP = 1e-2              # smallest gap that it may lie in, relative to the distance from the first shift
FASTEST, SLOWEST = 2.5, 1.4     # logarithms of residuals that a block is assumed to gain until it is known, and at least
PATIENCE = 0.85         # share of the blocks until convergence after which it is tested: residuals fall faster at the end
DEFLATIONS = 3          # that find no other values end a search: the count is then not that of the eigenvalues in double precision
AFTER = 4               # blocks after a deflation before convergence is tested


class Search:
    """What all parts of one call share: the pencil, the options, and what they count."""

    def __init__(self, pencil, tol, maxiter, seed):
        self.pencil, self.tol, self.maxiter, self.seed = pencil, tol, maxiter, seed
        self._goal = tol / 4            # of residuals in the search: those of the returned vectors differ a little
        self.resolution = pencil.resolution()
        self.report = Report(threads=pencil.threads)
        self.iterations, self.shifts, self.is_orthonormal, self.is_undecided = 0, [], False, False

    def lanczos(self, F, pairs, start=None):
        """An iteration with the factor F of A - sigma M and a basis for so many pairs, from a block (n, 8) or a random one."""
        pencil = self.pencil
        capacity = min(int(COLUMNS * pairs) // WIDTH + SPARE, pencil.n // WIDTH - 1)
        ensure_memory((capacity + 1) * WIDTH * 8 * pencil.n, f"a basis of {capacity * WIDTH} vectors")
        basis = BASES[pencil.place.name](pencil.n, capacity + 1, pencil.threads)
        return Lanczos(pencil.operator(F), pencil.weigh(), basis, capacity, self.seed, start)

    def factor(self, sigma):
        self.shifts.append(float(sigma))
        with self.report.phase("factor"):
            return self.pencil.definite_factor(sigma)

    def below(self, sigma, step=1):
        """(number of eigenvalues below the shift, the shift, its factor); the shift may have been moved, down if ``step`` is -1."""
        with self.report.phase("count"):
            count, at, F = self.pencil.below(sigma, step)
        self.shifts.append(float(at))
        return count, at, F

    def extend(self, iteration, blocks):
        """Take the first blocks of an iteration."""
        with self.report.phase("lanczos"):
            while iteration.blocks < min(blocks, iteration.capacity):
                self.step(iteration)

    def run(self, iteration, pairs, selected):
        """Iterate until ``selected(ritz)`` are all converged: (Ritz pairs, their numbers, whether they are)."""
        check = max(pairs + max(WIDTH, pairs // 2), (iteration.kept + AFTER) * WIDTH if iteration.kept else 0)
        before = None
        with self.report.phase("lanczos"):
            while True:
                if iteration.dim >= check or iteration.is_full or self.iterations >= self.maxiter:
                    ritz = iteration.ritz()
                    numbers = selected(ritz)
                    worst = ritz.residuals[numbers].max(initial=0) if len(numbers) >= pairs else np.inf
                    goal = self.goal(iteration, ritz)
                    if worst <= goal or self.iterations >= self.maxiter:
                        return ritz, numbers, worst <= goal
                    now = iteration.blocks, np.log(min(worst, 1) / self._goal)
                    check = iteration.dim + _blocks_to_wait(before, now) * WIDTH
                    before = now
                    if iteration.is_full:
                        keep = min((pairs + WIDTH + (iteration.dim - pairs) // 3) // WIDTH, iteration.blocks - 1) * WIDTH
                        iteration.restart(ritz, _first(ritz, numbers)[:keep])
                        before = None
                self.step(iteration)

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
        return max(self._goal, self.resolution * abs(ritz.theta[0]) if iteration.restarts else 0.0)


def smallest(search, k, sigma, counted):
    """The k smallest pairs: (values, vectors, count, whether they are converged and complete)."""
    F, sigma, iteration = _started(search, k, sigma)
    floor = sigma                                           # A - sigma M is positive definite: no eigenvalue is smaller
    if counted and k >= AMID and F.flops <= EFFORT * k * F.nnz:
        F, sigma, iteration = _amid(search, k, F, sigma, iteration)

    def lowest(ritz):
        values = _values(ritz, sigma)
        return np.argsort(np.where(values > floor, values, np.inf), kind="stable")[:min(k, np.count_nonzero(values > floor))]

    before, in_vain = np.zeros(0), 0
    while True:
        ritz, numbers, done = search.run(iteration, k, lowest)
        values = _values(ritz, sigma)[numbers]
        in_vain = in_vain + 1 if len(before) == len(values) and np.allclose(before, values, CLUSTER, search.resolution) else 0
        before = values
        try:
            number, complete = _counted(search, values, sigma) if counted and done else (None, done)
        except InvalidInputError:                           # rounding errors hide it, and so whether any value is missing
            number, complete, search.is_undecided = None, False, True
        if sigma > floor and not (complete and search.pencil.has_masses):
            search.pencil.indefinite_factor(sigma)          # the count has replaced its values
        if complete or not done or search.iterations >= search.maxiter or search.is_undecided or in_vain == DEFLATIONS:
            return *_pairs(search, iteration, ritz, numbers, F, sigma), number, complete
        search.deflate(iteration, ritz, numbers)


def in_interval(search, lo, hi):
    """All pairs with lo <= lambda < hi: (values, vectors, count, whether all were found)."""
    below_lo, lo, _ = search.below(lo)
    below_hi, hi, _ = search.below(hi)
    slices, values, vectors, done = [(lo, below_lo, hi, below_hi)], [], [], True
    while slices:
        a, below_a, b, below_b = slices.pop()
        if below_a == below_b:
            continue
        middle = (a + b) / 2
        number, at, F = search.below(middle)
        if below_b - below_a > SLICE and a < at < b and number not in (below_a, below_b):
            slices += [(at, number, b, below_b), (a, below_a, at, number)]
            continue
        if below_b - below_a > SLICE and a < at < b and b - a > CLUSTER * max(abs(a), abs(b)):
            slices.append((at, number, b, below_b) if number == below_a else (a, below_a, at, number))
            continue
        w, X, complete = _slice(search, F, at, a, b, below_b - below_a)
        values.append(w), vectors.append(X)
        done &= complete
    if not values:
        return np.zeros(0), np.zeros((search.pencil.n, 0)), 0, True
    search.is_orthonormal &= len(values) == 1
    order = np.argsort(np.concatenate(values), kind="stable")
    X = search.pencil.place.xp.concatenate(vectors, axis=1)
    return np.concatenate(values)[order], X[:, search.pencil.place.bring(order)], below_hi - below_lo, done


def _first(ritz, wanted):
    """The numbers of all Ritz pairs, the wanted ones first."""
    return np.r_[wanted, np.setdiff1d(np.arange(len(ritz.theta)), wanted)]


def _blocks_to_wait(before, now):
    """Blocks until the next test of convergence. ``before``, ``now``: blocks and logarithm of the worst residual over the tolerance, of the
    test before (or None) and of this one. An even number, if it is not 1, makes no block orthogonal alone."""
    rate = FASTEST if before is None else max((before[1] - now[1]) / (now[0] - before[0]), SLOWEST)
    wait = int(min(PATIENCE * now[1] / rate, now[1] / SLOWEST))
    return max(wait - wait % 2, 1)


def _values(ritz, sigma):
    """The eigenvalues of the pencil that belong to those of the operator; -inf where theta is 0."""
    with np.errstate(divide="ignore"):
        return np.where(ritz.theta == 0, -np.inf, sigma + 1 / ritz.theta)


def _counted(search, values, sigma):
    """(number of eigenvalues below a shift, whether the ascending ``values`` have all of them). The shift lies just above the last
    value or, if that value has more copies than were asked for, just below its cluster."""
    margin = max(CLUSTER / 2 * max(abs(values[-1]), abs(sigma)), search.resolution)
    number = search.below(values[-1] + margin)[0]
    if number == len(values):
        return number, True
    start = np.searchsorted(values, values[-1] - 2 * margin)
    while start and values[start] - values[start - 1] <= 2 * margin:
        start -= 1
    number = search.below(values[start] - margin, step=-1)[0]
    return number, number == start


def _started(search, k, sigma):
    """(factor, shift, iteration) for a shift below all eigenvalues, ``"auto"`` for a positive semidefinite A. Too near to 0 the null
    space drowns the rest, too far the eigenvalues cluster."""
    is_chosen = is_auto(sigma)
    sigma = -NEAR_ZERO * search.pencil.scale() if is_chosen else sigma
    F = search.factor(sigma)
    iteration = search.lanczos(F, k)
    if not is_chosen:
        return F, sigma, iteration
    search.extend(iteration, JUDGED)
    values = _values(iteration.ritz(), sigma)
    better = -SHIFT_TO_FIRST * float(values[values > abs(sigma)].min(initial=np.inf))
    if not np.isfinite(better) or abs(sigma) / FAR <= abs(better) <= FAR * abs(sigma):
        return F, sigma, iteration
    F = search.factor(better)
    return F, better, search.lanczos(F, k)


def _amid(search, k, F, sigma, iteration):
    """The same with a shift amid the k smallest eigenvalues, unless none is found."""
    search.extend(iteration, WARM_UP)
    ritz = iteration.ritz()
    at = _gap(ritz, search.pencil.n, MIDDLE * k, sigma)
    if at is None:
        return F, sigma, iteration
    try:
        number, at, G = search.below(at)
    except InvalidInputError:                               # the number is not decided
        return F, sigma, iteration
    if not k // 4 <= number <= k:
        return F, sigma, iteration
    last = sigma + (at - sigma) / MIDDLE
    weights = 1 / (1 + np.minimum(abs(_values(ritz, sigma) - sigma) / (last - sigma), 1e3)**4)
    return G, at, search.lanczos(G, k, iteration.filtered(ritz, weights))


def _gap(ritz, n, count, sigma):
    """The middle of a gap between Ritz values that about ``count`` eigenvalues lie below. Each Ritz pair of a random block stands for as
    many eigenvalues as its weight in that block says. None without such a gap."""
    order = np.argsort(-ritz.theta)                         # by ascending values
    values, weights = _values(ritz, sigma)[order], (ritz.Y[:WIDTH, order]**2).sum(axis=0) * n / WIDTH
    gaps, below = np.diff(values), np.cumsum(weights)[:-1]
    wide = np.flatnonzero(gaps > GAP * (values[1:] - sigma))
    if len(wide) == 0:
        return None
    chosen = wide[abs(np.log(np.maximum(below[wide], 1e-3) / count)).argmin()]
    return float(values[chosen] + gaps[chosen] / 2)


def _pairs(search, iteration, ritz, numbers, F, sigma):
    """(values ascending, vectors) of some Ritz pairs."""
    values = _values(ritz, sigma)
    order = numbers[np.argsort(values[numbers], kind="stable")]
    search.is_orthonormal = search.pencil.has_masses
    with search.report.phase("vectors"):
        X = search.pencil.completed(F, iteration.vectors(ritz, order, search.pencil.row_scale()), ritz.theta[order])
    return values[order], X


def _slice(search, F, sigma, lo, hi, number):
    """The ``number`` pairs between lo and hi around a shift: (values, vectors, whether all were found)."""
    iteration = search.lanczos(F, number + WIDTH)

    def inside(ritz):
        values = _values(ritz, sigma)
        numbers = np.flatnonzero((values >= lo) & (values < hi))
        return numbers[:number] if len(numbers) >= number else np.arange(min(number + WIDTH, len(ritz.theta)))

    while True:
        ritz, numbers, done = search.run(iteration, number, inside)
        values = _values(ritz, sigma)[numbers]
        chosen = numbers[(values >= lo) & (values < hi)]
        if len(chosen) == number or search.iterations >= search.maxiter:
            return *_pairs(search, iteration, ritz, chosen, F, sigma), done and len(chosen) == number
        search.deflate(iteration, ritz, numbers)
