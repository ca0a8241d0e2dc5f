"""Read and write mesh files as plain arrays.

The readers are written for this library, because faces must stay in order and coordinates must keep their bits. A texture seam
must not split a vertex. An unsupported feature must be named. trimesh writes STL, and GLB without data. Every format may be
compressed with gzip (``bunny.obj.gz``).
"""

from __future__ import annotations

import codecs
import gzip
import os
import pathlib

import numpy as np

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.files import as_path, content_of, written_whole
from meshsolve.mesh import gltf, stl
from meshsolve.mesh.data import Surface, color_fractions, per_vertex, warn_of_lost
from meshsolve.mesh.gltf_write import write_glb
from meshsolve.mesh.msh import read_msh, write_msh
from meshsolve.mesh.ply import polygon_ply, read_ply, write_ply
from meshsolve.mesh.polygons import Polygons, distinct_rows, merge_identical, surface, warn_of_small
from meshsolve.mesh.vtk import read_vtk, write_vtk
from meshsolve.mesh.vtk_xml import read_vtk_xml, write_vtk_xml
from meshsolve.options import counted
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array

TEXT_READERS = {".obj": _core.read_obj, ".off": _core.read_off, ".stl": _core.read_stl_text}
CELL_READERS = {".vtu": read_vtk_xml, ".vtp": read_vtk_xml, ".vtk": read_vtk, ".msh": read_msh}
CELL_WRITERS = {".vtu": lambda mesh: write_vtk_xml(mesh, ".vtu"), ".vtp": lambda mesh: write_vtk_xml(mesh, ".vtp"), ".vtk": write_vtk,
                ".msh": write_msh}
READABLE = (".obj", ".ply", ".off", ".stl", ".glb", ".gltf", *CELL_READERS)
WRITABLE = (".obj", ".ply", ".off", ".stl", ".glb", *CELL_WRITERS)
POLYGONAL = (".obj", ".ply", ".off")            # formats of PolygonMesh
FIELDS, TEXTURED = (".ply", *CELL_WRITERS), (".obj", ".ply", ".glb")      # formats with any data of vertices, with "uv"
SEAMS = (".obj", ".glb", ".gltf")               # formats whose corner data are vertex data where the corners of each vertex agree
LARGEST_MOVE = 1e-2             # largest rounding of a vertex without a warning, relative to a side of its face
PADDING = b"\0\x1a"             # bytes that some systems append to a text
BLANK = b" \t\r\n" + PADDING


def read_mesh(path):
    """Read the :class:`~meshsolve.mesh.data.Surface` of a mesh file. Only rules of the format are checked.

    Raises
    ------
    InvalidInputError
        No such file, unknown extension, or a damaged file. The message begins with ``FILE:LINE:`` for OBJ, OFF and text STL, else
        with ``FILE:``.
    """
    path, kind, content = _content(path, READABLE)
    mesh = _parse(path, content, kind)
    _require_both(path, mesh.vertices, mesh.faces)
    corner_data, vertex_data = dict(mesh.corner_data), dict(mesh.vertex_data)
    for name in corner_data.keys() - vertex_data if kind in SEAMS else ():
        missing = np.nan if corner_data[name].dtype.kind == "f" else 0
        values = per_vertex(corner_data[name], mesh.faces, len(mesh.vertices), missing)
        if values is not None:
            vertex_data[name] = values
            del corner_data[name]
    return mesh._replace(vertex_data=vertex_data, corner_data=corner_data, source=f"{path}: ")


def read_polygons(path):
    """Read the :class:`~meshsolve.mesh.polygons.Polygons` of an OBJ, PLY or OFF file. Errors are those of :func:`read_mesh`."""
    path, kind, content = _content(path, POLYGONAL)
    polygons = _polygons(path, content, kind)
    _require_both(path, polygons.vertices, polygons.counts)
    warn_of_small(polygons, f"{path}: ")
    return polygons


def read_points(path):
    """(points (n, 3), their normals (n, 3) or None) of an OBJ, PLY or OFF file. Errors are those of :func:`read_mesh`."""
    path, kind, content = _content(path, POLYGONAL)
    points = _polygons(path, content, kind)
    if len(points.vertices) == 0:
        raise InvalidInputError(f"{path}: the file has no points")
    return points.vertices, points.vertex_data.get("normal")


def write_polygons(path, vertices, indices, offsets):
    """Write polygons with corners ``indices[offsets[k]:offsets[k + 1]]`` as OBJ, binary PLY or OFF, completely or not at all."""
    path = as_path(path)
    kind, counts = _kind(path, POLYGONAL), np.diff(offsets)
    if kind == ".ply":
        content = polygon_ply(vertices, indices, counts)
    elif kind == ".obj":
        content = _positions(vertices) + _rows(indices + 1, offsets, np.full(len(counts), b"f "))
    else:
        header = f"OFF\n{len(vertices)} {len(counts)} 0\n".encode()
        content = header + _positions(vertices).replace(b"v ", b"") + _rows(indices, offsets, np.char.add(counts.astype("S"), b" "))
    _write_whole(path, content)


