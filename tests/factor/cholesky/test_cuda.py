"""The CUDA path of the Cholesky factorization against the C++ core: on the kernel harness, and on a GPU where there is one.

Bounds: L to 1e-13 (float64) and 2e-6 (float32) of its largest entry, solutions of these well-conditioned systems likewise.
"""

import contextlib
import gc
import pickle
import sys
import types
import weakref

import numpy as np
import pytest
import scipy.sparse as sp
from fake_cudss import CudaDataType, Cudss
from kernel_harness import Harness, strict
from kernel_harness.strict import Strict
from on_device import Sparse, back, nothing_comes_back, there
from zoo import backward_error, grid, random_spd, spd, zoo

import meshsolve as ms
from meshsolve import _core, device
from meshsolve.factor.fronts import cuda as fronts
from meshsolve.factor.fronts import tree_cuda

ZOO = zoo()
BOUND = {"double": 1e-13, "single": 2e-6, "mixed": 1e-13}
WAYS = {                                                    # which fronts go where: tiny, small, dense of fronts.LIMITS
    "shared memory": fronts.Limits(512, 6016, 384),
    "blocks only": fronts.Limits(0, 6016, 384),
    "tiles": fronts.Limits(0, 0, 384),
    "all four": fronts.Limits(64, 300, 20),
    "libraries": fronts.Limits(40, 100, 0),
}


def close(x, reference, bound):
    x, reference = back(x), np.asarray(reference)
    assert x.shape == reference.shape and x.dtype == reference.dtype
    assert np.abs(x - reference).max(initial=0) <= bound * np.abs(reference).max(initial=1)


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


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_every_way_of_a_front(gpu, monkeypatch, way, precision):
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = spd(grid(26, 25))
    sym = ms.analyze(A, ordering="nd")
    F, host = sym.factor(A, precision, device="cuda"), sym.factor(A, precision, device="cpu")
    close(F.L.data, host.L.data, BOUND["single" if precision != "double" else "double"])
    b = np.random.default_rng(1).standard_normal((A.shape[0], 2))
    close(F.solve(b), host.solve(b), BOUND[precision])
    if precision == "mixed":
        assert backward_error(A, F.solve(b), b) < 1e-15 and F.report.facts["refinement_steps"] > 0


@pytest.mark.parametrize("way", ["shared memory", "tiles", "libraries"])
def test_wide_fronts(gpu, monkeypatch, way):
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = random_spd(230, 0.2, 3)                            # one front of nearly all rows: several steps, several tiles
    sym = ms.analyze(A)
    F, host = sym.factor(A, device="cuda"), sym.factor(A, device="cpu")
    close(F.L.data, host.L.data, 1e-13)
    b = np.random.default_rng(0).standard_normal((230, 4))
    close(F.solve(b), host.solve(b), 1e-12)


@pytest.mark.parametrize("way", ["tiles", "libraries"])
def test_a_step_of_few_pivots_above_other_rows(gpu, monkeypatch, way):
    """A front of 45 pivots, a whole step and a part of one, with 70 rows below them."""
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
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
    """The host took longer to say them than small levels take; and they keep no factor alive, whose memory is soon wanted."""
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A, made, prepared = spd(grid(26, 25)), [], device.prepared
    monkeypatch.setattr(device, "prepared", lambda kernel, *args: (made.append(kernel.name), prepared(kernel, *args))[1])
    with device.use(Harness()):
        F = ms.cholesky(A, device="cuda")
        x, b = F.solve(np.ones((650, 2))), np.arange(1300.0).reshape(650, 2)
        made.clear()
        assert backward_error(A, F.solve(b), b) < 1e-14 and np.array_equal(F.solve(np.ones((650, 2))), x)
        assert set(made) == {"k_to_columns_f64", "k_from_columns_f64"}
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
    """Small, since ThreadSanitizer takes its time for each thread of each block."""
    A = random_spd(64, 0.3, 3)
    monkeypatch.setattr(fronts, "LIMITS", fronts.Limits(20, 100, 384))
    kernels = {f"k_{name}_f64" for name in ("factor", "assemble", "eliminate", "solve_below", "subtract", "to_columns", "from_columns",
                                            "forward", "backward", "diagonal", "values", "check")}
    kernels |= {"k_relative", "k_count_entries", "k_place_entries", "k_hook", "k_shorten", "k_sum_segments"}
    with device.use(Harness(seed=1)) as harness:
        pinned = ms.cholesky(ms.datasets.grid2d(5, 4), pin=True, device="cuda").solve(np.arange(20) - 9.5)
        assert abs(pinned.sum()) < 1e-12
        F, b = ms.cholesky(A, device="cuda"), np.ones((64, 2))
        assert backward_error(A, F.solve(b), b) < 1e-14
        assert np.isfinite(F.L.data).all() and np.isfinite(F.logdet())
        monkeypatch.setattr(fronts, "LIMITS", WAYS["libraries"])
        assert backward_error(A, ms.cholesky(A, device="cuda").solve(b), b) < 1e-14
    assert kernels <= harness.launches.keys(), harness.launches


