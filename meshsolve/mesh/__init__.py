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

from meshsolve import _core
from meshsolve.errors import InvalidInputError
from meshsolve.mesh import boundary, elements, files, interop, measures
from meshsolve.mesh.checks import as_faces, as_vertices, check_positions, distinct_corners
from meshsolve.mesh.data import MeshData, Surface, at_corners, attach
from meshsolve.options import as_mapping, counted, thread_count
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import read_only
from meshsolve.sparse.graphs import is_graph, weights_of
from meshsolve.sparse.matrix import Csr, symmetric_pattern
from meshsolve.types import ArrayLike, Path

MeshLike: TypeAlias = Any           # Mesh, trimesh.Trimesh, meshio.Mesh or a tuple (V, F) of arrays
Function = TypeVar("Function", bound=Callable[..., Any])
SCENE = ": pass scene.to_geometry(), which makes one mesh of a scene"
DATA = ("_vertex_data", "_face_data", "_corner_data")


class Mesh(Sealed):
    """A triangle mesh.

    Parameters
    ----------
    vertices : (n, 3) array_like of real numbers, or a mesh
        Positions, at least one. Copied. If ``faces`` is omitted: an object with ``vertices`` and ``faces``, such as a
        ``trimesh.Trimesh`` or a :class:`Mesh`, or a ``meshio.Mesh`` (see :meth:`from_meshio`).
    faces : (m, 3) array_like of integers
        Corners of each triangle, 0-based, any integer type. Copied. Non-manifold, inconsistently oriented and zero-area
        faces are allowed. A face with a repeated corner is dropped with a :class:`MeshsolveWarning`, and with it its data.
    vertex_data, face_data, corner_data : mappings from name to array_like of real numbers, optional
        Arrays (n, ...), (m, ...) and (m, 3, ...), for instance colors, labels and texture coordinates. Copied. They are added to
        the data of a mesh that is given as ``vertices``.

    Attributes
    ----------
    vertex_data, face_data, corner_data : MeshData
        Named arrays with one row per vertex, face and corner, which may be set and deleted. They go through :func:`load_mesh`,
        :meth:`save`, :meth:`copy`, :meth:`with_vertices` and functions that return a mesh with the same faces.

    Raises
    ------
    InvalidInputError
        Wrong shape or type; no vertices; neither faces nor a mesh. A coordinate that is NaN, infinite or above 1e70 (names the
        vertex). An index outside 0..n-1 (names the face). Data of another length (names the array).

    Examples
    --------
    >>> import meshsolve as ms
    >>> mesh = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> mesh.edges.tolist()
    [[0, 1], [0, 2], [1, 2]]
    >>> mesh.boundary_loops()[0].tolist()
    [0, 1, 2]
    """

    def __init__(self, vertices: ArrayLike | MeshLike, faces: ArrayLike | None = None, *,
                 vertex_data: Mapping[str, ArrayLike] = {}, face_data: Mapping[str, ArrayLike] = {},
                 corner_data: Mapping[str, ArrayLike] = {}) -> None:
        given = _surface_of(vertices) if faces is None else Surface(vertices, faces)        # type: ignore[arg-type]
        self._vertices = as_vertices(given.vertices)
        corners = as_faces(given.faces, len(self._vertices))
        self._vertex_data, self._face_data = MeshData("vertex", self._vertices.shape[:1]), MeshData("face", corners.shape[:1])
        self._corner_data = MeshData("corner", corners.shape)
        for own, name, more in ((self._vertex_data, "vertex_data", vertex_data), (self._face_data, "face_data", face_data),
                                (self._corner_data, "corner_data", corner_data)):
            attach(own, getattr(given, name), given.source)
            own.update(as_mapping(more, name))
        kept = distinct_corners(corners)
        if kept is not None:
            corners = corners[kept]
            self._face_data, self._corner_data = self._face_data.rows(kept), self._corner_data.rows(kept)
        self._faces = corners
        self._faces.flags.writeable = False

    @classmethod
    def from_trimesh(cls, tm: Any) -> Mesh:
        """Make a mesh of the vertices and faces of a ``trimesh.Trimesh``, in the same order.

        Attributes, colors and texture coordinates become data. For a ``trimesh.Scene`` pass ``scene.to_geometry()``.
        """
        try:
            return cls(interop.from_trimesh(tm))
        except AttributeError as e:
            raise InvalidInputError(f"not a trimesh.Trimesh: {_without_faces(tm)}") from e

    def to_trimesh(self) -> Any:
        """Return a ``trimesh.Trimesh`` with the same vertices and faces (``process=False``).

        Data become attributes, ``"color"`` and ``"uv"`` of vertices visuals too. Data of corners are left out with a warning.
        """
        return interop.to_trimesh(self._surface())

    @classmethod
    def from_meshio(cls, mesh: Any) -> Mesh:
        """Make a mesh of the surface cells of a ``meshio.Mesh``: triangles, quadrilaterals and polygons.

        Cells of higher order are read by their corners, with a :class:`MeshsolveWarning`.

        Polygons are triangulated as in :func:`load_mesh`. Points keep their number and order; 2-D points get z = 0. Cells that
        are lines or single vertices are left out. ``point_data`` becomes :attr:`vertex_data`, ``cell_data`` :attr:`face_data`.

        Raises
        ------
        InvalidInputError
            Not a ``meshio.Mesh``; volume cells (names the kind).
        """
        if is_scene(mesh):
            raise InvalidInputError(f"not a meshio.Mesh: {type(mesh).__name__} has no points and cells{SCENE}")
        return cls(interop.from_meshio(mesh))

    def to_meshio(self) -> Any:
        """Return a ``meshio.Mesh`` with the same points and one block of triangles. Needs meshio.

        Data of vertices and faces become ``point_data`` and ``cell_data``. Data of corners are left out with a warning.
        """
        return interop.to_meshio(self._surface(), "meshio")

    def save(self, path: Path, *, fields: Mapping[str, ArrayLike] | None = None,
             uv: ArrayLike | tuple[ArrayLike, ArrayLike] | None = None) -> None:
        """Write the mesh in the format of the extension: OBJ, PLY, OFF, STL, GLB, VTU, VTP, VTK or MSH, each also with .gz.

        The file is written completely or not at all. STL and GLB have single precision, the others keep every bit of the
        coordinates. PLY holds all data; VTU, VTP, VTK and MSH all data of vertices and faces; OBJ and GLB ``"color"`` and ``"uv"``.
        Numbers of an MSH are float64. Its groups are face data ``"gmsh:physical"`` and ``"gmsh:geometrical"``.

        Parameters
        ----------
        path : str or path
        fields : dict of str to (n, ...) array_like, optional
            More data of the vertices (PLY, VTU, VTP, VTK, MSH), written as if they were in :attr:`vertex_data`. ParaView shows them.
        uv : (n, 2) array_like, or (points (r, 2), faces (m, 3)), optional
            Texture coordinates (OBJ, PLY, GLB) in place of those of the mesh. At seams a vertex has several points: ``faces`` are
            the rows of ``points`` at the corners of each face.

        Raises
        ------
        InvalidInputError
            Unknown extension; a folder that cannot be written to; a vertex beyond single precision (STL and GLB). A coordinate
            that was changed in place to NaN, infinity or a value beyond 1e70. Two arrays of a file with one name. ``fields`` or
            ``uv`` for a format that cannot hold them, or of another shape.

        Warns
        -----
        MeshsolveWarning
            Data and names that the format cannot hold, by name. Single precision moves vertices of an STL or GLB by more than a
            hundredth of a side.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import meshsolve as ms
        >>> mesh = ms.Mesh([[0, 0, 0], [1, 0, 0], [0, 1, 0]], [[0, 1, 2]], vertex_data={"uv": [[0, 0], [1, 0], [0, 1]]})
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "corner.obj"
        >>> mesh.save(path)
        >>> path.read_text().split()[12:19], ms.load_mesh(path).vertex_data
        (['vt', '0', '0', 'vt', '1', '0', 'vt'], {'uv': float64 (3, 2)})
        """
        fields, texture = as_mapping(fields, "fields"), uv if isinstance(uv, tuple) and len(uv) == 2 else None
        files.require_format(path, len(fields) > 0, uv is not None)
        files.write_mesh(path, checked_mesh(self)._with(fields, uv)._surface(), texture)

    def copy(self) -> Mesh:
        """Return a mesh with a copy of the positions. Arrays of data, faces and computed connectivity are read-only and shared. O(n)."""
        same = copy.copy(self)
        same._vertices = self._vertices.copy()
        for name in DATA:
            setattr(same, name, getattr(self, name).copy())
        return same

    def with_vertices(self, vertices: ArrayLike) -> Mesh:
        """Return a mesh with the same faces and data at other positions, (n, 3), without ``"normal"`` data.

        Computed connectivity and arrays of data are shared, not copied.
        """
        moved = copy.copy(self)
        for name in DATA:
            setattr(moved, name, getattr(self, name).copy())
        moved.vertices = vertices
        return moved

    @property
    def vertex_data(self) -> MeshData:
        """Mapping from name to read-only array (n, ...), one row per vertex."""
        return self._vertex_data

    @property
    def face_data(self) -> MeshData:
        """Mapping from name to read-only array (m, ...), one row per face."""
        return self._face_data

    @property
    def corner_data(self) -> MeshData:
        """Mapping from name to read-only array (m, 3, ...), one row per corner of each face."""
        return self._corner_data

    @property
    def vertices(self) -> np.ndarray:
        """(n, 3) float64, C order. An assigned array is checked and copied; it must have n rows.

        An assignment removes ``"normal"`` from all data, because the normals of other positions differ. Positions may be changed
        in place (``mesh.vertices[:, 2] *= 2``). Functions that use them check them again.
        """
        return self._vertices

    @vertices.setter
    def vertices(self, vertices: ArrayLike) -> None:
        given = as_vertices(vertices)
        if len(given) != len(self._vertices):
            raise InvalidInputError(f"vertices must have {len(self._vertices)} rows as before, got {len(given)}: make another "
                                    "Mesh(vertices, faces) for another number of vertices")
        self._vertices = given
        for name in DATA:
            getattr(self, name).pop("normal", None)

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
        return _core.mesh_components(len(self.vertices), self.edges.reshape(-1))

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
    def degenerate_faces(self) -> np.ndarray:
        """(k,) int64, ascending: faces with twice the area at most 1e-8 times their longest side squared. Operators count this area."""
        return elements.degenerate_faces(self.vertices, self.faces)

    @property
    def face_normals(self) -> np.ndarray:
        """(m, 3) float64: unit normal of each face, on the side from which its corners go counterclockwise; 0 for a zero-area face."""
        return measures.face_normals(self.vertices, self.faces)

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
        return boundary.loops_of(self.faces, self.side_edges, self._boundary_sides, self.is_manifold)

    def __repr__(self):
        return f"Mesh({counted(len(self.vertices), 'vertex')}, {counted(len(self.faces), 'face')})"

    def _with(self, fields: Mapping[str, ArrayLike], uv: ArrayLike | tuple[ArrayLike, ArrayLike] | None) -> Mesh:
        """Return a mesh with more data of vertices, and other texture coordinates."""
        if not fields and uv is None:
            return self
        other = self.copy()
        other.vertex_data.update(fields)
        if isinstance(uv, tuple) and len(uv) == 2:
            other.corner_data["uv"] = at_corners(*uv, self.faces.shape)
        elif uv is not None:
            other.corner_data.pop("uv", None)
            other.vertex_data["uv"] = uv
        return other

    def _surface(self) -> Surface:
        return Surface(self._vertices, self._faces, self._vertex_data, self._face_data, self._corner_data)

    @functools.cached_property
    def _boundary_sides(self):
        return boundary.sides_of_one_face(self.side_edges, len(self.edges))

    @functools.cached_property
    def _edges_and_sides(self):
        ends, of_side = _core.mesh_edges(len(self.vertices), self.faces.reshape(-1), thread_count())
        edges, sides = ends.reshape(-1, 2), of_side.reshape(-1, 3)
        return read_only(edges), read_only(sides)


