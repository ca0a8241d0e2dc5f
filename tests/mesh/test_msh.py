"""MSH files of Gmsh: data by tags, groups, entities, partitions, damaged files; each written by hand, word by word."""

import time
import warnings

import numpy as np
import pytest
from cases import each
from mesh import by_hand

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, load_mesh

FORMAT = "$MeshFormat\n{} 0 8\n$EndMeshFormat\n"
SQUARE = FORMAT.format(2.2) + """$Nodes
4
90 1 1 0
7 0 0 0
1000000 0 1 0
8 1 0 0
$EndNodes
$Elements
4
5 15 2 0 1 7
9 1 2 0 1 7 8
3 2 2 {} 1 7 8 90
70 2 2 {} 2 7 90 1000000
$EndElements
"""
PARTITIONED = FORMAT.format(4.1) + """$PhysicalNames
2
1 3 "rim"
2 3 "lid, 2 mm"
$EndPhysicalNames
$Entities
0 0 1 0
1 0 0 0 1 1 0 1 3 0
$EndEntities
$PartitionedEntities
2
0
0 0 2 0
2 2 1 1 1 0 0 0 1 1 0 1 3 0
3 2 1 1 2 0 0 0 1 1 0 1 3 0
$EndPartitionedEntities
$Nodes
2 4 1 4
2 2 0 2
1
2
0 0 0
1 0 0
2 3 0 2
3
4
1 1 0
0 1 0
$EndNodes
$Elements
2 2 1 2
2 2 2 1
1 1 2 3
2 3 2 1
2 1 3 4
$EndElements
$Periodic
1
2 1 2
0
0
$EndPeriodic
$GhostElements
0
$EndGhostElements
"""


def section(name, title, rows, width=1, step="0", first="0.0"):
    return (f'${name}\n1\n"{title}"\n1\n{first}\n3\n{step}\n{width}\n{len(rows)}\n' + "".join(f"{row}\n" for row in rows) + f"$End{name}\n")


def read(tmp_path, text):
    """The mesh of a text, and the warnings."""
    path = tmp_path / "a.msh"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", MeshsolveWarning)
        mesh = load_mesh(path)
    return mesh, [str(w.message).removeprefix(f"{path}: ") for w in said]


def test_rows_go_to_their_tags(tmp_path):
    text = SQUARE.format(7, 8) + section("NodeData", "t", ["8 3", "1000000 2", "90 0", "7 1"]) + section("ElementData", "v", ["70 4 5 6", "3 1 2 3"], 3)
    mesh, said = read(tmp_path, text)
    assert mesh.vertices.tolist() == [[1, 1, 0], [0, 0, 0], [0, 1, 0], [1, 0, 0]] and mesh.faces.tolist() == [[1, 3, 0], [1, 0, 2]]
    assert mesh.vertex_data["t"].tolist() == [0, 1, 2, 3] and mesh.face_data["v"].tolist() == [[1, 2, 3], [4, 5, 6]] and not said
    assert mesh.face_data["gmsh:physical"].tolist() == [7, 8] and mesh.face_data["gmsh:geometrical"].tolist() == [1, 2]


def test_missing_rows_are_nan_and_strange_ones_are_said(tmp_path):
    text = SQUARE.format(0, 0) + section("NodeData", "t", ["8 3"]) + section("ElementData", "v", ["9 1", "70 2"]) + section("ElementData", "rim", ["9 1"])
    mesh, said = read(tmp_path, text)
    assert np.array_equal(mesh.vertex_data["t"], [np.nan, np.nan, np.nan, 3], equal_nan=True)
    assert np.array_equal(mesh.face_data["v"], [np.nan, 2], equal_nan=True) and "gmsh:physical" not in mesh.face_data
    assert said == ["left out 'rim', which has no row for a face"]
    mesh, said = read(tmp_path, SQUARE.format(0, 0) + section("NodeData", "t", ["8 3", "9 4"]))
    assert said == ["left out 1 row of 't' with tags that the file does not have"]


