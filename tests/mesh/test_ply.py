"""PLY files: text and both byte orders, properties of any kind, strips, and damaged files."""

import struct
import warnings

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsolve import datasets
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, load_mesh

PLY_TYPES = {"char": "b", "uchar": "B", "int16": "h", "uint": "I", "int": "i", "float": "f", "double": "d"}
PLY_FORMATS = ["ascii", "binary_little_endian", "binary_big_endian"]
POINTS = ("vertex", ["float x", "float y", "float z"], [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0), (9, 9, 9), (9, 9, 9)])
CORNER_LIST = "list uchar int vertex_indices"


def ply(tmp_path, how, *elements):
    """Write elements (name, ["list uchar int vertex_indices", "float q", ...], rows); list properties are lists in rows."""
    head, body = [f"ply\nformat {how} 1.0\ncomment made by hand\n"], []
    for name, properties, rows in elements:
        head.append(f"element {name} {len(rows)}\n" + "".join(f"property {p}\n" for p in properties))
        for row in rows:
            numbers = []
            for words, value in zip([p.split() for p in properties], row):
                numbers += [(words[1], len(value)), *[(words[2], v) for v in value]] if words[0] == "list" else [(words[0], value)]
            if how == "ascii":
                body.append(" ".join(f"{v:g}" for _, v in numbers).encode() + b"\n")
            else:
                order = ">" if "big" in how else "<"
                body += [struct.pack(order + PLY_TYPES[kind], v) for kind, v in numbers]
    path = tmp_path / "a.ply"
    path.write_bytes("".join(head).encode() + b"end_header\n" + b"".join(body))
    return path


@pytest.mark.native
@pytest.mark.parametrize("how", PLY_FORMATS)
@pytest.mark.parametrize("seam", [0.0, 0.25])
def test_texture_coordinates_of_corners_split_no_vertex(tmp_path, how, seam):
    """Texture coordinates as in MeshLab; at a seam a vertex has different ones in its second face."""
    rows = [((3, 1, 2), (1, 1, 1, 0, 0, 1), 0), ((0, 2, 1), (0, 0, seam, 1, 1, 0), 0)]
    mesh = load_mesh(ply(tmp_path, how, POINTS, ("face", [CORNER_LIST, "list uchar float texcoord", "int texnumber"], rows)))
    assert mesh.vertices.tolist() == [list(map(float, p)) for p in POINTS[2]] and mesh.faces.tolist() == [[3, 1, 2], [0, 2, 1]]


@pytest.mark.native
@pytest.mark.parametrize("how", PLY_FORMATS)
@pytest.mark.parametrize("count, item", [("uchar", "int"), ("int", "uint"), ("char", "int16")])
def test_polygons_of_a_ply_are_fanned_in_file_order(tmp_path, how, count, item):
    points = ("vertex", POINTS[1], [(0, 0, 0), (2, 0, 0), (3, 2, 0), (1, 3, 0), (-1, 2, 0)])           # a convex pentagon
    rows = [(7, (0, 1, 2)), (7, (1, 2, 3, 0)), (7, (0, 1, 3)), (7, (4, 3, 2, 1, 0))]
    edges = ("edge", ["int vertex1", "int vertex2"], [(0, 1)])
    path = ply(tmp_path, how, points, edges, ("face", ["uchar red", f"list {count} {item} vertex_index"], rows))
    assert load_mesh(path).faces.tolist() == [[0, 1, 2], [1, 2, 3], [1, 3, 0], [0, 1, 3], [4, 3, 2], [4, 2, 1], [4, 1, 0]]


def test_the_axes_of_a_ply_may_be_in_any_order(tmp_path):
    points = [(3, (7,), 1, 0, 2), (6, (), 4, 0, 5), (9, (1, 2), 7, 0, 8)]
    axes = ["float z", "list uchar int seen_by", "double x", "uchar red", "float y"]
    path = ply(tmp_path, "binary_big_endian", ("vertex", axes, points), ("face", [CORNER_LIST], [((0, 1, 2),)]))
    with pytest.warns(MeshsolveWarning, match="a.ply: left out 'seen_by' of vertex"):
        mesh = load_mesh(path)
    assert mesh.vertices.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9]] and mesh.vertex_data["red"].tolist() == [0, 0, 0]


