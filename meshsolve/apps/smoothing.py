"""Implicit smoothing of triangle meshes in one step, with vertices that stay and a volume or an area that is kept.

Source: Desbrun, Meyer, Schroeder, Barr 1999, sections 2.2 to 2.4. Cost: one Cholesky factorization and one solve with 3 columns.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from meshsolve import api
from meshsolve import device as _device
from meshsolve.apps.systems import BILAPLACIAN, SYSTEMS
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning
from meshsolve.mesh import Mesh, MeshLike, checked_mesh
from meshsolve.mesh.checks import require_width
from meshsolve.mesh.measures import component_sums
from meshsolve.options import as_number, counted, one_of
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import as_floats, as_indices
from meshsolve.types import ArrayLike, Device, Precision

LEFT = 0.5                  # smallest fraction of the area, or of the volume of a closed surface, that gives no warning
SMOOTHED = 0.75             # the same for the volume after smoothing, which must keep it: by default ordinary models keep 95 %
DENOISED = 0.9              # fraction of the volume above which a small area gives no warning: the rest belonged to noise
FLATTENED = 0.1             # fraction of its area below which a face has collapsed
LOST = 0.05                 # largest share of collapsed faces in the area without a warning: hands and feet of a body have 6 %
PART, PART_LEFT = 1e-3, 0.25        # share of area or faces from which a component counts, and smallest fraction of it without a warning
NEGLIGIBLE = 1e-9           # share of the volume or area below which that of a component need not be kept
KEPT, KEPT_STEPS = 1e-9, 20  # relative error of a kept volume or area, and most steps of Newton's method


def smooth(mesh: MeshLike, strength: float | ArrayLike = 0.25, order: Literal[1, 2] = 2, precision: Precision = "double",
           device: Device = "auto", threads: int | None = None, *, fixed: ArrayLike | None = None,
           keep: Literal["volume", "area"] | None = None, boundary: Literal["fixed", "free"] = "fixed") -> tuple[Mesh, Report]:
    """Remove noise in one implicit step: (M + s L M^-1 L) x' = M x, or (M + s L) x' = M x with ``order=1``.

    The defaults take away most of a scan's noise. Coarse models keep legs, horns and 95 % of their volume, but details one edge wide,
    such as toes, wear off. At strength 1 thin parts wear to spikes, and at order 1 they also shrink. A free border runs inwards.

    Parameters
    ----------
    mesh : as in :func:`mcf`; unreferenced vertices do not move
    strength : float or (n,) array_like
        s is ``strength`` times the mean edge length of a component to the power 2 (order 1) or 4 (order 2). At order 2 0.25 leaves 40 %
        of the noise between neighbors and 1 leaves 25 %; 10 or 100 also remove features of several edges. One number a vertex smooths
        some parts more.
    order : {1, 2}: 1 flattens and shrinks; 2 keeps volume and slopes better
    precision, device, threads : as in :func:`mcf`
    fixed : (k,) integers or (n,) bool, optional: vertices that stay
    keep : {"volume", "area"}, optional
        Scale each component about the center of its surface to the volume of the closed mesh, or to its area. If vertices stay, the
        others move along their normals instead, and the whole is kept. The area of a scan includes its noise: prefer the volume.
    boundary : {"fixed", "free"}: whether the vertices on the boundary stay

    Returns
    -------
    Mesh, Report : as in :func:`mcf`

    Warns
    -----
    MeshsolveWarning
        The surface collapsed, as in :func:`mcf`, or a closed surface lost a quarter of its volume.

    Raises
    ------
    InvalidInputError
        Not a mesh, no face with an area, a negative ``strength`` or another ``order``. Every vertex is fixed or on the boundary.
        ``keep="volume"`` for a mesh with a boundary or without volume.
    MeshsolveError, OutOfMemoryError
        The area or the volume cannot be kept; the squared Laplacian does not fit, because a vertex has very many neighbors.

    References
    ----------
    Desbrun, Meyer, Schroeder, Barr 1999, "Implicit fairing of irregular meshes", sections 2.2 to 2.4.

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.datasets.scan_like(2000)
    >>> clean, report = ms.apps.smooth(mesh)
    >>> bool((clean.vertices == mesh.vertices)[mesh.boundary_vertices].all())
    True
    """
    mesh = require_width(checked_mesh(mesh))
    one_of(order, "order", (1, 2))
    strength, weight, held = strengths(strength, mesh, fixed, boundary)
    require_kept(keep, mesh)
    report = Report(vertices=len(mesh.vertices), faces=len(mesh.faces), strength=strength)
    border = mesh.boundary_vertices if boundary == "fixed" else None
    after = _smoothed(mesh, strength, weight, held, border, order, precision, device, threads, report)
    return _kept(mesh, after, held, keep, order, report), report


def held_vertices(mesh, fixed, boundary):
    """(n,) True at the vertices that stay."""
    held = np.zeros(len(mesh.vertices), bool)
    if fixed is not None:
        held[as_indices(fixed, len(held))] = True
    if one_of(boundary, "boundary", ("fixed", "free")) == "fixed":
        held[mesh.boundary_vertices] = True
    return held


def strengths(strength, mesh, fixed, boundary):
    """(one number for the report, (n,) weight of each vertex relative to it or 1, (k,) vertices that stay or None)."""
    n, held = len(mesh.vertices), held_vertices(mesh, fixed, boundary)
    weight: Any = 1.0
    if isinstance(strength, list | tuple) or getattr(strength, "ndim", 0) == 1:
        given = as_floats(strength, "strength")
        if given.shape != (n,) or not (given >= 0).all() or not np.isfinite(given).all():
            raise InvalidInputError(f"strength must be a number or {n} finite numbers that are not negative, got shape {given.shape}")
        held |= given == 0
        strength = float(given.max()) or 1.0
        weight = strength / np.where(given > 0, given, strength)
    if held[mesh.faces].all() and mesh.face_areas.any():
        if boundary == "fixed" and len(mesh.boundary_vertices):
            raise InvalidInputError("boundary='fixed' must leave a vertex free, but all are on the boundary or fixed; use boundary='free', "
                                    "or first merge vertices at the same position")
        raise InvalidInputError("fixed must leave a vertex free, got all of them")
    return as_number(strength, "strength"), weight, np.flatnonzero(held) if held.any() else None


def as_fixed(held):
    """The option ``fixed=`` of a factor."""
    return {} if held is None else {"fixed": held}


def require_kept(keep, mesh):
    """Raise if ``keep`` is not a measure of the mesh."""
    if keep is None:
        return
    one_of(keep, "keep", ("volume", "area"))
    if keep == "volume" and (len(mesh.boundary_edges) or mesh.volume == 0):
        raise InvalidInputError("keep='volume' needs a closed mesh with a volume; use keep='area'")


def keeping(keep, before, after, held):
    """The mesh ``after`` with the volume or the area of ``before``."""
    if held is None:
        return _scaled(keep, before, after)
    measure = (lambda mesh: mesh.volume) if keep == "volume" else (lambda mesh: float(mesh.face_areas.sum()))
    wanted = measure(before)
    along = after.vertex_normals
    along[held] = 0
    step = np.sqrt(after.face_areas.mean())
    for _ in range(KEPT_STEPS):                          # Newton's method for the distance, with a difference for the slope
        missing = wanted - measure(after)
        if abs(missing) <= KEPT * abs(wanted):
            return after
        slope = (measure(after.with_vertices(after.vertices + 1e-4 * step * along)) - measure(after)) / (1e-4 * step)
        if not slope:
            break
        after = after.with_vertices(after.vertices + missing / slope * along)
    raise MeshsolveError(f"the {keep} {wanted:.6g} cannot be kept by moves along the normals: {measure(after):.6g} was reached; use a "
                         "smaller strength, or fix fewer vertices")


def compare(before, after, report, left=LEFT):
    """Add areas, volumes and the number of degenerate faces to the report; return the text of a warning if the surface has collapsed, else
    an empty text.

    A closed surface has collapsed if less than the fraction ``left`` of its volume remains.
    """
    areas, facts = [before.face_areas, after.face_areas], report.facts
    facts["degenerate_faces"] = len(before.degenerate_faces)
    for name, mesh, area in zip(("before", "after"), (before, after), areas):
        facts[f"area_{name}"], facts[f"volume_{name}"] = float(area.sum()), mesh.volume
    lost = float(areas[0][areas[1] < FLATTENED * areas[0]].sum())
    is_closed, inside = len(before.boundary_edges) == 0, abs(facts["volume_before"])
    is_flat = facts["area_after"] < LEFT * facts["area_before"] and not (is_closed and abs(facts["volume_after"]) > DENOISED * inside)
    is_empty = is_closed and abs(facts["volume_after"]) < left * inside
    component = before.components[before.faces[:, 0]]
    of_part = [np.bincount(component, area) for area in areas]
    counts = (of_part[0] > PART * facts["area_before"]) | (np.bincount(component) > PART * len(component))
    parts = int(np.count_nonzero(counts & (of_part[1] < PART_LEFT * of_part[0])))
    if not (is_flat or is_empty or parts or lost > LOST * facts["area_before"]):
        return ""
    volume = facts["volume_after"] / facts["volume_before"] if facts["volume_before"] else 1.0
    return (f"the surface has collapsed, or parts of it: {facts['area_after'] / facts['area_before']:.0%} of the area and {volume:.0%} of "
            f"the volume are left; faces with {lost / facts['area_before']:.0%} of the area shrank by more than {1 - FLATTENED:.0%}"
            + f"; {counted(parts, 'component')} shrank by more than {1 - PART_LEFT:.0%}" * bool(parts))


def _scaled(keep, before, after):
    """The mesh ``after`` with each component scaled about the mean of its corners."""
    (wanted, _), (found, centers) = (_of_components(keep, mesh) for mesh in (before, after))
    with np.errstate(all="ignore"):
        ratio = wanted / found
    bad = ~(np.isfinite(ratio) & (ratio > 0))
    if not np.abs(wanted[bad]).sum() <= NEGLIGIBLE * abs(wanted.sum()) or bad.all():
        raise MeshsolveError(f"the smoothed surface has no {keep} that could be scaled to that of the mesh; use a smaller strength")
    scale = np.where(bad, 1.0, ratio) ** (1 / 3 if keep == "volume" else 1 / 2)
    used = np.zeros(len(after.vertices), bool)
    used[after.faces] = True
    center = centers[after.components]
    moved = center + scale[after.components][:, None] * (after.vertices - center)
    return after.with_vertices(np.where(used[:, None], moved, after.vertices))


def _of_components(keep, mesh):
    """((count,) volume or area of each component, (count, 3) mean of its corners)."""
    of_faces, count = mesh.components[mesh.faces[:, 0]], int(mesh.components.max()) + 1
    corners = mesh.vertices[mesh.faces]
    faces = 3 * np.bincount(of_faces, minlength=count).clip(1)
    centers = component_sums(corners.sum(axis=1), of_faces, count) / faces[:, None]
    if keep == "area":
        return component_sums(mesh.face_areas, of_faces, count), centers
    a, b, c = (corners - centers[of_faces][:, None]).transpose(1, 0, 2)
    return component_sums(np.einsum("fk,fk->f", a, np.cross(b, c)) / 6, of_faces, count), centers


def _kept(mesh, after, held, keep, order, report):
    """The mesh ``after`` smoothing with the first volume or area, if asked; warns of losses."""
    if keep is not None:
        after = keeping(keep, mesh, after, held)
    losses = compare(mesh, after, report, SMOOTHED)
    if losses:
        warn(f"{losses}. Use a smaller strength" + ", or order=2, which keeps volume" * (order == 1), MeshsolveWarning)
    return after


def _smoothed(mesh, strength, weight, held, border, order, precision, device, threads, report):
    """The mesh after one implicit step."""
    make = SYSTEMS[_device.choose(device, len(mesh.vertices))]
    with make.place.errors("the flow"):
        with report.phase("assemble"):
            system = make(mesh, threads=threads, weight=weight, border=border, **(BILAPLACIAN if order == 2 else {}))
            A, b = (system.first_order if order == 1 else system.second_order)(strength * system.squared_edge ** order)
        F = api.cholesky(A, system.ordering(A, threads), mesh=system.edges if order == 1 else None, precision=precision,
                         device=make.place.name, threads=threads, **as_fixed(held))
        x = F.solve(b, **system.values_of(held))
        report.merge(F.report)
        report.facts["residual"] = system.backward_error(A, x, b, held)
        return mesh.with_vertices(system.positions(x, held))
