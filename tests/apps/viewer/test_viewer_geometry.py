"""Distances, maps and denoising in the viewer's model, compared with the functions."""

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.maps.distortion import distortion, face_distortions
from meshsolve.apps.viewer import Model
from meshsolve.apps.viewer.geometry import edge_path
from meshsolve.errors import InvalidInputError

BALL = ms.datasets.icosphere(2)


def test_distances_are_shown_from_the_sources_that_were_picked():
    model = Model(BALL)
    first = model.show("distance")
    G = ms.apps.Geodesics(BALL)
    assert np.array_equal(first.values, G.distance(0)) and first.limits == (0, first.values.max()) and first.lines > 0
    assert np.array_equal(model.measure(40).values, G.distance(40)) and model.view == "distance"
    both = model.measure(7, add=True)
    assert np.array_equal(both.values, G.distance([7, 40])) and "from 2 sources" in both.caption and model.geometry.sources.tolist() == [40, 7]
    assert model.coloring() is both                                     # computed once
    model.step()
    moved = model.coloring()
    assert np.array_equal(moved.values, ms.apps.Geodesics(model.mesh).distance([7, 40])) and moved is not both
    with pytest.raises(InvalidInputError, match="sources"):
        model.measure(162)
    assert model.geometry.sources.tolist() == [40, 7]


def test_components_without_a_source_are_counted():
    n = len(BALL.vertices)
    two = ms.Mesh(np.r_[BALL.vertices, BALL.vertices + 5], np.r_[BALL.faces, BALL.faces + n])
    shown = Model(two).measure(n + 3)
    assert f"{n} vertices out of reach" in shown.caption and np.isfinite(shown.values).all()


@pytest.mark.parametrize("method", [None, "lscm", "slim"])
def test_a_map_is_shown_on_the_corners_of_the_surface_that_was_cut(method):
    model = Model(BALL)
    shown = model.flatten(method)
    uv, report = ms.apps.parameterize(BALL, method or "arap", cut=True)
    given = (uv - uv.min(axis=0)) / np.ptp(uv, axis=0).max()
    assert np.allclose(shown.values.reshape(-1, 3, 2), given[report.mesh.faces]) and shown.on == "corners" and model.view == "texture"
    assert f"{method or 'arap'} map, " in shown.caption and "angle distortion" in shown.caption
    with pytest.raises(InvalidInputError):
        model.flatten("magic")
    assert model.geometry.method == (method or "arap")


def test_a_map_that_fails_leaves_the_method_and_the_view():
    n = len(BALL.vertices)
    model = Model(ms.Mesh(np.r_[BALL.vertices, BALL.vertices + 5], np.r_[BALL.faces, BALL.faces + n]))
    with pytest.raises(InvalidInputError, match="one component"):
        model.flatten("lscm")
    assert model.geometry.method == "arap" and model.view == "plain"


def test_denoising_replaces_the_shape():
    cube = ms.datasets.cube(5)
    noisy = cube.with_vertices(cube.vertices + 0.04 * np.random.default_rng(0).standard_normal(cube.vertices.shape))
    model = Model(noisy)
    model.denoise(sigma=0.5)
    assert np.array_equal(model.mesh.vertices, ms.apps.denoise(noisy, sigma=0.5)[0].vertices) and model.editor.mesh is model.mesh
    assert "denoise" in model.timings.last
    with pytest.raises(InvalidInputError):
        model.denoise(sigma=0.0)
    model.reset()
    assert model.mesh is noisy


def test_curvatures_and_normals_of_a_ball():
    model = Model(ms.datasets.icosphere(3))
    inside = slice(12, None)                                # the twelve vertices with five neighbors are less regular
    assert np.allclose(model.show("mean curvature").values[inside], 1, atol=0.05)
    gaussian = model.show("Gaussian curvature")
    assert np.allclose(gaussian.values[inside], 1, atol=0.1) and gaussian.limits[0] == -gaussian.limits[1]
    assert np.allclose(2 * model.show("normals").values - 1, model.mesh.vertices, atol=0.02)
    before = model.show("mean curvature")
    model.step()
    assert model.coloring() is not before and model.coloring().values.mean() > before.values.mean()


