"""Gradients of the hat functions of a mesh, which are 1 at one vertex and linear on each triangle, and the matrix of them.

The gradient of corner c is the side opposite to it, turned by a right angle in the plane of the triangle, over the doubled area. In a
triangle that is flat the plane is lost, but not the turn: it is made in a frame of the longest side and of what is left of another
beside it, or of anything at right angles. Scalar products of the gradients are then those of the sides, so that their energy is that
of the cotangents, to rounding, where the area is what the Laplacian takes it for.

Source: Botsch, Kobbelt, Pauly, Alliez, Levy 2010, "Polygon Mesh Processing", section 3.3.3. O(faces).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

FLAT = 1e-20            # a height below this share of the longest side is rounding, and has no direction
LEAST = 1e-300          # doubled areas below this are none: one over them is no number


def of_hats(vertices, faces, area, flattest):
    """Gradients (3, m, 3) of the hat function of each corner, by face, by coordinate; and the (m,) area that each face counts with.

    A face whose doubled area is below ``flattest`` times its longest side squared counts as that flat; the gradients of one without
    extent are 0.
    """
    corner = [vertices.take(vertex, axis=0) for vertex in faces.T]
    side = np.stack([corner[c - 1] - corner[c - 2] for c in range(3)])          # opposite to corner c, head to tail
    square = np.einsum("cfk,cfk->cf", side, side)
    longest, which = square.max(axis=0, initial=0), square.argmax(axis=0)
    double = np.maximum(2 * area, flattest * longest)
    is_there = double > LEAST
    length = np.sqrt(np.where(is_there, longest, 1))
    side *= np.where(is_there, 1 / length, 0)[:, None]
    face = np.arange(len(faces))
    along, across = _frame(side[which, face], side[(which + 1) % 3, face])
    turned = np.einsum("cfk,fk->cf", side, along)[:, :, None] * across - np.einsum("cfk,fk->cf", side, across)[:, :, None] * along
    return turned * (length / np.where(is_there, double, 1))[:, None], np.where(is_there, double / 2, 0)


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
    """The (3 m, n) csr_array of (3, m, 3) gradients: m rows for x, m for y, m for z, columns ascending."""
    order = faces.argsort(axis=1)
    columns = np.take_along_axis(faces, order, axis=1)
    data = np.stack([np.take_along_axis(hats[:, :, k].T, order, axis=1) for k in range(3)])
    ends = np.arange(0, 9 * len(faces) + 1, 3)
    ends = ends if ends[-1] > np.iinfo(np.int32).max else ends.astype(np.int32)
    return sp.csr_array((data.reshape(-1), np.tile(columns.reshape(-1), 3), ends), shape=(3 * len(faces), n))
