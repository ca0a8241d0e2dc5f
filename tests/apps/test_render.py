"""Pictures: size, content, hidden surfaces, files written whole."""

import importlib
import os

import matplotlib.image
import numpy as np
import pytest

from meshsolve import datasets
from meshsolve.apps import render
from meshsolve.apps.render import _camera, _visible
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh

drawing = importlib.import_module("meshsolve.apps.render")         # the name meshsolve.apps.render is the function
TRIANGLE = Mesh(np.eye(3), [[0, 1, 2]])


def pixels(path):
    return matplotlib.image.imread(path)[..., :3]


@pytest.mark.parametrize("after", [None, datasets.icosphere(1)])
def test_size_and_content(tmp_path, after):
    render(tmp_path / "a.png", datasets.icosphere(3), after, title="a title", size=320)
    picture = pixels(tmp_path / "a.png")
    assert min(picture.shape[:2]) >= 300 and picture.std() > 0.05 and np.array_equal(picture[0, 0], [1, 1, 1])
    assert (picture.shape[1] > 640) == (after is not None) and os.listdir(tmp_path) == ["a.png"]


def test_same_scale_for_both(tmp_path):
    sphere = datasets.icosphere(3)
    render(tmp_path / "a.png", sphere, sphere.with_vertices(sphere.vertices / 2), captions=["", ""], size=400)
    dark = pixels(tmp_path / "a.png").min(axis=2) < 0.97
    half = dark.shape[1] // 2
    assert dark[:, :half].sum() == pytest.approx(4 * dark[:, half:].sum(), rel=0.05)


def test_a_sphere_covers_its_disc():
    mesh = datasets.icosphere(4)
    face, weights, depth = _visible(mesh.vertices * 100 + 128.0, mesh.faces, np.array([256, 256]))
    assert np.count_nonzero(face >= 0) == pytest.approx(np.pi * 100 ** 2, rel=0.005)
    assert depth.max() == pytest.approx(228, abs=0.5) and ((weights >= -1e-3) & (weights <= 1.001)).all()
    inside = (np.indices((256, 256)) + 0.5 - 128) ** 2
    assert (face.reshape(256, 256)[inside.sum(axis=0) < 98 ** 2] >= 0).all()                # no cracks between faces


def test_the_nearest_face_wins_in_any_order():
    x = np.array([[0, 0, 1], [40, 0, 1], [0, 40, 1], [0, 0, 5], [40, 0, 5], [0, 40, 5.0]])
    for faces in ([[0, 1, 2], [3, 4, 5]], [[3, 5, 4], [0, 1, 2]]):
        face, _, depth = _visible(x, np.array(faces, np.int32), np.array([40, 40]))
        near = [f[0] for f in faces].index(3)
        assert set(face[face >= 0]) == {near} and set(depth[face >= 0]) == {5.0}


def test_many_chunks_give_the_same_picture(monkeypatch):
    import sys

    mesh = datasets.icosphere(3)
    shape, x = np.array([128, 128]), mesh.vertices * 50 + 64
    whole = _visible(x, mesh.faces, shape)
    monkeypatch.setattr(sys.modules["meshsolve.apps.render"], "CHUNK", 500)
    assert all(np.array_equal(a, b) for a, b in zip(whole, _visible(x, mesh.faces, shape)))


@pytest.mark.parametrize("up", ["y", "z"])
def test_camera(up):
    view = _camera(30, 20, up)
    assert view @ view.T == pytest.approx(np.eye(3)) and np.linalg.det(view) == pytest.approx(1)
    axis = np.array([0, 1, 0]) if up == "y" else np.array([0, 0, 1])
    assert view[1] @ axis > 0.9 and view[0] @ axis == pytest.approx(0)


@pytest.mark.parametrize("mesh", [
    TRIANGLE, Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 1, 2]]), Mesh(np.ones((3, 3)), [[0, 1, 2]]),
    Mesh(1e60 * np.eye(3), [[0, 1, 2]]), Mesh(np.concatenate([np.eye(3), [[1e9, 0, 0]]]), [[0, 1, 2]])],
    ids=["triangle", "line", "point", "huge", "far unreferenced vertex"])