def test_two_depths_never_share_memory():
    sym = ms.analyze(spd(grid(40, 37)), ordering="nd")
    with device.use(Harness()):
        depth = tree_cuda.depths(sym.native.snode_parent)
    parent = sym.native.snode_parent
    assert all(depth[s] == (0 if p < 0 else depth[p] + 1) for s, p in enumerate(parent))
    size = np.diff(sym.native.row_ptr) ** 2
    with device.use(Harness()):
        offset, room = tree_cuda.offsets(size, depth)
    for d in range(depth.max() + 1):
        near = np.flatnonzero((depth == d) | (depth == d + 1))
        near = near[np.argsort(offset[near])]
        near = near[size[near] > 0]
        assert (offset[near][1:] >= offset[near][:-1] + size[near][:-1]).all()
    assert (offset + size).max() <= room


# ---- pivots that are not positive -------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
def test_the_failing_column_is_the_hosts(gpu, monkeypatch, way):
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
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
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = np.diag([1.0, 4.0, 4.0])
    A[1, 2] = A[2, 1] = 4.0                                 # no row sums to 0: it is the pivot that tells
    for place in ("cpu", "cuda"):
        with pytest.raises(ms.NotPositiveDefiniteError):
            ms.cholesky(A, device=place)


@pytest.mark.parametrize("way", WAYS)
def test_a_pivot_beyond_float32_is_no_pivot(gpu, monkeypatch, way):
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    for row in (5, 300):
        A = sp.lil_array(spd(grid(24, 20)))
        A[row, row] = 4e38
        for place in ("cpu", "cuda"):
            with pytest.raises(ms.InvalidInputError, match="range of float32"):
                ms.cholesky(sp.csr_array(A), ordering="nd", precision="single", device=place)


def test_a_singular_laplacian_is_told_by_its_rows(gpu):
    L = sp.csr_array(ms.datasets.grid2d(9, 9))
    both = sp.csr_array(sp.block_diag([L + 0.1 * sp.eye_array(81), L]))
    for A, part in ((L, 0), (both, 1)):
        with pytest.raises(ms.NotPositiveDefiniteError, match="pin=True") as told:
            ms.cholesky(A, device="cuda")
        assert told.value.column // 81 == part
    F = ms.cholesky(L + 0.1 * sp.eye_array(81), device="cuda")
    x = F.solve(np.ones(81))
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(L)
    assert np.array_equal(F.solve(np.ones(81)), x)
    isolated = ms.cholesky(sp.csr_array(sp.block_diag([L, np.eye(3)])), fixed=[0], device="cuda")
    assert np.isfinite(isolated.solve(np.ones(84))).all()


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


def test_a_refactorization_allocates_nothing(gpu, monkeypatch):
    A = Sparse(spd(grid(20, 15)))
    F = ms.cholesky(A, device="cuda").refactor(A)
    engine = F._factor
    kept = {name: id(value) for name, value in vars(engine).items() if name in ("_panels", "_updates", "_failed")}
    data = engine._data.copy()
    for name in ("empty", "zeros", "empty_like", "zeros_like"):
        monkeypatch.setattr(device.xp(), name, lambda *args, **kwargs: pytest.fail("memory is taken"))
    assert engine.factor(data) < 0
    assert kept == {name: id(value) for name, value in vars(engine).items() if name in kept}


@pytest.mark.parametrize("way", WAYS)
def test_a_factorization_waits_once(way, monkeypatch):
    """The host asked for the pivots of each dense front, so that no launch was ahead of the GPU."""
    monkeypatch.setattr(fronts, "LIMITS", WAYS[way])
    A = spd(grid(26, 25))
    with device.use(Strict()) as harness:
        engine = ms.cholesky(A, device="cuda")._factor
        harness.comes_back.clear()
        assert engine.factor(engine.matrix()) < 0 and harness.comes_back == [1]
        harness.comes_back.clear()
        assert engine.factor(-engine.matrix()) >= 0 and harness.comes_back == [1, 1]        # the earlier factor is made again


