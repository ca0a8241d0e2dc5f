"""Hostile input of the batches of all factorizations: factors of many matrices of one pattern."""

import pickle

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
    values[:, np.repeat(np.arange(642), np.diff(A.indptr)) == A.indices] += 0.1 + np.random.default_rng(0).random((300, 642)) - (kind == "ildl")
    members = [sp.csr_array((row, A.indices, A.indptr), shape=A.shape) for row in values]
    if kind == "cholesky":
        batched = single = ms.analyze(A)
    else:
        batched = single = ms.lu(members[0]) if kind == "lu" else ms.ildl(members[0], fill_level=None)
    F, b = batched.factor_batch(values, threads=2), np.random.default_rng(1).standard_normal((300, 642))
    x = F.solve(b)
    assert F.nbytes > 20 << 20 and len(F.failed) == 0
    for i in (0, 1, 2, 3, 150, 299):
        K = single.factor(members[i]) if kind == "cholesky" else single.refactor(members[i])
        assert np.array_equal(x[i], K.solve(b[i]))
    if kind == "ildl":
        assert any(single.refactor(M).report.facts["delayed"] for M in members[:20])


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
    monkeypatch.setattr("meshsolve.memory.NEGLIGIBLE", 0)
    monkeypatch.setattr("meshsolve.memory.available_memory", lambda: 1 << 20)
    with pytest.raises(ms.OutOfMemoryError, match="5,000 systems"):
        maker.factor_batch(batch(5000))
