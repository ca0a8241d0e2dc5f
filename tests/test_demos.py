"""The demos run, and give what they say."""

import importlib.util
import pathlib

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

import meshsolve as ms

DEMOS = pathlib.Path(__file__).resolve().parents[1] / "demos"


@pytest.fixture(autouse=True)
def beside_each_other(monkeypatch):
    """The demos share picture.py, as they do when run as scripts."""
    monkeypatch.syspath_prepend(DEMOS)


def load(name):
    spec = importlib.util.spec_from_file_location(name, DEMOS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_spectral_embedding(tmp_path):
    demo = load("spectral_embedding")
    L = ms.datasets.grid2d(24, 15)
    xy, values = demo.embed(L)
    assert values == pytest.approx(np.linalg.eigvalsh(L.toarray())[1:3], rel=1e-4)
    assert np.linalg.norm(L @ xy - xy * values) < 1e-3
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(L))
    demo.main([str(tmp_path / "g.mtx"), "-o", str(tmp_path / "g.png")])
    assert (tmp_path / "g.png").stat().st_size > 1000


def test_effective_resistance(tmp_path, capsys):
    demo = load("effective_resistance")
    L = ms.datasets.grid2d(9, 8)
    i, j, w = demo.edges_of(L)
    inverse = np.linalg.pinv(L.toarray())
    exact = inverse[i, i] + inverse[j, j] - 2 * inverse[i, j]
    estimate = demo.resistances(L, projections=400)
    assert np.abs(estimate / exact - 1).max() < 0.35 and np.sum(w * estimate) == pytest.approx(71, rel=0.03)
    scipy.io.mmwrite(tmp_path / "g.mtx", sp.coo_array(L))
    demo.main([str(tmp_path / "g.mtx"), "-o", str(tmp_path / "g.png")])
    assert (tmp_path / "g.png").stat().st_size > 1000
    assert "72 vertices, 127 edges" in capsys.readouterr().out


def run(name, tmp_path, mesh):
    """main() of a demo on a mesh file, and its picture."""
    mesh.save(tmp_path / "mesh.ply")
    result = load(name).main([str(tmp_path / "mesh.ply"), "-o", str(tmp_path / "demo.png")])
    assert (tmp_path / "demo.png").stat().st_size > 1000
    return result


def rough_sphere():
    sphere = ms.datasets.icosphere(3)
    noise = np.random.default_rng(0).standard_normal((len(sphere.vertices), 1))
    return ms.Mesh(sphere.vertices * (1 + 0.05 * noise), sphere.faces)


def test_smooth_scan(tmp_path):
    rough = rough_sphere()
    spread = [np.linalg.norm(m.vertices, axis=1).std() for m in (rough, *run("smooth_scan", tmp_path, rough))]
    assert spread[0] > 2 * spread[1] > 2 * spread[2]


def test_curvature_flow(tmp_path):
    demo = load("curvature_flow")
    _, sphere = run("curvature_flow", tmp_path, demo.dumbbell(3))
    assert demo.roundness(sphere) < 0.5 * demo.roundness(demo.dumbbell(3))


def test_geodesics(tmp_path):
    sphere = ms.datasets.icosphere(4)
    distance = run("geodesics", tmp_path, sphere)
    exact = np.arccos(np.clip(sphere.vertices @ sphere.vertices[0], -1, 1))
    assert np.abs(distance - exact).max() < 0.1
    two = load("geodesics").HeatMethod(sphere).distance([0, int(exact.argmax())])
    assert np.abs(two - np.minimum(exact, np.pi - exact)).max() < 0.1


def test_parameterization(tmp_path):
    mesh = load("parameterization").cap(3)
    maps = run("parameterization", tmp_path, mesh)
    assert np.linalg.norm(maps["harmonic"], axis=1).max() == pytest.approx(1)
    assert all((areas(uv, mesh.faces) > 0).all() for uv in maps.values())
    angles = {name: np.abs(corner_angles(np.c_[uv, 0 * uv[:, 0]], mesh.faces) - corner_angles(mesh.vertices, mesh.faces)).mean()
              for name, uv in maps.items()}
    assert angles["conformal (LSCM)"] < 0.8 * angles["harmonic"]


def areas(uv, faces):
    a, b, c = uv[faces].transpose(1, 0, 2)
    return (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]


def corner_angles(x, faces):
    a, b, c = x[faces].transpose(1, 0, 2)
    u, v = b - a, c - a
    return np.arccos((u * v).sum(axis=1) / np.linalg.norm(u, axis=1) / np.linalg.norm(v, axis=1))


def test_laplacian_editing(tmp_path):
    mesh = ms.datasets.icosphere(3)
    demo = load("laplacian_editing")
    handle, anchor = demo.ends(mesh)
    moved = demo.Editor(mesh, handle, anchor).drag([1.0, 2.0, 3.0]).vertices - mesh.vertices
    assert np.allclose(moved[handle], [1, 2, 3]) and np.allclose(moved[anchor], 0)
    assert -0.2 < moved[:, 0].min() and moved[:, 0].max() < 1.2
    run("laplacian_editing", tmp_path, mesh)


def test_ir_drop(tmp_path, capsys):
    demo = load("ir_drop")
    demo.write_grid(tmp_path / "grid.sp", n=12, pads=2)
    drop = demo.main([str(tmp_path / "grid.sp"), "-o", str(tmp_path / "grid.png")])
    assert len(drop) == 12 * 12 + 4 and 0 <= drop.min() and 1e-3 < drop.max() < 0.1
    assert (tmp_path / "grid.png").stat().st_size > 1000 and "mV at" in capsys.readouterr().out


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
