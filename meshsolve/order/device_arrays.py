"""Array operations on the device that the CUDA path of the orderings is made of."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device.lists import MASK, last, over, running_sums

FEW = 64                            # nodes of a level up to which each has a large block


def upload(numbers):
    """Numbers of a level's nodes, int32, on the device."""
    return device.to_device(np.ascontiguousarray(numbers, np.int32))


def node_of(node_ptr, count):
    """The node of each patch."""
    xp = device.xp()
    return (xp.searchsorted(upload(node_ptr), xp.arange(count, dtype=xp.int32), side="right") - 1).astype(xp.int32)


def sorted_by(label):
    """The indices in order of their labels, stable; int32."""
    xp = device.xp()
    return (xp.sort(label.astype(xp.int64) << 32 | xp.arange(len(label))) & MASK).astype(xp.int32)


def crossing_keys(kernel, G, *labels):
    """The keys that a kernel lists for the vertices, in no order: counted first, then written."""
    xp, n = device.xp(), np.int32(G.n)
    size = xp.empty(G.n, xp.int32)
    over(kernel, G.n, n, G.indptr, G.indices, *labels, size, xp.empty(0, xp.int64), xp.empty(0, xp.int64))
    start = running_sums(size)
    keys = xp.empty(last(start), xp.int64)
    if len(keys):
        over(kernel, G.n, n, G.indptr, G.indices, *labels, size, start, keys)
    return keys
