"""Embedding, labels and ranks of the vertices of an undirected graph, each by one symmetric system or eigenproblem.

With the symmetric weights W and the diagonal matrix D of their row sums, the Laplacian is L = D - W:

- spectral embedding: the smallest eigenpairs of L x = w D x, those of the normalized Laplacian, or of L x = w x;
- labels: each class spreads as a harmonic function, L x = 0 except at labeled vertices, where x is 0 or 1;
- PageRank: (D - a W) z = p, then x = D z. The usual form (I - a W D^-1) x = p is not symmetric.

A directed graph has no such form and is refused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve.api.solving import solve
from meshsolve.eigen import Eigenpairs, eigsh
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.krylov import Info
from meshsolve.mesh import MeshLike, is_mesh, pattern_of
from meshsolve.operators import graph_laplacian
from meshsolve.options import as_flag, as_integer, as_number, counted, thread_count
from meshsolve.order.auto import estimated_dimension, is_scale_free
from meshsolve.order.nested import TooManyOperations
from meshsolve.order.simple import minimum_degree
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array, as_indices, as_rhs
from meshsolve.sparse.graphs import is_graph, weights_of
from meshsolve.sparse.matrix import as_csr
from meshsolve.sparse.rows import components
from meshsolve.types import ArrayLike, Device, Matrix

FILLED = 3e6                    # operations of a complete factor per vertex from which LOBPCG takes a third of the time or less
STEPS = 2000                    # largest number of steps of LOBPCG: a preferential attachment graph of 20,000 vertices takes 290
UNREACHED = -1                  # label of a vertex in a component without labels


def components_of(L):
    """(number of components, component (n,) of each vertex) of a graph; edges of weight 0 do not connect."""
    return components(as_csr(L))


class Labels(NamedTuple):
    """What :func:`label_propagation` returns; unpacks as ``(labels, probabilities, info)``.

    Parameters
    ----------
    labels : (n,) int64
        Most probable class of each vertex, -1 in components without a labeled vertex.
    probabilities : (n, c) float64
        Of the c classes in ascending order. Rows sum to 1, to 0 where the label is -1.
    info : Info
        As of :func:`meshsolve.solve`.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    info: Info


def spectral_embedding(graph: MeshLike | Matrix, k: int = 2, *, normalized: bool = True, tol: float = 1e-9, seed: int = 0,
                       device: Device = "auto", threads: int | None = None) -> Eigenpairs:
    """Coordinates of the vertices that place neighbors close to each other: the eigenvectors of the k smallest eigenvalues but the first.

    Up to sign these are those of ``sklearn.manifold.spectral_embedding(W, n_components=k)``.

    Parameters
    ----------
    graph : (n, n) symmetric matrix of weights, graph of networkx or igraph, list of edges, or Mesh
        As in :func:`meshsolve.graph_laplacian` with ``weights="auto"``.
    k : int
        Number of coordinates, less than n - 1.
    normalized : bool
        Eigenvectors of the normalized Laplacian, each row divided by the root of the degree; False: those of D - W.
    tol, seed, device, threads
        As in :func:`meshsolve.eigsh`.

    Returns
    -------
    Eigenpairs
        ``(w, X, info)``: eigenvalues (k,), coordinates (n, k) and how they were found. The entry of largest absolute value of each
        column is positive. Rows of vertices without neighbors are 0 in the normalized form.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`meshsolve.graph_laplacian`; k is out of range.
    OutOfMemoryError, DeviceUnavailableError

    Warns
    -----
    MeshsolveWarning
        The graph has several components. The first coordinates then only separate these: embed each component alone.

    Notes
    -----
    Cost of :func:`meshsolve.eigsh` for k + 1 pairs without a count, so that one of more than eight equal eigenvalues may be missing.
    A graph without small separators, such as a random graph or a social network, has a factor of O(n^2) entries. From an estimate of
    3e6 operations per vertex on the method is LOBPCG with :func:`meshsolve.parac`. ``info.method`` says which.
    Source: Belkin and Niyogi 2003, "Laplacian eigenmaps for dimensionality reduction and data representation".

    Examples
    --------
    >>> import meshsolve as ms
    >>> w, X, info = ms.apps.spectral_embedding([(0, 1), (1, 2), (2, 3)], k=1)
    >>> [bool(x > 0) for x in X[:, 0]] in ([True, True, False, False], [False, False, True, True])
    True
    """
    L = graph_laplacian(graph, "auto")
    k = _checked_coordinates(k, L, as_flag(normalized, "normalized"))
    count = components_of(L)[0]
    if count > 1:
        warn(f"the graph has {counted(count, 'component')}: the first coordinates only separate these; embed each component alone",
             MeshsolveWarning)
    D = sp.diags_array(L.diagonal(), format="csr") if normalized else None
    iterates = _fills(L, thread_count(threads))
    w, X, info = eigsh(L, k + 1, D, tol=tol, count=False, seed=seed, device=device, threads=threads,
                       method="lobpcg" if iterates else "auto", maxiter=STEPS if iterates else None)
    info.residuals = info.residuals[1:]
    return Eigenpairs(w[1:], X[:, 1:], info)


