"""Cotangent Laplacian, lumped mass and bi-Laplacian on the GPU (kernels in cotan.cu).

Patches and index arrays are computed once for a mesh, values at each step. Only sizes are copied to the host.
"""

from __future__ import annotations

import functools

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.errors import OutOfMemoryError
from meshsolve.mesh.elements import FLATTEST
from meshsolve.patches import PatchMesh
from meshsolve.sparse.lists_cuda import compressed, distinct, exclusive_scan, total, transposed

K = device.kernels("operators/cotan.cu")
BLOCK = 256
CAPACITY = 6144                                             # doubles of shared memory per thread block (48 kB on every GPU)
MOST_PRODUCTS = 2**31                                       # most products of the bi-Laplacian; each takes 8 bytes


class DeviceAssembler:
    """GPU counterpart of :class:`meshsolve.operators.CotanAssembler`, for positions on the GPU.

    Parameters
    ----------
    mesh : Mesh
    flattest : float

    Attributes
    ----------
    patches : PatchMesh
        On the device. Nested dissection of the matrix can reuse them.
    indptr : (n + 1,) int64
    indices : (nnz,) int32
        Pattern of the Laplacian: edges and diagonal, rows ascending.
    diagonal : (n,) int64
        Positions of the diagonal entries in ``indices``.

    Notes
    -----
    Cost of setup: patches, two queries and one launch over the patches. It keeps about 110 bytes per vertex, not counting the
    patches.
    """

    def __init__(self, mesh, flattest, threads=None):
        self.n, self.flattest = len(mesh.vertices), np.float64(flattest)
        self.patches = PatchMesh(mesh, device="cuda")
        self._tables = self.patches.tables("cuda")
        self._lay_out_pattern(*self.patches.query("VV"))
        faces = self.patches.query("VF")
        self._lay_out_rows(*faces)
        self._lay_out_memory()
        self._heavy_faces = (*faces, self.patches.query("FV")[1]) if len(self._tables.heavy_vertices) else None

    def values(self, x):
        """Compute the values of the Laplacian (nnz,) and the lumped masses (n,) at ``x`` (n, 3) float64."""
        xp, T = device.xp(), self._tables
        data, mass = xp.empty(len(self.indices)), xp.empty(self.n)
        device.launch(K.k_laplacian, T.count, BLOCK, self._shared, (
            *T.sources("V"), T.edge_ptr, T.face_ptr, T.ev, T.fe, self._start, self._incident_ptr, self._incident, self.indptr,
            self.diagonal, x, self.flattest, self._scratch_ptr, self._scratch, data, mass))
        if self._heavy_faces is not None:
            heavy = T.heavy_vertices
            launch_1d(K.k_heavy, 32 * len(heavy), np.int32(len(heavy)), heavy, *self._heavy_faces, self.indptr, self.indices,
                 self.diagonal, x, self.flattest, data, mass)
        return data, mass

    @classmethod
    def lumped_mass(cls, mesh):
        """Compute the lumped masses (n,) of a mesh."""
        return cls(mesh, FLATTEST).values(device.to_device(mesh.vertices))[1]

    @property
    def shape(self):
        """Shape (n, n) of the matrices."""
        return self.n, self.n

    def mean_edge(self, x):
        """Return the mean edge length, 0 without edges."""
        gap = x[self._ends[:, 0]] - x[self._ends[:, 1]]
        return float(device.xp().sqrt((gap * gap).sum(axis=1)).sum()) / max(len(gap), 1)

    def matrix(self, data):
        """Return the sparse matrix with values ``data``."""
        return device.csr(data, self.indices, self._indptr, (self.n, self.n))

    def squared(self, data, mass):
        """Compute L M^-1 L for values ``data`` of L and the diagonal ``mass`` of M: (indptr int64, indices, values, diagonal).

        Raises
        ------
        OutOfMemoryError
            More than 2^31 products. Vertices of very high degree cause this, because the product joins all their neighbors.
        """
        xp, n, nothing = device.xp(), np.int32(self.n), device.xp().empty(0, np.int64)
        count = xp.empty(self.n, np.int64)
        launch_1d(K.k_reach, self.n, n, self.indptr, self.indices, nothing, count, nothing)
        start = exclusive_scan(count)
        products = total(start)
        if products > MOST_PRODUCTS:
            raise OutOfMemoryError(f"the bi-Laplacian needs {products:,} products; at most {MOST_PRODUCTS:,} are supported on "
                                   'the GPU: use device="cpu"')
        keys = xp.empty(products, np.int64)
        launch_1d(K.k_reach, self.n, n, self.indptr, self.indices, start, count, keys)
        keys = distinct(keys)
        values = xp.empty(len(keys))
        launch_1d(K.k_square, len(keys), np.int64(len(keys)), keys, self.indptr, self.indices, data, mass, values)
        return (*compressed(self.n, keys), values, xp.flatnonzero(keys == transposed(keys)))

    def _lay_out_pattern(self, ptr, neighbors):
        xp = device.xp()
        self.indptr = ptr + xp.arange(self.n + 1, dtype=np.int64)
        self.indices, self.diagonal = xp.empty(len(neighbors) + self.n, np.int32), xp.empty(self.n, np.int64)
        launch_1d(K.k_insert_diagonal, self.n, np.int32(self.n), ptr, neighbors, self.indptr, self.indices, self.diagonal)
        self._indptr = self.indptr.astype(np.int32)

    def _lay_out_rows(self, face_ptr, faces):
        """Compute the row positions to which the faces at each vertex add, patch by patch, without heavy vertices."""
        xp, T = device.xp(), self._tables
        owned = xp.argsort(self.patches.vertex_patch, kind="stable")
        light = xp.ones(self.n, np.int64)
        light[T.heavy_vertices] = 0
        self._start, self._incident_ptr = (exclusive_scan((xp.diff(ptr) * light)[owned]) for ptr in (self.indptr, face_ptr))
        self._incident = xp.empty(total(self._incident_ptr), np.uint64)
        device.launch(K.k_lay_out, T.count, BLOCK, 0, (
            *T.sources("V"), T.edge_ptr, *T.sources("F"), T.ev, T.fe, face_ptr, faces, self.indptr, self.indices,
            self._incident_ptr, self._incident))

    def _lay_out_memory(self):
        """Compute the shared memory of a launch, and scratch in global memory for patches that need more than CAPACITY."""
        xp, T = device.xp(), self._tables
        rows = xp.diff(self._start[T.vertex_owned])
        need = xp.maximum(3 * xp.diff(T.vertex_ptr), rows) + 4 * xp.diff(T.face_ptr)
        fits = need <= CAPACITY
        self._scratch_ptr = exclusive_scan(xp.where(fits, 0, need))
        self._scratch = xp.empty(total(self._scratch_ptr))
        self._shared = 8 * int(device.scalar(xp.where(fits, need, 0).max().reshape(1)))

    @functools.cached_property
    def _ends(self):
        return self.patches.query("EV")[1].reshape(-1, 2)
