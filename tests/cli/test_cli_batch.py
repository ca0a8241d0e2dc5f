"""meshsolve batch."""

import json

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.cli import main


@pytest.fixture
def folder(tmp_path):
    meshes = tmp_path / "meshes"
    meshes.mkdir()
    for k in (2, 3):
        ms.datasets.icosphere(k).save(meshes / f"sphere{k}.ply")
    return meshes


@pytest.mark.parametrize("task, extra, result", [("smooth", ["--strength", "0.5"], "sphere2.ply"), ("spectrum", ["-k", "5"], "sphere2.ply.npz"),
                                                 ("geodesics", ["--source", "3"], "sphere2.ply.npz")])
def test_tasks(folder, tmp_path, capsys, task, extra, result):
    out = tmp_path / "out"
    assert main(["batch", str(folder), "--do", task, "-o", str(out), "--threads", "1", *extra]) == 0
    assert "2 meshes, 0 failed" in capsys.readouterr().out and (out / result).is_file()
    rows = [json.loads(line) for line in (out / "rows.jsonl").read_text().splitlines()[1:]]
    assert [row["vertices"] for row in rows] == [162, 642] and all(row["error"] is None for row in rows)
    if task == "spectrum":
        assert np.allclose(np.load(out / result)["values"], rows[0]["eigenvalues"]) and len(rows[0]["eigenvalues"]) == 5
    if task == "geodesics":
        assert np.load(out / result)["distances"][3] == 0 and 3 < rows[0]["largest_distance"] < 3.3
    if task == "smooth":
        assert ms.load_mesh(out / result).volume == rows[0]["volume_after"]


@pytest.mark.filterwarnings("ignore::meshsolve.errors.MeshsolveWarning")
def test_the_task_may_come_first(folder, tmp_path, capsys):
    ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]).save(folder / "open.ply")
    out = tmp_path / "out"
    assert main(["batch", "smooth", str(folder), "-o", str(out), "--threads", "1"]) == 1
    assert "--boundary fixed must leave a vertex free" in capsys.readouterr().err and (out / "sphere3.ply").is_file()
    assert main(["batch", str(folder), "--do", "smooth", "-o", str(tmp_path / "free"), "--boundary", "free", "--threads", "1"]) == 0
    with pytest.raises(SystemExit, match="2"):
        main(["batch", "smooth", "-o", str(out)])
    assert "required: FOLDER" in capsys.readouterr().err


def test_a_damaged_mesh_is_named_and_the_run_goes_on(folder, tmp_path, capsys):
    (folder / "broken.ply").write_text("ply")
    out = tmp_path / "out"
    command = ["batch", str(folder), "--do", "smooth", "-o", str(out), "--threads", "1", "--quiet"]
    assert main(command) == 1
    assert "broken.ply: InvalidInputError" in capsys.readouterr().err and len(list(out.glob("*.ply"))) == 2
    ms.datasets.icosphere(2).save(folder / "broken.ply")
    assert main(command) == 0 and len(list(out.glob("*.ply"))) == 3
    assert main([*command, "--strength", "2"]) == 1 and "another pipeline" in capsys.readouterr().err


def test_wrong_folders(folder, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for arguments, message in ((["nowhere", "-o", str(tmp_path / "o")], "no such folder"), ([str(folder), "-o", str(folder)], "input folder"),
                               ([str(folder), "-o", str(tmp_path / "file")], "this is a file"),
                               ([str(folder), "-o", str(tmp_path / "no" / "o")], "No such file")):
        assert main(["batch", *arguments, "--do", "smooth", "--threads", "1"]) == 1
        assert message in capsys.readouterr().err
