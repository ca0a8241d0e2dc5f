"""Nested dissection with device="cuda": its invariants, its fill compared with the CPU; on the kernel harness, and on a GPU with -m gpu."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from graphs import check_perm, check_tree, fill, grid, minimum_degree, shuffled, sphere, triangulated
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from test_nested import ZOO

import meshsolve as ms
from meshsolve import device, order
from meshsolve.errors import InvalidInputError, OutOfMemoryError
from meshsolve.order import bisect_cuda, leaf_cuda, nested_cuda, prepass_cuda
from meshsolve.order.nested import EFFORTS
from meshsolve.sparse.matrix import Csr, symmetric_pattern

MESHES = {
    "mesh": lambda: triangulated(150, 120),
    "mesh, shuffled": lambda: shuffled(triangulated(90, 80), 0),
    "grid": lambda: grid(100, 90),
    "grid 3d": lambda: grid(19, 19, 19),
    "sphere": lambda: sphere(5),
    "disk with a slit": lambda: sp.csr_array(sp.block_diag([triangulated(80, 70), triangulated(60, 30)])),
}


def on_device(A):
    P = symmetric_pattern(A)
    return Csr(P.n, device.to_device(P.indptr), device.to_device(P.indices))


def check(A, **options):
    o = order.nested_dissection(A, device="cuda", **options)
    check_perm(o, A.shape[0])
    check_tree(o, A)
    return o


# ---- laws


@pytest.mark.parametrize("name", ZOO)
def test_laws(cuda, name):
    A = ZOO[name]()
    o = check(A)
    assert o.method == "nd" and isinstance(o.perm, np.ndarray)


def test_scale_free_graphs_are_ordered_by_minimum_degree(cuda):
    A = ms.datasets.rmat(14, edges_per_vertex=2)
    S, expected = ms.analyze(A, device="cuda"), order.amd(A)
    assert S.ordering.method == "amd" and np.array_equal(S.ordering.perm, expected.perm)


@pytest.mark.parametrize("make", [lambda: triangulated(75, 70), lambda: grid(18, 17, 17),
                                  lambda: sp.csr_array(sp.block_diag([triangulated(60, 50), triangulated(60, 40)]))],
                         ids=["mesh", "grid", "parts"])
def test_the_order_does_not_depend_on_threads_and_blocks(varied, make):
    A = make()
    o = check(A, seed=3)
    with device.use(Harness(block=64)):
        expected = order.nested_dissection(A, device="cuda", seed=3)
    assert np.array_equal(o.perm, expected.perm) and np.array_equal(o.tree.parent, expected.tree.parent)


@pytest.mark.parametrize("limit", [0, 12 << 10, 227 << 10], ids=["nothing", "all but its rows", "all"])
def test_the_order_does_not_depend_on_shared_memory(limit):
    A = triangulated(75, 70)
    orders = []
    for most in (48 << 10, limit):
        with device.use(Harness(block=64, shared_limit=most)):
            orders.append(check(A, seed=3).perm)
    assert np.array_equal(*orders)


@pytest.mark.slow
@pytest.mark.parametrize("effort", EFFORTS)
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_efforts_and_seeds(cuda, effort, seed):
    o = check(triangulated(100, 90), effort=effort, seed=seed)
    assert len(o.tree) >= 5 and o.num_patches > 100 and o.report.facts["device"] == "cuda" and o.report.seconds["order"] > 0


def test_another_seed_gives_another_order(cuda):
    A = triangulated(75, 70)
    assert not np.array_equal(*(order.nested_dissection(A, seed=s, device="cuda").perm for s in (0, 1)))


@pytest.mark.slow
@settings(max_examples=6)
@given(st.integers(60, 80), st.integers(90, 110), st.integers(16, 900), st.integers(0, 2**32), st.floats(0, 0.3))
def test_meshes_with_holes(nx, ny, patch_size, seed, holes):
    A = triangulated(nx, ny)
    kept = np.flatnonzero(np.random.default_rng(seed).random(nx * ny) >= holes)
    with device.use(Harness(block=64, seed=seed)):
        check(sp.csr_array(A[kept][:, kept]), patch_size=patch_size, seed=seed)


@pytest.mark.sanitize
def test_under_sanitizers():
    with device.use(Harness(block=64, seed=1)):
        check(triangulated(74, 70))
        P = ms.PatchMesh(triangulated(12, 11), patch_size=50)
        nested_cuda.sub_patches(on_device(triangulated(12, 11)), 16, 1, (device.to_device(P.vertex_patch), P.num_patches))
        prepass_cuda.reduce(on_device(sp.csr_array(sp.kron(triangulated(9, 8), np.ones((2, 2))))))
    with device.use(Harness(block=64, seed=2, shared_limit=0)):
        check(triangulated(74, 70))


# ---- fill


def ratio(A, seeds=2):
    """nnz(L) and operations of the GPU order relative to the CPU order, mean over seeds."""
    def mean(device):
        return np.mean([np.log(fill(A, order.nested_dissection(A, seed=s, device=device).perm)) for s in range(seeds)], axis=0)

    return np.exp(mean("cuda") - mean("cpu"))


@pytest.mark.slow
def test_fill_is_that_of_the_cpu(cuda):
    ratios = np.array([ratio(make()) for make in MESHES.values()])
    nnz, flops = np.exp(np.log(ratios).mean(axis=0))
    assert nnz <= 1.03 and flops <= 1.06, dict(zip(MESHES, ratios))
    assert ratios[:, 0].max() <= 1.06 and ratios[:, 1].max() <= 1.12, dict(zip(MESHES, ratios))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*intersect themselves")             # polygons in beast.obj give a warning
def test_fill_on_scans(cuda, data_dir):
    ratios = []
    for name in ("bff_cowhead.obj.gz", "rocker-arm.obj.gz", "imb_fertility.obj.gz", "beast.obj.gz"):
        L = ms.graph_laplacian(ms.load_mesh(data_dir / "meshes" / name))
        symbolic = [ms.analyze(L, ordering=order.nested_dissection(L, device=where)) for where in ("cuda", "cpu")]
        ratios.append([symbolic[0].nnz / symbolic[1].nnz, symbolic[0].flops / symbolic[1].flops])
    nnz, flops = np.exp(np.log(ratios).mean(axis=0))
    assert nnz <= 1.03 and flops <= 1.06, ratios


@pytest.mark.slow
def test_more_effort_less_fill(cuda):
    A = sphere(5)
    nnz = [np.mean([fill(A, order.nested_dissection(A, effort=e, seed=s, device="cuda").perm)[0] for s in range(2)])
           for e in ("quality", "fast")]
    assert nnz[0] <= 1.02 * nnz[1]


# ---- from the patches of a mesh


def ordered_with(P, A, seed=0):
    o = order.dissect_cuda(on_device(A), seed, 1, mesh_patches=P)
    return replace(o, perm=device.to_host(o.perm))


@pytest.mark.slow
@pytest.mark.parametrize("patch_size, parts", [(1, 5600), (40, 200), (512, 88), (60000, 88)])
def test_patches_of_a_mesh_are_cut(cuda, patch_size, parts):
    A = triangulated(80, 70)
    o = ordered_with(ms.PatchMesh(A, patch_size=patch_size, device="cuda"), A)
    check_perm(o, A.shape[0])
    check_tree(o, A)
    assert o.num_patches == pytest.approx(parts, rel=0.2)   # mean of at most 64 vertices, one patch each
    if patch_size > 1:
        assert fill(A, o.perm)[0] <= 1.08 * fill(A, order.nested_dissection(A).perm)[0]


@pytest.mark.slow
def test_mesh_patches_of_scattered_vertices(cuda):
    """Faces in the ribbons of a few patches, vertices without a face, a mesh of several components."""
    mesh = ms.datasets.icosphere(4)
    x = np.concatenate([mesh.vertices, 2 + mesh.vertices, 4 + mesh.vertices[:900]])
    mesh = ms.Mesh(x, np.concatenate([mesh.faces, mesh.faces + len(mesh.vertices)]))
    A = ms.graph_laplacian(mesh)
    for patch_size in (3, 300):
        o = ordered_with(ms.PatchMesh(mesh, patch_size=patch_size, device="cuda"), A)
        check_perm(o, A.shape[0])
        check_tree(o, A)


def test_mesh_patches_with_merged_and_dense_rows(cuda):
    A = triangulated(90, 70)
    pairs = sp.csr_array(sp.kron(A, np.ones((2, 2))))
    A = sp.csr_array(sp.block_array([[pairs, np.ones((12600, 1))], [np.ones((1, 12600)), np.ones((1, 1))]]))
    o = ordered_with(ms.PatchMesh(A, patch_size=400, device="cuda"), A)
    check_perm(o, 12601)
    check_tree(o, A)
    assert o.perm[-1] == 12600 and (o.perm[:-1:2] // 2 == o.perm[1::2] // 2).all()


def test_cut_patches_do_not_depend_on_threads_and_blocks(varied):
    A = triangulated(80, 70)
    found = ordered_with(ms.PatchMesh(A, device="cuda"), A, seed=3)
    with device.use(Harness(block=64)):
        expected = ordered_with(ms.PatchMesh(A, device="cuda"), A, seed=3)
    assert np.array_equal(found.perm, expected.perm)


# ---- parts



def test_a_leaf_alone_is_exact_minimum_degree(cuda):
    A = grid(14, 13)
    G = on_device(A)
    slot = device.xp().zeros(G.n, np.int32)
    perm = device.to_host(leaf_cuda.order_leaves(G, slot, np.zeros(1, np.int32), np.array([G.n], np.int32)))
    assert np.array_equal(np.sort(perm), np.arange(G.n))
    left = sp.csr_array(A).toarray() != 0
    np.fill_diagonal(left, False)
    alive = np.ones(G.n, bool)
    for v in perm:                                          # each pivot has minimum degree among the remaining vertices
        assert left[v].sum() == left[alive].sum(axis=1).min()
        neighbors = np.flatnonzero(left[v])
        left[np.ix_(neighbors, neighbors)] = True
        left[neighbors, neighbors] = False
        left[v] = left[:, v] = alive[v] = False
    assert fill(A, perm)[0] <= 1.1 * fill(A, minimum_degree(A))[0]


def test_large_leaves_take_global_memory_or_the_cpu(cuda, monkeypatch):
    A = grid(40, 30)
    G = on_device(A)
    one = np.zeros(1, np.int32), np.array([G.n], np.int32)
    slot = device.xp().zeros(G.n, np.int32)
    expected = device.to_host(leaf_cuda.order_leaves(G, slot, *one))                # 1200 bits a row: beyond 48 kB
    monkeypatch.setattr(leaf_cuda, "BITS_MOST", 1000)
    on_host = device.to_host(leaf_cuda.order_leaves(G, slot, *one))
    assert np.array_equal(np.sort(on_host), np.sort(expected)) and not np.array_equal(on_host, expected)
    assert fill(A, on_host)[0] <= 1.1 * fill(A, expected)[0]


def test_separators_of_a_strip_are_its_width(cuda):
    A = triangulated(1500, 6)
    o = check(A)
    parent, first, last = o.tree.parent, o.tree.first, o.tree.last
    inner = np.setdiff1d(np.unique(parent), [-1])
    assert len(inner) > 8 and (last - first)[inner].max() == 6


def test_bisection_is_balanced_and_cuts_a_path_once(cuda):
    n = 900
    keys = np.concatenate([np.arange(n - 1) << 32 | np.arange(1, n), np.arange(1, n) << 32 | np.arange(n - 1)])
    keys.sort()
    xp = device.xp()
    Q = bisect_cuda.as_quotient(device.to_device(keys), xp.ones(n, np.int32))      # k_rows
    nodes = nested_cuda.Nodes(np.array([0]), np.array([n]), np.array([0, n]), np.array([-1])).on_device({**EFFORTS["default"], "balance": 0.3})
    side = device.to_host(bisect_cuda.bisect(Q, nodes, 8, np.uint64(5))[0])
    assert np.count_nonzero(np.diff(side)) == 1 and abs(side.sum() - n / 2) <= 0.15 * n + 1


def test_rows_of_a_quotient_graph(cuda):
    """A row longer than a warp, an entry with most keys, rows without keys at both ends."""
    rng = np.random.default_rng(0)
    row, column = rng.integers(1, 40, 3000), rng.integers(0, 90, 3000) ** 2 // 90
    row[:900], column[:900] = 7, 3
    Q = bisect_cuda.as_quotient(device.to_device(row << 32 | column), device.xp().ones(90, np.int32))
    ptr, adj, weight = (device.to_host(x) for x in (Q.ptr, Q.adj, Q.weight))
    expected = sp.csr_array((np.ones(3000, np.int32), (row, column)), shape=(90, 90))
    expected.sum_duplicates()
    assert np.array_equal(ptr, expected.indptr) and np.array_equal(adj, expected.indices) and np.array_equal(weight, expected.data)


def test_patches_are_ranked_and_get_new_numbers(cuda):
    """k_rank and k_relabel: a split node, one that becomes a leaf, one with a single split side; patches without vertices."""
    rng = np.random.default_rng(1)
    patch_ptr, n = np.array([0, 300, 310, 400]), 1500
    patch, side, node = rng.integers(-1, 400, n), rng.integers(0, 2, 400), np.repeat(np.arange(3), np.diff(patch_ptr))
    weight = np.bincount(patch[patch >= 0], minlength=400)
    part = 2 * node + side
    on_gpu = [device.to_device(x.astype(np.int32)) for x in (patch_ptr, side, node, weight, patch)]
    work = nested_cuda.Work.__new__(nested_cuda.Work)
    work.G, work.weight, work.patch = Csr(n, None, None), on_gpu[3], on_gpu[4]
    work.rank, work.slot, found = device.xp().empty(400, np.int32), device.xp().zeros(n, np.int32), device.xp().zeros(18, np.int32)
    device.launch(nested_cuda.PATCHES.k_rank, 3, 64, 0, (on_gpu[0], on_gpu[1], on_gpu[3], work.rank, found))
    held = np.bincount(part[weight > 0], minlength=6)
    assert np.array_equal(device.to_host(found).reshape(3, 6)[:, 4:].ravel(), held)
    is_split = np.array([1, 1, 0, 0, 0, 1], bool)
    first = np.where(is_split, np.cumsum(held * is_split) - held * is_split, -1)
    leaf_begin = np.where(is_split, -1, 10 + np.arange(6))
    work._relabel(on_gpu[1], on_gpu[2], first, leaf_begin, (held * is_split).sum())
    order_ = np.lexsort((np.arange(400), part))
    stays = order_[(is_split[part] & (weight > 0))[order_]]
    fresh = np.full(401, -1)
    fresh[stays] = np.arange(len(stays))
    assert np.array_equal(device.to_host(work.patch), fresh[patch]) and np.array_equal(device.to_host(work.weight), weight[stays])
    assert np.array_equal(device.to_host(work.slot), np.where(patch >= 0, np.maximum(leaf_begin, 0)[part[patch]], 0))


@pytest.mark.sanitize
def test_wide_blocks_order_a_leaf_as_a_warp_does(cuda, monkeypatch):
    G = on_device(triangulated(20, 14))
    ends = np.array([100, 280])
    slot = device.to_device(np.repeat([0, 100], [100, 180]).astype(np.int32))
    found = []
    for most in (300, 10):                                  # k_leaf, k_leaf_wide
        monkeypatch.setattr(leaf_cuda, "WIDE_FROM", most)
        found.append(device.to_host(leaf_cuda.order_leaves(G, slot, np.array([0, 100]), ends)))
    assert np.array_equal(*found)
    assert cuda is None or (cuda.launches["k_leaf"] and cuda.launches["k_leaf_wide"])


# ---- input and output


@pytest.mark.sanitize
def test_a_symmetric_device_pattern_is_used_unchanged(cuda):
    """k_check_symmetric and k_strip. Patterns with missing, unsorted or out-of-range indices are not used unchanged."""
    A = sp.csr_array(triangulated(13, 11))
    A.setdiag(1)
    A.sort_indices()
    n, ptr, idx, expected = A.shape[0], A.indptr.astype(np.int32), A.indices.astype(np.int32), symmetric_pattern(A)

    def taken(ptr, idx):
        return prepass_cuda.stripped(n, device.to_device(ptr), device.to_device(idx))

    G = taken(ptr, idx)
    assert np.array_equal(device.to_host(G.indptr), expected.indptr) and np.array_equal(device.to_host(G.indices), expected.indices)
    swapped, beyond = idx.copy(), idx.copy()
    swapped[:2] = idx[1::-1]
    beyond[-1] = n
    assert taken(np.maximum(ptr - 1, 0), idx[1:]) is not None                    # a diagonal is not required
    for p, i in ((np.maximum(ptr - 1, 0), np.delete(idx, 1)), (ptr, swapped), (ptr, beyond), (ptr, idx.astype(np.int64))):
        assert taken(p, i) is None


@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_a_matrix_on_the_device_becomes_its_pattern(cuda, kind):
    A = sp.random_array((300, 300), density=0.02, rng=np.random.default_rng(0)) + sp.eye_array(300)
    M, expected = kind(A), symmetric_pattern(A)
    got = prepass_cuda.symmetrized(300, device.to_device(M.indptr), device.to_device(M.indices))
    assert np.array_equal(device.to_host(got.indptr), expected.indptr)
    assert np.array_equal(device.to_host(got.indices), expected.indices)


def test_an_index_out_of_range_on_the_device(cuda):
    with pytest.raises(InvalidInputError, match="outside 0..2"):
        prepass_cuda.symmetrized(3, device.to_device(np.array([0, 1, 1, 1])), device.to_device(np.array([3], np.int32)))


def test_indistinguishable_nodes_and_dense_rows(cuda):
    A = sp.csr_array(sp.kron(triangulated(40, 30), np.ones((3, 3))))
    A = sp.csr_array(sp.block_array([[A, np.ones((3600, 1))], [np.ones((1, 3600)), np.ones((1, 1))]]))
    R = prepass_cuda.reduce(on_device(A))
    assert R.graph.n == 1200 and device.to_host(R.dense).tolist() == [3600]
    assert np.array_equal(device.to_host(R.group), np.append(np.arange(3600) // 3, -1))
    expected = symmetric_pattern(triangulated(40, 30))
    assert np.array_equal(device.to_host(R.graph.indptr), expected.indptr)
    assert np.array_equal(device.to_host(R.graph.indices), expected.indices)


def test_mesh_matrix_and_pattern_give_the_same_order(cuda):
    mesh = ms.datasets.scan_like(6000)
    L = ms.graph_laplacian(mesh)
    perms = [order.nested_dissection(given, device="cuda").perm for given in (mesh, L, symmetric_pattern(L))]
    assert np.array_equal(perms[0], perms[1]) and np.array_equal(perms[0], perms[2])


@pytest.mark.parametrize("where", ["auto", "cuda", "cpu"])
@pytest.mark.parametrize("kind", [sp.csr_array, sp.csc_array])
def test_a_matrix_on_the_device(monkeypatch, where, kind):
    A = triangulated(80, 70)
    with device.use(Harness(block=64)):
        expected = order.nested_dissection(A, device="cpu" if where == "cpu" else "cuda")
        monkeypatch.setattr(Harness, "is_native", lambda self, array: isinstance(array, np.ndarray))
        o = order.nested_dissection(kind(A), device=where)
        small = order.nested_dissection(kind(triangulated(9, 8)), device=where)
    assert np.array_equal(o.perm, expected.perm) and o.report.facts["device"] == expected.report.facts["device"]
    check_perm(small, 72)


@pytest.mark.parametrize("shape, says", [((3, 4), "square"), ((0, 0), "0 rows")])
def test_a_matrix_on_the_device_of_a_wrong_shape(monkeypatch, shape, says):
    monkeypatch.setattr(Harness, "is_native", lambda self, array: isinstance(array, np.ndarray))
    with device.use(Harness()), pytest.raises(InvalidInputError, match=says):
        order.nested_dissection(sp.csr_matrix(shape), device="cuda")


def test_cupy_in_cupy_out():
    cupy = pytest.importorskip("cupy")
    if not device.available():
        pytest.skip("no GPU")
    import cupyx.scipy.sparse as csp

    A = triangulated(90, 80)
    o = order.nested_dissection(csp.csr_matrix(sp.csr_matrix(A)), device="auto")
    assert isinstance(o.perm, cupy.ndarray) and isinstance(o.iperm, cupy.ndarray)
    assert np.array_equal(cupy.asnumpy(o.perm), order.nested_dissection(A, device="cuda").perm)


def test_not_enough_gpu_memory(cuda, monkeypatch):
    def full(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(nested_cuda.Work, "__init__", full)
    if cuda is not None:
        with pytest.raises(OutOfMemoryError, match="nested dissection"):
            order.nested_dissection(triangulated(90, 80), device="cuda")


def test_few_launches(cuda):
    """A level takes a fixed number of launches for any number of nodes."""
    order.nested_dissection(triangulated(150, 120), device="cuda")
    if cuda is not None:
        levels = cuda.launches["k_separate"]
        assert levels <= 10 and sum(cuda.launches.values()) <= 12 * levels + 40
