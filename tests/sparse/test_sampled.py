"""Sampled products -Y X^T and sums of contributions, on the host and on the GPU."""

import numpy as np
import pytest
from on_device import to_cuda, to_numpy

from meshsolve.sparse.product import assembled, sampled_product


def problem(k, seed=0):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 40, (2, 20_000)).astype(np.int32)
    return rows, columns, *(rng.standard_normal((40, k) if k else 40) for _ in range(2))


@pytest.mark.parametrize("k", [0, 1, 3, 9])
def test_entries_of_the_product(k):
    rows, columns, Y, X = problem(k)
    expected = -(Y.reshape(40, -1) @ X.reshape(40, -1).T)[rows, columns]
    found = sampled_product(rows, columns, Y, X)
    assert found.shape == (20_000,) and abs(found - expected).max() <= 1e-14 * 9
    assert np.array_equal(sampled_product(rows, columns, Y, X, threads=3), found)
    assert np.array_equal(sampled_product(rows, columns, np.asfortranarray(Y), X), found)


def test_the_gpu_has_the_same_bits(cuda):
    for k in (0, 3):
        rows, columns, Y, X = problem(k)
        found = sampled_product(*map(to_cuda, (rows, columns, Y, X)))
        assert np.array_equal(to_numpy(found), sampled_product(rows, columns, Y, X))


def test_sums_of_contributions_on_the_gpu(cuda):
    values, ptr = np.random.default_rng(0).standard_normal(300), np.array([0, 1, 1, 5, 300])
    source = np.random.default_rng(1).permutation(300).astype(np.int32)
    found = to_numpy(assembled(*map(to_cuda, (ptr, source, values))))
    assert np.allclose(found, [values[source[a:b]].sum() for a, b in zip(ptr, ptr[1:])], rtol=1e-13, atol=0)
