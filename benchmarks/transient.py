"""Circuits over time, end to end: one loop on ms.lu and on KLU.

    python -m benchmarks.glu --transient [--sizes 1 20 200] [--threads 1 2] [--steps 1000 100] [--clock cpu]

``linear``: backward Euler steps of a power grid with switching loads; one factorization, one solve a step. ``diodes``: the
same grid with rectifiers at a twentieth of its nodes; a refactorization and a solve for each Newton step, SPICE's tolerances.
Matrices, right-hand sides, steps and Newton's method are one piece of code, only factorization and solves differ. The solvers take
turns, a few steps each, so that a disturbance hits all of them; after each turn their solutions are compared.
``application`` is ``meshsolve.apps.circuit`` on the smallest decks with fixed steps, as it is and with KLU in the place of ms.lu.
"""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import tempfile

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from benchmarks.measure import Stopwatch, clock_for, describe, write_json
from benchmarks.peers.base import Unavailable
from benchmarks.peers.klu import Klu
from benchmarks.table import Table, bar, print_bars
from meshsolve.apps import circuit as application
from meshsolve.apps.circuit import controls, newton
from meshsolve.apps.circuit.mna import Matrix, System
from meshsolve.apps.circuit.netlist import read_netlist
from meshsolve.apps.circuit.sources import Sources
from meshsolve.report import Report

SIDES = {1: 32, 20: 141, 200: 447}      # thousands of nodes: side of the grid
STEP = 2e-11                            # seconds
MOST_NEWTON = 50
TURNS = 25                              # steps of a turn: enough to load a factor into the caches
RELATIVE, VOLT = 1e-3, 1e-6             # reltol and vntol of SPICE
SMALL = 5_000                           # largest system without a bar, a check that the loop works
CLEARLY = 1.2                           # times faster than KLU end to end
APART = 1e-6                            # largest accepted difference of solutions, relative to the largest value