def load_mesh(path: Path) -> Mesh:
    """Read a triangle mesh from an OBJ, PLY, OFF, STL, glTF, VTU, VTP, VTK or MSH file, also compressed with gzip.

    Vertices have the number and order of the file, and unreferenced vertices stay. Texture coordinates never split a vertex. Several
    objects become one mesh. Points and lines are ignored.

    All properties of vertices and faces of a PLY, VTU, VTP, VTK or MSH become data of the mesh, see :class:`MeshData`. Colors of
    vertices and texture coordinates of an OBJ, OFF or glTF become ``"color"`` and ``"uv"``. ``"uv"`` is vertex data if the corners of
    each vertex agree, else corner data. Materials, images, other normals, and colors of faces are ignored.

    A polygon with k corners becomes k - 2 triangles with the same orientation. It is a fan if it is star-shaped around its first corner,
    else it is cut by ear clipping in the plane of its Newell normal. Triangle strips become triangles.

    Identical vertices of an STL are merged and numbered by first appearance. So are copies of a vertex of a glTF within a node, if
    position, morph target displacements, joints and weights agree.

    Data of an MSH go to the nodes and elements of their tags, NaN if there is no row; groups are face data ``"gmsh:physical"`` and
    ``"gmsh:geometrical"``. Pieces of a VTU follow each other. Cells of higher order are read by their corners.

    Of a glTF the default scene is read in world coordinates, with default weights of morph targets, skins in the pose of the file,
    and instances of EXT_mesh_gpu_instancing. Other required extensions of the geometry (Draco, meshopt) are refused by name.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Mesh

    Raises
    ------
    InvalidInputError
        No such file; unknown extension; a damaged or truncated file; a feature that is not supported; cells of a solid. The message
        begins with ``FILE:LINE:`` for OBJ, OFF and text STL, else with ``FILE:``.

    Warns
    -----
    MeshsolveWarning
        Faces with fewer than three different corners were dropped. Polygons intersect themselves. Cells of higher order were read by
        their corners. The file continues beyond its announced end. Points, lines, texts, names, or other data were left out.

    Notes
    -----
    O(bytes), and a sort of the vertices or tags for STL, glTF and MSH. Ear clipping takes O(corners * concave corners) at worst.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import meshsolve as ms
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "arrow.off"
    >>> _ = path.write_text("OFF 4 1 0  0 0 0  2 1 0  0 2 0  1 1 0  4 0 1 2 3")
    >>> ms.load_mesh(path).faces.tolist()
    [[3, 0, 1], [2, 3, 1]]
    """
    surface = files.read_mesh(path)
    try:
        return Mesh(surface)
    except InvalidInputError as e:
        raise InvalidInputError(f"{path}: {e}") from e


