"""Solves, determinants and operators in JAX: values, derivatives of several orders, jit and vmap."""

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from cases import each

import meshsolve as ms

jax = pytest.importorskip("jax")
from jax.experimental.sparse import BCOO, BCSR  # noqa: E402 (after the skip)
from jax.test_util import check_grads  # noqa: E402

xp = jax.numpy


@pytest.fixture(autouse=True)
def double_precision():
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def problem(kind="real", n=8):
    rng = np.random.default_rng(0)
    A = sp.random_array((n, n), density=0.3, rng=rng) + 4 * sp.eye_array(n)
    A = sp.coo_array(sp.csr_array(A + 1j * sp.random_array((n, n), density=0.3, rng=rng) if kind == "complex" else A))
    b = rng.standard_normal((n, 2)) + (1j * rng.standard_normal((n, 2)) if kind == "complex" else 0)
    return xp.array(np.stack(A.coords)), xp.array(A.data), xp.array(b)


def dense(indices, values, n=8):
    return xp.zeros((n, n), values.dtype).at[tuple(indices)].add(values)


def test_padding_is_left_out():
    """Entries beyond the shape, which jit needs, are no entries in JAX: solutions and gradients of the dense matrix."""
    D, b = xp.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 2.0]]), xp.ones(3)
    for A in (BCOO.fromdense(D, nse=8), BCSR.fromdense(D, nse=8)):
        assert np.allclose(ms.jax.solve(A, b), np.linalg.solve(np.asarray(D), np.ones(3)))
    g = jax.grad(lambda data: ms.jax.solve(BCSR((data, A.indices, A.indptr), shape=A.shape), b).sum())(A.data)
    y = np.linalg.solve(np.asarray(D), np.ones(3))
    assert np.allclose(g, [*-np.outer(y, y)[np.nonzero(D)], 0, 0, 0])


@pytest.mark.slow
@each("kind, in_double", [(kind, in_double) for kind in (BCOO, BCSR) for in_double in (True, False)])
def test_derivatives_with_padding(kind, in_double):
    """Of solves, determinants and eigenvalues, in jit, grad and vmap."""
    jax.config.update("jax_enable_x64", in_double)
    D, b = xp.array([[4.0, 1.0, 0.0], [1.0, 3.0, 0.0], [0.0, 0.0, 2.0]]), xp.array([1, 2, 3])
    A = kind.fromdense(D, nse=8)
    near = functools.partial(np.allclose, rtol=1e-9 if in_double else 1e-4)
    places = (A.indices,) if kind is BCOO else (A.indices, A.indptr)
    made = lambda data: kind((data, *places), shape=A.shape)
    flat = xp.concatenate([x.ravel() for x in xp.nonzero(D)])       # the places of the five entries
    wanted = lambda data: xp.zeros((3, 3)).at[flat[:5], flat[5:]].set(data[:5])
    dense = lambda f: lambda data: f(wanted(data))
    solved = lambda data: (ms.jax.solve(made(data), b) ** 3).sum()
    direct = dense(lambda D: (xp.linalg.solve(D, b) ** 3).sum())
    assert near(ms.jax.solve(A, b), xp.linalg.solve(D, b)) and near(jax.jit(jax.grad(solved))(A.data), jax.grad(direct)(A.data))
    assert near(jax.grad(lambda data: ms.jax.logdet(made(data), 3))(A.data), jax.grad(dense(lambda D: xp.linalg.slogdet(D)[1]))(A.data))
    assert near(jax.grad(lambda data: ms.jax.eigsh(made(data), 2, 3, M=A)[0].sum())(A.data * 1.0)[5:], 0)
    many = kind.fromdense(xp.stack([D, 2 * D]), nse=8, n_batch=1)
    assert near(jax.vmap(lambda A: ms.jax.solve(A, b))(many), xp.stack([xp.linalg.solve(D, b), xp.linalg.solve(2 * D, b)]))


