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
from meshsolve.memory import PER_ROW, ensure_memory
from meshsolve.options import as_integer, as_seed, counted, is_auto, one_of, storage_type, thread_count
from meshsolve.order.methods import names
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.constraints import components
from meshsolve.sparse.lists_cuda import rows_of
from meshsolve.sparse.matrix import Csr, as_symmetric, narrow_ptr
from meshsolve.sparse.places import on_device as lies_there
from meshsolve.sparse.places import place_for
from meshsolve.types import Array, Sparse

MOST_POSITIVE = 0.4                     # share of positive off-diagonal entries above which the graph says little of the matrix
ROUNDED = 1e-5                          # of the moduli of a row: a sum that falls short of 0 by less is one of numbers in float32
ZERO = 5e-11                            # of the same: half of `rounding` in graph.cpp, which may add a row up in another order
MOST_SHORT = 0.25                       # share of rows that may fall short by more, and of the positive entries what these may lack
HUB_DEGREE = 12                         # mean entries a row, diagonal included, from which hubs are looked for
BYTES_PER_ENTRY = 90                    # of the matrix: graph, lists and factor, as measured on meshes and grids


class ParacFactor(Preconditioner):
    """G and D with ``G @ diag(D) @ G.T`` = ``L[perm][:, perm]`` in expectation; ``P @ r`` applies its (pseudo-)inverse.

    Made by :func:`meshsolve.parac`. A symmetric positive (semi)definite operator, the preconditioner ``M=`` of
    :func:`meshsolve.cg` and of scipy's ``cg``. Where L is singular on a connected component, results are 0 at the vertex of the
    component that was eliminated last; :meth:`project` makes them mean-free.

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
        It was made on the GPU and lies there. Right-hand sides there are solved for there; ``G``, ``D`` and ``perm`` are numpy's.
    report : Report
        Seconds per phase (``order``, ``numeric``, ``solve``), sizes, bytes, and what was chosen.
    """

    def __init__(self, core, n, report, threads, samples, dtype, on_device=False, by_levels=False):
        self._core, self.report, self.threads, self.samples, self.on_device = core, report, threads, samples, on_device
        self._by_levels = by_levels                         # how the solves number its rows
        super().__init__(n, np.float64)
        self.storage = np.dtype(dtype)

    def __getstate__(self):
        """G as it is: a factor in a random order cannot be had again without its matrix."""
        core, state = self._core, super().__getstate__()
        for view in ("D", "perm"):                          # made when they are asked for
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
        """Whether L takes the constants of all rows to 0 and nothing else."""
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
        """The inverse applied to ``columns``, an (n, k) float64 array of any strides; the result is C contiguous or ``out``."""
        out = np.empty(columns.shape) if out is None else out
        with self.report.phase("solve"):
            self._core.apply(columns, out, self.threads)
        return out

    def places(self) -> np.ndarray:
        """The row of L that each row of the solves stands for, (n,) int32."""
        return self._core.places()

    def apply_inside(self, columns: Array, out: Array) -> Array:
        """:meth:`apply_columns` of ``columns`` to ``out``, with rows in the order of :meth:`places`: what lies anywhere in memory
        otherwise is near."""
        with self.report.phase("solve"):
            self._core.apply_inside(columns.reshape(-1), out.reshape(-1), columns.shape[1], self.threads)
        return out

    def apply_on_device(self, block: Array) -> Array:
        """The inverse applied to an (n, k) float64 block on the GPU; a new block, C contiguous. Waits for nothing."""
        return self._core.apply_device(block)

    def check_device(self) -> None:
        """Raise where a solve on the GPU has given up; waits for it."""
        self._core.check()

    def project_on_device(self, block: Array) -> Array:
        """A block on the GPU without the means of the null components."""
        return self._core.project_device(block)

    def project(self, block: Array) -> None:
        """Take the means of the null components out of a C contiguous (n, k) block, in place."""
        self._core.project(block.reshape(-1), block.shape[1])


