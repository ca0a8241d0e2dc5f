"""Gradients of the hat functions of a mesh, and their matrix.

A hat function is 1 at one vertex, 0 at the others, and linear on each triangle. Its gradient at corner c is the opposite side,
rotated by 90 degrees in the plane of the triangle and divided by twice the area. With the area bounded below as in the Laplacian,
the Dirichlet energy of these gradients equals the cotangent energy up to rounding.

Sides are rotated about the normal by a cross product. The normal of a very thin triangle is inaccurate. Its sides are rotated in an
orthonormal frame of its plane instead: the longest side, and the component of another side orthogonal to it. If that component is
rounding error too, any orthogonal direction serves.

Source: Botsch, Kobbelt, Pauly, Alliez, Levy 2010, "Polygon Mesh Processing", section 3.3.3. O(faces).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.mesh.elements import extents_around

FLAT = 1e-20            # height relative to the longest side below which its direction is rounding error
TINY = 1e-60            # longest side below which a triangle is measured in units of it, because powers underflow
THIN = 1e-4             # doubled area relative to the squared sides below which a triangle is rotated in a frame
SMALL = 1e-140          # doubled area below which a triangle is rotated in a frame, because its square may underflow
EQUILATERAL = np.array([[1, 0, 0], [-0.5, 0.75**0.5, 0], [-0.5, -(0.75**0.5), 0]])        # sides of a triangle at one point
BLOCK = 8192            # faces per batch, so that their sides stay in the cache


def of_hats(vertices, faces, area, flattest, integrated=False):
    """Compute the gradients (3, m, 3) of the hat functions: coordinate, face, corner in the order of :func:`corners_of`.

    Degenerate faces count as :mod:`meshsolve.mesh.elements` says, with ``flattest`` in place of its bound. With ``integrated`` gradients
    are multiplied by minus the area of the face.
    """
    m, corners, x = len(faces), corners_of(faces), np.ascontiguousarray(vertices.T)
    hats, is_thin, work = np.empty((3, m, 3)), np.empty(m, bool), np.empty((7, 3, min(BLOCK, m)))
    for begin in range(0, m, BLOCK):
        part = slice(begin, begin + BLOCK)
        batch = corners[:, part]
        is_thin[part] = _rotated_about_normals(x, batch, area[part], integrated, hats[:, part], work[:, :, :batch.shape[1]])
    thin = np.flatnonzero(is_thin)
    if len(thin):
        hats[:, thin] = _rotated_in_frames(vertices, corners[:, thin], area[thin], flattest, integrated)
    return hats


def corners_of(faces):
    """Sort the corners of each face in ascending order, (3, m) int32."""
    a, b, c = faces.T
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.stack([np.minimum(low, c), np.minimum(high, np.maximum(low, c)), np.maximum(high, c)])


def frame(along, other):
    """Return ``along`` (m, 3), of length 1 or 0, and the unit direction of the component of ``other`` orthogonal to it."""
    across = other - _dot(other, along)[:, None] * along
    across -= _dot(across, along)[:, None] * along          # second step: orthogonal despite cancellation in the first
    height = np.sqrt(_dot(across, across))
    flat = np.flatnonzero(height <= FLAT)
    t = along[flat]
    across[flat] = np.eye(3)[np.abs(t).argmin(axis=1)]
    across[flat] -= _dot(across[flat], t)[:, None] * t
    height[flat] = np.sqrt(_dot(across[flat], across[flat]))
    return along, across / height[:, None]


def matrix_of(faces, hats, n):
    """Make the (3 m, n) csr_array of gradients (3, m, 3), which it shares: m rows each for x, y and z, columns ascending."""
    columns = np.empty(hats.shape, np.int32)
    columns[:] = corners_of(faces).T
    ends = np.arange(0, hats.size + 1, 3, dtype=np.int32 if hats.size <= np.iinfo(np.int32).max else np.int64)
    return sp.csr_array((hats.reshape(-1), columns.reshape(-1), ends), shape=(3 * len(faces), n))


def _rotated_about_normals(x, corners, area, integrated, hats, work):
    """Write the gradients (3, b, 3) of a batch and return a mask (b,) of thin faces, whose gradients are undefined.

    ``x`` (3, n) has the coordinates. ``work`` (7, 3, b) is a workspace: allocating memory would take as long as the arithmetic.
    """
    corner, side, normal = work[:3], work[3:6], work[6]             # (coordinate, corner, face), the normal (coordinate, face)
    corners = corners.astype(np.intp)
    for k in range(3):
        x[k].take(corners, out=corner[k], mode="clip")              # "raise" would copy
    for c in range(3):
        np.subtract(corner[:, c - 1], corner[:, c - 2], out=side[:, c])             # side opposite corner c, cyclic orientation
    products, others = corner[:2]                                   # the corners are not needed any more
    np.multiply(side[:, 1], side[:, 1], out=products)
    np.multiply(side[:, 2], side[:, 2], out=others)
    products += others
    squares = products[0] + products[1] + products[2]               # two sides: from 1/2 to 2 times the longest side squared
    is_thin = ~(2 * area > np.maximum(THIN * squares, SMALL))
    for k in range(3):
        np.multiply(side[k - 2, 1], side[k - 1, 2], out=normal[k])
        np.multiply(side[k - 1, 1], side[k - 2, 2], out=products[k])
    normal -= products
    np.multiply(normal, normal, out=products)
    scale = np.sqrt(products[0] + products[1] + products[2])
    if not integrated:
        scale *= area
    scale[is_thin] = 1
    normal *= np.divide(-0.5 if integrated else 0.5, scale, out=scale)
    for k in range(3):
        np.multiply(normal[k - 2], side[k - 1], out=products)
        np.multiply(normal[k - 1], side[k - 2], out=others)
        for c in range(3):
            np.subtract(products[c], others[c], out=hats[k, :, c])
    return is_thin


def _rotated_in_frames(vertices, corners, area, flattest, integrated):
    """Compute the gradients of :func:`of_hats` for triangles of any shape; six times slower."""
    corner = [vertices.take(vertex, axis=0) for vertex in corners]
    side = np.stack([corner[c - 1] - corner[c - 2] for c in range(3)])
    unit = np.abs(side).max(axis=(0, 2), initial=0)
    point, small = np.flatnonzero(unit == 0), unit < TINY
    if len(point):
        unit[point] = flattest * extents_around(vertices, corners, point)
    unit = np.where(small, np.maximum(unit, np.finfo(float).tiny), 1)[:, None]
    side = side / unit
    side[:, point] = EQUILATERAL[:, None]
    if small.any():
        area = np.where(small, 0.5 * np.linalg.norm(np.cross(side[0], side[1]), axis=1), area)
    square = np.einsum("cfk,cfk->cf", side, side)
    longest, which = square.max(axis=0), square.argmax(axis=0)
    double = np.maximum(2 * area, flattest * longest)
    length = np.sqrt(longest)
    side *= (1 / length)[:, None]
    face = np.arange(len(area))
    along, across = frame(side[which, face], side[(which + 1) % 3, face])
    rotated = np.einsum("cfk,fk->cf", side, along)[:, :, None] * across - np.einsum("cfk,fk->cf", side, across)[:, :, None] * along
    hats = rotated * (-0.5 * length if integrated else length / double)[:, None]
    return (hats * unit if integrated else hats / unit).transpose(2, 1, 0)


def _dot(a, b):
    return np.einsum("fk,fk->f", a, b)
