"""The analyzed pattern in the assembly tree: recomputed indices, comparison with later matrices, no array of the caller."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from zoo import backward_error, grid, random_spd, spd, zoo

import meshsolve as ms
from meshsolve import _core
from meshsolve.factor.fronts import TreePattern
from meshsolve.sparse.matrix import as_csr

MESH = ms.operators.graph_laplacian(ms.datasets.icosphere(5))
PATTERNS = {**zoo(), "mesh": MESH, "2D": ms.datasets.grid2d(96, 96), "3D": ms.datasets.grid3d(11)}
DIAGONALS = "every", "some", "none"


def with_diagonal(A, kind, seed=0):
    """The symmetric A with every, some or none of its diagonal entries stored."""
    kept = {"every": 1.0, "some": 0.5, "none": 0.0}[kind] > np.random.default_rng(seed).random(A.shape[0])
    A = sp.coo_array(A)
    stays = (A.row != A.col) | kept[A.row]
    return sp.csr_array((A.data[stays], (A.row[stays], A.col[stays])), shape=A.shape)


def ring(n, step):
    """A ring with edges of length `step`: any step gives the same row pointers."""
    node = np.arange(n)
    A = sp.coo_array((np.full(n, -1.0), (node, (node + step) % n)), shape=(n, n))
    return sp.csr_array(A + A.T + sp.diags_array(np.full(n, 3.0)))


def made(F):
    """True if the indices of a factor's pattern have been recomputed."""
    return "indices" in vars(F.symbolic.matrix_pattern)


@pytest.mark.parametrize("name", PATTERNS)
@each("threads", [1, 2])
@each("ordering", ["nd", "natural", "random"])
@each("diagonal", DIAGONALS)
def test_the_indices_are_recomputed(name, diagonal, ordering, threads):
    A = with_diagonal(PATTERNS[name], diagonal)
    found, expected = ms.analyze(A, ordering, threads=threads, device="cpu").matrix_pattern, as_csr(A)
    assert isinstance(found, TreePattern) and "indices" not in vars(found)
    assert (found.n, found.nnz) == (expected.n, expected.nnz) and np.array_equal(found.indptr, expected.indptr)
    assert found.same_as(expected) and np.array_equal(found.indices, expected.indices)
    assert found.indices.dtype == np.int32 and found.indices is found.indices


@pytest.mark.native
def test_a_tree_that_two_threads_made():
    sym, M = ms.analyze(PATTERNS["2D"], "nd", device="cpu"), as_csr(PATTERNS["2D"])
    before = _core.shared_calls()
    tree = _core.AssemblyTree(sym.native, M.indptr, M.indices, 2)
    assert _core.shared_calls() > before and np.array_equal(tree.indices(M.indptr), M.indices)


@pytest.mark.native
@given(n=st.integers(1, 50), density=st.floats(0, 0.4), seed=st.integers(0, 1000), diagonal=st.sampled_from(DIAGONALS))
def test_the_indices_of_random_patterns(n, density, seed, diagonal):
    A = with_diagonal(random_spd(n, density, seed), diagonal, seed)
    assert np.array_equal(ms.analyze(A, "amd", device="cpu").matrix_pattern.indices, as_csr(A).indices)


# ---- the fingerprint ----------------------------------------------------------------------------------------------------


def test_every_swap_of_two_indices_changes_the_fingerprint():
    x = np.random.default_rng(1).permutation(60).astype(np.int32)
    found = {_core.fingerprint(x)}
    for i in range(60):
        for j in range(i):
            y = x.copy()
            y[[i, j]] = x[[j, i]]
            found.add(_core.fingerprint(y))
    assert len(found) == 1 + 60 * 59 // 2


@pytest.mark.native
@each("size", range(12))
def test_every_index_counts(size):
    lists = [np.zeros(size, np.int32), np.zeros(size + 1, np.int32)]       # different numbers of zeros
    for at in range(size):
        for value in (1, 2, 2**31 - 2):
            lists.append(np.zeros(size, np.int32))
            lists[-1][at] = value
    assert len({_core.fingerprint(x) for x in lists}) == len(lists)
    assert _core.fingerprint(lists[0]) == _core.fingerprint(lists[0].copy())


@pytest.mark.parametrize("size", [0, 3, 4 << 14, (1 << 18) + 5])
def test_the_fingerprint_does_not_depend_on_threads(size):
    x = np.random.default_rng(size).integers(0, 2**31, size, dtype=np.int32)
    assert _core.fingerprint(x) == _core.fingerprint(x, 3)


def test_permutations_on_several_threads():
    x = np.random.default_rng(0).permutation(100_000).astype(np.int32)
    assert _core.is_permutation(x, 3)
    for k, value in ((0, x[-1]), (70_000, -1), (99_999, 100_000)):
        y = x.copy()
        y[k] = value
        assert not _core.is_permutation(y, 3) and not _core.is_permutation(y)


@given(n=st.integers(2, 80), density=st.floats(0, 0.4), seed=st.integers(0, 1000), moved=st.integers(0, 1000))
def test_the_same_entries_and_no_others(n, density, seed, moved):
    P = ms.analyze(random_spd(n, density, seed), device="cpu").matrix_pattern
    M = as_csr(random_spd(n, density, seed))
    assert P.same_as(M)
    M.indices[moved % M.nnz] ^= 1
    assert not P.same_as(M)


