"""Backward errors by which solutions are measured: of the whole system, and of each row."""

from __future__ import annotations

import numpy as np

from meshsolve.factor.base import irregular


def unit_solution(scale):
    """A solution whose scaled entries have either sign and absolute values between 1/2 and 1, as (n, 1)."""
    return (scale * irregular(len(scale)))[:, None]


def by_rows(measure, size, x):
    """``measure`` with the backward error of each row relative to its own size.

    Parameters
    ----------
    measure : callable of (x, b)
        Returns the residual and a backward error.
    size, x : (n, 1) arrays
        |A| |x|, and the solution.
    """
    def of(now, b):
        r, _ = measure(now, b)
        with np.errstate(all="ignore"):
            error = float(abs(r / size).max()) / (1 + float(abs(now / x).max()))
        return r, error if np.isfinite(error) else np.inf

    return of


def componentwise(measure, size):
    """``measure`` with the componentwise backward error: each row of the residual relative to its row of ``size``, |A| |x| + |b|."""
    def of(now, b):
        r, _ = measure(now, b)
        with np.errstate(all="ignore"):
            error = float((abs(r) / (size + (size == 0))).max())
        return r, error if np.isfinite(error) else np.inf

    return of
