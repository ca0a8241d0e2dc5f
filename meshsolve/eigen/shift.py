"""Where a search begins: a shift below all eigenvalues whose size comes from Rayleigh quotients, and perhaps a shift amid those wanted.

A shift of the size of the largest entry of A would hide all digits of the wanted eigenvalues behind a penalized row, a stiff edge or a
needle. After the first blocks, Rayleigh quotients x^T A x of the Ritz vectors, which lose no digits, bound the wanted eigenvalues from
above. If the shift is far below them, it is replaced, and so on; each factorization brings it nearer by orders of magnitude. Ordinary
meshes need no second look.
"""

from __future__ import annotations

import contextlib

import numpy as np

from meshsolve.eigen import quality
from meshsolve.eigen.basis import WIDTH
from meshsolve.errors import InvalidInputError, NotPositiveDefiniteError
from meshsolve.options import is_auto

NEAR_ZERO = 1e-6        # first shift, relative to the order of magnitude of all eigenvalues
SHIFT_TO_FIRST = 0.1    # a shift that is not so near, relative to the first eigenvalue that is not 0
SHIFT_TO_LAST = 0.5     # a shift that is not so far, relative to the last wanted eigenvalue
FAR = 100               # a first shift that is this many times too near is replaced
JUDGED = 3              # blocks after which the first shift is judged
LOOKED_AT = 16          # wanted eigenvalues at most that a shift is compared with
GROUP = 1e-4            # size of eigenvalues next to 0, relative to the shift, that form a group of their own
SHIFTS = 30             # first shifts at most
RAISED = 1e3            # ratio of a shift to the one before, if rounding errors or negative eigenvalues forbid that
WARM_UP = 6             # blocks of the quadrature rule
NEGATIVE = 1e-5         # distance of a shift from a negative first eigenvalue, relative to it, at least
AMID = 24               # pairs from which on a shift amid them is considered
EFFORT = 5.0            # most operations of Cholesky's factorization for that, for each pair and nonzero of L: blocks then cost less
MIDDLE = 0.55           # share of the wanted eigenvalues below such a shift
GAP = 1e-2              # smallest gap that it may lie in, relative to the distance from the first shift


def started(search, k, sigma):
    """(factor, shift, iteration) for a shift below all eigenvalues. Too near to 0 the null space drowns the rest, too far the eigenvalues
    cluster.

    Raises
    ------
    NotPositiveDefiniteError
        A has an eigenvalue below a given shift, or is not positive definite where M is 0.
    """
    if not is_auto(sigma):
        F = search.factor(sigma)
        return F, sigma, search.lanczos(F, k, sigma)
    F, sigma, is_raised = _first(search, -NEAR_ZERO * search.pencil.scale())
    for _ in range(SHIFTS):
        iteration = search.lanczos(F, k, sigma)
        search.extend(iteration, JUDGED)
        better = _better(search, iteration, F, k, is_raised)
        if better is None:
            break
        F, at = _nearest(search, sigma, better)
        if at <= sigma:                                     # it was too near, or cannot be nearer: one look is enough
            return F, at, search.lanczos(F, k, at)
        sigma = at
    return F, sigma, iteration


def amid(search, k, F, sigma, iteration):
    """(factor, shift, iteration) with a shift amid the k smallest eigenvalues; the arguments if no such shift is found, or none pays."""
    if k < AMID or search.is_dense or F.flops > EFFORT * k * F.nnz:
        return F, sigma, iteration
    search.extend(iteration, WARM_UP)
    ritz = iteration.ritz()
    at = _gap(ritz, search.pencil.n, MIDDLE * k, sigma)
    if at is None:
        return F, sigma, iteration
    try:
        number, at, G = search.below(at, 1)
    except InvalidInputError:                               # the number is not decided
        return F, sigma, iteration
    if not k // 4 <= number <= k:
        return F, sigma, iteration
    last = sigma + (at - sigma) / MIDDLE
    weights = 1 / (1 + np.minimum(abs(ritz.values(sigma) - sigma) / (last - sigma), 1e3)**4)
    return G, at, search.lanczos(G, k, at, iteration.filtered(ritz, weights))


