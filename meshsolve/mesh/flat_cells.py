"""The rule for degenerate tetrahedra, which all operators share: a cell without volume counts as its mollified shape.

The hat functions of a cell have gradients a / (3 v), with the vector areas a of its sides and its volume v. The energy of a function is the
square of a sum over v, so a cell that becomes flat ties its corners ever more firmly. Let their plane be the same, and c the
coefficients of the dependency sum c x = 0, sum c = 0, which are the areas up to a factor, with positive ones of sum 1.

- A corner that is a mean of the others, as on an edge or on a side, or at another corner, has a coefficient of 1. The tie is right: it
  joins the corner to an edge, side or vertex of the cells on the other side. The volume counts as at least ``FLATTEST`` / 6 times the
  longest edge cubed.
- A sliver is a quadrilateral with both diagonals: two coefficients are positive and two negative. The cells around it determine all four
  values, and the tie would lock a solution. Such cells are frequent in Delaunay triangulations of grids. The volume of a sliver without
  volume counts as a sixth of the longest edge cubed. Its energy is then as small as the error of linear functions.
- Corners on one line, or three or four at one point: they move apart by ``FLATTEST`` times the longest edge, to the corners of a
  regular tetrahedron. Then the same rule serves.

All of this is continuous in the positions. It depends on the cell alone, so that other cells do not change. Masses are those of the true
volumes.

Source: Crane 2019, "The n-dimensional cotangent formula"; Krizek 1992 (slivers violate the maximum angle condition).
"""

from __future__ import annotations

import numpy as np

from meshsolve.mesh.elements import FLATTEST, extents_around

SIDES = np.array([[1, 2, 3], [0, 3, 2], [0, 1, 3], [0, 2, 1]])             # corners of the side opposite to each corner, seen from outside
SLIVER = 1e-5           # largest volume of a sliver, times 6 and relative to its longest edge cubed: also of points in single precision
TIED = 0.01             # distance of the largest coefficient from 1 from which a flat cell is a sliver: else a corner is a mean of others
MODERATE = 1e-40, 1e40  # longest edge for which powers neither overflow nor underflow
REGULAR = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) / 8**0.5          # corners of a regular tetrahedron with edges 1


def shapes(x, cells, longest, flattest=FLATTEST):
    """Measure cells of vertices x (n, 3) and corners ``cells`` (m, 4), with longest edges (m,); ``flattest`` in place of ``FLATTEST``.

    Returns
    -------
    areas : (m, 4, 3)
        Vector area of the side opposite each corner, towards the corner, in square units.
    volumes : (m,)
        Volume that counts, positive, in cubic units.
    degenerate : (k,)
        Ascending numbers of the degenerate cells. The volume of all others is that of the positions.
    unit : float
        Unit of length, 1 unless the whole mesh is tiny or huge.
    """
    largest = longest.max(initial=0)
    unit = 1.0 if largest == 0 or MODERATE[0] < largest < MODERATE[1] else 2.0 ** np.frexp(largest)[1]
    corners = x[cells] if unit == 1 else x[cells] / unit
    areas, volumes = side_areas(corners), _volumes(corners)
    cube = (longest / unit) ** 3 / 6
    suspect = np.flatnonzero(~(volumes > max(SLIVER, flattest) * cube))
    if len(suspect) == 0:
        return areas, volumes, suspect, unit
    areas[suspect], volumes[suspect], is_degenerate = _mollified(x, cells[suspect], corners[suspect], longest[suspect], unit, flattest)
    return areas, volumes, suspect[is_degenerate], unit


def side_areas(corners):
    """(m, 4, 3) vector areas of the sides of cells with corners (m, 4, 3), each towards the opposite corner."""
    a, b, c = np.moveaxis(corners[:, SIDES], 2, 0)
    return -0.5 * np.cross(b - a, c - a)


def _volumes(corners):
    a, b, c, d = np.moveaxis(corners, 1, 0)
    return np.abs(np.einsum("mk,mk->m", b - a, np.cross(c - a, d - a)) / 6)


def _mollified(x, cells, corners, longest, unit, flattest):
    """(areas, volumes, mask of the degenerate ones) of cells with little volume."""
    longest, areas, volumes, least = longest / unit, side_areas(corners), _volumes(corners), np.full(len(cells), flattest)
    point = np.flatnonzero(longest == 0)
    longest[point] = flattest * extents_around(x, cells.T, point) / unit if len(point) else 0
    bent = np.sqrt(np.einsum("mck,mck->mc", areas, areas).max(axis=1)) <= flattest * longest**2          # on a line, or nearly
    if bent.any():
        size = np.where((corners[bent] == corners[bent, :1]).all(axis=(1, 2)), longest[bent], flattest * longest[bent])
        apart = corners[bent] + size[:, None, None] * REGULAR
        areas[bent], volumes[bent], least[bent] = side_areas(apart), _volumes(apart), flattest**2
    cube = longest**3 / 6
    normal = np.take_along_axis(areas, np.einsum("mck,mck->mc", areas, areas).argmax(axis=1)[:, None, None], axis=1)
    along = np.abs(np.einsum("mck,mjk->mc", areas, normal))
    coefficient = 2 * along.max(axis=1) / along.sum(axis=1)
    sliver = np.where(bent, 0, np.clip((1 - coefficient) / TIED, 0, 1) * np.clip(1 - volumes / (SLIVER * cube), 0, 1))
    bounded = np.maximum(volumes, least * cube)
    return areas, bounded * (cube / bounded) ** sliver, bent | (sliver > 0) | (bounded > volumes)
