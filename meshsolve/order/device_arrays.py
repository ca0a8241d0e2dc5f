"""Array operations on the device that the CUDA path of the orderings is made of."""

from __future__ import annotations

import numpy as np

from meshsolve import device

BLOCK = 256
FEW = 64                            # nodes of a level up to which each has a large block


def over(kernel, items, *args):
    """One thread an item."""
    device.launch(kernel, device.grid_for(items, BLOCK), BLOCK, 0, args)


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
    return (xp.sort(label.astype(xp.int64) << 32 | xp.arange(len(label))) & 0xFFFFFFFF).astype(xp.int32)


def inverse(perm):
    """``inverse(perm)[perm[k]] == k``."""
    out = device.xp().empty_like(perm)
    out[perm] = device.xp().arange(len(perm), dtype=perm.dtype)
    return out


def running_sums(size):
    """The sum before each entry, and of all: int64, one more than there are sizes."""
    xp = device.xp()
    sums = xp.zeros(len(size) + 1, xp.int64)
    sums[1:] = xp.cumsum(size, dtype=xp.int64)
    return sums


def crossing_keys(kernel, G, *labels):
    """The keys that a kernel lists for the vertices, in no order: counted first, then written."""
    xp, n = device.xp(), np.int32(G.n)
    size = xp.empty(G.n, xp.int32)
    over(kernel, G.n, n, G.indptr, G.indices, *labels, size, xp.empty(0, xp.int64), xp.empty(0, xp.int64))
    start = running_sums(size)
    keys = xp.empty(int(device.scalar(start[-1:])), xp.int64)
    if len(keys):
        over(kernel, G.n, n, G.indptr, G.indices, *labels, size, start, keys)
    return keys


def counted(keys):
    """The distinct keys, ascending, and how often each occurs."""
    xp = device.xp()
    keys = xp.sort(keys)
    differs = xp.ones(len(keys), bool)
    differs[1:] = keys[1:] != keys[:-1]
    heads = xp.flatnonzero(differs)
    ends = xp.append(heads[1:], xp.full(min(1, len(keys)), len(keys), heads.dtype))
    return keys[heads], ends - heads
