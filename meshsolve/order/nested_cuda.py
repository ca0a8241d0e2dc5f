"""The CUDA path of nested dissection: all nodes of a tree level at once, the twin of nested.cpp.

Vertices, patches, quotient graphs and separators stay on the device; the host holds one row of numbers per tree node of a level
and gives the next level its launches. The same seed gives the same order on every device and with every block size.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.order.bisect_cuda import as_quotient, bisect
from meshsolve.order.device_arrays import FEW, crossing_keys, sorted_by, upload
from meshsolve.order.leaf_cuda import order_leaves
from meshsolve.sparse.lists_cuda import bincount, exclusive_scan, inverse, total
from meshsolve.sparse.matrix import Csr

PATCHES = device.kernels("order/subpatch.cu")
SEPARATE = device.kernels("order/separator.cu")

LEAF_MOST = 300                     # vertices of a leaf: small matrices of bits are cheap, and several fit into shared memory
TRIALS = 4                          # bisections of a node, a warp each, for each that the CPU makes
MAX_LEVELS = 60
DIVIDE_BLOCK = 128
MOST_TOGETHER = 5                   # blocks of k_separate on a multiprocessor: more would want for registers
RESERVED = 2 << 10                  # bytes of shared memory of a block beside what it asks for
BAND_BYTES = 24                     # of shared memory for a vertex of a node; one of its band takes 17 and two for each neighbour
FLOW_ROW = 8                        # as in separator.cu
WAVES = 4                           # of the growth of patches, launched before the host looks


@dataclass
class Nodes:
    """The nodes of a tree level, on the host: positions, weights, first patches, and the separator above each (-1: none)."""

    begin: np.ndarray
    weight: np.ndarray
    patch_ptr: np.ndarray
    owner: np.ndarray

    def __len__(self):
        return len(self.begin)

    def there(self, options):
        """The :class:`NodesThere`."""
        largest_side = (self.weight * 0.5 * (1 + options["balance"])).astype(np.int64) + 1
        return NodesThere(len(self), *upload(self.patch_ptr, self.begin, self.weight, largest_side,
                                             np.maximum(1, self.weight // 20), *spend(options, self.weight)))


@dataclass
class NodesThere:
    """What the kernels read of the nodes of a tree level: int32 arrays on the device; ``heaviest``: a vertex of a coarse graph."""

    count: int
    patch_ptr: object
    begin: object
    weight: object
    largest_side: object
    heaviest: object
    layers: object
    rounds: object


class Spans:
    """Separators and leaves as they are found: first and last position, the span of the separator above."""

    def __init__(self):
        self.first, self.last, self.owner, self.is_leaf = [], [], [], []
        self.count = 0

    def add(self, first, last, owner, is_leaf):
        """Their numbers."""
        for row, values in zip((self.first, self.last, self.owner), (first, last, owner)):
            row.append(np.asarray(values, np.int64))
        self.is_leaf.append(np.full(len(first), is_leaf))
        self.count += len(first)
        return np.arange(self.count - len(first), self.count)

    def tree(self):
        """(parent, first, last), int32, in order of position, which is a postorder; and which of these are leaves."""
        first, last, owner, is_leaf = map(np.concatenate, (self.first, self.last, self.owner, self.is_leaf))
        order = np.argsort(first)
        rank = np.empty(self.count + 1, np.int64)
        rank[order] = np.arange(self.count)
        rank[-1] = -1
        return [x.astype(np.int32) for x in (rank[owner[order]], first[order], last[order])] + [is_leaf[order]]


@dataclass
class Dissection:
    """``perm`` int32 on the device; ``tree`` = (parent, first, last) int32 on the host."""

    perm: object
    tree: tuple
    patches: int
    patch_seconds: float


def dissect(G, options, patch_size, seed, surface=None):
    """The :class:`Dissection` of a symmetric pattern on the device, rows ascending; ``options`` as in order.hpp, ``surface`` as
    for :func:`sub_patches`."""
    start = time.perf_counter()
    G, old, patch, patches = sub_patches(G, patch_size, seed, surface)
    patch_seconds = time.perf_counter() - start             # what is still under way counts as order
    work = Work(G, patch, patches)
    spans = Spans()
    nodes = Nodes(*(np.array(x, np.int64) for x in ([0], [G.n], [0, patches], [-1])))
    leaf_size = min(LEAF_MOST, options["leaf_size"])
    for level in range(MAX_LEVELS):
        there = nodes.there(options)
        Q = as_quotient(crossing_keys(PATCHES.k_crossing, G, work.patch), work.weight)
        side, node = bisect(Q, there, TRIALS * options["trials"], level_seed(seed, level))
        found = work.separate(there, side, node, int(nodes.weight.max()))
        nodes = work.split(nodes, side, node, found, spans, leaf_size if level + 1 < MAX_LEVELS else G.n)
        if not len(nodes):
            break
    *tree, is_leaf = spans.tree()
    ordered = order_leaves(G, work.slot, tree[1][is_leaf], tree[2][is_leaf])
    return Dissection(old[ordered], tuple(tree), patches, patch_seconds)


def level_seed(seed, level):
    """What the draws of a level start from, uint64."""
    return np.uint64((seed + (level + 1) * 0x9E3779B97F4A7C15) & (2**64 - 1))


# ---- patches ----------------------------------------------------------------------------------------------------------


def sub_patches(G, size, seed, surface=None):
    """The graph renumbered patch by patch, the old numbers, the patch of each vertex, and how many patches there are.

    ``surface``, if given: (patch of each vertex int32, number of patches) of a mesh, each of which is divided; else sub-patches
    grow from seeds among the vertices in their order.
    """
    xp = device.xp()
    patch, wave = xp.full(G.n, -1, xp.int32), xp.full(G.n, -1, xp.int32)
    if surface is None:
        count = G.n // size
        launch_1d(PATCHES.k_seed, count, np.int32(count), np.int32(size), np.uint64(seed), patch, wave)
    else:
        count = divide(G, *surface, size, seed, patch, wave)
    grow(G, seed, patch, wave)
    alone = xp.flatnonzero(patch < 0)                       # small components without a seed share patches
    if len(alone):
        patch[alone] = (count + xp.arange(len(alone)) // size).astype(xp.int32)
    patches = count + -(-len(alone) // size)
    old = sorted_by(patch)
    fresh = inverse(old)
    ptr = exclusive_scan(xp.diff(G.indptr)[old])
    idx = xp.empty_like(G.indices)
    launch_1d(PATCHES.k_renumber, G.n, np.int32(G.n), G.indptr, G.indices, old, fresh, ptr, idx)
    return Csr(G.n, ptr, idx), old, patch[old], patches


def divide(G, of, count, size, seed, patch, wave):
    """Divides the patches of a mesh into sub-patches of about ``size`` vertices; returns their number."""
    held = bincount(of, count)
    first = exclusive_scan((2 * held + size) // (2 * size) + ((held > 0) & (2 * held < size)))
    args = exclusive_scan(held), sorted_by(of), of, G.indptr, G.indices, first, np.uint64(seed), patch, wave
    device.launch(PATCHES.k_divide, count, DIVIDE_BLOCK, 0, args)
    return total(first)


def grow(G, seed, patch, wave):
    """Wave after wave until every vertex that a sub-patch can reach has one."""
    grown, now = device.xp().ones(1, np.int32), 1
    while device.scalar(grown):                             # a look at the flag waits for the device: not after each wave
        grown[:] = 0
        for k in range(now, now + WAVES):
            launch_1d(PATCHES.k_grow, G.n, np.int32(G.n), G.indptr, G.indices, np.int32(k), np.uint64(seed), patch, wave, grown)
        now += WAVES


def weights_of(patch, count):
    """Vertices of each patch, int32."""
    weight = device.xp().zeros(count, device.xp().int32)
    launch_1d(PATCHES.k_weigh, len(patch), np.int32(len(patch)), patch, weight)
    return weight


# ---- separators -------------------------------------------------------------------------------------------------------


class Work:
    """Arrays that last through the levels: `patch` and `slot`, the first position of each vertex's tree node; scratch; and the
    `weight` of each patch of the level, its vertices."""

    def __init__(self, G, patch, patches):
        xp = device.xp()
        self.G, self.patch, self.weight = G, patch, weights_of(patch, patches)
        self.slot = xp.zeros(G.n, xp.int32)
        self.rank = xp.empty(patches, xp.int32)                             # of a patch on its side of a node
        self.vertices = [xp.empty(G.n, xp.int32) for _ in range(4)]         # side, layer, touched, place
        self.lists = [xp.empty(G.n, xp.int32) for _ in range(3)]            # band, touched, other
        self.flow = xp.empty(FLOW_ROW * G.n, xp.int32)

    def separate(self, nodes, side, node, heaviest):
        """(nodes, 6) on the host: whether it is split, size of the separator, weights of both sides, patches of both sides."""
        xp, G, count = device.xp(), self.G, nodes.count
        counts, found = xp.zeros((2, count), xp.int32), xp.empty(6 * count, xp.int32)
        seeds, weight_0 = counts[0], counts[1]
        vertex_side, layer, touched, *_ = self.vertices
        launch_1d(SEPARATE.k_boundary, G.n, np.int32(G.n), G.indptr, G.indices, self.patch, side, node, nodes.begin, vertex_side, layer,
             touched, self.lists[0], seeds, weight_0)
        threads, room = block_of(count, heaviest)
        device.launch(SEPARATE.k_separate, count, threads, room, (
            G.indptr, G.indices, side, nodes.patch_ptr, nodes.begin, nodes.weight, nodes.rounds, nodes.layers, seeds, weight_0,
            np.int32(room), self.patch, *self.vertices, *self.lists, self.flow, self.weight, self.slot, found))
        device.launch(PATCHES.k_rank, count, 512 if count <= FEW else 64, 0, (nodes.patch_ptr, side, self.weight, self.rank, found))
        return device.to_host(found).reshape(count, 6).astype(np.int64)

    def split(self, nodes, side, node, found, spans, leaf_size):
        """The nodes of the next level; separators and leaves go to `spans`, patches get new numbers."""
        good, size, weight, patches = found[:, 0] == 1, found[:, 1], found[:, 2:4].copy(), found[:, 4:]
        top = nodes.begin + weight.sum(1)
        owner = nodes.owner.copy()
        cut = good & (size > 0)
        owner[cut] = spans.add(top[cut], (top + size)[cut], owner[cut], False)
        begin = np.stack([nodes.begin, nodes.begin + weight[:, 0]], 1)
        begin[~good], weight[~good] = nodes.begin[~good, None], nodes.weight[~good, None]
        is_leaf = (weight > 0) & ((weight <= leaf_size) | ~good[:, None])
        one = is_leaf & (good[:, None] | (np.arange(2) == 0))               # a leaf that is no side of anything counts once
        spans.add(begin[one], (begin + weight)[one], np.broadcast_to(owner[:, None], begin.shape)[one], True)
        goes_on = (weight > 0) & ~is_leaf
        ends = np.cumsum(np.where(goes_on, patches, 0))
        first = np.where(goes_on.ravel(), ends - patches.ravel(), -1)
        self._relabel(side, node, first, np.where(is_leaf, begin, -1).ravel(), int(ends[-1]))
        return Nodes(begin[goes_on], weight[goes_on], np.append(0, patches[goes_on].cumsum()), np.repeat(owner, 2)[goes_on.ravel()])

    def _relabel(self, side, node, first, leaf_begin, count):
        """New numbers for the `count` patches of the next level, those of a part of a node from ``first`` on."""
        n, weight = self.G.n, device.xp().empty(count, np.int32)
        launch_1d(PATCHES.k_relabel, n, np.int32(n), np.int32(len(self.weight)), node, side, self.rank, self.weight,
             *upload(first, leaf_begin), self.patch, self.slot, weight)
        self.weight = weight


def block_of(nodes, heaviest):
    """Threads and bytes of shared memory of a block of k_separate: blocks that are on a multiprocessor at once share it."""
    together = min(-(-nodes // device.multiprocessors()), MOST_TOGETHER)
    threads = 512 if nodes <= FEW else 256 if together <= 2 else 128
    return threads, max(0, min(device.shared_limit() // together - RESERVED, BAND_BYTES * heaviest)) // 16 * 16


def spend(options, weight):
    """(layers, rounds) for nodes of these weights: more near the root; small ones, many at once, get more than the CPU's."""
    root = weight >= options["large"]
    return options["band"] + 2 * root, options["rounds"] + 2 * root