def label_propagation(graph: MeshLike | Matrix, fixed: ArrayLike, labels: ArrayLike, *, balance: bool = False, rtol: float = 1e-8,
                      device: Device = "auto", threads: int | None = None) -> Labels:
    """Spread the labels of some vertices to all others: the label that a random walk from a vertex probably meets first.

    Parameters
    ----------
    graph : (n, n) symmetric matrix of weights, graph of networkx or igraph, list of edges, or Mesh
        As in :func:`meshsolve.graph_laplacian` with ``weights="auto"``.
    fixed : (f,) integers, one integer, or (n,) bool
        Vertices with a label, in the numbering of the matrix.
    labels : (f,) integers of at least 0
        Their classes in the order of ``fixed``; these never change. Of (n,) labels those of ``fixed`` are used.
    balance : bool
        Scale the classes so that the sum of their probabilities is in proportion to their labels (class mass normalization). With few
        labels in a well connected graph one class otherwise covers nearly all vertices.
    rtol, device, threads
        As in :func:`meshsolve.solve`.

    Returns
    -------
    Labels
        ``(labels, probabilities, info)``. The probability of a class is the harmonic function that is 1 at its vertices and 0 at those of
        other classes; with ``balance`` scaled, so that rows sum to 1 again.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`meshsolve.graph_laplacian`; ``fixed`` has a vertex out of range or twice, none, or all; ``labels`` do not fit.
    OutOfMemoryError, DeviceUnavailableError

    Warns
    -----
    MeshsolveWarning
        Components without a labeled vertex: their vertices have the label -1.
    ConvergenceWarning
        As :func:`meshsolve.solve`.

    Notes
    -----
    One :func:`meshsolve.solve` with c - 1 right-hand sides for c classes, O(n c) memory. Source: Zhu, Ghahramani, Lafferty 2003,
    "Semi-supervised learning using Gaussian fields and harmonic functions", sections 2 and 4 (``balance``).

    Examples
    --------
    >>> import meshsolve as ms
    >>> ms.apps.label_propagation([(0, 1), (1, 2), (2, 3), (3, 4)], fixed=[0, 4], labels=[7, 9])[1][1].round(2).tolist()
    [0.75, 0.25]
    """
    L = graph_laplacian(graph, "auto")
    known = _checked_vertices(fixed, L.shape[0])
    L.data /= L.data.max(initial=0.0) or 1.0                # labels do not depend on the unit of the weights
    classes, number = np.unique(_checked_labels(labels, known, L.shape[0]), return_inverse=True)
    one_hot, reached = np.eye(len(classes))[number], _reached(L, known)
    X, info = _harmonic(L, known, one_hot[:, 1:], reached, {"rtol": rtol, "device": device, "threads": threads})
    probabilities = np.concatenate([1 - X.sum(axis=1, keepdims=True), X], axis=1).clip(0, 1)
    probabilities[~reached] = 0
    if as_flag(balance, "balance"):
        probabilities *= one_hot.sum(axis=0) / probabilities.sum(axis=0)
        probabilities[reached] /= probabilities[reached].sum(axis=1, keepdims=True)
    return Labels(np.where(reached, classes[probabilities.argmax(axis=1)], UNREACHED), probabilities, info)


