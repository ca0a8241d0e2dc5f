"""ParAC takes nearly linear work on every graph and in every order: counts visits of row entries and vertices, not seconds.

``python tests/factor/parac/test_parac_hubs.py`` prints the seconds as well.
"""

import sys
import time
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hubs import GRAPHS, bipartite, power_law, wheel

import meshsolve as ms
from meshsolve import _core
from meshsolve.mesh import pattern_of
from meshsolve.order.nested import dissect

ORDERINGS = ("auto", "rounds", "amd", "nd", "nnz_sort", "rcm", "natural", "random", "given")
SMALL, TIMES = 4000, 6                  # edges of the smaller graph, and ratio to the larger one
MOST = 0.5                              # visits per edge, relative to log2(edges)^2; random graphs take 0.4
MOST_GIVEN = 1.5                        # the same with hubs first, then their neighbors of largest weight


def factor(L, ordering, **options):
    """ParAC on one thread. "random" is given as a permutation, because its name is refused for graphs with hubs."""
    n, rng = L.shape[0], np.random.default_rng(1)
    given = {"random": rng.permutation(n), "given": np.argsort(-L.diagonal(), kind="stable")}         # hubs first: the worst
    return ms.parac(L, ordering=given.get(ordering, ordering), threads=1, device="cpu", **options)


def edges(L):
    return (L.nnz - L.shape[0]) // 2


def allowed(m, ordering):
    return (MOST_GIVEN if ordering == "given" else MOST) * m * np.log2(m) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("ordering", ORDERINGS)
@pytest.mark.parametrize("name", GRAPHS)
def test_work_grows_like_the_edges(name, ordering):
    small, large = (GRAPHS[name](m) for m in (SMALL, TIMES * SMALL))
    few, many = (factor(L, ordering).report.facts["visits"] for L in (small, large))
    logarithms = (np.log2(edges(large)) / np.log2(edges(small))) ** 2
    assert few < allowed(edges(small), ordering) and many < allowed(edges(large), ordering)
    assert many < 1.5 * few * logarithms * edges(large) / edges(small)


@pytest.mark.parametrize("samples", [2, 5])
@pytest.mark.parametrize("name", ["K(2, n)", "K(2, n) of 12 decades", "wheel", "20 hubs", "power law", "grounded K(2, n)"])
def test_work_with_several_copies_of_an_edge(name, samples):
    L = GRAPHS[name](TIMES * SMALL)
    for ordering in ("rounds", "amd", "given"):
        assert factor(L, ordering, samples=samples).report.facts["visits"] < samples * allowed(edges(L), ordering)


def test_dense_rows_hold_no_more_than_the_samples():
    """All leaves of K(2, n) sample copies of one edge, and no row holds more than these."""
    L = bipartite(2)(100_000)
    P = factor(L, "rounds")
    assert P.report.facts["rounds"] == 3 and P.nnz < 2 * edges(L)
    assert P.report.facts["visits"] < 12 * edges(L)


@pytest.mark.parametrize("make", [bipartite(2), wheel, power_law, bipartite(50)])
def test_threads_change_no_bit_at_dense_rows(make):
    L = make(30_000)
    for ordering in ("rounds", "amd", "natural"):
        one, *others = (ms.parac(L, ordering=ordering, threads=t, device="cpu") for t in (1, 2, 3))
        for P in others:
            assert np.array_equal(P.perm, one.perm) and np.array_equal(P.D, one.D) and np.array_equal(P.G.data, one.G.data)


@pytest.mark.parametrize("name", ["star", "K(2, n)", "K(10, n)", "wheel", "friendship", "clique with pendants", "power law", "half graph",
                                  "K(2, n) of 12 decades", "grounded star"])
@pytest.mark.parametrize("ordering", ["auto", "amd"])
def test_few_iterations_with_dense_rows(name, ordering):
    L = GRAPHS[name](20_000)
    x, info = ms.cg(L, L @ np.random.default_rng(0).standard_normal(L.shape[0]), M=factor(L, ordering), rtol=1e-8)
    assert info.converged and info.iterations < 30