# ---- arrays that lie on the device ------------------------------------------------------------------------------------


def test_arrays_come_back_where_they_came_from(gpu, monkeypatch):
    A, b = spd(grid(20, 15)), np.random.default_rng(0).standard_normal((300, 3))
    F = ms.cholesky(Sparse(A))                              # "auto": the matrix lies on the device
    assert F.report.facts["device"] == "cuda"
    reference = ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").solve(b)
    assert isinstance(F.solve(b), np.ndarray)
    close(F.solve(b), reference, 1e-13)
    big = [np.asarray(a) for a in (b, np.asfortranarray(b), b[:, 0], b.astype(np.float32), b + 1j * b[::-1])]
    given = [there(a) for a in (*big, b)]
    with nothing_comes_back(monkeypatch):
        results = [F.solve(a) for a in given[:-1]] + [F @ given[-1]]
        out = there(np.zeros((300, 3)))
        assert F.solve(given[-1], out=out) is out
        narrow = there(np.zeros((300, 3), np.float32))
        assert F.solve(given[3], out=narrow) is narrow
    assert all(type(x) is not list and not isinstance(x, (list, sp.sparray)) for x in results)
    for x, given in zip(results, (*big, b)):
        expected = ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").solve(given)
        close(x, expected, 1e-6 if given.dtype == np.float32 else 1e-13)
    close(out, reference, 1e-13)
    close(narrow, reference.astype(np.float32), 1e-6)


def test_values_on_the_device_stay_there(gpu, monkeypatch):
    A, C = spd(grid(20, 15), seed=1), spd(grid(20, 15), seed=2)
    F = ms.cholesky(Sparse(A), device="cuda")
    later, b = Sparse(C), there(np.ones(300))
    with nothing_comes_back(monkeypatch):
        x = F.refactor(later).solve(b)
    close(x, ms.cholesky(C, ordering=F.symbolic.ordering.perm, device="cpu").solve(np.ones(300)), 1e-13)


def test_matrices_on_the_device_in_any_form(gpu):
    A = spd(grid(9, 8))
    x = ms.cholesky(A, device="cpu").solve(np.ones(72))
    doubled = sp.csr_array(A)
    doubled = sp.csr_array((np.repeat(doubled.data / 2, 2), np.repeat(doubled.indices, 2), 2 * doubled.indptr), shape=A.shape)
    for given, options in ((there(A.toarray()), {}), (Sparse(sp.tril(A)), {"lower": True}), (Sparse(doubled), {}),
                           (Sparse(A), {"ordering": np.arange(72)})):
        close(ms.cholesky(given, device="cuda", **options).solve(there(np.ones(72))), x, 1e-12)
    close(ms.cholesky(Sparse(A), device="cpu").solve(np.ones(72)), x, 1e-12)
    smaller = sp.csr_array(A - sp.diags_array(A.diagonal()) * 0)
    smaller = sp.csr_array(sp.diags_array(A.diagonal()))    # a pattern inside the analysed one
    close(ms.cholesky(Sparse(A), device="cuda").refactor(Sparse(smaller)).solve(np.ones(72)), 1 / A.diagonal(), 1e-13)


@pytest.mark.parametrize("options", [{}, {"fixed": [3, 70]}], ids=str)
@pytest.mark.parametrize("first", [sp.csr_array, Sparse])
def test_the_lower_triangle_is_enough_for_later_matrices_as_well(gpu, first, options):
    A, B = spd(grid(9, 8), seed=1), spd(grid(9, 8), seed=2)
    b = np.ones(72)
    F = ms.cholesky(first(sp.tril(A)), lower=True, device="cuda", **options)
    expected = ms.cholesky(B, device="cpu", **options).solve(b)
    anything = B + sp.triu(B, 1)
    for later in (sp.tril(B), Sparse(sp.tril(B)), anything, Sparse(anything), Sparse(sp.tril(B))):
        close(pickle.loads(pickle.dumps(F)).refactor(later).solve(b), expected, 1e-12)
        close(F.refactor(later).solve(b), expected, 1e-12)
    if not options:
        sym = ms.analyze(first(sp.tril(A)), lower=True, device="cuda")
        close(sym.factor(Sparse(sp.tril(B)), device="cuda").refactor(sp.tril(A)).refactor(sp.tril(B)).solve(b), expected, 1e-12)


