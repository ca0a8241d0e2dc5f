"""Effective resistances between vertices of a graph, each edge a resistor of 1 / weight: exact, or estimated by projections.

R(i, j) = (e_i - e_j)^T L^+ (e_i - e_j). Three ways, from the same Laplacian L:

- selected inverse: all edges from the entries of L^+ on the pattern of L, which cost about two factorizations;
- solves: one for each pair, or for each vertex of one side together with the diagonal of L^+;
- projections (Spielman and Srivastava 2011, "Graph sparsification by effective resistances", section 4): with B the edges, W the
  weights and random signs Q, R(i, j) is about ||Z_i - Z_j||^2 for L Z = B^T W^1/2 Q / sqrt(k), with a standard error of sqrt(2 / k).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.api.definite import cholesky
from meshsolve.api.factors import parac
from meshsolve.apps.graphs import components_of
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, NotLaplacianError, OutOfMemoryError
from meshsolve.krylov import cg
from meshsolve.mesh import MeshLike, is_mesh
from meshsolve.operators import graph_laplacian
from meshsolve.options import as_number, as_seed, counted, one_of, thread_count
from meshsolve.report import Report, warn, without_warnings
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.constraints import Pinned
from meshsolve.sparse.graphs import is_graph
from meshsolve.sparse.matrix import as_symmetric
from meshsolve.types import ArrayLike, Matrix

METHODS = ("auto", "exact", "estimate")
INVERSE = 2                     # operations of the entries of the inverse, relative to the factorization
WIDTH = 32                      # columns that are solved at once
RTOL = 1e-4                     # relative residual of a projection, far below its random error
LOST = 1e-3                     # share of the entries of the inverse below which a resistance is computed again: it has lost three digits
REPEATED = 10                   # most operations of such repetitions, relative to those of the factor and its inverse
PAIR_RTOL = 1e-10               # relative residual of the solve for one pair


def effective_resistances(L: MeshLike | Matrix, pairs: ArrayLike | None = None, *, method: str = "auto", error: float = 0.05, seed: int = 0,
                          threads: int | None = None) -> tuple[np.ndarray, Report]:
    """Effective resistances between pairs of vertices, or of all edges: 1 / weight for a bridge, less with every detour.

    Parameters
    ----------
    L : (n, n) Laplacian of any kind, graph of networkx or igraph, list of edges, or Mesh
        A matrix must be a Laplacian: :func:`meshsolve.graph_laplacian` makes it of weights W with ``weights="values"``.
    pairs : (k, 2) integers, optional
        Default: all edges, in the order of the ends i < j of ``scipy.sparse.triu(L, 1).tocoo()`` of a sorted csr L.
    method : {"auto", "exact", "estimate"}
        ``"exact"`` computes a complete factor of L. ``"estimate"`` iterates with :func:`meshsolve.parac`. ``"auto"`` estimates if the
        factor does not fit into memory, with a warning.
    error : float
        Relative standard error of an estimate, at most 1: 2 / error^2 right-hand sides. Fewer pairs than that are solved one by one, to
        a relative residual of 1e-10.
    seed, threads : int, optional

    Returns
    -------
    resistances : (k,) float64
        0 from a vertex to itself, infinite between components.
    report : Report
        ``facts["method"]`` is ``"selected inverse"``, ``"solves"``, ``"iterations"`` or ``"projections"``, ``facts["standard_error"]``
        the relative standard error, 0 unless projections were used.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        ``pairs`` has another shape or a vertex out of range; a bad option; L as :func:`meshsolve.graph_laplacian`.
    NotLaplacianError (``.row``), NotPositiveDefiniteError
        A row of L does not sum to 0, or an estimate meets an edge of negative weight; negative weights make L indefinite.
    OutOfMemoryError, MeshsolveError
        The factor does not fit into memory, and ``method="exact"``; the iterations do not converge.

    Warns
    -----
    MeshsolveWarning
        The factor does not fit into memory, and the resistances are estimated.

    Notes
    -----
    Exact: one factorization, and the cheaper by counted operations of two more for all edges and a solve for each pair. Sources: see
    :mod:`meshsolve.apps.graphs.resistances`.

    Examples
    --------
    >>> import meshsolve as ms
    >>> r, report = ms.apps.effective_resistances([(0, 1), (1, 2), (2, 0), (2, 3)], [(0, 1), (0, 3)])
    >>> r.round(3).tolist()
    [0.667, 1.667]
    """
    one_of(method, "method", METHODS)
    error, seed, threads = _checked_error(error), as_seed(seed), thread_count(threads)
    task = Resistances(_checked_laplacian(L, threads), pairs, threads)
    return task.estimated(error, seed) if method == "estimate" else _exact_if_possible(task, method, error, seed)


class Resistances:
    """The distinct pairs of vertices of a Laplacian in one component, and the ways to their resistances.

    Parameters
    ----------
    L : (n, n) csr_array
    pairs : (k, 2) integers, or None for all edges
    threads : int
    """

    def __init__(self, L, pairs, threads):
        self.L, self.threads, self.report = L, threads, Report(threads=threads, nnz_A=L.nnz)
        upper = sp.triu(L, 1, format="csr").tocoo()
        self.edges, self.weights = np.stack([upper.row, upper.col], axis=1), -upper.data
        count, self.component = components_of(L)
        self.size = np.bincount(self.component, minlength=count)
        self.pairs = self.edges if pairs is None else _checked_pairs(pairs, L.shape[0])
        i, j = self.pairs.T
        self.joined = (self.component[i] == self.component[j]) & (i != j)
        self.i, self.j = i[self.joined], j[self.joined]

    def delivered(self, method, error, found):
        """(resistances of all pairs, report) from those of the pairs with a resistance."""
        resistances = np.where(self.pairs[:, 0] == self.pairs[:, 1], 0.0, np.inf)
        resistances[self.joined] = found
        self.report.facts |= {"method": method, "standard_error": error}
        return resistances, self.report

    def exact(self):
        """From a complete factor, by the way that takes fewer operations."""
        F = cholesky(self.L, pin=True, threads=self.threads, device="cpu")
        self.report.merge(F.report)
        i, j = self.i, self.j
        solve, inverse = 4 * F.nnz, INVERSE * F.flops
        on_edges = bool((self._position() >= 0).all())
        fewer = min((i, j), key=lambda side: len(np.unique(side)))
        sources = np.unique(fewer)
        others = j if fewer is i else i
        by_inverse = inverse + (0 if on_edges else solve * len(sources))
        if solve * len(i) <= by_inverse:
            return self.delivered("solves", 0.0, self._energies(F, i, j))
        if on_edges:
            Z = F.selected_inverse()
            d, across = Z.diagonal(), np.asarray(Z[i, j]).ravel()
        else:
            d, across = F.inverse_diagonal(), self._entries(F, fewer, others, sources)
        found = d[i] + d[j] - 2 * across
        lost = np.flatnonzero(LOST * (d[i] + d[j]) > found)         # digits that cancel between ends of parts with weak connections
        if solve * len(lost) <= REPEATED * (by_inverse + F.flops):
            found[lost] = self._energies(F, i[lost], j[lost])
        else:
            error = float((np.finfo(float).eps * (d[i] + d[j]) / found)[lost].max())
            warn(f"effective_resistances: {counted(len(lost), 'resistance')} within parts that weak edges connect have lost digits: "
                 f"the relative error is up to about {error:.1g}. Pass fewer pairs", MeshsolveWarning)
        return self.delivered("selected inverse" if on_edges else "solves", 0.0, found)

    def estimated(self, error, seed):
        """By iterations: random projections, or a solve for each pair if these are fewer."""
        if self.weights.min(initial=0.0) < 0:
            k = int(self.weights.argmin())
            i, j = self.edges[k]
            raise NotLaplacianError(f"the edge from {i} to {j} has the negative weight {self.weights[k]:.3g}, which estimates do not "
                                    'take: pass method="exact"', int(i))
        columns = int(np.ceil(2 / error**2))
        P = parac(self.L, rhs=min(columns, len(self.i)) or 1, seed=seed, threads=self.threads, device="cpu")
        self.report.merge(P.report)
        if len(self.i) <= columns:
            return self.delivered("iterations", 0.0, self._by_pairs(lambda B: self._iterate(P, B, PAIR_RTOL)))
        found, rng, done = np.zeros(len(self.i)), np.random.default_rng(seed), 0
        incidence = self._incidence()
        while done < columns:
            width = min(WIDTH, columns - done)
            Z = self._iterate(P, incidence @ rng.choice([-1.0, 1.0], (len(self.weights), width)), RTOL)
            found += ((Z[self.i] - Z[self.j]) ** 2).sum(axis=1)
            done += width
        return self.delivered("projections", float((2 / columns) ** 0.5), found / columns)

    def _position(self):
        """(k,) position of each pair among the edges, -1 for others."""
        n = self.L.shape[0]
        keys = self.edges @ np.array([n, 1], np.int64)
        wanted = np.minimum(self.i, self.j).astype(np.int64) * n + np.maximum(self.i, self.j)
        at = np.searchsorted(keys, wanted).clip(0, max(len(keys) - 1, 0))
        return np.where(keys[at] == wanted, at, -1) if len(keys) else np.full(len(wanted), -1)

    def _entries(self, F, rows, columns, sources):
        """(k,) entries of the pseudoinverse at (rows, columns); ``sources`` are the distinct rows, ascending."""
        found, column = np.empty(len(rows)), np.searchsorted(sources, rows)
        for first in range(0, len(sources), WIDTH):
            block = sources[first:first + WIDTH]
            B = self._unit(block)
            for k, source in enumerate(block):
                inside = self.component == self.component[source]
                B[inside, k] -= 1 / self.size[self.component[source]]
            X = F.solve(B)
            of_block = (column >= first) & (column < first + WIDTH)
            found[of_block] = X[columns[of_block], column[of_block] - first]
        return found

    def _unit(self, vertices):
        """(n, k) unit vectors of some vertices."""
        B = np.zeros((self.L.shape[0], len(vertices)))
        B[vertices, np.arange(len(vertices))] = 1
        return B

    def _by_pairs(self, solve):
        """(k,) resistances by one right-hand side for each pair."""
        def across(i, j, B):
            X, k = solve(B), np.arange(len(i))
            return X[i, k] - X[j, k]

        return self._in_blocks(self.i, self.j, across)

    def _energies(self, F, i, j):
        """(k,) resistances as sums of squares, |L^-1 (e_i - e_j)|^2 with the factor L: nothing cancels."""
        return self._in_blocks(i, j, lambda i, j, B: (F.solve(B[F.perm], system="L") ** 2).sum(axis=0))

    def _in_blocks(self, i, j, found):
        """(k,) results of ``found`` for WIDTH pairs at a time: their ends, and the columns e_i - e_j."""
        blocks = (slice(first, first + WIDTH) for first in range(0, len(i), WIDTH))
        return np.concatenate([np.zeros(0), *(found(i[b], j[b], self._unit(i[b]) - self._unit(j[b])) for b in blocks)])

    def _incidence(self):
        """(n, e) csr_array: each column has the root of an edge's weight at one end and minus that at the other."""
        root, edge = np.sqrt(self.weights), np.arange(len(self.weights))
        ends = np.concatenate([self.edges[:, 0], self.edges[:, 1]])
        return sp.csr_array((np.concatenate([root, -root]), (ends, np.tile(edge, 2))), shape=(self.L.shape[0], len(edge)))

    def _iterate(self, P, B, rtol):
        with self.report.phase("iterations"), without_warnings(MeshsolveWarning):
            X, info = cg(self.L, B, M=P, rtol=rtol, threads=self.threads)
        if not info.converged:
            raise MeshsolveError(f"effective_resistances: conjugate gradients did not converge ({info})")
        return X


