"""Benchmark programs on small problems: graphs, updates, iterations, circuits, threads."""

import json
import pathlib
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import scipy.sparse as sp
from kernel_harness import Harness
from kernel_harness.strict import Strict

import meshsolve as ms
from benchmarks import circuits, glu, iterative, ngspice, parac, scaling, scaling_worker, tables
from benchmarks.peers import Unavailable
from benchmarks.peers.klu import Klu
from meshsolve import device


@pytest.mark.slow
def test_parac_results_are_measured_and_written(tmp_path, monkeypatch, capsys):
    tiny = parac.Problem(lambda: ms.datasets.grid2d(20, 20), (60, 60, 60), multigrid=0.0, nanoseconds=1e9)
    monkeypatch.setattr(parac, "PROBLEMS", {"tiny": tiny})
    monkeypatch.setattr(parac, "SHARED", 1)
    out = tmp_path / "parac.json"
    parac.main(["--problems", "tiny", "--threads", "1", "2", "--repeat", "1", "--out", str(out)])
    run = json.loads(out.read_text())
    row, asked = run["rows"][0], {b["what"]: b["asked"] for b in run["bars"]}
    assert [asked[f"tiny, {o}: factor, ns per entry of G"] for o in parac.ORDERINGS] == [True, False, False]
    gains = [asked[f"tiny, {o}: factor, two threads against one"] for o in parac.ORDERINGS]
    assert gains in ([True, True, False], [True, False, True]) and set(row["factor_threads"]["amd"]) == {"1", "2"}
    assert set(row["orders"]) == {f"{o}-{s}" for o in parac.ORDERINGS for s in (1, 2)} and row["n"] == 400
    assert all(found["error"] < parac.WRONG for found in row["solvers"].values() if "seconds" in found)
    assert "parac-auto-1t" in row["solvers"] and all(b["passed"] for b in run["bars"] if "iterations" in b["what"])
    assert "tiny: 400 vertices" in capsys.readouterr().out and run["dgemm"] > 0.1
    for dgemm, bound in ((20, 2e9), (80, 1e9)):             # a slower core gets more nanoseconds, a faster one no fewer
        bars = {b["what"]: b["bound"] for b in parac.verdicts(run["rows"], dgemm=dgemm)}
        assert bars["tiny, amd: factor, ns per entry of G"] == bound


@pytest.mark.slow
def test_tasks_on_graphs_are_compared_with_other_libraries(tmp_path, capsys, monkeypatch):
    from benchmarks import graphs

    out, weights = tmp_path / "graphs.json", graphs.weights
    assert graphs.main(["--sizes", "600", "--kinds", "road", "neighbors", "--out", str(out)]) == 0
    run = json.loads(out.read_text())
    assert [row["graph"] for row in run["rows"]] == ["road", "neighbors"] and "neighbors" in capsys.readouterr().out
    assert all(row["n"] == 600 and row["difference"] < graphs.WRONG and {"embedding", "labels", "resistances"} <= row["seconds"].keys()
               for row in run["rows"])
    monkeypatch.setattr(graphs, "peer_tasks", lambda W: {"pagerank of peer": lambda: np.ones(W.shape[0])})
    with pytest.raises(RuntimeError, match="results differ by"):
        graphs.measure(weights("road", 300))


def test_embeddings_are_compared_with_correct_results_only(tmp_path, monkeypatch, capsys):
    from benchmarks import embedding, embedding_worker

    rng, given = np.random.default_rng(0), {"meshsolve": 2.0, "arpack": 30.0, "lobpcg": 1.0, "amg": None}
    X = rng.standard_normal((100, 8))

    def child(module, task, threads, limit):
        name = task["program"]
        if given[name] is None:
            return {"failed": embedding.STOPPED}
        np.save(pathlib.Path(task["folder"]) / f"{name}.npy", -X if name != "lobpcg" else X + 1e-3)
        return {"cpu": given[name]} | ({"method": "lanczos"} if name == "meshsolve" else {})

    monkeypatch.setattr(embedding, "child", child)
    for arpack, ratio, shown in ((30.0, 15.0, "15.0"), (None, 50.0, "> 50.0")):      # a stopped peer is a lower bound
        given["arpack"] = arpack
        assert embedding.main(["--quick", "--kinds", "communities", "preferential", "--limit", "100", "--out", str(tmp_path / "e.json")]) == 0
        rows = json.loads((tmp_path / "e.json").read_text())["rows"]
        assert [row["ratio"] for row in rows] == [ratio, ratio] and shown in (text := capsys.readouterr().out) and "(1.00)" in text
    W = embedding.graph("road", 300)
    sp.save_npz(tmp_path / "W.npz", W)
    found = json.loads(subprocess.run([sys.executable, "-m", embedding_worker.__name__], text=True, capture_output=True, check=True,
                                      input=json.dumps({"program": "meshsolve", "folder": str(tmp_path), "limit": 100})).stdout)
    assert found["cpu"] > 0 and np.load(tmp_path / "meshsolve.npy").shape == (W.shape[0], 8)