def pagerank(graph: MeshLike | Matrix, personalization: ArrayLike | None = None, *, damping: float = 0.85, rtol: float = 1e-10,
             device: Device = "auto", threads: int | None = None) -> tuple[np.ndarray, Info]:
    """PageRank of an undirected graph, personalized or not, by one symmetric solve.

    The rank is the time that a walker spends at a vertex. It follows an edge with the probability ``damping``, chosen by weight, and
    else jumps to a vertex drawn from ``personalization``; at a vertex without edges it always jumps. The result is that of
    ``networkx.pagerank``, to a tolerance that does not depend on ``damping``.

    Parameters
    ----------
    graph : (n, n) symmetric matrix of weights, graph of networkx or igraph, list of edges, or Mesh
        Loops on the diagonal count, as in networkx. A directed graph is refused: use ``networkx.pagerank``.
    personalization : (n,) or (n, k) array_like of at least 0, optional
        Weights of the jumps, scaled to the sum 1; k columns give k rankings. Default: all vertices alike.
    damping : float
        Above 0 and below 1.
    rtol, device, threads
        As in :func:`meshsolve.solve`.

    Returns
    -------
    ranks : (n,) or (n, k) float64
        At least 0; each column sums to 1.
    info : Info
        As of :func:`meshsolve.solve`.

    Raises
    ------
    InvalidInputError, NotSymmetricError
        As :func:`meshsolve.graph_laplacian`; ``personalization`` has a negative entry, NaN or a column of zeros; ``damping`` is out
        of range.
    OutOfMemoryError, DeviceUnavailableError

    Warns
    -----
    ConvergenceWarning
        As :func:`meshsolve.solve`.

    Notes
    -----
    One :func:`meshsolve.solve` of a diagonally dominant matrix. Source: Andersen, Chung, Lang 2006, "Local graph partitioning using
    PageRank vectors", section 2 (the walk on an undirected graph).

    Examples
    --------
    >>> import meshsolve as ms
    >>> ranks, info = ms.apps.pagerank([(0, 1), (0, 2), (0, 3)])
    >>> ranks.round(3).tolist()
    [0.48, 0.173, 0.173, 0.173]
    """
    damping = _checked_damping(damping)
    L, degree = _with_degrees(graph)
    n, isolated = L.shape[0], degree == 0
    jumps, shape = as_rhs(np.ones(n) if personalization is None else personalization, n, "personalization")
    jumps = _distribution(jumps)
    # D - a W = a L + (1 - a) D, which has no negative row sums in rounding either
    A = damping * L + sp.diags_array((1 - damping) * degree + isolated)
    z, info = solve(A, (1 - damping) * jumps.reshape(shape), rtol=rtol, device=device, threads=threads)
    ranks = np.where(isolated[:, None], (1 - damping) * jumps, degree[:, None] * z.reshape(jumps.shape)).clip(0)
    return (ranks / ranks.sum(axis=0)).reshape(shape), info


def _checked_coordinates(k, L, normalized):
    """k, after checking that the graph has so many eigenvectors after the first."""
    k, with_edges = as_integer(k, "k"), np.count_nonzero(L.diagonal())
    if with_edges == 0:
        raise InvalidInputError("the graph has no edge of positive weight: it has no embedding")
    most = (with_edges if normalized else L.shape[0]) - 2
    if k > most:
        raise InvalidInputError(f"k must be at most {most}, the number of vertices{' with edges' if normalized else ''} minus 2, got {k}")
    return k


def _fills(L, threads):
    """True if a complete factor of a Laplacian is estimated to take more than FILLED operations per vertex.

    Cost: milliseconds; minimum degree up to that number of operations if hubs leave no levels of a breadth-first search.
    """
    pattern = pattern_of(L, threads=threads)
    try:
        has_levels = not is_scale_free(pattern) and estimated_dimension(pattern, FILLED) > 0
    except TooManyOperations:
        return True
    return not has_levels and len(minimum_degree(pattern, FILLED * pattern.n)) < pattern.n


