"""Every solver accepts every kind of right-hand side and matrix, with the same results as for plain arrays."""

import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

import meshsolve as ms

N = 30
LAPLACIAN = ms.datasets.grid2d(6, 5)
SPD = sp.csr_array(LAPLACIAN + sp.eye_array(N))
INDEFINITE = ms.datasets.kkt(20, 10)
UNSYMMETRIC = sp.csr_array(SPD + sp.diags_array(np.full(N - 1, 0.3), offsets=1))
SOLVERS = {
    "cholesky": (SPD, lambda A, b: ms.cholesky(A).solve(b)),
    "mixed": (SPD, lambda A, b: ms.cholesky(A, precision="mixed").solve(b)),
    "fixed": (SPD, lambda A, b: ms.cholesky(A, fixed=[3, 1]).solve(b, fixed_values=[1.0, 2.0])),
    "pin": (LAPLACIAN, lambda A, b: ms.cholesky(A, pin=True).solve(b)),
    "lu": (UNSYMMETRIC, lambda A, b: ms.lu(A).solve(b)),
    "lu columns": (UNSYMMETRIC, lambda A, b: ms.lu(A, engine="columns").solve(b, trans="T")),
    "ildl": (INDEFINITE, lambda A, b: ms.ildl(A, fill_level=None).solve(b)),
    "ildl incomplete": (INDEFINITE, lambda A, b: ms.ildl(A, fill_level=1).solve(b)),
    "parac": (LAPLACIAN, lambda A, b: ms.parac(A).solve(b)),
    "factorized": (INDEFINITE, lambda A, b: ms.factorized(A)(b)),
    "cg": (SPD, lambda A, b: ms.cg(A, b)[0]),
    "cg, singular": (LAPLACIAN, lambda A, b: ms.cg(A, b, M=ms.parac(A))[0]),
    "cg, singular, no M": (LAPLACIAN, lambda A, b: ms.cg(A, b)[0]),
    "sqmr": (INDEFINITE, lambda A, b: ms.sqmr(A, b, M=ms.ildl(A))[0]),
    "ilu": (UNSYMMETRIC, lambda A, b: ms.ilu(A, droptol=0).solve(b)),
    "gmres": (UNSYMMETRIC, lambda A, b: ms.gmres(A, b, M=ms.ilu(A))[0]),
    "solve": (SPD, lambda A, b: ms.solve(A, b)[0]),
    "solve, singular": (LAPLACIAN, lambda A, b: ms.solve(A, b)[0]),
    "solve, singular, asked for": (LAPLACIAN, lambda A, b: ms.solve(A, b, method="cholesky")[0]),
    "solve, parac": (LAPLACIAN, lambda A, b: ms.solve(A, b, method="parac")[0]),
    "solve, indefinite": (INDEFINITE, lambda A, b: ms.solve(A, b)[0]),
    "solve, unsymmetric": (UNSYMMETRIC, lambda A, b: ms.solve(A, b)[0]),
}


class Tagged(np.ndarray):
    """A subclass that must not be used in the arithmetic."""


def read_only(b):
    b = b.copy()
    b.flags.writeable = False
    return b


KINDS = {
    "no columns": lambda b: b[:, :0], "one column": lambda b: b[:, :1], "many columns": lambda b: np.tile(b, (1, 17)),
    "Fortran order": np.asfortranarray, "strided": lambda b: np.repeat(b, 2, axis=1)[:, ::2], "reversed": lambda b: b[::-1, ::-1][::-1],
    "another byte order": lambda b: b.astype(b.dtype.newbyteorder()), "read-only": read_only, "a list": lambda b: b.tolist(),
    "a subclass": lambda b: b.view(Tagged), "int8": lambda b: b.astype(np.int8), "bool": lambda b: b.astype(bool), "float32": lambda b: b.astype(np.float32),
    "half": lambda b: b.astype(np.float16), "long double": lambda b: b.astype(np.longdouble), "complex": lambda b: b - 2j * b, "a vector": lambda b: b[:, 0],
}


FACTORS = {
    "cholesky": lambda: ms.cholesky(SPD), "fixed": lambda: ms.cholesky(SPD, fixed=[3, 1]), "lu": lambda: ms.lu(UNSYMMETRIC),
    "lu of complex A": lambda: ms.lu(UNSYMMETRIC * (1 - 1j)), "ildl": lambda: ms.ildl(INDEFINITE), "parac": lambda: ms.parac(SPD),
}
ANSWERS = {"f": "f", "d": "d", "F": "F", "D": "D", "g": "d", "e": "d", "b": "d"}


