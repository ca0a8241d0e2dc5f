"""Patches: a mesh or graph divided into small parts whose connectivity is stored in 16-bit local numbers.

Each patch owns some faces, edges and vertices, and stores one layer of foreign ones around them (its ribbon). So every query about
an owned element is answered within the patch. Patches are the unit of work of the neighborhood queries, and the vertices of the
quotient graph that nested dissection bisects.

Source: Mahmoud, Porumbescu, Owens 2021, "RXMesh: A GPU Mesh Data Structure" (doi 10.1145/3450626.3459748), sections 3-5.
Code: kmeans.cpp, cut.cpp (partition), topology.cpp, build.cpp (owners, ribbons, local numbers), query.cpp. On the GPU:
kmeans.cu, cut.cu, build.cu and query.cu, launched by the *_cuda.py of the same name. Compositions of queries, and reductions over their
rows: rings.cpp and rings.cu.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal

import numpy as np

from meshsolve.device import choose, scalar
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, as_mesh, is_mesh, pattern_of
from meshsolve.options import INT32_MAX, as_flag, as_integer, as_seed, counted, one_of, thread_count
from meshsolve.patches import build_cuda, host, query_cuda, reductions
from meshsolve.patches.kernel_cuda import PatchKernel
from meshsolve.patches.rows import OF_PATTERN, QUERIES
from meshsolve.seal import Sealed
from meshsolve.types import Array, ArrayLike, Device, Matrix, Sparse

LARGEST_PATCH = 65535               # largest patch size, the range of 16-bit local numbers; larger arguments are reduced to it
BACKENDS: dict[str, Any] = {"cpu": host, "cuda": build_cuda}


@dataclass(frozen=True, eq=False)
class Patch:
    """One patch in local numbers: owned elements first, then the ribbon, both ascending in global numbers.

    Attributes
    ----------
    num_owned : (int, int, int)
        Numbers of owned vertices, edges and faces.
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


