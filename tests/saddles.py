"""Small symmetric indefinite matrices with different difficulties."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def symmetric(n, density, seed, diagonal=0.5):
    """Random entries; a fraction ``diagonal`` of the diagonal is stored."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=density, rng=rng, data_sampler=lambda size: rng.standard_normal(size))
    return sp.csr_array(A + A.T + sp.diags_array(np.where(rng.random(n) < diagonal, rng.standard_normal(n), 0.0)))


def rank_deficient(seed=0):
    """[[I, B^T], [B, 0]] with 3 dependent rows in B: rank 35 of 38."""
    rng = np.random.default_rng(seed)
    B = sp.random_array((10, 20), density=0.3, rng=rng) + sp.eye_array(10, 20)
    B = sp.vstack([B, B[[0]] + B[[3]], 2 * B[[4]], B[[7]] - B[[8]]])
    return sp.csr_array(sp.block_array([[sp.eye_array(20), B.T], [B, None]]))


def graded(n=60, decades=14):
    A = symmetric(n, 0.1, 5, 1.0)
    S = sp.diags_array(np.logspace(0, decades, n))
    return sp.csr_array(S @ A @ S)


def regular():
    """Matrices of full rank by name."""
    swap = sp.csr_array([[0.0, 1], [1, 0]])
    return {
        "one": sp.csr_array([[-3.0]]),
        "swap": swap,
        "swaps": sp.csr_array(sp.block_diag([swap * k for k in range(1, 9)])),
        "odd cycle": sp.csr_array([[0.0, 1, 2], [1, 0, 3], [2, 3, 0]]),
        "zero diagonal, dense": sp.csr_array(np.ones((9, 9)) - np.eye(9)),
        "arrow": sp.csr_array(sp.diags_array(np.r_[0.0, np.tile([1.0, -1], 15)]) + _arrow(31)),
        "kkt": ms.datasets.kkt(60, 25, seed=1),
        "kkt banded": ms.datasets.kkt(300, 150, seed=2, kind="banded"),
        "stokes": ms.datasets.stokes(8),
        "helmholtz": ms.datasets.helmholtz(12, 5.3),
        "graded": graded(),
        "random": symmetric(120, 0.04, 3),
        "random, no diagonal": symmetric(100, 0.08, 4, 0.0),
        "two components": sp.csr_array(sp.block_diag([ms.datasets.kkt(20, 8), ms.datasets.stokes(4)])),
        "positive definite": ms.datasets.grid2d(9, 9, boundary="dirichlet"),
    }


def _arrow(n):
    return sp.coo_array((np.ones(2 * n - 2), (np.r_[np.zeros(n - 1, int), np.arange(1, n)], np.r_[np.arange(1, n), np.zeros(n - 1, int)])), (n, n))


def eigenvalue_signs(A):
    """Numbers of positive, negative and zero eigenvalues, computed densely."""
    w = np.linalg.eigvalsh(A.toarray())
    small = 1e-11 * abs(w).max()
    return int((w > small).sum()), int((w < -small).sum()), int((abs(w) <= small).sum())


def spoiled(n=70):
    """A dense pattern (one front in natural order), and (row, values) pairs for which the elimination fails at that row.

    The values have NaN in a column of zeros, NaN after 40 pivots, or a diagonal entry that overflows in column 52.
    """
    A = sp.csr_array(np.ones((n, n)))
    hidden, late, large = np.zeros((n, n)), np.diag(np.linspace(1, 2, n)), np.diag(np.linspace(1, 2, n))
    hidden[1:, 1:] = np.diag(np.linspace(1, 2, n - 1))
    hidden[0, 60] = hidden[60, 0] = np.nan
    late[40, 40], late[40, 65], late[65, 40] = 0.0, np.nan, np.nan
    large[10, 10], large[52, 52], large[10, 52], large[52, 10] = 0.06, 0.1, 0.5, 0.5
    large[np.ix_([10, 52], [10, 52])] *= 1e308
    return A, [(0, hidden.ravel()), (40, late.ravel()), (52, large.ravel())]


def dependent(n, m, seed):
    """A badly scaled saddle point with n rows, m constraints and m / 2 linear combinations of them: numerically singular."""
    rng = np.random.default_rng(seed)
    lead = rng.choice(n, m, replace=False)
    near = np.clip(np.repeat(lead, 4) + rng.integers(-60, 61, 4 * m), 0, n - 1)
    C = sp.csr_array((np.r_[np.full(m, 10.0), rng.standard_normal(4 * m)],
                      (np.r_[np.arange(m), np.repeat(np.arange(m), 4)], np.r_[lead, near])), shape=(m, n))
    W = sp.csr_array((rng.standard_normal(m), (np.repeat(np.arange(m // 2), 2), rng.integers(0, m, m))), shape=(m // 2, m))
    R = sp.vstack([C, W @ C])
    return sp.csr_array(sp.block_array([[sp.diags_array(10 ** rng.uniform(-3, 3, n)), R.T], [R, None]]))


def decades(seed=4):
    """Constraints of many sizes: rows made small by the scaling have residuals of 1e-6 even with a stable factor."""
    rng, mesh = np.random.default_rng(seed), ms.datasets.icosphere(3)
    n, m = len(mesh.vertices), 200
    C = sp.csr_array((rng.standard_normal(5 * m), (np.repeat(np.arange(m), 5), rng.integers(0, n, 5 * m))), shape=(m, n))
    R = sp.diags_array(10.0 ** rng.integers(-8, 9, m)) @ C
    return sp.csr_array(sp.block_array([[ms.mass_matrix(mesh) + 1e-3 * ms.cotan_laplacian(mesh), R.T], [R, None]]))
