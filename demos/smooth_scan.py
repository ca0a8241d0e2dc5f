"""Smooth a noisy scan: one implicit step, then stronger ones that reuse the analysis.

    python smooth_scan.py [scan.ply] [-o smooth.png]

One backward Euler step of the heat equation on the surface is (M + t L) x' = M x, with the lumped masses M and the cotangent
Laplacian L (Desbrun, Meyer, Schroeder, Barr 1999, section 2). A stronger step changes the values of the matrix but not its
pattern, so refactor() runs only the numeric phase. ms.apps.smooth and ms.apps.mcf do the same and are robust to bad triangles.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def smooth(mesh, strengths=(1, 8)):
    """Return one smoothed mesh per strength; strength 1 removes noise between neighboring vertices."""
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    ends = mesh.vertices[mesh.edges]
    squared_edge = np.linalg.norm(ends[:, 0] - ends[:, 1], axis=1).mean() ** 2
    F, smoothed = None, []
    for strength in strengths:
        A = M + strength * squared_edge * L
        F = ms.cholesky(A, mesh=mesh) if F is None else F.refactor(A)
        smoothed.append(ms.Mesh(F.solve(M @ mesh.vertices), mesh.faces))
    return smoothed


def without_unreferenced(path):
    """Read a mesh without its unreferenced vertices, whose mass would be 0."""
    mesh = ms.load_mesh(path)
    used, numbers = np.unique(mesh.faces, return_inverse=True)
    if len(used) < len(mesh.vertices):
        print(f"left out {len(mesh.vertices) - len(used)} of {len(mesh.vertices)} vertices without faces")
    return ms.Mesh(mesh.vertices[used], numbers.reshape(-1, 3))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a scan-like surface of 20,000 vertices")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = without_unreferenced(given.mesh) if given.mesh else ms.datasets.scan_like(20_000, noise=0.4)
    smoothed = smooth(mesh)
    for result in smoothed:
        print(f"area {ms.mass_matrix(mesh).sum():.4f} -> {ms.mass_matrix(result).sum():.4f}")
    if given.output:
        ms.apps.render(given.output, mesh, smoothed[0], captions=["as scanned", "strength 1"])
    return smoothed


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
