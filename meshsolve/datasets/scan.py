"""A scan-like test mesh: an implicit surface of genus 2, triangulated by marching tetrahedra, with noise and a hole.

Marching tetrahedra (Doi & Koide 1991; Payne & Toga 1990) on Kuhn's six tetrahedra per cube. Every surface vertex lies on an edge
between two grid points, and this pair identifies it. Therefore faces share vertices exactly, and a closed surface is manifold.
"""

from __future__ import annotations

import itertools

import numpy as np
import scipy.sparse as sp

from meshsolve.datasets.common import check_size, generator
from meshsolve.mesh import Mesh
from meshsolve.options import as_flag, as_integer, as_number

BOX = np.array([[-1.3, -0.8, -0.45], [1.3, 0.8, 0.45]])     # bounding box of the surface _genus2


def scan_like(n: int = 100_000, seed: int = 0, noise: float = 0.2, hole: bool = True) -> Mesh:
    """Generate a mesh like that of a range scanner: a double torus (genus 2) with noise along its normals and a hole.

    Parameters
    ----------
    n : int
        Approximate number of vertices, at least 1000. The mesh has more: up to 20 % below 5000, 10 % at 10,000, 4 % at 100,000.
    seed : int
        Random seed of the noise.
    noise : float
        Standard deviation of the noise, in mean edge lengths.
    hole : bool
        Remove a disk of faces, like a region that the scanner missed.

    Returns
    -------
    Mesh
        One component, manifold, oriented outwards, with one boundary loop (none without the hole).

    Raises
    ------
    InvalidInputError
        ``n`` is not an integer of at least 1000; ``noise`` is not a number; ``seed`` is not an integer of at least 0.
    OutOfMemoryError
        The mesh would not fit into memory.

    Notes
    -----
    O(n^1.5), the number of grid cells.
    """
    n, hole = as_integer(n, "n", 1000), as_flag(hole, "hole")
    noise = as_number(noise, "noise")
    check_size(n, 6 * n + int(0.05 * n ** 1.5))
    coarse = len(_march(_genus2, BOX, 0.05)[0])
    x, faces = _march(_genus2, BOX, 0.05 * np.sqrt(coarse / n))
    mesh = _relaxed(Mesh(x, faces))
    normal = _gradient(mesh.vertices)
    normal /= np.linalg.norm(normal, axis=1)[:, None]
    edge = np.linalg.norm(np.diff(mesh.vertices[mesh.edges], axis=1), axis=2).mean()
    shift = noise * edge * generator(seed).standard_normal(len(normal))
    noisy = mesh.with_vertices(mesh.vertices + shift[:, None] * normal)
    return _with_hole(noisy, np.array([0.93, 0.2, 0.25]), 0.14) if hole else noisy


def _genus2(x, y, z):
    """Implicit function of a thickened figure eight with shallow dents, negative inside."""
    eight = x ** 2 * (1 - x ** 2) - y ** 2
    dents = np.sin(9 * x + 1) * np.sin(11 * y) * np.sin(8 * z + 2)
    return eight ** 2 + 0.5 * z ** 2 - 0.03 + 0.004 * dents


def _gradient(p, step=1e-5):
    """Central differences of _genus2 at points (n, 3)."""
    shifts = step * np.eye(3)
    return np.stack([_genus2(*(p + s).T) - _genus2(*(p - s).T) for s in shifts], axis=1) / (2 * step)


def _relaxed(mesh, rounds=10):
    """Make triangles more regular: move each vertex towards the mean of its neighbors, then back onto the surface."""
    n, (i, j) = len(mesh.vertices), mesh.edges.T
    half = sp.coo_array((np.ones(len(i)), (i, j)), shape=(n, n)).tocsr()
    adjacency = half + half.T
    degree = adjacency.sum(axis=1)[:, None]
    x = mesh.vertices
    for _ in range(rounds):
        x = _onto_surface(0.5 * x + 0.5 * (adjacency @ x) / degree)
    return mesh.with_vertices(x)


