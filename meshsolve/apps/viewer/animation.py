"""A flow under interactive control: method, strength and device may change between any two steps."""

from __future__ import annotations

import numpy as np

from meshsolve.apps.mcf import METHODS, Flow
from meshsolve.apps.systems import automatic_step
from meshsolve.device import DEVICES
from meshsolve.errors import InvalidInputError, MeshsolveError
from meshsolve.options import as_number, one_of
from meshsolve.report import Report


class Animation:
    """A flow of a mesh with its settings. Copies (``copy.copy``) may make steps apart from each other.

    Parameters
    ----------
    mesh : Mesh
        Initial surface.
    threads : int, optional

    Attributes
    ----------
    method : {"mean curvature", "conformalized", "bi-Laplacian"}
    strength : float > 0
        Time step relative to the automatic one, see :func:`meshsolve.apps.mcf`.
    device : {"auto", "cpu", "cuda"}
    running : bool
        If True, the window makes a step with each frame.
    steps : int
        Number of steps since the start.
    report : Report
        Total time of every phase.
    """

    def __init__(self, mesh, threads=None):
        self.threads, self.report = threads, Report()
        self.method, self.strength, self.device = METHODS[0], 1.0, "auto"
        self.restart(mesh)

    def restart(self, mesh):
        """Restart from another surface with the same settings. A running animation stops."""
        self.mesh, self.steps, self.running = mesh, 0, False
        self._forget()

    def use(self, method=None, strength=None, device=None):
        """Change settings. Another method or device starts a new flow from the current surface."""
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
        """Time step in squared length units of the mesh (bi-Laplacian: their squares), (n,) for several components. NaN if every edge has
        length 0."""
        if self._automatic is None:                         # computed from the initial surface of the flow
            try:
                self._automatic = automatic_step(self.mesh, self.method)
            except InvalidInputError:
                self._automatic = np.nan
        return self.strength * self._automatic

    def step(self):
        """Make one step and return the new mesh. After an error the surface is unchanged, and a running animation stops."""
        try:
            self._step()
        except BaseException:
            self.running = False
            raise
        self.steps += 1
        self.mesh = self._flow.mesh()
        return self.mesh

    def _step(self):
        if self._flow is None or self._flow.report.facts["steps"] != self._made:            # another copy has made a step
            self._flow, self._made, before = Flow(self.mesh, self.method, device=self.device, threads=self.threads), 0, {}
        else:
            before = self._flow.seconds()
        if not self._flow.step(self.dt):
            raise MeshsolveError("the next step would shrink the surface to a point: use a smaller dt, or restart the flow")
        self._made += 1
        for phase, seconds in self._flow.seconds().items():
            self.report.add(phase, seconds - before.get(phase, 0.0))

    def _forget(self):
        self._flow = self._automatic = None
        self._made = 0                                      # steps of the flow object
