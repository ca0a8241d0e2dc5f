"""Read text and binary PLY files, and write binary ones: positions and polygons in the order of the file, and all their data.

Rows with lists have variable length, so the rows of faces are read again for each list of data that they have.
Source: Turk 1994, "The PLY polygon file format".
"""

from __future__ import annotations

import codecs
import re
import sys
from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import ply_data
from meshsolve.mesh.cursor import LARGEST_EXACT
from meshsolve.mesh.polygons import Polygons, strips, without_small
from meshsolve.options import counted
from meshsolve.report import warn

# type letters of Python's struct module
LETTERS = {"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d",
           "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
           "float32": "f", "float64": "d"}
LONGEST_NUMBER = 100                # digits of a number of rows; Python reads at most 4300
WIDE = "qQ"                         # types with more digits than float64
FORMATS = {"ascii": sys.byteorder, "binary_little_endian": "little", "binary_big_endian": "big"}
HEADER = re.compile(rb"\s*ply[ \t]*(\r\n|\n|\r)(.*?[\r\n])end_header[ \t]*(?:\1|\r\n|\n|\r)", re.DOTALL | re.IGNORECASE)
CORNERS = ("vertex_indices", "vertex_index")
PADDING = b" \t\r\n\0\x1a"         # bytes allowed after the last row
END_OF_ROW = re.compile(rb"[ \t\0\x1a]*([\r\n]|\Z)")


class Element(NamedTuple):
    name: str
    rows: int
    properties: list[str]
    counts: list[str]           # per property: type letter of a list's length, " " for a single number
    items: list[str]            # per property: type letter of its numbers


