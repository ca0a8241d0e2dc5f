"""ParAC: a randomized approximate Cholesky factor of a graph Laplacian, a preconditioner for conjugate gradients.

    P = parac(L);  x, info = cg(L, b, M=P)          # P.G diag(P.D) P.G^T is L[perm][:, perm] in expectation

Source: Liang et al. 2025, "ParAC"; Gao, Kyng, Spielman 2023, "Robust and practical solution of Laplacian equations by
approximate elimination". The driver reads in this order: the graph of the matrix, choices, factorization.
"""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device, order
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotLaplacianError
from meshsolve.factor.base import Preconditioner
from meshsolve.factor.parac import graph_cuda, inverse_cuda
from meshsolve.memory import PER_ROW, ensure_memory
from meshsolve.options import as_integer, as_seed, counted, is_auto, one_of, storage_type, thread_count
from meshsolve.order.methods import names
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.lists_cuda import rows_of
from meshsolve.sparse.matrix import Csr, as_symmetric, narrow_ptr
from meshsolve.sparse.places import PLACES, on_device, place_for
from meshsolve.sparse.rows import components
from meshsolve.types import Array, Sparse

MOST_POSITIVE = 0.4                     # share of positive off-diagonal entries above which a graph is a poor model of the matrix
ROUNDED = 1e-5                          # row sum below 0, relative to the absolute values, that rounding to float32 explains
ZERO = 5e-11                            # the same for float64: half of `rounding` in graph.cpp, which may sum in another order
MOST_SHORT = 0.25                       # largest share of rows whose sums are lower, and of the positive entries that these may lack
HUB_DEGREE = 12                         # mean entries per row, diagonal included, from which the graph is searched for hubs
BYTES_PER_ENTRY = 90                    # memory per entry of the matrix for graph, lists and factor, measured on meshes and grids


class ParacFactor(Preconditioner):
    """G and D with ``G @ diag(D) @ G.T`` = ``L[perm][:, perm]`` in expectation; ``P @ r`` applies its (pseudo-)inverse.

    Made by :func:`meshsolve.parac`. A symmetric positive (semi)definite operator, and the preconditioner ``M=`` of
    :func:`meshsolve.cg` and of scipy's ``cg``. On a connected component on which L is singular, results are 0 at the vertex that was
    eliminated last; :meth:`project` makes them mean-free.

    Attributes
    ----------
    perm : (n,) int32
        ``perm[k]`` is the row of L that was eliminated k-th.
    D : (n,) float64
        Pivots; 0 for the last vertex of a component without excess diagonal.
    nnz : int
        Nonzeros of G, diagonal included.
    samples : int
        Copies of each edge.
    null_components : int
        Connected components on which L is singular.
    on_device : bool
        True: the factor lies on the GPU. Right-hand sides may lie on the host or on the GPU; ``G``, ``D`` and ``perm`` are numpy arrays.
    report : Report
        Seconds per phase (``order``, ``numeric``, ``solve``), sizes, bytes, and what was chosen.
    """

    def __init__(self, core, n, report, threads, samples, dtype, on_device=False, by_levels=False):
        self._core, self.report, self.threads, self.samples, self.on_device = core, report, threads, samples, on_device
        self._by_levels = by_levels                         # numbering of the rows in the solves
        super().__init__(n, np.float64)
        self.storage = np.dtype(dtype)

    def __getstate__(self):
        """G itself, because the factor cannot be made again without its matrix."""
        core, state = self._core, super().__getstate__()
        for view in ("D", "perm"):                          # made on demand
            state.pop(view, None)
        if self.on_device:
            return state
        return state | {"_core": (*core.columns(), core.pivots(), core.perm(), core.rounds, self._by_levels)}

    def __setstate__(self, state):
        super().__setstate__(state)
        if not self.on_device:
            self._core = _host_core(self.storage).restore(*self._core)

    @functools.cached_property
    def D(self) -> np.ndarray:
        return read_only(self._core.pivots())

    @functools.cached_property
    def perm(self) -> np.ndarray:
        return read_only(self._core.perm())

    @property
    def nnz(self) -> int:
        return self._core.nnz + self.shape[0]

    @property
    def null_components(self) -> int:
        return self._core.null_components

    @property
    def connected(self) -> bool:
        """True if the null space of L consists of the constant vectors."""
        return self._core.connected

    @property
    def G(self) -> Sparse:
        """The unit lower triangular factor as an (n, n) csc_array with sorted rows, made at each call."""
        n = self.shape[0]
        indptr, rows, values = self._core.columns()
        with_diagonal = indptr + np.arange(n + 1)
        at = with_diagonal[:-1]
        indices, data = np.empty(self.nnz, np.int32), np.ones(self.nnz, self.storage)
        below = np.ones(self.nnz, bool)
        below[at] = False
        indices[at], indices[below], data[below] = np.arange(n), rows, -values
        G = sp.csc_array((data, indices, narrow_ptr(with_diagonal)), shape=(n, n))
        G.sort_indices()
        return G

    def apply_columns(self, columns: Array, out: Array | None = None) -> Array:
        """Apply the inverse to ``columns``, an (n, k) float64 array of any strides; the result is C contiguous, or ``out``."""
        out = np.empty(columns.shape) if out is None else out
        with self.report.phase("solve"):
            self._core.apply(columns, out, self.threads)
        return out

    def positions(self) -> np.ndarray:
        """The row of L at each position of the solves, (n,) int32."""
        return self._core.positions()

    def apply_inside(self, columns: Array, out: Array) -> Array:
        """Apply the inverse to ``columns`` and write the result to ``out``, both (n, k) with rows in the order of :meth:`positions`."""
        with self.report.phase("solve"):
            self._core.apply_inside(columns.reshape(-1), out.reshape(-1), columns.shape[1], self.threads)
        return out

    def apply_on_device(self, block: Array) -> Array:
        """Apply the inverse to an (n, k) float64 block on the GPU; a new block, C contiguous. Does not wait for the GPU."""
        return self._core.apply_device(block)

    def check_device(self) -> None:
        """Wait for the GPU, and raise if a solve on it has failed."""
        self._core.check()

    def project_on_device(self, block: Array) -> Array:
        """Subtract the means of the null components from a block on the GPU; a new block."""
        return self._core.project_device(block)

    def project(self, block: Array) -> None:
        """Subtract the means of the null components from a C contiguous (n, k) block, in place."""
        self._core.project(block.reshape(-1), block.shape[1])