@pytest.mark.parametrize("name", FACTORS)
def test_solutions_of_factors_have_the_precision_of_b(name):
    F, rng = FACTORS[name](), np.random.default_rng(0)
    for kind, answer in ANSWERS.items():
        if name == "lu of complex A" and kind != "F":
            answer = "D"
        for shape in ((N,), (N, 3)):
            b = rng.integers(-3, 4, shape).astype(np.dtype(kind)) * (2 - 3j if kind in "FD" else 1)
            b = b.astype(np.dtype(kind))
            wide = F.solve(b.astype(complex if b.dtype.kind == "c" else float))
            x = F.solve(b)
            assert x.dtype == np.dtype(answer) and np.allclose(x, wide, rtol=1e-6, atol=1e-6)
            for out in (np.empty_like(x), np.empty_like(wide)):
                assert F.solve(b, out=out) is out and np.allclose(out, wide, rtol=1e-6, atol=1e-6)
            with pytest.raises(ms.InvalidInputError, match="out must be"):
                F.solve(b, out=np.empty(shape, "d" if x.dtype.kind == "c" else "D"))


def test_calls_that_measure_residuals_return_float64():
    b = np.ones(N, np.complex64)
    for given in (b, b.real):
        answer = complex if given.dtype.kind == "c" else float
        assert {ms.solve(M, given)[0].dtype for M in (SPD, INDEFINITE, UNSYMMETRIC)} == {np.dtype(answer)}
        assert ms.cg(SPD, given)[0].dtype == ms.sqmr(SPD, given)[0].dtype == answer


@pytest.mark.parametrize("name", SOLVERS)
@each("kind", KINDS)
def test_any_right_hand_side(name, kind):
    A, solve = SOLVERS[name]
    b = np.zeros((N, 2))
    b[[2, 4], [0, 1]] = 1                           # in the range of the Laplacian, and of every dtype
    b[[7, 9], [0, 1]] = -1
    given = KINDS[kind](b)
    plain = np.asarray(given).astype(complex if kind == "complex" else float)
    if A is LAPLACIAN and abs(plain.sum(axis=0)).max(initial=0) > 0:
        given = plain = plain - plain.mean(axis=0)
    x = solve(A, given)
    columns = plain.reshape(N, -1)
    expected = [solve(A, part.copy()) for c in columns.T for part in ((c.real, c.imag) if kind == "complex" else (c,))]
    if kind == "complex":
        values = np.zeros(N) if name != "fixed" else solve(A, np.zeros(N))        # prescribed values are real
        expected = [re + 1j * (im - values) for re, im in zip(expected[::2], expected[1::2])]
    assert type(x) is np.ndarray and x.shape == plain.shape
    expected = np.stack(expected, axis=1).reshape(plain.shape) if expected else plain
    assert np.allclose(x, expected, rtol=1e-5 if kind == "float32" else 1e-9, atol=1e-5 if kind == "float32" else 1e-7)


@pytest.mark.parametrize("factor", [lambda: ms.cholesky(SPD), lambda: ms.lu(UNSYMMETRIC), lambda: ms.lu(UNSYMMETRIC, engine="columns"),
                                    lambda: ms.ildl(INDEFINITE), lambda: ms.parac(LAPLACIAN)])
def test_out_of_either_precision_for_a_float32_b(factor):
    F, b = factor(), np.zeros((N, 2), np.float32)
    b[[2, 7]] = 1, -1
    for given in (b, b[:, 0]):
        narrow = np.empty_like(given)
        assert F.solve(given, out=narrow) is narrow and np.array_equal(narrow, F.solve(given))
        wide = np.empty(given.shape)
        assert F.solve(given, out=wide) is wide and np.array_equal(wide, F.solve(given.astype(float)))
        with pytest.raises(ms.InvalidInputError, match="out must be"):
            F.solve(given.astype(float), out=narrow)


ON_DEVICE = {
    "cholesky": lambda b: ms.cholesky(SPD, device="cuda").solve(b), "pin": lambda b: ms.cholesky(LAPLACIAN, pin=True, device="cuda").solve(b),
    "mixed": lambda b: ms.cholesky(SPD, precision="mixed", device="cuda").solve(b),
    "lu": lambda b: ms.lu(UNSYMMETRIC, device="cuda").solve(b), "columns": lambda b: ms.lu(UNSYMMETRIC, engine="columns", device="cuda").solve(b),
    "ildl": lambda b: ms.ildl(INDEFINITE, device="cuda").solve(b), "parac": lambda b: ms.parac(LAPLACIAN, device="cuda").solve(b),
    "cg": lambda b: ms.cg(LAPLACIAN, b, M=ms.parac(LAPLACIAN, device="cuda"))[0],
    "sqmr": lambda b: ms.sqmr(INDEFINITE, b, M=ms.ildl(INDEFINITE, device="cuda"))[0],
    "solve": lambda b: ms.solve(SPD, b, device="cuda")[0], "solve, parac": lambda b: ms.solve(LAPLACIAN, b, "parac", device="cuda")[0],
    "solve, unsymmetric": lambda b: ms.solve(UNSYMMETRIC, b, device="cuda")[0],
}


