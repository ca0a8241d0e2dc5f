"""Zero pivots of the complete factor: compared with exact arithmetic, and reported as undecided within rounding."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import meshsolve as ms

UNDECIDED = "not decided"


def exact_inertia(A):
    """Inertia by elimination in rational numbers."""
    S, rows, signs = [[Fraction(x) for x in row] for row in np.asarray(A).tolist()], list(range(len(A))), [0, 0]
    while rows:
        k = max(rows, key=lambda i: abs(S[i][i]))
        if S[k][k] == 0:
            pair = next(((i, j) for i in rows for j in rows if S[i][j] != 0), None)
            if pair is None:
                break
            i, j = pair                                     # add row and column j to i: a diagonal entry appears
            for c in range(len(S)):
                S[i][c] += S[j][c]
            for c in range(len(S)):
                S[c][i] += S[c][j]
            continue
        rows.remove(k)
        signs[S[k][k] < 0] += 1
        for i in rows:
            f = S[i][k] / S[k][k]
            for c in rows:
                S[i][c] -= f * S[k][c]
    return signs[0], signs[1], len(rows)


def with_eigenvalues(w, rng):
    Q = np.linalg.qr(rng.standard_normal((len(w), len(w))))[0]
    A = Q * w @ Q.T
    return (A + A.T) / 2


def saddle(H, J, C=None):
    return np.block([[H, J.T], [J, np.zeros((len(J),) * 2) if C is None else C]])


def spread(rng, n):
    return with_eigenvalues(np.geomspace(1, 10.0 ** -rng.uniform(4, 17), n) * rng.choice([-1, 1], n), rng)


def one_small(rng, n):
    w = rng.choice([-1.0, 1.0], n)
    w[0] *= 10.0 ** -rng.uniform(4, 17)
    return with_eigenvalues(w, rng)


def late_interior_point(rng, n):
    m = max(2, n // 3)
    return saddle(np.diag(10.0 ** rng.uniform(-8, 8, n)), rng.standard_normal((m, n)), -np.diag(10.0 ** rng.uniform(-12, -4, m)))


def nearly_dependent(rng, n):
    J = rng.standard_normal((3, n))
    J[2] = J[0] + 10.0 ** -rng.uniform(2, 8) * rng.standard_normal(n)
    return saddle(np.diag(10.0 ** rng.uniform(-3, 3, n)), J)


def dependent_integers(rng, n):
    J = rng.integers(-2, 3, (3, n)).astype(float)
    J[2] = J[0] + J[1]
    return saddle(np.diag(rng.integers(1, 9, n).astype(float)), J)


def low_rank_integers(rng, n):
    Q = rng.integers(-3, 4, (n, n - 2)).astype(float)
    return Q * rng.choice([-1.0, 1.0], n - 2) @ Q.T


@pytest.mark.parametrize("make", [spread, one_small, late_interior_point, nearly_dependent, dependent_integers, low_rank_integers])
def test_inertia_is_exact_or_called_undecided(make):
    """Without a warning the signs are right, and zero pivots are below a few rounding errors of the scaled matrix."""
    rng, silent = np.random.default_rng(7), 0
    for _ in range(25):
        A = make(rng, int(rng.integers(5, 9)))
        K = ms.ildl(A, fill_level=None)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            inertia = K.inertia
        assert all(UNDECIDED in str(w.message) for w in said)
        if said:
            continue
        silent += 1
        exact = exact_inertia(A)
        if inertia != exact:
            w = np.linalg.eigvalsh(K.scale[:, None] * A * K.scale)
            assert all(found <= right for found, right in zip(inertia[:2], exact[:2])) and abs(w).min() < 1e-14 * abs(w).max()
    assert silent > 12


def test_a_regular_system_of_condition_6e11():
    """A fixed bound of 1e-11 would set pivots to zero: inertia off by one, determinant 0, an error of 88 % in the solution."""
    A = saddle(np.eye(3), np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 3e-6]]))
    x = np.random.default_rng(0).standard_normal(5)
    K = ms.ildl(A, fill_level=None)
    assert K.inertia == (3, 2, 0) and K.report.facts["zero_pivots"] == K.report.facts["undecided_pivots"] == 0
    sign, size = K.slogdet()
    assert sign == 1 and np.isclose(size, np.log(1.8e-11), atol=1e-3)
    y, info = ms.solve(A, A @ x)
    for solution in (K.solve(A @ x), y, ms.factorized(A).solve(A @ x), ms.lu(A).solve(A @ x)):
        assert np.linalg.norm(solution - x) < 1e-3 * np.linalg.norm(x)
    assert info.converged and not info.singular


@pytest.mark.parametrize("bits, inertia, is_decided", [(30, (2, 0, 0), True), (43, (2, 0, 0), True), (47, (2, 0, 0), False),
                                                       (49, (2, 0, 0), False), (52, (1, 0, 1), True)])
def test_the_threshold_of_zero_pivots(bits, inertia, is_decided):
    """The last pivot of [[1, 1], [1, 1 + 2^-bits]] is 2^(52 - bits) / 3 units of rounding."""
    A = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-bits]])
    K = ms.ildl(A, fill_level=None)
    facts = K.report.facts
    assert facts["undecided_pivots"] == (not is_decided) and facts["zero_pivots"] == inertia[2]
    if is_decided:
        assert K.inertia == inertia
        return
    for call in (lambda: K.inertia, K.slogdet):
        with pytest.warns(ms.MeshsolveWarning, match=UNDECIDED):
            call()
    with pytest.warns(ms.MeshsolveWarning, match="few rounding errors"):
        ms.solve(A, A @ np.ones(2), method="ildl")


def test_errors_that_hide_in_large_pivots():
    """All pivots are 1, but the smallest eigenvalue is about 2^-100. A solve with a known solution shows it."""
    L = np.eye(51) - np.tril(np.ones((51, 51)), -1)
    K = ms.ildl(L @ L.T, fill_level=None, ordering="natural")
    with pytest.warns(ms.MeshsolveWarning, match=UNDECIDED):
        _ = K.inertia


def test_small_pivots_in_single_precision():
    A = np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-12]])
    assert ms.ildl(A, fill_level=None, dtype=np.float32).inertia == (2, 0, 0)
    A[1, 1] = 1 + 2.0**-30
    assert ms.ildl(A, fill_level=None, dtype=np.float32).inertia == (1, 0, 1) and ms.ildl(A, fill_level=None).inertia == (2, 0, 0)


def test_refactor_decides_zero_pivots_independently():
    K = ms.ildl(np.ones((2, 2)), fill_level=None)
    assert K.inertia == (1, 0, 1)
    assert K.refactor(np.array([[1.0, 1.0], [1.0, 1.0 + 1e-12]])).inertia == (2, 0, 0)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_the_same_decisions_on_any_number_of_threads(threads):
    rng = np.random.default_rng(0)
    J = sp.random_array((300, 1000), density=0.005, rng=rng)
    J = sp.vstack([J, sp.random_array((100, 300), density=0.01, rng=rng) @ J])
    A = sp.csr_array(sp.block_array([[sp.diags_array(10 ** rng.uniform(-3, 3, 1000)), J.T], [J, None]]))
    one, many = (ms.ildl(A, fill_level=None, threads=t) for t in (1, threads))
    assert np.array_equal(one.L.data, many.L.data) and np.array_equal(one.D.toarray(), many.D.toarray())
    assert one.report.facts["zero_pivots"] == many.report.facts["zero_pivots"] >= 100


def normalized_laplacian(i, j, n):
    W = sp.csr_array((np.ones(2 * len(i)), (np.r_[i, j], np.r_[j, i])), shape=(n, n))
    root = np.sqrt(W.sum(axis=1))
    return sp.csr_array(sp.eye_array(n) - sp.diags_array(1 / root) @ W @ sp.diags_array(1 / root)), root / np.linalg.norm(root)


@pytest.mark.parametrize("n", [5, 300, 3000])
def test_a_semidefinite_matrix_of_positive_computed_pivots(n):
    """Cholesky solutions have a length of 1e15 and more. L D L^T is used instead, and b is projected onto the range."""
    i = np.arange(n - 1) if n == 5 else np.random.default_rng(0).integers(0, np.arange(1, n))
    N, null = normalized_laplacian(i, np.arange(1, n), n)
    b = np.random.default_rng(1).standard_normal(n)
    outside = abs(null @ b) / np.linalg.norm(b)
    with pytest.warns(ms.errors.ConvergenceWarning, match="outside the range"):
        x, info = ms.solve(N, b)
    assert not info.converged and info.singular and info.method == "ildl" and "least-squares" in info.reason
    assert np.isclose(info.relative_residual, outside, rtol=1e-6)
    assert np.isclose(np.linalg.norm(N @ x - b) / np.linalg.norm(b), outside, rtol=1e-6) and abs(null @ x) < 1e-8 * np.linalg.norm(x)
    B = np.column_stack([b, N @ b])
    with pytest.warns(ms.errors.ConvergenceWarning, match="outside the range"):
        X, info = ms.solve(N, B)
    assert np.linalg.norm(N @ X[:, 1] - B[:, 1]) < 1e-9 * np.linalg.norm(B[:, 1])
    x, info = ms.solve(N, N @ b)
    assert info.converged and info.singular
