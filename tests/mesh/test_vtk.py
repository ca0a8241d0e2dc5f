"""Files of VTK, legacy and XML: every encoding, pieces, strips, cells of higher order, names, damaged files."""

import base64
import struct
import warnings

import numpy as np
import pytest
from cases import each
from mesh import by_hand

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, load_mesh

POINTS = "0 0 0 1 0 0 1 1 0 0 1 0"
HEAD = "# vtk DataFile Version {}\na title\nASCII\nDATASET "
GRID = HEAD.format(3.0) + f"UNSTRUCTURED_GRID\nPOINTS 4 float\n{POINTS}\nCELLS 2 8\n3 0 1 2\n3 0 2 3\nCELL_TYPES 2\n5 5\n"
VTU = ('<?xml version="1.0"?><VTKFile type="UnstructuredGrid" version="0.1" byte_order="LittleEndian"><UnstructuredGrid>'
       '<Piece NumberOfPoints="4" NumberOfCells="2"><Points><DataArray type="Float64" NumberOfComponents="3" format="ascii">' + POINTS +
       '</DataArray></Points><Cells><DataArray type="Int64" Name="connectivity" format="ascii">0 1 2 0 2 3</DataArray><DataArray type="Int64" '
       'Name="offsets" format="ascii">3 6</DataArray><DataArray type="UInt8" Name="types" format="ascii">5 5</DataArray></Cells>'
       '<PointData></PointData></Piece></UnstructuredGrid></VTKFile>')


def read(tmp_path, content, suffix):
    """The mesh of a text, and the warnings."""
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", MeshsolveWarning)
        mesh = load_mesh(path)
    return mesh, [str(w.message).removeprefix(f"{path}: ") for w in said]


def assert_holds(mesh, c):
    faces, parent = c.faces()
    assert np.array_equal(mesh.vertices, c.points) and np.array_equal(mesh.faces, faces)
    for got, wanted, rows in ((mesh.vertex_data, c.point_data, slice(None)), (mesh.face_data, c.cell_data, parent)):
        assert set(got) == set(wanted)
        for name, x in wanted.items():
            assert got[name].dtype == x.dtype and np.array_equal(got[name], x[rows]), name


# ---- every variant


SURFACE = [by_hand.VERTEX, by_hand.LINE, by_hand.TRIANGLE, by_hand.STRIP, by_hand.POLYGON]


@each("kind", ["vtu", "vtp"])
@each("form", ["ascii", "binary", "raw", "base64"])
@each("compressor", ["", "vtkZLibDataCompressor", "vtkLZMADataCompressor"])
@each("order, header", [("<", "UInt32"), (">", "UInt64")])
def test_every_encoding_of_the_xml_formats(tmp_path, kind, form, compressor, order, header):
    rng = np.random.default_rng(len(form) + len(compressor))
    c = by_hand.case(rng, SURFACE + [by_hand.QUAD, by_hand.QUAD8] * (kind == "vtu"))
    c = by_hand.as_polydata(c) if kind == "vtp" else c
    assert_holds(read(tmp_path, by_hand.vtk_xml(c, kind, form, compressor, header, order), f".{kind}")[0], c)


@each("dataset", ["UNSTRUCTURED_GRID", "POLYDATA"])
@each("binary", [False, True])
@each("version", [3.0, 5.1])
@each("seed", range(3))
def test_every_variant_of_the_legacy_format(tmp_path, dataset, binary, version, seed):
    c = by_hand.case(np.random.default_rng(seed), SURFACE + [by_hand.TRIANGLE6] * (dataset == "UNSTRUCTURED_GRID"))
    c = by_hand.as_polydata(c) if dataset == "POLYDATA" else c
    content = by_hand.vtk(c, binary, version, dataset)
    assert_holds(read(tmp_path, content, ".vtk")[0], c)
    if binary:                                              # some writers put no end of line after binary numbers
        tight = content.replace(b"\nPOINT_DATA", b"POINT_DATA").replace(b"\nCELL_DATA", b"CELL_DATA").replace(b"\nCELL_TYPES", b"CELL_TYPES")
        assert_holds(read(tmp_path, tight, ".vtk")[0], c)


