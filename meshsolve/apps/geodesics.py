"""Geodesic distances by the heat method, on a factor that is kept for further sources.

Heat flows for a short time t from the sources. Its gradient points away from them, and the potential whose gradient is closest to those
directions, in the least-squares sense, is the distance. The triangles are intrinsic Delaunay ones: without negative weights heat is
positive everywhere, on slivers as well.

Sources: Crane, Weischedel, Wardetzky 2013 (algorithm 1); Sharp, Crane 2020 (intrinsic Delaunay triangles).
Cost: two Cholesky factors, then two solves and O(faces) operations for each column of distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.operators.intrinsic import intrinsic_delaunay
from meshsolve.options import as_number, is_auto, thread_count
from meshsolve.report import Report
from meshsolve.types import Array, ArrayLike, Auto, Device

LEAST_HEAT = 1e-290     # less is near the smallest double, about 1e-308: directions would be rounding errors, then 0 / 0
LEVELS = 12             # of t, each 4 times the one before: for meshes up to a million edges across
WIDTH = 16              # columns of distances that are solved for together
SUM_TOLERANCE = 1e-8    # barycentric coordinates sum to 1 and are not negative to within this


class Geodesics:
    """Distances on one mesh, of any size, unit and quality: boundaries, non-manifold edges, several components are fine.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With n vertices.
    t : "auto" or float
        Time of the heat flow, in squared units of length. ``"auto"``: the squared mean edge length of each component. A larger t gives
        smoother distances.
    device : {"auto", "cpu", "cuda"}
        Where the factors lie and solve.
    threads : int, optional

    Attributes
    ----------
    level : int
        Heat decays by a factor of about e for each edge and underflows 700 edges from its source. Sources for which it does are solved
        again with 4 t, 16 t, ...: ``level`` is the power of 4 that was needed last.
    report : Report

    Raises
    ------
    InvalidInputError
        Not a mesh, no face, t not positive.

    Notes
    -----
    On a coarse mesh the distances are those of the method, not of the surface: a right triangle with unit legs has (0, 0.71, 0.71).

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
        self._mesh = mesh = _checked(mesh)
        self.level, self.report = 0, Report(threads=thread_count(threads))
        self._options: dict[str, Any] = {"device": device, "threads": threads}
        with self.report.phase("operators"):
            triangles = intrinsic_delaunay(mesh)
            self._laplacian, self._gradient, self._divergence = triangles.laplacian(), triangles.gradient(), triangles.divergence()
            time = _squared_mean_edges(mesh) if is_auto(t) else np.full(len(mesh.vertices), as_number(t, "t", above=True))
            self._mass = triangles.mass().diagonal() / time
        self._components, self._count = mesh.components, int(mesh.components.max()) + 1
        with self.report.phase("factor"):
            self._poisson = cholesky(self._laplacian, pin=True, **self._options)
        self._heat_factors: list[Any] = []

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
        columns, weights = self._points(sources)
        load = np.bincount(columns.ravel(), weights.ravel(), minlength=len(self._mass))[:, None]
        return self._distances(load, [(columns, weights)])[:, 0]

    def each(self, sources: ArrayLike | tuple[ArrayLike, ArrayLike]) -> Array:
        """Distances to each source alone: (n, s), a column for each; as :meth:`distance` otherwise."""
        columns, weights = self._points(sources)
        out = np.empty((len(self._mass), len(columns)))
        for begin in range(0, len(columns), WIDTH):
            part = slice(begin, begin + WIDTH)
            points = list(zip(columns[part, None], weights[part, None], strict=True))
            load = np.zeros((len(self._mass), len(points)))
            np.add.at(load, (columns[part], np.arange(len(points))[:, None]), weights[part])
            out[:, part] = self._distances(load, points)
        return out

    def _points(self, sources):
        """Sources as (vertices (s, c), weights (s, c)): c = 1 for vertices, 3 for points in faces."""
        if isinstance(sources, tuple):
            return self._points_in_faces(*sources)
        vertices = np.atleast_1d(np.asarray(sources))
        if vertices.size == 0:
            raise InvalidInputError("sources must have at least one vertex, got none")
        if vertices.ndim != 1 or vertices.dtype.kind not in "iu":
            raise InvalidInputError(f"sources must be vertex numbers, got an array of {vertices.dtype} of shape {vertices.shape}; "
                                    "points in faces are given as a tuple (faces, barycentric)")
        outside = (vertices < 0) | (vertices >= len(self._mass))
        if outside.any():
            k = int(outside.argmax())
            raise InvalidInputError(f"sources[{k}] must be a vertex number below {len(self._mass)}, got {vertices[k]}")
        return vertices[:, None], np.ones((len(vertices), 1))

    def _points_in_faces(self, faces, barycentric):
        faces, weights = np.atleast_1d(np.asarray(faces)), np.atleast_2d(np.asarray(barycentric, dtype=np.float64))
        if faces.size == 0 or weights.shape != (len(faces), 3) or faces.dtype.kind not in "iu":
            raise InvalidInputError(f"sources must be (faces (p,), barycentric (p, 3)), got shapes {faces.shape} and {weights.shape}")
        count = len(self._mesh.faces)
        bad = (faces < 0) | (faces >= count) | ~(abs(weights.sum(axis=1) - 1) <= SUM_TOLERANCE) | ~(weights >= -SUM_TOLERANCE).all(axis=1)
        if bad.any():
            k = int(bad.argmax())
            raise InvalidInputError(f"source {k} must lie in a face below {count}, with coordinates that are not negative and sum to 1; "
                                    f"got face {faces[k]}, coordinates {weights[k].tolist()}")
        return self._mesh.faces[faces], np.maximum(weights, 0)

    def _distances(self, load, points):
        """(n, k) distances for k columns of sources."""
        reached = self._reached(load)
        with self.report.phase("solve"):
            slope = (self._gradient @ self._heat(load, reached)).reshape(2, -1, load.shape[1])
            slope /= np.abs(slope).max(axis=0).clip(1e-300)                     # tiny far away; only directions matter
            slope /= -np.sqrt((slope * slope).sum(axis=0)).clip(1e-300)
            phi = self._poisson.solve(-(self._divergence @ slope.reshape(-1, load.shape[1])))
        for column, (vertices, weights) in enumerate(points):
            phi[:, column] -= self._at_sources(phi[:, column], vertices, weights)
            np.maximum(phi[:, column], self._straight(vertices, weights), out=phi[:, column])
            phi[vertices[weights == 1], column] = 0
        phi[~reached] = np.inf
        return phi

    def _reached(self, load):
        """(n, k) True where a component has a source of the column."""
        has = np.zeros((self._count, load.shape[1]), bool)
        vertices, columns = np.nonzero(load)
        has[self._components[vertices], columns] = True
        return has[self._components]

    def _heat(self, load, reached):
        """Heat at the vertices after a time at which it is positive wherever it can flow."""
        for self.level in range(LEVELS):
            if self.level == len(self._heat_factors):
                A = sp.csr_array(self._laplacian + sp.diags_array(self._mass / 4**self.level))
                alone = sp.diags_array((A.diagonal() == 0).astype(float))       # vertices without faces
                self._heat_factors.append(cholesky(A + alone, **self._options))
            heat = self._heat_factors[self.level].solve(load)
            if heat[reached].min() > LEAST_HEAT:
                return heat
        raise MeshsolveError(f"heat does not reach every vertex in {4**self.level} squared mean edge lengths of time: the mesh has more "
                             "than a million edges from one end to the other; give a larger t")

    def _at_sources(self, phi, vertices, weights):
        """(n,) for each component, the mean potential of its sources, less their way to the corners of their faces."""
        position = self._mesh.vertices[vertices]
        point = (weights[:, :, None] * position).sum(axis=1)
        way = np.linalg.norm(position - point[:, None], axis=2)
        value = (weights * (phi[vertices] - way)).sum(axis=1)
        part = self._components[vertices[:, 0]]
        mean = np.bincount(part, value, self._count) / np.bincount(part, minlength=self._count).clip(1)
        return mean[self._components]

    def _straight(self, vertices, weights):
        """(n,) distances to the nearest source in a straight line: a lower bound, 0 at a source."""
        x, points = self._mesh.vertices, (weights[:, :, None] * self._mesh.vertices[vertices]).sum(axis=1)
        if len(points) == 1:
            return np.linalg.norm(x - points, axis=1)
        from scipy.spatial import cKDTree  # takes long to import

        return cKDTree(points).query(x)[0]


@takes_arrays
def _checked(mesh):
    return checked_mesh(mesh)


def _squared_mean_edges(mesh):
    """(n,) the squared mean edge length of each vertex' component; 1 for vertices without edges."""
    length, part = mesh.edge_lengths, mesh.components[mesh.edges[:, 0]]
    count = int(mesh.components.max()) + 1
    mean = np.bincount(part, length, count) / np.bincount(part, minlength=count).clip(1)
    return np.where(mean > 0, mean, 1)[mesh.components] ** 2
