"""The benchmark programs: measurements, problems, tables; and every installed peer solves a small system correctly."""

import contextlib
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from clocks import ClockOfHangs
from kernel_harness import Harness

import meshsolve as ms
from benchmarks import (
    cholesky,
    cholesky_bars,
    circuits,
    geometry,
    geometry_tasks,
    glu,
    gpu,
    gpu_factors,
    ildl,
    ildl_guide,
    iterative,
    measure,
    meshes,
    ngspice,
    parac,
    plot,
    problems,
    scaling,
    scaling_worker,
    summary,
    tables,
    worker,
)
from benchmarks.peers import ORDERINGS, SOLVERS, Unavailable
from benchmarks.peers.base import triangle
from benchmarks.peers.klu import Klu
from benchmarks.table import bar, print_bars
from meshsolve import device

ROOT = pathlib.Path(measure.__file__).resolve().parents[1]


def spd(n=100, seed=0):
    """A random symmetric matrix, diagonally dominant, both triangles stored."""
    half = sp.random_array((n, n), density=0.05, rng=np.random.default_rng(seed), format="csr")
    A = sp.csr_array(half + half.T)
    A = sp.csr_array(A + sp.diags_array(abs(A).sum(1) + 1.0))
    A.sort_indices()
    return A


@pytest.fixture
def system(tmp_path):
    A = spd()
    A2 = A.copy()
    A2.data *= np.where(A.indices == np.repeat(np.arange(100), np.diff(A.indptr)), 3.0, 1.0)
    path = tmp_path / "system.npz"
    problems.System(A, A2, np.random.default_rng(1).standard_normal((100, 3))).save(path)
    np.save(tmp_path / "perm.npy", np.random.default_rng(2).permutation(100).astype(np.int32))
    return path


@pytest.mark.parametrize("name", SOLVERS)
def test_solver_solves_and_refactors(name, system):
    perm = system.with_name("perm.npy") if name.endswith("-given") else None
    try:
        result = worker.run(name, system, perm, again=1)
    except Unavailable as e:
        pytest.skip(str(e))
    assert result["error"] < 1e-15 and result["error_again"] < 1e-15
    assert result["first"]["wall"].keys() >= {"solve"} and result["again"][0]["cpu"].keys() == {"refactor", "solve"}
    assert result["peak"] >= 0


@pytest.mark.parametrize("name", ["pardiso-given", "cholmod-given"])
def test_given_permutation_is_used(name):
    """The fill of an arrow matrix: 2n - 1 entries with the dense row last, n(n + 1)/2 with the dense row first."""
    n = 60
    A = sp.lil_array((n, n))
    A[0, :], A[:, 0] = 1.0, 1.0
    A.setdiag(float(n))
    A, counted = sp.csr_array(A), []
    for perm in (np.arange(n)[::-1], np.arange(n)):
        try:
            peer = SOLVERS[name](perm.astype(np.int32))
        except Unavailable as e:
            pytest.skip(str(e))
        M = peer.matrix(A)
        peer.analyze(M)
        peer.factor(M)
        counted.append(peer.facts()["nnz_L"])
        peer.close()
    assert counted[0] < n * (n + 1) // 2 <= counted[1]               # PARDISO also counts padding


@pytest.mark.parametrize("name", ORDERINGS)
def test_ordering_returns_a_permutation(name):
    try:
        peer = ORDERINGS[name]()
    except Unavailable as e:
        pytest.skip(str(e))
    A = spd(300)
    xadj, adjncy = peer.graph(A)
    rows = np.repeat(np.arange(300), np.diff(xadj))
    assert (adjncy != rows).all() and len(adjncy) == A.nnz - 300
    assert sorted(peer.perm(peer.run((xadj, adjncy)))) == list(range(300))


def test_worker_reports_a_crash(system):
    system.write_bytes(b"no archive")
    name = next((name for name in SOLVERS if _installed(name)), None)
    if name is None:
        pytest.skip("no solver is installed")
    assert "failed" in worker.measure(name, system)


def _installed(name):
    try:
        SOLVERS[name]()
    except Unavailable:
        return False
    return True


def test_backward_error_sees_a_wrong_column():
    A, X = spd(), np.ones((100, 2))
    B = A @ X
    assert worker.backward_error(A, X, B) < 1e-15
    B[7, 1] += 1e-3
    assert worker.backward_error(A, X, B) > 1e-8


