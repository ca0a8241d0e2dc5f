"""An orthonormal basis that grows by blocks of 8 columns, on the host and on the GPU.

A block is an array (n, 8). The 8 values of a row are neighbors in memory, so a solve with a block reads whole cache lines. Both
classes have the same methods.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device

WIDTH = 8                       # columns of a block: a solve with 8 costs a third of 8 solves, and a row is one cache line


class HostBasis:
    """Blocks (blocks, n, 8) in main memory; products by the native kernels.

    Parameters
    ----------
    n : int
        Rows.
    capacity : int
        Blocks there is memory for; pages that are never written take none.
    threads : int
    """

    xp = np

    def __init__(self, n, capacity, threads):
        self.n, self.threads = n, threads
        self.blocks = np.empty((capacity, n, WIDTH))

    def __getitem__(self, b):
        return self.blocks[b]

    def __setitem__(self, b, block):
        if not np.may_share_memory(self.blocks[b], block):
            self.blocks[b] = block

    def space(self, b):
        """Memory for block b that an operator may write its result to."""
        return self.blocks[b]

    def several(self, first, count):
        """(count, n, 8) consecutive blocks: a view, or a copy to be stored again."""
        return self.blocks[first:first + count]

    def project(self, W, first, last):
        """(8 (last - first), 8 c) Q^T W for the blocks first <= b < last and W of one block (n, 8) or c blocks (c, n, 8)."""
        count = W.size // (self.n * WIDTH)
        H = np.empty((count, (last - first) * WIDTH, WIDTH))
        _core.eigen_project(self.n, self.blocks.ravel(), first, last, W.ravel(), count, H.ravel(), self.threads)
        return H[0] if count == 1 else H.transpose(1, 0, 2).reshape(H.shape[1], -1)

    def subtract(self, H, Z, first, last):
        """Z -= Q H for the same blocks, in place."""
        count = H.shape[1] // WIDTH
        H = np.ascontiguousarray(H.reshape(len(H), count, WIDTH).transpose(1, 0, 2))
        _core.eigen_subtract(self.n, self.blocks.ravel(), first, last, H.ravel(), count, Z.ravel(), self.threads)

    def rotate(self, Y, first=0):
        """The blocks from ``first`` on become their product with Y: (8 from, 8 to), to <= from."""
        _core.eigen_rotate(self.n, self.blocks[first:].ravel(), len(Y) // WIDTH, Y.shape[1] // WIDTH, np.ascontiguousarray(Y).ravel(),
                           self.threads)

    def combine(self, Y, scale):
        """(n, k) rows scaled of Q Y, as an array of its own: Y (8 blocks, k), scale (n,)."""
        X = np.empty((self.n, Y.shape[1]))
        _core.eigen_combine(self.n, self.blocks.ravel(), len(Y) // WIDTH, np.ascontiguousarray(Y).ravel(), scale, X.ravel(), self.threads)
        return X

    def times(self, Z, U):
        """Z U of a block and an (8, 8) array, in place; returns Z."""
        _core.eigen_rotate(self.n, Z.ravel(), 1, 1, np.ascontiguousarray(U).ravel(), self.threads)
        return Z

    def gram(self, Z, W):
        """(8, 8) Z^T W."""
        G = np.empty((WIDTH, WIDTH))
        _core.eigen_project(self.n, Z.ravel(), 0, 1, W.ravel(), 1, G.ravel(), self.threads)
        return G

    def random(self, rng):
        """A block of standard normal numbers."""
        return rng.standard_normal((self.n, WIDTH))


class CudaBasis:
    """Columns as rows of one array (8 capacity, n) on the GPU, products by cuBLAS; the small matrices T and H lie on the host."""

    def __init__(self, n, capacity, threads):
        self.n, self.xp = n, device.xp()
        self.rows = self.xp.empty((capacity * WIDTH, n))

    def __getitem__(self, b):
        return self.xp.ascontiguousarray(self.rows[b * WIDTH:(b + 1) * WIDTH].T)

    def __setitem__(self, b, block):
        self.rows[b * WIDTH:(b + 1) * WIDTH] = block.T

    def space(self, b):
        return None

    def several(self, first, count):
        return self.xp.stack([self[first + i] for i in range(count)])

    def project(self, W, first, last):
        wide = W if W.ndim == 2 else self.xp.concatenate([W[i] for i in range(len(W))], axis=1)
        return device.to_host(self.rows[first * WIDTH:last * WIDTH] @ wide)

    def subtract(self, H, Z, first, last):
        part = self.rows[first * WIDTH:last * WIDTH].T @ device.to_device(np.ascontiguousarray(H))
        if Z.ndim == 2:
            Z -= part
            return
        for i in range(len(Z)):
            Z[i] -= part[:, i * WIDTH:(i + 1) * WIDTH]

    def rotate(self, Y, first=0):
        begin = first * WIDTH
        rotated = device.to_device(np.ascontiguousarray(Y.T)) @ self.rows[begin:begin + len(Y)]
        self.rows[begin:begin + Y.shape[1]] = rotated

    def combine(self, Y, scale):
        X = self.xp.ascontiguousarray((device.to_device(np.ascontiguousarray(Y.T)) @ self.rows[:len(Y)]).T)
        X *= device.to_device(scale)[:, None]
        return X

    def times(self, Z, U):
        Z[...] = Z @ device.to_device(np.ascontiguousarray(U))
        return Z

    def gram(self, Z, W):
        return device.to_host(Z.T @ W)

    def random(self, rng):
        return device.to_device(rng.standard_normal((self.n, WIDTH)))


BASES: dict[str, type[HostBasis] | type[CudaBasis]] = {"cpu": HostBasis, "cuda": CudaBasis}
