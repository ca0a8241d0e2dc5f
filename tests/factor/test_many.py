"""Batches of all factorizations, factors of many matrices of one pattern: hostile input, and factors that are not kept."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

GRID = sp.csr_array(ms.datasets.grid2d(8, 6, boundary="dirichlet"))
N, NNZ = 48, 212
MAKERS = {"cholesky": lambda: ms.analyze(GRID), "lu": lambda: ms.lu(GRID), "ildl": lambda: ms.ildl(GRID, fill_level=None)}


def batch(count):
    return GRID.data * np.random.default_rng(0).uniform(1, 1.25, (count, 1))


@pytest.fixture(params=MAKERS)
def maker(request):
    """An analysis or factor with ``factor_batch``."""
    return MAKERS[request.param]()


def test_bad_values(maker):
    assert GRID.shape == (N, N) and GRID.nnz == NNZ
    F = maker.factor_batch(batch(2))
    for values, message in ((np.ones((3, 4)), rf"\(N, {NNZ}\)"), (np.ones((0, NNZ)), "at least one system"), (np.ones(NNZ), rf"\(N, {NNZ}\)"),
                            (np.full((2, NNZ), 1j), "real numbers"), ([["a"] * NNZ], "real numbers"), (None, "real numbers")):
        for call in (maker.factor_batch, F.refactor):
            with pytest.raises(ms.InvalidInputError, match=message):
                call(values)
    assert len(F.failed) == 0 and np.array_equal(F.solve(np.ones((2, N))), maker.factor_batch(batch(2)).solve(np.ones((2, N))))


def test_bad_right_hand_sides(maker):
    F = maker.factor_batch(batch(5))
    for b, message in ((np.ones((4, N)), rf"b must be \(5, {N}\)"), (np.ones(N), "b must be"), (np.ones((5, N, 1, 1)), "b must be"),
                       ("abc", "numbers"), (np.where(np.arange(5 * N).reshape(5, N) == 100, np.nan, 1), "system 2, row 4")):
        with pytest.raises(ms.InvalidInputError, match=message):
            F.solve(b)


def test_solutions_in_the_arrays_of_the_caller(maker):
    """Also in b itself, in an array that is not contiguous, and in one that is wider than b."""
    F, b = maker.factor_batch(batch(9)), np.random.default_rng(1).standard_normal((2, 9, N, 2))
    strided = np.zeros((9, N, 4))[..., ::2]
    for given, out in ((b[0], np.empty((9, N, 2))), (b[0], strided), (b[0], b[0].copy()), (b[0][..., :0], np.empty((9, N, 0))),
                       (b[0].astype(np.float32), np.empty((9, N, 2))), (b[0].astype(np.float32), np.empty((9, N, 2), np.float32)),
                       (b[0] + 1j * b[1], np.empty((9, N, 2), complex)), (np.ones((9, N), int), np.empty((9, N)))):
        expected = F.solve(given)
        assert F.solve(given, out) is out and np.array_equal(out.astype(expected.dtype), expected)
    x = b[0].copy()
    assert F.solve(x, out=x) is x and np.array_equal(x, F.solve(b[0]))
    right, expected = x[..., 0], F.solve(x[..., 0])
    assert np.array_equal(F.solve(right, x.reshape(-1)[:9 * N].reshape(9, N)), expected)        # the memory of x, in part
    frozen = np.empty((9, N, 2))
    frozen.flags.writeable = False
    for out, message in ((np.empty((9, N)), "out must be"), (np.empty((9, N, 2), np.float32), "out must be"), (frozen, "read-only")):
        with pytest.raises(ms.InvalidInputError, match=message):
            F.solve(b[0], out)


@pytest.mark.parametrize("kind", MAKERS)
def test_batches_larger_than_the_caches(kind):
    """Factors of more than 20 MB are written past the caches. Systems of L D L^T have pairs and delayed columns."""
    A = sp.csr_array(ms.cotan_laplacian(ms.datasets.icosphere(3)))
    values = np.repeat(A.data[None], 300, axis=0)
    diagonal = np.repeat(np.arange(642), np.diff(A.indptr)) == A.indices
    values[:, diagonal] += 0.1 + np.random.default_rng(0).random((300, 642)) - (kind == "ildl")
    members = [sp.csr_array((row, A.indices, A.indptr), shape=A.shape) for row in values]
    if kind == "cholesky":
        batched = single = ms.analyze(A)
    else:
        batched = single = ms.lu(members[0]) if kind == "lu" else ms.ildl(members[0], fill_level=None)
    F, b = batched.factor_batch(values, threads=2), np.random.default_rng(1).standard_normal((300, 642))
    x = F.solve(b)
    assert np.array_equal(x, batched.factor_batch(values, threads=2, keep=False).solve(b))
    assert F.nbytes > 20 << 20 and len(F.failed) == 0
    for i in (0, 1, 2, 3, 150, 299):
        K = single.factor(members[i]) if kind == "cholesky" else single.refactor(members[i])
        assert np.array_equal(x[i], K.solve(b[i]))
    if kind == "ildl":
        assert any(single.refactor(M).report.facts["delayed"] for M in members[:20])


def scattered(A, count, spread, seed=0):
    """Values of D A D for random diagonal matrices D."""
    d = spread ** np.random.default_rng(seed).uniform(-1, 1, (count, A.shape[0]))
    rows = np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))
    return A.data * (d[:, rows] * d[:, A.indices])


def hostile(A, unlike):
    """Values of 22 systems: ordinary ones, one with NaN, a zero one, a singular one, one that a single factor computes."""
    values = scattered(A, 22, 1.2)
    values[3, 5], values[7], values[9, A.indptr[4]:A.indptr[5]], values[9, A.indices == 4] = np.nan, 0, 0, 0
    values[17] = unlike
    return values


SHIFTED, SKEW = sp.csr_array(GRID - 1.7 * sp.eye_array(N)), sp.csr_array(GRID + sp.diags_array(np.full(N - 1, 0.3), offsets=1))
DENSE = sp.csr_array(np.eye(345) * 400 + 1)                     # its front is one that threads share
TWISTED = sp.csr_array((SKEW.data * np.exp(1j * np.arange(SKEW.nnz)), SKEW.indices, SKEW.indptr), shape=SKEW.shape)


def stretched(A):
    """Values whose pivots are others than those of A."""
    return A.data * 10.0 ** np.random.default_rng(3).uniform(-5, 5, A.nnz)


ONE_PASS = {"cholesky": (GRID, ms.analyze, {}, lambda A: 1e-304 * A.data),
            "cholesky, single": (GRID, ms.analyze, {"precision": "single"}, lambda A: -A.data),
            "cholesky, one by one": (DENSE, ms.analyze, {}, lambda A: -A.data),
            "lu, columns": (SKEW, lambda A: ms.lu(A, engine="columns"), {}, stretched),
            "lu, fronts": (SKEW, lambda A: ms.lu(A, engine="fronts"), {}, stretched),
            "lu, complex": (TWISTED, ms.lu, {}, stretched),
            "ildl": (SHIFTED, lambda A: ms.ildl(A, fill_level=None), {}, lambda A: scattered(A, 1, 1e9, 7)[0])}


def with_warnings(call, *args):
    """The result of a call and the texts of its warnings."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        return call(*args), [str(w.message) for w in seen]


