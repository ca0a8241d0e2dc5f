"""Write a binary glTF 2.0 with colors and texture coordinates, as one mesh in one node.

Attributes of glTF belong to vertices. A vertex is therefore repeated for each different value at its corners.
Source: Khronos Group 2021, "glTF 2.0 Specification", sections 3.7.2 (meshes) and 4.4 (binary layout).
"""

from __future__ import annotations

import json
import struct

import numpy as np

from meshsolve.errors import MeshsolveWarning
from meshsolve.mesh.data import warn_of_lost
from meshsolve.mesh.gltf_document import BINARY_CHUNK, COMPONENTS, JSON_CHUNK, MAGIC
from meshsolve.mesh.polygons import distinct_rows
from meshsolve.options import counted
from meshsolve.report import warn

ATTRIBUTES = {"uv": "TEXCOORD_0", "color": "COLOR_0"}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}
NUMBER = {dtype: number for number, dtype in COMPONENTS.items()}            # componentType of each dtype
VERTEX_BUFFER, INDEX_BUFFER = 34962, 34963


def write_glb(mesh):
    """Return the bytes of a :class:`~meshsolve.mesh.data.Surface` in single precision with its ``"color"`` and ``"uv"``.

    Data of corners come before data of vertices of the same name. uint8 colors stay uint8. Values that are not finite become 0,
    with a warning.
    """
    corner = {name: _encoded(name, mesh.corner_data[name]) for name in ATTRIBUTES if name in mesh.corner_data}
    others = [name for name in ATTRIBUTES if name in mesh.vertex_data and name not in corner]
    vertex = {name: _encoded(name, mesh.vertex_data[name]) for name in others}
    warn_of_lost(mesh, "GLB", vertex=tuple(vertex), corner=tuple(corner))
    source, faces = _split(mesh.faces, len(mesh.vertices), list(corner.values()))
    arrays = {"POSITION": mesh.vertices[source].astype("<f4")} | {ATTRIBUTES[name]: x[source] for name, x in vertex.items()}
    for name, x in corner.items():
        arrays[ATTRIBUTES[name]] = np.zeros((len(source), x.shape[-1]), x.dtype)
        arrays[ATTRIBUTES[name]][faces] = x
    return _container({name: _padded(x) for name, x in arrays.items()}, faces)


def _encoded(name, values):
    """Return values as glTF stores them: float32, or uint8 for colors; v points downwards."""
    if name == "color" and values.dtype.kind in "iu":
        return (values / (np.iinfo(values.dtype).max / 255)).round().astype(np.uint8)
    good = np.isfinite(values).all(axis=-1, keepdims=True)
    if not good.all():
        warn(f"GLB cannot hold NaN: {counted(int(np.count_nonzero(~good)), 'row')} of {name!r} became 0", MeshsolveWarning)
    values = np.where(good, values, 0)
    return (values if name == "color" else np.stack([values[..., 0], 1 - values[..., 1]], axis=-1)).astype("<f4")


def _split(faces, n, corner_arrays):
    """Return the vertex of each new vertex (k,), and the faces of the new vertices (m, 3). The first n new vertices are the old."""
    if not corner_arrays:
        return np.arange(n), faces
    rows = np.concatenate([faces.reshape(-1, 1), *(x.reshape(faces.size, -1) for x in corner_arrays)], axis=1, dtype=np.float64)
    first, inverse = distinct_rows(rows)
    vertex = faces.reshape(-1)[first]
    number = np.full(len(first), -1, np.int64)
    leader = np.unique(vertex, return_index=True)[1]            # first variant of each vertex
    number[leader] = vertex[leader]
    others = number < 0
    number[others] = n + np.arange(np.count_nonzero(others))
    return np.concatenate([np.arange(n), vertex[others]]), number[inverse].reshape(faces.shape)


def _padded(values):
    """Pad uint8 colors to four columns with alpha 255, because rows must begin at multiples of four bytes."""
    if values.dtype == np.uint8 and values.shape[1] == 3:
        return np.pad(values, ((0, 0), (0, 1)), constant_values=255)
    return values


def _container(arrays, faces):
    arrays = {**arrays, "indices": faces.astype("<u4").reshape(-1, 1)}
    views, accessors, body = [], [], b""
    for name, x in arrays.items():
        views.append({"buffer": 0, "byteOffset": len(body), "byteLength": x.nbytes,
                      "target": INDEX_BUFFER if name == "indices" else VERTEX_BUFFER})
        accessors.append({"bufferView": len(accessors), "componentType": NUMBER[x.dtype], "count": len(x),
                          "type": TYPES[x.shape[1]], "normalized": x.dtype == np.uint8})
        body += np.ascontiguousarray(x).tobytes()
    accessors[0] |= {"min": arrays["POSITION"].min(axis=0).tolist(), "max": arrays["POSITION"].max(axis=0).tolist()}
    attributes = {name: k for k, name in enumerate(arrays) if name != "indices"}
    document = {"asset": {"version": "2.0", "generator": "meshsolve"}, "scene": 0, "scenes": [{"nodes": [0]}], "nodes": [{"mesh": 0}],
                "meshes": [{"primitives": [{"attributes": attributes, "indices": len(attributes), "mode": 4, "material": 0}]}],
                "materials": [{"pbrMetallicRoughness": {"metallicFactor": 0}}],         # the default is metal, which looks dark
                "buffers": [{"byteLength": len(body)}], "bufferViews": views, "accessors": accessors}
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    chunks = struct.pack("<II", len(text), JSON_CHUNK) + text + struct.pack("<II", len(body), BINARY_CHUNK) + body
    return MAGIC + struct.pack("<II", 2, 12 + len(chunks)) + chunks
