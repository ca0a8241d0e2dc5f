"""Tangent planes and connection Laplacians against spectra of the sphere, constant fields in a plane, and dense sums over edges."""

import numpy as np
import pytest

import meshsolve as ms
from meshsolve.operators.connection import Connection, TangentPlanes, real_form

SPHERE = ms.datasets.icosphere(3)


def disc(n=150, seed=0):
    """A Delaunay triangulation of random points in a disc, oriented counterclockwise."""
    from scipy.spatial import Delaunay

    rng = np.random.default_rng(seed)
    x = np.sqrt(rng.random(n))[:, None] * np.exp(2j * np.pi * rng.random(n))[:, None].view(float)
    faces = Delaunay(x).simplices
    a, b, c = x[faces].transpose(1, 0, 2)
    flipped = (b - a)[:, 0] * (c - a)[:, 1] < (b - a)[:, 1] * (c - a)[:, 0]
    faces[flipped] = faces[flipped][:, ::-1]
    return ms.Mesh(np.c_[x, np.zeros(n)], faces)


def rough():
    """A hilly disc with irregular triangles."""
    mesh = disc()
    x, y, _ = mesh.vertices.T
    return mesh.with_vertices(np.c_[x, y, 0.3 * np.sin(4 * x) * np.cos(5 * y)])


SPECTRA = [(1, [(1, 3), (5, 5)]), (2, [(2, 5), (8, 7)]), (4, [(4, 9), (14, 11)])]        # power, (eigenvalue, multiplicity)


@pytest.mark.parametrize("intrinsic", [False, True])
@pytest.mark.parametrize(("power", "eigenvalues"), SPECTRA)
def test_the_spectrum_of_the_sphere(power, eigenvalues, intrinsic):
    """l (l + 1) - power^2, each 2 l + 1 times."""
    sphere = ms.datasets.icosphere(2)
    L = ms.operators.connection_laplacian(sphere, power, intrinsic_delaunay=intrinsic).toarray()
    roots = np.sqrt(ms.mass_matrix(sphere).diagonal())
    right = np.concatenate([np.full(count, value) for value, count in eigenvalues])
    assert np.allclose(np.linalg.eigvalsh(L / np.outer(roots, roots))[:len(right)], right, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(("power", "first", "second"), [(1, 1.000, 4.994), (2, 1.9986, 7.981), (4, 3.991, 13.93)])
def test_reference_values_of_a_fine_sphere(power, first, second):
    """The pairs of the real form are double."""
    sphere = ms.datasets.icosphere(4)
    L, M = ms.operators.connection_laplacian(sphere, power), ms.mass_matrix(sphere)
    w, _, _ = ms.eigsh(real_form(L), 4 * power + 4, M=real_form(M.astype(complex)))
    assert np.allclose(w[:4 * power + 2], first, atol=1e-3) and np.allclose(w[-2:], second, atol=5e-3)


def test_constant_fields_in_a_plane_have_no_energy():
    mesh = disc()
    for of in (Connection.of_mesh, Connection.intrinsic):
        connection = of(mesh)
        x, y = connection.planes.frames[:, :, 0].T                         # components of the x axis
        assert abs(connection.laplacian(3) @ (x + 1j * y) ** 3).max() < 1e-9
        assert np.allclose(connection.planes.vectors(x + 1j * y), [1, 0, 0])


@pytest.mark.parametrize("mesh", [ms.datasets.icosphere(2), disc(), rough()], ids=["sphere", "disc", "hills"])
def test_flips_keep_directions_and_weights_positive(mesh):
    """Hermitian, semidefinite, with the diagonal of the scalar Laplacian; transport is a rotation."""
    connection = Connection.intrinsic(mesh)
    L = connection.laplacian()
    assert abs(L - L.conj().T).max() < 1e-12 * abs(L).max() and connection.weights.min() >= 0
    w = np.linalg.eigvalsh(L.toarray())
    assert w[0] > -1e-12 * w[-1] and np.isclose(connection.masses.sum(), mesh.face_areas.sum(), rtol=1e-6)


def test_the_real_form_is_the_same_map():
    L = ms.operators.connection_laplacian(rough(), 2)
    u = np.exp(1j * np.arange(L.shape[0]))
    assert np.allclose((real_form(L) @ u.view(float)).view(complex), L @ u)


def test_the_matrix_is_the_sum_over_edges():
    mesh = rough()
    connection, L = Connection.of_mesh(mesh), ms.operators.connection_laplacian(mesh, 2)
    u = np.exp(1j * np.arange(len(mesh.vertices)))
    a, b = connection.tails, connection.heads
    energy = (connection.weights * abs(u[b] - connection.turns**2 * u[a]) ** 2).sum()
    assert (u.conj() @ (L @ u)).real == pytest.approx(energy)
    assert np.allclose(L.diagonal().real, ms.cotan_laplacian(mesh).diagonal())


def test_frames_are_orthonormal_tangents():
    mesh = ms.Mesh(np.vstack([rough().vertices, [[9, 9, 9]]]), rough().faces)
    frames, normals = TangentPlanes(mesh).frames, mesh.vertex_normals
    used = np.bincount(mesh.faces.ravel(), minlength=len(mesh.vertices)) > 0
    assert np.allclose((frames @ frames.transpose(0, 2, 1))[used], np.eye(2)) and (frames[-1] == 0).all()
    assert np.allclose(np.cross(frames[used, 0], frames[used, 1]), normals[used])


def test_a_unit_of_length_does_not_matter():
    for scale in (1e-60, 1e60):
        small = ms.operators.connection_laplacian(SPHERE.with_vertices(scale * SPHERE.vertices))
        assert np.allclose(small.toarray(), ms.operators.connection_laplacian(SPHERE).toarray())


STRIP = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [2, 0, 1]]


@pytest.mark.parametrize(("faces", "message"), [
    ([[0, 1, 2], [2, 1, 3], [1, 2, 4]], r"edge \(1, 2\) has 3 faces"), ([[0, 1, 2], [1, 2, 3]], r"0 and 1 have opposite orientations at edge \(1, 2\)"),
    ([[0, 1, 2], [2, 3, 4]], "vertex 2 form several fans")])
def test_meshes_without_tangent_planes(faces, message):
    mesh = ms.Mesh(STRIP, faces)
    G = ms.apps.Geodesics(mesh)
    for call in (lambda: ms.operators.connection_laplacian(mesh), lambda: G.transport(0, [1, 0, 0]), lambda: G.log_map(0), lambda: G.frames,
                 lambda: G.signed_distance([0, 1]), lambda: ms.apps.direction_field(mesh)):
        with pytest.raises(ms.InvalidInputError, match=message):
            call()
    assert G.distance(0)[0] == 0                                            # distances do not need them


@pytest.mark.parametrize("power", [0, -1, 1.5, 101, True, "2"])
def test_bad_powers(power):
    for call in (ms.operators.connection_laplacian, ms.apps.direction_field):
        with pytest.raises(ms.InvalidInputError, match="power must be an integer from 1 to 100"):
            call(SPHERE, power)
