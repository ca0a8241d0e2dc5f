"""Directions of steepest descent of heat, and their divergence: the step of the heat method between its two solves.

Source: Crane, Weischedel, Wardetzky 2013, algorithm 1. O(faces) for each column.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core
from meshsolve.operators import divergence, gradient
from meshsolve.sparse.places import PLACES
from meshsolve.sparse.product import residual


class Slopes:
    """b = -D X for X = -grad u / |grad u|, on the triangles of the heat: the right-hand side of Poisson's equation.

    Parameters
    ----------
    triangles : IntrinsicMesh
    threads : int
    """

    place = PLACES["cpu"]

    def __init__(self, triangles, threads):
        self.threads, self._n = threads, triangles.num_vertices
        self._triangles = _core.flat_triangles(self._n, triangles.faces.reshape(-1), triangles.lengths.reshape(-1),
                                               triangles.copies)

    def __call__(self, u):
        """(n, k) b for heat u (n, k)."""
        b = np.empty(u.shape)
        _core.divergence_of_directions(*self._triangles, b.reshape(-1), np.ascontiguousarray(u).reshape(-1), self._n, self.threads)
        return b


class CudaSlopes(Slopes):
    """The same on the GPU."""

    place = PLACES["cuda"]

    def __init__(self, triangles, threads):
        self.threads = threads
        gradient, divergence = triangles.gradient(), triangles.divergence()
        m = len(triangles.faces)
        order = np.argsort(triangles.faces.min(axis=1), kind="stable")          # triangles at nearby vertices are close in memory
        position = np.empty(2 * m, np.int32)
        position[order], position[m + order] = np.arange(0, 2 * m, 2), np.arange(1, 2 * m, 2)
        gradient = gradient[np.stack([order, m + order], axis=1).ravel()]
        self._gradient = _parts(self.place, gradient, gradient.indices)
        self._divergence = _parts(self.place, divergence, position[divergence.indices])

    def __call__(self, u):
        xp, rows = self.place.xp, len(self._gradient[0]) - 1
        slope = residual(*self._gradient, u, xp.zeros((rows, u.shape[1])))         # minus the gradient
        slope = _directions(xp, slope.reshape(rows // 2, 2, u.shape[1]), 1)
        return residual(*self._divergence, slope.reshape(rows, u.shape[1]), xp.zeros(u.shape))


class SolidSlopes:
    """The same in a solid, on the host or on the GPU.

    Parameters
    ----------
    mesh : TetMesh
    place : str
    threads : int
    """

    def __init__(self, mesh, place, threads):
        self.threads, self._place = threads, PLACES[place]
        self._gradient, self._divergence = (_parts(self._place, A, A.indices) for A in (gradient(mesh), divergence(mesh)))

    def __call__(self, u):
        """(n, k) b for heat u (n, k)."""
        xp, rows = self._place.xp, len(self._gradient[0]) - 1
        slope = residual(*self._gradient, u, xp.zeros((rows, u.shape[1])), threads=self.threads)
        slope = _directions(xp, slope.reshape(3, rows // 3, u.shape[1]), 0)
        return residual(*self._divergence, slope.reshape(rows, u.shape[1]), xp.zeros(u.shape), threads=self.threads)


def _directions(xp, slope, axis):
    """Vectors along ``axis``, divided by their lengths; first by the largest component, as heat far away is tiny."""
    slope = slope / xp.maximum(abs(slope).max(axis=axis, keepdims=True), 1e-300)
    return slope / xp.maximum(xp.sqrt((slope * slope).sum(axis=axis, keepdims=True)), 1e-300)


def _parts(place, A, indices):
    return tuple(map(place.bring, (A.indptr.astype(np.int64), indices.astype(np.int32), A.data)))


SLOPES: dict[str, type[Slopes]] = {"cpu": Slopes, "cuda": CudaSlopes}