def parac(L, ordering="auto", samples="auto", rhs=1, seed=0, dtype=np.float64, threads=None, device_name="cpu"):
    """Factor a Laplacian or diagonally dominant matrix approximately; see :func:`meshsolve.parac`."""
    rhs, seed, threads = as_integer(rhs, "rhs"), as_seed(seed), thread_count(threads)
    if not is_auto(samples):
        samples = as_integer(samples, "samples", 1, 1000)
    dtype = storage_type(dtype)
    given = BACKENDS["cpu" if isinstance(L, Csr) or not on_device(L) else place_for(device_name, L)]
    M = given.symmetric(L, threads)
    backend = given if given is CUDA else BACKENDS[place_for(device_name, L, size=M.n)]
    given.ensure_memory(M)
    report = Report(threads=threads, nnz_A=M.nnz, device=backend.place.name)
    with report.phase("numeric"):
        graph = _graph(M, given, threads, edges=backend is CUDA or _may_be_rounds(ordering))
    ordering = _choose_ordering(ordering, graph, M)
    samples = _choose_samples(samples, M, rhs)
    _require_countable(samples * (graph.max_degree + graph.grounded))
    perm = None
    if isinstance(ordering, str) and ordering == "rounds":
        with report.phase("numeric"):
            backend.renumber(graph)
    else:
        pattern = Csr(M.n, *map(device.to_host, (M.indptr, M.indices)), diagonal=True)
        chosen = order.resolve(ordering, pattern, seed=seed, threads=threads, bounded=True, factor="parac")
        own = {name: report.facts[name] for name in ("threads", "device")}              # those of the ordering may differ
        report.merge(chosen.report)
        report.facts.update(own)
        perm, ordering = np.ascontiguousarray(device.to_host(chosen.perm), np.int32), chosen.method
    by_levels = ordering in ("nnz_sort", "random")
    with report.phase("numeric"):
        core = backend.core(graph, perm, by_levels, samples, seed, dtype, threads)
    report.facts.update(nnz_L=core.nnz + M.n, bytes=core.nbytes, ordering=ordering, samples=samples, floored=graph.floored)
    if core.rounds and perm is None:
        report.facts["rounds"] = core.rounds
    if backend is HOST:
        report.facts["visits"] = report.facts.get("visits", 0) + core.visits
    return ParacFactor(core, M.n, report, threads, samples, dtype, backend is CUDA, by_levels)


