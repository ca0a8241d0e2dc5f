"""Nested dissection on the GPU. CPU counterpart: nested.cpp.

Vertices, patches, quotient graphs and separators stay on the GPU. The host launches the steps of the upper levels, whose nodes are
large, and then one kernel that dissects all other nodes. It reads nothing before the end, so launches and reads do not depend on the
number of levels below. The same seed gives the same order on every GPU and with every block size.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.order.device_arrays import sorted_by
from meshsolve.order.leaf_cuda import order_leaves
from meshsolve.sparse.lists_cuda import bincount, exclusive_scan, inverse, total
from meshsolve.sparse.matrix import Csr

PATCHES = device.kernels("order/subpatch.cu")
LEVELS = device.kernels("order/levels.cu")
DISSECT = device.kernels("order/dissect.cu")

LEAF_MOST = 300                     # most vertices of a leaf, so that several bit matrices fit into shared memory
TRIALS = 4                          # number of bisections, one warp each, for each bisection on the CPU
DIVIDE_BLOCK = 128                  # threads per block of k_divide
LARGE = 8192                        # vertices of a node from which many thread blocks work on it
NODE_BLOCK, COARSEN_BLOCK, TRIAL_BLOCK = 512, 1024, 256         # threads per block on the upper levels, one block per node or trial
FEW_NODES, MANY_NODES = (256, 2), (128, 4)      # threads and resident blocks per multiprocessor of k_dissect
RESERVED = 4 << 10                  # bytes of static shared memory per thread block
BAND_BYTES = 24                     # bytes of shared memory per vertex of a node; a vertex of the band needs 17, plus 2 per neighbor
VERTEX_ROWS = 12 + 8                # arrays of dissect.cuh, one entry for each vertex, with scratch_row
PATCH_ROWS, TRIAL_ROWS = 7 + 4 * 4, 5           # for each patch, with four pools of pool_factor; for each patch and trial
SLOT, SPAN_END, SPAN_OWNER = range(3)           # rows that are results
NODE_WORDS = 8                      # numbers of 64 bits of a Node
NUM_COUNTERS, STALLED, LEVEL_ROW = 5, 4, 32     # as in dissect.cu and coarsen.cuh
FEW_VERTICES = 8                    # vertices per patch below which quotient graphs are as large as the graph
RUN, GROW_BLOCKS = 1024, 8          # vertices of a ticket of k_grow, as in subpatch.cu; its thread blocks per multiprocessor


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
    work = Work(G, patch, patches, options, seed)
    for depth in range(work.levels):
        work.divide_level(depth)
    work.dissect()
    *tree, is_leaf = work.tree()
    ordered = order_leaves(G, work.vertices[SLOT], tree[1][is_leaf], tree[2][is_leaf])
    return Dissection(old[ordered], tuple(tree), patches, patch_seconds)


# ---- patches ----------------------------------------------------------------------------------------------------------


def sub_patches(G, size, seed, surface=None):
    """Return the graph renumbered patch by patch, the old numbers, the patch of each vertex, and the number of patches.

    ``surface``: (patch of each vertex int32, number of patches) of a mesh, whose patches are divided. Without it, sub-patches grow from
    one random seed in every ``size`` consecutive vertices.
    """
    xp = device.xp()
    patch, wave, counters = xp.full(G.n, -1, xp.int32), xp.full(G.n, -1, xp.int32), xp.zeros(5, xp.int32)
    if surface is None:
        count = G.n // size
        launch_1d(PATCHES.k_seed, count, np.int32(count), np.int32(size), np.uint64(seed), patch, wave, counters)
    else:
        count = divide(G, *surface, size, seed, patch, wave, counters)
    device.launch(PATCHES.k_grow, min(-(-G.n // RUN), GROW_BLOCKS * device.multiprocessors()), device.BLOCK, 0, (
        np.int32(G.n), G.indptr, G.indices, np.uint64(seed), patch, wave, counters))
    stalled, assigned = device.to_host(counters)[3:].tolist()
    device.refuse_stall(stalled, "sub-patches")
    unreached = G.n - assigned
    if unreached:                                           # small components without a seed share patches
        patch[xp.flatnonzero(patch < 0)] = (count + xp.arange(unreached) // size).astype(xp.int32)
    patches = count + -(-unreached // size)
    old = sorted_by(patch)
    renumbered = inverse(old)
    ptr = exclusive_scan(xp.diff(G.indptr)[old])
    idx = xp.empty_like(G.indices)
    launch_1d(PATCHES.k_renumber, G.n, np.int32(G.n), G.indptr, G.indices, old, renumbered, ptr, idx)
    return Csr(G.n, ptr, idx), old, patch[old], patches


def divide(G, of, count, size, seed, patch, wave, counters):
    """Divide the patches of a mesh into sub-patches of about ``size`` vertices. Return their number."""
    weight = bincount(of, count)
    first = exclusive_scan((2 * weight + size) // (2 * size) + ((weight > 0) & (2 * weight < size)))
    args = exclusive_scan(weight), sorted_by(of), of, G.indptr, G.indices, first, np.uint64(seed), patch, wave, counters
    device.launch(PATCHES.k_divide, count, DIVIDE_BLOCK, 0, args)
    return total(first)


# ---- separators -------------------------------------------------------------------------------------------------------


class Work:
    """State of a dissection on the GPU, and the launches of its steps. The memory is allocated once, for all levels."""

    def __init__(self, G, patch, patches, options, seed):
        xp, leaf_size = device.xp(), min(LEAF_MOST, options["leaf_size"])
        self.trials = trials = TRIALS * options["trials"]
        room = 1 if G.n >= FEW_VERTICES * patches else 4    # size of the pool of edges: coarser graphs fit besides the finest
        self.n, self.patches = G.n, patches
        self.levels = (G.n // LARGE).bit_length()           # upper levels
        self.vertices = xp.empty((VERTEX_ROWS, G.n), xp.int32)
        self.of_patches = xp.empty((PATCH_ROWS + TRIAL_ROWS * trials, patches), xp.int32)
        self.edges = [xp.empty(room * G.nnz, xp.int32) for _ in range(2)]
        self.levels_of = xp.empty(LEVEL_ROW << self.levels, xp.int32)
        self.scores = xp.empty(trials << self.levels, xp.float64)
        self.given = 1 << self.levels                       # nodes below the upper levels
        self.capacity = self.given + G.n // (leaf_size + 1)             # all nodes that are dissected are larger than a leaf
        self.nodes = xp.zeros((self.given - 1 + self.capacity, NODE_WORDS), xp.int64)
        self.args = (*map(np.int32, (G.n, patches, trials, room, leaf_size, options["band"], options["rounds"], options["large"])),
                     np.float64(options["balance"]), G.indptr, G.indices, patch, self.vertices, self.of_patches, *self.edges, self.nodes)
        launch_1d(DISSECT.k_begin, G.n, *self.args, np.uint64(seed))

    def divide_level(self, depth):
        """Divide all nodes of an upper level."""
        count, first = 1 << depth, np.int32((1 << depth) - 1)
        shared_bytes = shared_for(self.n, -(-count // device.multiprocessors()))
        launch_1d(LEVELS.k_rows, 32 * self.patches, *self.args)
        device.launch(LEVELS.k_coarsen, count, COARSEN_BLOCK, 0, (*self.args, first, self.levels_of))
        device.launch(LEVELS.k_bisect, self.trials * count, TRIAL_BLOCK, 0, (*self.args, first, self.levels_of, self.scores))
        device.launch(LEVELS.k_choose, count, NODE_BLOCK, 0, (*self.args, first, self.scores))
        launch_1d(LEVELS.k_boundary, self.n, *self.args)
        device.launch(LEVELS.k_separate, count, NODE_BLOCK, shared_bytes, (*self.args, np.int32(shared_bytes), first))
        launch_1d(LEVELS.k_relabel, self.n, *self.args, np.int32(depth))

    def dissect(self):
        """Dissect the nodes below the upper levels."""
        queue = device.xp().zeros(NUM_COUNTERS + self.capacity, np.int32)
        threads, together = FEW_NODES if self.capacity <= FEW_NODES[1] * device.multiprocessors() else MANY_NODES
        shared_bytes = shared_for(min(self.n, 2 * LARGE), together)
        device.launch(DISSECT.k_dissect, min(self.capacity, together * device.multiprocessors()), threads, shared_bytes, (
            *self.args, *map(np.int32, (shared_bytes, self.given - 1, self.given, self.capacity)), queue[:NUM_COUNTERS],
            queue[NUM_COUNTERS:]))
        self.stalled = queue[STALLED:STALLED + 1]

    def tree(self):
        """Return (parent, first, last) of the separators and leaves, int32, by position, which is a postorder; and a mask of the leaves."""
        xp = device.xp()
        first = xp.flatnonzero(self.vertices[SPAN_END]).astype(xp.int32)
        ends_and_owners = self.vertices[SPAN_END:SPAN_OWNER + 1, first].ravel()
        stalled, spans = np.split(device.to_host(xp.concatenate([self.stalled, first, ends_and_owners])), [1])
        device.refuse_stall(int(stalled[0]), "nested dissection")
        first, last, owner = spans.reshape(3, -1)
        parent = np.where(owner < 0, -1, np.searchsorted(first, owner)).astype(np.int32)
        return parent, first, np.abs(last), last < 0


def shared_for(heaviest, together):
    """Return the bytes of shared memory of a thread block that separates nodes of up to ``heaviest`` vertices. ``together``: resident
    blocks per multiprocessor."""
    return max(0, min(device.shared_limit() // together - RESERVED, BAND_BYTES * heaviest)) // 16 * 16
