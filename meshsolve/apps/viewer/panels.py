"""The panels of the window. They show the model and start its actions; their only state is text being typed.

No control moves when a text changes: texts are drawn in boxes of fixed height, and controls that do not apply are drawn disabled.
"""

from __future__ import annotations

import os

import numpy as np

from meshsolve.apps.maps import METHODS as MAPS
from meshsolve.apps.mcf import METHODS as FLOWS
from meshsolve.apps.viewer import editing, geometry, spectrum, structure
from meshsolve.apps.viewer.coloring import Plot
from meshsolve.apps.viewer.model import SHAPES, Model
from meshsolve.device import DEVICES
from meshsolve.options import counted

MODES = ("look", "pin", "handle", "free")           # action of a click on the surface; the panel "Look at" also has "source"
FROM_SOURCES = geometry.VIEWS[:4]                   # views that start from vertices that were clicked


class Panels:
    """All panels of a window, called once per frame.

    Parameters
    ----------
    window : Window
    widgets : Widgets
    path : str
        Initial text of the file box.
    """

    def __init__(self, window, widgets, path=""):
        self.window, self.ui = window, widgets
        self.path, self.out, self.asked = path, "edited.ply", ""
        self.picture, self.folder, self.frames = "view.png", "turntable", 72
        self.mode, self.rings = MODES[0], 3
        self.starts_open = ("Look at",)
        self.laplacian, self.count = spectrum.LAPLACIANS[0], 8
        self.adds, self.sigma = False, 0.35

    def __call__(self):
        model, ui = self.window.model, self.ui
        self._status(model, ui)
        with ui.enabled(not self.window.is_busy):
            for title, draw in (("Look at", self._look), ("Solver structure", self._structure), ("Flow", self._flow), ("Edit", self._edit),
                                ("Denoise", self._denoise), ("Files", self._files), ("Pictures", self._pictures)):
                if ui.section(title, title in self.starts_open):
                    draw(model, ui)

    def _status(self, model, ui):
        """The same rows in every frame: progress with cancel, undo and redo, the size of the mesh, the last message."""
        window = self.window
        share, text = window.progress()
        ui.progress(share, text, 300.0)
        with ui.enabled(window.is_busy):
            if ui.button("cancel", same_line=True):
                window.cancel()
        self._travel(ui, "undo", "Z", bool(model.history.last), Model.undo)
        self._travel(ui, "redo", "Y", bool(model.history.next), Model.redo, same_line=True)
        ui.box("size", window.facts, 2)
        ui.box("message", window.message or model.timings.last, 3, strong=bool(window.message))

    def _travel(self, ui, name, letter, is_possible, action, **place):
        """A button that has the same effect as Ctrl and a letter."""
        is_possible &= not self.window.is_busy
        with ui.enabled(is_possible):
            pressed = ui.button(name, **place)
        if is_possible and (pressed or ui.shortcut(letter)):
            self.window.do(name, action)

    def _look(self, model, ui):
        if view := ui.choice("show", model.view, SHAPES):
            if view in FROM_SOURCES or self.mode == "source":
                self.mode = "source" if view in FROM_SOURCES else "look"
            self.window.show(view=view)
        self._legend(ui, model.view not in structure.VIEWS)
        if (picks := ui.checkbox("click sets the source", self.mode == "source")) is not None:
            self.mode = "source" if picks else "look"
        if (adds := ui.checkbox("keep earlier sources", self.adds)) is not None:
            self.adds = adds
        self._eigenvectors(model, ui)
        if method := ui.choice("map", model.geometry.method, MAPS):
            self.window.do("map", Model.flatten, method)

    def _legend(self, ui, shown):
        """Caption and plot of the view, empty unless ``shown``."""
        ui.box("caption", self.window.caption if shown else "", 3)
        ui.plot("view", self.window.plot if shown else None)

    def _eigenvectors(self, model, ui):
        if laplacian := ui.choice("Laplacian", self.laplacian, spectrum.LAPLACIANS):
            self.laplacian = laplacian
        if (count := ui.integer("count", self.count, 1, 30)) is not None:
            self.count = count
        if ui.button("compute eigenvectors"):
            self.window.do("eigenvectors", _decomposed, self.count, self.laplacian)
        last = len(model.spectrum.values) - 1 if model.spectrum is not None else 0
        with ui.enabled(model.spectrum is not None):
            if (k := ui.integer("eigenvector", min(model.eigenvector, last) + 1, 1, last + 1)) is not None:
                self.window.show(view="eigenvector", eigenvector=k - 1)

    def _structure(self, model, ui):
        show = self.window.show
        if view := ui.choice("view", model.view, structure.VIEWS):
            show(view=view)
        self._legend(ui, model.view in structure.VIEWS)
        if ordering := ui.choice("ordering", model.ordering, structure.ORDERINGS):
            show(ordering=ordering)
        if (size := ui.integer("patch size", model.patch_size, 16, 4096)) is not None:
            show(patch_size=size)
        is_one = model.view == "one patch"
        last = model.structure.patches(model.patch_size).num_patches - 1 if is_one else 0
        with ui.enabled(is_one):
            if (patch := ui.integer("patch", min(model.patch, last), 0, last)) is not None:
                show(patch=patch)

    def _flow(self, model, ui):
        flow, do = model.animation, self.window.do
        if method := ui.choice("flow", flow.method, FLOWS):
            do("flow", _use_flow, method=method)
        if device := ui.choice("device", flow.device, DEVICES):
            do("flow", _use_flow, device=device)
        strength = ui.slider("dt / automatic", flow.strength, 0.01, 100.0, logarithmic=True)
        if strength is not None:
            do("flow", _use_flow, strength=strength)
        if ui.button("step"):
            do("step", Model.step)
        if (running := ui.checkbox("run", flow.running)) is not None:
            flow.running = running
        ui.box("steps", f"{counted(flow.steps, 'step')}, dt {np.max(flow.dt):.3g}", 1)
        phases = {name: 1e3 * seconds for name, seconds in model.timings.phases("step").items()}
        ui.plot("flow", Plot("time of each step", "step", "milliseconds", phases))

    def _edit(self, model, ui):
        editor, do = model.editor, self.window.do
        if mode := ui.choice("click", self.mode, MODES):
            self.mode = mode
        if (rings := ui.integer("rings", self.rings, 0, 40)) is not None:
            self.rings = rings
        if method := ui.choice("method", editor.method, editing.METHODS):
            do("method", Model.use_edit, method)
        bending = ui.slider("bending", editor.bending, 0.0, 1.0)
        if bending is not None:
            do("bending", Model.use_edit, bending=bending)
        self._handle(model, ui)
        if ui.button("keep shape"):
            do("keep shape", Model.keep)
        if ui.button("release all", same_line=True):
            do("release", Model.release)

    def _handle(self, model, ui):
        """Controls of the selected handle; the gizmo on the surface has the same effect."""
        editor, handle = model.editor, self.window.handle
        last = max(len(editor.transforms) - 1, 0)
        text = f"{counted((editor.group == 0).sum(), 'vertex')} pinned, {counted(len(editor.transforms), 'handle')}."
        if handle is None:
            text += " To deform the surface, set click to handle, click the surface, and drag the gizmo."
        ui.box("handles", text, 3)
        with ui.enabled(handle is not None):
            if (k := ui.integer("handle number", min(model.handle, last) + 1, 1, last + 1)) is not None:
                self.window.show(handle=k - 1)
            offset = ui.vector("offset", editor.transforms[handle][:3, 3] if handle else (0, 0, 0), 2e-3 * self.window.size)
        if offset is not None and handle:
            T = editor.transforms[handle].copy()
            T[:3, 3] = offset
            self.window.do("drag", Model.drag, handle, T)

    def _denoise(self, model, ui):
        sigma = ui.slider("sigma", self.sigma, 0.05, 1.0)
        if sigma is not None:
            self.sigma = sigma
        if ui.button("denoise"):
            self.window.do("denoise", Model.denoise, self.sigma)

    def _files(self, model, ui):
        self.path = ui.text("file", self.path)
        if ui.button("load"):
            self.window.do("load", Model.load, self.path)
        if ui.button("reset shape", same_line=True):
            self.window.do("reset shape", Model.reset)
        self.out = ui.text("save as", self.out)
        may_replace = self.asked == self.out
        if ui.button("save"):
            if os.path.exists(self.out):
                self.asked, self.window.message = self.out, f"{self.out} exists. Press overwrite to replace it, or change the name."
            else:
                self._save()
        with ui.enabled(may_replace):
            if ui.button("overwrite", same_line=True):
                self._save()

    def _save(self):
        self.asked = ""
        self.window.do("save", Model.save, self.out)

    def _pictures(self, model, ui):
        self.picture = ui.text("picture", self.picture)
        if ui.button("take picture"):
            self.window.attempt("picture", lambda: self.window.screenshot(self.picture))
        self.folder = ui.text("folder", self.folder)
        if (frames := ui.integer("frames", self.frames, 2, 360)) is not None:
            self.frames = frames
        if ui.button("take turntable"):
            self.window.film(self.folder, self.frames)


def _decomposed(model, count, laplacian):
    model.decompose(count, laplacian)
    model.show("eigenvector")


def _use_flow(model, **settings):
    model.animation.use(**settings)
