"""ParAC's persistent kernel for given orders compared with the CPU: the same factor bit for bit, with any workspace and schedule."""

import hubs
import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from test_parac import laplacian, random_graph
from test_parac_cuda import SHAPES, check, cotan_like

import meshsolve as ms
from meshsolve import _core, device
from meshsolve.factor.parac import cuda, ordered_cuda
from meshsolve.sparse.matrix import as_symmetric


@pytest.fixture
def harness():
    with device.use(Harness(block=64)) as harness:
        yield harness


@pytest.mark.parametrize("ordering", ["amd", "nnz_sort", "nd", "natural", "random"])
@pytest.mark.parametrize("name", ["components", "grid", "hubs", "contrast"])
@pytest.mark.filterwarnings("ignore:a random order")
def test_given_orders_give_the_factor_of_the_cpu(cuda, name, ordering):
    check(SHAPES[name], ordering, samples=2, seed=5)
    assert cuda is None or cuda.launches["k_ordered"] >= 1 and "k_rounds" not in cuda.launches


@pytest.mark.parametrize("name", SHAPES)
@each("samples", [1, 3])
def test_every_shape(cuda, name, samples):
    check(SHAPES[name], "nnz_sort", samples=samples, seed=9)


def hub(leaves, seed):
    weights = np.random.default_rng(seed).random(leaves) + 0.1
    return laplacian(leaves + 1, np.zeros(leaves, int), np.arange(1, leaves + 1), weights)


HUB_FIRST = sp.csr_array(sp.block_diag([hub(700, k) for k in range(4)]))        # more edges than fit into shared memory


@pytest.mark.sanitize
def test_the_order_of_threads_changes_no_bit(varied, monkeypatch):
    """Warps work independently; hubs take whole thread blocks, in shared memory or, for small blocks, in one slab."""
    monkeypatch.setattr(ordered_cuda, "SLABS", 1)
    monkeypatch.setattr(ordered_cuda, "BLOCKS_EACH", 1)
    check(sp.csr_array(sp.block_diag([random_graph(40, 60, 3, grounded=True), *(hub(66, k) for k in range(3))])), "natural")


@pytest.mark.races
def test_warps_go_on_after_a_pivot_of_the_thread_block():
    """With pivots of many edges, whose scratch lies in the memory of the pivot of the thread block."""
    i, j = np.triu_indices(60, 1)
    cliques = [laplacian(60, i, j, np.random.default_rng(k).random(len(i)) + 0.1) for k in range(3)]
    with device.use(Harness(seed=2, block=96)):
        check(sp.csr_array(sp.block_diag([*(hub(100, k) for k in range(3)), *cliques])), "natural")


@settings(max_examples=25)
@given(n=st.integers(1, 60), per_vertex=st.floats(0, 4), seed=st.integers(0, 999), samples=st.integers(1, 3),
       grounded=st.booleans(), blocks=st.integers(1, 3))
def test_any_graph(n, per_vertex, seed, samples, grounded, blocks):
    order = np.random.default_rng(seed).permutation(n)
    with device.use(Harness(block=64, resident=blocks)):
        check(random_graph(n, int(per_vertex * n), seed, grounded=grounded), order, samples=samples, seed=seed)


@pytest.mark.parametrize("make", [hubs.bipartite(2), hubs.bipartite(5), hubs.double_fan, hubs.twenty_hubs, hubs.friendship])
@pytest.mark.parametrize("ordering", ["natural", "nnz_sort"])
def test_samples_of_several_dense_rows(cuda, make, ordering):
    """The samples are spread over the table, and each is found by its number."""
    check(make(300), ordering, samples=2, seed=3)


def test_negative_weights(cuda):
    with pytest.warns(ms.errors.MeshsolveWarning, match="positive"):
        check(cotan_like(12), "amd")


def test_underflowed_samples_are_counted(cuda):
    """Half of the smallest positive number underflows to 0."""
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(30, 1)
    L = ms.datasets.common.laplacian(30, i, j, rng.choice([5e-324, 1.0, 2.0], len(i)))
    P, Q = (ms.parac(L, "natural", samples=2, device=place) for place in ("cpu", "cuda"))
    assert np.array_equal(P.G.data, Q.G.data) and P._core.lost == Q._core._columns.lost > 0


@pytest.mark.parametrize("natural", [True, False])
@pytest.mark.parametrize("name", ["components", "clique", "grounded", "hubs"])
def test_the_queue_and_the_rounds_give_the_same_columns(cuda, name, natural):
    """Levels as well: the vertices of the n-th round are the n-th level of the queue."""
    M = as_symmetric(SHAPES[name])
    perm = np.arange(M.n) if natural else np.random.default_rng(3).permutation(M.n)
    perm, graph = perm.astype(np.int32), _core.ParacGraph(M.indptr, M.indices, M.data)
    a, b = (kind.factor(graph, perm, 2, 7, np.dtype(float)) for kind in (cuda_rounds, ordered_cuda))
    assert a.rounds == b.rounds and a.lost == b.lost
    for name in ("ptr", "rows", "values", "D", "perm", "round"):
        assert np.array_equal(device.to_host(getattr(a, name)), device.to_host(getattr(b, name))), name


cuda_rounds = cuda                                          # in a test, the fixture of that name shadows the module


# ---- workspace and launches ---------------------------------------------------------------------------------------------


def note_halts(monkeypatch):
    """Record the halts that the kernel reports to the driver."""
    met, original = [], ordered_cuda._Ordered._grow

    def grow(self, state):
        met.append(int(state[0]))
        return original(self, state)
    monkeypatch.setattr(ordered_cuda._Ordered, "_grow", grow)
    return met


