"""All actions in the window by mouse: every widget of every panel, the surface, the gizmo.

test_window.py runs this file in a process of its own, since polyscope has one window and one backend in a process. The variable
MESHSOLVE_VIEWER_BACKEND names it; openGL_mock draws nothing: with it the same actions run, and pictures are not compared.
"""

import os
import threading

import numpy as np
import pytest
from PIL import Image

import meshsolve as ms
from meshsolve.apps.viewer import VIEWS, Model, structure
from meshsolve.apps.viewer.window import Window
from meshsolve.errors import DeviceUnavailableError, InvalidInputError
from meshsolve.report import announce, count

BACKEND = os.environ.get("MESHSOLVE_VIEWER_BACKEND", "openGL3_egl")
DRAWS = BACKEND != "openGL_mock"
SECTIONS = ("Look at", "Solver structure", "Flow", "Edit", "Denoise", "Files", "Pictures")
NO_GRAPHICS = 77                    # exit status
seen, pressed = set(), set()        # labels of widgets over all tests


class User:
    """Simulated mouse and keyboard in a window."""

    def __init__(self, window):
        self.window, self.ui, self.scene = window, window.panels.ui, window.scene
        self.io = self.ui.gui.GetIO()
        self.open, self.waits = {"Look at"}, True

    def frame(self, count=1):
        """Draw frames, then more of them until no action runs, if the user waits."""
        while count > 0 or (self.waits and self.window.job is not None and not self.window.model.animation.running) or self.window._film:
            self.ui.where.clear()
            self.scene.frame_tick()
            seen.update(self.ui.where)
            count -= 1

    def at(self, label, share=0.5):
        """A point on a widget, not on the text to its right."""
        (left, top), (right, bottom) = self.ui.where[label]
        width = min(right - left, 170) if not label.startswith(SECTIONS) else right - left
        return left + share * width, (top + bottom) / 2

    def press(self, label, share=0.5):
        pressed.add(label)
        self.click(*self.at(label, share))

    def click(self, x, y, to=None):
        self.io.AddMousePosEvent(x, y)
        self.frame()
        self.io.AddMouseButtonEvent(0, True)
        self.frame()
        if to is not None:
            self.io.AddMousePosEvent(*to)
            self.frame(2)
        self.io.AddMouseButtonEvent(0, False)
        self.frame(2)

    def drag(self, label, pixels):
        pressed.add(label)
        x, y = self.at(label, 0.1)
        self.click(x, y, to=(x + pixels, y))

    def choose(self, label, name):
        """Choose a radio button, or an entry of a combo box."""
        if label in self.ui.where:
            self.press(label)
        self.press(f"{label}: {name}", 0.2)

    def type(self, label, text):
        gui = self.ui.gui
        self.press(label)
        self.control("A")
        self.io.AddInputCharactersUTF8(str(text))
        self.frame(2)
        self.io.AddKeyEvent(gui.ImGuiKey_Enter, True)
        self.io.AddKeyEvent(gui.ImGuiKey_Enter, False)
        self.frame(2)

    def control(self, letter):
        """Press Ctrl and a letter."""
        for down in (True, False):
            self.io.AddKeyEvent(self.ui.gui.ImGuiMod_Ctrl, down)
            self.io.AddKeyEvent(getattr(self.ui.gui, f"ImGuiKey_{letter}"), down)
            self.frame(2)

    def only(self, *sections):
        """Open only these sections."""
        for name in SECTIONS:
            if (name in self.open) != (name in sections):
                self.press(name, 0.3)
        self.open = set(sections)

    def picture(self):
        self.scene.set_render_scene(True)
        pixels = self.window.pixels()[::2, ::2].astype(np.int16)
        self.scene.set_render_scene(False)                  # otherwise only panels are drawn, in half the time
        return pixels


def start(mesh, **options):
    """Open a window of 760 x 960 pixels and return a User."""
    try:
        window = Window(Model(mesh), (760, 960), headless=True, backend=BACKEND, **options)
    except DeviceUnavailableError as e:
        pytest.exit(f"no graphics: {e}", NO_GRAPHICS)
    window.scene.set_SSAA_factor(1)
    window.scene.set_max_fps(-1)
    window.scene.set_build_default_gui_panels(False)          # more space for the surface
    user = User(window)
    user.scene.set_render_scene(False)
    user.io.AddMousePosEvent(1, 959)
    user.frame(2)
    for name in SECTIONS:                                   # ImGui remembers open sections between windows
        shown = {"Look at": "show", "Solver structure": "view", "Flow": "step", "Edit": "release all", "Denoise": "denoise", "Files": "load",
                 "Pictures": "take picture"}[name]
        (user.open.add if shown in user.ui.where else user.open.discard)(name)
    return user


