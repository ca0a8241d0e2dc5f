"""Iterative refinement in the precision of the factor, stopped by a backward error, and the backward errors to stop by.

Sources: Skeel 1980, "Iterative refinement implies numerical stability for Gaussian elimination"; Wilkinson 1963 (a factor in lower
precision); Rigal and Gaches 1967 (normwise backward error); Oettli and Prager 1964 (componentwise backward error).
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.sparse.columns import max_abs
from meshsolve.sparse.places import where


class Refined(NamedTuple):
    """A solution, its backward error, the number of corrections, and b - A x."""

    x: np.ndarray
    error: float
    steps: int
    residual: np.ndarray


def refine(measure, b, x, solve, enough, target, most, ahead=0):
    """Correct x by ``solve(b - A x)`` until its backward error is at most ``target`` or no longer halves.

    Parameters
    ----------
    measure : callable of (x, b), or Normwise
        Returns ``b - A x`` and a backward error.
    b, x : (n, k) arrays of the factor's dtype
    solve : callable of an (n, k) array
    enough : float
        Backward error up to which x is not corrected at all.
    target : float
    most : int
        Largest number of corrections.
    ahead : int
        Corrections that are computed before the first backward error is read, with a Normwise measure. The result is the same. On a GPU
        a correction takes less time than a read.

    Returns
    -------
    Refined
    """
    solutions = _corrected(measure, b, x, solve, ahead)
    best = next(solutions)
    if best.error <= enough:
        return best
    for _ in range(most):
        if best.error <= target:
            break
        last, best = best, min(best, next(solutions), key=lambda found: found.error)
        if best is last or best.error > 0.5 * last.error:
            break
    return best


# ---- backward errors --------------------------------------------------------------------------------------------------


def backward_error(norm, r, x, b):
    """Return ||r|| / (||A|| ||x|| + ||b||), worst column, infinite for NaN.

    ``r``, ``x``, ``b``: (k,) norms of the columns of r = b - A x, x and b, on the host. Products and quotients of the norms may leave
    the range of float64.
    """
    return _core.backward_error(norm, *(np.ascontiguousarray(size, np.float64) for size in (r, x, b)))


class Normwise:
    """A ``measure`` with the normwise backward error in infinity norms.

    Parameters
    ----------
    residual : callable of (x, b)
        Returns b - A x.
    norm : float
        ||A||; with a scale, that of the scaled matrix.
    scale : (n, 1) array, optional
        S of the scaled system S^-1 A S^-1 (S x) = S^-1 b, in which small rows count as large ones do.
    """

    def __init__(self, residual, norm, scale=None):
        self._residual, self._norm, self._scale = residual, norm, scale

    def __call__(self, x, b):
        r, sizes = self.sizes(x, b)
        return r, self.errors([sizes])[0]

    def sizes(self, x, b):
        """Return b - A x, and the norms of the columns of b - A x, x and b, (3, k), in the place of x."""
        r, scale = self._residual(x, b), self._scale
        with np.errstate(all="ignore"):
            columns = (r, x, b) if scale is None else (r / scale, x * scale, b / scale)
            return r, where(r).xp.stack([max_abs(v) for v in columns])

    def errors(self, sizes):
        """Return the backward errors of solutions with these norms. Reads once."""
        together = sizes[0][None] if len(sizes) == 1 else where(sizes[0]).xp.stack(sizes)
        return [backward_error(self._norm, *of_one) for of_one in device.to_host(together)]


def by_rows(measure, size, x):
    """Return ``measure`` with the backward error of each row relative to its own size.

    ``size``, ``x``: (n, 1) arrays |A| |x|, and the solution.
    """
    return _with_error(measure, lambda now, r: float(abs(r / size).max()) / (1 + float(abs(now / x).max())))


def componentwise(measure, size):
    """Return ``measure`` with the componentwise backward error: residual rows relative to the rows of ``size``, |A| |x| + |b|."""
    return _with_error(measure, lambda now, r: float((abs(r) / (size + (size == 0))).max()))


# ---- helpers --------------------------------------------------------------------------------------------------------


def _corrected(measure, b, x, solve, ahead):
    """Yield x and its corrections, each as Refined."""
    queued = [(x, *measure.sizes(x, b))] if ahead else [(x, *measure(x, b))]
    for _ in range(ahead):
        x = _correct(*queued[-1][:2], solve)
        queued.append((x, *measure.sizes(x, b)))
    errors = measure.errors([sizes for _, _, sizes in queued]) if ahead else [queued[0][2]]
    steps = itertools.count()
    for (x, r, _), error in zip(queued, errors):
        yield Refined(x, error, next(steps), r)
    while True:
        x = _correct(x, r, solve)
        r, error = measure(x, b)
        yield Refined(x, error, next(steps), r)


def _correct(x, r, solve):
    with np.errstate(all="ignore"):
        return x + solve(r)


def _with_error(measure, error_of):
    """Return ``measure`` with another error, a function of x and the residual; infinite for NaN."""
    def of(x, b):
        r, _ = measure(x, b)
        with np.errstate(all="ignore"):
            error = error_of(x, r)
        return r, error if np.isfinite(error) else np.inf

    return of
