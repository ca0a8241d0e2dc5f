"""Fixtures: backends of the CUDA paths, and the folder of real data (MESHSOLVE_DATA, or ../shared/data relative to the checkout)."""

import gc
import importlib.util
import os
import pathlib
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings
from kernel_harness import Harness
from kernel_harness.strict import Strict

from meshsolve import device
from meshsolve.factor.symbolic import location

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))     # for `benchmarks`; last: meshsolve as installed

ANY_SPEED = dict(deadline=None, suppress_health_check=[HealthCheck.too_slow])                # tests must not depend on the machine's speed
settings.register_profile("meshsolve", max_examples=40, derandomize=True, **ANY_SPEED)
settings.register_profile("random", max_examples=400, **ANY_SPEED)       # --hypothesis-profile=random: new examples in each run
settings.load_profile("meshsolve")
# The variants of tests on a GPU. Without CuPy, nearly a thousand tests would only be skipped.
GPU = [pytest.param("gpu", marks=pytest.mark.gpu)] if importlib.util.find_spec("cupy") else []


def find_data():
    """Return the folder of real meshes and matrices (with an INDEX.csv), or None."""
    default = pathlib.Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    folder = pathlib.Path(os.environ.get("MESHSOLVE_DATA", default)).resolve()
    return folder if (folder / "INDEX.csv").is_file() else None


location.ON_HOST_BELOW = 0                                  # small matrices test the analysis on the GPU

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:       # shells ignore SIGINT in background jobs, but tests send it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish():
    """Garbage collections during the tests leave out the objects of modules and of 8,000 collected tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real data; the test is skipped without it."""
    folder = find_data()
    if folder is None:
        pytest.skip("no folder of real meshes and matrices: set MESHSOLVE_DATA")
    return folder


@pytest.fixture(params=["harness", *GPU])
def cuda(request):
    """Run CUDA paths on the kernel harness with strict arrays, and with ``-m gpu`` on a GPU. Yields the Strict, or None on a GPU."""
    if request.param == "harness":
        with device.use(Strict(block=64)) as harness:
            yield harness
    elif device.available():
        yield None
    else:
        pytest.skip("no GPU")


@pytest.fixture(params=["harness", *GPU])
def gpu(request):
    """As ``cuda``, with the block sizes of the launches. Yields the backend."""
    if request.param == "gpu":
        if not device.available():
            pytest.skip("no GPU")
        yield device.backend()
    else:
        with device.use(Strict()) as harness:
            yield harness


@pytest.fixture(params=["harness", "strict", *GPU])
def any_backend(request):
    """As ``gpu``, and with numpy arrays, for array expressions that must run on both. Yields the harness, or None on a GPU."""
    if request.param == "gpu":
        if not device.available():
            pytest.skip("no GPU")
        yield None
    else:
        with device.use({"harness": Harness, "strict": Strict}[request.param]()) as harness:
            yield harness


@pytest.fixture(params=[dict(seed=1, block=32), pytest.param(dict(seed=2, block=96, resident=4), marks=pytest.mark.slow),
                        pytest.param(dict(seed=3), marks=pytest.mark.slow)], ids=["narrow", "crowded", "as-launched"])
def varied(request):
    """The harness with other block sizes, more blocks at once, and random schedules. AddressSanitizer skips the second, the others the last."""
    with device.use(Harness(**request.param)) as harness:
        yield harness


@pytest.fixture
def short_grids(monkeypatch):
    """Launch one block of 32 threads for all items, so that grid-stride loops iterate as for very large matrices.

    Not for kernels by tiles, which need 256 threads.
    """
    grid_for = device.grid_for
    monkeypatch.setattr(device, "grid_for", lambda items, block, most=1: grid_for(items, block, 1))
    with device.use(Harness(seed=1, block=32)) as harness:
        yield harness
