"""Lists on the device: what array expressions make of sizes, permutations, and patterns as sorted keys.

The key of an entry of a matrix is ``row << 32 | column``, int64: ascending keys are compressed rows with ascending columns, and a
union, a transpose or a look-up of patterns is a sort or a search of keys.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device

BLOCK = 256
MASK = 0xFFFFFFFF


def lanes_for(entries, rows):
    """How many threads add up a row of a matrix together: one for eight entries of a mean row, a warp at most."""
    return 1 << int(np.clip(np.log2(max(entries / max(rows, 1), 1) / 8), 0, 5))


def over(kernel, items, *args):
    """One thread an item."""
    device.launch(kernel, device.grid_for(items, BLOCK), BLOCK, 0, args)


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


def last(sums):
    """The last entry on the host, as an int: how long the list is that the running sums describe."""
    return int(device.scalar(sums[-1:]))


def tally(labels, count):
    """(count,) int64: how often each of 0 ... count - 1 is among the labels; others do not count.

    Not by bincount: beyond 256 bins each block of its threads has a histogram of its own, gigabytes where labels are as many as
    rows. It also waits for the device, and before CuPy 14.2 it refuses an array without entries.
    """
    xp = device.xp()
    return xp.diff(xp.searchsorted(xp.sort(labels), xp.arange(count + 1, dtype=labels.dtype)))


def distinct(keys):
    """The distinct keys, ascending."""
    keys = device.xp().sort(keys)
    return keys[_differs(keys)]


def _differs(keys):
    """Which of ascending keys are not the one before."""
    differs = device.xp().ones(len(keys), bool)
    differs[1:] = keys[1:] != keys[:-1]
    return differs


def find(keys, wanted):
    """Where each wanted key stands among ascending distinct ones, int64; -1 where it does not."""
    xp = device.xp()
    if len(keys) == 0:
        return xp.full(len(wanted), -1, xp.int64)
    place = xp.minimum(xp.searchsorted(keys, wanted), len(keys) - 1)
    return xp.where(keys[place] == wanted, place, -1)


# ---- patterns ---------------------------------------------------------------------------------------------------------


def rows_of(indptr, count):
    """The row of each of ``count`` entries, int64."""
    xp = device.xp()
    return (xp.searchsorted(indptr, xp.arange(count, dtype=indptr.dtype), side="right") - 1).astype(xp.int64)


def keys_of(indptr, indices):
    """The keys of compressed rows."""
    return rows_of(indptr, len(indices)) << 32 | indices.astype(np.int64)


def transposed(keys):
    """The keys of the transposed entries, each in its entry's place."""
    return (keys & MASK) << 32 | keys >> 32


def compressed(n, keys):
    """(indptr int64, indices int32) of ``n`` rows from ascending keys."""
    xp = device.xp()
    indptr = xp.searchsorted(keys, xp.arange(n + 1, dtype=xp.int64) << 32).astype(xp.int64)
    return indptr, (keys & MASK).astype(xp.int32)
