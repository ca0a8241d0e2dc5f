"""Triangle meshes: checked arrays, the edges and components they imply, files.

A :class:`Mesh` never splits, merges, reorders or drops a vertex; what it does drop (faces with a repeated corner) it says.
Connectivity is computed when first asked for, in O(vertices + faces), and shared by every mesh made with
:meth:`Mesh.with_vertices`.
"""

from __future__ import annotations

import copy
import functools
import os
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve import _core
from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import boundary, files
from meshsolve.options import INT32_MAX, counted, thread_count
from meshsolve.report import warn
from meshsolve.sparse.columns import as_array, read_only
from meshsolve.sparse.matrix import LARGEST_SIZE, Csr, symmetric_pattern
from meshsolve.types import ArrayLike, Path

MeshLike: TypeAlias = Any           # Mesh, trimesh.Trimesh, meshio.Mesh or a tuple (V, F) of arrays
Function = TypeVar("Function", bound=Callable[..., Any])
SCENE = ": pass scene.to_geometry(), which makes one mesh of a scene"
LARGEST_COORDINATE = 1e70          # its fourth power, a squared area, stays finite


class Mesh:
    """A triangle mesh.

    Parameters
    ----------
    vertices : (n, 3) array_like of real numbers, or a mesh
        Positions, at least one. Copied. Without ``faces``: anything that has ``vertices`` and ``faces``, such as a
        ``trimesh.Trimesh`` or a :class:`Mesh`, or a ``meshio.Mesh``, see :meth:`from_meshio`.
    faces : (m, 3) array_like of integers
        Corners of each triangle, 0-based, any integer type. Copied. Non-manifold, inconsistently oriented and zero-area
        faces are welcome; a face that names one vertex twice is dropped with a :class:`MeshsolveWarning`.

    Raises
    ------
    InvalidInputError
        Wrong shape or type, no vertices, NaN, infinity or a coordinate above 1e70 (names the vertex), an index outside
        0..n-1 (names the face), no faces and no mesh.

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
        """A mesh of the vertices and faces of a ``trimesh.Trimesh``, in its order; of a ``trimesh.Scene`` pass ``scene.to_geometry()``."""
        try:
            return cls(tm.vertices, tm.faces)
        except AttributeError as e:
            raise InvalidInputError(f"not a trimesh.Trimesh: {_without_faces(tm)}") from e

    def to_trimesh(self) -> Any:
        """A ``trimesh.Trimesh`` with the same vertices and faces (``process=False``)."""
        import trimesh

        return trimesh.Trimesh(self.vertices, self.faces, process=False)

    @classmethod
    def from_meshio(cls, mesh: Any) -> Mesh:
        """A mesh of the surface cells of a ``meshio.Mesh``: triangles, quadrilaterals and polygons, cut into triangles as
        :func:`load_mesh` does.

        Points keep their number and order (2-D ones lie at z = 0); lines and isolated vertices among the cells are left out.

        Raises
        ------
        InvalidInputError
            Not a ``meshio.Mesh``; it has volume cells or cells of higher order (names the kind).
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
        """A ``meshio.Mesh`` with the same points and one block of triangles; meshio has to be installed."""
        import meshio

        return meshio.Mesh(self.vertices, [("triangle", self.faces)])

    def save(self, path: Path) -> None:
        """Write the mesh, whole or not at all, in the format of the extension: OBJ, PLY, OFF, STL, GLB, each also .gz.

        OBJ and PLY keep every bit of the coordinates, OFF 17 digits, STL and GLB single precision.

        Raises
        ------
        InvalidInputError
            Unknown extension, a folder that cannot be written to, a vertex beyond single precision (STL and GLB), or one that was
            changed to NaN, infinity or beyond 1e70.
        """
        files.write_mesh(path, placed_mesh(self).vertices, self.faces)

    def copy(self) -> Mesh:
        """A mesh of its own positions: what is changed here stays as it is there. Faces, which are read-only, and connectivity that is
        known already are shared. O(n)."""
        same = copy.copy(self)
        same._vertices = self._vertices.copy()
        return same

    def with_vertices(self, vertices: ArrayLike) -> Mesh:
        """The same faces at other positions ((n, 3), checked); connectivity that is known already is shared, not copied."""
        moved = copy.copy(self)
        moved.vertices = vertices
        return moved

    @property
    def vertices(self) -> np.ndarray:
        """(n, 3) float64, C order. What is assigned is checked and copied, and has to be as many.

        May be changed in place (``mesh.vertices[:, 2] *= 2``): whatever computes with positions looks at them again.
        """
        return self._vertices

    @vertices.setter
    def vertices(self, vertices: ArrayLike) -> None:
        given = _as_vertices(vertices)
        if len(given) != len(self._vertices):
            raise InvalidInputError(
                f"{counted(len(self._vertices), 'vertex')} are needed, not {len(given)}; others are another Mesh(vertices, faces)")
        self._vertices = given

    @property
    def faces(self) -> np.ndarray:
        """(m, 3) int32, C order. Read-only: others are another ``Mesh(mesh.vertices, faces)``."""
        return self._faces

    @property
    def edges(self) -> np.ndarray:
        """(e, 2) int32: lower and higher vertex of every edge, rows in lexicographic order, each once. Read-only."""
        return self._edges_and_sides[0]

    @property
    def side_edges(self) -> np.ndarray:
        """(m, 3) int32: the edge of each side of each face; side c joins corners c and c+1. Read-only."""
        return self._edges_and_sides[1]

    @functools.cached_property
    def is_manifold(self) -> bool:
        """Whether every edge has at most two faces and the faces around every vertex form one fan, closed or open."""
        return _core.mesh_is_manifold(len(self.vertices), self.faces.reshape(-1), self.side_edges.reshape(-1), len(self.edges))

    @functools.cached_property
    def components(self) -> np.ndarray:
        """(n,) int32: the connected component of each vertex, numbered from 0; an unreferenced vertex is one of its own."""
        n = len(self.vertices)
        graph = sp.coo_array((np.ones(len(self.edges), np.int8), self.edges.T), shape=(n, n))
        return connected_components(graph, directed=False)[1].astype(np.int32, copy=False)

    @functools.cached_property
    def boundary_edges(self) -> np.ndarray:
        """(b, 2) int32: start and end of every side whose edge has one face alone, directed as in that face, faces in their order.
        Read-only."""
        sides = self._boundary_sides
        return read_only(np.stack([self.faces.reshape(-1)[sides], np.roll(self.faces, -1, axis=1).reshape(-1)[sides]], axis=1))

    @functools.cached_property
    def boundary_vertices(self) -> np.ndarray:
        """(k,) int32: the vertices of :attr:`boundary_edges`, ascending, each once. Read-only. A vertex of no face is not among them."""
        return read_only(np.unique(self.boundary_edges))

    def boundary_loops(self) -> list[np.ndarray]:
        """The boundary as closed loops of vertices.

        Returns
        -------
        list of (k,) int32 arrays
            Vertices in the order in which a walk along :attr:`boundary_edges` meets them, the first not repeated at the end; loops by
            their first edges in that list. A closed mesh has none; ``max(loops, key=len)`` has the most vertices. A loop goes as the
            face of its first edge does, and so has the surface on its left where all faces are oriented alike. Where several fans of
            faces meet in a vertex alone, each is passed by itself: the vertex is in several loops, or more than once in one.

        Raises
        ------
        InvalidInputError
            The boundary meets an edge of more than two faces and does not close there (names the vertex).

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
    """Read a triangle mesh: OBJ, PLY, OFF, STL, glTF, each also packed with gzip.

    n is the file's vertex count in the file's order: texture coordinates and normals of an OBJ or of the corners of a PLY
    never split a vertex, unreferenced vertices stay, several objects in one file are one mesh. Colors, normals, points and
    lines are passed over.

    A polygon with k corners becomes k - 2 triangles in its place, oriented as it is: a convex one is fanned around its
    first corner, any other one is cut into triangles that lie inside it, in the plane of its Newell normal. Triangle strips
    of a PLY are taken apart.

    In an STL identical vertices are merged, by first appearance. In a glTF they are merged within a node where position,
    displacements of morph targets, joints and weights agree, because the format repeats a vertex at each texture seam and
    sharp edge; unreferenced vertices stay. The default scene is put together in world coordinates, with the default weights
    of morph targets, skins in the pose of the file, and the instances of EXT_mesh_gpu_instancing. An extension that the file
    requires and that changes the geometry in another way (Draco, meshopt) is refused by name.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Mesh

    Raises
    ------
    InvalidInputError
        No such file, unknown extension, a file that is broken or cut off, or one that needs what is not read: ``FILE:LINE:``
        for OBJ, OFF and STL in text, else ``FILE:``.

    Warns
    -----
    MeshsolveWarning
        Faces with a repeated corner or fewer than three corners were dropped, polygons cross themselves (each with the
        number), points or lines of a glTF were left out, or a file goes on where it should end.

    Notes
    -----
    O(bytes), and a sort of the vertices for STL and glTF. Ears of a polygon that is not convex take O(corners * concave
    corners) at worst. Sources: files in meshsolve/mesh name those of each format.

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
    """The graph of a mesh or of a matrix: a symmetric pattern without its diagonal, as :class:`Csr` without values.

    A mesh gives its edges, a matrix the pattern of A + A^T, a :class:`Csr` itself. O(vertices + edges).
    """
    if isinstance(mesh_or_matrix, Csr):
        return mesh_or_matrix
    if is_mesh(mesh_or_matrix):
        mesh = as_mesh(mesh_or_matrix, name)
        n = len(mesh.vertices)
        indptr, indices, _ = _core.mesh_adjacency(n, mesh.edges.reshape(-1), False, thread_count())
        return Csr(n, indptr, indices)
    return symmetric_pattern(mesh_or_matrix, name)


