"""Intel MKL's PARDISO, found by pypardiso and called directly: phases 11, 22 and 33 on prepared arrays.

pypardiso's own calls copy the matrix and both vectors each time, which is not timed here. MKL's threads are set by
``MKL_NUM_THREADS`` before the process starts. Parameters: mtype 2 (symmetric positive definite), upper triangle, no input
check, no refinement steps. MKL's defaults for the rest are not its best. With iparm(24) = 10 and iparm(25) = 2 ("tuned") the
numeric phase is 1.3 times faster (1.8 with two threads), and the solve of three right-hand sides 1.6 times.
"""

from __future__ import annotations

import ctypes
import importlib.metadata

import numpy as np
import scipy.sparse as sp

from benchmarks.peers.base import Solver, Unavailable, pointer, triangle

REORDERINGS = {"amd": 0, "metis": 2, "omp": 3, "given": 2}                 # iparm(2)


class Pardiso(Solver):
    """PARDISO with METIS, with its own parallel nested dissection ("omp"), or with a given permutation."""

    mtype = 2                                                               # symmetric positive definite

    def __init__(self, ordering, perm=None, tuned=True):
        super().__init__()
        self.call, self.M = _load(), None
        self.handle = np.zeros(64, np.int64)
        self.iparm = np.zeros(64, np.int32)
        self._set(1, 1)                                                     # the values below, not the defaults
        self._set(2, REORDERINGS[ordering])
        self._set(18, -1)                                                   # report the nonzeros of L
        if tuned:
            self._set(24, 10)
            self._set(25, 0 if ordering == "given" else 2)                  # 2 solves wrongly on a given permutation (MKL 2026)
        self._set(35, 1)                                                    # indices count from 0
        self.perm = np.zeros(1, np.int32)
        if ordering == "given" and perm is not None:
            self._set(5, 1)                                                 # row i of the permuted matrix is row perm(i)
            self.perm = np.ascontiguousarray(perm, np.int32)

    def close(self):
        if self.M is not None:
            self._run(-1, self.M)
        self.M = None

    def version(self):
        return f"MKL {importlib.metadata.version('mkl')} PARDISO"

    def matrix(self, A):
        return triangle(A, upper=True)

    def analyze(self, M):
        self.M = M
        self._run(11, M)

    def factor(self, M):
        self._run(22, M)

    def solve(self, B):
        X = np.empty_like(B, order="F")
        self._run(33, self.M, B, X)
        return X

    def facts(self):
        return {"nnz_L": int(self.iparm[17])}

    def _set(self, number, value):
        self.iparm[number - 1] = value

    def _run(self, phase, M, B=None, X=None):
        number = [ctypes.c_int32(v) for v in (1, 1, self.mtype, phase, M.shape[0], 1 if B is None else B.shape[1], 0, 0)]
        maxfct, mnum, mtype, phase_, n, nrhs, msglvl, error = map(ctypes.byref, number)
        self.call(pointer(self.handle), maxfct, mnum, mtype, phase_, n, pointer(M.data), pointer(M.indptr), pointer(M.indices),
                  pointer(self.perm), nrhs, pointer(self.iparm), msglvl, pointer(B), pointer(X), error)
        if number[-1].value:
            raise RuntimeError(f"PARDISO phase {phase} failed with error {number[-1].value}")


class PardisoIndefinite(Pardiso):
    """mtype -2, symmetric indefinite: Bunch-Kaufman pivots inside supernodes, one step of refinement; optional matching."""

    mtype = -2

    def __init__(self, matching=False):
        super().__init__("metis", tuned=False)
        self._set(8, 1)                                                     # refinement
        self._set(10, 8)                                                    # pivots below 1e-8 are perturbed
        self._set(11, int(matching))                                        # scaling and symmetric weighted matching
        self._set(13, int(matching))
        self._set(21, 1)                                                    # 1x1 and 2x2 pivots

    def matrix(self, A):
        """The upper triangle with every diagonal entry stored, as PARDISO requires."""
        whole = sp.coo_array(A)
        k = np.arange(A.shape[0])
        full = sp.csr_array((np.append(whole.data, np.zeros(len(k))), (np.append(whole.row, k), np.append(whole.col, k))), shape=A.shape)
        return triangle(full, upper=True)

    def analyze(self, M):
        self.M = M
        b = np.zeros((M.shape[0], 1))
        self._run(11, M, b, b.copy())                                       # the matching reads values in this phase


class PardisoLU(Pardiso):
    """PARDISO for unsymmetric matrices: METIS, maximum product matching and scaling, no refinement."""

    mtype = 11

    def __init__(self):
        super().__init__("metis", tuned=False)
        self._set(10, 13)                                                   # pivots below 1e-13 are replaced
        self._set(11, 1)                                                    # scaling
        self._set(13, 1)                                                    # matching

    def matrix(self, A):
        M = A.copy()
        M.indptr, M.indices = M.indptr.astype(np.int32), M.indices.astype(np.int32)
        return M


def _load():
    try:
        import pypardiso

        call = pypardiso.PyPardisoSolver(mtype=2).libmkl.pardiso
    except (ImportError, OSError) as e:
        raise Unavailable(f"{e} (pip install pypardiso)") from e
    call.argtypes, call.restype = [ctypes.c_void_p] * 16, None
    return call
