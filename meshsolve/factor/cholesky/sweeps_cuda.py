"""Solves with the factor on the GPU: launches of sweeps.cu and invert.cu, their tasks by tasks.cu, and the memory of a solve.

Source: Yamazaki, Rajamanickam, Ellingwood 2020, "Performance portable supernode-based sparse triangular solver for manycore
architectures". Each direction is one launch. Tasks are listed in topological order: forward the deepest level first, backward the roots
first. The list depends on the analysis alone, so all factors of an analysis share it.
"""

from __future__ import annotations

import weakref
from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.factor.fronts.cuda import from_columns, to_columns
from meshsolve.sparse.lists_cuda import exclusive_scan

K, T, INVERT = (device.kernels(f"factor/cholesky/{name}.cu") for name in ("sweeps", "tasks", "invert"))
WIDTHS = (1, 4, 8)                      # right-hand sides of one pass: compiled widths of sweeps.cu
MOST_PASSES = 4                         # passes of one launch: its workspace has 32 right-hand sides
BLOCK, BLOCKS_EACH = 256, 4             # threads of a block, and most blocks of a multiprocessor
BLOCK_COLUMNS, TASK = 64, 6             # block_columns, and integers of struct Task, in tasks.cuh
HEADER, STALLED = 4, 2                  # counters of all passes in sweeps.cuh; the flag of a wait in vain among them
DIRECTIONS = {"A": ("forward", "backward"), "L": ("forward",), "Lt": ("backward",)}
INVERT_BLOCK = 128                      # threads of a block of k_invert


class Sizes(NamedTuple):
    """Sizes that decide how fronts are cut into tasks."""

    few: int = 512              # scalars of a panel that one warp solves with
    whole: int = 8192           # ... that one thread block solves with: 64 kB
    rows: int = 512             # rows below the pivots of a task of partial sums


SIZES = Sizes()


class Tasks(NamedTuple):
    """The tasks of one direction."""

    tasks: object               # (TASK count,) int32: struct Task
    count: int                  # type: ignore[assignment]      # hides tuple.count
    fronts: object              # (fronts,) int32: the fronts in the order of the tasks


class Plan(NamedTuple):
    """The tasks of all launches of an analysis."""

    forward: Tasks
    backward: Tasks
    blocks: object              # (2 inverses,) int32: front and number of each diagonal block that is inverted
    inverses: int
    partial_slots: int          # partial sums of a pass, each of BLOCK_COLUMNS rows


def plan_of(tree):
    """Return the plan of an assembly tree on the GPU, made once and shared by its factors."""
    plan = _plans.get(tree)
    if plan is None:
        plan = _plans[tree] = _plan(tree)
    return plan


class Workspace:
    """Arrays of a solve.

    Parameters
    ----------
    tree : DeviceTree
    plan : Plan
    width, passes : int
        Right-hand sides of a pass, and passes.
    dtype : {float64, float32}
    stalled : (1,) int32 on the GPU, optional
        Is set after a wait in vain, and not cleared by a solve; by default one of the counters.

    Notes
    -----
    ``width * passes`` times n plus the rows of all fronts below their pivots, and 64 for each partial sum.
    """

    def __init__(self, tree, plan, width, passes, dtype, stalled=None):
        xp, columns = device.xp(), width * passes
        self.Y = xp.empty(tree.n * columns, dtype)
        self.vectors = xp.empty(len(tree.rows) * columns, dtype)
        self.partial = xp.empty(plan.partial_slots * BLOCK_COLUMNS * columns, dtype)
        self.counters = xp.empty(HEADER + passes * (3 * tree.count + plan.partial_slots), np.int32)
        self.stalled = self.counters[STALLED:STALLED + 1] if stalled is None else stalled

    @property
    def nbytes(self):
        return sum(array.nbytes for array in (self.Y, self.vectors, self.partial, self.counters))


