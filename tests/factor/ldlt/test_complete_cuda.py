"""The complete factor of the GPU compared with that of the CPU: on the kernel harness, and on a GPU with -m gpu.

On the harness pivots, delayed columns and inertia equal those of the CPU; L and D differ by the order of sums. A GPU
fuses products and sums, so pivots of nearly equal size may be exchanged: L D L^T and the inertia are compared.
"""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from on_device import nothing_copied_to_host, to_cuda, to_numpy
from saddles import dependent, rank_deficient, regular, spoiled, symmetric

import meshsolve as ms
from meshsolve import device
from meshsolve.factor import ildl
from meshsolve.factor.fronts.cuda import Limits
from meshsolve.factor.ldlt import fronts_cuda, tree_cuda

WAYS = {                                                    # limits of tiny, small and dense fronts: fronts.LIMITS
    "shared memory": Limits(512, 6016, 384),
    "blocks only": Limits(0, 6016, 384),
    "tiles": Limits(0, 0, 384),
    "all four": Limits(64, 300, 20),
    "libraries": Limits(0, 0, 1),
}
ZOO = regular()
KKT = ms.datasets.kkt(350, 150, seed=2)


def climbing(nx=8, ny=5):
    """[[0, B], [B, 0]] in this order: no column of the first half has a pivot before the second half is reached."""
    B = sp.eye_array(nx * ny) + ms.datasets.grid2d(nx, ny)
    return sp.csr_array(sp.block_array([[None, B], [B, None]]))


def far_partners(half=64):
    """The same with a dense B and stored zeros: one front, in which no 32 columns contain both columns of a pivot."""
    n, B = 2 * half, np.random.default_rng(7).standard_normal((half, half))
    values = np.block([[np.zeros((half, half)), B], [B.T, np.zeros((half, half))]])
    return sp.csr_array((values.ravel(), np.tile(np.arange(n), n), n * np.arange(n + 1)), shape=(n, n))


NATURAL = {"pairs": False, "ordering": "natural"}


def check(A, **options):
    """Compare the factors of both devices and their solves; return that of the GPU."""
    options = {"ordering": "nd"} | options                 # on the GPU "auto" is nested dissection
    K, G = (ms.ildl(A, fill_level=None, device=place, **options) for place in ("cpu", "cuda"))
    same(K, G, A, 1e-10 if G.storage == np.float64 else 1e-3)
    b = A @ np.random.default_rng(0).standard_normal((A.shape[0], 3))
    residual, theirs = (np.linalg.norm(A @ F.solve(b) - b) / np.linalg.norm(b) for F in (G, K))
    assert residual <= 1e-14 + 10 * theirs
    return G


def same(K, G, A, bound=1e-10):
    assert G.on_device and G.is_complete and not K.on_device and G.storage == K.storage
    assert G.inertia == K.inertia and np.array_equal(G.scale, K.scale) and G.structural_rank == K.structural_rank
    S = sp.diags_array(G.scale)
    assert abs(G.L @ G.D @ G.L.T - sp.csr_array(S @ A @ S)[G.perm][:, G.perm]).max() <= bound
    assert abs(G.L).max() <= 101 and np.array_equal(G.L.diagonal(), np.ones(A.shape[0])) and sp.triu(G.L, 1).nnz == 0
    assert G.L.has_sorted_indices and G.nnz == G.L.nnz == G.L.count_nonzero()
    if isinstance(device.backend(), Harness):
        assert np.array_equal(G.perm, K.perm)
        assert [G.report.facts[name] for name in ("delayed", "pairs")] == [K.report.facts[name] for name in ("delayed", "pairs")]
        assert abs(G.L - K.L).max() <= bound and abs(G.D - K.D).max() <= bound


@pytest.fixture
def path():
    with device.use(Harness()) as harness:
        yield harness


def go(monkeypatch, way):
    monkeypatch.setattr(tree_cuda, "LIMITS", WAYS[way])


# ---- the factor -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"libraries"}))
@pytest.mark.parametrize("name", ZOO)
def test_the_factor_of_the_cpu(path, monkeypatch, name, way):
    go(monkeypatch, way)
    check(ZOO[name])