def test_bad_input_on_the_device(gpu):
    A = spd(grid(9, 8))
    F = ms.cholesky(A, device="cuda")
    wrong, turned = sp.lil_array(A), sp.lil_array(A)
    wrong[3, 3] = np.nan
    turned[3, 4] += 1.0
    with pytest.raises(ms.InvalidInputError, match="row 3, column 3 holds nan"):
        ms.cholesky(Sparse(wrong))
    with pytest.raises(ms.NotSymmetricError) as e:
        ms.cholesky(Sparse(turned))
    assert {e.value.row, e.value.column} == {3, 4}
    with pytest.raises(ms.NotSymmetricError):
        F.refactor(Sparse(turned))
    for large in (0, 3):
        turned[large, large] = 1e30                         # no excuse for another row
        with pytest.raises(ms.NotSymmetricError) as e:
            ms.cholesky(Sparse(turned))
        assert {e.value.row, e.value.column} == {3, 4}
    full = sp.lil_array(A)
    full[0, 70] = full[70, 0] = 0.5
    with pytest.raises(ms.PatternMismatchError):
        F.refactor(Sparse(full))
    for b, text in ((np.ones(71), "has to be"), (np.where(np.arange(72) < 5, 0, np.inf), "row 5"), (np.ones((72, 2, 2)), "has to be"), (np.ones(72, bool), None)):
        with pytest.raises(ms.InvalidInputError, match=text) if text else contextlib.nullcontext():
            F.solve(there(b))
    with pytest.raises(ms.InvalidInputError, match="square"):
        ms.cholesky(there(np.ones((3, 4))))
    with pytest.raises(ms.InvalidInputError, match="out has to be"):
        F.solve(there(np.ones(72)), out=np.ones(72))


@pytest.mark.parametrize("precision", ["double", "mixed"])
def test_fixed_rows(gpu, precision):
    A, C = spd(grid(9, 8)), spd(grid(9, 8), seed=5)
    fixed, values, b = [70, 3, 15], np.array([[1.0, 2], [3, 4], [5, 6]]), np.random.default_rng(0).standard_normal((72, 2))
    host = ms.cholesky(A, fixed=fixed, precision=precision, device="cpu")
    for given, wrap in ((A, np.asarray), (Sparse(A), there)):
        F = ms.cholesky(given, fixed=fixed, precision=precision, device="cuda")
        close(F.solve(wrap(b), fixed_values=wrap(values)), host.solve(b, fixed_values=values), 1e-13)
        close(F.solve(wrap(b)), host.solve(b), 1e-13)
        close(F.solve(wrap(b), fixed_values=wrap(values + 2j)), host.solve(b, fixed_values=values + 2j), 1e-13)
        close(F.solve(wrap(b), fixed_values=wrap(np.array(0.5))), host.solve(b, fixed_values=0.5), 1e-13)
        whole = np.full((72, 2), np.nan)
        whole[fixed] = values
        close(F.solve(wrap(b), fixed_values=wrap(whole)), host.solve(b, fixed_values=values), 1e-13)
        with pytest.raises(ms.InvalidInputError, match="fixed_values: row 1 is not finite"):
            F.solve(wrap(b), fixed_values=wrap(np.array([1.0, np.nan, 2.0])))
    for later in (Sparse(C), C, Sparse(A)):
        reference = ms.cholesky(later.get() if isinstance(later, Sparse) else later, fixed=fixed, precision=precision, device="cpu")
        close(F.refactor(later).solve(b, fixed_values=values), reference.solve(b, fixed_values=values), 1e-13)
    before = F.solve(b, fixed_values=values)
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(Sparse(-C))
    assert np.array_equal(F.solve(b, fixed_values=values), before)


@pytest.mark.parametrize("pattern", [grid(9, 8), sp.block_diag([grid(5, 4), grid(3, 7), sp.csr_array((4, 4))]), sp.csr_array((5, 5))],
                         ids=["one component", "several and isolated rows", "isolated rows alone"])
