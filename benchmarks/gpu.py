"""The GPU compared with the CPU, METIS, cuDSS and cuSOLVER: ordering, analysis, first solve, refactorization, solve, steps of a flow.
One command, 8 minutes, from 17,000 to 4,300,000 vertices.

    python -m benchmarks.gpu [--meshes scan-2 igea] [--solvers ...] [--repeat 5] [--budget 480]

The meshes are a generated scan and its subdivisions, and igea if there is a data folder. Rows "flow" are mean curvature flow: "first" is
one step from mesh to mesh, "step" the time of a further one. Every solver gets the same matrix on its device. Times end with the device
idle. A row that fails, for lack of memory or of a library, has the reason, and the next one continues. A row whose estimated time, from
the mesh before, exceeds the budget is skipped with a note. Rows are measured in a child process. If a row loses the device or does not
end, a new process continues without that solver. Compilation of kernels is timed separately. Prints one table and writes
benchmarks/results/gpu-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple
from unittest import mock

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, summary, write_json
from benchmarks.peers.metis import METIS
from benchmarks.problems import System, catalog, find, smoothing_system
from benchmarks.table import Table, bar, print_bars
from benchmarks.worker import backward_error
from meshsolve import device
from meshsolve.apps.mcf import Flow
from meshsolve.device import cuda
from meshsolve.errors import MeshsolveError
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.cholesky.cudss import CudssFactor
from meshsolve.factor.cholesky.values import Values
from meshsolve.sparse.places import CUDA

GENERATED = tuple(f"scan-{k}" for k in range(5))            # four times as many vertices each
THESIS = "igea"                                             # 134,345 vertices
COLUMNS = ("solver", "order", "symbolic", "numeric", "first", "refactor", "solve3", "step", "nnz(L) M", "error")
WARM_UP = 5                                                 # level of a small icosphere for the warm-up of nested dissection
LARGE = 1_000_000                                           # smallest mesh of the bars, on which the CPU is measured once
GROWTH = 1.3                                                # exponent of the time of a row in the number of vertices
REORDER = 3                                                 # cusolverSp's own METIS, as its `reorder` argument
LONGEST = 150                                               # most seconds for a row, or for generating a mesh
STARTS = 60                                                 # additional seconds for the start of a process
LOST = 3                                                    # status of a process that has lost the device


class Case(NamedTuple):
    """A mesh and the system of a smoothing step on it."""

    mesh: ms.Mesh
    system: System


class OwnOrder(CudssFactor):
    """cuDSS with its own ordering."""

    our_ordering = False


class Budget:
    """The seconds of a run. The time on a mesh is estimated from that on the mesh before."""

    def __init__(self, seconds, spent=0.0, took=None):
        self.begin, self.seconds, self.took = time.perf_counter() - spent, seconds, {} if took is None else took

    @property
    def spent(self):
        return time.perf_counter() - self.begin

    def refuses(self, what, n):
        """The reason why ``what`` is skipped on a mesh of n vertices, or None."""
        left = self.seconds - self.spent
        before, seconds = self.took.get(what, (n, 0.0))
        expected = seconds * max(n / before, 1.0) ** GROWTH
        if expected < left:
            return None
        return f"out of budget: {max(left, 0):.0f} of {self.seconds:g} s left, {expected:.0f} expected"

    @contextlib.contextmanager
    def spend(self, what, n):
        """Measure the time of ``what``."""
        start = time.perf_counter()
        yield
        self.took[what] = n, time.perf_counter() - start


class Progress:
    """The result so far, also in a file, from which another process can continue.

    Parameters
    ----------
    path : str or None
        The file. It is read if it exists.

    Attributes
    ----------
    run : dict
        The result.
    lost : dict
        Reasons why solvers are skipped from now on: they have lost the device, or did not end.
    """

    def __init__(self, path, seconds):
        self.path = path and pathlib.Path(path)
        known = json.loads(self.path.read_text()) if path and self.path.exists() else {}
        self.run, self.lost = known.get("run"), known.get("lost", {})
        self.budget = Budget(seconds, known.get("spent", 0.0), known.get("took"))

    def begins(self, what):
        """(what, None or why it has lost the device) is under way; None: nothing."""
        if self.path:
            known = {"run": self.run, "lost": self.lost, "spent": self.budget.spent, "took": self.budget.took, "under way": what}
            scratch = self.path.with_suffix(".tmp")
            scratch.write_text(json.dumps(known))
            os.replace(scratch, self.path)

    def attempt(self, solver, case, repeat):
        """The row of a solver. If it loses the device, this process ends."""
        if solver in self.lost:
            return {"failed": self.lost[solver]}
        self.begins([solver, None])
        row = attempt(SOLVERS[solver], case, repeat)
        if self.path and is_lost():
            self.begins([solver, row.get("failed", "found after the last measurement")])
            raise SystemExit(LOST)
        return row

    def has(self, name, solver):
        return any((row["mesh"], row["solver"]) == (name, solver) for row in self.run["rows"]) or f"{name}, {solver}" in self.run["failed"]


def supervise(arguments, command=(sys.executable, "-m", "benchmarks.gpu"), longest=LONGEST, clock=time.monotonic):
    """Run the benchmark in child processes. Returns 1 if a row failed."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        state = pathlib.Path(folder) / "state.json"
        while True:
            child = subprocess.Popen([*command, *arguments, "--go-on", str(state)])
            why = watch(child, state, longest, clock)
            known = json.loads(state.read_text()) if state.exists() else {"under way": None}
            if why is None or known["under way"] is None:
                return child.returncode
            solver, said = known["under way"]
            known["lost"][solver] = f"lost the device: {said or why}"
            known["spent"] = time.monotonic() - begin
            state.write_text(json.dumps(known))
            print(f"\n{solver} {known['lost'][solver]}; a new process goes on without it", flush=True)


