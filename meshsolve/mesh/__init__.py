"""Triangle meshes: checked arrays, the edges and components they imply, files.

A :class:`Mesh` never splits, merges, reorders or drops a vertex. It drops faces with a repeated corner, with a warning.
Connectivity is computed on first use, in O(vertices + faces), and shared with every mesh made by :meth:`Mesh.with_vertices`.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import boundary, files, measures
from meshsolve.options import INT32_MAX, counted, thread_count
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array, read_only
from meshsolve.sparse.graphs import is_graph, weights_of
from meshsolve.sparse.matrix import LARGEST_SIZE, Csr, symmetric_pattern
from meshsolve.types import ArrayLike, Path

MeshLike: TypeAlias = Any           # Mesh, trimesh.Trimesh, meshio.Mesh or a tuple (V, F) of arrays
Function = TypeVar("Function", bound=Callable[..., Any])
SCENE = ": pass scene.to_geometry(), which makes one mesh of a scene"
LARGEST_COORDINATE = 1e70          # largest accepted |coordinate|: its fourth power, a squared area, stays finite


class Mesh:
    """A triangle mesh.

    Parameters
    ----------
    vertices : (n, 3) array_like of real numbers, or a mesh
        Positions, at least one. Copied. If ``faces`` is omitted: an object with ``vertices`` and ``faces``, such as a
        ``trimesh.Trimesh`` or a :class:`Mesh`, or a ``meshio.Mesh`` (see :meth:`from_meshio`).
    faces : (m, 3) array_like of integers
        Corners of each triangle, 0-based, any integer type. Copied. Non-manifold, inconsistently oriented and zero-area
        faces are allowed. A face with a repeated corner is dropped with a :class:`MeshsolveWarning`.

    Raises
    ------
    InvalidInputError
        Wrong shape or type; no vertices; a coordinate that is NaN, infinite or above 1e70 (names the vertex); an index outside
        0..n-1 (names the face); neither faces nor a mesh.

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> mesh.edges.tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> mesh.boundary_loops()[0].tolist()
    [0, 1, 2]
    """

    def __init__(self, vertices: ArrayLike | MeshLike, faces: ArrayLike | None = None) -> None:
        if faces is None:
            vertices, faces = _parts_of(vertices)
        self._vertices = _as_vertices(vertices)
        self._faces = _as_faces(faces, len(self._vertices))
        self._faces.flags.writeable = False

    @classmethod
    def from_trimesh(cls, tm: Any) -> Mesh:
        """Make a mesh of the vertices and faces of a ``trimesh.Trimesh``, in the same order.

        For a ``trimesh.Scene`` pass ``scene.to_geometry()``.
        """
        try:
            return cls(tm.vertices, tm.faces)
        except AttributeError as e:
            raise InvalidInputError(f"not a trimesh.Trimesh: {_without_faces(tm)}") from e

    def to_trimesh(self) -> Any:
        """Return a ``trimesh.Trimesh`` with the same vertices and faces (``process=False``)."""
        import trimesh

        return trimesh.Trimesh(self.vertices, self.faces, process=False)

    @classmethod
    def from_meshio(cls, mesh: Any) -> Mesh:
        """Make a mesh of the surface cells of a ``meshio.Mesh``: triangles, quadrilaterals and polygons.

        Polygons are triangulated as in :func:`load_mesh`. Points keep their number and order; 2-D points get z = 0. Cells that
        are lines or single vertices are left out.

        Raises
        ------
        InvalidInputError
            Not a ``meshio.Mesh``; volume cells or cells of higher order (names the kind).
        """
        try:
            points, blocks = as_array(mesh.points, "points"), [(cell.type, np.asarray(cell.data)) for cell in mesh.cells]
        except AttributeError as e:
            hint = SCENE if is_scene(mesh) else ""
            raise InvalidInputError(f"not a meshio.Mesh: {type(mesh).__name__} has no points and cells{hint}") from e
        if points.ndim == 2 and points.shape[1] == 2:
            points = np.pad(points, ((0, 0), (0, 1)))
        return cls(points, files.surface_of(points, blocks))

    def to_meshio(self) -> Any:
        """Return a ``meshio.Mesh`` with the same points and one block of triangles. Needs meshio."""
        import meshio

        return meshio.Mesh(self.vertices, [("triangle", self.faces)])

    def save(self, path: Path, *, fields: Mapping[str, ArrayLike] | None = None,
             uv: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None) -> None:
        """Write the mesh in the format of the extension: OBJ, PLY, OFF, STL or GLB, each also with .gz.

        The file is written completely or not at all. OBJ and PLY keep every bit of the coordinates, OFF 17 digits, STL and GLB
        single precision.

        Parameters
        ----------
        path : str or path
        fields : dict of str to (n,) array_like, optional
            Numbers at the vertices, written to a PLY file as properties of these names. ParaView and MeshLab show them.
        uv : (n, 2) array_like, or (points (r, 2), faces (m, 3)), optional
            Texture coordinates, written to an OBJ file as lines ``vt``. At seams a vertex has several points: ``faces`` are the rows
            of ``points`` at the corners of each face.

        Raises
        ------
        InvalidInputError
            Unknown extension; a folder that cannot be written to; a vertex beyond single precision (STL and GLB); a coordinate
            that was changed in place to NaN, infinity or a value beyond 1e70; ``fields`` for another format than PLY, ``uv`` for
            another format than OBJ, or an array of another shape.
        """
        files.write_mesh(path, checked_mesh(self).vertices, self.faces, fields, uv)

    def copy(self) -> Mesh:
        """Return a mesh with a copy of the positions. The read-only faces and computed connectivity are shared. O(n)."""
        same = copy.copy(self)
        same._vertices = self._vertices.copy()
        return same

    def with_vertices(self, vertices: ArrayLike) -> Mesh:
        """Return a mesh with the same faces at other positions, (n, 3). Computed connectivity is shared, not copied."""
        moved = copy.copy(self)
        moved.vertices = vertices
        return moved

    @property
    def vertices(self) -> np.ndarray:
        """(n, 3) float64, C order. An assigned array is checked and copied; it must have n rows.

        Positions may be changed in place (``mesh.vertices[:, 2] *= 2``). Functions that use them check them again.
        """
        return self._vertices

    @vertices.setter
    def vertices(self, vertices: ArrayLike) -> None:
        given = _as_vertices(vertices)
        if len(given) != len(self._vertices):
            raise InvalidInputError(f"vertices must have {len(self._vertices)} rows as before, got {len(given)}: make another "
                                    "Mesh(vertices, faces) for another number of vertices")
        self._vertices = given

    @property
    def faces(self) -> np.ndarray:
        """(m, 3) int32, C order, read-only. For other faces make another ``Mesh(mesh.vertices, faces)``."""
        return self._faces

    @property
    def edges(self) -> np.ndarray:
        """(e, 2) int32, read-only: lower and higher vertex of each edge, rows distinct and in lexicographic order."""
        return self._edges_and_sides[0]

    @property
    def side_edges(self) -> np.ndarray:
        """(m, 3) int32, read-only: the edge of each side of each face; side c joins corners c and c+1."""
        return self._edges_and_sides[1]

    @functools.cached_property
    def is_manifold(self) -> bool:
        """True if every edge has at most two faces and the faces around every vertex form one fan, closed or open."""
        return _core.mesh_is_manifold(len(self.vertices), self.faces.reshape(-1), self.side_edges.reshape(-1), len(self.edges))

    @functools.cached_property
    def components(self) -> np.ndarray:
        """(n,) int32: the connected component of each vertex, numbered from 0. An unreferenced vertex is a component."""
        n = len(self.vertices)
        graph = sp.coo_array((np.ones(len(self.edges), np.int8), self.edges.T), shape=(n, n))
        return connected_components(graph, directed=False)[1].astype(np.int32, copy=False)

    @functools.cached_property
    def boundary_edges(self) -> np.ndarray:
        """(b, 2) int32, read-only: the edges with exactly one face, directed as in that face, in the order of the faces."""
        sides = self._boundary_sides
        return read_only(np.stack([self.faces.reshape(-1)[sides], np.roll(self.faces, -1, axis=1).reshape(-1)[sides]], axis=1))

    @functools.cached_property
    def boundary_vertices(self) -> np.ndarray:
        """(k,) int32, read-only: the distinct vertices of :attr:`boundary_edges`, ascending."""
        return read_only(np.unique(self.boundary_edges))

    @property
    def face_areas(self) -> np.ndarray:
        """(m,) float64: area of each face."""
        return measures.face_areas(self.vertices, self.faces)

    @property
    def face_normals(self) -> np.ndarray:
        """(m, 3) float64: unit normal of each face, on the side from which its corners go counterclockwise; 0 for a zero-area face."""
        return measures.unit(measures.area_vectors(self.vertices, self.faces))

    @property
    def vertex_normals(self) -> np.ndarray:
        """(n, 3) float64: unit normal at each vertex, the mean of its faces' weighted by their angles; 0 if undefined."""
        return measures.vertex_normals(self.vertices, self.faces)

    @property
    def edge_lengths(self) -> np.ndarray:
        """(e,) float64: length of each of :attr:`edges`."""
        return _core.edge_lengths(self.vertices.reshape(-1), self.edges.reshape(-1), thread_count())

    @property
    def volume(self) -> float:
        """Signed volume inside a closed mesh, positive if its faces look outwards. For an open mesh, the volume between its faces and
        the mean of their corners."""
        return measures.volume(self.vertices, self.faces)

    def boundary_loops(self) -> list[np.ndarray]:
        """Return the boundary as closed loops of vertices.

        Returns
        -------
        list of (k,) int32 arrays
            Vertices in the order of a walk along :attr:`boundary_edges`; the first is not repeated at the end. Loops are
            ordered by their first edges in that list. A closed mesh has no loops. ``max(loops, key=len)`` has the most vertices.

            A loop has the direction of the face of its first edge. If all faces are oriented consistently, the surface is on
            its left. A vertex where several fans of faces meet is visited once for each fan, in one loop or in several.

        Raises
        ------
        InvalidInputError
            The boundary does not close because it meets an edge of more than two faces (names the vertex).

        Notes
        -----
        O(faces), and a sort of the edges at the boundary.
        """
        return boundary.loops_of(self.faces, self.side_edges, self._boundary_sides)

    @functools.cached_property
    def _boundary_sides(self):
        return boundary.sides_of_one_face(self.side_edges, len(self.edges))

    @functools.cached_property
    def _edges_and_sides(self):
        ends, of_side = _core.mesh_edges(len(self.vertices), self.faces.reshape(-1), thread_count())
        edges, sides = ends.reshape(-1, 2), of_side.reshape(-1, 3)
        return read_only(edges), read_only(sides)

    def __repr__(self):
        return f"Mesh({counted(len(self.vertices), 'vertex')}, {counted(len(self.faces), 'face')})"


