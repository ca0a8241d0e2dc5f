"""Direction fields: energies of the sphere, indices that sum to power times the Euler characteristic, constant fields in a plane."""

import numpy as np
import pytest

import meshsolve as ms

SPHERE = ms.datasets.icosphere(3)


def torus(a=24, b=12):
    i, j = (k.ravel() for k in np.meshgrid(np.arange(a), np.arange(b), indexing="ij"))
    u, v = 2 * np.pi * i / a, 2 * np.pi * j / b
    x = np.stack([(2 + np.cos(v)) * np.cos(u), (2 + np.cos(v)) * np.sin(u), np.sin(v)], axis=1)
    k = [(i + p) % a * b + (j + q) % b for p, q in ((0, 0), (1, 0), (1, 1), (0, 1))]
    return ms.Mesh(x, np.vstack([np.stack([k[0], k[1], k[2]], axis=1), np.stack([k[0], k[2], k[3]], axis=1)]))


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
    assert ms.apps.direction_field(torus(), power).index.sum() == 0


def test_components_and_a_plane():
    """Each component has its own field; constant in a plane; nothing at a vertex without faces."""
    flat = [[0, 0, 5], [1, 0, 5], [1, 1, 5], [0, 1, 5], [9, 9, 9]]
    mesh = ms.Mesh(np.vstack([SPHERE.vertices, flat]), np.vstack([SPHERE.faces, np.array([[0, 1, 2], [0, 2, 3]]) + len(SPHERE.vertices)]))
    field, n = ms.apps.direction_field(mesh), len(SPHERE.vertices)
    assert field.energy == pytest.approx(1, rel=0.02) and field.index.sum() == 2 and (field.vectors[-1] == 0).all()
    assert np.allclose(field.vectors[n:-1], field.vectors[n]) and np.allclose(np.linalg.norm(field.vectors[:-1], axis=1), 1)


def test_the_same_bits_on_any_number_of_threads():
    one, two = (ms.apps.direction_field(torus(), 4, threads=t) for t in (1, 2))
    assert np.array_equal(one.powers, two.powers)


def test_a_mesh_without_faces():
    with pytest.raises(ms.InvalidInputError, match="no faces"):
        ms.apps.direction_field(ms.Mesh(np.eye(3), np.zeros((0, 3), int)))