def test_faces_of_several_groups_are_read_once(tmp_path):
    """Gmsh writes such a face once for each of its groups in version 2."""
    text = SQUARE.format(7, 8).replace("$Elements\n4", "$Elements\n6")
    again = text.replace("$EndElements", "71 2 2 9 2 7 90 1000000\n72 2 2 9 1 7 8 90\n$EndElements")
    mesh, said = read(tmp_path, again)
    assert len(mesh.faces) == 2 and mesh.face_data["gmsh:physical"].tolist() == [7, 8] and said == ["left out further groups of 2 faces"]
    again = text.replace("$EndElements", "71 2 2 8 2 7 90 1000000\n72 2 2 9 1 8 90 7\n$EndElements")         # no copies of another group
    assert len(read(tmp_path, again)[0].faces) == 4


def test_steps_and_parts_of_data(tmp_path):
    """Parts of a partitioned mesh have sections of their own. Of several time steps the last one is read."""
    parts = section("NodeData", "t", ["7 1", "8 2"]) + section("NodeData", "t", ["90 3", "1000000 4"])
    mesh, said = read(tmp_path, SQUARE.format(0, 0) + parts)
    assert mesh.vertex_data["t"].tolist() == [3, 1, 4, 2] and not said
    mesh, said = read(tmp_path, SQUARE.format(0, 0) + parts + section("NodeData", "t", ["7 5", "8 6", "90 7", "1000000 8"], step="1"))
    assert mesh.vertex_data["t"].tolist() == [7, 5, 8, 6] and said == ["left out 1 of 2 time steps of 't', all but the last"]


def test_a_partitioned_mesh_and_names_of_groups(tmp_path):
    mesh, said = read(tmp_path, PARTITIONED)
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]] and mesh.face_data["gmsh:physical"].tolist() == [3, 3]
    assert said == ["names of groups are left out: in 'gmsh:physical' 3 is 'lid, 2 mm'"]
    two = PARTITIONED.replace("2 2 1 1 1 0 0 0 1 1 0 1 3 0", "2 2 1 1 1 0 0 0 1 1 0 2 3 4 0")
    assert "left out further groups or partitions of 1 face" in read(tmp_path, two)[1]
    _, said = read(tmp_path, SQUARE.format(0, 0).replace("3 2 2 0 1", "3 2 4 0 1 1 2") + "$ElementNodeData\n1\n\"x\"\n$EndElementNodeData\n")
    assert said == ["left out data of the nodes of elements, further groups or partitions of 1 face"]


@each("version", [2.2, 4.0, 4.1])
@each("binary", [False, True])
@each("order", ["<", ">"])
@each("size", [4, 8])
def test_every_version(tmp_path, version, binary, order, size):
    rng = np.random.default_rng([int(10 * version), binary, size])
    c = by_hand.case(rng, [by_hand.VERTEX, by_hand.LINE, by_hand.TRIANGLE, by_hand.QUAD, by_hand.TRIANGLE6], ("f8",), ["t", "größe", "a b"])
    content, place, sequence, points, cells, physical, _ = by_hand.msh(c, rng, version, binary, order, size)
    mesh, _ = read(tmp_path, content)
    number = np.argsort(place)
    faces, parent = by_hand.Case(c.points, [c.kinds[k] for k in sequence], [number[c.cells[k]].tolist() for k in sequence], {}, {}).faces()
    assert np.array_equal(mesh.vertices, c.points[place]) and np.array_equal(mesh.faces, faces)
    assert np.array_equal(mesh.face_data["gmsh:physical"], physical[sequence][parent])
    for name, x in points.items():
        assert np.array_equal(mesh.vertex_data[name], x[place], equal_nan=True)
    for name, x in cells.items():
        assert np.array_equal(mesh.face_data[name], x[sequence][parent], equal_nan=True)


def test_groups_go_through_save_and_load(tmp_path):
    groups = {"gmsh:physical": np.array([7, 8], np.int32), "gmsh:geometrical": np.array([1, 2], np.int32)}
    mesh = Mesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], [[0, 1, 2], [0, 2, 3]], face_data=groups | {"q": [0.5, np.nan]})
    for _ in range(3):
        mesh.save(tmp_path / "a.msh")
        mesh = load_mesh(tmp_path / "a.msh")
        assert {name: x.tolist() for name, x in mesh.face_data.items() if name != "q"} == {name: x.tolist() for name, x in groups.items()}
        assert not mesh.vertex_data and np.array_equal(mesh.face_data["q"], [0.5, np.nan], equal_nan=True)
    mesh.face_data["gmsh:physical"] = [0.5, 1]                      # no groups: data as others
    mesh.save(tmp_path / "a.msh")
    assert load_mesh(tmp_path / "a.msh").face_data["gmsh:physical"].tolist() == [0.5, 1]


