"""Data drawn on a mesh: a value or a color for each vertex or face, or texture coordinates of the corners, with a caption."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Coloring:
    """Values on the vertices, faces or corners of a mesh.

    Attributes
    ----------
    name : str
    values : (n,) or (m,) float64, or (n, 3) or (m, 3) float64 colors from 0 to 1, or (3 m, 2) float64 texture coordinates
    on : {"vertices", "faces", "corners"}
    caption : str
        Description of the values and their range in one line.
    colormap : str
        Colormap of polyscope, for scalars.
    limits : (float, float) or None
        Values at the ends of the colormap; None: the smallest and largest value.
    lines : int
        Number of lines of equal values.
    """

    name: str
    values: np.ndarray
    on: str = "vertices"
    caption: str = ""
    colormap: str = "viridis"
    limits: tuple[float, float] | None = None
    lines: int = 0

    @property
    def is_scalar(self):
        return self.values.ndim == 1


PALETTE = np.array([                # Tableau 20, lighter colors first; neighbors in the list differ in hue
    [0.68, 0.78, 0.91], [1.00, 0.73, 0.47], [0.60, 0.87, 0.54], [1.00, 0.60, 0.59], [0.77, 0.69, 0.84],
    [0.77, 0.61, 0.58], [0.97, 0.71, 0.82], [0.86, 0.86, 0.55], [0.62, 0.85, 0.90], [0.12, 0.47, 0.71],
    [1.00, 0.50, 0.05], [0.17, 0.63, 0.17], [0.84, 0.15, 0.16], [0.58, 0.40, 0.74], [0.55, 0.34, 0.29]])
