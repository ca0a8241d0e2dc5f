"""Polygons: triangles give cotangents, linear functions stay exact, the spectrum of a sphere of hexagons, and bad input."""

from fractions import Fraction

import numpy as np
import pytest
from cases import each

import meshsolve as ms
from meshsolve.operators import divergence, gradient

SPHERE = ms.datasets.icosphere(2)


def dual(sphere):
    """The polygon of the faces around each vertex of an icosphere, corners on the unit sphere."""
    centers = sphere.vertices[sphere.faces].mean(axis=1)
    indptr, faces = ms.PatchMesh(sphere).query("VF")
    vertex = np.repeat(np.arange(len(sphere.vertices)), np.diff(indptr))
    offset, normal = centers[faces] - sphere.vertices[vertex], sphere.vertices[vertex]
    u = np.cross(normal, [0.3, 0.4, 0.8])
    angle = np.arctan2((offset * np.cross(normal, u)).sum(axis=1) / np.linalg.norm(u, axis=1), (offset * u).sum(axis=1))
    order = np.lexsort((angle, vertex))
    return ms.PolygonMesh(centers / np.linalg.norm(centers, axis=1)[:, None], (faces[order], indptr))


def quads(k=6, noise=0.3):
    """A flat square of irregular quads, some of which are not convex."""
    y, x = np.divmod(np.arange((k + 1) ** 2), k + 1)
    inside = (x > 0) & (x < k) & (y > 0) & (y < k)
    points = np.stack([x, y, 0.0 * x], axis=1)
    points[inside, :2] += noise * np.random.default_rng(0).uniform(-1, 1, (inside.sum(), 2))
    i = np.arange((k + 1) ** 2).reshape(k + 1, k + 1)
    corners = np.stack([part.ravel() for part in (i[:-1, :-1], i[:-1, 1:], i[1:, 1:], i[1:, :-1])], axis=1)
    return ms.PolygonMesh(points, [row.tolist() for row in corners]), inside


def test_triangles_give_cotangents():
    mesh = ms.PolygonMesh(SPHERE.vertices, list(SPHERE.faces))
    assert abs(ms.cotan_laplacian(mesh) - ms.cotan_laplacian(SPHERE)).max() < 1e-13
    assert np.allclose(ms.mass_matrix(mesh).diagonal(), ms.mass_matrix(SPHERE).diagonal(), rtol=1e-12)


def test_the_spectrum_of_hexagons_on_a_sphere():
    mesh = dual(SPHERE)
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    w, _, _ = ms.eigsh(L, 9, M=M)
    assert np.allclose(w, [0, 2, 2, 2, 6, 6, 6, 6, 6], atol=0.12) and abs(L.sum(axis=1)).max() < 1e-13 and M.diagonal().min() > 0
    assert (L != L.T).nnz == 0 and np.isclose(M.sum(), mesh.fan.face_areas.sum()) and np.linalg.eigvalsh(L.toarray()).min() > -1e-12


@pytest.mark.parametrize("noise", [0.0, 0.3, 0.45])
@pytest.mark.parametrize("scale", [1e-8, 1, 1e8])
def test_linear_functions_are_exact_on_flat_polygons(noise, scale):
    mesh, inside = quads(noise=noise)
    mesh = ms.PolygonMesh(scale * mesh.vertices + [0, 0, 5 * scale], (mesh.indices, mesh.offsets))
    L, G = ms.cotan_laplacian(mesh), gradient(mesh)
    assert abs((L @ mesh.vertices)[inside]).max() < 1e-11 * abs(L).max() * scale
    assert np.allclose((G @ (mesh.vertices @ [2.0, -1, 7])).reshape(3, -1).T, [2, -1, 0], atol=1e-8)
    assert abs(divergence(mesh) @ G + L).max() < 1e-12 * abs(L).max() and np.isclose(ms.mass_matrix(mesh).sum(), 36 * scale**2)


def test_a_solution_on_polygons():
    """-laplace u = 1 on a square with u = 0 around it: 0.07367 times the squared side in the middle."""
    mesh, inside = quads(16, 0.2)
    u = ms.cholesky(ms.cotan_laplacian(mesh), fixed=np.flatnonzero(~inside)).solve(ms.mass_matrix(mesh).diagonal())
    assert u.max() == pytest.approx(0.07367 * 256, rel=0.02)
    consistent = ms.mass_matrix(mesh, "consistent")
    assert np.isclose(consistent.sum(), 256) and np.allclose(consistent.sum(axis=1), ms.mass_matrix(mesh).diagonal())