def pattern_of(mesh_or_matrix, name="A", threads=1):
    """Return the graph of a mesh or matrix: a symmetric pattern without diagonal, as :class:`Csr` without values.

    For a mesh this is the graph of its edges, for a matrix the pattern of A + A^T. An :class:`Csr` is returned as it is. Graphs of
    networkx and igraph and lists of edges are accepted too. O(vertices + edges) on so many threads.
    """
    if isinstance(mesh_or_matrix, Csr):
        return mesh_or_matrix
    if is_mesh(mesh_or_matrix):
        mesh = as_mesh(mesh_or_matrix, name)
        n = len(mesh.vertices)
        indptr, indices, _ = _core.mesh_adjacency(n, mesh.edges.reshape(-1), False, thread_count())
        return Csr(n, indptr, indices)
    return symmetric_pattern(weights_of(mesh_or_matrix, name) if is_graph(mesh_or_matrix) else mesh_or_matrix, name, threads)


def is_mesh(thing):
    """True for objects with the attributes of a Mesh, trimesh.Trimesh or meshio.Mesh, and for pairs (V, F)."""
    return (hasattr(thing, "vertices") and hasattr(thing, "faces") or hasattr(thing, "points") and hasattr(thing, "cells_dict")
            or is_pair(thing))


def is_pair(thing):
    """True for a tuple (V, F) of vertices and faces as in libigl: two arrays with three columns each."""
    return isinstance(thing, tuple) and len(thing) == 2 and all(_columns_of(part) == 3 for part in thing)


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
    check_positions(mesh.vertices)
    return mesh


def _columns_of(part):
    try:
        shape = part.shape if hasattr(part, "shape") else np.shape(part)
    except ValueError:                                      # ragged list
        return 0
    return shape[1] if len(shape) == 2 else 0


def _without_faces(thing):
    return f"{type(thing).__name__} has no vertices and faces{SCENE if is_scene(thing) else ''}"


def _surface_of(mesh):
    """Vertices, faces and data of an object that has both, not checked."""
    if isinstance(mesh, Mesh):
        return mesh._surface()
    if isinstance(mesh, Surface):
        return mesh
    if hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        return interop.from_trimesh(mesh)
    if is_pair(mesh):
        return Surface(*mesh)
    if is_mesh(mesh):
        return interop.from_meshio(mesh)
    hint = "read files with load_mesh" if isinstance(mesh, (str, os.PathLike)) else _without_faces(mesh)
    raise InvalidInputError(f"Mesh takes vertices and faces, or one mesh: {hint}")
