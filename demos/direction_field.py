"""The smoothest field of crosses on a surface, as for quad meshing or hatching, and the faces where it is singular.

    python direction_field.py [mesh.ply] [--align 10] [-o field.png]

Source: Knoeppel, Crane, Pinkall, Schroeder 2013.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a smooth closed surface")
    parser.add_argument("--align", type=float, help="strength with which the crosses follow the principal curvatures; default: not at all")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.datasets.scan_like(2_000, noise=0.0, hole=False)
    guide = {"align": "curvature", "strength": given.align} if given.align else {}
    field = ms.apps.direction_field(mesh, power=4, **guide)
    print(f"{np.count_nonzero(field.index):,} singular faces; the indices sum to {field.index.sum() / 4:g}")
    if given.output:
        singular = np.unique(mesh.faces[field.index != 0])
        distance = ms.apps.Geodesics(mesh).distance(singular) if len(singular) else np.zeros(len(mesh.vertices))
        drawn, values = with_strokes(mesh, distance, field.vectors, np.cross(mesh.vertex_normals, field.vectors))
        ms.apps.render(given.output, drawn, values=values, captions=["distance to the nearest singular face"])
    return field


def with_strokes(mesh, values, *fields, width=0.1):
    """The mesh with a thin rectangle along each vector of each field, and its values with NaN at the rectangles."""
    h, up = mesh.edge_lengths.mean(), mesh.vertex_normals
    x, faces = [mesh.vertices], [mesh.faces]
    for along in fields:
        across = width * np.cross(up, along)
        corners = mesh.vertices + 0.1 * h * up + 0.45 * h * np.stack([along + across, -along + across, -along - across, along - across])
        first = sum(map(len, x)) + np.arange(len(up))
        a, b, c, d = (first + k * len(up) for k in range(4))
        x.append(corners.reshape(-1, 3))
        faces += [np.stack([a, b, c], axis=1), np.stack([a, c, d], axis=1)]
    x = np.concatenate(x)
    return ms.Mesh(x, np.concatenate(faces)), np.append(values, np.full(len(x) - len(up), np.nan))


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
