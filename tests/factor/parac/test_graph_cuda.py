"""The graph of a matrix for ParAC, on the GPU and on the CPU: the same arrays bit for bit, the same errors."""

import numpy as np
import pytest
import scipy.sparse as sp
from on_device import Sparse, nothing_copied_to_host, to_numpy
from test_parac import laplacian, random_graph

import meshsolve as ms
from meshsolve import _core
from meshsolve.factor.parac import graph_cuda
from meshsolve.sparse.matrix import as_symmetric

GRID = ms.datasets.grid2d(9, 7)
ISLANDS = sp.csr_array(sp.block_diag([random_graph(90, 60, 3), ms.datasets.grid2d(4, 5), sp.csr_array((5, 5)), random_graph(40, 90, 1, grounded=True)]))


def shuffled(L, seed=0):
    order = np.random.default_rng(seed).permutation(L.shape[0])
    L = sp.csr_array(L)[order][:, order].tocsr()
    L.sort_indices()
    return L


def slivers():
    """Edges of negative weight and stored zeros."""
    L = random_graph(60, 100, 4).tolil()
    L[3, 50] = L[50, 3] = 0.0
    return sp.csr_array(L + laplacian(60, np.arange(20), np.arange(30, 50), np.full(20, -1e-3)) + sp.eye_array(60))


MATRICES = {"grid": GRID, "islands": ISLANDS, "shuffled": shuffled(ISLANDS), "slivers": slivers(),
            "grounded": ms.datasets.grid2d(12, 9, boundary="dirichlet"), "no entries": sp.csr_array((4, 4)),
            "consecutive": sp.csr_array(sp.block_diag([ms.datasets.grid2d(12, 9), ms.datasets.grid2d(3, 3)]))}       # vertex 108 is the next


def of_both(L):
    M = as_symmetric(L)
    found = graph_cuda.symmetric(Sparse(L))
    assert np.array_equal(to_numpy(found.indptr), M.indptr) and np.array_equal(to_numpy(found.indices), M.indices)
    assert np.array_equal(to_numpy(found.data), M.data)
    return _core.ParacGraph(M.indptr, M.indices, M.data), graph_cuda.Graph(found)


def check(expected, found):
    for name in ("bad_row", "floored", "grounded", "nnz", "floor", "max_degree", "excess"):
        assert getattr(expected, name) == getattr(found, name), name
    for a, b in zip(expected.arrays(), found.arrays(), strict=True):
        assert np.array_equal(a, to_numpy(b)) and a.dtype == to_numpy(b).dtype


@pytest.mark.parametrize("name", MATRICES)
def test_the_graph_of_the_cpu(cuda, name):
    expected, found = of_both(MATRICES[name])
    check(expected, found)
    for graph in (expected, found):
        graph.gather_neighbors(0)
    check(expected, found)


@pytest.mark.sanitize
@pytest.mark.parametrize("name", ["shuffled", "consecutive"])
def test_numbers_do_not_depend_on_the_schedule(varied, name):
    expected, found = of_both(MATRICES[name])
    for graph in (expected, found):
        graph.gather_neighbors(0)
    assert len(found.origin) == MATRICES[name].shape[0]
    check(expected, found)


def test_graphs_of_many_levels_are_renumbered_on_the_cpu(cuda):
    """Each component has at least one level."""
    far = np.arange(0, 40000, 2)
    expected, found = of_both(shuffled(laplacian(40000, far, far + 1, np.linspace(1, 2, len(far)))))
    for graph in (expected, found):
        graph.gather_neighbors(0)
    check(expected, found)


def test_near_neighbors_keep_their_numbers(cuda):
    found = of_both(GRID)[1]
    found.gather_neighbors()
    assert len(found.origin) == 0


def test_a_triangle_with_a_negligible_extra_entry(cuda):
    L = GRID.tolil()
    L[0, 40] = 1e-14
    expected, found = of_both(sp.csr_array(L))
    check(expected, found)


def negative_row(row=5, by=0.5):
    return GRID - by * sp.coo_array(([1.0], ([row], [row])), shape=GRID.shape)


ADJACENCY = sp.csr_array(abs(GRID - sp.diags_array(GRID.diagonal())))
UNSYMMETRIC = sp.csr_array(GRID + sp.coo_array(([0.5], ([2], [30])), shape=GRID.shape))
BAD = {"negative": negative_row(), "rounded": negative_row(by=1e-7), "adjacency": ADJACENCY, "positive": sp.csr_array(4 * sp.eye_array(63) + ADJACENCY),
       "cotmatrix": -GRID, "unsymmetric": UNSYMMETRIC, "not finite": sp.csr_array(np.array([[1.0, np.nan], [np.nan, 1.0]]))}


@pytest.mark.parametrize("name", BAD)
def test_the_errors_of_the_cpu(cuda, name):
    with pytest.raises(ms.errors.MeshsolveError) as expected:
        ms.parac(BAD[name], "rounds", device="cpu")
    with pytest.raises(type(expected.value)) as found:
        ms.parac(Sparse(BAD[name]), "rounds")
    assert str(found.value) == str(expected.value)
    assert getattr(found.value, "row", None) == getattr(expected.value, "row", None)


def test_positive_entries_are_reported(cuda):
    L, text = slivers(), "40 of 222 off-diagonal entries"
    for matrix in (L, Sparse(L)):
        with pytest.warns(ms.errors.MeshsolveWarning, match=text):
            ms.parac(matrix, "rounds", device="cuda")


@pytest.mark.parametrize("ordering", ["rounds", "amd", "auto"])
@pytest.mark.parametrize("name", ["shuffled", "grounded"])
def test_the_factor_of_a_matrix_on_the_gpu(cuda, name, ordering):
    L = MATRICES[name]
    P, Q = ms.parac(L, ordering, device="cpu"), ms.parac(Sparse(L), ordering)
    assert Q.on_device and np.array_equal(P.perm, Q.perm) and np.array_equal(P.D, Q.D) and np.array_equal(P.G.data, Q.G.data)
    assert Q.report.facts["nnz_A"] == P.report.facts["nnz_A"] and Q.report.facts["samples"] == P.report.facts["samples"]


def test_only_scalars_are_copied_to_the_host(cuda, monkeypatch):
    L = Sparse(MATRICES["grounded"])
    with nothing_copied_to_host(monkeypatch, 40):               # counters and first vertices of levels
        ms.parac(L, "rounds")
