"""Products and residuals of a matrix in compressed rows with blocks of columns, on the host and on the GPU.

Row sums have a fixed order, so results have the same bits on any number of threads. Cost: O(k nnz(A)) each.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core, device
from meshsolve.device import BLOCK
from meshsolve.device.reductions import max_of_columns

K = device.kernels("sparse/product.cu")
LONG_BLOCK = 512                        # threads of a block that sums a long row
LONG = 1024                             # entries above which a whole block sums a row


def lanes_for(entries, rows):
    """Threads that sum one matrix row together: one for every eight entries of a mean row, at most a warp."""
    return 1 << int(np.clip(np.log2(max(entries / max(rows, 1), 1) / 8), 0, 5))


def residual(indptr, indices, data, X, B, magnitudes=False, threads=1, out=None):
    """Return B - A X, or B - |A| X, for (n, k) float64 arrays in the place of B; A in compressed rows. On the GPU it does not wait.

    ``out``, on the GPU, C contiguous and perhaps B itself, receives the result.
    """
    if device.holds(B):
        return _residual_cuda(indptr, indices, data, X, B, magnitudes, out)
    X, B = np.ascontiguousarray(X), np.ascontiguousarray(B)
    R, squares = np.empty(B.shape), np.empty(B.shape[1])
    data = np.abs(data) if magnitudes else data
    _core.residual(indptr, indices, data, B.reshape(-1), X.reshape(-1), R.reshape(-1), squares, threads)
    return R


def measured_residual(A, transposed, x, b):
    """Return b - A x, or b - A^T x, and its backward error, on the host.

    Parameters
    ----------
    A : Csr
    transposed : bool
    x, b : (n, k) float64 or complex128, A's dtype

    Returns
    -------
    r : (n, k)
    error : float
        ||r|| / (||A|| ||x|| + ||b||) in infinity norms, worst column; infinite for NaN.
    """
    r = np.empty_like(x)
    return r, _core.measured_residual(A.indptr, A.indices, A.data, transposed, x, b, r)


def sampled_product(rows, columns, Y, X, threads=1):
    """Return -Y X^T at the entries (rows, columns), (nnz,) float64 in the place of Y, for (n, k) real arrays.

    ``rows`` and ``columns`` are (nnz,) int32. On the GPU this is one launch and does not wait.
    """
    Y, X = (array.reshape(len(array), -1).astype(np.float64, copy=False) for array in (Y, X))
    k = Y.shape[1]
    if device.holds(Y):
        xp = device.xp()
        out = xp.empty(len(rows), np.float64)
        device.launch_1d(K.k_sampled, len(rows), np.int64(len(rows)), rows, columns, np.int64(k), *map(xp.ascontiguousarray, (Y, X)), out)
        return out
    out = np.empty(len(rows))
    _core.sampled_product(rows, columns, *(np.ascontiguousarray(array).reshape(-1) for array in (Y, X)), k, out, threads)
    return out


def assembled(ptr, source, values, width=1, out=None):
    """Return the sums of ``values[source[p]]`` for p from ptr[e] to ptr[e + 1] - 1, in that order, on the GPU.

    ``values`` and ``out``, by default a new array, are float64; a number has ``width`` of them, 2 if it is complex.
    """
    count = len(ptr) - 1
    out = device.xp().empty(count * width, np.float64) if out is None else out
    device.launch_1d(K.k_assemble, len(out), np.int64(count), np.int32(width), ptr, source, values, out)
    return out


class Product:
    """Q := A P on the GPU, for iterations that multiply (n, k) C contiguous blocks many times.

    Parameters
    ----------
    matrix : Csr
        A matrix on the host is uploaded.
    """

    def __init__(self, matrix):
        self.n = matrix.n
        self.indptr, self.indices, self.data = map(device.to_device, (matrix.indptr, matrix.indices, matrix.data))
        self.nnz = len(self.indices)
        self._lanes = lanes_for(self.nnz, self.n)
        xp = device.xp()
        self._long = xp.flatnonzero(xp.diff(self.indptr) > LONG).astype(np.int32)

    def __call__(self, P, Q, data=None):
        """Compute Q. ``data``: other values in the same pattern."""
        k, matrix = P.shape[1], (self.indptr, self.indices, self.data if data is None else data)
        device.launch(K.k_multiply, device.grid_for(self.n * k * self._lanes, BLOCK), BLOCK, 0,
                      (np.int32(self.n), np.int32(k), np.int32(self._lanes), np.int32(LONG), *matrix, P, Q))
        device.launch(K.k_multiply_long, device.grid_for(len(self._long) * k, 1), LONG_BLOCK, 0,
                      (self._long, np.int32(len(self._long)), np.int32(k), *matrix, P, Q))


# ---- of the matrix alone ----------------------------------------------------------------------------------------------


def row_sums(indptr, indices, data, threads=1):
    """Return the row sums of a matrix and the row sums of its absolute values, both (n,) where the matrix lies."""
    if not device.holds(data):
        return _core.row_sums(indptr, data, threads=threads)
    return tuple(_row_sums_cuda(indptr, indices, data, magnitudes) for magnitudes in (False, True))


def norm1(indptr, indices, data):
    """Return the largest row sum of absolute values of a matrix on the GPU."""
    return device.scalar(max_of_columns(_row_sums_cuda(indptr, indices, data, True)[:, None]))


def matrix_diagonal(indptr, indices, data, threads=1):
    """Return the diagonal of a matrix, (n,) where the matrix lies; zeros where nothing is stored."""
    if not device.holds(data):
        return _core.diagonal(indptr, indices, data, threads)
    n = len(indptr) - 1
    out = device.xp().empty(n, np.float64)
    device.launch(K.k_matrix_diagonal, device.grid_for(n, BLOCK), BLOCK, 0, (np.int32(n), indptr, indices, data, out))
    return out


# ---- helpers ------------------------------------------------------------------------------------------------------------


def _residual_cuda(indptr, indices, data, X, B, magnitudes, out=None):
    xp, (n, k) = device.xp(), B.shape
    X, B, R = xp.ascontiguousarray(X), xp.ascontiguousarray(B), xp.empty((n, k), np.float64) if out is None else out
    lanes = lanes_for(len(indices), n)
    device.launch(K.k_residual, device.grid_for(n * k * lanes, BLOCK), BLOCK, 0,
                  (np.int32(n), np.int32(k), np.int32(lanes), np.int32(magnitudes), indptr, indices, data, X, B, R))
    return R


def _row_sums_cuda(indptr, indices, data, magnitudes):
    xp, n = device.xp(), len(indptr) - 1
    return -_residual_cuda(indptr, indices, data, xp.ones((n, 1)), xp.zeros((n, 1)), magnitudes)[:, 0]
