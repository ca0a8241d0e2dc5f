"""Queries and the quotient graph on the GPU: launches of query.cu. Only sizes are copied to the host. CPU counterpart: query.cpp."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from meshsolve import device
from meshsolve.patches.rings_cuda import RowsCuda
from meshsolve.sparse.lists_cuda import MASK, exclusive_scan, total

K = device.kernels("patches/query.cu")
BLOCK = 256
CAPACITY = 6144                     # integers of shared memory per block: 24 kB, so that eight blocks fit on a multiprocessor
TRANSPOSED = {"VE": 0, "VV": 1, "VF": 2, "EF": 3}           # enum Query in query.cu


@dataclass(frozen=True, eq=False)
class Tables(RowsCuda):
    """The arrays of a PatchMesh that kernels read, on the GPU; the fields are those of `View` in patches.hpp."""

    vertex_ptr: object
    vertex_owned: object
    vertex_ltog: object
    edge_ptr: object
    edge_owned: object
    edge_ltog: object
    face_ptr: object
    face_owned: object
    face_ltog: object
    ev: object
    fe: object
    heavy_vertices: object
    heavy_edges: object
    vertex_owner: object            # owner patch of each ribbon vertex

    @classmethod
    def of(cls, view, vertices, threads):
        return cls(*map(device.to_device, (*view, vertices.owner_patch)))

    def query(self, name):
        """Return (indptr int64, indices int32) on the GPU, as ``_core.patch_query``."""
        return query(self, name)

    def quotient_graph(self):
        """Return the quotient graph as a sparse matrix on the GPU, columns ascending in each row."""
        return quotient_graph(self)

    @property
    def count(self):
        return len(self.vertex_ptr) - 1

    @property
    def view(self):
        """The first eleven arrays, with which the arguments of most kernels begin."""
        return [getattr(self, field.name) for field in fields(self)[:11]]

    def sources(self, name):
        """Return (ptr, owned_ptr, ltog) of the elements "V", "E" or "F"."""
        kind = {"V": "vertex", "E": "edge", "F": "face"}[name]
        return [getattr(self, f"{kind}_{part}") for part in ("ptr", "owned", "ltog")]


def query(T, name):
    """Return (indptr int64, indices int32) on the GPU, as ``_core.patch_query``."""
    with device.errors("patch queries"):
        if name in TRANSPOSED:
            return _transposed(T, name)
        return _faces_of_faces(T) if name == "FF" else _table(T, name)


def quotient_graph(T):
    """Return the quotient graph as a sparse matrix on the GPU, columns ascending in each row."""
    xp = device.xp()
    with device.errors("the quotient graph"):
        args = (T.vertex_ptr, T.vertex_owned, T.vertex_owner, T.edge_ptr, T.edge_owned, T.ev)
        keys, counts = xp.unique(_counted(K.k_crossing, T.count, args), return_counts=True)
        indptr, columns = _row_pointers(keys >> 32, T.count), keys & MASK
        return device.csr(counts, columns.astype(xp.int32), indptr.astype(xp.int32), (T.count, T.count))


def _transposed(T, name):
    xp, number = device.xp(), np.int32(TRANSPOSED[name])
    n = total(T.sources(name[0])[1])
    heavy = T.heavy_edges if name == "EF" else T.heavy_vertices
    size = xp.zeros(n, xp.int32)
    shared = 4 * CAPACITY
    device.launch(K.k_count, T.count, BLOCK, shared, (number, *T.view, np.int32(CAPACITY), size))
    heavy_ptr, heavy_targets = _heavy_rows(T, number, heavy)
    if len(heavy):
        size[heavy] = xp.diff(heavy_ptr).astype(xp.int32)
    indptr = exclusive_scan(size)
    indices = xp.empty(total(indptr), xp.int32)
    device.launch(K.k_rows, T.count, BLOCK, shared, (number, *T.view, np.int32(CAPACITY), indptr, xp.zeros(n, xp.int32), indices))
    if len(heavy):
        rank = xp.searchsorted(heavy_ptr, xp.arange(len(heavy_targets)), side="right") - 1
        indices[indptr[heavy[rank]] + xp.arange(len(heavy_targets)) - heavy_ptr[rank]] = heavy_targets
    return indptr, indices


def _faces_of_faces(T):
    xp = device.xp()
    heavy_ptr, heavy_faces = _heavy_rows(T, np.int32(TRANSPOSED["EF"]), T.heavy_edges)
    need = int(device.scalar((xp.diff(T.edge_ptr) + 3 * xp.diff(T.face_ptr)).max().reshape(1)))
    scratch = xp.empty(len(T.edge_ltog) + 3 * len(T.face_ltog) if need > CAPACITY else 0, xp.int32)
    args = (T.edge_ptr, T.edge_owned, T.edge_ltog, T.face_ptr, T.face_owned, T.face_ltog, T.fe, T.heavy_edges,
            np.int32(len(T.heavy_edges)), heavy_ptr, heavy_faces, np.int32(CAPACITY), scratch)
    shared = 4 * min(need, CAPACITY)
    size = xp.zeros(total(T.face_owned), xp.int32)
    device.launch(K.k_faces_of_faces, T.count, BLOCK, shared, (*args, size, *_nothing(xp.int64, xp.int32)))
    indptr = exclusive_scan(size)
    indices = xp.empty(total(indptr), xp.int32)
    device.launch(K.k_faces_of_faces, T.count, BLOCK, shared, (*args, size, indptr, indices))
    return indptr, indices


def _table(T, name):
    xp, columns = device.xp(), 2 if name == "EV" else 3
    source, target = T.sources(name[0]), T.sources(name[1])
    n = total(source[1])
    indices = xp.empty(n * columns, xp.int32)
    device.launch(K.k_table, T.count, BLOCK, 0, (np.int32(columns), np.int32(name == "FV"), *source, target[0], target[2],
                                                 T.ev if name == "EV" else T.fe, T.edge_ptr, T.ev, indices))
    return xp.arange(n + 1, dtype=xp.int64) * columns, indices


def _heavy_rows(T, number, heavy):
    """Return (ptr int64, targets int32 ascending in each row) of the heavy elements."""
    xp = device.xp()
    if not len(heavy):
        return xp.zeros(1, xp.int64), xp.empty(0, xp.int32)
    keys = xp.sort(_counted(K.k_heavy, T.count, (number, *T.view, heavy, np.int32(len(heavy)))))
    return _row_pointers(keys >> 32, len(heavy)), (keys & MASK).astype(xp.int32)


def _counted(kernel, grid, args):
    """Return the int64 keys that a kernel lists, in any order. They are counted first, then written."""
    xp = device.xp()
    count = xp.zeros(1, xp.uint64)
    device.launch(kernel, grid, BLOCK, 0, (*args, count, *_nothing(xp.int64)))
    keys = xp.empty(int(device.scalar(count)), xp.int64)
    if len(keys):
        count[:] = 0
        device.launch(kernel, grid, BLOCK, 0, (*args, count, keys))
    return keys


def _nothing(*dtypes):
    """Return empty arrays, whose null pointers select the counting pass of a kernel."""
    return [device.xp().empty(0, dtype) for dtype in dtypes]


def _row_pointers(rows, count):
    """Return the row pointers of ascending row numbers."""
    xp = device.xp()
    return xp.searchsorted(rows, xp.arange(count + 1, dtype=rows.dtype), side="left").astype(xp.int64)
