"""Refactorization of LU factors: new values, unsuitable pivots, and the earlier factor after an error."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
import starved
from lu_matrices import ENGINES, assert_factors, backward_error, mesh, random_matrix

import meshsolve as ms

# ---- new values -------------------------------------------------------------------------------------------------------


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


def test_the_callers_arrays_may_change_later():
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
def test_a_row_or_column_may_change_its_scale(engine, rows, columns):
    A, x = mesh(10, 10), np.random.default_rng(1).standard_normal(100)
    one = np.arange(100) == 7
    R, C = (sp.diags_array(np.where(one, scale, 1.0)) for scale in (rows, columns))
    A2, b = sp.csr_array(R @ A @ C), (R @ A) @ x
    for F in (ms.lu(A, engine=engine), ms.lu(A2, engine=engine)):
        for M, c in ((A2, b), (A, A @ x), (A2, b)):
            y = F.refactor(M).solve(c)
            assert np.allclose(C @ y if M is A2 else y, x, rtol=0, atol=1e-12)


# ---- unsuitable pivots ----------------------------------------------------------------------------------------


def test_unsuitable_pivots_are_chosen_again():
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


def weak_pivots(A):
    """A with diagonal entries of 1e-7: with the pivot order of A the backward error is about 1e-7."""
    return sp.csr_array(A - sp.diags_array(A.diagonal() - 1e-7))


@pytest.mark.parametrize("trans", ["N", "T"])
def test_an_easy_first_right_hand_side_hides_no_bad_factor(trans):
    A, rng = sp.csr_array(mesh(30, 30) + sp.eye_array(900)), np.random.default_rng(2)
    weak, b = weak_pivots(A), np.append(rng.standard_normal(900), 0)
    A, weak = (sp.csr_array(sp.block_diag([M, sp.eye_array(1)])) for M in (A, weak))
    M = weak if trans == "N" else weak.T
    for repivot, first in itertools.product(("auto", False), (np.zeros(901), np.eye(901)[900])):
        F = ms.lu(A, engine="fronts", repivot=repivot).refactor(weak)
        assert backward_error(M, F._apply(b[:, None], trans == "T", F._numeric), b) > 1e-12
        F.solve(first, trans)
        assert backward_error(M, F.solve(b, trans), b) < 1e-14


def test_bad_solutions_with_fixed_pivots_give_warnings():
    rng = np.random.default_rng(5)
    A = sp.csr_array(sp.random_array((200, 200), density=0.05, rng=rng) + sp.diags_array(np.full(200, 10.0)))
    weak, b = sp.csr_array(A - sp.diags_array(A.diagonal() - 1e-7)), rng.standard_normal(200)
    F = ms.lu(A, engine="columns", repivot=False).refactor(weak)
    F.solve(np.zeros(200))
    for _ in range(2):
        with pytest.warns(ms.ConvergenceWarning, match="badly conditioned for its pivots"):
            F.solve(b)


def test_growth_that_refinement_corrects_changes_no_pivot():
    A = sp.csr_array(mesh(30, 30) + sp.eye_array(900))
    weak, b = weak_pivots(A), np.random.default_rng(2).standard_normal(900)
    F = ms.lu(A, engine="fronts").refactor(weak)
    assert backward_error(weak, F.solve(b), b) < 1e-14
    assert F.report.facts["repivoted"] == 0 and F.report.facts["refinement_steps"] > 0


@pytest.mark.parametrize("engine", ["columns", "fronts"])
@pytest.mark.parametrize("trans", ["N", "T"])
def test_stale_pivots_lose_no_digits_in_small_rows(engine, trans):
    """An interior point method: entries of the (1, 1) block drift apart by decades. Errors count relative to each row."""
    rng = np.random.default_rng(0)
    n, m = 400, 200
    J = sp.random_array((m, n), density=4 / n, rng=rng) + sp.eye_array(m, n)
    b = rng.standard_normal(n + m)
    towards, F = rng.uniform(-0.5, 1, n), None
    for decades in range(10):
        K = sp.csr_array(sp.block_array([[-sp.diags_array(10 ** (decades * towards)), J.T], [J, None]]))
        F = ms.lu(K, engine=engine) if F is None else F.refactor(K)
        for right in (b, b[::-1]):                                   # the first solve and the next
            x = F.solve(right, trans=trans)
            assert np.max(abs(K @ x - right) / (abs(K) @ abs(x) + abs(right))) < 1e-9


def test_partial_pivoting_keeps_a_diagonal_of_less_fill(data_dir):
    A = sp.csr_array(scipy.io.mmread(data_dir / "indefinite" / "culip_sqmr_big_A.mtx.gz"))
    F, b = ms.lu(A), np.random.default_rng(0).standard_normal(A.shape[0])
    F._repivot()                                                           # static pivots suffice for some ties in minimum degree
    assert F.report.facts["repivoted"] == 1 and F.nnz < 120_000          # 213,030 with the order of the matching
    assert backward_error(A, F.solve(b), b) < 1e-15 and backward_error(A.T, F.solve(b, "T"), b) < 1e-15


def test_partial_pivoting_uses_the_matching_if_it_fills_less(data_dir):
    A = sp.csr_array(scipy.io.mmread(data_dir / "circuit" / "fidapex6.mtx.gz"))
    F = ms.lu(A)
    assert F.report.facts["repivoted"] == 1 and F.nnz < 120_000          # 451,745 with the order of the diagonal


# ---- after an error ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_earlier_factor_survives_an_error(engine):
    A = random_matrix(60, 0.05, 9, diagonal=4.0)
    F, b = ms.lu(A, engine=engine), np.ones(60)
    before = F.solve(b)
    outside = A.tolil()
    row, column = np.argwhere(A.toarray() == 0)[7]
    outside[row, column] = 1.0
    with pytest.raises(ms.PatternMismatchError) as caught:
        F.refactor(outside.tocsr())
    assert (caught.value.row, caught.value.column) == (row, column)
    deficient = A.tolil()
    deficient[:, 3] = 0
    with pytest.raises(ms.SingularMatrixError) as caught:
        F.refactor(deficient.tocsr())
    assert caught.value.index == 3
    spoiled = A.copy()
    spoiled.data[5] = np.nan
    for wrong in (spoiled, A * 1j, sp.eye_array(61)):
        with pytest.raises(ms.InvalidInputError):
            F.refactor(wrong)
    assert np.array_equal(F.solve(b), before) and F.engine == engine


def test_a_singular_matrix_keeps_the_factor_and_its_report():
    A = mesh(8, 8)
    F, b = ms.lu(A, engine="fronts"), np.ones(64)
    before, facts = F.solve(b), dict(F.report.facts)
    with pytest.raises(ms.SingularMatrixError, match="no pivot is left"):
        F.refactor(A - sp.diags_array(A.sum(axis=1)))                   # rows that sum to zero
    assert F.report.facts == facts and np.array_equal(F.solve(b), before)


@pytest.mark.parametrize("engine", ["fronts", "columns"])
def test_a_progress_callable_that_keeps_raising(engine):
    class Canceled(Exception):
        pass

    def progress(phase, done, total):
        raise Canceled

    A = ms.datasets.grid2d(40, 40, boundary="dirichlet")
    b = np.random.default_rng(0).standard_normal(1600)
    F = ms.lu(A, engine=engine)
    x = F.solve(b)
    with pytest.raises(Canceled), ms.showing_progress(progress):
        F.refactor(A + 3 * sp.eye_array(1600))
    assert np.array_equal(F.solve(b), x)


@pytest.mark.parametrize("engine", ["fronts", "columns"])
def test_a_factor_that_cannot_be_restored_is_lost(engine, monkeypatch):
    A = ms.datasets.grid2d(40, 40, boundary="dirichlet")
    F = ms.lu(A, engine=engine)
    F.solve(np.ones(1600))

    def starved(*args, **options):
        raise MemoryError
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(F, "_factored", starved)
        F.refactor(A)
    with pytest.raises(ms.OutOfMemoryError, match="the factor is lost"):
        F.solve(np.ones(1600))
    assert abs(A @ F.refactor(A).solve(np.ones(1600)) - 1).max() < 1e-12


REFUSED_ONCE = """
from dataclasses import replace

