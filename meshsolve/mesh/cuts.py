"""Cuts that turn a surface into a disc: a tree of edges, a tree of faces across other edges, and what remains.

Each boundary loop counts as one vertex. A surface is a disc after cuts along all edges that the tree of faces does not cross. Most of
these edges are in dangling paths, which stay uncut. The cut follows shortest paths between boundaries and the few edges in neither tree,
or between two far vertices of a sphere.

Sources: Erickson, Whittlesey 2005 (tree and cotree, greedy loops); Gu, Gortler, Hoppe 2002. O(n log n).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra, minimum_spanning_tree

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
    """Raise unless the faces form one manifold surface, oriented alike. Return (n,) bool, True for vertices with a face."""
    if len(mesh.faces) == 0:
        raise InvalidInputError("the mesh must have a face, got none")
    component = mesh.components
    if component.max() > 0 and ((component := component[mesh.faces[:, 0]]) != component[0]).any():
        k = int((component != component[0]).argmax())
        raise InvalidInputError(f"the mesh must have one component: faces 0 and {k} are not connected; map each component on its own")
    return boundary.side_directions(mesh)[2] >= 0


def _seam(mesh):
    """The edges to cut."""
    skeleton = _Skeleton(mesh)
    root = skeleton.anchors[0] if len(skeleton.anchors) else mesh.faces[0, 0]
    distance, before, edge = skeleton.paths(root)
    outside_tree = skeleton.is_inner.copy()
    outside_tree[edge[edge >= 0]] = False
    loop = distance[skeleton.ends].sum(axis=1) + skeleton.lengths
    left = np.flatnonzero(outside_tree & ~_cotree(mesh, outside_tree, loop))       # two for each handle
    if len(left) == 0 and len(skeleton.anchors) == 0:
        return _path_of_a_sphere(mesh, skeleton, distance)
    needed = np.unique(np.append(skeleton.ends[left], skeleton.anchors))
    return _pruned(skeleton, np.append(left, edge[_before_root(needed, before)]))


class _Skeleton:
    """The inner edges of a surface, with each boundary loop collapsed to its lowest vertex.

    Attributes
    ----------
    of : (n,) int64
        The vertex to which each vertex collapses.
    is_inner : (e,) bool
        True for edges of two faces.
    anchors : (b,) int64
        Collapsed boundary loops.
    """

    def __init__(self, mesh):
        n = len(mesh.vertices)
        count = np.bincount(mesh.side_edges.reshape(-1), minlength=len(mesh.edges))
        self.is_inner, rim = count == 2, mesh.edges[count == 1]
        label = connected_components(sp.coo_array((np.ones(len(rim), np.int8), rim.T), shape=(n, n)), directed=False)[1]
        self.of = np.unique(label, return_index=True)[1][label]
        self.anchors = np.unique(self.of[rim])
        self.ends = self.of[mesh.edges]
        self.lengths = np.maximum(mesh.edge_lengths, 1e-12 * mesh.edge_lengths.max())      # csgraph takes 0 for no edge
        edge = np.flatnonzero(self.is_inner & (self.ends[:, 0] != self.ends[:, 1]))
        key = self._keys(*self.ends[edge].T)
        order = np.lexsort((self.lengths[edge], key))
        self._key, first = np.unique(key[order], return_index=True)     # the shortest edge of each pair
        self._edge = edge[order[first]]

    def paths(self, root):
        """Shortest paths: (distance (n,), vertex before each or a negative number (n,), edge to it or -1 (n,))."""
        n = len(self.of)
        graph = sp.csr_array((self.lengths[self._edge], np.divmod(self._key, n)), shape=(n, n))
        distance, before = dijkstra(graph, directed=False, indices=root, return_predecessors=True)
        edge, reached = np.full(n, -1), np.flatnonzero(before >= 0)
        edge[reached] = self._edge[np.searchsorted(self._key, self._keys(reached, before[reached].astype(np.int64)))]
        return distance, before, edge

    def _keys(self, i, j):
        return np.minimum(i, j) * len(self.of) + np.maximum(i, j)


def _cotree(mesh, may_cross, loop):
    """(e,) True for the edges that a spanning tree of the faces crosses: those whose loops through the root are long."""
    m, side = len(mesh.faces), mesh.side_edges.reshape(-1)
    order = np.argsort(side, kind="stable")
    pairs = order[may_cross[side[order]]].reshape(-1, 2)    # the two sides of each edge
    edge, faces = side[pairs[:, 0]], np.sort(pairs // 3, axis=1)
    longest = np.argsort(-loop[edge], kind="stable")
    edge, faces = edge[longest], faces[longest]
    once = np.sort(np.unique(faces[:, 0] * m + faces[:, 1], return_index=True)[1])       # two faces may have two common edges
    tree = minimum_spanning_tree(sp.csr_array((np.arange(1.0, len(once) + 1), faces[once].T), shape=(m, m)))
    crossed = np.zeros(len(mesh.edges), bool)
    crossed[edge[once[tree.data.astype(np.int64) - 1]]] = True
    return crossed


def _before_root(vertices, before):
    """The vertices on the paths from these to the root, without the root."""
    seen = np.zeros(len(before), bool)
    while len(vertices):
        seen[vertices] = True
        vertices = np.unique(before[vertices[before[vertices] >= 0]])
        vertices = vertices[~seen[vertices]]
    return np.flatnonzero(seen & (before >= 0))


def _pruned(skeleton, edges):
    """The edges without paths that end at a vertex of one edge, unless it is a boundary."""
    while len(edges):
        ends = skeleton.ends[edges]
        degree = np.bincount(np.append(ends.ravel(), np.repeat(skeleton.anchors, 2)))
        stays = (degree[ends] > 1).all(axis=1)
        if stays.all():
            break
        edges = edges[stays]
    return edges


def _path_of_a_sphere(mesh, skeleton, distance):
    """The edges of a shortest path of at least two edges between two far vertices."""
    start = np.where(np.isfinite(distance), distance, -1).argmax()
    distance, before, edge = skeleton.paths(start)
    end = np.where(np.isfinite(distance), distance, -1).argmax()
    path = edge[_before_root(np.array([end]), before)]
    if len(path) == 1:                                      # both sides of a single edge would be the same edge of the cut mesh
        others = np.flatnonzero((mesh.edges == end).any(axis=1))
        path = np.append(path, others[others != path[0]][0])
    return path


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