class HostBackend:
    """Graphs and factors on the host."""

    place = PLACES["cpu"]

    def symmetric(self, L, threads):
        """L as a symmetric :class:`Csr`."""
        return L if isinstance(L, Csr) else as_symmetric(L, "L", threads=threads, per_row=PER_ROW["parac"])

    def ensure_memory(self, M):
        """Raise OutOfMemoryError if there is not enough memory for graph and factor."""
        ensure_memory(BYTES_PER_ENTRY * M.nnz, "the factor")

    def graph(self, M, threads, edges):
        return _core.ParacGraph(M.indptr, M.indices, M.data, threads, edges)

    def renumber(self, graph):
        """Number the vertices in breadth-first order if they are scattered; the core does so by itself."""

    def core(self, graph, perm, by_levels, samples, seed, dtype, threads):
        """The factor in the order ``perm``, or by rounds without one."""
        return _host_core(dtype)(graph, perm, by_levels, samples, seed, threads)

    def rows(self, M):
        """The row of each entry."""
        return np.repeat(np.arange(M.n), np.diff(M.indptr))


class CudaBackend(HostBackend):
    """Graphs and factors on the GPU. Its cores also take graphs of the host."""

    place = PLACES["cuda"]

    def symmetric(self, L, threads):
        return graph_cuda.symmetric(L)

    def ensure_memory(self, M):
        """The memory of the GPU is checked when it is allocated."""

    def graph(self, M, threads, edges):
        with device.errors("the graph"):
            return graph_cuda.Graph(M)

    def renumber(self, graph):
        graph.gather_neighbors()

    def core(self, graph, perm, by_levels, samples, seed, dtype, threads):
        return inverse_cuda.Inverse(graph, perm, samples, seed, dtype)

    def rows(self, M):
        return rows_of(M.indptr, M.nnz)


HOST, CUDA = HostBackend(), CudaBackend()
BACKENDS = {"cpu": HOST, "cuda": CUDA}


def graph_kind(M, threads=1):
    """The kind of graph of a symmetric :class:`Csr`.

    Returns
    -------
    str
        "": no graph, or entries would be raised to a floor. "hubs": dense, with vertices of many neighbors. "singular": a Laplacian
        without excess diagonal. "regular": any other.
    """
    graph = _core.ParacGraph(M.indptr, M.indices, M.data, threads, edges=False, floor=False)
    if graph.bad_row >= 0 or graph.floored or graph.nnz == 0:
        return ""
    return "hubs" if _has_hubs(graph, M) else "regular" if graph.grounded else "singular"


def _host_core(dtype):
    return _core.ParacDouble if dtype == np.float64 else _core.ParacSingle


def _has_hubs(graph, M):
    mean = M.nnz / M.n
    return mean > HUB_DEGREE and graph.max_degree > 8 * mean


def _may_be_rounds(ordering):
    return isinstance(ordering, str) and ordering in ("auto", "rounds")


def _graph(M, backend, threads, edges):
    """The graph of M, a matrix of the backend. Raises NotLaplacianError if a graph is no model of M."""
    graph, short = backend.graph(M, threads, edges), 0
    if graph.bad_row >= 0:
        M, short = _raised(M, graph, backend, threads)
        graph = backend.graph(M, threads, edges)
    if graph.floored or short:
        _check_positive(M, graph, backend, short)
    return graph


def _raised(M, graph, backend, threads):
    """M with larger diagonal entries in rows whose sums are negative, so that these become 0, and the number of these rows.

    A Laplacian loses rows if vertices are fixed. The sum of a row is then negative if the coupling to a fixed neighbor was positive. The
    factor is that of a nearby matrix. ``graph`` is that of M, with its first such row.

    Raises
    ------
    NotLaplacianError
        :func:`_first_that_is_no_remnant` finds a row.
    """
    A = Csr(M.n, *map(device.to_host, (M.indptr, M.indices, M.data)))
    sums, sizes = A.row_sums(threads)
    short, row = sums < -ZERO * sizes, np.repeat(np.arange(A.n), np.diff(A.indptr))
    bad = _first_that_is_no_remnant(A, row, sums, sizes, short) if short[graph.bad_row] else graph.bad_row     # its sum may be NaN
    if bad >= 0:
        raise _no_laplacian(bad, float(sums[bad]), float(sizes[bad]))
    data = A.data.copy()
    data[(A.indices == row) & short[row]] -= sums[short]
    return Csr(A.n, *map(backend.place.bring, (A.indptr, A.indices, data))), int(short.sum())


