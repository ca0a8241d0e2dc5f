"""Nodes and elements of MSH files by their tags: versions 2 (rows with groups), 4.0 and 4.1 (blocks of entities, which have groups).

Source: Gmsh reference manual, "MSH file format" (4.1) and "Legacy formats" (2.2, 4.0). O(bytes).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.mesh.cursor import as_integers
from meshsolve.mesh.file_cells import LAGRANGE_CURVE, LAGRANGE_QUAD, LAGRANGE_TRIANGLE, unsupported

# Gmsh's types of elements with their numbers of nodes: lines, triangles and quadrilaterals of any order
LINES = {1: 2, 8: 3, 26: 4, 27: 5, 28: 6, 62: 7, 63: 8, 64: 9, 65: 10, 66: 11}
TRIANGLES = {2: 3, 9: 6, 20: 9, 21: 10, 22: 12, 23: 15, 24: 15, 25: 21, 42: 28, 43: 36, 44: 45, 45: 55, 46: 66, 52: 18, 53: 21, 54: 24,
             55: 27, 56: 30}
QUADS = {3: 4, 10: 9, 16: 8, 36: 16, 37: 25, 38: 36, 39: 12, 40: 16, 41: 20, 47: 49, 48: 64, 49: 81, 50: 100, 51: 121, 57: 24, 58: 28,
         59: 32, 60: 36, 61: 40}
SOLIDS = {4: "tetra", 5: "hexahedron", 6: "wedge", 7: "pyramid", 11: "tetra10", 12: "hexahedron27", 13: "wedge18", 14: "pyramid14",
          17: "hexahedron20", 18: "wedge15", 19: "pyramid13", 29: "tetra20"}
NODES = LINES | TRIANGLES | QUADS | {15: 1}
KINDS = ({type: LAGRANGE_CURVE for type in LINES} | {type: LAGRANGE_TRIANGLE for type in TRIANGLES}
         | {type: LAGRANGE_QUAD for type in QUADS} | {15: 1, 2: 5, 3: 9, 9: 22, 16: 23, 10: 28})       # VTK's kinds of cells


class Block(NamedTuple):
    """Elements of one type."""

    kind: int                       # VTK's kind of cell
    tags: np.ndarray                # (k,)
    nodes: np.ndarray               # (k, nodes of an element) tags of nodes
    physical: np.ndarray            # (k,) group, 0 for none
    geometrical: np.ndarray         # (k,) entity
    others: int = 0                 # number of elements with more groups or partitions


def read_nodes(cursor, version, size):
    """Return tags (n,) and positions (n, 3) of the section $Nodes. ``size`` is the type of sizes of version 4."""
    if version < 4:
        count = cursor.count("nodes")
        if not cursor.text:
            cursor.end_of_line()
        return _rows(cursor, count)
    blocks, count = (int(x) for x in cursor.integers(size, 2, "$Nodes"))
    if version > 4.05:
        cursor.integers(size, 2, "$Nodes")
    tags, points = [np.zeros(0, np.int64)], [np.zeros((0, 3))]
    for _ in range(blocks):
        first, second, parametric = cursor.integers("i4", 3, "a block of nodes")
        (rows,) = cursor.integers(size, 1, "a block of nodes")
        more = int(first if version > 4.05 else second) * int(parametric != 0)        # parameters on a curve, surface or solid
        if not 0 <= more <= 3:
            raise InvalidInputError(f"{cursor.where()}: a block of nodes has {more} parameters")
        own, x = _rows(cursor, int(rows), more) if version < 4.05 else (
            cursor.integers(size, int(rows), "$Nodes"), cursor.numbers("f8", int(rows) * (3 + more), "$Nodes").reshape(-1, 3 + more)[:, :3])
        tags.append(own)
        points.append(x)
    return _announced(np.concatenate(tags), count, "nodes"), np.concatenate(points)


def read_entities(cursor, version, size, partitioned=False):
    """Return the physical groups of each entity, {(dimension, tag): groups}, of $Entities or $PartitionedEntities."""
    out = {}
    if partitioned:
        cursor.integers(size, 1, "$PartitionedEntities")
        (ghosts,) = cursor.integers(size, 1, "$PartitionedEntities")
        cursor.integers("i4", 2 * int(ghosts), "$PartitionedEntities")
    for dimension, count in enumerate(cursor.integers(size, 4, "$Entities").tolist()):
        for _ in range(count):
            (tag,) = cursor.integers("i4", 1, "$Entities")
            if partitioned:
                cursor.integers("i4", 2, "$PartitionedEntities")
                (parts,) = cursor.integers(size, 1, "$PartitionedEntities")
                cursor.integers("i4", int(parts), "$PartitionedEntities")
            cursor.numbers("f8", 3 if dimension == 0 and version > 4.05 else 6, "$Entities")
            (groups,) = cursor.integers(size, 1, "$Entities")
            out[dimension, int(tag)] = cursor.integers("i4", int(groups), "$Entities").tolist()
            if dimension:
                (bounding,) = cursor.integers(size, 1, "$Entities")
                cursor.integers("i4", int(bounding), "$Entities")
    return out


def read_elements(cursor, version, size, groups):
    """Return the :class:`Block` s of the section $Elements; ``groups`` are those of :func:`read_entities`."""
    if version < 4:
        count = cursor.count("elements")
        blocks = list(_text_blocks(cursor) if cursor.text else _binary_blocks(cursor, count))
    else:
        number, count = (int(x) for x in cursor.integers(size, 2, "$Elements"))
        if version > 4.05:
            cursor.integers(size, 2, "$Elements")
        blocks = [_entity_block(cursor, version, size, groups) for _ in range(number)]
    _announced(range(sum(len(block.tags) for block in blocks)), count, "elements")
    return blocks


def _announced(rows, count, what):
    if len(rows) != count:
        raise InvalidInputError(f"the file announces {count} {what}, but it has {len(rows)}")
    return rows


def _rows(cursor, count, more=0):
    """Read rows of a tag, a position and ``more`` parameters."""
    if cursor.text:
        rows = cursor.numbers("f8", (4 + more) * count, "$Nodes").reshape(-1, 4 + more)
        return as_integers(rows[:, 0], "tags of nodes"), rows[:, 1:4]
    rows = cursor.numbers(np.dtype([("tag", "i4"), ("x", "f8", 3 + more)]), count, "$Nodes")
    return rows["tag"].astype(np.int64), rows["x"][:, :3]


def _entity_block(cursor, version, size, groups):
    """Read a block of version 4: the elements of one entity."""
    first, second, type = cursor.integers("i4", 3, "a block of elements").tolist()
    (count,) = cursor.integers(size, 1, "a block of elements")
    dimension, entity = (first, second) if version > 4.05 else (second, first)
    width, integer = _nodes_of(type) + 1, size if version > 4.05 else "i4"
    rows = cursor.integers(integer, int(count) * width, "$Elements").reshape(-1, width)
    own = groups.get((dimension, entity), [])
    return Block(KINDS[type], rows[:, 0], rows[:, 1:], np.full(len(rows), own[0] if own else 0), np.full(len(rows), entity),
                 len(rows) * (len(own) > 1))


def _binary_blocks(cursor, count):
    """Read the blocks of a binary file of version 2, until they have ``count`` elements."""
    cursor.end_of_line()
    while count > 0:
        type, number, tags = cursor.integers("i4", 3, "a block of elements").tolist()
        if number < 1 or tags < 0:
            raise InvalidInputError(f"a block of elements has {number} elements with {tags} tags each")
        width = 1 + tags + _nodes_of(type)
        yield _block(type, cursor.integers("i4", number * width, "$Elements").reshape(-1, width), 1, tags)
        count -= number


def _text_blocks(cursor):
    """Read the rows of a text of version 2: tag, type, number of tags, tags, nodes. Equal rows that follow each other are a block."""
    end = cursor.content.find(b"$", cursor.at)
    end = len(cursor.content) if end < 0 else end
    values, bad, _ = _core.read_numbers(cursor.content[cursor.at:end], 0)
    if bad >= 0:
        cursor.at += bad
        raise InvalidInputError(f"{cursor.where()}: {cursor.peek()[:20]!r} is not a number")
    values, at, cursor.at = as_integers(values, "$Elements"), 0, end
    while at < len(values):
        if at + 3 > len(values) or values[at + 2] < 0:
            raise InvalidInputError("the rows of $Elements do not fit their types: the file may be damaged")
        type, tags = (int(x) for x in values[at + 1:at + 3])
        width = 3 + tags + _nodes_of(type)
        rows = _equal_rows(values[at:], width)
        if rows == 0:
            raise InvalidInputError("the last row of $Elements is incomplete: the file may be truncated")
        yield _block(type, values[at:at + rows * width].reshape(-1, width), 3, tags)
        at += rows * width


def _equal_rows(values, width):
    """Return how many rows at the beginning have the type and the number of tags of the first. O(rows)."""
    most, tried = len(values) // width, 8
    while True:
        tried = min(tried, most)
        head = values[:tried * width].reshape(-1, width)[:, 1:3]
        other = (head != head[:1]).any(axis=1)
        if other.any():
            return int(other.argmax())
        if tried == most:
            return most
        tried *= 4


def _block(type, rows, first, tags):
    """Return the block of rows whose tags begin in column ``first``."""
    none = np.zeros(len(rows), np.int64)
    return Block(KINDS[type], rows[:, 0], rows[:, first + tags:], rows[:, first] if tags else none,
                 rows[:, first + 1] if tags > 1 else none, len(rows) * (tags > 2))


def _nodes_of(type):
    if type not in NODES:
        raise unsupported(SOLIDS.get(type, f"Gmsh's type {type}"))
    return NODES[type]
