"""Index arrays on the GPU: scans, inverse permutations, and sparsity patterns as sorted keys.

The key of a matrix entry is ``row << 32 | column``, int64. Ascending keys are compressed rows with ascending columns. The union,
the transpose and the look-up of patterns are sorts and searches of keys.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device

MASK = 0xFFFFFFFF


def inverse(perm):
    """Return the inverse permutation: ``inverse(perm)[perm[k]] == k``."""
    out = device.xp().empty_like(perm)
    out[perm] = device.xp().arange(len(perm), dtype=perm.dtype)
    return out


def exclusive_scan(size):
    """Return the exclusive prefix sums of the sizes, with the total at the end: int64, ``len(size) + 1`` entries."""
    xp = device.xp()
    sums = xp.zeros(len(size) + 1, xp.int64)
    sums[1:] = xp.cumsum(size, dtype=xp.int64)
    return sums


def total(sums):
    """Return the last entry of an :func:`exclusive_scan` as an int on the host: the length of the list."""
    return int(device.scalar(sums[-1:]))


def bincount(labels, count):
    """Count how often each of 0 ... count - 1 occurs among the labels: (count,) int64. Other labels are ignored.

    ``cupy.bincount`` is not used. Beyond 256 bins each of its thread blocks has a histogram of its own: gigabytes for as many labels
    as rows. It also waits for the GPU, and before CuPy 14.2 it rejects an empty array.
    """
    xp = device.xp()
    return xp.diff(xp.searchsorted(xp.sort(labels), xp.arange(count + 1, dtype=labels.dtype)))


def distinct(keys):
    """Return the distinct keys, ascending."""
    keys = device.xp().sort(keys)
    return keys[_differs(keys)]


def find(keys, wanted):
    """Return the position of each wanted key among ascending distinct keys, int64; -1 if it is absent."""
    xp = device.xp()
    if len(keys) == 0:
        return xp.full(len(wanted), -1, xp.int64)
    position = xp.minimum(xp.searchsorted(keys, wanted), len(keys) - 1)
    return xp.where(keys[position] == wanted, position, -1)


# ---- patterns ---------------------------------------------------------------------------------------------------------


def rows_of(indptr, count):
    """Return the row of each of ``count`` entries, int64."""
    xp = device.xp()
    return (xp.searchsorted(indptr, xp.arange(count, dtype=indptr.dtype), side="right") - 1).astype(xp.int64)


def keys_of(indptr, indices):
    """Return the keys of compressed rows."""
    return rows_of(indptr, len(indices)) << 32 | indices.astype(np.int64)


def transposed(keys):
    """Return the key of the transposed entry for each key, in the same order."""
    return (keys & MASK) << 32 | keys >> 32


def compressed(n, keys):
    """Return (indptr int64, indices int32) of ``n`` rows from ascending keys."""
    xp = device.xp()
    indptr = xp.searchsorted(keys, xp.arange(n + 1, dtype=xp.int64) << 32).astype(xp.int64)
    return indptr, (keys & MASK).astype(xp.int32)


# ---- helpers ------------------------------------------------------------------------------------------------------------


def _differs(keys):
    """Mask of the ascending keys that differ from the key before."""
    differs = device.xp().ones(len(keys), bool)
    differs[1:] = keys[1:] != keys[:-1]
    return differs
