"""Modified nodal analysis: a circuit as E diag(c) E' dx/dt + G x + devices(x) = s(t).

The unknowns are the node voltages, the voltages behind the series resistances of devices, and the currents of the elements that
define a voltage: v, l, e, h. Resistances far smaller than the others have unknown currents as well: their conductances would
cancel the digits of all others at their nodes. Each capacitor and inductor is one column of the incidence matrix E, so y = E' x
is its voltage or current. Assembly has no loop over elements: the positions of the triplets in the matrix are computed once, then
values are added at these positions. Source: Ho, Ruehli, Brennan 1975, "The modified nodal approach to network analysis".
"""

from __future__ import annotations

import copy
import functools

import numpy as np
import scipy.sparse as sp

from meshsolve import _core
from meshsolve.apps.circuit.devices import LETTERS as DEVICES
from meshsolve.apps.circuit.devices import Devices
from meshsolve.apps.circuit.names import lower, similar
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import without_warnings
from meshsolve.sparse.matrix import narrow_ptr

DENSE_ENTRIES = 96 ** 2             # largest dense matrix: its product costs less than a call of scipy, and BLAS uses one thread
BRANCHES = "vleh"                   # elements with a current among the unknowns, in this order
SMALL = 1e-9                        # share of the largest resistance below which a current is an unknown, so that digits are left
SMALLEST = 1e-6                     # ohm: larger resistances never have unknown currents


class Triplets:
    """Entries (row, column, value) of a matrix, without the row and the column of ground (-1)."""

    def __init__(self):
        self.parts = []

    def add(self, rows, columns, values):
        rows, columns, values = np.broadcast_arrays(rows, columns, np.asarray(values, np.float64))
        keep = (rows >= 0) & (columns >= 0)
        self.parts.append((rows[keep].astype(np.int32), columns[keep].astype(np.int32), values[keep]))

    def pair(self, plus, minus, columns, values):
        """Add the values to the rows ``plus`` and subtract them from the rows ``minus``."""
        self.add(plus, columns, values)
        self.add(minus, columns, -np.asarray(values))

    def branch(self, a, b, current):
        """Add unknown currents from nodes a to b. Their rows have the voltages between a and b."""
        self.pair(a, b, current, 1.0)
        self.add(current, a, 1.0)
        self.add(current, b, -1.0)

    def conductance(self, a, b, g):
        for i, j, value in ((a, a, g), (b, b, g), (a, b, -g), (b, a, -g)):
            self.add(i, j, value)

    def arrays(self):
        empty = np.empty(0, np.int32)
        rows, columns, values = zip(*self.parts) if self.parts else ((empty,), (empty,), (empty,))
        return np.concatenate(rows), np.concatenate(columns), np.concatenate(values).astype(np.float64)


