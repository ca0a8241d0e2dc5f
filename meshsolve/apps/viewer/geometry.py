"""Distances from sources and maps to the plane of the surface that is shown, computed on first use and kept while it stays."""

from __future__ import annotations

import numpy as np

from meshsolve.apps.geodesics import Geodesics
from meshsolve.apps.maps import METHODS, parameterize
from meshsolve.apps.maps.distortion import distortion
from meshsolve.apps.viewer.coloring import Coloring
from meshsolve.options import counted, one_of
from meshsolve.sparse.columns import as_indices

VIEWS = ("distance", "texture")
LINES = 16                          # lines of equal distance


class Geometry:
    """Settings and results of the views ``"distance"`` and ``"texture"``.

    Parameters
    ----------
    threads : int, optional

    Attributes
    ----------
    sources : (s,) int32
        Vertices from which distances are measured.
    method : str
        Method of the map, one of those of :func:`meshsolve.apps.parameterize`.
    """

    def __init__(self, threads=None):
        self.threads, self.sources, self.method = threads, np.zeros(1, np.int32), "arap"
        self._mesh = self._geodesics = self._coloring = self._map = None

    def use(self, mesh, sources=None, method=None):
        """Choose the sources or the method of the map."""
        if sources is not None:
            self.sources, self._coloring = as_indices(sources, len(mesh.vertices), "sources"), None
        if method is not None and one_of(method, "method", METHODS) != self.method:
            self.method, self._map = method, None

    def view(self, name, mesh):
        """Return the :class:`Coloring` of one of ``VIEWS`` on a mesh."""
        if mesh is not self._mesh:
            self._geodesics = self._coloring = self._map = None
            self._mesh = mesh
        return self._distance() if name == "distance" else self._texture()

    def _distance(self):
        if self._coloring is None:
            if self._geodesics is None:
                self._geodesics = Geodesics(self._mesh, device="cpu", threads=self.threads)
            d = self._geodesics.distance(self.sources)
            reached = np.isfinite(d)
            farthest, missing = float(d[reached].max()), int(np.count_nonzero(~reached))
            caption = f"distance from {counted(len(self.sources), 'source')}, at most {farthest:.5g}"
            caption += f"; {counted(missing, 'vertex')} out of reach" * (missing > 0)
            self._coloring = Coloring("distance", np.where(reached, d, farthest), caption=caption, limits=(0, farthest or 1.0), lines=LINES)
        return self._coloring

    def _texture(self):
        if self._map is None:
            uv, report = parameterize(self._mesh, self.method, cut=True, device="cpu", threads=self.threads)
            uv = np.nan_to_num(uv)                          # NaN at vertices without faces
            found = distortion(report.mesh, uv)
            caption = f"{self.method} map, {counted(len(report.flipped), 'flipped face')}"
            caption += "".join(f", {kind} distortion {found[f'{kind}_distortion']:.4g}" for kind in ("angle", "area") if found)
            uv = (uv - uv.min(axis=0)) / (float(np.ptp(uv, axis=0).max()) or 1.0)
            self._map = Coloring("texture", uv[report.mesh.faces].reshape(-1, 2), on="corners", caption=caption)
        return self._map
