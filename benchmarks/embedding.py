"""Spectral embeddings of large graphs, compared with all solvers of scikit-learn.

    python -m benchmarks.embedding [--sizes 250000] [--kinds delaunay road neighbors communities preferential] [--limit 300]

Eight coordinates of each vertex, each program in a process of its own with one thread. Clock: CPU seconds, which are valid on a shared
machine. scikit-learn's solvers are ARPACK with SuperLU (its default), LOBPCG, and LOBPCG with algebraic multigrid (pyamg), with their
default tolerances. A result counts as correct if it differs from ours by at most 1e-6 of a column's largest entry, up to sign. The
fastest correct one is the peer. A process is stopped after ``--limit`` CPU seconds, and then is a lower bound.
Writes benchmarks/results/embedding-<date>-1t.json.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from benchmarks.graphs import WRONG, weights
from benchmarks.measure import child, describe, write_json
from benchmarks.table import Table, bar, print_bars

KINDS = ("delaunay", "road", "neighbors", "communities", "preferential")
PEERS = ("arpack", "lobpcg", "amg")
STOPPED = "exit status -24"                     # SIGXCPU
COLUMNS = ("graph", "vertices", "meshsolve", "method", *PEERS, "peer / meshsolve")


def main(arguments=None):
    """Run the benchmark. Returns 1 if a ratio is below ten."""
    options = parser().parse_args(arguments)
    run = describe("embedding", [1], "cpu") | {"rows": []}
    table = Table(*COLUMNS)
    for kind in options.kinds:
        for n in [2000] if options.quick else options.sizes:
            run["rows"].append(measure(kind, n, options.limit))
            table.row(*cells(run["rows"][-1]))
            write_json(run, options.out)
    run["bars"] = [bar(f"embedding of {row['graph']}, {row['n']}: times faster than scikit-learn", row["ratio"], 10.0, asked=False)
                   for row in run["rows"]]
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.embedding", description=__doc__.split("\n")[0])
    p.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    p.add_argument("--sizes", nargs="+", type=int, default=[250_000])
    p.add_argument("--quick", action="store_true", help="2,000 vertices")
    p.add_argument("--limit", type=int, default=300, help="CPU seconds after which a process is stopped")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def graph(kind, n):
    """The weight matrix (n, n) of a graph, with 32-bit indices; the largest component of random ones."""
    if kind == "communities":                   # ten edges a vertex, nine of them into its community
        rng, size = np.random.default_rng(0), max(n // 20, 1)
        i = rng.integers(0, n, 5 * n)
        inside = np.minimum(i // size * size + rng.integers(0, size, 5 * n), n - 1)
        W = sp.coo_array((np.ones(5 * n), (i, np.where(rng.random(5 * n) < 0.1, rng.integers(0, n, 5 * n), inside))), shape=(n, n)).tocsr()
        W = W + W.T
    elif kind == "preferential":
        L = ms.datasets.preferential(n, 4)
        W = sp.diags_array(L.diagonal()) - L
    else:
        return weights(kind, n)
    W.setdiag(0)
    W.eliminate_zeros()
    label = sp.csgraph.connected_components(W)[1]
    keep = np.flatnonzero(label == np.bincount(label).argmax())
    W = sp.csr_array(W[keep][:, keep])
    return sp.csr_array((np.ones(W.nnz), W.indices.astype(np.int32), W.indptr.astype(np.int32)), shape=W.shape)


def measure(kind, n, limit):
    """CPU seconds of all programs on one graph, differences of the results, and the ratio to the fastest correct peer."""
    W = graph(kind, n)
    row = {"graph": kind, "n": W.shape[0], "edges": W.nnz // 2, "programs": {}}
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(pathlib.Path(folder) / "W.npz", W)
        for name in ("meshsolve", *PEERS):
            task = {"program": name, "folder": folder, "limit": limit}
            row["programs"][name] = found = child("benchmarks.embedding_worker", task, 1, 20 * limit)
            if "cpu" in found and name != "meshsolve":
                found["difference"] = difference(*(np.load(pathlib.Path(folder) / f"{of}.npy") for of in ("meshsolve", name)))
    ours = row["programs"]["meshsolve"]
    times = [found["cpu"] for found in row["programs"].values() if found.get("difference", 1) <= WRONG]
    stopped = [found for name, found in row["programs"].items() if name != "meshsolve" and found.get("failed") == STOPPED]
    row["is_lower_bound"] = not times and bool(stopped)
    row["ratio"] = min(times, default=limit if stopped else np.nan) / ours["cpu"] if "cpu" in ours else None
    return row


def difference(X, Y):
    """Largest difference of two sets of columns up to sign, relative to the largest entry of each column."""
    X, Y = X / abs(X).max(axis=0), Y / abs(Y).max(axis=0)
    return float(np.minimum(abs(X - Y).max(axis=0), abs(X + Y).max(axis=0)).max())


def cells(row):
    """One row of the table; results that are not correct in parentheses."""
    def cell(name):
        found = row["programs"][name]
        if "cpu" not in found:
            return "stopped" if found["failed"] == STOPPED else "-"
        return f"{found['cpu']:.2f}" if found.get("difference", 0) <= WRONG else f"({found['cpu']:.2f})"

    method = row["programs"]["meshsolve"].get("method", "-")
    ratio = "-" if row["ratio"] is None else f"{'> ' * row['is_lower_bound']}{row['ratio']:.1f}"
    return [row["graph"], row["n"], cell("meshsolve"), method, *(cell(name) for name in PEERS), ratio]


if __name__ == "__main__":
    raise SystemExit(main())
