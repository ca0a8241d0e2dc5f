"""Complete L D L^T factors of many matrices of one pattern: bits of single factors, inertia, failures, hostile input."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from saddles import decades

import meshsolve as ms

pytestmark = pytest.mark.native


def saddle(n, m, seed=0):
    """A symmetric indefinite matrix with a zero block."""
    B = sp.random_array((m, n), density=3 / n, rng=np.random.default_rng(seed)) + sp.eye_array(m, n)
    A = sp.csr_array(sp.block_array([[ms.datasets.grid2d(n // 8, 8, boundary="dirichlet"), B.T], [B, None]]))
    A.sort_indices()
    return A


SADDLE = saddle(64, 20)
SHIFTED = sp.csr_array(ms.datasets.grid2d(12, 12) - 1.7 * sp.eye_array(144))


def batch(A, count, seed=0, spread=1.25):
    """Values of D A D for random diagonal matrices D."""
    d = spread ** np.random.default_rng(seed).uniform(-1, 1, (count, A.shape[0]))
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return A.data * (d[:, rows] * d[:, A.indices])


def member(A, values):
    return sp.csr_array((values, A.indices, A.indptr), shape=A.shape)


@pytest.mark.parametrize("A", [SADDLE, SHIFTED, sp.csr_array(np.array([[-2.0]])), sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]]))],
                         ids=["saddle", "shifted", "one", "pair"])
def test_solutions_have_the_bits_of_single_factors(A):
    n, values, K = A.shape[0], batch(A, 9), ms.ildl(A, fill_level=None)
    values[4] = batch(A, 1, 7, 1e9)[0]                                          # needs another scaling, if there are several rows
    many = K.factor_batch(values)
    assert many.shape == (9, n) and len(many.failed) == 0 and many.reason(4) == "" and len(many.alone) == (n > 2)
    singles = [copy.copy(K).refactor(member(A, row)) for row in values]
    for k in (None, 1, 3, 9):
        b = np.random.default_rng(1).standard_normal((9, n) if k is None else (9, n, k))
        x = many.solve(b)
        assert all(np.array_equal(single.solve(b[i]), x[i]) for i, single in enumerate(singles))
        assert all(np.allclose(np.linalg.solve(member(A, values[i]).toarray(), b[i]), x[i], rtol=1e-6) for i in (0, 8))
    assert np.nanmax(many.backward_error) < 1e-12 and repr(many).startswith("IldlBatch(9 systems")
    w = np.linalg.eigvalsh(member(A, values[0]).toarray())
    assert many.inertia[0].tolist() == [(w > 0).sum(), (w < 0).sum(), 0] and (many.inertia == [s.inertia for s in singles]).all()


def test_solutions_are_refined():
    A = decades()
    A.sort_indices()
    K, values = ms.ildl(A, fill_level=None), np.concatenate([A.data[None], batch(A, 4)])
    b = np.stack([member(A, row) @ np.random.default_rng(0).standard_normal((A.shape[0], 2)) for row in values])
    many, steps = K.factor_batch(values), []
    x = many.solve(b)
    for i in range(5):
        assert np.array_equal(K.refactor(member(A, values[i])).solve(b[i]), x[i])
        steps.append(K.report.facts["refinement_steps"])
    assert max(steps) > 0 and many.backward_error.max() < 1e-14 and len(many.alone) == 0


def test_any_number_of_threads_and_refactor():
    values, b = batch(SADDLE, 40), np.random.default_rng(2).standard_normal((40, 84, 2))
    K = ms.ildl(SADDLE, fill_level=None)
    one, three = (K.factor_batch(values, threads=t) for t in (1, 3))
    x = one.solve(b)
    assert np.array_equal(x, three.solve(b))
    K.refactor(7 * SADDLE)                                                       # does not change the batch
    assert one.refactor(batch(SADDLE, 40, 1)) is one and one.nbytes > 0
    assert np.array_equal(one.solve(b), three.refactor(batch(SADDLE, 40, 1)).solve(b)) and not np.array_equal(one.solve(b), x)
    assert np.array_equal(one.refactor(values).solve(b), x)


def test_systems_fail_alone():
    values = batch(SADDLE, 12)
    values[2, 7], values[3, 0], values[5] = np.nan, np.inf, 0
    many = ms.ildl(SADDLE, fill_level=None).factor_batch(values)
    x = many.solve(np.ones((12, 84)))
    assert many.failed.tolist() == [2, 3, 5] and np.isnan(x[many.failed]).all() and np.isfinite(np.delete(x, many.failed, axis=0)).all()
    assert "not finite" in many.reason(2) and "no nonzero" in many.reason(5) and many.reason(-1) == ""
    assert not many.inertia[[2, 3, 5]].any() and np.isnan(many.backward_error[[2, 5]]).all()
    assert len(many.refactor(batch(SADDLE, 12)).failed) == 0


def test_singular_systems_have_zero_pivots():
    L = sp.csr_array(ms.datasets.grid2d(6, 5))
    diagonal = np.repeat(np.arange(30), np.diff(L.indptr)) == L.indices
    K = ms.ildl(L, fill_level=None)
    many = K.factor_batch(np.stack([L.data + diagonal, L.data, 2 * L.data]))
    assert many.inertia[:, 2].tolist() == [0, 1, 1] and len(many.failed) == 0
    b = np.zeros((3, 30))
    b[:, 0], b[:, 9] = 1, -1
    x = many.solve(b)                                                            # in the range: no warning
    assert np.allclose(L @ x[1], b[1]) and np.array_equal(x[1], K.refactor(L).solve(b[1]))
    b[2, 5] = 1
    with pytest.warns(ms.MeshsolveWarning, match="range of 1 singular system, the first is system 2"):
        many.solve(b)


def test_values_of_other_matrices_and_dtypes():
    K, D = ms.ildl(SHIFTED, fill_level=None), sp.csr_array(sp.diags_array(np.arange(1.0, 145)))
    many = K.factor_batch(np.stack([K.values_of(D), K.values_of(SHIFTED.tocoo())]))
    assert np.allclose(many.solve(np.ones((2, 144)))[0], 1 / np.arange(1.0, 145))
    b = np.random.default_rng(3).standard_normal((2, 2, 144))
    z = many.solve(b[0] + 1j * b[1])
    assert z.dtype == np.complex128 and np.array_equal(z.real, many.solve(b[0])) and np.array_equal(z.imag, many.solve(b[1]))
    assert many.solve(b[0].astype(np.float32)).dtype == np.float32 and many.solve(np.ones((2, 144, 0))).shape == (2, 144, 0)
    with pytest.raises(ms.PatternMismatchError):
        K.values_of(np.ones((144, 144)))


def test_asymmetry_names_the_system():
    K, values = ms.ildl(SADDLE, fill_level=None), batch(SADDLE, 5)
    values[2, 1] += 0.5
    with pytest.raises(ms.NotSymmetricError, match="system 2 is not symmetric"):
        K.factor_batch(values)


def test_other_factors_are_refused():
    with pytest.raises(ms.InvalidInputError, match="float32"):
        ms.ildl(SHIFTED, fill_level=None, dtype=np.float32).factor_batch(batch(SHIFTED, 1))
    with pytest.raises(ms.InvalidInputError, match="complete factor"):
        ms.ildl(SHIFTED, fill_level=1).factor_batch(batch(SHIFTED, 1))