def test_a_full_workspace_grows(harness, monkeypatch):
    """With initial capacity for one entry, one sample and two edges, all three overflow repeatedly, and no sample is lost."""
    met = note_halts(monkeypatch)

    def nothing(self, *_):
        self._make_columns(1)
        self._make_table(1)
        self._make_slabs(2)
    monkeypatch.setattr(ordered_cuda._Ordered, "_allocate", nothing)
    check(SHAPES["contrast"], "amd", samples=2)
    check(HUB_FIRST, "natural", samples=2)
    for halt in (ordered_cuda.COLUMNS_FULL, ordered_cuda.TABLE_FULL, ordered_cuda.SCRATCH_SMALL):
        assert any(state & halt for state in met), halt
    assert sum(state & ordered_cuda.COLUMNS_FULL > 0 for state in met) > 4


@pytest.mark.parametrize("capacity", [1, 23, 4000])
def test_the_hash_table_is_empty_at_the_end(harness, monkeypatch, capacity):
    """All slots are free at the end, also if searches wrapped around a small table."""
    collected, collect = [], ordered_cuda._Ordered._collect

    def small(self, nnz, _):
        self._make_columns(4 * nnz)
        self._make_table(capacity)
        self._make_slabs(1024)
    monkeypatch.setattr(ordered_cuda._Ordered, "_allocate", small)
    monkeypatch.setattr(ordered_cuda._Ordered, "_collect", lambda self, *a: (collected.append(self), collect(self, *a))[1])
    for name in ("contrast", "clique"):
        Q = check(SHAPES[name], "natural", samples=2)
        factor = collected.pop()
        assert (factor.table == ordered_cuda.VACANT).all() and factor.state[ordered_cuda.TABLE] == 0
        assert factor.state[ordered_cuda.COLUMNS] == Q.nnz - Q.shape[0] and factor.fills.sum() > 0


@pytest.mark.parametrize("share", [1, 40])
def test_the_host_checks_between_launches(harness, monkeypatch, share):
    monkeypatch.setattr(ordered_cuda, "SHARE", share)
    check(SHAPES["clique"], "amd")
    assert harness.launches["k_ordered"] >= (20 if share == 1 else 2)


@pytest.mark.slow
@pytest.mark.parametrize("resident", [1, 3])
def test_progress_needs_no_more_blocks_than_run(resident, monkeypatch):
    """60 blocks of one warp, of which one or three run at a time. The others start when all work is done.

    Hubs take whole thread blocks, which share one slab."""
    monkeypatch.setattr(ordered_cuda, "SLABS", 1)
    monkeypatch.setattr(ordered_cuda, "BLOCKS_EACH", 20)
    for block in (32, 128):
        with device.use(Harness(block=block, resident=resident)):
            check(HUB_FIRST, "natural")
            check(SHAPES["grid"], "amd")


@pytest.mark.parametrize("name", ["grid", "clique"])
def test_a_stall_is_reported(harness, monkeypatch, name):
    """A vertex that waits for an entry that does not exist: the kernel eliminates the other vertices and reports a stall."""
    original = ordered_cuda._Ordered.__init__

    def spoiled(self, *args):
        original(self, *args)
        self.waits[len(self.waits) // 2] += 1
    monkeypatch.setattr(ordered_cuda._Ordered, "__init__", spoiled)
    monkeypatch.setattr(ordered_cuda, "MOST_POLLS", 300)
    with pytest.raises(ms.errors.DeviceUnavailableError, match="vertices are left and none can be eliminated"):
        ms.parac(SHAPES[name], "amd", device="cuda")


def test_the_longest_pivot_is_no_stall(harness, monkeypatch):
    """One pivot may have all samples of the table: one thread block works, and all others only poll."""
    launch, met = device.launch, []

    def noted(kernel, grid, block, shared, args):
        if kernel.name == "k_ordered":
            met.append((int(args[5]), len(args[18])))
        launch(kernel, grid, block, shared, args)
    monkeypatch.setattr(device, "launch", noted)
    two_hubs = np.repeat([0, 1], 300), np.tile(np.arange(2, 302), 2)
    check(laplacian(302, *two_hubs, np.ones(600)), np.arange(302)[::-1].copy(), samples=2)
    assert met and all(patience >= 4_000_000 + 4 * table and table > 600 for patience, table in met)


def test_a_stall_reported_during_the_last_pivot_is_ignored(harness, monkeypatch):
    launch = device.launch

    def spoiled(kernel, grid, block, shared, args):
        launch(kernel, grid, block, shared, args)
        if kernel.name == "k_ordered":
            args[6][0] |= np.uint64(ordered_cuda.STALLED)
    monkeypatch.setattr(device, "launch", spoiled)
    check(SHAPES["grid"], "amd")


@pytest.mark.parametrize("spoil", ["fills", "waits"])
def test_impossible_states_are_reported_as_stalls(harness, monkeypatch, spoil):
    """A sample missing from the table ends its search. Without a ready vertex the factorization ends at once."""
    original = ordered_cuda._Ordered.__init__

    def spoiled(self, *args):
        original(self, *args)
        getattr(self, spoil)[:] += 1
    monkeypatch.setattr(ordered_cuda._Ordered, "__init__", spoiled)
    with pytest.raises(ms.errors.DeviceUnavailableError, match="stalled"):
        ms.parac(SHAPES["grid"], "amd", device="cuda")


def test_a_table_beyond_its_numbers_is_refused(harness):
    factor = object.__new__(ordered_cuda._Ordered)
    with pytest.raises(ms.errors.OutOfMemoryError, match="too large"):
        factor._make_table(2**32)
