"""The default ordering: the choice between minimum degree and dissection, and the bound of operations that decides it."""

import numpy as np
import pytest
import scipy.sparse as sp
from graphs import check_perm, fill, from_edges, grid, preferential, random_graph, triangulated

import meshsolve as ms
from meshsolve import _core, order
from meshsolve.factor.lu import analysis
from meshsolve.order.auto import CUBE, auto_within, estimated_dimension, is_scale_free
from meshsolve.order.nested import TooManyOperations
from meshsolve.sparse.matrix import symmetric_pattern


def test_minimum_degree_while_its_factor_is_cheap():
    A = triangulated(120, 120)
    o = order.auto(A)
    assert o.method == "amd" and np.array_equal(o.perm, order.amd(A).perm) and o.report.as_dict()["ordering"] == "amd"


def test_dissection_where_a_factor_is_dear():
    A = grid(18, 18, 18)
    o = order.auto(A, seed=3, threads=2)
    assert o.method == "nd" and np.array_equal(o.perm, order.nested_dissection(A, seed=3).perm) and o.tree is not None
    assert o.report.seconds["order"] > 0


def test_less_effort_for_a_factor_that_is_used_once():
    A = grid(22, 22, 22)
    fast = order.nested_dissection(A, effort="fast").perm
    assert np.array_equal(order.auto(A, effort="fast").perm, fast) and not np.array_equal(order.auto(A).perm, fast)
    L = ms.datasets.grid3d(22, boundary="dirichlet")
    _, info = ms.solve(L, np.ones(L.shape[0]), method="cholesky")
    fast = order.nested_dissection(L, effort="fast")
    assert info.report.facts["nnz_L"] == ms.analyze(L, fast).nnz != ms.analyze(L).nnz


@pytest.mark.parametrize(("shape", "method"), [((500, 400), "nd"), ((3500, 30), "amd")])
def test_large_meshes_by_their_shape(shape, method):
    o = order.auto(triangulated(*shape))
    assert o.method == o.report.as_dict()["ordering"] == method and (o.tree is None) == (method == "amd")
    check_perm(o, shape[0] * shape[1])


def test_scale_free_graphs_are_not_dissected(monkeypatch):
    """They have no small separators, and dissection would take many times as long."""
    A = ms.datasets.rmat(14, edges_per_vertex=3)
    flops = ms.analyze(A, ordering="amd").flops / A.shape[0]
    o = order.auto(A)
    assert is_scale_free(symmetric_pattern(A)) and flops > 20_000            # expensive for a mesh
    assert o.method == "amd" and np.array_equal(o.perm, order.amd(A).perm)
    monkeypatch.setattr(order, "nested_dissection", None)
    monkeypatch.setattr(analysis, "ND_OPERATIONS", 0)
    assert ms.lu(A + sp.eye_array(A.shape[0])).report.facts["ordering"] == "amd"
    with pytest.raises(TooManyOperations):
        auto_within(symmetric_pattern(A), 0, 1, "default", most=0.5 * flops)


def test_lu_of_volumes_is_dissected_whatever_its_size(monkeypatch):
    monkeypatch.setattr(analysis, "ND_OPERATIONS", 1e8)
    A = sp.csr_array(ms.datasets.grid3d(22) + sp.eye_array(22**3) + sp.diags_array([np.full(22**3 - 1, 0.3)], offsets=[1]))
    F, G = ms.lu(A), ms.lu(A, ordering="amd")
    assert F.report.facts["ordering"] == "nd" and F.report.facts["flops"] < 0.95 * G.report.facts["flops"]
    full = sp.csr_array(np.random.default_rng(0).standard_normal((700, 700)))
    monkeypatch.setattr(order, "nested_dissection", None)           # a full matrix has no separators
    assert ms.lu(full).report.facts["ordering"] == "amd"


@pytest.mark.parametrize("A", [triangulated(120, 90), grid(20, 20, 20), ms.datasets.power_grid(60), ms.datasets.road_like(8000)])
def test_meshes_with_a_few_long_rows_are_not_scale_free(A):
    n = A.shape[0]
    long = sp.random_array((40, n), density=0.3, rng=0)
    for B in (A, sp.block_array([[A, long.T], [long, None]])):
        assert not is_scale_free(symmetric_pattern(B))
    assert not is_scale_free(symmetric_pattern(ms.datasets.rmat(8)))         # too small for the test


@pytest.mark.parametrize("A", [triangulated(40, 30), grid(9, 9, 9), random_graph(300, 4, 1), preferential(500, 3, 2)])
def test_the_operations_are_bounded_from_above(A):
    pattern = symmetric_pattern(A)
    flops = fill(A, order.amd(A).perm)[1]
    assert [len(a) for a in _core.amd(pattern.indptr, pattern.indices, most_flops=0.999 * flops)[:3]] == [0, 0, 0]
    assert len(_core.amd(pattern.indptr, pattern.indices, most_flops=4 * flops)[0]) == A.shape[0]


