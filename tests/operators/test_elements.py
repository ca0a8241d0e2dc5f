"""Degenerate triangles and cells: Gauss-Bonnet, meshes without copies, exact solutions, units, and neighbors that keep their bits."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from scipy.linalg import eigh
from scipy.spatial import Delaunay

import meshsolve as ms
from meshsolve.mesh import elements, measures
from meshsolve.operators import curvatures, divergence, gradient, intrinsic_delaunay

GAPS = [0.0, 1e-300, 1e-12, 3e-8, 1e-6]


def grid(n):
    x, y = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    i = np.arange(n * n).reshape(n, n)
    a, b, c, d = i[:-1, :-1].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel(), i[:-1, 1:].ravel()
    return np.stack([x.ravel(), y.ravel(), 0 * x.ravel()], axis=1), np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])


def split(V, F, p, count, gap=0.0):
    """The first ``count`` faces around the inner vertex p get a copy of it, joined to p by two faces; gap 1 would be in their middle."""
    after = {int(f[k - 2]): (int(f[k - 1]), t) for t, f in enumerate(F) for k in range(3) if f[k] == p}
    walk = [min(after)]
    while len(walk) < len(after):
        walk.append(after[walk[-1]][0])
    F, new = F.copy(), len(V)
    for v in walk[:count]:
        F[after[v][1]] = np.where(F[after[v][1]] == p, new, F[after[v][1]])
    middle = V[walk[:count + 1]].mean(axis=0)
    return np.vstack([V, V[p] + gap * (middle - V[p])]), np.vstack([F, [[p, walk[0], new], [new, walk[count], p]]])


def cap(V, F, t):
    """A vertex in the middle of side 0 of face t, with a face of no area on it."""
    a, b, c = F[t]
    return np.vstack([V, (V[a] + V[b]) / 2]), np.vstack([np.delete(F, t, 0), [[a, len(V), c], [len(V), b, c], [a, b, len(V)]]])


def total(mesh):
    """The sum of the Gaussian curvature over 2 pi, minus the Euler characteristic."""
    return curvatures(mesh).gaussian.sum() / (2 * np.pi) - (len(mesh.vertices) - len(mesh.edges) + len(mesh.faces))


def globe(n, m):
    """A sphere of latitudes and longitudes whose poles are repeated."""
    u, v = np.meshgrid(np.linspace(0, np.pi, n), np.linspace(0, 2 * np.pi, m, endpoint=False), indexing="ij")
    V = np.stack([np.sin(u) * np.cos(v), np.sin(u) * np.sin(v), np.cos(u)], axis=-1)
    V[-1] = V[-1, 0]
    i = np.arange(n * m).reshape(n, m)
    a, b, c, d = i[:-1].ravel(), i[1:].ravel(), np.roll(i[1:], -1, 1).ravel(), np.roll(i[:-1], -1, 1).ravel()
    return ms.Mesh(V.reshape(-1, 3), np.vstack([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]))


@each("gap", GAPS)
def test_copies_of_a_vertex_do_not_bend_a_plate(gap):
    """Half of the faces get the copy, or two of six: the copy has another angle than the vertex."""
    V, F = grid(11)
    plain = ms.apps.Geodesics(ms.Mesh(V, F))
    for count in (2, 3):
        mesh = ms.Mesh(*split(V, F, 60, count, gap))
        assert mesh.is_manifold and abs(total(mesh)) < 1e-12
        G = ms.apps.Geodesics(mesh)
        assert abs(G.transport(0, [1, 2, 0])[:121] - [1, 2, 0]).max() < 1e-6
        for method in ("vector", "affine"):
            assert abs(G.log_map(0, method)[:121] @ G.frames[0] - plain.log_map(0, method) @ plain.frames[0]).max() < 0.03
        assert not ms.apps.direction_field(mesh, power=4).index.any()


@each("mesh", [globe(9, 12), ms.Mesh(np.round(4 * ms.datasets.icosphere(3).vertices), ms.datasets.icosphere(3).faces),
               ms.Mesh(np.zeros((12, 3)), ms.datasets.icosphere(0).faces), ms.Mesh(np.round(ms.datasets.icosphere(2).vertices), ms.datasets.icosphere(2).faces)])
def test_angles_obey_gauss_bonnet(mesh):
    for unit in (1, 1e-300, 1e-80, 1e60):
        assert abs(total(mesh.with_vertices(unit * mesh.vertices))) < 1e-12
    assert np.allclose(measures.corner_angles(mesh.vertices, mesh.faces).sum(axis=1), np.pi)
    assert (ms.cotan_laplacian(mesh).diagonal() > 0).all() and np.isfinite(intrinsic_delaunay(mesh).weights).all()


def test_copies_have_the_normals_and_curvatures_of_their_vertex():
    ball = ms.datasets.icosphere(3)
    for count in (1, 2, 3):
        V, F = split(*split(ball.vertices, ball.faces, 200, count), 300, 2)
        mesh, copied = ms.Mesh(V, F), [200, 300, 642, 643]
        right, found = curvatures(ball), curvatures(mesh)
        assert abs(mesh.vertex_normals[copied] - ball.vertex_normals[[200, 300, 200, 300]]).max() < 1e-12
        assert abs(found.principal - 1).max() < 0.02 and abs(found.principal[:642] - right.principal).max() < 1e-5
        assert np.isclose(found.gaussian[[200, 642]].sum(), right.gaussian[200], atol=1e-6) and abs(total(mesh)) < 1e-12
        assert np.isclose(found.mean.sum(), right.mean.sum(), atol=1e-6)


def test_ordinary_faces_keep_their_bits():
    """Angles, weights and gradients of the others, beside a degenerate face; lengths of a tiny part, far from a large one."""
    V, F = grid(9)
    x = V + np.sin(30 * V[:, [1, 2, 0]]) / 40
    W, H = split(x, F, 40, 3)
    touched = np.isin(H, [40, 81]).any(axis=1)
    same = np.flatnonzero(~touched)
    assert np.array_equal(measures.corner_angles(W, H)[same], measures.corner_angles(W, H[same]))
    assert np.array_equal(gradient(ms.Mesh(W, H))[same].data, gradient(ms.Mesh(W, H[same]))[:len(same)].data)
    n = len(V)
    both = ms.Mesh(np.vstack([1e-9 * x, W + 5]), np.vstack([F, H + n]))
    near, alone = intrinsic_delaunay(both).laplacian()[:n, :n], intrinsic_delaunay(ms.Mesh(x, F)).laplacian()
    assert abs(near - alone).max() < 1e-6 * abs(alone).max() and ms.Mesh(W, H).degenerate_faces.tolist() == [len(F), len(F) + 1]


def test_faces_without_area_are_exact_for_linear_functions():
    V, F = grid(6)
    for t in (3, 17, 20, 9):
        V, F = cap(V, F, t)
    V, F = split(V, F, 14, 2)
    mesh, u = ms.Mesh(V, F), V @ [1.0, -2, 0]
    border = np.flatnonzero((V[:, :2] == 0).any(axis=1) | (V[:, :2] == 1).any(axis=1))
    for L in (ms.cotan_laplacian(mesh), ms.cotan_laplacian(mesh, intrinsic_delaunay=True)):
        assert abs(ms.cholesky(L, fixed=border).solve(np.zeros(len(V)), fixed_values=u) - u).max() < 1e-6
        assert (L != L.T).nnz == 0 and np.linalg.eigvalsh(L.toarray())[0] > -1e-12 * abs(L).max()
    assert np.isclose(ms.mass_matrix(mesh).sum(), 1) and np.isclose(intrinsic_delaunay(mesh).mass().sum(), 1)
    assert abs(divergence(mesh) @ gradient(mesh) + ms.cotan_laplacian(mesh)).max() < 1e-13 * abs(ms.cotan_laplacian(mesh)).max()


@each("gap", [0.0, 1e-12, 1e-8, 1e-5])
def test_copies_follow_their_vertex(gap):
    ball = ms.datasets.icosphere(2)
    mesh, handles = ms.Mesh(*split(ball.vertices, ball.faces, 100, 2, gap)), [0, 5, 11]
    assert abs(ms.apps.skinning_weights(mesh, handles)[:162] - ms.apps.skinning_weights(ball, handles)).max() < 1e-3
    to = ball.vertices[handles] + [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    for method in ("bilaplacian", "poisson", "arap"):
        found, right = (ms.apps.Deformation(m, handles, method).move(to).vertices for m in (mesh, ball))
        assert abs(found[:162] - right).max() < 0.01
    poles = globe(9, 12)
    D = ms.apps.Deformation(poles, [30, 60], "bilaplacian")
    assert abs(D.move(poles.vertices[[30, 60]] + [1, 0, 0]).vertices - poles.vertices - [1, 0, 0]).max() < 1e-6


def test_mollified_triangles_have_the_least_area():
    t = 10.0 ** np.random.default_rng(0).uniform(-16, 0, (3, 1000))
    for flattest in (1e-8, 1e-3):
        s, e = elements.mollified(t, flattest)
        longest = np.sort(s, axis=0)[1:].sum(axis=0)
        shape = 2 * np.sqrt(s.sum(axis=0) * s.prod(axis=0)) / longest**2 / flattest
        assert shape.min() > 1 - 1e-9 and abs(shape[e > 0] - 1).max() < 1e-9 and (s[:, e == 0] == t[:, e == 0]).all()


def cube(k, noise=0.0):
    V = np.stack(np.meshgrid(*3 * [np.linspace(0, 1, k + 1)], indexing="ij"), axis=-1).reshape(-1, 3)
    walls = np.flatnonzero((V == 0).any(axis=1) | (V == 1).any(axis=1))
    V = V + noise * np.random.default_rng(0).standard_normal(V.shape)
    return ms.TetMesh(V, Delaunay(V).simplices, orient=True), walls


@each("noise", [0, 1e-15, 1e-7])
def test_flat_cells_do_not_lock_a_solution(noise):
    """-laplace u = 1 in a cube has the largest value 0.0562; 0.0527 on these points. Eigenvalues are those without flat cells."""
    solid, walls = cube(6, noise)
    assert len(solid.degenerate_cells) > 100
    L, M = ms.cotan_laplacian(solid), ms.mass_matrix(solid)
    assert abs(ms.cholesky(L, fixed=walls).solve(M @ np.ones(len(M.data))).max() - 0.0527) < 0.0015
    clean = ms.TetMesh(solid.vertices, np.delete(solid.cells, solid.degenerate_cells, 0))
    w, right = (eigh(ms.cotan_laplacian(m).toarray(), ms.mass_matrix(m).toarray(), subset_by_index=[0, 4])[0] for m in (solid, clean))
    assert np.allclose(w, right, rtol=0.04, atol=1e-6)
    assert (L != L.T).nnz == 0 and abs(divergence(solid) @ gradient(solid) + L).max() < 1e-12 * abs(L).max()
    for unit in (2.0**-900, 2.0**200):
        other = ms.TetMesh(unit * solid.vertices, solid.cells)
        assert abs(ms.cotan_laplacian(other) / unit - L).max() < 1e-12 * abs(L).max()


def test_ordinary_cells_keep_their_bits():
    solid, _ = cube(3)
    good = np.setdiff1d(np.arange(len(solid.cells)), solid.degenerate_cells)
    m, k = len(solid.cells), len(good)
    rows = np.concatenate([good, good + m, good + 2 * m])
    assert k < m and np.array_equal(gradient(solid)[rows].data, gradient(ms.TetMesh(solid.vertices, solid.cells[good])).data)


@each("place", [[1 / 3, 1 / 3, 0], [0.5, 0, 0], [0, 0, 0], [0.25, 0.75, 0]])
def test_corners_of_flat_cells_follow_the_others(place):
    """A vertex on a side, an edge or a corner of a cell; more of them at one point."""
    x = np.vstack([[[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1], place], [place]])
    solid = ms.TetMesh(x, [[0, 1, 2, 3], [0, 1, 2, 4], [0, 1, 4, 5], [1, 2, 4, 5]], orient=True)
    assert solid.degenerate_cells.tolist() == [1, 2, 3]
    u = ms.cholesky(ms.cotan_laplacian(solid), fixed=[0, 1, 2, 3]).solve(np.zeros(6), fixed_values=x @ [1.0, 2, 3])
    assert np.allclose(u, x @ [1.0, 2, 3], atol=1e-6)


def test_torch_weights_of_degenerate_faces():
    torch = pytest.importorskip("torch")
    V, F = split(*grid(4), 5, 3)
    V, F = np.vstack([V, V[[5, 5]]]), np.vstack([F, [[5, 17, 18]]])
    x = torch.tensor(V, requires_grad=True)
    (i, j), values = ms.torch.cotan_laplacian(x, torch.tensor(F))
    L = sp.coo_array((values.detach().numpy(), (i.numpy(), j.numpy())), shape=(len(V),) * 2).toarray()
    assert np.allclose(L, ms.cotan_laplacian(ms.Mesh(V, F)).toarray(), rtol=1e-12, atol=1e-8)
    values[values.abs() < 10].sum().backward()
    assert torch.isfinite(x.grad).all()
