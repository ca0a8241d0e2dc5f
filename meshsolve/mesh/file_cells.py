"""Cells of a file as nodes with VTK's numbers of their kinds, and the surface that they form.

VTK, Gmsh and meshio hold cells of any kind. Triangles, strips, quadrilaterals, pixels and polygons are the surface. Cells of higher
order count by their corners, which come first in all three. Points and lines are left out; solid cells are refused.
Source: vtkCellType.h of VTK 9; "VTK File Formats". O(nodes).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh.data import MeshData, color_fractions, split_columns
from meshsolve.mesh.polygons import Polygons, strip_triangles, surface, without_small
from meshsolve.options import counted
from meshsolve.report import warn

ALL = -1                            # number of corners of a kind whose nodes are all corners
LINES = ((0, "empty"), (1, "vertex"), (2, "poly_vertex"), (3, "line"), (4, "poly_line"), (21, "line3"), (35, "line4"),
         (68, "VTK_LAGRANGE_CURVE"), (75, "VTK_BEZIER_CURVE"))
# kind, meshio's name, number of corners, number of nodes or None for any
FACES = ((5, "triangle", 3, 3), (6, "triangle_strip", ALL, None), (7, "polygon", ALL, None), (8, "pixel", 4, 4), (9, "quad", 4, 4),
         (22, "triangle6", 3, 6), (23, "quad8", 4, 8), (28, "quad9", 4, 9), (30, "quad6", 4, 6), (34, "triangle7", 3, 7),
         (69, "VTK_LAGRANGE_TRIANGLE", 3, None), (70, "VTK_LAGRANGE_QUADRILATERAL", 4, None), (76, "VTK_BEZIER_TRIANGLE", 3, None),
         (77, "VTK_BEZIER_QUADRILATERAL", 4, None))
SOLIDS = ((10, "tetra"), (11, "voxel"), (12, "hexahedron"), (13, "wedge"), (14, "pyramid"), (15, "penta_prism"), (16, "hexa_prism"),
          (24, "tetra10"), (25, "hexahedron20"), (26, "wedge15"), (27, "pyramid13"), (29, "hexahedron27"), (31, "wedge12"),
          (32, "wedge18"), (33, "hexahedron24"), (36, "quadratic polygon"), (37, "pyramid19"), (41, "convex_point_set"),
          (42, "polyhedron"), (71, "VTK_LAGRANGE_TETRAHEDRON"), (72, "VTK_LAGRANGE_HEXAHEDRON"))
STRIP, POLYGON, PIXEL, LAGRANGE_TRIANGLE, LAGRANGE_QUAD, LAGRANGE_CURVE = 6, 7, 8, 69, 70, 68
NAMES = {kind: name for kind, name, *_ in (*LINES, *FACES, *SOLIDS)}
NUMBERS = {name: kind for kind, name in NAMES.items()}
UNSUPPORTED = -2
NOTHING = "(?!)"                    # pattern that no text has
GHOSTS, NOT_SHOWN = "vtkGhostType", 1 | 32          # cell data of VTK; its bits for copies of cells of other pieces, and for hidden cells
CORNERS = np.full(256, UNSUPPORTED)                 # corners of each kind; 0 for cells that are left out
CORNERS[[kind for kind, _ in LINES]] = 0
CORNERS[[kind for kind, *_ in FACES]] = [corners for *_, corners, _ in FACES]
NODES = np.zeros(256, np.int64)                     # nodes of each kind, 0 for any number
NODES[[kind for kind, *_ in FACES]] = [nodes or 0 for *_, nodes in FACES]


class Grid(NamedTuple):
    """Cells of any kind, not checked."""

    points: np.ndarray                  # (n, 3) or (n, 2)
    kinds: np.ndarray                   # (c,) VTK's number of each cell's kind
    counts: np.ndarray                  # (c,) number of nodes of each cell
    nodes: np.ndarray                   # points of the cells, cell after cell
    point_data: Mapping = {}            # arrays (n, ...)
    cell_data: Mapping = {}             # arrays (c, ...)


def surface_of(grid, source=""):
    """Return the :class:`~meshsolve.mesh.data.Surface` of the faces of a grid in their order. Warnings begin with ``source``.

    Raises
    ------
    InvalidInputError
        A cell of a kind that is no face (names it), with another number of nodes than its kind has, or with a node outside the points.

    Warns
    -----
    MeshsolveWarning
        Cells of higher order were read by their corners. Left out were data of another number of rows, and faces that VTK marks as
        copies of those of another piece, or as hidden.
    """
    kinds, counts = (np.asarray(x, np.int64) for x in (grid.kinds, grid.counts))
    corners = _corners_of(kinds, counts)
    cell_data = _fitting(grid.cell_data, len(kinds), "cell", source)
    _leave_out_ghosts(corners, cell_data.get(GHOSTS), source)
    higher = int(np.count_nonzero((counts > corners) & (corners > 0)))
    if higher:
        warn(f"{source}{counted(higher, 'face')} of higher order: read by their corners, as flat faces. Their other nodes stay as "
             "vertices without a face", MeshsolveWarning)
    begin = np.cumsum(counts) - counts
    outside = (grid.nodes < 0) | (grid.nodes >= len(grid.points))
    if outside.any():
        k = int(outside.argmax())
        raise InvalidInputError(f"cell {np.searchsorted(np.cumsum(counts), k, 'right')} refers to point {grid.nodes[k]}; the points are "
                                f"0..{len(grid.points) - 1}")
    flat = np.flatnonzero((corners != 0) & (kinds != STRIP))
    parent, width = flat, np.where(corners == ALL, counts, corners)[flat]
    at = ragged(begin[flat], width)
    pixel = np.flatnonzero(kinds[flat] == PIXEL)
    last = (np.cumsum(width) - 2)[pixel]                        # nodes of a pixel are in the order of an image
    at[last], at[last + 1] = at[last + 1], at[last]
    if (strips := np.flatnonzero((kinds == STRIP) & (corners != 0))).size:
        parent, width, at = _with_strips(grid.nodes, strips, begin[strips], counts[strips], (parent, width, at))
    points = grid.points
    if points.ndim == 2 and points.shape[1] == 2:
        points = np.pad(points, ((0, 0), (0, 1)))
    face_data = {name: x[parent] for name, x in cell_data.items()}
    point_data = _fitting(grid.point_data, len(points), "point", source)
    return surface(without_small(Polygons(points, grid.nodes[at], width, 0, point_data, face_data)), source)


def ragged(begin, counts):
    """Return the positions ``begin[k], begin[k] + 1, ...``, ``counts[k]`` of them for each k, one after the other. O(sum(counts))."""
    total = np.cumsum(counts)
    return np.arange(total[-1] if len(total) else 0) + np.repeat(begin - (total - counts), counts)


def columns(data, kind, unwritable=NOTHING, split=None):
    """Return arrays of data with one or two axes for the writers of the format ``kind``. Booleans become uint8.

    ``unwritable`` is a pattern of the characters that names cannot have in this format. They become "_", with a warning.
    ``split(width)`` is whether a format stores arrays of this width column by column.

    Raises
    ------
    InvalidInputError
        Two arrays would have one name.
    """
    out = {}
    for name, x in data.items():
        if bad := re.search(unwritable, name):
            name, given = re.sub(unwritable, "_", name), name
            warn(f"names in {kind} cannot have the character {bad[0]!r}: {given!r} is written as {name!r}", MeshsolveWarning)
        x = x.astype(np.uint8) if x.dtype == bool else x
        rows = x.reshape(len(x), -1)
        parts = split_columns(name, rows.shape[1]) if split and split(rows.shape[1]) else [name]
        for part, column in zip(parts, np.ascontiguousarray(rows.T) if len(parts) > 1 else [x if x.ndim == 1 else rows]):
            if part in out:
                raise InvalidInputError(f"{kind} would have two arrays named {part!r}: rename the data of the mesh, for instance "
                                        "mesh.vertex_data['other'] = mesh.vertex_data.pop('name')")
            out[part] = column
    return out


def conventional(arrays, roles):
    """Rename arrays that a file marks as normals, texture coordinates or colors: ``roles`` is a mapping from "normal"... to a name."""
    names = {name: role for role, name in roles.items() if name in arrays and role not in arrays and _fits(role, arrays[name])}
    return {names.get(name, name): x for name, x in arrays.items()}


def colors_as_fractions(data):
    """Return the data with colors as fractions, for a format without integers."""
    return {name: color_fractions(x) if name == "color" else x for name, x in data.items()}


def unsupported(name):
    """Return the error for a kind of cells that is no face."""
    hint = "; tetrahedra are read by TetMesh.from_meshio" if name.startswith("tetra") else ""
    return InvalidInputError(f"cells of kind {name!r} are not supported: pass a surface of triangles, quads and polygons{hint}")


def _fits(role, values):
    try:
        MeshData("vertex", values.shape[:1])[role] = values
    except InvalidInputError:
        return False
    return True


def _corners_of(kinds, counts):
    """Return the number of corners of each cell, ALL or 0, after a check of its kind and of its number of nodes."""
    known = (kinds >= 0) & (kinds < len(CORNERS))
    corners = np.where(known, CORNERS[np.where(known, kinds, 0)], UNSUPPORTED)
    if (wrong := corners == UNSUPPORTED).any():
        kind = int(kinds[wrong][0])
        raise unsupported(NAMES.get(kind, str(kind)))
    nodes = NODES[kinds]
    wrong = (corners != 0) & np.where(nodes > 0, counts != nodes, counts < np.maximum(corners, 0))
    if wrong.any():
        k = int(wrong.argmax())
        raise InvalidInputError(f"cell {k} of kind {NAMES[int(kinds[k])]!r} has {counted(int(counts[k]), 'node')}")
    return corners


def _leave_out_ghosts(corners, ghosts, source):
    """Set the number of corners of cells to 0 that VTK marks as copies of cells of another piece, or as hidden."""
    if ghosts is None or ghosts.ndim > 1 or ghosts.dtype.kind not in "iu":
        return
    left_out = (ghosts & NOT_SHOWN != 0) & (corners != 0)
    corners[left_out] = 0
    if count := int(np.count_nonzero(left_out)):
        warn(f"{source}left out {counted(count, 'face')} that {GHOSTS!r} marks as copies or hidden", MeshsolveWarning)


def _with_strips(nodes, strips, begin, counts, others):
    """Add the triangles of strips to other faces, in the order of the cells: (cell of each face, its number of corners, positions)."""
    inside = ragged(begin, counts)
    triangles, strip = strip_triangles(counts, nodes[inside], positions=True)
    parent, width, at = (np.concatenate(pair) for pair in zip(
        others, (strips[strip], np.full(len(triangles), 3, np.int64), inside[triangles].reshape(-1))))
    order = np.argsort(parent, kind="stable")
    return parent[order], width[order], at[ragged((np.cumsum(width) - width)[order], width[order])]


def _fitting(data, rows, what, source):
    """Leave out arrays of another number of rows with a warning."""
    out = {}
    for name, x in data.items():
        if np.ndim(x) and len(x) == rows:
            out[name] = np.asarray(x)
        else:
            warn(f"{source}{what} data {name!r} must have {counted(rows, 'row')}, got shape {np.shape(x)}; it was left out",
                 MeshsolveWarning)
    return out
