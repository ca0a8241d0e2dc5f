"""ms.solve with device="cuda": the host's solutions in the memory of b; on the kernel harness, and on a GPU with -m gpu."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness.strict import Array
from zoo import grid, spd

import meshsolve as ms
from meshsolve import device
from meshsolve.api import solving
from meshsolve.krylov import diagonal


def on_gpu(A):
    """A caller's array or matrix on the GPU."""
    if not sp.issparse(A):
        return device.to_device(A)
    A = sp.csr_array(A)
    return device.csr(*map(device.to_device, (A.data, A.indices.astype(np.int32), A.indptr.astype(np.int32))), A.shape)


LAPLACIAN = ms.datasets.grid2d(15, 14)
SYSTEMS = {
    "positive definite": (spd(grid(15, 12)), "cholesky", "auto"),
    "asked for": (spd(grid(15, 12)), "cholesky", "cholesky"),
    "dirichlet grid": (ms.datasets.grid2d(15, 14, boundary="dirichlet"), "cholesky", "auto"),
    "laplacian": (LAPLACIAN, "cholesky", "auto"),
    "laplacian, asked for": (LAPLACIAN, "cholesky", "cholesky"),
    "unsymmetric": (sp.csr_array(spd(grid(15, 12)) + 0.1 * sp.triu(grid(15, 12))), "lu", "auto"),
    "lu asked for": (spd(grid(15, 12)), "lu", "lu"),
    "parac asked for": (ms.datasets.grid3d(9, kind="log-uniform"), "parac", "parac"),
}


@pytest.mark.slow
@pytest.mark.parametrize("columns", [None, 3])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_solution_of_the_host_on_the_device_of_b(gpu, name, columns):
    A, method, asked = SYSTEMS[name]
    b = A @ np.random.default_rng(0).standard_normal((A.shape[0],) if columns is None else (A.shape[0], columns))
    expected, _ = ms.solve(A, b, asked, device="cpu")
    for matrix, rhs in ((on_gpu(A), on_gpu(b)), (A, on_gpu(b)), (on_gpu(A), b), (A, b)):
        x, info = ms.solve(matrix, rhs, asked, device="cuda")
        assert device.holds(x) == device.holds(rhs) and info.converged and info.method == method
        found = device.to_host(x)
        assert found.shape == b.shape and np.abs(found - expected).max() <= 1e-7 * np.abs(expected).max()
        assert np.linalg.norm(A @ found - b, axis=0).max() <= 1.1e-10 * np.linalg.norm(b, axis=0).max()
        assert info.report.facts["device"] == "cuda"


@pytest.mark.parametrize("name", SYSTEMS)
def test_device_cpu_returns_x_on_the_device_of_b(gpu, name):
    A, method, asked = SYSTEMS[name]
    b = A @ np.arange(A.shape[0])
    expected, _ = ms.solve(A, b, asked, device="cpu")
    x, info = ms.solve(on_gpu(A), on_gpu(b), asked, device="cpu")
    assert device.holds(x) and np.array_equal(device.to_host(x), expected) and info.method == method


def test_jacobi_and_factor_iterations_share_the_matrix(gpu, monkeypatch):
    """It is uploaded once."""
    A = SYSTEMS["parac asked for"][0]
    b, sizes, to_device = A @ np.arange(A.shape[0]), [], device.backend().to_device
    monkeypatch.setattr(device.backend(), "to_device", lambda array: (sizes.append(array.size), to_device(array))[1])
    _, info = ms.solve(A, b, "parac", device="cuda")
    assert info.method == "parac" and sizes.count(A.nnz) == 2           # indices and values


def test_auto_uses_the_gpu_if_an_input_is_on_it(gpu):
    A = spd(grid(9, 8))
    b = np.ones(72)
    for matrix, rhs in ((on_gpu(A), b), (A, on_gpu(b))):
        assert ms.solve(matrix, rhs)[1].report.facts["device"] == "cuda"
    assert ms.solve(A, b)[1].report.facts["device"] == "cpu"


