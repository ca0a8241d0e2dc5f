"""Laplacian, masses, gradient and divergence of linear functions on tetrahedra.

The gradient of the hat function of a corner is the vector area of the opposite side, which points to the corner, over three times the
volume. The energy of each cell is the sum of squares of combinations of vector areas, over nine times the volume. So the Laplacian is
positive semidefinite for every mesh, although edges at obtuse dihedral angles have negative weights.

Source: Crane 2019, "The n-dimensional cotangent formula". O(cells), and a sort of the edges.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.mesh.tets import ENDS, SIDES
from meshsolve.operators.graphs import on_edges
from meshsolve.sparse.matrix import narrow_ptr

FLATTEST = 1e-8         # smallest volume of a cell, times 6 and relative to its longest edge cubed


def laplacian(mesh):
    """The (n, n) csr_array of the energy of gradients; entries of edges with weight 0 are stored."""
    n, areas = len(mesh.vertices), _areas(mesh)
    i, j = ENDS.T
    weights = -_over(np.einsum("mek,mek->me", areas[:, i], areas[:, j]), 9 * _bounded_volumes(mesh)[:, None])
    indptr, indices, data = on_edges(n, mesh.edges.reshape(-1), np.bincount(mesh.cell_edges.ravel(), weights.ravel(), len(mesh.edges)))
    return sp.csr_array((data, indices, narrow_ptr(indptr)), shape=(n, n))


def lumped_mass(mesh):
    """(n,) a quarter of the volume of each cell at each of its corners."""
    return np.bincount(mesh.cells.ravel(), np.repeat(mesh.volumes / 4, 4), len(mesh.vertices))


def consistent_mass(mesh):
    """The (n, n) csr_array of element matrices volume / 20 * (ones + identity), with the pattern of the Laplacian."""
    n, (i, j) = len(mesh.vertices), mesh.edges.T
    off = np.bincount(mesh.cell_edges.ravel(), np.repeat(mesh.volumes / 20, 6), len(mesh.edges))
    k = np.arange(n)
    entries = np.concatenate([off, off, 0.4 * lumped_mass(mesh)]), (np.concatenate([i, j, k]), np.concatenate([j, i, k]))
    return sp.csr_array(sp.coo_array(entries, shape=(n, n)))


def gradient(mesh):
    """The (3 m, n) csr_array of gradients: x of all cells, then y, then z."""
    return _matrix(mesh, _over(_areas(mesh), 3 * _bounded_volumes(mesh)[:, None, None]))


def divergence(mesh):
    """The (n, 3 m) csr_array -G^T V of integrated divergences."""
    return _matrix(mesh, np.where((_bounded_volumes(mesh) > 0)[:, None, None], -_areas(mesh) / 3, 0)).T.tocsr()


def _areas(mesh):
    """(m, 4, 3) vector areas of the sides, each towards the opposite corner."""
    a, b, c = np.moveaxis(mesh.vertices[mesh.cells[:, SIDES]], 2, 0)
    return -0.5 * np.cross(b - a, c - a)


def _bounded_volumes(mesh):
    """(m,) volumes; those of slivers count as more, which bounds their gradients. 0 for cells at one point."""
    longest = mesh.edge_lengths[mesh.cell_edges].max(axis=1)
    return np.maximum(mesh.volumes, FLATTEST / 6 * longest**3)


def _over(values, divisor):
    """values / divisor, 0 where the divisor is 0."""
    return np.divide(values, divisor, out=np.zeros(np.broadcast_shapes(values.shape, divisor.shape)), where=divisor > 0)


def _matrix(mesh, hats):
    """The (3 m, n) csr_array of vectors (m, 4, 3) at the corners."""
    m, columns = len(mesh.cells), np.broadcast_to(mesh.cells, (3, *mesh.cells.shape))
    G = sp.csr_array((np.moveaxis(hats, 2, 0).ravel(), columns.ravel(), np.arange(0, 12 * m + 1, 4)), shape=(3 * m, len(mesh.vertices)))
    G.sort_indices()
    return G