@pytest.mark.parametrize("A", [triangulated(150, 150), grid(26, 26, 26), grid(60, 60, 4), random_graph(6000, 4, 1), preferential(6000, 3, 2),
                               triangulated(2000, 12)])
def test_estimates_of_too_many_operations_are_cautious(A):
    """Refused graphs take more operations. Regular graphs in space with 2.5 times the bound are refused without ordering."""
    pattern = symmetric_pattern(A)
    flops = ms.analyze(A, ordering="nd").flops / A.shape[0]
    assert len(auto_within(pattern, 0, 1, "default", most=1.01 * flops)) == A.shape[0]
    if pattern.n > 15_000 and flops > 5e4:
        with pytest.raises(TooManyOperations):
            auto_within(pattern, 0, 1, "default", most=0.4 * flops)


def width(A, levels=20):
    pattern = symmetric_pattern(A)
    return _core.levels(pattern.indptr, pattern.indices, levels, False)[0]


@pytest.mark.parametrize("A", [random_graph(6000, d, d) for d in (3, 4, 6, 12)])
def test_graphs_without_separators_are_detected_first(A, monkeypatch):
    """0.1 width^3, from a search of a millisecond, is a close lower bound of the operations."""
    flops = ms.analyze(A).flops
    assert 0.1 < width(A) ** 3 / flops / CUBE < 1.05
    for engine in ("nested_dissection", "amd"):
        monkeypatch.delattr(_core, engine)
    with pytest.raises(TooManyOperations):
        auto_within(symmetric_pattern(A), 0, 1, "fast", most=0.09 * flops / A.shape[0])


@pytest.mark.parametrize(("A", "dimension"), [(triangulated(60, 60), 2), (grid(90, 1, 1), 1), (grid(30, 30, 30), 3), (grid(99, 40, 2), 2)])
def test_the_dimension_of_a_graph(A, dimension):
    pattern = symmetric_pattern(A)
    assert estimated_dimension(pattern, np.inf) == pytest.approx(dimension, abs=0.3)


def test_grids_in_space_are_detected_before_minimum_degree(monkeypatch):
    A = grid(26, 26, 26)
    monkeypatch.delattr(_core, "amd")
    with pytest.raises(TooManyOperations):
        auto_within(symmetric_pattern(A), 0, 1, "fast", most=0.4 * ms.analyze(A, ordering="nd").flops / A.shape[0])


def test_cheap_vertices_of_wide_levels_do_not_count():
    """A search ends after some levels, or at half of the graph. It does not pass dense rows. Leaves of a tree do not count."""
    mesh, n = triangulated(100, 100), 10_000
    assert width(mesh, 3) < width(mesh, 10) < 100 and width(mesh) <= 20 * 8
    for step, known in ((1, False), (100, True)):
        part = sp.csr_array((np.arange(n)[:, None] % step == 0).astype(float))
        assert width(sp.block_array([[mesh, part], [part.T, None]])) == known * width(mesh)
    assert width(preferential(6000, 3, 2)) == 0
    child = np.arange(1, n)
    assert width(from_edges(n, child, (child - 1) // 20)) < n / 20 + 1            # the level above the leaves
    assert width(sp.block_diag([sp.csr_array((n, n)), random_graph(n, 6, 0)], format="csr")) > n / 3      # searches both parts
    for A in (sp.csr_array((1, 1)), sp.csr_array((0, 0))):
        assert _core.levels(A.indptr.astype(np.int64), A.indices.astype(np.int32), 20, True) == (0, 0)


def test_it_is_the_default():
    A = ms.datasets.grid2d(40, 40, boundary="dirichlet")
    assert ms.analyze(A).ordering.method == ms.cholesky(A).symbolic.ordering.method == order.resolve("auto", symmetric_pattern(A)).method


@pytest.mark.parametrize("degree", [[0], [5], [0, 0, 0], [3, 3, 3, 3], [0, 1, 0, 1], [6, 5, 7, 6, 2000], [9000, 2, 5000, 4, 7000, 4]])
def test_the_spread_of_degrees_is_that_of_numpy(degree):
    for left_out in range(min(3, len(degree))):
        shortest = np.sort(degree)[: len(degree) - left_out]
        expected = np.std(shortest) / max(np.mean(shortest), 1)
        assert _core.degree_spread(np.cumsum([0, *degree]), left_out) == pytest.approx(expected, abs=1e-12)
