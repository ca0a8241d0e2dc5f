"""The polyscope window: it draws the model, and applies mouse and gizmo input to it.

Actions run on a copy of the model in another thread (:mod:`meshsolve.apps.viewer.job`), while the window draws the model as it was. At
the end the model adopts the copy. An action that fails or is canceled leaves nothing behind.
"""

from __future__ import annotations

import warnings

import numpy as np

from meshsolve.apps.viewer import display, structure
from meshsolve.apps.viewer.coloring import PALETTE
from meshsolve.apps.viewer.job import Job, outcome
from meshsolve.apps.viewer.model import Model
from meshsolve.apps.viewer.panels import FROM_SOURCES, Panels
from meshsolve.apps.viewer.widgets import Widgets
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning
from meshsolve.files import as_path, written_whole
from meshsolve.options import as_integer, counted
from meshsolve.report import warn

VIEW_ANGLE, FAR = 45.0, 2.6        # vertical field of view, degrees; camera distance in radii of the mesh
STILL = 4.0                         # largest mouse motion within a click, pixels
STEADY = ("plain", "eigenvector", *structure.VIEWS)        # views that stay as they are when the surface moves
SQUARES = 24                        # squares of a checkerboard along the longer side of a map, and circles of a logarithmic map
GRACE = 0.04                        # seconds that a frame waits for an action: short actions end in the frame that starts them, and long
                                    # ones need the time, because drawing keeps Python's lock
