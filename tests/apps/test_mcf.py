"""Flows and smoothing: shrinking spheres, decreasing area, round limits, hostile meshes."""

import csv
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms
from meshsolve import datasets
from meshsolve.apps import mcf, smooth
from meshsolve.apps.mcf import Flow
from meshsolve.apps.smoothing import keeping
from meshsolve.errors import InvalidInputError, MeshsolveError, MeshsolveWarning, OutOfMemoryError
from meshsolve.mesh import Mesh, load_mesh
from meshsolve.operators import cotan_laplacian, mass_matrix

pytestmark = pytest.mark.filterwarnings("ignore:the surface has collapsed")         # many of these flows give warnings


def bumpy_sphere(k=3):
    sphere = datasets.icosphere(k)
    x, y, z = sphere.vertices.T
    return sphere.with_vertices((1 + 0.35 * np.sin(4 * x) * np.cos(3 * y) + 0.2 * np.sin(5 * z))[:, None] * sphere.vertices)


def noisy_plane(k=20, height=0.2):
    i = np.arange(k * k).reshape(k, k)
    a, b, c, d = i[:-1, :-1].ravel(), i[:-1, 1:].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel()
    x = np.column_stack([*np.indices((k, k)).reshape(2, -1), height * np.random.default_rng(0).standard_normal(k * k)])
    return Mesh(x, np.concatenate([np.stack([a, c, d], 1), np.stack([a, d, b], 1)]))


def sphericity(mesh):
    """36 pi V^2 / A^3, which is 1 for a ball and less for any other shape."""
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    volume = np.einsum("ij,ij->", np.cross(a, b), c) / 6
    return 36 * np.pi * volume ** 2 / mesh.face_areas.sum() ** 3


# ---- known flows


@pytest.mark.parametrize("radius, dt, steps", [(1.0, 1e-3, 20), (10.0, 0.5, 10)])
def test_the_radius_of_a_shrinking_sphere(radius, dt, steps):
    sphere = datasets.icosphere(3)
    out, report = mcf(sphere.with_vertices(radius * sphere.vertices + 7), steps=steps, dt=dt)
    r = np.linalg.norm(out.vertices - 7, axis=1)
    assert r.mean() == pytest.approx(np.sqrt(radius ** 2 - 4 * steps * dt), rel=5e-3) and r.std() < 2e-3 * radius
    assert report.as_dict()["steps"] == steps and report.as_dict()["dt"] == dt


def test_backward_euler_is_of_first_order():
    sphere, end = datasets.icosphere(3), 0.1
    fine = np.linalg.norm(mcf(sphere, steps=160, dt=end / 160)[0].vertices, axis=1).mean()
    errors = [np.linalg.norm(mcf(sphere, steps=s, dt=end / s)[0].vertices, axis=1).mean() - fine for s in (5, 10, 20)]
    assert all(1.7 < a / b < 2.5 for a, b in zip(errors, errors[1:]))


def test_one_step_solves_the_stated_system():
    mesh = bumpy_sphere(2)
    dt = 0.01
    A = sp.csc_array(mass_matrix(mesh) + dt * cotan_laplacian(mesh))
    expected = sp.linalg.spsolve(A, mass_matrix(mesh) @ mesh.vertices)
    assert np.abs(mcf(mesh, dt=dt)[0].vertices - expected).max() < 1e-12


def test_conformalized_steps_keep_stiffness_and_area():
    """Each step scales its result about the centroid."""
    mesh = bumpy_sphere(2)
    L, dt, at, area = cotan_laplacian(mesh), 0.05, mesh, mesh.face_areas.sum()
    for _ in range(3):
        at = at.with_vertices(sp.linalg.spsolve(sp.csc_array(mass_matrix(at) + dt * L), mass_matrix(at) @ at.vertices))
        mass = mass_matrix(at).diagonal()
        centroid = mass @ at.vertices / mass.sum()
        at = at.with_vertices(centroid + np.sqrt(area / mass.sum()) * (at.vertices - centroid))
    assert np.abs(mcf(mesh, 3, dt=dt, conformal=True)[0].vertices - at.vertices).max() < 1e-11


