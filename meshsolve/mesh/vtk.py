"""Read legacy VTK files, text and binary, of versions 1 to 5: grids and surfaces with their data; write version 4.2.

A file is a sequence of keywords, each with words and arrays. Binary arrays are big-endian. Names have no blanks: VTK writes ``%20``.
Source: "VTK File Formats", simple legacy formats; vtkDataReader.cxx and vtkDataWriter.cxx of VTK 9. O(bytes).
"""

from __future__ import annotations

import math
import re
import urllib.parse

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh.cursor import Cursor, as_integers, whole
from meshsolve.mesh.data import narrowed, warn_of_lost
from meshsolve.mesh.file_cells import POLYGON, STRIP, Grid, columns, conventional, surface_of
from meshsolve.report import warn

SAFE = "".join(chr(k) for k in range(33, 127) if chr(k) not in '"%')          # characters of names that VTK writes as they are
HEADER = re.compile(rb"\s*# *vtk DataFile Version (\d{1,4})\.\d+[^\n]*\n[^\n]*\n\s*(ascii|binary)\s*?\n", re.IGNORECASE)
TYPES = {"unsigned_char": "u1", "char": "i1", "signed_char": "i1", "unsigned_short": "u2", "short": "i2", "unsigned_int": "u4", "int": "i4",
         "unsigned_long": "u8", "long": "i8", "unsigned_long_long": "u8", "long_long": "i8", "float": "f4", "double": "f8",
         "vtkidtype": "i4", "vtktypeint8": "i1", "vtktypeuint8": "u1", "vtktypeint16": "i2", "vtktypeuint16": "u2", "vtktypeint32": "i4",
         "vtktypeuint32": "u4", "vtktypeint64": "i8", "vtktypeuint64": "u8", "vtktypefloat32": "f4", "vtktypefloat64": "f8"}
WRITTEN = {"u1": "unsigned_char", "i1": "signed_char", "u2": "unsigned_short", "i2": "short", "u4": "unsigned_int", "i4": "int",
           "u8": "vtktypeuint64", "i8": "vtktypeint64", "f4": "float", "f8": "double"}
TEXTS = ("string", "utf8_string", "variant")
CELLS = {"VERTICES": 2, "LINES": 4, "POLYGONS": POLYGON, "TRIANGLE_STRIPS": STRIP}          # kinds of cells of POLYDATA, in their order
ONCE = ("DATASET", "POINTS", "CELLS", "CELL_TYPES", "X_COORDINATES", "Y_COORDINATES", "Z_COORDINATES", *CELLS)
MOST_IMPLIED = 1 << 20              # points of a grid whose positions are not in the file, beyond the bytes of the file
WIDTHS = {"VECTORS": 3, "NORMALS": 3, "TENSORS": 9, "TENSORS6": 6, "GLOBAL_IDS": 1, "PEDIGREE_IDS": 1, "EDGE_FLAGS": 1}
ROLES = {"NORMALS": "normal", "TEXTURE_COORDINATES": "uv", "COLOR_SCALARS": "color"}


def read_vtk(content, source=""):
    """Read the :class:`~meshsolve.mesh.data.Surface` of a file. Warnings begin with ``source``.

    Raises
    ------
    InvalidInputError
        Not a legacy VTK file, a damaged one, another dataset than a grid or a surface, or solid cells.
    """
    head = HEADER.match(content)
    if head is None:
        raise InvalidInputError("not a legacy VTK file: it must begin with '# vtk DataFile Version', a title and ASCII or BINARY")
    cursor = Cursor(content, head[2].lower() == b"ascii")
    cursor.at = head.end()
    return surface_of(_Reader(cursor, int(head[1]), source).grid(), source)


