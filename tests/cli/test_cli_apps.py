"""The commands mcf, smooth and circuit: the results of the functions, in files of every format."""

import json

import numpy as np
import pytest
from cli_files import PHASES

import meshsolve as ms


@pytest.mark.parametrize("suffix", ["obj", "ply", "off", "stl", "glb", "ply.gz"])
def test_mcf_in_every_format(run, folder, suffix):
    out = folder / f"out.{suffix}"
    code, text, err = run("mcf", folder / "ball.obj", "-o", out, "--steps", 2, "--dt", 0.01)
    expected, _ = ms.apps.mcf(ms.load_mesh(folder / "ball.obj"), steps=2, dt=0.01)
    assert (code, err) == (0, "") and "numeric" in text
    assert np.allclose(np.sort(ms.load_mesh(out).vertices, axis=0), np.sort(expected.vertices, axis=0), atol=1e-6)


@pytest.mark.slow
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


def test_what_stays(run, folder):
    """Vertices as numbers and in a file, borders, the volume."""
    (folder / "held.txt").write_text("3\n40\n41\n")
    ball, scan = ms.load_mesh(folder / "ball.obj"), ms.load_mesh(folder / "scan.ply")
    for command in ("smooth", "mcf"):
        for given in ((3, 40, 41), (folder / "held.txt",)):
            assert run(command, folder / "ball.obj", "-o", folder / "out.obj", "--fixed", *given, "--keep", "volume")[0] == 0
            out = ms.load_mesh(folder / "out.obj")
            assert np.array_equal(out.vertices[[3, 40, 41]], ball.vertices[[3, 40, 41]]) and out.volume == pytest.approx(ball.volume)
        moved = []
        for boundary in ("fixed", "free"):
            assert run(command, folder / "scan.ply", "-o", folder / "out.obj", "--boundary", boundary)[0] == 0
            moved.append((ms.load_mesh(folder / "out.obj").vertices != scan.vertices)[scan.boundary_vertices].any())
        assert moved == [False, True]
    for given, message in (((3, "x"), "vertices must be numbers from 0"), ((folder / "ball.obj",), "unknown vector format"), ((999,), "fixed"),
                           ((3, 10**20), "vertices must be numbers from 0")):
        code, _, err = run("smooth", folder / "ball.obj", "-o", folder / "no.obj", "--fixed", *given)
        assert code == 1 and message in err and not (folder / "no.obj").exists()


def test_the_input_may_be_the_output(run, folder):
    assert run("smooth", folder / "ball.obj", "-o", folder / "ball.obj", "--quiet")[0] == 0
    assert len(ms.load_mesh(folder / "ball.obj").vertices) == 162


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


@pytest.mark.parametrize("output", [[], ["-o", "-"], ["--quiet"]])
def test_a_circuit_is_printed_where_no_file_is_named(run, folder, output):
    (folder / "deck.sp").write_text("a divider\nV1 in 0 2\nR1 in out 1k\nR2 out 0 3k\n.op\n.end\n")
    before = sorted(folder.iterdir())
    assert run("circuit", folder / "deck.sp", *output) == (0, "name,value\nv(in),2.0\nv(out),1.5\n", "")
    assert sorted(folder.iterdir()) == before
    code, text, err = run("circuit", folder / "deck.sp", *output, "--plot", folder / "p.png", "--report", folder / "r.json")
    assert code == 0 and text.startswith("name,value\n") and (folder / "p.png").exists() and json.loads((folder / "r.json").read_text())["nodes"] == 2


@pytest.mark.filterwarnings("default::meshsolve.errors.MeshsolveWarning")
def test_smoothing_keeps_the_data_of_a_mesh(run, folder):
    ball = ms.load_mesh(folder / "ball.obj")
    ball.vertex_data["color"] = np.full((len(ball.vertices), 3), 7, np.uint8)
    ball.save(folder / "painted.ply")
    for command in (("smooth",), ("mcf", "--steps", 1)):
        assert run(*command, folder / "painted.ply", "-o", folder / "out.vtu", "--quiet")[0] == 0
        assert (ms.load_mesh(folder / "out.vtu").vertex_data["color"] == 7).all()
    code, _, err = run("smooth", folder / "painted.ply", "-o", folder / "out.stl")
    assert code == 0 and "STL cannot hold vertex data 'color'" in err
