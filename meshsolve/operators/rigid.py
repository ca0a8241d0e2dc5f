"""As-rigid-as-possible (ARAP) energies: rotations fitted by the native kernels, in turn with solves for the positions.

``rigid.hpp`` has the energies and the kernels. Both classes have two methods: ``fit(x)`` fits the rotations to positions x and returns
the energy. ``pull()`` returns the right-hand side b of L x = b, whose solution x has the least energy for these rotations.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, report
from meshsolve.mesh.measures import flattened_faces
from meshsolve.operators.intrinsic import FLATTEST
from meshsolve.options import thread_count


def side_weights(mesh, threads=None):
    """Return (m, 3) half the cotangent of the angle opposite side c of each face, which joins corners c and c + 1."""
    sides = np.arange(mesh.faces.size, dtype=np.int32)              # each side counts as an edge of its own
    weight, _ = _core.cotan_weights(mesh.vertices.reshape(-1), mesh.faces.reshape(-1), sides, len(sides), FLATTEST,
                                    thread_count(threads))
    return weight.reshape(-1, 3)


class VertexRotations:
    """A rotation for each vertex of a surface in space, for all sides of its faces (spokes and rims) or for its edges (spokes).

    Parameters
    ----------
    mesh : Mesh
        The shape at rest, n vertices and m faces.
    threads : int, optional
    rims : bool
        Whether the sides opposite to a vertex count.

    Attributes
    ----------
    turns : (n, 4) float64
        Unit quaternions (w, x, y, z), the rotations of the last fit.
    """

    _kernels = _core.fit_vertices, _core.pull_vertices

    def __init__(self, mesh, threads=None, rims=True):
        self._threads, n = thread_count(threads), len(mesh.vertices)
        corner = mesh.faces.reshape(-1)
        ptr = np.append(0, np.cumsum(np.bincount(corner, minlength=n)))
        self._shape = (corner, side_weights(mesh, threads).reshape(-1), ptr, np.argsort(corner, kind="stable").astype(np.int32),
                       rims, self._rest(mesh).reshape(-1))
        self.turns = self._unturned(mesh)

    def fit(self, x):
        """Fit the rotations to positions x (n, d); return the energy, a float."""
        energy = np.empty(len(self.turns))
        self._kernels[0](*self._shape, np.asarray(x, np.float64), self.turns.reshape(-1), energy, self._threads)
        return float(energy.sum())

    def pull(self):
        """Return the right-hand side (n, d) of the solve for the positions."""
        b = self._kernels[1](*self._shape, self.turns.reshape(-1), self._threads)
        return b.reshape(-1, len(self._shape[2]) - 1).T

    def _rest(self, mesh):
        a, b, c = (mesh.vertices.take(corner, axis=0) for corner in mesh.faces.T)
        return np.stack([b - a, c - b], axis=1)

    def _unturned(self, mesh):
        return np.tile([1.0, 0, 0, 0], (len(mesh.vertices), 1))


class FaceRotations(VertexRotations):
    """A rotation for each face of a map to the plane; ``turns`` (m, 2) has cosines and sines."""

    _kernels = _core.fit_faces, _core.pull_faces

    def _rest(self, mesh):
        return flattened_faces(mesh.vertices, mesh.faces)

    def _unturned(self, mesh):
        return np.tile([1.0, 0], (len(mesh.faces), 1))


def alternate(rotations, solve, x, iterations, tol, least):
    """Alternate rotations and solves. The energy never rises.

    Parameters
    ----------
    rotations : VertexRotations or FaceRotations
    solve : callable
        Positions (n, d) from a right-hand side (n, d).
    x : (n, d) float64
        The start.
    iterations : int
        Most solves.
    tol : float
        Smallest decrease of the energy, relative to it, that goes on.
    least : float
        Energy that is 0 to rounding.

    Returns
    -------
    (x, energy, number of solves)
    """
    energy, count = rotations.fit(x), 0
    while count < iterations and energy > least:
        x = solve(rotations.pull())
        before, energy, count = energy, rotations.fit(x), count + 1
        report.count(count, iterations)
        if before - energy <= tol * before:
            break
    return x, energy, count
