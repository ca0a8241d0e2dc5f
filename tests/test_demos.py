"""The demos run and give the stated results."""

import ast
import importlib.util
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from scipy.spatial import Delaunay

import meshsolve as ms

DEMOS = pathlib.Path(__file__).resolve().parents[1] / "demos"


def load(name):
    spec = importlib.util.spec_from_file_location(name, DEMOS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_spectral_embedding(tmp_path):
    demo = load("spectral_embedding")
    L = ms.datasets.grid2d(24, 15)
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(L))
    xy = demo.main([str(tmp_path / "g.mtx"), "-o", str(tmp_path / "g.png")])
    assert np.linalg.norm(L @ xy - xy * np.linalg.eigvalsh(L.toarray())[1:3]) < 1e-7
    assert np.array_equal(demo.roads(900).toarray(), np.diag((R := ms.datasets.road_like(900).toarray()).diagonal()) - R)
    assert (tmp_path / "g.png").stat().st_size > 1000


def test_effective_resistance(tmp_path, capsys):
    demo = load("effective_resistance")
    L = ms.datasets.grid2d(9, 8)
    i, j, w = demo.edges_of(L)
    inverse = np.linalg.pinv(L.toarray(), rtol=1e-10)
    exact = inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(L))
    r = demo.main([str(tmp_path / "g.mtx"), "-o", str(tmp_path / "g.png")])
    np.testing.assert_allclose(r, exact, rtol=1e-12)
    assert (tmp_path / "g.png").stat().st_size > 1000
    assert "72 vertices, 127 edges" in (out := capsys.readouterr().out) and "resistance 71.0 (Foster: 71)" in out and "estimates" not in out
    r = demo.main([str(tmp_path / "g.mtx"), "--error", "0.2"])
    assert np.std(r / exact - 1) == pytest.approx(0.2, rel=0.3) and np.sum(w * r) == pytest.approx(71, rel=0.1)
    assert "standard error of 20 %; exact values of weight x resistance are at most 1" in capsys.readouterr().out


def test_files_of_graphs_keep_their_weights(tmp_path, capsys):
    """Files with a weight matrix, a Laplacian, or one triangle; only the largest component is used."""
    L = ms.datasets.grid2d(9, 8).tolil()
    for i, j, w in ((0, 1, 3.0), (5, 13, 0.25)):
        L[i, j] = L[j, i] = -w
    L = sp.csr_array(sp.block_diag([L - sp.diags_array(L.sum(axis=1)), ms.datasets.grid2d(3, 2), sp.csr_array((2, 2))]))
    weights = sp.diags_array(L.diagonal()) - L
    for name, A in (("laplacian", L), ("weights", weights), ("triangle", sp.tril(weights))):
        scipy.io.mmwrite(tmp_path / f"{name}.mtx", sp.coo_array(A))
        for demo, expected in (("spectral_embedding", weights), ("effective_resistance", L)):
            read = load(demo).connected_graph(tmp_path / f"{name}.mtx")
            assert abs(read - sp.csr_array(expected)[:72, :72]).max() < 1e-12 and "left out 8 of 80" in capsys.readouterr().out
    xy = load("spectral_embedding").main([str(tmp_path / "weights.mtx")])
    assert np.linalg.norm(L[:72, :72] @ xy, axis=0).min() > 1e-2            # of zero eigenvalues it would be 0
    load("effective_resistance").main([str(tmp_path / "weights.mtx")])
    assert "72 vertices, 127 edges" in capsys.readouterr().out


def ball_with_more():
    """A sphere, a smaller sphere next to it, and unreferenced vertices at the beginning and the end."""
    ball, small = ms.datasets.icosphere(3), ms.datasets.icosphere(1)
    x = np.concatenate([[[9.0, 9, 9]], ball.vertices, small.vertices / 4 + [0, 0, 3], [[8.0, 8, 8]]])
    return ms.Mesh(x, np.concatenate([ball.faces + 1, small.faces + 1 + len(ball.vertices)])), ball


