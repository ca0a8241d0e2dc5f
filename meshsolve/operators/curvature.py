"""Discrete curvatures of a triangle mesh: angle defects, the cotangent Laplacian of the positions, and both principal curvatures.

Sources: Meyer, Desbrun, Schroeder, Barr 2003; do Carmo 1976 (Gauss-Bonnet). O(n + m).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve import operators
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.measures import corner_angles, vertex_normals
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
    areas : (n,) float64
        Mixed Voronoi areas of the cells.
    """

    gaussian: Array
    mean: Array
    principal: Array
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
    O(n + m). On irregular meshes pointwise values do not converge; medians and integrals do.

    Examples
    --------
    >>> import meshsolve as ms
    >>> c = ms.operators.curvatures(ms.datasets.icosphere(4))
    >>> round(float(c.gaussian.sum()), 9), c.principal.mean(axis=0).round(2).tolist()
    (12.566370614, [1.0, 1.0])
    """
    mesh = checked_mesh(mesh)
    n, x, faces = len(mesh.vertices), mesh.vertices, mesh.faces
    has_faces = np.bincount(faces.ravel(), minlength=n) > 0
    full = np.where(has_faces, 2 * np.pi, 0)
    full[mesh.boundary_vertices] = np.pi
    gaussian = full - np.bincount(faces.ravel(), corner_angles(x, faces).ravel(), minlength=n)
    mean = 0.5 * ((operators.cotan_laplacian(mesh) @ x) * vertex_normals(x, faces)).sum(axis=1)
    areas = operators.mass_matrix(mesh, kind="voronoi").diagonal()
    cells = np.where(areas > 0, areas, 1)
    H, K = np.where(areas > 0, mean / cells, 0), np.where(areas > 0, gaussian / cells, 0)
    root = np.sqrt(np.maximum(H * H - K, 0))
    return Curvatures(gaussian, mean, np.stack([H + root, H - root], axis=1), areas)
