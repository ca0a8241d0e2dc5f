"""Decks in meshsolve and in ngspice: CPU seconds of reading and analysis, and numbers of steps.

``python -m benchmarks.ngspice`` prints the table of ``docs/circuits.md`` and writes ``results/ngspice-<date>-1t.json``. Both run on one
thread, and the shortest of several runs counts. ngspice starts in each run, in about 7 ms. The start of Python is left out.
"""

from __future__ import annotations

import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

import meshsolve as ms
from benchmarks.measure import describe, write_json

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests" / "apps" / "circuit"))
import decks

HALF_WAVE = ("V1 in 0 SIN(0 10 500)\nD1 in rect dm\n.model dm D(IS=1e-14 N=1.05 RS=0.5)\nR1 rect out 100\nC1 out 0 100u\n"
             "R2 out 0 1k\n.tran 0.1u 2m")


def grid(n):
    """The grid of docs/circuits.md: resistors, a load at each node, one supply."""
    rng, lines = np.random.default_rng(0), []
    for i in range(n):
        for j in range(n):
            lines += [f"Ra{i}_{j} m_{i}_{j} m_{i + 1}_{j} 0.1"] * (i + 1 < n) + [f"Rb{i}_{j} m_{i}_{j} m_{i}_{j + 1} 0.1"] * (j + 1 < n)
            lines += [f"I{i}_{j} m_{i}_{j} 0 {rng.uniform(0, 1e-3)}"]
    return "\n".join([*lines, "Vdd m_0_0 0 1.1", ".op"])


DECKS = {
    "three resistors, `.tran 1n 1m`": "V1 g 0 3\nR1 n 0 1\nR2 g n 2\n.tran 1n 1m",
    "half-wave rectifier, `.tran 0.1u 2m`": HALF_WAVE,
    "bridge rectifier, `.tran 0.1m 60m`": decks.RECTIFIER + ".tran 0.1m 60m",
    "clipper, `.tran 2n 10m 0 20u`": decks.CLIPPER + "\n.tran 2n 10m 0 20u",
    "`multiplier(20)`, 40 diodes, `.tran 10u 20m`": decks.multiplier(20) + "\n.tran 10u 20m",
    "`diode_grid(10)`, `.tran 10u 2m`": decks.diode_grid(10) + "\n.tran 10u 2m",
    "`diode_grid(30)`, `.tran 10u 2m`": decks.diode_grid(30) + "\n.tran 10u 2m",
    "`diode_grid(60)`, `.tran 10u 2m`": decks.diode_grid(60) + "\n.tran 10u 2m",
    "grid of 20 x 20, `.op`": grid(20),
    "grid of 100 x 100, `.op`": grid(100),
}
REPEAT = 3


def ours(path):
    """CPU seconds, unknowns and time steps of one run."""
    start = time.process_time()
    result, _ = ms.apps.circuit.read(path).run(threads=1)
    spent, facts = time.process_time() - start, result.report.facts
    return spent, facts["unknowns"], facts.get("time_steps", 0) + facts.get("rejected_steps", 0)


def theirs(path):
    """CPU seconds and points of one run of ngspice."""
    raw = path.with_suffix(".raw")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(["ngspice", "-b", "-r", str(raw), str(path)], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    head = raw.read_bytes()[:2000].decode("latin-1")
    points = int(head.split("No. Points:")[1].split()[0])
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, points


def measure(name, repeat=REPEAT):
    """One row of the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "deck.sp"
        path.write_text(f"a deck\n{DECKS[name].strip()}\n.end\n")
        mine = [ours(path) for _ in range(repeat)]
        other = [theirs(path) for _ in range(repeat)]
    return {"deck": name, "unknowns": mine[0][1], "steps": mine[0][2], "seconds": min(row[0] for row in mine),
            "ngspice_points": other[0][1], "ngspice_seconds": min(row[0] for row in other)}


def table(rows):
    """The rows of a result file as Markdown."""
    lines = ["| deck | unknowns | steps | meshsolve | ngspice 39 | |", "|---|---:|---:|---:|---:|---|"]
    for row in rows:
        ratio = row["ngspice_seconds"] / row["seconds"]
        factor = max(ratio, 1 / ratio)
        said = f"{factor:.0f}" if factor >= 10 else f"{factor:.1f}"
        said += " times faster" if ratio >= 1 else " times slower"
        lines.append(f"| {row['deck']} | {row['unknowns']:,} | {format(row['steps'], ',') if row['steps'] else '-'} | {row['seconds']:.3f} s | "
                     f"{row['ngspice_seconds']:.3f} s | {said} |")
    return "\n".join(lines)


def main(names):
    """Measure, write ``results/ngspice-<date>-1t.json`` and print the table."""
    run = describe("ngspice", [1], "process_time") | {"rows": [measure(name) for name in DECKS if not names or name in names]}
    print(table(run["rows"]))
    print(f"\n{write_json(run)}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
