"""The two launches of a numeric phase on the GPU: fronts of several tiles, failed pivots in any tile, schedules, stalls."""

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import BOUND, WAYS, ZOO, close, use_way
from kernel_harness import Harness
from on_device import Sparse
from zoo import grid, random_spd, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.device import cuda
from meshsolve.factor.fronts import plan
from meshsolve.factor.fronts.cuda import device_tree

VERSIONS = {"fused": False, "tensor cores": True}           # of the products of tiles, and Harness(tensor_cores=...)


@pytest.fixture(params=VERSIONS)
def products(gpu, request, monkeypatch):
    """The backend with each version of the products of tiles."""
    if isinstance(gpu, Harness):
        gpu.tensor_cores = VERSIONS[request.param]
    elif not VERSIONS[request.param]:
        monkeypatch.setattr(cuda, "TENSOR_CORES", ())
    return gpu


def arrow(pivots, rows, seed=0):
    """A dense front of so many pivots and rows below them, whose update matrix is added to a dense root."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((pivots + 2 * rows, pivots + 2 * rows))
    A[:pivots, pivots:pivots + rows] = A[pivots:pivots + rows, :pivots] = 0
    return sp.csr_array(A + A.T + 4 * len(A) ** 0.5 * np.eye(len(A)))


def factors(A, harnesses, precision="double", **options):
    """Values of L on each of the backends."""
    sym, out = ms.analyze(A, **options), []
    for harness in harnesses:
        with device.use(harness):
            out.append(sym.factor(A, precision, device="cuda").L.data)
    return out, sym.factor(A, precision, device="cpu").L.data


@pytest.mark.parametrize("pivots, rows", [(1, 1), (15, 70), (16, 16), (64, 64), (65, 3), (63, 130), (140, 20)])
def test_fronts_of_several_tiles(products, monkeypatch, pivots, rows):
    """Blocks and strips that are full, nearly full, or have one column; the last pivot lies inside a tile of rows."""
    use_way(monkeypatch, "queue alone")
    A = arrow(pivots, rows)
    for precision in ("double", "single"):
        (found,), host = factors(A, [products], precision, ordering="natural")
        close(found, host, BOUND[precision])


@pytest.mark.parametrize("name", ZOO)
def test_every_shape_by_tiles(products, monkeypatch, name):
    use_way(monkeypatch, "queue alone")
    F = ms.cholesky(ZOO[name], device="cuda")
    host = ms.cholesky(ZOO[name], ordering=F.symbolic.ordering.perm, device="cpu")
    close(F.L.data, host.L.data, 1e-13)


def test_the_two_versions_round_differently(monkeypatch):
    """Otherwise one of them would be tested twice. In single precision there is one version."""
    use_way(monkeypatch, "queue alone")
    A = arrow(70, 40)
    for precision, equal in (("double", False), ("single", True)):
        found, _ = factors(A, [Harness(tensor_cores=version) for version in VERSIONS.values()], precision, ordering="natural")
        assert np.array_equal(*found) == equal


@pytest.mark.parametrize("way", WAYS)
def test_solids_and_meshes(gpu, monkeypatch, way):
    """Wide fronts at the top, many small ones below them."""
    use_way(monkeypatch, way)
    mesh = ms.datasets.icosphere(2)
    for A in (spd(sp.csr_array(ms.datasets.grid3d(7))), sp.csr_array(ms.cotan_laplacian(mesh) + ms.mass_matrix(mesh))):
        (found,), host = factors(A, [gpu], ordering="nd")
        close(found, host, 1e-13)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("way", WAYS)
def test_schedules_and_block_sizes_change_no_bit(monkeypatch, way, version):
    use_way(monkeypatch, way)
    settings = {}, {"resident": 1}, {"resident": 5, "seed": 1, "block": 64}, {"resident": 3, "seed": 2, "block": 32}
    harnesses = [Harness(**setting, tensor_cores=VERSIONS[version]) for setting in settings]
    for A, options in ((spd(grid(23, 21)), {"ordering": "nd"}), (arrow(70, 40), {"ordering": "natural"})):
        found, _ = factors(A, harnesses, **options)
        assert all(np.array_equal(found[0], other) for other in found[1:])


def test_the_bits_of_subtrees_do_not_depend_on_their_owner(monkeypatch):
    """Warps, thread blocks, and any size of the workspace: the operations on a front in shared memory are the same."""
    A, found = spd(grid(14, 13)), []
    for workspace in ((40_000, 0), (40_000, 300), (40_000, 5000)):
        monkeypatch.setattr("meshsolve.factor.fronts.cuda.workspace_of_device", lambda workspace=workspace: workspace)
        with device.use(Harness(shared_limit=40_000 * 8)) as harness:
            found.append(ms.cholesky(A, ordering="nd", device="cuda").L.data)
            assert "k_queue" not in harness.launches
    assert all(np.array_equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("way", ["queue alone", "small subtrees"])
def test_failed_pivots_of_wide_fronts(gpu, monkeypatch, way):
    """The first failed column, in a diagonal tile or below it; two failures in different fronts; NaN."""
    use_way(monkeypatch, way)
    A = arrow(70, 30).tolil()
    sym = ms.analyze(sp.csr_array(A), ordering="natural")
    for rows in ((0,), (69,), (15, 64), (64, 100), (129,)):
        bad = A.copy()
        for row in rows:
            bad[row, row] = -1.0
        columns = []
        for place in ("cpu", "cuda"):
            with pytest.raises(ms.NotPositiveDefiniteError) as caught:
                sym.factor(sp.csr_array(bad), device=place)
            columns.append(caught.value.column)
        assert columns[0] == columns[1] <= rows[0]
    bad = A.copy()
    bad[66, 66] = np.nan
    with pytest.raises(ms.InvalidInputError, match="row 66, column 66 holds nan"):
        sym.factor(sp.csr_array(bad), device="cuda")
    values = device.to_device(np.where(np.isfinite(bad.tocsr().data), bad.tocsr().data, np.nan))
    engine = sym.factor(sp.csr_array(A), device="cuda")._factor
    before = device.to_host(engine.diagonal())
    assert engine.factor(values) == 66                      # the kernels themselves: NaN is no pivot
    assert np.array_equal(device.to_host(engine.diagonal()), before)


@pytest.mark.parametrize("given_up", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_stall_is_reported(monkeypatch, given_up):
    """A counter that never reaches 0: the kernel gives up, after seconds or when another block has, and the next call works."""
    use_way(monkeypatch, "queue alone")
    A = spd(grid(7, 6))
    with device.use(Harness(block=32)):
        F = ms.cholesky(A, ordering="nd", device="cuda")
        x, initial = F.solve(np.ones(42)), device_tree(F.symbolic).plan.initial
        initial[plan.COUNTERS] += 1
        initial[plan.STALLED] = given_up
        with pytest.raises(ms.DeviceUnavailableError, match="the Cholesky factorization: a kernel made no progress"):
            F._factor.factor_again(lambda values, bits: None)
        initial[plan.COUNTERS] -= 1
        initial[plan.STALLED] = 0
        assert np.array_equal(F.refactor(A).solve(np.ones(42)), x)


@pytest.mark.sanitize
@pytest.mark.parametrize("way, version", [("queue alone", "fused"), ("queue alone", "tensor cores"), ("small subtrees", "fused")])
def test_tiles_wait_for_each_other(monkeypatch, way, version):
    """Few threads, because ThreadSanitizer is slow for each thread of each block. With 128, several of them share a row of a tile."""
    use_way(monkeypatch, way)
    tree, wide = spd(grid(9, 8)), arrow(80, 2)
    for A, options, block in ((tree, {"ordering": "nd"}, 32), (wide, {"ordering": "natural"}, 128)):
        with device.use(Harness(seed=1, block=block, resident=3, tensor_cores=VERSIONS[version])):
            F = ms.cholesky(A, device="cuda", **options)
            close(F.refactor(A).L.data, ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").L.data, 1e-13)


def test_random_matrices(gpu, monkeypatch):
    """Random patterns: fronts with many children, columns that several children share."""
    use_way(monkeypatch, "small subtrees")
    for seed in range(4):
        A = random_spd(120, 0.02 + 0.02 * seed, seed)
        F = ms.cholesky(Sparse(A), device="cuda")
        close(F.L.data, ms.cholesky(A, ordering=np.asarray(device.to_host(F.symbolic.ordering.perm)), device="cpu").L.data, 1e-13)
