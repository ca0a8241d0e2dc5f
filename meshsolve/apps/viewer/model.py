"""The viewer without its window: a mesh, what is seen on it, and everything that can be done to it.

The panels call these methods and draw what they return; tests and scripts call them as well. An action either succeeds or
raises and leaves everything as it was.
"""

from __future__ import annotations

import pathlib

import numpy as np

from meshsolve.apps.viewer import spectrum, structure
from meshsolve.apps.viewer.animation import Animation
from meshsolve.apps.viewer.coloring import PALETTE, Coloring
from meshsolve.apps.viewer.editing import Editor
from meshsolve.apps.viewer.structure import Structure
from meshsolve.apps.viewer.timings import Timings
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import load_mesh, placed_mesh
from meshsolve.options import as_integer, one_of
from meshsolve.patches import LARGEST_PATCH

VIEWS = ("plain", *structure.VIEWS, "handles", "weights", "eigenvector", "displacement")


class Model:
    """A mesh under the viewer.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With at least one face.
    name : str
    threads : int, optional

    Attributes
    ----------
    mesh : Mesh
        As it is now; ``original`` is as it was loaded.
    view : str
        Which of ``VIEWS`` is seen; :meth:`coloring` gives its values.
    ordering, patch_size, patch : str, int, int
        What the views of the solver's structure are about.
    handle, eigenvector : int
        Which handle's weights and which eigenvector are seen.
    structure, animation, editor, spectrum, timings
        The parts; ``spectrum`` is None until it is computed.
    """

    def __init__(self, mesh, name="mesh", threads=None):
        self.threads, self.timings = threads, Timings()
        self.ordering, self.patch_size, self.patch = "nd", 512, 0
        self._begin(mesh, name)

    def _begin(self, mesh, name):
        mesh = placed_mesh(mesh)
        if len(mesh.faces) == 0:
            raise InvalidInputError(f"{name} has no faces: there is nothing to see")
        self.mesh = self.original = mesh
        self.name, self.view, self.spectrum, self.eigenvector, self.handle = str(name), "plain", None, 0, 0
        self.structure = Structure(mesh, self.threads)
        self.animation, self.editor = Animation(mesh, self.threads), Editor(mesh, self.threads)

    # ---- files ----------------------------------------------------------------------------------------------------------

    @classmethod
    def open(cls, path, threads=None):
        """The model of a mesh file."""
        return cls(load_mesh(path), pathlib.Path(path).name, threads)

    def load(self, path):
        """Another mesh takes the place of this one; settings and timings stay."""
        with self.timings.measure("load"):
            self._begin(load_mesh(path), pathlib.Path(path).name)

    def save(self, path):
        """Write the mesh as it is now."""
        self.mesh.save(path)

    def reset(self):
        """The shape as it was loaded; pins stay, handles go back to their places."""
        self._take(self.original)

    def facts(self):
        """Name to text: sizes of the mesh."""
        mesh = self.mesh
        return {"vertices": f"{len(mesh.vertices):,}", "faces": f"{len(mesh.faces):,}", "edges": f"{len(mesh.edges):,}",
                "components": f"{mesh.components.max() + 1:,}", "manifold": "yes" if mesh.is_manifold else "no"}

    # ---- what is seen ---------------------------------------------------------------------------------------------------

    def show(self, view=None, ordering=None, patch_size=None, patch=None, handle=None, eigenvector=None):
        """Choose what is seen on the mesh; what is left out stays. Returns its :class:`Coloring`, None for the plain mesh."""
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
        """The :class:`Coloring` of the view, None for the plain mesh."""
        if self.view == "plain":
            return None
        if self.view in structure.VIEWS:
            return self.structure.view(self.view, self.ordering, self.patch_size, self.patch)
        return {"handles": self._handle_view, "weights": self._weight_view, "eigenvector": self._eigenvector_view,
                "displacement": self._displacement_view}[self.view]()

    def _handle_view(self):
        group = self.editor.group
        colors = np.full((len(group), 3), 0.87)
        colors[group == 0] = 0.25
        colors[group > 0] = PALETTE[9 + (group[group > 0] - 1) % (len(PALETTE) - 9)]
        return Coloring("handles", colors, caption=f"{(group == 0).sum():,} pinned (dark), {len(self.editor.transforms)} handles")

    def _weight_view(self):
        handles = list(self.editor.transforms)
        if not handles:
            raise InvalidInputError("there is no handle: make one, and its weights can be seen")
        k = min(self.handle, len(handles) - 1)
        return Coloring("weights", self.editor.weights()[:, k], caption=f"harmonic weights of handle {handles[k]}", limits=(0, 1))

    def _eigenvector_view(self):
        if self.spectrum is None:
            self.decompose()
        k = min(self.eigenvector, len(self.spectrum.values) - 1)
        v = self.spectrum.vectors[:, k]
        largest = float(np.abs(v).max())
        return Coloring("eigenvector", v, caption=f"eigenvector {k + 1}, eigenvalue {self.spectrum.values[k]:.5g}",
                        colormap="coolwarm", limits=(-largest, largest))

    def _displacement_view(self):
        moved = np.linalg.norm(self.mesh.vertices - self.original.vertices, axis=1)
        return Coloring("displacement", moved, caption=f"distance from where it was loaded, at most {moved.max():.4g}")

    # ---- what is done ---------------------------------------------------------------------------------------------------

    def step(self):
        """One step of the animation's flow; handles begin anew from there."""
        with self.timings.measure("step", lambda: dict(self.animation.report.seconds)):
            mesh = self.animation.step()
        self.mesh = mesh
        self.editor.rest(mesh)

    def pin(self, vertex, rings=0):
        """Hold a vertex and those at most ``rings`` edges around it, where they are now."""
        return self._edit("pin", lambda: self.editor.pin(self.editor.around(vertex, rings)), here=True)

    def grab(self, vertex, rings=0):
        """Make a handle of a vertex and its surroundings, where they are now; returns its number."""
        return self._edit("handle", lambda: self.editor.grab(self.editor.around(vertex, rings)), here=True)

    def free(self, vertex, rings=0):
        """Let a vertex and its surroundings go; the surface follows."""
        return self._edit("free", lambda: self.editor.free(self.editor.around(vertex, rings)))

    def release(self):
        """No pins, no handles, and the shape at rest."""
        return self._edit("release", self.editor.clear)

    def drag(self, handle, transform):
        """Move a handle by an offset (3,) or a transform (4, 4) from where it was at rest; the surface follows."""
        return self._edit("drag", lambda: self.editor.move(handle, transform))

    def use_edit(self, method=None, bending=None):
        """Choose the editor's method or stiffness; the surface follows."""
        return self._edit("method" if bending is None else "refactor", lambda: self.editor.use(method, bending))

    def keep(self):
        """The edited shape becomes the shape at rest: handles are dragged on from there."""
        self._take(self.mesh)

    def decompose(self, count=8, laplacian="graph"):
        """Compute eigenvectors of the mesh as it is now."""
        with self.timings.measure("eigenvectors"):
            self.spectrum = spectrum.eigenvectors(self.mesh, count, laplacian, threads=self.threads)
        self.eigenvector = min(self.eigenvector, count - 1)

    def _edit(self, action, change, here=False):
        """Change what the editor holds and let the surface follow; with ``here`` from the surface as it is now."""
        with self.editor.restored_on_error(), self.timings.measure(action, lambda: dict(self.editor.report.seconds)):
            if here and self.editor.is_moved:
                self.editor.rest(self.mesh)
            result = change()
            mesh = self.mesh.with_vertices(self.editor.positions())
        self.mesh = mesh
        self.animation.restart(mesh)
        return result

    def _take(self, mesh):
        self.mesh = mesh
        self.animation.restart(mesh)
        self.editor.rest(mesh)
