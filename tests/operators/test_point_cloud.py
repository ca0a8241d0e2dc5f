"""Point clouds: stars against planar Delaunay triangulations, operators and distances against meshes and closed forms, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from scipy.spatial import ConvexHull, Delaunay

import meshsolve as ms
from meshsolve import _core


def on_sphere(n, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, 3))
    return x / np.linalg.norm(x, axis=1)[:, None]


def in_plane(points):
    return np.column_stack([points, np.zeros(len(points))])


def grid(nx, ny):
    return in_plane(np.stack(np.meshgrid(np.arange(float(nx)), np.arange(float(ny)), indexing="ij"), axis=-1).reshape(-1, 2))


def triangles_of(cloud):
    """Distinct triangles of a cloud, and how often each occurs."""
    return np.unique(cloud.stars.faces, axis=0, return_counts=True)


RANDOM = on_sphere(500)


def test_stars_in_a_plane_are_the_delaunay_triangulation():
    """Inside of the unit square, where no star lacks neighbors; a turned plane far from the origin."""
    points = np.random.default_rng(1).random((400, 2))
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    found, count = triangles_of(ms.PointCloud(in_plane(points) @ turn + 100))
    expected = np.unique(np.sort(Delaunay(points).simplices, axis=1), axis=0)
    inside = lambda faces: faces[((points[faces] > 0.15) & (points[faces] < 0.85)).all(axis=(1, 2))]
    assert np.array_equal(inside(found), inside(expected)) and len(inside(found)) > 200
    assert (count[((points[found] > 0.15) & (points[found] < 0.85)).all(axis=(1, 2))] == 3).all()


def test_rounds_number_the_copies_of_a_triangle():
    cloud = ms.PointCloud(RANDOM)
    order = np.lexsort((cloud.rounds, *cloud.stars.faces.T[::-1]))
    faces, rounds = cloud.stars.faces[order], cloud.rounds[order]
    is_copy = (faces[1:] == faces[:-1]).all(axis=1)
    assert np.array_equal(rounds[1:], np.where(is_copy, rounds[:-1] + 1, 0)) and rounds.max() == 2


def test_points_of_a_mesh_give_its_laplacian():
    """On an icosphere all stars agree: the Laplacian, masses and distances are those of the mesh."""
    mesh = ms.datasets.icosphere(3)
    cloud = ms.PointCloud(mesh.vertices)
    assert abs(ms.cotan_laplacian(cloud) - ms.cotan_laplacian(mesh)).max() < 1e-13
    assert abs(ms.mass_matrix(cloud) - ms.mass_matrix(mesh)).max() < 1e-15
    assert np.allclose(ms.apps.Geodesics(cloud).distance(5), ms.apps.Geodesics(mesh).distance(5), atol=1e-10)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e5])
def test_laplacian_of_random_points(unit):
    """Constants in the kernel, no positive weight, semidefinite, in any unit; the spectrum and area of the sphere."""
    cloud = ms.PointCloud(RANDOM * unit)
    L, M = ms.cotan_laplacian(cloud), ms.mass_matrix(cloud)
    dense = L.toarray()
    assert abs(dense - dense.T).max() == 0 and abs(dense.sum(axis=1)).max() < 1e-11 * dense.max() and (dense - np.diag(dense.diagonal())).max() <= 0
    assert np.linalg.eigvalsh(dense)[0] > -1e-11 * dense.max()
    assert M.diagonal().min() > 0 and abs(M.sum() / (4 * np.pi * unit**2) - 1) < 0.025
    w = ms.eigsh(L, 9, M=M)[0] * unit**2
    assert abs(w[1:4] - 2).max() < 0.06 and abs(w[4:] - 6).max() < 0.3


def test_distances_are_as_accurate_as_those_of_a_mesh():
    exact = np.arccos(np.clip(RANDOM @ RANDOM[0], -1, 1))
    error = lambda surface: abs(ms.apps.Geodesics(surface).distance(0) - exact).mean() / exact.mean()
    assert error(ms.PointCloud(RANDOM)) < 1.1 * error(ms.Mesh(RANDOM, ConvexHull(RANDOM).simplices)) < 0.04


def test_distances_on_a_torus():
    """From the outer equator. The quads of the grid lie on circles: the diagonals of all stars agree."""
    u, v = (a.ravel() for a in np.meshgrid(2 * np.pi * np.arange(60) / 60, 2 * np.pi * np.arange(24) / 24, indexing="ij"))
    x = np.stack([(1 + 0.4 * np.cos(v)) * np.cos(u), (1 + 0.4 * np.cos(v)) * np.sin(u), 0.4 * np.sin(v)], axis=1)
    cloud = ms.PointCloud(x)
    assert (triangles_of(cloud)[1] == 3).all() and len(triangles_of(cloud)[0]) == 2 * len(x)
    exact = 0.4 * np.abs(np.arctan2(np.sin(v), np.cos(v)))
    assert abs(ms.apps.Geodesics(cloud).distance(np.arange(0, len(x), 24)) - exact).mean() < 0.01
    assert abs(ms.mass_matrix(cloud).sum() / (4 * np.pi**2 * 0.4) - 1) < 0.02


def test_a_grid_has_its_area_and_a_boundary():
    """Four points of each square lie on a circle, and points of the boundary on lines."""
    cloud = ms.PointCloud(grid(12, 9), neighbors=12)
    assert ms.mass_matrix(cloud).sum() == pytest.approx(88) and (triangles_of(cloud)[1] == 3).all()
    assert ms.eigsh(ms.cotan_laplacian(cloud), 2, M=ms.mass_matrix(cloud))[0][1] == pytest.approx((np.pi / 11) ** 2, rel=0.03)


def test_results_do_not_depend_on_threads(monkeypatch):
    results = []
    for threads in ("1", "3"):
        monkeypatch.setenv("MESHSOLVE_NUM_THREADS", threads)
        cloud = ms.PointCloud(RANDOM, neighbors=12)
        results.append((cloud.normals.tobytes(), cloud.stars.faces.tobytes(), ms.cotan_laplacian(cloud).data.tobytes(),
                        ms.apps.Geodesics(cloud, threads=int(threads)).distance(3).tobytes()))
    assert results[0] == results[1]


@pytest.mark.native
def test_many_points_on_threads():
    """Several blocks of points and of edges."""
    x = on_sphere(3000)
    nearest = ms.PointCloud(x, neighbors=10)._nearest.reshape(-1)
    normals = [_core.plane_normals(x.reshape(-1), nearest, threads) for threads in (1, 3)]
    stars = [_core.delaunay_stars(x.reshape(-1), nearest, normals[0], threads) for threads in (1, 3)]
    assert np.array_equal(*normals) and all(np.array_equal(*pair) for pair in zip(*stars))
    sides = ms.Mesh(x, stars[0][0].reshape(-1, 3))
    covers = [_core.tufted_cover(stars[0][0], sides.side_edges.reshape(-1), len(sides.edges), np.zeros(len(stars[0][0])), stars[0][1], threads)
              for threads in (1, 3)]
    assert all(np.array_equal(*pair) for pair in zip(*covers))


def test_normals():
    """Planes of least squares; given normals of any length and sign."""
    assert abs(abs((ms.PointCloud(RANDOM).normals * RANDOM).sum(axis=1)) - 1).max() < 0.02
    given = ms.PointCloud(RANDOM, RANDOM * np.where(np.arange(500) % 2, 3.0, -0.1)[:, None])
    assert np.allclose(abs((given.normals * RANDOM).sum(axis=1)), 1)
    exact, fitted = (ms.mass_matrix(cloud).sum() for cloud in (given, ms.PointCloud(RANDOM)))
    assert abs(exact - fitted) < 0.05


def test_close_sheets_stay_apart():
    """Two spheres at less than the distance of adjacent points: neighborhoods have points of both, yet no triangle joins them."""
    mesh = ms.datasets.icosphere(2)
    cloud = ms.PointCloud(np.vstack([mesh.vertices, 1.2 * mesh.vertices]))
    assert mesh.edge_lengths.min() > 0.25 and len(np.unique(cloud.components)) == 2
    assert ms.mass_matrix(cloud).sum() == pytest.approx(2.44 * mesh.face_areas.sum())


def test_components_are_infinitely_far():
    cloud = ms.PointCloud(np.vstack([RANDOM, RANDOM + [10, 0, 0]]), neighbors=12)
    G = ms.apps.Geodesics(cloud)
    d = G.distance(0)
    assert np.isinf(d[500:]).all() and np.isfinite(d[:500]).all()
    assert np.isfinite(G.each([0, 500])[:500, 0]).all() and np.isnan(G.extend([0], [2.0])[500:]).all() and len(np.unique(cloud.components)) == 2


NUDGES = 1e-10 * np.random.default_rng(5).standard_normal(RANDOM.shape)
COPIES = {"twice": np.repeat(RANDOM, 2, axis=0), "thrice": np.tile(RANDOM, (3, 1)), "nine times": np.repeat(RANDOM, 9, axis=0),
          "some": np.vstack([RANDOM[:100], np.tile(RANDOM[7], (50, 1)), RANDOM]), "nearly": np.vstack([RANDOM, RANDOM + NUDGES, RANDOM])}


@each("name, unit", [(name, unit) for name in COPIES for unit in (1.0, 1e-50, 1e50)])
def test_copies_have_the_operators_of_their_position(name, unit):
    """Areas, eigenvalues and distances are those without copies, to rounding. Eigenvectors have one value at a position."""
    points = COPIES[name] * unit
    cloud, alone = ms.PointCloud(points), ms.PointCloud(COPIES[name][np.sort(np.unique(COPIES[name].round(6), axis=0, return_index=True)[1])] * unit)
    assert np.array_equal(cloud.vertices, points) and len(cloud.firsts) == len(alone) == 500 and cloud.has_copies and not alone.has_copies
    position, (L, M), (L1, M1) = cloud.position, *((ms.cotan_laplacian(c), ms.mass_matrix(c)) for c in (cloud, alone))
    assert np.allclose(np.bincount(position, M.diagonal()), M1.diagonal(), rtol=1e-12, atol=0)
    assert np.allclose(M.diagonal(), (M1.diagonal() / np.bincount(position))[position], rtol=1e-12, atol=0)
    assert abs(L - L.T).max() == 0 and abs(L.sum(axis=1)).max() < 1e-11 * L.max() and sp.triu(L, 1).max() <= 0
    x = np.random.default_rng(0).standard_normal((500, 2))
    assert np.allclose(sp.csr_array((np.ones(len(points)), (position, np.arange(len(points))))) @ (L @ x[position]), L1 @ x, atol=1e-10)
    if unit == 1:
        w, X, info = ms.eigsh(L, 9, M=M)
        assert info.converged and np.allclose(w, ms.eigsh(L1, 9, M=M1)[0], rtol=1e-5, atol=1e-8)
        assert abs(X - X[cloud.firsts][position]).max() < 1e-3
    G, G1 = ms.apps.Geodesics(cloud), ms.apps.Geodesics(alone)
    assert np.array_equal(G.distance([1, 5]), G1.distance(position[[1, 5]])[position])
    assert np.array_equal(G.each([[0, 3], [4]]), G1.each([position[[0, 3]], position[[4]]])[position])
    assert np.array_equal(G.extend([0, 9], [1.0, 2.0]), G1.extend(position[[0, 9]], [1.0, 2.0])[position])
    assert np.array_equal(cloud.components, np.zeros(len(points)))


def test_normals_and_corners_of_copies():
    """A triangle soup as a cloud: its corners are copies. Each copy has the normal of its position."""
    mesh = ms.datasets.icosphere(3)
    soup = mesh.vertices[mesh.faces].reshape(-1, 3)
    cloud = ms.PointCloud(soup, normals=soup)
    assert float(ms.mass_matrix(cloud).sum()) == pytest.approx(mesh.face_areas.sum(), rel=1e-9) and np.allclose(cloud.normals, soup)
    assert np.allclose(abs((ms.PointCloud(soup).normals * soup).sum(axis=1)), 1, atol=1e-3)
    assert np.allclose(ms.apps.Geodesics(cloud).distance(0), ms.apps.Geodesics(mesh).distance(mesh.faces[0, 0])[mesh.faces.ravel()], atol=1e-9)


def test_copies_do_not_count_as_points():
    with pytest.raises(ms.InvalidInputError, match="neighbors=30 must be less than the number of positions of points, 12.*neighbors=11 or less"):
        ms.PointCloud(np.tile(ms.datasets.icosphere(0).vertices, (9, 1)))
    with pytest.raises(ms.InvalidInputError, match="number of positions of points, 1: give more points$"):
        ms.PointCloud(np.ones((50, 3)))


def test_few_neighbors_are_reported():
    with pytest.warns(ms.MeshsolveWarning, match="neighbors=5 are too few: a triangle is in the stars of 1.8 of its 3 corners"):
        ms.mass_matrix(ms.PointCloud(RANDOM, neighbors=5))
    ms.mass_matrix(ms.PointCloud(ms.datasets.icosphere(3).vertices, neighbors=12))


def test_a_point_whose_neighbors_lie_on_a_line_is_alone():
    line = np.column_stack([np.arange(100.0, 130), np.zeros(30), np.zeros(30)])
    cloud = ms.PointCloud(np.vstack([grid(8, 8), line]), neighbors=8)
    with pytest.warns(ms.MeshsolveWarning, match="30 points without triangles, because the neighbors lie on a line; the first is 64"):
        d = ms.apps.Geodesics(cloud).distance(0)
    assert np.isinf(d[64:]).all() and np.isfinite(d[:64]).all() and (ms.mass_matrix(cloud).diagonal()[64:] == 0).all()


def test_operators_without_a_meaning_name_the_right_call():
    cloud = ms.PointCloud(RANDOM)
    for call in (ms.operators.gradient, ms.operators.divergence):
        with pytest.raises(ms.InvalidInputError, match="intrinsic_delaunay"):
            call(cloud)
    triangles = ms.operators.intrinsic_delaunay(cloud)
    L, G, D = triangles.laplacian(), triangles.gradient(), triangles.divergence()
    assert abs(D @ G + L).max() < 1e-9 * L.max()
    L.data *= 2
    assert abs(ms.cotan_laplacian(cloud) - ms.operators.intrinsic_delaunay(cloud).laplacian()).max() == 0


def test_files(tmp_path):
    mesh = ms.datasets.icosphere(2)
    for name in ("a.ply", "a.obj", "a.off.gz"):
        mesh.save(tmp_path / name)
        assert np.array_equal(ms.PointCloud.load(tmp_path / name, neighbors=20).vertices, mesh.vertices)
    mesh.save(tmp_path / "a.ply", fields={"normal": mesh.vertices})
    assert np.allclose(ms.PointCloud.load(tmp_path / "a.ply").normals, mesh.vertices, atol=1e-6)
    (tmp_path / "points.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in mesh.vertices))
    assert len(ms.PointCloud.load(tmp_path / "points.obj")) == 162
    with pytest.raises(ms.InvalidInputError, match=r"points.obj: the file has 162 vertices and 0 faces; .* ms.PointCloud.load"):
        ms.load_mesh(tmp_path / "points.obj")
    (tmp_path / "few.obj").write_text("v 0 0 0\nv 1 0 0\n")
    with pytest.raises(ms.InvalidInputError, match="few.obj: neighbors=30 must be less than the number of points, 2"):
        ms.PointCloud.load(tmp_path / "few.obj")
