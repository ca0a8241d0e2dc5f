"""Distances, vectors and maps of the surface that is shown, computed on first use and kept while it stays."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from meshsolve.apps.geodesics import Geodesics
from meshsolve.apps.maps import METHODS, parameterize
from meshsolve.apps.maps.distortion import distortion, face_distortions
from meshsolve.apps.viewer.coloring import Coloring
from meshsolve.errors import InvalidInputError
from meshsolve.options import counted, one_of
from meshsolve.sparse.columns import as_indices

MAPS = ("texture", "angle distortion", "area distortion")
VIEWS = ("distance", "signed distance", "logarithmic map", "transport", *MAPS)
LINES = 16                          # lines of equal distance
ARROWS = 3000                       # most arrows of a transported vector; more of them hide the surface


class Geometry:
    """Settings and results of ``VIEWS``.

    Parameters
    ----------
    threads : int, optional

    Attributes
    ----------
    sources : (s,) int32
        Vertices from which distances are measured. Signed distances are those to the path of edges through them, in this order.
    method : str
        Method of the map, one of those of :func:`meshsolve.apps.parameterize`.
    """

    def __init__(self, threads=None):
        self.threads, self.sources, self.method = threads, np.zeros(1, np.int32), "arap"
        self._mesh = self._geodesics = self._map = None
        self._colorings = {}

    def use(self, mesh, sources=None, method=None):
        """Choose the sources or the method of the map."""
        if sources is not None:
            self.sources, self._colorings = as_indices(sources, len(mesh.vertices), "sources"), {}
        if method is not None and one_of(method, "method", METHODS) != self.method:
            self.method, self._map, self._colorings = method, None, {}

    def view(self, name, mesh):
        """Return the :class:`Coloring` of one of ``VIEWS`` on a mesh."""
        if mesh is not self._mesh:
            self._geodesics = self._map = None
            self._mesh, self._colorings = mesh, {}
        if name not in self._colorings:
            make = {"distance": self._distance, "signed distance": self._signed, "logarithmic map": self._logarithmic,
                    "transport": self._transport, "texture": self._texture}.get(name)
            self._colorings = {**self._colorings, name: make() if make else self._distortion(name)}
        return self._colorings[name]

    @property
    def _heat(self):
        if self._geodesics is None:
            self._geodesics = Geodesics(self._mesh, device="cpu", threads=self.threads)
        return self._geodesics

    def _distance(self):
        d = self._heat.distance(self.sources)
        reached = np.isfinite(d)
        farthest, missing = float(d[reached].max()), int(np.count_nonzero(~reached))
        caption = f"distance from {counted(len(self.sources), 'source')}, at most {farthest:.5g}"
        caption += f"; {counted(missing, 'vertex')} out of reach" * (missing > 0)
        return Coloring("distance", np.where(reached, d, farthest), caption=caption, limits=(0, farthest or 1.0), lines=LINES)

    def _signed(self):
        if len(self.sources) < 2:
            raise InvalidInputError("the view \"signed distance\" needs a curve: pick at least two sources")
        path = edge_path(self._mesh, self.sources)
        d = self._heat.signed_distance(path)
        d = np.where(np.isfinite(d), d, 0.0)
        most = float(np.abs(d).max()) or 1.0
        caption = (f"distance from a path of {counted(len(path) - 1, 'edge')} through {counted(len(self.sources), 'source')}, from "
                   f"{d.min():.4g} (right of it, blue) to {d.max():.4g} (left of it, red)")
        return Coloring("signed distance", d, caption=caption, colormap="coolwarm", limits=(-most, most), lines=LINES)

    def _logarithmic(self):
        source = int(self.sources[-1])
        uv = np.nan_to_num(self._heat.log_map(source))
        farthest = float(np.hypot(*uv.T).max()) or 1.0
        caption = f"logarithmic map of vertex {source}: circles of equal distance, colors by direction; at most {farthest:.4g} away"
        return Coloring("logarithmic map", uv / farthest, caption=caption, pattern="local_rad")

    def _transport(self):
        source, n = int(self.sources[-1]), len(self._mesh.vertices)
        found = np.nan_to_num(self._heat.transport(source, self._heat.frames[source, 0]))
        found[np.arange(n) % -(-n // ARROWS) > 0] = 0.0
        found[source] = self._heat.frames[source, 0]
        return Coloring("transport", np.full((n, 3), 0.8), vectors=found, caption=f"a tangent vector of vertex {source}, carried along "
                        f"shortest paths; {counted(int(np.count_nonzero(found.any(axis=1))), 'arrow')}")

    def _mapped(self):
        """The surface as it was cut, and its texture coordinates, computed once for each method."""
        if self._map is None:
            uv, report = parameterize(self._mesh, self.method, cut=True, device="cpu", threads=self.threads)
            uv = np.nan_to_num(uv)                          # NaN at vertices without faces
            found = distortion(report.mesh, uv)
            caption = f"{self.method} map, {counted(len(report.flipped), 'flipped face')}"
            caption += "".join(f", {kind} distortion {found[f'{kind}_distortion']:.4g}" for kind in ("angle", "area") if found)
            self._map = report.mesh, uv, caption
        return self._map

    def _texture(self):
        mesh, uv, caption = self._mapped()
        uv = (uv - uv.min(axis=0)) / (float(np.ptp(uv, axis=0).max()) or 1.0)
        return Coloring("texture", uv[mesh.faces].reshape(-1, 2), on="corners", caption=caption)

    def _distortion(self, name):
        mesh, uv, caption = self._mapped()
        ratio = face_distortions(mesh, uv)[name.replace(" ", "_")]
        known = np.isfinite(ratio)
        most = float(np.quantile(ratio[known], 0.99)) if known.any() else 1.0
        return Coloring(name, np.where(known, ratio, most), "faces", f"{caption}; {name} of each face, from 1 to {most:.4g}", "inferno",
                        (1.0, max(most, 1.0 + 1e-9)))


def edge_path(mesh, through):
    """Vertices (p,) of a path of edges through given vertices, which is shortest between each and the next."""
    n, (low, high) = len(mesh.vertices), mesh.edges.T
    lengths = np.maximum(mesh.edge_lengths, 1e-300)         # an entry of 0 would be no edge
    graph = sp.coo_array((np.r_[lengths, lengths], (np.r_[low, high], np.r_[high, low])), shape=(n, n)).tocsr()
    path = [int(through[0])]
    for begin, end in zip(through[:-1], through[1:], strict=True):
        before = dijkstra(graph, indices=int(end), return_predecessors=True)[1]
        if before[begin] < 0:
            raise InvalidInputError(f"no path of edges leads from vertex {begin} to vertex {end}: pick sources on one component")
        while path[-1] != end:
            path.append(int(before[path[-1]]))
    return np.array(path)
