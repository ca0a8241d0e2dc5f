"""Symbolic factorization on the GPU: launches of symbolic.cu, with sorts and prefix sums between them.

The results are those of the C++ core, the same integers in the same order. Keys are int64, row << 32 | column. Three ideas replace the
sequential passes of the core. Traversals of trees are Euler tours (tours.py). Subtree sums are differences of prefix sums in postorder.
The lowest common ancestor of two nodes is the largest parent between them in a postorder. The number of launches and array expressions
does not depend on the matrix, except for one launch more for each factor 1024 of rows. The host reads once, the sizes of the result.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.device import launch_1d
from meshsolve.factor.symbolic.tours import Forest, sums_to_the_end
from meshsolve.sparse.columns import as_perm, read_only
from meshsolve.sparse.matrix import Csr

K = device.kernels("factor/symbolic/symbolic.cu")
NARROW = 64                                                 # longest last level of a table of maxima, as in symbolic.cu


class DeviceAnalysis(NamedTuple):
    """The arguments of ``_core.restore_analysis``, in its order, as arrays on the GPU."""

    perm: object
    iperm: object
    parent: object
    colcount: object
    first: object
    snode_parent: object
    row_ptr: object
    rows: object


class Sizes(NamedTuple):
    """Sizes of a factor: nonzeros, operations, bytes of its dense blocks in float64 and of their row lists."""

    nnz: int
    flops: float
    nbytes: int


class CudaAnalysis:
    """An analysis on the GPU, with the attributes of `HostAnalysis`. It is copied to the host at the first use of :attr:`native`."""

    boundary = 0                                                # Schur complements are analyzed on the host

    def __init__(self, pattern, analysis, sizes):
        self.pattern_on_device, self.analysis_on_device = pattern, analysis
        self.n, (self.nnz, self.flops, self.nbytes) = pattern.n, sizes

    @classmethod
    def of(cls, pattern, perm, threads, known, boundary, relax):
        """As ``HostAnalysis.of``; the arrays of the pattern and ``perm`` lie on the host or on the GPU."""
        perm = perm if device.holds(perm) else as_perm(perm, pattern.n, "ordering")
        pattern = Csr(pattern.n, *map(device.to_device, (pattern.indptr, pattern.indices)))
        return cls(pattern, *analyze(pattern.indptr, pattern.indices, device.to_device(perm), relax))

    @cached_property
    def matrix_pattern(self):
        """The pattern on the host, copied once."""
        return Csr(self.n, *map(device.to_host, (self.pattern_on_device.indptr, self.pattern_on_device.indices)))

    @cached_property
    def perm(self):
        """The permutation on the host, copied once, without the other arrays."""
        return read_only(device.to_host(self.analysis_on_device.perm))

    @cached_property
    def native(self):
        """The analysis in the C++ core, copied once."""
        return _core.restore_analysis(*map(device.to_host, self.analysis_on_device))

    @cached_property
    def forest_on_device(self):
        """The tree of the supernodes as a :class:`~meshsolve.factor.symbolic.tours.Forest`."""
        return Forest.of(self.analysis_on_device.snode_parent)


def analyze(indptr, indices, perm, relax=None):
    """Return (elimination tree, column counts and relaxed supernodes of A[perm][:, perm] as ``_core.analyze``, their :class:`Sizes`).

    A is a symmetric pattern on the GPU.
    """
    with device.errors("the symbolic factorization"):
        columns, lower = _columns(indptr, indices, perm)
        nodes = _supernodes(columns, _core.default_relaxation() if relax is None else relax)
        return _blocks(columns, lower, nodes)


# ---- columns ----------------------------------------------------------------------------------------------------------


def _columns(indptr, indices, perm):
    """Return the :class:`_Columns` and the :class:`_Lower` of A[perm][:, perm]."""
    xp, n, most = device.xp(), np.int32(len(perm)), len(indices) // 2        # each entry below the diagonal has a mirror entry
    iperm, given, up, new_perm, parent, size, change, colcount, opens = _rows(9, len(perm), np.int32)
    used, keys = xp.zeros(1, np.uint64), xp.empty(most, np.int64)
    launch_1d(K.k_begin, n, n, perm, iperm, given, up)
    launch_1d(K.k_etree, n, n, indptr, indices, perm, iperm, used, keys, given, up)
    left = sums_to_the_end(given, xp.argsort(given, kind="stable"))
    launch_1d(K.k_postorder, max(n, most), n, left, perm, given, used, np.int64(most), keys, new_perm, parent, size, change)
    keys = _sorted(keys)
    launch_1d(K.k_leaves, most, n, used, keys, size, parent, _maxima(parent), change)
    launch_1d(K.k_counts, n, n, xp.cumsum(change, dtype=np.int64), size, parent, colcount, opens)
    return _Columns(new_perm, parent, colcount, xp.cumsum(opens, dtype=np.int32)), _Lower(used, keys, size)


class _Columns(NamedTuple):
    """A postordered matrix, (n,) int32 each: its ordering, elimination tree and column counts, and the supernode of each column + 1."""

    perm: object
    parent: object
    colcount: object
    node: object


class _Lower(NamedTuple):
    """The strict lower triangle in a postorder: the number of its entries, uint64, their sorted keys, and sizes of subtrees."""

    used: object
    keys: object
    size: object


def _maxima(values):
    """Return the table of range_max in symbolic.cu: the largest of 32 successive values, of 1024, ..."""
    counts = [len(values)]
    while counts[-1] > NARROW:
        counts += [-(-counts[-1] // 32), -(-counts[-1] // 1024)]
    table, begin = device.xp().empty(sum(counts[1:]), np.int32), 0
    for count, first, second in zip(counts[::2], counts[1::2], counts[2::2]):
        launch_1d(K.k_maxima, 32 * second, np.int32(count), values, table[begin:])
        values = table[begin + first:]
        begin += first + second
    return table


# ---- supernodes -------------------------------------------------------------------------------------------------------


def _supernodes(columns, rules):
    """Find fundamental supernodes and merge them into their parents."""
    xp, n = device.xp(), len(columns.parent)
    parent, below, width, open_ = _rows(4, n, np.int32)
    entries, key = _rows(2, n, np.int64)
    first, children = xp.empty(n + 1, np.int32), xp.zeros(n, np.int32)
    launch_1d(K.k_supernodes, n, np.int32(n), columns.node, columns.parent, columns.colcount, first, parent, below, children, key)
    ends, child = xp.cumsum(children, dtype=np.int32), xp.argsort(key, kind="stable")
    device.launch(K.k_join, device.grid_for(n, 128), 128, 0,
                  (np.int32(n), columns.node, first, parent, below, ends, child, children, width, open_, entries, key,
                   xp.asarray(np.array(rules, np.float64).reshape(-1)), np.int32(len(rules))))
    left = sums_to_the_end(parent, xp.argsort(key, kind="stable"), columns.node[n - 1:], first)
    return _Nodes(first, below, left, key, width)


class _Nodes(NamedTuple):
    """Fundamental supernodes: first columns, rows below, sums over the tour in which merged ones are adjacent, keys (parent << 2 | kind)
    as in symbolic.cu, and columns with the merged ones."""

    first: object
    below: object
    left: object
    key: object
    width: object


def _blocks(columns, lower, nodes):
    """Renumber the columns so that merged supernodes are adjacent, and compute the row lists. Return (analysis, its sizes)."""
    xp, n = device.xp(), len(columns.parent)
    size, (to, top), (opens, listed) = np.int32(n), _rows(2, n, np.int32), _rows(2, n, np.int32, xp.zeros)
    perm, iperm, parent, colcount, up = _rows(5, n, np.int32)
    first, lengths, sizes = xp.empty(n + 1, np.int32), xp.zeros(n + 1, np.int32), xp.zeros(5, np.uint64)
    layout = size, columns.node, nodes.first, nodes.left, nodes.key, nodes.width
    launch_1d(K.k_renumber, n, *layout, columns.perm, columns.parent, columns.colcount, to, opens, perm, iperm, parent, colcount, sizes)
    block = xp.cumsum(opens, dtype=np.int32)
    launch_1d(K.k_blocks, n, *layout, nodes.below, block, parent, first, up, top, lengths, sizes)
    row_ptr = xp.cumsum(lengths, dtype=np.int64)
    blocks, rows, nnz, flops, scalars = device.to_host(sizes).tolist()
    keys, row = xp.empty(rows, np.int64), xp.empty(rows, np.int32)
    launch_1d(K.k_paths, len(lower.keys), *lower, to, block, up, top, row_ptr, listed, keys)
    launch_1d(K.k_rows, rows, np.int64(rows), _sorted(keys), row)
    found = DeviceAnalysis(perm, iperm, parent, colcount, first[:blocks + 1], up[:blocks], row_ptr[:blocks + 1], row)
    return found, Sizes(nnz, float(flops), 8 * scalars + 4 * rows)


# ---- helpers ----------------------------------------------------------------------------------------------------------


def _rows(count, n, dtype, make=None):
    """Return ``count`` arrays of length n, made by one allocation."""
    made = (make or device.xp().empty)((count, n), dtype)
    return [made[k] for k in range(count)]


def _sorted(keys):
    return device.xp().sort(keys) if len(keys) else keys
