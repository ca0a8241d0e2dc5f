"""Remove noise from a surface and keep its creases.

    python denoising.py [mesh.ply] [-o clean.png]

ms.apps.denoise averages face normals with neighbors whose normals are similar (Zheng et al. 2011). ms.apps.smooth rounds creases off.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def noisy_cube(k=20, noise=0.2):
    """A cube with noise, in units of the mean edge length."""
    cube = ms.datasets.cube(k)
    return cube.with_vertices(cube.vertices + noise * 2 / k * np.random.default_rng(0).standard_normal(cube.vertices.shape))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file, faces oriented alike; default: a cube with noise")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else noisy_cube()
    clean, report = ms.apps.denoise(mesh, sigma=0.5)
    facts = report.facts
    print(f"volume {facts['volume_before']:.4g} -> {facts['volume_after']:.4g}, largest move {facts['largest_move']:.3g}")
    if given.output:
        ms.apps.render(given.output, mesh, clean, captions=["with noise", "denoised"])
    return clean


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
