"""LU factors against dense solves: both engines, real and complex, blocks, exchanges, refactorization, hostile values."""

import itertools
import threading
import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import starved
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve import _core
from meshsolve.arrays import as_csr
from meshsolve.factor.glu import levels_by
from meshsolve.factor.glu.backward import residual
from meshsolve.factor.refine import backward_error as backward_error_of

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


def backward_error(A, x, b):
    x, b = x.reshape(len(x), -1), b.reshape(len(b), -1)
    return (abs(b - A @ x).max(0) / (abs(A).sum(axis=1).max() * abs(x).max(0) + abs(b).max(0))).max()


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


# ---- both engines -----------------------------------------------------------------------------------------------------


@given(st.integers(1, 60), st.floats(0.0, 0.2), st.integers(0, 10**6), st.sampled_from(ENGINES), st.booleans())
def test_random_matrices(n, density, seed, engine, complex_values):
    A = random_matrix(n, density, seed, complex_values)
    if np.linalg.cond(A.toarray()) > 1e8:
        return
    F = ms.lu(A, engine=engine)
    assert_factors(A, F)
    assert_solves(A, F, complex if complex_values else float)


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("make", [lambda: mesh(40, 31), lambda: random_matrix(400, 0.02, 4, diagonal=3.0), lambda: mesh(9, 9) * (1 + 0.5j),
                                  lambda: sp.csr_array(np.random.default_rng(5).standard_normal((300, 300))),
                                  lambda: sp.csr_array(np.random.default_rng(6).standard_normal((160, 160)) * (1 - 2j)),
                                  lambda: sp.csr_array(sp.block_array([[mesh(12, 12), random_matrix(144, 0.01, 2)], [None, mesh(16, 9)]]))],
                         ids=["mesh", "random", "complex mesh", "dense", "complex dense", "two blocks"])
def test_structures(make, engine):
    A = make()
    F = ms.lu(A, engine=engine)
    assert F.report.facts["engine"] == F.engine == engine and F.report.facts["perturbed_pivots"] == 0
    assert_factors(A, F)
    assert_solves(A, F, A.dtype.type if A.dtype.kind == "c" else float)


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
def test_tiny_and_degenerate_shapes(engine):
    for A in ([[5.0]], np.eye(7), np.eye(6)[::-1] * 3, np.triu(np.ones((9, 9))), np.tril(np.ones((9, 9)))):
        A = sp.csr_array(np.asarray(A, float))
        F = ms.lu(A, engine=engine)
        assert_factors(A, F)
        assert_solves(A, F)
        assert F.solve(np.zeros((A.shape[0], 0))).shape == (A.shape[0], 0)


def test_the_result_does_not_depend_on_threads():
    A, b = mesh(150, 130, 1), np.random.default_rng(0).standard_normal((150 * 130, 9))
    for engine in ENGINES:
        results = []
        for threads in (1, 2, 5):
            F = ms.lu(A, engine=engine, threads=threads)
            results.append((F.solve(b), F.solve(b[:, 0], trans="T"), F.refactor(A * 1.5).solve(b)))
        for other in results[1:]:
            assert all(np.array_equal(x, y) for x, y in zip(results[0], other, strict=True)), engine


def in_many_blocks(rng):
    """A large block of chains between smaller ones, with entries above all of them, rows and columns shuffled."""
    chains = ms.datasets.ladder(16)
    before, after = (sp.diags_array(rng.uniform(1, 2, 300)) + sp.triu(sp.random_array((300, 300), density=0.02, rng=rng), 1)
                     for _ in range(2))
    above = [sp.random_array(shape, density=1e-3, rng=rng) for shape in ((300, chains.shape[0]), (chains.shape[0], 300))]
    A = sp.csr_array(sp.block_array([[before, above[0], None], [None, chains, above[1]], [None, None, after]]))
    return sp.csr_array(A[rng.permutation(A.shape[0])][:, rng.permutation(A.shape[0])])


@pytest.mark.parametrize("kind", [float, complex])
def test_threads_share_one_right_hand_side_of_the_columns_engine(kind):
    rng = np.random.default_rng(12)
    A = in_many_blocks(rng).astype(kind)
    A.data *= rng.uniform(0.9, 1.1, A.nnz) * (1 if kind is float else 1 + 0.2j)
    factors = [ms.lu(A, engine="columns", threads=t) for t in (1, 2, 5)]
    assert factors[0].report.facts["blocks"] > 500
    for k in (1, 3, 9):
        b = rng.standard_normal((A.shape[0], k))
        for trans in "NTH":
            expected = factors[0].solve(b, trans=trans)
            assert backward_error({"N": A, "T": A.T, "H": A.conj().T}[trans], expected, b) < 1e-14
            for F in factors[1:]:
                before = _core.shared_calls()
                assert np.array_equal(F.solve(b, trans=trans), expected), (k, trans, F.threads)
                assert _core.shared_calls() > before or k > 1


