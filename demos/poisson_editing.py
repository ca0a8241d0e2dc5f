"""Bend a surface: rotate the gradients of its coordinates, and solve a Poisson equation for the new surface.

    python poisson_editing.py [mesh.ply] [--degrees 90] [-o bent.png]

The rotations of both ends spread over the surface as a harmonic field. The rotated gradients are not the gradient of a surface. The
surface with the closest gradients in the least-squares sense solves a Poisson equation (Yu et al. 2004, "Mesh editing with
Poisson-based gradient field manipulation"). ms.apps.Deformation keeps one factor for the field and every edit. Unlike in Laplacian
editing, details rotate with the surface.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def ends(mesh, share=0.1):
    """Return the vertices near the right and near the left end of the mesh."""
    along = mesh.vertices[:, 0]
    low, high = np.quantile(along, [share, 1 - share])
    return np.flatnonzero(along > high), np.flatnonzero(along < low)


def caterpillar(level=5):
    """A long surface with rings, which make rotations of details visible."""
    sphere = ms.datasets.icosphere(level)
    x = sphere.vertices
    ring = 1 + 0.12 * np.cos(20 * x[:, :1])
    return ms.Mesh(np.c_[3 * x[:, :1], ring * x[:, 1:]], sphere.faces)


def bend(mesh, degrees):
    """Bend the mesh upwards: the right end rotates and moves to the end of a circular arc of the same length."""
    handle, anchor = ends(mesh)
    angle, length = np.radians(degrees), np.ptp(mesh.vertices[:, 0])
    offset = length * np.array([np.sin(angle) / angle - 1, (1 - np.cos(angle)) / angle, 0]) if angle else np.zeros(3)
    c, s = np.cos(angle), np.sin(angle)
    x, middle = mesh.vertices[handle], mesh.vertices[handle].mean(axis=0)
    moved = (x - middle) @ [[c, s, 0], [-s, c, 0], [0, 0, 1]] + middle + offset
    rotations = np.zeros((len(handle) + len(anchor), 3))
    rotations[:len(handle)] = [0, 0, angle]
    editor = ms.apps.Deformation(mesh, np.r_[handle, anchor], method="poisson")
    return editor.move(np.r_[moved, mesh.vertices[anchor]], rotations=rotations)


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
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a caterpillar")
    parser.add_argument("--degrees", type=int, default=90, help="default: 90")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = largest_component(given.mesh) if given.mesh else caterpillar()
    bent = bend(mesh, given.degrees)
    if given.output:
        ms.apps.render(given.output, mesh, bent, captions=["before", f"right end rotated by {given.degrees} degrees"])
    return bent


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
