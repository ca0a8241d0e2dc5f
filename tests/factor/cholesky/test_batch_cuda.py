"""Batches of Cholesky factors on the GPU compared with the batch on the CPU: every use of the grid, failures one by one, hostile input."""

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness import Harness
from kernel_harness.strict import Strict
from on_device import nothing_copied_to_host, to_cuda, to_numpy

import meshsolve as ms
from meshsolve import device
from meshsolve.factor.cholesky import batch_cuda
from meshsolve.factor.fronts import cuda as fronts

GRID = sp.csr_array(ms.datasets.grid2d(8, 6, boundary="dirichlet"))
MESH = sp.csr_array(ms.cotan_laplacian(ms.datasets.icosphere(2)) + ms.mass_matrix(ms.datasets.icosphere(2)))
WIDE = sp.csr_array(np.eye(70) * 90 + np.random.default_rng(0).random((70, 70)))
SHAPES = {"grid": GRID, "mesh": MESH, "one front": sp.csr_array(WIDE + WIDE.T), "one": sp.csr_array(np.array([[2.0]])),
          "diagonal": sp.csr_array(sp.eye_array(5))}
BOUND = {"double": 1e-13, "single": 1e-4}


def diagonal_of(A):
    return np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)) == A.indices


def batch(A, count, seed=0):
    values = np.repeat(A.data[None], count, axis=0)
    values[:, diagonal_of(A)] += np.random.default_rng(seed).random((count, A.shape[0]))
    return values


def close(x, reference, bound=1e-13):
    x = to_numpy(x)
    assert x.shape == reference.shape and x.dtype == reference.dtype
    assert np.array_equal(np.isnan(x), np.isnan(reference))
    assert np.nanmax(np.abs(x - reference), initial=0) <= bound * np.nanmax(np.abs(reference), initial=1)


@pytest.fixture(params=[0, 1000], ids=["a thread block per system", "a launch per level"])
def grids(request, monkeypatch):
    """Both uses of the grid for any number of systems."""
    monkeypatch.setattr(batch_cuda, "FILLED", request.param)
    monkeypatch.setattr(batch_cuda, "IN_FLIGHT", 2)                  # six slots: thread blocks solve one system after the other
    return request.param


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("precision", ["double", "single"])
def test_solutions_are_those_of_the_cpu(gpu, grids, name, precision):
    A, count = SHAPES[name], 8
    values, sym = batch(A, count), ms.analyze(A)
    F, host = sym.factor_batch(to_cuda(values), precision), sym.factor_batch(values, precision)
    assert isinstance(F, ms.CholeskyBatch) and F.shape == host.shape and len(F.failed) == 0 and F.report.facts["device"] == "cuda"
    for k in (None, 1, 3, 9):
        b = np.random.default_rng(1).standard_normal((count, A.shape[0]) if k is None else (count, A.shape[0], k))
        x = F.solve(to_cuda(b))
        assert device.holds(x)
        close(x, host.solve(b), BOUND[precision])


@pytest.mark.parametrize("limits", [fronts.Limits(0, 6016, 384), fronts.Limits(64, 300, 384), fronts.Limits(0, 0, 384)], ids=str)
def test_panels_in_shared_and_in_global_memory(gpu, grids, monkeypatch, limits):
    monkeypatch.setattr(batch_cuda, "LIMITS", limits)
    values, sym = batch(MESH, 7), ms.analyze(MESH)
    F, b = sym.factor_batch(to_cuda(values)), np.random.default_rng(2).standard_normal((7, MESH.shape[0], 2))
    close(F.solve(to_cuda(b)), sym.factor_batch(values).solve(b))


def test_other_block_sizes_and_schedules_change_no_bit(monkeypatch):
    results, values, b = [], batch(GRID, 5), np.arange(5 * 48.0).reshape(5, 48)
    for filled in (0, 1000):
        monkeypatch.setattr(batch_cuda, "FILLED", filled)
        for harness in (Harness(), Harness(resident=3, seed=1), Harness(block=64, seed=2)):
            with device.use(harness):
                results.append(to_numpy(ms.analyze(GRID).factor_batch(to_cuda(values)).solve(to_cuda(b))))
    assert all(np.array_equal(x, results[0]) for x in results)


def test_refactor_and_right_hand_sides_on_the_host(cuda):
    sym, b = ms.analyze(GRID), np.random.default_rng(3).standard_normal((2, 6, 48, 2))
    F, host = sym.factor_batch(to_cuda(batch(GRID, 6))), sym.factor_batch(batch(GRID, 6, seed=5))
    assert F.refactor(batch(GRID, 6, seed=5)) is F and F.report.counts["numeric"] == 2 and F.nbytes > 0     # values on the host
    for given in (b[0], b[0].astype(np.float32), b[0].astype(np.int64), b[0] + 1j * b[1], b[0, :, :, :0]):
        for x, held in ((F.solve(given), False), (F.solve(to_cuda(given)), True)):
            assert device.holds(x) == held
            out = 0 * x
            assert F.solve(to_cuda(given) if held else given, out) is out and (out == x).all()
            close(x, host.solve(given), 1e-6 if given.dtype == np.float32 else 1e-13)


def test_systems_fail_alone(cuda, grids):
    values = batch(GRID, 20)
    values[3] *= -1
    values[7, 11] = np.inf
    values[8, 0] = np.nan
    sym, b = ms.analyze(GRID), np.ones((20, 48))
    F, host = sym.factor_batch(to_cuda(values)), sym.factor_batch(values)
    assert F.failed.tolist() == [3, 7, 8] and [F.reason(i) for i in range(20)] == [host.reason(i) for i in range(20)]
    close(F.solve(to_cuda(b)), host.solve(b))
    F.refactor(to_cuda(batch(GRID, 20)))
    assert len(F.failed) == 0 and np.isfinite(F.solve(b)).all()


