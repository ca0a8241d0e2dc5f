"""Orderings: nested dissection compared with METIS_NodeND, and the enumeration of L's pattern with CHOLMOD's analysis.

    python -m benchmarks.order [--meshes igea ogre-1] [--quick] [--repeat 5] [--threads 1 2] [--clock cpu] [--out FILE]

Prints one row for each mesh, then the bars, and writes benchmarks/results/order-<date>-<threads>t.json. All calls on a mesh are
interleaved in one process. Medians are compared.
"""

from __future__ import annotations

import argparse

import numpy as np

import meshsolve as ms
from benchmarks.measure import clock_for, describe, geometric_mean, interleave, library_threads, summary, write_json
from benchmarks.peers import ORDERINGS, Unavailable, available
from benchmarks.peers.cholmod import Cholmod
from benchmarks.problems import SMALLEST, Problem, find, problem_set
from benchmarks.table import Table, bar, print_bars


def main(arguments=None):
    """Run the benchmark. Returns 1 if a bar was missed."""
    options = parser().parse_args(arguments)
    installed, missing = available(options.peers, ORDERINGS)
    symbolic, reason = cholmod_release()
    peers = {name: ORDERINGS[name]() for name in installed}
    missing |= {} if symbolic else {"cholmod": reason}
    for name, why in missing.items():
        print(f"left out: {name}: {why}")
    problems = [find(m) for m in options.meshes] or problem_set("quick" if options.quick else "order")
    t = options.threads[-1]
    table = Table("mesh", "vertices", *installed, *(f"ours {k}t" for k in options.threads), "nnz(L)/", "flops/", "vs METIS",
                  f"lca {t}t", "cholmod")
    run = describe("order", options.threads, options.clock)
    run |= {"peers": {**installed, "cholmod": symbolic}, "left_out": missing, "rows": []}
    for problem in problems:
        run["rows"].append(measure(problem, peers, bool(symbolic), options))
        table.row(*cells(run["rows"][-1], installed, options))
        write_json(run, options.out)                                # after each row: an interrupted run keeps its results
    run["bars"] = verdicts(run["rows"], options)
    print("written:", write_json(run, options.out))
    return 0 if print_bars(run["bars"]) else 1


def parser():
    """The command line."""
    p = argparse.ArgumentParser(prog="python -m benchmarks.order", description=__doc__.split("\n")[0])
    p.add_argument("--meshes", nargs="+", default=[], help="names (igea, igea-1, icosphere-7, tetrahedra-100, grid3d-60) or mesh files")
    p.add_argument("--quick", action="store_true", help="four meshes only")
    p.add_argument("--peers", nargs="*", default=list(ORDERINGS), choices=list(ORDERINGS))
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    p.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: one-thread ratios on a machine in use")
    p.add_argument("--out", help="result file instead of benchmarks/results/...")
    return p


def cholmod_release():
    """CHOLMOD's version and why it is missing, one of them None."""
    try:
        return Cholmod("given").version(), None
    except Unavailable as e:
        return None, str(e)


def measure(problem, peers, symbolic, options):
    """All orderings and both analyses of one mesh: a row for the table and the JSON."""
    A = problem.system().A
    row = {"mesh": problem.name, "is_mesh": isinstance(problem, Problem), "n": A.shape[0], "nnz_A": int(A.nnz)}
    graphs = {name: peer.graph(A) for name, peer in peers.items()}
    tasks = {name: (lambda p=peer, g=graphs[name]: p.run(g)) for name, peer in peers.items()}
    for t in options.threads:
        tasks[f"meshsolve-{t}t"] = lambda t=t: ms.order.nested_dissection(A, threads=t)
    results, seconds = interleave(tasks, options.repeat)
    perms = {name: peers[name].perm(r) if name in peers else r.perm for name, r in results.items()}
    row["seconds"] = {name: {clock: summary(s) for clock, s in both.items()} for name, both in seconds.items()}
    row["fill"] = {name: fill(A, perm) for name, perm in perms.items()}
    ours = [perms[f"meshsolve-{t}t"] for t in options.threads]
    row["same_for_any_threads"] = all(np.array_equal(ours[0], perm) for perm in ours)
    row["symbolic"] = compare_symbolic(A, perms.get("metis", ours[0]), symbolic, options)
    return row