import numpy as np
import meshsolve as ms

A = ms.datasets.grid2d(40, 40, boundary="dirichlet")
b = np.arange(1600.0)
made = [ms.lu(A, engine="fronts", threads=1), ms.lu(A, engine="columns", threads=1)]
solutions = [F.solve(b) for F in made]
for F, x in zip(made, solutions, strict=True):
    for k in range(40):
        now = F._numeric
        native = F._backend.native(now.pivots)
        starve(64, 1 << 40, k)
        try:
            native.factor(now.data, 0.1, 1e-13, 1e-8, 1)
        except MemoryError:
            pass
        feed()
        native.factor(now.data, 0.1, 1e-13, 1e-8, 1)
        F._numeric = replace(now, native=native)
        assert np.array_equal(F.solve(b), x), k
print("ok")
"""


@starved.available
def test_a_factor_that_lacked_memory_is_made_later():
    """Arrays allocated before a failed allocation are not used as a factor."""
    assert starved.python(REFUSED_ONCE) == "ok\n"


def test_copies_keep_the_history_of_refinement():
    """Refinement depends on earlier solutions. Copies and restored factors keep this history."""
    for seed in (111, 117, 122, 128, 152):
        rng = np.random.default_rng(seed)
        A = sp.csr_array(np.where((rng.random((100, 100)) < 0.1) | np.eye(100, dtype=bool), rng.standard_normal((100, 100)), 0))
        F, B = ms.lu(A, engine="columns"), rng.standard_normal((100, 20))
        for b in B.T:
            F.solve(b)
        x = F.solve(B[:, 7])
        assert np.array_equal(pickle.loads(pickle.dumps(F)).solve(B[:, 7]), x)
        with pytest.raises(ms.SingularMatrixError):
            F.refactor(0 * A)
        assert np.array_equal(F.solve(B[:, 7]), x)
