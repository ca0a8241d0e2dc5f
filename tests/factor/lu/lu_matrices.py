"""Unsymmetric matrices for the tests of LU factors, and checks of a factor and its solutions."""

import itertools

import numpy as np
import scipy.sparse as sp

import meshsolve as ms

ENGINES = ("fronts", "columns")


def random_matrix(n, density, seed, complex_values=False, diagonal=0.0):
    """A random unsymmetric matrix with a complete matching that is not its diagonal."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=density, rng=rng, format="csr")
    A.data = rng.standard_normal(A.nnz)
    A = A + sp.csr_array((rng.uniform(1, 2, n), (np.arange(n), rng.permutation(n))), shape=(n, n))
    A = sp.csr_array(A + diagonal * sp.eye_array(n))
    if complex_values:
        A.data = A.data * np.exp(1j * rng.uniform(0, 7, A.nnz))
    return A


def mesh(nx, ny, seed=0, kind="grid"):
    """A convection-diffusion operator: unsymmetric values on a grid."""
    rng = np.random.default_rng(seed)
    A = sp.csr_array(ms.datasets.grid2d(nx, ny, boundary="dirichlet"))
    A.data = A.data * rng.uniform(0.5, 1.5, A.nnz)
    return A


def chain_of_blocks(blocks, size, seed=0):
    """Diagonal blocks, each coupled to the next two, so that each block has a level of its own."""
    rng, rows = np.random.default_rng(seed), []
    for b in range(blocks):
        row = [None] * blocks
        row[b] = sp.csr_array(rng.standard_normal((size, size)) + 3 * np.eye(size))
        for other in range(b + 1, min(b + 3, blocks)):
            row[other] = sp.random_array((size, size), density=0.4, rng=rng)
        rows.append(row)
    A = sp.csr_array(sp.block_array(rows))
    p, q = rng.permutation(A.shape[0]), rng.permutation(A.shape[0])
    return sp.csr_array(A[p][:, q])


def arrow(n):
    """Long columns whose steps change a dense tail."""
    rng = np.random.default_rng(4)
    A = sp.lil_array(sp.eye_array(n) * 5.0)
    A[n - 40:, :], A[:, n - 40:] = rng.standard_normal((40, n)), rng.standard_normal((n, 40))
    A.setdiag(A.diagonal() + 20.0)
    return sp.csr_array(A)


def backward_error(A, x, b):
    x, b = x.reshape(len(x), -1), b.reshape(len(b), -1)
    return (abs(b - A @ x).max(0) / (abs(A).sum(axis=1).max() * abs(x).max(0) + abs(b).max(0))).max(initial=0)


def assert_factors(A, F, tolerance=1e-10):
    B = (sp.diags_array(F.row_scale) @ A @ sp.diags_array(F.col_scale)).tocsr()[F.row_perm][:, F.col_perm]
    L, U = F.L, F.U
    assert (sp.triu(L, 1).nnz, sp.tril(U, -1).nnz) == (0, 0) and np.array_equal(L.diagonal(), np.ones(F.shape[0]))
    assert abs(L @ U - B).max() <= tolerance * max(1, abs(U).max())


def assert_solves(A, F, dtype=float, tolerance=1e-12):
    rng = np.random.default_rng(3)
    for k, trans in itertools.product((1, 3, 8, 13), "NTH"):
        b = rng.standard_normal((A.shape[0], k)).astype(dtype)
        if dtype is complex:
            b += 1j * rng.standard_normal(b.shape)
        M = {"N": A, "T": A.T, "H": A.conj().T}[trans]
        assert backward_error(M, F.solve(b, trans=trans), b) < tolerance, (k, trans)


ZOO = {
    "1 x 1": sp.csr_array([[-3.0]]),
    "diagonal": sp.csr_array(sp.diags_array(np.arange(1.0, 20))),
    "a chain": sp.csr_array(sp.diags_array([np.ones(69), np.full(70, 3.0), -np.ones(69)], offsets=[-1, 0, 1])),
    "a mesh": mesh(13, 12),
    "small blocks": random_matrix(40, 0.02, 3),
    "one large block": random_matrix(60, 0.05, 1),
    "blocks that read each other": chain_of_blocks(7, 6),
    "dense": random_matrix(45, 0.9, 6),
    "a dense tail": arrow(90),
}
