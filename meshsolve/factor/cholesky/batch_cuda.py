"""Cholesky factors of many matrices of one pattern on the GPU: launches of batch.cu.

:class:`DeviceBatch` is the counterpart of ``_core.CholeskyBatchDouble``. All systems go through each launch together. If they fill the
GPU, each has one thread block, and a phase is one launch. Otherwise several thread blocks share the fronts of a level, and each level is a
launch. The number of launches does not depend on the number of systems.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import device
from meshsolve.device import MOST_ACROSS
from meshsolve.errors import InvalidInputError, NotSymmetricError
from meshsolve.factor.base import as_narrow, deliver
from meshsolve.factor.cholesky.batch import CholeskyBatch
from meshsolve.factor.cholesky.cuda import BIAS
from meshsolve.factor.cholesky.singular import LEAST_EXPONENT, constant_component
from meshsolve.factor.fronts.cuda import LIMITS, device_tree
from meshsolve.factor.fronts.plan import NONE
from meshsolve.factor.fronts.tree_cuda import COLUMNS, table_of
from meshsolve.factor.many import FACTORED, NOT_FINITE, UNKNOWN
from meshsolve.factor.sharing import reads_in_turn
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.lists_cuda import find, keys_of, transposed
from meshsolve.sparse.places import CUDA, HOST
from meshsolve.types import Array

K = device.kernels("factor/cholesky/batch.cu")
THREADS = 128               # of a thread block
WARPS = THREADS // 32
IN_FLIGHT = 8               # thread blocks of a multiprocessor: more systems wait for these
FILLED = 2                  # systems per multiprocessor from which each has one thread block
WIDTHS = (1, 4, 8)          # right-hand sides of one pass: compiled widths
FAULT_NOT_FINITE, FAULT_ASYMMETRIC = 1, 2                   # bits of Fault in batch.cu


class BatchPlan(NamedTuple):
    """The fronts of an analysis by level, the deepest first, and the use of shared memory."""

    table: object               # as in fronts.cuh; all update matrices are in memory
    child: object
    sizes: tuple                # scalars of panels and of update matrices, rows of vectors: of one system
    order: object               # (fronts,) int32 on the GPU, as struct Levels in batch.cu
    begin: object               # (levels + 1,)
    split: object               # (levels,)
    widest: tuple               # fronts of each level
    tiny: int                   # scalars of shared memory of a warp
    capacity: int               # scalars of shared memory of a thread block, for a panel
    updates: int                # scalars of all update matrices if they fit into shared memory too, else 0

    @classmethod
    def of(cls, symbolic, dtype):
        """Make the plan of an analysis on the GPU. O(fronts log(fronts)) time on the host."""
        forest = symbolic.forest_on_device
        on_gpu, sizes = table_of(symbolic.analysis_on_device, forest)
        table, depth = device.to_host(on_gpu), device.to_host(forest.depth)
        panel = (table[:, COLUMNS.index("pivots")] * table[:, COLUMNS.index("height")]).astype(np.int64)
        level, is_wide = depth.max() - depth, panel > LIMITS.tiny
        order = np.lexsort((is_wide, level))
        begin = np.searchsorted(level[order], np.arange(depth.max() + 2))
        split = begin[:-1] + np.bincount(level[~is_wide], minlength=len(begin) - 1)
        most = most_shared(dtype)
        tiny = int(panel[~is_wide].max(initial=0))
        capacity = max(int(panel[panel <= most].max()) if (panel <= most).any() else 0, WARPS * tiny)
        updates = sizes[1] if capacity + sizes[1] <= most else 0
        arrays = (device.to_device(a.astype(np.int32)) for a in (order, begin, split))
        return cls(on_gpu, forest.child, sizes, *arrays, tuple(np.diff(begin).tolist()), tiny, capacity, updates)

    @property
    def levels(self):
        return len(self.widest)


class Status(NamedTuple):
    """What the kernels report of all systems: one array, so that one read returns it."""

    all: object                 # int32 on the GPU
    any: object                 # (1,) faults of all systems together, bits of Fault in batch.cu
    faults: object              # (count,)
    pivots: object              # (count, 2) first column without a pivot, or NONE; exponent of the smallest pivot relative to its entry

    @classmethod
    def of(cls, count):
        """Make the status of ``count`` systems."""
        whole = device.xp().zeros(1 + 3 * count, np.int32)
        return cls(whole, whole[:1], whole[1:1 + count], whole[1 + count:].reshape(count, 2))


class DeviceBatch:
    """Panels of all systems on the GPU.

    Parameters
    ----------
    symbolic : Symbolic
    count : int
        Number of systems.
    precision : {"double", "single"}
    check_symmetry : function(system, values)
        Raises NotSymmetricError if a system, whose (nnz,) values lie on the host, is not symmetric.
    """

    def __init__(self, symbolic, count, precision, check_symmetry):
        xp = device.xp()
        self._pattern, self._iperm, self._check_symmetry = symbolic.pattern_on_device, symbolic.analysis_on_device.iperm, check_symmetry
        self.dtype = np.dtype(np.float64 if precision == "double" else np.float32)
        self.tree = device_tree(symbolic)
        self.plan, self.count = BatchPlan.of(symbolic, self.dtype), count
        blocks = device.multiprocessors()
        self.is_whole = count >= FILLED * blocks            # each system has one thread block
        self.slots = min(IN_FLIGHT * blocks, count, MOST_ACROSS) if self.is_whole else count
        self._parts = 1 if self.is_whole else -(-FILLED * blocks // count)
        self._panels = xp.empty(count * self.plan.sizes[0], self.dtype)
        self._shared_updates = self.plan.updates if self.is_whole else 0        # the next launch reads those of a level
        self._updates = xp.empty(0 if self._shared_updates else self.slots * self.plan.sizes[1], self.dtype)
        keys = keys_of(self._pattern.indptr, self._pattern.indices)
        self._mirror = device.null(np.int64) if symbolic.lower else find(keys, transposed(keys))
        self._status, self._next = Status.of(count), Status.of(count)
        self._state, self._may_be_singular = np.full(count, UNKNOWN, np.int32), np.zeros(count, bool)

    @property
    def nbytes(self):
        return sum(array.nbytes for array in (self._panels, self._updates, self._mirror, self._status.all, self._next.all))

    def state(self):
        """Return (count,) int32 on the host: FACTORED, NOT_FINITE, UNKNOWN, or the column that failed, in the new numbering."""
        return self._state

    def may_be_singular(self):
        """Return (count,) bool on the host: judged by the smallest pivot."""
        return self._may_be_singular

    def factor(self, data):
        """Factor the systems with these values, (count, nnz) float64 on the GPU. Reads once if all systems are exactly symmetric.

        Raises
        ------
        NotSymmetricError
            Names the first system that is not symmetric. The earlier factors are unchanged.
        """
        before, self._state = self._state, np.full(self.count, UNKNOWN, np.int32)       # after Ctrl-C
        to, systems = self._next, (np.int32(self.count), np.int64(self._pattern.nnz), data)
        to.all.fill(0)
        device.launch(K.of(self.dtype).k_check_systems, (device.grid_for(self._pattern.nnz, 256, 64), min(self.count, MOST_ACROSS)), 256, 0,
                      (*systems, self._mirror, to.faults, to.any))
        self._eliminate(systems, to)
        status = device.to_host(to.all)
        if status[0] & FAULT_ASYMMETRIC:                    # perhaps by rounding only
            for i in map(int, np.flatnonzero(status[1:1 + self.count] & FAULT_ASYMMETRIC)):
                try:
                    self._check_symmetry(i, device.to_host(data[i]))
                except NotSymmetricError:
                    self._state = before
                    raise
            to.any.fill(0)
            self._eliminate(systems, to)
            status = device.to_host(to.all)
        self._status, self._next = to, self._status
        self._judge(status[1:1 + self.count], *status[1 + self.count:].reshape(self.count, 2).T, data)

    def solve(self, B, X):
        """Write A^-1 B to X, (count, n, k) float64 on the GPU, both C contiguous; NaN for systems without a factor.

        Returns False if a value of B is not finite. Reads once.
        """
        xp, tree, plan, k = device.xp(), self.tree, self.plan, B.shape[2]
        panels, _, below = plan.sizes
        widest = max((width for _, _, width in passes(k)), default=1)
        is_shared = self.is_whole and (tree.n + below) * widest <= most_shared(self.dtype)
        Y, vectors = (xp.empty(0 if is_shared else self.slots * rows * widest, self.dtype) for rows in (tree.n, below))
        found = xp.zeros(1, np.int32)
        for begin, count, width in passes(k):
            shared = (tree.n + below) * width if is_shared else 0
            args = (plan.order, plan.begin, plan.split, np.int32(shared), plan.table, plan.child, tree.relative, tree.rows, tree.perm,
                    np.int32(self.count), np.int32(tree.n), np.int64(panels), self._panels, np.int64(below), Y, vectors,
                    *map(np.int32, (width, k, begin, count)), B, X, self._status.faults, self._status.pivots, found)
            for first, last, forward, backward in self._sweeps():
                self._launch("k_solve_systems", first, last, shared, (np.int32(forward), np.int32(backward), *args))
        return not device.scalar(found)

    # ---- helpers --------------------------------------------------------------------------------------------------------

    def _eliminate(self, systems, to):
        """Queue the numeric phase. The kernels do nothing if ``to.any`` has the bit of an asymmetric system."""
        plan, (panels, updates, _) = self.plan, self.plan.sizes
        to.pivots.fill(NONE)
        sizes = map(np.int32, (plan.tiny, plan.capacity, self._shared_updates))
        args = (plan.order, plan.begin, plan.split, *sizes, plan.table, plan.child, *self.tree.entries[2:], *systems, np.int64(panels),
                self._panels, np.int64(updates), self._updates, to.faults, to.any, to.pivots)
        for first, last in self._ranges():
            self._launch("k_factor_systems", first, last, self._shared_updates + plan.capacity, args)

    def _ranges(self):
        """Return the levels of each launch."""
        return [(0, self.plan.levels)] if self.is_whole else [(k, k + 1) for k in range(self.plan.levels)]

    def _sweeps(self):
        """Return (first level, end, goes forward, goes backward) of each launch of a solve."""
        if self.is_whole:
            return [(0, self.plan.levels, 1, 1)]
        ranges = self._ranges()
        return [(*levels, 1, 0) for levels in ranges] + [(*levels, 0, 1) for levels in reversed(ranges)]

    def _launch(self, name, first, last, shared, args):
        parts = min(self._parts, self.plan.widest[first])
        device.launch(getattr(K.of(self.dtype), name), (parts, self.slots), THREADS, shared * self.dtype.itemsize,
                      (np.int32(first), np.int32(last), *args))

    def _judge(self, faults, failed, least, data):
        """Set the state of all systems from their status. Systems with tiny pivots are read: they may be singular."""
        self._state = np.where(faults & FAULT_NOT_FINITE, NOT_FINITE, np.where(failed == NONE, FACTORED, failed)).astype(np.int32)
        self._may_be_singular = (self._state == FACTORED) & (least - BIAS < LEAST_EXPONENT[self.dtype])
        for i in map(int, np.flatnonzero(self._may_be_singular)):
            column = constant_component(self._pattern, self._iperm, data[i], self._pattern.n)
            if column >= 0:
                self._state[i] = column
                self._status.pivots[i:i + 1, 0] = column


class CholeskyBatchCuda(CholeskyBatch):
    """Cholesky factors of N matrices with one analyzed pattern on the GPU, made by ``Symbolic.factor_batch`` from values on the GPU.

    Attributes and methods are those of :class:`CholeskyBatch`. Solutions lie where b lies, and agree with those of the CPU up to rounding.
    """

    _must_be_symmetric = False              # the first kernel of the factorization compares the triangles

    def refactor(self, values: Array) -> CholeskyBatchCuda:
        """Factor other matrices; see :meth:`CholeskyBatch.refactor`. Values may lie on the host or on the GPU."""
        with device.errors("the batch of factors"):
            return super().refactor(values)

    @reads_in_turn
    def solve(self, b: Array, out: Array | None = None) -> Array:
        """Solve all systems; see :meth:`CholeskyBatch.solve`. b may lie on the host or on the GPU, and so does the result."""
        home = CUDA if device.holds(b) else HOST
        with device.errors("solves with a batch of factors"):
            given = device.asarray(b) if home is CUDA else as_array(b, "b")
            self._check_rhs(given)
            if given.dtype.kind == "c":
                x = home.joined(*(self._solve_parts(part, home) for part in (given.real, given.imag)))
            else:
                x = self._solve_parts(given, home)
            return deliver(as_narrow(x, given.dtype, out, home), x.shape, out, home)

    def _solve_parts(self, given, home):
        """Solve for real right-hand sides in the place ``home``."""
        columns = device.to_device(home.xp.ascontiguousarray(given, np.float64))
        x = device.xp().empty(columns.shape, np.float64)
        with self.report.phase("solve"):
            shape = (*self.shape, -1 if columns.size else 0)
            if not self._core.solve(columns.reshape(shape), x.reshape(shape)):
                values = device.to_host(columns)
                where = tuple(map(int, np.argwhere(~np.isfinite(values))[0]))
                raise InvalidInputError(f"b: system {where[0]}, row {where[1]} holds {values[where]}")
        return home.bring(x)

    def _prepare(self, data):
        self.report.facts["device"] = "cuda"
        self._core = DeviceBatch(self.symbolic, len(data), self.precision, lambda i, values: self._require_symmetric(values[None], i))

    def _factor(self, data):
        with self.report.phase("numeric"):
            self._core.factor(data)
        self.report.facts["bytes"] = self.nbytes
        self._warn_of_doubtful()

    def _checked(self, values):
        """Return the values as a C contiguous (N, nnz) array on the GPU."""
        if not device.holds(values):
            return device.to_device(super()._checked(values))
        given = device.asarray(values)
        self._check_values(given)
        return device.xp().ascontiguousarray(given, np.float64)


def passes(k):
    """Return (first right-hand side, number of them, compiled width) of each pass over L."""
    counts = ((begin, min(k - begin, WIDTHS[-1])) for begin in range(0, k, WIDTHS[-1]))
    return [(begin, count, next(width for width in WIDTHS if width >= count)) for begin, count in counts]


def most_shared(dtype):
    """Scalars of shared memory that every GPU has for a thread block."""
    return LIMITS.small * 8 // np.dtype(dtype).itemsize
