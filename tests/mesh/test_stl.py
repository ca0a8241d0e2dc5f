"""STL files, text and binary: spellings, several solids, wrong lengths, no output on standard error."""

import struct
import subprocess
import sys

import numpy as np
import pytest
from cases import each

from meshsolve import datasets
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import load_mesh

pytestmark = pytest.mark.native
SOLID = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid a\n"


@pytest.mark.parametrize("cut", [5, 15, 30, 60])
def test_an_stl_text_of_several_solids_cut_off_is_refused(tmp_path, cut):
    text, path = SOLID + SOLID.replace("0 1 0", "0 0 5"), tmp_path / "two.stl"
    path.write_text(text)
    assert len(load_mesh(path).faces) == 2
    path.write_text(text[:-cut])
    with pytest.raises(InvalidInputError, match=r"two.stl:\d+: (the file ends inside the word 'endsol'|the file ends inside the facet that begins on this line|a vertex needs three .* truncated)"):
        load_mesh(path)


@pytest.mark.parametrize("left", [0, 83, 84, 133, -50, -1])
def test_a_truncated_binary_stl_is_refused(tmp_path, left):
    path = tmp_path / "a.stl"
    datasets.icosphere(2).save(path)
    path.write_bytes(path.read_bytes()[:left])
    with pytest.raises(InvalidInputError, match="a.stl: (the file is empty|not an STL file|320 triangles need)"):
        load_mesh(path)


def test_trailing_bytes_of_a_binary_stl_are_ignored(tmp_path):
    mesh = datasets.icosphere(2)
    mesh.save(tmp_path / "a.stl")
    (tmp_path / "b.stl").write_bytes((tmp_path / "a.stl").read_bytes() + b"\0 made by a scanner \xff")
    a, b = (load_mesh(tmp_path / name) for name in ("a.stl", "b.stl"))
    assert np.array_equal(a.vertices, b.vertices) and np.array_equal(a.faces, b.faces)


def test_names_in_an_stl_text_may_be_of_any_encoding(tmp_path):
    for encoding in ("latin-1", "utf-8", "utf-8-sig"):
        (tmp_path / "a.stl").write_bytes(SOLID.replace("solid a", "solid café").encode(encoding))
        assert len(load_mesh(tmp_path / "a.stl").faces) == 1


TRIANGLE = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


@each("text", [
    SOLID, SOLID.upper(), SOLID.rstrip(), SOLID + "\n\n", SOLID + "\0\0", "\ufeff" + SOLID, "\n  " + SOLID, SOLID.replace("\n", "\r\n"), SOLID.replace("\n", "\r"),
    SOLID.replace("\n", "\n\t  "), SOLID.replace("endsolid a", "end solid"), SOLID.replace("endsolid a", "End Solid a b"), SOLID.replace("endsolid a", "endsolid"),
    SOLID.replace("endfacet", "end facet").replace("endloop", "end loop"), SOLID.replace("facet normal", "facetnormal"), SOLID.replace("outer loop", "outerloop"),
    SOLID.replace("0 0 1\nouter", "-1.#IND -1.#IND -1.#IND\nouter"), SOLID.replace("0 0 1\nouter", "nan(ind) -nan 1.#QNAN\nouter"), SOLID.replace("normal 0 0 1", ""),
    SOLID.replace("0 0 1\nouter", "x y z\nouter"), SOLID.replace("solid a", "solid facet of a vertex", 1), SOLID.replace("solid a", "solid", 1),
    SOLID.replace("\n", " "), SOLID.replace("endloop\n", ""), "solid empty\nendsolid empty\n" + SOLID, SOLID.replace("endsolid", "color 1 0 0\nendsolid"),
    SOLID.replace("1 0 0", "+1.0e0 0 0.0"),
])
def test_spellings_of_an_stl_text(tmp_path, text):
    (tmp_path / "a.stl").write_bytes(text.encode())
    mesh = load_mesh(tmp_path / "a.stl")
    assert mesh.vertices.tolist() == TRIANGLE and mesh.faces.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("change, says", [
    (("1 0 0", "1 0"), "5: a vertex needs three coordinates, got 2"), (("1 0 0", "1 nan 0"), "5: a vertex coordinate is 'nan'"),
    (("1 0 0", "1 x 0"), "5: 'x' is not a number"), (("endfacet\n", ""), "2: the facet that begins on this line does not end before its solid"),
    (("facet normal 0 0 1\n", ""), "3: the vertex is outside a facet"), (("endsolid", SOLID.replace("endfacet\n", "") + "endsolid"), "10: the facet that begins"),
])
def test_errors_of_an_stl_text_name_the_line(tmp_path, change, says):
    (tmp_path / "a.stl").write_text(SOLID.replace(*change))
    with pytest.raises(InvalidInputError) as error:
        load_mesh(tmp_path / "a.stl")
    assert str(error.value).startswith(f"{tmp_path / 'a.stl'}:{says}")