@pytest.mark.native
@pytest.mark.parametrize("kind", ONE_PASS)
@pytest.mark.parametrize("threads", [1, 3])
def test_factors_that_are_not_kept(kind, threads):
    """Solutions, failures and what is known of the systems are those of a batch that keeps its factors."""
    A, make, options, unlike = ONE_PASS[kind]
    values, batched, rng = hostile(A, unlike(A)), make(A), np.random.default_rng(1)
    F = batched.factor_batch(values, threads=threads, keep=False, **options)
    for k in ((), (1,), (3,), (9,)):
        kept, b = batched.factor_batch(values, threads=threads, **options), rng.standard_normal((22, A.shape[0], *k))
        (x, said), (expected, says) = (with_warnings(many.solve, b) for many in (F, kept))
        assert np.array_equal(x, expected, equal_nan=True) and said == says and bool(says) == (kind == "ildl")
        assert F.failed.tolist() == kept.failed.tolist() and {3, 7} <= set(F.failed.tolist()) and len(F.failed) < 6
        assert [F.reason(i) for i in range(22)] == [kept.reason(i) for i in range(22)]
        for name in ("alone", "inertia", "backward_error"):
            assert not hasattr(kept, name) or np.array_equal(getattr(F, name), getattr(kept, name), equal_nan=True), name
    z = rng.standard_normal((22, A.shape[0])) + 1j * rng.standard_normal((22, A.shape[0]))
    (x, _), (expected, _) = (with_warnings(many.solve, z) for many in (F, kept))
    assert np.array_equal(x, expected, equal_nan=True) and F.nbytes == 0 < kept.nbytes
    assert kind.startswith("cholesky") or (17 in F.alone and F.report.facts["alone"] == len(F.alone))
    early = batched.factor_batch(values, threads=threads, keep=False, **options)        # nothing was solved
    fresh = batched.factor_batch(values, threads=threads, **options)
    assert early.failed.tolist() == fresh.failed.tolist() and early.reason(3) == "the matrix has a value that is not finite"


