"""A deck as arrays: the result of the C++ reader, with names and locations."""

from __future__ import annotations

import copy
import dataclasses
import functools
import os
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.apps.circuit.devices import LETTERS as DEVICES
from meshsolve.apps.circuit.loops import Loops
from meshsolve.apps.circuit.names import lower, similar, times
from meshsolve.apps.circuit.parameters import Files, as_parameters
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.files import as_path
from meshsolve.options import as_number
from meshsolve.report import warn

TEXT = "<text>"             # file name of a deck that is given as text
SMALLEST_RESISTANCE = 1e-308            # ohm: smaller ones have no finite conductance
GROUND = ("0", "gnd")


@dataclass(frozen=True)
class Elements:
    """The elements of one letter, in the order of the deck.

    Attributes
    ----------
    nodes : (k, terminals) int32
        -1 is ground.
    values : (k, w) float64
        NaN for values that the deck does not give.

        - r: ohm
        - c: farad, initial volt
        - l: henry, initial ampere
        - v, i: dc, ac magnitude, ac phase in degrees
        - e, g, f, h: gain
        - devices: the parameters of their lines, temperature in degrees Celsius, m
    refs : (k,) int32
        v, i: number of the waveform or -1. f, h: number of the controlling voltage source. Devices: number of the model.
    names : (k,) int32
        Positions in :attr:`Netlist.element_names`.
    files, lines : (k,) int32
        File and line of the element.
    """

    nodes: np.ndarray
    values: np.ndarray
    refs: np.ndarray
    names: np.ndarray
    files: np.ndarray
    lines: np.ndarray

    def __len__(self):
        return len(self.names)


class Model(NamedTuple):
    """A .model line that elements use."""

    name: str
    type: str
    values: dict[str, float]
    place: str              # FILE:LINE


RESISTORS_ZERO = ("a resistor of 0 ohm is a source of 0 V and changes the equations: write it into the deck, or use a resistance that is "
                  "small compared with the others")


class Netlist:
    """The elements of a deck by letter, its waveforms, models and control lines, and the names of its nodes.

    Attributes
    ----------
    temperature, nominal_temperature : float
        Degrees Celsius: of the circuit (.temp), and of the parameters of models (.options tnom). Values of R, C and L are those
        at their temperatures.
    """

    def __init__(self, path, contents):
        self.path = path
        self.title = _text(contents["title"])
        self.files = [_text(f) for f in contents["files"]]
        self.groups = {letter: _elements(**arrays) for letter, arrays in contents["groups"].items()}
        self.waveforms = contents["waveforms"]                          # (kind, values): p pulse, s sin, e exp, w pwl
        self.models = [Model(name, type_, values, _location(where)) for name, type_, values, where in contents["models"]]
        self.controls = [(_text(text), _location(where)) for text, where in contents["controls"]]
        self.temperature, self.nominal_temperature = contents["temperature"], contents["nominal_temperature"]
        self._nodes, self._elements = contents["nodes"], contents["elements"]

    def __getitem__(self, letter):
        return self.groups[letter]

    @functools.cached_property
    def node_names(self):
        """List of str, with A to Z in lower case."""
        return _lines(self._nodes)

    @functools.cached_property
    def element_names(self):
        """List of str, with A to Z in lower case."""
        return _lines(self._elements)

    @functools.cached_property
    def node_numbers(self):
        """{name: number} of the nodes; ground is -1."""
        return dict(zip(self.node_names, range(len(self.node_names)))) | dict.fromkeys(GROUND, -1)

    @functools.cached_property
    def loops(self):
        """The :class:`Loops` of the voltage sources."""
        return Loops(self)

    def node(self, name, place=None):
        """The number of a node, -1 for ground. An unknown name raises InvalidInputError with ``place``, the line that has the
        name."""
        number = self.node_numbers.get(lower(name.strip())) if isinstance(name, str) else None
        if number is None:
            raise InvalidInputError(f"{place or self.path}: there is no node {name!r}{similar(name, self.node_numbers)}")
        return number

    def with_values(self, given):
        """The same netlist with other values: of R, C and L, dc values of V and I, gains of E, F, G and H, areas of devices.

        Parameters
        ----------
        given : mapping of str to number
            Values by element name.
        """
        numbers, new = self._numbers_of(given), _finite(given)
        self.node_numbers, self.loops                       # noqa: B018 - computed once, for all copies
        other, positions = copy.copy(self), self._positions[numbers]
        other.groups = dict(self.groups)
        for which in np.unique(positions[:, 0]).tolist():
            letter, mine = list(self.groups)[which], positions[:, 0] == which
            group, k = self.groups[letter], positions[mine, 1]
            self._require_settable(letter, k, new[mine])
            values = group.values.copy()
            values[k, 0] = new[mine]
            other.groups[letter] = dataclasses.replace(group, values=values)
        return other

    def values(self):
        """{name: value} of the elements that :meth:`with_values` accepts."""
        return {self.element_names[e]: value for letter, group in self.groups.items()
                for k, (e, value) in enumerate(zip(group.names.tolist(), group.values[:, 0].tolist()))
                if self._is_settable(letter, k)}

    def where(self, letter, k):
        """``FILE:LINE`` of element k of a letter."""
        group = self.groups[letter]
        return f"{self.files[group.files[k]]}:{group.lines[k]}"

    def name(self, letter, k):
        """The name of element k of a letter."""
        return self.element_names[self.groups[letter].names[k]]

    def _is_settable(self, letter, k):
        """True if element k of a letter has one value. A waveform has several, and a resistor of 0 ohm is a source without a
        value."""
        return letter not in "vi" or (self.groups[letter].refs[k] < 0 and not self._is_short(letter, k))

    def _is_short(self, letter, k):
        return letter == "v" and self.name(letter, k).rpartition(".")[2][0] == "r"

    def _require_settable(self, letter, k, values):
        """Raise if one of the elements k of a letter cannot have its new value."""
        bad = (np.abs(values) < SMALLEST_RESISTANCE if letter == "r" else values <= 0 if letter in DEVICES else np.zeros(len(k), bool))
        for j in np.flatnonzero(bad)[:1].tolist():
            kind = DEVICES.get(letter)
            why = f"the {kind.line[0][0]} of a {kind.name} must be positive" if kind else RESISTORS_ZERO
            raise InvalidInputError(f"{self.where(letter, k[j])}: {self.name(letter, k[j])} cannot be {values[j]:g}: {why}")
        for j in k.tolist() if letter in "vi" else ():
            name, shape = self.name(letter, j), self.groups[letter].refs[j]
            if shape >= 0:
                raise InvalidInputError(f"{self.where(letter, j)}: {name} has a waveform, not one value: make its numbers parameters "
                                        "of the deck, and set them with params= of read and parse")
            if self._is_short(letter, j):
                raise InvalidInputError(f"{self.where(letter, j)}: {name} is 0 ohm in the deck, a source of 0 V: {RESISTORS_ZERO}")

    def _numbers_of(self, given):
        """Numbers of the elements in ``given``."""
        known = self._element_numbers
        found = [known.get(name) for name in given]
        if None in found:
            found = [known.get(lower(name.strip())) if isinstance(name, str) else None for name in given]
        if None in found:
            name = list(given)[found.index(None)]
            what = f"there is no element {name!r}" if isinstance(name, str) else f"element names must be strings, got {name!r}"
            raise InvalidInputError(f"{self.path}: {what}{similar(name, known)}")
        if len(set(found)) < len(found):
            raise InvalidInputError(f"{self.path}: {_repeated(given)!r} is given twice: names ignore the case of letters")
        return np.array(found, dtype=np.int64)

    @functools.cached_property
    def _element_numbers(self):
        return {name: e for e, name in enumerate(self.element_names)}

    @functools.cached_property
    def _positions(self):
        """(elements, 2): the number of the element's letter, and its position among the elements of this letter."""
        positions = np.zeros((len(self.element_names), 2), dtype=np.int64)
        for which, group in enumerate(self.groups.values()):
            names = group.names
            positions[names] = np.stack([np.full(len(names), which), np.arange(len(names))], axis=1)
        return positions


