"""Bisection of the quotient graphs of all nodes of a level on the GPU: launches of coarsen.cu. CPU counterpart: coarsen.cpp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.order.device_arrays import FEW
from meshsolve.sparse.lists_cuda import total

K = device.kernels("order/coarsen.cu")
COARSEST = 50                       # number of patches at which coarsening ends
HANDSHAKES = 4                      # rounds per matching
PASSES = 4                          # Fiduccia-Mattheyses passes per level
POOL_FACTOR, LEVEL_ROW = 4, 32      # as in coarsen.cu


@dataclass
class Quotient:
    """The quotient graphs of all nodes of a level; the patches of a node are consecutive. int32 arrays on the GPU."""

    count: int
    ptr: object
    adj: object
    weight: object
    vertex_weight: object

    @property
    def graph(self):
        return self.ptr, self.adj, self.weight, self.vertex_weight


def as_quotient(keys, vertex_weight):
    """Build a :class:`Quotient` from keys (row << 32 | column) in any order. A key that occurs w times is an entry of weight w."""
    xp, count = device.xp(), len(vertex_weight)
    keys = xp.sort(keys)
    size, none = xp.empty(count + 1, xp.int32), xp.empty(0, xp.int32)
    args = K.k_rows, 32 * count, np.int32(count), np.int64(len(keys)), keys
    launch_1d(*args, size, none, none, none)
    ptr = xp.cumsum(size, dtype=xp.int32)
    adj, weight = (xp.empty(total(ptr), xp.int32) for _ in range(2))
    if len(adj):
        launch_1d(*args, none, ptr, adj, weight)
    return Quotient(count, ptr, adj, weight, vertex_weight)


def bisect(Q, nodes, trials, seed):
    """Return the side (0 or 1) and the node of every patch, int32 on the GPU. ``nodes``: DeviceNodes; ``seed``: uint64."""
    xp, count = device.xp(), np.int32(Q.count)
    scratch = [xp.empty(Q.count, xp.int32) for _ in range(2)]
    pools = [xp.empty(POOL_FACTOR * size, xp.int32) for size in 4 * [Q.count] + 2 * [len(Q.adj)]]
    pools.append(xp.empty(LEVEL_ROW * nodes.count, xp.int32))
    device.launch(K.k_coarsen, nodes.count, 512 if nodes.count <= FEW else 64, 0, (
        nodes.patch_ptr, *Q.graph, nodes.heaviest, np.int32(COARSEST), np.int32(HANDSHAKES), seed, *scratch, *pools))
    side, scratch = xp.empty(POOL_FACTOR * trials * Q.count, xp.uint8), xp.empty(4 * trials * Q.count, xp.int32)
    cut, larger = (xp.empty(nodes.count * trials, xp.int32) for _ in range(2))
    device.launch(K.k_bisect, nodes.count * trials, 32, 0, (
        np.int32(trials), count, nodes.patch_ptr, Q.ptr, Q.adj, Q.weight, nodes.largest_side, np.int32(PASSES), seed, *pools, side,
        scratch, cut, larger))
    best, node = (xp.empty(Q.count, xp.int32) for _ in range(2))
    device.launch(K.k_choose, nodes.count, 128, 0, (
        np.int32(trials), count, nodes.patch_ptr, nodes.weight, cut, larger, side, best, node))
    return best, node
