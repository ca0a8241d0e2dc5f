"""OBJ files: every form of a face, errors with their line, and random bytes."""

import gzip

import numpy as np
import pytest
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, load_mesh

SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"


def read(tmp_path, text):
    path = tmp_path / "mesh.obj"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_mesh(path)


@pytest.mark.native
@pytest.mark.parametrize("text, faces", [
    (SQUARE + "f 1 2 3\n", [[0, 1, 2]]),
    (SQUARE + "f 1 2 3", [[0, 1, 2]]),
    (SQUARE + "f 1 2 3 4\n", [[0, 1, 2], [0, 2, 3]]),
    (SQUARE + "f 1/1 2/2 3/1\nf 1//1 3//2 4//3\nf 1/2/3 2/3/4 4/5/6\n", [[0, 1, 2], [0, 2, 3], [0, 1, 3]]),
    (SQUARE + "f -4 -3 -2\nf -4/-1/-1 -2/-1 -1\n", [[0, 1, 2], [0, 2, 3]]),
    ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf -3 -2 -1\nv 0 1 0\nf -4 -2 -1\n", [[0, 1, 2], [0, 2, 3]]),
    (SQUARE.replace("\n", "\r\n") + "f 1 2 3\r\n", [[0, 1, 2]]),
    (SQUARE.replace("\n", "\r") + "f 1 2 3\r", [[0, 1, 2]]),
    (SQUARE.replace("0 0 0", "0 0 0 0.5 0.25 1") + "f 1 2 3\n", [[0, 1, 2]]),
    (SQUARE.replace("0 0 0", "0 0 0 1.0") + "f 1 2 3\n", [[0, 1, 2]]),
    ("# head\n\n  " + SQUARE.replace("v ", "v\t") + "o one\ng a b\nf 1 2 3 # tail\ns off\no two\nusemtl m\\n\nf 1 3 4\n",
     [[0, 1, 2], [0, 2, 3]]),
    (SQUARE + "f 1 \\\n 2 3\nf 1 \\\r\n3 4\\\n\n", [[0, 1, 2], [0, 2, 3]]),
    ("# C:\\path\\\n" + SQUARE + "mtllib C:\\x.mtl\nvn 0 0 1\nvt 0 0\nvp 1\nl 1 2\np 1\nf 1 2 3\n", [[0, 1, 2]]),
    (b"\xef\xbb\xbf" + SQUARE.encode() + b"g \xfcml\xe4ut\nf 1 2 3\n", [[0, 1, 2]]),
    ("f 1 2 3\n" + SQUARE, [[0, 1, 2]]),
    (SQUARE.replace("1 1 0", "+1 1e0 0.0e-400") + "f +1 2 3\n", [[0, 1, 2]]),
])
def test_obj(tmp_path, text, faces):
    mesh = read(tmp_path, text)
    assert mesh.faces.tolist() == faces
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]


@each("text, line, words", [
    ("v 0 0 0\nv 1 0 nan\nv 0 1 0\nf 1 2 3\n", 2, "'nan'"), ("v 0 0 inf\n", 1, "'inf'"), ("v 0 0 1e999\n", 1, "1e999"),
    ("v 0 0\n", 1, "three coordinates"), ("v\n", 1, "three coordinates"), ("v 0 x 0\n", 1, "'x' is not a number"),
    ("v 0 0 0x10\n", 1, "not a number"), ("v 0 0 1,5\n", 1, "not a number"), ("v 0 0 -\n", 1, "not a number"),
    (SQUARE + "f 1 2", 5, "three corners"), (SQUARE + "f 1 2 ", 5, "three corners"), (SQUARE + "f 1 2 5\n", 5, "vertex index 5"),
    (SQUARE + "f 0 1 2\n", 5, "vertex index 0"),
    (SQUARE + "f 1 2 -5\n", 5, "vertex index -5"), (SQUARE + "f 1 2 3.5\n", 5, "'3.5'"), (SQUARE + "f 1 2 a/b\n", 5, "'a/b'"),
    (SQUARE + "f 1 2 99999999999999999999\n", 5, "corner"), (SQUARE + "f 1 2 4294967297\n", 5, "vertex index 4294967297"),
    (SQUARE + "f 1 \\\n2 \\\n9\n", 7, "vertex index 9"), (SQUARE + "\n\nf 1 2 3\nf 1 2 7\n# end\n", 8, "vertex index 7"),
    (b"\x00\x01binary\n", 1, "control"), (b"\x89PNG\r\n", 1, "not an OBJ statement"), ("{\"json\": 1}\n", 1, "not an OBJ statement"),
])
def test_obj_errors_name_the_line(tmp_path, text, line, words):
    with pytest.raises(InvalidInputError) as error:
        read(tmp_path, text)
    assert str(error.value).startswith(f"{tmp_path / 'mesh.obj'}:{line}: ") and words in str(error.value)


