"""Iterations: conjugate gradients, SQMR and GMRES, and the record of a solution."""

from meshsolve.krylov.cg import cg
from meshsolve.krylov.gmres import gmres
from meshsolve.krylov.info import Info
from meshsolve.krylov.sqmr import sqmr

__all__ = ["Info", "cg", "gmres", "sqmr"]
