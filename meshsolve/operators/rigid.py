"""As-rigid-as-possible (ARAP) energies: rotations fitted by the native kernels, in turn with solves for the positions.

``rigid.hpp`` has the energies and the kernels. Both classes have two methods: ``fit(x)`` fits the rotations to positions x and returns
the energy. ``pull()`` returns the right-hand side b of L x = b, whose solution x has the least energy for these rotations. The caller may
overwrite b, and calls ``pull`` at most once after a fit.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, report
from meshsolve.mesh.elements import FLATTEST
from meshsolve.mesh.measures import flattened_faces
from meshsolve.options import thread_count
from meshsolve.seal import Sealed

CANCELED = 1e-8         # energy relative to the squared lengths that it is a difference of: 8 digits are left


def side_weights(mesh, threads=None):
    """Return (m, 3) half the cotangent of the angle opposite side c of each face, which joins corners c and c + 1."""
    sides = np.arange(mesh.faces.size, dtype=np.int32)              # each side counts as an edge of its own
    weight, _ = _core.cotan_weights(mesh.vertices.reshape(-1), mesh.faces.reshape(-1), sides, len(sides), FLATTEST,
                                    thread_count(threads))
    return weight.reshape(-1, 3)


class VertexRotations(Sealed):
    """A rotation for each vertex of a surface in space, for all sides of its faces (spokes and rims) or for its edges (spokes).

    Parameters
    ----------
    mesh : Mesh
        The shape at rest, n vertices and m faces.
    threads : int, optional
    rims : bool
        Whether the sides opposite to a vertex count.
    part : (n,) integers from 0, optional
        Parts of the surface with an energy each: unions of components.

    Attributes
    ----------
    turns : (n, 4) float64
        Unit quaternions (w, x, y, z), the rotations of the last fit.
    """

    def __init__(self, mesh, threads=None, rims=True, part=None):
        self._threads, n = thread_count(threads), len(mesh.vertices)
        faces, w = mesh.faces.reshape(-1), side_weights(mesh, threads).reshape(-1)
        indptr, other, edge = _core.mesh_adjacency(n, mesh.edges.reshape(-1), False, self._threads)
        *rings, sides, self._rest = _core.rest_arrays(      # one thread applies a rotation where it is fitted, and needs no mirror entries
            faces, mesh.side_edges.reshape(-1), len(mesh.edges), w, mesh.vertices.reshape(-1), indptr, other, edge, rims, self._threads > 1,
            self._threads)
        self._rings, self._faces = (indptr, other, *rings), (faces, w, rims, sides)
        self._matrix, self._values = np.empty(12 * n if self._threads > 1 else 0), (np.empty(n), np.empty(n))
        self.turns, self._pull = np.tile([1.0, 0, 0, 0], (n, 1)), np.empty((n, 4))
        self._part = None if part is None else (part, part[mesh.faces[:, 0]])
        if part is not None:                                # at rest the energy of each part is 0
            trace, stretch = self._traces(mesh.vertices)
            self._rest = 2 * trace - stretch

    def fit(self, x):
        """Fit the rotations to positions x (n, 3); return the energy, a float, or (p,) that of each part."""
        x = np.asarray(x, np.float64)
        trace, stretch = self._traces(x)
        total = stretch + self._rest
        energy = total - 2 * trace
        if np.all(energy > CANCELED * total):
            return energy
        of_face = np.empty(len(self._faces[0]) // 3)
        _core.energy_of_vertices(*self._faces, x, self.turns.reshape(-1), of_face, self._threads)
        return self._sum(of_face, 1)

    def pull(self):
        """Return the right-hand side (n, 3) of the solve for the positions."""
        if self._threads > 1:
            _core.pull_vertices(*self._rings, self._matrix, self._pull.reshape(-1), self._threads)
        return self._pull[:, :3]

    def _traces(self, x):
        """Fit the rotations; return the sums of two terms of the energy, floats or (p,)."""
        trace, stretch = self._values
        _core.fit_vertices(*self._rings, x, self.turns.reshape(-1), self._matrix, trace, stretch, self._pull.reshape(-1), self._threads)
        return self._sum(trace, 0), self._sum(stretch, 0)

    def _sum(self, values, of_faces):
        """The sum of values of vertices or faces, a float, or (p,) those of the parts."""
        return float(values.sum()) if self._part is None else np.bincount(self._part[of_faces], values, int(self._part[0].max()) + 1)


class FaceRotations(Sealed):
    """A rotation for each face of a map to the plane, with the methods of :class:`VertexRotations`.

    Attributes
    ----------
    turns : (m, 2) float64
        Cosines and sines.
    """

    def __init__(self, mesh, threads=None):
        self._threads, n = thread_count(threads), len(mesh.vertices)
        corner = mesh.faces.reshape(-1)
        ptr = np.append(0, np.cumsum(np.bincount(corner, minlength=n)))
        self._shape = (corner, side_weights(mesh, threads).reshape(-1), ptr, np.argsort(corner, kind="stable").astype(np.int32),
                       flattened_faces(mesh.vertices, mesh.faces).reshape(-1))
        self.turns = np.tile([1.0, 0], (len(mesh.faces), 1))

    def fit(self, x):
        """Fit the rotations to positions x (n, 2); return the energy, a float."""
        energy = np.empty(len(self.turns))
        _core.fit_faces(*self._shape, np.asarray(x, np.float64), self.turns.reshape(-1), energy, self._threads)
        return float(energy.sum())

    def pull(self):
        """Return the right-hand side (n, 2) of the solve for the positions."""
        return _core.pull_faces(*self._shape, self.turns.reshape(-1), self._threads).reshape(2, -1).T


def alternate_parts(rotations, solve, x, iterations, tol, least, part, energy=None):
    """:func:`alternate` for rotations with several parts, each of which stops as it does alone: (x, energies (p,), most solves).

    ``least`` (p,) are energies of parts that are 0 to rounding, ``part`` (n,) their numbers.
    """
    energy, count = rotations.fit(x) if energy is None else energy, 0
    moves = energy > least
    while count < iterations and moves.any():
        x = np.where(moves[part][:, None], solve(rotations.pull()), x)
        before, energy, count = energy, rotations.fit(x), count + 1
        report.count(count, iterations)
        moves &= (energy > least) & (before - energy > tol * before)
    return x, energy, count


def alternate(rotations, solve, x, iterations, tol, least, energy=None):
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
    energy : float, optional
        That of the start, if the last fit was to it.

    Returns
    -------
    (x, energy, number of solves). The energy is None if the last of ``iterations`` was reached: then x has not been fitted.
    """
    energy, count = rotations.fit(x) if energy is None else energy, 0
    while count < iterations and energy > least:                        # an energy of None ends the loop
        x = solve(rotations.pull())
        before, energy, count = energy, None if count + 1 == iterations else rotations.fit(x), count + 1
        report.count(count, iterations)
        if energy is None or before - energy <= tol * before:
            break
    return x, energy, count
