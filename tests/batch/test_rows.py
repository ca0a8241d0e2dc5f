"""Rows vouch for files: changed inputs, missing results, full disks, power failures; strict JSON, names that are not UTF-8."""

import contextlib
import errno
import functools
import json
import os
import pathlib
import sys

import numpy as np
import pytest
from cases import each

import meshsolve as ms
from meshsolve.batch import rows


@pytest.fixture
def folder(tmp_path):
    meshes = tmp_path / "meshes"
    meshes.mkdir()
    for name in "abc":
        ms.datasets.icosphere(1).save(meshes / f"{name}.ply")
    return meshes


calls = []


def saved(mesh, path):
    """Save a copy beside the rows."""
    calls.append(os.path.basename(path))
    out = pathlib.Path(path).parents[1] / "out"
    out.mkdir(exist_ok=True)
    mesh.save(out / os.path.basename(path))
    return {"volume": mesh.volume}


def computed(folder, pipeline=saved, **options):
    """Names of the meshes that a run computes."""
    calls.clear()
    table = ms.batch.meshes(folder, pipeline, client=False, out=folder.parent / "rows.jsonl", **options)
    assert [os.path.basename(row["path"]) for row in table] == ["a.ply", "b.ply", "c.ply"] and "files" not in table[0] and table.failed == []
    return calls[:]


def remove(folder):
    (folder.parent / "out/b.ply").unlink()


def cut(folder):
    (folder.parent / "out/b.ply").write_bytes(b"ply")


def other_content(folder):
    path = folder.parent / "out/b.ply"
    path.write_bytes(path.read_bytes()[::-1])


def other_input(folder):
    ms.datasets.icosphere(2).save(folder / "b.ply")


def input_of_the_same_size(folder):
    mesh = ms.load_mesh(folder / "b.ply")
    ms.Mesh(2 * mesh.vertices, mesh.faces).save(folder / "b.ply")


def touch(folder):
    for path in (folder / "b.ply", folder.parent / "out/b.ply"):
        os.utime(path, (1e9, 1e9))


@each("change, again", [(remove, "b.ply"), (cut, "b.ply"), (other_content, "b.ply"), (other_input, "b.ply"), (input_of_the_same_size, "b.ply"),
                        (touch, ""), (lambda folder: None, "")])
def test_meshes_whose_files_changed_are_computed_again(tmp_path, change, again):
    folder = tmp_path / "meshes"
    folder.mkdir()
    for name in "abc":
        ms.datasets.icosphere(1).save(folder / f"{name}.ply")
    assert computed(folder) == ["a.ply", "b.ply", "c.ply"] and computed(folder) == []
    change(folder)
    assert computed(folder, again="none") == []
    assert computed(folder) == again.split() and computed(folder) == []
    assert len(ms.load_mesh(tmp_path / "out/b.ply").vertices) == len(ms.load_mesh(folder / "b.ply").vertices)


def test_results_may_move_with_their_rows(folder):
    (folder.parent / "out").mkdir()
    options = {"client": False, "out": folder.parent / "out/rows.jsonl"}
    ms.batch.meshes(folder, saved, **options)
    (folder.parent / "out").rename(folder.parent / "other")
    calls.clear()
    ms.batch.meshes(folder, saved, client=False, out=folder.parent / "other/rows.jsonl")
    assert calls == []


def test_a_file_that_all_meshes_write_is_nobodys_result(folder):
    def last(mesh, path):
        calls.append(path)
        mesh.save(folder.parent / "last.ply")
        return {}

    assert len(computed(folder, last)) == 3 and computed(folder, last) == []


def test_hidden_and_temporary_files_are_no_meshes(folder):
    for name in ("._a.ply", ".1a2b3c4da.ply", ".hidden.obj"):
        (folder / name).write_bytes(b"\x00\x05\x16\x07")
    assert computed(folder) == ["a.ply", "b.ply", "c.ply"]
    assert len(ms.batch.meshes([folder / ".hidden.obj"], saved, client=False).failed) == 1           # if it is named
    (folder.parent / "none").mkdir()
    (folder.parent / "none/._a.ply").write_bytes(b"")
    with pytest.raises(ms.InvalidInputError, match="no mesh file"):
        ms.batch.meshes(folder.parent / "none", saved, client=False)


