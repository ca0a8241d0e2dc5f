"""The GPU beside the CPU, cuDSS and cuSOLVER: ordering, analysis, first solve, refactorization, solve; one command, 8 minutes.

    python -m benchmarks.gpu [--meshes igea ogre-1] [--solvers ...] [--repeat 5] [--budget 480]

Every solver gets the same matrix where it works (on the GPU, but for the CPU's); times end with the device idle. A row that
fails says why and the next goes on; what no longer fits into the budget is left out and said so. Compilation of kernels is a
warm-up of its own, timed apart. Prints one table and leaves benchmarks/results/gpu-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, summary, write_json
from benchmarks.problems import find, smoothing_system
from benchmarks.table import Table
from benchmarks.worker import backward_error
from meshsolve import device
from meshsolve.errors import MeshsolveError
from meshsolve.factor.cholesky import CholeskyFactor, DeviceValues
from meshsolve.factor.cholesky.cudss import CudssFactor

MESHES = ("icosphere-6", "icosphere-7", "igea", "icosphere-8", "ogre-2", "icosphere-9")
COLUMNS = ("solver", "order", "symbolic", "numeric", "first", "refactor", "solve3", "step", "nnz(L) M", "error")
METIS = 3                                                   # cusolverSp's own METIS, as its `reorder` argument


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
        path = write_json(run, options.out)                 # so that a run cut short leaves what it measured
    print(f"written: {path}")
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
        system = smoothing_system(find(name).mesh())
    except (SystemExit, MemoryError, MeshsolveError) as e:
        run["failed"][name] = str(e)
        print(f"\n{name}: left out: {e}")
        return
    print(f"\n{name}: {system.n:,} vertices; milliseconds")
    table = Table(*COLUMNS)
    for solver in options.solvers:
        if time.perf_counter() - begin > options.budget:
            run["failed"][f"{name}, {solver}"] = "out of budget"
            print(f"{solver:22} left out: the budget of {options.budget:g} s is spent")
            continue
        row = attempt(SOLVERS[solver], system, options.repeat)
        if "failed" in row:
            run["failed"][f"{name}, {solver}"] = row["failed"]
            print(f"{solver:22} failed: {row['failed']}")
        else:
            table.row(solver, *(row.get(column) for column in COLUMNS[1:]))
        run["rows"].append({"mesh": name, "n": system.n, "solver": solver, **row})


def attempt(solver, system, repeat):
    """The row of a solver, or why there is none: whatever a driver, a compiler or a library raises ends this row only."""
    try:
        return solver(system, repeat)
    except Exception as e:
        return {"failed": f"{type(e).__name__}: {e}".split("\n")[0][:300]}


def warm_up(solvers):
    """Seconds until each solver has solved a small system: kernels compiled, libraries loaded."""
    system, seconds = smoothing_system(ms.datasets.icosphere(3)), {}
    for solver in solvers:
        start = time.perf_counter()
        row = attempt(SOLVERS[solver], system, 1)
        seconds[solver] = row.get("failed", time.perf_counter() - start)
        print(f"warm-up {solver}: {seconds[solver] if 'failed' in row else format(seconds[solver], '.2f') + ' s'}")
    return seconds


# ---- solvers ----------------------------------------------------------------------------------------------------------


def on_cpu(system, repeat):
    """The CPU path of this library, for scale."""
    return measured(lambda: ms.cholesky(system.A, device="cpu"), system.A, system.A2, system.B, system, repeat)


def on_gpu(precision, **options):
    """A solver of this library on the GPU."""
    def solver(system, repeat):
        A, A2, B = (there(M) for M in (system.A, system.A2, system.B))
        return measured(lambda: ms.cholesky(A, device="cuda", precision=precision, **options), A, A2, B, system, repeat)
    return solver


def cudss_alone(system, repeat):
    """cuDSS with its own ordering, called as this library calls it."""
    sym = ms.analyze(system.A)                              # outside the clock: cuDSS orders what it gets once more
    A, A2, B = (there(M) for M in (system.A, system.A2, system.B))

    def first():
        values = DeviceValues(system.n, sym.on_device()[0])
        return CholeskyFactor(sym, values, values.of(A), engine=OwnOrder)

    row = measured(first, A, A2, B, system, repeat)
    return row | {"order": None, "symbolic": None}           # inside "numeric" of the first factorization


def cusolver(system, repeat):
    """cuSOLVER's sparse Cholesky with METIS, one right-hand side, all in one call."""
    from cupy.cuda.device import get_cusolver_sp_handle
    from cupy_backends.cuda.libs import cusolver as library

    xp, A = device.xp(), there(system.A)
    b, x, singular = xp.asarray(system.B[:, 0]), xp.empty(system.n), np.zeros(1, np.int32)

    def call():
        library.dcsrlsvchol(get_cusolver_sp_handle(), system.n, A.nnz, A._descr.descriptor, A.data.data.ptr, A.indptr.data.ptr,
                            A.indices.data.ptr, b.data.ptr, 1e-14, METIS, x.data.ptr, singular.ctypes.data)

    first = timed(call)
    error = backward_error(system.A, device.to_host(x), system.B[:, 0])
    return {"first": 1e3 * first, "error": error, "one_right_hand_side": True}


SOLVERS = {
    "meshsolve cpu": on_cpu,
    "meshsolve cuda": on_gpu("double"),
    "meshsolve cuda mixed": on_gpu("mixed"),
    "cudss our order": on_gpu("double", backend="cudss"),
    "cudss own order": cudss_alone,
    "cusolver metis": cusolver,
}


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
