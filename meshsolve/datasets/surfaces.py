"""Triangle meshes of the sphere and of the cube."""

from __future__ import annotations

import numpy as np

from meshsolve.mesh import Mesh
from meshsolve.options import as_integer


def icosphere(k: int) -> Mesh:
    """Generate the unit sphere: an icosahedron subdivided k times, with new vertices projected onto the sphere.

    Parameters
    ----------
    k : int
        0 to 11.

    Returns
    -------
    Mesh
        10 * 4^k + 2 vertices, 20 * 4^k faces, oriented outwards.

    Raises
    ------
    InvalidInputError
        ``k`` is not an integer in 0..11.

    Notes
    -----
    O(4^k) time.
    """
    k = as_integer(k, "k", 0, 11)
    golden = (1 + 5 ** 0.5) / 2
    x = np.array([(-1, golden, 0), (1, golden, 0), (-1, -golden, 0), (1, -golden, 0), (0, -1, golden), (0, 1, golden),
                  (0, -1, -golden), (0, 1, -golden), (golden, 0, -1), (golden, 0, 1), (-golden, 0, -1), (-golden, 0, 1)])
    t = np.array([(0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11), (1, 5, 9), (5, 11, 4), (11, 10, 2), (10, 7, 6),
                  (7, 1, 8), (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8), (3, 8, 9), (4, 9, 5), (2, 4, 11), (6, 2, 10), (8, 6, 7),
                  (9, 8, 1)])
    mesh = Mesh(x / np.linalg.norm(x, axis=1)[:, None], t)
    for _ in range(k):
        x, t = _subdivided(mesh)
        mesh = Mesh(x / np.linalg.norm(x, axis=1)[:, None], t)
    return mesh


def cube(k: int) -> Mesh:
    """Generate the surface of the cube [-1, 1]^3 with k squares along each edge, each split into two triangles.

    Parameters
    ----------
    k : int
        1 to 2000.

    Returns
    -------
    Mesh
        6 k^2 + 2 vertices, 12 k^2 faces, oriented outwards.

    Raises
    ------
    InvalidInputError
        ``k`` is not an integer in 1..2000.

    Notes
    -----
    O(k^2 log k) time.
    """
    k = as_integer(k, "k", 1, 2000)
    u, v = (side.ravel() for side in np.meshgrid(np.arange(k + 1), np.arange(k + 1), indexing="ij"))
    i = (np.arange(k)[:, None] * (k + 1) + np.arange(k)).ravel()
    square = np.concatenate([np.stack([i, i + k + 1, i + 1], axis=1), np.stack([i + 1, i + k + 1, i + k + 2], axis=1)])
    top = np.full_like(u, k)
    points = [np.stack(axes, axis=1) for axes in ((u, v, top), (top, u, v), (v, top, u))]       # cyclic: the same orientation
    points += [k - side for side in points]                                 # reflected in the center: the opposite one
    faces = [square + len(u) * side if side < 3 else square[:, ::-1] + len(u) * side for side in range(6)]
    x, numbers = np.unique(np.concatenate(points), axis=0, return_inverse=True)
    return Mesh(2 * x / k - 1, numbers.reshape(-1)[np.concatenate(faces)])


def _subdivided(mesh):
    """Subdivide: insert a vertex in the middle of each edge and split each face into four."""
    a, b, c = mesh.faces.T.astype(np.int64)
    ab, bc, ca = len(mesh.vertices) + mesh.side_edges.T.astype(np.int64)
    middles = mesh.vertices[mesh.edges].mean(axis=1)
    quarters = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    return np.concatenate([mesh.vertices, middles]), np.concatenate([np.stack(q, axis=1) for q in quarters])
