"""Laplacian and masses of point clouds: those of the intrinsic Delaunay triangulation of all stars.

Source: Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", section 5.7.
"""

from __future__ import annotations

import weakref
from typing import Any

from meshsolve.errors import InvalidInputError
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.operators.intrinsic import intrinsic_delaunay

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
        triangles = intrinsic_delaunay(cloud)
        _KEPT[cloud] = triangles.laplacian(), triangles.mass()
    return _KEPT[cloud]
