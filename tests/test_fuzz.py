"""Garbage in every public argument: a result or a MeshsolveError, never a crash or another exception."""

import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import meshsolve as ms

N = 6
A = sp.csr_array(sp.diags_array([-np.ones(N - 1), 2.1 * np.ones(N), -np.ones(N - 1)], offsets=[-1, 0, 1]))
F, FIXED = ms.cholesky(A), ms.cholesky(A, fixed=[0, 3])
MESH, ONES = ms.datasets.icosphere(0), np.ones(N)


class Trap:
    def __array__(self, *args, **keywords):
        raise RuntimeError("no array for you")


NUMBERS = st.sampled_from([-2**70, -1, 0, 1, 3, 2**31, 2**63, 2**70, 10**400, -0.0, 0.5, 1e-300, 1e300, math.inf, -math.inf, math.nan, 1j, True,
                           np.float32(1.5), np.int64(-5), np.longdouble("1e4000"), np.array(2.0)])
THINGS = st.one_of(st.none(), NUMBERS, st.text(max_size=4), st.binary(max_size=4), st.just({}), st.builds(object), st.builds(Trap),
                   st.lists(st.integers(-2, N), max_size=4), st.just([[1], [1, 2]]), st.just(sp.csr_array(np.ones((N, 1)))))
DTYPES = st.sampled_from(["?", "i1", "u8", "i8", "f2", "f4", "f8", ">f8", "g", "c16", "U3", "O", "M8[s]", [("a", "f8")]])
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, st.sampled_from([(), (0,), (N,), (N, 2), (N, N), (3, 3), (N, 0), (2, 2, 2)]),
                                                 elements=st.just(1) if dtype == "O" else None))
WORDS = st.one_of(st.none(), NUMBERS, st.text(max_size=4), st.binary(max_size=4), st.just([]), st.builds(object))

TAKES_ARRAYS = {
    "cholesky": ms.cholesky, "analyze": ms.analyze, "refactor": F.refactor, "factor": F.symbolic.factor,
    "solve": lambda x: ms.solve(x, ONES), "solve b": lambda x: ms.solve(A, x), "F.solve": F.solve, "L": lambda x: F.solve(x, system="L"),
    "out": lambda x: F.solve(ONES, out=x), "fixed": lambda x: ms.cholesky(A, fixed=x), "ordering": lambda x: ms.cholesky(A, ordering=x),
    "fixed_values": lambda x: FIXED.solve(ONES, fixed_values=x), "mesh": lambda x: ms.cholesky(A, mesh=x),
    "nested_dissection": ms.order.nested_dissection, "amd": ms.order.amd, "rcm": ms.order.rcm, "PatchMesh": ms.PatchMesh,
    "graph_laplacian": ms.graph_laplacian, "weighted graph": lambda x: ms.graph_laplacian(x, weights="values"),
    "weights": lambda x: ms.graph_laplacian(A, weights=x), "weights of edges": lambda x: ms.graph_laplacian(MESH, weights=x), "vertices": lambda x: ms.Mesh(x, [[0, 1, 2]]), "faces": lambda x: ms.Mesh(np.eye(3), x),
    "mesh alone": ms.Mesh, "with_vertices": MESH.with_vertices, "cotan_laplacian": ms.cotan_laplacian, "mass_matrix": ms.mass_matrix, "gradient": ms.operators.gradient,
    "divergence": ms.operators.divergence, "mcf": ms.apps.mcf,
    "smooth": lambda x: ms.apps.smooth(x, 1), "from_trimesh": ms.Mesh.from_trimesh, "load_mesh": ms.load_mesh, "circuit": ms.apps.circuit.read, "save": MESH.save,
    "threads": lambda x: ms.cholesky(A, threads=x), "seed": lambda x: ms.order.random(A, x), "rtol": lambda x: ms.solve(A, ONES, rtol=x),
    "dt": lambda x: ms.apps.mcf(MESH, dt=x), "strength": lambda x: ms.apps.smooth(MESH, x), "order": lambda x: ms.apps.smooth(MESH, 1, x),
    "patch_size": lambda x: ms.PatchMesh(MESH, x), "patch seed": lambda x: ms.PatchMesh(MESH, seed=x), "patch": ms.PatchMesh(MESH).patch,
    "effort": lambda x: ms.order.nested_dissection(A, x), "nd patch": lambda x: ms.order.nested_dissection(A, patch_size=x),
    "device": lambda x: ms.cholesky(A, device=x), "backend": lambda x: ms.cholesky(A, backend=x), "query": ms.PatchMesh(MESH).query,
    "kind": lambda x: ms.mass_matrix(MESH, x), "method": lambda x: ms.solve(A, ONES, method=x),
}
TAKES_WORDS = {
    "precision": lambda x: ms.cholesky(A, precision=x), "system": lambda x: F.solve(ONES, system=x), "callback": lambda x: ms.apps.mcf(MESH, callback=x),
    "kkt n": lambda x: ms.datasets.kkt(x, 1), "kkt seed": lambda x: ms.datasets.kkt(4, 1, x), "delaunay seed": lambda x: ms.datasets.delaunay(9, x),
    "road degree": lambda x: ms.datasets.road_like(9, 1, x), "helmholtz points": lambda x: ms.datasets.helmholtz(4, x),
    "helmholtz dim": lambda x: ms.datasets.helmholtz(4, 9, x), "rmat k": ms.datasets.rmat, "rmat edges": lambda x: ms.datasets.rmat(3, 1, x),
    "power grid step": lambda x: ms.datasets.power_grid(4, step=x), "ladder": lambda x: ms.datasets.ladder(4, x),
    "scan": ms.datasets.scan_like, "grid3d kind": lambda x: ms.datasets.grid3d(3, x), "grid2d": lambda x: ms.datasets.grid2d(x, 3),
    "boundary": lambda x: ms.datasets.grid2d(3, 3, x), "stokes": ms.datasets.stokes, "icosphere": ms.datasets.icosphere,
    "preferential": lambda x: ms.datasets.preferential(9, x),
}
B0, X0 = ONES * np.arange(N), F.solve(ONES * np.arange(N))