@pytest.mark.parametrize("ordering", ["rounds", "natural"])
@pytest.mark.parametrize("name", ["K(2, n)", "wheel", "power law"])
def test_a_solve_reads_each_entry_of_the_factor_once(name, ordering):
    """The solve has no more levels than the factorization has rounds, and the factor holds the counted entries."""
    P = factor(GRAPHS[name](24_000), ordering)
    b = np.random.default_rng(0).standard_normal(P.shape[0])
    assert P.report.facts["bytes"] < 40 * (P.nnz + P.shape[0])
    assert np.array_equal(P @ b, ms.parac(GRAPHS[name](24_000), ordering=ordering, threads=3, device="cpu") @ b)


# ---- orderings -----------------------------------------------------------------------------------------------


def csr(L):
    pattern = pattern_of(L)
    return pattern.indptr, pattern.indices


@pytest.mark.parametrize("name", ["expander", "power law", "cone of a power law"])
def test_bounded_minimum_degree_stops_at_its_bound(name):
    indptr, indices = csr(GRAPHS[name](200_000))
    bound = len(indices) * np.log2(len(indices))
    perm, parent, colcount, visits = _core.amd(indptr, indices, bounded=True)
    more = _core.amd(indptr, indices)[3]
    assert more > visits > bound and visits < 1.05 * bound
    assert np.array_equal(np.sort(perm), np.arange(len(perm))) and len(parent) == len(colcount) == 0


@pytest.mark.parametrize("make", [lambda: ms.datasets.grid2d(120, 130), lambda: ms.datasets.grid3d(22), lambda: ms.datasets.delaunay(20_000),
                                  lambda: ms.datasets.road_like(20_000)])
def test_the_bound_changes_no_order_of_a_mesh(make):
    L = make()
    indptr, indices = csr(L)
    free, bounded = (_core.amd(indptr, indices, bounded=b) for b in (False, True))
    assert all(np.array_equal(a, b) for a, b in zip(free[:3], bounded[:3])) and free[3] == bounded[3]
    perm = [dissect(pattern_of(L).graph(), "default", 64, 0, 1, bounded=b).perm for b in (False, True)]
    assert np.array_equal(*perm)


def test_a_bounded_dissection_has_a_shallow_tree():
    """Separators that cut off a few vertices each would take quadratic time."""
    L = ms.datasets.rmat(15)
    depths = []
    for bounded in (False, True):
        parent = dissect(pattern_of(L).graph(), "default", 64, 0, 1, bounded=bounded).tree.parent
        depth = np.zeros(len(parent), int)
        for k in range(len(parent) - 2, -1, -1):
            depth[k] = depth[parent[k]] + 1 if parent[k] >= 0 else 0
        depths.append(depth.max())
    assert depths[1] < min(depths[0], 20)


def test_indistinguishable_nodes_are_found_by_hashes(cocktail=200):
    """In a clique all nodes are indistinguishable, in a cocktail-party graph no two are. Both have rows too long to compare all pairs."""
    clique = pattern_of(sp.csr_array(np.ones((cocktail, cocktail)))).graph()
    assert len(dissect(clique, "default", 64, 0, 1).perm) == cocktail
    party = pattern_of(sp.csr_array(np.ones((cocktail, cocktail)) - np.kron(np.eye(cocktail // 2), [[0, 1], [1, 0]]))).graph()
    assert np.array_equal(np.sort(dissect(party, "default", 64, 0, 1).perm), np.arange(cocktail))


# ---- seconds ------------------------------------------------------------------------------------------------------------


def print_seconds(names, sizes=(20_000, 80_000, 320_000)):
    """Print a line for each graph and order: CPU microseconds and visits per edge, for increasing numbers of edges."""
    for name in names:
        for ordering in ORDERINGS:
            cells = []
            for m in sizes:
                L = GRAPHS[name](m)
                start = time.process_time()
                P = factor(L, ordering)
                seconds = time.process_time() - start
                cells.append(f"{1e6 * seconds / edges(L):8.2f} us {P.report.facts['visits'] / edges(L):6.1f} visits")
            print(f"{name:24}{ordering:10}", " |".join(cells), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    print_seconds(sys.argv[1:] or GRAPHS)
