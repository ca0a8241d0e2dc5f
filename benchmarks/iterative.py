"""Set-up and solve of one iterative solver in a child process, which is stopped after a limit.

The library is loaded and warmed up on a tiny graph first. The child prints a line when it begins and one after each repetition. The limit
counts from the first line, and earlier repetitions are kept. ``python -m benchmarks.iterative`` is the child, with the task as JSON on
standard input.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import Stopwatch, summary, thread_environment
from benchmarks.peers.iterative import ITERATIVE, Parac


def save(folder, A, b):
    """The system A x = b as files in ``folder``."""
    sp.save_npz(pathlib.Path(folder) / "A.npz", sp.csr_array(A), compressed=False)
    np.save(pathlib.Path(folder) / "b.npy", b)


def measure(folder, solver, threads, options, rtol, wrong):
    """Seconds, iterations and error of a solver on the saved system.

    Parameters
    ----------
    folder : path
        Folder of :func:`save`.
    solver : str
        A name of ``ITERATIVE``, or ``"parac-"`` and an ordering.
    options : namespace
        ``repeat``, and ``limit``: seconds for all repetitions. The first one must end in that time.
    rtol, wrong : float
        Tolerance of the relative residual, and the residual above which the result is a failure.

    Returns
    -------
    dict
        ``seconds``, ``iterations`` and ``error``, or ``failed`` with the reason. ``stopped`` is the limit that ended a run.
    """
    task = {"folder": str(folder), "solver": solver, "threads": threads, "repeat": options.repeat, "rtol": rtol}
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(
            [sys.executable, "-m", "benchmarks.iterative"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
            bufsize=0, cwd=pathlib.Path(__file__).parents[1], env=thread_environment(threads)) as child:
        child.stdin.write(json.dumps(task).encode())
        child.stdin.close()
        child.stdin = None
        begun, stopped = child.stdout.readline(), False
        try:
            said = child.communicate(timeout=options.limit)[0]
        except subprocess.TimeoutExpired:
            child.kill()
            said, stopped = child.communicate()[0], True
        errors.seek(0)
        reason = errors.read().strip().splitlines()[-1:]
    done = [json.loads(line) for line in said.decode().splitlines(keepends=True) if line.endswith("\n")]
    failed = next((d for d in done if "failed" in d), None)
    if failed or (not done and not (begun and stopped)):
        return failed or {"failed": reason[0] if reason else f"exit status {child.returncode}"}
    if not done:
        return {"failed": f"stopped after {options.limit:g} s", "stopped": options.limit}
    error = max(d["error"] for d in done)
    if not error < wrong:
        iterations = done[-1]["iterations"]
        return {"failed": f"residual {error:.1e} after {iterations} iterations", "error": error, "iterations": iterations}
    seconds = {clock: {k: summary(d["seconds"][clock][k] for d in done) for k in ("setup", "solve", "total")}
               for clock in ("wall", "cpu")}
    return {"seconds": seconds, "iterations": done[-1]["iterations"], "error": error}


def make(solver, threads):
    """The solver of that name."""
    name = solver.removeprefix("parac-")
    return ITERATIVE[solver]() if solver in ITERATIVE else Parac(threads, ordering=name)


def run(folder, solver, threads, repeat, rtol):
    """The child: a line of JSON for each repetition."""
    import meshsolve as ms

    warnings.simplefilter("ignore")
    A, b = sp.csr_array(sp.load_npz(pathlib.Path(folder) / "A.npz")), np.load(pathlib.Path(folder) / "b.npy")
    small = ms.datasets.grid2d(20, 20)
    with contextlib.suppress(Exception):
        peer = make(solver, threads)
        peer.setup(small)
        peer.solve(small @ np.arange(400.0), rtol)
    print("begun", flush=True)
    for _ in range(repeat):
        try:
            print(json.dumps(once(make(solver, threads), A, b, rtol)), flush=True)
        except Exception as e:                                      # any error of a peer on an unsuitable graph
            print(json.dumps({"failed": f"{type(e).__name__}: {e}"}), flush=True)
            return


def once(peer, A, b, rtol):
    """One set-up and one solve."""
    watch = Stopwatch()
    with watch.phase("setup"):
        peer.setup(A)
    with watch.phase("solve"):
        x, iterations = peer.solve(b, rtol)
    seconds = watch.as_dict()
    for spent in seconds.values():
        spent["total"] = spent["setup"] + spent["solve"]
    return {"seconds": seconds, "iterations": int(iterations), "error": float(np.linalg.norm(b - A @ x) / np.linalg.norm(b))}


if __name__ == "__main__":
    run(**json.load(sys.stdin))
