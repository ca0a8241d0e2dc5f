"""The table of docs/indefinite.md: iterations and seconds of SQMR for each choice of the incomplete factorization.

    python -m benchmarks.ildl_guide [NAME ...]         # names as in benchmarks.ildl; prints Markdown

Random solutions, unscaled residual 1e-6, 1000 iterations at most, one thread, CPU seconds (the smaller of two runs).
"""

from __future__ import annotations

import sys
import time
import warnings

import numpy as np

import meshsolve as ms
from benchmarks.ildl import load

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
    """Print the table."""
    warnings.simplefilter("ignore")
    names = names or SYSTEMS
    print("| choice | " + " | ".join(names) + " |\n|---|" + "---|" * len(names))
    for choice in CHOICES:
        what = ", ".join(f"`{k}={v!r}`" for k, v in choice.items()) or "default: level 2, pairs, rook, tiles of 2, droptol 1e-3"
        print(f"| {what} | " + " | ".join(measure(name, choice) for name in names) + " |", flush=True)


def measure(name, choice):
    """One cell: iterations, nnz(L) over nnz(tril(A)), seconds; a cross where SQMR does not converge."""
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
    perturbed = K.report.facts["perturbed"]
    note = f", {perturbed} perturbed" if perturbed else ""
    fill = 2 * K.nnz / (A.nnz + A.shape[0])
    return (f"{info.iterations}; {fill:.1f}; {best[0]:.2f} + {best[1]:.2f} s" if info.converged else f"× ({fill:.1f})") + note


if __name__ == "__main__":
    main(sys.argv[1:])
