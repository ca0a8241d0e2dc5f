"""Symbolic factorization on the GPU: launches of symbolic.cu, with sorts and prefix sums between them.

The results are those of the C++ core, the same integers in the same order. Keys are int64, row << 32 | column. Three ideas replace the
sequential passes of the core. Traversals of the tree are Euler tours by pointer doubling. Subtree sums are differences of prefix sums in
postorder. The lowest common ancestor of two nodes is the largest parent between them in a postorder.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from meshsolve import _core, device
from meshsolve.sparse.columns import as_perm
from meshsolve.sparse.lists_cuda import MASK, bincount, exclusive_scan, inverse, total
from meshsolve.sparse.matrix import Csr

K = device.kernels("factor/symbolic/symbolic.cu")
BLOCK = 256                                                 # threads of a block
NONE = np.iinfo(np.int32).max                               # parent of a root in k_etree
RUN = 32                                                    # nodes of a run, as in symbolic.cu
NOT_MERGED, PARTLY_MERGED, FULLY_MERGED = range(3)          # how a supernode is merged into its parent, as in symbolic.cu


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


def etree(indptr, indices, perm=None):
    """Return the elimination tree of A[perm][:, perm], (n,) int32 with -1 for a root; A is a symmetric pattern on the GPU."""
    n = len(indptr) - 1
    perm = _arange(n) if perm is None else perm
    return _etree(_lower(indptr, indices, perm, inverse(perm)), n)


def postorder(parent):
    """Return a postorder of a forest with ``parent[j] > j`` or -1: ``order[k]`` is its k-th node."""
    return inverse(_tour(parent)[0])


def colcount(indptr, indices):
    """Return the number of nonzeros of each column of L, in the order of A."""
    position, columns = _columns(indptr, indices, _arange(len(indptr) - 1))
    return columns.colcount[position]


def analyze(indptr, indices, perm, relax=None):
    """Return elimination tree, column counts and relaxed supernodes of A[perm][:, perm], as ``_core.analyze``."""
    with device.errors("the symbolic factorization"):
        return _relax(_columns(indptr, indices, perm)[1], _core.default_relaxation() if relax is None else relax)


class Sizes(NamedTuple):
    """Sizes of a factor: nonzeros, operations, bytes of its dense blocks in float64 and of their row lists."""

    nnz: int
    flops: float
    nbytes: int


def sizes(analysis):
    """Return the :class:`Sizes` of an analysis; copies three numbers to the host."""
    xp, counts = device.xp(), analysis.colcount
    width, below = xp.diff(analysis.first).astype(np.int64), xp.diff(analysis.row_ptr)
    flops = (counts.astype(np.float64) ** 2).sum()
    entries = (width * (width + below)).sum()
    found = device.to_host(xp.stack([counts.sum(dtype=np.int64).astype(np.float64), flops, entries.astype(np.float64)]))
    return Sizes(int(found[0]), float(found[1]), 8 * int(found[2]) + 4 * len(analysis.rows))


class CudaAnalysis:
    """An analysis on the GPU, with the attributes of `HostAnalysis`. It is copied to the host at the first use of :attr:`native`."""

    boundary = 0                                                # Schur complements are formed on the host

    def __init__(self, pattern, analysis):
        self.pattern_on_device, self.analysis_on_device = pattern, analysis
        self.n, (self.nnz, self.flops, self.nbytes) = pattern.n, sizes(analysis)

    @classmethod
    def of(cls, pattern, perm, threads, known, boundary, relax):
        """As ``HostAnalysis.of``; the arrays of the pattern and ``perm`` lie on the host or on the GPU."""
        perm = perm if device.holds(perm) else as_perm(perm, pattern.n, "ordering")
        pattern = Csr(pattern.n, *map(device.to_device, (pattern.indptr, pattern.indices)))
        return cls(pattern, analyze(pattern.indptr, pattern.indices, device.to_device(perm), relax))

    @cached_property
    def matrix_pattern(self):
        """The pattern on the host, copied once."""
        return Csr(self.n, *map(device.to_host, (self.pattern_on_device.indptr, self.pattern_on_device.indices)))

    @cached_property
    def native(self):
        """The analysis in the C++ core, copied once."""
        return _core.restore_analysis(*map(device.to_host, self.analysis_on_device))


def pattern_lca(indptr, indices, analysis):
    """Return the pattern of L by columns, diagonal first: (indptr int64, indices int32). ``analysis``: from :func:`analyze`."""
    xp, n = device.xp(), len(indptr) - 1
    with device.errors("the pattern of L"):
        size = _tour(analysis.parent)[1]
        keys = _sorted(_lower(indptr, indices, analysis.perm, analysis.iperm))
        leaves, _ = _leaves(keys, analysis.parent, size)
        nodes = _fundamental(analysis.parent, analysis.colcount)
        row_ptr = exclusive_scan(nodes.below)
        rows = _row_lists(leaves, nodes.of_column(n), nodes.parent, _arange(n), _arange(nodes.count), row_ptr)
        Lp = exclusive_scan(analysis.colcount)
        Li = xp.empty(total(Lp), np.int32)
        device.launch(K.k_columns, nodes.count, 128, 0, (nodes.first, row_ptr, rows, Lp, Li))
        return Lp, Li


# ---- columns ----------------------------------------------------------------------------------------------------------


def children(parent):
    """Return (child, ptr): the children of each node, ascending. The children of node n are the roots."""
    xp, n = device.xp(), len(parent)
    owner = xp.where(parent < 0, n, parent)
    child = xp.argsort(owner, kind="stable").astype(np.int32)
    return child, xp.searchsorted(owner[child], xp.arange(n + 2)).astype(np.int64)


def _columns(indptr, indices, perm):
    """Return (position of each column of the given order, the postordered columns)."""
    xp, n = device.xp(), len(indptr) - 1
    keys = _lower(indptr, indices, perm, inverse(perm))
    given = _etree(keys, n)
    position, size = _tour(given)
    order = inverse(position)
    parent = _renamed(given[order], position)
    keys = _sorted((position[keys >> 32].astype(np.int64) << 32) | position[keys & MASK])
    size = size[order]
    leaves, change = _leaves(keys, parent, size)
    change += size == 1
    change -= bincount(parent, n).astype(np.int32)
    sums = exclusive_scan(change)
    columns = (sums[1:] - sums[xp.arange(1, n + 1) - size]).astype(np.int32)        # sums over subtrees
    return position, _Columns(perm[order], parent, columns, leaves)


class _Columns(NamedTuple):
    """A postordered matrix: its ordering, tree, counts, and the leaves of its row subtrees as sorted keys."""

    perm: object
    parent: object
    colcount: object
    leaves: object


def _lower(indptr, indices, perm, iperm):
    """Return the keys of the strict lower triangle of A[perm][:, perm], by rows."""
    xp, n = device.xp(), len(perm)
    count, grid = xp.empty(n, np.int32), device.grid_for(n, BLOCK)
    device.launch(K.k_count_lower, grid, BLOCK, 0, (np.int32(n), indptr, indices, perm, iperm, count))
    begin = exclusive_scan(count)
    keys = xp.empty(total(begin), np.int64)
    device.launch(K.k_lower, grid, BLOCK, 0, (np.int32(n), indptr, indices, perm, iperm, begin, keys))
    return keys


def _etree(keys, n):
    xp = device.xp()
    parent, up = xp.full(n, NONE, np.int32), xp.full(n, -1, np.int32)
    device.launch(K.k_etree, device.grid_for(len(keys), BLOCK), BLOCK, 0, (np.int64(len(keys)), keys, parent, up))
    parent[parent == NONE] = -1
    return parent


def _tour(parent):
    """Return the position of each node in the postorder, and the size of its subtree, int32."""
    xp, n = device.xp(), len(parent)
    child, ptr = children(parent)
    after, count = xp.full(2 * n + 1, 2 * n, np.int32), xp.zeros(2 * n + 1, np.int32)
    device.launch(K.k_tour, device.grid_for(n, BLOCK), BLOCK, 0, (np.int32(n), parent, child, ptr, after, count))
    left = _sums_to_the_end(after, count)                   # number of nodes that are left after this step of the tour
    return n - left[1:2 * n:2], left[0:2 * n:2] - left[1:2 * n:2] + 1


def _sums_to_the_end(after, value):
    """Return the sum of the values from each node of linked lists to the end. The last node points to itself and has the value 0."""
    xp, n = device.xp(), len(after)
    other = xp.empty_like(after), xp.empty_like(value)
    for _ in range(int(n).bit_length()):
        device.launch(K.k_double, device.grid_for(n, BLOCK), BLOCK, 0, (np.int32(n), after, value, *other))
        (after, value), other = other, (after, value)
    return value


def _leaves(keys, parent, size):
    """Return the keys that are leaves of their row subtrees, and their changes to the column counts, which are subtree sums."""
    xp, n = device.xp(), len(parent)
    first = (xp.arange(n) - size + 1).astype(np.int32)
    table, runs = _largest(parent)
    leaf, change = xp.zeros(len(keys), np.int32), xp.zeros(n, np.int32)
    device.launch(K.k_leaves, device.grid_for(len(keys), BLOCK), BLOCK, 0,
                  (np.int64(len(keys)), keys, first, parent, table, np.int32(runs), leaf, change))
    return keys[leaf != 0], change


def _largest(values):
    """Return (table, runs) for range_max: level l has the maximum of 2^l runs of 32 values, from each run on."""
    xp, runs = device.xp(), -(-len(values) // RUN)
    padded = xp.full(runs * RUN, -1, np.int32)
    padded[:len(values)] = values
    levels = [padded.reshape(runs, RUN).max(axis=1)]
    while 2 << (len(levels) - 1) <= runs:
        below, reach = levels[-1], 1 << (len(levels) - 1)
        level = below.copy()
        level[:-reach] = xp.maximum(below[:-reach], below[reach:])
        levels.append(level)
    return xp.concatenate(levels), runs


# ---- supernodes -------------------------------------------------------------------------------------------------------


def _fundamental(parent, counts):
    xp, n = device.xp(), len(parent)
    opens = xp.zeros(n, np.int32)
    device.launch(K.k_open, device.grid_for(n, BLOCK), BLOCK, 0, (np.int32(n), parent, counts, opens))
    opens[:1] = 1
    opens[1:] |= parent[:-1] != xp.arange(1, n)
    first = xp.append(xp.flatnonzero(opens), n).astype(np.int32)
    last, sums = first[1:] - 1, exclusive_scan(counts)
    above = parent[last]
    above = xp.where(above < 0, np.int32(-1), _rank(first, above))
    return _Nodes(first, above, counts[last] - 1, sums[first[1:]] - sums[first[:-1]])


class _Nodes(NamedTuple):
    """Fundamental supernodes: first columns (count + 1), the tree, rows below the last column, nonzeros."""

    first: object
    parent: object
    below: object
    entries: object

    @property
    def count(self):
        return len(self.parent)

    def of_column(self, n):
        return _rank(self.first, _arange(n))


def _relax(columns, rules):
    """Merge fundamental supernodes, renumber the columns so that merged ones are adjacent, and compute the row lists."""
    xp, n = device.xp(), len(columns.parent)
    nodes = _fundamental(columns.parent, columns.colcount)
    begin, kind, inside = _merge(nodes, rules)
    position = _positions(nodes, begin, kind, inside, n)
    block = _blocks(nodes, kind)
    up = _renamed(nodes.parent, block)
    node = nodes.of_column(n)
    to = (position[node] + xp.arange(n) - nodes.first[node]).astype(np.int32)
    old = inverse(to)
    perm = columns.perm[old]

    block_of = block[node]
    moved = block_of[old]
    starts = xp.append(xp.zeros(1, np.int64), 1 + xp.flatnonzero(moved[1:] != moved[:-1]))
    blocks = moved[starts]
    number = xp.full(nodes.count, -1, np.int32)
    number[blocks] = _arange(len(blocks))
    row_ptr = exclusive_scan(nodes.below[blocks])
    rows = _row_lists(columns.leaves, block_of, up, to, number, row_ptr)
    return DeviceAnalysis(perm, inverse(perm), _renamed(columns.parent[old], to), columns.colcount[old],
                          xp.append(starts, n).astype(np.int32), _renamed(up[blocks], number), row_ptr, rows)


def _merge(nodes, rules):
    """Return (first node of each subtree, kind of each node, (columns of its fully merged children, of its partly merged ones))."""
    xp, s = device.xp(), nodes.count
    owner = xp.where(nodes.parent < 0, s, nodes.parent)
    child = xp.lexsort(xp.stack([nodes.below, owner])).astype(np.int32)          # ties stay in ascending order
    ptr = xp.searchsorted(owner[child], xp.arange(s + 2)).astype(np.int64)
    pending, begin, width = xp.diff(ptr)[:s].astype(np.int32), _arange(s), xp.diff(nodes.first)
    whole, part, kind, open_ = (xp.zeros(s, np.int32) for _ in range(4))
    device.launch(K.k_join, device.grid_for(s, 128), 128, 0,
                  (np.int32(s), nodes.first, nodes.parent, nodes.below, child, ptr, pending, begin, width, whole, part, kind, open_,
                   nodes.entries.copy(), xp.asarray(np.array(rules, np.float64).reshape(-1)), np.int32(len(rules))))
    return begin, kind, (whole, part)


def _positions(nodes, begin, kind, inside, n):
    """Return the new first column of each node.

    Before it come its children that are not merged, then the partly merged one, then the fully merged ones.
    """
    xp, s = device.xp(), nodes.count
    width, columns = xp.diff(nodes.first), nodes.first[1:] - nodes.first[begin]
    child, ptr = children(nodes.parent)
    owner = xp.where(nodes.parent < 0, s, nodes.parent)
    later = [_later_siblings(xp.where(kind == k, columns, 0), child, ptr, owner) for k in (NOT_MERGED, FULLY_MERGED)]
    whole, part = (xp.append(part, 0)[owner] for part in inside)                 # those of the parent
    offset = xp.where(kind == FULLY_MERGED, later[1], xp.where(kind == PARTLY_MERGED, whole, whole + part + later[0])) + width
    to_root = _sums_to_the_end(xp.append(owner, s).astype(np.int32), xp.append(offset, 0).astype(np.int32))
    return n - to_root[:s]


def _later_siblings(columns, child, ptr, owner):
    """Return the sum over the siblings after each node."""
    sums = exclusive_scan(columns[child])
    position = inverse(child)
    return sums[ptr[owner + 1]] - sums[position + 1]


def _blocks(nodes, kind):
    """Return the node into which each node is merged at the end."""
    xp = device.xp()
    block = xp.where(kind == NOT_MERGED, _arange(nodes.count), nodes.parent)
    for _ in range(nodes.count.bit_length()):
        block = block[block]
    return block


def _row_lists(leaves, block_of, up, to, number, row_ptr):
    """Return the rows of all lists, each ascending. A row belongs to the lists of the blocks on the paths from its leaves."""
    xp, m = device.xp(), len(leaves)
    size, grid = xp.zeros(m, np.int32), device.grid_for(m, BLOCK)
    args = np.int64(m), leaves, block_of, up, to, number
    nothing = xp.empty(0, np.int64)
    device.launch(K.k_paths, grid, BLOCK, 0, (*args, size, nothing, nothing))
    begin = exclusive_scan(size)
    keys = xp.empty(total(row_ptr), np.int64)
    if len(keys):
        device.launch(K.k_paths, grid, BLOCK, 0, (*args, size, begin, keys))
    return (_sorted(keys) & MASK).astype(np.int32)


# ---- helpers ----------------------------------------------------------------------------------------------------------


def _arange(n):
    return device.xp().arange(n, dtype=np.int32)


def _renamed(nodes, names):
    """Return names[nodes] as int32; -1 stays."""
    xp = device.xp()
    return xp.where(nodes < 0, np.int32(-1), names[xp.maximum(nodes, 0)]).astype(np.int32)


def _rank(first, columns):
    """Return the node of each column."""
    return (device.xp().searchsorted(first, columns, side="right") - 1).astype(np.int32)


def _sorted(keys):
    return device.xp().sort(keys) if len(keys) else keys