def test_results_reach_the_disk_before_their_rows(folder, monkeypatch):
    done, sync, replace = [], os.fsync, os.replace

    def fsync(file):
        done.append(("sync", os.fstat(file).st_ino))
        return sync(file)

    def renamed(a, b):
        done.append(("rename", os.stat(a).st_ino))
        return replace(a, b)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", renamed)
    computed(folder)
    file, names, record = (os.stat(folder.parent / name).st_ino for name in ("out/a.ply", "out", "rows.jsonl"))
    places = [done.index(("sync", file)), done.index(("rename", file)), done.index(("sync", names))]
    row = [k for k, what in enumerate(done) if what == ("sync", record)][1]              # the first line is the head
    assert places == sorted(places) and places[-1] < row
    done.clear()
    ms.batch.meshes(folder, saved, client=False)            # no row vouches
    assert not [what for what, _ in done if what == "sync"]


def test_a_full_disk_keeps_complete_rows(folder, monkeypatch):
    """A row that does not fit is cut off; the next run computes it."""
    with monkeypatch.context() as patch:
        class Full:
            """A file that takes 30 bytes of the third line."""

            def __init__(self, file):
                self._file, self._lines = file, 0

            def __getattr__(self, name):
                return getattr(self._file, name)

            def write(self, line):
                self._lines += 1
                if self._lines == 3:
                    return self._file.write(line[:30])
                if self._lines > 3:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return self._file.write(line)

        def opened(path, mode, **options):
            return Full(open(path, mode, **options)) if options else open(path, mode)

        patch.setattr(rows, "open", opened, raising=False)
        with pytest.raises(ms.InvalidInputError, match="rows.jsonl: cannot be written: No space left on device"):
            computed(folder)
    lines = (folder.parent / "rows.jsonl").read_text().splitlines()
    assert len(lines) == 2 and json.loads(lines[1])["path"].endswith("a.ply")
    assert computed(folder) == ["b.ply", "c.ply"]


@each("task", ["geodesics", "spectrum", "smooth"])
def test_a_full_disk_keeps_earlier_results(tmp_path, task):
    from meshsolve import files
    from meshsolve.batch.tasks import TASKS

    mesh, options = ms.datasets.icosphere(1), {"geodesics": {"source": 0}, "spectrum": {"count": 3}, "smooth": {"strength": 0.01}}[task]
    TASKS[task](mesh, "a.ply", tmp_path, **options)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    publish = files._publish

    def full(part, path):
        with open(part, "r+b") as file:
            file.truncate(100)
        raise OSError(errno.ENOSPC, "No space left on device")

    files._publish = full
    try:
        with pytest.raises(ms.InvalidInputError, match="cannot be written: No space left on device"):
            TASKS[task](mesh, "a.ply", tmp_path, **options)
    finally:
        files._publish = publish
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before and before


