"""Symmetric indefinite systems: the number solved and the time, compared with MKL PARDISO, SuperLU and MINRES.

    python -m benchmarks.ildl [--problems cont-201_kkt kkt-random-50k] [--quick] [--peers ...] [--repeat 3] [--threads 1]

Solutions are random. A system counts as solved if ||b - A x|| <= 1e-6 ||b||, unscaled. Every measurement has its own process. Prints
one row for each solver and system, then the bars, and writes benchmarks/results/ildl-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import warnings

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from tqdm import tqdm

import meshsolve as ms
from benchmarks.measure import Stopwatch, clock_for, describe, geometric_mean, summary, thread_environment, write_json
from benchmarks.problems import data_folder
from benchmarks.table import Table, bar, print_bars

SOLVED = 1e-6
LARGE = 50_000                                   # smallest system of the bar on two threads, which is a speedup of 1.5
PARALLEL = (("meshsolve-complete", "factor", True), ("meshsolve-complete", "solve", False),
            ("meshsolve-incomplete", "factor", False), ("meshsolve-incomplete", "solve", False), ("meshsolve", "total", True), ("meshsolve", "again", True))
WORST = 1e99                                     # residual of a solution that is not finite
COLUMNS = ("solver", "threads", "analyze", "factor", "solve", "total", "its", "nnz(L) M", "residual", "inertia")
GENERATED = {
    "stokes-128": lambda: ms.datasets.stokes(128),
    "helmholtz-2d-15": lambda: ms.datasets.helmholtz(200, 15, 2),
    "helmholtz-2d-40": lambda: ms.datasets.helmholtz(200, 40, 2),
    "helmholtz-3d-15": lambda: ms.datasets.helmholtz(30, 15, 3),
    "kkt-random-10k": lambda: ms.datasets.kkt(7000, 3000, seed=1),
    "kkt-random-50k": lambda: ms.datasets.kkt(35000, 15000, seed=2),
    "kkt-banded-50k": lambda: ms.datasets.kkt(33000, 17000, seed=3, kind="banded"),
    "kkt-banded-200k": lambda: ms.datasets.kkt(133000, 67000, seed=4, kind="banded"),
}
MORE = {                                         # of meshes and grids, measured on request
    "stokes-400": lambda: ms.datasets.stokes(400),
    "constrained-smoothing-7": lambda: ms.datasets.constrained_smoothing(ms.datasets.icosphere(7)),
    "conformal-map-7": lambda: ms.datasets.conformal_map(ms.datasets.icosphere(7)),
    "grid-means-6": lambda: _with_means(ms.datasets.grid2d(400, 400), 6),
    "grid-means-100": lambda: _with_means(ms.datasets.grid2d(150, 150), 100),
}
QUICK = ("tuma2", "cont-101_kkt", "hangGlider_2", "aug3d_kkt", "stokes-128", "kkt-random-10k")


def _with_means(L, count):
    """A Laplacian with prescribed weighted means of all unknowns."""
    C = sp.csr_array(np.random.default_rng(0).random((count, L.shape[0])))
    return sp.csr_array(sp.block_array([[L, C.T], [C, None]]))


# ---- solvers: run(A, b, watch) -> (x, facts) -------------------------------------------------------------------------------


def run_solve(A, b, watch):
    """``ms.solve(method="ildl")`` with defaults: the first call in a process, which allocates its memory from the system, and
    ``again``, the fastest of three further calls."""
    with watch.phase("total"):
        x, info = ms.solve(A, b, method="ildl", rtol=SOLVED)
    seconds, facts = info.report.seconds, info.report.facts
    watch.wall |= {"analyze": _analysis(info.report), "factor": seconds["numeric"], "solve": seconds["solve"]}
    for attempt in range(3):
        later = Stopwatch()
        with later.phase("again"):
            ms.solve(A, b, method="ildl", rtol=SOLVED)
        _least("again", watch, later, attempt)
    return x, {"iterations": info.iterations, "nnz_L": facts["nnz_L"], "steps": facts["steps_taken"]}


def run_complete(A, b, watch):
    """The complete factor."""
    K = _factored(A, None, watch)
    with watch.phase("solve"):
        x = K.solve(b)
        x += K.solve(b - A @ x)
    return x, {"inertia": K.inertia, "nnz_L": K.nnz, "delayed": K.report.facts["delayed"]}


def run_incomplete(A, b, watch):
    """The incomplete factor of level 2 and SQMR with it, 300 iterations at most."""
    K = _factored(A, 2, watch)
    with watch.phase("solve"):
        x, info = ms.sqmr(A, b, M=K, rtol=SOLVED, maxiter=300)
    return x, {"iterations": info.iterations, "nnz_L": K.nnz}


def _factored(A, fill_level, watch):
    """Our factor; ``factor`` is a refactorization, the smallest of three."""
    with watch.phase("first"):
        K = ms.ildl(A, fill_level=fill_level)
    watch.wall["analyze"] = _analysis(K.report)
    for attempt in range(3):
        again = Stopwatch()
        with again.phase("factor"):
            K.refactor(A)
        _least("factor", watch, again, attempt)
    return K


def _analysis(report):
    """Seconds of the phases that read only the pattern, and of the matching."""
    return sum(report.seconds.get(k, 0) for k in ("matching", "patches", "order", "symbolic"))


def run_pardiso(matching):
    """MKL PARDISO, mtype -2."""
    def run(A, b, watch):
        from benchmarks.peers.pardiso import PardisoIndefinite

        peer = PardisoIndefinite(matching)
        M = peer.matrix(A)
        with watch.phase("analyze"):
            peer.analyze(M)
        for attempt in range(3):
            again = Stopwatch()
            with again.phase("factor"):
                peer.factor(M)
            _least("factor", watch, again, attempt)
            if again.wall["factor"] > 2:
                break
        with watch.phase("solve"):
            x = peer.solve(np.asfortranarray(b[:, None]))[:, 0]
        return x, {"nnz_L": peer.facts()["nnz_L"], "inertia": (int(peer.iparm[21]), int(peer.iparm[22]))}
    return run


def run_superlu(A, b, watch):
    """scipy's SuperLU, default options."""
    with watch.phase("factor"):
        F = spla.splu(sp.csc_matrix(A))
    with watch.phase("solve"):
        x = F.solve(b)
    return x, {"nnz_L": int(F.nnz)}


