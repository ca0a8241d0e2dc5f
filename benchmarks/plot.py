"""From the result files: the README's table and a bar chart. Nothing is measured here.

    python -m benchmarks.plot [RESULT.json ...] [--readme README.md] [--png docs/benchmark.png]

Without files the newest result of each benchmark is taken. With ``--readme`` the text between the markers
``<!-- benchmark:begin -->`` and ``<!-- benchmark:end -->`` is replaced, otherwise the table is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib

from benchmarks.cholesky_bars import GROUPS
from benchmarks.measure import RESULTS, clock_for, geometric_mean

SHOWN = 10                      # rows of the ordering table
BEGIN, END = "<!-- benchmark:begin -->", "<!-- benchmark:end -->"


def main(arguments=None):
    """Make the table and the picture."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__.split("\n")[0])
    p.add_argument("results", nargs="*", type=pathlib.Path)
    p.add_argument("--readme", type=pathlib.Path, help="replace the text between the markers of this file")
    p.add_argument("--png", type=pathlib.Path, help="write a bar chart of the first solves")
    options = p.parse_args(arguments)
    runs = [json.loads(path.read_text()) for path in options.results or newest()]
    if not runs:
        raise SystemExit(f"no results in {RESULTS}: run benchmarks.order or benchmarks.cholesky first")
    text = "\n\n".join(markdown(run) for run in runs)
    if options.readme:
        write_whole(options.readme, spliced(options.readme.read_text(), text))
    else:
        print(text)
    if options.png:
        chart([run for run in runs if run["bench"] == "cholesky"], options.png)
    return 0


def newest():
    """The newest result file of each benchmark, by the date inside."""
    dated = {}
    for path in RESULTS.glob("*.json"):
        run = json.loads(path.read_text())
        dated[run["bench"]] = max(dated.get(run["bench"], ("", path)), (run["date"], path))
    return [path for _, (_, path) in sorted(dated.items())]


def spliced(readme, text):
    """``readme`` with ``text`` between the markers."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"the file has no markers {BEGIN} and {END}")
    return f"{before}{BEGIN}\n{text}\n{END}{after}"


def write_whole(path, text):
    """Write a file whole or not at all."""
    scratch = path.with_name(path.name + ".tmp")
    scratch.write_text(text)
    os.replace(scratch, path)


def markdown(run):
    """One result as a table with the line that says where it was measured."""
    columns, rows = (order_table if run["bench"] == "order" else cholesky_table)(run)
    lines = [f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}", *(f"| {' | '.join(row)} |" for row in rows)]
    host, left_out = run["machine"], ", ".join(run["left_out"])
    note = (f"{host['cpu']}, {host['cores']} cores, {run['date'][:10]}, commit {run['git']}; median {run['clock']} seconds; "
            f"{'; '.join(v for v in dict.fromkeys(run['peers'].values()) if v)}")
    return "\n".join(lines) + f"\n\n{note}{'; left out: ' + left_out if left_out else ''}."


def order_table(run):
    """Seconds of METIS and of nested dissection, and the ratios of fill: some meshes, and the mean of all."""
    columns = ["ordering: mesh", "vertices", "METIS s", *(f"ours, {t} thread{'s' * (t > 1)}, s" for t in run["threads"]),
               "nnz(L) / METIS'", "flops / METIS'"]
    rows = []
    for row in run["rows"]:
        clocks = {"metis": run["clock"], **{f"meshsolve-{t}t": clock_for(t, run["clock"]) for t in run["threads"]}}
        seconds = [row["seconds"].get(name, {}).get(clock, {}).get("median") for name, clock in clocks.items()]
        fill, metis = row["fill"][f"meshsolve-{run['threads'][0]}t"], row["fill"].get("metis")
        ratios = [f"{fill[kind] / metis[kind]:.3f}" if metis else "-" for kind in ("nnz", "flops")]
        rows.append([row["mesh"], f"{row['n']:,}", *map(_seconds, seconds), *ratios])
    step = max(1, -(-len(rows) // SHOWN))
    return columns, [*rows[::-step][::-1], _mean_of_all(run, rows, columns)]


def _mean_of_all(run, rows, columns):
    """The last row: how many times faster than METIS, and the ratios of fill, as geometric means over every mesh."""
    if any(cell == "-" for row in rows for cell in row[2:]):
        return [f"{len(rows)} meshes", *["-"] * (len(columns) - 1)]
    numbers = [[float(cell) for cell in row[2:]] for row in rows]
    metis, threads = [r[0] for r in numbers], len(run["threads"])
    faster = [geometric_mean([m / r[1 + t] for m, r in zip(metis, numbers)]) for t in range(threads)]
    ratios = [geometric_mean([r[k] for r in numbers]) for k in (-2, -1)]
    return [f"**{len(rows)} meshes, geometric mean**", "", "1", *(f"**{x:.1f} x faster**" for x in faster), *(f"**{x:.3f}**" for x in ratios)]


def cholesky_table(run):
    """First solve and refactorization with solve: ours and the best of each peer's variants, one thread."""
    columns = ["first solve / refactor + solve, s", "vertices", "meshsolve", *GROUPS, "peak MB (ours; least of the peers)"]
    rows = []
    for mesh, solvers in by_mesh(run).items():
        n = next(iter(solvers.values()))["n"]
        ours = solvers.pop("meshsolve", None)
        cell = [f"{_seconds(_best(r, 'first', run))} / {_seconds(_best(r, 'again', run))}" for r in
                ([ours] if ours else [], *([solvers[s] for s in names if s in solvers] for names in GROUPS.values()))]
        whole = [s for names in GROUPS.values() for name, s in solvers.items() if name in names]
        peaks = [r["peak"]["median"] / 1e6 for r in whole]
        memory = f"{ours['peak']['median'] / 1e6:.0f}; {min(peaks):.0f}" if ours and peaks else "-"
        rows.append([mesh, f"{n:,}", *cell, memory])
    return columns, rows


