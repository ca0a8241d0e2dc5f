"""Named data of vertices, faces and corners: checks, copies, round trips through every format, and through the functions of the library."""

import warnings

import numpy as np
import pytest
from cases import each
from mesh import gltf_files
from mesh.small_meshes import CORNERS, TETRAHEDRON

from meshsolve import apps, datasets
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh, load_mesh
from meshsolve.mesh.data import per_vertex

POINTS, FACES = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [1, 3, 2]]


def painted(seam=True):
    """A sphere with data of every kind."""
    mesh, rng = datasets.icosphere(2), np.random.default_rng(7)
    n, m = len(mesh.vertices), len(mesh.faces)
    uv = rng.random((m, 3, 2)) if seam else rng.random((n, 2))[mesh.faces]
    return Mesh(mesh, vertex_data={"color": rng.integers(0, 256, (n, 3), np.uint8), "distance": rng.random(n), "field": rng.random((n, 3)),
                                   "label": rng.integers(-9, 9, n).astype(np.int16), "normal": mesh.vertex_normals},
                face_data={"part": np.arange(m, dtype=np.int32), "stress": rng.random((m, 2)).astype(np.float32), "chosen": rng.random(m) > 0.5},
                corner_data={"uv": uv, "weight": rng.random((m, 3))})


def assert_same(got, wanted):
    """Names, dtypes and bits; NaN equals NaN."""
    assert set(got) == set(wanted)
    for name, x in wanted.items():
        assert got[name].dtype == x.dtype and np.array_equal(got[name], x, equal_nan=x.dtype.kind == "f"), name


# ---- the mappings


def test_data_are_checked_and_copied():
    mesh, given = Mesh(POINTS, FACES), np.arange(4.0)
    mesh.vertex_data["q"] = given
    given[:] = 9
    assert mesh.vertex_data["q"].tolist() == [0, 1, 2, 3] and not mesh.vertex_data["q"].flags.writeable
    mesh.corner_data["flag"] = np.ones((2, 3), bool)
    mesh.face_data["half"] = np.ones(2, np.float16)
    assert mesh.corner_data["flag"].dtype == bool and mesh.face_data["half"].dtype == np.float32
    del mesh.vertex_data["q"]
    assert dict(mesh.vertex_data) == {} and repr(mesh.face_data) == "{'half': float32 (2,)}"


@pytest.mark.parametrize("kind, name, values, words", [
    ("vertex_data", "q", [1, 2, 3], r"vertex data 'q' must have shape \(4, ...\), one row for each vertex, got \(3,\)"),
    ("face_data", "q", [1.0, 2, 3], r"face data 'q' must have shape \(2, ...\)"),
    ("corner_data", "uv", np.zeros((2, 2)), r"corner data 'uv' must have shape \(2, 3, ...\), one row for each corner"),
    ("corner_data", "uv", np.zeros((2, 3)), "corner data 'uv' must have 2 columns"), ("vertex_data", "color", np.zeros((4, 2)), "3 or 4 columns"),
    ("vertex_data", "q", ["a"] * 4, "real numbers"), ("vertex_data", "q", [1j] * 4, "real numbers, got complex128"),
    ("vertex_data", "", [1] * 4, "must be a string that is not empty"), ("vertex_data", 3, [1] * 4, "must be a string"),
])
def test_data_refuse(kind, name, values, words):
    mesh = Mesh(POINTS, FACES)
    with pytest.raises(InvalidInputError, match=words):
        getattr(mesh, kind)[name] = values
    with pytest.raises(InvalidInputError, match=words):
        Mesh(POINTS, FACES, **{kind: {name: values}})
    assert len(getattr(mesh, kind)) == 0


