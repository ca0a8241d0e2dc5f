"""Geodesic distances by the heat method, and what heat transports on a surface, on factors that are kept for further sources.

Heat flows for a short time t from the sources. Its gradient points away from them, and the potential whose gradient is closest to
those directions, in the least-squares sense, is the distance. The triangles are intrinsic Delaunay ones: without negative weights
heat is positive everywhere, on slivers as well.

Sources: Crane, Weischedel, Wardetzky 2013 (algorithm 1); Sharp, Crane 2020 (intrinsic Delaunay triangles); Sharp, Soliman, Crane
2019 and Soliman, Sharp 2025 (:mod:`meshsolve.apps.geodesics.vector_heat`); Feng, Crane 2024
(:mod:`meshsolve.apps.geodesics.signed_heat`).
Cost: two Cholesky factors, then two solves and O(faces) operations for each column of distances.
"""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.api import cholesky
from meshsolve.apps.geodesics.curves import segments_of
from meshsolve.apps.geodesics.heat import LEVELS, ScalarHeat, with_units
from meshsolve.apps.geodesics.signed_heat import LEVEL_SETS, SignedHeat
from meshsolve.apps.geodesics.slopes import SLOPES, SolidSlopes
from meshsolve.apps.geodesics.sources import Points, columns_of, points_of
from meshsolve.apps.geodesics.vector_heat import VectorHeat
from meshsolve.device import to_host
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.checks import require_width
from meshsolve.mesh.measures import mean_edges, without_shape
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.mesh.tets import TetMesh
from meshsolve.operators import cotan_laplacian, mass_matrix
from meshsolve.operators.intrinsic import intrinsic_delaunay
from meshsolve.options import as_number, is_auto, one_of, thread_count
from meshsolve.report import Report
from meshsolve.seal import Sealed
from meshsolve.sparse.places import place_for
from meshsolve.types import Array, ArrayLike, Auto, Device

WIDTH = 16              # columns of distances that are solved for together
LOG_MAPS = ("vector", "affine")


