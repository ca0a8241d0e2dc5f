"""Every phase on 1, 2, 4, ... threads: how much faster than on one, beside MKL PARDISO, and what the schedule alone would allow.

    python -m benchmarks.scaling [--problems igea ogre-1 grid3d-60] [--threads 1 2 4 8 16] [--repeat 3] [--simulate 16]

Each (problem, number of threads) runs in a process of its own. Phases: ``order`` (with its patches), ``symbolic``, ``numeric`` (the
first factorization), ``refactor``, ``solve`` of 1, 3 and 64 right-hand sides, the cotan Laplacian, ParAC, LU and complete L D Lᵀ.
``first`` is order + symbolic + numeric + solve of 3. PARDISO orders with its own parallel nested dissection.
``--simulate`` computes the schedule of each phase on so many threads from a trace (benchmarks/schedule.py), on any machine.
Prints seconds and the speed-up over one thread, and writes benchmarks/results/scaling-<date>-<threads>t.json.
"""

from __future__ import annotations

import argparse
import tempfile

from benchmarks.measure import child, describe, write_json
from benchmarks.problems import find
from benchmarks.scaling_worker import PARDISO, PHASES
from benchmarks.table import Table, bar, print_bars

GOALS = {"numeric": 8.0, "order": 6.0, "symbolic": 6.0, "solve 3": 5.0, "first": 6.0}       # times one thread, on 16 threads


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed."""
    options = parser().parse_args(arguments)
    run = describe("scaling", options.threads, "wall") | {"rows": [], "simulated": []}
    for name in options.problems:
        with tempfile.NamedTemporaryFile(suffix=".npz") as file:
            problem = find(name)
            system = problem.system()
            system.save(file.name)
            task = {"name": name, "system": file.name, "repeat": options.repeat, "phases": options.phases}
            measure_problem(task, options, run)
        write_json(run, options.out)
    run["bars"] = verdicts(run["rows"])
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.split("\n")[0])
    p.add_argument("--problems", nargs="+", default=["icosphere-7", "scan-3", "grid3d-60"], help="names as of benchmarks.cholesky")
    p.add_argument("--threads", nargs="*", type=int, default=[1, 2, 4, 8, 16])
    p.add_argument("--phases", nargs="+", default=list(PHASES), choices=PHASES)
    p.add_argument("--repeat", type=int, default=3)
    p.add_argument("--simulate", nargs="+", type=int, default=[], metavar="THREADS", help="numbers of threads to simulate")
    p.add_argument("--limit", type=float, default=600, help="seconds of one process")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def measure_problem(task, options, run):
    """Measured and simulated rows of one problem, printed."""
    for threads in options.threads:
        run["rows"].append({"problem": task["name"], "threads": threads} | child("benchmarks.scaling_worker", task | {"threads": threads}, threads, options.limit))
    for threads in options.simulate:
        run["simulated"].append({"problem": task["name"], "threads": threads}
                                | child("benchmarks.scaling_worker", task | {"threads": threads, "simulate": True}, 1, options.limit))
    rows = [(row, "") for row in run["rows"]] + [(row, " simulated") for row in run["simulated"]]
    rows = [(row, kind) for row, kind in rows if row["problem"] == task["name"]]
    for row, kind in rows:
        if "failed" in row or "left_out" in row:
            print(f"{row['threads']} threads{kind}:", row.get("failed") or f"without {PARDISO}: {row['left_out']}")
    one = next((row for row, kind in rows if row["threads"] == 1 and "seconds" in row), None)
    table = Table(f"{task['name']}, ms (x one thread)", *(f"{row['threads']}{kind}" for row, kind in rows), width=16)
    for phase in (*options.phases, "first", PARDISO):
        table.row(phase, *(cell(row, one, phase) for row, _ in rows))


def cell(row, one, phase):
    """Milliseconds of a phase, and the speed-up over one thread of the same kind of row."""
    seconds, alone = of(row, phase), row.get("one", {}).get(phase) or (one and of(one, phase))
    return None if seconds is None else f"{1e3 * seconds:.4g} ({alone / seconds:.1f})" if alone else f"{1e3 * seconds:.4g}"


def of(row, phase):
    """Median seconds of a phase, or None."""
    value = row.get("seconds", {}).get(phase)
    return value["median"] if isinstance(value, dict) else value


def verdicts(rows):
    """The bars, for every problem that was measured on 1 and 16 threads."""
    found, out = {(row["problem"], row["threads"]): row for row in rows}, []
    for problem in dict.fromkeys(row["problem"] for row in rows):
        one, many = found.get((problem, 1)), found.get((problem, 16))
        for phase, goal in GOALS.items() if one and many else ():
            a, b = of(one, phase), of(many, phase)
            out.append(bar(f"{problem}: {phase} on 16 threads, times one", a / b if a and b else None, goal))
        if one and many:
            ours, theirs = of(many, "first"), of(many, PARDISO)
            out.append(bar(f"{problem}: first solve on 16 threads, times {PARDISO}", theirs / ours if ours and theirs else None, 2.0))
    return out


if __name__ == "__main__":
    raise SystemExit(main())
