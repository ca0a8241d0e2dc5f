"""Factors of many matrices of one pattern: bits of single factors, failures one by one, hostile input."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

GRID = sp.csr_array(ms.datasets.grid2d(8, 6, boundary="dirichlet"))
MESH = sp.csr_array(ms.cotan_laplacian(ms.datasets.icosphere(2)) + ms.mass_matrix(ms.datasets.icosphere(2)))
DENSE_ROW = sp.csr_array(np.eye(300) * 400 + np.pad(np.ones((1, 299)), ((299, 0), (0, 1))) + np.pad(np.ones((299, 1)), ((0, 1), (299, 0))))


def diagonal_of(A):
    return np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)) == A.indices


def batch(A, count, seed=0):
    values = np.repeat(A.data[None], count, axis=0)
    values[:, diagonal_of(A)] += np.random.default_rng(seed).random((count, A.shape[0]))
    return values


def member(A, values):
    return sp.csr_array((values, A.indices, A.indptr), shape=A.shape)


@pytest.mark.parametrize("A", [GRID, MESH, DENSE_ROW, sp.csr_array(np.array([[2.0]])), sp.csr_array(sp.eye_array(5))],
                         ids=["grid", "mesh", "dense row", "one", "diagonal"])
@pytest.mark.parametrize("precision", ["double", "single"])
def test_solutions_have_the_bits_of_single_factors(A, precision):
    n, values, sym = A.shape[0], batch(A, 13), ms.analyze(A)
    F = sym.factor_batch(values, precision=precision)
    assert F.shape == (13, n) and len(F) == 13 and len(F.failed) == 0 and F.reason(0) == ""
    for k in (None, 1, 3, 9):
        b = np.random.default_rng(1).standard_normal((13, n) if k is None else (13, n, k))
        x = F.solve(b)
        assert x.shape == b.shape
        for i in (0, 5, 12):
            assert np.array_equal(x[i], sym.factor(member(A, values[i]), precision=precision).solve(b[i])) or precision == "single"
            assert np.allclose(member(A, values[i]) @ x[i], b[i], atol=1e-11 if precision == "double" else 1e-3)


def test_lanes_with_pivots_of_any_size():
    """Systems run in groups of 4. Those with extremely large or small pivots, and those that fail, leave their group."""
    scale = np.array([1, 1e-304, 1e303, 1, -1, np.nan, 1e-304, 1e-306, -1, -1, -1, -1, 1e303, 1])
    values, sym = batch(GRID, len(scale)) * scale[:, None], ms.analyze(GRID)
    F, b = sym.factor_batch(values), np.random.default_rng(4).standard_normal((len(scale), 48)) * np.where(scale > 1, 1.0, 1e-6)[:, None]
    x = F.solve(b)
    assert F.failed.tolist() == np.flatnonzero(~(scale > 0)).tolist() and np.isnan(x[F.failed]).all()
    for i in np.flatnonzero(scale > 0):
        assert np.array_equal(x[i], sym.factor(member(GRID, values[i])).solve(b[i])), i


def test_fronts_that_threads_share_run_one_by_one():
    A = sp.csr_array(np.eye(345) * 400 + 1)
    values, sym, b = batch(A, 3), ms.analyze(A), np.ones((3, 345))
    x = sym.factor_batch(values).solve(b)
    assert all(np.array_equal(x[i], sym.factor(member(A, values[i])).solve(b[i])) for i in range(3))


def test_any_number_of_threads():
    values, sym = batch(MESH, 40), ms.analyze(MESH)
    b = np.random.default_rng(2).standard_normal((40, MESH.shape[0], 2))
    one, three = (sym.factor_batch(values, threads=t).solve(b) for t in (1, 3))
    assert np.array_equal(one, three)


def test_refactor():
    sym, b = ms.analyze(GRID), np.ones((6, 48))
    F = sym.factor_batch(batch(GRID, 6))
    assert F.refactor(batch(GRID, 6, seed=5)) is F
    assert np.array_equal(F.solve(b), sym.factor_batch(batch(GRID, 6, seed=5)).solve(b))
    assert F.report.counts["numeric"] == 2 and F.report.facts["systems"] == 6 and F.nbytes > 0


def test_systems_fail_alone():
    values = batch(GRID, 20)
    values[3] *= -1
    values[7, 11] = np.inf
    values[8, 0] = np.nan
    sym = ms.analyze(GRID)
    F, b = sym.factor_batch(values), np.ones((20, 48))
    x = F.solve(b)
    assert F.failed.tolist() == [3, 7, 8] and np.isnan(x[F.failed]).all() and np.isfinite(np.delete(x, F.failed, axis=0)).all()
    assert "not positive" in F.reason(3) and "not finite" in F.reason(7) and F.reason(-1) == ""
    F.refactor(batch(GRID, 20))
    assert len(F.failed) == 0 and np.isfinite(F.solve(b)).all()


def test_singular_and_nearly_singular_laplacians():
    L = sp.csr_array(ms.datasets.grid2d(8, 6))
    values = np.stack([L.data, L.data + diagonal_of(L), L.data + 1e-13 * diagonal_of(L)])
    with pytest.warns(ms.MeshsolveWarning, match="1 system may be singular.*first is 2"):
        F = ms.analyze(L).factor_batch(values)
    assert F.failed.tolist() == [0]


def test_complex_and_float32_right_hand_sides():
    F = ms.analyze(GRID).factor_batch(batch(GRID, 4))
    b = np.random.default_rng(3).standard_normal((2, 4, 48, 2))
    z = F.solve(b[0] + 1j * b[1])
    assert z.dtype == np.complex128 and np.array_equal(z.real, F.solve(b[0])) and np.array_equal(z.imag, F.solve(b[1]))
    assert F.solve(b[0].astype(np.float32)).dtype == np.float32 and F.solve(b[0].astype(np.int64)).dtype == np.float64
    assert F.solve(np.asfortranarray(b[0])[:, ::-1][:, ::-1]).tolist() == F.solve(b[0]).tolist()
    assert F.solve(np.ones((4, 48, 0))).shape == (4, 48, 0)


def test_rows_of_other_matrices():
    sym, A = ms.analyze(GRID), sp.csr_array(sp.diags_array(np.arange(1.0, 49)))
    F = sym.factor_batch(np.stack([sym.values_of(A), sym.values_of(GRID.tocoo())]))
    x = F.solve(np.ones((2, 48)))
    assert np.allclose(x[0], 1 / np.arange(1.0, 49)) and np.allclose(GRID @ x[1], 1)
    with pytest.raises(ms.PatternMismatchError):
        sym.values_of(sp.csr_array(np.eye(48) * 50 + 1))


def test_only_the_lower_triangle_is_read():
    below = sp.csr_array(sp.tril(GRID))
    sym = ms.analyze(below, lower=True)
    whole = sp.csr_array(sym.values_of(below)[None])
    assert np.allclose(GRID @ sym.factor_batch(whole.toarray()).solve(np.ones((1, 48)))[0], 1)


def test_asymmetry_names_the_system():
    values = batch(GRID, 5)
    values[2, 1] += 0.5
    values[4, 1] += 0.5
    sym = ms.analyze(GRID)
    F = sym.factor_batch(batch(GRID, 5))
    before = F.solve(np.ones((5, 48)))
    with pytest.raises(ms.NotSymmetricError, match="system 2 is not symmetric") as error:
        F.refactor(values)
    assert {error.value.row, error.value.column} == {0, 1} and np.array_equal(F.solve(np.ones((5, 48))), before)
    values[:] = batch(GRID, 5)
    values[2, 1] *= 1 + 1e-13                               # rounding is no asymmetry
    assert len(F.refactor(values).failed) == 0


def test_other_precisions_are_refused():
    with pytest.raises(ms.InvalidInputError, match="precision"):
        ms.analyze(GRID).factor_batch(batch(GRID, 1), precision="mixed")
