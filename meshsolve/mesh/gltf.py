"""Read the surface of a glTF 2.0 scene, .gltf or .glb: positions and triangles in world coordinates.

Supported: all triangle primitives, sparse and quantized accessors, node transforms, default weights of morph targets, skins in the
pose of the file, EXT_mesh_gpu_instancing. Vertices that are repeated at texture seams and sharp edges are merged within a node, so
COLOR_0 and TEXCOORD_0 become data of corners.
Source: Khronos Group 2021, "glTF 2.0 Specification", sections 3.5 (scenes), 3.7 (geometry, skins, instantiation).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.memory import ensure_memory
from meshsolve.mesh import gltf_attributes
from meshsolve.mesh.data import Surface
from meshsolve.mesh.gltf_document import LARGEST, Document, floats, member, whole
from meshsolve.mesh.polygons import distinct_rows, strips
from meshsolve.options import counted
from meshsolve.report import warn
from meshsolve.sparse.matrix import LARGEST_SIZE

TRIANGLES, STRIP, FAN = 4, 5, 6
MODES = 7                       # number of primitive modes; modes below TRIANGLES are points and lines
PER_ROW = 200                   # peak memory per vertex or face, bytes, measured while reading and merging
INSTANCING = "EXT_mesh_gpu_instancing"


class Part(NamedTuple):
    """A mesh of the document in local coordinates."""

    vertices: np.ndarray        # (n, 3) float64, morph targets applied
    faces: np.ndarray           # (m, 3) int64
    joints: np.ndarray          # (n, k) int64, k = 0 without a skin
    weights: np.ndarray         # (n, k) float64
    sources: np.ndarray         # (m, 3) int64: row of each corner in the attributes of the scene


def read_gltf(content, folder, name=""):
    """Read the :class:`~meshsolve.mesh.data.Surface` of the default scene, else of the first scene.

    Parameters
    ----------
    content : bytes
    folder : pathlib.Path
        Folder of the buffer files.
    name : str
        Beginning of the warning.

    Raises
    ------
    InvalidInputError
        A damaged file, or an unsupported feature (named).
    OutOfMemoryError

    Warns
    -----
    MeshsolveWarning
        Primitives of points or lines were left out (with their number), or damaged colors or texture coordinates.
    """
    scene = _Scene(Document(content, folder), name)
    for node in scene.order:
        scene.add(node)
    if scene.lines and not any(map(len, scene.faces)):
        raise InvalidInputError("the file has points or lines but no triangles")
    if scene.lines:
        warn(f"{name}left out {counted(scene.lines, 'primitive')} of points or lines", MeshsolveWarning)
    faces, sources = (np.concatenate([np.zeros((0, 3), np.int64), *parts]) for parts in (scene.faces, scene.sources))
    data = {name: x[sources] for name, x in gltf_attributes.joined(scene.attributes).items()}
    return Surface(np.concatenate([np.zeros((0, 3)), *scene.vertices]), faces, corner_data=data)


class _Scene:
    """The nodes of a scene, and the geometry assembled from them."""

    def __init__(self, document, name):
        self.document, self.name, self.world, self.parts = document, name, {}, {}
        self.vertices, self.faces, self.sources, self.lines = [], [], [], 0
        self.attributes, self.offsets, self.rows = [], {}, 0    # distinct attributes, first row by key, total number of rows
        self.total = 0                          # number of vertices so far
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
        """List the nodes below the roots, parents first, and store their world transforms."""
        order, stack = [], [(node, np.eye(4)) for node in reversed(roots)]
        while stack:
            node, above = stack.pop()
            entry = self.document.item("nodes", node, "the scene")
            if node in self.world:
                raise InvalidInputError(f"node {node} occurs in the scene more than once: nodes must form a tree")
            with np.errstate(all="ignore"):
                self.world[node] = above @ _transform(entry, f"node {node}")
            if not (np.abs(self.world[node]) < LARGEST).all():
                raise InvalidInputError(f"node {node}: the transform has an entry that is not finite or beyond {LARGEST:g}")
            order.append(node)
            stack += [(child, self.world[node]) for child in reversed(self.children_of(node))]
        return order

    def add(self, node):
        """Append the mesh of a node, once per instance."""
        entry, where = self.document.item("nodes", node, "the scene"), f"node {node}"
        if "mesh" not in entry:
            return
        part = self.part(entry, where)
        instances = member(member(entry, "extensions", dict, where, {}), INSTANCING, dict, where, None)
        if "skin" in entry and part.joints.shape[1]:
            if instances is not None:
                raise InvalidInputError(f"{where} has a skin and {INSTANCING}; the two together are not supported")
            part = self.posed(part, entry["skin"], where)
            transforms = np.eye(4)[None]
        else:
            transforms = self.world[node] @ (np.eye(4)[None] if instances is None else _instances(self.document, instances, where))
        self.ensure(len(transforms) * (len(part.vertices) + len(part.faces)))
        mirrored = np.linalg.det(transforms[:, :3, :3]) < 0
        faces, sources = (np.where(mirrored[:, None, None], _reversed(x), x) for x in (part.faces, part.sources))
        begin = self.total + len(part.vertices) * np.arange(len(transforms))
        self.faces.append((faces + begin[:, None, None]).reshape(-1, 3))
        self.sources.append(sources.reshape(-1, 3))
        moved = part.vertices @ transforms[:, :3, :3].transpose(0, 2, 1) + transforms[:, None, :3, 3]
        self.vertices.append(moved.reshape(-1, 3))
        self.total += len(transforms) * len(part.vertices)

    def ensure(self, more):
        """Check that ``more`` vertices and faces fit into the index range and into memory."""
        total = self.total + more
        if total > LARGEST_SIZE:
            raise InvalidInputError(f"the scene has {total:,} vertices and faces; at most {LARGEST_SIZE:,} are supported")
        self.document.require_proportion(total, "vertices and faces")
        ensure_memory(PER_ROW * total, f"a scene of {total} vertices and faces")

    def part(self, entry, where):
        """Return the mesh of a node with the weights of its morph targets. Each combination is read once."""
        number = entry["mesh"]
        mesh = self.document.item("meshes", number, where)
        weights = member(entry if "weights" in entry else mesh, "weights", list, where, [])
        weights = floats({"weights": weights}, "weights", len(weights), f"mesh {number}", [])
        key = number, tuple(weights)
        if key not in self.parts:
            self.parts[key] = self.assembled(mesh, f"mesh {number}", weights)
        return self.parts[key]

    def assembled(self, mesh, where, weights):
        """Join the primitives of a mesh to one :class:`Part` and merge vertices of equal position and skinning."""
        rows, faces, sources, begin, width, corners = {}, [], [], {}, 0, 0
        for k, primitive in enumerate(member(mesh, "primitives", list, where, [])):
            what = f"{where}, primitive {k}"
            if not isinstance(primitive, dict):
                raise InvalidInputError(f"{what} is not an object")
            mode = whole(primitive, "mode", what, TRIANGLES)
            if mode >= MODES:
                raise InvalidInputError(f"{what} has mode {mode}; modes of glTF 2.0 are 0..{MODES - 1}")
            if mode < TRIANGLES:
                self.lines += 1
                continue
            key = _attributes_of(primitive, what)
            if key not in rows:                         # primitives may share vertices
                rows[key] = _Rows(self.document, primitive, what, weights)
                begin[key], width = width, width + rows[key].count
            triangles = _triangles(self.document, primitive, mode, rows[key].count, what)
            faces.append(triangles + begin[key])
            sources.append(triangles + self.offset(primitive, rows[key].count, what))
            corners += len(faces[-1])
            self.ensure(width + corners)
        faces, sources = (np.concatenate([np.zeros((0, 3), np.int64), *parts]) for parts in (faces, sources))
        return _merged(list(rows.values()), faces, sources)

    def offset(self, primitive, count, what):
        """Return the first row of the attributes of a primitive. Primitives with the same accessors share them."""
        key = gltf_attributes.key_of(primitive, count)
        if key not in self.offsets:
            self.offsets[key] = self.rows
            self.attributes.append(gltf_attributes.read(self.document, primitive, count, what, self.name))
            self.rows += count
        return self.offsets[key]

    def posed(self, part, number, where):
        """Transform a skinned part by its joints into world coordinates."""
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
                raise InvalidInputError(f"{what} has {len(joints)} joints but {len(inverse)} inverse bind matrices")
            pose = pose @ inverse[:len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)
        if part.joints.max(initial=-1) >= len(joints):
            raise InvalidInputError(f"{where}: a vertex refers to joint {part.joints.max()}; {what} has {len(joints)} joints")
        total = part.weights.sum(axis=1, keepdims=True)
        weights = np.where(total > 0, part.weights / np.where(total > 0, total, 1), np.arange(part.weights.shape[1]) == 0)
        moved = np.zeros_like(part.vertices)
        for k in range(weights.shape[1]):
            of = pose[part.joints[:, k]]
            moved += weights[:, k, None] * (np.einsum("nij,nj->ni", of[:, :3, :3], part.vertices) + of[:, :3, 3])
        strongest = np.take_along_axis(part.joints, weights.argmax(axis=1)[:, None], axis=1)[:, 0]
        mirrored = (np.linalg.det(pose[:, :3, :3]) < 0)[strongest]
        turned = mirrored[part.faces[:, :1]]
        faces, sources = (np.where(turned, _reversed(x), x) for x in (part.faces, part.sources))
        return part._replace(vertices=moved, faces=faces, sources=sources)


class _Rows:
    """The vertices of a primitive: positions with morph targets, joints and weights."""

    def __init__(self, document, primitive, what, weights):
        attributes = member(primitive, "attributes", dict, what)
        position = document.numbers(attributes["POSITION"], f"{what}: POSITION{_stored_as(primitive)}", ("VEC3",))
        self.count = len(position)
        self.targets = [self.numbers(document, target["POSITION"], f"{what}: target {k}", ("VEC3",), zeros=True)
                        for k, target in enumerate(_targets_of(primitive, what)) if "POSITION" in target]
        self.joints, self.weights = (self.columns(document, attributes, key, what) for key in ("JOINTS", "WEIGHTS"))
        if (self.joints != np.floor(self.joints)).any() or self.joints.min(initial=0) < 0:
            raise InvalidInputError(f"{what}: joints must be integers of at least 0")
        if self.joints.shape != self.weights.shape:
            raise InvalidInputError(f"{what} has {self.joints.shape[1]} joints but {self.weights.shape[1]} weights per vertex")
        self.base, self.moved = position, position
        if weights.any():
            targets = _targets_of(primitive, what)
            if len(targets) != len(weights):
                raise InvalidInputError(f"{what} has {counted(len(targets), 'morph target')} but "
                                        f"{counted(len(weights), 'weight')}")
            chosen = [w for w, target in zip(weights, targets) if "POSITION" in target]
            self.moved = position + sum((w * d for w, d in zip(chosen, self.targets)), np.zeros_like(position))

    def columns(self, document, attributes, key, what):
        """Concatenate the sets of an attribute, (count, 4 * sets)."""
        sets = [self.numbers(document, attributes[name], f"{what}: {name}", ("VEC4",)) for name in _sets(attributes, key)]
        return np.concatenate([np.zeros((self.count, 0)), *sets], axis=1)

    def numbers(self, document, accessor, what, kinds, zeros=False):
        values = document.numbers(accessor, what, kinds, zeros)
        if len(values) != self.count:
            raise InvalidInputError(f"{what} has {len(values)} rows, but POSITION has {self.count}")
        return values


def _merged(rows, faces, sources):
    """Merge vertices of equal position, morph target displacements, joints and weights, numbered by first appearance."""
    if not rows:
        return Part(np.zeros((0, 3)), faces, np.zeros((0, 0), np.int64), np.zeros((0, 0)), sources)
    sets, targets = max(r.joints.shape[1] for r in rows), max(len(r.targets) for r in rows)
    joints, weights = (np.concatenate([_padded(getattr(r, key), sets) for r in rows]) for key in ("joints", "weights"))
    displaced = np.concatenate([_padded(np.concatenate([np.zeros((r.count, 0)), *r.targets], axis=1), 3 * targets) for r in rows])
    base, moved = (np.concatenate([getattr(r, key) for r in rows]) for key in ("base", "moved"))
    joints = np.where(weights > 0, joints, 0)               # joints of weight 0 have no effect
    first, inverse = distinct_rows(np.concatenate([base, displaced, joints, weights], axis=1))
    return Part((moved + 0.0)[first], inverse[faces], joints[first].astype(np.int64), weights[first], sources)


def _padded(values, width):
    return np.pad(values, ((0, 0), (0, width - values.shape[1])))


def _attributes_of(primitive, what):
    """Return a dictionary key made of the vertex accessors of a primitive."""
    attributes = member(primitive, "attributes", dict, what)
    if "POSITION" not in attributes:
        raise InvalidInputError(f"{what} has no POSITION{_stored_as(primitive)}")
    used = ["POSITION", *_sets(attributes, "JOINTS"), *_sets(attributes, "WEIGHTS")]
    return repr([attributes[name] for name in used]), repr([target.get("POSITION") for target in _targets_of(primitive, what)])


def _stored_as(primitive):
    """Return a remark for messages: the unsupported extensions of a primitive, which may hold its data."""
    names = primitive.get("extensions")
    return f" (extensions {', '.join(names)} are not supported)" if isinstance(names, dict) and names else ""


def _targets_of(primitive, what):
    targets = member(primitive, "targets", list, what, [])
    if not all(isinstance(target, dict) for target in targets):
        raise InvalidInputError(f"{what}: a morph target is not an object")
    return targets


def _sets(attributes, key):
    """List the names JOINTS_0, JOINTS_1, ... that are present."""
    found = []
    while f"{key}_{len(found)}" in attributes:
        found.append(f"{key}_{len(found)}")
    return found


def _triangles(document, primitive, mode, count, what):
    """Return the triangles (m, 3) of a primitive with ``count`` vertices."""
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
        raise InvalidInputError(f"{what} has {len(corners)} corners, which is not a multiple of 3")
    return corners.reshape(-1, 3)


def _transform(entry, where):
    """Return the local transform (4, 4) of a node, given as a matrix or as translation, rotation and scale."""
    if "matrix" in entry:
        return floats(entry, "matrix", 16, where, []).reshape(4, 4).T
    translation, scale = floats(entry, "translation", 3, where, [0, 0, 0]), floats(entry, "scale", 3, where, [1, 1, 1])
    rotation = floats(entry, "rotation", 4, where, [0, 0, 0, 1])
    if not rotation.any():
        raise InvalidInputError(f"{where}: 'rotation' is a quaternion of length 0")
    return _composed(translation[None], rotation[None], scale[None])[0]


def _instances(document, extension, where):
    """Return the transforms (k, 4, 4) of EXT_mesh_gpu_instancing."""
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
    return _composed(read.get("TRANSLATION", np.zeros((k, 3))), rotation, read.get("SCALE", np.ones((k, 3))))


def _composed(translation, rotation, scale):
    """Return matrices (k, 4, 4) that scale, rotate by quaternions (x, y, z, w) of any length > 0, and translate."""
    x, y, z, w = (rotation / np.linalg.norm(rotation, axis=1, keepdims=True)).T
    rotated = np.array([[1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
                       [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
                       [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)]])
    out = np.tile(np.eye(4), (len(scale), 1, 1))
    out[:, :3, :3] = rotated.transpose(2, 0, 1) * scale[:, None, :]
    out[:, :3, 3] = translation
    return out


def _reversed(faces):
    return faces[:, ::-1]
