"""Iterations, conjugate gradients and SQMR, and what solutions tell about themselves."""

from meshsolve.krylov.cg import cg
from meshsolve.krylov.info import Info
from meshsolve.krylov.sqmr import sqmr

__all__ = ["Info", "cg", "sqmr"]
