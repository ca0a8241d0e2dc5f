"""The exact minimum vertex cut of a band, compared with scipy's maximum flow: augmenting paths, and push-relabel from 200 sources on."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from meshsolve import _core

PLENTY = 2**31 - 1


def random_band(seed, n, degree, sources, sinks, layers):
    """A graph of layers, with edges inside a layer and to the next, sources in the first layers and sinks in the last."""
    rng = np.random.default_rng(seed)
    layer = np.sort(rng.integers(0, layers, n))
    i, j = rng.integers(0, n, (2, n * degree))
    near = (abs(layer[i] - layer[j]) <= 1) & (i != j)
    A = sp.coo_array((np.ones(near.sum()), (i[near], j[near])), shape=(n, n)).tocsr()
    A = sp.csr_array(A + A.T)
    source, sink = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    source[rng.choice(n // 2, sources, replace=False)] = 1
    sink[n - 1 - rng.choice(n // 2 + n // 10, sinks, replace=False)] = 1              # may overlap
    return A, source, sink


def cut_of(A, source, sink, enough=PLENTY):
    return _core.minimum_cut(A.indptr.astype(np.int64), A.indices.astype(np.int32), source, sink, enough)


def flow_of(A, source, sink):
    """(value, sides at the sources, sides at the sinks) from scipy's maximum flow with split vertices."""
    n = A.shape[0]
    C = sp.coo_array(A)
    inner, many = np.arange(n), np.full(C.nnz, n)
    first, last = np.flatnonzero(source), np.flatnonzero(sink)
    tail = np.concatenate([inner, n + C.row, np.full(len(first), 2 * n), n + last])
    head = np.concatenate([n + inner, C.col, first, np.full(len(last), 2 * n + 1)])
    capacity = np.concatenate([np.ones(n), many, np.full(len(first), n), np.full(len(last), n)]).astype(np.int32)
    G = sp.csr_array((capacity, (tail, head)), shape=(2 * n + 2,) * 2)
    found = maximum_flow(G, 2 * n, 2 * n + 1)
    residual = sp.csr_array(G - found.flow)
    residual.eliminate_zeros()
    return found.flow_value, sides(residual, 2 * n, n, 0), sides(sp.csr_array(residual.T), 2 * n + 1, n, 1)


def sides(residual, root, n, own):
    reached = np.zeros(2 * n + 2, bool)
    reached[breadth_first_order(residual, root, return_predecessors=False)] = True
    into, out = (reached[:n], reached[n:2 * n]) if own == 0 else (reached[n:2 * n], reached[:n])
    return np.where(into & out, own, np.where(into, 2, 1 - own))


def assert_minimum(A, source, sink):
    size, near_sources, near_sinks = cut_of(A, source, sink)
    value, first, last = flow_of(A, source, sink)
    assert size == value == (near_sources == 2).sum() == (near_sinks == 2).sum()
    towards = connected_to(A, sink)
    np.testing.assert_array_equal(near_sources[towards], first[towards])                # the rest may lie on either side
    np.testing.assert_array_equal(near_sinks, last)


def connected_to(A, marked):
    count, label = sp.csgraph.connected_components(A, directed=False)
    holds = np.zeros(count, bool)
    holds[label[marked != 0]] = True
    return holds[label]


@given(st.integers(0, 2**32 - 1), st.integers(20, 120), st.integers(1, 6), st.integers(2, 9), st.data())
def test_thin_bands(seed, n, degree, layers, data):
    assert_minimum(*random_band(seed, n, degree, data.draw(st.integers(1, n // 2)), data.draw(st.integers(1, n // 2)), layers))


@given(st.integers(0, 2**32 - 1), st.integers(500, 1500), st.integers(1, 8), st.integers(2, 12), st.data())
def test_wide_bands(seed, n, degree, layers, data):
    sources, sinks = data.draw(st.integers(200, n // 2)), data.draw(st.integers(1, n // 2))
    assert_minimum(*random_band(seed, n, degree, sources, sinks, layers))


@pytest.mark.parametrize("sources", [30, 300])
def test_no_more_is_found_than_enough(sources):
    A, source, sink = random_band(3, 1200, 6, sources, 400, 5)
    size = cut_of(A, source, sink)[0]
    assert 2 <= size <= sources
    assert [cut_of(A, source, sink, k)[0] for k in (1, size - 1, size, size + 1)] == [1, size - 1, size, size]


@pytest.mark.parametrize("sources", [30, 300])
def test_sides_that_no_path_joins(sources):
    A = sp.block_diag([sp.csr_array(np.ones((400, 400)) - np.eye(400))] * 2, format="csr")
    source, sink = np.zeros(800, np.uint8), np.zeros(800, np.uint8)
    source[:sources], sink[500:] = 1, 1
    size, near_sources, near_sinks = cut_of(A, source, sink)
    assert size == 0
    assert (near_sources[:400] == 0).all() and (near_sinks[400:] == 1).all()
    assert not (near_sources == 2).any() and not (near_sinks == 2).any()