def test_numbers_of_a_ply_may_have_a_plus(tmp_path):
    path = ply(tmp_path, "ascii", POINTS, ("face", [CORNER_LIST], [((0, 1, 2),)]))
    path.write_bytes(path.read_bytes().replace(b"9 9 9", b"+9 +9e-1 +.5"))
    assert load_mesh(path).vertices[5].tolist() == [9, 0.9, 0.5]


@pytest.mark.parametrize("how", ["ascii", "binary_little_endian"])
def test_triangle_strips(tmp_path, how):
    strips = [((0, 1, 2, 3, -1, 4, 3, 2),), ((),), ((5, 4, 4, 3),), ((1, 2),)]            # 4, 4: a triangle without area joins
    path = ply(tmp_path, how, POINTS, ("tristrips", ["list int int vertex_indices"], strips))
    assert load_mesh(path).faces.tolist() == [[0, 1, 2], [2, 1, 3], [4, 3, 2]]


@pytest.mark.parametrize("elements, words", [
    ((POINTS, ("face", ["list uchar float vertex_indices"], [((0, 1, 1.5),)])), "1.5 is not a vertex index"),
    ((POINTS, ("face", ["list uchar int a", "list uchar int b"], [((0, 1, 2), (0, 1, 2))])), "one list named vertex_indices"),
    ((POINTS, ("face", ["int vertex_indices"], [(0,)])), "one list named vertex_indices"),
    ((POINTS,), "6 vertices and 0 faces"), ((POINTS, ("face", [CORNER_LIST], [])), "6 vertices and 0 faces"),
    ((("vertex", ["float x", "float y"], [(0, 0)]),), "no number named z"),
    ((("vertex", ["float x", "float x", "float z"], [(0, 0, 0)]),), "two properties named x"),
    ((POINTS, ("face", ["list uchar half vertex_indices"], [])), "'property list uchar half vertex_indices' is not a line of a PLY header"),
], ids=str)
def test_a_ply_without_a_mesh_is_refused(tmp_path, elements, words):
    with pytest.raises(InvalidInputError, match="a.ply: ") as error:
        load_mesh(ply(tmp_path, "ascii", *elements))
    assert words in str(error.value)


@pytest.mark.parametrize("how, change, words", [
    ("ascii", (b"3 0 1 2", b"3 0 1 x2"), "line 17: 'x2' is not a number"), ("ascii", (b"3 0 1 2", b"3 0 1 2 5"), "a row has more numbers than the header announces: line 17"),
    ("ascii", (b"3 0 1 2", b"3 0 1"), "row 0 cannot be read"), ("ascii", (b"3 0 1 2", b"-3 0 1 2"), "row 0 cannot be read"),
    ("ascii", (b"3 0 1 2", b"3.5 0 1 2"), "row 0 cannot be read"),
    ("ascii", (b"face 1", b"face 99999999999999999999"), "announces 99999999999999999999 rows of face, but row 1 cannot be read"),
    ("ascii", (b"face 1", b"face " + b"9" * 5000), "is not a line of a PLY header"),
    ("binary_little_endian", (b"binary", b"zipped"), "'format zipped_little_endian 1.0' is not a line of a PLY header"),
    ("binary_little_endian", (b"end_header", b"end"), "no header"), ("ascii", (b"format ascii 1.0\n", b""), "no line 'format'"),
])
def test_a_damaged_ply_is_refused(tmp_path, how, change, words):
    path = ply(tmp_path, how, POINTS, ("face", [CORNER_LIST], [((0, 1, 2),)]))
    assert len(load_mesh(path).faces) == 1
    path.write_bytes(path.read_bytes().replace(*change))
    with pytest.raises(InvalidInputError, match="a.ply: ") as error:
        load_mesh(path)
    assert words in str(error.value)


@pytest.mark.native
@pytest.mark.parametrize("how", PLY_FORMATS)
@each("change", [
    (b"end_header\n", b"end_header\n"), (b"ply\n", b"\xef\xbb\xbfply\n"), (b"ply\n", b"PLY \n"), (b"comment made by hand\n", b"comment: a\nobj_info\ncomment\n\n"),
    (b"float x", b"float32 x"), (b"vertex_indices", b"vertex_index"), (b"vertex_indices", b"corners"), (b"end_header", b"element color 0\nproperty uchar red\nend_header")])
