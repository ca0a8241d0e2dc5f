"""The CUDA path of the operators: launches of cotan.cu. Lists are made once for a mesh, values at each step; nothing comes back."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device.lists import MASK, compressed, distinct, find, last, over, running_sums, transposed
from meshsolve.errors import OutOfMemoryError

K = device.kernels("operators/cotan.cu")
MOST_PRODUCTS = 2**31                                       # of the bi-Laplacian, eight bytes each


class DeviceAssembler:
    """Twin of :class:`meshsolve.operators.CotanAssembler` for positions on the device.

    Parameters
    ----------
    n : int
        Vertices.
    faces : (m, 3) int32 on the host or the device
    flattest : float

    Attributes
    ----------
    indptr : (n + 1,) int64
    indices : (nnz,) int32
        Pattern of the Laplacian: edges and diagonal, rows ascending.
    diagonal : (n,) int64
        Where the diagonal lies in each row.
    ends : (lower, higher), int64
        The vertices of each edge.

    Notes
    -----
    A sort of the three sides of each face and one of the entries; about 150 bytes a vertex.
    """

    def __init__(self, n, faces, flattest):
        xp = device.xp()
        self.n, self.flattest = n, np.float64(flattest)
        self._faces = xp.ascontiguousarray(device.to_device(faces)).reshape(-1)
        corner = self._faces.reshape(-1, 3).astype(np.int64)
        ahead = xp.stack([corner[:, 1], corner[:, 2], corner[:, 0]], axis=1)
        sides = (xp.minimum(corner, ahead) << 32 | xp.maximum(corner, ahead)).reshape(-1)
        edges = distinct(sides)
        self.ends = edges >> 32, edges & MASK
        self._sides = _lists(find(edges, sides), len(edges))
        self._corners = _lists(self._faces, n)
        self._lay_out(edges)
        self._area, self._half = xp.empty(len(corner)), xp.empty(len(sides))

    def _lay_out(self, edges):
        """The rows of the Laplacian, and the edge of each entry, -1 on the diagonal."""
        xp = device.xp()
        vertex = xp.arange(self.n, dtype=np.int64)
        keys = xp.sort(xp.concatenate([edges, transposed(edges), vertex << 32 | vertex]))
        self.indptr, self.indices = compressed(self.n, keys)
        self._edge = find(edges, xp.minimum(keys, transposed(keys))).astype(np.int32)
        self.diagonal = xp.flatnonzero(keys == transposed(keys))
        self._indptr = self.indptr.astype(np.int32)

    def values(self, x):
        """The values of the Laplacian, (nnz,), and the lumped mass of each vertex, (n,), at ``x`` (n, 3) float64."""
        xp, edges = device.xp(), len(self.ends[0])
        weight, data, mass = xp.empty(edges), xp.empty(len(self.indices)), xp.empty(self.n)
        over(K.k_faces, len(self._area), np.int32(len(self._area)), x, self._faces, self.flattest, self._area, self._half)
        over(K.k_gather, edges, np.int32(edges), *self._sides, np.int32(1), np.float64(-1), self._half, weight)
        over(K.k_gather, self.n, np.int32(self.n), *self._corners, np.int32(3), np.float64(1), self._area / 3, mass)
        over(K.k_rows, self.n, np.int32(self.n), self.indptr, self._edge, weight, data)
        return data, mass

    @property
    def shape(self):
        """Of the matrices."""
        return self.n, self.n

    def mean_edge(self, x):
        """The mean length of the edges; 0 where there is none."""
        gap = x[self.ends[0]] - x[self.ends[1]]
        return float(device.xp().sqrt((gap * gap).sum(axis=1)).sum()) / max(len(gap), 1)

    def matrix(self, data):
        """The sparse matrix with ``data`` on this pattern."""
        return device.csr(data, self.indices, self._indptr, (self.n, self.n))

    def squared(self, data, mass):
        """L M^-1 L for values ``data`` of L and the diagonal ``mass`` of M: (indptr int64, indices, values, diagonal).

        Raises
        ------
        OutOfMemoryError
            More than 2^31 products: vertices of very many neighbours, whose neighbours all become each other's.
        """
        xp, n, nothing = device.xp(), np.int32(self.n), device.xp().empty(0, np.int64)
        count = xp.empty(self.n, np.int64)
        over(K.k_reach, self.n, n, self.indptr, self.indices, nothing, count, nothing)
        start = running_sums(count)
        products = last(start)
        if products > MOST_PRODUCTS:
            raise OutOfMemoryError(f"the bi-Laplacian takes {products:,} products, more than the GPU path has room for")
        keys = xp.empty(products, np.int64)
        over(K.k_reach, self.n, n, self.indptr, self.indices, start, count, keys)
        keys = distinct(keys)
        values = xp.empty(len(keys))
        over(K.k_square, len(keys), np.int64(len(keys)), keys, self.indptr, self.indices, data, mass, values)
        return (*compressed(self.n, keys), values, xp.flatnonzero(keys == transposed(keys)))


def _lists(owner, count):
    """(ptr, items): the items of each owner, ascending; int32."""
    xp = device.xp()
    items = xp.argsort(owner, kind="stable").astype(np.int32)
    return xp.searchsorted(owner[items], xp.arange(count + 1, dtype=owner.dtype)).astype(np.int32), items
