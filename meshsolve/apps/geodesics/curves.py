"""Curves on a mesh as segments, each of which lies in one face.

A path of vertices follows edges. Between consecutive points in different faces a walk goes from face to face. In each face it
heads for the projection of the next point on the plane of the face. The segment is split at the edge that it crosses. O(points +
crossings).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve.apps.geodesics.sources import Points, points_of
from meshsolve.errors import InvalidInputError
from meshsolve.types import Array

MOST_CROSSINGS = 1000   # most edges between two points; a walk that has not arrived then runs in circles


@dataclass(frozen=True)
class Segments:
    """Segments of curves.

    Parameters
    ----------
    faces : (q,) integers
        Face of each segment.
    ends : (q, 2, 3) float64
        Barycentric coordinates of both ends.
    curves : (q,) integers
        Number of the curve of each segment.
    """

    faces: Array
    ends: Array
    curves: Array

    def on_sides(self):
        """(q, 3) True where a segment lies on side c of its face, from corner c to corner c + 1."""
        return np.roll((self.ends == 0).all(axis=1), -2, axis=1)


def segments_of(mesh, curve):
    """Check curves and return their :class:`Segments`.

    Parameters
    ----------
    mesh : Mesh
    curve : (p,) integers, (faces (p,), barycentric (p, 3)), or a list of such curves

    Raises
    ------
    InvalidInputError
        As ``points_of``; no curve; a curve of one point; consecutive vertices that no edge joins; points without a
        path between them (names them).
    """
    curves = curve if isinstance(curve, list) and len(curve) > 0 and not np.isscalar(curve[0]) else [curve]
    parts = []
    for k, one in enumerate(curves):
        name = f"curve[{k}]" if curves is curve else "curve"
        points = points_of(mesh, one, name)
        if len(points) < 2:
            raise InvalidInputError(f"{name} must have at least two points, got 1")
        faces, ends = (_along_edges(mesh, points, name) if points.faces is None else _through_faces(mesh, points, name))
        has_length = (ends[:, 0] != ends[:, 1]).any(axis=1)
        parts.append((faces[has_length], ends[has_length], np.full(np.count_nonzero(has_length), k)))
    found = Segments(*(np.concatenate(part) for part in zip(*parts, strict=True)))
    if len(found.faces) == 0:
        raise InvalidInputError("curve must have a length: all of its points are the same")
    return found


def _along_edges(mesh, points, name):
    """(faces, ends) of a path of vertices."""
    a, b = points.vertices[:-1, 0], points.vertices[1:, 0]
    a, b = a[a != b], b[a != b]
    edge = _edge_between(mesh, a, b)
    if (edge < 0).any():
        k = int((edge < 0).argmax())
        raise InvalidInputError(f"{name} goes from vertex {a[k]} to vertex {b[k]}, which no edge joins; add the vertices "
                                "between, or give points in faces (faces, barycentric)")
    faces = _sides_of_edges(mesh)[edge, 0] // 3
    return faces, np.stack([(mesh.faces[faces] == v[:, None]).astype(float) for v in (a, b)], axis=1)


def _edge_between(mesh, a, b):
    """(q,) the edge that joins vertices a and b (q,); -1 for vertices without a common edge."""
    keys, wanted = (np.minimum(p, q).astype(np.int64) * len(mesh.vertices) + np.maximum(p, q) for p, q in (mesh.edges.T, (a, b)))
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    return np.where(keys[at] == wanted, at, -1) if len(keys) else np.full(len(a), -1)


def _sides_of_edges(mesh):
    """(e, 2) the first and the last side 3 f + c of each edge, the same one at the boundary."""
    sides, numbers = mesh.side_edges.reshape(-1), np.arange(mesh.faces.size)
    out = np.empty((len(mesh.edges), 2), int)
    out[sides[::-1], 0] = numbers[::-1]                             # the last assignment stays
    out[sides, 1] = numbers
    return out


def _through_faces(mesh, points, name):
    """(faces, ends) of a path of points in faces, by a walk for each pair of consecutive points; all walks step together."""
    at, target = points[:-1], points[1:]
    face, start, entry = at.faces, at.weights, np.full(len(at), -1)
    step, sides, found = np.arange(len(at)), _sides_of_edges(mesh), []
    for _ in range(MOST_CROSSINGS):
        end, arrives = _coordinates(mesh, target[step], face)
        found.append((step[arrives], face[arrives], np.stack([start, end], axis=1)[arrives]))
        step, face, start, entry = (part[~arrives] for part in (step, face, start, entry))
        if len(step) == 0:
            break
        end, corner = _exit(mesh, face, start, entry, target[step].positions(mesh.vertices))
        side = 3 * face + (corner + 1) % 3
        pair = sides[mesh.side_edges.reshape(-1)[side]]
        mirror = np.where(pair[:, 0] == side, pair[:, 1], pair[:, 0])
        blocked = (corner < 0) | (mirror == side)
        if blocked.any():
            step = step[blocked]
            break
        found.append((step, face, np.stack([start, end], axis=1)))
        start, _ = _coordinates(mesh, Points(mesh.faces[face], end), mirror // 3)
        face, entry = mirror // 3, (mirror + 2) % 3
    if len(step):
        k = int(step[0])
        raise InvalidInputError(f"{name} has points {k} and {k + 1} in faces {at.faces[k]} and {target.faces[k]}, and no path "
                                "along the surface between them; add points wherever the curve crosses an edge")
    order = np.argsort(np.concatenate([part[0] for part in found]), kind="stable")
    return tuple(np.concatenate([part[k] for part in found])[order] for k in (1, 2))


def _coordinates(mesh, points, face):
    """(q, 3) coordinates of points in other faces, and a mask of the points that lie in them."""
    out = ((mesh.faces[face][:, :, None] == points.vertices[:, None]) * points.weights[:, None]).sum(axis=2)
    return out, ((points.weights == 0) | (points.vertices[:, :, None] == mesh.faces[face][:, None]).any(axis=2)).all(axis=1)


def _exit(mesh, face, start, entry, target):
    """Where the straight line from ``start`` to the projection of ``target`` leaves a face.

    Returns its coordinates (q, 3), and the corner (q,) opposite to the side; -1 if it does not leave the face. The side opposite
    to the corner ``entry`` is passed over, so that a walk turns around a vertex that it meets.
    """
    a, b, c = mesh.vertices[mesh.faces[face]].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    squared = np.maximum((normal * normal).sum(axis=1), np.finfo(float).tiny)
    shares = [(np.cross(q - p, target - p) * normal).sum(axis=1) / squared for p, q in ((b, c), (c, a))]
    change = np.stack([*shares, 1 - shares[0] - shares[1]], axis=1) - start
    leaves = (change < 0) & (np.arange(3) != entry[:, None])
    ratio = np.where(leaves, start / np.where(leaves, -change, 1), np.inf)
    corner = np.where(leaves.any(axis=1), ratio.argmin(axis=1), -1)
    row = np.arange(len(face))
    end = np.maximum(start + np.where(leaves.any(axis=1), ratio[row, corner], 0)[:, None] * change, 0)
    end[row, corner] = 0
    return end / np.maximum(end.sum(axis=1, keepdims=True), np.finfo(float).tiny), corner
