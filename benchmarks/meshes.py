"""A folder of meshes through ``ms.batch.meshes`` on worker processes, compared with a plain loop in one process.

    python -m benchmarks.meshes [--count 200] [--workers 2] [--tasks smooth spectrum geodesics]

The folder has copies of the meshes of the data folder (or generated ones) with random displacements of 1 % of the mean edge length, and
three damaged files. The pipelines are the tasks of ``meshsolve batch``, and "all": the three tasks on each mesh. A loop loads each mesh,
runs the pipeline and goes on after an error. The bar is for "all" and a loop that, like a worker, uses one thread. Another loop uses all
threads. "Apart" is the time of one-thread loops in processes that have started before, each over its part of the files: what the cores
allow, without a scheduler. Prints seconds, and writes benchmarks/results/meshes-<date>-<workers>t.json.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import functools
import itertools
import multiprocessing
import os
import pathlib
import tempfile
import time
import warnings

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, library_threads, write_json
from benchmarks.problems import data_folder
from benchmarks.table import Table, bar, print_bars
from meshsolve.batch.tasks import TASKS

ALL = [*TASKS, "all"]                           # "all": one pipeline of the three tasks
DAMAGED = 3
LARGEST = 60_000                                # vertices
SETTINGS = {"smooth": {"strength": 0.25}, "spectrum": {"count": 6}, "geodesics": {"source": 0}}
GOAL = 0.6                                      # times the loop's time


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed or a mesh was lost."""
    options = parser().parse_args(arguments)
    warnings.simplefilter("ignore", ms.MeshsolveWarning)          # of faces that are dropped, in many files
    run = describe("meshes", [options.workers], "wall") | {"rows": [], "bars": []}
    table = Table("task", "meshes", "failed", "batch s", "loop s", "loop, one thread s", "apart s")
    with tempfile.TemporaryDirectory() as scratch:
        meshes, out = pathlib.Path(scratch, "meshes"), pathlib.Path(scratch, "out")
        fill(meshes, options.count)
        out.mkdir()
        for name in options.tasks:
            task = functools.partial(pipeline, names=list(TASKS) if name == "all" else [name], folder=out)
            row = {"task": name, "meshes": options.count} | measure(meshes, task, options.workers)
            run["rows"].append(row)
            table.row(name, row["meshes"], row["failed"], row["batch"], row["loop"], row["loop_one_thread"], row["apart"])
            for loop, asked in (("loop_one_thread", name == "all"), ("loop", False)):
                what = f"{name}: batch on {options.workers} workers, times that of a {loop.replace('_', ' ')}"
                run["bars"].append(bar(what, row["batch"] / row[loop], GOAL, False, asked))
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) and all(row["failed"] >= DAMAGED for row in run["rows"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.meshes", description=__doc__.split("\n")[0])
    p.add_argument("--count", type=int, default=200, help="files, damaged ones included")
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--tasks", nargs="+", default=ALL, choices=ALL)
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def pipeline(mesh, path, names, folder):
    """Run tasks of ``meshsolve batch`` on a mesh, without their warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.MeshsolveWarning)
        return functools.reduce(dict.__or__, (TASKS[name](mesh, path, folder, **SETTINGS[name]) for name in names))


def fill(folder, count):
    """Write ``count`` files, the last ones damaged: cut off, empty, no mesh."""
    folder.mkdir()
    for k, mesh in zip(range(count - DAMAGED), itertools.cycle(originals()), strict=False):
        rng = np.random.default_rng(k)
        moved = mesh.vertices + 0.01 * mesh.edge_lengths.mean() * rng.standard_normal(mesh.vertices.shape)
        ms.Mesh(moved, mesh.faces).save(folder / f"{k:04d}.ply")
    whole = (folder / "0000.ply").read_bytes()
    for k, content in enumerate((whole[:len(whole) // 2], b"", b"ply\nno header\n")):
        (folder / f"{count - DAMAGED + k:04d}.ply").write_bytes(content)


def originals():
    """Meshes of the data folder up to LARGEST vertices, or generated ones."""
    folder = data_folder()
    if folder is None:
        return [ms.datasets.icosphere(5), ms.datasets.scan_like(8000), ms.datasets.icosphere(4)]
    found = [ms.load_mesh(path) for path in sorted((folder / "meshes").iterdir()) if path.name.endswith((".obj", ".off", ".gz"))]
    return [mesh for mesh in found if 1000 < len(mesh.vertices) < LARGEST]


def measure(folder, task, workers):
    """Seconds of the batch and of both loops, and the number of failed files, which all must agree on."""
    begin = time.perf_counter()
    table = ms.batch.meshes(folder, task, client=workers)
    seconds = {"batch": time.perf_counter() - begin}
    failed = {len(table.failed)}
    for name, threads in (("loop", workers), ("loop_one_thread", 1)):
        with library_threads(threads):
            begin = time.perf_counter()
            failed.add(failures(sorted(folder.iterdir()), task))
            seconds[name] = time.perf_counter() - begin
    seconds["apart"], number = apart(sorted(folder.iterdir()), task, workers)
    failed.add(number)
    if len(failed) > 1:
        raise RuntimeError(f"batch and loops disagree on the number of failed files: {sorted(failed)}")
    return seconds | {"failed": failed.pop()}


def apart(paths, task, workers):
    """Seconds of one-thread loops in as many processes, each over its part of the files, and the number of failed files."""
    with concurrent.futures.ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), warm_up, (paths[0], task)) as pool:
        list(pool.map(time.sleep, [0.5] * workers))                     # no process takes two of them: all have started
        begin = time.perf_counter()
        failed = sum(pool.map(failures, (paths[k::workers] for k in range(workers)), itertools.repeat(task)))
        return time.perf_counter() - begin, failed


def warm_up(path, task):
    """Import what the task needs, and use one thread from then on."""
    os.environ["MESHSOLVE_NUM_THREADS"] = "1"
    succeeds(path, task)


def failures(paths, task):
    """Run the task on each file; return the number of files for which it raises."""
    return sum(not succeeds(path, task) for path in paths)


def succeeds(path, task):
    """True if the task does not raise."""
    try:
        task(ms.load_mesh(path), str(path))
    except Exception:
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(main())
