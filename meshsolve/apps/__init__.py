"""What people do with the solvers: smoothing, mean curvature flow, pictures, circuits."""

from meshsolve.apps import circuit
from meshsolve.apps.mcf import mcf, smooth
from meshsolve.apps.render import render

__all__ = ["circuit", "mcf", "render", "smooth"]
