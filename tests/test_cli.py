"""The command line: results, exit codes, one line for every error, files that are written together or not at all."""

import gzip
import json
import os
import pathlib
import pty
import re
import select
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from zoo import random_spd

import meshsolve as ms
from meshsolve import cli
from meshsolve.cli import arguments, describe, files

PHASES = {"order", "symbolic", "numeric", "solve"}


@pytest.fixture
def run(capsys):
    """Run the command line in this process: (exit code, standard output, standard error)."""
    def call(*argv):
        try:
            code = cli.main([str(a) for a in argv])
        except SystemExit as e:                     # argparse: wrong usage, --help
            code = e.code
        return (code, *capsys.readouterr())
    return call


def mmread(path):
    return scipy.io.mmread(path, spmatrix=False)


@pytest.fixture
def folder(tmp_path):
    """Small problems as files."""
    ms.datasets.icosphere(2).save(tmp_path / "ball.obj")
    ms.datasets.scan_like(6000).save(tmp_path / "scan.ply")
    A = random_spd(60, 0.05, 3)
    scipy.io.mmwrite(tmp_path / "A.mtx", A)
    scipy.io.mmwrite(tmp_path / "b.mtx", np.arange(60.0)[:, None])
    scipy.io.mmwrite(tmp_path / "L.mtx", ms.datasets.grid2d(6, 5))
    scipy.io.mmwrite(tmp_path / "U.mtx", sp.coo_array(np.triu(np.ones((4, 4)))))
    sp.save_npz(tmp_path / "A.npz", sp.csc_array(A))
    return tmp_path


def process(*argv, **options):
    return subprocess.run([sys.executable, "-m", "meshsolve", *map(str, argv)], capture_output=True, text=True, timeout=120, **options)


