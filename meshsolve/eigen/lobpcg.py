"""The smallest eigenpairs by scipy's LOBPCG with an approximate Cholesky factor, where a complete factor does not fit into memory.

The search is orthogonal to the null space of a Laplacian, which is known: with it in its basis LOBPCG stagnates above the tolerance.
Rows are scaled to one size, so that those of penalties do not hide the others.
Nothing is counted. Source: Knyazev 2001.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from meshsolve.api.factors import parac
from meshsolve.eigen import quality
from meshsolve.eigen.search import Found, in_order, normalized
from meshsolve.eigen.shift import NEAR_ZERO

ROUNDS = 4              # calls of scipy, each with a smaller tolerance
SMALLER = 1e-2          # ratio of a tolerance to the one before


def lobpcg(search, k):
    """The k smallest pairs as :class:`Found`."""
    pencil = search.pencil
    known = _null_space(pencil, k)
    left = k - known.shape[1]
    if pencil.n - known.shape[1] < 5 * (left + 2):          # scipy takes a dense method, and there no constraints
        known, left = known[:, :0], k
    if left == 0:
        return _judged(search, np.zeros(known.shape[1]), known)
    shift = -NEAR_ZERO * pencil.scale()
    d = 1 / np.sqrt(abs(pencil.shifted(shift)).max(axis=1).toarray().ravel())       # rows of one size: D A D, D M D
    D = sp.diags_array(d)
    A, M = (sp.csr_array(D @ matrix @ D) for matrix in (pencil.A, pencil.M))
    with search.report.phase("lobpcg"), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")                     # of scipy: residuals are measured below
        F = parac(pencil.shifted(shift), seed=search.seed, threads=pencil.threads)
        P = spla.LinearOperator(A.shape, dtype=np.float64, matvec=lambda x: (F @ (x.ravel() / d)) / d,
                                matmat=lambda X: (F @ (X / d[:, None])) / d[:, None])
        X, tol = np.random.default_rng(search.seed).standard_normal((pencil.n, left + 2)), search.tol * np.sqrt(pencil.typical)
        for _ in range(ROUNDS):
            tol *= SMALLER
            w, X, *history = spla.lobpcg(A, X, B=M, M=P, Y=known / d[:, None] if known.shape[1] else None, largest=False, tol=tol,
                                        maxiter=max(search.maxiter - search.iterations, 1), retResidualNormsHistory=True)
            search.iterations += len(history[0]) if history else 1          # scipy leaves it out where it takes a dense method
            found = _judged(search, np.r_[np.zeros(known.shape[1]), w][:k], np.hstack([known, d[:, None] * X])[:, :k])
            if (found.quality.residuals <= search.tol).all() or search.iterations >= search.maxiter:
                break
    return found


def _judged(search, w, X):
    pencil = search.pencil
    X = normalized(pencil, pencil.place.bring(np.ascontiguousarray(X)))
    return in_order(pencil, Found(w, X, quality.judged(pencil, search.tol, w, X), None, True))


def _null_space(pencil, most):
    """(n, c <= most): ones in connected components whose rows sum to 0 and have mass, else zeros."""
    numbers, component = pencil.null_components(most)
    return np.equal.outer(component, numbers).astype(np.float64)