def test_what_an_msh_cannot_hold_is_said(tmp_path):
    mesh = Mesh(np.eye(4, 3), [[0, 1, 2]], vertex_data={'an "x"\n': np.arange(4), "big": np.full(4, 2**60 + 1)})
    with pytest.warns(MeshsolveWarning) as said:
        mesh.save(tmp_path / "a.msh")
    assert "is written as 'an _x__'" in str(said[0].message) and "integers of 'big' beyond 2^53 are rounded" in str(said[1].message)
    assert load_mesh(tmp_path / "a.msh").vertex_data["an _x__"].tolist() == [0, 1, 2, 3]
    for names in (("a\n", "a_"), ("q", "q_1")):
        mesh = Mesh(np.eye(4, 3), [[0, 1, 2]], vertex_data={names[0]: np.zeros((4, 2)), names[1]: np.zeros(4 if names[1] == "q_1" else (4, 2))})
        with warnings.catch_warnings(), pytest.raises(InvalidInputError, match="two arrays named"):
            warnings.simplefilter("ignore")
            mesh.save(tmp_path / "b.msh")
    assert [path.name for path in tmp_path.iterdir()] == ["a.msh"]


def test_meshio_reads_our_files(tmp_path):
    meshio = pytest.importorskip("meshio")
    mesh = Mesh(np.eye(4, 3), [[0, 1, 2], [3, 1, 0]], vertex_data={"t": np.arange(4.0)}, face_data={"v": np.arange(6.0).reshape(2, 3), "gmsh:physical": [5, 6]})
    mesh.save(tmp_path / "a.msh")
    other = meshio.read(tmp_path / "a.msh")
    assert np.array_equal(other.points, mesh.vertices) and np.array_equal(other.cells_dict["triangle"], mesh.faces)
    assert other.point_data["t"].tolist() == [0, 1, 2, 3] and other.cell_data["v"][0].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert other.cell_data["gmsh:physical"][0].tolist() == [5, 6]
    other.point_data, other.cell_data = {}, {}                      # it writes np.float64(0.0) into texts
    for version in ("2.2", "4.0", "4.1"):
        for binary in (False, True):
            meshio.gmsh.write(str(tmp_path / "b.msh"), other, version, binary)
            assert np.array_equal(load_mesh(tmp_path / "b.msh").faces, mesh.faces), (version, binary)


@each("change, says", [
    (("$MeshFormat\n2.2", "$MeshFormat\n1.0"), "MSH of format '1.0 0 8' is not supported: use version 2.2 or 4.1"),
    (("$Nodes\n4", "$Nodes\n5"), "$Nodes needs 20 numbers, but the file has 16: line 10: '$EndNodes' is not a number"),
    (("$Nodes\n4", "$Nodes\n3"), "the section $Nodes must end with $EndNodes, got '8'"),
    (("$Elements\n4", "$Elements\n3"), "the file announces 3 elements, but it has 4"),
    (("$Elements\n4", "$Elements\n9999999999999999"), "the file announces 9999999999999999 elements, but it has"),
    (("$EndMeshFormat", f"$EndMeshFormat\n$PhysicalNames\n1\n2 {'1' * 5000} \"a\"\n$EndPhysicalName"), "must end with $EndPhysicalNames"),
    (("7 8 90", "7 8 91"), "element 3 refers to node 91, which the file does not have"),
    (("8 1 0 0", "7 1 0 0"), "two nodes have the tag 7"), (("8 1 0 0", "8.5 1 0 0"), "tags of nodes must be integers, got 8.5"),
    (("3 2 2", "3 4 2"), "cells of kind 'tetra' are not supported"), (("3 2 2", "3 77 2"), "cells of kind \"Gmsh's type 77\" are not supported"),
    (("3 2 2", "3 3 2"), "do not fit"), (("$MeshFormat", "$Nodes"), "an MSH file must begin with $MeshFormat"), (("0 1 0", "0 x 0"), "'x' is not a number"),
    (("$Elements", "$Nodes\n1\n7 1 1 1\n$EndNodes\n$Elements"), "two nodes have the tag 7"), (("$Nodes", "$Other\n$Nodes"), "'$EndOther' is missing"),
])
def test_damaged_files(tmp_path, change, says):
    with pytest.raises(InvalidInputError) as error:
        read(tmp_path, SQUARE.format(0, 0).replace(*change, 1))
    assert str(error.value).startswith(f"{tmp_path / 'a.msh'}: ") and says.removeprefix("do not fit") in str(error.value)


