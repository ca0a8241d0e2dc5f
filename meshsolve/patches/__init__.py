"""Patches: a mesh or graph cut into small pieces whose connectivity is stored in 16-bit local numbers.

Each patch owns some faces, edges and vertices and holds one more layer of foreign ones around them (its ribbon), so that
whatever is asked about an owned element is answered inside the patch. Patches are the unit of work of the neighbourhood
queries here and the vertices of the quotient graph that nested dissection cuts.

Source: Mahmoud, Porumbescu, Owens 2021, "RXMesh: A GPU Mesh Data Structure" (doi 10.1145/3450626.3459748), sections 3-5.
Code: kmeans.cpp, cut.cpp (partition), topology.cpp, build.cpp (owners, ribbons, local numbers), query.cpp; on the GPU their
twins kmeans.cu, cut.cu, build.cu, query.cu, launched by the *_cuda.py of the same name.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from meshsolve.device import choose
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, as_mesh, is_mesh, pattern_of
from meshsolve.options import INT32_MAX, as_integer, as_seed, counted, thread_count
from meshsolve.patches import build_cuda, host, query_cuda
from meshsolve.types import Array, Device, Matrix, Sparse

QUERIES = ("VV", "VE", "VF", "FV", "FE", "FF", "EV", "EF")
LARGEST_PATCH = 65535               # 16-bit local numbers; larger patch sizes mean this one
BACKENDS: dict[str, Any] = {"cpu": host, "cuda": build_cuda}


@dataclass(frozen=True, eq=False)
class Patch:
    """One patch in local numbers: owned elements come first, then the ribbon, both ascending in global numbers.

    Attributes
    ----------
    num_owned : (int, int, int)
        Owned vertices, edges, faces.
    ltog_vertices, ltog_edges, ltog_faces : (i,), (k,), (j,) int32
        Global number of each local vertex, edge, face.
    ev : (k, 2) uint16
        Local vertices of each local edge, in the order of the global edge.
    fe : (j, 3) uint16
        Local edges of each local face; edge c joins corners c and c + 1.
    owner_patch_vertices, owner_patch_edges, owner_patch_faces : int32
        For each ribbon element, in order: the patch that owns it.
    owner_local_vertices, owner_local_edges, owner_local_faces : uint16
        For each ribbon element, in order: its local number in that patch.
    """

    num_owned: tuple[int, int, int]
    ltog_vertices: np.ndarray
    ltog_edges: np.ndarray
    ltog_faces: np.ndarray
    ev: np.ndarray
    fe: np.ndarray
    owner_patch_vertices: np.ndarray
    owner_patch_edges: np.ndarray
    owner_patch_faces: np.ndarray
    owner_local_vertices: np.ndarray
    owner_local_edges: np.ndarray
    owner_local_faces: np.ndarray

    def __repr__(self):
        held = zip(self.num_owned, (self.ltog_vertices, self.ltog_edges, self.ltog_faces), ("vertices", "edges", "faces"))
        return "Patch(" + ", ".join(f"{owned} + {len(ltog) - owned} {name}" for owned, ltog, name in held) + ": owned + ribbon)"


@dataclass(frozen=True, eq=False)
class _Elements:
    """The vertices, edges or faces of all patches, as build.cpp lays them out."""

    patch: np.ndarray               # (elements,) int32 owner
    ptr: np.ndarray                 # (patches + 1,) int64 into ltog
    owned_ptr: np.ndarray           # (patches + 1,) int64 sums of the owned alone
    ltog: np.ndarray                # int32
    owner_patch: np.ndarray         # int32, of ribbon elements only
    owner_local: np.ndarray         # uint16, of ribbon elements only

    def num_owned(self, p):
        return int(self.owned_ptr[p + 1] - self.owned_ptr[p])

    def of(self, p):
        """(ltog, owner_patch, owner_local) of patch p."""
        ribbon = slice(self.ptr[p] - self.owned_ptr[p], self.ptr[p + 1] - self.owned_ptr[p + 1])
        return self.ltog[self.ptr[p]:self.ptr[p + 1]], self.owner_patch[ribbon], self.owner_local[ribbon]


class PatchMesh:
    """A triangle mesh, or the graph of a symmetric matrix, cut into patches.

    The faces of a mesh are cut along edges; a vertex or an edge belongs to the lowest patch among its faces. Of a matrix or
    pattern the vertices are cut (the pattern of A + A^T without its diagonal counts), an edge belongs to the lower patch of
    its ends (beside a hub of more than 65,534 neighbours, to that of the other end), and there are no faces.

    Parameters
    ----------
    mesh_or_pattern : Mesh, trimesh.Trimesh, meshio.Mesh, or (n, n) scipy sparse array, matrix, dense array or CuPy sparse matrix
        Non-manifold edges, duplicated faces, boundaries, several components and unreferenced vertices are welcome.
    patch_size : int, optional
        Most owned faces (of a pattern: owned vertices) of a patch, at least 1. Patches are smaller where 16-bit local
        numbers ask for it.
    seed : int, optional
        Of the random first seeds, 0 or more.
    threads : int, optional
        Default: all cores, or ``MESHSOLVE_NUM_THREADS``. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}, optional
        Where the patches are built, and what their arrays are: numpy's or CuPy's. The same patches on every device.

    Attributes
    ----------
    num_patches : int
        Numbered by their lowest face (pattern: vertex). None is empty.
    vertex_patch, edge_patch, face_patch : (n,), (e,), (m,) int32, read-only
        The patch that owns each vertex, edge, face. Edges are those of ``mesh.edges``; of a pattern, the entries above the
        diagonal in row order.
    vertex_weights : (num_patches,) int64
        Owned vertices of each patch.

    Raises
    ------
    InvalidInputError
        Not a mesh or square matrix; a bad ``patch_size``, ``seed``, ``threads`` or ``device``.
    DeviceUnavailableError
        ``device="cuda"`` and there is no GPU, or no CuPy.
    OutOfMemoryError
        On the GPU.

    Notes
    -----
    The owned faces of a patch are connected by shared edges, but for patches that collect small components (below a quarter
    of ``patch_size``) or the neighbours of a hub. Unreferenced vertices fill up patches of fewer than ``patch_size``
    vertices; if they are more, further patches hold them and no face. A vertex or edge of more than 3,640 faces (a pattern:
    of more than 65,534 neighbours) brings no ribbon, since 16 bits could not number it; queries about it gather its row
    over all patches.

    Cost: O(n + e + m) time, about 0.4 us a face on one thread; about 50 bytes a face (100 a vertex) are kept, and
    about 130 are needed at the peak. Source: RXMesh, see the module.

    Examples
    --------
    A grid of 40 x 40 vertices, cut into patches of at most 64:

    >>> import meshsolve as ms
    >>> import scipy.sparse as sp
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(40, 40))
    >>> P = ms.PatchMesh(sp.kronsum(path, path), patch_size=64)
    >>> bool(P.vertex_weights.max() <= 64), int(P.vertex_weights.sum())
    (True, 1600)
    >>> indptr, indices = P.query("VV")
    >>> indices[indptr[41]:indptr[42]].tolist()         # neighbours of vertex 41
    [1, 40, 42, 81]
    """

    def __init__(self, mesh_or_pattern: MeshLike | Matrix, patch_size: int = 512, seed: int = 0, threads: int | None = None,
                 device: Device = "cpu") -> None:
        size = min(as_integer(patch_size, "patch_size", most=2**63 - 1), LARGEST_PATCH)
        seed = as_seed(seed)
        self._threads = thread_count(threads)
        self._has_faces = is_mesh(mesh_or_pattern)
        subject = as_mesh(mesh_or_pattern) if self._has_faces else _countable(pattern_of(mesh_or_pattern))
        self._device = choose(device, len(subject.faces) if self._has_faces else subject.n)
        backend = BACKENDS[self._device]
        built = (backend.patch_mesh if self._has_faces else backend.patch_pattern)(subject, size, seed, self._threads)
        self._vertices, self._edges, self._faces = (_Elements(*map(_frozen, arrays)) for arrays in built[:3])
        ev, fe, self._heavy_vertices, self._heavy_edges = map(_frozen, built[3:])
        self._ev, self._fe = ev.reshape(-1, 2), fe.reshape(-1, 3)
        self._tables: dict[str, Any] = {}

    def __getstate__(self):
        return vars(self) | {"_tables": {}}

    def __setstate__(self, state):
        self.__dict__.update(state)                     # pickle forgets what is read-only
        for kind in (self._vertices, self._edges, self._faces):
            list(map(_frozen, vars(kind).values()))
        list(map(_frozen, (self._ev, self._fe, self._heavy_vertices, self._heavy_edges)))

    def __repr__(self):
        n, e, m = (len(kind.patch) for kind in (self._vertices, self._edges, self._faces))
        return f"PatchMesh({counted(self.num_patches, 'patch')} of {counted(n, 'vertex')}, {counted(e, 'edge')}, {counted(m, 'face')})"

    @property
    def num_patches(self):
        """The number of patches, at least 1."""
        return len(self._vertices.ptr) - 1

    @property
    def vertex_patch(self):
        """(n,) int32, read-only: the patch that owns each vertex."""
        return self._vertices.patch

    @property
    def edge_patch(self):
        """(e,) int32, read-only: the patch that owns each edge."""
        return self._edges.patch

    @property
    def face_patch(self):
        """(m,) int32, read-only: the patch that owns each face."""
        return self._faces.patch

    @property
    def vertex_weights(self):
        """(num_patches,) int64: owned vertices of each patch."""
        owned = self._vertices.owned_ptr
        return owned[1:] - owned[:-1]

    def patch(self, p: int) -> Patch:
        """Patch ``p`` as a :class:`Patch` of read-only views, 0 <= p < num_patches; O(1).

        Raises
        ------
        InvalidInputError
            No such patch.
        """
        if isinstance(p, bool) or not isinstance(p, Integral) or not 0 <= p < self.num_patches:
            raise InvalidInputError(f"there is no patch {p!r}: patches are numbered 0 to {self.num_patches - 1}")
        kinds = (self._vertices, self._edges, self._faces)
        ltog, owner_patch, owner_local = zip(*(kind.of(p) for kind in kinds))
        ev = self._ev[self._edges.ptr[p]:self._edges.ptr[p + 1]]
        fe = self._fe[self._faces.ptr[p]:self._faces.ptr[p + 1]]
        return Patch(tuple(kind.num_owned(p) for kind in kinds), *ltog, ev, fe, *owner_patch, *owner_local)

    def query(self, name: str, device: Device | None = None) -> tuple[Array, Array]:
        """The neighbours of every element as compressed rows of global numbers.

        Parameters
        ----------
        name : {"VV", "VE", "VF", "FV", "FE", "FF", "EV", "EF"}
            Source and target: ``"VF"`` lists the faces of every vertex. ``"VV"``: vertices that share an edge; ``"FF"``:
            faces that share an edge. A pattern has VV, VE and EV.
        device : {"cpu", "cuda"}, optional
            Where to compute; default where the patches were built. With ``"cuda"`` CuPy arrays are returned; tables that lie
            elsewhere are copied once and kept.

        Returns
        -------
        indptr : (sources + 1,) int64
        indices : (indptr[-1],) int32
            ``indices[indptr[i]:indptr[i + 1]]`` belong to source element i and ascend; those of FV, FE and EV stand in the
            order of the face or edge instead (edge c of a face joins its corners c and c + 1).

        Raises
        ------
        InvalidInputError
            Unknown name or device, or a query about faces of a pattern.
        DeviceUnavailableError
            ``device="cuda"`` and there is no GPU, or no CuPy.
        OutOfMemoryError
            On the GPU.

        Notes
        -----
        O(n + e + m + entries) time, 5 to 10 ns an entry on one thread. Source: RXMesh, section 5. Code: patches/query.cpp,
        query.cu: the same entries on every device.

        Examples
        --------
        >>> import meshsolve as ms
        >>> square = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [2, 1, 3]])
        >>> indptr, indices = ms.PatchMesh(square).query("VF")
        >>> indptr.tolist(), indices.tolist()
        ([0, 1, 3, 5, 6], [0, 0, 1, 0, 1, 1])
        """
        if not isinstance(name, str) or name not in QUERIES:
            raise InvalidInputError(f"there is no query {name!r}; there are {', '.join(QUERIES)}")
        if "F" in name and not self._has_faces:
            raise InvalidInputError(f"query {name!r} needs faces, and a pattern has none; it has VV, VE and EV")
        return self.tables(device).query(name)

    def tables(self, device: Device | None = None) -> host.Tables | query_cuda.Tables:
        """The arrays that queries read, in the memory of a device; copied once and kept."""
        chosen = choose(self._device if device is None else device)
        if chosen not in self._tables:
            self._tables[chosen] = BACKENDS[chosen].Tables.of(self._view(), self._vertices, self._threads)
        return self._tables[chosen]

    def _view(self):
        """The arrays that queries read, in the order of `View` in patches.hpp."""
        spans = [array for kind in (self._vertices, self._edges, self._faces) for array in (kind.ptr, kind.owned_ptr, kind.ltog)]
        return [*spans, self._ev.reshape(-1), self._fe.reshape(-1), self._heavy_vertices, self._heavy_edges]

    def quotient_graph(self, device: Device | None = None) -> Sparse:
        """The graph of patches: entry (p, q) counts the edges between a vertex owned by p and one owned by q.

        Parameters
        ----------
        device : {"cpu", "cuda"}, optional
            Where to compute; default where the patches were built.

        Returns
        -------
        (num_patches, num_patches) csr_array of int64
            Symmetric, without a diagonal, indices sorted. Node weights are ``vertex_weights``. With ``"cuda"`` a
            ``cupyx.scipy.sparse.csr_matrix`` of float64, since that has no integers.

        Raises
        ------
        InvalidInputError
            Unknown device.
        DeviceUnavailableError
            ``device="cuda"`` and there is no GPU, or no CuPy.

        Notes
        -----
        O(edges) time.

        Examples
        --------
        >>> import meshsolve as ms
        >>> import scipy.sparse as sp
        >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(6, 6))
        >>> ms.PatchMesh(path, patch_size=1).quotient_graph().sum(axis=1).tolist()
        [1, 2, 2, 2, 2, 1]
        """
        return self.tables(device).quotient_graph()


def _countable(G):
    """The pattern G, if its edges can be numbered in int32."""
    if G.nnz // 2 > INT32_MAX:
        raise InvalidInputError(f"A has {counted(G.nnz // 2, 'edge')}; at most {INT32_MAX} are supported")
    return G


def _frozen(array):
    if isinstance(array, np.ndarray):                   # CuPy has no such flag
        array.flags.writeable = False
    return array
