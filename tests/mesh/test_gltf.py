"""glTF files: each feature of the format is read as specified, or refused by name."""

import base64
import json

import numpy as np
import pytest
from cases import each
from mesh.gltf_files import FACES, TETRAHEDRON, add, add_view, document, packed, save, tetrahedron

from meshsolve import apps, datasets
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import load_mesh

SQUARE = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0, 2, 0], [1, 2, 0]], "f4")


def volume(mesh):
    a, b, c = (mesh.vertices[mesh.faces[:, k]] for k in range(3))
    return np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6


def refused(g, folder):
    with pytest.raises(InvalidInputError) as error:
        load_mesh(save(g, folder))
    assert str(error.value).startswith(f"{folder / 'a.gltf'}: ")
    return str(error.value)


# ---- primitives and accessors


@pytest.mark.parametrize("kind", ["u1", "u2", "u4"])
def test_triangles_with_any_kind_of_index(tmp_path, kind):
    mesh = load_mesh(save(document((TETRAHEDRON, FACES.astype(kind), 4)), tmp_path))
    assert mesh.vertices.tolist() == TETRAHEDRON.tolist() and mesh.faces.tolist() == FACES.reshape(-1, 3).tolist()


@pytest.mark.parametrize("mode, indices, faces", [
    (4, None, [[0, 1, 2], [3, 4, 5]]), (5, None, [[0, 1, 2], [2, 1, 3], [2, 3, 4], [4, 3, 5]]), (6, None, [[0, 1, 2], [0, 2, 3], [0, 3, 4], [0, 4, 5]]),
    (5, [0, 1, 2, 3, 3, 4, 4, 5, 2], [[0, 1, 2], [2, 1, 3], [4, 5, 2]]), (6, [3, 2, 1, 0], [[3, 2, 1], [3, 1, 0]]), (5, [0, 1], []), (6, [0], []),
])
def test_strips_fans_and_vertices_without_indices(tmp_path, mode, indices, faces):
    g = document((SQUARE, None if indices is None else np.array(indices, "u2"), mode), (SQUARE + 9, np.array([0, 1, 2], "u2"), 4))
    mesh = load_mesh(save(g, tmp_path))
    canonical = [sorted(tuple(np.roll(face, k)) for k in range(3))[0] for face in mesh.faces[:-1].tolist()]
    assert canonical == [sorted(tuple(np.roll(face, k)) for k in range(3))[0] for face in faces] and len(mesh.vertices) == 12


def test_points_and_lines_are_left_out(tmp_path):
    for mode in range(4):
        with pytest.warns(MeshsolveWarning, match="a.gltf: left out 1 primitive of points or lines"):
            assert volume(load_mesh(save(document((TETRAHEDRON, FACES, 4), (SQUARE, None, mode)), tmp_path))) == pytest.approx(1 / 6)
        assert "points or lines but no triangles" in refused(document((SQUARE, None, mode)), tmp_path)
    assert "primitive 0 has mode 7" in refused(document((SQUARE, None, 7)), tmp_path)


def test_strides_and_offsets(tmp_path):
    g = tetrahedron()
    rows = np.zeros((4, 6), "f4")
    rows[:, 2:5] = TETRAHEDRON * 2
    g["accessors"][0] |= {"bufferView": add_view(g, rows), "byteOffset": 8}
    g["bufferViews"][-1]["byteStride"] = 24
    assert load_mesh(save(g, tmp_path)).vertices.tolist() == (2 * TETRAHEDRON).tolist()
    g["bufferViews"][-1]["byteStride"] = 28
    assert "accessor 0: 4 rows end at byte 104, but the bufferView has 96 bytes" in refused(g, tmp_path)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("kind", ["u1", "u2", "u4"])
def test_sparse_accessors(tmp_path, zeros, kind):
    g = tetrahedron()
    chosen = np.arange(4) if zeros else np.array([3])
    values = TETRAHEDRON[chosen] * [1, 1, 3]
    if zeros:
        del g["accessors"][0]["bufferView"]
    code = {"u1": 5121, "u2": 5123, "u4": 5125}[kind]
    g["accessors"][0]["sparse"] = {"count": len(chosen), "indices": {"bufferView": add_view(g, chosen.astype(kind)), "componentType": code},
                                   "values": {"bufferView": add_view(g, values.astype("f4"))}}
    assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(0.5)
    g["accessors"][0]["sparse"]["indices"]["bufferView"] = add_view(g, chosen.astype(kind) + 4)
    assert "sparse accessor 0: entry" in refused(g, tmp_path)
    g["accessors"][0]["sparse"]["indices"]["componentType"] = 5126
    assert "sparse accessor 0 has indices of componentType 5126" in refused(g, tmp_path)


