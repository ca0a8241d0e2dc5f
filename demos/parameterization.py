"""Flatten a surface, and show the map by a checkerboard.

    python parameterization.py [mesh.ply] [--method arap] [-o flat.png]

ms.apps.parameterize has five maps: harmonic (Floater 1997), lscm (Levy et al. 2002), conformal (Mullen et al. 2008), arap (Liu et
al. 2008), slim (Rabinovich et al. 2017). Closed surfaces are cut first.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def cap(level=4):
    """A wavy cap: the part of a sphere above a plane."""
    x, faces = ms.datasets.icosphere(level).vertices, ms.datasets.icosphere(level).faces
    used, numbers = np.unique(faces[(x[faces, 1] > -0.2).all(axis=1)], return_inverse=True)
    return ms.Mesh(x[used] * (1 + 0.15 * np.sin(4 * x[used, :1]) * np.cos(3 * x[used, 2:])), numbers.reshape(-1, 3))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file of one component; default: a wavy cap")
    parser.add_argument("--method", default="arap", help="harmonic, lscm, conformal, arap or slim; default: arap")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else cap()
    uv, report = ms.apps.parameterize(mesh, given.method, cut=len(mesh.boundary_edges) == 0)
    print(f"{len(mesh.vertices)} vertices, {len(mesh.boundary_vertices)} on the boundary, {report.facts['flipped']} flipped faces")
    if given.output:
        ms.apps.render(given.output, report.mesh, uv=uv, captions=["checkerboard on the surface", f"its {given.method} map"])
    return uv


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
