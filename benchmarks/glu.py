"""LU: refactorization, solve, analysis and storage, compared with KLU, PARDISO (mtype 11) and scipy's SuperLU.

    python -m benchmarks.glu [--sizes 20 200] [--circuits] [--quick] [--repeat 7] [--threads 1 2] [--clock cpu] [--device cuda]

The matrices are generated circuits (see :mod:`benchmarks.circuits`) of --sizes thousand unknowns, and the unsymmetric matrices in the
circuit folder of the data: circuits, power grids, flow, chemistry. --transient runs circuits over time with the same loop on KLU, see
:mod:`benchmarks.transient`. --device cuda adds meshsolve on a GPU: matrices and b lie on the GPU, times end with the device idle, kernels
are compiled before.

The solvers take turns, with other values in each round. The first solve after a refactorization is timed separately, because meshsolve
then measures the backward error. Prints one row for each solver and matrix, then the bars, and writes
benchmarks/results/glu-<date>-<threads>t.json. All solvers share one process: several threads of PARDISO need MKL_NUM_THREADS, and
KMP_BLOCKTIME=0 so that they do not spin while the next solver is timed.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
import scipy.io
import scipy.sparse as sp
import scipy.sparse.linalg as spla

import meshsolve as ms
from benchmarks import gpu, transient
from benchmarks.circuits import circuit
from benchmarks.measure import Stopwatch, clock_for, describe, geometric_mean, interleave, summary, write_json
from benchmarks.peers.base import Unavailable
from benchmarks.peers.klu import Klu
from benchmarks.peers.pardiso import PardisoLU
from benchmarks.problems import data_folder
from benchmarks.table import Table, bar, print_bars
from meshsolve import device
from meshsolve.errors import MeshsolveError

SIDES = {("grid", 20): 115, ("grid", 200): 365, ("grid", 1000): 816, ("controlled", 20): 115, ("controlled", 200): 365,
         ("controlled", 1000): 816, ("chains", 20): 18, ("chains", 200): 56, ("chains", 1000): 125}
LEFT_OUT = ("pdn_pg1_C", "rajat01", "helmholtz")       # one is structurally singular, one has no values, one is complex
REFACTOR_BARS = {("mesh", 20): (2.0, 2.5), ("mesh", 200): (5.0, 8.0), ("mesh", 1000): (10.0, 16.0),
                 ("chains", 20): (1.0, 1.4), ("chains", 200): (1.0, 1.4), ("chains", 1000): (1.0, 1.4)}


class Ours:
    """ms.lu, called as a user does."""

    def __init__(self, threads):
        self.threads = threads

    def first(self, A):
        self.F = ms.lu(A, device="cpu", threads=self.threads)
        return self._analysis()

    def _analysis(self):
        seconds = self.F.report.seconds
        return {"analyze": seconds["order"] + seconds["symbolic"], "factor": seconds["numeric"]}

    def refactor(self, A):
        self.F.refactor(A)

    def solve(self, b):
        return self.F.solve(b)

    def facts(self):
        return {"engine": self.F.engine, "ordering": self.F.report.facts["ordering"], "nnz_LU": self.F.nnz,
                "stored": self.F._numeric.pivots.plan.scalars, "repivoted": self.F.report.facts["repivoted"]}


class OnGpu(Ours):
    """ms.lu with matrices and right-hand sides on a GPU."""

    def __init__(self):
        super().__init__(1)
        self.on_gpu = {}

    def prepare(self, matrices):
        """Copy the matrices to the device, and compile every kernel in a first call."""
        small = circuit("grid", 12)
        for engine in ("fronts", "columns"):
            ms.lu(small, engine=engine, device="cuda").solve(np.ones(small.shape[0]))
        self.on_gpu = {id(A): gpu.to_device(A) for A in matrices}

    def first(self, A):
        self.F = ms.lu(self.on_gpu[id(A)], device="cuda")
        return self._analysis()

    def refactor(self, A):
        self.F.refactor(self.on_gpu[id(A)])
        gpu.wait()

    def solve(self, b):
        if id(b) not in self.on_gpu:
            self.on_gpu[id(b)] = gpu.to_device(b)           # in the untimed first solve of measure()
        x = self.F.solve(self.on_gpu[id(b)])
        gpu.wait()
        return x


class Peer:
    """KLU or PARDISO on prepared arrays: the conversion is not timed."""

    def __init__(self, solver):
        self.solver, self.prepared = solver, {}

    def _matrix(self, A):
        if id(A) not in self.prepared:
            self.prepared[id(A)] = self.solver.matrix(A)
        return self.prepared[id(A)]

    def prepare(self, matrices):
        for A in matrices:
            self._matrix(A)

    def first(self, A):
        M, watch = self._matrix(A), Stopwatch()
        with watch.phase("analyze"):
            self.solver.analyze(M)
        with watch.phase("factor"):
            self.solver.factor(M)
        return watch.wall

    def refactor(self, A):
        M = self._matrix(A)
        if hasattr(self.solver, "M"):
            self.solver.M = M
        self.solver.refactor(M)

    def solve(self, b):
        return self.solver.solve(b[:, None]).reshape(b.shape)

    def facts(self):
        return self.solver.facts()


class SuperLU:
    """scipy's splu; every factorization starts from the ordering."""

    def first(self, A):
        start = time.perf_counter()
        self.F = spla.splu(A.tocsc())
        return {"analyze": None, "factor": time.perf_counter() - start}

    def refactor(self, A):
        self.F = spla.splu(A.tocsc())

    def solve(self, b):
        return self.F.solve(b)

    def facts(self):
        return {"nnz_LU": self.F.nnz}


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed."""
    options = parser().parse_args(arguments)
    if options.transient:
        return transient.run(options)
    run = describe("glu", options.threads, options.clock) | {"statistic": options.statistic, "rows": []}
    if options.device == "cuda":
        run["device"] = gpu.describe_device()
    table = Table("matrix", "solver", "threads", "n", "analyze", "refactor", "1st solve", "solve", "nnz(LU)", "error")
    for name, A in problems(options):
        rows = measure(name, A, options)
        for row in rows:
            clock = clock_for(row["threads"], options.clock)
            table.row(name, row["solver"], row["threads"], row["n"], row["first"].get("analyze"), *(
                1e3 * row["seconds"][phase][clock][options.statistic] for phase in ("refactor", "first solve", "solve")), row["facts"].get("nnz_LU"), row["error"])
        run["rows"] += rows
        write_json(run, options.out)
    run["bars"] = bars(run["rows"], options.clock, options.statistic)
    print("refactor and solve in milliseconds; written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.glu", description=__doc__.split("\n")[0])
    p.add_argument("--sizes", nargs="*", type=int, default=[20, 200, 1000], choices=(1, 20, 200, 1000),
                   help="thousands of unknowns; 1 with --transient alone")
    p.add_argument("--kinds", nargs="+", default=["grid", "controlled", "chains"], choices=("grid", "controlled", "chains"))
    p.add_argument("--circuits", action=argparse.BooleanOptionalAction, default=True, help="the data folder's circuits")
    p.add_argument("--quick", action="store_true", help="20 thousand unknowns only, no circuits")
    p.add_argument("--peers", nargs="*", default=["klu", "pardiso"], choices=("klu", "pardiso"))
    p.add_argument("--repeat", type=int, default=7)
    p.add_argument("--statistic", choices=("median", "min"), default="median", help="min: of many repeats, on a machine in use")
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: also meshsolve on a GPU")
    p.add_argument("--transient", action="store_true", help="circuits over time, end to end, in place of all this")
    p.add_argument("--steps", nargs=2, type=int, default=[1000, 100], help="of the linear circuit and of that with diodes")
    p.add_argument("--superlu", action="store_true", help="scipy's SuperLU as well (slow at a million unknowns)")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def problems(options):
    """(name, matrix): generated ones by size, then the files of the data folder."""
    for size in [20] if options.quick else [s for s in options.sizes if s > 1]:
        for kind in options.kinds:
            yield f"{kind}-{size}k", circuit(kind, SIDES[kind, size])
    folder = data_folder()
    if folder is None or not options.circuits or options.quick:
        return
    for path in sorted((folder / "circuit").glob("*.mtx*")):
        if not any(part in path.name for part in LEFT_OUT):
            A = sp.csr_array(scipy.io.mmread(path, spmatrix=False))
            A.sort_indices()
            yield path.name.split(".")[0], A


def solvers(options):
    """{(name, threads): solver} of the installed solvers."""
    found = {("meshsolve", t): Ours(t) for t in options.threads}
    for name, make in (("klu", Klu), ("pardiso", PardisoLU)):
        if name not in options.peers:
            continue
        try:
            found[name, int(os.environ.get("MKL_NUM_THREADS", 1)) if name == "pardiso" else 1] = Peer(make())
        except Unavailable as e:
            print(f"left out: {name}: {e}")
    if options.device == "cuda":
        found["meshsolve cuda", 1] = OnGpu()
    if options.superlu:
        found["superlu", 1] = SuperLU()
    return found


def measure(name, A, options):
    """One row for each solver: medians over rounds of refactorization and solve, each round with other values."""
    rng = np.random.default_rng(0)
    matrices = [A.copy() for _ in range(3)]
    for M in matrices:
        M.data = A.data * rng.uniform(0.9, 1.1, A.nnz)
    b, taking_part, first = rng.standard_normal(A.shape[0]), {}, {}
    for key, solver in solvers(options).items():
        try:
            if hasattr(solver, "prepare"):
                solver.prepare([A, *matrices])
            first[key] = solver.first(A)
            solver.solve(b)
            taking_part[key] = solver
        except (RuntimeError, MeshsolveError) as e:
            print(f"{name}: {key[0]}: {e}")
    phases = {"refactor": lambda s, M: s.refactor(M), "first solve": lambda s, M: s.solve(b), "solve": lambda s, M: s.solve(b)}
    seconds = {key: {phase: {"wall": [], "cpu": []} for phase in phases} for key in taking_part}
    error = dict.fromkeys(taking_part, 0.0)
    for M in (matrices[k % 3] for k in range(options.repeat)):
        for phase, call in phases.items():
            found, took = interleave({key: (lambda s=s, c=call, M=M: c(s, M)) for key, s in taking_part.items()}, 1)
            for key, one in took.items():
                for clock in ("wall", "cpu"):
                    seconds[key][phase][clock] += one[clock]
        error = {key: max(error[key], backward_error(M, np.asarray(device.to_host(found[key])), b)) for key in taking_part}
    return [{"matrix": name, "n": A.shape[0], "nnz": A.nnz, "solver": key[0], "threads": key[1], "first": first[key],
             "seconds": {p: {c: summary(v) for c, v in both.items()} for p, both in seconds[key].items()},
             "facts": solver.facts(), "error": error[key]} for key, solver in taking_part.items()]


def backward_error(A, x, b):
    """||b - A x|| / (||A|| ||x|| + ||b||) in infinity norms."""
    return float(abs(b - A @ x).max() / (abs(A).sum(axis=1).max() * abs(x).max() + abs(b).max()))


def bars(rows, clock, statistic="median"):
    """The project's bars for the rows."""
    table = {(r["matrix"], r["solver"], r["threads"]): r for r in rows}

    def ratio(matrix, threads, peer, phase, peer_threads=1, solver="meshsolve"):
        ours, theirs = table.get((matrix, solver, threads)), table.get((matrix, peer, peer_threads))
        if not ours or not theirs:
            return None
        by = clock_for(threads, clock)
        return theirs["seconds"][phase][by][statistic] / ours["seconds"][phase][by][statistic]

    out = []
    for (family, size), bounds in REFACTOR_BARS.items():
        for kind in ("grid", "controlled") if family == "mesh" else ("chains",):
            name = f"{kind}-{size}k"
            for threads, bound in zip((1, 2), bounds, strict=True):
                out.append(bar(f"refactor {name} against KLU, {threads} threads", ratio(name, threads, "klu", "refactor"), bound))
                if family == "mesh" and size >= 200:
                    out.append(bar(f"refactor {name} against PARDISO, {threads} threads",
                                   ratio(name, threads, "pardiso", "refactor", threads), 1.5))
                out.append(bar(f"solve {name} against KLU, {threads} threads", ratio(name, threads, "klu", "solve"), (1.0, 1.3)[threads - 1]))
            mine, klu = table.get((name, "meshsolve", 1)), table.get((name, "klu", 1))
            stored = mine["facts"]["stored"] / klu["facts"]["nnz_LU"] if mine and klu else None
            out.append(bar(f"stored {name} against KLU's nnz(L+U)", stored, 1.3 if family == "mesh" else 1.8, at_least=False))
    for name, bound in (("chains-1000k", 7.0), ("grid-200k", 30.0), ("grid-1000k", 30.0), ("controlled-200k", 30.0),
                        ("controlled-1000k", 30.0)):
        if (name, "meshsolve cuda", 1) in table:
            out.append(bar(f"refactor {name} against KLU, on the GPU", ratio(name, 1, "klu", "refactor", solver="meshsolve cuda"), bound))
    real = {r["matrix"]: ratio(r["matrix"], 1, "klu", "refactor") for r in rows if not r["matrix"].endswith("k")}
    real = [x for x in real.values() if x]
    out.append(bar("refactor of matrices from collections against KLU, geometric mean", geometric_mean(real) if real else None, 1.2))
    out.append(bar("refactor of matrices from collections against KLU, worst", min(real, default=None), 0.7))
    out += analysis_bars(table)
    mine = [r["error"] for r in rows if r["solver"] == "meshsolve"]
    out.append(bar("backward error, worst", max(mine, default=None), 1e-13, at_least=False))
    return out


def analysis_bars(table):
    """The first analysis of each solver, for matrices that meshsolve orders without nested dissection."""
    out = []
    for peer, name, bound in (("klu", "KLU", 4.0), ("pardiso", "PARDISO", 1 / 3)):
        times = []
        for (matrix, solver, threads), mine in table.items():
            if solver == "meshsolve" and threads == 1 and mine["facts"]["ordering"] != "nd" and (matrix, peer, 1) in table:
                times.append(mine["first"]["analyze"] / table[matrix, peer, 1]["first"]["analyze"])
        mean = geometric_mean(times) if times else None
        out.append(bar(f"analysis without nd over {name}'s, geometric mean", mean, bound, at_least=False))
        out.append(bar(f"analysis without nd over {name}'s, worst", max(times, default=None), bound, at_least=False, asked=False))
    return out


if __name__ == "__main__":
    raise SystemExit(main())
