"""Geodesic distances by the heat method: two factorizations, then two solves for any source.

    python geodesics.py [mesh.ply] [--source 0] [-o distance.png]

Heat flows for a short time t, and minus its normalized gradient points away from the source. The distance is the potential whose
gradient is closest to these directions in the least-squares sense (Crane, Weischedel, Wardetzky 2013, algorithm 1). The
Laplacian of an intrinsic Delaunay triangulation (Sharp and Crane 2020) has no negative weights, so heat is positive on slivers too.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra
from scipy.spatial import cKDTree

import meshsolve as ms

LEAST_HEAT = 1e-290         # smallest usable heat; near the smallest double (1e-308) directions are rounding errors
LEVELS = 12                 # number of values of t, each 4 times the previous one; enough for a million edges across


class HeatMethod:
    """Distances on a mesh of any size, unit and quality. Factors are kept for further sources.

    t is the squared mean edge length of each component. Heat decays by a factor of about e per edge, so it underflows 700 edges
    from its source. In that case the solve is repeated with 4 t, 16 t, ... ``level`` is the last exponent of 4.
    """

    def __init__(self, mesh):
        self.mesh, self.level = mesh, 0
        triangles = ms.operators.intrinsic_delaunay(mesh)
        self.laplacian = triangles.laplacian()
        self.gradient, self.divergence = triangles.gradient(), triangles.divergence()
        self.poisson = ms.cholesky(self.laplacian, pin=True)
        ends = mesh.vertices[mesh.edges]
        length, component = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1), mesh.components[mesh.edges[:, 0]]
        mean = np.bincount(component, length) / np.bincount(component).clip(1)
        mean = np.append(mean, np.ones(mesh.components.max() + 1 - len(mean)))[mesh.components]
        self.mass = triangles.mass().diagonal() / np.where(mean > 0, mean, 1) ** 2      # M / t
        self.edges = sp.coo_array((length, mesh.edges.T), shape=self.laplacian.shape).tocsr()
        self.factors = []

    def distance(self, source):
        """Distances (n,) to a vertex, or to the nearest of several; infinite on components without a source."""
        source = np.unique(np.arange(len(self.mesh.vertices))[source])
        reached = np.isin(self.mesh.components, self.mesh.components[source])
        slope = (self.gradient @ self._heat(source, reached)).reshape(2, -1)    # in the plane of each triangle
        slope /= np.abs(slope).max(axis=0).clip(1e-300)                         # avoids underflow in the norm below
        direction = -slope / np.linalg.norm(slope, axis=0).clip(1e-300)
        phi = self.poisson.solve(-self.divergence @ direction.ravel())
        return self._between_bounds(phi - self._at_sources(phi, source), source, reached)

    def _heat(self, source, reached):
        """Heat at the vertices, with t large enough that it is positive on all components with a source."""
        start = np.zeros(len(self.mass))
        start[source] = 1
        for self.level in range(LEVELS):
            if self.level == len(self.factors):
                A = sp.csr_array(self.laplacian + sp.diags_array(self.mass / 4**self.level))
                self.factors.append(ms.cholesky(A + sp.diags_array((A.diagonal() == 0).astype(float))))     # unreferenced vertices
            heat = self.factors[self.level].solve(start)
            if heat[reached].min() > LEAST_HEAT:
                return heat
        raise ms.MeshsolveError(f"heat does not reach every vertex within t = {4**self.level} squared mean edge lengths")

    def _at_sources(self, phi, source):
        """Mean of the potential over the sources of each component, which is subtracted: the constant is undetermined."""
        component, count = self.mesh.components[source], self.mesh.components.max() + 1
        mean = np.bincount(component, phi[source], count) / np.bincount(component, minlength=count).clip(1)
        return mean[self.mesh.components]

    def _between_bounds(self, phi, source, reached):
        """Clip distances between the straight-line distance and the distance along edges; both are 0 at a source."""
        straight = cKDTree(self.mesh.vertices[source]).query(self.mesh.vertices)[0]
        along_edges = dijkstra(self.edges, directed=False, indices=source, min_only=True)
        return np.where(reached, np.clip(phi, straight, along_edges), np.inf)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a smooth closed surface")
    parser.add_argument("--source", type=int, default=0, help="index of a vertex; default: 0")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.datasets.scan_like(10_000, noise=0.0, hole=False)
    heat = HeatMethod(mesh)
    distance = heat.distance(given.source)
    if heat.level:
        print(f"t is {4**heat.level} squared mean edge lengths: for smaller t heat would underflow")
    reached = np.isfinite(distance)
    farthest = np.where(reached, distance, 0).argmax()
    elsewhere = "" if reached.all() else f"; {np.count_nonzero(~reached)} vertices in other components"
    print(f"farthest vertex {farthest} at {distance[farthest]:.4f}{elsewhere}")
    if given.output:
        ms.apps.render(given.output, mesh, values=distance, lines=16)
    return distance


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
