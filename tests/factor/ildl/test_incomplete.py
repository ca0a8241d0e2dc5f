"""The incomplete factor: fill levels against a plain reference, dropping, budgets, tiles, pivoting, threads."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import starved
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from saddles import regular

import meshsolve as ms
from meshsolve import _core

pytestmark = pytest.mark.native
REGULAR = regular()


def permuted(A, K):
    S = sp.diags_array(K.scale)
    return sp.csr_array(S @ sp.csr_array(A) @ S)[K.perm][:, K.perm]


def levels(pattern, limit):
    """Positions (i, j), i < j, of an incomplete factor of level `limit`, by the definition."""
    n = pattern.shape[0]
    level = np.where(pattern, 0, 10**9)
    for k in range(n):
        for i in range(k + 1, n):
            through = level[k, i] + level[k, i + 1:] + 1
            level[i, i + 1:] = np.minimum(level[i, i + 1:], np.where(through <= limit, through, 10**9))
    return np.triu(level < 10**9, 1)


@pytest.mark.parametrize("name", REGULAR)
@each("pivoting", ["static", "bunch-kaufman", "rook"])
@each("tile_size, blocking", [(2, "none"), (2, "RB"), (7, "RB"), (9, "subtree"), (32, "BR")])
def test_without_dropping_it_is_complete(name, pivoting, tile_size, blocking):
    A = REGULAR[name]
    K = ms.ildl(A, fill_level=10**6, droptol=0, pivoting=pivoting, tile_size=tile_size, blocking=blocking)
    assert not K.is_complete and K.nnz == K.L.nnz
    if K.report.facts["perturbed"] == 0:                      # pivot tests see their own tile alone
        assert abs(K.L @ K.D @ K.L.T - permuted(A, K)).max() <= 1e-7 * max(1, abs(K.L).max()) ** 2
        b = A @ np.ones(A.shape[0])
        assert np.linalg.norm(A @ K.solve(b) - b) <= 1e-6 * np.linalg.norm(b) * max(1, abs(K.L).max())


@pytest.mark.parametrize("limit", [0, 1, 2, 5])
def test_levels_of_fill(limit):
    A = ms.datasets.grid2d(6, 7, boundary="dirichlet")        # no pairs: the tiles are the rows
    K = ms.ildl(A, fill_level=limit, droptol=0)
    expected = levels(permuted(A, K).toarray() != 0, limit)
    assert np.array_equal((K.L.toarray() != 0), expected.T | np.eye(42, dtype=bool))


def test_a_solve_with_an_automatic_incomplete_factor_warns():
    A = ms.datasets.kkt(20_000, 8_000)
    b = A @ np.ones(28_000)
    K = ms.ildl(A)
    assert not K.is_complete
    with pytest.warns(ms.MeshsolveWarning, match="is only an approximation"):
        x = K.solve(b)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.array_equal(K @ b, x) and ms.sqmr(A, b, M=K)[1].converged
        ms.ildl(A, fill_level=2).solve(b)


def test_level_zero_of_tiles_keeps_the_pattern_of_tiles():
    A = ms.datasets.stokes(6)
    K = ms.ildl(A, fill_level=0, droptol=0)
    assert K.nnz <= A.nnz * 2 and K.report.facts["tiles"] < A.shape[0]


def test_dropping_is_relative_to_the_row():
    A = ms.datasets.kkt(300, 120, seed=1)
    fine, coarse = (ms.ildl(A, fill_level=3, droptol=tau) for tau in (0.0, 0.05))
    assert coarse.nnz < fine.nnz and coarse.report.facts["dropped"] > 0
    columns = coarse.L.tocsc()
    for k in range(columns.shape[1]):
        values = abs(columns.data[columns.indptr[k]:columns.indptr[k + 1]])
        outside = values[values < 1]
        assert outside.size == 0 or outside.min() >= 0.04 * 0.05       # norm >= 1; entries inside a tile are kept


def test_budgets_bound_fill_and_pass_on_their_rest():
    A = ms.datasets.kkt(2000, 900, seed=2)
    free, tight = ms.ildl(A, fill_level=6, droptol=1e-6), ms.ildl(A, fill_level=6, droptol=1e-6, max_fill=0.6)
    assert tight.nnz < free.nnz and tight.report.facts["stored"] <= 2 * 0.6 * A.nnz + 2 * tight.report.facts["tiles"]


def dropped(S, droptol, budget):
    """L of the symmetric array S, row by row by the definition.

    Entries small relative to their row are dropped, then the smallest beyond the row's budget and the unused budgets of
    earlier rows."""
    n, spare = len(S), 0
    U, d = np.zeros((n, n)), np.zeros(n)
    for k in range(n):
        row = S[k] - (U[:k, k] * d[:k]) @ U[:k]
        d[k], u = row[k], np.where(np.arange(n) > k, row / row[k], 0)
        u[abs(u) <= droptol * np.sqrt(1 + u @ u)] = 0
        over = np.count_nonzero(u) - budget
        if over > spare:
            u[np.argsort(-abs(u), kind="stable")[budget + spare:]] = 0
        spare, U[k] = max(spare - over, 0), u
    return np.eye(n) + U.T


@pytest.mark.parametrize("droptol, max_fill", [(0.0, None), (0.03, None), (0.1, None), (0.0, 0.3), (0.03, 0.5)])
def test_dropped_entries_follow_the_definition(droptol, max_fill):
    rng = np.random.default_rng(0)
    A = rng.standard_normal((60, 60)) * np.minimum(np.arange(60), 20) / 20          # small in the first rows and columns
    A = A + A.T + 12 * np.eye(60)
    K = ms.ildl(A, fill_level=10**6, droptol=droptol, max_fill=max_fill, pairs=False, ordering="natural", blocking="none")
    expected = dropped(permuted(A, K).toarray(), droptol, 60 if max_fill is None else round(60 * max_fill))
    assert K.report.facts["tiles"] == 60 and np.allclose(K.L.toarray(), expected, rtol=1e-9, atol=1e-12)


def test_a_huge_budget_is_no_limit():
    A = ms.datasets.kkt(400, 180, seed=2)
    for max_fill in (1e12, 1e300):
        K, free = (ms.ildl(A, fill_level=3, droptol=1e-6, max_fill=limit) for limit in (max_fill, None))
        assert np.array_equal(K.L.data, free.L.data) and np.array_equal(K.L.indices, free.L.indices)


def test_pairs_make_the_difference():
    A = ms.datasets.stokes(24)
    b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
    with_pairs = ms.sqmr(A, b, M=ms.ildl(A, fill_level=4), rtol=1e-6, maxiter=400)[1]
    assert with_pairs.converged and ms.ildl(A, fill_level=4).report.facts["perturbed"] == 0
    assert ms.ildl(A, fill_level=4, pairs=False, pivoting="static").report.facts["perturbed"] > 0


def test_rows_of_a_pair_share_a_tile():
    A = ms.datasets.kkt(50, 30, seed=3)
    from meshsolve.factor.ildl.incomplete import tiling
    from meshsolve.factor.matching import symmetric_pairs
    from meshsolve.sparse.matrix import as_symmetric

    pairs = symmetric_pairs(as_symmetric(A))
    for blocking, size in (("none", 2), ("RB", 3), ("RB", 16), ("subtree", 16), ("BR", 8)):
        tiles = tiling(pairs, blocking, size, "amd")
        tile = np.repeat(np.arange(len(tiles.begin) - 1), np.diff(tiles.begin))
        where = np.empty(80, int)
        where[tiles.rows] = tile
        paired = np.flatnonzero(pairs.partner >= 0)
        assert len(paired) and np.array_equal(where[paired], where[pairs.partner[paired]])
        assert np.diff(tiles.begin).max() <= size and sorted(tiles.rows) == list(range(80))


@given(n=st.integers(0, 60), capacity=st.integers(2, 9), seed=st.integers(0, 999))
def test_tiles_end_where_large_subtrees_do(n, capacity, seed):
    rng = np.random.default_rng(seed)
    A = sp.random_array((n, n), density=min(2.5 / max(n, 1), 1), rng=rng, format="csr")
    A = sp.csr_array(A + A.T + sp.eye_array(n)) if n else sp.csr_array((0, 0))
    found = _core.analyze(A.indptr.astype(np.int64), A.indices.astype(np.int32), np.arange(n, dtype=np.int32))
    size, parent = rng.integers(1, 3, n).astype(np.int32), found.parent
    begin = _core.cut_tiles(size, capacity, parent)
    first, below = np.append(0, np.cumsum(size)), size.astype(int)
    for v in np.flatnonzero(parent >= 0):                   # ascending: children come first
        below[parent[v]] += below[v]
    apart = [first[v + 1] for v in range(n - 1) if parent[v] != v + 1 and below[v] > capacity]
    assert set(apart) <= set(begin.tolist()) <= set(first.tolist()) and begin[-1] == first[-1]
    assert n == 0 or 0 < np.diff(begin).max() <= capacity
    longer = [k for k in range(1, len(begin) - 1) if begin[k] not in apart]
    assert all(begin[k] + size[np.searchsorted(first, begin[k])] - begin[k - 1] > capacity for k in longer)


def test_similar_rows_are_grouped():
    block = sp.csr_array(np.ones((4, 4)))
    A = sp.csr_array(sp.block_diag([block] * 5) + sp.eye_array(20))
    graph = A - sp.diags_array(A.diagonal())
    graph.eliminate_zeros()
    group = _core.similar_vertices(graph.indptr.astype(np.int64), graph.indices.astype(np.int32), np.ones(20, np.int32), 8)
    assert group.tolist() == np.repeat(np.arange(5), 4).tolist()
    assert np.bincount(_core.similar_vertices(graph.indptr.astype(np.int64), graph.indices.astype(np.int32), np.ones(20, np.int32), 3)).max() == 3


@pytest.mark.parametrize("tile_size", [2, 8])
def test_the_same_bits_on_any_number_of_threads(tile_size):
    A = ms.datasets.kkt(20000, 8000, seed=4)
    b = np.random.default_rng(1).standard_normal((28000, 3))
    one = ms.ildl(A, fill_level=2, tile_size=tile_size, threads=1)
    for threads in (2, 5):
        many = ms.ildl(A, fill_level=2, tile_size=tile_size, threads=threads)
        assert np.array_equal(one.L.data, many.L.data) and np.array_equal(one.L.indices, many.L.indices)
        assert np.array_equal(one.perm, many.perm) and np.array_equal(one.solve(b), many.solve(b))


def test_unused_budgets_do_not_depend_on_threads():
    """A banded matrix has hundreds of levels, most of them with a few tiles."""
    A = ms.datasets.kkt(6000, 2500, seed=4, kind="banded")
    free = ms.ildl(A, fill_level=3, droptol=0, threads=1)
    one, two, many = (ms.ildl(A, fill_level=3, droptol=0, max_fill=0.5, threads=threads) for threads in (1, 2, 7))
    assert one.report.facts["levels"] > 100 and one.nnz < 0.9 * free.nnz
    for K in (two, many):
        assert np.array_equal(one.perm, K.perm) and np.array_equal(one.L.data, K.L.data)


def test_it_is_chosen_if_the_complete_factor_is_large():
    A = ms.datasets.kkt(20000, 8000, seed=5)
    K = ms.ildl(A)
    assert not K.is_complete and K.nnz < 3 * A.nnz and K.report.facts["complete_nnz"] > 20 * A.nnz
    assert ms.ildl(ms.datasets.stokes(40)).is_complete


def test_a_far_too_large_complete_factor_is_not_ordered(monkeypatch):
    """Random graphs have no small separators, which breadth-first searches detect. The size of a complete factor confirms it."""
    from meshsolve.factor import ildl

    A = ms.datasets.kkt(35000, 15000, seed=2)
    estimated = ms.ildl(A).report.facts
    assert estimated["mode"] == "incomplete"
    monkeypatch.setattr(ildl, "_is_far_too_large", lambda M, report: False)
    counted = ms.ildl(A)
    assert not counted.is_complete
    assert estimated["complete_nnz"] <= counted.report.facts["complete_nnz"]
    assert estimated["complete_flops"] <= counted.report.facts["complete_flops"]


def test_refactor_and_single_precision():
    A = ms.datasets.kkt(500, 200, seed=6)
    K = ms.ildl(A, fill_level=2)
    L = K.L.data.copy()
    K.refactor(A * 3.0)
    K.refactor(A)
    assert np.array_equal(K.L.data, L)
    b = A @ np.ones(700)
    full, half = (ms.sqmr(A, b, M=ms.ildl(A, fill_level=2, dtype=dtype), rtol=1e-8)[1] for dtype in (np.float64, np.float32))
    assert half.converged and half.iterations <= full.iterations + 3


REFUSED = """
import numpy as np, scipy.sparse as sp, meshsolve as ms

