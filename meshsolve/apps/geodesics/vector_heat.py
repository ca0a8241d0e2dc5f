"""Heat flow of tangent vectors: parallel transport and the logarithmic map.

Vectors diffuse as heat does, and are transported in parallel on their way. After a short time the direction at a point is that of
the vector transported along the shortest path. The triangles are intrinsic Delaunay ones, so that M + t L is positive definite.

Affine heat also translates: it carries the position of the source, as seen from each vertex. In homogeneous coordinates an edge from i
to j takes (z, h) to (r z - e h, h), where r is the turn and e the edge. The last coordinate is heat and does not depend on z. So the
system of 3 n rows is block triangular, and its blocks are the factors of heat and of vectors.

Sources: Sharp, Soliman, Crane 2019, "The vector heat method", algorithm 1 and section 8.2; Soliman, Sharp 2025, "The affine heat
method".
Cost: a Cholesky factor of 2 n rows, and a solve and O(n + m) operations for each field.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.apps.geodesics.heat import ScalarHeat, with_units
from meshsolve.apps.geodesics.sources import Points
from meshsolve.device import to_host
from meshsolve.operators import gradient
from meshsolve.operators.connection import Connection, real_form
from meshsolve.seal import Sealed

TIED = 1e3              # weight of an edge that is a thousandth of those around it: its ends count as one point


class VectorHeat(Sealed):
    """Fields of tangent vectors on one mesh, as complex numbers in the frames of the vertices.

    Parameters
    ----------
    mesh : Mesh
        Checked; manifold, with faces that are oriented alike.
    time : (n,) float64
        Time of the heat flow at each vertex, constant on each component, in squared units of length.
    flat : (n,) bool
        Vertices of components without area, which are left out.
    options : dict
        ``device`` and ``threads`` of the factors.
    report : Report
        Gets the seconds of ``factor`` and ``solve``.
    """

    def __init__(self, mesh, time, flat, options, report):
        self._flat = flat
        self._mesh, self._options, self._report = mesh, options, report
        self._connection = Connection.intrinsic(mesh)
        self.planes = self._connection.planes
        self._rate = np.where(flat, 0, self._connection.masses / time)
        self._factors: dict[int, Any] = {}

    def in_frames(self, points, vectors):
        """(s, c) complex numbers of vectors (s, 3) at points, in the frames of their vertices. Normal components are lost."""
        if points.faces is None:
            x, y = np.einsum("sc,skc->ks", vectors, self.planes.frames[points.vertices[:, 0]])
            return (x + 1j * y)[:, None]
        x, y = np.einsum("sc,skc->ks", vectors, self.planes.face_frames[points.faces])
        return (x + 1j * y)[:, None] * self.planes.corner_turns[points.faces]

    def field(self, load, level):
        """(n,) or (n, k) unit vectors after 4^level times the time, 0 where no heat comes; ``load`` has the heat at the start."""
        return unit(self._flow(load, level))

    def log_map(self, points, distance, level):
        """(n, 2) coordinates in the tangent plane of the only point, at finite distances (n,) from it.

        The direction is that of the gradient of the distance, relative to the first axis of the source, transported to the
        vertex. The paper transports a field that points away from the source. Its direction is biased near boundaries and around
        irregular vertices: on icospheres by 0.012 radians, against 0.005.
        """
        mesh = self._mesh
        axis = self.field(points.load(len(distance), self._turns(points)), level)
        x, y = np.einsum("cf,fkc->kf", (self._gradient @ distance).reshape(3, -1), self.planes.face_frames)
        at_corners = unit(x + 1j * y)[:, None] * self.planes.corner_turns
        away = self._joined(Points(mesh.faces, self._areas).load(len(distance), at_corners))
        direction = unit(unit(away) * axis.conj())
        direction[direction == 0] = 1
        return distance[:, None] * np.stack([direction.real, direction.imag], axis=1)

    def affine_log_map(self, points, reached):
        """(n, 2) coordinates in the tangent plane of the only point, where ``reached`` (n,) is True, by affine heat.

        Each vertex gets the mean position of the source over all paths of heat, and the first axis of the source. Minus the
        position, relative to the axis, is the position of the vertex as seen from the source.
        """
        n, edges = len(reached), self._connection
        _, heat = self._heat.flow(*points.entries(), reached[:, None])
        heat, steps = to_host(heat)[:, 0], edges.weights * edges.vectors
        moment = points.load(n, self._toward(points))
        np.add.at(moment, edges.tails, steps[0] * heat[edges.heads])
        np.add.at(moment, edges.heads, steps[1] * heat[edges.tails])
        axis, moment = self._flow(np.stack([points.load(n, self._turns(points)), moment], axis=1), self._heat.level).T
        out = -moment / np.where(reached, heat, 1) * unit(axis).conj()
        out[points.vertices[points.weights == 1]] = 0
        return np.stack([out.real, out.imag], axis=1)

    def _joined(self, z):
        """(n,) vectors z, or about the mean of those at one point: a vertex with a copy has only a part of the faces around it."""
        edges = self._connection
        if not (edges.weights > TIED).any():
            return z
        joined = dataclasses.replace(edges, weights=np.where(edges.weights > TIED, edges.weights, 0))
        factor = cholesky(real_form(joined.laplacian() + sp.eye_array(len(z))), **self._options)
        x, y = to_host(factor.solve(np.stack([z.real, z.imag], axis=1).reshape(-1))).reshape(-1, 2).T
        return x + 1j * y

    def _flow(self, load, level):
        """(n,) or (n, k) vectors after 4^level times the time."""
        columns = load.reshape(len(load), -1)
        parts = np.stack([columns.real, columns.imag], axis=1).reshape(2 * len(load), -1)
        factor = self._factor(level)
        with self._report.phase("solve"):
            parts = factor.solve(np.ascontiguousarray(parts)).reshape(len(load), 2, -1)
        return (parts[:, 0] + 1j * parts[:, 1]).reshape(load.shape)

    def _turns(self, points):
        """(s, c) complex numbers that take vectors in the frame of each point to those of its vertices."""
        return np.ones(points.vertices.shape, complex) if points.faces is None else self.planes.corner_turns[points.faces]

    def _toward(self, points):
        """(s, c) complex numbers: the vectors from the vertices of each point to the point, in the frames of the vertices."""
        if points.faces is None:
            return np.zeros(points.vertices.shape, complex)
        steps = points.positions(self._mesh.vertices)[:, None] - self._mesh.vertices[points.vertices]
        x, y = np.einsum("skc,sdc->dsk", steps, self.planes.face_frames[points.faces])
        return (x + 1j * y) * self._turns(points)

    @functools.cached_property
    def _heat(self):
        """Heat on the triangles of the vectors, which differ at the boundary from those of the distances."""
        return ScalarHeat(with_units(self._connection.laplacian(0).real, self._flat), self._rate, self._options, self._report)

    @functools.cached_property
    def _gradient(self):
        return gradient(self._mesh)

    @functools.cached_property
    def _areas(self):
        return self._mesh.face_areas[:, None].repeat(3, axis=1)

    def _factor(self, level):
        if level not in self._factors:
            with self._report.phase("factor"):
                A = self._connection.laplacian() + sp.diags_array(self._rate / 4**level)
                self._factors[level] = cholesky(real_form(with_units(A, self._flat)), **self._options)
        return self._factors[level]


def unit(z):
    """z / |z| for complex numbers; zeros stay. Scaled first, so that no square underflows."""
    largest = np.maximum(np.maximum(np.abs(z.real), np.abs(z.imag)), np.finfo(float).tiny)
    z = z / largest
    return z / np.maximum(np.abs(z), np.finfo(float).tiny)
