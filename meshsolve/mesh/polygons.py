"""From the polygons and strips of a file to triangles, and vertices that stand at one place made one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.options import INT32_MAX
from meshsolve.report import warn


class Polygons(NamedTuple):
    """What a reader finds in a file."""

    vertices: np.ndarray        # (n, 3) float64
    corners: np.ndarray         # of each polygon, one polygon after the other, integers that may lie outside 0..n-1
    counts: np.ndarray          # (m,) integers >= 3: corners of each polygon
    small: int = 0              # faces of fewer corners, which were left out


def without_small(vertices, corners, counts):
    """:class:`Polygons` of faces with any number of corners: those of fewer than three are left out and counted."""
    good = counts >= 3
    if good.all():
        return Polygons(vertices, corners, counts)
    return Polygons(vertices, corners[np.repeat(good, counts)], counts[good], int(np.count_nonzero(~good)))


def triangulated(polygons, name=""):
    """Triangles (m, 3) of polygons, polygon after polygon, each with the orientation of its polygon.

    A convex polygon is fanned around its first corner. Any other one is cut into triangles inside it, in the plane of its
    Newell normal; ``name`` begins messages.

    Raises
    ------
    InvalidInputError
        A polygon that is no triangle names a vertex that does not exist.

    Warns
    -----
    MeshsolveWarning
        Faces of fewer than three corners were left out, or polygons cross themselves: how many.
    """
    if polygons.small:
        warn(f"{name}{counted(polygons.small, 'face')} with fewer than three corners {was(polygons.small)} left out", MeshsolveWarning)
    if (polygons.counts == 3).all():
        return polygons.corners.reshape(-1, 3)
    n = len(polygons.vertices)
    outside = (polygons.corners < 0) | (polygons.corners >= n)
    if outside.any():
        at = int(np.argmax(outside))
        face = int(np.searchsorted(np.cumsum(polygons.counts), at, "right"))
        raise InvalidInputError(f"{name}face {face} names vertex {polygons.corners[at]}; the mesh has vertices 0..{n - 1}")
    if len(polygons.corners) > INT32_MAX:
        raise InvalidInputError(f"{name}{len(polygons.corners)} corners; at most {INT32_MAX} are supported")
    vertices = np.ascontiguousarray(polygons.vertices, np.float64).reshape(-1)
    corners, counts = (np.ascontiguousarray(a, np.int32) for a in (polygons.corners, polygons.counts))
    faces, crossing = _core.triangulate(vertices, corners, counts)
    if crossing:
        what = "polygon crosses itself: its" if crossing == 1 else "polygons cross themselves: their"
        warn(f"{name}{crossing} {what} triangles overlap or lie outside", MeshsolveWarning)
    return faces.reshape(-1, 3)


def counted(k, what):
    """"1 face" or "3 faces"."""
    return f"{k} {what}" + ("" if k == 1 else "s")


def was(k):
    return "was" if k == 1 else "were"


def strips(counts, corners):
    """Triangles (m, 3) of strips: each corner makes one with the two before it, every second one turned; -1 begins another strip.

    Triangles with a repeated corner, which join two strips, are left out.
    """
    position = np.arange(len(corners))
    begins = np.r_[True, corners[:-1] == -1][:len(corners)]
    begins[(np.cumsum(counts) - counts)[counts > 0]] = True
    start = np.maximum.accumulate(np.where(begins, position, 0))
    last = position[2:][(start[2:] == start[:-2]) & (corners[2:] != -1)]
    turned = (last - start[last]) % 2
    faces = np.stack([corners[last - 2 + turned], corners[last - 1 - turned], corners[last]], axis=1)
    flat = (faces[:, 0] == faces[:, 1]) | (faces[:, 1] == faces[:, 2]) | (faces[:, 2] == faces[:, 0])
    return faces[~flat]


def distinct_rows(rows):
    """The rows that appear first, ascending, and for each row the position of its first appearance among them. O(n log n).

    Parameters
    ----------
    rows : (n, k) array of real numbers
        -0.0 and 0.0 are the same.

    Returns
    -------
    first, place : (d,) and (n,) int64
        ``rows[first][place]`` equals ``rows``.
    """
    rows = rows + 0.0                                   # -0.0 becomes 0.0
    order = np.lexsort(rows.T)
    change = np.ones(len(order), bool)
    change[1:] = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    group = np.cumsum(change) - 1
    first = np.minimum.reduceat(order, np.flatnonzero(change)) if len(order) else order
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    place = np.empty(len(order), np.int64)
    place[order] = rank[group]
    return np.sort(first), place


def merge_identical(vertices, faces):
    """One vertex for each distinct position, numbered by first appearance; faces renumbered. O(n log n)."""
    first, place = distinct_rows(vertices)
    return (vertices + 0.0)[first], place[faces]
