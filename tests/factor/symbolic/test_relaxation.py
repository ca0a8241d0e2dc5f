"""The table of the relaxation: which supernodes are merged."""

import pickle

import numpy as np
import pytest

import meshsolve as ms

A = ms.datasets.grid2d(40, 37, boundary="dirichlet")
DEFAULT = [(4, 1, 256), (16, 0.25), (48, 0.1), (np.inf, 0.05)]


def same(S, T):
    return np.array_equal(S.perm, T.perm) and np.array_equal(S.supernodes, T.supernodes) and S.nbytes == T.nbytes


@pytest.mark.parametrize("ordering", ["amd", "nd", "natural", "rcm"])
def test_the_documented_table_is_the_default(ordering):
    """With and without the elimination tree of the ordering; as tuples, lists and an array."""
    for B in (A, ms.datasets.grid3d(9, boundary="dirichlet"), ms.graph_laplacian(ms.datasets.icosphere(4))):
        S = ms.analyze(B, ordering, device="cpu")
        assert same(S, ms.analyze(B, ordering, relax=DEFAULT, device="cpu"))
        assert same(S, ms.analyze(B, ordering, relax=[list(row) for row in DEFAULT], device="cpu"))


def supernodes(**options):
    S = ms.analyze(A, "amd", device="cpu", **options)
    return len(S.supernodes) - 1, S.nbytes


def test_more_zeros_fewer_supernodes():
    """Without relaxation a supernode stores no zeros: its columns have the same rows below."""
    none, some, many = supernodes(relax=[]), supernodes(), supernodes(relax=np.array([[np.inf, 0.6]]))
    assert none[0] > some[0] > many[0]
    S = ms.analyze(A, "amd", device="cpu", relax=[])
    first, count = S.supernodes, S.colcount
    inside = np.setdiff1d(np.arange(1, len(count)), first)
    assert (count[inside] == count[inside - 1] - 1).all()


def test_rows_bound_columns_and_numbers_of_zeros():
    S = ms.analyze(A, "amd", device="cpu", relax=[(6, 1.0)])
    plain = ms.analyze(A, "amd", device="cpu", relax=[])
    assert np.diff(S.supernodes).max() == np.diff(plain.supernodes).max() and len(S.supernodes) < len(plain.supernodes)
    assert len(S.supernodes) < len(ms.analyze(A, "amd", device="cpu", relax=[(6, 1.0, 3)]).supernodes) < len(plain.supernodes)
    assert same(plain, ms.analyze(A, "amd", device="cpu", relax=[(6, 1.0, 0)]))


@pytest.mark.parametrize("relax", [[], [(np.inf, 0.5)], [(8, 0.9, 40), (np.inf, 0.02)]])
def test_the_factor_does_not_depend_on_it(relax):
    S = ms.analyze(A, "amd", device="cpu", relax=relax)
    F, b = pickle.loads(pickle.dumps(S)).factor(A, device="cpu"), A @ np.ones(A.shape[0])
    assert F.nnz == ms.cholesky(A, "amd", device="cpu").nnz and abs(F.solve(b) - 1).max() < 1e-12
    assert S.nnz == F.nnz


@pytest.mark.parametrize("relax", [[], [(np.inf, 0.5)], [(8, 0.9, 40), (np.inf, 0.02)], DEFAULT])
def test_the_analysis_of_the_gpu_follows_the_same_table(cuda, relax):
    expected = ms.analyze(A, "amd", device="cpu", relax=relax)
    assert same(expected, ms.analyze(A, np.array(ms.order.amd(A).perm), device="cuda", relax=relax))


@pytest.mark.parametrize(("relax", "words"), [
    (0.5, "relax must be a list of"), ("much", "relax must be a list of"), ([4, 0.5], r"relax\[0\] must be \(columns, share\)"),
    ([(4, 0.5), (4,)], r"relax\[1\] must be"), ([(4, 1.5)], r"relax\[0\]\[1\] must be a share of zeros from 0 to 1, got 1.5"),
    ([(4, 0.5), (np.nan, 0.5)], r"relax\[1\]\[0\]"), ([(-1, 0.5)], r"relax\[0\]\[0\]"), ([("four", 0.5)], r"relax\[0\]\[0\]"),
    ([(4, np.inf)], r"relax\[0\]\[1\] must be a share")])
def test_a_bad_table_is_refused(relax, words):
    with pytest.raises(ms.InvalidInputError, match=words):
        ms.analyze(A, relax=relax, device="cpu")