def test_large_fronts_are_factored_by_tiles():
    rng = np.random.default_rng(8)
    A = sp.csr_array(rng.standard_normal((700, 700)))
    one, two = (ms.lu(A, engine="fronts", threads=t) for t in (1, 2))
    b = rng.standard_normal((700, 2))
    assert backward_error(A, one.solve(b), b) < 1e-14 and np.array_equal(one.solve(b), two.solve(b))
    assert_factors(A, one)


@pytest.mark.parametrize("engine", ENGINES)
def test_several_threads_solve_at_once(engine):
    A = mesh(90, 90)
    F, b = ms.lu(A, engine=engine, threads=2), np.random.default_rng(0).standard_normal((8100, 4))
    expected, wrong = F.solve(b), []
    def work():
        wrong.extend(k for k in range(5) if not np.array_equal(F.solve(b), expected))
    workers = [threading.Thread(target=work) for _ in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


def test_the_engine_is_chosen_by_the_pattern():
    assert ms.lu(mesh(60, 60)).engine == "fronts"
    n = 3000
    chain = sp.csr_array(sp.diags_array([np.ones(n - 1), np.full(n, 3.0), np.full(n - 1, 0.5)], offsets=[-1, 0, 1]))
    assert ms.lu(chain).engine == "columns"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ordering", ["amd", "nd", "natural", "rcm", "array"])
def test_orderings(ordering, engine):
    A = mesh(14, 13)
    F = ms.lu(A, np.random.default_rng(0).permutation(182) if ordering == "array" else ordering, engine)
    assert_factors(A, F)
    assert sorted(F.row_perm) == sorted(F.col_perm) == list(range(182))


@pytest.mark.native
def test_precisions():
    A = mesh(40, 40)
    b = np.random.default_rng(0).standard_normal(1600)
    single, mixed = ms.lu(A, precision="single"), ms.lu(A, precision="mixed")
    assert 1e-12 < backward_error(A, single.solve(b), b) < 1e-5 and single.dtype == np.float32
    assert backward_error(A, mixed.solve(b), b) < 1e-15 and mixed.report.facts["refinement_steps"] > 0
    assert ms.lu(A).solve(b.astype(np.float32)).dtype == np.float32


@pytest.mark.parametrize("precision, bound", [("single", 1e-5), ("mixed", 1e-15)])
def test_single_and_mixed_precision_take_right_hand_sides_of_any_size(precision, bound):
    A, b = mesh(9, 9), np.random.default_rng(0).standard_normal((81, 3)) * [1e200, 1e-60, 1e-290]
    F = ms.lu(A, precision=precision)
    for trans, M in (("N", A), ("T", A.T)):
        assert backward_error(M, F.solve(b, trans), b) < bound
    assert ms.lu(np.diag([2.0, 1.0]), precision=precision).solve([1e200, 1e190]).tolist() == pytest.approx([5e199, 1e190])


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_bad_factor_in_single_precision_is_noticed(trans):
    """Pivots that were good for other values: a solution is warned of, and is good where new ones may be chosen."""
    A, b = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.5], [0.1, 0.2, 0.3]]), np.array([1.0, 3.0, 2.0])
    weak = np.where(np.eye(3), 1e-5 * A, A)
    with pytest.warns(ms.ConvergenceWarning, match="backward error"):
        ms.lu(A, precision="single", repivot=False).refactor(weak).solve(b, trans)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x = ms.lu(A, precision="single").refactor(weak).solve(b, trans)
    assert backward_error(weak if trans == "N" else weak.T, x, b) < 1e-6


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_right_hand_side_of_zeros_says_nothing_of_a_factor(trans):
    """As of a circuit at rest: the first one that is not zero is measured."""
    A, b = np.array([[1.0, 0.9], [0.9, 1.0]]), np.array([1.0, 3.0])
    F = ms.lu(A).refactor(np.where(np.eye(2), 1.5e-3 * A, A))
    F.solve(np.zeros((2, 3)), trans)
    assert F.report.facts["backward_error"] == 0
    F.solve(b, trans)
    assert F.report.facts["backward_error"] > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_every_solution_is_measured_where_entries_have_grown_beyond_any_bound(engine):
    """Diodes that conduct where the first values had none: a unit vector was solved well, and ones to 5 % after it."""
    A = np.array([[9.0, 3.0, 0.0, 3.0], [0.0, 9.0, 3.0, 0.0], [2e-8, 3e-8, 9.0, 0.0], [2.0, 2e-8, 1.0, 9e-8]])
    first = A.copy()
    first[[0, 2, 2, 3], [3, 1, 2, 3]] = 3e-17, 3e-17, 9e-17, 9e-17
    F = ms.lu(first, engine=engine).refactor(A)
    for b in (np.eye(4)[0], np.ones(4), np.arange(4.0)):
        assert backward_error(A, F.solve(b), b) < 1e-15


