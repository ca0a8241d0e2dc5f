"""Verdicts on result files, and tables and pages written from them."""

import json
import math
import pathlib
import re

import pytest

from benchmarks import cholesky, cholesky_bars, ildl, ildl_guide, measure, ngspice, parac, plot, summary, tables
from benchmarks.table import bar, print_bars

ROOT = pathlib.Path(measure.__file__).resolve().parents[1]


def test_bars_use_the_worst_mesh(capsys):
    rows = [_row("a", 60_000, "meshsolve", 1.0), _row("a", 60_000, "cholespy", 4.0),
            _row("b", 70_000, "meshsolve", 1.0), _row("b", 70_000, "cholespy", 2.0)]
    first = next(b for b in cholesky_bars.verdicts(rows) if b["what"].startswith("first solve") and "cholespy" in b["what"])
    assert first["value"] == 2.0 and first["passed"] is False and "2.83" in first["what"]
    assert not print_bars([first]) and "FAIL" in capsys.readouterr().out
    assert bar("x", math.nan, 1.0)["passed"] is None
    assert print_bars([bar("x", 0.5, 1.0, asked=False)]) and not print_bars([bar("x", 0.5, 1.0)])
    broken = cholesky_bars.verdicts([{"solver": "meshsolve", "threads": 1, "failed": "crash"}])
    assert any(b["passed"] is False for b in broken)


def _seconds(**phases):
    return {clock: {name: {"median": x} for name, x in phases.items()} for clock in ("wall", "cpu")}


def _run(bench, rows):
    return {"bench": bench, "threads": [1, 2], "clock": "wall", "git": "abc", "date": "2030-01-01T00:00", "versions": {"mkl": "9"},
            "machine": {"cpu": "c", "cores": 2}, "rows": rows}


def test_page_and_picture_from_a_result_file(tmp_path):
    run = _run("cholesky", [_row("a", 60_000, "meshsolve", 1.0), _row("a", 60_000, "cholespy", 4.0)]) | {"threads": [1]}
    (tmp_path / "run.json").write_text(json.dumps(run))
    (tmp_path / "page.md").write_text(f"before\n{plot.BEGIN}\n{plot.END}\nafter\n")
    assert plot.main([str(tmp_path / "run.json"), "--page", str(tmp_path / "page.md"), "--png", str(tmp_path / "x.png")]) == 0
    assert "| a | 60,000 |" in (tmp_path / "page.md").read_text()
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_newest_runs_are_the_default(tmp_path, monkeypatch):
    """One per benchmark and number of threads: a run on two threads does not hide the run on one thread."""
    monkeypatch.setattr(plot, "RESULTS", tmp_path)
    for name, bench, threads, date in (("a", "glu", [1], "2030-01-01"), ("b", "glu", [1, 2], "2030-01-02"), ("c", "glu", [1], "2029-01-01"),
                                       ("d", "cholesky", [1], "2030-01-01"), ("e", "ildl_guide", [1], "2031-01-01")):
        (tmp_path / f"{name}.json").write_text(json.dumps(_run(bench, []) | {"threads": threads, "date": date}))
    assert [path.stem for path in plot.newest()] == ["d", "a", "b"] and [path.stem for path in plot.newest(("glu",))] == ["a", "b"]
    with pytest.raises(SystemExit, match="no table for results of ildl_guide"):
        plot.main([str(tmp_path / "e.json")])


def test_tables_of_documents_match_the_result_files(capsys):
    """Fails if a number was edited by hand, or if a page was not updated to a new result file."""
    if not any(plot.RESULTS.glob("*.json")):
        pytest.skip("a source distribution has no result files")
    plot.main([])
    for page, table in (("docs/benchmarks.md", capsys.readouterr().out.rstrip("\n")), ("README.md", summary.table())):
        text = (ROOT / page).read_text()
        assert plot.spliced(text, table) == text, f"{page} is not what benchmarks.plot or benchmarks.summary writes"


def test_avx2_speeds_of_documents_match_the_result_file():
    files = list((plot.RESULTS / "avx2").glob("cholesky-2*-1t.json"))
    if not files:
        pytest.skip("a source distribution has no result files")
    text = (ROOT / "docs/benchmarks.md").read_text()
    said = re.search(r"first solve is ([\d.]+) times as fast as PARDISO's, ([\d.]+) times as CHOLMOD's and ([\d.]+)\s+times as libigl's", text)
    bars = json.loads(max(files).read_text())["bars"]
    for peer, number in zip(("PARDISO", "CHOLMOD", "libigl"), said.groups(), strict=True):
        mean, = (re.search(r"geometric mean ([\d.]+)", bar["what"])[1] for bar in bars
                 if bar["what"].startswith(f"first solve, 50k-1M: times faster than {peer}, "))
        assert number == f"{float(mean):.1f}"


