"""A result file as a table in Markdown, with a line on machine and date. This module measures nothing."""

from __future__ import annotations

from benchmarks.cholesky_bars import GROUPS
from benchmarks.measure import clock_for, geometric_mean

SHOWN = 10                      # rows of the ordering table
MULTIGRID = ("pyamg-sa", "pyamg-rs")


def markdown(run):
    """One result as tables, with a line on machine and date."""
    parts = [_lines(columns, rows) for columns, rows in (make(run) for make in TABLES[run["bench"]]) if rows]
    host, left_out = run["machine"], ", ".join(run.get("left_out", []))
    note = f"{processor(run)}, {host['cores']} cores, {run['date'][:10]}, commit {run['git']}; {_statistic(run)} {run['clock']} seconds; {_peers(run)}"
    return "\n\n".join(parts) + f"\n\n{note}{'; left out: ' + left_out if left_out else ''}."


def processor(run):
    """The name of the processor, with its vector units if the result has them."""
    host = run["machine"]
    return " with ".join(filter(None, (host["cpu"], host.get("vectors"))))


def _lines(columns, rows):
    return "\n".join([f"| {' | '.join(columns)} |", f"|---|{'---:|' * (len(columns) - 1)}", *(f"| {' | '.join(row)} |" for row in rows)])


def _statistic(run):
    if run["bench"] == "transient":
        return "sums of"
    return {"median": "median", "min": "least"}[run.get("statistic", "median")]


def _peers(run):
    named = run.get("peers")
    if isinstance(named, dict):
        return "; ".join(v for v in dict.fromkeys(named.values()) if v)
    return "; ".join(f"{name} {version}" for name, version in run["versions"].items() if name in USED[run["bench"]])


def _threads(count):
    return f"{count} thread{'s' * (count > 1)}"


