"""Read and write mesh files as plain arrays.

The readers are written for this library. A texture seam must not split a vertex, faces must stay in order, coordinates must keep
their bits, and an unsupported feature must be named. STL and GLB are written by trimesh. Every format may be compressed with gzip
(``bunny.obj.gz``).
"""

from __future__ import annotations

import codecs
import gzip
import os
import pathlib
import zlib

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.files import as_path, written_whole
from meshsolve.mesh import gltf, stl
from meshsolve.mesh.ply import read_ply, write_ply
from meshsolve.mesh.polygons import Polygons, merge_identical, triangulated, without_small
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array

TEXT_READERS = {".obj": _core.read_obj, ".off": _core.read_off, ".stl": _core.read_stl_text}
READABLE = (".obj", ".ply", ".off", ".stl", ".glb", ".gltf")
WRITABLE = (".obj", ".ply", ".off", ".stl", ".glb")
PADDING = b"\0\x1a"             # bytes that some systems append to a text
BLANK = b" \t\r\n" + PADDING


def read_mesh(path):
    """Read vertices (n, 3) and faces (m, 3) of a mesh file. Only rules of the format are checked.

    Raises
    ------
    InvalidInputError
        No such file, unknown extension, or a damaged file. The message begins with ``FILE:LINE:`` for OBJ, OFF and text STL, else
        with ``FILE:``.
    """
    path = as_path(path)
    kind = _kind(path, READABLE)
    try:
        content = path.read_bytes()
        if path.suffix.lower() == ".gz":
            content = gzip.decompress(content)
    except FileNotFoundError as e:
        raise InvalidInputError(f"{path}: no such file") from e
    except (OSError, EOFError, zlib.error) as e:
        raise InvalidInputError(f"{path}: cannot be read: {e}") from e
    if not content[:1000].strip(BLANK) and not content.strip(BLANK):
        raise InvalidInputError(f"{path}: the file is empty")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = _from_utf16(path, content)
    vertices, faces = _parse(path, content, kind)
    if len(vertices) == 0 or len(faces) == 0:
        raise InvalidInputError(f"{path}: the file has {len(vertices)} vertices and {len(faces)} faces; a mesh needs both")
    return vertices, faces


def write_mesh(path, vertices, faces, fields=None, uv=None):
    """Write a triangle mesh, completely or not at all, in the format of the extension.

    OBJ and PLY keep every bit of the coordinates, OFF 17 digits, STL and GLB single precision. ``fields`` are numbers at the vertices
    of a PLY file, name to (n,); ``uv`` are texture coordinates of an OBJ file, (n, 2) or (points (r, 2), faces (m, 3)).

    Raises
    ------
    InvalidInputError
        Unknown extension, a missing folder, or a coordinate beyond single precision for STL and GLB; fields or texture coordinates
        that the format or the mesh does not have.
    """
    path = as_path(path)
    kind = _kind(path, WRITABLE)
    fields = {name: _at_vertices(values, name, (len(vertices),)) for name, values in (fields or {}).items()}
    uv = None if uv is None else _texture(uv, len(vertices), faces)
    for given, what, needed in ((bool(fields), "numbers at vertices", ".ply"), (uv is not None, "texture coordinates", ".obj")):
        if given and kind != needed:
            raise InvalidInputError(f"{path}: {what} are written as {needed}, also with .gz")
    content = _encode(kind, vertices, faces, fields, uv)
    with written_whole(path) as part:
        part.write_bytes(gzip.compress(content, 6) if path.suffix.lower() == ".gz" else content)


def _at_vertices(values, name, shape):
    """Values at the vertices as float64 of this shape."""
    given = as_array(values, name)
    if given.shape != shape or given.dtype.kind not in "fiub":
        raise InvalidInputError(f"{name} must be real numbers of shape {shape}, one row for each vertex, got {given.dtype} of shape "
                                f"{given.shape}")
    return given.astype(np.float64)


def _texture(uv, n, faces):
    """Texture coordinates as points (r, 2) float64 and the rows of the corners of each face, (m, 3) integers."""
    if not isinstance(uv, tuple) or len(uv) != 2:
        return _at_vertices(uv, "uv", (n, 2)), faces
    points, corners = as_array(uv[0], "uv"), as_array(uv[1], "the faces of uv")
    points = _at_vertices(points, "uv", (len(points) if points.ndim else 0, 2))
    fits = corners.shape == faces.shape and corners.dtype.kind in "iu"
    if not fits or not ((corners >= 0) & (corners < len(points))).all():
        raise InvalidInputError(f"the faces of uv must be integers of shape {faces.shape}, below {len(points)}, got {corners.dtype} of "
                                f"shape {corners.shape}")
    return points, corners


