"""Applications of the solvers: smoothing, flows, distances, direction fields, maps, deformation, graphs, pictures, circuits."""

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

__all__ = ["Deformation", "Flow", "Geodesics", "circuit", "denoise", "direction_field", "effective_resistances", "label_propagation", "mcf",
           "pagerank", "parameterize", "render", "skinning_weights", "smooth", "spectral_embedding", "view"]

def __dir__() -> list[str]:
    return __all__
