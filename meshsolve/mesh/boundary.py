"""The boundary loops of a triangle mesh: sides with exactly one face, in walking order.

The faces around a vertex form fans, connected across edges of two faces. An open fan ends in two boundary sides, whatever the
orientation of its faces. The boundary is therefore a set of closed loops over fans. Only an edge of more than two faces can
end a fan otherwise. Side c of face f has number 3 f + c and begins at the corner of that number.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.options import counted


def sides_of_one_face(side_edges, edges):
    """Return the sides whose edge has no other face, (b,), ascending. O(faces)."""
    of_side = side_edges.reshape(-1)
    return np.flatnonzero(np.bincount(of_side, minlength=edges)[of_side] == 1)


def loops_of(faces, side_edges, sides, is_manifold=False):
    """Return the boundary ``sides`` as loops: a list of (k,) int32 arrays of vertices.

    Each loop begins with its lowest side, in the direction of that side's face. O(faces), and a sort of the boundary sides. With
    ``is_manifold`` each vertex has one fan.

    Raises
    ------
    InvalidInputError
        A fan has one end on the boundary and one at an edge of more than two faces (names the vertex).
    """
    if len(sides) == 0:
        return []
    vertex = faces.reshape(-1)
    fan = vertex if is_manifold else fans(vertex, side_edges.reshape(-1), sides)
    corner = np.stack([sides, _next_corner(sides)], axis=1).reshape(-1)      # start of arc 2 i along side i, of arc 2 i + 1 back
    tail = fan[corner]
    order = np.argsort(tail, kind="stable")
    ends = np.bincount(tail)[tail]
    if (ends != 2).any():
        raise InvalidInputError(f"the boundary does not close at vertex {vertex[corner[np.argmax(ends != 2)]]}, where an edge "
                                "has more than two faces: use boundary_edges, which has the same edges without an order")
    mate = np.empty_like(order)                             # other arc that leaves the same fan
    mate[order] = order.reshape(-1, 2)[:, ::-1].reshape(-1)
    arcs = np.arange(len(tail))
    order, first = _core.mesh_cycles(mate[arcs ^ 1])
    return np.split(vertex[corner[order]], first[1:])


def side_directions(mesh, angles=None, fans_allowed=False):
    """Walk around each vertex and add up the corner angles that precede each side. O(vertices + faces).

    Parameters
    ----------
    mesh : Mesh
    angles : (m, 3) float64, optional
        Of the corners; without them only the mesh is checked, and ``before`` and ``total`` are empty.
    fans_allowed : bool
        Whether the faces at a vertex may form several fans.

    Returns
    -------
    before : (m, 3) float64
        Sum of the angles at the first corner of each side that precede the side, counterclockwise.
    total : (n,) float64
        Sum of the angles at each vertex.
    first : (n,) int32
        The side at each vertex with sum 0, a boundary side if there is one; -1 without faces.

    Raises
    ------
    InvalidInputError
        An edge has more than two faces, or two that are not oriented alike (names the edge); the faces at a vertex form several
        fans (names the vertex).
    """
    angles = np.empty(0) if angles is None else angles.reshape(-1)
    before, total, first, sides, edge, vertex = _core.side_directions(
        len(mesh.vertices), mesh.faces.reshape(-1), mesh.side_edges.reshape(-1), len(mesh.edges), angles)
    if edge >= 0:
        raise _not_oriented(mesh, edge)
    if vertex >= 0 and not fans_allowed:
        raise InvalidInputError(f"the mesh must be manifold: the faces at vertex {vertex} form several fans; give each fan its own "
                                "copy of the vertex")
    mesh._boundary_sides, mesh.is_manifold = sides, vertex < 0         # cached properties: the walk has found them
    return before.reshape(-1, 3), total, first


def fans(vertex, of_side, sides):
    """Number the fans of corners at boundary vertices, (3 m,).

    Corners of one vertex have the same number if their faces are connected across edges of two faces.
    """
    on_boundary = np.zeros(vertex.max() + 1, bool)
    on_boundary[vertex[sides]] = on_boundary[vertex[_next_corner(sides)]] = True
    starts = on_boundary[vertex].reshape(-1, 3)
    inner = np.flatnonzero((starts | np.roll(starts, -1, axis=1)).reshape(-1) & (np.bincount(of_side)[of_side] == 2))
    first, second = inner[np.argsort(of_side[inner], kind="stable")].reshape(-1, 2).T        # the two sides of an edge
    first_end, second_end = _next_corner(first), _next_corner(second)
    parallel = vertex[first] == vertex[second]              # faces of opposite orientation
    i = np.concatenate([first, first_end])
    j = np.concatenate([np.where(parallel, second, second_end), np.where(parallel, second_end, second)])
    joined = sp.coo_array((np.ones(len(i), np.int8), (i, j)), shape=(len(vertex), len(vertex)))
    return connected_components(joined, directed=False)[1]


def _not_oriented(mesh, edge):
    """The error for an edge of more than two faces, or of two faces of opposite orientation."""
    faces, (a, b) = np.flatnonzero((mesh.side_edges == edge).any(axis=1)), mesh.edges[edge]
    if len(faces) > 2:
        return InvalidInputError(f"the mesh must be manifold: edge ({a}, {b}) has {counted(len(faces), 'face')}, allowed are 2")
    return InvalidInputError(f"the mesh must be oriented: faces {faces[0]} and {faces[1]} have opposite orientations at edge "
                             f"({a}, {b}); reverse faces until all agree, which is impossible on a Moebius strip")


def _next_corner(side):
    """Return the corner at which a side ends."""
    return np.where(side % 3 == 2, side - 2, side + 1)
