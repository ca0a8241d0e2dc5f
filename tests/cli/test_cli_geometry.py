"""The commands spectrum, geodesics, param and denoise: the results of the functions, in files of every format."""

import gzip
import json

import numpy as np
import pytest
import scipy.io
from cases import each

import meshsolve as ms
from meshsolve.apps import maps
from meshsolve.cli import arguments


@pytest.fixture
def cap(folder):
    """Half of the sphere of the folder, cap.obj."""
    ball = ms.load_mesh(folder / "ball.obj")
    used, faces = np.unique(ball.faces[(ball.vertices[ball.faces, 1] > -0.01).all(axis=1)], return_inverse=True)
    mesh = ms.Mesh(ball.vertices[used], faces.reshape(-1, 3))
    mesh.save(folder / "cap.obj")
    return mesh


def properties(path):
    """{name: values} of the vertices of a PLY file that Mesh.save wrote."""
    content = path.read_bytes()
    content = gzip.decompress(content) if path.suffix == ".gz" else content
    header, body = content.split(b"end_header\n", 1)
    lines = header.decode().splitlines()
    n = int(next(line for line in lines if line.startswith("element vertex")).split()[-1])
    names = [line.split()[-1] for line in lines if line.startswith("property double")]
    return dict(zip(names, np.frombuffer(body, "<f8", n * len(names)).reshape(n, -1).T, strict=True))


def test_spectrum_in_every_format(run, folder):
    ball = ms.load_mesh(folder / "ball.obj")
    w, X, _ = ms.eigsh(ms.cotan_laplacian(ball), 5, M=ms.mass_matrix(ball))
    for name in ("w.txt", "pairs.npz", "modes.ply", "modes.ply.gz"):
        code, text, err = run("spectrum", folder / "ball.obj", "-o", folder / name, "-k", 5, "--report", folder / "r.json")
        assert (code, err) == (0, "") and "largest_residual" in text
    assert np.array_equal(np.loadtxt(folder / "w.txt"), w)
    with np.load(folder / "pairs.npz") as pairs:
        assert np.array_equal(pairs["values"], w) and np.array_equal(pairs["vectors"], X) and pairs["residuals"].max() < 1e-9
    for name in ("modes.ply", "modes.ply.gz"):
        assert np.array_equal(ms.load_mesh(folder / name).vertices, ball.vertices)
        assert np.array_equal(properties(folder / name)["eigenfunction_4"], X[:, 4])
    report = json.loads((folder / "r.json").read_text())
    assert report["eigenvalues"] == w.tolist() and report["converged"] is True and report["proved"] is True


def test_spectrum_of_an_interval_of_a_graph_and_with_a_fixed_boundary(run, folder, cap):
    assert run("spectrum", folder / "ball.obj", "-o", folder / "w.txt", "--interval", -1, 5, "--quiet") == (0, "", "")
    assert np.loadtxt(folder / "w.txt").shape == (4,)                      # 0, and 2 three times
    assert run("spectrum", folder / "ball.obj", "-o", folder / "w.txt", "-k", 3, "--laplacian", "graph", "--quiet") == (0, "", "")
    L = ms.graph_laplacian(ms.load_mesh(folder / "ball.obj"))
    assert np.allclose(np.loadtxt(folder / "w.txt"), np.linalg.eigvalsh(L.toarray())[:3], atol=1e-9)
    assert run("spectrum", folder / "cap.obj", "-o", folder / "w.txt", "-k", 3, "--dirichlet", "--quiet") == (0, "", "")
    assert np.loadtxt(folder / "w.txt")[0] == pytest.approx(2, rel=0.2)    # the half sphere: z is 0 on the equator


@pytest.mark.filterwarnings("default")
def test_eigenpairs_that_miss_their_tolerance_are_written_and_are_an_error(run, folder, monkeypatch):
    import meshsolve.eigen

    exact = meshsolve.eigen.eigsh
    monkeypatch.setattr(meshsolve.eigen, "eigsh", lambda *a, **o: exact(*a, **o, tol=1e-30))
    code, text, err = run("spectrum", folder / "ball.obj", "-o", folder / "w.txt", "-k", 3)
    assert code == 1 and err.startswith("meshsolve: error: ") and err.count("\n") == 1 and "the eigenpairs were written, but" in err
    assert np.loadtxt(folder / "w.txt").shape == (3,)


