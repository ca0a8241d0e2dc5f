"""ParAC: factor and conjugate gradients, compared with algebraic multigrid and IC(0); iterations and fill against the bars.

    python -m benchmarks.parac [--problems road delaunay] [--quick] [--peers ...] [--repeat 3] [--limit 120] [--threads 1 2]

For each problem and order: iterations to 1e-6 (median of five seeds), fill, and nanoseconds per entry of G. These are for the
factor, for the two triangular solves in the factor's numbering, and for both in the caller's numbering, which adds two
permutations. Then the gain of two threads, and set-up and solve to 1e-8 of meshsolve and of the peers. Writes
benchmarks/results/parac-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import warnings
from dataclasses import dataclass

import numpy as np

import meshsolve as ms
from benchmarks import iterative
from benchmarks.measure import Stopwatch, clock_for, describe, dgemm_rate, interleave, write_json
from benchmarks.peers import available
from benchmarks.peers.iterative import ITERATIVE
from benchmarks.problems import data_folder, graph_laplacian_of
from benchmarks.table import Table, bar, print_bars

ORDERINGS = ("amd", "nnz_sort", "rounds")
SEEDS, TOLERANCE, WRONG = 5, 1e-8, 1.1e-8
SOLVES = 10                                         # pairs of triangular solves, of which the fastest counts
SHARED = 100_000                                    # rows from which two threads must be faster
FAST_CORE = 40                                      # Gflop/s of dgemm from which the bars in nanoseconds hold; slower cores get more
GAINS = {"amd": 1.4, "nnz_sort": 1.6, "rounds": 1.6}        # bar: speedup of the factor by two threads


@dataclass(frozen=True)
class Problem:
    """A matrix and its bars: iterations by ordering, times faster than multigrid and IC(0), ns per entry of G."""

    make: object
    iterations: tuple = (None, None, None)
    multigrid: float | None = None
    incomplete: float | None = None
    nanoseconds: float | None = None
    accurate: bool = True               # a random right-hand side can be solved to 1e-8
    quick: bool = False


PROBLEMS = {
    "grid2d-1000": Problem(lambda: ms.datasets.grid2d(1000, 1000), (45, 49, 40), 0.9, 10, 80),
    "grid3d-100": Problem(lambda: ms.datasets.grid3d(100), (28, 27, 25), 0.9, None, 130),
    "grid3d-weighted": Problem(lambda: ms.datasets.grid3d(100, "weighted"), (19, 19, None), None, None, 130),
    "grid3d-log-uniform": Problem(lambda: ms.datasets.grid3d(100, "log-uniform"), (46, 46, 34), None, None, 130),
    "grid3d-checkerboard": Problem(lambda: ms.datasets.grid3d(100, "checkerboard", boundary="dirichlet"), (41, 39, None),
                                   nanoseconds=130, accurate=False),
    "delaunay-500k": Problem(lambda: ms.datasets.delaunay(500_000), (30, 36, 34), 1.8, 10, 80),
    "road-500k": Problem(lambda: ms.datasets.road_like(500_000), (46, 68, 34), 3.5, 10, 80),
    "rmat-17": Problem(lambda: ms.datasets.rmat(17), multigrid=4, nanoseconds=420),
    "preferential-131k": Problem(lambda: ms.datasets.preferential(131_072, 8), nanoseconds=420),
    "power-grid-70k": Problem(lambda: real_graph("case_ACTIVSg70k_L.mtx.gz"), multigrid=10, nanoseconds=80, quick=True),
    "web-NotreDame": Problem(lambda: real_graph("NotreDame_www.mtx.gz"), (29, 75, 41)),
    "delaunay-50k": Problem(lambda: ms.datasets.delaunay(50_000), quick=True),
    "road-50k": Problem(lambda: ms.datasets.road_like(50_000), quick=True),
    "grid3d-30": Problem(lambda: ms.datasets.grid3d(30), quick=True),
}


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed."""
    options = parser().parse_args(arguments)
    installed, missing = available(options.peers, ITERATIVE)
    for name, why in missing.items():
        print(f"left out: {name}: {why}")
    names = options.problems or [name for name, p in PROBLEMS.items() if p.quick == options.quick or (p.quick and name.startswith("power"))]
    run = describe("parac", options.threads, options.clock)
    run |= {"peers": installed, "left_out": missing, "dgemm": dgemm_rate(), "rows": []}
    for name in names:
        try:
            A = PROBLEMS[name].make()
        except FileNotFoundError as e:
            print(f"left out: {name}: {e}")
            continue
        run["rows"].append(measure_problem(name, A, list(installed), options))
        write_json(run, options.out)                                # after each row: an interrupted run keeps its results
    run["bars"] = verdicts(run["rows"], options.clock, run["dgemm"])
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.parac", description=__doc__.split("\n")[0])
    p.add_argument("--problems", nargs="+", default=[], choices=list(PROBLEMS), metavar="NAME", help=", ".join(PROBLEMS))
    p.add_argument("--quick", action="store_true", help="four small problems only")
    p.add_argument("--peers", nargs="*", default=list(ITERATIVE), choices=list(ITERATIVE), metavar="NAME", help=", ".join(ITERATIVE))
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--limit", type=float, default=120, help="seconds after which a solver is stopped on a problem and marked so")
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def real_graph(name):
    """The Laplacian of the largest component of a graph in the data folder; files named _L are Laplacians already."""
    folder = data_folder()
    path = None if folder is None else folder / "graphs" / name
    if path is None or not path.is_file():
        raise FileNotFoundError(f"no graphs/{name} in the data folder (MESHSOLVE_DATA)")
    return graph_laplacian_of(path)