def watch(child, state, longest, clock):
    """Wait for a process that must write to ``state`` in time. Returns None, or the reason if it did not complete."""
    written, since = None, clock()
    try:
        while child.poll() is None:
            now = state.stat().st_mtime_ns if state.exists() else None
            if now != written:
                written, since = now, clock()
            if clock() - since > longest + (0 if written else STARTS):
                return f"no end after {longest} s"
            time.sleep(0.1)
    finally:
        child.kill()
        child.wait()
    return None if child.returncode in (0, 1, 2) else f"its process ended with status {child.returncode}"


def main(arguments=None):
    """Run the benchmark in this process. Returns 1 if a row failed."""
    options = parser().parse_args(arguments)
    progress = Progress(options.go_on, options.budget)
    if progress.run is None:
        progress.run = describe("gpu", [os.cpu_count() or 1], "wall") | {"device": describe_device(), "warm_up": {}, "rows": [], "failed": {}}
        print("device:", progress.run["device"], flush=True)
    warm_up(options.solvers, progress)
    run = progress.run
    for name in options.meshes or default_meshes():
        measure_mesh(name, options, progress)
    progress.begins(None)
    run["bars"] = bars(run["rows"])
    print_bars(run["bars"])
    print(f"written: {write_json(run, options.out)}")
    return 1 if run["failed"] else 0


def default_meshes():
    """The default meshes, smallest first."""
    return sorted([*GENERATED, *[THESIS] * (THESIS in catalog())], key=lambda name: find(name).size())


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    p.add_argument("--meshes", nargs="+", help="names (scan-2, igea, igea-1, icosphere-7) or mesh files")
    p.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS), metavar="NAME", help=", ".join(SOLVERS))
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--budget", type=float, default=480, help="seconds; no row begins that, by the mesh before, ends later")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    p.add_argument("--go-on", help=argparse.SUPPRESS)
    return p


def measure_mesh(name, options, progress):
    """All rows of one mesh."""
    run, budget = progress.run, progress.budget
    left = [solver for solver in options.solvers if not progress.has(name, solver)]
    if name in run["failed"] or not left:
        return
    progress.begins([name, None])
    try:
        problem = find(name)
        n = problem.size()
        refused = progress.lost.get(name) or budget.refuses("mesh", n)
        if not refused:
            with budget.spend("mesh", n):
                mesh = problem.mesh()
                case = Case(mesh, smoothing_system(mesh))
    except (SystemExit, MemoryError, MeshsolveError) as e:
        refused = str(e)
    if refused:
        run["failed"][name] = refused
        print(f"\n{name}: left out: {refused}", flush=True)
        return
    print(f"\n{name}: {n:,} vertices; milliseconds")
    table = Table(*COLUMNS)
    for solver in left:
        refused = budget.refuses(solver, n)
        if refused:
            run["failed"][f"{name}, {solver}"] = refused
            print(f"{solver:22} left out: {refused}", flush=True)
            continue
        with budget.spend(solver, n):
            row = progress.attempt(solver, case, options.repeat)
        release()
        if "failed" in row:
            run["failed"][f"{name}, {solver}"] = row["failed"]
            print(f"{solver:22} failed: {row['failed']}", flush=True)
        else:
            table.row(solver, *(row.get(column) for column in COLUMNS[1:]))
        run["rows"].append({"mesh": name, "n": n, "solver": solver, **row})
        write_json(run, options.out)                        # after each row: an interrupted run keeps its results


def attempt(solver, case, repeat):
    """The row of a solver, or the reason of its failure. An error of a driver, compiler or library ends this row only."""
    try:
        return solver(case, repeat)
    except Exception as e:
        return {"failed": f"{type(e).__name__}: {e}".split("\n")[0][:300]}


