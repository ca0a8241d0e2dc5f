"""A flow that a person steps: method, strength and device may change between any two steps."""

from __future__ import annotations

import numpy as np

from meshsolve.apps.mcf import METHODS, Flow, automatic_step
from meshsolve.device import DEVICES
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.options import as_number, one_of
from meshsolve.report import Report


class Animation:
    """A flow of a mesh with its settings.

    Parameters
    ----------
    mesh : Mesh
        Where it starts.
    threads : int, optional

    Attributes
    ----------
    method : {"mean curvature", "conformalized", "bi-Laplacian"}
    strength : float > 0
        The time step in units of the automatic one, see :func:`meshsolve.apps.mcf`.
    device : {"auto", "cpu", "cuda"}
    running : bool
        Whether the window is to make a step with each frame.
    steps : int
        Done since the start.
    report : Report
        Seconds of every phase so far.
    """

    def __init__(self, mesh, threads=None):
        self.threads, self.report = threads, Report()
        self.method, self.strength, self.device = METHODS[0], 1.0, "auto"
        self.restart(mesh)

    def restart(self, mesh):
        """Begin again from another shape with the same settings; a running animation stops."""
        self.mesh, self.steps, self.running = mesh, 0, False
        self._forget()

    def use(self, method=None, strength=None, device=None):
        """Choose; another method or device begins a new flow from where the surface is now."""
        if strength is not None:
            self.strength = as_number(strength, "strength", above=True)
        if method is not None and one_of(method, "method", METHODS) != self.method:
            self.method = method
            self._forget()
        if device is not None and one_of(device, "device", DEVICES) != self.device:
            self.device = device
            self._forget()

    @property
    def dt(self):
        """The time step in the mesh's units, squared lengths (bi-Laplacian: their squares); NaN where every edge has length 0."""
        if self._automatic is None:                         # of the surface where the flow begins
            try:
                self._automatic = automatic_step(self.mesh, self.method)
            except InvalidInputError:
                self._automatic = np.nan
        return self.strength * self._automatic

    def step(self):
        """One step; returns the mesh after it. After an error the surface is where it was, and a running animation stops."""
        try:
            self._step()
        except BaseException:
            self.running = False
            raise
        self.steps += 1
        self.mesh = self._flow.mesh()
        return self.mesh

    def _step(self):
        if self._flow is None:
            self._flow, before = Flow(self.mesh, self.method, device=self.device, threads=self.threads), {}
        else:
            before = self._flow.seconds()
        if not self._flow.step(self.dt):
            raise MeshsolveError("the surface would shrink to nothing: this is the last step that it takes")
        for phase, seconds in self._flow.seconds().items():
            self.report.add(phase, seconds - before.get(phase, 0.0))

    def _forget(self):
        self._flow = self._automatic = None