def is_mesh(thing):
    """Whether it has the parts of a Mesh, a trimesh.Trimesh or a meshio.Mesh."""
    return (hasattr(thing, "vertices") and hasattr(thing, "faces") or hasattr(thing, "points") and hasattr(thing, "cells_dict")
            or is_pair(thing))


def is_pair(thing):
    """True for a tuple (V, F) of vertices and faces, as libigl has them: two arrays of three columns."""
    return isinstance(thing, tuple) and len(thing) == 2 and all(_columns_of(part) == 3 for part in thing)


def _columns_of(part):
    try:
        shape = part.shape if hasattr(part, "shape") else np.shape(part)
    except ValueError:                                      # a list that is ragged
        return 0
    return shape[1] if len(shape) == 2 else 0


def takes_arrays(function: Function) -> Function:
    """A function of a mesh that may also be called with vertices and faces in place of it, as libigl's are."""
    @functools.wraps(function)
    def call(mesh, *rest, **options):
        if rest and not hasattr(mesh, "faces") and is_pair((mesh, rest[0])):
            mesh, rest = (mesh, rest[0]), rest[1:]
        return function(mesh, *rest, **options)
    return call                                             # type: ignore[return-value]


def is_scene(thing):
    """Whether it is like a trimesh.Scene, which holds several meshes and their places."""
    return hasattr(thing, "geometry") and hasattr(thing, "to_geometry")


