"""GMRES: compared with direct solves and with the least squares that define it; reported residuals are true."""

import pathlib

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from factor.lu.lu_matrices import mesh, random_matrix

import meshsolve as ms
from meshsolve.krylov.gmres import iterate

DATA = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data" / "circuit"


def relative(A, x, b):
    return np.linalg.norm(b - A @ x) / np.linalg.norm(b)


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("preconditioned", [False, True])
def test_unsymmetric_systems(kind, preconditioned):
    A = random_matrix(120, 0.05, seed=1, complex_values=kind is complex, diagonal=8.0)
    b = np.random.default_rng(0).standard_normal(120).astype(kind)
    x, info = ms.gmres(A, b, M=ms.ilu(A) if preconditioned else None, rtol=1e-11, restart=120)
    assert np.allclose(x, np.linalg.solve(A.toarray(), b)) and x.dtype == np.dtype(kind)
    assert info.method == "gmres" and info.converged and info.reason == "converged" and len(info.residuals) == info.iterations + 1
    assert info.relative_residual == pytest.approx(relative(A, x, b), rel=1e-3, abs=1e-15) and info.relative_residual <= 1e-11
    assert info.iterations <= (12 if preconditioned else 120)


@pytest.mark.parametrize("kind", [float, complex])
def test_each_residual_is_the_smallest_in_its_krylov_space(kind):
    """The definition of GMRES: least squares on A M^-1 r, (A M^-1)^2 r, ..."""
    rng = np.random.default_rng(2)
    A, M = (rng.standard_normal((8, 8)).astype(kind) + 6 * np.eye(8) for _ in range(2))
    if kind is complex:
        A += 1j * rng.standard_normal((8, 8))
    b = rng.standard_normal(8).astype(kind)
    x, info = ms.gmres(A, b, M=M, rtol=1e-12)
    space = [b]
    for k in range(1, 6):
        space.append(A @ (M @ space[-1]))
        W = np.stack(space[1:], axis=1)
        best = np.linalg.norm(b - W @ np.linalg.lstsq(W, b, rcond=None)[0]) / np.linalg.norm(b)
        assert info.residuals[k] == pytest.approx(best, rel=1e-6)


def test_blocks_are_columns_and_a_complex_b_of_a_real_matrix_is_two():
    A = mesh(12, 10)
    B = A @ np.random.default_rng(1).standard_normal((120, 3))
    K = ms.ilu(A, droptol=1e-2)
    X, info = ms.gmres(A, B, M=K)
    assert info.iterations.shape == (3,) and info.converged is True and info.residuals[0].shape == (3,)
    for c in range(3):
        x, one = ms.gmres(A, B[:, c], M=K)
        assert np.array_equal(x, X[:, c]) and one.iterations == info.iterations[c]
    z, _ = ms.gmres(A, B[:, 0] + 1j * B[:, 1], M=K)
    assert np.array_equal(z, X[:, 0] + 1j * X[:, 1])
    empty, info = ms.gmres(A, B[:, :0])
    assert empty.shape == (120, 0) and info.converged


def test_start_zero_and_callback():
    A, seen = mesh(12, 10), []
    b, K = A @ np.arange(120.0), ms.ilu(A, droptol=0.05)
    x, info = ms.gmres(A, b, M=K, callback=lambda x: seen.append(x.copy()), restart=4)
    assert len(seen) == info.iterations > 4 and np.allclose(seen[-1], x, rtol=1e-9)
    assert [relative(A, y, b) for y in seen] == pytest.approx(info.residuals[1:], rel=1e-5)
    y, again = ms.gmres(A, b, M=K, restart=4)
    assert np.array_equal(x, y) and again.residuals == info.residuals           # the callback changes nothing
    assert ms.gmres(A, b, x0=x)[1].iterations == 0
    z, info = ms.gmres(A, 0 * b, x0=x)
    assert not z.any() and info.converged and info.residuals == [0]


def test_progress_and_interruption():
    A, seen = mesh(12, 10), []
    with ms.showing_progress(lambda phase, done, total: seen.append((phase, done))):
        ms.gmres(A, np.ones(120))
    assert seen[0] == ("solve", 0)
    with pytest.raises(KeyboardInterrupt):
        ms.gmres(A, np.ones(120), callback=lambda x: (_ for _ in ()).throw(KeyboardInterrupt()))


def test_no_convergence_is_a_warning_with_the_best_x():
    A = mesh(20, 20)
    with pytest.warns(ms.ConvergenceWarning, match="gmres: maxiter reached .relative residual"):
        x, info = ms.gmres(A, np.ones(400), maxiter=9, restart=4)
    assert not info.converged and info.iterations == 9 and info.relative_residual == pytest.approx(relative(A, x, np.ones(400)))
    shift = sp.csr_array(np.roll(np.eye(30), 1, axis=0))                      # no progress in fewer than 30 steps
    with pytest.warns(ms.ConvergenceWarning, match="stagnated"):
        x, info = ms.gmres(shift, np.eye(30)[0], restart=10)
    assert not info.converged and info.relative_residual == 1 and not x.any()
    assert ms.gmres(shift, np.eye(30)[0], restart=30)[1].converged


@pytest.mark.parametrize("patience, reason", [(2, "slow: "), (40, "converged")])
def test_patience_ends_slow_columns_only(patience, reason):
    A = mesh(20, 20)
    x, info = iterate(A, A @ np.ones(400), ms.ilu(A, 0.1), None, 1e-9, 0.0, 100, patience=patience)
    assert reason in info.reason


