"""Points on a surface without faces: their neighbors, normals and local triangulations.

Each point has a star, the Delaunay triangles around it in its tangent plane among its nearest neighbors. Stars of different points
need not agree. All triangles of all stars form a surface for the operators of triangle soups, where each triangle may occur once for
each of its corners.

Source: Sharp & Crane 2020, "A Laplacian for nonmanifold triangle meshes", section 5.7. O(n k log(n k)) for k neighbors.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp
from scipy.sparse import csgraph

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, elements, files
from meshsolve.mesh.checks import as_vertices
from meshsolve.mesh.polygons import distinct_rows
from meshsolve.options import as_integer, counted, thread_count
from meshsolve.report import warn
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array
from meshsolve.types import Array, ArrayLike, Path

FEWEST = 4              # neighbors
BLOCK = 1 << 16         # points whose neighbors are searched at a time
MANY = 20               # neighbors from which open stars are those at boundaries
AGREE = 2.4             # stars with a triangle, on average, below which few neighbors are reported: 74 % of the area of a random sphere
COPY = 1e-7             # distance of two points relative to the radius of their neighborhood, up to which they share a position
ROUNDED = 1e-12         # the same relative to their coordinates: more near copies than neighbors leave no radius


class PointCloud(Sealed):
    """Points on a surface, as from a scanner, for Laplacians, masses, eigenfunctions and distances without a mesh.

    Parameters
    ----------
    points : (n, 3) array_like
        Points at ``neighbors`` + 1 positions at least, in any order.
    normals : (n, 3) array_like, optional
        Normals of any length except 0 and any sign. Default: those of the planes of least squares through each point and its
        neighbors.
    neighbors : int
        Number of nearest neighbors that define the surface around a point, at least 4. More neighbors tolerate more noise and more
        uneven points; fewer take less time. Fewer than 20 leave holes: of random points on a sphere 15 have 91 % of the area, 10 have
        74 % and 5 have 33 %.

    Attributes
    ----------
    vertices : (n, 3) float64, read-only
        The points.
    neighbors : int
    firsts : (d,) int64
        The points without copies: the first one at each position, ascending.
    position : (n,) int64
        Number of the position of each point: point i is a copy of ``firsts[position[i]]``.

    Raises
    ------
    InvalidInputError
        Arrays of another shape or kind, a coordinate that is not finite or beyond 1e70. Fewer points, without copies, than
        ``neighbors`` + 1. A normal of length 0 (names it).

    Warns
    -----
    MeshsolveWarning
        Few neighbors leave holes, or points without triangles. Given by the first call that needs triangles.

    Notes
    -----
    Points at the same position are copies, and so are points within 1e-7 of the radius of their neighborhood, or 1e-12 of their
    coordinates. Only the first has neighbors and triangles. Masses are divided among copies, and copies are joined. So areas, eigenvalues
    and distances are those of the cloud without copies, and eigenvectors have one value at all copies. A point with up to 8 copies has as
    many entries in the Laplacian for each copy of a neighbor. Sheets stay apart if their distance is not much less than that of adjacent
    points. Across a gap at a boundary, triangles join points that are neighbors.

    Examples
    --------
    >>> import meshsolve as ms
    >>> cloud = ms.PointCloud(ms.datasets.icosphere(3).vertices)
    >>> L, M = ms.cotan_laplacian(cloud), ms.mass_matrix(cloud)
    >>> L.shape, round(float(M.sum()), 2)
    ((642, 642), 12.51)
    >>> round(float(ms.apps.Geodesics(cloud).distance(0).max()), 1)
    3.1
    """

    def __init__(self, points: ArrayLike, normals: ArrayLike | None = None, *, neighbors: int = 30) -> None:
        if hasattr(points, "vertices"):
            raise InvalidInputError(f"points must be (n, 3) real numbers, got a {type(points).__name__}: give its vertices")
        self.vertices, self.neighbors = as_vertices(points, "points"), as_integer(neighbors, "neighbors", least=FEWEST)
        n = len(self.vertices)
        if n <= self.neighbors:
            raise InvalidInputError(f"neighbors={self.neighbors} must be less than the number of points, {n}: give more points" +
                                    (f", or neighbors={n - 1} or less" if n > FEWEST else ""))
        self._normals = None if normals is None else _as_normals(normals, n)
        self.vertices.flags.writeable = False
        self.firsts, self.position, self._nearest = _neighborhoods(self.vertices, self.neighbors)

    @classmethod
    def load(cls, path: Path, *, neighbors: int = 30) -> PointCloud:
        """Read the points of an OBJ, PLY or OFF file, also with .gz; faces are ignored. Normals of a PLY are used.

        Raises
        ------
        InvalidInputError
            No such file, another extension, a damaged file, or points that the class does not accept. The message begins with the
            file, and with the line where the text is wrong.
        """
        points, normals = files.read_points(path)
        try:
            return cls(points, normals, neighbors=neighbors)
        except InvalidInputError as e:
            raise InvalidInputError(f"{path}: {e}") from e

    def __len__(self) -> int:
        return len(self.vertices)

    def __repr__(self) -> str:
        return f"PointCloud({counted(len(self), 'point')}, neighbors={self.neighbors})"

    @functools.cached_property
    def normals(self) -> Array:
        """(n, 3) float64: unit normals, those that were given or those of planes of least squares, whose sign is arbitrary. 0 where
        the neighbors of a point lie on a line."""
        if self._normals is not None:
            return self._normals
        x = self.vertices[self.firsts].reshape(-1)
        return _core.plane_normals(x, self._nearest.reshape(-1), thread_count()).reshape(-1, 3)[self.position]

    @property
    def has_copies(self) -> bool:
        """True if several points share a position."""
        return len(self.firsts) < len(self)

    @functools.cached_property
    def distinct(self) -> PointCloud:
        """The cloud of the points ``firsts``; this cloud if no point has a copy."""
        if not self.has_copies:
            return self
        cloud = object.__new__(PointCloud)
        cloud.vertices, cloud.neighbors, cloud._nearest = self.vertices[self.firsts], self.neighbors, self._nearest
        cloud.firsts = cloud.position = np.arange(len(self.firsts))
        cloud._normals = None if self._normals is None else self._normals[self.firsts]
        cloud.vertices.flags.writeable = False
        return cloud

    @property
    def stars(self) -> Mesh:
        """The triangles of all stars, up to three times each. For operators and pictures; not manifold."""
        return self._stars[0]

    @property
    def rounds(self) -> Array:
        """(t,) int32: the number of equal triangles in :attr:`stars` from stars of lower points: 0, 1 or 2."""
        return self._stars[1]

    @property
    def edges(self) -> Array:
        """(e, 2) int32: lower and higher point of each edge of :attr:`stars`, in lexicographic order."""
        return self.stars.edges

    @property
    def edge_lengths(self) -> Array:
        """(e,) float64: the length of each edge."""
        return self.stars.edge_lengths

    @property
    def components(self) -> Array:
        """(n,) int32: the connected component of each point. A point without triangles is a component with its copies."""
        if not self.has_copies:
            return self.stars.components
        return np.unique(self.stars.components[self.firsts][self.position], return_inverse=True)[1].astype(np.int32)

    @functools.cached_property
    def _stars(self):
        x, normals = (part[self.firsts].reshape(-1) for part in (self.vertices, self.normals))
        triangles, rounds = _core.delaunay_stars(x, self._nearest.reshape(-1), normals, thread_count())
        if len(triangles) == 0:
            raise InvalidInputError("the points lie on a line: a PointCloud needs points on a surface")
        alone = np.bincount(triangles, minlength=len(self.firsts)) == 0
        if alone.any():
            warn(f"{counted(int(np.count_nonzero(alone)), 'point')} without triangles, because the neighbors lie on a line; the first is "
                 f"{int(self.firsts[alone.argmax()])}", MeshsolveWarning)
        agreeing = len(rounds) / np.count_nonzero(rounds == 0)
        if self.neighbors < MANY and agreeing < AGREE:
            warn(f"neighbors={self.neighbors} are too few: a triangle is in the stars of {agreeing:.1f} of its 3 corners on average, so "
                 "there are holes, and areas are too small. Give more neighbors", MeshsolveWarning)
        return Mesh(self.vertices, self.firsts[triangles].reshape(-1, 3)), rounds


def _as_normals(normals, n):
    """(n, 3) unit normals."""
    given = as_array(normals, "normals")
    if given.shape != (n, 3) or given.dtype.kind not in "fiu":
        raise InvalidInputError(f"normals must be ({n}, 3) real numbers, a row for each point, got shape {given.shape} of {given.dtype}")
    given = given.astype(np.float64)
    bad = ~(np.isfinite(given).all(axis=1) & (given != 0).any(axis=1))
    if bad.any():
        k = int(bad.argmax())
        raise InvalidInputError(f"normal {k} must be finite and not 0, got {given[k].tolist()}")
    return elements.unit(given)


def _neighborhoods(x, k):
    """(firsts (d,), position (n,), nearest (d, k) int32): positions of the points, and the nearest others of each."""
    firsts, position = distinct_rows(x)
    while True:
        if len(firsts) <= k:
            raise InvalidInputError(f"neighbors={k} must be less than the number of positions of points, {len(firsts)}: give more points" +
                                    (f", or neighbors={len(firsts) - 1} or less" if len(firsts) > FEWEST else ""))
        nearest, is_copy = _nearest_points(x[firsts], k)
        if not is_copy.any():
            return firsts, position, nearest
        at = np.flatnonzero(is_copy)
        pairs = sp.coo_array((np.ones(len(at), np.int8), (at, nearest[at, 0])), shape=(len(firsts),) * 2)
        _, group = csgraph.connected_components(pairs, directed=False)      # numbered by their first points, which ascend
        firsts, position = firsts[np.unique(group, return_index=True)[1]], group[position].astype(np.int64)


def _nearest_points(x, k):
    """((n, k) int32 nearest neighbors of each point, ascending by distance, without itself; (n,) True if the first is a copy)."""
    from scipy.spatial import cKDTree  # takes long to import

    n, tree, workers = len(x), cKDTree(x), thread_count()
    nearest, is_copy = np.empty((n, k), np.int32), np.empty(n, bool)
    for begin in range(0, n, BLOCK):
        part = slice(begin, min(n, begin + BLOCK))
        distance, found = tree.query(x[part], k + 1, workers=workers)
        own = found == np.arange(begin, part.stop)[:, None]
        own[~own.any(axis=1), -1] = True                # distances of 1e-200 have squares of 0
        nearest[part], distance = found[~own].reshape(-1, k), distance[~own].reshape(-1, k)
        is_copy[part] = distance[:, 0] <= np.maximum(COPY * distance[:, -1], ROUNDED * np.abs(x[part]).max(axis=1))
    return nearest, is_copy
