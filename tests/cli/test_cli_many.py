"""Commands on several meshes, into a folder."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import meshsolve as ms


def three(folder):
    for k, kind in enumerate(("obj", "ply", "off")):
        ms.datasets.icosphere(2).save(folder / f"m{k}.{kind}")
    return [folder / f"m{k}.{kind}" for k, kind in enumerate(("obj", "ply", "off"))]


def test_several_meshes(run, folder):
    meshes, out = three(folder), folder / "out"
    code, text, err = run("smooth", *meshes, "-o", f"{out}/", "--report", f"{folder}/reports/")
    assert (code, err) == (0, "") and all(f"{mesh}:" in text for mesh in meshes)
    expected, report = ms.apps.smooth(ms.load_mesh(meshes[1]))
    assert sorted(path.name for path in out.iterdir()) == ["m0.obj", "m1.ply", "m2.off"]
    assert np.array_equal(ms.load_mesh(out / "m1.ply").vertices, expected.vertices)
    assert json.loads((folder / "reports" / "m1.json").read_text())["volume_after"] == report.facts["volume_after"]
    code, text, _ = run("spectrum", folder / "m?.*", "-o", out, "-k", 3, "--quiet")                  # a pattern, an existing folder
    assert (code, text) == (0, "") and sorted(path.name for path in out.glob("*.npz")) == ["m0.npz", "m1.npz", "m2.npz"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf8_are_printed_with_their_bytes(tmp_path):
    """Standard output is strict in UTF-8 locales."""
    names = [os.fsdecode(b"b\xff.obj"), "c.obj"]
    for name in names:
        ms.datasets.icosphere(1).save(tmp_path / name)
    command = [sys.executable, "-m", "meshsolve", "smooth", *names, "-o", "out/", "--strength", "0.001"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"})
    assert done.returncode == 0 and b"b\\udcff.obj:" in done.stdout and sorted(os.listdir(tmp_path / "out")) == sorted(names)


def test_one_mesh_into_a_folder(run, folder):
    assert run("smooth", folder / "ball.obj", "-o", f"{folder}/new/", "--quiet") == (0, "", "") and (folder / "new" / "ball.obj").is_file()


def test_a_mesh_that_fails_does_not_stop_the_others(run, folder):
    meshes = three(folder)
    meshes[1].write_text("ply")
    code, _, err = run("smooth", *meshes, "-o", f"{folder}/out/", "--quiet")
    assert code == 1 and f"{meshes[1]}: " in err and err.endswith("meshsolve: error: 1 mesh of 3 failed\n") and err.count("\n") == 2
    assert sorted(path.name for path in (folder / "out").iterdir()) == ["m0.obj", "m2.off"]


def test_bad_input(run, folder):
    meshes = three(folder)
    (folder / "other").mkdir()
    ms.datasets.icosphere(1).save(folder / "other" / "m0.obj")
    for arguments, message in (
            ([*meshes, "-o", folder / "x.ply"], "several meshes need a folder for --output"),
            ([*meshes, "-o", f"{folder}/out/", "--render", folder / "x.png"], "several meshes need a folder for --render"),
            ([meshes[0], folder / "other" / "m0.obj", "-o", f"{folder}/out/"], "result of two meshes"),
            ([folder / "no*.ply", "-o", f"{folder}/out/"], "no file matches")):
        code, _, err = run("smooth", *arguments)
        assert code == 1 and message in err and err.count("\n") == 1
    assert not (folder / "out").exists()


def test_completion(run, monkeypatch):
    import sys

    code, text, _ = run("completion", "bash")
    assert code == 0 and "geodesics" in text
    monkeypatch.setitem(sys.modules, "shtab", None)
    code, _, err = run("completion", "zsh")
    assert code == 1 and "pip install shtab" in err
