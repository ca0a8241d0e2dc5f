"""Nested dissection: its invariants, its fill compared with minimum degree and stored numbers of METIS, hostile graphs."""

import pickle
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from graphs import (
    check_perm,
    check_tree,
    clique,
    fill,
    grid,
    kkt,
    path,
    preferential,
    random_graph,
    shuffled,
    sphere,
    star,
    triangulated,
)
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve import order
from meshsolve.sparse.matrix import symmetric_pattern


def with_dense_row(A):
    n = A.shape[0]
    ones = np.ones((n, 1))
    return sp.csr_array(sp.block_array([[A, ones], [ones.T, np.ones((1, 1))]]))


ZOO = {
    "one": lambda: sp.csr_array((1, 1)),
    "no entries": lambda: sp.csr_array((50, 50)),
    "path": lambda: path(20000),
    "star": lambda: star(20000),
    "clique": lambda: clique(1200),
    "block cliques": lambda: sp.csr_array(sp.block_diag([clique(700)] * 8)),
    "isolated": lambda: sp.csr_array((100000, 100000)),
    "mesh": lambda: triangulated(150, 120),
    "mesh, shuffled": lambda: shuffled(triangulated(120, 90), 0),
    "mesh and dense row": lambda: with_dense_row(triangulated(100, 90)),
    "mesh, empty rows": lambda: sp.csr_array(sp.block_diag([triangulated(90, 80), sp.csr_array((500, 500))])),
    "meshes": lambda: sp.csr_array(sp.block_diag([triangulated(10, 12)] * 100)),
    "large and small meshes": lambda: sp.csr_array(sp.block_diag([triangulated(*s) for s in ((90, 90), (7, 7), (80, 80))])),
    "long strip": lambda: triangulated(4000, 3),
    "3 unknowns a vertex": lambda: sp.csr_array(sp.kron(triangulated(80, 70), np.ones((3, 3)))),
    "grid 3d": lambda: grid(18, 18, 18),
    "random": lambda: random_graph(6000, 6, 0),
    "power law": lambda: preferential(8000, 4, 0),
    "kkt": lambda: kkt(6000, 2500, 0),
}


@pytest.mark.parametrize("name", ZOO)
def test_laws(name):
    A = ZOO[name]()
    n = A.shape[0]
    o = order.nested_dissection(A, threads=1)
    check_perm(o, n)
    check_tree(o, A)
    for threads in (2, 7):
        again = order.nested_dissection(A, threads=threads)
        assert np.array_equal(o.perm, again.perm) and np.array_equal(o.tree.parent, again.tree.parent)


@pytest.mark.native
@pytest.mark.parametrize("effort", ["default", "quality"])
@pytest.mark.parametrize("make", [lambda: triangulated(220, 200), lambda: grid(36, 36, 36)])
def test_threads_that_share_a_separator_find_the_same(make, effort):
    """From 40,000 vertices on, idle threads work on the bisection of another thread."""
    A = make()
    one, *others = [order.nested_dissection(A, effort=effort, threads=threads).perm for threads in (1, 2, 3, 8)]
    assert all(np.array_equal(one, other) for other in others)


@pytest.mark.parametrize("effort", ["fast", "default", "quality"])
@pytest.mark.parametrize("seed", [0, 5])
def test_efforts_and_seeds(effort, seed):
    A = triangulated(100, 100)
    o = order.nested_dissection(A, effort=effort, seed=seed)
    check_perm(o, 10000)
    check_tree(o, A)
    assert len(o.tree) >= 5 and o.num_patches > 100


def test_more_effort_less_fill():
    A = sphere(5)
    nnz = [np.mean([fill(A, order.nested_dissection(A, effort=e, seed=s).perm)[0] for s in range(3)])
           for e in ("quality", "default", "fast")]
    assert nnz[0] <= 1.02 * nnz[2] and nnz[1] <= 1.02 * nnz[2]


# nnz(L) and sum of squared column counts of METIS_NodeND (5.2.1, default options)
METIS = {
    "grid 100 x 100": (lambda: grid(100, 100), (192958, 10314142)),
    "triangulated 120 x 120": (lambda: triangulated(120, 120), (439905, 29784429)),
    "sphere": (lambda: sphere(5), (367176, 33371158)),
}


@pytest.mark.parametrize("name", METIS)
def test_fill_compared_with_metis(name):
    make, (nnz, flops) = METIS[name]
    A = make()
    ours = np.mean([fill(A, order.nested_dissection(A, seed=s).perm) for s in range(4)], axis=0)
    assert ours[0] <= 1.10 * nnz and ours[1] <= 1.25 * flops


def test_fill_compared_with_minimum_degree():
    A = sphere(5)
    assert fill(A, order.nested_dissection(A).perm)[1] < 0.9 * fill(A, order.amd(A).perm)[1]


@pytest.mark.parametrize("seed", range(4))
def test_bricks_are_dissected_down_to_the_leaves(seed):
    """Rows of 27 entries: the dissection must not stop at parts of 1800 vertices."""
    ends = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(20, 20))
    A = sp.csr_array(sp.kron(sp.kron(ends, ends), ends))
    assert fill(A, order.nested_dissection(A, seed=seed).perm)[1] < 0.6 * fill(A, order.amd(A).perm)[1]


def test_separators_are_small():
    o = order.nested_dissection(sphere(5))
    roots = o.tree.parent == -1
    assert (o.tree.last - o.tree.first)[roots].sum() <= 200           # the equator has about 160 vertices


def test_shuffled_ids_cost_little():
    A = triangulated(110, 110)
    B = shuffled(A, 1)
    plain, mixed = fill(A, order.nested_dissection(A).perm), fill(B, order.nested_dissection(B).perm)
    assert mixed[0] <= 1.08 * plain[0]


