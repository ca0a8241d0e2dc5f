"""Areas, angles, normals and volume of a triangle mesh, from positions (n, 3) and faces (m, 3). O(n + m) each.

Sources: Thuermer, Wuethrich 1998 (vertex normals weighted by angles: independent of how a flat face is triangulated).
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core
from meshsolve.mesh import elements
from meshsolve.mesh.elements import unit
from meshsolve.options import thread_count

SMALL = 1e-250          # squared length of a cross product below which digits underflow
SHAPELESS = 1e-6        # most of twice an area relative to the longest side squared: its weights differ by 12 digits
TINY = 1e-280           # component of a cross product below which they do


def face_areas(x, faces):
    """(m,) area of each face, in parallel."""
    return _core.cotan_weights(x.reshape(-1), faces.reshape(-1), np.empty(0, np.int32), 0, 0.0, thread_count())[1]


def area_vectors(x, faces):
    """(m, 3) normals of length area: half the cross product of two sides."""
    a, b, c = (x.take(corner, axis=0) for corner in faces.T)
    return 0.5 * np.cross(b - a, c - a)


def face_normals(x, faces, vectors=None):
    """(m, 3) unit normals, 0 for a face on a line. ``vectors`` (m, 3) are the area vectors of the faces, if known."""
    normals = unit(vectors := area_vectors(x, faces) if vectors is None else vectors)
    if len(small := np.flatnonzero(np.abs(vectors).max(axis=1, initial=0) < TINY)):
        normals[small] = elements.normals_of(x, faces[small])
    return normals


def corner_angles(x, faces):
    """(m, 3) angle at each corner, in radians, with sum pi: by atan2, so that thin triangles keep their digits.

    Coinciding corners have angles by the rule for degenerate faces, see :mod:`meshsolve.mesh.elements`.
    """
    corner = [x.take(c, axis=0) for c in faces.T]
    angles = np.empty(faces.shape)
    for c in range(3):
        u, v = corner[(c + 1) % 3] - corner[c], corner[c - 1] - corner[c]
        cross = np.cross(u, v)
        square = np.einsum("fk,fk->f", cross, cross)
        angles[:, c] = np.arctan2(np.sqrt(square), np.einsum("fk,fk->f", u, v))
    if len(small := np.flatnonzero(square < SMALL)):
        angles[small] = elements.angles_of(x, faces[small])
    if len(thin := _thin_faces(angles)):
        moves, between = elements.moves_apart(x, faces, thin)
        if len(between):
            angles[between] = elements.angles_of(x, faces[between], moves)
    return angles


def vertex_normals(x, faces):
    """(n, 3) unit normals: those of the faces around a vertex, weighted by their angles; 0 if they cancel or the vertex has no face.

    Normals of degenerate faces are rounding errors: they count as shorter than 1. Coinciding vertices share the normals of their faces.
    """
    angles, vectors = corner_angles(x, faces), area_vectors(x, faces)
    normals = face_normals(x, faces, vectors)
    if len(thin := _thin_faces(angles)):
        normals[thin] *= np.minimum(elements.thickness(x, faces[thin]), 1)[:, None]
    sums = [np.bincount(faces.ravel(), (angles * normals[:, k, None]).ravel(), minlength=len(x)) for k in range(3)]
    return unit(np.stack(shared(sums, *coinciding_vertices(x, faces, angles, vectors)), axis=1))


def coinciding_vertices(x, faces, angles, vectors):
    """The vertices (k,) at the position of another one in a face, and the number of the place of each (k,).

    From the angles and the area vectors (m, 3) of the faces.
    """
    thin = np.union1d(_thin_faces(angles), np.flatnonzero(~vectors.any(axis=1)))
    return elements.places(x, faces, thin) if len(thin) else (thin, thin)


def shared(values, vertices, place):
    """The arrays (n,) of a list, in which vertices at one place have their sum."""
    if len(vertices):
        for v in values:
            v[vertices] = np.bincount(place, v[vertices])[place]
    return values


def volume(x, faces):
    """Signed volume between the faces and the mean of their corners: inside a closed surface, positive where faces look outwards."""
    corners = x[faces]
    a, b, c = (corners - corners.reshape(-1, 3).mean(axis=0)).transpose(1, 0, 2) if len(faces) else np.zeros((3, 0, 3))
    return float(np.einsum("fk,fk->", a, np.cross(b, c)) / 6)


def component_sums(values, component, count):
    """(count,) or (count, k) sums of the rows of ``values`` over each component; ``component``: that of each row."""
    if values.ndim == 1:
        return np.bincount(component, values, count)
    return np.stack([np.bincount(component, column, count) for column in values.T], axis=1)


def mean_edges(mesh):
    """(count,) mean edge length of each component of a mesh, 0 without edges."""
    count = int(mesh.components.max(initial=-1)) + 1
    component = mesh.components[mesh.edges[:, 0]]
    return component_sums(mesh.edge_lengths, component, count) / np.bincount(component, minlength=count).clip(1)


def without_shape(mesh):
    """(n,) mask of the vertices of components whose faces have no area: angles and the strongest weights say nothing about them. O(m)."""
    part, least = mesh.components[mesh.faces[:, 0]], SHAPELESS / elements.FLATTEST
    one_of = np.full(int(mesh.components.max()) + 1, -1)
    one_of[part] = np.arange(len(part))                     # one face of each component is enough where it has an area
    flat = np.zeros(len(one_of), bool)
    flat[part[one_of[one_of >= 0]]] = elements.thickness(mesh.vertices, mesh.faces[one_of[one_of >= 0]]) <= least
    if flat.any():
        at = np.flatnonzero(flat[part])
        flat[part[at[elements.thickness(mesh.vertices, mesh.faces[at]) > least]]] = False
    return flat[mesh.components]


def flattened_faces(x, faces):
    """(m, 3) each face in its own plane: corners (0, 0), (base, 0) and (along, height), as columns base, along, height."""
    a, b, c = (x.take(corner, axis=0) for corner in faces.T)
    u, v = b - a, c - a
    base = np.linalg.norm(u, axis=1)
    safe = np.where(base > 0, base, 1)
    return np.stack([base, np.einsum("fk,fk->f", u, v) / safe, np.linalg.norm(np.cross(u, v), axis=1) / safe], axis=1)


def map_jacobians(flat, faces, uv):
    """(4, m) entries J00, J01, J10, J11 of the map of each face to the plane, from :func:`flattened_faces` and points uv (n, 2)."""
    base, along, height = flat.T[:, :, None]
    a, b, c = (uv.take(corner, axis=0) for corner in faces.T)
    first = (b - a) / base
    second = (c - a - along * first) / height
    return np.stack([first[:, 0], second[:, 0], first[:, 1], second[:, 1]])


def _thin_faces(angles):
    """(k,) faces with an angle that is nearly 0, among them all degenerate ones and all with coinciding corners."""
    return np.flatnonzero(np.minimum(np.minimum(angles[:, 0], angles[:, 1]), angles[:, 2]) <= 4 * elements.APART)
