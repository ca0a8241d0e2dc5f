"""Products of a matrix with blocks of columns on the GPU, for iterations that ask for one each time: launches of vectors.cu."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device.lists import lanes_for

K = device.kernels("krylov/vectors.cu")
BLOCK, LONG_BLOCK = 256, 512
LONG = 1024                             # entries above which a row is added up by a block of its own


class Product:
    """Q := A P for (n, k) blocks, C contiguous.

    Parameters
    ----------
    matrix : Csr or DeviceCsr
        One of the host is uploaded.
    """

    def __init__(self, matrix):
        self.n = matrix.n
        self.indptr, self.indices, self.data = map(device.to_device, (matrix.indptr, matrix.indices, matrix.data))
        self.nnz = len(self.indices)
        self._lanes = lanes_for(self.nnz, self.n)
        xp = device.xp()
        self._long = xp.flatnonzero(xp.diff(self.indptr) > LONG).astype(np.int32)

    def __call__(self, P, Q, data=None):
        """``data``: other values of the same pattern."""
        k, matrix = P.shape[1], (self.indptr, self.indices, self.data if data is None else data)
        device.launch(K.k_multiply, device.grid_for(self.n * k * self._lanes, BLOCK), BLOCK, 0,
                      (np.int32(self.n), np.int32(k), np.int32(self._lanes), np.int32(LONG), *matrix, P, Q))
        device.launch(K.k_multiply_long, device.grid_for(len(self._long) * k, 1), LONG_BLOCK, 0,
                      (self._long, np.int32(len(self._long)), np.int32(k), *matrix, P, Q))
