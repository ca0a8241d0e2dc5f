"""Entries of very different sizes: penalties, stiff edges, tiny components and masses, units; ends of intervals. On all paths of eigsh."""

from math import comb

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from cases import each

import meshsolve as ms
from meshsolve.eigen import pairs

METHODS = ("lanczos", "dense", "lobpcg")


@pytest.fixture(autouse=True)
def iterative(monkeypatch):
    """The method of the test, also for small matrices."""
    monkeypatch.setattr(pairs, "SMALL", 0)


def check(result, right, tol=1e-8, is_counted=True):
    """Values are right up to their floors, vectors orthonormal, and the count is that of the values, or none."""
    w, X, info = result
    assert info.converged, info
    assert len(w) == len(right) == X.shape[1]
    assert (abs(w - right) <= tol * abs(right) + 64 * info.floors + 1e-12 * abs(right).max(initial=0)).all(), (w, right, info.floors)
    assert info.count in ((None, len(w)) if not is_counted else (len(w),))


def dense(A, M, rows=None):
    """All eigenvalues by LAPACK, of the given rows."""
    A, M = (np.asarray(B.todense()) if sp.issparse(B) else B for B in (A, M))
    rows = np.arange(len(A)) if rows is None else rows
    return scipy.linalg.eigh(A[np.ix_(rows, rows)], M[np.ix_(rows, rows)], eigvals_only=True)


def square(n):
    """Stiffness and consistent mass of bilinear elements on the unit square, and a mask of its boundary."""
    h, ones = 1 / (n - 1), np.ones(n - 1)
    ends = np.r_[1.0, np.full(n - 2, 2.0), 1.0]
    K = sp.diags_array([-ones, ends, -ones], offsets=[-1, 0, 1]) / h
    M = sp.diags_array([ones / 6, ends / 3, ones / 6], offsets=[-1, 0, 1]) * h
    edge = np.ones((n, n), bool)
    edge[1:-1, 1:-1] = False
    return sp.csr_array(sp.kron(K, M) + sp.kron(M, K)), sp.csr_array(sp.kron(M, M)), edge.ravel()


def penalized(A, rows, penalty):
    return sp.csr_array(A + sp.csr_array((np.broadcast_to(penalty, len(rows)), (rows, rows)), shape=A.shape))


@pytest.mark.filterwarnings("ignore:eigsh")
@each("method", METHODS)
@each("penalty", (1e9, 1e14, 1e30, 1e200))
def test_penalized_rows_leave_the_others(method, penalty):
    A, M, edge = square(16)
    free, rows = np.flatnonzero(~edge), np.flatnonzero(edge)
    for masses in (M, sp.diags_array(M.sum(axis=1), format="csr"), None):
        right = dense(A, sp.eye_array(256) if masses is None else masses, free)
        if method == "lobpcg":
            w, _, info = ms.eigsh(penalized(A, rows, penalty), 4, M=masses, method=method, tol=1e-7, maxiter=100)
            assert not info.converged or np.allclose(w, right[:4], rtol=1e-6)
            continue
        check(ms.eigsh(penalized(A, rows, penalty), 6, M=masses, method=method), right[:6], 1e-7)
        hi = (right[5] + right[6]) / 2
        check(ms.eigsh(penalized(A, rows, penalty), M=masses, interval=(0, hi), method=method), right[:6], 1e-7)


def test_few_factorizations_find_the_shift():
    A, M, edge = square(33)
    for penalty in (1e9, 1e14, 1e20, 1e30):
        info = ms.eigsh(penalized(A, np.flatnonzero(edge), penalty), 4, M=M, count=False).info
        assert info.converged and len(info.shifts) <= 4
    for A in (ms.datasets.grid2d(60, 60), ms.datasets.delaunay(5000)):
        assert len(ms.eigsh(A, 4, count=False).info.shifts) == 1                   # ordinary: one factor


@each("method", ("lanczos", "dense"))
def test_a_stiff_edge_is_said_in_floors(method):
    ball = ms.datasets.icosphere(2)
    L, M = ms.cotan_laplacian(ball), ms.mass_matrix(ball)
    i, j = ball.edges[0]
    glued = np.arange(162)
    glued[j] = i
    G = sp.csr_array((np.ones(162), (np.arange(162), glued)), shape=L.shape)[:, np.delete(np.arange(162), j)]
    right = dense(G.T @ L @ G, G.T @ M @ G)[:9]
    for weight in (1e6, 1e10, 1e12, 1e14):
        E = sp.csr_array(([weight, weight, -weight, -weight], ([i, j, i, j], [i, j, j, i])), shape=L.shape)
        with pytest.warns(ms.ConvergenceWarning, match="rounding errors") if weight > 1e9 else np.errstate():
            w, _, info = ms.eigsh(L + E, 9, M=M, method=method)
        assert info.converged == (weight < 1e9) and (abs(w - right) <= 1e-5 / weight**0.1 + 64 * info.floors).all()
        assert 1e-17 * weight < info.floors.max() < 1e-14 * weight


