"""Matrices, meshes and arrays of other libraries; factors in place of scipy's, and in other processes."""

import copy
import multiprocessing
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from zoo import backward_error, random_spd, zoo

import meshsolve as ms

N = 40
SPD = random_spd(N, 0.1, 1)
LAPLACIAN = ms.datasets.grid2d(8, 5)
INDEFINITE = sp.csr_array(SPD - 3 * sp.eye_array(N))
UNSYMMETRIC = sp.csr_array(SPD + sp.diags_array([np.ones(N - 1)], offsets=[1]))
COMPLEX = sp.csr_array(SPD + 1j * sp.eye_array(N))
B = np.random.default_rng(0).standard_normal((N, 3))

# ---- factorized ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("A, method", [(SPD, "cholesky"), (INDEFINITE, "ldl"), (UNSYMMETRIC, "lu"), (COMPLEX, "lu")])
def test_factorized_replaces_that_of_scipy(A, method):
    solve = ms.factorized(A)
    assert solve.report.facts["method"] == solve.report.as_dict()["method"] == method
    reference = spla.factorized(A.tocsc())
    for k in range(3):
        assert np.allclose(solve(B[:, k]), reference(B[:, k].astype(A.dtype)), rtol=1e-10, atol=1e-12)
    assert backward_error(A, solve(B), B) < 1e-14
    assert np.allclose(solve.refactor(2 * A).solve(B), reference(B.astype(A.dtype)) / 2, rtol=1e-10, atol=1e-12)


@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from(["symmetric", "positive", "any", "complex"]))
def test_factorized_solves_any_regular_matrix(n, seed, kind):
    rng = np.random.default_rng(seed)
    A = np.where(rng.random((n, n)) < 0.5, rng.standard_normal((n, n)), 0)
    A = A + A.T if kind == "symmetric" else A @ A.T + np.eye(n) if kind == "positive" else A + 1j * A.T if kind == "complex" else A
    rank = np.linalg.matrix_rank(A, tol=1e-8)
    try:
        solve = ms.factorized(A)
    except ms.SingularMatrixError as e:
        assert rank < n and e.index in range(n)
        return
    if rank == n:
        b = rng.standard_normal(n)
        assert backward_error(A, solve(b), b) < 1e-10
        assert kind != "positive" or solve.report.facts["method"] == "cholesky"


def test_factorized_refuses_singular_matrices():
    with pytest.raises(ms.SingularMatrixError, match="zero pivot.*pin=True") as caught:
        ms.factorized(LAPLACIAN)
    assert caught.value.index in range(40)
    for row in (0, 7, 19):
        A = np.random.default_rng(row).standard_normal((20, 20))
        A[row] = A[:, row] = 0
        with pytest.raises(ms.SingularMatrixError) as caught:
            ms.factorized(A + A.T)
        assert caught.value.index == row
    with pytest.raises(ms.SingularMatrixError):
        ms.factorized([[1.0, 2.0], [0.0, 0.0]])


# ---- matrices -----------------------------------------------------------------------------------------------------------

FORMATS = ["bsr", "coo", "csc", "csr", "dia", "dok", "lil"]


@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_of_scipy(form, kind):
    A = getattr(sp, f"{form}_{kind}")(SPD)
    U = getattr(sp, f"{form}_{kind}")(UNSYMMETRIC)
    L = getattr(sp, f"{form}_{kind}")(LAPLACIAN)
    before = A.toarray()
    reference = ms.cholesky(SPD).solve(B)
    assert np.array_equal(ms.cholesky(A).solve(B), reference)
    assert np.array_equal(ms.analyze(A).factor(A).solve(B), reference)
    assert np.array_equal(ms.cholesky(SPD).refactor(A).solve(B), reference)
    assert np.array_equal(ms.lu(U).solve(B), ms.lu(UNSYMMETRIC).solve(B))
    assert np.array_equal(ms.ildl(A).solve(B), ms.ildl(SPD).solve(B))
    assert np.array_equal(ms.parac(L).solve(B), ms.parac(LAPLACIAN).solve(B))
    assert np.array_equal(ms.solve(A, B)[0], ms.solve(SPD, B)[0])
    assert np.array_equal(ms.order.amd(A).perm, ms.order.amd(SPD).perm)
    assert np.array_equal(A.toarray(), before)


