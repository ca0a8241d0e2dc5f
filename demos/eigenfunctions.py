"""The smallest eigenvalues of a surface and an eigenfunction: its tones, if it were a membrane.

    python eigenfunctions.py [mesh.ply] [-k 20] [-o eigenfunction.png]

ms.eigsh solves L x = w M x by shift-invert block Lanczos on the factor of L - s M. The number of eigenvalues is proved by inertia.
"""

import argparse
import sys

import meshsolve as ms


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a smooth closed surface")
    parser.add_argument("-k", type=int, default=20, help="number of eigenvalues; default: 20")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.datasets.scan_like(10_000, noise=0.0, hole=False)
    w, X, info = ms.eigsh(ms.cotan_laplacian(mesh), given.k, M=ms.mass_matrix(mesh))
    print(f"eigenvalues 0 to {w[-1]:.6g}, {info.count} counted, largest residual {info.residuals.max():.1e}")
    if given.output:
        ms.apps.render(given.output, mesh, values=X[:, -1], colormap="coolwarm", lines=11)
    return w, X


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
