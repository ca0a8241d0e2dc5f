"""The scaled matrices of a convex program and the factor of its KKT matrices, which have one pattern.

A KKT matrix is [P + diag(d), G^T; G, -diag(w)] with nonnegative d and w. Rows that are ``off`` are rows of the identity. Solutions are
refined until their componentwise backward error is a rounding error: entries of one KKT matrix differ by 30 decades.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp

from meshsolve.api.convex.presolve import Presolve
from meshsolve.api.convex.scaling import equilibrate, scaled
from meshsolve.api.factors import ildl
from meshsolve.errors import MeshsolveWarning
from meshsolve.report import without_warnings

REFINEMENTS = 5         # steps of refinement; one or two are usual
SMALL_ERROR = 1e-15     # componentwise backward error that is not refined


class Model:
    """Scaled P and G of min 1/2 x^T P x - b^T x with bounds on x and G x.

    Attributes
    ----------
    P, G : csr_array
        Scaled; ``P_sizes`` and ``G_sizes`` have the absolute values.
    columns, rows, cost : see :class:`meshsolve.api.convex.scaling.Scaling`
    factorizations : int
        Number so far.
    """

    def __init__(self, P, G, threads, device):
        self.n, self.p = P.shape[0], G.shape[0]
        self.columns, self.rows, self.cost = equilibrate(P, G)
        self.P = scaled(P, self.columns * self.cost, self.columns)
        self.G = scaled(G, self.rows, self.columns)
        self.P_sizes, self.G_sizes = abs(self.P), abs(self.G)
        self.threads, self.device, self.factorizations, self._factor = threads, device, 0, None

    @functools.cached_property
    def presolve(self):
        return Presolve(self.P, self.G)

    @functools.cached_property
    def transposed(self):
        return sp.csr_array(self.G.T)

    @functools.cached_property
    def transposed_sizes(self):
        return abs(self.transposed)

    def gradient(self, x, y, b):
        """P x - b - G^T y."""
        return self.P @ x - b - self.transposed @ y

    def factor(self, d, w, off):
        """Factor the KKT matrix; ``off``: (n + p,) bool."""
        K = self._pattern
        data = K.data.copy()
        data[off[self._entry_rows] | off[K.indices]] = 0
        data[self._diagonal] += np.r_[d, -w]
        data[self._diagonal[off]] = 1
        self._matrix = sp.csr_array((data, K.indices, K.indptr), shape=K.shape)
        self._sizes, self._off = abs(self._matrix), off
        with without_warnings(MeshsolveWarning):
            if self._factor is None:
                self._factor = ildl(self._matrix, fill_level=None, device=self.device, threads=self.threads)
            else:
                self._factor.refactor(self._matrix)
        self.factorizations += 1

    def inertia(self):
        """(positive, negative, zero) eigenvalues of the factored matrix."""
        with without_warnings(MeshsolveWarning):
            return self._factor.inertia

    def solve(self, f, g):
        """(x, y) with P x + d x - G^T y = f and G x + w y = g; 0 in the rows that are off."""
        b = np.r_[f, g]
        b[self._off] = 0
        z = self._applied(b)
        best, error = z, np.inf
        for _ in range(REFINEMENTS + 1):
            r = b - self._matrix @ z
            size = self._sizes @ abs(z) + abs(b)
            now = (abs(r) / np.where(size > 0, size, 1)).max(initial=0)
            if not now < 0.5 * error:
                best = z if now < error else best
                break
            best, error = z, now
            if now < SMALL_ERROR:
                break
            z = z + self._applied(r)
        return best[:self.n], -best[self.n:]

    def _applied(self, b):
        return self._factor.apply_columns(b[:, None])[:, 0]

    @functools.cached_property
    def _pattern(self):
        n, k = self.n, np.arange(self.n + self.p)
        P, G = self.P.tocoo(), self.G.tocoo()
        rows, columns = np.r_[P.row, G.row + n, G.col, k], np.r_[P.col, G.col, G.row + n, k]
        K = sp.csr_array((np.r_[P.data, G.data, G.data, np.zeros(len(k))], (rows, columns)), shape=(len(k), len(k)))
        K.sum_duplicates()
        K.sort_indices()
        return K

    @functools.cached_property
    def _entry_rows(self):
        return np.repeat(np.arange(self.n + self.p), np.diff(self._pattern.indptr))

    @functools.cached_property
    def _diagonal(self):
        return np.flatnonzero(self._entry_rows == self._pattern.indices)
