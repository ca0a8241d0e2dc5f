"""Eigenpairs against closed forms and dense references: values, multiplicities, counts, orthogonality, in any unit, on both places."""

import warnings

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from on_device import to_numpy

import meshsolve as ms
from meshsolve import device
from meshsolve.eigen import pairs as module
from meshsolve.eigen import search
from meshsolve.eigen.basis import WIDTH, HostBasis
from meshsolve.eigen.lanczos import Lanczos

SPHERE = ms.datasets.icosphere(4)


@pytest.fixture(autouse=True)
def iterative(monkeypatch):
    """No dense method for the small matrices of these tests, unless it is asked for."""
    monkeypatch.setattr(module, "SMALL", 0)


def path_values(n, fixed=False):
    """Eigenvalues of a path of n vertices: free ends, or both neighbors outside fixed."""
    i = np.arange(n)
    return 4 * np.sin(np.pi * (i + 1) / (2 * (n + 1)))**2 if fixed else 4 * np.sin(np.pi * i / (2 * n))**2


def grid_values(nx, ny, fixed=False):
    """Ascending eigenvalues of ``grid2d(nx, ny)``."""
    return np.sort(np.add.outer(path_values(nx, fixed), path_values(ny, fixed)).ravel())


def check(A, M, w, X, tol=1e-8):
    """X is M-orthonormal and its columns are eigenvectors."""
    assert abs(X.T @ (M @ X) - np.eye(len(w))).max(initial=0) < tol
    assert abs(A @ X - (M @ X) * w).max(initial=0) < tol * max(abs(A).max(), 1)
    assert (np.diff(w) >= 0).all()


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("shape", [(30, 20), (24, 24), (500, 1)])
def test_grids_have_their_closed_form(shape, fixed):
    """The square grid has double eigenvalues, the path a wide range."""
    A = ms.datasets.grid2d(*shape, boundary="dirichlet" if fixed else "neumann")
    if shape[1] == 1 and fixed:
        right = path_values(500, True) + 2                   # the two other neighbors of each vertex are fixed as well
    else:
        right = grid_values(*shape, fixed)
    w, X, info = ms.eigsh(A, 20)
    assert info.converged and info.method == "lanczos" and np.allclose(w, right[:20], atol=1e-10)
    check(A, sp.eye_array(A.shape[0]), w, X)


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e6])
def test_a_sphere_in_any_unit(unit):
    mesh = ms.Mesh(SPHERE.vertices * unit, SPHERE.faces)
    w, X, info = ms.eigsh(ms.cotan_laplacian(mesh), 16, M=ms.mass_matrix(mesh))
    right = np.repeat([0, 2, 6, 12], [1, 3, 5, 7]) / unit**2
    assert info.converged and np.allclose(w, right, rtol=5e-3, atol=1e-9 / unit**2)
    assert (X.max(axis=0) > (1 - 1e-7) * abs(X).max(axis=0)).all()            # the first of equal entries is positive


def test_consistent_masses():
    sphere = ms.datasets.icosphere(3)
    L, M = ms.cotan_laplacian(sphere), ms.mass_matrix(sphere, kind="consistent")
    w, X, info = ms.eigsh(L, 12, M=M)
    assert info.converged and np.allclose(w, scipy.linalg.eigh(L.toarray(), M.toarray(), subset_by_index=[0, 11])[0], atol=1e-9)
    check(L, M, w, X)


def copies(count):
    return sp.csr_array(sp.block_diag([ms.datasets.grid2d(6, 5)] * count))


@pytest.mark.parametrize("k", [25, 31])
def test_no_copy_of_a_multiple_eigenvalue_is_missing(k):
    """30 components: 0 has 30 copies, more than a block has columns; k = 25 cuts the cluster, k = 31 cuts the next one."""
    w, X, info = ms.eigsh(copies(30), k)
    assert info.converged and np.allclose(w, np.repeat(grid_values(6, 5)[:2], 30)[:k], atol=1e-10)
    assert info.count == (None if k == 25 else k)              # below the first value no count proves anything
    check(copies(30), sp.eye_array(900), w, X)


