"""Leaf subtrees of an assembly tree that one thread block, or one warp, factors in shared memory.

A subtree is factored in postorder. Its update matrices form two stacks, for even and for odd depths, which grow from both ends of
the workspace. The children of a front are on top of one stack, and its own update matrix is pushed on the other one. The panel lies
between the stacks. A stack below a front holds the earlier siblings of the front, of its grandparent, and so on: all positions follow
from the sizes. Source: Liu 1992, "The multifrontal method for sparse matrix solution", section 4.

All functions run on the host. Forests are arrays of parents in postorder, -1 for a root. Cost: O(fronts log(fronts of a subtree)).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Cut(NamedTuple):
    """The largest subtrees that fit into a workspace; the arrays have an entry for each front."""

    inside: np.ndarray          # bool: the front is in a subtree
    is_root: np.ndarray         # bool: the front is the root of a subtree, and its update matrix is stored elsewhere
    panel_at: np.ndarray        # int64: begin of the panel in the workspace
    update_at: np.ndarray       # int64: begin of the update matrix in the workspace; -1 for roots, and for fronts in no subtree


def cut(parent, panel, update, capacity):
    """Find the largest subtrees whose panels and update matrices fit into a workspace.

    Parameters
    ----------
    parent : (count,) int
    panel, update : (count,) int64
        Scalars of the panel and of the update matrix of each front.
    capacity : int
        Scalars of the workspace.

    Returns
    -------
    Cut

    Examples
    --------
    >>> cut(np.array([2, 2, -1]), np.array([3, 3, 4]), np.array([1, 1, 0]), 6).is_root.tolist()
    [False, False, True]
    """
    begin = first_descendants(parent)
    is_odd = depths_of(begin) % 2 == 1
    children, earlier = _siblings(parent, update)
    even, odd = (sum_over_ancestors(begin, np.where(chosen, earlier, 0)) for chosen in (~is_odd, is_odd))
    inside = _fits(begin, even + odd, panel + children, update, capacity)
    is_root = inside & ((parent < 0) | ~inside[parent])
    roots = np.flatnonzero(is_root)
    if len(roots):
        root = roots[np.minimum(np.searchsorted(roots, np.arange(len(parent))), len(roots) - 1)]
        even, odd = even - even[root], odd - odd[root]      # heights of the two stacks below the own or the children's update matrices
    own = np.where(is_root, 0, update)
    update_at = np.where(is_odd, capacity - odd - own, even)
    return Cut(inside, is_root, even + np.where(is_odd, children, own), np.where(inside & ~is_root, update_at, -1))


def first_descendants(parent):
    """Return the smallest number in the subtree of each node, (n,) int64."""
    begin, child = np.arange(len(parent)), np.flatnonzero(parent >= 0)[::-1]
    begin[parent[child]] = child                            # the last assignment, of the first child, counts
    while True:
        further = begin[begin]
        if np.array_equal(further, begin):
            return begin
        begin = further


def sum_over_ancestors(begin, value):
    """Return the sum of the integers ``value`` over each node and its ancestors; ``begin`` is from :func:`first_descendants`."""
    change = np.bincount(begin, value, len(begin) + 1).astype(np.int64)
    change[1:] -= value
    return np.cumsum(change)[:-1]


def depths_of(begin):
    """Return the distance of each node from its root."""
    return sum_over_ancestors(begin, np.ones(len(begin), np.int64)) - 1


def _siblings(parent, size):
    """Return the sums of the sizes of the children of each node, and of its earlier siblings (0 for roots)."""
    order = np.argsort(parent, kind="stable")
    sums, family = np.cumsum(size[order]) - size[order], parent[order]
    earlier = np.empty(len(size), np.int64)
    earlier[order] = np.where(family < 0, 0, sums - sums[np.searchsorted(family, family)])
    has_parent = parent >= 0
    return np.bincount(parent[has_parent], size[has_parent], len(size)).astype(np.int64), earlier


def _fits(begin, pending, root_need, update, capacity):
    """True for each node whose subtree fits into the workspace.

    ``pending``: sum of the earlier siblings of a node and of its ancestors; the difference to the root of a subtree is in use while the
    node is factored. ``root_need``: scalars of a root in addition. Other nodes also need space for their ``update`` matrices.
    The largest need below a node is a maximum over a range of nodes, from maxima over 1, 2, 4, ... successive nodes.
    """
    fits, limit, most, length = root_need <= capacity, pending + capacity, root_need + update + pending, 1
    left = np.flatnonzero(fits & (begin < np.arange(len(begin))))
    while len(left):
        is_bad = np.maximum(most[left - 1], most[begin[left] + length - 1]) > limit[left]
        fits[left[is_bad]] = False
        left = left[~is_bad & (left - begin[left] >= 2 * length)]
        most[length:] = np.maximum(most[length:], most[:-length])
        length *= 2
    return fits
