"""Tetrahedral meshes: checked arrays, their edges, components, volumes and surface."""

from __future__ import annotations

import functools

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from meshsolve.errors import InvalidInputError, MeshsolveWarning
from meshsolve.mesh import Mesh
from meshsolve.mesh.checks import as_vertices
from meshsolve.mesh.flat_cells import SIDES, shapes
from meshsolve.mesh.interop import points_and_cells
from meshsolve.options import as_flag, counted
from meshsolve.report import warn
from meshsolve.seal import Sealed
from meshsolve.sparse.columns import as_array
from meshsolve.types import Array, ArrayLike

ENDS = np.array([[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]])          # corners of the six edges of a cell
KINDS = ("tetra", "VTK_LAGRANGE_TETRAHEDRON")         # beginnings of meshio's names of tetrahedra, whose corners come first
MIX = np.uint64(0x9E3779B97F4A7C15)         # odd multiplier of a hash, 2^64 divided by the golden ratio


class TetMesh(Sealed):
    """A solid of tetrahedra.

    Parameters
    ----------
    vertices : (n, 3) array_like
    cells : (m, 4) array_like of integers
        Corners of each cell. Corners 1, 2 and 3 are counterclockwise when seen from corner 0 outside, so that volumes are positive.
    orient : bool
        Exchange two corners of each cell of negative volume. For cells whose order has no meaning, as those of
        ``scipy.spatial.Delaunay``.

    Attributes
    ----------
    vertices : (n, 3) float64, read-only
    cells : (m, 4) int32, read-only

    Raises
    ------
    InvalidInputError
        Arrays of another shape or kind, or a coordinate that is not finite or beyond 1e70. A cell with a corner outside the mesh,
        with a repeated corner, or inverted (names it). Two cells with the same corners (names both).

    Examples
    --------
    >>> import meshsolve as ms
    >>> corner = ms.TetMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 2, 3]])
    >>> corner.volumes.round(4).tolist(), ms.cotan_laplacian(corner).toarray()[0].round(4).tolist()
    ([0.1667], [0.5, -0.1667, -0.1667, -0.1667])
    """

    def __init__(self, vertices: ArrayLike, cells: ArrayLike, *, orient: bool = False) -> None:
        self.vertices = as_vertices(vertices)
        self.cells = _as_cells(cells, len(self.vertices))
        volume = _volumes(self.vertices, self.cells)
        if as_flag(orient, "orient"):
            turned = volume < 0
            self.cells[turned, 2:] = self.cells[turned, :1:-1]
        elif (volume < 0).any():
            k = int((volume < 0).argmax())
            raise InvalidInputError(f"cell {k} is inverted, its volume is {volume[k]:.6g}: exchange two of its corners, or give "
                                    "orient=True if the order of corners has no meaning")
        self.vertices.flags.writeable = self.cells.flags.writeable = False

    @classmethod
    def from_meshio(cls, mesh: object, *, orient: bool = False) -> TetMesh:
        """Take the tetrahedra of a ``meshio.Mesh``; other cells are left out. Raises InvalidInputError without tetrahedra.

        Those of higher order are read by their corners, with a :class:`MeshsolveWarning`. Their other nodes stay as vertices.
        """
        points, blocks = points_and_cells(mesh)
        blocks = [(kind, cells) for kind, cells in blocks if kind.startswith(KINDS)]
        if not blocks:
            raise InvalidInputError("the meshio.Mesh has no cells of type tetra")
        if higher := sum(len(cells) for kind, cells in blocks if kind != "tetra"):
            warn(f"{counted(higher, 'cell')} of higher order: read by their corners. Their other nodes stay as vertices without a "
                 "cell", MeshsolveWarning)
        return cls(points, np.concatenate([cells[:, :4] for _, cells in blocks]), orient=orient)

    def __repr__(self) -> str:
        return f"TetMesh({len(self.vertices):,} vertices, {len(self.cells):,} cells)"

    @functools.cached_property
    def volumes(self) -> Array:
        """(m,) float64: the volume of each cell, at least 0."""
        return np.abs(_volumes(self.vertices, self.cells))

    @property
    def edges(self) -> Array:
        """(e, 2) int32: lower and higher vertex of each edge, in lexicographic order."""
        return self._edges_and_sides[0]

    @property
    def cell_edges(self) -> Array:
        """(m, 6) int32: the edges of each cell, between corners 01, 02, 03, 12, 13 and 23."""
        return self._edges_and_sides[1]

    @functools.cached_property
    def edge_lengths(self) -> Array:
        """(e,) float64: the length of each edge."""
        steps = self.vertices[self.edges[:, 1]] - self.vertices[self.edges[:, 0]]
        unit = 2.0 ** np.frexp(np.abs(steps).max(initial=0))[1]             # squares of tiny lengths underflow
        return unit * np.linalg.norm(steps / unit, axis=1)

    @functools.cached_property
    def degenerate_cells(self) -> Array:
        """(k,) int64, ascending: cells without volume, which count as mollified shapes in operators.

        Slivers are flat quadrilaterals, frequent in Delaunay triangulations. They hardly add to an energy and do not lock a solution.
        A flat cell ties a corner that lies on an edge, on a side or at another corner to the corners of that edge or side.
        """
        return shapes(self.vertices, self.cells, self.edge_lengths[self.cell_edges].max(axis=1), self.volumes)[2]

    @functools.cached_property
    def components(self) -> Array:
        """(n,) int32: the number of the connected component of each vertex."""
        n = len(self.vertices)
        graph = sp.coo_array((np.ones(len(self.edges), np.int8), self.edges.T), shape=(n, n))
        return connected_components(graph, directed=False)[1].astype(np.int32, copy=False)

    def surface(self) -> Mesh:
        """The boundary as a :class:`Mesh` with the same vertices, faces oriented outwards: for pictures, files and measures."""
        faces = self.cells[:, SIDES].reshape(-1, 3)
        _, first, count = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_counts=True)
        return Mesh(self.vertices, faces[np.sort(first[count == 1])])

    @functools.cached_property
    def _edges_and_sides(self):
        n = len(self.vertices)
        ends = np.sort(self.cells[:, ENDS], axis=2).astype(np.int64)
        keys, edge = np.unique(ends[..., 0] * n + ends[..., 1], return_inverse=True)
        return np.stack(np.divmod(keys, n), axis=1).astype(np.int32), edge.reshape(-1, 6).astype(np.int32)


