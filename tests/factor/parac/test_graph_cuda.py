"""ParAC's graph of a matrix that lies on the GPU beside the CPU's: the same arrays to the bit, the same refusals."""

import numpy as np
import pytest
import scipy.sparse as sp
from on_device import Sparse, back, nothing_comes_back
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
    """Edges of negative weight, and of none."""
    L = random_graph(60, 100, 4).tolil()
    L[3, 50] = L[50, 3] = 0.0
    return sp.csr_array(L + laplacian(60, np.arange(20), np.arange(30, 50), np.full(20, -1e-3)) + sp.eye_array(60))


MATRICES = {"grid": GRID, "islands": ISLANDS, "shuffled": shuffled(ISLANDS), "slivers": slivers(),
            "grounded": ms.datasets.grid2d(12, 9, boundary="dirichlet"), "no entries": sp.csr_array((4, 4))}


def of_both(L):
    M = as_symmetric(L)
    there = graph_cuda.symmetric(Sparse(L))
    assert np.array_equal(back(there.indptr), M.indptr) and np.array_equal(back(there.indices), M.indices)
    assert np.array_equal(back(there.data), M.data)
    return _core.ParacGraph(M.indptr, M.indices, M.data), graph_cuda.Graph(there)


def check(here, there):
    for name in ("bad_row", "floored", "grounded", "nnz", "floor", "max_degree", "excess"):
        assert getattr(here, name) == getattr(there, name), name
    for a, b in zip(here.arrays(), there.arrays(), strict=True):
        assert np.array_equal(a, back(b)) and a.dtype == back(b).dtype


@pytest.mark.parametrize("name", MATRICES)
def test_the_graph_of_the_cpu(cuda, name):
    here, there = of_both(MATRICES[name])
    check(here, there)
    for graph in (here, there):
        graph.gather_neighbors(0)
    check(here, there)


@pytest.mark.sanitize
def test_numbers_do_not_depend_on_the_schedule(varied):
    here, there = of_both(MATRICES["shuffled"])
    for graph in (here, there):
        graph.gather_neighbors(0)
    assert len(there.origin) == ISLANDS.shape[0]
    check(here, there)


def test_many_levels_are_the_cpus(cuda):
    """A component is a level at the least."""
    far = np.arange(0, 40000, 2)
    here, there = of_both(shuffled(laplacian(40000, far, far + 1, np.linspace(1, 2, len(far)))))
    for graph in (here, there):
        graph.gather_neighbors(0)
    check(here, there)


def test_near_neighbours_keep_their_numbers(cuda):
    there = of_both(GRID)[1]
    there.gather_neighbors()
    assert len(there.origin) == 0


def test_a_triangle_with_entries_of_no_weight_more(cuda):
    L = GRID.tolil()
    L[0, 40] = 1e-14
    here, there = of_both(sp.csr_array(L))
    check(here, there)


def negative_row(row=5, by=0.5):
    return GRID - by * sp.coo_array(([1.0], ([row], [row])), shape=GRID.shape)


ADJACENCY = sp.csr_array(abs(GRID - sp.diags_array(GRID.diagonal())))
UNSYMMETRIC = sp.csr_array(GRID + sp.coo_array(([0.5], ([2], [30])), shape=GRID.shape))
BAD = {"negative": negative_row(), "rounded": negative_row(by=1e-7), "adjacency": ADJACENCY, "positive": sp.csr_array(4 * sp.eye_array(63) + ADJACENCY),
       "cotmatrix": -GRID, "unsymmetric": UNSYMMETRIC, "not finite": sp.csr_array(np.array([[1.0, np.nan], [np.nan, 1.0]]))}


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused_on_the_cpu(cuda, name):
    with pytest.raises(ms.errors.MeshsolveError) as here:
        ms.parac(BAD[name], "rounds", device="cpu")
    with pytest.raises(type(here.value)) as there:
        ms.parac(Sparse(BAD[name]), "rounds")
    assert str(there.value) == str(here.value)
    assert getattr(there.value, "row", None) == getattr(here.value, "row", None)


def test_positive_entries_are_told(cuda):
    L, text = slivers(), "40 of 222 off-diagonal entries"
    for matrix in (L, Sparse(L)):
        with pytest.warns(ms.errors.MeshsolveWarning, match=text):
            ms.parac(matrix, "rounds", device="cuda")


@pytest.mark.parametrize("ordering", ["rounds", "amd", "auto"])
@pytest.mark.parametrize("name", ["shuffled", "grounded"])
def test_the_factor_of_a_matrix_there(cuda, name, ordering):
    L = MATRICES[name]
    P, Q = ms.parac(L, ordering, device="cpu"), ms.parac(Sparse(L), ordering)
    assert Q.on_device and np.array_equal(P.perm, Q.perm) and np.array_equal(P.D, Q.D) and np.array_equal(P.G.data, Q.G.data)
    assert Q.report.facts["nnz_A"] == P.report.facts["nnz_A"] and Q.report.facts["samples"] == P.report.facts["samples"]


def test_only_numbers_come_back(cuda, monkeypatch):
    L = Sparse(MATRICES["grounded"])
    with nothing_comes_back(monkeypatch, 40):               # counters, and where levels begin
        ms.parac(L, "rounds")
