"""Meshes of polygons: checked arrays, and the triangles around a virtual vertex in each polygon that operators need.

The virtual vertex of a polygon is the point with the least sum of squared areas of the triangles between it and the sides. It is
an affine combination of the corners, by weights of least norm. Operators of these triangles, with the virtual vertices eliminated
by their weights, are those of the polygons. Linear functions on planar polygons stay exact, whatever their shape.

The triangles of a polygon that is not star-shaped around that point would overlap. Such a polygon is cut into triangles by ear
clipping. Its virtual vertex is the center of the largest one, which becomes three: a polygon of k corners has k triangles.

Source: Bunge, Herholz, Kazhdan, Botsch 2020, "Polygon Laplacian made simple". O(corners); ear clipping as in polygons.hpp.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh, files
from meshsolve.mesh.checks import as_vertices
from meshsolve.mesh.polygons import Polygons, triangulated
from meshsolve.options import shown
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array
from meshsolve.types import ArrayLike, Path

RANK = 1e-10            # eigenvalue relative to the largest below which a direction is rounding error: corners in a plane
FOLD = 1e-12            # area of a turned triangle, relative to all triangles of the polygon, up to which it is rounding error
CANCELED = 1e-6         # area of a polygon relative to its triangles, below which its orientation is not known


class PolygonMesh(Sealed):
    """A surface of polygons, which may be non-planar and non-convex.

    Parameters
    ----------
    vertices : (n, 3) array_like
    faces : list of lists of integers, or (indices (c,), offsets (m + 1,))
        Corners of each polygon, at least three different ones, in order around it. In the second form polygon k has the corners
        ``indices[offsets[k]:offsets[k + 1]]``.

    Attributes
    ----------
    vertices : (n, 3) float64, read-only
    indices : (c,) int32, read-only
    offsets : (m + 1,) int64, read-only

    Raises
    ------
    InvalidInputError
        Arrays of another shape or kind, or a coordinate that is not finite or beyond 1e70. Offsets that do not ascend from 0 to c. A
        polygon with fewer than three corners, with a corner outside the mesh, or with a repeated corner (names it).

    Warns
    -----
    MeshsolveWarning
        Polygons intersect themselves: their areas are those of overlapping triangles. Given by the first operator.

    Examples
    --------
    >>> import meshsolve as ms
    >>> house = ms.PolygonMesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0.5, 1.5, 0], [0, 1, 0]], [[0, 1, 2, 4], [4, 2, 3]])
    >>> len(house), round(float(ms.mass_matrix(house).sum()), 6)
    (2, 1.25)
    """

    def __init__(self, vertices: ArrayLike, faces: list[ArrayLike] | tuple[ArrayLike, ArrayLike]) -> None:
        self.vertices = as_vertices(vertices)
        self.indices, self.offsets = _checked_faces(faces, len(self.vertices))
        for array in (self.vertices, self.indices, self.offsets):
            array.flags.writeable = False

    @classmethod
    def load(cls, path: Path) -> PolygonMesh:
        """Read the polygons of an OBJ, PLY or OFF file, also with .gz, as they are: :func:`meshsolve.load_mesh` cuts them to triangles.

        Positions keep their bits, polygons their order. Colors, texture coordinates and other data are not read.

        Raises
        ------
        InvalidInputError
            No such file, another extension, a damaged file; a polygon that the class does not accept (names it). The message begins
            with the file, and with the line where the text is wrong.

        Warns
        -----
        MeshsolveWarning
            Faces with fewer than three corners were left out.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import meshsolve as ms
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "house.obj"
        >>> house = ms.PolygonMesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0.5, 1.5, 0], [0, 1, 0]], [[0, 1, 2, 4], [4, 2, 3]])
        >>> house.save(path)
        >>> ms.PolygonMesh.load(path), path.read_text().splitlines()[-2:]
        (PolygonMesh(5 vertices, 2 polygons), ['f 1 2 3 5', 'f 5 3 4'])
        """
        polygons = files.read_polygons(path)
        offsets = np.append(0, np.cumsum(polygons.counts, dtype=np.int64))
        try:
            return cls(polygons.vertices, (polygons.corners, offsets))
        except InvalidInputError as e:
            raise InvalidInputError(f"{path}: {e}") from e

    def save(self, path: Path) -> None:
        """Write an OBJ, PLY or OFF file, also with .gz, completely or not at all. Every bit of the coordinates is kept.

        Raises
        ------
        InvalidInputError
            Another extension, a folder that does not exist.
        """
        files.write_polygons(path, self.vertices, self.indices, self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"PolygonMesh({len(self.vertices):,} vertices, {len(self):,} polygons)"

    @property
    def fan(self) -> Mesh:
        """The triangles of all polygons, as many as it has sides for each; the virtual vertices follow the n vertices."""
        return self._refined[0]

    @property
    def prolongation(self) -> sp.csr_array:
        """(n + m, n) csr_array: values at the vertices of :attr:`fan` from those at the n vertices. Rows sum to 1."""
        return self._refined[1]

    @functools.cached_property
    def _refined(self):
        """(fan, prolongation)."""
        n, m, face = len(self.vertices), len(self), np.repeat(np.arange(len(self)), np.diff(self.offsets))
        following = np.arange(1, len(self.indices) + 1)
        following[self.offsets[1:] - 1] = self.offsets[:-1]
        triangles = np.stack([self.indices, self.indices[following], n + face], axis=1)
        x = self._normalized(face)
        weights = self._weights(x, face, following)
        wrong = self._is_folded(x, weights, face, following)
        fan, P = self._fan_of(*self._cut(wrong, x, triangles, weights, face))
        mass = P.T @ np.bincount(triangles.ravel(), np.repeat(fan.face_areas / 3, 3), n + m)
        bad = (mass <= 0) & (np.bincount(self.indices, weights < 0, n) > 0)
        if bad.any():                                       # the virtual vertex takes more than all from a corner
            wrong |= np.bincount(face, bad[self.indices], m) > 0
            fan, P = self._fan_of(*self._cut(wrong, x, triangles, weights, face))
        return fan, P

    def _total(self, parts):
        """(m, ...) sums of the rows of each polygon."""
        return np.add.reduceat(parts, self.offsets[:-1], axis=0)

    def _normalized(self, face):
        """(c, 3) corners relative to the mean of their polygon, whose sum of squares is 1."""
        x = self.vertices[self.indices]
        x = x - (self._total(x) / np.diff(self.offsets)[:, None])[face]
        largest = np.maximum.reduceat(np.abs(x).max(axis=1), self.offsets[:-1])
        x = x / np.where(largest > 0, largest, 1)[face][:, None]        # in two steps: squares of small numbers vanish
        size = np.sqrt(self._total((x * x).sum(axis=1)))
        return x / np.where(size > 0, size, 1)[face][:, None]

    def _weights(self, x, face, following):
        """(c,) weight of each corner in the virtual vertex of its polygon. x: :meth:`_normalized`."""
        side = x[following] - x
        across = (side * side).sum(axis=1)[:, None, None] * np.eye(3) - side[:, :, None] * side[:, None]
        least = np.linalg.pinv(self._total(across), rcond=RANK, hermitian=True) @ self._total(across @ x[:, :, None])
        spread = np.linalg.pinv(self._total(x[:, :, None] * x[:, None]), rcond=RANK, hermitian=True) @ least
        return 1 / np.diff(self.offsets)[face] + (x * spread.reshape(len(self), 3)[face]).sum(axis=1)

    def _is_folded(self, x, weights, face, following):
        """(m,) bool: some triangles around the virtual vertex have another orientation than the polygon."""
        center = self._total(weights[:, None] * x)[face]
        area = np.cross(x - center, x[following] - center)
        whole = self._total(area)
        length, parts = np.linalg.norm(whole, axis=1), self._total(np.linalg.norm(area, axis=1))
        along = (area * (whole / np.where(length > 0, length, 1)[:, None])[face]).sum(axis=1)
        turned = np.minimum.reduceat(along, self.offsets[:-1]) < -FOLD * parts
        return (turned | (length < CANCELED * parts)) & (parts > FOLD)

    def _cut(self, wrong, x, triangles, weights, face):
        """Return triangles and weights with those of the polygons ``wrong``, (m,) bool, replaced by triangles of ear clipping."""
        if not wrong.any():
            return triangles, weights
        corner, counts = np.flatnonzero(wrong[face]), np.diff(self.offsets)[wrong]
        cut = corner[triangulated(Polygons(x[corner], np.arange(len(corner)), counts), "PolygonMesh: ")]
        area = np.linalg.norm(np.cross(x[cut[:, 1]] - x[cut[:, 0]], x[cut[:, 2]] - x[cut[:, 0]]), axis=1)
        order = np.lexsort((-area, face[cut[:, 0]]))        # the triangles of a polygon, the largest first
        cut, begin = cut[order], np.append(0, np.cumsum(counts - 2)[:-1])
        center, rest = cut[begin], np.delete(cut, begin, axis=0)
        triangles, weights = triangles.copy(), np.where(wrong[face], 0.0, weights)
        slots = np.flatnonzero(np.repeat(wrong, np.diff(self.offsets)))
        first = np.append(0, np.cumsum(counts)[:-1])
        for k in range(3):
            sides = self.indices[center[:, [k, (k + 1) % 3]]]
            triangles[slots[first + k]] = np.column_stack([sides, len(self.vertices) + np.flatnonzero(wrong)])
            weights[center[:, k]] = 1 / 3
        triangles[np.delete(slots, (first[:, None] + np.arange(3)).ravel())] = self.indices[rest]
        return triangles, weights

    def _fan_of(self, triangles, weights):
        n, m = len(self.vertices), len(self)
        rows = sp.csr_array((weights, self.indices, self.offsets), shape=(m, n))
        P = sp.csr_array(sp.vstack([sp.eye_array(n), rows]))
        P.eliminate_zeros()
        return Mesh(P @ self.vertices, triangles), P


def _checked_faces(faces, n):
    """(indices (c,) int32, offsets (m + 1,) int64), copies."""
    if isinstance(faces, tuple) and len(faces) == 2:
        indices, offsets = (as_array(part, name) for part, name in zip(faces, ("indices", "offsets"), strict=True))
    else:
        try:
            rows = [np.asarray(row) for row in faces]
            indices = np.concatenate(rows) if rows else np.zeros(0, int)
            offsets = np.append(0, np.cumsum([len(row) for row in rows], dtype=np.int64))
        except (TypeError, ValueError) as e:
            raise InvalidInputError("faces must be lists of vertex numbers, or (indices (c,), offsets (m + 1,)), got "
                                    f"{shown(faces)}") from e
    if indices.ndim != 1 or offsets.ndim != 1 or indices.dtype.kind not in "iu" or offsets.dtype.kind not in "iu" or len(offsets) < 2:
        raise InvalidInputError("faces must be lists of vertex numbers, or (indices (c,), offsets (m + 1,)) of integers, got "
                                f"{indices.dtype} of shape {indices.shape} and {offsets.dtype} of shape {offsets.shape}")
    offsets = offsets.astype(np.int64)
    if offsets[0] != 0 or offsets[-1] != len(indices) or (np.diff(offsets) < 0).any():
        raise InvalidInputError(f"offsets must ascend from 0 to {len(indices)}, the number of indices")
    face = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((indices, face))
    twice = np.flatnonzero((np.diff(indices[order]) == 0) & (np.diff(face[order]) == 0))
    for wrong, what in ((np.flatnonzero(np.diff(offsets) < 3), "has fewer than three corners"),
                        (face[(indices < 0) | (indices >= n)], f"has a corner outside the vertices 0..{n - 1}"),
                        (face[order][twice], "has a repeated corner")):
        if len(wrong):
            k = int(wrong.min())
            raise InvalidInputError(f"polygon {k} {what}: {indices[offsets[k]:offsets[k + 1]].tolist()}")
    return indices.astype(np.int32), offsets
