"""Tree, counts, pattern and supernodes compared with elimination on a dense boolean matrix, and their invariants."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve.factor.symbolic import Symbolic, colcount, etree, pattern_of_factor, postorder
from meshsolve.sparse.matrix import Csr, symmetric_pattern


def eliminate(A):
    """Pattern of L of a dense boolean symmetric A, by Gaussian elimination."""
    full = A | np.eye(len(A), dtype=bool)
    for k in range(len(A)):
        below = k + 1 + np.flatnonzero(full[k + 1:, k])
        full[np.ix_(below, below)] = True
    return np.tril(full)


def parents(L):
    below = np.tril(L, -1)
    return np.where(below.any(0), below.argmax(0), -1)


def dense(indptr, indices):
    n = len(indptr) - 1
    return sp.csc_array((np.ones(len(indices), bool), indices, indptr), shape=(n, n)).toarray()


def build(A, perm, **options):
    return Symbolic.build(symmetric_pattern(sp.csr_array(A)), perm, **options)


def zoo():
    rng = np.random.default_rng(5)
    n = 30
    arrow = np.eye(n, dtype=bool)
    arrow[0] = arrow[:, 0] = True
    path = sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)).toarray() != 0
    grid = sp.kron(sp.eye_array(6), path[:6, :6].astype(int)) + sp.kron(path[:6, :6].astype(int), sp.eye_array(6))
    grid = grid.toarray() != 0
    two = np.zeros((36, 36), bool)
    two[:6, :6] = True
    two[6:, 6:] = path
    missing = grid & ~np.eye(36, dtype=bool)
    sparse = rng.random((40, 40)) < 0.05
    return {"one": np.ones((1, 1), bool), "one_empty": np.zeros((1, 1), bool), "diagonal": np.eye(n, dtype=bool),
            "empty": np.zeros((n, n), bool), "dense": np.ones((n, n), bool), "path": path, "arrow_first": arrow,
            "arrow_last": arrow[::-1, ::-1], "grid": grid, "two_components": two, "missing_diagonal": missing,
            "sparse": sparse | sparse.T}


ZOO = zoo()


@st.composite
def patterns(draw):
    n = draw(st.integers(1, 24))
    A = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).random((n, n)) < draw(st.sampled_from([0.02, 0.08, 0.2, 0.5]))
    perm = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).permutation(n)
    return A | A.T, perm


def check_functions(A):
    L = eliminate(A)
    assert np.array_equal(etree(A), parents(L))
    assert np.array_equal(colcount(A), L.sum(0))
    indptr, indices = pattern_of_factor(A)
    assert (indptr.dtype, indices.dtype) == (np.int64, np.int32)
    assert np.array_equal(dense(indptr, indices), L)
    assert all((np.diff(indices[a:b]) > 0).all() for a, b in zip(indptr[:-1], indptr[1:]))


def check_symbolic(A, perm):
    S = build(A, perm)
    assert np.array_equal(np.sort(S.perm), np.arange(len(A)))
    L = eliminate(A[S.perm][:, S.perm])
    assert np.array_equal(S.parent, parents(L))
    assert np.array_equal(S.colcount, L.sum(0))
    assert S.nnz == L.sum() and S.flops == (L.sum(0) ** 2).sum()
    assert S.nnz == eliminate(A[perm][:, perm]).sum()
    indptr, indices = S.pattern()
    assert np.array_equal(dense(indptr, indices), L)
    assert np.array_equal(indices[indptr[:-1]], np.arange(len(A)))
    check_postordered(S.parent)
    check_supernodes(S, L)


def check_postordered(parent):
    """Every subtree is a range that ends in its root."""
    n = len(parent)
    size, first = np.ones(n, int), np.arange(n)
    for j in range(n):
        assert parent[j] == -1 or j < parent[j] < n
        if parent[j] >= 0:
            size[parent[j]] += size[j]
            first[parent[j]] = min(first[parent[j]], first[j])
    assert np.array_equal(size, np.arange(n) - first + 1)


def check_supernodes(S, L):
    """Supernodes partition the columns, have exactly the union of their columns' rows, and those rows are in the parent."""
    first, up, row_ptr, rows = S.native.first, S.native.snode_parent, S.native.row_ptr, S.native.rows
    assert first[0] == 0 and first[-1] == len(L) and (np.diff(first) > 0).all()
    assert np.array_equal(first, S.supernodes) and row_ptr.dtype == np.int64
    owner = np.repeat(np.arange(len(first) - 1), np.diff(first))
    lists = [rows[a:b] for a, b in zip(row_ptr[:-1], row_ptr[1:])]
    for s, listed in enumerate(lists):
        union = first[s + 1] + np.flatnonzero(L[first[s + 1]:, first[s]:first[s + 1]].any(1))
        assert np.array_equal(listed, union)
        assert up[s] == (owner[listed[0]] if len(listed) else -1)
        if up[s] >= 0:
            beyond = listed[listed >= first[up[s] + 1]]
            assert np.isin(beyond, lists[up[s]]).all()
    check_postordered(up)
    check_budget(S, [len(listed) for listed in lists])


