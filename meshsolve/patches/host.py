"""Patches on the host: calls of the C++ core. GPU counterparts: build_cuda.py, query_cuda.py and rings_cuda.py."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.device import to_host
from meshsolve.errors import OutOfMemoryError
from meshsolve.memory import available_memory, ensure_memory
from meshsolve.patches.rows import NO_ROW, Rows

PER_ENTRY = 8                       # bytes of an entry of a ring: found by a worker, then copied to its row


def patch_mesh(mesh, size, seed, threads):
    """Return the arrays of the patches of a mesh, at most ``size`` owned faces each."""
    edges, sides = mesh.edges.reshape(-1), mesh.side_edges.reshape(-1)
    return _core.patch_surface(len(mesh.vertices), edges, mesh.faces.reshape(-1), sides, size, seed, threads)


def patch_pattern(G, size, seed, threads):
    """The same for a symmetric pattern without diagonal, at most ``size`` owned vertices each."""
    return _core.patch_pattern(G.indptr, G.indices, size, seed, threads)


class Tables(Rows):
    """The arrays that queries read, in the order of `View` in patches.hpp, and the patch that owns each vertex."""

    def __init__(self, view, vertex_patch, threads):
        self._view, self._vertex_patch, self._threads = view, vertex_patch, threads

    @classmethod
    def of(cls, view, vertices, threads):
        return cls([to_host(array) for array in view], to_host(vertices.patch), threads)

    def query(self, name):
        """Return (indptr int64, indices int32)."""
        return _core.patch_query(name, *self._view, self._threads)

    def rotate(self, vv_ptr, vv, vf_ptr, vf, corners, values):
        """Return the values of the rows of VV in rotation order, and the vertex and position that failed (``NO_ROW``: none)."""
        return _core.patch_rotate(vv_ptr, vv, vf_ptr, vf, corners, values, self._threads)

    def diamonds(self, ef_ptr, ef, ends, corners):
        """Return four vertices per edge, and the edge that failed (``NO_ROW``: none)."""
        return _core.patch_diamonds(ef_ptr, ef, ends, corners, self._threads)

    def edges_of_edges(self, ve_ptr, ve, ends):
        """Return (indptr int64, indices int32): the edges that share an end with each edge."""
        degree = np.diff(ve_ptr)
        ensure_memory(ve.itemsize * int(degree @ (degree - 1)), 'the query "EE"')
        return _core.patch_edges_of_edges(ve_ptr, ve, ends, self._threads)

    def rings(self, indptr, indices, count):
        """Return (indptr int64, indices int32): the vertices at distance 1 to ``count`` of each vertex."""
        available = available_memory()
        most = NO_ROW if available is None else available // PER_ENTRY
        try:
            return _core.patch_rings(indptr, indices, count, most, self._threads)
        except OutOfMemoryError as e:
            raise OutOfMemoryError(f'the query "VV" with rings={count} needs more than the available memory: use fewer rings') from e

    def reduce(self, indptr, indices, values, op, empty, dtype):
        """Return the reduction of the values (targets, ...) of each row's entries, (rows, ...) of ``dtype``."""
        values = np.ascontiguousarray(to_host(values), dtype)
        out = np.empty((len(indptr) - 1, *values.shape[1:]), dtype)
        width = int(np.prod(values.shape[1:]))
        _core.patch_reduce(indptr, indices, values.reshape(-1), width, op, dtype.type(empty).item(), out.reshape(-1), self._threads)
        return out

    def quotient_graph(self):
        """Return the quotient graph as a csr_array, columns ascending in each row."""
        ends = self._vertex_patch[self.query("EV")[1].reshape(-1, 2)]
        p, q = ends[ends[:, 0] != ends[:, 1]].T
        count, size = np.ones(2 * len(p), np.int64), len(self._view[0]) - 1
        Q = sp.coo_array((count, (np.concatenate([p, q]), np.concatenate([q, p]))), shape=(size, size)).tocsr()
        Q.sort_indices()
        return Q