def listing(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


# ---- solve ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", ["A.mtx", "A.npz", "A.npy", "A.mtx.gz"])
@pytest.mark.parametrize("rhs", ["b.mtx", "b.npy", "b.npz", "sparse.npz", "b.txt", "b.mtx.gz"])
@pytest.mark.parametrize("out", ["x.mtx", "x.npy", "x.npz", "x.txt", "x.mtx.gz"])
def test_solve(run, folder, matrix, rhs, out):
    b = np.arange(60.0)
    np.save(folder / "b.npy", b)
    np.savez(folder / "b.npz", b=b)
    sp.save_npz(folder / "sparse.npz", sp.csr_array(b[:, None]))
    np.save(folder / "A.npy", sp.load_npz(folder / "A.npz").toarray())
    np.savetxt(folder / "b.txt", b)
    for name in ("A.mtx", "b.mtx"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
    code, text, err = run("solve", folder / matrix, folder / rhs, "-o", folder / out, "--report", folder / "r.json")
    assert (code, err) == (0, "") and re.search(r"relative_residual +[\d.]+e-1[4-9]", text)
    x = files.read_vector(folder / out)
    assert np.allclose(mmread(folder / "A.mtx") @ x, b, atol=1e-12)
    report = json.loads((folder / "r.json").read_text())
    assert set(report["seconds"]) >= PHASES and {"nnz_A", "nnz_L", "flops", "bytes", "threads", "device", "ordering"} <= set(report)


def test_solve_takes_many_columns_and_says_what_it_cannot_solve(run, folder):
    b = np.random.default_rng(0).standard_normal((60, 3))
    scipy.io.mmwrite(folder / "b.mtx", b)
    assert run("solve", folder / "A.mtx", folder / "b.mtx", "-o", folder / "x.mtx", "--quiet", "--threads", 1) == (0, "", "")
    assert np.allclose(mmread(folder / "A.mtx") @ mmread(folder / "x.mtx"), b)
    scipy.io.mmwrite(folder / "N.mtx", -mmread(folder / "A.mtx"))
    for matrix, words in {"N.mtx": "not positive definite", "U.mtx": "not symmetric"}.items():
        n = mmread(folder / matrix).shape[0]
        np.save(folder / "c.npy", np.ones(n))
        code, text, err = run("solve", folder / matrix, folder / "c.npy", "-o", folder / "y.mtx", "--method", "cholesky")
        assert (code, text) == (1, "") and words in err and not (folder / "y.mtx").exists()


@pytest.mark.filterwarnings("default")
def test_solve_an_indefinite_system(run, folder):
    A = ms.datasets.kkt(30, 12)
    scipy.io.mmwrite(folder / "K.mtx", A)
    np.save(folder / "c.npy", np.arange(42.0))
    for method in ("ildl", "auto"):
        code, text, err = run("solve", folder / "K.mtx", folder / "c.npy", "-o", folder / "y.npy", "--method", method)
        assert (code, err) == (0, "") and re.search(r"^method +ildl$", text, re.M)
        assert np.allclose(A @ np.load(folder / "y.npy").ravel(), np.arange(42.0))


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("method", ["auto", "ildl", "parac"])
def test_a_solution_that_misses_its_tolerance_is_written_and_is_an_error(run, folder, method):
    np.save(folder / "c.npy", np.ones(30))
    code, text, err = run("solve", folder / "L.mtx", folder / "c.npy", "-o", folder / "y.npy", "--method", method, "--report", folder / "r.json")
    assert code == 1 and err.startswith("meshsolve: error: ") and err.count("\n") == 1 and "y.npy: this solution was written" in err
    assert len(re.findall("not (be )?in the range of A", err)) == 1 and re.search(r"relative_residual +1$", text, re.M)
    report = json.loads((folder / "r.json").read_text())
    assert np.load(folder / "y.npy").shape == (30,) and report["relative_residual"] > 0.99 and report["converged"] is False


def test_a_matrix_or_a_deck_is_never_overwritten(run, folder):
    (folder / "c.sp").write_text("divider\nV1 a 0 1\nR1 a 0 1k\n.op\n.end\n")
    before = listing(folder)
    for argv in (("solve", "A.mtx", "b.mtx", "-o", "A.mtx"), ("solve", "A.mtx", "b.mtx", "-o", "b.mtx"), ("circuit", "c.sp", "-o", "c.sp"),
                 ("order", "A.mtx", "--report", "A.mtx")):
        code, _, err = run(*(folder / a if a in before else a for a in argv))
        assert code == 1 and "this is an input" in err and listing(folder) == before


def test_a_link_stays_and_so_do_permissions(run, folder):
    target, link = folder / "x.npy", folder / "link.npy"
    target.write_bytes(b"")
    target.chmod(0o600)
    link.symlink_to(target)
    assert run("solve", folder / "A.mtx", folder / "b.mtx", "-o", link, "--quiet")[0] == 0
    assert link.is_symlink() and np.load(target).shape == (60,) and target.stat().st_mode & 0o777 == 0o600


def test_capital_suffixes(run, folder):
    for name in ("p.NPY", "p.npy"):
        assert run("order", folder / "A.mtx", "--perm", folder / name, "--quiet")[0] == 0
    assert np.array_equal(np.load(folder / "p.NPY"), np.load(folder / "p.npy"))


def test_text_vectors_are_read_as_they_are_written(run, folder):
    scipy.io.mmwrite(folder / "C.mtx", sp.coo_array(mmread(folder / "A.mtx") * (1 + 1j)))
    for text in ("1,2\n" * 60, "1+2j -1j\n" * 60, "# a comment\n" + "1 2\n" * 60):
        (folder / "b.txt").write_text(text)
        assert run("solve", folder / "C.mtx", folder / "b.txt", "-o", folder / "x.txt", "--quiet") == (0, "", "")
        C, b, x = mmread(folder / "C.mtx"), files.read_vector(folder / "b.txt"), files.read_vector(folder / "x.txt")
        assert b.shape == x.shape == (60, 2) and np.allclose(C @ x, b)
    (folder / "b.txt").write_text("# nothing\n\n")
    code, _, err = run("solve", folder / "A.mtx", folder / "b.txt", "-o", folder / "x.txt")
    assert code == 1 and err.count("\n") == 1 and "holds no numbers" in err


def test_a_reader_that_has_seen_enough_is_no_error(folder):
    """`meshsolve info FILE | true`"""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-m", "meshsolve", "info", str(folder / "A.mtx")], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="pipes with names")
def test_a_pipe_that_breaks_before_all_is_written_is_an_error(folder):
    os.mkfifo(folder / "x.npy")
    np.save(folder / "b.npy", np.ones((60, 3000)))                      # more than a pipe holds
    child = subprocess.Popen([sys.executable, "-m", "meshsolve", "solve", folder / "A.mtx", folder / "b.npy", "-o", folder / "x.npy"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    open(folder / "x.npy", "rb").close()
    text, err = child.communicate(timeout=60)
    assert (child.returncode, text) == (1, "") and err.startswith("meshsolve: error: ") and err.count("\n") == 1
    assert "x.npy: the program that reads from this pipe ended" in err


def test_solve_takes_lu_for_an_unsymmetric_matrix(run, folder):
    A = mmread(folder / "U.mtx")
    b = np.random.default_rng(1).standard_normal(A.shape[0])
    np.save(folder / "b.npy", b)
    for method in ("auto", "lu"):
        code, text, err = run("solve", folder / "U.mtx", folder / "b.npy", "-o", folder / "x.npy", "--method", method)
        assert (code, err) == (0, "") and re.search(r"^method +lu$", text, re.M)
        assert np.allclose(A @ np.load(folder / "x.npy").ravel(), b)


@pytest.mark.parametrize("method", ["auto", "parac"])
def test_solve_takes_laplacians(run, folder, method):
    L = mmread(folder / "L.mtx")
    np.save(folder / "c.npy", L @ np.arange(30.0))
    code, text, err = run("solve", folder / "L.mtx", folder / "c.npy", "-o", folder / "y.npy", "--method", method)
    assert (code, err) == (0, "") and "relative_residual" in text and ("iterations" in text) == (method == "parac")
    assert np.allclose(np.load(folder / "y.npy"), np.arange(30.0) - 14.5, atol=1e-7)


# ---- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", arguments.METHODS)
def test_order_of_a_matrix(run, folder, method):
    code, text, err = run("order", folder / "A.mtx", "--method", method, "--perm", folder / "p.txt", "--stats", "--seed", 3)
    perm = np.loadtxt(folder / "p.txt", dtype=int)
    assert (code, err) == (0, "") and np.array_equal(np.sort(perm), np.arange(60))
    nnz = ms.analyze(mmread(folder / "A.mtx"), perm).nnz
    assert f"{method}: nnz(L) {nnz:,}, flops" in text and "supernodes" in text and "symbolic" in text
    assert re.search(rf"longest_column +{ms.analyze(mmread(folder / 'A.mtx'), perm).colcount.max()}\n", text)


def test_block_statistics(run, folder):
    code, text, err = run("order", folder / "A.mtx", "--blocks", 8, "--quiet")
    rows = [line.split() for line in text.splitlines()]
    assert (code, err) == (0, "") and rows[0][:2] == ["blocking", "ordering"] and len(rows) == 1 + 4 * 4 * 5
    blocks = {(b, o, int(level)): int(count.replace(",", "")) for b, o, level, _, count, _ in rows[1:]}
    assert all(blocks[b, o, level] <= blocks[b, o, level + 1] for b, o, level in blocks if level < 4)
    code, text, err = run("order", folder / "U.mtx", "--blocks")
    assert code == 1 and "not symmetric" in err


def test_order_of_a_mesh(run, folder):
    code, text, err = run("order", folder / "scan.ply", "--perm", folder / "p.npy", "--report", folder / "r.json")
    perm, n = np.load(folder / "p.npy"), len(ms.load_mesh(folder / "scan.ply").vertices)
    assert code == 0 and np.array_equal(np.sort(perm), np.arange(n)) and "supernodes" not in text
    assert np.array_equal(perm, ms.order.nested_dissection(ms.load_mesh(folder / "scan.ply")).perm)
    assert json.loads((folder / "r.json").read_text())["ordering"] == "nd"
    assert run("order", folder / "scan.ply", "--quiet") == (0, "", "")


# ---- info -------------------------------------------------------------------------------------------------------------


def facts(text):
    return dict(re.split(r"\s{2,}", line, maxsplit=1) for line in text.splitlines())


def test_info_of_a_mesh(run, folder):
    code, text, _ = run("info", folder / "ball.obj")
    said = facts(text)
    assert code == 0 and said["vertices"] == "162" and said["components"] == "1" and said["manifold"] == "yes"
    assert said["Euler characteristic"] == "2" and said["edges"].startswith("480, 0 on a boundary") and said["chosen"] == "cholesky, ordering minimum degree"
    ms.Mesh(np.eye(5)[:, :3], [[0, 1, 2], [0, 1, 3], [1, 0, 2]]).save(folder / "odd.obj")
    said = facts(run("info", folder / "odd.obj")[1])
    assert said["vertices"] == "5, 1 of them in no face" and said["manifold"] == "no" and "1 of more than two faces" in said["edges"]


@pytest.mark.parametrize("name, expected", [
    ("A.mtx", {"rows": "60", "symmetric": "yes", "definiteness": "positive definite"}),
    ("A.npz", {"rows": "60", "definiteness": "positive definite"}),
    ("L.mtx", {"components": "1", "definiteness": "singular", "chosen": "cholesky with pin=True"}),
    ("U.mtx", {"symmetric": "no", "chosen": "lu"}),
    ("C.mtx", {"rows": "3", "values": "complex", "diagonal": "1 to 2 in modulus", "chosen": "lu"}),
    ("D.mtx", {"components": "3", "definiteness": "not positive definite: the pivot of column 1", "diagonal": "-1 to 1"})])
def test_info_of_a_matrix(run, folder, name, expected):
    scipy.io.mmwrite(folder / "C.mtx", sp.coo_array(np.diag([1.0, 2.0, 1j])))
    scipy.io.mmwrite(folder / "D.mtx", sp.coo_array(np.diag([1.0, -1.0, 1.0])))
    code, text, err = run("info", folder / name)
    said = facts(text)
    assert (code, err) == (0, "")
    assert all(said[key].startswith(value) for key, value in expected.items()), said


def test_info_of_a_matrix_that_takes_long_does_not_factor_it(run, folder, monkeypatch):
    monkeypatch.setattr(describe, "MOST_FLOPS", 1.0)
    assert facts(run("info", folder / "A.mtx")[1])["definiteness"].startswith("not known")


def test_info_without_a_file(run):
    code, text, _ = run("info")
    assert code == 0 and {"meshsolve", "numpy", "threads", "instruction set", "gpu"} <= set(facts(text))


def told(run, folder, *argv):
    """What a command tells a program."""
    assert run(*argv, "--report", folder / "r.json")[0] == 0
    report = json.loads((folder / "r.json").read_text())
    assert all(re.fullmatch("[A-Za-z_]+", name) for name in report)
    return report


def test_info_of_a_mesh_for_programs(run, folder):
    mesh = ms.load_mesh(folder / "scan.ply")
    sym = ms.analyze(ms.graph_laplacian(mesh))
    report = told(run, folder, "info", folder / "scan.ply")
    for name, value in {"kind": "mesh", "vertices": len(mesh.vertices), "edges": len(mesh.edges), "faces": len(mesh.faces), "manifold": True,
                        "components": 1, "vertices_in_no_face": 0, "edges_of_more_than_two_faces": 0, "faces_without_area": 0,
                        "method": "cholesky", "ordering": sym.report.as_dict()["ordering"], "nnz_L": sym.nnz, "flops": sym.flops, "bytes": sym.nbytes}.items():
        assert report[name] == value and type(report[name]) in (type(value), float, int), name
    assert report["extent"] == pytest.approx(np.ptp(mesh.vertices, axis=0)) and report["area"] > 0 and report["mean_edge"] > 0
    assert report["euler_characteristic"] == len(mesh.vertices) - len(mesh.edges) + len(mesh.faces)
    ms.Mesh(np.eye(5)[:, :3], [[0, 1, 2], [0, 1, 3], [1, 0, 2]]).save(folder / "odd.obj")
    report = told(run, folder, "info", folder / "odd.obj")
    assert report["vertices_in_no_face"] == 1 and report["manifold"] is False and report["edges_of_more_than_two_faces"] == 1
    assert report["boundary_edges"] == 2


@pytest.mark.parametrize("name, expected", [
    ("A.npz", {"kind": "matrix", "rows": 60, "symmetric": True, "positive_definite": True, "method": "cholesky", "pin": False, "ordering": "amd"}),
    ("L.mtx", {"components": 1, "positive_definite": False, "rows_sum_to_zero": True, "method": "cholesky", "pin": True}),
    ("U.mtx", {"symmetric": False, "method": "lu", "nnz_A": 10, "entries_in_a_row": [1, 4]}),
    ("C.mtx", {"rows": 3, "values": "complex", "diagonal": [1, 2], "method": "lu"}),
    ("D.mtx", {"components": 3, "positive_definite": False, "diagonal": [-1, 1], "method": "ildl"})])
def test_info_of_a_matrix_for_programs(run, folder, name, expected):
    scipy.io.mmwrite(folder / "C.mtx", sp.coo_array(np.diag([1.0, 2.0, 1j])))
    scipy.io.mmwrite(folder / "D.mtx", sp.coo_array(np.diag([1.0, -1.0, 1.0])))
    report = told(run, folder, "info", folder / name)
    assert {key: report[key] for key in expected} == expected and ("condition_number" in report) == (name == "A.npz")


def test_info_of_what_is_not_known_is_null_for_programs(run, folder, monkeypatch):
    monkeypatch.setattr(describe, "MOST_FLOPS", 1.0)
    assert told(run, folder, "info", folder / "A.mtx")["positive_definite"] is None


def test_info_of_the_installation_for_programs(run, folder):
    report = told(run, folder, "info")
    assert report["threads"] >= 1 and report["meshsolve"] == ms.__version__ and report["instruction_set"]
    assert "none" not in report.values() and "not installed" not in report.values()


def test_view_tells_programs_numbers(run, folder):
    pytest.importorskip("polyscope")
    report = told(run, folder, "view", folder / "ball.obj", "--show", "one patch", "--screenshot", folder / "p.png", "--quiet")
    assert report["vertices"] == 162 and report["manifold"] is True and report["view"] == "one patch" and report["colours"].startswith("blue")


# ---- flows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["obj", "ply", "off", "stl", "glb", "ply.gz"])
def test_mcf_in_every_format(run, folder, suffix):
    out = folder / f"out.{suffix}"
    code, text, err = run("mcf", folder / "ball.obj", "-o", out, "--steps", 2, "--dt", 0.01)
    expected, _ = ms.apps.mcf(ms.load_mesh(folder / "ball.obj"), steps=2, dt=0.01)
    assert (code, err) == (0, "") and "numeric" in text
    assert np.allclose(np.sort(ms.load_mesh(out).vertices, axis=0), np.sort(expected.vertices, axis=0), atol=1e-6)


def test_mcf_draws_and_reports(run, folder):
    import matplotlib.image

    code, text, _ = run("mcf", folder / "scan.ply", "-o", folder / "out.ply", "--conformal", "--precision", "mixed", "--render",
                        folder / "p.png", "--report", folder / "r.json", "--quiet")
    picture, report = matplotlib.image.imread(folder / "p.png"), json.loads((folder / "r.json").read_text())
    assert (code, text) == (0, "") and min(picture.shape[:2]) > 300 and np.ptp(picture[..., 0]) > 0.3
    assert set(report["seconds"]) >= PHASES and report["steps"] == 1 and report["residual"] < 1e-14


@pytest.mark.parametrize("order", [1, 2])
def test_smooth(run, folder, order):
    code, _, err = run("smooth", folder / "scan.ply", "-o", folder / "out.obj", "--strength", 2, "--order", order)
    expected, _ = ms.apps.smooth(ms.load_mesh(folder / "scan.ply"), 2, order)
    assert (code, err) == (0, "") and np.array_equal(ms.load_mesh(folder / "out.obj").vertices, expected.vertices)


def test_a_report_does_not_take_the_place_of_the_mesh(run, folder):
    before = listing(folder)
    for option, name in (("--report", "scan.ply"), ("--report", "out.obj")):
        code, _, err = run("smooth", folder / "scan.ply", "-o", folder / "out.obj", option, folder / name, "--quiet")
        assert code == 1 and ("this is an input" in err or "the same name" in err) and listing(folder) == before


def test_a_sparse_right_hand_side_with_damaged_indices_is_refused(run, folder):
    held = dict(format=np.array(b"csr"), shape=np.array([60, 1]), data=np.ones(60), indices=np.zeros(60, np.int32),
                indptr=np.arange(61, dtype=np.int32))
    held["indices"][3] = 10**8
    np.savez(folder / "b.npz", **held)
    code, _, err = run("solve", folder / "A.mtx", folder / "b.npz", "-o", folder / "x.npy")
    assert code == 1 and "b.npz: not a readable vector: " in err and not (folder / "x.npy").exists()


@pytest.mark.skipif(os.name != "posix", reason="a shell closes it")
def test_closed_standard_output_is_no_error(folder):
    command = shlex.join([sys.executable, "-m", "meshsolve", "info", "A.mtx"])
    done = subprocess.run(["sh", "-c", f"{command} >&-"], cwd=folder, stderr=subprocess.PIPE, text=True, timeout=120,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stderr) == (0, "")


def test_the_input_may_be_the_output(run, folder):
    assert run("smooth", folder / "ball.obj", "-o", folder / "ball.obj", "--quiet")[0] == 0
    assert len(ms.load_mesh(folder / "ball.obj").vertices) == 162


# ---- circuits -----------------------------------------------------------------------------------------------------------


RECTIFIER = """half a bridge
V1 in 0 SIN(0 5 50)
D1 in out dm
R1 out 0 1k
C1 out 0 10u
.model dm D(IS=1e-14)
.tran 0.5m 20m
.print tran v(out) v(in,out)
.op
.end
"""


def test_circuit(run, folder):
    (folder / "deck.sp").write_text(RECTIFIER)
    code, text, err = run("circuit", folder / "deck.sp", "-o", folder / "out.csv", "--plot", folder / "p.png", "--report", folder / "r.json")
    table, report = (folder / "out.csv").read_text().splitlines(), json.loads((folder / "r.json").read_text())
    assert (code, err) == (0, "") and "refactor" in text and table[0] == 'time,v(out),"v(in,out)"' and len(table) == 42
    assert max(float(row.split(",")[1]) for row in table[1:]) == pytest.approx(4.3, abs=0.1)
    assert report["time_steps"] >= 40 and report["refactorizations"] > 40 and (folder / "p.png").read_bytes()[:4] == b"\x89PNG"
    assert run("circuit", folder / "deck.sp", "-o", folder / "op.csv", "--analysis", "op", "--quiet") == (0, "", "")
    assert (folder / "op.csv").read_text() == "name,value\nv(in),0.0\nv(out),0.0\n"


# ---- what goes wrong ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("argv", [
    ["mcf"], ["mcf", "ball.obj"], ["mcf", "ball.obj", "-o", "x.obj", "--steps", "0"], ["mcf", "ball.obj", "-o", "x.obj", "--steps", "²"],
    ["mcf", "ball.obj", "-o", "x.obj", "--dt", "0"], ["mcf", "ball.obj", "-o", "x.obj", "--dt", "soon"], ["smooth", "ball.obj", "-o", "x.obj", "--order", "3"],
    ["smooth", "ball.obj", "-o", "x.obj", "--strength", "-1"], ["smooth", "ball.obj", "-o", "x.obj", "--strength", "nan"],
    ["order", "A.mtx", "--method", "metis"], ["order", "A.mtx", "--seed", "-1"], ["order", "A.mtx", "--threads", "0"],
    ["circuit", "deck.sp"], ["circuit", "deck.sp", "-o", "x.csv", "--analysis", "noise"],
    ["solve", "A.mtx", "b.mtx"], ["solve", "-", "b.mtx", "-o", "x.mtx"], ["solve", "A.mtx", "-", "-o", "x.mtx"], ["order", "A.mtx", "--perm", "-"],
    ["circuit", "deck.sp", "-o", "-"], ["info", "-"], ["mcf", "ball.obj", "-o", "x.obj", "--report", "-"], ["view", "-"], ["sovle"], ["info", "a", "b"], ["--nonsense"], []])
def test_wrong_usage_is_2(run, folder, monkeypatch, argv):
    monkeypatch.chdir(folder)
    before = listing(folder)
    code, text, err = run(*argv)
    assert (code, text) == (2, "") and "usage" in err and listing(folder) == before


def test_standard_input_is_told_from_a_file(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert "neither standard input nor standard output; a file of the name - is ./-" in run("order", "A.mtx", "--perm", "-")[2]
    assert run("order", "A.mtx", "--perm", "./-", "--quiet") == (0, "", "") and pathlib.Path("-").exists()


@pytest.mark.parametrize("given", ["0", "-1", "soon", "inf"])
def test_a_wrong_time_step_is_told_what_would_do(run, given):
    assert "neither auto nor a number above 0" in run("mcf", "ball.obj", "-o", "x.obj", "--dt", given)[2]


@pytest.mark.parametrize("argv, words", [
    (["mcf", "none.obj", "-o", "x.obj"], "no such file"),
    (["mcf", "A.mtx", "-o", "x.obj"], "unknown mesh format"),
    (["mcf", "ball.obj", "-o", "x.xyz"], "meshes are written as"),
    (["mcf", "ball.obj", "-o", "x.obj", "--render", "x.jpg"], "pictures are written as .png"),
    (["mcf", "ball.obj", "-o", "no/x.obj"], "there is no folder"),
    (["mcf", "ball.obj", "-o", "x.obj", "--report", "no/x.json"], "there is no folder"),
    (["mcf", "ball.obj", "-o", "x.obj", "--report", "x.obj"], "same name"),
    (["mcf", "ball.obj", "-o", "."], "folder"),
    (["mcf", "flat.obj", "-o", "x.obj"], "flat.obj: the mesh has no face with an area"),
    (["smooth", "flat.obj", "-o", "x.obj"], "flat.obj: the mesh has no face with an area"),
    (["smooth", "half.ply", "-o", "x.obj"], "half.ply"),
    (["solve", "none.mtx", "b.mtx", "-o", "x.mtx"], "no such file"),
    (["solve", "A.mtx", "none.mtx", "-o", "x.mtx"], "no such file"),
    (["solve", "half.mtx", "b.mtx", "-o", "x.mtx"], "half.mtx:"),
    (["solve", "half.npz", "b.mtx", "-o", "x.mtx"], "half.npz: not a readable matrix"),
    (["solve", "half.mtx.gz", "b.mtx", "-o", "x.mtx"], "half.mtx.gz: not a readable matrix"),
    (["solve", "huge.mtx", "b.mtx", "-o", "x.mtx"], "huge.mtx:3: 9 entries were announced, 1 are there"),
    (["solve", "A.mtx", "half.mtx", "-o", "x.mtx"], "half.mtx:"),
    (["solve", "A.mtx", "ball.obj", "-o", "x.mtx"], "unknown vector format"),
    (["solve", "ball.obj", "b.mtx", "-o", "x.mtx"], "unknown matrix format"),
    (["solve", "A.mtx", "A.mtx", "-o", "no/x.mtx"], "there is no folder"),
    (["solve", "A.mtx", "b.mtx", "-o", "x.xyz"], "solutions are written as .mtx, .mtx.gz, .npy, .npz, .txt"),
    (["solve", "A.mtx", ".", "-o", "x.mtx"], ".: this is a folder"),
    (["solve", "L.mtx", "b.mtx", "-o", "x.mtx", "--method", "cholesky"], "b has to be (30,) or (30, k), not (60,)"),
    (["circuit", "none.sp", "-o", "x.csv"], "none.sp: there is no such file"),
    (["circuit", "A.mtx", "-o", "x.csv"], "A.mtx:2: "),
    (["circuit", "A.mtx", "-o", "no/x.csv"], "there is no folder"),
    (["circuit", "A.mtx", "-o", "x.csv", "--plot", "x.jpg"], "pictures are written as .png"),
    (["order", "A.mtx", "--perm", "no/p.txt"], "there is no folder"),
    (["order", "none.mtx"], "no such file"),
    (["order", "ball.obj", "--blocks", "--perm", "p.txt"], "ball.obj: --blocks needs a matrix (.mtx, .npz, .npy), not a mesh"),
    (["order", "U.mtx", "--blocks", "--perm", "p.txt"], "not symmetric"),
    (["info", "none.ply"], "none.ply: there is no such file"),
    (["info", "none"], "none: there is no such file"),
    (["info", "table.csv"], "table.csv: neither a mesh (.obj, .ply, .off, .stl, .glb, .gltf) nor a matrix (.mtx, .npz, .npy)"),
    (["order", "table.csv"], "table.csv: neither a mesh"),
    (["info", "empty.mtx"], "empty.mtx:1: the file is empty"),
    (["info", "."], ".: this is a folder"),
    (["mcf", ".", "-o", "x.obj"], ".: this is a folder"),
    (["info", "b.mtx"], "b.mtx: the matrix has to be square, not 60 x 1"),
    (["info", "b.mtx.gz"], "b.mtx.gz: the matrix has to be square, not 60 x 1"),
    (["info", "vector.npy"], "vector.npy: the matrix has to be a 2-D"),
    (["info", "./vector.npy"], "./vector.npy: the matrix has to be a 2-D"),
    (["info", "./none.npy"], "error: none.npy: there is no such file"),
    (["order", "b.mtx"], "b.mtx: the matrix has to be square"),
    (["info", "nan.npy"], "nan.npy: row 1, column 1 holds nan"),
    (["solve", "b.mtx", "b.mtx", "-o", "x.mtx"], "b.mtx: A has to be square"),
    (["solve", "A.mtx", "short.npy", "-o", "x.mtx"], "short.npy: b has to be (60,)"),
    (["solve", "A.mtx", "nans.npy", "-o", "x.mtx"], "nans.npy: row 0 holds nan"),
    (["solve", "U.mtx", "short.npy", "-o", "x.mtx", "--method", "cholesky"], "U.mtx: A is not symmetric"),
    (["solve", "words.mtx", "b.mtx", "-o", "x.mtx"], "words.mtx:3: a line of this file holds 3 numbers, not '1 4 x'"),
    (["info", "deck.cir"], "deck.cir: this is the name of a SPICE netlist; run it with: meshsolve circuit deck.cir -o OUT.csv"),
    (["order", "deck.cir"], "run it with: meshsolve circuit deck.cir"),
    (["mcf", "deck.cir", "-o", "x.obj"], "run it with: meshsolve circuit deck.cir"),
    (["solve", "deck.cir", "b.mtx", "-o", "x.mtx"], "run it with: meshsolve circuit deck.cir"),
    (["view", "deck.cir"], "run it with: meshsolve circuit deck.cir"),
    (["info", "none.sp"], "none.sp: there is no such file"),
    (["info", "garbage.npz"], "garbage.npz: this is no .npz file"),
    (["solve", "garbage.npy", "b.mtx", "-o", "x.mtx"], "garbage.npy: this is no .npy file"),
    (["solve", "A.mtx", "garbage.npy", "-o", "x.mtx"], "garbage.npy: this is no .npy file"),
    (["solve", "A.mtx", "nothing.npz", "-o", "x.mtx"], "nothing.npz: the file is empty"),
    (["solve", "A.mtx", "objects.npy", "-o", "x.mtx"], "objects.npy: not a readable vector"),
    (["solve", "A.mtx", "two.npz", "-o", "x.mtx"], "two.npz: one array is wanted; the file holds 2: a, b"),
    (["solve", "text.npy", "b.mtx", "-o", "x.mtx"], "text.npy: not a readable matrix: it holds <U3, not numbers"),
    (["order", "A.mtx", "--perm", "p.npz"], "p.npz: permutations are written as .txt or .npy"),
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


def test_several_right_hand_sides_of_an_indefinite_matrix(run, folder):
    scipy.io.mmwrite(folder / "K.mtx", ms.datasets.kkt(20, 10))
    np.savetxt(folder / "b2.txt", np.ones((30, 2)))
    code, text, err = run("solve", folder / "K.mtx", folder / "b2.txt", "-o", folder / "x2.NPY")
    assert (code, err) == (0, "") and re.search(r"^method +ildl$", text, re.M)
    assert np.allclose(ms.datasets.kkt(20, 10) @ np.load(folder / "x2.NPY"), 1)


@pytest.mark.parametrize("failure, words", [(OSError(28, "No space left on device"), "No space left"), (KeyboardInterrupt(), "interrupted"),
                                            (MemoryError(), "not enough memory"), (ZeroDivisionError("oh"), "ZeroDivisionError: oh")])
def test_outputs_come_together_or_not_at_all(run, folder, monkeypatch, failure, words):
    def fails(path, report):
        path.write_text("half")
        raise failure

    monkeypatch.setattr(files, "write_report", fails)
    (folder / "out.obj").write_text("older")
    before = listing(folder)
    code, _, err = run("mcf", folder / "ball.obj", "-o", folder / "out.obj", "--render", folder / "p.png", "--report", folder / "r.json")
    assert code == 1 and words in err and err.count("\n") == 1 and listing(folder) == before


@pytest.mark.filterwarnings("default::meshsolve.errors.MeshsolveWarning")
def test_warnings_are_one_line(run, folder):
    (folder / "twice.obj").write_text((folder / "ball.obj").read_text() + "f 1 1 2\n")
    code, _, err = run("smooth", folder / "twice.obj", "-o", folder / "out.obj", "--quiet")
    assert code == 0 and err == "meshsolve: warning: 1 faces with a repeated corner were dropped\n"


def test_a_bad_setting_of_the_environment_is_said(run, folder, monkeypatch):
    monkeypatch.setenv("MESHSOLVE_NUM_THREADS", "many")
    code, _, err = run("order", folder / "A.mtx")
    assert code == 1 and err.startswith("meshsolve: error: MESHSOLVE_NUM_THREADS")


@pytest.mark.parametrize("command", ["", "mcf", "smooth", "solve", "order", "circuit", "view", "info"])
def test_help(run, command):
    code, text, err = run(*filter(None, [command]), "--help")
    assert (code, err) == (0, "") and "usage: meshsolve" in text and len(text) > 300
    assert "Exit codes: 0 done; 2 wrong usage; 1 anything else" in " ".join(text.split())
    assert not re.search(r"\s{2,}(default:|of (the )?\w+ \(default)", text)              # what an option is, not only its default


def test_version(run):
    assert run("--version")[:2] == (0, f"meshsolve {ms.__version__}\n")


# ---- processes ----------------------------------------------------------------------------------------------------------


def test_as_a_process(folder):
    done = process("solve", "A.mtx", "b.mtx", "-o", "x.mtx", cwd=folder, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (done.returncode, done.stderr) == (0, "") and (folder / "x.mtx").is_file()


LONG = ["mcf", "ball.obj", "-o", "out.obj", "--steps", "1000000", "--dt", "1e-12", "--report", "r.json"]


def test_ctrl_c_ends_a_long_run_with_one_line_and_no_files(folder):
    before = listing(folder)
    child = subprocess.Popen([sys.executable, "-X", "importtime", "-m", "meshsolve", *LONG], cwd=folder, stderr=subprocess.PIPE, text=True,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    for line in child.stderr:                       # the last module of ours that is imported
        if "meshsolve.cli" in line:
            break
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    lines = [line for line in child.communicate(timeout=60)[1].splitlines() if not line.startswith("import time:")]
    assert child.returncode == 1 and lines == ["meshsolve: error: interrupted"] and listing(folder) == before


def test_ctrl_c_while_the_command_line_is_read_is_one_line_too(run, monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "parser", interrupted)
    assert run("info") == (1, "", "meshsolve: error: interrupted\n")


def test_a_bar_is_shown_to_a_person(folder):
    main, side = pty.openpty()
    child = subprocess.Popen([sys.executable, "-m", "meshsolve", *LONG], cwd=folder, stdout=subprocess.DEVNULL, stderr=side,
                             env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"})
    os.close(side)
    seen, end = b"", time.monotonic() + 20
    bar = rb"step \d+/1000000 (assemble|numeric|solve) +\d+% \|"
    while not re.search(bar, seen) and time.monotonic() < end:
        if select.select([main], [], [], 1)[0]:
            seen += os.read(main, 4096)
    child.send_signal(signal.SIGINT)
    child.wait(timeout=60)
    os.close(main)
    assert child.returncode == 1 and re.search(bar, seen)


@pytest.mark.parametrize("command", ["mcf", "smooth", "solve"])
def test_a_device(run, folder, command):
    """On a stand-in for a GPU the files of the CPU; without one, one line that says what is missing."""
    from kernel_harness.strict import Strict

    from meshsolve import device

    given = [folder / "A.mtx", folder / "b.mtx"] if command == "solve" else [folder / "ball.obj"]
    suffix = "txt" if command == "solve" else "obj"
    assert run(command, *given, "-o", folder / f"cpu.{suffix}", "--quiet", "--device", "cpu") == (0, "", "")
    with device.use(Strict()):
        assert run(command, *given, "-o", folder / f"cuda.{suffix}", "--quiet", "--device", "cuda") == (0, "", "")
    here, there = ([*map(float, (folder / f"{place}.{suffix}").read_text().replace("v", "").replace("f", "").split())] for place in ("cpu", "cuda"))
    assert np.allclose(here, there, rtol=1e-12, atol=1e-12)
    if not device.available():
        code, _, err = run(command, *given, "-o", folder / f"none.{suffix}", "--device", "cuda")
        assert code == 1 and err.startswith("meshsolve: error: device=") and not (folder / f"none.{suffix}").exists()
