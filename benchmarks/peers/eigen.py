"""Eigen's SimplicialLLT (AMD) by the layer eigen.cpp, compiled for this machine (Debian: libeigen3-dev)."""

from __future__ import annotations

import ctypes
import functools

import numpy as np

from benchmarks.peers.base import Solver, compile_layer, pointer, triangle


class Eigen(Solver):
    """SimplicialLLT, always on one thread."""

    def __init__(self, perm=None):
        super().__init__()
        self.library = _load()
        self.solver = ctypes.c_void_p(self.library.solver_new())

    def close(self):
        self.library.solver_free(self.solver)

    def version(self):
        return f"Eigen {self.library.eigen_release().decode()} SimplicialLLT"

    def matrix(self, A):
        return triangle(A, upper=True)

    def analyze(self, M):
        self.library.solver_analyze(self.solver, M.shape[0], pointer(M.indptr), pointer(M.indices), pointer(M.data))

    def factor(self, M):
        if self.library.solver_factor(self.solver, M.shape[0], pointer(M.indptr), pointer(M.indices), pointer(M.data)):
            raise RuntimeError("Eigen: the matrix is not positive definite")

    def solve(self, B):
        X = np.empty_like(B, order="F")
        self.library.solver_solve(self.solver, *B.shape, pointer(B), pointer(X))
        return X

    def facts(self):
        return {"nnz_L": int(self.library.solver_nnz(self.solver))}


@functools.cache
def _load():
    library = compile_layer("eigen.cpp", "g++", ["-O3", "-march=native", "-DNDEBUG", "-std=c++17", "-I/usr/include/eigen3"])
    library.solver_new.restype = ctypes.c_void_p
    library.solver_nnz.restype = ctypes.c_long
    library.eigen_release.restype = ctypes.c_char_p
    return library
