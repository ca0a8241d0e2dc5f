"""The boundary of a triangle mesh: the sides that one face has alone, and how they follow each other.

Around a vertex the faces hang together in fans, across edges of two faces. A fan that is open ends in two boundary sides, whichever way
its faces are turned, so the boundary is a set of closed loops over fans; a vertex of several fans is passed once for each. Only an edge
of more than two faces can end a fan otherwise. Side c of face f is number 3 f + c and begins at the corner of that number.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from meshsolve.errors import InvalidInputError


def sides_of_one_face(side_edges, edges):
    """(b,) the sides whose edge has no other face, ascending. O(faces)."""
    of_side = side_edges.reshape(-1)
    return np.flatnonzero(np.bincount(of_side, minlength=edges)[of_side] == 1)


def loops_of(faces, side_edges, sides):
    """The ``sides`` of one face as loops: a list of (k,) int32 arrays of vertices.

    Each begins with its lowest side, in the direction that this has in its face. O(faces) and the sort of the sides at the boundary.

    Raises
    ------
    InvalidInputError
        A fan has one end on the boundary and one at an edge of more than two faces (names the vertex).
    """
    if len(sides) == 0:
        return []
    vertex = faces.reshape(-1)
    fan = _fans(vertex, side_edges.reshape(-1), sides)
    corner = np.stack([sides, _next_corner(sides)], axis=1).reshape(-1)      # of arc 2 i along side i, of arc 2 i + 1 back
    tail = fan[corner]
    order = np.argsort(tail, kind="stable")
    ends = np.bincount(tail)[tail]
    if (ends != 2).any():
        raise InvalidInputError(f"the boundary does not close at vertex {vertex[corner[np.argmax(ends != 2)]]}: it meets an edge of more "
                                "than two faces; boundary_edges has its edges, in no order")
    mate = np.empty_like(order)                             # the other arc that leaves the same fan
    mate[order] = order.reshape(-1, 2)[:, ::-1].reshape(-1)
    arcs = np.arange(len(tail))
    order, is_first = _cycles(mate[arcs ^ 1])
    return np.split(vertex[corner[order]], np.flatnonzero(is_first[order])[1:])


def _next_corner(side):
    """The corner where a side ends."""
    return np.where(side % 3 == 2, side - 2, side + 1)


def _fans(vertex, of_side, sides):
    """(3 m,) a number for each corner, one for those of one vertex that hang together across edges of two faces; of vertices on the
    boundary alone."""
    on_boundary = np.zeros(vertex.max() + 1, bool)
    on_boundary[vertex[sides]] = on_boundary[vertex[_next_corner(sides)]] = True
    starts = on_boundary[vertex].reshape(-1, 3)
    inner = np.flatnonzero((starts | np.roll(starts, -1, axis=1)).reshape(-1) & (np.bincount(of_side)[of_side] == 2))
    here, there = inner[np.argsort(of_side[inner], kind="stable")].reshape(-1, 2).T          # both sides of an edge
    here_end, there_end = _next_corner(here), _next_corner(there)
    turned = vertex[here] == vertex[there]                  # the faces run along the edge in one direction
    i = np.concatenate([here, here_end])
    j = np.concatenate([np.where(turned, there, there_end), np.where(turned, there_end, there)])
    joined = sp.coo_array((np.ones(len(i), np.int8), (i, j)), shape=(len(vertex), len(vertex)))
    return connected_components(joined, directed=False)[1]


def _cycles(following):
    """The cycles of a permutation of arcs, of each and its way back the one whose lowest arc is even: these arcs cycle by cycle, each
    from its lowest, and for every arc whether it is the lowest of one of them.

    The cycles are cut and strung together, so that one walk meets them all.
    """
    count = len(following)
    ones, rows = np.ones(count, np.int8), np.arange(count + 1)
    label = connected_components(sp.csr_array((ones, following, rows), shape=(count, count)), directed=True, connection="weak")[1]
    first = np.unique(label, return_index=True)[1]
    first = np.sort(first[first % 2 == 0])
    before = np.empty_like(following)
    before[following] = rows[:-1]
    path = following.copy()
    path[before[first]] = np.append(first[1:], before[first[-1]])
    order = breadth_first_order(sp.csr_array((ones, path, rows), shape=(count, count)), first[0], return_predecessors=False)
    is_first = np.zeros(count, bool)
    is_first[first] = True
    return order, is_first