@pytest.mark.parametrize("way", ["shared memory", "all four"])
def test_on_any_device(gpu, monkeypatch, way):
    go(monkeypatch, way)
    check(KKT)
    check(ZOO["stokes"])


@pytest.mark.parametrize("way", WAYS)
def test_columns_are_delayed(gpu, monkeypatch, way):
    go(monkeypatch, way)
    G = check(climbing(), **NATURAL)
    assert G.report.facts["delayed"] >= 40 and G.inertia == (40, 40, 0)


@pytest.mark.slow
def test_delayed_columns_of_every_kind_of_front(path, monkeypatch):
    """Fronts of all kernels (warp, thread block, tiles) delay columns to each other, and some columns are delayed twice."""
    go(monkeypatch, "all four")
    G = check(climbing(20, 12), **NATURAL)
    native = G._core.native
    assert G.report.facts["delayed"] > 240                  # some columns are delayed twice
    assert any(plan.batches for plan in native.plans) and any(plan.large for plan in native.plans) and native.plans[-1].dense
    assert (to_numpy(native._locations)[:, 3] > native.tree.own).sum() > 10


@pytest.mark.parametrize("way", ["tiles", "libraries"])
def test_columns_of_distant_partners(gpu, monkeypatch, way):
    """No block of 32 columns has a pivot, so all columns are searched together."""
    go(monkeypatch, way)
    G = check(far_partners(), **NATURAL)
    progress = to_numpy(G._core.native._progress).reshape(-1, fronts_cuda.PROGRESS)
    assert progress[:, 5].tolist() == [128] and G.report.facts["pairs"] == 64


def test_pivot_search_after_a_block_of_pivots(gpu, monkeypatch):
    """Rows of earlier pivot columns are exchanged already; the exchanges of failed blocks must not be applied to them."""
    go(monkeypatch, "tiles")
    A, rng = far_partners().toarray(), np.random.default_rng(1)
    first = np.kron([[0.0, 1.0], [1.0, 0.0]], np.eye(16))   # distant pairs without an update: C D^-1 C^T is 0
    coupling = np.zeros((128, 32))
    coupling[:, :16] = rng.uniform(-0.3, 0.3, (128, 16))
    values = np.block([[first, coupling.T], [coupling, A]])
    n = len(values)
    stored = sp.csr_array((values.ravel(), np.tile(np.arange(n), n), n * np.arange(n + 1)), shape=(n, n))
    G = check(stored, **NATURAL)
    progress = to_numpy(G._core.native._progress).reshape(-1, fronts_cuda.PROGRESS)
    assert (progress[:, 2].tolist(), progress[:, 5].tolist()) == ([32], [128]) and G.report.facts["pairs"] == 80


def dense(n):
    A = np.random.default_rng(3).standard_normal((n, n))
    A += A.T
    A[np.arange(n), np.arange(n)] = 0
    return sp.csr_array(A)


@pytest.mark.parametrize("n", [72, 150])
def test_fronts_of_several_panels(gpu, n):
    """In shared memory and by tiles: columns are delayed within the front, and rows of earlier panels are exchanged."""
    G = check(dense(n))
    assert (np.diff(G.perm.astype(int)) != 1).sum() > n / 2 and G.report.facts["pairs"] >= 5


def test_panels_that_shared_memory_does_not_hold(monkeypatch):
    with device.use(Harness(shared_limit=16 << 10)):
        go(monkeypatch, "tiles")
        check(dense(150))


@pytest.mark.slow
@pytest.mark.parametrize("way", ["shared memory", "tiles", "libraries"])
def test_consistent_singular_systems_are_solved(gpu, monkeypatch, way):
    go(monkeypatch, way)
    G = check(rank_deficient())
    assert G.inertia == (20, 10, 3) and G.structural_rank == 33
    assert check(ms.datasets.grid2d(9, 9)).inertia == (80, 0, 1)
    A = sp.csr_array(sp.block_diag([ZOO["kkt"], sp.csr_array((3, 3)), ZOO["stokes"]]))
    check(A)
    G = check(dependent(300, 30, 0))
    assert G.inertia == (300, 30, 15) and G._core.native.is_strict
    assert not ms.ildl(ZOO["kkt"], fill_level=None, device="cuda")._core.native.is_strict


