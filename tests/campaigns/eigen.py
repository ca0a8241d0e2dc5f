"""Attacks on eigsh: penalties, stiff edges, tiny components, rows without mass, units, intervals whose ends are eigenvalues."""

from math import comb

import numpy as np
import scipy.linalg
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed

EPS = np.finfo(float).eps
ZERO = 64               # floors up to which a value is 0


def agree(result, right, unit=1.0, tol=1e-7):
    """If a result is called converged, its values are right up to their floors, the vectors orthonormal, and a count is that of the values."""
    w, _, info = result
    if not info.converged:
        return
    assert len(w) == len(right), f"{len(w)} values for {len(right)}, count {info.count}, {info.method}"
    assert info.count in (None, len(w)), f"count {info.count} of {len(w)} values"
    assert (np.diff(w) >= 0).all()
    allowed = tol * abs(right) + ZERO * info.floors + 1e-9 * unit
    off = np.flatnonzero(abs(w - right) > allowed)
    assert len(off) == 0, f"{info.method}: {w[off[:3]]} for {right[off[:3]]}, floors {info.floors[off[:3]]}"


def random_grid(rng, largest=26):
    """(A, eigenvalues are not known) the Laplacian of a grid with random weights and a little on its diagonal, and masses."""
    a, b = int(rng.integers(1, largest)), int(rng.integers(2, largest))
    L = ms.datasets.grid2d(a, b)
    n = L.shape[0]
    d = 2.0 ** rng.integers(-1, 2, n)
    return sp.csr_array(L + sp.diags_array(rng.integers(0, 2) * rng.random(n))), d


def finite(A, M):
    """Finite eigenvalues of a small dense pencil by static condensation of the null space of M."""
    s = 1 / np.sqrt(np.where(np.diag(M) > 0, np.diag(M), 1))
    A, M = s[:, None] * A * s, s[:, None] * M * s
    values, U = scipy.linalg.eigh(M)
    kept = values > 1e-11 * values[-1]
    N, R = U[:, ~kept], U[:, kept] / np.sqrt(values[kept])
    S = R.T @ A @ R
    if N.shape[1]:
        S -= R.T @ A @ N @ np.linalg.solve(N.T @ A @ N, N.T @ A @ R)
    return scipy.linalg.eigh((S + S.T) / 2, eigvals_only=True)