def test_dropped_faces_drop_their_rows():
    with pytest.warns(MeshsolveWarning, match="repeated corner"):
        mesh = Mesh(POINTS, [FACES[0], [1, 1, 2], FACES[1]], face_data={"part": [5, 6, 7]}, corner_data={"k": np.arange(9).reshape(3, 3)})
    assert mesh.face_data["part"].tolist() == [5, 7] and mesh.corner_data["k"].tolist() == [[0, 1, 2], [6, 7, 8]]


def test_copies_share_arrays_but_not_mappings():
    mesh = painted()
    for other in (mesh.copy(), mesh.with_vertices(mesh.vertices), Mesh(mesh)):
        other.vertex_data["new"] = np.zeros(len(mesh.vertices))
        del other.face_data["part"]
        assert other.vertex_data["distance"].tolist() == mesh.vertex_data["distance"].tolist()
    assert "new" not in mesh.vertex_data and "part" in mesh.face_data


def test_normals_of_moved_vertices_are_removed():
    mesh = painted()
    moved = mesh.with_vertices(2 * mesh.vertices)
    assert "normal" not in moved.vertex_data and "normal" in mesh.vertex_data and "normal" in mesh.copy().vertex_data
    mesh.corner_data["normal"] = np.zeros((len(mesh.faces), 3, 3))
    mesh.vertices = mesh.vertices + 1
    assert "normal" not in mesh.vertex_data and "normal" not in mesh.corner_data and "uv" in mesh.corner_data


@pytest.mark.parametrize("smoothed", [
    lambda mesh: apps.smooth(mesh, 1)[0], lambda mesh: apps.mcf(mesh, steps=1)[0], lambda mesh: apps.denoise(mesh, iterations=1)[0],
    lambda mesh: apps.Deformation(mesh, [0, 5]).move(mesh.vertices[[0, 5]] * 1.1),
])
def test_data_go_through_the_functions(smoothed):
    mesh = painted()
    out = smoothed(mesh)
    assert not np.array_equal(out.vertices, mesh.vertices)
    del mesh.vertex_data["normal"]
    for kind in ("vertex_data", "face_data", "corner_data"):
        assert_same(getattr(out, kind), getattr(mesh, kind))


def test_corners_that_agree_are_data_of_vertices():
    faces = np.array(TETRAHEDRON)
    values = np.array([3.0, np.nan, 5, 7])
    assert np.array_equal(per_vertex(values[faces], faces, 5, np.nan), [*values, np.nan], equal_nan=True)
    torn = values[faces]
    torn[0, 0] = 4
    assert per_vertex(torn, faces, 4, np.nan) is None
    assert per_vertex(np.array([[1, 2, 3]], np.uint8), np.array([[2, 0, 1]]), 4, 0).tolist() == [2, 3, 1, 0]


# ---- round trips


@pytest.mark.parametrize("extension", ["ply", "ply.gz"])
def test_a_ply_keeps_all_data_bit_for_bit(tmp_path, extension):
    mesh = painted()
    mesh.vertex_data["color"] = np.pad(mesh.vertex_data["color"], ((0, 0), (0, 1)), constant_values=200)
    mesh.vertex_data["distance"] = np.where(np.arange(len(mesh.vertices)) % 5, mesh.vertex_data["distance"], np.inf)
    mesh.save(tmp_path / f"a.{extension}")
    again = load_mesh(tmp_path / f"a.{extension}")
    assert np.array_equal(again.vertices, mesh.vertices) and np.array_equal(again.faces, mesh.faces)
    mesh.face_data["chosen"] = mesh.face_data["chosen"].astype(np.uint8)
    for kind in ("vertex_data", "face_data", "corner_data"):
        assert_same(getattr(again, kind), getattr(mesh, kind))