@pytest.fixture
def user():
    return start(ms.datasets.scan_like(5500))


def shows(picture):
    """True if something is drawn in several colors."""
    drawn = (picture != picture[0, 0]).any(axis=2)
    return not DRAWS or (np.ptp(picture.reshape(-1, 3), axis=0).min() > 50 and drawn.mean() > 0.02)


def differs(before, after, share=0.002):
    return not DRAWS or (np.abs(before - after).max(axis=2) > 8).mean() > share


def test_every_view_is_another_picture(user):
    user.only("Solver structure")
    pictures = [user.picture()]
    assert shows(pictures[0])
    for view in structure.VIEWS:
        user.choose("view", view)
        assert user.window.model.view == view and user.window.caption and not user.window.message
        pictures.append(user.picture())
        assert shows(pictures[-1]) and all(differs(p, pictures[-1]) for p in pictures[:-1]), view
        if view == "one patch":
            user.press("patch", 0.9)
            assert user.window.model.patch > 10
    user.choose("ordering", "rcm")
    assert user.window.model.ordering == "rcm" and differs(pictures[-1], user.picture())
    user.choose("view", "patches")
    before = user.picture()
    user.press("patch size", 0.02)
    assert user.window.model.patch_size < 400 and differs(before, user.picture())
    user.choose("view", "column counts")
    assert user.window.plot.curves["entries"].max() == user.window.model.structure.analysis("rcm").colcount.max()
    user.only("Look at")
    user.choose("show", "weights")
    assert "needs a handle" in user.window.message and user.window.model.view == "column counts"
    for view in ("mean curvature", "Gaussian curvature", "normals"):
        user.choose("show", view)
        assert user.window.model.view == view and view.split()[-1] in user.window.caption and not user.window.message
        pictures.append(user.picture())
        assert shows(pictures[-1]) and all(differs(p, pictures[-1]) for p in pictures[:-1]), view
    user.choose("show", "plain")
    assert not user.window.caption and user.window.plot is None and same(pictures[0], user.picture())


def test_flows_step_and_run(user):
    user.only("Flow")
    model, first = user.window.model, user.picture()
    user.press("step")
    assert model.animation.steps == 1 and differs(first, user.picture()) and "step:" in model.timings.last
    user.press("dt / automatic", 0.9)
    assert model.animation.strength > 10
    before = model.mesh
    user.press("step")
    assert model.animation.steps == 2 and model.mesh is not before
    user.choose("flow", "conformalized")
    user.press("run", 0.06)
    while model.animation.steps < 5:
        user.frame()
    assert model.animation.running
    user.press("run", 0.06)
    assert not model.animation.running
    steps = model.animation.steps
    user.frame(2)
    assert model.animation.steps == steps and not model.animation.running
    user.choose("flow", "bi-Laplacian")
    user.choose("device", "cpu")
    user.press("step")
    assert model.animation.steps == steps + 1 and not user.window.message
    assert len(model.timings.phases("step")["numeric"]) >= 5
    if not ms.device.available():
        user.choose("device", "cuda")
        user.press("step")
        assert model.animation.steps == steps + 1 and "cuda" in user.window.message.lower()
    user.choose("device", "auto")


