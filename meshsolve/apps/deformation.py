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

from meshsolve.api import cholesky
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.checks import require_width
from meshsolve.mesh.measures import without_shape
from meshsolve.mesh.tets import TetMesh
from meshsolve.operators import cotan_laplacian, divergence, gradient
from meshsolve.operators.bending import bending
from meshsolve.operators.rigid import VertexRotations, alternate, alternate_parts
from meshsolve.options import as_integer, as_number, one_of, thread_count
from meshsolve.order import rcm
from meshsolve.report import Report
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array, as_indices
from meshsolve.types import ArrayLike, Device

ZERO = 1e-24            # energy relative to the squared size of the mesh that is rounding error
ON_LINE = 1e-8          # second singular value of products of positions on a line, relative to the first


class Deformation(Sealed):
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
        ARAP energy of the last shape, computed at the first use.
    iterations : int
        Solves of ARAP in the last :meth:`move` after its start; 0 if the start has no energy.
    factor : CholeskyFactor
    report : Report
        Seconds of all calls: ``solve``, and ``alternate`` for solves and rotations together.

    Raises
    ------
    InvalidInputError
        No handle, a handle outside the mesh or twice, a component without a handle (names a vertex), no vertex without a handle.
        No face, or a vertex whose faces have coinciding corners opposite to it (names it).
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
        L = bending(self._mesh) if self._method == "bilaplacian" else cotan_laplacian(self._mesh)
        if self._method == "poisson":
            self._gradients = (gradient(self._mesh) @ self._mesh.vertices).reshape(3, -1, 3)       # (component, face, coordinate)
            self._divergence = divergence(self._mesh)
        held = self._held(L.diagonal())
        self.factor = cholesky(L, fixed=held, device=device, threads=threads)
        self.report.merge(self.factor.report)
        self.iterations = 0
        if self._method == "arap":
            self._arap = _Arap(self._mesh, L, held, self.factor, self.report, threads, rims)

    @property
    def energy(self):
        return self._arap.energy if self._method == "arap" else 0.0

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
        if self._method == "arap":
            shape, self.iterations = self._arap.move(self._handles, at, iterations, tol)
        elif self._method == "poisson":
            shape = self._solve(self._turned(turns), held)
        else:
            moves = held - self._mesh.vertices
            shape = self._mesh.vertices + self._solve(np.zeros_like(moves), moves)
        return self._mesh.with_vertices(shape)

    def _held(self, weights):
        """The rows that are held, ascending: handles, and vertices without faces. ``weights`` (n,) is the diagonal of the system."""
        if len(self._mesh.faces) == 0:
            raise InvalidInputError("the mesh must have a face, got none")
        free = np.zeros(len(self._mesh.vertices), bool)
        free[self._mesh.faces] = True
        free[self._handles] = False
        if not free.any():
            raise InvalidInputError("handles must leave a vertex of a face free, got all of them")
        if (loose := free & (weights == 0)).any():
            raise InvalidInputError(f"vertex {int(loose.argmax())} has only faces whose other corners coincide, so that no handle "
                                    "determines it: add it to the handles, or leave it out")
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

    def _solve(self, b, values):
        with self.report.phase("solve"):
            return self.factor.solve(b, fixed_values=values)


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
    if not isinstance(mesh, TetMesh):
        free = without_shape(mesh)
        free[chosen] = False
        if free.any():
            raise InvalidInputError(f"the faces of the component of vertex {int(free.argmax())} have no area, so that handles do not "
                                    "determine it: add it to the handles, or leave the component out")
    return chosen