def test_singular_and_nearly_singular_laplacians(cuda):
    L = sp.csr_array(ms.datasets.grid2d(8, 6))
    values = np.stack([L.data, L.data + diagonal_of(L), L.data + 1e-13 * diagonal_of(L)])
    with pytest.warns(ms.MeshsolveWarning, match="1 system may be singular.*first is 2"):
        F = ms.analyze(L).factor_batch(to_cuda(values))
    assert F.failed.tolist() == [0] and np.isnan(F.solve(np.ones((3, 48)))[0]).all()


def test_asymmetry_names_the_system_and_changes_nothing(cuda, grids):
    values, sym = batch(GRID, 5), ms.analyze(GRID)
    values[0] *= -1                                         # has no factor
    F = sym.factor_batch(to_cuda(values))
    before = F.solve(np.ones((5, 48)))
    wrong = batch(GRID, 5)
    wrong[2, 1] += 0.5
    wrong[4, 1] += 0.5
    with pytest.raises(ms.NotSymmetricError, match="system 2 is not symmetric") as error:
        F.refactor(to_cuda(wrong))
    assert {error.value.row, error.value.column} == {0, 1} and F.failed.tolist() == [0]
    assert np.array_equal(F.solve(np.ones((5, 48))), before, equal_nan=True)
    wrong[:] = batch(GRID, 5)
    wrong[2, 1] *= 1 + 1e-13                                # rounding is no asymmetry
    assert len(F.refactor(to_cuda(wrong)).failed) == 0


def test_only_the_lower_triangle_is_read(cuda):
    below = sp.csr_array(sp.tril(GRID))
    sym = ms.analyze(below, lower=True)
    F = sym.factor_batch(to_cuda(sym.values_of(below)[None]))
    assert np.allclose(GRID @ F.solve(np.ones((1, 48)))[0], 1)


def test_hostile_input(cuda):
    sym, values = ms.analyze(GRID), batch(GRID, 3)
    for given, message in ((np.ones((2, 5)), r"values must be \(N, 212\)"), (np.ones((0, 212)), "at least one system"),
                           (values[0], r"values must be \(N, 212\)"), (values + 1j, "real numbers")):
        with pytest.raises(ms.InvalidInputError, match=message):
            sym.factor_batch(to_cuda(given))
    F = sym.factor_batch(to_cuda(values))
    for b, message in ((np.ones(48), "b must be"), (np.ones((3, 47)), "b must be"), (np.full((3, 48), np.nan), "system 0, row 0 holds nan"),
                       (np.where(np.arange(48) == 7, np.inf, np.ones((3, 48))), "system 0, row 7 holds inf")):
        for place in (np.asarray, to_cuda):
            with pytest.raises(ms.InvalidInputError, match=message):
                F.solve(place(b))
    with pytest.raises(ms.InvalidInputError, match="2 systems, but this batch has 3"):
        F.refactor(to_cuda(values[:2]))
    assert np.isfinite(F.solve(np.ones((3, 48)))).all()
    for other in (ms.lu(GRID), ms.ildl(GRID, fill_level=None)):
        with pytest.raises(ms.InvalidInputError, match="on the GPU, where only batches of Cholesky factors"):
            other.factor_batch(to_cuda(values))


def test_nothing_returns_to_the_host(cuda, monkeypatch):
    sym, values, b = ms.analyze(GRID), to_cuda(batch(GRID, 40)), to_cuda(np.ones((40, 48)))
    F = sym.factor_batch(values)
    with nothing_copied_to_host(monkeypatch, most=1 + 3 * 40):       # the status of each system
        F.refactor(values).solve(b)


def test_memory_of_systems_in_flight_only():
    """Update matrices of large systems: a thread block factors one system after the other."""
    with device.use(Strict()):
        small, many = (ms.analyze(MESH).factor_batch(to_cuda(batch(MESH, count))) for count in (40, 80))
        panels = many._core.plan.sizes[0] * 8
        assert many.nbytes - small.nbytes < 40 * (panels + 100)


@pytest.mark.sanitize
@pytest.mark.parametrize("filled", [0, 1000])
def test_every_kernel_on_something_small(monkeypatch, filled):
    monkeypatch.setattr(batch_cuda, "FILLED", filled)
    monkeypatch.setattr(batch_cuda, "IN_FLIGHT", 1)
    monkeypatch.setattr(batch_cuda, "LIMITS", fronts.Limits(30, 120, 384))
    values = batch(GRID, 4)
    values[1] *= -1
    with device.use(Harness(seed=1)) as harness:
        sym = ms.analyze(GRID)
        F = sym.factor_batch(to_cuda(values))
        x = F.solve(to_cuda(np.ones((4, 48, 2))))
        assert {"k_check_systems", "k_factor_systems", "k_solve_systems"} <= set(harness.launches)
    close(x, sym.factor_batch(values).solve(np.ones((4, 48, 2))))


@pytest.mark.races
def test_roots_that_follow_each_other(monkeypatch):
    """Fronts of different sizes in the same memory of a warp."""
    monkeypatch.setattr(batch_cuda, "FILLED", 0)
    A = sp.csr_array(sp.block_diag([9 * np.eye(m) + 1 for m in (3, 5, 4)]))
    values, b = batch(A, 2), np.ones((2, 12))
    with device.use(Harness(seed=1, block=32)):
        sym = ms.analyze(A)
        close(sym.factor_batch(to_cuda(values)).solve(to_cuda(b)), sym.factor_batch(values).solve(b))
