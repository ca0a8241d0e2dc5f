"""The commands order and info: permutations, statistics, printed facts and JSON reports."""

import json
import re

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from cli_files import mmread

import meshsolve as ms
from meshsolve.cli import costs, describe
from meshsolve.order.methods import names

# ---- order ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", names())
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


def test_parts_of_a_mesh(run, folder):
    code, text, err = run("order", folder / "scan.ply", "--parts", 3, "--part", folder / "part.txt")
    mesh, part = ms.load_mesh(folder / "scan.ply"), np.loadtxt(folder / "part.txt", dtype=int)
    assert (code, err) == (0, "") and np.array_equal(part, ms.order.partition(mesh, 3))
    sizes, cut = np.bincount(part), np.count_nonzero(np.diff(part[mesh.edges], axis=1))
    assert f"3 parts of {sizes.min():,} to {sizes.max():,} rows, {cut:,} edges between them" in text


def test_capital_suffixes(run, folder):
    for name in ("p.NPY", "p.npy"):
        assert run("order", folder / "A.mtx", "--perm", folder / name, "--quiet")[0] == 0
    assert np.array_equal(np.load(folder / "p.NPY"), np.load(folder / "p.npy"))


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
    assert said["vertices"] == "5, 1 in no face" and said["components"] == "1"
    assert said["manifold"] == "no" and "1 with more than two faces" in said["edges"]