def test_geodesics_in_every_format(run, folder):
    G = ms.apps.Geodesics(ms.load_mesh(folder / "ball.obj"))
    for name, read in (("d.txt", np.loadtxt), ("d.npy", np.load), ("d.npz", lambda path: np.load(path)["x"]),
                       ("d.mtx", lambda path: scipy.io.mmread(path).ravel()), ("d.ply", lambda path: properties(path)["distance"])):
        code, text, err = run("geodesics", folder / "ball.obj", "--source", 0, 40, "-o", folder / name)
        assert (code, err) == (0, "") and "largest_distance" in text
        assert np.allclose(read(folder / name), G.distance([0, 40]), rtol=1e-15)
    assert run("geodesics", folder / "ball.obj", "--source", 0, 40, "--each", "-o", folder / "each.npy", "--quiet") == (0, "", "")
    assert np.array_equal(np.load(folder / "each.npy"), G.each([0, 40]))
    assert run("geodesics", folder / "ball.obj", "--source", 0, 40, "--each", "-o", folder / "each.ply", "--quiet") == (0, "", "")
    assert np.array_equal(properties(folder / "each.ply")["distance_40"], G.each(40)[:, 0])


def test_what_travels_from_sources_and_curves(run, folder):
    ball = ms.load_mesh(folder / "ball.obj")
    G, x = ms.apps.Geodesics(ball), ball.vertices
    loop = ms.Mesh(x, ball.faces[(x[ball.faces, 2] > 0).all(axis=1)]).boundary_loops()[0]
    np.savetxt(folder / "loop.txt", [*loop, loop[0]], fmt="%d")
    edge = ball.edges[0]
    for name, options, expected in (
            ("signed_distance", ["--curve", folder / "loop.txt"], G.signed_distance([*loop, loop[0]])),
            ("signed_distance", ["--curve", *edge, "--curve", *edge[::-1], *ball.edges[1][1:]],
             G.signed_distance([edge, [*edge[::-1], ball.edges[1][1]]])),
            ("transport", ["--source", 3, 40, "--transport", "-1", "0", "2.5"], G.transport([3, 40], [[-1, 0, 2.5]] * 2)),
            ("log_map", ["--source", 3, "--log-map"], G.log_map(3)), ("log_map", ["--source", 3, "--log-map", "affine"], G.log_map(3, "affine"))):
        assert run("geodesics", folder / "ball.obj", "-o", folder / "f.ply", "--quiet", *options) == (0, "", "")
        assert np.array_equal(ms.load_mesh(folder / "f.ply").vertex_data[name], expected)
        assert run("geodesics", folder / "ball.obj", "-o", folder / "f.npy", "--quiet", *options) == (0, "", "")
        assert np.array_equal(np.load(folder / "f.npy"), expected)


@pytest.mark.parametrize("suffix", ["vtu", "vtp", "vtk"])
def test_distances_for_paraview(run, folder, suffix):
    ball = ms.load_mesh(folder / "ball.obj")
    assert run("geodesics", folder / "ball.obj", "--source", 0, "-o", folder / f"d.{suffix}", "--quiet") == (0, "", "")
    assert np.array_equal(ms.load_mesh(folder / f"d.{suffix}").vertex_data["distance"], ms.apps.Geodesics(ball).distance(0))


def test_vertices_that_no_source_reaches_are_counted(run, folder):
    ball = ms.load_mesh(folder / "ball.obj")
    n = len(ball.vertices)
    ms.Mesh(np.r_[ball.vertices, ball.vertices + 5], np.r_[ball.faces, ball.faces + n]).save(folder / "two.ply")
    assert run("geodesics", folder / "two.ply", "--source", 3, "-o", folder / "d.npy", "--quiet", "--report", folder / "r.json") == (0, "", "")
    report = json.loads((folder / "r.json").read_text())
    assert report["unreachable"] == n == np.isinf(np.load(folder / "d.npy")).sum() and 2.9 < report["largest_distance"] < 3.3