@pytest.mark.parametrize("extension", ["vtu", "vtp", "vtk", "msh", "vtu.gz"])
def test_formats_of_vtk_and_gmsh_keep_data_of_vertices_and_faces(tmp_path, extension):
    mesh = painted()
    with pytest.warns(MeshsolveWarning, match=f"{extension[:3].upper()} cannot hold corner data 'uv', 'weight': left out; save as PLY"):
        mesh.save(tmp_path / f"a.{extension}")
    again = load_mesh(tmp_path / f"a.{extension}")
    assert np.array_equal(again.vertices, mesh.vertices) and np.array_equal(again.faces, mesh.faces)
    if extension == "msh":                      # float64 alone
        mesh.vertex_data["color"] = mesh.vertex_data["color"] / 255
    for got, wanted in ((again.vertex_data, mesh.vertex_data), (again.face_data, mesh.face_data)):
        assert set(wanted) <= set(got)
        for name, x in wanted.items():
            assert np.array_equal(got[name], x), name
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"a.{extension}"]


@pytest.mark.parametrize("seam", [False, True])
@pytest.mark.parametrize("extension, bound", [("obj", 0), ("glb", 1e-7), ("obj.gz", 0)])
def test_colors_and_texture_coordinates(tmp_path, extension, bound, seam):
    mesh = painted(seam)
    with pytest.warns(MeshsolveWarning, match="cannot hold vertex data 'distance', 'field', 'label', 'normal' and face data .*corner data 'weight'"):
        mesh.save(tmp_path / f"a.{extension}")
    again = load_mesh(tmp_path / f"a.{extension}")
    assert np.array_equal(again.faces, mesh.faces) and np.abs(again.vertices - mesh.vertices).max() <= bound
    color, uv = again.vertex_data["color"], mesh.corner_data["uv"]
    assert np.array_equal(color[:, :3] if extension == "glb" else color * 255, mesh.vertex_data["color"])
    assert ("uv" in again.vertex_data) == (not seam) and ("uv" in again.corner_data) == seam
    got = again.corner_data["uv"] if seam else again.vertex_data["uv"][again.faces]
    assert np.abs(got - uv).max() <= bound


@pytest.mark.parametrize("extension", ["obj", "glb", "ply"])
def test_texture_coordinates_of_vertices(tmp_path, extension):
    uv = np.random.default_rng(3).random((4, 2)).astype(np.float32)
    mesh = Mesh(CORNERS, TETRAHEDRON, vertex_data={"uv": uv, "color": np.linspace(0, 1, 12, dtype=np.float32).reshape(4, 3)})
    mesh.save(tmp_path / f"a.{extension}")
    again = load_mesh(tmp_path / f"a.{extension}")
    assert np.abs(again.vertex_data["uv"] - uv).max() <= 1e-7 * (extension == "glb")
    assert np.array_equal(again.vertex_data["color"], mesh.vertex_data["color"])


@pytest.mark.parametrize("extension", ["off", "stl"])
def test_formats_without_data_warn_once_by_name(tmp_path, extension):
    mesh = Mesh(CORNERS, TETRAHEDRON, vertex_data={"color": np.zeros((4, 3))}, face_data={"part": np.zeros(4)})
    with pytest.warns(MeshsolveWarning) as caught:
        mesh.save(tmp_path / f"a.{extension}")
    assert [str(w.message) for w in caught] == [f"{extension.upper()} cannot hold vertex data 'color' and face data 'part': left out; save as "
                                                "PLY or VTU to keep all"]
    assert len(load_mesh(tmp_path / f"a.{extension}").faces) == 4


def test_missing_texture_coordinates(tmp_path):
    """NaN is a corner without texture coordinates. A GLB has none such."""
    uv = np.random.default_rng(3).random((2, 3, 2))
    uv[0] = np.nan
    mesh = Mesh(POINTS, FACES, corner_data={"uv": uv})
    for extension in ("obj", "ply"):
        mesh.save(tmp_path / f"a.{extension}")
        assert np.array_equal(load_mesh(tmp_path / f"a.{extension}").corner_data["uv"], uv, equal_nan=True)
    with pytest.warns(MeshsolveWarning, match="GLB cannot hold NaN: 3 rows of 'uv' became 0"):
        mesh.save(tmp_path / "a.glb")


