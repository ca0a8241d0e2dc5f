"""Cholesky: first solve, refactorization, memory and error, compared with PARDISO, CHOLMOD, cholespy, Eigen and libigl.

The problems are meshes. Graphs and other definite matrices are measured if they are named; they have no bar.

    python -m benchmarks.cholesky [--meshes igea ogre-1 NotreDame_www] [--quick] [--peers ...] [--repeat 5] [--threads 1 2] [--clock cpu]

Every measurement runs in a new process. The solvers take turns, A B C A B C. Prints one row for each solver and mesh, then the bars,
and writes benchmarks/results/cholesky-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import pathlib
import tempfile

import numpy as np
from tqdm import tqdm

from benchmarks import cholesky_bars
from benchmarks.measure import clock_for, describe, summary, write_json
from benchmarks.peers import METIS, SINGLE_THREAD, SOLVERS, Unavailable, available
from benchmarks.problems import Problem, find, problem_set
from benchmarks.table import Table, print_bars
from benchmarks.worker import measure

COLUMNS = ("solver", "threads", "analyze", "numeric", "solve3", "first", "refactor", "again", "peak MB", "nnz(L) M", "error")
WRONG = 1e-10                                                       # largest accepted backward error of a solution
DEFAULT = [name for name in SOLVERS if name != "cholmod-simplicial"]


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed."""
    options = parser().parse_args(arguments)
    installed, missing = available(options.peers)
    for name, why in missing.items():
        print(f"left out: {name}: {why}")
    problems = [find(m) for m in options.meshes] or problem_set("quick" if options.quick else "cholesky")
    run = describe("cholesky", options.threads, options.clock)
    run |= {"peers": installed, "left_out": missing, "rows": []}
    for problem in problems:
        with tempfile.TemporaryDirectory() as folder:
            run["rows"] += measure_problem(problem, list(installed), pathlib.Path(folder), options)
        write_json(run, options.out)                                # after each row: an interrupted run keeps its results
    run["bars"] = cholesky_bars.verdicts(run["rows"], options.clock)
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.cholesky", description=__doc__.split("\n")[0])
    p.add_argument("--meshes", nargs="+", default=[], help="names (igea, igea-1, icosphere-7; volumes, graphs and matrices: tetrahedra-100, NotreDame_www, ibmpg1_G) or mesh files")
    p.add_argument("--quick", action="store_true", help="four meshes only")
    p.add_argument("--peers", nargs="+", default=DEFAULT, choices=list(SOLVERS), metavar="NAME", help=", ".join(SOLVERS))
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--timeout", type=float, default=300, help="seconds a single measurement may take")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def measure_problem(problem, names, folder, options):
    """Rows of all solvers and thread counts on one mesh or matrix."""
    system = problem.system()
    system.save(folder / "system.npz")
    perm = metis_permutation(system.A, folder) if any(name.endswith("-given") for name in names) else None
    names = [name for name in names if perm or not name.endswith("-given")]
    least = min(options.threads)
    runs = {(name, t): [] for t in options.threads for name in names if t == least or name not in SINGLE_THREAD}
    steps = [key for _ in range(options.repeat) for key in runs]
    for name, t in tqdm(steps, desc=problem.name, leave=False, disable=None):
        done = runs[name, t]
        if not done or "failed" not in done[-1]:                     # a solver that failed is skipped from now on
            done.append(measure(name, folder / "system.npz", perm if name.endswith("-given") else None, t,
                                timeout=options.timeout))
    print(f"\n{problem.name}: {system.n} unknowns, {system.A.nnz} nonzeros; median {options.clock} seconds, 3 right-hand sides")
    table, rows = Table(*COLUMNS), []
    for (name, t), done in runs.items():
        rows.append({"mesh": problem.name, "is_mesh": isinstance(problem, Problem), "n": system.n, "solver": name, "threads": t, **condense(done)})
        table.row(*cells(rows[-1], options.clock))
    return rows


def metis_permutation(A, folder):
    """File with METIS' permutation, for solvers with a given order. None without pymetis."""
    try:
        peer = METIS()
    except Unavailable as e:
        print(f"left out: numeric phases on METIS' permutation: {e}")
        return None
    np.save(folder / "perm.npy", peer.perm(peer.run(peer.graph(A))))
    return folder / "perm.npy"


def condense(runs):
    """Medians and quartiles over the runs of one solver. A failed or wrong run makes the row a failure."""
    failed = [run["failed"] for run in runs if "failed" in run]
    if failed:
        return {"failed": failed[0]}
    error = max(max(run["error"], run["error_again"]) for run in runs)
    if not error < WRONG:
        return {"failed": f"wrong solution, backward error {error:.1e}"}
    again = [one for run in runs for one in run["again"]]
    row = {"seconds": {}, "peak": summary(run["peak"] for run in runs), "facts": runs[-1]["facts"],
           "error": error, "bits": sorted({run["bits"] for run in runs})}
    for clock in ("wall", "cpu"):
        phases = {name: summary(run["first"][clock][name] for run in runs) for name in runs[0]["first"][clock]}
        phases["first"] = summary(sum(run["first"][clock].values()) for run in runs)
        phases["refactor"] = summary(one[clock]["refactor"] for one in again)
        phases["solve again"] = summary(one[clock]["solve"] for one in again)
        phases["again"] = summary(sum(one[clock].values()) for one in again)
        row["seconds"][clock] = phases
    return row


def cells(row, clock):
    """The columns of one row."""
    if "failed" in row:
        return [row["solver"], row["threads"], "failed:", row["failed"]]
    seconds = {name: s["median"] for name, s in row["seconds"][clock_for(row["threads"], clock)].items()}
    parts = row["facts"].get("report", {}).get("seconds", {})          # one call of meshsolve: phases from its report
    analyze = seconds.get("analyze", sum(parts.get(k, 0.0) for k in ("patches", "order", "symbolic")) if parts else None)
    numeric = seconds.get("factor", parts.get("numeric"))
    nnz = row["facts"].get("nnz_L")
    return [row["solver"], row["threads"], analyze, numeric, *(seconds[k] for k in ("solve", "first", "refactor", "again")),
            row["peak"]["median"] / 1e6, nnz / 1e6 if nnz else None, row["error"]]


if __name__ == "__main__":
    raise SystemExit(main())
