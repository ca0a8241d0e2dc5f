"""Curvatures of spheres, cylinders and tori, whose values and directions are known."""

import numpy as np
import pytest

import meshsolve as ms


def torus(nu, nv, noise=0.0, r=0.4):
    """(mesh, unit tangents along the small circle, larger curvature, smaller curvature) for radii 1 and r."""
    rng, k = np.random.default_rng(0), np.arange(nu * nv).reshape(nu, nv)
    u, v = (2 * np.pi * (i + noise * rng.standard_normal(i.shape)) / n for i, n in zip(np.divmod(k.ravel(), nv), (nu, nv)))
    x = np.stack([(1 + r * np.cos(v)) * np.cos(u), (1 + r * np.cos(v)) * np.sin(u), r * np.sin(v)], axis=1)
    a, b, c, d = (part.ravel() for part in (k, np.roll(k, -1, 0), np.roll(k, (-1, -1), (0, 1)), np.roll(k, -1, 1)))
    along = np.stack([-np.sin(v) * np.cos(u), -np.sin(v) * np.sin(u), np.cos(v)], axis=1)
    return ms.Mesh(x, np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])), along, np.full(len(x), 1 / r), np.cos(v) / (1 + r * np.cos(v))


def angles(p, q):
    """(n,) angles between lines along unit vectors."""
    return np.arccos(np.clip(abs((p * q).sum(axis=1)), 0, 1))


def test_curvatures_of_a_torus():
    mesh, along, large, small = torus(60, 30)
    c = ms.operators.curvatures(mesh)
    assert abs(c.principal - np.stack([large, small], axis=1)).max() < 0.05 and abs(c.gaussian.sum()) < 1e-10
    assert angles(c.directions[:, 0], along).max() < 0.004
    assert np.allclose(c.directions @ c.directions.transpose(0, 2, 1), np.eye(2))
    assert abs(np.einsum("nkc,nc->nk", c.directions, mesh.vertex_normals)).max() < 1e-14


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_directions_on_an_irregular_torus(scale):
    mesh, along, _, _ = torus(60, 30, noise=0.1)
    found = ms.operators.curvatures(mesh.with_vertices(scale * mesh.vertices)).directions
    assert angles(found[:, 0], along).mean() < 0.02 and angles(found[:, 0], along).max() < 0.06


def test_the_smaller_curvature_of_a_saddle_is_negative():
    """z = x y / 2: curvatures +- 1 / 2 at the middle, along both diagonals; the other orientation exchanges them."""
    y, x = np.divmod(np.arange(21 * 21), 21) - np.array([[10.0], [10.0]])
    k = np.arange(21 * 21).reshape(21, 21)
    a, b, c, d = (part.ravel() for part in (k[:-1, :-1], k[:-1, 1:], k[1:, 1:], k[1:, :-1]))
    mesh = ms.Mesh(0.01 * np.stack([x, y, 0.005 * x * y], axis=1), np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))
    diagonals = np.array([[1, -1, 0], [1, 1, 0]]) / np.sqrt(2)
    for surface, expected in ((mesh, diagonals), (ms.Mesh(mesh.vertices, mesh.faces[:, ::-1]), diagonals[::-1])):
        c = ms.operators.curvatures(surface)
        assert np.allclose(c.principal[220], [0.5, -0.5], atol=0.01) and angles(c.directions[220], expected).max() < 0.02


def test_vertices_without_faces_have_no_directions():
    sphere = ms.datasets.icosphere(1)
    c = ms.operators.curvatures(ms.Mesh(np.vstack([sphere.vertices, [[9, 9, 9]]]), sphere.faces))
    assert (c.directions[-1] == 0).all() and (c.principal[-1] == 0).all() and np.isfinite(c.directions).all()


def test_curvatures_and_normals_of_tiny_meshes():
    """Products of lengths of 1e-200 underflow: normals and principal curvatures were 0."""
    ball = ms.datasets.icosphere(2)
    tiny, unit = ms.Mesh(2.0**-700 * ball.vertices, ball.faces), 2.0**-700
    assert np.allclose(tiny.face_normals, ball.face_normals) and np.allclose(tiny.vertex_normals, ball.vertex_normals)
    c, expected = ms.operators.curvatures(tiny), ms.operators.curvatures(ball)
    assert np.allclose(c.principal * unit, expected.principal) and np.allclose(c.mean / unit, expected.mean)
    assert np.allclose(c.gaussian, expected.gaussian)