def test_odd_meshes_are_drawn_without_a_warning(tmp_path, mesh):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        render(tmp_path / "a.png", mesh, size=300)
    seen = pixels(tmp_path / "a.png")[:300].std() > 0.02
    assert seen == (np.ptp(mesh.vertices[:3], axis=0).min() > 0)


@pytest.mark.parametrize("call", [
    lambda p: render(p / "a.jpg", TRIANGLE), lambda p: render(p / "no" / "a.png", TRIANGLE),
    lambda p: render(p / "a.png", Mesh(np.eye(3), [])), lambda p: render(p / "a.png", "mesh"),
    lambda p: render(p / "a.png", TRIANGLE, size=20), lambda p: render(p / "a.png", TRIANGLE, up="x"),
    lambda p: render(None, TRIANGLE), lambda p: render(p / "a.png", TRIANGLE, values=[1.0, 2.0]),
    lambda p: render(p / "a.png", TRIANGLE, values=[np.nan] * 3), lambda p: render(p / "a.png", TRIANGLE, values=["a", "b", "c"]),
    lambda p: render(p / "a.png", TRIANGLE, TRIANGLE, values=np.ones((3, 3))),
    lambda p: render(p / "a.png", TRIANGLE, values=np.ones(3), colormap="plain"),
    lambda p: render(p / "a.png", TRIANGLE, values=np.ones(3), lines=-1)], ids=range(13))
def test_bad_input_writes_no_file(tmp_path, call):
    with pytest.raises(InvalidInputError):
        call(tmp_path)
    assert os.listdir(tmp_path) == []


def hues(path):
    """(blue, red) share of each pixel."""
    picture = pixels(path)
    return picture[..., 2] - picture[..., 0] > 0.15, picture[..., 0] - picture[..., 2] > 0.15


@pytest.mark.slow
def test_values_are_shown_at_their_vertices(tmp_path):
    """Blue to red along an axis, with a scale on the right. A vertex with NaN keeps the color of the mesh."""
    sphere = datasets.icosphere(4)
    along = sphere.vertices[:, 1]
    render(tmp_path / "a.png", sphere, values=along, colormap="coolwarm", size=400, elevation=0)
    blue, red = hues(tmp_path / "a.png")
    on_mesh = slice(0, pixels(tmp_path / "a.png").shape[1] - 110)
    assert np.argwhere(red[:, on_mesh])[:, 0].mean() + 100 < np.argwhere(blue[:, on_mesh])[:, 0].mean()
    assert blue[:, on_mesh.stop:].any() and red[:, on_mesh.stop:].any()
    render(tmp_path / "b.png", sphere, values=np.where(along > 0, np.nan, along), colormap="coolwarm", size=400, elevation=0)
    half = np.argwhere(hues(tmp_path / "b.png")[1][:, on_mesh])[:, 0]
    assert half.min() > np.argwhere(red[:, on_mesh])[:, 0].min() + 100


def test_two_meshes_share_a_scale(tmp_path):
    sphere = datasets.icosphere(3)
    render(tmp_path / "a.png", sphere, sphere, values=[np.zeros(642), np.ones(642, np.float32)], colormap="coolwarm", size=320)
    blue, red = hues(tmp_path / "a.png")
    middle = (pixels(tmp_path / "a.png").shape[1] - 96) // 2
    assert blue[:, :middle].any() and not red[:, :middle].any() and red[:, middle:].any()


