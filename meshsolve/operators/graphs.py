"""Laplacians of graphs: of meshes, matrices, graphs of networkx and igraph, and lists of edges."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import MeshLike, as_mesh, is_mesh, pattern_of
from meshsolve.operators.directed import require_symmetric, warn_if_directed
from meshsolve.options import is_auto, one_of, thread_count
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.graphs import is_graph, weights_of
from meshsolve.sparse.matrix import Csr, as_csr, narrow_ptr
from meshsolve.types import ArrayLike, Matrix, Sparse

Weights: TypeAlias = Literal["auto", "unit", "values"] | ArrayLike


def graph_laplacian(mesh_or_pattern: MeshLike | Matrix, weights: Weights = "unit") -> Sparse:
    """Assemble the Laplacian D - W of a graph with edge weights W; D is the diagonal matrix of the row sums of W.

    Parameters
    ----------
    mesh_or_pattern : Mesh, (n, n) sparse or dense matrix, graph of networkx or igraph, or list of edges
        For a matrix A the graph is the pattern of A + A^T without diagonal, with a warning if A is structurally unsymmetric.
        Vertices of a graph are numbered in its order, for networkx that of ``G.nodes``. An edge is ``(i, j)`` or ``(i, j, weight)``
        with vertices from 0 to the largest in the list; parallel edges are added. A square array is a matrix.
    weights : {"unit", "values", "auto"} or (e,) array_like of real numbers
        ``"unit"``: every edge has weight 1; the values of a matrix are ignored. ``"values"``: the matrix is a symmetric W, as
        ``networkx.to_scipy_sparse_array`` returns; duplicates are summed. The attribute ``"weight"`` of the edges of a graph is
        used, 1 if it is missing. The diagonal is ignored, because loops cancel in D - W. ``"auto"``: ``"unit"`` for a mesh, else
        ``"values"``. An array has the weights of a mesh's edges, in the order of ``mesh.edges``.

    Returns
    -------
    (n, n) csr_array of float64
        Symmetric. Every row has a diagonal entry and every edge two stored entries, also with weight 0.

    Raises
    ------
    InvalidInputError
        Neither a mesh nor a square matrix nor a graph; a directed graph; unknown ``weights``. Weights that are negative, NaN or
        infinite (names the edge). An infinite sum at a vertex; ``"values"`` for a mesh; an array for a matrix.
    NotSymmetricError
        ``"values"`` of a matrix whose W[i, j] and W[j, i] differ by more than 1e-10 times the largest weight at i or j. ``.row``
        and ``.column`` name the worst entry. Smaller differences are averaged.

    Warns
    -----
    MeshsolveWarning
        The pattern of a matrix is not symmetric: the graph is directed, or each edge is given only once. Or a list of edges has an
        edge in both directions.

    Notes
    -----
    O(n + edges). Weights of at least 0 make the Laplacian positive semidefinite.

    References
    ----------
    Chung 1997, "Spectral graph theory", section 1.4 (weighted graphs and their loops).

    Examples
    --------
    >>> import meshsolve as ms
    >>> W = [[0, 5], [5, 0]]
    >>> ms.graph_laplacian(W).toarray().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    >>> ms.graph_laplacian(W, weights="values").toarray().tolist()
    [[5.0, -5.0], [-5.0, 5.0]]
    >>> ms.graph_laplacian([(0, 1), (1, 2)]).diagonal().tolist()
    [1.0, 2.0, 1.0]
    """
    n, ends, weight = _edges_and_weights(mesh_or_pattern, weights)
    indptr, indices, data = on_edges(n, ends.reshape(-1), weight)
    if not np.isfinite(data).all():
        row = int(np.searchsorted(indptr, np.argmin(np.isfinite(data)), side="right")) - 1
        raise InvalidInputError(f"the weights of the edges at vertex {row} sum to infinity: scale the weights down")
    return sp.csr_array((data, indices, narrow_ptr(indptr)), shape=(n, n))


def normalized_laplacian(graph: MeshLike | Matrix, weights: Weights = "auto") -> Sparse:
    """Assemble the normalized Laplacian I - D^-1/2 W D^-1/2 of a graph, with eigenvalues between 0 and 2.

    Parameters
    ----------
    graph, weights
        As in :func:`graph_laplacian`. Loops do not count, as in ``scipy.sparse.csgraph.laplacian``; networkx counts them in D.

    Returns
    -------
    (n, n) csr_array of float64
        Symmetric, positive semidefinite. The row of a vertex without neighbors, or with weights of 0 alone, is 0.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`graph_laplacian`.

    Notes
    -----
    O(n + edges). Source: Chung 1997, "Spectral graph theory", section 1.2.

    Examples
    --------
    >>> import meshsolve as ms
    >>> ms.normalized_laplacian([(0, 1, 4.0)]).toarray().tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    L = graph_laplacian(graph, weights)
    degree = L.diagonal()
    root = np.sqrt(degree)
    roots = np.repeat(root, np.diff(L.indptr)) * root[L.indices]
    np.divide(L.data, roots, out=L.data, where=roots > 0)
    L.setdiag((degree > 0).astype(np.float64))
    return L


