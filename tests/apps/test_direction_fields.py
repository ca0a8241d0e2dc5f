"""Direction fields: energies of the sphere, indices that sum to power times the Euler characteristic, constant fields in a plane."""

import numpy as np
import pytest
from mesh.small_meshes import torus

import meshsolve as ms

SPHERE = ms.datasets.icosphere(3)


@pytest.mark.parametrize("power", [1, 2, 4])
def test_the_sphere(power):
    """The smallest eigenvalue is the power, and there are 2 power singularities of index 1 / power."""
    field = ms.apps.direction_field(SPHERE, power)
    assert field.energy == pytest.approx(power, rel=0.02) and field.index.sum() == 2 * power and (field.index != 0).sum() == 2 * power
    assert np.allclose(np.linalg.norm(field.vectors, axis=1), 1) and abs((field.vectors * SPHERE.vertex_normals).sum(axis=1)).max() < 1e-12
    M = ms.mass_matrix(SPHERE).diagonal()
    assert (M * abs(field.powers) ** 2).sum() == pytest.approx(1)
    z = np.einsum("nc,nkc->kn", field.vectors, field.frames)
    assert np.allclose((z[0] + 1j * z[1]) ** power * abs(field.powers), field.powers)


@pytest.mark.parametrize("power", [1, 2, 4])
def test_indices_of_a_torus_sum_to_zero(power):
    assert ms.apps.direction_field(torus(24, 12), power).index.sum() == 0


def test_components_and_a_plane():
    """Each component has its own field; constant in a plane; nothing at a vertex without faces."""
    flat = [[0, 0, 5], [1, 0, 5], [1, 1, 5], [0, 1, 5], [9, 9, 9]]
    mesh = ms.Mesh(np.vstack([SPHERE.vertices, flat]), np.vstack([SPHERE.faces, np.array([[0, 1, 2], [0, 2, 3]]) + len(SPHERE.vertices)]))
    field, n = ms.apps.direction_field(mesh), len(SPHERE.vertices)
    assert field.energy == pytest.approx(1, rel=0.02) and field.index.sum() == 2 and (field.vectors[-1] == 0).all()
    assert np.allclose(field.vectors[n:-1], field.vectors[n]) and np.allclose(np.linalg.norm(field.vectors[:-1], axis=1), 1)


def disc():
    """A hexagon in a plane, cut into small triangles, and the tangents of its boundary."""
    sphere = ms.datasets.icosphere(3)
    faces = sphere.faces[(sphere.vertices[sphere.faces, 2] > 0.1).all(axis=1)]
    used, faces = np.unique(faces, return_inverse=True)
    return ms.Mesh(sphere.vertices[used] * [1, 1, 0], faces.reshape(-1, 3))


def test_one_prescribed_vector_in_a_plane():
    """Its normal part and its length have no effect; the field is constant."""
    field = ms.apps.direction_field(disc(), fixed=([5], [[3, 4, 9]]))
    assert np.allclose(field.vectors, [0.6, 0.8, 0]) and abs(field.energy) < 1e-9 and not field.index.any()


@pytest.mark.parametrize("power", [1, 4])
def test_a_field_that_follows_the_boundary(power):
    """One turn in a disc: a singularity of index 1 in all. Prescribed directions stay."""
    mesh = disc()
    tangents = mesh.vertices[np.roll(loop := mesh.boundary_loops()[0], -1)] - mesh.vertices[np.roll(loop, 1)]
    field = ms.apps.direction_field(mesh, power, fixed=(loop, tangents))
    turned = np.einsum("nc,nkc->kn", field.vectors[loop], field.frames[loop]), np.einsum("nc,nkc->kn", tangents, field.frames[loop])
    z, w = (a[0] + 1j * a[1] for a in turned)
    assert np.allclose((z**power), (w / abs(w)) ** power) and field.index.sum() == power


@pytest.mark.parametrize(("fixed", "message"), [
    ([0], "must be a tuple"), (([10**6], [[1, 0, 0]]), "outside 0"), (([0, 0], np.eye(3)[:2]), "more than once"), (([0], [1, 0, 0]), r"\(1, 3\)"),
    (([0, 1], [[1, 0, 0], [np.nan, 0, 0]]), "vector 1 of fixed must be finite"), (([0], [[0, 0, 0]]), "vector 0 of fixed"),
    (([], np.zeros((0, 3))), "the component of vertex 0 has none")])
def test_bad_prescribed_directions(fixed, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.apps.direction_field(SPHERE, fixed=fixed)


def test_the_same_bits_on_any_number_of_threads():
    one, two = (ms.apps.direction_field(torus(24, 12), 4, threads=t) for t in (1, 2))
    assert np.array_equal(one.powers, two.powers)


def test_a_mesh_without_faces():
    with pytest.raises(ms.InvalidInputError, match="no faces"):
        ms.apps.direction_field(ms.Mesh(np.eye(3), np.zeros((0, 3), int)))
