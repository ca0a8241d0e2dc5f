"""ParAC and block L D L^T on the GPU, compared with one CPU thread, cuDSS, and IC(0) with conjugate gradients on cuSPARSE.

    python -m benchmarks.gpu_factors [--problems stokes-400 delaunay-500k] [--quick] [--repeat 3] [--budget 240]

L D L^T: the incomplete factor of level 1 with tiles of 32 rows and pairs, the same on both devices, with SQMR to 1e-6. Also the
default of a CPU for tiles of 32, and the complete factor. ``factor`` is a refactorization. ParAC: rounds. ``factor`` is the whole
set-up, ``solve`` conjugate gradients to 1e-8. cuDSS gets the Laplacian without its last row. Matrices and right-hand sides lie on
the device of the solver. Kernels are compiled before. Times end with the device idle. Prints a row for each problem and solver,
and writes benchmarks/results/gpu_factors-<date>-1t.json.
"""

from __future__ import annotations

import argparse

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from benchmarks import ildl, parac
from benchmarks.gpu import Budget, OwnOrder, attempt, describe_device, release, timed, to_device
from benchmarks.measure import describe, geometric_mean, write_json
from benchmarks.peers.cusparse import IncompleteCholesky
from benchmarks.table import Table, bar, print_bars
from meshsolve import device
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.cholesky.values import Values
from meshsolve.sparse.places import CUDA

SADDLES = ("cont-201_kkt", "momentum1_kkt", "kkt-random-50k", "kkt-banded-50k", "kkt-banded-200k", "conformal-map-7",
           "constrained-smoothing-7", "stokes-400")
LAPLACIANS = ("grid2d-1000", "delaunay-500k", "road-500k", "grid3d-100")
QUICK = ("stokes-128", "grid3d-30")
TILES = {"fill_level": 1, "tile_size": 32}
TOLERANCE, SOLVED, MAXITER = 1e-8, 1e-6, 300
GAIN = 6                                                    # bar: mean speedup of the incomplete factor over one CPU thread
COLUMNS = ("solver", "first", "factor", "solve", "its", "levels", "nnz(L) M", "residual")


def factor_row(place, repeat, A, b, **options):
    """`ms.ildl`: first factorization, fastest refactorization, and a solve, by SQMR if the factor is incomplete."""
    M, v = (A, b) if place == "cpu" else (to_device(A), device.to_device(b))
    threads, kept = {"threads": 1} if place == "cpu" else {}, {}
    first = timed(lambda: kept.update(K=ms.ildl(M, device=place, **options, **threads)))
    K = kept["K"]
    factor = min(timed(lambda: K.refactor(M)) for _ in range(repeat))
    if K.is_complete:
        solve = min(timed(lambda: kept.update(found=(K.solve(v), None))) for _ in range(repeat))
    else:
        solve = timed(lambda: kept.update(found=ms.sqmr(M, v, M=K, rtol=SOLVED, maxiter=MAXITER, **threads)))
    x, info = kept["found"]
    x = device.to_host(x) if place == "cuda" else x
    return {"first": first, "factor": factor, "solve": solve, "its": info and info.iterations, "nnz(L) M": K.nnz / 1e6,
            "levels": K.report.facts.get("levels"), "residual": error(A, x, b)}


def parac_row(place, repeat, A, b):
    """The set-up by `ms.parac`, and conjugate gradients with it."""
    M, v = (A, b) if place == "cpu" else (to_device(A), device.to_device(b))
    threads, kept = {"threads": 1} if place == "cpu" else {}, {}
    factor = min(timed(lambda: kept.update(F=ms.parac(M, ordering="rounds", device=place, **threads))) for _ in range(repeat))
    solve = min(timed(lambda: kept.update(found=ms.cg(M, v, M=kept["F"], rtol=TOLERANCE, **threads))) for _ in range(repeat))
    x, info = kept["found"]
    x = device.to_host(x) if place == "cuda" else x
    return {"factor": factor, "solve": solve, "its": info.iterations, "nnz(L) M": kept["F"].nnz / 1e6, "residual": error(A, x, b)}


def cudss_row(A, b):
    """cuDSS in its own order on the Laplacian without its last row: analysis with factorization, then a solve."""
    n, kept = A.shape[0] - 1, {}
    grounded = sp.csr_array(sp.csr_array(A)[:n, :n])
    sym, M, v = ms.analyze(grounded), to_device(grounded), device.to_device(b[:n])

    def first():
        values = Values(n, sym, place=CUDA)
        kept.update(F=CholeskyFactor(sym, values, values.of(M), engine=OwnOrder))

    factor = timed(first)
    solve = timed(lambda: kept.update(x=kept["F"].solve(v)))
    x = np.append(device.to_host(kept["x"]), 0.0)
    return {"factor": factor, "solve": solve, "residual": error(A, x, b)}


def ic0_row(repeat, A, b):
    """cuSPARSE's IC(0) and conjugate gradients."""
    peer, v, kept = IncompleteCholesky(), device.to_device(b), {}
    peer.put(A)
    factor = min(timed(peer.setup) for _ in range(repeat))
    solve = min(timed(lambda: kept.update(found=peer.solve(v, TOLERANCE))) for _ in range(repeat))
    x, iterations = kept["found"]
    return {"factor": factor, "solve": solve, "its": iterations, "residual": error(A, device.to_host(x), b)}