def parac(L, ordering="auto", samples="auto", rhs=1, seed=0, dtype=np.float64, threads=None, device_name="cpu"):
    """The factor of a Laplacian or diagonally dominant matrix; see :func:`meshsolve.parac`."""
    rhs, seed, threads = as_integer(rhs, "rhs"), as_seed(seed), thread_count(threads)
    if not is_auto(samples):
        samples = as_integer(samples, "samples", 1, 1000)
    dtype = storage_type(dtype)
    there = not isinstance(L, Csr) and lies_there(L) and place_for(device_name, L) == "cuda"
    M = _taken(L, there, threads)
    on_device = there or place_for(device_name, L, size=M.n) == "cuda"
    if not there:
        ensure_memory(BYTES_PER_ENTRY * M.nnz, "the factor")
    report = Report(threads=threads, nnz_A=M.nnz, device="cuda" if on_device else "cpu")
    with report.phase("numeric"):
        graph = _graph(M, there, threads, edges=on_device or _may_be_rounds(ordering))
    ordering = _choose_ordering(ordering, graph, M)
    samples = _choose_samples(samples, M, rhs)
    _require_countable(samples * (graph.max_degree + graph.grounded))
    perm = None
    if isinstance(ordering, str) and ordering == "rounds":
        if on_device:
            with report.phase("numeric"):
                graph.gather_neighbours()
    else:
        pattern = Csr(M.n, *map(device.to_host, (M.indptr, M.indices)), diagonal=True)
        chosen = order.resolve(ordering, pattern, seed=seed, threads=threads, bounded=True, factor="parac")
        place = {name: report.facts[name] for name in ("threads", "device")}           # an order may be made elsewhere
        report.merge(chosen.report)
        report.facts.update(place)
        perm, ordering = np.ascontiguousarray(device.to_host(chosen.perm), np.int32), chosen.method
    by_levels = ordering in ("nnz_sort", "random")
    with report.phase("numeric"):
        core = (_device_core(graph, perm, samples, seed, dtype) if on_device else
                _host_core(dtype)(graph, perm, by_levels, samples, seed, threads))
    report.facts.update(nnz_L=core.nnz + M.n, bytes=core.nbytes, ordering=ordering, samples=samples, floored=graph.floored)
    if core.rounds and perm is None:
        report.facts["rounds"] = core.rounds
    if not on_device:
        report.facts["visits"] = report.facts.get("visits", 0) + core.visits
    return ParacFactor(core, M.n, report, threads, samples, dtype, on_device, by_levels)


def _host_core(dtype):
    return _core.ParacDouble if dtype == np.float64 else _core.ParacSingle


def _device_core(graph, perm, samples, seed, dtype):
    from meshsolve.factor.parac import inverse_cuda

    return inverse_cuda.Inverse(graph, perm, samples, seed, dtype)


def graph_kind(M, threads=1):
    """What the graph of a symmetric :class:`Csr` is like: "" (it has none, or entries would be floored), "hubs" (dense, with
    vertices of many neighbours), "singular" (a Laplacian, no excess diagonal anywhere) or "regular"."""
    graph = _core.ParacGraph(M.indptr, M.indices, M.data, threads, edges=False, floor=False)
    if graph.bad_row >= 0 or graph.floored or graph.nnz == 0:
        return ""
    return "hubs" if _has_hubs(graph, M) else "regular" if graph.grounded else "singular"


def _has_hubs(graph, M):
    mean = M.nnz / M.n
    return mean > HUB_DEGREE and graph.max_degree > 8 * mean


def _may_be_rounds(ordering):
    return isinstance(ordering, str) and ordering in ("auto", "rounds")


def _taken(L, there, threads):
    """L as a symmetric :class:`Csr` where it lies."""
    if there:
        return _graph_cuda().symmetric(L)
    return L if isinstance(L, Csr) else as_symmetric(L, "L", threads=threads, per_row=PER_ROW["parac"])


def _graph(M, there, threads, edges):
    """The graph of M, which lies on the GPU or not; one that the factor of a graph cannot stand for is refused."""
    graph, short = _graph_of(M, there, threads, edges), 0
    if graph.bad_row >= 0:
        M, short = _lifted(M, graph, there, threads)
        graph = _graph_of(M, there, threads, edges)
    if graph.floored or short:
        _judge_positive(M, graph, there, short)
    return graph


def _graph_of(M, there, threads, edges):
    if not there:
        return _core.ParacGraph(M.indptr, M.indices, M.data, threads, edges)
    with device.errors("the graph"):
        return _graph_cuda().Graph(M)


def _graph_cuda():
    from meshsolve.factor.parac import graph_cuda

    return graph_cuda


def _lifted(M, graph, there, threads):
    """M with larger diagonal entries where rows sum to less than 0, so that these sum to 0, and how many rows they are.

    A Laplacian loses rows where vertices are held. A neighbour whose entry was positive leaves a sum below 0 then: the factor is that of
    a matrix nearby. ``graph`` is M's, with its first such row.

    Raises
    ------
    NotLaplacianError
        Where :func:`_out_of_reach` finds a row.
    """
    A = Csr(M.n, *map(device.to_host, (M.indptr, M.indices, M.data))) if there else M
    sums, moduli = A.row_sums(threads)
    short, row = sums < -ZERO * moduli, np.repeat(np.arange(A.n), np.diff(A.indptr))
    bad = _out_of_reach(A, row, sums, moduli, short) if short[graph.bad_row] else graph.bad_row     # or its sum is no number
    if bad >= 0:
        raise _no_laplacian(bad, float(sums[bad]), float(moduli[bad]))
    data = A.data.copy()
    data[(A.indices == row) & short[row]] -= sums[short]
    lifted = A.indptr, A.indices, data
    return Csr(A.n, *(map(device.to_device, lifted) if there else lifted)), int(short.sum())


