"""Nested dissection on the GPU: all nodes of a tree level at once. CPU counterpart: nested.cpp.

Vertices, patches, quotient graphs and separators stay on the GPU. The host has one record per tree node of the level, and launches
the kernels of the next level. The same seed gives the same order on every GPU and with every block size.
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

LEAF_MOST = 300                     # most vertices of a leaf, so that several bit matrices fit into shared memory
TRIALS = 4                          # number of bisections, one warp each, for each bisection on the CPU
MAX_LEVELS = 60                     # most levels of the separator tree
DIVIDE_BLOCK = 128                  # threads per block of k_divide
MOST_TOGETHER = 5                   # most resident thread blocks of k_separate per multiprocessor; more would exceed the registers
RESERVED = 2 << 10                  # bytes of static shared memory per thread block
BAND_BYTES = 24                     # bytes of shared memory per vertex of a node; a vertex of the band needs 17, plus 2 per neighbor
FLOW_ROW = 8                        # scratch_row of separator.cu
WAVES = 4                           # waves of patch growth that are launched before the host reads the flag


@dataclass
class Nodes:
    """The nodes of a tree level, on the host: first positions, weights, first patches, and the separator above each (-1: none)."""

    begin: np.ndarray
    weight: np.ndarray
    patch_ptr: np.ndarray
    owner: np.ndarray

    def __len__(self):
        return len(self.begin)

    def on_device(self, options):
        """Copy to the GPU as a :class:`DeviceNodes`."""
        largest_side = (self.weight * 0.5 * (1 + options["balance"])).astype(np.int64) + 1
        return DeviceNodes(len(self), *upload(self.patch_ptr, self.begin, self.weight, largest_side,
                                              np.maximum(1, self.weight // 20), *effort_of(options, self.weight)))


@dataclass
class DeviceNodes:
    """The nodes of a tree level for the kernels: int32 arrays on the GPU. ``heaviest``: largest weight of a coarse vertex."""

    count: int
    patch_ptr: object
    begin: object
    weight: object
    largest_side: object
    heaviest: object
    layers: object
    rounds: object


class Spans:
    """Separators and leaves in the order they are found: first and last position, and the number of the separator above."""

    def __init__(self):
        self.first, self.last, self.owner, self.is_leaf = [], [], [], []
        self.count = 0

    def add(self, first, last, owner, is_leaf):
        """Append spans; return their numbers."""
        for row, values in zip((self.first, self.last, self.owner), (first, last, owner)):
            row.append(np.asarray(values, np.int64))
        self.is_leaf.append(np.full(len(first), is_leaf))
        self.count += len(first)
        return np.arange(self.count - len(first), self.count)

    def tree(self):
        """Return (parent, first, last), int32, sorted by position, which is a postorder; and a mask of the leaves."""
        first, last, owner, is_leaf = map(np.concatenate, (self.first, self.last, self.owner, self.is_leaf))
        order = np.argsort(first)
        rank = np.empty(self.count + 1, np.int64)
        rank[order] = np.arange(self.count)
        rank[-1] = -1
        return [x.astype(np.int32) for x in (rank[owner[order]], first[order], last[order])] + [is_leaf[order]]


@dataclass
class Dissection:
    """``perm``: int32 on the GPU. ``tree``: (parent, first, last), int32 on the host."""

    perm: object
    tree: tuple
    patches: int
    patch_seconds: float


def dissect(G, options, patch_size, seed, surface=None):
    """Return the :class:`Dissection` of a symmetric pattern with ascending rows on the GPU.

    ``options``: as in order.hpp; ``surface``: as for :func:`sub_patches`.
    """
    start = time.perf_counter()
    G, old, patch, patches = sub_patches(G, patch_size, seed, surface)
    patch_seconds = time.perf_counter() - start             # kernels that still run count as "order"
    work = Work(G, patch, patches)
    spans = Spans()
    nodes = Nodes(*(np.array(x, np.int64) for x in ([0], [G.n], [0, patches], [-1])))
    leaf_size = min(LEAF_MOST, options["leaf_size"])
    for level in range(MAX_LEVELS):
        nodes_cuda = nodes.on_device(options)
        Q = as_quotient(crossing_keys(PATCHES.k_crossing, G, work.patch), work.weight)
        side, node = bisect(Q, nodes_cuda, TRIALS * options["trials"], level_seed(seed, level))
        found = work.separate(nodes_cuda, side, node, int(nodes.weight.max()))
        nodes = work.split(nodes, side, node, found, spans, leaf_size if level + 1 < MAX_LEVELS else G.n)
        if not len(nodes):
            break
    *tree, is_leaf = spans.tree()
    ordered = order_leaves(G, work.slot, tree[1][is_leaf], tree[2][is_leaf])
    return Dissection(old[ordered], tuple(tree), patches, patch_seconds)


def level_seed(seed, level):
    """Return the key of a level's random numbers, uint64."""
    return np.uint64((seed + (level + 1) * 0x9E3779B97F4A7C15) & (2**64 - 1))


