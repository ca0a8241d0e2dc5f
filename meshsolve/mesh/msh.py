"""Read Gmsh's MSH files of versions 2 and 4, text and binary: the surface, its groups, the data of nodes and elements. Write version 2.2.

Nodes and elements have tags: positive numbers in any order. Rows of data begin with the tag of their node or element.
Source: Gmsh reference manual, "MSH file format" (4.1) and "Legacy formats" (2.2, 4.0). O(bytes), and sorts of the tags.
"""

from __future__ import annotations

import re

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.memory import ensure_memory
from meshsolve.mesh.cursor import LARGEST_EXACT, MOST_COLUMNS, Cursor, as_integers, whole
from meshsolve.mesh.data import joined_columns, warn_of_lost
from meshsolve.mesh.file_cells import CORNERS, Grid, colors_as_fractions, columns, surface_of
from meshsolve.mesh.msh_elements import read_elements, read_entities, read_nodes
from meshsolve.mesh.polygons import distinct_rows
from meshsolve.options import counted
from meshsolve.report import warn

PHYSICAL, GEOMETRICAL = "gmsh:physical", "gmsh:geometrical"         # face data with the group and the entity of each face
WIDTHS = (1, 3, 9)                      # numbers in a row of data: Gmsh shows numbers, vectors and tensors
GROUP = re.compile(r'(\d{1,9})\s+(-?\d{1,18})\s+"(.*)"')
UNWRITABLE = '["\n\r]'                   # characters that a name of data cannot have
SHOWN = 5                               # most names of groups in a warning


def read_msh(content, source=""):
    """Read the :class:`~meshsolve.mesh.data.Surface` of a file. Warnings begin with ``source``.

    Groups become face data ``"gmsh:physical"`` and ``"gmsh:geometrical"``. Nodes and elements without a row of data get NaN.

    Raises
    ------
    InvalidInputError
        Not an MSH file, a damaged one, another version, or solid cells.

    Warns
    -----
    MeshsolveWarning
        Names of groups, further groups of an element, partitions, further time steps, or rows of tags that do not exist were left out.
    """
    return surface_of(_Reader(content, source).grid(), source)


def write_msh(mesh):
    """Return the bytes of a binary file of version 2.2 of a :class:`~meshsolve.mesh.data.Surface`. Its data are float64.

    Colors become fractions. An array with another number of columns than 1, 3 or 9 is written column by column.
    """
    warn_of_lost(mesh, "MSH", vertex=mesh.vertex_data, face=mesh.face_data)
    n, m = len(mesh.vertices), len(mesh.faces)
    nodes = np.zeros(n, [("tag", "<i4"), ("x", "<f8", 3)])
    nodes["tag"], nodes["x"] = np.arange(1, n + 1), mesh.vertices
    groups = {name: mesh.face_data[name] for name in (PHYSICAL, GEOMETRICAL) if _is_group(mesh.face_data.get(name))}
    elements = np.zeros((m, 6), "<i4")                      # tag, groups, nodes
    elements[:, 0], elements[:, 3:] = np.arange(1, m + 1), mesh.faces + 1
    for column, name in ((1, PHYSICAL), (2, GEOMETRICAL)):
        elements[:, column] = groups.get(name, 0)
    head = np.array([2, m, 2] if m else [], "<i4")          # type of a triangle, number of elements, number of groups
    parts = [b"$MeshFormat\n2.2 1 8\n", np.int32(1).astype("<i4").tobytes(), b"\n$EndMeshFormat\n$Nodes\n%d\n" % n, nodes.tobytes(),
             b"\n$EndNodes\n$Elements\n%d\n" % m, head.tobytes(), elements.tobytes(), b"\n$EndElements\n"]
    faces = {name: x for name, x in mesh.face_data.items() if name not in groups}
    for section, data in (("NodeData", mesh.vertex_data), ("ElementData", faces)):
        for name, x in columns(colors_as_fractions(data), "MSH", UNWRITABLE, split=lambda width: width not in WIDTHS).items():
            parts += _section(section, name, x)
    return b"".join(parts)


