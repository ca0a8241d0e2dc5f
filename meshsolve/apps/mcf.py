"""Smoothing and mean curvature flow of triangle meshes: one analysis, one numeric factorization per step.

Each step is a backward Euler step x' = (M + dt L)^-1 M x with the lumped mass M and the cotangent Laplacian L. Time is in
squared lengths of the mesh: a sphere of radius r0 has r(t)^2 = r0^2 - 4 t.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve import api, order
from meshsolve import device as _device
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.memory import ensure_memory
from meshsolve.mesh import Mesh, MeshLike, checked_mesh
from meshsolve.operators import FLATTEST, assembler, edge_lengths, face_areas
from meshsolve.options import as_integer, as_number, is_auto, one_of, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import max_abs, reduce_columns
from meshsolve.sparse.cuda import without_diagonal
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.places import CUDA, HOST, Host
from meshsolve.sparse.product import norm1, residual
from meshsolve.types import Auto, Callback, Device, Precision

AUTO_STEP = 1.0             # automatic dt in squared mean edge lengths: removes noise between neighbors, keeps the shape
AUTO_CONFORMAL = 2e-3       # automatic dt of the conformalized flow in areas: a scan is a sphere after about 50 steps
LEAST_MASS = 1e-10          # smallest mass of a vertex relative to the mean, for a vertex between faces of no area
HELD = 1e-12                # smallest mass relative to the diagonal entry that it is added to, above rounding errors
RUNAWAY = 1e3               # growth of the longest side of the surface above which a flow has failed
COLLAPSED = 1e-12           # fraction of the area below which a flow ends
SQUARED_ENTRY = 36          # peak bytes per entry of the squared Laplacian: the product and its sum with the mass
LEFT = 0.5                  # smallest fraction of the area, or of the volume of a closed surface, that gives no warning
DENOISED = 0.9              # fraction of the volume above which a small area gives no warning: the rest belonged to noise
FLATTENED = 0.1             # fraction of its area below which a face has collapsed
LOST = 0.05                 # largest share of collapsed faces in the area without a warning: hands and feet of a body have 6 %
METHODS = ("mean curvature", "conformalized", "bi-Laplacian")
BILAPLACIAN = {"flattest": 1e-3, "least": 1e-4}     # order 2 squares every weight, so extremes are bounded more tightly


def mcf(mesh: MeshLike, steps: int = 1, dt: float | Auto = "auto", conformal: bool = False, precision: Precision = "double",
        device: Device = "auto", callback: Callback | None = None, threads: int | None = None) -> tuple[Mesh, Report]:
    """Mean curvature flow by implicit steps: every vertex moves along the surface's mean curvature normal.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        It may have boundaries, non-manifold edges and faces of no area. Unreferenced vertices do not move.
    steps : int >= 1
    dt : float or "auto"
        Time step in squared units of length. ``"auto"``: the squared mean edge length, which removes the noise of a scan in a
        step or two. For the conformalized flow: 0.002 times the area, which turns a scan into a sphere in about 50 steps.
    conformal : bool
        Conformalized flow: the Laplacian of the first surface is kept, and each step scales the surface about its centroid to its
        first area. No singularities form, and a surface of genus 0 converges to a round sphere.
    precision : {"double", "single", "mixed"}
    device : {"auto", "cpu", "cuda"}
        Positions, operators and factor stay on the GPU between steps. ``"auto"`` uses a GPU from 100,000 vertices on.
    callback : callable, optional
        ``callback(step, mesh)`` after each step, ``step`` from 1.
    threads : int, optional

    Returns
    -------
    Mesh
        The same faces at their new positions.
    Report
        Phases ``assemble`` and those of the factor; ``steps``, ``dt``, ``residual`` (backward error of the last solve), areas and
        volumes before and after. A volume is that between the surface and the mean of its corners, negative for faces that point
        inwards.

    Raises
    ------
    InvalidInputError
        Not a mesh, no face with an area, or a bad ``steps`` or ``dt``.
    NotPositiveDefiniteError, MeshsolveError
        Triangles collapsed, or the surface grew without bound. Use a smaller ``dt`` or ``conformal=True``.

    Warns
    -----
    MeshsolveWarning
        The surface shrank to nothing: the last mesh with an area is returned. Or it collapsed: less than half of its area or
        volume is left, or 5 % of the area lay in faces that shrank by 90 %.

    References
    ----------
    Desbrun, Meyer, Schroeder, Barr 1999, "Implicit fairing of irregular meshes", sections 2 and 5. Kazhdan, Solomon, Ben-Chen
    2012, "Can mean-curvature flow be modified to be non-singular?", section 4 (conformalized).
    """
    mesh = checked_mesh(mesh)
    steps = as_integer(steps, "steps")
    given = None if is_auto(dt) else as_number(dt, "dt", above=True)
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback must be a function of (step, mesh), got {callback!r}")
    flow = Flow(mesh, "conformalized" if conformal else "mean curvature", precision=precision, device=device, threads=threads)
    dt = flow.report.facts["dt"] = flow.automatic_step() if given is None else given
    return _run(flow, mesh, steps, dt, callback)


def _run(flow, mesh, steps, dt, callback):
    """(the mesh, the report) after these steps of a flow."""
    for step in range(1, steps + 1):
        if not flow.step(dt):
            warn(f"the surface shrank to nothing in step {step} of {steps}; this is the mesh before it", MeshsolveWarning)
            break
        if callback is not None:
            callback(step, flow.mesh())
    after, report = flow.mesh(), flow.finish()
    losses = _compare(mesh, after, report)
    if losses and flow.method != "conformalized" and report.facts["steps"] == steps:
        warn(f"{losses}. Use fewer steps or a smaller dt (this one is {dt:.3g}), or ms.apps.smooth with order=2, which keeps volume",
             MeshsolveWarning)
    return after, report


def smooth(mesh: MeshLike, strength: float = 1.0, order: Literal[1, 2] = 1, precision: Precision = "double",
           device: Device = "auto", threads: int | None = None) -> tuple[Mesh, Report]:
    """One implicit smoothing step: (M + s L) x' = M x, or (M + s L M^-1 L) x' = M x for the bi-Laplacian.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        As in :func:`mcf`; unreferenced vertices do not move.
    strength : float
        Independent of units: s is ``strength`` times the mean edge length to the power 2 (order 1) or 4 (order 2). 1 removes
        noise between neighboring vertices, 10 or 100 also features of several edges. 0 changes nothing.
    order : {1, 2}
        1 flattens and shrinks a little; 2 keeps volume and slopes better.
    precision, device, threads
        As in :func:`mcf`.

    Returns
    -------
    Mesh, Report
        As in :func:`mcf`.

    Warns
    -----
    MeshsolveWarning
        The surface collapsed, as in :func:`mcf`.

    Raises
    ------
    InvalidInputError
        Not a mesh, no face with an area, a negative ``strength`` or another ``order``.
    OutOfMemoryError
        The squared Laplacian does not fit: a vertex of very many neighbors fills it.

    References
    ----------
    Desbrun, Meyer, Schroeder, Barr 1999, "Implicit fairing of irregular meshes using diffusion and curvature flow",
    sections 2.2 to 2.4.
    """
    mesh = checked_mesh(mesh)
    one_of(order, "order", (1, 2))
    strength = as_number(strength, "strength")
    report = Report(vertices=len(mesh.vertices), faces=len(mesh.faces), strength=strength)
    make = SYSTEMS[_device.choose(device, len(mesh.vertices))]
    with make.place.errors("the flow"):
        with report.phase("assemble"):
            system = make(mesh, threads=threads, **(BILAPLACIAN if order == 2 else {}))
            A, b = (system.first_order if order == 1 else system.second_order)(strength * system.squared_edge ** order)
        F = api.cholesky(A, system.ordering(A, threads), mesh=system.edges if order == 1 else None, precision=precision,
                         device=make.place.name, threads=threads)
        x = F.solve(b)
        report.merge(F.report)
        report.facts["residual"] = system.backward_error(A, x, b)
        after = mesh.with_vertices(system.positions(x))
    losses = _compare(mesh, after, report)
    if losses:
        warn(f"{losses}. Use a smaller strength" + ", or order=2, which keeps volume" * (order == 1), MeshsolveWarning)
    return after, report


def _compare(before, after, report):
    """Add areas and volumes to the report; return the text of a warning if the surface has collapsed, else an empty text."""
    areas, facts = [face_areas(before), face_areas(after)], report.facts
    for name, mesh, area in zip(("before", "after"), (before, after), areas):
        facts[f"area_{name}"], facts[f"volume_{name}"] = float(area.sum()), _volume(mesh)
    lost = float(areas[0][areas[1] < FLATTENED * areas[0]].sum())
    is_closed, inside = len(before.boundary_edges) == 0, abs(facts["volume_before"])
    is_flat = facts["area_after"] < LEFT * facts["area_before"] and not (is_closed and abs(facts["volume_after"]) > DENOISED * inside)
    is_empty = is_closed and abs(facts["volume_after"]) < LEFT * inside
    if not (is_flat or is_empty or lost > LOST * facts["area_before"]):
        return ""
    volume = facts["volume_after"] / facts["volume_before"] if facts["volume_before"] else 1.0
    return (f"the surface has collapsed, or parts of it: {facts['area_after'] / facts['area_before']:.0%} of the area and {volume:.0%} of "
            f"the volume are left; faces with {lost / facts['area_before']:.0%} of the area shrank by more than {1 - FLATTENED:.0%}")


def _volume(mesh):
    """The signed volume between the faces and the mean of their corners."""
    a, b, c = (mesh.vertices.take(corner, axis=0) for corner in mesh.faces.T)
    middle = (a.mean(axis=0) + b.mean(axis=0) + c.mean(axis=0)) / 3
    return float(np.einsum("fk,fk->", a - middle, np.cross(b - middle, c - middle)) / 6)


class System:
    """Values of M + s L at moving positions, on the host.

    Positions are relative to the center of the mesh: scans far from the origin keep their digits.

    Parameters
    ----------
    mesh : Mesh
    flattest : float
        See :class:`meshsolve.operators.CotanAssembler`.
    least : float
        Smallest mass of a vertex relative to the mean.
    threads : int, optional
    """

    place: Host = HOST

    def __init__(self, mesh, flattest=FLATTEST, least=LEAST_MASS, threads=None):
        self.mesh, self.least, self.xp, bring = mesh, least, self.place.xp, self.place.bring
        self.assembler = assembler(mesh, flattest, self.place.name, threads)
        self._used = np.zeros(len(mesh.vertices), bool)
        self._used[mesh.faces] = True
        if not self._used.any():
            raise _without_area()
        self.center = reduce_columns("mean", mesh.vertices[self._used])
        self.used, self.rows = (bring(array) for array in (self._used, np.flatnonzero(self._used)))
        self.move(bring(mesh.vertices - self.center))
        if not self.area > 0:
            raise _without_area()
        self.mean_mass = self.area / np.count_nonzero(self._used)

    @property
    def squared_edge(self):
        """The squared mean edge length, positive."""
        return self.assembler.mean_edge(self.x) ** 2

    def move(self, x):
        """Set the positions to x; compute stiffness values and masses at them."""
        values = self.assembler.values(x)
        self.x, (self.stiffness, self.area_of) = x, values
        self.area = float(self.area_of.sum())

    @property
    def mass(self):
        """(n,) positive masses: the mean mass for an unreferenced vertex, at least ``least`` times it for others."""
        return self.xp.where(self.used, self.xp.maximum(self.area_of, self.least * self.mean_mass), self.mean_mass)

    def first_order(self, s, stiffness=None):
        """A = M + s L and b = M x; L is that of the current surface unless its values are given."""
        data, diagonal = s * (self.stiffness if stiffness is None else stiffness), self.assembler.diagonal
        mass = self.xp.maximum(self.mass, HELD * data[diagonal])
        data[diagonal] += mass
        return self.assembler.matrix(data), mass[:, None] * self.x

    def second_order(self, s):
        """A = M + s L M^-1 L and b = M x."""
        L = self.assembler.matrix(self.stiffness)
        degree = np.diff(L.indptr)
        ensure_memory(SQUARED_ENTRY * min(float(degree @ degree.astype(np.float64)), len(degree) ** 2.0), "the squared Laplacian")
        squared = s * (L @ sp.diags_array(1 / self.mass) @ L)
        mass = np.maximum(self.mass, HELD * squared.diagonal())
        return sp.csr_array(sp.diags_array(mass) + squared), mass[:, None] * self.x

    @property
    def edges(self):
        """The mesh if its edges must join the pattern of a first-order A, so that weights may vanish in later steps; else
        None."""
        return self.mesh

    def ordering(self, A, threads):
        """The ordering of A."""
        return "auto"

    def automatic_step(self, method, area):
        """:func:`automatic_step` for the surface, whose area was ``area`` at first."""
        return automatic_step(self.mesh, method)

    def backward_error(self, A, x, b):
        """max |b - A x| / (|A| |x| + |b|) in the infinity norm, worst column."""
        return _backward_error(b - A @ x, np.add.reduceat(np.abs(A.data), A.indptr[:-1]).max(), x, b)   # no row is empty

    def extent(self):
        """The longest side of the box around the surface."""
        x = self.x if len(self.rows) == len(self.x) else self.x[self.rows]
        return float((reduce_columns("max", x) - reduce_columns("min", x)).max())

    def positions(self, x):
        """x on the host, in the coordinates of the mesh; unreferenced vertices do not move."""
        x = _device.to_host(x)
        if not np.isfinite(x).all():
            raise MeshsolveError("the smoothed positions are not finite: the system is too ill-conditioned; try a smaller step")
        return np.where(self._used[:, None], x + self.center, self.mesh.vertices)


class CudaSystem(System):
    """The same on the GPU; the mesh stays on the host."""

    place, edges = CUDA, None

    def second_order(self, s):
        indptr, indices, data, diagonal = self.assembler.squared(self.stiffness, self.mass)
        data *= s
        mass = self.xp.maximum(self.mass, HELD * data[diagonal])
        data[diagonal] += mass
        return CUDA.csr(data, indices, indptr, self.assembler.shape), mass[:, None] * self.x

    def ordering(self, A, threads):
        """Nested dissection that starts from the patches of the operators."""
        pattern = Csr(A.shape[0], A.indptr.astype(np.int64), A.indices.astype(np.int32))
        return order.dissect_cuda(without_diagonal(pattern), 0, thread_count(threads), mesh_patches=self.assembler.patches)

    def automatic_step(self, method, area):
        return _step_of(method, self.squared_edge, area)

    def backward_error(self, A, x, b):
        pattern = A.indptr.astype(np.int64), A.indices.astype(np.int32)
        return _backward_error(residual(*pattern, A.data, x, b), norm1(*pattern, A.data), x, b)


SYSTEMS: dict[str, type[System]] = {"cpu": System, "cuda": CudaSystem}


def _without_area():
    return InvalidInputError("the mesh has no face with an area: there is nothing to smooth")


class Flow:
    """A flow that is stepped by hand: the current surface, and the factor that each step refactors.

    Parameters
    ----------
    mesh : Mesh
    method : {"mean curvature", "conformalized", "bi-Laplacian"}
        The third smooths by (M + dt L M^-1 L) x' = M x, dt in lengths to the power 4.
    precision, device, threads
        As in :func:`mcf`.
    """

    def __init__(self, mesh, method="mean curvature", precision="double", device="auto", threads=None):
        self.method, self.factor, self.place = method, None, _device.choose(device, len(mesh.vertices))
        self.options = {"precision": precision, "device": self.place, "threads": threads}
        self.report = Report(vertices=len(mesh.vertices), faces=len(mesh.faces), steps=0)
        with self._errors():
            self._begin(mesh)

    def _errors(self):
        return SYSTEMS[self.place].place.errors("the flow")

    def _begin(self, mesh):
        with self.report.phase("assemble"):
            limits = BILAPLACIAN if self.method == "bi-Laplacian" else {}
            self.system = SYSTEMS[self.place](mesh, threads=self.options["threads"], **limits)
        self.first_area = self.report.facts["area_before"] = self.system.area
        self.first_extent = self.system.extent()
        self.stiffness = self.system.stiffness if self.method == "conformalized" else None      # None: that of the current surface

    def automatic_step(self):
        """The time step that ``"auto"`` stands for."""
        with self._errors():
            return self.system.automatic_step(self.method, self.first_area)

    def step(self, dt):
        """One backward Euler step; False if the surface would vanish. Then, and after an error, the surface is unchanged."""
        with self._errors():
            return self._step(dt)

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

    def mesh(self):
        """The current surface as a mesh that shares its connectivity with the first."""
        with self._errors():
            return self.system.mesh.with_vertices(self.system.positions(self.system.x))

    def seconds(self):
        """Seconds of each phase so far, including those of the factor."""
        whole = Report()
        whole.merge(self.report)
        if self.factor is not None:
            whole.merge(self.factor.report)
        return whole.seconds

    def finish(self):
        """The report, including that of the factor and the backward error of the last solve."""
        self.report.merge(self.factor.report)
        self.report.facts["area_after"] = self.system.area
        with self._errors():
            self.report.facts["residual"] = self.system.backward_error(*self.last)
        return self.report

    def _solve(self, A, b, number):
        try:
            if self.factor is None:
                edges = None if self.method == "bi-Laplacian" else self.system.edges
                self.factor = api.cholesky(A, self.system.ordering(A, self.options["threads"]), mesh=edges, **self.options)
            else:
                self.factor.refactor(A)
            x = self.factor.solve(b)
        except NotPositiveDefiniteError as e:
            raise NotPositiveDefiniteError(f"the flow broke down in step {number}: triangles have collapsed ({e}); use a smaller dt or "
                                           "conformal=True", e.column) from e
        if not bool(self.system.xp.isfinite(x).all()):
            raise MeshsolveError(f"the flow broke down in step {number}: positions are not finite; use a smaller dt or "
                                 "conformal=True")
        return x

    def _restore_area(self):
        """Scale the surface about its centroid to the first area; stiffness values do not change, masses scale with the area."""
        system = self.system
        if not system.area > 0:         # the caller checks this
            return
        scale = np.sqrt(self.first_area / system.area)
        centroid = system.area_of @ system.x / system.area
        system.x = centroid + scale * (system.x - centroid)
        system.area_of, system.area = system.area_of * scale ** 2, self.first_area


def automatic_step(mesh, method):
    """The time step of a method that ``"auto"`` stands for: it removes noise between neighbors and scales with the mesh."""
    return _step_of(method, squared_edge(mesh), float(face_areas(mesh).sum()))


def _step_of(method, squared, area):
    if method == "conformalized":
        return AUTO_CONFORMAL * area or squared
    return squared ** 2 if method == "bi-Laplacian" else AUTO_STEP * squared


def squared_edge(mesh):
    """The squared mean edge length; InvalidInputError if no edge has a positive length."""
    mean = edge_lengths(mesh).mean() if len(mesh.edges) else 0.0
    if not mean > 0:
        raise _without_area()
    return float(mean) ** 2


def _backward_error(left, norm, x, b):
    """The backward error of x from the residual and the norm of A."""
    size = norm * max_abs(x) + max_abs(b)
    return float((max_abs(left) / (size + (size == 0))).max())
