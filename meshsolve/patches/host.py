"""Patches on the host: calls of the C++ core. GPU counterparts: build_cuda.py and query_cuda.py."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.device import to_host


def patch_mesh(mesh, size, seed, threads):
    """Return the arrays of the patches of a mesh, at most ``size`` owned faces each."""
    edges, sides = mesh.edges.reshape(-1), mesh.side_edges.reshape(-1)
    return _core.patch_surface(len(mesh.vertices), edges, mesh.faces.reshape(-1), sides, size, seed, threads)


def patch_pattern(G, size, seed, threads):
    """The same for a symmetric pattern without diagonal, at most ``size`` owned vertices each."""
    return _core.patch_pattern(G.indptr, G.indices, size, seed, threads)


class Tables:
    """The arrays that queries read, in the order of `View` in patches.hpp, and the patch that owns each vertex."""

    def __init__(self, view, vertex_patch, threads):
        self._view, self._vertex_patch, self._threads = view, vertex_patch, threads

    @classmethod
    def of(cls, view, vertices, threads):
        return cls([to_host(array) for array in view], to_host(vertices.patch), threads)

    def query(self, name):
        """Return (indptr int64, indices int32)."""
        return _core.patch_query(name, *self._view, self._threads)

    def quotient_graph(self):
        """Return the quotient graph as a csr_array, columns ascending in each row."""
        ends = self._vertex_patch[self.query("EV")[1].reshape(-1, 2)]
        p, q = ends[ends[:, 0] != ends[:, 1]].T
        count, size = np.ones(2 * len(p), np.int64), len(self._view[0]) - 1
        Q = sp.coo_array((count, (np.concatenate([p, q]), np.concatenate([q, p]))), shape=(size, size)).tocsr()
        Q.sort_indices()
        return Q
