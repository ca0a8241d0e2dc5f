"""Applications of the solvers: smoothing, mean curvature flow, pictures, circuits, a viewer."""

from meshsolve.apps import circuit
from meshsolve.apps.mcf import mcf, smooth
from meshsolve.apps.render import render
from meshsolve.apps.viewer import view

__all__ = ["circuit", "mcf", "render", "smooth", "view"]

def __dir__() -> list[str]:
    return __all__
