"""Direction fields: energies of the sphere, indices that sum to power times the Euler characteristic, constant fields in a plane."""

import numpy as np
import pytest
from cases import each
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


TETRAHEDRON = [[0, 1, 2], [0, 2, 3], [0, 3, 1], [1, 3, 2]]
SHARP = {"regular tetrahedron": ([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], TETRAHEDRON),
         "corner of a cube": ([[0, 0, 0], [0, 1, 0], [1, 0, 0], [0, 0, 1]], TETRAHEDRON),
         "flat tetrahedron": ([[0, 0, 1e-9], [0, 1, 0], [1, -1, 0], [-1, -1, 0]], TETRAHEDRON),
         "octahedron": ([[1, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]],
                        [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [1, 0, 5], [2, 1, 5], [3, 2, 5], [0, 3, 5]]),
         **{f"noise {seed}": (ms.datasets.icosphere(1).vertices * np.random.default_rng(seed).uniform(0.2, 1.8, (42, 1)),
                              ms.datasets.icosphere(1).faces) for seed in range(8)}}


@each("name, power", [(name, power) for name in SHARP for power in (1, 2, 3, 4, 7)])
def test_indices_sum_to_the_characteristic_where_faces_are_curved(name, power):
    """The curvature of a face may be pi and more; so may that of a vertex."""
    V, F = SHARP[name]
    mesh = ms.Mesh(V, F)
    fields = [ms.apps.direction_field(mesh, power), ms.apps.direction_field(mesh, power, fixed=([0], [[1.0, 2, 3]])),
              ms.apps.direction_field(mesh, power, align=np.random.default_rng(0).standard_normal(mesh.vertices.shape))]
    assert [int(field.index.sum()) for field in fields] == [2 * power] * 3


def test_alignment_does_not_depend_on_other_components():
    """Curvatures and areas of components of another size do not count."""
    tube = torus(16, 8)
    V = tube.vertices * [1, 1, 1.5] + np.random.default_rng(0).uniform(-0.02, 0.02, tube.vertices.shape)
    alone = ms.apps.direction_field(ms.Mesh(V, tube.faces), 4, align="curvature")
    for ratio in (1e-4, 1e4):
        both = ms.Mesh(np.vstack([V, V * ratio + 20 * (1 + ratio)]), np.vstack([tube.faces, tube.faces + len(V)]))
        powers = ms.apps.direction_field(both, 4, align="curvature").powers
        assert np.allclose(powers[:len(V)], alone.powers, atol=1e-6) and np.allclose(powers[len(V):], alone.powers, atol=1e-6)


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


def on_torus(vectors, mesh):
    """(n,) absolute values of the cosines of the angles with the small circle."""
    x = mesh.vertices * [1, 1, 0]
    outward = x / np.linalg.norm(x, axis=1, keepdims=True)
    along = np.cross(np.cross(outward, [0, 0, 1]), mesh.vertices - 2 * outward)
    return abs((vectors * along).sum(axis=1)) / np.linalg.norm(along, axis=1)


@pytest.mark.parametrize(("power", "strength"), [(2, 10), (4, 10), (2, 1e4)])
def test_curvature_aligned_fields(power, strength):
    mesh = torus(30, 15)
    field = ms.apps.direction_field(mesh, power, align="curvature", strength=strength)
    cosine = on_torus(field.vectors, mesh)
    assert np.allclose(np.maximum(cosine, np.sqrt(1 - np.minimum(cosine, 1) ** 2)) if power == 4 else cosine, 1, atol=1e-2)
    assert not field.index.any() and field.energy > 0


@pytest.mark.parametrize("power", [2, 4])
def test_the_umbilics_of_an_ellipsoid(power):
    """Its four umbilics are singularities of index 1 / 2."""
    a, b, c = 1, 1.5, 2.5
    body = SPHERE.with_vertices(SPHERE.vertices * [a, b, c])
    field = ms.apps.direction_field(body, power, align="curvature", strength=100)
    at = abs(body.vertices[body.faces[field.index != 0]].mean(axis=1))
    umbilic = a * np.sqrt((b**2 - a**2) / (c**2 - a**2)), 0, c * np.sqrt((c**2 - b**2) / (c**2 - a**2))
    assert field.index.sum() == len(at) == 2 * power and abs(at - umbilic).max() < 0.2


def test_preferred_vectors_are_smoothed_by_strength():
    """In a plane: a vector at one vertex fills it; a strong preference is followed, a weak one averaged. Fixed vectors stay."""
    mesh = disc()
    n = len(mesh.vertices)
    one = np.zeros((n, 3))
    one[5] = [0, 2, 7]
    assert np.allclose(ms.apps.direction_field(mesh, align=one).vectors, [0, 1, 0])
    left = mesh.vertices[:, :1] < 0
    halves = np.where(left, [1.0, 0, 0], [0, 1.0, 0])
    strong, weak = (ms.apps.direction_field(mesh, align=halves, strength=s).vectors for s in (1e6, 1e-6))
    assert (abs(strong - halves).max(axis=1) < 1e-3).mean() > 0.9 and abs(weak - weak.mean(axis=0)).max() < 1e-3
    held = ms.apps.direction_field(mesh, align=halves, fixed=([5], [[-1, 0, 0]]))
    assert np.allclose(held.vectors[5], [-1, 0, 0]) and np.array_equal(halves, np.where(left, [1.0, 0, 0], [0, 1.0, 0]))


def test_alignment_does_not_depend_on_units_and_minimizes_its_energy():
    mesh = torus(16, 8)
    wanted = np.random.default_rng(0).standard_normal((len(mesh.vertices), 3))
    field, large = (ms.apps.direction_field(m, 3, align=wanted) for m in (mesh, mesh.with_vertices(1e4 * mesh.vertices)))
    assert np.allclose(field.powers, large.powers) and np.isclose(field.energy, large.energy)
    L, M = ms.operators.connection_laplacian(mesh, 3, intrinsic_delaunay=True), ms.mass_matrix(mesh).diagonal()
    assert field.energy > (field.powers.conj() @ (L @ field.powers)).real > 0 and M.sum() > 0


@pytest.mark.parametrize(("options", "message"), [
    ({"align": "curvature"}, "needs an even power"), ({"align": "boundary"}, "align must be"), ({"align": np.ones((4, 3))}, r"or \(642, 3\) finite"),
    ({"align": np.full((642, 3), np.nan)}, "finite numbers"), ({"align": np.zeros((642, 3))}, "align must have a vector along the surface"),
    ({"align": np.ones((642, 3)), "strength": 0}, "strength must be"), ({"align": SPHERE.vertices * 0}, "the component of vertex 0 has none")])
def test_bad_preferences(options, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.apps.direction_field(SPHERE, **options)


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