def test_a_graph_without_separators_is_not_ordered_on_the_gpu(gpu, monkeypatch):
    """Nor on the host: its operations are estimated, and iterations are faster."""
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 6000, (2, 12_000))
    half = sp.coo_array((np.ones(12_000), ends), shape=(6000, 6000))
    L = sp.csgraph.laplacian(sp.csr_array(half + half.T))
    monkeypatch.setattr(solving, "analyze", None)
    x, info = ms.solve(L, b := L @ rng.standard_normal(6000), device="cuda")
    assert info.method in ("parac", "jacobi") and info.converged and np.linalg.norm(L @ x - b) <= 1.1e-10 * np.linalg.norm(b)


def count_as_large(monkeypatch, iteration):
    """Count small factors as large, and an iteration as ``iteration`` operations per entry."""
    for name in ("LARGE_FACTOR", "WORTH_A_TRIAL", "SMALL"):
        monkeypatch.setattr(solving, name, 1e-9)
    monkeypatch.setattr(diagonal, "ITERATION", iteration)


@pytest.mark.parametrize("columns", [None, 3, 5])
def test_other_definite_matrices_are_tried_with_the_diagonal(gpu, monkeypatch, columns):
    A = spd(grid(15, 12))
    b = np.random.default_rng(0).standard_normal((180,) if columns is None else (180, columns))
    for iteration, method in ((1e-6, "jacobi"), (1e9, "cholesky")):
        count_as_large(monkeypatch, iteration)
        expected, other = ms.solve(A, b, device="cpu", rtol=1e-13)
        for rhs in (b, on_gpu(b)):
            x, info = ms.solve(A, rhs, device="cuda", rtol=1e-13)
            assert info.method == other.method == method and info.converged and device.holds(x) == device.holds(rhs)
            assert info.report.facts["device"] == "cuda" and np.allclose(device.to_host(x), expected, rtol=1e-9, atol=1e-12)
            steps = info.report.facts["steps_taken"].split("; ")
            assert ("complete factor" in steps) == (method == "cholesky") and steps[0].startswith("first column, ") == (columns == 5)


def test_no_memory_for_a_factor_on_the_gpu(gpu, monkeypatch):
    def starved(*args, **options):
        raise ms.OutOfMemoryError("the factor needs 1 GiB")

    A = spd(grid(15, 12))
    monkeypatch.setattr(solving, "analyze", starved)
    for rhs in (np.ones(180), on_gpu(np.ones(180))):
        x, info = ms.solve(A, rhs, device="cuda")
        assert info.method == "jacobi" and info.converged and device.holds(x) == device.holds(rhs)
        assert info.report.facts["steps_taken"].startswith("complete factor: the factor needs 1 GiB; diagonal: ")


NOTHING = np.zeros((72, 0))
SINGULAR, REGULAR, SADDLES = ms.datasets.grid2d(9, 8), ms.datasets.grid2d(9, 8, boundary="dirichlet"), ms.datasets.kkt(52, 20)


@pytest.mark.parametrize("solve", [
    lambda b: ms.cg(REGULAR, b, M=ms.parac(REGULAR, device="cuda"))[0], lambda b: ms.cholesky(REGULAR, device="cuda").solve(b),
    lambda b: ms.cholesky(REGULAR, device="cuda", precision="mixed").solve(b), lambda b: ms.parac(SINGULAR, device="cuda").solve(b),
    lambda b: ms.cholesky(SINGULAR, device="cuda", pin=True).solve(b), lambda b: ms.cholesky(REGULAR, device="cuda", fixed=[1]).solve(b),
    lambda b: ms.lu(REGULAR, device="cuda").solve(b), lambda b: ms.lu(REGULAR, device="cuda", precision="single").solve(b),
    lambda b: ms.sqmr(SADDLES, b, M=ms.ildl(SADDLES, fill_level=1, device="cuda"))[0],
    lambda b: ms.ildl(SADDLES, device="cuda", fill_level=None, dtype=np.float32).solve(b),
    *[lambda b, A=A, method=method: ms.solve(A, b, method, device="cuda")[0] for A, method in
      ((REGULAR, "auto"), (REGULAR, "lu"), (SINGULAR, "auto"), (SINGULAR, "parac"))]])
