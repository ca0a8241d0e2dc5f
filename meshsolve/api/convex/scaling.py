"""Equilibration of [P G^T; G 0] by powers of two, which rounds nothing.

Source: Ruiz 2001, "A scaling algorithm to equilibrate both rows and columns norms in matrices". The result does not depend on the units of
the objective, of x, or of a row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

ROUNDS = 12             # of the iteration; each halves the decades between the rows
MEANS = 10              # rounds with the mean size of each row, which find the units of rows and columns
EVEN = 0.5              # largest change of a scale, as a power of two, that needs no further round


class Scaling(NamedTuple):
    """The scaled matrices are ``cost * D P D`` and ``R G D``, where D = diag(columns) and R = diag(rows)."""

    columns: np.ndarray
    rows: np.ndarray
    cost: float


def equilibrate(P, G):
    """Scaling of csr_arrays P (n, n) and G (p, n) whose largest entries of each row and column are about 1."""
    n = P.shape[0]
    size, shape = _log_size(P), P.shape
    peak = size.max(initial=-np.inf)
    cost = -np.round(peak) if np.isfinite(peak) else 0.0
    if G.shape[0] == 0:                                     # a semidefinite P with a diagonal of ones has no larger entry
        diagonal = np.abs(P.diagonal())
        with np.errstate(divide="ignore"):
            half = np.where(diagonal > 0, -0.5 * (np.log2(diagonal) + cost), 0.0)
        return Scaling(_power(np.round(half)), np.ones(0), float(_power(cost)))
    own = _log_size(G)
    own = np.where(np.isfinite(own), -own, 0.0)
    P, G = P.tocoo(), G.tocoo()
    rows, columns = np.r_[P.row, G.row + n, G.col], np.r_[P.col, G.col, G.row + n]
    with np.errstate(divide="ignore"):
        entries = np.log2(abs(np.r_[P.data, G.data, G.data])) + np.r_[np.full(P.nnz, cost), own[G.row], own[G.row]]
    scale, stored = np.zeros(shape[0] + len(own)), np.isfinite(entries)
    counts = np.maximum(np.bincount(rows[stored], minlength=len(scale)), 1)
    for _ in range(MEANS):
        sums = np.bincount(rows[stored], (entries + scale[rows] + scale[columns])[stored], len(scale))
        scale -= 0.5 * sums / counts
    for _ in range(ROUNDS):
        largest = np.full(len(scale), -np.inf)
        np.maximum.at(largest, rows, entries + scale[rows] + scale[columns])
        step = np.where(np.isfinite(largest), -0.5 * largest, 0.0)
        scale += step
        if abs(step).max(initial=0) < EVEN:
            break
    return Scaling(_power(np.round(scale[:n])), _power(np.round(scale[n:]) + np.round(own)), float(_power(cost)))


def scaled(A, left, right):
    """diag(left) A diag(right) of a csr_array. Products of the scales may leave the range of float64, the entries do not."""
    out = A.copy()
    out.data = A.data * left[np.repeat(np.arange(A.shape[0]), np.diff(A.indptr))] * right[A.indices]
    return out


def power_of_two(x):
    """The power of two nearest to a positive number."""
    return float(_power(np.round(np.log2(x))))


def _power(exponent):
    return np.ldexp(1.0, np.clip(exponent, -1000, 1000).astype(int))


def _log_size(A):
    """log2 of the largest absolute entry of each row of a csr_array; -inf for a row of zeros."""
    out = np.full(A.shape[0], -np.inf)
    with np.errstate(divide="ignore"):
        np.maximum.at(out, np.repeat(np.arange(A.shape[0]), np.diff(A.indptr)), np.log2(abs(A.data)))
    return out
