"""Unit-weight Laplacians of graphs: triangulations, road networks, power-law graphs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from meshsolve.datasets.common import check_size, generator, laplacian, sorted_rows
from meshsolve.mesh import Mesh
from meshsolve.options import as_integer, as_number, as_seed
from meshsolve.types import Sparse


def delaunay(n: int, seed: int = 1) -> Sparse:
    """Generate the unit-weight Laplacian of the Delaunay triangulation of random points in the unit square.

    Parameters
    ----------
    n : int
        Number of points, at least 4.
    seed : int

    Returns
    -------
    (n, n) csr_array

    Raises
    ------
    InvalidInputError
        ``n`` is not an integer of at least 4; ``seed`` is not an integer of at least 0.
    OutOfMemoryError
        The problem would not fit into memory.

    Notes
    -----
    O(n log n) time.
    """
    return laplacian(as_integer(n, "n", 4), *_delaunay_edges(n, seed)[0].T)


def road_like(n: int, seed: int = 1, degree: float = 2.5) -> Sparse:
    """Generate the unit-weight Laplacian of a road-like graph: nearly a tree, planar, with long paths.

    The graph is the minimum spanning tree of the Delaunay triangulation of random points, with further random edges of the
    triangulation.

    Parameters
    ----------
    n : int
        Number of points, at least 4.
    seed : int
    degree : float
        Target for the average degree. A third of the further edges are already in the tree, so the average degree is about
        2 + 2 / 3 (``degree`` - 2), by default 2.33. It is between 2 (a tree) and 6 (the triangulation).

    Returns
    -------
    (n, n) csr_array

    Raises
    ------
    InvalidInputError
        ``n`` is not an integer of at least 4; ``degree`` is not a number; ``seed`` is not an integer of at least 0.
    OutOfMemoryError
        The problem would not fit into memory.

    Notes
    -----
    O(n log n) time.
    """
    degree, seed = as_number(degree, "degree"), as_seed(seed)
    edges, points = _delaunay_edges(as_integer(n, "n", 4), seed)
    lengths = np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1)
    tree = minimum_spanning_tree(sp.coo_array((lengths, edges.T), shape=(n, n)).tocsr()).tocoo()
    extra = int(min(max(degree * n / 2 - tree.nnz, 0), len(edges)))
    more = edges[generator((seed + 1) % 2**64).choice(len(edges), extra, replace=False)]
    return laplacian(n, np.concatenate([tree.row, more[:, 0]]), np.concatenate([tree.col, more[:, 1]]))


def rmat(k: int, seed: int = 3, edges_per_vertex: int = 16) -> Sparse:
    """Generate the unit-weight Laplacian of the largest component of an R-MAT graph with 2^k vertices.

    The probabilities are 0.57, 0.19, 0.19, 0.05 (Graph 500). The graph has vertices of very high degree and no locality.

    Parameters
    ----------
    k : int
    seed : int
    edges_per_vertex : int
        Number of edges drawn per vertex. Repeated edges count once, so fewer remain.

    Returns
    -------
    (n, n) csr_array, n <= 2^k

    Raises
    ------
    InvalidInputError
        ``k`` is not in 1..30; ``edges_per_vertex`` is not a positive integer; ``seed`` is not an integer of at least 0.
    OutOfMemoryError
        The problem would not fit into memory.

    Notes
    -----
    O(k 2^k ``edges_per_vertex``) time.

    References
    ----------
    Chakrabarti, Zhan, Faloutsos 2004, "R-MAT: a recursive model for graph mining".
    """
    n, drawn = 1 << as_integer(k, "k", 1, 30), as_integer(edges_per_vertex, "edges_per_vertex")
    check_size(n, n * drawn)
    rng = generator(seed)
    i = np.zeros(drawn * n, np.int64)
    j = np.zeros_like(i)
    for _ in range(k):
        r = rng.random(len(i))
        i = 2 * i + (r >= 0.76)
        j = 2 * j + (((r >= 0.57) & (r < 0.76)) | (r >= 0.95))
    return _largest_component(n, i, j)


def preferential(n: int, d: int = 8, seed: int = 4) -> Sparse:
    """Generate the unit-weight Laplacian of a preferential-attachment graph.

    Each new vertex gets edges to earlier vertices with probability proportional to their degree, by copying an end of a random
    earlier edge.

    Parameters
    ----------
    n : int
        Number of vertices, at least 2.
    d : int
        Number of edges of each new vertex.
    seed : int

    Returns
    -------
    (n', n') csr_array of the largest component, n' <= n

    Raises
    ------
    InvalidInputError
        ``n`` is not an integer of at least 2; ``d`` is not a positive integer; ``seed`` is not an integer of at least 0.
    OutOfMemoryError
        The problem would not fit into memory.

    Notes
    -----
    O(n d log(n d)) time.

    References
    ----------
    Batagelj & Brandes 2005, "Efficient generation of large random networks", algorithm 5.
    """
    n, d = as_integer(n, "n", 2), as_integer(d, "d")
    check_size(n, n * d)
    edge = np.arange(n * d)
    source = edge // d
    slot = (generator(seed).random(n * d) * np.maximum(2 * d * source, 1)).astype(np.int64)
    copies = np.where(slot % 2 == 1, slot // 2, edge)       # an odd slot copies the target of an earlier edge
    while (copies[copies] != copies).any():
        copies = copies[copies]
    return _largest_component(n, source, source[slot[copies] // 2])


def _largest_component(n, i, j):
    """Laplacian of the largest component of a graph; the vertices keep their order."""
    L = laplacian(n, i, j)
    label = connected_components(L, directed=False)[1]
    kept = np.flatnonzero(label == np.argmax(np.bincount(label)))
    return sorted_rows(L[kept][:, kept])


def _delaunay_edges(n, seed):
    """Edges (e, 2) of the Delaunay triangulation of n random points in the unit square, and the points (n, 2)."""
    from scipy.spatial import Delaunay

    check_size(n)
    points = generator(seed).random((n, 2))
    flat = np.column_stack([points, np.zeros(n)])
    return Mesh(flat, Delaunay(points).simplices).edges, points
