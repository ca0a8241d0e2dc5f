"""Gradients of the hat functions of a mesh, which are 1 at one vertex and linear on each triangle, and the matrix of them.

The gradient of corner c is the side opposite to it, turned by a right angle in the plane of the triangle, over the doubled area.
Scalar products of the gradients are then those of the sides, so that their energy is that of the cotangents, to rounding, where
the area is what the Laplacian takes it for. The sides are turned about the normal. In a triangle that is flat the plane is lost,
but not the turn: there it is made in a frame of the longest side and of what is left of another beside it, or of anything at
right angles.

Source: Botsch, Kobbelt, Pauly, Alliez, Levy 2010, "Polygon Mesh Processing", section 3.3.3. O(faces).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

FLAT = 1e-20            # a height below this share of the longest side is rounding, and has no direction
LEAST = 1e-300          # doubled areas below this are none: one over them is no number
THIN = 1e-4             # triangles whose doubled area is below this share of their sides squared are turned in a frame
SMALL = 1e-140          # and those with less doubled area than this: its square may underflow
BLOCK = 8192            # faces that are worked on at a time: their sides stay in the cache


def of_hats(vertices, faces, area, flattest, integrated=False):
    """Gradients (3, m, 3) of the hat functions of the corners: by coordinate, by face, by corner as :func:`corners_of` has them.

    A face whose doubled area is below ``flattest`` times its longest side squared counts as that flat; the gradients of one
    without extent are 0. ``integrated``: times minus the area that the face counts with.
    """
    m, corners, x = len(faces), corners_of(faces), np.ascontiguousarray(vertices.T)
    hats, is_thin, room = np.empty((3, m, 3)), np.empty(m, bool), np.empty((7, 3, min(BLOCK, m)))
    for begin in range(0, m, BLOCK):
        part = slice(begin, begin + BLOCK)
        there = corners[:, part]
        is_thin[part] = _turned_about_normals(x, there, area[part], integrated, hats[:, part], room[:, :, :there.shape[1]])
    thin = np.flatnonzero(is_thin)
    if len(thin):
        hats[:, thin] = _turned_in_frames(vertices, corners[:, thin], area[thin], flattest, integrated)
    return hats


def corners_of(faces):
    """The corners of each face in ascending order, (3, m) int32."""
    a, b, c = faces.T
    low, high = np.minimum(a, b), np.maximum(a, b)
    return np.stack([np.minimum(low, c), np.minimum(high, np.maximum(low, c)), np.maximum(high, c)])


def _turned_about_normals(x, corners, area, integrated, hats, room):
    """Write the gradients (3, b, 3) of faces that are not thin; returns which are, (b,), and have anything there.

    ``x`` (3, n) coordinates. ``room`` (7, 3, b) holds what is computed on the way: new memory takes as long as the arithmetic.
    """
    corner, side, normal = room[:3], room[3:6], room[6]             # by coordinate, by corner; (3, b)
    corners = corners.astype(np.intp)
    for k in range(3):
        x[k].take(corners, out=corner[k], mode="clip")              # "raise" would copy
    for c in range(3):
        np.subtract(corner[:, c - 1], corner[:, c - 2], out=side[:, c])             # opposite to corner c, head to tail
    products, others = corner[:2]                                   # their place is free now
    np.multiply(side[:, 1], side[:, 1], out=products)
    np.multiply(side[:, 2], side[:, 2], out=others)
    products += others
    squares = products[0] + products[1] + products[2]               # of two sides: from half to twice the longest one's
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


def _turned_in_frames(vertices, corners, area, flattest, integrated):
    """What :func:`of_hats` returns, for triangles of any shape; six times as slow."""
    corner = [vertices.take(vertex, axis=0) for vertex in corners]
    side = np.stack([corner[c - 1] - corner[c - 2] for c in range(3)])
    square = np.einsum("cfk,cfk->cf", side, side)
    longest, which = square.max(axis=0), square.argmax(axis=0)
    double = np.maximum(2 * area, flattest * longest)
    is_there = double > LEAST
    length = np.sqrt(np.where(is_there, longest, 1))
    side *= np.where(is_there, 1 / length, 0)[:, None]
    face = np.arange(len(area))
    along, across = _frame(side[which, face], side[(which + 1) % 3, face])
    turned = np.einsum("cfk,fk->cf", side, along)[:, :, None] * across - np.einsum("cfk,fk->cf", side, across)[:, :, None] * along
    return (turned * (-0.5 * length if integrated else length / np.where(is_there, double, 1))[:, None]).transpose(2, 1, 0)


def _frame(along, other):
    """``along`` (m, 3), of length 1 or 0, and the direction beside it in which ``other`` goes."""
    across = other - _dot(other, along)[:, None] * along
    across -= _dot(across, along)[:, None] * along          # what cancelled above is now at right angles as well
    height = np.sqrt(_dot(across, across))
    flat = np.flatnonzero(height <= FLAT)
    t = along[flat]
    across[flat] = np.eye(3)[np.abs(t).argmin(axis=1)]
    across[flat] -= _dot(across[flat], t)[:, None] * t
    height[flat] = np.sqrt(_dot(across[flat], across[flat]))
    return along, across / height[:, None]


def _dot(a, b):
    return np.einsum("fk,fk->f", a, b)


def matrix_of(faces, hats, n):
    """The (3 m, n) csr_array of (3, m, 3) gradients: m rows for x, m for y, m for z, columns ascending. It shares their memory.
    """
    columns = np.empty(hats.shape, np.int32)
    columns[:] = corners_of(faces).T
    ends = np.arange(0, hats.size + 1, 3, dtype=np.int32 if hats.size <= np.iinfo(np.int32).max else np.int64)
    return sp.csr_array((hats.reshape(-1), columns.reshape(-1), ends), shape=(3 * len(faces), n))