@pytest.mark.parametrize("kind, normalized, size", [("i1", True, 127), ("u1", True, 255), ("i2", True, 32767), ("u2", True, 65535), ("i2", False, 1)])
def test_quantized_positions(tmp_path, kind, normalized, size):
    positions = np.zeros((4, 4), kind)                          # rows begin at multiples of 4 bytes
    positions[:, :3] = TETRAHEDRON * size
    g = tetrahedron(extensionsRequired=["KHR_mesh_quantization"], nodes=[{"mesh": 0, "scale": [2, 2, 2]}])
    g["accessors"][0] |= {"bufferView": add_view(g, positions), "componentType": {"i1": 5120, "u1": 5121, "i2": 5122, "u2": 5123}[kind], "normalized": normalized}
    g["bufferViews"][-1]["byteStride"] = 4 * np.dtype(kind).itemsize
    assert load_mesh(save(g, tmp_path)).vertices.tolist() == (2 * TETRAHEDRON).tolist()


def test_accessors_without_data_are_refused(tmp_path):
    for accessor, what in ((0, "POSITION"), (1, "indices")):
        g = tetrahedron()
        del g["accessors"][accessor]["bufferView"]
        assert f"mesh 0, primitive 0: {what} has no data (accessor {accessor} has no bufferView)" in refused(g, tmp_path)


@each("change, says", [
    (lambda g: g["accessors"][0].update(count=5), "accessor 0: 5 rows end at byte 60"), (lambda g: g["accessors"][0].update(count=-1), "'count' must be an integer"),
    (lambda g: g["accessors"][0].update(count=2**40), "'count' must be an integer"), (lambda g: g["accessors"][0].update(count=True), "'count' must be"),
    (lambda g: g["accessors"][0].update(type="VEC2"), "POSITION must be of type VEC3, got VEC2"), (lambda g: g["accessors"][0].update(componentType=5130), "componentType 5130"),
    (lambda g: g["accessors"][0].update(bufferView=99), "refers to entry 99 of 'bufferViews', which has 2 entries"), (lambda g: g["accessors"][1].update(count=4), "4 corners, which is not a multiple of 3"),
    (lambda g: g["accessors"][1].update(componentType=5122), "must have unsigned integers, got int16"), (lambda g: g["bufferViews"][0].update(byteLength=49), "ends at byte 49, but its buffer has 48 bytes"),
    (lambda g: g["buffers"][0].update(byteLength=50), "buffer 0 announces 50 bytes but has 48: it may be truncated"), (lambda g: g["buffers"][0].pop("uri"), "neither a uri nor"),
    (lambda g: g["buffers"][0].update(uri="data:;base64,a*b="), "not valid base64"), (lambda g: g["buffers"][0].update(uri="https://x.org/a.bin"), "only files in the folder"),
    (lambda g: g["buffers"][0].update(uri="no.bin"), "no.bin: no such file"), (lambda g: g["buffers"][0].update(uri="."), "this is a folder"),
    (lambda g: g["buffers"][0].update(uri="a%00b"), "is not a file name"), (lambda g: g["accessors"].__setitem__(0, {**g["accessors"][0], "bufferView": add_view(g, np.full_like(TETRAHEDRON, np.inf))}), "not finite"),
    (lambda g: g["meshes"][0]["primitives"][0].pop("attributes"), "'attributes' must be an object"), (lambda g: g["meshes"][0]["primitives"][0]["attributes"].clear(), "no POSITION"),
    (lambda g: g["meshes"][0].update(primitives={}), "'primitives' must be a list"), (lambda g: g["nodes"][0].update(mesh=1), "refers to entry 1 of 'meshes'"),
    (lambda g: g["nodes"][0].update(mesh="0"), "refers to entry '0' of 'meshes'"), (lambda g: g["nodes"].__setitem__(0, 7), "entry 0 of 'nodes' is not an object"),
    (lambda g: g["nodes"][0].update(children=[0]), "node 0 occurs in the scene more than once"), (lambda g: g["scenes"][0].update(nodes=[0, 0]), "more than once"),
    (lambda g: g["nodes"][0].update(children=[9]), "refers to entry 9 of 'nodes'"), (lambda g: g["nodes"][0].update(rotation=[0, 0, 0, 0]), "quaternion of length 0"),
    (lambda g: g["nodes"][0].update(matrix=[1] * 15), "'matrix' must be 16 finite numbers"), (lambda g: g["nodes"][0].update(scale=[1, float("nan"), 1]), "'scale' must be 3 finite"),
    (lambda g: g.update(scene=4), "'scene' refers to entry 4 of 'scenes'"), (lambda g: g.update(asset={"version": "1.0"}), "the file has glTF version 1.0; only glTF 2.0 is supported"),
    (lambda g: g.update(asset={"version": "2.1", "minVersion": "2.1"}), "the file has glTF version 2.1"), (lambda g: g.update(meshes={}), "'meshes' must be a list"),
    (lambda g: g["nodes"].extend([*[{"children": [k + 2, k + 2]} for k in range(40)], {}]) or g["scenes"][0].update(nodes=[1]), "more than once"),
])
def test_broken_documents_are_refused(tmp_path, change, says):
    g = tetrahedron()
    change(g)
    assert says in refused(g, tmp_path)


