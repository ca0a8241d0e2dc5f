"""A factor that cannot fit is refused by its largest separators, and none is refused that fits."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

import meshsolve as ms
from meshsolve import _core, memory
from meshsolve.order import nested, space
from meshsolve.sparse.matrix import symmetric_pattern


def top_of(P, parts, threads=1):
    return _core.nested_dissection(P.indptr, P.indices, patch_size=64, seed=0, threads=threads, cheap=0.0, most=np.inf,
                                   stop=max(P.n // parts, 1), **nested.EFFORTS["default"])[:4]


def least(A, parts):
    P = symmetric_pattern(A)
    return space.least_nonzeros(P, *top_of(P, parts))


GRAPHS = {
    "cube": (ms.datasets.grid3d(18), 0.4), "square": (ms.datasets.grid2d(80, 80), 0.2), "thin": (ms.datasets.grid2d(2000, 3), 0.2),
    "path": (sp.diags_array([np.ones(5999)] * 2, offsets=[1, -1]).tocsr(), 1.0), "pieces": (sp.block_diag([ms.datasets.grid3d(13)] * 4, format="csr"), 0.05),
    "tree": (sp.coo_array((np.ones(5999), (np.arange(1, 6000), (np.arange(1, 6000) - 1) // 2)), shape=(6000, 6000)).tocsr(), 1.0),
}


@each("name", GRAPHS)
def test_the_bound_is_below_the_nonzeros_of_the_ordering(name):
    A, share = GRAPHS[name]
    exact = ms.analyze(A + A.T, ordering="nd").nnz
    for parts in (4, 64):
        assert A.shape[0] <= least(A + A.T, parts) <= exact
    assert least(A + A.T, 64) >= share * exact


def test_contracted_columns_are_those_of_the_whole_graph():
    """Exactly: column counts of the last rows against a dense elimination of all rows."""
    rng = np.random.default_rng(0)
    for _ in range(30):
        n = int(rng.integers(2, 25))
        G = np.triu(rng.random((n, n)) < 2 / n, 1)
        G = G | G.T
        last = rng.permutation(n)[:rng.integers(1, n + 1)].astype(np.int32)
        order = np.r_[np.setdiff1d(np.arange(n), last), last]
        F = G[np.ix_(order, order)].copy()
        for k in range(n):
            after = np.flatnonzero(F[k, k + 1:]) + k + 1
            F[np.ix_(after, after)] = True
        wanted = [1 + int(F[k, k + 1:].sum()) for k in range(n - len(last), n)]
        P = sp.csr_array(G.astype(float))
        indptr, indices = _core.contract(P.indptr.astype(np.int64), P.indices.astype(np.int32), last)
        assert _core.colcount(indptr, indices)[len(indptr) - 1 - len(last):].tolist() == wanted


def test_the_top_of_a_dissection_is_that_of_the_whole():
    P = symmetric_pattern(ms.datasets.grid3d(18))
    whole = ms.order.nested_dissection(ms.datasets.grid3d(18))
    perm, parent, first, last = top_of(P, 8, threads=2)
    assert np.array_equal(np.sort(perm), np.arange(P.n))
    for k in np.unique(parent[parent >= 0]):
        assert np.array_equal(perm[first[k]:last[k]], whole.perm[first[k]:last[k]])


def test_a_factor_that_cannot_fit_is_refused_before_it_is_ordered(monkeypatch):
    A = ms.datasets.grid3d(32, boundary="dirichlet")
    needed = 8 * ms.analyze(A, ordering="nd").nnz
    for available, is_refused in ((needed // 3, True), (needed, False)):
        for module in (memory, space):
            monkeypatch.setattr(module, "available_memory", lambda available=available: available)
        monkeypatch.setattr(space, "TYPICAL", 1e9)          # no graph is small
        if is_refused:
            with pytest.raises(ms.OutOfMemoryError, match="at least .* nonzeros in this ordering"):
                ms.cholesky(A, ordering="nd")
        else:                                               # the bound admits it; the check after the analysis also counts the workspace
            with pytest.raises(ms.OutOfMemoryError, match=r"the factor \("):
                ms.cholesky(A, ordering="nd")
    assert ms.analyze(A, ordering="nd").nnz * 8 == needed   # an analysis is not refused
