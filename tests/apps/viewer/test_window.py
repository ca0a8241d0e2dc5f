"""The viewer's window off-screen, used with the mouse (see cases_window.py), and its errors without graphics."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.viewer import display
from meshsolve.errors import InvalidInputError

HERE = pathlib.Path(__file__).resolve().parent
NO_GRAPHICS = 77


def process(*command, **environment):
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, timeout=1200, cwd=HERE.parents[2],
                          env={**os.environ, **environment})


def needs_polyscope():
    try:
        import polyscope  # noqa: F401
    except ImportError as e:                                # not installed, or a library of X is missing
        pytest.skip(f"pip install polyscope: {e}")


@pytest.mark.slow
def test_everything_a_person_can_do_in_the_window():
    """Drawn where EGL is there; else the same actions without pictures."""
    needs_polyscope()
    for backend in ("openGL3_egl", "openGL_mock"):
        done = process("-m", "pytest", "-o", "addopts=", "-q", "-x", "-p", "no:cacheprovider", HERE / "cases_window.py",
                       MESHSOLVE_VIEWER_BACKEND=backend)
        if done.returncode != NO_GRAPHICS:
            break
    else:
        pytest.skip(f"nothing to draw with: {done.stdout.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " passed" in done.stdout and "skipped" not in done.stdout


@pytest.fixture
def ball(tmp_path):
    ms.datasets.icosphere(3).save(tmp_path / "ball.ply")
    return tmp_path / "ball.ply"


@pytest.mark.slow
def test_the_command_writes_pictures_without_a_display(ball, tmp_path):
    needs_polyscope()
    done = process("-m", "meshsolve", "view", ball, "--show", "patches", "--size", "320x200", "--screenshot", tmp_path / "a.png",
                   "--turntable", tmp_path / "turn", "--frames", 2, "--report", tmp_path / "r.json")
    if done.returncode == 1 and "no picture can be drawn" in done.stderr:
        pytest.skip(done.stderr)
    assert (done.returncode, done.stderr) == (0, "") and "642" in done.stdout
    assert "colors" in done.stdout and "patches" in done.stdout            # what the picture shows
    assert json.loads((tmp_path / "r.json").read_text())["vertices"] == 642
    from PIL import Image

    with Image.open(tmp_path / "a.png") as image:
        assert image.size == (320, 200) and len(np.unique(np.asarray(image).reshape(-1, 3), axis=0)) > 50
    assert sorted(p.name for p in (tmp_path / "turn").iterdir()) == ["frame_000.png", "frame_001.png"]


@pytest.mark.slow
@pytest.mark.parametrize("arguments, expected", [
    ([], "no window can be opened"), (["--screenshot", "{}/a.png"], "no picture can be drawn")])
def test_without_a_display_or_egl_one_line_says_so(ball, tmp_path, arguments, expected):
    needs_polyscope()
    hidden = {"DISPLAY": "", "WAYLAND_DISPLAY": "", "__EGL_VENDOR_LIBRARY_DIRS": str(tmp_path)}
    if sys.platform != "linux":
        pytest.skip("hides the display as Linux has it")
    done = process("-m", "meshsolve", "view", ball, *[a.format(tmp_path) for a in arguments], **hidden)
    assert done.returncode == 1 and done.stderr.startswith(f"meshsolve: error: {expected}") and done.stderr.count("\n") == 1
    assert not (tmp_path / "a.png").exists()


def test_without_polyscope_one_line_says_how_to_get_it(ball, tmp_path):
    (tmp_path / "hidden" / "polyscope").mkdir(parents=True)
    (tmp_path / "hidden" / "polyscope" / "__init__.py").write_text("raise ImportError('no polyscope here')\n")
    paths = os.pathsep.join([str(tmp_path / "hidden"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = process("-m", "meshsolve", "view", ball, "--screenshot", tmp_path / "a.png", PYTHONPATH=paths)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "pip install polyscope" in done.stderr


@pytest.mark.parametrize("options", [{"show": "everything"}, {"screenshot": "a.jpg"}, {"frames": 1}, {"turntable": "no/folder"}])
def test_bad_options_are_refused_before_any_window(ball, options, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("meshsolve.apps.viewer.window.Window.__init__", lambda *_: pytest.fail("a window was opened"))
    with pytest.raises(InvalidInputError):
        ms.apps.view(ball, **options)
    with pytest.raises(InvalidInputError, match="ball.ply has no separators: meshes below 5,000 vertices"):
        ms.apps.view(ball, show="separators", screenshot=tmp_path / "a.png")
    with pytest.raises(InvalidInputError, match="no faces"):
        ms.apps.view(ms.Mesh([[0, 0, 0]], []))


def test_a_quantity_that_polyscope_loses_is_made_again():
    class Structure:
        def __init__(self, failures, text):
            self.failures, self.text, self.quantities, self.calls = failures, text, set(), 0

        def add_color_quantity(self, name, values, enabled):
            self.calls += 1
            self.quantities.add(name)
            if self.calls <= self.failures:
                raise TypeError(self.text)

        def remove_quantity(self, name):
            self.quantities.remove(name)

    lost = Structure(2, display.LOST + " to a Python type!")
    display.add_quantity(lost, "add_color_quantity", "group", [1.0])
    assert lost.calls == 3 and lost.quantities == {"group''"}
    for structure in (Structure(99, display.LOST), Structure(1, "another fault")):
        with pytest.raises(TypeError):
            display.add_quantity(structure, "add_color_quantity", "group", [1.0])
    assert structure.calls == 1
