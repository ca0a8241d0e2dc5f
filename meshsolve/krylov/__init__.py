"""Iterations: conjugate gradients and SQMR, and the record of a solution."""

from meshsolve.krylov.cg import cg
from meshsolve.krylov.info import Info
from meshsolve.krylov.sqmr import sqmr

__all__ = ["Info", "cg", "sqmr"]
