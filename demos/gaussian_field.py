"""A Gaussian field on a surface, known at some points: the most likely values everywhere, and how far they may be off.

    python gaussian_field.py [mesh.ply] [--points 60] [-o deviation.png]

The field has Matern covariance (nu = 1), as solutions of (kappa^2 - Laplacian) x = white noise have; their precision matrix is sparse
(Lindgren, Rue, Lindstroem 2011, section 2.3). Half a solve draws the field, an update of the factor takes in what is measured, a solve
gives the mean, and selected inversion the variance at every vertex.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def precision(mesh, correlation):
    """The precision matrix of a field of variance 1, whose values at the distance ``correlation`` have a correlation of 0.14."""
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    kappa = np.sqrt(8) / correlation
    K = kappa**2 * M + L
    return sp.csr_array(K @ sp.diags_array(1 / M.diagonal()) @ K / (4 * np.pi * kappa**2))


def sample(F, rng):
    """A field whose precision matrix F has factored."""
    x = np.empty(F.shape[0])
    x[F.perm] = F.solve(rng.standard_normal(len(x)), system="Lt")
    return x


def take_in(F, at, values, noise):
    """Mean and standard deviation at every vertex once ``values`` are measured at the vertices ``at``; F becomes the factor of that."""
    weighted = sp.csc_array((np.full(len(at), 1 / noise), (at, np.arange(len(at)))), shape=(F.shape[0], len(at)))
    F.update(weighted)
    return F.solve(weighted @ (values / noise)), np.sqrt(F.inverse_diagonal())


def without_unreferenced(path):
    """The mesh of a file without the vertices that are in no face: they have no area to divide by."""
    mesh = ms.load_mesh(path)
    used, numbers = np.unique(mesh.faces, return_inverse=True)
    if len(used) < len(mesh.vertices):
        print(f"left out: {len(mesh.vertices) - len(used)} of {len(mesh.vertices)} vertices, in no face")
    return ms.Mesh(mesh.vertices[used], numbers.reshape(-1, 3))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a smooth closed surface")
    parser.add_argument("--points", type=int, default=60, help="default: 60")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = without_unreferenced(given.mesh) if given.mesh else ms.datasets.scan_like(10_000, noise=0.0, hole=False)
    rng, n = np.random.default_rng(0), len(mesh.vertices)
    F = ms.cholesky(precision(mesh, correlation=np.ptp(mesh.vertices, axis=0).max() / 3))
    truth, noise = sample(F, rng), 0.05
    at = rng.choice(n, min(given.points, n), replace=False)
    mean, deviation = take_in(F, at, truth[at] + noise * rng.standard_normal(len(at)), noise)
    print(f"standard deviation: {deviation[at].max():.3f} at most where it was measured, {np.median(deviation):.2f} in the median")
    print(f"{np.mean(abs(truth - mean) < 2 * deviation):.1%} of all vertices within two of them (95.4 % are expected)")
    if given.output:
        ms.apps.render(given.output, mesh, values=deviation, colormap="magma")
    return truth, mean, deviation


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
