"""Drag a part of a surface while another part stays.

    python deformation.py [mesh.ply] [--method arap] [-o dragged.png]

ms.apps.Deformation keeps its factor, so each position of the handles takes milliseconds. arap: details turn with the surface (Sorkine,
Alexa 2007; Chao et al. 2010). bilaplacian: linear and smooth, details do not turn (Botsch, Kobbelt 2004).
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file of one component; default: a scan-like surface")
    parser.add_argument("--method", default="arap", help="arap or bilaplacian; default: arap")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.datasets.scan_like(5000)
    height = mesh.vertices[:, 1]
    low, high = np.quantile(height, [0.08, 0.92])
    handles = np.flatnonzero((height < low) | (height > high))
    deformation = ms.apps.Deformation(mesh, handles, given.method)
    size = np.ptp(mesh.vertices, axis=0).max()
    for share in (0.1, 0.2, 0.3):                       # positions of a mouse drag; only the last one is drawn
        moved = deformation.move(mesh.vertices[handles] + np.outer(height[handles] > high, [share * size, 0.1 * size, 0]))
    if given.output:
        ms.apps.render(given.output, mesh, moved, captions=["before", "the top dragged to the right"])
    return moved


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