def test_an_obj_has_no_alpha(tmp_path):
    mesh = Mesh(POINTS, FACES, vertex_data={"color": np.array([[0, 51, 255, 7]] * 3 + [[1, 2, 3, 4]], np.uint8)})
    with pytest.warns(MeshsolveWarning, match="OBJ cannot hold the alpha of vertex data 'color'"):
        mesh.save(tmp_path / "a.obj")
    assert "v 0 0 0 0 0.2 1\n" in (tmp_path / "a.obj").read_text()
    mesh.vertex_data["color"] = np.array([[np.nan] * 3, [0, 0.5, 1], [1, 1, 1], [0, 0, 0]])
    mesh.save(tmp_path / "a.obj")
    assert np.array_equal(load_mesh(tmp_path / "a.obj").vertex_data["color"], mesh.vertex_data["color"], equal_nan=True)


@each("dtype", ["u1", "u2", "i2", "i4", "u4", "i8", "u8", ">i4"])
def test_colors_from_0_to_255_in_any_integers(tmp_path, dtype):
    """Other programs hold colors as int64, numpy's default, or int32 as a PLY with "property int red"; they were saved as black."""
    color = np.array([[255, 0, 51], [0, 255, 0], [0, 0, 255], [1, 2, 3]])
    mesh = Mesh(POINTS, FACES, vertex_data={"color": color.astype(dtype)})
    assert mesh.vertex_data["color"].dtype == np.uint8
    for extension in ("obj", "glb", "ply", "msh", "vtu"):
        mesh.save(tmp_path / f"a.{extension}")
        got = load_mesh(tmp_path / f"a.{extension}").vertex_data["color"][:, :3]
        assert np.allclose(got if got.dtype == np.uint8 else got * 255, color), extension
    assert mesh.to_trimesh().visual.vertex_colors[:, :3].tolist() == color.tolist()


def test_colors_of_16_bits_and_colors_out_of_range(tmp_path):
    wide = np.array([[65535, 0, 257], [0, 65535, 0], [0, 0, 65535], [1, 2, 3]], np.uint16)
    mesh = Mesh(POINTS, FACES, vertex_data={"color": wide})
    assert mesh.vertex_data["color"].dtype == np.uint16 and mesh.to_trimesh().visual.vertex_colors[0, :3].tolist() == [255, 0, 1]
    mesh.save(tmp_path / "a.obj")
    assert np.allclose(load_mesh(tmp_path / "a.obj").vertex_data["color"], wide / 65535)
    for wrong in (-1, 256):
        with pytest.raises(InvalidInputError, match=f"integers from 0 to 255 or floats from 0 to 1, got int64 from {min(wrong, 0)} to {max(wrong, 0)}"):
            mesh.vertex_data["color"] = np.full((4, 3), [0, 0, wrong])


# ---- hostile files


@pytest.mark.native
@pytest.mark.parametrize("faces, uv", [
    ("f 1/1 2/2 3/3\nf 2/2 4/4 3/3\n", [[[0, 0], [1, 0], [0, 1]], [[1, 0], [1, 1], [0, 1]]]),
    ("f 1/-4/9 2/-3 3/3\nf 2/1/ 4/4 3\n", [[[0, 0], [1, 0], [0, 1]], [[0, 0], [1, 1], [np.nan] * 2]]),
    ("f 1//1 2 3/\nf 2/2 4 3/+3\n", [[[np.nan] * 2] * 3, [[1, 0], [np.nan] * 2, [0, 1]]]),
    ("f 1/1 2/2 4/4 3/3\n", [[[0, 0], [1, 0], [1, 1]], [[0, 0], [1, 1], [0, 1]]]),
    ("f 1/1 2/1\nf 1/2 2/2 4/2\n", [[[1, 0]] * 3]),
])
def test_obj_texture_indices(tmp_path, faces, uv):
    text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\nvt 0 0\nvt 1\nvt 0 1 0\nvt 1 1\n" + faces
    (tmp_path / "a.obj").write_text(text)
    if "f 1/1 2/1\n" in text:
        with pytest.warns(MeshsolveWarning, match="fewer than three corners"):
            mesh = load_mesh(tmp_path / "a.obj")
    else:
        mesh = load_mesh(tmp_path / "a.obj")
    got = mesh.corner_data["uv"] if "uv" in mesh.corner_data else mesh.vertex_data["uv"][mesh.faces]
    assert np.array_equal(got, uv, equal_nan=True)