def test_an_index_beyond_the_vertices_is_refused(tmp_path):
    assert "mesh 0, primitive 0: indices: entry 2 is 65535; it must be below 6" in refused(document((SQUARE, np.array([0, 1, 65535], "u2"), 5)), tmp_path)


# ---- buffers and containers


def test_buffers_in_files_of_their_own(tmp_path):
    g = tetrahedron()
    for k, name in enumerate(("some positions.bin", "indices.bin")):
        (tmp_path / name).write_bytes(base64.b64decode(g["buffers"][k]["uri"].split(",")[1]) + b"more")
        g["buffers"][k]["uri"] = name.replace(" ", "%20")
    assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(1 / 6)
    (tmp_path / "indices.bin").write_bytes(b"short")
    assert "buffer 1 announces 24 bytes but has 5: it may be truncated" in refused(g, tmp_path)


def test_a_binary_container_of_any_suffix(tmp_path):
    g, data = tetrahedron(), TETRAHEDRON.tobytes()
    g["buffers"][0] = {"byteLength": len(data)}
    for name in ("a.glb", "a.gltf"):
        (tmp_path / name).write_bytes(packed(g, data) + b"behind the end")
        assert load_mesh(tmp_path / name).vertices.tolist() == TETRAHEDRON.tolist()
    (tmp_path / "b.glb").write_bytes(b"\xef\xbb\xbf" + json.dumps(tetrahedron()).encode() + b"\n\0")
    assert volume(load_mesh(tmp_path / "b.glb")) == pytest.approx(1 / 6)


@pytest.mark.parametrize("content, says", [
    (packed({})[:-4], "the header announces 24 bytes, but the file has 20: it may be truncated"), (b"glTF\1\0\0\0" + b"\0" * 20, "version 1; only version 2"),
    (b"glTF", "at least 20 bytes, this file has 4"), (packed({}).replace(b"JSON", b"NOPE"), "has no JSON chunk"), (packed({}), "has 0 vertices and 0 faces"),
    (b'{"asset": {"version": "2.0"}, "meshes": [\xff]}', "not UTF-8 at byte 41"), (b"[" * 100_000, "nested too deeply"), (b"[1]", "is not an object"),
    (b'{"scene": ' + b"1" * 9999 + b"}", "too many digits"),
])
def test_broken_containers_are_refused(tmp_path, content, says):
    (tmp_path / "a.glb").write_bytes(content)
    with pytest.raises(InvalidInputError, match="a.glb: ") as error:
        load_mesh(tmp_path / "a.glb")
    assert says in str(error.value)


# ---- extensions


@pytest.mark.parametrize("name", ["KHR_draco_mesh_compression", "EXT_meshopt_compression", "KHR_meshopt_compression", "KHR_node_visibility", "XYZ_anything"])
def test_required_unsupported_extensions_are_named(tmp_path, name):
    assert f"requires the extension {name}, which is not supported" in refused(tetrahedron(extensionsUsed=[name], extensionsRequired=[name]), tmp_path)
    assert volume(load_mesh(save(tetrahedron(extensionsUsed=[name]), tmp_path))) == pytest.approx(1 / 6)


