"""Memory of a Cholesky factor on disk: the grid of side^3 points, whose factor in memory takes 10.8 GB for 100^3.

    python -m benchmarks.disk FOLDER [--side 100]

Records the size of the file, the bytes that were written and read, the bound that the report gives, and the largest resident set of
the process before and after. These do not depend on the load of the machine; times are no result. Writes
benchmarks/results/disk-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import os
import resource

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, write_json


def main(arguments=None):
    """Run the benchmark. Returns 1 if the solution is wrong or a file is left in the folder."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.disk", description=__doc__.split("\n")[0])
    p.add_argument("folder", help="folder of the file of the factor")
    p.add_argument("--side", type=int, default=100)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    options = p.parse_args(arguments)
    run = describe("disk", [options.threads], "cpu")
    run["rows"] = [measure(options.side, options.folder, options.threads)]
    print(*(f"{name:<22} {value:,}" for name, value in run["rows"][0].items()), sep="\n")
    print("written:", write_json(run, options.out))
    return int(run["rows"][0]["relative_residual"] > 1e-12 or run["rows"][0]["files_left"] > 0)


def measure(side, folder, threads):
    """Sizes of one factorization and one solve."""
    A = ms.datasets.grid3d(side, boundary="dirichlet")
    before, b = largest(), np.random.default_rng(0).standard_normal(A.shape[0])
    F = ms.cholesky(A, memory="disk", folder=folder, threads=threads)
    factored, x = largest(), F.solve(b)
    sizes = {name: F.report.facts[name] for name in ("file_bytes", "written_bytes", "read_bytes", "peak_bytes")}
    return {"side": side, "rows": A.shape[0], "nnz_L": F.nnz, "flops": F.flops, **sizes, "rss_before": before, "rss_factored": factored,
            "rss_solved": largest(), "relative_residual": float(np.linalg.norm(A @ x - b) / np.linalg.norm(b)),
            "files_left": len(os.listdir(folder))}


def largest():
    """Largest resident set of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    raise SystemExit(main())