@each("tail", [b"", b"\n", b"\r\n\n", b"\0\0\0\0", b"\x1a"])
def test_headers_and_endings_of_a_ply(tmp_path, how, change, tail):
    path = ply(tmp_path, how, POINTS, ("face", [CORNER_LIST], [((0, 1, 2),)]))
    path.write_bytes(path.read_bytes().replace(*change) + (tail if how != "ascii" else tail.strip(b"\x1a")))
    assert load_mesh(path).faces.tolist() == [[0, 1, 2]] and len(load_mesh(path).vertices) == 6


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_a_header_keeps_to_its_own_ends_of_lines(tmp_path, end):
    """The first byte of a binary body may be a line feed."""
    path = ply(tmp_path, "binary_little_endian", ("face", [CORNER_LIST], [((0, 1, 2), )] * 10), POINTS)
    path.write_bytes(path.read_bytes().replace(b"list uchar", b"list char"))
    body = path.read_bytes().partition(b"end_header\n")
    path.write_bytes(body[0].replace(b"\n", end) + b"end_header" + end + body[2])
    assert load_mesh(path).faces.tolist() == [[0, 1, 2]] * 10
    ten = ply(tmp_path, "binary_little_endian", ("face", ["char red", CORNER_LIST], [(10, (0, 1, 2))]), POINTS).read_bytes().partition(b"end_header\n")
    path.write_bytes(ten[0].replace(b"\n", end) + b"end_header" + end + ten[2])
    assert load_mesh(path).faces.tolist() == [[0, 1, 2]]


@pytest.mark.native
@pytest.mark.parametrize("word", ["nan", "-nan(ind)", "inf", "1.#QNAN", "-1.#IND", "1.#INF00"])
def test_colors_of_a_ply_that_are_not_numbers(tmp_path, word):
    path = ply(tmp_path, "ascii", ("vertex", [*POINTS[1], "float red"], [(*p, 7) for p in POINTS[2]]), ("face", [CORNER_LIST], [((0, 1, 2),)]))
    path.write_bytes(path.read_bytes().replace(b"1 0 0 7", f"1 0 0 {word}".encode()))
    assert load_mesh(path).vertices[1].tolist() == [1, 0, 0]
    path.write_bytes(path.read_bytes().replace(f"1 0 0 {word}".encode(), f"1 0 {word} 7".encode()))
    with pytest.raises(InvalidInputError, match="a.ply: vertex 1 is at"):
        load_mesh(path)


@pytest.mark.parametrize("how", PLY_FORMATS)
def test_faces_of_two_corners_in_a_ply_are_counted(tmp_path, how):
    path = ply(tmp_path, how, POINTS, ("face", [CORNER_LIST], [((0, 1),), ((0, 1, 2),), ((),)]))
    with pytest.warns(MeshsolveWarning, match="a.ply: dropped 2 faces with fewer than three corners"):
        assert load_mesh(path).faces.tolist() == [[0, 1, 2]]


def test_a_bad_index_of_a_polygon_names_the_file(tmp_path):
    for index in (-1, 6, 200_000):
        with pytest.raises(InvalidInputError, match=f"a.ply: face 1 refers to vertex {index}; the mesh has vertices 0..5"):
            load_mesh(ply(tmp_path, "ascii", POINTS, ("face", ["list uchar double vertex_indices"], [((0, 1, 2),), ((0, 1, 2, index),)])))


def test_a_bad_index_in_a_ply_names_the_file(tmp_path):
    datasets.icosphere(0).save(tmp_path / "a.ply")
    content = bytearray((tmp_path / "a.ply").read_bytes())
    content[-4:] = (99).to_bytes(4, "little")
    (tmp_path / "a.ply").write_bytes(content)
    with pytest.raises(InvalidInputError, match="a.ply: face 19 refers to vertex 99"):
        load_mesh(tmp_path / "a.ply")