def write_vtk(mesh):
    """Return the bytes of a binary file of a :class:`~meshsolve.mesh.data.Surface` with triangles as an UNSTRUCTURED_GRID.

    64-bit integers that fit into 32 bits are written as such, because VTK's type ``long`` depends on the system.
    """
    warn_of_lost(mesh, "VTK", vertex=mesh.vertex_data, face=mesh.face_data)
    n, m = len(mesh.vertices), len(mesh.faces)
    parts = [f"# vtk DataFile Version 4.2\nmeshsolve\nBINARY\nDATASET UNSTRUCTURED_GRID\nPOINTS {n} double\n", mesh.vertices,
             f"\nCELLS {m} {4 * m}\n", np.insert(mesh.faces, 0, 3, axis=1), f"\nCELL_TYPES {m}\n", np.full(m, 5, np.int32), "\n"]
    for keyword, rows, data in (("POINT_DATA", n, mesh.vertex_data), ("CELL_DATA", m, mesh.face_data)):
        if data:
            parts.append(f"{keyword} {rows}\nFIELD FieldData {len(data)}\n")
        for name, x in columns(data, "VTK").items():
            x, width = narrowed(x, ("i4", "u4")), 1 if x.ndim == 1 else x.shape[1]
            parts += [f"{urllib.parse.quote(name, safe=SAFE)} {width} {rows} {WRITTEN[x.dtype.str[1:]]}\n", x, "\n"]
    return b"".join(p.encode() if isinstance(p, str) else p.astype(p.dtype.newbyteorder(">")).tobytes() for p in parts)


