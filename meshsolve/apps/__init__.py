"""What people do with the solvers: smoothing, mean curvature flow, pictures."""

from meshsolve.apps.mcf import mcf, smooth
from meshsolve.apps.render import render

__all__ = ["mcf", "render", "smooth"]
