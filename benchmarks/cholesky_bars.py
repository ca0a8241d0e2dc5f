"""The project's bars for Cholesky, from the rows of benchmarks.cholesky. A peer's best variant on each mesh counts."""

from __future__ import annotations

from benchmarks.measure import geometric_mean
from benchmarks.table import bar

GROUPS = {
    "PARDISO": ("pardiso-default",),                            # as pypardiso calls it
    "PARDISO tuned": ("pardiso-metis", "pardiso-omp"),          # with the settings that suit these matrices best
    "CHOLMOD": ("cholmod-amd", "cholmod-metis", "cholmod-simplicial"),
    "cholespy": ("cholespy",),
    "libigl": ("igl",),
    "Eigen": ("eigen",),
}
NOT_ASKED = ("PARDISO tuned", "Eigen")                          # measured and printed, without a bar
NUMERIC = {                                                     # numeric phase only, on METIS' permutation or the own one
    "PARDISO": ("pardiso-default-given", "pardiso-default"),
    "PARDISO tuned": ("pardiso-given", "pardiso-metis", "pardiso-omp"),
    "CHOLMOD": ("cholmod-given",),
}
NUMERIC_BOUND = {"PARDISO": 2.0, "PARDISO tuned": 2.0, "CHOLMOD": 4.0}
FIRST_BOUND = {"PARDISO": 1.8, "PARDISO tuned": 1.8, "CHOLMOD": 1.8, "cholespy": 3.0, "libigl": 3.0, "Eigen": 3.0}


def verdicts(rows, clock="wall"):
    """All bars as dicts (see :func:`benchmarks.table.bar`). ``clock`` applies to one thread; several threads use the wall clock."""
    failures = sum("failed" in row for row in rows if row["solver"].startswith("meshsolve"))
    rows = [row for row in rows if "failed" not in row and row.get("is_mesh", True)]
    one = [row for row in rows if row["threads"] == 1]
    bars = [bar("measurements in which meshsolve failed or was wrong", float(failures), 0.0, at_least=False)]
    for group, names in NUMERIC.items():
        bars.append(_speed(one, clock, f"numeric, 30k-1M: times faster than {group}", "meshsolve-given", names, "factor",
                           NUMERIC_BOUND[group], 30_000))
        bars[-1]["asked"] = group not in NOT_ASKED
    for group, names in GROUPS.items():
        bars.append(_speed(one, clock, f"first solve, 50k-1M: times faster than {group}", "meshsolve", names, "first",
                           FIRST_BOUND[group], 49_000))
        bars.append(_speed(one, clock, f"refactor + solve, 50k-1M: times faster than {group}", "meshsolve", names, "again",
                           2.0, 49_000))
        for bar_ in bars[-2:]:
            bar_["asked"] = group not in NOT_ASKED
    bars.append(_speed(one, clock, "first solve, under 10k: times faster than libigl and Eigen", "meshsolve",
                       GROUPS["libigl"] + GROUPS["Eigen"], "first", 1.0, 0, 10_000))
    bars += [_memory(one, group) for group in ("PARDISO", "CHOLMOD")]
    return bars + [_two_threads(rows), _error(rows), _bits(rows)]


def _speed(rows, clock, what, ours, peers, phase, bound, smallest, largest=1_000_000):
    """Speedup over the fastest of ``peers``. The worst mesh counts; the text has the mean."""
    ratios = _ratios(rows, ours, peers, smallest, largest, lambda row: row["seconds"][clock][phase]["median"])
    return bar(_with_mean(what, ratios), min(ratios, default=None), bound)


def _memory(rows, group):
    ratios = _ratios(rows, "meshsolve", GROUPS[group], 30_000, 1_000_000, lambda row: row["peak"]["median"])
    ratios = [1 / ratio for ratio in ratios]
    return bar(_with_mean(f"peak memory, 30k-1M: over {group}'s", ratios), max(ratios, default=None), 1.1, at_least=False)


def _ratios(rows, ours, peers, smallest, largest, value):
    """Best of the peers over ours on each mesh that both finished."""
    ratios = []
    for mine in rows:
        if mine["solver"] == ours and smallest <= mine["n"] <= largest:
            theirs = [value(row) for row in rows if row["solver"] in peers and row["mesh"] == mine["mesh"]]
            ratios += [min(theirs) / value(mine)] if theirs else []
    return ratios


def _with_mean(what, ratios):
    return f"{what}, worst mesh" + (f" (geometric mean {geometric_mean(ratios):.2f})" if ratios else "")


def _two_threads(rows):
    """Speedup of the numeric phase from one thread to two, on METIS' permutation, in allocated memory."""
    seconds = {(row["mesh"], row["threads"]): row["seconds"]["wall"]["refactor"]["median"] for row in rows
               if row["solver"] == "meshsolve-given" and row["n"] >= 100_000}
    ratios = [s / seconds[mesh, 2] for (mesh, t), s in seconds.items() if t == 1 and (mesh, 2) in seconds]
    return bar(_with_mean("refactorization, from 100k: 2 threads over 1", ratios), min(ratios, default=None), 1.6)


def _error(rows):
    errors = [row["error"] for row in rows if row["solver"].startswith("meshsolve")]
    return bar("backward error, worst mesh", max(errors, default=None), 1e-14, at_least=False)


def _bits(rows):
    """True if each mesh has the same solution, bit for bit, in all runs and for all thread counts."""
    bits = {}
    for row in rows:
        if row["solver"].startswith("meshsolve"):
            bits.setdefault((row["mesh"], row["solver"]), set()).update(row["bits"])
    same = all(len(b) == 1 for b in bits.values())
    return bar("same bits for any number of threads and in every run (1 = yes)", float(same) if bits else None, 1.0)