@pytest.mark.parametrize("dtype", ["float32", "int64", "int8", "bool", "float16", "longdouble"])
def test_every_real_type_of_numbers(dtype):
    A = np.diag(np.arange(1, 6)).astype(dtype)
    b = np.arange(5).astype(dtype)
    x = b.astype(float) / np.diagonal(A).astype(float)
    assert np.allclose(ms.factorized(A)(b), x)
    assert dtype == "float16" or np.allclose(ms.factorized(sp.csc_array(A))(b), x)      # scipy has no sparse half precision


# ---- arrays by DLPack ---------------------------------------------------------------------------------------------------


def torch_array(x):
    return pytest.importorskip("torch").from_numpy(np.array(x))


def jax_array(x):
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        return jax.numpy.asarray(x)


@pytest.mark.parametrize("foreign", [torch_array, jax_array])
def test_arrays_of_other_libraries(foreign):
    b, A = foreign(B), foreign(SPD.toarray())
    assert type(b).__module__.split(".")[0] != "numpy"
    F = ms.cholesky(SPD)
    x = F.solve(b)
    assert isinstance(x, np.ndarray) and np.array_equal(x, F.solve(B)) and np.array_equal(ms.cholesky(A).solve(b), x)
    assert np.array_equal(ms.lu(A).solve(b), ms.lu(SPD.toarray()).solve(B)) and np.array_equal(ms.ildl(A).solve(b), ms.ildl(SPD).solve(B))
    assert F.solve(foreign(B.astype(np.float32))).dtype == np.float32
    mesh = ms.datasets.icosphere(1)
    same = ms.Mesh(foreign(mesh.vertices), foreign(mesh.faces))
    assert np.array_equal(same.vertices, mesh.vertices) and np.array_equal(same.faces, mesh.faces)
    perm = ms.order.amd(SPD).perm
    assert np.array_equal(ms.cholesky(SPD, foreign(perm)).perm, ms.cholesky(SPD, perm).perm)
    fixed, held = ms.cholesky(LAPLACIAN, fixed=foreign(np.array([0, 7]))), ms.cholesky(LAPLACIAN, fixed=[0, 7])
    assert np.array_equal(fixed.solve(b, fixed_values=foreign(B[:2])), held.solve(B, fixed_values=B[:2]))


def test_a_tensor_that_requires_gradients_is_refused():
    b = torch_array(B).requires_grad_()
    with pytest.raises(ms.InvalidInputError, match="gradient"):
        ms.cholesky(SPD).solve(b)


# ---- meshes -------------------------------------------------------------------------------------------------------------


class Cells:
    def __init__(self, kind, data):
        self.type, self.data = kind, data


class Foreign:
    """An object like meshio.Mesh."""

    def __init__(self, points, cells):
        self.points, self.cells = points, [Cells(*cell) for cell in cells]
        self.cells_dict = {cell.type: cell.data for cell in self.cells}


SQUARE = np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 2, 0]])


def meshio_mesh(points, cells):
    return pytest.importorskip("meshio").Mesh(points, cells)


@pytest.mark.parametrize("make", [Foreign, meshio_mesh])
def test_meshes_of_meshio(make):
    given = make(SQUARE, [("line", np.array([[0, 1]])), ("quad", np.array([[0, 1, 2, 3]])), ("triangle", np.array([[3, 2, 4]]))])
    mesh = ms.Mesh.from_meshio(given)
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [3, 2, 4]] and np.array_equal(mesh.vertices, SQUARE)
    assert abs(ms.cotan_laplacian(given) - ms.cotan_laplacian(mesh)).max() == 0
    assert abs(ms.graph_laplacian(given) - ms.graph_laplacian(mesh)).max() == 0
    assert np.array_equal(ms.order.amd(given).perm, ms.order.amd(mesh).perm) and np.array_equal(
        ms.PatchMesh(given).query("FV")[1], mesh.faces.ravel())             # as a graph it would have no faces
    assert ms.cholesky(sp.eye_array(5), mesh=given).symbolic.nnz > 5
    flat = ms.Mesh.from_meshio(make(SQUARE[:, :2], [("polygon", np.array([[0, 1, 2, 4, 3]]))]))
    assert flat.faces.tolist() == [[0, 1, 2], [0, 2, 4], [0, 4, 3]] and not flat.vertices[:, 2].any()
    with pytest.raises(ms.InvalidInputError, match="'tetra' are not supported"):
        ms.Mesh.from_meshio(make(SQUARE, [("tetra", np.array([[0, 1, 2, 4]]))]))


