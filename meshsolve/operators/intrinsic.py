"""Intrinsic Delaunay triangles of any triangle mesh, and the operators on them.

Every face is covered by two triangles, its front and its back. Around an edge the front of one face is joined to the back of the
next one, so that every edge of the cover has two triangles: also at a boundary, where the front of the last face meets its own
back, and where more than two faces meet. Edges of the cover are then flipped, by their lengths alone, until they are Delaunay.
No weight of the Laplacian is negative after that, whatever the angles of the faces were.

Source: Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", sections 3.2 (cover), 3.3 (flips) and 4.5
(mollification); Fisher, Springborn, Schroeder, Bobenko 2007 (flips). O(faces + flips).
Invariants: each triangle counts with half its area; side c of a triangle joins its corners c and c + 1; side 0 is the longest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import MeshLike, placed_mesh, takes_arrays
from meshsolve.operators import gradients
from meshsolve.options import thread_count
from meshsolve.report import warn
from meshsolve.sparse.matrix import narrow_ptr
from meshsolve.types import Array, Sparse

FLATTEST = 1e-8         # twice the area over the longest side squared; flatter triangles count as that flat
MOLLIFY = 1e-8          # intrinsic triangles keep the triangle inequality by this share of the mean edge length
SHORTEST = 1e-6         # sides of the cover are at least this share of their piece's mean: weights stay within a factor of 1e12 or so
MOST_FLIPS = 10**9      # about two minutes; the planar worst case is quadratic (Lawson), meshes need less than a flip per edge


@dataclass(frozen=True)
class IntrinsicMesh:
    """Triangles on a surface that are known by the lengths of their sides, made by :func:`intrinsic_delaunay`.

    Parameters
    ----------
    faces : (k, 3) int32
        Vertices of the mesh at the corners of each triangle. Two corners may be the same vertex.
    lengths : (k, 3) float64
        Side c joins corners c and c + 1; side 0 is the longest.
    weights : (k, 3) float64
        Half the cotangent of the angle opposite each side.
    num_vertices : int
    flips : int
        Number of edges that were flipped.
    """

    faces: Array
    lengths: Array
    weights: Array
    num_vertices: int
    flips: int

    def laplacian(self) -> Sparse:
        """The cotangent Laplacian, (n, n) csr_array: its entries off the diagonal are at most 0, and its rows sum to 0."""
        n = self.num_vertices
        ends, edge = _core.mesh_edges(n, self.faces.reshape(-1), thread_count())
        pairs = ends.reshape(-1, 2)
        weight = np.maximum(0.5 * np.bincount(edge, self.weights.reshape(-1), minlength=len(pairs)), 0)         # but for rounding
        proper = pairs[:, 0] != pairs[:, 1]                 # an edge from a vertex to itself has no energy
        indptr, indices, edge = _core.mesh_adjacency(n, pairs[proper].reshape(-1), True, thread_count())
        data = _core.laplacian_values(indptr, indices, edge, weight[proper], thread_count())
        return sp.csr_array((data, indices, narrow_ptr(indptr)), shape=(n, n))

    def mass(self) -> Sparse:
        """The lumped mass matrix, (n, n) csr_array: a third of the area of each triangle at each of its corners."""
        n = self.num_vertices
        mass = _core.vertex_areas(self.faces.reshape(-1), 0.5 * self._areas(), n, thread_count())
        return sp.csr_array((mass, np.arange(n, dtype=np.int32), np.arange(n + 1, dtype=np.int32)), shape=(n, n))

    def gradient(self) -> Sparse:
        """G, (2 k, n) csr_array: the gradient on each triangle, first along side 0 for all triangles, then at right angles to it."""
        x, faces = self._layout()
        return self._matrix(gradients.of_hats(x, faces, self._areas(), FLATTEST))

    def divergence(self) -> Sparse:
        """D = -G^T times half the area of each triangle, (n, 2 k) csr_array; D @ G is minus :meth:`laplacian`, to rounding."""
        x, faces = self._layout()
        hats = gradients.of_hats(x, faces, self._areas(), FLATTEST, integrated=True)
        return 0.5 * self._matrix(hats).T.tocsr()

    def _areas(self):
        """(k,) areas by Kahan's formula, from the longest side to the shortest."""
        a, second, third = self.lengths.T
        b, c = np.maximum(second, third), np.minimum(second, third)
        product = (a + (b + c)) * (c - (a - b)) * (c + (a - b)) * (a + (b - c))
        return 0.25 * np.sqrt(np.maximum(product, 0))

    def _layout(self):
        """Each triangle in a plane of its own, side 0 on the x axis: positions (3 k, 3), and faces of those numbers (k, 3)."""
        k, area = len(self.faces), self._areas()
        a, b, c = self.lengths.T
        base = np.where(a > 0, a, 1)
        x = np.zeros((k, 3, 3))
        x[:, 1, 0] = a
        x[:, 2, 0] = 0.5 * (a + (c - b) * ((c + b) / base))
        x[:, 2, 1] = 2 * area / base
        return x.reshape(-1, 3), np.arange(3 * k, dtype=np.int32).reshape(k, 3)

    def _matrix(self, hats):
        """The (2 k, n) csr_array of (3, k, 3) gradients, which lie in the plane of x and y."""
        k = len(self.faces)
        ends = np.arange(0, 6 * k + 1, 3)
        columns = np.concatenate([self.faces, self.faces]).reshape(-1)
        G = sp.csr_array((hats[:2].reshape(-1), columns, ends), shape=(2 * k, self.num_vertices))
        G.sum_duplicates()                      # a vertex may be two corners of a triangle
        return G


