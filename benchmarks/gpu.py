"""The GPU beside the CPU, METIS, cuDSS and cuSOLVER: ordering, analysis, first solve, refactorization, solve, whole steps of a flow.
One command, 8 minutes.

    python -m benchmarks.gpu [--meshes igea ogre-1] [--solvers ...] [--repeat 5] [--budget 480]

Rows "flow": ms.apps.mcf; "first" is a flow of one step from the mesh to the mesh, "step" what a further one takes. Every solver gets the same matrix where it works (on the GPU, but for the CPU's); times end with the device idle. A row that
fails says why and the next goes on; what no longer fits into the budget is left out and said so. Compilation of kernels is a
warm-up of its own, timed apart. Prints one table and leaves benchmarks/results/gpu-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import os
import time
from typing import NamedTuple

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, summary, write_json
from benchmarks.peers.metis import METIS
from benchmarks.problems import System, find, smoothing_system
from benchmarks.table import Table, bar, print_bars
from benchmarks.worker import backward_error
from meshsolve import device
from meshsolve.errors import MeshsolveError
from meshsolve.factor.cholesky import CholeskyFactor, DeviceValues
from meshsolve.factor.cholesky.cudss import CudssFactor

MESHES = ("icosphere-6", "icosphere-7", "igea", "icosphere-8", "ogre-2", "icosphere-9")
COLUMNS = ("solver", "order", "symbolic", "numeric", "first", "refactor", "solve3", "step", "nnz(L) M", "error")
WARM_UP = 5                                                 # level of a small icosphere that is dissected on the GPU all the same
LARGE = 1_000_000                                           # vertices from which the bars count
REORDER = 3                                                 # cusolverSp's own METIS, as its `reorder` argument


class Case(NamedTuple):
    """A mesh and the system of a smoothing step on it."""

    mesh: ms.Mesh
    system: System


class OwnOrder(CudssFactor):
    """cuDSS with the ordering that it makes itself."""

    our_ordering = False


def main(arguments=None):
    """Run the benchmark; returns 1 where a row failed."""
    options = parser().parse_args(arguments)
    begin = time.perf_counter()
    run = describe("gpu", [os.cpu_count() or 1], "wall") | {"device": describe_device(), "rows": [], "failed": {}}
    print("device:", run["device"])
    run["warm_up"] = warm_up(options.solvers)
    for name in options.meshes:
        measure_mesh(name, options, begin, run)
        write_json(run, options.out)                        # so that a run cut short leaves what it measured
    run["bars"] = bars(run["rows"])
    print_bars(run["bars"])
    print(f"written: {write_json(run, options.out)}")
    return 1 if run["failed"] else 0


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__.split("\n")[0])
    p.add_argument("--meshes", nargs="+", default=MESHES, help="names (igea, igea-1, icosphere-7) or mesh files")
    p.add_argument("--solvers", nargs="+", default=list(SOLVERS), choices=list(SOLVERS), metavar="NAME", help=", ".join(SOLVERS))
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--budget", type=float, default=480, help="seconds after which no further row begins")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def measure_mesh(name, options, begin, run):
    """All rows of one mesh."""
    try:
        mesh = find(name).mesh()
        case = Case(mesh, smoothing_system(mesh))
    except (SystemExit, MemoryError, MeshsolveError) as e:
        run["failed"][name] = str(e)
        print(f"\n{name}: left out: {e}")
        return
    n = case.system.n
    print(f"\n{name}: {n:,} vertices; milliseconds")
    table = Table(*COLUMNS)
    for solver in options.solvers:
        if time.perf_counter() - begin > options.budget:
            run["failed"][f"{name}, {solver}"] = "out of budget"
            print(f"{solver:22} left out: the budget of {options.budget:g} s is spent")
            continue
        row = attempt(SOLVERS[solver], case, options.repeat)
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
    system = case.system
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
    seconds = [timed(lambda: found.update(perm=peer.run(graph))) for _ in range(min(repeat, 3))]
    sym = ms.analyze(case.system.A, peer.perm(found["perm"]), device="cpu")
    return {"order": 1e3 * float(np.median(seconds)), "nnz(L) M": sym.nnz / 1e6}


def flow(place):
    """Mean curvature flow from a mesh of the host to one: every stage and every transfer."""
    def solver(case, repeat):
        def of_steps(steps):
            return timed(lambda: kept.update(report=ms.apps.mcf(case.mesh, steps=steps, device=place)[1]))

        kept = {}
        one = [of_steps(1) for _ in range(2)][-1]
        more = of_steps(1 + repeat)
        phases = {name: 1e3 * kept["report"].seconds.get(name, np.nan) for name in ("order", "symbolic")}
        return phases | {"first": 1e3 * one, "step": 1e3 * (more - one) / repeat, "error": kept["report"].facts["residual"]}
    return solver


SOLVERS = {
    "meshsolve cpu": on_cpu,
    "meshsolve cuda": on_gpu("double"),
    "meshsolve cuda mixed": on_gpu("mixed"),
    "cudss our order": on_gpu("double", backend="cudss"),
    "cudss own order": cudss_alone,
    "cusolver metis": cusolver,
    "metis alone": metis,
    "flow cpu": flow("cpu"),
    "flow cuda": flow("cuda"),
}


def bars(rows):
    """What the GPU path is measured by, on the largest mesh of at least a million vertices; not measured where a row is missing."""
    largest = max((row["n"] for row in rows if row["n"] >= LARGE), default=None)
    row = {row["solver"]: row for row in rows if row["n"] == largest and "failed" not in row}

    def ratio(above, below, column):
        a, b = (row.get(solver, {}).get(column) for solver in (above, below))
        return a / b if a and b else None

    ours, theirs = "meshsolve cuda", "cudss own order"
    return [bar("ordering: times faster than METIS on one core", ratio("metis alone", ours, "order"), 15),
            bar("nnz(L) beside METIS'", ratio(ours, "metis alone", "nnz(L) M"), 1.10, at_least=False),
            bar("first solve: times faster than cuDSS in its own order", ratio(theirs, ours, "first"), 1),
            bar("refactorization and three solves beside cuDSS'", ratio(ours, theirs, "step"), 1.5, at_least=False)]


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
