"""Effective resistances of all edges of a graph, from its Laplacian: exact, or estimated by random projections.

    python effective_resistance.py [graph.mtx] [--projections 0] [-o resistance.png]

If every edge is a resistor of 1 / weight, the resistance between the ends of an edge measures its importance. It is 1 for a
bridge of unit weight and near 0 for an edge with many detours. Spanning-tree probabilities and sparsifiers are computed from it.

Selected inversion of the complete factor gives all resistances exactly. If that factor does not fit into memory, k random
projections estimate them with a standard error of sqrt(2 / k): 18 % for 64, 2 % for 5,000. With k = 24 ln(n) / e^2 all errors
are below e with high probability (Spielman and Srivastava 2011, theorem 2).
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from scipy.sparse.csgraph import connected_components

import meshsolve as ms


def edges_of(L):
    """Return the ends i, j and the weight of the edges of a Laplacian."""
    upper = sp.triu(L, 1).tocoo()
    return upper.row, upper.col, -upper.data


def exact_resistances(L):
    """Resistances of all edges, in the order of edges_of(L), from the entries of the pseudoinverse on the pattern of L."""
    Z, (i, j, _) = ms.cholesky(L, pin=True).selected_inverse(), edges_of(L)
    d = Z.diagonal()
    return d[i] + d[j] - 2 * Z[i, j]


def estimated_resistances(L, projections, rtol=1e-4, seed=0):
    """Estimated resistances of all edges, with a relative standard error of sqrt(2 / projections)."""
    i, j, w = edges_of(L)
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (len(w), projections)) * np.sqrt(w / projections)[:, None]
    ends, edge = np.concatenate([i, j]), np.tile(np.arange(len(w)), 2)
    incidence = sp.coo_array((np.repeat([1.0, -1.0], len(w)), (ends, edge)), shape=(L.shape[0], len(w))).tocsr()
    Z, info = ms.cg(L, incidence @ signs, M=ms.parac(L, rhs=projections, seed=seed), rtol=rtol)
    if not info.converged:
        raise ms.MeshsolveError(f"conjugate gradients did not converge: {info.reason}")
    return ((Z[i] - Z[j]) ** 2).sum(axis=1)


def resistances(L, projections=0):
    """Exact resistances, or estimates if ``projections`` is given."""
    if projections:
        return estimated_resistances(L, projections)
    try:
        return exact_resistances(L)
    except MemoryError as e:
        raise ms.MeshsolveError(f"{e}. Estimates need less memory: use --projections 64 (standard error 18 %) or 800 (5 "
                                "%)") from None


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


def embed(L):
    """Positions (n, 2) of the vertices: the eigenvectors of the two smallest positive eigenvalues."""
    sigma = -1e-6 * L.diagonal().mean()                     # shift below the spectrum
    F = ms.cholesky(L - sigma * sp.eye_array(L.shape[0]))
    return spla.eigsh(L, 3, sigma=sigma, OPinv=F, v0=np.random.default_rng(0).standard_normal(L.shape[0]))[1][:, 1:]


def draw(L, share, path):
    """Draw the edges at the positions of embed(L), colored by ``share`` from light (5 % quantile) to dark (1)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.collections import LineCollection

    xy, (i, j, _) = embed(L), edges_of(L)
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
    parser.add_argument("--projections", type=int, default=0, help="number of random projections; default: 0, exact")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    if given.projections < 0:
        parser.error(f"--projections must be at least 0, got {given.projections}")
    L = connected_graph(given.graph) if given.graph else ms.datasets.road_like(20_000)
    r = resistances(L, given.projections)
    i, j, w = edges_of(L)
    print(f"{L.shape[0]} vertices, {len(r)} edges; sum of weight x resistance {np.sum(w * r):.1f} (Foster: {L.shape[0] - 1})")
    if given.projections:
        print(f"estimates with a standard error of {100 * (2 / given.projections) ** 0.5:.0f} %; exact values of "
              "weight x resistance are at most 1:")
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
