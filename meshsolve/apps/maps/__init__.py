"""Maps of a surface to the plane: harmonic, least-squares conformal, spectral conformal, as rigid as possible, without flips.

The surface is a disc, or a disc with holes; other surfaces are cut to discs where that is asked for.

Sources: Tutte 1963, Floater 1997 (harmonic, injective with positive weights and a convex boundary); Levy, Petitjean, Ray, Maillot
2002 (LSCM); Mullen, Tong, Alliez, Desbrun 2008 (spectral conformal); :mod:`meshsolve.apps.maps.isometric` (ARAP, SLIM).
Cost: one Cholesky factor of n rows, for LSCM also a dense matrix of the boundary; SLIM and long boundaries: 2 n rows. Each iteration
of ARAP takes a solve, and each one of SLIM a refactorization.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.api import cholesky, schur_complement
from meshsolve.apps.maps.isometric import arap, slim
from meshsolve.device import to_host
from meshsolve.eigen import eigsh
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.checks import require_width
from meshsolve.mesh.cuts import cut_to_disc, require_surface
from meshsolve.operators import assembler, cotan_laplacian, graph_laplacian
from meshsolve.options import as_flag, as_integer, as_number, counted, one_of, thread_count
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import as_floats, as_indices
from meshsolve.sparse.places import place_for
from meshsolve.types import Array, ArrayLike, Device

METHODS = ("harmonic", "lscm", "conformal", "arap", "slim")
LONG_BOUNDARY = 16      # squared boundary vertices for each vertex up to which a dense matrix of the boundary is solved
PINNED = ("harmonic", "lscm", "arap")               # methods that take prescribed images


class MapReport(Report):
    """Report of a map. ``.facts`` has ``energy``, ``iterations``, ``weights``, and the numbers of ``flipped`` and ``degenerate_faces``.

    Attributes
    ----------
    energy : float or None
        What the method minimizes, at the result; None for ``"harmonic"``.
    flipped : (k,) int64
        Faces whose image has no positive area.
    iterations : int
    area_sign : int
        1 if the image has a positive area in all, -1 if it is mirrored, 0 if it has none.
    vertex_of : (r,) int32
        The vertex of the mesh of each row of uv. The first n rows are the vertices of the mesh; copies at cuts follow.
    mesh : Mesh
        The mesh whose vertices are the rows of uv; with ``cut=False`` that of the caller.
    """

    energy: float | None
    flipped: Array
    iterations: int
    area_sign: int
    vertex_of: Array
    mesh: Mesh

    def __getstate__(self):
        return {**vars(self), **super().__getstate__()}


@takes_arrays
def parameterize(mesh: MeshLike, method: Literal["harmonic", "lscm", "conformal", "arap", "slim"] = "lscm", *,
                 weights: Literal["cotan", "uniform"] = "cotan", cut: bool = False, fixed: ArrayLike | None = None,
                 fixed_uv: ArrayLike | None = None, iterations: int = 100, tol: float = 1e-6, device: Device = "auto",
                 threads: int | None = None) -> tuple[Array, MapReport]:
    """Map a surface to the plane.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        One manifold component, oriented alike: without ``cut`` a disc, perhaps with holes. n vertices.
    method : {"harmonic", "lscm", "conformal", "arap", "slim"}
        ``"harmonic"``: longest boundary on the unit circle, holes free. The others have free boundaries: ``"lscm"`` keeps angles in
        the least-squares sense and fixes two boundary vertices; ``"conformal"`` fixes none, by an eigenproblem. ``"arap"`` keeps
        lengths, from the LSCM map. ``"slim"`` keeps lengths and flips no face.
    weights : {"cotan", "uniform"}
        Weights of ``"harmonic"``. A map with ``"cotan"`` that flips faces is computed again with ``"uniform"``, which flips none.
    cut : bool
        Cut the surface to a disc first, along short paths. A vertex on the cut gets several rows.
    fixed, fixed_uv : (f,) integers or (n,) bool, and (f, 2) array_like, optional
        At least two vertices and their images. ``"harmonic"`` takes them instead of the circle, ``"lscm"`` instead of its two
        vertices, ``"arap"`` keeps them. On a cut the first row of a vertex is fixed.
    iterations, tol : int, float
        ``"arap"`` and ``"slim"`` stop after so many, or when their energy falls by less than this share.
    device : {"auto", "cpu", "cuda"}
        Where factors lie and solve. The rest runs on the host.
    threads : int, optional

    Returns
    -------
    uv : (n, 2) float64
        Without ``fixed``, the area of conformal and ARAP maps is that of the surface. With ``cut`` it has more rows, see
        ``report.vertex_of``. NaN at vertices without faces.
    report : MapReport

    Raises
    ------
    InvalidInputError
        The surface is no disc and not to be cut, or cannot be; images do not fit; a face without area for ``"slim"``.
    DeviceUnavailableError
        ``device="cuda"`` without a GPU.

    Warns
    -----
    MeshsolveWarning
        Faces are flipped; a harmonic map was computed again; vertices have no faces.

    Examples
    --------
    >>> import meshsolve as ms
    >>> uv, report = ms.apps.parameterize(ms.datasets.icosphere(2), method="slim", cut=True)
    >>> uv.shape, len(report.flipped)
    ((173, 2), 0)
    """
    mesh, method = require_width(checked_mesh(mesh)), one_of(method, "method", METHODS)
    weights = one_of(weights, "weights", ("cotan", "uniform"))
    options: dict[str, Any] = {"device": device, "threads": thread_count(threads)}
    limits = as_integer(iterations, "iterations"), as_number(tol, "tol")
    return _on_disc(mesh, method, weights, as_flag(cut, "cut"), (fixed, fixed_uv), *limits, options)


def _on_disc(mesh, method, weights, cut, images, iterations, tol, options):
    """The map and its report, for checked options."""
    report = MapReport(method=method, threads=options["threads"])
    with report.phase("cut"):
        used = require_surface(mesh)
        whole, report.vertex_of = cut_to_disc(mesh) if cut else (mesh, np.arange(len(mesh.vertices), dtype=np.int32))
        disc, rows = _without_unreferenced(whole, used[report.vertex_of] if cut else used)
        loops = _boundary_of_disc(disc)
        pins = _pins(*images, method, len(mesh.vertices), rows)
    with report.phase("map"):
        uv, report.energy, report.iterations = _mapped(disc, method, weights, loops, pins, iterations, tol, options, report)
    _describe(report, disc, uv)
    report.mesh = whole
    if len(rows) == len(whole.vertices):
        return uv, report
    out = np.full((len(whole.vertices), 2), np.nan)
    out[rows] = uv
    return out, report


def _describe(report, disc, uv):
    """Fill in what is counted on the map, and warn if faces are flipped."""
    report.flipped, area = _flipped(disc, uv)
    report.area_sign = int(np.sign(area))
    report.facts.update(energy=report.energy, flipped=len(report.flipped), iterations=report.iterations,
                        degenerate_faces=len(disc.degenerate_faces))
    if len(report.flipped):
        warn(f"parameterize: {len(report.flipped)} of {counted(len(disc.faces), 'face')} flipped, the first is face {report.flipped[0]}; "
             "method='slim' flips none", MeshsolveWarning)


def _pins(fixed, fixed_uv, method, n, rows):
    """(rows of the disc (f,) ascending, their images (f, 2)), or None."""
    if fixed is None and fixed_uv is None:
        return None
    if fixed is None or fixed_uv is None:
        raise InvalidInputError("fixed and fixed_uv must be given together")
    if method not in PINNED:
        raise InvalidInputError(f"fixed goes with method={', '.join(map(repr, PINNED))}, got {method!r}")
    chosen, uv = as_indices(fixed, n), as_floats(fixed_uv, "fixed_uv")
    if uv.shape != (len(chosen), 2) or not np.isfinite(uv).all():
        raise InvalidInputError(f"fixed_uv must be {len(chosen)} finite rows of 2, one for each fixed vertex, got shape {uv.shape}")
    if len(chosen) < 2 or (uv == uv[0]).all():
        raise InvalidInputError(f"fixed_uv must have at least two different points, got {counted(len(chosen), 'point')}")
    row = np.searchsorted(rows, chosen)
    without = rows[np.minimum(row, len(rows) - 1)] != chosen
    if without.any():
        raise InvalidInputError(f"a fixed vertex must have a face, vertex {chosen[without.argmax()]} has none")
    order = np.argsort(row)
    return row[order], uv[order]


def _mapped(mesh, method, weights, loops, pins, iterations, tol, options, report):
    """(uv, energy or None, iterations) by one of the methods."""
    if method == "harmonic" and pins is not None:
        L = cotan_laplacian(mesh) if weights == "cotan" else graph_laplacian(mesh)
        return _with_pins(L, *pins, options), None, 0
    if method == "harmonic":
        return _harmonic_map(mesh, weights, loops, options, report), None, 0
    if method == "slim":
        start = _tutte(mesh, loops, options)
        flat, _ = _flipped(mesh, start)
        if len(flat):
            raise InvalidInputError("method='slim' needs a start without flips, but in double precision Tutte's map has "
                                    f"{counted(len(flat), 'face')} without area, the first is face {flat[0]}: cut the "
                                    "mesh into rounder parts")
        return slim(mesh, start, iterations, tol, options)
    rows = assembler(mesh, threads=options["threads"])
    values, masses = rows.values(mesh.vertices)
    L, arcs = rows.matrix(values), np.array([np.concatenate(loops), np.concatenate([np.roll(loop, -1) for loop in loops])])
    if method == "conformal":
        uv = _spectral(mesh, _conformal_energy(L, arcs), arcs[0], options)
    else:
        uv = _lscm(L, arcs, *(_far_apart(mesh, loops[0]) if pins is None else pins), options)
    if pins is None:
        uv = _oriented(uv, _area_inside(arcs, uv), masses.sum())
    if method == "arap":
        return arap(mesh, L, uv, pins, iterations, tol, options)
    return uv, 0.5 * float(np.vdot(uv, L @ uv)) - _area_inside(arcs, uv), 0


def _without_unreferenced(mesh, used):
    """(mesh of the vertices ``used``, those with a face, (k,) their numbers in the mesh), with a warning if others are left out."""
    if used.all():
        return mesh, np.arange(len(used))
    missing = int((~used).sum())
    warn(f"parameterize: {counted(missing, 'vertex')} without faces, NaN in the map, the first is {int((~used).argmax())}",
         MeshsolveWarning)
    rows = np.flatnonzero(used)
    return Mesh(mesh.vertices[rows], (np.cumsum(used) - 1)[mesh.faces]), rows


def _boundary_of_disc(mesh):
    """The boundary loops, the longest one first; raises where the surface is no disc with holes."""
    loops = mesh.boundary_loops()
    characteristic = len(mesh.vertices) - len(mesh.edges) + len(mesh.faces)
    if len(loops) == 0 or characteristic != 2 - len(loops):
        missing = "a boundary" if len(loops) == 0 else "no handles"
        raise InvalidInputError(f"the surface must have {missing}; it has {counted(len(loops), 'boundary loop')} and Euler characteristic "
                                f"{characteristic}: cut the mesh first; cut=True does that")
    loops = sorted(loops, key=lambda loop: -_side_lengths(mesh, loop).sum())
    if _side_lengths(mesh, loops[0]).sum() == 0:
        raise InvalidInputError(f"the boundary must have a length, all {counted(len(loops[0]), 'vertex')} of it are at one point")
    return loops


def _side_lengths(mesh, loop):
    return np.linalg.norm(mesh.vertices[loop] - mesh.vertices[np.roll(loop, -1)], axis=1)


def _harmonic_map(mesh, weights, loops, options, report):
    """The harmonic map, with uniform weights if others flip faces."""
    if weights == "cotan":
        uv = _harmonic(mesh, cotan_laplacian(mesh), loops[0], options)
        flipped = len(_flipped(mesh, uv)[0])
        if flipped:
            weights = "uniform"
            warn(f"parameterize: cotangent weights flip {counted(flipped, 'face')}; the map was computed again with uniform weights",
                 MeshsolveWarning)
    report.facts["weights"] = weights
    return uv if weights == "cotan" else _tutte(mesh, loops, options)


def _tutte(mesh, loops, options):
    """The map with uniform weights, which is injective: holes are filled by fans around a vertex each."""
    n, fans = len(mesh.vertices), []
    for k, hole in enumerate(loops[1:]):
        fans.append(np.stack([np.full(len(hole), n + k), np.roll(hole, -1), hole], axis=1))
    filled = Mesh(np.vstack([mesh.vertices, np.zeros((len(fans), 3))]), np.vstack([mesh.faces, *fans])) if fans else mesh
    return _harmonic(filled, graph_laplacian(filled), loops[0], options)[:n]


def _harmonic(mesh, L, loop, options):
    """L uv = 0 with the loop on the unit circle by arc length."""
    length = _side_lengths(mesh, loop)
    angle = 2 * np.pi * np.r_[0, np.cumsum(length)[:-1]] / length.sum()
    order = np.argsort(loop)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return _with_pins(L, loop[order], circle[order], options)


def _with_pins(L, rows, values, options):
    """The solution (n, 2) of L x = 0 with prescribed rows, ascending."""
    n = L.shape[0]
    return values if len(rows) == n else cholesky(L, fixed=rows, **options).solve(np.zeros((n, 2)), fixed_values=values)


def _area_inside(arcs, uv):
    """The area of the image of a map, from the arcs (2, b) of the boundary: their first and second vertices."""
    (u, v), (next_u, next_v) = (uv[ends].T for ends in arcs)
    return 0.5 * float(u @ next_v - v @ next_u)


def _conformal_energy(L, arcs):
    """(2 n, 2 n) csr_array whose quadratic form is twice the Dirichlet energy minus twice the area of a map (u, v)."""
    half = np.full(arcs.shape[1], 0.5)
    area = sp.coo_array((np.r_[half, -half], (arcs.ravel(), arcs[::-1].ravel())), shape=L.shape)           # its form is u^T C v
    return sp.csr_array(sp.block_array([[L, -area], [-area.T, L]]))


def _far_apart(mesh, loop):
    """Two far boundary vertices, ascending, and their images: the first one of the loop at (0, 0), the other at (1, 0)."""
    first = loop[0]
    second = loop[np.linalg.norm(mesh.vertices[loop] - mesh.vertices[first], axis=1).argmax()]
    rows = np.array([first, second])
    order = np.argsort(rows)
    return rows[order], np.array([[0.0, 0.0], [1.0, 0.0]])[order]


def _lscm(L, arcs, rows, values, options):
    """The map of least conformal energy with prescribed images of some vertices, ascending.

    u + i v minimizes z^H (L + i C) z for the area form C. Only boundary vertices have entries in C, so L is condensed to them and to
    ``rows``, once for u and v. A long boundary makes that matrix too large: then u and v are solved for together.
    """
    n = L.shape[0]
    if len(rows) == n:
        return values
    kept = np.unique(np.append(rows, arcs[0]))
    if len(kept) == n or len(kept) ** 2 > LONG_BOUNDARY * n or place_for(options["device"], size=n) != "cpu":
        F = cholesky(_conformal_energy(L, arcs), fixed=np.append(rows, n + rows), **options)
        return F.solve(np.zeros(2 * n), fixed_values=values.T.ravel()).reshape(2, n).T
    S = schur_complement(L, kept, threads=options["threads"])
    H, (i, j), fixed = S.matrix.astype(complex), np.searchsorted(kept, arcs), np.searchsorted(kept, rows)
    H.imag[i, j], H.imag[j, i] = 0.5, -0.5                              # a boundary edge has one direction
    given = values[:, 0] + 1j * values[:, 1]
    b = -H[:, fixed] @ given
    b[fixed], H[fixed], H[:, fixed] = given, 0, 0
    H[fixed, fixed] = 1
    z = np.linalg.solve(H, b)
    return S.expand(np.zeros((n, 2)), np.stack([z.real, z.imag], axis=1))


def _spectral(mesh, energy, loop, options):
    """The map of least conformal energy whose boundary, the vertices ``loop``, has a given second moment about its mean."""
    n = len(mesh.vertices)
    on_boundary = np.zeros(n)
    on_boundary[loop] = 1
    w, X, _ = eigsh(energy, min(4, 2 * len(loop) - 1), M=sp.diags_array(np.r_[on_boundary, on_boundary]), **options)
    w, X = to_host(w), to_host(X)
    z = X[:n] + 1j * X[n:]
    z -= z[loop].mean(axis=0)                                # two of the four are the constants, others have parts of them
    U, _, V = np.linalg.svd(z[loop], full_matrices=False)
    moment = np.real(V.conj() @ np.diag(w) @ V.T).diagonal()
    strength = np.linalg.norm(z[loop] @ V.conj().T, axis=0)
    best = np.where(strength > 1e-6 * strength.max(), moment, np.inf).argmin()
    z = z @ V[best].conj()
    return np.stack([z.real, z.imag], axis=1)


def _flipped(mesh, uv):
    """(The faces whose image has no positive area, ascending; the area of the image)."""
    return _core.flipped_faces(np.ascontiguousarray(uv).reshape(-1), mesh.faces.reshape(-1))


def _oriented(uv, area, wanted):
    """The map, whose image has an ``area``, in the scale of the ``wanted`` area and not mirrored."""
    scale = np.sqrt(wanted / max(abs(area), np.finfo(float).tiny))
    return uv * np.array([scale, -scale if area < 0 else scale])
