"""Conjugate gradients: compared with dense solutions, blocks with single columns; warnings of columns that do not converge."""

import contextlib
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.sparse.linalg as spla
from hypothesis import given
from hypothesis import strategies as st

import meshsolve as ms
from meshsolve import _core
from meshsolve.krylov import cg_host
from meshsolve.krylov.cg import iterate
from meshsolve.krylov.cg_rules import FORESEE

L = ms.datasets.grid2d(30, 25)
N = L.shape[0]
A = ms.datasets.grid2d(30, 25, boundary="dirichlet")


def consistent(k=None, seed=0):
    return L @ np.random.default_rng(seed).standard_normal(N if k is None else (N, k))


def relative(M, X, B):
    return np.linalg.norm(B - M @ X, axis=0) / np.linalg.norm(B, axis=0)


@given(n=st.integers(1, 80), k=st.integers(1, 11), seed=st.integers(0, 999))
def test_solves_random_systems(n, k, seed):
    rng = np.random.default_rng(seed)
    M = rng.standard_normal((n, n))
    M = M @ M.T + n * np.eye(n)
    B = rng.standard_normal((n, k))
    X, info = ms.cg(M, B, rtol=1e-12)
    assert info.converged and np.allclose(X, np.linalg.solve(M, B), rtol=1e-8, atol=1e-9)
    residual = relative(M, X, B)
    assert (residual <= 1.01e-12).all() and np.allclose(info.relative_residual, residual, rtol=0.5, atol=1e-14)


def test_a_block_is_its_columns():
    B, P = consistent(11), ms.parac(L)
    X, info = ms.cg(L, B, M=P)
    assert info.iterations.shape == info.relative_residual.shape == info.reason.shape == (11,) and info.converged is True
    for c in range(11):
        x, single = ms.cg(L, B[:, c], M=P)
        assert single.iterations == info.iterations[c] and np.allclose(x, X[:, c], rtol=1e-6, atol=1e-6)
    assert ms.cg(L, B[:, :1], M=P)[0].shape == (N, 1) and ms.cg(L, B[:, :0], M=P)[0].shape == (N, 0)


def test_many_columns_run_a_few_at_a_time(monkeypatch):
    """Results and records are those of all columns together. A block larger than the cache takes four times as long per
    column."""
    B, start = consistent(21), np.random.default_rng(1).standard_normal((N, 21))
    B[:, 3] += 1                            # not in the range of A
    B[:, 9] = 0
    for block in (B, start):
        block[:, 17] *= 1e-200              # scaled, unlike its neighbors
    widths = set()

    def jacobi(R):
        widths.add(R.shape[1])
        return R / L.diagonal()[:, None]

    M = spla.LinearOperator((N, N), matvec=jacobi, matmat=jacobi, dtype=float)

    def solve(rtol, maxiter, **options):
        widths.clear()
        with pytest.warns(ms.ConvergenceWarning):
            return ms.cg(L, B, M=M, x0=start, rtol=rtol, maxiter=maxiter, **options)

    for rtol, maxiter in ((1e-8, None), (1e-30, 30)):
        whole, together = solve(rtol, maxiter, callback=lambda X: None)
        assert widths == {21}
        monkeypatch.setattr(cg_host, "CACHED", 1)
        X, info = solve(rtol, maxiter)
        monkeypatch.undo()
        assert widths == {8, 5} and np.allclose(X, whole, rtol=1e-6, atol=1e-6)
        assert np.array_equal(info.iterations, together.iterations) and np.array_equal(info.reason, together.reason)
        assert info.relative_residual == pytest.approx(together.relative_residual, rel=1e-3, abs=1e-12)
        assert len(info.residuals) == len(together.residuals) == info.iterations.max() + 1
        assert np.allclose(info.residuals, together.residuals, rtol=1e-3, atol=1e-12)


def test_threads_change_no_bit():
    M = ms.datasets.grid3d(24)
    B = M @ np.random.default_rng(0).standard_normal((M.shape[0], 4))
    one, info = ms.cg(M, B, M=ms.parac(M, threads=1), threads=1)
    for threads in (2, 5):
        X, more = ms.cg(M, B, M=ms.parac(M, threads=threads), threads=threads)
        assert np.array_equal(X, one) and np.array_equal(more.iterations, info.iterations)