def test_pins_handles_and_the_gizmo(user):
    user.only("Edit")
    model, window = user.window.model, user.window
    middle = middle_of_surface(user)
    user.click(*middle)
    assert (model.editor.group < 0).all()                               # click: look
    user.choose("click", "pin")
    user.press("rings", 0.1)
    assert window.panels.rings == 2
    pick(user, middle, (-60, 40))
    pinned = (model.editor.group == 0).sum()
    user.choose("click", "handle")
    pick(user, middle, (40, -20))
    assert window.handle == 1 and pinned > 10 and (model.editor.group == 1).sum() > 10
    before, x = user.picture(), model.mesh.vertices
    T = window._gizmo.get_transform().copy()
    T[:3, 3] += [0.0, 0.15, 0.2]
    window._gizmo.set_transform(T)
    user.frame(3)
    moved = model.mesh.vertices - x
    assert np.allclose(moved[model.editor.group == 1], [0, 0.15, 0.2], atol=1e-5) and differs(before, user.picture())
    assert np.allclose(moved[model.editor.group == 0], 0, atol=1e-9)
    user.drag("offset", 60)
    assert model.editor.transforms[1][0, 3] > 0.02 and np.allclose(window._gizmo.get_transform()[:3, 3] - T[:3, 3],
                                                                   [model.editor.transforms[1][0, 3], 0, 0], atol=1e-4)
    before = user.picture()
    user.press("bending", 0.05)
    assert model.editor.bending < 0.2 and differs(before, user.picture(), 5e-4) and "refactor" in model.timings.last
    user.choose("method", "as rigid as possible")
    assert model.editor.method == "as rigid as possible" and not window.message
    user.drag("offset", 20)
    assert differs(before, user.picture(), 5e-4) and "solve" in model.timings.last
    user.choose("method", "harmonic weights")
    assert model.editor.method == "harmonic weights" and not window.message
    pick(user, middle, (-40, -40))
    assert window.handle == 2 and len(model.editor.transforms) == 2
    user.press("handle number", 0.05)
    assert window.handle == 1
    window.show(view="weights")
    assert shows(user.picture()) and "handle 1" in window.caption
    user.press("keep shape")
    assert not model.editor.is_moved
    user.choose("click", "free")
    vertex = int(np.flatnonzero(model.editor.group == 0)[0])
    window.panels.rings = 20
    model.free(vertex, 20)
    user.frame()
    user.press("release all")
    assert (model.editor.group < 0).all() and window._gizmo is None and model.view == "plain"
    user.choose("click", "look")


def same(before, after):
    return not differs(before, after) or not DRAWS


def middle_of_surface(user):
    """A pixel on the surface, between the panels."""
    if not DRAWS:
        return 180.0, 300.0
    for y in range(180, 420, 20):
        for x in range(80, 300, 20):
            if user.scene.pick(screen_coords=(x, y)).is_hit:
                near = [user.scene.pick(screen_coords=(x + dx, y + dy)).is_hit for dx, dy in ((-60, 40), (40, -20), (-40, -40))]
                if all(near):
                    return float(x), float(y)
    raise AssertionError("no surface between the panels")


def pick(user, middle, offset):
    """Click on the surface, or simulate the hit if nothing is drawn."""
    if DRAWS:
        user.click(middle[0] + offset[0], middle[1] + offset[1])
        return
    vertex = {(-60, 40): 0, (40, -20): 2000, (-40, -40): 4000}[offset]

    class Hit:
        is_hit, structure_name, structure_data = True, "mesh", {"index": vertex}

    user.window._click(Hit)
    user.frame()


def test_eigenvectors(user):
    user.only("Look at")
    model, before = user.window.model, user.picture()
    user.press("count", 0.1)
    user.choose("Laplacian", "cotan")
    user.press("compute eigenvectors")
    assert model.view == "eigenvector" and model.spectrum.vectors.shape[1] == user.window.panels.count == 3
    first = user.picture()
    assert differs(before, first) and "eigenvalue" in user.window.caption
    assert np.array_equal(user.window.plot.curves["eigenvalue"], model.spectrum.values)
    user.press("eigenvector", 0.95)
    assert model.eigenvector == 2 and differs(first, user.picture())
    user.choose("Laplacian", "graph")


def test_views_from_sources_that_were_clicked(user):
    user.only("Look at")
    model, before = user.window.model, user.picture()
    user.choose("show", "distance")
    first = user.picture()
    assert model.view == "distance" and differs(before, first) and "from 1 source" in user.window.caption
    assert user.window.panels.mode == "source"
    middle = middle_of_surface(user)
    pick(user, middle, (40, -20))
    source = model.geometry.sources[0]
    assert source > 0 and len(model.geometry.sources) == 1 and differs(first, user.picture()) and not user.window.message
    user.press("keep earlier sources", 0.06)
    pick(user, middle, (-40, -40))
    assert len(model.geometry.sources) == 2 and source == model.geometry.sources[0] and "from 2 sources" in user.window.caption
    pictures = [user.picture()]
    for view in ("signed distance", "logarithmic map", "transport"):
        user.choose("show", view)
        assert model.view == view and not user.window.message, user.window.message
        pictures.append(user.picture())
        assert all(differs(p, pictures[-1]) for p in pictures[:-1]), view
    user.press("click sets the source", 0.06)
    assert user.window.panels.mode == "look"


