"""Points on a mesh, as sources of distances and fields: vertices, or points in faces or cells by barycentric coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.mesh.tets import TetMesh
from meshsolve.types import Array

SUM_TOLERANCE = 1e-8    # largest error of the sum of barycentric coordinates, and largest -coordinate


@dataclass(frozen=True)
class Points:
    """Points on a mesh.

    Parameters
    ----------
    vertices : (s, c) integers
        Corners with weight: c is 1 for vertices, 3 for points in faces, 4 in cells.
    weights : (s, c) float64
        Barycentric coordinates.
    faces : (s,) integers, or None
        Faces or cells of the points; None for vertices.
    """

    vertices: Array
    weights: Array
    faces: Array | None = None

    def __len__(self):
        return len(self.vertices)

    def __getitem__(self, part):
        return Points(self.vertices[part], self.weights[part], None if self.faces is None else self.faces[part])

    def positions(self, x):
        """(s, 3) positions, for vertices at x (n, 3)."""
        return (self.weights[:, :, None] * x[self.vertices]).sum(axis=1)

    def load(self, n, values=1.0):
        """(n,) sums of values (s, c), real or complex, times the weights at each vertex."""
        spread = (self.weights * values).ravel()
        parts = (spread.real, spread.imag) if np.iscomplexobj(spread) else (spread,)
        sums = [np.bincount(self.vertices.ravel(), part, minlength=n) for part in parts]
        return sums[0] if len(sums) == 1 else sums[0] + 1j * sums[1]

    def entries(self, columns=None):
        """(rows, columns, weights) of the loads, as of a sparse matrix: int32 and float64.

        ``columns`` (s,) has the column of each point; by default all have column 0.
        """
        count, each = self.vertices.shape
        columns = np.zeros(count, np.int32) if columns is None else columns.astype(np.int32)
        return self.vertices.ravel().astype(np.int32), np.repeat(columns, each), self.weights.ravel()

    def with_corners(self, count=3):
        """The same points with ``count`` corners each, also vertices."""
        if self.vertices.shape[1] == count:
            return self
        return Points(self.vertices.repeat(count, axis=1), self.weights * np.eye(1, count), self.faces)


def columns_of(mesh, sources):
    """Check sources with a column each, or a list of sets with a column each: their :class:`Points` and (s,) ascending columns.

    Raises as :func:`points_of`.
    """
    if not isinstance(sources, list) or len(sources) == 0 or np.isscalar(sources[0]):
        points = points_of(mesh, sources)
        return points, np.arange(len(points))
    sets = [points_of(mesh, one, f"sources[{k}]") for k, one in enumerate(sources)]
    if any(one.faces is not None for one in sets):
        sets = [one.with_corners(corners_of(mesh)[0].shape[1]) for one in sets]
    points = Points(np.concatenate([one.vertices for one in sets]), np.concatenate([one.weights for one in sets]))
    return points, np.repeat(np.arange(len(sets)), [len(one) for one in sets])


def points_of(mesh, sources, name="sources"):
    """Check sources and return them as :class:`Points`.

    Parameters
    ----------
    mesh : Mesh, TetMesh or PointCloud
    sources : (s,) integers, one integer, or (faces (p,), barycentric (p, 3)); in a solid (cells (p,), barycentric (p, 4))
    name : str
        Name of the argument for messages.

    Raises
    ------
    InvalidInputError
        No source, a source outside the mesh, coordinates that are negative or do not sum to 1 (names the point). Points in faces
        of a PointCloud.
    """
    if isinstance(sources, tuple):
        if isinstance(mesh, PointCloud):
            raise InvalidInputError(f"{name} must be numbers of points, got a tuple: a PointCloud has no faces for barycentric coordinates")
        if len(sources) != 2:
            raise InvalidInputError(f"{name} must be vertices, or a tuple (faces (p,), barycentric (p, 3)); "
                                    f"got a tuple of {len(sources)}")
        return _points_in_faces(mesh, *sources, name)
    vertices, n = np.atleast_1d(np.asarray(sources)), len(mesh.vertices)
    if vertices.size == 0:
        raise InvalidInputError(f"{name} must have at least one vertex, got none")
    if vertices.ndim != 1 or vertices.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be vertex numbers, got an array of {vertices.dtype} of shape {vertices.shape}; "
                                "points in faces are given as a tuple (faces, barycentric)")
    outside = (vertices < 0) | (vertices >= n)
    if outside.any():
        k = int(outside.argmax())
        raise InvalidInputError(f"{name}[{k}] must be a vertex number from 0 to {n - 1}, got {vertices[k]}")
    return Points(vertices[:, None], np.ones((len(vertices), 1)))


def corners_of(mesh):
    """Corners of the faces of a surface, (m, 3), or of the cells of a solid, (m, 4), and the word for one of them."""
    return (mesh.cells, "cell") if isinstance(mesh, TetMesh) else (mesh.faces, "face")


def _points_in_faces(mesh, faces, barycentric, name):
    corners, word = corners_of(mesh)
    count, each = corners.shape
    faces, weights = np.atleast_1d(np.asarray(faces)), np.atleast_2d(np.asarray(barycentric, dtype=np.float64))
    if faces.size == 0 or weights.shape != (len(faces), each) or faces.dtype.kind not in "iu":
        raise InvalidInputError(f"{name} must be ({word}s (p,), barycentric (p, {each})), got shapes {faces.shape} and {weights.shape}")
    inside = (abs(weights.sum(axis=1) - 1) <= SUM_TOLERANCE) & (weights >= -SUM_TOLERANCE).all(axis=1)
    bad = ~inside | (faces < 0) | (faces >= count)
    if bad.any():
        k = int(bad.argmax())
        raise InvalidInputError(f"point {k} of {name} must lie in a {word} below {count}, with coordinates that are not negative "
                                f"and sum to 1; got {word} {faces[k]}, coordinates {weights[k].tolist()}")
    return Points(corners[faces], np.maximum(weights, 0), faces)
