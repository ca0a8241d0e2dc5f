"""Laplacian, masses, gradient and divergence on polygons: those of triangles around virtual vertices, which are then eliminated.

Source: Bunge, Herholz, Kazhdan, Botsch 2020, "Polygon Laplacian made simple". O(corners), and the squares of the corners of a polygon for
the entries of the Laplacian.
"""

from __future__ import annotations

import scipy.sparse as sp

from meshsolve import operators


def laplacian(mesh):
    """The (n, n) csr_array P^T L P, exactly symmetric."""
    return _restricted(mesh, operators.cotan_laplacian(mesh.fan))


def lumped_mass(mesh):
    """(n,) row sums of P^T M P."""
    return mesh.prolongation.T @ operators.mass_matrix(mesh.fan).diagonal()


def consistent_mass(mesh):
    """The (n, n) csr_array P^T M P of the consistent masses of the triangles."""
    return _restricted(mesh, operators.mass_matrix(mesh.fan, "consistent"))


def gradient(mesh):
    """The (3 c, n) csr_array G P, with a vector for each triangle, that is for each side of a polygon."""
    return sp.csr_array(operators.gradient(mesh.fan) @ mesh.prolongation)


def divergence(mesh):
    """The (n, 3 c) csr_array P^T D."""
    return sp.csr_array(mesh.prolongation.T @ operators.divergence(mesh.fan))


def _restricted(mesh, A):
    B = sp.csr_array(mesh.prolongation.T @ A @ mesh.prolongation)
    B = sp.csr_array(0.5 * (B + B.T))
    B.sort_indices()
    return B
