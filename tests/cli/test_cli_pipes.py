"""Standard input and output in place of files."""

import gzip
import io
import json
import sys

import numpy as np
import pytest
import scipy.io
from cli_files import mmread

import meshsolve as ms
from meshsolve import cli
from meshsolve.cli.pipes import format_of

DECK = b"* divider\nV1 a 0 2\nR1 a b 1k\nR2 b 0 1k\n.op\n.end\n"


@pytest.fixture
def pipe(capsysbinary, monkeypatch):
    """Run the command line in this process with bytes on standard input: (exit code, bytes of standard output, standard error)."""
    def call(given, *argv):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        try:
            code = cli.main([str(a) for a in argv])
        except SystemExit as e:
            code = e.code
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()
    return call


@pytest.mark.parametrize("suffix", [".obj", ".ply", ".off", ".stl", ".glb", ".ply.gz"])
def test_a_mesh_through_pipes_is_that_of_files(pipe, folder, suffix):
    ms.load_mesh(folder / "ball.obj").save(folder / f"a{suffix}")
    given = (folder / f"a{suffix}").read_bytes()
    assert pipe(b"", "smooth", folder / f"a{suffix}", "-o", folder / f"b{suffix.removesuffix('.gz')}", "--quiet")[0] == 0
    code, out, err = pipe(given, "smooth", "-", "-o", "-")
    assert code == 0 and out == (folder / f"b{suffix.removesuffix('.gz')}").read_bytes() and "numeric" in err
    code, out, err = pipe(given, "smooth", "-", "-o", "-", "--format", "obj", "--quiet")
    (folder / "c.obj").write_bytes(out)
    assert (code, err) == (0, "") and len(ms.load_mesh(folder / "c.obj").faces) > 0


def test_a_system_through_pipes(pipe, folder):
    assert pipe(b"", "solve", folder / "A.mtx", folder / "b.mtx", "-o", folder / "x.npy", "--quiet") == (0, b"", "")
    matrix, rhs = ((folder / name).read_bytes() for name in ("A.mtx", "b.mtx"))
    code, out, err = pipe(matrix, "solve", "-", folder / "b.mtx", "-o", "-", "--format", "npy", "--quiet")
    assert (code, out, err) == (0, (folder / "x.npy").read_bytes(), "")
    for given in (rhs, gzip.compress(rhs), "\n".join(map(str, range(60))).encode()):
        code, out, err = pipe(given, "solve", folder / "A.mtx", "-", "-o", "-")
        (folder / "y.mtx").write_bytes(out)
        assert code == 0 and "relative_residual" in err and np.allclose(mmread(folder / "y.mtx")[:, 0], np.load(folder / "x.npy"))


@pytest.mark.slow
def test_other_outputs_on_standard_output(pipe, folder):
    code, out, err = pipe((folder / "A.npz").read_bytes(), "order", "-", "--perm", "-")
    assert code == 0 and np.array_equal(np.sort(np.loadtxt(io.BytesIO(out))), np.arange(60)) and "nnz(L)" in err
    code, out, err = pipe((folder / "ball.obj").read_bytes(), "info", "-", "--report", "-")
    assert code == 0 and json.loads(out)["vertices"] == 162 and "Euler characteristic" in err
    code, out, _ = pipe(b"", "smooth", folder / "ball.obj", "-o", folder / "o.ply", "--render", "-")
    assert code == 0 and out.startswith(b"\x89PNG") and (folder / "o.ply").exists()
    code, out, _ = pipe((folder / "ball.obj").read_bytes(), "geodesics", "-", "--source", 0, "-o", "-", "--quiet")
    assert code == 0 and len(np.loadtxt(io.BytesIO(out))) == 162


def test_a_netlist_through_pipes(pipe, folder):
    code, out, err = pipe(DECK, "circuit", "-")
    assert (code, err) == (0, "") and b"v(b)" in out.replace(b"b,", b"v(b),") or b"1" in out
    assert pipe(DECK, "circuit", "-", "-o", "-")[1] == out


def test_messages_name_standard_input(pipe, folder):
    code, out, err = pipe(b"ply\nformat nonsense\n", "smooth", "-", "-o", "-")
    assert (code, out) == (1, b"") and err.startswith("meshsolve: error: standard input.ply: ") and err.count("\n") == 1
    assert "standard input is empty" in pipe(b"", "info", "-")[2]
    code, _, err = pipe(b"nothing known", "info", "-")
    assert code == 1 and "the format of standard input is not recognized: give it by --input-format, one of obj, ply" in err
    scipy.io.mmwrite(folder / "S.mtx", np.ones((3, 3)))
    code, out, err = pipe((folder / "S.mtx").read_bytes(), "solve", "-", folder / "S.mtx", "-o", "-", "--method", "lu")
    assert code == 1 and "standard input.mtx: " in err and "/" not in err.split("standard input")[0]


def test_a_solution_that_misses_its_tolerance_is_written_too(pipe, folder):
    given = b"%%MatrixMarket matrix array real general\n2 1\n1\n0\n"
    (folder / "L.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 1\n2 2 1\n2 1 -1\n")
    code, out, err = pipe(given, "solve", folder / "L.mtx", "-", "-o", "-", "--quiet")
    assert code == 1 and "standard output.mtx: the solution was written, but" in err and out.startswith(b"%%MatrixMarket")


@pytest.mark.parametrize("name", ["ball.obj", "scan.ply", "A.mtx", "A.npz"])
def test_formats_are_recognized(folder, name):
    data, suffix = (folder / name).read_bytes(), name.partition(".")[2]
    assert format_of(data) == suffix and format_of(gzip.compress(data)) == f"{suffix}.gz"


def test_formats_of_few_bytes():
    assert format_of(DECK) == "sp" and format_of(b"1 2 3") == "" and format_of(b"1 2 3", "txt") == "txt"
    assert format_of(b"\0" * 80 + b"\1\0\0\0" + b"\0" * 50) == "stl" and format_of(b"\x1f\x8bxx") == ""
