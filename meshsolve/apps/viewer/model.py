"""The viewer without its window: a mesh, its views, and all actions on it.

The panels call these methods and draw the results; tests and scripts may call them too. An action that raises changes nothing. The
window runs actions on a copy in another thread, and adopts the copy at the end.
"""

from __future__ import annotations

import contextlib
import copy
import pathlib

import numpy as np

from meshsolve.apps.denoising import denoise
from meshsolve.apps.viewer import geometry, spectrum, structure, surface
from meshsolve.apps.viewer.animation import Animation
from meshsolve.apps.viewer.coloring import PALETTE, Coloring, Plot
from meshsolve.apps.viewer.editing import Editor
from meshsolve.apps.viewer.geometry import Geometry
from meshsolve.apps.viewer.history import History
from meshsolve.apps.viewer.structure import Structure
from meshsolve.apps.viewer.timings import Timings
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import checked_mesh, load_mesh
from meshsolve.options import as_integer, one_of
from meshsolve.patches import LARGEST_PATCH

SHAPES = ("plain", *surface.VIEWS, "eigenvector", *geometry.VIEWS, "displacement", "handles", "weights")
VIEWS = (*SHAPES, *structure.VIEWS)
TOOLS = ("structure", "animation", "editor", "geometry")
LASTING = ("threads", "timings", "history", "gesture", "view", "ordering", "patch_size", "patch")      # what undo does not change


