"""Trials of a factor by known solutions, which show whether a matrix is singular in rounding.

Rounding turns zero pivots into tiny ones of either sign, so that a singular matrix has a factor. Its solutions are huge, and their
backward errors small. Known solutions, however, come back with errors as large as themselves. Cost: one solve and one product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.factor.base import irregular


class Trial(NamedTuple):
    """Known solutions x, (n, k), their right-hand sides b, and the solutions ``found`` for b, all on the host."""

    x: np.ndarray
    b: np.ndarray
    found: np.ndarray

    def error(self, scale, columns=None):
        """Largest error in the first ``columns`` of x, relative to the (n, 1) array ``scale``; infinite for NaN."""
        with np.errstate(all="ignore"):
            error = np.max(np.abs(self.found - self.x)[:, :columns] / scale)
        return float(error) if np.isfinite(error) else np.inf


def try_known_solutions(product, solve, size, dtype=np.float64):
    """Solve for known solutions with irregular entries of either sign.

    Parameters
    ----------
    product, solve : callables of an (n, k) array of ``dtype`` on the host
        Multiply by A, and solve with its factor. Their results may lie on the GPU.
    size : (n, k) float64
        Absolute values of the entries, which are this number times 1/2 to 1.
    dtype : dtype, optional

    Returns
    -------
    Trial
    """
    known = (irregular(size.size).reshape(size.shape) * size).astype(dtype, copy=False)
    with np.errstate(all="ignore"):
        b = product(known)
        return Trial(known, device.to_host(b), device.to_host(solve(b)))
