"""Components of another size: each becomes what it becomes alone, whatever lies next to it."""

import functools

import numpy as np
import pytest
from cases import each

import meshsolve as ms

SMALL, BIG = ms.datasets.icosphere(2), ms.datasets.icosphere(3)


def noisy(ball, seed):
    return ball.vertices * (1 + 0.02 * np.random.default_rng(seed).standard_normal(len(ball.vertices)))[:, None]


def alone(ratio=1.0):
    return ms.Mesh(noisy(SMALL, 0), SMALL.faces), ms.Mesh(ratio * (noisy(BIG, 1) + 5), BIG.faces)


def together(ratio, unused=False):
    """A small sphere, and one with a finer mesh whose radius is ``ratio``; with a vertex without faces if ``unused``."""
    parts = alone(ratio)
    V = np.vstack([part.vertices for part in parts] + [[[1.0, 2, 3]]] * unused)
    return ms.Mesh(V, np.vstack([parts[0].faces, parts[1].faces + len(parts[0].vertices)]))


def stepped(mesh, method):
    flow = ms.apps.Flow(mesh, method)
    dt = flow.automatic_step()
    assert np.ndim(dt) in (0, 1) and flow.step(dt / 2) and flow.step(dt / 2)
    return flow.mesh()


SMOOTHED = {
    "smooth": lambda mesh: ms.apps.smooth(mesh)[0], "smooth of order 1": lambda mesh: ms.apps.smooth(mesh, order=1)[0],
    "smooth to the volume": lambda mesh: ms.apps.smooth(mesh, order=1, keep="volume")[0],
    "smooth to the area": lambda mesh: ms.apps.smooth(mesh, 2.0, order=1, keep="area")[0],
    "mcf": lambda mesh: ms.apps.mcf(mesh, steps=2)[0], "conformal": lambda mesh: ms.apps.mcf(mesh, steps=3, conformal=True)[0],
    "flow": lambda mesh: stepped(mesh, "mean curvature"), "bi-Laplacian": lambda mesh: stepped(mesh, "bi-Laplacian"),
    "denoise": lambda mesh: ms.apps.denoise(mesh, iterations=2)[0],
    "denoise, guided": lambda mesh: ms.apps.denoise(mesh, method="guided", iterations=1)[0],
}


@pytest.mark.filterwarnings("ignore::meshsolve.MeshsolveWarning")
@each("name", SMOOTHED)
def test_each_component_is_smoothed_as_alone(name):
    call, n = SMOOTHED[name], len(SMALL.vertices)
    for ratio in (1e-8, 1e-2, 10, 1e4):
        small, big = (call(part).vertices for part in alone(ratio))
        found = call(together(ratio)).vertices
        assert abs(found[:n] - small).max() < 1e-12 and abs(found[n:] - big).max() < 1e-12 * ratio


def test_a_far_sphere_does_not_take_digits_or_warnings():
    mesh = together(1e6, unused=True)
    out, report = ms.apps.smooth(mesh)                      # a warning would be an error
    assert report.facts["volume_after"] > 0.9 * report.facts["volume_before"] and (out.vertices[-1] == [1, 2, 3]).all()
    radius = np.linalg.norm(out.vertices[:len(SMALL.vertices)], axis=1).mean()
    assert radius == pytest.approx(1, rel=0.01)


def test_steps_of_components_are_checked():
    flow = ms.apps.Flow(together(10))
    for dt in ([0.1, 0.2], -flow.automatic_step(), np.ones((3, 3))):
        with pytest.raises(ms.InvalidInputError, match="dt must be a number, or 804 positive numbers"):
            flow.step(dt)
    assert flow.step(0.1 * flow.automatic_step()) and flow.step(1e-4)


def test_small_components_that_vanish_are_reported():
    with pytest.warns(ms.MeshsolveWarning, match="1 component shrank by more than 75%"):
        ms.apps.mcf(together(100), dt=1.0)


@each("call", [functools.partial(ms.apps.smooth), functools.partial(ms.apps.smooth, order=1), functools.partial(ms.apps.mcf, steps=2),
               functools.partial(ms.apps.mcf, steps=2, conformal=True)])
def test_on_the_gpu(cuda, call):
    mesh = together(50, unused=True)
    (host, _), (gpu, report) = (call(mesh, device=place) for place in ("cpu", "cuda"))
    assert report.facts["device"] == "cuda" and abs(host.vertices - gpu.vertices).max() < 1e-10


