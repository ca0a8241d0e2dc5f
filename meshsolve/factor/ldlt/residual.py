"""What solutions leave over in a matrix that the factor keeps scaled, in the scaled numbers and in the caller's."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from meshsolve import _core, device
from meshsolve.factor.refine import backward_error
from meshsolve.sparse.columns import max_abs
from meshsolve.sparse.product import residual


class Residual:
    """b - A x of the matrix A whose scaled values S A S are kept, S = diag(scale). Solutions lie where the factor does.

    Parameters
    ----------
    pattern : Csr
    scaled : (nnz,) float64
    scale : (n,) float64
    threads : int
    on_device : bool
    """

    def __init__(self, pattern, scaled, scale, threads, on_device):
        self._given = pattern.indptr, pattern.indices, scaled, scale[:, None]
        self._threads, self._on_device = threads, on_device

    def __getstate__(self):
        """Without what is on the GPU."""
        return {name: value for name, value in dict(self.__dict__).items() if name != "_arrays"}      # threads may add to it

    def scaled(self, x, b):
        """(S b, S^-1 x, S (b - A x)) of (n, k) arrays: of the system whose entries are at most about 1."""
        indptr, indices, values, scale = self._arrays
        B, X = scale * b, x / scale
        return B, X, self._leftover(indptr, indices, values, B, X)

    def __call__(self, x, b):
        """(b - A x, its backward error), see :func:`meshsolve.factor.refine.backward_error`."""
        with np.errstate(all="ignore"):
            r = self.scaled(x, b)[2] / self._arrays[3]
        sizes = [max_abs(columns) for columns in (r, x, b)]
        return r, backward_error(self.norm, *(device.to_host(device.xp().stack(sizes)) if self._on_device else sizes))

    @cached_property
    def _arrays(self):
        return tuple(map(device.to_device, self._given)) if self._on_device else self._given

    @cached_property
    def norm(self):
        """The largest sum of a row of |A|."""
        indptr, indices, values, scale = self._arrays
        if self._on_device:
            return float((residual(indptr, indices, values, -1 / scale, 0 * scale, magnitudes=True) / scale).max())
        return _core.ldlt_norm(indptr, indices, values, scale[:, 0], self._threads)

    def _leftover(self, indptr, indices, values, B, X):
        return residual(indptr, indices, values, X, B, threads=self._threads)
