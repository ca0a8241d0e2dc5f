"""Data drawn on a mesh: a value, a color or texture coordinates for each vertex, face or corner, with a caption and a plot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

BINS = 60                           # bins of a histogram; it is about 300 pixels wide


class Plot(NamedTuple):
    """Curves of a plot: its title, the names of both axes, and name to (k,) values over ``first``, ``first + step`` and so on."""

    title: str
    x: str
    y: str
    curves: dict[str, np.ndarray]
    first: float = 1.0
    step: float = 1.0


@dataclass(frozen=True, eq=False)
class Coloring:
    """Values on the vertices, faces or corners of a mesh.

    Attributes
    ----------
    name : str
    values : (n,) or (m,) float64, or (n, 3) or (m, 3) float64 colors from 0 to 1, or (n, 2) or (3 m, 2) float64 texture coordinates
    on : {"vertices", "faces", "corners"}
    caption : str
        Description of the values and their range in one line.
    colormap : str
        Colormap of polyscope, for scalars.
    limits : (float, float) or None
        Values at the ends of the colormap; None: the smallest and largest value.
    lines : int
        Number of lines of equal values.
    pattern : {"checker", "local_rad"}
        For texture coordinates: a checkerboard, or circles around (0, 0) with colors by direction.
    vectors : (n, 3) float64 or None
        Arrows at the vertices; vectors of length 0 are not drawn.
    plot : Plot or None
    """

    name: str
    values: np.ndarray
    on: str = "vertices"
    caption: str = ""
    colormap: str = "viridis"
    limits: tuple[float, float] | None = None
    lines: int = 0
    pattern: str = "checker"
    vectors: np.ndarray | None = None
    plot: Plot | None = None

    @property
    def is_scalar(self):
        return self.values.ndim == 1

    def curves(self):
        """Return the :class:`Plot` of the view: its own, a histogram of scalar values, else None."""
        if self.plot is not None or not self.is_scalar:
            return self.plot
        count, edge = np.histogram(self.values, BINS, self.limits)
        return Plot("how often values occur", self.name, self.on, {self.on: count}, (edge[0] + edge[1]) / 2, edge[1] - edge[0])

    @property
    def is_texture(self):
        return self.values.shape[1:] == (2,)


def signed_limits(values):
    """Ends (-a, a) of a colormap with 0 in its middle; ``a`` is exceeded by one value in twenty."""
    largest = float(np.quantile(np.abs(values), 0.95)) if len(values) else 0.0
    return -(largest or 1.0), largest or 1.0


PALETTE = np.array([                # Tableau 20, lighter colors first; neighbors in the list differ in hue
    [0.68, 0.78, 0.91], [1.00, 0.73, 0.47], [0.60, 0.87, 0.54], [1.00, 0.60, 0.59], [0.77, 0.69, 0.84],
    [0.77, 0.61, 0.58], [0.97, 0.71, 0.82], [0.86, 0.86, 0.55], [0.62, 0.85, 0.90], [0.12, 0.47, 0.71],
    [1.00, 0.50, 0.05], [0.17, 0.63, 0.17], [0.84, 0.15, 0.16], [0.58, 0.40, 0.74], [0.55, 0.34, 0.29]])