def test_unknowns_of_a_vertex_stay_together():
    A = sp.csr_array(sp.kron(triangulated(80, 70), np.ones((3, 3))))
    vertex = order.nested_dissection(A).perm // 3
    assert (vertex.reshape(-1, 3) == vertex[::3, None]).all()


def test_dense_rows_form_the_root():
    A = with_dense_row(triangulated(100, 90))
    o = order.nested_dissection(A)
    assert o.perm[-1] == 9000 and (o.tree.parent == -1).sum() == 1 and o.tree.first[-1] == 9000


def test_components_are_nodes_of_their_own_in_small_graphs():
    A = sp.csr_array(sp.block_diag([triangulated(5, 5), path(7), sp.csr_array((1, 1))]))
    o = order.nested_dissection(A)
    assert (o.tree.last - o.tree.first).tolist() == [25, 7, 1] and (o.tree.parent == -1).all()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 2**20), st.floats(0, 0.3))
def test_random_unsymmetric_patterns(n, seed, density):
    rng = np.random.default_rng(seed)
    A = sp.csr_array((rng.random((n, n)) < density).astype(float))
    o = order.nested_dissection(A)
    check_perm(o, n)
    check_tree(o, sp.csr_array(A + A.T))


@settings(max_examples=12, deadline=None)
@given(st.integers(2000, 4000), st.floats(0.4, 1.5), st.integers(0, 2**20), st.integers(16, 1024))
def test_random_planar_like_patterns(n, reach, seed, patch_size):
    """Random points in a strip joined to near points: holes, tails and many components, too large for minimum degree alone."""
    from scipy.spatial import cKDTree

    points = np.random.default_rng(seed).random((3 * n, 2)) * [8, 1]
    pairs = cKDTree(points).query_pairs(reach * 2.2 / np.sqrt(n), output_type="ndarray")
    A = sp.coo_array((np.ones(len(pairs)), pairs.T), shape=(3 * n, 3 * n))
    o = order.nested_dissection(A, seed=seed, patch_size=patch_size, threads=2)
    check_perm(o, 3 * n)
    check_tree(o, A)


def test_report_and_pickle():
    o = order.nested_dissection(triangulated(90, 80))
    assert set(o.report.as_dict()["seconds"]) == {"patches", "order"} and o.report.as_dict()["ordering"] == "nd"
    again = pickle.loads(pickle.dumps(o))
    assert np.array_equal(again.perm, o.perm) and np.array_equal(again.iperm, o.iperm)
    assert np.array_equal(again.tree.first, o.tree.first)
    assert again.method == "nd" and again.num_patches == o.num_patches


def test_input_is_not_changed_and_may_be_checked_already():
    A = triangulated(90, 80)
    before = A.copy()
    pattern = symmetric_pattern(A)
    assert np.array_equal(order.nested_dissection(A).perm, order.nested_dissection(pattern).perm)
    assert (before != A).nnz == 0


@pytest.mark.parametrize("bad, error", [
    (dict(effort="best"), ms.InvalidInputError), (dict(effort=["fast"]), ms.InvalidInputError),
    (dict(patch_size=3), ms.InvalidInputError), (dict(patch_size=2.5), ms.InvalidInputError),
    (dict(seed=-1), ms.InvalidInputError), (dict(seed="0"), ms.InvalidInputError), (dict(seed=True), ms.InvalidInputError),
    (dict(threads=0), ms.InvalidInputError), (dict(device="tpu"), ms.InvalidInputError),
    (dict(device="cuda"), ms.DeviceUnavailableError),
])
def test_bad_options(bad, error):
    with pytest.raises(error):
        order.nested_dissection(path(5), **bad)


@each("bad", [None, "mesh.obj", np.ones((2, 3)), np.ones(4), sp.csr_array((0, 0)), 7])
@each("function", [order.nested_dissection, order.amd, order.nnz_sort, order.rcm, order.random, order.natural])
def test_bad_matrices(function, bad):
    with pytest.raises(ms.InvalidInputError):
        function(bad)


@pytest.mark.parametrize("threads", [1, 3])
def test_a_signal_stops_it_and_the_next_call_works(threads):
    A = symmetric_pattern(triangulated(900, 900))

    def stop(signum, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.12)
            while True:
                order.nested_dissection(A, effort="quality", threads=threads)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    check_perm(order.nested_dissection(triangulated(90, 80), threads=threads), 7200)


def test_the_partition_of_a_tree_separates():
    """By the definition: the parts are those of a heap from its last node to its root, and no edge joins two that are not ancestors."""
    A = ms.datasets.grid2d(80, 75)
    disconnected = sp.block_diag([A, A, ms.datasets.grid2d(9, 9)], format="csr")
    for matrix in (A, disconnected):
        o = order.nested_dissection(matrix)
        assert len(o.tree) > 1
        for levels in (1, 2, 3, 6, 9):
            size, position = o.tree.partition(levels)
            assert size.dtype == np.int32 and len(size) == 2**levels - 1 and np.array_equal(np.sort(position), np.arange(len(o)))
            heap = np.repeat(2**levels - 2 - np.arange(len(size)), size)
            rank = np.empty(len(o), np.int64)
            rank[o.perm[position]] = np.arange(len(o))
            edges = sp.coo_array(matrix)
            ends = np.sort([heap[rank[edges.row]], heap[rank[edges.col]]], axis=0)
            for _ in range(levels):
                ends[1] = np.where(ends[1] > ends[0], (ends[1] - 1) // 2, ends[1])
            assert np.array_equal(*ends), levels
            assert levels != 2 or matrix is not A or size[:2].min() > 2000
    with pytest.raises(ms.InvalidInputError, match="levels"):
        o.tree.partition(0)