@takes_arrays
def intrinsic_delaunay(mesh: MeshLike) -> IntrinsicMesh:
    """Find triangles with good angles on the surface of a mesh, with the same vertices, for operators without negative weights.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With n vertices and m faces. Boundaries, non-manifold edges and zero-area faces are fine.

    Returns
    -------
    IntrinsicMesh
        Of 2 m triangles: every face is covered on both sides, so that edges on a boundary can be flipped as well. ``.laplacian()``,
        ``.mass()``, ``.gradient()`` and ``.divergence()`` count each with half its area.

    Raises
    ------
    InvalidInputError
        Not a mesh, no face, or a vertex that was changed to NaN, infinity or beyond 1e70.

    Warns
    -----
    MeshsolveWarning
        The flips were stopped, after edges squared of them or 10**9. Weights that are still negative count as 0.

    Notes
    -----
    O(faces + flips). Without negative weights M + t L is an M-matrix: heat that starts at a source is positive everywhere. This
    Laplacian differs from ``cotan_laplacian(mesh, intrinsic_delaunay=True)`` at boundaries, where the latter flips no edge.

    References
    ----------
    Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", sections 3.2, 3.3 and 4.5.

    Examples
    --------
    >>> import meshsolve as ms
    >>> thin = ms.Mesh([[0, 0, 0], [4, 0, 0], [2, 0.1, 0], [2, 3, 0]], [[0, 1, 2], [2, 1, 3], [0, 2, 3]])
    >>> ms.cotan_laplacian(thin).toarray()[0].round(2).tolist()
    [5.74, 4.99, -10.75, 0.02]
    >>> ms.operators.intrinsic_delaunay(thin).laplacian().toarray()[0].round(2).tolist()
    [0.7, 0.0, -0.7, 0.0]
    """
    mesh = placed_mesh(mesh)
    if len(mesh.faces) == 0:
        raise InvalidInputError("the mesh has no face: there is no surface to triangulate")
    edge, cover = _tufted_cover(mesh)
    lengths, longest = _mollified_by_pieces(mesh)
    limit = min((3 * len(mesh.faces)) ** 2 + 1000, MOST_FLIPS)
    faces = np.concatenate([mesh.faces, mesh.faces]).reshape(-1)
    corners, weights, sides, flips, finished = _core.intrinsic_delaunay(faces, cover, lengths[edge], FLATTEST, limit)
    if not finished:
        warn(f"the flips were stopped after {flips} of them: some triangles are not Delaunay", MeshsolveWarning)
    turn = (sides.reshape(-1, 3).argmax(axis=1)[:, None] + np.arange(3)) % 3
    faces, weights, sides = (np.take_along_axis(a.reshape(-1, 3), turn, axis=1) for a in (corners, weights, sides))
    return IntrinsicMesh(faces, longest * sides, weights, len(mesh.vertices), flips)


