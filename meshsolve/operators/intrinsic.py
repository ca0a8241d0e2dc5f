"""Intrinsic Delaunay triangulation of any triangle mesh, and its operators.

The tufted cover has two triangles for every face, its front and its back. Around an edge the front of each face is joined to the
back of the next face. So every edge of the cover has exactly two triangles, also at boundaries and non-manifold edges. Edges of the
cover are flipped, using their lengths only, until all are Delaunay. Then no weight of the Laplacian is negative.

Source: Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", sections 3.2 (cover), 3.3 (flips) and 4.5
(mollification); Fisher, Springborn, Schroeder, Bobenko 2007 (flips). O(faces + flips).
Invariants: each triangle counts with half its area; side c of a triangle joins its corners c and c + 1; side 0 is the longest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.elements import APART, FLATTEST, moves_apart
from meshsolve.mesh.elements import mollified as mollified_triangles
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.operators import gradients
from meshsolve.options import thread_count
from meshsolve.report import warn
from meshsolve.seal import Sealed
from meshsolve.sparse.matrix import narrow_ptr
from meshsolve.types import Array, Sparse

SLACK = 1e-12           # slack of the triangle inequality, relative to the longest side: heights of 1e-6, to four digits of the lengths
AT_POINT = 1e-6         # sides of a component at one point, relative to the longest of the mesh: areas are not rounding errors of 1
MOST_FLIPS = 10**9      # limit on flips, about two minutes; most meshes need less than one per edge, the worst case is quadratic


@dataclass(frozen=True)
class IntrinsicMesh(Sealed):
    """Triangles on a surface, defined by the lengths of their sides. Made by :func:`intrinsic_delaunay`.

    Parameters
    ----------
    faces : (k, 3) int32
        Vertices of the mesh at the corners of each triangle. Two corners may be the same vertex.
    lengths : (k, 3) float64
        Lengths of the sides. Side c joins corners c and c + 1; side 0 is the longest.
    weights : (k, 3) float64
        Half the cotangent of the angle opposite each side.
    num_vertices : int
    flips : int
        Number of edge flips.
    copies : int
        Triangles that lie on each other: 2 on a surface, its front and back; 6 in a point cloud. Each counts with its area over
        ``copies``.
    """

    faces: Array
    lengths: Array
    weights: Array
    num_vertices: int
    flips: int
    copies: int

    def laplacian(self) -> Sparse:
        """Assemble the cotangent Laplacian, (n, n) csr_array. Off-diagonal entries are at most 0; rows sum to 0."""
        n = self.num_vertices
        ends, edge = _core.mesh_edges(n, self.faces.reshape(-1), thread_count())
        pairs = ends.reshape(-1, 2)
        weight = np.maximum(np.bincount(edge, self.weights.reshape(-1), minlength=len(pairs)) / self.copies, 0)         # rounding below 0
        proper = pairs[:, 0] != pairs[:, 1]                 # loop edges have no energy
        indptr, indices, edge = _core.mesh_adjacency(n, pairs[proper].reshape(-1), True, thread_count())
        data = _core.laplacian_values(indptr, indices, edge, weight[proper], thread_count())
        return sp.csr_array((data, indices, narrow_ptr(indptr)), shape=(n, n))

    def mass(self) -> Sparse:
        """Assemble the lumped mass matrix, (n, n) csr_array: a third of the area of each triangle at each of its corners."""
        n = self.num_vertices
        mass = _core.vertex_areas(self.faces.reshape(-1), areas_of(self.lengths) / self.copies, n, thread_count())
        return sp.csr_array((mass, np.arange(n, dtype=np.int32), np.arange(n + 1, dtype=np.int32)), shape=(n, n))

    def gradient(self) -> Sparse:
        """Assemble the gradient G, (2 k, n) csr_array: components along side 0 of all triangles, then orthogonal components."""
        x, faces = self._layout()
        return self._matrix(gradients.of_hats(x, faces, areas_of(self.lengths), FLATTEST))

    def divergence(self) -> Sparse:
        """Assemble the divergence D = -G^T A / copies with triangle areas A, (n, 2 k) csr_array.

        D @ G is minus :meth:`laplacian`, up to rounding.
        """
        x, faces = self._layout()
        hats = gradients.of_hats(x, faces, areas_of(self.lengths), FLATTEST, integrated=True)
        return self._matrix(hats).T.tocsr() / self.copies

    def _layout(self):
        """Lay out each triangle in its own plane with side 0 on the x axis: positions (3 k, 3) and faces (k, 3)."""
        k, area = len(self.faces), areas_of(self.lengths)
        a, b, c = self.lengths.T
        base = np.where(a > 0, a, 1)
        x = np.zeros((k, 3, 3))
        x[:, 1, 0] = a
        x[:, 2, 0] = 0.5 * (a + (c - b) * ((c + b) / base))
        x[:, 2, 1] = 2 * area / base
        return x.reshape(-1, 3), np.arange(3 * k, dtype=np.int32).reshape(k, 3)

    def _matrix(self, hats):
        """Make the (2 k, n) csr_array of gradients (3, k, 3) in the x-y plane."""
        k = len(self.faces)
        ends = np.arange(0, 6 * k + 1, 3)
        columns = np.concatenate([self.faces, self.faces]).reshape(-1)
        G = sp.csr_array((hats[:2].reshape(-1), columns, ends), shape=(2 * k, self.num_vertices))
        G.sum_duplicates()                      # a vertex may be two corners of a triangle
        return G


@takes_arrays
def intrinsic_delaunay(mesh: MeshLike) -> IntrinsicMesh:
    """Compute the intrinsic Delaunay triangulation of the tufted cover of a mesh, for operators without negative weights.

    Parameters
    ----------
    mesh : Mesh, PointCloud, trimesh.Trimesh or meshio.Mesh
        With n vertices and m faces. Boundaries, non-manifold edges and zero-area faces are allowed. The faces of a PointCloud are
        the triangles of its ``stars``, which only the first of several copies of a point has.

    Returns
    -------
    IntrinsicMesh
        2 m triangles on the same vertices: a front and a back for every face, so that boundary edges can be flipped as well.
        ``.laplacian()``, ``.mass()``, ``.gradient()`` and ``.divergence()`` count each triangle with half its area, of a PointCloud
        with a sixth.

    Raises
    ------
    InvalidInputError
        Not a mesh, no faces, or a coordinate that was changed in place to NaN, infinity or a value beyond 1e70.

    Warns
    -----
    MeshsolveWarning
        The limit on flips was reached (edges squared, at most 10**9). Weights that are still negative count as 0.

    Notes
    -----
    O(faces + flips). Without negative weights M + t L is an M-matrix, so heat diffusion stays positive. This Laplacian differs from
    ``cotan_laplacian(mesh, intrinsic_delaunay=True)`` at boundaries, whose edges the latter does not flip.

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
    is_cloud = isinstance(mesh, PointCloud)
    rounds, mesh = (mesh.rounds, mesh.stars) if is_cloud else (None, checked_mesh(mesh))
    if len(mesh.faces) == 0:
        raise InvalidInputError("the mesh has no faces: intrinsic_delaunay needs a surface")
    edge, cover = _tufted_cover(mesh, rounds)
    lengths, longest = mollified(mesh)
    limit = min((3 * len(mesh.faces)) ** 2 + 1000, MOST_FLIPS)
    faces = np.concatenate([mesh.faces, mesh.faces]).reshape(-1)
    corners, weights, sides, _, _, flips, finished = _core.intrinsic_delaunay(faces, cover, lengths[edge], np.empty(0), FLATTEST, limit)
    if not finished:
        warn(f"stopped after {flips:,} edge flips: some triangles are not Delaunay", MeshsolveWarning)
    from_longest = (sides.reshape(-1, 3).argmax(axis=1)[:, None] + np.arange(3)) % 3
    faces, weights, sides = (np.take_along_axis(a.reshape(-1, 3), from_longest, axis=1) for a in (corners, weights, sides))
    return IntrinsicMesh(faces, longest * sides, weights, len(mesh.vertices), flips, 6 if is_cloud else 2)


