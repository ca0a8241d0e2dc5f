"""The flows with device="cuda" compared with the host, on stand-ins for CuPy, and on a GPU with -m gpu."""

import numpy as np
import pytest
from kernel_harness.strict import Strict

import meshsolve as ms
from meshsolve import device
from meshsolve.apps import mcf, smooth
from meshsolve.apps.mcf import METHODS, Flow
from meshsolve.errors import InvalidInputError, MeshsolveWarning

pytestmark = pytest.mark.filterwarnings("ignore:the surface has collapsed")         # many of these flows give warnings


def noisy(k=2, unused=True):
    """A bumpy sphere of radius 3 far from the origin, with an unreferenced vertex."""
    sphere = ms.datasets.icosphere(k)
    x = 3 * sphere.vertices * (1 + 0.1 * np.random.default_rng(0).standard_normal((len(sphere.vertices), 1))) + 50
    return ms.Mesh(np.concatenate([x, [[1, 2, 3]]]) if unused else x, sphere.faces)


def check(run, bound=1e-12):
    """Compare a call on both devices; return the mesh and the report of the GPU."""
    (on_host, report), (on_gpu, other) = (run(place) for place in ("cpu", "cuda"))
    size = np.abs(on_host.vertices).max()
    assert np.abs(on_host.vertices - on_gpu.vertices).max() <= bound * size and np.array_equal(on_host.faces, on_gpu.faces)
    assert report.facts.keys() <= other.facts.keys() and other.facts["device"] == "cuda"
    assert other.facts["residual"] < 1e-14
    common = {"steps", "dt", "area_before", "area_after", "strength"} & report.facts.keys()
    assert {name: report.facts[name] for name in common} == pytest.approx({name: other.facts[name] for name in common}, rel=1e-12)
    return on_gpu, other


@pytest.mark.parametrize("options", [{}, {"conformal": True}, {"dt": 0.05}, pytest.param({"precision": "mixed"}, marks=pytest.mark.slow)], ids=str)
def test_mean_curvature_flow(any_backend, options):
    mesh, seen = noisy(), []
    out, _ = check(lambda place: mcf(mesh, steps=3, device=place, callback=lambda k, m: seen.append((k, m.vertices)), **options))
    assert np.array_equal(out.vertices[-1], [1, 2, 3])
    assert [k for k, _ in seen] == 2 * [1, 2, 3]
    assert all(np.allclose(a, b, rtol=1e-12) for (_, a), (_, b) in zip(seen[:3], seen[3:]))


@pytest.mark.parametrize("method", METHODS)
def test_flows_stepped_by_hand(any_backend, method):
    on_host, on_gpu = (Flow(noisy(), method, device=place) for place in ("cpu", "cuda"))
    dt = on_gpu.automatic_step()
    assert on_gpu.place == "cuda" and dt == pytest.approx(on_host.automatic_step(), rel=1e-12)
    assert on_gpu.step(dt) and on_gpu.step(2 * dt) and on_host.step(dt) and on_host.step(2 * dt)
    last = on_gpu.mesh().vertices
    assert np.abs(last - on_host.mesh().vertices).max() < 1e-9
    assert on_gpu.finish().facts["steps"] == 2 and on_gpu.report.facts["residual"] < 1e-14 and on_gpu.seconds()["numeric"] > 0
    if method == "mean curvature":
        assert not on_gpu.step(1e30) and np.array_equal(on_gpu.mesh().vertices, last)


@pytest.mark.parametrize("method, has_border", [*((method, False) for method in METHODS), ("mean curvature", True)])
def test_captured_steps_have_the_bits_of_plain_calls(monkeypatch, method, has_border):
    """The second step is captured and the later ones launch it, with the fixed vertices of a border too."""
    def run():
        with device.use(Strict()):
            flow = Flow(plane(9) if has_border else noisy(unused=False), method, device="cuda")
            dt = flow.automatic_step()
            steps = [flow.step(dt * scale) for scale in (1, 2, 0.5, 1)]
            assert flow.finish().facts["residual"] < 1e-14
            return flow, [*steps, flow.step(1e30)], flow.mesh().vertices

    flow, steps, vertices = run()
    monkeypatch.setattr(ms.CholeskyFactor, "can_be_captured", False)
    plain, same_steps, same = run()
    assert flow.captured is not None and plain.captured is None
    assert np.array_equal(vertices, same) and steps == same_steps and steps[:4] == 4 * [True]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("strength", [0, 1, 100])
def test_smoothing(any_backend, order, strength):
    check(lambda place: smooth(noisy(), strength, order=order, device=place), 1e-10)


def plane(k):
    """A bumpy height field of k x k vertices."""
    i = np.arange(k * k).reshape(k, k)
    a, b, c, d = (part.ravel() for part in (i[:-1, :-1], i[:-1, 1:], i[1:, :-1], i[1:, 1:]))
    x = np.column_stack([*np.indices((k, k)).reshape(2, -1), np.random.default_rng(0).standard_normal(k * k)])
    return ms.Mesh(x, np.concatenate([np.stack([a, c, d], 1), np.stack([a, d, b], 1)]))


@pytest.mark.slow
def test_arrays_stay_on_the_device():
    """On a mesh large enough for nested dissection on the GPU, a flow copies only its result and makes one set of patches."""
    mesh = plane(71)
    with device.use(Strict()) as strict:
        for call in (lambda: mcf(mesh, steps=2, device="cuda"), lambda: smooth(mesh, device="cuda")):
            strict.comes_back.clear()
            strict.launches.clear()
            _, report = call()
            large = [size for size in strict.comes_back if size > len(mesh.vertices)]      # fewer: three numbers of each front
            assert large == [mesh.vertices.size]
            count = strict.launches
            assert count["k_lloyd"] == count["k_lay_out"] == count["k_divide"] == 1 and "k_seed" not in count
            assert count["k_laplacian"] == 1 + report.facts.get("steps", 0) and report.facts["num_patches"] > 60


def test_hostile_meshes_fail_as_on_the_cpu(any_backend):
    flat = ms.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]])
    for mesh in (flat, ms.Mesh(np.eye(3), np.zeros((0, 3), int))):
        for call in (mcf, smooth):
            with pytest.raises(InvalidInputError, match="nothing to smooth"):
                call(mesh, device="cuda")
    with pytest.warns(MeshsolveWarning, match="shrank to nothing"):
        mcf(noisy(1), steps=3, dt=1e30, device="cuda")


def test_the_error_without_a_gpu_names_packages():
    if device.available():
        pytest.skip("there is a GPU")
    for call in (mcf, smooth):
        with pytest.raises(ms.DeviceUnavailableError):
            call(noisy(1), device="cuda")