@pytest.mark.parametrize("name", ON_DEVICE)
def test_no_columns_and_lists_on_the_gpu(cuda, name):
    b = np.zeros((N, 2))
    b[[2, 4, 7, 9], [0, 1, 0, 1]] = 1, 1, -1, -1
    assert ON_DEVICE[name](b[:, :0]).shape == (N, 0)
    assert np.array_equal(ON_DEVICE[name](b.tolist()), ON_DEVICE[name](b))


@pytest.mark.parametrize("A", [SPD, LAPLACIAN, INDEFINITE, UNSYMMETRIC], ids=["definite", "singular", "indefinite", "unsymmetric"])
def test_solve_ignores_the_rounding_of_float32(A):
    b = (A @ np.linspace(-1, 1, N)).astype(np.float32)
    b -= b.mean() if A is LAPLACIAN else 0
    x, info = ms.solve(A, b, rtol=1e-6 if A is LAPLACIAN else 1e-12)
    assert info.converged and x.dtype == np.float64


def test_solve_warns_if_rounding_keeps_the_residual_large():
    A = np.diag([1e-12, 1.0]) + 1e-7 * np.array([[0, 1.0], [1.0, 0]])       # the pivot of row 0 cancels almost completely
    A[0, 0] = 1e-14 * (1 + 1e-9)
    with pytest.warns(ms.ConvergenceWarning, match="above rtol = 1e-10: A is singular, badly scaled"):
        x, info = ms.solve(A, [1.0, 0.3], "cholesky", rtol=1e-10)
    assert not info.converged and info.relative_residual > 1e-10


@pytest.mark.parametrize("method", ["auto", "parac"])
@pytest.mark.parametrize("kind", ["a vector", "one column", "complex", "no columns", "int8"])
def test_residuals_of_singular_systems_include_means(method, kind):
    b = np.zeros((N, 2))
    b[[2, 4]] = 1
    b = KINDS[kind](b)
    if b.size:
        with pytest.warns(ms.MeshsolveWarning, match="b is not in the range of A") as caught:
            x, info = ms.solve(LAPLACIAN, b, method)
        assert len(caught) == 1 and not info.converged and "not in the range" in info.reason
        left = np.linalg.norm((b - LAPLACIAN @ x).reshape(N, -1), axis=0) / np.linalg.norm(b.reshape(N, -1).astype(complex), axis=0)
        assert np.isclose(info.relative_residual, left.max(), rtol=1e-6)
    else:
        x, info = ms.solve(LAPLACIAN, b, method)
        assert info.converged and info.relative_residual == 0
    assert np.isscalar(info.relative_residual)
    assert np.allclose(LAPLACIAN @ x, b - b.mean(axis=0) if b.size else b, atol=1e-8)


@pytest.mark.parametrize("method", ["cholesky", "lu", "ildl", "parac"])
def test_solve_reports_plain_numbers_for_a_block(method):
    info = ms.solve(SPD, np.ones((N, 3)), method)[1]
    assert type(info.iterations) is int and type(info.relative_residual) is float and type(info.converged) is bool


def obtuse(seed, stretch):
    """A mesh whose cotangent Laplacian has negative weights, so it is not a graph Laplacian, with an unreferenced vertex."""
    ball = ms.datasets.icosphere(2)
    vertices = np.vstack([ball.vertices * [1, 1, stretch] + 0.02 * np.random.default_rng(seed).standard_normal(ball.vertices.shape), [[9, 9, 9]]])
    return ms.Mesh(vertices, ball.faces)