@each("radius", (1e-3, 1e-5, 1e-8, 1e-10, 1e-30, 1e20))
def test_a_component_of_another_size(radius):
    ball = ms.datasets.icosphere(2)
    mesh = ms.Mesh(np.vstack([ball.vertices, ball.vertices * radius]), np.vstack([ball.faces, ball.faces + 162]))
    L = ms.cotan_laplacian(mesh)
    for kind in ("lumped", "consistent"):
        M, one = ms.mass_matrix(mesh, kind=kind), dense(ms.cotan_laplacian(ball), ms.mass_matrix(ball, kind=kind))
        one[0] = 0
        right = np.sort(np.r_[one, one / radius**2])
        check(ms.eigsh(L, 6, M=M), right[:6])
        check(ms.eigsh(L, 4, M=M, pin=True), right[2:6])
        hi = 2 * right[5]
        check(ms.eigsh(L, M=M, interval=(0, hi)), right[right < hi])


def test_needles_are_said_in_floors():
    """A strip so narrow that rounding errors of its entries are as large as the eigenvalues of its length."""
    x = np.linspace(0, 1, 101)
    i = np.arange(100)
    faces = np.vstack([np.c_[i, i + 1, i + 101], np.c_[i + 1, i + 102, i + 101]])
    for width in (1e-3, 1e-7, 1e-9, 1e-12):
        mesh = ms.Mesh(np.vstack([np.c_[x, 0 * x, 0 * x], np.c_[x, 0 * x + width, 0 * x]]), faces)
        with pytest.warns(ms.ConvergenceWarning) if width < 1e-4 else np.errstate():
            w, _, info = ms.eigsh(ms.cotan_laplacian(mesh), 4, M=ms.mass_matrix(mesh))
        assert info.converged == (width > 1e-4) and (abs(w - (np.pi * np.arange(4))**2) <= 0.1 + 64 * info.floors).all()


@each("mass", (0.0, np.finfo(float).tiny, 1e-250, 1e-150, 1e-30))
@each("share", (0.01, 0.3, 0.7))
def test_rows_without_mass(mass, share):
    A, rng = ms.datasets.grid2d(19, 19), np.random.default_rng(1)
    masses, rows = np.linspace(1, 2, 361), rng.choice(361, int(361 * share), replace=False)
    heavy = np.setdiff1d(np.arange(361), rows)
    masses[rows] = mass
    S = ms.schur_complement(A, heavy).matrix
    right = dense(S, np.diag(masses[heavy]))
    check(ms.eigsh(A, 5, M=sp.diags_array(masses)), right[:5], 1e-7)
    check(ms.eigsh(A, M=sp.diags_array(masses), interval=(0, (right[6] + right[7]) / 2)), right[:7], 1e-7)


