"""Pipelines on many meshes: a row for each in any case, and runs that continue after a stop."""

import functools
import json
import os
import re
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.batch import rows


@pytest.fixture
def folder(tmp_path):
    meshes = tmp_path / "meshes"
    meshes.mkdir()
    for k in range(6):
        ms.datasets.icosphere(k % 3).save(meshes / f"m{k}.ply")
    (meshes / "m3.ply").write_bytes((meshes / "m3.ply").read_bytes()[:150])
    (meshes / "notes.txt").write_text("no mesh")
    return meshes


def volume(mesh):
    return {"volume": mesh.volume, "size": len(mesh.vertices), "areas": mesh.face_areas[:2]}


def without_time(table):
    return [{key: value for key, value in row.items() if key not in ("seconds", "worker")} for row in table]


def test_a_row_for_each_mesh(folder):
    table = ms.batch.meshes(folder, volume, client=False)
    assert [os.path.basename(row["path"]) for row in table] == [f"m{k}.ply" for k in range(6)]
    assert len(table.failed) == 1 and table.failed[0] is table[3] and "InvalidInputError: " in table[3]["error"]
    assert table.column("size") == [12, 42, 162, None, 42, 162] and table[1]["volume"] == ms.load_mesh(folder / "m1.ply").volume
    assert all(row["seconds"] > 0 for row in table) and isinstance(table[0]["areas"], list) and "6 rows, 1 failed" in repr(table)
    assert len(ms.batch.meshes([folder / "m1.ply"], volume, client=False)) == 1
    with pytest.raises(ms.InvalidInputError, match="no row has 'x'; there are areas"):
        table.column("x")


def factored(mesh):
    F = ms.cholesky(ms.cotan_laplacian(mesh), pin=True, ordering="nd")
    return {"was_ordered": "order" in F.report.seconds, "x": F.solve(mesh.vertices[:, 0] - mesh.vertices[:, 0].mean())}


def test_meshes_of_the_same_faces_are_ordered_once(tmp_path):
    meshes = [ms.datasets.icosphere(2), ms.datasets.icosphere(3)]
    for k in range(6):
        mesh = meshes[k % 2]
        ms.Mesh(mesh.vertices * (1 + 0.1 * k), mesh.faces).save(tmp_path / f"{k}.ply")
    table = ms.batch.meshes(tmp_path, factored, client=False)
    assert table.column("was_ordered") == [True, True, False, False, False, False]
    assert ms.batch.meshes(tmp_path, factored, client=False).column("was_ordered")[:3] == [True, True, False]   # nothing is left of a run
    assert all(row["x"] == factored(ms.load_mesh(row["path"]))["x"].tolist() for row in table)


@pytest.mark.parametrize("pipeline, error", [
    (lambda mesh: 1 / 0, "ZeroDivisionError: division by zero"), (lambda mesh: 3, "TypeError: the pipeline must return a dict, got int"),
    (lambda mesh: {"path": 1}, "ValueError: .*names other than path"), (lambda mesh: {1: 1}, "ValueError"),
    (lambda mesh: {"mesh": mesh}, "TypeError: the pipeline's value 'mesh' must be a number.*got Mesh"), (lambda mesh: sys.exit(4), "SystemExit: 4"),
])
def test_errors_of_a_pipeline(folder, pipeline, error):
    pytest.importorskip("cloudpickle")
    (row,) = ms.batch.meshes([folder / "m0.ply"], pipeline, client=False)
    assert row["error"] is not None
    assert re.match(error, row["error"])


