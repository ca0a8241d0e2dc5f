"""CHOLMOD of SuiteSparse by the layer cholmod.c (Debian: libsuitesparse-dev libopenblas0-pthread)."""

from __future__ import annotations

import ctypes
import functools
import pathlib

import numpy as np

from benchmarks.peers.base import Solver, Unavailable, compile_layer, pointer, triangle

KINDS = {"simplicial": 0, "auto": 1, "supernodal": 2}
ORDERINGS = {"given": 1, "amd": 2, "metis": 3}


class Cholmod(Solver):
    """CHOLMOD with one ordering; supernodal by default. BLAS threads by ``OPENBLAS_NUM_THREADS``."""

    def __init__(self, ordering, kind="supernodal", perm=None):
        super().__init__(None if perm is None else np.ascontiguousarray(perm, np.int32))
        self.library = _load()
        self.session = ctypes.c_void_p(self.library.session_new(KINDS[kind], ORDERINGS[ordering]))

    def close(self):
        self.library.session_free(self.session)

    def version(self):
        return f"CHOLMOD {self.library.cholmod_release().decode()}, BLAS {_blas(self.library)}"

    def matrix(self, A):
        return triangle(A)

    def analyze(self, M):
        self.n, self.M = M.shape[0], M                  # the session uses M's arrays without a copy
        self._done(self.library.session_analyze(self.session, self.n, pointer(M.indptr), pointer(M.indices),
                                                pointer(M.data), pointer(self.perm)))

    def factor(self, M):
        self._done(self.library.session_factor(self.session, pointer(M.data)))

    def solve(self, B):
        X = np.empty_like(B, order="F")
        self._done(self.library.session_solve(self.session, B.shape[1], pointer(B), pointer(X)))
        return X

    def update(self, C, up=True):
        """The factor of A + C C^T, or A - C C^T, of an (n, k) csc_array with int32 indices, ascending in each column."""
        self._done(self.library.session_update(self.session, int(up), C.shape[1], pointer(C.indptr), pointer(C.indices), pointer(C.data)))

    def facts(self):
        facts = np.zeros(3)
        self.library.session_facts(self.session, pointer(facts))
        return {"nnz_L": int(facts[0]), "flops": float(facts[1]), "supernodal": bool(facts[2])}

    @staticmethod
    def _done(status):
        if status != 0:
            raise RuntimeError(f"CHOLMOD status {status}")


@functools.cache
def _load():
    library = compile_layer("cholmod.c", "cc", ["-O2", "-lcholmod", "-lblas", "-ldl"])
    library.session_new.restype = ctypes.c_void_p
    library.cholmod_release.restype = library.blas_file.restype = ctypes.c_char_p
    if "openblas" not in _blas(library).lower() and "mkl" not in _blas(library).lower():
        raise Unavailable(f"its BLAS is {_blas(library)}: an optimized one is needed to be fair (libopenblas0-pthread)")
    return library


def _blas(library):
    """File name of the BLAS behind CHOLMOD, with OpenBLAS' own description where it has one."""
    path = pathlib.Path(library.blas_file().decode()).resolve()
    try:
        opened = ctypes.CDLL("libopenblas.so.0")
        opened.openblas_get_config.restype = opened.openblas_get_corename.restype = ctypes.c_char_p
        release = opened.openblas_get_config().decode().split()[1]
        return f"OpenBLAS {release} for {opened.openblas_get_corename().decode()} ({path.parent.name}/{path.name})"
    except (OSError, AttributeError):
        return str(path)
