"""Mesh files of every format: written files are read back, truncated files are refused; real meshes."""

import csv
import os

import numpy as np
import pytest
from cases import each

from meshsolve import datasets
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, load_mesh
from meshsolve.mesh.polygons import merge_identical

# ---- every format


@pytest.mark.parametrize("extension, bound", [("obj", 0), ("ply", 0), ("off", 0), ("stl", 1e-7), ("glb", 1e-7), ("obj.gz", 0),
                                              ("ply.gz", 0)])
def test_formats_keep_vertices_and_faces(tmp_path, extension, bound):
    sphere = datasets.icosphere(2)
    mesh = Mesh(np.concatenate([sphere.vertices, [[5, 5, 5]]]) / 3, sphere.faces)       # the last vertex is unreferenced
    path = tmp_path / f"mesh.{extension}"
    mesh.save(path)
    again = load_mesh(path)
    if extension == "stl":                    # a soup: order of appearance, no unreferenced vertices
        assert len(again.vertices) == len(sphere.vertices)
        assert np.abs(again.vertices[again.faces] - mesh.vertices[mesh.faces]).max() <= bound
    else:
        assert np.array_equal(again.faces, mesh.faces) and np.abs(again.vertices - mesh.vertices).max() <= bound
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("extension", ["obj", "ply", "off"])
@pytest.mark.parametrize("size", [1e-30, 1e-9, 1e30])
def test_formats_keep_meshes_of_any_size(tmp_path, extension, size):
    """With a fixed number of decimals all vertices of a small mesh would coincide."""
    sphere = datasets.icosphere(1)
    path = tmp_path / f"mesh.{extension}"
    Mesh(sphere.vertices * size / 3, sphere.faces).save(path)
    assert np.array_equal(load_mesh(path).vertices, sphere.vertices * size / 3)


@pytest.mark.parametrize("ending", ["stl", "glb"])
def test_single_precision_formats_refuse_large_coordinates(tmp_path, ending):
    mesh = Mesh([[0, 0, 0], [1, 0, 0], [0, -1e39, 0]], [[0, 1, 2]])
    with pytest.raises(InvalidInputError, match="vertex 2 has a coordinate beyond 3.4e"):
        mesh.save(tmp_path / f"far.{ending}")
    assert os.listdir(tmp_path) == []


@each("extension", ["stl", "glb"])
@each("scale", [1e-30, 1.0, 1e30])
def test_rounding_to_single_precision_is_said(tmp_path, extension, scale):
    """Far from the origin rounding moves vertices by a good part of a side. One short side is enough."""
    sphere = datasets.icosphere(1)
    path = tmp_path / f"a.{extension}"
    for shift in (0, 1, 1000):
        Mesh((sphere.vertices + shift) * scale, sphere.faces).save(path)
    short = sphere.vertices.copy()
    short[sphere.faces[0, 1]] = short[sphere.faces[0, 0]] + 1e-7
    for x in (sphere.vertices + 1e6, short, sphere.vertices * 1e-80):
        with pytest.warns(MeshsolveWarning, match=f"{extension.upper()} has single precision: rounding moves corners of [0-9]+ faces? by more"):
            Mesh(x * scale, sphere.faces).save(path)


