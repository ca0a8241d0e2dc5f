"""Many systems of one pattern: refactor and solve all of them, compared with loops over factors of meshsolve, CHOLMOD and KLU.

    python -m benchmarks.many [--kinds cholesky lu ldlt] [--sizes 36 642 5000] [--count 10000] [--repeat 5] [--threads 2] [--device cuda]
    python -m benchmarks.many --threads 1 --clock cpu       # on a machine that others use

For Cholesky the systems are Laplacians of a 6 x 6 grid, of a sphere with 642 vertices and of a grid with 5,000 vertices, each with a random
positive diagonal; for L D L^T the same shifted by -1, which is indefinite; for LU generated circuits of about as many rows, whose entries
vary by a fifth. A loop calls ``refactor`` and ``solve`` for each system of a sample, with one thread; CHOLMOD (supernodal or simplicial
as it chooses, METIS) and KLU get prepared arrays and are called by ctypes. A batch has all threads and writes its solutions to an
array that it gets. "Kept" is ``refactor`` and ``solve`` of a batch that keeps all factors. "One pass" is the same of a batch that, like a
loop, keeps none (``keep=False``); the bars are for it. Solutions of the sample are compared bit by bit with those of a single factor.
Prints microseconds per system and writes benchmarks/results/many-<date>-<threads>t.json.

With ``--device cuda`` the values and right-hand sides of the Cholesky systems lie on the GPU. The peer is the uniform batch of cuDSS.
Times end when the results are complete. Writes benchmarks/results/many-cuda-<date>-1t.json.
"""

from __future__ import annotations

import argparse

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from benchmarks.gpu import describe_device
from benchmarks.measure import clock_for, describe, interleave, library_threads, summary, write_json
from benchmarks.peers import Unavailable
from benchmarks.peers.cholmod import Cholmod
from benchmarks.peers.cudss import UniformBatch
from benchmarks.peers.klu import Klu
from benchmarks.table import Table, bar, print_bars
from meshsolve import device

