"""LU factors of many matrices of one pattern: bits of single factors, systems with factors of their own, failures, hostile input."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve.factor.lu.solves import RISK, UNBOUNDED

pytestmark = pytest.mark.native
GRID = sp.csr_array(ms.datasets.grid2d(7, 6, boundary="dirichlet") + sp.diags_array(np.full(41, 0.3), offsets=1))


def circuit(n, seed=0, scalar=float):
    """An unsymmetric matrix with zeros on the diagonal, several diagonal blocks and large entries in a matching."""
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=min(1, 2.5 / n), rng=rng) * 0.3 + sp.eye_array(n, format="csr")[rng.permutation(n)]
    A = sp.csr_array(A)
    A.sort_indices()
    return A if scalar is float else sp.csr_array((A.data * np.exp(1j * rng.random(A.nnz)), A.indices, A.indptr), shape=A.shape)


def batch(A, count, seed=0):
    return A.data * np.random.default_rng(seed).uniform(0.8, 1.25, (count, A.nnz))


def member(A, values):
    return sp.csr_array((values, A.indices, A.indptr), shape=A.shape)


@pytest.mark.parametrize("engine", ["columns", "fronts"])
@pytest.mark.parametrize("A", [circuit(150), circuit(40, 1, complex), GRID, sp.csr_array(np.array([[2.0]])), sp.csr_array(sp.eye_array(5))],
                         ids=["circuit", "complex", "grid", "one", "diagonal"])
def test_solutions_have_the_bits_of_single_factors(A, engine):
    n, values, F = A.shape[0], batch(A, 9), ms.lu(A, engine=engine)
    values[4] *= np.random.default_rng(5).uniform(1e-5, 1e5, A.nnz)             # its pivots do not fit
    many = F.factor_batch(values)
    assert many.shape == (9, n) and len(many.failed) == 0 and many.reason(4) == ""
    singles = [copy.copy(F).refactor(member(A, row)) for row in values]         # their first solve is measured
    for k in (None, 1, 3, 9):
        b = np.random.default_rng(1).standard_normal((9, n) if k is None else (9, n, k))
        x = many.solve(b)
        assert all(np.array_equal(single.solve(b[i]), x[i]) for i, single in enumerate(singles))
        assert all(np.allclose(np.linalg.solve(member(A, values[i]).toarray(), b[i]), x[i], rtol=1e-6) for i in (0, 8))
    assert many.backward_error.max() < 1e-12 and len(many.alone) < 5 and repr(many).startswith("LUBatch(9 systems")


@pytest.mark.parametrize("engine", ["columns", "fronts"])
@pytest.mark.parametrize("A", [circuit(150), circuit(40, 1, complex)], ids=["circuit", "complex"])
def test_factors_that_are_probed(A, engine):
    """Entries grow by 1000 to a million: a probe and each row of the first solution are measured. Few fail a test and get a factor of
    their own."""
    rng, F, values = np.random.default_rng(5), ms.lu(A, engine=engine), batch(A, 120)
    values *= 10 ** (np.repeat([1.6, 2.2], 60)[:, None] * rng.uniform(-1, 1, values.shape))
    many, b = F.factor_batch(values), rng.standard_normal((120, A.shape[0], 2))
    singles = [copy.copy(F).refactor(member(A, row)) for row in values]
    risky = np.array([RISK <= single._numeric.risk < UNBOUNDED and single._numeric.perturbed == 0 for single in singles])
    for right in (0 * b, b, b[::-1]):                                           # b = 0 shows nothing
        x = many.solve(right)
        assert all(np.array_equal(single.solve(right[i]), x[i]) for i, single in enumerate(singles))
    alone = np.isin(np.arange(120), many.alone)
    assert (risky & ~alone).sum() > 5 and alone.any() and np.isfinite(many.backward_error).all()


def test_a_probe_shows_what_the_right_hand_side_hides():
    """b is zero in the block whose pivot is small: without a probe the next solutions would lose five digits."""
    A = sp.csr_array(np.array([[2.0, 1.0, 0.0], [1.0, 2.0, 0.0], [0.0, 0.0, 1.0]]))
    small = [3e-6, 1, 1, 2, 1]
    many = ms.lu(A).factor_batch(np.stack([A.data, small, A.data]))
    assert len(many.alone) == 0
    many.solve(np.tile([0.0, 0.0, 1.0], (3, 1)))
    assert many.alone.tolist() == [1] and len(many.failed) == 0
    x = many.solve(np.ones((3, 3)))[1]
    assert abs(member(A, small) @ x - 1).max() < 1e-14


def test_the_batch_keeps_its_pivots():
    A = circuit(60, 2)
    F, values, b = ms.lu(A), batch(A, 3), np.ones((3, 60))
    many = F.factor_batch(values, threads=1)
    x = many.solve(b)
    F.refactor(member(A, A.data * np.random.default_rng(0).uniform(1e-6, 1e6, A.nnz))).solve(b[0])
    assert np.array_equal(many.solve(b), x) and np.array_equal(many.refactor(values).solve(b), x)


def test_any_number_of_threads():
    A = circuit(120, 3)
    values, b = batch(A, 40), np.random.default_rng(2).standard_normal((40, 120, 2))
    values[::7] *= np.random.default_rng(3).uniform(1e-4, 1e4, A.nnz)
    F = ms.lu(A)
    one, three = (F.factor_batch(values, threads=t) for t in (1, 3))
    assert np.array_equal(one.solve(b), three.solve(b)) and np.array_equal(one.alone, three.alone)
    few = F.factor_batch(values[1:4])                                            # too few to be eliminated four at a time
    assert np.array_equal(few.solve(b[1:4]), one.solve(b)[1:4])


def test_systems_fail_alone():
    A = circuit(50, 4)
    values = batch(A, 12)
    values[2, 7], values[3, 0] = np.nan, np.inf
    values[5, A.indptr[20]:A.indptr[21]] = 0                                     # a zero row
    many = ms.lu(A).factor_batch(values)
    x = many.solve(np.ones((12, 50)))
    assert many.failed.tolist() == [2, 3, 5] and np.isnan(x[many.failed]).all() and np.isfinite(np.delete(x, many.failed, axis=0)).all()
    assert "not finite" in many.reason(2) and "singular" in many.reason(5) and many.reason(-1) == ""
    assert np.isnan(many.backward_error[[2, 5]]).all()
    for i in (0, 1, 4, 11):
        assert np.array_equal(x[i], ms.lu(A).refactor(member(A, values[i])).solve(np.ones(50)))
    assert len(many.refactor(batch(A, 12)).failed) == 0 and np.isfinite(many.solve(np.ones((12, 50)))).all()


def test_pivots_that_do_not_fit():
    A = sp.csr_array(np.array([[2.0, 1.0, 0.0], [1.0, 3.0, 1.0], [0.0, 1.0, 2.0]]))
    values = np.stack([A.data, [1e-20, 1, 1, 3, 1, 1, 2], A.data])
    many, fixed = (ms.lu(A, repivot=r).factor_batch(values) for r in ("auto", False))
    assert many.alone.tolist() == fixed.alone.tolist() == [1] and many.report.facts["alone"] == 1
    b = np.random.default_rng(0).random((3, 3))
    for F in (many, fixed):
        assert np.allclose((member(A, values[1]) @ F.solve(b)[1]), b[1])


def test_one_warning_for_many_singular_systems():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((200, 200))
    values = np.repeat((A + np.eye(200)).reshape(1, -1), 6, axis=0)
    A[-1] = A[:-1].sum(axis=0)                                                   # singular in rounding
    values[2:4] = A.reshape(-1)
    many = ms.lu(sp.csr_array(values[0].reshape(200, 200)), engine="fronts").factor_batch(values)
    with pytest.warns(ms.ConvergenceWarning, match="2 systems of the batch, the first is system 2: A is singular") as seen:
        many.solve(np.tile(rng.standard_normal(200), (6, 1)))
    assert len(seen) == 1


def test_values_of_other_matrices_and_dtypes():
    F, D = ms.lu(GRID), sp.csr_array(sp.diags_array(np.arange(1.0, 43)))
    many = F.factor_batch(np.stack([F.values_of(D), F.values_of(GRID.tocoo())]))
    assert np.allclose(many.solve(np.ones((2, 42)))[0], 1 / np.arange(1.0, 43))
    b = np.random.default_rng(3).standard_normal((2, 2, 42, 2))
    z = many.solve(b[0] + 1j * b[1])
    assert z.dtype == np.complex128 and np.array_equal(z.real, many.solve(b[0])) and np.array_equal(z.imag, many.solve(b[1]))
    assert many.solve(b[0].astype(np.float32)).dtype == np.float32 and many.solve(np.ones((2, 42, 0))).shape == (2, 42, 0)
    with pytest.raises(ms.PatternMismatchError):
        F.values_of(np.ones((42, 42)))


def test_a_zero_right_hand_side_is_not_measured():
    many = ms.lu(GRID).factor_batch(batch(GRID, 3))
    assert not many.solve(np.zeros((3, 42))).any() and not many._core.is_measured
    many.solve(np.ones((3, 42)))
    assert many._core.is_measured


@pytest.mark.parametrize("precision", ["single", "mixed"])
def test_other_precisions_are_refused(precision):
    with pytest.raises(ms.InvalidInputError, match=f'"cpu" and "{precision}"'):
        ms.lu(GRID, precision=precision).factor_batch(batch(GRID, 1))