def test_a_cylinder_necks_between_fixed_scales():
    """A long cylinder of radius r obeys r^2 = r0^2 - 2 t away from its ends."""
    rings, around = 61, 48
    angle = 2 * np.pi * np.arange(around) / around
    circle = np.stack([0 * angle, np.cos(angle), np.sin(angle)], axis=1)
    x = (np.linspace(-4, 4, rings)[:, None, None] * np.array([1, 0, 0]) + circle).reshape(-1, 3)
    i = np.arange(rings * around).reshape(rings, around)
    a, b, c, d = i[:-1].ravel(), i[1:].ravel(), np.roll(i, -1, 1)[1:].ravel(), np.roll(i, -1, 1)[:-1].ravel()
    out, _ = mcf(Mesh(x, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])), steps=20, dt=0.005)
    middle = out.vertices[i[rings // 2]]
    assert np.linalg.norm(middle[:, 1:], axis=1) == pytest.approx(np.full(around, np.sqrt(1 - 2 * 0.1)), rel=1e-2)


@pytest.mark.parametrize("make", [bumpy_sphere, noisy_plane, lambda: datasets.scan_like(3000)], ids=["sphere", "plane", "scan"])
def test_area_falls_at_every_step(make):
    mesh = make()
    areas = [mesh.face_areas.sum()]
    mcf(mesh, steps=5, callback=lambda step, m: areas.append(m.face_areas.sum()))
    assert len(areas) == 6 and all(a > b > 0 for a, b in zip(areas, areas[1:]))


def test_conformalized_flow_ends_in_a_round_sphere():
    mesh = bumpy_sphere()
    history = [sphericity(mesh)]
    out, report = mcf(mesh, steps=60, dt=0.05, conformal=True, callback=lambda step, m: history.append(sphericity(m)))
    center = mass_matrix(out).diagonal() @ out.vertices / out.face_areas.sum()
    r = np.linalg.norm(out.vertices - center, axis=1)
    assert history[0] < 0.8 and history[-1] > 0.98 and r.std() / r.mean() < 5e-3
    assert report.as_dict()["area_after"] == pytest.approx(report.as_dict()["area_before"], rel=1e-12)
    assert out.face_areas.sum() == pytest.approx(mesh.face_areas.sum(), rel=1e-9)


def dumbbell(neck, length):
    sphere = datasets.icosphere(3)
    x = sphere.vertices[:, 0]
    return sphere.with_vertices(sphere.vertices * np.stack([length + 0 * x, neck + x ** 2, neck + x ** 2], axis=1))


def test_conformalized_flow_does_not_pinch_a_neck():
    mesh = dumbbell(0.4, 1.5)
    area = mesh.face_areas.sum()
    pinched, _ = mcf(mesh, steps=10, dt=1e-3 * area)
    rounded, _ = mcf(mesh, steps=80, dt=4e-3 * area, conformal=True)
    assert sphericity(pinched) < 0.8 * sphericity(mesh) < 0.8 * sphericity(rounded) and sphericity(rounded) > 0.85


def test_a_flow_that_runs_away_is_stopped():
    with pytest.raises(MeshsolveError, match="times longer than at first; use a smaller dt"):
        mcf(dumbbell(0.15, 3), steps=100, dt=0.3, conformal=True)


def test_automatic_conformal_steps_make_a_sphere():
    out, report = mcf(bumpy_sphere(), steps=50, conformal=True)
    assert sphericity(out) > 0.98 and report.as_dict()["dt"] == pytest.approx(2e-3 * report.as_dict()["area_before"])


def test_conformalized_flow_is_equivariant():
    mesh = bumpy_sphere(2)
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    moved = mesh.with_vertices(5 * mesh.vertices @ turn.T + [1, 2, 3])
    out, other = mcf(mesh, 3, dt=0.02, conformal=True)[0], mcf(moved, 3, dt=0.5, conformal=True)[0]
    assert np.abs(5 * out.vertices @ turn.T + [1, 2, 3] - other.vertices).max() < 1e-10


# ---- results and warnings


def test_auto_step_is_free_of_units_and_visible():
    mesh = noisy_plane()
    out, report = mcf(mesh, boundary="free")
    assert report.as_dict()["dt"] == pytest.approx(mesh.edge_lengths.mean() ** 2)
    assert out.vertices[:, 2].std() < 0.5 * mesh.vertices[:, 2].std()
    far = mesh.with_vertices(1e-3 * mesh.vertices + 1000)
    assert np.abs((mcf(far, boundary="free")[0].vertices - 1000) / 1e-3 - out.vertices).max() < 1e-8


@pytest.mark.parametrize("conformal", [False, True])
def test_report_and_callback(conformal):
    seen = []
    record = lambda step, mesh: seen.append((step, mesh))
    out, report = mcf(bumpy_sphere(2), steps=3, dt=1e-3, conformal=conformal, callback=record)
    assert [step for step, _ in seen] == [1, 2, 3] and np.array_equal(seen[-1][1].vertices, out.vertices)
    facts = report.as_dict()
    assert {"assemble", "numeric", "solve"} <= set(facts["seconds"]) and facts["residual"] < 1e-14
    assert facts["vertices"] == 162 and facts["faces"] == 320 and facts["steps"] == 3 and "assemble" in str(report)


def test_the_input_mesh_is_not_changed():
    mesh = bumpy_sphere(2)
    x = mesh.vertices.copy()
    out, _ = mcf(mesh, 2)
    assert np.array_equal(mesh.vertices, x) and not np.allclose(out.vertices, x) and out.faces is mesh.faces


def test_a_trimesh_is_accepted():
    mesh = bumpy_sphere(2)
    assert np.array_equal(mcf(mesh.to_trimesh())[0].vertices, mcf(mesh)[0].vertices)


# ---- smoothing


def test_the_squared_laplacian_of_a_fan_needs_too_much_memory():
    """Memory is checked before the squared Laplacian is made."""
    n = 300_000
    angle = np.linspace(0, 2 * np.pi, n, endpoint=False)
    rim = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], axis=1)
    faces = np.stack([np.full(n, n), np.arange(n), np.roll(np.arange(n), -1)], axis=1)
    with pytest.raises(OutOfMemoryError, match="the squared Laplacian takes"):
        smooth(Mesh(np.vstack([rim, np.zeros(3)]), faces), order=2)


