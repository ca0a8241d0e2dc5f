"""Drag a part of a surface: one factorization, then one solve for each position of the handle.

    python laplacian_editing.py [mesh.ply] [-o edited.png]

Handle and anchor vertices are fixed. The displacement d of the others minimizes the bi-Laplacian energy, L M^-1 L d = 0, which
keeps the details of the surface (Sorkine et al. 2004; Botsch and Kobbelt 2004). Details do not rotate with the surface; with
``--arap`` they do (Sorkine and Alexa 2007).
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def ends(mesh, share=0.08):
    """Return the vertices near the top and near the bottom of the mesh."""
    height = mesh.vertices[:, 1]
    low, high = np.quantile(height, [share, 1 - share])
    return np.flatnonzero(height > high), np.flatnonzero(height < low)


def largest_component(path):
    """Read a mesh and return the component with the most faces."""
    mesh = ms.load_mesh(path)
    component = mesh.components[mesh.faces[:, 0]]
    used, numbers = np.unique(mesh.faces[component == np.bincount(component, minlength=1).argmax()], return_inverse=True)
    if len(used) < len(mesh.vertices):
        print(f"left out {len(mesh.vertices) - len(used)} of {len(mesh.vertices)} vertices outside the largest component")
    return ms.Mesh(mesh.vertices[used], numbers.reshape(-1, 3))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a scan-like surface")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    parser.add_argument("--arap", action="store_true", help="as rigid as possible")
    given = parser.parse_args(arguments)
    mesh = largest_component(given.mesh) if given.mesh else ms.datasets.scan_like(10_000)
    handle, anchor = ends(mesh)
    editor = ms.apps.Deformation(mesh, np.r_[handle, anchor], method="arap" if given.arap else "bilaplacian")
    size = np.ptp(mesh.vertices, axis=0).max()
    for share in (0.1, 0.2, 0.3):                       # positions of a mouse drag; only the last one is drawn
        edited = editor.move(np.vstack([mesh.vertices[handle] + [share * size, 0.1 * size, 0], mesh.vertices[anchor]]))
    if given.output:
        ms.apps.render(given.output, mesh, edited, captions=["before", "the top dragged to the right"])
    return edited


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