def test_triangle_keeps_one_half_with_sorted_rows():
    A = spd()
    for upper, reference in ((True, sp.triu(A)), (False, sp.tril(A))):
        T = triangle(A, upper)
        assert T.indices.dtype == np.int32 and T.has_sorted_indices
        assert (T.toarray() == reference.toarray()).all()


def test_summary_and_geometric_mean():
    s = measure.summary([3.0, 1.0, 2.0, 5.0, 4.0])
    assert (s["median"], s["min"], s["q1"], s["q3"], s["runs"]) == (3.0, 1.0, 2.0, 4.0, 5)
    assert measure.summary([2.0])["q3"] == 2.0
    assert math.isclose(measure.geometric_mean([1.0, 4.0]), 2.0) and math.isnan(measure.geometric_mean([]))
    with pytest.raises(ValueError):
        measure.summary([])


def test_disturbed_rounds_are_repeated(monkeypatch):
    calls, stolen = [], iter([0, 5, 5, 5, 5, 9, 9, 9, 9, 9, 9, 9])          # before and after each: the first and the third are disturbed
    monkeypatch.setattr(measure, "stolen_seconds", lambda: next(stolen))
    _, seconds = measure.interleave({"a": lambda: calls.append(0)}, 3)
    assert len(calls) == 5 and len(seconds["a"]["wall"]) == 3
    calls.clear()
    monkeypatch.setattr(measure, "stolen_seconds", lambda: 5 * len(calls))                # disturbed in every attempt: accepted
    _, seconds = measure.interleave({"a": lambda: calls.append(0)}, 3)
    assert len(calls) == 6 and len(seconds["a"]["wall"]) == 3


def test_interleave_takes_turns(monkeypatch):
    monkeypatch.setattr(measure, "stolen_seconds", lambda: 0.0)
    order = []
    results, seconds = measure.interleave({"a": lambda: order.append("a") or 1, "b": lambda: order.append("b") or 2}, 3)
    assert order == ["a", "b"] * 3 and results == {"a": 1, "b": 2} and len(seconds["b"]["cpu"]) == 3


PEAK = """
import numpy as np
from benchmarks import measure
big = np.ones(1 << 24)                           # 128 MiB freed before the measurement must not hide the peak
del big
memory = measure.PeakMemory()
block = np.ones(1 << 23)
del block
print(memory.grown() if memory.reset else "")
"""


def test_peak_memory_includes_freed_memory():
    """In a separate process, as in the benchmarks: the heap of other tests already has space for the block."""
    done = subprocess.run([sys.executable, "-c", PEAK], cwd=ROOT, capture_output=True, text=True, check=True)
    if not done.stdout.strip():
        pytest.skip("the system does not let the high-water mark be reset")
    assert 60e6 < int(done.stdout) < 100e6


def test_vectors_are_the_widest_of_the_processor():
    assert [measure._vectors(flags) for flags in ("fma avx2 avx512f", "avx avx2", "avx", "")] == ["AVX-512", "AVX2", None, None]


def test_library_threads_restores_the_environment(monkeypatch):
    monkeypatch.setenv("MESHSOLVE_NUM_THREADS", "5")
    with measure.library_threads(2):
        assert measure.os.environ["MESHSOLVE_NUM_THREADS"] == "2"
    assert measure.os.environ["MESHSOLVE_NUM_THREADS"] == "5"


def test_json_has_the_description_of_the_run(tmp_path):
    path = measure.write_json(measure.describe("order", [1, 2], "wall"), tmp_path / "a.json")
    run = json.loads(path.read_text())
    assert run["machine"]["cores"] >= 1 and run["versions"]["numpy"] == np.__version__ and run["threads"] == [1, 2]


