"""Attacks on batches: damaged, hidden, unreadable and changed files, any function, rows of earlier runs."""

import contextlib
import json
import os
import pathlib
import tempfile

import numpy as np

import meshsolve as ms
from campaigns.table import attack

CONTENT: dict[str, bytes] = {}


def content(kind):
    """The bytes of a small mesh in a format."""
    if kind not in CONTENT:
        with tempfile.TemporaryDirectory() as folder:
            ms.datasets.icosphere(1).save(f"{folder}/a.{kind}")
            CONTENT[kind] = pathlib.Path(f"{folder}/a.{kind}").read_bytes()
    return CONTENT[kind]


def values(rng):
    """A dict that a pipeline may or may not return."""
    good = [1, 2.5, True, None, "text", "NaN", float("nan"), float("inf"), -np.inf, np.float32(1.5), np.arange(3), np.array([np.nan, 1]), [1, [2.0]],
            {"a": {"b": -np.inf}}, np.zeros((0, 3)), "\udcff", "ü\n", 2**80, np.bool_(True)]
    bad = [object(), {1, 2}, b"x", 1j, lambda: 0]
    pool = good + bad if rng.random() < 0.2 else good
    return {str(name): pool[rng.integers(len(pool))] for name in rng.choice(["a", "b", "c", "volume", "ü"], rng.integers(0, 4), replace=False)}


@attack("batch.meshes", "batch.Table", "batch.Table.load", "batch.Table.save", quick=8)
def folders(rng):
    """Folders with damaged, cut, empty, hidden and unreadable files, links to nowhere, folders named like meshes, names that are not UTF-8; pipelines that
    raise, return nonsense, write and change files. Oracle: a row for each visible mesh file, strict JSON, the same rows again; a second run computes
    exactly what failed, changed, or lost a result."""
    with tempfile.TemporaryDirectory() as place:
        folder, out = pathlib.Path(place) / "in", pathlib.Path(place) / "out"
        folder.mkdir(), out.mkdir()
        expected = fill(rng, folder)
        seen, results = [], {name: values(rng) for name in expected}
        raising = {name for name in expected if rng.random() < 0.1}

        def pipeline(mesh, path):
            name = os.path.basename(path)
            seen.append(name)
            if name in raising:
                raise [ValueError("x"), SystemExit(3), MemoryError(), ms.InvalidInputError("y")][len(name) % 4]
            mesh.save(out / f"{name}.ply")
            return results[name]

        def run():
            seen.clear()
            return ms.batch.meshes(folder, pipeline, client=False, out=place + "/rows.jsonl")

        if not expected:
            with contextlib.suppress(ms.InvalidInputError):
                run()
                raise AssertionError("a folder without meshes is taken")
            return
        table = run()
        assert [os.path.basename(row["path"]) for row in table] == sorted(expected), "not a row for each mesh"
        for line in pathlib.Path(place + "/rows.jsonl").read_text().splitlines():
            json.loads(line, parse_constant=refused)
        good = {os.path.basename(row["path"]) for row in table if row["error"] is None}
        assert not good & raising
        stale = change(rng, folder, out, good)
        again = run()
        readable = {name for name in expected if name in seen}
        assert good - stale == good - readable, f"computed again: {sorted(good & readable)}, stale: {sorted(stale)}"
        kept = [k for k, row in enumerate(table) if os.path.basename(row["path"]) in good - stale]
        assert repr([again[k] for k in kept]) == repr([table[k] for k in kept]), "rows are not read back"
        loaded = ms.batch.Table.load(place + "/rows.jsonl")
        assert sorted(map(repr, loaded)) == sorted(map(repr, again))
        with contextlib.suppress(ms.InvalidInputError):     # columns of mixed shapes
            again.save(place + "/t.npz")


def refused(word):
    raise AssertionError(f"{word} is not JSON")


def fill(rng, folder):
    """Put files into a folder; return the names of those that are meshes by their names."""
    expected = []
    for k in range(rng.integers(0, 5)):
        kind = str(rng.choice(["ply", "obj", "off", "stl", "glb"]))
        data = content(kind)
        how = rng.integers(8)
        if how == 1:
            data = data[:rng.integers(0, len(data))]
        elif how == 2:
            data = bytearray(data)
            data[rng.integers(len(data))] ^= 255
        elif how == 3:
            data = b""
        name = f"{k}.{kind}" if rng.random() < 0.8 else os.fsdecode(b"\xff%d." % k) + kind
        hidden = rng.random() < 0.2
        name = ("._" if rng.random() < 0.5 else ".") + name if hidden else name
        path = os.path.join(folder, name)
        if how == 4:
            os.mkdir(path)
            continue
        if how == 5:
            os.symlink("nowhere", path)
            continue
        with open(path, "wb") as f:
            f.write(data)
        if not hidden:
            expected.append(name)
    (folder / "notes.txt").write_text("x")
    return expected


def change(rng, folder, out, good):
    """Change some inputs and results; return the names of the meshes that must be computed again."""
    stale = set()
    for name in good:
        how, source, result = rng.integers(7), os.path.join(folder, name), os.path.join(out, f"{name}.ply")
        if how == 1:
            os.unlink(result)
        elif how == 2:
            with open(result, "ab") as f:
                f.write(b"x")
        elif how == 3:
            with open(source, "ab") as f:
                f.write(b"\n")
        elif how == 4:
            with open(result, "r+b") as f:
                f.seek(-1, os.SEEK_END)
                last = f.read(1)
                f.seek(-1, os.SEEK_END)
                f.write(bytes([last[0] ^ 1]))
            os.utime(result, (1e9, 1e9))
        elif how == 5:
            os.utime(source, (1e9, 1e9)), os.utime(result, (2e9, 2e9))
        if how in (1, 2, 3, 4):
            stale.add(name)
    return stale