def _checked_vertices(fixed, n):
    """(f,) int32 vertices, some but not all."""
    known = as_indices(fixed, n)
    if not 0 < len(known) < n:
        raise InvalidInputError(f"fixed must name some of the {counted(n, 'vertex')} and leave some to label, got {len(known)}")
    return known


def _checked_labels(labels, fixed, n):
    """(f,) int64 labels of the vertices ``fixed``."""
    given = as_array(labels, "labels")
    if given.dtype.kind not in "iu" or given.shape not in ((len(fixed),), (n,)):
        raise InvalidInputError(f"labels must be {counted(len(fixed), 'integer')}, one for each vertex of fixed, got shape "
                                f"{given.shape} of {given.dtype}. Number names by numpy.unique(names, return_inverse=True)")
    chosen = (given if len(given) == len(fixed) else given[fixed]).astype(np.int64)
    if chosen.min() < 0:
        k = int(chosen.argmin())
        raise InvalidInputError(f"labels must be at least 0, got {chosen[k]} for vertex {fixed[k]}: fixed lists labeled vertices only")
    return chosen


def _reached(L, fixed):
    """(n,) bool: vertices in a component with a fixed vertex."""
    count, component = components_of(L)
    has_label = np.zeros(count, bool)
    has_label[component[fixed]] = True
    reached = has_label[component]
    if not reached.all():
        missing = int(np.count_nonzero(~reached))
        warn(f"{counted(missing, 'vertex')}, the first {int(np.argmin(reached))}, cannot be reached from a labeled vertex: label "
             f"{UNREACHED}", MeshsolveWarning)
    return reached


def _harmonic(L, fixed, values, reached, options):
    """(X, info): (n, k) harmonic functions with ``values`` at the vertices ``fixed``, 0 where not ``reached``."""
    rows = np.flatnonzero(reached)
    X = np.zeros((L.shape[0], values.shape[1]))
    if len(rows) == len(fixed) or values.shape[1] == 0:     # nothing to solve for
        X[fixed] = values
        return X, Info("none", True, 0, 0.0, reason="every vertex has a label or one class is left")
    block = L if len(rows) == L.shape[0] else L[rows][:, rows]
    inside = np.searchsorted(rows, fixed)
    X[rows], info = solve(block, np.zeros((len(rows), values.shape[1])), fixed=inside, fixed_values=values, **options)
    return X, info


def _checked_damping(damping):
    damping = as_number(damping, "damping", above=True)
    if damping >= 1:
        raise InvalidInputError(f"damping must be above 0 and below 1, got {damping:g}")
    return damping


def _with_degrees(graph):
    """(L, degrees): the Laplacian of a graph and its degrees (n,) with loops, in the unit of the largest degree."""
    L, loops = _with_loops(graph)
    degree = L.diagonal() + loops
    unit = degree.max() or 1.0
    L.data /= unit
    return L, degree / unit


def _with_loops(graph):
    """(L, loops): the Laplacian of a graph, and the weights (n,) of its loops, which the Laplacian does not have."""
    if is_mesh(graph):
        L = graph_laplacian(graph)
        return L, np.zeros(L.shape[0])
    W = as_csr(weights_of(graph) if is_graph(graph) else graph, "W")
    loops = W.to_scipy().diagonal()
    if loops.min() < 0:
        i = int(loops.argmin())
        raise InvalidInputError(f"W[{i}, {i}] is {loops[i]:.6g}: weights must be at least 0")
    return graph_laplacian(W.to_scipy(), "values"), loops


def _distribution(jumps):
    """Columns of at least 0, scaled to the sum 1."""
    if jumps.min(initial=0.0) < 0:
        row, column = np.unravel_index(int(jumps.argmin()), jumps.shape)
        raise InvalidInputError(f"personalization must be at least 0, row {row} holds {jumps[row, column]:.6g}")
    largest = jumps.max(axis=0)
    if not (largest > 0).all():
        raise InvalidInputError(f"personalization must have a positive entry in each column, column {int(np.argmin(largest))} has none")
    scaled = jumps / largest                                # in range, whatever the unit
    return scaled / scaled.sum(axis=0)
