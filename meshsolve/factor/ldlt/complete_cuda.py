"""The complete L D L^T factor on the GPU. Host counterpart: :class:`~meshsolve.factor.ldlt.complete.CompleteCore`."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.factor.base import solve_near_one
from meshsolve.factor.ldlt.complete import RULE, STRICT_THRESHOLD, block_diagonal, overflow
from meshsolve.factor.ldlt.fronts_cuda import DeviceComplete
from meshsolve.factor.ldlt.tree_cuda import Tree


class Found:
    """The scaling of one matrix on the GPU, and what is computed on demand about its factor."""

    def __init__(self, native, scale, perm):
        self._native, self.scale, self.permuted = native, device.to_device(scale[:, None]), device.to_device(scale[perm])

    @functools.cached_property
    def nnz(self):
        return self._native.nonzeros()


class CompleteCoreCuda:
    """The complete factor of an :class:`~meshsolve.factor.ildl.IldlFactor` on the GPU.

    Parameters
    ----------
    plan : CompletePlan
        Matching, ordering and analysis.
    dtype : {float64, float32}
        Storage type of the factor.
    """

    kind, place = "complete", "cuda"

    def __init__(self, plan, dtype, threads=None):
        self.plan, self.dtype = plan, np.dtype(dtype)
        self._prepare(plan.is_strict)

    def __getstate__(self):
        return {"plan": self.plan, "dtype": self.dtype, "is_strict": self.native.is_strict}

    def __setstate__(self, state):
        self.plan, self.dtype = state["plan"], state["dtype"]
        self._prepare(state["is_strict"])

    @property
    def changes(self):
        """A number that differs after each change of the factor."""
        return self.native.changes

    def factor(self, scaled, scale):
        """Factor the matrix with these scaled values. Both arrays are on the host. After an error the earlier factor is restored."""
        with device.errors("the complete factor"):
            found, before = Found(self.native, scale, self.plan.symbolic.perm), self.changes
            try:
                failed = self.native.factor(device.to_device(scaled))
            finally:
                if self.changes != before:
                    self._found = found
        if failed >= 0:
            raise overflow(int(self.plan.symbolic.perm[failed]))

    def apply_device(self, block):
        """Return S (L D L^T)^-1 S B, a new block, for a C contiguous (n, k) float64 block B on the GPU."""
        found = self._found
        solve = lambda near: self.native.solve(found.permuted, near)
        return solve(block) if self.dtype == np.float64 else solve_near_one(solve, block, found.scale)

    def solved(self, scale, block):
        """As :meth:`apply_device`; waits for the GPU."""
        x = self.apply_device(block)
        self.check()
        return x

    def check(self):
        """Wait for the GPU, and raise if a kernel has failed."""
        self.native.wait()

    def solve(self, scale, columns, out):
        """out := S (L D L^T)^-1 S columns, on the host."""
        with device.errors("the solve"):
            out[...] = device.to_host(self.apply_device(device.to_device(np.ascontiguousarray(columns))))

    def extract(self):
        """(perm, L, D) in the order of elimination, on the host."""
        order, column, row, value, d, e = self.native.extract()
        n = len(order)
        L = sp.csc_array(sp.coo_array((value, (row, column)), shape=(n, n)))
        L.sort_indices()
        return self.plan.symbolic.perm[order], L, block_diagonal(d, e)

    @property
    def inertia(self):
        return self.native.inertia

    @property
    def nnz(self):
        return self._found.nnz

    def facts(self):
        """Facts of the numeric phase for the report; bytes are those on the GPU."""
        return {"nnz_L": self.plan.nnz, "flops": self.plan.flops, "delayed": self.native.delayed,
                "zero_pivots": self.inertia[2], "undecided_pivots": self.native.undecided,
                "pairs": self.native.pairs, "levels": len(self.native.plans), "bytes": self.native.nbytes,
                "device": "cuda"}

    def _prepare(self, is_strict):
        with device.errors("the complete factor"):
            tree = Tree(self.plan.symbolic, self.plan.pattern_on_device())
            self.native = DeviceComplete(tree, self.dtype, RULE[self.dtype.char], STRICT_THRESHOLD, is_strict)
