"""Approximate minimum degree: fill close to the exact one, on small graphs; speed traps; halo by way of leaves."""

import time

import numpy as np
import pytest
import scipy.sparse as sp
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
    star,
    triangulated,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsolve import order

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


def test_chordal_graph_of_cliques_has_no_fill():
    blocks = [clique(12)] * 30
    A = sp.csr_array(sp.block_diag(blocks))
    assert fill(A, order.amd(A).perm)[0] == 30 * 12 * 13 // 2


@pytest.mark.parametrize("make", [lambda: star(100000), lambda: sp.eye_array(100000), lambda: preferential(20000, 3, 0),
                                  lambda: clique(1500), lambda: path(200000)])
def test_hostile_graphs_are_quick(make):
    A = make()
    start = time.process_time()
    check_perm(order.amd(A), A.shape[0])
    assert time.process_time() - start < 3


def test_a_dense_row_comes_last():
    A = grid(60, 60).tolil()
    A[1234, :] = 1
    A[:, 1234] = 1
    assert order.amd(sp.csr_array(A)).perm[-1] == 1234