# ---- measurements -----------------------------------------------------------------------------------------------------------


def measure_problem(name, A, peers, options):
    """The row of one problem: ``orders`` and ``solvers``."""
    problem, n = PROBLEMS[name], A.shape[0]
    print(f"\n{name}: {n} vertices, {A.nnz} nonzeros")
    row = {"problem": name, "n": n, "nnz": int(A.nnz), "orders": {}, "solvers": {}}
    table = Table("order", "copies", "it 1e-6", "fill", "factor s", "order s", "ns/entry", "pair ns", "apply ns")
    for ordering in ORDERINGS:
        for samples in (1, 2):
            found = row["orders"][f"{ordering}-{samples}"] = measure_order(A, ordering, samples, options)
            table.row(ordering, samples, found["iterations"], found["fill"], found["seconds"]["numeric"], found["seconds"]["order"],
                      found["ns_per_entry"], found["ns_per_entry_solve"], found["ns_per_entry_apply"])
    if options.clock == "wall" and len(options.threads) > 1:
        row["factor_threads"] = {o: measure_threads(A, o, options) for o in ORDERINGS}
        table = Table("order", *(f"factor s, {t} threads" for t in options.threads))
        for ordering, seconds in row["factor_threads"].items():
            table.row(ordering, *seconds.values())
    if problem.accurate:
        row["solvers"] = measure_solvers(A, peers, options)
    return row


def measure_order(A, ordering, samples, options):
    """One order: median iterations over the seeds; least CPU seconds of factor and solve on one thread."""
    rng = np.random.default_rng(0)
    iterations, numeric, order, pair, apply = [], [], [], [], []
    for seed in range(SEEDS):
        watch = Stopwatch()
        with watch.phase("order"):
            chosen = ordering if ordering == "rounds" else getattr(ms.order, ordering)(A)
        with watch.phase("numeric"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.MeshsolveWarning)
            P = ms.parac(A, ordering=chosen, samples=samples, seed=seed, threads=1, device="cpu")
        numeric.append(watch.cpu["numeric"])
        order.append(watch.cpu["order"])
        b = _in_range(rng.standard_normal(A.shape[0]), P)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.MeshsolveWarning)
            iterations.append(ms.cg(A, b, M=P, rtol=1e-6, maxiter=2000, threads=1)[1].iterations)
        block, out = b[:, None].copy(), np.empty((len(b), 1))
        pair.append(least_cpu(lambda P=P, block=block, out=out: P.apply_inside(block, out)))
        apply.append(least_cpu(lambda P=P, block=block, out=out: P.apply_columns(block, out)))
    return {"iterations": statistics.median(iterations), "fill": 2 * P.nnz / A.nnz,
            "seconds": {"numeric": min(numeric), "order": min(order), "pair": min(pair), "apply": min(apply)},
            "ns_per_entry": 1e9 * min(numeric) / P.nnz, "ns_per_entry_solve": 1e9 * min(pair) / P.nnz,
            "ns_per_entry_apply": 1e9 * min(apply) / P.nnz}


def least_cpu(solve):
    """CPU seconds of the fastest of some solves. CG does dozens with one factor, and the first allocates memory."""
    def once():
        watch = Stopwatch()
        with watch.phase("solve"):
            solve()
        return watch.cpu["solve"]
    return min(once() for _ in range(SOLVES))


def measure_threads(A, ordering, options):
    """Wall seconds of the factor for each number of threads: minimum of ``repeat`` interleaved runs."""
    chosen = ordering if ordering == "rounds" else getattr(ms.order, ordering)(A)

    def factor(threads):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.MeshsolveWarning)
            ms.parac(A, ordering=chosen, samples=1, threads=threads, device="cpu")
    seconds = interleave({str(t): lambda t=t: factor(t) for t in options.threads}, options.repeat)[1]
    return {t: min(found["wall"]) for t, found in seconds.items()}