def test_pieces_follow_each_other(tmp_path):
    c = by_hand.case(np.random.default_rng(2), [by_hand.TRIANGLE])
    mesh, _ = read(tmp_path, by_hand.vtk_xml(c, "vtu", "raw", pieces=2), ".vtu")
    half = (len(c.cells) + 1) // 2
    assert np.array_equal(mesh.faces, c.faces()[0] + np.repeat([0, len(c.points)], [half, len(c.cells) - half])[:, None])
    assert all(np.array_equal(mesh.face_data[name], x) for name, x in c.cell_data.items()) and len(mesh.vertices) == 2 * len(c.points)
    piece = VTU[VTU.index("<Piece"):VTU.index("</UnstructuredGrid>")]
    array = '<DataArray type="Float32" Name="h" format="ascii">1 2 3 4</DataArray>'
    empty = '<Piece NumberOfPoints="0" NumberOfCells="0"><Points></Points><Cells></Cells></Piece>'
    text = VTU.replace(piece, piece.replace("<PointData>", "<PointData>" + array) + empty + piece)
    mesh, said = read(tmp_path, text, ".vtu")
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]] and said == ["left out 'h' (not in all pieces)"]


def test_texts_in_utf_16(tmp_path):
    text = VTU.replace('version="1.0"?', 'version="1.0" encoding="UTF-16"?')
    assert len(read(tmp_path, text.encode("utf-16"), ".vtu")[0].faces) == 2
    assert len(read(tmp_path, GRID.encode("utf-16"), ".vtk")[0].faces) == 2


def lz4(content):
    """LZ4 without copies: literals of at most 14 bytes, and one copy of the last bytes where they repeat."""
    assert len(content) == 40 and content[:8] == content[8:16]
    return bytes([0x84]) + content[:8] + struct.pack("<H", 8) + bytes([0xF0, 24 - 15]) + content[16:]


def test_lz4(tmp_path):
    """Five numbers, of which the second repeats the first; VTK writes blocks of this kind."""
    numbers = np.array([0.1, 0.1, 3, 4, 5], "<f8")
    block = lz4(numbers.tobytes())
    text = base64.b64encode(struct.pack("<4I", 1, 40, 0, len(block))) + base64.b64encode(block)
    vtu = VTU.replace("4\" NumberOfCells", "5\" NumberOfCells").replace(POINTS, POINTS + " 9 9 9").replace(
        "<VTKFile", '<VTKFile compressor="vtkLZ4DataCompressor"').replace(
        "<PointData>", f'<PointData><DataArray type="Float64" Name="h" format="binary">{text.decode()}</DataArray>')
    assert read(tmp_path, vtu, ".vtu")[0].vertex_data["h"].tolist() == numbers.tolist()
    for at in range(len(block)):                            # damaged blocks end with an error, or other numbers
        bad = bytearray(block)
        bad[at] ^= 0x55
        damaged = base64.b64encode(struct.pack("<4I", 1, 40, 0, len(block))) + base64.b64encode(bytes(bad))
        try:
            read(tmp_path, vtu.replace(text.decode(), damaged.decode()), ".vtu")
        except InvalidInputError as e:
            assert "the bytes of 'h' are damaged" in str(e)


# ---- cells and data of the legacy format


def test_attributes_of_the_legacy_format(tmp_path):
    """NORMALS, TEXTURE_COORDINATES and COLOR_SCALARS get the names with a meaning; texts are left out and named."""
    text = GRID + ("POINT_DATA 4\nSCALARS s float\nLOOKUP_TABLE mine\n1 2 3 4\nLOOKUP_TABLE mine 2\n0 0 0 1 1 1 1 1\nVECTORS v int\n" + "1 2 3 " * 4 +
                   "\nNORMALS n float\n" + "0 0 1 " * 4 + "\nTEXTURE_COORDINATES tc 2 float\n0 0 1 0 1 1 0 1\nCOLOR_SCALARS rgb 3\n" + "1 0 0.2 " * 4 +
                   "\nTENSORS T double\n" + "1 0 0 0 1 0 0 0 1\n" * 4 + "CELL_DATA 2\nFIELD f 2\nlabel 1 2 string\none%20\n\nMETADATA\nINFORMATION 0\n\n"
                   "a%20b 1 2 long\n9223372036854775807 -1\nGLOBAL_IDS ids vtkIdType\n4 5\n")
    mesh, said = read(tmp_path, text, ".vtk")
    assert {name: x.shape for name, x in mesh.vertex_data.items()} == {"s": (4,), "v": (4, 3), "normal": (4, 3), "uv": (4, 2), "color": (4, 3), "T": (4, 9)}
    assert mesh.vertex_data["color"].tolist() == [[255, 0, 51]] * 4 and mesh.vertex_data["v"].dtype == np.int32
    assert mesh.face_data["a b"].tolist() == [2**63 - 1, -1] and mesh.face_data["ids"].tolist() == [4, 5]
    assert said == ["left out 'label': only numbers with a row for each point or cell are read"]