def mollified(lengths, side_edges):
    """The lengths (e,) with the least constant added that keeps every triangle inequality strict, the longest scaled to 1."""
    sides = lengths[side_edges.T]
    lengths = lengths + max(0.0, MOLLIFY * sides.mean() - _slack(sides).min())
    return lengths / (lengths.max() or 1.0)


def _mollified_by_pieces(mesh):
    """The same for the edges of a mesh, with a constant for each connected component, none of length 0; and the longest length."""
    lengths = _core.edge_lengths(mesh.vertices.reshape(-1), mesh.edges.reshape(-1), thread_count())
    piece, piece_of_face = mesh.components[mesh.edges[:, 0]], mesh.components[mesh.faces[:, 0]]
    mean = np.bincount(piece, lengths) / np.bincount(piece).clip(1)
    mean[mean == 0] = lengths.mean() or 1.0             # all vertices at one point
    lengths = np.maximum(lengths, SHORTEST * mean[piece])           # the shortest sides of triangles: no inequality breaks
    least = np.full(len(mean), np.inf)
    np.minimum.at(least, piece_of_face, _slack(lengths[mesh.side_edges.T]))
    lengths = lengths + np.maximum(MOLLIFY * mean - least, 0)[piece]
    return lengths / lengths.max(), float(lengths.max())


def _slack(sides):
    """By how much the two shorter of three sides (3, m) are longer than the longest."""
    a, b, c = sides
    return a + b + c - 2 * np.maximum(np.maximum(a, b), c)


def _tufted_cover(mesh):
    """(3 m,) the edge of the mesh below each edge of the cover, and (6 m,) the edge of the cover of each side of the fronts and backs.

    Around an edge of the mesh the faces are taken in the order of their angles. An edge of the cover joins the side of a face that
    looks forward in that order to the side of the next face that looks back.
    """
    m, side_edge = len(mesh.faces), mesh.side_edges.reshape(-1)
    order = _around_edges(mesh, side_edge)
    edge = side_edge[order]
    is_first = np.append(True, edge[1:] != edge[:-1])
    start, group = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    following = np.arange(1, len(edge) + 1)
    is_last = np.append(is_first[1:], True)
    following[is_last] = start[group[is_last]]
    ascends = (mesh.faces < np.roll(mesh.faces, -1, axis=1)).reshape(-1)[order]         # its front looks forward
    cover = np.empty(6 * m, np.int32)
    number = np.arange(3 * m, dtype=np.int32)
    cover[order + np.where(ascends, 0, 3 * m)] = number
    cover[order[following] + np.where(ascends[following], 3 * m, 0)] = number
    return edge, cover


def _around_edges(mesh, side_edge):
    """The sides of all faces by edge, and by the angle of the face about the edge where there are more than two."""
    angle = np.zeros(len(side_edge))
    shared = np.flatnonzero(np.bincount(side_edge, minlength=len(mesh.edges))[side_edge] > 2)
    if len(shared):
        low, high = mesh.vertices[mesh.edges[side_edge[shared]]].transpose(1, 0, 2)
        axis, across = high - low, mesh.vertices[np.roll(mesh.faces, 1, axis=1).reshape(-1)[shared]] - low
        length = np.linalg.norm(axis, axis=1, keepdims=True)
        axis = axis / np.where(length > 0, length, 1)
        right = np.cross(axis, np.eye(3)[np.abs(axis).argmin(axis=1)])
        up = np.cross(axis, right)
        angle[shared] = np.arctan2(np.einsum("sk,sk->s", up, across), np.einsum("sk,sk->s", right, across))
    return np.lexsort((angle, side_edge))
