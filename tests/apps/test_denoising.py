"""Denoising: creases stay, noise goes; by definition and by invariance."""

import warnings

import numpy as np
import pytest
from test_maps import grid

import meshsolve as ms


def noisy_edge(level=0.08):
    """A roof with a crease, and the same with noise."""
    mesh = grid(31, 31)
    x = mesh.vertices * 30
    x[:, 2] = np.maximum(0, x[:, 0] - 15)
    return ms.Mesh(x, mesh.faces), ms.Mesh(x + level * np.random.default_rng(3).standard_normal(x.shape), mesh.faces)


def test_denoising_keeps_a_crease():
    true, noisy = noisy_edge()
    error = [np.degrees(np.arccos(np.clip((m.face_normals * true.face_normals).sum(axis=1), -1, 1))).mean()
             for m in (noisy, ms.apps.denoise(noisy)[0])]
    assert error[1] < 0.45 * error[0]


def test_the_guided_filter_stands_strong_noise():
    cube = ms.datasets.cube(8)
    noisy = cube.with_vertices(cube.vertices + 0.3 * cube.edge_lengths.mean() * np.random.default_rng(0).standard_normal(cube.vertices.shape))
    for sigma in (0.25, 0.35):
        (plain, _), (guided, report) = (ms.apps.denoise(noisy, method, sigma=sigma) for method in ("bilateral", "guided"))
        errors = [np.arccos(np.clip((m.face_normals * cube.face_normals).sum(axis=1), -1, 1)).mean() for m in (noisy, plain, guided)]
        assert errors[2] < 0.75 * errors[1] and errors[2] < 0.5 * errors[0] and abs(report.facts["volume_after"] / cube.volume - 1) < 0.05


def test_the_guidance_of_a_face_is_the_most_uniform_patch(monkeypatch):
    """By definition, also in small blocks; a face at a crease has a patch on its own side."""
    from meshsolve.apps import denoising

    cube = ms.datasets.cube(4)
    mesh = cube.with_vertices(cube.vertices + 0.04 * np.random.default_rng(0).standard_normal(cube.vertices.shape))
    guided, n = denoising._GuidedFilter(mesh, 0.35), mesh.face_normals
    near = [np.flatnonzero(np.isin(mesh.faces, face).any(axis=1)) for face in mesh.faces]
    sides = mesh.side_edges
    pairs = [np.flatnonzero((sides == e).any(axis=1)) for e in range(len(mesh.edges))]

    def inconsistency(f):
        inside = [p for p in pairs if len(p) == 2 and np.isin(p, near[f]).all()]
        change = [np.linalg.norm(n[a] - n[b]) for a, b in inside]
        return max(np.linalg.norm(n[i] - n[j]) for i in near[f] for j in near[f]) * max(change) / (sum(change) + denoising.FLAT)

    found = guided._most_uniform(n)
    for f in (0, 60, 150):
        assert found[f] in near[f] and np.isclose(inconsistency(found[f]), min(inconsistency(c) for c in near[f]), rtol=1e-12)
    monkeypatch.setattr(denoising, "PAIRS", 500)
    assert np.array_equal(guided._most_uniform(n), found)


@pytest.mark.parametrize("method", ["bilateral", "guided"])
def test_a_callback_gets_each_step_of_denoising(method):
    _, noisy = noisy_edge()
    seen = []
    out, _ = ms.apps.denoise(noisy, method, iterations=3, vertex_iterations=2, callback=lambda *step: seen.append(step))
    assert [step for step, _ in seen] == ([1, 2] if method == "bilateral" else [1, 2, 3]) and np.array_equal(seen[-1][1].vertices, out.vertices)


@pytest.mark.parametrize("method", ["bilateral", "guided"])
def test_denoising_leaves_planes_and_fixed_vertices_alone(method):
    flat = grid()
    out, report = ms.apps.denoise(flat, method)
    assert abs(out.vertices - flat.vertices).max() < 1e-12 and report.facts["largest_move"] < 1e-12
    one = ms.Mesh(np.eye(3), [[0, 1, 2]])
    assert np.allclose(ms.apps.denoise(one, method)[0].vertices, one.vertices)
    _, noisy = noisy_edge()
    out, _ = ms.apps.denoise(noisy, method, iterations=3, fixed=[7, 100], boundary="fixed")
    held = np.r_[[7, 100], noisy.boundary_vertices]
    assert np.array_equal(out.vertices[held], noisy.vertices[held]) and not np.array_equal(out.vertices, noisy.vertices)


def test_denoising_turns_with_the_mesh():
    _, noisy = noisy_edge()
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    for options in ({}, {"method": "guided", "iterations": 2}):
        plain, turned = (ms.apps.denoise(ms.Mesh(x, noisy.faces), **options)[0].vertices for x in (noisy.vertices, 7 * noisy.vertices @ turn))
        assert np.allclose(7 * plain @ turn, turned, atol=1e-9)


def test_what_denoising_refuses():
    flipped = grid(3, 3)
    faces = flipped.faces.copy()
    faces[0] = faces[0, ::-1]
    for mesh, options, message in ((ms.Mesh(flipped.vertices, faces), {}, "the mesh must be oriented: faces 0 and 4"), (flipped, {"sigma": 0}, "sigma"),
                                   (flipped, {"method": "median"}, "method"), (flipped, {"callback": 3}, "callback must be a function"), (ms.Mesh(flipped.vertices, faces[:0]), {}, "face")):
        with warnings.catch_warnings(), pytest.raises(ms.InvalidInputError, match=message):
            ms.apps.denoise(mesh, **options)
