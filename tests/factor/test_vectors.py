"""The fast path of solves for plain vectors: the solution, errors and reported time of the general path."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

n = 90
A = sp.csr_array(ms.datasets.grid2d(9, 10) + sp.eye_array(n))
FACTORS = {
    "cholesky": lambda: ms.cholesky(A, device="cpu"),
    "lu columns": lambda: ms.lu(A, engine="columns", device="cpu"),
    "lu fronts": lambda: ms.lu(A, engine="fronts", device="cpu"),
}


@pytest.fixture(params=FACTORS)
def factor(request):
    F = FACTORS[request.param]()
    F.solve(np.ones(n))                                   # LU measures the error of its first solution
    return F


def test_the_same_solution_by_both_ways(factor, monkeypatch):
    b = np.random.default_rng(1).standard_normal(n)
    taken = []
    monkeypatch.setattr(factor, "_solve_vector", lambda solve, b: taken.append(b) or type(factor)._solve_vector(factor, solve, b))
    x = factor.solve(b)
    assert len(taken) == 1 and x.shape == (n,) and x.dtype == np.float64 and not np.shares_memory(x, b)
    assert np.array_equal(x, factor.solve(b[:, None])[:, 0])
    out = np.empty(n)
    assert factor.solve(b, out=out) is out and np.array_equal(out, x)
    assert np.array_equal(factor(b), x) and np.array_equal(factor @ b, x) and abs(A @ x - b).max() < 1e-12


@pytest.mark.parametrize("change", [
    lambda b: np.repeat(b, 2)[::2], lambda b: b[::-1].copy()[::-1], lambda b: b.tolist(), lambda b: b.astype(">f8"),
    lambda b: b.view(type("Array", (np.ndarray,), {})), lambda b: np.lib.stride_tricks.as_strided(b, writeable=False)])
def test_other_vectors(factor, change):
    b = np.random.default_rng(2).standard_normal(n)
    assert np.array_equal(factor.solve(change(b)), factor.solve(b))


def test_other_dtypes(factor):
    b = np.arange(n)
    assert np.array_equal(factor.solve(b), factor.solve(b.astype(float)))
    assert factor.solve(b.astype(np.float32)).dtype == np.float32 and factor.solve(b * 1j).dtype == np.complex128


@pytest.mark.parametrize("bad, message", [(np.ones(n - 1), r"must be \(90,\)"), (np.ones(n + 1), r"must be \(90,\)"), (np.ones(0), "must be"),
                                          (np.where(np.arange(n) == 7, np.nan, 1.0), "row 7 holds nan"),
                                          (np.where(np.arange(n) == n - 1, np.inf, 1.0), "row 89 holds inf")])
def test_the_same_errors(factor, bad, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        factor.solve(bad)
    assert abs(A @ factor.solve(np.ones(n)) - 1).max() < 1e-12


def test_the_report_counts_the_time(factor):
    before = factor.report.seconds["solve"]
    factor.solve(np.ones(n))
    assert factor.report.seconds["solve"] > before


def test_refined_lu_solves_do_not_use_the_fast_path(monkeypatch):
    F = ms.lu(A, precision="mixed", device="cpu")
    C = ms.cholesky(A, precision="mixed", device="cpu")
    for factor in (F, F, C):
        monkeypatch.setattr(factor, "_solve_vector", None)
        assert abs(A @ factor.solve(np.ones(n)) - 1).max() < 1e-12
