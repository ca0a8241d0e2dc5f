"""The numeric phase of LU on the host: native factors, values in the analyzed pattern, residuals."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.factor.base import DOUBLE
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.sparse.matrix import Csr, as_csr, is_complex
from meshsolve.sparse.product import measured_residual


class HostBackend:
    """Factors, values and residuals of the matrices with one pattern.

    Parameters
    ----------
    pattern : Csr
    scalar : dtype, float64 or complex128
        Scalar type of the matrix and of right-hand sides.
    precision : {"double", "single", "mixed"}
    threads : int
    """

    empty_like = staticmethod(np.empty_like)

    def __init__(self, pattern, scalar, precision, threads):
        self.pattern, self.scalar, self.precision, self.threads = pattern, scalar, precision, threads
        self.solves_vectors = scalar == DOUBLE and precision == "double"            # with the core's solve for one vector

    def copied(self, data):
        """A copy of the values of a matrix, on the device of the factor."""
        return data.copy()

    def native(self, pivots):
        """An empty factor of the engine for these pivots.

        Raises
        ------
        OutOfMemoryError
        """
        plan, is_fronts = pivots.plan, pivots.engine == "fronts"
        work = plan.work_scalars(self.threads) if is_fronts else 2 * plan.scalars
        itemsize = self.scalar.itemsize if self.precision == "double" else 4
        ensure_memory(itemsize * (plan.scalars + work), f"the factor ({counted(plan.scalars, 'entry')})")
        kind = "Complex" if self.scalar.kind == "c" else "Double" if self.precision == "double" else "Single"
        return getattr(_core, ("FrontLu" if is_fronts else "ColumnLu") + kind)(plan)

    def values_of(self, A):
        """The values of A in the pattern. A csr matrix with exactly this pattern is not checked a second time."""
        P = self.pattern
        if sp.issparse(A) and A.format == "csr" and A.shape == (P.n, P.n) and A.data.dtype == self.scalar:
            alike = A.data.shape == A.indices.shape == P.indices.shape and A.indices.dtype == np.int32
            same = alike and _core.same_pattern(P.indptr, P.indices, np.ascontiguousarray(A.indptr, np.int64),
                                                np.ascontiguousarray(A.indices))
            if same and _core.first_not_finite(np.ascontiguousarray(A.data).view(np.float64)) < 0:
                return A.data
        if self.scalar.kind != "c" and is_complex(A):
            raise InvalidInputError("A is complex, but the factor is real. Make a factor of both kinds with lu(A) of the complex matrix")
        M = as_csr(A, dtype=self.scalar)
        if M.n != P.n:
            raise InvalidInputError(f"A has {counted(M.n, 'row')}, the factor {P.n}")
        return M.within(P)

    def measure(self, transposed, data):
        """A function of (x, b): ``b - A x`` of the matrix with the values ``data``, and its backward error."""
        A = Csr(self.pattern.n, self.pattern.indptr, self.pattern.indices, data)
        return lambda x, b: measured_residual(A, transposed, x, b)
