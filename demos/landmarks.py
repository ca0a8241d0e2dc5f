"""Smooth a scan strongly and keep landmarks where they are: a KKT system with multipliers.

    python landmarks.py [scan.ply] [--landmarks 100] [-o landmarks.png]

Strong smoothing loses the shape. Here x minimizes |x - x0|^2 in the norm of the masses plus a thin-plate energy, subject to
J x = J x0, where a row of J averages a vertex and its neighbours. The multipliers make the matrix indefinite: n positive and k
negative eigenvalues, which the complete L D L^T factor confirms.
"""

import argparse
import sys
import warnings

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def averages(mesh, landmarks):
    """(k, n) rows that average a landmark and its neighbours."""
    around = abs(ms.graph_laplacian(mesh)[landmarks])
    around.data[:] = 1
    return sp.diags_array(1 / around.sum(axis=1)) @ around


def smooth(mesh, landmarks, strength=1e5):
    """The smoothed mesh, and the factor."""
    L, M, J = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh), averages(mesh, landmarks)
    s = strength * (M.sum() / len(mesh.vertices)) ** 2
    A = M + s * L @ sp.diags_array(1 / M.diagonal()) @ L
    K = ms.ildl(sp.block_array([[A, J.T], [J, None]]), fill_level=None)
    x = K.solve(np.concatenate([M @ mesh.vertices, J @ mesh.vertices]))
    return ms.Mesh(x[:len(mesh.vertices)], mesh.faces), K


def without_unreferenced(path):
    """The mesh of a file without the vertices that are in no face: they have no area to divide by."""
    mesh = ms.load_mesh(path)
    used, numbers = np.unique(mesh.faces, return_inverse=True)
    if len(used) < len(mesh.vertices):
        print(f"left out: {len(mesh.vertices) - len(used)} of {len(mesh.vertices)} vertices, in no face")
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
            warnings.simplefilter("ignore", ms.MeshsolveWarning)            # so strong that the shape may be lost, as is to be seen
            free, _ = ms.apps.smooth(mesh, 1e5, order=2)
        ms.apps.render(given.output, free, kept, captions=["smoothed", "smoothed, landmarks kept"])
    return kept


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