@pytest.mark.parametrize("text", ["", "\n", "# nothing\n", SQUARE, "f\n"[:0] + "v 0 0 0"])
def test_obj_without_faces(tmp_path, text):
    with pytest.raises(InvalidInputError, match="mesh.obj: the file (has|is empty)"):
        read(tmp_path, text)


@pytest.mark.native
@pytest.mark.parametrize("text", [
    SQUARE.replace("1 0 0", "1 0 0 nan nan nan") + "f 1 2 3\n", SQUARE.replace("1 0 0", "1 0 0 -1.#IND -1.#IND 1.#QNAN 7") + "f 1 2 3\n",
    SQUARE.replace("1 0 0", "1 0 0 inf") + "f 1 2 3\n", SQUARE.replace("1 0 0", "1 0 0 red") + "f 1 2 3\n", SQUARE + "f 1 2 3\n\n\n \n", SQUARE + "f 1 2 3\n\0\0\0",
    SQUARE + "f 1 2 3\n\x1a", SQUARE + "f 1// 2// 3//\n", SQUARE + "f 1/ 2/ 3/\n", SQUARE + "f 1 2 3  \t\n", SQUARE + "vp 0.1 0.2\np 1 2\nl 1/1 2/1\nf 1 2 3\n",
    SQUARE + "cstype rat bspline\ndeg 3\ncurv 0 1 1 2 3 4\nsurf 0 1 0 1 1 2 3 4\nparm u 0 1\ntrim 0 1 1\nend\nf 1 2 3\n", SQUARE + "// a remark\n; another\n$ or so\nf 1 2 3\n",
])
def test_obj_ignores_other_statements(tmp_path, text):
    mesh = read(tmp_path, text)
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]] and mesh.faces.tolist() == [[0, 1, 2]]


def test_obj_faces_of_two_corners_are_counted(tmp_path):
    with pytest.warns(MeshsolveWarning, match="mesh.obj: dropped 2 faces with fewer than three corners"):
        assert read(tmp_path, SQUARE + "f 1// 2//\nf 1 2 3\nf 4\n").faces.tolist() == [[0, 1, 2]]


def test_damaged_gzip(tmp_path):
    (tmp_path / "a.obj.gz").write_bytes(gzip.compress(SQUARE.encode())[:-9] + b"123456789")
    with pytest.raises(InvalidInputError, match="a.obj.gz"):
        load_mesh(tmp_path / "a.obj.gz")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-1e70, 1e70)] * 3), min_size=3, max_size=8))
def test_obj_keeps_every_bit(points):
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        Mesh(points, [[0, 1, 2]]).save(folder + "/a.obj")
        assert np.array_equal(load_mesh(folder + "/a.obj").vertices, np.array(points))


@pytest.mark.native
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet="vf 0123.-/\\\n\r#e+nta", max_size=120))
def test_the_obj_reader_either_reads_or_refuses(content):
    import tempfile

    content = content if isinstance(content, bytes) else content.encode()
    with tempfile.NamedTemporaryFile(suffix=".obj") as f:
        f.write(content)
        f.flush()
        try:
            mesh = load_mesh(f.name)
        except InvalidInputError:
            return
        except MeshsolveWarning:
            return
        assert np.isfinite(mesh.vertices).all() and mesh.faces.max(initial=-1) < len(mesh.vertices)