def is_lost():
    """True if this process can no longer use the device: after an illegal address every call fails."""
    try:
        wait()
    except Exception:
        return True
    return False


def warm_up(solvers, progress):
    """Solve a small system with each solver, which compiles kernels and loads libraries. The seconds are kept."""
    mesh, seconds = ms.datasets.icosphere(WARM_UP), progress.run["warm_up"]
    case = Case(mesh, smoothing_system(mesh))
    for solver in solvers:
        start = time.perf_counter()
        row = progress.attempt(solver, case, 1)
        took = row.get("failed", time.perf_counter() - start)
        if solver not in seconds or "failed" in row:
            seconds[solver] = took
            print(f"warm-up {solver}: {took if 'failed' in row else format(took, '.2f') + ' s'}", flush=True)


# ---- solvers ----------------------------------------------------------------------------------------------------------


def on_cpu(case, repeat):
    """meshsolve on the CPU, for comparison."""
    system, repeat = case.system, fewer(case, repeat)
    return measured(lambda: ms.cholesky(system.A, device="cpu"), system.A, system.A2, system.B, system, repeat)


def on_gpu(precision, **options):
    """A solver of this library on the GPU."""
    def solver(case, repeat):
        system = case.system
        A, A2, B = (to_device(M) for M in (system.A, system.A2, system.B))
        row = measured(lambda: ms.cholesky(A, device="cuda", precision=precision, **options), A, A2, B, system, repeat)
        orders = [timed(lambda: ms.order.nested_dissection(A, device="cuda")) for _ in range(min(repeat, 3))]
        return row | {"order": 1e3 * float(np.median(orders))}         # the times of the report do not wait for the device
    return solver


def without_tensor_cores(solver):
    """A solver of this library with kernels for GPUs without fast tensor cores for float64."""
    def run(case, repeat):
        with mock.patch.object(cuda, "TENSOR_CORES", ()):
            return solver(case, repeat)
    return run


def cudss_alone(case, repeat):
    """cuDSS with its own ordering, called as this library calls it."""
    system = case.system
    sym = ms.analyze(system.A)                              # not timed: cuDSS orders the matrix again
    A, A2, B = (to_device(M) for M in (system.A, system.A2, system.B))

    def first():
        values = Values(system.n, sym, place=CUDA)
        return CholeskyFactor(sym, values, values.of(A), engine=OwnOrder)

    row = measured(first, A, A2, B, system, repeat)
    return row | {"order": None, "symbolic": None}           # inside "numeric" of the first factorization


def cusolver(case, repeat):
    """cuSOLVER's sparse Cholesky with METIS, one right-hand side, all in one call."""
    from cupy.cuda.device import get_cusolver_sp_handle
    from cupy_backends.cuda.libs import cusolver as library

    system = case.system
    xp, A = device.xp(), to_device(system.A)
    b, x, singular = xp.asarray(system.B[:, 0]), xp.empty(system.n), np.zeros(1, np.int32)

    def call():
        library.dcsrlsvchol(get_cusolver_sp_handle(), system.n, A.nnz, A._descr.descriptor, A.data.data.ptr, A.indptr.data.ptr,
                            A.indices.data.ptr, b.data.ptr, 1e-14, REORDER, x.data.ptr, singular.ctypes.data)

    first = timed(call)
    error = backward_error(system.A, device.to_host(x), system.B[:, 0])
    return {"first": 1e3 * first, "error": error, "one_right_hand_side": True}


def metis(case, repeat):
    """METIS on one core of this machine: its time, and the fill of its order."""
    peer, found = METIS(), {}
    graph = peer.graph(case.system.A)
    seconds = [timed(lambda: found.update(perm=peer.run(graph))) for _ in range(min(fewer(case, repeat), 3))]
    sym = ms.analyze(case.system.A, peer.perm(found["perm"]), device="cpu")
    return {"order": 1e3 * float(np.median(seconds)), "nnz(L) M": sym.nnz / 1e6}


def flow(place):
    """Mean curvature flow from a host mesh to a host mesh, with all transfers; then further steps."""
    def solver(case, repeat):
        def first_step():
            kept["flow"] = begun = Flow(case.mesh, device=place)
            kept["dt"] = begun.automatic_step()
            begun.step(kept["dt"])
            begun.mesh()

        kept, runs = {}, 2                                  # the first is a warm-up
        if place == "cpu":
            repeat, runs = fewer(case, repeat), fewer(case, runs)
        first = [timed(first_step) for _ in range(runs)][-1]
        steps = [timed(lambda: kept["flow"].step(kept["dt"])) for _ in range(repeat)]
        report = kept["flow"].finish()
        phases = {name: 1e3 * report.seconds.get(name, np.nan) for name in ("order", "symbolic")}
        row = phases | {"first": 1e3 * first, "step": 1e3 * float(np.median(steps)), "error": report.facts["residual"]}
        return row | {"seconds": {"step": summary(steps)}}
    return solver


