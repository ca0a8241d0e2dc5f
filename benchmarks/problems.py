"""The meshes, graphs and matrices of the benchmarks: files of a data folder, their Loop subdivisions, or generated surfaces.

The data folder is ``MESHSOLVE_DATA`` or a ``shared/data`` folder next to the checkout; its ``INDEX.csv`` names the meshes.
Without one every set consists of subdivided icospheres. Subdivided meshes are kept in the cache folder.
The matrix of a mesh is one implicit smoothing step, A = M + t L (lumped mass, cotan Laplacian, t = mean edge length squared). The
refactorization gets M + 2 t L, and the right-hand sides are M times the vertices. The matrix of a graph is the Laplacian of its
largest component plus a small multiple of the identity.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import hashlib
import os
import pathlib
import re

import numpy as np
import scipy.io
import scipy.sparse as sp
import scipy.spatial

import meshsolve as ms
from benchmarks.peers.base import cache_folder

SMALLEST, LARGEST = 30_000, 1_000_000           # vertices in the set "order"
MOST_COMPONENTS = 1_000                         # more components are a triangle soup, no test of an ordering
CHOLESKY = ("spot", "stanford-bunny", "nefertiti", "ogre", "igea", "ogre-1", "igea-1", "nefertiti-2", "ogre-2")
QUICK = ("stanford-bunny", "nefertiti", "igea", "ogre-1")
SPHERES = {"order": (6, 7, 8), "cholesky": (4, 6, 7, 8), "quick": (5, 6)}
SCAN = 16_000                                   # approximate number of vertices of the generated scan before subdivision
SHIFT = 1e-3                                    # shift of the Laplacian of a graph, relative to the mean diagonal


@dataclasses.dataclass(frozen=True)
class Problem:
    """A mesh by name: a file (None for a generated mesh) and the number of subdivisions."""

    name: str
    path: pathlib.Path | None
    level: int

    def system(self):
        """The :class:`System` of one smoothing step."""
        return smoothing_system(self.mesh())

    def mesh(self):
        """The mesh without unused vertices."""
        if self.path is None and self.name.startswith("icosphere"):
            return ms.datasets.icosphere(self.level)
        return _subdivided(self) if self.level else self._coarse()

    def _coarse(self):
        return _scan() if self.path is None else _used_part(ms.load_mesh(self.path))

    def size(self):
        """Number of vertices, without building the mesh: a subdivision adds a vertex per edge, splits each edge and adds three edges per face."""
        mesh = dataclasses.replace(self, level=0).mesh()
        n, edges, faces = len(mesh.vertices), len(mesh.edges), len(mesh.faces)
        for _ in range(self.level):
            n, edges, faces = n + edges, 2 * edges + 3 * faces, 4 * faces
        return n


@dataclasses.dataclass(frozen=True)
class Stored:
    """A symmetric positive definite matrix or a graph by name, in a file of the data folder."""

    name: str
    path: pathlib.Path
    is_graph: bool

    def system(self):
        """The :class:`System` of the matrix, with random right-hand sides; A2 has a heavier diagonal."""
        if self.is_graph:
            return shifted_system(graph_laplacian_of(self.path))
        A = sp.csr_array(ms.datasets.load_matrix(self.path))
        shifted = shifted_system(A)
        return System(A, shifted.A, shifted.B)

    def mesh(self):
        """Exit with an error: the matrix has no mesh."""
        raise SystemExit(f"{self.name} is not a mesh")


@dataclasses.dataclass(frozen=True)
class Volume:
    """A generated volume by name: ``tetrahedra-100``, the edges of the Delaunay tetrahedra of 100,000 random points in a cube, or
    ``grid3d-60``, a grid of 60 points per side."""

    name: str

    def system(self):
        """The :class:`System` of the Laplacian, every edge of weight 1, with a small multiple of the identity."""
        kind, _, size = self.name.rpartition("-")
        return shifted_system(ms.datasets.grid3d(int(size)) if kind == "grid3d" else _tetrahedra(1000 * int(size)))

    def mesh(self):
        """Exit with an error: a volume has no triangles."""
        raise SystemExit(f"{self.name} is not a triangle mesh")


@dataclasses.dataclass(frozen=True)
class System:
    """A x = B, and A2 of the same pattern for the refactorization."""

    A: sp.csr_array
    A2: sp.csr_array
    B: np.ndarray

    @property
    def n(self):
        return self.A.shape[0]

    def save(self, path):
        """Write the arrays to an .npz file."""
        np.savez(path, indptr=self.A.indptr, indices=self.A.indices, data=self.A.data, data2=self.A2.data, B=self.B)

    @classmethod
    def load(cls, path):
        """Read a file of :meth:`save`."""
        with np.load(path) as z:
            n = len(z["indptr"]) - 1
            A, A2 = (sp.csr_array((z[d], z["indices"], z["indptr"]), shape=(n, n)) for d in ("data", "data2"))
            return cls(A, A2, z["B"])


def shifted_system(L):
    """The :class:`System` of a Laplacian plus a small multiple of the identity, doubled for A2, with random right-hand sides."""
    shift = SHIFT * L.diagonal().mean() * sp.eye_array(L.shape[0])
    return System(sp.csr_array(L + shift), sp.csr_array(L + 2 * shift), np.random.default_rng(0).standard_normal((L.shape[0], 3)))


def _tetrahedra(n):
    """The Laplacian of the edges of the Delaunay tetrahedra of n random points."""
    corners = scipy.spatial.Delaunay(np.random.default_rng(0).random((n, 3))).simplices
    i, j = np.triu_indices(4, 1)
    edges = np.unique(np.sort(np.stack([corners[:, i].ravel(), corners[:, j].ravel()], axis=1), axis=1), axis=0)
    return ms.graph_laplacian(sp.coo_array((np.ones(2 * len(edges)), (edges.ravel(), edges[:, ::-1].ravel())), shape=(n, n)))


def smoothing_system(mesh):
    """The :class:`System` of one implicit smoothing step on ``mesh``."""
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    ends = mesh.vertices[mesh.edges]
    t = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean() ** 2
    A, A2 = _common_pattern(M, L, t), _common_pattern(M, L, 2 * t)
    if not A.diagonal().min() > 0:
        raise SystemExit(f"vertex {int(A.diagonal().argmin())} has no area: the smoothing matrix of this mesh is singular")
    return System(A, A2, np.ascontiguousarray(M @ mesh.vertices))


def _common_pattern(M, L, t):
    """M + t L on the pattern of L for any t. scipy would drop entries that cancel."""
    A = sp.csr_array(L, copy=True)
    A.sort_indices()
    A.data *= t
    A.data[A.indices == np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))] += M.diagonal()
    return A


def data_folder():
    """The folder of real meshes, or None."""
    given = os.environ.get("MESHSOLVE_DATA")
    folder = pathlib.Path(given) if given else pathlib.Path(__file__).parents[1] / "../shared/data"
    return folder.resolve() if (folder / "INDEX.csv").exists() else None


def catalog(folders=("meshes",)):
    """``{name: row of INDEX.csv}`` of the files in some folders of the data folder. Empty without a data folder."""
    folder = data_folder()
    if folder is None:
        return {}
    with open(folder / "INDEX.csv", newline="") as f:
        rows = [row for row in csv.DictReader(f) if row["file"].split("/")[0] in folders]
    return {pathlib.Path(row["file"]).name.split(".")[0]: row for row in rows}


def graph_laplacian_of(path):
    """The Laplacian of the largest component of a graph in a MatrixMarket file; files named _L are Laplacians already."""
    A = sp.csr_array(scipy.io.mmread(path, spmatrix=False)).astype(float)
    L = A if "_L." in path.name else ms.graph_laplacian(A)
    label = sp.csgraph.connected_components(L, directed=False)[1]
    kept = np.flatnonzero(label == np.argmax(np.bincount(label)))
    return sp.csr_array(L[kept][:, kept])


def problem_set(name):
    """The problems of the set ``"order"``, ``"cholesky"`` or ``"quick"``, smallest first."""
    if data_folder() is None:
        return [Problem(f"icosphere-{k}", None, k) for k in SPHERES[name]]
    if name == "order":
        return _order_set()
    return [find(problem) for problem in (QUICK if name == "quick" else CHOLESKY)]


def find(name):
    """The problem of a name: ``igea``, ``igea-1`` (subdivided once), ``icosphere-7``, ``scan-2`` (a generated scan, subdivided
    twice), ``tetrahedra-100`` or ``grid3d-60`` (see :class:`Volume`), ``NotreDame_www`` (a graph), ``ibmpg1_G`` (a definite matrix), or
    the path of a mesh file."""
    rows, matrices = catalog(), catalog(("graphs", "spd"))
    if name in rows:
        return Problem(name, data_folder() / rows[name]["file"], 0)
    stem, _, level = name.rpartition("-")
    if stem in rows and level.isdigit():
        return Problem(name, data_folder() / rows[stem]["file"], int(level))
    if re.fullmatch(r"(icosphere|scan)-\d+", name):
        return Problem(name, None, int(level))
    if re.fullmatch(r"(tetrahedra|grid3d)-\d+", name):
        return Volume(name)
    if name in matrices:
        return Stored(name, data_folder() / matrices[name]["file"], matrices[name]["file"].startswith("graphs/"))
    if pathlib.Path(name).is_file():
        return Problem(pathlib.Path(name).stem, pathlib.Path(name), 0)
    raise SystemExit(f"no mesh or matrix {name!r}: neither in the data folder ({data_folder()}), nor icosphere-K, scan-K, tetrahedra-K or grid3d-K, nor a file")


def _order_set():
    """Every mesh of the data folder from SMALLEST vertices on and its subdivisions up to LARGEST.

    Left out: triangle soups.
    """
    sized = []
    for name, row in catalog().items():
        n, faces = int(row["n"]), int(row["nnz_or_faces"])
        if n < SMALLEST or int(row["components"]) > MOST_COMPONENTS:
            continue
        level = 0
        while n <= LARGEST:
            sized.append((n, f"{name}-{level}" if level else name))
            n, faces, level = n + 3 * faces // 2, 4 * faces, level + 1      # a new vertex per edge, four faces per face
    return [find(name) for _, name in sorted(sized)]


@functools.cache
def _scan():
    return ms.datasets.scan_like(SCAN)


def _subdivided(problem):
    """Loop subdivision of a mesh file or the generated scan, from the cache if possible."""
    key = f"{SCAN}-{ms.__version__}" if problem.path is None else hashlib.sha256(problem.path.read_bytes()).hexdigest()[:16]
    cached = cache_folder() / f"{problem.name}-{key}.npz"
    if not cached.exists():
        mesh = problem._coarse()
        vertices, faces = mesh.vertices, mesh.faces
        for _ in range(problem.level):
            vertices, faces = loop_subdivided(vertices, faces)
        scratch = cached.with_suffix(f".{os.getpid()}.npz")
        np.savez(scratch, vertices=vertices, faces=faces)
        os.replace(scratch, cached)
    with np.load(cached) as z:
        return ms.Mesh(z["vertices"], z["faces"])


def loop_subdivided(vertices, faces):
    """One step of Loop's subdivision (Loop 1987, Warren's weights), on any mesh.

    Edges of one face, and of three or more, are creases; vertices on them follow the crease, or stay where it branches.
    """
    n, m = len(vertices), len(faces)
    corner = np.asarray(faces, np.int64)
    sides = np.sort(np.stack([corner[:, [1, 2]], corner[:, [2, 0]], corner[:, [0, 1]]], axis=1).reshape(-1, 2), axis=1)
    keys, edge = np.unique(sides[:, 0] * n + sides[:, 1], return_inverse=True)
    ends, crease = np.stack(np.divmod(keys, n), axis=1), np.bincount(edge) != 2
    opposite = sp.csr_array((np.ones(3 * m), (edge, corner.ravel())), shape=(len(keys), n)) @ vertices
    middle = vertices[ends].sum(axis=1)
    new = np.where(crease[:, None], middle / 2, 3 / 8 * middle + opposite / 8)
    moved = _smoothed(vertices, ends, crease)
    a, b, c = (n + edge.reshape(-1, 3)).T                  # the new vertex opposite each corner
    i, j, k = corner.T
    fine = np.stack([i, c, b, j, a, c, k, b, a, a, b, c], axis=1).reshape(-1, 3)
    return np.concatenate([moved, new]), fine.astype(np.int32)


def _smoothed(vertices, ends, crease):
    """The old vertices after one step: the mean of their neighbors mixed in."""
    n = len(vertices)
    links = np.concatenate([ends, ends[:, ::-1]])
    smooth = sp.csr_array((np.ones(len(links)), tuple(links.T)), shape=(n, n))
    folds = sp.csr_array((np.tile(crease, 2).astype(float), tuple(links.T)), shape=(n, n))
    degree, folded = smooth.sum(axis=1)[:, None], folds.sum(axis=1)[:, None]
    weight = np.where(degree == 3, 3 / 16, 3 / (8 * np.maximum(degree, 1)))
    inside = (1 - degree * weight) * vertices + weight * (smooth @ vertices)
    along = 3 / 4 * vertices + (folds @ vertices) / 8
    return np.where(folded == 0, inside, np.where(folded == 2, along, vertices))


def _used_part(mesh):
    used = np.zeros(len(mesh.vertices), bool)
    used[mesh.faces] = True
    if used.all():
        return mesh
    return ms.Mesh(mesh.vertices[used], (np.cumsum(used) - 1)[mesh.faces])
