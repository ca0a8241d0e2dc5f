"""An analysis on the host. Its counterpart on the GPU is `CudaAnalysis` in cuda.py."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from meshsolve import _core, device
from meshsolve.factor.symbolic import cuda
from meshsolve.factor.symbolic.tours import Forest
from meshsolve.sparse.columns import as_perm
from meshsolve.sparse.matrix import Csr

ARRAYS = ("perm", "iperm", "parent", "colcount", "first", "snode_parent", "row_ptr", "rows")    # arguments of _core.restore_analysis


class HostAnalysis:
    """Elimination tree, column counts and supernodes in the C++ core.

    Attributes
    ----------
    matrix_pattern : Csr or TreePattern
        The analyzed pattern with both triangles.
    native : _core.Analysis
    """

    def __init__(self, pattern, native):
        self.matrix_pattern, self.native, self.n = pattern, native, pattern.n
        self.nnz, self.flops, self.nbytes, self.boundary = native.nnz, native.flops, native.nbytes, native.boundary

    @classmethod
    def of(cls, pattern, perm, threads, known, boundary, relax):
        """Return the analysis of a checked symmetric pattern in this ordering; see ``Symbolic.build``."""
        perm = as_perm(perm, pattern.n, "ordering", threads)
        native = _core.analyze(pattern.indptr, pattern.indices, perm, threads, known, boundary, relax)
        return cls(Csr(pattern.n, pattern.indptr, pattern.indices), native)

    @property
    def perm(self):
        return self.native.perm

    @cached_property
    def pattern_on_device(self):
        """The pattern as a Csr on the GPU, uploaded once."""
        return Csr(self.n, *map(device.to_device, (self.matrix_pattern.indptr, self.matrix_pattern.indices)))

    def keep_on_device(self, pattern):
        """Use this pattern, which lies on the GPU, in place of an upload."""
        self.pattern_on_device = pattern

    @cached_property
    def analysis_on_device(self):
        """The :class:`~meshsolve.factor.symbolic.cuda.DeviceAnalysis`, uploaded once."""
        return cuda.DeviceAnalysis(*(device.to_device(np.array(getattr(self.native, name))) for name in ARRAYS))

    @cached_property
    def forest_on_device(self):
        """The tree of the supernodes as a :class:`~meshsolve.factor.symbolic.tours.Forest`."""
        return Forest.of(self.analysis_on_device.snode_parent)
