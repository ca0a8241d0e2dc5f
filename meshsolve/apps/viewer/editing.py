"""Editing with pins and handles: free vertices follow by a bi-Laplacian, by harmonic weights, or as rigidly as possible.

Pinned vertices and handles are eliminated by ``fixed=``. The ordering is computed once for the mesh and restricted to the free
vertices. Another pin therefore costs a symbolic and a numeric phase; another stiffness or rest shape only a ``refactor``. The
surface is linear in the affine transforms of the handles: one solve gives a basis, and dragging is a product with it. As rigid as
possible is not linear: :class:`meshsolve.apps.Deformation` starts each drag from the last shape.

Sources: Botsch and Kobbelt 2004, "An intuitive framework for real-time freeform modeling" (precomputed basis); Joshi et al. 2007,
"Harmonic coordinates for character articulation" (weights).
"""

from __future__ import annotations

import contextlib
import copy

import numpy as np
import scipy.sparse as sp

from meshsolve import api, order
from meshsolve.apps.deformation import Deformation
from meshsolve.apps.systems import BILAPLACIAN, System, squared_edge
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import pattern_of
from meshsolve.options import as_integer, as_number, one_of
from meshsolve.report import Report
from meshsolve.sparse.columns import as_indices

METHODS = ("bi-Laplacian", "harmonic weights", "as rigid as possible")
STEPS = 10                          # iterations of one drag, as rigid as possible
FREE, PINNED = -1, 0                # groups of vertices; handles are 1, 2, ...