@pytest.mark.slow
@settings(max_examples=25)
@given(n=st.integers(1, 60), density=st.floats(0.02, 0.5), seed=st.integers(0, 999),
       diagonal=st.sampled_from([0.0, 0.3, 1.0]), way=st.sampled_from(sorted(WAYS)), pairs=st.booleans())
def test_any_matrix(n, density, seed, diagonal, way, pairs):
    A = symmetric(n, density, seed, diagonal)
    if A.count_nonzero() == 0:
        return
    with device.use(Harness()), pytest.MonkeyPatch.context() as patch:
        go(patch, way)
        K, G = (ms.ildl(A, fill_level=None, device=place, pairs=pairs, ordering="nd") for place in ("cpu", "cuda"))
        assert G.inertia == K.inertia and np.array_equal(G.perm, K.perm)
        assert G.report.facts["delayed"] == K.report.facts["delayed"]
        b = A @ np.ones(n)
        assert np.linalg.norm(A @ G.solve(b) - b) <= 1e-8 * max(np.linalg.norm(b), 1e-300)


@pytest.mark.sanitize
def test_the_order_of_threads_changes_no_bit(varied):
    check(ms.datasets.kkt(12, 5, seed=1))
    check(climbing(2, 3), **NATURAL)


@pytest.mark.sanitize
@pytest.mark.parametrize("seed", [0, 5])
def test_the_order_of_threads_in_tiles_changes_no_bit(monkeypatch, seed):
    with device.use(Harness(seed=seed, resident=3)):
        go(monkeypatch, "tiles")
        A = climbing(3, 2)
        G = ms.ildl(A, fill_level=None, device="cuda", **NATURAL)
        assert abs(A @ G.solve(np.ones(12)) - 1).max() <= 1e-12 and G.report.facts["delayed"] > 0


@pytest.mark.races
@pytest.mark.parametrize("block", [32, 96])
def test_roots_that_follow_each_other(monkeypatch, block):
    """Fronts of different sizes in the same memory of a warp, and one with several panels."""
    with device.use(Harness(seed=1, block=block)):
        go(monkeypatch, "shared memory")
        check(sp.csr_array(sp.block_diag([sign * (9 * np.eye(m) + 1) for m, sign in ((3, 1), (5, -1), (4, 1), (40, -1))])))


@pytest.mark.slow
def test_single_precision(gpu, monkeypatch):
    for way in ("shared memory", "all four"):
        go(monkeypatch, way)
        A = ms.datasets.stokes(8)
        G = ms.ildl(A, fill_level=None, dtype=np.float32, device="cuda")
        assert G._core.native._panels.dtype == np.float32 and G.inertia == ms.ildl(A, fill_level=None).inertia
        b = np.random.default_rng(0).standard_normal(A.shape[0])
        x, info = ms.sqmr(A, b, M=G, rtol=1e-10)
        assert info.converged and 1 < info.iterations < 12 and np.linalg.norm(A @ x - b) <= 1e-10 * np.linalg.norm(b)


@pytest.mark.parametrize("size", [1e-90, 1e90])
def test_single_precision_at_any_scale_of_a_and_b(gpu, size):
    A, b = np.array([[2.0, 1.0], [1.0, -1.0]]), np.array([[3.0, 3e-150], [0.0, 0.0]])
    x = ms.ildl(A * size, fill_level=None, dtype=np.float32, device="cuda").solve(b)
    assert np.allclose(x * size, [[1.0, 1e-150], [1.0, 1e-150]], rtol=1e-6, atol=0)


# ---- new values, errors -----------------------------------------------------------------------------------------------------


def test_refactor(gpu):
    G = ms.ildl(KKT, fill_level=None, ordering="nd", device="cuda")
    b = np.ones(500)
    first, other = G.solve(b), KKT.copy()
    other.data = KKT.data * np.random.default_rng(0).uniform(0.1, 3, KKT.nnz)
    other = sp.csr_array(other + other.T)
    x = G.refactor(other).solve(b)
    assert np.linalg.norm(other @ x - b) <= 1e-8 * np.linalg.norm(x)
    same(ms.ildl(KKT, fill_level=None, ordering="nd").refactor(other), G, other)
    assert np.array_equal(G.refactor(KKT).solve(b), first)
    with pytest.raises(ms.PatternMismatchError):
        G.refactor(sp.csr_array(np.ones((500, 500))))
    assert np.array_equal(G.solve(b), first)


