"""Queries composed of the rows of other queries: rotation order, edges of edges, diamonds, rings; for tables on the host and the GPU.

The tables of a device derive from :class:`Rows` and supply the work: host.py (C++, rings.cpp) and rings_cuda.py (kernels, rings.cu).
"""

from __future__ import annotations

from meshsolve.device import scalar
from meshsolve.errors import InvalidInputError
from meshsolve.options import counted

WITHIN_PATCHES = ("VV", "VE", "VF", "FV", "FE", "FF", "EV", "EF")       # queries that a patch answers for its own elements
QUERIES = (*WITHIN_PATCHES, "EE", "EVDiamond")
OF_PATTERN = ("VV", "VE", "EV", "EE")                       # queries that need no faces
NO_ROW = 2**63 - 1                                          # no row failed: larger than any vertex << 32 | position


class Rows:
    """All queries, in terms of ``query(name)`` for those within patches and of the methods of the devices."""

    def rows(self, name, oriented=False, rings=1):
        """Return (indptr int64, indices int32) of any query; see ``PatchMesh.query``."""
        if oriented:
            return self._oriented(name)
        if name == "EE":
            return self.edges_of_edges(*self.query("VE"), self.query("EV")[1])
        if name == "EVDiamond":
            return self._diamonds()
        found = self.query(name)
        return self.rings(*found, rings) if rings > 1 else found

    def _oriented(self, name):
        indptr, neighbors = self.query("VV")
        values = neighbors if name == "VV" else self.query(name)[1]
        faces = self.query("VF")
        indices, failed = self.rotate(indptr, neighbors, *faces, self.query("FV")[1], values)
        if failed != NO_ROW:
            v, position = failed >> 32, failed & 0xFFFFFFFF
            first, end = (scalar(indptr[k:k + 1]) for k in (v, v + 1))
            if position == end - first:
                count = scalar(faces[0][v + 1:v + 2]) - scalar(faces[0][v:v + 1])
                why = f"its {counted(count, 'face')} form more than one fan"
            else:
                why = f"edge ({v}, {scalar(neighbors[first + position:first + position + 1])}) has more than two faces"
            raise InvalidInputError(f"vertex {v} is not manifold, so its neighbors have no rotation order: {why}; "
                                    "split the surface at this vertex, or query without oriented=True")
        return indptr, indices

    def _diamonds(self):
        ends, (ptr, faces) = self.query("EV")[1], self.query("EF")
        indices, edge = self.diamonds(ptr, faces, ends, self.query("FV")[1])
        if edge != NO_ROW:
            a, b, first, end = (scalar(row[k:k + 1]) for row, k in ((ends, 2 * edge), (ends, 2 * edge + 1), (ptr, edge), (ptr, edge + 1)))
            raise InvalidInputError(f"edge {edge}, ({a}, {b}), is not manifold: it has {counted(end - first, 'face')}, "
                                    "a diamond at most two; split the surface at this edge, or query EF and FV")
        return self.query("EV")[0] * 2, indices
