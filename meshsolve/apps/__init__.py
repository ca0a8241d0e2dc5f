"""Applications of the solvers: smoothing, flows, distances, direction fields, maps, deformation, graphs, pictures, circuits."""

import sys
import types

from meshsolve.apps import circuit
from meshsolve.apps.deformation import Deformation
from meshsolve.apps.denoising import denoise
from meshsolve.apps.direction_fields import direction_field
from meshsolve.apps.geodesics import Geodesics
from meshsolve.apps.graphs import label_propagation, pagerank, spectral_embedding
from meshsolve.apps.graphs.resistances import effective_resistances
from meshsolve.apps.maps import parameterize
from meshsolve.apps.mcf import Flow, mcf
from meshsolve.apps.render import render
from meshsolve.apps.skinning import skinning_weights
from meshsolve.apps.smoothing import smooth
from meshsolve.apps.viewer import view
from meshsolve.errors import InvalidInputError

__all__ = ["Deformation", "Flow", "Geodesics", "circuit", "denoise", "direction_field", "effective_resistances", "label_propagation", "mcf",
           "pagerank", "parameterize", "render", "skinning_weights", "smooth", "spectral_embedding", "view"]


class _Module(types.ModuleType):
    """A module of this package that is called in place of the function or class in it."""

    def __call__(self, *args: object, **options: object) -> None:
        names = [name for name in __all__ if getattr(globals()[name], "__module__", "").startswith(self.__name__)]
        raise InvalidInputError(f"{self.__name__} is a module: call meshsolve.apps." + " or meshsolve.apps.".join(names))


for _name in ("deformation", "denoising", "direction_fields", "geodesics", "graphs", "maps", "skinning", "smoothing"):
    sys.modules[f"{__name__}.{_name}"].__class__ = _Module
del _name


def __dir__() -> list[str]:
    return __all__
