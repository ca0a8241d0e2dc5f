"""OFF files: headers, rows in any arrangement of lines, polygons of several sizes, truncated files."""

import numpy as np
import pytest
from cases import each

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import load_mesh

pytestmark = pytest.mark.native
PLACES = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 1]]
RINGS = [[3, 2, 1, 0], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
FACES = [[3, 2, 1], [3, 1, 0], [0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]


def read(tmp_path, text):
    path = tmp_path / "a.off"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_mesh(path)


def pyramid(head="OFF\n5 5 8\n", vertex="", face="", end="\n"):
    """The text of a pyramid over a square; ``vertex`` and ``face`` are appended to rows."""
    rows = [" ".join(map(str, p)) + vertex for p in PLACES] + [" ".join(map(str, [len(r), *r])) + face for r in RINGS]
    return head + end.join(rows) + end


@each("text", [
    pyramid(), pyramid().replace("\n", "\r\n"), pyramid().replace("\n", "\r"), pyramid().rstrip(), pyramid() + "\n\n \n", pyramid() + "\0\0\0",
    "\ufeff" + pyramid(), "\n\n" + pyramid(), pyramid("OFF 5 5 8\n"), pyramid("OFF5 5 8 # no blank\n"), pyramid("OFF\n5 5\n"), pyramid("OFF\n5\n5\n8\n"),
    pyramid("5 5 8\n"), pyramid("off\n5 5 8\n"), pyramid("OFF\n# a comment\n\n5 5 8\n"), pyramid().replace("\n", " # at the end of a line\n"),
    pyramid().replace("\n", " "), pyramid().replace(" ", "\n"), pyramid(end=" "), pyramid(end="\n\n"), pyramid(end="\n# between\n"),
    pyramid(face=" 255 0 0"), pyramid(face=" 0.1 0.2 0.3 0.4"), pyramid(face=" 7"), pyramid(face=" 3 0 1 2"), pyramid(vertex=" 255 0 0 255"),
    pyramid("OFF\n5\n5\n8\n", face=" 255 0 0"), pyramid("OFF\n5 5\n", face=" 255 0 0"), pyramid("COFF\n5 5 8\n", vertex=" 255 0 0 255"),
    pyramid("COFF\n5 5 8\n", vertex=" 255 0 0"), pyramid("COFF\n5 5 8\n", vertex=" nan nan nan 1", face=" 1 2 3"), pyramid("NOFF\n5 5 8\n", vertex=" 0 0 1"),
    pyramid("STOFF\n5 5 8\n", vertex=" 0.5 0.25"), pyramid("STCNOFF\n5 5 8\n", vertex=" 0 0 1 255 0 0 255 0.5 0.5"),
    pyramid("NCOFF\n5 5 8\n", vertex=" 0 0 1 255 0 0 255", end=" "), pyramid().replace("\n1 0 0", "\n+1 -0 0e0"),
    pyramid(face=" 1 0 0").replace("4 3 2 1 0 1 0 0", "4 3\n2 1\n0"),
])
def test_every_arrangement_of_an_off(tmp_path, text):
    mesh = read(tmp_path, text)
    assert mesh.vertices.tolist() == PLACES and mesh.faces.tolist() == FACES


@pytest.mark.parametrize("text, says", [
    (pyramid().replace("1 1 0", "1 1 x"), "5: 'x' is not a number"), (pyramid().replace("1 1 0", "1 nan 0"), "5: a vertex coordinate is 'nan'"),
    (pyramid().replace("1 1 0", "1 -1.#IND 0"), "5: a vertex coordinate is '-1.#IND'"), (pyramid().replace("3 0 1 4", "3 0 1 5"), "9: vertex index 5 is outside 0..4"),
    (pyramid().replace("3 0 1 4", "3 0 -1 4"), "9: vertex index -1 is outside"), (pyramid().replace("3 0 1 4", "3 0 1.5 4"), "9: '1.5' is not an integer"),
    (pyramid().replace("1 1 0", "1 1"), "5: the row that begins on this line has too few numbers"), ("OFF\n0.5 1 2\n", "2: '0.5' is not an integer"),
    (pyramid("OFF\n-5 5 8\n"), "2: the number of vertices or faces must be from 0 to 2147483647, got '-5'"), (pyramid("OFF\n5 5555555555 8\n"), "2: the number of vertices or faces must be from 0 to 2147483647, got '5555555555'"),
    ("OFF", "1: the file ends before the numbers"), (pyramid("xOFF\n5 5 8\n"), "1: an OFF file must begin with OFF, got 'xOFF'"),
    (pyramid("OFF\n5 6 8\n"), "announces 5 vertices and 6 faces, but 5 and 5 could be read: the file may be truncated"),
    (pyramid("OFF\n5 5 8\n", face=" 1 0 0")[:-12], "but 5 and 4 could be read: the file may be truncated"),
])
def test_errors_of_an_off_name_the_line(tmp_path, text, says):
    with pytest.raises(InvalidInputError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'a.off'}:") and says in str(error.value)


def test_rows_of_an_off_beyond_its_header_are_warned_about(tmp_path):
    with pytest.warns(MeshsolveWarning, match="a.off:13: the file continues with '3' after the 5 faces"):
        assert read(tmp_path, pyramid() + "3 0 1 2\n").faces.tolist() == FACES


def test_points_and_edges_in_an_off_are_counted(tmp_path):
    with pytest.warns(MeshsolveWarning, match="a.off: dropped 2 faces with fewer than three corners"):
        assert read(tmp_path, pyramid("OFF\n5 7 8\n") + "2 0 1\n1 3\n").faces.tolist() == FACES


def test_vertices_without_faces_stay_in_an_off(tmp_path):
    mesh = read(tmp_path, "OFF\n4 1 0\n9 9 9\n0 0 0\n1 0 0\n0 1 0\n3 1 2 3\n")
    assert mesh.vertices.tolist() == [[9, 9, 9], [0, 0, 0], [1, 0, 0], [0, 1, 0]] and mesh.faces.tolist() == [[1, 2, 3]]


def test_a_prism_over_a_pentagon(tmp_path):
    angle = 2 * np.pi * np.arange(5) / 5
    base = np.c_[np.cos(angle), np.sin(angle)]
    rows = [f"{x!r} {y!r} {z}" for z in (0, 1) for x, y in base.tolist()]
    sides = [f"4 {k} {(k + 1) % 5} {(k + 1) % 5 + 5} {k + 5}" for k in range(5)]
    mesh = read(tmp_path, "\n".join(["OFF", "10 7 15", *rows, "5 4 3 2 1 0", *sides, "5 5 6 7 8 9"]))
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    assert len(mesh.faces) == 16 and len(mesh.boundary_edges) == 0
    assert np.isclose(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6, 2.5 * np.sin(angle[1]))


@pytest.mark.parametrize("change", [(b"0 0 0", b"0 0 0 # a"), (b"3 0 1 2", b"3 0 1 2 # b"), (b"OFF", b"# c\nOFF # d"), (b"3 1 0", b"3 1 0# e")])
def test_comments_in_an_off(tmp_path, change):
    (tmp_path / "a.off").write_bytes(b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n".replace(*change))
    mesh = load_mesh(tmp_path / "a.off")
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]] and mesh.faces.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("header", ["OFF\n3 1 0", "COFF\n3 1 0", "NOFF\n3 1 0", "OFF 3 1 0", "\ufeffOFF\n3 1 0"])
def test_headers_of_an_off(tmp_path, header):
    more = {"C": " 255 0 0 255", "N": " 0 0 1"}.get(header[0], "")
    (tmp_path / "a.off").write_text(f"{header}\n0 0 0{more}\n1 0 0{more}\n0 1 0{more}\n3 0 1 2\n", encoding="utf-8")
    assert load_mesh(tmp_path / "a.off").faces.tolist() == [[0, 1, 2]]


def test_an_off_file_of_polygons_cut_off_is_refused(tmp_path):
    """Polygons give several triangles, so a truncated file may have more triangles than announced faces."""
    places = [(i, j, 0) for i in range(6) for j in range(6)]
    rings = [(k, k + 6, k + 7, k + 1) for i in range(5) for k in range(6 * i, 6 * i + 5)]
    lines = ["OFF", f"{len(places)} {len(rings)} 0", *(" ".join(map(str, p)) for p in places), *(" ".join(map(str, (4, *ring))) for ring in rings)]
    path = tmp_path / "quads.off"
    path.write_text("\n".join(lines))
    assert len(load_mesh(path).faces) == 50
    path.write_bytes("\n".join(lines).encode()[:-11] + b"\xa0" + "\n".join(lines).encode()[-10:])      # a blank to some, no number
    with pytest.raises(InvalidInputError, match="quads.off:63: .* is not an integer"):
        load_mesh(path)
    for cut in ("\n".join(lines[:-3]), "\n".join(lines)[:-6]):
        path.write_text(cut)
        with pytest.raises(InvalidInputError, match=r"quads.off:\d+: .* 36 vertices and 25 faces, but 36 and 2[124] could be read: the file may be truncated"):
            load_mesh(path)


@each("header, rows, data", [
    ("COFF", ["255 0 51 255", "0 255 0 255", "0 0 255 255"], {"color": [[1, 0, 0.2], [0, 1, 0], [0, 0, 1]]}),
    ("COFF", ["255 0 51 # red", "0 255 0", "0 0 255"], {"color": [[1, 0, 0.2], [0, 1, 0], [0, 0, 1]]}),
    ("COFF", ["1.0 0 .5 1", "0 1.0000001 0 1", "0 0 1 1"], {"color": [[1, 0, 0.5], [0, 1.0000001, 0], [0, 0, 1]]}),
    ("NOFF", ["0 0 1"] * 3, {}), ("STOFF", ["0 1", "1 1", ".5 0"], {"uv": [[0, 1], [1, 1], [0.5, 0]]}),
    ("STCNOFF", ["0 0 1 1 0 0 1 0.25 0.75", "0 0 1 0 1 0 1 0 1", "0 0 1 0 0 1 1 1 1"], {"color": [[1, 0, 0], [0, 1, 0], [0, 0, 1]], "uv": [[0.25, 0.75], [0, 1], [1, 1]]}),
])
@each("end", ["\n", " "])
def test_colors_and_texture_coordinates_of_vertices(tmp_path, header, rows, data, end):
    """Also with all rows on one line, which needs all numbers that the header announces."""
    places = ["0 0 0", "1 0 0", "0 1 0"]
    if end == " " and ("#" in rows[0] or header == "COFF" and len(rows[1].split()) == 3):
        return
    mesh = read(tmp_path, end.join([header, "3 1 0", *(f"{x} {more}" for x, more in zip(places, rows)), "3 0 1 2"]) + "\n")
    assert {name: x.tolist() for name, x in mesh.vertex_data.items()} == data and mesh.faces.tolist() == [[0, 1, 2]]


def test_the_alpha_of_an_off_is_said(tmp_path):
    with pytest.warns(MeshsolveWarning, match="a.off:1: the alpha of the colors was left out"):
        read(tmp_path, "COFF\n3 1 0\n0 0 0 9 9 9 128\n1 0 0 9 9 9 255\n0 1 0 9 9 9 255\n3 0 1 2\n")


@each("text", ["OFF\n4\n1\n0\n0 0 0 1 0 0\n1 1 0\n0 1\n0\n4 0 1 2 3\n", "OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n\n4 0 \n1 \n2 \n3 \n",
               "OFF\n4 1 0\n0\n0\n0\n1\n0\n0 1\n1 0\n0 1 0 4 # corners\n0 1\n2 3"])
def test_numbers_spread_over_lines(tmp_path, text):
    assert read(tmp_path, text).faces.tolist() == [[0, 1, 2], [0, 2, 3]]
