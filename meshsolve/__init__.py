"""meshsolve: fast sparse solvers for meshes, graphs and circuits.

    import meshsolve as ms
    mesh = ms.load_mesh("scan.obj")
    L, M = ms.cotan_laplacian(mesh), ms.mass_matrix(mesh)
    F = ms.cholesky(M + 1e-3 * L, mesh=mesh)          # order, analyze, factor
    x = F.solve(M @ mesh.vertices)                    # one or many right-hand sides
    F.refactor(M + 2e-3 * L)                          # new values, same pattern
    x, info = ms.cg(L, b, M=ms.parac(L))              # large graphs: CG with an approximate factor
"""

import sys
from pkgutil import extend_path

# Python started in a checkout imports this folder, but the compiled core is only in the installed package: search both.
__path__ = extend_path(__path__, __name__)

from meshsolve import startup  # noqa: F401 (first, for Ctrl-C during the imports below)

# isort: split
from meshsolve import apps, batch, datasets, jax, operators, order, petsc, torch
from meshsolve.api import (
    Quadratic,
    QuadraticInfo,
    Symbolic,
    analyze,
    cholesky,
    factorized,
    ildl,
    ilu,
    lu,
    parac,
    schur_complement,
    scipy_solver,
    solve,
    spsolve,
)
from meshsolve.config import show_config
from meshsolve.eigen import EigenInfo, Eigenpairs, eigsh
from meshsolve.errors import (
    ConvergenceWarning,
    DeviceUnavailableError,
    InvalidInputError,
    MeshsolveError,
    MeshsolveWarning,
    NotLaplacianError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    OutOfMemoryError,
    PatternMismatchError,
    SingularMatrixError,
)
from meshsolve.factor.cholesky import CholeskyFactor
from meshsolve.factor.cholesky.batch import CholeskyBatch
from meshsolve.factor.cholesky.schur import SchurComplement
from meshsolve.factor.ildl import IldlFactor
from meshsolve.factor.ildl.batch import IldlBatch
from meshsolve.factor.ilu import IluFactor
from meshsolve.factor.lu import LUFactor
from meshsolve.factor.lu.batch import LUBatch
from meshsolve.factor.lu.schur import GeneralSchurComplement
from meshsolve.factor.parac import ParacFactor
from meshsolve.krylov import Info, cg, gmres, sqmr
from meshsolve.mesh import Mesh, load_mesh
from meshsolve.mesh.point_cloud import PointCloud
from meshsolve.mesh.polygon_mesh import PolygonMesh
from meshsolve.mesh.tets import TetMesh
from meshsolve.operators import cotan_laplacian, graph_laplacian, mass_matrix, normalized_laplacian
from meshsolve.order import Ordering
from meshsolve.patches import PatchMesh
from meshsolve.public import translate_memory_errors
from meshsolve.report import Report, showing_progress
from meshsolve.version import __version__

__all__ = [
    "CholeskyBatch", "CholeskyFactor", "ConvergenceWarning", "DeviceUnavailableError", "EigenInfo", "Eigenpairs",
    "GeneralSchurComplement", "IldlBatch", "IldlFactor", "IluFactor", "Info", "InvalidInputError", "LUBatch", "LUFactor", "Mesh",
    "MeshsolveError", "MeshsolveWarning", "NotLaplacianError", "NotPositiveDefiniteError", "NotSymmetricError", "Ordering",
    "OutOfMemoryError", "ParacFactor", "PatchMesh", "PatternMismatchError", "PointCloud", "PolygonMesh", "Quadratic",
    "QuadraticInfo", "Report", "SchurComplement", "SingularMatrixError", "Symbolic", "TetMesh", "__version__", "analyze", "apps",
    "batch", "cg", "cholesky", "cotan_laplacian", "datasets", "eigsh", "factorized", "gmres", "graph_laplacian", "ildl", "ilu",
    "jax", "load_mesh", "lu", "mass_matrix", "normalized_laplacian", "operators", "order", "parac", "petsc", "schur_complement",
    "scipy_solver", "show_config", "showing_progress", "solve", "spsolve", "sqmr", "torch",
]

translate_memory_errors(sys.modules[__name__], apps, apps.circuit, batch, datasets, jax, operators, order, petsc, torch)


def __dir__() -> list[str]:
    return __all__
