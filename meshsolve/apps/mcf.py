"""Smoothing and mean curvature flow of triangle meshes: one analysis, one numeric factorization a step.

Each step is a backward Euler step x' = (M + dt L)^-1 M x with the lumped mass M and the cotangent Laplacian L. Time is in
squared lengths of the mesh: a sphere of radius r0 has r(t)^2 = r0^2 - 4 t.
"""

from __future__ import annotations

import contextlib
from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve import api, order
from meshsolve import device as _device
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.memory import ensure_memory
from meshsolve.mesh import Mesh, MeshLike, placed_mesh
from meshsolve.operators import FLATTEST, assembler, edge_lengths, face_areas
from meshsolve.options import as_integer, as_number, is_auto, one_of, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import max_abs, reduce_columns
from meshsolve.sparse.cuda import without_diagonal
from meshsolve.sparse.matrix import Csr
from meshsolve.sparse.product import norm1, residual
from meshsolve.types import Auto, Callback, Device, Precision

AUTO_STEP = 1.0             # dt="auto" in squared mean edge lengths: noise between neighbours vanishes, shape stays
AUTO_CONFORMAL = 2e-3       # and in areas for the conformalized flow: a scan is a sphere after some fifty steps
LEAST_MASS = 1e-10          # of a vertex, in mean masses at the start: one between zero-area faces still has a say
HELD = 1e-12                # and of the diagonal it is added to: a smaller mass would drown in the rounding of its stiffness
RUNAWAY = 1e3               # a flow has failed when the surface is this many times longer than it was
COLLAPSED = 1e-12           # the flow ends when this share of the area is left
SQUARED_ENTRY = 36          # bytes an entry of the squared Laplacian takes while it is made: the product and its sum with the mass
LEFT = 0.5                  # a warning is given where less than this share of the area, or of the volume of a closed surface, is left
DENOISED = 0.9              # except where this share of the volume is left: then strong noise had the area
FLATTENED = 0.1             # or where faces that keep less than this share of their area
LOST = 0.05                 # had this share of the whole: hands and feet of a body, 6 % on a small model, are seen to be missing
METHODS = ("mean curvature", "conformalized", "bi-Laplacian")
BILAPLACIAN = {"flattest": 1e-3, "least": 1e-4}     # order 2 squares every weight, so its extremes are cut earlier


def mcf(mesh: MeshLike, steps: int = 1, dt: float | Auto = "auto", conformal: bool = False, precision: Precision = "double",
        device: Device = "auto", callback: Callback | None = None, threads: int | None = None) -> tuple[Mesh, Report]:
    """Mean curvature flow by implicit steps: every vertex moves along the surface's mean curvature normal.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        With boundaries, non-manifold edges, zero-area faces or unreferenced vertices if need be; the last stay in place.
    steps : int >= 1
    dt : float or "auto"
        Time step in squared units of length. ``"auto"``: the squared mean edge length, which removes scanner noise in
        a step or two whatever the units of the file; for the conformalized flow 0.002 times the area, which takes a scan to
        a sphere in about fifty steps.
    conformal : bool
        Conformalized flow: the Laplacian stays that of the first surface and only the masses follow; after each step the
        surface is scaled about its centroid to the area it began with. No singularities form, and a surface of genus 0
        converges to a round sphere.
    precision : {"double", "single", "mixed"}
    device : {"auto", "cpu", "cuda"}
        On the GPU positions, operators, factor and solutions stay there from step to step; numbers come back, the mesh at the end
        and for ``callback``. ``"auto"`` takes a GPU from 100,000 vertices on.
    callback : callable, optional
        ``callback(step, mesh)`` after each step, ``step`` from 1.
    threads : int, optional

    Returns
    -------
    Mesh
        The same faces at their new positions.
    Report
        Phases ``assemble`` and those of the factor; ``vertices``, ``faces``, ``steps`` done, ``dt``, ``area_before``,
        ``area_after``, ``volume_before``, ``volume_after``, ``residual`` (backward error of the last solve). A volume is that between
        the surface and the mean of its corners: of a closed surface the volume inside, negative where its faces look inwards.

    Raises
    ------
    InvalidInputError
        Not a mesh, no face with an area, or a bad ``steps`` or ``dt``.
    NotPositiveDefiniteError, MeshsolveError
        A step broke down: triangles collapsed, or the surface ran away. A smaller ``dt`` or ``conformal=True`` helps.

    Warns
    -----
    MeshsolveWarning
        The surface shrank to nothing before the last step; the mesh returned is the last one with an area. Or it collapsed: less
        than half of its area, or of the volume of a closed surface, is left, or 5 % of the area lay in faces that lost 90 % of theirs.
        Not with ``conformal=True``, which keeps the area.

    References
    ----------
    Desbrun, Meyer, Schroeder, Barr 1999, "Implicit fairing of irregular meshes", sections 2 and 5. Kazhdan, Solomon, Ben-Chen
    2012, "Can mean-curvature flow be modified to be non-singular?", section 4 (conformalized).
    """
    mesh = placed_mesh(mesh)
    steps = as_integer(steps, "steps")
    given = None if is_auto(dt) else as_number(dt, "dt", above=True)
    if callback is not None and not callable(callback):
        raise InvalidInputError(f"callback has to be a function of (step, mesh), not {callback!r}")
    flow = Flow(mesh, "conformalized" if conformal else "mean curvature", precision=precision, device=device, threads=threads)
    dt = flow.report.facts["dt"] = flow.automatic_step() if given is None else given
    for step in range(1, steps + 1):
        if not flow.step(dt):
            warn(f"the surface shrank to nothing in step {step} of {steps}; this is the mesh before it", MeshsolveWarning)
            break
        if callback is not None:
            callback(step, flow.mesh())
    after, report = flow.mesh(), flow.finish()
    losses = _compare(mesh, after, report)
    if losses and not conformal and report.facts["steps"] == steps:
        warn(f"{losses}. Take fewer steps or a smaller dt (this one is {dt:.3g}), or ms.apps.smooth with order=2, which keeps volume",
             MeshsolveWarning)
    return after, report


