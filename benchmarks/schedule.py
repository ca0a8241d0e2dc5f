"""How the parallel loops of a call would run on more threads than this machine has.

A trace of the call (meshsolve/native/threads/trace.hpp) has the CPU time of every task of every loop, the tasks it waits for, and the
CPU time between the loops, which one thread spends alone. The simulation gives a ready task to each idle thread, as the loops do:
tasks whose predecessors have just finished come before tasks that wait for nothing, then those that have been ready for longest.
Threads wake up ``WAKE`` seconds after a loop has begun. Contention for memory and caches is not part of it, so the result is a bound
of the schedule, not a prediction of a machine. benchmarks/scaling.py checks it on the cores that are there.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from meshsolve import _core

WAKE, CLAIM = 10e-6, 0.2e-6             # seconds until a sleeping thread has begun; per task, to take it


class Loop(NamedTuple):
    """One parallel loop: seconds of the caller before it, seconds of each task, pairs (task, a task it waits for)."""

    before: float
    cost: list[float]
    after: list[tuple[int, int]]


def trace(call):
    """Run ``call()``; returns its result and the list of its loops, the last one without tasks."""
    _core.begin_trace()
    try:
        result = call()
    finally:
        loops = _core.end_trace()
    return result, [Loop(before * 1e-9, [ns * 1e-9 for ns in cost], after) for before, cost, after in loops]


def simulate(loops, threads):
    """Seconds of all loops and of what is between them, on so many threads."""
    return sum(loop.before + makespan(loop, threads) for loop in loops)


def makespan(loop, threads, wake=WAKE, claim=CLAIM):
    """Seconds of one loop. Only as many threads take part as it has tasks."""
    count = len(loop.cost)
    waiting, followers = [0] * count, [[] for _ in range(count)]
    for task, needed in loop.after:
        waiting[task] += 1
        followers[needed].append(task)
    ready = [(True, 0.0, t) for t in range(count) if waiting[t] == 0]       # (waited for nothing, since when, number)
    heapq.heapify(ready)
    idle = [0.0] + [wake] * (min(threads, count) - 1)                       # when each idle thread is free
    heapq.heapify(idle)
    running, now = [], 0.0
    while ready or running:
        if ready and idle and (not running or max(idle[0], now) <= running[0][0]):
            _, since, task = heapq.heappop(ready)
            begin = max(heapq.heappop(idle), since)
            heapq.heappush(running, (begin + claim + loop.cost[task], task))
            continue
        now, task = heapq.heappop(running)
        heapq.heappush(idle, now)
        for later in followers[task]:
            waiting[later] -= 1
            if waiting[later] == 0:
                heapq.heappush(ready, (False, now, later))
    return now


def alone(loops):
    """Seconds that one thread works alone however many there are: between the loops, and in loops of a single task."""
    return sum(loop.before + (loop.cost[0] if len(loop.cost) == 1 else 0.0) for loop in loops)