SOLVERS = {                                                 # the solvers of the bars come first
    "meshsolve cuda": on_gpu("double"),
    "metis alone": metis,
    "cudss own order": cudss_alone,
    "cudss our order": on_gpu("double", backend="cudss"),
    "meshsolve cuda mixed": on_gpu("mixed"),
    "meshsolve no tensor": without_tensor_cores(on_gpu("double")),
    "flow cuda": flow("cuda"),
    "meshsolve cpu": on_cpu,
    "flow cpu": flow("cpu"),
    "cusolver metis": cusolver,
}


def bars(rows):
    """The bars of the GPU, each on the largest mesh of at least a million vertices that has both rows."""
    def compare(what, above, below, column, bound, at_least=True):
        values = {(row["solver"], row["n"]): row.get(column) for row in rows if row["n"] >= LARGE}
        sizes = [n for solver, n in values if solver == above and values[above, n] and values.get((below, n))]
        if not sizes:
            return bar(what, None, bound, at_least)
        n = max(sizes)
        return bar(f"{what}, {n:,} vertices", values[above, n] / values[below, n], bound, at_least)

    ours, theirs = "meshsolve cuda", "cudss own order"
    return [compare("ordering: times faster than METIS on one core", "metis alone", ours, "order", 15),
            compare("nnz(L) relative to METIS", ours, "metis alone", "nnz(L) M", 1.10, at_least=False),
            compare("first solve: times faster than cuDSS in its own order", theirs, ours, "first", 1),
            compare("refactorization and three solves relative to cuDSS", ours, theirs, "step", 1.5, at_least=False)]


def fewer(case, repeat):
    """Number of repetitions on the CPU: one if a run takes seconds."""
    return 1 if case.system.n >= LARGE else repeat


def measured(first, A, A2, B, system, repeat):
    """First solve, then refactorizations and solves of ``repeat`` steps; the medians in milliseconds."""
    kept = {}

    def first_solve():
        kept["factor"] = first()
        kept["x"] = kept["factor"].solve(B)

    seconds = timed(first_solve)
    F, phases = kept["factor"], dict(kept["factor"].report.seconds)
    refactor, solve = [], []
    for step in range(repeat):
        refactor.append(timed(lambda M=(A2, A)[step % 2]: F.refactor(M)))
        solve.append(timed(lambda: kept.update(x=F.solve(B))))
    last = system.A2 if repeat % 2 else system.A
    row = {name: 1e3 * phases.get(name, np.nan) for name in ("order", "symbolic", "numeric")}
    row |= {"first": 1e3 * seconds, "refactor": 1e3 * float(np.median(refactor)), "solve3": 1e3 * float(np.median(solve))}
    row |= {"step": row["refactor"] + row["solve3"], "nnz(L) M": getattr(F._factor, "nnz", F.nnz) / 1e6}
    row |= {"error": backward_error(last, np.asarray(device.to_host(kept["x"])), system.B)}
    return row | {"seconds": {"refactor": summary(refactor), "solve3": summary(solve)}}


def timed(call):
    """Wall-clock seconds until the device is idle again."""
    wait()
    start = time.perf_counter()
    call()
    wait()
    return time.perf_counter() - start


def release():
    """Return the memory of the row before from the pool to the device, for other libraries."""
    gc.collect()
    if device.available():
        device.backend().release()


def wait():
    """Wait until the device is idle. Without a device, return at once."""
    if device.available() and hasattr(device.xp(), "cuda"):
        device.xp().cuda.Device().synchronize()


def to_device(M):
    """Copy a host array or csr matrix to the device."""
    if isinstance(M, np.ndarray):
        return device.xp().asarray(M)
    parts = (device.xp().asarray(part) for part in (M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32)))
    return device.csr(*parts, M.shape)


def describe_device():
    """Name, memory and versions of the GPU, "stand-in", or "none"."""
    if not device.available():
        return "none"
    xp = device.xp()
    if not hasattr(xp, "cuda"):
        return "stand-in"
    properties = xp.cuda.runtime.getDeviceProperties(xp.cuda.Device().id)
    memory = round(properties["totalGlobalMem"] / 2**30, 1)
    return {"name": properties["name"].decode(), "memory_gib": memory, "cupy": xp.__version__,
            "driver": xp.cuda.runtime.driverGetVersion(), "runtime": xp.cuda.runtime.runtimeGetVersion()}


if __name__ == "__main__":
    raise SystemExit(main() if "--go-on" in sys.argv else supervise(sys.argv[1:]))
