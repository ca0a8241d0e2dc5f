"""The panels of the window. They show the model and call its methods; their only state is text being typed."""

from __future__ import annotations

from meshsolve.apps.maps import METHODS as MAPS
from meshsolve.apps.mcf import METHODS as FLOWS
from meshsolve.apps.viewer import editing, spectrum, structure
from meshsolve.apps.viewer.model import VIEWS
from meshsolve.device import DEVICES
from meshsolve.options import counted

MODES = ("look", "pin", "handle", "free")           # action of a click on the surface; the panel "Distances" also has "source"


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
        self.path, self.out = path, "edited.ply"
        self.picture, self.folder, self.frames = "view.png", "turntable", 72
        self.mode, self.rings = MODES[0], 3
        self.starts_open = ("Mesh", "Structure", "Flow")
        self.laplacian, self.count = spectrum.LAPLACIANS[0], 8
        self.adds, self.sigma = False, 0.35

    def __call__(self):
        model, ui = self.window.model, self.ui
        if self.window.message:
            ui.line(self.window.message, strong=True)
        ui.line(model.timings.last or "ready")
        for title, draw in (("Mesh", self._mesh), ("Structure", self._structure), ("Flow", self._flow), ("Edit", self._edit),
                            ("Eigenvectors", self._eigenvectors), ("Distances", self._distances), ("Texture", self._texture),
                            ("Denoise", self._denoise), ("Pictures", self._pictures)):
            if ui.section(title, title in self.starts_open):
                draw(model, ui)

    def _mesh(self, model, ui):
        ui.line(f"{model.name}: " + ", ".join(f"{value} {name}" for name, value in model.facts().items() if name != "manifold"))
        self.path = ui.text("file", self.path)
        if ui.button("load"):
            self.window.attempt(model.load, self.path)
        if ui.button("reset shape", same_line=True):
            self.window.attempt(model.reset)
        self.out = ui.text("save as", self.out)
        if ui.button("save"):
            self.window.attempt(model.save, self.out)

    def _structure(self, model, ui):
        show = self.window.show
        if view := ui.choice("view", model.view, VIEWS):
            show(view=view)
        if ordering := ui.choice("ordering", model.ordering, structure.ORDERINGS):
            show(ordering=ordering)
        if (size := ui.integer("patch size", model.patch_size, 16, 4096)) is not None:
            show(patch_size=size)
        if model.view == "one patch":
            last = model.structure.patches(model.patch_size).num_patches - 1
            if (patch := ui.integer("patch", min(model.patch, last), 0, last)) is not None:
                show(patch=patch)
        if self.window.caption:
            ui.line(self.window.caption)

    def _flow(self, model, ui):
        flow, attempt = model.animation, self.window.attempt
        if method := ui.choice("flow", flow.method, FLOWS):
            attempt(flow.use, method)
        if device := ui.choice("device", flow.device, DEVICES):
            attempt(lambda: flow.use(device=device))
        strength = ui.slider("dt / automatic", flow.strength, 0.01, 100.0, logarithmic=True)
        if strength is not None:
            attempt(lambda: flow.use(strength=strength))
        if ui.button("step"):
            attempt(model.step)
        if (running := ui.checkbox("run", flow.running)) is not None:
            flow.running = running
        ui.line(f"{counted(flow.steps, 'step')}, dt {flow.dt:.3g}")
        phases = model.timings.phases("step")
        if phases:
            ui.plot("milliseconds per step", {name: 1e3 * seconds for name, seconds in phases.items()}, "ms")

    def _edit(self, model, ui):
        editor, attempt = model.editor, self.window.attempt
        if mode := ui.choice("click", self.mode, MODES):
            self.mode = mode
        if (rings := ui.integer("rings", self.rings, 0, 40)) is not None:
            self.rings = rings
        if method := ui.choice("method", editor.method, editing.METHODS):
            attempt(lambda: model.use_edit(method))
        bending = ui.slider("bending", editor.bending, 0.0, 1.0)
        if bending is not None:
            attempt(lambda: model.use_edit(bending=bending))
        self._handle(model, ui)
        ui.line(f"{counted((editor.group == 0).sum(), 'vertex')} pinned, handles: {len(editor.transforms)}")
        if ui.button("keep shape"):
            attempt(model.keep)
        if ui.button("release all", same_line=True):
            attempt(model.release)

    def _handle(self, model, ui):
        """Controls of the selected handle; the gizmo on the surface has the same effect."""
        handles = list(model.editor.transforms)
        if not handles:
            ui.line("To deform the surface, set click to handle, click the surface, and drag the gizmo.")
            return
        last = len(handles) - 1
        if (k := ui.integer("handle number", min(model.handle, last), 0, last)) is not None:
            self.window.show(handle=k)
        handle = self.window.handle
        offset = ui.vector("offset", model.editor.transforms[handle][:3, 3], 2e-3 * self.window.size)
        if offset is not None:
            T = model.editor.transforms[handle].copy()
            T[:3, 3] = offset
            self.window.attempt(model.drag, handle, T)

    def _eigenvectors(self, model, ui):
        if laplacian := ui.choice("Laplacian", self.laplacian, spectrum.LAPLACIANS):
            self.laplacian = laplacian
        if (count := ui.integer("count", self.count, 1, 30)) is not None:
            self.count = count
        if ui.button("compute") and self.window.attempt(model.decompose, self.count, self.laplacian):
            self.window.show(view="eigenvector")
        if model.spectrum is not None:
            last = len(model.spectrum.values) - 1
            if (k := ui.integer("eigenvector", min(model.eigenvector, last), 0, last)) is not None:
                self.window.show(view="eigenvector", eigenvector=k)
            ui.line("eigenvalues " + ", ".join(f"{v:.4g}" for v in model.spectrum.values))

    def _distances(self, model, ui):
        if (picks := ui.checkbox("a click sets the source", self.mode == "source")) is not None:
            self.mode = "source" if picks else "look"
        if (adds := ui.checkbox("keep earlier sources", self.adds)) is not None:
            self.adds = adds
        if ui.button("show distance"):
            self.window.show(view="distance")
        if model.view == "distance":
            ui.line(self.window.caption)

    def _texture(self, model, ui):
        method = ui.choice("map", model.geometry.method, MAPS)
        if method or ui.button("show map"):
            self.window.attempt(model.flatten, method)
        if model.view == "texture":
            ui.line(self.window.caption)

    def _denoise(self, model, ui):
        sigma = ui.slider("sigma", self.sigma, 0.05, 1.0)
        if sigma is not None:
            self.sigma = sigma
        if ui.button("denoise"):
            self.window.attempt(model.denoise, self.sigma)

    def _pictures(self, model, ui):
        self.picture = ui.text("picture", self.picture)
        if ui.button("take picture"):
            self.window.attempt(self.window.screenshot, self.picture)
        self.folder = ui.text("folder", self.folder)
        if (frames := ui.integer("frames", self.frames, 2, 360)) is not None:
            self.frames = frames
        if ui.button("take turntable"):
            self.window.attempt(self.window.turntable, self.folder, self.frames)
