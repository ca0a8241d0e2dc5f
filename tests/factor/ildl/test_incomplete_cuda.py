"""The incomplete factor of the GPU is bit for bit that of the CPU; on the kernel harness, and on a GPU with -m gpu."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from saddles import regular, symmetric

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.ildl import cuda, inverse_cuda

REGULAR = regular()
FACTS = ("tiles", "levels", "blocks", "stored", "pairs", "perturbed", "dropped", "nnz_L")
KKT = ms.datasets.kkt(350, 150, seed=2)


def check(A, **options):
    """Compare the factors of both devices and their solves; return that of the GPU."""
    tiles = "subtree" if options.get("tile_size", 2) > 2 else "none"
    K, G = (ms.ildl(A, device=place, **{"fill_level": 2, "blocking": tiles} | options) for place in ("cpu", "cuda"))
    same(K, G)
    growth = max(1e8 if K.report.facts["perturbed"] else 1, abs(K.L.data).max())        # small pivots amplify rounding
    for shape in ((), (3,)):
        b = np.random.default_rng(0).standard_normal((A.shape[0], *shape))
        x, y = K @ b, G @ b
        assert y.shape == b.shape and abs(x - y).max() <= 1e-12 * growth * abs(x).max()
    return G


def same(K, G):
    assert G.on_device and not K.on_device and not G.is_complete and G.storage == K.storage
    assert np.array_equal(K.perm, G.perm) and np.array_equal(K.scale, G.scale)
    assert all(np.array_equal(getattr(K.L, part), getattr(G.L, part)) for part in ("indptr", "indices", "data"))
    assert np.array_equal(K.D.toarray(), G.D.toarray()) and K.inertia == G.inertia and K.nnz == G.nnz
    assert [K.report.facts[name] for name in FACTS] == [G.report.facts[name] for name in FACTS]


@pytest.mark.slow
@pytest.mark.parametrize("pivoting", ["static", "bunch-kaufman", "rook"])
@pytest.mark.parametrize("tile_size, blocking", [(2, "none"), (7, "RB"), (32, "subtree"), (32, "RB"), (32, "BR")])
@pytest.mark.parametrize("name", REGULAR)
def test_the_factor_of_the_cpu(cuda_path, name, tile_size, blocking, pivoting):
    check(REGULAR[name], tile_size=tile_size, blocking=blocking, pivoting=pivoting)


@pytest.mark.races
def test_on_any_device(cuda):
    check(KKT)
    check(KKT, tile_size=32, fill_level=1)


@pytest.mark.parametrize("droptol", [0.0, 1e-1])
@pytest.mark.parametrize("fill_level", [0, 5])
def test_levels_and_dropping(cuda_path, fill_level, droptol):
    check(KKT, fill_level=fill_level, droptol=droptol, tile_size=8)


@pytest.mark.races
@pytest.mark.parametrize("max_fill", [0.05, 0.3, 0.6, 1e300, None])
@pytest.mark.parametrize("tile_size", [2, 16])
def test_budgets_are_passed_on_as_on_the_cpu(cuda_path, tile_size, max_fill):
    """Depths with more rows than a thread block has threads. Rows lose all, some, or none of their columns."""
    G = check(KKT, fill_level=6, droptol=1e-6, tile_size=tile_size, max_fill=max_fill)
    free = ms.ildl(KKT, fill_level=6, droptol=1e-6, tile_size=tile_size, max_fill=None)
    assert G.nnz < free.nnz if max_fill and max_fill < 0.5 else G.nnz <= free.nnz


def test_equal_columns_at_the_edge_of_a_budget(cuda_path):
    """A matrix of ones: column numbers decide which of the equal entries are kept."""
    A = sp.csr_array(np.ones((40, 40)) + 50 * np.eye(40))
    for max_fill in (0.1, 0.45):
        check(A, fill_level=40, droptol=0.0, max_fill=max_fill, tile_size=4)


@pytest.mark.slow
def test_long_rows(cuda_path, monkeypatch):
    """More tiles in a row than shared memory holds, and a row longer than a thread block."""
    n = 150
    arrow = sp.lil_array((n, n))
    arrow.setdiag(np.where(np.arange(n) % 3, 2.0, -1.0))
    arrow[-1, :] = arrow[:, -1] = arrow[0, :] = arrow[:, 0] = 1.0
    A = sp.csr_array(arrow)
    check(A, ordering="natural", pairs=False)
    monkeypatch.setattr(cuda, "WORDS_MOST", 1)
    check(A, ordering="natural", pairs=False, fill_level=1)
    check(KKT, tile_size=8)


@settings(max_examples=25)
@given(n=st.integers(1, 70), density=st.floats(0, 0.2), seed=st.integers(0, 999), tile_size=st.integers(2, 32),
       fill_level=st.integers(0, 4), droptol=st.sampled_from([0.0, 1e-3, 0.1]), max_fill=st.sampled_from([0.2, 1.0, 8.0]),
       diagonal=st.sampled_from([0.0, 0.5, 1.0]))
def test_any_matrix(n, density, seed, tile_size, fill_level, droptol, max_fill, diagonal):
    A = symmetric(n, density, seed, diagonal)
    if A.nnz and A.data.any():
        with device.use(Harness(block=64)):
            check(A, tile_size=tile_size, fill_level=fill_level, droptol=droptol, max_fill=max_fill)


@pytest.mark.sanitize
def test_the_order_of_thread_blocks_changes_no_bit(varied, monkeypatch):
    if varied.block:                                        # sweeps by several thread blocks of this size
        monkeypatch.setattr(inverse_cuda, "BLOCK", 1)
    A = ms.datasets.kkt(24, 9, seed=1)
    check(sp.csr_array(sp.block_diag([A, *(ms.datasets.kkt(8, 3, seed=k) for k in range(10))])), tile_size=8, max_fill=0.8)
    check(A, tile_size=8, max_fill=None)                    # rows wait for each other by their own flags
    G = check(A, tile_size=8, max_fill=0.8)
    assert G._core._numeric.inverse.schedule.runs > 1 or not varied.block
    b = np.random.default_rng(1).standard_normal(33)
    assert np.array_equal(G @ b, G @ b)


def test_refactor(cuda):
    G = ms.ildl(KKT, fill_level=2, device="cuda")
    before = G.L.data.copy()
    with pytest.raises(ms.errors.PatternMismatchError):
        G.refactor(KKT + sp.eye_array(500, k=499) + sp.eye_array(500, k=-499))
    G.refactor(KKT * 3.0)
    K = ms.ildl(KKT, fill_level=2)
    K.refactor(KKT * 3.0)
    same(K, G)
    G.refactor(KKT)
    assert np.array_equal(G.L.data, before)


def test_single_precision(cuda):
    G = check(KKT, dtype=np.float32)
    assert G._core._numeric.inverse._own.dtype == np.float32
    check(KKT, dtype=np.float32, tile_size=32, fill_level=1)


# ---- workspace, schedules ---------------------------------------------------------------------------------------------------


@pytest.fixture
def cuda_path():
    with device.use(Harness(block=64)) as harness:
        yield harness


def test_full_pools_grow(cuda_path, monkeypatch):
    """With very small initial sizes, names, values and workspace overflow at several depths."""
    met = []

    def little(self):
        if self._names is None:
            self._empty_names(8, 200)
            self._work = device.xp().empty(64)

    original = cuda.Rows._go_on

    def go_on(self, state, *others):
        before = sizes(self)
        again = original(self, state, *others)
        met.append(sizes(self) > before)
        return again

    def sizes(rows):
        return np.array([len(rows._names[0]), len(rows._names[2]), len(rows._work)])

    monkeypatch.setattr(cuda.Rows, "_allocate", little)
    monkeypatch.setattr(cuda.Rows, "_go_on", go_on)
    for options in ({"tile_size": 2}, {"tile_size": 16, "max_fill": 0.5}):
        met.clear()
        check(KKT, **options)
        assert np.any(met, axis=0).all() and np.any(met, axis=1).all()


def test_no_trace_of_an_out_of_memory_error(cuda_path, monkeypatch):
    G, xp = ms.ildl(KKT, fill_level=2, device="cuda"), device.xp()
    rows, empty = G._core._rows, xp.empty
    rows._work, asked = xp.empty(64), []

    def starved(shape, *args, **options):
        if shape == max(asked, default=None):
            raise MemoryError("no more")
        return empty(shape, *args, **options)

    grown = cuda._grown
    monkeypatch.setattr(cuda, "_grown", lambda *sizes: asked.append(grown(*sizes)) or asked[-1])
    with monkeypatch.context() as patch:
        patch.setattr(xp, "empty", starved)
        with pytest.raises(ms.errors.OutOfMemoryError):
            G.refactor(KKT * 2.0)
    G.refactor(KKT * 3.0)
    K = ms.ildl(KKT, fill_level=2)
    K.refactor(KKT * 3.0)
    same(K, G)


def test_too_many_tiles_are_refused(cuda_path, monkeypatch):
    monkeypatch.setattr(cuda, "MOST_TILES", 9)
    with pytest.raises(ms.InvalidInputError, match="tiles, but kernels number at most 9"):
        ms.ildl(KKT, fill_level=1, device="cuda")


@pytest.mark.sanitize
def test_rows_without_columns():
    with device.use(Harness(seed=2, block=64, resident=3)):
        check(sp.csr_array(sp.diags_array(np.resize([2.0, -1.0, 3.0], 40))), tile_size=5, fill_level=1)


def test_a_refactorization_reuses_the_workspace(cuda_path, monkeypatch):
    G = ms.ildl(KKT, fill_level=2, device="cuda")
    monkeypatch.setattr(cuda.Rows, "_go_on", None)
    G.refactor(KKT * 2.0)


@pytest.mark.parametrize("together", [1, 32, 2048])
def test_any_schedule_of_the_sweeps(cuda_path, monkeypatch, together):
    """Each depth by itself, some depths in runs, or all in one run of a single thread block."""
    monkeypatch.setattr(inverse_cuda, "BLOCK", together)
    G = check(ms.datasets.kkt(350, 150, seed=1))
    runs = G._core._numeric.inverse.schedule.runs
    assert runs == 1 if together == 2048 else 1 < runs < G.report.facts["levels"]


def with_dense_rows(n, *lengths):
    """An indefinite path whose last rows have entries in the given numbers of first columns."""
    A = sp.lil_array(sp.diags_array([np.where(np.arange(n) % 3, 4.0, -4.0), np.ones(n - 1), np.ones(n - 1)], offsets=[0, -1, 1]))
    for row, length in enumerate(lengths, n - len(lengths)):
        A[row, :length] = A[:length, row] = np.linspace(0.1, 1, length)
    return sp.csr_array(A)


@pytest.mark.parametrize("n, lengths, threads", [
    (300, (), 1), (300, (60,), 2), pytest.param(600, (500, 90), 16, marks=pytest.mark.slow),
    pytest.param(2500, (2400, 300, 200), 32, marks=pytest.mark.slow)])
def test_long_rows_get_more_threads(cuda_path, n, lengths, threads):
    """Groups of threads fit the rows of their depth: up to a warp, and a thread block from 1024 entries on."""
    G = check(with_dense_rows(n, *lengths), ordering="natural", pairs=False, fill_level=0, droptol=0.0)
    lanes = G._core._numeric.inverse._lanes_by_row
    assert lanes.max() == threads and lanes[:-4].max() == G._core._numeric.inverse.schedule.lanes < max(threads, 2)


@pytest.mark.races
def test_sums_of_long_rows_have_one_order():
    A = with_dense_rows(1040, 1030)
    with device.use(Harness(seed=1, block=64, resident=3)):
        G = check(A, ordering="natural", pairs=False, fill_level=0, droptol=0.0)
        b = np.random.default_rng(1).standard_normal((1040, 2))
        assert np.array_equal((G @ b)[:, 1], G @ np.ascontiguousarray(b[:, 1]))


def test_a_stall_is_reported_and_leaves_no_trace(cuda_path):
    G = ms.ildl(KKT, fill_level=2, device="cuda")
    b = np.ones(500)
    x = G @ b
    G._core._numeric.inverse._stalled[0] = 1
    with pytest.raises(ms.errors.DeviceUnavailableError, match="no progress"):
        G @ b
    assert np.array_equal(G @ b, x)


# ---- interface ---------------------------------------------------------------------------------------------------------------


def test_an_interrupt_between_the_sweeps_leaves_no_trace(cuda_path, monkeypatch):
    G, b = ms.ildl(KKT, fill_level=1, device="cuda"), np.ones(KKT.shape[0])
    x, sweep = G @ b, inverse_cuda.Inverse._sweep

    def interrupted(self, forward, *blocks):
        if not forward:
            raise KeyboardInterrupt
        sweep(self, forward, *blocks)

    with monkeypatch.context() as patch:
        patch.setattr(inverse_cuda.Inverse, "_sweep", interrupted)
        with pytest.raises(KeyboardInterrupt):
            G.solve(b)
    assert np.array_equal(G @ b, x)


def test_tiles_on_the_gpu_keep_subtrees_apart(cuda_path):
    A = ms.datasets.stokes(24)
    G, K = (ms.ildl(A, fill_level=1, tile_size=8, device=place) for place in ("cuda", "cpu"))
    same(ms.ildl(A, fill_level=1, tile_size=8, blocking="subtree"), G)
    assert G.report.facts["levels"] < 0.7 * K.report.facts["levels"] and G.report.facts["tiles"] < 2 * K.report.facts["tiles"]


def test_the_chosen_engine(cuda_path):
    G = ms.ildl(REGULAR["stokes"], fill_level=2, device="cuda")
    assert G.on_device and not G.is_complete and G.report.facts["fill_level"] == 2 and G.report.facts["device"] == "cuda"
    small = ms.ildl(REGULAR["stokes"], device="auto")
    assert small.is_complete and not small.on_device


def test_auto_takes_the_device_for_large_systems(cuda_path, monkeypatch):
    monkeypatch.setattr(device, "AUTO_SIZE", 500)
    assert ms.ildl(KKT, fill_level=1).on_device and not ms.ildl(KKT, fill_level=None).on_device
    assert not ms.ildl(REGULAR["kkt"], fill_level=1).on_device


def test_operator(cuda_path):
    G = ms.ildl(REGULAR["kkt"], fill_level=1, device="cuda")
    inverse = G @ np.eye(85)
    assert abs(inverse - inverse.T).max() <= 1e-9 * abs(inverse).max()
    b = np.random.default_rng(3).standard_normal(85)
    assert np.array_equal(G.T @ b, G @ b) and np.allclose(G @ (b + 2j * b), (G @ b) * (1 + 2j))
    out = np.empty(85)
    assert G.solve(b, out=out) is out and np.array_equal(out, G @ b)
    for bad in (np.ones(3), np.full(85, np.nan), "b"):
        with pytest.raises(ms.errors.InvalidInputError):
            G.solve(bad)


@pytest.mark.gpu
def test_results_stay_on_the_gpu():
    cupy = pytest.importorskip("cupy")
    import cupyx.scipy.sparse as csp

    G = ms.ildl(csp.csr_matrix(sp.csr_matrix(KKT)), fill_level=2, device="cuda")
    b = cupy.asarray(KKT @ np.arange(500.0))
    x, info = ms.sqmr(KKT, b, M=G)
    assert isinstance(G @ b, cupy.ndarray) and isinstance(x, cupy.ndarray) and info.converged


def test_the_error_without_a_gpu():
    if device.available():
        pytest.skip("there is one")
    with pytest.raises(ms.errors.DeviceUnavailableError):
        ms.ildl(KKT, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not ms.ildl(KKT, fill_level=1, device="auto").on_device