class System:
    """The equations of a netlist.

    Attributes
    ----------
    n : int
        Number of unknowns. The first ``nodes`` are node voltages in the netlist's numbering.
    branch : dict of str to (k,) int32
        Unknown of the current of each v, l, e, h element.
    states : (m, n) csr_array, or an array for a small circuit with devices
        E': voltages of the capacitors, then currents of the inductors. ``inflow``, ``through`` and ``across`` have the same
        format.
    currents : (k,) int32
        Unknowns that are currents of branches and of small resistances.
    inflow : (n, m)
        E: capacitor currents leave nodes, inductor voltages enter the rows of their branches.
    storage : (m,) float64
        c: farad, then henry.
    devices : Devices
    through : (n, k)
        Currents of the device branches leave their first nodes and enter their second nodes. ``across`` is the transpose, (k, n).
    """

    def __init__(self, netlist, options):
        self.netlist, self._options = netlist, options
        self.nodes = n = len(netlist.node_names)
        self.devices, self.branch = Devices(netlist, options.gmin), {}
        n += len(self.devices.ohm)
        for letter in BRANCHES:
            self.branch[letter] = np.arange(n, n + len(netlist[letter]), dtype=np.int32)
            n += len(netlist[letter])
        ohm = np.concatenate([netlist["r"].values[:, 0], self.devices.ohm])
        self._small = _far_smaller(ohm)
        small = np.arange(n, n + len(self._small), dtype=np.int32)
        self.n = n = n + len(small)
        if n == 0:
            raise InvalidInputError(f"{netlist.path}: the deck has no element between two nodes")
        self.currents = np.concatenate([*self.branch.values(), small])
        self._pairs = np.concatenate([netlist["r"].nodes, self.devices.series])
        self.static = self._static(ohm)
        self._storage()
        self.current_inflow = self._incidence(netlist["i"].nodes, -1.0)
        self.through = self._dense_if_small(self._incidence(self.devices.nodes))
        self.across = self._dense_if_small(self._incidence(self.devices.nodes).T)

    @property
    def linear(self):
        """True if there is no nonlinear device."""
        return len(self.devices) == 0

    def far_smaller(self):
        """(resistors,) bool: the resistors whose currents are unknowns."""
        mask = np.zeros(len(self._pairs), dtype=bool)
        mask[self._small] = True
        return mask[:len(self.netlist["r"])]

    def with_values(self, netlist):
        """The equations of a netlist in which only values of elements differ. None if the unknowns would change, because other
        resistances are far smaller than the rest."""
        self.current_numbers                                # noqa: B018 - computed once, for all copies
        other = copy.copy(self)
        other.netlist = netlist
        if any(netlist[letter] is not self.netlist[letter] for letter in DEVICES):
            with without_warnings(MeshsolveWarning):        # the first circuit has warned of models
                other.devices = Devices(netlist, self._options.gmin)
        ohm = np.concatenate([netlist["r"].values[:, 0], other.devices.ohm])
        if not np.array_equal(_far_smaller(ohm), self._small):
            return None
        other.static, other.storage = other._static(ohm), other._stored()
        return other

    def pinned(self, nodes, siemens):
        """The triplets of G with conductances from nodes to ground: one value for all nodes, or one for each."""
        return tuple(map(np.append, self.static, (nodes, nodes, np.broadcast_to(siemens, len(nodes)))))

    def dynamic(self):
        """Triplets of E diag(c) E'."""
        t, net, inductors = Triplets(), self.netlist, self.branch["l"]
        t.conductance(*net["c"].nodes.T, net["c"].values[:, 0])
        t.add(inductors, inductors, -net["l"].values[:, 0])
        return t.arrays()

    def right_hand_side(self, volts, amperes):
        """The right-hand side s for the values of the voltage sources and of the current sources."""
        self.netlist.loops.require(volts)
        s = self.current_inflow @ amperes if len(amperes) else np.zeros(self.n, amperes.dtype)
        s[self.branch["v"]] = volts
        return s

    def branches(self):
        """Contributions of a time step to the right-hand side: the members of ``Branches`` in ``stepper.hpp``."""
        net = self.netlist
        pairs = {"capacitors": net["c"].nodes, "current_sources": net["i"].nodes, "device_ends": self.devices.nodes}
        return {name: np.ascontiguousarray(nodes, np.int32).reshape(-1) for name, nodes in pairs.items()} | {
            "n": self.n, "inductors": self.branch["l"], "voltage_sources": self.branch["v"], "storage": self.storage,
            "devices": self.devices.native}

    def device_voltages(self, x):
        """Voltages of the device branches."""
        return self.across @ x

    def describe(self, k):
        """Name of unknown k for messages."""
        if k < self.nodes:
            return f"node {self.netlist.node_names[k]}"
        for letter in BRANCHES:
            first = self.branch[letter]
            if len(first) and first[0] <= k <= first[-1]:
                return f"the current of {self._named(letter, int(k - first[0]))}"
        first, resistors = int(self.n - len(self._small)), len(self.netlist["r"])
        if k >= first and self._small[k - first] < resistors:
            return f"the current of {self._named('r', self._small[k - first])}"
        j = k - self.nodes if k < first else self._small[k - first] - resistors
        return f"a node inside {self._named(*self.devices.inner(j))}"

    def find(self, name):
        """(unknown, unknown) whose difference is the signal ``n1``, ``v(n1)``, ``v(n1,n2)`` or ``i(v1)``; -1 is ground. None if
        there is no such signal."""
        text, numbers = lower(name.strip()), self.netlist.node_numbers
        if text in numbers:
            return numbers[text], -1
        kind, ends = _signal(text)
        if kind == "i":
            return (self.current_numbers[ends[0]], -1) if ends[0] in self.current_numbers else None
        if kind == "v" and all(end in numbers for end in ends):
            return numbers[ends[0]], numbers[ends[1]] if len(ends) == 2 else -1
        return None

    def unknown(self, name):
        """As :meth:`find`, but an unknown signal is an error that suggests similar names."""
        if not isinstance(name, str):
            raise InvalidInputError(f"the name of a node must be a string, got {name!r}")
        found = self.find(name)
        if found is not None:
            return found
        kind, ends = _signal(lower(name.strip()))
        if kind == "i":
            raise InvalidInputError(f"{self.netlist.path}: there is no current i({ends[0]}), only those of V, L, E and H "
                                    f"elements{similar(ends[0], self.current_numbers, 'i({})')}")
        if kind == "v":
            return tuple(map(self.netlist.node, ends))      # raises
        element = lower(name.strip())
        if element in self.current_numbers:
            raise InvalidInputError(f"{self.netlist.path}: there is no node {name!r}; the current of that element is "
                                    f"'i({element})'")
        return self.netlist.node(name), -1                  # raises

    def signal_names(self):
        """{unknown: name}: nodes, then currents as ``i(v1)``."""
        return dict(enumerate(self.netlist.node_names)) | {k: f"i({name})" for name, k in self.current_numbers.items()}

    @functools.cached_property
    def current_numbers(self):
        """{element name: unknown of its current}, in ascending order of the unknowns."""
        names = self.netlist.element_names
        return {names[e]: k for letter in BRANCHES
                for e, k in zip(self.netlist[letter].names.tolist(), self.branch[letter].tolist())}

    def _dense_if_small(self, A):
        """A matrix in the format of its fastest product with a vector: dense for a small circuit with devices, else compressed
        rows."""
        small = not self.linear and A.shape[0] * A.shape[1] <= DENSE_ENTRIES
        return A.toarray() if small else sp.csr_array(A)

    def _static(self, ohm):
        """Triplets of G: of resistances, of small resistances with unknown currents, and of sources."""
        net, t = self.netlist, Triplets()
        small, pairs = self._small, self._pairs
        current = np.arange(self.n - len(small), self.n, dtype=np.int32)
        a, b = np.delete(pairs, small, axis=0).T
        t.conductance(a, b, 1 / np.delete(ohm, small))
        a, b = pairs[small].T
        t.branch(a, b, current)
        t.add(current, current, -ohm[small])
        for letter in BRANCHES:
            current = self.branch[letter]
            t.branch(*net[letter].nodes[:, :2].T, current)
        loops = net.loops.members.tocoo()                   # in ohm: see loops.py
        t.add(self.branch["v"][net.loops.chords[loops.row]], self.branch["v"][loops.col], loops.data)
        gain = net["e"].values[:, 0]
        t.add(self.branch["e"], net["e"].nodes[:, 2], -gain)
        t.add(self.branch["e"], net["e"].nodes[:, 3], gain)
        t.add(self.branch["h"], self.branch["v"][net["h"].refs], -net["h"].values[:, 0])
        a, b, c, d = net["g"].nodes.T
        t.pair(a, b, c, net["g"].values[:, 0])
        t.pair(a, b, d, -net["g"].values[:, 0])
        a, b = net["f"].nodes.T
        t.pair(a, b, self.branch["v"][net["f"].refs], net["f"].values[:, 0])
        return t.arrays()

    def _incidence(self, pairs, sign=1.0):
        """(n, k): each column has ``sign`` at its first node and ``-sign`` at its second node."""
        t, columns = Triplets(), np.arange(len(pairs))
        t.pair(pairs[:, 0], pairs[:, 1], columns, sign)
        rows, columns, values = t.arrays()
        return sp.csr_array((values, (rows, columns)), shape=(self.n, len(pairs)))

    def _storage(self):
        net, inductors = self.netlist, self.branch["l"]
        capacitors = self._incidence(net["c"].nodes)
        picked = sp.csr_array((np.ones(len(inductors)), (inductors, np.arange(len(inductors)))), shape=(self.n, len(inductors)))
        self.inflow = self._dense_if_small(sp.hstack([capacitors, -picked]))
        self.states = self._dense_if_small(sp.hstack([capacitors, picked]).T)
        self.storage = self._stored()

    def _stored(self):
        return np.concatenate([self.netlist[letter].values[:, 0] for letter in "cl"])

    def _named(self, letter, k):
        return f"{self.netlist.name(letter, k)} ({self.netlist.where(letter, k)})"