@pytest.mark.native
@pytest.mark.parametrize("text, line, words", [
    ("vt 0 0\nf 1 2 3\nf 1/1 2/2 3/1\n", 7, "texture index 2 is outside 1..1"), ("vt 0 0\nf 1/0 2/1 3/1\n", 6, "a texture index is outside 1..1"),
    ("vt 0 0\nf 1/1 2/1 3/-2\n", 6, "texture index"), ("vt 0 0\nf 1/1 2/1 3/99999999999999999999\n", 6, "texture index"),
    ("vt\n", 5, "a texture vertex needs"), ("vt 0 x\n", 5, "'x' is not a number"), ("f 1/1 2/2 3/3\nvt 0 0\nvt 1 1\n", 5, "texture index 3"),
])
def test_obj_errors_of_texture_coordinates_name_the_line(tmp_path, text, line, words):
    (tmp_path / "a.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 1 1 0\n" + text)
    with pytest.raises(InvalidInputError) as error:
        load_mesh(tmp_path / "a.obj")
    assert str(error.value).startswith(f"{tmp_path / 'a.obj'}:{line}: ") and words in str(error.value)


def test_obj_without_texture_vertices_or_with_nan(tmp_path):
    start = "v 0 0 0 1 0 0\nv 1 0 0\nv 0 1 0 nan 0 0\nv 1 1 0 0 1 0.5 1\n"
    (tmp_path / "a.obj").write_text(start + "f 1/1 2/2 3/9\nf 1 2 4\n")
    mesh = load_mesh(tmp_path / "a.obj")
    assert not mesh.corner_data and list(mesh.vertex_data) == ["color"]
    assert np.array_equal(mesh.vertex_data["color"], [[1, 0, 0], [np.nan] * 3, [np.nan] * 3, [0, 1, 0.5]], equal_nan=True)
    (tmp_path / "a.obj").write_text(start + "vt nan 0\nvt -1.#IND 0.5\nf 1/1 2/2 3/1\n")
    assert np.isnan(load_mesh(tmp_path / "a.obj").vertex_data["uv"][:3, 0]).all()


HEADER = "ply\nformat ascii 1.0\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n{}element face {}\n" \
         "property list uchar int vertex_indices\n{}end_header\n"


def ply(tmp_path, vertex, face, rows, faces):
    (tmp_path / "a.ply").write_text(HEADER.format(vertex, len(faces), face) + "\n".join([*rows, *faces]) + "\n")
    return tmp_path / "a.ply"


def test_polygons_repeat_their_data(tmp_path):
    rows = ["0 0 0 255 0 7 5 2", "1 0 0 0 1 9 6 2", "0 1 0 0 0 9 7 2", "1 1 0 0 0 9 8 2.5"]
    vertex = "".join(f"property {p}\n" for p in ("uchar red", "uchar green", "uchar blue", "int q", "uchar r"))
    path = ply(tmp_path, vertex, "property list uchar float texcoord\nproperty int part\n", rows,
               ["4 0 1 3 2 8 0 0 1 0 1 1 0 1 17", "2 0 1 0 99", "3 0 1 2 0 18"])
    with pytest.warns(MeshsolveWarning, match="dropped 1 face"):
        mesh = load_mesh(path)
    assert mesh.vertex_data["color"].tolist() == [[255, 0, 7], [0, 1, 9], [0, 0, 9], [0, 0, 9]] and mesh.vertex_data["color"].dtype == np.uint8
    assert mesh.vertex_data["q"].tolist() == [5, 6, 7, 8] and mesh.vertex_data["r"].tolist() == [2, 2, 2, 2.5]        # 2.5 is no uchar
    assert mesh.face_data["part"].tolist() == [17, 17, 18] and mesh.face_data["part"].dtype == np.int32
    corner = np.array(POINTS, np.float32)[mesh.faces][:, :, :2]
    assert np.array_equal(mesh.corner_data["uv"][:2], corner[:2]) and np.isnan(mesh.corner_data["uv"][2]).all()