def error(A, x, b):
    """||b - A x|| / ||b||."""
    return float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))


SOLVERS = {
    "ildl": {
        "full tiles, 1 thread": lambda case, repeat: factor_row("cpu", repeat, *case, **TILES),
        "incomplete, 1 thread": lambda case, repeat: factor_row("cpu", repeat, *case, **TILES, blocking="subtree"),
        "incomplete, cuda": lambda case, repeat: factor_row("cuda", repeat, *case, **TILES, blocking="subtree"),
        "complete, 1 thread": lambda case, repeat: factor_row("cpu", repeat, *case, fill_level=None),
        "complete, cuda": lambda case, repeat: factor_row("cuda", repeat, *case, fill_level=None),
    },
    "parac": {
        "parac, 1 thread": lambda case, repeat: parac_row("cpu", repeat, *case),
        "parac, cuda": lambda case, repeat: parac_row("cuda", repeat, *case),
        "cudss": lambda case, repeat: cudss_row(*case),
        "cusparse ic0": lambda case, repeat: ic0_row(repeat, *case),
    },
}
TOO_MUCH = {("kkt-random-50k", "complete, 1 thread"), ("kkt-random-50k", "complete, cuda")}         # fill of a dense matrix


def case_of(kind, name):
    """(A, b) of a problem. b = A x for a random x, so that Laplacians have a solution."""
    A = ildl.load(name) if kind == "ildl" else sp.csr_array(parac.PROBLEMS[name].make())
    return A, A @ np.random.default_rng(0).standard_normal(A.shape[0])


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed."""
    options = parser().parse_args(arguments)
    names = options.problems or (QUICK if options.quick else [*SADDLES, *LAPLACIANS])
    run = describe("gpu_factors", [1], "wall") | {"device": describe_device(), "rows": [], "failed": {}}
    print("device:", run["device"], flush=True)
    for kind, small in (("ildl", ms.datasets.kkt(60, 20)), ("parac", ms.datasets.grid2d(20, 20))):
        case = small, small @ np.arange(float(small.shape[0]))
        for solver in SOLVERS[kind].values():
            attempt(solver, case, 1)                        # compiles kernels, loads libraries
    budget = Budget(options.budget)
    for name in names:
        measure_problem(name, options.repeat, run, budget)
        write_json(run, options.out)
    run["bars"] = bars(run["rows"])
    print("milliseconds; written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def measure_problem(name, repeat, run, budget):
    """All rows of one problem."""
    kind = "parac" if name in parac.PROBLEMS else "ildl"
    try:
        case = case_of(kind, name)
    except (FileNotFoundError, IndexError, TypeError) as e:
        run["failed"][name] = f"not available: {e}"
        print(f"\n{name}: {run['failed'][name]}", flush=True)
        return
    n = case[0].shape[0]
    print(f"\n{name}: {n:,} unknowns", flush=True)
    table = Table(*COLUMNS)
    for label, solver in SOLVERS[kind].items():
        refused = "the complete factor is all but dense" if (name, label) in TOO_MUCH else budget.refuses(label, n)
        with budget.spend(label, n):
            row = {"failed": refused} if refused else attempt(solver, case, repeat)
        release()
        run["rows"].append({"problem": name, "n": n, "solver": label, **row})
        if "failed" in row:
            print(f"{label:22} failed: {row['failed']}", flush=True)
        else:
            table.row(label, *(1e3 * row[c] if c in ("first", "factor", "solve") and c in row else row.get(c) for c in COLUMNS[1:]))


def bars(rows):
    """Speedup of the GPU over one CPU thread: factors of L D L^T, set-up and solve of ParAC."""
    at = {(row["problem"], row["solver"]): row for row in rows if "failed" not in row}
    out = []
    for what, phases, bound in (("incomplete", ("factor",), GAIN), ("complete", ("factor",), None), ("parac", ("factor",), None),
                                ("parac", ("factor", "solve"), None)):
        both = [p for p, s in at if s == f"{what}, cuda" and (p, f"{what}, 1 thread") in at]
        gains = [sum(at[p, f"{what}, 1 thread"][f] for f in phases) / sum(at[p, f"{what}, cuda"][f] for f in phases) for p in both]
        label = f"{what}, {' and '.join(phases)}: GPU over one CPU thread"
        out.append(bar(f"{label}, mean of {len(gains)}", float(np.mean(gains)) if gains else None, bound or 1, asked=bound is not None))
        out.append(bar(f"{label}, geometric mean", geometric_mean(gains) if gains else None, bound or 1, asked=False))
    return out


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.gpu_factors", description=__doc__.split("\n")[0])
    p.add_argument("--problems", nargs="+", default=[], metavar="NAME", help="of benchmarks.ildl and benchmarks.parac")
    p.add_argument("--quick", action="store_true", help="two small problems only")
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--budget", type=float, default=240, help="seconds; nothing begins that, by the problem before, ends later")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


if __name__ == "__main__":
    raise SystemExit(main())