def load_mesh(path: Path) -> Mesh:
    """Read a triangle mesh from an OBJ, PLY, OFF, STL or glTF file, also compressed with gzip.

    Vertices have the number and order of the file. Texture coordinates and normals of an OBJ or PLY never split a vertex.
    Unreferenced vertices stay. Several objects in one file become one mesh. Colors, normals, points and lines are ignored.

    A polygon with k corners becomes k - 2 triangles with the same orientation. A polygon that is star-shaped around its first
    corner becomes a fan. Any other polygon is triangulated by ear clipping in the plane of its Newell normal. Triangle strips of
    a PLY become triangles.

    In an STL identical vertices are merged and numbered by first appearance. A glTF repeats a vertex at each texture seam and
    sharp edge. Such copies are merged within a node if position, morph target displacements, joints and weights agree.

    Of a glTF the default scene is read in world coordinates, with the default weights of morph targets, skins in the pose of the
    file, and instances of EXT_mesh_gpu_instancing. Required extensions that change the geometry otherwise (Draco, meshopt) are
    refused by name.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Mesh

    Raises
    ------
    InvalidInputError
        No such file; unknown extension; a damaged or truncated file; a feature of a format that is not supported. The message
        begins with ``FILE:LINE:`` for OBJ, OFF and text STL, else with ``FILE:``.

    Warns
    -----
    MeshsolveWarning
        Faces with a repeated corner or fewer than three corners were dropped; polygons intersect themselves; points or lines of a
        glTF were left out; the file continues beyond its announced end.

    Notes
    -----
    O(bytes), and a sort of the vertices for STL and glTF. Ear clipping takes O(corners * concave corners) at worst. The files in
    meshsolve/mesh cite the specification of each format.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import meshsolve as ms
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "arrow.off"
    >>> _ = path.write_text("OFF 4 1 0  0 0 0  2 1 0  0 2 0  1 1 0  4 0 1 2 3")
    >>> ms.load_mesh(path).faces.tolist()
    [[3, 0, 1], [2, 3, 1]]
    """
    vertices, faces = files.read_mesh(path)
    try:
        return Mesh(vertices, faces)
    except InvalidInputError as e:
        raise InvalidInputError(f"{path}: {e}") from e


