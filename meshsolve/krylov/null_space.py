"""Null spaces that conjugate gradients remove: vectors that are constant on each connected component."""

from __future__ import annotations

import numpy as np

from meshsolve.krylov.cg_rules import SUMS
from meshsolve.krylov.operator import Operator
from meshsolve.sparse.constraints import takes_constants_to_zero
from meshsolve.sparse.rows import components, subtract_means


def null_space_of(matrix, M, threads):
    """Return a function that removes the null space from a block in place; None for a regular matrix."""
    if getattr(M, "null_components", 0) and M.shape == (matrix.n, matrix.n) and _is_null(matrix, M.project, threads):
        return M.project
    if isinstance(matrix, Operator):
        one = np.ones(matrix.n)
        label, size = np.zeros(matrix.n, np.int32), np.array([float(matrix.n)])
        return (lambda block: subtract_means(block, label, size)) if matrix.takes_to_zero(one) else None
    if not takes_constants_to_zero(matrix, threads):
        return None
    count, label = components(matrix)
    size = np.bincount(label, minlength=count).astype(np.float64)
    return lambda block: subtract_means(block, label, size)


def _is_null(matrix, project, threads):
    """True if the matrix maps the part of a block of ones to 0 that ``project`` removes: M may belong to another matrix."""
    ones = np.ones((matrix.n, 1))
    project(ones)
    constant = 1 - ones[:, 0]
    if isinstance(matrix, Operator):
        return matrix.takes_to_zero(constant)
    if (constant == 1).all():
        sums, absolute = matrix.row_sums(threads)
    else:
        A = matrix.to_scipy()
        sums, absolute = A @ constant, abs(A) @ constant
    return bool((np.abs(sums) <= SUMS * absolute).all())