def read_ply(content, name=""):
    """Read :class:`~meshsolve.mesh.polygons.Polygons`; triangle strips become triangles. Warnings begin with ``name``. O(bytes).

    Raises
    ------
    InvalidInputError
        Not a PLY file; fewer rows than announced, or a longer last row; a word that is not a number; a number that is not a vertex index.

    Warns
    -----
    MeshsolveWarning
        Properties were left out: lists of vertices, lists of faces whose lengths do not fit the corners, data of triangle strips.
        The file continues after the rows that its header announces.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    head = HEADER.match(content)
    if head is None:
        raise InvalidInputError("not a PLY file: there is no header from 'ply' to 'end_header'")
    order, text, elements = _header(head[2])
    body, at, swap = np.frombuffer(content, np.uint8), head.end(), order != sys.byteorder
    if text:
        (values, bad, _), at = _core.read_numbers(content, head.end()), 0
        body = values.view(np.uint8)
    polygons = Polygons(np.zeros((0, 3)), np.zeros(0, np.int64), np.zeros(0, np.int32))
    for element in elements:
        begin, wanted = at, _wanted(element)
        try:
            values, given, at = _rows(body, begin, element, wanted, text, swap)
        except InvalidInputError:
            _require_numbers(content, bad if text else -1)
            raise
        if element.name == "vertex":
            axes = np.argsort(np.argsort([element.properties.index(axis) for axis in "xyz"]))
            polygons = polygons._replace(vertices=values.reshape(-1, 3)[:, axes])
        elif wanted:
            corners = _indices(values)
            if element.name == "tristrips":
                corners = strips(given, corners).reshape(-1)
                given = np.full(len(corners) // 3, 3, np.int32)
            polygons = _without_data(polygons, name)._replace(corners=np.concatenate([polygons.corners, corners]),
                                                              counts=np.concatenate([polygons.counts, given]))
        if element.name == "vertex" or wanted:
            polygons = _with_data(polygons, _Rows(body, begin, element, text, swap), name)
    if text and at == len(body) and bad < 0:
        return without_small(polygons)
    if text:
        _, _, at = _core.read_numbers(content, head.end(), at // 8)
        if not END_OF_ROW.match(content, at):
            _require_numbers(content, bad)
            raise InvalidInputError(f"a row has more numbers than the header announces: line {content.count(bytes([10]), 0, at) + 1}")
    if surplus := content[at:].strip(PADDING):
        warn(f"{name}the file has {counted(len(surplus), 'byte')} after the rows that its header announces; they were ignored",
             MeshsolveWarning)
    return without_small(polygons)


def write_ply(mesh):
    """Return the bytes of a binary little-endian file of a :class:`~meshsolve.mesh.data.Surface`, with double coordinates.

    Raises
    ------
    InvalidInputError
        Data have the name of another property.
    """
    vertex, face = ply_data.properties_of(mesh.vertex_data), ply_data.properties_of(mesh.face_data)
    lists = [("vertex_indices", mesh.faces.astype("<i4", copy=False)), *ply_data.lists_of(mesh.corner_data)]
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(mesh.vertices)}"]
    vertex = [(list("xyz"), mesh.vertices.astype("<f8", copy=False)), *vertex]
    ply_data.require_distinct([name for names, _ in vertex for name in names], "vertex")
    ply_data.require_distinct([name for name, _ in lists] + [name for names, _ in face for name in names], "face")
    ply_data.warn_of_names(mesh.vertex_data, "vertex")
    ply_data.warn_of_names(mesh.face_data, "face")
    lines += [f"property {ply_data.type_name(x)} {name}" for names, x in vertex for name in names]
    lines.append(f"element face {len(mesh.faces)}")
    lines += [f"property list {'uchar' if x.shape[1] < 256 else 'uint'} {ply_data.type_name(x)} {name}" for name, x in lists]
    lines += [f"property {ply_data.type_name(x)} {name}" for names, x in face for name in names]
    counted = [part for _, x in lists for part in (np.full(len(x), x.shape[1], "u1" if x.shape[1] < 256 else "<u4"), x)]
    body = _packed([x for _, x in vertex]) + _packed([*counted, *(x for _, x in face)])
    return "\n".join([*lines, "end_header\n"]).encode() + body


def polygon_ply(vertices, indices, counts):
    """Return the bytes of a binary little-endian file of polygons with ``counts`` (m,) corners, with double coordinates."""
    lines = ["ply", "format binary_little_endian 1.0", f"element vertex {len(vertices)}", *(f"property double {axis}" for axis in "xyz"),
             f"element face {len(counts)}", "property list int int vertex_indices", "end_header\n"]
    rows = np.insert(indices.astype("<i4"), np.cumsum(counts) - counts, counts)
    return "\n".join(lines).encode() + vertices.astype("<f8").tobytes() + rows.tobytes()


def _header(lines):
    order, text, elements = None, False, []
    for line in re.split(r"[\r\n]+", lines.decode("utf-8", "replace").strip()):
        match line.split():
            case ["format", name, _] if name in FORMATS:
                order, text = FORMATS[name], name == "ascii"
            case ["element", name, rows] if rows.isdecimal() and len(rows) < LONGEST_NUMBER:
                if any(element.name == name for element in elements):
                    raise InvalidInputError(f"the header has two elements named {name[:60]!r}")
                elements.append(Element(name, int(rows), [], [], []))
            case ["property", "list", count, item, name] if elements and count in LETTERS and item in LETTERS:
                _add(elements[-1], name, LETTERS[count], LETTERS[item])
            case ["property", item, name] if elements and item in LETTERS:
                _add(elements[-1], name, " ", LETTERS[item])
            case []:
                pass
            case [word, *_] if word.startswith(("comment", "obj_info")):
                pass
            case _:
                raise InvalidInputError(f"{line[:60]!r} is not a line of a PLY header")
    if order is None:
        raise InvalidInputError("the header has no line 'format' for the encoding of the numbers")
    return order, text, elements


def _add(element, name, count, item):
    if name in element.properties and name in ("x", "y", "z", *CORNERS):
        raise InvalidInputError(f"the element {element.name} has two properties named {name}")
    element.properties.append(name)
    element.counts.append(count)
    element.items.append(item)


def _wanted(element):
    """Return the names of the properties that are read: coordinates or corners."""
    if element.name == "vertex":
        missing = [axis for axis in "xyz" if axis not in element.properties or element.counts[element.properties.index(axis)] != " "]
        if missing:
            raise InvalidInputError(f"the element vertex has no number named {missing[0]}")
        return set("xyz")
    if element.name not in ("face", "tristrips") or element.rows == 0:
        return set()
    lists = [name for name, count in zip(element.properties, element.counts) if count != " "]
    named = [name for name in lists if name in CORNERS] or lists
    if len(named) != 1:
        raise InvalidInputError(f"the element {element.name} must have one list named {' or '.join(CORNERS)}, got {named}")
    return {named[0]}


def _require_numbers(content, bad):
    """Raise if the word at byte ``bad`` of a text is no number; -1 stands for no word."""
    if bad >= 0:
        word = content[bad:bad + 20].split()[0].decode("latin-1")
        raise InvalidInputError(f"line {content.count(bytes([10]), 0, bad) + 1}: {word!r} is not a number")


def _rows(body, at, element, wanted, text, swap):
    """Read the element that begins at byte ``at``.

    Returns the numbers of the wanted properties, the count of each row, and the byte at which the element ends.
    """
    if not element.properties:
        return np.zeros(0), np.zeros(0, np.int32), at
    counts = "".join(element.counts)
    if text:
        counts = re.sub(r"\S", "d", counts)
    items = "d" * len(element.items) if text else "".join(element.items)
    chosen = "".join("y" if name in wanted else "n" for name in element.properties)
    values, given, end, bad, short = _core.read_rows(body, at, min(element.rows, len(body)), counts, items, chosen, swap)
    if bad >= 0 or len(given) < element.rows:
        row = bad if bad >= 0 else len(given)
        why = ": the file may be cut off" if short or bad < 0 else ""
        raise InvalidInputError(f"the header announces {element.rows} rows of {element.name}, but row {row} cannot be read{why}")
    return values, given, end


def _indices(values):
    wrong = ~(np.abs(values) <= LARGEST_EXACT) | (values != np.floor(values))
    if wrong.any():
        raise InvalidInputError(f"{values[wrong][0]:g} is not a vertex index")
    return values.astype(np.int64)


class _Rows(NamedTuple):
    """An element whose rows are complete, for further passes over its properties."""

    body: np.ndarray
    begin: int
    element: Element
    text: bool
    swap: bool

    def columns(self, names):
        """Return the numbers of properties without lists, by name, each (rows,) in the type of the header."""
        element, order = self.element, "=" if not self.swap or self.text else ">" if sys.byteorder == "little" else "<"
        if self.text or element.counts.count(" ") < len(element.counts):
            values = self.rows(names)[0].reshape(-1, len(names)).T
            return {name: self.typed(np.ascontiguousarray(x), name) for name, x in zip(names, values)}
        record = np.dtype([(f"{k}", order + item) for k, item in enumerate(element.items)])
        rows = np.frombuffer(self.body, record, element.rows, self.begin)
        return {name: _native(rows[f"{element.properties.index(name)}"]) for name in names}

    def list_of(self, name):
        """Return the numbers of a list row after row, in the type of the header, and the length of each row."""
        values, lengths, _ = self.rows([name])
        return self.typed(values, name), lengths

    def rows(self, names):
        """Read properties as float64. The bits of 64-bit integers are read as those of a float64, which has no room for all of them."""
        items = self.element.items if self.text else ["d" if item in WIDE else item for item in self.element.items]
        return _rows(self.body, self.begin, self.element._replace(items=items), set(names), self.text, self.swap)

    def typed(self, values, name):
        """Convert the numbers of :meth:`rows` to the type of the header; those of a text that are not of this type stay float64."""
        item = self.element.items[self.element.properties.index(name)]
        return values.view(item) if item in WIDE and not self.text else _typed(values, item)


def _without_data(polygons, name):
    """Leave out the data of the faces before other faces follow them, which have none."""
    if names := [*polygons.face_data, *polygons.corner_data]:
        warn(f"{name}left out {', '.join(map(repr, names))} of face: the triangle strips of the file have no such data", MeshsolveWarning)
    return polygons._replace(face_data={}, corner_data={})


def _with_data(polygons, rows, name):
    """Add the properties of an element other than positions and corners to the data of polygons."""
    element, wanted = rows.element, _wanted(rows.element)
    others = [p for p in dict.fromkeys(element.properties) if p not in wanted and element.properties.count(p) == 1]
    lists = [p for p in others if element.counts[element.properties.index(p)] != " "]
    scalars = [p for p in others if p not in lists]
    refused = lists if element.name == "vertex" else []
    several = len(polygons.counts) != element.rows
    if element.name == "tristrips" or element.name == "face" and several:
        refused, lists, scalars = others, [], []
    if scalars:
        key = "vertex_data" if element.name == "vertex" else "face_data"
        polygons = polygons._replace(**{key: ply_data.arrays_of(rows.columns(scalars))})
    corner_data = {}
    for p in lists if element.name == "face" else ():
        values, lengths = rows.list_of(p)
        found = ply_data.corners_of(values, lengths, polygons.counts)
        if found is not None:
            corner_data["uv" if p == ply_data.TEXCOORD else p] = found
        elif len(values):
            refused.append(p)
    if refused:
        warn(f"{name}left out {', '.join(map(repr, refused))} of {element.name}: "
             "only numbers of vertices and faces, and lists with equally many numbers for each corner are read", MeshsolveWarning)
    return polygons._replace(corner_data=corner_data) if corner_data else polygons


def _typed(values, letter):
    """Convert float64 to the type of the header; numbers that are not of this integer type, or beyond 2^53, stay float64."""
    dtype = np.dtype(letter)
    if letter in WIDE and values.size and not np.abs(values).max() < LARGEST_EXACT:
        return values
    with np.errstate(invalid="ignore", over="ignore"):
        out = values.astype(dtype)
    return out if dtype.kind == "f" or (out == values).all() else values


def _native(values):
    return values.astype(values.dtype.newbyteorder("="))


def _packed(arrays):
    """Return the bytes of the rows of arrays with equally many rows, side by side."""
    rows = np.empty(len(arrays[0]), [(f"{k}", x.dtype, x.shape[1:]) for k, x in enumerate(arrays)])
    for k, x in enumerate(arrays):
        rows[f"{k}"] = x
    return rows.tobytes()
