"""Attacks on the judgement of symmetry: stiff entries that hide an unsymmetric part, and rounding that is no asymmetry."""

from fractions import Fraction

import numpy as np
import scipy.sparse as sp

import meshsolve as ms
from campaigns import axes
from campaigns.table import attack, well_posed

EPS = np.finfo(float).eps


def solved_exactly(A, b):
    """The exact solution of A x = b, rounded; None if A is singular. Gauss-Jordan elimination of fractions."""
    n = len(A)
    rows = [[Fraction(float(v)) for v in row] + [Fraction(float(c))] for row, c in zip(A, b)]
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k])]
    return np.array([float(row[n]) for row in rows])


def glued(rng, stiff):
    """A matrix of small integers with entries ``stiff`` between some pairs of rows, which nearly cancel in the differences."""
    n = int(rng.integers(2, 9))
    B = rng.integers(-2, 3, (n, n)).astype(float)
    A = B + B.T + np.diag(rng.integers(4, 9, n) * float(n)) if rng.random() < 0.7 else B + 5 * np.eye(n)
    skew = rng.integers(-2, 3, (n, n)) * float(rng.choice([0, 2.0**-4, 2.0**-10, 1]))
    A = A + np.triu(skew, 1) - np.triu(skew, 1).T
    p, size = rng.permutation(n), int(rng.integers(2, 4))
    for begin in range(0, n - 1, size):
        rows = p[begin:begin + size]
        A[np.ix_(rows, rows)] += stiff * (len(rows) * np.eye(len(rows)) - 1)
    if rng.random() < 0.3:
        A[p[0], p[0]] += stiff * 2.0 ** int(rng.integers(0, 30))         # a penalty
    return A


SOLVED = {"factorized": lambda A, b: ms.factorized(A).solve(b), "solve": lambda A, b: ms.solve(A, b)[0], "spsolve": ms.spsolve}
SYMMETRIC = {"cholesky": lambda A, b: ms.cholesky(A).solve(b), "ildl": lambda A, b: ms.ildl(A, fill_level=None).solve(b),
             "mixed": lambda A, b: ms.cholesky(A, precision="mixed").solve(b),
             "batch": lambda A, b: in_batch(A, b),
             "solve by cholesky": lambda A, b: ms.solve(A, b, method="cholesky")[0],
             "refactor": lambda A, b: ms.cholesky(sp.csr_array((sp.csr_array(A) != 0) + 2.0 * len(b) * sp.eye_array(len(b)))).refactor(A).solve(b)}


def in_batch(A, b):
    symbolic = ms.analyze(A)
    return symbolic.factor_batch(np.stack([symbolic.values_of(A)] * 2)).solve(np.stack([b, b]))[1]


@attack("factorized", "solve", "spsolve", "cholesky", "ildl", "CholeskyFactor.refactor", "Symbolic.factor_batch", quick=40)
def stiff_pairs(rng):
    """Stiff pairs of 1 to 2^50 with a skew part of 1/1024 to 2, units, layouts. Oracle: exact fractions."""
    A = glued(rng, 2.0 ** int(rng.integers(0, 50)))
    if rng.random() < 0.5:
        A = A * 2.0 ** int(rng.integers(-300, 300))
    b = rng.integers(-4, 5, len(A)).astype(float) * np.abs(A).max()
    x = solved_exactly(A, b)
    if x is None or not x.any():
        return
    condition = np.linalg.cond(A / np.abs(A).max())
    name, call = list((SOLVED | SYMMETRIC).items())[rng.integers(len(SOLVED) + len(SYMMETRIC))]
    given = axes.layout(rng, A) if name not in ("batch", "refactor") else sp.csr_array(A)
    try:
        y = call(given, b)
    except (ms.NotSymmetricError, ms.NotPositiveDefiniteError, ms.PatternMismatchError):
        assert name in SYMMETRIC, f"{name} refuses a regular matrix"
        return
    except ms.SingularMatrixError:
        assert condition > 1e-2 / EPS / len(A), f"{name} calls a matrix of condition {condition:.2g} singular"
        return
    if name == "mixed" and condition > 1e7 or name == "batch" and np.isnan(y).all():        # a warning, or .failed, says so
        return
    error = abs(y - x).max() / abs(x).max()
    allowed = 1e3 * EPS * condition + (1e-3 if name in SYMMETRIC else 1e-8)
    assert error <= allowed, f"{name}: error {error:.3g}, condition {condition:.3g}"