def test_a_solid_without_an_end_is_warned_about(tmp_path):
    (tmp_path / "a.stl").write_text(SOLID + SOLID.replace("0 1 0", "0 0 5").replace("endsolid a\n", ""))
    with pytest.warns(MeshsolveWarning, match="a.stl:10: the solid that begins on this line has no 'endsolid'"):
        assert len(load_mesh(tmp_path / "a.stl").faces) == 2


def test_loops_of_other_sizes_in_an_stl_text(tmp_path):
    (tmp_path / "a.stl").write_text(SOLID.replace("endloop", "vertex 0.2 0.2 0\nendloop"))           # an arrow
    assert load_mesh(tmp_path / "a.stl").faces.tolist() == [[3, 0, 1], [2, 3, 1]]
    (tmp_path / "a.stl").write_text(SOLID + SOLID.replace("vertex 0 1 0\n", ""))
    with pytest.warns(MeshsolveWarning, match="a.stl: dropped 1 face with fewer than three corners"):
        assert load_mesh(tmp_path / "a.stl").vertices.tolist() == TRIANGLE


def binary(count=1, header=b"", tail=b""):
    return header.ljust(80, b"\0") + struct.pack("<I12fH", count, 0, 0, 1, *np.ravel(TRIANGLE), 7) + tail


@pytest.mark.parametrize("content", [
    binary(), binary(header=b"solid made by a scanner"), binary(header=b"solid facet\n facet vertex\n"), binary(header=b"solid a", tail=b"\n\n"),
    binary(tail=b"\0" * 100), binary(count=0), binary(count=0, header=b"solid a"), binary()[:84] + struct.pack("<3f", *3 * [np.nan]) + binary()[96:],
])
def test_kinds_of_binary_stl(tmp_path, content):
    (tmp_path / "a.stl").write_bytes(content)
    mesh = load_mesh(tmp_path / "a.stl")
    assert mesh.vertices.tolist() == TRIANGLE and mesh.faces.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("content", [binary(count=2), binary(count=2**32 - 1), binary(count=2, header=b"solid a")])
def test_a_binary_stl_shorter_than_its_count_is_refused(tmp_path, content):
    (tmp_path / "a.stl").write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"a.stl: \d+ triangles need .* it may be truncated"):
        load_mesh(tmp_path / "a.stl")


@pytest.mark.slow
@pytest.mark.parametrize("name, content", [
    ("a.stl", SOLID.replace("0 0 1\nouter", "-1.#IND -1.#IND -1.#IND\nouter").encode()), ("b.stl", b"solid x\nfacet\n"), ("c.stl", binary(count=9)),
    ("a.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2 255 0 0\n"), ("b.off", b"OFF\n3 1 0\n0 0\n"), ("a.gltf", b"{"), ("b.gltf", b"[1]"), ("a.glb", b"glTF\2\0\0\0")])
def test_no_reader_writes_to_standard_error(tmp_path, name, content):
    """A library printed a log with tracebacks."""
    (tmp_path / name).write_bytes(content)
    program = ("import sys, meshsolve as ms\ntry:\n    ms.load_mesh(sys.argv[1])\nexcept ms.InvalidInputError as e:\n"
               "    assert 'trimesh' not in sys.modules and str(e).startswith(sys.argv[1]), e")
    done = subprocess.run([sys.executable, "-P", "-c", program, str(tmp_path / name)], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""
