"""Vector kernels of the Krylov iterations: compared with numpy for any number of columns, and bit for bit on any number of
threads."""

import numpy as np
import pytest
from cases import each

import meshsolve as ms
from meshsolve import _core
from meshsolve.sparse.columns import lengths
from meshsolve.sparse.matrix import as_symmetric

M = as_symmetric(ms.datasets.road_like(30_000, seed=3))
CSR = (M.indptr, M.indices, M.data)
S = M.to_scipy()


def blocks(k, count):
    rng = np.random.default_rng(k)
    return [rng.standard_normal((M.n, k)) for _ in range(count)]


def flat(*all_blocks):
    return [B.reshape(-1) for B in all_blocks]


def sweep(kernel, k, threads):
    """The output arrays of a kernel on blocks that depend on k alone."""
    (U, V, X, R), out, alpha = blocks(k, 4), np.empty(k), np.linspace(0.5, 2, k)
    if kernel == "multiply_dot":
        _core.multiply_dot(*CSR, *flat(U, R), out, threads)
        return [R, out]
    if kernel == "residual":
        _core.residual(*CSR, *flat(V, U, R), out, threads)
        return [R, out]
    if kernel == "step":
        _core.krylov_step(alpha, *flat(U, V, X, R), out, threads)
        return [X, R, out]
    if kernel == "direction":
        _core.krylov_direction(alpha, *flat(U, R), threads)
        return [R]
    _core.krylov_dot(*flat(U, V), out, threads)
    return [out]


def expected(kernel, k):
    (U, V, X, R), alpha = blocks(k, 4), np.linspace(0.5, 2, k)
    if kernel == "multiply_dot":
        return [S @ U, (U * (S @ U)).sum(axis=0)]
    if kernel == "residual":
        return [V - S @ U, ((V - S @ U) ** 2).sum(axis=0)]
    if kernel == "step":
        return [X + alpha * U, R - alpha * V, ((R - alpha * V) ** 2).sum(axis=0)]
    return [U + alpha * R] if kernel == "direction" else [(U * V).sum(axis=0)]


@pytest.mark.parametrize("kernel", ["multiply_dot", "residual", "step", "direction", "dot"])
@each("k", [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 18])
def test_any_number_of_columns(kernel, k):
    one = sweep(kernel, k, 1)
    for found, right in zip(one, expected(kernel, k), strict=True):
        assert np.allclose(found, right, rtol=1e-11, atol=1e-9)
    for threads in (2, 5):
        assert all(np.array_equal(a, b) for a, b in zip(one, sweep(kernel, k, threads), strict=True))


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e200])
@pytest.mark.parametrize("solver", [ms.cg, ms.sqmr, ms.gmres])
def test_either_tolerance_is_enough_at_any_scale(solver, size):
    """The iteration scales b internally; tolerances, starts and arguments of a callback are in the scale of the caller."""
    A, b = ms.datasets.grid2d(20, 15, boundary="dirichlet"), size * np.random.default_rng(0).standard_normal(300)
    length, seen = lengths(b[:, None])[0], []
    for rtol, atol in ((1e-4, 1e-12 * length), (1e-12, 1e-4 * length)):
        x, info = solver(A, b, rtol=rtol, atol=atol, callback=lambda x: seen.append(x.copy()))
        assert info.converged and 1e-8 < info.relative_residual <= 1e-4
        assert np.allclose(seen[-1], x, rtol=1e-12, atol=0) and solver(A, b, x0=x, rtol=2e-4)[1].iterations == 0
