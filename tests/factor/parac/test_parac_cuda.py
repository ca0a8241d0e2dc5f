"""ParAC on the GPU compared with the CPU: the same factor bit for bit; on the kernel harness, and on a GPU with -m gpu."""

import pathlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness, OnDevice
from on_device import Sparse, to_cuda, to_numpy
from scipy.sparse.linalg import LinearOperator
from test_parac import laplacian, random_graph

import meshsolve as ms
from meshsolve import _core, device
from meshsolve.factor.parac import cuda
from meshsolve.factor.parac.cuda import factor as factor_on_device
from meshsolve.factor.trisolve import cuda as trisolve

TEAM = pathlib.Path(__file__).resolve().parents[2] / "kernel_harness" / "planted" / "team.cu"


def check(L, ordering="rounds", **options):
    """Compare the factors of both devices; return that of the GPU."""
    P, Q = (ms.parac(L, ordering, device=place, **options) for place in ("cpu", "cuda"))
    assert Q.on_device and np.array_equal(P.perm, Q.perm) and np.array_equal(P.D, Q.D)
    assert P.nnz == Q.nnz and P.G.dtype == Q.G.dtype
    assert np.array_equal(P.G.indices, Q.G.indices) and np.array_equal(P.G.data, Q.G.data)
    assert P.null_components == Q.null_components and P.report.facts.get("rounds") == Q.report.facts.get("rounds")
    return Q


def star(n):
    return laplacian(n, np.zeros(n - 1, int), np.arange(1, n), np.linspace(1, 2, n - 1))


def clique(n):
    i, j = np.triu_indices(n, 1)
    return laplacian(n, i, j, np.random.default_rng(0).random(len(i)) + 0.1)


def path(n):
    return laplacian(n, np.arange(n - 1), np.arange(1, n), np.ones(n - 1))


def wheel(n):
    """Vertex 0 and its neighbors on a cycle. Each round eliminates some of these, and the row of vertex 0 grows."""
    rim = np.arange(1, n)
    return laplacian(n, np.append(0 * rim, rim), np.append(rim, np.roll(rim, 1)), np.linspace(1, 2, 2 * n - 2))


def cotan_like(n):
    """A grid with diagonals of negative weight, which the factor raises to the smallest weight."""
    L = ms.datasets.grid2d(n, n).tocsr()
    a = np.arange(n * (n - 1)).reshape(n - 1, n)[:, :-1].ravel()
    return sp.csr_array(L + laplacian(n * n, a, a + n + 1, np.full(len(a), -0.2)))


SHAPES = {
    "one vertex": sp.csr_array(np.zeros((1, 1))),
    "one grounded vertex": sp.csr_array(np.ones((1, 1))),
    "no edges": sp.csr_array((40, 40)),
    "star": star(900),                                      # a dense row, longer than a warp handles
    "clique": clique(90),                                   # pivots of more than 64 edges: a thread block each
    "light and heavy": sp.csr_array(sp.block_diag([clique(n) for n in (64, 65, 66, 67)])),      # more than 64 edges: a block
    "path": path(500),
    "grid": ms.datasets.grid3d(9),
    "grounded": ms.datasets.grid2d(30, 30, boundary="dirichlet"),
    "hubs": ms.datasets.rmat(8),
    "components": sp.csr_array(sp.block_diag([path(20), clique(12), random_graph(90, 60, 3), sp.csr_array((5, 5))])),
    "contrast": random_graph(700, 2000, 1, decades=8, grounded=True),
    "small grid": ms.datasets.grid3d(6),                    # for sanitizers, which take 100 times as long
    "small star": star(160),
    "small clique": clique(68),
}


@pytest.mark.parametrize("name", SHAPES)
@each("samples", [1, 3])
def test_the_rounds_give_the_factor_of_the_cpu(cuda, name, samples):
    check(SHAPES[name], samples=samples, seed=9)


