"""Interactive deformation of a surface by handles, on one factor: as rigid as possible, or by the bi-Laplacian.

ARAP: each vertex turns as a rigid body with the faces around it; rotations of all vertices and a solve for the positions alternate,
and the energy never rises. Bi-Laplacian: the displacement of least bending.

Sources: Sorkine, Alexa 2007; Chao, Pinkall, Sanan, Schroeder 2010 (spokes and rims: each face counts with all its sides); Botsch,
Kobbelt 2004.
Cost: one Cholesky factor; each iteration one solve with 3 columns and O(n + m) for the rotations, in native code.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, takes_arrays
from meshsolve.operators import cotan_laplacian, mass_matrix
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
    method : {"arap", "bilaplacian"}
        ``"arap"`` keeps details and turns with the handles. ``"bilaplacian"`` is linear and smooth; details do not turn.
    device : {"auto", "cpu", "cuda"}
        Where the factor lies and solves. Rotations are fitted on the host.
    threads : int, optional

    Attributes
    ----------
    energy : float
        ARAP energy of the last shape.
    iterations : int
        Solves of the last :meth:`move` after its start; 0 if the start has no energy.
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

    def __init__(self, mesh: MeshLike, handles: ArrayLike, method: Literal["arap", "bilaplacian"] = "arap", *, device: Device = "auto",
                 threads: int | None = None) -> None:
        self._mesh, self._method = _copied(mesh), one_of(method, "method", ("arap", "bilaplacian"))
        self.report = Report(threads=thread_count(threads))
        self._handles = checked_handles(self._mesh, handles)
        L = cotan_laplacian(self._mesh)
        if self._method == "bilaplacian":
            mass = mass_matrix(self._mesh).diagonal()
            L = sp.csr_array(L @ sp.diags_array(1 / np.where(mass > 0, mass, 1)) @ L)
        else:
            self._rotations = VertexRotations(self._mesh, threads)
        self.factor = cholesky(L, fixed=self._held(), device=device, threads=threads)
        self.report.merge(self.factor.report)
        self._shape, self.energy, self.iterations = self._mesh.vertices.copy(), 0.0, 0

    def _held(self):
        """The rows that are held, ascending: handles, and vertices without faces."""
        free = np.zeros(len(self._mesh.vertices), bool)
        free[self._mesh.faces] = True
        free[self._handles] = False
        if not free.any():
            raise InvalidInputError("handles must leave a vertex of a face free, got all of them")
        return np.flatnonzero(~free)

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
        held = self._mesh.vertices.copy()
        held[self._handles] = at
        if self._method == "bilaplacian":
            self._shape, = self._smooth([self._mesh.vertices], held)
        else:
            self._alternate(at, held, iterations, tol)
        return self._mesh.with_vertices(self._shape)

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
        start = min(starts, key=self._rotations.fit)
        size = float((np.ptp(self._mesh.vertices, axis=0) ** 2).sum())
        with self.report.phase("alternate"):
            self._shape, self.energy, self.iterations = alternate(self._rotations, lambda b: self._solve(b, held), start, iterations, tol,
                                                                  ZERO * size)


def checked_handles(mesh, handles):
    """Distinct vertices as (h,) int32; raises unless each component with faces has one."""
    chosen, component, used = as_indices(handles, len(mesh.vertices), "handles"), mesh.components, np.zeros(len(mesh.vertices), bool)
    if len(chosen) == 0:
        raise InvalidInputError("handles must have at least one vertex, got none")
    used[mesh.faces] = True
    without = used & ~np.isin(component, component[chosen])
    if without.any():
        raise InvalidInputError(f"each component needs a handle, that of vertex {int(without.argmax())} has none: hold one of its vertices "
                                "or leave it out")
    return chosen


@takes_arrays
def _copied(mesh):
    return checked_mesh(mesh).copy()


def _rigid(x, handles, at):
    """x moved by the rigid motion that takes the handles closest to their positions (Kabsch 1976)."""
    middle, to = x[handles].mean(axis=0), at.mean(axis=0)
    U, _, V = np.linalg.svd((x[handles] - middle).T @ (at - to))
    U[:, 2] *= np.sign(np.linalg.det(U @ V)) or 1.0
    return (x - middle) @ (U @ V) + to
