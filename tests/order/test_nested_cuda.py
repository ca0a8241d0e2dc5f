"""Nested dissection with device="cuda": its invariants, its fill compared with the CPU; on the kernel harness, and on a GPU with -m gpu."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from graphs import check_perm, check_tree, fill, grid, minimum_degree, path, random_graph, shuffled, sphere, triangulated
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from test_nested import ZOO

import meshsolve as ms
from meshsolve import device, order
from meshsolve.errors import InvalidInputError, OutOfMemoryError
from meshsolve.order import leaf_cuda, nested_cuda, prepass_cuda
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
def test_the_order_does_not_depend_on_threads_and_blocks(varied, monkeypatch, make):
    A = make()
    with monkeypatch.context() as upper_levels:
        upper_levels.setattr(nested_cuda, "LARGE", 2000)
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
def test_under_sanitizers(monkeypatch):
    with device.use(Harness(block=64, seed=1)):
        check(triangulated(74, 70))
        P = ms.PatchMesh(triangulated(12, 11), patch_size=50)
        nested_cuda.sub_patches(on_device(triangulated(12, 11)), 16, 1, (device.to_device(P.vertex_patch), P.num_patches))
        prepass_cuda.reduce(on_device(sp.csr_array(sp.kron(triangulated(9, 8), np.ones((2, 2))))))
    monkeypatch.setattr(nested_cuda, "LARGE", 3000)
    with device.use(Harness(block=64, seed=2, shared_limit=0)):
        check(triangulated(74, 70))


@pytest.mark.sanitize
def test_missing_nodes_and_vertices_far_from_their_side(cuda, monkeypatch):
    """Some nodes of the upper levels do not exist, and some vertices have no adjacent patch of their side."""
    monkeypatch.setattr(nested_cuda, "LARGE", 300)
    A = random_graph(900, 3, 1)
    found = nested_cuda.dissect(on_device(A), {**EFFORTS["default"], "leaf_size": 60}, 8, 1)
    o = order.Ordering(device.to_host(found.perm), "nd", order.SeparatorTree(*found.tree), found.patches)
    check_perm(o, 900)
    check_tree(o, A)


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
    A = triangulated(80, 70)
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


# rows of dissect.cuh, one entry for each patch: 7, 11 and 15 are level 0 of the pools of the root
WEIGHT, DEGREE, LIST_BEGIN, PATCH_SIDE, NODE, ROW_BEGIN, ROW_END = 0, 1, 2, 3, 4, 7, 11
LISTS = 7                                                   # rows, one entry for each vertex
NODE_TYPE = np.dtype([("first_edge", "i8"), ("edges", "i8"), ("key", "u8"), ("begin", "i4"), ("weight", "i4"), ("first_patch", "i4"),
                      ("last_patch", "i4"), ("owner", "i4"), ("depth", "i4"), ("counters", "i4", 3), ("padding", "i4")])


def work_on(A, patch, patches, **options):
    """Start a dissection of a graph whose vertices are numbered patch by patch."""
    return nested_cuda.Work(on_device(A), device.to_device(patch.astype(np.int32)), patches, {**EFFORTS["default"], **options}, 5)


def test_bisection_is_balanced_and_cuts_a_path_once(cuda):
    n = 900
    work = work_on(path(n), np.arange(n), n, balance=0.3)
    device.launch_1d(nested_cuda.LEVELS.k_rows, 32 * n, *work.args)
    device.launch(nested_cuda.LEVELS.k_coarsen, 1, 64, 0, (*work.args, np.int32(0), work.levels_of))
    device.launch(nested_cuda.LEVELS.k_bisect, 8, 64, 0, (*work.args, np.int32(0), work.levels_of, work.scores))
    device.launch(nested_cuda.LEVELS.k_choose, 1, 64, 0, (*work.args, np.int32(0), work.scores))
    side = device.to_host(work.of_patches)[PATCH_SIDE]
    assert np.count_nonzero(np.diff(side)) == 1 and abs(side.sum() - n / 2) <= 0.15 * n + 1


def test_rows_of_a_quotient_graph(cuda):
    """A row longer than a warp, entries of more edges than a warp has lanes, and a patch without vertices."""
    A = random_graph(900, 8, 0)
    patch = np.sort(np.random.default_rng(0).integers(0, 90, 900))
    patch[(patch > 7) & (patch < 20)] = 7
    patch[(patch > 50) & (patch < 63)] = 50
    patch[patch == 40] = 41
    work = work_on(A, patch, 90)
    device.launch_1d(nested_cuda.LEVELS.k_rows, 32 * 90, *work.args)
    rows, (adj, weight) = device.to_host(work.of_patches), map(device.to_host, work.edges)
    expected = sp.coo_array((np.ones(A.nnz), (patch[A.tocoo().row], patch[A.tocoo().col])), shape=(90, 90)).toarray()
    np.fill_diagonal(expected, 0)
    found = np.zeros((90, 90))
    for p, (begin, end) in enumerate(zip(rows[ROW_BEGIN], rows[ROW_END])):
        assert len(np.unique(adj[begin:end])) == end - begin
        found[p, adj[begin:end]] = weight[begin:end]
    assert np.array_equal(found, expected) and (found > 0).sum(1).max() > 32 and found.max() > 32 and not found[40].any()
    assert np.array_equal(rows[WEIGHT], np.bincount(patch, minlength=90))


def test_every_level_keeps_its_invariants(cuda, monkeypatch):
    """Slices of nodes, weights and degrees of patches, lists of vertices; a node of two components, and sides that are leaves."""
    monkeypatch.setattr(nested_cuda, "LARGE", 700)
    A = sp.csr_array(sp.block_diag([triangulated(60, 50), triangulated(40, 30), triangulated(20, 12)]))
    G, _, patch, patches = nested_cuda.sub_patches(on_device(A), 16, 1)
    degrees, host = np.diff(device.to_host(G.indptr)), Csr(G.n, device.to_host(G.indptr), device.to_host(G.indices))
    work = nested_cuda.Work(G, patch, patches, EFFORTS["default"], 1)
    assert work.levels == 3
    for depth in range(work.levels):
        work.divide_level(depth)
        rows, lists = device.to_host(work.of_patches), device.to_host(work.vertices)[LISTS + (depth + 1) % 2]
        of, nodes = device.to_host(patch), device.to_host(work.nodes).view(NODE_TYPE).ravel()
        row = np.repeat(np.arange(G.n), degrees)
        first, ends = 2 << depth, []
        for k in range(first - 1, 2 * first - 1):
            x = nodes[k]
            if x["weight"] == 0:
                continue
            inside = np.flatnonzero((of >= x["first_patch"]) & (of < x["last_patch"]))
            numbers = np.arange(x["first_patch"], x["last_patch"])
            assert len(inside) == x["weight"] > 300 and x["depth"] == depth + 1 and (rows[NODE][numbers] == k).all()
            assert x["edges"] == degrees[inside].sum() == rows[DEGREE][numbers].sum() and not x["counters"].any()
            assert np.array_equal(np.sort(lists[x["begin"]:x["begin"] + x["weight"]]), inside)
            for p in numbers:
                own = lists[rows[LIST_BEGIN][p]:rows[LIST_BEGIN][p] + rows[WEIGHT][p]]
                assert len(own) and np.array_equal(np.sort(own), np.flatnonzero(of == p))
            ends.append([(x[name], x[name] + size) for name, size in (("begin", x["weight"]), ("first_edge", x["edges"]))])
            is_in = np.isin(np.arange(G.n), inside)
            assert (of[host.indices[is_in[row] & ~is_in[host.indices]]] == -1).all()
        ends = np.array(ends)
        assert (ends[1:, :, 0] >= ends[:-1, :, 1]).all() and np.isin(rows[NODE], [-1, *range(first - 1, 2 * first - 1)]).all()


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: triangulated(75, 70), lambda: grid(18, 17, 17)], ids=["mesh", "grid"])
def test_the_order_does_not_depend_on_the_number_of_upper_levels(cuda, monkeypatch, make):
    orders = []
    for large in (8192, 2000, 500):
        monkeypatch.setattr(nested_cuda, "LARGE", large)
        orders.append(check(make()))
    assert all(np.array_equal(o.perm, orders[0].perm) and np.array_equal(o.tree.parent, orders[0].tree.parent) for o in orders)


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


@pytest.mark.slow
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


def test_launches_and_reads_do_not_depend_on_the_number_of_levels(cuda, monkeypatch):
    if cuda is None:
        pytest.skip("counts are those of the harness")
    A, found, depths = triangulated(75, 70), [], []
    for most in (300, 40):
        monkeypatch.setattr(nested_cuda, "LEAF_MOST", most)
        G, _, patch, patches = nested_cuda.sub_patches(on_device(A), 64, 0)
        with cuda.counted() as counts:
            work = nested_cuda.Work(G, patch, patches, EFFORTS["default"], 0)
            work.dissect()
            parent, *_ = work.tree()
        found.append([counts[kind] for kind in ("launches", "reads", "allocations", "uploads")])
        depth = np.zeros(len(parent) + 1, int)
        for k in reversed(range(len(parent))):
            depth[k] = depth[parent[k]] + 1
        depths.append(depth.max())
    assert found == 2 * [[2, 1, 8, 0]] and depths[1] >= depths[0] + 2


@pytest.mark.slow
def test_an_upper_level_is_seven_launches(cuda):
    if cuda is None:
        pytest.skip("counts are those of the harness")
    counts = []
    for A in (triangulated(75, 70), triangulated(150, 120)):
        with cuda.counted() as found:
            order.nested_dissection(A, device="cuda")
        counts.append(found["launches"] - cuda.launches.pop("k_leaf"))
        cuda.launches.clear()
    assert counts[1] == counts[0] + 2 * 7
