"""The GPU beside the CPU, METIS, cuDSS and cuSOLVER: ordering, analysis, first solve, refactorization, solve, steps of a flow.
One command, 8 minutes, from 17,000 to 4,300,000 vertices.

    python -m benchmarks.gpu [--meshes scan-2 igea] [--solvers ...] [--repeat 5] [--budget 480]

The meshes are a generated scan and its subdivisions, and igea where the data folder is. Rows "flow": mean curvature flow; "first"
is one step from the mesh to the mesh, "step" what a further one takes. Every solver gets the same matrix where it works (on the
GPU, but for the CPU's); times end with the device idle. A row that fails, for want of memory or a library, says why and the next
goes on; one that will not end within the budget, going by the mesh before, is left out and said so. Compilation of kernels is a
warm-up of its own, timed apart. Prints one table and leaves benchmarks/results/gpu-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import time
from typing import NamedTuple

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, summary, write_json
from benchmarks.peers.metis import METIS
from benchmarks.problems import System, catalogue, find, smoothing_system
from benchmarks.table import Table, bar, print_bars
from benchmarks.worker import backward_error
from meshsolve import device
from meshsolve.apps.mcf import Flow
from meshsolve.errors import MeshsolveError
from meshsolve.factor.cholesky import CholeskyFactor, DeviceValues
from meshsolve.factor.cholesky.cudss import CudssFactor

GENERATED = tuple(f"scan-{k}" for k in range(5))            # four times as many vertices each
THESIS = "igea"                                             # 134,345 vertices: the mesh of the table that the project began with
COLUMNS = ("solver", "order", "symbolic", "numeric", "first", "refactor", "solve3", "step", "nnz(L) M", "error")
WARM_UP = 5                                                 # level of a small icosphere that is dissected on the GPU all the same
LARGE = 1_000_000                                           # vertices from which the bars count, and a CPU is asked once
GROWTH = 1.3                                                # of the time of a row, as a power of the vertices
REORDER = 3                                                 # cusolverSp's own METIS, as its `reorder` argument


class Case(NamedTuple):
    """A mesh and the system of a smoothing step on it."""

    mesh: ms.Mesh
    system: System


class OwnOrder(CudssFactor):
    """cuDSS with the ordering that it makes itself."""

    our_ordering = False


class Budget:
    """The seconds of a run. What was done on one mesh tells how long it takes on the next."""

    def __init__(self, seconds):
        self.begin, self.seconds, self.took = time.perf_counter(), seconds, {}

    def refuses(self, what, n):
        """Why ``what`` is not begun on a mesh of n vertices, or None."""
        left = self.seconds - (time.perf_counter() - self.begin)
        before, seconds = self.took.get(what, (n, 0.0))
        expected = seconds * max(n / before, 1.0) ** GROWTH
        if expected < left:
            return None
        return f"out of budget: {max(left, 0):.0f} of {self.seconds:g} s left, {expected:.0f} expected"

    @contextlib.contextmanager
    def spend(self, what, n):
        """Around ``what``."""
        start = time.perf_counter()
        yield
        self.took[what] = n, time.perf_counter() - start


def main(arguments=None):
    """Run the benchmark; returns 1 where a row failed."""
    options = parser().parse_args(arguments)
    budget = Budget(options.budget)
    run = describe("gpu", [os.cpu_count() or 1], "wall") | {"device": describe_device(), "rows": [], "failed": {}}
    print("device:", run["device"])
    run["warm_up"] = warm_up(options.solvers)
    for name in options.meshes or default_meshes():
        measure_mesh(name, options, budget, run)
        write_json(run, options.out)                        # so that a run cut short leaves what it measured
    run["bars"] = bars(run["rows"])
    print_bars(run["bars"])
    print(f"written: {write_json(run, options.out)}")
    return 1 if run["failed"] else 0


def default_meshes():
    """What is measured where nothing is asked for, smallest first."""
    return sorted([*GENERATED, *[THESIS] * (THESIS in catalogue())], key=lambda name: find(name).size())


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    p.add_argument("--meshes", nargs="+", help="names (scan-2, igea, igea-1, icosphere-7) or mesh files")
    p.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS), metavar="NAME", help=", ".join(SOLVERS))
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--budget", type=float, default=480, help="seconds; no row begins that, by the mesh before, ends later")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def measure_mesh(name, options, budget, run):
    """All rows of one mesh."""
    try:
        problem = find(name)
        n = problem.size()
        refused = budget.refuses("mesh", n)
        if not refused:
            with budget.spend("mesh", n):
                mesh = problem.mesh()
                case = Case(mesh, smoothing_system(mesh))
    except (SystemExit, MemoryError, MeshsolveError) as e:
        refused = str(e)
    if refused:
        run["failed"][name] = refused
        print(f"\n{name}: left out: {refused}")
        return
    print(f"\n{name}: {n:,} vertices; milliseconds")
    table = Table(*COLUMNS)
    for solver in options.solvers:
        refused = budget.refuses(solver, n)
        if refused:
            run["failed"][f"{name}, {solver}"] = refused
            print(f"{solver:22} left out: {refused}")
            continue
        with budget.spend(solver, n):
            row = attempt(SOLVERS[solver], case, options.repeat)
        release()
        if "failed" in row:
            run["failed"][f"{name}, {solver}"] = row["failed"]
            print(f"{solver:22} failed: {row['failed']}")
        else:
            table.row(solver, *(row.get(column) for column in COLUMNS[1:]))
        run["rows"].append({"mesh": name, "n": n, "solver": solver, **row})


def attempt(solver, case, repeat):
    """The row of a solver, or why there is none: whatever a driver, a compiler or a library raises ends this row only."""
    try:
        return solver(case, repeat)
    except Exception as e:
        return {"failed": f"{type(e).__name__}: {e}".split("\n")[0][:300]}


def warm_up(solvers):
    """Seconds until each solver has solved a small system: kernels compiled, libraries loaded."""
    mesh, seconds = ms.datasets.icosphere(WARM_UP), {}
    case = Case(mesh, smoothing_system(mesh))
    for solver in solvers:
        start = time.perf_counter()
        row = attempt(SOLVERS[solver], case, 1)
        seconds[solver] = row.get("failed", time.perf_counter() - start)
        print(f"warm-up {solver}: {seconds[solver] if 'failed' in row else format(seconds[solver], '.2f') + ' s'}")
    return seconds


# ---- solvers ----------------------------------------------------------------------------------------------------------


def on_cpu(case, repeat):
    """The CPU path of this library, for scale."""
    system, repeat = case.system, fewer(case, repeat)
    return measured(lambda: ms.cholesky(system.A, device="cpu"), system.A, system.A2, system.B, system, repeat)


def on_gpu(precision, **options):
    """A solver of this library on the GPU."""
    def solver(case, repeat):
        system = case.system
        A, A2, B = (there(M) for M in (system.A, system.A2, system.B))
        row = measured(lambda: ms.cholesky(A, device="cuda", precision=precision, **options), A, A2, B, system, repeat)
        orders = [timed(lambda: ms.order.nested_dissection(A, device="cuda")) for _ in range(min(repeat, 3))]
        return row | {"order": 1e3 * float(np.median(orders))}         # the report's does not wait for the device
    return solver


def cudss_alone(case, repeat):
    """cuDSS with its own ordering, called as this library calls it."""
    system = case.system
    sym = ms.analyze(system.A)                              # outside the clock: cuDSS orders what it gets once more
    A, A2, B = (there(M) for M in (system.A, system.A2, system.B))

    def first():
        values = DeviceValues(system.n, sym.on_device()[0])
        return CholeskyFactor(sym, values, values.of(A), engine=OwnOrder)

    row = measured(first, A, A2, B, system, repeat)
    return row | {"order": None, "symbolic": None}           # inside "numeric" of the first factorization


def cusolver(case, repeat):
    """cuSOLVER's sparse Cholesky with METIS, one right-hand side, all in one call."""
    from cupy.cuda.device import get_cusolver_sp_handle
    from cupy_backends.cuda.libs import cusolver as library

    system = case.system
    xp, A = device.xp(), there(system.A)
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
    """Mean curvature flow from a mesh of the host to one, every stage and every transfer; then further steps."""
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


