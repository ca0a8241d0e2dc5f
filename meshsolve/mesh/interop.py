"""Meshes of trimesh and meshio to and from plain arrays."""

from __future__ import annotations

import os

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh.data import Surface, warn_of_lost
from meshsolve.mesh.file_cells import (
    CORNERS,
    LAGRANGE_CURVE,
    LAGRANGE_QUAD,
    LAGRANGE_TRIANGLE,
    NUMBERS,
    POLYGON,
    Grid,
    surface_of,
    unsupported,
)
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array

MORE = {"polygon": POLYGON, "triangle": LAGRANGE_TRIANGLE, "quad": LAGRANGE_QUAD, "line": LAGRANGE_CURVE}     # polygon5, triangle10


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
        visual = {"vertex_colors": _bytes(vertex_data.get("color")), "face_colors": _bytes(face_data.get("color"))}
    return trimesh.Trimesh(mesh.vertices, mesh.faces, process=False, **attributes, **visual)


def from_meshio(mesh):
    """Return the :class:`Surface` of a ``meshio.Mesh``; see :meth:`meshsolve.Mesh.from_meshio`."""
    points, blocks = points_and_cells(mesh)
    blocks = [(_kind(name), cells) for name, cells in blocks]
    kinds, counts, nodes = ([np.zeros(0, np.int64)] for _ in range(3))
    used = []                                               # numbers of the surface blocks
    for k, (kind, rows) in enumerate(blocks):
        if CORNERS[kind] == 0:
            continue
        nodes += [rows.reshape(-1)] if rows.ndim == 2 else [np.asarray(row) for row in rows]
        counts.append(np.full(len(rows), rows.shape[1]) if rows.ndim == 2 else np.array([len(row) for row in rows], np.int64))
        kinds.append(np.full(len(rows), kind))
        used.append(k)
    if sets := [name for kind in ("point_sets", "cell_sets") for name in getattr(mesh, kind, {}) if not name.startswith("gmsh:")]:
        warn(f"left out the sets {', '.join(map(repr, sets))} of the meshio.Mesh: make them data of points or cells", MeshsolveWarning)
    cell_data = getattr(mesh, "cell_data", {}).items() if used else ()
    face_data = {name: np.concatenate([np.asarray(values[k]) for k in used]) for name, values in cell_data}
    return surface_of(Grid(points, *(np.concatenate(x) for x in (kinds, counts, nodes)), getattr(mesh, "point_data", {}), face_data))


def points_and_cells(mesh):
    """Return (points, [(kind, cells) of each block]) of a ``meshio.Mesh``.

    Raises
    ------
    InvalidInputError
        Another object, also one with points and cells of another form, such as a grid of pyvista.
    """
    name, cells = type(mesh).__name__, getattr(mesh, "cells", None)
    if isinstance(mesh, (str, bytes, os.PathLike)):
        raise InvalidInputError(f"not a meshio.Mesh, but the name of a file, {mesh!r}: pass meshio.read(name), or read surfaces with "
                                "load_mesh")
    if getattr(mesh, "points", None) is None or cells is None:
        raise InvalidInputError(f"not a meshio.Mesh: {name} has no points and cells")
    is_list = isinstance(cells, (list, tuple))
    if not is_list or not all(isinstance(getattr(block, "type", None), str) and hasattr(block, "data") for block in cells):
        hint = ""
        if isinstance(getattr(mesh, "cells_dict", None), dict):
            hint = (": pass arrays, for a grid of pyvista Mesh(grid.points, grid.cells_dict[5]) for its triangles, or "
                    "TetMesh(grid.points, grid.cells_dict[10]) for its tetrahedra")
        raise InvalidInputError(f"not a meshio.Mesh: the cells of this {name} are no list of blocks with type and data{hint}")
    return as_array(mesh.points, "points"), [(block.type, as_array(block.data, "cells")) for block in cells]


def to_meshio(mesh, kind):
    """Return a ``meshio.Mesh`` of a :class:`Surface`; the warning about data of corners begins with ``kind``."""
    try:
        import meshio
    except ImportError as e:
        raise InvalidInputError(f"to_meshio needs meshio, which cannot be imported ({e}): pip install meshio") from e
    warn_of_lost(mesh, kind, vertex=tuple(mesh.vertex_data), face=tuple(mesh.face_data))
    cell_data = {name: [x] for name, x in mesh.face_data.items()}
    return meshio.Mesh(mesh.vertices, [("triangle", mesh.faces)], dict(mesh.vertex_data), cell_data)


def _bytes(color):
    """Return colors of 16 bits as those of 8 bits, which trimesh takes; others as they are."""
    return (color / 257).round().astype(np.uint8) if color is not None and color.dtype == np.uint16 else color


def _kind(name):
    """Return VTK's number of meshio's kind of cells; kinds of higher order are those of Lagrange."""
    if name in NUMBERS:
        return NUMBERS[name]
    for begin, kind in MORE.items():
        if name.startswith(begin):
            return kind
    raise unsupported(name)
