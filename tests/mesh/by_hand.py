"""Files of VTK and Gmsh written word by word from their specifications, in every variant: the peers of the readers.

A :class:`Case` has cells of mixed kinds on points of a circle, so that polygons with ascending corners are convex, and data.
"""

import base64
import dataclasses
import lzma
import struct
import zlib
from xml.sax.saxutils import quoteattr

import numpy as np

VERTEX, LINE, TRIANGLE, STRIP, POLYGON, QUAD, TRIANGLE6, QUAD8 = 1, 3, 5, 6, 7, 9, 22, 23
SIZES = {VERTEX: 1, LINE: 2, TRIANGLE: 3, STRIP: 5, POLYGON: 5, QUAD: 4, TRIANGLE6: 6, QUAD8: 8}
CORNERS = {TRIANGLE6: 3, QUAD8: 4}
GMSH = {VERTEX: 15, LINE: 1, TRIANGLE: 2, QUAD: 3, TRIANGLE6: 9, QUAD8: 16}
LEGACY = {"i1": "signed_char", "u1": "unsigned_char", "i2": "short", "u2": "unsigned_short", "i4": "int", "u4": "unsigned_int",
          "i8": "vtktypeint64", "u8": "vtktypeuint64", "f4": "float", "f8": "double"}
XML = {"i1": "Int8", "u1": "UInt8", "i2": "Int16", "u2": "UInt16", "i4": "Int32", "u4": "UInt32", "i8": "Int64", "u8": "UInt64",
       "f4": "Float32", "f8": "Float64"}
NAMES = ["t", "p<0.05", "R&D", 'inner "x"', "größe", "a b", "100%", "]]>", "two\nlines", "T_0", "'q'"]


@dataclasses.dataclass
class Case:
    points: np.ndarray
    kinds: list
    cells: list
    point_data: dict
    cell_data: dict

    def faces(self):
        """The triangles in the order of the cells, and the cell of each."""
        out, parent = [], []
        for k, (kind, cell) in enumerate(zip(self.kinds, self.cells)):
            if kind in (VERTEX, LINE):
                continue
            ring = cell[:CORNERS.get(kind, len(cell))]
            if kind == STRIP:
                new = [[ring[i + i % 2], ring[i + 1 - i % 2], ring[i + 2]] for i in range(len(ring) - 2)]
            else:
                new = [[ring[0], ring[i + 1], ring[i + 2]] for i in range(len(ring) - 2)]
            out += new
            parent += [k] * len(new)
        return np.array(out).reshape(-1, 3), np.array(parent, int)


def case(rng, kinds, types=tuple(XML), names=NAMES):
    """A case with 2 to 8 cells of some kinds, at least one of them a triangle; arrays of all types with 1 to 4 columns."""
    n, m = 12, int(rng.integers(2, 9))
    angle = np.sort(rng.uniform(0, 2 * np.pi, n))
    points = np.stack([np.cos(angle), np.sin(angle), np.zeros(n)], axis=1)
    chosen = [int(rng.choice(kinds)) for _ in range(m - 1)] + [TRIANGLE]
    rng.shuffle(chosen)
    cells = []
    for kind in chosen:
        corners = np.sort(rng.choice(n, SIZES[kind], replace=False))
        if kind in CORNERS:                                # corners in ascending order, then the nodes of the sides
            corners = np.concatenate([np.sort(corners[:CORNERS[kind]]), corners[CORNERS[kind]:]])
        cells.append(corners.tolist())

    def data(rows):
        out = {}
        for name in rng.choice(names, min(3, len(names)), replace=False):
            dtype, width = np.dtype(str(rng.choice(types))), int(rng.integers(1, 5))
            x = (rng.standard_normal((rows, width)) if dtype.kind == "f" else rng.integers(0, 100, (rows, width))).astype(dtype)
            if dtype.itemsize == 8 and dtype.kind != "f":
                x[0] = 2**62 + 1
            out[str(name)] = x[:, 0] if width == 1 else x
        return out
    return Case(points, chosen, cells, data(n), data(m))


def words(x):
    """The shortest decimals of an array."""
    return " ".join(repr(v) for v in np.asarray(x).ravel().tolist())


