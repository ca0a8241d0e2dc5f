"""Maps of a surface with the topology of a disc to the plane: harmonic, least-squares conformal, spectral conformal, as rigid as possible.

Sources: Tutte 1963, Floater 1997 (harmonic, injective with positive weights and a convex boundary); Levy, Petitjean, Ray, Maillot
2002 (LSCM); Mullen, Tong, Alliez, Desbrun 2008 (spectral conformal); Liu, Zhang, Xu, Gotsman, Gortler 2008 (ARAP).
Cost: one Cholesky factor of n (harmonic, ARAP) or 2 n rows; a solve for each ARAP iteration.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky
from meshsolve.eigen import eigsh
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import MeshLike, checked_mesh, takes_arrays
from meshsolve.operators import cotan_laplacian, graph_laplacian
from meshsolve.options import as_integer, as_number, counted, one_of
from meshsolve.report import Report, warn
from meshsolve.types import Array

METHODS = ("harmonic", "lscm", "conformal", "arap")


@takes_arrays
def parameterize(mesh: MeshLike, method: Literal["harmonic", "lscm", "conformal", "arap"] = "lscm", *,
                 weights: Literal["cotan", "uniform"] = "cotan", iterations: int = 100, tol: float = 1e-6,
                 threads: int | None = None) -> tuple[Array, Report]:
    """Map a surface to the plane.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        One component with the topology of a disc: one boundary, no handles. n vertices.
    method : {"harmonic", "lscm", "conformal", "arap"}
        ``"harmonic"``: the boundary on the unit circle by arc length. ``"lscm"``: free boundary, angles kept in the least-squares sense,
        two boundary vertices fixed. ``"conformal"``: the same without fixed vertices, by an eigenproblem: less distortion. ``"arap"``:
        lengths kept as well as possible, starting from the LSCM map.
    weights : {"cotan", "uniform"}
        Of the harmonic map. With ``"uniform"`` no face is flipped, whatever the triangles are.
    iterations : int
        Most iterations of ``"arap"``.
    tol : float
        ``"arap"`` stops when its energy falls by less than this share.
    threads : int, optional

    Returns
    -------
    uv : (n, 2) float64
        The area of a conformal or ARAP map is that of the surface; faces keep their orientation.
    report : Report
        ``report.facts``: ``energy``, ``flipped`` (number of flipped faces), ``iterations``.

    Raises
    ------
    InvalidInputError
        No boundary, several, a handle, several components, a vertex without faces: cut the mesh to a disc first.

    Warns
    -----
    MeshsolveWarning
        Faces are flipped.

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.Mesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    >>> uv, report = ms.apps.parameterize(mesh, method="arap")
    >>> report.facts["flipped"], bool(report.facts["energy"] < 1e-20)
    (0, True)
    """
    mesh = checked_mesh(mesh)
    method, weights = one_of(method, "method", METHODS), one_of(weights, "weights", ("cotan", "uniform"))
    iterations, tol = as_integer(iterations, "iterations"), as_number(tol, "tol")
    loop = _disc_boundary(mesh)
    report = Report()
    with report.phase("map"):
        uv, energy, steps = _mapped(mesh, method, weights, loop, iterations, tol, threads)
    flipped = int((_signed_areas(mesh, uv) <= 0).sum())
    report.facts.update(method=method, energy=energy, flipped=flipped, iterations=steps)
    if flipped:
        advice = "; weights='uniform' flips none" if method == "harmonic" else ""
        warn(f"parameterize: {flipped} of {counted(len(mesh.faces), 'face')} flipped{advice}", MeshsolveWarning)
    return uv, report


def _mapped(mesh, method, weights, loop, iterations, tol, threads):
    """(uv, energy or None, iterations) by one of the methods."""
    if method == "harmonic":
        L = cotan_laplacian(mesh) if weights == "cotan" else graph_laplacian(mesh)
        return _harmonic(mesh, L, loop, threads), None, 0
    L = cotan_laplacian(mesh)
    conformal = _conformal_energy(L, loop)
    uv = _oriented(mesh, (_spectral if method == "conformal" else _lscm)(mesh, conformal, loop, threads))
    if method == "arap":
        return _arap(mesh, L, uv, iterations, tol, threads)
    return uv, float(0.5 * uv.T.ravel() @ (conformal @ uv.T.ravel())), 0


def _disc_boundary(mesh):
    """The vertices of the one boundary, in order; raises where the mesh is no disc."""
    n, loops = len(mesh.vertices), mesh.boundary_loops()
    characteristic = n - len(mesh.edges) + len(mesh.faces)
    faults = [("one component", mesh.components.max() == 0), ("a boundary", len(loops) > 0), ("a single boundary", len(loops) <= 1),
              ("no boundary vertex that is met twice", sum(map(len, loops)) == len(mesh.boundary_vertices)),
              ("manifold edges and vertices", mesh.is_manifold), ("no handles", characteristic == 1)]
    missing = [what for what, holds in faults if not holds]
    if missing:
        raise InvalidInputError(f"the mesh must have the topology of a disc: {missing[0]}; it has {counted(len(loops), 'boundary loop')} "
                                f"and Euler characteristic {characteristic}; cut it to a disc first")
    return loops[0]


def _harmonic(mesh, L, loop, threads):
    length = np.linalg.norm(mesh.vertices[loop] - mesh.vertices[np.roll(loop, -1)], axis=1)
    angle = 2 * np.pi * np.r_[0, np.cumsum(length)[:-1]] / length.sum()
    order = np.argsort(loop)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    return cholesky(L, fixed=loop[order], threads=threads).solve(np.zeros((len(mesh.vertices), 2)), fixed_values=circle[order])


def _conformal_energy(L, loop):
    """(2 n, 2 n) csr_array whose quadratic form is twice the Dirichlet energy minus twice the area of a map (u, v)."""
    n = L.shape[0]
    i, j, half = loop, np.roll(loop, -1), np.full(len(loop), 0.5)
    area = sp.coo_array((np.r_[half, -half], (np.r_[i, j], np.r_[j, i])), shape=(n, n))      # u^T area v is the area inside the loop
    return sp.csr_array(sp.block_array([[L, -area], [-area.T, L]]))


def _lscm(mesh, energy, loop, threads):
    """Two far boundary vertices are fixed."""
    n, first = len(mesh.vertices), loop[0]
    second = loop[np.linalg.norm(mesh.vertices[loop] - mesh.vertices[first], axis=1).argmax()]
    rows = np.array([first, second, n + first, n + second])
    order = np.argsort(rows)
    F = cholesky(energy, fixed=rows[order], threads=threads)
    return F.solve(np.zeros(2 * n), fixed_values=np.array([0.0, 1.0, 0.0, 0.0])[order]).reshape(2, n).T


def _spectral(mesh, energy, loop, threads):
    """The map of least conformal energy whose boundary has a given second moment about its mean."""
    n = len(mesh.vertices)
    on_boundary = np.zeros(n)
    on_boundary[loop] = 1
    w, X, _ = eigsh(energy, min(4, 2 * len(loop) - 1), M=sp.diags_array(np.r_[on_boundary, on_boundary]), threads=threads)
    z = X[:n] + 1j * X[n:]
    z -= z[loop].mean(axis=0)                                # two of the four are the constants, others have parts of them
    U, _, V = np.linalg.svd(z[loop], full_matrices=False)
    moment = np.real(V.conj() @ np.diag(w) @ V.T).diagonal()
    strength = np.linalg.norm(z[loop] @ V.conj().T, axis=0)
    best = np.where(strength > 1e-6 * strength.max(), moment, np.inf).argmin()
    z = z @ V[best].conj()
    return np.stack([z.real, z.imag], axis=1)


def _signed_areas(mesh, uv):
    a, b, c = (uv.take(corner, axis=0) for corner in mesh.faces.T)
    u, v = b - a, c - a
    return 0.5 * (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])


def _oriented(mesh, uv):
    """The map with the surface's area, not mirrored."""
    area = _signed_areas(mesh, uv).sum()
    uv = uv * np.array([1.0, -1.0 if area < 0 else 1.0])
    return uv * np.sqrt(mesh.face_areas.sum() / max(abs(area), np.finfo(float).tiny))


