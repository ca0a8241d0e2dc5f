"""Meshes of trimesh and meshio to and from plain arrays, and the file formats that meshio reads and writes: VTU, VTK, MSH."""

from __future__ import annotations

import importlib
import pathlib
import tempfile

import numpy as np

from meshsolve.errors import InvalidInputError
from meshsolve.mesh.data import Surface, color_fractions, joined_columns, split_columns, warn_of_lost
from meshsolve.mesh.polygons import Polygons, surface, without_small
from meshsolve.sparse.columns import as_array

# numbers of columns that meshio cannot write to each format; such arrays are split into their columns
SPLIT = {".vtu": lambda width: False, ".vtk": lambda width: width == 2, ".msh": lambda width: width not in (1, 3, 9)}
MODULES = {".vtu": "meshio.vtu", ".vtk": "meshio.vtk", ".msh": "meshio.gmsh"}          # module of meshio for each extension


def from_trimesh(tm):
    """Return the :class:`Surface` of a ``trimesh.Trimesh`` or any other object with ``vertices`` and ``faces``."""
    visual = getattr(tm, "visual", None)
    vertex_data, face_data = dict(getattr(tm, "vertex_attributes", {})), dict(getattr(tm, "face_attributes", {}))
    kind = getattr(visual, "kind", None)
    if kind == "vertex":
        vertex_data.setdefault("color", visual.vertex_colors)
    if kind == "face":
        face_data.setdefault("color", visual.face_colors)
    if kind == "texture" and visual.uv is not None:
        vertex_data.setdefault("uv", np.asarray(visual.uv)[:, :2])
    return Surface(tm.vertices, tm.faces, vertex_data, face_data)


def to_trimesh(mesh):
    """Return a ``trimesh.Trimesh`` of a :class:`Surface`. Data of corners are left out with a warning."""
    import trimesh

    vertex_data, face_data = ({name: np.array(x) for name, x in data.items()} for data in (mesh.vertex_data, mesh.face_data))
    warn_of_lost(mesh, "trimesh", vertex=vertex_data, face=face_data)
    attributes = {"vertex_attributes": vertex_data, "face_attributes": face_data}
    if "uv" in vertex_data:
        visual = {"visual": trimesh.visual.TextureVisuals(uv=vertex_data["uv"])}
    else:
        visual = {"vertex_colors": vertex_data.get("color"), "face_colors": face_data.get("color")}
    return trimesh.Trimesh(mesh.vertices, mesh.faces, process=False, **attributes, **visual)


def from_meshio(mesh):
    """Return the :class:`Surface` of a ``meshio.Mesh``; see :meth:`meshsolve.Mesh.from_meshio`."""
    points, blocks = as_array(mesh.points, "points"), [(cell.type, np.asarray(cell.data)) for cell in mesh.cells]
    if points.ndim == 2 and points.shape[1] == 2:
        points = np.pad(points, ((0, 0), (0, 1)))
    corners, counts, used = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], []        # used: numbers of the surface blocks
    for k, (kind, cells) in enumerate(blocks):
        if kind in ("vertex", "line"):
            continue
        if kind not in ("triangle", "quad") and not kind.startswith("polygon"):
            hint = "; tetrahedra are read by TetMesh.from_meshio" if kind == "tetra" else ""
            raise InvalidInputError(f"cells of kind {kind!r} are not supported: pass a surface of triangles, quads and polygons{hint}")
        rings = [cells.reshape(-1)] if cells.ndim == 2 else [np.asarray(cell) for cell in cells]
        corners += rings
        counts.append(np.full(len(cells), cells.shape[1]) if cells.ndim == 2 else np.array([len(ring) for ring in rings], np.int64))
        used.append(k)
    cell_data = getattr(mesh, "cell_data", {}).items() if used else ()
    face_data = {name: np.concatenate([np.asarray(values[k]) for k in used]) for name, values in cell_data}
    polygons = Polygons(points, np.concatenate(corners), np.concatenate(counts), 0, getattr(mesh, "point_data", {}), face_data)
    return surface(without_small(polygons))


def to_meshio(mesh, kind):
    """Return a ``meshio.Mesh`` of a :class:`Surface`; the warning about data of corners begins with ``kind``."""
    meshio = _imported("meshio", "to_meshio")
    warn_of_lost(mesh, kind, vertex=tuple(mesh.vertex_data), face=tuple(mesh.face_data))
    cell_data = {name: [x] for name, x in mesh.face_data.items()}
    return meshio.Mesh(mesh.vertices, [("triangle", mesh.faces)], dict(mesh.vertex_data), cell_data)


def read_meshio(content, kind):
    """Read a :class:`Surface` from the bytes of a file with extension ``kind``. meshio reads from files alone: one is made."""
    module = _imported(MODULES[kind], kind)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"mesh{kind}"
        path.write_bytes(content)
        try:
            mesh = module.read(str(path))
        except (Exception, SystemExit) as e:                    # damaged files raise any exception
            raise InvalidInputError(f"meshio cannot read it as {kind[1:].upper()}: {str(e) or type(e).__name__}") from e
    found = from_meshio(mesh)
    return found._replace(vertex_data=joined_columns(found.vertex_data), face_data=joined_columns(found.face_data))


def write_meshio(mesh, kind):
    """Return the bytes of a file of a :class:`Surface`.

    Arrays with more than two axes get rows of numbers, and booleans become uint8. MSH holds only float64: colors become fractions.
    """
    module = _imported(MODULES[kind], kind)
    flat = mesh._replace(vertex_data=_columns(mesh.vertex_data, kind), face_data=_columns(mesh.face_data, kind))
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / f"mesh{kind}"
        module.write(str(path), to_meshio(flat, kind[1:].upper()))
        return path.read_bytes()


def _columns(data, kind):
    """Return data as a format holds them, each array of one or two axes."""
    out = {}
    for name, x in data.items():
        x = x.astype(np.uint8) if x.dtype == bool else color_fractions(x) if name == "color" and kind == ".msh" else x
        rows = x.reshape(len(x), -1)
        if SPLIT[kind](rows.shape[1]):
            out.update(zip(split_columns(name, rows.shape[1]), np.ascontiguousarray(rows.T)))
        else:
            out[name] = x if x.ndim == 1 else rows
    return out


def _imported(module, use):
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise InvalidInputError(f"{use} needs meshio, which cannot be imported ({e}): pip install meshio") from e
