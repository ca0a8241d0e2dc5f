"""METIS_NodeND: by pymetis, and by ctypes on a system libmetis (Debian: libmetis5)."""

from __future__ import annotations

import ctypes
import importlib.metadata

import numpy as np

from benchmarks.peers.base import Unavailable, pointer


class METIS:
    """pymetis.nested_dissection, default options, on the arrays it takes fastest."""

    index = np.int64

    def __init__(self):
        try:
            from pymetis import CSRAdjacency, nested_dissection
        except ImportError as e:
            raise Unavailable(f"{e} (pip install pymetis)") from e
        self.order, self.adjacency = nested_dissection, CSRAdjacency

    def version(self):
        return f"pymetis {importlib.metadata.version('pymetis')}"

    def graph(self, A):
        """Adjacency without the diagonal, not timed."""
        keep = A.indices != np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
        xadj = np.concatenate([[0], np.cumsum(keep)])[A.indptr].astype(self.index)
        return xadj, A.indices[keep].astype(self.index)

    def run(self, graph):
        """The timed call."""
        return self.order(self.adjacency(*graph))

    def perm(self, result):
        """The permutation (new to old) of the timed call's result."""
        return np.asarray(result[0], np.int32)


class METIS_C(METIS):
    """METIS_NodeND called in C, without Python's overhead."""

    index = np.int32

    def __init__(self):
        try:
            self.order = ctypes.CDLL("libmetis.so.5").METIS_NodeND
        except (OSError, AttributeError) as e:
            raise Unavailable(f"{e} (apt-get install libmetis5)") from e

    def version(self):
        return "METIS 5 (system libmetis)"

    def run(self, graph):
        xadj, adjncy = graph
        n = len(xadj) - 1
        perm, iperm = np.empty(n, np.int32), np.empty(n, np.int32)
        state = self.order(ctypes.byref(ctypes.c_int32(n)), pointer(xadj), pointer(adjncy), None, None, pointer(perm),
                           pointer(iperm))
        if state != 1:
            raise RuntimeError(f"METIS_NodeND returned {state}")
        return perm, iperm
