"""Patches on the GPU compared with the C++ core, every entry of every array: on the kernel harness, and on a GPU with -m gpu."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from patch_shapes import MESHES, NON_MANIFOLD, book, fan, incidence, make_mesh, shuffled, soup, torus, union

from meshsolve import device
from meshsolve.patches import PatchMesh, kmeans_cuda, query_cuda
from meshsolve.patches.rows import WITHIN_PATCHES

OF_PATTERN = ("VV", "VE", "EV")


def host(array):
    return device.to_host(array)


def check_same_patches(P, Q):
    """Every stored array of P, built by the core, and of Q, built on the device."""
    for kind in ("_vertices", "_edges", "_faces"):
        for name, expected in vars(getattr(P, kind)).items():
            got = host(getattr(getattr(Q, kind), name))
            assert got.dtype == expected.dtype and np.array_equal(got, expected), (kind, name)
    for name in ("_ev", "_fe", "_heavy_vertices", "_heavy_edges"):
        expected, got = getattr(P, name), host(getattr(Q, name))
        assert got.dtype == expected.dtype and np.array_equal(got, expected), name


def check_queries(P, names):
    for name in names:
        for got, expected in zip(P.query(name, device="cuda"), P.query(name, device="cpu")):
            got = host(got)
            assert got.dtype == expected.dtype and np.array_equal(got, expected), name


def check_quotient(P):
    expected, got = P.quotient_graph(device="cpu"), P.quotient_graph(device="cuda")
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(host(getattr(got, name)), getattr(expected, name)), name


def check(subject, names=WITHIN_PATCHES, **options):
    P = PatchMesh(subject, device="cpu", **options)
    check_same_patches(P, PatchMesh(subject, device="cuda", **options))
    check_queries(P, names)
    check_quotient(P)
    return P


def path(n):
    return sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])


PATTERNS = {
    "path": path(700),
    "grid": sp.csr_array(sp.kronsum(path(30), path(20))),
    "cube": sp.kronsum(sp.kronsum(path(8), path(9)), path(7)),
    "no edges": sp.csr_array((300, 300)),
    "dense": np.ones((120, 120)),
    "random": sp.random_array((900, 900), density=0.003, rng=0),
    "star": incidence(np.zeros(2000, int), np.arange(1, 2001), (2001, 2001)),
}


@pytest.mark.parametrize("name", MESHES)
@each("patch_size", [7, 64])
def test_every_mesh(cuda, name, patch_size):
    check(MESHES[name], patch_size=patch_size)


@pytest.mark.parametrize("name", NON_MANIFOLD)
def test_patches_of_one_face(cuda, name):
    check(NON_MANIFOLD[name], patch_size=1)


@pytest.mark.slow
@pytest.mark.parametrize("patch_size", [1, 30, 512])
@pytest.mark.parametrize("name", PATTERNS)
def test_every_pattern(cuda, name, patch_size):
    check(sp.csr_array(PATTERNS[name]), OF_PATTERN, patch_size=patch_size)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 11)] * 3), max_size=40), st.integers(1, 12), st.integers(0, 2**64 - 1))
def test_random_faces(corners, patch_size, seed):
    with device.use(Harness(seed=seed % 3)):
        check(make_mesh(12, [face for face in corners if len(set(face)) == 3]), patch_size=patch_size, seed=seed)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 30), st.integers(0, 80), st.integers(1, 31), st.integers(0, 2**32))
def test_random_patterns(n, entries, patch_size, seed):
    rng = np.random.default_rng(seed)
    A = sp.csr_array(incidence(rng.integers(0, n, entries), rng.integers(0, n, entries), (n, n)))
    with device.use(Harness(seed=seed % 3)):
        check(A, OF_PATTERN, patch_size=patch_size, seed=seed)


def test_full_patches(cuda):
    check(shuffled(torus(60, 70)))
    if cuda is not None:
        expected = {"k_first_seeds", "k_spread", "k_lloyd", "k_lowest_vertex", "k_dual", "k_lowest_patch", "k_star", "k_sides",
                    "k_closure", "k_localize", "k_count", "k_rows", "k_faces_of_faces", "k_table", "k_crossing"}
        assert expected <= cuda.launches.keys()


def test_components_that_no_seed_meets(cuda):
    check(shuffled(union(*[torus(7, 7) for _ in range(50)], soup(50)), seed=3), patch_size=4)
    if cuda is not None:
        assert {"k_unite", "k_roots", "k_component_seeds", "k_cut", "k_merge"} <= cuda.launches.keys()


@pytest.mark.slow
def test_heavy_vertices_and_edges(cuda):
    assert check(fan(3700))._heavy_vertices.tolist() == [0]
    assert check(book(3650), ("VV", "VE", "VF", "FV", "FE", "EV", "EF", "FF"))._heavy_edges.tolist() == [0]
    if cuda is not None:
        assert "k_heavy" in cuda.launches


def test_a_dense_pattern_is_halved_to_fit_16_bits(cuda):
    check(sp.csr_array(np.ones((420, 420))), OF_PATTERN, patch_size=420)


@pytest.mark.parametrize("capacity", [0, 200])
def test_rows_that_do_not_fit_into_shared_memory(cuda, capacity, monkeypatch):
    monkeypatch.setattr(query_cuda, "CAPACITY", capacity)
    check_queries(PatchMesh(MESHES["everything"], patch_size=100), WITHIN_PATCHES)


@pytest.mark.parametrize("name", ["everything", "components"])
def test_any_block_size_and_schedule(varied, name):
    check(MESHES[name], patch_size=20)


def test_any_block_size_and_schedule_of_a_pattern(varied):
    check(sp.csr_array(PATTERNS["random"]), OF_PATTERN, patch_size=25)


@pytest.mark.sanitize
def test_every_kernel_on_something_small():
    """Small, since ThreadSanitizer takes a tenth of a millisecond for each thread of each block."""
    with device.use(Harness(seed=1, block=32)) as harness:
        check(shuffled(union(torus(6, 6), torus(3, 3), soup(4), book(5), unreferenced=3), seed=2), patch_size=4)
        check(sp.csr_array(PATTERNS["grid"][:60, :60]), OF_PATTERN, patch_size=8)
    assert {"k_lloyd", "k_cut", "k_merge", "k_unite", "k_rows", "k_closure", "k_crossing"} <= harness.launches.keys(), harness.launches


@pytest.mark.races
def test_cuts_and_merges_of_something_small(monkeypatch):
    """Disconnected cells, stars, patches of one vertex, adjacent small pieces, and rows beyond the shared memory."""
    monkeypatch.setattr(query_cuda, "CAPACITY", 0)
    with device.use(Harness(seed=1, block=32)):
        check(shuffled(union(fan(60), torus(5, 5), soup(3))), patch_size=8)
        check(incidence(np.zeros(90, int), np.arange(1, 91), (91, 91)), OF_PATTERN, patch_size=6)
        check(path(7), OF_PATTERN, patch_size=1)
        check(sp.csr_array(sp.random_array((150, 150), density=0.012, rng=0)), OF_PATTERN, patch_size=9)


@pytest.mark.sanitize
def test_halves_of_parts(varied):
    """A part of two components, one of two vertices, and one that is not marked."""
    G = sp.csr_array(sp.block_diag([path(21), path(30), path(2), path(9)]))
    part, marked = np.repeat([0, 1, 2], [51, 2, 9]).astype(np.int32), np.array([True, True, False])
    found, count = kmeans_cuda.halve((G.indptr.astype(np.int64), G.indices.astype(np.int32)), part, 3, marked)
    assert len(set(found[53:])) == 1 and max(np.bincount(found)) <= 26
    assert count == len(np.unique(found)) and not set(found[:51]) & set(found[51:])


def test_arrays_built_on_the_gpu_stay_on_the_gpu(cuda):
    P = PatchMesh(MESHES["torus"], patch_size=50, device="cuda")
    expected = PatchMesh(MESHES["torus"], patch_size=50)
    assert all(np.array_equal(host(a), b) for a, b in zip(P.query("VF"), expected.query("VF")))
    assert all(isinstance(a, np.ndarray) for a in P.query("VF", device="cpu"))
    assert np.array_equal(host(P.vertex_weights), expected.vertex_weights)
    q, r = P.patch(3), expected.patch(3)
    assert q.num_owned == r.num_owned and np.array_equal(host(q.ltog_edges), r.ltog_edges) and np.array_equal(host(q.fe), r.fe)
    if cuda is None:
        assert not isinstance(P.vertex_patch, np.ndarray) and not isinstance(P.query("VV")[0], np.ndarray)


def test_tables_are_uploaded_once_and_not_pickled(cuda):
    P = PatchMesh(MESHES["grid"])
    P.query("VV", device="cuda")
    tables = P.tables("cuda")
    P.query("FF", device="cuda")
    assert P.tables("cuda") is tables and not pickle.loads(pickle.dumps(P))._tables
