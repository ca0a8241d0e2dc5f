"""Generated circuit matrices of the LU benchmark: modified nodal analysis of one backward Euler step.

``grid`` and ``controlled`` are :func:`meshsolve.datasets.power_grid`. ``chains`` is :func:`meshsolve.datasets.ladder`, a sparse
grid whose wires are chains of 16 R-L-C sections, as in the RLC meshes of He et al. 2015 (nnz/n = 3). It is numbered wire after
wire, not section after section, as in all results.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

import meshsolve as ms

SECTIONS = 16


def circuit(kind, side):
    """The matrix of a circuit on a ``side`` x ``side`` grid, as csr_array with sorted indices."""
    if kind != "chains":
        return ms.datasets.power_grid(side, controlled=kind == "controlled")
    A = ms.datasets.ladder(side, SECTIONS)
    rows = wire_after_wire(side)
    A = sp.csr_array(A[rows][:, rows])
    A.sort_indices()
    return A


def wire_after_wire(side):
    """The rows of a ladder in the order of this benchmark: nodes, inner nodes, currents of the wires, currents of the sources."""
    nodes, wires = side * side, 2 * side * (side - 1)
    inner = nodes + wires * SECTIONS
    current = inner + np.arange(wires * SECTIONS).reshape(SECTIONS, wires).T.ravel()
    sources = inner + wires * SECTIONS + np.arange(max(4, nodes // 1000))
    return np.concatenate([np.arange(inner), current, sources])
