"""Undo and redo of a model, copies that are changed apart, and actions in a thread with progress and cancel."""

import threading

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.viewer import Model
from meshsolve.apps.viewer.history import KEPT, History
from meshsolve.apps.viewer.job import Job
from meshsolve.errors import InvalidInputError
from meshsolve.report import announce, count, warn

BALL = ms.datasets.icosphere(2)


def changed(model):
    """Make one change of each kind; yields the name of each after it."""
    model.pin(0, 2)
    yield "pin"
    handle = model.grab(100, 1)
    yield "handle"
    model.drag(handle, [0.0, 0.1, 0.2])
    yield "drag"
    model.use_edit(bending=0.5)
    yield "refactor"
    model.keep()
    yield "keep shape"
    model.step()
    yield "step"
    model.denoise(sigma=0.5)
    yield "denoise"
    model.reset()
    yield "reset shape"
    model.release()
    yield "release"


def test_every_change_is_undone_and_made_again():
    model, seen = Model(BALL), []
    for name in changed(model):
        assert model.history.last == name
        seen.append((name, model.mesh, model.editor.group, model.editor.transforms))
    for name, *after in reversed(seen):
        assert all(a is b for a, b in zip((model.mesh, model.editor.group, model.editor.transforms), after, strict=True))
        assert model.undo() == name
    assert model.mesh is BALL and (model.editor.group < 0).all() and model.undo() == "" and not model.history.done
    for name, *after in seen:
        assert model.redo() == name
        assert all(a is b for a, b in zip((model.mesh, model.editor.group, model.editor.transforms), after, strict=True))
    assert model.redo() == ""


@pytest.mark.parametrize("method", ["bi-Laplacian", "harmonic weights", "as rigid as possible"])
def test_a_drag_after_undo_is_the_drag_of_a_new_model(method):
    def prepared():
        model = Model(BALL)
        model.use_edit(method)
        model.pin(0, 2)
        model.grab(100, 1)
        return model

    model, other = prepared(), prepared()
    model.use_edit(bending=0.3)
    model.drag(1, [0.3, 0.0, 0.0])
    model.undo()
    model.undo()
    model.drag(1, [0.0, 0.2, 0.0])
    other.drag(1, [0.0, 0.2, 0.0])
    assert np.allclose(model.mesh.vertices, other.mesh.vertices, atol=1e-12)


def test_a_flow_after_undo_goes_on_from_the_earlier_surface():
    model, flow = Model(BALL), ms.apps.Flow(BALL)
    model.step()
    model.step()
    model.undo()
    model.step()
    for _ in range(2):
        flow.step(model.animation.dt)
    assert model.animation.steps == 2 and np.allclose(model.mesh.vertices, flow.mesh().vertices, atol=1e-12)


def test_a_file_that_was_loaded_is_undone(tmp_path):
    ms.datasets.icosphere(1).save(tmp_path / "small.obj")
    model = Model(BALL, "ball")
    model.show("patches", patch_size=50)
    model.load(tmp_path / "small.obj")
    assert model.name == "small.obj" and len(model.mesh.vertices) == 42
    model.undo()
    assert model.name == "ball" and model.mesh is model.original is BALL and model.patch_size == 50
    assert len(model.show("patches").values) == len(BALL.faces)
    with pytest.raises(InvalidInputError):
        model.load(tmp_path / "none.obj")
    assert model.history.next == "load" and not model.history.last


def test_a_failed_change_is_no_change():
    model = Model(BALL)
    with pytest.raises(InvalidInputError):
        model.denoise(sigma=0.0)
    with pytest.raises(InvalidInputError):
        model.pin(9999)
    assert not model.history.last


def test_changes_of_one_gesture_count_as_one_and_old_ones_are_forgotten():
    history = History()
    for k in range(3):
        history = history.record("drag", 7, {"k": k})
    assert len(history.done) == 1 and history.undo({})[1] == {"k": 0}
    history = history.record("drag", 8, {"k": 3})
    assert len(history.done) == 2
    for k in range(KEPT + 5):
        history = history.record("step", None, {"k": k})
    assert len(history.done) == KEPT and history.done[-1][2] == {"k": KEPT + 4}
    assert history.undo({})[0].record("other", None, {}).undone == ()


def test_a_copy_is_changed_apart_and_adopted():
    model = Model(BALL)
    model.pin(0, 2)
    model.grab(100, 1)
    model.drag(1, [0.1, 0.0, 0.0])
    mesh, group = model.mesh, model.editor.group
    trial = model.copy()
    trial.drag(1, [0.0, 0.5, 0.0])
    trial.use_edit(bending=0.1)
    trial.pin(50)
    trial.step()
    trial.measure(5)
    assert model.mesh is mesh and model.editor.group is group and model.editor.bending == 1 and model.animation.steps == 0
    assert model.view == "plain" and model.geometry.sources.tolist() == [0] and model.history.last == "drag"
    model.drag(1, [0.1, 0.0, 0.0])                          # the copies share a factor, which has other values now
    assert np.allclose(model.mesh.vertices, mesh.vertices, atol=1e-12)
    model.adopt(trial)
    assert model.mesh is trial.mesh and model.view == "distance" and model.history.last == "step"


# ---- jobs -------------------------------------------------------------------------------------------------------------


def test_a_job_returns_its_result_and_warnings():
    def work():
        warn("first", ms.MeshsolveWarning)
        warn("second", ms.MeshsolveWarning)
        warn("first", ms.MeshsolveWarning)
        return 7

    job = Job("sum", work)
    assert job.wait() and not job.is_running and (job.result, job.error, job.warnings) == (7, "", "first; second")


@pytest.mark.parametrize("error, text", [(InvalidInputError("two\nlines"), "two lines"), (FileNotFoundError("no file"), "no file"),
                                         (MemoryError(), "work: not enough memory"), (ZeroDivisionError("by 0"), "ZeroDivisionError: by 0")])
def test_a_job_that_fails_has_an_error_of_one_line(error, text):
    def work():
        raise error

    job = Job("work", work)
    assert job.wait() and job.result is None and job.error == text


def test_progress_and_cancel_of_a_job():
    seen = threading.Event()

    def work():
        announce("numeric")
        while True:
            count(3, 4)
            seen.set()

    job = Job("endless", work)
    assert seen.wait(60)
    assert job.phase == "numeric" and job.share == 0.75 and job.is_running and not job.wait(0.0)
    job.cancel()
    assert job.wait(60) and job.is_canceled and job.error == "endless: canceled, nothing has changed"


def test_native_work_is_canceled_at_its_next_phase_and_the_model_stays():
    model, trial = Model(ms.datasets.scan_like(3000)), None
    mesh, began, go_on = model.mesh, threading.Event(), threading.Event()
    trial = model.copy()

    def work():
        trial.step()
        began.set()
        go_on.wait(60)
        trial.step()

    job = Job("steps", work)
    assert began.wait(60)
    job.cancel()
    go_on.set()
    assert job.wait(60) and "canceled" in job.error and model.mesh is mesh
    model.step()
    assert np.array_equal(model.mesh.vertices, ms.apps.mcf(mesh)[0].vertices)
