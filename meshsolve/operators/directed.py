"""Checks that a matrix describes an undirected graph."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.errors import MeshsolveWarning, NotSymmetricError
from meshsolve.options import counted
from meshsolve.report import warn
from meshsolve.sparse.matrix import as_symmetric


def require_symmetric(W):
    """Raise NotSymmetricError if the weight matrix W (sparse, without diagonal) is not symmetric."""
    try:
        as_symmetric(W, "W")
    except NotSymmetricError as e:
        i, j = e.row, e.column
        raise NotSymmetricError(f"W is not symmetric: W[{i}, {j}] is {W[i, j]:.6g}, but W[{j}, {i}] is {W[j, i]:.6g}. A "
                                "Laplacian needs an undirected graph: use W + W.T for a directed graph", i, j) from None


def warn_if_directed(A, graph):
    """Warn if the pattern A lacks entries of ``graph``, the pattern of A + A^T without diagonal."""
    row = np.repeat(np.arange(A.n, dtype=np.int32), np.diff(A.indptr))
    off = row != A.indices
    missing = graph.nnz - int(np.count_nonzero(off))
    if missing == 0:
        return
    given = sp.csr_array((np.ones(np.count_nonzero(off), np.int8), (row[off], A.indices[off])), shape=(A.n, A.n))
    lacking = sp.coo_array(graph.to_scipy() - given)
    k = int(np.argmax(lacking.data))
    warn(f"the pattern is not symmetric: {counted(missing, 'entry')} without a mirror entry, the first at row "
         f"{lacking.col[k]}, column {lacking.row[k]}. The Laplacian uses the undirected graph of A + A.T. "
         "Pass A + A.T to silence this warning", MeshsolveWarning)
