"""Iterations of the two-level Schwarz method of ms.petsc, by the number of subdomains.

    python -m benchmarks.petsc [--level 7] [--subdomains 1 2 4 8 64] [--most-ranks 2] [--overlap 2]

The matrix is the cotangent Laplacian of a sphere of 10 * 4^level + 2 vertices plus 1e-6 times its mass matrix, the right-hand side is
random of mean 0, and the relative residual is 1e-8. Iterations depend on the subdomains, not on the ranks: programs run on at most
``--most-ranks`` ranks of this machine, with several subdomains each. No time is measured: ranks on one machine share its memory.
Writes benchmarks/results/petsc-<date>-1t.json.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, write_json
from benchmarks.table import Table

METHODS = {"one level": {"coarse": "none"}, "constants": {"coarse": "constants"}, "modes": {"coarse": "modes"},
           "modes, restricted": {"coarse": "modes", "restricted": True}}
LIMIT = 1800                                    # seconds of a program


def main(arguments=None):
    """Run the benchmark."""
    options = parser().parse_args(arguments)
    run = describe("petsc", [1], "none") | {"level": options.level, "overlap": options.overlap, "rows": []}
    table = Table("subdomains", *METHODS, "modes used")
    for subdomains in options.subdomains:
        row = iterations(subdomains, options)
        run["rows"].append(row)
        run["versions"] |= row.pop("versions")
        table.row(str(subdomains), *(row[name]["iterations"] for name in METHODS), row["modes"]["coarse_size"])
    print("written:", write_json(run, options.out))
    return 0


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.petsc", description=__doc__.split("\n")[0])
    p.add_argument("--level", type=int, default=7)
    p.add_argument("--subdomains", nargs="+", type=int, default=[1, 2, 4, 8, 64])
    p.add_argument("--overlap", type=int, default=2)
    p.add_argument("--most-ranks", type=int, default=2, help="ranks of a program, which divide the numbers of subdomains")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def iterations(subdomains, options):
    """Counts of all methods, from one program on several ranks."""
    ranks = max(r for r in range(1, options.most_ranks + 1) if subdomains % r == 0)
    env = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                        "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMP_NUM_THREADS": "1"}
    given = json.dumps({"level": options.level, "subdomains": subdomains // ranks, "overlap": options.overlap})
    command = ["mpiexec", "-n", str(ranks), sys.executable, "-m", "benchmarks.petsc", "--program", given]
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=LIMIT)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def program(given):
    """What each rank runs: rank 0 prints the counts as JSON."""
    from mpi4py import MPI
    from petsc4py import PETSc

    mesh = ms.datasets.icosphere(given["level"])
    A = ms.cotan_laplacian(mesh) + 1e-6 * ms.mass_matrix(mesh)
    b = np.random.default_rng(0).standard_normal(A.shape[0])
    b -= b.mean()
    row = {"subdomains": given["subdomains"] * MPI.COMM_WORLD.size, "ranks": MPI.COMM_WORLD.size, "n": A.shape[0],
           "versions": {"petsc": ".".join(map(str, PETSc.Sys.getVersion())), "mpi": MPI.Get_library_version().split(",")[0]}}
    for name, method in METHODS.items():
        x, info = ms.petsc.solve(A, b, subdomains=given["subdomains"], overlap=given["overlap"], **method)
        row[name] = {"iterations": info.iterations, "converged": info.converged, "coarse_size": info.coarse_size,
                     "condition": round(info.condition, 2), "relative_residual": float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))}
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        program(json.loads(sys.argv[2]))
    else:
        sys.exit(main())
