"""The surface of a glTF 2.0 scene, .gltf or .glb: positions and triangles in world coordinates.

Read: all kinds of triangle primitives, sparse and quantized accessors, node transforms, default weights of morph targets, skins in
the pose of the file, EXT_mesh_gpu_instancing. Copies of a vertex that a texture seam or a sharp edge needs are merged within a node.
Source: Khronos Group 2021, "glTF 2.0 Specification", sections 3.5 (scenes), 3.7 (geometry, skins, instantiation).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.memory import ensure_memory
from meshsolve.mesh.gltf_document import LARGEST, Document, floats, member, whole
from meshsolve.mesh.polygons import counted, distinct_rows, strips, was
from meshsolve.report import warn
from meshsolve.sparse.matrix import LARGEST_SIZE

TRIANGLES, STRIP, FAN = 4, 5, 6
MODES = 7                       # kinds of primitives; those below TRIANGLES are points and lines
PER_ROW = 100                   # bytes that are taken while a vertex or a face is read and merged
INSTANCING = "EXT_mesh_gpu_instancing"


class Part(NamedTuple):
    """A mesh of the document in its own coordinates."""

    vertices: np.ndarray        # (n, 3) float64, morph targets applied
    faces: np.ndarray           # (m, 3) int64
    joints: np.ndarray          # (n, k) int64, k = 0 without a skin
    weights: np.ndarray         # (n, k) float64


def read_gltf(content, folder, name=""):
    """Vertices (n, 3) float64 and faces (m, 3) int64 of the default scene, or of the first one.

    Parameters
    ----------
    content : bytes
    folder : pathlib.Path
        Where the files of its buffers lie.
    name : str
        What the warning begins with.

    Raises
    ------
    InvalidInputError
        A broken file, or one that needs something that is not read: both are named.
    OutOfMemoryError

    Warns
    -----
    MeshsolveWarning
        Primitives of points or lines were left out: how many.
    """
    scene = _Scene(Document(content, folder))
    for node in scene.order:
        scene.add(node)
    if scene.lines and not any(map(len, scene.faces)):
        raise InvalidInputError("its primitives are points or lines, which are no surface")
    if scene.lines:
        warn(f"{name}{counted(scene.lines, 'primitive')} of points or lines {was(scene.lines)} left out", MeshsolveWarning)
    return np.concatenate([np.zeros((0, 3)), *scene.vertices]), np.concatenate([np.zeros((0, 3), np.int64), *scene.faces])


class _Scene:
    """The nodes of a scene, and the geometry that is put together."""

    def __init__(self, document):
        self.document, self.world, self.parts = document, {}, {}
        self.vertices, self.faces, self.lines = [], [], 0
        self.total = 0                          # vertices so far
        self.nodes = document.list_of("nodes")
        self.order = self.walk(self.roots())

    def roots(self):
        scenes = self.document.list_of("scenes")
        if scenes:
            number = self.document.root.get("scene", 0)
            return member(self.document.item("scenes", number, "'scene'"), "nodes", list, f"scene {number}", [])
        return self.all_roots()

    def all_roots(self):
        children = {child for k in range(len(self.nodes)) for child in self.children_of(k)}
        return [k for k in range(len(self.nodes)) if k not in children]

    def children_of(self, node):
        found = member(self.document.item("nodes", node, "the document"), "children", list, f"node {node}", [])
        for child in found:
            self.document.item("nodes", child, f"node {node}")
        return found

    def walk(self, roots):
        """Nodes below the roots, parents first, whose world transforms are noted on the way."""
        order, stack = [], [(node, np.eye(4)) for node in reversed(roots)]
        while stack:
            node, above = stack.pop()
            entry = self.document.item("nodes", node, "the scene")
            if node in self.world:
                raise InvalidInputError(f"node {node} stands in the scene more than once: nodes must form a tree")
            with np.errstate(all="ignore"):
                self.world[node] = above @ _transform(entry, f"node {node}")
            if not (np.abs(self.world[node]) < LARGEST).all():
                raise InvalidInputError(f"node {node}: its transform is not finite, or beyond {LARGEST:g}")
            order.append(node)
            stack += [(child, self.world[node]) for child in reversed(self.children_of(node))]
        return order

    def add(self, node):
        """Append the mesh of a node, once for each of its instances."""
        entry, where = self.document.item("nodes", node, "the scene"), f"node {node}"
        if "mesh" not in entry:
            return
        part = self.part(entry, where)
        instances = member(member(entry, "extensions", dict, where, {}), INSTANCING, dict, where, None)
        if "skin" in entry and part.joints.shape[1]:
            if instances is not None:
                raise InvalidInputError(f"{where} has a skin and {INSTANCING}, which is not read")
            part = self.posed(part, entry["skin"], where)
            places = np.eye(4)[None]
        else:
            places = self.world[node] @ (np.eye(4)[None] if instances is None else _instances(self.document, instances, where))
        self.ensure(len(places) * (len(part.vertices) + len(part.faces)))
        mirrored = np.linalg.det(places[:, :3, :3]) < 0
        faces = np.where(mirrored[:, None, None], _turned(part.faces), part.faces)
        begin = self.total + len(part.vertices) * np.arange(len(places))
        self.faces.append((faces + begin[:, None, None]).reshape(-1, 3))
        self.vertices.append((part.vertices @ places[:, :3, :3].transpose(0, 2, 1) + places[:, None, :3, 3]).reshape(-1, 3))
        self.total += len(places) * len(part.vertices)

    def ensure(self, more):
        """Refuse more vertices and faces than can be numbered or kept in memory."""
        if self.total + more > LARGEST_SIZE:
            raise InvalidInputError(f"more than {LARGEST_SIZE} vertices and faces; at most so many are supported")
        ensure_memory(PER_ROW * (self.total + more), f"a scene of {self.total + more} vertices and faces")

    def part(self, entry, where):
        """The mesh of a node, with the weights of its morph targets; the same one is read once."""
        number = entry["mesh"]
        mesh = self.document.item("meshes", number, where)
        weights = member(entry if "weights" in entry else mesh, "weights", list, where, [])
        weights = floats({"weights": weights}, "weights", len(weights), f"mesh {number}", [])
        key = number, tuple(weights)
        if key not in self.parts:
            self.parts[key] = self.assembled(mesh, f"mesh {number}", weights)
        return self.parts[key]

    def assembled(self, mesh, where, weights):
        """The primitives of a mesh as one :class:`Part`, in which vertices of one position and skinning are one."""
        rows, faces, begin, width, corners = {}, [], {}, 0, 0
        for k, primitive in enumerate(member(mesh, "primitives", list, where, [])):
            what = f"{where}, primitive {k}"
            if not isinstance(primitive, dict):
                raise InvalidInputError(f"{what} is no object")
            mode = whole(primitive, "mode", what, TRIANGLES)
            if mode >= MODES:
                raise InvalidInputError(f"{what} has the mode {mode}, which glTF 2.0 does not know")
            if mode < TRIANGLES:
                self.lines += 1
                continue
            key = _attributes_of(primitive, what)
            if key not in rows:                         # primitives may share their vertices
                rows[key] = _Rows(self.document, primitive, what, weights)
                begin[key], width = width, width + rows[key].count
            faces.append(_triangles(self.document, primitive, mode, rows[key].count, what) + begin[key])
            corners += len(faces[-1])
            self.ensure(width + corners)
        return _merged(list(rows.values()), np.concatenate([np.zeros((0, 3), np.int64), *faces]))

    def posed(self, part, number, where):
        """The part moved by its joints, into world coordinates."""
        what, skin = f"skin {number}", self.document.item("skins", number, where)
        joints = member(skin, "joints", list, what)
        for joint in joints:
            self.document.item("nodes", joint, what)
        if not set(joints) <= self.world.keys():                # joints outside the scene
            self.walk([node for node in self.all_roots() if node not in self.world])
        pose = np.stack([self.world[joint] for joint in joints]) if joints else np.zeros((0, 4, 4))
        if "inverseBindMatrices" in skin:
            inverse = self.document.numbers(skin["inverseBindMatrices"], f"{what}: inverseBindMatrices", ("MAT4",))
            if len(inverse) < len(joints):
                raise InvalidInputError(f"{what} has {len(joints)} joints, but {len(inverse)} inverse bind matrices")
            pose = pose @ inverse[:len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
        if part.joints.max(initial=-1) >= len(joints):
            raise InvalidInputError(f"{where}: a vertex names joint {part.joints.max()}; {what} has {len(joints)}")
        total = part.weights.sum(axis=1, keepdims=True)
        weights = np.where(total > 0, part.weights / np.where(total > 0, total, 1), np.arange(part.weights.shape[1]) == 0)
        moved = np.zeros_like(part.vertices)
        for k in range(weights.shape[1]):
            of = pose[part.joints[:, k]]
            moved += weights[:, k, None] * (np.einsum("nij,nj->ni", of[:, :3, :3], part.vertices) + of[:, :3, 3])
        strongest = np.take_along_axis(part.joints, weights.argmax(axis=1)[:, None], axis=1)[:, 0]
        mirrored = (np.linalg.det(pose[:, :3, :3]) < 0)[strongest]
        faces = np.where(mirrored[part.faces[:, :1]], _turned(part.faces), part.faces)
        return Part(moved, faces, part.joints, part.weights)


class _Rows:
    """The vertices of a primitive: positions with morph targets, and what else tells two of them apart."""

    def __init__(self, document, primitive, what, weights):
        attributes = member(primitive, "attributes", dict, what)
        position = document.numbers(attributes["POSITION"], f"{what}: POSITION{_stored_as(primitive)}", ("VEC3",))
        self.count = len(position)
        self.targets = [self.numbers(document, target["POSITION"], f"{what}: target {k}", ("VEC3",), zeros=True)
                        for k, target in enumerate(_targets_of(primitive, what)) if "POSITION" in target]
        self.joints, self.weights = (self.columns(document, attributes, key, what) for key in ("JOINTS", "WEIGHTS"))
        if (self.joints != np.floor(self.joints)).any() or self.joints.min(initial=0) < 0:
            raise InvalidInputError(f"{what} has joints that are no whole numbers")
        if self.joints.shape != self.weights.shape:
            raise InvalidInputError(f"{what} has {self.joints.shape[1]} joints, but {self.weights.shape[1]} weights for a vertex")
        self.base, self.moved = position, position
        if weights.any():
            targets = _targets_of(primitive, what)
            if len(targets) != len(weights):
                raise InvalidInputError(f"{what} has {counted(len(targets), 'morph target')}, but {counted(len(weights), 'weight')}")
            chosen = [w for w, target in zip(weights, targets) if "POSITION" in target]
            self.moved = position + sum((w * d for w, d in zip(chosen, self.targets)), np.zeros_like(position))

    def columns(self, document, attributes, key, what):
        """The sets of an attribute side by side, (count, 4 sets)."""
        sets = [self.numbers(document, attributes[name], f"{what}: {name}", ("VEC4",)) for name in _sets(attributes, key)]
        return np.concatenate([np.zeros((self.count, 0)), *sets], axis=1)

    def numbers(self, document, accessor, what, kinds, zeros=False):
        values = document.numbers(accessor, what, kinds, zeros)
        if len(values) != self.count:
            raise InvalidInputError(f"{what} has {len(values)} rows, POSITION has {self.count}")
        return values


def _merged(rows, faces):
    """One vertex for each position, displacements of morph targets, joints and weights; numbered by first appearance."""
    if not rows:
        return Part(np.zeros((0, 3)), faces, np.zeros((0, 0), np.int64), np.zeros((0, 0)))
    sets, targets = max(r.joints.shape[1] for r in rows), max(len(r.targets) for r in rows)
    joints, weights = (np.concatenate([_padded(getattr(r, key), sets) for r in rows]) for key in ("joints", "weights"))
    displaced = np.concatenate([_padded(np.concatenate([np.zeros((r.count, 0)), *r.targets], axis=1), 3 * targets) for r in rows])
    base, moved = (np.concatenate([getattr(r, key) for r in rows]) for key in ("base", "moved"))
    joints = np.where(weights > 0, joints, 0)               # a joint without weight is any joint
    first, place = distinct_rows(np.concatenate([base, displaced, joints, weights], axis=1))
    return Part((moved + 0.0)[first], place[faces], joints[first].astype(np.int64), weights[first])


def _padded(values, width):
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))


def _attributes_of(primitive, what):
    """The accessors of the vertices of a primitive, as a key."""
    attributes = member(primitive, "attributes", dict, what)
    if "POSITION" not in attributes:
        raise InvalidInputError(f"{what} has no POSITION{_stored_as(primitive)}")
    used = ["POSITION", *_sets(attributes, "JOINTS"), *_sets(attributes, "WEIGHTS")]
    return repr([attributes[name] for name in used]), repr([target.get("POSITION") for target in _targets_of(primitive, what)])


def _stored_as(primitive):
    """The extensions of a primitive, one of which may hold its data, for messages."""
    names = primitive.get("extensions")
    return f", with the extensions {', '.join(names)} that are not read" if isinstance(names, dict) and names else ""


def _targets_of(primitive, what):
    targets = member(primitive, "targets", list, what, [])
    if not all(isinstance(target, dict) for target in targets):
        raise InvalidInputError(f"{what}: a morph target is no object")
    return targets


def _sets(attributes, key):
    """JOINTS_0, JOINTS_1, ... as far as they go."""
    found = []
    while f"{key}_{len(found)}" in attributes:
        found.append(f"{key}_{len(found)}")
    return found


def _triangles(document, primitive, mode, count, what):
    """(m, 3) corners of a primitive of `count` vertices."""
    if "indices" in primitive:
        corners = document.indices(primitive["indices"], f"{what}: indices{_stored_as(primitive)}", count)
    else:
        corners = np.arange(count)
    if mode == STRIP:
        return strips(np.array([len(corners)]), corners)
    if mode == FAN:
        around = np.stack([np.broadcast_to(corners[:1], max(len(corners) - 2, 0)), corners[1:-1], corners[2:]], axis=1)
        return around[(around[:, 0] != around[:, 1]) & (around[:, 1] != around[:, 2]) & (around[:, 2] != around[:, 0])]
    if len(corners) % 3:
        raise InvalidInputError(f"{what} has {len(corners)} corners, which make no whole number of triangles")
    return corners.reshape(-1, 3)


def _transform(entry, where):
    """(4, 4) local transform of a node: its matrix, or translation, rotation and scale."""
    if "matrix" in entry:
        return floats(entry, "matrix", 16, where, []).reshape(4, 4).T
    translation, scale = floats(entry, "translation", 3, where, [0, 0, 0]), floats(entry, "scale", 3, where, [1, 1, 1])
    rotation = floats(entry, "rotation", 4, where, [0, 0, 0, 1])
    if not rotation.any():
        raise InvalidInputError(f"{where}: 'rotation' is a quaternion of length 0")
    return _placed(translation[None], rotation[None], scale[None])[0]


def _instances(document, extension, where):
    """(k, 4, 4) transforms of EXT_mesh_gpu_instancing."""
    attributes = member(extension, "attributes", dict, f"{where}: {INSTANCING}")
    read = {key: document.numbers(attributes[key], f"{where}: {key}", (kind,))
            for key, kind in (("TRANSLATION", "VEC3"), ("ROTATION", "VEC4"), ("SCALE", "VEC3")) if key in attributes}
    counts = {len(values) for values in read.values()}
    if len(counts) != 1:
        raise InvalidInputError(f"{where}: {INSTANCING} has no instances, or attributes of different lengths")
    k = counts.pop()
    rotation = read.get("ROTATION", np.broadcast_to([0.0, 0, 0, 1], (k, 4)))
    if not rotation.any(axis=1).all():
        raise InvalidInputError(f"{where}: {INSTANCING} has a quaternion of length 0")
    return _placed(read.get("TRANSLATION", np.zeros((k, 3))), rotation, read.get("SCALE", np.ones((k, 3))))


def _placed(translation, rotation, scale):
    """(k, 4, 4) matrices that scale, turn by quaternions (x, y, z, w) of any length, and move."""
    x, y, z, w = (rotation / np.linalg.norm(rotation, axis=1, keepdims=True)).T
    turned = np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                       [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                       [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])
    out = np.tile(np.eye(4), (len(scale), 1, 1))
    out[:, :3, :3] = turned.transpose(2, 0, 1) * scale[:, None, :]
    out[:, :3, 3] = translation
    return out


def _turned(faces):
    return faces[:, ::-1]
