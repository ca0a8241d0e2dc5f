"""Read VTK's XML files of grids (VTU) and surfaces (VTP) with their data, in every encoding; write them.

A file has pieces, whose points and cells follow each other. The numbers of a DataArray stand in the text, in base64, or in one block at
the end of the file, raw or in base64. They may be compressed, in blocks, by zlib, LZMA or LZ4.
Source: "VTK File Formats", XML formats; vtkXMLDataParser.cxx and vtkXMLWriter.cxx of VTK 9. O(bytes).
"""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh.cursor import MOST_COLUMNS, as_integers, whole
from meshsolve.mesh.data import warn_of_lost
from meshsolve.mesh.file_cells import POLYGON, STRIP, Grid, columns, conventional, surface_of
from meshsolve.mesh.vtk_blocks import Encoding, array_of
from meshsolve.report import warn

APPENDED = re.compile(rb"<AppendedData\b[^>]*>\s*_")
UTF16 = re.compile(rb"\s*<\?xml[^>]*utf-16", re.IGNORECASE)
SECTIONS = (("Verts", 2), ("Lines", 4), ("Polys", POLYGON), ("Strips", STRIP))       # cells of a PolyData in the order of their data
ROLES = {"Normals": "normal", "TCoords": "uv"}
TYPES = {"u1": "UInt8", "i1": "Int8", "u2": "UInt16", "i2": "Int16", "u4": "UInt32", "i4": "Int32", "u8": "UInt64", "i8": "Int64",
         "f4": "Float32", "f8": "Float64"}
BLOCK = 1 << 20                     # bytes of a compressed block
ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"})
UNWRITABLE = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"         # characters that XML cannot hold


def read_vtk_xml(content, source=""):
    """Read the :class:`~meshsolve.mesh.data.Surface` of a file. Warnings begin with ``source``.

    Raises
    ------
    InvalidInputError
        Not such a file, a damaged one, another kind of data, an XML document type (which may define entities), or solid cells.

    Warns
    -----
    MeshsolveWarning
        Arrays were left out: texts, and arrays that not all pieces have.
    """
    match, blob = APPENDED.search(content), b""
    if match:
        blob, content = content[match.end():], content[:match.end() - 1] + b"</AppendedData></VTKFile>"
    root = _parsed(content)
    kind = root.get("type", "")
    if root.tag != "VTKFile" or kind not in ("UnstructuredGrid", "PolyData"):
        what = f"a VTK file of type {kind!r}" if root.tag == "VTKFile" else f"an XML file of <{root.tag}>"
        raise InvalidInputError(f"{what} is not supported: use UnstructuredGrid (.vtu) or PolyData (.vtp)")
    encoding = Encoding.of(root, blob)
    left_out = {}
    pieces = [_piece(piece, kind, encoding, left_out) for piece in root.findall(f"{kind}/Piece")]
    grid = _joined([piece for piece in pieces if len(piece.points) or len(piece.counts)], left_out)
    if left_out:
        warn(f"{source}left out {', '.join(f'{name!r} ({why})' for name, why in left_out.items())}", MeshsolveWarning)
    return surface_of(grid, source)


def write_vtk_xml(mesh, kind):
    """Return the bytes of a file of a :class:`~meshsolve.mesh.data.Surface`, compressed by zlib. ``kind`` is ".vtu" or ".vtp"."""
    warn_of_lost(mesh, kind[1:].upper(), vertex=mesh.vertex_data, face=mesh.face_data)
    n, m = len(mesh.vertices), len(mesh.faces)
    cells = [("connectivity", mesh.faces.reshape(-1).astype(np.int64)), ("offsets", np.arange(3, 3 * m + 1, 3, dtype=np.int64))]
    if kind == ".vtu":
        dataset, count, section = "UnstructuredGrid", f'NumberOfCells="{m}"', "Cells"
        cells.append(("types", np.full(m, 5, np.uint8)))
    else:
        dataset, count, section = "PolyData", f'NumberOfPolys="{m}"', "Polys"
    lines = ['<?xml version="1.0"?>',
             f'<VTKFile type="{dataset}" version="1.0" byte_order="LittleEndian" header_type="UInt64" compressor="vtkZLibDataCompressor">',
             f'<{dataset}><Piece NumberOfPoints="{n}" {count}>', "<Points>", _data_array("Points", mesh.vertices), "</Points>",
             f"<{section}>", *(_data_array(name, x) for name, x in cells), f"</{section}>"]
    for section, data in (("PointData", mesh.vertex_data), ("CellData", mesh.face_data)):
        arrays = columns(data, kind[1:].upper(), UNWRITABLE)
        roles = "".join(f' {label}="{role}"' for label, role in ROLES.items() if role in arrays)
        lines += [f"<{section}{roles}>", *(_data_array(name, x) for name, x in arrays.items()), f"</{section}>"]
    return "\n".join([*lines, f"</Piece></{dataset}></VTKFile>", ""]).encode()


def _parsed(content):
    """Return the root of a document. A document type is refused, because entities may grow without bound."""
    import xml.etree.ElementTree as ET

    class Builder(ET.TreeBuilder):
        def doctype(self, name, pubid, system):
            raise InvalidInputError(f"the file has an XML document type, <!DOCTYPE {name[:20]}>, which VTK files have not")

    converted = UTF16.match(content)                        # the bytes were UTF-16 and are UTF-8
    parser = ET.XMLParser(target=Builder(), encoding="utf-8" if converted else None)
    try:
        parser.feed(content.lstrip())
        return parser.close()
    except (ET.ParseError, ValueError, LookupError) as e:           # a name that is no encoding raises LookupError
        raise InvalidInputError(f"the XML text is invalid: {e}") from e