@each("width", [3 * 10**8, 999999999])
@each("rows", [0, 3])
def test_rows_wider_than_a_record_are_refused(tmp_path, width, rows):
    """numpy's records are shorter than 2^31 bytes."""
    Mesh(np.eye(3), [[0, 1, 2]], vertex_data={"t": np.arange(3.0)}).save(tmp_path / "a.msh")
    content = (tmp_path / "a.msh").read_bytes()
    (tmp_path / "a.msh").write_bytes(content.replace(b"3\n0\n1\n3\n", b"3\n0\n%d\n%d\n" % (width, rows)))
    with pytest.raises(InvalidInputError, match="must have a step, a width and a number of rows"):
        load_mesh(tmp_path / "a.msh")


@each("number", ["9999999999999999", "99999999999999999999", "-1", "1e9", "x"])
@each("place", ["strings", "reals", "integers", "width", "rows", "names"])
def test_no_count_makes_the_reader_busy(tmp_path, number, place):
    """A count must fit the bytes of the file: announced strings kept a reader busy for ever."""
    texts = {"strings": '$NodeData\n{}\n"h"\n1\n0.0\n3\n0\n1\n1\n7 1\n', "reals": '$NodeData\n1\n"h"\n{}\n0.0\n3\n0\n1\n1\n7 1\n',
             "integers": '$NodeData\n1\n"h"\n1\n0.0\n{}\n0\n1\n1\n7 1\n', "width": '$NodeData\n1\n"h"\n1\n0.0\n3\n0\n{}\n1\n7 1\n',
             "rows": '$NodeData\n1\n"h"\n1\n0.0\n3\n0\n1\n{}\n7 1\n', "names": "$PhysicalNames\n{}\n2 1 \"a\"\n$NodeData\n"}
    begin = time.monotonic()
    with pytest.raises(InvalidInputError):
        read(tmp_path, SQUARE.format(0, 0) + texts[place].format(number) + "$EndNodeData\n")
    assert time.monotonic() - begin < 5


@each("width", [500_000_000, 999_999_999])
def test_no_width_of_rows_takes_memory(tmp_path, width):
    """Data without rows, in a text and in a binary file."""
    path = tmp_path / "a.msh"
    read(tmp_path, SQUARE.format(0, 0))[0].save(path)
    for content in (SQUARE.format(0, 0).encode(), path.read_bytes()):
        path.write_bytes(content + b'$NodeData\n1\n"h"\n1\n0.0\n3\n0\n%d\n0\n$EndNodeData\n' % width)
        with pytest.raises(InvalidInputError, match="a width"):
            load_mesh(path)


def test_numbers_of_groups_with_many_digits(tmp_path):
    names = '$PhysicalNames\n2\n2 {} "a"\n{} 1 "b"\n$EndPhysicalNames\n$Nodes'.format("1" * 5000, "2" * 5000)
    assert len(read(tmp_path, SQUARE.format(0, 0).replace("$Nodes", names, 1))[0].faces) == len(read(tmp_path, SQUARE.format(0, 0))[0].faces)


def test_many_kinds_in_turn(tmp_path):
    """Rows of alternating types are read one after the other."""
    n = 2000
    rows = [f"{k + 1} {3 if k % 2 else 2} 2 1 1 7 8 90{' 1000000' * (k % 2)}" for k in range(n)]
    text = SQUARE.format(0, 0)
    mesh, _ = read(tmp_path, text[:text.index("$Elements")] + f"$Elements\n{n}\n" + "\n".join(rows) + "\n$EndElements\n")
    assert len(mesh.faces) == 3 * n // 2