@attack("cholesky", "ildl", "solve", "factorized", "eigsh", "Quadratic.minimize", "parac", "cg", quick=30)
def rounding(rng):
    """Sums of element matrices that cancel, the upper triangle added in another order than the lower; units. Oracle: dense solves."""
    n = int(rng.integers(3, 30))
    parts, scale = int(rng.integers(2, 40)), axes.unit(rng, 1e100)
    G = rng.standard_normal((parts, n, 3))
    elements = np.einsum("kia,kja->kij", G, G) * 10.0 ** rng.uniform(-3, 3, (parts, 1, 1))
    low, up = elements.sum(axis=0), elements[rng.permutation(parts)].cumsum(axis=0)[-1]
    A = np.where(np.tri(n, dtype=bool), low, up) * scale
    A[np.diag_indices(n)] += np.abs(A).max() * float(rng.choice([1e-6, 1e-3, 1]))
    S, b = (A + A.T) / 2, rng.standard_normal(n)
    condition = np.linalg.cond(S / np.abs(S).max())
    with well_posed("a symmetric matrix with rounding errors of its assembly"):
        right = np.linalg.solve(S / scale, b)
        b = b * scale
        given = axes.layout(rng, A)
        for x in (ms.cholesky(given).solve(b), ms.ildl(given, fill_level=None).solve(b), ms.solve(given, b)[0], ms.factorized(given).solve(b)):
            assert abs(x - right).max() <= 1e3 * EPS * condition * abs(right).max()
        assert ms.factorized(given).report.facts["method"] == "cholesky"
    if 1e-30 < scale < 1e30:
        with well_posed("a symmetric matrix with rounding errors of its assembly"):
            w = ms.eigsh(given, min(2, n - 1), tol=1e-6)[0]
        assert abs(w - np.linalg.eigvalsh(S)[:len(w)]).max() <= 1e-5 * np.linalg.eigvalsh(S)[-1]


@attack("cholesky", "factorized", "solve", quick=30)
def small_diagonals(rng):
    """Weighted Laplacians of small integers plus a diagonal of 1e-14 to 1e-3 of the entries. Oracle: the sum of all equations."""
    n = int(rng.integers(2, 60))
    W = sp.random_array((n, n), density=min(1, 6 / n), rng=rng)
    W.data[:] = rng.integers(1, 9, W.nnz)
    W = sp.csr_array(W + W.T + sp.diags_array(np.ones(n - 1), offsets=1) + sp.diags_array(np.ones(n - 1), offsets=-1))
    W.setdiag(0)
    L = sp.csr_array(sp.diags_array(W.sum(axis=1)) - W)
    unit = 2.0 ** int(rng.integers(-200, 200))
    small = 10.0 ** rng.uniform(-13.5, -3) * L.diagonal().max()
    A = sp.csr_array((L + small * sp.eye_array(n)) * unit)
    added = (A.diagonal() / unit - L.diagonal())             # after rounding
    x = np.full(n, 1.0)
    if added.min() <= 64 * EPS * L.diagonal().max():
        return
    with well_posed("a Laplacian with a positive diagonal added to exact row sums"):
        found = [ms.cholesky(A).solve(added * unit), ms.factorized(A).solve(added * unit)]
    loss = 1e3 * EPS * L.diagonal().max() / added.min()
    for y in found:
        assert abs(y - x).max() <= max(loss, 1e-10), f"error {abs(y - x).max():.2g} with {added.min():.2g} added"
