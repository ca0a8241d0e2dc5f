"""The graph of a matrix on the GPU: launches of graph.cu. Host counterpart: `Graph` in parac.hpp."""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.device import launch_1d
from meshsolve.sparse.cuda import Gather, as_csr_cuda
from meshsolve.sparse.lists_cuda import compressed, exclusive_scan, find, keys_of, transposed
from meshsolve.sparse.matrix import Csr

K = device.kernels("factor/parac/graph.cu")
BLOCK = 1024                            # threads of the single thread block that numbers vertices
NEAR_ENOUGH = 8192                      # near_enough of parac.hpp


def symmetric(L):
    """A symmetric matrix on the GPU as :class:`Csr` of GPU arrays, with both triangles stored.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`meshsolve.sparse.matrix.as_symmetric`.
    """
    with device.errors("the matrix"):
        M = as_csr_cuda(L, "L")
        gather = Gather.symmetric(M)
        gather.check_symmetry(M, "L")
        return M if gather.take is None else _both_triangles(M, gather.keys)


class Graph:
    """The graph of a matrix on the GPU, with the attributes of ``_core.ParacGraph``.

    Parameters
    ----------
    M : Csr of GPU arrays
        A result of :func:`symmetric`.
    """

    def __init__(self, M):
        xp, self._matrix = device.xp(), M
        ground, count, found = xp.empty(M.n), xp.empty(M.n, xp.int32), xp.zeros(4, xp.uint64)
        found[0] = M.n
        launch_1d(K.k_rows, M.n, np.int32(M.n), M.indptr, M.indices, M.data, ground, count, found)
        bad, self.max_degree, self.floored, grounded = map(int, device.to_host(found))
        self.bad_row = bad if bad < M.n else -1
        self.excess = float(ground[bad]) if bad < M.n else 0.0
        self.grounded, self.floor, self.origin = grounded > 0, 0.0, xp.empty(0, xp.int32)
        self._ground = ground if self.grounded else xp.empty(0)
        self._ptr = exclusive_scan(count)
        if self.bad_row < 0:
            self._make_edges(M)

    @property
    def nnz(self):
        """Number of edges, each counted in both directions."""
        return len(self._to)

    def arrays(self):
        """ptr, to, w, ground, origin: see `Graph` in parac.hpp."""
        return self._ptr, self._to, self._w, self._ground, self.origin

    def gather_neighbors(self, apart=NEAR_ENOUGH):
        """Number the vertices of a scattered graph in breadth-first order; ``origin`` then holds their rows in the matrix."""
        if len(self.origin) or device.scalar(self._apart) <= apart * self.nnz:
            return
        xp, n = device.xp(), self._matrix.n
        name, met, named = xp.full(n, -1, xp.int32), xp.empty(n, xp.int32), xp.empty(1, xp.int32)
        first = xp.full(n, np.uint64(2**64 - 1), xp.uint64)
        device.launch(K.k_number, 1, BLOCK, 0, (np.int32(n), self._ptr, self._to, first, name, met, named))
        if device.scalar(named) < n:
            self._gather_on_the_host(apart)
            return
        ptr, to, w = exclusive_scan(xp.diff(self._ptr)[met]), xp.empty_like(self._to), xp.empty_like(self._w)
        launch_1d(K.k_rename, 8 * n, np.int32(n), self._ptr, self._to, self._w, name, met, ptr, to, w)
        self._ptr, self._to, self._w, self.origin = ptr, to, w, met
        if self.grounded:
            self._ground = self._ground[met]

    def _make_edges(self, M):
        xp = device.xp()
        nnz = int(device.scalar(self._ptr[-1:]))
        self._to, self._w, self._apart = xp.empty(nnz, xp.int32), xp.empty(nnz), xp.zeros(1, xp.uint64)
        launch_1d(K.k_edges, M.n, np.int32(M.n), M.indptr, M.indices, M.data, self._ptr, self._to, self._w, self._apart)
        if self.floored:                                    # floor_weight() of graph.cpp
            positive = xp.sort(self._w[self._w > 0])
            self.floor = 1e-3 * float(positive[len(positive) // 2]) if len(positive) else 1.0

    def _gather_on_the_host(self, apart):
        """The same on the host, which is faster for many levels or components: each is a step of the single thread block."""
        M = self._matrix
        graph = _core.ParacGraph(*map(device.to_host, (M.indptr, M.indices, M.data)))
        graph.gather_neighbors(apart)
        self._ptr, self._to, self._w, self._ground, self.origin = map(device.to_device, graph.arrays())


def _both_triangles(M, keys):
    """(M + M^T) / 2, if some entry has no mirror entry. Sums of zero are left out, as in scipy."""
    xp, own = device.xp(), keys_of(M.indptr, M.indices)
    data = xp.concatenate([xp.zeros(1), M.data])
    values = 0.5 * (data[1 + find(own, keys)] + data[1 + find(own, transposed(keys))])
    kept = values != 0
    return Csr(M.n, *compressed(M.n, keys[kept]), values[kept])