def test_round_trip_through_meshio():
    pytest.importorskip("meshio")
    mesh = ms.datasets.icosphere(1)
    again = ms.Mesh.from_meshio(mesh.to_meshio())
    assert np.array_equal(again.vertices, mesh.vertices) and np.array_equal(again.faces, mesh.faces)
    for wrong in (None, 3, "mesh.msh", mesh):
        with pytest.raises(ms.InvalidInputError, match="not a meshio.Mesh"):
            ms.Mesh.from_meshio(wrong)


# ---- pickles ------------------------------------------------------------------------------------------------------------

FACTORS = {
    "cholesky": (lambda A: ms.cholesky(A), SPD), "single": (lambda A: ms.cholesky(A, precision="single"), SPD),
    "mixed": (lambda A: ms.cholesky(A, precision="mixed"), SPD), "fixed": (lambda A: ms.cholesky(A, fixed=[3, 9]), LAPLACIAN),
    "pinned": (lambda A: ms.cholesky(A, pin=True), LAPLACIAN), "mesh": (lambda A: ms.cholesky(A, "nd"), zoo()["dense row"]),
    "lu fronts": (lambda A: ms.lu(A, engine="fronts"), UNSYMMETRIC), "lu columns": (lambda A: ms.lu(A, engine="columns"), UNSYMMETRIC),
    "lu complex": (ms.lu, COMPLEX), "lu mixed": (lambda A: ms.lu(A, precision="mixed"), UNSYMMETRIC),
    "ldl": (lambda A: ms.ildl(A, fill_level=None), INDEFINITE), "ldl single": (lambda A: ms.ildl(A, fill_level=None, dtype=np.float32), INDEFINITE),
    "incomplete": (lambda A: ms.ildl(A, fill_level=0), INDEFINITE), "tiles": (lambda A: ms.ildl(A, fill_level=1, tile_size=8, blocking="BR"), INDEFINITE),
    "parac": (ms.parac, LAPLACIAN), "parac nnz_sort": (lambda A: ms.parac(A, "nnz_sort"), LAPLACIAN),
    "parac single": (lambda A: ms.parac(A, "amd", dtype=np.float32), LAPLACIAN),
}


def right_hand_side(name, n):
    b = np.random.default_rng(n).standard_normal((n, 2))
    return b - b.mean(axis=0) if name in ("pinned", "parac", "parac nnz_sort", "parac single") else b


@pytest.mark.parametrize("name", FACTORS)
@each("through", [lambda F: pickle.loads(pickle.dumps(F)), copy.copy, copy.deepcopy])
def test_factors_are_pickled(name, through):
    make, A = FACTORS[name]
    F = make(A)
    b = right_hand_side(name, F.shape[0])
    x = F.solve(b)
    G = through(F)
    assert G is not F and type(G) is type(F) and np.array_equal(G.solve(b), x)
    facts = [{name: fact for name, fact in factor.report.facts.items() if name != "bytes"} for factor in (F, G)]
    assert G.nnz == F.nnz and facts[0] == facts[1] and G.dtype == F.dtype          # bytes depend on the assignment of blocks to threads
    if hasattr(F, "refactor"):
        again = 2 * A if name != "lu columns" else sp.csr_array(3 * A)
        assert np.array_equal(G.refactor(again).solve(b), F.refactor(again).solve(b))
        assert np.array_equal(F.refactor(A).solve(b), x)
    for part in {"L", "U", "D", "G"} & set(dir(type(F)) + list(vars(F))):
        ours, theirs = getattr(F, part), getattr(through(F), part)
        assert np.array_equal(ours.data if sp.issparse(ours) else ours, theirs.data if sp.issparse(theirs) else theirs)


