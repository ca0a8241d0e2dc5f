"""The nonlinear devices of a circuit: parameters of their models, and currents and charges of all devices at once.

A device is a C++ file and its line in the table of ``devices.cpp``. ``device.hpp`` documents its declaration. The Python code
depends on the declarations alone and names no device.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.apps.circuit.names import similar
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.report import warn

TABLE = [SimpleNamespace(**kind) for kind in _core.device_table()]
LETTERS = {kind.letter: kind for kind in reversed(TABLE)}       # first kind of each letter; they share the element line
MAGNITUDE = 1e-100, 1e100           # range of nonzero parameters in which their products are finite
RATINGS = {"iave", "vpk", "ipk", "irms", "vceo", "icrating", "vrms", "pmax"}     # words of vendors in .model lines
# Test and description of each Range in device.hpp, in its order.
RANGES = (
    (lambda x: True, ""), (lambda x: x > 0, "be positive"), (lambda x: x >= 0, "be at least 0"),
    (lambda x: 0 <= x <= 1, "lie between 0 and 1"), (lambda x: 0 <= x < 1, "be at least 0 and less than 1"),
    (lambda x: x in (0, 1), "be 0 or 1"), (lambda x: x > -273.15, "be above -273.15"))


class Law(NamedTuple):
    """Currents and charges (branches,) of devices at given branch voltages, and their derivatives (entries,)."""

    current: np.ndarray
    conductance: np.ndarray
    charge: np.ndarray
    capacitance: np.ndarray


class Devices:
    """The nonlinear devices of a netlist, kind after kind in the order of the table.

    Attributes
    ----------
    nodes : (branches, 2) int32
        The nodes of each branch, behind series resistances: inner nodes follow those of the netlist.
    rows, columns : (entries,) int32
        Branch of the current and branch of the voltage of each derivative in a :class:`Law`.
    series : (j, 2) int32
        A terminal and the inner node behind it, for each series resistance that is positive.
    ohm : (j,) float64
        These resistances.
    stores : bool
        True if a device stores charge.
    """

    def __init__(self, netlist, gmin):
        self._netlist = netlist
        members = [_members(netlist, kind) for kind in TABLE]
        for kind in TABLE:
            self._require_sizes(kind)
        parts = [(np.array(models, float).reshape(-1), which, types, netlist[kind.letter].values[elements].reshape(-1))
                 for kind, (elements, which, types, models) in zip(TABLE, members)]
        self._made_of = parts, netlist.nominal_temperature, gmin
        self.native, resistances, wrong = _core.make_devices(*self._made_of)
        if wrong is not None:
            kind, k, parameter, value = wrong
            raise self._out_of_range(TABLE[kind], members[kind][0][k], parameter, value)
        self._elements = [elements for elements, *_ in members]
        row, self.columns = self.native.pattern()
        self.stores, self.rows = self.native.stores, np.repeat(np.arange(len(row) - 1), np.diff(row))
        self._place(resistances)
        self._one_branch = len(self.rows) == len(self.nodes)            # in each device

    def __getstate__(self):
        return self.__dict__ | {"native": None}

    def __setstate__(self, state):
        self.__dict__ |= state
        self.native = _core.make_devices(*self._made_of)[0]

    def __len__(self):
        return len(self.nodes)

    def inner(self, j):
        """(letter, number) of the element that has inner node j."""
        return next((letter, int(elements[j - first])) for letter, first, elements in self._inner if j < first + len(elements))

    def initial(self, x):
        """(branches,) voltages at time 0: those on the element lines, or else those between the terminals at node voltages x."""
        a, b = np.append(x, 0.0)[self._outside].T           # the appended 0 is ground, -1
        return np.where(np.isnan(self._given), a - b, self._given)

    def at(self, v):
        """The :class:`Law` at (branches,) voltages."""
        return Law(*self.native.laws(np.ascontiguousarray(v, np.float64)))

    def product(self, conductance, change):
        """(branches,) product of the (entries,) conductances with (branches,) changes of voltages."""
        if self._one_branch:
            return conductance * change
        return np.bincount(self.rows, conductance * change[self.columns], len(self.nodes))

    def sizes(self, conductance):
        """(entries,) absolute values of the mutual conductances, and the self-conductance of each branch with its sign. A branch
        with negative self-conductance converges only when its voltage stops moving."""
        return conductance if self._one_branch else np.where(self.rows == self.columns, conductance, np.abs(conductance))

    def voltage_tolerances(self, v, options):
        """(branches,) tolerance of the solution at voltages v, in volt."""
        return self.native.tolerances(v, options.reltol, options.vntol)

    def limited(self, v, before):
        """Voltages of the next linearization, limited so that exponential currents do not overflow. The array v itself if no
        voltage is limited."""
        limited, changed = self.native.limits(v, before)
        return limited if changed else v

    def _require_sizes(self, kind):
        net, values = self._netlist, self._netlist[kind.letter].values
        for column, (name, _, _, which, _) in enumerate(kind.line):
            x, positive = values[:, column], RANGES[which][1] == "be positive"
            for k in np.flatnonzero((x < MAGNITUDE[0]) | (x > MAGNITUDE[1]))[:positive]:
                raise InvalidInputError(f"{net.where(kind.letter, k)}: the {name} of {net.name(kind.letter, k)} must lie between "
                                        f"{MAGNITUDE[0]:g} and {MAGNITUDE[1]:g}, got {x[k]:g}")

    def _out_of_range(self, kind, k, parameter, value):
        net, celsius = self._netlist, self._netlist[kind.letter].values[k, -2]
        return InvalidInputError(f"{net.where(kind.letter, k)}: at {celsius:g} degrees Celsius the parameter {parameter} of "
                                 f"{net.name(kind.letter, k)} becomes {value:g}, out of range: check its temperature coefficients")

    def _place(self, resistances):
        """Number the inner nodes. Collect the nodes of the branches and their voltages at time 0."""
        first, nodes, outside, given, series, self._inner = len(self._netlist.node_names), [], [], [], [], []
        for kind, elements, ohm in zip(TABLE, self._elements, resistances):
            group = self._netlist[kind.letter]
            terminals = group.nodes[elements]
            inside, ohm = terminals.copy(), ohm.reshape(len(elements), len(kind.series))
            for (_, terminal), r in zip(kind.series, ohm.T):
                behind = np.flatnonzero(r > 0)
                inside[behind, terminal] = np.arange(first, first + len(behind))
                series.append((terminals[behind, terminal], inside[behind, terminal], r[behind]))
                self._inner.append((kind.letter, first - len(self._netlist.node_names), elements[behind]))
                first += len(behind)
            ends = np.array([branch[:2] for branch in kind.branches])
            nodes.append(np.concatenate([inside, terminals], axis=1)[:, ends].reshape(-1, 2))
            outside.append(terminals[:, ends % len(kind.terminals)].reshape(-1, 2))
            volts = np.full((len(elements), len(ends)), np.nan)
            for column, (*_, branch) in enumerate(kind.line):
                if branch >= 0:
                    volts[:, branch] = group.values[elements, column]
            given.append(volts.reshape(-1))
        self.nodes, self._outside, self._given = np.concatenate(nodes), np.concatenate(outside), np.concatenate(given)
        a, b, self.ohm = (np.concatenate(part) for part in zip(*series))
        self.series = np.stack([a, b], axis=1)


def _members(netlist, kind):
    """The elements of a kind, the model of each element and its type, and the parameters of the models."""
    used, which = np.unique(netlist[kind.letter].refs, return_inverse=True)
    mine = [k for k in used.tolist() if _level(kind, netlist.models[k]) == kind.level]
    number = np.full(len(used), -1, np.int32)
    number[np.searchsorted(used, mine)] = np.arange(len(mine))
    elements = np.flatnonzero(number[which] >= 0)
    which = number[which[elements]]
    types = np.array([kind.types.index(netlist.models[k].type) for k in mine], np.int32)
    return elements, which, types[which], [_parameters(kind, netlist.models[k]) for k in mine]


def _level(kind, model):
    """The level of a .model line. One of the kinds of this letter must have it."""
    levels = [other.level for other in TABLE if other.letter == kind.letter]
    level = model.values.get("level", levels[0])
    if level not in levels:
        raise InvalidInputError(f"{model.place}: level={level:g} of a {kind.name} is not supported: use {', '.join(map(str, levels))}")
    return level


def _parameters(kind, model):
    """The parameters of one .model line with their defaults. A value out of range is an error."""
    where, named = model.place, {kind.aliases.get(key, key): value for key, value in model.values.items()}
    defaults = {name: otherwise for name, _, otherwise, _ in kind.parameters}
    unknown = named.keys() - defaults.keys() - {*kind.ignored, "level"}
    if others := ", ".join(sorted(unknown & set(kind.unsupported))):
        raise InvalidInputError(f"{where}: the model {model.name!r} has {others} and is not the exponential one: this {kind.name} model "
                                "of other programs is not supported")
    if ratings := ", ".join(map(repr, sorted(unknown & RATINGS))):
        warn(f"{where}: ratings of the model {model.name!r} have no effect: {ratings}", MeshsolveWarning)
    for key in sorted(unknown - RATINGS):
        warn(f"{where}: the {kind.name} parameter {key!r} of the model {model.name!r} is unknown and has no effect"
             f"{similar(key, defaults)}", MeshsolveWarning)
    for name, _, otherwise, which in kind.parameters:
        value, (fits, must) = named.get(name, otherwise), RANGES[which]
        if name in named and not fits(value):
            raise InvalidInputError(f"{where}: the {kind.name} parameter {name} must {must}, got {value:g}")
        if name in named and value not in (0, otherwise) and not MAGNITUDE[0] <= abs(value) <= MAGNITUDE[1]:
            raise InvalidInputError(f"{where}: the absolute value of the {kind.name} parameter {name} must lie between "
                                    f"{MAGNITUDE[0]:g} and {MAGNITUDE[1]:g}, got {value:g}")
    return [named.get(name, otherwise) for name, otherwise in defaults.items()]