def test_a_map_and_its_distortion_on_a_surface_that_is_cut():
    user = start(ms.datasets.icosphere(3))
    user.only("Look at")
    pictures = [user.picture()]
    for view in ("texture", "angle distortion", "area distortion"):
        user.choose("show", view)
        pictures.append(user.picture())
        assert user.window.model.view == view and "arap map" in user.window.caption and all(differs(p, pictures[-1]) for p in pictures[:-1])
    user.choose("map", "lscm")
    assert user.window.model.geometry.method == "lscm" and differs(pictures[-1], user.picture()) and not user.window.message
    assert user.window.model.view == "area distortion"


def test_undo_and_redo(user):
    user.only("Denoise")
    model, first = user.window.model, user.window.model.mesh
    user.press("denoise")
    second = model.mesh
    assert second is not first
    user.press("undo")
    assert model.mesh is first and model.history.next == "denoise"
    user.press("redo")
    assert model.mesh is second and not model.history.next
    user.control("Z")
    assert model.mesh is first
    user.control("Y")
    assert model.mesh is second
    user.only("Files")
    user.press("save as")
    user.control("Z")                                       # undoes what was typed
    assert model.mesh is second


class Slow:
    """An action that waits for the test, and reports progress as the library does."""

    def __init__(self):
        self.began, self.may_end = threading.Event(), threading.Event()

    def __call__(self, model):
        model._replace(model.mesh.with_vertices(2 * model.mesh.vertices))
        self.began.set()
        announce("numeric")
        while not self.may_end.wait(0.01):
            count(1, 4)


def test_a_long_action_shows_its_progress_and_can_be_canceled(user, monkeypatch):
    monkeypatch.setattr("meshsolve.apps.viewer.window.SLOW", 0.0)
    user.only("Look at", "Flow")
    model, window, mesh, slow = user.window.model, user.window, user.window.model.mesh, Slow()
    user.waits = False
    window.do("double", slow)
    slow.began.wait()
    user.frame(3)
    places = dict(user.ui.where)
    while not window.job.share:
        user.frame()
    assert window.is_busy and window.progress()[0] == 0.25 and "double: numeric 25%" in window.progress()[1] and model.mesh is mesh
    x, y = user.at("step")
    for down in (True, False):                              # panels take no input, nothing moves
        user.io.AddMousePosEvent(x, y)
        user.io.AddMouseButtonEvent(0, down)
        user.frame(2)
    assert window._waiting is None and model.animation.steps == 0 and user.ui.where == places
    user.press("cancel")
    user.waits = True
    user.frame()
    assert window.message == "double: canceled, nothing has changed" and model.mesh is mesh and not window.is_busy
    assert user.ui.where == places
    slow.may_end.set()
    window.do("double", slow)
    user.frame()
    assert np.array_equal(model.mesh.vertices, 2 * mesh.vertices) and not window.message


def test_of_actions_that_wait_the_last_one_runs(user):
    model, window, slow = user.window.model, user.window, Slow()
    vertices = model.mesh.vertices
    window.do("double", slow)
    slow.began.wait()
    window.do("pin", Model.pin, 0)
    window.do("step", Model.step)
    assert model.history.last == "" and window.job.name == "double"
    slow.may_end.set()
    user.frame(2)
    assert model.history.last == "step" and (model.editor.group < 0).all() and not window.message
    assert np.ptp(model.mesh.vertices) > 1.5 * np.ptp(vertices)         # the step began from the doubled surface


def test_no_control_moves(user):
    """Whatever the texts say, each widget of the open panels keeps its place."""
    user.only(*SECTIONS[:1])
    model, window = user.window.model, user.window
    places = dict(user.ui.where)
    for view in VIEWS:
        window.show(view=view)
        user.frame(2)
        assert user.ui.where == places, view
    window.message = "a long message " * 40
    user.frame(2)
    assert user.ui.where == places
    user.only("Edit")
    places = dict(user.ui.where)
    model.grab(100, 3)
    user.frame(2)
    assert user.ui.where == places


def test_denoising(user):
    user.only("Denoise")
    model, before = user.window.model, user.picture()
    user.press("sigma", 0.6)
    assert user.window.panels.sigma > 0.4
    user.press("denoise")
    assert not user.window.message and model.mesh is not model.original and differs(before, user.picture(), 2e-4)


