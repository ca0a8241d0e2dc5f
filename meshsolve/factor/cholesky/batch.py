"""Cholesky factors of many matrices of one pattern, on the host: no loop in Python, threads share the systems.

    F = meshsolve.analyze(A).factor_batch(values);  F.solve(b);  F.refactor(values)        # values (N, nnz), b (N, n)

Each system is factored and solved by one thread with the code of a single factor, so its solutions have the same bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.factor.base import as_narrow
from meshsolve.factor.fronts import assembly_tree
from meshsolve.factor.sharing import Sharing, changes, reads
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.report import Report, warn
from meshsolve.sparse.columns import as_array
from meshsolve.sparse.matrix import SYMMETRY_TOLERANCE, not_symmetric
from meshsolve.sparse.places import on_device
from meshsolve.types import ArrayLike

CORES: dict[str, Any] = {"double": _core.CholeskyBatchDouble, "single": _core.CholeskyBatchSingle}
NOT_FINITE, UNKNOWN = -2, -3            # of the core's states; -1: factored; else the column that failed


class CholeskyBatch:
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

    def __init__(self, symbolic, values, precision, threads):
        """Factor ``values``, (N, nnz) in the pattern that ``symbolic`` has analyzed, on ``threads`` threads."""
        self.symbolic, self.precision, self.threads = symbolic, precision, threads
        self._pattern, self._sharing = symbolic.matrix_pattern, Sharing()
        data = self._checked(values)
        self.shape = len(data), symbolic.n
        tree = assembly_tree(symbolic, threads)
        self._core = CORES[precision](tree, len(data))
        itemsize = 8 if precision == "double" else 4
        ensure_memory(itemsize * (self._core.panel_scalars + threads * tree.work_scalars(1)),
                      f"the factors of {counted(len(data), 'system')} together")
        self.report = Report(threads=threads, nnz_A=self._pattern.nnz, nnz_L=symbolic.nnz, flops=symbolic.flops, systems=len(data))
        self._factor(data)

    @changes
    def refactor(self, values: ArrayLike) -> CholeskyBatch:
        """Factor other matrices with the analyzed pattern, in the memory of these.

        Parameters
        ----------
        values : (N, nnz) real
            As for ``Symbolic.factor_batch``; N as before.

        Returns
        -------
        CholeskyBatch
            This batch, with another :attr:`failed`.

        Raises
        ------
        InvalidInputError, NotSymmetricError
            As ``Symbolic.factor_batch``; another number of systems. The factors are unchanged.
        FactorInUseError
            Another call uses this batch at this time.
        """
        data = self._checked(values)
        if len(data) != self.shape[0]:
            raise InvalidInputError(f"values have {counted(len(data), 'system')}, but this batch has {self.shape[0]}: make another batch "
                                    "with factor_batch(values)")
        self._factor(data)
        return self

    def _factor(self, data):
        self._require_symmetric(data)
        with self.report.phase("numeric"):
            self._core.factor(data.reshape(-1), self.threads)
        self.report.facts["bytes"] = self.nbytes
        doubtful = np.flatnonzero(self._core.may_be_singular() & (self._core.state() == -1))
        if len(doubtful):
            warn(f"{counted(len(doubtful), 'system')} may be singular to working precision, the first is {doubtful[0]}: a pivot is below "
                 "1e-9 of its diagonal entry. meshsolve.cholesky of that matrix estimates the error", MeshsolveWarning)

    @property
    def nbytes(self) -> int:
        """Bytes of all factors."""
        return self._core.nbytes

    @property
    def failed(self) -> np.ndarray:
        return np.flatnonzero(self._core.state() != -1)

    def reason(self, system: int) -> str:
        """Say why a system has no factor: its first column whose pivot is not positive, or a value that is not finite; "" if it has
        one."""
        state = self._core.state()
        if not -len(state) <= system < len(state):
            raise InvalidInputError(f"system must be in 0..{len(state) - 1}, got {system}")
        column = int(state[system])
        if column == NOT_FINITE:
            return "the matrix has a value that is not finite"
        if column == UNKNOWN:
            return "the factorization was interrupted"
        if column < 0:
            return ""
        return f"the matrix is not positive definite: the pivot of column {self.symbolic.perm[column]} is not positive"

    @reads
    def solve(self, b: ArrayLike) -> np.ndarray:
        """Solve all systems.

        Parameters
        ----------
        b : (N, n) or (N, n, k), real or complex
            Right-hand sides of each system.

        Returns
        -------
        x : array of b's shape
            float32 or complex64 for such b, else float64 or complex128. NaN for the systems in :attr:`failed`.

        Raises
        ------
        InvalidInputError
            Wrong shape, NaN or infinity (names the system), text.
        FactorInUseError
            Another call is refactoring this batch.

        Notes
        -----
        The solution of a system has the bits of ``symbolic.factor(A).solve(b)``. O(N nnz(L) k) time, in parallel over the systems.
        """
        given = as_array(b, "b")
        if given.dtype.kind not in "fiubc":
            raise InvalidInputError(f"b must hold numbers, got {given.dtype}")
        if given.ndim not in (2, 3) or given.shape[:2] != self.shape:
            raise InvalidInputError(f"b must be {self.shape} or ({self.shape[0]}, {self.shape[1]}, k), got {given.shape}")
        if given.dtype.kind != "c":
            return as_narrow(self._solve_real(given), given.dtype, None)
        x = np.empty(given.shape, np.complex128)
        x.real, x.imag = self._solve_real(given.real), self._solve_real(given.imag)
        return as_narrow(x, given.dtype, None)

    def _solve_real(self, given):
        columns = np.ascontiguousarray(given, np.float64)
        if (at := _core.first_not_finite(columns.reshape(-1))) >= 0:
            where = np.unravel_index(at, columns.shape)
            raise InvalidInputError(f"b: system {where[0]}, row {where[1]} holds {columns[where]}")
        x = np.empty_like(columns)
        if x.size:
            with self.report.phase("solve"):
                self._core.solve(columns.reshape(-1), x.reshape(-1), x.size // (self.shape[0] * self.shape[1]), self.threads)
        return x

    def _checked(self, values):
        """Return the values as a C contiguous (N, nnz) float64 array; its numbers are not checked yet."""
        if on_device(values):
            raise InvalidInputError("values lie on the GPU, but batches are factored on the CPU: pass values.get()")
        given, nnz = as_array(values, "values"), self._pattern.nnz
        if given.dtype.kind not in "fiub":
            raise InvalidInputError(f"values must hold real numbers, got {given.dtype}")
        if given.ndim != 2 or given.shape[1] != nnz:
            raise InvalidInputError(f"values must be (N, {nnz}), a row for each system with the {counted(nnz, 'entry')} of the analyzed "
                                    f"pattern, got {given.shape}: Symbolic.values_of(A) makes the row of a matrix")
        if len(given) == 0:
            raise InvalidInputError("values must have at least one system, got shape (0, ...)")
        return np.ascontiguousarray(given, np.float64)

    def _require_symmetric(self, data):
        """Raise NotSymmetricError for the first system that is not symmetric; of systems with NaN only finite entries are compared."""
        if getattr(self.symbolic, "lower", False):
            return
        P = self._pattern
        system, *entry = self._core.asymmetry(P.indptr, P.indices, data.reshape(-1), SYMMETRY_TOLERANCE, self.threads)
        if system >= 0:
            raise not_symmetric(f"system {system}", *entry)

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return f"CholeskyBatch({counted(self.shape[0], 'system')}, n={self.shape[1]}, failed={len(self.failed)})"
