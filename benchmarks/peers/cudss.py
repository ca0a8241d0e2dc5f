"""cuDSS' uniform batch: many symmetric positive definite systems of one pattern in one call, in its own ordering."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.base import Unavailable
from meshsolve import device
from meshsolve.errors import DeviceUnavailableError
from meshsolve.factor.cholesky.cudss import _Solver, _upper


class UniformBatch:
    """N matrices with the pattern of an analysis. Values and vectors lie on the GPU, one system after the other.

    Parameters
    ----------
    symbolic : Symbolic
    count : int
        Number of systems.

    Raises
    ------
    Unavailable
        nvmath-python or cuDSS is missing, or too old for uniform batches.
    """

    def __init__(self, symbolic, count):
        xp, pattern = device.xp(), symbolic.pattern_on_device
        self._take, (indptr, indices, _) = _upper(pattern, xp.arange(pattern.n), np.dtype(np.float64))
        self._values = xp.empty((count, len(indices)), np.float64)
        try:
            self._solver = _Solver(indptr, indices, self._values, our_ordering=False, tree_name=None, partition=None)
        except DeviceUnavailableError as why:
            raise Unavailable(str(why)) from why
        cudss, size = self._solver._cudss, np.array([count], np.int32)
        if not hasattr(cudss.ConfigParam, "UBATCH_SIZE"):
            raise Unavailable("this cuDSS has no uniform batches")
        cudss.config_set(self._solver._config, cudss.ConfigParam.UBATCH_SIZE, size.ctypes.data, size.nbytes)
        self._is_analyzed = False

    def refactor(self, values):
        """Factor the systems with these values, (N, nnz) in the analyzed pattern."""
        self._values[...] = values[:, self._take]
        if not self._is_analyzed:
            self._solver.execute("ANALYSIS")
            self._is_analyzed = True
        self._solver.execute("FACTORIZATION")

    def solve(self, b):
        """Return the solutions of all systems for b, (N, n)."""
        x = device.xp().empty_like(b)
        self._solver.solve(x.reshape(-1, 1), b.reshape(-1, 1))
        return x