def _first_that_is_no_remnant(A, row, sums, sizes, short):
    """The first of the ``short`` rows that shows that A is no Laplacian with rows removed, or -1.

    Three conditions hold for such a remnant. Its diagonal is positive. In each component the positive row sums exceed the negative ones:
    otherwise x^T A x is not positive for the vector of ones. And A has more positive entries, and more rows with sums of at least 0,
    than it lost. A shifted matrix, such as Helmholtz's, has negative sums everywhere. Meshes lose up to a tenth of their positive entries,
    in up to a tenth of the rows.
    """
    count, component = components(A)
    excess, lack = (np.bincount(component, np.where(rows, sums, 0.0), count) for rows in (sums > ROUNDED * sizes, short))
    off = short & ((A.diagonal_values() <= 0) | (excess + lack <= 0)[component])
    if not off.any():
        beyond = short & (-sums > ROUNDED * sizes)
        positive = A.data[(A.data > 0) & (A.indices != row)].sum()
        off = beyond & (-sums[beyond].sum() > MOST_SHORT * positive or beyond.mean() > MOST_SHORT)
    return int(off.argmax()) if off.any() else -1


def _no_laplacian(row, total, size):
    """The error for a row with a negative sum."""
    remedy = ("This looks like rounding to float32: compute the diagonal again in float64, as minus the sum of the other entries"
              if -total < ROUNDED * size else "For other symmetric matrices use cholesky or ildl")
    return NotLaplacianError(
        f"row {row} of L sums to {total:.3g}. Rows sum to 0 in a Laplacian, and to more in a diagonally dominant matrix. {remedy}", row)


def _check_positive(M, graph, backend, short):
    """Warn about positive off-diagonal entries, and about rows with negative sums; raise if most entries are positive."""
    rows = backend.rows(M)
    outside = M.indices != rows                             # a row may have no diagonal entry
    entries = int(outside.sum())
    if graph.floored > MOST_POSITIVE * max(entries, 1):
        row = int(rows[(outside & (M.data > 0)).argmax()])
        raise NotLaplacianError(
            f"{graph.floored} of {entries} off-diagonal entries of L are positive, the first in row {row}: L is not a graph Laplacian, not "
            f"even nearly. {_without_positive(M.data[~outside])}", row)
    found = []
    if graph.floored:
        found.append(f"{graph.floored} of {entries} off-diagonal entries of L are positive (negative weights); elimination replaces what "
                     "is left of them by a small positive weight")
    if short:
        found.append(f"{counted(short, 'row')} of L {'sums' if short == 1 else 'sum'} to less than 0, as if rows with positive entries had "
                     "been removed; the factor treats these sums as 0")
    warn("; ".join([*found, "cg still solves with L itself"]), MeshsolveWarning)


def _without_positive(diagonal):
    """Advice for a matrix with positive off-diagonal entries."""
    if not diagonal.any():
        return 'Its diagonal is zero: for an adjacency matrix W use ms.graph_laplacian(W, weights="values")'
    if (diagonal <= 0).all():               # libigl's cotmatrix
        return "Its diagonal is negative: use -L if that is a Laplacian"
    return "Use cholesky or ildl"


def _choose_ordering(ordering, graph, M):
    """The ordering for this graph. Raises for a random order of a graph with hubs, whose factor would be useless."""
    if not isinstance(ordering, str):
        return ordering
    one_of(ordering, "ordering", ["rounds", *names("parac")])
    if ordering == "auto":
        return "nnz_sort" if _has_hubs(graph, M) else "rounds"
    if ordering == "random":
        if graph.max_degree > 10 * np.sqrt(M.n):
            raise InvalidInputError(
                f'ordering="random" makes a useless factor of a graph with a vertex of {graph.max_degree} neighbors. '
                'Use ordering="nnz_sort" or "auto"')
        warn('a random order costs iterations. ordering="auto" is better on every graph', MeshsolveWarning)
    return ordering


def _require_countable(copies):
    """Raise if a vertex has more copies of edges than int32 can count."""
    if copies > np.iinfo(np.int32).max:
        raise InvalidInputError(f"a vertex of L has {copies:,} copies of edges; at most {2**31 - 1:,} are supported. Use fewer samples")


def _choose_samples(samples, M, rhs):
    """More copies pay if edges are few, because the factor hardly grows, or if many solves follow."""
    if not is_auto(samples):
        return samples
    return 3 if M.nnz <= 3.5 * M.n else 2 if rhs >= 4 else 1
