"""Array operations on the GPU that the orderings share: uploads, sorts by label, and lists of keys."""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.sparse.lists_cuda import MASK


def upload(*rows):
    """Copy integer arrays to the GPU as int32, all in one transfer: a transfer takes as long as a small kernel."""
    ends = np.cumsum([len(row) for row in rows])
    joined = device.to_device(np.concatenate(rows).astype(np.int32))
    return [joined[end - len(row):end] for row, end in zip(rows, ends)]


def sorted_by(label):
    """Return the stable argsort of the labels, int32."""
    xp = device.xp()
    return (xp.sort(label.astype(xp.int64) << 32 | xp.arange(len(label))) & MASK).astype(xp.int32)


def crossing_keys(kernel, G, *labels):
    """Return the keys that a kernel lists for the neighbors of all vertices, in any order. They are counted first, then written."""
    xp = device.xp()
    used = xp.zeros(2, xp.uint64)
    args = kernel, G.n, np.int32(G.n), G.indptr, G.indices, *labels
    launch_1d(*args, used[:1], xp.empty(0, xp.int64))
    keys = xp.empty(device.scalar(used[:1]), xp.int64)
    if len(keys):
        launch_1d(*args, used[1:], keys)
    return keys