def test_solutions_near_the_end_of_the_range_are_refined():
    """||x|| / ||r|| is beyond it, and was an error of 0."""
    F = ms.lu([[0.7e-304]], precision="mixed")
    assert F.solve([1.0]) == pytest.approx([1 / 0.7e-304], rel=1e-15) and F.report.facts["refinement_steps"] > 0


@pytest.mark.parametrize("A, size", [([[0.7e-304]], 1e304), ([[1.7e308, 1.7e308], [0.0, 1.0]], 0.25)])
def test_backward_errors_of_matrices_at_the_ends_of_the_range(A, size):
    """Both ways to compute one, also where ||A|| itself is beyond it."""
    S, x = sp.csr_array(A), np.full((len(A), 1), size)
    for transposed, M in ((False, S), (True, S.T)):
        b, r, near = M @ x, np.empty_like(x), x * (1 + 1e-8)
        error = _core.lu_residual(S.indptr.astype(np.int64), S.indices, S.data, transposed, near, b, r)
        with np.errstate(over="ignore"):
            norm = abs(M).sum(axis=1).max()
        assert 1e-9 < error < 1e-7 and error == pytest.approx(backward_error_of(norm, *(abs(v).max(axis=0) for v in (r, near, b))))


@pytest.mark.parametrize("complex_values", [False, True])
def test_the_residual_of_the_transpose_is_that_of_the_transposed(complex_values):
    A, rng = random_matrix(60, 0.2, 0, complex_values), np.random.default_rng(1)
    M, T = (as_csr(S, dtype=A.dtype) for S in (A, A.T))
    x, b = (rng.standard_normal((60, 3)).astype(A.dtype) for _ in range(2))
    (r, error), (expected, same) = residual(M, True, x, b), residual(T, False, x, b)
    assert np.allclose(r, expected, rtol=1e-12, atol=1e-12) and error == pytest.approx(same, rel=1e-12)
    assert error == pytest.approx(max(backward_error(T.to_scipy(), x[:, c], b[:, c]) for c in range(3)), rel=1e-12)


def test_solutions_that_are_not_finite_are_told_of():
    F = ms.lu(np.diag([1e-323, 1.0, 1e300]), repivot=False)             # the first scaling leaves the range of float64
    with pytest.warns(ms.ConvergenceWarning, match="is inf"):
        F.solve([1e-323, 1.0, 1.0])
    nothing, one = np.full((3, 1), np.nan), np.ones((3, 1))
    nothing[1:] = 1.0
    A = sp.csr_array(np.eye(3))
    for transposed in (False, True):
        parts = A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data
        assert _core.lu_residual(*parts, transposed, nothing, one, np.empty((3, 1))) == np.inf
        assert _core.lu_residual(*parts, transposed, np.hstack([nothing, one]), np.ones((3, 2)), np.empty((3, 2))) == np.inf


def test_complex_right_hand_sides_and_operators():
    A = random_matrix(50, 0.1, 3, diagonal=4.0)
    F, b = ms.lu(A), np.arange(50) * (1 + 2j)
    assert backward_error(A, F.solve(b), b) < 1e-14 and backward_error(A.T, F.solve(b, "H"), b) < 1e-14
    assert np.array_equal(F @ b.real, F.solve(b.real)) and np.allclose(F.H @ b.real, F.solve(b.real, "H"))
    C = random_matrix(50, 0.1, 3, True, 4.0)
    G = ms.lu(C)
    assert G.solve(b.real).dtype == np.complex128 and np.allclose(G.H @ b, np.linalg.solve(C.toarray().conj().T, b))


def test_out_receives_the_result():
    A, out = mesh(6, 6), np.empty(36)
    assert ms.lu(A).solve(np.ones(36), out=out) is out and backward_error(A, out, np.ones(36)) < 1e-14


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
def test_condition(engine):
    for seed in range(4):
        A = random_matrix(40, 0.2, seed, bool(seed % 2), 1.0)
        exact = 1 / np.linalg.cond(A.toarray(), 1)
        assert exact * 0.999 <= ms.lu(A, engine=engine).rcond() <= 5 * exact


