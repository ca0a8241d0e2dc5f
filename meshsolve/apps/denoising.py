"""Feature-preserving smoothing: face normals are averaged by similarity, then positions follow them.

Normals are filtered bilaterally: neighbors count by nearness and by how much their normals agree, so that creases stay. Each vertex then
moves along the new normals by its mean distance to the planes of its faces. The guided filter compares other normals: those of the most
uniform patch around each face, a face with its neighbors, which lies on one side of a crease.

Sources: Zheng, Fu, Au, Tai 2011 (bilateral normal filter); Zhang, Deng, Zhang, Bouaziz, Liu 2015 (guided filter); Sun, Rosin, Martin,
Langbein 2007 (positions from normals).
Cost: O(pairs of faces that share a vertex) for each pass over the normals, O(faces) for each pass over the positions. Guided: the sum over
all faces of the squared number of neighbors for each pass over the normals.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import scipy.sparse as sp

from meshsolve.apps.mcf import require_callback
from meshsolve.apps.smoothing import compare, held_vertices
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, MeshLike, checked_mesh, takes_arrays
from meshsolve.mesh.boundary import side_directions
from meshsolve.mesh.checks import require_width
from meshsolve.mesh.elements import unit
from meshsolve.mesh.measures import area_vectors
from meshsolve.options import as_integer, as_number, one_of
from meshsolve.report import Report, warn
from meshsolve.types import ArrayLike, Callback

FLAT = 1e-9             # added to sums of differences of unit normals: a flat patch has no sharpest edge
PAIRS = 1 << 21         # pairs of normals that are compared at once, about 150 MB


@takes_arrays
def denoise(mesh: MeshLike, method: Literal["bilateral", "guided"] = "bilateral", *, sigma: float = 0.35, iterations: int = 20,
            vertex_iterations: int = 20, fixed: ArrayLike | None = None, boundary: Literal["free", "fixed"] = "free",
            callback: Callback | None = None) -> tuple[Mesh, Report]:
    """Remove noise and keep creases.

    Parameters
    ----------
    mesh : Mesh, trimesh.Trimesh or meshio.Mesh
        Faces oriented alike.
    method : {"bilateral", "guided"}
        Filter of face normals. ``"guided"`` takes about 12 times as long. Its errors are smaller where noise is strong, a fifth of an edge
        or more on fine meshes, and depend less on ``sigma``.
    sigma : float
        Difference of unit normals that still counts as noise: about the noise's angle in radians. Larger values smooth weaker creases away.
    iterations, vertex_iterations : int
        Passes over the normals, and over the positions; with ``"guided"`` over the positions after each pass over the normals.
    fixed : (f,) integers or (n,) bool, optional: vertices that stay
    boundary : {"free", "fixed"}
        Whether boundary vertices stay. Free ones move along normals only, so that a border does not run inwards.
    callback : callable ``(step, mesh)``, optional
        Called after each pass over the positions, with ``"guided"`` after each of ``iterations``; ``step`` from 1.

    Returns
    -------
    Mesh
    report : Report
        ``report.facts``: ``area_before``, ``area_after``, ``volume_before``, ``volume_after``, ``largest_move``,
        ``degenerate_faces`` (their number before).

    Warns
    -----
    MeshsolveWarning
        The surface collapsed, as in :func:`mcf`.

    Raises
    ------
    InvalidInputError
        No face, faces that are not oriented alike (names an edge), sigma not positive, a callback that cannot be called.

    Examples
    --------
    >>> import meshsolve as ms
    >>> sphere = ms.datasets.icosphere(3)
    >>> smooth, report = ms.apps.denoise(sphere, iterations=2)
    >>> bool(abs(report.facts["volume_after"] / report.facts["volume_before"] - 1) < 0.01)
    True
    """
    mesh, method = require_width(checked_mesh(mesh)), one_of(method, "method", ("bilateral", "guided"))
    require_callback(callback)
    sigma, passes = as_number(sigma, "sigma", above=True), as_integer(iterations, "iterations", least=0)
    vertex_passes = as_integer(vertex_iterations, "vertex_iterations", least=0)
    _require_oriented(mesh)
    report = Report()
    x = _denoised(mesh, method, sigma, passes, vertex_passes, held_vertices(mesh, fixed, boundary), callback, report)
    out = mesh.with_vertices(x)
    losses = compare(mesh, out, report)
    if losses:
        warn(f"{losses}. Use fewer iterations or a smaller sigma", MeshsolveWarning)
    report.facts["largest_move"] = float(np.linalg.norm(x - mesh.vertices, axis=1).max())
    return out, report


def _require_oriented(mesh):
    """Raise without a face, or if faces are not oriented alike."""
    if len(mesh.faces) == 0:
        raise InvalidInputError("the mesh must have a face, got none")
    side_directions(mesh, fans_allowed=True)


def _denoised(mesh, method, sigma, passes, vertex_passes, held, callback, report):
    """(n, 3) positions after all passes."""
    x = mesh.vertices.copy()
    with report.phase("normals"):
        guided, normals = (_GuidedFilter(mesh, sigma), None) if method == "guided" else (None, _filtered(mesh, sigma, passes))
    rounds, each = (passes, vertex_passes) if guided else (vertex_passes, 1)
    for step in range(1, rounds + 1):
        if guided:
            with report.phase("normals"):
                normals = guided(x)
        with report.phase("positions"):
            x = _follow(x, mesh.faces, normals, held, each)
        if callback is not None:
            callback(step, mesh.with_vertices(x))
    return x


def _filtered(mesh, sigma, passes):
    """(m, 3) unit normals after some passes of the bilateral filter."""
    vectors = area_vectors(mesh.vertices, mesh.faces)
    area, normals = np.linalg.norm(vectors, axis=1), unit(vectors)
    f, g = _pairs(_near_faces(mesh))
    near = _nearness(mesh, mesh.vertices, area, f, g)
    for _ in range(passes):
        normals = _averaged(normals, normals, near, area, f, g, sigma)
    return normals


def _near_faces(mesh):
    """(m, m) csr_array of ones for faces that share a vertex, each face with itself; columns ascending."""
    m = len(mesh.faces)
    incidence = sp.csr_array((np.ones(3 * m), mesh.faces.ravel(), np.arange(0, 3 * m + 1, 3)), shape=(m, len(mesh.vertices)))
    near = sp.csr_array(incidence @ incidence.T)
    near.data[:] = 1
    near.sort_indices()
    return near


def _pairs(near):
    """(f, g) of all ordered pairs of different faces that share a vertex."""
    pairs = near.tocoo()
    apart = pairs.row != pairs.col
    return pairs.row[apart], pairs.col[apart]


def _nearness(mesh, x, area, f, g):
    """(p,) weights of the pairs by area and distance, relative to the mean of their component."""
    if len(f) == 0:
        return np.zeros(0)
    centers = x[mesh.faces].mean(axis=1)
    apart, of_pair = ((centers[f] - centers[g]) ** 2).sum(axis=1), mesh.components[mesh.faces[f, 0]]
    mean = apart.mean()
    if (of_pair != of_pair[0]).any():
        mean = (np.bincount(of_pair, apart) / np.bincount(of_pair).clip(1))[of_pair]
    return area[g] * np.exp(-apart / (2 * np.maximum(mean, np.finfo(float).tiny)))


def _averaged(normals, compared, near, area, f, g, sigma):
    """(m, 3) means of the normals of neighbors, weighted by nearness and by how much the ``compared`` normals agree."""
    weight = near * np.exp(-((compared[f] - compared[g]) ** 2).sum(axis=1) / (2 * sigma**2))
    total = sp.csr_array((weight, (f, g)), shape=(len(area),) * 2) @ normals + area[:, None] * normals
    return np.where(np.linalg.norm(total, axis=1, keepdims=True) > 0, unit(total), normals)


class _GuidedFilter:
    """Normals of positions after one pass of the guided filter.

    A patch is a face with its neighbors. Its inconsistency is the largest difference of two normals, times the share of the sharpest edge
    in the differences across all its edges.
    """

    def __init__(self, mesh, sigma):
        self._mesh, self._sigma, self._near = mesh, sigma, _near_faces(mesh)
        self._pairs = _pairs(self._near)
        sides = mesh.side_edges.reshape(-1)
        order = np.argsort(sides, kind="stable")
        self._edges = order[np.bincount(sides)[sides[order]] == 2].reshape(-1, 2).T // 3        # both faces of each edge
        a, b = self._edges
        self._inside = sp.csr_array(self._near[a].multiply(self._near[b])).T.tocsr()           # (m, e) the edges in each patch

    def __call__(self, x):
        """(m, 3) filtered unit normals of the faces at x (n, 3)."""
        vectors = area_vectors(x, self._mesh.faces)
        area, normals = np.linalg.norm(vectors, axis=1), unit(vectors)
        guidance = unit(self._near @ vectors)[self._most_uniform(normals)]
        return _averaged(normals, guidance, _nearness(self._mesh, x, area, *self._pairs), area, *self._pairs, self._sigma)

    def _most_uniform(self, normals):
        """(m,) the patch of least inconsistency among those that contain each face; its middle face."""
        a, b = self._edges
        change = np.linalg.norm(normals[a] - normals[b], axis=1)
        sharpest, has = np.zeros(len(normals)), np.diff(self._inside.indptr) > 0
        if has.any():
            sharpest[has] = np.maximum.reduceat(change[self._inside.indices], self._inside.indptr[:-1][has])
        share = sharpest / (self._inside @ change + FLAT)
        middle, count = self._near.indices, np.diff(self._near.indptr)
        inconsistency = (self._largest_difference(normals) * share)[middle]
        least = np.repeat(np.minimum.reduceat(inconsistency, self._near.indptr[:-1]), count)
        at = np.flatnonzero(inconsistency == least)
        return middle[at[np.unique(np.repeat(np.arange(len(count)), count)[at], return_index=True)[1]]]

    def _largest_difference(self, normals):
        """(m,) largest distance of two normals in each patch."""
        ptr, count, out = self._near.indptr, np.diff(self._near.indptr), np.empty(len(normals))
        blocks = np.searchsorted(np.cumsum(count.astype(np.int64) ** 2), np.arange(0, (count.astype(np.int64) ** 2).sum(), PAIRS))
        for begin, end in zip(blocks, np.append(blocks[1:], len(out)), strict=True):
            if begin == end:
                continue
            members, k = self._near.indices[ptr[begin]:ptr[end]], count[begin:end]
            partners = np.repeat(k, k)                          # of each member
            first = np.repeat(np.repeat(np.cumsum(k) - k, k) - np.cumsum(partners) + partners, partners)
            second = normals[members[first + np.arange(len(first))]]
            squares = ((normals[members].repeat(partners, axis=0) - second) ** 2).sum(axis=1)
            out[begin:end] = np.sqrt(np.maximum.reduceat(squares, np.cumsum(k * k) - k * k))
        return out


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
