"""Spectral embedding: draw a graph by the eigenvectors of its Laplacian, computed with ParAC as preconditioner.

    python spectral_embedding.py [graph.mtx] [-o embedding.png]

The eigenvectors of the smallest eigenvalues place neighbors close to each other. They show clusters, and the shape of meshes and
roads. On such graphs LOBPCG does not converge without a preconditioner, and a complete factor would need more memory.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import connected_components

import meshsolve as ms


def embed(L, dimensions=2, rtol=1e-3, seed=0):
    """Return eigenvectors (n, dimensions) and the smallest nonzero eigenvalues of the Laplacian L of a connected graph."""
    n = L.shape[0]
    P = ms.parac(L, rhs=20, seed=seed)
    X = np.random.default_rng(seed).standard_normal((n, dimensions + 2))
    values, vectors = spla.lobpcg(L, X, M=P, Y=np.ones((n, 1)), largest=False, tol=rtol * L.diagonal().mean() / n**0.5, maxiter=200)
    return vectors[:, :dimensions], values[:dimensions]


def draw(L, xy, path):
    """Draw the edges of the graph."""
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
    """Read a weight matrix or a Laplacian from a Matrix Market file and return the Laplacian of its largest component.

    The weight of an edge is the absolute value of its off-diagonal entry.
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
        print(f"left out {len(component) - len(kept)} of {len(component)} vertices outside the largest component")
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
