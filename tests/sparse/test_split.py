"""The parts of constraints compared with scipy: free blocks and couplings, components, means."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from meshsolve.sparse.constraints import Fixed, Pinned
from meshsolve.sparse.matrix import as_symmetric
from meshsolve.sparse.rows import components, subtract_means


def symmetric(n, density, seed):
    A = sp.random_array((n, n), density=density, rng=np.random.default_rng(seed), format="csr")
    return sp.csr_array(A + A.T)


@pytest.mark.native
@given(n=st.integers(2, 60), density=st.floats(0, 0.3), seed=st.integers(0, 999), threads=st.integers(1, 3))
def test_the_split_equals_that_of_scipy(n, density, seed, threads):
    A = symmetric(n, density, seed)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(n)[:rng.integers(1, n)]
    fixed = Fixed(as_symmetric(A), rows)
    block = fixed.reduce(as_symmetric(A), threads)
    free = np.setdiff1d(np.arange(n), rows)
    assert np.array_equal(block.to_scipy().toarray(), A[free][:, free].toarray())
    assert np.array_equal(fixed.coupling.toarray(), A[free][:, rows].toarray())
    assert np.array_equal(block.to_scipy().sorted_indices().indices, block.indices)
    perm = rng.permutation(n)
    assert np.array_equal(free[fixed.restrict(perm)], perm[np.isin(perm, free)])


def test_a_large_matrix_is_split_by_several_threads():
    A = symmetric(30_000, 1e-4, 0)
    rows = np.arange(0, 30_000, 7)
    one, three = (Fixed(as_symmetric(A), rows).reduce(as_symmetric(A), threads) for threads in (1, 3))
    assert np.array_equal(one.indptr, three.indptr) and np.array_equal(one.indices, three.indices) and np.array_equal(one.data, three.data)


@pytest.mark.native
@given(n=st.integers(1, 80), density=st.floats(0, 0.05), seed=st.integers(0, 999))
def test_components_equal_those_of_scipy(n, density, seed):
    A = symmetric(n, density, seed)
    A.data[np.random.default_rng(seed).random(A.nnz) < 0.3] = 0
    A = sp.csr_array(A.maximum(A.T))
    zeros = A + sp.csr_array((np.zeros(n), (np.arange(n), np.arange(n)[::-1])), shape=(n, n))       # they join nothing
    count, component = components(as_symmetric(zeros))
    expected = connected_components(A, directed=False)
    assert count == expected[0] and np.array_equal(component, expected[1]) and component.dtype == np.int32


@pytest.mark.native
@given(n=st.integers(1, 9000), k=st.integers(0, 4), count=st.integers(1, 3), seed=st.integers(0, 99))
def test_means_are_subtracted(n, k, count, seed):
    rng = np.random.default_rng(seed)
    component = rng.integers(0, count, n).astype(np.int32)
    size = np.maximum(np.bincount(component, minlength=count), 1).astype(np.float64)
    block = rng.standard_normal((n, k)) + 3
    means = np.stack([np.bincount(component, c, count) / size for c in block.T], 1) if k else np.zeros((count, 0))
    expected = block - means[component]
    before, lengths = block.copy(), subtract_means(block, component, size)
    assert np.allclose(block, expected, atol=1e-13)
    expected = np.linalg.norm(before - expected, axis=0)
    assert lengths.shape == (k,) and np.allclose(lengths, expected, rtol=1e-9, atol=1e-9)


def test_the_first_row_of_each_component_is_pinned():
    path = sp.csr_array(np.array([[1.0, -1], [-1, 1]]))
    A = sp.block_diag([path, sp.csr_array((1, 1)), path, path]).tocsr()
    order = [3, 1, 0, 6, 2, 4, 5]
    pinned = Pinned(as_symmetric(sp.csr_array(A)[order][:, order]))
    assert pinned.components.count == 4 and pinned.rows.tolist() == [0, 1, 3, 4]
