"""Array operations on the device that the CUDA path of the orderings is made of."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.sparse.lists_cuda import MASK

FEW = 64                            # nodes of a level up to which each has a large block


def upload(*rows):
    """Rows of numbers, int32, each on the device: in one copy, since one takes the host as long as a small kernel runs."""
    ends = np.cumsum([len(row) for row in rows])
    there = device.to_device(np.concatenate(rows).astype(np.int32))
    return [there[end - len(row):end] for row, end in zip(rows, ends)]


def sorted_by(label):
    """The indices in order of their labels, stable; int32."""
    xp = device.xp()
    return (xp.sort(label.astype(xp.int64) << 32 | xp.arange(len(label))) & MASK).astype(xp.int32)


def crossing_keys(kernel, G, *labels):
    """The keys that a kernel lists for the neighbours of all vertices, in no order: counted first, then written."""
    xp = device.xp()
    used = xp.zeros(2, xp.uint64)
    args = kernel, G.n, np.int32(G.n), G.indptr, G.indices, *labels
    launch_1d(*args, used[:1], xp.empty(0, xp.int64))
    keys = xp.empty(device.scalar(used[:1]), xp.int64)
    if len(keys):
        launch_1d(*args, used[1:], keys)
    return keys
