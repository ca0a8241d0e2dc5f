"""Geodesic distances by the heat method: two factorizations, then two solves for any source.

    python demos/geodesics.py [mesh.ply] [--source 0] [-o distance.png]

Heat flows for a short time; its gradient points away from the source; the potential whose gradient is closest to those
directions, in the least-squares sense, is the distance (Crane, Weischedel, Wardetzky 2013, algorithm 1).
"""

import numpy as np
import scipy.sparse as sp
from command_line import options, read, run
from picture import colored

import meshsolve as ms


class HeatMethod:
    """Both factors of a mesh; ``distance(source)`` is (n,) distances to a vertex or to the nearest of several, infinite on other
    pieces of the mesh."""

    def __init__(self, mesh):
        self.mesh = mesh
        L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
        ends = mesh.vertices[mesh.edges]
        t = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean() ** 2
        unreferenced = sp.diags_array((M.diagonal() == 0).astype(float))       # any entry makes their rows regular
        self.heat = ms.cholesky(M + t * L + unreferenced, mesh=mesh)
        self.poisson = ms.cholesky(L, pin=True)
        self.gradient, self.divergence = ms.operators.gradient(mesh), ms.operators.divergence(mesh)

    def distance(self, source):
        start = np.zeros(len(self.mesh.vertices))
        start[source] = 1
        slope = (self.gradient @ self.heat.solve(start)).reshape(3, -1)         # x, y and z of each face
        slope /= np.abs(slope).max(axis=0).clip(1e-300)                         # heat far away is tiny; only directions matter
        direction = -slope / np.linalg.norm(slope, axis=0).clip(1e-300)
        phi = self.poisson.solve(-self.divergence @ direction.ravel())
        return self._from_sources(phi, np.atleast_1d(source))

    def _from_sources(self, phi, source):
        """The potential of each piece is known but for a constant: its least source is at 0."""
        least = np.full(self.mesh.components.max() + 1, -np.inf)            # so that a piece without a source is infinitely far
        for of in np.unique(self.mesh.components[source]):
            least[of] = phi[source[self.mesh.components[source] == of]].min()
        return phi - least[self.mesh.components]


def main(arguments=None):
    given = options(__doc__, arguments, "mesh", "mesh file; default: a smooth closed surface", source=0)
    mesh = read(ms.load_mesh, given.mesh) if given.mesh else ms.datasets.scan_like(10_000, noise=0.0, hole=False)
    distance = HeatMethod(mesh).distance(given.source)
    reached = np.isfinite(distance)
    farthest = np.where(reached, distance, 0).argmax()
    elsewhere = "" if reached.all() else f"; {np.count_nonzero(~reached)} on other pieces"
    print(f"farthest vertex {farthest} at {distance[farthest]:.4f}{elsewhere}")
    if given.output:
        colored(given.output, mesh, distance, isolines=16)
    return distance


if __name__ == "__main__":
    run(main)
