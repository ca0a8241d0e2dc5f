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
