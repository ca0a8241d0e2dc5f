"""The leaves of a nested dissection on the GPU: launches of leaf.cu. CPU counterpart: leaf.cpp."""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.order.device_arrays import crossing_keys, sorted_by, upload
from meshsolve.sparse.lists_cuda import MASK, distinct, exclusive_scan, inverse, total

K = device.kernels("order/leaf.cu")
SHARED_MOST = 96 << 10              # most bytes of shared memory per leaf, so that two fit on a multiprocessor
WIDE_FROM = 300                     # vertices of a leaf above which all warps of a thread block order it; such leaves are few
OWN_SHARED = 1 << 10                # bytes of static shared memory of k_leaf_wide
BITS_MOST = 3000                    # most vertices of a leaf that is ordered as a bit matrix
HOST = 6                            # class of larger leaves, which the CPU orders


def order_leaves(G, slot, begin, end):
    """Return the vertices in their final order: separators by number, each leaf [begin, end) by minimum degree with halo."""
    xp = device.xp()
    perm = sorted_by(slot)
    position = inverse(perm)
    is_begin = xp.zeros(G.n, xp.uint8)
    begin_cuda, own_cuda = upload(begin, end - begin)
    is_begin[begin_cuda] = 1
    keys = distinct(crossing_keys(K.k_halo, G, slot, is_begin, position))
    halo_ptr = xp.searchsorted(keys, device.to_device(np.append(begin, G.n).astype(np.int64) << 32))
    halo = (keys & MASK).astype(xp.int32)
    own = (end - begin).astype(np.int64)
    words = (own + np.diff(device.to_host(halo_ptr)) + 31) // 32 | 1
    size = own * (words + 3)                                # int32 words of a leaf in leaf.cu
    ordered = perm.copy()
    classes = np.where(own > BITS_MOST, HOST, class_of(own, 4 * size))
    for which in range(HOST):
        chosen = np.flatnonzero(classes == which)
        if not len(chosen):
            continue
        starts = np.append(0, np.cumsum(size[chosen]))
        shared, scratch = (0, int(starts[-1])) if which in (3, 5) else (4 * int(size[chosen].max()), 0)
        kernel, threads = (K.k_leaf_wide, 256) if which > 3 else (K.k_leaf, 32)
        device.launch(kernel, len(chosen), threads, shared, (
            *upload(chosen), begin_cuda, own_cuda, halo_ptr, halo, device.to_device(starts), xp.empty(scratch, xp.int32),
            G.indptr, G.indices, perm, position, ordered))
    for k in np.flatnonzero(classes == HOST):
        order_on_host(G, int(begin[k]), int(end[k]), perm, position, ordered)
    return ordered


def class_of(own, size):
    """Classify leaves by their vertices and bytes.

    0, 1, 2: one warp, in shared memory; three sizes, so that more small ones are resident. 3: one warp, in global memory. 4, 5: one
    thread block, in shared or global memory.
    """
    budget = min(SHARED_MOST, device.shared_limit())
    narrow = np.searchsorted([budget // 3, 2 * budget // 3, budget], size)
    return np.where(own > WIDE_FROM, np.where(size > device.shared_limit() - OWN_SHARED, 5, 4), narrow)


def order_on_host(G, begin, end, perm, position, ordered):
    """Order a very large leaf, a part without small separators, by the minimum degree code of the CPU, without halo."""
    xp = device.xp()
    vertices = perm[begin:end]
    length = xp.diff(G.indptr)[vertices]
    start = exclusive_scan(length)
    row = xp.searchsorted(start, xp.arange(total(start)), side="right") - 1
    column = position[G.indices[G.indptr[vertices][row] + xp.arange(len(row)) - start[row]]] - begin
    inside = xp.flatnonzero((column >= 0) & (column < end - begin))
    keys = device.to_host(xp.sort(row[inside] << 32 | column[inside]))
    indptr = np.searchsorted(keys, np.arange(end - begin + 1) << 32).astype(np.int64)
    order, *_ = _core.amd(indptr, (keys & MASK).astype(np.int32))
    ordered[begin:end] = vertices[device.to_device(order)]
