"""Laplacian, masses, gradient and divergence of linear functions on tetrahedra.

The gradient of the hat function of a corner is the vector area of the opposite side, which points to the corner, over three times the
volume. The energy of each cell is the sum of squares of combinations of vector areas, over nine times the volume. So the Laplacian is
positive semidefinite for every mesh, although edges at obtuse dihedral angles have negative weights. Degenerate cells count as
:mod:`meshsolve.mesh.flat_cells` says.

Source: Crane 2019, "The n-dimensional cotangent formula". O(cells), and a sort of the edges.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.mesh.elements import FLATTEST
from meshsolve.mesh.flat_cells import shapes
from meshsolve.mesh.tets import ENDS
from meshsolve.operators.graphs import on_edges
from meshsolve.sparse.matrix import narrow_ptr


def laplacian(mesh, flattest=FLATTEST):
    """The (n, n) csr_array of the energy of gradients; entries of edges with weight 0 are stored."""
    n, (areas, volumes, _, unit) = len(mesh.vertices), _shapes(mesh, flattest)
    i, j = ENDS.T
    weights = -unit * (np.einsum("mek,mek->me", areas[:, i], areas[:, j]) / (9 * volumes[:, None]))
    indptr, indices, data = on_edges(n, mesh.edges.reshape(-1), np.bincount(mesh.cell_edges.ravel(), weights.ravel(), len(mesh.edges)))
    return sp.csr_array((data, indices, narrow_ptr(indptr)), shape=(n, n))


def lumped_mass(mesh, flattest=0.0):
    """(n,) a quarter of the volume of each cell at each of its corners, and at least ``flattest`` / 24 of its longest edge cubed."""
    volumes = mesh.volumes if flattest == 0 else np.maximum(mesh.volumes, flattest / 6 * _longest(mesh)**3)
    return np.bincount(mesh.cells.ravel(), np.repeat(volumes / 4, 4), len(mesh.vertices))


def consistent_mass(mesh):
    """The (n, n) csr_array of element matrices volume / 20 * (ones + identity), with the pattern of the Laplacian."""
    n, (i, j) = len(mesh.vertices), mesh.edges.T
    off = np.bincount(mesh.cell_edges.ravel(), np.repeat(mesh.volumes / 20, 6), len(mesh.edges))
    k = np.arange(n)
    entries = np.concatenate([off, off, 0.4 * lumped_mass(mesh)]), (np.concatenate([i, j, k]), np.concatenate([j, i, k]))
    return sp.csr_array(sp.coo_array(entries, shape=(n, n)))


def gradient(mesh):
    """The (3 m, n) csr_array of gradients: x of all cells, then y, then z."""
    areas, volumes, _, unit = _shapes(mesh)
    return _matrix(mesh, areas / (3 * volumes[:, None, None]) / unit)


def divergence(mesh):
    """The (n, 3 m) csr_array -G^T V of integrated divergences."""
    areas, _, _, unit = _shapes(mesh)
    return _matrix(mesh, -areas / 3 * unit**2).T.tocsr()


def _shapes(mesh, flattest=FLATTEST):
    return shapes(mesh.vertices, mesh.cells, _longest(mesh), mesh.volumes, flattest)


def _longest(mesh):
    """(m,) longest edge of each cell."""
    return mesh.edge_lengths[mesh.cell_edges].max(axis=1)


def _matrix(mesh, hats):
    """The (3 m, n) csr_array of vectors (m, 4, 3) at the corners."""
    m, columns = len(mesh.cells), np.broadcast_to(mesh.cells, (3, *mesh.cells.shape))
    G = sp.csr_array((np.moveaxis(hats, 2, 0).ravel(), columns.ravel(), np.arange(0, 12 * m + 1, 4)), shape=(3 * m, len(mesh.vertices)))
    G.sort_indices()
    return G
