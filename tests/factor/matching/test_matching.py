"""Matchings against scipy's assignment on dense matrices, scalings, structural rank, block triangular form."""

import time

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import connected_components, structural_rank

import meshsolve as ms
from meshsolve import _core
from meshsolve.factor.matching import block_triangular, maximum_product, require_full_rank
from meshsolve.sparse.matrix import as_csr

pytestmark = pytest.mark.native


def random_matrix(n, density, seed, spread=3.0, complex_values=False):
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=density, rng=rng, format="csr")
    A.data = 10 ** rng.uniform(-spread, spread, A.nnz) * rng.choice([-1.0, 1.0], A.nnz)
    if complex_values:
        A = A * np.exp(2j)
    return as_csr(A, dtype=np.complex128 if complex_values else np.float64)


matrices = st.builds(random_matrix, st.integers(1, 24), st.floats(0.1, 0.6), st.integers(0, 10**6), complex_values=st.booleans())


def log_product(M, row_of):
    dense = abs(M.to_scipy().toarray())
    return np.log10(dense[row_of, np.arange(M.n)]).sum()


@given(matrices)
def test_rank_product_and_scaling(M):
    found = maximum_product(M)
    assert found.rank == structural_rank(M.to_scipy()) == np.count_nonzero(found.row_of >= 0)
    matched = found.row_of[found.row_of >= 0]
    assert len(set(matched.tolist())) == len(matched)
    if found.rank < M.n:
        with pytest.raises(ms.SingularMatrixError):
            require_full_rank(M, found)
        return
    scaled = found.row_scale[:, None] * abs(M.to_scipy().toarray()) * found.col_scale
    assert scaled.max() <= 1 + 1e-9
    on_diagonal = scaled[found.row_of, np.arange(M.n)]
    assert on_diagonal.min() >= 0.1 - 1e-9
    with np.errstate(divide="ignore"):
        best = linear_sum_assignment(np.where(scaled > 0, -np.log10(np.where(scaled > 0, scaled, 1)), 1e6))
    assert scaled[best].min() > 1 - 1e-6, "the scaling makes every entry of a best matching 1"
    exchanged = np.count_nonzero(on_diagonal < 1 - 1e-6)
    assert log_product(M, found.row_of) >= np.log10(abs(M.to_scipy().toarray())[best]).sum() - exchanged - 1e-6


def test_a_strong_diagonal_is_kept():
    A = as_csr(np.array([[1.0, 2.0], [2.0, 1.0]]))
    assert maximum_product(A).row_of.tolist() == [0, 1]
    assert maximum_product(as_csr(np.array([[1.0, 200.0], [200.0, 1.0]]))).row_of.tolist() == [1, 0]


def test_stored_zeros_do_not_count():
    A = sp.csr_array((np.array([0.0, 1.0, 2.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert maximum_product(as_csr(A)).row_of.tolist() == [1, 0]


@pytest.mark.parametrize("rows, index, word", [
    ([[1, 2, 0], [0, 0, 0], [0, 1, 1]], 1, "row 1 has no nonzero"), ([[1, 0, 2], [1, 0, 1], [3, 0, 1]], 1, "column 1 has no nonzero"),
    ([[1, 1, 1], [1, 0, 0], [1, 0, 0]], 2, "Row 2 shares its columns")])
def test_a_structurally_singular_matrix_names_a_row(rows, index, word):
    M = as_csr(np.array(rows, float))
    with pytest.raises(ms.SingularMatrixError, match=word) as caught:
        require_full_rank(M, maximum_product(M))
    assert caught.value.index == index


@given(matrices)
def test_block_triangular_form(M):
    found = maximum_product(M)
    if found.rank < M.n:
        return
    block, count = block_triangular(M, found.row_of)
    permuted = sp.csr_array(M.to_scipy() != 0)[found.row_of]
    rows, columns = permuted.nonzero()
    assert (block[rows] <= block[columns]).all(), "nothing lies below the blocks"
    expected, labels = connected_components(permuted, directed=True, connection="strong")
    assert count == expected and len({*zip(block.tolist(), labels.tolist(), strict=True)}) == count
    graph = sp.csr_array((np.ones(0), np.zeros(0, np.int32), np.zeros(M.n + 1, np.int64)), shape=(M.n, M.n))
    inside = block[rows] == block[columns]
    graph = sp.coo_array((np.ones(inside.sum()), (rows[inside], columns[inside])), shape=(M.n, M.n)).toarray() > 0
    indptr, indices = _core.diagonal_blocks(M.indptr, M.indices, found.row_of, block)
    ours = sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(M.n, M.n)).toarray() > 0
    assert np.array_equal(ours, (graph | graph.T) & ~np.eye(M.n, dtype=bool))


def test_deep_searches_do_not_recurse():
    n = 200_000
    ring = as_csr(sp.csr_array(sp.diags_array([np.ones(n), np.ones(n - 1), [1.0]], offsets=[0, 1, 1 - n])))
    assert block_triangular(ring, np.arange(n, dtype=np.int32))[1] == 1
    line = as_csr(sp.csr_array(sp.diags_array([np.ones(n), np.ones(n - 1)], offsets=[0, 1])))
    assert block_triangular(line, np.arange(n, dtype=np.int32))[1] == n


def test_real_circuits_take_no_time(data_dir):
    for path in sorted((data_dir / "circuit").glob("*.mtx*")):
        A = scipy.io.mmread(path, spmatrix=False)
        M = as_csr(A, dtype=np.complex128 if A.dtype.kind == "c" else np.float64)
        start = time.process_time()
        found = maximum_product(M)
        assert time.process_time() - start < 600, path.name          # milliseconds; minutes if the searches were quadratic
        assert found.rank == M.n or path.name.startswith("pdn_pg1_C")
