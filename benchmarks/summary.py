"""The README's speed table: one row per task, each number from the newest result file. Nothing is measured here.

    python -m benchmarks.summary [--page README.md]

With ``--page`` the text between the markers ``<!-- benchmark:begin -->`` and ``<!-- benchmark:end -->`` of that file is replaced,
otherwise the table is printed. A row compares with the fastest peer of its run; a ratio below 1 means that the peer is faster.
"""

from __future__ import annotations

import argparse
import json
import pathlib

from benchmarks.cholesky_bars import GROUPS
from benchmarks.measure import RESULTS, geometric_mean
from benchmarks.plot import newest, spliced, write_whole
from benchmarks.tables import MULTIGRID, best, by_mesh, of_meshes

COLUMNS = ("task", "problem", "meshsolve", "fastest peer", "speedup")
GPU_SIZES = ("scan-0", "scan-3")             # the smallest and the largest mesh that cuDSS solved in the run on the H200


def table():
    """The lines of the table in Markdown."""
    rows = [cholesky("first solve", "first", "igea", "scanned surface"), cholesky("first solve", "first", "igea-1", "scanned surface"),
            cholesky("refactor + solve", "again", "igea-1", "scanned surface"), cholesky("first solve", "first", "tetrahedra-100", "tetrahedra"),
            ordering(), lu("grid-200k"), lu_of_collected(), indefinite(), parac("road-500k", "road-like graph"),
            gpu("GPU: first solve", "first"), gpu("GPU: refactor + solve", "step"), gpu("GPU: solve alone", "solve3")]
    return "\n".join([f"| {' | '.join(COLUMNS)} |", "|---|---|---:|---:|---:|", *(f"| {' | '.join(row)} |" for row in rows)])


def run_with(bench, key, name):
    """The newest one-thread result of a benchmark (or the one on several threads, if there is no other) whose rows contain ``name``."""
    runs = [json.loads(path.read_text()) for path in newest((bench,))]
    found = [run for run in runs if any(row.get(key) == name for row in run["rows"])]
    return min(found, key=lambda run: len(run["threads"]))


def cholesky(task, phase, mesh, kind):
    run = run_with("cholesky", "mesh", mesh)
    solvers = by_mesh(run)[mesh]
    peers = {group: best([solvers[s] for s in names if s in solvers], phase, run) for group, names in GROUPS.items()}
    peer = min((seconds, group) for group, seconds in peers.items() if seconds)
    return row(task, f"{kind}, {thousands(solvers['meshsolve']['n'])}", best([solvers["meshsolve"]], phase, run), *peer)


def ordering():
    run = next(run for run in (json.loads(path.read_text()) for path in newest(("order",))) if of_meshes(run))
    def median(row, name):
        return row["seconds"][name]["wall"]["median"]
    faster = geometric_mean(median(row, "metis") / median(row, "meshsolve-1t") for row in run["rows"])
    fill = geometric_mean(row["fill"]["meshsolve-1t"]["nnz"] / row["fill"]["metis"]["nnz"] for row in run["rows"])
    return ["nested dissection", f"{len(run['rows'])} surfaces, geometric mean", f"{fill:.3f} × METIS' fill", "METIS", times(faster)]


def lu(matrix):
    run = run_with("glu", "matrix", matrix)
    seconds = {row["solver"]: lu_seconds(row) for row in run["rows"] if row["matrix"] == matrix}
    size = next(row["n"] for row in run["rows"] if row["matrix"] == matrix)
    peer = min((seconds[solver], name) for solver, name in (("klu", "KLU"), ("pardiso", "PARDISO")) if solver in seconds)
    return row("LU: refactor", f"power grid circuit, {thousands(size)}", seconds["meshsolve"], *peer)


def lu_of_collected():
    run = run_with("glu", "matrix", "add32")
    found = {}
    for measured in run["rows"]:
        if "seconds" in measured and not measured["matrix"].rpartition("-")[2].endswith("k"):
            found.setdefault(measured["matrix"], {})[measured["solver"]] = lu_seconds(measured)
    ratios = [s["klu"] / s["meshsolve"] for s in found.values() if s.keys() >= {"klu", "meshsolve"}]
    return ["LU: refactor", f"{len(ratios)} collected matrices, geometric mean", "", "KLU", times(geometric_mean(ratios))]


def lu_seconds(measured):
    return measured["seconds"]["refactor"]["wall"]["median"]


def indefinite():
    run = run_with("ildl", "problem", "aug2dc_kkt")
    found = {}
    for measured in run["rows"]:
        if "factor" in measured.get("seconds", {}).get("wall", {}):
            found.setdefault(measured["problem"], {})[measured["solver"]] = measured["seconds"]["wall"]["factor"]["median"]
    ratios = [min(s[p] for p in ("pardiso", "pardiso-matching") if p in s) / s["meshsolve-complete"] for s in found.values()
              if "meshsolve-complete" in s and s.keys() & {"pardiso", "pardiso-matching"}]
    return ["LDLᵀ: factor", f"{len(ratios)} indefinite systems, geometric mean", "", "PARDISO", times(geometric_mean(ratios))]


def parac(problem, kind):
    run = run_with("parac", "problem", problem)
    measured = next(row for row in run["rows"] if row["problem"] == problem)
    seconds = {name: found["seconds"]["wall"]["total"]["median"] for name, found in measured["solvers"].items() if "seconds" in found}
    peer = min((seconds[name], label) for name, label in (*((s, "pyamg") for s in MULTIGRID), ("ilupp-ic0", "ilupp")) if name in seconds)
    return row("ParAC + CG", f"{kind}, {thousands(measured['n'])}", seconds["parac-auto-1t"], *peer)


def gpu(task, phase):
    """Both ends of the range of sizes: what holds at a million vertices does not hold at 17,000."""
    run = json.loads(max((RESULTS / "h200").glob("gpu-*.json")).read_text())
    found = {(row["mesh"], row["solver"]): row for row in run["rows"]}
    ours, cudss = ([found[mesh, solver][phase] for mesh in GPU_SIZES] for solver in ("meshsolve cuda", "cudss own order"))
    size = " → ".join(thousands(found[mesh, "meshsolve cuda"]["n"]) for mesh in GPU_SIZES)
    cells = [" → ".join(milliseconds(t) for t in pair) for pair in (ours, cudss)]
    return [task, f"scan, {size}", f"{cells[0]} ms", f"cuDSS, {cells[1]} ms", " → ".join(times(b / a) for a, b in zip(ours, cudss, strict=True))]


def row(task, problem, ours, theirs, peer):
    return [task, problem, f"{milliseconds(1e3 * ours)} ms", f"{peer}, {milliseconds(1e3 * theirs)} ms", times(theirs / ours)]


def thousands(n):
    return f"{n / 1e6:.2f}M" if n >= 1e6 else f"{n / 1e3:.0f}k"


def milliseconds(t):
    return f"{t:,.0f}" if t >= 10 else f"{t:.1f}"


def times(ratio):
    return f"{ratio:.0f} ×" if ratio >= 10 else f"{ratio:.1f} ×" if ratio >= 1 else f"{ratio:.2f} ×"


def main(arguments=None):
    """Print the table or put it into a page."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.summary", description=__doc__.split("\n")[0])
    p.add_argument("--page", type=pathlib.Path, help="replace the text between the markers of this file")
    options = p.parse_args(arguments)
    if options.page:
        write_whole(options.page, spliced(options.page.read_text(), table()))
    else:
        print(table())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
