"""The plain orderings and resolve()."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from graphs import check_perm, grid, random_graph, shuffled, star

import meshsolve as ms
from meshsolve import order
from meshsolve.arrays import symmetric_pattern

pytestmark = pytest.mark.native


def test_nnz_sort_is_by_degree_with_ties_by_seed():
    A = random_graph(300, 5, 3)
    o = order.nnz_sort(A, seed=1)
    check_perm(o, 300)
    degree = np.diff(symmetric_pattern(A).indptr)
    assert (np.diff(degree[o.perm]) >= 0).all()
    assert np.array_equal(o.perm, order.nnz_sort(A, seed=1).perm) and not np.array_equal(o.perm, order.nnz_sort(A, seed=2).perm)


def test_rcm_has_small_bandwidth():
    A = shuffled(grid(20, 20), 0)
    o = order.rcm(A)
    check_perm(o, 400)
    G = sp.coo_array(A)
    assert np.abs(o.iperm[G.row] - o.iperm[G.col]).max() <= 40


def test_random_and_natural():
    A = star(100)
    assert np.array_equal(order.natural(A).perm, np.arange(100)) and order.natural(A).tree is None
    o = order.random(A, seed=4)
    check_perm(o, 100)
    assert np.array_equal(o.perm, order.random(A, seed=4).perm) and not np.array_equal(o.perm, order.random(A, seed=5).perm)


@pytest.mark.parametrize("name", ["nd", "amd", "nnz_sort", "rcm", "random", "natural"])
def test_resolve_names(name):
    o = order.resolve(name, symmetric_pattern(grid(12, 12)), seed=1, threads=1)
    check_perm(o, 144)
    assert o.method == name and o.report.as_dict()["ordering"] == name


def test_resolve_refuses_an_unknown_effort():
    for name in ("auto", "nd"):
        with pytest.raises(ms.InvalidInputError, match="effort has to be one of"):
            order.resolve(name, symmetric_pattern(grid(5, 5)), effort="most")


def test_resolve_an_ordering_or_a_permutation():
    pattern = symmetric_pattern(grid(5, 5))
    o = order.amd(pattern)
    assert np.shares_memory(order.resolve(o, pattern).perm, o.perm)
    given = order.resolve(o.perm[::-1].astype(np.int64), pattern)
    assert given.method == "given" and np.array_equal(given.perm, o.perm[::-1]) and given.perm.dtype == np.int32


def test_an_ordering_is_an_array_that_cannot_be_written_to():
    A = grid(5, 5)
    o = order.amd(A)
    assert np.array_equal(np.asarray(o), o.perm) and np.asarray(o, np.int64).dtype == np.int64
    assert np.array_equal(np.argsort(o), o.iperm) and (A[o][:, o] != A[o.perm][:, o.perm]).nnz == 0
    assert o.__array__(np.dtype(float)).dtype == float
    with pytest.raises(ValueError, match="takes a copy"):
        o.__array__(np.dtype(float), copy=False)
    for array in (o.perm, o.iperm, np.asarray(o), pickle.loads(pickle.dumps(o)).perm, copy.copy(o).iperm):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 0
    copied = np.array(o)
    copied[:] = 0


@pytest.mark.parametrize("bad", ["metis", np.zeros(25, int), np.arange(24), np.arange(25.0), order.natural(grid(3, 3)), None])
def test_resolve_refuses(bad):
    with pytest.raises(ms.InvalidInputError):
        order.resolve(bad, symmetric_pattern(grid(5, 5)))


@pytest.mark.parametrize("function", [order.nnz_sort, order.random])
@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
def test_bad_seed(function, seed):
    with pytest.raises(ms.InvalidInputError):
        function(star(5), seed=seed)