def _gap(ritz, n, count, sigma):
    """The middle of a gap between Ritz values that about ``count`` eigenvalues lie below. Each Ritz pair of a random block stands for as
    many eigenvalues as its weight in that block says. None without such a gap."""
    order = np.argsort(-ritz.theta)                         # by ascending values
    values, weights = ritz.values(sigma)[order], (ritz.Y[:WIDTH, order]**2).sum(axis=0) * n / WIDTH
    gaps, below = np.diff(values), np.cumsum(weights)[:-1]
    wide = np.flatnonzero(gaps > GAP * (values[1:] - sigma))
    if len(wide) == 0:
        return None
    chosen = wide[abs(np.log(np.maximum(below[wide], 1e-3) / count)).argmin()]
    return float(values[chosen] + gaps[chosen] / 2)


def _first(search, sigma):
    """(factor, shift, whether the shift is farther than at first): the first shift at which A - sigma M is positive definite."""
    at, bound = sigma, 2 * search.pencil.bound()
    while True:
        try:
            return search.factor(at), at, at != sigma
        except NotPositiveDefiniteError:
            if -at >= bound:
                raise
            at = max(RAISED * at, -bound)


def _nearest(search, sigma, better):
    """(factor, shift): the better shift, or one nearer to ``sigma`` if an eigenvalue lies below that."""
    for share in (0.0, 0.1, 0.5):
        with contextlib.suppress(NotPositiveDefiniteError):
            at = better + share * (sigma - better) if sigma < better else better
            return search.factor(at), at
    return search.factor(sigma), sigma


def _better(search, iteration, F, k, is_raised):
    """A shift that is better than that of the iteration, or None."""
    sigma, ritz = iteration.sigma, iteration.ritz()
    values = np.sort(ritz.values(sigma)[ritz.theta > 0])
    number = min(k, LOOKED_AT, len(values)) - 1
    if number < 0:
        return None
    if not is_raised and values[number] >= -SHIFT_TO_LAST * sigma:
        better = -SHIFT_TO_FIRST * float(values[values > abs(sigma)].min(initial=np.inf))
        return better if np.isfinite(better) and better < FAR * sigma else None
    quotients, floors = _quotients(search, iteration, ritz, F, k)
    number = min(number, len(quotients) - 1)
    if number < 0:
        return None
    if quotients[0] < -quality.ZERO * floors[0]:
        return _below(quotients[0], quotients[number], floors[:number + 1].max(), sigma)
    last, largest = quotients[number], quality.ZERO * floors[:number + 1].max()
    near = np.count_nonzero(quotients < -SHIFT_TO_LAST * sigma)
    if near <= number or near < len(quotients) and quotients[near - 1] <= -GROUP * sigma or last <= quality.ZERO * floors[number]:
        return None
    better = -max(SHIFT_TO_LAST * last, largest)
    return better if better > SHIFT_TO_LAST * sigma else None


def _below(first, last, floor, sigma):
    """A shift below the first of some negative eigenvalues, as far from it as it is from the last wanted one; None if that is no gain."""
    better = first - max(last - first, NEGATIVE * abs(first), quality.ZERO * floor)
    return better if first - better < SHIFT_TO_LAST * (first - sigma) else None


def _quotients(search, iteration, ritz, F, k):
    """Rayleigh quotients, ascending, of the span of Ritz vectors nearest to the shift, and their floors."""
    pencil = search.pencil
    numbers = np.flatnonzero(ritz.theta > 0)
    numbers = numbers[np.argsort(-ritz.theta[numbers], kind="stable")][:max(LOOKED_AT + WIDTH, min(k, LOOKED_AT) + WIDTH)]
    X = iteration.vectors(ritz, numbers, pencil.row_scale())
    if not iteration.is_complete:
        X = pencil.completed(F, X, ritz.theta[numbers])
    w, X = quality.rayleigh_ritz(pencil, X)
    facts = quality.judged(pencil, search.tol, w, X)
    order = np.argsort(facts.quotients, kind="stable")
    return facts.quotients[order], facts.floors[order]
