"""Feature-preserving smoothing: face normals are averaged by similarity, then positions follow them.

Normals are filtered bilaterally: neighbors count by nearness and by how much their normals agree, so that creases stay. Each vertex then
moves along the new normals by its mean distance to the planes of its faces.

Sources: Zheng, Fu, Au, Tai 2011 (bilateral normal filter); Sun, Rosin, Martin, Langbein 2007 (positions from normals).
Cost: O(pairs of faces that share a vertex) for each pass over the normals, O(faces) for each pass over the positions.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.apps.smoothing import compare, held_vertices
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.boundary import side_directions
from meshsolve.mesh.measures import area_vectors, unit
from meshsolve.options import as_integer, as_number, one_of
from meshsolve.report import Report, warn
from meshsolve.types import ArrayLike


@takes_arrays
def denoise(mesh: MeshLike, method: Literal["bilateral"] = "bilateral", *, sigma: float = 0.35, iterations: int = 20,
            vertex_iterations: int = 20, fixed: ArrayLike | None = None,
            boundary: Literal["free", "fixed"] = "free") -> tuple[Mesh, Report]:
    """Remove noise and keep creases.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        Faces oriented alike.
    method : {"bilateral"}
        Bilateral filter of face normals.
    sigma : float
        Difference of unit normals that still counts as noise: about the noise's angle in radians. Larger values smooth weaker creases away.
    iterations, vertex_iterations : int
        Passes over the normals, and over the positions.
    fixed : (f,) integers or (n,) bool, optional
        Vertices that stay.
    boundary : {"free", "fixed"}
        Whether boundary vertices stay. Free ones move along normals only, so that a border does not run inwards.

    Returns
    -------
    Mesh
    report : Report
        ``report.facts``: ``area_before``, ``area_after``, ``volume_before``, ``volume_after``, ``largest_move``.

    Warns
    -----
    MeshsolveWarning
        The surface collapsed, as in :func:`mcf`.

    Raises
    ------
    InvalidInputError
        No face, faces that are not oriented alike (names an edge), sigma not positive.

    Examples
    --------
    >>> import meshsolve as ms
    >>> sphere = ms.datasets.icosphere(3)
    >>> smooth, report = ms.apps.denoise(sphere, iterations=2)
    >>> bool(abs(report.facts["volume_after"] / report.facts["volume_before"] - 1) < 0.01)
    True
    """
    mesh, method = checked_mesh(mesh), one_of(method, "method", ("bilateral",))
    sigma, passes = as_number(sigma, "sigma", above=True), as_integer(iterations, "iterations", least=0)
    vertex_passes = as_integer(vertex_iterations, "vertex_iterations", least=0)
    if len(mesh.faces) == 0:
        raise InvalidInputError("the mesh must have a face, got none")
    side_directions(mesh, fans_allowed=True)
    report, x, faces = Report(), mesh.vertices.copy(), mesh.faces
    held = held_vertices(mesh, fixed, boundary)
    with report.phase("normals"):
        normals = _filtered(mesh, sigma, passes)
    with report.phase("positions"):
        x = _follow(x, faces, normals, held, vertex_passes)
    out = mesh.with_vertices(x)
    losses = compare(mesh, out, report)
    if losses:
        warn(f"{losses}. Use fewer iterations or a smaller sigma", MeshsolveWarning)
    report.facts["largest_move"] = float(np.linalg.norm(x - mesh.vertices, axis=1).max())
    return out, report


def _neighbors(mesh):
    """(f, g) of all ordered pairs of faces that share a vertex."""
    m = len(mesh.faces)
    incidence = sp.csr_array((np.ones(3 * m), mesh.faces.ravel(), np.arange(0, 3 * m + 1, 3)), shape=(m, len(mesh.vertices)))
    pairs = (incidence @ incidence.T).tocoo()
    apart = pairs.row != pairs.col
    return pairs.row[apart], pairs.col[apart]


def _filtered(mesh, sigma, passes):
    """(m, 3) unit normals after some passes of the bilateral filter."""
    x, faces = mesh.vertices, mesh.faces
    vectors, centers = area_vectors(x, faces), x[faces].mean(axis=1)
    area, normals = np.linalg.norm(vectors, axis=1), unit(vectors)
    f, g = _neighbors(mesh)
    if len(f) == 0:
        return normals
    apart = ((centers[f] - centers[g]) ** 2).sum(axis=1)
    near = area[g] * np.exp(-apart / (2 * max(apart.mean(), np.finfo(float).tiny)))
    for _ in range(passes):
        weight = near * np.exp(-((normals[f] - normals[g]) ** 2).sum(axis=1) / (2 * sigma**2))
        total = sp.csr_array((weight, (f, g)), shape=(len(faces),) * 2) @ normals + area[:, None] * normals
        normals = np.where(np.linalg.norm(total, axis=1, keepdims=True) > 0, unit(total), normals)
    return normals


def _follow(x, faces, normals, held, passes):
    """Positions whose faces turn to the normals: each vertex moves along them by the mean distance to the planes of its faces."""
    n, count = len(x), np.bincount(faces.ravel(), minlength=len(x)).clip(1)
    for _ in range(passes):
        centers = x[faces].mean(axis=1)
        move = np.zeros_like(x)
        for corner in faces.T:
            height = ((centers - x[corner]) * normals).sum(axis=1, keepdims=True) * normals
            for k in range(3):
                move[:, k] += np.bincount(corner, height[:, k], n)
        move[held] = 0
        x = x + move / count[:, None]
    return x