class Matrix:
    """G + a E diag(c) E' + devices in compressed rows. The pattern stays; new values are added at stored positions.

    Parameters
    ----------
    system : System
    dynamic : bool
        True if a may be nonzero. Otherwise the pattern has no entries of capacitors and inductors.
    pinned : (nodes, siemens), optional
        Conductances from nodes to ground.

    Attributes
    ----------
    indptr, indices : the pattern
    nodes : (nodes,) int
        Position of each node's diagonal among the entries. Empty without devices.
    slots, which, sign : (j,) arrays
        Conductances of the devices: ``sign * conductance[which]`` is added to the entries ``slots``.
    """

    def __init__(self, system, dynamic, pinned=None):
        static = system.pinned(*pinned) if pinned else system.static
        parts = [static, system.dynamic() if dynamic else Triplets().arrays(), *self._of_devices(system)]
        rows, columns = (np.concatenate([p[k] for p in parts]).astype(np.int32) for k in (0, 1))
        indptr, self.indices, slots = _core.circuit_pattern(system.n, rows, columns)
        self.n, self.indptr = system.n, narrow_ptr(indptr)      # int32 as the indices: scipy would widen them otherwise
        ends = np.cumsum([len(p[0]) for p in parts])
        self._positions = np.split(slots, ends[:-1])
        self.slots, self.nodes = self._positions[2:]
        self._fill(parts)

    def like(self, system, dynamic, pinned=None):
        """The matrix of a system in which only values of elements differ, on the same pattern."""
        other = copy.copy(self)
        static = system.pinned(*pinned) if pinned else system.static
        other._fill([static, system.dynamic() if dynamic else Triplets().arrays()])
        return other

    def linear(self, a=0.0):
        """The matrix without its devices."""
        return self.filled(self.static + a * self.moving if a else self.static)

    def with_devices(self, a, conductance, to_ground=0.0):
        """The matrix with real or complex conductances of the devices and a conductance from each node to ground."""
        data = self.base(a, to_ground)
        if np.iscomplexobj(conductance):
            return self.filled(data + self.of_devices(conductance.real) + 1j * self.of_devices(conductance.imag))
        return self.filled(data + self.of_devices(conductance))

    def base(self, a, to_ground=0.0):
        """(nnz,) entries without the devices, with a conductance from each node to ground. Read only."""
        if self._a != (a, to_ground):
            base = self.static + a * self.moving
            base[self.nodes] += to_ground
            self._base, self._a = base, (a, to_ground)
        return self._base

    def of_devices(self, conductance):
        """(nnz,) contributions of the devices to the entries."""
        return np.bincount(self.slots, self.sign * conductance[self.which], len(self.indices))

    def rows(self):
        """(nnz,) the row of each entry."""
        return np.repeat(np.arange(self.n), np.diff(self.indptr))

    def filled(self, data):
        """The csr_array with these entries."""
        return sp.csr_array((data, self.indices, self.indptr), shape=(self.n, self.n))

    def _fill(self, parts):
        self.static, self.moving = (np.bincount(at, part[2], len(self.indices)) for at, part in zip(self._positions, parts[:2]))
        self._base, self._a = None, None

    def _of_devices(self, system):
        """Triplets of the conductances of the devices, and zeros on the diagonal of all nodes for gmin stepping."""
        t, diagonal, devices = Triplets(), Triplets(), system.devices
        sign, which, nodes = [], [], devices.nodes
        for i, j, each in ((0, 0, 1.0), (1, 1, 1.0), (0, 1, -1.0), (1, 0, -1.0)):
            rows, columns = nodes[devices.rows, i], nodes[devices.columns, j]
            keep = np.flatnonzero((rows >= 0) & (columns >= 0))
            t.add(rows[keep], columns[keep], each)
            which.append(keep)
            sign.append(np.full(len(keep), each))
        self.which, self.sign = np.concatenate(which), np.concatenate(sign)
        if len(nodes):
            every = np.arange(system.nodes)
            diagonal.add(every, every, 0.0)
        return t.arrays(), diagonal.arrays()


def _far_smaller(ohm):
    """Numbers of the resistances whose currents must be unknowns."""
    return np.flatnonzero(np.abs(ohm) < min(SMALLEST, SMALL * np.abs(ohm).max(initial=0.0)))


def _signal(text):
    """Letter and names of ``v(n1)``, ``v(n1,n2)`` or ``i(v1)``; for other texts "" and no names."""
    ends = [end.strip() for end in text[2:-1].split(",")]
    fits = text[:2] in ("v(", "i(") and text.endswith(")") and all(ends) and len(ends) <= (2 if text[0] == "v" else 1)
    return (text[0], ends) if fits else ("", [])
