"""Benchmarks on a GPU: rows, budgets, lost devices."""

import contextlib
import json
import sys

import pytest
from clocks import ClockOfHangs
from kernel_harness import Harness

import meshsolve as ms
from benchmarks import gpu, gpu_factors, ildl, parac, problems
from meshsolve import device


@pytest.mark.slow
@pytest.mark.parametrize("harness", [True, False], ids=["kernel harness", "no device"])
def test_gpu_rows_are_measured_or_give_a_reason(harness, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(gpu, "WARM_UP", 2)
    with device.use(Harness()) if harness else contextlib.nullcontext():
        if not harness and device.available():
            pytest.skip("there is a GPU")
        failed = gpu.main(["--meshes", "icosphere-3", "nowhere", "--repeat", "1", "--out", str(tmp_path / "gpu.json")])
    run = json.loads((tmp_path / "gpu.json").read_text())
    rows = {row["solver"]: row for row in run["rows"]}
    assert failed and list(rows) == list(gpu.SOLVERS) and "nowhere" in run["failed"]
    assert rows["meshsolve cpu"]["error"] < 1e-14 and "cusolver metis" in str(run["failed"])
    on_device = [rows[name] for name in ("meshsolve cuda", "meshsolve cuda mixed", "meshsolve no tensor")]
    for row in [*on_device, rows["flow cuda"]]:
        assert row["error"] < 1e-14 and row["step"] > 0 if harness else "needs CuPy" in row["failed"]
    assert rows["flow cpu"]["error"] < 1e-14 and rows["flow cpu"]["first"] > 0
    assert [bar["passed"] for bar in run["bars"]] == 4 * [None] and "not measured" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("harness", [True, False], ids=["kernel harness", "no device"])
def test_gpu_factors_are_measured_or_give_a_reason(harness, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(ildl.GENERATED, "saddle", lambda: ms.datasets.kkt(90, 30))
    monkeypatch.setitem(parac.PROBLEMS, "grid", parac.Problem(lambda: ms.datasets.grid2d(9, 9)))
    with device.use(Harness()) if harness else contextlib.nullcontext():
        if not harness and device.available():
            pytest.skip("there is a GPU")
        gpu_factors.main(["--problems", "saddle", "grid", "nowhere", "--repeat", "1", "--out", str(tmp_path / "factors.json")])
    run = json.loads((tmp_path / "factors.json").read_text())
    rows = {row["solver"]: row for row in run["rows"]}
    assert list(rows) == [solver for of_kind in gpu_factors.SOLVERS.values() for solver in of_kind] and "nowhere" in run["failed"]
    assert rows["complete, 1 thread"]["residual"] < 1e-10 and rows["parac, 1 thread"]["residual"] < 1e-7
    assert "cupy" in rows["cusparse ic0"]["failed"] and "failed" in rows["cudss"]
    for what, most in (("incomplete", 2), ("complete", 1e-10), ("parac", 1e-7)):
        row = rows[f"{what}, cuda"]
        assert row["residual"] < most and row["factor"] > 0 if harness else "needs CuPy" in row["failed"]
    assert [bar["passed"] is not None for bar in run["bars"]] == 8 * [harness]


FRAIL = """
import os, pathlib, sys, time
from benchmarks import gpu

def loses(case, repeat):
    gpu.wait = lambda: 1 / 0
    raise RuntimeError("cudaErrorIllegalAddress")

def fine(case, repeat):
    return {"first": 1.0, "error": case.system.n}

def hangs_later(case, repeat):
    if case.system.n > 200:
        pathlib.Path(os.environ["HANGS"]).write_text(f"{os.getpid()}\\n")
        time.sleep(1000)
    return {"first": 2.0}

gpu.WARM_UP = 1
gpu.SOLVERS = {"fine": fine, "loses": loses, "dies": lambda case, repeat: os._exit(139), "hangs later": hangs_later, "last": fine}
raise SystemExit(gpu.main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_gpu_rows_continue_after_a_lost_device(tmp_path, capfd, monkeypatch):
    """In the warm-up, by a crash, and by a kernel that does not end."""
    out = tmp_path / "gpu.json"
    monkeypatch.setenv("HANGS", str(tmp_path / "hangs"))
    status = gpu.supervise(["--meshes", "icosphere-2", "icosphere-3", "--repeat", "1", "--out", str(out)],
                           (sys.executable, "-c", FRAIL), longest=6, clock=ClockOfHangs(tmp_path / "hangs"))
    run, said = json.loads(out.read_text()), capfd.readouterr().out
    assert status == 1 and said.count("a new process goes on without it") == 3 and said.count("device: none") == 1
    for mesh in ("icosphere-2", "icosphere-3"):
        rows = {row["solver"]: row for row in run["rows"] if row["mesh"] == mesh}
        assert list(rows) == ["fine", "loses", "dies", "hangs later", "last"]
        assert "first" in rows["fine"] and "first" in rows["last"] and ("first" in rows["hangs later"]) == (mesh == "icosphere-2")
        assert "IllegalAddress" in rows["loses"]["failed"] and "status 139" in rows["dies"]["failed"]
    assert len(run["rows"]) == 10 and "no end after 6 s" in run["failed"]["icosphere-3, hangs later"] and "bars" in run


def test_gpu_bars_compare_the_largest_mesh():
    rows = [{"mesh": "a", "n": n, "solver": solver, "order": order, "first": 9.0, "step": step, "nnz(L) M": fill}
            for n, more in ((1_000_000, 1), (4_000_000, 2))
            for solver, order, step, fill in (("metis alone", 100 * more, None, 5.0), ("meshsolve cuda", 5, 3, 5.4), ("cudss own order", None, 1, 5))]
    values = [bar["value"] for bar in gpu.bars(rows)]
    assert values == [40, 5.4 / 5, 1, 3] and [bar["passed"] for bar in gpu.bars(rows)] == [True, True, True, False]
    assert [bar["value"] for bar in gpu.bars([row for row in rows if row["solver"] != "meshsolve cuda"])] == 4 * [None]
    found = gpu.bars([row for row in rows if (row["solver"], row["n"]) != ("metis alone", 4_000_000)])       # too slow at that size
    assert [bar["value"] for bar in found] == [20, 5.4 / 5, 1, 3]
    assert "1,000,000 vertices" in found[0]["what"] and "4,000,000 vertices" in found[2]["what"]


def test_gpu_sizes_span_20k_to_4m(monkeypatch, tmp_path):
    monkeypatch.setenv("MESHSOLVE_DATA", str(tmp_path))                 # no data, empty cache
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    sizes = [problems.find(name).size() for name in gpu.default_meshes()]
    assert sizes[0] <= 20_000 and sizes[-1] >= 4_000_000 and all(2 < b / a < 6 for a, b in zip(sizes, sizes[1:]))
    for name in ("scan-1", "icosphere-3"):
        problem = problems.find(name)
        assert problem.size() == len(problem.mesh().vertices) == len(problem.mesh().vertices)       # second time from the cache
    monkeypatch.setattr(gpu, "catalog", lambda: {"igea": {}})
    monkeypatch.setattr(gpu, "find", lambda name: problems.find("icosphere-7" if name == "igea" else name))
    assert gpu.default_meshes() == ["scan-0", "scan-1", "igea", "scan-2", "scan-3", "scan-4"]


def test_gpu_rows_beyond_the_time_limit_are_left_out(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(gpu.time, "perf_counter", lambda: now[0])
    budget = gpu.Budget(100)
    assert budget.refuses("a", 1000) is None
    with budget.spend("a", 1000):
        now[0] = 10
    assert budget.refuses("a", 4000) is None and "90 of 100 s left" in budget.refuses("a", 8000)
    assert budget.refuses("b", 8000) is None                            # no earlier measurement
    now[0] = 101
    assert "out of budget" in budget.refuses("b", 10)


def test_gpu_rows_stop_at_the_budget(tmp_path, capsys):
    gpu.main(["--meshes", "icosphere-3", "--solvers", "meshsolve cpu", "--budget", "0", "--out", str(tmp_path / "gpu.json")])
    assert "out of budget" in (tmp_path / "gpu.json").read_text()