@pytest.mark.native
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("complex_values", [False, True])
def test_determinant(engine, complex_values):
    """Odd and even exchanges of rows, scalings, blocks, and numbers that no float64 holds."""
    signs = set()
    for seed in range(8):
        n = 12 + seed
        A = random_matrix(n, 0.4, seed, complex_values, 0.5)
        A = sp.block_array([[A * 1e-60, A], [None, A[np.random.default_rng(seed).permutation(n)] * 1e60]], format="csr")
        F = ms.lu(A, engine=engine)
        sign, logabsdet = F.slogdet()
        expected = np.linalg.slogdet(np.asarray(A.toarray()[:n, :n] * 1e60)), np.linalg.slogdet(A.toarray()[n:, n:] * 1e-60)
        assert sign == pytest.approx(expected[0].sign * expected[1].sign)
        assert logabsdet == pytest.approx(expected[0].logabsdet + expected[1].logabsdet, rel=1e-10)
        assert type(sign) is (complex if complex_values else float) and type(logabsdet) is float
        signs.add(np.sign(np.real(sign)))
        assert F.refactor(-2 * A).slogdet()[1] == pytest.approx(logabsdet + 2 * n * np.log(2))
    assert signs == {-1, 1}


# ---- refactorization --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_refactor_is_the_factor_of_the_new_values(engine):
    A, rng = mesh(25, 22), np.random.default_rng(1)
    F, b = ms.lu(A, engine=engine), rng.standard_normal(550)
    for kind in (sp.csr_array, sp.csc_array, sp.coo_array):
        A2 = A.copy()
        A2.data = A.data * rng.uniform(0.5, 2, A.nnz)
        assert F.refactor(kind(A2)) is F
        assert backward_error(A2, F.solve(b), b) < 1e-14
        assert_factors(A2, F)
    fewer = sp.csr_array(sp.diags_array(np.arange(1.0, 551)))
    assert np.allclose(F.refactor(fewer).solve(b), b / np.arange(1.0, 551))
    same = ms.lu(A, engine=engine)
    assert np.array_equal(F.refactor(A).solve(b), same.solve(b))


def test_later_changes_of_the_callers_arrays_do_no_harm():
    A, b = random_matrix(40, 0.1, 5, diagonal=4.0), np.ones(40)
    F = ms.lu(A)
    kept = A.copy()
    A.data[:], A.indices[:] = 7, 0
    assert backward_error(kept, F.solve(b), b) < 1e-14
    A2 = kept.copy()
    F.refactor(A2)
    A2.data[:] = np.nan
    assert backward_error(kept, F.solve(b), b) < 1e-14


@pytest.mark.parametrize("engine", ENGINES)
def test_after_an_error_the_earlier_factor_is_there(engine):
    A = random_matrix(60, 0.05, 9, diagonal=4.0)
    F, b = ms.lu(A, engine=engine), np.ones(60)
    before = F.solve(b)
    outside = A.tolil()
    row, column = np.argwhere(A.toarray() == 0)[7]
    outside[row, column] = 1.0
    with pytest.raises(ms.PatternMismatchError) as caught:
        F.refactor(outside.tocsr())
    assert (caught.value.row, caught.value.column) == (row, column)
    twin = A.tolil()
    twin[:, 3] = 0
    with pytest.raises(ms.SingularMatrixError) as caught:
        F.refactor(twin.tocsr())
    assert caught.value.index == 3
    spoiled = A.copy()
    spoiled.data[5] = np.nan
    for wrong in (spoiled, A * 1j, sp.eye_array(61)):
        with pytest.raises(ms.InvalidInputError):
            F.refactor(wrong)
    assert np.array_equal(F.solve(b), before) and F.engine == engine


def test_pivots_that_no_longer_fit_are_chosen_anew():
    rng = np.random.default_rng(5)
    A = sp.csr_array(sp.random_array((200, 200), density=0.05, rng=rng) + sp.diags_array(np.full(200, 10.0)))
    broken = A.tolil()
    broken.setdiag(1e-14)
    broken, b = broken.tocsr(), rng.standard_normal(200)
    F = ms.lu(A, engine="fronts")
    F.refactor(broken)
    assert backward_error(broken, F.solve(b), b) < 1e-14 and F.report.facts["repivoted"] >= 1
    assert backward_error(A, F.refactor(A).solve(b), b) < 1e-13
    assert_factors(A, F)
    fixed = ms.lu(A, engine="fronts", repivot=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.ConvergenceWarning)
        fixed.refactor(broken).solve(b)
    assert fixed.engine == "fronts" and fixed.report.facts["repivoted"] == 0
    assert fixed.report.facts["backward_error"] > 1e-16


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("repivot", ["auto", False])
def test_a_common_factor_of_all_values_changes_no_pivot(engine, repivot):
    A, b = mesh(10, 10), np.random.default_rng(1).standard_normal(100)
    F = ms.lu(A, engine=engine, repivot=repivot)
    for factor in (1e-13, 1e-200, 1e150, 1.0, 1e-14):
        A2 = A * factor
        assert backward_error(A2, F.refactor(A2).solve(b), b) < 1e-14
        assert (F.report.facts["perturbed_pivots"], F.report.facts["repivoted"]) == (0, 0)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("rows, columns", [(1e-16, 1), (1e16, 1), (1, 1e-13), (1, 1e13), (1e-40, 1e-30)])