FLOATS = 150_000_000                            # most numbers of all values: 5,000 rows get as many systems as fit
SAMPLE = 200                                    # systems of a loop
GOALS = {36: 20.0, 642: 4.0, 5000: 1.5}         # times faster than the loop over single factors, on two threads
PEER_GOAL = 3.0                                 # times faster than loops over other libraries, on two threads
CUDSS_GOAL = 1.5                                # times faster than the uniform batch of cuDSS
CIRCUITS = {36: 5, 642: 24, 5000: 70}           # sides of power grids with about as many rows
TASKS = ("one pass", "kept", "loop", "cholmod", "klu")
PEERS = {"cholesky": {"cholmod": lambda: Cholmod("metis"), "klu": Klu}, "lu": {"klu": Klu}, "ldlt": {"klu": Klu}}


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar is missed or a solution has other bits."""
    options = parser().parse_args(arguments)
    if options.device == "cuda":
        return main_cuda(options)
    clock = clock_for(options.threads, options.clock)
    run = describe("many", [options.threads], clock) | {"rows": [], "left_out": {}}
    table = Table("kind", "rows", "systems", *(f"{name} us" for name in TASKS))
    with library_threads(1):
        for kind in options.kinds:
            for size in options.sizes:
                row = measure(kind, size, options, clock, run["left_out"])
                run["rows"].append(row)
                table.row(kind, row["n"], row["systems"], *(of(row, name) for name in TASKS))
    for name, why in run["left_out"].items():
        print(f"left out: {name}: {why}")
    run["bars"] = verdicts(run)
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def main_cuda(options):
    """The same for batches on the GPU."""
    run = describe("many-cuda", [1], "wall") | {"device": describe_device(), "rows": [], "left_out": {}}
    table = Table("rows", "systems", "batch us", "cudss us")
    for size in options.sizes:
        row = measure_cuda(size, options, run["left_out"])
        run["rows"].append(row)
        table.row(row["n"], row["systems"], *(of(row, name) for name in ("batch", "cudss")))
    for name, why in run["left_out"].items():
        print(f"left out: {name}: {why}")
    run["bars"] = [bar(f"{row['n']} rows: times faster than the uniform batch of cuDSS", of(row, "cudss") / of(row, "batch"), CUDSS_GOAL)
                   for row in run["rows"] if "cudss" in row["seconds"]]
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.many", description=__doc__.split("\n")[0])
    p.add_argument("--kinds", nargs="+", default=list(PEERS), choices=list(PEERS))
    p.add_argument("--sizes", nargs="+", type=int, default=list(GOALS), choices=list(GOALS))
    p.add_argument("--count", type=int, default=10_000, help="systems, fewer if their values would take more than 1.2 GB")
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: with one thread; half of each bar must be reached")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: Cholesky only")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def pattern(size):
    """A Laplacian with about ``size`` rows."""
    if size == 642:
        return sp.csr_array(ms.cotan_laplacian(ms.datasets.icosphere(3)))
    side = round(size ** 0.5)
    return sp.csr_array(ms.datasets.grid2d(side, side))


def systems(kind, size, count):
    """(values of many systems, their pattern as a matrix, single factor with one thread, function of values that makes the batch)."""
    A = pattern(size) if kind != "lu" else sp.csr_array(ms.datasets.power_grid(CIRCUITS[size], controlled=True))
    n, rng = A.shape[0], np.random.default_rng(0)
    count = max(min(count, FLOATS // A.nnz), SAMPLE)
    if kind == "lu":
        F = ms.lu(A, threads=1)
        return A.data * rng.uniform(0.8, 1.25, (count, A.nnz)), A, F, F.factor_batch
    values = np.repeat(A.data[None], count, axis=0)
    values[:, np.repeat(np.arange(n), np.diff(A.indptr)) == A.indices] += 0.1 + rng.random((count, n)) - (kind == "ldlt")
    if kind == "ldlt":
        K = ms.ildl(sp.csr_array((values[0], A.indices, A.indptr), shape=A.shape), fill_level=None, threads=1)
        return values, A, K, K.factor_batch
    sym = ms.analyze(A)
    return values, A, sym.factor(A + sp.eye_array(n), threads=1), sym.factor_batch


def measure(kind, size, options, clock, left_out):
    """Seconds of all systems in the batch and of a sample in the loops."""
    values, A, single, factor_batch = systems(kind, size, options.count)
    count, n = len(values), A.shape[0]
    b = np.random.default_rng(1).standard_normal((count, n))
    kept, F = (factor_batch(values, threads=options.threads, keep=keep) for keep in (True, False))
    matrices = [sp.csr_array((row, A.indices, A.indptr), shape=A.shape) for row in values[:SAMPLE]]
    x = kept.solve(b)
    if not np.array_equal(F.solve(b), x, equal_nan=True):
        raise RuntimeError(f"{kind}: {n} rows: batches that keep factors and that do not have other bits")
    for i, M in enumerate(matrices):
        if not np.array_equal(single.refactor(M).solve(b[i]), x[i]):
            raise RuntimeError(f"{kind}: system {i} of {n} rows has other bits than a single factor")

    def batch(F):
        F.refactor(values)
        F.solve(b, out=x)

    def loop():
        for M, right in zip(matrices, b, strict=False):
            single.refactor(M)
            single.solve(right)

    tasks = {"one pass": lambda: batch(F), "kept": lambda: batch(kept), "loop": loop}
    tasks |= loops_of_peers(PEERS[kind], matrices, b, x, left_out)
    seconds = interleave(tasks, options.repeat)[1]
    number = {"one pass": count, "kept": count}
    per_system = {name: summary(np.array(found[clock]) / number.get(name, SAMPLE)) for name, found in seconds.items()}
    return {"kind": kind, "n": n, "nnz": A.nnz, "systems": count, "alone": len(getattr(F, "alone", ())), "seconds": per_system}


def measure_cuda(size, options, left_out):
    """Seconds of all systems in the batch on the GPU, and in that of cuDSS."""
    values, A, _, factor_batch = systems("cholesky", size, options.count)
    count, n = len(values), A.shape[0]
    b = np.random.default_rng(1).standard_normal((count, n))
    expected = factor_batch(values[:SAMPLE]).solve(b[:SAMPLE])
    V, B = device.to_device(values), device.to_device(b)
    batches = {"batch": factor_batch(V)}
    try:
        batches["cudss"] = UniformBatch(batches["batch"].symbolic, count)
    except Unavailable as why:
        left_out["cudss"] = str(why)

    def task(F):
        F.refactor(V)
        return device.to_host(F.solve(B)[:1, :1])           # waits for the GPU

    for name, F in batches.items():
        task(F)
        if not np.allclose(device.to_host(F.solve(B)[:SAMPLE]), expected):
            raise RuntimeError(f"{name}: other solutions than on the CPU, {n} rows")
    tasks = {name: lambda F=F: task(F) for name, F in batches.items()}
    seconds = interleave(tasks, options.repeat)[1]
    return {"kind": "cholesky", "n": n, "nnz": A.nnz, "systems": count,
            "seconds": {name: summary(np.array(found["wall"]) / count) for name, found in seconds.items()}}


def loops_of_peers(peers, matrices, b, x, left_out):
    """A function for each peer that is installed: it factors and solves the sample."""
    tasks = {}
    for name, make in peers.items():
        try:
            peer = make()
        except Unavailable as why:
            left_out[name] = str(why)
            continue
        prepared = [peer.matrix(M) for M in matrices]
        right = [np.asfortranarray(b[i][:, None]) for i in range(len(matrices))]
        peer.analyze(prepared[0])
        peer.factor(prepared[0])
        if not np.allclose(peer.solve(right[0])[:, 0], x[0]):
            raise RuntimeError(f"{name} has another solution")
        again = getattr(peer, "refactor", peer.factor)

        def task(again=again, solve=peer.solve, prepared=prepared, right=right):
            for M, column in zip(prepared, right, strict=True):
                again(M)
                solve(column)

        tasks[name] = task
    return tasks


def of(row, name):
    """Microseconds per system, or None."""
    return 1e6 * row["seconds"][name]["median"] if name in row["seconds"] else None


def verdicts(run):
    """Times faster than each loop. One thread must reach half of what two must."""
    bars, share = [], min(run["threads"][0], 2) / 2
    for row in run["rows"]:
        goal = GOALS[min(GOALS, key=lambda size: abs(size - row["n"]))]
        what = f"{row['kind']}, {row['n']} rows: times faster than a loop over"
        peers = {"loop": ("a single factor", goal)} | {name: (name, PEER_GOAL) for name in PEERS[row["kind"]] if name in row["seconds"]}
        bars += [bar(f"{what} {peer}", of(row, name) / of(row, "one pass"), share * least) for name, (peer, least) in peers.items()]
    return bars


if __name__ == "__main__":
    raise SystemExit(main())