def write_mesh(path, mesh, texture=None):
    """Write a :class:`~meshsolve.mesh.data.Surface`, completely or not at all, in the format of the extension.

    ``texture`` are points (r, 2) and rows (m, 3) of ``corner_data["uv"]``: an OBJ then has these points in this order.

    OBJ, PLY, VTU, VTP, VTK and MSH keep every bit of the coordinates, OFF 17 digits, STL and GLB single precision.

    Raises
    ------
    InvalidInputError
        Unknown extension, a missing folder, or a coordinate beyond single precision for STL and GLB.
    """
    path = as_path(path)
    kind = _kind(path, WRITABLE)
    _write_whole(path, _encode(kind, _without_empty(mesh), texture))


def require_format(path, fields, uv):
    """Raise if the format of the extension cannot hold numbers at vertices (``fields``) or texture coordinates (``uv``)."""
    kind = _kind(as_path(path), WRITABLE)
    for given, what, held in ((fields, "numbers at vertices", FIELDS), (uv, "texture coordinates", TEXTURED)):
        if given and kind not in held:
            raise InvalidInputError(f"{path}: {what} are written as {', '.join(held)}, each also with .gz")


def _content(path, known):
    """(path, extension, bytes) of a file with one of the ``known`` extensions, decompressed, text as UTF-8."""
    path = as_path(path)
    kind = _kind(path, known)
    content = content_of(path)
    if not content[:1000].strip(BLANK) and not content.strip(BLANK):
        raise InvalidInputError(f"{path}: the file is empty")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        content = _from_utf16(path, content)
    return path, kind, content


def _require_both(path, vertices, faces):
    if len(vertices) == 0 or len(faces) == 0:
        hint = ", points alone are read by ms.PointCloud.load" if len(vertices) else ""
        raise InvalidInputError(f"{path}: the file has {len(vertices)} vertices and {len(faces)} faces; a mesh needs both{hint}")


def _without_empty(mesh):
    """Leave out data without columns, with a warning: no format holds them."""
    kept = {}
    for key in ("vertex_data", "face_data", "corner_data"):
        kept[key] = {name: x for name, x in getattr(mesh, key).items() if 0 not in x.shape[1:]}
        if empty := [name for name in getattr(mesh, key) if name not in kept[key]]:
            warn(f"{key.removesuffix('_data')} data {', '.join(map(repr, empty))} have no columns: left out", MeshsolveWarning)
    return mesh._replace(**kept)


def _write_whole(path, content):
    with written_whole(path) as part:
        part.write_bytes(gzip.compress(content, 6) if path.suffix.lower() == ".gz" else content)


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
    """Parse the bytes of a file as triangles. Messages begin with the path."""
    try:
        if kind in CELL_READERS:
            content = content.removeprefix(codecs.BOM_UTF8)
            return CELL_READERS[kind](content if b"\n" in content else content.replace(b"\r", b"\n"), f"{path}: ")
        if kind in (".glb", ".gltf"):
            return gltf.read_gltf(content, path.parent, name=f"{path}: ")
    except InvalidInputError as e:
        raise InvalidInputError(f"{path}: {e}") from e
    mesh = surface(_polygons(path, content, kind), f"{path}: ")
    return Surface(*merge_identical(mesh.vertices, mesh.faces)) if kind == ".stl" else mesh


def _polygons(path, content, kind):
    """Parse the bytes of an OBJ, PLY, OFF or STL file."""
    try:
        if kind == ".ply":
            return read_ply(content, f"{path}: ")
        if kind == ".stl" and not stl.is_text(content.removeprefix(codecs.BOM_UTF8)):
            return stl.read_binary(content)
    except InvalidInputError as e:
        raise InvalidInputError(f"{path}: {e}") from e
    return _read_text(path, content, TEXT_READERS[kind])


def _read_text(path, content, read):
    content = content.removeprefix(codecs.BOM_UTF8).rstrip(PADDING)
    if b"\n" not in content:
        content = content.replace(b"\r", b"\n")          # line ends of classic Mac OS
    vertices, corners, counts, colors, uvs, uv_corners, small, line, error, warning = read(content)
    if error:
        raise InvalidInputError(f"{path}:{line}: {error}")
    if warning:
        warn(f"{path}:{line}: {warning}", MeshsolveWarning)
    vertex_data, corner_data, n = {"color": colors.reshape(-1, 3)} if len(colors) else {}, {}, len(vertices) // 3
    if len(uv_corners):
        uvs = np.concatenate([uvs.reshape(-1, 2), [[np.nan] * 2]])              # index -1: no coordinates
        at = per_vertex(uv_corners, corners, n, missing=-1)
        if at is None:
            corner_data["uv"] = uvs[uv_corners]
        else:
            vertex_data["uv"] = uvs[at]
    return Polygons(vertices.reshape(-1, 3), corners, counts, small, vertex_data, {}, corner_data)