@pytest.mark.parametrize("extension", ["obj", "ply", "off", "stl", "glb", "ply.gz", "obj.gz"])
@pytest.mark.parametrize("share", [0.03, 0.3, 0.5, 0.9])
def test_a_file_cut_off_is_refused(tmp_path, extension, share):
    path = tmp_path / f"mesh.{extension}"
    datasets.icosphere(2).save(path)
    content = path.read_bytes()
    cut = content[:int(share * len(content))]
    path.write_bytes(cut if extension != "obj" else cut[:cut.rindex(b" ") + 1])      # inside a line
    with pytest.raises(InvalidInputError) as error:
        load_mesh(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("name, content, says", [
    ("a.off", b"", "a.off: the file is empty"), ("a.glb", b" \n", "a.glb: the file is empty"), ("a.obj", b"\0" * 5000, "a.obj: the file is empty"),
    ("a.off", b"8 6 0\n", "a.off:2: the header announces 8 vertices and 6 faces, but 0 and 0 could be read"),
    ("a.off", b"solid\n", "a.off:1: an OFF file must begin with OFF, got 'solid'"),
    ("a.off", b"OFF BINARY\n\0\0\0\4", "a.off:1: OFF BINARY is not supported"), ("a.off", b"4OFF\n1 0 0\n0 0 0 2\n", "a.off:1: 4OFF is not supported"),
    ("a.off", b"nOFF\n3\n1 0 0\n0 0 0\n", "a.off:1: nOFF is not supported"), ("a.gltf", b"{\n'", "a.gltf: the JSON text is invalid at line 2, column 1"),
])
def test_messages_of_damaged_files(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidInputError) as caught:
        load_mesh(tmp_path / name)
    assert says in str(caught.value)


@pytest.mark.parametrize("name, words", [("missing.obj", "no such file"), ("mesh.xyz", "unknown mesh format"),
                                         ("mesh", "unknown")])
def test_load_refuses(tmp_path, name, words):
    with pytest.raises(InvalidInputError, match=words):
        load_mesh(tmp_path / name)
    with pytest.raises(InvalidInputError):
        load_mesh(7.5)


@pytest.mark.parametrize("name", ["mesh.gltf", "mesh.txt", "mesh", "no/such/folder/mesh.obj"])
def test_save_refuses(tmp_path, name):
    with pytest.raises(InvalidInputError):
        datasets.icosphere(0).save(tmp_path / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["ply", "off", "stl"])
def test_ascii_files(tmp_path, kind):
    import trimesh

    path = tmp_path / f"a.{kind}"
    square = trimesh.Trimesh([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0.0]], [[0, 1, 2], [0, 2, 3]], process=False)
    path.write_text({"ply": "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
                            "element face 1\nproperty list uchar int vertex_indices\nend_header\n"
                            "0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n",
                     "off": "OFF\n4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n4 0 1 2 3\n",
                     "stl": square.export(file_type="stl_ascii")}[kind])
    mesh = load_mesh(path)
    assert len(mesh.vertices) == 4 and len(mesh.faces) == 2
    assert np.array_equal(np.sort(mesh.vertices[:, 0]), [0, 0, 1, 1])


def test_real_meshes_keep_their_vertices_and_faces(data_dir):
    import warnings

    with open(data_dir / "INDEX.csv", newline="") as f:
        rows = [r for r in csv.DictReader(f) if r["file"].startswith("meshes/") and int(r["n"]) < 40_000]
    for row in rows:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MeshsolveWarning)
            mesh = load_mesh(data_dir / row["file"])
        assert len(mesh.vertices) == int(row["n"]), row["file"]
        assert int(row["nnz_or_faces"]) - 10 <= len(mesh.faces) <= int(row["nnz_or_faces"]), row["file"]
        unreferenced = len(mesh.vertices) - len(np.unique(mesh.faces))
        assert unreferenced == int(row["unreferenced_vertices"]), row["file"]
        if len(mesh.faces) == int(row["nnz_or_faces"]):
            assert np.count_nonzero(np.bincount(mesh.side_edges.ravel()) > 2) == int(row["nonmanifold_edges"]), row["file"]


@each("kind, text", [
    ("obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"), ("off", "OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n"),
    ("stl", "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\nendsolid\n"),
    ("ply", "ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\nelement face 1\n"
            "property list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n")])
@each("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@each("end", ["\n", "\r\n", "\r"])
def test_texts_in_any_encoding_with_any_end_of_line(tmp_path, kind, text, encoding, end):
    path = tmp_path / f"a.{kind}"
    path.write_bytes(text.replace("\n", end).encode(encoding))
    mesh = load_mesh(path)
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]] and mesh.faces.tolist() == [[0, 1, 2]]
    if encoding == "utf-16":
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(InvalidInputError, match=f"a.{kind}: the file is not valid UTF-16"):
            load_mesh(path)


# ---- scenes


def test_merge_identical_is_by_first_appearance():
    x = np.array([[2.0, 0, 0], [1, 0, 0], [2, 0, -0.0], [0, 0, 0], [1, 0, 0]])
    vertices, faces = merge_identical(x, np.array([[0, 1, 3], [2, 4, 3]]))
    assert vertices.tolist() == [[2, 0, 0], [1, 0, 0], [0, 0, 0]] and faces.tolist() == [[0, 1, 2], [0, 1, 2]]


def test_a_scene_is_one_mesh(tmp_path):
    import trimesh

    scene = trimesh.Scene([trimesh.creation.box(), trimesh.creation.box().apply_translation([3, 0, 0])])
    scene.export(tmp_path / "scene.glb")
    mesh = load_mesh(tmp_path / "scene.glb")
    assert len(mesh.faces) == 24 and mesh.vertices[:, 0].max() == pytest.approx(3.5)