def test_lists_that_fit_no_corners_are_left_out(tmp_path):
    rows = [" ".join(map(str, p)) for p in POINTS]
    path = ply(tmp_path, "", "property list uchar int odd\nproperty list uchar float none\n", rows, ["3 0 1 2 4 1 2 3 4 0", "3 0 1 3 2 1 2 0"])
    with pytest.warns(MeshsolveWarning, match="a.ply: left out 'odd' of face"):
        mesh = load_mesh(path)
    assert len(mesh.faces) == 2 and not mesh.corner_data
    path = ply(tmp_path, "", "property list uchar float texcoord\n", rows, ["3 0 1 2 6 0 0 1 1 0"])
    with pytest.raises(InvalidInputError, match="row 0 cannot be read: the file may be cut off"):
        load_mesh(path)


def test_names_in_a_ply(tmp_path):
    mesh = Mesh(POINTS, FACES, vertex_data={"my field": np.arange(4), "größe": np.arange(4, dtype=np.int64) << 40})
    with pytest.warns(MeshsolveWarning, match="'my field' is written as 'my_field'"):
        mesh.save(tmp_path / "a.ply")
    assert_same(load_mesh(tmp_path / "a.ply").vertex_data, {"my_field": np.arange(4, dtype=np.int32), "größe": mesh.vertex_data["größe"]})
    for name in ("x", "nx"):
        wrong = Mesh(POINTS, FACES, vertex_data={name: np.zeros(4), "normal": np.zeros((4, 3))})
        with pytest.raises(InvalidInputError, match=f"two properties of vertex named '{name}'"):
            wrong.save(tmp_path / "b.ply")
    assert [p.name for p in tmp_path.iterdir()] == ["a.ply"]


def test_damaged_files_of_vtk_and_gmsh(tmp_path):
    for extension in ("vtu", "vtp", "vtk", "msh"):
        path = tmp_path / f"a.{extension}"
        Mesh(CORNERS, TETRAHEDRON).save(path)
        content = path.read_bytes()
        for share in (0.1, 0.3, 0.7, 0.95):
            path.write_bytes(content[:int(share * len(content))])
            with pytest.raises(InvalidInputError, match=f"a.{extension}: "):
                load_mesh(path)


# ---- glTF


def textured(*counts, **root):
    """A document of tetrahedra; the primitives have texture coordinates of ``counts`` rows, or none for 0."""
    part = (gltf_files.TETRAHEDRON, gltf_files.FACES, 4)
    g = gltf_files.document(*[part] * len(counts), **root)
    for k, count in enumerate(counts):
        attributes = g["meshes"][0]["primitives"][k]["attributes"]
        if count:
            attributes["TEXCOORD_0"] = gltf_files.add(g, np.arange(2 * count, dtype=np.uint8).reshape(-1, 2) * 20, normalized=True)
            attributes["COLOR_0"] = gltf_files.add(g, np.arange(count * (3 + k), dtype=np.uint8).reshape(count, -1), normalized=True)
    return g


