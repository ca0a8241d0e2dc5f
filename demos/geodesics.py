"""Geodesic distances by the heat method: two factorizations, then two solves for any source.

    python geodesics.py [mesh.ply] [--source 0] [-o distance.png]

Heat flows for a short time t; its gradient points away from the source; the potential whose gradient is closest to those
directions, in the least-squares sense, is the distance (Crane, Weischedel, Wardetzky 2013, algorithm 1). The triangles are
intrinsic Delaunay ones (Sharp and Crane 2020): without negative weights heat is positive everywhere, on slivers as well.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

import meshsolve as ms

LEAST_HEAT = 1e-290         # less is near the smallest double, about 1e-308: directions would be rounding, then 0 / 0
LEVELS = 12                 # of t, each 4 times the one before: for meshes up to a million edges across


class HeatMethod:
    """Distances on a mesh with n vertices, of any size, unit and quality; factors are kept for further sources.

    t is the squared mean edge length of each piece. Heat decays by a factor of about e for each edge, so 700 edges from its source
    it underflows; a source for which it does is solved again with 4 t, 16 t, ... ``level`` is the power of 4 that was needed last.
    """

    def __init__(self, mesh):
        self.mesh, self.level = mesh, 0
        triangles = ms.operators.intrinsic_delaunay(mesh)
        self.laplacian = triangles.laplacian()
        self.gradient, self.divergence = triangles.gradient(), triangles.divergence()
        self.poisson = ms.cholesky(self.laplacian, pin=True)
        ends = mesh.vertices[mesh.edges]
        length, piece = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), mesh.components[mesh.edges[:, 0]]
        mean = np.bincount(piece, length) / np.bincount(piece).clip(1)
        mean = np.append(mean, np.ones(mesh.components.max() + 1 - len(mean)))[mesh.components]
        self.mass = triangles.mass().diagonal() / np.where(mean > 0, mean, 1) ** 2      # M / t
        self.edges = sp.coo_array((length, mesh.edges.T), shape=self.laplacian.shape).tocsr()
        self.factors = []

    def distance(self, source):
        """(n,) distances to a vertex or to the nearest of several; infinite on pieces of the mesh without a source."""
        source = np.unique(np.arange(len(self.mesh.vertices))[source])
        reached = np.isin(self.mesh.components, self.mesh.components[source])
        slope = (self.gradient @ self._heat(source, reached)).reshape(2, -1)    # on each triangle, in its own plane
        slope /= np.abs(slope).max(axis=0).clip(1e-300)                         # tiny far away; only directions matter
        direction = -slope / np.linalg.norm(slope, axis=0).clip(1e-300)
        phi = self.poisson.solve(-self.divergence @ direction.ravel())
        return self._between_bounds(phi - self._at_sources(phi, source), source, reached)

    def _heat(self, source, reached):
        """Heat at the vertices after a time at which it is positive wherever it can flow."""
        start = np.zeros(len(self.mass))
        start[source] = 1
        for self.level in range(LEVELS):
            if self.level == len(self.factors):
                A = sp.csr_array(self.laplacian + sp.diags_array(self.mass / 4**self.level))
                self.factors.append(ms.cholesky(A + sp.diags_array((A.diagonal() == 0).astype(float))))     # vertices in no face
            heat = self.factors[self.level].solve(start)
            if heat[reached].min() > LEAST_HEAT:
                return heat
        raise ms.MeshsolveError(f"heat does not reach every vertex in {4**self.level} squared mean edge lengths of time")

    def _at_sources(self, phi, source):
        """The potential is known but for a constant on each piece: its mean over the sources there becomes 0."""
        piece, pieces = self.mesh.components[source], self.mesh.components.max() + 1
        mean = np.bincount(piece, phi[source], pieces) / np.bincount(piece, minlength=pieces).clip(1)
        return mean[self.mesh.components]

    def _between_bounds(self, phi, source, reached):
        """A distance is at least that in a straight line, and at most that along edges; both are 0 at a source."""
        straight = cKDTree(self.mesh.vertices[source]).query(self.mesh.vertices)[0]
        along_edges = dijkstra(self.edges, directed=False, indices=source, min_only=True)
        return np.where(reached, np.clip(phi, straight, along_edges), np.inf)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a smooth closed surface")
    parser.add_argument("--source", type=int, default=0, help="number of a vertex; default: 0")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.datasets.scan_like(10_000, noise=0.0, hole=False)
    heat = HeatMethod(mesh)
    distance = heat.distance(given.source)
    if heat.level:
        print(f"t is {4**heat.level} squared mean edge lengths: with less, heat would underflow at the far end")
    reached = np.isfinite(distance)
    farthest = np.where(reached, distance, 0).argmax()
    elsewhere = "" if reached.all() else f"; {np.count_nonzero(~reached)} on other pieces"
    print(f"farthest vertex {farthest} at {distance[farthest]:.4f}{elsewhere}")
    if given.output:
        ms.apps.render(given.output, mesh, values=distance, lines=16)
    return distance


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