def _without_faces(thing):
    return f"{type(thing).__name__} has no vertices and faces{SCENE if is_scene(thing) else ''}"


def as_mesh(mesh, name="mesh"):
    """``mesh`` itself where it is a :class:`Mesh`; a ``trimesh.Trimesh`` or ``meshio.Mesh`` is taken as well."""
    if isinstance(mesh, Mesh):
        return mesh
    if is_pair(mesh):
        return Mesh(*mesh)
    if is_mesh(mesh):
        return Mesh.from_trimesh(mesh) if hasattr(mesh, "faces") else Mesh.from_meshio(mesh)
    hint = ": load_mesh reads files" if isinstance(mesh, (str, os.PathLike)) else ": Mesh(vertices, faces) makes one of arrays"
    hint = SCENE if is_scene(mesh) else hint
    raise InvalidInputError(f"{name} has to be a meshsolve.Mesh, not {type(mesh).__name__}{hint}")


def placed_mesh(mesh, name="mesh"):
    """:func:`as_mesh` for what computes with positions: they are checked again, as they may have been changed in place. O(n)."""
    mesh = as_mesh(mesh, name)
    _check_positions(mesh.vertices)
    return mesh


def _parts_of(mesh):
    """Vertices and faces of anything that has them, still to be checked."""
    if hasattr(mesh, "vertices") and hasattr(mesh, "faces"):
        return mesh.vertices, mesh.faces
    if is_mesh(mesh):
        if is_pair(mesh):
            return mesh
        mesh = Mesh.from_meshio(mesh)
        return mesh.vertices, mesh.faces
    hint = "load_mesh reads files" if isinstance(mesh, (str, os.PathLike)) else f"a {_without_faces(mesh)}"
    raise InvalidInputError(f"Mesh takes vertices and faces, or one mesh: {hint}")


