"""Sparse right-hand sides: solved in dense blocks of several columns, and returned as sparse arrays, as by CHOLMOD and ``spsolve``.

Entries of a solution that are exactly 0 are not stored.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from meshsolve import foreign
from meshsolve.errors import InvalidInputError
from meshsolve.memory import ensure_memory
from meshsolve.options import counted
from meshsolve.sparse.structure import as_column, checked

BLOCK_BYTES = 2**26             # largest dense block of columns, in bytes; a single column may be larger
FEW = 8                         # columns that are solved at once for some rows
ENTRY_BYTES = 24                # memory of an entry of the solution, twice, as its columns are joined at the end


def solve_sparse(b: Any, n: int, solve: Any, out: Any = None, at_once: bool = False, rows_of_result: int | None = None) -> Any:
    """Return the solution for a sparse b of n rows, as a sparse array of its shape.

    Parameters
    ----------
    b : sparse (n,) or (n, k) array of scipy, PyTorch or pydata/sparse
    n : int
    solve : callable
        Returns the solution for a dense (n, w) array.
    out : None
        Anything else is refused.
    at_once : bool
        True: all columns are solved in one call.
    rows_of_result : int, optional
        Rows of the result of ``solve``, if only some rows are solved for. Few columns are then solved at once, because each
        visits the rows that all of them need.

    Returns
    -------
    csc_array, or csc_matrix where b is a sparse matrix; a coo_array for an (n,) array

    Raises
    ------
    InvalidInputError
        Wrong shape, an index out of range, or ``out`` was given.
    OutOfMemoryError
        The dense columns, or the solution as estimated from its first columns, need more memory than there is.
    """
    if out is not None:
        raise InvalidInputError("out= is for a dense b: a sparse b has a sparse solution")
    columns, shape, is_matrix = _columns_of(b, n)
    k = columns.shape[1]
    width = max(k if at_once else min(k, BLOCK_BYTES // (8 * n), k if rows_of_result is None else FEW), 1)
    ensure_memory(16 * n * width, f"a dense block of the sparse b, {counted(n, 'row')} and {width:,} of {counted(k, 'column')},")
    parts: list[Any] = []
    stored = 0
    for first in range(0, max(k, 1), width):
        parts.append(sp.csc_array(solve(np.ascontiguousarray(columns[:, first:first + width].toarray()))))
        stored += parts[-1].nnz
        done = min(first + width, k)
        each = stored / max(done, 1)
        what = f"the solution for a sparse b of {counted(k, 'column')}, about {each:,.0f} nonzeros each,"
        ensure_memory(ENTRY_BYTES * each * (k - done / 2), what)
    x = sp.hstack(parts, format="csc") if len(parts) > 1 else parts[0]
    shape = shape if rows_of_result is None else (rows_of_result, *shape[1:])
    return sp.coo_array(x.reshape(shape)) if len(shape) == 1 else sp.csc_matrix(x) if is_matrix else x


def solve_sparse_once(A: Any, b: Any, solve: Any) -> tuple[Any, Any]:
    """Return (x, info) for a sparse b: x as from :func:`solve_sparse`, info from one call of ``solve`` with all columns."""
    found = []

    def solved(B):
        x, info = solve(B if b.ndim == 2 else B[:, 0])
        found.append(info)
        return x.reshape(B.shape)

    n = next(iter(getattr(A, "shape", ())), b.shape[0])
    return solve_sparse(b, n, solved, at_once=True), found[0]


def _columns_of(b, n):
    """Return a sparse b as a csc_array of n rows, its original shape, and True if it is a sparse matrix of scipy."""
    is_matrix = isinstance(b, sp.spmatrix)
    b = foreign.as_known(b, "b")
    if b.ndim not in (1, 2) or b.shape[0] != n:
        raise InvalidInputError(f"b must be ({n},) or ({n}, k), got {b.shape}")
    if b.dtype.kind not in "fiubc":
        raise InvalidInputError(f"b must hold numbers, got {b.dtype}")
    return sp.csc_array((as_column if b.ndim == 1 else checked)(b, "b")), b.shape, is_matrix