def _arap(mesh, L, uv, iterations, tol, threads):
    """(uv, energy, iterations): rotations of all faces, then a solve, in turn; the energy never rises."""
    faces, flat = mesh.faces, flattened_faces(mesh)
    weights = half_cotangents(flat)
    F = cholesky(L, pin=True, threads=threads)
    n, energy, steps = len(mesh.vertices), np.inf, 0
    while steps < iterations:
        rotation, steps = _best_rotations(faces, flat, weights, uv), steps + 1
        sides = [weights[:, c, None] * _turned(rotation, flat[(c + 1) % 3] - flat[c]) for c in range(3)]
        uv = F.solve(scattered_sides(faces, sides, n))
        before, energy = energy, _arap_energy(faces, flat, weights, uv, rotation)
        if energy >= (1 - tol) * before or energy <= 1e-28 * (uv * uv).sum():
            break
    return uv, float(energy), steps


def scattered_sides(faces, sides, n):
    """(n, d) sums at the vertices of three (m, d) arrays: side c of a face counts at corner c + 1, negative at corner c."""
    b = np.zeros((n, sides[0].shape[1]))
    for c, side in enumerate(sides):
        for k, part in enumerate(side.T):
            b[:, k] += np.bincount(faces[:, (c + 1) % 3], part, n) - np.bincount(faces[:, c], part, n)
    return b