def areas_of(lengths):
    """Compute the areas (k,) of triangles with sides (k, 3) by Kahan's formula, with sides in descending order."""
    unit = 2.0 ** np.frexp(lengths.max(initial=0))[1]                   # powers of small lengths underflow; bits do not depend on it
    c, b, a = np.sort(lengths / unit, axis=1).T
    product = (a + (b + c)) * (c - (a - b)) * (c + (a - b)) * (a + (b - c))
    return 0.25 * np.sqrt(np.maximum(product, 0)) * unit * unit


def mollified(mesh):
    """Mollify the edge lengths (e,) of a mesh. Returns them relative to the longest, and the longest.

    Lengths do not determine areas as positions do. So besides the rule for degenerate triangles, the slack of each triangle inequality
    must be at least ``SLACK``. An edge has one length on both sides: triangles that are joined by edges get the same constant. Corners
    that coincide move apart first, as for angles.
    """
    lengths = mesh.edge_lengths
    longest = float(lengths.max(initial=0)) or 1.0
    lengths /= longest
    sides = lengths[mesh.side_edges.T]
    thin, short = _thin(sides), np.minimum.reduce(sides) < APART * np.maximum.reduce(sides)
    moves = moves_apart(mesh.vertices, mesh.faces, np.flatnonzero(thin | short))[0] if (thin | short).any() else None
    if moves is not None:
        moved = moves.any(axis=1)[mesh.edges].any(axis=1)
        a, b = mesh.edges[moved].T
        lengths[moved] = np.linalg.norm((mesh.vertices[b] - mesh.vertices[a] + moves[b] - moves[a]) / longest, axis=1)
        thin = _thin(lengths[mesh.side_edges.T])
    return (_lengthened(lengths, mesh.side_edges, thin), longest) if thin.any() else (lengths, longest)


