"""Cholesky factors of many matrices of one pattern: no loop in Python, threads share the systems.

    F = meshsolve.analyze(A).factor_batch(values);  F.solve(b);  F.refactor(values)        # values (N, nnz), b (N, n)

On the host each system has the operations of a single factor in their order, so its solutions have the same bits. Values on the GPU are
factored on the GPU, see batch_cuda.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve import _core
from meshsolve.errors import MeshsolveWarning
from meshsolve.factor.fronts import assembly_tree
from meshsolve.factor.many import FACTORED, FactorBatch
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.report import warn, without_warnings

CORES: dict[str, Any] = {"double": _core.CholeskyBatchDouble, "single": _core.CholeskyBatchSingle}


class CholeskyBatch(FactorBatch):
    """Cholesky factors of N matrices with one analyzed pattern, made by ``Symbolic.factor_batch``.

    Attributes
    ----------
    failed : (f,) int64
        Systems without a factor, ascending: not positive definite, not finite, or not reached before Ctrl-C. Their solutions are
        NaN; :meth:`reason` says why.
    shape : tuple of int
        (N, n): number of systems, rows of each.
    precision : {"double", "single"}
    report : Report
        Seconds of ``numeric`` and ``solve`` for all systems together.
    """

    _source = "Symbolic"

    def __init__(self, symbolic, values, precision, threads, keep):
        """Factor ``values``, (N, nnz) in the pattern that ``symbolic`` has analyzed, on ``threads`` threads. ``keep``: the factors."""
        self.symbolic, self.precision = symbolic, precision
        super().__init__(symbolic.matrix_pattern, values, np.float64, threads, keep, nnz_L=symbolic.nnz, flops=symbolic.flops)

    @property
    def nbytes(self) -> int:
        """Bytes of all factors."""
        return self._core.nbytes

    def _prepare(self, data):
        tree = assembly_tree(self.symbolic, self.threads)
        self._core = CORES[self.precision](tree, len(data))
        itemsize, together = 8 if self.precision == "double" else 4, self.threads * self._core.systems_at_once
        kept = self._core.panel_scalars if self._keeps else self.threads * self._core.item_scalars
        ensure_memory(itemsize * (kept + together * tree.work_scalars(1)), f"the factors of {counted(len(data), 'system')} together")

    @property
    def _must_be_symmetric(self):
        return not getattr(self.symbolic, "lower", False)

    def _settle_doubt(self, A):
        with without_warnings(MeshsolveWarning):
            self.symbolic.factor(A, device="cpu")

    def _factor(self, data):
        with self.report.phase("numeric"):
            self._core.factor(data.reshape(-1), self.threads)
        self.report.facts["bytes"] = self.nbytes
        self._warn_of_doubtful()

    def _factor_and_solve(self, data, x, columns):
        self._core.factor_and_solve(data.reshape(-1), columns.reshape(-1), x.reshape(-1), columns.shape[2], self.threads)
        self._warn_of_doubtful()

    def _warn_of_doubtful(self):
        doubtful = np.flatnonzero(self._core.may_be_singular() & (self._core.state() == FACTORED))
        if len(doubtful):
            warn(f"{counted(len(doubtful), 'system')} may be singular to working precision, the first is {doubtful[0]}: a pivot is below "
                 "1e-9 of its diagonal entry. meshsolve.cholesky of that matrix estimates the error", MeshsolveWarning)

    def _reason_of(self, system, state):
        return f"the matrix is not positive definite: the pivot of column {self.symbolic.perm[state]} is not positive"

    def _solve_into(self, x, columns):
        self._core.solve(columns.reshape(-1), x.reshape(-1), columns.shape[2], self.threads)
