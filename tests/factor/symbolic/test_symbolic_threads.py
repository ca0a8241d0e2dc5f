"""The analysis on several threads: every array equals that of one thread. From 50,000 rows on subtrees run in parallel."""

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve.factor.symbolic import Symbolic
from meshsolve.sparse.matrix import symmetric_pattern

n = 60_000


def star():
    ones = np.ones(n - 1)
    return sp.csr_array((ones, (np.zeros(n - 1, int), np.arange(1, n))), shape=(n, n))


def forest(seed):
    A = sp.random_array((n, n), density=0.6 / n, rng=np.random.default_rng(seed)).tocsr()
    return A + A.T


PATTERNS = {
    "grid": lambda: ms.datasets.grid2d(240, 240),
    "road": lambda: ms.datasets.road_like(n),
    "path": lambda: sp.diags_array([np.ones(n - 1)], offsets=[1], shape=(n, n)).tocsr(),
    "star": star,
    "forest": lambda: forest(3),
    "components": lambda: sp.block_diag([ms.datasets.grid2d(20, 20)] * 150).tocsr(),
    "empty": lambda: sp.csr_array((n, n)),
}
ORDERS = {
    "nd": lambda P: ms.order.nested_dissection(P).perm,
    "amd": lambda P: ms.order.amd(P).perm,
    "natural": lambda P: np.arange(P.n),
    "backwards": lambda P: np.arange(P.n)[::-1],
    "random": lambda P: np.random.default_rng(4).permutation(P.n),
}
MEETS = {"grid": ("nd", "amd", "natural"), "road": ("nd", "amd")}       # their fill is too large in a random order


@pytest.mark.slow
@pytest.mark.native
@pytest.mark.parametrize(("pattern", "order"), [(p, o) for p in PATTERNS for o in MEETS.get(p, ORDERS)])
def test_any_number_of_threads_gives_the_same_analysis(pattern, order):
    P = symmetric_pattern(PATTERNS[pattern]())
    perm = ORDERS[order](P)
    one = Symbolic.build(P, perm, threads=1).native
    for threads in (2, 5):
        same_analysis(Symbolic.build(P, perm, threads=threads).native, one, f"{threads} threads")


@pytest.mark.native
@pytest.mark.parametrize("pattern", PATTERNS)
def test_tree_and_counts_of_amd_give_the_same_analysis(pattern):
    P = symmetric_pattern(PATTERNS[pattern]())
    o = ms.order.amd(P)
    assert (o.elimination is None) == (pattern == "star")               # a dense row is ordered last, without counts
    one = Symbolic.build(P, o.perm, threads=1).native
    for threads in (1, 2, 5):
        same_analysis(Symbolic.build(P, o.perm, ordering=o, threads=threads, known=o.elimination).native, one, f"{threads} threads")


def same_analysis(given, expected, what):
    for name in ("perm", "iperm", "parent", "colcount", "first", "snode_parent", "row_ptr", "rows"):
        np.testing.assert_array_equal(getattr(given, name), getattr(expected, name), err_msg=f"{name}, {what}")
    assert (given.nnz, given.flops) == (expected.nnz, expected.flops)