def test_table_of_threads():
    rows = [_row("a", 60_000, "meshsolve-given", 3.0), _row("a", 60_000, "meshsolve-given", 2.0) | {"threads": 2},
            _row("b", 70_000, "meshsolve-given", 3.0)]                        # the run ended before two threads
    for row in rows:
        row["seconds"]["wall"]["solve again"] = {"median": 1.0}
    text = tables.markdown(_run("cholesky", rows))
    assert "| a | 60,000 | 3.00 / 1.00 | 2.00 / 1.00 | 1.50 / 1.00 |" in text and "| b |" not in text and "first solve" not in text


def test_table_of_circuits():
    def row(matrix, solver, threads, refactor):
        times = {name: {c: {"median": x} for c in ("wall", "cpu")} for name, x in (("refactor", refactor), ("solve", 1e-3))}
        return {"matrix": matrix, "n": 20_000, "solver": solver, "threads": threads, "seconds": times,
                "facts": {"stored": 130, "nnz_LU": 100}}

    rows = [row("grid-20k", "meshsolve", 1, 2e-3), row("grid-20k", "meshsolve", 2, 1e-3), row("grid-20k", "klu", 1, 8e-3),
            row("add20", "meshsolve", 1, 1e-3), row("add20", "klu", 1, 3e-3)]
    text = tables.markdown(_run("glu", rows))
    assert "| grid-20k | 20,000 | 2 / 1 | 1 / 1 | 8 / 1 | - | - | 1.30 |" in text
    assert "| **1 matrices from collections (circuits, power grids, flow, chemistry; 20,000 to 20,000 rows), KLU's time over ours, geometric mean** |  | **3.00 x / 1.00 x** |" in text and "mkl 9" in text


def test_table_of_runs_over_time():
    def row(solver, threads, wall, cpu, loop="lu"):
        return {"problem": "linear-20k", "loop": loop, "n": 19_957, "steps": 1000, "newton_steps": 0, "solver": solver,
                "threads": threads, "seconds": {"wall": {"total": wall}, "cpu": {"total": cpu}}}

    run = _run("transient", [row("meshsolve", 1, 3.0, 2.0), row("meshsolve", 2, 2.0, 9.0), row("klu", 1, 8.0, 6.0)]) | {"clock": "cpu"}
    run["threads"] = [1, 2]
    assert "| linear-20k | 19,957 | 1,000 / 1,000 | 2.00 | 2.00 | 6.00 | 3.00 x / 4.00 x |" in tables.markdown(run)


def test_table_of_indefinite_systems():
    rows = [{"problem": "a", "n": 100, "threads": 1, "solver": "meshsolve", "facts": {"iterations": 3}, "seconds": _seconds(total=2.0)},
            {"problem": "a", "n": 100, "threads": 1, "solver": "meshsolve-complete", "seconds": _seconds(factor=1.0)},
            {"problem": "a", "n": 100, "threads": 1, "solver": "pardiso", "seconds": _seconds(factor=3.0)},
            {"problem": "a", "n": 100, "threads": 1, "solver": "pardiso-matching", "failed": "crash"}]
    text = tables.markdown(_run("ildl", rows) | {"threads": [1]})
    assert "| a | 100 | 2.00 | 3 | 1.00 | 3.00 | - |" in text and "3.00 x faster than PARDISO" in text


def test_table_of_indefinite_systems_by_threads():
    rows = [{"problem": "a", "n": 100, "threads": t, "solver": solver, "seconds": _seconds(total=6.0 / t, factor=3.0 / t)}
            for t in (1, 2) for solver in ("meshsolve", "meshsolve-complete")]
    text = tables.markdown(_run("ildl", rows) | {"threads": [1, 2]})
    assert "| a | 100 | 3.00 / 6.00 | 1.50 / 3.00 | 2.00 / 2.00 |" in text and "PARDISO" not in text.splitlines()[0]
    for row in rows:
        if row["solver"] == "meshsolve":
            row["seconds"]["wall"]["again"] = {"median": 4.0 / row["threads"] ** 2}
    text = tables.markdown(_run("ildl", rows) | {"threads": [1, 2]})
    assert "| a | 100 | 3.00 / 6.00 / 4.00 | 1.50 / 3.00 / 1.00 | 2.00 / 2.00 / 4.00 |" in text and "later ones" in text