@pytest.mark.parametrize("order", [1, 2])
def test_smoothing_removes_noise_and_keeps_shape(order):
    sphere = datasets.icosphere(4)
    edge = sphere.edge_lengths.mean()
    noise = 0.2 * edge * np.random.default_rng(0).standard_normal(len(sphere.vertices))
    noisy = sphere.with_vertices(sphere.vertices * (1 + noise[:, None]))
    out, report = smooth(noisy, 1.0, order=order)
    r = np.linalg.norm(out.vertices, axis=1)
    assert r.std() < 0.45 * noise.std() and r.mean() == pytest.approx(1, abs=0.02) and report.as_dict()["residual"] < 1e-14


def test_order_two_shrinks_less():
    sphere = datasets.icosphere(3)
    radius = [np.linalg.norm(smooth(sphere, 20, order=k)[0].vertices, axis=1).mean() for k in (1, 2)]
    assert radius[0] < radius[1] < 1


def test_order_two_is_the_stated_system():
    mesh = bumpy_sphere(2)
    M, L = mass_matrix(mesh), cotan_laplacian(mesh)
    s = 3 * mesh.edge_lengths.mean() ** 4
    expected = np.linalg.solve((M + s * L @ sp.diags_array(1 / M.diagonal()) @ L).toarray(), M @ mesh.vertices)
    assert np.abs(smooth(mesh, 3, order=2)[0].vertices - expected).max() < 1e-11


