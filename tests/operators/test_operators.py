"""Laplacians and masses: known weights, identities of linear functions, area sums, brute force, degenerate triangles."""

import csv
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays as random_arrays

from meshsolve import datasets, operators
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotSymmetricError
from meshsolve.mesh import Mesh, load_mesh
from meshsolve.operators import CotanAssembler, cotan_laplacian, graph_laplacian, mass_matrix

pytestmark = pytest.mark.native


def flat_grid(k):
    """A planar grid of k x k vertices, squares split along one diagonal."""
    i = np.arange(k * k).reshape(k, k)
    a, b, c, d = i[:-1, :-1].ravel(), i[:-1, 1:].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel()
    x = np.column_stack([*np.indices((k, k)).reshape(2, -1), np.zeros(k * k)])
    return Mesh(x, np.concatenate([np.stack([a, c, d], 1), np.stack([a, d, b], 1)]))


def bumpy(k=12, seed=0):
    mesh = flat_grid(k)
    return mesh.with_vertices(mesh.vertices + 0.3 * np.random.default_rng(seed).standard_normal(mesh.vertices.shape))


def laplacian_by_angles(mesh):
    """Reference from the definition: half the cotangent of the angle at each corner for the opposite edge."""
    L = np.zeros((len(mesh.vertices),) * 2)
    for t in mesh.faces:
        for c in range(3):
            o, i, j = t[c], t[(c + 1) % 3], t[(c + 2) % 3]
            p, q = mesh.vertices[i] - mesh.vertices[o], mesh.vertices[j] - mesh.vertices[o]
            w = 0.5 / np.tan(np.arctan2(np.linalg.norm(np.cross(p, q)), p @ q))
            L[[i, j], [j, i]] -= w
            L[[i, j], [i, j]] += w
    return L


def check_laplacian(L, n):
    assert isinstance(L, sp.csr_array) and L.shape == (n, n) and L.has_canonical_format and np.isfinite(L.data).all()
    scale = max(np.abs(L.data).max(initial=0), 1e-300)
    assert abs(L - L.T).max() == 0
    assert np.abs(L @ np.ones(n)).max() <= 1e-12 * scale
    return scale


def test_completion_offers_the_public_names():
    names = ["Assembly", "Curvatures", "NormalEquations", "connection_laplacian", "cotan_laplacian", "curvatures", "divergence", "gradient",
             "graph_laplacian", "intrinsic_delaunay", "mass_matrix", "normalized_laplacian"]
    assert dir(operators) == operators.__all__ == names and all(callable(getattr(operators, name)) for name in names)


# ---- known answers


def test_equilateral_triangle():
    mesh = Mesh([[0, 0, 0], [1, 0, 0], [0.5, 0.75 ** 0.5, 0]], [[0, 1, 2]])
    w = 0.5 / 3 ** 0.5
    assert cotan_laplacian(mesh).toarray() == pytest.approx(w * np.array([[2, -1, -1], [-1, 2, -1], [-1, -1, 2]]))
    assert mass_matrix(mesh).diagonal() == pytest.approx(np.full(3, 3 ** 0.5 / 12))
    assert mass_matrix(mesh, "voronoi").diagonal() == pytest.approx(np.full(3, 3 ** 0.5 / 12))
    assert mass_matrix(mesh, "consistent").toarray() == pytest.approx(3 ** 0.5 / 48 * (np.eye(3) + 1))


def test_regular_grid_is_the_five_point_laplacian():
    mesh = flat_grid(6)
    L = cotan_laplacian(mesh)
    inner = [7, 8, 9, 10]
    five = datasets.grid2d(6, 6).toarray()
    assert L.toarray()[inner] == pytest.approx(five[inner])
    diagonals = np.abs(np.diff(mesh.vertices[mesh.edges], axis=1)[:, 0, :2]).sum(axis=1) == 2
    i, j = mesh.edges[diagonals].T
    assert np.abs(np.asarray(L[i, j])).max() < 1e-15 and L.nnz == 2 * len(mesh.edges) + 36        # a stored zero


def test_an_obtuse_triangle_has_a_negative_weight():
    L = cotan_laplacian(Mesh([[0, 0, 0], [2, 0, 0], [1, 0.5, 0]], [[0, 1, 2]]))
    assert L[0, 1] > 0 and L[0, 1] == pytest.approx(0.5 * 0.75)              # cot = (0.25 - 1) / (2 * 0.5)


