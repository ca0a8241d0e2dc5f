"""The tables of docs/benchmarks.md and a bar chart, from the result files. This module measures nothing.

    python -m benchmarks.plot [RESULT.json ...] [--bench NAME ...] [--page docs/benchmarks.md] [--png docs/benchmark.png]

Uses the named files, or by default the newest result of each benchmark for each list of threads and set of meshes. With
``--page`` the text between the markers ``<!-- benchmark:begin -->`` and ``<!-- benchmark:end -->`` of that file is replaced,
otherwise the tables are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib

from benchmarks.cholesky_bars import GROUPS
from benchmarks.measure import RESULTS
from benchmarks.tables import TABLES, best, by_mesh, markdown, of_meshes, processor

BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"


def main(arguments=None):
    """Make the table and the picture."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__.split("\n")[0])
    p.add_argument("results", nargs="*", type=pathlib.Path)
    p.add_argument("--bench", nargs="+", choices=tuple(TABLES), default=tuple(TABLES), help="without files: of these benchmarks")
    p.add_argument("--page", type=pathlib.Path, help="replace the text between the markers of this file")
    p.add_argument("--png", type=pathlib.Path, help="write a bar chart of the first solves")
    options = p.parse_args(arguments)
    runs = [json.loads(path.read_text()) for path in options.results or newest(options.bench)]
    if not runs:
        raise SystemExit(f"no results in {RESULTS}: run one of the benchmarks first")
    strange = sorted({run["bench"] for run in runs} - TABLES.keys())
    if strange:
        raise SystemExit(f"there is no table for results of {', '.join(strange)}; there are some for {', '.join(TABLES)}")
    text = "\n\n".join(markdown(run) for run in runs)
    if options.page:
        write_whole(options.page, spliced(options.page.read_text(), text))
    else:
        print(text)
    if options.png:
        chart([run for run in runs if run["bench"] == "cholesky" and of_meshes(run) and compares(run)], options.png)
    return 0


def newest(benches=tuple(TABLES)):
    """The newest result files, by their dates, for each benchmark, list of threads, statistic, and set of meshes or problems."""
    dated = {}
    for path in RESULTS.glob("*.json"):
        run = json.loads(path.read_text())
        if run["bench"] in benches:
            meshes = tuple(sorted({row.get("mesh", row.get("problem", "")) for row in run["rows"]}))
            key = benches.index(run["bench"]), tuple(run["threads"]), run.get("statistic", "median"), not of_meshes(run), meshes
            dated[key] = max(dated.get(key, ("", path)), (run["date"], path))
    return [path for _, (_, path) in sorted(dated.items())]


def spliced(page, text):
    """``page`` with ``text`` between the markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"the file has no markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def write_whole(path, text):
    """Write a file atomically."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.write_text(text)
    os.replace(scratch, path)


def compares(run):
    """True if a mesh has several solvers."""
    return any(len(solvers) > 1 for solvers in by_mesh(run).values())


def chart(runs, path):
    """Bars of the first solve for each mesh of the run that has most, in microseconds a vertex: small and large share one axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if not runs:
        raise SystemExit("no result of benchmarks.cholesky with several solvers to draw")
    run = max(runs, key=lambda run: (len(by_mesh(run)), run["date"]))
    meshes, groups = by_mesh(run), {"meshsolve": ("meshsolve",), **GROUPS}
    figure, axes = pyplot.subplots(figsize=(max(7, 1.5 * len(meshes)), 3.8), layout="constrained")
    sizes = [next(iter(solvers.values()))["n"] for solvers in meshes.values()]
    width = 0.84 / len(groups)
    for k, (group, names) in enumerate(groups.items()):
        seconds = [best([r for name, r in solvers.items() if name in names], "first", run) for solvers in meshes.values()]
        heights = [1e6 * s / n if s else 0.0 for s, n in zip(seconds, sizes, strict=True)]
        axes.bar([i + (k - (len(groups) - 1) / 2) * width for i in range(len(meshes))], heights, width, label=group)
    axes.set_xticks(range(len(meshes)), [f"{mesh}\n{n / 1000:.0f}k" for mesh, n in zip(meshes, sizes, strict=True)])
    axes.set_ylabel("first solve, µs per vertex")
    what = f"order, factor, solve 3 right-hand sides; threads: {min(run['threads'])}; {processor(run)}"
    figure.legend(loc="outside upper center", frameon=False, ncols=min(len(groups), 7), fontsize=8, columnspacing=1.2, handlelength=1.2,
                  title=what, title_fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    raise SystemExit(main())