SLOW = 0.3                          # seconds after which an action is shown with its progress, and panels take no input
CLAY, DARK, ARROW = (0.78, 0.83, 0.89), (0.2, 0.2, 0.22), (0.8, 0.15, 0.1)


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
    caption, plot : str, Plot or None
        Meaning of the colors, and curves of the view.
    facts : str
        Sizes of the mesh.
    job : Job or None
        The action that runs. One more may wait for it; a newer one takes its turn.
    size : float
        Largest extent of the loaded mesh.
    sides : (int, int)
        Widths of the left and right panels, pixels.
    """

    def __init__(self, model, size=(1440, 900), headless=False, up="y", path="", backend=None):
        self.scene = display.start(size, headless, up, backend)
        self.model, self.up, self.message, self.caption, self.plot, self.facts = model, up, "", "", None, ""
        self.panels = Panels(self, Widgets(), path)
        self.sides = (0, 0)
        self.job = self._trial = self._waiting = self._film = self._ready = None
        self._filmed, self._gesture, self._ran = 0, 0, False
        self._points = self._marked_group = None
        self._surface = self._drawn = self._faces = self._colored = self._marked = self._gizmo = self._pressed = None
        self.refresh()
        self.scene.frame_tick()                             # polyscope sets its own camera in the first frame
        self.look(30.0, 18.0)
        self.scene.set_user_callback(self.frame)

    # ---- frames ---------------------------------------------------------------------------------------------------------

    def open(self):
        """Show the window until it is closed. An action that still runs then is canceled."""
        self.sides = display.LEFT, display.RIGHT
        self.look(30.0, 18.0)
        try:
            self.scene.show()
        finally:
            self.cancel()
            if self.job:
                self.job.wait()
                self.job = None

    def frame(self):
        """Process one frame: actions that ended, a step of a running flow, gizmo, mouse, panels, and drawing."""
        self._settle()
        if self.model.animation.running and self.job is None:
            self.do("step", Model.step)
        self._take_frame()
        if self.panels.ui.gui.IsMouseClicked(0):
            self._gesture += 1
        self._follow_gizmo()
        self._follow_mouse()
        self.panels()
        self.refresh()

    # ---- actions --------------------------------------------------------------------------------------------------------

    def do(self, name, action, *arguments, **options):
        """Run ``action(model, ...)`` on a copy of the model, in another thread. Errors and warnings are shown, not raised.

        An action that ends within ``GRACE`` seconds has ended when this returns. While another action runs, this one waits; of several
        that wait the last one is run.
        """
        self._waiting = name, lambda model: action(model, *arguments, **options)
        self._settle()

    @property
    def is_busy(self):
        """True during a long action. Steps of a running flow do not count: its controls stay usable."""
        return self._film is not None or (self.job is not None and self.job.seconds > SLOW and not self.model.animation.running)

    def progress(self):
        """Share of the work that is done, from 0 to 1, and a text."""
        if self._film is not None:
            return self._filmed / self.panels.frames, f"picture {self._filmed} of {self.panels.frames}"
        if self.job is None or self.job.seconds < SLOW:
            return 0.0, "flow is running" if self.model.animation.running else "ready"
        if self.job.is_canceled:
            return 0.0, f"{self.job.name}: canceling"
        share = f" {self.job.share:.0%}" if self.job.share else ""
        return self.job.share, f"{self.job.name}: {self.job.phase}{share}, {self.job.seconds:.0f} s"

    def cancel(self):
        """Cancel the action that runs, the one that waits, and a turntable."""
        self._waiting, self.model.animation.running = None, False
        if self.job is not None:
            self.job.cancel()
        if self._film is not None:
            self._film.close()
            self._film, self.message = None, f"turntable: canceled after {counted(self._filmed, 'picture')}"

    def attempt(self, name, work):
        """Call ``work()``, which draws, in this thread. Errors and warnings are shown, not raised."""
        if self.job is not None:
            self.job.wait()                                 # Python's record of warnings serves one thread at a time
        _, error, warned = outcome(name, work)
        self.message = error or warned
        return not error

    def show(self, **choice):
        """Choose the view, as in :meth:`Model.show`."""
        self.do(choice.get("view", self.model.view), Model.show, **choice)

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
            self._faces, self._drawn, self.facts = mesh.faces, mesh, self._described()
            self._colored = self._marked = self._marked_group = None
            if new:
                self.look(30.0, 18.0)
        elif self._drawn is not mesh:
            self._surface.update_vertex_positions(mesh.vertices)
            self._drawn = mesh
        self._color()
        self._mark()

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
        for _ in self._turning(folder, frames):
            pass

    def film(self, folder, frames):
        """Start a turntable that takes one picture a frame, and can be canceled."""
        self._film, self._filmed, self.message = self._turning(folder, frames), 0, ""

    def pixels(self, panels=False):
        """Render the view, (height, width, 3) uint8."""
        self.refresh()
        shot = self.scene.screenshot_to_buffer(transparent_bg=False, include_UI=panels)
        return np.ascontiguousarray(shot[..., :3])

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _settle(self):
        """Wait ``GRACE`` seconds for the action that runs, adopt its result if it has ended, and start the one that waits."""
        if self.job is not None and self.job.wait(GRACE):
            self._adopt(self.job)
        if self.job is None and self._waiting is not None:
            (name, action), self._waiting = self._waiting, None
            self._trial, self._ran, drawn = self.model.copy(), self.model.animation.running, self._colored
            self._trial.gesture = self._gesture
            self.job = Job(name, lambda trial=self._trial: (action(trial), trial.facts(), self._colors(trial, drawn)))
            if self.job.wait(GRACE):
                self._adopt(self.job)

    def _adopt(self, job):
        model, trial, self.job, self._trial = self.model, self._trial, None, None
        if job.error or job.warnings or job.name != "step":            # the steps of a flow do not clear an older message
            self.message = job.error or job.warnings
        if job.error:
            model.animation.running &= trial.animation.running
            return
        if trial.animation.running == self._ran:            # not changed by the action, but perhaps by the user
            trial.animation.running = model.animation.running
        model.adopt(trial)
        self._ready = job.result[2]

    def _colors(self, model, drawn):
        """Compute what is drawn, in the thread of the action: key and :class:`Coloring` of the view, None if they have not changed."""
        key = _view_key(model)
        if _same(key, drawn):
            return None
        try:
            coloring = model.coloring()
        except MeshsolveError as e:                         # for example, the handle was removed
            warnings.warn(str(e), MeshsolveWarning, stacklevel=1)
            model.view, coloring = "plain", None
        return _view_key(model), coloring

    def _described(self):
        mesh = self.model.mesh
        sizes = {"vertex": len(mesh.vertices), "face": len(mesh.faces), "edge": len(mesh.edges),
                 "component": int(mesh.components.max()) + 1}
        return f"{self.model.name}: " + ", ".join(counted(size, name) for name, size in sizes.items())

    def _color(self):
        key = _view_key(self.model)
        if _same(key, self._colored):
            return
        if self._ready is None or not _same(key, self._ready[0]):
            self._ready, _, warned = outcome("view", lambda: self._colors(self.model, None))
            self.message = warned or self.message
        (self._colored, coloring), self._ready = self._ready or (key, None), None
        self._surface.remove_all_quantities()
        self.caption, self.plot = (coloring.caption, coloring.curves()) if coloring else ("", None)
        self._mark_sources()
        if coloring is None:
            return
        where = {"defined_on": coloring.on}
        if coloring.is_texture:
            display.add_quantity(self._surface, "add_parameterization_quantity", coloring.name, coloring.values,
                                 viz_style=coloring.pattern, checker_size=1 / SQUARES, **where)
        elif coloring.is_scalar:
            lines = {"isolines_enabled": True, "isoline_period": np.ptp(coloring.limits) / coloring.lines} if coloring.lines else {}
            display.add_quantity(self._surface, "add_scalar_quantity", coloring.name, coloring.values, cmap=coloring.colormap,
                                 vminmax=coloring.limits, **lines, **where)
        else:
            display.add_quantity(self._surface, "add_color_quantity", coloring.name, coloring.values, **where)
        if coloring.vectors is not None:
            display.add_quantity(self._surface, "add_vector_quantity", "arrows", coloring.vectors, length=0.03, color=ARROW)

    def _mark_sources(self):
        """Draw a point on every source, if the view starts from them."""
        self.scene.remove_point_cloud("sources", error_if_absent=False)
        if self.model.view in FROM_SOURCES:
            self.scene.register_point_cloud("sources", self.model.mesh.vertices[self.model.geometry.sources], radius=0.008, color=ARROW)

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
        waits = "drag" in (self.job.name if self.job else "", self._waiting[0] if self._waiting else "")   # then the gizmo is ahead
        if not waits and not np.allclose(self._target(), self._gizmo.get_transform(), atol=1e-5 * self.size):
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
            self.do("drag", Model.drag, self.handle, now @ np.linalg.inv(self._at_rest))

    def _follow_mouse(self):
        """Apply a click on the surface, but not on a panel, according to the mode of the panels "Edit" and "Look at"."""
        gui = self.panels.ui.gui
        at = np.array(tuple(gui.GetMousePos()))
        if gui.IsMouseClicked(0):
            self._pressed = None if gui.GetIO().WantCaptureMouse else at
        if gui.IsMouseReleased(0) and self._pressed is not None and np.abs(at - self._pressed).max() < STILL:
            self._click(self.scene.pick(screen_coords=at))
            self._pressed = None

    def _click(self, hit):
        if not hit.is_hit or hit.structure_name != "mesh" or self.is_busy:
            return
        vertex, mode = int(hit.structure_data["index"]), self.panels.mode
        if mode == "source":
            self.do("source", Model.measure, vertex, self.panels.adds)
            return
        action = {"pin": Model.pin, "handle": _grab, "free": Model.free}.get(mode)
        if action:
            self.do(mode, action, vertex, self.panels.rings)

    def _take_frame(self):
        if self._film is not None and not self.attempt("turntable", self._next_picture):
            self._film = None

    def _next_picture(self):
        self._filmed = next(self._film, None)
        if self._filmed is None:
            self._film = None

    def _turning(self, folder, frames):
        """Yield the number of pictures after each. The camera returns at the end."""
        folder, frames = made_folder(folder), as_integer(frames, "frames", 2, 10_000)
        digits = max(3, len(str(frames - 1)))
        names = [f"frame_{k:0{digits}d}.png" for k in range(frames)]
        view = self.scene.get_view_as_json()
        try:
            for k, name in enumerate(names):
                self.look(30.0 + 360.0 * k / frames, 18.0)
                self.screenshot(folder / name)
                yield k + 1
        finally:
            self.scene.set_view_from_json(view)
        others = {path.name for path in folder.glob("frame_*.png")}.difference(names)
        if others:
            warn(f"{folder}: the folder also has frames of an earlier turntable, {min(others)} first ({len(others)} in all)",
                 MeshsolveWarning)


def made_folder(path):
    """Create a folder if it does not exist and return its path."""
    path = as_path(path)
    try:
        path.mkdir(exist_ok=True)
    except OSError as e:
        raise InvalidInputError(f"{path}: the folder cannot be created: {e.strerror}") from e
    return path


def _grab(model, vertex, rings):
    """Make a handle and select it."""
    model.grab(vertex, rings)
    model.handle = len(model.editor.transforms) - 1


def _view_key(model):
    """Everything on which the colors of the view depend."""
    moving = () if model.view in STEADY else (model.mesh, model.editor.group, model.geometry.sources, model.geometry.method)
    settings = model.view, model.ordering, model.patch_size, model.patch, model.handle, model.eigenvector
    return (*settings, model.spectrum, model.structure.mesh, *moving)


def _same(key, before):
    """True if nothing has changed: strings and integers are equal, everything else is the same object."""
    return before is not None and len(key) == len(before) and all(
        a == b if isinstance(a, (str, int)) else a is b for a, b in zip(key, before))