class Model:
    """A mesh in the viewer, with its view and tools.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With at least one face.
    name : str
    threads : int, optional

    Attributes
    ----------
    mesh : Mesh
        The current mesh; ``original`` is the loaded one.
    view : str
        The current view, one of ``VIEWS``; :meth:`coloring` returns its values.
    ordering, patch_size, patch : str, int, int
        Settings of the views of patches and orderings.
    handle, eigenvector : int
        Index of the handle and of the eigenvector that are shown.
    structure, animation, editor, geometry, spectrum, timings, history
        The tools; ``spectrum`` is ``None`` until it is computed.
    gesture : int or None
        Number of the present motion of the mouse: changes of one kind within it are undone together. None: each change alone.
    """

    def __init__(self, mesh, name="mesh", threads=None):
        self.threads, self.timings, self.history, self.gesture = threads, Timings(), History(), None
        self.ordering, self.patch_size, self.patch = "nd", 512, 0
        self._begin(mesh, name)

    # ---- files ----------------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path, threads=None):
        """Make a model of a mesh file."""
        return cls(load_mesh(path), pathlib.Path(path).name, threads)

    def load(self, path):
        """Replace the mesh by that of a file; settings and timings stay."""
        with self._changing("load"):
            self._begin(load_mesh(path), pathlib.Path(path).name)

    def save(self, path):
        """Write the current mesh."""
        self.mesh.save(path)

    def reset(self):
        """Restore the loaded shape. Pins stay, transforms of handles are reset."""
        with self._changing("reset shape"):
            self._replace(self.original)

    def facts(self):
        """Return the sizes of the mesh, name to text."""
        mesh = self.mesh
        return {"vertices": f"{len(mesh.vertices):,}", "faces": f"{len(mesh.faces):,}", "edges": f"{len(mesh.edges):,}",
                "components": f"{mesh.components.max() + 1:,}", "manifold": "yes" if mesh.is_manifold else "no"}

    # ---- copies and undo ------------------------------------------------------------------------------------------------

    def copy(self):
        """Return a model in the same state; changes of one do not change the other. Meshes, factors and caches are shared."""
        other = copy.copy(self)
        for name in TOOLS:
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def adopt(self, other):
        """Take over the state of a copy."""
        vars(self).update(vars(other))

    def undo(self):
        """Undo the last change of the mesh, its pins or handles. Returns the name of the change, empty if no change is left."""
        return self._travel(self.history.last, self.history.undo)

    def redo(self):
        """Make the change again that was undone last. Returns its name, empty if no change is left."""
        return self._travel(self.history.next, self.history.redo)

    # ---- views ----------------------------------------------------------------------------------------------------------

    def show(self, view=None, ordering=None, patch_size=None, patch=None, handle=None, eigenvector=None):
        """Choose the view; omitted settings stay. Returns its :class:`Coloring`, or None for the plain mesh."""
        before = vars(self).copy()
        self.view = one_of(self.view if view is None else view, "view", VIEWS)
        self.ordering = one_of(self.ordering if ordering is None else ordering, "ordering", structure.ORDERINGS)
        self.patch_size = as_integer(self.patch_size if patch_size is None else patch_size, "patch_size", 1, LARGEST_PATCH)
        for name, value in (("patch", patch), ("handle", handle), ("eigenvector", eigenvector)):
            if value is not None:
                setattr(self, name, as_integer(value, name, 0))
        try:
            with self.timings.measure(self.view):
                return self.coloring()
        except BaseException:
            vars(self).update(before)
            raise

    def coloring(self):
        """Return the :class:`Coloring` of the view, or None for the plain mesh."""
        if self.view == "plain":
            return None
        if self.view in surface.VIEWS:
            return surface.view(self.view, self.mesh)
        if self.view in structure.VIEWS:
            return self.structure.view(self.view, self.ordering, self.patch_size, self.patch)
        if self.view in geometry.VIEWS:
            return self.geometry.view(self.view, self.mesh)
        return {"handles": self._handle_view, "weights": self._weight_view, "eigenvector": self._eigenvector_view,
                "displacement": self._displacement_view}[self.view]()

    # ---- actions --------------------------------------------------------------------------------------------------------

    def step(self):
        """Make one step of the flow. The result becomes the rest shape of the editor."""
        with self._changing("step", lambda: dict(self.animation.report.seconds)):
            self.mesh = self.animation.step()
            self.editor.rest(self.mesh)

    def pin(self, vertex, rings=0):
        """Pin a vertex and its neighbors up to ``rings`` edges away, at their current positions."""
        return self._edit("pin", lambda: self.editor.pin(self.editor.around(vertex, rings)), rest_first=True)

    def grab(self, vertex, rings=0):
        """Make a handle of a vertex and its neighbors up to ``rings`` edges away; returns its number."""
        return self._edit("handle", lambda: self.editor.grab(self.editor.around(vertex, rings)), rest_first=True)

    def free(self, vertex, rings=0):
        """Free a vertex and its neighbors up to ``rings`` edges away, and update the surface."""
        return self._edit("free", lambda: self.editor.free(self.editor.around(vertex, rings)))

    def release(self):
        """Remove all pins and handles, and restore the rest shape."""
        return self._edit("release", self.editor.clear)

    def drag(self, handle, transform):
        """Move a handle by an offset (3,) or a transform (4, 4) relative to the rest shape, and update the surface."""
        return self._edit("drag", lambda: self.editor.move(handle, transform))

    def use_edit(self, method=None, bending=None):
        """Choose the editor's method or stiffness, and update the surface."""
        return self._edit("method" if bending is None else "refactor", lambda: self.editor.use(method, bending))

    def keep(self):
        """Make the edited shape the rest shape."""
        with self._changing("keep shape"):
            self._replace(self.mesh)

    def measure(self, vertices, add=False):
        """Choose source vertices; ``add`` keeps the earlier ones. Shows the distances, or another view of sources if that is shown."""
        before = self.geometry.sources
        given = np.atleast_1d(vertices)
        self.geometry.use(self.mesh, np.concatenate([before, given[~np.isin(given, before)]]) if add else given)
        try:
            return self.show(self.view if self.view in geometry.VIEWS[1:4] else "distance")
        except BaseException:
            self.geometry.use(self.mesh, before)
            raise

    def flatten(self, method=None):
        """Show a map to the plane by a checkerboard, or its distortion if that is shown. Surfaces that are no discs are cut."""
        before = self.geometry.method
        self.geometry.use(self.mesh, method=method)
        try:
            return self.show(self.view if self.view in geometry.MAPS else "texture")
        except BaseException:
            self.geometry.use(self.mesh, method=before)
            raise

    def denoise(self, sigma=0.35):
        """Remove noise and keep creases. The result becomes the rest shape."""
        with self._changing("denoise"):
            self._replace(denoise(self.mesh, sigma=sigma)[0])

    def decompose(self, count=8, laplacian="graph"):
        """Compute eigenvectors of the current mesh."""
        with self.timings.measure("eigenvectors"):
            self.spectrum = spectrum.eigenvectors(self.mesh, count, laplacian, threads=self.threads)
        self.eigenvector = min(self.eigenvector, count - 1)

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _begin(self, mesh, name):
        mesh = checked_mesh(mesh)
        if len(mesh.faces) == 0:
            raise InvalidInputError(f"{name} has no faces: the viewer needs a surface")
        self.mesh = self.original = mesh
        self.name, self.view, self.spectrum, self.eigenvector, self.handle = str(name), "plain", None, 0, 0
        self.structure = Structure(mesh, self.threads)
        self.animation, self.editor = Animation(mesh, self.threads), Editor(mesh, self.threads)
        self.geometry = Geometry(self.threads)

    def _travel(self, name, move):
        if name:
            self.history, state = move(self._state())
            vars(self).update(state)
            self.adopt(self.copy())                         # the state stays as it is, for other copies of the history
            self.animation.running = False
        return name

    def _state(self):
        return {name: value for name, value in vars(self.copy()).items() if name not in LASTING}

    @contextlib.contextmanager
    def _changing(self, name, phases=dict):
        """Time the ``with`` block and make it a change that can be undone, unless it raises."""
        before = self._state()
        with self.timings.measure(name, phases):
            yield
        self.history = self.history.record(name, self.gesture, before)

    def _handle_view(self):
        group = self.editor.group
        colors = np.full((len(group), 3), 0.87)
        colors[group == 0] = 0.25
        colors[group > 0] = PALETTE[9 + (group[group > 0] - 1) % (len(PALETTE) - 9)]
        return Coloring("handles", colors, caption=f"{(group == 0).sum():,} pinned (dark), {len(self.editor.transforms)} handles")

    def _weight_view(self):
        handles = list(self.editor.transforms)
        if not handles:
            raise InvalidInputError("the view \"weights\" needs a handle: make one first")
        k = min(self.handle, len(handles) - 1)
        return Coloring("weights", self.editor.weights()[:, k], caption=f"harmonic weights of handle {handles[k]}", limits=(0, 1))

    def _eigenvector_view(self):
        if self.spectrum is None:
            self.decompose()
        w = self.spectrum.values
        k = min(self.eigenvector, len(w) - 1)
        v = self.spectrum.vectors[:, k]
        largest = float(np.abs(v).max())
        return Coloring("eigenvector", v, caption=f"eigenvector {k + 1} of {len(w)}, eigenvalue {w[k]:.5g}", colormap="coolwarm",
                        limits=(-largest, largest), plot=Plot("smallest eigenvalues", "number", "eigenvalue", {"eigenvalue": w}))

    def _displacement_view(self):
        moved = np.linalg.norm(self.mesh.vertices - self.original.vertices, axis=1)
        return Coloring("displacement", moved, caption=f"distance from the loaded shape, at most {moved.max():.4g}")

    def _edit(self, action, change, rest_first=False):
        """Change the editor and update the surface. With ``rest_first`` the current surface first becomes the rest shape."""
        with self._changing(action, lambda: dict(self.editor.report.seconds)), self.editor.restored_on_error():
            if rest_first and self.editor.is_moved:
                self.editor.rest(self.mesh)
            result = change()
            self.mesh = self.mesh.with_vertices(self.editor.positions())
            self.animation.restart(self.mesh)
        return result

    def _replace(self, mesh):
        self.mesh = mesh
        self.animation.restart(mesh)
        self.editor.rest(mesh)