def _as_vertices(vertices):
    given = as_array(vertices, "vertices")
    if given.ndim != 2 or given.shape[1] != 3 or given.dtype.kind not in "fiu":
        raise InvalidInputError(f"vertices have to be (n, 3) real numbers, not shape {given.shape} of {given.dtype}")
    if len(given) == 0:
        raise InvalidInputError("a mesh needs at least one vertex")
    if len(given) > LARGEST_SIZE:
        raise InvalidInputError(f"{counted(len(given), 'vertex')}; at most {LARGEST_SIZE} are supported")
    x = np.array(given, np.float64, order="C")
    _check_positions(x)
    return x


def _check_positions(x):
    if not max(x.max(), -x.min()) <= LARGEST_COORDINATE:        # also where one is NaN
        bad = int(np.argmax(~(np.abs(x) <= LARGEST_COORDINATE).all(axis=1)))
        raise InvalidInputError(f"vertex {bad} is at {x[bad].tolist()}: coordinates have to be finite and at most 1e70")


def _as_faces(faces, n):
    given = as_array(faces, "faces")
    if given.size == 0 and given.ndim <= 2:
        return np.zeros((0, 3), np.int32)
    if given.ndim != 2 or given.shape[1] != 3:
        raise InvalidInputError(f"faces have to be (m, 3), three corners each, not {given.shape}")
    if given.dtype.kind not in "iu":
        raise InvalidInputError(f"faces have to be integers, not {given.dtype}")
    if 3 * len(given) > INT32_MAX:
        raise InvalidInputError(f"{counted(len(given), 'face')}; at most {INT32_MAX // 3} are supported")
    if given.min() < 0 or given.max() >= n:
        row, corner = np.argwhere((given < 0) | (given >= n))[0]
        raise InvalidInputError(f"face {row} names vertex {given[row, corner]}; the mesh has vertices 0..{n - 1}")
    t = np.array(given, np.int32, order="C")
    good = (t[:, 0] != t[:, 1]) & (t[:, 1] != t[:, 2]) & (t[:, 2] != t[:, 0])
    if not good.all():
        t = np.ascontiguousarray(t[good])
        dropped = int(np.count_nonzero(~good))
        warn(f"{counted(dropped, 'face')} with a repeated corner {'was' if dropped == 1 else 'were'} dropped", MeshsolveWarning)
    return t
