"""Helpers of the generators: Laplacians of edge lists, canonical matrices, random numbers, checks of sizes."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError
from meshsolve.memory import ensure_memory
from meshsolve.options import as_seed, counted
from meshsolve.sparse.matrix import LARGEST_SIZE


def laplacian(n, i, j, weights=None, ground=None):
    """Return the Laplacian of the edges (i, j). Without weights, repeated edges count once. Loops are ignored."""
    kept = i != j
    low, high = np.minimum(i, j)[kept], np.maximum(i, j)[kept]
    upper = sp.coo_array((np.ones(len(low)) if weights is None else weights[kept], (low, high)), shape=(n, n)).tocsr()
    if weights is None:
        upper.data[:] = 1
    adjacency = upper + upper.T
    degree = adjacency.sum(axis=1) + (0 if ground is None else ground)
    return sorted_rows(sp.diags_array(degree) - adjacency)


def sorted_rows(A):
    """Return A as a canonical csr_array, with 32-bit indices if they fit."""
    A = sp.csr_array(A)
    A.sum_duplicates()
    if max(A.nnz, *A.shape) <= np.iinfo(np.int32).max:
        A.indptr, A.indices = A.indptr.astype(np.int32, copy=False), A.indices.astype(np.int32, copy=False)
    return A


def generator(seed):
    """Return numpy's random generator for a seed, which is checked."""
    return np.random.default_rng(as_seed(seed))


def check_size(rows, entries=None):
    """Raise if there are too many rows, or if the entries (default: six per row) would not fit into memory."""
    if rows > LARGEST_SIZE:
        raise InvalidInputError(f"the problem has {counted(rows, 'row')}; at most {LARGEST_SIZE:,} are supported")
    ensure_memory(60 * (6 * rows if entries is None else entries), f"a problem of {counted(rows, 'row')}")