@pytest.mark.parametrize("name", FACTORS)
@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy])
def test_a_copy_refactors_for_itself(name, through):
    make, A = FACTORS[name]
    F = make(A)
    if not hasattr(F, "refactor"):
        pytest.skip("it has no refactor")
    b, given = right_hand_side(name, F.shape[0]), {"fixed_values": [1.0, -2.0]} if name == "fixed" else {}
    x, facts = F.solve(b, **given), dict(F.report.facts)
    G = through(F)
    for times in (2, 3):                                # the first refactorization may use a spare buffer
        y = G.refactor(sp.csr_array(times * A)).solve(b, **given)
        assert np.array_equal(F.solve(b, **given), x) and F.report.facts == facts
    F.refactor(A * 5)
    assert np.array_equal(G.solve(b, **given), y)


def test_a_factor_with_new_pivots_is_pickled():
    A = sp.csr_array(UNSYMMETRIC - sp.diags_array(UNSYMMETRIC.diagonal()) + 1e-17 * sp.eye_array(N))
    F = ms.lu(UNSYMMETRIC).refactor(A)
    assert F.report.facts["repivoted"]
    G = pickle.loads(pickle.dumps(F))
    assert np.array_equal(G.solve(B), F.solve(B)) and np.array_equal(G.row_perm, F.row_perm)


def test_factors_on_the_gpu_are_pickled(cuda):
    A, b = ms.datasets.grid2d(12, 12, boundary="dirichlet"), np.arange(144.0)
    for F in (ms.cholesky(A, device="cuda"), ms.cholesky(A, fixed=[5, 17], device="cuda"), ms.parac(A, device="cuda"),
              ms.lu(A, engine="fronts", device="cuda"), ms.lu(A, engine="columns", device="cuda"),
              ms.ildl(A, fill_level=1, device="cuda")):
        x = F.solve(b)
        assert np.array_equal(pickle.loads(pickle.dumps(F)).solve(b), x)


def solved(F, b):
    return F.solve(b)


def test_factors_go_to_other_processes():
    F = ms.cholesky(SPD)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert np.array_equal(pool.apply(solved, (F, B)), F.solve(B))


def test_orderings_and_analyses_are_pickled():
    A = ms.datasets.grid2d(30, 30, boundary="dirichlet")
    for name in ("nested_dissection", "amd", "rcm"):
        o = getattr(ms.order, name)(A)
        again = pickle.loads(pickle.dumps(o))
        assert np.array_equal(again.perm, o.perm) and np.array_equal(again.iperm, o.iperm) and again.method == o.method
        assert np.array_equal(ms.cholesky(A, again).perm, ms.cholesky(A, o).perm)
    sym = pickle.loads(pickle.dumps(ms.analyze(A)))
    assert np.array_equal(sym.factor(A).solve(np.ones(900)), ms.cholesky(A).solve(np.ones(900)))


def test_warnings_point_at_the_callers_line():
    """Python shows a warning once per line, so it must be attributed to the caller's line at any depth."""
    L = ms.datasets.grid2d(5, 5)
    path = sp.csr_array(np.diag([1.0, -1.0, 2.0]))
    calls = [lambda: ms.cholesky(L, pin=True).solve(np.ones(25)), lambda: ms.cg(L, np.ones(25)), lambda: ms.cg(path, np.ones(3)),
             lambda: ms.parac(L, "random"), lambda: ms.Mesh(np.eye(3), [[0, 1, 1]]), lambda: ms.sqmr(L, np.ones(25)),
             lambda: ms.solve(np.zeros((2, 2)) + np.diag([1.0, 0.0]), [1.0, 1.0])]
    for call in calls:
        with pytest.warns(ms.MeshsolveWarning) as caught:
            call()
        assert all(w.filename == __file__ for w in caught), (caught[0].filename, caught[0].lineno)
