"""Smooth a noisy scan: one implicit step, then stronger ones that reuse the analysis.

    python demos/smooth_scan.py [scan.ply] [-o smooth.png]

One backward Euler step of the heat equation on the surface is (M + t L) x' = M x, with the lumped masses M and the cotan
Laplacian L (Desbrun, Meyer, Schroeder, Barr 1999, section 2). A stronger step changes the values of the matrix and not its
pattern: refactor() runs the numeric phase alone. ms.apps.smooth and ms.apps.mcf do this with more care for bad triangles.
"""

import numpy as np
from command_line import options, run, surface

import meshsolve as ms


def smooth(mesh, strengths=(1, 8)):
    """One smoothed mesh for each strength; 1 removes noise between neighbouring vertices."""
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    ends = mesh.vertices[mesh.edges]
    squared_edge = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean() ** 2
    F, smoothed = None, []
    for strength in strengths:
        A = M + strength * squared_edge * L
        F = ms.cholesky(A, mesh=mesh) if F is None else F.refactor(A)
        smoothed.append(ms.Mesh(F.solve(M @ mesh.vertices), mesh.faces))
    return smoothed


def main(arguments=None):
    given = options(__doc__, arguments, "mesh", "mesh file; default: a scan-like surface of 20,000 vertices")
    mesh = surface(given.mesh) if given.mesh else ms.datasets.scan_like(20_000, noise=0.4)
    smoothed = smooth(mesh)
    for result in smoothed:
        print(f"area {ms.mass_matrix(mesh).sum():.4f} -> {ms.mass_matrix(result).sum():.4f}")
    if given.output:
        ms.apps.render(given.output, mesh, smoothed[0], captions=["as scanned", "strength 1"])
    return smoothed


if __name__ == "__main__":
    run(main)