def test_a_row_or_column_may_leave_the_scale_of_the_first_matrix(engine, rows, columns):
    A, x = mesh(10, 10), np.random.default_rng(1).standard_normal(100)
    one = np.arange(100) == 7
    R, C = (sp.diags_array(np.where(one, scale, 1.0)) for scale in (rows, columns))
    A2, b = sp.csr_array(R @ A @ C), (R @ A) @ x
    for F in (ms.lu(A, engine=engine), ms.lu(A2, engine=engine)):
        for M, c in ((A2, b), (A, A @ x), (A2, b)):
            y = F.refactor(M).solve(c)
            assert np.allclose(C @ y if M is A2 else y, x, rtol=0, atol=1e-12)


def test_a_matrix_that_is_singular_after_all_leaves_the_factor_and_its_report():
    A = mesh(8, 8)
    F, b = ms.lu(A, engine="fronts"), np.ones(64)
    before, facts = F.solve(b), dict(F.report.facts)
    with pytest.raises(ms.SingularMatrixError, match="no pivot is left"):
        F.refactor(A - sp.diags_array(A.sum(axis=1)))                   # rows that sum to zero
    assert F.report.facts == facts and np.array_equal(F.solve(b), before)


def weak_pivots(A):
    """A with pivots that leave a backward error of about 1e-7 where the order of A's own values is kept."""
    return sp.csr_array(A - sp.diags_array(A.diagonal() - 1e-7))


@pytest.mark.parametrize("trans", ["N", "T"])
def test_a_harmless_first_right_hand_side_hides_no_bad_factor(trans):
    A, rng = sp.csr_array(mesh(30, 30) + sp.eye_array(900)), np.random.default_rng(2)
    weak, b = weak_pivots(A), np.append(rng.standard_normal(900), 0)
    A, weak = (sp.csr_array(sp.block_diag([M, sp.eye_array(1)])) for M in (A, weak))
    M = weak if trans == "N" else weak.T
    for repivot, first in itertools.product(("auto", False), (np.zeros(901), np.eye(901)[900])):
        F = ms.lu(A, engine="fronts", repivot=repivot).refactor(weak)
        assert backward_error(M, F._apply(b[:, None], trans == "T"), b) > 1e-12
        F.solve(first, trans)
        assert backward_error(M, F.solve(b, trans), b) < 1e-14


def test_bad_solutions_are_told_of_with_fixed_pivots_whatever_came_first():
    rng = np.random.default_rng(5)
    A = sp.csr_array(sp.random_array((200, 200), density=0.05, rng=rng) + sp.diags_array(np.full(200, 10.0)))
    weak, b = sp.csr_array(A - sp.diags_array(A.diagonal() - 1e-7)), rng.standard_normal(200)
    F = ms.lu(A, engine="columns", repivot=False).refactor(weak)
    F.solve(np.zeros(200))
    for _ in range(2):
        with pytest.warns(ms.ConvergenceWarning, match="badly conditioned for its pivots"):
            F.solve(b)


def test_growth_that_refinement_makes_up_for_changes_no_pivot():
    A = sp.csr_array(mesh(30, 30) + sp.eye_array(900))
    weak, b = weak_pivots(A), np.random.default_rng(2).standard_normal(900)
    F = ms.lu(A, engine="fronts").refactor(weak)
    assert backward_error(weak, F.solve(b), b) < 1e-14
    assert F.report.facts["repivoted"] == 0 and F.report.facts["refinement_steps"] > 0


def test_partial_pivoting_keeps_the_diagonal_where_that_fills_less(data_dir):
    A = sp.csr_array(scipy.io.mmread(data_dir / "indefinite" / "culip_sqmr_big_A.mtx.gz"))
    F, b = ms.lu(A), np.random.default_rng(0).standard_normal(A.shape[0])
    F._repivot(F._data)                                                  # static pivots may do: a matter of ties in minimum degree
    assert F.report.facts["repivoted"] == 1 and F.nnz < 120_000          # 213,030 in the order of the matching
    assert backward_error(A, F.solve(b), b) < 1e-15 and backward_error(A.T, F.solve(b, "T"), b) < 1e-15


def test_partial_pivoting_goes_back_to_the_matching_where_the_diagonal_fills_more(data_dir):
    A = sp.csr_array(scipy.io.mmread(data_dir / "circuit" / "fidapex6.mtx.gz"))
    F = ms.lu(A)
    assert F.report.facts["repivoted"] == 1 and F.nnz < 120_000          # 451,745 in the order of the diagonal


