"""Factors among threads, processes and thousands of steps: the same bits, no deadlock, flat memory."""

import gc
import os
import pickle
import select
import sys
import threading
import time

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

SIZE = 40
A = ms.datasets.grid2d(SIZE, SIZE, boundary="dirichlet")
L = ms.datasets.grid2d(SIZE, SIZE)
U = sp.csr_array(A + sp.diags_array([np.full(SIZE**2 - 1, 0.3)], offsets=[1]))
K = sp.csr_array(A - 2.5 * sp.eye_array(SIZE**2))
FACTORS = {
    "cholesky": lambda: ms.cholesky(A, "nd", threads=2), "mixed": lambda: ms.cholesky(A, precision="mixed", threads=2),
    "pinned": lambda: ms.cholesky(L, pin=True, threads=2), "lu fronts": lambda: ms.lu(U, engine="fronts", threads=2),
    "lu columns": lambda: ms.lu(U, engine="columns", threads=2), "ldl": lambda: ms.ildl(K, fill_level=None, threads=2),
    "incomplete": lambda: ms.ildl(K, fill_level=1, threads=2), "parac": lambda: ms.parac(L, threads=2),
}
MATRICES = {"cholesky": A, "mixed": A, "pinned": L, "lu fronts": U, "lu columns": U, "ldl": K, "incomplete": K}
B = np.random.default_rng(0).standard_normal((SIZE**2, 9))
B -= B.mean(axis=0)


@pytest.mark.native
@pytest.mark.parametrize("name", FACTORS)
def test_two_threads_solve_with_one_factor(name):
    F = FACTORS[name]()
    alone = F.solve(B), F.solve(B[:, 0])
    start, faults = threading.Barrier(2), []

    def work():
        start.wait()
        for _ in range(10):
            if not (np.array_equal(F.solve(B), alone[0]) and np.array_equal(F.solve(B[:, 0]), alone[1])):
                faults.append(name)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not faults


@pytest.mark.native
@pytest.mark.parametrize("name", MATRICES)
def test_two_threads_refactor_factors_of_their_own(name):
    factors = [FACTORS[name](), FACTORS[name]()]
    M = MATRICES[name]
    alone = [FACTORS[name]().refactor(scale * M).solve(B) for scale in (1, 2)]
    start, faults = threading.Barrier(2), []

    def work(k):
        start.wait()
        for _ in range(4):
            if not np.array_equal(factors[k].refactor((k + 1) * M).solve(B), alone[k]):
                faults.append(k)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not faults


def answer_of_child(call, seconds=60):
    """The result of ``call`` in a forked child, or None after a timeout."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:                                  # without pytest: answer and exit
        try:
            with os.fdopen(write, "wb") as f:
                pickle.dump(call(), f)
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as f:
        answered = select.select([f], [], [], seconds)[0]
        if not answered:
            os.kill(child, 9)
        answer = f.read() if answered else b""
    os.waitpid(child, 0)
    return pickle.loads(answer) if answer else None


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning", "ignore:.*fork.*:RuntimeWarning")
@pytest.mark.parametrize("name", FACTORS)
def test_a_forked_child_solves_and_refactors(name):
    F = FACTORS[name]()
    x = F.solve(B)                                  # start the thread pool of this process
    of_child = answer_of_child(lambda: (F.solve(B), F.refactor(2 * MATRICES[name]).solve(B) if name in MATRICES else None))
    assert of_child is not None, "the child hangs or died"
    assert np.array_equal(of_child[0], x) and np.array_equal(F.solve(B), x)
    if name in MATRICES:
        assert np.array_equal(of_child[1], F.refactor(2 * MATRICES[name]).solve(B))


# ---- flat memory --------------------------------------------------------------------------------------------------------

STEPS = int(os.environ.get("MESHSOLVE_ENDURANCE_STEPS", 100))


def resident():
    """Resident set of this process, MiB."""
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("name", MATRICES)
def test_thousands_of_steps_leave_memory_flat(name):
    F, M, b = FACTORS[name](), MATRICES[name], B[:, 0]
    rng = np.random.default_rng(0)

    def steps(count):
        for _ in range(count):
            F.refactor(M * rng.uniform(1, 2)).solve(b)
            try:
                F.refactor(sp.csr_array(-M if name in ("cholesky", "mixed", "pinned") else 0 * M))
                raise AssertionError("it should have failed")
            except ms.MeshsolveError:
                pass
        gc.collect()

    steps(STEPS // 5)
    start, rounds = time.perf_counter(), []
    while len(rounds) < 3 and (not rounds or rounds[-1] >= 3):         # a leak repeats; one huge page of the heap does not
        before = resident()
        steps(STEPS)
        rounds.append(resident() - before)
    assert rounds[-1] < 3, f"{rounds} MiB in {STEPS} steps each, {time.perf_counter() - start:.0f} s"
    assert len(F.report.seconds) <= 6


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("make", [lambda: ms.parac(L).solve(B), lambda: ms.cholesky(A).solve(B), lambda: ms.lu(U).solve(B), lambda: ms.ildl(K).solve(B),
                                  lambda: pickle.loads(pickle.dumps(ms.cholesky(A)))], ids=["parac", "cholesky", "lu", "ildl", "pickle"])
def test_deleted_factors_free_their_memory(make):
    def steps(count):
        for _ in range(count):
            make()
        gc.collect()

    steps(STEPS // 10)
    before = resident()
    steps(STEPS // 4)
    assert resident() - before < 6
