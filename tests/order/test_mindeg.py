"""Minimum degree in lists and in a bit matrix: fill close to that of the definition, on small graphs; halo; speed traps."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from graphs import (
    check_perm,
    clique,
    fill,
    from_edges,
    grid,
    kkt,
    minimum_degree,
    path,
    preferential,
    random_graph,
    shuffled,
    star,
    triangulated,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve import _core, order
from meshsolve.factor.symbolic import colcount, etree
from meshsolve.mesh import pattern_of

pytestmark = pytest.mark.native


@pytest.mark.parametrize("A", [grid(7, 7), triangulated(6, 8), grid(4, 4, 4), random_graph(60, 4, 1), kkt(40, 20, 2), path(50)])
def test_fill_is_near_exact_minimum_degree(A):
    ours, exact = fill(A, order.amd(A).perm), fill(A, minimum_degree(A))
    assert ours[0] <= 1.15 * exact[0]


@pytest.mark.parametrize("A", [path(200), star(200), from_edges(127, (np.arange(1, 127) - 1) // 2, np.arange(1, 127))])
def test_trees_are_ordered_without_fill(A):
    assert fill(A, order.amd(A).perm)[0] == 2 * A.shape[0] - 1


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.floats(0, 1), st.integers(0, 2**20))
def test_random_patterns(n, density, seed):
    rng = np.random.default_rng(seed)
    A = sp.csr_array((rng.random((n, n)) < density * rng.random()).astype(float))
    o = order.amd(A)
    check_perm(o, n)
    S = sp.csr_array(A + A.T + sp.eye_array(n))
    assert fill(S, o.perm)[0] <= 1.3 * fill(S, minimum_degree(S))[0] + 5


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 60), st.floats(0, 1), st.booleans(), st.integers(0, 2**20))
def test_tree_and_counts_are_those_of_the_order(n, density, diagonal, seed):
    """With absorbed elements, merged and mass eliminated variables, and several components. A stored diagonal changes nothing."""
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) < density * rng.random() ** 2
    P = pattern_of(sp.csr_array((A | A.T).astype(float)))
    stored = sp.csr_array(P.to_scipy() + sp.diags_array((rng.random(n) < 0.7).astype(float)) * diagonal)
    perm, parent, count, _ = _core.amd(stored.indptr.astype(np.int64), stored.indices.astype(np.int32))
    Q = P.to_scipy()[perm][:, perm]
    assert np.array_equal(perm, order.amd(P).perm)
    assert np.array_equal(parent, etree(Q)) and np.array_equal(count, colcount(Q))


@settings(max_examples=150, deadline=None)
@given(st.integers(1, 60), st.floats(0, 1), st.integers(0, 2**20))
def test_rows_that_come_last(n, density, seed):
    """Their order is kept. Tree and counts are those of a graph in which they are adjacent to each other, as in a last front."""
    rng = np.random.default_rng(seed)
    A = rng.random((n, n)) < density * rng.random() ** 2
    P = pattern_of(sp.csr_array((A | A.T).astype(float)))
    last = rng.permutation(n)[:rng.integers(1, n + 1)].astype(np.int32)
    perm, parent, count, _ = _core.amd(P.indptr, P.indices, last=last)
    own = n - len(last)
    check_perm(order.Ordering(perm, "amd"), n)
    assert np.array_equal(perm[own:], last)
    Q = P.to_scipy()[perm][:, perm].toarray()
    Q[own:, own:] = 1
    expected = etree(Q)
    expected[:own] = np.minimum(expected[:own], own)                  # the last front is one node of the tree
    assert np.array_equal(parent, expected) and np.array_equal(count, colcount(Q))


def test_last_rows_count_in_the_degrees():
    """On a grid whose left column comes last: fewer operations than with an order of the others alone."""
    A = ms.datasets.grid2d(60, 60)
    last = np.arange(0, 3600, 60, dtype=np.int32)
    free = np.setdiff1d(np.arange(3600), last)
    inside = free[order.amd(A[free][:, free]).perm]
    after, alone = (ms.schur_complement(A, last, ordering).symbolic.flops for ordering in ("amd", np.concatenate([inside, last])))
    assert after < 0.95 * alone


@settings(max_examples=60, deadline=None)
@given(st.integers(300, 900), st.integers(1, 12), st.integers(0, 3), st.integers(0, 2**20))
def test_tree_and_counts_with_dense_rows(n, hubs, degree, seed):
    """The long list of a dense row is not read for each of its neighbors.

    Cases: adjacent dense rows, vertices adjacent only to dense rows, indistinguishable nodes, a path among the others."""
    rng = np.random.default_rng(seed)
    ends = [(rng.integers(0, hubs, m), rng.integers(0, n, m)) for m in (hubs * rng.integers(70, 9 * int(n**0.5)),)]
    others = [rng.integers(0, n, (2, degree * n // 2)), rng.integers(0, hubs, (2, hubs)), (np.arange(hubs, n - 1), np.arange(hubs + 1, n))]
    ends += others[:rng.integers(1, 5)]
    A = from_edges(n, np.concatenate([e[0] for e in ends]), np.concatenate([e[1] for e in ends]))
    P = pattern_of(shuffled(A, seed))
    o = order.amd(P)
    check_perm(o, n)
    if o.elimination is not None:                       # no row is so dense that it is ordered last
        Q = P.to_scipy()[o.perm][:, o.perm]
        assert np.array_equal(o.elimination.parent, etree(Q)) and np.array_equal(o.elimination.colcount, colcount(Q))


def hubs_with_leaves(hubs, leaves):
    """Each leaf is adjacent to two hubs."""
    each = np.repeat(np.arange(hubs), leaves)
    leaf = hubs + np.arange(hubs * leaves)
    return from_edges(hubs * (leaves + 1), np.concatenate([each, (each + 1) % hubs]), np.concatenate([leaf, leaf]))


def test_elements_absorbed_by_unrelated_pivots():
    """Vertex 0 is adjacent only to a and b, which are adjacent to all others. The last pivot eliminates both and may be a third."""
    for a, b in itertools.permutations(range(1, 7), 2):
        A = np.zeros((7, 7))
        A[1:, 1:] = 1
        A[0, [a, b]] = A[[a, b], 0] = 1
        Q = pattern_of(sp.csr_array(A))
        o = order.amd(Q)
        Q = Q.to_scipy()[o.perm][:, o.perm]
        assert np.array_equal(o.elimination.parent, etree(Q)) and np.array_equal(o.elimination.colcount, colcount(Q))


def test_an_ordering_of_another_pattern_has_no_tree():
    A, B = grid(12, 12), random_graph(144, 5, 3)
    o = order.amd(A)
    given = ms.analyze(B, ordering=o)
    expected = ms.analyze(B, ordering=o.perm)
    assert np.array_equal(given.perm, expected.perm) and np.array_equal(given.colcount, expected.colcount)
    assert order.resolve(o, pattern_of(A)).elimination is None and ms.analyze(A, ordering="amd").ordering.elimination is None


def test_moved_rows_keep_their_tree():
    A = sp.csr_array(sp.block_diag([grid(5, 5), path(20), grid(4, 3)]))
    o, block = order.amd(A), np.repeat([2, 0, 1], [25, 20, 12])
    rows = np.argsort(block[o.perm], kind="stable")
    known, perm = o.elimination.moved(rows), o.perm[rows]
    Q = A[perm][:, perm]
    assert np.array_equal(known.parent, etree(Q)) and np.array_equal(known.colcount, colcount(Q))


def test_chordal_graph_of_cliques_has_no_fill():
    blocks = [clique(12)] * 30
    A = sp.csr_array(sp.block_diag(blocks))
    assert fill(A, order.amd(A).perm)[0] == 30 * 12 * 13 // 2


@pytest.mark.parametrize("make", [lambda: star(100000), lambda: sp.eye_array(100000), lambda: preferential(20000, 3, 0),
                                  lambda: clique(1500), lambda: path(200000), lambda: hubs_with_leaves(300, 4000)])
def test_hostile_graphs_are_quick(make):
    A = make()
    check_perm(order.amd(A), A.shape[0])
    pattern = pattern_of(A)
    assert _core.amd(pattern.indptr, pattern.indices)[3] < 60 * (pattern.nnz + pattern.n)


def test_a_dense_row_comes_last():
    A = grid(60, 60).tolil()
    A[1234, :] = 1
    A[:, 1234] = 1
    assert order.amd(sp.csr_array(A)).perm[-1] == 1234


# ---- leaves: vertices from `own` on are the halo

ENGINES = pytest.mark.parametrize("bits", [True, False], ids=["bits", "lists"])


def leaf_order(A, own, bits):
    """Order a leaf. As in a dissection, halo rows have own vertices only."""
    A = sp.csr_array(A).tolil()
    A[own:, own:] = 0
    P = pattern_of(sp.csr_array(A))
    perm = _core.leaf_order(P.indptr, P.indices, own, bits)
    assert np.array_equal(np.sort(perm), np.arange(own))
    return perm


def leaf_fill(A, own, perm):
    """nnz(L) with the halo as a clique at the end."""
    A = sp.csr_array(A).tolil()
    A[own:, own:] = 1
    return fill(sp.csr_array(A), np.concatenate([perm, np.arange(own, A.shape[0])]))[0]


LEAVES = [(grid(7, 7), 30), (triangulated(6, 8), 41), (grid(5, 5, 4), 70), (random_graph(60, 4, 1), 50), (kkt(40, 20, 2), 60),
          (path(50), 49), (grid(18, 17), 250), (triangulated(20, 20), 320), (grid(25, 26), 600), (triangulated(32, 32), 900)]


@pytest.mark.slow
@ENGINES
@pytest.mark.parametrize("A, own", LEAVES)
def test_a_leaf_has_nearly_the_fill_of_exact_minimum_degree(A, own, bits):
    exact = minimum_degree(A, own)
    assert leaf_fill(A, own, leaf_order(A, own, bits)) <= 1.08 * leaf_fill(A, own, exact)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 70), st.integers(0, 20), st.floats(0, 1), st.integers(0, 2**20))
def test_both_engines_on_random_leaves(own, halo, density, seed):
    rng, n = np.random.default_rng(seed), own + halo
    A = rng.random((n, n)) < density * rng.random()
    A = sp.csr_array((A | A.T | np.eye(n, dtype=bool)).astype(float))
    exact = leaf_fill(A, own, minimum_degree(A, own))
    for bits in (True, False):
        assert leaf_fill(A, own, leaf_order(A, own, bits)) <= 1.15 * exact + 5


@ENGINES
@each("own, halo", [(1, 0), (1, 1), (63, 0), (64, 0), (65, 0), (200, 56), (200, 57), (384, 0), (385, 0), (500, 12),
                                       (500, 13), (768, 0), (769, 0), (1023, 1), (1024, 0), (24, 1000)])
def test_leaves_of_every_width(own, halo, bits):
    rng = np.random.default_rng(own)
    tree = from_edges(own, np.arange(1, own), (rng.random(own - 1) * np.arange(1, own)).astype(int))
    A = sp.block_array([[tree, sp.csr_array((own, halo))], [None, sp.eye_array(halo)]]) if halo else tree
    assert leaf_fill(A, own, leaf_order(A, own, bits)) == 2 * own - 1 + halo * (halo + 1) // 2


@ENGINES
def test_the_halo_counts_in_the_degrees(bits):
    # A path whose ends are adjacent to ten halo vertices each: without the halo, the ends would come first.
    own, halo = 30, 20
    i = np.concatenate([np.arange(own - 1), np.repeat([0, own - 1], 10)])
    j = np.concatenate([np.arange(1, own), own + np.arange(halo)])
    perm = leaf_order(from_edges(own + halo, i, j), own, bits)
    assert set(perm[-2:].tolist()) == {0, own - 1}


@ENGINES
def test_cliques_in_a_leaf_are_eliminated_as_one(bits):
    A = sp.csr_array(sp.block_diag([clique(12)] * 30))
    assert fill(A, leaf_order(A, 360, bits))[0] == 30 * 12 * 13 // 2


def test_bits_hold_1024_vertices():
    P = pattern_of(path(1025))
    with pytest.raises(ValueError):
        _core.leaf_order(P.indptr, P.indices, 1000, True)