class _Reader:
    """The sections as they are found in the file."""

    def __init__(self, content, source):
        self.cursor, self.source, self.version, self.size = Cursor(content), source, 0.0, "i8"
        self.tags, self.points, self.groups, self.blocks = np.zeros(0, np.int64), np.zeros((0, 3)), {}, []
        self.names, self.data, self.left_out = {}, {"NodeData": {}, "ElementData": {}}, []

    def grid(self):
        """Read the sections to the end of the file."""
        cursor = self.cursor
        while word := cursor.word():
            name = word.removeprefix("$")
            if name == word:                                    # text between sections is a comment
                cursor.line()
                continue
            if self.version == 0 and name not in ("MeshFormat", "Comments"):
                raise InvalidInputError(f"an MSH file must begin with $MeshFormat, got {word[:20]!r}")
            if self.section(name):
                if (end := cursor.word()) != f"$End{name}":
                    raise InvalidInputError(f"{cursor.where()}: the section ${name} must end with $End{name}, got {end[:20]!r}: the file "
                                            "may be damaged or truncated")
            else:
                cursor.skip_past(f"$End{name}")
        if self.version == 0:
            raise InvalidInputError("not an MSH file: it has no section $MeshFormat")
        return self.assembled()

    def section(self, name):
        """Read a section up to its end; return False if the section is skipped."""
        cursor = self.cursor
        if name == "MeshFormat":
            self.format()
        elif name == "PhysicalNames":
            for _ in range(cursor.count("names") if cursor.line() == "" else 0):
                line = cursor.line() or cursor.line()           # the first line is the rest of that of the number
                if match := GROUP.fullmatch(line):
                    self.names[int(match[1]), int(match[2])] = match[3]
        elif name in ("Entities", "PartitionedEntities"):
            self.begin()
            self.groups |= read_entities(cursor, self.version, self.size, name == "PartitionedEntities")
        elif name == "Nodes":
            self.begin()
            tags, points = read_nodes(cursor, self.version, self.size)
            self.tags, self.points = np.concatenate([self.tags, tags]), np.concatenate([self.points, points])
        elif name == "Elements":
            self.begin()
            self.blocks += read_elements(cursor, self.version, self.size, self.groups)
        elif name in self.data:
            self.read_data(name)
        else:
            if name == "ElementNodeData":
                self.left_out.append("data of the nodes of elements")
            return False
        return True

    def begin(self):
        """Skip the end of the line of the name of a section, after which binary numbers of version 4 begin."""
        if self.version >= 4 and not self.cursor.text:
            self.cursor.end_of_line()

    def format(self):
        """Read the version, whether numbers are binary, the size of integers, and the order of bytes."""
        cursor = self.cursor
        words = [cursor.word() for _ in range(3)]
        try:
            self.version, binary, size = float(words[0]), int(words[1]), int(words[2])
        except ValueError:
            raise InvalidInputError(f"$MeshFormat must have a version and two integers, got {' '.join(words)[:40]!r}") from None
        if not (2 <= self.version < 3 or 4 <= self.version < 4.15) or binary not in (0, 1) or size not in (4, 8):
            raise InvalidInputError(f"MSH of format {' '.join(words)[:40]!r} is not supported: use version 2.2 or 4.1")
        self.size = f"i{size}" if self.version > 4.05 else "i8"
        if binary:
            cursor.text = False
            cursor.end_of_line()
            one = cursor.content[cursor.at:cursor.at + 4]
            cursor.order, cursor.at = "<" if one[:1] == b"\1" else ">", cursor.at + 4
            if int.from_bytes(one, "little" if cursor.order == "<" else "big") != 1:
                raise InvalidInputError("a binary MSH file must have the integer 1 after its format")

    def read_data(self, section):
        """Read data of nodes or elements: names, times, then the step, the width and the number of rows; a row begins with a tag."""
        cursor = self.cursor
        count = cursor.count("strings")
        cursor.line()
        name = [cursor.line() for _ in range(count)][:1] or [""]
        name = name[0].removeprefix('"').removesuffix('"') or section
        for _ in range(cursor.count("real tags")):
            cursor.word()
        header = [cursor.word() for _ in range(cursor.count("integer tags"))]
        width, rows = [*map(whole, header[1:3]), -1, -1][:2]
        if min(width, rows) < 0 or width > MOST_COLUMNS:
            raise InvalidInputError(f"{cursor.where()}: ${section} {name!r} must have a step, a width and a number of rows")
        if width == 0:
            raise InvalidInputError(f"{cursor.where()}: ${section} {name!r} has rows without numbers")
        if cursor.text:
            values = cursor.numbers("f8", rows * (1 + width), f"${section}").reshape(rows, 1 + width)
            tags, values = as_integers(values[:, 0], f"tags of ${section}"), values[:, 1:]
        else:
            cursor.end_of_line()
            record = cursor.numbers(np.dtype([("tag", "i4"), ("x", "f8", (width,))]), rows, f"${section}")
            tags, values = record["tag"].astype(np.int64), record["x"]
        steps = self.data[section].setdefault(name, {})
        steps.setdefault((header[0], width), []).append((tags, values))          # parts of a partitioned mesh follow each other

    def assembled(self):
        """Return the :class:`~meshsolve.mesh.file_cells.Grid` with the data of each node and element."""
        none = np.zeros(0, np.int64)
        lists = [(np.full(len(b.tags), b.kind), np.full(len(b.tags), b.nodes.shape[1]), b.nodes.reshape(-1), b.tags, b.physical,
                  b.geometrical) for b in self.blocks]
        kinds, counts, nodes, tags, physical, geometrical = (np.concatenate([none, *parts]) for parts in zip((none,) * 6, *lists))
        at = _positions(self.tags, nodes)
        if (at < 0).any():
            k = int((at < 0).argmax())
            element = int(np.searchsorted(np.cumsum(counts), k, "right"))
            raise InvalidInputError(f"element {tags[element]} refers to node {nodes[k]}, which the file does not have")
        faces = CORNERS[kinds] != 0
        if self.version < 4 and (repeated := _repeated(at, counts, faces, physical, geometrical)).any():
            self.left_out.append(f"further groups of {counted(int(np.count_nonzero(repeated)), 'face')}")
            faces, kinds = faces & ~repeated, np.where(repeated, 0, kinds)
        self.say_what_is_lost(np.unique(physical[faces]))
        cell_data = self.arrays("ElementData", tags, faces)
        for name, x in ((PHYSICAL, physical), (GEOMETRICAL, geometrical)):
            if x[faces].any():
                cell_data.setdefault(name, x.astype(np.int32))
        point_data = self.arrays("NodeData", self.tags, np.ones(len(self.tags), bool))
        if self.left_out:
            warn(f"{self.source}left out {', '.join(self.left_out)}", MeshsolveWarning)
        return Grid(self.points, kinds, counts, at, point_data, cell_data)

    def arrays(self, section, tags, wanted):
        """Return an array for each name, NaN for nodes and elements without a row. Without a row of the wanted ones there is no array."""
        out = {}
        for name, steps in self.data[section].items():
            if len(steps) > 1:
                self.left_out.append(f"{len(steps) - 1} of {len(steps)} time steps of {name!r}, all but the last")
            (_, width), parts = list(steps.items())[-1]
            parts, given = [(rows, x) for rows, x in parts if len(rows)], np.zeros(len(tags), bool)
            if parts:
                ensure_memory(8 * len(tags) * width, f"{name!r} with {counted(width, 'number')} for each of {len(tags):,} tags")
                values = np.full((len(tags), width), np.nan)
            for rows, x in parts:
                if np.array_equal(rows, tags):
                    values, given = x, np.ones(len(tags), bool)
                    continue
                order = np.argsort(rows, kind="stable")
                at = np.searchsorted(rows[order], tags, "right") - 1
                found = (at >= 0) & (rows[order][at] == tags)
                values[found], given[found] = x[order[at[found]]], True
                if strange := int(np.count_nonzero(~np.isin(rows, tags))):
                    self.left_out.append(f"{counted(strange, 'row')} of {name!r} with tags that the file does not have")
            if given[wanted].any():
                out[name] = values[:, 0] if width == 1 else values
            else:
                self.left_out.append(f"{name!r}, which has no row for a {'node' if section == 'NodeData' else 'face'}")
        return joined_columns(out)

    def say_what_is_lost(self, physical):
        """Warn about the names of the groups of faces, and note their further groups."""
        named = [f"{number} is {name!r}" for (dimension, number), name in self.names.items() if dimension == 2 and number in physical]
        if named:
            more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
            warn(f"{self.source}names of groups are left out: in {PHYSICAL!r} {', '.join(named[:SHOWN])}{more}", MeshsolveWarning)
        if others := sum(block.others for block in self.blocks if CORNERS[block.kind]):
            self.left_out.append(f"further groups or partitions of {counted(others, 'face')}")