def test_numerically_singular_matrices_are_noticed():
    ones = np.ones((3, 3))
    for A in (ones, np.kron(np.eye(4), ones[:2, :2]), ms.datasets.grid2d(20, 20), ms.graph_laplacian(ms.datasets.icosphere(3))):
        for engine in ENGINES:
            with pytest.raises(ms.SingularMatrixError, match="no pivot is left") as caught:
                ms.lu(A, engine=engine)
            assert 0 <= caught.value.index < A.shape[0]


@pytest.mark.parametrize("trans", ["N", "T"])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_solution_of_a_matrix_that_is_singular_but_for_rounding_is_told_of(engine, trans):
    """Its backward error is small, since x is as large as rounding makes it."""
    rng = np.random.default_rng(0)
    A, b = rng.standard_normal((200, 200)), rng.standard_normal(200)
    A[-1] = A[:-1].sum(axis=0)
    F = ms.lu(A, engine=engine)
    with pytest.warns(ms.ConvergenceWarning, match="singular to working precision"):
        F.solve(b, trans=trans)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for good in (A + np.eye(200), np.outer(10.0 ** np.linspace(-12, 12, 200), np.ones(200)) * (A + np.eye(200))):
            F.refactor(good).solve(b, trans=trans)


@pytest.mark.parametrize("engine", ENGINES)
def test_perturbed_pivots_are_counted_on_every_thread(engine):
    A = mesh(100, 100)
    weak, rows = A.copy(), np.arange(5, 10_000, 311)
    for row in rows:
        weak.data[A.indptr[row]:A.indptr[row + 1]] *= 1e-30
    for threads in (1, 2, 3, 5, 8):
        F = ms.lu(A, engine=engine, repivot=False, threads=threads).refactor(weak)
        assert F.report.facts["perturbed_pivots"] == len(rows)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("skew", [False, True])
def test_growth_is_told_of_all_of_u(engine, skew):
    """Off the diagonal, or on it as where a skew matrix is added to the identity."""
    A = random_matrix(40, 0.3, 0)
    A = sp.csr_array(sp.eye_array(40) + 0.2 * (A - A.T)) if skew else A
    F = ms.lu(A, engine=engine)
    scaled = sp.diags_array(F.row_scale) @ A @ sp.diags_array(F.col_scale)
    assert F.report.facts["pivot_growth"] == pytest.approx(abs(scaled).max() / abs(F.U).max(), rel=1e-12)


def test_badly_scaled_matrices():
    A, rng = random_matrix(80, 0.1, 2, diagonal=2.0), np.random.default_rng(3)
    rows, columns = 10 ** rng.uniform(-60, 60, 80), 10 ** rng.uniform(-60, 60, 80)
    scaled = sp.csr_array(sp.diags_array(rows) @ A @ sp.diags_array(columns))
    x = ms.lu(scaled).solve(rows) * columns
    assert backward_error(A, x, np.ones(80)) < 1e-13


def test_report_and_sizes():
    A = mesh(30, 30)
    F = ms.lu(A, threads=1)
    F.solve(np.ones(900))
    facts = F.report.as_dict()
    assert set(facts["seconds"]) >= {"order", "symbolic", "numeric", "solve"} and facts["ordering"] == "amd" and facts["blocks"] == 1
    assert 0 < facts["pivot_growth"] <= 10 and facts["backward_error"] < 1e-14 and facts["nnz_L"] == F.nnz and facts["bytes"] > 8 * F.nnz
    assert (F.L.nnz + F.U.nnz - 900) <= F.nnz * 1.3


# ---- levels -----------------------------------------------------------------------------------------------------------


def by_levels(A, F, level):
    """Right-looking elimination by levels: all columns of one divide, then they update, the last first. True if it is right."""
    B = (sp.diags_array(F.row_scale) @ A @ sp.diags_array(F.col_scale)).toarray()[F.row_perm][:, F.col_perm]
    for v in range(level.max() + 1):
        columns = np.flatnonzero(level == v)
        for k in columns:
            B[k + 1:, k] /= B[k, k]
        for k in columns[::-1]:
            B[k + 1:, k + 1:] -= np.outer(B[k + 1:, k], B[k, k + 1:])
    return np.allclose(B, F.L.toarray() - np.eye(len(B)) + F.U.toarray(), atol=1e-8)


@pytest.mark.native
def test_levels_of_the_example_that_the_upper_rule_gets_wrong():
    A = sp.csr_array(np.array([[4.0, 0, 0, 2, 0], [1, 5, 0, 3, 0], [0, 0, 6, 1, 0], [0, 1, 0, 7, 0], [0, 0, 1, 1, 8]]))
    F = ms.lu(A, "natural", "columns")
    if F.report.facts["blocks"] == 1:
        assert F.levels.tolist() == [0, 1, 0, 2, 0]
    L, U = sp.csc_array(np.tril(A.toarray() != 0) * 1.0), sp.csr_array(np.triu(A.toarray() != 0) * 1.0)
    arrays = [a.astype(t) for a, t in ((L.indptr, np.int64), (L.indices, np.int32), (U.indptr, np.int64), (U.indices, np.int32))]
    got = {rule: ms._core.lu_levels(*arrays, rule).tolist() for rule in ("upper", "relaxed", "exact")}
    assert got == {"upper": [0, 0, 0, 1, 0], "relaxed": [0, 1, 0, 2, 3], "exact": [0, 1, 0, 2, 0]}


