"""The table of docs/indefinite.md: iterations and seconds of SQMR for each choice of the incomplete factorization.

    python -m benchmarks.ildl_guide [NAME ...]         # names as in benchmarks.ildl; prints Markdown

The result file in ``benchmarks/results/`` is the source of that table.

Random solutions, unscaled residual 1e-6, 1000 iterations at most, one thread, CPU seconds (the smaller of two runs).
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import meshsolve as ms
from benchmarks.ildl import load
from benchmarks.measure import describe, write_json

SYSTEMS = ("kkt-random-10k", "stokes-128", "cont-101_kkt", "tuma2", "aug2dc_kkt")
CHOICES = [
    {},
    {"pairs": False},
    {"pairs": False, "pivoting": "static"},
    {"pivoting": "static"},
    {"pivoting": "bunch-kaufman"},
    {"fill_level": 0},
    {"fill_level": 1},
    {"fill_level": 4},
    {"fill_level": 8, "droptol": 1e-4},
    {"droptol": 0.0},
    {"tile_size": 8},
    {"tile_size": 8, "blocking": "BR"},
    {"tile_size": 32, "fill_level": 1},
    {"tile_size": 32, "fill_level": 1, "pairs": False},
]


def main(names):
    """Measure, write ``results/ildl_guide-<date>-1t.json`` and print the table."""
    warnings.simplefilter("ignore")
    names = names or SYSTEMS
    run = describe("ildl_guide", [1], "process_time") | {
        "rows": [{"choice": choice, "cells": {name: measure(name, choice) for name in names}} for choice in CHOICES]}
    print(table(run["rows"], names))
    print(f"\n{write_json(run)}", file=sys.stderr)


def measure(name, choice):
    """One cell: iterations, nnz(L) over nnz(tril(A)), CPU seconds to factor and to solve, perturbed pivots."""
    A = load(name)
    b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
    options = {"fill_level": 2} | choice
    best = None
    for _ in range(2):
        start = time.process_time()
        K = ms.ildl(A, threads=1, **options)
        factored = time.process_time()
        _, info = ms.sqmr(A, b, M=K, rtol=1e-6, maxiter=1000, threads=1)
        done = time.process_time()
        if best is None or done - start < sum(best):
            best = factored - start, done - factored
        if not info.converged:
            break
    return {"converged": bool(info.converged), "iterations": int(info.iterations), "fill": 2 * K.nnz / (A.nnz + A.shape[0]),
            "factor_s": best[0], "solve_s": best[1], "perturbed": int(K.report.facts["perturbed"])}


def table(rows, names):
    """The rows of a result file as Markdown. A cross means no convergence of SQMR."""
    lines = ["| choice | " + " | ".join(names) + " |", "|---|" + "---|" * len(names)]
    for row in rows:
        what = ", ".join(f"`{k}={v!r}`" for k, v in row["choice"].items()) or (
            "default: level 2, pairs, rook, tiles of 2, droptol 1e-3")
        lines.append(f"| {what} | " + " | ".join(_cell(**row["cells"][name]) for name in names) + " |")
    return "\n".join(lines)


def _cell(converged, iterations, fill, factor_s, solve_s, perturbed):
    text = f"{iterations}; {fill:.1f}; {factor_s:.2f} + {solve_s:.2f} s" if converged else f"× ({fill:.1f})"
    return text + (f", {perturbed} perturbed" if perturbed else "")


if __name__ == "__main__":
    main(sys.argv[1:])