def _out_of_reach(A, row, sums, moduli, short):
    """The first of the ``short`` rows without which A could be a Laplacian that lost rows, or -1 where it is one with them.

    A row needs a positive diagonal. A component needs more excess than lack: else x^T A x is not positive for its ones, and it would be
    singular without its lack. And A must have kept more positive entries, and more rows as they were, than it lost; a matrix that was
    shifted, as Helmholtz's, falls short everywhere. Meshes lack up to a tenth of their positive entries, in up to a tenth of the rows.
    """
    count, component = components(A)
    excess, lack = (np.bincount(component, np.where(rows, sums, 0.0), count) for rows in (sums > ROUNDED * moduli, short))
    off = short & ((A.diagonal_values() <= 0) | (excess + lack <= 0)[component])
    if not off.any():
        beyond = short & (-sums > ROUNDED * moduli)
        positive = A.data[(A.data > 0) & (A.indices != row)].sum()
        off = beyond & (-sums[beyond].sum() > MOST_SHORT * positive or beyond.mean() > MOST_SHORT)
    return int(off.argmax()) if off.any() else -1


def _no_laplacian(row, total, moduli):
    """The error for a row with a negative sum."""
    remedy = ("This looks like the rounding of float32: make the diagonal anew in float64, minus the sum of the other entries"
              if -total < ROUNDED * moduli else "For other symmetric matrices use cholesky or ildl")
    return NotLaplacianError(
        f"row {row} of L sums to {total:.3g}: in a Laplacian rows sum to 0, in a diagonally dominant matrix to more. {remedy}", row)


def _judge_positive(M, graph, there, short):
    """Positive entries off the diagonal are told, and how many rows fell short of 0; or refused where they are many."""
    rows = rows_of(M.indptr, M.nnz) if there else np.repeat(np.arange(M.n), np.diff(M.indptr))
    aside = M.indices != rows                               # a row may have no entry on the diagonal
    entries = int(aside.sum())
    if graph.floored > MOST_POSITIVE * max(entries, 1):
        row = int(rows[(aside & (M.data > 0)).argmax()])
        raise NotLaplacianError(
            f"{graph.floored} of {entries} off-diagonal entries of L are positive, the first in row {row}: a graph cannot stand "
            f"for this matrix. {_without_positive(M.data[~aside])}", row)
    told = []
    if graph.floored:
        told.append(f"{graph.floored} of {entries} off-diagonal entries of L are positive (negative weights): the factor replaces what its "
                    "elimination leaves of them by a small weight")
    if short:
        told.append(f"{counted(short, 'row')} of L {'sums' if short == 1 else 'sum'} to less than 0, as where a positive entry was left "
                    f"out with its column: the factor takes the "
                    "sums for 0")
    warn("; ".join([*told, "cg still solves with L itself"]), MeshsolveWarning)


def _without_positive(diagonal):
    """What to do about a matrix that is no Laplacian since its entries off the diagonal are positive."""
    if not diagonal.any():
        return 'Its diagonal is zero: of an adjacency matrix W, take ms.graph_laplacian(W, weights="values")'
    if (diagonal <= 0).all():               # libigl's cotmatrix
        return "Its diagonal is negative: take -L, if that is a Laplacian"
    return "Use cholesky or ildl"


def _choose_ordering(ordering, graph, M):
    """What ``"auto"`` means for this graph; a random order is refused where a hub would spoil it."""
    if not isinstance(ordering, str):
        return ordering
    one_of(ordering, "ordering", ["rounds", *names("parac")])
    if ordering == "auto":
        return "nnz_sort" if _has_hubs(graph, M) else "rounds"
    if ordering == "random":
        if graph.max_degree > 10 * np.sqrt(M.n):
            raise InvalidInputError(
                f"a random order of a graph with a vertex of {graph.max_degree} neighbours gives a factor of no use: "
                'take ordering="nnz_sort" or "auto"')
        warn('a random order costs iterations: ordering="auto" is better on every graph', MeshsolveWarning)
    return ordering


def _require_countable(copies):
    """The copies of a vertex's edges are counted in int32, on every device."""
    if copies > np.iinfo(np.int32).max:
        raise InvalidInputError(f"a vertex of L has {copies:,} copies of edges, more than can be counted: take fewer samples")


def _choose_samples(samples, M, rhs):
    """More copies pay where edges are few, as the factor hardly grows, and where many solves follow."""
    if not is_auto(samples):
        return samples
    return 3 if M.nnz <= 3.5 * M.n else 2 if rhs >= 4 else 1