def test_voronoi_of_a_right_triangle():
    mass = mass_matrix(Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]), kind="voronoi").diagonal()
    assert mass == pytest.approx([0.25, 0.125, 0.125])


def test_voronoi_of_an_obtuse_triangle():
    mass = mass_matrix(Mesh([[0, 0, 0], [4, 0, 0], [2, 1, 0]], [[0, 1, 2]]), kind="voronoi").diagonal()
    assert mass == pytest.approx([0.5, 0.5, 1.0])


def test_graph_laplacian_of_mesh_and_matrix():
    mesh = datasets.icosphere(1)
    L = graph_laplacian(mesh)
    check_laplacian(L, 42)
    assert np.array_equal(L.diagonal(), np.bincount(mesh.edges.ravel())) and set(L.data) == {-1.0, 5.0, 6.0}
    same = graph_laplacian(cotan_laplacian(mesh))
    assert abs(L - same).max() == 0
    with pytest.warns(MeshsolveWarning, match="not symmetric"):
        one_sided = graph_laplacian(np.array([[0, 7.0, 0], [0, 0, 0], [0, 0, 0]]))
    assert one_sided.toarray().tolist() == [[1, -1, 0], [-1, 1, 0], [0, 0, 0]] and one_sided.nnz == 5


@st.composite
def weighted_graphs(draw):
    """(W, its dense sum): entries in both directions, with duplicates, zeros and loops."""
    n = draw(st.integers(1, 9))
    weight = st.sampled_from([0.0, 1.0, 2.5, 1e-9, 3e8]) | st.floats(0, 1e3)
    edges = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1), weight), max_size=25))
    i, j, w = np.array(edges, float).reshape(-1, 3).T
    i, j = i.astype(int), j.astype(int)
    W = sp.coo_array((np.r_[w, w], (np.r_[i, j], np.r_[j, i])), shape=(n, n))
    return W.asformat(draw(st.sampled_from(["coo", "csr", "csc", "lil", "dok"]))), W.toarray()


@settings(max_examples=150, deadline=None)
@given(weighted_graphs())
def test_weighted_graph_laplacian_is_d_minus_w(case):
    W, dense = case
    n = len(dense)
    before = W.toarray()
    L = graph_laplacian(W, weights="values")
    scale = check_laplacian(L, n)
    by_networkx = np.diag(dense.sum(axis=1)) - dense
    for same in (by_networkx, sp.csgraph.laplacian(dense), graph_laplacian(dense, weights="values").toarray()):
        assert np.abs(L.toarray() - same).max() <= 1e-14 * max(scale, dense.max())
    assert np.linalg.eigvalsh(L.toarray()).min() >= -1e-13 * scale and np.array_equal(W.toarray(), before)


def test_unit_weights_are_those_of_ones():
    mesh = datasets.icosphere(2)
    L = graph_laplacian(mesh)
    W = sp.diags_array(L.diagonal()) - L
    for same in (graph_laplacian(W), graph_laplacian(W, "values"), graph_laplacian(W.astype(bool), weights="values"),
                 graph_laplacian(mesh, weights="unit"), graph_laplacian(mesh, weights=np.ones(len(mesh.edges), np.int8))):
        assert np.array_equal(same.data, L.data) and np.array_equal(same.indices, L.indices)


def test_one_sided_zero_weights_are_edges():
    W = sp.csr_array(([0.0, 3, 3, 7], ([0, 1, 2, 1], [1, 2, 1, 1])), shape=(3, 3))
    L = graph_laplacian(W, weights="values")
    assert L.nnz == 7 and L.toarray().tolist() == [[0, 0, 0], [0, 3, -3], [0, -3, 3]]


def test_rounding_asymmetry_is_averaged():
    W = np.array([[0, 1.0, 1], [1 + 4e-12, 0, 5e-14], [1, 0, 0]])
    L = graph_laplacian(W, weights="values")
    check_laplacian(L, 3)
    assert L[0, 1] == pytest.approx(-(1 + 2e-12), rel=1e-15) and L[2, 1] == -2.5e-14
    with pytest.raises(NotSymmetricError, match=r"W\[1, 0\] is 1\.1, but W\[0, 1\] is 1\..*W \+ W\.T") as error:
        graph_laplacian([[1e30, 1.0], [1.1, 0]], weights="values")                 # loops do not set the scale of weights
    assert (error.value.row, error.value.column) == (1, 0)
    with pytest.raises(InvalidInputError, match=r"W\[1, 2\] is -1"):
        graph_laplacian(datasets.grid2d(3, 1) * [[0, 0, 0], [0, 1, 1], [0, 1, 1]], weights="values")