def test_smoothing_system_is_symmetric_and_positive():
    """On an octahedron: A and A2 share their pattern, and A 1 = M 1 since the Laplacian's rows sum to zero."""
    ms = pytest.importorskip("meshsolve")
    if not hasattr(ms, "cotan_laplacian"):
        pytest.skip("no mesh operators")
    corners = np.vstack([np.eye(3), -np.eye(3)])
    faces = [[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]]
    S = problems.smoothing_system(ms.Mesh(corners, np.array(faces, np.int32)))
    assert (S.A.indices == S.A2.indices).all() and abs(S.A - S.A.T).max() < 1e-14
    assert np.linalg.eigvalsh(S.A.toarray()).min() > 0
    area = 8 * math.sqrt(3) / 2
    assert math.isclose((S.A @ np.ones(6)).sum(), area) and math.isclose((S.A2 @ np.ones(6)).sum(), area)


def test_loop_subdivision():
    """An octahedron: 18 vertices in 32 faces, all alike by symmetry; a lone triangle: crease rules, its plane stays."""
    corners = np.vstack([np.eye(3), -np.eye(3)])
    faces = np.array([[0, 1, 2], [1, 3, 2], [3, 4, 2], [4, 0, 2], [1, 0, 5], [3, 1, 5], [4, 3, 5], [0, 4, 5]])
    vertices, fine = problems.loop_subdivided(corners, faces)
    assert vertices.shape == (18, 3) and fine.shape == (32, 3)
    assert np.allclose(vertices[0], [5 / 8, 0, 0])                    # valence 4: weight 3/32 per neighbor, they cancel
    sides = np.sort(fine[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
    assert (np.unique(sides, axis=0, return_counts=True)[1] == 2).all()
    area = [np.cross(v[f[:, 1]] - v[f[:, 0]], v[f[:, 2]] - v[f[:, 0]]) for v, f in ((corners, faces), (vertices, fine))]
    outward = [np.einsum("ij,ij->i", a, v[f].mean(axis=1)) > 0 for a, v, f in zip(area, (corners, vertices), (faces, fine))]
    assert outward[0].all() == outward[1].all() and len({*outward[1]}) == 1      # orientation is kept
    vertices, fine = problems.loop_subdivided(np.eye(3), np.array([[0, 1, 2]]))
    assert np.allclose(vertices.sum(axis=1), 1) and np.allclose(vertices[0], [3 / 4, 1 / 8, 1 / 8]) and len(fine) == 4


def test_problem_names(monkeypatch, tmp_path):
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes/two-part.obj").write_text("v 0 0 0\n")
    head = "file,kind,n,nnz_or_faces,components,nonmanifold_edges"
    (tmp_path / "INDEX.csv").write_text(
        f"{head}\nmeshes/two-part.obj,mesh,40000,79996,1,0\nmeshes/soup.obj,mesh,90000,30000,30000,0\n"
        "graphs/star.mtx,graph,5,8,1,0\nspd/spring.mtx,matrix,2,4,1,0\n")
    monkeypatch.setenv("MESHSOLVE_DATA", str(tmp_path))
    assert problems.find("two-part").level == 0 and problems.find("two-part-2").level == 2
    assert [p.name for p in problems.problem_set("order")] == ["two-part", "two-part-1", "two-part-2"]
    assert problems.find("icosphere-3").path is None
    for name, n in (("grid3d-6", 216), ("tetrahedra-1", 1000)):
        system = problems.find(name).system()
        assert system.n == n and system.A.sum() == pytest.approx(1e-3 * system.A.diagonal().sum(), rel=0.01)       # a Laplacian and a shift
        assert sp.csgraph.connected_components(system.A)[0] == 1 and abs(system.A - system.A.T).max() == 0
    with pytest.raises(SystemExit, match="no mesh or matrix 'absent'"):
        problems.find("absent")
    monkeypatch.setenv("MESHSOLVE_DATA", str(tmp_path / "nowhere"))
    assert all(p.path is None for p in problems.problem_set("cholesky"))


def test_graphs_and_matrices_are_problems(monkeypatch, tmp_path):
    """A graph gives its largest component, shifted to be definite; a matrix is used unchanged."""
    (tmp_path / "graphs").mkdir()
    (tmp_path / "spd").mkdir()
    star = sp.coo_array((np.ones(5), ([1, 2, 3, 4, 6], [0, 0, 0, 0, 5])), shape=(7, 7))
    scipy.io.mmwrite(tmp_path / "graphs/star.mtx", star + star.T, symmetry="symmetric")
    scipy.io.mmwrite(tmp_path / "spd/spring.mtx", sp.coo_array([[2.0, -1], [-1, 2]]), symmetry="symmetric")
    (tmp_path / "INDEX.csv").write_text("file,kind\ngraphs/star.mtx,graph\nspd/spring.mtx,matrix\n")
    monkeypatch.setenv("MESHSOLVE_DATA", str(tmp_path))
    star, spring = (problems.find(name).system() for name in ("star", "spring"))
    assert star.n == 5 and np.allclose(star.A.sum(axis=1), 1e-3 * 8 / 5) and np.allclose(star.A2.sum(axis=1), 2e-3 * 8 / 5)
    assert np.array_equal(spring.A.toarray(), [[2, -1], [-1, 2]]) and spring.B.shape == (2, 3)
    assert (spring.A2 - spring.A).nnz == 2
    with pytest.raises(SystemExit, match="star is not a mesh"):
        problems.find("star").mesh()


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
    on_device = [rows["meshsolve cuda"], rows["meshsolve cuda mixed"]]
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


def test_circuit_speeds_match_the_result_file():
    page = (ROOT / "docs" / "circuits.md").read_text(encoding="utf-8")
    named = re.search(r"`benchmarks/(results/ngspice-\S+\.json)`", page)[1]
    assert ngspice.table(json.loads((ROOT / "benchmarks" / named).read_text())["rows"]) in page


@pytest.mark.skipif(not shutil.which("ngspice"), reason="needs ngspice")
def test_a_deck_in_meshsolve_and_in_ngspice(monkeypatch):
    monkeypatch.setitem(ngspice.DECKS, "divider", "V1 a 0 1\nR1 a b 1\nR2 b 0 1\n.tran 1u 1m")
    row = ngspice.measure("divider", repeat=1)
    assert row["unknowns"] == 3 and row["steps"] == 1000 and row["ngspice_points"] > 1000 and row["seconds"] > 0 < row["ngspice_seconds"]
    assert "| divider | 3 | 1,000 |" in ngspice.table([row])


def test_the_guide_to_ildl_matches_the_result_file():
    page = (ROOT / "docs" / "indefinite.md").read_text()
    named = re.search(r"`benchmarks/(results/ildl_guide-\S+\.json)`", page)[1]
    rows = json.loads((ROOT / "benchmarks" / named).read_text())["rows"]
    assert ildl_guide.table(rows, ildl_guide.SYSTEMS) in page


GEOMETRY = {"eigsh": ("icosphere-3", 6), "distances": ("icosphere-3", 5), "accuracy": ("torus-20", 1), "lscm": ("half-3", 0),
            "arap": ("icosphere-3", 0), "weights": ("icosphere-2", 2), "quadratic": ("grid", 20), "denoise": ("cube-10", 0)}


@pytest.mark.parametrize("task, solver", [(task, solver) for task in geometry.FULL for solver in geometry_tasks.SOLVERS[task]])
def test_geometry_tasks_agree_between_libraries(task, solver, tmp_path):
    name, size = GEOMETRY[task]
    if solver == "meshsolve cuda" and not device.available():
        pytest.skip("there is no GPU")
    try:
        found = geometry_tasks.run(task, solver, geometry.stored(name, tmp_path), size, 1)
    except Unavailable as e:
        pytest.skip(str(e))
    assert found["seconds"]["wall"]["total"] >= found["seconds"]["wall"]["solve"] > 0 and found["seconds"]["cpu"].keys() >= {"solve", "total"}
    bound = {"eigsh": 1e-8, "accuracy": 0.01, "lscm": 1.05, "weights": 1e-5, "quadratic": 1e-3, "denoise": 0.5}
    assert found["error"] is None or found["error"] < bound[task]
    if task == "eigsh":                                                 # the sixth eigenvalue of the sphere is one of five
        assert found["last"] == pytest.approx(6, rel=0.02)


@pytest.mark.slow
def test_surfaces_of_the_geometry_benchmark_are_connected():
    """A deformation needs handles on each component."""
    known = problems.catalog() or pytest.skip("no data folder")
    stems = [name if name in known else name.rpartition("-")[0] for name in geometry.SURFACES]
    assert [known[stem]["components"] for stem in stems] == ["1"] * len(stems)


def test_geometry_is_measured_in_a_child_process(tmp_path, capsys):
    out = tmp_path / "geometry.json"
    assert geometry.main(["--quick", "--tasks", "denoise", "--meshes", "cube-6", "--repeat", "1", "--out", str(out)]) == 0
    run = json.loads(out.read_text())
    (row,) = run["rows"]
    assert row["n"] == 218 and row["error"] < 1 and row["seconds"]["wall"]["total"]["runs"] == 1 and "denoise, cube-6, meshsolve" in capsys.readouterr().out
    assert "meshsolve cuda" in run["left_out"] and len(run["bars"]) == 11 and run["bars"][0]["passed"] is True
    geometry.stored("half-2", tmp_path)
    assert "failed" in geometry_tasks.measure("lscm", "nothing", tmp_path / "half-2.ply", 0, 1, 60)
    assert geometry_tasks.measure("lscm", "meshsolve", tmp_path / "half-2.ply", 0, 1, 1e-3) == {"failed": "no result after 0.001 s", "stopped": 1e-3}


def test_bars_of_geometry_use_the_worst_mesh_and_limits():
    def row(task, mesh, solver, total, error=0.0):
        seconds = {clock: {phase: measure.summary([total]) for phase in ("solve", "total")} for clock in ("wall", "cpu")}
        return {"task": task, "mesh": mesh, "n": 9, "solver": solver, "threads": 1, "error": error, "seconds": seconds}

    def stopped(task, mesh, solver):
        return {"task": task, "mesh": mesh, "n": 9, "solver": solver, "threads": 1, "failed": "no result after 100 s", "stopped": 100}

    rows = [row("eigsh", "a", "meshsolve", 1), row("eigsh", "a", "scipy, our factor", 4), row("eigsh", "b", "meshsolve", 2),
            row("eigsh", "b", "scipy, our factor", 5), row("weights", "a", "meshsolve", 4), stopped("weights", "a", "libigl"),
            row("weights", "b", "meshsolve", 50), stopped("weights", "b", "OSQP"), row("accuracy", "a", "meshsolve", 1, 0.02),
            row("accuracy", "a", "potpourri3d", 1, 0.01), row("distances", "a", "meshsolve", 1), row("distances", "a", "potpourri3d", 2)]
    bars = {b["what"]: (b["value"], b["passed"]) for b in geometry.verdicts(rows)}
    assert bars["eigsh, total: times faster than scipy, our factor, worst mesh"] == (2.5, False)
    assert bars["weights, total: times faster than libigl, worst mesh (at least: stopped)"] == (25, True)
    assert bars["weights, total: times faster than OSQP, worst mesh"] == (None, None)         # it may or may not be three times slower
    assert bars["error of distances over potpourri3d's, worst mesh"] == (2, False)
    assert bars["distances, total: times faster than potpourri3d, igea"] == (None, None)
    wrong = geometry.verdicts([row("eigsh", "a", "meshsolve", 1, 1e-3), stopped("lscm", "a", "meshsolve")])
    assert wrong[0]["value"] == 2 and wrong[0]["passed"] is False


@pytest.mark.slow
def test_a_folder_of_meshes(tmp_path, monkeypatch):
    monkeypatch.setattr(meshes, "originals", lambda: [ms.datasets.icosphere(3)])
    meshes.main(["--count", "6", "--workers", "1", "--tasks", "geodesics", "--out", str(tmp_path / "run.json")])
    row = json.loads((tmp_path / "run.json").read_text())["rows"][0]
    assert row["meshes"] == 6 and row["failed"] == meshes.DAMAGED and min(row["batch"], row["loop"], row["loop_one_thread"]) > 0


@pytest.mark.slow
def test_phases_on_several_threads(tmp_path, capsys):
    scaling.main(["--problems", "icosphere-4", "--threads", "1", "--repeat", "1", "--simulate", "4", "--out", str(tmp_path / "run.json")])
    run = json.loads((tmp_path / "run.json").read_text())
    (measured,), (simulated,) = run["rows"], run["simulated"]
    assert set(scaling_worker.PHASES) <= measured["seconds"].keys() and set(scaling_worker.PHASES) <= simulated["seconds"].keys()
    assert all(simulated["alone"][phase] <= simulated["seconds"][phase] <= 1.01 * simulated["one"][phase] + 1e-3 for phase in scaling_worker.PHASES)
    assert "solve 64" in capsys.readouterr().out