def deck(path, side, diodes, steps):
    """Write a power grid of side x side nodes: pads behind a package's inductance, switching loads, rectifiers on request."""
    rng, n = np.random.default_rng(5), side * side
    node = np.arange(n).reshape(side, side)
    ends = np.concatenate([np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()]), np.stack([node[:-1].ravel(), node[1:].ravel()])], axis=1)
    lines = ["a power grid over time"]
    lines += [f"r{k} n{i} n{j} {r:.6g}" for k, (i, j, r) in enumerate(zip(*ends.tolist(), rng.uniform(0.5, 2, ends.shape[1]).tolist()))]
    lines += [f"c{k} n{k} 0 {c:.6g}" for k, c in enumerate(rng.uniform(1e-13, 1e-12, n).tolist())]
    for k, at in enumerate(rng.choice(n, max(4, n // 1000), replace=False).tolist()):
        lines += [f"v{k} s{k} 0 pulse(0 1 0 {20 * STEP} {STEP} 1)", f"l{k} s{k} p{k} 1e-12", f"rp{k} p{k} n{at} 0.05"]
    starts = rng.choice(8, n // 10) * 10 * STEP
    for k, (at, start) in enumerate(zip(rng.choice(n, n // 10, replace=False).tolist(), starts.tolist())):
        lines.append(f"i{k} n{at} 0 pulse(0 1e-3 {start:.6g} {5 * STEP} {5 * STEP} {20 * STEP} {80 * STEP})")
    for k, at in enumerate(rng.choice(n, n // 20, replace=False).tolist() if diodes else []):
        lines += [f"d{k} n{at} x{k} junction", f"cx{k} x{k} 0 2e-13", f"rx{k} x{k} 0 2e3"]
    lines += [".model junction d(is=1e-15 n=1)", f".tran {STEP} {steps * STEP}", ".end"]
    path.write_text("\n".join(lines) + "\n")


class Problem:
    """(G + C / h + diodes) x = s(t) + C x_before / h of a deck, with its matrices on one pattern."""

    def __init__(self, path, steps):
        netlist = read_netlist(path)
        self.system = System(netlist, controls.parse(netlist.controls).options)
        self.matrix, self.a, self.steps = Matrix(self.system, dynamic=True), 1 / STEP, steps
        self.n = self.system.n
        moving = self.matrix.moving
        self.storage = sp.csr_array((moving, self.matrix.indices, self.matrix.indptr), shape=(self.n, self.n)).copy()
        self.storage.eliminate_zeros()
        self.volts, self.amperes = (Sources(netlist[letter], netlist.waveforms, STEP, steps * STEP) for letter in "vi")

    def start(self):
        """The matrix that is analyzed: all junctions at 0 V."""
        if self.system.linear:
            return self.matrix.linear(self.a)
        return self.matrix.with_devices(self.a, self.system.devices.at(np.zeros(len(self.system.devices))).conductance)

    def side(self, k, x):
        """The right-hand side of step k without diodes."""
        return self.system.right_hand_side(self.volts.at(k * STEP), self.amperes.at(k * STEP)) + self.a * (self.storage @ x)

    def junction_currents(self, currents):
        """(n,) contributions of the junction currents to the right-hand side."""
        padded = np.zeros(self.n + 1)
        np.add.at(padded, self.system.devices.nodes[:, 0], currents)
        np.add.at(padded, self.system.devices.nodes[:, 1], -currents)
        return padded[:-1]


class Ours:
    """ms.lu, called as a user does."""

    def __init__(self, threads):
        self.threads = threads

    def first(self, A, watch):
        with watch.phase("first"):
            self.F = ms.lu(A, device="cpu", threads=self.threads)

    def refactor(self, A, watch):
        with watch.phase("refactor"):
            self.F.refactor(A)

    def solve(self, b, watch):
        with watch.phase("solve"):
            return self.F.solve(b)


class OnKlu:
    """KLU on compressed columns. The conversion is not timed: a program on KLU would assemble columns."""

    def first(self, A, watch):
        self.klu = Klu()
        self.order = sp.csc_array((np.arange(A.nnz), A.indices, A.indptr), shape=A.shape[::-1]).tocsr().data
        self.M = self.klu.matrix(A)
        with watch.phase("first"):
            self.klu.analyze(self.M)
            self.klu.factor(self.M)

    def refactor(self, A, watch):
        np.take(A.data, self.order, out=self.M.data)
        with watch.phase("refactor"):
            self.klu.refactor(self.M)

    def solve(self, b, watch):
        with watch.phase("solve"):
            return self.klu.solve(b)


def march(problem, solver, watch):
    """Yield (x, Newton steps) after each time step."""
    solver.first(problem.start(), watch)
    x, step = np.zeros(problem.n), linear_step if problem.system.linear else newton_step
    for k in range(1, problem.steps + 1):
        with watch.phase("rest"):
            s = problem.side(k, x)
        x, count = step(problem, solver, watch, s, x)
        yield x, count


def linear_step(problem, solver, watch, s, x):
    """One solve."""
    return solver.solve(s, watch), 0


def newton_step(problem, solver, watch, s, x):
    """Newton's method with limited junction voltages (Nagel 1975)."""
    system, devices = problem.system, problem.system.devices
    at = system.device_voltages(x)
    for count in range(1, MOST_NEWTON + 1):
        with watch.phase("rest"):
            current, conductance = devices.at(at)[:2]
            A = problem.matrix.with_devices(problem.a, conductance)
            b = s + problem.junction_currents(conductance * at - current)
        solver.refactor(A, watch)
        new = solver.solve(b, watch)
        with watch.phase("rest"):
            wanted = system.device_voltages(new)
            limited = devices.limited(wanted, at)
            close = (np.abs(new - x) <= RELATIVE * np.maximum(np.abs(new), np.abs(x)) + VOLT).all()
            done = close and np.allclose(limited, wanted, rtol=RELATIVE, atol=VOLT)
            x, at = new, limited
        if done:
            return x, count
    raise RuntimeError("Newton's method did not converge")


class Adding(Stopwatch):
    """A stopwatch with repeated phases."""

    @contextlib.contextmanager
    def phase(self, name):
        wall, cpu = self.wall.get(name, 0.0), self.cpu.get(name, 0.0)
        with super().phase(name):
            yield
        self.wall[name] += wall
        self.cpu[name] += cpu

    def totals(self):
        """Seconds by clock and phase, and of all phases."""
        return {clock: both | {"total": sum(both.values())} for clock, both in (("wall", dict(self.wall)), ("cpu", dict(self.cpu)))}


def lockstep(problem, solvers):
    """Run all solvers in turns: {name: (seconds, Newton steps, largest difference, last solution)}."""
    watches = {key: Adding() for key in solvers}
    marches = {key: march(problem, solver, watches[key]) for key, solver in solvers.items()}
    counts, apart, last, reference = dict.fromkeys(solvers, 0), dict.fromkeys(solvers, 0.0), {}, next(reversed(solvers))
    turns, stride = list(solvers), max(1, problem.steps // TURNS)
    for _ in range(0, problem.steps, stride):
        turns = turns[1:] + turns[:1]
        for key in turns:
            for x, count in itertools.islice(marches[key], stride):
                last[key] = x
                counts[key] += count
        for key in solvers:
            apart[key] = max(apart[key], float(abs(last[key] - last[reference]).max() / abs(last[reference]).max()))
    return {key: (watches[key].totals(), counts[key], apart[key], last[key]) for key in solvers}


class InApplication:
    """A factor on KLU with the methods that the circuit application calls."""

    def __init__(self, A):
        self.solver, self.report, self.watch = OnKlu(), Report(), Adding()
        self.solver.first(A, self.watch)

    def refactor(self, A):
        self.solver.refactor(A, self.watch)

    def solve(self, b):
        return self.solver.solve(b, self.watch)


def run_application(path, steps, threads, on_klu):
    """The deck's transient analysis with fixed steps, without its reading: (seconds, Newton steps, nodes' last voltages)."""
    circuit, before, watch = application.read(path), newton._factor, Adding()
    try:
        if on_klu:
            newton._factor = lambda A, threads: InApplication(A)
        with watch.phase("application"):
            w = circuit.transient(STEP, steps * STEP, method="be", nodes=[f"n{k}" for k in range(16)], fixed_step=True, threads=threads)
    finally:
        newton._factor = before
    return watch.totals(), w.report.facts.get("newton_steps", 0), np.array([w[f"n{k}"][-1] for k in range(16)])


def measure(name, problem, path, threads, klu, with_application=True):
    """Rows of one problem: the loop and the application, on ms.lu and on KLU."""
    solvers = {("meshsolve", t): Ours(t) for t in threads} | ({("klu", 1): OnKlu()} if klu else {})
    rows, common = [], {"problem": name, "n": problem.n, "steps": problem.steps}
    found = lockstep(problem, solvers)
    for (solver, t), (seconds, count, apart, _) in found.items():
        rows.append(common | {"solver": solver, "threads": t, "loop": "lu", "seconds": seconds, "newton_steps": count, "difference": apart})
    last = next(reversed(found.values()))[3]
    known = {problem.system.netlist.node_numbers[f"n{k}"]: k for k in range(16)}
    for solver, t in solvers if with_application else ():
        seconds, count, x = run_application(path, problem.steps, t, solver == "klu")
        apart = max(abs(last[at] - x[k]) for at, k in known.items()) / abs(last).max()
        rows.append(common | {"solver": solver, "threads": t, "loop": "application", "seconds": seconds, "newton_steps": count,
                              "difference": float(apart)})
    return rows


def bars(rows, clock):
    """KLU's time over ours, end to end, and the differences of the solutions."""
    table, out = {(r["problem"], r["loop"], r["solver"], r["threads"]): r for r in rows}, []
    for (problem, loop, solver, t), ours in table.items():
        klu = table.get((problem, loop, "klu", 1))
        if solver == "meshsolve" and klu and ours["n"] > SMALL:
            by = clock_for(t, clock)
            out.append(bar(f"transient {problem}, {loop}, against KLU, {t} threads", klu["seconds"][by]["total"] / ours["seconds"][by]["total"],
                           CLEARLY))
    apart = [r["difference"] for r in rows if r["loop"] == "lu"]
    out.append(bar("transient, largest difference between solutions", max(apart, default=None), APART, at_least=False))
    return out


def run(options):
    """Measure, print and write. Returns 1 if a bar was missed."""
    result = describe("transient", options.threads, options.clock) | {"rows": []}
    klu = None
    try:
        klu = Klu().version()
    except Unavailable as e:
        print(f"left out: klu: {e}")
    result["peers"] = {"klu": klu}
    table = Table("problem", "loop", "solver", "threads", "n", "Newton", "first", "refactor", "solve", "rest", "total", "apart")
    sizes = [20] if options.quick else sorted(SIDES.keys() & set(options.sizes))
    for size in sizes:
        for kind, steps in zip(("linear", "diodes"), options.steps, strict=True):
            if steps == 0:
                continue
            with tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "grid.sp"
                deck(path, SIDES[size], kind == "diodes", steps)
                rows = measure(f"{kind}-{size}k", Problem(path, steps), path, options.threads, klu, size == sizes[0])
            for r in rows:
                seconds = r["seconds"][clock_for(r["threads"], options.clock)]
                table.row(r["problem"], r["loop"], r["solver"], r["threads"], r["n"], r["newton_steps"], *(
                    seconds.get(phase) for phase in ("first", "refactor", "solve", "rest", "total")), r["difference"])
            result["rows"] += rows
            result["bars"] = bars(result["rows"], options.clock)
            path = write_json(result, options.out)
    print("seconds; written:", path)
    return 0 if print_bars(result["bars"]) else 1
