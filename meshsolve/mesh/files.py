"""Mesh files in and out as plain arrays.

OBJ and PLY are read and written here, because a texture seam must not split a vertex, faces must stay in order, and a
coordinate must come back with the same bits; OFF is written here, for its digits. All else goes through trimesh with
``process=False``. Every format may be packed with gzip (``bunny.obj.gz``).
"""

from __future__ import annotations

import codecs
import gzip
import io
import json
import os
import pathlib
import re
import zlib

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.files import as_path, written_whole
from meshsolve.mesh.ply import read_ply, write_ply

READABLE = (".obj", ".ply", ".off", ".stl", ".glb", ".gltf")
WRITABLE = (".obj", ".ply", ".off", ".stl", ".glb")
BINARY_STL = 84                 # bytes before the first triangle, which takes 50


def read_mesh(path):
    """Vertices (n, 3) and faces (m, 3) of a mesh file, unchecked but for what the format itself says.

    Raises
    ------
    InvalidInputError
        No such file, unknown extension, or a broken file: ``FILE:LINE:`` for OBJ, ``FILE:`` for the others.
    """
    path = as_path(path)
    kind = _kind(path, READABLE)
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
    except FileNotFoundError as e:
        raise InvalidInputError(f"{path}: there is no such file") from e
    except (OSError, EOFError, zlib.error) as e:
        raise InvalidInputError(f"{path}: cannot be read: {e}") from e
    reader = {".obj": _read_obj, ".ply": _read_ply}.get(kind, _read_by_trimesh)
    vertices, faces = reader(path, content, kind)
    if len(vertices) == 0 or len(faces) == 0:
        raise InvalidInputError(f"{path}: the file holds {len(vertices)} vertices and {len(faces)} faces; a mesh needs both")
    return vertices, faces


def write_mesh(path, vertices, faces):
    """Write a triangle mesh, whole or not at all; the extension says how.

    OBJ and PLY keep every bit of the coordinates, OFF 17 digits, STL and GLB single precision.

    Raises
    ------
    InvalidInputError
        Unknown extension, a folder that is not there, or a coordinate beyond single precision for STL and GLB.
    """
    path = as_path(path)
    kind = _kind(path, WRITABLE)
    content = _encode(kind, vertices, faces)
    with written_whole(path) as part:
        part.write_bytes(gzip.compress(content, 6) if path.suffix.lower() == ".gz" else content)


def _kind(path, known):
    name = path.name.lower().removesuffix(".gz")
    kind = pathlib.PurePath(name).suffix
    if kind not in known and os.path.isdir(path):
        raise InvalidInputError(f"{path}: this is a folder")
    if kind not in known:
        raise InvalidInputError(f"{path}: unknown mesh format '{kind}'; known are {', '.join(known)}, each also with .gz")
    return kind


def _read_obj(path, content, kind):
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")          # lines as the first Macs ended them
    vertices, faces, line, error = _core.read_obj(content)
    if error:
        raise InvalidInputError(f"{path}:{line}: {error}")
    return vertices.reshape(-1, 3), faces.reshape(-1, 3)


def _read_ply(path, content, kind):
    try:
        return read_ply(content)
    except InvalidInputError as e:
        raise InvalidInputError(f"{path}: {e}") from e


def _read_by_trimesh(path, content, kind):
    import trimesh

    content = content.removeprefix(codecs.BOM_UTF8)
    if not content.strip():
        raise InvalidInputError(f"{path}: the file is empty")
    if kind == ".off":
        content = _plain_off(path, content)
    if kind == ".stl":
        content = _whole_stl(path, content)
    try:
        loaded = trimesh.load(io.BytesIO(content), file_type=kind[1:], process=False, resolver=_resolver(path))
        if isinstance(loaded, trimesh.Scene):
            loaded = loaded.to_mesh()
        vertices = np.asarray(loaded.vertices, np.float64)
        faces = np.asarray(getattr(loaded, "faces", np.zeros((0, 3))), np.int64)
    except Exception as e:          # trimesh raises whatever its parsers meet
        reason = (_no_json(content) if kind == ".gltf" else None) or str(e) or type(e).__name__
        raise InvalidInputError(f"{path}: cannot be read as {kind[1:].upper()}: {reason}") from e
    if kind == ".off":
        _check_off(path, content, vertices)
    return merge_identical(vertices, faces) if kind == ".stl" else (vertices, faces)


def _plain_off(path, content):
    """Without comments: one behind data is not known to every version of trimesh. What it would misread is refused."""
    if b"#" in content:
        content = re.sub(rb"#[^\r\n]*", b"", content)
    header = re.match(rb"\s*(\w*?OFF\b(?:[ \t]+BINARY)?)", content)
    if header is None:
        raise InvalidInputError(f"{path}: a file in this format begins with OFF, not with {content.lstrip()[:20].decode('latin-1')!r}")
    if re.search(rb"BINARY|4|n", header[1]):
        raise InvalidInputError(f"{path}: {header[1].decode()} is not read, only OFF in text with three coordinates a vertex")
    return content


def _no_json(content):
    """Why this is no JSON, or None: trimesh looks for other files then, and names one that nobody gave."""
    try:
        json.loads(content)
    except ValueError as e:
        return str(e)
    return None


