"""Regression with a Gaussian field on a surface: posterior mean and standard deviation from measurements at some vertices.

    python gaussian_field.py [mesh.ply] [--points 60] [-o deviation.png]

The field solves (kappa^2 - Laplacian) x = white noise. It has Matern covariance (nu = 1) and a sparse precision matrix
(Lindgren, Rue, Lindstroem 2011, section 2.3). A triangular solve draws a sample, an update of the factor conditions on the
measurements, a solve gives the mean, and selected inversion the variance at every vertex.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def precision(mesh, correlation):
    """Precision matrix of a field of variance 1, with a correlation of 0.14 at the distance ``correlation``."""
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    kappa = np.sqrt(8) / correlation
    K = kappa**2 * M + L
    return sp.csr_array(K @ sp.diags_array(1 / M.diagonal()) @ K / (4 * np.pi * kappa**2))


def sample(F, rng):
    """Draw a sample of the field from the factor F of its precision matrix."""
    x = np.empty(F.shape[0])
    x[F.perm] = F.solve(rng.standard_normal(len(x)), system="Lt")
    return x


def condition(F, at, values, noise):
    """Mean and standard deviation at every vertex, given ``values`` measured at the vertices ``at``. Updates F."""
    weighted = sp.csc_array((np.full(len(at), 1 / noise), (at, np.arange(len(at)))), shape=(F.shape[0], len(at)))
    F.update(weighted)
    return F.solve(weighted @ (values / noise)), np.sqrt(F.inverse_diagonal())


def without_unreferenced(path):
    """Read a mesh without its unreferenced vertices, whose mass would be 0."""
    mesh = ms.load_mesh(path)
    used, numbers = np.unique(mesh.faces, return_inverse=True)
    if len(used) < len(mesh.vertices):
        print(f"left out {len(mesh.vertices) - len(used)} of {len(mesh.vertices)} vertices without faces")
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
    mean, deviation = condition(F, at, truth[at] + noise * rng.standard_normal(len(at)), noise)
    print(f"standard deviation: at most {deviation[at].max():.3f} at the measurements, median {np.median(deviation):.2f}")
    print(f"{np.mean(abs(truth - mean) < 2 * deviation):.1%} of all vertices within two standard deviations (expected: 95.4 %)")
    if given.output:
        ms.apps.render(given.output, mesh, values=deviation, colormap="magma")
    return truth, mean, deviation


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
