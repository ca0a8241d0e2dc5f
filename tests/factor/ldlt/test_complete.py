"""The complete factor: L, D, perm and scale, inertia, solves, delayed pivots, refactorization."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import starved
from hypothesis import given
from hypothesis import strategies as st
from saddles import decades, dependent, eigenvalue_signs, rank_deficient, regular, spoiled, symmetric

import meshsolve as ms

pytestmark = pytest.mark.native
REGULAR = regular()


def product(K):
    return K.L @ K.D @ K.L.T


def permuted(A, K):
    S = sp.diags_array(K.scale)
    return sp.csr_array(S @ sp.csr_array(A) @ S)[K.perm][:, K.perm]


@pytest.mark.parametrize("name", REGULAR)
def test_it_is_a_factorization(name):
    A = REGULAR[name]
    K = ms.ildl(A, fill_level=None)
    assert K.is_complete and sorted(K.perm) == list(range(A.shape[0]))
    assert abs(product(K) - permuted(A, K)).max() <= 1e-11
    assert abs(permuted(A, K)).max() <= 1 + 1e-12
    assert np.array_equal(K.L.diagonal(), np.ones(A.shape[0])) and sp.triu(K.L, 1).nnz == 0 and K.L.has_sorted_indices
    assert K.nnz == K.L.count_nonzero()
    assert abs(K.L).max() <= 100 * 1.01                       # the threshold test bounds growth


@pytest.mark.parametrize("name", REGULAR)
def test_solves_and_inertia(name):
    A = REGULAR[name]
    K, n = ms.ildl(A, fill_level=None), A.shape[0]
    S = sp.diags_array(K.scale)
    assert K.inertia == eigenvalue_signs(S @ A @ S)
    x = np.random.default_rng(0).standard_normal((n, 11))
    b = A @ x
    for columns in (1, 2, 3, 4, 11):
        y = K.solve(b[:, :columns])
        assert np.linalg.norm(b[:, :columns] - A @ y) <= 1e-10 * np.linalg.norm(b[:, :columns])
    assert np.allclose(K.solve(b[:, 0]), K.solve(b)[:, 0], rtol=1e-9, atol=1e-12 * abs(x).max())


def test_solutions_of_badly_scaled_rows_are_refined():
    A = decades()
    K, b = ms.ildl(A, fill_level=None), A @ np.random.default_rng(0).standard_normal((A.shape[0], 3))
    error = lambda x, b: abs(b - A @ x).max() / (abs(A).sum(axis=1).max() * abs(x).max() + abs(b).max())
    assert error(K.apply_columns(b), b) > 1e-10
    for columns in (slice(1, 3), slice(0, 1)):                # the first solution, and later ones
        assert error(K.solve(b[:, columns]), b[:, columns]) < 1e-15 and K.report.facts["refinement_steps"] in (1, 2)
    assert not K.solve(0 * b).any() and error(K.solve(b), b) < 1e-15
    K.refactor(sp.csr_array(A + 0 * A))
    assert error(K.solve(b), b) < 1e-15


def test_an_easy_right_hand_side_does_not_stop_refinement():
    A = decades()
    K, unit = ms.ildl(A, fill_level=None), np.eye(A.shape[0])[0]
    b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
    expected = K.solve(b)
    for easy in (unit, 0 * unit):
        K.refactor(A)
        K.solve(easy)
        assert np.array_equal(K.solve(b), expected)


def test_a_small_pivot_is_not_called_zero():
    A = np.array([[1.0, 1, 0], [1, 1 + 5e-11, 0], [0, 0, -1]])
    K = ms.ildl(A, fill_level=None)
    assert K.inertia == (2, 1, 0) and np.allclose(A @ K.solve([1.0, 2, 3]), [1, 2, 3], rtol=1e-5)
    assert ms.factorized(A).inertia == (2, 1, 0)


def test_ctrl_c_leaves_a_consistent_factor(monkeypatch):
    A, rng = decades(), np.random.default_rng(0)
    B = sp.csr_array(A.multiply(np.outer(10.0 ** rng.integers(-3, 4, A.shape[0]), np.ones(A.shape[0]))))
    B = sp.csr_array(B + B.T)
    K, b = ms.ildl(A, fill_level=None), rng.standard_normal(A.shape[0])
    factor = type(K._core).factor

    def interrupted(core, scaled, scale):
        factor(core, scaled, scale)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(type(K._core), "factor", interrupted)
        K.refactor(B)
    x = K.solve(b)
    assert np.array_equal(pickle.loads(pickle.dumps(K)).solve(b), x) and np.array_equal(K.refactor(B).solve(b), x)


@pytest.mark.parametrize("name", REGULAR)
def test_determinant(name):
    A = REGULAR[name]
    K, expected = ms.ildl(A, fill_level=None), np.linalg.slogdet(A.toarray())
    sign, logabsdet = K.slogdet()
    assert sign == expected.sign and logabsdet == pytest.approx(expected.logabsdet, rel=1e-9, abs=1e-9)
    assert K.refactor(2 * A).slogdet()[1] == pytest.approx(logabsdet + A.shape[0] * np.log(2))


def test_determinant_of_singular_and_incomplete_factors():
    assert ms.ildl(rank_deficient(), fill_level=None).slogdet() == (0.0, -np.inf)
    with pytest.raises(ms.InvalidInputError, match="complete"):
        ms.ildl(REGULAR["swaps"], fill_level=1).slogdet()


@pytest.mark.parametrize("name", REGULAR)
def test_condition(name):
    K, exact = ms.ildl(REGULAR[name], fill_level=None), 1 / np.linalg.cond(REGULAR[name].toarray(), 1)
    assert K.rcond() == 0 if K.inertia[2] else exact <= 1.001 * K.rcond() <= 3.1 * exact      # rcond is an upper bound


def test_condition_of_singular_and_incomplete_factors():
    assert ms.ildl(rank_deficient(), fill_level=None).rcond() == 0
    with pytest.raises(ms.InvalidInputError, match="complete"):
        ms.ildl(REGULAR["swaps"], fill_level=1).rcond()


def test_blocks_of_d_are_the_pivots():
    K = ms.ildl(REGULAR["swaps"], fill_level=None)
    assert K.D.nnz == 16 * 1 + 16 and K.report.facts["pairs"] == 8
    D = K.D.toarray()
    assert abs(np.tril(D, -2)).max() == 0


@given(st.integers(2, 40), st.floats(0.02, 0.5), st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 1.0]))
def test_random_matrices(n, density, seed, diagonal):
    A = symmetric(n, density, seed, diagonal)
    if A.count_nonzero() == 0:
        return
    K = ms.ildl(A, fill_level=None)
    S = sp.diags_array(K.scale)
    assert abs(product(K) - permuted(A, K)).max() <= 1e-10
    assert K.inertia == eigenvalue_signs(S @ A @ S)
    b = A @ np.ones(n)
    assert np.linalg.norm(A @ K.solve(b) - b) <= 1e-8 * max(np.linalg.norm(b), 1e-300)


def test_consistent_singular_systems_are_solved():
    A = rank_deficient()
    K = ms.ildl(A, fill_level=None)
    assert K.inertia == (20, 10, 3) and K.structural_rank == 33
    b = A @ np.arange(33.0)
    assert np.linalg.norm(A @ K.solve(b) - b) <= 1e-12 * np.linalg.norm(b)


@pytest.mark.parametrize("dtype, scale", [(np.float64, 1.0), (np.float64, 1e30), (np.float32, 1.0)])
def test_b_outside_the_range_gives_a_warning(dtype, scale):
    """Without the warning eigsh(L, sigma=0, OPinv=K) has wrong eigenvalues silently."""
    A = scale * rank_deficient()
    K = ms.ildl(A, fill_level=None, dtype=dtype)
    inside, outside = A @ np.arange(33.0), np.arange(33.0)
    assert K.inertia == (20, 10, 3)
    K.solve(inside)
    for apply in (K.solve, K.matvec, lambda b: K @ b, lambda b: K.solve(np.column_stack([inside, b]))):
        with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
            apply(outside)
    K.apply_columns(outside[:, None])                        # iterations check residuals themselves


def test_unmatched_rows_follow_their_neighbors():
    """Three constraints on every two unknowns. They are not delayed to the root, and dependent ones are no pivots."""
    rng = np.random.default_rng(0)
    groups = 10_000
    B = sp.block_diag([sp.coo_array(rng.standard_normal((3, 2))) for _ in range(groups)])
    H = sp.eye_array(2 * groups) + ms.datasets.grid2d(200, 100)
    A = sp.csr_array(sp.block_array([[H, B.T], [B, None]]))
    K = ms.ildl(A, fill_level=None)
    assert K.structural_rank == 4 * groups and K.inertia == (2 * groups, 2 * groups, groups)
    assert K.report.facts["delayed"] <= 4 * groups
    b = A @ rng.standard_normal(A.shape[0])
    assert np.linalg.norm(A @ K.solve(b) - b) <= 1e-12 * np.linalg.norm(b)


@pytest.mark.filterwarnings("ignore:.*not decided", "ignore:.*few rounding errors")      # rounded multiples of constraints
@pytest.mark.parametrize("n, m, seed", [(1000, 200, 2), (5000, 1000, 1)])
def test_repeated_constraints(n, m, seed):
    """Scalings stay moderate along rows that the matching may leave out; they could range from 1e-10 to 1e10."""
    rng = np.random.default_rng(seed)
    C = sp.csr_array((rng.standard_normal(4 * m), (np.repeat(np.arange(m), 4), rng.integers(0, n, 4 * m))), shape=(m, n))
    R = sp.vstack([C * rng.random() for _ in range(4)])
    A = sp.csr_array(sp.block_array([[sp.diags_array(rng.random(n) + 0.1), R.T], [R, None]]))
    b = A @ rng.standard_normal(A.shape[0])
    K = ms.ildl(A, fill_level=None)
    assert K.structural_rank < A.shape[0] and K.inertia == (n, m, 3 * m) and np.ptp(np.log10(K.scale)) < 5
    x, info = ms.solve(A, b, method="ildl")
    assert info.converged
    for solution in (K.solve(b), x):
        assert np.linalg.norm(A @ solution - b) <= 1e-13 * np.linalg.norm(b)


@pytest.mark.filterwarnings("ignore:.*not decided", "ignore:.*few rounding errors")
@pytest.mark.parametrize("n, m, seed", [(4000, 400, 5), (15_000, 1500, 4), (15_000, 1500, 8)])
def test_dependent_constraints(n, m, seed):
    """Zero pivots are found exactly: if there are any, pivots are chosen with a larger tolerance."""
    A = dependent(n, m, seed)
    K = ms.ildl(A, fill_level=None)
    assert K.structural_rank == A.shape[0] and K.inertia == (n, m, m // 2)
    b = A @ np.ones(A.shape[0])
    assert np.linalg.norm(A @ K.solve(b) - b) <= 1e-13 * np.linalg.norm(b)
    L = K.L
    for same in (pickle.loads(pickle.dumps(K)), K.refactor(A)):               # without a second attempt
        assert same.inertia == (n, m, m // 2) and np.array_equal(same.L.data, L.data)


@pytest.mark.parametrize("apart, dtype, within", [(1e-4, np.float64, 1e-9), (0.1, np.float32, 1e-2)])
def test_nearly_parallel_dense_constraints(apart, dtype, within):
    """Their pivots, sums of squares of scaled entries, are small, but none is zero."""
    rng = np.random.default_rng(0)
    C = np.ones((2, 10_000))
    C[1] += apart * rng.standard_normal(10_000)
    A = sp.csr_array(sp.block_array([[ms.datasets.grid2d(100, 100) + 0.1 * sp.eye_array(10_000), C.T], [C, None]]))
    K = ms.ildl(A, fill_level=None, dtype=dtype)
    b = A @ rng.standard_normal(10_002)
    assert K.inertia == (10_000, 2, 0) and np.linalg.norm(A @ K.solve(b) - b) <= within * np.linalg.norm(b)


def test_fronts_that_grow_leak_no_memory():
    """A dense front of 300 rows receives 20 more delayed columns each time."""
    rng = np.random.default_rng(0)
    D = rng.standard_normal((300, 300))
    C = sp.random_array((400, 300), density=0.05, rng=rng)
    matrix = lambda zeros: sp.csr_array(sp.block_array([[sp.diags_array(np.where(np.arange(400) < zeros, 0.0, 10.0)), C],
                                                        [C.T, D + D.T + 50 * np.eye(300)]]))
    K = ms.ildl(matrix(0), fill_level=None, threads=1)
    K.refactor(matrix(0))
    held, most = K.report.facts["bytes"], 0
    for zeros in range(20, 180, 20):
        most = max(most, K.refactor(matrix(zeros)).report.facts["bytes"])
    assert K.report.facts["delayed"] > 100
    assert most < 3 * held and K.refactor(matrix(0)).report.facts["bytes"] <= most


def test_dense_rows_are_scaled_by_their_largest_entries():
    A = np.random.default_rng(0).standard_normal((400, 400))
    K = ms.ildl(A + A.T, fill_level=None)
    largest = abs((A + A.T) * np.outer(K.scale, K.scale)).max(axis=1)
    assert largest.min() >= 0.5 and largest.max() <= 2


@pytest.mark.filterwarnings("ignore:.*not decided", "ignore:.*few rounding errors")      # rounded sums of constraints
@pytest.mark.parametrize("which", ["ones", "random", "normal"])
@pytest.mark.parametrize("again", [0, 1, 2])
def test_constraints_on_all_unknowns(which, again):
    """Few columns are delayed, although the entries of constraints add up to more than the pivots.

    `again` constraints are sums of others and give zero pivots."""
    L, rng = ms.datasets.grid2d(70, 70), np.random.default_rng(again)
    C = {"ones": np.cos(np.pi * np.outer(range(4), np.arange(4900) % 70 / 69)), "random": rng.random((4, 4900)),
         "normal": 10 ** rng.uniform(-4, 4, (4, 1)) * rng.standard_normal((4, 4900))}[which]
    C = sp.csr_array(np.vstack([C, rng.standard_normal((again, 4)) @ C]))
    A = sp.csr_array(sp.block_array([[L, C.T], [C, None]]))
    K = ms.ildl(A, fill_level=None)
    assert K.report.facts["delayed"] < 20 and K.inertia == (4900, 4, again)
    b = A @ rng.standard_normal(A.shape[0])
    assert np.linalg.norm(A @ K.solve(b) - b) <= 1e-10 * np.linalg.norm(b)
    assert K.refactor(16 * A).inertia == (4900, 4, again)


def test_a_regular_matrix_after_a_singular_one():
    """It is factored with the pivot tolerance level of the first one, also after unpickling."""
    rng = np.random.default_rng(1)
    A = sp.csr_array(dependent(1500, 150, 0) + sp.diags_array(np.r_[np.zeros(1500), np.full(225, -1e-300)]))
    K = ms.ildl(A, fill_level=None)
    assert K.inertia == (1500, 150, 75)
    B = sp.csr_array(A - sp.diags_array(np.r_[np.zeros(1500), rng.random(225)]))
    assert K.refactor(B).inertia == (1500, 225, 0)
    copied = pickle.loads(pickle.dumps(K))
    assert np.array_equal(copied.L.data, K.L.data) and np.array_equal(copied.perm, K.perm)


@pytest.mark.parametrize("asked, followed", [([4, 5, 1, 0, 2, 3], [4, 5, 1, 0, 2, 3]),       # the unmatched row is last
                                             ([4, 3, 1, 0, 2, 5], [4, 1, 0, 3, 2, 5]),       # row 3 moves behind row 0
                                             ([2, 3, 0, 1, 4, 5], [2, 0, 3, 1, 4, 5])])      # row 2 is paired with row 0
def test_a_given_order_is_kept_except_for_unmatched_rows(asked, followed):
    """Rows 2 and 3 have an entry in column 0 alone: one of them has no match."""
    A = np.diag([1.0, 2.0, 0.0, 0.0, 3.0, 4.0])
    A[0, 2] = A[2, 0] = A[0, 3] = A[3, 0] = 1.0
    K = ms.ildl(A, fill_level=None, ordering=asked)
    assert K.structural_rank == 5 and K.inertia == (4, 1, 1) and K.perm.tolist() == followed


def test_columns_without_a_pivot_are_delayed():
    A = sp.block_array([[None, sp.eye_array(40) + ms.datasets.grid2d(8, 5)], [sp.eye_array(40) + ms.datasets.grid2d(8, 5), None]])
    K = ms.ildl(A, fill_level=None, pairs=False, ordering="natural")
    assert K.report.facts["delayed"] > 0 and K.inertia == (40, 40, 0)
    assert abs(product(K) - permuted(A, K)).max() <= 1e-12
    b = np.ones((80, 3))
    assert abs(A @ K.solve(b) - b).max() <= 1e-11


def test_pairs_keep_the_fill_of_the_analysis():
    B = sp.eye_array(400) + ms.datasets.grid2d(20, 20)
    A = sp.csr_array(sp.block_array([[None, B], [B, None]]))
    assert ms.ildl(A, fill_level=None).report.facts["delayed"] < ms.ildl(A, fill_level=None, pairs=False).report.facts["delayed"]


@pytest.mark.parametrize("make", [lambda: ms.datasets.stokes(40), lambda: ms.datasets.kkt(3000, 1500, seed=4, kind="banded"),
                                  lambda: ms.datasets.helmholtz(14, 6, 3)])
def test_the_same_bits_on_any_number_of_threads(make):
    A = make()
    b = np.random.default_rng(1).standard_normal((A.shape[0], 2))
    one = ms.ildl(A, fill_level=None, threads=1)
    for threads in (2, 3, 7):
        many = ms.ildl(A, fill_level=None, threads=threads)
        assert np.array_equal(one.L.data, many.L.data) and np.array_equal(one.D.data, many.D.data)
        assert np.array_equal(one.perm, many.perm) and np.array_equal(one.solve(b), many.solve(b))


def test_refactor_chooses_new_pivots():
    A = ms.datasets.kkt(200, 90, seed=5)
    K = ms.ildl(A, fill_level=None)
    other = A.copy()
    other.data = A.data * np.random.default_rng(0).uniform(0.1, 3, A.nnz)
    other = sp.csr_array(other + other.T)
    first = K.solve(np.ones(290))
    x = K.refactor(other).solve(np.ones(290))
    assert np.linalg.norm(other @ x - 1) <= 1e-9 * np.linalg.norm(x)
    assert np.array_equal(K.refactor(A).solve(np.ones(290)), first)
    with pytest.raises(ms.PatternMismatchError):
        K.refactor(sp.csr_array(np.ones((290, 290))))
    assert np.array_equal(K.solve(np.ones(290)), first)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_column_that_is_not_finite_is_no_zero_pivot(threads):
    """Values that become NaN or infinite in the elimination: the row is named, and the earlier factor stays."""
    A, cases = spoiled()
    K = ms.ildl(A + sp.eye_array(A.shape[0]), fill_level=None, pairs=False, ordering="natural", threads=threads)
    x = K.solve(np.ones(A.shape[0]))
    for row, values in cases:
        with pytest.raises(ms.SingularMatrixError, match=f"overflowed in row {row}") as raised:
            K._core.factor(values, K.scale)
        assert raised.value.index == row
    assert np.array_equal(K.solve(np.ones(A.shape[0])), x)


def test_scaling_follows_new_values():
    A = sp.csr_array([[4.0, 1, 0], [1, 0, 2], [0, 2, -1]])
    K = ms.ildl(A, fill_level=None).refactor(A * 1e12)
    assert abs(permuted(A * 1e12, K)).max() <= 2 and np.allclose(A @ K.solve(np.ones(3)), 1e-12)


@pytest.mark.parametrize("fill_level", [None, 3])
@pytest.mark.parametrize("sizes", [np.logspace(-60, 60, 120), np.logspace(9, -9, 120), np.full(120, 1e-100)])
def test_scaling_is_recomputed_if_row_sizes_change(fill_level, sizes):
    """With the scaling of the earlier values some pivots would vanish: a wrong solution, and an inertia off by three."""
    A, b = ms.datasets.kkt(90, 30, seed=2), np.random.default_rng(0).standard_normal(120)
    S = sp.diags_array(sizes)
    earlier, alike = sp.csr_array(S @ A @ S), ms.ildl(A, fill_level=fill_level)
    K = ms.ildl(earlier, fill_level=fill_level)
    first = K.solve(b)
    K.refactor(A)
    x, info = ms.sqmr(A, b, M=K, rtol=1e-12)
    assert K.inertia == alike.inertia and info.converged and info.iterations <= 20
    assert np.array_equal(K.refactor(earlier).solve(b), first)


def test_refactor_from_tiny_to_huge_values():
    A = np.array([[2.0, 1.0, 0.0], [1.0, 0.0, 3.0], [0.0, 3.0, -1.0]])
    for before, after in ((1e-200, 1e200), (1e200, 1e-200)):
        K = ms.ildl(before * A, fill_level=None).refactor(after * A)
        assert K.inertia == (2, 1, 0) and np.allclose(K.solve(after * A @ np.ones(3)), 1)


def test_single_precision_is_a_preconditioner():
    A = ms.datasets.stokes(16)
    b = np.random.default_rng(0).standard_normal(A.shape[0])
    K = ms.ildl(A, fill_level=None, dtype=np.float32)
    x, info = ms.sqmr(A, b, M=K, rtol=1e-10)
    assert info.converged and 1 < info.iterations < 12 and np.linalg.norm(A @ x - b) <= 1e-10 * np.linalg.norm(b)


@pytest.mark.parametrize("size", [1e-90, 1e-40, 1e40, 1e90])
def test_single_precision_at_any_scale_of_a_and_b(size):
    """Values are scaled to about 1 before the conversion to float32: they would overflow or lose digits."""
    A, b = np.array([[2.0, 1.0], [1.0, -1.0]]), np.array([[3.0, 3e-150], [0.0, 0.0]])
    x = ms.ildl(A * size, fill_level=None, dtype=np.float32).solve(b)
    assert np.allclose(x * size, [[1.0, 1e-150], [1.0, 1e-150]], rtol=1e-6, atol=0)


def test_lower_triangle():
    A = ms.datasets.kkt(30, 10)
    assert np.array_equal(ms.ildl(sp.tril(A), lower=True).L.data, ms.ildl(A).L.data)


@pytest.mark.parametrize("fill_level", [None, 1])
def test_refactor_reads_the_lower_triangle_alone(fill_level):
    A = ms.datasets.kkt(30, 10)
    K = ms.ildl(sp.tril(A), fill_level=fill_level, lower=True)
    expected = ms.ildl(A, fill_level=fill_level).refactor(2 * A).L.data
    for F in (K, pickle.loads(pickle.dumps(K)), copy.deepcopy(K)):
        assert np.array_equal(F.refactor(2 * sp.tril(A)).L.data, expected)
    with pytest.raises(ms.NotSymmetricError):
        ms.ildl(A, fill_level=fill_level).refactor(sp.tril(A))


def test_small_update_matrices_take_little_memory():
    """A banded matrix has thousands of update matrices, together half as large as the factor.

    The number alive at once depends on the relative speed of the threads."""
    A = ms.datasets.kkt(33000, 17000, seed=3, kind="banded")
    one, *twos = (ms.ildl(A, fill_level=None, threads=t) for t in (1, 2, 2, 2))
    assert min(two.report.facts["bytes"] for two in twos) < 1.45 * one.report.facts["bytes"]
    assert np.array_equal(one.L.data, twos[0].L.data)


def test_delayed_columns_take_the_memory_of_one_front():
    """Three quarters of the columns are in fronts with delayed columns. These fronts have no second block of planned size."""
    A = ms.datasets.stokes(200)
    K = ms.ildl(A, fill_level=None, threads=1)
    assert K.report.facts["delayed"] > 20_000 and K.report.facts["bytes"] < 2.4 * 8 * K.nnz
    held = K.refactor(A).report.facts["bytes"]                      # includes the values of the previous matrix
    assert K.refactor(A).report.facts["bytes"] == held


@pytest.mark.filterwarnings("ignore:.*not decided", "ignore:.*few rounding errors")
@pytest.mark.parametrize("name, inertia, rank", [("aug3d_kkt.mtx", (3161, 1000, 712), 4161), ("stcqp1_kkt.mtx.gz", (4097, 939, 1113), 5036),
                                                 ("ubh1_kkt.mtx.gz", (18003, 12000, 6), 30003),
                                                 ("hangGlider_2.mtx", (914, 733, 0), 1647),
                                                 # eigenvalues of the scaled matrix: 54 up to 2e-14, then 2e-4; one of 7e-14
                                                 ("ns1830653_kkt.mtx.gz", (3996, 2878, 54), 6928),
                                                 ("cbs-cta_kkt.mtx.gz", (34661, 10111, 1), 44773)])
def test_real_systems(data_dir, name, inertia, rank):
    from scipy.io import mmread

    A = sp.csr_array(mmread(data_dir / "indefinite" / name)).astype(float)
    K = ms.ildl(A)
    assert K.is_complete and K.inertia == inertia and K.structural_rank == rank
    b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
    x, info = ms.solve(A, b, method="ildl")
    assert info.converged and np.linalg.norm(A @ x - b) <= 1e-10 * np.linalg.norm(b)


def test_zenios_keeps_its_structural_rank(data_dir):
    from scipy.io import mmread

    A = sp.csr_array(mmread(data_dir / "indefinite" / "zenios.mtx.gz")).astype(float)
    b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
    K = ms.ildl(A)
    assert K.structural_rank == 266 and ms.solve(A, b, method="ildl", rtol=1e-9)[1].converged


REFUSED_ONCE = """
import numpy as np
import meshsolve as ms

A = ms.datasets.kkt(600, 200)
b = np.arange(1.0 * A.shape[0])
K = ms.ildl(A, fill_level=None, threads=1)
x = K.solve(b)
for k in range(40):
    K._core._prepare(False)
    starve(64, 1 << 40, k)
    try:
        K._core.factor(K._numeric.scaled, K.scale)
    except MemoryError:
        pass
    feed()
    K._core.factor(K._numeric.scaled, K.scale)
    assert np.array_equal(K.solve(b), x), k
print("ok")
"""


@starved.available
def test_a_factor_that_lacked_memory_is_made_later():
    """Arrays allocated before a failed allocation are not used as a factor."""
    assert starved.python(REFUSED_ONCE) == "ok\n"
