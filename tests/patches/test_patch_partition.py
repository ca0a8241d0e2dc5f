"""What holds of every partition: sizes, connectivity, owners, the quotient graph, the same for any number of threads."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from patch_shapes import MESHES, answer, check_structure, grid, make_mesh, shuffled, soup, torus, union
from scipy.sparse.csgraph import connected_components

from meshsolve.patches import PatchMesh


def dual_graph(mesh):
    indptr, indices = answer(mesh, "FF")
    return sp.csr_array((np.ones(len(indices)), indices, indptr), shape=(len(mesh.faces),) * 2)


def components_within(G, part):
    """Connected pieces of all parts together."""
    G = sp.coo_array(G)
    same = part[G.row] == part[G.col]
    kept = sp.coo_array((G.data[same], (G.row[same], G.col[same])), G.shape)
    return connected_components(kept, directed=False)[0]


@pytest.mark.parametrize("name", MESHES)
@each("patch_size", [1, 2, 7, 64, 512])
def test_structure_of_every_mesh(name, patch_size):
    mesh = MESHES[name]
    P = PatchMesh(mesh, patch_size=patch_size)
    check_structure(P, mesh)
    if len(mesh.faces):
        size = np.bincount(P.face_patch)
        assert size.max() <= patch_size and size.min() >= 1
        of_face = np.full(len(mesh.vertices), P.num_patches)
        np.minimum.at(of_face, mesh.faces.ravel(), np.repeat(P.face_patch, 3))
        assert np.array_equal(P.vertex_patch[of_face < P.num_patches], of_face[of_face < P.num_patches])
        of_edge = np.full(len(mesh.edges), P.num_patches)
        np.minimum.at(of_edge, mesh.side_edges.ravel(), np.repeat(P.face_patch, 3))
        assert np.array_equal(P.edge_patch, of_edge)


LARGER = {"torus": lambda: torus(100, 110), "shuffled": lambda: shuffled(torus(100, 110)), "grid": lambda: grid(150, 70), "strip": lambda: grid(1, 5000)}


@pytest.mark.parametrize("name", LARGER)
@pytest.mark.parametrize("patch_size", [16, 100, 512])
def test_patches_are_connected_and_well_filled(name, patch_size):
    mesh = LARGER[name]()
    P = PatchMesh(mesh, patch_size=patch_size)
    assert components_within(dual_graph(mesh), P.face_patch) == P.num_patches
    assert P.num_patches <= 2 * len(mesh.faces) / patch_size + 1


def test_patches_are_compact():
    P = PatchMesh(torus(200, 200), patch_size=512)
    local = sum(len(P.patch(p).ltog_faces) for p in range(P.num_patches))
    assert local <= 1.4 * 80_000


def test_every_face_around_an_owned_vertex_is_local():
    mesh = MESHES["everything"]
    P = PatchMesh(mesh, patch_size=30)
    indptr, faces = answer(mesh, "VF")
    for p in range(P.num_patches):
        q = P.patch(p)
        around = np.concatenate([faces[indptr[v]:indptr[v + 1]] for v in q.ltog_vertices[:q.num_owned[0]]] + [faces[:0]])
        assert np.isin(around, q.ltog_faces).all()


def test_small_components_share_patches():
    assert PatchMesh(soup(16_930)).num_patches == -(-16_930 // 512)
    P = PatchMesh(union(torus(30, 30), soup(50)))
    assert len(np.unique(P.face_patch[1800:])) == 1


def test_patches_are_numbered_by_their_lowest_face():
    P = PatchMesh(MESHES["shuffled torus"], patch_size=64)
    first = np.unique(P.face_patch, return_index=True)[1]
    assert (np.diff(first) > 0).all() and P.num_patches == len(first)


def test_unreferenced_vertices_fill_patches_up():
    P = PatchMesh(union(grid(20, 20), unreferenced=3000), patch_size=100)
    assert P.vertex_weights.max() <= 100 and P.vertex_weights.sum() == 441 + 3000
    P = PatchMesh(make_mesh(1000, []), patch_size=300)
    assert P.vertex_weights.tolist() == [300, 300, 300, 100] and P.face_patch.shape == (0,)


@pytest.mark.parametrize("subject", [
    shuffled(union(torus(150, 170), soup(500), unreferenced=40)),
    sp.csr_array(sp.random_array((20_000, 20_000), density=3e-4, rng=1)),
], ids=["mesh", "pattern"])
def test_same_for_any_number_of_threads(subject):
    one = PatchMesh(subject, patch_size=64, threads=1)
    for threads in (2, 7):
        many = PatchMesh(subject, patch_size=64, threads=threads)
        for kind in ("vertex_patch", "edge_patch", "face_patch"):
            assert np.array_equal(getattr(one, kind), getattr(many, kind))
        for name in ("VV", "VE", "EV") + (("VF", "FV", "FE", "FF", "EF") if one._has_faces else ()):
            assert all(np.array_equal(a, b) for a, b in zip(one.query(name), many.query(name)))


def test_seed_changes_the_partition_and_is_repeatable():
    mesh = torus(60, 60)
    a, b, c = (PatchMesh(mesh, patch_size=64, seed=s).face_patch for s in (5, 5, 6))
    assert np.array_equal(a, b) and not np.array_equal(a, c)


@pytest.mark.parametrize("name", ["torus", "everything", "one vertex"])
def test_quotient_graph(name):
    mesh = MESHES[name]
    P = PatchMesh(mesh, patch_size=50)
    expected = np.zeros((P.num_patches,) * 2, int)
    for u, v in P.vertex_patch[mesh.edges]:
        if u != v:
            expected[u, v] += 1
            expected[v, u] += 1
    Q = P.quotient_graph()
    assert np.array_equal(Q.toarray(), expected) and Q.dtype.kind == "i" and Q.has_sorted_indices
    assert np.array_equal(P.vertex_weights, np.bincount(P.vertex_patch, minlength=P.num_patches))


def test_huge_patch_size_stays_within_16_bits():
    mesh = torus(300, 150)
    P = PatchMesh(mesh, patch_size=10**12)
    assert P.num_patches > 1
    check_structure(P, mesh)