def survives(call):
    """Run the call, which must return or raise a MeshsolveError. Numpy may warn of values out of range."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call()
        except ms.MeshsolveError:
            return None


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKES_ARRAYS)
@settings(max_examples=60)
@given(thing=st.one_of(THINGS, ARRAYS))
def test_things_and_arrays(tmp_path_factory, monkeypatch_cwd, name, thing):
    survives(lambda: TAKES_ARRAYS[name](thing))
    survives(lambda: F.refactor(A))
    assert np.array_equal(F.solve(B0), X0)


@pytest.fixture(scope="module")
def monkeypatch_cwd(tmp_path_factory):
    """Some functions treat strings as file names, so tests run in a temporary folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("fuzz"))
        yield


@pytest.mark.parametrize("name", TAKES_WORDS)
@settings(max_examples=30)
@given(thing=WORDS)
def test_words_and_numbers(name, thing):
    survives(lambda: TAKES_WORDS[name](thing))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csr", "csc", "bsr", "coo", "lil", "dia"])
@settings(max_examples=120)
@given(data=st.data())
def test_corrupted_sparse_arrays(form, data):
    M = A.copy().asformat(form) if form != "bsr" else sp.bsr_array(A.toarray(), blocksize=(2, 2))
    names = {"coo": ["row", "col", "data"], "lil": ["rows"], "dia": ["offsets"]}.get(form, ["indices", "indptr", "data"])
    for name in data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=2, unique=True)):
        array = np.array(getattr(M, name))
        if form == "lil":
            array[data.draw(st.integers(0, N - 1))] = data.draw(st.lists(st.integers(-2, N + 2), max_size=4))
        elif array.size and data.draw(st.booleans()):
            array.flat[data.draw(st.integers(0, array.size - 1))] = data.draw(st.sampled_from([-2**31, -N, -1, 0, 1, N - 1, N, N + 1, 2**31 - 1]))
        else:
            array = array[:data.draw(st.integers(0, len(array)))] if data.draw(st.booleans()) else np.append(array, array)
        try:
            setattr(M, name, array)
        except (ValueError, TypeError):             # scipy checks too
            return
    for function in (ms.cholesky, ms.analyze, F.refactor, ms.order.amd, ms.order.nested_dissection, ms.graph_laplacian, ms.PatchMesh,
                     lambda x: ms.graph_laplacian(x, weights="values")):
        survives(lambda f=function: f(M))
    survives(lambda: F.refactor(A))
    assert np.array_equal(F.solve(B0), X0)


EXTREMES = st.sampled_from([0.0, 1.0, -1.0, 1e-300, 1e-160, -1e-8, 1e8, 1e150, -1e300, 1.7e308])


@settings(max_examples=150)
@given(hnp.arrays(np.float64, (5, 5), elements=EXTREMES), st.sampled_from(["double", "single", "mixed"]), st.booleans())
def test_extreme_values(half, precision, pin):
    M = np.tril(half) + np.tril(half, -1).T
    survives(lambda: ms.cholesky(M, precision=precision, pin=pin).solve(np.arange(5.0)))


@pytest.mark.slow
@settings(max_examples=150)
@given(x=hnp.arrays(np.float64, (6, 3), elements=st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-200, 1e-9, 1e9, 1e70, -1e70])),
       t=hnp.arrays(np.int32, st.tuples(st.integers(0, 9), st.just(3)), elements=st.integers(0, 5)))
def test_any_triangles(x, t):
    mesh = survives(lambda: ms.Mesh(x, t))
    assert np.array_equal(mesh.vertices, x)
    for matrix in (ms.cotan_laplacian(mesh), ms.graph_laplacian(mesh), ms.mass_matrix(mesh), ms.mass_matrix(mesh, "consistent"),
                   ms.operators.gradient(mesh), ms.operators.divergence(mesh)):
        assert np.isfinite(matrix.data).all()
    survives(lambda: ms.mass_matrix(mesh, "voronoi"))
    survives(mesh.boundary_loops)
    survives(lambda: ms.cotan_laplacian(mesh, intrinsic_delaunay=True))
    for call in (lambda: ms.apps.mcf(mesh, steps=2), lambda: ms.apps.mcf(mesh, conformal=True), lambda: ms.apps.smooth(mesh, 1),
                 lambda: ms.apps.smooth(mesh, 1, 2)):
        answer = survives(call)
        assert answer is None or np.isfinite(answer[0].vertices).all()
    patches = ms.PatchMesh(mesh, patch_size=2)
    assert patches.query("FV")[1].reshape(-1, 3).tolist() == mesh.faces.tolist()
    ms.order.nested_dissection(mesh)