@each("dataset, faces", [
    ("STRUCTURED_POINTS\nDIMENSIONS 2 1 3\nORIGIN 1 2 3\nSPACING 1 1 2\n", [[0, 1, 3], [0, 3, 2], [2, 3, 5], [2, 5, 4]]),
    ("RECTILINEAR_GRID\nDIMENSIONS 2 1 3\nX_COORDINATES 2 float\n1 2\nY_COORDINATES 1 float\n2\nZ_COORDINATES 3 float\n3 5 7\n", [[0, 1, 3], [0, 3, 2], [2, 3, 5], [2, 5, 4]]),
    ("STRUCTURED_GRID\nDIMENSIONS 2 1 3\nPOINTS 6 float\n1 2 3 2 2 3 1 2 5 2 2 5 1 2 7 2 2 7\n", [[0, 1, 3], [0, 3, 2], [2, 3, 5], [2, 5, 4]]),
])
def test_grids_of_rows_and_columns(tmp_path, dataset, faces):
    mesh, _ = read(tmp_path, HEAD.format(2.0) + dataset, ".vtk")
    assert mesh.faces.tolist() == faces and mesh.vertices[[0, 1, 5]].tolist() == [[1, 2, 3], [2, 2, 3], [2, 2, 7]]


def test_cells_of_higher_order_by_their_corners(tmp_path):
    points = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0.5, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0]]
    text = HEAD.format(3.0) + f"UNSTRUCTURED_GRID\nPOINTS 6 float\n{' '.join(str(x) for p in points for x in p)}\nCELLS 1 7\n6 0 1 2 3 4 5\nCELL_TYPES 1\n22\n"
    mesh, said = read(tmp_path, text, ".vtk")
    assert mesh.faces.tolist() == [[0, 1, 2]] and len(mesh.vertices) == 6
    assert said == ["1 face of higher order: read by their corners, as flat faces. Their other nodes stay as vertices without a face"]
    meshio = pytest.importorskip("meshio")
    for kind, nodes, corners in (("triangle6", 6, 3), ("triangle10", 10, 3), ("quad9", 9, 4), ("VTK_LAGRANGE_TRIANGLE", 15, 3)):
        with pytest.warns(MeshsolveWarning, match="1 face of higher order"):
            mesh = Mesh(meshio.Mesh(np.stack([np.cos(np.arange(nodes)), np.sin(np.arange(nodes))], axis=1), [("line3", [[0, 1, 2]]), (kind, [list(range(nodes))])]))
        assert mesh.faces.max() == corners - 1


def test_copies_of_cells_of_other_pieces_are_left_out(tmp_path):
    ghost = "CELL_DATA 2\nSCALARS vtkGhostType unsigned_char\nLOOKUP_TABLE default\n"
    mesh, said = read(tmp_path, GRID + ghost + "0 1\n", ".vtk")
    assert mesh.faces.tolist() == [[0, 1, 2]] and said == ["left out 1 face that 'vtkGhostType' marks as copies or hidden"]
    assert len(read(tmp_path, GRID + ghost + "8 0\n", ".vtk")[0].faces) == 2


# ---- writing


NAMES = ("p<0.05", "R&D", 'inner "x"', "größe", "a b", "100%", "%41", "two\nlines", "\ttab", "]]>", "T_0", "T_1", "é" * 300)


@each("suffix", [".vtu", ".vtp", ".vtk"])
def test_names_and_types_are_kept(tmp_path, suffix):
    types = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
    mesh = Mesh(np.eye(4, 3), [[0, 1, 2], [3, 2, 1]], vertex_data={name: np.arange(4).astype(types[k % 10]) for k, name in enumerate(NAMES)},
                face_data={name: np.arange(2 * k).reshape(2, k).astype(types[k % 10]) for k, name in enumerate(NAMES, 2)})
    mesh.vertex_data["normal"], mesh.vertex_data["uv"], mesh.vertex_data["long"] = np.ones((4, 3)), np.ones((4, 2)), np.full(4, 2**62 + 1)
    for _ in range(2):
        mesh.save(tmp_path / f"a{suffix}")
        again = load_mesh(tmp_path / f"a{suffix}")
        for got, wanted in ((again.vertex_data, mesh.vertex_data), (again.face_data, mesh.face_data)):
            assert list(got) == list(wanted)
            for name, x in wanted.items():
                assert np.array_equal(got[name], x) and (suffix == ".vtk" or got[name].dtype == x.dtype)
        mesh = again
    if suffix == ".vtu":
        meshio = pytest.importorskip("meshio")
        assert set(meshio.read(tmp_path / "a.vtu").point_data) == set(mesh.vertex_data)


