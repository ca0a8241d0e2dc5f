"""Triangles from polygons and strips, and merging of identical vertices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh.data import Surface
from meshsolve.options import INT32_MAX, counted
from meshsolve.report import warn


class Polygons(NamedTuple):
    """Vertices and polygons of a file."""

    vertices: np.ndarray        # (n, 3) float64
    corners: np.ndarray         # vertex indices polygon after polygon; they may lie outside 0..n-1
    counts: np.ndarray          # (m,) number of corners of each polygon, at least 3
    small: int = 0              # number of faces left out because they have fewer than three corners
    vertex_data: Mapping = {}   # arrays with a row per vertex
    face_data: Mapping = {}     # arrays with a row per polygon
    corner_data: Mapping = {}   # arrays with a row per entry of ``corners``


def without_small(polygons):
    """Leave out the faces with fewer than three corners and their data, and count them."""
    good = polygons.counts >= 3
    if good.all():
        return polygons
    kept = np.repeat(good, polygons.counts)
    return polygons._replace(corners=polygons.corners[kept], counts=polygons.counts[good], small=int(np.count_nonzero(~good)),
                             face_data={name: x[good] for name, x in polygons.face_data.items()},
                             corner_data={name: x[kept] for name, x in polygons.corner_data.items()})


def warn_of_small(polygons, name):
    """Warn that a file has faces with fewer than three corners. The message begins with ``name``."""
    if polygons.small:
        warn(f"{name}dropped {counted(polygons.small, 'face')} with fewer than three corners", MeshsolveWarning)


def surface(polygons, name=""):
    """Return the :class:`~meshsolve.mesh.data.Surface` of the triangles of polygons, see :func:`triangulated`.

    The triangles of a polygon repeat its face data, and the data of its corners.
    """
    if not polygons.face_data and not polygons.corner_data:
        return Surface(polygons.vertices, triangulated(polygons, name), polygons.vertex_data)
    at = triangulated(polygons, name, positions=True)
    parent = np.repeat(np.arange(len(polygons.counts)), polygons.counts - 2)
    face_data = {name: x[parent] for name, x in polygons.face_data.items()}
    corner_data = {name: x[at] for name, x in polygons.corner_data.items()}
    return Surface(polygons.vertices, polygons.corners[at], polygons.vertex_data, face_data, corner_data)


def triangulated(polygons, name="", positions=False):
    """Return triangles (m, 3), polygon after polygon, each with the orientation of its polygon.

    With ``positions`` they refer to entries of ``polygons.corners``, else to vertices.

    A polygon that is star-shaped around its first corner becomes a fan. Any other polygon is triangulated by ear clipping in
    the plane of its Newell normal. Messages begin with ``name``.

    Raises
    ------
    InvalidInputError
        A polygon with more than three corners refers to a vertex that does not exist.

    Warns
    -----
    MeshsolveWarning
        Faces with fewer than three corners were dropped, or polygons intersect themselves (with their number).
    """
    warn_of_small(polygons, name)
    if (polygons.counts == 3).all():
        return (np.arange(len(polygons.corners)) if positions else polygons.corners).reshape(-1, 3)
    n = len(polygons.vertices)
    outside = (polygons.corners < 0) | (polygons.corners >= n)
    if outside.any():
        at = int(np.argmax(outside))
        face = int(np.searchsorted(np.cumsum(polygons.counts), at, "right"))
        raise InvalidInputError(f"{name}face {face} refers to vertex {polygons.corners[at]}; the mesh has vertices 0..{n - 1}")
    if len(polygons.corners) > INT32_MAX:
        raise InvalidInputError(f"{name}the polygons have {len(polygons.corners):,} corners; at most {INT32_MAX:,} are supported")
    points, corners = polygons.vertices, polygons.corners
    if positions:
        points, corners = points[corners], np.arange(len(corners))
    corners, counts = (np.ascontiguousarray(a, np.int32) for a in (corners, polygons.counts))
    faces, crossing = _core.triangulate(np.ascontiguousarray(points, np.float64).reshape(-1), corners, counts)
    if crossing:
        what = "polygon intersects itself: its" if crossing == 1 else "polygons intersect themselves: their"
        warn(f"{name}{crossing} {what} triangles overlap or lie outside", MeshsolveWarning)
    return faces.reshape(-1, 3)


def strips(counts, corners):
    """Return the triangles (m, 3) of triangle strips, see :func:`strip_triangles`."""
    return strip_triangles(counts, corners)[0]


def strip_triangles(counts, corners, positions=False):
    """Return the triangles (m, 3) of triangle strips, and the strip of each triangle (m,).

    Each corner forms a triangle with the two before it; every second triangle is reversed. A corner of -1 starts another strip.
    Degenerate triangles, which connect two strips, are left out. With ``positions`` triangles refer to entries of ``corners``.
    """
    position = np.arange(len(corners))
    begins = np.r_[True, corners[:-1] == -1][:len(corners)]
    begins[(np.cumsum(counts) - counts)[counts > 0]] = True
    start = np.maximum.accumulate(np.where(begins, position, 0))
    last = position[2:][(start[2:] == start[:-2]) & (corners[2:] != -1)]
    turned = (last - start[last]) % 2
    at = np.stack([last - 2 + turned, last - 1 - turned, last], axis=1)
    faces = corners[at]
    good = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return (at if positions else faces)[good], np.searchsorted(np.cumsum(counts), last[good], "right")


def distinct_rows(rows):
    """Find distinct rows in order of first appearance. O(n log n).

    Parameters
    ----------
    rows : (n, k) array of real numbers
        -0.0 and 0.0 count as equal.

    Returns
    -------
    first : (d,) int64
        Indices of the distinct rows, ascending.
    inverse : (n,) int64
        ``rows[first][inverse]`` equals ``rows``.
    """
    rows = rows + 0.0                                   # -0.0 becomes 0.0
    order = np.lexsort(rows.T)
    change = np.ones(len(order), bool)
    change[1:] = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    group = np.cumsum(change) - 1
    first = np.minimum.reduceat(order, np.flatnonzero(change)) if len(order) else order
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    inverse = np.empty(len(order), np.int64)
    inverse[order] = rank[group]
    return np.sort(first), inverse


def merge_identical(vertices, faces):
    """Merge vertices of equal position, numbered by first appearance, and renumber the faces. O(n log n)."""
    first, inverse = distinct_rows(vertices)
    return (vertices + 0.0)[first], inverse[faces]
