"""Distortion of maps to the plane, compared with known linear maps and with singular values by LAPACK."""

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.apps.maps.distortion import distortion, stretches


def triangles(count, seed=0):
    """Separate triangles in space, and points of the plane for their corners."""
    rng = np.random.default_rng(seed)
    return ms.Mesh(rng.standard_normal((3 * count, 3)), np.arange(3 * count).reshape(-1, 3)), rng.standard_normal((3 * count, 2))


def test_stretches_are_singular_values_of_face_maps():
    mesh, uv = triangles(50)
    for face, found in zip(mesh.faces, stretches(mesh, uv)):
        edges, images = mesh.vertices[face[1:]] - mesh.vertices[face[0]], uv[face[1:]] - uv[face[0]]
        basis = np.linalg.qr(edges.T)[0]                                # of the plane of the face
        J = np.linalg.solve(edges @ basis, images)
        assert np.allclose(found, np.linalg.svd(J, compute_uv=False), atol=1e-10)


def test_a_similarity_does_not_distort_and_a_stretch_does():
    flat = ms.Mesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]])
    turned = 3 * flat.vertices[:, :2] @ [[0.6, 0.8], [-0.8, 0.6]]
    assert distortion(flat, turned) == pytest.approx(dict.fromkeys(
        ("angle_distortion", "area_distortion", "largest_angle_distortion", "largest_area_distortion"), 1))
    assert distortion(flat, flat.vertices[:, :2] * [2, 0.5])["angle_distortion"] == pytest.approx(4)
    apart = ms.Mesh(np.r_[flat.vertices, flat.vertices], np.r_[flat.faces, flat.faces + 4])
    found = distortion(apart, np.r_[flat.vertices, 3 * flat.vertices][:, :2])                  # areas 1 and 9 of a mean of 5
    assert found["largest_area_distortion"] == pytest.approx(5) and found["area_distortion"] == pytest.approx((5 + 9 / 5) / 2)


def test_faces_without_area_are_left_out():
    mesh, uv = triangles(3)
    x = mesh.vertices.copy()
    x[mesh.faces[1]] = x[mesh.faces[1, 0]]
    uv[mesh.faces[2]] = 0
    assert np.isnan(stretches(ms.Mesh(x, mesh.faces), uv)[1]).all()
    assert distortion(ms.Mesh(x, mesh.faces), uv) == distortion(ms.Mesh(x, mesh.faces[:1]), uv)
    assert distortion(ms.Mesh(x, mesh.faces[1:]), uv) == {}
