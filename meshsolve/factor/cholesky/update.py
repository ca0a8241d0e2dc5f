"""What is added to a factored matrix: the columns of C in A + C C^T, checked and cut to the rows that are free."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import InvalidInputError, NotLaplacianError
from meshsolve.sparse.columns import as_rhs
from meshsolve.sparse.constraints import ROW_SUM


def as_columns(C, n):
    """C, dense or sparse, (n,) or (n, k), as a canonical csc_array of float64 without zeros; the caller's memory where it is one.

    Raises
    ------
    InvalidInputError
    """
    if not sp.issparse(C):
        columns = as_rhs(C, n, "C")[0]
        column, row = np.nonzero(columns.T)
        indptr = np.searchsorted(column, np.arange(columns.shape[1] + 1))
        return sp.csc_array((columns[row, column], row, indptr), shape=columns.shape)
    if C.ndim != 2 or C.shape[0] != n:
        raise InvalidInputError(f"C has to be ({n}, k), not {C.shape}")
    if C.dtype.kind not in "fiub":
        raise InvalidInputError(f"C has to hold real numbers, not {C.dtype}")
    made = _checked(C if C.format in ("csc", "csr") else C.tocsc()).tocsc().astype(np.float64, copy=False)
    if not made.has_canonical_format or not made.data.all():
        made = made.copy()
        made.sum_duplicates()
        made.eliminate_zeros()
    finite = np.isfinite(made.data)
    if not finite.all():
        bad = np.argmin(finite)
        raise InvalidInputError(f"C: row {made.indices[bad]} holds {made.data[bad]}")
    return made


def _checked(C):
    """C, whose arrays may be anything, if it is a matrix: nobody else looks at them."""
    try:
        C.check_format(full_check=True)
    except ValueError as e:
        raise InvalidInputError(f"C is no sparse matrix: {e}") from e
    return C


def free_part(C, constraint):
    """(columns of the free rows, columns of the fixed ones) of C, each numbered by themselves.

    Raises
    ------
    NotLaplacianError
        With ``pin=True``, where C C^T does not take constants to 0.
    """
    if constraint.centers:
        require_sums(C, constraint.component)
    place, column = constraint.place[C.indices], np.repeat(np.arange(C.shape[1]), np.diff(C.indptr))
    free = place >= 0

    def part(which, rows, count):
        return sp.coo_array((C.data[which], (rows, column[which])), shape=(count, C.shape[1])).tocsc()

    return part(free, place[free], len(constraint.free)), part(~free, -1 - place[~free], len(constraint.rows))


def coupled(coupling, free, fixed, down):
    """The block that couples free rows to fixed ones after C C^T, of which these are the rows, is added or taken off: entries that
    become 0 stay, as they do in the block of the free rows."""
    before, added = coupling.tocoo(), (free @ fixed.T).tocoo()
    data = np.concatenate([before.data, -added.data if down else added.data])
    row, column = np.concatenate([before.row, added.row]), np.concatenate([before.col, added.col])
    return sp.coo_array((data, (row, column)), shape=coupling.shape).tocsr()


def require_sums(C, component):
    """Raise NotLaplacianError where a column of C does not sum to 0 on each component; ``component`` has that of each row."""
    column = np.repeat(np.arange(C.shape[1]), np.diff(C.indptr))
    groups, group = np.unique(np.stack([column, component[C.indices]]), axis=1, return_inverse=True)
    sums, moduli = np.bincount(group.ravel(), C.data), np.bincount(group.ravel(), abs(C.data))
    off = np.flatnonzero(abs(sums) > ROW_SUM * moduli)
    if len(off):
        raise NotLaplacianError(f"column {groups[0, off[0]]} of C sums to {sums[off[0]]:.3g}, not to 0: with pin=True the matrix has to "
                                "take constants to 0 after an update as well")