def test_polygons_far_from_convex_have_no_negative_masses():
    """The point of the least squared areas would give vertex 2 a negative mass."""
    star = [[0.59, 0.11], [0.07, 0.02], [0.7, 0.3], [0.02, 0.01], [-0.02, 0.05], [-0.44, 0.87], [-0.2, -0.29], [-0.01, -0.04], [0.02, -0.01],
            [0.18, -0.04]]
    points = np.column_stack([star, np.zeros(10)])
    mesh = ms.PolygonMesh(points, [list(range(10))])
    assert ms.mass_matrix(mesh).diagonal().min() >= 0 and float(ms.mass_matrix(mesh).sum()) == pytest.approx(shoelace(star), rel=1e-13)


def shoelace(corners):
    """The exact area of a plane polygon."""
    x, y = ([Fraction(v) for v in column] for column in np.asarray(corners, float).T)
    return float(abs(sum(x[k - 1] * y[k] - x[k] * y[k - 1] for k in range(len(x)))) / 2)


TURNS = np.linspace(0, 1.5 * np.pi, 20)
CRESCENT = np.vstack([np.c_[np.cos(TURNS), np.sin(TURNS)], 0.8 * np.c_[np.cos(TURNS), np.sin(TURNS)][::-1]])
COMB = [(0, 0), (7, 0), (7, 9), (6, 9), (6, 1), (5, 1), (5, 9), (4, 9), (4, 1), (3, 1), (3, 9), (2, 9), (2, 1), (1, 1), (1, 9), (0, 9)]
CONCAVE = {"U": [(0, 0), (5, 0), (10, 0), (10, 10), (9, 10), (9, 1), (2, 1), (2, 10), (0, 10)], "comb": COMB, "crescent": CRESCENT,
           "Z": [(0, 0), (3, 0), (3, 3), (5, 3), (5, 4), (2, 4), (2, 1), (0, 1)], "L": [(0, 0), (2, 0), (2, 1), (1, 1), (1, 2), (0, 2)],
           "arrow": [(0, 0), (10, 1), (20, 0), (10, 2)]}


@each("name, unit, turned", [(name, unit, turned) for name in CONCAVE for unit in (1.0, 1e-30, 1e30) for turned in (False, True)])
def test_concave_polygons_have_their_shoelace_area(name, unit, turned):
    """Two copies with a common side, one of them reversed, in an oblique plane."""
    corners = np.asarray(CONCAVE[name], float)[::-1 if turned else 1]
    k, right = len(corners), shoelace(corners) * unit**2
    frame = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0][:2]
    mirrored = np.column_stack([2 * corners[0, 0] - corners[:, 0], corners[:, 1]])
    V = np.vstack([corners, mirrored[1:]]) @ frame * unit
    mesh = ms.PolygonMesh(V, [list(range(k)), [0, *range(k, 2 * k - 1)]])
    L, P = ms.cotan_laplacian(mesh), V @ frame.T
    assert len(mesh.fan.faces) == 2 * k and len(mesh.fan.vertices) == len(V) + 2
    assert float(ms.mass_matrix(mesh).sum()) == pytest.approx(2 * right, rel=1e-11)
    assert float(ms.mass_matrix(mesh, "consistent").sum()) == pytest.approx(2 * right, rel=1e-11)
    assert np.allclose(P.T @ (L @ P), 2 * right * np.eye(2), rtol=1e-9, atol=1e-9 * right)
    assert abs(L.sum(axis=1)).max() < 1e-12 * abs(L).max()
    slopes = (gradient(mesh) @ (V @ [1.0, 2, 3])).reshape(3, -1).T
    assert np.allclose(slopes, frame.T @ (frame @ [1.0, 2, 3]), atol=1e-6)


def test_a_polygon_that_crosses_itself_is_reported():
    bow = ms.PolygonMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [3, 3, 0]], [[0, 1, 2, 3], [1, 4, 3]])
    with pytest.warns(ms.MeshsolveWarning, match="PolygonMesh: 1 polygon intersects itself"):
        assert ms.mass_matrix(bow).diagonal().min() > 0