def measure_solvers(A, peers, options):
    """Ours with each number of threads, and the peers on one, on a random right-hand side in the range of A."""
    b, measured = _in_range(np.random.default_rng(7).standard_normal(A.shape[0]), ms.parac(A, threads=1, device="cpu")), {}
    table = Table("solver, to 1e-8", "threads", "set-up", "solve", "total", "iterations", "error")
    tasks = [(f"parac-{o}-{t}t", f"parac-{o}", t) for t in options.threads for o in ("auto", "amd")] + [(name, name, 1) for name in peers]
    with tempfile.TemporaryDirectory() as folder:
        iterative.save(folder, A, b)
        for key, solver, threads in tasks:
            found = measured[key] = iterative.measure(folder, solver, threads, options, TOLERANCE, WRONG)
            clock = clock_for(threads, options.clock)
            if "seconds" not in found:
                print(f"{key}: {found['failed']}", flush=True)
                continue
            table.row(key, threads, *(found["seconds"][clock][k]["median"] for k in ("setup", "solve", "total")), found["iterations"],
                      found["error"])
    return measured


def _in_range(b, P):
    block = b[:, None].copy()
    P.project(block)
    return block[:, 0]


# ---- bars -----------------------------------------------------------------------------------------------------------------


def verdicts(rows, clock="wall", dgemm=FAST_CORE):
    """All bars of the problems that were measured on a core of ``dgemm`` Gflop/s, as dicts (see :func:`benchmarks.table.bar`)."""
    bars = []
    for row in rows:
        name, problem = row["problem"], PROBLEMS[row["problem"]]
        for ordering, most in zip(ORDERINGS, problem.iterations, strict=True):
            for samples, share in ((1, 1.0), (2, 0.75)):
                if most is not None:
                    value = row["orders"][f"{ordering}-{samples}"]["iterations"]
                    bars.append(bar(f"{name}, {ordering}, {samples} copies: iterations to 1e-6", value, most * share, at_least=False))
        bars += _costs(row, problem, max(1.0, FAST_CORE / dgemm)) + _gains(row)
        bars += _against(row, "multigrid", ("pyamg-sa", "pyamg-rs"), problem.multigrid, clock)
        bars += _against(row, "IC(0)", ("ilupp-ic0",), problem.incomplete, clock)
    return bars


def _costs(row, problem, slower):
    """Nanoseconds per entry of G on a core that is ``slower`` than that of the bars. Only amd has a bar: its factor reads memory in order.
    The factors of the other two orders take twice the time on any machine; their times are only printed."""
    name, bars = row["problem"], []
    for ordering in ORDERINGS if problem.nanoseconds else ():
        value = row["orders"][f"{ordering}-1"]["ns_per_entry"]
        bars.append(bar(f"{name}, {ordering}: factor, ns per entry of G", value, problem.nanoseconds * slower, False,
                        ordering == "amd"))
    amd = row["orders"]["amd-1"]
    bars.append(bar(f"{name}, amd: solve pair, ns per entry of G", amd["ns_per_entry_solve"], 2.5, False))
    bars.append(bar(f"{name}, amd: the same in the caller's numbering", amd["ns_per_entry_apply"], 2.5, False, asked=False))
    return bars


def _gains(row):
    """Two threads against one: amd, and the better of the other two, one of which must reach its bar."""
    found = row.get("factor_threads", {})
    gain = {o: s["1"] / s["2"] for o, s in found.items() if "1" in s and "2" in s}
    if not gain:
        return []
    free = max(("nnz_sort", "rounds"), key=gain.get)
    return [bar(f"{row['problem']}, {o}: factor, two threads against one", gain[o], GAINS[o], asked=o in ("amd", free) and row["n"] >= SHARED)
            for o in ORDERINGS]


def _against(row, what, names, bound, clock):
    """Speedup over the fastest peer, set-up and solve, one thread. A stopped peer counts with its time limit as a lower bound."""
    ours = row["solvers"].get("parac-auto-1t", {})
    peers = [row["solvers"].get(name, {}) for name in names]
    theirs = [p["seconds"][clock]["total"]["median"] if "seconds" in p else p["stopped"] for p in peers if "seconds" in p or "stopped" in p]
    if bound is None or not theirs or "seconds" not in ours:
        return []
    solved = [p["seconds"][clock]["total"]["median"] for p in peers if "seconds" in p]
    ratio, exact = min(theirs) / ours["seconds"][clock]["total"]["median"], min(theirs) in solved
    what = f"{row['problem']}: times faster than {what}{'' if exact else ', at least'}, set-up and solve to 1e-8"
    return [bar(what, ratio if exact or ratio >= bound else None, bound)]


if __name__ == "__main__":
    raise SystemExit(main())
