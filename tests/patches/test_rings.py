"""Rotation orders, diamonds, edges of edges, rings and reductions: each compared with a plain reference, on the host and on the GPU."""

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_harness import Harness
from patch_shapes import MESHES, NON_MANIFOLD, answer, book, fan, grid, incidence, make_mesh, shuffled, soup, torus, union

import meshsolve as ms
from meshsolve import device
from meshsolve.errors import InvalidInputError, OutOfMemoryError
from meshsolve.patches import PatchMesh, host

SMALL = {
    "torus": shuffled(torus(9, 8)),
    "grid": shuffled(grid(7, 6)),
    "components": shuffled(union(torus(5, 4), grid(4, 3), fan(5), soup(6), unreferenced=3)),
    "inconsistently oriented": NON_MANIFOLD["inconsistently oriented"],
    "two faces on the same corners": make_mesh(3, [[0, 1, 2], [2, 1, 0]]),
}


def arcs_of(mesh):
    """For each vertex the pairs (next corner, previous corner) of its faces, by ascending face."""
    arcs = [[] for _ in mesh.vertices]
    for face in mesh.faces.tolist():
        for k in range(3):
            arcs[face[k]].append((face[(k + 1) % 3], face[(k + 2) % 3]))
    return arcs


def is_fan(arcs):
    """True if the arcs around a vertex form one path or one cycle."""
    ends = [end for arc in arcs for end in arc]
    if max(map(ends.count, ends), default=0) > 2:
        return False
    found = set(arcs[0]) if arcs else set()
    for _ in arcs:
        found |= {end for arc in arcs if found & set(arc) for end in arc}
    return found == set(ends)


def rotated(arcs):
    """The rotation order of consistently oriented faces, or None if they are not oriented alike."""
    following = dict(arcs)
    if len(following) < len(arcs) or len({q for _, q in arcs}) < len(arcs):
        return None
    begin = next((p for p, _ in arcs if p not in following.values()), arcs[0][0] if arcs else None)
    row = [] if begin is None else [begin]
    while row and following.get(row[-1], begin) != begin:
        row.append(following[row[-1]])
    return row


def check_rotation(P, mesh, name="VV"):
    indptr, indices = map(device.to_host, P.query("VV", oriented=True))
    edges = device.to_host(P.query("VE", oriented=True)[1])
    assert np.array_equal(indptr, answer(mesh, "VV")[0]) and indices.dtype == edges.dtype == np.int32
    owner = np.repeat(np.arange(len(mesh.vertices)), np.diff(indptr))
    assert np.array_equal(mesh.edges[edges], np.sort(np.stack([owner, indices], axis=1), axis=1))
    for v, arcs in enumerate(arcs_of(mesh)):
        row, expected = indices[indptr[v]:indptr[v + 1]].tolist(), rotated(arcs)
        if expected is not None:
            assert row == expected
        around = {frozenset(arc) for arc in arcs}
        assert all(frozenset(pair) in around for pair in zip(row, row[1:]))
        assert sorted(row) == sorted({end for arc in arcs for end in arc})
        assert not arcs or arcs[0] in list(zip(row, row[1:] + row[:1]))     # the lowest face determines the direction


@pytest.mark.native
@pytest.mark.parametrize("name", MESHES)
def test_rotation_order(name):
    mesh = MESHES[name]
    P = PatchMesh(mesh, patch_size=64)
    bad = next((v for v, arcs in enumerate(arcs_of(mesh)) if not is_fan(arcs)), None)
    if bad is None:
        check_rotation(P, mesh)
    else:
        with pytest.raises(InvalidInputError, match=f"vertex {bad} is not manifold"):
            P.query("VV", oriented=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.permutations(range(7)).map(lambda p: p[:3]), max_size=9), st.integers(1, 4))
