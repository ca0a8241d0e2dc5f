"""Errors of the command line: exit codes, one line per error, all outputs or none; help."""

import gzip
import pathlib
import re

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cases import each
from cli_files import listing

import meshsolve as ms
from meshsolve.cli import files


@each("argv", [
    ["mcf"], ["mcf", "ball.obj"], ["mcf", "ball.obj", "-o", "x.obj", "--steps", "0"], ["mcf", "ball.obj", "-o", "x.obj", "--steps", "²"],
    ["mcf", "ball.obj", "-o", "x.obj", "--dt", "0"], ["mcf", "ball.obj", "-o", "x.obj", "--dt", "soon"], ["smooth", "ball.obj", "-o", "x.obj", "--order", "3"],
    ["smooth", "ball.obj", "-o", "x.obj", "--strength", "-1"], ["smooth", "ball.obj", "-o", "x.obj", "--strength", "nan"],
    ["order", "A.mtx", "--method", "metis"], ["order", "A.mtx", "--seed", "-1"], ["order", "A.mtx", "--threads", "0"],
    ["circuit"], ["circuit", "deck.sp", "-o", "x.csv", "--analysis", "noise"],
    ["solve", "A.mtx", "b.mtx"], ["solve", "-", "-", "-o", "x.mtx"], ["mcf", "ball.obj", "-o", "-", "--report", "-"],
    ["smooth", "ball.obj", "-", "-o", "out/"], ["smooth", "ball.obj", "scan.ply", "-o", "-"], ["circuit", "d.sp", "--report", "-"],
    ["order", "A.mtx", "--format", "txt"], ["info", "A.mtx", "--input-format", "mtx"], ["info", "-", "--input-format", "a/b"],
    ["batch", "-", "--do", "smooth", "-o", "out"], ["view", "a", "b"], ["sovle"], ["--nonsense"], []])
def test_wrong_usage_is_2(run, folder, monkeypatch, argv):
    monkeypatch.chdir(folder)
    before = listing(folder)
    code, text, err = run(*argv)
    assert (code, text) == (2, "") and listing(folder) == before
    if argv:                                            # one line with the error, one with the command for help
        command = argv[0] if argv[0] in ("mcf", "smooth", "order", "circuit", "solve", "view", "info", "batch") else ""
        first, second = err.splitlines()
        assert first.startswith("meshsolve: error: ") and second in {f"try: meshsolve {command}".strip() + " --help", "try: meshsolve --help"}
    else:
        assert "usage: meshsolve" in err