def test_copies_that_are_missed_are_found_by_the_count(monkeypatch):
    """The start lies in one component: without the count all others stay unseen."""
    A, n = copies(3), 90

    def start(self, rng):
        block = rng.standard_normal((self.n, WIDTH))
        block[n // 3:] = 0
        return block

    random, calls = HostBasis.random, []

    def first_start_only(self, rng):
        calls.append(1)
        return start(self, rng) if len(calls) <= 2 else random(self, rng)       # the trial for the shift and the first block

    monkeypatch.setattr(HostBasis, "random", first_start_only)
    w, X, info = ms.eigsh(A, 5)
    assert info.converged and np.allclose(w[:3], 0, atol=1e-12) and info.iterations > 5 and len(calls) > 2


def soup(triangles, height, seed):
    """Separate triangles, every fiftieth a needle of that relative height: as many zero eigenvalues, hidden by rounding errors of others."""
    corners = np.random.default_rng(seed).standard_normal((triangles, 3, 3))
    corners[::50, 2] = (corners[::50, 0] + corners[::50, 1]) / 2 + height * corners[::50, 2]
    return ms.Mesh(corners.reshape(-1, 3), np.arange(3 * triangles).reshape(-1, 3))


@pytest.mark.parametrize("seed", [1, 2])
def test_copies_that_differ_by_rounding_errors_of_needles(seed):
    mesh = soup(2000, 3e-3, seed)
    w, _, info = ms.eigsh(ms.operators.cotan_laplacian(mesh), 6, M=ms.operators.mass_matrix(mesh))
    assert info.converged and abs(w).max() < 1e-8 and info.iterations < 40


def test_a_number_that_is_not_decided_is_no_error(monkeypatch):
    def undecided(self, sigma, step, first=0.0, most=np.inf):
        raise ms.InvalidInputError("not decided")

    monkeypatch.setattr(module.Pencil, "below", undecided)
    with pytest.warns(ms.ConvergenceWarning, match="not decided"):
        info = ms.eigsh(ms.datasets.grid2d(20, 20), 6).info
    assert not info.converged and info.count is None and "not decided" in info.reason


def test_needles_do_not_hide_the_zeros_of_many_components():
    mesh = soup(500, 1e-3, 0)
    w, _, info = ms.eigsh(ms.operators.cotan_laplacian(mesh), 6, M=ms.operators.mass_matrix(mesh))
    assert info.converged and info.count is None and (abs(w) <= 64 * info.floors).all() and info.floors.max() < 1e-6


@pytest.mark.parametrize("size", [4, 96])
def test_an_interval_has_all_pairs(size, monkeypatch):
    """In one slice and in many."""
    monkeypatch.setattr(search, "SLICE", size)
    A = ms.datasets.grid2d(24, 24)
    lo, hi = 0.3, 1.1
    right = grid_values(24, 24)
    right = right[(right >= lo) & (right < hi)]
    w, X, info = ms.eigsh(A, interval=(lo, hi))
    assert info.converged and info.count == len(w) == len(right) and np.allclose(w, right, atol=1e-10)
    check(A, sp.eye_array(576), w, X)


def test_an_interval_of_an_indefinite_matrix():
    A = ms.datasets.grid2d(20, 17) - 2.01 * sp.eye_array(340)
    right = grid_values(20, 17) - 2.01
    w, X, info = ms.eigsh(A, interval=(-0.5, 0.25))
    assert info.converged and np.allclose(w, right[(right >= -0.5) & (right < 0.25)], atol=1e-10)
    assert len(ms.eigsh(A, interval=(-20, -10)).values) == 0
    with pytest.raises(ms.NotPositiveDefiniteError, match="interval"):
        ms.eigsh(A, 3, sigma=-1.0)
    assert np.allclose(ms.eigsh(A, 3, sigma=-2.5).values, right[:3], atol=1e-10)


def test_an_end_on_an_eigenvalue_belongs_to_the_interval_above_it():
    """0 is an eigenvalue: [0, hi) has it, and [lo, 0) has not."""
    A = ms.datasets.grid2d(20, 17)
    right = grid_values(20, 17)
    w, _, info = ms.eigsh(A, interval=(0, 0.2))
    assert np.allclose(w, right[right < 0.2], atol=1e-10) and info.shifts[0] < 0 and info.count == len(w)
    assert len(ms.eigsh(A, interval=(-1, 0)).values) == 0


def test_rows_that_take_no_part():
    """A vertex without faces, fixed rows, a row without mass."""
    mesh = ms.Mesh(np.vstack([SPHERE.vertices, [[9, 9, 9]]]), SPHERE.faces)
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    w, X, info = ms.eigsh(L, 9, M=M)
    assert info.converged and (X[-1] == 0).all() and np.allclose(w, np.repeat([0, 2, 6], [1, 3, 5]), rtol=5e-3, atol=1e-9)
    A = ms.datasets.grid2d(21, 21)
    ring = np.flatnonzero(np.pad(np.zeros((19, 19)), 1, constant_values=1))
    w, X, _ = ms.eigsh(A, 8, fixed=ring)
    assert np.allclose(w, grid_values(19, 19, True)[:8], atol=1e-10) and (X[ring] == 0).all()
    masses = np.ones(441)
    masses[200] = 0
    w, X, _ = ms.eigsh(A, 6, M=sp.diags_array(masses))
    S = ms.schur_complement(A, np.delete(np.arange(441), 200)).matrix
    assert np.allclose(w, np.linalg.eigvalsh(S)[:6], atol=1e-10) and abs(A @ X - masses[:, None] * X * w).max() < 1e-10


def test_pin_leaves_constants_out():
    w, X, info = ms.eigsh(copies(3), 5, pin=True)
    assert info.converged and np.allclose(w, np.repeat(grid_values(6, 5)[1:3], 3)[:5], atol=1e-10)
    with pytest.raises(ms.NotLaplacianError):
        ms.eigsh(copies(3) + sp.eye_array(90), 5, pin=True)


def test_the_same_bits_on_any_number_of_threads():
    L, M = ms.cotan_laplacian(SPHERE), ms.mass_matrix(SPHERE)
    one, two = (ms.eigsh(L, 10, M=M, threads=t) for t in (1, 2))
    assert np.array_equal(one.values, two.values) and np.array_equal(one.vectors, two.vectors)
    other = ms.eigsh(L, 10, M=M, seed=1)
    assert np.allclose(one.values, other.values, atol=1e-9)


@pytest.mark.parametrize("k", [3, 400])
def test_dense_and_iterative_agree(k):
    A = ms.datasets.grid2d(30, 20)
    w, X, info = ms.eigsh(A, k, method="dense")
    assert info.method == "dense" and info.converged and np.allclose(w, grid_values(30, 20)[:k], atol=1e-10)
    assert ms.eigsh(A, 400).info.method == "dense"
    check(A, sp.eye_array(600), w, X)


def test_without_memory_for_a_factor(monkeypatch):
    """LOBPCG takes over, and says so."""
    def refuse(self, sigma):
        raise ms.OutOfMemoryError("the factor takes 1000 GiB")

    monkeypatch.setattr(module.Pencil, "definite_factor", refuse)
    A = ms.datasets.grid2d(30, 20)
    w, _, info = ms.eigsh(A, 4, tol=1e-7)
    assert info.method == "lobpcg" and info.converged and info.count is None and np.allclose(w, grid_values(30, 20)[:4], atol=1e-6)
    with pytest.raises(ms.OutOfMemoryError):
        ms.eigsh(A, 4, method="lanczos")


@pytest.mark.parametrize("pin", [False, True])
def test_lobpcg_knows_the_null_space(pin):
    """Constants of components that are singular: two, and with pin all three. LOBPCG stagnates with them in its basis."""
    parts = [ms.datasets.grid2d(20, 15), ms.datasets.grid2d(25, 20), ms.datasets.grid2d(30, 15)]
    for part in parts[:3 if pin else 2]:
        part.setdiag(part.diagonal() - part.sum(axis=1))
    A, M = sp.csr_array(sp.block_diag(parts)), sp.diags_array(np.linspace(1, 2, 1250), format="csr")
    reference = scipy.linalg.eigh(A.toarray(), M.toarray(), eigvals_only=True)[3 if pin else 0:]
    for k in (1, 2, 6):
        w, X, info = ms.eigsh(A, k, M, method="lobpcg", pin=pin, maxiter=400)
        assert info.converged and np.allclose(w, reference[:k], rtol=1e-8, atol=1e-9)
        assert np.allclose(X.T @ (M @ X), np.eye(k), atol=1e-10)


def test_too_few_blocks_are_reported():
    A = ms.datasets.grid2d(60, 50)
    with pytest.warns(ms.ConvergenceWarning, match="raise maxiter"):
        w, X, info = ms.eigsh(A, 40, maxiter=8)
    assert not info.converged and info.residuals.shape == w.shape == X.shape[1:] and 0 < len(w) <= 16 and "residuals" in info.reason


@pytest.mark.parametrize(("options", "message"), [
    ({"k": 0}, "^k "), ({"k": 600}, "k must be less"), ({"k": 2.5}, "^k "), ({"interval": (1, 1)}, "lo < hi"), ({"interval": (2, 1)}, "lo < hi"),
    ({"interval": (0, np.inf)}, "finite"), ({"interval": 3}, "two numbers"), ({"M": sp.eye_array(5)}, "M must have as many rows"),
    ({"M": -sp.eye_array(600)}, "M must be positive definite"), ({"sigma": np.nan}, "sigma"), ({"tol": 0}, "tol"), ({"method": "arpack"}, "method"),
    ({"fixed": [0], "pin": True}, "pin"), ({"fixed": [600]}, "fixed"), ({"fixed": np.ones(600, bool)}, "not fixed")])
def test_bad_input(options, message):
    with pytest.raises(ms.MeshsolveError, match=message):
        ms.eigsh(ms.datasets.grid2d(30, 20), **{"k": 3} | options)


def test_bad_matrices():
    A = ms.datasets.grid2d(30, 20).tolil()
    A[3, 5] = 1
    with pytest.raises(ms.NotSymmetricError):
        ms.eigsh(sp.csr_array(A), 3)
    A[3, 5] = A[5, 3] = np.nan
    with pytest.raises(ms.InvalidInputError):
        ms.eigsh(sp.csr_array(A), 3)
    with pytest.raises(ms.NotPositiveDefiniteError):
        ms.eigsh(ms.datasets.grid2d(30, 20), 3, M=sp.csr_array(ms.datasets.grid2d(30, 20) - 9 * sp.eye_array(600)))


def test_an_exhausted_space_is_not_left(monkeypatch):
    """A matrix with three distinct eigenvalues: the Krylov space is full after three blocks, random columns go on."""
    A = sp.csr_array(sp.diags_array(np.repeat([1.0, 2.0, 5.0], [10, 400, 200])))
    w, X, info = ms.eigsh(A, 14)
    assert info.converged and np.array_equal(w.round(9), np.repeat([1.0, 2.0], [10, 4]))
    check(A, sp.eye_array(610), w, X)


def test_blocks_stay_orthonormal_when_columns_depend():
    basis = HostBasis(200, 6, 1)
    iteration = Lanczos(lambda block, out: block @ np.ones((WIDTH, WIDTH)), None, basis, 5, 0)
    for _ in range(5):
        iteration.step()
    iteration.ritz()
    Q = basis.combine(np.eye(6 * WIDTH), np.ones(200))
    assert abs(Q.T @ Q - np.eye(48)).max() < 1e-13


def test_pinned_constants_are_left_out_of_pairs_counts_and_intervals():
    L = sp.csr_array(sp.block_diag([ms.datasets.grid2d(20, 19)] * 2))
    every = np.linalg.eigvalsh(L.toarray())
    w, X, info = ms.eigsh(L, 6, pin=True)
    assert np.allclose(w, every[2:8], atol=1e-9) and info.count in (4, 6, 8) and info.converged
    for lo, hi in ((0.05, 0.3), (-1, 0.3)):
        inside = every[2:][(every[2:] >= lo) & (every[2:] < hi)]
        w, X, info = ms.eigsh(L, interval=(lo, hi), pin=True)
        assert np.allclose(w, inside, atol=1e-9) and info.count == len(inside)


@pytest.mark.parametrize("n", [5, 400])
def test_a_matrix_of_zeros(n):
    A, M = sp.csr_array((n, n)), sp.csr_array(sp.diags_array(np.append(0, np.arange(1.0, n))))
    w, X, info = ms.eigsh(A, 3, M=M)
    assert info.converged and (w == 0).all() and (info.residuals == 0).all() and np.allclose(X.T @ (M @ X), np.eye(3))
    assert len(ms.eigsh(A, interval=(-1, 1)).values) == n and len(ms.eigsh(A, interval=(1, 2)).values) == 0


def test_on_the_gpu(gpu):
    mesh = ms.datasets.icosphere(3)                          # three blocks of a kernel
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    w, X, info = ms.eigsh(L, 4, M=M, device="cuda")
    assert info.converged and info.count == 4 and device.holds(X)
    X = to_numpy(X)
    assert np.allclose(w, ms.eigsh(L, 4, M=M).values, atol=1e-9)
    check(L, M, w, X)
    w, X, info = ms.eigsh(L, M=M, interval=(1, 7), device="cuda")
    assert info.converged and info.count == len(w) == 8


def test_nothing_is_warned_about_where_nothing_is_wrong():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ms.eigsh(ms.cotan_laplacian(SPHERE), 5, M=ms.mass_matrix(SPHERE))


def test_a_shift_amid_the_wanted_eigenvalues():
    """Of 40 pairs: fewer blocks than from a shift below all, the same values, the count still right, vectors orthonormal to rounding."""
    A = ms.datasets.grid2d(60, 50)
    right = grid_values(60, 50)[:40]
    w, X, info = ms.eigsh(A, 40)
    below = ms.eigsh(A, 40, count=False)
    assert right[10] < info.shifts[1] < right[39] and info.iterations < below.info.iterations and len(below.info.shifts) == 1
    assert info.converged and info.count == 40 and np.allclose(w, right, atol=1e-12) and np.allclose(below.values, right, atol=1e-12)
    assert abs(X.T @ X - np.eye(40)).max() < 1e-13
    two = ms.eigsh(A, 40, threads=2)
    assert np.array_equal(ms.eigsh(A, 40, threads=1).vectors, two.vectors)


def test_without_a_gap_the_shift_stays_below():
    """All eigenvalues but one are equal: no shift lies amid the 30 smallest."""
    A = sp.csr_array(sp.diags_array(np.append(np.full(499, 2.0), 3.0)))
    w, X, info = ms.eigsh(A, 30)
    assert info.converged and np.allclose(w, 2, atol=1e-12) and info.iterations < 20
    check(A, sp.eye_array(500), w, X)


def test_rows_without_mass_amid():
    """Of 30 pairs; the rows without mass of the vectors come from one more solve."""
    A, masses = ms.datasets.grid2d(21, 21), np.ones(441)
    masses[[40, 200]] = 0
    w, X, info = ms.eigsh(A, 30, M=sp.diags_array(masses))
    S = ms.schur_complement(A, np.flatnonzero(masses)).matrix
    assert 0 < info.shifts[2] < w[-1] and np.allclose(w, np.linalg.eigvalsh(S)[:30], atol=1e-10)
    check(A, sp.diags_array(masses), w, X)


def test_few_pairs_do_not_stall():
    """The basis holds many more columns than there are wanted pairs, and the blocks that judge the shift count."""
    for A in (ms.datasets.grid2d(40, 40), ms.datasets.delaunay(1500), ms.datasets.road_like(1500)):
        for k in (1, 2, 3):
            w, _, info = ms.eigsh(A, k)
            assert info.converged and info.iterations <= 12 and np.allclose(w, ms.eigsh(A, 8).values[:k], atol=1e-10)


def test_a_basis_stays_orthonormal_in_an_exhausted_space():
    """The operator is the identity: each block is rounding noise once the first has been projected out."""
    basis = HostBasis(400, 16, 1)
    iteration = Lanczos(lambda block, out: 1.0 * block, None, basis, 15, 0)
    for _ in range(15):
        iteration.step()
    ritz, Q = iteration.ritz(), basis.combine(np.eye(16 * WIDTH), np.ones(400))
    assert abs(Q.T @ Q - np.eye(128)).max() < 1e-13 and abs(ritz.theta - 1).max() < 1e-13


@pytest.mark.parametrize("is_weighed", [False, True])
@pytest.mark.parametrize("largest", [4.0, 1e4, 1e9])
def test_two_blocks_become_orthogonal_to_the_basis_together(largest, is_weighed):
    """The first eigenvalue makes blocks lose orthogonality; if it is far above the others, from some step on each is treated alone."""
    n, steps = 600, 11
    values, masses = np.append(largest, np.linspace(1, 2, n - 1)), np.linspace(1, 3, n) if is_weighed else np.ones(n)
    basis = HostBasis(n, steps + 1, 1)
    iteration = Lanczos(lambda block, out: values[:, None] * block, (lambda block: masses[:, None] * block) if is_weighed else None, basis,
                        steps, 0)
    for _ in range(steps):
        iteration.step()
    ritz, Q = iteration.ritz(), basis.combine(np.eye((steps + 1) * WIDTH), np.ones(n))
    T = iteration.T[:iteration.dim, :iteration.dim]
    assert iteration.blocks == steps and iteration.is_delayed == (largest < 1e9) and iteration.solves == steps + (largest == 1e9)
    assert abs(Q.T @ (masses[:, None] * Q) - np.eye(Q.shape[1])).max() < 1e-13
    assert abs(Q[:, :len(T)].T @ ((masses * values)[:, None] * Q[:, :len(T)]) - T).max() < 1e-13 * largest
    assert abs(ritz.theta[0] - largest) < 1e-13 * largest


@pytest.mark.parametrize("n", [3, 63, 64, 1025])
def test_products_with_a_basis(n):
    """Ranges of rows of any length, one and two blocks, one and two threads."""
    rng = np.random.default_rng(0)
    basis, two = HostBasis(n, 5, 1), HostBasis(n, 5, 2)
    basis.blocks[:] = two.blocks[:] = rng.standard_normal(basis.blocks.shape)
    Q = basis.combine(np.eye(40), np.ones(n))
    scale, Y = rng.random(n) + 1, rng.standard_normal((40, 13))
    assert np.array_equal(Q, basis.blocks.transpose(1, 0, 2).reshape(n, 40))
    assert np.allclose(basis.combine(Y, scale), scale[:, None] * (Q @ Y), atol=1e-13)
    for count in (1, 2):
        Z = rng.standard_normal((count, n, WIDTH))
        wide = Z.transpose(1, 0, 2).reshape(n, -1).copy()
        H = basis.project(Z, 1, 4)
        assert np.allclose(H, Q[:, 8:32].T @ wide, atol=1e-12 * n) and np.array_equal(H, two.project(Z, 1, 4))
        basis.subtract(H, Z, 1, 4)
        assert np.allclose(Z.transpose(1, 0, 2).reshape(n, -1), wide - Q[:, 8:32] @ H, atol=1e-11 * n)
    basis.rotate(np.eye(24)[:, 8:], 2)
    assert np.array_equal(basis.blocks[[0, 1, 2, 3, 4]], two.blocks[[0, 1, 3, 4, 4]])


@pytest.mark.parametrize("unit", [1e-65, 1e50])
def test_residuals_and_signs_in_extreme_units(unit):
    """The squares of the entries of A x - w x underflow, or are large."""
    A = ms.datasets.grid2d(20, 17)
    one, other = ms.eigsh(A, 11), ms.eigsh(A * unit**2, 11)
    assert np.allclose(other.values / unit**2, one.values, atol=1e-10) and other.info.converged and other.info.residuals.max() < 1e-9
    assert np.allclose(abs(other.vectors[:, :2]), abs(one.vectors[:, :2]), atol=1e-6) and (other.vectors.max(axis=0) > 0).all()


def test_zeros_of_many_components_and_the_next_eigenvalues():
    """Blocks converge at different times: each returned residual is below the tolerance, not only the estimates of the search."""
    ball = ms.datasets.icosphere(2)
    n = len(ball.vertices)
    mesh = ms.Mesh(np.vstack([ball.vertices + [3 * i, 0, 0] for i in range(40)]), np.vstack([ball.faces + i * n for i in range(40)]))
    w, X, info = ms.eigsh(ms.cotan_laplacian(mesh), 45, M=ms.mass_matrix(mesh))
    assert info.converged and info.residuals.max() <= 1e-9 and abs(w[:40]).max() < 1e-8 and w[40:].min() > 1
