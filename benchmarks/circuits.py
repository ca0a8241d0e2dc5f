"""Circuit matrices that the LU benchmark makes: modified nodal analysis of one backward Euler step.

``grid`` and ``controlled``: an N x N power grid of resistors and resistor-inductor branches, capacitors to ground, ideal
sources (zeros on the diagonal), with controlled sources (unsymmetric) in the second. ``chains``: a sparse grid whose wires are
chains of 16 R-L-C sections, as in the RLC meshes of He et al. 2015 (nnz/n = 3).
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

SECTIONS = 16
STEP = 1e-11                              # seconds


def circuit(kind, side):
    """The matrix of a circuit on a ``side`` x ``side`` grid, as csr_array with sorted indices."""
    stamps, rng = _Stamps(), np.random.default_rng(3)
    node = np.arange(side * side).reshape(side, side)
    across, down = (node[:, :-1].ravel(), node[:, 1:].ravel()), (node[:-1].ravel(), node[1:].ravel())
    n = _wires(stamps, rng, node.size, across, down) if kind == "chains" else _grid(stamps, rng, node.size, across, down)
    sources = rng.choice(node.size, max(4, node.size // 1000), replace=False)
    current = n + np.arange(len(sources))
    stamps.add(sources, current, 1.0)
    stamps.add(current, sources, 1.0)
    if kind == "controlled":
        _transconductances(stamps, rng, side)
    return stamps.matrix(n + len(sources))


class _Stamps:
    """Entries that elements add to the matrix."""

    def __init__(self):
        self.rows, self.columns, self.values = [], [], []

    def add(self, rows, columns, values):
        self.rows.append(rows)
        self.columns.append(columns)
        self.values.append(np.broadcast_to(np.asarray(values, float), rows.shape))

    def conductance(self, i, j, g):
        for row, column, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            self.add(row, column, sign * g)

    def inductor(self, i, j, current, rng):
        """A branch with resistance and inductance; its current is an unknown."""
        for row, column, value in ((i, current, 1.0), (j, current, -1.0), (current, i, 1.0), (current, j, -1.0)):
            self.add(row, column, value)
        self.add(current, current, -(_log_uniform(rng, len(i), 0.01, 1) + _log_uniform(rng, len(i), 1e-12, 1e-9) / STEP))

    def matrix(self, n):
        A = sp.coo_array((np.concatenate(self.values), (np.concatenate(self.rows), np.concatenate(self.columns))), shape=(n, n)).tocsr()
        A.sort_indices()
        A.indptr, A.indices = A.indptr.astype(np.int32), A.indices.astype(np.int32)
        return A


def _log_uniform(rng, count, low, high):
    return 10 ** rng.uniform(np.log10(low), np.log10(high), count)


def _capacitors(stamps, rng, nodes):
    stamps.add(nodes, nodes, _log_uniform(rng, len(nodes), 1e-14, 1e-12) / STEP)


def _grid(stamps, rng, nodes, across, down):
    stamps.conductance(*across, 1 / _log_uniform(rng, len(across[0]), 0.1, 10))
    inductive = np.arange(len(down[0])) % 2 == 0
    plain = [ends[~inductive] for ends in down]
    stamps.conductance(*plain, 1 / _log_uniform(rng, len(plain[0]), 0.1, 10))
    count = int(inductive.sum())
    stamps.inductor(down[0][inductive], down[1][inductive], nodes + np.arange(count), rng)
    _capacitors(stamps, rng, np.arange(nodes))
    return nodes + count


def _wires(stamps, rng, nodes, across, down):
    begin, end = (np.concatenate(ends) for ends in zip(across, down, strict=True))
    inner = nodes + np.arange(len(begin) * SECTIONS).reshape(-1, SECTIONS)
    current = inner + inner.size
    before = begin
    for section in range(SECTIONS):
        stamps.inductor(before, inner[:, section], current[:, section], rng)
        before = inner[:, section]
    stamps.conductance(before, end, 1 / _log_uniform(rng, len(end), 0.1, 10))
    _capacitors(stamps, rng, np.arange(nodes + inner.size))
    return nodes + 2 * inner.size


def _transconductances(stamps, rng, side):
    drain = rng.choice(side * side - side - 1, side * side // 20, replace=False)
    gate, source = drain + 1, drain + side
    gm = _log_uniform(rng, len(drain), 1e-4, 1e-1)
    for row, sign in ((drain, 1), (source, -1)):
        stamps.add(row, gate, sign * gm)
        stamps.add(row, drain, sign * 0.05 * gm)
        stamps.add(row, source, -sign * 1.05 * gm)
