"""Interactive deformation of a surface by handles, on one factor: as rigid as possible, or by the bi-Laplacian.

ARAP: each vertex turns as a rigid body with the faces around it; rotations of all vertices and a solve for the positions alternate, and the
energy never rises. Bi-Laplacian: the displacement of least bending.

Sources: Sorkine, Alexa 2007; Chao, Pinkall, Sanan, Schroeder 2010 (spokes and rims: each face counts with all its sides); Botsch,
Kobbelt 2004.
Cost: one Cholesky factor; each iteration one solve with 3 columns and a 3 x 3 singular value decomposition per vertex.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.apps.maps import flattened_faces, half_cotangents, scattered_sides
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, takes_arrays
from meshsolve.operators import cotan_laplacian, mass_matrix
from meshsolve.options import as_integer, as_number, one_of
from meshsolve.sparse.columns import as_array, as_indices
from meshsolve.types import ArrayLike


class Deformation:
    """A mesh that follows its handles.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        The shape at rest, n vertices.
    handles : (h,) integers or (n,) bool
        Vertices that are moved or held; each component needs one. The rows of positions follow their order.
    method : {"arap", "bilaplacian"}
        ``"arap"`` keeps details and turns with the handles. ``"bilaplacian"`` is linear and smooth; details do not turn.
    threads : int, optional

    Attributes
    ----------
    energy : float
        ARAP energy of the last shape.
    iterations : int
        Of the last :meth:`move`.

    Raises
    ------
    InvalidInputError
        No handle, a handle outside the mesh or twice, a component without a handle (names a vertex).

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.datasets.icosphere(2)
    >>> D = ms.apps.Deformation(mesh, [0, 1, 2, 3])
    >>> moved = D.move(mesh.vertices[:4] + [1, 0, 0])
    >>> bool(abs(moved.vertices - mesh.vertices - [1, 0, 0]).max() < 1e-9)
    True
    """

    def __init__(self, mesh: MeshLike, handles: ArrayLike, method: Literal["arap", "bilaplacian"] = "arap", *,
                 threads: int | None = None) -> None:
        self._mesh, self._method = _copied(mesh), one_of(method, "method", ("arap", "bilaplacian"))
        n = len(self._mesh.vertices)
        self._handles = as_indices(handles, n, "handles")
        self._require_handles(n)
        self._order = np.argsort(self._handles)
        L = cotan_laplacian(self._mesh)
        if self._method == "bilaplacian":
            mass = mass_matrix(self._mesh).diagonal()
            A = sp.csr_array(L @ sp.diags_array(1 / np.where(mass > 0, mass, 1)) @ L)
        else:
            A = L
            self._weights = half_cotangents(flattened_faces(self._mesh))
        self._factor = cholesky(A, fixed=self._handles[self._order], threads=threads)
        self._shape, self.energy, self.iterations = self._mesh.vertices.copy(), 0.0, 0

    def _require_handles(self, n):
        if len(self._handles) == 0:
            raise InvalidInputError("handles must have at least one vertex, got none")
        component = self._mesh.components
        held = np.zeros(component.max() + 1, bool)
        held[component[self._handles]] = True
        if not held[component].all():
            k = int((~held[component]).argmax())
            raise InvalidInputError(f"each component needs a handle, that of vertex {k} has none: hold one of its vertices or leave it out")

    def move(self, positions: ArrayLike, *, iterations: int = 30, tol: float = 1e-5) -> Mesh:
        """The mesh with its handles at new positions.

        Parameters
        ----------
        positions : (h, 3) array_like
            Of the handles, in their order.
        iterations : int
            Most iterations of ARAP; it starts from the last shape, or from a rigid motion of the rest shape if that has less energy.
        tol : float
            ARAP stops when its energy falls by less than this share.

        Returns
        -------
        Mesh

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN.
        """
        at = np.asarray(as_array(positions, "positions"), dtype=np.float64)
        if at.shape != (len(self._handles), 3) or not np.isfinite(at).all():
            raise InvalidInputError(f"positions must be {len(self._handles)} finite rows of 3, one for each handle, got shape {at.shape}")
        iterations, tol = as_integer(iterations, "iterations"), as_number(tol, "tol")
        if self._method == "bilaplacian":
            self._shape = self._smooth(self._mesh.vertices, at)
        else:
            self._iterate(at, iterations, tol)
        return Mesh(self._shape, self._mesh.faces)

    def _smooth(self, base, at):
        """The base shape plus the displacement that solves A d = 0 with the handles at their positions."""
        d = self._solve(np.zeros_like(base), at - base[self._handles])
        return base + d

    def _solve(self, b, values):
        return self._factor.solve(b, fixed_values=values[self._order])

    def _iterate(self, at, iterations, tol):
        """Local and global steps in turn, from the start of least energy."""
        starts = [self._smooth(base, at) for base in (self._shape, _rigid(self._mesh.vertices, self._handles, at))]
        found = [(*self._energy_and_turns(x), x) for x in starts]
        self.energy, turns, self._shape = min(found, key=lambda start: start[0])
        size = float((np.ptp(self._mesh.vertices, axis=0) ** 2).sum())
        for self.iterations in range(1, iterations + 1):
            shape = self._solve(self._pull(turns), at)
            energy, turns = self._energy_and_turns(shape)
            fall, self._shape, self.energy = self.energy - energy, shape, energy
            if fall <= tol * energy or energy <= 1e-24 * size:
                break

    def _energy_and_turns(self, x):
        """(energy, (n, 3, 3) rotations of the vertices) of a shape: the best rotation of each vertex for all sides of its faces."""
        rest, faces, n = self._mesh.vertices, self._mesh.faces, len(self._mesh.vertices)
        S, norm = np.zeros((len(faces), 3, 3)), np.zeros(len(faces))
        for c in range(3):
            p, q = ((y[faces[:, (c + 1) % 3]] - y[faces[:, c]]) for y in (rest, x))
            w = self._weights[:, c]
            S += (w[:, None] * p)[:, :, None] * q[:, None, :]
            norm += w * ((p * p).sum(axis=1) + (q * q).sum(axis=1))
        at_vertex = np.stack([np.bincount(faces.ravel(), np.repeat(part, 3), n) for part in S.reshape(-1, 9).T], axis=1).reshape(n, 3, 3)
        U, s, V = np.linalg.svd(at_vertex)
        sign = np.where(np.linalg.det(U @ V) < 0, -1.0, 1.0)
        V[:, 2] *= sign[:, None]                                        # the column of the smallest singular value
        s[:, 2] *= sign
        return float((3 * norm.sum() - 2 * s.sum()) / 3), np.swapaxes(U @ V, 1, 2)

    def _pull(self, turns):
        """(n, 3) right-hand side of the global step: sides at rest, turned by the mean rotation of their face's corners."""
        rest, faces = self._mesh.vertices, self._mesh.faces
        mean, ends = turns[faces].mean(axis=1), rest[faces]
        sides = [np.einsum("fij,fj->fi", mean, ends[:, (c + 1) % 3] - ends[:, c]) * self._weights[:, c, None] for c in range(3)]
        return scattered_sides(faces, sides, len(rest))


@takes_arrays
def _copied(mesh):
    return checked_mesh(mesh).copy()


def _rigid(x, handles, at):
    """x moved by the rigid motion that takes the handles closest to their positions (Kabsch 1976)."""
    middle, to = x[handles].mean(axis=0), at.mean(axis=0)
    U, _, V = np.linalg.svd((x[handles] - middle).T @ (at - to))
    U[:, 2] *= np.sign(np.linalg.det(U @ V)) or 1.0
    return (x - middle) @ (U @ V) + to