@pytest.mark.parametrize("order", [1, 2])
def test_strength_zero_and_more(order):
    mesh = noisy_plane()
    assert np.abs(smooth(mesh, 0, order=order, boundary="free")[0].vertices - mesh.vertices).max() < 1e-12
    left = [smooth(mesh, s, order=order, boundary="free")[0].vertices[:, 2].std() for s in (0.1, 1, 10, 100)]
    assert all(a > b for a, b in zip(left, left[1:]))


# ---- hostile meshes


DEGENERATE = {
    "zero area": ([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [9, 9, 9.0]], [[0, 1, 2], [0, 1, 3], [1, 2, 3]]),
    "coinciding": ([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [3, 1, 4.0]], [[0, 1, 2], [0, 2, 3], [1, 3, 2]]),
    "only zero area": ([[0, 0, 0], [1, 0, 0], [2, 0, 0], [7, 7, 7.0]], [[0, 1, 2]]),
    "non-manifold": ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0, -1, 0], [0.1, 0.7, 3]], [[0, 1, 2], [0, 1, 3], [0, 1, 4]]),
    "one point of many": ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5], [5, 5, 5], [5, 5, 5], [2, 3, 4.0]],
                          [[0, 1, 2], [3, 4, 5]]),
    "a sliver alone": ([[0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5], [6, 5, 5], [5.5, 5 + 1e-9, 5], [2, 3, 4.0]],
                       [[0, 1, 2], [3, 4, 5]]),
    "a speck next to a plate": ([[0, 0, 0], [9, 0, 0], [0, 9, 0], [5, 5, 5], [5, 5, 5 + 1e-9], [5, 5 + 1e-9, 5], [2, 3, 4.0]],
                               [[0, 1, 2], [3, 4, 5]]),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("flow", [lambda m: smooth(m, 0.1, order=1, boundary="free"), lambda m: smooth(m, 1, boundary="free"),
                                  lambda m: mcf(m, boundary="free"), lambda m: mcf(m, 3, conformal=True)], ids=["smooth", "order 2", "mcf", "conformal"])
def test_degenerate_meshes_stay_finite(case, flow):
    mesh = Mesh(*DEGENERATE[case])
    if case == "only zero area":
        with pytest.raises(InvalidInputError, match="no face with an area"):
            flow(mesh)
        return
    out, _ = flow(mesh)
    assert np.isfinite(out.vertices).all() and np.array_equal(out.vertices[-1], mesh.vertices[-1])      # unreferenced: unchanged


def test_a_surface_that_vanishes_ends_with_a_warning():
    with pytest.warns(MeshsolveWarning, match="shrank to nothing in step"):
        out, report = mcf(datasets.icosphere(2), steps=50, dt=1.0)
    assert np.isfinite(out.vertices).all() and out.face_areas.sum() > 0 and 0 < report.as_dict()["steps"] < 50


@pytest.mark.parametrize("method, mesh, dt", [("mean curvature", datasets.icosphere(2), 1.0), ("conformalized", dumbbell(0.15, 3), 0.3)],
                         ids=["vanishes", "runs away"])
def test_a_step_that_ends_the_flow_keeps_the_mesh(method, mesh, dt):
    flow, going = Flow(mesh, method), True
    while going:
        before = flow.mesh().vertices, flow.system.area
        try:
            going = flow.step(dt)
        except MeshsolveError:
            going = False
    assert np.array_equal(flow.mesh().vertices, before[0]) and flow.system.area == before[1] > 0


@pytest.mark.parametrize("call", [
    lambda m: mcf(m, steps=0), lambda m: mcf(m, steps=1.5), lambda m: mcf(m, steps=True), lambda m: mcf(m, dt=0),
    lambda m: mcf(m, dt=-1), lambda m: mcf(m, dt=np.nan), lambda m: mcf(m, dt="fast"), lambda m: mcf(m, dt=np.inf),
    lambda m: mcf("mesh"), lambda m: mcf(Mesh(np.eye(3), [])),
    lambda m: smooth(m, -1), lambda m: smooth(m, np.nan), lambda m: smooth(m, "much"), lambda m: smooth(m, 1, order=3),
    lambda m: smooth(m, 1, order=True), lambda m: smooth(None, 1),
    lambda m: smooth(Mesh(np.ones((3, 3)), [[0, 1, 2]]), 1)], ids=range(17))
