"""Bisection of the quotient graphs of all nodes of a level: launches of coarsen.cu, the twin of coarsen.cpp."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import device
from meshsolve.device.lists import MASK
from meshsolve.order.device_arrays import FEW, upload

K = device.kernels("order/coarsen.cu")
COARSEST = 50                       # patches down to which a node is coarsened
HANDSHAKES = 4                      # rounds of a matching
PASSES = 4                          # of Fiduccia-Mattheyses, at each level
ROOM, LEVEL_ROW = 4, 32             # as in coarsen.cu


@dataclass
class Quotient:
    """The quotient graphs of all nodes of a level, the patches of a node in a row: int32 arrays on the device."""

    count: int
    ptr: object
    adj: object
    weight: object
    vertex_weight: object
    node_ptr: np.ndarray            # on the host

    @property
    def graph(self):
        return self.ptr, self.adj, self.weight, self.vertex_weight


def as_quotient(count, keys, weight, vertex_weight, node_ptr):
    """From ascending keys (row << 32 | column) with their weights."""
    xp = device.xp()
    ptr = xp.searchsorted(keys, xp.arange(count + 1, dtype=xp.int64) << 32).astype(xp.int32)
    return Quotient(count, ptr, (keys & MASK).astype(xp.int32), weight.astype(xp.int32), vertex_weight, node_ptr)


def bisect(Q, weight, balance, trials, seed):
    """The side, 0 or 1, of every patch: int32 on the device.

    ``weight`` are the vertices of each node, on the host; the larger side may have (1 + balance) / 2 of them. ``seed``: uint64.
    """
    xp, nodes = device.xp(), len(Q.node_ptr) - 1
    node_ptr, count = upload(Q.node_ptr), np.int32(Q.count)
    limit = upload((weight * 0.5 * (1 + balance)).astype(np.int64) + 1)
    scratch = [xp.empty(Q.count, xp.int32) for _ in range(2)]
    pools = [xp.empty(ROOM * size, xp.int32) for size in 4 * [Q.count] + 2 * [len(Q.adj)]]
    pools.append(xp.empty(LEVEL_ROW * nodes, xp.int32))
    device.launch(K.k_coarsen, nodes, 512 if nodes <= FEW else 64, 0, (
        node_ptr, *Q.graph, upload(np.maximum(1, weight // 20)), np.int32(COARSEST), np.int32(HANDSHAKES), seed, *scratch,
        *pools))
    side, scratch = xp.empty(ROOM * trials * Q.count, xp.uint8), xp.empty(4 * trials * Q.count, xp.int32)
    cut, larger = (xp.empty(nodes * trials, xp.int32) for _ in range(2))
    device.launch(K.k_bisect, nodes * trials, 32, 0, (
        np.int32(trials), count, node_ptr, Q.ptr, Q.adj, Q.weight, limit, np.int32(PASSES), seed, *pools, side, scratch, cut,
        larger))
    best = xp.empty(Q.count, xp.int32)
    device.launch(K.k_choose, nodes, 128, 0, (np.int32(trials), count, node_ptr, upload(weight), cut, larger, side, best))
    return best