@pytest.mark.parametrize("name", ["KHR_materials_unlit", "KHR_texture_transform", "KHR_texture_basisu", "EXT_texture_webp", "KHR_lights_punctual"])
def test_extensions_of_materials_change_no_geometry(tmp_path, name):
    assert volume(load_mesh(save(tetrahedron(extensionsRequired=[name]), tmp_path))) == pytest.approx(1 / 6)


def test_compressed_data_without_a_fallback_is_named(tmp_path):
    g = tetrahedron()
    g["meshes"][0]["primitives"][0]["extensions"] = {"KHR_draco_mesh_compression": {"bufferView": 0, "attributes": {"POSITION": 0}}}
    assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(1 / 6)                     # the plain data exist as well
    del g["accessors"][0]["bufferView"]
    assert "(extensions KHR_draco_mesh_compression are not supported)" in refused(g, tmp_path)
    for name in ("EXT_meshopt_compression", "KHR_meshopt_compression"):
        g = tetrahedron()
        g["bufferViews"][0]["extensions"] = {name: {"buffer": 1, "mode": "ATTRIBUTES"}}
        assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(1 / 6)
        g["buffers"][0] = {"byteLength": 48, "extensions": {name: {"fallback": True}}}
        assert f"bufferView 0 is compressed by {name}, which is not supported" in refused(g, tmp_path)


def test_instances(tmp_path):
    g = tetrahedron(extensionsRequired=["EXT_mesh_gpu_instancing"], nodes=[{"mesh": 0, "translation": [0, 0, 7]}])
    half = np.sqrt(np.float32(0.5))
    g["nodes"][0]["extensions"] = {"EXT_mesh_gpu_instancing": {"attributes": {
        "TRANSLATION": add(g, np.array([[0, 0, 0], [5, 0, 0], [10, 0, 0]], "f4")), "ROTATION": add(g, np.array([[0, 0, 0, 1], [0, 0, half, half], [0, 0, 0, 1]], "f4")),
        "SCALE": add(g, np.array([[1, 1, 1], [1, 1, 1], [2, 2, -2]], "f4")), "_ID": 0}}}
    mesh = load_mesh(save(g, tmp_path))
    assert len(mesh.vertices) == 12 and volume(mesh) == pytest.approx((1 + 1 + 8) / 6)
    assert np.allclose(mesh.vertices[4:8], [[5, 0, 7], [5, 1, 7], [4, 0, 7], [5, 0, 8]], atol=1e-6)
    g["nodes"][0]["extensions"]["EXT_mesh_gpu_instancing"]["attributes"]["SCALE"] = 0
    assert "attributes of different lengths" in refused(g, tmp_path)
    g["nodes"][0]["extensions"]["EXT_mesh_gpu_instancing"]["attributes"] = {}
    assert "EXT_mesh_gpu_instancing has no instances" in refused(g, tmp_path)


# ---- scenes


def test_node_transforms(tmp_path):
    half = np.sqrt(0.5)
    moved = {"mesh": 0, "translation": [1, 2, 3], "rotation": [0, 0, half, half], "scale": [2, 3, 4]}
    a = load_mesh(save(tetrahedron(nodes=[moved]), tmp_path))
    assert np.allclose(a.vertices, [[1, 2, 3], [1, 4, 3], [-2, 2, 3], [1, 2, 7]]) and volume(a) == pytest.approx(4)
    matrix = [0, 2, 0, 0, -3, 0, 0, 0, 0, 0, 4, 0, 1, 2, 3, 1]
    for nodes in ([{"mesh": 0, "matrix": matrix}], [{"children": [1], "translation": [1, 2, 3]}, {"children": [2], "rotation": [0, 0, 1, 1]}, {"mesh": 0, "scale": [2, 3, 4]}]):
        assert np.allclose(load_mesh(save(tetrahedron(nodes=nodes), tmp_path)).vertices, a.vertices)