def test_columns_delayed_in_one_factorization_alone(gpu):
    """Fronts return to the positions of the analysis."""
    A = climbing()
    regular_ = sp.csr_array(A + 100 * sp.eye_array(80) + 0 * sp.eye_array(80))
    G = ms.ildl(regular_, fill_level=None, device="cuda", **NATURAL)
    assert G.report.facts["delayed"] == 0
    before = G.L
    hard = regular_.copy()
    hard.setdiag(0.0)
    G.refactor(hard)
    assert G.report.facts["delayed"] >= 40 and abs(hard @ G.solve(np.ones(80)) - 1).max() <= 1e-11
    G.refactor(regular_)
    assert G.report.facts["delayed"] == 0 and np.array_equal(G.L.data, before.data)


@pytest.mark.parametrize("way", ["shared memory", "tiles"])
def test_values_that_are_not_finite_keep_the_earlier_factor(gpu, monkeypatch, way):
    go(monkeypatch, way)
    A = ZOO["positive definite"]
    G = ms.ildl(A, fill_level=None, device="cuda")
    x = G.solve(np.ones(81))
    with pytest.raises(ms.SingularMatrixError, match="overflowed"):
        G._core.factor(np.full(A.nnz, np.nan), G.scale)
    assert np.array_equal(G.solve(np.ones(81)), x) and G.inertia == (81, 0, 0)


@pytest.mark.parametrize("way", ["shared memory", "blocks only", "tiles"])
def test_a_column_that_is_not_finite_is_no_zero_pivot(gpu, monkeypatch, way):
    go(monkeypatch, way)
    A, cases = spoiled()
    G = ms.ildl(A + sp.eye_array(A.shape[0]), fill_level=None, device="cuda", **NATURAL)
    x = G.solve(np.ones(A.shape[0]))
    for row, values in cases:
        with pytest.raises(ms.SingularMatrixError, match=f"overflowed in row {row}") as raised:
            G._core.factor(values, G.scale)
        assert raised.value.index == row
    assert np.array_equal(G.solve(np.ones(A.shape[0])), x)


@pytest.mark.parametrize("way", ["shared memory", "tiles"])
def test_overflow_names_a_column_of_its_own_front(gpu, monkeypatch, way):
    """Not a column of an ancestor."""
    go(monkeypatch, way)
    A = sp.csr_array(ms.datasets.grid2d(11, 9) + sp.eye_array(99))
    K, G = (ms.ildl(A, fill_level=None, ordering="amd", pairs=False, device=place) for place in ("cpu", "cuda"))
    for row in (G.perm[0], G.perm[30]):
        values = A.copy()
        values[row, row] = np.nan
        named = set()
        for F in (K, G):
            with pytest.raises(ms.SingularMatrixError, match="overflowed") as raised:
                F._core.factor(values.data, F.scale)
            named.add(raised.value.index)
        assert named == {row}


def test_the_earlier_factor_survives_a_gpu_without_memory(path, monkeypatch):
    A = climbing()
    regular_ = sp.csr_array(A + 100 * sp.eye_array(80))
    G = ms.ildl(regular_, fill_level=None, device="cuda", **NATURAL)
    x = G.solve(np.ones(80))
    hard = regular_.copy()
    hard.setdiag(0.0)

    def none_left(array, need):
        raise MemoryError("none left")

    with monkeypatch.context() as patch:
        patch.setattr(fronts_cuda, "_grown", none_left)
        with pytest.raises(ms.OutOfMemoryError, match="the complete factor"):
            G.refactor(hard)
    assert np.array_equal(G.solve(np.ones(80)), x) and np.array_equal(G.refactor(regular_).solve(np.ones(80)), x)


