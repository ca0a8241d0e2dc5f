"""Queries composed of the rows of other queries, and reductions, on the GPU: launches of rings.cu. CPU counterpart: rings.cpp."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.patches.rows import NO_ROW, Rows
from meshsolve.sparse.lists_cuda import MASK, compressed, distinct, exclusive_scan, find, keys_of, rows_of, total

K = device.kernels("patches/rings.cu")
REDUCTIONS = {"float64": K.k_reduce_double, "float32": K.k_reduce_float, "int64": K.k_reduce_integer}


class RowsCuda(Rows):
    """The composed queries of :class:`~meshsolve.patches.rows.Rows` on the GPU."""

    def rotate(self, vv_ptr, vv, vf_ptr, vf, corners, values):
        """Return the values of the rows of VV in rotation order, and the vertex and position that failed (``NO_ROW``: none)."""
        xp = device.xp()
        with device.errors("patch queries"):
            scratch, out, failed = xp.empty(2 * (len(vv) + len(vf)), xp.int32), xp.empty_like(values), xp.full(1, NO_ROW, xp.int64)
            n = len(vv_ptr) - 1
            device.launch_1d(K.k_rotate, n, np.int32(n), vv_ptr, vv, vf_ptr, vf, corners, values, scratch, out, failed)
            return out, device.scalar(failed)

    def diamonds(self, ef_ptr, ef, ends, corners):
        """Return four vertices per edge, and the edge that failed (``NO_ROW``: none)."""
        xp = device.xp()
        with device.errors("patch queries"):
            edges, failed = len(ef_ptr) - 1, xp.full(1, NO_ROW, xp.int64)
            out = xp.empty(4 * edges, xp.int32)
            device.launch_1d(K.k_diamond, edges, np.int32(edges), ef_ptr, ef, ends, corners, out, failed)
            return out, device.scalar(failed)

    def edges_of_edges(self, ve_ptr, ve, ends):
        """Return (indptr int64, indices int32): the edges that share an end with each edge."""
        xp = device.xp()
        with device.errors("patch queries"):
            degree, edges = xp.diff(ve_ptr), len(ends) // 2
            indptr = exclusive_scan(degree[ends].reshape(-1, 2).sum(axis=1) - 2)
            indices = xp.empty(total(indptr), xp.int32)
            device.launch_1d(K.k_merge_edges, edges, np.int32(edges), ve_ptr, ve, ends, indptr, indices)
            return indptr, indices

    def rings(self, indptr, indices, count):
        """Return (indptr int64, indices int32): the vertices at distance 1 to ``count`` of each vertex."""
        xp, n = device.xp(), len(indptr) - 1
        with device.errors("patch queries"):
            keys = last = keys_of(indptr, indices)                          # row << 32 | vertex; those of the last ring
            for _ in range(1, count):
                degree = indptr[(last & MASK) + 1] - indptr[last & MASK]
                start = exclusive_scan(degree)
                source = rows_of(start, total(start))
                step = xp.arange(len(source)) - start[source]
                reached = distinct((last[source] & ~MASK) | indices[indptr[last[source] & MASK] + step].astype(np.int64))
                last = reached[(find(keys, reached) < 0) & (reached >> 32 != reached & MASK)]
                if len(last) == 0:
                    break
                keys = xp.sort(xp.concatenate([keys, last]))
            return compressed(n, keys)

    def reduce(self, indptr, indices, values, op, empty, dtype):
        """Return the reduction of the values (targets, ...) of each row's entries, (rows, ...) of ``dtype``."""
        xp = device.xp()
        with device.errors("a reduction"):
            values = xp.ascontiguousarray(device.to_device(values).astype(dtype, copy=False))
            out = xp.empty((len(indptr) - 1, *values.shape[1:]), dtype)
            width = int(np.prod(values.shape[1:]))
            device.launch_1d(REDUCTIONS[dtype.name], out.size, np.int64(out.size), np.int32(width), np.int32(op), indptr, indices,
                             values.reshape(-1), dtype.type(empty), out.reshape(-1))
            return out