class _Reader:
    """The datasets and their data as they are found in the file."""

    def __init__(self, cursor, version, source):
        self.cursor, self.version, self.source = cursor, version, source
        self.points = np.zeros((0, 3))
        self.cells, self.kinds, self.axes = {}, None, {}
        self.data = {"POINT_DATA": {}, "CELL_DATA": {}, "": {}}
        self.roles = {key: {} for key in self.data}
        self.section, self.rows = "", -1                        # of the data that follow
        self.left_out, self.found = [], set()

    def grid(self):
        """Read the keywords to the end of the file."""
        cursor, dataset = self.cursor, ""
        while keyword := cursor.word().upper():
            if keyword in ONCE and keyword in self.found:
                raise InvalidInputError(f"{cursor.where()}: a second {keyword}; a file has one dataset")
            self.found.add(keyword)
            if keyword == "DATASET":
                dataset = cursor.word().upper()
            elif keyword == "POINTS":
                count = cursor.count("points")
                self.points = self.array(self.type(), 3 * count, "POINTS").reshape(-1, 3)
            elif keyword in CELLS or keyword == "CELLS":
                self.cells[keyword] = self.connectivity(keyword)
            elif keyword == "CELL_TYPES":
                self.kinds = as_integers(self.array("i4", cursor.count("cells"), keyword), keyword)
            elif keyword in ("DIMENSIONS", "ORIGIN", "SPACING", "ASPECT_RATIO"):
                self.axes[keyword] = Cursor(cursor.line().encode()).numbers("f8", 3, keyword)
            elif keyword in ("X_COORDINATES", "Y_COORDINATES", "Z_COORDINATES"):
                count = cursor.count("coordinates")
                self.axes[keyword] = self.array(self.type(), count, keyword)
            elif keyword in ("POINT_DATA", "CELL_DATA"):
                self.section, self.rows = keyword, cursor.count("rows")
            else:
                self.attribute(keyword)
        names = [name for name in self.left_out if name]
        if names:
            warn(f"{self.source}left out {', '.join(map(repr, names))}: only numbers with a row for each point or cell are read",
                 MeshsolveWarning)
        return self.assembled(dataset)._replace(
            **{kind: conventional(self.data[key], self.roles[key])
               for kind, key in (("point_data", "POINT_DATA"), ("cell_data", "CELL_DATA"))})

    def type(self, word=None):
        """Read the name of a type: numpy's name of a type of numbers, "bit", or one of TEXTS."""
        word = self.cursor.word() if word is None else word
        if word.lower() not in (*TYPES, *TEXTS, "bit"):
            raise InvalidInputError(f"{self.cursor.where()}: {word[:20]!r} is not a type of VTK's numbers")
        return TYPES.get(word.lower(), word.lower())

    def array(self, dtype, count, what):
        """Read numbers, which begin on a new line if they are binary; None for text."""
        if not self.cursor.text:
            self.cursor.end_of_line()
        if dtype in TEXTS:
            return self.texts(count)
        if dtype != "bit":
            return self.cursor.numbers(dtype, count, what)
        if self.cursor.text:
            return self.cursor.numbers("u1", count, what)
        return np.unpackbits(self.cursor.numbers("u1", (count + 7) // 8, what), count=count)

    def texts(self, count):
        """Skip strings: lines of a text; binary ones begin with their length, in as many bytes as its first two bits say."""
        cursor = self.cursor
        if cursor.text:
            cursor.end_of_line()
        for _ in range(count):
            if cursor.at >= len(cursor.content):
                raise InvalidInputError(f"the file ends before {count} strings: it may be truncated")
            if cursor.text:
                cursor.line()
            else:
                size = (8, 4, 2, 1)[cursor.content[cursor.at] >> 6]
                length = int.from_bytes(cursor.content[cursor.at:cursor.at + size], "big") & (1 << (8 * size - 2)) - 1
                cursor.at += size + length

    def connectivity(self, keyword):
        """Read cells as (number of nodes of each, nodes). Before version 5 each cell begins with its number of nodes."""
        cursor = self.cursor
        rows, size = cursor.count("cells"), cursor.count("nodes")
        if self.version >= 5 and cursor.peek().upper() == "OFFSETS":
            cursor.word()
            offsets = as_integers(self.array(self.type(), rows, keyword), keyword)
            if cursor.word().upper() != "CONNECTIVITY":
                raise InvalidInputError(f"{cursor.where()}: {keyword} must have CONNECTIVITY after OFFSETS")
            nodes = as_integers(self.array(self.type(), size, keyword), keyword)
            if rows and (offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any()):
                raise InvalidInputError(f"OFFSETS of {keyword} must ascend from 0 to {size}")
            return np.diff(offsets), nodes
        values = as_integers(self.array("i4", size, keyword), keyword)
        numbers, counts, end, bad, _ = _core.read_rows(values.view(np.uint8), 0, min(rows, size), "q", "q", "y", False)
        if bad >= 0 or len(counts) < rows or end != values.nbytes:
            raise InvalidInputError(f"{keyword} announces {rows} cells in {size} numbers, but the numbers have another count of cells")
        return counts.astype(np.int64), numbers.astype(np.int64)

    def attribute(self, keyword):
        """Read data of points or cells, or skip what has no data."""
        cursor = self.cursor
        if keyword == "METADATA":                               # lines to the next empty one
            cursor.line()
            while cursor.at < len(cursor.content) and cursor.line():
                pass
        elif keyword == "FIELD":
            self.field()
        elif keyword == "LOOKUP_TABLE":                         # colors for scalars, not data of the mesh
            cursor.word()
            self.array("f4" if cursor.text else "u1", 4 * cursor.count("colors"), keyword)
        elif keyword == "SCALARS":
            name, kind, width, *_ = [*cursor.line().split(), "", "", ""][:3]
            cursor.at -= 1                                      # binary numbers begin after the end of this line or of the next
            if cursor.peek().upper() == "LOOKUP_TABLE":
                cursor.word(), cursor.word()
            count = whole(width) if width.isdecimal() else 1
            if count < 0:
                raise InvalidInputError(f"{cursor.where()}: {width[:20]!r} is not a number of columns")
            self.put(keyword, name, count, self.rows, self.type(kind))
        elif keyword == "COLOR_SCALARS":
            name, width = cursor.word(), cursor.count("columns")
            self.put(keyword, name, width, self.rows, "f4" if cursor.text else "u1")
        elif keyword == "TEXTURE_COORDINATES":
            name, width = cursor.word(), cursor.count("columns")
            self.put(keyword, name, width, self.rows, self.type())
        elif keyword in WIDTHS:
            self.put(keyword, cursor.word(), WIDTHS[keyword], self.rows, self.type())
        else:
            raise InvalidInputError(f"{cursor.where()}: {keyword[:20]!r} is not a keyword of a legacy VTK file")

    def field(self):
        """Read arrays of any width. Those before POINT_DATA and CELL_DATA belong to no point or cell."""
        cursor = self.cursor
        cursor.word()
        for _ in range(cursor.count("arrays")):
            if cursor.peek().upper() == "METADATA":
                self.attribute(cursor.word().upper())
            name = cursor.word()
            if name.upper() == "NULL_ARRAY":
                continue
            width, rows = cursor.count("columns"), cursor.count("rows")
            self.put("FIELD", name, width, rows, self.type())

    def put(self, keyword, name, width, rows, dtype):
        """Read an array and keep it under its name, if it has a row for each point or cell."""
        if self.rows < 0 and keyword != "FIELD":
            raise InvalidInputError(f"{self.cursor.where()}: {keyword} must come after POINT_DATA or CELL_DATA")
        name = urllib.parse.unquote(name)
        values, data = self.array(dtype, rows * width, f"{keyword} {name!r}"), self.data[self.section]
        if values is None or name in data or width == 0 or (self.section and rows != self.rows):
            self.left_out.append(name if self.section else "")
            return
        if keyword == "COLOR_SCALARS" and self.cursor.text:       # fractions of 255 in a text, bytes in a binary file
            values = np.rint(255 * np.clip(np.nan_to_num(values), 0, 1)).astype(np.uint8)
        data[name] = values.reshape(rows, width) if width != 1 else values
        if keyword in ROLES:
            self.roles[self.section].setdefault(ROLES[keyword], name)

    def assembled(self, dataset):
        """Return the :class:`~meshsolve.mesh.file_cells.Grid` of the dataset."""
        if dataset == "UNSTRUCTURED_GRID":
            counts, nodes = self.cells.get("CELLS", (np.zeros(0, np.int64),) * 2)
            kinds = self.kinds if self.kinds is not None else np.zeros(0, np.int64)
            if len(kinds) != len(counts):
                raise InvalidInputError(f"the file has {len(counts)} cells, but CELL_TYPES has {len(kinds)}")
            return Grid(self.points, kinds, counts, nodes)
        if dataset == "POLYDATA":
            found = [(kind, *self.cells[keyword]) for keyword, kind in CELLS.items() if keyword in self.cells]
            kinds = [np.full(len(counts), kind) for kind, counts, _ in found]
            none = [np.zeros(0, np.int64)]
            return Grid(self.points, *map(np.concatenate, (none + kinds, none + [x[1] for x in found], none + [x[2] for x in found])))
        if dataset in ("STRUCTURED_POINTS", "STRUCTURED_GRID", "RECTILINEAR_GRID"):
            return _structured(dataset, self.axes, self.points, len(self.cursor.content))
        raise InvalidInputError(f"DATASET {dataset or 'is missing'} is not supported: use UNSTRUCTURED_GRID or POLYDATA")


def _structured(dataset, axes, points, size_of_file):
    """Return the quadrilaterals of a grid of rows and columns of points; x is the fastest axis. Data take a byte for each point."""
    size = as_integers(axes.get("DIMENSIONS", np.zeros(3)), "DIMENSIONS")
    if sorted(size)[0] != 1 or sorted(size)[1] < 2:
        raise InvalidInputError(f"{dataset} of {' x '.join(map(str, size))} points is no surface: one dimension must be 1")
    count = math.prod(size.tolist())
    if dataset != "STRUCTURED_GRID":
        if count > max(size_of_file, MOST_IMPLIED):
            raise InvalidInputError(f"{dataset} of {' x '.join(map(str, size))} points is out of proportion to the {size_of_file:,} bytes "
                                    "of the file: it may be truncated")
        if dataset == "RECTILINEAR_GRID":
            x = [axes.get(f"{axis}_COORDINATES", np.zeros(0)) for axis in "XYZ"]
        else:
            origin, step = axes.get("ORIGIN", np.zeros(3)), axes.get("SPACING", axes.get("ASPECT_RATIO", np.ones(3)))
            x = [origin[k] + step[k] * np.arange(size[k]) for k in range(3)]
        if [len(axis) for axis in x] != size.tolist():
            raise InvalidInputError(f"{dataset} of {' x '.join(map(str, size))} points has {' x '.join(str(len(axis)) for axis in x)} "
                                    "coordinates")
        z, y, x = np.meshgrid(*x[::-1], indexing="ij")
        points = np.stack([x.reshape(-1), y.reshape(-1), z.reshape(-1)], axis=1)
    if count != len(points):
        raise InvalidInputError(f"{dataset} of {' x '.join(map(str, size))} points has {len(points)} positions")
    at = np.arange(len(points)).reshape([k for k in size[::-1] if k > 1])
    corners = np.stack([at[:-1, :-1], at[:-1, 1:], at[1:, 1:], at[1:, :-1]], axis=-1).reshape(-1)
    faces = len(corners) // 4
    return Grid(points, np.full(faces, 9), np.full(faces, 4), corners)