@pytest.mark.parametrize("method", arguments.MAPS)
def test_param_writes_texture_coordinates(run, folder, cap, method):
    code, text, err = run("param", folder / "cap.obj", "-o", folder / "flat.obj", "--method", method, "--report", folder / "r.json")
    uv, _ = ms.apps.parameterize(cap, method)
    lines = (folder / "flat.obj").read_text().splitlines()
    written = np.array([line.split()[1:] for line in lines if line.startswith("vt ")], float)
    assert (code, err) == (0, "") and "angle_distortion" in text and np.array_equal(written, uv)
    assert [line.split()[1:] for line in lines if line.startswith("f ")] == [[f"{i}/{i}" for i in face + 1] for face in cap.faces]
    again = ms.load_mesh(folder / "flat.obj")
    assert np.array_equal(again.vertices, cap.vertices) and np.array_equal(again.faces, cap.faces)
    report = json.loads((folder / "r.json").read_text())
    assert report["flipped"] == 0 and 1 <= report["angle_distortion"] <= report["largest_angle_distortion"] < 3


@pytest.mark.slow
def test_param_cuts_a_closed_surface_and_keeps_its_vertices(run, folder):
    ball = ms.load_mesh(folder / "ball.obj")
    assert run("param", folder / "ball.obj", "-o", folder / "flat.obj", "--method", "slim", "--cut", "--quiet", "--render", folder / "p.png") == (0, "", "")
    uv, report = ms.apps.parameterize(ball, "slim", cut=True)
    again, lines = ms.load_mesh(folder / "flat.obj"), [line.split() for line in (folder / "flat.obj").read_text().splitlines()]
    assert np.array_equal(again.vertices, ball.vertices) and np.array_equal(again.faces, ball.faces) and (folder / "p.png").exists()
    assert np.array_equal(np.array([line[1:] for line in lines if line[0] == "vt"], float), uv) and len(uv) > len(ball.vertices)
    corners = [[int(corner.split("/")[1]) - 1 for corner in line[1:]] for line in lines if line[0] == "f"]
    assert np.array_equal(corners, report.mesh.faces) and np.array_equal(report.vertex_of[corners], ball.faces)


def test_methods_of_param_are_those_of_the_function():
    assert set(arguments.MAPS) <= set(maps.METHODS)


def test_denoise(run, folder):
    cube = ms.datasets.cube(6)
    noisy = cube.with_vertices(cube.vertices + 0.04 * np.random.default_rng(0).standard_normal(cube.vertices.shape))
    noisy.save(folder / "noisy.ply")
    for method in ("bilateral", "guided"):
        code, text, err = run("denoise", folder / "noisy.ply", "-o", folder / "clean.ply", "--method", method, "--sigma", 0.5, "--iterations", 10)
        expected, _ = ms.apps.denoise(noisy, method, sigma=0.5, iterations=10, vertex_iterations=10)
        assert (code, err) == (0, "") and "largest_move" in text
        assert np.array_equal(ms.load_mesh(folder / "clean.ply").vertices, expected.vertices)


def test_the_boundary_stays_if_asked(run, folder, cap):
    for option, moved in (([], True), (["--boundary", "fixed"], False)):
        assert run("denoise", folder / "cap.obj", "-o", folder / "out.obj", "--quiet", *option) == (0, "", "")
        out = ms.load_mesh(folder / "out.obj").vertices
        assert (np.abs(out - cap.vertices)[cap.boundary_vertices].max() > 1e-6) == moved


@pytest.mark.slow
def test_pictures(run, folder, cap):
    import matplotlib.image

    for name, *command in (("a", "spectrum", "ball.obj", "-o", "w.txt"), ("b", "geodesics", "ball.obj", "--source", 0, "-o", "d.txt"),
                             ("l", "geodesics", "ball.obj", "--source", 0, "--log-map", "-o", "l.txt"),
                           ("c", "param", "cap.obj", "-o", "flat.obj"), ("d", "denoise", "ball.obj", "-o", "out.obj")):
        given = [folder / a if "." in str(a) else a for a in command]
        code, _, err = run(*given, "--render", folder / f"{name}.png", "--quiet")
        picture = matplotlib.image.imread(folder / f"{name}.png")
        assert (code, err) == (0, "") and min(picture.shape[:2]) > 300 and np.ptp(picture[..., 0]) > 0.3
    code, text, err = run("spectrum", folder / "ball.obj", "-o", folder / "no.txt", "--interval", 2.5, 2.6, "--render", folder / "e.png")
    assert (code, text) == (1, "") and "no eigenvalue is in the interval" in err and not (folder / "no.txt").exists()


