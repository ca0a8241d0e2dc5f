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
        self.blocks[b] = block

    def project(self, W, first, last):
        """(8 (last - first), 8) Q^T W for the blocks first <= b < last."""
        H = np.empty(((last - first) * WIDTH, WIDTH))
        _core.eigen_project(self.n, self.blocks.ravel(), first, last, W.ravel(), H.ravel(), self.threads)
        return H

    def subtract(self, H, Z, first, last):
        """Z -= Q H for the same blocks, in place."""
        _core.eigen_subtract(self.n, self.blocks.ravel(), first, last, np.ascontiguousarray(H).ravel(), Z.ravel(), self.threads)

    def rotate(self, Y):
        """The first blocks become Q Y: Y (8 from, 8 to), to <= from."""
        _core.eigen_rotate(self.n, self.blocks.ravel(), len(Y) // WIDTH, Y.shape[1] // WIDTH, np.ascontiguousarray(Y).ravel(), self.threads)

    def times(self, Z, U):
        """Z U of a block and an (8, 8) array, in place; returns Z."""
        _core.eigen_rotate(self.n, Z.ravel(), 1, 1, np.ascontiguousarray(U).ravel(), self.threads)
        return Z

    def gram(self, Z, W):
        """(8, 8) Z^T W."""
        G = np.empty((WIDTH, WIDTH))
        _core.eigen_project(self.n, Z.ravel(), 0, 1, W.ravel(), G.ravel(), self.threads)
        return G

    def columns(self, blocks, count):
        """(n, count) the first columns, as an array of their own."""
        X = np.empty((self.n, blocks, WIDTH))
        X[:] = self.blocks[:blocks].transpose(1, 0, 2)
        return np.ascontiguousarray(X.reshape(self.n, -1)[:, :count])

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

    def project(self, W, first, last):
        return device.to_host(self.rows[first * WIDTH:last * WIDTH] @ W)

    def subtract(self, H, Z, first, last):
        Z -= self.rows[first * WIDTH:last * WIDTH].T @ device.to_device(np.ascontiguousarray(H))

    def rotate(self, Y):
        rotated = device.to_device(np.ascontiguousarray(Y.T)) @ self.rows[:len(Y)]
        self.rows[:Y.shape[1]] = rotated

    def times(self, Z, U):
        Z[...] = Z @ device.to_device(np.ascontiguousarray(U))
        return Z

    def gram(self, Z, W):
        return device.to_host(Z.T @ W)

    def columns(self, blocks, count):
        return self.xp.ascontiguousarray(self.rows[:count].T)

    def random(self, rng):
        return device.to_device(rng.standard_normal((self.n, WIDTH)))


BASES: dict[str, type[HostBasis] | type[CudaBasis]] = {"cpu": HostBasis, "cuda": CudaBasis}
