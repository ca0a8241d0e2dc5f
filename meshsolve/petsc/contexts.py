"""Our factors as preconditioners that PETSc makes by name: ``-pc_type python -pc_python_type meshsolve.petsc.Cholesky``.

A failed factorization does not raise: an exception would pass through PETSc and end the process, or leave other ranks waiting. The result
of the preconditioner becomes NaN instead. The outer iteration then ends on all ranks with ``DIVERGED_NANORINF``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve.api import cholesky, ildl, parac
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.options import counted
from meshsolve.petsc.distribute import local_csr
from meshsolve.petsc.environment import load
from meshsolve.report import warn


class Context:
    """Python context of a PETSc.PC that applies a factor of a matrix on one rank.

    A second ``setUp`` with the same pattern computes new values only. The option ``-pc_meshsolve_threads N``, with the prefix of the
    PC, sets the number of threads, 1 by default: PETSc programs use a rank for each core.

    Attributes
    ----------
    factor : CholeskyFactor, IldlFactor or ParacFactor, or None
    error : Exception or None
        Error of the last factorization or application.
    threads : int
    """

    def __init__(self) -> None:
        self.factor: Any = None
        self.error: Exception | None = None
        self.threads = 1
        self._pattern: tuple[np.ndarray, np.ndarray] | None = None

    def setFromOptions(self, pc: Any) -> None:
        """Read the option of this PC from PETSc's database."""
        PETSc, _ = load()
        self.threads = PETSc.Options(pc.getOptionsPrefix()).getInt("pc_meshsolve_threads", self.threads)

    def setUp(self, pc: Any) -> None:
        """Factor the matrix of the PC, or its new values."""
        self.error = None
        try:
            P = pc.getOperators()[1]
            if P.getComm().getSize() > 1:
                raise InvalidInputError(f"meshsolve.petsc.{type(self).__name__} is a preconditioner of one rank, the matrix is on "
                                        f"{counted(P.getComm().getSize(), 'rank')}: use -pc_type bjacobi or asm with -sub_pc_type "
                                        "python, or ms.petsc.Schwarz")
            self._update(local_csr(P))
        except Exception as e:
            self.error = e
            warn(f"{type(self).__name__}: {e}", MeshsolveWarning)

    def apply(self, pc: Any, x: Any, y: Any) -> None:
        """y = F^-1 x."""
        y.array_w[:] = self._applied(x.array_r)

    def applyTranspose(self, pc: Any, x: Any, y: Any) -> None:
        """y = F^-T x; the factors are symmetric."""
        self.apply(pc, x, y)

    def _applied(self, r):
        if self.error is None:
            try:
                return self.factor @ r
            except Exception as e:                          # NaN in r, for instance
                self.error = e
        return np.nan

    def _update(self, A):
        pattern, before = (A.indptr, A.indices), self._pattern
        same = before is not None and all(np.array_equal(a, b) for a, b in zip(before, pattern))
        if same and hasattr(self.factor, "refactor"):
            self.factor.refactor(A)
        else:
            self._pattern = None                            # a failed factorization leaves no factor to reuse
            self.factor, self._pattern = self._factor(A), pattern

    def _factor(self, A: sp.csr_array) -> Any:
        raise NotImplementedError


class Cholesky(Context):
    """Complete Cholesky factor of a symmetric positive definite matrix: an exact local solver.

    Examples
    --------
    As the solver of the blocks of block Jacobi, in any PETSc program::

        mpiexec -n 4 python program.py -ksp_type cg -pc_type bjacobi -sub_pc_type python -sub_pc_python_type meshsolve.petsc.Cholesky
    """

    def _factor(self, A):
        return cholesky(A, threads=self.threads, device="cpu")


class Ildl(Context):
    """Incomplete L D L^T factor of a symmetric indefinite matrix, by tiles; see :func:`meshsolve.ildl`."""

    def _factor(self, A):
        return ildl(A, threads=self.threads, device="cpu")


class Parac(Context):
    """Randomized approximate Cholesky factor of a Laplacian, see :func:`meshsolve.parac`: near linear time and memory."""

    def _factor(self, A):
        return parac(A, threads=self.threads, device="cpu")