# ---- factors ------------------------------------------------------------------------------------------------------------


def test_the_same_pattern_needs_no_indices():
    A = spd(grid(30, 20))
    F = ms.cholesky(A, device="cpu")
    F.refactor(A.copy()).solve(np.ones(600))
    fixed = ms.cholesky(A, fixed=[3, 77], device="cpu").refactor(A.copy())
    sym = ms.analyze(A, device="cpu")
    assert not made(F) and not made(fixed) and not made(sym.factor(A, device="cpu")) and F.rcond() > 0 and not made(F)


def test_another_pattern_with_equal_row_pointers_is_detected():
    A, B = ring(21, 1), ring(21, 2)
    assert np.array_equal(A.indptr, B.indptr)
    F = ms.cholesky(A, device="cpu")
    with pytest.raises(ms.PatternMismatchError) as caught:
        F.refactor(B)
    assert (caught.value.row, caught.value.column) == (0, 2)


def test_a_subset_of_the_analyzed_pattern():
    A = spd(grid(12, 11))
    less = spd(with_less(grid(12, 11)))
    for F in (ms.cholesky(A, device="cpu"), ms.analyze(A, device="cpu").factor(A, device="cpu")):
        x = F.refactor(less).solve(np.ones(132))
        assert backward_error(less, x, np.ones(132)) < 1e-14
        kept = F.symbolic.matrix_pattern.indices
        F.refactor(A).refactor(less)
        assert F.symbolic.matrix_pattern.indices is kept and np.array_equal(F.solve(np.ones(132)), x)


def with_less(A):
    """The upper triangle without its last entry."""
    A = sp.triu(A, 1).tocoo()
    return sp.coo_array((A.data[:-1], (A.row[:-1], A.col[:-1])), shape=A.shape)


def test_fixed_rows_and_an_entry_outside():
    A = spd(grid(12, 11))
    more = sp.csr_array(A + sp.coo_array(([0.1, 0.1], ([5, 90], [90, 5])), shape=A.shape))
    F = ms.cholesky(A, fixed=[0, 40], device="cpu")
    with pytest.raises(ms.PatternMismatchError) as caught:
        F.refactor(more)
    assert (caught.value.row, caught.value.column) == (5, 90)


@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("pointers", [np.int32, np.int64])
@pytest.mark.parametrize("how", ["cholesky", "analyze", "pin", "fixed"])
def test_the_callers_arrays_may_change(how, pointers, precision):
    A = ms.datasets.grid2d(13, 9) if how == "pin" else spd(grid(13, 9))
    given = A.copy()
    given.indptr = given.indptr.astype(pointers)
    if how == "analyze":
        F = ms.analyze(given, device="cpu").factor(given, precision=precision, device="cpu")
    else:
        options = {"pin": {"pin": True}, "fixed": {"fixed": [0, 50]}}.get(how, {})
        F = ms.cholesky(given, precision=precision, device="cpu", **options)
    b = np.linspace(-1, 1, 117)
    before, pattern = F.solve(b), as_csr(A)
    given.indices[:], given.indptr[:], given.data[:] = 0, 0, -7
    assert np.array_equal(F.solve(b), before) and np.array_equal(F.refactor(A).solve(b), before)
    if how in ("cholesky", "analyze"):
        P = F.symbolic.matrix_pattern
        assert np.array_equal(P.indptr, pattern.indptr) and np.array_equal(P.indices, pattern.indices)
        assert abs(F.L @ F.L.T - A[F.perm][:, F.perm]).max() < (1e-13 if precision == "double" else 1e-5)


@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("pointers", [np.int32, np.int64])
def test_no_array_of_the_caller_is_held(pointers, precision):
    A = spd(grid(13, 9))
    A.indptr = A.indptr.astype(pointers)
    arrays = [weakref.ref(part) for part in (A.indptr, A.indices, A.data)]
    F = ms.cholesky(A, precision=precision, device="cpu")
    sym = ms.analyze(A, device="cpu")
    del A
    gc.collect()
    assert [part() for part in arrays] == [None] * 3 and (F.shape[0], sym.n) == (117, 117)


@pytest.mark.parametrize("precision", ["double", "mixed"])
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda F: pickle.loads(pickle.dumps(F))])
def test_copies_have_the_same_pattern(again, precision):
    A, b = spd(grid(13, 9)), np.ones(117)
    F = ms.cholesky(A, precision=precision, device="cpu")
    copied = again(F)
    P = copied.symbolic.matrix_pattern
    assert isinstance(P, TreePattern) and np.array_equal(P.indices, as_csr(A).indices)
    assert np.array_equal(copied.solve(b), F.solve(b)) and np.array_equal(copied.refactor(A).solve(b), F.solve(b))
    less = spd(with_less(grid(13, 9)))
    assert backward_error(less, copied.refactor(less).solve(b), b) < 1e-14


def test_a_pickled_analysis_factors():
    A = spd(grid(13, 9))
    sym = ms.analyze(A, device="cpu")
    copied = pickle.loads(pickle.dumps(sym))
    assert all(map(np.array_equal, copied.pattern(), sym.pattern()))
    assert np.array_equal(copied.factor(A, device="cpu").L.data, sym.factor(A, device="cpu").L.data)