@pytest.mark.parametrize("seed", range(6))
def test_negative_weights_give_solutions_of_mean_zero(seed):
    L = sp.csr_array(ms.cotan_laplacian(obtuse(seed, 4.0)))
    both = sp.csr_array(sp.block_diag([L, 1e-3 * L @ L]))
    n = L.shape[0]
    assert sp.triu(L, 1).max() > 0
    for A, parts in ((L, [slice(n - 1)]), (both, [slice(n - 1), slice(n, 2 * n - 1)])):
        b = A @ np.random.default_rng(seed).standard_normal((A.shape[0], 2))
        x, info = ms.solve(A, b)
        assert info.converged and info.method == "cholesky" and np.allclose(A @ x, b, atol=1e-9 * abs(b).max())
        assert all(abs(x[part].mean(axis=0)).max() < 1e-12 * abs(x).max() for part in parts) and not x[n - 1].any()


def test_a_laplacian_with_negative_weights_on_the_gpu(cuda):
    L = sp.csr_array(ms.cotan_laplacian(obtuse(0, 4.0)))
    b = L @ np.random.default_rng(0).standard_normal((L.shape[0], 2))
    for given in (b, b + 0.5 * (np.arange(L.shape[0]) < L.shape[0] - 1)[:, None]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            x, info = ms.solve(L, given, device="cuda")
        assert len(caught) == (given is not b) == (not info.converged) and abs(x[:-1].mean(axis=0)).max() < 1e-12 * abs(x).max()
        assert np.allclose(L @ x, b, atol=1e-9 * abs(b).max())


def test_rows_that_sum_to_zero_need_not_be_definite():
    W = sp.csr_array(LAPLACIAN - 1.5 * ms.graph_laplacian(sp.csr_array(([1.0, 1.0], ([0, 29], [29, 0])), shape=(N, N))))
    b = W @ np.arange(float(N))
    x, info = ms.solve(W, b)
    assert info.method == "ildl" and info.converged and np.allclose(W @ x, b)


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-160, 1e160, 1e200, 1e300])
def test_any_unit_of_measure(scale):
    """Squares of b overflow or underflow in float64, and every x was accepted as a solution."""
    x = np.linspace(1, 2, N)
    zero = x - x.mean()
    for M in (None, ms.parac(scale * LAPLACIAN)):
        y, info = ms.cg(scale * LAPLACIAN, np.stack([scale * LAPLACIAN @ zero, LAPLACIAN @ zero], 1), M=M, rtol=1e-10)
        assert info.converged and np.allclose(y * [1, scale], zero[:, None], rtol=1e-6, atol=1e-7)
    y, info = ms.sqmr(scale * SPD, scale * SPD @ x, rtol=1e-10)
    assert info.converged and np.allclose(y, x)
    for A in (SPD, UNSYMMETRIC, LAPLACIAN):
        y, info = ms.solve(scale * A, scale * A @ zero)
        assert info.converged and 0 < info.relative_residual < 1e-12 and np.allclose(y, zero)
    with pytest.warns(ms.ConvergenceWarning):
        assert not ms.cg(scale * SPD, scale * SPD @ x, maxiter=1)[1].converged
    for precision in ("single", "mixed"):
        with pytest.raises(ms.InvalidInputError, match='outside the range of float32: use precision="double"'):
            ms.cholesky(scale * SPD, precision=precision)


def test_wrong_sizes_of_b_are_refused_first(monkeypatch):
    solving = sys.modules["meshsolve.api.solving"]
    monkeypatch.setattr(solving, "lu", None)
    monkeypatch.setattr(solving.Problem, "analysis", None)
    for method in ("auto", "cholesky", "lu"):
        for b in (np.ones(N + 1), np.full(N, np.nan), np.ones((1, N)), np.full(N, 1j * np.inf)):
            with pytest.raises(ms.InvalidInputError, match="^b"):
                ms.solve(SPD, b, method)


GRID = ms.datasets.grid2d(60, 60, boundary="dirichlet")
DIRECT = {
    "cholesky": lambda: ms.cholesky(GRID).solve, "single": lambda: ms.cholesky(GRID, precision="single").solve,
    "lu": lambda: ms.lu(GRID, engine="fronts").solve, "lu, transposed": lambda: lambda b: ms.lu(GRID, engine="fronts").solve(b, trans="T"),
    "lu columns": lambda: ms.lu(GRID, engine="columns").solve, "ildl": lambda: ms.ildl(GRID, fill_level=None).solve,
}


@pytest.mark.parametrize("name", DIRECT)
def test_a_column_has_the_same_bits_in_any_block(name):
    solve, B = DIRECT[name](), np.random.default_rng(0).standard_normal((GRID.shape[0], 17))
    alone = np.stack([solve(b) for b in B.T], axis=1)
    assert abs(GRID @ alone - B).max() < (1e-2 if name == "single" else 1e-10)
    for k in (*range(1, 10), 17):
        assert np.array_equal(solve(B[:, :k]), alone[:, :k])
