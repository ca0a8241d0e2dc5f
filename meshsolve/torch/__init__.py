"""Sparse solves, determinants, eigenvalues and mesh operators that PyTorch differentiates.

    x = ms.torch.solve(A, b)                    # A a sparse tensor, or (indices, values)
    w, X = ms.torch.eigsh(A, 8)
    i, v = ms.torch.cotan_laplacian(V, F)       # entries as functions of the positions V

PyTorch is imported when a function is called.
"""

from meshsolve.torch.meshes import cotan_laplacian, mass_matrix, mcf
from meshsolve.torch.solving import Solver, logdet, solve
from meshsolve.torch.spectra import eigsh

__all__ = ["Solver", "cotan_laplacian", "eigsh", "logdet", "mass_matrix", "mcf", "solve"]


def __dir__() -> list[str]:
    return __all__
