"""Weights that blend the motions of a few handles over a surface, and a surface that was moved by them.

    python skinning.py [mesh.ply] [-o skin.png]

ms.apps.skinning_weights computes bounded biharmonic weights (Jacobson et al. 2011): smooth, between 0 and 1, their sum is 1.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file of one component; default: a smooth closed surface")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.datasets.scan_like(4000, noise=0.0, hole=False)
    x = mesh.vertices
    handles = np.unique([x[:, 0].argmin(), x[:, 0].argmax(), x[:, 1].argmax()])
    W = ms.apps.skinning_weights(mesh, handles)
    offsets = np.where(x[handles, 1] == x[:, 1].max(), 0.3 * np.ptp(x[:, 1]), 0)[:, None] * [0, 1, 0]         # lift the highest vertex
    moved = mesh.with_vertices(x + W @ offsets)
    print(f"{len(handles)} handles, weights from {W.min():.3g} to {W.max():.3g}")
    if given.output:
        shown = W[:, offsets[:, 1] > 0][:, 0]
        ms.apps.render(given.output, mesh, moved, values=[shown, shown], lines=10, captions=["weight of the highest vertex", "lifted"])
    return W, moved


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
