"""Schur complements against dense ones."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from zoo import grid, random_spd, refused, spd, truss, with_pivot, zoo

import meshsolve as ms
from meshsolve import memory
from meshsolve.errors import FactorInUseError

ZOO = {name: A for name, A in zoo().items() if A.shape[0] > 1}
ORDERINGS = ("auto", "nd", "amd", "nnz_sort", "rcm", "random", "natural")


def laplacian(n, density, seed):
    """The Laplacian of a random graph, which mostly has several components."""
    rng = np.random.default_rng(seed)
    W = np.triu((rng.random((n, n)) < density) * rng.uniform(0.1, 10, (n, n)), 1)
    W = W + W.T
    return sp.csr_array(np.diag(W.sum(axis=1)) - W)


def parts(A):
    return sp.csgraph.connected_components(A)[1]


def dense(A, rows):
    """(Schur complement, reduce(b), expand(b, x)) of dense algebra."""
    D, rows = A.toarray(), np.asarray(rows)
    I = np.setdiff1d(np.arange(len(D)), rows)
    inner, across = D[np.ix_(I, I)], D[np.ix_(I, rows)]

    def expand(b, x):
        whole = np.empty((len(D), *b.shape[1:]), np.result_type(b, x))
        whole[rows], whole[I] = x, np.linalg.solve(inner, b[I] - across @ x)
        return whole

    return D[np.ix_(rows, rows)] - across.T @ np.linalg.solve(inner, across), lambda b: b[rows] - across.T @ np.linalg.solve(inner, b[I]), expand


def check(S, A, rows, bound=1e-11):
    """Check S against the dense Schur complement of A: matrix, reduce and expand."""
    rng = np.random.default_rng(len(rows))
    b, x = rng.standard_normal((A.shape[0], 3)), rng.standard_normal((len(rows), 3))
    matrix, reduce, expand = dense(A, rows)
    scale = max(abs(A).max(), 1)
    assert S.matrix.shape == matrix.shape and S.matrix.dtype == np.float64 and np.array_equal(S.matrix, S.matrix.T)
    assert np.abs(S.matrix - matrix).max() < bound * scale
    assert np.abs(S.reduce(b) - reduce(b)).max() < bound * scale * max(1, np.abs(reduce(b)).max())
    whole = S.expand(b, x)
    assert np.array_equal(whole[rows], x) and np.abs(whole - expand(b, x)).max() < bound * scale * max(1, np.abs(whole).max())
    assert np.array_equal(S.rows, rows) and np.array_equal(np.sort(S.perm), np.arange(A.shape[0]))


@pytest.mark.parametrize("name", ZOO)
@each("ordering", ORDERINGS)
def test_small_matrices(name, ordering):
    A = ZOO[name]
    n = A.shape[0]
    for k in sorted({1, n // 3, n - 1} - {0}):
        rows = np.random.default_rng(k).permutation(n)[:k]
        check(ms.schur_complement(A, rows, ordering=ordering), A, rows)


@given(st.integers(2, 60), st.sampled_from([0.02, 0.1, 0.5]), st.integers(0, 10**6), st.integers(1, 59), st.integers(1, 3))
def test_random_matrices(n, density, seed, k, threads):
    A = random_spd(n, density, seed)
    rows = np.random.default_rng(seed).permutation(n)[:min(k, n - 1)]
    S = ms.schur_complement(A, rows, ORDERINGS[seed % len(ORDERINGS)], threads=threads)
    check(S, A, rows)
    b = np.random.default_rng(seed + 1).standard_normal(n)
    x = S.expand(b, np.linalg.solve(S.matrix, S.reduce(b)))
    assert np.abs(A @ x - b).max() < 1e-11 * max(1, np.abs(x).max()) * abs(A).max()


@given(st.integers(2, 60), st.sampled_from([0.02, 0.1, 0.5]), st.integers(0, 10**6), st.integers(0, 58))
def test_the_schur_complement_of_a_laplacian_is_one(n, density, seed, k):
    """A singular matrix with at least one kept row in each component."""
    A = laplacian(n, density, seed)
    part = parts(A)
    first = np.unique(part, return_index=True)[1]
    rest = np.random.default_rng(seed).permutation(np.setdiff1d(np.arange(n), first))
    rows = np.concatenate([first, rest[:min(k, len(rest) - 1)]])
    if len(first) == n:
        return
    S = ms.schur_complement(A, rows)
    check(S, A, rows)
    M = S.matrix
    assert np.abs(M.sum(axis=1)).max() < 1e-12 * A.max() and (M - np.diag(M.diagonal())).max(initial=0) < 1e-12 * A.max()
    assert np.array_equal(np.abs(M) > 1e-13 * A.max(), np.abs(M) * (part[rows][:, None] == part[rows]) > 1e-13 * A.max())


@given(st.integers(3, 40), st.integers(0, 10**6), st.data())
def test_in_two_steps(n, seed, data):
    """Haynsworth's quotient formula: a Schur complement of a Schur complement."""
    A = random_spd(n, 0.2, seed)
    k = data.draw(st.integers(2, n - 1))
    l = data.draw(st.integers(1, k - 1))
    rows = np.random.default_rng(seed).permutation(n)[:k]
    twice = ms.schur_complement(ms.schur_complement(A, rows).matrix, np.arange(l))
    assert np.abs(twice.matrix - ms.schur_complement(A, rows[:l]).matrix).max() < 1e-11 * abs(A).max()