def test_flows_of_torch():
    torch = pytest.importorskip("torch")
    mesh = together(100)
    flowed = ms.torch.mcf(torch.from_numpy(mesh.vertices.copy()), torch.from_numpy(mesh.faces.copy()), 2)
    assert np.allclose(flowed.numpy(), ms.apps.mcf(mesh, steps=2)[0].vertices, atol=1e-9)


def test_distances_of_components():
    mesh, n = together(1e5), len(SMALL.vertices)
    small, big = alone(1e5)
    G = ms.apps.Geodesics(mesh)
    assert np.allclose(G.distance(0)[:n], ms.apps.Geodesics(small).distance(0), rtol=1e-9)
    assert np.allclose(G.distance(n)[n:], ms.apps.Geodesics(big).distance(0), rtol=1e-9)
    assert np.allclose(G.log_map(0)[:n], ms.apps.Geodesics(small).log_map(0), atol=1e-9)


TINY = {
    **{name: SMOOTHED[name] for name in ("smooth", "mcf", "denoise")},
    "Flow": ms.apps.Flow, "Geodesics": ms.apps.Geodesics, "Deformation": lambda mesh: ms.apps.Deformation(mesh, [0, len(mesh.vertices) - 1]),
    "skinning": lambda mesh: ms.apps.skinning_weights(mesh, [0, len(mesh.vertices) - 1]), "field": ms.apps.direction_field,
    "map": lambda mesh: ms.apps.parameterize(mesh, cut=True)}


@each("name", TINY)
@pytest.mark.parametrize("where", ["whole", "part"])
def test_components_whose_areas_underflow_are_refused(name, where):
    """They had distances, weights and fields of rounding errors, or were said to have no area."""
    mesh = together(1e-100) if where == "part" else ms.Mesh(1e-90 * SMALL.vertices, SMALL.faces)
    vertex = len(SMALL.vertices) if where == "part" else 0
    with pytest.raises(ms.InvalidInputError, match=f"component of vertex {vertex} is .* wide, it must be at least 1e-70"):
        TINY[name](mesh)


def test_a_component_at_one_point_is_not_tiny():
    point = ms.Mesh(np.vstack([SMALL.vertices, np.full((3, 3), 1e-9)]), np.vstack([SMALL.faces, len(SMALL.vertices) + np.arange(3)]))
    found = ms.apps.Geodesics(ms.Mesh(1e-60 * point.vertices, point.faces)).distance(0)[:-3]
    assert np.allclose(found, 1e-60 * ms.apps.Geodesics(SMALL).distance(0), rtol=1e-9)


FLAT = {"two corners coincide": [[0, 0, 0], [1, 0, 0], [1, 0, 0]], "on a line": [[0, 0, 0], [1, 0, 0], [0.3, 0, 0]],
        "a needle": [[0, 0, 0], [1, 0, 0], [1, 1e-7, 0]], "at one point": [[0, 0, 0]] * 3}


def with_a_flat_face(name, size):
    n = len(SMALL.vertices)
    return ms.Mesh(np.vstack([alone()[0].vertices, size * np.array(FLAT[name]) + 2]), np.vstack([SMALL.faces, [[n, n + 1, n + 2]]]))


@each("name", FLAT)
@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_a_component_without_area_does_not_disturb_others(name, size):
    """Its face made the matrices of all components singular, and its rounding errors were a part of the energy of a field."""
    mesh, part, n = with_a_flat_face(name, size), alone()[0], len(SMALL.vertices)
    curve = [0, *(int(v) for v in np.setdiff1d(SMALL.edges[(SMALL.edges == 0).any(axis=1)][0], 0))]
    found, expected = ms.apps.Geodesics(mesh), ms.apps.Geodesics(part)
    assert np.allclose(found.distance(0)[:n], expected.distance(0), rtol=1e-9) and np.isinf(found.distance(0)[n:]).all()
    assert np.allclose(found.transport(0, [1, 2, 3])[:n], expected.transport(0, [1, 2, 3]))
    assert np.allclose(found.signed_distance(curve)[:n], expected.signed_distance(curve))
    with pytest.raises(ms.InvalidInputError, match=f"vertex {n} is in a component whose faces have no area"):
        found.extend([0, n], [1.0, 2.0])
    at = np.linalg.norm(mesh.vertices[n:] - mesh.vertices[n], axis=1)
    assert np.allclose(found.distance([0, n])[n:], at, rtol=1e-12, atol=0)
    for options in ({}, {"fixed": ([0], [[1, 2, 3]])}, {"align": "curvature"}):
        field, expected = (ms.apps.direction_field(m, 4, **options) for m in (mesh, part))
        assert abs(field.energy - expected.energy) <= 1e-9 * abs(expected.energy) and not field.vectors[n:].any()


