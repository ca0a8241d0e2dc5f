"""Laplacian and masses of point clouds: those of the intrinsic Delaunay triangulation of all stars.

Copies of a point have shares of its mass, and are joined by edges of large weights.

Source: Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", section 5.7.
"""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.operators.intrinsic import intrinsic_delaunay

STIFFNESS = 100.0       # weight of the edges between copies, relative to the diagonal entry of their position: above ordinary eigenvalues
STIFF = 1e4             # the same for edges of many copies to the first of them
FEW = 8                 # copies up to which all pairs are joined

_KEPT: weakref.WeakKeyDictionary[PointCloud, Any] = weakref.WeakKeyDictionary()        # matrices of one triangulation


def laplacian(cloud):
    """The (n, n) csr_array of the cotangent Laplacian, without negative weights."""
    return _matrices(cloud)[0].copy()


def lumped_mass(cloud):
    """(n,) area of each point."""
    return _matrices(cloud)[1].diagonal()


def consistent_mass(cloud):
    raise InvalidInputError('kind="consistent" needs a mesh; masses of a PointCloud are "lumped"')


def gradient(cloud):
    raise InvalidInputError("the triangles of a PointCloud have no position in space; their gradient has two components in the "
                            "plane of each: ms.operators.intrinsic_delaunay(cloud).gradient()")


def divergence(cloud):
    raise InvalidInputError("the triangles of a PointCloud have no position in space; fields on them have two components in the "
                            "plane of each: ms.operators.intrinsic_delaunay(cloud).divergence()")


def _matrices(cloud):
    """(Laplacian, mass matrix)."""
    if cloud not in _KEPT:
        triangles = intrinsic_delaunay(cloud.distinct)
        L, M = triangles.laplacian(), triangles.mass()
        _KEPT[cloud] = _on_copies(cloud, L, M) if cloud.has_copies else (L, M)
    return _KEPT[cloud]


def _on_copies(cloud, L, M):
    """(Laplacian, mass matrix) of all points, from those of the positions.

    The mean of a few copies is the value of their position, and squared differences of any two are added. So these have large
    eigenvalues, and no others change. Of many copies the first has the value of the position, and edges of larger weights to the others:
    those would have a square of entries. Small eigenvalues then change by about 1e-6 of themselves.
    """
    n, position = len(cloud), cloud.position
    count, first = np.bincount(position), cloud.firsts[position] == np.arange(n)
    many = count > FEW
    value = np.where(many[position], first, 1 / count[position])
    mean = sp.csr_array((value, (position, np.arange(n))), shape=(len(count), n))
    mean.eliminate_zeros()
    weight = np.where(many, 0, STIFFNESS * L.diagonal() / count**2)
    few = np.flatnonzero(~many[position])
    same = sp.csr_array((np.ones(len(few)), (position[few], few)), shape=(len(count), n))
    joined = sp.diags_array((weight * count)[position]) - same.T @ sp.diags_array(weight) @ same
    others = np.flatnonzero(many[position] & ~first)
    edges = sp.coo_array(((STIFF * L.diagonal() / count)[position[others]], (others, cloud.firsts[position[others]])), shape=(n, n))
    edges = sp.csr_array(edges + edges.T)
    A = sp.csr_array(mean.T @ L @ mean + joined + sp.diags_array(edges.sum(axis=1)) - edges)
    A = sp.csr_array(0.5 * (A + A.T))
    A.sort_indices()
    return A, sp.csr_array(sp.diags_array((M.diagonal() / count)[position]))
