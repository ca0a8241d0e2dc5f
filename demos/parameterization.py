"""Flatten a surface: harmonic, conformal (LSCM), as rigid as possible (ARAP), and without flips (SLIM).

    python parameterization.py [mesh.ply] [-o flat.png]

A surface that is no disc is cut first. Sources: see ``ms.apps.parameterize``.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms

METHODS = {"harmonic": "harmonic", "lscm": "conformal (LSCM)", "arap": "as rigid as possible", "slim": "without flips (SLIM)"}


def flatten(mesh):
    """Return {title: uv} and the faces of all maps."""
    maps = {}
    for method, title in METHODS.items():
        maps[title], report = ms.apps.parameterize(mesh, method, cut=True)
    return maps, report.mesh.faces


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
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a wavy cap")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = largest_component(given.mesh) if given.mesh else cap()
    maps, faces = flatten(mesh)
    print(f"{len(mesh.vertices)} vertices, {faces.max() + 1 - len(mesh.vertices)} copies along cuts")
    if given.output:
        draw(maps, faces, given.output)
    return maps


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