def same(F, K):
    return (np.array_equal(F.solve(b), K.solve(b)) and np.array_equal(F.D.data, K.D.data) and np.array_equal(F.L.data, K.L.data)
            and np.array_equal(F.perm, K.perm) and F.inertia == K.inertia and F.nnz == K.nnz)

A = ms.datasets.grid3d(9, boundary="dirichlet")
A, B = (sp.csr_array(A - shift * sp.eye_array(A.shape[0])) for shift in (2, 1))
b = np.ones(A.shape[0])
make = lambda matrix: ms.ildl(matrix, fill_level=3, droptol=0, threads=2)
F, before, after = make(A), make(A), make(A).refactor(B)
k, denied = 0, True
while denied:
    starve(4096, 2**40, k)
    expected = before
    try:
        F.refactor(B)
        expected = after                                     # a sort works without its workspace
    except ms.OutOfMemoryError:
        pass
    feed()
    denied = refused()
    assert same(F, expected), k
    F.refactor(A)
    k += 1
print(k)
"""


@starved.available
def test_a_refactorization_without_memory_keeps_the_factor():
    """For each refused allocation, pivots, L and inertia stay those of the earlier factor."""
    assert int(starved.python(REFUSED)) > 10


def test_symmetric_operator():
    A = ms.datasets.kkt(80, 30, seed=7)
    K = ms.ildl(A, fill_level=1)
    inverse = K @ np.eye(110)
    assert abs(inverse - inverse.T).max() <= 1e-9 * abs(inverse).max()
    assert np.array_equal(K.T @ np.ones(110), K @ np.ones(110))


@pytest.mark.parametrize("options", [{"fill_level": None}, {"fill_level": 2}, {"fill_level": 2, "tile_size": 8}, {"fill_level": 2, "blocking": "BR"}],
                         ids=["complete", "pairs", "tiles", "similar rows"])
@pytest.mark.parametrize("kind", ["array", "Ordering"])
def test_a_given_ordering_of_the_rows(options, kind):
    """Pairs are found inside the factorization. The caller gives an order of the rows of A."""
    A = ms.datasets.kkt(200, 80)
    perm = np.random.default_rng(0).permutation(280)
    K = ms.ildl(A, ordering=perm if kind == "array" else ms.order.amd(A), **options)
    b = A @ np.ones(280)
    x, info = ms.sqmr(A, b, M=K, rtol=1e-10)
    assert info.converged and np.abs(x - 1).max() < 1e-6
    assert K.report.facts["ordering"] == ("given" if kind == "array" else "amd")
    for wrong in (perm[:-1], np.zeros(280, int), ms.order.amd(A[:200, :200])):
        with pytest.raises(ms.InvalidInputError, match="ordering"):
            ms.ildl(A, ordering=wrong, **options)


def test_rows_without_pairs_keep_the_given_order():
    A = ms.datasets.grid2d(12, 11, boundary="dirichlet")
    perm = np.random.default_rng(0).permutation(132)
    assert np.array_equal(ms.ildl(A, fill_level=1, ordering=perm, pairs=False, blocking="none").perm, perm)


def test_a_pair_has_the_position_of_its_later_row():
    from meshsolve.factor.matching import symmetric_pairs
    from meshsolve.sparse.matrix import as_symmetric

    pairs = symmetric_pairs(as_symmetric(ms.datasets.kkt(60, 25)))
    perm = np.random.default_rng(0).permutation(85)
    assert (pairs.partner >= 0).any()
    vertex = np.full(85, -1)
    vertex[pairs.first] = np.arange(len(pairs.first))
    lower = np.minimum(perm, np.where(pairs.partner[perm] >= 0, pairs.partner[perm], 85))
    assert pairs.contract(perm).tolist() == list(dict.fromkeys(vertex[lower[::-1]].tolist()))[::-1]


def test_matrices_renumbered_by_several_threads():
    from meshsolve.factor.ildl.incomplete import renumbered
    from meshsolve.sparse.matrix import as_symmetric

    A = sp.csr_array(ms.datasets.kkt(15000, 6000, kind="banded"))
    rows = np.random.default_rng(3).permutation(21000).astype(np.int32)
    expected = A[rows][:, rows]
    for threads in (1, 3):
        indptr, indices, source = renumbered(as_symmetric(A), rows, threads)
        assert abs(sp.csr_array((A.data[source], indices, indptr), shape=A.shape) - expected).max() == 0