def smooth(mesh: MeshLike, strength: float = 1.0, order: Literal[1, 2] = 1, precision: Precision = "double",
           device: Device = "auto", threads: int | None = None) -> tuple[Mesh, Report]:
    """One implicit smoothing step: (M + s L) x' = M x, or (M + s L M^-1 L) x' = M x for the bi-Laplacian.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        As in :func:`mcf`; unreferenced vertices stay where they are.
    strength : float
        Free of units: s is ``strength`` times the mean edge length to the power 2 (order 1) or 4 (order 2), so 1 takes away
        noise between neighbouring vertices at any scale, 10 or 100 also what is some edges wide. 0 changes nothing.
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
        The squared Laplacian does not fit: one vertex with very many neighbours fills it.

    References
    ----------
    Desbrun, Meyer, Schroeder, Barr 1999, "Implicit fairing of irregular meshes using diffusion and curvature flow",
    sections 2.2 to 2.4.
    """
    mesh = placed_mesh(mesh)
    one_of(order, "order", (1, 2))
    strength = as_number(strength, "strength")
    report = Report(vertices=len(mesh.vertices), faces=len(mesh.faces), strength=strength)
    place = _device.choose(device, len(mesh.vertices))
    with _errors(place):
        with report.phase("assemble"):
            system = System(mesh, place, threads=threads, **(BILAPLACIAN if order == 2 else {}))
            A, b = (system.first_order if order == 1 else system.second_order)(strength * system.squared_edge ** order)
        edges = mesh if order == 1 and place == "cpu" else None
        F = api.cholesky(A, system.ordering(A, threads), mesh=edges, precision=precision, device=place, threads=threads)
        x = F.solve(b)
        report.merge(F.report)
        report.facts["residual"] = _backward_error(A, x, b, place)
        after = mesh.with_vertices(system.positions(x))
    losses = _compare(mesh, after, report)
    if losses:
        warn(f"{losses}. Take a smaller strength" + ", or order=2, which keeps volume" * (order == 1), MeshsolveWarning)
    return after, report


def _compare(before, after, report):
    """Add areas and volumes to the report; returns what a warning says, or an empty text where the surface is still there."""
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
            f"the volume are left; faces with {lost / facts['area_before']:.0%} of the area lost more than {1 - FLATTENED:.0%} of theirs")


def _volume(mesh):
    """The signed volume between the faces and the mean of their corners."""
    a, b, c = (mesh.vertices.take(corner, axis=0) for corner in mesh.faces.T)
    middle = (a.mean(axis=0) + b.mean(axis=0) + c.mean(axis=0)) / 3
    return float(np.einsum("fk,fk->", a - middle, np.cross(b - middle, c - middle)) / 6)


