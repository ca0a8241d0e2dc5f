"""Tasks on graphs, compared with scikit-learn and networkx.

    python -m benchmarks.graphs [--sizes 30000] [--kinds delaunay road neighbors] [--quick] [--threads 1] [--clock cpu]

``embedding``: eight coordinates, by scikit-learn's ``spectral_embedding`` with ARPACK, its default. ``pagerank``: of the same tolerance as
ours, by ``networkx.pagerank``. ``resistances``: of all edges, which neither library has at this size. ``labels``: three classes from 30
vertices; the iteration of networkx stops after 30 rounds and is left out. Graphs: a planar triangulation, a road-like graph, and
the ten nearest neighbors of points in space. Each call runs once in one process. Differences of the results are checked.
Prints a row for each graph and writes benchmarks/results/graphs-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import importlib.util

import numpy as np
import scipy.sparse as sp
from scipy.spatial import cKDTree

import meshsolve as ms
from benchmarks.measure import clock_for, describe, interleave, library_threads, summary, write_json
from benchmarks.table import Table, bar, print_bars

COLUMNS = ("graph", "vertices", "embedding", "scikit-learn", "pagerank", "networkx", "labels", "resistances")
COORDINATES, NEIGHBORS, GROUPS = 8, 10, 10
TOLERANCE = 1e-10                               # of PageRank: relative residual here, sum of changes in networkx
WRONG = 1e-6                                    # difference of results, relative to the largest entry, that ends the run


def main(arguments=None):
    """Run the benchmark. Returns 1 if results differ."""
    options = parser().parse_args(arguments)
    run = describe("graphs", [options.threads], options.clock) | {"rows": []}
    table = Table(*COLUMNS)
    with library_threads(options.threads):
        for kind in options.kinds:
            for n in [5000] if options.quick else options.sizes:
                row = {"graph": kind} | measure(weights(kind, n))
                run["rows"].append(row)
                table.row(*cells(row, run))
                write_json(run, options.out)
    run["bars"] = [bar(f"embedding of {row['graph']}, {row['n']}: times faster than scikit-learn", ratio(row, run), 10.0, asked=False)
                   for row in run["rows"]]
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.graphs", description=__doc__.split("\n")[0])
    p.add_argument("--kinds", nargs="+", choices=("delaunay", "road", "neighbors"), default=["delaunay", "road", "neighbors"])
    p.add_argument("--sizes", nargs="+", type=int, default=[30_000])
    p.add_argument("--quick", action="store_true", help="5,000 vertices")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def weights(kind, n):
    """The symmetric weight matrix of a graph of n vertices, with 32-bit indices as scikit-learn needs them."""
    if kind == "neighbors":
        rng = np.random.default_rng(0)
        x = 2 * rng.standard_normal((GROUPS, 3))[rng.integers(0, GROUPS, n)] + rng.standard_normal((n, 3))
        near = cKDTree(x).query(x, NEIGHBORS + 1)[1][:, 1:]
        A = sp.csr_array((np.ones(near.size), near.reshape(-1), np.arange(0, near.size + 1, NEIGHBORS)), shape=(n, n))
        W = (A + A.T) / 2
    else:
        L = ms.datasets.delaunay(n) if kind == "delaunay" else ms.datasets.road_like(n)
        W = sp.diags_array(L.diagonal()) - L
    W = sp.csr_array(W)
    W.eliminate_zeros()
    return sp.csr_array((W.data, W.indices.astype(np.int32), W.indptr.astype(np.int32)), shape=W.shape)


def measure(W):
    """Seconds of all tasks on one graph, and the largest difference of results."""
    n, L = W.shape[0], ms.graph_laplacian(W, "values")
    tasks = {"embedding": lambda: ms.apps.spectral_embedding(W, COORDINATES).vectors,
             "pagerank": lambda: ms.apps.pagerank(W, rtol=TOLERANCE)[0],
             "labels": lambda: ms.apps.label_propagation(W, np.arange(30) * (n // 30), np.arange(30) % 3).labels,
             "resistances": lambda: ms.apps.effective_resistances(L)[0]}
    peers = peer_tasks(W)
    results, seconds = interleave(tasks | peers, 1)
    pairs = [(results[name], results[f"{name} of peer"]) for name in tasks if f"{name} of peer" in peers]
    difference = max((abs(abs(ours) - abs(theirs)).max() / abs(theirs).max() for ours, theirs in pairs), default=0.0)
    if difference > WRONG:
        raise RuntimeError(f"results differ by {difference:.1e}")
    return {"n": n, "edges": W.nnz // 2, "difference": float(difference),
            "seconds": {name: {clock: summary(v) for clock, v in found.items()} for name, found in seconds.items()}}


def peer_tasks(W):
    """The calls of the libraries that are installed."""
    tasks = {}
    if importlib.util.find_spec("sklearn"):
        from sklearn.manifold import spectral_embedding

        tasks["embedding of peer"] = lambda: spectral_embedding(W, n_components=COORDINATES, random_state=0)
    if importlib.util.find_spec("networkx"):
        import networkx

        G = networkx.from_scipy_sparse_array(W)
        tasks["pagerank of peer"] = lambda: np.array(list(networkx.pagerank(G, tol=TOLERANCE / W.shape[0], max_iter=1000).values()))
    return tasks


def of(row, name, run):
    """The time of a task, or None."""
    found = row["seconds"].get(name)
    return found[clock_for(run["threads"][0], run["clock"])]["median"] if found else None


def ratio(row, run):
    """Time of scikit-learn over ours, or None."""
    theirs = of(row, "embedding of peer", run)
    return theirs and theirs / of(row, "embedding", run)


def cells(row, run):
    """One row of the table."""
    names = ("embedding", "embedding of peer", "pagerank", "pagerank of peer", "labels", "resistances")
    return [row["graph"], row["n"], *(of(row, name, run) for name in names)]


if __name__ == "__main__":
    raise SystemExit(main())
