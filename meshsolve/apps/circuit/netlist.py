"""A deck as arrays: what the C++ reader made of it, with names and places."""

from __future__ import annotations

import difflib
import functools
import gzip
import os
import string
import zlib
from dataclasses import dataclass

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.files import as_path
from meshsolve.report import warn

GROUND = ("0", "gnd")
LETTERS = "rclviegfhd"
MOST_COMPARED = 10**5       # names; among more the similar ones are not looked for
LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
ARITY = {"e": 4, "g": 4}            # nodes of one element, where they are not two


@dataclass(frozen=True)
class Elements:
    """The elements of one letter, in the order of the deck.

    Attributes
    ----------
    nodes : (k, 2) or (k, 4) int32
        -1 is ground.
    values : (k, w) float64
        r: ohm; c: farad, initial volt; l: henry, initial ampere; v, i: dc, ac magnitude, ac phase in degrees; e, g, f, h: gain;
        d: area. NaN where the deck says nothing.
    refs : (k,) int32
        v, i: the waveform or -1; f, h: the controlling voltage source; d: the model.
    names : (k,) int32
        Into :attr:`Netlist.element_names`.
    files, lines : (k,) int32
        Where the element stands.
    """

    nodes: np.ndarray
    values: np.ndarray
    refs: np.ndarray
    names: np.ndarray
    files: np.ndarray
    lines: np.ndarray

    def __len__(self):
        return len(self.names)


class Netlist:
    """The elements of a deck by letter, its waveforms, models and control lines, and the names of its nodes."""

    def __init__(self, path, contents):
        self.path = path
        self.title = _text(contents["title"])
        self.files = [_text(f) for f in contents["files"]]
        self.groups = {letter: _elements(letter, contents["groups"][letter]) for letter in LETTERS}
        self.waveforms = contents["waveforms"]                          # (kind, values): p pulse, s sin, e exp, w pwl
        self.models = [(values, _place(where)) for _, values, where in contents["models"]]
        self.controls = [(_text(text), _place(where)) for text, where in contents["controls"]]
        self._nodes, self._elements = contents["nodes"], contents["elements"]

    def __getitem__(self, letter):
        return self.groups[letter]

    @functools.cached_property
    def node_names(self):
        """List of str, letters of ASCII in lower case."""
        return _lines(self._nodes)

    @functools.cached_property
    def element_names(self):
        """List of str, letters of ASCII in lower case."""
        return _lines(self._elements)

    @functools.cached_property
    def node_numbers(self):
        """Number of each node by its name; ground is -1."""
        return dict(zip(self.node_names, range(len(self.node_names)))) | dict.fromkeys(GROUND, -1)

    def node(self, name, place=None):
        """The number of a node, -1 for ground; an unknown name raises InvalidInputError with the place that names it."""
        number = self.node_numbers.get(lower(name.strip())) if isinstance(name, str) else None
        if number is None:
            raise InvalidInputError(f"{place or self.path}: there is no node {name!r}{similar(name, self.node_numbers)}")
        return number

    def where(self, letter, k):
        """``FILE:LINE`` of element k of a letter."""
        group = self.groups[letter]
        return f"{self.files[group.files[k]]}:{group.lines[k]}"

    def name(self, letter, k):
        """The name of element k of a letter."""
        return self.element_names[self.groups[letter].names[k]]


def read_netlist(path):
    """Read a deck and the files it includes, also packed with gzip; the errors name ``FILE:LINE:``."""
    path = as_path(path)
    contents, notes, error = _core.read_netlist(os.fsencode(path), _load)
    for what, where in notes if error is None else ():
        warn(f"{_place(where)}: {_text(what)}", MeshsolveWarning)
    if error is not None:
        raise InvalidInputError(f"{_place(error[1])}: {_text(error[0])}".removeprefix(": "))
    return Netlist(path, contents)


def lower(name):
    """The name as the reader keeps it: letters of ASCII in lower case, all others as they are."""
    return name.translate(LOWER)


def similar(name, known, form="{}"):
    """``: did you mean ...`` where known names are close, three at most, else nothing; ``form`` is how they are written."""
    if not isinstance(name, str) or len(known) > MOST_COMPARED:
        return ""
    close = [repr(form.format(other)) for other in difflib.get_close_matches(lower(name), known)]
    return f": did you mean {' or '.join(filter(None, (', '.join(close[:-1]), close[-1])))}?" if close else ""


def _load(path):
    """The bytes of a file and True, or what went wrong, as bytes, and False."""
    try:
        with (gzip.open if path.lower().endswith(".gz") else open)(path, "rb") as f:
            return f.read(), True
    except FileNotFoundError:
        return os.fsencode(f"{path}: there is no such file"), False
    except (OSError, EOFError, zlib.error) as e:
        return os.fsencode(f"{path}: cannot be read: {getattr(e, 'strerror', None) or e}"), False


def _elements(letter, arrays):
    k = len(arrays["names"])
    nodes = arrays["nodes"].reshape(k, ARITY.get(letter, 2))
    width = {"c": 2, "l": 2, "v": 3, "i": 3}.get(letter, 1)
    return Elements(nodes, arrays["values"].reshape(k, width), *(arrays[name] for name in ("refs", "names", "files", "lines")))


def _lines(names):
    return names.decode(errors="replace").split("\n") if names else []


def _text(raw):
    return raw.decode(errors="replace")


def _place(where):
    """``FILE:LINE`` of what C++ says, or nothing where the file itself could not be read."""
    file, line = where
    return f"{os.fsdecode(file)}:{line}" if line else ""