def _exact_if_possible(task, method, error, seed):
    """Exact resistances; estimates if the factor does not fit into memory, except with ``method="exact"``."""
    try:
        return task.exact()
    except OutOfMemoryError as e:
        if method == "exact":
            raise
        reason = str(e)                                     # estimated outside the handler, which keeps the failed objects alive
    warn(f"effective_resistances: {reason}; the resistances are estimated", MeshsolveWarning)
    return task.estimated(error, seed)


def _checked_laplacian(L, threads):
    """The Laplacian of a graph in any form, or a matrix that is one, as a csr_array."""
    M = as_symmetric(graph_laplacian(L, "auto") if is_mesh(L) or is_graph(L) else L, "L", threads=threads)
    try:
        Pinned(M).require_singular(M, threads)
    except NotLaplacianError as e:
        raise NotLaplacianError(f"row {e.row} of L does not sum to 0: a Laplacian is needed. For a matrix W of weights pass "
                                'graph_laplacian(W, weights="values")', e.row) from None
    return M.to_scipy()


def _checked_error(error):
    error = as_number(error, "error", above=True)
    if error > 1:
        raise InvalidInputError(f"error must be a relative standard error above 0 and at most 1, got {error:g}")
    return error


def _checked_pairs(pairs, n):
    """(k, 2) int64 pairs of vertices."""
    given = as_array(pairs, "pairs")
    given = given.reshape(0, 2).astype(np.int64) if given.size == 0 else given
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise InvalidInputError(f"pairs must be (k, 2) integers, got shape {given.shape} of {given.dtype}")
    outside = ((given < 0) | (given >= n)).any(axis=1)
    if outside.any():
        k = int(np.argmax(outside))
        raise InvalidInputError(f"pair {k} is ({given[k, 0]}, {given[k, 1]}): vertices are 0 to {n - 1}")
    return given.astype(np.int64)