def test_refuses(call):
    with pytest.raises(InvalidInputError):
        call(datasets.icosphere(1))


@pytest.mark.slow
def test_real_meshes(data_dir):
    with open(data_dir / "INDEX.csv", newline="") as f:
        names = [r["file"] for r in csv.DictReader(f) if r["file"].startswith("meshes/") and int(r["n"]) < 9_000]
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MeshsolveWarning)
            mesh = load_mesh(data_dir / name)
        for out, report in (mcf(mesh, 2, boundary="free"), mcf(mesh, 2, conformal=True), smooth(mesh, 1, 1, boundary="free"),
                            smooth(mesh, 1, 2, boundary="free")):
            assert np.isfinite(out.vertices).all() and report.as_dict()["residual"] < 1e-13, name
            assert out.face_areas.sum() <= mesh.face_areas.sum() * (1 + 1e-9), name


def test_reports_have_areas_and_volumes_before_and_after():
    ball = datasets.icosphere(4)
    for after, report in (smooth(ball, 1), smooth(ball, 4, order=2), mcf(ball, 2), mcf(ball, 2, conformal=True)):
        facts = report.as_dict()
        inside = [np.linalg.det(m.vertices[m.faces]).sum() / 6 for m in (ball, after)]
        assert [facts["volume_before"], facts["volume_after"]] == pytest.approx(inside, rel=1e-12)
        assert [facts["area_before"], facts["area_after"]] == pytest.approx([m.face_areas.sum() for m in (ball, after)], rel=1e-12)
    inwards, report = smooth(Mesh(ball.vertices + 1e3, ball.faces[:, ::-1]), 1)
    assert report.as_dict()["volume_before"] == pytest.approx(-4 / 3 * np.pi, rel=0.01)


def body():
    """A ball with a thin limb that has a tenth of the area."""
    x = datasets.icosphere(4).vertices
    limb = np.clip((x[:, 0] - 0.75) / 0.25, 0, 1)
    return Mesh(np.c_[x[:, 0] + 3 * limb, x[:, 1:] * (1 - 0.75 * (limb > 0))[:, None]], datasets.icosphere(4).faces)


