"""Smooth a scan strongly and preserve landmarks: a KKT system with multipliers.

    python landmarks.py [scan.ply] [--landmarks 100] [-o landmarks.png]

Strong smoothing loses the shape. Here x minimizes |x - x0|^2 in the mass norm plus a thin-plate energy, subject to J x = J x0. Each
row of J averages a vertex and its neighbors. The multipliers make the matrix indefinite, with n positive and k negative
eigenvalues.
The inertia of the complete L D L^T factor confirms this.
"""

import argparse
import sys
import warnings

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def averages(mesh, landmarks):
    """Matrix (k, n) whose rows average a landmark and its neighbors."""
    around = abs(ms.graph_laplacian(mesh)[landmarks])
    around.data[:] = 1
    return sp.diags_array(1 / around.sum(axis=1)) @ around


def smooth(mesh, landmarks, strength=1e5):
    """Return the smoothed mesh and the factor."""
    L, M, J = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh), averages(mesh, landmarks)
    s = strength * (M.sum() / len(mesh.vertices)) ** 2
    A = M + s * L @ sp.diags_array(1 / M.diagonal()) @ L
    K = ms.ildl(sp.block_array([[A, J.T], [J, None]]), fill_level=None)
    x = K.solve(np.concatenate([M @ mesh.vertices, J @ mesh.vertices]))
    return ms.Mesh(x[:len(mesh.vertices)], mesh.faces), K


def without_unreferenced(path):
    """Read a mesh without its unreferenced vertices, whose mass would be 0."""
    mesh = ms.load_mesh(path)
    used, numbers = np.unique(mesh.faces, return_inverse=True)
    if len(used) < len(mesh.vertices):
        print(f"left out {len(mesh.vertices) - len(used)} of {len(mesh.vertices)} vertices without faces")
    return ms.Mesh(mesh.vertices[used], numbers.reshape(-1, 3))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a scan-like surface")
    parser.add_argument("--landmarks", type=int, default=100, help="default: 100")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = without_unreferenced(given.mesh) if given.mesh else ms.datasets.scan_like(10_000)
    landmarks = np.random.default_rng(0).choice(len(mesh.vertices), given.landmarks, replace=False)
    kept, K = smooth(mesh, landmarks)
    print(f"eigenvalues: {K.inertia[0]} positive, {K.inertia[1]} negative, {K.inertia[2]} zero")
    if given.output:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ms.MeshsolveWarning)            # expected: the surface may collapse
            free, _ = ms.apps.smooth(mesh, 1e5, order=2)
        ms.apps.render(given.output, free, kept, captions=["smoothed", "smoothed, landmarks kept"])
    return kept


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
