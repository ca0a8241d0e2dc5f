"""Symmetrized matching: scaling, pairs, rank, compression."""


import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from saddles import rank_deficient, regular, symmetric
from scipy.optimize import linear_sum_assignment
from scipy.sparse.csgraph import structural_rank

import meshsolve as ms
from meshsolve.factor.matching import symmetric_pairs
from meshsolve.sparse.matrix import as_symmetric

pytestmark = pytest.mark.native


def check(A):
    M = as_symmetric(A)
    pairs = symmetric_pairs(M)
    S = sp.diags_array(pairs.scale)
    B = (S @ M.to_scipy() @ S).toarray()
    assert abs(B).max(initial=0) <= 1 + 1e-9
    assert pairs.rank == structural_rank(sp.csr_array(np.where(M.to_scipy().toarray() != 0, 1.0, 0.0)))
    paired = np.flatnonzero(pairs.partner >= 0)
    assert np.array_equal(pairs.partner[pairs.partner[paired]], paired) and (pairs.partner[paired] != paired).all()
    if pairs.rank == M.n:
        assert np.allclose(abs(B[paired, pairs.partner[paired]]), 1)
        alone = np.flatnonzero(pairs.partner < 0)
        assert (abs(B[alone]).max(axis=1) > 1 - 1e-9).all()
    return pairs, B


def test_the_zoo():
    for A in [*regular().values(), rank_deficient()]:
        check(A)


@given(st.integers(1, 30), st.floats(0.02, 0.4), st.integers(0, 10**6), st.sampled_from([0.0, 0.5, 1.0]))
def test_random(n, density, seed, diagonal):
    check(symmetric(n, density, seed, diagonal))


@pytest.mark.parametrize("kind", ["random", "banded"])
def test_the_matching_is_a_best_one(kind):
    """The initial heuristic matches few rows of a KKT matrix."""
    A = ms.datasets.kkt(250, 120, seed=5, kind=kind)
    _, B = check(A)
    with np.errstate(divide="ignore"):
        best = linear_sum_assignment(np.where(B != 0, -np.log10(abs(B)), 1e6))
    assert abs(B[best]).min() > 1 - 1e-9, "the scaling makes every entry of a best matching 1"


def test_rows_without_a_column_keep_a_fair_scaling():
    """40 rows have entries in 10 columns only."""
    rng = np.random.default_rng(3)
    B = sp.csr_array(10 ** rng.uniform(-2, 2, (40, 10)))
    pairs, _ = check(sp.block_array([[None, B], [B.T, None]]))
    assert pairs.rank == 20 and abs(np.log10(pairs.scale)).max() < 3


def test_the_same_matching_on_any_number_of_threads():
    M = as_symmetric(ms.datasets.kkt(6000, 2500, kind="banded"))
    one, three = symmetric_pairs(M), symmetric_pairs(M, threads=3)
    assert np.array_equal(one.scale, three.scale) and np.array_equal(one.partner, three.partner)


def test_strong_diagonals_are_single_pivots():
    pairs, _ = check(ms.datasets.grid2d(8, 8, boundary="dirichlet"))
    assert (pairs.partner == -1).all() and len(pairs.first) == 64


def test_an_odd_cycle_releases_its_largest_diagonal():
    A = sp.csr_array([[0.0, 9, 9], [9, 0, 9], [9, 9, 0.5]])
    pairs, _ = check(A)
    assert pairs.partner.tolist() == [1, 0, -1]


def test_stored_zeros_do_not_count():
    A = sp.csr_array((np.array([0.0, 2, 2, 0]), (np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]))), shape=(2, 2))
    assert check(A)[0].partner.tolist() == [1, 0]


def test_compression_and_its_expansion():
    A = ms.datasets.kkt(40, 20, seed=2)
    pairs, _ = check(A)
    n, dense = 60, A.toarray() != 0
    member = np.zeros((len(pairs.first), n), bool)
    member[np.arange(len(pairs.first)), pairs.first] = True
    two = np.flatnonzero(pairs.partner[pairs.first] >= 0)
    member[two, pairs.partner[pairs.first[two]]] = True
    quotient = (member.astype(int) @ dense @ member.T.astype(int)) > 0
    np.fill_diagonal(quotient, False)
    assert np.array_equal(pairs.graph.to_scipy().toarray() > 0, quotient)
    expanded = (member.T.astype(int) @ (quotient | np.eye(len(quotient), dtype=bool)) @ member.astype(int)) > 0
    np.fill_diagonal(expanded, False)
    assert np.array_equal(pairs.pattern().to_scipy().toarray() > 0, expanded)
    rows = pairs.expand(np.arange(len(pairs.first)))
    assert sorted(rows) == list(range(n))


