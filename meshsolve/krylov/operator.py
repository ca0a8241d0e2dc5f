"""Products with A, a matrix in compressed rows or an operator without entries.

An operator is scipy's LinearOperator or an object with ``shape`` and ``matvec``. The shape and dtype of its results are checked,
and that they are finite.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.options import counted
from meshsolve.sparse.columns import as_array, lengths
from meshsolve.sparse.matrix import LARGEST_SIZE

CONSTANT = 64 * np.finfo(np.float64).eps        # largest |A 1| relative to |A w|, w irregular, that counts as 0


def is_operator(A):
    """True if A offers products and no entries."""
    return hasattr(A, "matvec") and hasattr(A, "shape") and not sp.issparse(A) and not isinstance(A, np.ndarray)


class Operator:
    """A square real operator with the products that the iterations need.

    Attributes
    ----------
    n : int
    nnz : int
        0: entries are unknown.
    norm : float
        Largest |A x| / |x| so far, a lower bound of ||A||.

    Raises
    ------
    InvalidInputError
        Not square, empty, complex. From the products: a result has another shape, is complex, or holds NaN or infinity.
    """

    nnz = 0

    def __init__(self, A, name="A"):
        shape = tuple(A.shape)
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InvalidInputError(f"{name} must be square, got {' x '.join(map(str, shape))}")
        if not 0 < shape[0] <= LARGEST_SIZE:
            raise InvalidInputError(f"{name} has {counted(shape[0], 'row')}; 1 to {LARGEST_SIZE} are supported")
        if np.dtype(getattr(A, "dtype", None) or np.float64).kind == "c":
            raise InvalidInputError(f"{name} is complex, but a real operator is needed: lu accepts complex matrices")
        self.n, self.norm, self._name = shape[0], 0.0, name
        self._operator = A if isinstance(A, spla.LinearOperator) else None
        self._matvec = A.matvec

    def apply(self, X):
        """A X for an (n, k) float64 array, C contiguous."""
        if X.shape[1] != 1 and self._operator is not None:
            Y = self._checked(self._called(self._operator.matmat, X.copy()), X.shape)
        else:
            Y = np.empty_like(X)
            for c in range(X.shape[1]):
                Y[:, c] = self._checked(self._called(self._matvec, X[:, c].copy()), (self.n,))
        if _core.first_not_finite(Y.reshape(-1)) >= 0 and _core.first_not_finite(np.ascontiguousarray(X).reshape(-1)) < 0:
            row, column = np.argwhere(~np.isfinite(Y))[0]
            raise InvalidInputError(f"{self._name} is an operator whose product with a finite vector holds {Y[row, column]} in row {row}")
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            ratio = lengths(Y) / lengths(X)
        self.norm = max(self.norm, float(np.max(ratio, initial=0.0, where=np.isfinite(ratio))))
        return Y

    def takes_to_zero(self, constant):
        """True if A maps the (n,) vector to 0 up to rounding, row by row."""
        i = np.arange(self.n)
        irregular = (i * 0.6180339887498949 % 1 - 0.5)[:, None]
        return bool((abs(self.apply(constant[:, None])) <= CONSTANT * abs(self.apply(irregular))).all())

    def _called(self, product, x):
        try:
            return product(x)
        except ValueError as e:                             # raised by scipy for a result of another size
            if "reshape" not in str(e):
                raise
            raise InvalidInputError(f"{self._name} is an operator of {counted(self.n, 'row')} whose product has another shape: {e}") from e

    def _checked(self, y, shape):
        y = as_array(y, f"the product with {self._name}")
        if y.size != np.prod(shape) or y.ndim > 2 or len(y) != self.n:
            raise InvalidInputError(f"{self._name} is an operator of {counted(self.n, 'row')} whose product has the "
                                    f"shape {y.shape}, not {shape}")
        if y.dtype.kind not in "fiub":
            raise InvalidInputError(f"{self._name} is an operator whose product has the dtype {y.dtype}: real numbers are needed")
        return np.ascontiguousarray(y.reshape(shape), np.float64)


def multiply_dot(matrix, P, Q, threads):
    """Compute Q := A P; return P . A P of each column. P and Q are flat arrays of (n, k) blocks."""
    products = np.empty(len(P) // matrix.n)
    if isinstance(matrix, Operator):
        Q[:] = matrix.apply(P.reshape(matrix.n, -1)).reshape(-1)
        _core.krylov_dot(P, Q, products, threads)
    else:
        _core.multiply_dot(matrix.indptr, matrix.indices, matrix.data, P, Q, products, threads)
    return products


def residual(matrix, B, X, R, threads):
    """Compute R := B - A X; return R . R of each column. All are flat arrays of (n, k) blocks."""
    squares = np.empty(len(B) // matrix.n)
    if isinstance(matrix, Operator):
        np.subtract(B, matrix.apply(X.reshape(matrix.n, -1)).reshape(-1), out=R)
        _core.krylov_dot(R, R, squares, threads)
    else:
        _core.residual(matrix.indptr, matrix.indices, matrix.data, B, X, R, squares, threads)
    return squares


def rounding_of(matrix, P):
    """|P| . |A| |P| of each column of an (n, k) block, the scale of the rounding errors of P . A P; for an operator ``norm``
    |P|^2."""
    if isinstance(matrix, Operator):
        return matrix.norm * lengths(P) ** 2
    absolute, P = abs(matrix.to_scipy()), np.abs(P)
    return (P * (absolute @ P)).sum(axis=0)
