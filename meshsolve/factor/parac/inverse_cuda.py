"""ParAC's factor on the GPU as an operator, with the methods of its host counterpart, `Inverse` in parac.hpp."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.factor.parac import cuda, ordered_cuda
from meshsolve.factor.trisolve import cuda as trisolve
from meshsolve.sparse.lists_cuda import exclusive_scan, inverse, rows_of

FEW = 16                                # components up to which means are subtracted one by one


class Inverse:
    """The inverse of G D G^T, or the pseudo-inverse if an entry of D is 0."""

    def __init__(self, graph, perm, samples, seed, dtype):
        dtype = np.dtype(dtype)
        self._columns = (cuda.factor(graph, None, samples, seed, dtype) if perm is None
                         else ordered_cuda.factor(graph, perm, samples, seed, dtype))
        with device.errors("the factor"):
            self._prepare(self._columns)
            self._label_components(self._columns)

    # ---- methods of the host counterpart ----------------------------------------------------------------------------------

    @property
    def nnz(self):
        return len(self._columns.rows)

    @property
    def rounds(self):
        return self._columns.rounds

    @property
    def nbytes(self):
        """Bytes on the GPU."""
        return self._lower.nbytes + sum(getattr(self._columns, name).nbytes for name in ("rows", "values", "ptr", "D", "perm"))

    def columns(self):
        return tuple(map(device.to_host, (self._columns.ptr, self._columns.rows, self._columns.values)))

    def pivots(self):
        return device.to_host(self._columns.D)

    def perm(self):
        return device.to_host(self._columns.perm)

    def apply(self, B, X, threads=None):
        """X := (G D G^T)^+ B for (n, k) blocks on the host."""
        with device.errors("the preconditioner"):
            X[...] = device.to_host(self.apply_device(device.to_device(np.ascontiguousarray(B))))
            self.check()

    def apply_device(self, B):
        """The same for a block on the GPU; a new block, C contiguous. Does not wait for the GPU."""
        return self._lower.apply(device.xp().ascontiguousarray(B))

    def check(self):
        """Wait for the GPU, and raise if a kernel whose rows wait for each other has stalled."""
        self._lower.check()

    def project(self, flat, k):
        """Subtract the means of components from a block of k columns on the host, in place."""
        flat[:] = device.to_host(self.project_device(device.to_device(flat.reshape(-1, k)))).reshape(-1)

    def project_device(self, B):
        """Subtract the means over the components without a ground; a new block."""
        if self.null_components == 0:
            return B
        xp = device.xp()
        if self.null_components > FEW:
            return self._project_many(B)
        centered = B.copy()
        for label in range(self.null_components):
            members = xp.flatnonzero(self._label == label)
            centered[members] -= B[members].mean(axis=0)
        return centered

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _prepare(self, C):
        """Renumber the columns by level; an order of rounds has that numbering already."""
        xp = device.xp()
        ptr, rows, values, D, perm, level = C.ptr, C.rows, C.values, C.D, C.perm, C.round
        if bool(device.scalar((xp.diff(level) < 0).any().reshape(1))):
            by_level = xp.argsort(level, kind="stable")
            number = inverse(by_level).astype(xp.int32)
            old_ptr, ptr = ptr, exclusive_scan(xp.diff(ptr)[by_level])
            column = rows_of(ptr, len(rows))
            source = old_ptr[by_level[column]] + xp.arange(len(rows)) - ptr[column]
            rows, values = number[rows[source]], values[source]
            D, perm, level = D[by_level], perm[by_level], level[by_level]
        level_ptr = device.to_host(xp.searchsorted(level, xp.arange(1, C.rounds + 2, dtype=level.dtype))).astype(np.int64)
        inverse_d = xp.where(D > 0, 1 / xp.where(D > 0, D, 1.0), 0.0)
        self._lower = trisolve.UnitLower(ptr, rows, values, level_ptr, inverse_d, perm)

    def _label_components(self, C):
        """Label the components. In one without a ground, the path from each column ends at its only zero pivot."""
        xp, n = device.xp(), len(C.D)
        last = C.D == 0
        self.null_components = int(device.scalar(last.sum().reshape(1)))
        end = xp.diff(C.ptr) == 0
        leads = xp.arange(n, dtype=xp.int64)
        if len(C.rows):
            leads = xp.where(end, leads, C.rows[xp.minimum(C.ptr[:-1], len(C.rows) - 1)])
        for _ in range(int(C.rounds).bit_length()):         # each step doubles the length of the paths
            leads = leads[leads]
        label = xp.where(last[leads], (xp.cumsum(last, dtype=xp.int64) - 1)[leads], -1)
        self._label = xp.empty(n, xp.int64)
        self._label[C.perm] = label

    def _project_many(self, B):
        """On the host, where sums by label have a fixed order. Called twice per solve."""
        label, block = device.to_host(self._label) + 1, device.to_host(B)
        size = np.maximum(np.bincount(label, minlength=self.null_components + 1), 1)
        means = np.stack([np.bincount(label, column, len(size)) for column in block.T], 1) / size[:, None]
        means[0] = 0                                        # components with a ground
        return device.to_device(block - means[label])
