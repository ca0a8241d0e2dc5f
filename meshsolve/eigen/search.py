"""Shift-invert searches: the smallest pairs, and all pairs of an interval in slices.

The inertia gives the number of eigenvalues below a shift, and so whether copies of multiple eigenvalues are missing. Then the
iteration is deflated and goes on.

Sources: Ericsson, Ruhe 1980 (shift-invert); Grimes, Lewis, Simon 1994 (counts, slices of the spectrum).
"""

from __future__ import annotations

import numpy as np

from meshsolve.eigen.basis import BASES, WIDTH
from meshsolve.eigen.lanczos import Lanczos
from meshsolve.memory import ensure_memory
from meshsolve.options import is_auto
from meshsolve.report import Report

SLICE = 96              # pairs of an interval that one shift computes: orthogonalization grows with their square
CLUSTER = 1e-6          # relative gap between eigenvalues below which they count as one cluster
NEAR_ZERO = 1e-6        # first shift, relative to the largest entry of A's diagonal over the mean of M's
SHIFT_TO_FIRST = 0.1    # a better shift, relative to the first eigenvalue that is not 0
FAR = 100               # a first shift that is this many times too large or too small is replaced
WARM_UP = 6             # blocks after which the first shift is judged


class Search:
    """What all parts of one call share: the pencil, the options, and what they count."""

    def __init__(self, pencil, tol, maxiter, seed):
        self.pencil, self.tol, self.maxiter, self.seed = pencil, tol, maxiter, seed
        self.report = Report(threads=pencil.threads)
        self.iterations, self.shifts = 0, []

    def lanczos(self, F, pairs):
        """An iteration with the factor F of A - sigma M and a basis for so many pairs."""
        pencil = self.pencil
        capacity = min(-(-(2 * pairs + 2 * WIDTH) // WIDTH), pencil.n // WIDTH - 1)
        ensure_memory((capacity + 1) * WIDTH * 8 * pencil.n, f"a basis of {capacity * WIDTH} vectors")
        basis = BASES[pencil.place.name](pencil.n, capacity + 1, pencil.threads)
        return Lanczos(pencil.operator(F), pencil.weigh(), basis, capacity, self.seed)

    def factor(self, sigma):
        self.shifts.append(float(sigma))
        with self.report.phase("factor"):
            return self.pencil.definite_factor(sigma)

    def below(self, sigma):
        """(number of eigenvalues below the shift, the shift, its factor); the shift may have been moved."""
        with self.report.phase("count"):
            count, at, F = self.pencil.below(sigma)
        self.shifts.append(float(at))
        return count, at, F

    def run(self, iteration, pairs, selected):
        """Iterate until ``selected(ritz)`` are all converged: (Ritz pairs, their numbers, whether they are)."""
        check = pairs + WIDTH
        with self.report.phase("lanczos"):
            while True:
                iteration.step()
                self.iterations += 1
                if iteration.dim < check and not iteration.is_full and self.iterations < self.maxiter:
                    continue
                ritz = iteration.ritz()
                numbers = selected(ritz)
                done = len(numbers) >= pairs and bool((ritz.residuals[numbers] <= self.tol).all())
                if done or self.iterations >= self.maxiter:
                    return ritz, numbers, done
                check = iteration.dim + max(WIDTH, iteration.dim // 8)
                if iteration.is_full:
                    keep = min((pairs + WIDTH + (iteration.dim - pairs) // 3) // WIDTH, iteration.blocks - 1) * WIDTH
                    iteration.restart(ritz, np.arange(keep))


def smallest(search, k, sigma, counted):
    """The k smallest pairs: (values, vectors, count, whether they are converged and complete)."""
    F, sigma = _first_shift(search) if is_auto(sigma) else (search.factor(sigma), sigma)
    iteration = search.lanczos(F, k)
    while True:
        ritz, numbers, done = search.run(iteration, k, lambda ritz: np.arange(min(k, len(ritz.theta))))       # by descending theta
        values = np.sort(sigma + 1 / ritz.theta[numbers])
        number, complete = _counted(search, values, sigma) if counted and done else (None, done)
        if complete or not done or search.iterations >= search.maxiter:
            return *_pairs(search, iteration, ritz, numbers, F, sigma), number, complete
        iteration.deflate(ritz, np.flatnonzero(ritz.residuals <= search.tol)[:iteration.dim - 2 * WIDTH])


def _counted(search, values, sigma):
    """(number of eigenvalues below a shift, whether the ascending ``values`` have all of them). The shift lies just above the last
    value or, if that value has more copies than were asked for, just below its cluster."""
    margin = CLUSTER / 2 * max(abs(values[-1]), abs(sigma))
    number = search.below(values[-1] + margin)[0]
    if number == len(values):
        return number, True
    start = np.searchsorted(values, values[-1] - 2 * margin)
    while start and values[start] - values[start - 1] <= 2 * margin:
        start -= 1
    number = search.below(values[start] - margin)[0]
    return number, number == start


def _first_shift(search):
    """(factor, shift) for a positive semidefinite A. Too near to 0 the null space drowns the rest, too far the eigenvalues cluster."""
    pencil = search.pencil
    sigma = -NEAR_ZERO * pencil.scale()
    F = search.factor(sigma)
    trial = search.lanczos(F, WARM_UP * WIDTH // 2)
    with search.report.phase("lanczos"):
        for _ in range(min(WARM_UP, trial.capacity)):
            trial.step()
            search.iterations += 1
    values = sigma + 1 / trial.ritz().theta
    better = -SHIFT_TO_FIRST * float(values[values > abs(sigma)].min(initial=np.inf))
    if not np.isfinite(better) or abs(sigma) / FAR <= abs(better) <= FAR * abs(sigma):
        return F, sigma
    return search.factor(better), better


def _pairs(search, iteration, ritz, numbers, F, sigma):
    """(values ascending, vectors) of some Ritz pairs."""
    order = numbers[np.argsort(sigma + 1 / ritz.theta[numbers], kind="stable")]
    with search.report.phase("vectors"):
        blocks = -(-len(order) // WIDTH)
        Y = np.zeros((iteration.dim, blocks * WIDTH))
        Y[:, :len(order)] = ritz.Y[:, order]
        iteration.basis.rotate(Y)
        theta = ritz.theta[order]
        X = search.pencil.vectors(F, iteration.basis.columns(blocks, len(order)), theta)
    return sigma + 1 / theta, X


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
    order = np.argsort(np.concatenate(values), kind="stable")
    X = search.pencil.place.xp.concatenate(vectors, axis=1)
    return np.concatenate(values)[order], X[:, search.pencil.place.bring(order)], below_hi - below_lo, done


def _slice(search, F, sigma, lo, hi, number):
    """The ``number`` pairs between lo and hi around a shift: (values, vectors, whether all were found)."""
    iteration = search.lanczos(F, number + WIDTH)

    def inside(ritz):
        values = sigma + 1 / np.where(ritz.theta == 0, np.inf, ritz.theta)
        numbers = np.flatnonzero((ritz.theta != 0) & (values >= lo) & (values < hi))
        return numbers[:number] if len(numbers) >= number else np.arange(min(number + WIDTH, len(ritz.theta)))

    while True:
        ritz, numbers, done = search.run(iteration, number, inside)
        values = sigma + 1 / ritz.theta[numbers]
        chosen = numbers[(values >= lo) & (values < hi)]
        if len(chosen) == number or search.iterations >= search.maxiter:
            return *_pairs(search, iteration, ritz, chosen, F, sigma), done and len(chosen) == number
        iteration.deflate(ritz, np.flatnonzero(ritz.residuals <= search.tol)[:iteration.dim - 2 * WIDTH])
