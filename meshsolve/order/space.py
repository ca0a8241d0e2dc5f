"""A factor that cannot fit into memory, recognized by the largest separators of its ordering, in a fraction of the time of the ordering.

The columns of L that belong to the largest separators do not depend on how the parts between them are ordered. Their entries are counted
exactly: each connected part is contracted to one row, which is eliminated first (contract.cpp). With the entries of A in the other columns
they are a lower bound of nnz(L) for the ordering that would be computed. So no factor is refused that the check after the analysis admits.
"""

from __future__ import annotations

import numpy as np

from meshsolve import _core
from meshsolve.memory import available_memory, ensure_memory
from meshsolve.options import counted

PARTS = 8, 64                   # about so many parts are left between the largest separators: first three levels, then six
ENOUGH = 0.25                   # share of the memory below which three levels need no closer look: they have two fifths of nnz(L) of a cube
TYPICAL = 15                    # twice nnz(L) / n^(4/3) of a cube with seven-point differences: below it nothing is tried
VOLUME = 2.4                    # dimension from which a graph is a volume; surfaces of a million vertices have 2 to 2.2
LEVELS = 20                     # levels of the breadth-first searches, as in auto.py


def may_exceed_memory(pattern, entry_bytes):
    """Return True if the factor of a volume with so many rows may not fit into the available memory. Takes milliseconds."""
    estimate = TYPICAL * entry_bytes * float(pattern.n) ** (4 / 3)
    available = available_memory()
    if available is None or estimate < available:
        return False
    return _core.levels(pattern.indptr, pattern.indices, LEVELS, pattern.diagonal)[1] > VOLUME


def require_space(pattern, dissected, entry_bytes):
    """Raise OutOfMemoryError if the columns of the largest separators alone do not fit into memory.

    Parameters
    ----------
    pattern : Csr
        Without diagonal.
    dissected : callable
        ``dissected(stop)`` returns the arguments of :func:`least_nonzeros` for parts of up to ``stop`` rows, or an empty permutation if the
        graph is not dissected.
    entry_bytes : int
    """
    for parts in PARTS:
        perm, *tree = dissected(max(pattern.n // parts, 1))
        if len(perm) == 0:
            return
        nnz = least_nonzeros(pattern, perm, *tree)
        ensure_memory(nnz * entry_bytes, f"the factor, with at least {counted(nnz, 'nonzero')} in this ordering,")
        available = available_memory()
        if available is None or nnz * entry_bytes < ENOUGH * available:
            return


def least_nonzeros(pattern, perm, parent, first, last):
    """Return a lower bound of nnz(L) for all orderings with these separators.

    Parameters
    ----------
    pattern : Csr
        Without diagonal.
    perm, parent, first, last : arrays
        A dissection without the order of its parts, which are the leaves of its tree.
    """
    has_parts = np.zeros(len(parent), bool)
    has_parts[parent[parent >= 0]] = True
    rows = np.concatenate([np.zeros(0, np.int32), *(perm[a:b] for a, b in zip(first[has_parts], last[has_parts], strict=True))])
    indptr, indices = _core.contract(pattern.indptr, pattern.indices, rows)
    count = _core.colcount(indptr, indices)[len(indptr) - 1 - len(rows):]
    is_last = np.zeros(pattern.n, bool)
    is_last[rows] = True
    degree = np.diff(pattern.indptr)
    others = pattern.n - len(rows) + (int(degree[~is_last].sum()) + 1) // 2      # an edge between two of them is counted from both ends
    return int(count.sum(dtype=np.int64)) + others
