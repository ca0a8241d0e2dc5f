"""Mean curvature flow of a dumbbell, and the conformalized flow, which has no singularities.

    python curvature_flow.py [mesh.ply] [--steps 150] [-o flow.png]

The plain flow shrinks thin parts to a thread. The conformalized flow keeps the Laplacian of the initial surface, so that a
surface of genus 0 becomes a round sphere (Kazhdan, Solomon, Ben-Chen 2012). Both need one analysis, and one refactorization per
step.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def dumbbell(level=5):
    """A sphere with a waist."""
    sphere = ms.datasets.icosphere(level)
    x = sphere.vertices
    return ms.Mesh(x * (0.4 + x[:, :1] ** 2) * [2, 1, 1], sphere.faces)


def roundness(mesh):
    """Standard deviation of the distances to the centroid, divided by their mean: 0 for a sphere."""
    mass = ms.mass_matrix(mesh).diagonal()
    radius = np.linalg.norm(mesh.vertices - mass @ mesh.vertices / mass.sum(), axis=1)
    return radius.std() / radius.mean()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a dumbbell")
    parser.add_argument("--steps", type=int, default=150, help="default: 150")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else dumbbell()
    plain, _ = ms.apps.mcf(mesh, steps=3, dt=0.01 * ms.mass_matrix(mesh).sum() / (4 * np.pi))
    sphere, report = ms.apps.mcf(mesh, steps=given.steps, conformal=True)
    print(report)
    print(f"roundness {roundness(mesh):.3f} -> {roundness(plain):.3f} (plain), {roundness(sphere):.3f} (conformalized)")
    if given.output:
        ms.apps.render(given.output, plain, sphere, captions=["plain, 3 steps", f"conformalized, {given.steps} steps"])
    return plain, sphere


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError, ValueError, IndexError) as e:
        sys.exit(f"error: {e}")