def _positions(tags, wanted):
    """Return the row of each wanted tag, -1 for a tag that no row has."""
    if len(tags) and (tags[1:] == tags[:-1] + 1).all():             # as most programs write them
        at = wanted - tags[0]
        return np.where((at >= 0) & (at < len(tags)), at, -1)
    order = np.argsort(tags, kind="stable")
    ordered = tags[order]
    if (twice := ordered[1:] == ordered[:-1]).any():
        raise InvalidInputError(f"two nodes have the tag {ordered[1:][twice][0]}")
    if len(tags) == 0:
        return np.full(len(wanted), -1)
    at = np.minimum(np.searchsorted(ordered, wanted), len(tags) - 1)
    return np.where(ordered[at] == wanted, order[at], -1)


def _repeated(nodes, counts, faces, physical, geometrical):
    """True for elements that repeat a face of their entity: version 2 has a face of several groups once for each of them."""
    out = np.zeros(len(counts), bool)
    if len(np.unique(physical[faces])) < 2:
        return out
    begin = np.cumsum(counts) - counts
    for count in np.unique(counts[faces]):
        rows = np.flatnonzero(faces & (counts == count))
        first, kind = distinct_rows(np.column_stack([geometrical[rows], nodes[begin[rows, None] + np.arange(count)]]))
        out[rows] = (first[kind] != np.arange(len(rows))) & (physical[rows] != physical[rows[first[kind]]])
    return out


def _is_group(x):
    """True for integers that MSH holds as tags of elements."""
    limit = np.iinfo(np.int32)
    return x is not None and x.ndim == 1 and x.dtype.kind in "iu" and (x.size == 0 or limit.min <= x.min() and x.max() <= limit.max)


def _section(section, name, x):
    """Return the parts of a section of data."""
    if x.dtype.kind in "iu" and x.size and not np.abs(x.astype(np.float64)).max() <= LARGEST_EXACT:
        warn(f"MSH holds float64: integers of {name!r} beyond 2^53 are rounded; save as PLY or VTU to keep all", MeshsolveWarning)
    width = 1 if x.ndim == 1 else x.shape[1]
    rows = np.zeros(len(x), [("tag", "<i4"), ("x", "<f8", (width,))])
    rows["tag"], rows["x"] = np.arange(1, len(x) + 1), x.reshape(-1, width)
    head = f'${section}\n1\n"{name}"\n1\n0.0\n3\n0\n{width}\n{len(x)}\n'
    return [head.encode(), rows.tobytes(), f"\n$End{section}\n".encode()]
