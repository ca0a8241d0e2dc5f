"""Effective resistances of all edges of a graph: exact, or estimated by random projections.

    python effective_resistance.py [graph.mtx] [--error 0.05] [-o resistance.png]

If every edge is a resistor of 1 / weight, the resistance between the ends of an edge measures its importance. It is 1 for a
bridge of unit weight and near 0 for an edge with many detours. Spanning-tree probabilities and sparsifiers are computed from it.

The complete factor gives all resistances exactly. With ``--error``, or if that factor does not fit into memory, random projections
estimate them with this relative standard error.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

import meshsolve as ms


def edges_of(L):
    """Return the ends i, j and the weight of the edges of a Laplacian."""
    upper = sp.triu(L, 1, format="csr").tocoo()
    return upper.row, upper.col, -upper.data


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


def draw(L, share, path):
    """Draw the edges at the positions of its spectral embedding, colored by ``share`` from light (5 % quantile) to dark (1)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection

    i, j, _ = edges_of(L)
    xy = ms.apps.spectral_embedding(sp.diags_array(L.diagonal()) - L, 2, normalized=False).vectors
    order = np.argsort(-share)                              # the lightest edges on top
    figure, axes = pyplot.subplots(figsize=(7, 6))
    lines = LineCollection(np.stack([xy[i], xy[j]], 1)[order], array=share[order], cmap="plasma_r", linewidths=0.8)
    lines.set_clim(np.floor(10 * np.quantile(share, 0.05)) / 10, 1)
    axes.add_collection(lines)
    axes.autoscale()
    axes.set_axis_off()
    figure.colorbar(lines, label="weight x resistance", shrink=0.6, extend="min")
    figure.savefig(path, dpi=150, bbox_inches="tight")
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graph", nargs="?", help="Matrix Market file; default: a road-like graph of 20,000 vertices")
    parser.add_argument("--error", type=float, help="estimate with this relative standard error; default: exact")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    L = connected_graph(given.graph) if given.graph else ms.datasets.road_like(20_000)
    options = {} if given.error is None else {"method": "estimate", "error": given.error}
    r, report = ms.apps.effective_resistances(L, **options)
    i, j, w = edges_of(L)
    print(f"{L.shape[0]} vertices, {len(r)} edges; sum of weight x resistance {np.sum(w * r):.1f} (Foster: {L.shape[0] - 1})")
    if report.facts["standard_error"]:
        print(f"estimates with a standard error of {100 * report.facts['standard_error']:.0f} %; exact values of weight x resistance are "
              "at most 1:")
    for e in np.argsort(-w * r)[:5]:
        print(f"  edge {i[e]} - {j[e]}: resistance {r[e]:.3g}, weight x resistance {w[e] * r[e]:.3f}")
    if given.output:
        draw(L, w * r, given.output)
    return r


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