def _onto_surface(x):
    gradient = _gradient(x)
    return x - gradient * (_genus2(*x.T) / np.einsum("ij,ij->i", gradient, gradient))[:, None]


def _march(f, box, h):
    """Triangulate f = 0 on a grid of spacing h over ``box``: vertices (n, 3), faces (m, 3), oriented towards larger f.

    Each of Kuhn's tetrahedra of a cube follows a path from corner 000 to 111 along the three axes, in one of six orders.
    """
    shape = np.maximum(np.ceil((box[1] - box[0]) / h).astype(int) + 1, 2)
    axes = [np.linspace(lo, hi, k) for lo, hi, k in zip(*box, shape)]
    grid = f(*np.meshgrid(*axes, indexing="ij", sparse=True))
    stride = np.array([shape[1] * shape[2], shape[2], 1])
    value, inside = grid.ravel(), (grid < 0).ravel()
    corners = [tuple(slice(k, k - 1 or None) for k in corner) for corner in itertools.product((0, 1), repeat=3)]
    count = sum((grid[corner] < 0).astype(np.int8) for corner in corners)
    cubes = np.argwhere((count > 0) & (count < 8)) @ stride
    walks = [np.cumsum([0, *stride[list(order)]]) for order in itertools.permutations(range(3))]
    pairs = np.concatenate([_tetrahedra(cubes[:, None] + walk, inside) for walk in walks])      # (m, 3, 2) grid points
    ends, face = np.unique(pairs.reshape(-1, 2) @ np.array([value.size, 1]), return_inverse=True)
    a, b = np.divmod(ends, value.size)
    points = [np.stack([axis[k] for axis, k in zip(axes, np.unravel_index(p, shape))], axis=1) for p in (a, b)]
    t = np.clip(value[a] / (value[a] - value[b]), 0.05, 0.95)[:, None]
    x = (1 - t) * points[0] + t * points[1]
    corner = np.stack([axis[k] for axis, k in zip(axes, np.unravel_index(pairs[:, 0, 0], shape))], axis=1)
    return x, _outwards(x, face.reshape(-1, 3), corner)


def _tetrahedra(points, inside):
    """Triangles (m, 3, 2) of tetrahedra (k, 4); each vertex is a pair (inside, outside) of grid points.

    A tetrahedron has one triangle if one or three corners are inside, and two if two corners are inside.
    """
    order = np.argsort(~inside[points], axis=1, kind="stable")      # inside corners first
    p = np.take_along_axis(points, order, axis=1)
    number = inside[points].sum(axis=1)
    one, two, three = p[number == 1], p[number == 2], p[number == 3]
    cuts = [one[:, [[0, 1], [0, 2], [0, 3]]], three[:, [[0, 3], [1, 3], [2, 3]]],
            two[:, [[0, 2], [0, 3], [1, 3]]], two[:, [[0, 2], [1, 3], [1, 2]]]]
    return np.concatenate(cuts)


def _outwards(x, faces, inside):
    """Orient faces away from a grid point ``inside`` (m, 3) of their tetrahedron.

    The test is safe, because vertices keep a distance from the ends of their grid edges and so no face is flat.
    """
    a, b, c = (x[faces[:, k]] - inside for k in range(3))
    wrong = np.einsum("ij,ij->i", np.cross(a, b), c) < 0
    return np.where(wrong[:, None], faces[:, ::-1], faces)


def _with_hole(mesh, center, radius):
    """Remove the faces at vertices inside a ball, and at vertices where two gaps would meet."""
    gone = np.linalg.norm(mesh.vertices - center, axis=1) < radius
    faces = mesh.faces
    while gone.any():
        faces = faces[~gone[faces].any(axis=1)]
        gone = np.bincount(Mesh(mesh.vertices, faces).boundary_edges.ravel(), minlength=len(gone)) > 2
    used = np.unique(faces)
    number = np.zeros(len(mesh.vertices), np.int32)
    number[used] = np.arange(len(used))
    return Mesh(mesh.vertices[used], number[faces])
