"""What is done with A and M before a search: checks, rows that take part, and groups of components of one scale each.

Eigenpairs of a matrix with several connected components are those of the components. Rounding errors of a tiny component hide all
eigenvalues of a large one if both have one shift, so components of very different scales are searched apart.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from meshsolve.api.definite import cholesky
from meshsolve.api.factors import ildl
from meshsolve.errors import InvalidInputError, MeshsolveWarning, NotPositiveDefiniteError
from meshsolve.memory import PER_ROW
from meshsolve.report import without_warnings
from meshsolve.sparse.columns import as_indices
from meshsolve.sparse.constraints import Pinned
from meshsolve.sparse.matrix import as_csr, as_symmetric
from meshsolve.sparse.rows import components

UNEVEN = 1e4            # largest entry of a row over its mass, relative to the median row, above which components are compared
APART = 1e4             # scale of a component relative to the smallest one of its group, from which on it is searched apart
SEMIDEFINITE = 1e-11    # most negative eigenvalue of M that counts as 0, after scaling to a diagonal of ones
SINGULAR = 1e6          # largest entry of a solution for random b of variance 1 above which M may be singular
DOMINANT = 1e-12        # rounding of the sum of a row of M, relative to its diagonal entry


class Matrices(NamedTuple):
    """A and M on the rows that take part."""

    A: sp.csr_array
    M: sp.csr_array
    rows: np.ndarray | None         # (n,) int64: the caller's numbers of these rows; None where all take part
    size: int                       # rows of the caller's matrices


def read(A, M, fixed, pin, threads):
    """Check A and M; leave out rows that are zero in both matrices (vertices without faces) and fixed rows."""
    matrix = as_symmetric(A, threads=threads, per_row=PER_ROW["cholesky"])
    weights = sp.eye_array(matrix.n, format="csr") if M is None else _weights(M, matrix.n, threads)
    if pin:
        Pinned(matrix).require_singular(matrix, threads)
    A = matrix.to_scipy()
    keep = abs(A).sum(axis=1) + abs(weights).sum(axis=1) > 0
    if fixed is not None:
        keep[as_indices(fixed, matrix.n)] = False
    if keep.all():
        return Matrices(A, weights, None, matrix.n)
    rows = np.flatnonzero(keep)
    if len(rows) == 0:
        raise InvalidInputError("A and M must have a row that is not zero and not fixed, got none")
    return Matrices(A[rows][:, rows], weights[rows][:, rows], rows, matrix.n)


def is_diagonal(M):
    """True if M, an (n, n) csr_array, has entries on its diagonal alone; zeros may be stored."""
    row = np.repeat(np.arange(M.shape[0]), np.diff(M.indptr))
    return not M.data[M.indices != row].any()


def is_dominant(M):
    """True if each diagonal entry of M is at least the sum of the others' absolute values in its row: M has no negative eigenvalue."""
    diagonal = M.diagonal()
    return bool((abs(M).sum(axis=1) - diagonal <= (1 + DOMINANT) * diagonal).all())


def rank_of_masses(M, row_number, threads):
    """The rank of M: the number of finite eigenvalues.

    Raises
    ------
    NotPositiveDefiniteError
        M has a negative eigenvalue.
    """
    diagonal = M.diagonal()
    if diagonal.min() < 0:
        k = int(diagonal.argmin())
        raise _indefinite(f"its diagonal entry in row {row_number(k)} is {diagonal[k]:.3g}", row_number(k))
    if is_diagonal(M):
        return int(np.count_nonzero(diagonal))
    row = np.repeat(np.arange(len(diagonal)), np.diff(M.indptr))
    empty = np.flatnonzero((diagonal[row] == 0) & (M.data != 0))
    if len(empty):
        k = int(row[empty[0]])
        raise _indefinite(f"its diagonal entry in row {row_number(k)} is 0, and other entries of this row are not", row_number(k))
    return len(diagonal) if is_dominant(M) else _rank(M, diagonal, row_number, threads)


def groups(matrices):
    """Row numbers of groups of components of one scale each, by ascending scale; None if one search serves all."""
    A, M = matrices.A, matrices.M
    sizes, masses = abs(A).sum(axis=1), M.diagonal()
    scaled = (sizes > 0) & (masses > 0)
    if not scaled.any():
        return None
    with np.errstate(over="ignore"):
        ratio = sizes[scaled] / masses[scaled]
    if not ratio.max() > UNEVEN * np.median(ratio) and not ratio.min() * UNEVEN < np.median(ratio):
        return None
    count, component = components(as_csr(abs(A) + abs(M)))
    if count == 1:
        return None
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scale = np.log(np.bincount(component, sizes, count)) - np.log(np.bincount(component, masses, count))
    order = np.argsort(scale, kind="stable")
    number, first, group = np.zeros(count, np.int64), -np.inf, 0
    for c in order[np.isfinite(scale[order])]:               # components without A or without mass join the first group
        if first > -np.inf and scale[c] > first + np.log(APART):
            group += 1
        if first == -np.inf or scale[c] > first + np.log(APART):
            first = scale[c]
        number[c] = group
    return [np.flatnonzero(number[component] == g) for g in range(group + 1)] if group else None


def _weights(M, n, threads):
    weights = as_symmetric(M, "M", threads=threads)
    if weights.n != n:
        raise InvalidInputError(f"M must have as many rows as A, {n}, got {weights.n}")
    return weights.to_scipy()


def _rank(M, diagonal, row_number, threads):
    """The rank of M, scaled to a diagonal of ones: a Cholesky factor shows whether it has an eigenvalue below 0 to rounding."""
    heavy = np.flatnonzero(diagonal > 0)
    roots = np.sqrt(diagonal[heavy])
    S = M[heavy][:, heavy].tocoo()
    S = sp.csr_array((S.data / roots[S.row] / roots[S.col], (S.row, S.col)), shape=S.shape)
    try:
        with without_warnings(MeshsolveWarning):
            F = cholesky(S + SEMIDEFINITE * sp.eye_array(len(heavy)), threads=threads, device="cpu")
            largest = abs(F.solve(np.random.default_rng(0).standard_normal(len(heavy)))).max()
            if largest < SINGULAR:
                return len(heavy)
            return len(heavy) - ildl(S, fill_level=None, ordering=F.perm, threads=threads, device="cpu").inertia[2]
    except NotPositiveDefiniteError as e:
        k = row_number(int(heavy[e.column]))
        raise _indefinite(f"its Cholesky factorization fails in column {k}", k) from e


def _indefinite(what, k):
    return NotPositiveDefiniteError(
        f"M is not positive definite: {what}\n- M must be positive definite; it may be singular, but must have no negative eigenvalue\n"
        "- inverted elements give negative masses: orient all of them the same way", column=k)
