"""Where real data lies, if it is there: MESHSOLVE_DATA, else a folder shared/data beside the checkout."""

import os
import pathlib
import signal
import sys

import pytest
from hypothesis import HealthCheck, settings
from kernel_harness import Harness
from kernel_harness.strict import Strict

from meshsolve import device

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))     # last: for `benchmarks`, not for the source of meshsolve

ANY_SPEED = dict(deadline=None, suppress_health_check=[HealthCheck.too_slow])                # no test depends on how fast the machine is
settings.register_profile("meshsolve", max_examples=40, derandomize=True, **ANY_SPEED)
settings.register_profile("random", max_examples=400, **ANY_SPEED)       # --hypothesis-profile=random: other examples in each run
settings.load_profile("meshsolve")


def find_data():
    """The folder of real meshes and matrices (with an INDEX.csv), or None."""
    beside = pathlib.Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
    folder = pathlib.Path(os.environ.get("MESHSOLVE_DATA", beside)).resolve()
    return folder if (folder / "INDEX.csv").is_file() else None


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:       # started in the background by a shell: the tests press Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def data_dir():
    """The folder of real data; the test is skipped where there is none."""
    folder = find_data()
    if folder is None:
        pytest.skip("no folder of real meshes and matrices: set MESHSOLVE_DATA")
    return folder


@pytest.fixture(params=["harness", pytest.param("gpu", marks=pytest.mark.gpu)])
def cuda(request):
    """The CUDA paths run: on the kernel harness with arrays as strict as CuPy's, and with ``-m gpu`` on a GPU. Gives the Strict,
    or None."""
    if request.param == "harness":
        with device.use(Strict(block=64)) as harness:
            yield harness
    elif device.available():
        yield None
    else:
        pytest.skip("no GPU")


@pytest.fixture(params=["harness", pytest.param("gpu", marks=pytest.mark.gpu)])
def gpu(request):
    """As ``cuda``, with the block sizes that the launches ask for; gives what `device` runs on."""
    if request.param == "gpu":
        if not device.available():
            pytest.skip("no GPU")
        yield device.backend()
    else:
        with device.use(Strict()) as harness:
            yield harness


@pytest.fixture(params=["harness", "strict", pytest.param("gpu", marks=pytest.mark.gpu)])
def any_backend(request):
    """As ``gpu``, on numpy's arrays too: for code whose array expressions are to run on both. Gives the harness, or None."""
    if request.param == "gpu":
        if not device.available():
            pytest.skip("no GPU")
        yield None
    else:
        with device.use({"harness": Harness, "strict": Strict}[request.param]()) as harness:
            yield harness


@pytest.fixture(params=[dict(seed=1, block=32), pytest.param(dict(seed=2, block=96, resident=4), marks=pytest.mark.slow),
                        pytest.param(dict(seed=3), marks=pytest.mark.slow)], ids=str)
def varied(request):
    """The harness with other block sizes (without: the kernel's own), more blocks at once, threads drawn at random."""
    with device.use(Harness(**request.param)) as harness:
        yield harness


@pytest.fixture
def short_grids(monkeypatch):
    """Kernels get one block of 32 threads for all their items, a launch of fronts a warp for four of them: their loops go around, as
    for matrices of more entries than a grid has threads. Not for kernels by tiles, which need their 256 threads."""
    whole = device.grid_for
    monkeypatch.setattr(device, "grid_for", lambda items, block, most=1: whole(items, block, 1))
    with device.use(Harness(seed=1, block=32)) as harness:
        yield harness
