"""Draw a graph by the eigenvectors of its Laplacian, found with ParAC as preconditioner (spectral embedding).

    python spectral_embedding.py [graph.mtx] [-o embedding.png]

The smallest eigenvectors place neighbours close to each other: they show clusters, and the shape of meshes and roads.
Without a preconditioner LOBPCG does not get there on such graphs; with a complete factor it needs its memory.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import connected_components

import meshsolve as ms


def embed(L, dimensions=2, rtol=1e-3, seed=0):
    """Coordinates (n, dimensions): eigenvectors of the smallest non-zero eigenvalues of the Laplacian L of a connected graph, and
    those values."""
    n = L.shape[0]
    P = ms.parac(L, rhs=20, seed=seed)
    X = np.random.default_rng(seed).standard_normal((n, dimensions + 2))
    values, vectors = spla.lobpcg(L, X, M=P, Y=np.ones((n, 1)), largest=False, tol=rtol * L.diagonal().mean() / n**0.5, maxiter=200)
    return vectors[:, :dimensions], values[:dimensions]


def draw(L, xy, path):
    """The edges of the graph, as a picture."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection

    edges = L.tocoo()
    upper = edges.row < edges.col
    figure, axes = pyplot.subplots(figsize=(7, 7))
    axes.add_collection(LineCollection(np.stack([xy[edges.row[upper]], xy[edges.col[upper]]], 1), linewidths=0.3))
    axes.autoscale()
    axes.set_axis_off()
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def connected_graph(path):
    """The Laplacian of the largest component of a graph in a Matrix Market file, of weights or a Laplacian itself.

    The weight of an edge is the absolute value of its entry off the diagonal.
    """
    A = abs(sp.coo_array(ms.datasets.load_matrix(path)))
    if A.shape[0] != A.shape[1]:
        raise ms.InvalidInputError(f"{path}: the matrix of a graph must be square, got {A.shape}")
    off = A.row != A.col
    W = sp.coo_array((A.data[off], (A.row[off], A.col[off])), shape=A.shape).tocsr()
    W = W.maximum(W.T)
    W.eliminate_zeros()
    component = connected_components(W, directed=False)[1]
    kept = np.flatnonzero(component == np.bincount(component).argmax())
    if len(kept) < len(component):
        print(f"left out: {len(component) - len(kept)} of {len(component)} vertices, not in the largest component")
        W = W[kept][:, kept]
    return sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", nargs="?", help="Matrix Market file; default: a road-like graph of 20,000 vertices")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    L = connected_graph(given.graph) if given.graph else ms.datasets.road_like(20_000)
    xy, values = embed(L)
    print(f"{L.shape[0]} vertices, {L.nnz - L.shape[0]} entries; smallest eigenvalues {values}")
    if given.output:
        draw(L, xy, given.output)
    return xy


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