def test_rotation_order_of_random_faces(faces, patch_size):
    mesh = make_mesh(7, faces)
    P = PatchMesh(mesh, patch_size=patch_size)
    bad = [v for v, arcs in enumerate(arcs_of(mesh)) if not is_fan(arcs)]
    if bad:
        with pytest.raises(InvalidInputError, match=f"vertex {bad[0]} is not manifold"):
            P.query("VE", oriented=True)
    else:
        check_rotation(P, mesh)


@pytest.mark.parametrize("mesh, says", [
    (union(torus(4, 4), NON_MANIFOLD["bow tie"]), "vertex 16 is not manifold.*its 2 faces form more than one fan"),
    (union(torus(4, 4), book(3)), r"vertex 16 is not manifold.*edge \(16, 17\) has more than two faces"),
], ids=["two fans", "three faces on an edge"])
def test_the_lowest_vertex_without_rotation_order_is_named(mesh, says):
    for threads in (1, 2):
        with pytest.raises(InvalidInputError, match=says):
            PatchMesh(mesh, threads=threads).query("VV", oriented=True)


def test_rotation_is_counterclockwise_seen_from_outside():
    sphere = ms.datasets.icosphere(2)
    indptr, indices = PatchMesh(sphere, patch_size=50).query("VV", oriented=True)
    x = sphere.vertices
    for v in range(len(x)):
        spokes = x[indices[indptr[v]:indptr[v + 1]]] - x[v]
        assert (np.cross(spokes, np.roll(spokes, -1, axis=0)) @ x[v] > 0).all()


def test_polygons_are_their_triangles(tmp_path):
    corners = [(x, y, z) for x in (0, 1) for y in (0, 1) for z in (0, 1)]
    quads = ["1 2 4 3", "5 7 8 6", "1 5 6 2", "3 4 8 7", "1 3 7 5", "2 6 8 4"]
    (tmp_path / "cube.obj").write_text("".join(f"v {x} {y} {z}\n" for x, y, z in corners) + "".join(f"f {quad}\n" for quad in quads))
    cube = ms.load_mesh(tmp_path / "cube.obj")
    check_rotation(PatchMesh(cube), cube)
    check_diamonds(PatchMesh(cube), cube)


def test_a_hub_of_20000_neighbors():
    mesh = fan(20_000)
    indptr, indices = PatchMesh(mesh).query("VV", oriented=True)
    assert np.array_equal(indices[:indptr[1]], np.arange(1, 20_002))


# ---- diamonds, edges of edges


def check_diamonds(P, mesh, device_name=None):
    indptr, indices = map(device.to_host, P.query("EVDiamond", device=device_name))
    assert np.array_equal(indptr, 4 * np.arange(len(mesh.edges) + 1)) and indices.dtype == np.int32
    rows = indices.reshape(-1, 4)
    assert np.array_equal(rows[:, ::2], mesh.edges)
    sides = {}
    for face in mesh.faces.tolist():
        for k in range(3):
            sides.setdefault(frozenset((face[k], face[(k + 1) % 3])), []).append(((face[k], face[(k + 1) % 3]), face[(k + 2) % 3]))
    for a, c, b, d in rows.tolist():
        found = sides[frozenset((a, b))]
        forward, backward = ([corner for side, corner in found if side == ends] for ends in ((a, b), (b, a)))
        assert [c, d] == (forward + [-1])[:1] + (backward + [-1])[:1] if len(forward) < 2 > len(backward) else [corner for _, corner in found]


@pytest.mark.parametrize("name", MESHES)
def test_diamonds(name):
    mesh = MESHES[name]
    faces = np.bincount(mesh.side_edges.ravel(), minlength=len(mesh.edges))
    P = PatchMesh(mesh, patch_size=64)
    if (faces > 2).any():
        edge = int(np.argmax(faces > 2))
        with pytest.raises(InvalidInputError, match=rf"edge {edge}, \(.*\), is not manifold: it has {faces[edge]} faces"):
            P.query("EVDiamond")
    else:
        check_diamonds(P, mesh)