def _piece(piece, kind, encoding, left_out):
    """Return the :class:`~meshsolve.mesh.file_cells.Grid` of a piece."""
    n = _count(piece, "NumberOfPoints")
    sections = [("Cells", None)] if kind == "UnstructuredGrid" else SECTIONS
    counts = [_count(piece, f"NumberOf{'Cells' if kind == 'UnstructuredGrid' else name}") for name, _ in sections]
    points = piece.find("Points/DataArray")
    x = array_of(points, encoding, 3 * n, "Points").reshape(-1, 3) if points is not None and n else np.zeros((0, 3))
    if len(x) != n:
        raise InvalidInputError(f"a piece of {n} points has no Points")
    cells = [_cells(piece.find(name), number, count, encoding, n) for (name, number), count in zip(sections, counts)]
    kinds, lengths, nodes = (np.concatenate(parts) for parts in zip(*cells))
    data = [_data(piece.find(section), rows, encoding, left_out) for section, rows in (("PointData", n), ("CellData", sum(counts)))]
    return Grid(x, kinds, lengths, nodes, *data)


def _count(piece, name):
    """Return the number of things in a piece. It is checked against the bytes when they are read."""
    word = piece.get(name, "0").strip()
    if (count := whole(word)) < 0:
        raise InvalidInputError(f'{name}="{word[:20]}" is not a number of points or cells')
    return count


def _cells(section, number, count, encoding, n):
    """Return (kind of each cell, number of its nodes, nodes); ``number`` is the kind of all, or None."""
    none = np.zeros(0, np.int64)
    if count == 0:
        return none, none, none
    found = {} if section is None else {array.get("Name"): array for array in section.findall("DataArray")}
    if missing := [name for name in ("connectivity", "offsets", "types")[:2 if number else 3] if name not in found]:
        raise InvalidInputError(f"a piece of {count} cells has no {missing[0]}")
    ends = as_integers(array_of(found["offsets"], encoding, count, "offsets"), "offsets")
    lengths = np.diff(ends, prepend=0)
    if (lengths < 0).any():
        raise InvalidInputError(f"offsets must ascend, but cell {int((lengths < 0).argmax())} ends before it begins")
    nodes = as_integers(array_of(found["connectivity"], encoding, int(ends[-1]), "connectivity"), "connectivity")
    if nodes.size and (nodes.min() < 0 or nodes.max() >= n):
        raise InvalidInputError(f"a cell refers to point {nodes[(nodes < 0) | (nodes >= n)][0]}; the points of its piece are 0..{n - 1}")
    kinds = np.full(count, number) if number else as_integers(array_of(found["types"], encoding, count, "types"), "types")
    return kinds, lengths, nodes


def _data(section, rows, encoding, left_out):
    """Return the arrays of points or cells by name."""
    if section is None:
        return {}
    out = {}
    for array in (*section.findall("DataArray"), *section.findall("Array")):
        name = array.get("Name") or f"array {len(out)}"
        word = array.get("NumberOfComponents", "1").strip()
        width = whole(word)
        if array.get("type") in ("String", "Bit", "") or array.tag == "Array":
            left_out[name] = f"of type {array.get('type')}"
        elif name in out:
            left_out[name] = "twice in the file"
        elif not 0 < width <= MOST_COLUMNS:
            left_out[name] = f"{word[:20]!r} components"
        else:
            values = array_of(array, encoding, rows * width, name)
            out[name] = values.reshape(rows, width) if width != 1 else values
    return conventional(out, {role: section.get(label) for label, role in ROLES.items()})


def _joined(pieces, left_out):
    """Return the grid of all pieces. Arrays that a piece does not have, or with another width, are left out."""
    if not pieces:
        return Grid(np.zeros((0, 3)), *(np.zeros(0, np.int64),) * 3)
    if len(pieces) == 1:
        return pieces[0]
    first = np.cumsum([0, *(len(piece.points) for piece in pieces)])
    data = []
    for attribute in ("point_data", "cell_data"):
        arrays = [getattr(piece, attribute) for piece in pieces]
        common = [name for name in arrays[0] if len({a[name].shape[1:] if name in a else None for a in arrays}) == 1]
        left_out.update({name: "not in all pieces" for a in arrays for name in a if name not in common})
        data.append({name: np.concatenate([a[name] for a in arrays]) for name in common})
    return Grid(np.concatenate([piece.points for piece in pieces]), np.concatenate([piece.kinds for piece in pieces]),
                np.concatenate([piece.counts for piece in pieces]),
                np.concatenate([piece.nodes + begin for piece, begin in zip(pieces, first)]), *data)


def _data_array(name, x):
    """Return the text of an array: the sizes of its compressed blocks and the blocks, both in base64."""
    content = x.astype(x.dtype.newbyteorder("<"), copy=False).tobytes()
    blocks = [zlib.compress(content[at:at + BLOCK]) for at in range(0, len(content), BLOCK)]
    header = np.array([len(blocks), BLOCK, len(content) % BLOCK, *map(len, blocks)], "<u8").tobytes()
    width = "" if x.ndim == 1 else f' NumberOfComponents="{x.shape[1]}"'
    text = (base64.b64encode(header) + base64.b64encode(b"".join(blocks))).decode()
    return f'<DataArray type="{TYPES[x.dtype.str[1:]]}" Name="{name.translate(ESCAPED)}"{width} format="binary">\n{text}\n</DataArray>'
