"""Interactive deformation of a surface by handles, on one factor: as rigid as possible, by the bi-Laplacian, or by turned gradients.

ARAP: each vertex turns as a rigid body with the faces around it; rotations of all vertices and a solve for the positions alternate,
and the energy never rises. Bi-Laplacian: the displacement of least bending. Poisson: rotations of the handles spread over the surface
as a harmonic field, they turn the gradients of the coordinates, and the surface with the closest gradients solves Poisson's equation.

Sources: Sorkine, Alexa 2007 (spokes: the edges at a vertex); Chao, Pinkall, Sanan, Schroeder 2010 (spokes and rims: each face counts
with all its sides); Botsch, Kobbelt 2004; Yu et al. 2004, "Mesh editing with Poisson-based gradient field manipulation".
Cost: one Cholesky factor; each iteration one solve with 3 columns and O(n + m) for the rotations, in native code. Poisson: two solves.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.tets import TetMesh
from meshsolve.operators import cotan_laplacian, divergence, gradient, mass_matrix
from meshsolve.operators.rigid import VertexRotations, alternate
from meshsolve.options import as_integer, as_number, one_of, thread_count
from meshsolve.report import Report
from meshsolve.sparse.columns import as_array, as_indices
from meshsolve.types import ArrayLike, Device

ZERO = 1e-24            # energy relative to the squared size of the mesh that is rounding error


class Deformation:
    """A mesh that follows its handles.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        The shape at rest, n vertices.
    handles : (h,) integers or (n,) bool
        Vertices that are moved or held; each component needs one. The rows of positions follow their order.
    method : {"arap", "bilaplacian", "poisson"}
        ``"arap"`` keeps details and turns with the handles. ``"bilaplacian"`` is linear and smooth; details do not turn. ``"poisson"``
        takes rotations of the handles, and details turn with them: bends and twists by any angle in two solves.
    energy : {"spokes-and-rims", "spokes"}
        The energy of ARAP: a vertex turns with all sides of its faces, or only with its edges. With ``"spokes"`` negative cotangents
        may give a vertex a rotation that is not the best, and a negative energy.
    device : {"auto", "cpu", "cuda"}
        Where the factor lies and solves. Rotations are fitted on the host.
    threads : int, optional

    Attributes
    ----------
    energy : float
        ARAP energy of the last shape.
    iterations : int
        Solves of ARAP in the last :meth:`move` after its start; 0 if the start has no energy.
    factor : CholeskyFactor
    report : Report
        Seconds of all calls: ``solve``, and ``alternate`` for solves and rotations together.

    Raises
    ------
    InvalidInputError
        No handle, a handle outside the mesh or twice, a component without a handle (names a vertex), no vertex without a handle.
    DeviceUnavailableError
        ``device="cuda"`` without a GPU.

    Notes
    -----
    Vertices without faces stay where they are. At a free boundary the bi-Laplacian has a normal derivative of 0.

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.datasets.icosphere(2)
    >>> D = ms.apps.Deformation(mesh, [0, 1, 2, 3])
    >>> moved = D.move(mesh.vertices[:4] + [1, 0, 0])
    >>> bool(abs(moved.vertices - mesh.vertices - [1, 0, 0]).max() < 1e-9)
    True
    """

    def __init__(self, mesh: MeshLike, handles: ArrayLike, method: Literal["arap", "bilaplacian", "poisson"] = "arap", *,
                 energy: Literal["spokes-and-rims", "spokes"] = "spokes-and-rims", device: Device = "auto",
                 threads: int | None = None) -> None:
        self._mesh, self._method = _copied(mesh), one_of(method, "method", ("arap", "bilaplacian", "poisson"))
        rims = one_of(energy, "energy", ("spokes-and-rims", "spokes")) == "spokes-and-rims"
        self.report = Report(threads=thread_count(threads))
        self._handles = checked_handles(self._mesh, handles)
        L = cotan_laplacian(self._mesh)
        if self._method == "bilaplacian":
            mass = mass_matrix(self._mesh).diagonal()
            L = sp.csr_array(L @ sp.diags_array(1 / np.where(mass > 0, mass, 1)) @ L)
        elif self._method == "arap":
            self._rotations = VertexRotations(self._mesh, threads, rims)
        else:
            self._gradients = (gradient(self._mesh) @ self._mesh.vertices).reshape(3, -1, 3)       # (component, face, coordinate)
            self._divergence = divergence(self._mesh)
        self.factor = cholesky(L, fixed=self._held(), device=device, threads=threads)
        self.report.merge(self.factor.report)
        self._shape, self.energy, self.iterations = self._mesh.vertices.copy(), 0.0, 0

    def move(self, positions: ArrayLike, *, rotations: ArrayLike | None = None, iterations: int = 30, tol: float = 1e-5) -> Mesh:
        """The mesh with its handles at new positions.

        Parameters
        ----------
        positions : (h, 3) array_like
            Of the handles, in their order.
        rotations : (h, 3) or (3,) array_like, optional
            Of the handles, or one for all of them, for ``method="poisson"``: vectors along the axis, with the angle in radians as
            length. Angles beyond pi are allowed. Without rotations details do not turn.
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
            Wrong shape, NaN, rotations for another method.
        """
        at = _rows(positions, "positions", len(self._handles))
        turns = self._checked_rotations(rotations)
        iterations, tol = as_integer(iterations, "iterations"), as_number(tol, "tol")
        held = self._mesh.vertices.copy()
        held[self._handles] = at
        if self._method == "bilaplacian":
            self._shape, = self._smooth([self._mesh.vertices], held)
        elif self._method == "poisson":
            self._shape = self._solve(self._turned(turns), held)
        else:
            self._alternate(at, held, iterations, tol)
        return self._mesh.with_vertices(self._shape)

    def _held(self):
        """The rows that are held, ascending: handles, and vertices without faces."""
        free = np.zeros(len(self._mesh.vertices), bool)
        free[self._mesh.faces] = True
        free[self._handles] = False
        if not free.any():
            raise InvalidInputError("handles must leave a vertex of a face free, got all of them")
        return np.flatnonzero(~free)

    def _checked_rotations(self, rotations):
        """(n, 3) rotation vectors, which are those of the handles in their rows."""
        turns = np.zeros_like(self._mesh.vertices)
        if rotations is None:
            return turns
        if self._method != "poisson":
            raise InvalidInputError(f'rotations need method="poisson", got method="{self._method}"')
        h = len(self._handles)
        turns[self._handles] = _rows([rotations] * h if np.shape(rotations) == (3,) else rotations, "rotations", h)
        return turns

    def _turned(self, turns):
        """(n, 3) minus the divergence of the gradients of the coordinates, turned by the harmonic field of the rotation vectors."""
        field = self._solve(np.zeros_like(turns), turns) if turns.any() else turns
        rotated = _rotate(self._gradients, field[self._mesh.faces].mean(axis=1))
        return -self._divergence @ rotated.reshape(-1, 3)

    def _smooth(self, bases, held):
        """Each base shape plus the displacement that solves A d = 0 with the handles at their positions."""
        moves = np.hstack([held - base for base in bases])
        d = self._solve(np.zeros_like(moves), moves)
        return [base + d[:, 3 * k:3 * k + 3] for k, base in enumerate(bases)]

    def _solve(self, b, values):
        with self.report.phase("solve"):
            return self.factor.solve(b, fixed_values=values)

    def _alternate(self, at, held, iterations, tol):
        """Local and global steps in turn, from the start of least energy."""
        starts = self._smooth([_rigid(self._mesh.vertices, self._handles, at), self._shape], held)
        of_rigid, of_last = map(self._rotations.fit, starts)
        start, energy = (starts[1], of_last) if of_last < of_rigid else (starts[0], None)
        size = float((np.ptp(self._mesh.vertices, axis=0) ** 2).sum())
        with self.report.phase("alternate"):
            self._shape, self.energy, self.iterations = alternate(self._rotations, lambda b: self._solve(b, held), start, iterations, tol,
                                                                  ZERO * size, energy)


def checked_handles(mesh, handles):
    """Distinct vertices as (h,) int32; raises unless each component with faces has one."""
    chosen, component, used = as_indices(handles, len(mesh.vertices), "handles"), mesh.components, np.zeros(len(mesh.vertices), bool)
    if len(chosen) == 0:
        raise InvalidInputError("handles must have at least one vertex, got none")
    used[mesh.cells if isinstance(mesh, TetMesh) else mesh.faces] = True
    without = used & ~np.isin(component, component[chosen])
    if without.any():
        raise InvalidInputError(f"each component needs a handle, that of vertex {int(without.argmax())} has none: hold one of its vertices "
                                "or leave it out")
    return chosen


def _rows(given, name, h):
    """(h, 3) finite float64 rows, one for each handle."""
    rows = as_array(given, name)
    if rows.shape != (h, 3) or rows.dtype.kind not in "biuf" or not np.isfinite(rows).all():
        raise InvalidInputError(f"{name} must be {h} finite rows of 3, one for each handle, got {rows.dtype} of shape {rows.shape}")
    return rows.astype(np.float64)


@takes_arrays
def _copied(mesh):
    return checked_mesh(mesh).copy()


def _rotate(vectors, turns):
    """Vectors (..., m, 3) rotated by rotation vectors (m, 3): Rodrigues' formula."""
    angle = np.linalg.norm(turns, axis=1, keepdims=True)
    sine, half = np.sinc(angle / np.pi), np.sinc(angle / (2 * np.pi))                      # sin(a) / a, sin(a / 2) / (a / 2)
    along = (vectors * turns).sum(axis=-1, keepdims=True)
    return np.cos(angle) * vectors + sine * np.cross(turns, vectors) + 0.5 * half**2 * along * turns


def _rigid(x, handles, at):
    """x moved by the rigid motion that takes the handles closest to their positions (Kabsch 1976)."""
    middle, to = x[handles].mean(axis=0), at.mean(axis=0)
    U, _, V = np.linalg.svd((x[handles] - middle).T @ (at - to))
    U[:, 2] *= np.sign(np.linalg.det(U @ V)) or 1.0
    return (x - middle) @ (U @ V) + to