@each("n", (5, 60, 320))
def test_singular_masses_that_are_not_diagonal(n):
    rng = np.random.default_rng(n)
    A = sp.csr_array(ms.datasets.grid2d(n, 1) + sp.diags_array(rng.uniform(0.1, 1, n)))
    for rank in (1, n // 3, n - 1):
        B = sp.random_array((n, rank), density=min(1, 4 / rank), rng=rng, format="csr")
        M = (B @ B.T).toarray()
        values, U = np.linalg.eigh(M)
        R = U[:, values > 1e-11 * values[-1]] * np.sqrt(values[values > 1e-11 * values[-1]])
        right = np.sort(1 / np.linalg.eigvalsh(R.T @ np.linalg.solve(A.toarray(), R)))
        k = min(4, len(right))
        check(ms.eigsh(A, k, M=sp.csr_array(M)), right[:k], 1e-6)
        if len(right) < n - 1:
            with pytest.raises(ms.InvalidInputError, match="k must be"):
                ms.eigsh(A, len(right) + 1, M=sp.csr_array(M))


@each("n", (2, 3, 100, 400))
def test_indefinite_masses_are_refused_by_name(n):
    A = ms.datasets.grid2d(n, 1)
    for entry in (1.5, -1.5, 1 + 1e-7):
        M = sp.eye_array(n).tolil()
        M[0, 1] = M[1, 0] = entry
        with pytest.raises(ms.NotPositiveDefiniteError, match="M is not positive definite"):
            ms.eigsh(A, 1, M=M.tocsr())
    with pytest.raises(ms.NotPositiveDefiniteError, match="M is not positive definite.*row 1"):
        ms.eigsh(A, 1, M=sp.diags_array(np.r_[1.0, -1e-9, np.ones(n - 2)]))


@each("n", (7, 20, 60, 330, 500))
@each("below", (1e-5, 0.1, 3.0, 9.0, 1e3))
@each("method", ("auto", "lanczos"))
def test_the_smallest_pairs_of_an_indefinite_matrix(n, below, method):
    A = ms.datasets.grid2d(n, 1)
    right = 4 * np.sin(np.pi * np.arange(n) / (2 * n))**2 - below
    w, X, info = ms.eigsh(sp.csr_array(A - below * sp.eye_array(n)), 4, method=method)
    assert info.converged and info.count in (None, 4) and info.iterations < 80
    assert np.allclose(w, right[:4], rtol=0, atol=1e-9 * max(1, below))
    assert np.allclose(X.T @ X, np.eye(4), atol=1e-9)


def test_more_pairs_than_the_rank_of_a_dominant_mass_matrix():
    M = sp.csr_array([[0.0, 0, 0], [0, 4, -4], [0, -4, 4]])
    A = sp.csr_array(ms.datasets.grid2d(3, 1) + sp.eye_array(3))
    assert np.allclose(ms.eigsh(A, 1, M=M).values, [0.4])
    with pytest.raises(ms.InvalidInputError, match="k must be at most the number of finite eigenvalues.*about 1"):
        ms.eigsh(A, 2, M=M)


@each("unit", (1e-300, 1e-160, 1e-100, 1e100, 1e160, 1e300))
def test_units(unit):
    A, masses = ms.datasets.grid2d(20, 18), np.linspace(1, 2, 360)
    right = dense(A, np.diag(masses))
    for method in ("lanczos", "dense"):
        check(ms.eigsh(A * unit, 5, M=sp.diags_array(masses), method=method), right[:5] * unit)
        check(ms.eigsh(A, 5, M=sp.diags_array(masses * unit), method=method), right[:5] / unit)
        check(ms.eigsh(A * unit, M=sp.diags_array(masses * unit), interval=(0, 0.3), method=method), right[right < 0.3])
        check(ms.eigsh(A * unit, 3, M=sp.diags_array(masses), sigma=-0.1 * unit, method=method), right[:3] * unit)
    with pytest.raises(ms.InvalidInputError, match="beyond the range"):
        ms.eigsh(A * 1e300, 5, M=sp.diags_array(masses * 1e-300))


def hypercube(dimension):
    H = sp.csr_array((1, 1))
    for _ in range(dimension):
        H = sp.csr_array(sp.kron(H, sp.eye_array(2)) + sp.kron(sp.eye_array(H.shape[0]), sp.csr_array([[1.0, -1.0], [-1.0, 1.0]])))
    return H, np.repeat(2.0 * np.arange(dimension + 1), [comb(dimension, j) for j in range(dimension + 1)])


def complete(n):
    return sp.csr_array(n * np.eye(n) - np.ones((n, n))), np.r_[0.0, np.full(n - 1, float(n))]


@each("graph", (hypercube(1), hypercube(3), hypercube(8), complete(7), complete(350)))
def test_ends_that_are_eigenvalues(graph):
    A, right = graph
    ends = np.unique(np.r_[-1, right, right[-1] + 1])
    for lo, hi in zip(ends[:-1], ends[1:], strict=True):
        check(ms.eigsh(A, interval=(lo, hi)), right[(right >= lo) & (right < hi)])
    check(ms.eigsh(A, interval=(0, right[-1])), right[right < right[-1]])
    assert len(ms.eigsh(A, interval=(0, 1e-300)).values) == 1                       # 0 is in it, though hi is 0 to rounding
    if len(right) > 10:
        with pytest.raises(ms.InvalidInputError, match="narrower than the rounding errors"):
            ms.eigsh(A, interval=(right[-1], right[-1] * (1 + 1e-15)))


@pytest.mark.filterwarnings("ignore:eigsh. rounding errors")
@each("weight", (1e6, 1e10, 1e12))
def test_ends_beside_a_stiff_edge(weight):
    A = ms.datasets.grid2d(20, 20)
    stiff = sp.csr_array(([weight, weight, -weight, -weight], ([0, 1, 0, 1], [0, 1, 1, 0])), shape=(400, 400))
    for interval in ((0, 0.3), (-1, 0.3)):
        assert len(ms.eigsh(A + stiff, interval=interval).values) == 13


def test_zeros_of_needles_beside_a_sphere_are_not_called_right():
    """Small eigenvalues of needles are 0 to rounding, and may be larger than those of the sphere: it is said that digits are lost."""
    ball, n, rng = ms.datasets.icosphere(2), 12, np.random.default_rng(1)
    first, across = rng.uniform(3, 4, (n, 3)), np.c_[rng.uniform(0, 1, n), np.full(n, 1e-8), np.zeros(n)]
    corners = np.stack([first, first + [1, 0, 0], first + across], axis=1).reshape(-1, 3)
    mesh = ms.Mesh(np.concatenate([ball.vertices, corners]), np.concatenate([ball.faces, len(ball.vertices) + np.arange(3 * n).reshape(-1, 3)]))
    with pytest.warns(ms.ConvergenceWarning, match="rounding errors in the entries of A"):
        w, _, info = ms.eigsh(ms.cotan_laplacian(mesh), n + 3, M=ms.mass_matrix(mesh))
    assert not info.converged and info.floors.max() > 1 and info.count is None