def _encode(kind, mesh, texture):
    if kind == ".obj":
        return _write_obj(mesh, texture)
    if kind == ".ply":
        return write_ply(mesh)
    if kind in CELL_WRITERS:
        return CELL_WRITERS[kind](mesh)
    if kind != ".glb":
        warn_of_lost(mesh, kind[1:].upper())
    if kind == ".off":
        return _write_off(mesh.vertices, mesh.faces)
    most = np.finfo(np.float32).max
    too_far = np.flatnonzero((np.abs(mesh.vertices) > most).any(axis=1))
    if len(too_far):
        raise InvalidInputError(f"vertex {too_far[0]} has a coordinate beyond {most:.2g}, the largest number in "
                                f"{kind[1:].upper()} files: save as OBJ, PLY or OFF")
    _warn_of_rounding(mesh, kind)
    if kind == ".glb" and (mesh.vertex_data or mesh.face_data or mesh.corner_data):
        return write_glb(mesh)
    import trimesh

    content = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False).export(file_type=kind[1:])
    return content.encode() if isinstance(content, str) else content


def _warn_of_rounding(mesh, kind):
    """Warn if single precision moves vertices by a good part of a side, as far from the origin."""
    moved = np.abs(mesh.vertices.astype(np.float32) - mesh.vertices).max(axis=1)[mesh.faces].max(axis=1)
    x = mesh.vertices[mesh.faces]
    sides = np.abs(x - np.roll(x, 1, axis=1)).max(axis=2)
    shortest = np.where(sides > 0, sides, np.inf).min(axis=1)
    if rounded := int(np.count_nonzero(moved > LARGEST_MOVE * shortest)):
        warn(f"{kind[1:].upper()} has single precision: rounding moves corners of {counted(rounded, 'face')} by more than a hundredth of "
             "a side. Save as PLY or OBJ, or move the mesh to the origin", MeshsolveWarning)


def _write_obj(mesh, texture):
    """Colors follow the positions, from 0 to 1. Colors and texture coordinates that are not finite are left out.

    Without ``texture`` each pair of texture coordinates of corners is written once, in order of first appearance.
    """
    color, uv = mesh.vertex_data.get("color", np.zeros((0, 3))), mesh.corner_data.get("uv")
    warn_of_lost(mesh, "OBJ", vertex=("color",) if "uv" in mesh.corner_data else ("color", "uv"), corner=("uv",))
    if color.shape[1] == 4:
        warn("OBJ cannot hold the alpha of vertex data 'color': left out; save as PLY or VTU to keep all", MeshsolveWarning)
    color = np.ascontiguousarray(color_fractions(color)[:, :3], np.float64)
    if texture is not None:
        uv, at = (as_array(x, "uv") for x in texture)
    elif uv is None and "uv" in mesh.vertex_data:
        uv, at = mesh.vertex_data["uv"], mesh.faces
    elif uv is not None:
        first, at = distinct_rows(uv.reshape(-1, 2))
        uv = uv.reshape(-1, 2)[first]
    else:
        uv, at = np.zeros((0, 2)), mesh.faces[:0]
    return _core.write_obj(mesh.vertices.reshape(-1), mesh.faces.reshape(-1), color.reshape(-1),
                           np.ascontiguousarray(uv, np.float64).reshape(-1), np.ascontiguousarray(at, np.int32).reshape(-1))


def _write_off(vertices, faces):
    """OFF with the shortest decimals that read back to the same bits; trimesh writes a fixed number of decimals."""
    nothing, none = np.zeros(0), np.zeros(0, np.int32)
    from_zero = faces.reshape(-1) - 1                                   # OBJ counts from 1
    corners = _core.write_obj(nothing, from_zero, nothing, nothing, none).replace(b"f ", b"3 ")
    return f"OFF\n{len(vertices)} {len(faces)} 0\n".encode() + _positions(vertices).replace(b"v ", b"") + corners


def _positions(vertices):
    """Lines of an OBJ file."""
    nothing, none = np.zeros(0), np.zeros(0, np.int32)
    return _core.write_obj(vertices.reshape(-1), none, nothing, nothing, none)


def _rows(numbers, offsets, first):
    """A line for each polygon: the word ``first`` (m,), then its numbers."""
    end = np.full(len(numbers), b" ")
    end[offsets[1:] - 1] = b"\n"
    words = np.char.add(numbers.astype("S"), end)
    begin = np.zeros(len(numbers), first.dtype)
    begin[offsets[:-1]] = first
    return b"".join(np.char.add(begin, words).tolist())