def test_values_of_factors_that_are_not_kept(maker):
    """A solve reads them; other values replace them."""
    values, b = batch(7), np.random.default_rng(1).standard_normal((7, N))
    F = maker.factor_batch(values, keep=False)
    x = F.solve(b)
    values *= 2
    assert np.array_equal(F.solve(b), maker.factor_batch(values).solve(b)) and len(F.failed) == 0
    values[2, 0] = np.nan
    assert np.isnan(F.solve(b)[2]).all() and F.failed.tolist() == [2]
    assert F.refactor(batch(7)) is F and len(F.failed) == 0 and np.array_equal(F.solve(b), x)
    assert F.solve(np.ones((7, N, 0))).shape == (7, N, 0)
    with pytest.raises(ms.InvalidInputError, match="keep must be True or False, got 'no'"):
        maker.factor_batch(values, keep="no")
    asymmetric = batch(7)
    asymmetric[5, 1] += 0.5
    if not isinstance(maker, ms.LUFactor):
        with pytest.raises(ms.NotSymmetricError, match="system 5"):
            F.refactor(asymmetric)
        assert np.array_equal(F.solve(b), x)


def test_other_errors(maker, monkeypatch):
    F = maker.factor_batch(batch(5))
    with pytest.raises(ms.InvalidInputError, match="this batch has 5"):
        F.refactor(batch(6))
    with pytest.raises(ms.InvalidInputError, match=r"0\.\.4"):
        F.reason(5)
    with pytest.raises(ms.InvalidInputError, match="threads"):
        maker.factor_batch(batch(1), threads=0)
    with pytest.raises(ms.InvalidInputError, match="cannot be pickled.*factor_batch"):
        pickle.dumps(F)
    huge = np.broadcast_to(GRID.data, (10**9, NNZ))                             # more than 2^31 numbers, and a terabyte
    for keep in (True, False):
        with pytest.raises(ms.OutOfMemoryError, match=r"a contiguous copy of the values, \(1000000000, 212\), takes 1579"):
            maker.factor_batch(huge, keep=keep)
    with pytest.raises(ms.OutOfMemoryError, match=r"a contiguous copy of b, \(5, 48, 10000000000\)"):
        F.solve(np.broadcast_to(1.0, (5, N, 10**10)))
    monkeypatch.setattr("meshsolve.memory.NEGLIGIBLE", 0)
    monkeypatch.setattr("meshsolve.memory.available_memory", lambda: 1 << 20)
    with pytest.raises(ms.OutOfMemoryError, match="5,000 systems"):
        maker.factor_batch(batch(5000))
    assert len(maker.factor_batch(batch(5000), keep=False).failed) == 0
