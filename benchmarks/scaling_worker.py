"""The phases of benchmarks.scaling on one number of threads, in a process of their own: ``python -m benchmarks.scaling_worker``.

The task comes as JSON on standard input, the answer is one line of JSON.
"""

from __future__ import annotations

import json
import sys

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from benchmarks import schedule
from benchmarks.measure import Stopwatch, library_threads, summary
from benchmarks.peers import SOLVERS, Unavailable
from benchmarks.problems import Problem, System, find

PHASES = ("order", "symbolic", "numeric", "refactor", "solve 1", "solve 3", "solve 64", "operators", "parac", "lu", "ldlt")
FIRST = ("order", "symbolic", "numeric", "solve 3")
PARDISO = "pardiso-omp"


def run_row(name, system, repeat, phases, threads, simulate=False):
    """Seconds of each phase on so many threads, measured or simulated."""
    S = System.load(system)
    with library_threads(threads):
        problem = find(name)
        calls = calls_of(S, threads, problem.mesh if isinstance(problem, Problem) else None)
        return simulated(calls, phases, threads) if simulate else measured(S, calls, phases, repeat)


def measured(S, calls, phases, repeat):
    """Median seconds of each phase, of the first solve, and of PARDISO's."""
    seconds = {}
    for phase in phases:
        if phase in calls:
            calls[phase]()                                          # starts the threads, touches the memory
            watch = [Stopwatch() for _ in range(repeat)]
            for w in watch:
                with w.phase(phase):
                    calls[phase]()
            seconds[phase] = summary(w.wall[phase] for w in watch)
    if all(phase in seconds for phase in FIRST):
        seconds["first"] = sum(seconds[phase]["median"] for phase in FIRST)
    try:
        seconds[PARDISO] = pardiso(S)
    except Unavailable as e:
        return {"seconds": seconds, "left_out": str(e)}
    return {"seconds": seconds}


def simulated(calls, phases, threads):
    """Seconds by the schedule of a trace; ``one``: CPU seconds of the same tasks on one thread; ``alone``: seconds that do not divide."""
    rows = {"seconds": {}, "one": {}, "alone": {}}
    for phase in (p for p in phases if p in calls):
        calls[phase]()
        loops = schedule.trace(calls[phase])[1]
        rows["seconds"][phase] = schedule.simulate(loops, threads)
        rows["one"][phase] = sum(loop.before + sum(loop.cost) for loop in loops)
        rows["alone"][phase] = schedule.alone(loops)
    for kind in rows.values():
        if all(phase in kind for phase in FIRST):
            kind["first"] = sum(kind[phase] for phase in FIRST)
    return rows


def calls_of(S, threads, mesh):
    """``{phase: callable}``. Later phases use what earlier ones need, made here."""
    order = ms.order.nested_dissection(S.A, threads=threads)
    sym = ms.analyze(S.A, order, threads=threads)
    F = sym.factor(S.A, threads=threads)
    rng = np.random.default_rng(0)
    blocks = {k: rng.standard_normal((S.n, k)) for k in (1, 3, 64)}
    upper = sp.csr_array(S.A + 1e-3 * sp.triu(S.A, 1))
    saddle = sp.csr_array(S.A - 1e-3 * sp.diags_array(S.A.diagonal()))
    calls = {
        "order": lambda: ms.order.nested_dissection(S.A, threads=threads),
        "symbolic": lambda: ms.analyze(S.A, order, threads=threads),
        "numeric": lambda: sym.factor(S.A, threads=threads),
        "refactor": lambda: F.refactor(S.A2),
        **{f"solve {k}": (lambda b=b: F.solve(b)) for k, b in blocks.items()},
        "parac": lambda: ms.parac(S.A, threads=threads),
        "lu": lambda: ms.lu(upper, ordering=order, threads=threads),
        "ldlt": lambda: ms.ildl(saddle, fill_level=None, threads=threads),
    }
    if mesh is not None:
        surface = mesh()
        calls["operators"] = lambda: ms.cotan_laplacian(surface)
    return calls


def pardiso(S):
    """Seconds of PARDISO from the matrix to the first solution."""
    watch, peer = Stopwatch(), SOLVERS[PARDISO](None)
    M, B = peer.matrix(S.A), peer.rhs(S.B)
    peer.first(M, watch)
    with watch.phase("solve"):
        peer.solve(B)
    peer.close()
    return sum(watch.wall.values())


if __name__ == "__main__":
    print(json.dumps(run_row(**json.load(sys.stdin))))