def test_mirrored_nodes_keep_the_orientation(tmp_path):
    for mirror in ({"scale": [-1, 1, 1]}, {"scale": [-1, -1, -1]}, {"matrix": [0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]}):
        assert volume(load_mesh(save(tetrahedron(nodes=[{"mesh": 0, **mirror}]), tmp_path))) == pytest.approx(1 / 6)


def test_the_default_scene_is_read(tmp_path):
    g = tetrahedron(nodes=[{"mesh": 0}, {"mesh": 0, "translation": [5, 0, 0]}, {"mesh": 0, "translation": [9, 0, 0]}], scenes=[{"nodes": [0]}, {"nodes": [1, 2]}])
    assert load_mesh(save(g, tmp_path)).vertices[:, 0].tolist() == [0, 1, 0, 0]
    assert load_mesh(save(g | {"scene": 1}, tmp_path)).vertices[:, 0].tolist() == [5, 6, 5, 5, 9, 10, 9, 9]
    del g["scenes"]
    assert len(load_mesh(save(g, tmp_path)).vertices) == 12


# ---- copies of a vertex


def cube(parts=1):
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], "f4")
    sides = [[0, 1, 3, 2], [4, 6, 7, 5], [0, 4, 5, 1], [2, 3, 7, 6], [0, 2, 6, 4], [1, 5, 7, 3]]
    quad = np.array([0, 1, 2, 0, 2, 3], "u2")
    groups = np.split(np.array(sides), parts)
    return document(*[(np.vstack([corners[side] for side in group]), np.concatenate([4 * k + quad for k in range(len(group))]), 4) for group in groups])


@pytest.mark.filterwarnings("ignore:.*collapsed")                    # the strength is too large for a cube of eight vertices
@pytest.mark.parametrize("parts", [1, 2, 6])
def test_a_cube_with_sharp_edges_is_closed(tmp_path, parts):
    mesh = load_mesh(save(cube(parts), tmp_path))
    assert len(mesh.vertices) == 8 and len(mesh.faces) == 12 and len(mesh.boundary_edges) == 0 and volume(mesh) == pytest.approx(1)
    assert mesh.vertices[:4].tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 1], [0, 1, 0]]                # in the order of the file
    assert len(apps.smooth(mesh, 1)[0].boundary_edges) == 0


def test_nodes_and_unreferenced_vertices_are_kept(tmp_path):
    g = document((np.vstack([SQUARE, SQUARE[:3] + 5]), np.array([0, 1, 2], "u2"), 4), nodes=[{"mesh": 0}, {"mesh": 0}], scenes=[{"nodes": [0, 1]}])
    assert len(load_mesh(save(g, tmp_path)).vertices) == 18


def test_copies_with_other_skins_or_targets_are_kept(tmp_path):
    g = cube()
    attributes = g["meshes"][0]["primitives"][0]["attributes"]
    weights = np.zeros((24, 4), "f4")
    weights[:, 0] = 1
    joints = np.zeros((24, 4), "u1")
    joints[:, 1] = np.arange(24)                               # joints of weight 0 have no effect
    attributes |= {"JOINTS_0": add(g, joints), "WEIGHTS_0": add(g, weights)}
    assert len(load_mesh(save(g, tmp_path)).vertices) == 8
    joints[:4, 0] = 1                                          # one side has another joint
    attributes["JOINTS_0"] = add(g, joints)
    assert len(load_mesh(save(g, tmp_path)).vertices) == 12
    g = cube()
    target = np.zeros((24, 3), "f4")
    target[:4] = [0, 0, 1]
    g["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": add(g, target)}, {"NORMAL": 0}]
    assert len(load_mesh(save(g, tmp_path)).vertices) == 12


# ---- morph targets and skins


def test_default_weights_of_morph_targets(tmp_path):
    g = tetrahedron()
    up = np.zeros((4, 3), "f4")
    up[3] = [0, 0, 2]
    g["meshes"][0]["primitives"][0]["targets"] = [{"POSITION": add(g, up)}, {"NORMAL": 0}, {"POSITION": add(g, -up)}]
    assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(1 / 6)
    g["meshes"][0]["weights"] = [1, 0.5, 0]
    assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(3 / 6)
    g["nodes"][0]["weights"] = [0.5, 0, 0.25]
    assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(1.5 / 6)
    g["nodes"][0]["weights"] = [0.5]
    assert "has 3 morph targets but 1 weight" in refused(g, tmp_path)


