"""Graphs of networkx and igraph and lists of edges, read as symmetric weight matrices.

Vertices are numbered in the order of the graph, those of a list of edges by the list itself. Loops lie on the diagonal, and the weights
of parallel edges are added. O(vertices + edges).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import foreign
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.matrix import LARGEST_SIZE

NO_MATRIX = "number them first, for example by names, ends = numpy.unique(edges, return_inverse=True)"


def is_graph(G: Any) -> bool:
    """Return True for a graph of networkx or igraph and for a list of edges.

    A list of edges is a list of tuples, or an array that is not square: (e, 2) or (e, 3) with weights, or the two rows (2, e).
    """
    if isinstance(G, list) and G and all(isinstance(edge, tuple) and len(edge) in (2, 3) for edge in G):
        return True
    if isinstance(G, (list, tuple)):
        try:
            G = np.asarray(G)
        except ValueError:                                  # ragged
            return False
    return bool(foreign.hint_for_edges(G)) if isinstance(G, np.ndarray) else _kind(G) is not None


def weights_of(G: Any, name: str = "graph") -> Any:
    """Return the weight matrix W of a graph that :func:`is_graph` accepts, an (n, n) csr_array of float64, symmetric.

    Raises
    ------
    InvalidInputError
        A directed or empty graph; vertices of a list that are no integers from 0; weights that are no numbers.

    Warns
    -----
    MeshsolveWarning
        A list has an edge in both directions.
    """
    kind = _kind(G)
    if kind is None:
        return _of_edges(G, name)
    if G.is_directed():
        undirected = "to_undirected()" if kind == "networkx" else "as_undirected()"
        raise InvalidInputError(f"{name} is a directed graph of {kind}, but its edges must have no direction: pass {name}.{undirected}")
    try:
        return _of_networkx(G) if kind == "networkx" else _of_igraph(G)
    except (TypeError, ValueError) as e:
        raise InvalidInputError(f"{name} must have a number as the weight of each edge: {e}") from e


def _kind(G):
    """The library of a graph object, or None."""
    return next((name for name in ("networkx", "igraph") if name in foreign.libraries_of(G) and hasattr(G, "is_directed")), None)


def _of_networkx(G):
    import networkx

    if len(G) == 0:
        return sp.csr_array((0, 0))
    return sp.csr_array(networkx.to_scipy_sparse_array(G, dtype=np.float64, format="csr"))


def _of_igraph(G):
    weights = np.asarray(G.es["weight"], np.float64) if "weight" in G.es.attributes() else np.ones(G.ecount())
    return _mirrored(np.asarray(G.get_edgelist(), np.int64).reshape(-1, 2), weights, G.vcount())


def _of_edges(edges, name):
    if isinstance(edges, list) and len({len(edge) for edge in edges}) > 1:
        k = next(k for k, edge in enumerate(edges) if len(edge) != len(edges[0]))
        raise InvalidInputError(f"{name}: edge {k} has {len(edges[k])} numbers, edge 0 has {len(edges[0])}. Give all edges a weight, "
                                "or none")
    given = as_array(edges, name)
    if given.dtype.kind not in "fiu":
        raise InvalidInputError(f"{name} must be a list of edges (i, j) or (i, j, weight) of numbers, got {given.dtype}: {NO_MATRIX}")
    if isinstance(edges, np.ndarray) and given.shape == (2, 3):
        raise InvalidInputError(f"{name} of shape (2, 3) may be three edges or two edges with weights: pass a list of tuples")
    given = given.T if given.shape[1] not in (2, 3) else given
    ends = given[:, :2]
    good = ((ends == np.round(ends)) & (ends >= 0) & (ends < LARGEST_SIZE)).all(axis=1)
    if not good.all():
        k = int(np.argmin(good))
        raise InvalidInputError(f"{name}: edge {k} joins {ends[k, 0]:.15g} and {ends[k, 1]:.15g}, vertices must be integers from 0 to "
                                f"{LARGEST_SIZE - 1}: {NO_MATRIX}")
    ends = ends.astype(np.int64)
    _warn_of_both_directions(ends, name)
    weights = given[:, 2].astype(np.float64) if given.shape[1] == 3 else np.ones(len(ends))
    return _mirrored(ends, weights, int(ends.max()) + 1)


def _warn_of_both_directions(ends, name):
    """Warn if a list has an edge as (i, j) and as (j, i): it may have every edge twice."""
    up = ends[ends[:, 0] < ends[:, 1]]
    down = ends[ends[:, 0] > ends[:, 1]][:, ::-1]
    size = ends.max() + 1
    both = np.intersect1d(up @ [size, 1], down @ [size, 1])
    if len(both):
        i, j = divmod(int(both[0]), int(size))
        warn(f"{name} has edges in both directions, the first between {i} and {j}: their weights are added. List each edge once",
             MeshsolveWarning)


def _mirrored(ends, weights, n):
    """The symmetric (n, n) matrix of edges (e, 2); a loop is one entry."""
    i, j = ends.T
    other = i != j
    rows, columns = np.concatenate([i, j[other]]), np.concatenate([j, i[other]])
    return sp.csr_array((np.concatenate([weights, weights[other]]), (rows, columns)), shape=(n, n))
