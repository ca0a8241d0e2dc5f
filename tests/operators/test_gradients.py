"""Gradient and divergence: linear functions, the identity with the Laplacian, a brute-force reference, libigl, degenerate triangles."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as random_arrays

import meshsolve as ms
from meshsolve import datasets
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import Mesh, load_mesh
from meshsolve.mesh.elements import FLATTEST
from meshsolve.operators import cotan_laplacian, divergence, gradient, mass_matrix
from meshsolve.operators import gradients as parts

RNG = np.random.default_rng(3)


def bumpy(level=2, size=0.1):
    sphere = datasets.icosphere(level)
    return sphere.with_vertices(sphere.vertices + size * np.random.default_rng(0).standard_normal(sphere.vertices.shape))


def on_faces(G, u):
    """Vectors (m, 3) of the faces."""
    return (G @ u).reshape(3, -1).T


def gradient_by_hand(mesh):
    """Reference: for each face the vector in its plane with the given differences along two sides."""
    m, n = len(mesh.faces), len(mesh.vertices)
    G = np.zeros((3 * m, n))
    for f, (a, b, c) in enumerate(mesh.faces):
        p, q = mesh.vertices[b] - mesh.vertices[a], mesh.vertices[c] - mesh.vertices[a]
        inverse = np.linalg.pinv(np.stack([p, q]))
        for axis in range(3):
            row = G[axis * m + f]
            row[b], row[c] = inverse[axis]
            row[a] = -inverse[axis].sum()
    return G


def check(mesh, tolerance=1e-13):
    """Check shape, row sums of 0, and the identity with the Laplacian. Returns both matrices."""
    n, m = len(mesh.vertices), len(mesh.faces)
    G, D, L = gradient(mesh), divergence(mesh), cotan_laplacian(mesh)
    assert isinstance(G, sp.csr_array) and isinstance(D, sp.csr_array) and G.shape == (3 * m, n) and D.shape == (n, 3 * m)
    assert G.has_canonical_format and D.has_canonical_format and G.nnz == D.nnz == 9 * m
    assert np.isfinite(G.data).all() and np.isfinite(D.data).all()
    scale = abs(L).max() if m else 0
    assert np.abs(G @ np.ones(n)).max(initial=0) <= tolerance * np.abs(G.data).max(initial=0)
    assert abs(D @ G + L).max() <= tolerance * scale
    return G, D


def test_layout_is_x_of_all_faces_then_y_then_z():
    mesh = Mesh([[0, 0, 0], [2, 0, 0], [0, 4, 0], [0, 0, 5]], [[0, 1, 2], [0, 3, 1]])
    G, D = check(mesh)
    assert on_faces(G, [0.0, 2, 4, 5]) == pytest.approx(np.array([[1, 1, 0], [1, 0, 1]]))
    assert G.toarray() == pytest.approx(gradient_by_hand(mesh))
    assert D.toarray() == pytest.approx(-gradient_by_hand(mesh).T * np.tile([4, 5], 3))          # times the areas


@settings(max_examples=60, deadline=None)
@given(random_arrays(float, (12, 3), elements=st.floats(-1, 1)))
def test_against_the_definition(noise):
    sphere = datasets.icosphere(0)
    mesh = sphere.with_vertices(sphere.vertices + 0.3 * noise)
    assume(mesh.face_areas.min() > 1e-3)
    G, D = check(mesh)
    byhand = gradient_by_hand(mesh)
    assert np.abs(G.toarray() - byhand).max() <= 1e-9 * np.abs(byhand).max()
    assert np.abs(D + (G * np.tile(mesh.face_areas, 3)[:, None]).T).max() <= 1e-13 * abs(D).max()


def test_linear_functions_have_their_tangential_part():
    mesh, slope = bumpy(), np.array([0.3, -2.0, 1.1])
    a, b, c = mesh.vertices[mesh.faces].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    assert np.abs(on_faces(gradient(mesh), mesh.vertices @ slope + 7) - (slope - (normal @ slope)[:, None] * normal)).max() < 1e-12


def test_divergence_of_the_position_in_the_plane_is_two():
    k = 12
    i = np.arange(k * k).reshape(k, k)
    a, b, c, d = i[:-1, :-1].ravel(), i[:-1, 1:].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel()
    x = np.column_stack([*np.indices((k, k)).reshape(2, -1), np.zeros(k * k)]) + 0.2 * RNG.uniform(-1, 1, (k * k, 3)) * [1, 1, 0]
    mesh = Mesh(x, np.concatenate([np.stack([a, c, d], 1), np.stack([a, d, b], 1)]))
    D = divergence(mesh)
    inner = np.setdiff1d(np.arange(k * k), mesh.boundary_vertices)
    field = mesh.vertices[mesh.faces].mean(axis=1)
    assert (D @ field.T.ravel())[inner] == pytest.approx(2 * mass_matrix(mesh).diagonal()[inner])
    constant = np.repeat([1.0, 2, 0], len(mesh.faces))
    assert np.abs(D @ constant)[inner].max() < 1e-13 and abs((D @ constant).sum()) < 1e-12


def test_poisson_inverts_the_gradient():
    mesh = bumpy(3)
    u = RNG.standard_normal(len(mesh.vertices))
    u -= u.mean()
    x = ms.cholesky(cotan_laplacian(mesh), pin=True).solve(-divergence(mesh) @ (gradient(mesh) @ u))
    assert np.abs(x - u).max() < 1e-11


def test_a_turned_face_has_the_same_gradient():
    mesh = bumpy()
    flip = RNG.random(len(mesh.faces)) < 0.5
    mixed = Mesh(mesh.vertices, np.where(flip[:, None], np.roll(mesh.faces, 1, axis=1)[:, ::-1], mesh.faces))
    assert abs(gradient(mixed) - gradient(mesh)).max() <= 1e-12 * abs(gradient(mesh)).max()


@pytest.mark.parametrize("scale", [1e-60, 1e-3, 1e60])
def test_scale_and_rigid_motion(scale):
    mesh = bumpy()
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    moved = mesh.with_vertices(scale * mesh.vertices @ turn.T)
    G, _ = check(moved)
    u = RNG.standard_normal(len(mesh.vertices))
    assert scale * on_faces(G, u) == pytest.approx(on_faces(gradient(mesh), u) @ turn.T, rel=1e-9, abs=1e-9)


# ---- construction


@pytest.mark.parametrize("integrated", [False, True])
def test_normals_and_frames_agree_in_every_block(integrated):
    """Thin triangles in several batches, the last one partial: they use frames, and all triangles could."""
    mesh = bumpy(5, 0.002)
    x = mesh.vertices * [1, 1, 1e-3]
    x[mesh.faces[::7, 0]] = x[mesh.faces[::7, 1]] + 1e-7
    mesh = mesh.with_vertices(x)
    area, corners = mesh.face_areas, parts.corners_of(mesh.faces)
    assert len(mesh.faces) > 2 * parts.BLOCK and len(mesh.faces) % parts.BLOCK
    assert np.array_equal(corners.T, np.sort(mesh.faces, axis=1))
    made = parts.of_hats(mesh.vertices, mesh.faces, area, FLATTEST, integrated)
    framed = parts._rotated_in_frames(mesh.vertices, corners, area, FLATTEST, integrated)
    size = np.sqrt((framed ** 2).sum(axis=0)).max(axis=1)
    error = np.sqrt(((made - framed) ** 2).sum(axis=0)).max(axis=1)
    same = np.flatnonzero((made == framed).all(axis=(0, 2)))
    assert (error <= 1e-15 / parts.THIN * size).all() and 1000 < len(same) < len(area) / 2


def test_matrices_have_short_indices_and_own_memory():
    mesh = bumpy()
    G, D = gradient(mesh), divergence(mesh)
    for A in (G, D):
        assert A.indices.dtype == A.indptr.dtype == np.int32 and A.has_sorted_indices
        assert not any(np.shares_memory(held, own) for held in (A.data, A.indices) for own in (mesh.vertices, mesh.faces))
    before = G.toarray()
    D.data[:] = 0
    assert np.array_equal(G.toarray(), before) and np.array_equal(gradient(mesh).toarray(), before)


def test_only_thin_triangles_are_rotated_in_frames(monkeypatch):
    """Frames take nine times as long as normals."""
    framed, rotate = [], parts._rotated_in_frames
    monkeypatch.setattr(parts, "_rotated_in_frames", lambda x, corners, *rest: (framed.append(corners.shape[1]), rotate(x, corners, *rest))[1])
    mesh = bumpy(4, 0.002)
    gradient(mesh)
    assert framed == []
    x = mesh.vertices.copy()
    x[mesh.faces[:9, 0]] = x[mesh.faces[:9, 1]] + 1e-7
    gradient(mesh.with_vertices(x))
    assert len(framed) == 1 and 9 <= framed[0] < 100


# ---- bad triangles


BAD = {
    "a line": ([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 3], [1, 2, 3]]),
    "a slanted line": ([[0, 0, 0], [0.1, 0.2, 0.3], [0.3, 0.6, 0.9], [0, 1, 0]], [[0, 1, 2], [0, 1, 3], [1, 2, 3]]),
    "a point": ([[1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 1, 0]], [[0, 1, 2], [0, 1, 3]]),
    "two equal": ([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]),
    "needle": ([[0, 0, 0], [1, 0, 0], [1, 1e-13, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]),
    "cap": ([[0, 0, 0], [1, 0, 0], [0.5, 1e-15, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]),
    "duplicate faces": ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 2], [1, 0, 2]]),
    "three faces at an edge": ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.5, 0, 0]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]]),
    "unreferenced": ([[9, 9, 9], [0, 0, 0], [1, 0, 0], [0, 1, 0]], [[1, 2, 3]]),
    "no faces": ([[0, 0, 0]], []),
}


@pytest.mark.parametrize("case", BAD)
def test_degenerate_triangles_have_the_laplacian_energy(case):
    check(Mesh(*BAD[case]))


def test_gradients_on_lines_are_zero():
    mesh = Mesh(*BAD["a slanted line"])
    assert np.abs(on_faces(gradient(mesh), mesh.vertices @ [1.0, 2, 3])[0]).max() < 1e-6      # rounding / 1e-8


@settings(max_examples=100, deadline=None)
@given(st.floats(-18, 0), st.floats(-1, 2), random_arrays(float, (3, 3), elements=st.floats(-1, 1)))
def test_slivers_of_any_height(exponent, foot, axes):
    turn = np.linalg.qr(axes + 3 * np.eye(3))[0]
    mesh = Mesh([[0, 0, 0], [1, 0, 0], [foot, 10 ** exponent, 0]] @ turn.T, [[0, 1, 2]])
    check(mesh)
    hats, integrated = (parts.of_hats(mesh.vertices, mesh.faces, mesh.face_areas, FLATTEST, over)[:, 0] for over in (False, True))
    L = cotan_laplacian(mesh).toarray()
    assert np.abs(integrated.T @ hats + L).max() <= 1e-13 * np.abs(L).max()


@settings(max_examples=150, deadline=None)
@given(random_arrays(float, (6, 3), elements=st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-200, 1e-9, 1e9, 1e70, -1e70]) | st.floats(-1, 1)),
       random_arrays(np.int32, st.tuples(st.integers(0, 9), st.just(3)), elements=st.integers(0, 5)))
def test_any_triangles(x, t):
    good = (t[:, 0] != t[:, 1]) & (t[:, 1] != t[:, 2]) & (t[:, 2] != t[:, 0])
    check(Mesh(x, t[good]), 1e-12)


@each("scale", [1e-100, 1e-150, 1e-160, 1e-290])
def test_gradients_do_not_depend_on_tiny_units(scale):
    mesh = bumpy(1)
    small = mesh.with_vertices(scale * mesh.vertices)
    assert abs(scale * gradient(small) - gradient(mesh)).max() <= 1e-12 * abs(gradient(mesh)).max()
    assert abs(divergence(small) / scale - divergence(mesh)).max() <= 1e-12 * abs(divergence(mesh)).max()


# ---- libigl, real meshes, input


def test_agrees_with_libigl(data_dir):
    igl = pytest.importorskip("igl")
    for mesh in (bumpy(), load_mesh(data_dir / "meshes" / "spot.obj.gz"), load_mesh(data_dir / "meshes" / "igl_3holes.off")):
        G, _ = check(mesh)
        assert abs(G - igl.grad(mesh.vertices, mesh.faces.astype(np.int64))).max() <= 1e-9 * abs(G).max()


def test_meshes_of_other_libraries_are_not_changed():
    mesh = bumpy()
    before = mesh.vertices.copy()
    assert abs(gradient(mesh.to_trimesh()) - gradient(mesh)).max() == 0 and abs(divergence(mesh.to_trimesh()) - divergence(mesh)).max() == 0
    assert np.array_equal(mesh.vertices, before)


@pytest.mark.parametrize("function", [gradient, divergence])
def test_refuses(function):
    spoiled = bumpy()
    spoiled.vertices[5, 2] = np.nan
    for wrong, words in ((spoiled, "vertex 5 is at"), (np.eye(3), "must be a meshsolve.Mesh"), ("scan.ply", "read files with load_mesh")):
        with pytest.raises(InvalidInputError, match=words):
            function(wrong)
