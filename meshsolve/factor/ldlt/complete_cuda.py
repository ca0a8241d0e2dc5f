"""The complete factor that is made and stays on the GPU: twin of :class:`~meshsolve.factor.ldlt.complete.CompleteCore`."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.factor.base import solve_near_one
from meshsolve.factor.ldlt.complete import RULE, STRICT_THRESHOLD, block_diagonal, inertia_of, overflow
from meshsolve.factor.ldlt.fronts_cuda import DeviceComplete, Tree


class DeviceCompleteCore:
    """The complete factor behind an :class:`~meshsolve.factor.ildl.IldlFactor` on the GPU.

    Parameters
    ----------
    plan : CompletePlan
        Matching, order and analysis are those of the CPU.
    dtype : {float64, float32}
        What the factor is stored in.
    """

    kind, on_device = "complete", True

    def __init__(self, plan, dtype):
        self.plan, self.dtype = plan, np.dtype(dtype)
        self._prepare(plan.is_strict)

    def _prepare(self, is_strict):
        rule = RULE[self.dtype.char]
        with device.errors("the complete factor"):
            self.native = DeviceComplete(Tree(self.plan.symbolic, self.plan.matrix), self.dtype, rule, STRICT_THRESHOLD, is_strict)

    def __getstate__(self):
        return {"plan": self.plan, "dtype": self.dtype, "is_strict": self.native.is_strict}

    def __setstate__(self, state):
        self.plan, self.dtype = state["plan"], state["dtype"]
        self._prepare(state["is_strict"])

    @property
    def changes(self):
        """Another one after each matrix that this has become the factor of."""
        return self.native.changes

    def factor(self, scaled, scale):
        """Factor the matrix with these values, which have been scaled; both lie on the host."""
        with device.errors("the complete factor"):
            scales, before = (device.to_device(scale[self.plan.symbolic.perm]), device.to_device(scale[:, None])), self.changes
            try:
                failed = self.native.factor(device.to_device(scaled))
            finally:
                if self.changes != before:
                    self._scale, self._own = scales
                    for found in ("_diagonal", "inertia", "nnz"):
                        self.__dict__.pop(found, None)
        if failed >= 0:
            raise overflow(int(self.plan.symbolic.perm[failed]))

    def apply_device(self, block):
        """S (L D L^T)^-1 S block for a C contiguous (n, k) float64 block on the device; a new one."""
        solve = lambda near: self.native.solve(self._scale, near)
        return solve(block) if self.dtype == np.float64 else solve_near_one(solve, block, self._own)

    def check(self):
        """Wait for the device, so that what has failed there is raised here."""
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

    @functools.cached_property
    def _diagonal(self):
        """(d, e) in the order of elimination."""
        return self.native.diagonal()[2:]

    @functools.cached_property
    def inertia(self):
        return inertia_of(*self._diagonal)

    @functools.cached_property
    def nnz(self):
        return self.native.nonzeros()

    def facts(self):
        """What the numeric phase has found, for the report; bytes are the device's."""
        return {"nnz_L": self.plan.nnz, "flops": self.plan.flops, "delayed": self.native.delayed,
                "zero_pivots": self.inertia[2], "undecided_pivots": self.native.undecided,
                "pairs": int((self._diagonal[1] != 0).sum()), "levels": len(self.native.plans), "bytes": self.native.nbytes,
                "device": "cuda"}
