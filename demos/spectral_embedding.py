"""Spectral embedding: draw a graph by the eigenvectors of its Laplacian.

    python spectral_embedding.py [graph.mtx] [-o embedding.png]

The eigenvectors of the smallest eigenvalues place neighbors close to each other. They show clusters, and the shape of meshes and
roads.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import meshsolve as ms


def draw(W, xy, path):
    """Draw the edges of the graph with the weights W."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection

    edges = sp.triu(W, 1).tocoo()
    figure, axes = pyplot.subplots(figsize=(7, 7))
    axes.add_collection(LineCollection(np.stack([xy[edges.row], xy[edges.col]], 1), linewidths=0.3))
    axes.autoscale()
    axes.set_axis_off()
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def connected_graph(path):
    """Read a weight matrix or a Laplacian from a Matrix Market file and return the weights in its largest component.

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
    return W


def roads(n):
    """Weights of a road-like graph of n vertices."""
    L = ms.datasets.road_like(n)
    return -sp.csr_array(sp.triu(L, 1) + sp.tril(L, -1))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", nargs="?", help="Matrix Market file; default: a road-like graph of 20,000 vertices")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    W = connected_graph(given.graph) if given.graph else roads(20_000)
    values, xy, _ = ms.apps.spectral_embedding(W, 2, normalized=False)
    print(f"{W.shape[0]} vertices, {W.nnz // 2} edges; smallest eigenvalues {values}")
    if given.output:
        draw(W, xy, given.output)
    return xy


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
