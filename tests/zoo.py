"""Small symmetric positive definite matrices with different difficulties, and the backward error of a solution."""

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def spd(pattern, seed=0, shift=1.0):
    """A diagonally dominant matrix on a symmetric pattern, with random off-diagonal entries."""
    A = sp.csr_array(pattern, dtype=float)
    rng = np.random.default_rng(seed)
    A.data = rng.uniform(-1, 1, A.nnz)
    A = A + A.T
    A = A - sp.diags_array(A.diagonal())
    return sp.csr_array(A + sp.diags_array(np.asarray(abs(A).sum(axis=1)).ravel() + shift))


def random_spd(n, density, seed):
    return spd(sp.random_array((n, n), density=density, rng=np.random.default_rng(seed)), seed)


def grid(nx, ny):
    line = lambda n: sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n))
    return sp.kron(sp.eye_array(ny), line(nx)) + sp.kron(line(ny), sp.eye_array(nx))


def star(n):
    return sp.coo_array((np.ones(n - 1), (np.zeros(n - 1, int), np.arange(1, n))), shape=(n, n))


def truss(m):
    """Stiffness matrix (2 m^2, 2 m^2) of m x m joints with bars along sides and diagonals, with free rigid-body modes; and the joints."""
    joints, at = np.argwhere(np.ones((m, m))), np.arange(m * m).reshape(m, m)
    pairs = ((at[1:], at[:-1]), (at[:, 1:], at[:, :-1]), (at[1:, 1:], at[:-1, :-1]), (at[1:, :-1], at[:-1, 1:]))
    ends = np.concatenate([np.stack([a.ravel(), b.ravel()], 1) for a, b in pairs])
    along = joints[ends[:, 0]] - joints[ends[:, 1]]
    along = along / np.linalg.norm(along, axis=1)[:, None]
    columns = (2 * ends[:, :, None] + [0, 1]).ravel()
    strain = sp.csr_array((np.hstack([along, -along]).ravel(), columns, 4 * np.arange(len(ends) + 1)), shape=(len(ends), 2 * m * m))
    return (strain.T @ strain).tocsr(), joints


def zoo():
    """Symmetric positive definite csr_arrays by name."""
    two = sp.block_diag([grid(5, 4), grid(3, 7)])
    dense_row = sp.csr_array(grid(12, 12) + star(144))
    return {
        "one": sp.csr_array([[4.0]]),
        "diagonal": sp.csr_array(sp.diags_array(np.arange(1.0, 8.0))),
        "path": spd(sp.diags_array([np.ones(29)], offsets=[1])),
        "star, hub first": spd(star(40)),
        "star, hub last": spd(sp.csr_array(star(40))[::-1][:, ::-1]),
        "dense": spd(sp.csr_array(np.ones((40, 40)))),
        "grid": spd(grid(13, 11)),
        "two components": spd(two),
        "isolated rows": spd(sp.block_diag([grid(4, 4), sp.csr_array((5, 5))])),
        "dense row": spd(dense_row),
        "random": random_spd(120, 0.05, 7),
    }


def backward_error(A, x, b):
    """||b - A x|| / (||A|| ||x|| + ||b||), infinity norms, worst column."""
    x, b = x.reshape(len(x), -1), b.reshape(len(b), -1)
    scale = abs(A).sum(axis=1).max() * np.abs(x).max(0) + np.abs(b).max(0)
    return float((np.abs(b - A @ x).max(0) / scale).max())


def columns_within(A, k, seed, size=1.0):
    """(n, k) csc_array with C C^T inside the pattern of A: each column on two neighbors, or on one row."""
    rng = np.random.default_rng(seed)
    edges = np.argwhere(sp.csr_array(A).toarray() != 0)
    C = np.zeros((A.shape[0], k))
    for q in range(k):
        C[edges[rng.integers(len(edges))], q] = size * rng.uniform(-1, 1, 2)
    return sp.csc_array(C)


def with_pivot(A, i, value):
    """A with another number on its diagonal."""
    B = sp.lil_array(A)
    B[i, i] = value
    return B


def refused(A, i):
    """Matrices that no refactorization of A on a grid accepts, with their errors. The first has a negative pivot in row i."""
    n = A.shape[0]
    outside, unsymmetric = sp.lil_array(A), sp.lil_array(A)
    outside[1, 2 * n // 3] = outside[2 * n // 3, 1] = 1.0
    unsymmetric[1, 2] = 7.0
    return ((with_pivot(A, i, -1.0), ms.NotPositiveDefiniteError), (outside, ms.PatternMismatchError), (unsymmetric, ms.NotSymmetricError),
            (A[:9, :9], ms.InvalidInputError), (np.nan * A, ms.InvalidInputError))