@pytest.mark.parametrize("name", MESHES)
def test_edges_that_share_an_end(name):
    got, expected = PatchMesh(MESHES[name], patch_size=64).query("EE"), answer(MESHES[name], "EE")
    assert all(map(np.array_equal, got, expected)) and got[1].dtype == np.int32


# ---- rings


def ring_reference(A, rings):
    """Off-diagonal pattern of the powers of the adjacency A."""
    reach = step = sp.csr_array(A != 0).astype(int)
    for _ in range(1, rings):
        step = step @ reach
        A = A + step
    A = sp.coo_array(A)
    off = A.row != A.col
    A = incidence(A.row[off], A.col[off], A.shape)
    A.sort_indices()
    return A.indptr, A.indices


def adjacency(mesh):
    indptr, indices = answer(mesh, "VV")
    return sp.csr_array((np.ones(len(indices), int), indices, indptr), shape=2 * (len(mesh.vertices),))


@pytest.mark.parametrize("rings", [1, 2, 3])
@pytest.mark.parametrize("name", ["grid", "components", "everything", "unreferenced", "vertices only"])
def test_rings(name, rings):
    got = PatchMesh(MESHES[name], patch_size=64).query("VV", rings=rings)
    assert all(map(np.array_equal, got, ring_reference(adjacency(MESHES[name]), rings))) and got[1].dtype == np.int32


def test_rings_reach_the_whole_component():
    indptr, indices = PatchMesh(sp.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(9, 9))).query("VV", rings=10**9)
    assert np.array_equal(indices.reshape(9, 8), [np.delete(np.arange(9), v) for v in range(9)])


def test_rings_beyond_the_memory(monkeypatch):
    monkeypatch.setattr(host, "available_memory", lambda: 10_000)
    P = PatchMesh(MESHES["torus"])
    with pytest.raises(OutOfMemoryError, match="use fewer rings"):
        P.query("VV", rings=2)


# ---- reductions


PLAIN = {"sum": np.sum, "mean": np.mean, "min": np.min, "max": np.max}


def reduction_reference(indptr, indices, values, op, empty):
    rows = [indices[a:b] for a, b in zip(indptr, indptr[1:])]
    none = np.full(values.shape[1:], 0 if op == "sum" else empty)
    return np.array([PLAIN[op](values[row[row >= 0]], axis=0) if len(row) else none for row in rows]).reshape(len(rows), *values.shape[1:])


@pytest.mark.parametrize("query", ["VV", "VF", "FV", "EE", "EVDiamond"])
@each("op", PLAIN)
@each("shape", [(), (3,), (2, 3), (0,)])
def test_reductions(query, shape, op):
    mesh = SMALL["components"]
    P = PatchMesh(mesh, patch_size=16)
    targets = {"V": len(mesh.vertices), "E": len(mesh.edges), "F": len(mesh.faces)}[query[1]]
    values = np.random.default_rng(0).standard_normal((targets, *shape))
    got = P.reduce(query, values, op)
    expected = reduction_reference(*P.query(query), values, op, np.nan)
    assert got.shape == expected.shape and got.dtype == np.float64
    assert np.allclose(got, expected, rtol=1e-14, atol=1e-14, equal_nan=True)
    if op in ("min", "max"):
        assert np.array_equal(got, expected, equal_nan=True)


@pytest.mark.parametrize("given, kept", [(np.float32, np.float32), (np.float16, np.float32), (np.int8, np.int64), (bool, np.int64),
                                         (np.int64, np.int64), (np.longdouble, np.float64), (">f8", np.float64)])
def test_types_of_reductions(given, kept):
    P = PatchMesh(SMALL["torus"])
    values = np.arange(72).astype(given)
    for op in PLAIN:
        got = P.reduce("VV", values, op, empty=-1)
        assert got.dtype == (np.float64 if op == "mean" and kept == np.int64 else kept)
        assert np.allclose(got.astype(float), reduction_reference(*P.query("VV"), values.astype(float), op, -1))


