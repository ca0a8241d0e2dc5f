"""Euler tours of forests on the GPU: launches of tours.cu."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d

K = device.kernels("factor/symbolic/tours.cu")
WALKS = 1 << 15                                             # walks that one thread block sums in about 15 rounds
LEAST_SHIFT = 4                                             # log2 of the elements per walk: shorter ones save no time


class Forest(NamedTuple):
    """The children and depths of nodes, int32 on the GPU, and two sizes on the host.

    Attributes
    ----------
    child : (count,) int32
        Nodes sorted by parent, ascending for each parent; the roots come last.
    child_ptr : (count + 1,) int32
        The children of node f are ``child[child_ptr[f]:child_ptr[f + 1]]``.
    depth : (count,) int32
        Distance from the root.
    levels, most_children : int
    """

    child: object
    child_ptr: object
    depth: object
    levels: int
    most_children: int

    @classmethod
    def of(cls, parent):
        """Return the forest with these parents, (count,) int32 on the GPU, -1 for a root. Reads once."""
        xp, count = device.xp(), len(parent)
        order = xp.argsort(parent.view(np.uint32), kind="stable")       # roots last
        left = sums_to_the_end(parent, order, enter=1, leave=-1)
        made, most = xp.empty(3 * count + 1, np.int32), xp.zeros(2, np.int32)
        child, depth, ptr = made[:count], made[count:2 * count], made[2 * count:]
        launch_1d(K.k_depths, count, np.int32(count), parent, order, left, child, ptr, depth, most)
        return cls(child, ptr, depth, *device.to_host(most).tolist())


def sums_to_the_end(parent, order, count=None, first=None, enter=0, leave=1):
    """Return the sum of values from each element of an Euler tour to its end.

    Parameters
    ----------
    parent : (m,) int32 on the GPU
        Parent of each node; negative or 2^31 - 1 for a root.
    order : (m,) int64 on the GPU
        The nodes sorted by parent, the children of a node in the order of their visits.
    count : (1,) int32 on the GPU, optional
        Number of nodes, the first ones; by default m.
    first : (m + 1,) int32 on the GPU, optional
        ``first[j + 1] - first[j]`` is the value at the exit of node j, in place of ``leave``.
    enter, leave : int
        Values of each node at its entry and at its exit.

    Returns
    -------
    (2 m + 2,) int32 on the GPU
        Entry 2 j is the sum from the entry of node j on, 2 j + 1 the sum from its exit on, each with its own value.

    Notes
    -----
    Four launches and O(m) steps for any forest.
    """
    xp, most = device.xp(), len(parent)
    count, first = (device.null(np.int32) if array is None else array for array in (count, first))
    shift = max(LEAST_SHIFT, (2 * most // WALKS).bit_length())
    groups = -(-2 * most // (1 << shift))
    rounds = (groups + 2).bit_length()
    next_, work = xp.arange(1, 2 * most + 3, dtype=np.int32), xp.empty(2 * (2 * most + 2) + 4 * (groups + 2), np.int32)
    left, value, walks = work[:2 * most + 2], work[2 * most + 2:4 * most + 4], work[4 * most + 4:].reshape(4, groups + 2)
    launch_1d(K.k_tour, most, np.int32(most), count, parent, order, first, np.int32(enter), np.int32(leave), next_, value)
    tour = np.int32(most), count, np.int32(shift), np.int32(groups), next_, value
    launch_1d(K.k_walk, groups + 2, *tour, walks[0], walks[1])
    device.launch(K.k_walks, 1, 1024, 0, (np.int32(groups + 2), np.int32(rounds), *(walks[k] for k in range(4))))
    launch_1d(K.k_spread, groups + 1, *tour, walks[1 + 2 * (rounds % 2)], left)
    return left
