"""Columns of C in the update A + C C^T of a factored matrix, checked and cut to the free rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import device
from meshsolve.errors import InvalidInputError, NotLaplacianError
from meshsolve.foreign import as_known, fetched
from meshsolve.sparse.columns import as_rhs
from meshsolve.sparse.constraints import ROW_SUM
from meshsolve.sparse.places import HOST
from meshsolve.sparse.structure import checked


def as_columns(C, n):
    """Return C, dense or sparse, (n,) or (n, k), as a canonical csc_array of float64 without zeros; itself if it is one.

    C may lie on the GPU. The result is on the host.

    Raises
    ------
    InvalidInputError
    """
    C = as_known(fetched(C), "C")
    if not sp.issparse(C):
        columns = as_rhs(C, n, "C")[0]
        column, row = np.nonzero(columns.T)
        indptr = np.searchsorted(column, np.arange(columns.shape[1] + 1))
        return sp.csc_array((columns[row, column], row, indptr), shape=columns.shape)
    if C.ndim != 2 or C.shape[0] != n:
        raise InvalidInputError(f"C must be ({n}, k), got {C.shape}")
    if C.dtype.kind not in "fiub":
        raise InvalidInputError(f"C must hold real numbers, got {C.dtype}")
    made = sp.csc_array(checked(C, "C").astype(np.float64, copy=False))
    if not made.has_canonical_format or not made.data.all():
        made = made.copy()
        made.sum_duplicates()
        made.eliminate_zeros()
    finite = np.isfinite(made.data)
    if not finite.all():
        bad = np.argmin(finite)
        raise InvalidInputError(f"C: row {made.indices[bad]} holds {made.data[bad]}")
    return made


def free_part(C, constraint):
    """Return (columns of the free rows, columns of the fixed rows) of C, each in its own numbering.

    Raises
    ------
    NotLaplacianError
        With ``pin=True``, if C C^T does not take constants to 0.
    """
    if constraint.centers:
        require_sums(C, constraint)
    position, column = constraint.position[C.indices], np.repeat(np.arange(C.shape[1]), np.diff(C.indptr))
    free = position >= 0

    def part(which, rows, count):
        return sp.coo_array((C.data[which], (rows, column[which])), shape=(count, C.shape[1])).tocsc()

    return part(free, position[free], len(constraint.free)), part(~free, -1 - position[~free], len(constraint.rows))


def coupled(constraint, free, fixed, down):
    """Return the coupling of free rows to fixed ones after C C^T, with these rows, is added or subtracted, in the place of the matrix.

    Entries that become 0 stay, as they do in the block of the free rows.
    """
    if constraint.place is HOST:
        return _coupled(constraint.coupling, free, fixed, down)
    indptr, indices, values = map(device.to_host, constraint.coupling)
    after = _coupled(sp.csr_array((values, indices, indptr), shape=(free.shape[0], fixed.shape[0])), free, fixed, down)
    return tuple(map(device.to_device, (after.indptr.astype(np.int64), after.indices.astype(np.int32), after.data)))


def require_sums(C, constraint):
    """Raise NotLaplacianError if a column of C does not sum to 0 on each component of the constraint."""
    column = np.repeat(np.arange(C.shape[1]), np.diff(C.indptr))
    component = device.to_host(constraint.component[constraint.place.bring(C.indices)])
    groups, group = np.unique(np.stack([column, component]), axis=1, return_inverse=True)
    sums, magnitudes = np.bincount(group.ravel(), C.data), np.bincount(group.ravel(), abs(C.data))
    off = np.flatnonzero(abs(sums) > ROW_SUM * magnitudes)
    if len(off):
        raise NotLaplacianError(f"column {groups[0, off[0]]} of C sums to {sums[off[0]]:.3g}, not to 0: with pin=True the matrix must "
                                "take constants to 0 after an update as well")


def _coupled(coupling, free, fixed, down):
    before, added = coupling.tocoo(), (free @ fixed.T).tocoo()
    data = np.concatenate([before.data, -added.data if down else added.data])
    row, column = np.concatenate([before.row, added.row]), np.concatenate([before.col, added.col])
    return sp.coo_array((data, (row, column)), shape=coupling.shape).tocsr()