def test_graphs_and_patterns_made_by_several_threads():
    M = as_symmetric(ms.datasets.kkt(20000, 8000, kind="banded"))
    one, three = symmetric_pairs(M), symmetric_pairs(M, threads=3)
    for mine, theirs in ((one.graph, three.graph), (one.pattern(), three.pattern())):
        assert np.array_equal(mine.indptr, theirs.indptr) and np.array_equal(mine.indices, theirs.indices)


def test_unpaired_on_request():
    assert (symmetric_pairs(as_symmetric(ms.datasets.stokes(5)), paired=False).partner == -1).all()


@pytest.mark.parametrize("exponent", [-1000, -700, 0, 700, 1000])
def test_a_common_factor_changes_the_scaling_alone(exponent):
    """Rows that differ by six decades, one row of zeros, values near the ends of the range."""
    rng = np.random.default_rng(0)
    R = sp.random_array((20, 20), density=0.1, rng=rng, data_sampler=lambda size: rng.standard_normal(size) * 10.0 ** rng.uniform(-3, 3, size))
    A = sp.csr_array(R + R.T)
    near, far = (symmetric_pairs(as_symmetric(M)) for M in (A, A * 2.0**exponent))
    assert near.rank == far.rank == 19 and np.array_equal(near.partner, far.partner)
    used = np.diff(A.indptr) > 0
    assert np.allclose(far.scale[used] * 2.0 ** (exponent / 2), near.scale[used], rtol=1e-9)
    assert ms.ildl(A * 2.0**exponent, fill_level=None).inertia == ms.ildl(A, fill_level=None).inertia


def bordered(n, k, seed, corner, lonely):
    """A random symmetric matrix with k dense rows at random positions, and the numbers of the other rows.

    `lonely` of the other rows have entries in dense columns only."""
    rng = np.random.default_rng(seed)
    H = symmetric(n, 4 / n, seed, 0.7) + sp.diags_array(np.where(rng.random(n) < 0.5, 0.0, 1e-3))
    keep = sp.diags_array(np.where(np.arange(n) < lonely, 0.0, 1.0))
    C = sp.csr_array(10 ** rng.uniform(-6, 6, (k, 1)) * rng.standard_normal((k, n)))
    A = sp.csr_array(sp.block_array([[keep @ H @ keep, C.T], [C, corner * sp.csr_array(np.ones((k, k))) if corner else None]]))
    A.eliminate_zeros()
    perm = rng.permutation(n + k)
    return sp.csr_array(A[perm][:, perm]), np.flatnonzero(perm < n)


@pytest.mark.parametrize("k, lonely", [(1, 0), (4, 0), (12, 0), (4, 1), (12, 12), (4, 5)])
@pytest.mark.parametrize("corner", [0.0, 1.0, 1e14])
def test_dense_rows_are_set_aside_if_the_rest_has_a_matching(k, lonely, corner):
    A, rest = bordered(400, k, 10 * k + lonely, corner, lonely)
    M = as_symmetric(A)
    pairs = symmetric_pairs(M)
    B = sp.diags_array(pairs.scale) @ M.to_scipy() @ sp.diags_array(pairs.scale)
    assert abs(B).max() <= 1 + 1e-9 and pairs.rank == structural_rank(A) and (structural_rank(A[rest][:, rest]) == 400) == (lonely == 0)
    if lonely == 0:
        alone = symmetric_pairs(as_symmetric(A[rest][:, rest]))
        assert np.array_equal(pairs.scale[rest], alone.scale)
    eigenvalues = np.linalg.eigvalsh(B.toarray())
    if abs(eigenvalues).min() > 1e-8:
        assert ms.ildl(A, fill_level=None).inertia == ((eigenvalues > 0).sum(), (eigenvalues < 0).sum(), 0)


def test_a_hundred_dense_constraints_are_set_aside():
    """Shortest paths would visit all dense rows for each dense row. The scaling of the grid does not depend on them."""
    L = ms.datasets.grid2d(120, 120)
    C = sp.csr_array(np.random.default_rng(0).random((100, 14_400)))
    A = as_symmetric(sp.block_array([[L, C.T], [C, None]]))
    pairs, alone = symmetric_pairs(A), symmetric_pairs(as_symmetric(L))
    assert pairs.rank == 14_500 and np.array_equal(pairs.scale[:14_400], alone.scale)