def test_a_killed_run_continues(folder, tmp_path):
    out = tmp_path / "rows.jsonl"
    first = ms.batch.meshes(folder, volume, client=False, out=out)
    lines = out.read_bytes().split(b"\n")
    assert len(lines) == 8 and json.loads(lines[0])["pipeline"] and json.loads(lines[1])["path"].endswith("m0.ply")
    out.write_bytes(b"\n".join(lines[:3]) + b"\n" + lines[3][:20])                    # killed in the middle of a line
    seen = []
    with ms.showing_progress(lambda phase, done, total: seen.append((phase, done, total))):
        again = ms.batch.meshes(folder, volume, client=False, out=out)
    assert without_time(again) == without_time(first) and again[0]["seconds"] == first[0]["seconds"]
    assert seen == [("meshes", 0, 0)] + [("meshes", done, 6) for done in (3, 4, 5, 6)]
    size = len(out.read_bytes())
    assert without_time(ms.batch.meshes(folder, volume, client=False, out=out, again="none")) == without_time(first)
    assert len(out.read_bytes()) == size
    ms.datasets.icosphere(1).save(folder / "m3.ply")
    assert not ms.batch.meshes(folder, volume, client=False, out=out).failed            # errors are tried again
    assert not ms.batch.meshes(folder, volume, client=False, out=out, again="all").failed and out.read_bytes().count(b"\n") == 7


def test_files_of_other_pipelines_are_refused(folder, tmp_path):
    out = tmp_path / "rows.jsonl"
    ms.batch.meshes(folder, volume, client=False, out=out)
    before = out.read_bytes()
    for wrong, message in ((lambda mesh: {}, "another pipeline"), (None, "function of a Mesh")):
        with pytest.raises(ms.InvalidInputError, match=message):
            ms.batch.meshes(folder, wrong, client=False, out=out)
    assert out.read_bytes() == before
    out.write_bytes(before + b"{\n")
    with pytest.raises(ms.InvalidInputError, match="rows.jsonl:8: the line is not JSON"):
        ms.batch.meshes(folder, volume, client=False, out=out)
    out.write_bytes(before + b"[1]\n")
    with pytest.raises(ms.InvalidInputError, match="rows.jsonl:8: the line is not a row"):
        ms.batch.meshes(folder, volume, client=False, out=out)


def test_bad_input(folder, tmp_path):
    def call(paths=folder, pipeline=volume, **options):
        return ms.batch.meshes(paths, pipeline, **{"client": False} | options)

    (tmp_path / "empty").mkdir()
    for options, message in [
        ({"paths": tmp_path / "nowhere"}, "no such folder"), ({"paths": tmp_path / "empty"}, "has no mesh file"), ({"paths": []}, "no mesh file"),
        ({"paths": 3}, "folder or a list"), ({"paths": [folder / "m0.ply"] * 2}, "m0.ply is in paths twice"), ({"paths": [3]}, "file name"),
        ({"again": "never"}, "again"), ({"retries": -1}, "retries"), ({"client": "x"}, "distributed.Client"), ({"client": 0}, "client"), ({"out": tmp_path / "no" / "r"}, "written"),
        ({"pipeline": threading.Lock().acquire, "client": 1}, "cannot be sent to other processes.*client=False"),
    ]:
        if "client" in options:
            pytest.importorskip("distributed")
        with pytest.raises(ms.InvalidInputError, match=message):
            call(**options)


def test_without_dask(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ms.InvalidInputError, match=r'pip install "meshsolve\[batch\]", or pass client=False'):
        ms.batch.meshes(folder, volume)


def test_pipelines_that_take_the_path(folder, tmp_path):
    def named(mesh, path, factor=2):
        return {"name": os.path.basename(path), "scaled": factor * len(mesh.faces)}

    table = ms.batch.meshes([folder / "m0.ply"], functools.partial(named, factor=3), client=False, out=tmp_path / "rows.jsonl")
    assert table[0]["name"] == "m0.ply" and table[0]["scaled"] == 60
    with pytest.raises(ms.InvalidInputError, match="another pipeline"):                  # of other arguments
        ms.batch.meshes([folder / "m0.ply"], functools.partial(named, factor=4), client=False, out=tmp_path / "rows.jsonl")


def test_plain_values():
    assert rows.plain({"a": np.float32(2), "b": (np.arange(2), None, True)}, "x") == {"a": 2.0, "b": [[0, 1], None, True]}


# ---- Dask ---------------------------------------------------------------------------------------------------------------


