"""Updates and downdates of a factor on the GPU: launches of update.cu and products.cu.

C is uploaded by columns and by rows. The panels, the inverses of diagonal blocks, and the values of the matrix are changed in place.
There are three launches for the check of the pattern, the inverses and the values, and one for each 16 columns of C.
"""

from __future__ import annotations

import numpy as np

from meshsolve import device
from meshsolve.device import launch_1d
from meshsolve.errors import InvalidInputError
from meshsolve.options import INT32_MAX, counted

K, PRODUCTS = device.kernels("factor/cholesky/update.cu"), device.kernels("factor/cholesky/products.cu")
MOST_COLUMNS = 16                       # of C in one launch, as in update.cu
CHANGED = 2                             # words before those of the fronts: enum Words in update.cu


class Update:
    """A + C C^T, or A - C C^T with ``down``.

    Parameters
    ----------
    C : (n, k) canonical csc_array
        In the order of the pattern.
    down : bool
    tree : DeviceTree
    pattern : Csr
        The analyzed pattern, on the GPU.
    iperm : (n,) int32 on the GPU
        New number of each row.
    dtype : {float64, float32}
        Of the panels.
    """

    def __init__(self, C, down, tree, pattern, iperm, dtype):
        if C.nnz > INT32_MAX:
            raise InvalidInputError(f"C has {counted(C.nnz, 'entry')}; at most {INT32_MAX} are supported on the GPU")
        xp, (self._n, self._k), lines = device.xp(), C.shape, C.tocsr()
        self._down, self._tree, self._pattern, self._iperm = down, tree, pattern, iperm
        number = np.flatnonzero(np.diff(lines.indptr))
        parts = C.indptr, C.indices, number, np.append(lines.indptr[number], C.nnz), lines.indices
        uploaded, ends = device.to_device(np.concatenate(parts).astype(np.int32)), np.cumsum([len(part) for part in parts])
        self._ptr, self._row, *self._lines = (uploaded[end - len(part):end] for end, part in zip(ends, parts))
        values = device.to_device(np.concatenate([C.data, lines.data]))
        self._value, self._of_lines = values[:C.nnz], values[C.nnz:]
        self._V = xp.zeros(min(self._k, MOST_COLUMNS) * self._n, dtype)
        self._words = xp.zeros(CHANGED + tree.count, np.int32)

    @property
    def words(self):
        """(2,) int32: 1 if C C^T has an entry outside the pattern, 1 if the result is not definite. Nothing is changed in the first case,
        and only panels in the second."""
        return self._words[:CHANGED]

    def queue(self, panels, values, sweeps):
        """Queue the change of the panels, of the inverses of their diagonal blocks, and of the (nnz,) values in the pattern."""
        tree = self._tree
        self._multiply(device.null(np.float64))
        for first in range(0, self._k, MOST_COLUMNS):
            count = min(self._k - first, MOST_COLUMNS)
            device.launch(K.of(panels.dtype).k_rotate, 1, 256, 0,
                          (np.int32(self._down), np.int32(count), self._ptr[first:], self._row, self._value, self._iperm, tree.table,
                           tree.parent, tree.rows, np.int32(tree.count), np.int64(self._n), panels, self._V, self._words))
        sweeps.invert(self._words[CHANGED:])
        self._multiply(values)

    def _multiply(self, values):
        """Add the products to the values; without values check that they are in the pattern."""
        number, begin, column = self._lines
        launch_1d(PRODUCTS.k_products, 32 * len(number), np.int32(len(number)), number, begin, column, self._of_lines, self._ptr, self._row,
                  self._value, self._pattern.indptr, self._pattern.indices, np.float64(-1 if self._down else 1), values, self._words)


def pair_outside(C, symbolic):
    """Return the (row, column) of C C^T that is not in the analyzed pattern: the one that the host names."""
    P, iperm = symbolic.matrix_pattern, symbolic.native.iperm
    columns = (C.indices[begin:end] for begin, end in zip(C.indptr, C.indptr[1:]))
    ordered = (rows[np.argsort(iperm[rows])] for rows in columns)
    absent = ((rows[k:][~np.isin(rows[k:], P.indices[P.indptr[i]:P.indptr[i + 1]])], i) for rows in ordered for k, i in enumerate(rows))
    return next((int(rows[0]), int(i)) for rows, i in absent if len(rows))
