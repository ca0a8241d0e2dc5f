"""Cuts that turn a surface into a disc: a tree of edges, a tree of faces across other edges, and what remains.

A surface is a disc after cuts along all edges that the tree of faces does not cross. Most of these edges are in dangling paths, which
stay uncut. The cut follows shortest paths between the few edges in neither tree, or between two far vertices of a sphere.

Sources: Erickson, Whittlesey 2005 (tree and cotree, greedy loops); Gu, Gortler, Hoppe 2002. O(n log n).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra, minimum_spanning_tree

from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh, boundary


def cut_to_disc(mesh):
    """Cut a connected, orientable surface to a disc. The seam's vertices are duplicated.

    Parameters
    ----------
    mesh : Mesh
        Manifold, of one component except for vertices without faces.

    Returns
    -------
    disc : Mesh
        Faces in the same order. The first n vertices are those of the mesh, copies follow.
    vertex_of : (k,) int32
        The vertex of the mesh at which each vertex of the disc lies.

    Raises
    ------
    InvalidInputError
        No face, several components, not manifold or not orientable.
    """
    require_surface(mesh)
    seam = np.zeros(len(mesh.edges), bool)
    seam[_seam(mesh)] = True
    return _split(mesh, seam)


def require_surface(mesh):
    """Raise unless the faces form one manifold surface, oriented alike."""
    if len(mesh.faces) == 0:
        raise InvalidInputError("the mesh must have a face, got none")
    component = mesh.components[mesh.faces[:, 0]]
    if (component != component[0]).any():
        k = int((component != component[0]).argmax())
        raise InvalidInputError(f"the mesh must have one component: faces 0 and {k} are not connected; map each component on its own")
    if not mesh.is_manifold:
        raise InvalidInputError("the mesh must be manifold, but an edge has more than two faces, or the faces at a vertex form several "
                                "fans: split it there first")
    side = mesh.side_edges.reshape(-1)
    ascends = np.where(mesh.faces < np.roll(mesh.faces, -1, axis=1), 1, -1).reshape(-1)
    wrong = (np.bincount(side) == 2) & (np.bincount(side, ascends) != 0)
    if wrong.any():
        a, b = mesh.edges[wrong.argmax()]
        raise InvalidInputError(f"faces must be oriented alike, two go along the edge ({a}, {b}) in one direction; orient them first")


def _seam(mesh):
    """The edges to cut."""
    count = np.bincount(mesh.side_edges.reshape(-1), minlength=len(mesh.edges))
    length = np.maximum(mesh.edge_lengths, mesh.edge_lengths.max() * 1e-12)         # csgraph takes 0 for no edge
    cost = np.where(count == 2, length, length * 1e-9)                               # along a boundary nothing is cut
    root = int(mesh.edges[(count == 1).argmax(), 0])
    distance, before = _paths(mesh, cost, root)
    in_tree = _edges_between(mesh, np.flatnonzero(before >= 0), before)
    crossed = _cotree(mesh, np.where(count == 2, ~in_tree, False), distance)
    left = np.flatnonzero(~in_tree & ~crossed)              # 2 for each handle, and 1 for each boundary
    seam = np.zeros(len(mesh.edges), bool)
    if len(left) == 0:
        return _path_of_a_sphere(mesh, cost, distance)
    seam[left] = True
    seam |= _ancestors(mesh, np.unique(mesh.edges[left]), before)
    return np.flatnonzero(_pruned(mesh, seam | (count == 1)) & (count == 2))


def _paths(mesh, cost, root):
    """Shortest paths from a vertex: (distances (n,), vertex before each (n,) or a negative number)."""
    n = len(mesh.vertices)
    graph = sp.csr_array((cost, mesh.edges.T), shape=(n, n))
    return dijkstra(graph, directed=False, indices=root, return_predecessors=True)


def _edges_between(mesh, vertices, before):
    """(e,) True for the edges from these vertices to those before them."""
    n = len(mesh.vertices)
    pairs = np.sort(np.stack([vertices, before[vertices]]), axis=0).astype(np.int64)
    found = np.zeros(len(mesh.edges), bool)
    found[np.searchsorted(mesh.edges[:, 0].astype(np.int64) * n + mesh.edges[:, 1], pairs[0] * n + pairs[1])] = True
    return found


def _cotree(mesh, may_cross, distance):
    """(e,) True for the edges that a spanning tree of the faces crosses: those whose loops through the root are long."""
    m, side = len(mesh.faces), mesh.side_edges.reshape(-1)
    order = np.argsort(side, kind="stable")
    pairs = order[may_cross[side[order]]].reshape(-1, 2)    # the two sides of each edge
    edge, faces = side[pairs[:, 0]], np.sort(pairs // 3, axis=1)
    longest = np.argsort(-(distance[mesh.edges[edge]].sum(axis=1) + mesh.edge_lengths[edge]), kind="stable")
    edge, faces = edge[longest], faces[longest]
    once = np.sort(np.unique(faces[:, 0] * m + faces[:, 1], return_index=True)[1])       # two faces may have two common edges
    tree = minimum_spanning_tree(sp.csr_array((np.arange(1.0, len(once) + 1), faces[once].T), shape=(m, m)))
    crossed = np.zeros(len(mesh.edges), bool)
    crossed[edge[once[tree.data.astype(np.int64) - 1]]] = True
    return crossed


def _ancestors(mesh, vertices, before):
    """(e,) True for the edges of the tree between these vertices and the root."""
    seen = np.zeros(len(mesh.vertices), bool)
    while len(vertices):
        seen[vertices] = True
        vertices = np.unique(before[vertices[before[vertices] >= 0]])
        vertices = vertices[~seen[vertices]]
    return _edges_between(mesh, np.flatnonzero(seen & (before >= 0)), before)


def _pruned(mesh, kept):
    """(e,) the kept edges without paths that end at a vertex of one kept edge."""
    edges = np.flatnonzero(kept)
    while len(edges):
        degree = np.bincount(mesh.edges[edges].ravel())
        stays = (degree[mesh.edges[edges]] > 1).all(axis=1)
        if stays.all():
            break
        edges = edges[stays]
    out = np.zeros(len(kept), bool)
    out[edges] = True
    return out


def _path_of_a_sphere(mesh, cost, distance):
    """The edges of a shortest path of at least two edges between two far vertices."""
    start = int(np.where(np.isfinite(distance), distance, -1).argmax())
    distance, before = _paths(mesh, cost, start)
    end = int(np.where(np.isfinite(distance), distance, -1).argmax())
    path = _ancestors(mesh, np.array([end]), before)
    if path.sum() == 1:                                     # both sides of a single edge are the same edge of the cut mesh
        at_end = (mesh.edges == end).any(axis=1) & ~path
        path[at_end.argmax()] = True
    return np.flatnonzero(path)


def _split(mesh, seam):
    """(disc, vertex_of) with a copy of each vertex for each fan of its faces between edges of the seam."""
    n, side = len(mesh.vertices), mesh.side_edges.reshape(-1).copy()
    order = np.argsort(side, kind="stable")
    second = order[1:][np.diff(side[order]) == 0]           # the later side of each edge of two faces
    second = second[seam[side[second]]]
    side[second] = len(mesh.edges) + np.arange(len(second))
    corner, on_seam = mesh.faces.reshape(-1).copy(), np.zeros(n, bool)
    on_seam[mesh.edges[seam]] = True
    at = np.flatnonzero(on_seam[corner])
    fan = boundary.fans(corner, side, boundary.sides_of_one_face(side, len(mesh.edges) + len(second)))[at]
    _, lowest, fan = np.unique(fan, return_index=True, return_inverse=True)
    vertex = corner[at[lowest]]
    is_copy = np.ones(len(vertex), bool)
    is_copy[np.unique(vertex, return_index=True)[1]] = False
    corner[at] = np.where(is_copy, n - 1 + np.cumsum(is_copy), vertex)[fan]
    vertex_of = np.append(np.arange(n), vertex[is_copy]).astype(np.int32)
    return Mesh(mesh.vertices[vertex_of], corner.reshape(-1, 3)), vertex_of