@attack("eigsh", quick=30)
def penalties(rng):
    """Penalized rows from 1e6 to 1e300, one size or all sizes, lumped or consistent masses; the k smallest or an interval. Oracle: rows removed."""
    A, d = random_grid(rng)
    n = A.shape[0]
    M = sp.diags_array(d)
    if rng.random() < 0.3:
        M = sp.csr_array(M + 0.1 * abs(ms.datasets.grid2d(n, 1)))
    rows = rng.choice(n, int(rng.integers(1, max(2, n // 3))), replace=False)
    free = np.setdiff1d(np.arange(n), rows)
    if len(free) < 2:
        return
    penalty = 10.0 ** (rng.uniform(9, 300) if rng.random() < 0.5 else rng.uniform(9, 30, len(rows)))
    P = sp.csr_array(A + sp.csr_array((np.broadcast_to(penalty, len(rows)), (rows, rows)), shape=A.shape))
    right = scipy.linalg.eigh(A.toarray()[np.ix_(free, free)], M.toarray()[np.ix_(free, free)], eigvals_only=True)
    k = int(rng.integers(1, min(len(free), 12)))
    tol = 1e-7 + 1e3 / np.min(penalty)
    with well_posed(f"{len(rows)} of {n} rows penalized"):
        if rng.random() < 0.5:
            result = ms.eigsh(axes.layout(rng, P), k, M=M)
        else:
            result = ms.eigsh(P, M=M, interval=(-1, (right[k - 1] + right[k]) / 2))
            k = int((right < (right[k - 1] + right[k]) / 2).sum())
    assert result.info.converged, f"{result.info}"
    agree(result, right[:k], tol=tol)


@attack("eigsh", quick=20)
def stiff_edges(rng):
    """A few edges of 1e3 to 1e16 in a graph Laplacian. Oracle: the ends of each edge glued, where that is accurate; else the floors."""
    A, d = random_grid(rng, 18)
    n = A.shape[0]
    if n < 6:
        return
    pairs = rng.choice(n, (int(rng.integers(1, max(2, n // 8))), 2), replace=False)
    weight = 10.0 ** rng.uniform(3, 16)
    i, j = pairs.T
    E = sp.coo_array((np.tile([weight, weight, -weight, -weight], (len(i), 1)).T.ravel(), (np.r_[i, j, i, j], np.r_[i, j, j, i])), shape=A.shape)
    to = np.arange(n)
    to[j] = i
    G = sp.csr_array((np.ones(n), (np.arange(n), to)), shape=A.shape)[:, np.setdiff1d(np.arange(n), j)]
    right = scipy.linalg.eigh((G.T @ A @ G).toarray(), (G.T @ sp.diags_array(d) @ G).toarray(), eigvals_only=True)
    k = int(rng.integers(1, min(8, len(right))))
    with well_posed("a positive semidefinite matrix"):
        result = ms.eigsh(sp.csr_array(A + E), k, M=sp.diags_array(d))
    agree(result, right[:k], tol=1e-6 + 1e3 / weight)


@attack("eigsh", quick=16)
def components_of_other_sizes(rng):
    """Copies of a sphere scaled by 1e-30 to 1e30 each; pin, intervals. Oracle: the eigenvalues of one, scaled."""
    ball = ms.datasets.icosphere(int(rng.integers(1, 3)))
    scale = 10.0 ** (rng.uniform(-30, 30, 3) * (rng.random(3) < 0.6))[:int(rng.integers(1, 4))]
    n = len(ball.vertices)
    mesh = ms.Mesh(np.vstack([ball.vertices * s for s in scale]), np.vstack([ball.faces + i * n for i in range(len(scale))]))
    kind = str(rng.choice(["lumped", "consistent"]))
    one = scipy.linalg.eigh(ms.cotan_laplacian(ball).toarray(), ms.mass_matrix(ball, kind=kind).toarray(), eigvals_only=True)
    one[0] = 0
    right = np.sort(np.concatenate([one / s**2 for s in scale]))
    L, M, k = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh, kind=kind), int(rng.integers(1, 9))
    pin = bool(rng.random() < 0.3)
    right = right[len(scale) if pin else 0:]
    with well_posed(f"spheres of radii {scale}"):
        result = ms.eigsh(L, k, M=M, pin=pin)
    assert result.info.converged, f"{result.info}"
    agree(result, right[:k], unit=right[-1] * 0, tol=1e-6)


@attack("eigsh", quick=30)
def massless_rows(rng):
    """Rows without mass, with the smallest normal number, with 1e-200: all but two rows at most. Oracle: static condensation."""
    A, d = random_grid(rng, 20)
    n = A.shape[0]
    if n < 4:
        return
    rows = rng.choice(n, int(rng.integers(1, n - 2)), replace=False)
    d[rows] = 0
    right = finite(A.toarray(), np.diag(d))
    d[rows] = float(rng.choice([0, np.finfo(float).tiny, 1e-250, 1e-200, 1e-150]))
    k = int(rng.integers(1, len(right) + 1))
    with well_posed(f"{len(rows)} of {n} rows without mass"):
        result = ms.eigsh(A, k, M=sp.diags_array(d))
    assert result.info.converged, f"{result.info}"
    agree(result, right[:k], tol=1e-6)


@attack("eigsh", quick=20)
def singular_masses(rng):
    """M = B B^T of any rank, A positive definite; also more pairs than exist. Oracle: dense LAPACK on the range of M."""
    n = int(rng.integers(2, 90))
    r = int(rng.integers(1, n + 1))
    B = np.where(rng.random((n, r)) < 3 / max(r, 3), rng.integers(-2, 3, (n, r)), 0.0)
    M = B @ B.T
    if not M.any():
        return
    A = ms.datasets.grid2d(n, 1) + sp.diags_array(rng.uniform(0.1, 1, n))
    right = finite(A.toarray(), M)
    k = int(rng.integers(1, len(right) + 2))
    result = ms.eigsh(sp.csr_array(A), k, M=sp.csr_array(M))
    assert k <= len(right), f"{k} pairs of {len(right)}"
    agree(result, right[:k], tol=1e-5)


@attack("eigsh", quick=20)
def indefinite_masses(rng):
    """M with one negative eigenvalue, large or small, on or off the diagonal, at any size. Right: NotPositiveDefiniteError for M."""
    n = int(rng.choice([2, 3, 30, 301, 500]))
    d, i = 10.0 ** rng.uniform(-6, 6, n), int(rng.integers(n - 1))
    M = sp.diags_array(d).tolil()
    if rng.random() < 0.3:
        M[i, i] = -d[i]
    else:
        M[i, i + 1] = M[i + 1, i] = rng.choice([-1, 1]) * np.sqrt(d[i] * d[i + 1]) * (1 + 10.0 ** rng.uniform(-8, 3))
    try:
        ms.eigsh(ms.datasets.grid2d(n, 1), 1, M=M.tocsr())
    except ms.NotPositiveDefiniteError as e:
        assert "M is not positive definite" in str(e), str(e)
        return
    raise AssertionError(f"an indefinite M with {n} rows was accepted")


@attack("eigsh", quick=30)
def units(rng):
    """A and M in units of 1e-300 to 1e300; k, interval, sigma. Oracle: values are proportional."""
    A, d = random_grid(rng, 22)
    right = scipy.linalg.eigh(A.toarray(), np.diag(d), eigvals_only=True)
    a, m = axes.unit(rng), axes.unit(rng)
    if not 1e-290 < a / m < 1e290 or len(right) < 3:
        return
    k, unit = int(rng.integers(1, min(len(right), 9))), a / m
    hi = (right[k - 1] + right[k]) / 2
    how = rng.integers(3)
    with well_posed(f"units {a:.0e} and {m:.0e}"):
        if how == 0:
            result = ms.eigsh(A * a, k, M=sp.diags_array(d * m))
        elif how == 1:
            result = ms.eigsh(A * a, k, M=sp.diags_array(d * m), sigma=-0.5 * unit)
        else:
            k = int((right < hi).sum())
            result = ms.eigsh(A * a, M=sp.diags_array(d * m), interval=(-unit, hi * unit))
    assert result.info.converged, f"{result.info}"
    agree(result, right[:k] * unit, unit)


@attack("eigsh", quick=30)
def interval_ends(rng):
    """Intervals of hypercubes, complete graphs and paths whose ends are eigenvalues, of any multiplicity. Oracle: closed forms, by brute force."""
    how, n = rng.integers(3), int(rng.integers(2, 9))
    if how == 0:
        A = sp.csr_array((1, 1))
        for _ in range(n):
            A = sp.csr_array(sp.kron(A, sp.eye_array(2)) + sp.kron(sp.eye_array(A.shape[0]), sp.csr_array([[1.0, -1.0], [-1.0, 1.0]])))
        right = np.repeat(2.0 * np.arange(n + 1), [comb(n, j) for j in range(n + 1)])
    elif how == 1:
        n = int(rng.integers(2, 60)) * (10 if rng.random() < 0.2 else 1)
        A, right = sp.csr_array(n * np.eye(n) - np.ones((n, n))), np.r_[0.0, np.full(n - 1, float(n))]
    else:
        n = int(rng.integers(2, 600))
        A, right = ms.datasets.grid2d(n, 1), 4 * np.sin(np.pi * np.arange(n) / (2 * n))**2
    lo, hi = np.sort(rng.choice(np.unique(np.r_[right, -1.0, right[-1] + 1]), 2, replace=False))
    method = str(rng.choice(["auto", "dense"]))
    with well_posed(f"[{lo}, {hi}) of {len(right)} eigenvalues"):
        result = ms.eigsh(A, interval=(lo, hi), method=method)
    assert result.info.converged, f"{result.info}"
    agree(result, right[(right >= lo) & (right < hi)])


@attack("eigsh", quick=12)
def permutations(rng):
    """A penalized pencil with a stiff edge in another order of rows, another seed and another method. Oracle: the same values."""
    A, d = random_grid(rng, 20)
    n = A.shape[0]
    if n < 12:
        return
    A = A.tolil()
    A[0, 0] += 10.0 ** rng.uniform(6, 20)
    p, k = rng.permutation(n), int(rng.integers(1, 5))
    one = ms.eigsh(A.tocsr(), k, M=sp.diags_array(d), method="dense")
    B = A.tocsr()[p][:, p]
    other = ms.eigsh(B, k, M=sp.diags_array(d[p]), method=str(rng.choice(["lanczos", "lobpcg", "dense"])), seed=int(rng.integers(9)))
    assert one.info.converged
    agree(other, one.values)


@attack("eigsh", quick=20)
def indefinite(rng):
    """Matrices with negative eigenvalues: shifted, negated, single rows; both methods and units. Oracle: dense LAPACK."""
    A, d = random_grid(rng, 20)
    n, how = A.shape[0], rng.integers(4)
    if n < 3:
        return
    if how == 0:
        A = A - rng.uniform(0, 9) * sp.eye_array(n)
    elif how == 1:
        A = A - sp.diags_array(np.where(np.arange(n) == rng.integers(n), 10.0 ** rng.uniform(-6, 2), 0))
    elif how == 2:
        A = -A
    else:
        A = A - sp.diags_array(np.where(rng.random(n) < 0.3, 10.0 ** rng.uniform(-2, 3), 0))
    k, unit = int(rng.integers(1, min(n, 12))), float(rng.choice([1, 1, 1e-100, 1e100]))
    right = scipy.linalg.eigh(A.toarray(), np.diag(d), eigvals_only=True)
    with well_posed("the smallest pairs of an indefinite matrix"):
        result = ms.eigsh(sp.csr_array(A * unit), k, M=sp.diags_array(d), method=str(rng.choice(["auto", "lanczos"])))
    assert result.info.converged or abs(right[:k]).min() < 1e-2 * abs(right[0]), f"{result.info}"
    agree(result, right[:k] * unit, unit)