def test_levels_make_right_looking_elimination_right():
    wrong, total = 0, dict.fromkeys(("upper", "exact", "relaxed"), 0)
    for seed in range(150):
        A = random_matrix(4 + seed % 12, 0.25, seed, diagonal=3.0)
        F = ms.lu(A, "natural", "columns")
        levels = {rule: levels_by(F, rule) for rule in total}
        assert by_levels(A, F, levels["exact"]) and by_levels(A, F, levels["relaxed"])
        assert (levels["exact"] <= levels["relaxed"]).all() and np.array_equal(levels["exact"], F.levels)
        wrong += not by_levels(A, F, levels["upper"])
        for rule, level in levels.items():
            total[rule] += level.max() + 1
    assert wrong > 10 and total["upper"] <= total["exact"] < total["relaxed"]


# ---- real circuits ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_circuits(data_dir, engine):
    for path in sorted((data_dir / "circuit").glob("*.mtx*")):
        A = sp.csr_array(scipy.io.mmread(path))
        if path.name.startswith("pdn_pg1_C") or path.name.startswith("rajat01"):
            continue                                        # structurally singular; a pattern without values
        F, b = ms.lu(A, engine=engine), np.random.default_rng(0).standard_normal((A.shape[0], 2))
        assert backward_error(A, F.solve(b), b) <= 1e-13, path.name
        assert backward_error(A.T, F.solve(b, trans="T"), b) <= 1e-13, path.name


@pytest.mark.parametrize("engine", ENGINES)
def test_a_good_factor_is_measured_once(engine, monkeypatch):
    """A residual costs more than a solve: as in other libraries, only factors that need it are refined."""
    from meshsolve.factor import glu

    measured, residual = [], glu.residual
    monkeypatch.setattr(glu, "residual", lambda *args: measured.append(1) or residual(*args))
    A = mesh(30, 30)
    F, b = ms.lu(A, engine=engine), A @ np.ones(900)
    first = F.solve(b)
    assert len(measured) == 1 and F.report.facts["backward_error"] < 1e-13 and F.report.facts["refinement_steps"] == 0
    assert np.array_equal(F.solve(b), first) and len(measured) == 1
    F.refactor(A).solve(b)
    assert len(measured) == 2


def test_a_long_row_is_not_called_badly_conditioned():
    """A supply net: the sum over its 200,000 entries rounds more than the solution."""
    n = 200_000
    rows = np.concatenate([np.zeros(n - 1, int), np.arange(1, n), np.arange(n)])
    columns = np.concatenate([np.arange(1, n), np.zeros(n - 1, int), np.arange(n)])
    values = np.concatenate([np.full(2 * n - 2, -1.0), [n], np.full(n - 1, 2.0)])
    F = ms.lu(sp.csr_array((values, (rows, columns)), shape=(n, n)))
    F.solve(np.ones(n))
    assert F.report.facts["backward_error"] < 1e-13


def test_a_wide_cheap_block_beside_a_narrow_dear_one_is_solved():
    """The block with the most entries of the factor is not always one that the schedule cuts into tasks of its own."""
    rng, blocks, size, m, pendants = np.random.default_rng(0), 14_000, 20, 2_300, 200
    n = blocks * size
    ends = np.arange(size - 1, n - 1, size)
    link = sp.csr_array((np.ones(len(ends)), (ends, ends + 1)), shape=(n, n))
    chain = sp.csr_array(sp.kron(sp.eye_array(blocks), np.ones((size, size)) + size * np.eye(size))) + link + link.T
    reach = np.arange(pendants)
    rows, columns = np.r_[reach, reach], np.repeat([0, 1], pendants)
    few = sp.csr_array((np.ones(2 * pendants), (rows, columns)), shape=(pendants, m))
    dense = sp.block_array([[10 * sp.eye_array(pendants), few], [few.T, sp.csr_array(rng.standard_normal((m, m)) + m * np.eye(m))]])
    A = sp.csr_array(sp.block_diag([sp.eye_array(1) * 3.0, chain, dense]))
    b = np.ones(A.shape[0])
    F = ms.lu(A, engine="fronts", repivot=False)
    assert abs(A @ F.solve(b) - b).max() < 1e-12