def test_attributes_of_primitives_become_data(tmp_path):
    """The second primitive repeats the positions of the first with other data, so vertices are merged and data stay at the corners."""
    mesh = load_mesh(gltf_files.save(textured(4, 0), tmp_path))
    assert len(mesh.vertices) == 4 and len(mesh.faces) == 8
    uv, color, corners = mesh.corner_data["uv"], mesh.corner_data["color"], gltf_files.FACES.reshape(-1, 3)
    assert np.allclose(uv[:4, :, 0] * 255, 40 * corners) and np.allclose((1 - uv[:4, :, 1]) * 255, 40 * corners + 20)      # v is turned over
    assert np.allclose(color[:4, :, 2] * 255, 3 * corners + 2) and np.isnan(uv[4:]).all() and np.isnan(color[4:]).all()
    both = load_mesh(gltf_files.save(textured(4, 4), tmp_path)).corner_data["color"]
    assert both.shape == (8, 3, 4) and both.dtype == np.uint8 and (both[:4, :, 3] == 255).all()                             # no alpha: opaque


def test_other_attributes_are_named(tmp_path):
    g = textured(0)
    g["meshes"][0]["primitives"][0]["attributes"]["_HEAT"] = gltf_files.add(g, np.arange(4, dtype=np.float32))
    with pytest.warns(MeshsolveWarning, match="a.gltf: left out '_HEAT': of the data of vertices only COLOR_0 and TEXCOORD_0 are read"):
        load_mesh(gltf_files.save(g, tmp_path))


def test_mirrored_instances_turn_their_corners(tmp_path):
    mesh = load_mesh(gltf_files.save(textured(4, nodes=[{"mesh": 0}, {"mesh": 0, "scale": [-1, 1, 1]}], scenes=[{"nodes": [0, 1]}]), tmp_path))
    assert len(mesh.vertices) == 8 and mesh.volume == pytest.approx(1 / 3) and not mesh.corner_data
    assert mesh.vertex_data["color"].dtype == np.uint8 and np.array_equal(*mesh.vertex_data["color"].reshape(2, 4, 3))


def test_damaged_attributes_are_left_out(tmp_path):
    with pytest.warns(MeshsolveWarning, match="a.gltf: mesh 0, primitive 0: (TEXCOORD_0|COLOR_0) has 3 rows, but POSITION has 4; it was left out"):
        mesh = load_mesh(gltf_files.save(textured(3), tmp_path))
    assert len(mesh.faces) == 4 and not mesh.corner_data and not mesh.vertex_data


def test_trimesh_reads_our_glb(tmp_path):
    import trimesh

    mesh = painted(seam=False)
    mesh = Mesh(mesh.vertices, mesh.faces, vertex_data={"uv": per_vertex(mesh.corner_data["uv"], mesh.faces, 162, 0)})
    mesh.save(tmp_path / "a.glb")
    tm = trimesh.load(tmp_path / "a.glb", process=False).to_geometry()
    assert np.allclose(tm.visual.uv, mesh.vertex_data["uv"], atol=1e-6) and np.array_equal(tm.faces, mesh.faces)


# ---- other libraries


def test_trimesh_both_ways():
    mesh = painted()
    with pytest.warns(MeshsolveWarning, match="trimesh cannot hold corner data 'uv', 'weight'"):
        tm = mesh.to_trimesh()
    assert np.array_equal(tm.visual.vertex_colors[:, :3], mesh.vertex_data["color"])
    again = Mesh.from_trimesh(tm)
    assert_same(again.vertex_data, mesh.vertex_data)
    assert_same(again.face_data, mesh.face_data)
    uv = np.random.default_rng(1).random((4, 2))
    assert np.array_equal(Mesh(Mesh(CORNERS, TETRAHEDRON, vertex_data={"uv": uv}).to_trimesh()).vertex_data["uv"], uv)
    assert dict(Mesh(Mesh(CORNERS, TETRAHEDRON).to_trimesh()).vertex_data) == {}