def test_sums_of_integers_are_exact_and_nan_is_kept():
    P = PatchMesh(SMALL["grid"])
    n = len(SMALL["grid"].vertices)
    big = np.full(n, 2**53 + 1)
    assert np.array_equal(P.reduce("VV", big), np.diff(P.query("VV")[0]) * (2**53 + 1))
    values = np.zeros(n)
    values[5] = np.nan
    expected = np.isin(np.arange(n), (lambda p, i: i[p[5]:p[6]])(*P.query("VV")))
    for op in PLAIN:
        assert np.array_equal(np.isnan(P.reduce("VV", values, op)), expected)


def test_reductions_over_rings():
    P = PatchMesh(SMALL["torus"])
    ones = np.ones(72)
    assert np.array_equal(P.reduce("VV", ones, rings=2), np.diff(P.query("VV", rings=2)[0]))
    assert np.array_equal(P.reduce("VV", ones), np.full(72, 6))


def test_results_do_not_depend_on_threads():
    mesh = MESHES["shuffled torus"]
    one, two = (PatchMesh(mesh, patch_size=64, threads=threads) for threads in (1, 2))
    values = np.random.default_rng(1).standard_normal((len(mesh.vertices), 3))
    for query, options in (("VV", dict(oriented=True)), ("VE", dict(oriented=True)), ("VV", dict(rings=3)), ("EE", {}), ("EVDiamond", {})):
        assert all(map(np.array_equal, one.query(query, **options), two.query(query, **options)))
    assert all(np.array_equal(one.reduce("VV", values, op), two.reduce("VV", values, op)) for op in PLAIN)


# ---- input


@pytest.mark.parametrize("arguments, says", [
    (dict(name="VF", oriented=True), "oriented=True is for the queries VV and VE, got 'VF'"),
    (dict(name="VV", oriented=2), "oriented must be True or False"),
    (dict(name="VE", rings=2), "rings=2 is for the query VV"),
    (dict(name="VV", oriented=True, rings=2), "rings=2 is for the query VV without oriented=True"),
    *[(dict(name="VV", rings=rings), "rings must be an integer from 1") for rings in (0, -1, 1.5, "2", None, True)],
], ids=str)
def test_bad_queries(arguments, says):
    with pytest.raises(InvalidInputError, match=says):
        PatchMesh(SMALL["grid"]).query(**arguments)


def test_patterns():
    A = sp.csr_array(sp.random_array((40, 40), density=0.05, rng=0))
    P = PatchMesh(A, patch_size=8)
    edges = P.query("EV")[1].reshape(-1, 2)
    EV = incidence(np.repeat(np.arange(len(edges)), 2), edges.ravel(), (len(edges), 40))
    assert all(map(np.array_equal, P.query("EE"), ring_reference(EV @ EV.T, 1)))
    assert all(map(np.array_equal, P.query("VV", rings=2), ring_reference(incidence(*np.r_[edges, edges[:, ::-1]].T, (40, 40)), 2)))
    for call in (lambda: P.query("VV", oriented=True), lambda: P.query("EVDiamond"), lambda: P.reduce("VF", np.ones(3))):
        with pytest.raises(InvalidInputError, match="needs faces"):
            call()


@pytest.mark.parametrize("values, options, says", [
    (np.ones(7), {}, r"values must be of shape \(56, ...\).*got \(7,\)"),
    (1.0, {}, "values must be of shape"),
    (np.ones(56, complex), {}, "values must be real numbers.*complex128"),
    (np.ones(56, np.uint64), {}, "values must be real numbers.*uint64"),
    (["a"] * 56, {}, "values must be real numbers"),
    (sp.eye_array(56), {}, "values is sparse"),
    (np.ones(56), dict(op="median"), "op must be one of 'sum', 'mean', 'min', 'max'"),
    (np.ones(56), dict(op="min", empty="0"), "empty must be a finite number"),
    (np.ones(56), dict(op="min", empty=10**400), "empty must be a finite number"),
    (np.ones(56, int), dict(op="min", empty=0.5), "empty must be an integer"),
    (np.ones(56), dict(rings=0), "rings must be an integer"),
], ids=str)
def test_bad_reductions(values, options, says):
    P = PatchMesh(SMALL["grid"])
    with pytest.raises(InvalidInputError, match=says):
        P.reduce("VV", values, **options)


