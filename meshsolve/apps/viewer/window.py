"""The polyscope window: it draws the model, and applies mouse and gizmo input to it."""

from __future__ import annotations

import warnings

import numpy as np

from meshsolve.apps.viewer import display
from meshsolve.apps.viewer.coloring import PALETTE
from meshsolve.apps.viewer.panels import Panels
from meshsolve.apps.viewer.widgets import Widgets
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning
from meshsolve.files import as_path, written_whole
from meshsolve.options import as_integer
from meshsolve.report import warn

VIEW_ANGLE, FAR = 45.0, 2.6        # vertical field of view, degrees; camera distance in radii of the mesh
STILL = 4.0                         # largest mouse motion within a click, pixels
MOVING = ("handles", "weights", "displacement", "distance", "texture")         # views that depend on the shape, its pins or sources
SQUARES = 24                        # squares of a checkerboard along the longer side of a map
CLAY, DARK = (0.78, 0.83, 0.89), (0.2, 0.2, 0.22)


class Window:
    """A polyscope window on a :class:`Model`. A process has at most one.

    Parameters
    ----------
    model : Model
    size : (int, int)
        Width and height in pixels.
    headless : bool
        Draw into memory, without a display.
    up : {"y", "z"}
        Axis that points up.
    path : str
        Path of the mesh, initial text of the file box.
    backend : str, optional
        Backend of polyscope; chosen automatically by default.

    Attributes
    ----------
    message : str
        Error or warnings of the last action, or empty.
    caption : str
        Meaning of the colors.
    size : float
        Largest extent of the loaded mesh.
    sides : (int, int)
        Widths of the left and right panels, pixels.
    """

    def __init__(self, model, size=(1440, 900), headless=False, up="y", path="", backend=None):
        self.scene = display.start(size, headless, up, backend)
        self.model, self.up, self.message, self.caption = model, up, "", ""
        self.panels = Panels(self, Widgets(), path)
        self.sides = (0, 0)
        self._points = self._marked_group = None
        self._surface = self._drawn = self._faces = self._colored = self._marked = self._gizmo = self._pressed = None
        self.refresh()
        self.scene.frame_tick()                             # polyscope sets its own camera in the first frame
        self.look(30.0, 18.0)
        self.scene.set_user_callback(self.frame)

    # ---- frames ---------------------------------------------------------------------------------------------------------

    def open(self):
        """Show the window until it is closed."""
        self.sides = display.LEFT, display.RIGHT
        self.look(30.0, 18.0)
        self.scene.show()

    def frame(self):
        """Process one frame: a step of a running flow, gizmo, mouse, panels, and drawing."""
        if self.model.animation.running:
            self.attempt(self.model.step)
        self._follow_gizmo()
        self._follow_mouse()
        self.panels()
        self.refresh()

    def attempt(self, action, *arguments):
        """Run an action of the model. Errors and warnings are shown, not raised. Returns True on success."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                action(*arguments)
            except (MeshsolveError, OSError) as e:
                self.message = " ".join(str(e).split())
                return False
            except Exception as e:                          # a bug must not close the window and lose the user's work
                self.message = f"{type(e).__name__}: {' '.join(str(e).split())}"
                return False
        self.message = "; ".join(str(w.message) for w in caught)
        return True

    def show(self, **choice):
        """Choose the view, as in :meth:`Model.show`."""
        return self.attempt(lambda: self.model.show(**choice))

    @property
    def handle(self):
        """The selected handle, which the gizmo drags, or None."""
        handles = list(self.model.editor.transforms)
        return handles[min(self.model.handle, len(handles) - 1)] if handles else None

    # ---- drawing --------------------------------------------------------------------------------------------------------

    def refresh(self):
        """Update polyscope to the model, as far as it has changed."""
        mesh = self.model.mesh
        if self._faces is not mesh.faces:
            new = self._faces is not None
            self.size = float(np.ptp(mesh.vertices, axis=0).max()) or 1.0
            self.scene.remove_all_structures()
            self._surface = self.scene.register_surface_mesh("mesh", mesh.vertices, mesh.faces, color=CLAY,
                                                             back_face_policy="identical")
            self._surface.set_selection_mode("vertices_only")
            self._faces, self._drawn = mesh.faces, mesh
            self._colored = self._marked = self._marked_group = None
            if new:
                self.look(30.0, 18.0)
        elif self._drawn is not mesh:
            self._surface.update_vertex_positions(mesh.vertices)
            self._drawn = mesh
        self._color()
        self._mark()

    def _color(self):
        model = self.model
        moving = (model.mesh, model.editor.group, model.geometry.sources, model.geometry.method) if model.view in MOVING else ()
        key = (model.view, model.ordering, model.patch_size, model.patch, model.handle, model.eigenvector, model.spectrum,
               *moving)
        if _same(key, self._colored):
            return
        self._colored = key
        self._surface.remove_all_quantities()
        try:
            coloring = model.coloring()
        except MeshsolveError as e:                         # for example, the handle was removed
            self.message, model.view, coloring = str(e), "plain", None
        self.caption = coloring.caption if coloring else ""
        if coloring is None:
            return
        if coloring.on == "corners":
            display.add_quantity(self._surface, "add_parameterization_quantity", coloring.name, coloring.values, defined_on="corners",
                                 viz_style="checker", checker_size=1 / SQUARES)
        elif coloring.is_scalar:
            lines = {"isolines_enabled": True, "isoline_period": np.ptp(coloring.limits) / coloring.lines} if coloring.lines else {}
            display.add_quantity(self._surface, "add_scalar_quantity", coloring.name, coloring.values, defined_on=coloring.on,
                                 cmap=coloring.colormap, vminmax=coloring.limits, **lines)
        else:
            display.add_quantity(self._surface, "add_color_quantity", coloring.name, coloring.values, defined_on=coloring.on)

    def _mark(self):
        """Draw a point on every fixed vertex, and the gizmo at the selected handle."""
        editor = self.model.editor
        key = editor.group, self.model.mesh, editor.transforms, self.handle
        if _same(key, self._marked):
            return
        self._marked = key
        self._mark_points(editor.group)
        self._place_gizmo()

    def _mark_points(self, group):
        rows = np.flatnonzero(group >= 0)
        at = self.model.mesh.vertices[rows]
        if self._marked_group is group:                     # a drag: only the positions have changed
            if len(rows):
                self._points.update_point_positions(at)
            return
        self._marked_group = group
        self.scene.remove_point_cloud("fixed", error_if_absent=False)
        if len(rows):
            self._points = self.scene.register_point_cloud("fixed", at, radius=0.004)
            colors = np.where((group[rows] == 0)[:, None], DARK, PALETTE[9 + (group[rows] - 1) % (len(PALETTE) - 9)])
            display.add_quantity(self._points, "add_color_quantity", "group", colors)

    # ---- mouse and gizmo ------------------------------------------------------------------------------------------------

    def _place_gizmo(self):
        if self._gizmo is not None and self.handle is None:
            self._gizmo.remove()
            self._gizmo = None
        if self.handle is None:
            return
        if self._gizmo is None:
            self._gizmo = self.scene.add_transformation_gizmo("handle")
            self._gizmo.set_allow_scaling(False)
        self._at_rest = np.eye(4)
        self._at_rest[:3, 3] = self.model.editor.center(self.handle)
        if not np.allclose(self._target(), self._gizmo.get_transform(), atol=1e-5 * self.size):
            self._gizmo.set_transform(self._target())
        self._seen = self._gizmo.get_transform()

    def _target(self):
        """Transform of the gizmo: handles rotate about the center of their vertices at rest."""
        return self.model.editor.transforms[self.handle] @ self._at_rest

    def _follow_gizmo(self):
        if self._gizmo is None or self.handle is None:
            return
        now = self._gizmo.get_transform()
        if not np.array_equal(now, self._seen):
            self._seen = now
            self.attempt(self.model.drag, self.handle, now @ np.linalg.inv(self._at_rest))

    def _follow_mouse(self):
        """Apply a click on the surface, but not on a panel, according to the mode of the panels "Edit" and "Distances"."""
        gui = self.panels.ui.gui
        at = np.array(tuple(gui.GetMousePos()))
        if gui.IsMouseClicked(0):
            self._pressed = None if gui.GetIO().WantCaptureMouse else at
        if gui.IsMouseReleased(0) and self._pressed is not None and np.abs(at - self._pressed).max() < STILL:
            self._click(self.scene.pick(screen_coords=at))
            self._pressed = None

    def _click(self, hit):
        if not hit.is_hit or hit.structure_name != "mesh":
            return
        vertex, mode = int(hit.structure_data["index"]), self.panels.mode
        if mode == "source":
            self.attempt(self.model.measure, vertex, self.panels.adds)
            return
        action = {"pin": self.model.pin, "handle": self.model.grab, "free": self.model.free}.get(mode)
        if action and self.attempt(action, vertex, self.panels.rings) and mode == "handle":
            self.show(handle=len(self.model.editor.transforms) - 1)

    # ---- pictures -------------------------------------------------------------------------------------------------------

    def look(self, azimuth, elevation):
        """Point the camera at the mesh, in degrees around the up axis and above the horizon, centered between the panels."""
        x = self.model.mesh.vertices[np.unique(self.model.mesh.faces)]
        middle = (x.min(axis=0) + x.max(axis=0)) / 2
        radius = np.linalg.norm(x - middle, axis=1).max() or 1.0
        a, e = np.radians([azimuth, elevation])
        towards, right = [np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)], [np.cos(a), 0.0, -np.sin(a)]
        axes = np.array([towards, [0.0, 1.0, 0.0], right])
        towards, upwards, right = axes if self.up == "y" else axes[:, [2, 0, 1]]
        width, height = self.scene.get_window_size()
        distance = FAR * radius / np.clip((width - sum(self.sides)) / height, 0.3, 1.0)
        pixel = 2 * distance * np.tan(np.radians(VIEW_ANGLE / 2)) / height
        middle = middle + (self.sides[1] - self.sides[0]) / 2 * pixel * right
        self.scene.set_vertical_fov_degrees(VIEW_ANGLE)
        self.scene.look_at_dir(middle + distance * towards, middle, upwards)

    def screenshot(self, path, panels=False):
        """Write the view as a PNG file, with or without the panels. The file is written completely or not at all."""
        path = as_path(path)
        if path.suffix.lower() != ".png":
            raise InvalidInputError(f"{path}: pictures are written as .png")
        from PIL import Image

        with written_whole(path) as part:
            Image.fromarray(self.pixels(panels)).save(part, format="png")

    def turntable(self, folder, frames=72):
        """Write PNG files ``frame_000.png`` and so on of a full turn of the camera into a folder, which is created if needed."""
        folder, frames = made_folder(folder), as_integer(frames, "frames", 2, 10_000)
        digits = max(3, len(str(frames - 1)))
        names = [f"frame_{k:0{digits}d}.png" for k in range(frames)]
        view = self.scene.get_view_as_json()
        for k, name in enumerate(names):
            self.look(30.0 + 360.0 * k / frames, 18.0)
            self.screenshot(folder / name)
        self.scene.set_view_from_json(view)
        others = {path.name for path in folder.glob("frame_*.png")}.difference(names)
        if others:
            warn(f"{folder}: the folder also has frames of an earlier turntable, {min(others)} first ({len(others)} in all)",
                 MeshsolveWarning)

    def pixels(self, panels=False):
        """Render the view, (height, width, 3) uint8."""
        self.refresh()
        shot = self.scene.screenshot_to_buffer(transparent_bg=False, include_UI=panels)
        return np.ascontiguousarray(shot[..., :3])


def _same(key, before):
    """True if nothing has changed: strings and integers are equal, everything else is the same object."""
    return before is not None and len(key) == len(before) and all(
        a == b if isinstance(a, (str, int)) else a is b for a, b in zip(key, before))


def made_folder(path):
    """Create a folder if it does not exist and return its path."""
    path = as_path(path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as e:
        raise InvalidInputError(f"{path}: the folder cannot be created: {e.strerror}") from e
    return path
