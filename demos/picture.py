"""The pictures of the demos: a mesh in colours, drawn from back to front."""

import numpy as np


def colored(path, mesh, values, isolines=0, azimuth=30.0, elevation=18.0, colormap="viridis"):
    """Write a PNG of a mesh with a colour for each value of a vertex (n,) or a face (m,), grey where it is infinite; ``isolines`` stripes,
    if asked for."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.collections import PolyCollection

    a, e = np.radians(azimuth), np.radians(elevation)
    towards = np.array([np.sin(a) * np.cos(e), np.sin(e), np.cos(a) * np.cos(e)])
    right = np.array([np.cos(a), 0.0, -np.sin(a)])
    seen = mesh.vertices @ np.stack([right, np.cross(towards, right), towards]).T
    corners = seen[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    light = 0.45 + 0.55 * np.abs(normal[:, 2]) / np.linalg.norm(normal, axis=1).clip(1e-300)
    of_face = values[mesh.faces].mean(axis=1) if len(values) == len(mesh.vertices) else values
    known = np.isfinite(of_face)
    low, high = of_face.min(where=known, initial=np.inf), of_face.max(where=known, initial=-np.inf)
    share = (of_face[known] - low) / max(high - low, 1e-300)
    color = np.full((len(of_face), 3), 0.8)
    color[known] = pyplot.get_cmap(colormap)(share)[:, :3]
    if isolines:
        color[np.flatnonzero(known)[(share * 2 * isolines).astype(int) % 2 == 1]] *= 0.75
    color *= light[:, None]
    order = np.argsort(corners[:, :, 2].mean(axis=1))
    figure, axes = pyplot.subplots(figsize=(5, 5))
    axes.add_collection(PolyCollection(corners[order, :, :2], facecolors=color[order], edgecolors=color[order], linewidths=0.3))
    axes.autoscale()
    axes.set_aspect("equal")
    axes.set_axis_off()
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