@given(st.integers(2, 40), st.integers(0, 10**6), st.integers(1, 39))
def test_only_the_eliminated_block_must_be_definite(n, seed, k):
    rng = np.random.default_rng(seed)
    A, rows = random_spd(n, 0.2, seed).toarray(), rng.permutation(n)[:min(k, n - 1)]
    A[np.ix_(rows, rows)] = sp.csr_array(rng.integers(-2, 3, (len(rows),) * 2)).toarray()
    A[np.ix_(rows, rows)] += A[np.ix_(rows, rows)].T
    check(ms.schur_complement(A, rows), sp.csr_array(A), rows, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("k", [3, 341, 342, 700])
def test_large_interfaces_do_not_depend_on_threads(k):
    """Up to 341 rows are one panel, more are stored in steps. One of two interior components has no neighbor among the rows."""
    A = spd(sp.block_diag([grid(60, 50), grid(9, 7)]), 1)
    rows = np.random.default_rng(k).permutation(3000)[:k]
    b, x = np.random.default_rng(1).standard_normal((A.shape[0], 9)), np.random.default_rng(2).standard_normal((k, 9))
    S = ms.schur_complement(A, rows, "nd", threads=1)
    check(S, A, rows)
    for threads in (2, 3, 7):
        T = ms.schur_complement(A, rows, "nd", threads=threads)
        assert np.array_equal(S.matrix, T.matrix) and np.array_equal(S.reduce(b), T.reduce(b)) and np.array_equal(S.expand(b, x), T.expand(b, x))
        assert np.array_equal(S.reduce(b[:, 4]), T.reduce(b)[:, 4])
        T.refactor(2 * A).refactor(A)
        assert np.array_equal(S.matrix, T.matrix)


@pytest.mark.parametrize("blocks, size, rows", [(1, 230, np.arange(0, 52900, 83)), (70, 28, np.arange(35 * 784, 36 * 784, 2))])
def test_the_parallel_analysis_changes_nothing(blocks, size, rows):
    """One large tree, and many small ones with all rows in one of them."""
    A = spd(sp.block_diag([grid(size, size)] * blocks))
    S, T = (ms.schur_complement(A, rows, "nd", threads=threads) for threads in (1, 3))
    for name in ("perm", "parent", "colcount", "supernodes"):
        assert np.array_equal(getattr(S.symbolic, name), getattr(T.symbolic, name)), name
    assert np.array_equal(S.matrix, T.matrix)
    F, some = ms.cholesky(A, fixed=rows), np.arange(0, len(rows), 50)
    columns = A[:, rows[some]].toarray()
    assert np.abs(S.matrix[:, some] - (columns - A @ F.solve(columns))[rows]).max() < 1e-12


def test_kept_rows_are_one_supernode():
    """Interior columns would join it (a path), or none do (rows in different components)."""
    path = spd(sp.diags_array([np.ones(29)], offsets=[1]))
    for A, rows in ((path, [0, 29]), (path, range(1, 30)), (path, [14]), (sp.block_diag([path] * 3).tocsr(), [0, 35, 70]), (sp.eye_array(5).tocsr(), [3, 1])):
        S = ms.schur_complement(A, list(rows))
        first = S.symbolic.supernodes
        assert first[-2] == A.shape[0] - len(rows) and np.array_equal(S.perm[first[-2]:], list(rows))
        check(S, A, np.array(rows))
    assert S.flops == 3                                     # the interior alone


@pytest.mark.slow
def test_the_interior_is_ordered_for_itself():
    """By its own graph, without the edges through the kept rows, which come last."""
    A = spd(grid(40, 40))
    rows = np.arange(1560, 1600)
    inner = ms.analyze(A[:1560][:, :1560], "amd")
    S = ms.schur_complement(A, rows, "amd")
    assert inner.flops < S.flops < 2 * inner.flops and sorted(S.perm[:1560]) == list(range(1560))
    order = np.random.default_rng(0).permutation(1600)
    for taken in (order, ms.Ordering(order.astype(np.int32), "given")):
        check(ms.schur_complement(A, rows, taken), A, rows)


def test_rows_as_a_mask_or_a_number():
    A = spd(grid(6, 5))
    mask = np.isin(np.arange(30), [3, 17, 29])
    for taken, rows in ((mask, [3, 17, 29]), (np.where(mask), [3, 17, 29]), (7, [7]), (np.uint8([4, 2]), [4, 2])):
        S = ms.schur_complement(A, taken)
        assert S.rows.tolist() == rows and not S.rows.flags.writeable and S.rows.dtype == np.int32
        check(S, A, rows)


def test_lower_triangle_and_mesh():
    mesh = ms.datasets.icosphere(2)
    L = ms.cotan_laplacian(mesh)
    rows = np.arange(0, L.shape[0], 5)
    S = ms.schur_complement(sp.tril(L), rows, lower=True)
    check(S, L, rows)
    S.refactor(sp.tril(2 * L))
    check(S, 2 * L, rows)
    diagonal = sp.diags_array(np.arange(1.0, L.shape[0] + 1)).tocsr()
    S = ms.schur_complement(diagonal, rows, mesh=mesh)
    check(S, diagonal, rows)
    check(S.refactor(L), L, rows)


def test_refactor_is_a_fresh_one():
    A, C = spd(grid(40, 30), 1), spd(grid(40, 30), 2)
    rows = np.random.default_rng(0).permutation(1200)[:400]
    S = ms.schur_complement(A, rows, threads=2)
    assert S.refactor(C) is S and np.array_equal(S.matrix, ms.schur_complement(C, rows).matrix)
    assert S.report.counts["numeric"] == 2
    check(S.refactor(sp.eye_array(1200)), sp.eye_array(1200).tocsr(), rows)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failed_refactor_keeps_the_earlier_factor(threads):
    A = spd(grid(60, 50))
    rows = np.arange(0, 3000, 7)
    S = ms.schur_complement(A, rows, threads=threads)
    b, x = np.random.default_rng(0).standard_normal(3000), np.ones(len(rows))

    def results():
        return S.matrix, S.reduce(b), S.expand(b, x)

    before = results()
    for bad, error in refused(A, 1234):
        with pytest.raises(error) as e:
            S.refactor(bad)
        assert all(np.array_equal(then, now) for then, now in zip(before, results()))
        if error is ms.NotPositiveDefiniteError:
            assert e.value.column == 1234 and "the block of A without rows" in str(e.value)
    assert np.linalg.eigvalsh(S.refactor(with_pivot(A, 7, -5.0)).matrix)[0] < 0                         # a kept row


def test_a_component_without_a_row_is_named():
    L = sp.block_diag([ms.datasets.grid2d(9, 9), ms.datasets.grid2d(5, 4)]).tocsr()
    with pytest.raises(ms.NotPositiveDefiniteError, match="every row of the component of column .* add a row of that component to rows") as e:
        ms.schur_complement(L, [0, 80])
    assert e.value.column >= 81
    S = ms.schur_complement(L, [0, 80, 100])
    check(S, L, [0, 80, 100])
    coo, ends = L.tocoo(), ([80, 81], [81, 80])             # the same component, joined to rows by stored zeros
    cut = sp.csr_array((np.append(coo.data, [0, 0]), np.hstack([coo.coords, ends])), shape=L.shape)
    assert cut.nnz == L.nnz + 2
    with pytest.raises(ms.NotPositiveDefiniteError, match="add a row of that component to rows") as e:
        ms.schur_complement(cut, [0, 80])
    assert e.value.column >= 81
    joined = cut.copy()
    joined[90, 90] += 1e-3
    S = ms.schur_complement(joined, [0, 80])
    before = S.matrix
    with pytest.raises(ms.NotPositiveDefiniteError):
        S.refactor(cut)
    assert np.array_equal(S.matrix, before)


@pytest.mark.parametrize("value, says", [(2.0, "it is indefinite, or singular"), (0.0, "Add that row to rows"), (-2.0, "or pass -A if")])
def test_a_pivot_that_is_not_positive_is_named(value, says):
    A = sp.lil_array(spd(grid(9, 8)))
    A[40, 40] = value
    if value > 0:
        A[40, 41] = A[41, 40] = 10.0
    with pytest.raises(ms.NotPositiveDefiniteError, match=says) as e:
        ms.schur_complement(A, [3, 15])
    assert e.value.column in (40, 41)
    check(ms.schur_complement(A, [3, 40]), A.tocsr(), [3, 40], 1e-10)


def test_a_numerically_singular_block_is_detected():
    """An elastic body with one fixed joint can rotate about it."""
    ways = set()
    for m in (5, 8, 12, 20, 31):
        K, _ = truss(m)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                assert ms.schur_complement(K, [0, 1]).trial > 0.02
                ways.add("rounding" in str(caught[0].message) and "the block of A without rows" in str(caught[0].message))
            except ms.NotPositiveDefiniteError as e:
                ways.add("an elastic body" in str(e))
        assert ms.schur_complement(K, [0, 1, 2 * m + 1]).trial < 1e-3
    assert ways == {True}


def test_kinds_of_right_hand_sides():
    A, rows = spd(grid(9, 8)), [3, 15, 40]
    S = ms.schur_complement(A, rows)
    rng = np.random.default_rng(0)
    b, x = rng.standard_normal((72, 9)), rng.standard_normal((3, 9))
    wanted, whole = S.reduce(b), S.expand(b, x)
    for k in range(10):
        assert np.array_equal(S.reduce(b[:, :k]), wanted[:, :k]) and np.array_equal(S.expand(b[:, :k], x[:, :k]), whole[:, :k])
    for order in (np.asfortranarray, lambda a: np.repeat(a, 2, axis=0)[::2], lambda a: np.repeat(a, 2, axis=1)[:, ::2]):
        assert np.array_equal(S.reduce(order(b)), wanted) and np.array_equal(S.expand(order(b), order(x)), whole)
    assert np.array_equal(S.reduce(b[:, 0]), wanted[:, 0]) and np.array_equal(S.expand(b[:, 0], x[:, :1]), whole[:, 0])
    assert S.reduce(b.astype(np.float32)).dtype == np.float32 and S.expand(b.astype(np.float32), x).dtype == np.float32
    assert np.array_equal(S.reduce(b + 1j * b[:, ::-1]), wanted + 1j * wanted[:, ::-1])
    for taken, at in ((b, x + 1j * x[:, ::-1]), (b + 1j * b[:, ::-1], x), (b + 1j * b[:, ::-1], x + 1j * x[:, ::-1])):
        y, (_, _, expand) = S.expand(taken, at), dense(A, rows)
        assert y.dtype == np.complex128 and np.abs(y - expand(taken, at)).max() < 1e-12 and np.array_equal(y[rows], at)
    assert np.array_equal(S.expand(np.zeros(72, int), [1, 2, 3])[rows], [1, 2, 3])


def test_results_belong_to_the_caller():
    A, rows = spd(grid(9, 8)), [3, 15, 40]
    S = ms.schur_complement(A, rows)
    before = S.matrix
    S.matrix[:] = 0
    S.expand(np.ones(72), np.ones(3))[:] = 0
    A.data[:] = np.nan
    assert np.array_equal(S.matrix, before)


def test_copies_and_pickles():
    A, rows = spd(grid(30, 20)), np.random.default_rng(0).permutation(600)[:350]
    S = ms.schur_complement(A, rows, threads=2)
    for T in (pickle.loads(pickle.dumps(S)), copy.copy(S), copy.deepcopy(S)):
        assert np.array_equal(T.matrix, S.matrix) and np.array_equal(T.rows, rows) and T.flops == S.flops
        assert (T.symbolic is S.symbolic) or T.symbolic.boundary == 350
        T.refactor(4 * A)                                   # square roots round as those of A
        assert np.array_equal(T.matrix, 4 * S.matrix)
    assert np.array_equal(S.matrix, ms.schur_complement(A, rows).matrix)


def test_a_refactorization_excludes_other_calls():
    A = ms.datasets.grid2d(30, 30, boundary="dirichlet")
    S = ms.schur_complement(A, [0, 10])
    uses = (lambda: S.matrix, lambda: S.reduce(np.ones(900)), lambda: S.expand(np.ones(900), [0, 0]), lambda: S.refactor(A), lambda: pickle.dumps(S))
    for use in uses:
        with pytest.raises(FactorInUseError), ms.showing_progress(lambda *args, use=use: use()):
            S.refactor(A)
    with pytest.raises(FactorInUseError), ms.showing_progress(lambda *args: S.refactor(A)):
        S.reduce(np.ones(900))
    check(S, A, [0, 10])


def test_an_exception_of_progress_ends_the_work():
    A, phases = ms.datasets.grid2d(300, 300, boundary="dirichlet"), []
    S = ms.schur_complement(A, range(0, 90000, 100), threads=2)
    before = S.matrix

    def stop(phase, done, total):
        phases.append(phase)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), ms.showing_progress(stop):
        S.refactor(2 * A)
    assert phases == ["numeric"] and np.array_equal(S.matrix, before)


def test_report_has_phases_and_sizes():
    A = spd(grid(30, 20))
    S = ms.schur_complement(A, [1, 2, 3], threads=2)
    S.reduce(np.ones(600))
    assert set(S.report.seconds) == {"order", "symbolic", "numeric", "solve"} and S.report.facts["threads"] == 2
    assert S.report.facts["rows"] == 3 and S.report.facts["nnz_L"] == S.nnz and S.report.facts["bytes"] == S.nbytes > 8 * S.nnz
    assert S.n == 600 and repr(S).startswith("SchurComplement(n=600, rows=3, nnz=")


def test_memory_is_checked_first(monkeypatch):
    A = spd(grid(30, 20))
    S = ms.schur_complement(A, range(300))
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    for call in (lambda: ms.schur_complement(A, range(300)), lambda: S.matrix):
        with pytest.raises(ms.OutOfMemoryError, match="GiB are available"):
            call()
    monkeypatch.undo()
    check(S, A, range(300))
