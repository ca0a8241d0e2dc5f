"""KLU of SuiteSparse, from the system's library (Debian: libsuitesparse-dev): AMD, block triangular form, row scaling.

The defaults are those of ``klu_defaults``. The refactorization is ``klu_refactor``: the pivots of the first factorization.
"""

from __future__ import annotations

import ctypes
import ctypes.util

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.base import Unavailable

COMMON_BYTES = 1024                       # larger than sizeof(klu_common) in every version


class Klu:
    """Phases of KLU on prepared arrays."""

    def __init__(self):
        path = ctypes.util.find_library("klu")
        if path is None:
            raise Unavailable("KLU's library (Debian: libsuitesparse-dev) is not installed")
        self.lib = ctypes.CDLL(path)
        for function in ("klu_analyze", "klu_factor"):
            getattr(self.lib, function).restype = ctypes.c_void_p
        self.common = ctypes.create_string_buffer(COMMON_BYTES)
        self.lib.klu_defaults(self.common)
        self.symbolic = self.numeric = None

    def version(self):
        return f"KLU ({self.lib._name})"

    def matrix(self, A):
        M = sp.csc_array(A)
        M.sort_indices()
        M.indptr, M.indices = M.indptr.astype(np.int32), M.indices.astype(np.int32)
        return M

    def analyze(self, M):
        self.symbolic = self.lib.klu_analyze(M.shape[0], _pointer(M.indptr), _pointer(M.indices), self.common)
        if not self.symbolic:
            raise RuntimeError("klu_analyze failed")

    def factor(self, M):
        self.numeric = self.lib.klu_factor(_pointer(M.indptr), _pointer(M.indices), _pointer(M.data), ctypes.c_void_p(self.symbolic),
                                           self.common)
        if not self.numeric:
            raise RuntimeError("klu_factor failed")

    def refactor(self, M):
        if not self.lib.klu_refactor(_pointer(M.indptr), _pointer(M.indices), _pointer(M.data), ctypes.c_void_p(self.symbolic),
                                     ctypes.c_void_p(self.numeric), self.common):
            raise RuntimeError("klu_refactor failed")

    def solve(self, B):
        """B is (n, k) in Fortran order."""
        X = np.array(B, order="F", copy=True)
        k = 1 if X.ndim == 1 else X.shape[1]
        self.lib.klu_solve(ctypes.c_void_p(self.symbolic), ctypes.c_void_p(self.numeric), X.shape[0], k, _pointer(X), self.common)
        return X

    def facts(self):
        """``nnz_LU`` (with the diagonal once) and the number of blocks."""
        head = (ctypes.c_int * 6).from_address(self.numeric)            # n, nblocks, lnz, unz, max_lnz_block, max_unz_block
        return {"nnz_LU": head[2] + head[3] - head[0], "blocks": head[1]}

    def close(self):
        for name, handle in (("klu_free_numeric", self.numeric), ("klu_free_symbolic", self.symbolic)):
            if handle:
                getattr(self.lib, name)(ctypes.byref(ctypes.c_void_p(handle)), self.common)
        self.symbolic = self.numeric = None


def _pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)