# ---- MSH


def msh(c, rng, version, binary, order="<", size=8):
    """An MSH with nodes and elements in any order, tags with gaps, and data rows in another order, which lack a part of the tags.

    Returns the bytes, the permutation of the nodes (position in the file -> node), that of the elements, and the data with NaN.
    """
    n, m, size = len(c.points), len(c.cells), size if version > 4.05 else 8
    place, sequence = rng.permutation(n), rng.permutation(m)
    if version >= 4:                                        # blocks of one kind, groups of one entity
        sequence = np.array(sorted(sequence, key=lambda k: (c.kinds[k], k % 2)))
    tag, number = (rng.permutation(5 * k)[:k] + 1 for k in (n, m))
    physical, entity = [7 + k % 2 for k in range(m)], [1 + k % 2 for k in range(m)]
    w = Words(binary, order, size)
    w.line("$MeshFormat")
    w.line(f"{version} {int(binary)} {size}")
    if binary:
        w.put("i4", [1])
        w.line("")
    w.line("$EndMeshFormat")
    if version >= 4:
        entities(w, c, version)
    w.line("$Nodes")
    (nodes2 if version < 4 else nodes4)(w, c, version, place, tag)
    w.line("$EndNodes")
    w.line("$Elements")
    (elements2 if version < 4 else elements4)(w, c, version, sequence, tag, number, physical, entity)
    w.line("$EndElements")
    found = []
    for section, arrays, tags in (("NodeData", c.point_data, tag), ("ElementData", c.cell_data, number)):
        out = {}
        for name, x in arrays.items():
            rows = rng.permutation(len(x))[:int(rng.integers(len(x) // 2, len(x) + 1))]
            if section == "ElementData":                    # at least one face has a row
                rows = np.union1d(rows, [c.kinds.index(TRIANGLE)])
            out[name] = np.full(x.shape, np.nan)
            out[name][rows] = x[rows]
            width = 1 if x.ndim == 1 else x.shape[1]
            w.line(f'${section}\n1\n"{name}"\n1\n0.0\n3\n0\n{width}\n{len(rows)}')
            for k in rows:
                w.put("i4", [tags[k]])
                w.put("f8", x[k])
                w.end()
            w.line(f"$End{section}", first=binary)
        found.append(out)
    return w.bytes(), place, sequence, *found, np.array(physical), np.array(entity)


class Words:
    """Text or binary numbers of an MSH."""

    def __init__(self, binary, order, size):
        self.binary, self.order, self.size, self.parts = binary, order, size, []

    def put(self, dtype, values):
        values = np.asarray(values).reshape(-1)
        if self.binary:
            self.parts.append(values.astype(np.dtype(f"i{self.size}" if dtype == "size" else dtype).newbyteorder(self.order)).tobytes())
        else:
            self.parts.append((" ".join(repr(v) for v in values.tolist()) + " ").encode())

    def end(self):
        if not self.binary:
            self.parts.append(b"\n")

    def line(self, text, first=False):
        self.parts.append(("\n" * first + text + "\n").encode())

    def bytes(self):
        return b"".join(self.parts)


def entities(w, c, version):
    w.line("$Entities")
    w.put("size", [0, 0, 2, 0])
    for tag in (1, 2):
        w.put("i4", [tag])
        w.put("f8", [-1, -1, 0, 1, 1, 0])
        w.put("size", [1])
        w.put("i4", [8 if tag == 2 else 7])
        w.put("size", [2])
        w.put("i4", [-1, 2])
        w.end()
    w.line("$EndEntities", first=w.binary)


def nodes2(w, c, version, place, tag):
    w.line(str(len(place)))
    for k in place:
        w.put("i4", [tag[k]])
        w.put("f8", c.points[k])
        w.end()
    w.line("", first=False) if w.binary else None


def nodes4(w, c, version, place, tag):
    w.put("size", [2, len(place)] + ([1, 60] if version > 4.05 else []))
    w.end()
    for part, parametric in ((place[:5], 0), (place[5:], 1)):
        w.put("i4", ([2, 1] if version > 4.05 else [1, 2]) + [parametric])
        w.put("size", [len(part)])
        w.end()
        extra = [0.25, 0.5] * parametric
        if version > 4.05:
            w.put("size", tag[part])
            w.end()
        for k in part:
            if version < 4.05:
                w.put("i4", [tag[k]])
            w.put("f8", [*c.points[k], *extra])
            w.end()
    w.line("") if w.binary else None


def elements2(w, c, version, sequence, tag, number, physical, entity):
    w.line(str(len(sequence)))
    for k in sequence:
        type = GMSH[c.kinds[k]]
        nodes = tag[c.cells[k]]
        w.put("i4", [type, 1, 2, number[k], physical[k], entity[k], *nodes] if w.binary
              else [number[k], type, 2, physical[k], entity[k], *nodes])
        w.end()
    w.line("") if w.binary else None


def elements4(w, c, version, sequence, tag, number, physical, entity):
    blocks = []
    for k in sequence:
        key = (c.kinds[k], entity[k])
        if not blocks or blocks[-1][0] != key:
            blocks.append((key, []))
        blocks[-1][1].append(k)
    w.put("size", [len(blocks), len(sequence)] + ([1, 60] if version > 4.05 else []))
    w.end()
    for (kind, own), cells in blocks:
        w.put("i4", ([2, own] if version > 4.05 else [own, 2]) + [GMSH[kind]])
        w.put("size", [len(cells)])
        w.end()
        for k in cells:
            w.put("size" if version > 4.05 else "i4", [number[k], *tag[c.cells[k]]])
            w.end()
    w.line("") if w.binary else None


# ---- legacy VTK


def vtk(c, binary, version, dataset):
    """A legacy VTK; percent signs and blanks of names are written as %25 and so on."""
    def array(x):
        x = np.asarray(x)
        return x.astype(x.dtype.newbyteorder(">")).tobytes() if binary else words(x).encode() + b" "

    def cells(keyword, rows):
        flat = np.array([node for row in rows for node in row], np.int64)
        if version >= 5:
            offsets = np.cumsum([0, *map(len, rows)])
            return (f"{keyword} {len(offsets)} {len(flat)}\nOFFSETS vtktypeint64\n".encode() + array(offsets) + b"\nCONNECTIVITY vtktypeint64\n"
                    + array(flat) + b"\n")
        flat = np.array([x for row in rows for x in (len(row), *row)], np.int32)
        return f"{keyword} {len(rows)} {len(flat)}\n".encode() + array(flat) + b"\n"

    out = [f"# vtk DataFile Version {version}\nby hand\n{'BINARY' if binary else 'ASCII'}\nDATASET {dataset}\n".encode(),
           f"POINTS {len(c.points)} double\n".encode(), array(c.points), b"\n"]
    if dataset == "UNSTRUCTURED_GRID":
        out += [cells("CELLS", c.cells), f"CELL_TYPES {len(c.cells)}\n".encode(), array(np.array(c.kinds, np.int32)), b"\n"]
    else:
        for keyword, kind in (("VERTICES", VERTEX), ("LINES", LINE), ("POLYGONS", POLYGON), ("TRIANGLE_STRIPS", STRIP)):
            rows = [cell for cell, own in zip(c.cells, c.kinds) if section_of(own) == section_of(kind)]
            out += [cells(keyword, rows)] if rows else []
    for keyword, rows, data in (("POINT_DATA", len(c.points), c.point_data), ("CELL_DATA", len(c.cells), c.cell_data)):
        out.append(f"{keyword} {rows}\n".encode())
        for k, (name, x) in enumerate(data.items()):
            name = "".join(chr(b) if 32 < b < 127 and chr(b) not in '"%' else f"%{b:02X}" for b in name.encode())
            width, kind = 1 if x.ndim == 1 else x.shape[1], LEGACY[x.dtype.str[1:]]
            if k % 2:
                out.append(f"SCALARS {name} {kind} {width}\nLOOKUP_TABLE default\n".encode())
            else:
                out.append(f"FIELD FieldData 1\n{name} {width} {rows} {kind}\n".encode())
            out += [array(x), b"\n"]
            out.append(b"METADATA\nINFORMATION 0\n\n" if k == 0 else b"")
    return b"".join(out)


def section_of(kind):
    """The section of a PolyData, in the order of its cells."""
    return {VERTEX: 0, LINE: 1, STRIP: 3}.get(kind, 2)


def as_polydata(c):
    """The same case with its cells in the order of a PolyData."""
    order = sorted(range(len(c.cells)), key=lambda k: section_of(c.kinds[k]))
    return Case(c.points, [c.kinds[k] for k in order], [c.cells[k] for k in order], c.point_data, {name: x[order] for name, x in c.cell_data.items()})


# ---- VTK's XML


def vtk_xml(c, kind, form, compressor="", header="UInt32", order="<", pieces=1, block=40):
    """A VTU or VTP. ``form`` is "ascii", "binary", "raw" or "base64", the last two at the end of the file."""
    appended = []

    def packed(x):
        x = np.asarray(x)
        content, integer = x.astype(x.dtype.newbyteorder(order)).tobytes(), order + ("I" if header == "UInt32" else "Q")
        if not compressor:
            head = struct.pack(integer, len(content))
            return head + content if form == "raw" else base64.b64encode(head + content)
        blocks = [(zlib.compress if compressor == "vtkZLibDataCompressor" else lzma.compress)(content[at:at + block])
                  for at in range(0, len(content), block)]
        head = struct.pack(order + integer[1] * (3 + len(blocks)), len(blocks), block, len(content) % block, *map(len, blocks))
        return head + b"".join(blocks) if form == "raw" else base64.b64encode(head) + base64.b64encode(b"".join(blocks))

    def array(name, x, width=None):
        x = np.asarray(x)
        attributes = f'type="{XML[x.dtype.str[1:]]}" Name={quoteattr(name, {chr(10): "&#10;"})}'
        width = width or (1 if x.ndim == 1 else x.shape[1])
        attributes += f' NumberOfComponents="{width}"' if width > 1 else ""
        if form in ("raw", "base64"):
            attributes += f' format="appended" offset="{sum(map(len, appended))}"'
            appended.append(packed(x))
            return f"<DataArray {attributes}/>"
        text = words(x) if form == "ascii" else packed(x).decode()
        return f'<DataArray {attributes} format="{form}">\n  {text}\n</DataArray>'

    dataset = "UnstructuredGrid" if kind == "vtu" else "PolyData"
    text = [f'<?xml version="1.0"?>\n<VTKFile type="{dataset}" version="1.0" byte_order="{"LittleEndian" if order == "<" else "BigEndian"}" '
            f'header_type="{header}"' + (f' compressor="{compressor}"' if compressor else "") + f">\n<{dataset}>"]
    parts = np.array_split(np.arange(len(c.cells)), pieces)
    for own in parts:                                   # each piece has all points; those of piece p are numbered p n ...
        cells, kinds = [c.cells[k] for k in own], [c.kinds[k] for k in own]
        sections = [("Cells", cells)] if kind == "vtu" else [
            (name, [cell for cell, k in zip(cells, kinds) if section_of(k) == s]) for s, name in enumerate(("Verts", "Lines", "Polys", "Strips"))]
        counts = " ".join(f'NumberOf{name}="{len(rows)}"' for name, rows in sections)
        text.append(f'<Piece NumberOfPoints="{len(c.points)}" {counts}><Points>{array("Points", c.points)}</Points>')
        for name, rows in sections:
            arrays = [("connectivity", np.array([x for row in rows for x in row], np.int64)), ("offsets", np.cumsum([len(row) for row in rows], dtype=np.int32))]
            arrays += [("types", np.array(kinds, np.uint8))] if kind == "vtu" else []
            text.append(f"<{name}>" + "".join(array(label, x) for label, x in arrays) + f"</{name}>")
        text.append("<PointData>" + "".join(array(name, x) for name, x in c.point_data.items()) + "</PointData>")
        text.append("<CellData>" + "".join(array(name, x[own]) for name, x in c.cell_data.items()) + "</CellData></Piece>")
    text.append(f"</{dataset}>")
    if appended:
        text.append(f'<AppendedData encoding="{form}">\n  _')
        return "".join(text).encode() + b"".join(appended) + b"\n</AppendedData></VTKFile>"
    return ("".join(text) + "</VTKFile>").encode()