class PatchMesh(Sealed):
    """A triangle mesh, or the graph of a symmetric matrix, divided into patches.

    The faces of a mesh are partitioned. A vertex or an edge belongs to the lowest patch among its faces. For a matrix or pattern (that
    of A + A^T without its diagonal) the vertices are partitioned, and there are no faces. An edge belongs to the lower patch of its
    ends; if one end has more than 65,534 neighbors, to the patch of the other end.

    Parameters
    ----------
    mesh_or_pattern : Mesh, trimesh.Trimesh, meshio.Mesh, or (n, n) scipy sparse array, matrix, dense array or CuPy sparse matrix
        Non-manifold edges, duplicated faces, boundaries, several components and unreferenced vertices are allowed.
    patch_size : int, optional
        Largest number of owned faces (for a pattern: owned vertices) of a patch, at least 1. Patches are smaller if 16-bit local
        numbers require it.
    seed : int, optional
        Seed of the random initial vertices, 0 or more.
    threads : int, optional
        Default: all cores, or ``MESHSOLVE_NUM_THREADS``. The result does not depend on it.
    device : {"cpu", "cuda", "auto"}, optional
        Device on which the patches are built; their arrays are numpy or CuPy arrays. The patches are the same on every device.

    Attributes
    ----------
    num_patches : int
        Patches are numbered by their lowest face (pattern: vertex). No patch is empty.
    vertex_patch, edge_patch, face_patch : (n,), (e,), (m,) int32, read-only
        The patch that owns each vertex, edge, face. Edges are those of ``mesh.edges``; for a pattern, the entries above the
        diagonal in row order.
    vertex_weights : (num_patches,) int64
        Number of owned vertices of each patch.

    Raises
    ------
    InvalidInputError
        Not a mesh or square matrix; a bad ``patch_size``, ``seed``, ``threads`` or ``device``.
    DeviceUnavailableError
        ``device="cuda"`` and there is no GPU, or no CuPy.
    OutOfMemoryError
        Not enough GPU memory.

    Notes
    -----
    The owned faces of a patch are connected by shared edges. Exceptions are patches that collect small components (below a quarter
    of ``patch_size``) or the neighbors of a vertex of high degree. Unreferenced vertices are added to patches of fewer than
    ``patch_size`` vertices, then to additional patches without faces. A vertex or edge of more than 3,640 faces (in a pattern: of
    more than 65,534 neighbors) has no ribbon, which would exceed 16-bit numbers; queries gather its row from all patches.

    Cost: O(n + e + m) time, about 0.4 us per face on one thread; memory about 50 bytes per face (100 per vertex), and about 130
    at the peak. Source: RXMesh, see the module.

    Examples
    --------
    A grid of 40 x 40 vertices, divided into patches of at most 64:

    >>> import meshsolve as ms
    >>> import scipy.sparse as sp
    >>> path = sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(40, 40))
    >>> P = ms.PatchMesh(sp.kronsum(path, path), patch_size=64)
    >>> bool(P.vertex_weights.max() <= 64), int(P.vertex_weights.sum())
    (True, 1600)
    >>> indptr, indices = P.query("VV")
    >>> indices[indptr[41]:indptr[42]].tolist()         # neighbors of vertex 41
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
        self._rows: dict[tuple[type, str, int], tuple[Array, Array]] = {}           # of queries that were reduced

    def __getstate__(self):
        return vars(self) | {"_tables": {}, "_rows": {}}

    def __setstate__(self, state):
        self.__dict__.update(state)                     # pickle does not store the read-only flags
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
        """Return patch ``p``, 0 <= p < num_patches, as a :class:`Patch` of read-only views; O(1).

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

    def query(self, name: str, device: Device | None = None, *, oriented: bool = False, rings: int = 1) -> tuple[Array, Array]:
        """Return the neighbors of every element as compressed rows of global numbers.

        Parameters
        ----------
        name : {"VV", "VE", "VF", "FV", "FE", "FF", "EV", "EF", "EE", "EVDiamond"}
            Source and target: ``"VF"`` lists the faces of every vertex. ``"VV"``: vertices that share an edge; ``"FF"``:
            faces that share an edge; ``"EE"``: edges that share an end. ``"EVDiamond"``: the two ends of an edge and the opposite
            corners of its faces. A pattern has VV, VE, EV and EE.
        device : {"cpu", "cuda"}, optional
            Device of the computation; default: the device on which the patches were built. ``"cuda"`` returns CuPy arrays. Arrays on
            the other device are copied once and kept.
        oriented : bool, optional
            For VV and VE: neighbors and edges in rotation order around each vertex. It is counterclockwise seen from outside, where
            the corners of faces are counterclockwise. Entry k of a row of VE joins the vertex to entry k of VV.
        rings : int, optional
            For VV: the vertices at distance 1 to ``rings``, in edges.

        Returns
        -------
        indptr : (sources + 1,) int64
        indices : (indptr[-1],) int32
            ``indices[indptr[i]:indptr[i + 1]]`` belong to source element i and ascend. For FV, FE and EV they have the order of the
            face or edge instead (edge c of a face joins its corners c and c + 1). A row of EVDiamond is (a, c, b, d) for the edge
            (a, b). Corner c belongs to the face in which the edge runs from a to b, d to the other face; it is -1 at the boundary.
            If the edge has the same direction in both faces, c belongs to the lower face.

        Raises
        ------
        InvalidInputError
            Unknown name or device; a query about faces of a pattern; ``oriented`` or ``rings`` for other queries, or both. With
            ``oriented``, the lowest vertex that is not manifold: an edge of it has more than two faces, or its faces form several fans.
            For EVDiamond, the lowest edge of more than two faces.
        DeviceUnavailableError
            ``device="cuda"`` and there is no GPU, or no CuPy.
        OutOfMemoryError
            Not enough memory.

        Notes
        -----
        O(n + e + m + entries) time, 5 to 20 ns per entry on one thread, 60 ns with ``oriented``. The result is the same on every
        device. Source: RXMesh, section 5. Code: patches/query.cpp, query.cu; rings.cpp, rings.cu.

        An oriented row around an inner vertex begins at the lowest face of the vertex. A row around a boundary vertex begins at the
        boundary edge that leaves the vertex in the direction of its face, and ends at the other boundary edge. If the faces around a
        vertex are not oriented alike, the lowest one determines the direction.

        Examples
        --------
        >>> import meshsolve as ms
        >>> square = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [2, 1, 3]])
        >>> indptr, indices = ms.PatchMesh(square).query("VF")
        >>> indptr.tolist(), indices.tolist()
        ([0, 1, 3, 5, 6], [0, 0, 1, 0, 1, 1])
        >>> indptr, indices = ms.PatchMesh(square).query("VV", oriented=True)
        >>> indices[indptr[1]:indptr[2]].tolist()           # around vertex 1, from the boundary edge (1, 3) to (1, 0)
        [3, 2, 0]
        """
        self._check_query(name, oriented, rings)
        return self.tables(device).rows(name, bool(oriented), rings)

    def reduce(self, query: str, values: ArrayLike, op: Literal["sum", "mean", "min", "max"] = "sum", *, rings: int = 1,
               empty: float | None = None, device: Device | None = None) -> Array:
        """Return the sum, mean, minimum or maximum of the neighbors' values, for every element.

        Parameters
        ----------
        query : str
            Name of a query, as for :meth:`query`: its rows are the elements of the result, its entries the elements with values.
        values : (targets, ...) real array
            One number or array of numbers per target element of the query. Targets are vertices for VV, FV, EV and EVDiamond, edges
            for VE, FE and EE, faces for VF, FF and EF. A numpy or CuPy array, copied to ``device`` if necessary.
        op : {"sum", "mean", "min", "max"}, optional
        rings : int, optional
            As for :meth:`query`.
        empty : number, optional
            Mean, minimum or maximum of a row without entries. Default: NaN. The sum of such a row is 0.
        device : {"cpu", "cuda"}, optional
            Device of the computation and of the result; default: the device on which the patches were built.

        Returns
        -------
        (sources, ...) array
            float64 and float32 stay (float16 becomes float32). Integers and bools become int64, their mean float64. NaN among the
            values of a row makes its result NaN.

        Raises
        ------
        InvalidInputError
            The errors of :meth:`query`; ``values`` of another length or not real; unknown ``op``; integers without ``empty``, if a
            row has no entries.
        DeviceUnavailableError
            ``device="cuda"`` and there is no GPU, or no CuPy.
        OutOfMemoryError
            Not enough memory.

        Notes
        -----
        O(entries x numbers per element) time, 2 to 4 ns each on one thread. The rows of the query are computed at the first call
        and kept, 4 bytes per entry. Entries are added in the order of the row, so the result has the same bits on any number of
        threads and on every device. Exception: subnormal float32 numbers count as 0 on a GPU. Entries -1 of EVDiamond are passed over.

        Examples
        --------
        >>> import meshsolve as ms
        >>> square = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [2, 1, 3]])
        >>> ms.PatchMesh(square).reduce("VV", [1.0, 2.0, 3.0, 4.0], op="mean").tolist()
        [2.5, 2.6666666666666665, 2.3333333333333335, 2.5]
        """
        self._check_query(query, False, rings)
        one_of(op, "op", reductions.OPS)
        targets = len({"V": self._vertices, "E": self._edges, "F": self._faces}[query[1]].patch)
        given, dtype = reductions.checked(values, targets, query, op)
        tables = self.tables(device)
        key = (type(tables), query, rings)
        if key not in self._rows:
            self._rows[key] = tables.rows(query, rings=rings)
        indptr, indices = self._rows[key]
        return tables.reduce(indptr, indices, given, reductions.OPS.index(op), reductions.value_of_empty(empty, dtype, op, indptr), dtype)

    def kernel(self, source: str, *, vertex_bytes: int = 0, edge_bytes: int = 0, face_bytes: int = 0) -> PatchKernel:
        """Compile a function of your own that runs on the GPU, one thread block per patch with the patch in shared memory.

        Parameters
        ----------
        source : str
            CUDA C++ with one function ``__device__ void NAME(const Patch& patch, ...) {``, whose further parameters are pointers and
            numbers. All threads of a block call it. docs/patches.md lists what ``Patch`` has.
        vertex_bytes, edge_bytes, face_bytes : int, optional
            Shared memory for the function's own use, per vertex, edge and face of a patch with its ribbon:
            ``patch.per_vertex<double>()`` and so on.

        Returns
        -------
        PatchKernel
            Call it with the arguments after the patch: C-contiguous arrays on the GPU of exactly the declared types, and numbers.

        Raises
        ------
        InvalidInputError
            No such function in the source; a parameter type that cannot be passed; the compiler's messages. A patch that does not fit
            into shared memory. A vertex or edge of so many faces that no patch contains its neighbors.
        DeviceUnavailableError
            There is no GPU, or no CuPy.
        OutOfMemoryError
            Not enough GPU memory.

        Notes
        -----
        The function must write only results of owned elements, so that every result is written by one thread block. It may read
        all elements of patch and ribbon. The ribbon contains all faces at an owned vertex. Source: RXMesh, section 5. Code:
        patches/kernel_cuda.py, kernel.cuh.

        Examples
        --------
        >>> import meshsolve as ms
        >>> source = '''
        ... __device__ void degrees(const Patch& patch, int* degree) {
        ...   for (int v = threadIdx.x; v < patch.owned_vertices; v += blockDim.x) degree[patch.global_vertex(v)] = patch.vv(v).size;
        ... }'''
        >>> patches = ms.PatchMesh(ms.datasets.icosphere(2))
        >>> degrees = patches.kernel(source)                    # doctest: +SKIP
        >>> degrees(degree := cupy.empty(162, "int32"))         # doctest: +SKIP
        """
        sizes = [as_integer(value, f"{name}_bytes", 0, 1 << 16)
                 for name, value in (("vertex", vertex_bytes), ("edge", edge_bytes), ("face", face_bytes))]
        for heavy, kind in ((self._heavy_vertices, "vertex"), (self._heavy_edges, "edge")):
            if len(heavy):
                raise InvalidInputError(f"{kind} {int(scalar(heavy[:1]))} has so many neighbors that no patch contains them: use query and "
                                        "reduce")
        return PatchKernel(self.tables("cuda"), source, sizes)

    def tables(self, device: Device | None = None) -> host.Tables | query_cuda.Tables:
        """Return the arrays that queries read, on a device. They are copied once and kept."""
        chosen = choose(self._device if device is None else device)
        if chosen not in self._tables:
            self._tables[chosen] = BACKENDS[chosen].Tables.of(self._view(), self._vertices, self._threads)
        return self._tables[chosen]

    def quotient_graph(self, device: Device | None = None) -> Sparse:
        """Return the quotient graph of the patches: entry (p, q) is the number of edges between vertices of p and vertices of q.

        Parameters
        ----------
        device : {"cpu", "cuda"}, optional
            Device of the computation; default: the device on which the patches were built.

        Returns
        -------
        (num_patches, num_patches) csr_array of int64
            Symmetric, without a diagonal, indices sorted. Node weights are ``vertex_weights``. With ``"cuda"`` a
            ``cupyx.scipy.sparse.csr_matrix`` of float64, which does not support integers.

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

    def _check_query(self, name, oriented, rings):
        """Raise if there is no such query."""
        if not isinstance(name, str) or name not in QUERIES:
            raise InvalidInputError(f"name must be one of {', '.join(QUERIES)}, got {name!r}")
        if not self._has_faces and (name not in OF_PATTERN or as_flag(oriented, "oriented")):
            what = f"query {name!r}" if name not in OF_PATTERN else "oriented=True"
            raise InvalidInputError(f"{what} needs faces, which a pattern does not have: use VV, VE, EV or EE")
        if as_flag(oriented, "oriented") and name not in ("VV", "VE"):
            raise InvalidInputError(f"oriented=True is for the queries VV and VE, got {name!r}")
        if as_integer(rings, "rings") > 1 and (name != "VV" or oriented):
            raise InvalidInputError(f"rings={rings} is for the query VV without oriented=True, got {name!r}"
                                    + (" with oriented=True" if oriented else ""))

    def _view(self):
        """Return the arrays that queries read, in the order of `View` in patches.hpp."""
        spans = [array for kind in (self._vertices, self._edges, self._faces) for array in (kind.ptr, kind.owned_ptr, kind.ltog)]
        return [*spans, self._ev.reshape(-1), self._fe.reshape(-1), self._heavy_vertices, self._heavy_edges]


@dataclass(frozen=True, eq=False)
class _Elements:
    """The vertices, edges or faces of all patches: `Elements` in patches.hpp."""

    patch: np.ndarray               # (elements,) int32 owner
    ptr: np.ndarray                 # (patches + 1,) int64 into ltog
    owned_ptr: np.ndarray           # (patches + 1,) int64 prefix sums of the owned elements
    ltog: np.ndarray                # int32
    owner_patch: np.ndarray         # int32, of ribbon elements only
    owner_local: np.ndarray         # uint16, of ribbon elements only

    def num_owned(self, p):
        return int(self.owned_ptr[p + 1] - self.owned_ptr[p])

    def of(self, p):
        """Return (ltog, owner_patch, owner_local) of patch p."""
        ribbon = slice(self.ptr[p] - self.owned_ptr[p], self.ptr[p + 1] - self.owned_ptr[p + 1])
        return self.ltog[self.ptr[p]:self.ptr[p + 1]], self.owner_patch[ribbon], self.owner_local[ribbon]


def _countable(G):
    """Return the pattern G if its edges can be numbered in int32."""
    if G.nnz // 2 > INT32_MAX:
        raise InvalidInputError(f"A has {counted(G.nnz // 2, 'edge')}; at most {INT32_MAX} are supported")
    return G


def _frozen(array):
    if isinstance(array, np.ndarray):                   # CuPy has no such flag
        array.flags.writeable = False
    return array