def check_budget(S, below):
    for a, b, rows in zip(S.supernodes[:-1], S.supernodes[1:], below):
        w = int(b - a)
        stored = w * (w + 1) // 2 + w * rows
        zeros = 1 - S.colcount[a:b].sum() / stored
        limit = 1 if w <= 4 else 0.3 if w <= 16 else 0.1 if w <= 48 else 0.05
        assert zeros < limit, (a, b)


@given(patterns())
@settings(max_examples=150, deadline=None)
def test_random_patterns(case):
    A, perm = case
    check_functions(A)
    check_symbolic(A, perm)


@pytest.mark.native
@pytest.mark.parametrize("name", ZOO)
def test_zoo(name):
    A = ZOO[name]
    check_functions(A)
    check_symbolic(A, np.arange(len(A)))
    check_symbolic(A, np.random.default_rng(1).permutation(len(A)))


@pytest.mark.native
def test_worked_example():
    """An 11 x 11 example, solved by hand."""
    edges = [(0, 5), (0, 6), (1, 2), (1, 7), (2, 9), (2, 10), (3, 5), (3, 9), (4, 7), (4, 10), (5, 8), (5, 9), (6, 10),
             (7, 9), (7, 10), (8, 9), (9, 10)]
    A = np.zeros((11, 11), bool)
    A[tuple(np.transpose(edges))] = True
    A |= A.T
    assert etree(A).tolist() == [5, 2, 7, 5, 7, 6, 8, 9, 9, 10, -1]
    assert colcount(A).tolist() == [3, 3, 4, 3, 3, 4, 4, 3, 3, 2, 1]
    assert postorder(etree(A)).tolist() == [1, 2, 4, 7, 0, 3, 5, 6, 8, 9, 10]


def test_two_children_in_separate_subtrees():
    """Both children could merge with the separator, but each has a clique below that cannot: only one can be adjacent to it."""
    clique, separator = 20, 20
    n = 2 * (clique + 1) + separator
    A = np.zeros((n, n), bool)
    A[-separator:, -separator:] = True
    for start in (0, clique + 1):
        child = start + clique
        A[start:child, start:child] = True
        A[child - 1, child] = A[child, -separator:] = True
    check_symbolic(A | A.T, np.arange(n))
    assert sorted(np.diff(build(A | A.T, np.arange(n)).supernodes)) == [1, 20, 20, 21]


@given(st.data(), st.integers(0, 40))
@settings(max_examples=80, deadline=None)
def test_postorder_laws(data, n):
    parent = np.array([data.draw(st.sampled_from([-1, *range(j + 1, n)])) for j in range(n)], np.int64)
    order = postorder(parent)
    assert order.dtype == np.int32 and np.array_equal(np.sort(order), np.arange(n))
    place = np.empty(n + 1, int)
    place[order], place[-1] = np.arange(n), -1
    check_postordered(place[parent[order]])


def grid_pattern(nx, ny):
    line = lambda n: sp.diags_array([1.0, 1.0, 1.0], offsets=[-1, 0, 1], shape=(n, n))
    return symmetric_pattern(sp.kron(line(nx), sp.eye_array(ny)) + sp.kron(sp.eye_array(nx), line(ny)))


@pytest.mark.parametrize("threads", [2, 7])
def test_threads_change_nothing(threads):
    """Large enough for many parallel tasks."""
    A = grid_pattern(190, 211)
    perm = np.random.default_rng(3).permutation(A.n).astype(np.int32) if threads == 2 else np.arange(A.n, dtype=np.int32)
    one, many = Symbolic.build(A, perm), Symbolic.build(A, perm, threads=threads)
    if one.nnz < 2e7:
        assert all(np.array_equal(a, b) for a, b in zip(one.pattern(), many.pattern()))
    for name in ("perm", "iperm", "parent", "colcount", "first", "snode_parent", "row_ptr", "rows"):
        assert np.array_equal(getattr(one.native, name), getattr(many.native, name)), name


