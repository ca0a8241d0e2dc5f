"""Signed distances to curves: heat carries the normals of the curves, and the distance is the potential that is closest to them.

Each edge has one complex number: a vector in the frame of the edge direction. It stands for a field that is linear on each face
and continuous at the midpoints of the edges (Crouzeix-Raviart). In one face all edges are in a plane, so the matrix of each face
is Hermitian and positive semidefinite, whatever its shape.

Source: Feng, Crane 2024, "A heat method for generalized signed distance", sections 3 to 5.
Cost: a Cholesky factor of 2 e rows for e edges, kept; for each call a solve, and a factor of n rows.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve.api import cholesky
from meshsolve.apps.geodesics.heat import with_units
from meshsolve.apps.geodesics.vector_heat import unit
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.mesh.elements import FLATTEST
from meshsolve.operators import cotan_laplacian, divergence
from meshsolve.operators.connection import TangentPlanes, real_form
from meshsolve.seal import Sealed

LEVEL_SETS = ("zero", "each")
LEAST = 1e-290          # smallest size of a field whose direction is more than rounding error
CANCELED = 1e-12        # size of the sums of normals at edges, relative to the length of the curves, that is rounding error
HELD = 1e-9             # smallest mass over time, relative to the diagonal entry: faces without area keep a regular matrix
PENALTY = 10.0          # weight of squared differences from the level of a curve, integrated along it, in 1 / side of a face


class SignedHeat(Sealed):
    """Signed distances on one mesh.

    Parameters
    ----------
    mesh : Mesh
        Checked; manifold, with faces that are oriented alike.
    time : (n,) float64
        Time of scalar heat; a quarter of it serves here, because unknowns at edges are half as far apart as vertices.
    flat : (n,) bool
        Vertices of components without area, which are left out.
    options : dict
        ``device`` and ``threads`` of the factors.
    report : Report
        Gets the seconds of ``factor`` and ``solve``.
    levels : int
        Number of times, each 4 times the one before, that are tried until heat reaches all faces.
    """

    def __init__(self, mesh, time, flat, options, report, levels):
        self._mesh, self._options, self._report, self._levels = mesh, options, report, levels
        self.planes = TangentPlanes(mesh)
        ascends = mesh.faces == mesh.edges[mesh.side_edges, 0]
        self._sides = np.where(ascends, 1, -1) * self.planes.side_directions      # directions of edges in the frames of faces
        sides = mesh.edge_lengths[mesh.side_edges]
        areas = np.maximum(mesh.face_areas, 0.5 * FLATTEST * sides.max(axis=1) ** 2)        # as in the cotangents
        self._energy = self._edge_laplacian(areas)
        masses = np.bincount(mesh.side_edges.ravel(), np.repeat(areas / 3, 3), len(mesh.edges))
        self._rate = masses / (time[mesh.edges[:, 0]] / 4)
        self._laplacian, self._divergence = cotan_laplacian(mesh), divergence(mesh)
        self._flat_edges = flat[mesh.edges[:, 0]]
        if flat.any():
            self._laplacian = with_units(self._laplacian, flat)
        self._factors: list[Any] = []

    def distance(self, segments, level_set):
        """(n,) signed distances to the curves of :class:`~meshsolve.apps.geodesics.curves.Segments`."""
        parts = self._mesh.components[self._mesh.faces[:, 0]]
        has_curve = np.zeros(int(self._mesh.components.max()) + 1, bool)
        has_curve[parts[segments.faces]] = True
        b = -(self._divergence @ self._directions(self._normals(segments), has_curve[parts]).T.reshape(-1))
        reached = has_curve[self._mesh.components]
        with self._report.phase("solve"):
            if level_set == "zero":
                phi = self._on_levels(b, segments, np.zeros_like(segments.curves), ~reached)
            elif level_set == "each":
                phi = self._centered(self._on_levels(b, segments, segments.curves), segments)
            else:
                phi = self._centered(self._poisson.solve(b), segments)
        return np.where(reached, phi, np.inf)

    def _edge_laplacian(self, areas):
        """The Hermitian (e, e) matrix of the sum over corners of 2 cot |difference of the vectors at both edges|^2."""
        mesh, x = self._mesh, self._mesh.vertices[self._mesh.faces]
        sides = np.roll(x, -1, axis=1) - x
        rows, columns, data, diagonal = [], [], [], np.zeros(len(mesh.edges))
        for c in range(3):
            dot = -(sides[:, c] * sides[:, c - 1]).sum(axis=1)
            weight = dot / np.where(areas > 0, areas, 1)
            i, j = mesh.side_edges[:, c], mesh.side_edges[:, c - 1]
            entry = -weight * self._sides[:, c - 1] * self._sides[:, c].conj()
            rows, columns, data = [*rows, i, j], [*columns, j, i], [*data, entry, entry.conj()]
            diagonal += np.bincount(i, weight, len(diagonal)) + np.bincount(j, weight, len(diagonal))
        k = np.arange(len(diagonal))
        rows, columns, data = [*rows, k], [*columns, k], [*data, diagonal]
        entries = np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))
        return sp.csr_array(sp.coo_array(entries, shape=(len(k), len(k))))

    def _normals(self, segments):
        """(e,) left normals of segments times their lengths: at the edge along it, else a third at each edge of its face."""
        mesh, faces = self._mesh, segments.faces
        x, y = np.einsum("qc,qkc->kq", self._steps(segments), self.planes.face_frames[faces])
        on_side = segments.on_sides()
        share = np.where(on_side.any(axis=1)[:, None], on_side, 1 / 3)
        load = share * (1j * (x + 1j * y))[:, None] / self._sides[faces]
        edges = mesh.side_edges[faces].ravel()
        out = np.bincount(edges, load.real.ravel(), len(mesh.edges)) + 1j * np.bincount(edges, load.imag.ravel(), len(mesh.edges))
        length = np.hypot(x, y).sum()
        if length == 0:
            raise InvalidInputError("the curves must have a length: all of their points are at one position")
        if np.abs(out).sum() <= CANCELED * length:
            raise InvalidInputError("the curves cancel each other: each part is passed in both directions")
        return out / np.abs(out).max()                                              # only directions count, in any unit

    def _directions(self, load, reached):
        """(m, 3) unit vectors of the field on each face, after a time at which it has reached all faces of the mask."""
        parts = np.stack([load.real, load.imag], axis=1).reshape(-1)
        for level in range(self._levels):
            if level == len(self._factors):
                with self._report.phase("factor"):
                    rate = np.maximum(self._rate / 4**level, HELD * self._energy.diagonal().real)
                    A = self._energy + sp.diags_array(rate)
                    self._factors.append(cholesky(real_form(with_units(A, self._flat_edges)), **self._options))
            with self._report.phase("solve"):
                x, y = self._factors[level].solve(parts).reshape(-1, 2).T
            if np.maximum(np.abs(x), np.abs(y))[self._mesh.side_edges[reached]].max(axis=1).min() > LEAST:
                field = unit((unit_scaled((x + 1j * y)[self._mesh.side_edges]) * self._sides).sum(axis=1))
                return np.einsum("fk,fkc->fc", np.stack([field.real, field.imag], axis=1), self.planes.face_frames)
        raise MeshsolveError("heat of the curves does not reach every face: the mesh has more than a million edges from one end "
                             "to the other; give a larger t")

    @functools.cached_property
    def _poisson(self):
        with self._report.phase("factor"):
            return cholesky(self._laplacian, pin=True, **self._options)

    def _steps(self, segments):
        """(q, 3) vectors from the first to the second end of each segment."""
        corners = self._mesh.vertices[self._mesh.faces[segments.faces]]
        return np.einsum("qv,qvc->qc", segments.ends[:, 1] - segments.ends[:, 0], corners)

    def _lengths(self, segments):
        return np.linalg.norm(self._steps(segments), axis=1)

    def _values(self, segments):
        """(2 q, n) csr_array: the value of a function at both ends of each segment."""
        vertices = np.repeat(self._mesh.faces[segments.faces], 2, axis=0)
        shape = len(vertices), len(self._mesh.vertices)
        return sp.csr_array((segments.ends.ravel(), vertices.ravel(), np.arange(0, segments.ends.size + 1, 3)), shape=shape)

    def _centered(self, phi, segments):
        """phi less its mean along the curves of each component."""
        length, part = self._lengths(segments), self._mesh.components[self._mesh.faces[segments.faces, 0]]
        count = int(self._mesh.components.max()) + 1
        total = np.bincount(part, length * (self._values(segments) @ phi).reshape(-1, 2).mean(axis=1), count)
        return phi - (total / np.maximum(np.bincount(part, length, count), np.finfo(float).tiny))[self._mesh.components]

    def _on_levels(self, b, segments, curves, zeros=None):
        """The potential for which curves with the same number have one level: all vertices on them are one unknown.

        At their other points the difference from the level is penalized. With equalities at all points where a bent curve crosses
        edges, a potential that is linear on each face would be nearly flat. With a mask ``zeros`` (n,) the level of curve 0 and
        the potential at these vertices are 0.
        """
        n, k, values = len(b), int(curves.max()) + 1, self._values(segments)
        curves, length = curves.repeat(2), self._lengths(segments).repeat(2) / 2
        point, vertex = (values == 1).nonzero()
        meets = sp.coo_array((np.ones(len(vertex)), (curves[point], k + vertex)), shape=(n + k, n + k))
        count, unknown = connected_components(meets, directed=False)
        merge = _selection(unknown[k:], count)
        inside = np.setdiff1d(np.arange(len(curves)), point)
        off = values[inside] @ merge - _selection(unknown[curves[inside]], count)
        size = self._mesh.edge_lengths[self._mesh.side_edges[segments.faces]].mean(axis=1).repeat(2)
        penalty = off.T @ sp.diags_array(PENALTY * (length / size)[inside]) @ off
        options: dict[str, Any] = {"pin": True}
        if zeros is not None:
            options = {"fixed": np.isin(np.arange(count), np.append(unknown[k:][zeros], unknown[0]))}
            if options["fixed"].all():
                return np.zeros(n)
        factor = cholesky(sp.csr_array(merge.T @ self._laplacian @ merge + penalty), **options, **self._options)
        return merge @ factor.solve(merge.T @ b)


def unit_scaled(vectors):
    """Scale each row of complex numbers to a largest part of 1, so that no square underflows; zeros stay."""
    largest = np.maximum(np.abs(vectors.real), np.abs(vectors.imag)).max(axis=1, keepdims=True)
    return vectors / np.maximum(largest, np.finfo(float).tiny)


def _selection(columns, count):
    """(len(columns), count) csr_array with a 1 in the given column of each row."""
    return sp.csr_array((np.ones(len(columns)), columns, np.arange(len(columns) + 1)), shape=(len(columns), count))
