"""Circuit matrices: one backward Euler step of modified nodal analysis (Ho, Ruehli, Brennan 1975)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from meshsolve.datasets.common import check_size, generator, sorted_rows
from meshsolve.options import as_flag, as_integer, as_number
from meshsolve.types import Sparse


def power_grid(n: int, controlled: bool = False, step: float = 1.0, seed: int = 3) -> Sparse:
    """Generate the matrix of an on-chip power grid with n x n nodes.

    Wires along rows are resistors. Wires along columns are resistors or resistors with inductors. Each node has a capacitor to
    ground, and one in a thousand an ideal voltage source.

    Parameters
    ----------
    n : int
        At least 4. The matrix has about 1.5 n^2 rows.
    controlled : bool
        Add voltage-controlled current sources (transistors) at one in twenty nodes; they make the pattern unsymmetric.
    step : float
        Time step in units of 10 ps. It changes values, never the pattern.
    seed : int
        Random seed for element values and positions.

    Returns
    -------
    csr_array
        Symmetric indefinite without controlled sources. Rows of voltage sources have a zero diagonal.

    Raises
    ------
    InvalidInputError
        ``n`` is not an integer of at least 4; ``step`` is not positive; ``seed`` is not an integer of at least 0.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(n^2) time.
    """
    mna, along, across = _nodal_grid(n, step, seed)
    mna.resistors(*along)
    inductive = np.arange(across.shape[1]) % 2 == 0
    mna.resistors(*across[:, ~inductive])
    mna.inductors(*across[:, inductive])
    mna.capacitors(np.arange(n * n))
    mna.sources(n * n)
    if as_flag(controlled, "controlled"):
        mna.transistors(n)
    return mna.matrix()


def rlc_mesh(n: int, step: float = 1.0, seed: int = 3) -> Sparse:
    """Generate the matrix of an RLC mesh with n x n nodes.

    Each wire is a resistor and an inductor in series. Each node has a capacitor to ground, and one in a thousand an ideal voltage
    source.

    Parameters
    ----------
    n : int
        At least 4. The matrix has about 3 n^2 rows.
    step, seed
        As in :func:`power_grid`.

    Returns
    -------
    csr_array

    Raises
    ------
    InvalidInputError
        As in :func:`power_grid`.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(n^2) time. Source: the mesh networks of He et al. 2015 (GLU).
    """
    mna, along, across = _nodal_grid(n, step, seed)
    mna.inductors(*along)
    mna.inductors(*across)
    mna.capacitors(np.arange(n * n))
    mna.sources(n * n)
    return mna.matrix()


def ladder(n: int, sections: int = 16, step: float = 1.0, seed: int = 3) -> Sparse:
    """Generate the matrix of a grid of n x n nodes whose wires are RLC ladders: three entries per row, little fill.

    Parameters
    ----------
    n : int
        At least 4. The matrix has about 4 n^2 ``sections`` rows (n = 18, 56, 125: 20k, 200k, 1M).
    sections : int
        Number of sections (resistor, inductor, capacitor) per wire.
    step, seed
        As in :func:`power_grid`.

    Returns
    -------
    csr_array

    Raises
    ------
    InvalidInputError
        As in :func:`power_grid`, or ``sections`` is not a positive integer.
    OutOfMemoryError
        The matrix would not fit into memory.

    Notes
    -----
    O(n^2 ``sections``) time.
    """
    sections = as_integer(sections, "sections")
    mna, along, across = _nodal_grid(n, step, seed, rows=4 * sections)
    ends = np.concatenate([along, across], axis=1)
    wires = ends.shape[1]
    inner = mna.unknowns(wires * sections).reshape(wires, -1)
    before = ends[0]
    for s in range(sections):
        mna.inductors(before, inner[:, s])
        before = inner[:, s]
    mna.resistors(before, ends[1])
    mna.capacitors(np.concatenate([np.arange(n * n), inner.ravel()]))
    mna.sources(n * n)
    return mna.matrix()


def _nodal_grid(n, step, seed, rows=3):
    """Return an empty matrix for n x n nodes, and the end nodes (2, k) of the wires along rows and along columns."""
    n = as_integer(n, "n", 4)
    step = as_number(step, "step", above=True)
    check_size(rows * n * n)
    node = np.arange(n * n).reshape(n, n)
    along = np.stack([node[:, :-1].ravel(), node[:, 1:].ravel()])
    across = np.stack([node[:-1].ravel(), node[1:].ravel()])
    return _Mna(n * n, step, seed), along, across


class _Mna:
    """Triplets of a modified nodal analysis matrix. Random values are drawn in the order in which elements are added."""

    def __init__(self, nodes, step, seed):
        self.n, self.h, self.rng = nodes, 1e-11 * step, generator(seed)
        self._rows, self._columns, self._values = [], [], []

    def unknowns(self, count):
        """Add ``count`` unknowns and return their indices."""
        self.n += count
        return np.arange(self.n - count, self.n)

    def resistors(self, i, j):
        g = 1 / self._draw(len(i), 0.1, 10)
        for a, b, value in ((i, i, g), (j, j, g), (i, j, -g), (j, i, -g)):
            self._add(a, b, value)

    def inductors(self, i, j):
        """Add resistors and inductors in series, with their currents as unknowns."""
        current = self.unknowns(len(i))
        for a, b, value in ((i, current, 1.0), (j, current, -1.0), (current, i, 1.0), (current, j, -1.0)):
            self._add(a, b, value)
        self._add(current, current, -(self._draw(len(i), 0.01, 1) + self._draw(len(i), 1e-12, 1e-9) / self.h))

    def capacitors(self, nodes):
        self._add(nodes, nodes, self._draw(len(nodes), 1e-14, 1e-12) / self.h)

    def sources(self, nodes):
        at = self.rng.choice(nodes, max(4, nodes // 1000), replace=False)
        current = self.unknowns(len(at))
        self._add(at, current, 1.0)
        self._add(current, at, 1.0)

    def transistors(self, side):
        """Add transistors: drain, gate and source are a node, its right and its lower neighbor.

        Each has a transconductance and an output conductance.
        """
        drain = self.rng.choice(side * side - side - 1, side * side // 20, replace=False)
        gate, source = drain + 1, drain + side
        gm = self._draw(len(drain), 1e-4, 1e-1)
        out = 0.05 * gm
        for sign, node in ((1, drain), (-1, source)):
            self._add(node, gate, sign * gm)
            self._add(node, source, -sign * (gm + out))
            self._add(node, drain, sign * out)

    def matrix(self):
        index = np.concatenate(self._rows), np.concatenate(self._columns)
        return sorted_rows(sp.coo_array((np.concatenate(self._values), index), shape=(self.n, self.n)))

    def _add(self, i, j, value):
        self._rows.append(i)
        self._columns.append(j)
        self._values.append(np.broadcast_to(value, i.shape))

    def _draw(self, count, low, high):
        return 10 ** self.rng.uniform(np.log10(low), np.log10(high), count)