def test_renumbered_vertices_are_those_of_the_cpu(cuda):
    shuffle = np.random.default_rng(0).permutation(900)
    L = sp.csr_array(SHAPES["grounded"])[shuffle][:, shuffle].tocsr()
    L.sort_indices()
    graphs = [_core.ParacGraph(L.indptr.astype(np.int64), L.indices.astype(np.int32), L.data) for _ in range(2)]
    for graph in graphs:
        graph.gather_neighbors(0)
    on_device = factor_on_device(graphs[0], None, 2, 5, np.dtype(np.float64))
    P = _core.ParacDouble(graphs[1], None, False, 2, 5, 1)
    assert np.array_equal(device.to_host(on_device.perm), P.perm()) and np.array_equal(device.to_host(on_device.D), P.pivots())


@pytest.mark.sanitize
@pytest.mark.parametrize("name", ["components", "small clique"])
def test_the_order_of_threads_changes_no_bit(varied, name):
    L = SHAPES[name]
    P = check(L, samples=2)
    b = L @ np.ones((L.shape[0], 2))
    assert np.array_equal(P @ b, P @ b)


@pytest.mark.sanitize
def test_the_last_thread_block_sees_the_choices_of_the_others(monkeypatch):
    """Rounds by two thread blocks, few threads because ThreadSanitizer is slow for each."""
    monkeypatch.setattr(cuda, "NARROW", 0)
    monkeypatch.setattr(cuda, "MOST_BLOCKS", 2)
    with device.use(Harness(seed=1, block=32)):
        check(path(300), samples=1)


@pytest.mark.slow
@settings(max_examples=25)
@given(n=st.integers(1, 60), per_vertex=st.floats(0, 4), seed=st.integers(0, 999), samples=st.integers(1, 3),
       grounded=st.booleans(), given_order=st.booleans())
def test_any_graph(n, per_vertex, seed, samples, grounded, given_order):
    order = np.random.default_rng(seed).permutation(n) if given_order else "rounds"
    with device.use(Harness(block=64)):
        check(random_graph(n, int(per_vertex * n), seed, grounded=grounded), order, samples=samples, seed=seed)


@pytest.mark.races
def test_values_of_a_first_thread_follow_each_other():
    given, found, harness = np.arange(7, 10, dtype=np.uint64), np.zeros(96 * 3, np.uint64), Harness(seed=1)
    harness.launch(harness.function(TEAM, "k_from_first"), (1,), (96,), 0, (given, found))
    assert np.array_equal(found, np.repeat(given, 96))


def test_negative_weights(cuda):
    with pytest.warns(ms.errors.MeshsolveWarning, match="positive"):
        check(cotan_like(12))


def test_underflowed_samples_are_counted_and_are_no_edges(cuda):
    """Half of the smallest positive number underflows to 0. An older sample in the same slot must not be used instead."""
    rng = np.random.default_rng(0)
    i, j = np.triu_indices(30, 1)
    for seed in range(3):
        L = laplacian(30, i, j, rng.choice([5e-324, 1.0, 2.0], len(i)))
        P, Q = (ms.parac(L, samples=2, seed=seed, device=place) for place in ("cpu", "cuda"))
        assert np.array_equal(P.G.data, Q.G.data) and np.array_equal(P.G.indices, Q.G.indices)
        assert P._core.lost == Q._core._columns.lost > 0


def test_float32(cuda):
    assert check(SHAPES["grid"], dtype=np.float32).G.dtype == np.float32


def test_rows_much_longer_than_a_warp(cuda):
    """A dense graph whose rows grow repeatedly, and whose heavy pivots need scratch memory."""
    check(random_graph(300, 9000, 2), samples=2)


@pytest.mark.parametrize("samples", [1, 2])
def test_rows_that_a_warp_does_not_copy_alone(cuda, samples):
    """A dense row copied by thread blocks: to longer storage, and in the next epoch."""
    check(wheel(7000), samples=samples)