def fill(A, perm):
    """nnz(L) and the sum of squared column counts, both counted by ``ms.analyze`` for every ordering alike."""
    symbolic = ms.analyze(A, ordering=perm)
    return {"nnz": int(symbolic.nnz), "flops": float(symbolic.flops)}


def compare_symbolic(A, perm, with_cholmod, options):
    """``ms.analyze``, the enumeration of the pattern, and CHOLMOD's analysis, all on the permutation ``perm``."""
    analyzed, tasks = {}, {}
    for t in options.threads:
        tasks[f"analyze-{t}t"] = lambda t=t: analyzed.update({t: _with_threads(t, lambda: ms.analyze(A, ordering=perm))})
        tasks[f"pattern-{t}t"] = lambda t=t: _with_threads(t, lambda: analyzed[t].pattern())
    if with_cholmod:
        peer = Cholmod("given", perm=perm)
        M = peer.matrix(A)
        tasks["cholmod"] = lambda: peer.analyze(M)
    _, seconds = interleave(tasks, options.repeat)
    found = {"seconds": {name: {clock: summary(s) for clock, s in both.items()} for name, both in seconds.items()}}
    if with_cholmod:
        found["agrees"] = peer.facts()["nnz_L"] == int(analyzed[options.threads[0]].nnz)
        peer.close()
    return found


def _with_threads(threads, call):
    with library_threads(threads):
        return call()


def median(row, name, options, threads=1):
    """Median seconds of one task of a row, None where it was not measured."""
    measured = row["seconds"].get(name)
    return measured[clock_for(threads, options.clock)]["median"] if measured else None


def cells(row, peers, options):
    """The columns of one row."""
    times = [median(row, name, options) for name in peers]
    times += [median(row, f"meshsolve-{t}t", options, t) for t in options.threads]
    ratio = [_fill_ratio(row, kind) for kind in ("nnz", "flops")]
    speed = [_speed(row, t, options) for t in options.threads[:1]]
    t = options.threads[-1]
    lca = [median(row["symbolic"], name, options, t) for name in (f"pattern-{t}t", "cholmod")]
    return [row["mesh"], row["n"], *times, *ratio, *speed, *lca]


def _fill_ratio(row, kind):
    if "metis" not in row["fill"]:
        return None
    ours = next(f for name, f in row["fill"].items() if name.startswith("meshsolve"))
    return ours[kind] / row["fill"]["metis"][kind]


def _speed(row, threads, options):
    peer, ours = (median(row, name, options, threads) for name in ("metis", f"meshsolve-{threads}t"))
    return peer / ours if peer and ours else None


def verdicts(rows, options):
    """The project's bars for orderings, on the meshes of triangles of 30k vertices and more."""
    rows = [row for row in rows if row["is_mesh"] and row["n"] >= SMALLEST and "metis" in row["fill"]]
    bars = []
    for t, bound in ((1, 3.5), (2, 6.0)):
        speeds = [_speed(row, t, options) for row in rows if t in options.threads]
        bars.append(bar(f"nested dissection, {t} thread(s): times faster than pymetis, geometric mean", geometric_mean(speeds),
                        bound))
    for kind, mean, worst in (("nnz", 1.03, 1.10), ("flops", 1.06, 1.25)):
        ratios = [_fill_ratio(row, kind) for row in rows]
        bars.append(bar(f"{kind} of L over METIS', geometric mean", geometric_mean(ratios), mean, at_least=False))
        bars.append(bar(f"{kind} of L over METIS', worst mesh", max(ratios, default=None), worst, at_least=False))
    pairs = [[median(row["symbolic"], name, options, 2) for name in ("cholmod", "pattern-2t", "analyze-2t")] for row in rows]
    pairs = [p for p in pairs if None not in p]
    bars.append(bar("pattern of L, 2 threads: times faster than CHOLMOD's analysis, slowest mesh",
                    min((c / p for c, p, _ in pairs), default=None), 1.0))
    bars.append(bar("the same with ms.analyze before it, geometric mean (not asked for)",
                    geometric_mean(c / (p + a) for c, p, a in pairs), 1.0, asked=False))
    same = all(row["same_for_any_threads"] and row["symbolic"].get("agrees", True) for row in rows)
    bars.append(bar("same permutation for any threads, nnz(L) as CHOLMOD counts it (1 = yes)", float(same) if rows else None,
                    1.0))
    return bars


if __name__ == "__main__":
    raise SystemExit(main())