def test_weights_of_the_edges_of_a_mesh():
    mesh = bumpy(4)
    weight = 1 / mesh.edge_lengths
    L = graph_laplacian(mesh, weights=weight)
    check_laplacian(L, 16)
    i, j = mesh.edges.T
    assert np.array_equal(np.asarray(L[i, j]), -weight) and L.nnz == 2 * len(weight) + 16
    half = -cotan_laplacian(mesh)[i, j]
    assert abs(graph_laplacian(mesh, weights=np.maximum(half, 0)) - cotan_laplacian(mesh)).max() <= np.abs(np.minimum(half, 0)).sum() + 1e-12
    for wrong, words in ((weight[1:], "33 real numbers"), (weight[:, None], "33 real numbers"), (-weight, r"weights\[0\] of the edge from vertex 0 to 1"),
                         (weight * 1j, "complex"), ("length", "must be one of"), (None, "object")):
        with pytest.raises(InvalidInputError, match=words):
            graph_laplacian(mesh, weights=wrong)
    with pytest.raises(InvalidInputError, match="sum to infinity"):
        graph_laplacian(mesh, weights=np.full(33, 1e308))


def test_graphs_of_networkx():
    networkx = pytest.importorskip("networkx")
    G = networkx.gnm_random_graph(30, 80, seed=0)
    rng = np.random.default_rng(0)
    networkx.set_edge_attributes(G, {e: rng.random() for e in G.edges}, "weight")
    G.add_edge(3, 3, weight=2.0)
    L = graph_laplacian(networkx.to_scipy_sparse_array(G), weights="values")
    assert abs(L - networkx.laplacian_matrix(G)).max() < 1e-14


# ---- identities


@settings(max_examples=60, deadline=None)
@given(random_arrays(float, (16, 3), elements=st.floats(-1, 1)))
def test_against_the_definition(noise):
    mesh = flat_grid(4)
    mesh = mesh.with_vertices(mesh.vertices + 0.2 * noise)
    assume(mesh.face_areas.min() > 1e-3)
    L = cotan_laplacian(mesh)
    scale = check_laplacian(L, 16)
    assert np.abs(L.toarray() - laplacian_by_angles(mesh)).max() <= 1e-10 * scale
    assert np.linalg.eigvalsh(L.toarray()).min() >= -1e-12 * scale


def test_linear_functions_are_harmonic_inside_the_plane():
    mesh = flat_grid(10)
    x = mesh.vertices.copy()
    inner = ((x[:, :2] > 0) & (x[:, :2] < 9)).all(axis=1)
    x[inner, :2] += np.random.default_rng(1).uniform(-0.3, 0.3, (inner.sum(), 2))
    turn = np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    mesh = mesh.with_vertices(x @ turn.T + 5)
    for L in (cotan_laplacian(mesh), cotan_laplacian(mesh, intrinsic_delaunay=True)):
        assert np.abs((L @ mesh.vertices)[inner]).max() < 1e-12


def test_energy_of_the_positions_is_twice_the_area():
    mesh = bumpy()
    L = cotan_laplacian(mesh)
    assert np.einsum("ik,ik->", mesh.vertices, L @ mesh.vertices) == pytest.approx(2 * mesh.face_areas.sum())


def test_sphere_has_eigenvalue_two():
    mesh = datasets.icosphere(4)
    L, M = cotan_laplacian(mesh), mass_matrix(mesh, "voronoi").diagonal()
    assert np.abs((L @ mesh.vertices) / M[:, None] - 2 * mesh.vertices).max() < 1e-2
    assert M.sum() == pytest.approx(4 * np.pi, rel=5e-3)


@pytest.mark.parametrize("kind", ["lumped", "voronoi", "consistent"])
def test_masses_sum_to_the_area(kind):
    mesh = bumpy()
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    M = mass_matrix(mesh, kind=kind)
    assert isinstance(M, sp.csr_array) and M.sum() == pytest.approx(area, rel=1e-12) and (M.data > 0).all()
    assert abs(M - M.T).max() == 0
    assert kind != "lumped" or (mass_matrix(mesh, kind="barycentric") != M).nnz == 0           # synonyms