def test_signed_distances_to_a_path_of_edges_through_the_sources():
    model = Model(ms.datasets.icosphere(3))
    with pytest.raises(InvalidInputError, match="pick at least two sources"):
        model.show("signed distance")
    x = model.mesh.vertices
    ends = [int((x @ direction).argmax()) for direction in ([1, 0, 0], [0, 0, 1], [-1, 0, 0], [0, 0, -1])]
    model.measure(ends[0])
    model.show("distance")
    for end in ends[1:4]:
        model.measure(end, add=True)
    shown = model.show("signed distance")
    path = edge_path(model.mesh, model.geometry.sources)
    edges = {tuple(sorted(edge)) for edge in model.mesh.edges.tolist()}
    assert all(tuple(sorted(pair)) in edges for pair in zip(path[:-1].tolist(), path[1:].tolist(), strict=True))
    assert [v for v in path.tolist() if v in ends] == ends and len(set(path.tolist())) == len(path)
    assert np.array_equal(shown.values, ms.apps.Geodesics(model.mesh).signed_distance(path))
    assert shown.limits[0] == -shown.limits[1] < 0 and shown.lines > 0


def test_a_path_between_components_is_refused():
    n = len(BALL.vertices)
    two = ms.Mesh(np.r_[BALL.vertices, BALL.vertices + 5], np.r_[BALL.faces, BALL.faces + n])
    with pytest.raises(InvalidInputError, match=f"no path of edges leads from vertex 3 to vertex {n + 3}"):
        edge_path(two, [3, n + 3])


def test_the_logarithmic_map_and_transport_start_from_the_last_source():
    model, G = Model(BALL), ms.apps.Geodesics(BALL)
    model.measure([4, 9])
    shown = model.show("logarithmic map")
    expected = G.log_map(9)
    assert np.allclose(shown.values, expected / np.hypot(*expected.T).max()) and shown.is_texture and "vertex 9" in shown.caption
    arrows = model.show("transport").vectors
    assert np.allclose(arrows, G.transport(9, G.frames[9, 0])) and np.allclose(np.linalg.norm(arrows, axis=1), 1)
    assert model.measure(3).name == "transport" and "vertex 3" in model.coloring().caption         # the view of sources stays


@pytest.mark.parametrize("kind", ["angle", "area"])
def test_distortion_of_each_face_has_the_mean_of_the_map(kind):
    model = Model(BALL)
    shown = model.show(f"{kind} distortion")
    uv, report = ms.apps.parameterize(BALL, "arap", cut=True)
    ratio = face_distortions(report.mesh, uv)[f"{kind}_distortion"]
    assert shown.on == "faces" and np.allclose(shown.values, ratio) and shown.values.min() >= 1
    mean = np.average(ratio, weights=report.mesh.face_areas)
    assert distortion(report.mesh, uv)[f"{kind}_distortion"] == pytest.approx(mean) and f"{kind} distortion {mean:.4g}" in shown.caption
    assert model.flatten("lscm").name == f"{kind} distortion" and "lscm map" in model.coloring().caption


def test_every_view_of_values_has_a_plot_with_names():
    model = Model(BALL)
    model.measure([4, 9])
    for view in ("distance", "mean curvature", "area distortion", "column counts", "eigenvector"):
        plot = model.show(view).curves()
        assert plot.title and plot.x and plot.y and len(plot.curves) == 1 and plot.step > 0
    shown = model.show("distance")
    assert shown.curves().curves["vertices"].sum() == len(BALL.vertices) and shown.curves().first == shown.curves().step / 2
    assert model.show("transport").curves() is None