def order_table(run):
    """Seconds of METIS and of nested dissection, and the ratios of fill: some meshes, and the mean of all."""
    columns = [f"ordering: {'mesh' if of_meshes(run) else 'volume'}", "vertices", "METIS s", *(f"ours, {_threads(t)}, s" for t in run["threads"]),
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
    """The last row: geometric means over all meshes of the speedup over METIS and of the ratios of fill."""
    what = "meshes" if of_meshes(run) else "volumes"
    if any(cell == "-" for row in rows for cell in row[2:]):
        return [f"{len(rows)} {what}", *["-"] * (len(columns) - 1)]
    numbers = [[float(cell) for cell in row[2:]] for row in rows]
    metis, threads = [r[0] for r in numbers], len(run["threads"])
    faster = [geometric_mean([m / r[1 + t] for m, r in zip(metis, numbers)]) for t in range(threads)]
    ratios = [geometric_mean([r[k] for r in numbers]) for k in (-2, -1)]
    return [f"**{len(rows)} {what}, geometric mean**", "", "1", *(f"**{x:.1f} x faster**" for x in faster), *(f"**{x:.3f}**" for x in ratios)]


def cholesky_table(run):
    """First solve and refactorization with solve: ours and the best of each peer's variants, one thread. Of meshes with a peer."""
    rows_of = "vertices" if of_meshes(run) else "unknowns"
    columns = ["first solve / refactor + solve, s", rows_of, "meshsolve", *GROUPS, "peak MB (ours; least of the peers)"]
    rows = []
    for mesh, solvers in by_mesh(run).items():
        n = next(iter(solvers.values()))["n"]
        ours = solvers.pop("meshsolve", None)
        if not solvers.keys() & {name for names in GROUPS.values() for name in names}:
            continue
        cell = [f"{_seconds(best(r, 'first', run))} / {_seconds(best(r, 'again', run))}" for r in
                ([ours] if ours else [], *([solvers[s] for s in names if s in solvers] for names in GROUPS.values()))]
        whole = [s for names in GROUPS.values() for name, s in solvers.items() if name in names]
        peaks = [r["peak"]["median"] / 1e6 for r in whole]
        memory = f"{ours['peak']['median'] / 1e6:.0f}; {min(peaks):.0f}" if ours and peaks else "-"
        rows.append([mesh, f"{n:,}", *cell, memory])
    return columns, rows


def threads_table(run):
    """Refactorization and solve by one and by more threads, on METIS' permutation: the same factor for all."""
    if len(run["threads"]) < 2:
        return [], []
    columns = ["refactor / solve on METIS' order, s", "vertices", *(f"meshsolve, {_threads(t)}" for t in run["threads"]), "times faster"]
    meshes, rows = {}, []
    for row in run["rows"]:
        if row["solver"] == "meshsolve-given" and "failed" not in row:
            meshes.setdefault(row["mesh"], {})[row["threads"]] = row
    for mesh, by_threads in meshes.items():
        if len(by_threads) < len(run["threads"]):
            continue
        seconds = [[by_threads[t]["seconds"]["wall"][phase]["median"] for phase in ("refactor", "solve again")] for t in run["threads"]]
        faster = " / ".join(f"{a / b:.2f}" for a, b in zip(seconds[0], seconds[-1], strict=True))
        rows.append([mesh, f"{by_threads[run['threads'][0]]['n']:,}", *(" / ".join(map(_seconds, pair)) for pair in seconds), faster])
    return columns, rows


def of_meshes(run):
    """True if all rows are systems of meshes."""
    return all(row.get("is_mesh", True) for row in run["rows"])


def by_mesh(run):
    """``{mesh: {solver: row}}`` of the one-thread rows that did not fail."""
    meshes = {}
    for row in run["rows"]:
        if row["threads"] == min(run["threads"]) and "failed" not in row:
            meshes.setdefault(row["mesh"], {})[row["solver"]] = row
    return meshes


def best(rows, phase, run):
    """Least median of a phase among the rows, or None."""
    return min((row["seconds"][run["clock"]][phase]["median"] for row in rows), default=None)


def _seconds(value):
    return "-" if value is None else f"{value:.4f}" if value < 0.1 else f"{value:.3f}" if value < 1 else f"{value:.2f}"


def glu_table(run):
    """Refactorization and solve of generated circuits on one and more threads. Matrices from collections as geometric means."""
    columns = ["refactor / solve, ms", "unknowns", *(f"meshsolve, {_threads(t)}" for t in run["threads"]), "KLU",
               *(f"PARDISO, {_threads(t)}" for t in run["threads"]), "stored / KLU's"]
    matrices = {}
    for row in run["rows"]:
        if "seconds" in row:
            matrices.setdefault(row["matrix"], {})[row["solver"], row["threads"]] = row
    rows, faster, sizes = [], [], []
    for name, found in matrices.items():
        ours, klu = found.get(("meshsolve", 1)), found.get(("klu", 1))
        if not name.rpartition("-")[2].endswith("k"):                    # from a collection
            if ours and klu:
                sizes.append(ours["n"])
                faster.append([_phase(klu, k, run) / _phase(ours, k, run) for k in ("refactor", "solve")])
            continue
        keys = [*(("meshsolve", t) for t in run["threads"]), ("klu", 1), *(("pardiso", t) for t in run["threads"])]
        stored = f"{ours['facts']['stored'] / klu['facts']['nnz_LU']:.2f}" if ours and klu else "-"
        rows.append([name, f"{next(iter(found.values()))['n']:,}", *(_pair(found.get(key), run) for key in keys), stored])
    if faster:
        means = " / ".join(f"{geometric_mean(list(ratios)):.2f} x" for ratios in zip(*faster, strict=True))
        what = f"{len(faster)} matrices from collections (circuits, power grids, flow, chemistry; {min(sizes):,} to {max(sizes):,} rows)"
        rows.append([f"**{what}, KLU's time over ours, geometric mean**", "", f"**{means}**", *[""] * (len(columns) - 3)])
    return columns, rows


def _phase(row, phase, run):
    return row["seconds"][phase][clock_for(row["threads"], run["clock"])][run.get("statistic", "median")]


def _pair(row, run):
    return "-" if row is None else f"{1e3 * _phase(row, 'refactor', run):.3g} / {1e3 * _phase(row, 'solve', run):.3g}"


def ildl_table(run):
    """Each indefinite system: the complete factorization and that of PARDISO, and the whole time of ms.solve."""
    if len(run["threads"]) > 1:
        return [], []
    columns = ["system", "unknowns", "ms.solve, s", "iterations", "complete factor, s", "PARDISO, s", "with matching, s"]
    systems, rows, ratios = {}, [], []
    for row in run["rows"]:
        systems.setdefault(row["problem"], {})[row["solver"]] = row
    for name, found in systems.items():
        cells = [_factor(found.get(s), run) for s in ("meshsolve-complete", "pardiso", "pardiso-matching")]
        solved = found.get("meshsolve", {})
        total = solved["seconds"][run["clock"]]["total"]["median"] if "seconds" in solved else None
        rows.append([name, f"{next((r['n'] for r in found.values() if 'n' in r), 0):,}", _seconds(total),
                     str(solved.get("facts", {}).get("iterations", "-")), *map(_seconds, cells)])
        if cells[0] and cells[1]:
            ratios.append(cells[1] / cells[0])
    mean = f"**{geometric_mean(ratios):.2f} x faster than PARDISO**" if ratios else "-"
    return columns, [*rows, [f"**{len(rows)} systems, geometric mean of the factor**", "", "", "", mean, "", ""]]


def ildl_threads_table(run):
    """The complete factorization, and the first and later calls of ms.solve, by one and by more threads; PARDISO's factorization
    and solve if it was measured."""
    if len(run["threads"]) < 2:
        return [], []
    has_pardiso = any(row["solver"] == "pardiso" for row in run["rows"])
    again = any("again" in row.get("seconds", {}).get("wall", {}) for row in run["rows"])
    columns = ["complete factor / first ms.solve / later ones, s" if again else "complete factor / ms.solve, s", "unknowns", *(_threads(t) for t in run["threads"]), "times faster",
               *(f"PARDISO, {_threads(t)}" for t in run["threads"] if has_pardiso)]
    systems, rows = {}, []
    for row in run["rows"]:
        if "seconds" in row and row["solver"] in ("meshsolve", "meshsolve-complete", "pardiso"):
            systems.setdefault((row["problem"], row["n"]), {})[row["solver"], row["threads"]] = row["seconds"]["wall"]
    for (name, n), found in systems.items():
        wanted = [(("meshsolve-complete", t), ("meshsolve", t)) for t in run["threads"]]
        if any(key not in found for pair in wanted for key in pair):
            continue
        seconds = [(found[a]["factor"]["median"], *(found[b][k]["median"] for k in ("total", "again") if k in found[b])) for a, b in wanted]
        faster = " / ".join(f"{a / b:.2f}" for a, b in zip(seconds[0], seconds[-1], strict=True))
        theirs = [found.get(("pardiso", t)) for t in run["threads"] if has_pardiso]
        pairs = [*seconds, *(t and (t["factor"]["median"], t["total"]["median"]) for t in theirs)]
        texts = [" / ".join(map(_seconds, pair)) if pair else "-" for pair in pairs]
        rows.append([name, f"{n:,}", *texts[:len(seconds)], faster, *texts[len(seconds):]])
    return columns, rows


def _factor(row, run):
    return row["seconds"][run["clock"]]["factor"]["median"] if row and "factor" in row.get("seconds", {}).get(run["clock"], {}) else None


def parac_table(run):
    """Set-up and solve to 1e-8 of each graph: ours, multigrid (the better of two), incomplete Cholesky."""
    columns = ["set-up + solve to 1e-8, s", "vertices", *(f"meshsolve, {_threads(t)}" for t in run["threads"]),
               "iterations", "pyamg (better of SA, RS)", "ilupp IC(0)", "factor, ns an entry (amd / rounds)"]
    rows = []
    for row in run["rows"]:
        solvers = row["solvers"]
        ours = [_total(solvers.get(f"parac-auto-{t}t"), clock_for(t, run["clock"])) for t in run["threads"]]
        multigrid = [t for t in (_total(solvers.get(name), run["clock"]) for name in MULTIGRID) if t]
        cost = " / ".join(f"{row['orders'][o]['ns_per_entry']:.0f}" for o in ("amd-1", "rounds-1") if o in row["orders"]) or "-"
        iterations = str(solvers.get("parac-auto-1t", {}).get("iterations", "-"))
        rows.append([row["problem"], f"{row['n']:,}", *map(_seconds, ours), iterations, _seconds(min(multigrid, default=None)),
                     _seconds(_total(solvers.get("ilupp-ic0"), run["clock"])), cost])
    return columns, rows


def _total(found, clock):
    return found["seconds"][clock]["total"]["median"] if found and "seconds" in found else None


def transient_table(run):
    """Whole runs over time: one loop on ms.lu and on KLU."""
    columns = ["whole run, s", "unknowns", "steps / solves", *(f"meshsolve, {_threads(t)}" for t in run["threads"]), "KLU", "KLU / meshsolve"]
    rows, found = [], {}
    for row in run["rows"]:
        found.setdefault((row["problem"], row["loop"]), {})[row["solver"], row["threads"]] = row
    for (problem, loop), solvers in found.items():
        one = next(iter(solvers.values()))
        seconds = {key: row["seconds"][clock_for(key[1], run["clock"])]["total"] for key, row in solvers.items()}
        ours, klu = [seconds.get(("meshsolve", t)) for t in run["threads"]], seconds.get(("klu", 1))
        faster = " / ".join(f"{_klu_clock(solvers, t, run) / s:.2f} x" for t, s in zip(run["threads"], ours) if s and klu) or "-"
        name = problem if loop == "lu" else f"{problem}, {loop}"
        rows.append([name, f"{one['n']:,}", f"{one['steps']:,} / {one['newton_steps'] or one['steps']:,}", *map(_seconds, [*ours, klu]), faster])
    return columns, rows


def _three_digits(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def updates_table(run):
    """Updates and downdates of a factor and those of CHOLMOD, a refactorization, and the diagonal of the inverse."""
    columns = ["a factor that changes, ms", "vertices", "refactor", "update by 1 (CHOLMOD)", "downdate by 1 (CHOLMOD)", "update by 10 (CHOLMOD)",
               "downdate by 10 (CHOLMOD)", "diagonal of the inverse"]
    clock, rows = clock_for(run["threads"][0], run["clock"]), []
    for row in run["rows"]:
        ms = {name: _three_digits(1e3 * found[clock]["median"]) for name, found in row["seconds"].items()}
        pairs = [f"{ms[name]} ({ms.get(f'cholmod {name}', '-')})" for name in ("update 1", "downdate 1", "update 10", "downdate 10")]
        rows.append([row["mesh"], f"{row['n']:,}", ms["refactor"], *pairs, ms["inverse"]])
    return columns, rows


def _klu_clock(solvers, threads, run):
    """KLU's seconds, by the clock of meshsolve's row."""
    return solvers["klu", 1]["seconds"][clock_for(threads, run["clock"])]["total"]


TABLES = {"cholesky": (cholesky_table, threads_table), "order": (order_table,), "glu": (glu_table,), "ildl": (ildl_table, ildl_threads_table),
          "parac": (parac_table,), "transient": (transient_table,), "updates": (updates_table,)}
USED = {"glu": ("mkl", "pypardiso"), "ildl": ("mkl", "pypardiso", "scipy"), "parac": ("pyamg", "ilupp"), "order": (), "cholesky": (),
        "transient": ("scipy",), "updates": ("scipy",)}
