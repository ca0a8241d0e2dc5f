"""The rule for degenerate triangles, which all operators share: a triangle that is too thin counts as its mollified shape.

A triangle is degenerate if twice its area is at most ``FLATTEST`` times its longest side squared. Its normal is then a rounding error, and
its angles are undefined if two corners coincide.

- Cotangents: doubled areas are bounded below by ``FLATTEST`` times the longest side squared. To first order in ``FLATTEST`` these are the
  cotangents of the triangle whose sides are all longer by the least length with which it is not degenerate. Their quadratic form keeps its
  sign. A triangle with all corners at one point counts as equilateral. Its sides are ``FLATTEST`` times the longest side of the degenerate
  triangles around that point.
- Angles: corners that coincide move apart by ``APART`` times the longest side of their triangles, each into the fan of its other faces. The
  angles at them are those of the triangles in between. So the sum of angles is pi in each triangle, and 2 pi around each vertex in a plane.
- Areas and masses are those of the positions. Mollified shapes would add less than ``FLATTEST`` times the longest side squared.
- Normals are vector areas over mollified areas: shorter than 1, and 0 without an area.

All lengths are those of the triangles concerned: nothing changes elsewhere, nor with the unit of length.

The tangent length of a corner is its distance from the points where the inscribed circle touches both sides. A side is the sum of the
tangent lengths of its ends, so any positive tangent lengths define a triangle, and formulas in them lose no digits.

Source: Sharp, Crane 2020, "A Laplacian for nonmanifold triangle meshes", section 4.5 (mollification), here with a local length.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

FLATTEST = 1e-8         # largest doubled area of a degenerate triangle, relative to its longest side squared: the root of rounding errors
APART = 4e-8            # distance relative to the longest side below which corners coincide; no triangle between moved ones is degenerate
SWEEPS = 20             # averages of neighbors, for the directions of vertices without other faces


def degenerate_faces(x, faces):
    """(k,) ascending numbers of the degenerate faces. O(m)."""
    return np.flatnonzero(~(thickness(x, faces) > 1))


def thickness(x, faces):
    """(m,) twice the area of each face, relative to ``FLATTEST`` times its longest side squared: 1 or less if it is degenerate."""
    sides, cross = _scaled_sides(x, faces)[:2]
    longest = np.einsum("sfk,sfk->sf", sides, sides).max(axis=0, initial=0)
    return np.sqrt(np.einsum("fk,fk->f", cross, cross)) / (FLATTEST * np.where(longest > 0, longest, 1))


def normals_of(x, faces):
    """(m, 3) unit normals of faces of any size, 0 on a line."""
    return unit(_scaled_sides(x, faces)[1])


def angles_of(x, faces, moves=None):
    """(m, 3) angles at the corners, which keep their digits in any unit; pi / 3 at one point. Vertices are at x + moves."""
    t = tangent_lengths(x, faces, moves)
    t = np.where(t.any(axis=0), t, 1)
    radius = np.sqrt(t[0] * (t[1] * t[2]) / t.sum(axis=0))              # of the inscribed circle
    angles = 2 * np.arctan2(radius, t)
    angles[:, radius == 0] = np.where(t == t.max(axis=0), 0, np.pi / 2)[:, radius == 0]         # two corners coincide
    flat = (t > 0).sum(axis=0) == 2                                     # on a line
    angles[:, flat] = np.where(t > 0, 0, np.pi)[:, flat]
    return angles.T


def moves_apart(x, faces, thin):
    """Move coinciding corners of the faces ``thin`` (k,) apart: (moves (n, 3), numbers of faces between them), or (None, []).

    Each corner moves into its fan: along the integral of the directions that its other faces contain.
    """
    short, ends, share, longest = _short_sides(x, faces, thin)
    if len(short) == 0:
        return None, short
    used, number, joined, place = _joined(ends)
    distance, weight = np.zeros(place.max() + 1), np.zeros(len(used))
    np.maximum.at(distance, place[number[0]], APART * longest)
    for end in number:
        np.maximum.at(weight, end, 1 - share)
    between = np.unique(short)
    direction = _spread(joined, _directions_of_fans(x, faces, used, between))
    moves = np.zeros_like(x)
    moves[used] = (distance[place] * weight)[:, None] * direction
    return moves, between


def places(x, faces, thin):
    """The vertices (k,) that coincide with others, as corners of the faces ``thin``, and the number of the place of each (k,)."""
    short, ends, _, _ = _short_sides(x, faces, thin)
    if len(short) == 0:
        return short, short
    used, _, _, place = _joined(ends)
    return used, place


def mollified_areas(x, faces, areas, flattest):
    """(m,) areas of faces with these areas, at least those of their mollified shapes. Positive, unless they underflow."""
    sides, _, largest = _scaled_sides(x, faces)
    least = 0.5 * flattest * largest**2 * np.einsum("sfk,sfk->sf", sides, sides).max(axis=0, initial=0)
    out = np.maximum(areas, least)
    if len(point := np.flatnonzero(largest == 0)):
        thin = np.flatnonzero(areas <= least)
        sizes = flattest * extents_around(x, faces[thin].T, np.searchsorted(thin, point))
        out[point] = 0.75**0.5 / 2 * sizes**2
    return out


def tangent_lengths(x, faces, moves=None):
    """(3, m) tangent lengths of the corners, relative to the largest component of a side; 0 for faces at one point."""
    sides, cross, largest = _scaled_sides(x, faces, moves)
    length = np.sqrt(np.einsum("sfk,sfk->sf", sides, sides))
    square, around = np.einsum("fk,fk->f", cross, cross), np.where(largest > 0, length.sum(axis=0), 1)
    t = np.empty(length.shape)
    for c in range(3):                          # half of (p + q - r) = ((p + q)^2 - r^2) / (2 (p + q + r))
        product, dot = length[c] * length[c - 1], -np.einsum("fk,fk->f", sides[c], sides[c - 1])
        apart = np.where(dot < 0, product - dot, 1)
        t[c] = np.where(dot < 0, square / np.where(apart > 0, apart, 1), product + dot) / around
    return t


def mollified(t, flattest=FLATTEST, slack=0.0):
    """Mollify triangles with tangent lengths t (3, m): add the least constant e >= 0 to those of each triangle.

    Then twice the area is at least ``flattest`` times the longest side squared, and the two shorter sides exceed the longest by at
    least ``slack`` times its length. Returns t + e and e (m,). Triangles at one point become equilateral with e = 0 and t = 1.
    """
    low, mid, high = np.sort(t, axis=0)
    longest, total, e = mid + high, low + mid + high, np.zeros(t.shape[1])
    with np.errstate(invalid="ignore", divide="ignore"):                # 0 / 0 at one point
        for _ in range(4):                      # (low + e) (mid + e) = the right-hand side, which hardly depends on e
            right = (flattest * (longest + 2 * e)**2)**2 / (4 * (total + 3 * e) * (high + e)) - low * mid
            e = np.fmax(2 * right / (low + mid + np.sqrt(np.maximum((low + mid)**2 + 4 * right, 0))), 0)
    e = np.maximum(e, 0.5 * slack * longest - low)
    return np.where(longest > 0, t + e, 1.0), np.where(longest > 0, e, 0.0)


def extents_around(x, corners, point):
    """(k,) longest side of the elements that share a place with each element ``point`` (k,), whose corners all coincide.

    Elements have ``corners`` (c, m), and must include all with a side of length 0. The result is 1 if all at a place have no length.
    """
    pairs = [(corners[i], corners[j]) for i in range(len(corners)) for j in range(i)]
    length = np.stack([np.abs(x[a] - x[b]).max(axis=1) for a, b in pairs])
    used, _, _, place = _joined(np.concatenate([np.stack(pair)[:, short] for pair, short in zip(pairs, length == 0, strict=True)], axis=1))
    extent = np.zeros(place.max() + 1)
    for vertex in corners:                      # a corner that is no end of a short side is alone at its place
        at = np.minimum(np.searchsorted(used, vertex), len(used) - 1)
        known = used[at] == vertex
        np.maximum.at(extent, place[at[known]], length.max(axis=0)[known])
    found = extent[place[np.searchsorted(used, corners[0, point])]]
    return np.where(found > 0, found, 1)


def unit(vectors):
    """(k, 3) vectors of length 1; zeros stay. Scaled first, so that no square underflows."""
    largest = np.abs(vectors).max(axis=1, initial=0, keepdims=True)
    scaled = vectors / np.where(largest > 0, largest, 1)
    return scaled / np.maximum(np.sqrt((scaled * scaled).sum(axis=1, keepdims=True)), np.finfo(float).tiny)


def _scaled_sides(x, faces, moves=None):
    """(sides (3, m, 3), the cross product (m, 3) of two of them, ``largest`` (m,)). Side c begins at corner c.

    Sides are divided by ``largest``, the largest component of a side of the face, so that no square underflows.
    """
    sides = _sides(x, faces) if moves is None else _sides(x, faces) + _sides(moves, faces)
    largest = np.abs(sides).max(axis=(0, 2), initial=0)
    sides /= np.where(largest > 0, largest, 1)[:, None]
    return sides, np.cross(sides[0], sides[1]), largest


def _sides(x, faces):
    corner = [x.take(c, axis=0) for c in faces.T]
    return np.stack([corner[(c + 1) % 3] - corner[c] for c in range(3)])


def _short_sides(x, faces, thin):
    """(faces (s,), ends (2, s), lengths relative to those at which corners coincide (s,), longest sides (s,)) of the short sides."""
    corners, (sides, _, largest) = faces[thin], _scaled_sides(x, faces[thin])
    length = np.sqrt(np.einsum("sfk,sfk->sf", sides, sides))
    longest = length.max(axis=0, initial=0)
    share = length / (APART * np.where(largest > 0, longest, 1))
    which, short = np.nonzero(share < 1)
    ends = np.stack([corners[short, which], corners[short, (which + 1) % 3]])
    return thin[short], ends, share[which, short], (longest * largest)[short]


def _joined(ends):
    """(vertices (k,), their numbers at the ends (2, s), graph (k, k), numbers of the components (k,)) of edges with these ends."""
    used, number = np.unique(ends, return_inverse=True)
    number, k = number.reshape(2, -1), len(used)
    graph = sp.csr_array(sp.coo_array((np.ones(number.size), (number.ravel(), number[::-1].ravel())), shape=(k, k)))
    return used, number, graph, connected_components(graph, directed=False)[1]


def _directions_of_fans(x, faces, vertices, without):
    """(k, 3) unit directions into the faces around ``vertices``, apart from the faces ``without``; 0 if they cancel."""
    place = np.full(len(x), -1)
    place[vertices] = np.arange(len(vertices))
    is_other = (place[faces] >= 0).any(axis=1)
    is_other[without] = False
    face, c = np.nonzero((place[faces] >= 0) & is_other[:, None])
    at = faces[face, c]
    u, v = (unit(x[faces[face, (c + k) % 3]] - x[at]) for k in (1, 2))
    parts = unit(u + v) * np.linalg.norm(u - v, axis=1, keepdims=True)
    sums = np.stack([np.bincount(place[at], part, len(vertices)) for part in parts.T], axis=1)
    return np.where(np.linalg.norm(sums, axis=1, keepdims=True) > FLATTEST, unit(sums), 0)


def _spread(joined, direction):
    """Directions (k, 3) in which those that are 0 are means of their neighbors."""
    free = np.flatnonzero(~direction.any(axis=1))
    if len(free):
        rows = joined[free]
        rows = sp.diags_array(1 / rows.sum(axis=1)) @ rows
        for _ in range(SWEEPS):
            direction[free] = rows @ direction
    return direction