@each("given, words", [
    (["spectrum", "ball.obj", "-o", "x.obj"], "eigenvalues are written as .txt"), (["spectrum", "ball.obj", "-o", "x.npz", "-k", "162"], "k must be less than"),
    (["spectrum", "ball.obj", "-o", "x.txt", "--interval", "3", "2"], "ball.obj: interval must be two finite numbers lo < hi"),
    (["geodesics", "ball.obj", "--source", "162", "-o", "x.txt"], "ball.obj: sources[0] must be a vertex number from 0 to 161, got 162"),
    (["geodesics", "ball.obj", "--source", "3", "3", "--each", "-o", "x.ply"], "--source has a vertex twice: 3 3"),
    (["geodesics", "ball.obj", "--source", "0", "-o", "x.obj"], "distances are written as"),
    (["geodesics", "ball.obj", "--curve", "0", "161", "-o", "x.txt"], "ball.obj: curve[0] goes from vertex 0 to vertex 161, which no edge joins"),
    (["geodesics", "ball.obj", "--curve", "0", "1", "-o", "x.txt", "--each"], "leave out --each"),
    (["geodesics", "ball.obj", "--source", "0", "1", "-o", "x.txt", "--log-map"], "ball.obj: source must be one point, got 2"),
    (["geodesics", "ball.obj", "--source", "0", "-o", "x.txt", "--transport", "nan", "0", "0"], "ball.obj: vectors[0] must be finite"),
    (["geodesics", "ball.obj", "--source", "0", "-o", "x.txt", "--transport", "1", "0", "0", "--render", "x.png"], "--render draws distances"),
    (["param", "ball.obj", "-o", "x.obj"], "ball.obj: the surface must have a boundary"),
    (["param", "ball.obj", "-o", "x.ply"], "written as .obj or .obj.gz"),
    (["denoise", "twisted.obj", "-o", "x.obj"], "twisted.obj: the mesh must be oriented: faces 0 and 1 have opposite orientations at edge (1, 2)"),
    (["denoise", "none.obj", "-o", "x.obj"], "no such file"), (["geodesics", "ball.obj", "--source", "0", "-o", "x.txt", "--render", "x.jpg"], ".png")])
def test_errors_are_one_line_and_leave_nothing(run, folder, monkeypatch, given, words):
    monkeypatch.chdir(folder)
    (folder / "twisted.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nf 1 2 3\nf 2 3 4\n")
    before = sorted(folder.iterdir())
    code, text, err = run(*given)
    assert (code, text) == (1, "") and err.startswith("meshsolve: error: ") and err.count("\n") == 1 and words in err
    assert sorted(folder.iterdir()) == before


@each("given", [
    ["spectrum", "ball.obj"], ["spectrum", "ball.obj", "-o", "x.txt", "-k", "0"], ["spectrum", "ball.obj", "-o", "x.txt", "-k", "3", "--interval", "0", "1"],
    ["geodesics", "ball.obj", "-o", "x.txt"], ["geodesics", "ball.obj", "-o", "x.txt", "--source", "0", "--curve", "0", "1"],
    ["geodesics", "ball.obj", "-o", "x.txt", "--source", "0", "--each", "--log-map"], ["geodesics", "ball.obj", "-o", "x.txt", "--source", "-1"],
    ["geodesics", "ball.obj", "-o", "x.txt", "--source", "0", "--t", "0"], ["param", "ball.obj", "-o", "x.obj", "--method", "magic"],
    ["denoise", "ball.obj", "-o", "x.obj", "--sigma", "0"], ["denoise", "ball.obj", "-o", "x.obj", "--iterations", "-1"]])
def test_wrong_usage_is_2(run, folder, monkeypatch, given):
    monkeypatch.chdir(folder)
    code, text, err = run(*given)
    assert (code, text) == (2, "") and err.splitlines()[1] == f"try: meshsolve {given[0]} --help" and not (folder / "x.txt").exists()


@pytest.mark.parametrize("command", ["spectrum", "geodesics", "param", "denoise"])
def test_help(run, command):
    code, text, err = run(command, "--help")
    assert (code, err) == (0, "") and f"Example: meshsolve {command}" in text and "Exit codes:" in text
