"""The backward errors that solutions are measured by: of the whole, of each row, and beside what is known of x."""

from __future__ import annotations

import numpy as np

from meshsolve.factor.base import irregular


def flat(scale):
    """A solution with scaled entries of either sign between 1/2 and 1, as (n, 1)."""
    return (scale * irregular(len(scale)))[:, None]


def by_rows(measure, size, x):
    """``measure`` with the backward error of each row beside its own size, so that a large row does not hide the others.

    Parameters
    ----------
    measure : callable of (x, b)
        What :func:`measured_residual` gives, where the arrays lie.
    size, x : (n, 1) arrays
        |A| |x|, and the solution.
    """
    def of(now, b):
        r, _ = measure(now, b)
        with np.errstate(all="ignore"):
            error = float(abs(r / size).max()) / (1 + float(abs(now / x).max()))
        return r, error if np.isfinite(error) else np.inf

    return of


def beside_rows(measure, size):
    """``measure`` with the componentwise backward error: each row of the residual beside its row of ``size``, |A| |x| + |b|."""
    def of(now, b):
        r, _ = measure(now, b)
        with np.errstate(all="ignore"):
            error = float((abs(r) / (size + (size == 0))).max())
        return r, error if np.isfinite(error) else np.inf

    return of