@each("call", {"weights": ms.apps.skinning_weights, "deformation": ms.apps.Deformation})
def test_handles_of_a_component_without_area_are_refused(call):
    call = {"weights": ms.apps.skinning_weights, "deformation": ms.apps.Deformation}[call]
    with pytest.raises(ms.InvalidInputError, match="the faces of the component of vertex 163 have no area"):
        call(with_a_flat_face("on a line", 1.0), [0, 162])
    call(with_a_flat_face("on a line", 1.0), [0, 162, 163, 164])


def test_reports_count_degenerate_faces():
    mesh = with_a_flat_face("on a line", 1.0)
    for report in (ms.apps.smooth(mesh)[1], ms.apps.mcf(mesh)[1], ms.apps.denoise(mesh, iterations=1)[1]):
        assert report.facts["degenerate_faces"] == 1
    disc = ms.Mesh([[0, 0, 0], [2, 0, 0], [0, 2, 0], [1, 1, 0], [2, 2, 0]], [[0, 1, 3], [0, 3, 2], [1, 2, 3], [1, 4, 2]])
    assert ms.apps.parameterize(disc)[1].facts["degenerate_faces"] == 1 and disc.degenerate_faces.tolist() == [2]


@pytest.mark.parametrize("threads", [1, 2])
@each("ratio", [1e-8, 1.0, 1e7])
def test_each_component_is_deformed_as_alone(ratio, threads):
    """ARAP began with one rigid motion for all components, and ended by the sum of their energies."""
    parts, n, rng = alone(ratio), len(SMALL.vertices), np.random.default_rng(0)
    handles = [np.array([0, 7, 50]), np.array([3, 100, 400])]
    moves = [[size * rng.standard_normal((3, 3)) for size in (0.3, 0.3 * ratio)] for _ in range(2)]
    whole = ms.apps.Deformation(together(ratio, unused=True), np.concatenate([handles[0], handles[1] + n]), threads=threads)
    single = [ms.apps.Deformation(part, h, threads=threads) for part, h in zip(parts, handles, strict=True)]
    for move, iterations in zip(moves, (30, 4), strict=True):
        to = [part.vertices[h] + m for part, h, m in zip(parts, handles, move, strict=True)]
        found = whole.move(np.vstack(to), iterations=iterations).vertices
        small, big = (D.move(at, iterations=iterations).vertices for D, at in zip(single, to, strict=True))
        assert abs(found[:n] - small).max() < 1e-9 and abs(found[n:-1] - big).max() < 1e-9 * ratio
        assert whole.iterations == max(D.iterations for D in single)
        assert np.isclose(whole.energy, sum(D.energy for D in single))


def test_sources_of_another_component_are_no_nearest_sources():
    """The straight distance to the nearest source of all bounded distances from below."""
    parts, n = alone(1.0), len(SMALL.vertices)
    mesh = ms.Mesh(np.vstack([parts[0].vertices, parts[0].vertices[::-1]]), np.vstack([parts[0].faces, n - 1 - parts[0].faces[:, ::-1] + n]))
    found, expected = ms.apps.Geodesics(mesh).distance([0, n]), ms.apps.Geodesics(parts[0]).distance(0)
    assert np.allclose(found[:n], expected, rtol=1e-9)


def test_two_handles_that_move_alike_do_not_turn_the_surface():
    """The rigid motions of points on a line turn around it by any angle."""
    for handles in ([0, 5], [0, 11, 100], [3]):
        for shift in ([1, 2, 3], [0, 0, 1e-3]):
            moved = ms.apps.Deformation(SMALL, handles).move(SMALL.vertices[handles] + shift)
            assert np.allclose(moved.vertices, SMALL.vertices + shift, atol=1e-9)