def skinned():
    """Joint 1 moves the apex, joint 2 the rest. The transform of the mesh's node is ignored because of the skin."""
    g = tetrahedron(nodes=[{"mesh": 0, "skin": 0, "translation": [100, 0, 0]}, {"translation": [0, 0, 1]}, {}], scenes=[{"nodes": [0, 1, 2]}])
    inverse = np.tile(np.eye(4, dtype="f4"), (2, 1, 1))
    inverse[0, 3, 2] = -1                                       # columns come first
    g["skins"] = [{"joints": [1, 2], "inverseBindMatrices": add(g, inverse.reshape(2, 16))}]
    joints, weights = np.array([[1, 0, 0, 0]] * 3 + [[0, 1, 0, 0]], "u1"), np.array([[1, 0, 0, 0]] * 3 + [[0.75, 0.25, 0, 0]], "f4")
    g["meshes"][0]["primitives"][0]["attributes"] |= {"JOINTS_0": add(g, joints), "WEIGHTS_0": add(g, weights)}
    return g


def test_a_skin_in_its_pose(tmp_path):
    g = skinned()
    assert np.allclose(load_mesh(save(g, tmp_path)).vertices, TETRAHEDRON)                  # the bind pose
    g["nodes"][1]["translation"] = [0, 0, 5]
    assert np.allclose(load_mesh(save(g, tmp_path)).vertices[3], [0, 0, 4])                 # three quarters of the way
    g["scenes"][0]["nodes"] = [0]                                                           # joints outside the scene
    assert np.allclose(load_mesh(save(g, tmp_path)).vertices[3], [0, 0, 4])
    for node in (1, 2):
        g["nodes"][node]["scale"] = [-1, 1, 1]
    assert volume(load_mesh(save(g, tmp_path))) == pytest.approx(4 / 6)


@pytest.mark.parametrize("change, says", [
    (lambda g: g["skins"][0].update(joints=[1]), "a vertex refers to joint 1; skin 0 has 1"), (lambda g: g["skins"][0].update(joints=[1, 99]), "refers to entry 99 of 'nodes'"),
    (lambda g: g["skins"][0].update(joints=[1, 2, 2]), "3 joints but 2 inverse bind matrices"), (lambda g: g["skins"][0].update(joints=[[1], {}]), "refers to entry [1] of 'nodes'"),
    (lambda g: g["meshes"][0]["primitives"][0]["attributes"].pop("WEIGHTS_0"), "4 joints but 0 weights"), (lambda g: g["nodes"][0].update(skin=3), "refers to entry 3 of 'skins'"),
    (lambda g: g["nodes"][0].update(extensions={"EXT_mesh_gpu_instancing": {}}), "a skin and EXT_mesh_gpu_instancing"),
])
def test_broken_skins_are_refused(tmp_path, change, says):
    g = skinned()
    change(g)
    assert says in refused(g, tmp_path)


# ---- against trimesh


def test_scenes_of_trimesh(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    turned = trimesh.transformations.rotation_matrix(0.7, [1, 2, 3], [4, 5, 6])
    scene = trimesh.Scene()
    for k in range(4):
        scene.add_geometry(trimesh.creation.icosphere(1), transform=np.linalg.matrix_power(turned, k) @ np.diag([k + 1, 1, 1, 1]))
    scene.export(tmp_path / "a.glb")
    mesh, other = load_mesh(tmp_path / "a.glb"), scene.to_mesh()
    assert volume(mesh) == pytest.approx(other.volume, rel=1e-5) and len(mesh.vertices) == len(other.vertices)
    assert np.allclose(np.sort(mesh.vertices, axis=0), np.sort(other.vertices, axis=0), atol=1e-5)


def test_the_error_of_a_scene_object_names_a_remedy():
    trimesh = pytest.importorskip("trimesh")
    import meshsolve as ms
    scene = trimesh.Scene([datasets.icosphere(1).to_trimesh()])
    for call in (ms.Mesh.from_trimesh, ms.Mesh.from_meshio, ms.Mesh, ms.cotan_laplacian, ms.mass_matrix, apps.mcf):
        with pytest.raises(InvalidInputError, match=r"pass scene.to_geometry\(\)"):
            call(scene)
    assert len(ms.Mesh(scene.to_geometry()).faces) == 80