def _errors(place):
    return _device.errors("the flow") if place == "cuda" else contextlib.nullcontext()


class System:
    """Values of M + s L at moving positions, kept relative to the mesh's centre so that far-off scans lose no digits.

    ``place`` is where everything but the mesh lies; array expressions are numpy's or CuPy's.
    """

    def __init__(self, mesh, place="cpu", flattest=FLATTEST, least=LEAST_MASS, threads=None):
        self.mesh, self.least, self.place = mesh, least, place
        self.xp = np if place == "cpu" else _device.xp()
        self.assembler = assembler(mesh, flattest, place, threads)
        self._used = np.zeros(len(mesh.vertices), bool)
        self._used[mesh.faces] = True
        if not self._used.any():
            raise _without_area()
        self.centre = reduce_columns("mean", mesh.vertices[self._used])
        self.used, self.rows = (self._there(array) for array in (self._used, np.flatnonzero(self._used)))
        self.move(self._there(mesh.vertices - self.centre))
        if not self.area > 0:
            raise _without_area()
        self.mean_mass = self.area / np.count_nonzero(self._used)

    def _there(self, array):
        return array if self.place == "cpu" else _device.to_device(array)

    @property
    def squared_edge(self):
        """The squared mean edge length, positive."""
        return self.assembler.mean_edge(self.x) ** 2

    def move(self, x):
        """Take the positions x and compute stiffness values and masses there."""
        values = self.assembler.values(x)
        self.x, (self.stiffness, self.area_of) = x, values
        self.area = float(self.area_of.sum())

    @property
    def mass(self):
        """(n,) positive: an unreferenced vertex weighs as much as the mean one, a nearly massless one its least share."""
        return self.xp.where(self.used, self.xp.maximum(self.area_of, self.least * self.mean_mass), self.mean_mass)

    def first_order(self, s, stiffness=None):
        """A = M + s L and b = M x; L of the current surface unless its values are given."""
        data, diagonal = s * (self.stiffness if stiffness is None else stiffness), self.assembler.diagonal
        mass = self.xp.maximum(self.mass, HELD * data[diagonal])
        data[diagonal] += mass
        return self.assembler.matrix(data), mass[:, None] * self.x

    def second_order(self, s):
        """A = M + s L M^-1 L and b = M x."""
        if self.place == "cuda":
            indptr, indices, data, diagonal = self.assembler.squared(self.stiffness, self.mass)
            data *= s
            mass = self.xp.maximum(self.mass, HELD * data[diagonal])
            data[diagonal] += mass
            return _device.csr(data, indices, indptr, self.assembler.shape), mass[:, None] * self.x
        L = self.assembler.matrix(self.stiffness)
        degree = np.diff(L.indptr)
        ensure_memory(SQUARED_ENTRY * min(float(degree @ degree.astype(np.float64)), len(degree) ** 2.0), "the squared Laplacian")
        squared = s * (L @ sp.diags_array(1 / self.mass) @ L)
        mass = np.maximum(self.mass, HELD * squared.diagonal())
        return sp.csr_array(sp.diags_array(mass) + squared), mass[:, None] * self.x

    def ordering(self, A, threads):
        """How to order A: on the GPU by the nested dissection that begins with the patches of the operators."""
        if self.place == "cpu":
            return "auto"
        pattern = Csr(A.shape[0], A.indptr.astype(np.int64), A.indices.astype(np.int32))
        return order.dissect_cuda(without_diagonal(pattern), 0, thread_count(threads), mesh_patches=self.assembler.patches)

    def extent(self):
        """The longest side of the box around the surface."""
        x = self.x if len(self.rows) == len(self.x) else self.x[self.rows]
        return float((reduce_columns("max", x) - reduce_columns("min", x)).max())

    def positions(self, x):
        """x in the mesh's own frame, on the host; unreferenced vertices as they were."""
        x = _device.to_host(x)
        if not np.isfinite(x).all():
            raise MeshsolveError("the smoothed positions are not finite: the system is too ill-conditioned; try a smaller step")
        return np.where(self._used[:, None], x + self.centre, self.mesh.vertices)


def _without_area():
    return InvalidInputError("the mesh has no face with an area: there is nothing to smooth")


