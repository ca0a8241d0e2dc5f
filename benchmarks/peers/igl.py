"""libigl's min_quad_with_fixed without fixed rows: the solve of libigl's own tutorials (pip install libigl)."""

from __future__ import annotations

import importlib.metadata

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.base import Solver, Unavailable


class Igl(Solver):
    """Minimizes tr(X'AX)/2 - tr(X'B); analysis and factorization in one call (Eigen's SimplicialLLT inside)."""

    splits = False

    def __init__(self, perm=None):
        super().__init__()
        try:
            import igl

            self.prepare, self.minimize = igl.min_quad_with_fixed_precompute, igl.min_quad_with_fixed_solve
            self.make = igl.min_quad_with_fixed_data
        except (ImportError, AttributeError) as e:
            raise Unavailable(f"{e} (pip install libigl)") from e

    def version(self):
        return f"libigl {importlib.metadata.version('libigl')} min_quad_with_fixed"

    def matrix(self, A):
        return sp.csc_matrix(A)

    def rhs(self, B):
        return -B                               # linear term

    def factor(self, M):
        self.data = self.make()
        self.prepare(A=M, pd=True, data=self.data)

    def solve(self, B):
        none = np.zeros((0, B.shape[1]))       # no fixed values, no equations; numbers of columns must agree
        return self.minimize(self.data, B, none, none)
