"""Some rows of a solution are those of the whole one, bit for bit except the sign of zeros."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms

RNG = np.random.default_rng(0)
PATH = sp.diags_array([-np.ones(299), 2.1 * np.ones(300), -np.ones(299)], offsets=[-1, 0, 1])
MATRICES = {
    "grid": ms.datasets.grid2d(40, 30, boundary="dirichlet"), "volume": ms.datasets.grid3d(9, boundary="dirichlet"), "path": PATH,
    "components": sp.block_diag([ms.datasets.grid2d(12, 9, boundary="dirichlet"), sp.eye_array(3), PATH]), "dense": np.eye(40) + 0.01,
}
FACTORS = {name: ms.cholesky(A, threads=2) for name, A in MATRICES.items()}


def same(a, b):
    return a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b)


@settings(max_examples=60, deadline=None)
@given(name=st.sampled_from(sorted(FACTORS)), data=st.data(), k=st.sampled_from([0, 1, 2, 7, 20]))
def test_any_rows_of_any_right_hand_side(name, data, k):
    F = FACTORS[name]
    n, rng = F.shape[0], np.random.default_rng(data.draw(st.integers(0, 9)))
    rows = rng.permutation(n)[:data.draw(st.integers(0, 12))]
    B = np.zeros((n, k))
    B[rng.integers(0, n, data.draw(st.integers(0, 12)))] = rng.standard_normal(k)
    assert same(F.solve(B, wanted=rows), F.solve(B)[rows])


@settings(max_examples=40, deadline=None)
@given(name=st.sampled_from(sorted(FACTORS)), data=st.data(), k=st.sampled_from([1, 2, 7, 20]))
def test_columns_of_few_entries(name, data, k):
    """The same entry may be given twice, and a column may have none."""
    F, count, rng = FACTORS[name], data.draw(st.integers(0, 12)), np.random.default_rng(data.draw(st.integers(0, 9)))
    rows, columns = (rng.integers(0, most, count).astype(np.int32) for most in (F.shape[0], k))
    values, B = rng.standard_normal(count), np.zeros((F.shape[0], k))
    np.add.at(B, (rows, columns), values)
    assert same(F._solve_entries(rows, columns, values, k), F.solve(B))


def test_every_form_of_b_and_rows():
    F = FACTORS["grid"]
    n, b = F.shape[0], RNG.standard_normal(F.shape[0])
    rows, mask = [5, 2, 900], np.arange(n) % 100 == 7
    assert same(F.solve(b, wanted=rows), F.solve(b)[rows]) and same(F.solve(b, wanted=mask), F.solve(b)[mask])
    assert same(F.solve(b, wanted=7), F.solve(b)[[7]]) and same(F.solve(b, wanted=np.arange(n)), F.solve(b))
    for form in (b.astype(np.float32), b * (1 + 2j), b.tolist(), np.asfortranarray(np.stack([b, b], axis=1))):
        assert same(F.solve(form, wanted=rows), F.solve(form)[rows])
    B = sp.random_array((n, 21), density=0.002, rng=np.random.default_rng(1)).tocsc()
    X = F.solve(B, wanted=rows)
    assert isinstance(X, sp.csc_array) and same(X.toarray(), F.solve(B.toarray())[rows])
    assert isinstance(F.solve(sp.csc_matrix(B), wanted=rows), sp.csc_matrix)
    x = F.solve(sp.coo_array(B[:, [3]].toarray()[:, 0]), wanted=rows)
    assert isinstance(x, sp.coo_array) and same(x.toarray(), F.solve(B[:, [3]].toarray()[:, 0])[rows])
    assert np.allclose(F.refactor(MATRICES["grid"] * 2).solve(b, wanted=rows), F.solve(b)[rows], rtol=0)


def test_fixed_rows_and_out():
    F, rows = ms.cholesky(MATRICES["grid"], fixed=[3, 900, 7]), [7, 40, 1100, 3]
    unit = np.zeros(1200)
    unit[44] = 1
    for b in (unit, RNG.standard_normal((1200, 2)), unit * 1j, sp.csc_array(unit[:, None])):
        for values in (None, [1.0, 2.0, 3.0], np.array([1.0, 2j, 3.0])):
            if values is None or not sp.issparse(b):
                whole = F.solve(b, fixed_values=values)
                some = F.solve(b, fixed_values=values, wanted=rows)
                assert same(*(x.toarray() if sp.issparse(x) else x for x in (some, whole[rows])))
    sparse = F.solve(sp.csc_array(unit[:, None]), fixed_values=[1.0, 2.0, 3.0], wanted=rows).toarray()
    assert same(sparse[:, 0], F.solve(unit, fixed_values=[1.0, 2.0, 3.0])[rows])
    out = np.empty(4)
    assert FACTORS["grid"].solve(unit, wanted=rows, out=out) is out and same(out, FACTORS["grid"].solve(unit)[rows])


@pytest.mark.parametrize("options", [{"precision": "single"}, {"precision": "mixed"}, {"pin": True}])
def test_other_factors_are_refused(options):
    A = ms.datasets.grid2d(40, 30, boundary="neumann" if "pin" in options else "dirichlet")
    with pytest.raises(ms.InvalidInputError, match=r"wanted= is for A x = b with a factor on the host in double precision.*F.solve\(b, ...\)\[rows\]"):
        ms.cholesky(A, **options).solve(np.ones(1200), wanted=[1])
