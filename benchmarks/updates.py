"""Updates of a factor whose matrix changes in a few rows, compared with CHOLMOD's, and the diagonal of the inverse.

    python -m benchmarks.updates [--meshes igea ogre-1] [--quick] [--repeat 9] [--threads 1] [--device cuda]

``update`` and ``downdate`` add and remove a weight on 1 or 10 random vertices. CHOLMOD uses its simplicial L D L^T on METIS' order, the
only factor that its updates accept. ``refactor`` is the alternative to an update. ``inverse`` is the diagonal of A^-1, for which CHOLMOD
has no function. All calls take turns in one process. Solutions with each changed matrix are checked first. With ``--device cuda`` our
factor and its matrix lie on a GPU. Prints a row for each mesh and writes benchmarks/results/updates-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from benchmarks.measure import clock_for, describe, geometric_mean, interleave, library_threads, summary, write_json
from benchmarks.peers import available
from benchmarks.peers.cholmod import Cholmod
from benchmarks.problems import find, problem_set
from benchmarks.table import Table, bar, print_bars
from benchmarks.worker import backward_error
from meshsolve import device
from meshsolve.sparse.matrix import as_csr

COLUMNS = ("mesh", "vertices", "refactor", "update 1", "CHOLMOD", "downdate 1", "CHOLMOD", "update 10", "CHOLMOD", "inverse")
COUNTS = (1, 10)                                # columns of C
WEIGHT = 10.0                                   # weight, relative to the mean diagonal
WRONG = 1e-10                                   # backward error that ends the run


def main(arguments=None):
    """Run the benchmark. Returns 1 if a solution is wrong."""
    options = parser().parse_args(arguments)
    installed, missing = available(["cholmod-simplicial"])
    run = describe("updates", [options.threads], options.clock) | {"peers": installed, "left_out": missing, "rows": []}
    for name, why in missing.items():
        print(f"left out: {name}: {why}")
    table = Table(*COLUMNS)
    with library_threads(options.threads):
        for problem in [find(m) for m in options.meshes] or problem_set("quick" if options.quick else "cholesky"):
            row = {"mesh": problem.name} | measure(problem.system(), options, bool(installed))
            run["rows"].append(row)
            table.row(*cells(row, run))
            write_json(run, options.out)
    run["bars"] = verdicts(run)
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.updates", description=__doc__.split("\n")[0])
    p.add_argument("--meshes", nargs="+", default=[], help="names (igea, ogre-1, icosphere-7) or mesh files")
    p.add_argument("--quick", action="store_true", help="four meshes only")
    p.add_argument("--repeat", type=int, default=9)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where our factor lies")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def measure(S, options, has_peer):
    """Seconds of all tasks on one system, and the largest backward error of a changed matrix."""
    A = S.A if options.device == "cpu" else on_gpu(S.A)
    ours, peer = ms.cholesky(A, threads=options.threads, device=options.device), cholmod(S) if has_peer else None
    tasks = {"refactor": lambda: ours.refactor(A), "inverse": lambda: device.to_host(ours.inverse_diagonal())}
    error = 0.0
    for k in COUNTS:
        C = weights(S, k)
        tasks |= {f"update {k}": lambda C=C: ours.update(C), f"downdate {k}": lambda C=C: ours.downdate(C)}
        if peer:
            tasks |= {f"cholmod update {k}": lambda C=C: peer.update(C), f"cholmod downdate {k}": lambda C=C: peer.update(C, up=False)}
        error = max(error, error_of(S, C, ours, peer))
    seconds = interleave(tasks, options.repeat)[1]
    if peer:
        peer.close()
    if error > WRONG:
        raise RuntimeError(f"backward error {error:.1e}")
    return {"n": S.n, "error": error, "seconds": {name: {clock: summary(v) for clock, v in found.items()} for name, found in seconds.items()}}


def on_gpu(A):
    """A as a csr_matrix of CuPy."""
    M = as_csr(A).uploaded()
    return device.csr(M.data, M.indices, M.indptr, A.shape)


def cholmod(S):
    """CHOLMOD's simplicial factor on METIS' order."""
    peer = Cholmod("metis", kind="simplicial")
    M = peer.matrix(S.A)
    peer.analyze(M)
    peer.factor(M)
    return peer


def weights(S, k):
    """(n, k) csc_array with a weight on a vertex in each column."""
    rows = np.sort(np.random.default_rng(k).choice(S.n, k, replace=False)).astype(np.int32)
    values = np.full(k, np.sqrt(WEIGHT * S.A.diagonal().mean()))
    return sp.csc_array((values, rows, np.arange(k + 1, dtype=np.int32)), shape=(S.n, k))


def error_of(S, C, ours, peer):
    """Backward error of solutions with A + C C^T; both factors are those of A again afterwards."""
    changed, b = sp.csr_array(S.A + C @ C.T), S.B[:, :1]
    ours.update(C)
    errors = [backward_error(changed, ours.solve(b), b)]
    ours.downdate(C)
    if peer:
        peer.update(C)
        errors.append(backward_error(changed, peer.solve(peer.rhs(b)), b))
        peer.update(C, up=False)
    return max(errors)


def of(row, name, run):
    """The median of a task, or None."""
    found = row["seconds"].get(name)
    return found[clock_for(run["threads"][0], run["clock"])]["median"] if found else None


def cells(row, run):
    """One row of the table."""
    names = ("refactor", "update 1", "cholmod update 1", "downdate 1", "cholmod downdate 1", "update 10", "cholmod update 10", "inverse")
    return [row["mesh"], row["n"], *(of(row, name, run) for name in names)]


def verdicts(run):
    """Geometric means of CHOLMOD's time over ours. A miss is no failure."""
    bars = []
    for name in (f"{kind} {k}" for k in COUNTS for kind in ("update", "downdate")):
        ratios = [of(row, f"cholmod {name}", run) / of(row, name, run) for row in run["rows"] if of(row, f"cholmod {name}", run)]
        bars.append(bar(f"{name}: times faster than CHOLMOD, geometric mean", geometric_mean(ratios), 1.0, asked=False))
    ratios = [of(row, "refactor", run) / of(row, "update 1", run) for row in run["rows"]]
    bars.append(bar("update 1: times faster than a refactorization, geometric mean", geometric_mean(ratios), 1.0, asked=False))
    return bars


if __name__ == "__main__":
    raise SystemExit(main())
