"""Loops of voltage sources, such as two resistors of 0 ohm in parallel.

If the voltages around each loop add up to 0, all node voltages are determined, and only the division of the currents is not. It is the one
of equal resistances in the limit of 0 ohm: around each loop the currents add up to 0. In the equations this sum is added to the row of the
source that closes the loop. Its row says nothing else, because the other rows of the loop imply its voltage. The sources of a forest have
their ordinary rows. Cost: O(sources log(sources)), and O(length) for each loop.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from meshsolve.errors import MeshsolveWarning, SingularMatrixError
from meshsolve.report import warn

ROUNDING = 1e-12            # sum of the voltages around a loop that counts as 0, relative to the sum of their absolute values
LISTED = 5                  # names in a message


class Loops:
    """The loops of the voltage sources of a netlist.

    Parameters
    ----------
    netlist : Netlist

    Attributes
    ----------
    chords : (k,) int64
        Voltage sources that close a loop of earlier ones.
    forest : (j,) int64
        The others.
    members : (k, sources) csr_array
        The loop of each chord: 1 for a source that is passed from its first to its second node, else -1.
    """

    def __init__(self, netlist):
        self._netlist, self._warned, pairs = netlist, False, netlist["v"].nodes
        nodes, ends = np.unique(pairs, return_inverse=True)
        ends = ends.reshape(-1, 2)
        forest = _forest(len(nodes), ends)
        self.chords = np.setdiff1d(np.arange(len(pairs)), forest)
        self.forest = forest
        self.members = sp.csr_array((len(self.chords), len(pairs)))
        if len(self.chords):
            rows, columns, signs = _loops(len(nodes), ends, forest, self.chords)
            self.members = sp.csr_array((signs, (rows, columns)), shape=self.members.shape)

    def __len__(self):
        return len(self.chords)

    def require(self, volts):
        """Raise if the voltages (sources,) around a loop do not add up to 0; they may be complex amplitudes. Otherwise warn once
        that the division of currents is not determined."""
        if not len(self):
            return
        left, size = np.abs(self.members @ volts), abs(self.members) @ np.abs(volts)
        wrong = np.flatnonzero(~(left <= ROUNDING * size))
        if len(wrong):
            raise self._error(int(wrong[0]), f"by {left[wrong[0]]:g} V")
        several = np.flatnonzero(np.diff(self.members.indptr) > 1)
        if len(several) and not self._warned:
            self._warned = True
            names, place = self._named(int(several[0]))
            more = f", as {len(several) - 1:,} others do" if len(several) > 1 else ""
            warn(f"{place}: {names} form a loop of voltage sources or resistors of 0 ohm{more}: their current is divided as between "
                 "equal resistances", MeshsolveWarning)

    def require_equal_waveforms(self, netlist):
        """Raise if the voltages around a loop may differ over time: constant ones must add up to 0, and waveforms must cancel.
        ``netlist`` has the values."""
        v, waveforms = netlist["v"], netlist.waveforms
        for row in range(len(self)):
            part = slice(self.members.indptr[row], self.members.indptr[row + 1])
            constant, size, sums = 0.0, 0.0, {}
            for k, sign in zip(self.members.indices[part].tolist(), self.members.data[part].tolist()):
                if v.refs[k] < 0:
                    constant, size = constant + sign * v.values[k, 0], size + abs(v.values[k, 0])
                else:
                    kind, values = waveforms[v.refs[k]]
                    key = kind, tuple(values.tolist())
                    sums[key] = sums.get(key, 0.0) + sign
            if any(sums.values()) or not abs(constant) <= ROUNDING * size:
                raise self._error(row, "over time")

    def _error(self, row, how):
        names, place = self._named(row)
        a, b = self._netlist["v"].nodes[self.chords[row]].tolist()
        if a == b:
            at = "ground" if a < 0 else self._netlist.node_names[a]
            return SingularMatrixError(f"{place}: both ends of {names} are the same node, {at}, but its voltage is not 0", a)
        return SingularMatrixError(f"{place}: {names} form a loop of voltage sources that differ {how}: no voltages of the nodes fit them. "
                                   "Add a small resistor to the loop", max(a, b))

    def _named(self, row):
        """Names of the sources of a loop, the chord first, and ``FILE:LINE`` of the chord."""
        net, chord = self._netlist, int(self.chords[row])
        part = self.members.indices[self.members.indptr[row]:self.members.indptr[row + 1]].tolist()
        names = [net.name("v", k) for k in (chord, *(k for k in part if k != chord))]
        shown = names if len(names) <= LISTED else [*names[:LISTED], f"{len(names) - LISTED} more"]
        return " and ".join(shown), net.where("v", chord)


def _forest(n, ends):
    """Numbers of the edges of a spanning forest, which prefers earlier edges."""
    count, _ = connected_components(_graph(n, ends, np.ones(len(ends))), directed=False)
    if len(ends) == n - count:
        return np.arange(len(ends))
    low, high = ends.min(axis=1), ends.max(axis=1)
    _, first = np.unique(low.astype(np.int64) * n + high, return_index=True)      # one of parallel edges, the earliest
    first = first[low[first] != high[first]]
    tree = minimum_spanning_tree(_graph(n, ends[first], first + 1.0))
    return np.sort(tree.data.astype(np.int64) - 1)


def _loops(n, ends, forest, chords):
    """(row, edge, sign) of the loop of each chord: along the chord, then back through the forest."""
    label = connected_components(_graph(n, ends, np.ones(len(ends))), directed=False)[1]
    _, root = np.unique(label, return_index=True)
    above = np.stack([np.full(len(root), n), root], axis=1)         # an additional node above all roots
    edges = np.concatenate([ends[forest], above])
    _, parent = breadth_first_order(_graph(n + 1, edges, np.ones(len(edges))), n, directed=False)
    parent[parent == n] = -1
    up = np.full(n, -1)                                     # edge to the parent
    a, b = ends[forest].T
    child = np.where(parent[a] == b, a, b)
    up[child] = forest
    first = ends[:, 0]
    out = []
    for row, (chord, p, q) in enumerate(zip(chords.tolist(), *ends[chords].T.tolist())):
        out.append((row, chord, 1.0))
        back, forth = _trail(parent, q), _trail(parent, p)
        while back and forth and back[-1] == forth[-1]:
            back.pop(), forth.pop()
        for nodes, sign in ((back, 1.0), (forth, -1.0)):
            out += [(row, int(up[x]), sign if first[up[x]] == x else -sign) for x in nodes]
    return map(np.array, zip(*out))


def _trail(parent, x):
    """The nodes from x to the one below its root."""
    out = []
    while parent[x] >= 0:
        out.append(x)
        x = int(parent[x])
    return out


def _graph(n, ends, weights):
    return sp.csr_array((weights, (ends[:, 0], ends[:, 1])), shape=(n, n))
