"""One measurement in a child process: ``python -m benchmarks.worker``, with the task as JSON on standard input.

A fresh process for each run keeps the libraries' memory pools, thread pools and BLAS settings apart. The library is
loaded and warmed up on a tiny system first. Timed are the first factorization of this process, then a few
refactorizations with solves. The answer is one line of JSON: seconds by phase, peak memory, errors, sizes.
"""

from __future__ import annotations

import ctypes
import gc
import hashlib
import json
import sys

import numpy as np
import scipy.sparse as sp

from benchmarks.measure import PeakMemory, Stopwatch, child


def measure(solver, system, perm=None, threads=1, again=3, timeout=600):
    """Measure ``SOLVERS[solver]`` on the system stored in the file ``system`` in a new process.

    Returns the worker's dict, or ``{"failed": reason}`` if it crashed or took longer than ``timeout`` seconds.
    """
    task = {"solver": solver, "system": str(system), "perm": None if perm is None else str(perm), "again": again}
    return child("benchmarks.worker", task, threads, timeout)


def run(solver, system, perm=None, again=3):
    """The result of :func:`measure`, measured in this process."""
    from benchmarks.peers import SOLVERS
    from benchmarks.problems import System

    warm_up(SOLVERS[solver])
    S = System.load(system)
    peer = SOLVERS[solver](None if perm is None else np.load(perm))
    M, M2, B = peer.matrix(S.A), peer.matrix(S.A2), peer.rhs(S.B)
    trim()
    memory, watch = PeakMemory(), Stopwatch()
    peer.first(M, watch)
    with watch.phase("solve"):
        X = peer.solve(B)
    result = {"first": watch.as_dict(), "peak": memory.grown(), "facts": peer.facts(),
              "error": backward_error(S.A, X, S.B), "bits": hashlib.sha256(np.ascontiguousarray(X)).hexdigest()[:16]}
    result["again"] = _again(peer, M2, B, again)
    result["error_again"] = backward_error(S.A2, peer.solve(B), S.B)
    peer.close()
    return result


def _again(peer, M, B, most):
    """Refactorizations with solves: ``most`` of them, fewer once they have taken half a second together."""
    measured, spent = [], 0.0
    while not measured or (len(measured) < most and spent < 0.5):
        watch = Stopwatch()
        with watch.phase("refactor"):
            peer.refactor(M)
        with watch.phase("solve"):
            peer.solve(B)
        measured.append(watch.as_dict())
        spent += sum(watch.wall.values())
    return measured


def warm_up(make):
    """Load the library and start its threads on a chain of 400 unknowns."""
    n = 400
    A = sp.csr_array(sp.diags_array([-np.ones(n - 1), np.full(n, 2.5), -np.ones(n - 1)], offsets=[-1, 0, 1]))
    peer = make(np.arange(n))
    M, B = peer.matrix(A), peer.rhs(np.ones((n, 3)))
    peer.first(M, Stopwatch())
    peer.refactor(M)
    peer.solve(B)
    peer.close()


def trim():
    """Return freed memory to the system, so that it does not count for the solver (glibc only)."""
    gc.collect()
    if hasattr(ctypes.CDLL(None), "malloc_trim"):
        ctypes.CDLL(None).malloc_trim(0)


def backward_error(A, X, B):
    """Normwise backward error |B - A X| / (|A| |X| + |B|) in the maximum norm, of the worst column."""
    X, B = X.reshape(len(X), -1), B.reshape(len(B), -1)
    residual, norm = np.abs(B - A @ X).max(0), abs(A).sum(1).max()
    return float((residual / (norm * np.abs(X).max(0) + np.abs(B).max(0))).max())


if __name__ == "__main__":
    print(json.dumps(run(**json.load(sys.stdin))))