def test_speedup_of_two_threads_on_indefinite_systems():
    def row(problem, n, threads, factor):
        return {"problem": problem, "n": n, "threads": threads, "solver": "meshsolve-complete", "seconds": {"wall": {
            phase: {"min": factor} for phase in ("factor", "solve")}}}

    rows = [row("a", 60_000, 1, 8.0), row("a", 60_000, 2, 4.0), row("b", 50_000, 1, 9.0), row("b", 50_000, 2, 8.0),
            row("small", 49_999, 1, 1.0), row("small", 49_999, 2, 9.0), row("alone", 60_000, 1, 1.0)]
    found = {b["what"]: b for b in ildl.speedups(rows)}
    mean, worst = (found[f"meshsolve-complete, factor: 2 threads over 1, {which}"] for which in ("geometric mean", "worst (b)"))
    assert mean["value"] == pytest.approx(1.5) and mean["asked"] and worst["value"] == 1.125 and not worst["passed"]
    assert len(found) == 4


def test_table_of_graphs():
    row = {"problem": "road", "n": 50, "orders": {"amd-1": {"ns_per_entry": 70.2}},
           "solvers": {"parac-auto-1t": {"seconds": _seconds(total=2.0), "iterations": 30}, "pyamg-sa": {"seconds": _seconds(total=8.0)},
                       "pyamg-rs": {"failed": "x"}}}
    assert "| road | 50 | 2.00 | - | 30 | 8.00 | - | 70 |" in tables.markdown(_run("parac", [row]))


def test_markdown_and_readme_markers():
    run = {"bench": "cholesky", "threads": [1], "clock": "wall", "git": "abc", "date": "2030-01-01T00:00",
           "left_out": {"igl": ""}, "machine": {"cpu": "c", "vectors": "AVX2", "cores": 2}, "peers": {"cholespy": "cholespy 2"},
           "rows": [_row("a", 60_000, "meshsolve", 1.0), _row("a", 60_000, "cholespy", 4.0)]}
    text = tables.markdown(run)
    assert "| a | 60,000 | 1.00 / 1.00 | - / - | - / - | - / - | 4.00 / 4.00 | - / - | - / - | 1; 1 |" in text and "left out: igl" in text
    assert "\n\nc with AVX2, 2 cores, 2030-01-01, commit abc;" in text
    assert plot.spliced(f"x{plot.BEGIN}old{plot.END}y", "new") == f"x{plot.BEGIN}\nnew\n{plot.END}y"
    with pytest.raises(SystemExit):
        plot.spliced("nothing", "new")


def _row(mesh, n, solver, seconds):
    phases = {phase: {"median": seconds} for phase in ("first", "again", "factor", "solve", "refactor")}
    return {"mesh": mesh, "n": n, "solver": solver, "threads": 1, "seconds": {"wall": phases, "cpu": phases}, "error": 1e-16,
            "peak": {"median": 1e6}, "bits": ["0"], "facts": {}}


def test_failed_and_wrong_runs_make_a_failed_row():
    run = {"error": 1e-16, "error_again": 0.1, "first": {}, "again": [], "peak": 1, "bits": ""}
    assert "wrong" in cholesky.condense([run])["failed"] and "wrong" in cholesky.condense([{**run, "error": math.nan}])["failed"]
    assert cholesky.condense([{"failed": "crash"}]) == {"failed": "crash"}
    assert cholesky.cells({"solver": "s", "threads": 1, "failed": "crash"}, "wall")[2:] == ["failed:", "crash"]


def test_a_stopped_peer_is_a_lower_bound():

    def judged(bound, **peers):
        return parac._against({"problem": "p", "solvers": {"parac-auto-1t": {"seconds": _seconds(total=2.0)}} | peers}, "all", ("a", "b"), bound,
                              "wall")
    stopped = {"failed": "stopped after 120 s", "stopped": 120}
    (b,) = judged(4, a=stopped, b=stopped)
    assert b["value"] == 60 and b["passed"] and "at least" in b["what"]
    assert judged(100, a=stopped)[0]["passed"] is None      # a lower bound alone decides nothing
    (b,) = judged(4, a=stopped, b={"seconds": _seconds(total=6.0)})
    assert b["value"] == 3 and b["passed"] is False and "at least" not in b["what"]
    assert judged(4, a={"failed": "no"}) == []


def test_circuit_speeds_match_the_result_file():
    page = (ROOT / "docs" / "circuits.md").read_text(encoding="utf-8")
    named = re.search(r"`benchmarks/(results/ngspice-\S+\.json)`", page)[1]
    assert ngspice.table(json.loads((ROOT / "benchmarks" / named).read_text())["rows"]) in page


def test_the_guide_to_ildl_matches_the_result_file():
    page = (ROOT / "docs" / "indefinite.md").read_text()
    named = re.search(r"`benchmarks/(results/ildl_guide-\S+\.json)`", page)[1]
    rows = json.loads((ROOT / "benchmarks" / named).read_text())["rows"]
    assert ildl_guide.table(rows, ildl_guide.SYSTEMS) in page
