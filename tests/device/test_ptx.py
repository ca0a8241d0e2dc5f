"""The functions of device/ptx.cuh, as plain C++ on the harness and as instructions on a GPU, compared with numpy."""

import pathlib

import numpy as np
import pytest
from kernel_harness import Harness

from meshsolve import device

K = device.kernels(str(pathlib.Path(__file__).resolve().parents[1] / "kernel_harness" / "planted" / "ptx.cu"))


def run(name, grid, *arguments, dtype=np.float64):
    """Launch a kernel with blocks of 64 threads; returns its last argument."""
    arguments = [device.to_device(value) if isinstance(value, np.ndarray) else value for value in arguments]
    device.launch(getattr(K.of(dtype), name), grid, 64, 0, arguments)
    return device.to_host(arguments[-1])


def test_products_of_a_warp(gpu):
    if not isinstance(gpu, Harness) and not gpu.has_tensor_cores:
        pytest.skip("a GPU without fast tensor cores for float64")
    rng = np.random.default_rng(0)
    A, B, C = rng.standard_normal((6, 8, 4)), rng.standard_normal((6, 4, 8)), rng.standard_normal((6, 8, 8))
    A[1, 3] *= 1e200
    found = run("k_multiply", 3, A, B, C)
    assert (abs(found - (C + A @ B)) <= 2e-15 * (abs(C) + abs(A) @ abs(B))).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_copies_that_are_waited_for(gpu, dtype):
    numbers = np.random.default_rng(1).standard_normal(128).astype(dtype)
    for count in (0, 50, 64):
        found = run("k_copy", 1, np.int32(count), np.int32(0), numbers, np.empty(128, dtype), dtype=dtype)
        assert np.array_equal(found.reshape(2, 64)[:, ::-1], np.where(np.arange(64) < count, numbers.reshape(2, 64), 0))


@pytest.mark.parametrize("seed", [0, 1])
def test_the_harness_shows_a_missing_wait(seed):
    """Numbers of groups that were not waited for have not arrived, also where a GPU may be faster."""
    numbers = np.random.default_rng(2).standard_normal(128)
    with device.use(Harness(seed=seed)):
        for pending in (1, 2):
            found = run("k_copy", 1, np.int32(64), np.int32(pending), numbers, np.empty(128)).reshape(2, 64)
            assert [np.array_equal(row[::-1], given) for row, given in zip(found, numbers.reshape(2, 64))] == [pending < 2, False]