def test_consistent_mass_integrates_linear_functions():
    mesh = flat_grid(5)
    u = 1 + 2 * mesh.vertices[:, 0]
    assert u @ (mass_matrix(mesh, "consistent") @ u) == pytest.approx(4 * (9 ** 3 - 1) / 6)      # of (1 + 2 x)^2 over [0, 4]^2


def test_scale_and_rigid_motion():
    mesh = bumpy()
    L, M = cotan_laplacian(mesh), mass_matrix(mesh)
    turn = np.linalg.qr(np.random.default_rng(3).standard_normal((3, 3)))[0]
    for scale in (1e-60, 1e-3, 1e60):
        moved = mesh.with_vertices(scale * mesh.vertices @ turn.T)
        assert abs(cotan_laplacian(moved) - L).max() <= 1e-10 * abs(L).max()
        assert mass_matrix(moved).diagonal() / scale ** 2 == pytest.approx(M.diagonal())


# ---- bad triangles


BAD = {
    "a line": ([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 3], [1, 2, 3]]),
    "a point": ([[1, 1, 1], [1, 1, 1], [1, 1, 1], [0, 1, 0]], [[0, 1, 2], [0, 1, 3]]),
    "two equal": ([[0, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]),
    "needle": ([[0, 0, 0], [1, 0, 0], [1, 1e-13, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]),
    "cap": ([[0, 0, 0], [1, 0, 0], [0.5, 1e-15, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]]),
    "duplicate faces": ([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2], [0, 1, 2], [1, 0, 2]]),
}


@pytest.mark.parametrize("case", BAD)
def test_degenerate_triangles_are_finite_and_semidefinite(case):
    mesh = Mesh(*BAD[case])
    n = len(mesh.vertices)
    L = cotan_laplacian(mesh)
    scale = check_laplacian(L, n)
    assert L.nnz == 2 * len(mesh.edges) + n
    assert np.linalg.eigvalsh(L.toarray()).min() >= -1e-12 * scale
    total = mass_matrix(mesh).sum()
    for kind in ("voronoi", "consistent"):
        M = mass_matrix(mesh, kind=kind)
        assert M.sum() == pytest.approx(total, rel=1e-9) and (M.diagonal() >= 0).all()


@each("size", [1e-100, 1e-150, 1e-152, 1e-158, 1e-165, 1e-300])
def test_laplacians_do_not_depend_on_tiny_units(size):
    for corners in ([[0, 0, 0], [1, 0, 0], [0.25, 1, 0.5]], [[0, 0, 0], [1, 0, 0], [2, 0, 0]], [[0, 0, 0], [1, 0, 0], [0, 0, 0]]):
        L, expected = (cotan_laplacian(Mesh(s * np.array(corners), [[0, 1, 2]])).toarray() for s in (size, 1))
        assert np.allclose(L, expected, rtol=1e-13, atol=0)


@settings(max_examples=60, deadline=None)
@given(st.floats(-18, 0), st.floats(0, 1))
def test_slivers_of_any_height_are_semidefinite(exponent, foot):
    mesh = Mesh([[0, 0, 0], [1, 0, 0], [foot, 10 ** exponent, 0]], [[0, 1, 2]])
    L = cotan_laplacian(mesh).toarray()
    assert np.isfinite(L).all() and np.abs(L).max() <= 2e8
    assert np.linalg.eigvalsh(L).min() >= -1e-13 * np.abs(L).max()


def test_unreferenced_vertices_have_empty_rows_and_no_mass():
    sphere = datasets.icosphere(1)
    mesh = Mesh(np.concatenate([sphere.vertices, [[9, 9, 9], [8, 8, 8]]]), sphere.faces)
    L = cotan_laplacian(mesh)
    assert L.shape == (44, 44) and abs(L[42:]).max() == 0
    for kind in ("lumped", "voronoi", "consistent"):
        M = mass_matrix(mesh, kind=kind)
        assert M.shape == (44, 44) and M.diagonal()[42:].tolist() == [0, 0] and (M.diagonal()[:42] > 0).all()
    assert cotan_laplacian(mesh, intrinsic_delaunay=True).shape == (44, 44)