# ---- patches ----------------------------------------------------------------------------------------------------------


def sub_patches(G, size, seed, surface=None):
    """Return the graph renumbered patch by patch, the old numbers, the patch of each vertex, and the number of patches.

    ``surface``: (patch of each vertex int32, number of patches) of a mesh, whose patches are divided. Without it, sub-patches grow from
    one random seed in every ``size`` consecutive vertices.
    """
    xp = device.xp()
    patch, wave = xp.full(G.n, -1, xp.int32), xp.full(G.n, -1, xp.int32)
    if surface is None:
        count = G.n // size
        launch_1d(PATCHES.k_seed, count, np.int32(count), np.int32(size), np.uint64(seed), patch, wave)
    else:
        count = divide(G, *surface, size, seed, patch, wave)
    grow(G, seed, patch, wave)
    unreached = xp.flatnonzero(patch < 0)                   # small components without a seed share patches
    if len(unreached):
        patch[unreached] = (count + xp.arange(len(unreached)) // size).astype(xp.int32)
    patches = count + -(-len(unreached) // size)
    old = sorted_by(patch)
    renumbered = inverse(old)
    ptr = exclusive_scan(xp.diff(G.indptr)[old])
    idx = xp.empty_like(G.indices)
    launch_1d(PATCHES.k_renumber, G.n, np.int32(G.n), G.indptr, G.indices, old, renumbered, ptr, idx)
    return Csr(G.n, ptr, idx), old, patch[old], patches


def divide(G, of, count, size, seed, patch, wave):
    """Divide the patches of a mesh into sub-patches of about ``size`` vertices. Return their number."""
    weight = bincount(of, count)
    first = exclusive_scan((2 * weight + size) // (2 * size) + ((weight > 0) & (2 * weight < size)))
    args = exclusive_scan(weight), sorted_by(of), of, G.indptr, G.indices, first, np.uint64(seed), patch, wave
    device.launch(PATCHES.k_divide, count, DIVIDE_BLOCK, 0, args)
    return total(first)


def grow(G, seed, patch, wave):
    """Grow sub-patches wave by wave until every vertex that a seed reaches has one."""
    grown, now = device.xp().ones(1, np.int32), 1
    while device.scalar(grown):                             # reading the flag waits for the GPU, so not after each wave
        grown[:] = 0
        for k in range(now, now + WAVES):
            launch_1d(PATCHES.k_grow, G.n, np.int32(G.n), G.indptr, G.indices, np.int32(k), np.uint64(seed), patch, wave, grown)
        now += WAVES


def weights_of(patch, count):
    """Return the number of vertices of each patch, int32."""
    weight = device.xp().zeros(count, device.xp().int32)
    launch_1d(PATCHES.k_weigh, len(patch), np.int32(len(patch)), patch, weight)
    return weight


# ---- separators -------------------------------------------------------------------------------------------------------


class Work:
    """State that is kept through the levels, on the GPU.

    ``patch``: patch of each vertex; ``slot``: first position of its tree node; ``weight``: number of vertices of each patch of the
    level; and scratch.
    """

    def __init__(self, G, patch, patches):
        xp = device.xp()
        self.G, self.patch, self.weight = G, patch, weights_of(patch, patches)
        self.slot = xp.zeros(G.n, xp.int32)
        self.rank = xp.empty(patches, xp.int32)                             # rank of each patch on its side of a node
        self.vertices = [xp.empty(G.n, xp.int32) for _ in range(4)]         # side, layer, touched, position
        self.lists = [xp.empty(G.n, xp.int32) for _ in range(3)]            # band, touched, other
        self.flow = xp.empty(FLOW_ROW * G.n, xp.int32)

    def separate(self, nodes, side, node, heaviest):
        """Find a separator of each node. Return (nodes, 6) on the host: split or not, size of the separator, weights and numbers of
        patches of both sides."""
        xp, G, count = device.xp(), self.G, nodes.count
        counts, found = xp.zeros((2, count), xp.int32), xp.empty(6 * count, xp.int32)
        seeds, weight_0 = counts[0], counts[1]
        vertex_side, layer, touched, *_ = self.vertices
        launch_1d(SEPARATE.k_boundary, G.n, np.int32(G.n), G.indptr, G.indices, self.patch, side, node, nodes.begin, vertex_side, layer,
             touched, self.lists[0], seeds, weight_0)
        threads, shared_bytes = block_of(count, heaviest)
        device.launch(SEPARATE.k_separate, count, threads, shared_bytes, (
            G.indptr, G.indices, side, nodes.patch_ptr, nodes.begin, nodes.weight, nodes.rounds, nodes.layers, seeds, weight_0,
            np.int32(shared_bytes), self.patch, *self.vertices, *self.lists, self.flow, self.weight, self.slot, found))
        device.launch(PATCHES.k_rank, count, 512 if count <= FEW else 64, 0, (nodes.patch_ptr, side, self.weight, self.rank, found))
        return device.to_host(found).reshape(count, 6).astype(np.int64)

    def split(self, nodes, side, node, found, spans, leaf_size):
        """Return the nodes of the next level. Separators and leaves are appended to ``spans``; patches get new numbers."""
        good, size, weight, patches = found[:, 0] == 1, found[:, 1], found[:, 2:4].copy(), found[:, 4:]
        top = nodes.begin + weight.sum(1)
        owner = nodes.owner.copy()
        cut = good & (size > 0)
        owner[cut] = spans.add(top[cut], (top + size)[cut], owner[cut], False)
        begin = np.stack([nodes.begin, nodes.begin + weight[:, 0]], 1)
        begin[~good], weight[~good] = nodes.begin[~good, None], nodes.weight[~good, None]
        is_leaf = (weight > 0) & ((weight <= leaf_size) | ~good[:, None])
        one = is_leaf & (good[:, None] | (np.arange(2) == 0))               # a node that is not split is one leaf
        spans.add(begin[one], (begin + weight)[one], np.broadcast_to(owner[:, None], begin.shape)[one], True)
        goes_on = (weight > 0) & ~is_leaf
        ends = np.cumsum(np.where(goes_on, patches, 0))
        first = np.where(goes_on.ravel(), ends - patches.ravel(), -1)
        self._relabel(side, node, first, np.where(is_leaf, begin, -1).ravel(), int(ends[-1]))
        return Nodes(begin[goes_on], weight[goes_on], np.append(0, patches[goes_on].cumsum()), np.repeat(owner, 2)[goes_on.ravel()])

    def _relabel(self, side, node, first, leaf_begin, count):
        """Renumber the ``count`` patches of the next level; those of each part of a node from ``first`` on."""
        n, weight = self.G.n, device.xp().empty(count, np.int32)
        launch_1d(PATCHES.k_relabel, n, np.int32(n), np.int32(len(self.weight)), node, side, self.rank, self.weight,
             *upload(first, leaf_begin), self.patch, self.slot, weight)
        self.weight = weight


def block_of(nodes, heaviest):
    """Return the threads and the bytes of shared memory of a thread block of k_separate. Resident thread blocks share the memory."""
    together = min(-(-nodes // device.multiprocessors()), MOST_TOGETHER)
    threads = 512 if nodes <= FEW else 256 if together <= 2 else 128
    return threads, max(0, min(device.shared_limit() // together - RESERVED, BAND_BYTES * heaviest)) // 16 * 16


def effort_of(options, weight):
    """Return (layers, rounds) for nodes of these weights: more near the root. Small nodes get more than on the CPU, which is free."""
    root = weight >= options["large"]
    return options["band"] + 2 * root, options["rounds"] + 2 * root
