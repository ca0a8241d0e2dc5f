"""Geodesic distances by the heat method: two factorizations, then two solves for any source.

    python geodesics.py [mesh.ply] [--source 0] [-o distance.png]

Sources: Crane, Weischedel, Wardetzky 2013; Sharp, Crane 2020.
"""

import argparse
import sys

import meshsolve as ms


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a smooth closed surface")
    parser.add_argument("--source", type=int, default=0, help="index of a vertex; default: 0")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.datasets.scan_like(10_000, noise=0.0, hole=False)
    distance = ms.apps.Geodesics(mesh).distance(given.source)
    if given.output:
        ms.apps.render(given.output, mesh, values=distance, lines=16)
    return distance


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