@pytest.mark.slow
@each("in_double", [True, False])
def test_types_are_promoted_as_in_jax(in_double):
    jax.config.update("jax_enable_x64", in_double)
    D = np.array([[4, 1], [1, 3]])
    for kind in ("float64", "float32", "int32", "int8", "complex64"):
        for other in ("float64", "float32", "int32", "complex64"):
            values, b = xp.asarray(D.ravel().astype(kind)), xp.asarray(np.array([1, 2]).astype(other))
            x, expected = ms.jax.solve(([[0, 0, 1, 1], [0, 1, 0, 1]], values), b), xp.linalg.solve(values.reshape(2, 2), b)
            assert x.dtype == expected.dtype and np.allclose(x, expected, rtol=1e-5), (kind, other)
    x = ms.jax.solve(([[0, 1], [0, 1]], [2, 4]), [1, 1], fixed=[0], fixed_values=[3])
    assert np.array_equal(x, [3, 0.25])
    assert np.array_equal(ms.jax.eigsh(([[0, 1], [0, 1]], [2, 4]), 1, 2)[0], [2])
    V, F = [[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]]
    assert np.allclose(ms.jax.mcf(V, F, 0.1), ms.jax.mcf(np.array(V, float), F, 0.1), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["real", "complex"])
def test_solutions_and_derivatives(kind):
    indices, values, b = problem(kind)
    solved = lambda v, b: ms.jax.solve((indices, v), b)
    assert np.allclose(solved(values, b), np.linalg.solve(np.asarray(dense(indices, values)), np.asarray(b)))
    assert solved(values, b[:, 0]).shape == (8,)
    check_grads(solved, (values, b), order=2)


@pytest.mark.slow
def test_jit_and_vmap():
    indices, values, b = problem()
    solved = lambda v, b: ms.jax.solve((indices, v), b)
    expected = solved(values, b)
    assert np.allclose(jax.jit(solved)(values, b), expected)
    many_b = xp.stack([b, 2 * b, 3 * b])
    assert np.allclose(jax.vmap(solved, (None, 0))(values, many_b), xp.stack([expected, 2 * expected, 3 * expected]))
    many = xp.stack([values, 2 * values])
    assert np.allclose(jax.vmap(solved, (0, None))(many, b), xp.stack([expected, expected / 2]))
    assert np.allclose(jax.vmap(jax.vmap(solved, (None, 0)), (0, None))(many, many_b)[1, 2], 1.5 * expected)
    loss = lambda v: (solved(v, b) ** 3).sum()
    reference = lambda v: (xp.linalg.solve(dense(indices, v), b) ** 3).sum()
    assert np.allclose(jax.jit(jax.grad(loss))(values), jax.grad(reference)(values))
    assert np.allclose(jax.vmap(jax.grad(loss))(many), jax.vmap(jax.grad(reference))(many))
    assert np.allclose(jax.hessian(loss)(values), jax.hessian(reference)(values))


def test_steps_of_one_pattern_are_refactored():
    from meshsolve.gradients.factors import _factors

    L = sp.coo_array(ms.datasets.grid2d(6, 6, boundary="dirichlet"))
    indices, values, b = xp.array(np.stack(L.coords)), xp.array(L.data), xp.ones(36)
    _factors.cache_clear()
    step = jax.jit(jax.value_and_grad(lambda v: (ms.jax.solve((indices, v), b, "cholesky") ** 2).sum()))
    for scale in (1.0, 2.0, 3.0):
        step(scale * values)
    factors = _factors("cholesky", None, False)
    assert factors.analyses == 1 and factors.factorizations == 3


def test_pins_and_sparse_matrices():
    from jax.experimental import sparse

    L = sp.coo_array(ms.datasets.grid2d(4, 4))
    A = sparse.BCOO((xp.array(L.data), xp.array(np.stack(L.coords, axis=1))), shape=L.shape)
    b = xp.arange(16.0) - 7.5
    x = ms.jax.solve(A, b, pin=True)
    assert np.allclose(L @ np.asarray(x), b) and abs(x.mean()) < 1e-12
    assert ms.jax.solve((xp.array([[0], [0]]), xp.array([2.0], xp.float32)), xp.ones(1, xp.float32)).dtype == xp.float32


