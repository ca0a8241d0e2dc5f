"""Eigenpairs, distances, maps, deformation, weights, quadratics and denoising, compared with other libraries.

    python -m benchmarks.geometry [--quick] [--tasks eigsh distances ...] [--meshes igea ...] [--threads 1 2] [--repeat 3]

Each measurement has a process of its own, which is stopped after ``--limit`` seconds; then the bars use the limit as the time of the
peer. Solvers take turns. Peers that are not installed are named. Prints a row for each task, mesh, solver and number of threads, then the
bars, and writes benchmarks/results/geometry-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import tempfile

import meshsolve as ms
from benchmarks.geometry_tasks import SOLVERS, half, measure, torus
from benchmarks.measure import clock_for, describe, summary, write_json
from benchmarks.peers.base import Unavailable
from benchmarks.peers.cholmod import Cholmod
from benchmarks.problems import catalog, find
from benchmarks.table import Table, bar, print_bars

COLUMNS = ("task, mesh, solver", "vertices", "threads", "set-up s", "solve s", "total s", "error")
SURFACES = ("stanford-bunny", "nefertiti", "igea", "bff_cowhead-3")     # connected; the last has 960,357 vertices
DISCS = ("bff_face", "igl_camelhead")
FULL = {                                            # task: (size, meshes)
    "eigsh": (128, SURFACES), "distances": (1000, SURFACES), "accuracy": (1, ("icosphere-4", "icosphere-6", "torus-100")),
    "lscm": (0, DISCS), "arap": (0, SURFACES), "weights": (20, ("nefertiti",)), "quadratic": (300, ("grid",)),
    "denoise": (0, ("cube-40", "fandisk"))}
QUICK = {
    "eigsh": (32, ("icosphere-5",)), "distances": (100, ("icosphere-5",)), "accuracy": (1, ("icosphere-4", "torus-40")),
    "lscm": (0, ("half-4",)), "arap": (0, ("icosphere-4",)), "weights": (3, ("icosphere-3",)), "quadratic": (60, ("grid",)),
    "denoise": (0, ("cube-20",))}
GENERATED = {"half": lambda k: half(ms.datasets.icosphere(k)), "torus": torus, "cube": ms.datasets.cube}
INSTEAD = {DISCS: ("half-5", "half-6"), SURFACES: ("icosphere-5", "icosphere-6", "icosphere-7")}       # without a data folder
SPEED = (                                           # task, phase, peer, times faster; the mesh that the bar is about, or all
    ("eigsh", "total", "scipy, our factor", 3.0, None), ("eigsh", "total", "scipy, CHOLMOD", 5.0, None),
    ("distances", "total", "potpourri3d", 10.0, "igea"), ("lscm", "total", "libigl", 5.0, None), ("arap", "solve", "libigl", 5.0, None),
    ("weights", "total", "libigl", 10.0, None), ("weights", "total", "OSQP", 3.0, None))
WRONG = {"eigsh": 1e-8, "weights": 1e-6, "quadratic": 1e-6}             # error of our result that is a failure


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar is missed."""
    options = parser().parse_args(arguments)
    run = describe("geometry", options.threads, options.clock) | {"left_out": left_out(options), "rows": []}
    for name, why in run["left_out"].items():
        print(f"left out: {name}: {why}")
    table = Table(*COLUMNS, first=46)
    with tempfile.TemporaryDirectory() as folder:
        for task in options.tasks:
            size, names = (QUICK if options.quick else FULL)[task]
            for name in options.meshes or _available(names):
                path = stored(name, pathlib.Path(folder))
                for row in rows_of(task, name, path, size, options, run["left_out"]):
                    run["rows"].append(row)
                    table.row(*cells(row, options.clock))
                    write_json(run, options.out)
    run["bars"] = verdicts(run["rows"], options.clock)
    for found in run["bars"][1:]:
        found["asked"] = not options.quick                  # the bars are about large meshes
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.geometry", description=__doc__.split("\n")[0])
    p.add_argument("--tasks", nargs="+", choices=tuple(FULL), default=list(FULL), metavar="TASK", help=f"of {', '.join(FULL)}; default: all")
    p.add_argument("--meshes", nargs="+", default=[], help="names (igea, icosphere-6, half-5, torus-100, cube-40) or mesh files, for all tasks")
    p.add_argument("--quick", action="store_true", help="small meshes and sizes: minutes")
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--threads", type=int, nargs="+", default=[1], help="peers run with the first number only")
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: also measure distances on a GPU")
    p.add_argument("--limit", type=float, default=900, help="seconds after which a measurement is stopped")
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def left_out(options):
    """{peer: why} of the peers that are not installed, and of the GPU where it is not asked for."""
    missing = {}
    for library, name in (("potpourri3d", "potpourri3d"), ("libigl", "igl"), ("OSQP", "osqp")):
        try:
            __import__(name)
        except ImportError as e:
            missing[library] = str(e)
    try:
        Cholmod("metis").close()
    except Unavailable as e:
        missing["scipy, CHOLMOD"] = str(e)
    if options.device != "cuda":
        missing["meshsolve cuda"] = "--device cuda measures it"
    return missing