def test_pinned_laplacian(gpu, pattern):
    W = sp.csr_array(pattern + pattern.T, dtype=float)
    L = sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W)
    b = L @ np.random.default_rng(0).standard_normal((L.shape[0], 3))
    host = ms.cholesky(L, pin=True, device="cpu")
    for given in (L, Sparse(L)):
        F = ms.cholesky(given, pin=True, device="cuda")
        close(F.solve(there(b)), host.solve(b), 1e-13)
        close(F.refactor(Sparse(2 * L)).solve(there(b)), host.solve(b) / 2, 1e-13)
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        F.solve(there(b + 1))
    regular, before = L + sp.diags_array(np.where(np.arange(L.shape[0]) == 2, 1e-3, 0.0)), F.solve(there(b))
    for given in (regular, Sparse(regular)):
        with pytest.raises(ms.NotLaplacianError, match="row 2 of A sums to 0.001") as caught:
            ms.cholesky(given, pin=True, device="cuda")
        assert caught.value.row == 2
    with pytest.raises(ms.NotLaplacianError):
        F.refactor(Sparse(regular))
    assert np.array_equal(back(F.solve(there(b))), back(before))


def test_pinned_components_that_later_join_are_refused(gpu):
    W = sp.block_diag([grid(5, 4), grid(4, 5)])
    W = sp.csr_array(W + W.T, dtype=float).tolil()
    W[3, 25] = W[25, 3] = 0.5
    joined = sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - sp.csr_array(W))
    apart = joined.copy()
    apart[3, 25] = apart[25, 3] = 0.0                            # stored
    apart[3, 3], apart[25, 25] = apart[3, 3] - 0.5, apart[25, 25] - 0.5
    b = apart @ np.arange(40.0)
    for given in (apart, Sparse(apart)):
        F = ms.cholesky(given, pin=True, device="cuda")
        before = back(F.solve(there(b)))
        for later in (joined, Sparse(joined)):
            with pytest.raises(ms.PatternMismatchError, match="joins two components") as told:
                F.refactor(later)
            assert {told.value.row, told.value.column} == {3, 25}
        assert np.array_equal(back(F.solve(there(b))), before)


@pytest.mark.parametrize("most_across", [device.MOST_ACROSS, 2])
def test_means_over_more_rows_than_a_chunk_and_more_columns_than_a_grid(gpu, monkeypatch, most_across):
    from meshsolve.factor.cholesky.device_constraint import CHUNK, _Segments

    monkeypatch.setattr(device, "MOST_ACROSS", most_across)
    rng = np.random.default_rng(0)
    component = rng.integers(0, 3, 3 * CHUNK)
    X = rng.standard_normal((len(component), 5))
    expected = np.stack([np.bincount(component, column, 3) for column in X.T], axis=1)
    close(_Segments(device.to_device(component), 3).sums(device.to_device(X)), expected, 1e-12)


def test_a_solve_is_queued_before_b_is_looked_at(monkeypatch):
    """The host waited for b, and so for all work before it, at the begin of each solve."""
    A, launched = spd(grid(9, 8)), []
    with device.use(Strict()) as harness:
        F, G, b, values = ms.cholesky(A, device="cuda"), ms.cholesky(A, fixed=[5], device="cuda"), there(np.ones(72)), there(np.ones(1))
        monkeypatch.setattr(harness, "to_host", lambda array: (launched.append(dict(harness.launches)), array.get())[1])
        for solve, reads in ((lambda: F.solve(b), 1), (lambda: G.solve(b, fixed_values=values), 2)):
            harness.launches.clear()
            launched.clear()
            solve()
            assert launched == [harness.launches] * reads and {"k_any", "k_backward_f64", "k_from_columns_f64"} <= launched[0].keys()


@pytest.mark.parametrize("options", [{}, {"precision": "single"}, {"precision": "mixed"}, {"fixed": [3]}, {"pin": True}], ids=str)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_no_solution_of_what_is_not_finite(gpu, options, value):
    A = spd(grid(9, 8))
    F = ms.cholesky(ms.graph_laplacian(A) if "pin" in options else A, device="cuda", **options)
    b, out = np.zeros((72, 2)), there(np.full((72, 2), 7.0))
    b[40, 1] = value
    turned = np.zeros(72, complex)
    turned.imag = b[:, 1]
    with pytest.raises(ms.InvalidInputError, match="^b: row 40 holds a value that is not finite"):
        F.solve(there(b), out=out)
    assert (back(out) == 7.0).all()
    with pytest.raises(ms.InvalidInputError, match="^b: row 40 holds"):
        F.solve(there(turned))