def test_zero_right_hand_sides(gpu, solve):
    for b in (NOTHING, on_gpu(NOTHING)):
        x = solve(b)
        assert x.shape == (72, 0) and device.holds(x) == device.holds(b)


@pytest.mark.parametrize("name", ["positive definite", "unsymmetric", "complex", "indefinite"])
def test_a_factor_lies_on_the_requested_device(gpu, monkeypatch, name):
    """LU as well."""
    monkeypatch.setattr(device, "AUTO_SIZE", 1)
    A = spd(grid(15, 12))
    A = {"complex": A * 1j, "indefinite": A - 3 * sp.eye_array(180)}.get(name, SYSTEMS.get(name, [A])[0])
    on_gpu = "cuda" if name in ("positive definite", "unsymmetric") else "cpu"
    for asked, place in (("cpu", "cpu"), ("cuda", on_gpu), ("auto", on_gpu)):
        F = ms.factorized(A, device=asked)
        assert F.report.facts["device"] == place and np.abs(A @ F(A @ np.ones(180)) - A @ np.ones(180)).max() < 1e-10


@pytest.mark.parametrize("power", [-900, 900])
@pytest.mark.parametrize("method", ["cholesky", "lu", "parac"])
def test_right_hand_sides_whose_squares_overflow_or_underflow(gpu, method, power):
    A = spd(grid(9, 8))
    b = A @ np.arange(72.0) * 2.0**power
    x, info = ms.solve(A, b, method, device="cuda")
    assert info.converged and 0 < info.relative_residual < 1e-10 and np.allclose(x / 2.0**power, np.arange(72), atol=1e-7)


def test_complex_right_hand_sides(gpu):
    A = spd(grid(9, 8))
    b = A @ (np.arange(72.0) + 1j * np.arange(72.0)[::-1])
    for method, bound in (("auto", 1e-14), ("parac", 1e-10)):
        for rhs in (b, on_gpu(b)):
            x, info = ms.solve(A, rhs, method, device="cuda")
            assert info.relative_residual < bound and np.allclose(device.to_host(x), np.arange(72.0) + 1j * np.arange(72.0)[::-1])
            assert info.report.facts["device"] == "cuda" and device.holds(x) == device.holds(rhs)


def test_methods_without_gpu_are_refused_and_auto_uses_the_host(gpu):
    K, U = ms.datasets.kkt(30, 12), sp.csr_array(np.triu(np.ones((6, 6))))
    for A, method in ((K, "auto"), (K, "ildl"), (U * 1j, "auto"), (U * 1j, "lu")):
        b = A @ np.ones(A.shape[0])
        if device.backend().name == "harness":
            with pytest.raises(ms.DeviceUnavailableError, match="CPU"):
                ms.solve(A, b, method, device="cuda")
        for rhs in (b, on_gpu(b)):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                x, info = ms.solve(A, rhs, method)
            assert info.converged and device.holds(x) == device.holds(rhs)
    with pytest.raises(ms.NotPositiveDefiniteError):
        ms.solve(K, K @ np.ones(42), "cholesky", device="cuda")
    with pytest.raises(ms.NotSymmetricError):
        ms.solve(on_gpu(U), np.ones(6), "cholesky", device="cuda")
    with pytest.raises(ms.InvalidInputError, match="device must be"):
        ms.solve(K, np.ones(42), device="gpu")


def test_arrays_are_those_of_cupy(gpu):
    A = spd(grid(9, 8))
    x, _ = ms.solve(on_gpu(A), on_gpu(np.ones(72)))
    assert isinstance(x, Array if device.backend().name == "harness" else device.xp().ndarray)
