"""Flatten a surface with one boundary: the harmonic map to a disk, and least-squares conformal maps (LSCM).

    python parameterization.py [mesh.ply] [-o flat.png]

Harmonic: the boundary is mapped to a circle by arc length, L uv = 0 in the interior (Floater and Hormann 2005, section 2). LSCM:
the boundary is free and two vertices are fixed; the map minimizes the Dirichlet energy minus the area (Levy et al. 2002; Desbrun
et al.
2002).
"""

import argparse
import sys

import numpy as np
import scipy.sparse as sp

import meshsolve as ms


def boundary_loop(mesh):
    """Return the vertices of the only boundary loop, in order."""
    try:
        loops = mesh.boundary_loops()
    except ms.InvalidInputError as e:
        raise SystemExit(f"the mesh must have one boundary loop: {e}") from None
    if len(loops) != 1 or len(loops[0]) != len(mesh.boundary_vertices):
        raise SystemExit(f"the mesh must have one boundary loop that visits no vertex twice, got {len(loops)} loops with "
                         f"{len(mesh.boundary_vertices)} vertices")
    return loops[0]


def harmonic(mesh):
    """Positions (n, 2) in the unit disk."""
    loop = boundary_loop(mesh)
    length = np.linalg.norm(np.diff(mesh.vertices[np.r_[loop, loop[:1]]], axis=0), axis=1)
    angle = 2 * np.pi * np.r_[0, np.cumsum(length)[:-1]] / length.sum()
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    F = ms.cholesky(ms.cotan_laplacian(mesh), fixed=loop)
    return F.solve(np.zeros((len(mesh.vertices), 2)), fixed_values=circle)


def conformal(mesh):
    """Positions (n, 2); two distant boundary vertices are fixed at (0, 0) and (1, 0)."""
    n, loop = len(mesh.vertices), boundary_loop(mesh)
    i, j = loop, np.roll(loop, -1)
    one = np.full(len(loop), 0.5)
    cross = sp.coo_array((np.r_[one, -one], (np.r_[i, j], np.r_[j, i])), shape=(n, n))      # u^T cross v is the area enclosed
    L = ms.cotan_laplacian(mesh)
    energy = sp.block_array([[L, -cross], [-cross.T, L]])
    first = loop[0]
    second = loop[np.linalg.norm(mesh.vertices[loop] - mesh.vertices[first], axis=1).argmax()]
    F = ms.cholesky(energy, fixed=[first, second, n + first, n + second])
    return F.solve(np.zeros(2 * n), fixed_values=[0.0, 1.0, 0.0, 0.0]).reshape(2, n).T


def cap(level=4):
    """A wavy cap: the part of a sphere above a plane."""
    sphere = ms.datasets.icosphere(level)
    x = sphere.vertices
    faces = sphere.faces[(x[sphere.faces, 1] > -0.2).all(axis=1)]
    used, renumbered = np.unique(faces, return_inverse=True)
    x = x[used]
    return ms.Mesh(x * (1 + 0.15 * np.sin(4 * x[:, :1]) * np.cos(3 * x[:, 2:])), renumbered.reshape(-1, 3))


def draw(maps, faces, path):
    """Draw the flattened triangles of several maps side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(maps), figsize=(4 * len(maps), 4))
    for axes, (name, uv) in zip(panels, maps.items()):
        axes.triplot(uv[:, 0], uv[:, 1], faces, linewidth=0.3, color="#335577")
        axes.set_title(name)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_axis_off()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


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
    parser.add_argument("mesh", nargs="?", help="mesh file with one boundary; default: a wavy cap")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = largest_component(given.mesh) if given.mesh else cap()
    maps = {"harmonic": harmonic(mesh), "conformal (LSCM)": conformal(mesh)}
    print(f"{len(mesh.vertices)} vertices, {len(boundary_loop(mesh))} on the boundary")
    if given.output:
        draw(maps, mesh.faces, given.output)
    return maps


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