def test_grid_is_merged_but_not_bloated():
    """On a mesh-like pattern relaxation merges most supernodes and stores few zeros."""
    A = grid_pattern(100, 100)
    S = Symbolic.build(A, reverse_halves(100))
    stored = S.nbytes / 8
    assert len(S.supernodes) - 1 < 0.2 * A.n
    assert stored < 1.6 * S.nnz


@pytest.mark.parametrize("order", ["amd", "nd"])
def test_light_children_do_not_widen_fronts_of_dense_rows(order):
    """Leaves merged with a dense row would double the operations, and prevent dense rows from merging with each other."""
    S = ms.analyze(ms.datasets.rmat(13), order)
    width, rows = np.diff(S.supernodes).astype(float), np.diff(S.native.row_ptr)
    height = width + rows
    operations = (width * height**2 - width * (width - 1) * height + (width - 1) * width * (2 * width - 1) / 6).sum()
    assert S.flops <= operations < 1.1 * S.flops
    assert width.max() > 500


def reverse_halves(n):
    """Nested dissection of an n x n grid by coordinates."""
    def cut(x0, x1, y0, y1):
        if min(x1 - x0, y1 - y0) < 4:
            return [x * n + y for x in range(x0, x1) for y in range(y0, y1)]
        if x1 - x0 >= y1 - y0:
            m = (x0 + x1) // 2
            return cut(x0, m, y0, y1) + cut(m + 1, x1, y0, y1) + [m * n + y for y in range(y0, y1)]
        m = (y0 + y1) // 2
        return cut(x0, x1, y0, m) + cut(x0, x1, m + 1, y1) + [x * n + m for x in range(x0, x1)]

    return np.array(cut(0, n, 0, n))


@pytest.mark.parametrize("shape", ["path", "star_last", "star_first", "broom"])
def test_deep_and_wide_trees(shape):
    """200,000 nodes in one chain or under one root: no recursion, no quadratic child lists."""
    n = 200_000
    j = np.arange(n - 1)
    other = {"path": j + 1, "star_last": np.full(n - 1, n - 1), "star_first": np.zeros(n - 1, int),
             "broom": np.where(j < n // 2, n // 2, j + 1)}[shape]
    this = j + 1 if shape == "star_first" else j
    A = symmetric_pattern(sp.coo_array((np.ones(n - 1), (this, other)), shape=(n, n)))
    order = np.arange(n)[::-1] if shape == "star_first" else np.arange(n)       # the dense row is last
    S = Symbolic.build(A, order)
    assert S.nnz == 2 * n - 1
    assert np.diff(S.supernodes).max() <= 16 or shape == "path"
    indptr, indices = S.pattern()
    assert len(indices) == 2 * n - 1 and indptr[-1] == 2 * n - 1


def test_pickle_and_views():
    A = grid_pattern(20, 20)
    S = Symbolic.build(A, np.arange(400), threads=2)
    T = pickle.loads(pickle.dumps(S))
    for name in ("perm", "parent", "colcount", "supernodes"):
        assert np.array_equal(getattr(S, name), getattr(T, name)) and not getattr(T, name).flags.writeable
    assert (S.nnz, S.flops, S.nbytes) == (T.nnz, T.flops, T.nbytes)
    assert all(np.array_equal(a, b) for a, b in zip(S.pattern(), T.pattern()))
    parent = T.parent
    del T
    assert np.array_equal(parent, S.parent)         # the view keeps its arrays alive


def test_report_and_size():
    A = grid_pattern(20, 20)
    S = Symbolic.build(A, np.arange(400))
    facts = S.report.as_dict()
    assert facts["nnz_A"] == A.nnz and facts["nnz_L"] == S.nnz and facts["flops"] == S.flops and facts["bytes"] == S.nbytes
    assert list(facts["seconds"]) == ["symbolic"]
    assert S.nbytes >= 8 * S.nnz and S.ordering is None


def test_input_is_not_changed():
    A = Csr(3, np.array([0, 2, 4, 5]), np.array([0, 1, 0, 1, 2], np.int32))
    before = A.indptr.copy(), A.indices.copy()
    S = Symbolic.build(A, [2, 1, 0])
    S.pattern()
    assert np.array_equal(before[0], A.indptr) and np.array_equal(before[1], A.indices)
