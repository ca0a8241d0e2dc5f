"""Generators of test problems: grids, graphs, circuits, indefinite systems, meshes; and a loader of matrix files.

Generators return a ``csr_array`` of float64 with sorted rows, or a :class:`meshsolve.Mesh`. The same arguments give the same bits.
Invalid arguments raise InvalidInputError. Problems that do not fit into memory raise OutOfMemoryError.
"""

from meshsolve.datasets.circuits import ladder, power_grid, rlc_mesh
from meshsolve.datasets.constrained import conformal_map, constrained_smoothing
from meshsolve.datasets.files import load_matrix
from meshsolve.datasets.graphs import delaunay, preferential, rmat, road_like
from meshsolve.datasets.grids import grid2d, grid3d
from meshsolve.datasets.indefinite import helmholtz, kkt, stokes
from meshsolve.datasets.scan import scan_like
from meshsolve.datasets.surfaces import cube, icosphere

__all__ = ["conformal_map", "constrained_smoothing", "cube", "delaunay", "grid2d", "grid3d", "helmholtz", "icosphere", "kkt",
           "ladder", "load_matrix", "power_grid", "preferential", "rlc_mesh", "rmat", "road_like", "scan_like", "stokes"]

def __dir__() -> list[str]:
    return __all__