def pattern_of(mesh_or_matrix, name="A"):
    """Return the graph of a mesh or matrix: a symmetric pattern without diagonal, as :class:`Csr` without values.

    For a mesh this is the graph of its edges, for a matrix the pattern of A + A^T. An :class:`Csr` is returned as it is. Graphs of
    networkx and igraph and lists of edges are accepted too. O(vertices + edges).
    """
    if isinstance(mesh_or_matrix, Csr):
        return mesh_or_matrix
    if is_mesh(mesh_or_matrix):
        mesh = as_mesh(mesh_or_matrix, name)
        n = len(mesh.vertices)
        indptr, indices, _ = _core.mesh_adjacency(n, mesh.edges.reshape(-1), False, thread_count())
        return Csr(n, indptr, indices)
    return symmetric_pattern(weights_of(mesh_or_matrix, name) if is_graph(mesh_or_matrix) else mesh_or_matrix, name)


def is_mesh(thing):
    """True for objects with the attributes of a Mesh, trimesh.Trimesh or meshio.Mesh, and for pairs (V, F)."""
    return (hasattr(thing, "vertices") and hasattr(thing, "faces") or hasattr(thing, "points") and hasattr(thing, "cells_dict")
            or is_pair(thing))


def is_pair(thing):
    """True for a tuple (V, F) of vertices and faces as in libigl: two arrays with three columns each."""
    return isinstance(thing, tuple) and len(thing) == 2 and all(_columns_of(part) == 3 for part in thing)


