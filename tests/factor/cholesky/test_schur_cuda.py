"""Schur complements on the GPU: against those of the host and dense ones, refactorizations, errors, counts, races."""

import copy
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import WAYS, use_way
from kernel_harness import Harness
from kernel_harness.strict import Strict
from on_device import Sparse, to_cuda, to_numpy
from zoo import grid, random_spd, refused, spd, truss, with_pivot, zoo

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.cholesky.schur_cuda import SchurFactor
from meshsolve.factor.symbolic import location

ZOO = {name: A for name, A in zoo().items() if A.shape[0] > 1}


def check(A, rows, bound=1e-12, **options):
    """Compare matrix, reduce and expand with those of the host for right-hand sides in both places, and return the result of the GPU."""
    S, T = (ms.schur_complement(M, rows, device=place, **options) for M, place in ((Sparse(A), "cuda"), (A, "cpu")))
    compare(S, T, bound)
    return S


def compare(S, T, bound=1e-12):
    n, m = S.n, len(S.rows)
    rng = np.random.default_rng(m)
    b, x = rng.standard_normal((n, 3)), rng.standard_normal((m, 3))
    M, N = to_numpy(S.matrix), T.matrix
    assert device.holds(S.matrix) and np.array_equal(M, M.T) and M.dtype == np.float64 and np.array_equal(S.rows, T.rows)
    assert abs(M - N).max() <= bound * max(abs(N).max(), 1)
    for given, bring in ((b, to_cuda), (b, np.asarray), (b[:, 0], to_cuda), (b[:, :0], to_cuda)):
        inner = x[:, 0] if given.ndim == 1 else x[:, :given.shape[1]]
        reduced, whole = S.reduce(bring(given)), S.expand(bring(given), bring(inner))
        assert device.holds(reduced) == device.holds(whole) == (bring is to_cuda)
        for found, expected in ((reduced, T.reduce(given)), (whole, T.expand(given, inner))):
            assert found.shape == expected.shape
            assert abs(to_numpy(found) - expected).max(initial=0) <= bound * abs(expected).max(initial=1)
        assert np.array_equal(to_numpy(whole)[S.rows], inner)