@pytest.mark.parametrize("call", [
    lambda: mass_matrix(datasets.icosphere(0), kind="full"), lambda: mass_matrix("mesh"), lambda: cotan_laplacian(np.eye(3)),
    lambda: graph_laplacian(np.ones((2, 3))), lambda: graph_laplacian("A"),
    lambda: cotan_laplacian(Mesh(np.vander(range(5), 3), [[0, 1, 2], [0, 1, 3], [0, 1, 4]]), intrinsic_delaunay=True),
], ids=range(6))
def test_refuses(call):
    with pytest.raises(InvalidInputError):
        call()


def test_no_faces():
    mesh = Mesh(np.eye(3), [])
    for A in (cotan_laplacian(mesh), cotan_laplacian(mesh, intrinsic_delaunay=True), graph_laplacian(mesh), mass_matrix(mesh),
              mass_matrix(mesh, "voronoi"), mass_matrix(mesh, "consistent")):
        assert A.shape == (3, 3) and abs(A).max() == 0


# ---- intrinsic Delaunay


def test_intrinsic_delaunay_flips_the_long_diagonal():
    mesh = Mesh([[0, 0, 0], [1, 0.2, 0], [2, 0, 0], [1, -0.2, 0]], [[0, 3, 2], [0, 2, 1]])      # cut along the long diagonal
    assert cotan_laplacian(mesh)[0, 2] > 0
    L = cotan_laplacian(mesh, intrinsic_delaunay=True)
    assert L[0, 2] == 0 and L[1, 3] < 0
    short = cotan_laplacian(Mesh(mesh.vertices, [[0, 3, 1], [1, 3, 2]]))
    assert np.abs((L - short).toarray()).max() < 1e-12


def test_intrinsic_delaunay_of_closed_meshes_is_nonnegative():
    sphere = datasets.icosphere(2)
    x = sphere.vertices * np.array([1, 0.05, 0.3])
    L = cotan_laplacian(sphere.with_vertices(x), intrinsic_delaunay=True)
    off = (L - sp.diags_array(L.diagonal())).data
    assert off.max() <= 1e-12 * np.abs(off).max() < cotan_laplacian(sphere.with_vertices(x)).tocoo().data.max()
    assert np.linalg.eigvalsh(L.toarray()).min() > -1e-9


def test_intrinsic_delaunay_of_delaunay_meshes_is_extrinsic():
    mesh = datasets.icosphere(3)
    assert abs(cotan_laplacian(mesh, intrinsic_delaunay=True) - cotan_laplacian(mesh)).max() < 1e-10


def by_libigl(mesh):
    """libigl's flips and cotangents."""
    igl = pytest.importorskip("igl")
    lengths = mesh.edge_lengths[np.roll(mesh.side_edges, -1, axis=1)]
    lengths, faces = igl.intrinsic_delaunay_triangulation(lengths, mesh.faces.astype(np.int64))[:2]
    half = igl.cotmatrix_entries(lengths)
    i, j = faces[:, [1, 2, 0]].ravel(), faces[:, [2, 0, 1]].ravel()
    W = sp.coo_array((np.where(i == j, 0, half.ravel()), (i, j)), shape=(len(mesh.vertices),) * 2).tocsr()
    return sp.diags_array((W + W.T).sum(axis=1)) - W - W.T


