"""Flows made step by step equal the call that makes all steps, with changed settings in between."""

import warnings

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.viewer import Model
from meshsolve.apps.viewer.animation import Animation
from meshsolve.apps.viewer.timings import Timings
from meshsolve.datasets import icosphere, scan_like
from meshsolve.errors import DeviceUnavailableError, InvalidInputError, MeshsolveError

SCAN = scan_like(2500)


@pytest.mark.parametrize("conformal", [False, True])
def test_steps_are_those_of_mcf(conformal):
    animation = Animation(SCAN)
    animation.use("conformalized" if conformal else "mean curvature")
    for _ in range(3):
        animation.step()
    whole, report = ms.apps.mcf(SCAN, steps=3, conformal=conformal)
    assert np.array_equal(animation.mesh.vertices, whole.vertices) and animation.steps == 3
    assert animation.dt == report.facts["dt"] and animation.report.seconds.keys() == report.seconds.keys()


def test_another_time_step_refactors():
    animation = Animation(SCAN)
    first = animation.step()
    animation.use(strength=5.0)
    second = animation.step()
    auto = ms.apps.mcf(SCAN)[1].facts["dt"]
    assert np.allclose(second.vertices, ms.apps.mcf(first, dt=5 * auto)[0].vertices, atol=1e-12)
    assert animation.report.seconds["numeric"] > 0 and animation._flow.report.facts["steps"] == 2


def test_the_conformalized_flow_goes_on_when_the_step_changes_and_begins_anew_with_the_method():
    animation = Animation(SCAN)
    animation.use("conformalized")
    animation.step()
    flow = animation._flow
    animation.use(strength=2.0)
    animation.step()
    assert animation._flow is flow and flow.report.facts["steps"] == 2
    animation.use("bi-Laplacian")
    animation.step()
    assert animation._flow is not flow


def test_the_bilaplacian_flow_takes_noise_and_keeps_volume():
    ball = icosphere(4)
    noise = 0.02 * np.random.default_rng(0).standard_normal((len(ball.vertices), 1))
    animation = Animation(ball.with_vertices(ball.vertices * (1 + noise)))
    animation.use("bi-Laplacian", strength=3.0)
    for _ in range(3):
        x = animation.step().vertices
    radius = np.linalg.norm(x, axis=1)
    assert radius.std() < 0.006 and radius.mean() == pytest.approx(1, abs=0.002)


@pytest.mark.parametrize("options, error", [({"method": "none"}, InvalidInputError), ({"strength": 0}, InvalidInputError),
                                            ({"strength": np.inf}, InvalidInputError), ({"device": "tpu"}, InvalidInputError)])
def test_bad_settings_change_nothing(options, error):
    animation = Animation(SCAN)
    before = animation.method, animation.strength, animation.device
    with pytest.raises(error):
        animation.use(**options)
    assert before == (animation.method, animation.strength, animation.device)


def test_a_gpu_that_is_not_there_is_said_and_the_flow_goes_on_without():
    if ms.device.available():
        pytest.skip("there is a GPU")
    model = Model(SCAN)
    model.animation.use(device="cuda")
    with pytest.raises(DeviceUnavailableError):
        model.step()
    assert model.mesh is SCAN and len(model.timings) == 0
    model.animation.use(device="cpu")
    model.step()
    assert model.animation.steps == 1


def test_a_step_that_would_end_the_surface_leaves_it():
    animation = Animation(icosphere(2))
    animation.use(strength=1e18)
    animation.running = True
    before = animation.mesh
    with pytest.raises(MeshsolveError, match="shrink the surface to a point"):
        animation.step()
    assert animation.mesh is before and not animation.running and animation.steps == 0
    animation.use(strength=1.0)
    assert np.array_equal(animation.step().vertices, ms.apps.mcf(icosphere(2))[0].vertices)


def test_a_flow_that_mcf_ends_with_a_warning_is_the_same_surface():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        end, _ = ms.apps.mcf(icosphere(2), steps=200, dt=0.02)
    animation = Animation(icosphere(2))
    animation.use(strength=0.02 / animation.dt)
    with pytest.raises(MeshsolveError):
        for _ in range(200):
            animation.step()
    assert np.allclose(animation.mesh.vertices, end.vertices, atol=1e-9)


def test_timings_keep_the_last_actions_and_leave_out_failures():
    timings, clock = Timings(kept=3), {"solve": 0.0}
    with pytest.raises(ZeroDivisionError), timings.measure("fails"):
        _ = 1 / 0
    assert len(timings) == 0 and timings.last == ""
    for k in range(5):
        with timings.measure("step", lambda: dict(clock)):
            clock["solve"] += k
            clock[f"phase {k}"] = 0.5
    assert len(timings) == 3 and timings.phases("step")["solve"].tolist() == [2, 3, 4]
    assert timings.phases("step")["phase 4"].tolist() == [0, 0, 0.5] and len(timings.seconds("step")) == 3
    assert timings.last.startswith("step:") and "solve 4000.0" in timings.last and timings.phases("other") == {}


def test_flows_and_edits_on_the_device(cuda):
    """The factor is on the GPU, the surface is copied to the host: the same steps and drags up to rounding."""
    mesh = icosphere(1)
    here, there = Model(mesh), Model(mesh)
    there.animation.use(device="cuda")
    there.editor.device = "cuda"
    for model in (here, there):
        model.step()
        model.pin(0, 1)
        model.drag(model.grab(30), [0.1, 0.2, 0.3])
        model.use_edit(bending=0.4)
    assert isinstance(there.mesh.vertices, np.ndarray) and there.editor._factor.report.facts["device"] == "cuda"
    assert np.allclose(there.mesh.vertices, here.mesh.vertices, atol=1e-10)
    assert np.abs(here.mesh.vertices - mesh.vertices).max() > 0.1


def test_a_mesh_without_extent_can_be_looked_at_and_not_smoothed():
    point = Model(ms.Mesh(np.zeros((3, 3)), [[0, 1, 2]]))
    assert np.isnan(point.animation.dt)
    for method in ("mean curvature", "conformalized", "bi-Laplacian"):
        point.animation.use(method)
        with pytest.raises(InvalidInputError, match="no face with an area"):
            point.step()
    assert point.show("patches").values.shape == (1, 3)