def test_singular_systems():
    A = sp.csr_array(sp.block_diag([mesh(6, 5), sp.csr_array((2, 2))]))
    x, info = ms.gmres(A, A @ np.ones(32), rtol=1e-10)
    assert info.converged
    with pytest.warns(ms.ConvergenceWarning, match="stagnated"):
        x, info = ms.gmres(A, np.ones(32))
    assert not info.converged and info.relative_residual == pytest.approx(np.sqrt(2 / 32), rel=1e-6)


@pytest.mark.parametrize("kind", [float, complex])
def test_factors_of_scipy_are_preconditioners(kind):
    A = sp.csc_array(mesh(12, 10).astype(kind) * (1j if kind is complex else 1))
    x, info = ms.gmres(A, np.ones(120), M=spla.spilu(A))
    assert info.converged and info.iterations < 10 and np.allclose(A @ x, 1, atol=1e-6)
    with pytest.raises(ms.InvalidInputError, match="got builtin_function_or_method: for a function f"):
        ms.gmres(A, np.ones(120), M=spla.spilu(A).solve)


def test_a_zero_diagonal():
    A = sp.csr_array(np.roll(np.diag(np.arange(1.0, 41)), 7, axis=0) + 0.1 * np.roll(np.eye(40), 3, axis=0))
    assert not A.diagonal().any()
    x, info = ms.gmres(A, np.ones(40), M=ms.ilu(A))
    assert info.converged and np.allclose(A @ x, 1) and info.iterations <= 3


def test_products_out_of_range_are_reported():
    A = sp.csr_array(np.diag([1e300, 1e300]))
    with pytest.warns(ms.ConvergenceWarning, match="broke down"):
        x, info = ms.gmres(A, [1e290, 1.0], M=np.diag([1e300, 1.0]))
    assert not info.converged and np.isfinite(x).all()


def test_a_wrong_preconditioner_gives_true_residuals():
    A = mesh(12, 10)
    M = np.random.default_rng(0).standard_normal((120, 2)) @ np.random.default_rng(1).standard_normal((2, 120))     # of rank 2
    with pytest.warns(ms.ConvergenceWarning):
        x, info = ms.gmres(A, np.ones(120), M=M)
    assert not info.converged and info.relative_residual == pytest.approx(relative(A, x, np.ones(120)), rel=1e-6)


def test_fixed_rows_and_a_pin():
    A, fixed, values, b = mesh(9, 8), [70, 3, 15], [1.0, 2.0, 3.0], np.arange(72.0)
    right = ms.lu(A, fixed=fixed).solve(b, fixed_values=values)
    seen = []
    for M in (None, ms.ilu(A), ms.ilu(A, fixed=fixed)):
        x, info = ms.gmres(A, b, M=M, rtol=1e-12, fixed=fixed, fixed_values=values, callback=lambda x: seen.append(x.copy()))
        assert info.converged and np.allclose(x, right) and np.allclose(seen[-1], x)
    z, _ = ms.gmres(A * 1j, b, M=ms.ilu(A * 1j), rtol=1e-12, fixed=fixed, fixed_values=values)
    assert np.allclose(z, ms.lu(A * 1j, fixed=fixed).solve(b, fixed_values=values))
    flow = sp.csr_array(ms.datasets.grid2d(9, 8) + (s := sp.csr_array(np.roll(np.eye(72), 1, axis=0) - np.eye(72))) - 2 * s)
    x, info = ms.gmres(flow, b - b.mean(), M=ms.ilu(flow, pin=True), rtol=1e-11, pin=True)
    assert info.converged and abs(x.mean()) < 1e-10 and np.allclose(flow @ x, b - b.mean())


def test_the_same_bits_on_any_number_of_threads():
    A = sp.csr_array(ms.datasets.grid2d(200, 150) + sp.diags_array(np.full(29999, 0.3), offsets=1) + sp.eye_array(30000))
    one, many = (ms.gmres(A, np.ones(30000), rtol=1e-4, threads=t) for t in (1, 3))
    assert np.array_equal(one[0], many[0]) and one[1].residuals == many[1].residuals


def test_arrays_on_the_gpu_are_refused(cuda):
    from meshsolve import device
    A, b = mesh(9, 8), np.ones(72)
    on_gpu = device.csr(*map(device.to_device, (A.data, A.indices, A.indptr)), A.shape)
    for name, call in {"A": lambda: ms.gmres(on_gpu, b), "b": lambda: ms.gmres(A, device.to_device(b)),
                       "M": lambda: ms.gmres(A, b, M=ms.parac(ms.datasets.grid2d(9, 8), device="cuda"))}.items():
        with pytest.raises(ms.InvalidInputError, match=f"{name} lies on the GPU, but gmres runs on the host"):
            call()


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the collected matrices are not on this machine")
@pytest.mark.parametrize("file", ["add20.mtx.gz", "cryg2500.mtx.gz", "nnc1374.mtx", "qh1484.mtx", "west0479.mtx", "pyamg_helmholtz_2D.mtx.gz"])
def test_collected_matrices(file):
    """nnc1374 has rows of very different sizes; the first incomplete factor of qh1484 has a zero pivot."""
    A = ms.datasets.load_matrix(DATA / file)
    b = A @ np.ones(A.shape[0])
    x, info = ms.solve(A, b, method="ilu")
    assert info.converged and info.iterations < 60 and relative(A, x, b) <= 1e-10
