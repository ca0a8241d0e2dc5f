"""Tangent planes at the vertices of an oriented manifold mesh, transport along edges, and Laplacians of tangent vector fields.

The tangent plane at a vertex has a frame of two unit vectors. A tangent vector is a complex number: its components along both.
The direction of an edge at vertex i is the sum of the corner angles before it, counterclockwise, scaled so that all of them sum
to 2 pi. Angles at the boundary are not scaled: no closed path goes around such a vertex, and constant fields in a plane stay
parallel. Transport along an edge keeps the angle to the edge.

Sources: Knoeppel, Crane, Pinkall, Schroeder 2013 (connection Laplacian); Sharp, Soliman, Crane 2019 (intrinsic Delaunay triangles
whose sides keep their directions through flips). O(vertices + faces), and the flips.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import MeshsolveWarning
from meshsolve.mesh import MeshLike, boundary, checked_mesh, takes_arrays
from meshsolve.mesh.elements import FLATTEST
from meshsolve.mesh.measures import corner_angles, vertex_normals
from meshsolve.operators.gradients import frame
from meshsolve.operators.intrinsic import MOST_FLIPS, areas_of, mollified
from meshsolve.options import as_flag, as_integer, thread_count
from meshsolve.report import warn
from meshsolve.seal import Sealed
from meshsolve.types import Array, Sparse

MOST_POWER = 100        # largest power of a field; its rounding errors are this many times larger


class TangentPlanes(Sealed):
    """Frames at vertices and faces, and the directions of the sides in them.

    Parameters
    ----------
    mesh : Mesh
        Checked; manifold, with faces that are oriented alike.

    Attributes
    ----------
    corners : (m, 3) float64
        Angle of each corner.
    angles : (m, 3) float64
        Sum of the corner angles at the first corner of each side that precede the side.
    total : (n,) float64
        Sum of all corner angles at a vertex.
    scale : (n,) float64
        Direction of a side at its first corner per unit of ``angles``: 2 pi / ``total``, or 1 at the boundary.

    Raises
    ------
    InvalidInputError
        An edge has more than two faces, or two that are not oriented alike (names the edge); the faces at a vertex form several
        fans (names the vertex).
    """

    def __init__(self, mesh):
        self._mesh = mesh
        self.corners = corner_angles(mesh.vertices, mesh.faces)
        self.angles, self.total, self._first = boundary.side_directions(mesh, self.corners)
        self.scale = 2 * np.pi / np.where(self.total > 0, self.total, 2 * np.pi)
        self.scale[mesh.boundary_vertices] = 1

    @functools.cached_property
    def frames(self):
        """(n, 2, 3) orthonormal frame at each vertex, orthogonal to its normal; 0 at vertices without faces. The first vector is
        the
        projection of the side with direction 0."""
        x, corners = self._mesh.vertices, self._mesh.faces.reshape(-1)
        used = np.flatnonzero(self._first >= 0)
        side = self._first[used]
        normal = vertex_normals(x, self._mesh.faces)[used]
        normal[(normal == 0).all(axis=1)] = [0, 0, 1]
        _, along = frame(normal, _relative(x[corners[side - side % 3 + (side + 1) % 3]] - x[used]))
        out = np.zeros((len(x), 2, 3))
        out[used] = np.stack([along, np.cross(normal, along)], axis=1)
        return out

    @functools.cached_property
    def face_frames(self):
        """(m, 2, 3) orthonormal frames in the planes of the faces; the first vector is along side 0."""
        a, b, c = self._mesh.vertices[self._mesh.faces].transpose(1, 0, 2)
        along = _relative(b - a)
        length = np.linalg.norm(along, axis=1, keepdims=True)
        along = np.where(length > 0, along / np.where(length > 0, length, 1), [1.0, 0, 0])
        return np.stack(frame(along, _relative(c - a)), axis=1)

    @functools.cached_property
    def side_directions(self):
        """(m, 3) unit complex numbers: the directions of the three sides in the frame of their face."""
        turn = np.pi - self.corners
        return np.exp(1j * np.stack([np.zeros(len(turn)), turn[:, 1], turn[:, 1] + turn[:, 2]], axis=1))

    @functools.cached_property
    def corner_turns(self):
        """(m, 3) unit complex numbers that take vectors in the frame of a face to the frames of its corners. The bisector of a corner
        keeps its direction."""
        half = 0.5 * self.corners
        return np.exp(1j * (self.scale[self._mesh.faces] * (self.angles + half) - half)) / self.side_directions

    def vectors(self, z):
        """(n, 3) vectors in space of the complex numbers z (n,)."""
        return np.einsum("nk,nkc->nc", np.stack([z.real, z.imag], axis=1), self.frames)


@dataclass(frozen=True)
class Connection(Sealed):
    """Transport of tangent vectors along the edges of a triangulation.

    Parameters
    ----------
    planes : TangentPlanes
    tails, heads : (e,) int32
        Vertices of each edge. Several edges may join two vertices.
    directions : (2, e) float64
        Direction of each edge at its tail, and of the reversed edge at its head.
    lengths : (e,) float64
    weights : (e,) float64
        Sum of half the cotangents of the angles opposite each edge.
    masses : (n,) float64
        A third of the areas of the triangles at each vertex.
    """

    planes: TangentPlanes
    tails: Array
    heads: Array
    directions: Array
    lengths: Array
    weights: Array
    masses: Array

    @functools.cached_property
    def turns(self):
        """(e,) unit complex numbers that take vectors from the tail of each edge to its head."""
        return np.exp(1j * (self.directions[1] + np.pi - self.directions[0]))

    @functools.cached_property
    def vectors(self):
        """(2, e) complex numbers: each edge in the frame of its tail, and the reversed edge in the frame of its head."""
        return self.lengths * np.exp(1j * self.directions)

    def laplacian(self, power=1):
        """Assemble the (n, n) complex csr_array of the sum over edges of w |u_head - turn^power u_tail|^2."""
        n, w = len(self.masses), self.weights
        transported = -w * self.turns**power
        rows = np.concatenate([self.tails, self.heads, self.heads, self.tails, np.arange(n)])
        columns = np.concatenate([self.tails, self.heads, self.tails, self.heads, np.arange(n)])
        data = np.concatenate([w, w, transported, transported.conj(), np.zeros(n)])
        return sp.csr_array(sp.coo_array((data, (rows, columns)), shape=(n, n)))

    @classmethod
    def of_mesh(cls, mesh):
        """The connection on the triangles of a mesh; weights may be negative."""
        planes, threads = TangentPlanes(mesh), thread_count()
        faces, sides = mesh.faces.reshape(-1), mesh.side_edges.reshape(-1)
        weights, areas = _core.cotan_weights(mesh.vertices.reshape(-1), faces, sides, len(mesh.edges), FLATTEST, threads)
        masses = _core.vertex_areas(faces, areas, len(mesh.vertices), threads)
        return cls(planes, *_joined(planes, mesh.faces, sides, planes.angles.reshape(-1), mesh.edge_lengths[sides]), weights, masses)

    @classmethod
    def intrinsic(cls, mesh):
        """The connection on intrinsic Delaunay triangles of the same surface; no weight is negative."""
        planes = TangentPlanes(mesh)
        lengths, longest = mollified(mesh)
        limit = min(len(mesh.edges) ** 2 + 1000, MOST_FLIPS)
        corners, halves, lengths, sides, angles, flips, finished = _core.intrinsic_delaunay(
            mesh.faces.reshape(-1), mesh.side_edges.reshape(-1), lengths, planes.angles.reshape(-1), FLATTEST, limit)
        if not finished:
            warn(f"stopped after {flips:,} edge flips: some triangles are not Delaunay; negative weights count as 0",
                 MeshsolveWarning)
        areas = longest**2 * areas_of(lengths.reshape(-1, 3))
        weights = np.maximum(np.bincount(sides, halves, minlength=len(mesh.edges)), 0)
        masses = _core.vertex_areas(corners, areas, len(mesh.vertices), thread_count())
        return cls(planes, *_joined(planes, corners.reshape(-1, 3), sides, angles, longest * lengths), weights, masses)


@takes_arrays
def connection_laplacian(mesh: MeshLike, power: int = 1, intrinsic_delaunay: bool = False) -> Sparse:
    """Assemble the Laplacian of tangent vector fields, or of their powers (direction fields), as a Hermitian matrix.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With n vertices; manifold, with faces that are oriented alike. Boundaries are allowed.
    power : int
        1: vectors. k: fields of k directions at equal angles, each represented by the k-th power of one of them.
    intrinsic_delaunay : bool
        Flip edges intrinsically until no weight is negative. The frames at the vertices stay.

    Returns
    -------
    (n, n) csr_array of complex128
        Hermitian. A vector at vertex i is u[i], its components in the frame ``ms.apps.Geodesics(mesh).frames[i]``. Entry (j, i)
        is -w exp(i power a), where w is the cotangent weight of the edge and a the angle between both frames. The matrix is
        positive semidefinite if no weight is negative.

    Raises
    ------
    InvalidInputError
        Not a mesh. An edge has more than two faces, or two that are not oriented alike (names the edge). A vertex with several
        fans of faces. A ``power`` below 1 or above 100.

    Notes
    -----
    O(vertices + faces). Eigenvalues on the unit sphere: l (l + 1) - power^2 for l = power, power + 1, ...; each 2 l + 1 times.

    References
    ----------
    Knoeppel, Crane, Pinkall, Schroeder 2013, "Globally optimal direction fields", sections 4 and 6.1. Sharp, Soliman, Crane 2019,
    "The vector heat method", section 5.

    Examples
    --------
    >>> import meshsolve as ms
    >>> L = ms.operators.connection_laplacian(ms.datasets.icosphere(3))
    >>> bool(abs(L - L.conj().T).max() == 0)
    True
    """
    mesh, power = checked_mesh(mesh), as_integer(power, "power", 1, MOST_POWER)
    of = Connection.intrinsic if as_flag(intrinsic_delaunay, "intrinsic_delaunay") else Connection.of_mesh
    return of(mesh).laplacian(power)


def real_form(H):
    """Return the real symmetric (2 n, 2 n) csr_array of a Hermitian H: rows 2 i and 2 i + 1 have real and imaginary parts."""
    blocks = np.stack([H.data.real, -H.data.imag, H.data.imag, H.data.real], axis=1).reshape(-1, 2, 2)
    return sp.bsr_array((blocks, H.indices, H.indptr), shape=(2 * H.shape[0], 2 * H.shape[1])).tocsr()


def _joined(planes, corners, sides, angles, lengths):
    """(tails, heads, directions, lengths) of the edges, from the edge, the direction and the length of each side."""
    order = np.argsort(sides, kind="stable")
    is_first = np.diff(sides[order], prepend=-1) > 0
    first, second = order[is_first], np.full(np.count_nonzero(is_first), -1)
    second[np.cumsum(is_first)[~is_first] - 1] = order[~is_first]
    tails, heads = corners.reshape(-1)[first], np.roll(corners, -1, axis=1).reshape(-1)[first]
    # boundary edges are the last ones at their heads
    at_head = np.where(second >= 0, planes.scale[heads] * angles[second], planes.total[heads])
    return tails, heads, np.stack([planes.scale[tails] * angles[first], at_head]), lengths[first]


def _relative(vectors):
    """Scale vectors (k, 3) to a largest component of 1, so that no square underflows; zeros stay."""
    largest = np.abs(vectors).max(axis=1, initial=0, keepdims=True)
    return vectors / np.where(largest > 0, largest, 1)
