"""Distances, maps and denoising in the viewer's model, compared with the functions."""

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.viewer import Model
from meshsolve.errors import InvalidInputError

BALL = ms.datasets.icosphere(2)


def test_distances_are_shown_from_the_sources_that_were_picked():
    model = Model(BALL)
    first = model.show("distance")
    G = ms.apps.Geodesics(BALL)
    assert np.array_equal(first.values, G.distance(0)) and first.limits == (0, first.values.max()) and first.lines > 0
    assert np.array_equal(model.measure(40).values, G.distance(40)) and model.view == "distance"
    both = model.measure(7, add=True)
    assert np.array_equal(both.values, G.distance([7, 40])) and "from 2 sources" in both.caption and model.geometry.sources.tolist() == [7, 40]
    assert model.coloring() is both                                     # computed once
    model.step()
    moved = model.coloring()
    assert np.array_equal(moved.values, ms.apps.Geodesics(model.mesh).distance([7, 40])) and moved is not both
    with pytest.raises(InvalidInputError, match="sources"):
        model.measure(162)
    assert model.geometry.sources.tolist() == [7, 40]


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
