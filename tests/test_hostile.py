"""Bad input: each row of ``hostile/*.py`` is one line of docs/errors.md and one test. The caller's data must not change.

``python tests/test_hostile.py`` writes the table into the document; a test compares the two.
"""

import pathlib
import re
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hostile import apps, definite, geometry, graphs, meshes, solvers
from hostile.material import RHS, SHARED, SHARED_LDL, SHARED_LU, SHARED_SCHUR, N, spd, sphere
from hostile.matrices import matrix_rows

import meshsolve as ms
from meshsolve import memory

DOCUMENT = pathlib.Path(__file__).resolve().parents[1] / "docs" / "errors.md"
ROWS = definite.ROWS + solvers.ROWS + meshes.ROWS + graphs.ROWS + geometry.ROWS + apps.ROWS
BEGIN, END = "<!-- table:begin -->\n", "<!-- table:end -->"


def table():
    lines = dict.fromkeys([row.line() for row, _ in matrix_rows()] + [row.line() for row in ROWS])
    return "| function | given | answer | the message says, or what happens |\n|---|---|---|---|\n" + "\n".join(lines) + "\n"


# ---- every row --------------------------------------------------------------------------------------------------------


def contents(thing):
    """Copies of all arrays in an argument."""
    if isinstance(thing, np.ndarray):
        return [np.array(thing, copy=True, subok=True)]
    if sp.issparse(thing):
        names = {"coo": ("data", "row", "col")}.get(thing.format, ("data", "indices", "indptr"))
        return [np.array(getattr(thing, name)) for name in names]
    if isinstance(thing, ms.Mesh):
        return [thing.vertices.copy(), thing.faces.copy()]
    if isinstance(thing, (list, tuple)):
        return [c for part in thing for c in contents(part)]
    return [c for part in thing.values() for c in contents(part)] if isinstance(thing, dict) else []


EARLIER, EARLIER_LU, EARLIER_LDL, EARLIER_SCHUR = SHARED.solve(RHS), SHARED_LU.solve(RHS), SHARED_LDL.solve(RHS), SHARED_SCHUR.matrix


def check(row, tmp_path):
    function, args, keywords = row.call(tmp_path)
    before, files = contents((args, keywords)), sorted(tmp_path.rglob("*"))
    if row.error is None:
        function(*args, **keywords)
    else:
        with pytest.raises(row.error, match=re.escape(row.says)) as caught:
            function(*args, **keywords)
        assert type(caught.value) is row.error
        for name, value in row.where.items():
            assert getattr(caught.value, name) == value if value is not None else getattr(caught.value, name) in range(N)
    after = contents((args, keywords))
    assert len(before) == len(after) and all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(before, after))
    assert sorted(tmp_path.rglob("*")) == files
    assert np.array_equal(SHARED.solve(RHS), EARLIER) and np.array_equal(SHARED_LU.solve(RHS), EARLIER_LU)
    assert np.array_equal(SHARED_LDL.solve(RHS), EARLIER_LDL) and np.array_equal(SHARED_SCHUR.matrix, EARLIER_SCHUR)


EXPANDED = list(matrix_rows())
FUNCTIONS = dict.fromkeys([name for _, name in EXPANDED])
TABLES = {"definite": definite, "solvers": solvers, "meshes": meshes, "graphs": graphs, "geometry": geometry, "apps": apps}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_matrices(function, tmp_path):
    each("row", [row for row, name in EXPANDED if name == function])(check)(tmp_path=tmp_path)


@pytest.mark.parametrize("table", TABLES)
def test_table(table, tmp_path):
    each("row", TABLES[table].ROWS)(check)(tmp_path=tmp_path)


def test_the_document_has_this_table():
    text = DOCUMENT.read_text()
    assert text[text.index(BEGIN) + len(BEGIN):text.index(END)] == table(), "run python tests/test_hostile.py"


def test_every_class_of_error_is_in_the_table():
    raised = {row.error for row, _ in EXPANDED} | {row.error for row in ROWS}
    promised = {getattr(ms, name) for name in ms.__all__ if isinstance(getattr(ms, name), type) and issubclass(getattr(ms, name), ms.MeshsolveError)}
    base = {ms.MeshsolveError}
    assert promised - base <= raised


# ---- memory, files ------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:.*collapsed")
@pytest.mark.parametrize("call", [lambda: ms.cholesky(spd(400)), lambda: ms.analyze(spd(400)).factor(spd(400)),
                                  lambda: ms.solve(spd(400), np.ones(400)), lambda: ms.parac(spd(400)), lambda: ms.apps.mcf(sphere()), lambda: ms.datasets.delaunay(50)])
def test_too_little_memory_is_reported_before_allocation(call, monkeypatch):
    monkeypatch.setattr(memory, "NEGLIGIBLE", 0)
    monkeypatch.setattr(memory, "available_memory", lambda: 1000)
    with pytest.raises(ms.OutOfMemoryError, match="GiB are available"):
        call()
    with pytest.raises(MemoryError):                # the built-in class catches it as well
        call()
    monkeypatch.undo()
    call()


@pytest.mark.parametrize("suffix", [".obj", ".ply", ".off", ".stl", ".glb", ".obj.gz"])
def test_a_write_that_fails_midway_leaves_the_old_file(suffix, tmp_path, monkeypatch):
    path = tmp_path / f"mesh{suffix}"
    path.write_bytes(b"the old file")

    def full(self, content):
        with open(self, "wb") as f:
            f.write(content[:20])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with pytest.raises(ms.InvalidInputError, match="cannot be written: No space left"):
        sphere().save(path)
    assert path.read_bytes() == b"the old file" and list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_a_picture_that_fails_midway_leaves_no_file(tmp_path, monkeypatch):
    def broken(part, panels, captions, title, scale):
        part.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["meshsolve.apps.render"], "_write", broken)
    with pytest.raises(KeyboardInterrupt):
        ms.apps.render(tmp_path / "a.png", sphere())
    assert not list(tmp_path.iterdir())


if __name__ == "__main__":
    text = DOCUMENT.read_text()
    DOCUMENT.write_text(text[:text.index(BEGIN) + len(BEGIN)] + table() + text[text.index(END):])