def by_mesh(run):
    """``{mesh: {solver: row}}`` of the one-thread rows that did not fail."""
    meshes = {}
    for row in run["rows"]:
        if row["threads"] == min(run["threads"]) and "failed" not in row:
            meshes.setdefault(row["mesh"], {})[row["solver"]] = row
    return meshes


def _best(rows, phase, run):
    return min((row["seconds"][run["clock"]][phase]["median"] for row in rows), default=None)


def _seconds(value):
    return "-" if value is None else f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 1 else f"{value:.2f}"


def chart(runs, path):
    """Bars of the first solve for each mesh, in microseconds a vertex, so that small and large meshes share one axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    if not runs:
        raise SystemExit("no result of benchmarks.cholesky to draw")
    run = runs[-1]
    meshes, groups = by_mesh(run), {"meshsolve": ("meshsolve",), **GROUPS}
    figure, axes = pyplot.subplots(figsize=(max(6, 1.3 * len(meshes)), 3.6), layout="constrained")
    sizes = [next(iter(solvers.values()))["n"] for solvers in meshes.values()]
    for k, (group, names) in enumerate(groups.items()):
        best = [_best([r for name, r in solvers.items() if name in names], "first", run) for solvers in meshes.values()]
        heights = [1e6 * b / n if b else 0.0 for b, n in zip(best, sizes, strict=True)]
        axes.bar([i + (k - 2) * 0.16 for i in range(len(meshes))], heights, 0.16, label=group)
    axes.set_xticks(range(len(meshes)), [f"{mesh}\n{n / 1000:.0f}k" for mesh, n in zip(meshes, sizes, strict=True)])
    axes.set_ylabel("first solve, µs per vertex")
    what = f"order, factor, solve 3 right-hand sides; threads: {min(run['threads'])}; {run['machine']['cpu']}"
    figure.legend(loc="outside upper center", frameon=False, ncols=len(groups), fontsize=8, title=what, title_fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    raise SystemExit(main())