def _whole_stl(path, content):
    """Text, of which every facet and solid that begins also ends, in UTF-8; or the triangles that a header announces, without what some
    writers put behind them."""
    text = re.IGNORECASE | re.MULTILINE
    if re.match(rb"\s*solid", content, text) and re.search(rb"^\s*facet\b", content, text):
        for word in (b"facet", b"solid"):
            begun, ended = (len(re.findall(rb"^[ \t]*" + end + word + rb"\b", content, text)) for end in (b"", b"end"))
            if begun != ended:
                raise InvalidInputError(f"{path}: {begun} times '{word.decode()}', but {ended} times 'end{word.decode()}': the file may be "
                                        "cut off")
        return content if _is_utf8(content) else content.decode("latin-1").encode()
    if len(content) < BINARY_STL:
        raise InvalidInputError(f"{path}: neither the text of an STL file nor a binary one, which has at least {BINARY_STL} bytes")
    count = int.from_bytes(content[BINARY_STL - 4:BINARY_STL], "little")
    size = BINARY_STL + 50 * count
    if len(content) < size or count == 0:
        raise InvalidInputError(f"{path}: the header announces {count} triangles, {size} bytes, but the file has {len(content)}: it may be "
                                "cut off")
    return content[:size]


def _is_utf8(content):
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


def _check_off(path, content, vertices):
    """An OFF file that was cut off parses well: hold what was read against the counts in its header. Polygons have become triangles, so
    that the lines count, of which the last one has to be whole."""
    declared = re.match(rb"\s*[A-Z]*OFF\s+(\d+)\s+(\d+)[^\r\n]*", content)
    if declared is None:
        return
    n, m = int(declared[1]), int(declared[2])
    lines = [line.split() for line in content[declared.end():].splitlines()]
    lines = [line for line in lines if line]
    last = lines[n + m - 1] if 0 < m <= len(lines) - n else [b"0"]
    if len(vertices) != n or len(lines) < n + m or (last[0].isdigit() and len(last) <= int(last[0])):
        raise InvalidInputError(f"{path}: the header announces {n} vertices and {m} faces, but {min(len(lines), n)} and "
                                f"{max(len(lines) - n, 0)} could be read: the file may be cut off")


def _resolver(path):
    import trimesh

    return trimesh.resolvers.FilePathResolver(str(path))


def merge_identical(vertices, faces):
    """One vertex for each distinct position, numbered by first appearance; faces renumbered. O(n log n)."""
    vertices = vertices + 0.0                           # -0.0 and 0.0 are one place
    order = np.lexsort(vertices.T)
    change = np.ones(len(order), bool)
    change[1:] = (vertices[order[1:]] != vertices[order[:-1]]).any(axis=1)
    group = np.cumsum(change) - 1
    first = np.minimum.reduceat(order, np.flatnonzero(change))      # of each position
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    place = np.empty(len(order), np.int64)
    place[order] = rank[group]
    return vertices[np.sort(first)], place[faces]


def fanned(blocks):
    """(m, 3) triangles of blocks of cells ``(kind, (k, corners))`` as meshio has them; see :meth:`meshsolve.Mesh.from_meshio`."""
    triangles = [np.zeros((0, 3), np.int64)]
    for kind, cells in blocks:
        if kind in ("vertex", "line"):
            continue
        if kind not in ("triangle", "quad") and not kind.startswith("polygon"):
            raise InvalidInputError(f"cells of the kind {kind!r} are no surface: triangles, quads and polygons are taken")
        for ring in [cells] if cells.ndim == 2 else [np.asarray(cell)[None] for cell in cells]:
            corners = np.arange(1, ring.shape[1] - 1)
            fan = np.stack([np.broadcast_to(ring[:, :1], (len(ring), len(corners))), ring[:, corners], ring[:, corners + 1]], axis=2)
            triangles.append(fan.reshape(-1, 3))
    return np.concatenate(triangles)


def _encode(kind, vertices, faces):
    if kind == ".obj":
        return _core.write_obj(vertices.reshape(-1), faces.reshape(-1))
    if kind == ".ply":
        return write_ply(vertices, faces)
    if kind == ".off":
        return _write_off(vertices, faces)
    most = np.finfo(np.float32).max
    too_far = np.flatnonzero((np.abs(vertices) > most).any(axis=1))
    if len(too_far):
        raise InvalidInputError(f"vertex {too_far[0]} lies beyond {most:.2g}, the largest number of {kind[1:].upper()}: OBJ, PLY and OFF "
                                "have room for it")
    import trimesh

    content = trimesh.Trimesh(vertices, faces, process=False).export(file_type=kind[1:])
    return content.encode() if isinstance(content, str) else content


def _write_off(vertices, faces):
    """The shortest decimals that are the same numbers again; trimesh writes so many behind the point, whatever the size."""
    places = _core.write_obj(vertices.reshape(-1), np.zeros(0, np.int32)).replace(b"v ", b"")
    corners = _core.write_obj(np.zeros(0), faces.reshape(-1) - 1).replace(b"f ", b"3 ")             # OBJ counts from 1
    return f"OFF\n{len(vertices)} {len(faces)} 0\n".encode() + places + corners