def read_netlist(path, params=None):
    """Read a deck and the files it includes, which may be packed with gzip. Errors begin with ``FILE:LINE:``."""
    if isinstance(path, str) and "\n" in path and not os.path.exists(path):
        raise InvalidInputError("the path of a deck must not contain line breaks: to read a deck from a text, use "
                                "meshsolve.apps.circuit.parse(text)")
    path = as_path(path)
    return _netlist(path, Files(None, as_parameters(params)))


def parse_netlist(text, params=None):
    """Read a deck that is given as text. Included files are searched in the working directory."""
    if not isinstance(text, str):
        raise InvalidInputError(f"the text of a deck must be a string, got {type(text).__name__}: to read a file, use read(path)")
    return _netlist(TEXT, Files(text.encode(errors="surrogatepass"), as_parameters(params)))


def _finite(given):
    """The values of a mapping as float64. A value that is not a finite number is an error with its name."""
    if set(map(type, given.values())) <= {float, np.float64}:           # the usual case, fast for thousands of values
        new = np.array(list(given.values()), dtype=np.float64)
        if np.isfinite(new).all():
            return new
    return np.array([as_number(value, f"the value of {name}", -np.inf) for name, value in given.items()])


def _repeated(names):
    """The first name that differs from an earlier one only in case."""
    seen = set()
    return next(name for name in names if lower(name.strip()) in seen or seen.add(lower(name.strip())))


def _netlist(path, files):
    contents, notes, error = _core.read_netlist(os.fsencode(path), files.load)
    for what, where, count in notes if error is None else ():
        warn(f"{_location(where)}: {_text(what)}{times(count)}", MeshsolveWarning)
    if error is not None:
        raise InvalidInputError(f"{_location(error[1])}: {_text(error[0])}".removeprefix(": "))
    files.require_all_known(path)
    return Netlist(path, contents)


def _elements(arity, width, nodes, values, **others):
    return Elements(nodes.reshape(-1, arity), values.reshape(-1, width), **others)


def _lines(names):
    return names.decode(errors="replace").split("\n") if names else []


def _text(raw):
    return raw.decode(errors="replace")


def _location(where):
    """``FILE:LINE`` of a location from C++, or "" if the file itself could not be read."""
    file, line = where
    return f"{os.fsdecode(file)}:{line}" if line else ""
