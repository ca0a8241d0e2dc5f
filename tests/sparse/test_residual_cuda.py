"""b - A X on the GPU, also of matrices with rows much longer than the others, and diagonals; on the kernel harness and on a GPU."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from on_device import to_cuda, to_numpy

from meshsolve.sparse import product

LONGEST = 1024                          # in product.cu


def with_rows(lengths, columns=3000, seed=0):
    """A matrix whose rows have these lengths."""
    rng, indptr = np.random.default_rng(seed), np.append(0, np.cumsum(lengths))
    indices = np.concatenate([np.sort(rng.choice(columns, length, replace=False)) for length in lengths])
    return sp.csr_array((rng.standard_normal(indptr[-1]), indices, indptr), shape=(len(lengths), columns))


MATRICES = {
    "short rows": with_rows([3, 0, 5] * 70),
    "middling rows": with_rows([20, 90, 33] * 20),          # several threads a row
    "a hub": with_rows([2] * 150 + [3000] + [4] * 75),
    "hubs side by side": with_rows([LONGEST + 1] * 5 + [LONGEST] + [1] * 80),
}


def residual(A, X, B, magnitudes):
    parts = A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data
    return to_numpy(product.residual(*map(to_cuda, parts), to_cuda(X), to_cuda(B), magnitudes))


def check(A, k, magnitudes=False):
    X, B = (np.random.default_rng(1).standard_normal((rows, k)) for rows in A.shape[::-1])
    R = residual(A, X, B, magnitudes)
    assert np.allclose(R, B - (abs(A) if magnitudes else A) @ X, rtol=1e-12, atol=1e-11)
    return R


@each("magnitudes", [False, True])
@each("k", [1, 3])
@each("name", MATRICES)
def test_residuals_equal_those_of_numpy(cuda, name, k, magnitudes):
    check(MATRICES[name], k, magnitudes)


@pytest.mark.sanitize
def test_blocks_of_any_size(varied):
    for A in (MATRICES["middling rows"], MATRICES["hubs side by side"]):
        assert np.array_equal(check(A, 2), check(A, 2))


def test_more_rows_than_a_grid_has_blocks(short_grids):
    check(MATRICES["a hub"], 2)


@pytest.mark.sanitize
def test_the_diagonal_of_a_matrix(varied, short_grids):
    A = sp.random_array((700, 700), density=0.01, rng=np.random.default_rng(0), format="csr") + sp.diags_array(np.arange(700.0) % 3)
    A = sp.csr_array(A)                                     # a third of the rows have no diagonal entry, or a small one
    A.eliminate_zeros()
    parts = A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data
    assert np.array_equal(to_numpy(product.matrix_diagonal(*map(to_cuda, parts))), A.diagonal())


def test_a_long_row_is_the_sum_of_a_block(varied):
    """A thread block, not one thread, sums a long row. Rounding shows it: ones added to 2^53 by the same thread are lost."""
    A = sp.csr_array(np.ones((1, 2000)))
    X = np.ones((2000, 1))
    X[0] = 2.0**53
    assert residual(A, X, np.zeros((1, 1)), False)[0, 0] < -2.0**53