@pytest.mark.slow
@pytest.mark.parametrize("name", ["smooth_scan", "landmarks", "poisson_editing", "geodesics"])
def test_unreferenced_vertices_and_several_components(name, tmp_path, capsys):
    mesh, ball = ball_with_more()
    result = run(name, tmp_path, mesh)
    out = capsys.readouterr().out
    if name == "geodesics":                                             # from vertex 0, which is unreferenced
        assert result[0] == 0 and np.isinf(result[1:]).all()
        distance = ms.apps.Geodesics(mesh).distance([1, len(mesh.vertices) - 5])
        assert np.isfinite(distance[1:-1]).all() and distance[1:643].max() > 2.8 and np.isinf(distance[[0, -1]]).all()
        return
    result = result[0] if name == "smooth_scan" else result
    left = 2 if name in ("smooth_scan", "landmarks") else 2 + 42
    assert len(result.vertices) == len(mesh.vertices) - left and f"left out {left} of {len(mesh.vertices)} vertices" in out
    assert np.isfinite(result.vertices).all() and (left == 2 or np.array_equal(result.faces, ball.faces))


def test_errors_are_one_line(tmp_path):
    suffix = {"ir_drop": "sp", "spectral_embedding": "mtx", "effective_resistance": "mtx"}
    for name in sorted({path.stem for path in DEMOS.glob("*.py")} - {"obstacle"}):          # which reads no file
        with pytest.raises(ms.InvalidInputError, match="none.*no such file"):
            load(name).main([str(tmp_path / f"none.{suffix.get(name, 'ply')}")])
    two_balls, _ = ball_with_more()
    two_balls.save(tmp_path / "two.ply")
    for name, says in (("parameterization", "one component|a boundary"), ("deformation", "each component needs a handle"), ("skinning", "needs a handle")):
        with pytest.raises(ms.InvalidInputError, match=says):
            load(name).main([str(tmp_path / "two.ply")])


def run(name, tmp_path, mesh):
    """Run main() of a demo on a mesh file, and check its picture."""
    mesh.save(tmp_path / "mesh.ply")
    result = load(name).main([str(tmp_path / "mesh.ply"), "-o", str(tmp_path / "demo.png")])
    assert (tmp_path / "demo.png").stat().st_size > 1000
    return result


def rough_sphere():
    sphere = ms.datasets.icosphere(3)
    noise = np.random.default_rng(0).standard_normal((len(sphere.vertices), 1))
    return ms.Mesh(sphere.vertices * (1 + 0.05 * noise), sphere.faces)


@pytest.mark.slow
def test_smooth_scan(tmp_path):
    rough = rough_sphere()
    spread = [np.linalg.norm(m.vertices, axis=1).std() for m in (rough, *run("smooth_scan", tmp_path, rough))]
    assert spread[0] > 2 * spread[1] > 2 * spread[2]


@pytest.mark.slow
def test_curvature_flow(tmp_path):
    demo = load("curvature_flow")
    _, sphere = run("curvature_flow", tmp_path, demo.dumbbell(3))
    assert demo.roundness(sphere) < 0.5 * demo.roundness(demo.dumbbell(3))


@pytest.mark.slow
def test_geodesics(tmp_path):
    sphere = ms.datasets.icosphere(4)
    distance = run("geodesics", tmp_path, sphere)
    exact = np.arccos(np.clip(sphere.vertices @ sphere.vertices[0], -1, 1))
    assert np.abs(distance - exact).max() < 0.03
    two = ms.apps.Geodesics(sphere).distance([0, int(exact.argmax())])
    assert np.abs(two - np.minimum(exact, np.pi - exact)).max() < 0.05


def grid(nx, ny, size=(1.0, 1.0)):
    """A flat rectangle of nx x ny vertices with sides ``size`` and two triangles per cell."""
    x, y = np.meshgrid(np.linspace(0, size[0], nx), np.linspace(0, size[1], ny), indexing="ij")
    i = (np.arange(nx - 1)[:, None] * ny + np.arange(ny - 1)).ravel()
    faces = np.concatenate([np.c_[i, i + ny, i + 1], np.c_[i + 1, i + ny, i + ny + 1]])
    return ms.Mesh(np.c_[x.ravel(), y.ravel(), 0 * x.ravel()], faces)