def _kind(path, known):
    name = path.name.lower().removesuffix(".gz")
    kind = pathlib.PurePath(name).suffix
    if kind not in known and os.path.isdir(path):
        raise InvalidInputError(f"{path}: this is a folder, not a file")
    if kind not in known:
        raise InvalidInputError(f"{path}: unknown mesh format '{kind}'; use one of {', '.join(known)}, each also with .gz")
    return kind


def _from_utf16(path, content):
    """Convert text from UTF-16, which some Windows shells write, to UTF-8."""
    try:
        return content.decode("utf-16").encode()
    except UnicodeError as e:
        raise InvalidInputError(f"{path}: the file is not valid UTF-16; save it as UTF-8") from e


def _parse(path, content, kind):
    """Parse the bytes of a file into vertices and faces. Messages begin with the path."""
    try:
        if kind in (".glb", ".gltf"):
            return gltf.read_gltf(content, path.parent, name=f"{path}: ")
        polygons = read_ply(content) if kind == ".ply" else None
        if kind == ".stl" and not stl.is_text(content.removeprefix(codecs.BOM_UTF8)):
            polygons = stl.read_binary(content)
    except InvalidInputError as e:
        raise InvalidInputError(f"{path}: {e}") from e
    if polygons is None:
        polygons = _read_text(path, content, TEXT_READERS[kind])
    faces = triangulated(polygons, f"{path}: ")
    return merge_identical(polygons.vertices, faces) if kind == ".stl" else (polygons.vertices, faces)


def _read_text(path, content, read):
    content = content.removeprefix(codecs.BOM_UTF8).rstrip(PADDING)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")          # line ends of classic Mac OS
    vertices, corners, counts, small, line, error, warning = read(content)
    if error:
        raise InvalidInputError(f"{path}:{line}: {error}")
    if warning:
        warn(f"{path}:{line}: {warning}", MeshsolveWarning)
    return Polygons(vertices.reshape(-1, 3), corners, counts, small)


def surface_of(points, blocks):
    """Return triangles (m, 3) of meshio's cell blocks ``(kind, (k, corners))``; see :meth:`meshsolve.Mesh.from_meshio`."""
    corners, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for kind, cells in blocks:
        if kind in ("vertex", "line"):
            continue
        if kind not in ("triangle", "quad") and not kind.startswith("polygon"):
            raise InvalidInputError(f"cells of kind {kind!r} are not supported: pass a surface of triangles, quads and polygons")
        rings = [cells.reshape(-1)] if cells.ndim == 2 else [np.asarray(cell) for cell in cells]
        corners += rings
        counts.append(np.full(len(cells), cells.shape[1]) if cells.ndim == 2 else np.array([len(ring) for ring in rings], np.int64))
    return triangulated(without_small(points, np.concatenate(corners), np.concatenate(counts)))


def _encode(kind, vertices, faces, fields, uv):
    if kind == ".obj":
        return _core.write_obj(vertices.reshape(-1), faces.reshape(-1)) if uv is None else _textured_obj(vertices, faces, *uv)
    if kind == ".ply":
        return write_ply(vertices, faces, fields)
    if kind == ".off":
        return _write_off(vertices, faces)
    most = np.finfo(np.float32).max
    too_far = np.flatnonzero((np.abs(vertices) > most).any(axis=1))
    if len(too_far):
        raise InvalidInputError(f"vertex {too_far[0]} has a coordinate beyond {most:.2g}, the largest number in "
                                f"{kind[1:].upper()} files: save as OBJ, PLY or OFF")
    import trimesh

    content = trimesh.Trimesh(vertices, faces, process=False).export(file_type=kind[1:])
    return content.encode() if isinstance(content, str) else content


def _textured_obj(vertices, faces, points, corners):
    """OBJ with a line vt for each texture point, and faces of corners ``v/vt``."""
    none = np.zeros(0, np.int32)
    textures = _core.write_obj(np.column_stack([points, np.zeros(len(points))]).reshape(-1), none)
    numbers = np.stack([faces, corners], axis=2).astype(np.int64).reshape(-1) + 1                   # OBJ counts from 1
    return (_core.write_obj(vertices.reshape(-1), none) + textures.replace(b"v ", b"vt ").replace(b" 0\n", b"\n")
            + b"f %d/%d %d/%d %d/%d\n" * len(faces) % tuple(numbers.tolist()))


def _write_off(vertices, faces):
    """OFF with the shortest decimals that read back to the same bits; trimesh writes a fixed number of decimals."""
    positions = _core.write_obj(vertices.reshape(-1), np.zeros(0, np.int32)).replace(b"v ", b"")
    corners = _core.write_obj(np.zeros(0), faces.reshape(-1) - 1).replace(b"f ", b"3 ")             # OBJ counts from 1
    return f"OFF\n{len(vertices)} {len(faces)} 0\n".encode() + positions + corners