def test_determinants():
    L = sp.coo_array(ms.datasets.grid2d(4, 3, boundary="dirichlet"))
    indices, values = xp.array(np.stack(L.coords)), xp.array(L.data)
    value = lambda v: ms.jax.logdet((indices, (v + v) / 2), 12)
    assert np.allclose(jax.jit(value)(values), np.linalg.slogdet(L.toarray())[1])
    expected = np.linalg.inv(L.toarray())[tuple(np.asarray(indices))]
    assert np.allclose(jax.grad(value)(values), expected) and np.allclose(jax.jvp(value, (values,), (values,))[1], 12)
    assert np.allclose(jax.vmap(jax.grad(value))(xp.stack([values, 2 * values]))[1], expected / 2)
    with pytest.raises(Exception, match="(?i)callback"):
        jax.hessian(value)(values)


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 2])
def test_prescribed_values(k):
    L = sp.coo_array(ms.datasets.grid2d(4, 3))
    indices, values = xp.array(np.stack(L.coords)), xp.array(L.data)
    rng = np.random.default_rng(0)
    b, c = xp.array(rng.standard_normal((12, k) if k else 12)), xp.array(rng.standard_normal((2, k) if k else 2))
    solved = lambda v, b, c: ms.jax.solve((indices, v), b, "lu", fixed=[7, 2], fixed_values=c)
    expected = ms.cholesky(sp.csr_array(L), fixed=[7, 2]).solve(np.asarray(b), fixed_values=np.asarray(c))
    assert np.allclose(jax.jit(solved)(values, b, c), expected) and not ms.jax.solve((indices, values), b, fixed=[3])[3].any()
    check_grads(solved, (values, b, c), order=2)
    assert np.allclose(jax.vmap(solved, (None, 0, None))(values, xp.stack([b, b]), c)[1], expected)
    for options, message in (({"fixed": [12]}, "outside 0..11"), ({"fixed": [1, 1]}, "more than once"), ({"fixed": [1], "pin": True}, "exclude"),
                             ({"fixed_values": b}, "needs fixed="), ({"fixed": [1], "fixed_values": b}, "fixed_values must be an array")):
        with pytest.raises(ms.InvalidInputError, match=message):
            ms.jax.solve((indices, values), b, **options)


@pytest.mark.slow
def test_eigenvalues():
    i, d = np.arange(9), np.arange(10)
    indices = xp.array([[*i, *(i + 1), *i, *(i + 1), 0], [*(i + 1), *i, *i, *(i + 1), 0]])
    weights, masses = (xp.array(np.random.default_rng(seed).uniform(1, 2, size)) for seed, size in ((0, 9), (1, 10)))
    matrix = lambda a: (indices, xp.concatenate([-a, -a, a, a, xp.ones(1)]))
    values = lambda a, m: ms.jax.eigsh(matrix(a), 3, 10, (xp.array([d, d]), m))[0]
    dense = lambda a, m: xp.linalg.eigvalsh(dense_of(matrix(a), 10) / xp.sqrt(m[:, None] * m))[:3]
    dense_of = lambda A, n: xp.zeros((n, n)).at[tuple(A[0])].add(A[1])
    energy = lambda f: lambda a, m: (f(a, m) ** 2).sum()
    assert np.allclose(jax.jit(values)(weights, masses), dense(weights, masses))
    for found, expected in zip(*(jax.jit(jax.grad(energy(f), (0, 1)))(weights, masses) for f in (values, dense)), strict=True):
        assert np.allclose(found, expected, rtol=1e-6)
    many = xp.stack([weights, 2 * weights])
    assert np.allclose(jax.vmap(jax.grad(energy(values)), (0, None))(many, masses), jax.vmap(jax.grad(energy(dense)), (0, None))(many, masses), rtol=1e-6)
    assert np.allclose(jax.grad(lambda a: ms.jax.eigsh(matrix(a), 2, 10)[0].sum())(weights), jax.grad(lambda a: dense(a, xp.ones(10))[:2].sum())(weights))


