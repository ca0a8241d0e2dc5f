"""L and U of an LU factor as sparse matrices, assembled on demand, and the levels of their columns. Cost: O(nnz(L) + nnz(U))."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve import _core, device
from meshsolve.sparse.matrix import narrow_ptr


class Triangles(NamedTuple):
    """Triangles of the diagonal blocks as an engine returns them: L by columns, U by rows.

    ``final_position[k]`` is the position to which row exchanges inside a front moved row k.
    """

    l_ptr: np.ndarray               # (n + 1,) int64
    l_row: np.ndarray               # int32
    l: np.ndarray
    u_ptr: np.ndarray               # (n + 1,) int64
    u_column: np.ndarray            # int32
    u: np.ndarray
    final_position: np.ndarray      # (n,) int32

    def row_perm(self, analysis):
        """The row of A that became row k of L, (n,) int32."""
        rows = np.empty_like(analysis.rows)
        rows[self.final_position] = analysis.rows
        return rows

    def lower(self):
        """L, unit lower triangular, as a csc_array with sorted rows."""
        L = sp.csc_array((self.l, self.l_row, narrow_ptr(self.l_ptr)), shape=self._shape)
        L.sort_indices()
        return L

    def diagonal_blocks(self):
        """U without its entries above the diagonal blocks, as a csr_array."""
        return sp.csr_array((self.u, self.u_column, narrow_ptr(self.u_ptr)), shape=self._shape)

    def upper(self, pivots, data):
        """U as a csr_array with sorted columns; above the diagonal blocks the product of L^-1 with the entries of A.

        Parameters
        ----------
        pivots : Pivots
        data : (nnz,) values of A
        """
        U = self.diagonal_blocks()
        indptr, row, source = map(device.to_host, pivots.plan.off_diagonal())
        if len(row):
            analysis, L = pivots.analysis, self.lower()
            above = sp.csc_array((data[source], self.final_position[row], indptr), shape=self._shape)
            rows, columns = (sp.diags_array(scale) for scale in (analysis.row_scale[self.row_perm(analysis)],
                                                                 analysis.col_scale[analysis.columns]))
            indptr, row, values = _core.lower_solve(*core_arrays(L), *core_arrays(sp.csc_array(rows @ above @ columns)))
            U = sp.csr_array(U + sp.csc_array((values, row, narrow_ptr(indptr)), shape=self._shape))
        U.sort_indices()
        return U

    @property
    def _shape(self):
        return (len(self.final_position),) * 2


def core_arrays(A):
    """(indptr, indices, data) of a compressed matrix, with the integer types of the core."""
    return A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data
