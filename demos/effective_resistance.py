"""Effective resistances of all edges of a graph, from a few dozen solves with its Laplacian.

    python demos/effective_resistance.py [graph.mtx] [--projections 64 | --projections 0] [-o resistance.png]

The resistance between the ends of an edge, every edge being a resistor of 1 / weight, says how much the graph depends on it: 1
for a bridge of unit weight, near 0 for an edge with many ways around. It is what spanning-tree probabilities, sparsifiers and
bottleneck measures are made of. k = 24 ln(n) / error^2 random projections give all of them within the error (Spielman and
Srivastava 2011, theorem 2), and in practice a tenth of that does. Of a graph whose Laplacian has a complete factor of bearable size,
a road network say, selected inversion finds all of them exactly: 0 projections.
"""

import numpy as np
import scipy.sparse as sp
from command_line import connected_graph, options, run
from spectral_embedding import embed

import meshsolve as ms


def edges_of(L):
    """(i, j, weight) of the edges of a Laplacian."""
    upper = sp.triu(L, 1).tocoo()
    return upper.row, upper.col, -upper.data


def exact_resistances(L):
    """Of all edges, in the order of edges_of(L): from the pseudoinverse where L has entries."""
    Z, (i, j, _) = ms.cholesky(L, pin=True).selected_inverse(), edges_of(L)
    d = Z.diagonal()
    return d[i] + d[j] - 2 * Z[i, j]


def resistances(L, projections=64, rtol=1e-4, seed=0):
    """Estimates of the same."""
    i, j, w = edges_of(L)
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (len(w), projections)) * np.sqrt(w / projections)[:, None]
    ends, edge = np.concatenate([i, j]), np.tile(np.arange(len(w)), 2)
    incidence = sp.coo_array((np.repeat([1.0, -1.0], len(w)), (ends, edge)), shape=(L.shape[0], len(w))).tocsr()
    Z, info = ms.cg(L, incidence @ signs, M=ms.parac(L, rhs=projections, seed=seed), rtol=rtol)
    return ((Z[i] - Z[j]) ** 2).sum(axis=1)


def draw(L, share, path):
    """The edges, placed by the eigenvectors of the Laplacian and coloured by ``share``: 1 is dark, the least of most edges light."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection

    xy, (i, j, _) = embed(L)[0], edges_of(L)
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
    given = options(__doc__, arguments, "graph", "Matrix Market file; default: a road-like graph of 20,000 vertices", projections=64)
    L = connected_graph(given.graph) if given.graph else ms.datasets.road_like(20_000)
    r = resistances(L, given.projections) if given.projections else exact_resistances(L)
    i, j, w = edges_of(L)
    order = np.argsort(-w * r)[:5]
    print(f"{L.shape[0]} vertices, {len(r)} edges; sum of weight x resistance {np.sum(w * r):.1f} (Foster: {L.shape[0] - 1})")
    if given.projections:
        print(f"estimates with a standard error of {100 * (2 / given.projections) ** 0.5:.0f} %; no true weight x resistance is above 1:")
    for e in order:
        print(f"  edge {i[e]} - {j[e]}: resistance {r[e]:.3g}, weight x resistance {w[e] * r[e]:.3f}")
    if given.output:
        draw(L, w * r, given.output)
    return r


if __name__ == "__main__":
    run(main)