@pytest.mark.parametrize("name, expected", [
    ("A.mtx", {"rows": "60", "symmetric": "yes", "definiteness": "positive definite"}),
    ("A.npz", {"rows": "60", "definiteness": "positive definite"}),
    ("L.mtx", {"components": "1", "definiteness": "singular", "chosen": "cholesky with pin=True"}),
    ("U.mtx", {"symmetric": "no", "chosen": "lu"}),
    ("C.mtx", {"rows": "3", "values": "complex", "diagonal": "1 to 2 (absolute values)", "chosen": "lu"}),
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
    assert facts(run("info", folder / "A.mtx")[1])["definiteness"].startswith("not computed")


def test_info_without_a_file(run):
    code, text, _ = run("info")
    assert code == 0 and {"meshsolve", "numpy", "threads", "instruction set", "gpu"} <= set(facts(text))


# ---- costs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def costly(folder):
    """A folder with a system of each kind that is large enough for a factor."""
    scipy.io.mmwrite(folder / "K.mtx", ms.datasets.kkt(600, 240))
    scipy.io.mmwrite(folder / "R.mtx", sp.coo_array(ms.datasets.grid2d(20, 20, boundary="dirichlet") + sp.diags_array(np.ones(399), offsets=1)))
    scipy.io.mmwrite(folder / "P.mtx", ms.datasets.grid3d(20))
    L = ms.datasets.grid2d(30, 30)
    W = sp.csr_array(sp.diags_array(L.diagonal()) - L)
    W.eliminate_zeros()
    scipy.io.mmwrite(folder / "W.mtx", W)
    (folder / "d.sp").write_text("* rectifier\nV1 a 0 SIN(0 1 50)\nD1 a b dm\nR1 b 0 1k\nC1 b 0 1u\n.model dm D(IS=1e-12)\n.tran 1u 1m\n.end\n")
    return folder


def factor_of(name, folder):
    """The factor itself, to compare its size."""
    if name == "d.sp":
        return ms.lu(ms.apps.circuit.read(folder / name).matrix())
    A = mmread(folder / name)
    return {"A.mtx": ms.cholesky, "R.mtx": ms.lu, "K.mtx": lambda A: ms.ildl(A, fill_level=None)}[name](A)


@pytest.mark.parametrize("name, method, most", [("A.mtx", "cholesky", 0), ("R.mtx", "lu", 0), ("d.sp", "lu", 0), ("K.mtx", "ildl", 0.2)])
def test_the_predicted_size_is_that_of_the_factor(run, costly, name, method, most):
    report, F = reported(run, costly, "info", costly / name), factor_of(name, costly)
    assert report["method"] == method and report["nnz_L"] == pytest.approx(F.nnz, rel=most)
    assert report["flops"] == pytest.approx(F.report.facts["flops"], rel=most)
    assert report["seconds_analysis"] > 0 and report["seconds_factor"] >= 0 and report["seconds_solve"] > 0 and report["bytes"] > 0
    said = facts(run("info", costly / name)[1])
    assert f"{report['nnz_L']:,} nonzeros" in said["factor"] and "estimated" in said["factorization"] and "measured" in said["analysis"]


def test_the_cost_of_a_graph_is_that_of_its_laplacian(run, costly):
    report = reported(run, costly, "info", costly / "W.mtx")
    sym = ms.analyze(ms.datasets.grid2d(30, 30))
    assert report["kind"] == "graph" and report["edges"] == 1740 and report["laplacian_method"] == "cholesky"
    assert report["laplacian_nnz_L"] == sym.nnz and report["laplacian_flops"] == sym.flops


def test_the_cost_of_a_large_graph_is_that_of_a_random_factor(run, costly, monkeypatch):
    monkeypatch.setattr("meshsolve.api.solving.LARGE_FACTOR", 1.0)
    report = reported(run, costly, "info", costly / "P.mtx")
    assert report["method"] == "parac" and report["nnz_complete"] == ms.analyze(ms.datasets.grid3d(20)).nnz
    assert report["nnz_L"] == pytest.approx(ms.parac(ms.datasets.grid3d(20)).nnz, rel=0.01)


def test_a_structurally_singular_matrix_has_no_factor(run, folder):
    scipy.io.mmwrite(folder / "S.mtx", sp.coo_array([[0.0, 1.0, 2.0], [0.0, 3.0, 4.0], [0.0, 5.0, 0.0]]))
    assert facts(run("info", folder / "S.mtx")[1])["factor"].startswith("no factor: A is singular: column 0 has no nonzero (structural rank 2 of 3)")


def test_a_factor_larger_than_memory_is_said(run, folder, monkeypatch):
    monkeypatch.setattr(describe, "available_memory", lambda: 100)
    assert "more than the available memory of 0.0 GiB" in facts(run("info", folder / "A.mtx")[1])["factor"]


def test_seconds_follow_the_model():
    rates, size = costs.Rates(2e-10, 3e-8, 1e-9), costs.Size("cholesky", 1000, 1e6, 8000, 0.1)
    assert rates.factor(size) == pytest.approx(2e-4 + 3e-5)
    measured = costs.rates_of("cholesky")
    assert measured.flop >= 0 and measured.entry >= 0 and measured.flop + measured.entry > 0 and measured.solve > 0
    assert costs.rates_of("cholesky") is measured                       # measured once


def test_info_of_several_files_and_patterns(run, costly, monkeypatch):
    monkeypatch.chdir(costly)
    code, text, err = run("info", "A.*", "d.sp", "--report", "r.json")
    assert (code, err) == (0, "") and re.findall(r"^(\S+):$", text, re.MULTILINE) == ["A.mtx", "A.npz", "d.sp"]
    report = json.loads((costly / "r.json").read_text())
    assert list(report) == ["A.mtx", "A.npz", "d.sp"] and report["d.sp"]["kind"] == "netlist" and report["d.sp"]["analyses"] == ["tran"]


# ---- for programs -----------------------------------------------------------------------------------------------------


def reported(run, folder, *argv):
    """Run a command and return its JSON report."""
    assert run(*argv, "--report", folder / "r.json")[0] == 0
    report = json.loads((folder / "r.json").read_text())
    assert all(re.fullmatch("[A-Za-z_]+", name) for name in report)
    return report


def test_info_of_a_mesh_for_programs(run, folder):
    mesh = ms.load_mesh(folder / "scan.ply")
    sym = ms.analyze(ms.graph_laplacian(mesh))
    report = reported(run, folder, "info", folder / "scan.ply")
    for name, value in {"kind": "mesh", "vertices": len(mesh.vertices), "edges": len(mesh.edges), "faces": len(mesh.faces), "manifold": True,
                        "components": 1, "vertices_in_no_face": 0, "edges_of_more_than_two_faces": 0, "faces_without_area": 0, "degenerate_faces": 0,
                        "method": "cholesky", "ordering": sym.report.as_dict()["ordering"], "nnz_L": sym.nnz, "flops": sym.flops, "bytes": sym.nbytes}.items():
        assert report[name] == value and type(report[name]) in (type(value), float, int), name
    assert report["extent"] == pytest.approx(np.ptp(mesh.vertices, axis=0)) and report["area"] > 0 and report["mean_edge"] > 0
    assert report["euler_characteristic"] == len(mesh.vertices) - len(mesh.edges) + len(mesh.faces)
    ms.Mesh(np.eye(5)[:, :3], [[0, 1, 2], [0, 1, 3], [1, 0, 2]]).save(folder / "odd.obj")
    report = reported(run, folder, "info", folder / "odd.obj")
    assert report["vertices_in_no_face"] == 1 and report["manifold"] is False and report["edges_of_more_than_two_faces"] == 1
    assert report["boundary_edges"] == 2
    ms.Mesh([[0, 0, 0], [1, 0, 0], [0.3, 1e-9, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 3]]).save(folder / "flat.ply")
    report = reported(run, folder, "info", folder / "flat.ply")
    assert report["degenerate_faces"] == 1 and report["faces_without_area"] == 0


@pytest.mark.parametrize("name, expected", [
    ("A.npz", {"kind": "matrix", "rows": 60, "symmetric": True, "positive_definite": True, "method": "cholesky", "pin": False, "ordering": "amd"}),
    ("L.mtx", {"components": 1, "positive_definite": False, "rows_sum_to_zero": True, "method": "cholesky", "pin": True}),
    ("U.mtx", {"symmetric": False, "method": "lu", "nnz_A": 10, "entries_in_a_row": [1, 4]}),
    ("C.mtx", {"rows": 3, "values": "complex", "diagonal": [1, 2], "method": "lu"}),
    ("D.mtx", {"components": 3, "positive_definite": False, "diagonal": [-1, 1], "method": "ildl"})])
def test_info_of_a_matrix_for_programs(run, folder, name, expected):
    scipy.io.mmwrite(folder / "C.mtx", sp.coo_array(np.diag([1.0, 2.0, 1j])))
    scipy.io.mmwrite(folder / "D.mtx", sp.coo_array(np.diag([1.0, -1.0, 1.0])))
    report = reported(run, folder, "info", folder / name)
    assert {key: report[key] for key in expected} == expected and ("condition_number" in report) == (name == "A.npz")


def test_info_of_a_matrix_whose_condition_is_no_number(run, folder):
    scipy.io.mmwrite(folder / "wide.mtx", sp.coo_array(np.diag([1e-200, 1e200])))
    code, out, err = run("info", str(folder / "wide.mtx"), "--report", str(folder / "r.json"))
    assert (code, err) == (0, "") and "above 1e300" in out
    assert json.loads((folder / "r.json").read_text())["condition_number"] is None


def test_info_of_what_is_not_known_is_null_for_programs(run, folder, monkeypatch):
    monkeypatch.setattr(describe, "MOST_FLOPS", 1.0)
    assert reported(run, folder, "info", folder / "A.mtx")["positive_definite"] is None


def test_info_of_the_installation_for_programs(run, folder):
    report = reported(run, folder, "info")
    assert report["threads"] >= 1 and report["meshsolve"] == ms.__version__ and report["instruction_set"]
    assert "none" not in report.values() and "not installed" not in report.values()


def test_the_report_of_view_has_numbers(run, folder):
    pytest.importorskip("polyscope")
    report = reported(run, folder, "view", folder / "ball.obj", "--show", "one patch", "--screenshot", folder / "p.png", "--quiet")
    assert report["vertices"] == 162 and report["manifold"] is True and report["view"] == "one patch" and report["colors"].startswith("blue")