@pytest.mark.parametrize("options", [{}, {"precision": "mixed"}, {"fixed": [3]}, {"pin": True}], ids=str)
def test_no_sort_and_no_reduction_of_one_block_sees_a_matrix(monkeypatch, options):
    """CuPy's, without an nvcc, took milliseconds at each refactorization of a million rows; where the triangles differ in a bit, all
    entries were sorted."""
    A = spd(grid(9, 8))
    A = sp.csr_array(ms.graph_laplacian(A) if "pin" in options else A)
    A[1, 0] = np.nextafter(A[1, 0], 0)
    b = A @ np.random.default_rng(0).standard_normal((72, 2))
    host = ms.cholesky(A, device="cpu", **options).solve(b)
    with device.use(Strict()):
        F, later, b = ms.cholesky(Sparse(A), device="cuda", **options), Sparse(A), there(b)
        slow = {"all", "any", "max", "min", "sum", "mean", "argmax", "argmin", "array_equal", "sort", "argsort", "lexsort", "unique"}
        monkeypatch.setattr(strict, "METHODS", strict.METHODS - slow)
        monkeypatch.setattr(strict, "FUNCTIONS", strict.FUNCTIONS - slow)
        close(F.refactor(later).solve(b), host, 1e-12)


# ---- what "auto" leaves to the CPU ------------------------------------------------------------------------------------


def path(n):
    return sp.diags_array([np.full(n - 1, -1.0), np.full(n, 3.0), np.full(n - 1, -1.0)], offsets=[-1, 0, 1], format="csr")


