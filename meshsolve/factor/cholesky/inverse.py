"""Entries of the inverse in the caller's numbering, from entries of the inverse of the free block.

The inverse is the operator that ``solve`` applies. With ``fixed=`` it is zero in the fixed rows and columns. With ``pin=True`` it is the
pseudoinverse: the inverse of the free block, zero in the pinned rows and columns, minus the means of its rows and columns (one solve).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def inverse_diagonal(engine, constraint):
    """Return the diagonal of the inverse, (n,) float64; ``engine`` has the factor of the free block."""
    if constraint is None:
        return engine.inverse_diagonal()
    d = np.zeros(constraint.n)
    if not constraint.alone:
        d[constraint.free] = engine.inverse_diagonal()
    rows = np.arange(constraint.n)
    return d + mean_correction(engine, constraint)(rows, rows)


def selected_inverse(engine, constraint):
    """Return the inverse on the pattern of the analyzed matrix, an (n, n) symmetric csr_array."""
    if constraint is not None and constraint.alone:
        return sp.csr_array((constraint.n, constraint.n))
    block = engine.inverse_on_matrix()
    if constraint is None:
        return block
    free, fixed, block = constraint.free, constraint.rows, block.tocoo()
    rows, columns, values = free[block.row], free[block.col], block.data
    if constraint.centers:                          # the pseudoinverse has entries in the rows of pins
        across = constraint.coupling.tocoo()
        i, j, zeros = free[across.row], fixed[across.col], np.zeros(across.nnz)
        rows, columns = np.concatenate([rows, i, j, fixed]), np.concatenate([columns, j, i, fixed])
        values = np.concatenate([values, zeros, zeros, np.zeros(len(fixed))])
        values += mean_correction(engine, constraint)(rows, columns)
        values[constraint.component[rows] != constraint.component[columns]] = 0.0
    return sp.coo_array((values, (rows.astype(np.int32), columns.astype(np.int32))), shape=(constraint.n,) * 2).tocsr()


def mean_correction(engine, constraint):
    """Return f(i, j): entry (i, j) of the pseudoinverse minus that of the inverse of the free block, for i and j in one component."""
    if not constraint.centers or constraint.alone:
        return lambda i, j: 0.0
    sums = np.zeros(constraint.n)                   # row sums of the inverse
    sums[constraint.free] = engine.solve("A", np.ones((len(constraint.free), 1)))[:, 0]
    size, component = constraint.size, constraint.component
    total = np.bincount(component, sums, len(size)) / size**2
    means = sums / size[component]
    return lambda i, j: total[component[i]] - means[i] - means[j]