def test_a_factor_on_disk_is_measured(tmp_path, capsys):
    from benchmarks import disk

    (tmp_path / "factor").mkdir()
    assert disk.main([str(tmp_path / "factor"), "--side", "9", "--out", str(tmp_path / "d.json")]) == 0
    row, = json.loads((tmp_path / "d.json").read_text())["rows"]
    assert row["rows"] == 729 and row["file_bytes"] >= 8 * row["nnz_L"] and row["rss_solved"] >= row["rss_before"] > 0 == row["files_left"]


def test_updates_are_compared_with_cholmod(tmp_path, capsys):
    from benchmarks import updates

    out = tmp_path / "updates.json"
    assert updates.main(["--meshes", "icosphere-3", "--repeat", "2", "--out", str(out)]) == 0
    run = json.loads(out.read_text())
    row = run["rows"][0]
    assert row["n"] == 642 and row["error"] < updates.WRONG and "icosphere-3" in capsys.readouterr().out
    assert {"refactor", "inverse", "update 1", "downdate 10"} <= row["seconds"].keys() and len(run["bars"]) == 5
    columns, rows = tables.updates_table(run)
    assert len(rows) == 1 and len(columns) == len(rows[0])
    with device.use(Strict()):
        assert updates.main(["--meshes", "icosphere-1", "--repeat", "1", "--device", "cuda", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["rows"][0]["error"] < updates.WRONG


def test_gradients_are_compared_with_the_least_work(tmp_path, capsys, monkeypatch):
    pytest.importorskip("torch")
    from benchmarks import gradients

    out = tmp_path / "gradients.json"
    monkeypatch.setattr(gradients, "MOST", 1e9)
    assert gradients.main(["--meshes", "icosphere-2", "--repeat", "2", "--out", str(out)]) == 0
    run = json.loads(out.read_text())
    row = run["rows"][0]
    assert row["n"] == 162 and row["error"] < gradients.WRONG and row["entries"]["faces"] > row["entries"]["matrix"]
    assert {"least", "matrix", "faces", "logdet"} <= row["seconds"].keys() and len(run["bars"]) == 3
    monkeypatch.setattr(gradients, "WRONG", 0.0)
    with pytest.raises(RuntimeError, match="error of a derivative"):
        gradients.main(["--meshes", "icosphere-2", "--repeat", "2", "--out", str(out)])


@pytest.mark.slow
def test_a_slow_solver_is_stopped_and_reported(tmp_path):
    import meshsolve as ms

    A = ms.datasets.grid2d(150, 150)
    iterative.save(tmp_path, A, A @ np.random.default_rng(0).standard_normal(22_500))
    options = types.SimpleNamespace(repeat=2, limit=60)
    found = iterative.measure(tmp_path, "parac-amd", 1, options, 1e-8, 1.1e-8)
    assert found["seconds"]["wall"]["total"]["runs"] == 2 and found["error"] < 1.1e-8 and found["iterations"] > 5
    assert "residual" in iterative.measure(tmp_path, "parac-amd", 1, options, 1e-2, 1e-8)["failed"]
    assert "ordering must be one of" in iterative.measure(tmp_path, "parac-none", 1, options, 1e-8, 1.1e-8)["failed"]
    options = types.SimpleNamespace(repeat=10_000, limit=2)                 # earlier measurements are kept
    assert 0 < iterative.measure(tmp_path, "parac-amd", 1, options, 1e-8, 1.1e-8)["seconds"]["wall"]["total"]["runs"] < 10_000
    options.limit = 1e-3
    assert iterative.measure(tmp_path, "parac-amd", 1, options, 1e-8, 1.1e-8) == {"failed": "stopped after 0.001 s", "stopped": 1e-3}


@pytest.mark.slow
def test_lu_on_a_gpu_is_in_the_table(capsys):
    options = glu.parser().parse_args(["--threads", "1", "--repeat", "1", "--device", "cuda"])
    with device.use(Harness()):
        rows = {row["solver"]: row for row in glu.measure("chains-1000k", circuits.circuit("chains", 4), options)}
    assert {"meshsolve", "meshsolve cuda"} <= rows.keys() and rows["meshsolve cuda"]["error"] < 1e-13
    klu = {**rows["meshsolve"], "solver": "klu", "facts": {"nnz_LU": 1}}
    ours = next(b for b in glu.bars([klu, *rows.values()], "wall") if "on the GPU" in b["what"])
    assert ours["bound"] == 7.0 and ours["value"] > 0
    if not device.available():
        rows = glu.measure("chains-20k", circuits.circuit("chains", 4), options)
        assert "meshsolve cuda" not in {row["solver"] for row in rows} and "needs CuPy" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["grid", "controlled", "chains"])
def test_lu_solvers_agree_on_a_small_circuit(kind, capsys):
    options = glu.parser().parse_args(["--threads", "1", "--repeat", "2", "--superlu"])
    rows = glu.measure(kind, circuits.circuit(kind, 6), options)
    assert {"meshsolve", "superlu"} <= {row["solver"] for row in rows}
    assert all(row["error"] < 1e-13 for row in rows) and len(glu.bars(rows, "cpu")) > 20


def test_circuits_over_time_have_one_solution(tmp_path, capsys):
    try:
        Klu()
    except Unavailable as e:
        pytest.skip(str(e))
    out = tmp_path / "transient.json"
    glu.main(["--transient", "--sizes", "1", "--steps", "12", "6", "--threads", "1", "2", "--out", str(out)])
    rows = json.loads(out.read_text())["rows"]
    assert {(r["problem"], r["loop"], r["solver"], r["threads"]) for r in rows} == {
        (p, loop, *s) for p in ("linear-1k", "diodes-1k") for loop in ("lu", "application")
        for s in (("meshsolve", 1), ("meshsolve", 2), ("klu", 1))}
    for r in rows:                                          # the application stops Newton's method by rules of its own
        assert r["difference"] < (1e-3 if r["loop"] == "application" and r["problem"] == "diodes-1k" else 1e-10), r
        assert r["newton_steps"] >= 6 or r["problem"] == "linear-1k"
    assert len({r["newton_steps"] for r in rows if r["problem"] == "diodes-1k" and r["loop"] == "lu"}) == 1


@pytest.mark.skipif(not shutil.which("ngspice"), reason="needs ngspice")
def test_a_deck_in_meshsolve_and_in_ngspice(monkeypatch):
    monkeypatch.setitem(ngspice.DECKS, "divider", "V1 a 0 1\nR1 a b 1\nR2 b 0 1\n.tran 1u 1m")
    row = ngspice.measure("divider", repeat=1)
    assert row["unknowns"] == 3 and row["steps"] == 1000 and row["ngspice_points"] > 1000 and row["seconds"] > 0 < row["ngspice_seconds"]
    assert "| divider | 3 | 1,000 |" in ngspice.table([row])


@pytest.mark.slow
def test_phases_on_several_threads(tmp_path, capsys):
    scaling.main(["--problems", "icosphere-4", "--threads", "1", "--repeat", "1", "--simulate", "4", "--out", str(tmp_path / "run.json")])
    run = json.loads((tmp_path / "run.json").read_text())
    (measured,), (simulated,) = run["rows"], run["simulated"]
    assert set(scaling_worker.PHASES) <= measured["seconds"].keys() and set(scaling_worker.PHASES) <= simulated["seconds"].keys()
    assert all(simulated["alone"][phase] <= simulated["seconds"][phase] <= 1.01 * simulated["one"][phase] + 1e-3 for phase in scaling_worker.PHASES)
    assert "solve 64" in capsys.readouterr().out