def run_minres(A, b, watch):
    """scipy's MINRES on the equilibrated matrix, 2000 iterations at most."""
    size = abs(A).max(axis=1).toarray().ravel()
    s = 1 / np.sqrt(np.where(size > 0, size, 1))
    S, count = sp.diags_array(s), [0]
    with watch.phase("solve"):
        y, _ = spla.minres(sp.csr_matrix(S @ A @ S), s * b, rtol=1e-9, maxiter=2000, callback=lambda _: count.__setitem__(0, count[0] + 1))
    return s * y, {"iterations": count[0]}


SOLVERS = {"meshsolve": run_solve, "meshsolve-complete": run_complete, "meshsolve-incomplete": run_incomplete,
           "pardiso": run_pardiso(False), "pardiso-matching": run_pardiso(True), "superlu": run_superlu, "minres": run_minres}


def _least(phase, watch, again, attempt):
    if attempt == 0 or again.cpu[phase] < watch.cpu[phase]:
        watch.wall[phase], watch.cpu[phase] = again.wall[phase], again.cpu[phase]


# ---- measuring ---------------------------------------------------------------------------------------------------------------


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed."""
    options = parser().parse_args(arguments)
    if options.worker:
        print(json.dumps(measure_here(*options.worker)))
        return 0
    names = options.problems or [p for p in problems() if not options.quick or p in QUICK]
    run = describe("ildl", options.threads, options.clock) | {"peers": options.peers, "rows": []}
    table = Table(*COLUMNS, first=20)
    for name in tqdm(names, leave=False, disable=None):
        print(f"\n{name}", flush=True)
        for threads in options.threads:
            for solver in options.peers:
                row = {"problem": name, "solver": solver, "threads": threads} | measure(name, solver, threads, options)
                run["rows"].append(row)
                table.row(*cells(row, options.clock))
        write_json(run, options.out)
    run["bars"] = verdicts(run["rows"], options.clock)
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.ildl", description=__doc__.split("\n")[0])
    p.add_argument("--problems", nargs="+", default=[], metavar="NAME", help=f"files of the data folder's indefinite/ or generated ones; also {', '.join(MORE)}")
    p.add_argument("--quick", action="store_true", help="six systems only")
    p.add_argument("--peers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS), metavar="NAME", help=", ".join(SOLVERS))
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--threads", nargs="+", type=int, default=[1])
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--timeout", type=float, default=120, help="seconds a single measurement may take")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    p.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    return p


def problems():
    """Names of all systems: files of the data folder, then generated ones."""
    folder = data_folder()
    files = sorted((folder / "indefinite").glob("*.mtx*")) if folder else []
    return [f.name.removesuffix(".gz").removesuffix(".mtx") for f in files] + list(GENERATED)


def load(name):
    """The matrix of a system by name."""
    if name in GENERATED | MORE:
        return sp.csr_array((GENERATED | MORE)[name]())
    from scipy.io import mmread

    found = sorted((data_folder() / "indefinite").glob(f"{name}.mtx*"))
    return sp.csr_array(mmread(found[0], spmatrix=False)).astype(float)


def measure_here(name, solver):
    """One measurement in this process, as JSON-able dict."""
    warnings.simplefilter("ignore")
    A = load(name)
    b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
    small = ms.datasets.kkt(60, 20)
    SOLVERS[solver](small, small @ np.ones(80), Stopwatch())                # loads libraries, starts threads
    watch = Stopwatch()
    x, facts = SOLVERS[solver](A, b, watch)
    residual = float(np.nan_to_num(np.linalg.norm(b - A @ x) / np.linalg.norm(b), nan=WORST, posinf=WORST))
    return {"n": A.shape[0], "nnz": A.nnz, "residual": residual, "facts": facts, **watch.as_dict()}


def measure(name, solver, threads, options):
    """Repeated measurements of one solver on one system, each in its own process."""
    done = []
    for _ in range(options.repeat):
        try:
            child = subprocess.run([sys.executable, "-m", "benchmarks.ildl", "--worker", name, solver], capture_output=True, text=True,
                                   cwd=pathlib.Path(__file__).parents[1], env=thread_environment(threads), timeout=options.timeout)
        except subprocess.TimeoutExpired:
            return {"failed": f"no result after {options.timeout:g} s"}
        if child.returncode:
            return {"failed": (child.stderr.strip().splitlines() or ["exit status"])[-1][:120]}
        done.append(json.loads(child.stdout.splitlines()[-1]))
    seconds = {}
    for clock in ("wall", "cpu"):
        seconds[clock] = {phase: summary(run[clock][phase] for run in done) for phase in done[0][clock]}
        if "total" not in seconds[clock]:
            phases = ("first", "solve") if "first" in done[0][clock] else list(done[0][clock])
            seconds[clock]["total"] = summary(sum(run[clock][k] for k in phases) for run in done)
    last = done[-1]
    return {"n": last["n"], "nnz": last["nnz"], "residual": max(run["residual"] for run in done), "facts": last["facts"], "seconds": seconds}


def cells(row, clock):
    """The columns of one row."""
    if "failed" in row:
        return [row["solver"], row["threads"], "failed:", row["failed"]]
    seconds = {phase: s["min"] for phase, s in row["seconds"]["wall"].items()}
    seconds |= {phase: s["min"] for phase, s in row["seconds"][clock_for(row["threads"], clock)].items()}
    facts = row["facts"]
    nnz = facts.get("nnz_L")
    return [row["solver"], row["threads"], *(seconds.get(k) for k in ("analyze", "factor", "solve", "total")), facts.get("iterations"),
            nnz / 1e6 if nnz else None, f"{row['residual']:.1e}", "/".join(map(str, facts.get("inertia", ()))) or None]


def verdicts(rows, clock):
    """The project's bars on these rows: one thread, then the speedup of two."""
    one = {(r["problem"], r["solver"]): r for r in rows if r["threads"] == min(x["threads"] for x in rows)}
    names = list(dict.fromkeys(problem for problem, _ in one))
    solved = [p for p in names if one.get((p, "meshsolve"), {}).get("residual", 1) <= SOLVED]
    ratio = lambda p, phase, ours, theirs: _seconds(one, p, ours, phase, clock) / _seconds(one, p, theirs, phase, clock)
    both = [p for p in names if all("seconds" in one.get((p, s), {}) for s in ("meshsolve-complete", "pardiso"))]
    factor = {p: ratio(p, "factor", "meshsolve-complete", "pardiso") for p in both}
    exact = [one[p, "meshsolve-complete"]["residual"] for p in names if "seconds" in one.get((p, "meshsolve-complete"), {})]
    bars = [bar(f"systems of {len(names)} that ms.solve solves", len(solved), len(names) - 2),
            bar("complete factor over PARDISO's, geometric mean", geometric_mean(factor.values()), 1.5, at_least=False),
            bar("complete factor: largest residual", max(exact, default=np.nan), 1e-9, at_least=False)]
    if factor:
        worst = max(factor, key=factor.get)
        bars.append(bar(f"complete factor over PARDISO's, worst ({worst})", factor[worst], 1.5, at_least=False, asked=False))
    big = "kkt-random-50k"
    if all("seconds" in one.get((big, s), {}) for s in ("meshsolve", "pardiso")):
        bars.append(bar(f"{big}: times faster than PARDISO", 1 / ratio(big, "total", "meshsolve", "pardiso"), 20))
    return bars + speedups(rows)


def speedups(rows):
    """Wall-clock speedup of two threads on systems of at least 50,000 unknowns."""
    at = {(r["problem"], r["solver"], r["threads"]): r["seconds"]["wall"] for r in rows if "seconds" in r and r["n"] >= LARGE}
    bars = []
    for solver, phase, asked in PARALLEL:
        both = [p for p, s, t in at if s == solver and t == 1 and (p, s, 2) in at]
        gain = {p: at[p, solver, 1][phase]["min"] / at[p, solver, 2][phase]["min"] for p in both if phase in at[p, solver, 1]}
        if gain:
            worst = min(gain, key=gain.get)
            bars += [bar(f"{solver}, {phase}: 2 threads over 1, geometric mean", geometric_mean(gain.values()), 1.5, asked=asked),
                     bar(f"{solver}, {phase}: 2 threads over 1, worst ({worst})", gain[worst], 1.5, asked=False)]
    return bars


def _seconds(rows, problem, solver, phase, clock):
    return rows[problem, solver]["seconds"][clock][phase]["min"]


if __name__ == "__main__":
    raise SystemExit(main())
