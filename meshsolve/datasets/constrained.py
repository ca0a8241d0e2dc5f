"""Saddle-point systems of mesh processing: smoothing under constraints, conformal maps with fixed vertices."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.datasets.common import generator, sorted_rows
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, checked_mesh
from meshsolve.operators import cotan_laplacian, mass_matrix
from meshsolve.options import as_number, one_of
from meshsolve.types import Sparse


def constrained_smoothing(mesh: MeshLike, strength: float = 1.0, kind: str = "length", share: float = 0.1,
                          seed: int = 1) -> Sparse:
    """Generate one Newton step of implicit smoothing that preserves the lengths of some edges, or the areas of some faces.

    Parameters
    ----------
    mesh : Mesh
    strength : float
        Time step divided by the squared mean edge length.
    kind : {"length", "area"}
        Preserved quantity.
    share : float
        Fraction of edges or faces with a constraint. They are chosen at random and share no vertices, so the constraints are
        independent.
    seed : int

    Returns
    -------
    (3 n + m, 3 n + m) csr_array
        ``[[I3 x (M + t L), J^T], [J, 0]]``: x, y and z of all vertices, then m multipliers. J has the gradients of the lengths or
        areas. 3 n positive and m negative eigenvalues.

    Raises
    ------
    InvalidInputError
        Not a mesh, or no edges or faces; unknown ``kind``; ``strength`` or ``share`` not positive; invalid ``seed``.

    Notes
    -----
    Source: fairing with constraints as in Botsch et al. 2010, "Polygon mesh processing", section 4.3.
    """
    mesh, strength = checked_mesh(mesh), as_number(strength, "strength", above=True)
    share = as_number(share, "share", above=True)
    parts = mesh.edges if one_of(kind, "kind", ("length", "area")) == "length" else mesh.faces
    rng = generator(seed)
    chosen = _independent(parts[rng.permutation(len(parts))], len(mesh.vertices))[:max(1, int(share * len(parts)))]
    if not len(chosen):
        raise InvalidInputError(f"the mesh has no {'edges' if kind == 'length' else 'faces'} to constrain")
    ends = mesh.vertices[mesh.edges]
    t = strength * np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean() ** 2
    J = _gradients(mesh.vertices, chosen)
    H = sp.kron(sp.eye_array(3), mass_matrix(mesh) + t * cotan_laplacian(mesh))
    return sorted_rows(sp.block_array([[H, J.T], [J, None]]))


def conformal_map(mesh: MeshLike, share: float = 0.02, seed: int = 1) -> Sparse:
    """Generate the system of the least-squares conformal map of a mesh into the plane with some fixed vertices.

    Parameters
    ----------
    mesh : Mesh
    share : float
        Fraction of vertices that are fixed (at least two), chosen at random.
    seed : int

    Returns
    -------
    (2 n + 2 m, 2 n + 2 m) csr_array
        ``[[L2 - A, C^T], [C, 0]]``: u and v of the n vertices, then the multipliers of the m fixed ones. L2 has two cotangent
        Laplacians; A is twice the quadratic form of the signed area. The energy is 0 for conformal maps.

    Raises
    ------
    InvalidInputError
        Not a mesh, or fewer than two vertices; ``share`` not positive; invalid ``seed``.

    Notes
    -----
    Source: Levy et al. 2002, "Least squares conformal maps"; the area form by boundary edges as in Mullen et al. 2008, "Spectral
    conformal parameterization", section 2.
    """
    mesh, share, rng = checked_mesh(mesh), as_number(share, "share", above=True), generator(seed)
    n = len(mesh.vertices)
    if n < 2:
        raise InvalidInputError(f"a conformal map needs at least two vertices, the mesh has {n}")
    fixed = np.sort(rng.permutation(n)[:min(n, max(2, int(share * n)))])
    C = sp.coo_array((np.ones(len(fixed)), (np.arange(len(fixed)), fixed)), shape=(len(fixed), n))
    energy = sp.block_diag([cotan_laplacian(mesh)] * 2) - _area_form(mesh)
    return sorted_rows(sp.block_array([[energy, sp.block_diag([C, C]).T], [sp.block_diag([C, C]), None]]))


def _independent(parts, n):
    """Select rows of ``parts`` (edges or faces) that share no vertex with an earlier row."""
    first = np.full(n, len(parts))
    np.minimum.at(first, parts.reshape(-1), np.repeat(np.arange(len(parts)), parts.shape[1]))
    return parts[(first[parts] == np.arange(len(parts))[:, None]).all(axis=1)]


def _gradients(x, parts):
    """Gradients of the lengths of edges or areas of faces: one row each, columns x, then y, then z of all vertices."""
    if parts.shape[1] == 2:
        d = x[parts[:, 0]] - x[parts[:, 1]]
        d /= np.maximum(np.linalg.norm(d, axis=1), 1e-300)[:, None]
        by_corner = np.stack([d, -d], axis=1)
    else:
        corner = x[parts]
        normal = np.cross(corner[:, 1] - corner[:, 0], corner[:, 2] - corner[:, 0])
        normal /= np.maximum(np.linalg.norm(normal, axis=1), 1e-300)[:, None]
        by_corner = np.stack([0.5 * np.cross(normal, corner[:, k - 1] - corner[:, k - 2]) for k in range(3)], axis=1)
    m, n = len(parts), len(x)
    row = np.broadcast_to(np.arange(m)[:, None, None], by_corner.shape)
    column = parts[:, :, None] + n * np.arange(3)
    return sp.coo_array((by_corner.reshape(-1), (row.reshape(-1), column.reshape(-1))), shape=(m, 3 * n))


def _area_form(mesh):
    """Matrix A with ``[u v] A [u v]^T`` = twice the signed area of the map (u, v). Terms of interior edges cancel."""
    n = len(mesh.vertices)
    sides = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    S = sp.csr_array(sp.coo_array((np.full(len(sides), 0.5), (sides[:, 0], sides[:, 1])), shape=(n, n)))
    K = sp.csr_array(S - S.T)
    K.eliminate_zeros()
    return sp.block_array([[None, K], [K.T, None]])
