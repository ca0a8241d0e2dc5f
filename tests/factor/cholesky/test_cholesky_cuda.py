"""The CUDA path of the Cholesky factorization compared with the C++ core, on the kernel harness and on a GPU with -m gpu;
bounds in cuda_cases.py.
"""

import gc
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from cuda_cases import BOUND, WAYS, ZOO, close, use_way
from kernel_harness import Harness
from kernel_harness.strict import Strict
from on_device import Sparse
from zoo import backward_error, grid, random_spd, spd

import meshsolve as ms
from meshsolve import device

# ---- the numeric phase ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ZOO)
def test_the_factor_of_every_shape(gpu, name):
    A = ZOO[name]
    F = ms.cholesky(A, device="cuda")
    host = ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu")
    assert np.array_equal(F.perm, host.perm) and F.report.facts["device"] == "cuda"
    close(F.L.data, host.L.data, 1e-13)
    assert F.logdet() == pytest.approx(host.logdet(), rel=1e-12, abs=1e-12)
    b = np.random.default_rng(0).standard_normal((A.shape[0], 3))
    for system in ("A", "L", "Lt"):
        close(F.solve(b, system=system), host.solve(b, system=system), 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_every_way_of_a_front(gpu, monkeypatch, way, precision):
    use_way(monkeypatch, way)
    A = spd(grid(26, 25))
    sym = ms.analyze(A, ordering="nd")
    F, host = sym.factor(A, precision, device="cuda"), sym.factor(A, precision, device="cpu")
    close(F.L.data, host.L.data, BOUND["single" if precision != "double" else "double"])
    b = np.random.default_rng(1).standard_normal((A.shape[0], 2))
    close(F.solve(b), host.solve(b), BOUND[precision])
    if precision == "mixed":
        assert backward_error(A, F.solve(b), b) < 1e-15 and F.report.facts["refinement_steps"] > 0


@pytest.mark.parametrize("way", ["as launched", "queue alone", "large subtrees"])
def test_wide_fronts(gpu, monkeypatch, way):
    use_way(monkeypatch, way)
    A = random_spd(230, 0.2, 3)                            # one front of nearly all rows: several steps, several tiles
    sym = ms.analyze(A)
    F, host = sym.factor(A, device="cuda"), sym.factor(A, device="cpu")
    close(F.L.data, host.L.data, 1e-13)
    b = np.random.default_rng(0).standard_normal((230, 4))
    close(F.solve(b), host.solve(b), 1e-12)


@pytest.mark.parametrize("way", ["queue alone", "large subtrees"])
def test_a_step_of_few_pivots_above_other_rows(gpu, monkeypatch, way):
    """A front of 45 pivots (a whole step and a partial one) with 70 rows below them."""
    use_way(monkeypatch, way)
    rng = np.random.default_rng(5)
    A = rng.standard_normal((160, 160))
    A[:45, 45:90] = A[45:90, :45] = 0
    A = sp.csr_array(A + A.T + 60 * np.eye(160))
    sym = ms.analyze(A, "natural")
    assert np.array_equal(np.diff(sym.supernodes), [45, 115])
    F, host = sym.factor(A, device="cuda"), sym.factor(A, device="cpu")
    close(F.L.data, host.L.data, 1e-13)
    b = rng.standard_normal((160, 5))
    close(F.solve(b), host.solve(b), 1e-12)


@pytest.mark.parametrize("k", [0, 1, 2, 3, 4, 5, 8, 9, 13])
def test_any_number_of_right_hand_sides_in_either_order(gpu, k):
    A = spd(grid(20, 15))
    F = ms.cholesky(A, device="cuda")
    b = np.random.default_rng(k).standard_normal((300, k))
    x = F.solve(b)
    close(x, ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").solve(b), 1e-13)
    assert np.array_equal(F.solve(np.asfortranarray(b)), x)


@pytest.mark.parametrize("way", WAYS)
def test_the_launches_of_a_solve_are_made_once(way, monkeypatch):
    """Preparing the launches takes longer than small levels. The kept launches must not keep a deleted factor alive."""
    use_way(monkeypatch, way)
    A, made, prepared = spd(grid(26, 25)), [], device.prepared
    monkeypatch.setattr(device, "prepared", lambda kernel, *args: (made.append(kernel.name), prepared(kernel, *args))[1])
    with device.use(Harness()):
        F = ms.cholesky(A, device="cuda")
        x, b = F.solve(np.ones((650, 2))), np.arange(1300.0).reshape(650, 2)
        made.clear()
        assert backward_error(A, F.solve(b), b) < 1e-14 and np.array_equal(F.solve(np.ones((650, 2))), x)
        assert set(made) == {"k_to_columns", "k_from_columns"}
        engine = weakref.ref(F._factor)
        gc.disable()
        try:
            del F
            assert engine() is None
        finally:
            gc.enable()


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_threads_changes_no_bit(seed):
    A = spd(grid(23, 21))
    sym = ms.analyze(A, ordering="nd")
    results = []
    for harness in (Harness(), Harness(resident=3, seed=seed)):
        with device.use(harness):
            F = sym.factor(A, device="cuda")
            results.append((F.L.data, F.solve(np.arange(A.shape[0] * 2.0).reshape(-1, 2))))
    assert all(np.array_equal(a, b) for a, b in zip(*results))


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_more_items_than_a_grid_has_threads(short_grids, precision):
    A = sp.csr_array(sp.block_diag([spd(grid(19, 11)), spd(grid(9, 8)), sp.eye_array(40)]))
    perm = np.random.default_rng(0).permutation(A.shape[0])
    sign = sp.diags_array(np.random.default_rng(2).choice([-1.0, 1.0], A.shape[0]))
    A = sp.csr_array(sign @ A[perm][:, perm] @ sign)
    F = ms.cholesky(A, precision=precision, device="cuda")
    host = ms.cholesky(A, precision=precision, ordering=F.symbolic.ordering.perm, device="cpu")
    close(F.L.data, host.L.data, BOUND["single" if precision != "double" else "double"])
    b = np.random.default_rng(1).standard_normal((A.shape[0], 3))
    close(F.solve(b), host.solve(b), 1e-13)
    assert F._factor.norm1() == pytest.approx(abs(A).sum(axis=0).max(), rel=1e-14)
    L = ms.graph_laplacian(abs(A))
    close(ms.cholesky(L, pin=True, device="cuda").solve(L @ b), ms.cholesky(L, pin=True, device="cpu").solve(L @ b), 1e-12)


@pytest.mark.sanitize
def test_every_kernel_on_something_small(monkeypatch):
    """A small matrix, because ThreadSanitizer is slow for each thread of each block."""
    A = random_spd(64, 0.3, 3)
    use_way(monkeypatch, "small subtrees")
    kernels = {f"k_{name}" for name in ("subtrees", "queue", "to_columns", "from_columns", "forward", "backward", "invert", "diagonal",
                                        "values", "check_later", "cut", "count_tasks", "list_tasks", "list_blocks")}
    kernels |= {"k_relative", "k_count_entries", "k_place_entries", "k_hook", "k_shorten", "k_sum_segments"}
    with device.use(Harness(seed=1)) as harness:
        pinned = ms.cholesky(ms.datasets.grid2d(5, 4), pin=True, device="cuda").solve(np.arange(20) - 9.5)
        assert abs(pinned.sum()) < 1e-12
        F, b = ms.cholesky(A, device="cuda"), np.ones((64, 2))
        assert backward_error(A, F.refactor(A).solve(b), b) < 1e-14
        assert np.isfinite(F.L.data).all() and np.isfinite(F.logdet())
        with pytest.raises(ms.InvalidInputError):
            F.refactor(Sparse(A * np.nan))
        use_way(monkeypatch, "large subtrees")
        assert backward_error(A, ms.cholesky(A, device="cuda").solve(b), b) < 1e-14
    assert kernels <= harness.launches.keys(), harness.launches


def test_a_refactorization_allocates_nothing(gpu, monkeypatch):
    A = Sparse(spd(grid(20, 15)))
    F = ms.cholesky(A, device="cuda").refactor(A)
    engine = F._factor
    kept = {name: id(value) for name, value in vars(engine).items() if name in ("_panels", "_updates", "_status")}
    data = engine._data.copy()
    for name in ("empty", "zeros", "empty_like", "zeros_like"):
        monkeypatch.setattr(device.xp(), name, lambda *args, **kwargs: pytest.fail("memory is taken"))
    assert engine.factor(data) < 0
    assert kept == {name: id(value) for name, value in vars(engine).items() if name in kept}


@pytest.mark.parametrize("way", WAYS)
def test_a_factorization_waits_once(way, monkeypatch):
    """The host must not read the pivots of each dense front, or no launch is queued ahead."""
    use_way(monkeypatch, way)
    A = spd(grid(26, 25))
    with device.use(Strict()) as harness:
        engine = ms.cholesky(A, device="cuda")._factor
        harness.comes_back.clear()
        assert engine.factor(engine.matrix()) < 0 and harness.comes_back == [3]        # failed pivot, smallest pivot, bits
        harness.comes_back.clear()
        assert engine.factor(-engine.matrix()) >= 0 and harness.comes_back == [3]       # the earlier factor is restored


# ---- pivots that are not positive -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_the_failing_column_equals_that_of_the_host(gpu, monkeypatch, way):
    use_way(monkeypatch, way)
    A = sp.lil_array(spd(grid(24, 20)))
    for row in (5, 216, 300):
        A[row, row] = -3.0
    named = set()
    for place in ("cpu", "cuda"):
        with pytest.raises(ms.NotPositiveDefiniteError, match="negative") as e:
            ms.cholesky(sp.csr_array(A), ordering="nd", device=place)
        named.add(e.value.column)
    assert len(named) == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_last_pivot_of_exactly_zero_is_no_pivot(gpu, monkeypatch, way):
    use_way(monkeypatch, way)
    A = np.diag([1.0, 4.0, 4.0])
    A[1, 2] = A[2, 1] = 4.0                                 # no row sums to 0: the pivot shows it
    for place in ("cpu", "cuda"):
        with pytest.raises(ms.NotPositiveDefiniteError):
            ms.cholesky(A, device=place)


@pytest.mark.parametrize("way", WAYS)
def test_a_pivot_beyond_float32_is_no_pivot(gpu, monkeypatch, way):
    use_way(monkeypatch, way)
    for row in (5, 300):
        A = sp.lil_array(spd(grid(24, 20)))
        A[row, row] = 4e38
        for place in ("cpu", "cuda"):
            with pytest.raises(ms.InvalidInputError, match="range of float32"):
                ms.cholesky(sp.csr_array(A), ordering="nd", precision="single", device=place)


def test_a_singular_laplacian_is_detected_by_row_sums(gpu):
    L = sp.csr_array(ms.datasets.grid2d(9, 9))
    both = sp.csr_array(sp.block_diag([L + 0.1 * sp.eye_array(81), L]))
    for A, part in ((L, 0), (both, 1)):
        with pytest.raises(ms.NotPositiveDefiniteError, match="pin=True") as caught:
            ms.cholesky(A, device="cuda")
        assert caught.value.column // 81 == part
    F = ms.cholesky(L + 0.1 * sp.eye_array(81), device="cuda")
    x = F.solve(np.ones(81))
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(L)
    assert np.array_equal(F.solve(np.ones(81)), x)
    isolated = ms.cholesky(sp.csr_array(sp.block_diag([L, np.eye(3)])), fixed=[0], device="cuda")
    assert np.isfinite(isolated.solve(np.ones(84))).all()


@pytest.mark.parametrize("precision", ["double", "single"])
def test_singular_components_by_values_are_detected(gpu, precision):
    L = sp.csr_array(ms.datasets.grid2d(6, 5))
    whole = sp.csr_array(sp.block_diag([L, L]) + sp.csr_array(([1.0, 1.0, -1.0, -1.0], ([7, 40, 7, 40], [7, 40, 40, 7])), shape=(60, 60)))
    F = ms.cholesky(whole, fixed=[0], precision=precision, device="cuda")
    x = F.solve(np.ones(60))
    for size in (1.0, 1.3, 1.7, 2.1):
        with pytest.raises(ms.NotPositiveDefiniteError, match="sums to 0") as caught:
            F.refactor(sp.csr_array(sp.block_diag([L, size * L])))
        assert caught.value.column >= 30 and np.array_equal(F.solve(np.ones(60)), x)


def test_a_failed_refactor_leaves_the_factor_bit_for_bit(gpu):
    A = spd(grid(20, 15))
    F = ms.cholesky(A, device="cuda")
    before, bad = F.L.data, sp.lil_array(A)
    bad[123, 123] = -1.0
    with pytest.raises(ms.NotPositiveDefiniteError) as e:
        F.refactor(bad)
    assert e.value.column >= 0 and np.array_equal(F.L.data, before)
    C = spd(grid(20, 15), seed=2)
    assert F.refactor(C) is F
    close(F.L.data, ms.cholesky(C, ordering=F.symbolic.ordering.perm).L.data, 1e-13)