def test_integers_have_no_value_for_empty_rows():
    mesh = SMALL["components"]
    P, row = PatchMesh(mesh), int(np.argmin(np.diff(answer(mesh, "VV")[0])))
    labels = np.arange(len(mesh.vertices))
    with pytest.raises(InvalidInputError, match=f"row {row} of the query has no entries"):
        P.reduce("VV", labels, "max")
    assert P.reduce("VV", labels, "max", empty=-7)[row] == -7 and P.reduce("VV", labels)[row] == 0


# ---- on the GPU


def check_on_gpu(mesh, patch_size=16):
    P = PatchMesh(mesh, patch_size=patch_size)
    rng = np.random.default_rng(0)
    for query, options in (("VV", dict(oriented=True)), ("VE", dict(oriented=True)), ("VV", dict(rings=2)), ("VV", dict(rings=4)),
                           ("EE", {}), ("EVDiamond", {})):
        for got, expected in zip(P.query(query, "cuda", **options), P.query(query, "cpu", **options)):
            got = device.to_host(got)
            assert got.dtype == expected.dtype and np.array_equal(got, expected), (query, options)
    for query, op, dtype in (("VV", "sum", np.float64), ("VF", "mean", np.float32), ("EVDiamond", "min", np.int64), ("EE", "max", np.float64)):
        targets = {"V": len(mesh.vertices), "E": len(mesh.edges), "F": len(mesh.faces)}[query[1]]
        values = (100 * rng.standard_normal((targets, 2))).astype(dtype)
        got = P.reduce(query, device.to_device(values), op, empty=0, device="cuda")
        assert not isinstance(got, np.ndarray) or device.backend().name == "harness"
        assert np.array_equal(device.to_host(got), P.reduce(query, values, op, empty=0, device="cpu")), (query, op)


@pytest.mark.parametrize("name", SMALL)
def test_results_of_the_gpu_are_those_of_the_cpu(cuda, name):
    check_on_gpu(SMALL[name])


def test_errors_of_the_gpu_are_those_of_the_cpu(cuda):
    P = PatchMesh(union(torus(4, 4), NON_MANIFOLD["bow tie"], book(4)))
    for query, options in (("VV", dict(oriented=True)), ("EVDiamond", {})):
        said = []
        for place in ("cpu", "cuda"):
            with pytest.raises(InvalidInputError, match="not manifold") as error:
                P.query(query, place, **options)
            said.append(str(error.value))
        assert said[0] == said[1]
    with pytest.raises(InvalidInputError, match="has no entries"):
        PatchMesh(make_mesh(4, [[0, 1, 2]])).reduce("VV", np.arange(4), "min", device="cuda")


def test_any_block_size_and_schedule(varied):
    check_on_gpu(SMALL["components"], patch_size=7)


def test_patterns_on_the_gpu(cuda):
    P = PatchMesh(sp.csr_array(sp.random_array((60, 60), density=0.03, rng=0)), patch_size=8)
    for query, rings in (("EE", 1), ("VV", 3)):
        assert all(np.array_equal(device.to_host(a), b) for a, b in zip(P.query(query, "cuda", rings=rings), P.query(query, rings=rings)))


@pytest.mark.sanitize
def test_every_kernel_of_rings_on_something_small():
    with device.use(Harness(seed=1, block=32)) as harness:
        check_on_gpu(shuffled(union(torus(3, 4), grid(2, 2), unreferenced=2)), patch_size=6)
    assert {"k_rotate", "k_merge_edges", "k_diamond", "k_reduce_double", "k_reduce_float", "k_reduce_integer"} <= harness.launches.keys()
