"""Traces of parallel loops: the same results, all tasks with what they wait for, and the schedules that benchmarks/schedule.py makes of them."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from benchmarks import schedule
from benchmarks.schedule import Loop, makespan
from meshsolve import _core

A = ms.datasets.grid2d(220, 220, boundary="dirichlet")             # large enough for tasks in the order of one node
b = np.ones((A.shape[0], 3))


@pytest.mark.parametrize("call", [
    lambda threads: ms.order.nested_dissection(A, threads=threads).perm,
    lambda threads: ms.analyze(A, threads=threads).perm,
    lambda threads: ms.cholesky(A, threads=threads).solve(b),
    lambda threads: ms.parac(A, threads=threads) @ b,
    lambda threads: ms.lu(sp.csr_array(A + 0.1 * sp.triu(A, 1)), threads=threads).solve(b)], ids=["order", "symbolic", "cholesky", "parac", "lu"])
def test_a_trace_changes_no_result(call):
    result, loops = schedule.trace(lambda: call(8))
    assert np.array_equal(result, call(1))
    assert sum(len(loop.cost) for loop in loops) > 8 and loops[-1].cost == []
    for loop in loops:
        assert min([loop.before, *loop.cost]) >= 0 and all(0 <= needed < task < len(loop.cost) for task, needed in loop.after)
    seconds = [schedule.simulate(loops, threads) for threads in (1, 2, 8)]
    assert seconds == sorted(seconds, reverse=True) and seconds[2] >= schedule.alone(loops)


def test_a_tree_waits_for_its_children():
    F = ms.cholesky(A, threads=4)
    _, loops = schedule.trace(lambda: F.refactor(A))
    assert any(loop.after for loop in loops)


def test_no_trace_is_left_after_an_error():
    def fails():
        raise KeyError

    with pytest.raises(KeyError):
        schedule.trace(fails)
    assert _core.end_trace() == []


@pytest.mark.parametrize("loop, threads, seconds", [
    (Loop(5.0, [1.0] * 6, []), 1, 6), (Loop(5.0, [1.0] * 6, []), 2, 3), (Loop(5.0, [1.0] * 6, []), 4, 2), (Loop(5.0, [1.0] * 6, []), 16, 1),
    (Loop(0.0, [1.0, 2.0, 3.0], [(1, 0), (2, 1)]), 8, 6),                               # a chain
    (Loop(0.0, [1.0, 4.0, 2.0, 2.0], [(3, 0), (3, 2)]), 2, 5),                          # the last one waits for two
    (Loop(0.0, [1.0, 1.0, 5.0, 1.0], [(2, 0)]), 1, 8), (Loop(0.0, [1.0, 1.0, 5.0, 1.0], [(2, 0)]), 2, 6), (Loop(1.0, [], []), 4, 0)])
def test_schedules(loop, threads, seconds):
    assert makespan(loop, threads, wake=0, claim=0) == seconds


def test_threads_wake_up_late():
    assert makespan(Loop(0.0, [1.0, 1.0, 1.0, 1.0], []), 2, wake=0.5, claim=0) == 2.5
    assert makespan(Loop(0.0, [1.0], []), 2, wake=0.5, claim=0) == 1