def test_bad_eigenproblems():
    i, ones = xp.array([[0, 1, 2, 3]] * 2), xp.ones(4)
    for A, k, n, message in (((i, ones.astype(complex)), 1, 4, "real numbers"), ((i, ones), 4, 4, "k must be"), ((i, ones), 1, 0, "n must be")):
        with pytest.raises(ms.InvalidInputError, match=message):
            ms.jax.eigsh(A, k, n)
    with pytest.raises(Exception, match="outside 0..2"):
        ms.jax.eigsh((i, ones), 1, 3)[0].block_until_ready()
    with pytest.raises(Exception, match="no derivatives of their own"):
        jax.grad(lambda v: ms.jax.eigsh((i, v), 2, 4)[0][0])(ones).block_until_ready()


@pytest.mark.slow
def test_operators_and_the_flow():
    ball = ms.datasets.icosphere(0)
    mesh = ball.with_vertices(ball.vertices + 0.1 * np.random.default_rng(0).standard_normal(ball.vertices.shape))
    V = xp.array(mesh.vertices)
    for ours, A in ((ms.jax.cotan_laplacian, ms.cotan_laplacian(mesh)), (ms.jax.mass_matrix, ms.mass_matrix(mesh))):
        assert np.allclose(dense(*ours(V, mesh.faces), 12), A.toarray(), atol=1e-13)
    flow = lambda V: ms.jax.mcf(V, mesh.faces, 0.05, steps=2)
    assert np.allclose(flow(V), ms.apps.mcf(mesh, 2, 0.05)[0].vertices)
    check_grads(flow, (V,), order=1)


@pytest.mark.parametrize("A, b, message", [
    (xp.eye(2), xp.ones(2), "indices, values"), ((xp.ones((2, 2)), xp.ones(2)), xp.ones(2), "integers"), (([[0, 1], [0, 1]], xp.ones(3)), xp.ones(2), "nnz"),
    (([[0, 1], [0, 1]], xp.ones(2)), xp.ones((2, 1, 1)), "b must be"), (([[0, 1], [0, 1]], xp.ones(2)), xp.ones((2, 1, 1)), "vmap"),
    (([[0, 1], [0, 1]], xp.ones(2, xp.float16)), xp.ones(2, xp.float16), "float32, float64 or complex, got values of float16"),
    (sp.eye_array(2), xp.ones(2), "BCOO.from_scipy_sparse"), (BCOO.fromdense(xp.eye(3)), xp.ones(2), r"A must be \(2, 2\), got \(3, 3\)"),
    (BCOO.fromdense(xp.ones((2, 2, 2)), n_batch=1), xp.ones(2), "1 batch"), (BCSR.fromdense(xp.eye(2)[:1]), xp.ones(2), "A must be"),
])
def test_wrong_input_is_refused(A, b, message):
    with pytest.raises(ms.InvalidInputError, match=message):
        ms.jax.solve(A, b)


def test_errors_on_the_host_are_seen():
    i, v = xp.array([[0, 1], [0, 1]]), xp.array([1.0, 0.0])
    with pytest.raises(Exception, match="singular"):
        ms.jax.solve((i, v), xp.ones(2), "lu").block_until_ready()
    with pytest.raises(Exception, match="outside|below"):
        ms.jax.solve((i + 1, v), xp.ones(2)).block_until_ready()
    with pytest.raises(ms.InvalidInputError, match="V must be"):
        ms.jax.cotan_laplacian(xp.ones((2, 2)), xp.ones((1, 3), int))


def test_the_error_without_jax(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "jax", None)
    with pytest.raises(ms.InvalidInputError, match="pip install jax"):
        ms.jax.solve(([[0], [0]], [1.0]), [1.0])
