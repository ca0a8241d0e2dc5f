"""A membrane under a load that is pressed against a plane: the minimum of a quadratic function with a bound.

    python obstacle.py [-n 100] [-o membrane.png]

ms.Quadratic refactors its matrix in each step of the interior point method. At the end active bounds hold exactly.
"""

import argparse
import sys

import numpy as np

import meshsolve as ms


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("-n", type=int, default=100, help="points along each side of the membrane; default: 100")
    parser.add_argument("-o", "--output", help="picture to write (.png)")
    given = parser.parse_args(arguments)
    A, load = ms.datasets.grid2d(given.n, given.n, boundary="dirichlet"), np.ones(given.n**2)
    free = ms.cholesky(A).solve(load)
    x, info = ms.Quadratic(A).minimize(load, upper=0.5 * free.max())
    touching = np.count_nonzero(info.active)
    print(f"{touching:,} of {len(x):,} points touch; KKT residual {info.kkt_residual:.1e} after {info.iterations} steps")
    if given.output:
        draw(given.output, free.reshape(given.n, -1), x.reshape(given.n, -1), info.active.reshape(given.n, -1) > 0)
    return x, info


def draw(path, free, x, touches):
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(8, 4))
    for axes, values, title in zip(panels, (free, x), ("without a bound", "x <= upper, dark: where they touch")):
        axes.imshow(values, cmap="viridis", vmin=0, vmax=free.max())
        axes.set_title(title, fontsize=10)
        axes.set_axis_off()
    panels[1].contourf(touches.astype(float), levels=[0.5, 1.5], colors=["#00000066"])
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)


if __name__ == "__main__":
    try:
        main()
    except (ms.MeshsolveError, OSError) as e:
        sys.exit(f"error: {e}")