@pytest.mark.parametrize("kind", ["ascii", "binary"])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.9])
def test_a_trimesh_ply_cut_off_is_refused(tmp_path, kind, share):
    content = datasets.icosphere(2).to_trimesh().export(file_type="ply", encoding=kind)
    (tmp_path / "a.ply").write_bytes(content)
    assert len(load_mesh(tmp_path / "a.ply").faces) == 320
    (tmp_path / "a.ply").write_bytes(content[:int(share * len(content))])
    with pytest.raises(InvalidInputError, match="a.ply: "):
        load_mesh(tmp_path / "a.ply")


@pytest.mark.native
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(PLY_FORMATS), st.binary(max_size=120) | st.text(alphabet="0123.-\n e+nta", max_size=120))
def test_the_ply_reader_either_reads_or_refuses(how, body):
    import pathlib
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = ply(pathlib.Path(folder), how, ("vertex", POINTS[1], POINTS[2][:2]), ("face", [CORNER_LIST, "list char double w"], []))
        head = path.read_bytes().replace(b"face 0", b"face 3")
        path.write_bytes(head + (body if isinstance(body, bytes) else body.encode()))
        try:
            mesh = load_mesh(path)
        except (InvalidInputError, MeshsolveWarning):
            return
        assert np.isfinite(mesh.vertices).all() and mesh.faces.max(initial=-1) < len(mesh.vertices)


def test_what_follows_the_rows_of_a_ply_is_said(tmp_path):
    """Writers add line feeds, zeros, comments, and rows that the header does not announce."""
    for how, rest, says in (("binary_little_endian", b"\n\0\0", None), ("binary_little_endian", b"\n7", "has 1 byte after the rows"),
                            ("ascii", b"3 0 1 3\n", "has 7 bytes after the rows"), ("ascii", b"# made by hand\n", "has 14 bytes after"), ("ascii", b" \r\n\x1a", None)):
        path = ply(tmp_path, how, POINTS, ("face", [CORNER_LIST], [((0, 1, 2),)]))
        path.write_bytes(path.read_bytes() + rest)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert load_mesh(path).faces.tolist() == [[0, 1, 2]]
        assert [says in str(w.message) for w in said] == [True] * (says is not None)


def test_integers_of_64_bits_keep_all_digits_beside_lists(tmp_path):
    x = np.array([2**62 + 1, -2**61 - 3])
    mesh = Mesh(np.eye(4, 3), [[0, 1, 2], [1, 0, 3]], face_data={"q": x, "u": x.astype(np.uint64)}, corner_data={"c": np.stack([x, x, x + 5], axis=1)})
    mesh.save(tmp_path / "a.ply")
    again = load_mesh(tmp_path / "a.ply")
    assert again.face_data["q"].tolist() == x.tolist() and again.face_data["u"].dtype == np.uint64
    assert np.array_equal(again.face_data["u"], mesh.face_data["u"]) and np.array_equal(again.corner_data["c"], mesh.corner_data["c"])


def test_infinite_numbers_of_a_text_stay_infinite(tmp_path):
    head = "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\nproperty double q\n"
    (tmp_path / "a.ply").write_text(head + "element face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0 inf\n1 0 0 -Infinity\n"
                                    "0 1 0 -1.#INF\n0 0 1 nan\n3 0 1 2\n")
    assert np.array_equal(load_mesh(tmp_path / "a.ply").vertex_data["q"], [np.inf, -np.inf, -np.inf, np.nan], equal_nan=True)


def test_faces_with_data_beside_strips(tmp_path):
    """Strips have no data of faces; a second element of one name replaced the vertices or made an IndexError."""
    head = "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
    faces = "element face 1\nproperty list uchar int vertex_indices\nproperty int part\n"
    strips = "element {} 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n0 0 1\n3 0 1 2 7\n4 0 1 2 3\n"
    path = tmp_path / "a.ply"
    path.write_text(head + faces + strips.format("tristrips"))
    with pytest.warns(MeshsolveWarning, match="left out 'part' of face: the triangle strips"):
        mesh = load_mesh(path)
    assert len(mesh.faces) == 3 and not mesh.face_data
    for name in ("face", "vertex"):
        path.write_text(head + faces + strips.format(name))
        with pytest.raises(InvalidInputError, match=f"the header has two elements named '{name}'"):
            load_mesh(path)
