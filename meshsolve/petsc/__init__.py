"""Systems on more than one machine, by PETSc: two-level Schwarz methods, and our factors as preconditioners of PETSc programs.

    mpiexec -n 8 python script.py                   # in it: x, info = meshsolve.petsc.solve(A, b)

Needs PETSc, petsc4py and mpi4py, see docs/petsc.md. They are imported when a function is called.
"""

from meshsolve.petsc.contexts import Cholesky, Ildl, Parac
from meshsolve.petsc.distribute import matrix
from meshsolve.petsc.schwarz import Schwarz
from meshsolve.petsc.solving import SchwarzInfo, solve

__all__ = ["Cholesky", "Ildl", "Parac", "Schwarz", "SchwarzInfo", "matrix", "solve"]


def __dir__() -> list[str]:
    return __all__