@pytest.mark.parametrize("name", ZOO)
def test_every_shape(gpu, name):
    A = ZOO[name]
    n = A.shape[0]
    for k in sorted({1, n // 3, n - 1} - {0}):
        S = check(A, np.random.default_rng(k).permutation(n)[:k])
        assert S.report.facts["device"] == "cuda"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("k", [1, 63, 65, 150])
def test_boundaries_of_several_tiles(gpu, monkeypatch, way, k):
    use_way(monkeypatch, way)
    A = sp.csr_array(sp.block_diag([spd(grid(19, 17)), spd(grid(5, 4))]))             # the second component has no row
    check(A, np.random.default_rng(k).permutation(19 * 17)[:k])


@pytest.mark.parametrize("seed", range(3))
def test_random_patterns_and_orderings(gpu, seed):
    A = random_spd(90, 0.03 + 0.03 * seed, seed)
    rows = np.random.default_rng(seed).permutation(90)[:7 + 9 * seed]
    for ordering in ("nd", "amd", np.random.default_rng(seed).permutation(90)):
        check(A, rows, ordering=ordering)


def test_small_patterns_are_ordered_on_the_host(gpu, monkeypatch):
    A, rows = spd(grid(20, 15)), np.arange(0, 300, 7)
    found = set()
    for below in (0, 1000):
        monkeypatch.setattr(location, "ON_HOST_BELOW", below)
        found.add(check(A, rows).report.facts["ordering"])
    assert found == {"nd"}                                      # minimum degree has more levels


def test_many_right_hand_sides(gpu):
    """More than those of one pass, and of one launch."""
    A, rows = spd(grid(9, 8)), [3, 15, 40, 41]
    S, T = (ms.schur_complement(A, rows, device=place) for place in ("cuda", "cpu"))
    rng = np.random.default_rng(0)
    for k in (4, 9, 37):
        b, x = rng.standard_normal((72, k)), rng.standard_normal((4, k))
        for order in (np.asarray, np.asfortranarray):
            assert abs(S.reduce(order(b)) - T.reduce(b)).max() < 1e-12 and abs(S.expand(order(b), x) - T.expand(b, x)).max() < 1e-12
    z, y = b + 1j * b[:, ::-1], x - 1j * x
    assert abs(S.reduce(z) - T.reduce(z)).max() < 1e-12
    for given, inner in ((z, y), (z, x), (b, y)):
        assert abs(to_numpy(S.expand(to_cuda(given), to_cuda(inner))) - T.expand(given, inner)).max() < 1e-12
    assert S.reduce(b.astype(np.float32)).dtype == np.float32
    sparse = sp.csc_array(np.eye(72)[:, :2])
    assert abs(S.reduce(sparse).toarray() - T.reduce(np.eye(72)[:, :2])).max() < 1e-13
    with pytest.raises(ms.InvalidInputError, match="one column for each column of b"):
        S.expand(to_cuda(b), to_cuda(x[:, :3]))
    with pytest.raises(ms.InvalidInputError, match="x_K must be"):
        S.expand(to_cuda(b), to_cuda(b))
    with pytest.raises(ms.InvalidInputError, match="row 5 holds a value that is not finite"):
        S.reduce(to_cuda(np.where(np.arange(72) == 5, np.nan, 1.0)))


def test_systems_are_solved_on_the_gpu(gpu):
    """The Laplacian of two components, with a row of each."""
    L = sp.csr_array(sp.block_diag([ms.datasets.grid2d(9, 9), ms.datasets.grid2d(5, 4)]))
    S = ms.schur_complement(Sparse(L), [0, 40, 90])
    M = to_numpy(S.matrix)
    assert abs(M.sum(axis=1)).max() < 1e-13
    x = np.random.default_rng(0).standard_normal(101)
    b = to_cuda(L @ x)
    x_K = np.linalg.pinv(M, 1e-10) @ to_numpy(S.reduce(b))
    assert abs(L @ to_numpy(S.expand(b, to_cuda(x_K))) - L @ x).max() < 1e-12


def test_meshes_lower_triangles_and_the_place(gpu):
    mesh = ms.datasets.icosphere(2)
    L = sp.csr_array(ms.cotan_laplacian(mesh))
    rows = np.arange(0, L.shape[0], 5)
    T = ms.schur_complement(L, rows)
    S = ms.schur_complement(Sparse(sp.tril(L)), to_cuda(rows), lower=True)
    compare(S, T)
    compare(S.refactor(Sparse(sp.tril(2 * L))), T.refactor(2 * L))
    diagonal = sp.csr_array(sp.diags_array(np.arange(1.0, L.shape[0] + 1)))
    S = ms.schur_complement(diagonal, rows, mesh=mesh, device="cuda")
    compare(S.refactor(Sparse(L)), T.refactor(L))
    assert isinstance(ms.schur_complement(L, rows).matrix, np.ndarray)
    assert isinstance(ms.schur_complement(Sparse(L), rows, device="cpu").matrix, np.ndarray)


def test_refactor_is_a_fresh_one(gpu):
    A, C = spd(grid(20, 15), 1), spd(grid(20, 15), 2)
    rows = np.random.default_rng(0).permutation(300)[:80]
    S = ms.schur_complement(Sparse(A), rows)
    fresh = to_numpy(ms.schur_complement(C, rows, device="cuda").matrix)
    for M in (Sparse(C), C, sp.csr_array(C + sp.csr_array((300, 300)))):
        assert S.refactor(A).refactor(M) is S and np.array_equal(to_numpy(S.matrix), fresh)
    compare(S.refactor(sp.eye_array(300)), ms.schur_complement(A, rows).refactor(sp.eye_array(300)))


def test_a_failed_refactor_keeps_the_earlier_result(gpu):
    A = spd(grid(20, 15))
    rows = np.arange(0, 300, 7)
    S = ms.schur_complement(Sparse(A), rows)
    b, x = np.random.default_rng(0).standard_normal(300), np.ones(len(rows))

    def results():
        return to_numpy(S.matrix), S.reduce(b), S.expand(b, x)

    before = results()
    for bad, error in refused(A, 123):
        for M in (bad, Sparse(bad)):
            with pytest.raises(error) as e:
                S.refactor(M)
            assert all(np.array_equal(then, now) for then, now in zip(before, results()))
            if error is ms.NotPositiveDefiniteError:
                assert e.value.column == 123 and "the block of A without rows" in str(e.value)
    assert np.linalg.eigvalsh(to_numpy(S.refactor(with_pivot(A, 7, -5.0)).matrix))[0] < 0               # a kept row


def test_a_component_without_a_row_is_named(gpu):
    L = sp.csr_array(sp.block_diag([ms.datasets.grid2d(9, 9), ms.datasets.grid2d(5, 4)]))
    with pytest.raises(ms.NotPositiveDefiniteError, match="every row of the component of column .* add a row of that component to rows") as e:
        ms.schur_complement(Sparse(L), [0, 80])
    assert e.value.column >= 81
    coo, ends = L.tocoo(), ([80, 81], [81, 80])             # the same component, joined to rows by stored zeros
    cut = sp.csr_array((np.append(coo.data, [0, 0]), np.hstack([coo.coords, ends])), shape=L.shape)
    with pytest.raises(ms.NotPositiveDefiniteError, match="add a row of that component to rows") as e:
        ms.schur_complement(Sparse(cut), [0, 80])
    assert e.value.column >= 81


def test_a_numerically_singular_block_is_detected(gpu):
    """An elastic body with one fixed joint can rotate about it."""
    ways = set()
    for m in (5, 12):
        K, _ = truss(m)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                assert ms.schur_complement(Sparse(K), [0, 1]).trial > 0.02
                ways.add("the block of A without rows" in str(caught[0].message))
            except ms.NotPositiveDefiniteError as e:
                ways.add("an elastic body" in str(e))
        assert ms.schur_complement(Sparse(K), [0, 1, 2 * m + 1]).trial < 1e-3
    assert ways == {True}


def test_copies_and_pickles(gpu):
    A, rows = spd(grid(15, 10)), np.random.default_rng(0).permutation(150)[:70]
    S = ms.schur_complement(Sparse(A), rows)
    before = to_numpy(S.matrix)
    for T in (pickle.loads(pickle.dumps(S)), copy.copy(S), copy.deepcopy(S)):
        assert np.array_equal(to_numpy(T.matrix), before) and T.report.facts["device"] == "cuda"
        assert np.array_equal(to_numpy(T.refactor(4 * A).matrix), 4 * before)           # square roots round as those of A
    assert np.array_equal(to_numpy(S.matrix), before)
    S.matrix[:] = 0.0
    assert np.array_equal(to_numpy(S.matrix), before) and S.nbytes > 8 * S.nnz


def test_the_analysis_is_shared_and_the_host_reads_little():
    A, rows = spd(grid(20, 20)), np.arange(0, 400, 9)
    with device.use(Strict()) as harness:
        S, M, b = ms.schur_complement(Sparse(A), rows), Sparse(2 * A), to_cuda(np.ones((400, 3)))
        S.refactor(M).reduce(b)
        for call, limits in ((lambda: S.refactor(M), (4, 1, 1, 0, 0, 0)), (lambda: S.matrix, (1, 0, 0, 1, 0, 0)),
                             (lambda: S.reduce(b), (5, 4, 1, 2, 0, 0))):
            with harness.counted() as found:
                call()
            assert all(found[kind] <= most for kind, most in zip(found, limits)), found
        assert copy.copy(S)._factor.tree is S._factor.tree and type(S._factor) is SchurFactor


@pytest.mark.parametrize("way", WAYS)
def test_schedules_and_block_sizes_change_no_bit(monkeypatch, way):
    use_way(monkeypatch, way)
    A, rows = spd(grid(17, 12)), np.random.default_rng(0).permutation(204)[:70]
    found = []
    for harness in (Harness(), Harness(resident=1), Harness(resident=5, seed=1, block=64), Harness(resident=3, seed=2, block=32)):
        with device.use(harness):
            S = ms.schur_complement(A, rows, "nd", device="cuda")
            found.append((S.matrix, S.reduce(np.ones(204)), S.expand(np.ones(204), np.ones(70))))
    assert all(np.array_equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


@pytest.mark.sanitize
@pytest.mark.parametrize("way", ["queue alone", "small subtrees"])
def test_the_kernels_have_no_races(monkeypatch, way):
    use_way(monkeypatch, way)
    A, rows = spd(grid(8, 7)), np.array([0, *range(24, 32)])             # a row of the upper half, and the line between the halves
    T = ms.schur_complement(A, rows, "nd")
    with device.use(Harness(seed=1, block=32, resident=3)) as harness:
        S = ms.schur_complement(A, rows, "nd", device="cuda").refactor(A)
        assert abs(S.matrix - T.matrix).max() < 1e-12
        assert abs(S.reduce(np.ones(56)) - T.reduce(np.ones(56))).max() < 1e-12
        assert abs(S.expand(np.ones(56), np.ones(9)) - T.expand(np.ones(56), np.ones(9))).max() < 1e-12
    assert {"k_queue", "k_boundary_block", "k_boundary_rows"} <= harness.launches.keys()
