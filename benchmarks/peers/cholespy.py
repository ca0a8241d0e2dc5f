"""cholespy: CHOLMOD's factorization, its own triangular solves (pip install cholespy)."""

from __future__ import annotations

import importlib.metadata

import numpy as np

from benchmarks.peers.base import Solver, Unavailable


class Cholespy(Solver):
    """CholeskySolverD: analysis and factorization in one constructor, no refactorization apart from a new one."""

    splits = False

    def __init__(self, perm=None):
        super().__init__()
        try:
            import cholespy
        except ImportError as e:
            raise Unavailable(f"{e} (pip install cholespy)") from e
        self.module = cholespy

    def version(self):
        return f"cholespy {importlib.metadata.version('cholespy')}"

    def matrix(self, A):
        return A.shape[0], A.indptr.astype(np.int32), A.indices.astype(np.int32), A.data

    def rhs(self, B):
        return np.ascontiguousarray(B)

    def factor(self, M):
        self.solver = self.module.CholeskySolverD(*M, self.module.MatrixType.CSR)

    def solve(self, B):
        X = np.empty_like(B)
        self.solver.solve(B, X)
        return X