@pytest.mark.parametrize("engine", ["fronts", "columns"])
def test_a_callable_that_never_stops_raising_leaves_the_earlier_factor(engine):
    class Cancelled(Exception):
        pass

    def tell(phase, done, total):
        raise Cancelled

    A = ms.datasets.grid2d(40, 40, boundary="dirichlet")
    b = np.random.default_rng(0).standard_normal(1600)
    F = ms.lu(A, engine=engine)
    x = F.solve(b)
    with pytest.raises(Cancelled), ms.showing_progress(tell):
        F.refactor(A + 3 * sp.eye_array(1600))
    assert np.array_equal(F.solve(b), x)


@pytest.mark.parametrize("engine", ["fronts", "columns"])
def test_a_factor_that_cannot_be_brought_back_says_so(engine, monkeypatch):
    A = ms.datasets.grid2d(40, 40, boundary="dirichlet")
    F = ms.lu(A, engine=engine)
    F.solve(np.ones(1600))

    def starved(data, undisturbed=False):
        F._is_lost = True
        raise MemoryError
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(F, "_factor_values", starved)
        F.refactor(A)
    with pytest.raises(ms.OutOfMemoryError, match="it is lost"):
        F.solve(np.ones(1600))
    assert abs(A @ F.refactor(A).solve(np.ones(1600)) - 1).max() < 1e-12


def test_growth_that_costs_few_digits_costs_no_refinement():
    """Rows with |x| far beyond their own size are solved to 1e-11 beside it by any factor; refined, each solve took three times as long."""
    A = ms.datasets.power_grid(60, controlled=True)
    rng = np.random.default_rng(306)
    F = ms.lu(A)
    A.data = A.data * rng.uniform(0.9, 1.1, A.nnz)
    b = rng.standard_normal(A.shape[0])
    F.refactor(A)
    x = F.solve(b)
    assert F.report.facts["pivot_growth"] < 1e-3 and F.report.facts["refinement_steps"] == 0
    assert (abs(b - A @ x) <= 1e-10 * (abs(A) @ abs(x) + abs(b))).all()


@pytest.mark.parametrize("engine", ["columns", "fronts"])
@pytest.mark.parametrize("trans", ["N", "T"])
def test_stale_pivots_lose_no_digits_in_rows_that_are_small_beside_others(engine, trans):
    """An interior point method: the (1, 1) block moves apart by decades, and the largest row hid what was left in the others."""
    rng = np.random.default_rng(0)
    n, m = 400, 200
    J = sp.random_array((m, n), density=4 / n, rng=rng) + sp.eye_array(m, n)
    b = rng.standard_normal(n + m)
    towards, F = rng.uniform(-0.5, 1, n), None
    for decades in range(10):
        K = sp.csr_array(sp.block_array([[-sp.diags_array(10 ** (decades * towards)), J.T], [J, None]]))
        F = ms.lu(K, engine=engine) if F is None else F.refactor(K)
        for right in (b, b[::-1]):                                   # the first solve, and one after it
            x = F.solve(right, trans=trans)
            assert np.max(abs(K @ x - right) / (abs(K) @ abs(x) + abs(right))) < 1e-9


def test_the_largest_block_may_be_one_front():
    """It is no task of a solve; those of the block before it are none of its."""
    rng = np.random.default_rng(3)
    grid, dense = ms.datasets.grid2d(170, 170, boundary="dirichlet"), sp.csr_array(rng.standard_normal((1500, 1500)))
    A = sp.csr_array(sp.block_diag([dense, grid]))
    F, b = ms.lu(A, engine="fronts", ordering="amd"), rng.standard_normal(A.shape[0])
    assert F._analysis.block_ptr.tolist() == [0, grid.shape[0], A.shape[0]]
    for trans, B in (("N", A), ("T", A.T)):
        assert abs(B @ F.solve(b, trans=trans) - b).max() < 1e-7


REFUSED_ONCE = """
import numpy as np
import meshsolve as ms

A = ms.datasets.grid2d(40, 40, boundary="dirichlet")
b = np.arange(1600.0)
made = [ms.lu(A, engine="fronts", threads=1), ms.lu(A, engine="columns", threads=1)]
solutions = [F.solve(b) for F in made]
for F, x in zip(made, solutions, strict=True):
    for k in range(40):
        F._build()
        starve(64, 1 << 40, k)
        try:
            F._factor.factor(F._data, 0.1, 1e-13, 1e-8, 1)
        except MemoryError:
            pass
        feed()
        F._factor.factor(F._data, 0.1, 1e-13, 1e-8, 1)
        assert np.array_equal(F.solve(b), x), k
print("ok")
"""


@starved.available
def test_a_factor_that_found_no_memory_may_be_made_later():
    """The arrays that it got before count for nothing until the last one is there."""
    assert starved.python(REFUSED_ONCE) == "ok\n"
