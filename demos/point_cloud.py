"""Distances on points without faces, as a scanner measures them: the surface around each point comes from its neighbors.

    python point_cloud.py [scan.ply] [--source 0] [-o distance.png]

ms.PointCloud triangulates the neighbors of each point in its tangent plane; Geodesics, eigsh and the operators take it like a mesh.
Source: Sharp, Crane 2020.
"""

import argparse
import sys

import meshsolve as ms


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("points", nargs="?", help="OBJ, PLY or OFF file, faces are ignored; default: a smooth closed surface")
    parser.add_argument("--source", type=int, default=0, help="index of a point; default: 0")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    cloud = ms.PointCloud.load(given.points) if given.points else ms.PointCloud(ms.datasets.scan_like(10_000, hole=False).vertices)
    distance = ms.apps.Geodesics(cloud).distance(given.source)
    print(f"{len(cloud):,} points, area {ms.mass_matrix(cloud).sum():.6g}, farthest point at {distance.max():.6g}")
    if given.output:
        ms.apps.render(given.output, cloud, values=distance, lines=16)
    return distance


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