def on_edges(n, ends, weight):
    """Return (indptr, indices, data) of a Laplacian. ``ends`` is the flat list of edges in lexicographic order."""
    indptr, indices, edge = _core.mesh_adjacency(n, ends, True, thread_count())
    return indptr, indices, _core.laplacian_values(indptr, indices, edge, weight, thread_count())


def _edges_and_weights(graph, weights):
    """Return n, edges (e, 2) with the lower vertex first, and weights (e,) of a graph in any form."""
    if isinstance(weights, str):
        one_of(weights, "weights", ("unit", "values", "auto"))
    if is_auto(weights):
        weights = "unit" if is_mesh(graph) else "values"
    if not is_mesh(graph) and is_graph(graph):
        graph = weights_of(graph)
    if isinstance(weights, str) and weights == "values":
        return _weighted_edges(graph)
    n, ends = _edges_of(graph)
    return n, ends, np.ones(len(ends)) if isinstance(weights, str) else _weights_of_edges(weights, graph, ends)


def _weighted_edges(W):
    """Return n, edges (e, 2) with the lower vertex first, and weights (e,) of a symmetric weight matrix."""
    if is_mesh(W):
        raise InvalidInputError('weights="values" needs a matrix, got a mesh: '
                                "pass an array with one weight for each of mesh.edges")
    M = as_csr(W, "W")
    row, column = np.repeat(np.arange(M.n, dtype=np.int32), np.diff(M.indptr)), M.indices
    off = row != column
    row, column, value = row[off], column[off], M.data[off]
    if (value < 0).any():
        k = int(np.argmax(value < 0))
        raise InvalidInputError(f"W[{row[k]}, {column[k]}] is {value[k]:.6g}: weights must be at least 0. A matrix with negative "
                                "off-diagonal entries may already be a Laplacian")
    require_symmetric(sp.csr_array((value, (row, column)), shape=(M.n, M.n)))
    low, high = np.minimum(row, column), np.maximum(row, column)
    upper = sp.coo_array((0.5 * value, (low, high)), shape=(M.n, M.n)).tocsr()            # averages both entries, keeps zeros
    upper.sort_indices()
    ends = np.stack([np.repeat(np.arange(M.n, dtype=np.int32), np.diff(upper.indptr)), upper.indices.astype(np.int32)], axis=1)
    return M.n, ends, upper.data


def _weights_of_edges(weights, mesh, ends):
    """Check an array with one weight for each edge of a mesh; returns (e,) float64."""
    if not is_mesh(mesh):
        raise InvalidInputError('an array of weights needs a mesh, got a matrix: pass weights="values" to use its values')
    given = as_array(weights, "weights")
    if given.dtype.kind not in "fiub" or given.shape != (len(ends),):
        raise InvalidInputError(f'weights must be "unit", "values" or {len(ends)} real numbers, one for each of mesh.edges, '
                                f"got shape {given.shape} of {given.dtype}")
    with np.errstate(over="ignore"):                        # longdouble values out of range become infinite and are refused
        given = np.ascontiguousarray(given, np.float64)
    good = (given >= 0) & (given < np.inf)
    if not good.all():
        k = int(np.argmin(good))
        raise InvalidInputError(f"weights[{k}] of the edge from vertex {ends[k, 0]} to {ends[k, 1]} is {given[k]:.6g}: weights "
                                "must be finite and at least 0")
    return given


def _edges_of(mesh_or_pattern):
    """Return n and the edges (e, 2), lower vertex first, of a mesh or of the graph of a matrix."""
    if is_mesh(mesh_or_pattern):
        mesh = as_mesh(mesh_or_pattern)
        return len(mesh.vertices), mesh.edges
    graph = pattern_of(mesh_or_pattern)
    if not isinstance(mesh_or_pattern, Csr):
        warn_if_directed(as_csr(mesh_or_pattern, dtype=None), graph)
    row = np.repeat(np.arange(graph.n, dtype=np.int32), np.diff(graph.indptr))
    upper = graph.indices > row
    return graph.n, np.stack([row[upper], graph.indices[upper]], axis=1)
