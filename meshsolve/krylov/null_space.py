"""What a singular matrix takes to 0, as far as conjugate gradients have to know of it: constants on each component."""

from __future__ import annotations

import numpy as np

from meshsolve.krylov.cg_rules import SUMS
from meshsolve.krylov.operator import Operator
from meshsolve.sparse.constraints import components, take_means, takes_constants_to_zero


def null_space_of(matrix, M, threads):
    """What takes the null space out of a block in place; None for a regular matrix."""
    if getattr(M, "null_components", 0) and M.shape == (matrix.n, matrix.n) and _is_null(matrix, M.project, threads):
        return M.project
    if isinstance(matrix, Operator):
        one = np.ones(matrix.n)
        label, size = np.zeros(matrix.n, np.int32), np.array([float(matrix.n)])
        return (lambda block: take_means(block, label, size)) if matrix.takes_to_zero(one) else None
    if not takes_constants_to_zero(matrix, threads):
        return None
    count, label = components(matrix)
    size = np.bincount(label, minlength=count).astype(np.float64)
    return lambda block: take_means(block, label, size)


def _is_null(matrix, project, threads):
    """Whether the matrix takes to 0 what ``project`` takes out of a block of ones: M may be made from another matrix."""
    ones = np.ones((matrix.n, 1))
    project(ones)
    constant = 1 - ones[:, 0]
    if isinstance(matrix, Operator):
        return matrix.takes_to_zero(constant)
    if (constant == 1).all():
        sums, moduli = matrix.row_sums(threads)
    else:
        A = matrix.to_scipy()
        sums, moduli = A @ constant, abs(A) @ constant
    return bool((np.abs(sums) <= SUMS * moduli).all())