def test_a_warp_fills_a_row(cuda_path, monkeypatch):
    """A warp, not one thread, copies a long row."""
    grids, launch = {}, device.launch
    monkeypatch.setattr(device, "launch", lambda kernel, grid, *rest: (grids.update({kernel.name: grid}), launch(kernel, grid, *rest)))
    check(star(900))
    assert grids["k_fill"] * cuda.BLOCK >= 32 * 900


# ---- workspace ----------------------------------------------------------------------------------------------------------


def test_a_full_workspace_grows(cuda_path, monkeypatch):
    """Without initial capacity every kind of halt occurs, in rounds of the grid and of one block."""
    met = []

    def nothing(self, nnz):
        xp = device.xp()
        self.column_row, self.column_value, self.scratch = xp.empty(1, xp.int32), xp.empty(1), xp.empty(0)
        self._allocate_samples(1)
        self.rows_capacity = int(self.start[-1])

    for name in ("_grow", "_next_epoch"):
        original = getattr(cuda._Rounds, name)
        monkeypatch.setattr(cuda._Rounds, name, lambda self, *a, f=original, n=name: (met.append(n), f(self, *a)))
    monkeypatch.setattr(cuda._Rounds, "_allocate", nothing)
    check(SHAPES["clique"], samples=2)
    check(SHAPES["contrast"], samples=2)
    assert met.count("_grow") > 4 and met.count("_next_epoch") > 4


@pytest.mark.slow
@pytest.mark.races
def test_a_row_of_thousands_of_entries_is_moved_by_a_thread_block():
    """The hub is not the first vertex, so other threads than the first list its row."""
    order = np.arange(4600)
    order[[0, 2000]] = 2000, 0
    L = sp.csr_array(wheel(4600)[order][:, order])
    L.sort_indices()
    with device.use(Harness(seed=2, block=96)):
        check(L, samples=1)


def test_rows_that_outgrow_their_capacity_move_once(cuda_path, monkeypatch):
    """The first failure once copied all rows, because their unused capacity counted as used."""
    rewritten = cuda._Rounds._next_epoch
    monkeypatch.setattr(cuda._Rounds, "_next_epoch", lambda self: (halts.append(int(self.state[cuda.HALT])), rewritten(self)))
    for L, most in ((SHAPES["path"], 0), (SHAPES["grid"], 3)):
        halts = []
        check(L, samples=1)
        assert halts.count(cuda.ROWS_FULL) <= most


@pytest.fixture
def cuda_path():
    with device.use(Harness(block=64)) as harness:
        yield harness


@pytest.mark.parametrize("narrow", [0, 10**9])
def test_one_thread_block_gives_the_same_factor(cuda_path, monkeypatch, narrow):
    monkeypatch.setattr(cuda, "NARROW", narrow)
    monkeypatch.setattr(cuda, "ROUNDS_ALONE", 3)
    check(SHAPES["contrast"])


def test_a_stall_is_reported(cuda_path, monkeypatch):
    """Keys that block each other cannot arise. If they did, no vertex would be chosen."""
    original = cuda._Rounds.__init__

    def spoiled(self, *args):
        original(self, *args)
        self.key[:-1] = 2**64 - 1                           # all eliminated, but counted as live
    monkeypatch.setattr(cuda._Rounds, "__init__", spoiled)
    with pytest.raises(ms.errors.DeviceUnavailableError, match="stalled"):
        ms.parac(SHAPES["grid"], device="cuda")


