"""Smooth a scan strongly and keep landmarks where they are: a KKT system with multipliers.

    python demos/landmarks.py [scan.ply] [--landmarks 100] [-o landmarks.png]

Strong smoothing loses the shape. Here x minimizes |x - x0|^2 in the norm of the masses plus a thin-plate energy, subject to
J x = J x0, where a row of J averages a vertex and its neighbours. The multipliers make the matrix indefinite: n positive and k
negative eigenvalues, which the complete L D L^T factor confirms.
"""

import numpy as np
import scipy.sparse as sp
from command_line import options, run, surface

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


def main(arguments=None):
    given = options(__doc__, arguments, "mesh", "mesh file; default: a scan-like surface", landmarks=100)
    mesh = surface(given.mesh) if given.mesh else ms.datasets.scan_like(10_000)
    landmarks = np.random.default_rng(0).choice(len(mesh.vertices), given.landmarks, replace=False)
    kept, K = smooth(mesh, landmarks)
    print(f"eigenvalues: {K.inertia[0]} positive, {K.inertia[1]} negative, {K.inertia[2]} zero")
    if given.output:
        free, _ = ms.apps.smooth(mesh, 1e5, order=2)
        ms.apps.render(given.output, free, kept, captions=["smoothed", "smoothed, landmarks kept"])
    return kept


if __name__ == "__main__":
    run(main)
