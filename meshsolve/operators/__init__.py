"""Laplacians, mass matrices, gradients and divergences of triangle meshes, as ``scipy.sparse.csr_array`` of float64.

Sign and scale: the Laplacian L is positive semidefinite. Smoothing solves (M + t L) x = M x, and M^-1 L approximates minus the
Laplace-Beltrami operator. Every edge has stored entries, also if its weight is zero. Meshes with the same faces therefore have the
same pattern, and a factor of one matrix can be refactored for the other.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.device import choose, on_cpu
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.elements import FLATTEST
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.mesh.polygon_mesh import PolygonMesh
from meshsolve.mesh.tets import TetMesh
from meshsolve.operators import gradients, point_clouds, polygons, tets
from meshsolve.operators.assembly import Assembly, NormalEquations
from meshsolve.operators.connection import connection_laplacian
from meshsolve.operators.cuda import DeviceAssembler
from meshsolve.operators.curvature import Curvatures, curvatures
from meshsolve.operators.graphs import graph_laplacian, normalized_laplacian, on_edges
from meshsolve.operators.intrinsic import MOST_FLIPS, intrinsic_delaunay, mollified
from meshsolve.options import as_flag, one_of, thread_count
from meshsolve.report import warn
from meshsolve.seal import Sealed
from meshsolve.sparse.matrix import narrow_ptr
from meshsolve.sparse.places import HOST, PLACES
from meshsolve.types import Device, Sparse

__all__ = ["Assembly", "Curvatures", "NormalEquations", "connection_laplacian", "cotan_laplacian", "curvatures", "divergence", "gradient",
           "graph_laplacian", "intrinsic_delaunay", "mass_matrix", "normalized_laplacian"]


def __dir__() -> list[str]:
    return __all__


class CotanAssembler(Sealed):
    """Cotangent Laplacians and lumped masses of meshes with the same faces. Only values are recomputed.

    Parameters
    ----------
    mesh : Mesh
    flattest : float
        Lower bound for twice the area of a triangle, relative to its longest side squared. Cotangents are at most 1 / flattest,
        and the matrix stays positive semidefinite up to rounding.
    threads : int, optional
        Default: ``MESHSOLVE_NUM_THREADS``, or all cores. The values do not depend on it.

    Attributes
    ----------
    indptr : (n + 1,) int64
    indices : (nnz,) int32
        Pattern of the Laplacian: edges and diagonal, rows ascending.

    Notes
    -----
    The cotangents of a triangle are scalar products of its sides over twice its area. A lower bound on the area scales all three
    equally, so their quadratic form keeps its sign. Clamping each cotangent would not.
    """

    def __init__(self, mesh, flattest=FLATTEST, threads=None):
        self.n, self.flattest, self.threads = len(mesh.vertices), flattest, thread_count(threads)
        self._faces, self._of_side, self._edges = mesh.faces.reshape(-1), mesh.side_edges.reshape(-1), len(mesh.edges)
        self._ends = mesh.edges.reshape(-1)
        self.indptr, self.indices, self._edge = _core.mesh_adjacency(self.n, self._ends, True, self.threads)
        self._indptr = narrow_ptr(self.indptr)

    def values(self, vertices):
        """Compute the values of the Laplacian (nnz,) and the lumped masses (n,) at ``vertices`` (n, 3) float64."""
        x = np.ascontiguousarray(vertices, np.float64).reshape(-1)
        weight, area = _core.cotan_weights(x, self._faces, self._of_side, self._edges, self.flattest, self.threads)
        data = _core.laplacian_values(self.indptr, self.indices, self._edge, weight, self.threads)
        return data, _core.vertex_areas(self._faces, area, self.n, self.threads)

    @functools.cached_property
    def diagonal(self):
        """(n,) positions of the diagonal entries in ``indices``."""
        return np.flatnonzero(self._edge < 0)

    @staticmethod
    def lumped_mass(mesh):
        """Compute the lumped masses (n,) of a mesh."""
        return _core.vertex_areas(mesh.faces.reshape(-1), mesh.face_areas, len(mesh.vertices), thread_count())

    def mean_edge(self, x):
        """Return the mean edge length, 0 without edges."""
        if len(self._ends) == 0:
            return 0.0
        return float(_core.edge_lengths(np.ascontiguousarray(x, np.float64).reshape(-1), self._ends, self.threads).mean())

    def matrix(self, data):
        """Return the csr_array with values ``data``. Its index arrays are shared by all matrices of this assembler."""
        return sp.csr_array((data, self.indices, self._indptr), shape=(self.n, self.n))


KINDS: dict[type, Any] = {TetMesh: tets, PolygonMesh: polygons, PointCloud: point_clouds}       # not triangles, and their operators
ASSEMBLERS: dict[str, Any] = {"cpu": CotanAssembler, "cuda": DeviceAssembler}


def assembler(mesh, flattest=FLATTEST, place="cpu", threads=None):
    """Make the :class:`CotanAssembler` of a mesh, or its GPU counterpart."""
    return ASSEMBLERS[place](mesh, flattest, threads)


@takes_arrays
def cotan_laplacian(mesh: MeshLike, intrinsic_delaunay: bool = False, device: Device = "cpu") -> Sparse:
    """Assemble the cotangent Laplacian: L[i, j] = -(cot a + cot b) / 2 for the angles a, b opposite the edge; rows sum to 0.

    Parameters
    ----------
    mesh : Mesh, TetMesh, PolygonMesh, PointCloud, trimesh.Trimesh or meshio.Mesh
        Boundaries, non-manifold edges and zero-area faces are allowed. On tetrahedra L is the matrix of the same energy. The weight of
        an edge is the sum of l cot(a) / 6 over its cells, with length l and dihedral angle a of the opposite edge. On polygons L is
        that of triangles around a virtual vertex, with entries for all pairs of corners. Of a PointCloud it is that of the intrinsic
        Delaunay triangulation of its stars, without negative weights.
    intrinsic_delaunay : bool
        Flip edges intrinsically until every edge is Delaunay. Then no interior edge has a negative weight, up to rounding. The pattern
        is the graph of the flipped edges. Needs a manifold mesh, orientable or not.
    device : {"cpu", "cuda", "auto"}
        On the GPU the result is a CuPy csr_matrix. Flips run on the CPU only.

    Returns
    -------
    (n, n) csr_array
        Symmetric, positive semidefinite up to rounding, finite. Stored entries for every edge, zeros included, and a full diagonal.

    Raises
    ------
    InvalidInputError
        Not a mesh, or ``intrinsic_delaunay`` with a non-manifold mesh.
    DeviceUnavailableError
        ``device="cuda"`` without a GPU, or with ``intrinsic_delaunay``.

    Warns
    -----
    MeshsolveWarning
        The limit on flips was reached (edges squared, at most 10**9). The Laplacian is that of the triangles reached.

    Notes
    -----
    O(vertices + faces), and the flips, whose number grows with the number of bad angles. Elements are exact, except degenerate ones, which
    ``mesh.degenerate_faces`` and ``mesh.degenerate_cells`` list. Nothing is warned about, as most scans have some. Twice the area of a
    triangle counts as at least 1e-8 times its longest side squared; a triangle at one point counts as equilateral. So copies of a vertex
    that an edge joins have the same values in a solution. The volume of a flat tetrahedron is bounded likewise if a corner is at an edge,
    side or corner of the others. A sliver, a flat quadrilateral with both diagonals, counts as a cell of its size: it locks no solution.

    References
    ----------
    Pinkall & Polthier 1993, "Computing discrete minimal surfaces and their conjugates", section 2.
    Bobenko & Springborn 2007, "A discrete Laplace-Beltrami operator for simplicial surfaces".
    Fisher, Springborn, Schroeder, Bobenko 2007, "An algorithm for the construction of intrinsic Delaunay triangulations with
    applications to digital geometry processing", sections 2 and 3 (flips).
    Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", section 4.5 (mollification).
    """
    intrinsic_delaunay = as_flag(intrinsic_delaunay, "intrinsic_delaunay")
    if type(mesh) in KINDS:
        return _laplacian_of_kind(mesh, intrinsic_delaunay, device)
    mesh = checked_mesh(mesh)
    if intrinsic_delaunay:
        on_cpu(device, "the flips run")
        return _intrinsic_laplacian(mesh)
    place = PLACES[choose(device, len(mesh.vertices))]
    with place.errors("the Laplacian"):
        rows = assembler(mesh, place=place.name)
        return rows.matrix(rows.values(place.bring(mesh.vertices))[0])


@takes_arrays
def mass_matrix(mesh: MeshLike, kind: Literal["lumped", "barycentric", "voronoi", "consistent"] = "lumped",
                device: Device = "cpu") -> Sparse:
    """Assemble the mass matrix: the area of each vertex. Its entries sum to the area of the mesh. O(vertices + faces).

    Parameters
    ----------
    mesh : Mesh, TetMesh, PolygonMesh, PointCloud, trimesh.Trimesh or meshio.Mesh
        On tetrahedra masses are volumes, a quarter of each cell for each of its corners.
    kind : {"lumped", "barycentric", "voronoi", "consistent"}
        ``"lumped"`` or ``"barycentric"``: diagonal, a third of each triangle to each of its corners. ``"voronoi"``: diagonal, mixed
        Voronoi areas. ``"consistent"``: linear finite elements, with the pattern of the Laplacian.
    device : {"cpu", "cuda", "auto"}
        On the GPU the result is a CuPy csr_matrix; ``"lumped"`` only.

    Returns
    -------
    (n, n) csr_array
        Unreferenced vertices have a stored 0.

    Raises
    ------
    InvalidInputError
        Not a mesh, or an unknown kind.
    DeviceUnavailableError
        ``device="cuda"`` without a GPU, or with another kind.

    References
    ----------
    Meyer, Desbrun, Schroeder, Barr 2003, "Discrete differential-geometry operators for triangulated 2-manifolds",
    section 3.3 (mixed areas).
    """
    one_of(kind, "kind", ("lumped", "barycentric", "voronoi", "consistent"))
    kind = "lumped" if kind == "barycentric" else kind
    if type(mesh) in KINDS:
        return _mass_of_kind(mesh, kind, device)
    mesh = checked_mesh(mesh)
    n = len(mesh.vertices)
    if kind == "lumped":
        place = PLACES[choose(device, n)]
        with place.errors("the masses"):
            return _diagonal(ASSEMBLERS[place.name].lumped_mass(mesh), place)
    on_cpu(device, f"the {kind} mass is made")
    if kind == "consistent":
        return _consistent_mass(mesh)
    return _diagonal(np.bincount(mesh.faces.reshape(-1), _mixed_areas(mesh).reshape(-1), minlength=n), HOST)


@takes_arrays
def gradient(mesh: MeshLike) -> Sparse:
    """Assemble the gradient of piecewise linear functions given at the vertices: one vector per face, in its plane.

    Parameters
    ----------
    mesh : Mesh, TetMesh, PolygonMesh, trimesh.Trimesh or meshio.Mesh
        With m faces and n vertices. A TetMesh has m cells, a PolygonMesh m sides, each with a vector. Boundaries, non-manifold
        edges and zero-area faces are allowed.

    Returns
    -------
    (3 m, n) csr_array of float64
        G, in units of 1 / length. The first m rows are the x components of the faces, followed by y and z, as in ``igl.grad``:
        ``(G @ u).reshape(3, -1).T`` is (m, 3). Three stored entries in each row, columns ascending.

    Raises
    ------
    InvalidInputError
        Not a mesh, or a coordinate that was changed in place to NaN, infinity or a value beyond 1e70.

    Notes
    -----
    O(faces). ``divergence(mesh) @ gradient(mesh)`` is ``-cotan_laplacian(mesh)``, up to rounding. Degenerate triangles and cells are
    those of the Laplacian: gradients on them are finite but too short.

    References
    ----------
    Botsch, Kobbelt, Pauly, Alliez, Levy 2010, "Polygon Mesh Processing", section 3.3.3.

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.Mesh([[0, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> (ms.operators.gradient(mesh) @ [1.0, 1.0, 4.0]).round(9).tolist()
    [0.0, 3.0, 0.0]
    """
    if type(mesh) in KINDS:
        return KINDS[type(mesh)].gradient(mesh)
    mesh = checked_mesh(mesh)
    hats = gradients.of_hats(mesh.vertices, mesh.faces, mesh.face_areas, FLATTEST)
    return gradients.matrix_of(mesh.faces, hats, len(mesh.vertices))


@takes_arrays
def divergence(mesh: MeshLike) -> Sparse:
    """Assemble the divergence of fields with one vector per face, integrated over the dual cell of each vertex.

    Parameters
    ----------
    mesh : Mesh, TetMesh, PolygonMesh, trimesh.Trimesh or meshio.Mesh
        With m faces and n vertices. A TetMesh has m cells, a PolygonMesh m sides, each with a vector. Boundaries, non-manifold
        edges and zero-area faces are allowed.

    Returns
    -------
    (n, 3 m) csr_array of float64
        D = -G^T times the area of each face, where G is :func:`gradient`. A field is (3 m,): x of all faces, then y, then z. D @
        field has units of length times the field's units; divide by the masses for pointwise divergence. It sums to 0 over each
        component, because the field counts as 0 beyond the boundary.

    Raises
    ------
    InvalidInputError
        Not a mesh, or a coordinate that was changed in place to NaN, infinity or a value beyond 1e70.

    Notes
    -----
    O(faces). D @ G is ``-cotan_laplacian(mesh)``, up to rounding, also with triangles of zero area. The function u whose
    gradient is closest to a field in the least-squares sense solves Poisson's equation L u = -D @ field:
    ``ms.cholesky(L, pin=True).solve(-D @ field)``.

    References
    ----------
    Crane, Weischedel, Wardetzky 2013, "Geodesics in heat", section 3.2.1. Botsch et al. 2010, "Polygon Mesh Processing", section
    3.3.3.

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.Mesh([[0, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> (ms.operators.divergence(mesh) @ [1.0, 0.0, 0.0]).round(9).tolist()
    [0.5, -0.5, 0.0]
    """
    if type(mesh) in KINDS:
        return KINDS[type(mesh)].divergence(mesh)
    mesh = checked_mesh(mesh)
    hats = gradients.of_hats(mesh.vertices, mesh.faces, mesh.face_areas, FLATTEST, integrated=True)
    return gradients.matrix_of(mesh.faces, hats, len(mesh.vertices)).T.tocsr()


def _laplacian_of_kind(mesh, intrinsic_delaunay, device):
    """The Laplacian of a mesh that has no triangles."""
    if intrinsic_delaunay:
        raise InvalidInputError(f"intrinsic_delaunay=True needs triangles, got a {type(mesh).__name__}")
    on_cpu(device, f"the Laplacian of a {type(mesh).__name__} is made")
    return KINDS[type(mesh)].laplacian(mesh)


def _mass_of_kind(mesh, kind, device):
    """The mass matrix of tetrahedra or polygons."""
    on_cpu(device, f"the masses of a {type(mesh).__name__} are made")
    if kind == "voronoi":
        raise InvalidInputError(f'kind="voronoi" needs triangles, got a {type(mesh).__name__}: leave out kind')
    made = KINDS[type(mesh)]
    return made.consistent_mass(mesh) if kind == "consistent" else _diagonal(made.lumped_mass(mesh), HOST)


def _diagonal(values, place):
    """Make a diagonal sparse matrix of values in the memory of ``place``."""
    n, xp = len(values), place.xp
    return place.csr(values, xp.arange(n, dtype=np.int32), xp.arange(n + 1, dtype=np.int32), (n, n))


def _consistent_mass(mesh):
    """Consistent mass matrix with element matrices area / 12 * (ones + identity)."""
    n, area = len(mesh.vertices), mesh.face_areas
    indptr, indices, edge = _core.mesh_adjacency(n, mesh.edges.reshape(-1), True, thread_count())
    weight = np.bincount(mesh.side_edges.reshape(-1), np.repeat(area / 12, 3), minlength=len(mesh.edges))
    data = np.empty(len(indices))
    data[edge >= 0] = weight[edge[edge >= 0]]
    data[edge < 0] = _core.vertex_areas(mesh.faces.reshape(-1), area, n, thread_count()) / 2
    return sp.csr_array((data, indices, narrow_ptr(indptr)), shape=(n, n))


def _mixed_areas(mesh):
    """Return the area (m, 3) of each corner: Voronoi areas in acute triangles; a half and two quarters in obtuse ones.

    Arrays are processed corner by corner, because numpy is five times slower along rows of three.
    """
    area, corner = mesh.face_areas, [mesh.vertices.take(vertex, axis=0) for vertex in mesh.faces.T]
    side = [corner[(c + 1) % 3] - corner[c] for c in range(3)]
    square = [np.einsum("fk,fk->f", s, s) for s in side]
    dot = [-np.einsum("fk,fk->f", side[c], side[c - 1]) for c in range(3)]             # sign of the cosine at each corner
    flat = 2 * area <= FLATTEST * np.maximum.reduce(square)             # angles are rounding errors: thirds of the area
    double = np.where(flat, 1, 2 * area)
    half = [square[c] * (dot[c - 1] / double) / 8 for c in range(3)]    # share of side c for each of its ends
    acute = [half[0] + half[2], half[1] + half[0]]
    acute.append(area - acute[0] - acute[1])
    is_obtuse = np.minimum.reduce(dot) < 0
    share = [np.where(is_obtuse, np.where(dot[c] < 0, 0.5, 0.25) * area, acute[c]) for c in range(3)]
    return np.stack([np.where(flat, area / 3, part) for part in share], axis=1)


def _intrinsic_laplacian(mesh):
    """Mollify edge lengths, flip edges, and assemble the Laplacian of the resulting triangles. Loop edges have no weight."""
    if not mesh.is_manifold:
        raise InvalidInputError("intrinsic_delaunay=True needs a manifold mesh: an edge has more than two faces, or the faces of "
                                "a vertex do not form one fan. Use ms.operators.intrinsic_delaunay(mesh).laplacian() instead")
    if len(mesh.faces) == 0:
        return cotan_laplacian(mesh)
    n, edges = len(mesh.vertices), len(mesh.edges)
    lengths, _ = mollified(mesh)
    corners, half_cotangents, _, _, _, flips, finished = _core.intrinsic_delaunay(
        mesh.faces.reshape(-1), mesh.side_edges.reshape(-1), lengths, np.empty(0), FLATTEST, min(edges ** 2 + 1000, MOST_FLIPS))
    if not finished:
        warn(f"stopped after {flips:,} edge flips: some edges are not Delaunay, and weights may be negative", MeshsolveWarning)
    ends, of_side = _core.mesh_edges(n, corners, thread_count())
    pairs = ends.reshape(-1, 2)
    proper = pairs[:, 0] != pairs[:, 1]
    weight = np.bincount(of_side, half_cotangents, minlength=len(pairs))[proper]
    indptr, indices, data = on_edges(n, pairs[proper].reshape(-1), weight)
    return sp.csr_array((data, indices, narrow_ptr(indptr)), shape=(n, n))