# ---- the operator ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", ["rounds", "amd"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["components", "grounded", "clique", "no edges"])
def test_the_operator_is_that_of_the_cpu(cuda, name, ordering, dtype):
    L = SHAPES[name]
    P, Q = (ms.parac(L, ordering, dtype=dtype, device=place) for place in ("cpu", "cuda"))
    for shape in ((), (1,), (3,)):
        b = np.random.default_rng(1).standard_normal((L.shape[0], *shape))
        x, y = P @ b, Q @ b
        assert y.shape == b.shape and np.allclose(x, y, rtol=0, atol=1e-10 * max(abs(x).max(), 1))
        assert np.allclose(P.solve(b), Q.solve(b), rtol=0, atol=1e-10 * max(abs(x).max(), 1))
    p = np.random.default_rng(2).standard_normal((L.shape[0], 2))
    q = p.copy()
    P.project(p)
    Q.project(q)
    assert np.allclose(p, q)


@pytest.mark.parametrize("longest", [trisolve.LONG, -1])
def test_many_right_hand_sides_have_the_sums_of_one(cuda, monkeypatch, longest):
    """One launch, or for long rows one per level: by one thread block, or by all for many columns."""
    monkeypatch.setattr(trisolve, "LONG", longest)
    G = ms.parac(ms.datasets.grid2d(30, 30, boundary="dirichlet"), device="cuda")
    b = np.random.default_rng(1).standard_normal((900, 5))
    together = G @ b
    assert np.allclose(together, ms.parac(ms.datasets.grid2d(30, 30, boundary="dirichlet"), device="cpu") @ b, rtol=0, atol=1e-10)
    monkeypatch.setattr(trisolve, "ALONE", 64)
    if cuda:
        cuda.launches.clear()
    assert np.array_equal(G @ b, together) and all(np.array_equal(G @ b[:, c], together[:, c]) for c in range(5))
    assert (G @ b[:, :0]).shape == (900, 0)
    if cuda:
        assert cuda.launches["k_clear"] == 6 and cuda.launches.get("k_sweep", 0) == (0 if longest < 0 else 12)


@pytest.mark.sanitize
@pytest.mark.parametrize("name", ["small grid", "small star"])
def test_values_that_are_waited_for(varied, name):
    """For any schedule. Values that are not finite do not end a wait."""
    L = SHAPES[name]
    P, Q = (ms.parac(L, device=place) for place in ("cpu", "cuda"))
    b = np.random.default_rng(0).standard_normal((L.shape[0], 2))
    assert np.allclose(P @ b, Q @ b, rtol=0, atol=1e-10 * abs(P @ b).max())
    b[7, 0] = np.nan
    x = Q._core.apply_device(b)
    assert np.isnan(x[:, 0]).any() and np.array_equal(x[:, 1], (Q @ b[:, 1:])[:, 0])


def test_an_endless_wait_is_reported(cuda_path):
    P = ms.parac(SHAPES["path"], device="cuda")
    P._core._lower._stalled[0] = 1
    with pytest.raises(ms.errors.DeviceUnavailableError, match="no progress"):
        P.solve(np.ones(500).view(OnDevice))
    P.solve(np.ones(500).view(OnDevice))


def test_operator_checks_lengths(cuda):
    P = ms.parac(SHAPES["grid"], device="cuda")
    with pytest.raises(ms.errors.InvalidInputError):
        P.solve(np.ones(3))


@pytest.mark.parametrize("ordering", ["rounds", "amd"])
def test_matvec_returns_arrays_on_the_device_of_the_input(cuda_path, monkeypatch, ordering):
    """CuPy's cg calls ``matvec``, as scipy's does. The inherited method would copy the vector to the host, which CuPy rejects."""
    def brought(*_):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")
    L = SHAPES["components"]
    P, b = ms.parac(L, ordering, device="cuda"), L @ np.arange(L.shape[0], dtype=float)
    expected = P @ b
    for name in ("matvec", "matmat", "dot", "__matmul__", "__call__"):
        monkeypatch.setattr(LinearOperator, name, brought)
    to_cuda = b.view(OnDevice)
    assert np.array_equal(P.matvec(to_cuda), expected) and np.array_equal(P.matvec(to_cuda[:, None]), expected[:, None])
    assert np.array_equal(P.matmat(np.stack([b, b], 1).view(OnDevice))[:, 1], expected) and np.array_equal(P @ to_cuda, expected)
    b = b.astype(np.float32)
    single, double = P.solve(b.view(OnDevice)), P.solve(b.astype(float).view(OnDevice))
    assert single.dtype == np.float32 and np.array_equal(single, double.astype(np.float32))
    with pytest.raises(ms.errors.InvalidInputError, match="real"):
        P.solve(np.array(["a"] * len(b)).view(OnDevice))