class _Arap:
    """As-rigid-as-possible deformation of a mesh whose handles are fixed rows of a factor.

    Vertices are numbered by the reverse Cuthill-McKee ordering, so that neighbors are close in memory. All positions of this class have
    this numbering. Displacements d of the handles solve L d = 0. They are linear in the handles, so one solve has those of all starts.
    Each component with faces has its own start and end, so that it becomes what it would become alone.
    """

    def __init__(self, mesh, L, held, factor, report, threads, rims):
        order, self._position = rcm(L).perm, np.empty(len(mesh.vertices), np.int32)
        self._position[order] = np.arange(len(order), dtype=np.int32)
        rest = Mesh(mesh.vertices[order], self._position[mesh.faces])
        self._rest, self._part, self._factor, self._report = rest.vertices, _parts(rest), factor, report
        self._rotations = VertexRotations(rest, threads, rims, self._part)
        rows_of_parts = self._rows_of_parts(np.arange(len(order)))
        self._least = ZERO * np.array([(np.ptp(self._rest[rows], axis=0) ** 2).sum() for rows in rows_of_parts])
        self._extended = self._displacement(self._rest.copy())          # of the handles at rest
        self._details = self._rest - self._extended
        block = L[held]
        near = np.unique(block.indices)
        self._held, self._near, self._held_block = self._position[held], self._position[near], block[:, near]
        self._last, self._last_change, self._energy = None, None, 0.0

    @property
    def energy(self):
        """Energy of the last shape."""
        if self._energy is None:
            self._energy = self._rotations.fit(self._last)
        return float(np.sum(self._energy))

    def move(self, handles, at, iterations, tol):
        """(positions (n, 3) in the numbering of the mesh, number of solves): local and global steps in turn, from the best start."""
        moved = self._rest.copy()
        moved[self._position[handles]] = at
        start, energy = self._start(self._position[handles], at, moved)
        solve = self._solver(moved)
        with self._report.phase("alternate"):
            options = self._rotations, solve, start, iterations, tol
            self._last, self._energy, steps = (alternate(*options, self._least[0], energy) if self._part is None else
                                               alternate_parts(*options, self._least, self._part, energy))
        return self._last.take(self._position, axis=0), steps

    def _start(self, handles, at, moved):
        """(positions, their energy or None): the last shape, or a rigid motion of the rest shape, plus a displacement of the handles."""
        last, self._last_change = self._last_change, self._displacement(moved - self._rest)
        of_parts = [_rigid_motion(self._rest[handles[rows]], at[rows]) for rows in self._rows_of_parts(handles)]
        turns, shifts = (np.array(motion) for motion in zip(*of_parts, strict=True))
        rigid = self._turned(self._details, turns) + (self._last_change + self._extended)
        if self._last is None:
            rest, still = self._rest + self._last_change, np.eye(3) + np.zeros_like(turns)
            return self._chosen(self._dirichlet(still, np.zeros_like(shifts)) <= self._dirichlet(turns, shifts), rest, rigid), None
        near = self._last + (self._last_change - last)
        of_rigid, of_near = self._rotations.fit(rigid), self._rotations.fit(near)
        is_near = of_near < of_rigid
        return self._chosen(is_near, near, rigid), of_near if np.all(is_near) else None

    def _dirichlet(self, turns, shifts):
        """d^T L d of the displacement d from a rigid motion of each part at rest to the last handles: a bound of the energy; (p,)."""
        held, near = (self._last_change[rows] + (self._extended[rows] - self._turned(self._extended[rows], turns, rows)
                                                 - shifts[0 if self._part is None else self._part[rows]])
                      for rows in (self._held, self._near))
        products = (held * (self._held_block @ near)).sum(axis=1)
        return products.sum(keepdims=True) if self._part is None else np.bincount(self._part[self._held], products, len(turns))

    def _turned(self, x, turns, rows=slice(None)):
        """Positions x (k, 3) of the vertices ``rows``, each times the matrix of its part (p, 3, 3)."""
        return x @ turns[0] if self._part is None else np.einsum("nk,nkl->nl", x, turns[self._part[rows]])

    def _chosen(self, is_first, first, second):
        """The rows of ``first`` (n, 3) in the parts of the mask ``is_first``, of ``second`` in the others."""
        if self._part is None:
            return first if np.all(is_first) else second
        return np.where(is_first[self._part][:, None], first, second)

    def _rows_of_parts(self, vertices):
        """For each part, the rows of ``vertices`` (k,) in it; all of them if there is one part."""
        if self._part is None:
            return [np.arange(len(vertices))]
        part = self._part[vertices]
        return np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part))[:-1])

    def _displacement(self, moves):
        """The displacement with the values of ``moves`` (n, 3) in the held rows; it overwrites ``moves``."""
        return self._solver(moves)(np.zeros_like(moves))

    def _solver(self, x):
        """The function that solves for a right-hand side and writes the free rows of x."""
        solver = self._factor._solver(x, self._position)

        def solve(b):
            with self._report.phase("solve"):
                return solver(b)

        return solve


def _parts(mesh):
    """(n,) the number of each vertex' component among those with faces, 0 without faces; None if there is only one."""
    with_faces = np.unique(mesh.components[mesh.faces[:, 0]])
    if len(with_faces) == 1:
        return None
    at = np.minimum(np.searchsorted(with_faces, mesh.components), len(with_faces) - 1)
    return np.where(with_faces[at] == mesh.components, at, 0)


def _rows(given, name, h):
    """(h, 3) finite float64 rows, one for each handle."""
    rows = as_array(given, name)
    if rows.shape != (h, 3) or rows.dtype.kind not in "biuf" or not np.isfinite(rows).all():
        raise InvalidInputError(f"{name} must be {h} finite rows of 3, one for each handle, got {rows.dtype} of shape {rows.shape}")
    return rows.astype(np.float64)


@takes_arrays
def _copied(mesh):
    return require_width(checked_mesh(mesh)).copy()


def _rotate(vectors, turns):
    """Vectors (..., m, 3) rotated by rotation vectors (m, 3): Rodrigues' formula."""
    angle = np.linalg.norm(turns, axis=1, keepdims=True)
    sine, half = np.sinc(angle / np.pi), np.sinc(angle / (2 * np.pi))                      # sin(a) / a, sin(a / 2) / (a / 2)
    along = (vectors * turns).sum(axis=-1, keepdims=True)
    return np.cos(angle) * vectors + sine * np.cross(turns, vectors) + 0.5 * half**2 * along * turns


def _rigid_motion(x, at):
    """(turn (3, 3), shift (3,)) of the rigid motion x @ turn + shift closest to the positions ``at`` (Kabsch 1976). Of several, as for
    points on a line, the one that turns least."""
    middle, to = x.mean(axis=0), at.mean(axis=0)
    U, s, V = np.linalg.svd((x - middle).T @ (at - to))
    if s[1] > ON_LINE * s[0]:
        U[:, 2] *= np.sign(np.linalg.det(U @ V)) or 1.0
        turn = U @ V
    else:
        turn = _least_turn(U[:, 0], V[0]) if s[0] > 0 else np.eye(3)
    return turn, to - middle @ turn


def _least_turn(a, b):
    """(3, 3) the rotation that takes the unit vector a to b, a @ turn = b, by the least angle."""
    axis = np.cross(a, b)
    sine = np.linalg.norm(axis)
    if sine == 0:
        axis = np.cross(a, np.eye(3)[np.abs(a).argmin()])
    angle = np.arctan2(sine, a @ b)
    return _rotate(np.eye(3), np.tile(angle * axis / np.linalg.norm(axis), (3, 1)))
