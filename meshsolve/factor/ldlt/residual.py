"""Residuals of a matrix that the factor keeps scaled, in the scaled and in the caller's units."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from meshsolve import _core
from meshsolve.sparse.places import HOST, PLACES
from meshsolve.sparse.product import residual
from meshsolve.sparse.refine import Normwise

OUTSIDE, ROUNDING = 1e-10, 1e4      # residual of a complete factor above which b is not in the range: relative to |b|, plus eps |x|
ENOUGH, TARGET, STEPS = 1e-13, 1e-15, 2     # backward error that is not refined, target of refinement, most steps


class Residual:
    """b - A x of the matrix A whose scaled values S A S are stored, S = diag(scale).

    Parameters
    ----------
    pattern : Csr
    scaled : (nnz,) float64
    scale : (n,) float64
    threads : int
    place : {"cpu", "cuda"}
        The device of solutions and right-hand sides. The other arguments lie on the host.
    """

    def __init__(self, pattern, scaled, scale, threads, place):
        self._given = pattern.indptr, pattern.indices, scaled, scale[:, None]
        self._threads, self._place = threads, place

    def __getstate__(self):
        """Without arrays on the GPU."""
        return {name: value for name, value in dict(self.__dict__).items() if name != "_arrays"}      # other threads may add to it

    def scaled(self, x, b):
        """(S b, S^-1 x, S (b - A x)) of (n, k) arrays. The entries of S A S are at most about 1."""
        indptr, indices, values, scale = self._arrays
        B, X = scale * b, x / scale
        return B, X, residual(indptr, indices, values, X, B, threads=self._threads)

    def __call__(self, x, b):
        """(b - A x, its backward error), see :func:`meshsolve.sparse.refine.Normwise`."""
        return Normwise(self._residual, self.norm)(x, b)

    @cached_property
    def norm(self):
        """The largest sum of a row of |A|."""
        indptr, indices, values, scale = self._arrays
        if self._place == HOST.name:
            return _core.ldlt_norm(indptr, indices, values, scale[:, 0], self._threads)
        return float((residual(indptr, indices, values, -1 / scale, 0 * scale, magnitudes=True) / scale).max())

    def _residual(self, x, b):
        with np.errstate(all="ignore"):
            return self.scaled(x, b)[2] / self._arrays[3]

    @cached_property
    def _arrays(self):
        return tuple(map(PLACES[self._place].bring, self._given))
