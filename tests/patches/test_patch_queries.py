"""Each query compared with a plain reference."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from patch_shapes import MESHES, answer, book, check_structure, fan, incidence, make_mesh, torus

from meshsolve.patches import PatchMesh
from meshsolve.patches.rows import WITHIN_PATCHES


def check_queries(P, mesh, names=WITHIN_PATCHES):
    for name in names:
        indptr, indices = P.query(name)
        expected = answer(mesh, name)
        assert indices.dtype == np.int32, name
        assert np.array_equal(indptr, expected[0]) and np.array_equal(indices, expected[1]), name


@pytest.mark.native
@pytest.mark.parametrize("name", MESHES)
@each("patch_size", [1, 2, 7, 64, 512])
def test_every_query_on_every_mesh(name, patch_size):
    check_queries(PatchMesh(MESHES[name], patch_size=patch_size), MESHES[name])


def faces_of(corners):
    return [face for face in corners if len(set(face)) == 3]


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 11)] * 3), max_size=40), st.integers(1, 12), st.integers(0, 3))
def test_random_faces(corners, patch_size, seed):
    mesh = make_mesh(12, faces_of(corners))
    P = PatchMesh(mesh, patch_size=patch_size, seed=seed)
    check_queries(P, mesh)
    check_structure(P, mesh)


def graph_queries(A):
    """VV, VE and EV of a symmetric pattern."""
    G = sp.coo_array(sp.csr_array(A + A.T))
    off = G.row != G.col
    VV = incidence(G.row[off], G.col[off], G.shape)
    VV.sort_indices()
    upper = sp.coo_array(sp.triu(VV))
    edges = np.stack([upper.row, upper.col], axis=1)
    edges = edges[np.lexsort(edges.T[::-1])]
    VE = incidence(edges.ravel(), np.repeat(np.arange(len(edges)), 2), (A.shape[0], max(len(edges), 1)))
    VE.sort_indices()
    return {"VV": (VV.indptr, VV.indices), "VE": (VE.indptr, VE.indices), "EV": (2 * np.arange(len(edges) + 1), edges.ravel())}


def check_pattern(A, P):
    for name, expected in graph_queries(A).items():
        assert all(np.array_equal(got, want) for got, want in zip(P.query(name), expected)), name
    edges = P.query("EV")[1].reshape(-1, 2)
    none = np.empty((0, 3), int)
    check_structure(P, type("Graph", (), dict(vertices=np.zeros((A.shape[0], 3)), edges=edges, faces=none, side_edges=none)))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 30), st.integers(0, 80), st.integers(1, 31), st.integers(0, 2**32))
def test_random_patterns(n, entries, patch_size, seed):
    rng = np.random.default_rng(seed)
    A = sp.csr_array(incidence(rng.integers(0, n, entries), rng.integers(0, n, entries), (n, n)))
    P = PatchMesh(A, patch_size=patch_size, seed=seed)
    assert P.vertex_weights.max() <= patch_size and P.num_patches >= n // patch_size
    check_pattern(A, P)


def path(n):
    return sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])


@pytest.mark.native
@pytest.mark.parametrize("A", [
    path(5000),
    sp.kronsum(path(40), path(50)),
    sp.kronsum(sp.kronsum(path(12), path(13)), path(11)),
    sp.csr_array((300, 300)),
    sp.csr_array(np.ones((200, 200))),
    sp.block_array([[path(3), None], [None, sp.random_array((2000, 2000), density=0.002, rng=0)]]),
], ids=["path", "grid", "cube", "no edges", "dense", "random"])
@pytest.mark.parametrize("patch_size", [1, 30, 512])
def test_patterns(A, patch_size):
    A = sp.csr_array(A)
    P = PatchMesh(A, patch_size=patch_size)
    assert P.vertex_weights.max() <= patch_size and (P.vertex_weights > 0).all()
    check_pattern(A, P)


def test_a_dense_pattern_is_split_to_fit_16_bits():
    A = sp.csr_array(np.ones((600, 600)))               # 179,700 edges
    P = PatchMesh(A, patch_size=600)
    assert P.num_patches > 2
    check_pattern(A, P)


def test_star_of_100000():
    k = np.arange(1, 100_001)
    A = incidence(np.zeros_like(k), k, (100_001, 100_001))
    P = PatchMesh(A)
    assert P.vertex_weights.max() <= 512 and P.num_patches < 300
    check_pattern(A, P)


@pytest.mark.parametrize("leaves", [65_533, 65_534, 65_535, 65_536])
def test_a_star_that_just_fits_or_does_not(leaves):
    """16 bits number 65,535 vertices of a patch."""
    k = np.arange(1, leaves + 1)
    A = incidence(np.zeros_like(k), k, (leaves + 1, leaves + 1))
    check_pattern(A, PatchMesh(A))


def test_fan_of_100000():
    mesh = fan(100_000)
    P = PatchMesh(mesh)
    assert np.bincount(P.face_patch).max() <= 512
    check_queries(P, mesh)
    check_structure(P, mesh)


def test_an_edge_of_3700_faces():
    mesh = book(3700)                                   # FF has 13.7 million entries: looked at by its law
    P = PatchMesh(mesh)
    check_queries(P, mesh, ("VV", "VE", "VF", "FV", "FE", "EV", "EF"))
    indptr, indices = P.query("FF")
    assert np.array_equal(indptr, 3699 * np.arange(3701))
    for f in (0, 5, 3699):
        assert np.array_equal(indices[indptr[f]:indptr[f + 1]], np.delete(np.arange(3700), f))


def test_an_edge_of_more_faces_than_a_patch_can_number():
    P, pages = PatchMesh(book(66_000)), np.arange(66_000)
    for name, row in (("EF", 0), ("VF", 0), ("VF", 1)):
        indptr, indices = P.query(name)
        assert np.array_equal(indices[indptr[row]:indptr[row + 1]], pages)
    indptr, indices = P.query("VV")
    assert np.array_equal(indices[indptr[2:-1, None] + [0, 1]], np.tile([0, 1], (66_000, 1)))


def test_a_patch_with_too_large_a_ribbon_is_split():
    hubs = torus(6, 6)
    spokes = 3000 + 36 + np.arange(36 * 3001).reshape(36, 3001) - 3000
    fans = [np.stack([np.full(3000, h), row[:-1], row[1:]], axis=1) for h, row in enumerate(spokes)]
    mesh = make_mesh(int(spokes.max()) + 1, np.concatenate([hubs.faces, *fans]))
    P = PatchMesh(mesh)
    assert len(np.unique(P.face_patch[:72])) > 1        # one patch of the hubs would hold 108,072 faces
    for name in ("VV", "VF", "FF", "EF"):
        assert all(np.array_equal(a, b) for a, b in zip(P.query(name), answer(mesh, name)))
    check_structure(P, mesh)


def test_results_are_the_callers_own():
    P = PatchMesh(MESHES["grid"])
    indptr, indices = P.query("VV")
    indptr[:], indices[:] = 0, 0
    check_queries(P, MESHES["grid"])


def test_pickle():
    mesh = MESHES["everything"]
    P = pickle.loads(pickle.dumps(PatchMesh(mesh, patch_size=20)))
    check_queries(P, mesh)
    check_structure(P, mesh)
    with pytest.raises(ValueError):                     # still read-only
        P.patch(0).ltog_vertices[0] = 1