def test_rows_are_strict_json_and_are_read_back(folder):
    given = {"far": [np.inf, -np.inf, 1.5], "mean": float("nan"), "deep": {"x": [[np.inf]]}, "text": "a"}
    pipeline, out = lambda mesh: given, folder.parent / "rows.jsonl"
    table = ms.batch.meshes(folder, pipeline, client=False, out=out)

    def refuse(word):
        raise AssertionError(word)

    for line in (folder.parent / "rows.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=refuse)
    for again in (ms.batch.meshes(folder, pipeline, client=False, out=out), ms.batch.Table.load(out)):
        assert repr(list(again)) == repr(list(table)) and np.isnan(again[0]["mean"]) and again[0]["far"] == [np.inf, -np.inf, 1.5]


def test_tables_of_two_runs_can_be_compared(folder):
    first, second = (ms.batch.meshes(folder, lambda mesh: {"v": mesh.volume}, client=False) for _ in range(2))
    assert first.results == second.results and list(first) != list(second) and first.results[0]["error"] is None


@each("text, message", [("", "the line is not JSON"), ("[1]\n", "not a row"), ('{"a": 1}\n', "not a file of rows"),
                        ('{"meshsolve rows": 1}\nx\n', "rows.jsonl:2: the line is not JSON"), ('{"meshsolve rows": 1}\n{"a": 2}\n', ":2: the line is not a row")])
def test_files_that_are_no_rows(tmp_path, text, message):
    (tmp_path / "rows.jsonl").write_text(text)
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.batch.Table.load(tmp_path / "rows.jsonl")
    with pytest.raises(ms.InvalidInputError, match="no such file"):
        ms.batch.Table.load(tmp_path / "none.jsonl")


def made(strength):
    return lambda mesh, path: {"path of": path, "strength": strength}


def test_any_function_runs_in_this_process(folder, monkeypatch):
    """Lambdas, closures and bound methods; the values that they keep belong to the pipeline."""
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    assert computed(folder, made(1)) == [] and ms.batch.meshes(folder, made(1), client=False)[0]["strength"] == 1
    computed(folder, made(1))
    with pytest.raises(ms.InvalidInputError, match="of another pipeline"):
        computed(folder, made(2))
    if "distributed" in sys.modules or __import__("importlib").util.find_spec("distributed"):
        with pytest.raises(ms.InvalidInputError, match=r"cannot be sent.*client=False calls it in this process"):
            ms.batch.meshes(folder, made(1), client=1)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf8(folder, tmp_path):
    strange = os.path.join(folder, os.fsdecode(b"d\xff.ply"))
    with contextlib.suppress(OSError):
        os.rename(folder / "a.ply", strange)
    table = ms.batch.meshes(folder, saved, client=False, out=tmp_path / "rows.jsonl")
    calls.clear()
    again = ms.batch.meshes(folder, saved, client=False, out=tmp_path / "rows.jsonl")
    assert calls == [] and list(again) == list(table) and strange in again.column("path") and os.path.exists(tmp_path / "out" / os.path.basename(strange))
    table.save(tmp_path / "t.npz")
    assert strange in np.load(tmp_path / "t.npz")["path"]
    if __import__("importlib").util.find_spec("pyarrow"):
        table.save(tmp_path / "t.parquet")


def test_the_names_of_the_module():
    assert dir(ms.batch) == ["Table", "meshes"]


def test_texts_stay_texts(folder, tmp_path):
    """Texts that stand for numbers in the file."""
    values = ["NaN", "Infinity", "-Infinity", "\\NaN", "\\\\NaN", "\\x", "nan", float("inf")]
    for _ in range(2):
        table = ms.batch.meshes(folder, lambda mesh: {"x": values}, client=False, out=tmp_path / "rows.jsonl")
        assert [row["x"] for row in table] == [values] * 3
    assert ms.batch.Table.load(tmp_path / "rows.jsonl").column("x") == [values] * 3


@each("value, says", [(10**5000, "8192 bits"), (functools.reduce(lambda x, _: [x], range(500), 1), "100 lists in each other")])
def test_values_that_json_cannot_hold_are_errors_of_their_row(folder, tmp_path, value, says):
    table = ms.batch.meshes(folder, lambda mesh: {"x": value}, client=False, out=tmp_path / "rows.jsonl")
    assert all(says in row["error"] for row in table) and len(table) == 3


@each("line", ["[" * 100_000, '{"path": [1], "error": null}', '{"path": "a", "error": 3}', '{"path": "a", "error": null, "files": 3}',
               '{"path": "a", "error": null, "files": {"a": [1]}}'])
def test_damaged_rows_are_named(folder, tmp_path, line):
    path = tmp_path / "rows.jsonl"
    ms.batch.meshes(folder, len, client=False, out=path)
    path.write_text(path.read_text() + line + "\n")
    for call in (lambda: ms.batch.meshes(folder, len, client=False, out=path), lambda: ms.batch.Table.load(path)):
        with pytest.raises(ms.InvalidInputError, match="rows.jsonl:5: the line is not"):
            call()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_rows_are_kept_in_a_file(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path / "pipe", "/dev/full", "/dev/null"):
        with pytest.raises(ms.InvalidInputError, match="pipe or a device; rows are kept in a file"):
            ms.batch.meshes(folder, len, client=False, out=out)
