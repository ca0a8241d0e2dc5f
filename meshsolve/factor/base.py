"""What every factor shares: right-hand sides of any kind in, solutions in the same form out; the inverse as an operator."""

from __future__ import annotations

import numpy as np
import scipy.sparse.linalg as spla

from meshsolve.arrays import as_array, as_rhs
from meshsolve.errors import InvalidInputError


class Factor(spla.LinearOperator):
    """A factored matrix as the operator that applies its inverse.

    A subclass supplies ``_solve_columns(columns)`` for an (n, k) float64 array and calls
    :meth:`_solve_like` from its ``solve``.
    """

    def __init__(self, n, dtype):
        super().__init__(dtype=np.dtype(dtype), shape=(n, n))

    def _solve_like(self, b, out, solve_columns, rows, solve_imaginary=None):
        """Apply ``solve_columns`` to b of ``rows`` rows; the result has b's shape, and b's dtype where that is floating."""
        given = as_array(b, "b")
        if given.dtype.kind == "c":
            real = self._solve_like(np.ascontiguousarray(given.real), None, solve_columns, rows)
            imaginary = self._solve_like(np.ascontiguousarray(given.imag), None, solve_imaginary or solve_columns, rows)
            return _deliver(real + 1j * imaginary, given.shape, out)
        columns, shape = as_rhs(given, rows)
        x = solve_columns(columns)
        if given.dtype == np.float32 and out is None:
            x = x.astype(np.float32)
        return _deliver(x, (x.shape[0], *shape[1:]), out)

    def _matvec(self, x):
        return self.solve(np.asarray(x).reshape(-1))

    def _matmat(self, X):
        return self.solve(X)

    def __call__(self, b):
        """Solve for ``b``, as :func:`scipy.sparse.linalg.factorized` callables do."""
        return self.solve(b)


def _deliver(x, shape, out):
    x = x.reshape(shape) if len(shape) == 2 else x[:, 0] if x.ndim == 2 else x
    if out is None:
        return x
    if not isinstance(out, np.ndarray) or out.shape != x.shape or out.dtype != x.dtype or not out.flags.writeable:
        raise InvalidInputError(f"out has to be a writable array of shape {x.shape} and dtype {x.dtype}")
    out[...] = x
    return out