def delaunay(n, seed, stretch=(1.0, 1.0)):
    """A stretched Delaunay triangulation of random points."""
    points = np.random.default_rng(seed).uniform(size=(n, 2))
    return ms.Mesh(np.c_[points * stretch, np.zeros(n)], Delaunay(points).simplices)


def fan(n):
    """A regular polygon, triangulated from its first corner: nearly all triangles are needles."""
    angle, k = np.linspace(0, 2 * np.pi, n, endpoint=False), np.arange(1, n - 1)
    return ms.Mesh(np.c_[np.cos(angle), np.sin(angle), 0 * angle], np.c_[0 * k, k, k + 1])


FLAT = {"random points, thin at the boundary": (delaunay(1500, 0), 0.015), "slivers that are not Delaunay": (delaunay(1500, 1, (1, 30)), 0.012),
        "slivers of 1 : 1000": (delaunay(1500, 2, (1, 1e-3)), 0.01), "a fan of needles": (fan(300), 0.012),
        "two triangles": (grid(2, 2), 1e-9), "a grid": (grid(40, 40), 0.01), "heat underflows": (grid(1500, 2, (1499, 1)), 0.001),
        "heat underflows twice": (grid(2500, 3, (2499, 2)), 0.001)}


@pytest.mark.parametrize("name", FLAT)
def test_distances_in_the_plane_are_right_at_any_size_and_quality(name):
    mesh, bound = FLAT[name]                                            # convex: distances are those of the plane
    heat = ms.apps.Geodesics(mesh)
    for source in (0, len(mesh.vertices) // 2, [0, len(mesh.vertices) - 1]):
        exact = np.linalg.norm(mesh.vertices[:, None] - mesh.vertices[np.atleast_1d(source)], axis=2).min(axis=1)
        distance = heat.distance(source)
        assert np.abs(distance - exact).mean() < bound * exact.max()
        assert (distance[source] == 0).all() and distance.min() >= 0 and np.isfinite(distance).all()
        assert (heat.level > 0) == ("underflows" in name and (source == 0 or "twice" in name))


def test_distances_do_not_depend_on_the_unit_or_on_earlier_sources():
    mesh = delaunay(400, 3)
    distance = ms.apps.Geodesics(mesh).distance(7)
    for scale in (1e-6, 1e-3, 1e6):
        heat = ms.apps.Geodesics(mesh.with_vertices(scale * mesh.vertices))
        np.testing.assert_allclose(heat.distance(7), scale * distance, atol=1e-9 * scale)
    long = grid(900, 2, (899, 1))
    heat = ms.apps.Geodesics(long)
    middle = heat.distance(900)
    heat.distance(0)                                                    # needs a longer time
    assert heat.level == 1 and np.array_equal(heat.distance(900), middle) and heat.level == 0


def test_heat_that_reaches_nowhere_is_refused(monkeypatch):
    monkeypatch.setattr("meshsolve.apps.geodesics.heat.LEVELS", 1)
    with pytest.raises(ms.MeshsolveError, match="heat does not reach every vertex"):
        ms.apps.Geodesics(grid(1500, 2, (1499, 1))).distance(0)


def test_pieces_of_different_sizes_keep_their_own_scale():
    """Components in millimeters and meters, at one point, with three faces at an edge, and with a zero-length edge."""
    small, large = delaunay(300, 4, (1e-3, 1e-3)), delaunay(300, 5, (1e3, 1e3))
    other = [[5.0, 5, 5]] * 3 + [[0.0, 0, 9], [1, 0, 9], [0, 1, 9], [0, -1, 9], [0, 0, 10], [7, 7, 7], [7, 7, 7], [8, 7, 7]]
    faces = np.array([[0, 1, 2], [3, 4, 5], [3, 4, 6], [3, 4, 7], [8, 9, 10]]) + 600
    mesh = ms.Mesh(np.concatenate([small.vertices, large.vertices, other]), np.concatenate([small.faces, large.faces + 300, faces]))
    heat = ms.apps.Geodesics(mesh)
    for source, piece in ((11, slice(0, 300)), (311, slice(300, 600))):
        exact, distance = np.linalg.norm(mesh.vertices - mesh.vertices[source], axis=1)[piece], heat.distance(source)
        assert np.abs(distance[piece] - exact).mean() < 0.02 * exact.max() and np.isfinite(distance).sum() == 300
    assert heat.distance(600)[600:603] == pytest.approx([0, 0, 0], abs=1e-4) and np.isfinite(heat.distance(600)).sum() == 3
    assert heat.distance(605)[605] == 0 and 2**0.5 <= heat.distance(605)[607] <= 2
    assert heat.distance(608)[608:] == pytest.approx([0, 0, 1], abs=1e-11)


def with_caps(mesh):
    """Split twenty faces at the middle of a side, with a zero-area face on the other side of it."""
    cut = np.arange(20) * (len(mesh.faces) // 20)
    a, b, c = mesh.faces[cut].T
    new = len(mesh.vertices) + np.arange(20)
    faces = np.concatenate([np.delete(mesh.faces, cut, axis=0), *(np.stack(t, axis=1) for t in ((a, new, c), (new, b, c), (a, b, new)))])
    return ms.Mesh(np.concatenate([mesh.vertices, (mesh.vertices[a] + mesh.vertices[b]) / 2]), faces)


def test_faces_with_zero_area():
    sphere = ms.datasets.icosphere(3)
    capped, n = with_caps(sphere), len(sphere.vertices)
    assert len(capped.vertices) == n + 20 and capped.is_manifold and (capped.face_areas < 1e-15).sum() == 20
    plain = ms.apps.Geodesics(sphere).distance(0)
    assert np.abs(ms.apps.Geodesics(capped).distance(0)[:n] - plain).max() < 0.02
    demo = load("poisson_editing")
    mesh = with_caps(demo.caterpillar(3))
    assert np.allclose(demo.bend(mesh, 0).vertices, mesh.vertices, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["harmonic", "arap"])
def test_parameterization(tmp_path, capsys, method):
    mesh = load("parameterization").cap(2)
    mesh.save(tmp_path / "cap.ply")
    uv = load("parameterization").main([str(tmp_path / "cap.ply"), "--method", method, "-o", str(tmp_path / "flat.png")])
    assert np.array_equal(uv, ms.apps.parameterize(mesh, method)[0]) and "0 flipped faces" in capsys.readouterr().out
    assert (tmp_path / "flat.png").stat().st_size > 1000


@pytest.mark.slow
def test_eigenfunctions(tmp_path, capsys):
    w, X = run("eigenfunctions", tmp_path, ms.datasets.icosphere(3))
    assert w[1:9] == pytest.approx([2] * 3 + [6] * 5, rel=0.03) and X.shape == (642, 20)
    assert "residual" in capsys.readouterr().out


@pytest.mark.slow
def test_direction_field(tmp_path, capsys):
    field = run("direction_field", tmp_path, ms.datasets.icosphere(3))
    assert field.index.sum() == 8 and "8 singular faces; the indices sum to 2" in capsys.readouterr().out


@pytest.mark.slow
def test_obstacle(tmp_path, capsys):
    x, info = load("obstacle").main(["-n", "30", "-o", str(tmp_path / "x.png")])
    assert info.converged and (x[info.active == 1] == x.max()).all() and "points touch" in capsys.readouterr().out
    assert (tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.slow
def test_point_cloud(tmp_path, capsys):
    distance = run("point_cloud", tmp_path, ms.datasets.icosphere(3))
    assert distance.max() == pytest.approx(np.pi, rel=0.05) and "642 points, area 12.5" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["arap", "bilaplacian"])
def test_deformation(tmp_path, method):
    mesh = ms.datasets.icosphere(3)
    mesh.save(tmp_path / "ball.ply")
    moved = load("deformation").main([str(tmp_path / "ball.ply"), "--method", method, "-o", str(tmp_path / "d.png")]).vertices - mesh.vertices
    height = mesh.vertices[:, 1]
    assert np.allclose(moved[height.argmax()], [0.6, 0.2, 0]) and np.allclose(moved[height.argmin()], 0)
    assert moved[:, 0].min() > -0.3 and moved[:, 0].max() < 1 and (tmp_path / "d.png").stat().st_size > 1000


@pytest.mark.slow
def test_skinning(tmp_path, capsys):
    mesh = ms.datasets.icosphere(2)
    W, moved = run("skinning", tmp_path, mesh)
    top = mesh.vertices[:, 1].argmax()
    assert np.allclose(W.sum(axis=1), 1) and W[top].max() == 1 and np.allclose((moved.vertices - mesh.vertices)[top], [0, 0.6, 0], atol=0.01)
    assert "3 handles" in capsys.readouterr().out


@pytest.mark.slow
def test_denoising(tmp_path, capsys):
    demo = load("denoising")
    cube, noisy = ms.datasets.cube(8), demo.noisy_cube(8)
    clean = run("denoising", tmp_path, noisy)

    def angle(mesh):
        return np.arccos(np.clip((mesh.face_normals * cube.face_normals).sum(axis=1), -1, 1)).mean()

    assert angle(clean) < 0.5 * angle(noisy) and "largest move" in capsys.readouterr().out


@pytest.mark.slow
def test_inverse_smoothing(tmp_path, capsys):
    pytest.importorskip("torch")
    smooth = ms.apps.mcf(load("inverse_smoothing").bumpy_ball(), dt=0.02)[0]
    found, before, after = run("inverse_smoothing", tmp_path, smooth)
    assert after < 0.2 * before and found.volume > smooth.volume and "after 100 steps" in capsys.readouterr().out


CALLS = ("geodesics", "parameterization", "eigenfunctions", "point_cloud", "direction_field", "deformation", "skinning", "denoising", "obstacle")


@pytest.mark.parametrize("name", CALLS)
def test_a_demo_of_a_call_is_short(name):
    """The function main, which only calls the library, has fewer than twenty lines."""
    text = (DEMOS / f"{name}.py").read_text()
    (main,) = (node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name == "main")
    assert main.end_lineno - main.lineno + 1 < 20


@pytest.mark.slow
def test_poisson_editing(tmp_path):
    demo = load("poisson_editing")
    mesh = demo.caterpillar(4)
    handle, anchor = demo.ends(mesh)
    assert np.allclose(demo.bend(mesh, 0).vertices, mesh.vertices, atol=1e-10)

    def stretch(bent):
        return np.std(lengths(bent) / lengths(mesh))

    def lengths(of):
        return np.linalg.norm(np.diff(of.vertices[of.edges], axis=1)[:, 0], axis=1)

    bent = run("poisson_editing", tmp_path, mesh)
    assert np.allclose(bent.vertices[anchor], mesh.vertices[anchor])
    assert np.allclose((bent.vertices - bent.vertices[handle].mean(axis=0))[handle] @ [[0, -1, 0], [1, 0, 0], [0, 0, 1]],
                       (mesh.vertices - mesh.vertices[handle].mean(axis=0))[handle])
    ends = np.r_[handle, anchor]                                                # triangles that do not rotate are sheared
    sheared = ms.apps.Deformation(mesh, ends, method="poisson").move(bent.vertices[ends])
    assert np.allclose(sheared.vertices[handle], bent.vertices[handle]) and stretch(bent) < 0.6 * stretch(sheared)


ALONE = """
import contextlib, io, json, runpy, sys

def run(name, argument):
    sys.argv, out, err = [name, argument], io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(name, run_name="__main__")
            code = 0
        except SystemExit as e:
            code = e.code or 0
    return code, out.getvalue(), err.getvalue()

json.dump({name: [run(name, argument) for argument in ("--help", "--nonsense")] for name in sys.argv[1:]}, sys.stdout)
"""


@pytest.mark.slow
def test_demos_run_when_they_are_copied_alone(tmp_path):
    """Copies in an empty folder: they import nothing from demos/, and their docstrings have the command."""
    names = sorted(path.name for path in DEMOS.glob("*.py"))
    for name in names:
        text = (DEMOS / name).read_text()
        assert f"    python {name} [" in text
        (tmp_path / name).write_text(text)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path != str(DEMOS))}
    done = subprocess.run([sys.executable, "-P", "-c", ALONE, *names], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    for name, [(code, out, err), (refused, _, why)] in json.loads(done.stdout).items():
        assert (code, err) == (0, "") and "--output" in out, name
        assert refused == 2 and "--nonsense" in why, name


@pytest.mark.slow
def test_errors_of_a_demo_in_a_shell_are_one_line(tmp_path):
    for arguments, says in ((["--source", "-99999"], "error: "), (["-o", str(tmp_path / "none" / "a.png")], "error: "),
                            ([str(tmp_path / "none.obj")], "no such file")):
        done = subprocess.run([sys.executable, DEMOS / "geodesics.py", *arguments], capture_output=True, text=True)
        assert done.returncode == 1 and says in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_ir_drop(tmp_path, capsys):
    demo = load("ir_drop")
    demo.write_grid(tmp_path / "grid.sp", n=12, pads=2)
    drop = demo.main([str(tmp_path / "grid.sp"), "-o", str(tmp_path / "grid.png")])
    assert len(drop) == 12 * 12 + 4 and drop.min() >= 0 and 1e-3 < drop.max() < 0.1
    assert (tmp_path / "grid.png").stat().st_size > 1000 and "mV at" in capsys.readouterr().out


@pytest.mark.slow
def test_gaussian_field(tmp_path, capsys):
    mesh, demo = ms.datasets.icosphere(4), load("gaussian_field")
    Q = demo.precision(mesh, correlation=1.0)
    covariance, n = np.linalg.inv(Q.toarray()), len(mesh.vertices)
    assert np.diag(covariance) == pytest.approx(np.ones(n), abs=0.1)
    angle = np.arccos(np.clip(mesh.vertices @ mesh.vertices[0], -1, 1))
    assert covariance[0][(angle > 0.95) & (angle < 1.05)] == pytest.approx(0.16, abs=0.05)          # 0.14 in the plane
    F, at, values, noise = ms.cholesky(Q), np.array([3, 700, 1234, 2000]), np.array([1.0, -2.0, 0.5, 0.0]), 0.1
    drawn = np.stack([demo.sample(F, np.random.default_rng(k)) for k in range(200)])
    assert drawn.var() == pytest.approx(1, abs=0.1)
    mean, deviation = demo.condition(F, at, values, noise)
    gain = covariance[:, at] @ np.linalg.inv(covariance[np.ix_(at, at)] + noise**2 * np.eye(4))
    np.testing.assert_allclose(mean, gain @ values, atol=1e-9)
    np.testing.assert_allclose(deviation**2, np.diag(covariance - gain @ covariance[at]), atol=1e-9)
    truth, mean, deviation = run("gaussian_field", tmp_path, mesh)
    assert np.mean(abs(truth - mean) < 3 * deviation) > 0.95 and "within two standard deviations" in capsys.readouterr().out


@pytest.mark.slow
def test_landmarks(tmp_path, capsys):
    mesh = rough_sphere()
    demo = load("landmarks")
    landmarks = np.random.default_rng(0).choice(len(mesh.vertices), 100, replace=False)
    J = demo.averages(mesh, landmarks)
    assert np.allclose(J.sum(axis=1), 1)
    kept = run("landmarks", tmp_path, mesh)
    assert np.allclose(J @ kept.vertices, J @ mesh.vertices)
    L = ms.cotan_laplacian(mesh)
    assert np.linalg.norm(L @ kept.vertices) < 0.5 * np.linalg.norm(L @ mesh.vertices)
    assert f"{len(mesh.vertices)} positive, 100 negative, 0 zero" in capsys.readouterr().out


def test_every_demo_has_a_test_a_picture_and_a_line_in_the_documentation():
    demos = {path.stem for path in DEMOS.glob("*.py")}
    page, images = (DEMOS.parent / "docs" / "demos.md").read_text(), DEMOS.parent / "docs" / "images"
    assert [d for d in sorted(demos) if f"test_{d}" not in globals()] == []
    assert [d for d in sorted(demos) if f"(images/demo_{d}.png)" not in page or f"`{d}.py`" not in page] == []
    assert [d for d in sorted(demos) if not (images / f"demo_{d}.png").exists()] == []