def _columns_of(part):
    try:
        shape = part.shape if hasattr(part, "shape") else np.shape(part)
    except ValueError:                                      # ragged list
        return 0
    return shape[1] if len(shape) == 2 else 0


def takes_arrays(function: Function) -> Function:
    """Decorate a function of a mesh so that it also accepts two arrays, vertices and faces, as functions of libigl do."""
    @functools.wraps(function)
    def call(mesh, *rest, **options):
        if rest and not hasattr(mesh, "faces") and is_pair((mesh, rest[0])):
            mesh, rest = (mesh, rest[0]), rest[1:]
        return function(mesh, *rest, **options)
    return call                                             # type: ignore[return-value]


def is_scene(thing):
    """True for objects like a trimesh.Scene, which holds several meshes and their transforms."""
    return hasattr(thing, "geometry") and hasattr(thing, "to_geometry")


def _without_faces(thing):
    return f"{type(thing).__name__} has no vertices and faces{SCENE if is_scene(thing) else ''}"


def as_mesh(mesh, name="mesh"):
    """Return ``mesh`` as a :class:`Mesh`; it may be a Mesh, a ``trimesh.Trimesh``, a ``meshio.Mesh`` or a pair (V, F)."""
    if isinstance(mesh, Mesh):
        return mesh
    if is_pair(mesh):
        return Mesh(*mesh)
    if is_mesh(mesh):
        return Mesh.from_trimesh(mesh) if hasattr(mesh, "faces") else Mesh.from_meshio(mesh)
    hint = ": read files with load_mesh" if isinstance(mesh, (str, os.PathLike)) else ": make one with Mesh(vertices, faces)"
    hint = SCENE if is_scene(mesh) else hint
    raise InvalidInputError(f"{name} must be a meshsolve.Mesh, got {type(mesh).__name__}{hint}")


