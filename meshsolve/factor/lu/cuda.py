"""What both LU engines share on the GPU: permuted and scaled vectors, entries above the diagonal blocks, counts of the kernels."""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device

K = device.kernels("factor/lu/scatter.cu")


class EngineCuda:
    """The base of both engines: dtype, plan, and what depends on the permutation and the scaling alone.

    Parameters
    ----------
    plan : FrontPlanCuda or _core.ColumnPlan
    analysis : Analysis
    dtype : {float64, float32}
        Storage type of the factor.
    permutation : dict, optional
        Result of :func:`permutation_of`.
    outside : tuple, optional
        Result of :func:`outside_of`.
    """

    host_name: str                  # host counterpart in the core, without its scalar type

    def __init__(self, plan, analysis, dtype, permutation=None, outside=None):
        self.dtype, self._plan = np.dtype(dtype), plan
        self._permutation = permutation_of(analysis) if permutation is None else permutation
        self._above, self._scatter_outside = outside_of(plan, analysis) if outside is None else outside
        self._outside = device.xp().empty(len(self._above[1]), self.dtype)
        self._counts, self._solves = Counts(), {}

    @property
    def nbytes(self):
        """Bytes on the GPU."""
        arrays, owners = self._held()
        return sum(array.nbytes for array in (self._outside, *arrays, *self._permutation.values())) + sum(
            owner.nbytes for owner in (self._scatter_outside, *owners))

    def _host(self, plan):
        """An empty factor of the core with this plan of the core, for what this one holds."""
        return getattr(_core, self.host_name + ("Double" if self.dtype == np.float64 else "Single"))(plan)

    def _launch(self, kernels, name, grid, block, shared, args):
        device.launch(getattr(kernels.of(self.dtype), name), grid, block, shared, args)


class PivotRule:
    """Thresholds of the pivots as kernel arguments."""

    def __init__(self, threshold, tiny, perturbed_size):
        self.threshold = (np.float64(threshold),)
        self.smallest = (np.float64(tiny), np.float64(perturbed_size))
        self.all = self.threshold + self.smallest


class Counts:
    """What the kernels count: perturbed pivots, max |B|, max |U|."""

    def __init__(self):
        self.array = device.xp().zeros(3, np.uint64)

    def clear(self):
        self.array.fill(0)

    def read(self):
        """(perturbed pivots, max |B|, max |U|). Waits for the GPU."""
        counts = device.to_host(self.array)
        return int(counts[0]), *counts[1:].view(np.float64).tolist()


class Scatter:
    """Write scaled values of A to their positions in the factor.

    Parameters
    ----------
    source : (m,) uint32
        Positions in the values of A; all arrays on the host or on the GPU.
    scale : (m,) float64
    target : (m,) int64, optional
        Positions in the output; ascending from 0 by default.
    """

    def __init__(self, source, scale, target=None):
        target = device.null(np.int64) if target is None else target
        self._arrays = tuple(a if device.holds(a) else device.to_device(np.ascontiguousarray(a)) for a in (source, target, scale))
        self._uncounted = device.xp().empty(0, np.uint64)
        self.nbytes = sum(a.nbytes for a in self._arrays)

    def __call__(self, data, out, counts=None):
        count = len(self._arrays[0])
        device.launch(K.of(out.dtype).k_scatter, device.grid_for(count, 256), 256, 0,
                      (np.int64(count), *self._arrays, data, out, self._uncounted if counts is None else counts.array))


def outside_of(plan, analysis):
    """Entries above the diagonal blocks: ((ptr, row, column) by columns on the host, the Scatter of their values)."""
    ptr, row, source = plan.off_diagonal()
    column = np.repeat(np.arange(len(ptr) - 1, dtype=np.int32), np.diff(ptr))
    scale = analysis.row_scale[analysis.rows[row]] * analysis.col_scale[analysis.columns[column]]
    return (ptr, row, column), Scatter(source, scale)


def permutation_of(analysis):
    """Permutations of A on the GPU, and the scalings by position."""
    arrays = {"rows": analysis.rows, "columns": analysis.columns, "rows_scale": analysis.row_scale[analysis.rows],
              "columns_scale": analysis.col_scale[analysis.columns]}
    return {name: device.to_device(np.ascontiguousarray(a)) for name, a in arrays.items()}


def sides(transposed):
    """The names of the permutations through which right-hand sides enter a solve and solutions leave it."""
    return ("columns", "rows") if transposed else ("rows", "columns")