class Editor:
    """A surface with pinned vertices and handles. Copies (``copy.copy``) may be changed and used apart from each other.

    Parameters
    ----------
    mesh : Mesh
        The rest shape.
    threads : int, optional
    device : {"auto", "cpu", "cuda"}

    Attributes
    ----------
    group : (n,) int32
        -1: free, 0: pinned, k: vertex of handle k.
    transforms : dict of int to (4, 4) float64
        Transform of each handle relative to the rest shape.
    method : {"bi-Laplacian", "harmonic weights", "as rigid as possible"}
        The first keeps the surface smooth across pins and handles; the second blends the transforms of the handles; the third keeps
        the details and turns them with the handles.
    bending : float from 0 to 1
        Stiffness of the bi-Laplacian method, from a membrane (0) to a thin plate (1).
    report : Report
        Total time of every phase.
    """

    def __init__(self, mesh, threads=None, device="auto"):
        self.mesh, self.threads, self.device = mesh, threads, device
        self.group = np.full(len(mesh.vertices), FREE, np.int32)
        self.transforms, self.method, self.bending = {}, METHODS[0], 1.0
        self.report = Report()
        self._orderings = {}
        self._forget_values()
        self._forget_factor()

    # ---- pins and handles -----------------------------------------------------------------------------------------------

    def pin(self, vertices):
        """Fix vertices at their rest positions."""
        self._assign(vertices, PINNED)

    def free(self, vertices):
        """Free vertices. A handle without vertices is removed."""
        self._assign(vertices, FREE)

    def grab(self, vertices):
        """Make a handle of vertices and return its number."""
        handle = max(self.transforms, default=0) + 1
        self.transforms = {**self.transforms, handle: np.eye(4)}
        self._assign(vertices, handle)
        return handle

    def clear(self):
        """Remove all pins and handles, which restores the rest shape."""
        self._assign(slice(None), FREE)

    def around(self, vertex, rings):
        """Return the vertices at most ``rings`` edges away from ``vertex``, ascending."""
        near = np.zeros(len(self.group), bool)
        near[as_integer(vertex, "vertex", 0, len(self.group) - 1)] = True
        low, high = np.ascontiguousarray(self.mesh.edges.T)
        for _ in range(as_integer(rings, "rings", 0)):
            reached = near[low] | near[high]
            near[low[reached]] = near[high[reached]] = True
        return np.flatnonzero(near)

    # ---- motion ---------------------------------------------------------------------------------------------------------

    def move(self, handle, transform):
        """Set the offset (3,) or the transform (4, 4) of a handle relative to the rest shape."""
        if handle not in self.transforms:
            raise InvalidInputError(f"handle must be one of {sorted(self.transforms)}, got {handle}")
        given = np.asarray(transform, np.float64)
        if given.shape not in ((3,), (4, 4)) or not np.isfinite(given).all():
            raise InvalidInputError(f"transform must be (3,) or (4, 4) finite numbers, got shape {given.shape}")
        T = np.eye(4) if given.shape == (3,) else given.copy()
        if given.shape == (3,):
            T[:3, 3] = given
        self.transforms = {**self.transforms, handle: T}

    def use(self, method=None, bending=None):
        """Choose the method or the stiffness. A new stiffness refactors at the next drag."""
        if method is not None and one_of(method, "method", METHODS) != self.method:
            self.method = method
            self._forget_factor()
        if bending is not None and (bending := as_number(bending, "bending")) != self.bending:
            if bending > 1:
                raise InvalidInputError(f"bending must be a number from 0 to 1, got {bending:g}")
            self.bending = bending
            self._stale |= self.method == "bi-Laplacian"

    def rest(self, mesh):
        """Set another rest shape with the same faces, and reset the transforms of handles. Refactors at the next drag."""
        self.mesh = mesh
        self.transforms = {k: np.eye(4) for k in self.transforms}
        self._forget_values()
        self._stale, self._basis, self._weights = True, None, None

    @property
    def is_moved(self):
        """True if some handle has a transform other than the identity."""
        return any(not np.array_equal(T, np.eye(4)) for T in self.transforms.values())

    @contextlib.contextmanager
    def restored_on_error(self):
        """Restore the state before the ``with`` block if it raises."""
        before = vars(self).copy()                          # attributes are replaced, never changed in place
        try:
            yield
        except BaseException:
            vars(self).update(before)                       # the factor may have newer values, which the clock shows
            raise

    def center(self, handle):
        """Return the mean (3,) of a handle's vertices in the rest shape."""
        return self.mesh.vertices[self.group == handle].mean(axis=0)

    def positions(self):
        """Compute the vertices (n, 3) of the edited surface: for the linear methods by a product with :meth:`basis`."""
        x = self.mesh.vertices
        if not self.transforms:
            return x.copy()
        if self.method == METHODS[2]:
            return self._rigid_positions()
        offsets = [(T - np.eye(4))[:3].T for T in self.transforms.values()]         # [x, 1] @ offset is the displacement of x
        if self.method == "bi-Laplacian":
            return x + self.basis() @ np.concatenate(offsets)
        moved = x.copy()
        for w, offset in zip(self.basis().T, offsets):
            moved += w[:, None] * (x @ offset[:3] + offset[3])
        return moved

    def basis(self):
        """Return the basis of displacements, in the order of ``transforms``. Computed on first use.

        Returns
        -------
        (n, k) or (n, 4 k) float64
            Harmonic weights: 1 on the handle, 0 on other fixed vertices. Bi-Laplacian: four columns per handle, the solutions
            for the displacements x, y, z and 1 of its vertices, which span all affine transforms.
        """
        self._prepare()
        if self._basis is None:
            mine = (self._group_of_row[:, None] == np.array(list(self.transforms))).astype(np.float64)
            if self.method == "bi-Laplacian":
                at = np.column_stack([self.mesh.vertices[self._rows], np.ones(len(self._rows))])
                mine = (mine[:, :, None] * at[:, None]).reshape(len(mine), -1)
            self._basis = self._solve(mine)
        return self._basis

    def weights(self):
        """Return the harmonic weights (n, k) of the handles, for either method."""
        if self.method == "harmonic weights":
            return self.basis()
        if self._weights is None:
            other = copy.copy(self)
            other.use("harmonic weights")
            self._weights = other.basis()
        return self._weights

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _assign(self, vertices, group):
        rows = vertices if isinstance(vertices, slice) else as_indices(vertices, len(self.group), "vertices")
        self.group = self.group.copy()
        self.group[rows] = group
        used = set(np.unique(self.group).tolist())
        self.transforms = {k: T for k, T in self.transforms.items() if k in used}
        self._forget_factor()

    def _rigid_positions(self):
        """Positions as rigid as possible. Vertices that are not fixed start from those of the last call."""
        self._prepare()
        at = self.mesh.vertices[self._rows].copy()
        for handle, T in self.transforms.items():
            mine = self._group_of_row == handle
            at[mine] = at[mine] @ T[:3, :3].T + T[:3, 3]
        if len(self._rows) == len(self.group):              # every vertex is fixed, and rows are ascending
            return at
        self._count_use()
        with self.report.phase("solve"):
            return self._deformation.move(at, iterations=STEPS).vertices

    # ---- the system -----------------------------------------------------------------------------------------------------

    def _solve(self, values):
        """Compute the displacements of all vertices from the displacements of the fixed ones."""
        n = len(self.group)
        if self._factor is None:                            # every vertex is fixed
            x = np.empty((n, values.shape[1]))
            x[self._rows] = values
            return x
        with self._counted():
            return self._factor.solve(np.zeros((n, values.shape[1])), fixed_values=values)

    def _prepare(self):
        """Update the factor to the fixed vertices, the method, the stiffness and the rest shape."""
        if self._rows is None:
            self._rows = self._fixed_rows()
            self._group_of_row = self.group[self._rows]
        elif not self._stale and self._use == self._clock[0]:
            return
        self._count_use()
        if self.method == METHODS[2]:
            if len(self._rows) < len(self.group):
                with self.report.phase("numeric"):
                    self._deformation = Deformation(self.mesh, self._rows, device=self.device, threads=self.threads)
        elif len(self._rows) < len(self.group):
            A = self._matrix()
            with self._counted():
                if self._factor is None:
                    self._factor = api.cholesky(A, self._ordering(A), fixed=self._rows, device=self.device, threads=self.threads)
                else:
                    self._factor.refactor(A)
        self._stale, self._basis = False, None

    def _fixed_rows(self):
        """Return the vertices of pins and handles, and one vertex of each component without them, which stays at rest."""
        rows = np.flatnonzero(self.group != FREE)
        component = self.mesh.components
        unfixed = np.ones(component.max() + 1, bool)
        unfixed[component[rows]] = False
        first = np.unique(component, return_index=True)[1]
        return np.union1d(rows, first[unfixed])

    def _matrix(self):
        """Return L for weights, else (1 - bending) L / edge^2 + bending L M^-1 L, with the same pattern for every stiffness."""
        if self._system is None:
            self._system = System(self.mesh, **BILAPLACIAN)
        L = self._system.assembler.matrix(self._system.stiffness)
        if self.method == "harmonic weights":
            return L
        plate = L @ sp.diags_array(1 / self._system.mass) @ L
        return self.bending * plate + L * ((1 - self.bending) / squared_edge(self.mesh))

    def _ordering(self, A):
        """Return the ordering of the whole mesh, computed once for each of the two patterns."""
        if self.method not in self._orderings:
            with self.report.phase("order"):
                self._orderings[self.method] = order.auto(pattern_of(A), threads=self.threads)
        return self._orderings[self.method]

    def _forget_values(self):
        self._system = None

    def _forget_factor(self):
        self._factor = self._rows = self._basis = self._weights = self._deformation = None
        self._stale, self._use, self._clock = True, 0, [0]

    def _count_use(self):
        """Advance the clock that all copies of this editor share with its factor. A copy whose last use is not the latest factors again."""
        self._clock[0] += 1
        self._use = self._clock[0]

    @contextlib.contextmanager
    def _counted(self):
        """Add the time of the factor in the ``with`` block to the editor's report."""
        before = dict(self._factor.report.seconds) if self._factor is not None else {}
        yield
        for phase, spent in self._factor.report.seconds.items():
            self.report.add(phase, spent - before.get(phase, 0.0))