def flattened_faces(mesh):
    """Corners of each face in its own plane: three (m, 2) arrays, the first at 0, the second on the x axis."""
    a, b, c = (mesh.vertices.take(corner, axis=0) for corner in mesh.faces.T)
    u, v = b - a, c - a
    base = np.linalg.norm(u, axis=1)
    safe = np.where(base > 0, base, 1)
    x, height = np.einsum("fk,fk->f", u, v) / safe, np.linalg.norm(np.cross(u, v), axis=1) / safe
    zero = np.zeros_like(base)
    return [np.stack(p, axis=1) for p in ((zero, zero), (base, zero), (x, height))]


def half_cotangents(flat):
    """(m, 3) half the cotangent of the angle opposite side c, which joins corners c and c + 1."""
    weights = []
    for c in range(3):
        u, v = flat[c] - flat[c - 1], flat[(c + 1) % 3] - flat[c - 1]
        cross = abs(u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0])
        largest = np.maximum((u * u).sum(axis=1), (v * v).sum(axis=1))
        weights.append(0.5 * (u * v).sum(axis=1) / np.maximum(cross, 1e-8 * np.where(largest > 0, largest, 1)))
    return np.stack(weights, axis=1)


def _best_rotations(faces, flat, weights, uv):
    """(m, 2) cosine and sine of the rotation that takes each face closest to its image."""
    dot, cross = np.zeros(len(faces)), np.zeros(len(faces))
    for c in range(3):
        x, y = flat[(c + 1) % 3] - flat[c], uv[faces[:, (c + 1) % 3]] - uv[faces[:, c]]
        dot += weights[:, c] * (x * y).sum(axis=1)
        cross += weights[:, c] * (x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0])
    length = np.hypot(dot, cross)
    safe = np.where(length > 0, length, 1)
    return np.stack([np.where(length > 0, dot / safe, 1), cross / safe], axis=1)


def _turned(rotation, x):
    """(m, 2) vectors, each turned by its rotation."""
    c, s = rotation.T
    return np.stack([c * x[:, 0] - s * x[:, 1], s * x[:, 0] + c * x[:, 1]], axis=1)


def _arap_energy(faces, flat, weights, uv, rotation):
    total = 0.0
    for c in range(3):
        off = uv[faces[:, (c + 1) % 3]] - uv[faces[:, c]] - _turned(rotation, flat[(c + 1) % 3] - flat[c])
        total += float((weights[:, c] * (off * off).sum(axis=1)).sum())
    return total