def star(n, beams=1):
    """A hub, and parts of ``beams`` vertices that are joined to it and to each other."""
    parts = sp.block_diag([np.full((beams, beams), -1.0)] * (n // beams))
    hub = sp.csr_array(-np.ones((1, parts.shape[0])))
    return sp.csr_array(sp.block_array([[parts + (beams + 3) * sp.eye_array(parts.shape[0]), hub.T], [hub, sp.csr_array([[2.0 * n]])]]))


@pytest.mark.parametrize("given", [sp.csr_array, sp.coo_array, Sparse])
def test_near_trees_are_the_cpus_unless_the_gpu_is_named(gpu, monkeypatch, given):
    monkeypatch.setattr(device, "AUTO_SIZE", 100)
    mesh = spd(grid(12, 11))
    for A, place in ((path(100), "cpu"), (star(100), "cpu"), (sp.eye_array(100), "cpu"), (mesh, "cuda"), (mesh.toarray(), "cuda")):
        for whole, options in ((A, {}), (sp.tril(A), {"lower": True})):
            for asked, expected in (("auto", place), ("cuda", "cuda")):
                F = ms.cholesky(whole if given is not Sparse and isinstance(A, np.ndarray) else given(whole), device=asked, **options)
                assert F.report.facts["device"] == expected
                assert np.allclose(A @ back(F.solve(there(np.ones(A.shape[0])))), 1)
        assert ms.lu(given(A)).report.facts["device"] == place
        x, info = ms.solve(given(A), np.ones(A.shape[0]))
        assert np.allclose(A @ x, 1) and info.report.facts["device"] == place


@pytest.mark.parametrize("A, ordering, limit", [(path(200) @ path(200), "natural", "DEEPEST"), (star(99, beams=3), "auto", "MOST_CHILDREN")],
                         ids=["a band", "a star of triangles"])
@pytest.mark.parametrize("given", [sp.csr_array, Sparse])
def test_trees_that_are_too_deep_or_too_broad_are_the_cpus(gpu, monkeypatch, A, ordering, limit, given):
    monkeypatch.setattr(device, "AUTO_SIZE", 50)
    b, whole = there(np.ones(A.shape[0])), given(A)

    def places(**options):
        sym = ms.analyze(whole, ordering)
        for F in (ms.cholesky(whole, ordering, **options), ms.cholesky(whole, ordering, fixed=[0], **options), sym.factor(whole, **options)):
            rest = A @ back(F.solve(b)) - 1
            assert np.abs(rest[1:]).max() < 1e-12
            yield F.report.facts["device"]

    assert set(places()) == {"cuda"}
    monkeypatch.setattr(fronts, limit, 8)
    assert set(places()) == {"cpu"} and set(places(device="cuda")) == {"cuda"}


# ---- cuDSS ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def cudss(monkeypatch):
    fake = Cudss()
    monkeypatch.setitem(sys.modules, "nvmath", types.SimpleNamespace(CudaDataType=CudaDataType, bindings=types.SimpleNamespace(cudss=fake)))
    monkeypatch.setitem(sys.modules, "nvmath.bindings", types.SimpleNamespace(cudss=fake))
    with device.use(Harness()):
        yield fake


@pytest.mark.parametrize("precision", ["double", "single", "mixed"])
def test_cudss_solves_in_our_ordering(cudss, precision):
    A, b = spd(grid(9, 8)), np.random.default_rng(0).standard_normal((72, 2))
    F = ms.cholesky(Sparse(A), backend="cudss", precision=precision)
    assert np.array_equal(cudss.perm, np.arange(72)) and cudss.log == ["ANALYSIS", "FACTORIZATION"]
    host = ms.cholesky(A, precision=precision, device="cpu")
    close(F.solve(there(b)), host.solve(b), BOUND[precision])
    F.refactor(2 * A)
    assert cudss.log.count("ANALYSIS") == 1
    close(F.solve(b[:, 0]), host.solve(b[:, 0]) / 2, BOUND[precision])
    assert F._factor.nnz == F.nnz, "the matrix did not arrive in our ordering"
    del F
    gc.collect()
    assert not cudss.alive


def test_what_cudss_cannot_do_is_said(cudss):
    A = spd(grid(9, 8))
    F = ms.cholesky(A, backend="cudss")
    for call in (lambda: F.solve(np.ones(72), system="L"), lambda: F.L, F.logdet):
        with pytest.raises(ms.InvalidInputError, match="native"):
            call()
    x = F.solve(np.ones(72))
    with pytest.raises(ms.NotPositiveDefiniteError):
        F.refactor(-A)
    assert np.array_equal(F.solve(np.ones(72)), x)
    with pytest.raises(ms.InvalidInputError, match="cudss"):
        ms.cholesky(A, device="cpu", backend="cudss")


def test_without_cudss_the_message_says_what_to_install():
    with device.use(Harness()), pytest.raises(ms.DeviceUnavailableError, match="nvmath-python"):
        ms.cholesky(spd(grid(4, 4)), backend="cudss")


# ---- limits and lengths -----------------------------------------------------------------------------------------------


def test_more_wide_fronts_than_a_grid_has_blocks(gpu, monkeypatch):
    monkeypatch.setattr(fronts, "LIMITS", fronts.Limits(0, 0, 384))
    monkeypatch.setattr(fronts, "MOST_ACROSS", 3)
    A = spd(grid(12, 11))
    F = ms.cholesky(A, ordering="nd", device="cuda")
    assert max(len(level.wide) for level in F._factor.tree.levels) > 2
    close(F.L.data, ms.cholesky(A, ordering=F.symbolic.ordering.perm, device="cpu").L.data, 1e-13)


@pytest.mark.parametrize("name", [*ZOO, "mesh"])
def test_the_tree_is_that_of_the_host(gpu, name):
    from meshsolve.factor.fronts import assembly_tree

    A = spd(grid(40, 37)) if name == "mesh" else ZOO[name]
    sym = ms.analyze(A, ordering="nd", device="cpu")
    tree, host = fronts.DeviceTree.build(sym), assembly_tree(sym, 1)
    for part in ("entry_ptr", "entry_source", "entry_row"):
        found, expected = back(getattr(tree, part)), np.asarray(getattr(host, part))
        assert np.array_equal(found, expected), part
    inside = np.repeat(sym.native.snode_parent >= 0, np.diff(sym.native.row_ptr))
    assert np.array_equal(back(tree.relative)[inside], np.asarray(host.relative)[inside])
    edges = int(host.child_ptr[-1])
    table = dict(zip(tree_cuda.COLUMNS, back(tree.table).T))
    assert np.array_equal(back(tree.child)[:edges], host.child) and np.array_equal(table["child_end"], host.child_ptr[1:])
    pivots = np.diff(sym.supernodes)
    panels = np.cumsum([w * _core.leading_dimension(int(w + u)) for w, u in zip(pivots, np.diff(sym.native.row_ptr))])
    assert np.array_equal(table["panel"], [0, *panels[:-1]]) and tree.panel_scalars == panels[-1]
    launched = [back(batch.fronts) for level in tree.levels for batch in (*level.batches, *level.wide)]
    launched += [back(front.front) for level in tree.levels for front in level.dense]
    assert np.array_equal(np.sort(np.concatenate(launched)), np.arange(tree.count))


def test_nothing_but_numbers_comes_back_from_a_mesh_sized_matrix(gpu):
    """Order, analysis and factor of a matrix that is dissected on the device; with fixed rows, pins, and the edges of a mesh."""
    A = spd(grid(72, 71))
    n, rhs = A.shape[0], np.arange(A.shape[0]) - (A.shape[0] - 1) / 2
    b = there(rhs)
    for options in ({}, {"fixed": [3, 4000]}, {"pin": True}, {"lower": True}):
        given = Sparse(ms.graph_laplacian(A) if "pin" in options else A)
        if isinstance(gpu, Strict):
            gpu.comes_back.clear()
        F = ms.cholesky(given, device="cuda", **options)
        x = F.refactor(given).solve(b) if "lower" not in options else F.solve(b)
        assert F.report.facts["ordering"] == "nd" and F.report.facts["num_patches"] > 50
        if isinstance(gpu, Strict):
            assert max(gpu.comes_back) < n // 20, sorted(gpu.comes_back)[-5:]
        if "pin" not in options and "fixed" not in options:
            assert backward_error(A, back(x)[:, None], rhs[:, None]) < 1e-15


def test_an_analysis_on_the_device_is_used_again_anywhere(gpu):
    A = spd(grid(13, 12))
    sym = ms.analyze(Sparse(A), device="cuda")
    host = ms.analyze(A, ordering=back(sym.ordering.perm), device="cpu")
    assert (sym.nnz, sym.flops, sym.nbytes) == (host.nnz, host.flops, host.nbytes) and np.array_equal(sym.perm, host.perm)
    again = pickle.loads(pickle.dumps(ms.analyze(A, device="cuda")))
    for symbolic in (sym, again):
        for place in ("cpu", "cuda"):
            close(symbolic.factor(A, device=place).solve(np.ones(156)), host.factor(A).solve(np.ones(156)), 1e-12)
    upper = sp.triu(A, format="csr")
    natural = [ms.analyze(given, "natural", device=place).nnz for given, place in ((Sparse(upper), "cuda"), (upper, "cuda"), (upper, "cpu"))]
    assert len(set(natural)) == 1


def test_a_pattern_that_does_not_fit_leaves_the_constraint_as_it_was(gpu):
    A = sp.lil_array(spd(grid(9, 8)))
    F = ms.cholesky(Sparse(A), fixed=[3, 40], device="cuda")
    b, values = np.ones(72), np.array([1.0, 2.0])
    before = F.solve(b, fixed_values=values)
    wider = A.copy()
    wider[0, 70] = wider[70, 0] = 0.1
    with pytest.raises(ms.PatternMismatchError) as e:
        F.refactor(Sparse(wider))
    assert {e.value.row, e.value.column} == {0, 70}
    assert np.array_equal(F.solve(b, fixed_values=values), before)
    assert np.array_equal(F.refactor(Sparse(A)).solve(b, fixed_values=values), before)


def test_the_callers_arrays_may_change_later(gpu):
    A = spd(grid(9, 8))
    given = Sparse(A)
    F = ms.cholesky(given, device="cuda")
    before = F.L.data
    given.indices[:] = 0
    given.data[:] = -1.0
    assert np.array_equal(F.L.data, before)
    x = F.solve(np.ones(72))
    with pytest.raises((ms.PatternMismatchError, ms.NotPositiveDefiniteError, ms.InvalidInputError, ms.NotSymmetricError)):
        F.refactor(given)
    assert np.array_equal(F.solve(np.ones(72)), x) and np.array_equal(F.refactor(Sparse(A)).L.data, before)


def test_the_analysis_of_the_host_is_uploaded_once(gpu):
    """Each factor had its own copy of pattern and analysis, three or four of them."""
    A = spd(grid(12, 11))
    sym = ms.analyze(A, device="cpu")
    first, second = sym.factor(A, device="cuda"), sym.factor(2 * A, device="cuda")
    assert first._factor._pattern is second._factor._pattern is first._values.pattern is sym.pattern_on_device
    again = pickle.loads(pickle.dumps(sym))
    assert np.array_equal(again.perm, sym.perm) and "pattern_on_device" not in vars(again)
    close(again.factor(A, device="cuda").solve(np.ones(132)), first.solve(np.ones(132)), 1e-14)
