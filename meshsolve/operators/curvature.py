"""Discrete curvatures of a triangle mesh: angle defects, the cotangent Laplacian of the positions, both principal curvatures and
their directions.

A surface bends across an edge by the angle between its faces, and not along it. The sum of these angles times the edges' lengths and
directions is a tensor at each vertex, whose larger eigenvalue belongs to the direction of the smaller curvature.

Sources: Meyer, Desbrun, Schroeder, Barr 2003; do Carmo 1976 (Gauss-Bonnet); Cohen-Steiner, Morvan 2003 (tensor). O(n + m).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from meshsolve import operators
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.checks import LEAST_WIDTH
from meshsolve.mesh.elements import unit
from meshsolve.mesh.measures import area_vectors, coinciding_vertices, corner_angles, face_normals, shared, vertex_normals
from meshsolve.operators.gradients import frame
from meshsolve.types import Array


@dataclass(frozen=True)
class Curvatures:
    """Curvatures of a mesh with n vertices.

    Attributes
    ----------
    gaussian : (n,) float64
        Gaussian curvature integrated over the cell of each vertex: 2 pi minus the angles around it, pi minus them on a boundary
        (geodesic curvature of the boundary). Their sum is 2 pi times the Euler characteristic of a manifold mesh.
    mean : (n,) float64
        Mean curvature integrated over the cell of each vertex, positive where an outward normal sees a convex surface; 1 / unit of
        length times area.
    principal : (n, 2) float64
        Both principal curvatures, the larger one first, in 1 / unit of length: H +- sqrt(H^2 - K), with a square root of 0 where
        H^2 < K; means over mixed Voronoi cells. 0 at vertices without faces.
    directions : (n, 2, 3) float64
        Orthonormal tangents along the larger and the smaller principal curvature, from the edges of each vertex and its neighbors.
        Their signs are arbitrary, and both are arbitrary where the curvatures are equal. 0 at vertices without normals.
    areas : (n,) float64
        Mixed Voronoi areas of the cells.
    """

    gaussian: Array
    mean: Array
    principal: Array
    directions: Array
    areas: Array


@takes_arrays
def curvatures(mesh: MeshLike) -> Curvatures:
    """Compute Gaussian, mean and principal curvatures at the vertices of a mesh.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With n vertices. Faces must be oriented alike for the sign of the mean curvature.

    Returns
    -------
    Curvatures

    Raises
    ------
    InvalidInputError
        Not a mesh, or a vertex that was changed to NaN, infinity or beyond 1e70.

    Notes
    -----
    O(n + m). On irregular meshes pointwise values do not converge; medians and integrals do. Vertices at one position that edges join
    count as a little apart, each inside the fan of its other faces, so that their angles are defined. They share the sums of their
    curvatures by areas.

    Examples
    --------
    >>> import meshsolve as ms
    >>> c = ms.operators.curvatures(ms.datasets.icosphere(4))
    >>> round(float(c.gaussian.sum()), 9), c.principal.mean(axis=0).round(2).tolist()
    (12.566370614, [1.0, 1.0])
    """
    mesh = checked_mesh(mesh)
    largest = np.abs(mesh.vertices).max()
    if not 0 < largest < LEAST_WIDTH:
        return _curvatures(mesh)
    unit_of_length = 2.0 ** np.frexp(largest)[1]                # squares of areas would underflow
    c = _curvatures(mesh.with_vertices(mesh.vertices / unit_of_length))
    with np.errstate(over="ignore"):
        return Curvatures(c.gaussian, unit_of_length * c.mean, c.principal / unit_of_length, c.directions, unit_of_length**2 * c.areas)


def _curvatures(mesh):
    """The curvatures of a checked mesh."""
    n, x, faces = len(mesh.vertices), mesh.vertices, mesh.faces
    has_faces = np.bincount(faces.ravel(), minlength=n) > 0
    full = np.where(has_faces, 2 * np.pi, 0)
    full[mesh.boundary_vertices] = np.pi
    angles = corner_angles(x, faces)
    gaussian = full - np.bincount(faces.ravel(), angles.ravel(), minlength=n)
    normals = vertex_normals(x, faces)
    mean = 0.5 * ((operators.cotan_laplacian(mesh) @ x) * normals).sum(axis=1)
    areas = operators.mass_matrix(mesh, kind="voronoi").diagonal()
    vertices, place = coinciding_vertices(x, faces, angles, area_vectors(x, faces))
    if len(vertices):
        _share_by_areas([gaussian, mean], areas[vertices], vertices, place)
    cells = np.where(areas > 0, areas, 1)
    H, K = np.where(areas > 0, mean / cells, 0), np.where(areas > 0, gaussian / cells, 0)
    root = np.sqrt(np.maximum(H * H - K, 0))
    return Curvatures(gaussian, mean, np.stack([H + root, H - root], axis=1), _directions(mesh, normals), areas)


def _share_by_areas(values, areas, vertices, place):
    """Distribute the sums of the arrays (n,) at each place over its vertices, by their areas."""
    total, size = (np.bincount(place, weights)[place] for weights in (areas, None))
    share = np.where(total > 0, areas / np.where(total > 0, total, 1), 1 / size)
    for v in shared(values, vertices, place):
        v[vertices] *= share


def _directions(mesh, normals):
    """(n, 2, 3) tangents along the larger and the smaller principal curvature."""
    n, ends = len(mesh.vertices), np.concatenate([mesh.edges, mesh.edges[:, ::-1], np.arange(len(normals)).repeat(2).reshape(-1, 2)])
    around = sp.coo_array((np.ones(len(ends)), ends.T), shape=(n, n)).tocsr()          # itself and its neighbors: a third of the error
    tensors = (around @ _bending(mesh)).reshape(n, 3, 3)
    has_normal = (normals != 0).any(axis=1)
    normals = np.where(has_normal[:, None], normals, [0, 0, 1.0])
    _, u = frame(normals, np.eye(3)[np.abs(normals).argmin(axis=1)])
    v = np.cross(normals, u)
    a, b, c = (np.einsum("nk,nkl,nl->n", p, tensors, q) for p, q in ((u, u), (u, v), (v, v)))
    half = 0.5 * np.arctan2(2 * b, a - c)[:, None]                  # the angle from u to the eigenvector of the larger eigenvalue
    cosine, sine = np.cos(half), np.sin(half)
    out = np.stack([cosine * v - sine * u, cosine * u + sine * v], axis=1)
    return np.where(has_normal[:, None, None], out, 0)


def _bending(mesh):
    """(n, 9) sums over the edges of two faces at each vertex: signed angle, positive where convex, times half the length and the
    projection on the edge."""
    side, n = mesh.side_edges.reshape(-1), len(mesh.vertices)
    order = np.argsort(side, kind="stable")
    first, second = order[np.bincount(side)[side[order]] == 2].reshape(-1, 2).T
    faces = face_normals(mesh.vertices, mesh.faces)
    corners = mesh.faces.reshape(-1)
    start, end = corners[first], corners[first - first % 3 + (first + 1) % 3]
    along = mesh.vertices[end] - mesh.vertices[start]
    direction, p, q = unit(along), faces[first // 3], faces[second // 3]
    angle = np.arctan2((np.cross(p, q) * direction).sum(axis=1), (p * q).sum(axis=1))
    parts = (0.5 * angle * (along * direction).sum(axis=1))[:, None, None] * direction[:, :, None] * direction[:, None]
    sums = [np.bincount(np.concatenate([start, end]), np.tile(part, 2), n) for part in parts.reshape(-1, 9).T]
    return np.stack(sums, axis=1)
