"""The pattern of the diagonal blocks of a matched matrix on the GPU. Host counterpart: diagonal_blocks in triangular.cpp."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.order import prepass_cuda
from meshsolve.sparse.lists_cuda import compressed, distinct, inverse, keys_of, transposed
from meshsolve.sparse.matrix import Csr


def diagonal_blocks(pattern, row_of, block):
    """Return the pattern of B + B^T without its diagonal, where B has row ``row_of[j]`` as row j and only the entries in diagonal blocks.

    Parameters
    ----------
    pattern : Csr on the GPU
    row_of, block : (n,) int32 on the host
        The row that is matched with column j, and the block of column j.

    Returns
    -------
    Csr on the GPU
        O(nnz log nnz). If the matching is the diagonal and the pattern is one symmetric block, as for most meshes, O(nnz).
    """
    xp, n = device.xp(), pattern.n
    if not block.any() and np.array_equal(row_of, np.arange(n)):
        matrix = n, pattern.indptr, pattern.indices
        return prepass_cuda.stripped(*matrix) or prepass_cuda.symmetrized(*matrix)
    row_of, block = map(device.to_device, (row_of, block))
    row, column = inverse(row_of)[keys_of(pattern.indptr, pattern.indices) >> 32], pattern.indices
    keys = (row.astype(np.int64) << 32 | column)[(block[row] == block[column]) & (row != column)]
    if len(keys) == 0:
        return Csr(n, xp.zeros(n + 1, np.int64), xp.empty(0, np.int32))
    return Csr(n, *compressed(n, distinct(xp.concatenate([keys, transposed(keys)]))))