def test_files(user, tmp_path):
    user.only("Files")
    model = user.window.model
    model.step()
    user.frame()
    before = user.picture()
    user.press("reset shape")
    assert model.mesh is model.original and differs(before, user.picture(), 2e-4)
    user.type("save as", tmp_path / "a.ply")
    user.press("save")
    assert len(ms.load_mesh(tmp_path / "a.ply").vertices) == len(model.mesh.vertices)
    (tmp_path / "a.ply").write_text("mine")
    user.press("overwrite")                                 # disabled: no question was asked
    user.press("save")
    assert (tmp_path / "a.ply").read_text() == "mine" and "a.ply exists. Press overwrite" in user.window.message
    user.press("overwrite")
    assert len(ms.load_mesh(tmp_path / "a.ply").vertices) == len(model.mesh.vertices) and not user.window.message
    ms.datasets.icosphere(3).save(tmp_path / "ball.obj")
    user.type("file", tmp_path / "ball.obj")
    before = user.picture()
    user.press("load")
    assert model.name == "ball.obj" and len(model.mesh.vertices) == 642 and differs(before, user.picture())
    user.type("file", tmp_path / "none.obj")
    user.press("load")
    assert "no such file" in user.window.message and model.name == "ball.obj"
    user.press("reset shape")
    assert not user.window.message


def test_pictures(user, tmp_path):
    user.only("Pictures")
    user.type("picture", tmp_path / "a.png")
    user.scene.set_render_scene(True)
    user.press("take picture")
    assert not user.window.message
    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (760, 960) and np.array_equal(np.asarray(image)[::2, ::2], user.picture())
    user.press("frames", 0.01)
    user.window.panels.frames = 3
    user.type("folder", tmp_path / "turn")
    before = user.picture()
    user.scene.set_render_scene(True)
    user.press("take turntable")
    names = sorted(p.name for p in (tmp_path / "turn").iterdir())
    assert names == ["frame_000.png", "frame_001.png", "frame_002.png"] and same(before, user.picture())
    frames = [np.asarray(Image.open(tmp_path / "turn" / name), np.int16) for name in names]
    assert all(map(shows, frames)) and differs(frames[0], frames[1]) and differs(frames[1], frames[2])
    assert not user.window.message
    user.window.panels.frames = 2
    user.press("take turntable")
    assert "the folder also has frames of an earlier turntable, frame_002.png first (1 in all)" in user.window.message
    user.type("folder", tmp_path / "no" / "turn")
    user.press("take turntable")
    assert "the folder cannot be created" in user.window.message
    user.type("picture", "a.jpg")
    user.press("take picture")
    assert "written as .png" in user.window.message


def test_up_turns_the_picture():
    mesh = ms.datasets.icosphere(3)
    tall = mesh.with_vertices(mesh.vertices * [1, 1, 2.5])
    lying, standing = start(tall).picture(), start(tall, up="z").picture()
    if DRAWS:
        height, width = np.ptp(np.argwhere((standing != standing[0, 0]).any(axis=2)), axis=0)
        assert height > 1.5 * width
    assert differs(lying, standing)


def test_nothing_that_fails_closes_the_window(monkeypatch):
    user = start(ms.Mesh(np.zeros((3, 3)), [[0, 1, 2]]))
    user.only("Flow")
    user.press("step")
    assert "no face with an area" in user.window.message
    user.press("run", 0.06)
    user.frame(2)
    assert not user.window.model.animation.running and "no face with an area" in user.window.message
    monkeypatch.setattr(Model, "step", lambda model: 1 / 0)
    user.press("step")
    assert user.window.message == "ZeroDivisionError: division by zero"
    monkeypatch.undo()
    user.choose("flow", "conformalized")
    assert not user.window.message and user.window.model.animation.method == "conformalized"


def test_the_last_window_alone_is_called():
    first = start(ms.datasets.icosphere(2))
    second = start(ms.datasets.icosphere(3))
    second.only("Flow")
    second.press("step")
    assert second.window.model.animation.steps == 1 and first.window.model.animation.steps == 0


def test_a_window_refuses_bad_sizes():
    for size in ((10, 100), (100,), "large", (100.0, 100)):
        with pytest.raises(InvalidInputError):
            Window(Model(ms.datasets.icosphere(1)), size, headless=True, backend=BACKEND)


def test_every_widget_has_been_pressed():
    """Every widget is pressed; for a combo box one entry suffices."""
    boxes = {label.split(":")[0] for label in pressed if ":" in label}
    assert {label for label in seen - pressed if label.split(":")[0] not in boxes} == set()
    assert len(pressed) > 40
