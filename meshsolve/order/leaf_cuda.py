"""The leaves of a nested dissection on the device: launches of leaf.cu, the twin of leaf.cpp."""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.device.lists import MASK, counted, inverse, last, running_sums
from meshsolve.order.device_arrays import crossing_keys, sorted_by, upload

K = device.kernels("order/leaf.cu")
SHARED_MOST = 96 << 10              # bytes of shared memory that a leaf may take: two to a multiprocessor
BITS_MOST = 3000                    # vertices of a leaf up to which its elimination graph is a bit matrix


def order_leaves(G, slot, begin, end):
    """All vertices in order of position: separators by number, each leaf [begin, end) by minimum degree with halo."""
    xp = device.xp()
    perm = sorted_by(slot)
    position = inverse(perm)
    is_begin = xp.zeros(G.n, xp.uint8)
    is_begin[upload(begin)] = 1
    keys, _ = counted(crossing_keys(K.k_halo, G, slot, is_begin[slot], position))
    halo_ptr = xp.searchsorted(keys, xp.append(upload(begin), G.n).astype(xp.int64) << 32).astype(xp.int64)
    halo = (keys & MASK).astype(xp.int32)
    own = (end - begin).astype(np.int64)
    words = (own + np.diff(device.to_host(halo_ptr)) + 31) // 32 | 1
    room = own * (words + 3)                                # as in leaf.cu
    ordered, budget = perm.copy(), min(SHARED_MOST, device.shared_limit()) // 4
    classes = np.where(own > BITS_MOST, 4, np.searchsorted([budget // 3, 2 * budget // 3, budget], room))
    for which in range(4):                                  # three by what they need of shared memory, so that more run at once
        chosen = np.flatnonzero(classes == which)
        largest = int(room[chosen].max(initial=0))
        starts = np.append(0, np.cumsum(room[chosen]))
        shared, scratch = (4 * largest, 0) if which < 3 else (0, int(starts[-1]))
        device.launch(K.k_leaf, len(chosen), 32, shared, (
            upload(chosen), upload(begin), upload(own), halo_ptr, halo, device.to_device(starts), xp.empty(scratch, xp.int32),
            G.indptr, G.indices, perm, position, ordered))
    for k in np.flatnonzero(classes == 4):
        order_on_host(G, int(begin[k]), int(end[k]), perm, position, ordered)
    return ordered


def order_on_host(G, begin, end, perm, position, ordered):
    """A leaf beyond all bounds, a part without small separators: minimum degree of the core, without halo."""
    xp = device.xp()
    vertices = perm[begin:end]
    length = xp.diff(G.indptr)[vertices]
    start = running_sums(length)
    row = xp.searchsorted(start, xp.arange(last(start)), side="right") - 1
    column = position[G.indices[G.indptr[vertices][row] + xp.arange(len(row)) - start[row]]] - begin
    inside = xp.flatnonzero((column >= 0) & (column < end - begin))
    keys = device.to_host(xp.sort(row[inside] << 32 | column[inside]))
    indptr = np.searchsorted(keys, np.arange(end - begin + 1) << 32).astype(np.int64)
    order, _, _ = _core.amd(indptr, (keys & MASK).astype(np.int32), np.inf)
    ordered[begin:end] = vertices[device.to_device(order)]
