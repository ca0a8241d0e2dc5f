"""Drag a part of a surface: one factorization, then one solve for each position of the handle.

    python laplacian_editing.py [mesh.ply] [-o edited.png]

Handle and anchor vertices are fixed. The displacement d of the others minimizes the bi-Laplacian energy, L M^-1 L d = 0, which
keeps the details of the surface (Sorkine et al. 2004; Botsch and Kobbelt 2004). Details do not rotate with the surface.
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


class Editor:
    """A mesh whose ``handle`` moves while its ``anchor`` stays; both are arrays of vertex indices."""

    def __init__(self, mesh, handle, anchor):
        self.mesh, self.handle, self.fixed = mesh, handle, np.r_[handle, anchor]
        L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
        self.factor = ms.cholesky(L @ sp.diags_array(1 / M.diagonal()) @ L, fixed=self.fixed)

    def drag(self, offset):
        """Return the mesh with its handle moved by ``offset`` (3,)."""
        n = len(self.mesh.vertices)
        values = np.zeros((len(self.fixed), 3))
        values[:len(self.handle)] = offset
        return ms.Mesh(self.mesh.vertices + self.factor.solve(np.zeros((n, 3)), fixed_values=values), self.mesh.faces)


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
    given = parser.parse_args(arguments)
    mesh = largest_component(given.mesh) if given.mesh else ms.datasets.scan_like(10_000)
    editor = Editor(mesh, *ends(mesh))
    size = np.ptp(mesh.vertices, axis=0).max()
    for share in (0.1, 0.2, 0.3):                       # positions of a mouse drag; only the last one is drawn
        edited = editor.drag([share * size, 0.1 * size, 0])
    if given.output:
        ms.apps.render(given.output, mesh, edited, captions=["before", "the top dragged to the right"])
    return edited


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
