"""SQMR on the GPU gives the iterations, reasons and errors of the host, on the kernel harness and on a GPU."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from on_device import Sparse, nothing_copied_to_host, to_cuda, to_numpy

import meshsolve as ms
from meshsolve import device
from meshsolve.krylov import cg_cuda, sqmr_cuda

KKT = ms.datasets.kkt(150, 60, seed=2)
B = KKT @ np.random.default_rng(0).standard_normal((210, 3))


def both(A, b, factor=(), **options):
    """(x, info) of sqmr with the incomplete factor of the host, then with that of the GPU."""
    options = {"rtol": 1e-9} | options
    made = {"fill_level": 1} | dict(factor)
    made |= {"blocking": "subtree"} if made.get("tile_size", 2) > 2 else {}             # the choice of the GPU
    return [ms.sqmr(A, b, M=ms.ildl(A, device=place, **made), **options) for place in ("cpu", "cuda")]


@pytest.mark.parametrize("tile_size", [2, 32])
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_the_iterations_of_the_cpu(cuda, shape, tile_size):
    b = B[:, 0] if shape == () else B[:, :shape[0]]
    (x, info), (y, other) = both(KKT, b, {"tile_size": tile_size})
    assert isinstance(y, np.ndarray) and y.shape == b.shape and other.converged and other.reason is not None
    assert np.array_equal(info.iterations, other.iterations) and np.allclose(info.residuals, other.residuals, rtol=1e-4)
    assert np.allclose(x, y, atol=1e-8 * abs(x).max())
    assert np.allclose(np.linalg.norm(b - KKT @ y, axis=0) / np.linalg.norm(b, axis=0), other.relative_residual, rtol=1e-4)


def test_zero_rows_do_not_affect_other_rows(cuda):
    """As on the host: the solvable part of each column is solved exactly by a complete factor."""
    d = np.r_[np.ones(60), 0, np.full(30, -2.0)]
    b = np.ones((91, 3))
    b[60, 1] = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ms.ConvergenceWarning)
        (x, info), (y, other) = both(sp.csr_array(sp.diags_array(d)), b, {"fill_level": None})
    for found, record in ((x, info), (y, other)):
        assert np.allclose(np.delete(found, 60, 0), np.delete(b / np.where(d == 0, 1, d)[:, None], 60, 0), rtol=1e-12)
        assert np.allclose(record.relative_residual, [1 / np.sqrt(91), 0, 1 / np.sqrt(91)], rtol=1e-12, atol=1e-14)
        assert not record.converged


def test_columns_stop_on_their_own(cuda):
    """A column of zeros, one started at its solution, and one with more iterations than between two reads of the state."""
    b = B.copy()
    b[:, 0] = 0
    x0 = np.zeros_like(b)
    x0[:, 1] = ms.ildl(KKT, fill_level=None).solve(b[:, 1])
    x0[:, 0] = 1
    (_, info), (y, other) = both(KKT, b, x0=x0)
    assert np.array_equal(info.iterations, other.iterations) and other.iterations[:2].tolist() == [0, 0]
    assert other.iterations[2] > cg_cuda.LOOK and not y[:, 0].any() and np.array_equal(y[:, 1], x0[:, 1]) and other.converged


@pytest.mark.parametrize("power", [-700, 600, 900])
def test_right_hand_sides_whose_squares_overflow_or_underflow(cuda, power):
    """Without scaling their norm would be infinite or 0, and x = 0 the solution."""
    scale, seen = np.array([2.0**power, 1.0]), []
    (x, info), (y, other) = both(KKT, B[:, :2] * scale, callback=seen.append)
    (z, _) = both(KKT, B[:, :2])[1]
    assert other.converged and np.array_equal(info.iterations, other.iterations) and other.iterations[0] > 3
    assert np.array_equal(y, z * scale) and np.allclose(x / scale, z, atol=1e-8 * abs(z).max()) and abs(seen[-1]).max() > 2.0**(power - 30)


def test_a_solution_out_of_range_has_not_converged(cuda):
    A, b = sp.diags_array(np.where(np.arange(64) % 2, 1e-20, -1e-20)), np.full((64, 2), 1e295)
    b[:, 1] = 1
    with pytest.warns(ms.ConvergenceWarning, match="leaves the range of float64"):
        y, info = ms.sqmr(A, b, M=ms.ildl(A, fill_level=1, device="cuda"))
    assert info.reason.tolist() == ["the solution leaves the range of float64", "converged"] and np.isfinite(y[:, 1]).all()


def test_a_matrix_on_the_gpu_is_not_copied(cuda, monkeypatch):
    """No call copies it to the host."""
    M, b, A = ms.ildl(KKT, fill_level=1, device="cuda"), to_cuda(B[:, 0].copy()), Sparse(KKT)
    x, info = ms.sqmr(KKT, b, M=M)
    with nothing_copied_to_host(monkeypatch, most=8 * cg_cuda.LOOK):
        y, other = ms.sqmr(A, b, M=M)
    assert np.array_equal(to_numpy(x), to_numpy(y)) and info.iterations == other.iterations and other.report.facts["nnz_A"] == KKT.nnz


def test_complex_start_and_callback(cuda):
    b, seen = B[:, 0] + 1j * B[:, 1], []
    (x, info), (y, other) = both(KKT, b)
    assert other.converged and np.array_equal(info.iterations, other.iterations) and np.allclose(x, y, atol=1e-6 * abs(x).max())
    M = ms.ildl(KKT, fill_level=1, device="cuda")
    x, info = ms.sqmr(KKT, B[:, 0], M=M, callback=lambda x: seen.append(np.array(x)))
    assert len(seen) == info.iterations and seen[0].shape == (210,)
    assert np.linalg.norm(B[:, 0] - KKT @ seen[-1]) == pytest.approx(info.relative_residual * np.linalg.norm(B[:, 0]), rel=1e-3)


def test_columns_that_do_not_converge_are_reported(cuda):
    for maxiter in (0, 3):
        with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
            (x, info), (y, other) = both(KKT, B, maxiter=maxiter)
        assert other.iterations.tolist() == [maxiter] * 3 and len(other.residuals) == maxiter + 1
        assert np.allclose(x, y, atol=1e-9) and np.allclose(info.relative_residual, other.relative_residual)
    with pytest.warns(ms.ConvergenceWarning, match="stagnated"):
        _, (_, other) = both(KKT, B[:, 0], rtol=1e-17)
    assert other.relative_residual < 1e-13


def test_a_breakdown_restarts_and_ends(cuda):
    """q . A q = 0 in the first step: a restart from the same x would not help, so the iteration ends."""
    A = sp.csr_array([[0.0, 1.0], [1.0, 0.0]])
    M = ms.ildl(sp.eye_array(2), fill_level=1, device="cuda")
    with pytest.warns(ms.ConvergenceWarning, match="broke down"):
        x, info = ms.sqmr(A, np.array([1.0, 0.0]), M=M)
    assert info.iterations == 0 and not x.any()
    x, info = ms.sqmr(A, np.array([1.0, 1.0]), M=M)
    assert info.converged and np.allclose(x, 1)


def test_a_residual_orthogonal_to_the_preconditioned_one(cuda):
    A = sp.diags_array(np.tile([1.0, -1.0, 3.0, -3.0], 20)).tocsr()
    b = np.stack([np.ones(80), np.arange(80.0), np.ones(80) * 2], axis=1)
    (x, info), (y, other) = both(A, b)
    assert other.converged and np.allclose(x, y) and np.allclose(A @ y, b)
    assert info.iterations.tolist() == other.iterations.tolist() and info.iterations.max() <= 2


def test_convergence_is_checked(cuda):
    """A poor factor in single precision: quasi-residuals mislead, ``converged`` is true only for a small true residual."""
    A = ms.datasets.stokes(10)
    b = A @ np.random.default_rng(3).standard_normal(A.shape[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (_, info), (y, other) = both(A, b, {"droptol": 0.1, "dtype": np.float32}, rtol=1e-7, maxiter=300)
    assert info.converged == other.converged == (np.linalg.norm(A @ y - b) <= 1.0001e-7 * np.linalg.norm(b))


def test_singular_but_consistent(cuda):
    A = sp.csr_array(sp.block_diag([KKT, sp.csr_array((3, 3))]))
    b = A @ np.ones(213)
    (_, info), (_, other) = both(A, b)
    assert other.converged and info.iterations == other.iterations


def test_results_stay_on_the_gpu(cuda):
    if cuda is None:
        pytest.skip("the GPU has arrays of its own")
    b = to_cuda(B)
    _, info = ms.sqmr(KKT, b, M=ms.ildl(KKT, fill_level=1, device="cuda"))
    assert info.converged and info.report.facts["device"] == "cuda"
    with pytest.raises(ms.InvalidInputError, match="M on the host"):
        ms.sqmr(KKT, b, M=ms.ildl(KKT, fill_level=1))
    _, info = ms.sqmr(ms.datasets.helmholtz(8, 7), to_cuda(np.ones(64)), rtol=1e-6)
    assert info.converged


def test_refusals(cuda):
    M = ms.ildl(KKT, fill_level=1, device="cuda")
    for b in (np.ones(3), np.full(210, np.nan), "b"):
        with pytest.raises(ms.InvalidInputError):
            ms.sqmr(KKT, b, M=M)
    with pytest.raises(ms.InvalidInputError, match="M must be"):
        ms.sqmr(ms.datasets.stokes(4), np.ones(ms.datasets.stokes(4).shape[0]), M=M)


RUNNING, AT_TARGET, BROKEN = range(3)


def decide(what, total, **given):
    """(scalars (8, k), status (k,), moves (k,)) after k_quasi_decide, for the sum `total` of each column."""
    k = len(total)
    scalars = np.ones((8, k))
    for name, values in given.items():
        scalars[getattr(sqmr_cuda, name)] = values
    status, starts, moves, iterations = (to_cuda(np.zeros(k, np.int32)) for _ in range(4))
    arrays = [to_cuda(np.array(total, float)), to_cuda(scalars)]
    device.launch(sqmr_cuda.K.k_quasi_decide, k, 32, 0, (np.int32(what), np.int32(k), np.int32(1), np.int32(9), arrays[0], arrays[1],
                                                        status, starts, moves, iterations, to_cuda(np.zeros(k))))
    return to_numpy(arrays[1]), to_numpy(status), to_numpy(moves)


def test_each_breakdown_is_detected(cuda):
    """q . A q, r . M r or the quasi-residual is 0 or not finite; the last column is sound."""
    nan, inf = np.nan, np.inf
    after, status, moves = decide(sqmr_cuda.CURVATURE, [0, nan, inf, 2, 2, 2, 2, 2], RHO=[1, 1, 1, 0, nan, inf, 1, 1], TAU=[1] * 6 + [0, 1])
    assert status.tolist() == [BROKEN] * 7 + [RUNNING] and moves.tolist() == [0] * 7 + [1]
    assert after[sqmr_cuda.STEP, -1] == 0.5
    _, status, moves = decide(sqmr_cuda.RESIDUAL, [nan, inf, 1e-2, 0.25], LOOK=1e-9)
    assert status.tolist() == [BROKEN, BROKEN, RUNNING, RUNNING] and moves.tolist() == [0, 0, 1, 1]


def test_a_column_stops_at_its_tolerance(cuda):
    """theta = 1 halves the square of the quasi-residual; the step that reaches the bound is still taken."""
    _, status, moves = decide(sqmr_cuda.RESIDUAL, [1, 1], LOOK=[np.sqrt(0.5), np.nextafter(np.sqrt(0.5), 0)])
    assert status.tolist() == [AT_TARGET, RUNNING] and moves.tolist() == [1, 1]


def test_columns_that_restart_do_not_read_their_old_vectors(cuda):
    """After a breakdown these may hold NaN, which a factor of zero does not remove."""
    n, k = 5, 2
    scalars = np.zeros((8, k))
    scalars[sqmr_cuda.BETA, 1] = scalars[sqmr_cuda.OLD, 1] = 2
    scalars[sqmr_cuda.FRESH] = 3
    Z, start = np.arange(10.0).reshape(n, k), np.array([[np.nan, 1.0]] * n)
    Q, D, X, moves = to_cuda(start.copy()), to_cuda(start.copy()), to_cuda(np.ones((n, k))), to_cuda(np.ones(k, np.int32))
    for kernel, arrays in ((sqmr_cuda.K.k_quasi_direction, (to_cuda(Z), Q)), (sqmr_cuda.K.k_quasi_smooth, (to_cuda(Z), D, X))):
        device.launch(kernel, 1, 32, 0, (np.int32(n), np.int32(k), to_cuda(scalars), moves, *arrays))
    assert np.array_equal(to_numpy(Q), Z + [0, 2])
    assert np.array_equal(to_numpy(D), 3 * Z + [0, 2]) and np.array_equal(to_numpy(X), 1 + to_numpy(D))


@pytest.mark.sanitize
def test_two_iterations(cuda):
    A = ms.datasets.kkt(12, 5, seed=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        (x, _), (y, _) = both(A, A @ np.arange(17.0), maxiter=2)
    assert np.allclose(x, y, atol=1e-9)


def test_the_schedule_changes_no_bit(varied):
    A = ms.datasets.kkt(40, 15, seed=2)
    b = A @ np.arange(110.0).reshape(55, 2)
    M = ms.ildl(A, fill_level=1, device="cuda")
    first, second = (ms.sqmr(A, b, M=M) for _ in range(2))
    assert np.array_equal(first[0], second[0]) and np.array_equal(first[1].residuals, second[1].residuals)


def test_cg_takes_the_factor_too(cuda):
    A = ms.datasets.grid2d(9, 9, boundary="dirichlet")
    x, info = ms.cg(A, np.ones(81), M=ms.ildl(A, fill_level=1, device="cuda"))
    assert info.converged and np.allclose(A @ x, 1, atol=1e-6)


def test_preconditioners_of_the_host(cuda):
    """Matrices are uploaded, operators are refused: their products would copy each block."""
    A = sp.csr_array(np.diag([4.0, 1.0, -2.0, 0.5]))
    for solve in (ms.sqmr, ms.cg):
        D = abs(A) if solve is ms.cg else A
        M = sp.diags_array(1 / D.diagonal())
        for given in (sp.csc_matrix(M), M.toarray()):
            x, info = solve(D, to_cuda(np.ones((4, 2))), M=given)
            assert info.converged and max(info.iterations) == 1 and np.allclose(D @ to_numpy(x), 1)
        with pytest.raises(ms.InvalidInputError, match="M is an operator of scipy"):
            solve(D, to_cuda(np.ones(4)), M=sp.linalg.aslinearoperator(M))


def test_null_vectors_have_no_direction(cuda):
    """As on the host: A r = 0, and M r = 0 with an M of zeros."""
    A, b = sp.csr_array(np.diag([1.0, -1.0, 0.0])), np.array([[0.0, 1.0], [0.0, 2.0], [1.0, 0.0]])
    for M in (None, sp.csr_array((3, 3))):
        with pytest.warns(ms.ConvergenceWarning):
            x, info = ms.sqmr(A, to_cuda(b), M=M)
        x = to_numpy(x)
        assert not x[:, 0].any() and "broke down" in info.reason[0] and info.relative_residual[0] == 1
        assert M is not None or np.allclose(A @ x[:, 1], b[:, 1])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("solve", [ms.cg, ms.sqmr])
def test_units_of_the_matrix(cuda, solve):
    """As on the host: matrices beyond 2^100 are scaled, and solutions below the range of float64 are judged by their residual."""
    A = ms.datasets.grid2d(4, 4, boundary="dirichlet")
    b = A @ np.stack([np.arange(1.0, 17.0), np.ones(16)], axis=1)
    for unit in (1e-300, 1e-150, 1e150, 1e300):
        x, info = solve(A * unit, to_cuda(b * unit * 1e-4), rtol=1e-10)
        y, other = solve(A * unit, b * unit * 1e-4, rtol=1e-10)
        assert info.converged and np.allclose(to_numpy(x), y, rtol=1e-8) and np.array_equal(info.iterations, other.iterations)
    x, info = solve(A * 1e100, to_cuda(b * [1e-299, 1.0]))
    assert not to_numpy(x)[:, 0].any() and info.relative_residual[0] == 1 and "leaves the range" in info.reason[0] and info.reason[1] == "converged"
    x, info = solve(A * 1e-200, to_cuda(b * [1e200, 1.0]))
    assert np.isinf(info.relative_residual[0]) and "leaves the range" in info.reason[0] and info.reason[1] == "converged"