# ---- solves, interface -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["shared memory", "all four", "libraries"])
def test_any_number_of_right_hand_sides(gpu, monkeypatch, way):
    go(monkeypatch, way)
    G = ms.ildl(climbing(), fill_level=None, device="cuda", **NATURAL)
    b = np.random.default_rng(0).standard_normal((80, 11))
    for k in (0, 1, 2, 3, 4, 5, 8, 9, 11):
        for columns in (b[:, :k], np.asfortranarray(b[:, :k])):
            x = G.solve(columns)
            assert x.shape == (80, k) and abs(climbing() @ x - columns).max(initial=0) <= 1e-11


def test_results_stay_on_the_gpu(gpu, monkeypatch):
    go(monkeypatch, "all four")
    G = ms.ildl(KKT, fill_level=None, device="cuda")
    b = KKT @ np.arange(500.0)
    x = G.solve(b)
    with nothing_copied_to_host(monkeypatch, most=3):                # sizes of r, x and b
        y = G @ to_cuda(b)
    assert device.holds(y) and np.array_equal(to_numpy(y), x)
    z, info = ms.sqmr(KKT, b, M=G)
    assert info.converged and np.linalg.norm(KKT @ z - b) <= 1e-8 * np.linalg.norm(b)


def test_one_read_without_delayed_columns(monkeypatch):
    from kernel_harness.strict import Strict

    with device.use(Strict()) as strict:
        G = ms.ildl(ZOO["helmholtz"], fill_level=None, device="cuda")
        strict.comes_back.clear()
        G._core.native.factor(G._core.native._data)
        assert G.report.facts["delayed"] == 0 and strict.comes_back == [9]             # flags and counts of pivots
        D = ms.ildl(climbing(), fill_level=None, device="cuda", **NATURAL)
        strict.comes_back.clear()
        D._core.native.factor(D._core.native._data)                                     # delays are expected
        assert D.report.facts["delayed"] > 0 and sorted(strict.comes_back)[-1] == 9
        assert strict.comes_back.count(3) >= D.report.facts["levels"]


def test_pickle(path):
    G = ms.ildl(climbing(), fill_level=None, device="cuda", **NATURAL)
    copy = pickle.loads(pickle.dumps(G))
    b = np.ones(80)
    assert copy.on_device and copy.is_complete and np.array_equal(copy.solve(b), G.solve(b)) and copy.inertia == G.inertia


def test_the_chosen_engine(path, monkeypatch):
    """The matrix alone decides whether the factor is complete. A complete one is computed on the GPU only for device="cuda"."""
    for made in ({}, {"fill_level": None}):
        G = ms.ildl(KKT, device="cuda", **made)
        assert G.is_complete and G.on_device and G.report.facts["device"] == "cuda" and G.report.facts["mode"] == "complete"
    monkeypatch.setattr(device, "AUTO_SIZE", 1)
    for made in ({}, {"fill_level": None}):
        K = ms.ildl(KKT, **made)
        assert K.is_complete and not K.on_device
    for name in ("FEW_NONZEROS", "FEW_FLOPS", "FLOPS_PER_ENTRY"):
        monkeypatch.setattr(ildl, name, 0)
    for place in ("cpu", "cuda"):
        assert not ms.ildl(KKT, device=place).is_complete and ms.ildl(KKT, device=place, fill_level=None).is_complete


def test_the_error_without_a_gpu():
    if device.available():
        pytest.skip("there is one")
    with pytest.raises(ms.DeviceUnavailableError):
        ms.ildl(KKT, fill_level=None, device="cuda")


def test_real_systems(path, data_dir):
    from scipy.io import mmread

    A = sp.csr_array(mmread(data_dir / "indefinite" / "hangGlider_2.mtx", spmatrix=False)).astype(float)
    G = ms.ildl(A, fill_level=None, device="cuda")
    assert G.inertia == (914, 733, 0) and G.structural_rank == 1647
    b = A @ np.random.default_rng(0).standard_normal(A.shape[0])
    K = ms.ildl(A, fill_level=None)
    assert np.linalg.norm(A @ G.solve(b) - b) <= 1e-14 * np.linalg.norm(b) + 10 * np.linalg.norm(A @ K.solve(b) - b)