def test_a_matrix_on_the_gpu_is_factored_on_the_gpu(cuda):
    assert ms.parac(Sparse(SHAPES["grid"])).on_device and not ms.parac(SHAPES["grid"]).on_device
    with pytest.raises(ms.InvalidInputError, match="samples must be"):
        ms.parac(SHAPES["grid"], samples=np.array([1, 2]))


def test_right_hand_sides_on_the_gpu(cuda):
    """On the GPU, NaN was once accepted, ``out`` ignored, and complex numbers rejected."""
    P, rng = ms.parac(SHAPES["grid"], device="cuda"), np.random.default_rng(0)
    b = rng.standard_normal((P.shape[0], 2)) @ [1, 1j]
    expected, out = P.solve(b.real), to_cuda(np.zeros(len(b)))
    assert P.solve(to_cuda(b.real), out=out) is out and np.array_equal(to_numpy(out), expected)
    assert np.allclose(to_numpy(P.solve(to_cuda(b))), P.solve(b), rtol=0, atol=1e-14 * abs(expected).max())
    b[3] = np.nan
    for bad in (b.real, b):
        with pytest.raises(ms.InvalidInputError, match="row 3"):
            P.solve(to_cuda(bad))


@pytest.mark.gpu
@pytest.mark.parametrize("ordering", ["rounds", "nnz_sort"])
def test_a_preconditioner_for_cupys_cg(ordering):
    cupy = pytest.importorskip("cupy")
    from cupyx.scipy.sparse import csr_matrix
    from cupyx.scipy.sparse.linalg import cg

    L = SHAPES["grid"]
    A, b = csr_matrix(sp.csr_matrix(L)), cupy.asarray(L @ np.arange(L.shape[0], dtype=float))
    P = ms.parac(A, ordering, device="cuda")
    x, failed = cg(A, b, M=P, rtol=1e-8, maxiter=60)
    assert failed == 0 and isinstance(x, cupy.ndarray) and float(cupy.linalg.norm(b - A @ x)) < 1e-7 * float(cupy.linalg.norm(b))
    assert isinstance(P.G, sp.csc_array) and isinstance(P.perm, np.ndarray) and isinstance(P.D, np.ndarray)


@pytest.mark.gpu
def test_arrays_on_the_gpu_stay_on_the_gpu():
    cupy = pytest.importorskip("cupy")
    L = SHAPES["grid"]
    P = ms.parac(L, device="cuda")
    b = cupy.asarray(L @ np.arange(L.shape[0], dtype=float))
    assert isinstance(P.solve(b), cupy.ndarray)
    x, info = ms.cg(L, b, M=P)
    assert isinstance(x, cupy.ndarray) and info.converged
    with pytest.raises(ms.errors.InvalidInputError, match="on the CPU"):
        ms.cg(L, b, M=ms.parac(L, device="cpu"))
    with pytest.raises(ms.errors.InvalidInputError):
        ms.cg(L, b[:5], M=P)
    with pytest.raises(ms.errors.InvalidInputError):
        P.solve(b[:5])


def test_the_error_without_a_gpu():
    if device.available():
        pytest.skip("there is one")
    with pytest.raises(ms.errors.DeviceUnavailableError):
        ms.parac(SHAPES["grid"], device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not ms.parac(SHAPES["grid"], device="auto").on_device
