"""Attacks on the factorizations and their solves."""

import numpy as np
import scipy.sparse as sp
from campaigns import axes
from campaigns.table import attack, well_posed

import meshsolve as ms


@attack("cholesky", "CholeskyFactor", "CholeskyFactor.solve", "CholeskyFactor.refactor")
def cholesky(rng):
    """Units, sizes, scales of rows, layouts. Oracle: integers, so that A x = b is exact."""
    n = max(axes.size(rng), 1)
    B = np.where(rng.random((n, n)) < 2 / max(n, 1), rng.integers(-3, 4, (n, n)), 0)
    d = 2.0 ** np.round(np.log2(axes.spread(rng, n)))
    A = (B @ B.T + np.eye(n)) * d[:, None] * d * 2.0 ** rng.integers(-300, 300)
    x = rng.integers(-4, 5, (n, 2)) / d[:, None]
    with well_posed("a positive definite matrix of integers, rows scaled by powers of two"):
        F = ms.cholesky(axes.layout(rng, A))
        y = F.solve(A @ x)
    scale = d[:, None] * (x - y)
    condition = np.linalg.cond(B @ B.T + np.eye(n))
    assert abs(scale).max() <= 1e-13 * condition * max(abs(d[:, None] * x).max(), 1), f"error {abs(scale).max()} with condition {condition}"
