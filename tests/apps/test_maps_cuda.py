"""Maps, deformations and skinning weights whose factors lie on the GPU, compared with the host."""

import numpy as np
import pytest
from test_maps import ALL, grid, hill

import meshsolve as ms
from meshsolve import device

MESH = grid(14, 10, hill)
CALLS = [lambda place: ms.apps.parameterize(MESH, device=place), lambda place: ms.apps.Deformation(MESH, [0], device=place),
         lambda place: ms.apps.skinning_weights(MESH, [0], device=place)]


@pytest.mark.parametrize("method", ALL)
def test_maps(gpu, method):
    (uv, report), (other, on_gpu) = (ms.apps.parameterize(MESH, method=method, iterations=8, device=place) for place in ("cpu", "cuda"))
    assert abs(uv - other).max() < 1e-9 and report.iterations == on_gpu.iterations
    assert report.energy == on_gpu.energy or np.isclose(report.energy, on_gpu.energy, rtol=1e-9)


@pytest.mark.parametrize("method", ["arap", "bilaplacian", "poisson"])
def test_deformations(gpu, method):
    handles = [0, 9, 139]
    at = MESH.vertices[handles] + [[0, 0, 0.3], [0.1, 0, 0], [0, 0, 0]]
    here, there = (ms.apps.Deformation(MESH, handles, method=method, device=place) for place in ("cpu", "cuda"))
    for _ in range(2):
        assert abs(here.move(at).vertices - there.move(at).vertices).max() < 1e-9
    assert (here.report.facts["device"], there.report.facts["device"]) == ("cpu", "cuda")


def test_skinning_weights(gpu):
    here, there = (ms.apps.skinning_weights(MESH, [0, 139], device=place) for place in ("cpu", "cuda"))
    assert abs(here - there).max() < 1e-8


def test_the_error_without_a_gpu_names_packages():
    if device.available():
        pytest.skip("there is a GPU")
    for call in CALLS:
        with pytest.raises(ms.DeviceUnavailableError, match="CuPy"):
            call("cuda")
