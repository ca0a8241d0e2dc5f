"""Small glTF documents for tests: one buffer per array, one node with a mesh of the primitives."""

import base64
import json
import struct

import numpy as np

CODES = {"f4": 5126, "u1": 5121, "i1": 5120, "u2": 5123, "i2": 5122, "u4": 5125}
TYPES = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
TETRAHEDRON = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "f4")
FACES = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], "u2")


def add_view(g, array):
    """Add a bufferView with the bytes of an array and return its index."""
    data = np.ascontiguousarray(array).tobytes()
    g["buffers"].append({"byteLength": len(data), "uri": "data:application/octet-stream;base64," + base64.b64encode(data).decode()})
    g["bufferViews"].append({"buffer": len(g["buffers"]) - 1, "byteLength": len(data)})
    return len(g["bufferViews"]) - 1


def add(g, array, **more):
    """Add an accessor of an array and return its index."""
    array = np.asarray(array)
    width = 1 if array.ndim == 1 else array.shape[1]
    g["accessors"].append({"bufferView": add_view(g, array), "componentType": CODES[array.dtype.str[1:]], "count": len(array), "type": TYPES[width], **more})
    return len(g["accessors"]) - 1


def document(*primitives, **root):
    """Make a scene of one node; each primitive is (positions, indices or None, mode)."""
    g = {"asset": {"version": "2.0"}, "buffers": [], "bufferViews": [], "accessors": [], "meshes": [{"primitives": []}], "nodes": [{"mesh": 0}],
         "scenes": [{"nodes": [0]}], **root}
    for positions, indices, mode in primitives:
        part = {"attributes": {"POSITION": add(g, positions)}, "mode": mode}
        if indices is not None:
            part["indices"] = add(g, indices)
        g["meshes"][0]["primitives"].append(part)
    return g


def tetrahedron(**root):
    return document((TETRAHEDRON, FACES, 4), **root)


def packed(g, data=b""):
    """Pack a document and a binary chunk as .glb."""
    text = json.dumps(g).encode()
    chunks = [(text.ljust(-(-len(text) // 4) * 4), b"JSON"), (data.ljust(-(-len(data) // 4) * 4, b"\0"), b"BIN\0")]
    body = b"".join(struct.pack("<I", len(chunk)) + kind + chunk for chunk, kind in chunks if chunk)
    return b"glTF" + struct.pack("<II", 2, 12 + len(body)) + body


def save(g, folder, name="a.gltf"):
    path = folder / name
    path.write_text(json.dumps(g))
    return path