def _as_cells(cells, n):
    """Corners as (m, 4) int32, C order, always a copy."""
    given = as_array(cells, "cells")
    if given.ndim != 2 or given.shape[1] != 4 or given.dtype.kind not in "iu" or len(given) == 0:
        raise InvalidInputError(f"cells must be (m, 4) integers, four corners for each, got {given.dtype} of shape {given.shape}")
    outside = ((given < 0) | (given >= n)).any(axis=1)
    if outside.any():
        k = int(outside.argmax())
        raise InvalidInputError(f"cell {k} has corners {given[k].tolist()}; the mesh has vertices 0..{n - 1}")
    ordered = np.sort(given, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if repeated.any():
        k = int(repeated.argmax())
        raise InvalidInputError(f"cell {k} has a repeated corner: {given[k].tolist()}")
    _require_distinct(ordered)
    return np.array(given, np.int32, order="C")


def _require_distinct(cells):
    """Raise if two cells, with sorted corners, are equal: their volume would count twice, and no side between them is a surface."""
    a, b, c, d = cells.astype(np.uint64).T
    key = ((a * MIX + b) * MIX + c) * MIX + d                    # modulo 2^64; equal cells have equal keys
    key.sort()
    if (key[1:] == key[:-1]).any():
        order = np.lexsort(cells.T)
        same = (cells[order[1:]] == cells[order[:-1]]).all(axis=1)
        if same.any():
            k = int(same.argmax())
            first, second = sorted((int(order[k]), int(order[k + 1])))
            raise InvalidInputError(f"cells {first} and {second} have the same corners {cells[first].tolist()}: remove one of them")


def _volumes(x, cells):
    """(m,) signed volumes."""
    a, b, c, d = (x.take(corner, axis=0) for corner in cells.T)
    return np.einsum("mk,mk->m", b - a, np.cross(c - a, d - a)) / 6