@pytest.mark.slow
def test_checkerboards_of_texture_coordinates(tmp_path):
    """A flat square that faces the camera: both panels have as many squares of each color, and the map keeps its size."""
    x, y = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9), indexing="ij")
    i = (np.arange(8)[:, None] * 9 + np.arange(8)).ravel()
    mesh = Mesh(np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.r_[np.c_[i, i + 9, i + 1], np.c_[i + 1, i + 9, i + 10]])
    render(tmp_path / "a.png", mesh, uv=1e-3 * mesh.vertices[:, :2], size=480, azimuth=0, elevation=0)
    blue = pixels(tmp_path / "a.png")[..., 2] - pixels(tmp_path / "a.png")[..., 0] > 0.2
    halves = np.array_split(blue, 2, axis=1)
    assert halves[0].sum() == pytest.approx(0.5 * (0.9 * 480) ** 2, rel=0.05) and halves[1].sum() == pytest.approx(halves[0].sum(), rel=0.02)
    row = halves[0][30 + 240]
    assert 23 <= np.count_nonzero(np.diff(row.astype(int))) <= 25               # 24 squares, every other one blue


@pytest.mark.slow
def test_lines_of_equal_values(tmp_path):
    """Four lines between five bands around the axis: a column of pixels crosses all of them."""
    sphere = datasets.icosphere(5)
    pictures = []
    for lines in (0, 5):
        render(tmp_path / "a.png", sphere, values=sphere.vertices[:, 1], lines=lines, size=700, elevation=0)
        pictures.append(pixels(tmp_path / "a.png").max(axis=2))
    middle = (pictures[0].shape[1] - 96) // 2
    dark = (pictures[1] < 0.7 * pictures[0])[:, middle]
    assert np.count_nonzero(dark[1:] & ~dark[:-1]) == 4


def band(n, twist=2.0):
    """A band of 2 n long needles around a cylinder, each across a third of the picture."""
    angle, i = np.linspace(0, 2 * np.pi, n, endpoint=False), np.arange(n)
    ends = [np.stack([np.cos(a), h + 0 * a, np.sin(a)], axis=1) for a, h in ((angle, -1), (angle + twist, 1))]
    j = (i + 1) % n
    return Mesh(np.concatenate(ends), np.concatenate([np.stack([i, j, n + i], 1), np.stack([n + i, j, n + j], 1)]))


@pytest.mark.slow
def test_the_cost_of_thin_triangles_is_their_area(monkeypatch):
    """Their bounding boxes hold a hundred times as many samples as they cover."""
    counts, candidates = [], drawing._candidates
    monkeypatch.setattr(drawing, "_candidates", lambda *given: counts.append(int(given[3].sum())) or candidates(*given))
    shape = np.array([600, 600])
    for n in (100, 1000, 10_000):
        counts.clear()
        mesh = band(n)
        face, _, _ = _visible(mesh.vertices * 250 + 300.0, mesh.faces, shape)
        assert sum(counts) < 12 * 600 * 600 and np.count_nonzero(face >= 0) > 100_000


def test_rows_of_thin_triangles_are_their_boxes(monkeypatch):
    """Candidates by rows give the faces, weights and depths of bounding boxes, for triangles in every direction."""
    rng = np.random.default_rng(0)
    shape, start = np.array([128, 96]), rng.uniform(-20, 140, (400, 1, 3))
    along = rng.standard_normal((400, 1, 3)) * 60 * np.array([0, 0.5, 1])[:, None]
    x = (start + along + 1.5 * rng.standard_normal((400, 3, 3))).reshape(-1, 3)
    x[:30, 1] = np.round(x[:30, 1]) + 0.5               # corners on rows of samples
    faces = np.arange(1200, dtype=np.int32).reshape(-1, 3)
    by_rows = _visible(x, faces, shape)
    for chunk, sparse in ((300, drawing.SPARSE), (drawing.CHUNK, np.inf)):
        monkeypatch.setattr(drawing, "CHUNK", chunk)
        monkeypatch.setattr(drawing, "SPARSE", sparse)
        face, weights, depth = _visible(x, faces, shape)
        assert np.count_nonzero(face != by_rows[0]) <= 3            # on an edge rounding decides
        same = face == by_rows[0]
        assert np.abs(weights - by_rows[1])[same].max() < 1e-3 and np.allclose(depth[same], by_rows[2][same], atol=0.05)
