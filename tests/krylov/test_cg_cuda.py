"""Conjugate gradients on the GPU give the iterations, reasons and errors of the host, on the kernel harness and on a GPU."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from on_device import Sparse, nothing_copied_to_host, to_cuda, to_numpy

import meshsolve as ms
from meshsolve import device
from meshsolve.krylov import cg_cuda
from meshsolve.krylov.cg import iterate
from meshsolve.krylov.cg_rules import LOST_AT
from meshsolve.sparse import product
from meshsolve.sparse.matrix import Csr

GRID = ms.datasets.grid3d(7)
GROUNDED = ms.datasets.grid2d(16, 16, boundary="dirichlet")
ISLANDS = sp.csr_array(sp.block_diag([ms.datasets.grid2d(8, 8), ms.datasets.grid2d(5, 9), ms.datasets.grid3d(4)]))


def both(L, b, seed=0, **options):
    """(x, info) of cg with the factor of the host, then with that of the GPU."""
    return [ms.cg(L, b, M=ms.parac(L, seed=seed, device=place), **options) for place in ("cpu", "cuda")]


@pytest.mark.parametrize("shape", [(), (1,), (3,)])
@pytest.mark.parametrize("L", [GRID, GROUNDED, ISLANDS], ids=["grid", "grounded", "islands"])
def test_the_iterations_of_the_cpu(cuda, L, shape):
    b = L @ np.random.default_rng(0).standard_normal((L.shape[0], *shape))
    (x, info), (y, other) = both(L, b)
    assert other.converged and y.shape == b.shape and np.array_equal(info.iterations, other.iterations)
    assert np.allclose(np.array(info.residuals), np.array(other.residuals), rtol=1e-5)
    assert np.allclose(x, y, atol=1e-9 * abs(x).max())
    assert np.allclose(np.linalg.norm(b - L @ y, axis=0) / np.linalg.norm(b, axis=0), other.relative_residual, rtol=1e-6)


def test_columns_stop_on_their_own(cuda):
    """A column of zeros, an easy column and a hard one; more iterations than between two reads of the state."""
    b = np.random.default_rng(1).standard_normal((256, 3))
    b[:, 0] = 0
    b[:, 1] = GROUNDED @ np.ones(256)
    (x, info), (y, other) = both(GROUNDED, b, rtol=1e-12)
    assert np.array_equal(info.iterations, other.iterations) and other.iterations[0] == 0 and (y[:, 0] == 0).all()
    assert other.iterations.max() > cg_cuda.LOOK and np.allclose(x, y, atol=1e-9)


@pytest.mark.parametrize(("patience", "iterations"), [(5, 20), (100, 55), (np.inf, 55)])
def test_it_gives_up_as_on_the_host(cuda, patience, iterations):
    """After the same number of iterations, however often the host reads the state."""
    b = np.random.default_rng(0).standard_normal(256)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.ConvergenceWarning)
        (x, info), (y, other) = (iterate(GROUNDED, to_cuda, None, None, 1e-9, gives_up=lambda done, left: left() > patience) for to_cuda in (b, device.to_device(b)))
    assert info.iterations == other.iterations == iterations and np.allclose(x, device.to_host(y), atol=1e-9)
    assert other.converged == info.converged == (iterations > 20) and len(other.residuals) == iterations + 1


@pytest.mark.parametrize("k", [1, 4, 9])
def test_sums_of_columns(cuda, monkeypatch, k):
    """One column, as many as a thread takes, and more than the grid covers at once; sums do not depend on other columns."""
    monkeypatch.setattr(cg_cuda, "MOST_ACROSS", 2)
    n, rng = 3000, np.random.default_rng(5)
    U, V = rng.standard_normal((2, n, k))
    xp, count = device.xp(), cg_cuda.parts_of(n)

    def parts(U, V):
        out = xp.empty(count * U.shape[1])
        cg_cuda.dot(*U.shape, device.to_device(np.ascontiguousarray(U)), device.to_device(np.ascontiguousarray(V)), out)
        return device.to_host(out).reshape(-1, count)

    together = parts(U, V)
    assert count > 1 and np.allclose(together.sum(axis=1), (U * V).sum(axis=0), rtol=1e-12)
    assert all(np.array_equal(together[c], parts(U[:, c:c + 1], V[:, c:c + 1])[0]) for c in range(k))


def star(n):
    """The Laplacian of a star with center 3, made regular."""
    far = np.delete(np.arange(n), 3)
    half = sp.coo_array((np.linspace(1, 2, n - 1), (np.full(n - 1, 3), far)), shape=(n, n))
    return sp.csr_array(sp.csgraph.laplacian(sp.csr_array(half + half.T)) + 0.1 * sp.eye_array(n))


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("n", [200, product.LONG, product.LONG + 1, 3000])
def test_a_long_row_is_the_sum_of_a_block(cuda, n, k):
    """A matrix without long rows takes one launch."""
    A, P = star(n), np.random.default_rng(0).standard_normal((n, k))
    multiply, Q = product.Product(Csr(n, A.indptr.astype(np.int64), A.indices.astype(np.int32), A.data)), to_cuda(np.empty((n, k)))
    multiply(to_cuda(P), Q)
    assert np.allclose(to_numpy(Q), A @ P, rtol=1e-12, atol=1e-12)
    multiply(to_cuda(P), Q, abs(multiply.data))
    assert np.allclose(to_numpy(Q), abs(A) @ P, rtol=1e-12, atol=1e-12)
    assert cuda is None or cuda.launches.get("k_multiply_long", 0) == (2 if n > product.LONG else 0)


@pytest.mark.sanitize
def test_dense_rows_do_not_change_results(varied, monkeypatch):
    """The sum of a long row has a fixed order on any schedule."""
    monkeypatch.setattr(product, "LONG", 40)
    A = star(120)
    b = A @ np.arange(120.0)
    (x, info), (y, other) = both(A, b)
    assert other.converged and info.iterations == other.iterations and np.allclose(x, y, atol=1e-6)
    assert varied.launches["k_multiply_long"] > 0 and np.array_equal(both(A, b)[1][0], y)


def test_complex_start_and_callback(cuda):
    rng, seen = np.random.default_rng(2), []
    b = GROUNDED @ (rng.standard_normal(256) + 1j * rng.standard_normal(256))
    (x, _), (y, info) = both(GROUNDED, b)
    assert info.converged and np.allclose(x, y, atol=1e-7)
    P = ms.parac(GROUNDED, device="cuda")
    again, more = ms.cg(GROUNDED, b, M=P, x0=y, callback=seen.append)
    assert (more.iterations == 0).all() and np.array_equal(again, y) and not seen
    ms.cg(GROUNDED, b.real, M=P, maxiter=40, callback=seen.append)
    assert seen and seen[0].shape == (256,)


@pytest.mark.slow
def test_failed_iterations_give_warnings(cuda):
    b = GRID @ np.random.default_rng(3).standard_normal(343)
    P = ms.parac(GRID, device="cuda")
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        _, info = ms.cg(GRID, b, M=P, maxiter=3)
    assert info.iterations == 3 and len(info.residuals) == 4
    with pytest.warns(ms.ConvergenceWarning):
        _, info = ms.cg(GRID, b, M=P, rtol=0.0)
    assert not info.converged and info.relative_residual < 1e-12
    with pytest.warns(ms.ConvergenceWarning, match="not positive definite"):
        ms.cg(sp.diags_array(np.where(np.arange(343) % 2, 1.0, -1.0)), np.ones(343), M=ms.parac(sp.eye_array(343), device="cuda"))


@pytest.mark.sanitize
def test_means_are_taken_out_with_a_warning(cuda):
    P = ms.parac(ISLANDS, device="cuda")
    b = ISLANDS @ np.random.default_rng(4).standard_normal(ISLANDS.shape[0])
    b[:64] += 0.5
    with pytest.warns(ms.ConvergenceWarning, match="b is not in the range of A"):
        x, info = ms.cg(ISLANDS, b, M=P)
    assert not info.converged and abs(x[:64].mean()) < 1e-9
    assert np.isclose(info.relative_residual, np.linalg.norm(b - ISLANDS @ x) / np.linalg.norm(b), rtol=1e-6)


def test_many_components(cuda):
    """More components than are projected one by one."""
    L = sp.csr_array(sp.block_diag([ms.datasets.grid2d(3, 3)] * 25 + [sp.eye_array(4)]))
    b = L @ np.random.default_rng(5).standard_normal((229, 2))
    (x, _), (y, info) = both(L, b)
    assert info.converged and np.allclose(x, y, atol=1e-8)


@pytest.mark.parametrize("power", [-1040, -700, 600, 1000])
def test_right_hand_sides_whose_squares_overflow_or_underflow(cuda, power):
    """Without scaling their norm would be infinite or 0, and x = 0 the solution. Other columns keep their bits."""
    b = np.stack([GROUNDED @ np.ones(256), np.arange(256.0), np.zeros(256)], axis=1)
    large = b * [2.0**power, 1.0, 1.0]
    x0 = np.ones((256, 3)) * [2.0**power, 1.0, 1.0] / 3
    (x, info), (y, other) = both(GROUNDED, large, x0=x0, atol=1e-300 if power > 0 else 0.0)
    (z, _) = both(GROUNDED, b, x0=np.ones((256, 3)) / 3)[1]
    assert other.converged and np.array_equal(info.iterations, other.iterations) and other.iterations[0] > 3
    assert np.allclose(x, y, rtol=1e-6, atol=0) and np.array_equal(y[:, 1:], z[:, 1:])
    assert power < -1000 or np.array_equal(y, z * [2.0**power, 1.0, 1.0])


def test_a_solution_out_of_range_has_not_converged(cuda):
    A, b = sp.diags_array(np.full(64, 1e-20)), np.full((64, 2), 1e295)
    b[:, 1] = 1
    with pytest.warns(ms.ConvergenceWarning, match="leaves the range of float64"):
        y, info = ms.cg(A, b, M=ms.parac(A, device="cuda"))
    assert info.reason.tolist() == ["the solution leaves the range of float64", "converged"] and np.isfinite(y[:, 1]).all()


def test_starts_on_the_host_and_the_gpu(cuda):
    P, b = ms.parac(GROUNDED, device="cuda"), GROUNDED @ np.arange(256.0)
    for rhs in (b, to_cuda(b)):
        for x0 in (np.arange(256.0), to_cuda(np.arange(256.0))):
            x, info = ms.cg(GROUNDED, rhs, M=P, x0=x0)
            assert info.iterations == 0 and np.array_equal(to_numpy(x), np.arange(256.0)) and device.holds(x) == device.holds(rhs)


@pytest.mark.parametrize("A", [GROUNDED, GRID, ISLANDS], ids=["grounded", "grid", "islands"])
def test_a_matrix_on_the_gpu_is_not_copied(cuda, monkeypatch, A):
    """No call copies it to the host, with the null space of M and with that of the matrix alone."""
    b, P, there_A = A @ np.arange(float(A.shape[0])), ms.parac(A, device="cuda"), Sparse(A)
    for M in (P, None):
        x, info = ms.cg(A, to_cuda(b), M=M)
        with nothing_copied_to_host(monkeypatch, most=cg_cuda.LOOK):
            y, other = ms.cg(there_A, to_cuda(b), M=M)
        assert np.array_equal(to_numpy(x), to_numpy(y)) and info.iterations == other.iterations and other.report.facts["nnz_A"] == A.nnz
        x, info = ms.cg(A, b)
        assert info.converged and np.allclose(to_numpy(y), x, atol=1e-5)


def test_means_of_components_without_a_factor(cuda):
    """One component with a b outside the range, many components, and rows of zeros."""
    many = sp.csr_array(sp.block_diag([ms.datasets.grid2d(3, 3)] * 25 + [sp.csr_array((4, 4))]))
    for A in (ISLANDS, many):
        b = A @ np.random.default_rng(4).standard_normal((A.shape[0], 2))
        b[:9, 1] += 0.5
        with pytest.warns(ms.ConvergenceWarning, match="b is not in the range of A"):
            x, info = ms.cg(A, b)
        with pytest.warns(ms.ConvergenceWarning, match="b is not in the range of A"):
            y, other = ms.cg(Sparse(A), to_cuda(b))
        assert np.allclose(to_numpy(y), x, atol=1e-6) and np.allclose(info.relative_residual, other.relative_residual, rtol=1e-6)
        assert abs(info.iterations - other.iterations).max() <= 1


def bad_matrices():
    """Bad matrices with the error and a part of its message."""
    unsymmetric, nan = GROUNDED.toarray(), GROUNDED.toarray()
    unsymmetric[3, 4], nan[7, 7] = 5.0, np.nan
    one_sided = GROUNDED.toarray()
    one_sided[9, 200] = 1.0
    return [(unsymmetric, ms.NotSymmetricError, "A is not symmetric"), (one_sided, ms.NotSymmetricError, "A is not symmetric"),
            (nan, ms.InvalidInputError, "A: row 7, column 7 holds nan"), (GROUNDED.toarray()[:, :9], ms.InvalidInputError, "square"),
            (GROUNDED.toarray() * 1j, ms.InvalidInputError, "real")]


@pytest.mark.parametrize("solve", [ms.cg, ms.sqmr])
@pytest.mark.parametrize("A, error, words", bad_matrices())
def test_matrices_on_the_gpu_are_refused_as_on_the_host(cuda, A, error, words, solve):
    refused = []
    for matrix, b in ((sp.csr_array(A), np.ones(256)), (Sparse(A), to_cuda(np.ones(256))), (to_cuda(A), to_cuda(np.ones(256)))):
        with pytest.raises(error, match=words) as caught:
            solve(matrix, b)
        refused.append({getattr(caught.value, name, None) for name in ("row", "column")})              # of an entry or its mirror entry
    assert refused[0] == refused[1] == refused[2]


def test_a_negligible_entry_may_lack_its_mirror_entry(cuda):
    A = GROUNDED.tolil()
    A[9, 200] = 1e-14
    A, b = sp.csr_array(A), GROUNDED @ np.arange(256.0)
    x, info = ms.cg(Sparse(A), to_cuda(b))
    assert info.converged and np.allclose(to_numpy(x), np.arange(256), atol=1e-4) and info.report.facts["nnz_A"] == A.nnz


def test_refusals(cuda):
    P = ms.parac(GRID, device="cuda")
    for b in (np.ones(3), np.full(343, np.nan), "b"):
        with pytest.raises(ms.InvalidInputError):
            ms.cg(GRID, b, M=P)
    with pytest.raises(ms.InvalidInputError, match="M must be"):
        ms.cg(GROUNDED, np.ones(256), M=P)
    bad = np.ones(343)
    bad[7] = np.nan
    with pytest.raises(ms.InvalidInputError, match="b: row 7"):
        ms.cg(GRID, to_cuda(bad), M=P)


def test_the_schedule_changes_no_bit(varied):
    A = ms.datasets.grid3d(5)
    b = A @ np.arange(125.0)
    P = ms.parac(A, device="cuda")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, second = (ms.cg(A, b, M=P) for _ in range(2))
    assert np.array_equal(first[0], second[0]) and first[1].residuals == second[1].residuals


def decide(what, total, scalars, status, fresh):
    """(scalars (7, k), status (k,)) after k_decide, for the sum `total` of each column."""
    k = len(total)
    arrays = [to_cuda(np.array(total, float)), to_cuda(np.array(scalars, float)), to_cuda(np.array(status, np.int32)),
              to_cuda(np.array(fresh, np.int32)), to_cuda(np.zeros(k, np.int32)), to_cuda(np.zeros(k))]
    device.launch(cg_cuda.K.k_decide, k, 32, 0, (np.int32(what), np.int32(k), np.int32(1), np.float64(LOST_AT), *arrays))
    return to_numpy(arrays[1]), to_numpy(arrays[2])


def test_a_restarted_column_drops_its_direction(cuda):
    """Columns that run, restart, are at their target, and had r . M r = 0: only the first keeps its old direction."""
    scalars = np.zeros((7, 4))
    scalars[0] = 2, 2, 2, 0
    after, _ = decide(0, [3, 3, 3, 3], scalars, [0, 0, 1, 0], [0, 1, 0, 0])
    assert np.array_equal(after[0], [3, 3, 3, 3]) and np.array_equal(after[3], [1.5, 0, 0, 0])


def test_a_residual_may_grow_ten_thousand_times(cuda):
    """One column is at its target. The others grew 5000 times (runs on), 20,000 times and to NaN (diverged)."""
    scalars = np.zeros((7, 4))
    scalars[5], scalars[6] = 1e-3, 1.0
    _, status = decide(4, [1e-6, 5e3**2, 2e4**2, np.nan], scalars, [0] * 4, [0] * 4)
    assert status.tolist() == [1, 0, 2, 2]