def check_delaunay(mesh):
    """Properties for every closed manifold mesh, also degenerate ones. Warnings are errors: the flips terminate."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", MeshsolveWarning)
        L = cotan_laplacian(mesh, intrinsic_delaunay=True)
    scale = check_laplacian(L, len(mesh.vertices))
    I = L.tocoo()
    assert I.data[I.row != I.col].max(initial=0) <= 1e-9 * scale
    assert np.linalg.eigvalsh(L.toarray() / scale).min() >= -1e-12
    return L


def collapsed_spheres():
    """(name, vertices) of closed meshes that are flattened, rounded to a grid, stretched, collinear or coincident."""
    x, rng = datasets.icosphere(1).vertices, np.random.default_rng(4)
    n = len(x)
    yield "squashed", x * [1, 1e-9, 1e-5]
    yield "needle", x * [1, 1e-13, 1e-13]
    yield "snapped", np.round(2 * x) / 2
    yield "cube corners", rng.choice([0.0, 1.0], (n, 3))
    yield "scales", x * 10.0 ** rng.uniform(-14, 3, (n, 1))
    yield "extremes", rng.choice([0, 1, 1e-200, 1e-9, 1e9, 1e70, -1e70], (n, 3))
    yield "line", rng.standard_normal((n, 1)) * np.ones(3)
    yield "point", np.full((n, 3), 0.5)
    yield "one away", np.where(np.arange(n)[:, None] == 7, 3.0, np.zeros((n, 3)))


@pytest.mark.parametrize("case", [name for name, _ in collapsed_spheres()])
def test_intrinsic_delaunay_of_collapsed_closed_meshes(case):
    check_delaunay(datasets.icosphere(1).with_vertices(dict(collapsed_spheres())[case]))


@pytest.mark.parametrize("third", [[0, 1, 0], [0.5, 1e-15, 0], [1, 1e-13, 0], [1, 0, 0], [9, 1e-6, 0], [0, 0, 0]])
def test_intrinsic_delaunay_of_doubled_triangles(third):
    x = np.array([[0, 0, 0], [1, 0, 0], third])
    for faces in ([[0, 1, 2], [0, 2, 1]], [[0, 1, 2], [0, 1, 2]]):             # a sphere of two triangles, in both orientations
        check_delaunay(Mesh(x, faces))
    check_delaunay(Mesh(np.full((6, 3), 0.5), [[3, 4, 2], [2, 4, 3]]))


@settings(max_examples=60, deadline=None)
@given(random_arrays(float, (12, 3), elements=st.sampled_from([0, 1, -1, 0.5, 1e-9, 1e9, 1e70, -1e70]) | st.floats(-1, 1)))
def test_intrinsic_delaunay_of_any_sphere(x):
    check_delaunay(datasets.icosphere(0).with_vertices(x))


def test_intrinsic_delaunay_ignores_the_orientation():
    sphere = datasets.icosphere(2)
    x = sphere.vertices * np.array([1, 0.05, 0.3]) + 0.02 * np.random.default_rng(5).standard_normal(sphere.vertices.shape)
    turned = np.random.default_rng(6).random(len(sphere.faces)) < 0.5
    mixed = np.where(turned[:, None], sphere.faces[:, ::-1], sphere.faces)
    assert abs(check_delaunay(Mesh(x, mixed)) - check_delaunay(Mesh(x, sphere.faces))).max() < 1e-9


def test_intrinsic_delaunay_of_a_moebius_strip():
    k = 20                                              # edges (2 i, 2 i + 1); the last is joined to the first, reversed
    i = np.arange(k)
    turn = np.pi * i / k
    middle = np.stack([np.cos(2 * turn), np.sin(2 * turn), 0 * turn], axis=1)
    rung = 0.05 * np.stack([np.cos(turn) * np.cos(2 * turn), np.cos(turn) * np.sin(2 * turn), np.sin(turn)], axis=1)
    a, b = 2 * i, 2 * i + 1
    c, d = np.where(i == k - 1, 1, 2 * i + 2), np.where(i == k - 1, 0, 2 * i + 3)
    x = np.stack([middle + rung, middle - rung], axis=1).reshape(-1, 3) * [1, 0.1, 1]
    mesh = Mesh(x, np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)]))
    L = cotan_laplacian(mesh, intrinsic_delaunay=True)
    scale = check_laplacian(L, 2 * k)
    assert mesh.is_manifold and np.linalg.eigvalsh(L.toarray()).min() >= -1e-12 * scale
    assert abs(L - cotan_laplacian(mesh)).max() > 0.1


def test_intrinsic_delaunay_with_quadratically_many_flips():
    k = 500                                             # two rows of points, all joined to one end of the other
    i, x = np.arange(k - 1), np.arange(k, dtype=float)
    points = np.concatenate([np.stack([x, 0 * x, 0 * x], 1), np.stack([x + 0.5, 0 * x + 1, 0 * x], 1)])
    fans = [np.stack([i, i + 1, 0 * i + 2 * k - 1], 1), np.stack([0 * i, k + i + 1, k + i], 1)]
    zigzag = [np.stack([i, i + 1, k + i], 1), np.stack([i + 1, k + i + 1, k + i], 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("error", MeshsolveWarning)
        L = cotan_laplacian(Mesh(points, np.concatenate(fans)), intrinsic_delaunay=True)
    assert abs(L - cotan_laplacian(Mesh(points, np.concatenate(zigzag)))).max() < 1e-7


def test_intrinsic_delaunay_given_up_is_still_a_laplacian(monkeypatch):
    sphere = datasets.icosphere(2)
    mesh = sphere.with_vertices(sphere.vertices * [1, 0.05, 0.3])
    monkeypatch.setattr("meshsolve.operators.MOST_FLIPS", 7)
    with pytest.warns(MeshsolveWarning, match="stopped after 7 edge flips"):
        L = cotan_laplacian(mesh, intrinsic_delaunay=True)
    scale = check_laplacian(L, len(mesh.vertices))
    assert np.linalg.eigvalsh(L.toarray()).min() >= -1e-12 * scale


def test_intrinsic_delaunay_agrees_with_libigl(data_dir):
    sphere = datasets.icosphere(2)
    meshes = [bumpy(), sphere.with_vertices(sphere.vertices * [1, 0.1, 0.4])]
    meshes += [load_mesh(data_dir / "meshes" / name) for name in ("spot.obj.gz", "igl_3holes.off", "cgal_anchor_dense.off.gz")]
    for mesh in meshes:
        L = cotan_laplacian(mesh, intrinsic_delaunay=True)
        assert abs(L - by_libigl(mesh)).max() <= 1e-12 * abs(L).max()


# ---- repeated assembly, real meshes


def test_assembler_gives_the_same_bits_as_the_functions():
    mesh = bumpy()
    assembler = CotanAssembler(mesh)
    moved = mesh.with_vertices(mesh.vertices ** 2)
    data, mass = assembler.values(moved.vertices)
    L = cotan_laplacian(moved)
    assert np.array_equal(assembler.matrix(data).data, L.data) and np.array_equal(assembler.indices, L.indices)
    assert np.array_equal(mass, mass_matrix(moved).diagonal())


def test_edge_lengths():
    mesh = Mesh([[0, 0, 0], [3, 0, 0], [0, 4, 0]], [[0, 1, 2]])
    assert mesh.edge_lengths.tolist() == [3, 4, 5] and mesh.face_areas.tolist() == [6]


def test_real_meshes(data_dir):
    with open(data_dir / "INDEX.csv", newline="") as f:
        names = [r["file"] for r in csv.DictReader(f) if r["file"].startswith("meshes/") and int(r["n"]) < 20_000]
    for name in names:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MeshsolveWarning)
            mesh = load_mesh(data_dir / name)
        n = len(mesh.vertices)
        L = cotan_laplacian(mesh)
        scale = check_laplacian(L, n)
        x = np.random.default_rng(0).standard_normal(n)
        assert x @ (L @ x) >= -1e-9 * scale * (x @ x), name
        total = mass_matrix(mesh).sum()
        assert all(mass_matrix(mesh, k).sum() == pytest.approx(total, rel=1e-9) for k in ("voronoi", "consistent")), name
        if mesh.is_manifold and (np.bincount(mesh.side_edges.ravel()) == 2).all():
            I = cotan_laplacian(mesh, intrinsic_delaunay=True).tocoo()
            assert I.data[I.row != I.col].max() <= 1e-9 * np.abs(I.data).max(), name


def test_operators_are_the_same_on_any_number_of_threads(monkeypatch):
    """Bit for bit, also if an edge has more than two faces, whose order determines rounding."""
    sphere = datasets.icosphere(4)
    fins = np.stack([sphere.edges[:900, 0], sphere.edges[:900, 1], np.roll(sphere.edges[:900, 0], 7)], axis=1)
    faces = np.concatenate([fins[(fins[:, 2:] != fins[:, :2]).all(axis=1)], sphere.faces])
    results = []
    for threads in ("1", "2", "3", "16"):
        monkeypatch.setenv("MESHSOLVE_NUM_THREADS", threads)
        mesh = Mesh(sphere.vertices, faces)
        L = cotan_laplacian(mesh)
        results.append((mesh.edges, mesh.side_edges, L.indptr, L.indices, L.data, mass_matrix(mesh).data, mesh.edge_lengths,
                        graph_laplacian(mesh).data, CotanAssembler(mesh).mean_edge(mesh.vertices)))
    assert np.bincount(results[0][1].reshape(-1)).max() > 2
    for other in results[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(results[0], other, strict=True))