def test_degenerate_polygons_stay_finite():
    mesh = ms.PolygonMesh([[0, 0, 0], [1, 0, 0], [2, 0, 0], [3, 0, 0], [0, 0, 0], [0, 0, 0], [9, 9, 9]], [[0, 1, 2, 3], [0, 4, 5]])
    for A in (ms.cotan_laplacian(mesh), ms.mass_matrix(mesh), gradient(mesh)):
        assert np.isfinite(A.data).all()
    assert len(mesh) == 2 and repr(mesh) == "PolygonMesh(7 vertices, 2 polygons)" and ms.mass_matrix(mesh).diagonal()[6] == 0


@pytest.mark.parametrize(("faces", "message"), [
    ([[0, 1, 2], [0, 1]], r"polygon 1 has fewer than three corners: \[0, 1\]"), ([[0, 1, 2], [1, 2, 9]], r"polygon 1 has a corner outside the vertices 0..4"),
    ([[0, 1, 2, 1]], "polygon 0 has a repeated corner"), ([], "faces must be lists"), ([[0, 1, 2.5]], "faces must be lists"),
    (([0, 1, 2], [0, 2]), "offsets must ascend from 0 to 3"), (([0, 1, 2], [0, 5, 3]), "offsets must ascend"), (([0, 1, 2], [1, 3]), "offsets must ascend")])
def test_bad_polygons(faces, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.PolygonMesh(np.eye(5, 3), faces)


HOUSE = ms.PolygonMesh([[0, 0, 0.1], [1, 0, 1 / 3], [1, 1, -0.0], [0.5, 1.5, 1e-300], [0, 1, 1e30]], [[0, 1, 2, 3, 4], [4, 2, 3], [0, 1, 2, 4]])


@pytest.mark.parametrize("name", ["house.obj", "house.ply", "house.off", "HOUSE.OBJ", "house.ply.gz", "house.off.gz"])
def test_polygons_of_files(name, tmp_path):
    """Bits of positions, order and corners of polygons; load_mesh cuts the same polygons to triangles."""
    HOUSE.save(tmp_path / name)
    again = ms.PolygonMesh.load(tmp_path / name)
    assert again.vertices.tobytes() == HOUSE.vertices.tobytes()
    assert np.array_equal(again.indices, HOUSE.indices) and np.array_equal(again.offsets, HOUSE.offsets)
    assert len(ms.load_mesh(tmp_path / name).faces) == 6


def test_polygons_of_many_corners(tmp_path):
    """More than 255, and data that are not read."""
    angle = np.linspace(0, 2 * np.pi, 300, endpoint=False)
    disc = ms.PolygonMesh(np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1), [range(300), [0, 1, 2]])
    for kind in ("ply", "off", "obj"):
        disc.save(tmp_path / f"disc.{kind}")
        assert np.array_equal(ms.PolygonMesh.load(tmp_path / f"disc.{kind}").indices, disc.indices)
    (tmp_path / "uv.obj").write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nvt 0 0\nf 1/1 2/1 3/1 4/1\nf -4 -3 -2\n")
    assert ms.PolygonMesh.load(tmp_path / "uv.obj").offsets.tolist() == [0, 4, 7]


@pytest.mark.parametrize(("name", "text", "error"), [
    ("a.obj", "v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3 9\n", r"a.obj:4: "), ("a.off", "OFF\n3 1 0\n0 0 0\n1 0 0\n1 1 0\n3 0 1 7\n", "a.off"),
    ("a.obj", "v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\nf 1 2 2 3\n", "a.obj: polygon 1 has a repeated corner"), ("a.obj", "v 0 0 0\n", "0 faces"),
    ("a.stl", "solid\n", "unknown mesh format '.stl'; use one of .obj, .ply, .off"), ("a.off", "", "empty")])
def test_bad_polygon_files(name, text, error, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ms.InvalidInputError, match=error):
        ms.PolygonMesh.load(tmp_path / name)


def test_files_that_are_missing_or_have_small_faces(tmp_path):
    with pytest.raises(ms.InvalidInputError, match="no such file"):
        ms.PolygonMesh.load(tmp_path / "none.obj")
    with pytest.raises(ms.InvalidInputError, match="unknown mesh format '.vtu'"):
        HOUSE.save(tmp_path / "house.vtu")
    (tmp_path / "a.off").write_text("OFF\n3 2 0\n0 0 0\n1 0 0\n1 1 0\n2 0 1\n3 0 1 2\n")
    with pytest.warns(ms.MeshsolveWarning, match="dropped 1 face with fewer"):
        assert len(ms.PolygonMesh.load(tmp_path / "a.off")) == 1