def test_control_characters_cannot_stand_in_xml(tmp_path):
    mesh = Mesh(np.eye(3), [[0, 1, 2]], vertex_data={"a\x01": np.zeros(3)})
    with pytest.warns(MeshsolveWarning, match="is written as 'a_'"):
        mesh.save(tmp_path / "a.vtu")
    assert list(load_mesh(tmp_path / "a.vtu").vertex_data) == ["a_"]
    mesh.vertex_data["a_"] = np.ones(3)
    with warnings.catch_warnings(), pytest.raises(InvalidInputError, match="two arrays named 'a_'"):
        warnings.simplefilter("ignore")
        mesh.save(tmp_path / "b.vtu")


def test_meshio_reads_our_files(tmp_path):
    meshio = pytest.importorskip("meshio")
    mesh = Mesh(np.eye(4, 3), [[0, 1, 2], [3, 1, 0]], vertex_data={"t": np.arange(4), "v": np.ones((4, 3))}, face_data={"part": [5, 6]})
    for suffix in (".vtu", ".vtk"):
        mesh.save(tmp_path / f"a{suffix}")
        other = meshio.read(tmp_path / f"a{suffix}")
        assert np.array_equal(other.points, mesh.vertices) and np.array_equal(other.cells_dict["triangle"], mesh.faces)
        assert other.point_data["t"].tolist() == [0, 1, 2, 3] and other.cell_data["part"][0].tolist() == [5, 6]
        meshio.write(tmp_path / f"b{suffix}", other)
        assert load_mesh(tmp_path / f"b{suffix}").face_data["part"].tolist() == [5, 6]


# ---- damaged files


@each("change, says", [
    (("ASCII", "TEXT"), "not a legacy VTK file"), (("UNSTRUCTURED_GRID", "FIELD"), "DATASET FIELD is not supported: use UNSTRUCTURED_GRID or POLYDATA"),
    (("POINTS 4 float", "POINTS 5 float"), "POINTS needs 15 numbers, but the file has 12: line 7: 'CELLS' is not a number"),
    (("POINTS 4 float", "POINTS 99999999999999 float"), "line 5: the file announces 99999999999999 points, but it has"),
    (("float", "half"), "line 5: 'half' is not a type of VTK's numbers"), (("CELLS 2 8", "CELLS 3 8"), "CELLS announces 3 cells in 8 numbers"),
    (("3 0 2 3", "3 0 2 4"), "cell 1 refers to point 4; the points are 0..3"), (("3 0 2 3", "4 0 2 3"), "CELLS announces 2 cells in 8 numbers"),
    (("5 5\n", "5 10\n"), "cells of kind 'tetra' are not supported: pass a surface"), (("5 5\n", "5 9\n"), "cell 1 of kind 'quad' has 3 nodes"),
    (("5 5\n", "5 99\n"), "cells of kind '99' are not supported"), (("CELL_TYPES 2", "CELL_KINDS 2"), "'CELL_KINDS' is not a keyword"),
    (("CELL_TYPES 2\n5 5\n", "NORMALS n float\n"), "NORMALS must come after POINT_DATA or CELL_DATA"),
    (("CELL_TYPES 2\n5 5\n", ""), "the file has 2 cells, but CELL_TYPES has 0"),
    (("CELL_TYPES 2\n", f"POINT_DATA 4\nSCALARS a float {'9' * 5000}\n"), "'99999999999999999999' is not a number of columns"),
    (("DATASET UNSTRUCTURED_GRID\n", "DATASET STRUCTURED_GRID\nDIMENSIONS 4294967296 4294967296 1\n"), "4294967296 x 4294967296 x 1 points has 4 positions"),
    (("Version 3.0", f"Version {'3' * 5000}.0"), "not a legacy VTK file"),
    (("CELL_TYPES", "POINTS 1 float\n0 0 0\nCELL_TYPES"), "a second POINTS"), (("CELL_TYPES", "DATASET POLYDATA\nCELL_TYPES"), "a second DATASET"),
])
def test_damaged_legacy_files(tmp_path, change, says):
    with pytest.raises(InvalidInputError) as error:
        read(tmp_path, GRID.replace(*change, 1), ".vtk")
    assert str(error.value).startswith(f"{tmp_path / 'a.vtk'}: ") and says in str(error.value)


