"""Eigenpairs with the next eigenvalue, and the test that a loss has a derivative with respect to multiple ones; on the host.

For A x = w M x with x^T M x = 1, dw = x^T (dA - w dM) x. Source: Lancaster 1964, "On eigenvalues of matrices dependent on a parameter".
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve import eigen
from meshsolve.errors import InvalidInputError, MeshsolveError

EQUAL = 1e-8                # distance of two eigenvalues relative to the largest one that counts as 0


def pencil_matrix(values, rows, columns, n):
    """Return the (n, n) csr_array of float64 with these entries, duplicates summed."""
    if len(rows) and not 0 <= min(rows.min(), columns.min()) <= max(rows.max(), columns.max()) < n:
        raise InvalidInputError(f"indices has values outside 0..{n - 1}, the rows of A")
    return sp.csr_array(sp.coo_array((values.astype(np.float64), (rows, columns)), shape=(n, n)))


def eigenpairs(A, M, k, threads):
    """Return (w, X, next eigenvalue): one more than k, so that a multiple eigenvalue is not cut unnoticed."""
    n = A.shape[0]
    w, X, info = eigen.eigsh(A, k + (1 <= k < n - 1), M=M, threads=threads)
    if not info.converged:
        raise MeshsolveError(f"eigsh: {k} eigenpairs did not converge, and gradients would have their error")
    return w[:k], X[:, :k], w[k:]


def require_distinct(w, g):
    """Raise if neighboring eigenvalues are equal in rounding but have different weights, both (k,)."""
    near = np.flatnonzero((np.diff(w) <= EQUAL * np.abs(w).max(initial=0.0)) & (g[1:] != g[:-1]))
    if len(near):
        k = int(near[0])
        raise InvalidInputError(f"eigenvalues {k} and {k + 1} are equal ({float(w[k]):.6g}), and the loss weighs them differently: they "
                                "have no derivatives of their own. Use a loss with equal weights, such as their sum")