SOLVERS = {                                                 # what the bars need comes first
    "meshsolve cuda": on_gpu("double"),
    "metis alone": metis,
    "cudss own order": cudss_alone,
    "cudss our order": on_gpu("double", backend="cudss"),
    "meshsolve cuda mixed": on_gpu("mixed"),
    "flow cuda": flow("cuda"),
    "meshsolve cpu": on_cpu,
    "flow cpu": flow("cpu"),
    "cusolver metis": cusolver,
}


def bars(rows):
    """What the GPU path is measured by, each on the largest mesh of at least a million vertices that has both rows."""
    def compare(what, above, below, column, bound, at_least=True):
        values = {(row["solver"], row["n"]): row.get(column) for row in rows if row["n"] >= LARGE}
        sizes = [n for solver, n in values if solver == above and values[above, n] and values.get((below, n))]
        if not sizes:
            return bar(what, None, bound, at_least)
        n = max(sizes)
        return bar(f"{what}, {n:,} vertices", values[above, n] / values[below, n], bound, at_least)

    ours, theirs = "meshsolve cuda", "cudss own order"
    return [compare("ordering: times faster than METIS on one core", "metis alone", ours, "order", 15),
            compare("nnz(L) beside METIS'", ours, "metis alone", "nnz(L) M", 1.10, at_least=False),
            compare("first solve: times faster than cuDSS in its own order", theirs, ours, "first", 1),
            compare("refactorization and three solves beside cuDSS'", ours, theirs, "step", 1.5, at_least=False)]


def fewer(case, repeat):
    """How often something of the CPU is measured: once where it takes seconds."""
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
    """Hands back the memory that the row before left in the pool: other libraries do not take theirs from it."""
    gc.collect()
    if device.available():
        device.backend().release()


def wait():
    """Until the device has done everything; nothing where there is none."""
    if device.available() and hasattr(device.xp(), "cuda"):
        device.xp().cuda.Device().synchronize()


def there(M):
    """A host array or csr matrix on the device."""
    if isinstance(M, np.ndarray):
        return device.xp().asarray(M)
    parts = (device.xp().asarray(part) for part in (M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32)))
    return device.csr(*parts, M.shape)


def describe_device():
    """Name, memory and versions of the GPU, or why there is none."""
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
    raise SystemExit(main())