def _thin(sides):
    """(m,) mask of triangles with sides (3, m), to be mollified: by Heron's formula, with sides relative to the longest one."""
    a, b, c = sides
    longest = np.maximum(np.maximum(a, b), c)
    half = 0.5 * (a + b + c)
    low = half - longest
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):             # 0 / 0 at one point
        unit = 1 / longest
        product = (low * unit) * (half * unit) * ((half - a) * unit) * ((half - b) * unit) * ((half - c) * unit)
        return ~((low > SLACK * longest) & (4 * product > FLATTEST**2 * (low * unit)))


def _lengthened(lengths, side_edges, thin):
    """Add a constant to the edges (e,) of all thin triangles (m,) that are joined by edges, and of those that become thin by it."""
    while True:
        faces = np.flatnonzero(thin)
        edges, number = np.unique(side_edges[faces], return_inverse=True)
        a, b, c = number.reshape(-1, 3).T
        joined = sp.coo_array((np.ones(2 * len(a)), (np.concatenate([a, b]), np.concatenate([b, c]))), shape=(len(edges), len(edges)))
        group = connected_components(joined, directed=False)[1]
        sides = lengths[side_edges[faces].T]
        needs = 2 * mollified_triangles(np.maximum(0.5 * sides.sum(axis=0) - np.roll(sides, 1, axis=0), 0), FLATTEST, SLACK)[1]
        constant, extent = np.zeros((2, group.max() + 1))
        np.maximum.at(constant, group[a], needs)
        np.maximum.at(extent, group[a], sides.max(axis=0))
        constant[extent == 0] = AT_POINT
        longer = lengths.copy()
        longer[edges] += constant[group]
        near = np.flatnonzero(np.isin(side_edges, edges).any(axis=1) & ~thin)
        near = near[_thin(longer[side_edges[near].T])]
        if len(near) == 0:
            return longer
        thin[near] = True


def _tufted_cover(mesh, rounds):
    """Build the tufted cover: the mesh edge of each cover edge, (3 m,), and the cover edge of each side of fronts and backs, (6 m,).

    A cover edge joins the forward side of a face to the backward side of the next face around a mesh edge, by angle. In a point cloud,
    equal triangles of different stars have different ``rounds`` (m,). Rounds follow each other around an edge, so that a triangle
    is joined to its neighbors, and not to its copies; within a round the third corners decide.
    """
    sides = mesh.side_edges.reshape(-1)
    if rounds is None:
        key, rounds = _angles_around_edges(mesh, sides), np.empty(0, np.int32)
    else:
        key = np.roll(mesh.faces, 1, axis=1).reshape(-1).astype(np.float64)
    return _core.tufted_cover(mesh.faces.reshape(-1), sides, len(mesh.edges), key, rounds, thread_count())


def _angles_around_edges(mesh, side_edge):
    """The angle of the face of each side around its edge, 0 at edges of one or two faces."""
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
    return angle