def hostile(mesh):
    n = len(mesh.vertices)
    if n == 42:
        os._exit(9)                                             # the worker dies

    class OwnError(Exception):                                  # a class that the caller cannot unpickle
        pass

    if n == 162:
        raise OwnError("of its own")
    return {"threads": os.environ.get("MESHSOLVE_NUM_THREADS"), "pid": os.getpid()}


@pytest.mark.slow
def test_no_mesh_is_lost_when_workers_die(folder, tmp_path):
    pytest.importorskip("distributed")
    table = ms.batch.meshes(folder, hostile, out=tmp_path / "rows.jsonl")
    errors = table.column("error")
    assert errors[0] is None and table[0]["threads"] == "1" and table[0]["pid"] != os.getpid() and table[0]["worker"]
    assert errors[1].startswith("KilledWorker") and errors[4].startswith("KilledWorker") and errors[3].startswith("InvalidInputError")
    assert errors[2] == errors[5] == "OwnError: of its own" and (tmp_path / "rows.jsonl").read_text().count("\n") == 7


@pytest.mark.slow
def test_dask_gives_the_rows_of_one_process(folder):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster, distributed.Client(cluster) as client:
        assert without_time(ms.batch.meshes(folder, volume, client)) == without_time(ms.batch.meshes(folder, volume, client=False))
        task = rows.Task(None, b"cno_such_module\nf\n.", "x", False)                  # a pipeline that workers cannot import
        from meshsolve.batch import cluster as dask

        (row,) = dask.on_dask([str(folder / "m0.ply")], task, client, 0)
        assert row["error"].startswith("ModuleNotFoundError")


def test_ctrl_c_waits_until_workers_have_started():
    """Processes that start meanwhile never see it."""
    from meshsolve.batch import cluster

    blocked = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    started = []
    with pytest.raises(KeyboardInterrupt):
        with cluster._ctrl_c_blocked():
            signal.raise_signal(signal.SIGINT)
            started.append(subprocess.run([sys.executable, "-c", blocked], capture_output=True, text=True).stdout)
        started.append("after")
    assert started == ["True\n"]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


# ---- tables in files ----------------------------------------------------------------------------------------------------


def test_a_table_as_arrays(folder, tmp_path):
    table = ms.batch.meshes(folder, volume, client=False)
    table.save(tmp_path / "rows.npz")
    saved = np.load(tmp_path / "rows.npz")
    assert set(saved) == {"path", "volume", "size", "areas", "error", "seconds", "worker"} and len(saved["path"]) == 6
    for k, row in enumerate(table):
        assert saved["path"][k] == row["path"] and saved["error"][k] == (row["error"] or "")
        assert np.isnan(saved["volume"][k]) and np.isnan(saved["areas"][k]).all() if row["error"] else saved["volume"][k] == row["volume"]
    assert saved["areas"].shape == (6, 2) and saved["size"].dtype == np.float64


def test_a_table_as_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = rows.Table([{"path": "a", "x": 1.5, "list": [1, 2]}, {"path": "b", "x": None, "list": [3]}, {"path": "c", "y": "text"}])
    table.save(tmp_path / "rows.parquet")
    read = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [{name: value for name, value in row.items() if value is not None} for row in read] == [
        {name: value for name, value in row.items() if value is not None} for row in table]
    with pytest.raises(ms.InvalidInputError, match="a column has values of different types"):
        rows.Table([{"x": 1.5}, {"x": "text"}]).save(tmp_path / "mixed.parquet")
    assert not (tmp_path / "mixed.parquet").exists()


def test_tables_that_cannot_be_saved(tmp_path, monkeypatch):
    table = rows.Table([{"path": "a", "list": [1, 2]}, {"path": "b", "list": [3]}])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for name, message in (("rows.txt", r"saved as \.parquet or \.npz"), ("rows.npz", "column 'list' differ in shape"),
                          ("rows.parquet", "pip install pyarrow")):
        with pytest.raises(ms.InvalidInputError, match=message):
            table.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
