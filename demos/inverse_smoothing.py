"""Undo smoothing: find the surface that a step of mean curvature flow turns into a given one, by gradient descent through the flow.

    python inverse_smoothing.py [mesh.ply] [--steps 100] [-o inverse.png]

ms.torch.mcf is differentiable, also through the Laplacian and the masses. A step of the descent costs a factorization and two solves.
Needs PyTorch.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def bumpy_ball():
    """A ball with bumps a few edges wide."""
    ball = ms.datasets.icosphere(5)
    return ball.with_vertices(ball.vertices * (1 + 0.06 * np.sin(9 * ball.vertices).prod(axis=1))[:, None])


def sharpened(mesh, dt, steps):
    """Return a mesh whose flow of one step ``dt`` is close to ``mesh``, and its largest distance from it before and after."""
    import torch

    target, F = torch.from_numpy(mesh.vertices.copy()), torch.from_numpy(mesh.faces.astype(np.int64))
    V = target.clone().requires_grad_()
    optimizer = torch.optim.Adam([V], lr=0.2 * float(mesh.edge_lengths.mean()))
    distances = []
    for _ in range(steps + 1):
        optimizer.zero_grad()
        difference = ms.torch.mcf(V, F, dt=dt) - target
        distances.append(float(difference.detach().norm(dim=1).max()))
        difference.square().sum().backward()
        optimizer.step()
    return mesh.with_vertices(V.detach().numpy()), distances[0], distances[-1]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("mesh", nargs="?", help="mesh file; default: a bumpy ball, smoothed")
    parser.add_argument("--steps", type=int, default=100, help="steps of the descent (default: 100)")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    mesh = ms.load_mesh(given.mesh) if given.mesh else ms.apps.mcf(bumpy_ball(), dt=0.02)[0]
    found, before, after = sharpened(mesh, mesh.edge_lengths.mean() ** 2, given.steps)
    print(f"largest distance of the smoothed surface from the given one: {before:.3g}, after {given.steps} steps {after:.3g}")
    if given.output:
        ms.apps.render(given.output, mesh, found, captions=["given", "found"])
    return found, before, after


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