class Geodesics(Sealed):
    """Distances, curves, vectors and maps on one mesh, by heat.

    Distances accept meshes of any size, unit and quality: boundaries, non-manifold edges, several components. The other methods
    need a manifold surface with faces that are oriented alike. Solids have distances through their inside (``distance``, ``each``)
    and ``extend``. Their points are given as ``(cells, barycentric (p, 4))``. Point clouds have the same methods as solids; their
    sources are points of the cloud.

    Parameters
    ----------
    mesh : Mesh, TetMesh, PointCloud, trimesh.Trimesh or meshio.Mesh
        With n vertices.
    t : "auto" or float
        Time of the heat flow, in squared units of length. ``"auto"``: the squared mean edge length of each component. A larger t
        gives smoother distances.
    device : {"auto", "cpu", "cuda"}
        Where the factors lie and solve. Results are numpy arrays.
    threads : int, optional

    Attributes
    ----------
    report : Report

    Raises
    ------
    InvalidInputError
        Not a mesh, no face, t not positive; points of a PointCloud that lie on a line; a component less than 1e-70 wide. A source of
        ``extend``, ``transport``, ``log_map`` or ``signed_distance`` in a component whose faces have no area.

    Notes
    -----
    On a coarse mesh the distances are those of the method, not of the surface: a right triangle with unit legs has (0, 0.71,
    0.71). In a solid, slivers have negative weights, and heat may not be positive everywhere; then t is raised as for heat that
    underflows.

    Examples
    --------
    >>> import meshsolve as ms
    >>> sphere = ms.datasets.icosphere(4)
    >>> G = ms.apps.Geodesics(sphere)
    >>> bool(abs(G.distance(0).max() - 3.14159) < 0.03)
    True
    >>> G.each([0, 5]).shape
    (2562, 2)
    """

    def __init__(self, mesh: MeshLike, t: Auto | float = "auto", device: Device = "auto", threads: int | None = None) -> None:
        mesh = _checked(mesh)
        self._given, self._positions = mesh, slice(None)        # of each point; copies in a cloud share one
        if isinstance(mesh, PointCloud) and mesh.has_copies:
            self._positions, mesh = mesh.position, mesh.distinct
        self._mesh = mesh
        self.report = Report(threads=thread_count(threads))
        self._options: dict[str, Any] = {"device": place_for(device, size=len(mesh.vertices)), "threads": threads}
        with self.report.phase("operators"):
            self._flat = np.zeros(len(mesh.vertices), bool) if isinstance(mesh, TetMesh) else without_shape(_surface_of(mesh))
            laplacian, mass, self._slopes = self._operators()
            laplacian = with_units(laplacian, self._flat) if self._flat.any() else laplacian
            self._time = _squared_mean_edges(mesh) if is_auto(t) else np.full(len(mesh.vertices), as_number(t, "t", above=True))
        self._components, self._count = mesh.components, int(mesh.components.max()) + 1
        with self.report.phase("factor"):
            self._poisson = cholesky(laplacian + _pins(laplacian, self._components), **self._options)
        self._heat = ScalarHeat(laplacian, np.where(self._flat, 0, mass / self._time), self._options, self.report, self._poisson.symbolic)

    @property
    def level(self) -> int:
        """The power of 4 that multiplied t for the last sources.

        Heat decays by a factor of about e for each edge and underflows 700 edges from its source. Sources for which it does are
        solved again with 4 t, 16 t, ...
        """
        return self._heat.level

    @property
    def frames(self) -> Array:
        """(n, 2, 3) float64: two orthonormal tangents at each vertex, axes of :meth:`log_map`; 0 at vertices without faces."""
        return self._vectors.planes.frames

    def distance(self, sources: ArrayLike | tuple[ArrayLike, ArrayLike]) -> Array:
        """Distances to the nearest of a set of sources.

        Parameters
        ----------
        sources : (s,) integers, one integer, or (faces (p,), barycentric (p, 3))
            Vertices, or points in faces by their barycentric coordinates.

        Returns
        -------
        (n,) float64
            0 at vertices that are sources, infinite on components without a source.

        Raises
        ------
        InvalidInputError
            No source, a source outside the mesh, coordinates that are negative or do not sum to 1.
        """
        points = self._on_positions(points_of(self._given, sources))
        out = np.empty((len(self._time), 1))
        self._distances(points, np.zeros(len(points), np.int32), out)
        return out[self._positions, 0]

    def each(self, sources: ArrayLike | tuple[ArrayLike, ArrayLike] | list[Any]) -> Array:
        """Distances to each source alone, or to each of several sets: (n, s), a column for each.

        An array or a tuple, as in :meth:`distance`, has a column for each source. A list of arrays or tuples, as
        ``[[0, 1], [7]]``, has a column for each of them: the distance to the nearest of the set. Errors are those of
        :meth:`distance`.
        """
        points, columns = columns_of(self._given, sources)
        points = self._on_positions(points)
        count = int(columns[-1]) + 1
        out = np.empty((len(self._time), count))
        for begin in range(0, count, WIDTH):
            chosen = slice(*np.searchsorted(columns, [begin, begin + WIDTH]))
            self._distances(points[chosen], columns[chosen] - begin, out[:, begin:begin + WIDTH])
        return out[self._positions]

    def signed_distance(self, curve: Any, level_set: Literal["zero", "each"] | None = "zero") -> Array:
        """Distances to a curve or to several, positive on their left, negative on their right.

        Curves may be open, and a closed curve may have gaps. Left is counterclockwise where the normals of the faces point to the
        viewer.

        Parameters
        ----------
        curve : (p,) integers, (faces (p,), barycentric (p, 3)), or a list of such curves
            A path of vertices that are joined by edges, or points in faces and on edges. Between points in different faces the
            curve is split where it crosses edges. A closed curve ends with its first point.
        level_set : {"zero", "each"} or None
            ``"zero"``: the distance is 0 on all curves. ``"each"``: it is constant on each curve, with mean 0 along all. None:
            its mean along the curves of each component is 0. Values are exact at vertices, and approximate where a curve crosses
            faces.

        Returns
        -------
        (n,) float64
            Infinite on components without a curve.

        Raises
        ------
        InvalidInputError
            No curve, a curve of one point, a point outside the mesh. Consecutive vertices that no edge joins, or points without a path
            between them (names them). Curves that cancel each other. A mesh that is not manifold and oriented (names the edge).
        MeshsolveError
            Heat does not reach every face.

        Notes
        -----
        One solve with a factor of twice as many rows as edges, made at the first call, and one with a factor of n rows.
        Source: Feng, Crane 2024, "A heat method for generalized signed distance".

        Examples
        --------
        >>> import meshsolve as ms
        >>> corners = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0]]
        >>> flat = ms.Mesh(corners, [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 1]])
        >>> (ms.apps.Geodesics(flat).signed_distance([3, 0, 1]).round(2) + 0.0).tolist()
        [0.0, 0.0, 1.0, 0.0, -1.0]
        """
        if level_set is not None:
            one_of(level_set, "level_set", LEVEL_SETS)
        self._require_surface("signed distances need")
        segments = segments_of(self._mesh, curve)
        self._require_shape(self._mesh.faces[segments.faces])
        return self._signed.distance(segments, level_set)

    def transport(self, sources: ArrayLike | tuple[ArrayLike, ArrayLike], vectors: ArrayLike) -> Array:
        """Transport tangent vectors from their sources to all vertices, in parallel along shortest paths.

        Parameters
        ----------
        sources : as in :meth:`distance`
        vectors : (s, 3) float64
            A vector at each source; (3,) for one source. Components orthogonal to the surface have no effect.

        Returns
        -------
        (n, 3) float64
            Tangent vectors, with the length of the vector at the nearest source. NaN on components without a source.

        Raises
        ------
        InvalidInputError
            As :meth:`distance`; vectors of another shape or with NaN (names the source); a mesh that is not manifold and oriented
            (names the edge).

        Notes
        -----
        Solves with a factor of 2 n rows, made at the first call, and with the heat factor. Where as much comes from opposite
        sides, the direction is arbitrary. Source: Sharp, Soliman, Crane 2019, "The vector heat method", algorithm 1.

        Examples
        --------
        >>> import meshsolve as ms
        >>> flat = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [1, 3, 2]])
        >>> bool(abs(ms.apps.Geodesics(flat).transport(0, [3, 4, 0]) - [3, 4, 0]).max() < 1e-9)
        True
        """
        points = points_of(self._mesh, sources)
        given = np.atleast_2d(np.asarray(vectors, dtype=np.float64))
        if given.shape != (len(points), 3):
            raise InvalidInputError(f"vectors must be ({len(points)}, 3), a row for each source, got shape {given.shape}")
        _require_finite(given, "vectors")
        z = self._vectors.in_frames(points, given)
        lengths = self._shares(points, np.abs(z[:, :1]))[:, 0]
        out = self._vectors.planes.vectors(self._vectors.field(points.load(len(lengths), z), self.level) * lengths)
        out[np.isnan(lengths)] = np.nan
        return out

    def extend(self, sources: ArrayLike | tuple[ArrayLike, ArrayLike], values: ArrayLike) -> Array:
        """Extend values at sources to all vertices: each vertex gets about the value of the nearest source.

        Parameters
        ----------
        sources : as in :meth:`distance`
        values : (s,) or (s, k) float64

        Returns
        -------
        (n,) or (n, k) float64
            Within the range of the values. NaN on components without a source.

        Raises
        ------
        InvalidInputError
            As :meth:`distance`; another number of values, or NaN (names the source).

        Notes
        -----
        One solve with the heat factor for all columns. Source: Sharp, Soliman, Crane 2019, "The vector heat method", section 3.2.

        Examples
        --------
        >>> import meshsolve as ms
        >>> G = ms.apps.Geodesics(ms.datasets.icosphere(3))
        >>> G.extend([0, 5], [1.0, 2.0]).shape
        (642,)
        """
        points, given = self._on_positions(points_of(self._given, sources)), np.asarray(values, dtype=np.float64)
        if given.ndim not in (1, 2) or len(given) != len(points):
            raise InvalidInputError(f"values must be ({len(points)},) or ({len(points)}, k), a row for each source, "
                                    f"got shape {given.shape}")
        _require_finite(given, "values")
        out = self._shares(points, given.reshape(len(points), -1))[self._positions]
        return out.reshape(-1, *given.shape[1:])

    def log_map(self, source: int | tuple[ArrayLike, ArrayLike], method: Literal["vector", "affine"] = "vector") -> Array:
        """Compute the logarithmic map: coordinates in the tangent plane of a source, by length and direction of shortest paths.

        Parameters
        ----------
        source : integer, or (face, barycentric (3,))
            A vertex, or a point in a face or on an edge.
        method : {"vector", "affine"}
            ``"vector"``: the distance, in the direction of its gradient. ``"affine"``: exact in a plane, and directions are several
            times more accurate; lengths are shorter than the distances far from the source.

        Returns
        -------
        (n, 2) float64
            Along the axes ``frames[source]``. For a point in a face the first axis is along its side from corner 0 to corner 1,
            and the second is 90 degrees to its left. (0, 0) at a source vertex; NaN on other components.

        Raises
        ------
        InvalidInputError
            As :meth:`distance`; more than one source; another method; a mesh that is not manifold and oriented (names the edge).

        Notes
        -----
        ``"vector"``: the distance, and a solve with a factor of 2 n rows, made at the first call. ``"affine"``: two solves with that
        factor, one with a heat factor of n rows. Undefined where several shortest paths end.
        Sources: Sharp, Soliman, Crane 2019, "The vector heat method", section 8.2, with the gradient of the distance as radial
        field; Soliman, Sharp 2025, "The affine heat method" (the variant on kept factors).

        Examples
        --------
        >>> import meshsolve as ms
        >>> G = ms.apps.Geodesics(ms.datasets.icosphere(4))
        >>> (abs((G.log_map(0) ** 2).sum(axis=1) ** 0.5 - G.distance(0)).mean() < 0.02).item()
        True
        """
        points = points_of(self._mesh, source, "source")
        if len(points) != 1:
            raise InvalidInputError(f"source must be one point, got {len(points)}")
        if one_of(method, "method", LOG_MAPS) == "affine":
            reached = self._reached(points, np.zeros(1, int))[:, 0]
            return np.where(reached[:, None], self._vectors.affine_log_map(points, reached), np.nan)
        distance = self.distance(source)
        out = self._vectors.log_map(points, np.where(np.isinf(distance), 0, distance), self.level)
        out[np.isinf(distance)] = np.nan
        return out

    @functools.cached_property
    def _vectors(self):
        self._require_surface("tangent vectors need")
        with self.report.phase("operators"):
            return VectorHeat(self._mesh, self._time, self._flat, self._options, self.report)

    @functools.cached_property
    def _signed(self):
        with self.report.phase("operators"):
            return SignedHeat(self._mesh, self._time, self._flat, self._options, self.report, LEVELS)

    def _on_positions(self, points):
        """The same points with numbers of positions."""
        return points if self._given is self._mesh else Points(self._positions[points.vertices], points.weights)

    def _operators(self):
        """(Laplacian, (n,) masses, slopes) of the surface or solid."""
        place, threads = self._options["device"], self.report.facts["threads"]
        if isinstance(self._mesh, TetMesh):
            return with_units(cotan_laplacian(self._mesh)), mass_matrix(self._mesh).diagonal(), SolidSlopes(self._mesh, place, threads)
        triangles = intrinsic_delaunay(self._mesh)
        return triangles.laplacian(), triangles.mass().diagonal(), SLOPES[place](triangles, threads)

    def _require_surface(self, what):
        if isinstance(self._mesh, TetMesh):
            raise InvalidInputError(f"{what} a surface, got a TetMesh: give its surface()")
        if isinstance(self._mesh, PointCloud):
            raise InvalidInputError(f"{what} a surface with faces, got a PointCloud: give a Mesh")

    def _require_shape(self, vertices):
        """Raise if a vertex is in a component without area."""
        if (flat := self._flat[vertices]).any():
            raise InvalidInputError(f"vertex {vertices[flat][0]} is in a component whose faces have no area: there are no distances in it: "
                                    "remove it, or choose other points")

    def _shares(self, points, values):
        """(n, k) mean values (s, k) of the sources, weighted by the heat that comes from each; NaN where none comes."""
        reached, n = self._reached(points, np.zeros(len(points), int)), len(self._time)
        factor, heat = self._heat.flow(*points.entries(), reached)
        if len(points) == 1:
            return np.where(reached, values, np.nan)
        with self.report.phase("solve"):
            warm = factor.solve(np.stack([points.load(n, column[:, None]) for column in values.T], axis=1))
        heat = np.where(reached, to_host(heat), np.nan)
        return np.clip(warm / heat, values.min(axis=0), values.max(axis=0))

    def _distances(self, points, columns, out):
        """Write distances for k columns of sources to ``out`` (n, k); ``columns`` (s,) has the column of each point."""
        _, heat = self._heat.flow(*points.entries(columns), self._with_source(points, columns) & ~self._flat[:, None])
        b = self._slopes(heat)
        with self.report.phase("solve"):
            phi = to_host(self._poisson.solve(b))
        phi[self._flat] = 0                                 # components on a line or at a point: straight distances are exact
        shift = self._at_sources(phi, points, columns)
        at = points.positions(self._mesh.vertices)
        if len(points) == phi.shape[1]:
            x = self._mesh.vertices.reshape(-1)
            _core.shift_distances(x, self._components, shift, at.reshape(-1), phi, out, self._slopes.threads)
        else:
            from scipy.spatial import cKDTree  # takes long to import

            x = self._mesh.vertices
            if self._count > 1:                             # a fourth coordinate, so that the nearest source is in the same component
                apart = 4 * np.ptp(np.concatenate([x, at]), axis=0).sum() * np.arange(self._count)
                x = np.column_stack([x, apart[self._components]])
                at = np.column_stack([at, apart[self._components[points.vertices[:, 0]]]])
            straight = [cKDTree(at[columns == k]).query(x)[0] for k in range(phi.shape[1])]
            out[:] = np.maximum(phi - shift[self._components], np.stack(straight, axis=1))
        source, corner = np.nonzero(points.weights == 1)
        out[points.vertices[source, corner], columns[source]] = 0

    def _reached(self, points, columns):
        """(n, k) True where a component has a source of the column. Raises if a source is in a component without area."""
        self._require_shape(points.vertices)
        return self._with_source(points, columns)

    def _with_source(self, points, columns):
        has = np.zeros((self._count, max(columns) + 1), bool)
        has[self._components[points.vertices[:, 0]], columns] = True
        return np.broadcast_to(True, (len(self._time), has.shape[1])) if has.all() else has[self._components]

    def _at_sources(self, phi, points, columns):
        """(parts, k) for each component, the mean potential of its sources, less their way to the corners; -infinity on
        components without a source."""
        way = np.linalg.norm(self._mesh.vertices[points.vertices] - points.positions(self._mesh.vertices)[:, None], axis=2)
        value = (points.weights * (phi[points.vertices, columns[:, None]] - way)).sum(axis=1)
        total, count = np.zeros((2, self._count, phi.shape[1]))
        np.add.at(total, (self._components[points.vertices[:, 0]], columns), value)
        np.add.at(count, (self._components[points.vertices[:, 0]], columns), 1)
        return np.where(count > 0, total / np.maximum(count, 1), -np.inf)


@takes_arrays
def _checked(mesh):
    return require_width(mesh if isinstance(mesh, (TetMesh, PointCloud)) else checked_mesh(mesh))


def _surface_of(mesh):
    return mesh.stars if isinstance(mesh, PointCloud) else mesh


def _require_finite(given, name):
    bad = ~np.isfinite(given.reshape(len(given), -1)).all(axis=1)
    if bad.any():
        k = int(bad.argmax())
        raise InvalidInputError(f"{name}[{k}] must be finite, got {given[k].tolist()}")


def _pins(L, components):
    """A diagonal matrix with an entry for the first vertex of each component. Its sum with L is definite."""
    first = np.unique(components, return_index=True)[1]
    size = L.diagonal()[first]
    return sp.coo_array((np.where(size > 0, size, 1.0), (first, first)), shape=L.shape)


def _squared_mean_edges(mesh):
    """(n,) the squared mean edge length of each vertex' component; where it is 0, the largest mean of all, or 1."""
    mean = mean_edges(mesh)
    return np.where(mean > 0, mean, mean.max() or 1)[mesh.components] ** 2