class Sweeps:
    """Solves with the panels of a factor.

    Each number of right-hand sides has a workspace for each stream, which is kept: later solves allocate nothing but the result.

    Parameters
    ----------
    tree : DeviceTree
    panels : (tree.panel_scalars,) float64 or float32 on the GPU
    """

    def __init__(self, tree, panels):
        self._tree, self._plan, self._panels, self._kept = tree, plan_of(tree), panels, {}
        self._rows = np.int64(len(tree.rows))

    @property
    def nbytes(self):
        """Bytes of the workspaces."""
        return sum(workspace.nbytes for workspace, _ in self._kept.values())

    def invert(self, changed=None):
        """Queue the inversion of the diagonal blocks after a numeric phase, or of those of fronts f with ``changed[f]``, int32, 1."""
        device.launch(INVERT.of(self._panels.dtype).k_invert, self._plan.inverses, INVERT_BLOCK, 0,
                      (self._plan.blocks, self._tree.table, device.null(np.int32) if changed is None else changed, self._panels))

    def allocate(self, k, stalled):
        """Return the memory of :meth:`solve` for k right-hand sides, separate from that of other solves. ``stalled``: see Workspace."""
        return {(width, passes): self._made(width, passes, stalled) for _, _, width, passes in passes_of(k)}

    def solve(self, system, B, X, memory=None):
        """X := A^-1 B, L^-1 B or L^-T B for (n, k) float64 arrays on the GPU. Reads nothing: a graph can record it.

        ``memory`` is from :meth:`allocate`; by default it is that of the current stream. A wait between thread blocks that takes seconds
        ends the solve, and X is NaN.
        """
        perm = self._tree.perm if system == "A" else None
        for begin, count, width, passes in passes_of(B.shape[1]):
            workspace, sweeps = self._of_stream(width, passes) if memory is None else memory[width, passes]
            workspace.counters.fill(0)
            to_columns(B, begin, count, width * passes, workspace.Y, perm)
            for name in DIRECTIONS[system]:
                sweeps[name]()
            from_columns(workspace.Y, X, begin, count, perm, failed=workspace.stalled)

    def _of_stream(self, width, passes):
        """Return the workspace and the launches for so many right-hand sides on the current stream."""
        key = width, passes, device.stream()
        if key not in self._kept:
            self._kept[key] = self._made(width, passes)
        return self._kept[key]

    def _made(self, width, passes, stalled=None):
        workspace = Workspace(self._tree, self._plan, width, passes, self._panels.dtype, stalled)
        return workspace, {name: self._launch(name, width, passes, workspace) for name in DIRECTIONS["A"]}

    def _launch(self, name, width, passes, workspace):
        tree, plan = self._tree, self._plan
        tasks, count, fronts = getattr(plan, name)
        args = (tasks, np.int32(count), fronts, np.int32(width), np.int32(passes), tree.table, tree.parent, tree.child, tree.relative,
                tree.rows, self._panels, np.int32(tree.n), self._rows, np.int32(tree.count), np.int32(plan.partial_slots),
                workspace.Y, workspace.vectors, workspace.partial, workspace.counters, workspace.stalled)
        grid = min(count * passes, BLOCKS_EACH * device.multiprocessors())
        return device.prepared(getattr(K.of(self._panels.dtype), f"k_{name}"), grid, BLOCK, 0, args)


def passes_of(k):
    """Yield (first right-hand side, number of them, those of a pass, passes) for each launch of a direction."""
    most = WIDTHS[-1] * MOST_PASSES
    for begin in range(0, k, most):
        count = min(k - begin, most)
        yield begin, count, next((width for width in WIDTHS if width >= count), WIDTHS[-1]), -(-count // WIDTHS[-1])


_plans: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _plan(tree):
    """Cut the fronts into tasks. O(tasks) memory; four numbers are read."""
    xp, count = device.xp(), tree.count
    sizes = np.int64(SIZES.few), np.int64(SIZES.whole), np.int32(SIZES.rows)
    keys, (slots, inverses) = [xp.empty(count, np.int64) for _ in range(2)], [xp.empty(count, np.int32) for _ in range(2)]
    launch_1d(T.k_cut, count, np.int32(count), tree.table, tree.depth, *sizes, *keys, slots, inverses)
    slot_ptr, inverse_ptr = exclusive_scan(slots), exclusive_scan(inverses)
    directions = [_ordered(tree, key, is_forward, sizes) for is_forward, key in zip((1, 0), keys)]
    ptrs = [ptr for _, ptr in directions]
    totals = device.to_host(xp.concatenate([ptr[-1:] for ptr in (*ptrs, slot_ptr, inverse_ptr)])).tolist()
    blocks = xp.empty(2 * totals[3], np.int32)
    launch_1d(T.k_list_blocks, count, np.int32(count), inverse_ptr, blocks)
    forward, backward = (_listed(tree, *direction, number, slot_ptr) for direction, number in zip(directions, totals))
    return Plan(forward, backward, blocks, totals[3], totals[2])


def _ordered(tree, keys, is_forward, sizes):
    """Return the first arguments of k_list_tasks for one direction, and the exclusive scan of the tasks by position in the order."""
    xp, count = device.xp(), tree.count
    order = xp.argsort(keys, kind="stable").astype(np.int32)
    args = (np.int32(is_forward), np.int32(count), order, keys[order], tree.table, *sizes)
    tasks = xp.empty(count, np.int32)
    launch_1d(T.k_count_tasks, count, *args, tasks)
    return args, exclusive_scan(tasks)


def _listed(tree, args, ptr, count, slot_ptr):
    tasks = device.xp().empty(TASK * count, np.int32)
    launch_1d(T.k_list_tasks, tree.count, *args, ptr, slot_ptr, tasks)
    return Tasks(tasks, count, args[2])