def _available(names):
    """The meshes of the data folder, or generated ones instead."""
    known = catalog()
    if names in INSTEAD and not known:
        return INSTEAD[names]
    return [name for name in names if known or not re.fullmatch("fandisk", name)]


def stored(name, folder):
    """The mesh of a name as a file, without unreferenced vertices; None for the grid of the quadratic program."""
    if name == "grid":
        return None
    path = folder / f"{pathlib.Path(name).stem}.ply"
    if not path.exists():
        kind, _, level = name.rpartition("-")
        (GENERATED[kind](int(level)) if kind in GENERATED else find(name).mesh()).save(path)
    return path


def rows_of(task, name, path, size, options, missing):
    """One row for each solver and number of threads; solvers take turns."""
    runs = {(solver, threads): [] for threads in options.threads for solver in SOLVERS[task]
            if solver not in missing and (threads == options.threads[0] or solver == "meshsolve")}
    for _ in range(options.repeat):
        for (solver, threads), found in runs.items():
            if not any("failed" in once for once in found):
                found.append(measure(task, solver, path, size, threads, options.limit))
    n = size**2 if path is None else len(ms.load_mesh(path).vertices)
    for (solver, threads), found in runs.items():
        yield {"task": task, "mesh": name, "n": n, "size": size, "solver": solver, "threads": threads} | collected(found)


def collected(found):
    """The facts of the last run, and the seconds of all; a run that failed alone."""
    failed = next((once for once in found if "failed" in once), None)
    if failed:
        return failed
    seconds = {clock: {phase: summary(once["seconds"][clock][phase] for once in found) for phase in found[0]["seconds"][clock]}
               for clock in ("wall", "cpu")}
    return found[-1] | {"seconds": seconds}


def median(row, phase, clock):
    """Seconds of a phase, the limit of a run that was stopped, or None."""
    if "failed" in row:
        return row.get("stopped")
    found = row["seconds"][clock_for(row["threads"], clock)].get(phase)
    return found["median"] if found else None


def cells(row, clock):
    """One row of the table."""
    name = f"{row['task']}, {row['mesh']}, {row['solver']}"
    if "failed" in row:
        return [name, row["n"], row["threads"], "failed:", row["failed"]]
    setup = median(row, "setup", clock) or median(row, "factor", clock)
    return [name, row["n"], row["threads"], setup, median(row, "solve", clock), median(row, "total", clock), row["error"]]


def verdicts(rows, clock="wall"):
    """The bars. Speedups are those of the worst mesh, on the smallest number of threads; a stopped peer is a lower bound."""
    first = min((row["threads"] for row in rows), default=1)
    one = {(row["task"], row["mesh"], row["solver"]): row for row in rows if row["threads"] == first}
    wrong = [row for row in rows if row["solver"].startswith("meshsolve") and row["solver"] != "meshsolve cuda"
             and ("failed" in row or row["task"] in WRONG and not row["error"] < WRONG[row["task"]])]
    bars = [bar("measurements in which meshsolve failed or was wrong", float(len(wrong)), 0.0, at_least=False)]
    bars += [_speed(one, *asked, clock) for asked in SPEED]
    pairs = [(row["error"], one[task, mesh, "potpourri3d"]) for (task, mesh, solver), row in one.items()
             if task == "accuracy" and solver == "meshsolve" and "failed" not in row and (task, mesh, "potpourri3d") in one]
    ratios = [ours / theirs["error"] for ours, theirs in pairs if "failed" not in theirs]
    bars.append(bar("error of distances over potpourri3d's, worst mesh", max(ratios, default=None), 1.0, at_least=False))
    angles = [row["error"] for row in rows if row["task"] == "denoise" and "failed" not in row]
    bars.append(bar("denoise: mean angle error after over before, worst model", max(angles, default=None), 0.5, at_least=False))
    return [*bars, _speed(one, "distances", "solve", "meshsolve cuda", 20.0, None, clock, faster=False)]


def _speed(one, task, phase, peer, bound, only, clock, faster=True):
    """The seconds of a peer over ours on the worst mesh, or ours on the CPU over those on the GPU."""
    ratios, is_bound = [], False
    for (row_task, mesh, solver), ours in one.items():
        theirs = one.get((task, mesh, peer))
        if row_task != task or solver != "meshsolve" or theirs is None or "failed" in ours or only not in (None, mesh):
            continue
        mine, other = median(ours, phase, clock), median(theirs, phase, clock)
        if not other or "failed" in theirs and (not faster or other / mine < bound):        # stopped: it may be slower still
            continue
        is_bound |= "failed" in theirs
        ratios.append(other / mine if faster else mine / other)
    what = f"{task}, {phase}: times faster than {peer}" if faster else f"{task}, {phase}: {peer}, times faster than the CPU"
    return bar(what + f", {only or 'worst mesh'}" + " (at least: stopped)" * is_bound, min(ratios, default=None), bound)


if __name__ == "__main__":
    raise SystemExit(main())