def test_a_file_may_be_named_as_standard_output(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert run("order", "A.mtx", "--perm", "./-", "--quiet") == (0, "", "") and pathlib.Path("-").exists()


@pytest.mark.parametrize("given", ["0", "-1", "soon", "inf"])
def test_the_message_of_a_wrong_time_step(run, given):
    assert "must be auto or a number above 0" in run("mcf", "ball.obj", "-o", "x.obj", "--dt", given)[2]


@each("argv, words", [
    (["mcf", "none.obj", "-o", "x.obj"], "no such file"),
    (["mcf", "A.mtx", "-o", "x.obj"], "unknown mesh format"),
    (["mcf", "ball.obj", "-o", "x.xyz"], "meshes are written as"),
    (["mcf", "ball.obj", "-o", "x.obj", "--render", "x.jpg"], "pictures are written as .png"),
    (["mcf", "ball.obj", "-o", "no/x.obj"], "does not exist"),
    (["mcf", "ball.obj", "-o", "x.obj", "--report", "no/x.json"], "does not exist"),
    (["mcf", "ball.obj", "-o", "x.obj", "--report", "x.obj"], "same name"),
    (["mcf", "ball.obj", "-o", "."], "folder"),
    (["mcf", "flat.obj", "-o", "x.obj"], "flat.obj: the mesh has no face with an area"),
    (["smooth", "flat.obj", "-o", "x.obj"], "flat.obj: the mesh has no face with an area"),
    (["smooth", "half.ply", "-o", "x.obj"], "half.ply"),
    (["solve", "none.mtx", "b.mtx", "-o", "x.mtx"], "no such file"),
    (["solve", "A.mtx", "none.mtx", "-o", "x.mtx"], "no such file"),
    (["solve", "half.mtx", "b.mtx", "-o", "x.mtx"], "half.mtx:"),
    (["solve", "half.npz", "b.mtx", "-o", "x.mtx"], "half.npz: cannot be read as a matrix"),
    (["solve", "half.mtx.gz", "b.mtx", "-o", "x.mtx"], "half.mtx.gz: cannot be read: "),
    (["solve", "huge.mtx", "b.mtx", "-o", "x.mtx"], "huge.mtx:3: 9 entries are announced, but the file has 1"),
    (["solve", "A.mtx", "half.mtx", "-o", "x.mtx"], "half.mtx:"),
    (["solve", "A.mtx", "ball.obj", "-o", "x.mtx"], "unknown vector format"),
    (["solve", "ball.obj", "b.mtx", "-o", "x.mtx"], "unknown matrix format"),
    (["solve", "A.mtx", "A.mtx", "-o", "no/x.mtx"], "does not exist"),
    (["solve", "A.mtx", "b.mtx", "-o", "x.xyz"], "solutions are written as .mtx, .mtx.gz, .npy, .npz, .txt"),
    (["solve", "A.mtx", ".", "-o", "x.mtx"], ".: this is a folder"),
    (["solve", "L.mtx", "b.mtx", "-o", "x.mtx", "--method", "cholesky"], "b must be (30,) or (30, k), got (60,)"),
    (["circuit", "none.sp", "-o", "x.csv"], "no such file"),
    (["circuit", "A.mtx", "-o", "x.csv"], "A.mtx:2: "),
    (["circuit", "A.mtx", "-o", "no/x.csv"], "does not exist"),
    (["circuit", "A.mtx", "-o", "x.csv", "--plot", "x.jpg"], "pictures are written as .png"),
    (["order", "A.mtx", "--perm", "no/p.txt"], "does not exist"),
    (["order", "none.mtx"], "no such file"),
    (["order", "A.mtx", "--part", "p.txt"], "--part needs the number of parts: add --parts K"),
    (["order", "A.mtx", "--parts", "2", "--part", "p.npz"], "p.npz: permutations and parts are written as .txt or .npy"),
    (["order", "A.mtx", "--parts", "61"], "A.mtx: parts must be at most the number of rows, 60, got 61"),
    (["mcf", "ball.obj", "-o", "x.obj", "--conformal", "--boundary", "fixed"], "fixed and --boundary fixed must not be given"),
    (["order", "ball.obj", "--blocks", "--perm", "p.txt"], "ball.obj: --blocks needs a matrix (.mtx, .npz, .npy), not a mesh"),
    (["order", "U.mtx", "--blocks", "--perm", "p.txt"], "not symmetric"),
    (["info", "none.ply"], "none.ply: no such file"),
    (["info", "none"], "none: no such file"),
    (["info", "table.csv"], "table.csv: unknown format; use a mesh (.obj, .ply, .off, .stl, .glb, .gltf, .vtu, .vtp, .vtk, .msh) or a matrix (.mtx, .npz, .npy)"),
    (["order", "table.csv"], "table.csv: unknown format"),
    (["info", "empty.mtx"], "empty.mtx:1: the file is empty"),
    (["info", "."], ".: this is a folder"),
    (["mcf", ".", "-o", "x.obj"], ".: this is a folder"),
    (["info", "b.mtx"], "b.mtx: the matrix must be square, got 60 x 1"),
    (["info", "b.mtx.gz"], "b.mtx.gz: the matrix must be square, got 60 x 1"),
    (["info", "vector.npy"], "vector.npy: the matrix must be a 2-D"),
    (["info", "./vector.npy"], "./vector.npy: the matrix must be a 2-D"),
    (["info", "./none.npy"], "error: none.npy: no such file"),
    (["order", "b.mtx"], "b.mtx: the matrix must be square"),
    (["info", "nan.npy"], "nan.npy: row 1, column 1 holds nan"),
    (["solve", "b.mtx", "b.mtx", "-o", "x.mtx"], "b.mtx: A must be square"),
    (["solve", "A.mtx", "short.npy", "-o", "x.mtx"], "short.npy: b must be (60,)"),
    (["solve", "A.mtx", "nans.npy", "-o", "x.mtx"], "nans.npy: row 0 holds nan"),
    (["solve", "U.mtx", "short.npy", "-o", "x.mtx", "--method", "cholesky"], "U.mtx: A is not symmetric"),
    (["solve", "words.mtx", "b.mtx", "-o", "x.mtx"], "words.mtx:3: each line must have 3 numbers, got '1 4 x'"),
    (["order", "deck.cir"], "deck.cir: this is the name of a SPICE netlist; run it with: meshsolve circuit deck.cir"),
    (["mcf", "deck.cir", "-o", "x.obj"], "run it with: meshsolve circuit deck.cir"),
    (["solve", "deck.cir", "b.mtx", "-o", "x.mtx"], "run it with: meshsolve circuit deck.cir"),
    (["view", "deck.cir"], "run it with: meshsolve circuit deck.cir"),
    (["info", "none.sp"], "none.sp: no such file"), (["info", "no*.mtx"], "no*.mtx: no file matches this pattern"),
    (["info", "garbage.npz"], "garbage.npz: this is not a .npz file"),
    (["solve", "garbage.npy", "b.mtx", "-o", "x.mtx"], "garbage.npy: this is not a .npy file"),
    (["solve", "A.mtx", "garbage.npy", "-o", "x.mtx"], "garbage.npy: this is not a .npy file"),
    (["solve", "A.mtx", "nothing.npz", "-o", "x.mtx"], "nothing.npz: the file is empty"),
    (["solve", "A.mtx", "objects.npy", "-o", "x.mtx"], "objects.npy: cannot be read as a vector"),
    (["solve", "A.mtx", "two.npz", "-o", "x.mtx"], "two.npz: the file must have one array, it has 2: a, b"),
    (["solve", "text.npy", "b.mtx", "-o", "x.mtx"], "text.npy: cannot be read as a matrix: it has <U3, not numbers"),
    (["order", "A.mtx", "--perm", "p.npz"], "p.npz: permutations and parts are written as .txt or .npy"),
    (["circuit", "A.mtx", "-o", "x.npy"], "x.npy: tables are written as .csv"),
    (["info", "A.mtx", "--report", "A.mtx"], "this is an input"),
    (["view", "ball.obj", "--show", "separators", "--screenshot", "a.png"], "no separators: meshes below 5,000 vertices"),
    (["view", "ball.obj", "--screenshot", "a.png", "--report", "a.png"], "same name"),
])
def test_errors_are_one_line_and_leave_nothing(run, folder, monkeypatch, argv, words):
    monkeypatch.chdir(folder)
    ms.Mesh(np.zeros((3, 3)), [[0, 1, 2]]).save("flat.obj")
    pathlib.Path("huge.mtx").write_text("%%MatrixMarket matrix coordinate real general\n9000000000 9000000000 9\n1 1 1\n")
    (folder / "A.mtx.gz").write_bytes(gzip.compress((folder / "A.mtx").read_bytes()))
    for whole, part in {"scan.ply": "half.ply", "A.mtx": "half.mtx", "A.npz": "half.npz", "A.mtx.gz": "half.mtx.gz"}.items():
        content = (folder / whole).read_bytes()
        (folder / part).write_bytes(content[:len(content) // 2])
    (folder / "empty.mtx").write_bytes(b"\n")
    (folder / "table.csv").write_text("1,2\n")
    for name in ("garbage.npy", "garbage.npz"):
        (folder / name).write_bytes(b"abc" * 99)
    (folder / "nothing.npz").write_bytes(b"")
    np.save(folder / "vector.npy", np.ones(60))
    np.save(folder / "short.npy", np.ones(4))
    np.save(folder / "nans.npy", np.full(60, np.nan))
    np.save(folder / "nan.npy", np.diag([1, np.nan, 1]))
    (folder / "words.mtx").write_text("%%MatrixMarket matrix coordinate real general\n4 4 1\n1 4 x\n")
    (folder / "deck.cir").write_text("divider\nV1 a 0 1\nR1 a 0 1k\n.op\n.end\n")
    (folder / "b.mtx.gz").write_bytes(gzip.compress((folder / "b.mtx").read_bytes()))
    np.save(folder / "objects.npy", np.array([1, None]), allow_pickle=True)
    np.save(folder / "text.npy", np.full((2, 2), "abc"))
    np.savez(folder / "two.npz", a=np.ones(60), b=np.ones(60))
    before = listing(folder)
    code, text, err = run(*argv)
    assert (code, text) == (1, "")
    assert err.startswith("meshsolve: error: ") and err.count("\n") == 1 and words in err
    assert listing(folder) == before


@pytest.mark.filterwarnings("default::meshsolve.errors.MeshsolveWarning")
@each("argv, words", [
    (["solve", "L.mtx", "b.mtx", "-o", "x.mtx", "--method", "ildl"], "must have the word symmetric in its first line"),
    (["order", "L.mtx", "--blocks"], "must have the word symmetric in its first line"),
    (["solve", "C.npz", "b.mtx", "-o", "x.mtx", "--device", "cuda"], "on the CPU only in this version: use --device cpu"),
    (["param", "ball.obj", "-o", "x.obj"], "cut the mesh first; --cut does that"),
    (["smooth", "flat.obj", "-o", "x.obj", "--boundary", "fixed"], "flat.obj: "),
    (["mcf", "ball.obj", "-o", "x.obj", "--steps", "2", "--dt", "0.1"], "or meshsolve smooth, which keeps volume"),
    (["smooth", "ball.obj", "-o", "x.obj", "--order", "1", "--strength", "1e6"], "--order 2, which keeps volume"),
    (["smooth", "ball.obj", "-o", "x.obj", "--precision", "single", "--strength", "1e12"], "A takes more than constants to 0"),
    (["geodesics", "ball.obj", "--curve", "0", "9", "-o", "x.txt"], "add the vertices between"),
])
def test_messages_name_options_of_the_shell(run, folder, monkeypatch, argv, words):
    monkeypatch.chdir(folder)
    ms.Mesh(np.zeros((3, 3)), [[0, 1, 2]]).save("flat.obj")
    scipy.io.mmwrite("L.mtx", sp.tril(ms.datasets.grid2d(6, 10, boundary="dirichlet")).tocoo())
    sp.save_npz("C.npz", sp.eye_array(60, dtype=complex).tocsr())
    err = run(*argv, "--quiet")[2]
    assert words in err
    assert not re.search(r"[a-z_]+=(True|[\"'(])|\b(ms|F|mesh)\.[a-z]+|[a-z]+\(", err)        # nothing that only Python can do


@pytest.mark.slow
@pytest.mark.parametrize("failure, words", [(OSError(28, "No space left on device"), "No space left"), (KeyboardInterrupt(), "interrupted"),
                                            (MemoryError(), "not enough memory"), (ZeroDivisionError("oh"), "ZeroDivisionError: oh")])
def test_all_outputs_are_written_or_none(run, folder, monkeypatch, failure, words):
    def fails(path, report):
        path.write_text("half")
        raise failure

    monkeypatch.setattr(files, "write_report", fails)
    (folder / "out.obj").write_text("older")
    before = listing(folder)
    code, _, err = run("mcf", folder / "ball.obj", "-o", folder / "out.obj", "--render", folder / "p.png", "--report", folder / "r.json")
    assert code == (130 if isinstance(failure, KeyboardInterrupt) else 1)
    assert words in err and err.count("\n") == 1 and listing(folder) == before


def test_a_matrix_or_a_deck_is_never_overwritten(run, folder):
    (folder / "c.sp").write_text("divider\nV1 a 0 1\nR1 a 0 1k\n.op\n.end\n")
    before = listing(folder)
    for argv in (("solve", "A.mtx", "b.mtx", "-o", "A.mtx"), ("solve", "A.mtx", "b.mtx", "-o", "b.mtx"), ("circuit", "c.sp", "-o", "c.sp"),
                 ("order", "A.mtx", "--report", "A.mtx")):
        code, _, err = run(*(folder / a if a in before else a for a in argv))
        assert code == 1 and "this is an input" in err and listing(folder) == before


def test_a_report_does_not_replace_the_mesh(run, folder):
    before = listing(folder)
    for option, name in (("--report", "scan.ply"), ("--report", "out.obj")):
        code, _, err = run("smooth", folder / "scan.ply", "-o", folder / "out.obj", option, folder / name, "--quiet")
        assert code == 1 and ("this is an input" in err or "the same name" in err) and listing(folder) == before


@pytest.mark.filterwarnings("default::meshsolve.errors.MeshsolveWarning")
def test_warnings_are_one_line(run, folder):
    (folder / "twice.obj").write_text((folder / "ball.obj").read_text() + "f 1 1 2\n")
    code, _, err = run("smooth", folder / "twice.obj", "-o", folder / "out.obj", "--quiet")
    assert code == 0 and err.count("\n") == 1
    assert err.startswith(f"meshsolve: warning: {folder / 'twice.obj'}: dropped 1 face")
    code, _, err = run("mcf", folder / "ball.obj", "-o", folder / "out.obj", "--steps", "9", "--dt", "0.05", "--quiet")
    assert code == 0 and err.startswith(f"meshsolve: warning: {folder / 'ball.obj'}: the surface has collapsed") and err.count("\n") == 1


def test_a_bad_environment_variable_is_reported(run, folder, monkeypatch):
    monkeypatch.setenv("MESHSOLVE_NUM_THREADS", "many")
    code, _, err = run("order", folder / "A.mtx")
    assert code == 1 and err.startswith("meshsolve: error: MESHSOLVE_NUM_THREADS")


@pytest.mark.parametrize("command", ["", "mcf", "smooth", "solve", "order", "circuit", "view", "info"])
def test_help(run, command):
    code, text, err = run(*filter(None, [command]), "--help")
    assert (code, err) == (0, "") and "usage: meshsolve" in text and len(text) > 300
    assert "Exit codes: 0 success; 2 wrong usage; 130 interrupted; 1 any other error" in " ".join(text.split())
    assert not re.search(r"\s{2,}(default:|of (the )?\w+ \(default)", text)              # help must describe an option, not only its default


def test_version(run):
    assert run("--version")[:2] == (0, f"meshsolve {ms.__version__}\n")
