"""Maps to the plane, deformations and skinning weights: flat patches, rigid motions and developable surfaces come back exactly."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from mesh.small_meshes import torus

import meshsolve as ms
import meshsolve.apps.maps as maps_package
from meshsolve.mesh.measures import corner_angles
from meshsolve.operators.rigid import VertexRotations

METHODS = ("lscm", "conformal", "arap")
ALL = ("harmonic", *METHODS, "slim")


def grid(nx=14, ny=9, shape=None):
    """A grid of nx x ny vertices, lifted by ``shape`` (x, y) -> (n, 3)."""
    x, y = np.meshgrid(np.arange(nx) / (nx - 1), np.arange(ny) / (nx - 1), indexing="ij")
    k = np.arange(nx * ny).reshape(nx, ny)
    a, b, c, d = (part.ravel() for part in (k[:-1, :-1], k[1:, :-1], k[1:, 1:], k[:-1, 1:]))
    faces = np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    x, y = x.ravel(), y.ravel()
    return ms.Mesh(np.stack([x, y, 0 * x], 1) if shape is None else shape(x, y), faces)


def cylinder(x, y):
    return np.stack([np.cos(2 * x), y, np.sin(2 * x)], 1) / 2


def hill(x, y):
    return np.stack([x, y, 0.4 * np.exp(-20 * ((x - 0.5) ** 2 + (y - 0.3) ** 2))], 1)


def side_lengths(x, faces):
    return np.stack([np.linalg.norm(x[faces[:, (c + 1) % 3]] - x[faces[:, c]], axis=1) for c in range(3)], 1)


def areas(uv, faces):
    u, v = uv[faces[:, 1]] - uv[faces[:, 0]], uv[faces[:, 2]] - uv[faces[:, 0]]
    return (u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]) / 2


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
@pytest.mark.parametrize("method", METHODS)
def test_a_flat_patch_keeps_its_shape(method, unit):
    """The map is a similarity, and the area is that of the surface: an isometry."""
    mesh = grid()
    mesh = ms.Mesh(mesh.vertices * unit @ np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0], mesh.faces)
    uv, report = ms.apps.parameterize(mesh, method=method)
    assert np.allclose(side_lengths(uv, mesh.faces), side_lengths(mesh.vertices, mesh.faces), rtol=1e-6, atol=0)
    assert (areas(uv, mesh.faces) > 0).all() and report.facts["flipped"] == 0 and report.facts["energy"] < 1e-12 * unit**2


@pytest.mark.parametrize("method", METHODS)
def test_a_developable_surface_unrolls(method):
    """A mesh of a cylinder is developable itself where its quads are flat."""
    mesh = grid(shape=cylinder)
    uv, _ = ms.apps.parameterize(mesh, method=method)
    assert np.allclose(side_lengths(uv, mesh.faces), side_lengths(mesh.vertices, mesh.faces), rtol=1e-6)


@pytest.mark.parametrize("method", ALL)
def test_a_hill_is_mapped_without_flips(method):
    mesh = grid(30, 20, hill)
    uv, report = ms.apps.parameterize(mesh, method=method)
    assert np.isfinite(uv).all() and report.facts["flipped"] == 0
    stretch = np.log(side_lengths(uv, mesh.faces) / side_lengths(mesh.vertices, mesh.faces))
    if method == "harmonic":
        assert np.allclose(np.linalg.norm(uv[mesh.boundary_vertices], axis=1), 1)
    elif method == "arap":
        conformal = np.log(side_lengths(ms.apps.parameterize(mesh)[0], mesh.faces) / side_lengths(mesh.vertices, mesh.faces))
        assert (stretch**2).mean() < 0.8 * (conformal**2).mean() and report.facts["iterations"] > 1
    elif method == "slim":
        assert report.energy < 4.2 * mesh.face_areas.sum() and (areas(uv, mesh.faces) > 0).all()
    else:
        assert report.facts["energy"] < 0.02 * mesh.face_areas.sum()


def test_conformal_distorts_no_more_than_lscm():
    """Energy of maps with the same boundary moment: that of the eigenproblem is least."""
    mesh = grid(30, 20, hill)
    energy = {}
    for method in ("lscm", "conformal"):
        uv, report = ms.apps.parameterize(mesh, method=method)
        rim = uv[mesh.boundary_vertices]
        energy[method] = report.facts["energy"] / ((rim - rim.mean(axis=0)) ** 2).sum()
    assert energy["conformal"] <= energy["lscm"] * (1 + 1e-9)


def test_uniform_weights_do_not_flip():
    """Needles make cotangent weights negative; the map with uniform weights is injective whatever they are."""
    mesh = grid(12, 10)
    x = mesh.vertices * [1, 60, 1]
    x[:, 0] += 0.6 * x[:, 1]
    mesh = ms.Mesh(x, mesh.faces)
    assert ms.apps.parameterize(mesh, method="harmonic", weights="uniform")[1].facts["flipped"] == 0


def holed(shape=hill):
    """A grid without the faces around one point."""
    mesh = grid(16, 12, shape)
    middle = mesh.vertices[mesh.faces].mean(axis=1)[:, :2]
    return ms.Mesh(mesh.vertices, mesh.faces[np.linalg.norm(middle - [0.5, 0.35], axis=1) > 0.1])


def two_components():
    mesh = grid(3, 3)
    return ms.Mesh(np.vstack([mesh.vertices, mesh.vertices + 5]), np.vstack([mesh.faces, mesh.faces + 9]))


@pytest.mark.parametrize(("mesh", "message"), [
    (ms.datasets.icosphere(1), "a boundary.*cut=True"), (two_components(), "one component"), (ms.Mesh(np.eye(3), np.zeros((0, 3), int)), "a face"),
    (ms.Mesh(np.eye(5, 3), [[0, 1, 2], [0, 1, 3], [1, 0, 4]]), "manifold"), (ms.Mesh(np.eye(4, 3), [[0, 1, 2], [0, 1, 3]]), "must be oriented")],
    ids=["sphere", "two", "empty", "three faces at an edge", "orientation"])
def test_what_is_no_disc(mesh, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.apps.parameterize(mesh)


def test_a_handle_needs_a_cut():
    mesh = torus(10, 8)
    holed = ms.Mesh(mesh.vertices, mesh.faces[1:])
    with pytest.raises(ms.InvalidInputError, match="no handles.*cut=True"):
        ms.apps.parameterize(holed)
    uv, report = ms.apps.parameterize(holed, method="slim", cut=True)
    assert len(report.flipped) == 0 and np.array_equal(report.vertex_of[report.mesh.faces], holed.faces)


@pytest.mark.parametrize("options", [{"method": "mvc"}, {"weights": "x"}, {"iterations": 0}, {"tol": -1}, {"cut": "yes"}, {"device": "gpu"}], ids=str)
def test_bad_options(options):
    with pytest.raises(ms.InvalidInputError, match=next(iter(options))):
        ms.apps.parameterize(grid(), **options)


def test_slim_refuses_a_face_without_area():
    mesh = ms.Mesh([[0, 0, 0], [1, 0, 0], [2, 0, 0], [1, 1, 0]], [[0, 1, 3], [1, 2, 3], [0, 2, 1]])
    with pytest.raises(ms.InvalidInputError, match="face 2 has none"):
        ms.apps.parameterize(mesh, method="slim")


@pytest.mark.parametrize("method", ALL)
def test_a_sphere_is_cut(method):
    sphere = ms.datasets.icosphere(2)
    uv, report = ms.apps.parameterize(sphere, method=method, cut=True)
    assert len(uv) == len(report.vertex_of) > 162 and np.array_equal(report.vertex_of[report.mesh.faces], sphere.faces)
    assert (areas(uv, report.mesh.faces) > 0).all() and len(report.flipped) == 0 and report.area_sign == 1
    assert method == "harmonic" or np.isfinite(report.energy)


def test_a_cut_of_a_disc_changes_nothing():
    mesh = grid(shape=hill)
    one, other = (ms.apps.parameterize(mesh, cut=cut) for cut in (False, True))
    assert np.array_equal(one[0], other[0]) and np.array_equal(other[1].vertex_of, np.arange(len(mesh.vertices)))


@pytest.mark.parametrize("method", ALL)
def test_holes_have_a_free_boundary(method):
    flat, mesh = holed(lambda x, y: np.stack([x, y, 0 * x], 1)), holed()
    with pytest.warns(ms.MeshsolveWarning, match="without faces, NaN"):
        uv, report = ms.apps.parameterize(flat, method=method, iterations=300, tol=1e-12)
    used = np.unique(flat.faces)
    assert np.isfinite(uv[used]).all() and np.isnan(np.delete(uv, used, axis=0)).all() and len(report.flipped) == 0
    if method != "harmonic":                                 # conformal only if all loops count
        assert np.allclose(side_lengths(uv, flat.faces), side_lengths(flat.vertices, flat.faces), rtol=1e-5)
    with pytest.warns(ms.MeshsolveWarning, match="without faces, NaN"):
        uv, report = ms.apps.parameterize(mesh, method=method)
    assert (areas(uv, mesh.faces) > 0).all()


def test_a_harmonic_map_that_flips_is_repeated_with_uniform_weights():
    mesh = grid(12, 10)
    mesh = ms.Mesh(mesh.vertices + [0, 0, 1] * np.random.default_rng(0).standard_normal(mesh.vertices.shape), mesh.faces)
    with pytest.warns(ms.MeshsolveWarning, match="again with uniform weights"):
        uv, report = ms.apps.parameterize(mesh, method="harmonic")
    assert report.facts["weights"] == "uniform" and len(report.flipped) == 0
    assert np.array_equal(uv, ms.apps.parameterize(mesh, method="harmonic", weights="uniform")[0])


def test_prescribed_images():
    """A flat patch whose corners are prescribed where a similarity takes them: the map is that similarity."""
    mesh, corners = grid(), [8, 0, 125]
    to = lambda x: 3 * x[:, :2] @ np.array([[0.6, 0.8], [-0.8, 0.6]]) + [5, 7]
    for method in ("lscm", "arap"):
        uv, report = ms.apps.parameterize(ms.Mesh(mesh.vertices * (3 if method == "arap" else 1), mesh.faces), method=method, fixed=corners,
                                          fixed_uv=to(mesh.vertices[corners]))
        assert abs(uv - to(mesh.vertices)).max() < 1e-9 and len(report.flipped) == 0
    rim = mesh.boundary_vertices[::-1]
    for weights in ("cotan", "uniform"):
        uv, _ = ms.apps.parameterize(mesh, method="harmonic", weights=weights, fixed=rim, fixed_uv=to(mesh.vertices[rim]))
        assert abs(uv - to(mesh.vertices)).max() < (1e-9 if weights == "cotan" else 0.2)
    sphere = ms.datasets.icosphere(1)
    uv, report = ms.apps.parameterize(sphere, cut=True, fixed=[0, 3], fixed_uv=[[0, 0], [2, 1]])
    assert uv[0].tolist() == [0, 0] and uv[3].tolist() == [2, 1] and len(uv) > 42


@pytest.mark.parametrize("fixed", [None, [3, 40]], ids=["far apart", "inside"])
def test_a_long_boundary_has_the_same_lscm_map(fixed, monkeypatch):
    """u and v solved for together, and L condensed to the boundary of a hill and to the fixed vertices."""
    mesh = grid(shape=hill)
    options = {} if fixed is None else {"fixed": fixed, "fixed_uv": [[0, 0], [2, 1]]}
    maps = []
    for most in (maps_package.LONG_BOUNDARY, 0):
        monkeypatch.setattr(maps_package, "LONG_BOUNDARY", most)
        maps.append(ms.apps.parameterize(mesh, "lscm", **options))
    assert abs(maps[0][0] - maps[1][0]).max() < 1e-9 and abs(maps[0][1].energy - maps[1][1].energy) < 1e-12


@pytest.mark.parametrize(("options", "message"), [
    ({"fixed": [0, 1]}, "together"), ({"fixed_uv": [[0, 0], [1, 1]]}, "together"), ({"fixed": [0], "fixed_uv": [[0, 0]]}, "two different"),
    ({"fixed": [0, 1], "fixed_uv": [[1, 0], [1, 0]]}, "two different"), ({"fixed": [0, 1], "fixed_uv": [[1, 0]]}, "2 finite rows"),
    ({"fixed": [0, 1], "fixed_uv": [[1, 0], [np.nan, 0]]}, "2 finite rows"), ({"fixed": [0, 0], "fixed_uv": [[1, 0], [0, 0]]}, "more than once"),
    ({"fixed": [0, 999], "fixed_uv": [[1, 0], [0, 0]]}, "outside"), ({"method": "slim", "fixed": [0, 1], "fixed_uv": [[1, 0], [0, 0]]}, "fixed goes with")])
def test_bad_images(options, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.apps.parameterize(grid(), **options)
    mesh = grid()
    if message == "outside":
        with pytest.warns(ms.MeshsolveWarning, match="without faces"), pytest.raises(ms.InvalidInputError, match="vertex 126 has none"):
            ms.apps.parameterize(ms.Mesh(np.vstack([mesh.vertices, [[0, 0, 1]]]), mesh.faces), fixed=[0, 126], fixed_uv=np.eye(2))


def test_a_half_sphere_maps_conformally():
    """Angles are kept to the order of the edge length, as by the stereographic projection."""
    error = []
    for level in (2, 3, 4):
        sphere = ms.datasets.icosphere(level)
        half = ms.Mesh(sphere.vertices, sphere.faces[(sphere.vertices[sphere.faces, 2] > -1e-9).all(axis=1)])
        with pytest.warns(ms.MeshsolveWarning, match="without faces"):
            uv, _ = ms.apps.parameterize(half, method="conformal")
        mapped = corner_angles(np.c_[uv, 0 * uv[:, 0]], half.faces)
        error.append(abs(mapped - corner_angles(half.vertices, half.faces)).mean())
    assert error[0] < 0.06 and error[1] < 0.6 * error[0] and error[2] < 0.6 * error[1]


def test_a_cone_unrolls():
    """The lateral surface of a cone, cut along a ruling: developable, so that lengths are kept by all methods but one."""
    r, turns = np.meshgrid(np.linspace(0.3, 1, 7), np.linspace(0, 2 * np.pi, 24, endpoint=False), indexing="ij")
    x = np.stack([r * np.cos(turns), r * np.sin(turns), 2 * r], -1).reshape(-1, 3)
    i, j = np.meshgrid(np.arange(6), np.arange(24), indexing="ij")
    at = lambda di, dj: ((i + di) * 24 + (j + dj) % 24).ravel()
    mesh = ms.Mesh(x, np.vstack([np.stack([at(0, 0), at(1, 0), at(1, 1)], 1), np.stack([at(0, 0), at(1, 1), at(0, 1)], 1)]))
    for method in ("lscm", "conformal", "arap", "slim"):
        uv, report = ms.apps.parameterize(mesh, method=method, cut=True, iterations=500, tol=1e-13)
        assert np.allclose(side_lengths(uv, report.mesh.faces), side_lengths(x, mesh.faces), rtol=1e-3) and len(uv) == len(x) + 7


@pytest.mark.parametrize("unit", [1e-4, 1e5])
@pytest.mark.parametrize("shape", [None, cylinder])
def test_slim_of_a_developable_surface_is_an_isometry(unit, shape):
    mesh = grid(shape=shape)
    mesh = ms.Mesh(mesh.vertices * unit, mesh.faces)
    uv, report = ms.apps.parameterize(mesh, method="slim", iterations=300, tol=1e-13)
    area = mesh.face_areas.sum()
    assert abs(report.energy - 4 * area) < 1e-9 * area
    assert np.allclose(side_lengths(uv, mesh.faces), side_lengths(mesh.vertices, mesh.faces), rtol=1e-4)


def test_slim_never_flips_and_its_energy_falls():
    """A bump of ten times its width: the ARAP map flips."""
    mesh = grid(30, 20, lambda x, y: hill(x, y) * [1, 1, 8])
    energies = []
    for iterations in (1, 2, 5, 20):
        uv, report = ms.apps.parameterize(mesh, method="slim", iterations=iterations, tol=0)
        assert (areas(uv, mesh.faces) > 0).all() and report.iterations == iterations
        energies.append(report.energy)
    assert (np.diff(energies) < 0).all() and energies[-1] > 4 * mesh.face_areas.sum()
    with pytest.warns(ms.MeshsolveWarning, match="faces flipped, the first is face"):
        report = ms.apps.parameterize(mesh, method="arap")[1]
    assert report.facts["flipped"] == len(report.flipped) > 0


def test_the_proxy_of_slim_has_the_gradient_of_its_energy():
    from meshsolve.apps.maps.isometric import _Dirichlet

    mesh, rng = grid(6, 5, hill), np.random.default_rng(0)
    uv = ms.apps.parameterize(mesh)[0]
    uv, energy, towards = uv + 0.02 * rng.standard_normal(uv.shape), _Dirichlet(mesh, 1), rng.standard_normal(uv.shape)
    slope = (energy.value(uv + 1e-6 * towards) - energy.value(uv - 1e-6 * towards)) / 2e-6
    A, force = energy.proxy(uv)
    assert np.isclose(-2 * (force * towards).sum(), slope, rtol=1e-6) and np.linalg.eigvalsh(A.toarray()).min() > 0
    length = energy.first_flip(uv, towards)
    assert np.isfinite(energy.value(uv + 0.999 * length * towards)) and energy.value(uv + 1.001 * length * towards) == np.inf


@pytest.mark.parametrize("method", ["arap", "slim"])
def test_maps_have_the_same_bits_on_two_threads(method):
    mesh = grid(60, 40, hill)
    one, two = (ms.apps.parameterize(mesh, method=method, iterations=5, threads=threads)[0] for threads in (1, 2))
    assert np.array_equal(one, two)


def test_progress_counts_iterations():
    seen = []
    for method in ("arap", "slim"):
        seen.clear()
        with ms.showing_progress(lambda *calls: seen.append(calls)):
            ms.apps.parameterize(grid(shape=hill), method=method, iterations=3, tol=0)
        counts = [call[1:] for call in seen if call[2] == 3]
        assert counts == [(1, 3), (2, 3), (3, 3)]


def test_a_report_of_a_map_can_be_pickled():
    report = ms.apps.parameterize(grid(), method="arap")[1]
    same = pickle.loads(pickle.dumps(report))
    assert same.as_dict() == report.as_dict() and np.array_equal(same.vertex_of, report.vertex_of) and same.energy == report.energy


@pytest.mark.parametrize("options", [{}, {"energy": "spokes"}, {"method": "bilaplacian"}, {"method": "poisson"}], ids=str)
def test_handles_that_stay_move_nothing(options):
    mesh = ms.datasets.icosphere(3)
    D = ms.apps.Deformation(mesh, [0, 50, 300], **options)
    assert abs(D.move(mesh.vertices[[0, 50, 300]]).vertices - mesh.vertices).max() < 1e-9 and D.energy < 1e-18 and D.iterations == 0


@pytest.mark.parametrize("angle", [0.3, 2.0, np.pi])
def test_a_rigid_motion_of_the_handles_moves_all(angle):
    mesh, handles = ms.datasets.icosphere(3), np.array([5, 0, 400, 17])
    c, s = np.cos(angle), np.sin(angle)
    turn = lambda x: x @ np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]).T + [1, -2, 3]
    for energy in ("spokes-and-rims", "spokes"):
        moved = ms.apps.Deformation(mesh, handles, energy=energy).move(turn(mesh.vertices[handles]))
        assert abs(moved.vertices - turn(mesh.vertices)).max() < 1e-7
    D = ms.apps.Deformation(mesh, handles, method="poisson")
    for rotations in ([0, 0, angle], [[0, 0, angle]] * 4, [0, 0, angle + 2 * np.pi]):
        assert abs(D.move(turn(mesh.vertices[handles]), rotations=rotations).vertices - turn(mesh.vertices)).max() < 1e-9


def test_the_energy_of_a_bar_falls_and_handles_stay_where_they_are_put():
    mesh = grid(40, 8)
    left, right = np.flatnonzero(mesh.vertices[:, 0] < 0.01), np.flatnonzero(mesh.vertices[:, 0] > 0.99)
    handles = np.r_[right, left]
    target = mesh.vertices[handles].copy()
    target[:len(right)] = [0.6, 0, 0.5] + (target[:len(right)] - [1, 0, 0]) @ np.array([[0, 0, 1.0], [0, 1, 0], [-1, 0, 0]])
    D = ms.apps.Deformation(mesh, handles)
    energies = []
    for _ in range(4):
        moved = D.move(target, iterations=5, tol=0)
        energies.append(D.energy)
        assert np.allclose(moved.vertices[handles], target, atol=1e-12)
    assert (np.diff(energies) <= 1e-12).all() and energies[-1] > 0
    ratio = side_lengths(moved.vertices, mesh.faces) / side_lengths(mesh.vertices, mesh.faces)
    assert ratio.min() > 0.5 and ratio.max() < 1.5


def test_the_energy_is_that_of_the_last_shape():
    mesh, handles = grid(12, 8, hill), [95, 0, 7]
    D, at = ms.apps.Deformation(mesh, handles), mesh.vertices[handles] + [[0, 0, 0.4], [0, 0.1, 0], [0.2, 0, 0]]
    assert D.energy == 0
    for iterations in (1, 3, 200):
        moved = D.move(at, iterations=iterations, tol=1e-3)
        assert np.isclose(D.energy, VertexRotations(mesh).fit(moved.vertices), rtol=1e-9) and D.iterations <= iterations
    assert 3 < D.iterations < 200


def test_gradients_turn_by_the_harmonic_field_of_the_rotations():
    """A strip that is twisted by more than half a turn: sections turn in proportion to their place, as a helicoid."""
    mesh, angle = grid(60, 7), 1.25 * np.pi
    ends = [np.flatnonzero(mesh.vertices[:, 0] == x) for x in (0, 1)]
    handles, x = np.concatenate(ends), mesh.vertices
    middle = x[ends[0]].mean(axis=0)
    share = x[:, :1]

    def twisted(share):
        y, z = (x - middle)[:, 1:].T
        c, s = np.cos(angle * share[:, 0]), np.sin(angle * share[:, 0])
        return np.stack([x[:, 0], middle[1] + c * y - s * z, middle[2] + s * y + c * z], axis=1)

    D = ms.apps.Deformation(mesh, handles, method="poisson")
    moved = D.move(twisted(share)[handles], rotations=np.outer(share[handles], [angle, 0, 0]))
    off = np.linalg.norm(moved.vertices - twisted(share), axis=1)
    assert off.max() < 0.2 * np.ptp(x[:, 1]) and np.array_equal(moved.vertices[handles], twisted(share)[handles])
    harmonic = ms.cholesky(ms.cotan_laplacian(mesh), fixed=handles).solve(np.zeros_like(x), fixed_values=np.where(share == 1, [0.3, 0, 0.1], 0))
    shifted = D.move(x[handles] + np.where(share[handles] == 1, [0.3, 0, 0.1], 0))             # without rotations
    assert abs(shifted.vertices - x - harmonic).max() < 1e-12


@pytest.mark.parametrize(("method", "rotations", "message"), [
    ("arap", [0, 0, 1], 'rotations need method="poisson", got method="arap"'), ("poisson", [[0, 0, 1]], "rotations must be 2 finite rows of 3"),
    ("poisson", [0, np.inf, 1], "rotations must be 2 finite rows of 3"), ("poisson", "turn", "rotations")])
def test_bad_rotations(method, rotations, message):
    D = ms.apps.Deformation(grid(4, 4), [0, 5], method)
    with pytest.raises(ms.InvalidInputError, match=message):
        D.move(np.zeros((2, 3)), rotations=rotations)


def test_a_move_has_the_same_bits_on_two_threads():
    mesh = ms.datasets.icosphere(4)
    at = mesh.vertices[[0, 70, 900]] + [[0.5, 0, 0], [0, 0.2, 0], [0, 0, 0]]
    one, two = (ms.apps.Deformation(mesh, [0, 70, 900], threads=threads).move(at).vertices for threads in (1, 2))
    assert np.array_equal(one, two)


def test_a_deformation_turns_with_its_handles():
    """The same handles in a turned frame: the result is turned."""
    mesh, handles = grid(12, 8, hill), [0, 7, 95]
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    turn *= np.sign(np.linalg.det(turn))
    at = mesh.vertices[handles] + [[0, 0, 0.4], [0, 0.1, 0], [0.2, 0, 0]]
    plain, turned = (ms.apps.Deformation(mesh, handles).move(x, iterations=200, tol=1e-12).vertices for x in (at, at @ turn.T))
    assert abs(plain @ turn.T - turned).max() < 1e-4


def test_vertices_without_faces_stay():
    mesh = grid(6, 5)
    mesh = ms.Mesh(np.vstack([mesh.vertices, [[9, 9, 9]]]), mesh.faces)
    for method in ("arap", "bilaplacian", "poisson"):
        moved = ms.apps.Deformation(mesh, [0, 29], method=method).move(mesh.vertices[[0, 29]] + [0, 0, 1])
        assert np.array_equal(moved.vertices[30], [9, 9, 9]) and abs(moved.vertices[:30] - mesh.vertices[:30] - [0, 0, 1]).max() < 1e-12
    with pytest.raises(ms.InvalidInputError, match="energy must be"):
        ms.apps.Deformation(mesh, [0], energy="rims")
    with pytest.raises(ms.InvalidInputError, match="leave a vertex of a face free"):
        ms.apps.Deformation(mesh, np.arange(30))


def test_coupled_weights_bend_least_among_those_that_sum_to_one():
    mesh, handles = grid(12, 8, hill), [5, 40, 90]
    divided, coupled, alone = (ms.apps.skinning_weights(mesh, handles, partition=kind) for kind in ("divide", "couple", None))
    L, n = ms.cotan_laplacian(mesh), len(mesh.vertices)
    Q = L @ sp.diags_array(1 / ms.mass_matrix(mesh).diagonal()) @ L
    bends = [float((W * (Q @ W)).sum()) for W in (alone, coupled, divided)]
    assert bends[0] < bends[1] < 0.999 * bends[2] and coupled.min() >= 0 and abs(coupled.sum(axis=1) - 1).max() < 1e-12
    assert np.array_equal(coupled[handles], np.eye(3)) and np.allclose(alone / alone.sum(axis=1, keepdims=True), divided)
    for change in np.random.default_rng(0).standard_normal((5, n, 3)) * (coupled > 0):         # along the constraints the energy is stationary
        change -= (coupled > 0) * (change.sum(axis=1) / (coupled > 0).sum(axis=1))[:, None]
        change[handles] = 0
        assert abs((change * (Q @ coupled)).sum()) < 1e-8 * np.linalg.norm(change) * abs(Q @ coupled).max()
    with pytest.raises(ms.InvalidInputError, match="partition must be"):
        ms.apps.skinning_weights(mesh, handles, partition="sum")


@pytest.mark.parametrize(("handles", "message"), [([], "at least one"), ([10**6], "handles"), ([1, 1], "handles"), ([0.5], "handles")])
def test_bad_handles(handles, message):
    for call in (ms.apps.Deformation, ms.apps.skinning_weights):
        with pytest.raises(ms.InvalidInputError, match=message):
            call(ms.datasets.icosphere(1), handles)


def test_a_component_without_a_handle():
    two = two_components()
    for call in (ms.apps.Deformation, ms.apps.skinning_weights):
        with pytest.raises(ms.InvalidInputError, match="vertex 9 has none"):
            call(two, [0])
    D = ms.apps.Deformation(two, [0, 9])
    for bad in (np.zeros((1, 3)), np.full((2, 3), np.nan)):
        with pytest.raises(ms.InvalidInputError, match="positions must"):
            D.move(bad)


def test_the_bilaplacian_reproduces_linear_functions():
    """With two rings held at the boundary of a flat patch."""
    mesh = grid(12, 10)
    rim = mesh.boundary_vertices
    ring = np.unique(np.r_[rim, mesh.edges[np.isin(mesh.edges, rim).any(axis=1)].ravel()])
    at = mesh.vertices @ np.array([[1, 0.2, 0.3], [-0.4, 1.5, 0.7], [0, 0, 1]])
    moved = ms.apps.Deformation(mesh, ring, method="bilaplacian").move(at[ring])
    assert abs(moved.vertices - at).max() < 1e-9


def test_weights_without_active_bounds_are_cubic():
    """A path with L M^-1 L: between two handles that also hold their neighbors the weight is a cubic polynomial."""
    n = 21
    L = ms.datasets.grid2d(n, 1)
    x, info = ms.Quadratic(L @ L, fixed=[0, 1, n - 2, n - 1]).minimize(np.zeros(n), fixed_values=[1, 1, 0, 0], lower=-1, upper=2)
    t = np.arange(n)
    assert abs(np.polyval(np.polyfit(t[1:-1], x[1:-1], 3), t[1:-1]) - x[1:-1]).max() < 1e-9 and not info.active.any()


def test_skinning_weights_share_the_surface():
    W = ms.apps.skinning_weights(grid(20, 6), [19 * 6 + 3, 3])
    assert W.min() >= 0 and W.max() <= 1 and np.allclose(W.sum(axis=1), 1) and np.array_equal(W[[117, 3]], np.eye(2))
    along = W[3::6, 1]
    assert (np.diff(along) < 1e-9).all() and abs(along + along[::-1] - 1).max() < 1e-2           # falls, and is symmetric but for the diagonals


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["harmonic", "lscm", "conformal", "arap", "slim"])
def test_a_boundary_without_length_is_refused(method):
    with pytest.raises(ms.errors.InvalidInputError, match="must have a length, all 4 vertices"):
        ms.apps.parameterize(ms.Mesh(np.zeros((4, 3)), [[0, 1, 2], [0, 2, 3]]), method=method)
