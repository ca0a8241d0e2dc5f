"""Hostile axes that many attacks share. Each function takes a random generator and returns one draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

import meshsolve as ms

UNITS = [1e-300, 1e-160, 1e-100, 1e-30, 1e-12, 1e-6, 1.0, 1.0, 1.0, 1e6, 1e12, 1e30, 1e100, 1e160, 1e300]


def unit(rng: np.random.Generator, largest: float = 1e300) -> float:
    """A unit of measurement: a factor between 1 / largest and largest, 1 in a fifth of the draws."""
    return float(rng.choice([u for u in UNITS if 1 / largest <= u <= largest]))


def size(rng: np.random.Generator, largest: int = 60) -> int:
    """A number of rows: 0, 1, 2 and 3 more often than others."""
    return int(rng.choice([0, 1, 2, 3, int(rng.integers(4, largest + 1)), int(rng.integers(4, largest + 1))]))


def spread(rng: np.random.Generator, n: int, decades: float = 12) -> np.ndarray:
    """Factors (n,): all ones, one of another scale, or all of different scales."""
    factors = np.ones(n)
    how = rng.integers(3)
    if n and how == 1:
        factors[rng.integers(n)] = 10.0 ** rng.uniform(-decades, decades)
    elif how == 2:
        factors = 10.0 ** rng.uniform(-decades / 2, decades / 2, n)
    return factors


def layout(rng: np.random.Generator, A: Any, exact: bool = True) -> Any:
    """The same matrix as another sparse type, with unsorted or repeated entries, as a dense array; float32 only if not exact."""
    A = sp.csr_array(A)
    how = int(rng.integers(7 if exact else 8))
    if how == 1:
        return sp.csc_matrix(A)
    if how == 2:
        return sp.coo_array(A)
    if how == 3:
        return A.toarray(order=str(rng.choice(["C", "F"])))
    if how == 4:                                             # unsorted rows
        C = sp.coo_array(A)
        p = rng.permutation(C.nnz)
        return sp.coo_array((C.data[p], (C.row[p], C.col[p])), shape=A.shape)
    if how == 5:                                             # every entry as two halves
        C = sp.coo_array(A)
        return sp.coo_array((np.r_[C.data / 2, C.data / 2], (np.r_[C.row, C.row], np.r_[C.col, C.col])), shape=A.shape)
    if how == 6:                                             # 64-bit indices
        B = A.copy()
        B.indices, B.indptr = B.indices.astype(np.int64), B.indptr.astype(np.int64)
        return B
    return A.astype(np.float32) if how == 7 else A


def columns(rng: np.random.Generator, n: int) -> np.ndarray:
    """Right-hand sides of small integers (n,), (n, 1), (n, 3), (n, 0); row-major, column-major, strided, integers."""
    shape: tuple[int, ...] = [(n,), (n,), (n, 1), (n, 3), (n, 0)][int(rng.integers(5))]
    b = rng.integers(-4, 5, shape)
    how = int(rng.integers(4))
    if how == 0:
        return b
    if how == 1:
        return np.asfortranarray(b.astype(float))
    if how == 2:
        wide = np.zeros((2 * n, *shape[1:]))
        wide[::2] = b
        return wide[::2]
    return b.astype(float)


def sphere(rng: np.random.Generator, level: int = 2) -> tuple[np.ndarray, np.ndarray]:
    """Vertices and faces of a sphere of random radius 0.5 to 2 at a random place, its vertices in a random order."""
    ball = ms.datasets.icosphere(level)
    p = rng.permutation(len(ball.vertices))
    V = np.empty_like(ball.vertices)
    V[p] = ball.vertices * rng.uniform(0.5, 2) + rng.uniform(-2, 2, 3)
    return V, p[ball.faces]


def grid(rng: np.random.Generator, n: int = 8) -> tuple[np.ndarray, np.ndarray]:
    """Vertices (z = 0) and faces of the unit square, n x n cells, diagonals at random, interior vertices moved a little."""
    x, y = np.meshgrid(np.linspace(0, 1, n + 1), np.linspace(0, 1, n + 1), indexing="ij")
    inner = np.zeros(x.shape, bool)
    inner[1:-1, 1:-1] = True
    V = np.stack([x.ravel(), y.ravel(), np.zeros(x.size)], 1)
    V[:, :2] += inner.ravel()[:, None] * rng.uniform(-0.2 / n, 0.2 / n, (len(V), 2))
    at = np.arange(x.size).reshape(x.shape)
    a, b, c, d = (at[i:n + i, j:n + j].ravel() for i, j in ((0, 0), (1, 0), (1, 1), (0, 1)))
    flip = rng.random(n * n) < 0.5
    F = np.concatenate([np.where(flip[:, None], np.stack([a, b, c], 1), np.stack([a, b, d], 1)),
                        np.where(flip[:, None], np.stack([a, c, d], 1), np.stack([b, c, d], 1))])
    return V, F


def powers(rng: np.random.Generator, n: int, decades: float = 12) -> np.ndarray:
    """As ``spread``, rounded to powers of two: scaling with them is exact."""
    return 2.0 ** np.round(np.log2(spread(rng, n, decades)))


def definite(rng: np.random.Generator, n: int) -> np.ndarray:
    """A dense positive definite matrix (n, n) of small integers, with few entries a row."""
    B = np.where(rng.random((n, n)) < 2 / max(n, 1), rng.integers(-3, 4, (n, n)), 0)
    return (B @ B.T + np.eye(n, dtype=int)).astype(float)


def symmetric(rng: np.random.Generator, n: int) -> tuple[np.ndarray, tuple[int, int, int]]:
    """T D T' of integers, T unit lower triangular in a random order; its inertia: positive, negative and zero eigenvalues."""
    d = rng.choice([-2.0, -1.0, 1.0, 2.0], n)
    if rng.random() < 0.2:
        d[rng.random(n) < 0.2] = 0
    T = unit_lower(rng, n)
    p = rng.permutation(n)
    return ((T * d) @ T.T)[np.ix_(p, p)], (int((d > 0).sum()), int((d < 0).sum()), int((d == 0).sum()))


