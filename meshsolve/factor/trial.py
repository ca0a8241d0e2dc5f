"""Trials of a factor. Known solutions show whether a matrix is singular in rounding, others what its skew part changes.

Rounding turns zero pivots into tiny ones of either sign, so that a singular matrix has a factor. Its solutions are huge, and their
backward errors small. Known solutions, however, come back with errors as large as themselves. Cost: one solve and one product.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.errors import MeshsolveWarning
from meshsolve.factor.base import irregular
from meshsolve.report import without_warnings

TRIALS = 4              # right-hand sides of effect_of


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


def effect_of(doubt, solve, size):
    """Return (effect, row, column): the largest residual that the skew part leaves, and the entry that contributes most to it.

    Parameters
    ----------
    doubt : Doubt
        Of the matrix.
    solve : callable of an (n, k) float64 array on the host
        Solves with the symmetric part. Its result may lie on the GPU.
    size : (n, 1) float64
        Sizes of the entries of the right-hand sides. Residuals are relative to them. Rows of size 0 are not measured.
    """
    skew, b = doubt.skew(), irregular(size.size * TRIALS).reshape(-1, TRIALS) * size
    b[:, 0] = np.abs(b[:, 0])                               # an irregular vector may be nearly orthogonal to the largest solutions
    with np.errstate(all="ignore"), without_warnings(MeshsolveWarning):
        x = device.to_host(solve(b))
        left = np.abs(skew @ x) / np.where(size > 0, size, np.inf)
    left[np.isnan(left)] = np.inf
    row, k = map(int, np.unravel_index(np.argmax(left), left.shape))
    entries = slice(skew.indptr[row], skew.indptr[row + 1])
    columns = skew.indices[entries]
    column = int(columns[np.argmax(np.abs(skew.data[entries] * x[columns, k]))]) if len(columns) else row
    return float(left[row, k]), row, column
