"""The rule for degenerate tetrahedra, which all operators share: a cell without volume counts as its mollified shape.

The hat functions of a cell have gradients a / (3 v), with the vector areas a of its sides and its volume v. The energy of a function is the
square of a sum over v, so a cell that becomes flat ties its corners ever more firmly. Let its corners x lie in one plane.
Let c be the coefficients of their dependency, sum c x = 0 and sum c = 0, scaled so that the positive ones have the sum 1. They are the
areas up to a factor.

- A corner that is a mean of the others, as on an edge or on a side, or at another corner, has a coefficient of 1. The tie is right: it
  joins the corner to an edge, side or vertex of the cells on the other side. The volume counts as at least ``FLATTEST`` / 6 times the
  longest edge cubed.
- A sliver is a quadrilateral with both diagonals: two coefficients are positive and two negative. The cells around it determine all four
  values, and the tie would lock a solution. Such cells are frequent in Delaunay triangulations of grids. The volume of a sliver without
  volume counts as the longest edge cubed. Its energy is then as small as the error of linear functions.
- A flat cell on the boundary has nothing to join on the other side. A corner on its side or edge is not tied, as in a sliver. Such
  cells lie on the hull of regular points, also in layers.
- Corners on one line, or three or four at one point: they move apart by ``FLATTEST`` times the longest edge, to the corners of a
  regular tetrahedron. Then the same rule serves.

Other cells do not change. Masses are those of the true volumes.

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


def shapes(x, cells, longest, volumes, flattest=FLATTEST):
    """Measure cells of vertices x (n, 3) and corners ``cells`` (m, 4), with longest edges and volumes (m,); ``flattest`` bounds volumes
    in place of ``FLATTEST``.

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
    areas, volumes = side_areas(corners), volumes.copy() if unit == 1 else _volumes(corners)
    cube = (longest / unit) ** 3 / 6
    suspect = np.flatnonzero(~(volumes > max(SLIVER, flattest) * cube))
    if len(suspect) == 0:
        return areas, volumes, suspect, unit
    outer = _on_boundary(cells, suspect)
    measured = _mollified(x, cells[suspect], corners[suspect], longest[suspect] / unit, volumes[suspect], unit, flattest, outer)
    areas[suspect], volumes[suspect], is_degenerate = measured
    return areas, volumes, suspect[is_degenerate], unit


def side_areas(corners):
    """(m, 4, 3) vector areas of the sides of cells with corners (m, 4, 3), each towards the opposite corner."""
    a, b, c = np.moveaxis(corners[:, SIDES], 2, 0)
    return -0.5 * np.cross(b - a, c - a)


def _volumes(corners):
    a, b, c, d = np.moveaxis(corners, 1, 0)
    return np.abs(np.einsum("mk,mk->m", b - a, np.cross(c - a, d - a)) / 6)


def _on_boundary(cells, suspect):
    """(k,) mask of the cells ``suspect`` that have a side on the boundary, or one that is there without other such cells."""
    is_near = np.zeros(cells.max() + 1, bool)
    is_near[cells[suspect]] = True
    near = np.union1d(np.flatnonzero(is_near[cells].sum(axis=1) >= 3), suspect)
    sides = np.sort(cells[near][:, SIDES], axis=2).reshape(-1, 3)
    order = np.lexsort(sides.T)
    starts = (np.diff(sides[order], axis=0, prepend=-1) != 0).any(axis=1)
    number = np.empty(len(sides), np.int64)
    number[order] = np.cumsum(starts) - 1
    number, count = number.reshape(-1, 4), np.bincount(number)
    mine, outer = number[np.searchsorted(near, suspect)], np.zeros(len(suspect), bool)
    while (more := ~outer & (count[mine] == 1).any(axis=1)).any():
        outer |= more
        count -= np.bincount(mine[more].ravel(), minlength=len(count))
    return outer


def _mollified(x, cells, corners, longest, volumes, unit, flattest, outer):
    """(areas, volumes, mask of the degenerate ones) of cells with little volume."""
    areas, least = side_areas(corners), np.full(len(cells), flattest)
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
    coefficients = np.sort(2 * along / along.sum(axis=1)[:, None], axis=1)
    largest = np.where(outer, coefficients[:, 2], coefficients[:, 3])               # two of 1: corners coincide
    sliver = np.where(bent, 0, np.clip((1 - largest) / TIED, 0, 1) * np.clip(1 - volumes / (SLIVER * cube), 0, 1))
    bounded = np.maximum(volumes, least * cube)
    return areas, bounded * (6 * cube / bounded) ** sliver, bent | (sliver > 0) | (bounded > volumes)