def general(rng: np.random.Generator, n: int) -> np.ndarray:
    """An unsymmetric matrix of small integers of determinant +-2^k: P L D U with unit triangular L and U."""
    A = unit_lower(rng, n) @ np.diag(2.0 ** rng.integers(-1, 2, n)) @ unit_lower(rng, n).T
    return A[rng.permutation(n)]


def unit_lower(rng: np.random.Generator, n: int) -> np.ndarray:
    """A unit lower triangular matrix with few entries of -1 and 1."""
    return np.tril(np.where(rng.random((n, n)) < 1.2 / max(n, 1), rng.integers(-1, 2, (n, n)), 0), -1) + np.eye(n)


def laplacian(rng: np.random.Generator, n: int, parts: int = 1, decades: float = 6) -> np.ndarray:
    """A dense graph Laplacian whose weights are powers of two, so that rows sum to zero exactly; ``parts`` components or more."""
    label = rng.integers(parts, size=n)
    i, j = rng.integers(n, size=(2, 3 * n))
    W = np.zeros((n, n))
    keep = (i != j) & (label[i] == label[j])
    W[i[keep], j[keep]] = powers(rng, int(keep.sum()), decades)
    W = np.maximum(W, W.T)
    return np.diag(W.sum(axis=1)) - W


def condition(A: np.ndarray) -> float:
    """The condition number of A after its rows and columns were scaled, by LAPACK; 1 without rows."""
    if not len(A):
        return 1.0
    for _ in range(4):
        r, c = (np.sqrt(abs(A).max(axis=k)) for k in (1, 0))
        A = A / np.where(r > 0, r, 1)[:, None] / np.where(c > 0, c, 1)
    return float(np.linalg.cond(A)) if np.isfinite(A).all() else np.inf


def backward_error(A: Any, x: np.ndarray, b: np.ndarray) -> float:
    """max |b - A x| / (|A| |x| + |b|) over the rows, in long double, with at least 1e-8 of the largest |x| for every |x|: zeros are rounded."""
    D = (A.toarray() if sp.issparse(A) else np.asarray(A))
    wide = np.clongdouble if any(np.iscomplexobj(a) for a in (D, x, b)) else np.longdouble
    D, x, b = D.astype(wide), np.asarray(x).astype(wide), np.asarray(b).astype(wide)
    size = abs(D) @ np.maximum(abs(x), 1e-8 * abs(x).max(initial=0)) + abs(b)
    r = abs(b - D @ x)
    return float(np.where(size > 0, r / np.where(size > 0, size, 1), np.where(r > 0, np.inf, 0)).max(initial=0))
