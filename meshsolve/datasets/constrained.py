"""Saddle points of mesh processing: smoothing that keeps lengths or areas, and conformal maps with positions held."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.datasets.common import generator, sorted_rows
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, placed_mesh
from meshsolve.operators import cotan_laplacian, mass_matrix
from meshsolve.options import as_number, one_of
from meshsolve.types import Sparse


def constrained_smoothing(mesh: MeshLike, strength: float = 1.0, kind: str = "length", share: float = 0.1,
                          seed: int = 1) -> Sparse:
    """One Newton step of implicit smoothing under which some edges keep their lengths, or some faces their areas.

    Parameters
    ----------
    mesh : Mesh
    strength : float
        Time step over the squared mean edge length.
    kind : {"length", "area"}
    share : float
        Of the edges or faces that are held, chosen at random; no two faces share an edge or two edges a vertex, so that the
        constraints are independent.
    seed : int

    Returns
    -------
    (3 n + m, 3 n + m) csr_array
        ``[[I3 x (M + t L), J^T], [J, 0]]``: coordinates by axes, then the m multipliers; J holds the gradients of the lengths or
        areas. 3 n positive and m negative eigenvalues.

    Raises
    ------
    InvalidInputError
        Not a mesh, or one without edges or faces to hold; unknown ``kind``; ``strength`` or ``share`` not positive; a bad
        ``seed``.

    Notes
    -----
    Source: fairing with constraints as in Botsch et al. 2010, "Polygon mesh processing", section 4.3.
    """
    mesh, strength = placed_mesh(mesh), as_number(strength, "strength", above=True)
    share = as_number(share, "share", above=True)
    parts = mesh.edges if one_of(kind, "kind", ("length", "area")) == "length" else mesh.faces
    rng = generator(seed)
    chosen = _apart(parts[rng.permutation(len(parts))], len(mesh.vertices))[:max(1, int(share * len(parts)))]
    if not len(chosen):
        raise InvalidInputError(f"the mesh has no {'edge' if kind == 'length' else 'face'} to hold")
    ends = mesh.vertices[mesh.edges]
    t = strength * np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean() ** 2
    J = _gradients(mesh.vertices, chosen)
    H = sp.kron(sp.eye_array(3), mass_matrix(mesh) + t * cotan_laplacian(mesh))
    return sorted_rows(sp.block_array([[H, J.T], [J, None]]))


def conformal_map(mesh: MeshLike, share: float = 0.02, seed: int = 1) -> Sparse:
    """The least-squares conformal map of a mesh into the plane with some vertices held in place.

    Parameters
    ----------
    mesh : Mesh
    share : float
        Of the vertices that are held (at least two), chosen at random.
    seed : int

    Returns
    -------
    (2 n + 2 m, 2 n + 2 m) csr_array
        ``[[L2 - A, C^T], [C, 0]]``: u and v of the n vertices, then the multipliers of the m held ones. L2 is two cotan Laplacians,
        A twice the form of the signed area, so that the energy vanishes for conformal maps.

    Raises
    ------
    InvalidInputError
        Not a mesh, or fewer than two vertices; ``share`` not positive; a bad ``seed``.

    Notes
    -----
    Source: Levy et al. 2002, "Least squares conformal maps"; the form by boundary edges as in Mullen et al. 2008, "Spectral conformal
    parameterization", section 2.
    """
    mesh, share, rng = placed_mesh(mesh), as_number(share, "share", above=True), generator(seed)
    n = len(mesh.vertices)
    if n < 2:
        raise InvalidInputError("a map needs at least two vertices")
    held = np.sort(rng.permutation(n)[:min(n, max(2, int(share * n)))])
    C = sp.coo_array((np.ones(len(held)), (np.arange(len(held)), held)), shape=(len(held), n))
    energy = sp.block_diag([cotan_laplacian(mesh)] * 2) - _area_form(mesh)
    return sorted_rows(sp.block_array([[energy, sp.block_diag([C, C]).T], [sp.block_diag([C, C]), None]]))


def _apart(parts, n):
    """Rows of ``parts`` (edges or faces) that share no vertex with an earlier one that was taken."""
    first = np.full(n, len(parts))
    np.minimum.at(first, parts.reshape(-1), np.repeat(np.arange(len(parts)), parts.shape[1]))
    return parts[(first[parts] == np.arange(len(parts))[:, None]).all(axis=1)]


def _gradients(x, parts):
    """One row for each edge or face: the gradient of its length or area, columns x, y and z of all vertices."""
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
    """A with ``[u v] A [u v]^T`` = twice the signed area of the map (u, v): a sum over the sides, inner ones cancel."""
    n = len(mesh.vertices)
    sides = np.concatenate([mesh.faces[:, [0, 1]], mesh.faces[:, [1, 2]], mesh.faces[:, [2, 0]]])
    S = sp.csr_array(sp.coo_array((np.full(len(sides), 0.5), (sides[:, 0], sides[:, 1])), shape=(n, n)))
    K = sp.csr_array(S - S.T)
    K.eliminate_zeros()
    return sp.block_array([[None, K], [K.T, None]])
