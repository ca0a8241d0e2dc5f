"""Partition of a graph on the GPU: launches of kmeans.cu and cut.cu. CPU counterparts: kmeans.cpp and cut.cpp, with the same result.

A graph is (ptr int64, idx int32) on the GPU; a partition is (part of each vertex int32, number of parts). Only sizes are copied to the
host, among them the size of every LAYERS-th layer of a search.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.sparse.lists_cuda import bincount, exclusive_scan, total

K, C = device.kernels("patches/kmeans.cu"), device.kernels("patches/cut.cu")
BLOCK, REGION_BLOCK, MERGE_BLOCK = 256, 512, 64             # threads per block
LAYERS = 16                         # layers of a search that are launched before the host reads the size of the next one
UNREACHED = np.uint64(2**64 - 1)    # unreached of kmeans.cu
UNCLAIMED = np.int32(2**31 - 1)     # unclaimed of search.cuh
CELLS_PER_REGION, AIMED_FILL, ROUNDS = 16, 0.85, 4          # as in kmeans.cpp


def kmeans(graph, limit, seed):
    """Partition a graph into parts of 1 to ``limit`` vertices, as ``kmeans`` of kmeans.cpp."""
    region, count = _find_regions(graph, CELLS_PER_REGION * _cell_size(limit), seed)
    return _number(graph, *_cut(graph, _lloyd(graph, region, count, limit, seed), limit), limit)


def halve(graph, part, count, marked):
    """Split each marked part into parts of at most half its size, as ``halve`` of kmeans.cpp."""
    xp = device.xp()
    half = (bincount(part, count) + 1) // 2
    largest = max(1, int(device.scalar((half * marked).max().reshape(1))))
    return _number(graph, *_cut(graph, part, xp.where(marked, half, len(part))), largest)


def members(of, count):
    """Return the transpose of a map: (members of each value, ascending, int32; pointers int64)."""
    xp = device.xp()
    order = xp.argsort(of, kind="stable")
    ptr = xp.searchsorted(of[order], xp.arange(count + 1, dtype=of.dtype), side="left").astype(xp.int64)
    return order.astype(xp.int32), ptr


def _cell_size(limit):
    return max(1, int(AIMED_FILL * limit))


# ---- regions ----------------------------------------------------------------------------------------------------------


def _find_regions(graph, size, seed):
    """Return (region of each vertex, number of regions). All seeds grow at once; then components without a seed are added."""
    xp, n = device.xp(), _size(graph)
    count = -(-n // size)
    key, queue = xp.full(n, UNREACHED, xp.uint64), xp.empty(n, xp.int32)
    device.launch(K.k_first_seeds, device.grid_for(count, BLOCK), BLOCK, 0, (np.int32(n), np.int32(count), np.uint64(seed),
                  queue, key))
    _spread(graph, key, queue, count)
    left = xp.flatnonzero(key == UNREACHED)
    if len(left):
        count = _seed_unreached(graph, key, left, size, count)
    return (key & np.uint64(0xFFFFFFFF)).astype(xp.int32), count


def _spread(graph, key, queue, seeds):
    """Grow the regions layer by layer from the first ``seeds`` vertices of the queue."""
    xp = device.xp()
    begin, size, layer = 0, seeds, 1
    grid = device.grid_for(len(queue), BLOCK, most=1024)
    while size:
        first, count = xp.zeros(LAYERS + 1, xp.int32), xp.zeros(LAYERS + 1, xp.int32)
        first[0], count[0] = begin, size
        for step in range(LAYERS):
            device.launch(K.k_spread, grid, BLOCK, 0, (*graph, np.uint32(layer + step), np.int32(step), first, count, queue, key))
        begin, size = device.to_host(xp.stack([first[LAYERS], count[LAYERS]])).tolist()
        layer += LAYERS


def _seed_unreached(graph, key, left, size, count):
    """Make one region of each remaining component, or several in proportion to its size. Return the number of regions."""
    xp, n = device.xp(), len(key)
    parent, root = xp.arange(n, dtype=xp.int32), xp.empty(n, xp.int32)
    grid = device.grid_for(n, BLOCK)
    device.launch(K.k_unite, grid, BLOCK, 0, (*graph, np.int32(n), key, parent))
    device.launch(K.k_roots, grid, BLOCK, 0, (np.int32(n), parent, root))
    lowest, component, found = xp.unique(root[left], return_inverse=True, return_counts=True)
    seeds = xp.maximum(1, found // size)
    label = count + xp.cumsum(seeds) - seeds
    large = xp.flatnonzero(seeds > 1)
    own = seeds[component] == 1
    key[left[own]] = label[component[own]].astype(xp.uint64)
    if len(large):
        _seed_components(graph, key, root, *(array[large] for array in (lowest, found, seeds, label)))
    return count + int(device.scalar(seeds.sum().reshape(1)))


def _seed_components(graph, key, root, lowest, found, seeds, label):
    """Grow several regions in each of some large components."""
    xp, n = device.xp(), len(key)
    queue_ptr, new_ptr = xp.cumsum(found) - found, xp.cumsum(seeds) - seeds
    finder, slot, seen = xp.full(n, UNCLAIMED, xp.int32), xp.empty(n, xp.int32), xp.zeros(n, xp.int32)
    queue, new_seeds = xp.empty(n, xp.int32), xp.empty(n, xp.int32)
    narrow = [array.astype(xp.int32) for array in (lowest, found, seeds, label)]
    device.launch(K.k_component_seeds, len(lowest), REGION_BLOCK, 0, (*graph, root, *narrow, queue_ptr.astype(xp.int64),
                  new_ptr.astype(xp.int64), finder, slot, seen, queue, new_seeds, key))
    _spread(graph, key, new_seeds, int(device.scalar(seeds.sum().reshape(1))))


def _lloyd(graph, region, count, limit, seed):
    """Return the cell of each vertex, numbered region by region; some numbers may not occur."""
    xp, n, size = device.xp(), len(region), _cell_size(limit)
    member, region_ptr = members(region, count)
    weight = xp.diff(region_ptr)
    capacity = xp.where(weight > limit, -(-weight // size) + weight // limit, 1)
    seed_ptr = exclusive_scan(capacity)
    seeds = xp.empty(total(seed_ptr), xp.int32)
    finder, label = xp.full(n, UNCLAIMED, xp.int32), xp.empty(n, xp.int32)
    slot, seen, queue = (xp.empty(n, xp.int32) for _ in range(3))
    device.launch(K.k_lloyd, count, REGION_BLOCK, 0, (*graph, region, member, region_ptr, seed_ptr, np.int32(limit),
                                                      np.int32(size),
                  np.int32(ROUNDS), np.uint64(seed), seeds, xp.empty_like(seeds), finder, slot, seen, queue, label))
    return label


def _cut(graph, cell, limit):
    """Return (order, start): the vertices piece by piece, and 1 where a piece starts. No piece exceeds the limit of its cell."""
    xp, n = device.xp(), len(cell)
    count = int(device.scalar(cell.max().reshape(1))) + 1
    order, ptr = members(cell, count)
    start = xp.zeros(n, xp.uint8)
    start[ptr[:-1][xp.diff(ptr) > 0]] = 1
    limits = limit if hasattr(limit, "shape") else xp.full(count, limit, xp.int64)
    over = xp.flatnonzero(xp.diff(ptr) > limits)
    if len(over):
        finder, tag, mark = xp.full(n, UNCLAIMED, xp.int32), xp.full(n, -1, xp.int32), xp.zeros(n, xp.int32)
        slices = [array.astype(xp.int32) for array in (over, ptr[over], ptr[over + 1], limits[over])]
        slot, queue, scratch = (xp.empty(k * n, xp.int32) for k in (1, 1, 4))
        device.launch(C.k_cut, len(over), BLOCK, 0, (*graph, cell, *slices, order, start, tag, mark, finder, slot, queue,
                                                     scratch))
    return order, start


def _number(graph, order, start, limit):
    """Return (part, count): parts of at most ``limit`` vertices (or of one larger piece), numbered by their lowest vertex."""
    xp, n = device.xp(), len(order)
    begin = xp.append(xp.flatnonzero(start), n).astype(xp.int32)
    count = len(begin) - 1
    of = xp.empty(n, xp.int32)
    of[order] = xp.cumsum(start, dtype=xp.int32) - 1
    size, into = xp.diff(begin), xp.arange(count, dtype=xp.int32)
    small = xp.flatnonzero(size.astype(xp.int64) * 4 <= limit).astype(xp.int32)
    device.launch(C.k_merge, int(len(small) > 0), MERGE_BLOCK, 0, (*graph, order, begin, of, small, np.int32(len(small)),
                                                                   np.int32(limit), size,
                  into, xp.zeros(count, xp.int32)))
    root, lowest = xp.empty(n, xp.int32), xp.full(count, n, xp.int32)
    device.launch(C.k_lowest_vertex, device.grid_for(n, BLOCK), BLOCK, 0, (np.int32(n), of, into, root, lowest))
    first = xp.zeros(n + 1, xp.int32)
    first[lowest] = 1                                       # pieces that joined others have lowest = n
    number = xp.cumsum(first, dtype=xp.int32) - 1
    return number[lowest[root]], int(device.scalar(number[-2:-1])) + 1


def _size(graph):
    return len(graph[0]) - 1
