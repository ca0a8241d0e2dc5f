"""Bend a surface: rotate the gradients of its coordinates, and solve a Poisson equation for the new surface.

    python poisson_editing.py [mesh.ply] [--degrees 90] [-o bent.png]

A harmonic field, 1 on the handle and 0 on the anchor, determines each triangle's share of the handle's rotation. The rotated
gradients are not the gradient of a surface. The surface with the closest gradients in the least-squares sense solves L x =
-divergence of the rotated gradients (Yu et al. 2004, "Mesh editing with Poisson-based gradient field manipulation"). One factor
with fixed rows serves the field and every edit. Unlike in Laplacian editing, details rotate with the surface.
"""

import argparse
import sys

import numpy as np
from scipy.spatial.transform import Rotation

import meshsolve as ms


class PoissonEditor:
    """A mesh whose ``handle`` rotates and moves while its ``anchor`` stays; both are arrays of vertex indices."""

    def __init__(self, mesh, handle, anchor):
        self.mesh, self.handle, self.fixed = mesh, handle, np.r_[handle, anchor]
        self.factor = ms.cholesky(ms.cotan_laplacian(mesh), fixed=self.fixed)
        ends = np.r_[np.ones(len(handle)), np.zeros(len(anchor))]
        share = self.factor.solve(np.zeros(len(mesh.vertices)), fixed_values=ends)
        self.share = share[mesh.faces].mean(axis=1)
        self.gradients = (ms.operators.gradient(mesh) @ mesh.vertices).reshape(3, -1, 3)       # (component, face, coordinate)
        self.divergence = ms.operators.divergence(mesh)

    def edit(self, turn=(0, 0, 0), offset=(0, 0, 0)):
        """Return the mesh with its handle rotated about its center by the vector ``turn`` (radians) and moved by ``offset``."""
        x, faces = self.mesh.vertices, self.mesh.faces
        turns = Rotation.from_rotvec(self.share[:, None] * turn).as_matrix()
        turned = np.einsum("fij,kfj->kfi", turns, self.gradients)
        b = -self.divergence @ turned.reshape(-1, 3)
        values, middle = x[self.fixed], x[self.handle].mean(axis=0)
        values[:len(self.handle)] = Rotation.from_rotvec(turn).apply(x[self.handle] - middle) + middle + offset
        return ms.Mesh(self.factor.solve(b, fixed_values=values), faces)


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
    editor, angle = PoissonEditor(mesh, *ends(mesh)), np.radians(degrees)
    length = np.ptp(mesh.vertices[:, 0])
    offset = length * np.array([np.sin(angle) / angle - 1, (1 - np.cos(angle)) / angle, 0]) if angle else np.zeros(3)
    return editor.edit(turn=[0, 0, angle], offset=offset)


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