@pytest.mark.parametrize("k", [None, 1, 2, 3, 8, 13])
@pytest.mark.parametrize("ordering", ["amd", "rounds", "nnz_sort"])
def test_the_numbering_of_the_factor_changes_nothing(monkeypatch, k, ordering):
    two = sp.block_diag([L, 3 * L, ms.datasets.grid2d(9, 7, boundary="dirichlet")]).tocsr()
    n = two.shape[0]
    shuffled = np.random.default_rng(1).permutation(n)
    two = two[shuffled][:, shuffled]
    rng = np.random.default_rng(0)
    B = two @ rng.standard_normal(n if k is None else (n, k))
    x0, P, iterates = rng.standard_normal(B.shape), ms.parac(two, ordering=ordering), []
    expected, info = ms.cg(two, B, M=P, x0=x0)
    monkeypatch.setattr(cg_host, "RENUMBERED", 1)
    monkeypatch.setattr(cg_host, "NEAR", 0)
    X, more = ms.cg(two, B, M=P, x0=x0, callback=lambda X: iterates.append(X.copy()))
    assert more.converged and np.allclose(X, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    assert np.abs(np.subtract(more.iterations, info.iterations)).max() <= 1 and "renumber" in more.report.seconds
    assert X.shape == B.shape and np.linalg.norm(B - two @ X) < 1e-7 * np.linalg.norm(B)
    assert np.linalg.norm(iterates[-1] - x0) > 0 and np.linalg.norm(B - two @ iterates[-1]) < 1e-7 * np.linalg.norm(B)
    with pytest.warns(ms.MeshsolveWarning, match="not in the range"):
        y, _ = ms.cg(two, np.arange(1.0, n + 1), M=P)
    labels = sp.csgraph.connected_components(two)[1]
    of = np.bincount(labels, y) / np.bincount(labels)
    assert np.sort(np.abs(of))[:2].max() < 1e-9 * np.abs(y).max()          # means of the two components without a ground


def test_renumbered_iterations_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(cg_host, "RENUMBERED", 1)
    monkeypatch.setattr(cg_host, "NEAR", 0)
    M = ms.datasets.grid3d(32)
    b = M @ np.random.default_rng(0).standard_normal(M.shape[0])
    one = ms.cg(M, b, M=ms.parac(M, ordering="amd", threads=1), threads=1)[0]
    assert np.array_equal(ms.cg(M, b, M=ms.parac(M, ordering="amd", threads=2), threads=3)[0], one)


def test_systems_of_near_neighbors_keep_their_numbering(monkeypatch):
    monkeypatch.setattr(cg_host, "RENUMBERED", 1)
    monkeypatch.setattr(cg_host, "NEAR", 500)
    grid = ms.datasets.grid2d(60, 60)
    shuffled = np.random.default_rng(1).permutation(3600)
    for M, renumbered in ((grid, False), (sp.csr_array(grid)[shuffled][:, shuffled], True)):
        x, info = ms.cg(M, M @ np.arange(3600.0), M=ms.parac(M))
        assert info.converged and ("renumber" in info.report.seconds) == renumbered and abs(x.mean()) < 1e-9


@pytest.mark.parametrize("x0", [None, 0, 1])
def test_the_reported_residual_is_that_of_the_solution(x0):
    """Also for columns that are solved at the start, earlier than others, or not at all."""
    rng = np.random.default_rng(2)
    B = L @ rng.standard_normal((N, 4))
    B[:, 1] = 0
    B[:, 2] *= 1e-3
    start = None if x0 is None else np.zeros((N, 4)) if x0 == 0 else rng.standard_normal((N, 4))
    for rtol, converged in ((1e-8, True), (1e-30, False)):
        with contextlib.nullcontext() if converged else pytest.warns(ms.ConvergenceWarning):
            X, info = ms.cg(L, B, M=ms.parac(L), x0=start, rtol=rtol)
        size = np.where(B.any(0), np.linalg.norm(B, axis=0), 1)
        reported, true = info.relative_residual, np.linalg.norm(B - L @ X, axis=0) / size
        assert info.converged == converged and np.allclose(reported, true, rtol=1e-6, atol=1e-15)
        assert np.abs(X.mean(axis=0)).max() < 1e-12 * np.abs(X).max()


def test_laplacian_solutions_have_mean_zero_on_each_component():
    two = sp.block_diag([L, 3 * L]).tocsr()
    b = two @ np.random.default_rng(0).standard_normal(2 * N)
    for M in (None, ms.parac(two), spla.aslinearoperator(sp.eye_array(2 * N))):
        x, info = ms.cg(two, b, M=M)
        assert info.converged and abs(x[:N].mean()) < 1e-10 and abs(x[N:].mean()) < 1e-10


def test_grounded_components_keep_their_mean():
    two, truth = sp.csr_array(sp.block_diag([L, A])), np.random.default_rng(0).standard_normal(2 * N) + 3
    for M in (None, ms.parac(two)):
        with pytest.warns(ms.ConvergenceWarning, match="not in the range") if M is not None else contextlib.nullcontext():
            x, info = ms.cg(two, two @ truth + np.repeat([0.0 if M is None else 1.0, 0.0], N), M=M, rtol=1e-10)
        assert np.allclose(x[N:], truth[N:], atol=1e-6) and (M is None or abs(x[:N].mean()) < 1e-9)


@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_stored_zeros_join_no_components(integer):
    """A cotangent Laplacian stores a zero for the diagonal of each square."""
    squares = ms.Mesh([[x, y, 0.0] for y in range(6) for x in range(5)],
                      [[v + a, v + b, v + c] for v in range(24) if v % 5 < 4 for a, b, c in ((0, 1, 6), (0, 6, 5))])
    M = sp.csr_array(ms.cotan_laplacian(squares))
    M.data[abs(M.data) < 1e-12] = 0
    assert (M.data == 0).any()
    two = sp.csr_array(sp.block_diag([M, 2 * M]))
    two = sp.csr_array((two.data, two.indices.astype(integer), two.indptr.astype(integer)), shape=two.shape)
    before, b = [array.copy() for array in (two.indptr, two.indices, two.data)], two @ np.arange(60.0)
    x, info = ms.cg(two, b, rtol=1e-10)
    assert info.converged and abs(x[:30].mean()) < 1e-9 and abs(x[30:].mean()) < 1e-9 and np.allclose(two @ x, b, atol=1e-8)
    assert all(np.array_equal(array, kept) for array, kept in zip((two.indptr, two.indices, two.data), before))


@pytest.mark.parametrize("with_factor", [False, True])
def test_an_inconsistent_b_is_projected_with_a_warning(with_factor):
    M = ms.parac(L) if with_factor else None
    b = consistent()
    with pytest.warns(ms.ConvergenceWarning, match="b is not in the range of A"):
        x, info = ms.cg(L, b + 0.5, M=M)
    assert np.linalg.norm(L @ x - b) <= 1.01e-8 * np.linalg.norm(b) and abs(x.mean()) < 1e-9
    truth = np.linalg.norm(L @ x - b - 0.5) / np.linalg.norm(b + 0.5)
    assert not info.converged and "not in the range" in info.reason and np.isclose(info.relative_residual, truth, rtol=1e-6)
    assert np.isclose(info.residuals[0], 1) and np.isclose(info.residuals[-1], truth, rtol=1e-6)


def test_means_are_reported_for_each_column_and_component():
    two = sp.csr_array(sp.block_diag([L, L]))
    b = two @ np.random.default_rng(0).standard_normal(2 * N)
    for wrong in (np.stack([1e12 * b, b + 0.5], 1), b * np.repeat([1e6, 1], N) + np.repeat([0, 0.5], N)):
        with pytest.warns(ms.ConvergenceWarning, match="b is not in the range of A"):
            X, info = ms.cg(two, wrong)
        assert not info.converged and np.allclose(info.relative_residual, relative(two, X, wrong), rtol=1e-3, atol=1e-8)
    x, info = ms.cg(two, b + 1e-12)
    assert info.converged                                              # a part outside the range within the tolerance gives no warning


@pytest.mark.parametrize("M", [None, "parac", "regular"])
def test_a_start_that_is_a_solution_is_made_mean_free(M):
    operator = None if M is None else ms.parac(L if M == "parac" else L + 0.01 * sp.eye_array(N))
    truth = np.arange(float(N))
    x, info = ms.cg(L, L @ truth, M=operator, x0=truth + 100, rtol=1e-6)
    assert info.converged and info.iterations == 0 and np.allclose(x, truth - truth.mean())


def test_singularity_depends_on_the_matrix_alone():
    grounded = L + 0.01 * sp.eye_array(N)
    truth = np.random.default_rng(0).standard_normal(N)
    x, info = ms.cg(L, L @ truth, M=ms.parac(grounded))
    assert info.converged and abs(x.mean()) < 1e-9
    with pytest.warns(ms.ConvergenceWarning):                          # M maps constants to 0: their error stays
        x, info = ms.cg(grounded, grounded @ truth + 1, M=ms.parac(L))
    assert np.isclose(info.relative_residual, relative(grounded, x, grounded @ truth + 1), rtol=1e-6)
    x, info = ms.cg(grounded, grounded @ (truth + 5), M=ms.parac(L), x0=truth + 5)
    assert info.converged and np.array_equal(x, truth + 5)             # a solution keeps its mean


def test_rounding_is_distinguished_from_indefinite_matrices():
    rng = np.random.default_rng(0)
    M = ms.datasets.grid3d(12)
    with pytest.warns(ms.ConvergenceWarning, match="as rounding allows"):
        info = ms.cg(M, M @ rng.standard_normal(1728), M=ms.parac(M), rtol=1e-16)[1]
    assert info.relative_residual < 1e-12
    wild = sp.csr_array(sp.diags_array(np.where(np.arange(50) == 7, -1.0, 1.0)))
    with pytest.warns(ms.ConvergenceWarning, match="not positive definite"):
        ms.cg(wild, rng.standard_normal(50))
    with pytest.warns(ms.ConvergenceWarning, match="not positive definite"):
        ms.cg(A, rng.standard_normal(N), M=-sp.eye_array(N))


def test_factors_and_operators_work_with_scipy():
    b, P = consistent(), ms.parac(L)
    assert spla.cg(L, b, M=P, rtol=1e-8, maxiter=100)[1] == 0
    jacobi = sp.diags_array(1 / L.diagonal())
    for M in (jacobi, jacobi.toarray(), spla.aslinearoperator(jacobi), ms.cholesky(A)):
        assert ms.cg(A, b, M=M)[1].converged
    assert ms.cg(A, b, M=ms.cholesky(A))[1].iterations == 1


def test_start_and_zero_right_hand_sides():
    b = consistent()
    x, info = ms.cg(A, b, rtol=1e-10)
    again, more = ms.cg(A, b, x0=x, rtol=1e-9)
    assert more.iterations == 0 and more.converged and np.array_equal(again, x)
    zero, info = ms.cg(A, np.zeros(N), x0=np.ones(N))
    assert not zero.any() and info.converged and info.relative_residual == 0
    assert ms.cg(A, np.stack([b, 0 * b], 1))[1].converged


def test_complex_right_hand_sides_are_two_columns():
    b = consistent() + 1j * consistent(seed=1)
    x, info = ms.cg(A, b)
    assert x.dtype == complex and np.linalg.norm(A @ x - b) < 2e-8 * np.linalg.norm(b)
    assert ms.cg(A, b, x0=x.real)[1].converged


def test_callback_and_residuals():
    seen = []
    x, info = ms.cg(A, consistent(), callback=lambda x: seen.append(x.copy()))
    assert len(seen) == info.iterations == len(info.residuals) - 1 and seen[0].shape == (N,)
    assert info.residuals[0] == pytest.approx(1) and info.residuals[-1] <= 1e-8 and info.reason == "converged"
    assert np.array_equal(seen[-1], x)
    assert "solve" in info.report.seconds


def plain(M, b, rtol, inverse=1.0):
    """Conjugate gradients as in a textbook: x, and the norms of the residuals of the recurrence."""
    x, r = np.zeros_like(b), b.copy()
    z = inverse * r
    p, rho, norms = z.copy(), r @ z, [np.linalg.norm(r)]
    while norms[-1] > rtol * norms[0]:
        q = M @ p
        alpha = rho / (p @ q)
        x, r = x + alpha * p, r - alpha * q
        z, norms = inverse * r, [*norms, np.linalg.norm(r)]
        rho, before = r @ z, rho
        p = z + rho / before * p
    return x, np.array(norms) / norms[0]


@given(n=st.integers(2, 60), seed=st.integers(0, 999), weighted=st.booleans())
def test_iterates_are_those_of_the_textbook(n, seed, weighted):
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    M, b = Q * np.linspace(1, 5, n) @ Q.T, rng.standard_normal(n)
    M = (M + M.T) / 2
    inverse = 1 / M.diagonal() if weighted else 1.0
    x, info = ms.cg(M, b, M=sp.diags_array(inverse) if weighted else None, rtol=1e-6)
    expected, norms = plain(M, b, 1e-6, inverse)
    assert np.allclose(info.residuals, norms, rtol=1e-5) and np.allclose(x, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("k", [None, 3])
def test_products_are_computed_once_per_iteration(monkeypatch, k):
    """R . R is computed by the step that updates R, and not again."""
    counts = dict.fromkeys(("krylov_dot", "multiply_dot", "krylov_step", "krylov_direction"), 0)

    def counting(name, call):
        def counted(*args):
            counts[name] += 1
            return call(*args)
        return counted

    for name in counts:
        monkeypatch.setattr(_core, name, counting(name, getattr(_core, name)))
    B = A @ np.random.default_rng(0).standard_normal(N if k is None else (N, k))
    info = ms.cg(A, B)[1]
    iterations = np.max(info.iterations)
    assert counts == {"krylov_dot": 1, "multiply_dot": iterations, "krylov_step": iterations, "krylov_direction": iterations - 1}


def test_maxiter_gives_a_warning():
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        x, info = ms.cg(A, consistent(), maxiter=3)
    assert not info.converged and info.iterations == 3 and len(info.residuals) == 4
    assert info.relative_residual == pytest.approx(np.linalg.norm(A @ x - consistent()) / np.linalg.norm(consistent()))
    with pytest.warns(ms.ConvergenceWarning, match="column 1"):
        ms.cg(A, np.stack([0 * consistent(), consistent()], 1), maxiter=1)


def after(patience):
    """A ``gives_up`` that ends the iteration if more than ``patience`` iterations are estimated."""
    return lambda done, left: left() > patience


def test_it_gives_up_if_many_iterations_are_left():
    """The estimate uses the rate of the last 20 iterations: the residual of a rough b falls fast at first."""
    rng = np.random.default_rng(0)
    slow, start = rng.standard_normal(N), FORESEE
    easy = A + 0.3 * sp.eye_array(N)
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        info = iterate(A, slow, None, None, 1e-10, gives_up=after(40))[1]
    assert info.iterations == start and not info.converged
    rough = np.random.default_rng(1).standard_normal((100, 100))
    grid = ms.datasets.grid2d(100, 100, boundary="dirichlet")
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        info = iterate(grid, grid @ rough.ravel(), None, None, 1e-6, gives_up=after(60))[1]
    assert info.iterations > start and info.iterations % start == 0
    for matrix, patience in ((A, np.inf), (easy, 60)):
        info = iterate(matrix, slow, None, None, 1e-10, gives_up=after(patience))[1]
        assert info.converged and info.iterations > start and info.iterations == ms.cg(matrix, slow, rtol=1e-10)[1].iterations
    both = sp.block_diag([easy, A], format="csr")
    with pytest.warns(ms.ConvergenceWarning, match="column 1"):
        info = iterate(both, np.stack([np.r_[slow, 0 * slow], np.r_[0 * slow, slow]], 1), None, None, 1e-10, gives_up=after(60))[1]
    assert (info.iterations == start).all()


def test_stagnation_returns_the_best_iterate():
    rng = np.random.default_rng(0)
    w = 10 ** rng.uniform(-6, 6, N - 1)
    W = sp.coo_array((w, (np.arange(N - 1), np.arange(1, N))), (N, N)).tocsr()
    H = sp.csr_array(sp.diags_array((W + W.T).sum(axis=1) + 1e-6) - W - W.T)
    b = rng.standard_normal(N)
    with pytest.warns(ms.ConvergenceWarning):
        x, info = ms.cg(H, b, M=ms.parac(H), rtol=1e-14)
    assert not info.converged and info.relative_residual < 0.1 and info.iterations < 1000 and "stagnated" in info.reason
    assert info.relative_residual == pytest.approx(np.linalg.norm(H @ x - b) / np.linalg.norm(b), rel=0.2)


@pytest.mark.parametrize("maxiter", [1, 3, 10, 40])
def test_a_failed_iteration_does_not_increase_the_residual(maxiter):
    """The residual rises before it falls if the diagonal spans many decades."""
    with pytest.warns(ms.ConvergenceWarning, match="maxiter reached"):
        x, info = ms.cg(sp.diags_array(10.0 ** np.linspace(0, 8, 60)), np.ones(60), maxiter=maxiter)
    assert info.relative_residual < 1.001 < info.residuals[-1]


def test_rounding_errors_of_a_far_start_are_corrected():
    """The residual of the recurrence has drifted from that of x: the iteration restarts from the true residual."""
    rng = np.random.default_rng(0)
    x, info = ms.cg(A, consistent(), x0=1e6 * rng.standard_normal(N), rtol=1e-13)
    assert info.converged and relative(A, x, consistent()) < 1.1e-13


@pytest.mark.parametrize("size", [1e6, 1e8, 1e12])
def test_a_far_start_is_not_reported_as_divergence(size):
    """Its rounding errors appear when columns seem to have converged: the true residual is far above that of the recurrence."""
    A, rng = ms.datasets.grid2d(30, 25, boundary="dirichlet"), np.random.default_rng(0)
    b = rng.standard_normal(750)
    x, info = ms.cg(A, b, x0=size * rng.standard_normal(750), rtol=1e-12)
    assert info.converged and np.linalg.norm(b - A @ x) <= 1.01e-12 * np.linalg.norm(b)


def test_indefinite_matrices_are_noticed():
    with pytest.warns(ms.ConvergenceWarning, match="not positive definite"):
        x, info = ms.cg(np.diag([1.0, -1.0, 2.0]), np.array([1.0, 2.0, 3.0]))
    assert not info.converged and np.isfinite(x).all()
    with pytest.warns(ms.ConvergenceWarning, match="not positive definite"):
        ms.cg(A, consistent(), M=-sp.eye_array(N))


@pytest.mark.parametrize("change, says", [
    ({"b": np.ones(3)}, r"b must be \(750,\)"), ({"b": np.full(N, np.nan)}, "row 0 holds nan"), ({"x0": np.ones(3)}, "x0 must be"),
    ({"x0": np.ones((N, 1))}, "the shape of b"), ({"x0": np.ones(N) * 1j}, "x0 is complex"), ({"M": np.eye(3)}, "M must be 750 x 750"),
    ({"M": ms.parac(ms.datasets.grid2d(3, 3))}, "M must be 750 x 750"), ({"M": "ilu"}, "M must be a factor, a matrix"), ({"rtol": -1}, "rtol"),
    ({"M": sp.eye_array(N, dtype=complex)}, "M is complex"),
    ({"atol": np.inf}, "atol"), ({"maxiter": 1.5}, "maxiter"), ({"callback": 3}, "callback"), ({"threads": 0}, "threads"),
])
def test_refuses(change, says):
    with pytest.raises(ms.InvalidInputError, match=says):
        ms.cg(**({"A": A, "b": np.ones(N)} | change))


def test_lists_are_accepted():
    x, info = ms.cg([[2.0, 1.0], [1.0, 3.0]], [4.0, 7.0], M=[[0.5, 0.0], [0.0, 0.3]], x0=[1.0, 1.0])
    assert info.converged and np.allclose(x, [1, 2])


def test_the_callers_arrays_are_not_changed():
    b, x0 = consistent(), np.ones(N)
    kept = b.copy(), x0.copy(), L.data.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ms.cg(L, b, M=ms.parac(L), x0=x0)
        ms.cg(L, b + 1, x0=x0)
    assert np.array_equal(b, kept[0]) and np.array_equal(x0, kept[1]) and np.array_equal(L.data, kept[2])


def test_a_solution_beyond_float64_has_not_converged():
    """It is in range in the internal scale of a large b."""
    A, b = np.diag([1e-300, 1.0]), np.array([[1e300, 0.0], [0.0, 1.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        with pytest.warns(ms.ConvergenceWarning, match="leaves the range of float64"):
            x, info = ms.cg(A, b[:, 0])
    assert not info.converged and info.relative_residual == np.inf and np.isinf(x[0])
    with pytest.warns(ms.ConvergenceWarning, match="column 0: the solution leaves"):
        x, info = ms.cg(A, b)
    assert info.reason.tolist() == ["the solution leaves the range of float64", "converged"] and np.isfinite(x[:, 1]).all()


@pytest.mark.parametrize(("size", "start"), [(1e-160, 1.0), (1e-290, 1e10), (1.0, 1e160), (1.0, 1e300), (1e-100, 1e100)])
def test_a_start_far_larger_than_b_is_dropped(size, start):
    """Squares of its residual leave the range of float64, which must not be reported as an indefinite matrix."""
    A, rng = ms.datasets.grid2d(20, 15, boundary="dirichlet"), np.random.default_rng(0)
    b, x0 = rng.standard_normal((300, 2)) * size, rng.standard_normal((300, 2)) * start
    for solve, M in ((ms.cg, None), (ms.cg, ms.cholesky(A)), (ms.sqmr, ms.ildl(A, fill_level=None))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x, info = solve(A, b, M=M, x0=x0)
        assert info.converged and np.linalg.norm((A @ x - b) / size) < 2e-8 * np.linalg.norm(b / size)
