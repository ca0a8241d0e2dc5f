"""Smoothing and mean curvature flow of triangle meshes: one analysis, one numeric factorization per step.

Each step is a backward Euler step x' = (M + dt L)^-1 M x with the lumped mass M and the cotangent Laplacian L. Time is in
squared lengths of the mesh: a sphere of radius r0 has r(t)^2 = r0^2 - 4 t.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from meshsolve import api
from meshsolve import device as _device
from meshsolve.apps.smoothing import as_fixed, compare, keeping, require_kept, strengths
from meshsolve.apps.systems import BILAPLACIAN, SYSTEMS
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.mesh import Mesh, MeshLike, checked_mesh
from meshsolve.mesh.checks import require_width
from meshsolve.options import as_flag, as_integer, as_number, is_auto, one_of
from meshsolve.report import Report, warn
from meshsolve.sparse.places import on_device
from meshsolve.types import Array, ArrayLike, Auto, Callback, Device, Precision

RUNAWAY = 1e3               # growth of the longest side of the surface above which a flow has failed
STRETCH = 10.0              # largest scale that restores the area of one of several components: slivers collapse in a step
COLLAPSED = 1e-12           # fraction of the area below which a flow ends
METHODS = ("mean curvature", "conformalized", "bi-Laplacian")


def mcf(mesh: MeshLike, steps: int = 1, dt: float | Auto = "auto", conformal: bool = False, precision: Precision = "double",
        device: Device = "auto", callback: Callback | None = None, threads: int | None = None,
        fixed: ArrayLike | None = None, *, keep: Literal["volume", "area"] | None = None,
        boundary: Literal["fixed", "free"] | None = None) -> tuple[Mesh, Report]:
    """Mean curvature flow by implicit steps. It shrinks surfaces, thin parts first; to remove noise and keep the shape use :func:`smooth`.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With or without boundaries, non-manifold edges and faces of no area. Unreferenced vertices do not move.
    steps : int >= 1
    dt : float or "auto"
        Time step in squared units of length. ``"auto"``: the squared mean edge length, which removes a scan's noise in a step or two;
        if ``conformal``, 0.002 times the area, which takes about 50 steps to the sphere. Each component has its own automatic step.
    conformal : bool
        Keep the first Laplacian, and scale each component to its first area in each step: those of genus 0 become round spheres.
    precision, threads : as in :func:`cholesky`
    device : {"auto", "cpu", "cuda"}
        Positions, operators and factor stay on the GPU between steps. ``"auto"`` uses a GPU from 100,000 vertices on.
    callback : callable ``(step, mesh)``, optional: called after each step, ``step`` from 1
    fixed, keep : as in :func:`smooth`; volume or area are restored after the last step
    boundary : {"fixed", "free"}, optional: as in :func:`smooth`, but the conformalized flow moves every vertex

    Returns
    -------
    Mesh, Report
        The same faces at their new positions; ``steps``, the largest ``dt``, ``residual`` (backward error of the last solve), number of
        ``degenerate_faces`` before, areas and volumes. Volumes lie between the surface and the mean of its corners, negative inside out.

    Raises
    ------
    InvalidInputError
        Not a mesh, no face with an area, a bad ``steps`` or ``dt``. Every vertex is fixed or on the boundary. Fixed vertices and
        ``conformal``, or ``keep="volume"`` for a mesh with a boundary or without volume.
    NotPositiveDefiniteError, MeshsolveError
        Triangles collapsed, or the surface grew without bound: use a smaller ``dt``.

    Warns
    -----
    MeshsolveWarning
        The surface shrank to nothing: the last mesh with an area is returned. Or half of its area or volume is lost, or a component
        shrank by 75 %, or 5 % of the area lay in faces that shrank by 90 %.

    References
    ----------
    Desbrun et al. 1999, "Implicit fairing of irregular meshes"; Kazhdan et al. 2012, section 4 (conformalized).

    Examples
    --------
    >>> import meshsolve as ms
    >>> sphere, report = ms.apps.mcf(ms.datasets.icosphere(3), steps=2, keep="volume")
    >>> bool(abs(report.facts["volume_after"] / report.facts["volume_before"] - 1) < 1e-9)
    True
    """
    mesh, steps, conformal = require_width(checked_mesh(mesh)), as_integer(steps, "steps"), as_flag(conformal, "conformal")
    method = "conformalized" if conformal else "mean curvature"
    given = None if is_auto(dt) else as_number(dt, "dt", above=True)
    require_callback(callback)
    flow = Flow(mesh, method, precision=precision, device=device, threads=threads, fixed=fixed, boundary=boundary)
    return _run(flow, mesh, steps, given, callback, keep)


def require_callback(callback):
    """Raise if a callback cannot be called."""
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of (step, mesh), got {callback!r}")


class Flow:
    """A flow that is stepped by hand: the current surface, and the factor that each step refactors.

    Parameters
    ----------
    mesh : Mesh
    method : {"mean curvature", "conformalized", "bi-Laplacian"}
        The third smooths by (M + dt L M^-1 L) x' = M x, dt in lengths to the power 4.
    precision, device, threads, fixed, boundary
        As in :func:`mcf`.

    Attributes
    ----------
    report : Report
        Phases and ``steps`` so far.

    Examples
    --------
    Flow until a tenth of the volume is gone:

    >>> import meshsolve as ms
    >>> ball = ms.datasets.icosphere(3)
    >>> flow = ms.apps.Flow(ball)
    >>> dt = flow.automatic_step() / 4
    >>> while flow.mesh().volume > 0.9 * ball.volume and flow.step(dt):
    ...     pass
    >>> flow.report.facts["steps"]
    4
    """

    def __init__(self, mesh: MeshLike, method: str = "mean curvature", precision: Precision = "double", device: Device = "auto",
                 threads: int | None = None, fixed: ArrayLike | None = None,
                 boundary: Literal["fixed", "free"] | None = None) -> None:
        mesh = require_width(checked_mesh(mesh))
        one_of(method, "method", METHODS)
        is_scaled = method == "conformalized"
        if is_scaled and (fixed is not None or boundary == "fixed"):
            raise InvalidInputError("fixed and boundary='fixed' must not be given for the conformalized flow, which scales the whole "
                                    "surface")
        boundary = boundary if boundary is not None else "free" if is_scaled else "fixed"
        self.held = strengths(1.0, mesh, fixed, boundary)[2]
        self.method, self.place = method, _device.choose(device, len(mesh.vertices))
        self.factor: Any = None
        self.captured: Any = None
        self.options = {"precision": precision, "device": self.place, "threads": threads}
        self.report = Report(vertices=len(mesh.vertices), faces=len(mesh.faces), steps=0)
        with self._errors():
            self._begin(mesh, mesh.boundary_vertices if boundary == "fixed" else None)

    def automatic_step(self) -> float | Array:
        """The time step that ``"auto"`` stands for; (n,) that of each vertex' component if several have faces."""
        with self._errors():
            return self.system.automatic_step(self.method, self.first_area)

    def step(self, dt: float | Array) -> bool:
        """One backward Euler step, by a time for all components or (n,) one of each vertex' component. False if the surface would vanish.
        Then, and after an error, the surface is unchanged."""
        n = len(self.system.mesh.vertices)
        if np.ndim(dt) and not (np.shape(dt) == (n,) and bool((np.asarray(dt) > 0).all())):
            raise InvalidInputError(f"dt must be a number, or {n} positive numbers, one of each vertex' component, got "
                                    f"shape {np.shape(dt)}")
        with self._errors():
            return self._step(dt)

    def mesh(self) -> Mesh:
        """The current surface as a mesh that shares its connectivity with the first."""
        with self._errors():
            return self.system.mesh.with_vertices(self.system.positions(self.system.x, self.held))

    def seconds(self) -> dict[str, float]:
        """Seconds of each phase so far, including those of the factor."""
        whole = Report()
        whole.merge(self.report)
        if self.factor is not None:
            whole.merge(self.factor.report)
        return whole.seconds

    def finish(self) -> Report:
        """The report, including that of the factor and the backward error of the last solve."""
        self.report.merge(self.factor.report)
        self.report.facts["area_after"] = self.system.area
        with self._errors():
            self.report.facts["residual"] = self.system.backward_error(*self.last, self.held)
        return self.report

    def _errors(self):
        return SYSTEMS[self.place].place.errors("the flow")

    def _begin(self, mesh, border):
        with self.report.phase("assemble"):
            limits = BILAPLACIAN if self.method == "bi-Laplacian" else {}
            self.system = SYSTEMS[self.place](mesh, threads=self.options["threads"], border=border, **limits)
        self.first_area = self.report.facts["area_before"] = self.system.area
        self.first_extent = self.system.extent()
        self.first_areas = self.system.centroids()[0] if self.system.has_parts else None         # of each component, on the host
        self.stiffness = self.system.stiffness if self.method == "conformalized" else None      # None: that of the current surface

    def _step(self, dt):
        system, number = self.system, self.report.facts["steps"] + 1
        with self.report.phase("assemble"):
            A, b = system.second_order(dt) if self.method == "bi-Laplacian" else system.first_order(dt, self.stiffness)
        x = self._solve(A, b, number)
        self.last = A, x, b
        with self.report.phase("assemble"):
            before = vars(system).copy()
            system.move(x)
            if self.stiffness is not None:
                self._restore_area()
            vanished, ran_away = not system.area > COLLAPSED * self.first_area, not system.extent() < RUNAWAY * self.first_extent
            if vanished or ran_away:
                vars(system).update(before)
        if vanished:
            return False
        if ran_away:
            raise MeshsolveError(f"the flow broke down in step {number}: the surface is more than {RUNAWAY:g} times longer than at first; "
                                 "use a smaller dt")
        self.report.facts["steps"] = number
        return True

    def _solve(self, A, b, number):
        try:
            if self.factor is None:
                edges = None if self.method == "bi-Laplacian" else self.system.edges
                self.factor = api.cholesky(A, self.system.ordering(A, self.options["threads"]), mesh=edges, **self.options,
                                           **as_fixed(self.held))
                x = self.factor.solve(b, **self.system.values_of(self.held))
            else:
                x = self._solve_again(A, b)
        except NotPositiveDefiniteError as e:
            raise NotPositiveDefiniteError(f"the flow broke down in step {number}: triangles have collapsed ({e}); use a smaller dt or "
                                           "conformal=True", e.column) from e
        if not bool(self.system.xp.isfinite(x).all()):
            raise MeshsolveError(f"the flow broke down in step {number}: positions are not finite; use a smaller dt or "
                                 "conformal=True")
        return x

    def _solve_again(self, A, b):
        """Refactor and solve, on the GPU as one CUDA graph."""
        factor = self.factor
        if not (factor.can_be_captured and on_device(A)):
            return factor.refactor(A).solve(b, **self.system.values_of(self.held))
        if self.captured is None:
            x = self.system.xp.empty_like(b)
            with factor.capture() as step:
                factor.refactor(A)
                factor.solve(b, out=x, **self.system.values_of(self.held))          # held vertices stay where they are
            self.captured = A.data, b, x, step
            return x.copy()
        values, rhs, x, step = self.captured                # the memory of the graph
        values[:], rhs[:] = A.data, b
        step.launch()
        factor.check()
        return x.copy()

    def _restore_area(self):
        """Scale each component about its centroid to its first area; stiffness values do not change, masses scale with the area."""
        system = self.system
        if not system.area > 0:         # the caller checks this
            return
        area, centroid = system.centroids()
        if self.first_areas is None:
            scale = np.sqrt(self.first_area / system.area)
        else:
            ratio = np.sqrt(self.first_areas / np.where(area > 0, area, np.inf))
            ratio = np.where(ratio < STRETCH, ratio, 1)
            scale, centroid = (system.place.bring(part[system.mesh.components]) for part in (ratio[:, None], centroid))
        system.x = centroid + scale * (system.x - centroid)
        system.area_of = system.area_of * (scale if self.first_areas is None else scale[:, 0]) ** 2
        system.area = self.first_area


def _run(flow, mesh, steps, given, callback, keep):
    """(the mesh, the report) after these steps of a flow."""
    require_kept(keep, mesh)
    dt = flow.automatic_step() if given is None else given
    flow.report.facts["dt"] = largest = float(np.max(dt))
    for step in range(1, steps + 1):
        if not flow.step(dt):
            warn(f"the surface shrank to nothing in step {step} of {steps}; this is the mesh before it", MeshsolveWarning)
            break
        if callback is not None:
            callback(step, flow.mesh())
    after, report = flow.mesh(), flow.finish()
    if keep is not None:
        after = keeping(keep, mesh, after, flow.held)
    losses = compare(mesh, after, report)
    if losses and flow.method != "conformalized" and report.facts["steps"] == steps:
        warn(f"{losses}. Use fewer steps or a smaller dt (this one is {largest:.3g}), or ms.apps.smooth, which keeps volume",
             MeshsolveWarning)
    return after, report