def checked_mesh(mesh, name="mesh"):
    """:func:`as_mesh` with another check of the positions, which may have been changed in place. O(n)."""
    mesh = as_mesh(mesh, name)
    _check_positions(mesh.vertices)
    return mesh


def _parts_of(mesh):
    """Vertices and faces of an object that has both, not checked."""
    if hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        return mesh.vertices, mesh.faces
    if is_mesh(mesh):
        if is_pair(mesh):
            return mesh
        mesh = Mesh.from_meshio(mesh)
        return mesh.vertices, mesh.faces
    hint = "read files with load_mesh" if isinstance(mesh, (str, os.PathLike)) else _without_faces(mesh)
    raise InvalidInputError(f"Mesh takes vertices and faces, or one mesh: {hint}")


def _as_vertices(vertices):
    given = as_array(vertices, "vertices")
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "fiu":
        raise InvalidInputError(f"vertices must be (n, 3) real numbers, got shape {given.shape} of {given.dtype}")
    if len(given) == 0:
        raise InvalidInputError("a mesh needs at least one vertex")
    if len(given) > LARGEST_SIZE:
        raise InvalidInputError(f"the mesh has {counted(len(given), 'vertex')}; at most {LARGEST_SIZE:,} are supported")
    x = np.array(given, np.float64, order="C")
    _check_positions(x)
    return x


def _check_positions(x):
    if not max(x.max(), -x.min()) <= LARGEST_COORDINATE:        # true for NaN as well
        bad = int(np.argmax(~(np.abs(x) <= LARGEST_COORDINATE).all(axis=1)))
        raise InvalidInputError(f"vertex {bad} is at {x[bad].tolist()}: coordinates must be finite and at most 1e70")


def _as_faces(faces, n):
    given = as_array(faces, "faces")
    if given.size == 0 and given.ndim <= 2:
        return np.zeros((0, 3), np.int32)
    if given.ndim != 2 or given.shape[1] != 3:
        raise InvalidInputError(f"faces must be (m, 3), three corners per face, got {given.shape}")
    if given.dtype.kind not in "iu":
        raise InvalidInputError(f"faces must be integers, got {given.dtype}")
    if 3 * len(given) > INT32_MAX:
        raise InvalidInputError(f"the mesh has {counted(len(given), 'face')}; at most {INT32_MAX // 3:,} are supported")
    if given.min() < 0 or given.max() >= n:
        row, corner = np.argwhere((given < 0) | (given >= n))[0]
        raise InvalidInputError(f"face {row} refers to vertex {given[row, corner]}; the mesh has vertices 0..{n - 1}")
    t = np.array(given, np.int32, order="C")
    good = (t[:, 0] != t[:, 1]) & (t[:, 1] != t[:, 2]) & (t[:, 2] != t[:, 0])
    if not good.all():
        t = np.ascontiguousarray(t[good])
        warn(f"dropped {counted(int(np.count_nonzero(~good)), 'face')} with a repeated corner", MeshsolveWarning)
    return t
