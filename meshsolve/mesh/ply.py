"""Read text and binary PLY files, and write binary ones: positions and polygons in the order of the file.

Other properties (colors, normals, texture coordinates of corners) are ignored, so they never split a vertex.
Source: Turk 1994, "The PLY polygon file format".
"""

from __future__ import annotations

import codecs
import re
import sys
from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.mesh.polygons import strips, without_small

# type letters of Python's struct module
LETTERS = {"char": "b", "uchar": "B", "short": "h", "ushort": "H", "int": "i", "uint": "I", "float": "f", "double": "d",
           "int8": "b", "uint8": "B", "int16": "h", "uint16": "H", "int32": "i", "uint32": "I", "int64": "q", "uint64": "Q",
           "float32": "f", "float64": "d"}
FORMATS = {"ascii": sys.byteorder, "binary_little_endian": "little", "binary_big_endian": "big"}
HEADER = re.compile(rb"\s*ply[ \t]*(\r\n|\n|\r)(.*?[\r\n])end_header[ \t]*(?:\1|\r\n|\n|\r)", re.DOTALL | re.IGNORECASE)
CORNERS = ("vertex_indices", "vertex_index")
LARGEST_EXACT = 2.0 ** 53          # integers up to this bound are exact in float64
PADDING = b" \t\r\n\0\x1a"         # bytes allowed after the last row


class Element(NamedTuple):
    name: str
    rows: int
    properties: list[str]
    counts: list[str]           # per property: type letter of a list's length, " " for a single number
    items: list[str]            # per property: type letter of its numbers


def read_ply(content):
    """Read :class:`~meshsolve.mesh.polygons.Polygons`; triangle strips become triangles. O(bytes).

    Raises
    ------
    InvalidInputError
        Not a PLY file; more or fewer rows than announced; a word that is not a number; a number that is not a vertex index.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    head = HEADER.match(content)
    if head is None:
        raise InvalidInputError("not a PLY file: there is no header from 'ply' to 'end_header'")
    order, text, elements = _header(head[2])
    body, at = (_numbers(content, head.end()), 0) if text else (np.frombuffer(content, np.uint8), head.end())
    vertices, corners, counts = np.zeros((0, 3)), [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
    for element in elements:
        wanted = _wanted(element)
        values, given, at = _rows(body, at, element, wanted, text, order != sys.byteorder)
        if element.name == "vertex":
            vertices = values.reshape(-1, 3)[:, np.argsort(np.argsort([element.properties.index(axis) for axis in "xyz"]))]
        elif wanted:
            corners.append(_indices(values))
            if element.name == "tristrips":
                corners[-1] = strips(given, corners[-1]).reshape(-1)
                given = np.full(len(corners[-1]) // 3, 3, np.int32)
            counts.append(given)
    if at != len(body) and (text or content[at:].strip(PADDING)):
        surplus = (len(body) - at) // (8 if text else 1)
        raise InvalidInputError(f"the file has {surplus} more {'numbers' if text else 'bytes'} than its header announces")
    return without_small(vertices, np.concatenate(corners), np.concatenate(counts))


def _header(lines):
    order, text, elements = None, False, []
    for line in re.split(r"[\r\n]+", lines.decode("latin-1").strip()):
        match line.split():
            case ["format", name, _] if name in FORMATS:
                order, text = FORMATS[name], name == "ascii"
            case ["element", name, rows] if rows.isdecimal():
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


def _numbers(content, at):
    """Parse the text from byte ``at`` on and return the bytes of its numbers as float64."""
    values, bad = _core.read_numbers(content, at)
    if bad >= 0:
        word = content[bad:bad + 20].split()[0].decode("latin-1")
        raise InvalidInputError(f"line {content.count(bytes([10]), 0, bad) + 1}: {word!r} is not a number")
    return values.view(np.uint8)


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


def write_ply(vertices, faces, fields=None):
    """Return the bytes of a binary little-endian file with double coordinates, and ``fields``, name to (n,) float64, as properties."""
    fields = fields or {}
    for name in fields:
        if not re.fullmatch(r"[!-~]+", name) or name in ("x", "y", "z"):
            raise InvalidInputError(f"the name of a property must be one ASCII word other than x, y and z, got {name!r}")
    header = ("ply\nformat binary_little_endian 1.0\n"
              f"element vertex {len(vertices)}\n" + "".join(f"property double {name}\n" for name in ("x", "y", "z", *fields))
              + f"element face {len(faces)}\nproperty list uchar int vertex_indices\nend_header\n")
    rows = np.empty(len(faces), [("count", "u1"), ("corners", "<i4", 3)])
    rows["count"], rows["corners"] = 3, faces
    return header.encode() + np.column_stack([vertices, *fields.values()]).astype("<f8").tobytes() + rows.tobytes()
