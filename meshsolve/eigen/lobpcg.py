"""The smallest eigenpairs by scipy's LOBPCG with an approximate Cholesky factor, where a complete factor does not fit into memory.

The search is orthogonal to the null space of a Laplacian, which is known: with it in its basis LOBPCG stagnates above the tolerance.
Nothing is counted. Source: Knyazev 2001.
"""

from __future__ import annotations

import numpy as np
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
    scale = pencil.scale()
    with search.report.phase("lobpcg"), np.errstate(all="ignore"):
        P = parac(pencil.shifted(-NEAR_ZERO * scale), seed=search.seed, threads=pencil.threads)
        X, tol = np.random.default_rng(search.seed).standard_normal((pencil.n, left + 2)), search.tol * scale
        for _ in range(ROUNDS):
            w, X, history = spla.lobpcg(pencil.A, X, B=pencil.M, M=P, Y=known if known.shape[1] else None, largest=False, tol=tol,
                                        maxiter=max(search.maxiter - search.iterations, 1), retResidualNormsHistory=True)
            search.iterations += len(history)
            found = _judged(search, np.r_[np.zeros(known.shape[1]), w][:k], np.hstack([known, X])[:, :k])
            if (found.quality.residuals <= search.tol).all() or search.iterations >= search.maxiter:
                break
            tol *= SMALLER
    return found


def _judged(search, w, X):
    pencil = search.pencil
    X = normalized(pencil, pencil.place.bring(np.ascontiguousarray(X)))
    return in_order(pencil, Found(w, X, quality.judged(pencil, search.tol, w, X), None, True))


def _null_space(pencil, most):
    """(n, c <= most): ones in connected components whose rows sum to 0 and have mass, else zeros."""
    numbers, component = pencil.null_components(most)
    return np.equal.outer(component, numbers).astype(np.float64)