class Flow:
    """A flow that is stepped by hand: where the surface is now, and the factor that each step refactors.

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
        with _errors(self.place):
            self._begin(mesh)

    def _begin(self, mesh):
        with self.report.phase("assemble"):
            limits = BILAPLACIAN if self.method == "bi-Laplacian" else {}
            self.system = System(mesh, self.place, threads=self.options["threads"], **limits)
        self.first_area = self.report.facts["area_before"] = self.system.area
        self.first_extent = self.system.extent()
        self.stiffness = self.system.stiffness if self.method == "conformalized" else None      # None: that of the current surface

    def automatic_step(self):
        """What :func:`automatic_step` gives for the surface where the flow began, made where it lies."""
        if self.place == "cpu":
            return automatic_step(self.system.mesh, self.method)
        with _errors(self.place):
            return _step_of(self.method, self.system.squared_edge, self.first_area)

    def step(self, dt):
        """One backward Euler step; False if the surface would vanish. After that, or an error, it is where it was."""
        with _errors(self.place):
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
            raise MeshsolveError(f"the flow broke down in step {number}: the surface is {RUNAWAY:g} times longer than it was. A "
                                 "smaller dt helps")
        self.report.facts["steps"] = number
        return True

    def mesh(self):
        """The surface now, as a mesh that shares its connectivity with the first."""
        with _errors(self.place):
            return self.system.mesh.with_vertices(self.system.positions(self.system.x))

    def seconds(self):
        """Seconds of each phase so far, those of the factor included."""
        whole = Report()
        whole.merge(self.report)
        if self.factor is not None:
            whole.merge(self.factor.report)
        return whole.seconds

    def finish(self):
        """The report, with what the factor and the last solve have to say."""
        self.report.merge(self.factor.report)
        self.report.facts["area_after"] = self.system.area
        with _errors(self.place):
            self.report.facts["residual"] = _backward_error(*self.last, self.place)
        return self.report

    def _solve(self, A, b, number):
        try:
            if self.factor is None:
                mesh = None if self.method == "bi-Laplacian" or self.place == "cuda" else self.system.mesh
                ordering = self.system.ordering(A, self.options["threads"])
                self.factor = api.cholesky(A, ordering, mesh=mesh, **self.options)
            else:
                self.factor.refactor(A)
            x = self.factor.solve(b)
        except NotPositiveDefiniteError as e:
            raise NotPositiveDefiniteError(f"the flow broke down in step {number}: triangles have collapsed ({e}). A smaller dt "
                                           "or conformal=True helps", e.column) from e
        if not bool(self.system.xp.isfinite(x).all()):
            raise MeshsolveError(f"the flow broke down in step {number}: positions are not finite. A smaller dt or "
                                 "conformal=True helps")
        return x

    def _restore_area(self):
        """Scale about the centroid of the surface; the values follow by their homogeneity."""
        system = self.system
        if not system.area > 0:         # the caller sees it
            return
        scale = np.sqrt(self.first_area / system.area)
        centroid = system.area_of @ system.x / system.area
        system.x = centroid + scale * (system.x - centroid)
        system.area_of, system.area = system.area_of * scale ** 2, self.first_area


def automatic_step(mesh, method):
    """The time step of a method that ``"auto"`` stands for: it takes away noise between neighbours, whatever the units."""
    return _step_of(method, squared_edge(mesh), float(face_areas(mesh).sum()))


def _step_of(method, squared, area):
    if method == "conformalized":
        return AUTO_CONFORMAL * area or squared
    return squared ** 2 if method == "bi-Laplacian" else AUTO_STEP * squared


def squared_edge(mesh):
    """The squared mean edge length; a mesh without an edge of positive length is refused."""
    mean = edge_lengths(mesh).mean() if len(mesh.edges) else 0.0
    if not mean > 0:
        raise _without_area()
    return float(mean) ** 2


def _backward_error(A, x, b, place):
    """max |b - A x| / (|A| |x| + |b|) in the infinity norm, worst column."""
    if place == "cuda":
        pattern = A.indptr.astype(np.int64), A.indices.astype(np.int32)
        left, norm = residual(*pattern, A.data, x, b), norm1(*pattern, A.data)
    else:
        left, norm = b - A @ x, np.add.reduceat(np.abs(A.data), A.indptr[:-1]).max()        # every row holds its diagonal
    size = norm * max_abs(x) + max_abs(b)
    return float((max_abs(left) / (size + (size == 0))).max())