@each("grid, says", [
    ("RECTILINEAR_GRID\nDIMENSIONS 9000 9000 1\nX_COORDINATES 9000 float\n{0}\nY_COORDINATES 9000 float\n{0}\nZ_COORDINATES 1 float\n0", "out of proportion to the"),
    ("RECTILINEAR_GRID\nDIMENSIONS 8 9 1\nX_COORDINATES 9 float\n0 1 2 3 4 5 6 7 8\nY_COORDINATES 8 float\n0 1 2 3 4 5 6 7\nZ_COORDINATES 1 float\n0", "has 9 x 8 x 1 coordinates"),
    ("STRUCTURED_POINTS\nDIMENSIONS 9000 9000 1", "out of proportion to the"), ("STRUCTURED_GRID\nDIMENSIONS 4294967296 4294967296 1\nPOINTS 0 float", "points has 0 positions"),
])
def test_grids_in_proportion_to_their_bytes(tmp_path, grid, says):
    with pytest.raises(InvalidInputError, match=says):
        read(tmp_path, "# vtk DataFile Version 3.0\nt\nASCII\nDATASET " + grid.format("0 " * 9000) + "\n", ".vtk")


def test_a_small_grid_without_data(tmp_path):
    mesh, _ = read(tmp_path, "# vtk DataFile Version 3.0\nt\nASCII\nDATASET STRUCTURED_POINTS\nDIMENSIONS 100 1 100\n", ".vtk")
    assert (len(mesh.vertices), len(mesh.faces)) == (10000, 2 * 99**2)


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]>'


@each("change, says", [
    (("<VTKFile", BOMB + "<VTKFile"), "the file has an XML document type, <!DOCTYPE x>"), (("UnstructuredGrid\"", "ImageData\""), "a VTK file of type 'ImageData'"),
    (("<VTKFile", "<Other"), "the XML text is invalid"), (("</Cells>", ""), "the XML text is invalid"), (("LittleEndian", "Middle"), "byte_order='Middle'"),
    (('NumberOfPoints="4"', 'NumberOfPoints="5"'), "'Points' has 12 numbers, 15 are needed"), (('NumberOfPoints="4"', 'NumberOfPoints="-4"'), 'NumberOfPoints="-4"'),
    (('NumberOfCells="2"', 'NumberOfCells="99999999999"'), "'offsets' has 2 numbers, 99999999999 are needed"), (("0 2 3<", "0 2 4<"), "a cell refers to point 4"),
    (("3 6<", "6 3<"), "offsets must ascend, but cell 1 ends before it begins"), (("5 5<", "5 42<"), "cells of kind 'polyhedron'"),
    (("3 6<", "3 x<"), "'offsets' has 'x', which is not a number"), (('Name="types"', 'Name="kinds"'), "a piece of 2 cells has no types"),
    (('"Float64"', '"Float16"'), "'Points' has the type 'Float16'"), (('format="ascii">0 1 2', 'format="binary">0 1 2'), "the bytes of 'connectivity' are damaged"),
    (('format="ascii">0 1 2', 'format="appended" offset="9">0 1 2'), "'connectivity' begins at byte '9' of the appended data, which have 0"),
])
def test_damaged_xml_files(tmp_path, change, says):
    with pytest.raises(InvalidInputError) as error:
        read(tmp_path, VTU.replace(*change, 1), ".vtu")
    assert str(error.value).startswith(f"{tmp_path / 'a.vtu'}: ") and says in str(error.value)


def test_announced_sizes_are_compared_with_the_bytes(tmp_path):
    """Compressed blocks that announce terabytes, and unknown compressors."""
    array = '<PointData><DataArray type="Float64" Name="h" format="binary" NumberOfComponents="{}">{}</DataArray>'
    for compressor, width, header in (("vtkZLibDataCompressor", 10**7, (1, 4 * 8 * 10**7, 0, 8)), ("vtkZLibDataCompressor", 1, (2**31, 32, 0, 8)),
                                      ("vtkZLibDataCompressor", 1, (1, 32, 0, 2**31)), ("vtkOther", 1, (1, 32, 0, 8))):
        text = base64.b64encode(struct.pack("<4I", *header)) + base64.b64encode(bytes(8))
        vtu = VTU.replace("<VTKFile", f'<VTKFile compressor="{compressor}"').replace("<PointData>", array.format(width, text.decode()))
        with pytest.raises(InvalidInputError, match="the bytes of 'h' are damaged"):
            read(tmp_path, vtu, ".vtu")
