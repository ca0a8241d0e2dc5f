"""Reduction of a graph before a dissection on the GPU, and expansion of the order after it. CPU counterpart: prepass.cpp.

The graph of a matrix is its symmetric pattern. Dense rows are removed, and indistinguishable nodes become one vertex.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.errors import InvalidInputError
from meshsolve.options import counted
from meshsolve.order.device_arrays import sorted_by
from meshsolve.sparse.lists_cuda import bincount, compressed, distinct, exclusive_scan, inverse, keys_of, rows_of, transposed
from meshsolve.sparse.matrix import LARGEST_SIZE, Csr

K = device.kernels("order/prepass.cu")
WORTH_MERGING = 0.1                 # share of rows that merging removes from which it pays


@dataclass
class Reduced:
    """The reduced graph, and its map to the rows.

    Attributes
    ----------
    graph : Csr of device arrays
    group : int32 or None
        The vertex of ``graph`` that contains each row; None: the rows are the vertices.
    dense : int32
        Rows that are numbered last, in this order; their ``group`` is -1.
    kept : int64 or None
        The row that each vertex of ``graph`` represents, the first of its group.
    """

    graph: Csr
    group: object
    dense: object
    kept: object = None

    def of_vertices(self, values):
        """Restrict values per row to the vertices of ``graph``."""
        return values if self.kept is None else values[self.kept]


def graph_of(A):
    """Return the symmetric pattern without diagonal on the GPU. ``A``: such a pattern (a Csr, host or GPU) or a matrix on the GPU."""
    if isinstance(A, Csr):
        return Csr(A.n, device.to_device(A.indptr), device.to_device(A.indices))
    if A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise InvalidInputError(f"A must be square, got shape {A.shape}")
    if not 0 < A.shape[0] <= LARGEST_SIZE:
        raise InvalidInputError(f"A has {counted(A.shape[0], 'row')}; from 1 to {LARGEST_SIZE} are supported")
    return stripped(A.shape[0], A.indptr, A.indices) or symmetrized(A.shape[0], A.indptr, A.indices)


def on_host(A):
    """Return the symmetric pattern without diagonal of a matrix or pattern on the GPU, on the host."""
    pattern = A if isinstance(A, Csr) else graph_of(A)
    return Csr(pattern.n, device.to_host(pattern.indptr), device.to_host(pattern.indices))


def held(A):
    """True if a matrix is on the GPU: CuPy's csr or csc, or a Csr of device arrays."""
    return hasattr(A, "indptr") and hasattr(A, "indices") and device.holds(A.indptr)


def stripped(n, indptr, indices):
    """Return the pattern without its diagonal if it is symmetric and its rows ascend, else None.

    Most matrices have such a pattern, which needs no sort.
    """
    if indices.dtype != np.int32:
        return None
    xp, ptr = device.xp(), indptr.astype(np.int64)
    size, unfit = xp.empty(n + 1, xp.int64), xp.zeros(1, xp.int64)
    launch_1d(K.k_check_symmetric, n, np.int32(n), ptr, indices, size, unfit)
    new_ptr = xp.cumsum(size)
    fails, entries = device.to_host(xp.concatenate([unfit, new_ptr[-1:]])).tolist()
    if fails:
        return None
    idx = xp.empty(entries, xp.int32)
    if entries:
        launch_1d(K.k_strip, n, np.int32(n), ptr, indices, new_ptr, idx)
    return Csr(n, new_ptr, idx)


def symmetrized(n, indptr, indices):
    """Return the pattern of A + A^T without its diagonal, from the compressed rows or columns of A."""
    xp = device.xp()
    if len(indices) and device.scalar((indices.min() < 0) | (indices.max() >= n)):
        raise InvalidInputError(f"A has an index outside 0..{n - 1}")
    keys = keys_of(indptr, indices)
    turned = transposed(keys)
    off = keys != turned
    return Csr(n, *compressed(n, distinct(xp.concatenate([keys[off], turned[off]]))))


def reduce(G):
    """Remove dense rows, which would connect all parts; merge groups of indistinguishable nodes, if there are many, into one vertex."""
    xp = device.xp()
    longest = int(max(64.0, 10.0 * np.sqrt(G.n)))
    first, counts = xp.empty(G.n, xp.int32), xp.zeros(2, xp.int32)
    launch_1d(K.k_representative, G.n, np.int32(G.n), G.indptr, G.indices, np.int32(longest), first, counts)
    merged, long = device.to_host(counts).tolist()
    if merged <= WORTH_MERGING * G.n:
        merged = 0
    if long > np.sqrt(G.n):                                 # long rows are not exceptional in this graph
        long = 0
    if not merged and not long:
        return Reduced(G, None, xp.empty(0, xp.int32))
    self, dense = xp.arange(G.n, dtype=xp.int32), xp.empty(0, xp.int32)
    if not merged:
        first = self
    if long:
        degree = xp.diff(G.indptr)
        dense = xp.flatnonzero(degree > longest)
        dense = dense[sorted_by(degree[dense])].astype(xp.int32)
    kept = first == self
    kept[dense] = False
    before = exclusive_scan(kept)
    group = before[first].astype(xp.int32)
    group[dense] = -1
    row = rows_of(G.indptr, G.nnz)
    stays = xp.flatnonzero(kept[row] & kept[G.indices])
    size = bincount(group[row[stays]], G.n - merged - len(dense))
    return Reduced(Csr(len(size), exclusive_scan(size), group[G.indices[stays]]), group, dense, xp.flatnonzero(kept))


def expand(R, perm, tree):
    """Return (perm, (parent, first, last)) of all rows, from those of the reduced graph."""
    if R.group is None:
        return perm, tree
    xp = device.xp()
    parent, first, last = tree
    rows = xp.flatnonzero(R.group >= 0).astype(xp.int32)
    size = bincount(R.group, len(perm))
    begin = device.to_host(exclusive_scan(size[perm])[device.to_device(np.append(first, last))]).astype(np.int32)
    perm = rows[sorted_by(inverse(perm)[R.group[rows]])]
    first, last = begin[:len(first)], begin[len(first):]
    if len(R.dense):
        parent = np.append(np.where(parent < 0, len(parent), parent), -1).astype(np.int32)
        first, last = (np.append(x, end).astype(np.int32) for x, end in ((first, len(rows)), (last, len(R.group))))
        perm = xp.concatenate([perm, R.dense])
    return perm, (parent, first, last)