def test_arrays_with_names_of_columns(tmp_path):
    """PLY and MSH hold columns: q_0 and q_1 are read as q, as documented. VTU and VTK hold arrays. Names of colors are said."""
    mesh = Mesh(POINTS, FACES, vertex_data={"q_0": np.zeros(4), "q_1": np.ones(4)}, face_data={"w": np.zeros((2, 2))})
    for extension in ("ply", "msh", "vtu", "vtp", "vtk"):
        mesh.save(tmp_path / f"a.{extension}")
        found = load_mesh(tmp_path / f"a.{extension}").vertex_data
        assert list(found) == (["q"] if extension in ("ply", "msh") else ["q_0", "q_1"])
        assert np.array_equal(np.column_stack(list(found.values())), [[0, 1]] * 4)
    mesh = Mesh(POINTS, FACES, face_data={"red": [1, 2], "green": [1, 2], "blue": [1, 2]})
    with pytest.warns(MeshsolveWarning, match="face data 'red', 'green', 'blue' in a PLY are read as 'color': rename"):
        mesh.save(tmp_path / "a.ply")


def test_meshio_both_ways():
    import meshio

    cells = [("line", [[0, 1]]), ("triangle", [[0, 1, 2]]), ("quad", [[0, 1, 3, 2]])]
    mesh = Mesh.from_meshio(meshio.Mesh(np.array(POINTS, float), cells, {"t": np.arange(4.0)}, {"part": [[1], [2], [3]]}))
    assert mesh.vertex_data["t"].tolist() == [0, 1, 2, 3] and mesh.face_data["part"].tolist() == [2, 3, 3]
    with pytest.warns(MeshsolveWarning, match="left out the sets 'fixed', 'lid' of the meshio.Mesh"):
        Mesh.from_meshio(meshio.Mesh(np.array(POINTS, float), cells, point_sets={"fixed": [0]}, cell_sets={"lid": [[], [0], []]}))
    back = mesh.to_meshio()
    assert back.point_data["t"].tolist() == [0, 1, 2, 3] and back.cell_data["part"][0].tolist() == [2, 3, 3]


def test_results_are_saved_with_the_data_of_the_mesh(tmp_path):
    mesh, uv = Mesh(POINTS, FACES, vertex_data={"a": np.arange(4.0)}, corner_data={"uv": np.ones((2, 3, 2))}), np.arange(8.0).reshape(4, 2)
    with pytest.warns(MeshsolveWarning, match="corner data 'uv'"):
        mesh.save(tmp_path / "a.vtu", fields={"b": uv})
    assert_same(load_mesh(tmp_path / "a.vtu").vertex_data, {"a": np.arange(4.0), "b": uv})
    for given in (uv, (uv[::-1], 3 - mesh.faces)):
        mesh.save(tmp_path / "a.ply", uv=given)
        again = load_mesh(tmp_path / "a.ply")
        assert np.array_equal(again.corner_data["uv"] if isinstance(given, tuple) else again.vertex_data["uv"][again.faces], uv[mesh.faces])
        assert ("uv" in again.corner_data) == isinstance(given, tuple)
    assert list(mesh.vertex_data) == ["a"] and (mesh.corner_data["uv"] == 1).all()


@each("suffix", [".ply", ".vtu", ".vtp", ".vtk", ".msh", ".obj", ".glb"])
def test_data_without_columns_are_named_when_they_are_lost(tmp_path, suffix):
    mesh = datasets.icosphere(0)
    for data, rows in ((mesh.vertex_data, (12,)), (mesh.face_data, (20,)), (mesh.corner_data, (20, 3))):
        data["none"] = np.zeros((*rows, 0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        mesh.save(tmp_path / f"a{suffix}")
        again = load_mesh(tmp_path / f"a{suffix}")
    assert [str(w.message) for w in said] == [f"{what} data 'none' have no columns: left out" for what in ("vertex", "face", "corner")]
    assert len(again.vertices) == 12 and not again.vertex_data