def test_a_surface_that_collapses_is_reported():
    """The whole surface, a part of it, and its volume alone."""
    with pytest.warns(MeshsolveWarning, match="the surface has collapsed, or parts of it: 4.% of the area"):
        mcf(datasets.icosphere(3), 6, dt=0.025)
    with pytest.warns(MeshsolveWarning, match="shrank by more than 90%. Use fewer steps or a smaller dt"):
        after, report = mcf(body(), 8, dt=0.01)
    facts = report.as_dict()
    assert facts["area_after"] > 0.5 * facts["area_before"] and facts["volume_after"] > 0.5 * facts["volume_before"]
    with pytest.warns(MeshsolveWarning, match="Use a smaller strength, or order=2, which keeps volume"):
        smooth(body(), 60, order=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        smooth(body())
        mcf(body(), 3, conformal=True)
        mcf(datasets.scan_like(4000), 2)


def noisy_sphere(level=3, size=0.02):
    sphere = ms.datasets.icosphere(level)
    noise = size * np.random.default_rng(0).standard_normal((len(sphere.vertices), 1))
    return ms.Mesh(sphere.vertices * (1 + noise), sphere.faces)


@pytest.mark.parametrize("keep", ["volume", "area"])
@pytest.mark.parametrize("fixed", [None, [3, 4, 5]])
def test_smoothing_keeps_area_or_volume(keep, fixed):
    mesh = noisy_sphere()
    out, report = ms.apps.smooth(mesh, 10.0, keep=keep, fixed=fixed)
    assert np.isclose(report.facts[f"{keep}_after"], report.facts[f"{keep}_before"], rtol=1e-8)
    if fixed:
        assert np.array_equal(out.vertices[fixed], mesh.vertices[fixed])


@pytest.mark.parametrize("order", [1, 2])
def test_fixed_vertices_stay_and_others_move(order):
    mesh = noisy_sphere()
    out, report = ms.apps.smooth(mesh, 10.0, order, fixed=[3, 4, 5])
    moved = np.linalg.norm(out.vertices - mesh.vertices, axis=1) > 0
    assert not moved[[3, 4, 5]].any() and moved.sum() == len(mesh.vertices) - 3 and report.facts["residual"] < 1e-12
    flowed, _ = ms.apps.mcf(mesh, steps=3, fixed=[3, 4, 5])
    assert np.array_equal(flowed.vertices[[3, 4, 5]], mesh.vertices[[3, 4, 5]]) and not np.array_equal(flowed.vertices, mesh.vertices)


def test_a_strength_for_each_vertex():
    """Equal strengths act as one number, and strength 0 fixes a vertex. One half of a sphere is smoothed."""
    mesh = noisy_sphere()
    n = len(mesh.vertices)
    assert np.allclose(ms.apps.smooth(mesh, np.full(n, 3.0))[0].vertices, ms.apps.smooth(mesh, 3.0)[0].vertices, atol=1e-12)
    top = mesh.vertices[:, 2] > 0
    out = ms.apps.smooth(mesh, np.where(top, 5.0, 0.0))[0].vertices
    assert np.array_equal(out[~top], mesh.vertices[~top]) and (abs(out[top] - mesh.vertices[top]).max(axis=1) > 0).all()


@pytest.mark.parametrize(("options", "message"), [
    ({"strength": -np.ones(162)}, "strength must"), ({"strength": np.ones(3)}, "strength must"), ({"strength": np.full(162, np.nan)}, "strength must"),
    ({"fixed": np.ones(162, bool)}, "fixed must leave"), ({"fixed": [162]}, "fixed"), ({"keep": "length"}, "keep")])
def test_bad_options_of_smoothing(options, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.apps.smooth(ms.datasets.icosphere(2), **options)


def test_a_volume_needs_a_closed_mesh():
    open_mesh = ms.Mesh(ms.datasets.icosphere(2).vertices, ms.datasets.icosphere(2).faces[1:])
    with pytest.raises(ms.InvalidInputError, match="closed"):
        ms.apps.smooth(open_mesh, keep="volume")
    assert np.isclose(ms.apps.smooth(open_mesh, keep="area")[0].face_areas.sum(), open_mesh.face_areas.sum())
    with pytest.raises(ms.InvalidInputError, match="conformal"):
        ms.apps.mcf(open_mesh, conformal=True, fixed=[0])


# ---- borders, defaults and volumes


def tube(around=30, radius=0.01):
    """A ring with a triangle as its cross-section."""
    s, t = np.meshgrid(np.linspace(0, 2 * np.pi, around, endpoint=False), 2 * np.pi / 3 * np.arange(3), indexing="ij")
    i = np.arange(3 * around).reshape(around, 3)
    r = 0.5 + radius * np.cos(t)
    a, b, c, d = i.ravel(), np.roll(i, -1, 0).ravel(), np.roll(i, (-1, -1), (0, 1)).ravel(), np.roll(i, -1, 1).ravel()
    return Mesh(np.stack([r * np.cos(s), r * np.sin(s), radius * np.sin(t)], axis=-1).reshape(-1, 3),
                np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))


def arched():
    """A plate with a boundary, bent, with noise."""
    flat = noisy_plane(13, 0.05)
    return flat.with_vertices(flat.vertices + np.outer(0.1 * (flat.vertices[:, 0] - 6) ** 2, [0, 0, 1]))


@pytest.mark.parametrize("call", [smooth, lambda m, **o: smooth(m, 1, 1, **o), lambda m, **o: mcf(m, 3, **o)], ids=["smooth", "order 1", "mcf"])
def test_a_border_stays_unless_it_is_free(call):
    mesh = arched()
    border = mesh.boundary_vertices
    moved = {name: np.abs(call(mesh, boundary=name)[0].vertices - mesh.vertices).max(axis=1) > 0 for name in ("fixed", "free")}
    assert not moved["fixed"][border].any() and moved["fixed"].sum() == len(mesh.vertices) - len(border) and moved["free"].all()
    assert np.array_equal(call(mesh)[0].vertices, call(mesh, boundary="fixed")[0].vertices)


def test_a_flat_sheet_stays_as_it_is():
    """Order 2 does not bend or shift a plane within its border."""
    flat = noisy_plane(9, 0.0)
    x = flat.vertices + np.c_[0.2 * np.random.default_rng(1).standard_normal((81, 2)), np.zeros(81)]
    mesh = flat.with_vertices(x)
    assert np.abs(smooth(mesh, 10)[0].vertices - x).max() < 1e-10 < 0.01 < np.abs(smooth(mesh, 10, boundary="free")[0].vertices - x).max()


def test_the_defaults_keep_thin_parts():
    """A dumbbell and a body with a limb keep 98 % of their volumes. On a sphere more than half of the noise is gone."""
    for mesh in (dumbbell(0.4, 1.5), body()):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            facts = smooth(mesh)[1].facts
        assert 0.98 < facts["volume_after"] / facts["volume_before"] < 1.02
    noise = [np.linalg.norm(smooth(noisy_sphere(4), s)[0].vertices, axis=1).std() / 0.02 for s in (0.25, 1.0)]
    assert noise[0] < 0.45 and noise[1] < 0.3


def test_a_volume_that_smoothing_loses_is_reported():
    with pytest.warns(MeshsolveWarning, match="7.% of the volume are left.*Use a smaller strength, or order=2"):
        smooth(datasets.icosphere(3), 2.5, order=1)


def test_a_component_that_smoothing_loses_is_reported():
    """A ring as thin as its edges next to a ball of 100 times its area."""
    ball, ring = datasets.icosphere(4), tube()
    with pytest.warns(MeshsolveWarning, match="1 component shrank by more than 75%"):
        smooth(Mesh(np.concatenate([ball.vertices, ring.vertices + 3]), np.concatenate([ball.faces, ring.faces + len(ball.vertices)])), 1)


@pytest.mark.parametrize("keep", ["volume", "area"])
def test_a_flow_keeps_area_or_volume(keep):
    facts = mcf(dumbbell(0.4, 1.5), 4, keep=keep)[1].facts
    assert facts[f"{keep}_after"] == pytest.approx(facts[f"{keep}_before"], rel=1e-9)


def test_an_area_that_cannot_be_kept():
    """Normal moves of one vertex of a plate only enlarge it."""
    flat = noisy_plane(5, 0.0)
    spike = flat.with_vertices(flat.vertices - np.outer(np.arange(25) == 12, [0, 0, 1]))
    shrunk = spike.with_vertices(0.1 * flat.vertices)
    with pytest.raises(MeshsolveError, match="the area .* cannot be kept by moves along the normals"):
        keeping("area", shrunk, flat, np.delete(np.arange(25), 12))


@pytest.mark.parametrize("call", [smooth, mcf, Flow])
def test_a_soup_has_no_vertex_to_move(call):
    soup = Mesh(np.random.default_rng(0).random((30, 3)), np.arange(30).reshape(10, 3))
    with pytest.raises(InvalidInputError, match="all are on the boundary or fixed; use boundary='free', or first merge"):
        call(soup)
    with pytest.raises(InvalidInputError, match="boundary must be one of"):
        call(soup, boundary="open")


def test_steps_by_hand_with_a_stopping_rule():
    ball = datasets.icosphere(3)
    flow = Flow(ball)
    while flow.mesh().volume > 0.8 * ball.volume and flow.step(0.01):
        pass
    steps = flow.finish().facts["steps"]
    assert 1 < steps < 10 and np.array_equal(flow.mesh().vertices, mcf(ball, steps, dt=0.01)[0].vertices)
    with pytest.raises(InvalidInputError, match="boundary='fixed' must not be given for the conformalized flow"):
        Flow(ball, "conformalized", boundary="fixed")
